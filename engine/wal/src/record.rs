//! Payloads and chunks: a record's payload is cut, packed where that shrinks it, and put together
//! again.

use frond_base::{ByteReader, Lsn};

use crate::format::{
    payload_hash, FrameHeader, FIRST, LAST, MARKER, MAX_CHUNK, MAX_PAYLOAD, PACKED,
};

/// Payloads up to this size are stored as they are: packing gains little and costs more.
pub const PACK_FLOOR: usize = 1024;
/// Memory kept between records by an assembler.
const KEEP_BYTES: usize = 1 << 20;

/// A record ready to be appended: cut into chunks, packed, hashed. Made outside every lock.
pub struct Prepared<'a> {
    pub(crate) kind: u8,
    pub(crate) chunks: Vec<Chunk>,
    raw: &'a [u8],
    packed: Vec<u8>,
}

pub(crate) struct Chunk {
    pub flags: u8,
    /// Range of `packed` or of `raw`, by the flag.
    from: usize,
    len: usize,
    pub hash: u64,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(kind: u8, payload: &'a [u8], chunk_bytes: usize, database: u64) -> Self {
        let mut out = Prepared { kind, chunks: Vec::new(), raw: payload, packed: Vec::new() };
        let mut scratch = Vec::new();
        let mut from = 0;
        loop {
            let raw = &payload[from..payload.len().min(from + chunk_bytes)];
            let mut flags = if from == 0 { FIRST } else { 0 };
            let end = from + raw.len();
            if end == payload.len() {
                flags |= LAST;
            }
            let packed = pack(raw, &mut scratch);
            let hash = payload_hash(packed.unwrap_or(raw), database);
            let chunk = match packed {
                Some(bytes) => {
                    let at = out.packed.len();
                    out.packed.extend_from_slice(bytes);
                    Chunk { flags: flags | PACKED, from: at, len: bytes.len(), hash }
                }
                None => Chunk { flags, from, len: raw.len(), hash },
            };
            out.chunks.push(chunk);
            from = end;
            if from == payload.len() {
                return out;
            }
        }
    }

    pub(crate) fn stored(&self, chunk: &Chunk) -> &[u8] {
        let from = if chunk.flags & PACKED != 0 { &self.packed[..] } else { self.raw };
        &from[chunk.from..chunk.from + chunk.len]
    }
}

/// The packed form of a chunk, or `None` where it is not at least a sixteenth shorter.
fn pack<'s>(raw: &[u8], scratch: &'s mut Vec<u8>) -> Option<&'s [u8]> {
    if raw.len() <= PACK_FLOOR {
        return None;
    }
    scratch.resize(4 + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
    scratch[..4].copy_from_slice(&(raw.len() as u32).to_le_bytes());
    let n = 4 + lz4_flex::block::compress_into(raw, &mut scratch[4..]).ok()?;
    (n < raw.len() - raw.len() / 16).then(|| &scratch[..n])
}

/// A record read back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// LSN of its first frame.
    pub lsn: Lsn,
    /// LSN behind its last frame.
    pub end: Lsn,
    pub kind: u8,
    pub payload: &'a [u8],
}

/// Puts records together from frames in stream order.
#[derive(Default)]
pub(crate) struct Assembler {
    payload: Vec<u8>,
    /// Kind and LSN of the record under construction.
    open: Option<(u8, Lsn)>,
    /// A first frame was seen: from then on the frames must form whole records. Before, they may be
    /// the end of a record whose beginning was trimmed away.
    begun: bool,
}

/// What a frame did.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// No record is complete by it.
    Nothing,
    /// A record is complete: kind and first LSN; its payload is in the assembler.
    Whole(u8, Lsn),
}

