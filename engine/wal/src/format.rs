//! The bytes of the log.
//!
//! A segment is one file, `log.<8 digits>.frl`: a header block of 4096 bytes, then frames back to
//! back. Numbers are little-endian.
//!
//! ```text
//! header   0  8  magic "FRONDLOG"            frame   0  8  check: hash of bytes 8..24, seeded
//!          8  4  format version (1)                  8  3  stored length of the payload, bytes
//!         12  4  flags: 1 = restart                 11  1  kind (0 = marker, no payload)
//!         16  8  database                           12  1  flags: 1 first, 2 last, 4 packed
//!         24  4  segment number                     13  3  promise
//!         28  4  zero                               16  8  payload hash, seeded by the database
//!         32  8  start LSN                          24  n  payload, then zeros to a multiple of 8
//!         40 ..  zeros
//!       4088  8  hash of bytes 0..4088
//! ```
//!
//! **LSN.** The log is one stream of frames; headers and the unused ends of segments are not
//! counted. The frame at LSN `p` of a segment starting at LSN `s` lies at file offset `4096 + p -
//! s`. LSNs of frames are multiples of 8. A segment ends where the next one starts, and only there:
//! what lies behind that point in its file is a leftover.
//!
//! **Record.** One or more frames of one kind, the first flagged `first`, the last `last`, nothing
//! in between. Each carries a chunk of at most [`MAX_CHUNK`] bytes of the record's payload; a
//! `packed` chunk is its raw length (u32) and an LZ4 block. A frame never spans segments, a record
//! may.
//!
//! **Check.** The seed of a frame's check is derived from database, segment number and LSN. A
//! segment number is never used twice and an LSN never twice within a segment, so a frame left over
//! from a file's earlier use, or from another place, does not verify where it lies.
//!
//! **Promise.** `(lsn - promised) / 8`, where everything below `promised` was durable when the
//! frame was written; all ones says nothing. A segment's header promises everything below its start
//! LSN. So bytes that do not verify are the torn end of the log unless something behind them
//! promises them: then they were durable once, and are damaged.
//!
//! **Restart.** The segment was begun by opening the log after it ended at the start LSN: a record
//! whose last frame was never written ends there.

use frond_base::{checksum64_seeded, ByteReader, Error, ErrorKind, Lsn, Result, ShortInput};

/// Bytes before the first frame of a segment.
pub const HEADER_BYTES: u64 = 4096;
/// Bytes before the payload of a frame.
pub const FRAME_HEADER: usize = 24;
/// Most payload bytes a frame stands for (and most that it stores).
pub const MAX_CHUNK: usize = 128 << 10;
/// Most payload bytes of a record.
pub const MAX_PAYLOAD: usize = 2 << 30;
/// The kind of frames that carry only a promise.
pub const MARKER: u8 = 0;

pub const FIRST: u8 = 1;
pub const LAST: u8 = 2;
pub const PACKED: u8 = 4;

const MAGIC: &[u8; 8] = b"FRONDLOG";
const VERSION: u32 = 1;
const RESTART: u32 = 1;
const NO_PROMISE: u64 = 0xff_ffff;
/// Seeds: arbitrary, part of the format.
const HEADER_SEED: u64 = 0x6672_6f6e_6468_6472;
const SEGMENT_SEED: u64 = 0x6672_6f6e_6473_6567;
const LSN_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    pub database: u64,
    pub number: u32,
    pub start: Lsn,
    pub restart: bool,
}

impl SegmentHeader {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES as usize);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(if self.restart { RESTART } else { 0 }).to_le_bytes());
        out.extend_from_slice(&self.database.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&self.start.to_le_bytes());
        out.resize(HEADER_BYTES as usize - 8, 0);
        let hash = checksum64_seeded(&out, HEADER_SEED);
        out.extend_from_slice(&hash.to_le_bytes());
        out
    }

    /// Decodes a whole header block of the file `name`.
    pub fn decode(block: &[u8], name: &str) -> Result<SegmentHeader> {
        let short = |e: ShortInput| e.in_file(name, "segment header");
        let bad = |what: &str| Error::corruption(name, format_args!("segment header: {what}"));
        let mut r = ByteReader::new(block);
        let body = r.take(HEADER_BYTES as usize - 8).map_err(short)?;
        let hash = r.u64().map_err(short)?;
        let mut r = ByteReader::new(body);
        if r.take(8).map_err(short)? != MAGIC {
            return Err(bad("not a log segment"));
        }
        // The version comes before the hash: a newer format may hash differently.
        let version = r.u32().map_err(short)?;
        if version != VERSION && version != 0 && version < 0x1_0000 {
            return Err(Error::new(
                ErrorKind::UnsupportedFormat,
                format!(
                    "{name}: log format {version}, this release reads {VERSION}; use a newer one"
                ),
            ));
        }
        if hash != checksum64_seeded(body, HEADER_SEED) {
            return Err(bad("checksum does not match"));
        }
        let flags = r.u32().map_err(short)?;
        let database = r.u64().map_err(short)?;
        let number = r.u32().map_err(short)?;
        let zero = r.u32().map_err(short)?;
        let start = r.u64().map_err(short)?;
        let rest = r.take(r.remaining()).map_err(short)?;
        let sane = version == VERSION && zero == 0 && rest.iter().all(|&b| b == 0);
        // The bound keeps sums of LSNs and lengths from overflowing.
        if !sane || flags & !RESTART != 0 || start % 8 != 0 || start > 1 << 62 {
            return Err(bad("impossible fields"));
        }
        Ok(SegmentHeader { database, number, start, restart: flags & RESTART != 0 })
    }

    /// The seed of the segment's frames.
    pub fn seed(&self) -> u64 {
        segment_seed(self.database, self.number)
    }

    /// File offset of an LSN.
    pub fn offset(&self, lsn: Lsn) -> u64 {
        HEADER_BYTES + (lsn - self.start)
    }
}

