//! Cuts one direction's bytes into the protocol's packets: a header of length (3) and sequence
//! number (1), then the payload.
//!
//! Invariants
//!
//! - FR1. A packet within one segment is yielded in place; only packets that span segments are
//!   copied, and no more of them than the given limit.
//! - FR2. `begun` describes the first byte of a packet's header: the time of an answer is
//!   the time of that byte, however long the packet is.

use super::unpack::Unpacker;
use crate::bytes::le24;
use crate::stream::Piece;

/// Capacity of the buffer that a connection keeps between its packets.
const MOST_KEPT: usize = 4 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub length: u32,
    pub sequence: u8,
    pub begun: Piece,
    /// Bytes of the payload are missing; the yielded part ends before them.
    pub torn: bool,
}

/// The meaning of the next bytes.
#[derive(Debug)]
pub(super) enum Part<'b> {
    /// The header of a packet; its payload comes with the next calls.
    Header(Header),
    /// A packet is complete: its header (yielded before) and the beginning of its payload.
    Whole(Header, &'b [u8]),
    /// A packet is complete, and the beginning of its payload is what `gathered` holds.
    Gathered(Header),
    /// A packet without payload.
    Empty(Header),
    /// Part of a packet.
    More,
}

#[derive(Default)]
pub(super) struct Framing {
    /// The next byte's place in the protocol is known.
    pub synced: bool,
    pub unpacker: Option<Unpacker>,
    pub gathered: Vec<u8>,
    bytes: [u8; 4],
    header_length: usize,
    header: Option<Header>,
    begun: Option<Piece>,
    left: usize,
}

impl Framing {
    /// The next bytes begin a packet.
    pub(super) fn restart(&mut self) {
        self.header_length = 0;
        self.header = None;
        self.left = 0;
        self.gathered = Vec::new();
        if let Some(unpacker) = &mut self.unpacker {
            unpacker.restart();
        }
    }

    /// Keeps the buffer for reuse unless it is large: a connection that sent one long statement
    /// must not keep that memory for good.
    pub(super) fn keep(&mut self, gathered: Vec<u8>) {
        if gathered.capacity() <= MOST_KEPT {
            self.gathered = gathered;
        }
    }

    /// True if no packet is open.
    pub(super) fn at_boundary(&self) -> bool {
        self.header_length == 0 && self.unpacker.as_ref().is_none_or(Unpacker::at_boundary)
    }

    /// `length` bytes are missing. `None`: they reach beyond the open packet's payload, so the
    /// position in the protocol is lost. Otherwise the packet continues behind them. If a header is
    /// returned, the packet is complete, and `gathered` has its beginning.
    pub(super) fn skip(&mut self, length: u64) -> Option<Option<Header>> {
        let header = self.header.as_mut()?;
        self.left = self.left.checked_sub(usize::try_from(length).ok()?)?;
        header.torn = true;
        if self.left > 0 {
            return Some(None);
        }
        self.header_length = 0;
        Some(self.header.take())
    }

    /// The open packet, whose rest is still to come.
    pub(super) fn open_packet(&self) -> Option<Header> {
        self.header
    }

    /// Reads from `bytes`, which must not be empty; `piece` describes the first of them. Returns
    /// what was found and how many bytes it used.
    #[inline]
    pub(super) fn next<'b>(
        &mut self,
        bytes: &'b [u8],
        piece: Piece,
        limit: usize,
    ) -> (Part<'b>, usize) {
        if let Some(header) = self.header {
            return self.payload(header, bytes, limit);
        }
        if self.header_length == 0 {
            self.begun = Some(piece);
            if let [a, b, c, sequence, ..] = *bytes {
                let length = u32::from_le_bytes([a, b, c, 0]);
                return (self.open(Header { length, sequence, begun: piece, torn: false }), 4);
            }
        }
        let count = bytes.len().min(4 - self.header_length);
        self.bytes[self.header_length..][..count].copy_from_slice(&bytes[..count]);
        self.header_length += count;
        if self.header_length < 4 {
            return (Part::More, count);
        }
        let length = le24(&self.bytes, 0).unwrap_or(0);
        let begun = self.begun.unwrap_or(piece);
        (self.open(Header { length, sequence: self.bytes[3], begun, torn: false }), count)
    }

    #[inline]
    fn open<'b>(&mut self, header: Header) -> Part<'b> {
        if header.length == 0 {
            self.header_length = 0;
            return Part::Empty(header);
        }
        self.header_length = 4;
        self.left = header.length as usize;
        self.header = Some(header);
        self.gathered.clear();
        Part::Header(header)
    }

    #[inline]
    fn payload<'b>(&mut self, header: Header, bytes: &'b [u8], limit: usize) -> (Part<'b>, usize) {
        let count = bytes.len().min(self.left);
        let part = &bytes[..count];
        let whole = count == header.length as usize;
        self.left -= count;
        if self.left == 0 {
            self.header_length = 0;
            self.header = None;
        }
        if whole {
            return (Part::Whole(header, &part[..count.min(limit)]), count);
        }
        let room = if header.torn { 0 } else { limit.saturating_sub(self.gathered.len()) };
        self.gathered.extend_from_slice(&part[..count.min(room)]);
        (if self.left > 0 { Part::More } else { Part::Gathered(header) }, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(at: u64) -> Piece {
        Piece { time: at as i64, at, acknowledged: 0, offset: 0 }
    }

    fn cut(stream: &[u8], size: usize, limit: usize) -> Vec<(u8, i64, Vec<u8>)> {
        let mut framing = Framing::default();
        let mut out = Vec::new();
        for (index, segment) in stream.chunks(size).enumerate() {
            let mut rest = segment;
            while !rest.is_empty() {
                let (part, used) = framing.next(rest, piece(index as u64), limit);
                let (header, payload) = match part {
                    Part::Whole(header, payload) => (Some(header), payload.to_vec()),
                    Part::Gathered(header) => (Some(header), framing.gathered.clone()),
                    Part::Empty(header) => (Some(header), Vec::new()),
                    Part::Header(_) | Part::More => (None, Vec::new()),
                };
                if let Some(header) = header {
                    out.push((header.sequence, header.begun.time, payload));
                }
                rest = &rest[used..];
            }
        }
        assert!(framing.at_boundary());
        out
    }

    #[test]
    fn packets_are_the_same_however_the_bytes_are_cut() {
        let stream = b"\x03\0\0\x00abc\0\0\0\x01\x05\0\0\x02defgh";
        for size in 1..stream.len() + 1 {
            let got = cut(stream, size, 100);
            let payloads: Vec<&[u8]> = got.iter().map(|p| &p.2[..]).collect();
            assert_eq!(payloads, [&b"abc"[..], b"", b"defgh"], "by {size}");
            // A packet's time is that of its header's first byte.
            let times: Vec<i64> = got.iter().map(|p| p.1).collect();
            assert_eq!(times, [0, 7 / size as i64, 11 / size as i64]);
        }
    }

    #[test]
    fn no_more_than_the_limit_is_kept() {
        let stream = [&b"\x00\x10\0\x07"[..], &[b'x'; 4096]].concat();
        for size in [1, 1000, 5000] {
            assert_eq!(cut(&stream, size, 10)[0].2, b"xxxxxxxxxx");
        }
    }
}
