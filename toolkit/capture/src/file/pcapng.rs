//! The block-structured capture format.
//!
//! Every block: type (4), length (4), body, the length again (4); lengths count the whole block and
//! are multiples of 4. A section header block has the byte order of the section, and the interface
//! blocks after it number the interfaces from 0. Packets are in enhanced packet blocks, in the
//! obsolete packet blocks, or in simple packet blocks, which have no time and are only counted.
//! Interface statistics say how many packets the capturing side lost. Other blocks are skipped.
//!
//! Times count units of `if_tsresol`: a power of ten, or of two if its upper bit is set;
//! `if_tsoffset` seconds are added.

use super::{Link, Packet, Step, Told};
use crate::bytes::{be16, be32, le16, le32};

pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const BYTE_ORDER: u32 = 0x1a2b_3c4d;

const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// More interfaces than any machine has; a file may hold a description per 20 bytes.
const MOST_INTERFACES: usize = 4096;

#[derive(Clone, Copy)]
struct Interface {
    link: Option<Link>,
    resolution: u8,
    /// Seconds.
    time_offset: i64,
    /// From the last statistics block of this interface.
    dropped: u64,
}

pub(super) struct Pcapng {
    big_endian: bool,
    interfaces: Vec<Interface>,
    pub(super) told: Told,
}

impl Pcapng {
    pub(super) fn new() -> Self {
        Pcapng { big_endian: false, interfaces: Vec::new(), told: Told::default() }
    }

    #[inline]
    fn u16(&self, bytes: &[u8], at: usize) -> Option<u16> {
        if self.big_endian {
            be16(bytes, at)
        } else {
            le16(bytes, at)
        }
    }

    #[inline]
    fn u32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        if self.big_endian {
            be32(bytes, at)
        } else {
            le32(bytes, at)
        }
    }

    fn u64(&self, bytes: &[u8], at: usize) -> Option<u64> {
        let (first, second) = (self.u32(bytes, at)?, self.u32(bytes, at + 4)?);
        let (high, low) = if self.big_endian { (first, second) } else { (second, first) };
        Some(u64::from(high) << 32 | u64::from(low))
    }

    pub(super) fn step<'a>(&mut self, bytes: &'a [u8], offset: u64) -> Step<'a> {
        if bytes.starts_with(&SECTION_HEADER) {
            match be32(bytes, 8) {
                None => return Step::More(12),
                Some(BYTE_ORDER) => self.big_endian = true,
                Some(order) if order.swap_bytes() == BYTE_ORDER => self.big_endian = false,
                Some(_) => return Step::Broken("a section has no valid byte order"),
            }
            self.interfaces.clear();
        }
        let (Some(kind), Some(length)) = (self.u32(bytes, 0), self.u32(bytes, 4)) else {
            return Step::More(8);
        };
        let length = length as usize;
        if length < 12 || !length.is_multiple_of(4) || length > super::LIMIT {
            return Step::Broken("a block's length cannot be right");
        }
        let Some(block) = bytes.get(..length) else { return Step::More(length) };
        let body = &block[8..length - 4];
        match kind {
            INTERFACE => {
                if self.interfaces.len() == MOST_INTERFACES {
                    return Step::Broken("it describes more than 4096 interfaces");
                }
                match self.interface(body) {
                    Some(interface) => self.interfaces.push(interface),
                    None => return Step::Broken("an interface's description is cut"),
                }
                Step::Pass(length)
            }
            ENHANCED_PACKET | OLD_PACKET => match self.packet(kind, body, offset) {
                Some(Ok(packet)) => Step::Packet(packet, length),
                Some(Err(())) => {
                    self.told.unusable += 1;
                    Step::Pass(length)
                }
                None => Step::Bad(length),
            },
            SIMPLE_PACKET => {
                self.told.unusable += 1;
                Step::Pass(length)
            }
            STATISTICS => {
                self.statistics(body);
                Step::Pass(length)
            }
            _ => Step::Pass(length),
        }
    }

    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let link = Link::from_number(u32::from(self.u16(body, 0)?));
        let mut interface = Interface { link, resolution: 6, time_offset: 0, dropped: 0 };
        for (code, value) in self.options(body.get(8..)?) {
            match code {
                9 => interface.resolution = value.first().copied().unwrap_or(6),
                14 => interface.time_offset = self.u64(value, 0).unwrap_or(0) as i64,
                _ => {}
            }
        }
        Some(interface)
    }

    fn statistics(&mut self, body: &[u8]) {
        let Some(number) = self.u32(body, 0) else { return };
        let options = body.get(12..).unwrap_or_default();
        // Codes 5 and 7: dropped by the interface, dropped by the operating system. They are
        // totals, and a file may have several such blocks.
        let mut dropped = 0u64;
        for (code, value) in self.options(options) {
            if matches!(code, 5 | 7) {
                dropped = dropped.saturating_add(self.u64(value, 0).unwrap_or(0));
            }
        }
        if let Some(interface) = self.interfaces.get_mut(number as usize) {
            let more = dropped.saturating_sub(interface.dropped);
            interface.dropped += more;
            self.told.dropped = self.told.dropped.saturating_add(more);
        }
    }

    fn options<'a>(&'a self, mut bytes: &'a [u8]) -> impl Iterator<Item = (u16, &'a [u8])> + 'a {
        std::iter::from_fn(move || {
            let code = self.u16(bytes, 0)?;
            let length = usize::from(self.u16(bytes, 2)?);
            let value = bytes.get(4..4 + length)?;
            if code == 0 {
                return None;
            }
            bytes = bytes.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
            Some((code, value))
        })
    }

    /// `None`: the block contradicts itself. `Some(Err)`: a packet of an unknown link type.
    fn packet<'a>(&self, kind: u32, body: &'a [u8], offset: u64) -> Option<Result<Packet<'a>, ()>> {
        let number = match kind {
            ENHANCED_PACKET => self.u32(body, 0)? as usize,
            _ => usize::from(self.u16(body, 0)?),
        };
        let interface = self.interfaces.get(number)?;
        let stamp = u64::from(self.u32(body, 4)?) << 32 | u64::from(self.u32(body, 8)?);
        let captured = self.u32(body, 12)?;
        let wire = self.u32(body, 16)?;
        let data = body.get(20..)?.get(..captured as usize)?;
        let Some(link) = interface.link else { return Some(Err(())) };
        Some(Ok(Packet {
            time: nanoseconds(stamp, interface.resolution, interface.time_offset),
            link,
            data,
            wire_length: wire.max(captured),
            offset,
        }))
    }
}