impl Assembler {
    /// The next frame. The payload of a record that is not `wanted` is not unpacked.
    pub fn take(
        &mut self,
        lsn: Lsn,
        header: &FrameHeader,
        stored: &[u8],
        wanted: bool,
    ) -> Result<Taken, &'static str> {
        if header.kind == MARKER {
            return Ok(Taken::Nothing);
        }
        if header.flags & FIRST != 0 {
            if self.open.is_some() {
                return Err("a log record begins inside another one");
            }
            self.begun = true;
            self.open = Some((header.kind, lsn));
            self.payload.clear();
            self.payload.shrink_to(KEEP_BYTES);
        }
        let Some((kind, first)) = self.open else {
            return if self.begun {
                Err("a log record lacks its beginning")
            } else {
                Ok(Taken::Nothing)
            };
        };
        if kind != header.kind {
            return Err("a log record changes its kind");
        }
        if !wanted {
            // Only where it begins and ends matters.
        } else if header.flags & PACKED != 0 {
            self.unpack(stored)?;
        } else {
            self.payload.extend_from_slice(stored);
        }
        if self.payload.len() > MAX_PAYLOAD {
            return Err("a log record is too long");
        }
        if header.flags & LAST == 0 {
            return Ok(Taken::Nothing);
        }
        self.open = None;
        Ok(Taken::Whole(kind, first))
    }

    fn unpack(&mut self, stored: &[u8]) -> Result<(), &'static str> {
        const BAD: &str = "the packed contents of a log record do not unpack";
        let mut r = ByteReader::new(stored);
        let raw = r.u32().map_err(|_| BAD)? as usize;
        let block = r.take(r.remaining()).map_err(|_| BAD)?;
        if raw > MAX_CHUNK {
            return Err(BAD);
        }
        let at = self.payload.len();
        self.payload.resize(at + raw, 0);
        match lz4_flex::block::decompress_into(block, &mut self.payload[at..]) {
            Ok(n) if n == raw => Ok(()),
            _ => Err(BAD),
        }
    }

    /// LSN of the record that is not complete yet.
    pub fn unfinished(&self) -> Option<Lsn> {
        self.open.map(|(_, lsn)| lsn)
    }

    /// Gives up the record under construction: its end was never written.
    pub fn abandon(&mut self) {
        self.open = None;
    }

    /// After frames were lost: what comes next may be the middle of a record.
    pub fn lost_frames(&mut self) {
        self.open = None;
        self.begun = false;
    }

    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(payload: &[u8], chunk: usize) -> usize {
        let prepared = Prepared::new(9, payload, chunk, 1);
        let mut a = Assembler::default();
        let mut stored = 0;
        for (i, c) in prepared.chunks.iter().enumerate() {
            let bytes = prepared.stored(c);
            stored += bytes.len();
            let header = FrameHeader {
                stored: bytes.len() as u32,
                kind: 9,
                flags: c.flags,
                promised: None,
                payload_hash: c.hash,
            };
            let taken = a.take(i as u64, &header, bytes, true).unwrap();
            let whole = i + 1 == prepared.chunks.len();
            assert_eq!(taken, if whole { Taken::Whole(9, 0) } else { Taken::Nothing });
        }
        assert_eq!(a.payload(), payload);
        stored
    }

    #[test]
    fn payloads_of_all_sizes_come_back() {
        for len in [0, 1, 7, 8, 1024, 1025, 4096, 4097, 8192, 100_000] {
            let noise: Vec<u8> =
                (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            round_trip(&noise, 4096);
            let stored = round_trip(&vec![b'a'; len], 4096);
            assert!(len <= PACK_FLOOR || stored < len / 10 + 64, "{len} bytes stored as {stored}");
        }
    }

    #[test]
    fn frames_that_form_no_record_are_refused() {
        let frame =
            |flags| FrameHeader { stored: 0, kind: 1, flags, promised: None, payload_hash: 0 };
        let mut a = Assembler::default();
        // The end of a record that was trimmed away.
        assert_eq!(a.take(0, &frame(0), b"", true), Ok(Taken::Nothing));
        assert_eq!(a.take(8, &frame(LAST), b"x", true), Ok(Taken::Nothing));
        assert_eq!(a.take(16, &frame(FIRST), b"", true), Ok(Taken::Nothing));
        assert!(a.take(24, &frame(FIRST), b"", true).is_err());
        assert!(a.take(24, &FrameHeader { kind: 2, ..frame(LAST) }, b"", true).is_err());
        a.abandon();
        assert!(a.take(32, &frame(LAST), b"", true).is_err());
        a.lost_frames();
        assert_eq!(a.take(32, &frame(LAST), b"", true), Ok(Taken::Nothing));
    }

    #[test]
    fn a_packed_chunk_cannot_expand_beyond_its_bound() {
        let packed = FrameHeader {
            stored: 0,
            kind: 1,
            flags: FIRST | LAST | PACKED,
            promised: None,
            payload_hash: 0,
        };
        for stored in [&b""[..], b"\xff\xff\xff\x7f\x10a", b"\x05\0\0\0\x10a", b"\0\0\0\0\x10a"] {
            let mut a = Assembler::default();
            assert!(a.take(0, &packed, stored, true).is_err(), "{stored:?}");
        }
    }
}