pub fn segment_seed(database: u64, number: u32) -> u64 {
    let mut id = [0; 12];
    id[..8].copy_from_slice(&database.to_le_bytes());
    id[8..].copy_from_slice(&number.to_le_bytes());
    checksum64_seeded(&id, SEGMENT_SEED)
}

/// Hash of a stored payload. Bound to its place through the check, which covers it.
#[inline]
pub fn payload_hash(stored: &[u8], database: u64) -> u64 {
    checksum64_seeded(stored, database)
}

/// Bytes that a frame takes in the log.
#[inline]
pub fn frame_bytes(stored: usize) -> usize {
    FRAME_HEADER + stored.next_multiple_of(8)
}

/// The header of a frame, without its check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    pub stored: u32,
    pub kind: u8,
    pub flags: u8,
    /// Everything below was durable when the frame was written.
    pub promised: Option<Lsn>,
    pub payload_hash: u64,
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAFrame {
    /// The check does not match: never written here, torn or damaged.
    Check,
    /// The check matches, but no release writes such fields.
    Fields,
}

#[inline]
fn check(fields: &[u8], seed: u64, lsn: Lsn) -> u64 {
    checksum64_seeded(fields, seed ^ lsn.wrapping_mul(LSN_FACTOR))
}

fn word(bytes: &[u8; FRAME_HEADER], at: usize) -> u64 {
    let mut w = [0; 8];
    w.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(w)
}

impl FrameHeader {
    #[inline]
    pub fn encode(&self, seed: u64, lsn: Lsn) -> [u8; FRAME_HEADER] {
        let back = match self.promised {
            Some(p) => ((lsn - p) / 8).min(NO_PROMISE),
            None => NO_PROMISE,
        };
        let fields = u64::from(self.stored)
            | u64::from(self.kind) << 24
            | u64::from(self.flags) << 32
            | back << 40;
        let mut out = [0; FRAME_HEADER];
        out[8..16].copy_from_slice(&fields.to_le_bytes());
        out[16..].copy_from_slice(&self.payload_hash.to_le_bytes());
        let hash = check(&out[8..], seed, lsn);
        out[..8].copy_from_slice(&hash.to_le_bytes());
        out
    }

    #[inline]
    pub fn decode(
        bytes: &[u8; FRAME_HEADER],
        seed: u64,
        lsn: Lsn,
    ) -> std::result::Result<FrameHeader, NotAFrame> {
        let fields = word(bytes, 8);
        if word(bytes, 0) != check(&bytes[8..], seed, lsn) {
            return Err(NotAFrame::Check);
        }
        let back = fields >> 40;
        let promised = match back {
            NO_PROMISE => None,
            _ => Some(lsn.checked_sub(back * 8).ok_or(NotAFrame::Fields)?),
        };
        let header = FrameHeader {
            stored: (fields & 0xff_ffff) as u32,
            kind: (fields >> 24) as u8,
            flags: (fields >> 32) as u8,
            promised,
            payload_hash: word(bytes, 16),
        };
        let marker_is_bare =
            header.kind != MARKER || (header.stored, header.flags) == (0, FIRST | LAST);
        let known = header.flags & !(FIRST | LAST | PACKED) == 0;
        if header.stored as usize > MAX_CHUNK || !known || !marker_is_bare {
            return Err(NotAFrame::Fields);
        }
        Ok(header)
    }

    /// Whether bytes may be a frame's header at all: a cheap filter before hashing.
    #[inline]
    pub fn plausible(bytes: &[u8; FRAME_HEADER]) -> bool {
        let fields = word(bytes, 8);
        (fields & 0xff_ffff) as usize <= MAX_CHUNK && (fields >> 32) as u8 <= FIRST | LAST | PACKED
    }
}

