//! Hands out the records of the log that was found at open, oldest first.

use std::collections::VecDeque;
use std::sync::Arc;

use frond_base::{Lsn, Result};
use frond_vfs::{OpenHow, Vfs};

use crate::record::{Assembler, Record, Taken};
use crate::scan::SegmentReader;
use crate::segment::{read_header, Segment};

/// The records from the oldest kept segment to the end of the log. Memory: one window and the
/// largest record. Read it to its end (or drop it) before the first trim.
pub struct Recovered {
    vfs: Arc<dyn Vfs>,
    database: u64,
    /// All segments, for [`Recovered::rewind`].
    found: VecDeque<Segment>,
    segments: VecDeque<Segment>,
    end: Lsn,
    start: Lsn,
    reader: Option<SegmentReader>,
    /// Where the segment being read ends: there the next one starts.
    limit: Lsn,
    assembler: Assembler,
}

impl Recovered {
    /// `segments` are those found, without the one begun at open; the log ends at `end`.
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        database: u64,
        segments: VecDeque<Segment>,
        end: Lsn,
    ) -> Recovered {
        Recovered {
            vfs,
            database,
            start: segments.front().map_or(end, |s| s.start),
            found: segments.clone(),
            segments,
            end,
            reader: None,
            limit: 0,
            assembler: Assembler::default(),
        }
    }

    /// Starts over from the oldest segment: recovery reads the log twice.
    pub fn rewind(&mut self) {
        self.segments = self.found.clone();
        self.reader = None;
        self.limit = 0;
        self.assembler = Assembler::default();
    }

    /// LSN of the first byte kept: records below it are gone.
    pub fn start(&self) -> Lsn {
        self.start
    }

    /// LSN where the log ends.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// The next record; `None` at the end of the log. Bytes before it that do not verify are an
    /// error of kind `Corruption`; each later call returns the same error.
    #[allow(clippy::should_implement_trait)] // The record borrows from here.
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        self.next_of(|_| true)
    }

    /// [`Recovered::next`] of the kinds that are wanted; others are verified, but not unpacked.
    pub fn next_of(&mut self, wanted: impl Fn(u8) -> bool) -> Result<Option<Record<'_>>> {
        loop {
            if self.reader.as_ref().is_none_or(|r| r.position() >= self.limit) {
                if !self.open_next()? {
                    return Ok(None);
                }
                continue;
            }
            let Some(reader) = &mut self.reader else { continue };
            let at = reader.position();
            let (taken, end) = match reader.frame()? {
                Ok(frame) if frame.end > self.limit => {
                    (Err("a log record reaches into the next segment"), at)
                }
                Ok(frame) => {
                    let wanted = wanted(frame.header.kind);
                    let taken = self.assembler.take(frame.lsn, &frame.header, frame.stored, wanted);
                    (taken, frame.end)
                }
                Err(bad) => (Err(bad.describe()), at),
            };
            match taken {
                Ok(Taken::Nothing) => {}
                Ok(Taken::Whole(kind, _)) if !wanted(kind) => {}
                Ok(Taken::Whole(kind, lsn)) => {
                    let payload = self.assembler.payload();
                    return Ok(Some(Record { lsn, end, kind, payload }));
                }
                Err(what) => {
                    reader.seek(at);
                    return Err(reader.corruption(what));
                }
            }
        }
    }

    fn open_next(&mut self) -> Result<bool> {
        let Some(segment) = self.segments.front() else { return Ok(false) };
        let (header, file) =
            read_header(&*self.vfs, segment.number, Some(self.database), OpenHow::READ)?;
        // Only now that its header was read: after an error the next call reports the same segment.
        self.segments.pop_front();
        if header.restart {
            self.assembler.abandon();
        }
        self.limit = self.segments.front().map_or(self.end, |s| s.start);
        self.reader = Some(SegmentReader::new(header, file));
        Ok(true)
    }
}
