//! Reads the frames of one segment front to back, and looks ahead behind bytes that do not verify.
//!
//! Memory is one window of [`WINDOW`] bytes; nothing is allocated by what the file says. Tells "not
//! a frame" (for the caller to judge: end of log or damage) from failing reads (an error).

use std::sync::Arc;

use frond_base::{Error, Lsn, Result};
use frond_vfs::VfsFile;

use crate::format::{
    frame_bytes, payload_hash, FrameHeader, NotAFrame, SegmentHeader, FRAME_HEADER, MAX_CHUNK,
};
use crate::segment::{log_name, read_full};

/// Bytes read at once: little at first, doubled with every read. More than a frame in the end.
const FIRST_WINDOW: usize = 16 << 10;
const WINDOW: usize = 1 << 20;
const _: () = assert!(WINDOW > FRAME_HEADER + MAX_CHUNK);

/// A frame as read.
pub struct Frame<'a> {
    pub lsn: Lsn,
    pub end: Lsn,
    pub header: FrameHeader,
    pub stored: &'a [u8],
}

/// What is found at a position that holds no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bad {
    /// The frame's header does not verify, or the file ends before it does.
    Header,
    /// The header verifies, the payload does not, or the file ends before it does.
    Payload,
    /// The header verifies, but its fields make no sense.
    Fields,
}

impl Bad {
    pub fn describe(self) -> &'static str {
        match self {
            Bad::Header => "the header of a log record does not verify",
            Bad::Payload => "the contents of a log record do not verify",
            Bad::Fields => "a log record has impossible fields",
        }
    }
}

pub struct SegmentReader {
    file: Arc<dyn VfsFile>,
    pub name: String,
    pub header: SegmentHeader,
    seed: u64,
    next: Lsn,
    window: Vec<u8>,
    /// Size of the next read.
    ahead: usize,
    /// LSN of the first byte of the window.
    window_at: Lsn,
}

impl SegmentReader {
    pub fn new(header: SegmentHeader, file: Arc<dyn VfsFile>) -> SegmentReader {
        SegmentReader {
            file,
            name: log_name(header.number),
            seed: header.seed(),
            header,
            next: header.start,
            window: Vec::new(),
            ahead: FIRST_WINDOW,
            window_at: header.start,
        }
    }

    /// LSN of the next frame.
    pub fn position(&self) -> Lsn {
        self.next
    }

    /// File offset of the next frame, for messages.
    pub fn offset(&self) -> u64 {
        self.header.offset(self.next)
    }

    /// Damage at the next frame.
    pub fn corruption(&self, what: &str) -> Error {
        let place = format!("offset {} (LSN {}): {what}", self.offset(), self.next);
        Error::corruption(&self.name, place)
    }

    /// Makes the window hold `n` bytes from `lsn` on, or all there are. Returns where they begin in
    /// it and how many there are, at most `n`.
    fn fill(&mut self, lsn: Lsn, n: usize) -> Result<(usize, usize)> {
        let held = self.window_at + self.window.len() as u64;
        if lsn < self.window_at || lsn + n as u64 > held {
            self.window.resize(self.ahead.max(n), 0);
            self.ahead = WINDOW.min(self.ahead * 2);
            let offset = self.header.offset(lsn);
            let got = read_full(&*self.file, &mut self.window, offset)
                .map_err(|e| Error::io("read", &self.name, e))?;
            self.window.truncate(got);
            self.window_at = lsn;
        }
        let at = (lsn - self.window_at) as usize;
        Ok((at, n.min(self.window.len() - at)))
    }

    fn header_at(&mut self, lsn: Lsn) -> Result<Option<[u8; FRAME_HEADER]>> {
        let (at, _) = self.fill(lsn, FRAME_HEADER)?;
        Ok(self.window[at..].first_chunk().copied())
    }

    /// Reads the next frame and moves behind it; stays where it is when there is none.
    pub fn frame(&mut self) -> Result<std::result::Result<Frame<'_>, Bad>> {
        let lsn = self.next;
        let Some(bytes) = self.header_at(lsn)? else { return Ok(Err(Bad::Header)) };
        let header = match FrameHeader::decode(&bytes, self.seed, lsn) {
            Ok(header) => header,
            Err(NotAFrame::Check) => return Ok(Err(Bad::Header)),
            Err(NotAFrame::Fields) => return Ok(Err(Bad::Fields)),
        };
        let stored = header.stored as usize;
        let (at, got) = self.fill(lsn, FRAME_HEADER + stored)?;
        let payload = at + FRAME_HEADER..at + got;
        if payload.len() != stored
            || payload_hash(&self.window[payload.clone()], self.header.database)
                != header.payload_hash
        {
            return Ok(Err(Bad::Payload));
        }
        self.next = lsn + frame_bytes(stored) as u64;
        Ok(Ok(Frame { lsn, end: self.next, header, stored: &self.window[payload] }))
    }

    /// Looks from `from` to the end of the file for a frame header that verifies and that `wanted`
    /// accepts. Every position is tried: what lies before may be of any length.
    pub fn find_header(
        &mut self,
        from: Lsn,
        mut wanted: impl FnMut(Lsn, &FrameHeader) -> bool,
    ) -> Result<Option<Lsn>> {
        let mut lsn = from;
        loop {
            let (at, got) = self.fill(lsn, self.ahead)?;
            if got < FRAME_HEADER {
                return Ok(None);
            }
            let bytes = &self.window[at..at + got];
            let mut i = 0;
            while let Some(candidate) = bytes[i..].first_chunk::<FRAME_HEADER>() {
                // Zeros are what an unwritten segment holds: do not hash them.
                if candidate[..8] != [0; 8] && FrameHeader::plausible(candidate) {
                    let here = lsn + i as u64;
                    if let Ok(header) = FrameHeader::decode(candidate, self.seed, here) {
                        if wanted(here, &header) {
                            return Ok(Some(here));
                        }
                    }
                }
                i += 8;
            }
            lsn += i as u64;
        }
    }

    /// Whether the frames read so far reach beyond `end`, where the segment's successor starts, or one
    /// lies there.
    pub fn goes_on_at(&mut self, end: Lsn) -> Result<bool> {
        if self.next > end {
            return Ok(true);
        }
        let at = self.next;
        let goes_on = at == end && self.frame()?.is_ok();
        self.next = at;
        Ok(goes_on)
    }

    /// Moves to a position found by [`SegmentReader::find_header`].
    pub fn seek(&mut self, lsn: Lsn) {
        self.next = lsn;
    }
}