/// Converts a stamp in units of `resolution` to nanoseconds since the epoch; absurd values saturate.
fn nanoseconds(stamp: u64, resolution: u8, offset: i64) -> i64 {
    let base = match resolution {
        6 => i64::try_from(stamp).ok().and_then(|s| s.checked_mul(1000)),
        9 => i64::try_from(stamp).ok(),
        r if r & 0x80 != 0 => {
            let units = (u128::from(stamp) * 1_000_000_000) >> (r & 0x7f);
            i64::try_from(units).ok()
        }
        r if r < 9 => i64::try_from(u128::from(stamp) * 10u128.pow(u32::from(9 - r))).ok(),
        r => i64::try_from(stamp / 10u64.checked_pow(u32::from(r - 9)).unwrap_or(u64::MAX)).ok(),
    };
    let offset = offset.saturating_mul(1_000_000_000);
    base.unwrap_or(i64::MAX / 2).saturating_add(offset)
}

#[cfg(test)]
mod tests {
    use super::super::tests::read_all;
    use super::*;

    struct Writer {
        big_endian: bool,
        out: Vec<u8>,
    }

    impl Writer {
        fn w(&self, v: u32) -> [u8; 4] {
            if self.big_endian {
                v.to_be_bytes()
            } else {
                v.to_le_bytes()
            }
        }

        fn h(&self, v: u16) -> [u8; 2] {
            if self.big_endian {
                v.to_be_bytes()
            } else {
                v.to_le_bytes()
            }
        }

        fn block(&mut self, kind: u32, body: &[u8]) {
            let mut body = body.to_vec();
            body.resize(body.len().next_multiple_of(4), 0);
            let length = self.w(body.len() as u32 + 12);
            self.out.extend(self.w(kind));
            self.out.extend(length);
            self.out.extend(body);
            self.out.extend(length);
        }

        fn section(&mut self) {
            let body = [&self.w(BYTE_ORDER)[..], &self.h(1), &self.h(0), &[0xff; 8]].concat();
            let kind = u32::from_be_bytes(SECTION_HEADER);
            self.block(kind, &body);
        }

        fn interface(&mut self, link: u16, options: &[(u16, &[u8])]) {
            let mut body = [&self.h(link)[..], &self.h(0), &self.w(0)].concat();
            self.options(&mut body, options);
            self.block(INTERFACE, &body);
        }