/// Writes a newer promise into the encoded frame at `lsn`.
pub fn renew_promise(bytes: &mut [u8; FRAME_HEADER], seed: u64, lsn: Lsn, promised: Lsn) {
    let back = ((lsn - promised) / 8).min(NO_PROMISE);
    let fields = word(bytes, 8) & 0xff_ffff_ffff | back << 40;
    bytes[8..16].copy_from_slice(&fields.to_le_bytes());
    let hash = check(&bytes[8..], seed, lsn);
    bytes[..8].copy_from_slice(&hash.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: SegmentHeader =
        SegmentHeader { database: 0x1234_5678_9abc, number: 7, start: 8000, restart: true };

    #[test]
    fn segment_header_round_trips_and_every_damaged_byte_is_noticed() {
        let block = HEADER.encode();
        assert_eq!(block.len() as u64, HEADER_BYTES);
        assert_eq!(SegmentHeader::decode(&block, "x").unwrap(), HEADER);
        for at in 0..block.len() {
            let mut bad = block.clone();
            bad[at] ^= 0x10;
            let e = SegmentHeader::decode(&bad, "x").unwrap_err();
            let newer = (8..12).contains(&at) && e.kind() == ErrorKind::UnsupportedFormat;
            assert!(newer || e.kind() == ErrorKind::Corruption, "byte {at}: {e}");
        }
        assert!(SegmentHeader::decode(&block[..4000], "x").is_err());
        assert!(SegmentHeader::decode(&[0; 4096], "x").is_err());
    }

    #[test]
    fn a_newer_format_is_told_from_damage_whatever_it_hashes() {
        let with_version = |version: u32, sealed: bool| {
            let mut block = HEADER.encode();
            block[8..12].copy_from_slice(&version.to_le_bytes());
            if sealed {
                let body = block.len() - 8;
                let hash = checksum64_seeded(&block[..body], HEADER_SEED);
                block[body..].copy_from_slice(&hash.to_le_bytes());
            }
            SegmentHeader::decode(&block, "log.7").unwrap_err()
        };
        for sealed in [true, false] {
            let e = with_version(VERSION + 1, sealed);
            assert_eq!(e.kind(), ErrorKind::UnsupportedFormat, "{e}");
            let says = format!("log.7: log format {}", VERSION + 1);
            assert!(e.to_string().contains(&says), "{e}");
            // Versions that no release writes are damage, not a newer format.
            for version in [0, 0x1_0000] {
                let e = with_version(version, sealed);
                assert_eq!(e.kind(), ErrorKind::Corruption, "{version}: {e}");
            }
        }
    }

    #[test]
    fn frame_header_is_bound_to_database_segment_and_lsn() {
        let frame = FrameHeader {
            stored: 100,
            kind: 3,
            flags: FIRST | PACKED,
            promised: Some(800),
            payload_hash: 0xfeed,
        };
        let seed = segment_seed(1, 2);
        let bytes = frame.encode(seed, 1600);
        assert_eq!(FrameHeader::decode(&bytes, seed, 1600), Ok(frame));
        assert_eq!(FrameHeader::decode(&bytes, seed, 1608), Err(NotAFrame::Check));
        for other in [segment_seed(1, 3), segment_seed(2, 2)] {
            assert_eq!(FrameHeader::decode(&bytes, other, 1600), Err(NotAFrame::Check));
        }
        for bit in 0..FRAME_HEADER * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(&bad, seed, 1600), Err(NotAFrame::Check));
        }
        assert_eq!(FrameHeader::decode(&[0; FRAME_HEADER], seed, 0), Err(NotAFrame::Check));
    }

    #[test]
    fn a_promise_too_far_back_says_nothing_instead_of_too_much() {
        let frame = FrameHeader {
            stored: 0,
            kind: 1,
            flags: FIRST | LAST,
            promised: Some(0),
            payload_hash: 0,
        };
        for (lsn, want) in
            [(0, Some(0)), (8 * 0xff_fffe, Some(0)), (8 * 0xff_ffff, None), (1 << 40, None)]
        {
            let mut bytes = frame.encode(5, lsn);
            assert_eq!(FrameHeader::decode(&bytes, 5, lsn).map(|f| f.promised), Ok(want));
            renew_promise(&mut bytes, 5, lsn, lsn - lsn.min(80));
            let renewed = FrameHeader::decode(&bytes, 5, lsn).unwrap();
            assert_eq!(renewed, FrameHeader { promised: Some(lsn - lsn.min(80)), ..frame });
        }
    }

    #[test]
    fn fields_that_no_release_writes_are_told_from_torn_ones() {
        let good =
            FrameHeader { stored: 8, kind: 1, flags: FIRST, promised: None, payload_hash: 0 };
        let odd = [
            FrameHeader { stored: MAX_CHUNK as u32 + 1, ..good },
            FrameHeader { flags: 8, ..good },
            FrameHeader { kind: MARKER, ..good },
        ];
        for frame in odd {
            assert_eq!(FrameHeader::decode(&frame.encode(1, 64), 1, 64), Err(NotAFrame::Fields));
        }
        // A distance that reaches below the start of the log.
        let mut bytes = FrameHeader { promised: Some(0), ..good }.encode(1, 64);
        renew_promise(&mut bytes, 1, 64, 0);
        let moved = FrameHeader { promised: Some(64), ..good }.encode(1, 128);
        let mut forged = moved;
        forged[13] = 200;
        let hash = check(&forged[8..], 1, 128);
        forged[..8].copy_from_slice(&hash.to_le_bytes());
        assert_eq!(FrameHeader::decode(&forged, 1, 128), Err(NotAFrame::Fields));
    }
}
