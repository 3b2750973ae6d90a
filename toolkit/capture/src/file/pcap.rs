//! The classic capture format.
//!
//! File header: magic (4), version (4), zone (4), accuracy (4), snapshot length (4), link type (4;
//! the upper bits say how long the frame check sequence is). Record: seconds (4), fraction (4),
//! captured length (4), length on the wire (4), bytes. The magic's byte order is that of every
//! field; its value says whether the fraction is micro- or nanoseconds. A variant ("modified" pcap)
//! has 8 more bytes in each record header.

use super::{Link, Packet, Step};
use crate::bytes::{be32, le32};

pub(super) const FILE_HEADER: usize = 24;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

pub(super) struct Pcap {
    big_endian: bool,
    nanoseconds: bool,
    record_header: usize,
    link: Link,
    started: bool,
}

impl Pcap {
    pub(super) fn recognise(head: &[u8]) -> bool {
        let magics = [MICROSECONDS, NANOSECONDS, MODIFIED];
        [be32(head, 0), le32(head, 0)].iter().flatten().any(|m| magics.contains(m))
    }

    /// The parser for a file that begins with `head`, for which `recognise` returned true.
    pub(super) fn new(head: &[u8]) -> Result<Self, String> {
        let cut = || "the capture ends within its first 24 bytes: it holds no packet".to_string();
        let little = le32(head, 0).ok_or_else(cut)?;
        let big_endian = ![MICROSECONDS, NANOSECONDS, MODIFIED].contains(&little);
        let field = |at| if big_endian { be32(head, at) } else { le32(head, at) };
        let magic = field(0).ok_or_else(cut)?;
        let number = field(20).ok_or_else(cut)? & 0xffff;
        let link = Link::from_number(number).ok_or_else(|| {
            format!(
                "the capture's link type {number} is not supported (Ethernet, Linux cooked, raw IP \
                 and loopback are): capture again with `tcpdump -i any` or on an Ethernet interface"
            )
        })?;
        Ok(Pcap {
            big_endian,
            nanoseconds: magic == NANOSECONDS,
            record_header: if magic == MODIFIED { 24 } else { 16 },
            link,
            started: false,
        })
    }

    #[inline]
    fn field(&self, bytes: &[u8], at: usize) -> Option<u32> {
        if self.big_endian {
            be32(bytes, at)
        } else {
            le32(bytes, at)
        }
    }

    pub(super) fn step<'a>(&mut self, bytes: &'a [u8], offset: u64) -> Step<'a> {
        if !self.started {
            if bytes.len() < FILE_HEADER {
                return Step::More(FILE_HEADER);
            }
            self.started = true;
            return Step::Pass(FILE_HEADER);
        }
        let Some(header) = self.header(bytes) else { return Step::More(self.record_header) };
        if header.whole > super::LIMIT {
            return Step::Broken("a record is longer than any packet can be");
        }
        if !header.is_possible() {
            return Step::Broken("what should be a record is none");
        }
        self.record(&header, bytes, offset)
    }

    /// The fields of a record's header; `None`: it is incomplete.
    #[inline]
    pub(super) fn header(&self, bytes: &[u8]) -> Option<Header> {
        let field = |at| self.field(bytes, at);
        let (seconds, fraction) = (field(0)?, field(4)?);
        let (captured, wire) = (field(8)?, field(12)?);
        let nanoseconds = i64::from(fraction) * if self.nanoseconds { 1 } else { 1000 };
        Some(Header {
            time: i64::from(seconds) * SECOND + nanoseconds,
            nanoseconds,
            captured,
            wire,
            whole: self.record_header + captured as usize,
        })
    }

    /// The record with this header at the beginning of `bytes`.
    #[inline]
    pub(super) fn record<'a>(&self, header: &Header, bytes: &'a [u8], offset: u64) -> Step<'a> {
        let Some(data) = bytes.get(self.record_header..header.whole) else {
            return Step::More(header.whole);
        };
        let packet = Packet {
            time: header.time,
            link: self.link,
            data,
            wire_length: header.wire.max(header.captured),
            offset,
        };
        Step::Packet(packet, header.whole)
    }
}

/// A second in nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// The header of a record.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub time: i64,
    /// The time's part below a second.
    nanoseconds: i64,
    pub captured: u32,
    pub wire: u32,
    /// Bytes of the record with its header.
    pub whole: usize,
}

impl Header {
    /// False for headers that no program writes: a fraction above one second, or a packet of
    /// no bytes on the wire (a hole in a file reads as zeros).
    #[inline]
    pub(super) fn is_possible(&self) -> bool {
        self.nanoseconds < SECOND && (self.wire | self.captured) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read_all;
    use super::super::Link;
    use super::*;

    /// A file with two packets; the second was cut when it was captured.
    fn file(magic: u32, big_endian: bool, link: u32) -> Vec<u8> {
        let word = |v: u32| if big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
        let mut out: Vec<u8> = [magic, 0x0002_0004, 0, 0, 65535, link].map(word).concat();
        for (seconds, fraction, wire) in [(1_239_562_813, 107_039, 5), (2, 999_999, 500)] {
            out.extend([seconds, fraction, 5, wire].map(word).concat());
            out.extend(vec![0; if magic == MODIFIED { 8 } else { 0 }]);
            out.extend(b"aaaab");
        }
        out
    }

    #[test]
    fn both_byte_orders_both_units_and_long_headers_give_the_same_packets() {
        for magic in [MICROSECONDS, NANOSECONDS, MODIFIED] {
            for big_endian in [false, true] {
                for piece in [1, 7, 1000] {
                    let bytes = file(magic, big_endian, 0x1000_0001);
                    let (packets, outcome, skips, _) = read_all(&bytes, piece);
                    assert!(outcome.is_ok() && skips.is_empty(), "{magic:x} {big_endian}");
                    assert_eq!(packets.len(), 2);
                    let unit = if magic == NANOSECONDS { 1 } else { 1000 };
                    assert_eq!(packets[0].time, 1_239_562_813_000_000_000 + 107_039 * unit);
                    assert_eq!(packets[0].link, Link::Ethernet);
                    assert_eq!(packets[1].data, b"aaaab");
                    assert_eq!((packets[0].wire_length, packets[1].wire_length), (5, 500));
                }
            }
        }
    }

    #[test]
    fn a_file_cut_within_a_record_gives_the_packets_before_it() {
        let bytes = file(MICROSECONDS, false, 1);
        let (packets, outcome, skips, _) = read_all(&bytes[..bytes.len() - 1], 64);
        assert_eq!(packets.len(), 1);
        assert!(outcome.is_ok());
        assert_eq!((skips[0].place.offset, skips[0].bytes), (24 + 21, 20));
    }

    #[test]
    fn an_absurd_record_length_ends_the_file_with_its_place() {
        let mut bytes = file(MICROSECONDS, false, 1);
        bytes[24 + 21 + 8..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
        let (packets, outcome, ..) = read_all(&bytes, 11);
        assert_eq!(packets.len(), 1);
        assert!(outcome.unwrap_err().contains("byte 45"));
    }

    #[test]
    fn an_unsupported_link_type_is_named() {
        let (_, outcome, ..) = read_all(&file(MICROSECONDS, false, 105), 100);
        assert!(outcome.unwrap_err().contains("link type 105"));
    }
}