        fn options(&self, body: &mut Vec<u8>, options: &[(u16, &[u8])]) {
            for (code, value) in options {
                body.extend(self.h(*code));
                body.extend(self.h(value.len() as u16));
                body.extend_from_slice(value);
                body.resize(body.len().next_multiple_of(4), 0);
            }
            if !options.is_empty() {
                body.extend([0; 4]);
            }
        }

        fn packet(&mut self, interface: u32, stamp: u64, data: &[u8], wire: u32) {
            let mut body = self.w(interface).to_vec();
            for v in [(stamp >> 32) as u32, stamp as u32, data.len() as u32, wire] {
                body.extend(self.w(v));
            }
            body.extend_from_slice(data);
            self.block(ENHANCED_PACKET, &body);
        }
    }

    #[test]
    fn interfaces_have_their_own_link_type_and_clock() {
        for big_endian in [false, true] {
            let mut w = Writer { big_endian, out: Vec::new() };
            w.section();
            w.interface(1, &[]);
            w.interface(113, &[(2, b"eth0"), (9, &[9])]);
            let offset = if big_endian { 5u64.to_be_bytes() } else { 5u64.to_le_bytes() };
            w.interface(101, &[(9, &[0x80 | 10]), (14, &offset)]);
            w.interface(147, &[]);
            w.packet(0, 1_500_000, b"abc", 3);
            w.packet(1, 1_500_000_007, b"abcde", 9);
            w.packet(2, 1536, b"", 0);
            w.packet(3, 1, b"x", 1);
            w.block(SIMPLE_PACKET, &[0; 8]);
            w.block(0x0bad, b"unknown block");
            for piece in [1, 5, 4096] {
                let (packets, outcome, skips, told) = read_all(&w.out, piece);
                assert!(outcome.is_ok() && skips.is_empty());
                let times: Vec<i64> = packets.iter().map(|p| p.time).collect();
                assert_eq!(times, [1_500_000_000, 1_500_000_007, 6_500_000_000]);
                assert_eq!(packets[1].link, Link::Sll);
                assert_eq!((packets[1].data.len(), packets[1].wire_length), (5, 9));
                assert_eq!(told.unusable, 2);
            }
        }
    }

    #[test]
    fn a_new_section_forgets_the_interfaces_and_may_change_the_byte_order() {
        let mut w = Writer { big_endian: false, out: Vec::new() };
        w.section();
        w.interface(1, &[]);
        w.packet(0, 1, b"a", 1);
        w.big_endian = true;
        w.section();
        w.interface(101, &[]);
        w.packet(0, 2, b"b", 1);
        w.packet(1, 3, b"no such interface", 17);
        let (packets, outcome, skips, _) = read_all(&w.out, 64);
        assert!(outcome.is_ok());
        let links: Vec<Link> = packets.iter().map(|p| p.link).collect();
        assert_eq!(links, [Link::Ethernet, Link::Raw]);
        assert_eq!(skips.len(), 1);
    }

    #[test]
    fn packets_the_kernel_dropped_are_told() {
        let mut w = Writer { big_endian: false, out: Vec::new() };
        w.section();
        w.interface(1, &[]);
        for total in [40u64, 70] {
            let mut body = [0; 12].to_vec();
            w.options(&mut body, &[(4, &9u64.to_le_bytes()), (5, &total.to_le_bytes())]);
            w.block(STATISTICS, &body);
        }
        assert_eq!(read_all(&w.out, 64).3.dropped, 70);
    }

    #[test]
    fn lengths_that_cannot_be_right_end_the_file() {
        for length in [0u32, 8, 13, !3] {
            let mut w = Writer { big_endian: false, out: Vec::new() };
            w.section();
            w.out.extend(6u32.to_le_bytes());
            w.out.extend(length.to_le_bytes());
            w.out.extend([0; 64]);
            let (packets, outcome, ..) = read_all(&w.out, 64);
            assert!(packets.is_empty());
            assert!(outcome.unwrap_err().contains("byte 28"));
        }
    }

    #[test]
    fn absurd_times_and_resolutions_do_not_overflow() {
        for resolution in 0..=255u8 {
            for stamp in [0, 1, u64::MAX] {
                nanoseconds(stamp, resolution, i64::MIN);
                nanoseconds(stamp, resolution, i64::MAX);
            }
        }
        assert_eq!(nanoseconds(3, 3, 0), 3_000_000);
        assert_eq!(nanoseconds(3_000, 12, 0), 3);
    }
}
