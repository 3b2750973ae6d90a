//! From a captured packet to a TCP segment: link layer, VLAN tags, IPv4, IPv6, TCP header.
//!
//! Invariants
//!
//! - PK1. `payload` has the captured bytes, `wire_length` the number of bytes sent. With a short snapshot
//!   length `payload.len() < wire_length`, and the difference is a gap in the connection.
//! - PK2. Fragments of IP datagrams are never put together: they are counted, and their payload is
//!   a gap in the connection's sequence. (TCP avoids fragments; they are seen in tunnels only.)
//!
//! Checksums are not verified: offloading makes them wrong in most captures.

use super::bytes::{be16, be32};
use super::file::{Link, Packet};

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

/// The default port of MariaDB and MySQL.
pub(crate) const DEFAULT_PORT: u16 = 3306;

/// An address and a port. IPv4 addresses are mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Endpoint {
    pub address: u128,
    pub port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    /// Nanoseconds since the epoch, UTC.
    pub time: i64,
    pub from: Endpoint,
    pub to: Endpoint,
    pub sequence: u32,
    pub acknowledged: u32,
    pub flags: u8,
    pub payload: &'a [u8],
    pub wire_length: u32,
    /// Offset in the file.
    pub offset: u64,
}

/// Why a packet is not a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// Another protocol: nothing is wrong.
    NotTcp,
    Fragment,
    /// The packet is too short or too damaged for its headers to be read.
    Unreadable,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;

pub(super) fn segment<'a>(packet: &Packet<'a>) -> Result<Segment<'a>, Other> {
    let data = packet.data;
    match packet.link {
        Link::Ethernet => {
            let kind = be16(data, 12).ok_or(Other::Unreadable)?;
            network(packet, kind, 14)
        }
        Link::Sll => {
            let kind = be16(data, 14).ok_or(Other::Unreadable)?;
            network(packet, kind, 16)
        }
        Link::Sll2 => {
            let kind = be16(data, 0).ok_or(Other::Unreadable)?;
            network(packet, kind, 20)
        }
        // The address family's number depends on the capturing system; the IP version does not.
        Link::Loopback => ip(packet, 4),
        Link::Raw => ip(packet, 0),
        Link::Unknown => guess(packet),
    }
}

/// Reads the payload of type `kind` at `at`, passing over VLAN tags and PPPoE.
fn network<'a>(packet: &Packet<'a>, mut kind: u16, mut at: usize) -> Result<Segment<'a>, Other> {
    for _ in 0..4 {
        match kind {
            IPV4 | IPV6 => return ip(packet, at),
            0x8100 | 0x88a8 | 0x9100 => {
                kind = be16(packet.data, at + 2).ok_or(Other::Unreadable)?;
                at += 4;
            }
            0x8864 => {
                kind = match be16(packet.data, at + 6).ok_or(Other::Unreadable)? {
                    0x0021 => IPV4,
                    0x0057 => IPV6,
                    _ => return Err(Other::NotTcp),
                };
                at += 8;
            }
            _ => return Err(Other::NotTcp),
        }
    }
    Err(Other::NotTcp)
}

/// Text of tcpdump begins with the IP header (`-x`), with the rest of an Ethernet header behind
/// the first VLAN tag, or with a link header (`-xx`); it does not say with which.
fn guess<'a>(packet: &Packet<'a>) -> Result<Segment<'a>, Other> {
    let data = packet.data;
    let kind = |at: usize| be16(data, at).unwrap_or(0);
    let ip_at = |at: usize| match data.get(at).map(|b| b >> 4) {
        Some(4) => {
            let total = usize::from(be16(data, at + 2).unwrap_or(0));
            data[at] & 15 >= 5 && total >= 20 && data.len() >= at + 20
        }
        Some(6) => data.len() >= at + 40,
        _ => false,
    };
    let tagged = |k: u16| matches!(k, IPV4 | IPV6 | 0x8100 | 0x88a8 | 0x9100);
    if ip_at(0) && !(tagged(kind(12)) && (ip_at(14) || ip_at(18))) {
        ip(packet, 0)
    } else if tagged(kind(12)) {
        network(packet, kind(12), 14)
    } else if tagged(kind(14)) && ip_at(16) {
        network(packet, kind(14), 16)
    } else if tagged(kind(0)) && ip_at(20) {
        network(packet, kind(0), 20)
    } else if tagged(kind(2)) && (ip_at(4) || tagged(kind(6))) {
        network(packet, kind(2), 4)
    } else if ip_at(4) {
        ip(packet, 4)
    } else if data.len() < 20 {
        Err(Other::Unreadable)
    } else {
        Err(Other::NotTcp)
    }
}

fn ip<'a>(packet: &Packet<'a>, at: usize) -> Result<Segment<'a>, Other> {
    let data = packet.data.get(at..).ok_or(Other::Unreadable)?;
    let wire = (packet.wire_length as usize).saturating_sub(at);
    match data.first().map(|b| b >> 4) {
        Some(4) => {
            let header: &[u8; 20] = data.first_chunk().ok_or(Other::Unreadable)?;
            let length = usize::from(header[0] & 15) * 4;
            if header[9] != TCP {
                return Err(Other::NotTcp);
            }
            if (u16::from_be_bytes([header[6], header[7]])) & 0x3fff != 0 {
                return Err(Other::Fragment);
            }
            let total = match usize::from(u16::from_be_bytes([header[2], header[3]])) {
                // The network card does the segmentation, so the packet is longer than the field can say.
                0 => wire,
                total => total,
            };
            if length < 20 || total < length {
                return Err(Other::Unreadable);
            }
            let mapped = |at: usize| Some(0xffff_0000_0000 | u128::from(be32(header, at)?));
            let addresses = mapped(12).zip(mapped(16)).ok_or(Other::Unreadable)?;
            tcp(packet, data, length, total, addresses)
        }
        Some(6) => {
            let header: &[u8; 40] = data.first_chunk().ok_or(Other::Unreadable)?;
            let total = match usize::from(u16::from_be_bytes([header[4], header[5]])) {
                0 => wire,
                payload => 40 + payload,
            };
            let address = |at: usize| Some(u128::from_be_bytes(*header.get(at..)?.first_chunk()?));
            let addresses = address(8).zip(address(24)).ok_or(Other::Unreadable)?;
            let mut next = header[6];
            let mut length = 40;
            for _ in 0..8 {
                let extension = |i: usize| data.get(length + i).copied().ok_or(Other::Unreadable);
                match next {
                    TCP => return tcp(packet, data, length, total, addresses),
                    44 => return Err(Other::Fragment),
                    // Hop-by-hop options, routing, destination options.
                    0 | 43 | 60 => {
                        next = extension(0)?;
                        length += (usize::from(extension(1)?) + 1) * 8;
                    }
                    // The authentication header gives its length in other units.
                    51 => {
                        next = extension(0)?;
                        length += (usize::from(extension(1)?) + 2) * 4;
                    }
                    _ => return Err(Other::NotTcp),
                }
            }
            Err(Other::NotTcp)
        }
        Some(_) => Err(Other::NotTcp),
        None => Err(Other::Unreadable),
    }
}

/// Reads the transport header; `data` begins with an IP header of `at` bytes, and the datagram has `total`
/// bytes.
#[inline]
fn tcp<'a>(
    packet: &Packet<'a>,
    data: &'a [u8],
    at: usize,
    total: usize,
    (source, destination): (u128, u128),
) -> Result<Segment<'a>, Other> {
    let header: &[u8; 20] =
        data.get(at..).and_then(|h| h.first_chunk()).ok_or(Other::Unreadable)?;
    let start = at + usize::from(header[12] >> 4) * 4;
    if start < at + 20 || total < start {
        return Err(Other::Unreadable);
    }
    // Captured bytes behind the end of the datagram are padding of the link layer.
    let payload = data.get(start..data.len().min(total)).unwrap_or_default();
    let word =
        |i: usize| u32::from_be_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
    Ok(Segment {
        time: packet.time,
        from: Endpoint { address: source, port: u16::from_be_bytes([header[0], header[1]]) },
        to: Endpoint { address: destination, port: u16::from_be_bytes([header[2], header[3]]) },
        sequence: word(4),
        acknowledged: word(8),
        flags: header[13],
        payload,
        wire_length: (total - start) as u32,
        offset: packet.offset,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP_HEADER: [u8; 20] =
        [0xe2, 0x22, 0x0c, 0xea, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x18, 1, 0, 0, 0, 0, 0];

    fn ipv4(payload: &[u8], total: Option<u16>) -> Vec<u8> {
        let total = total.unwrap_or((40 + payload.len()) as u16).to_be_bytes();
        let mut out = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 6, 0, 0];
        out.extend([127, 0, 0, 1, 10, 1, 1, 1]);
        out.extend(TCP_HEADER);
        out.extend(payload);
        out
    }

    fn ipv6(extensions: &[u8], next: u8, payload: &[u8]) -> Vec<u8> {
        let length = ((extensions.len() + 20 + payload.len()) as u16).to_be_bytes();
        let mut out = vec![0x60, 0, 0, 0, length[0], length[1], next, 64];
        out.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        out.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        out.extend(extensions);
        out.extend(TCP_HEADER);
        out.extend(payload);
        out
    }

    fn packet(link: Link, data: &[u8]) -> Packet<'_> {
        Packet { time: 5, link, data, wire_length: data.len() as u32, offset: 0 }
    }

    fn with_prefix(prefix: &[u8], rest: &[u8]) -> Vec<u8> {
        [prefix, rest].concat()
    }

    #[test]
    fn every_link_layer_leads_to_the_same_segment() {
        let inner = ipv4(b"hello", None);
        let mac = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let vlan = [&mac[..], &[0x81, 0, 0, 5, 8, 0]].concat();
        let qinq = [&mac[..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0]].concat();
        let pppoe = [&mac[..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 47, 0, 0x21]].concat();
        let sll = [&[0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0][..], &[8, 0]].concat();
        let sll2 = [&[8, 0][..], &[0; 18]].concat();
        let cases: [(Link, Vec<u8>); 8] = [
            (Link::Ethernet, [&mac[..], &[8, 0]].concat()),
            (Link::Ethernet, vlan.clone()),
            (Link::Ethernet, qinq.clone()),
            (Link::Ethernet, pppoe),
            (Link::Sll, sll),
            (Link::Sll2, sll2),
            (Link::Raw, Vec::new()),
            (Link::Loopback, vec![2, 0, 0, 0]),
        ];
        for (link, prefix) in &cases {
            let data = with_prefix(prefix, &inner);
            let got = segment(&packet(*link, &data)).unwrap();
            assert_eq!(got.payload, b"hello", "{link:?}");
            assert_eq!((got.from.port, got.to.port), (57890, 3306));
            assert_eq!((got.sequence, got.acknowledged, got.flags), (7, 9, 0x18));
            assert_eq!(got.to.address, 0xffff_0a01_0101);
            // Text does not name the link layer; PPPoE is not tried.
            if !data.windows(2).any(|w| w == [0x88, 0x64]) {
                let again = segment(&packet(Link::Unknown, &data)).unwrap();
                assert_eq!(again, got, "{link:?} guessed");
            }
        }
        // With `-x` on a VLAN, the tag is behind the bytes that count as the link header.
        let data = with_prefix(&[0, 5, 8, 0], &inner);
        assert_eq!(segment(&packet(Link::Unknown, &data)).unwrap().payload, b"hello");
    }

    #[test]
    fn ethernet_padding_is_not_payload() {
        let mut data = ipv4(b"", None);
        data.extend([0; 6]);
        let got = segment(&packet(Link::Raw, &data)).unwrap();
        assert_eq!((got.payload.len(), got.wire_length), (0, 0));
    }

    #[test]
    fn a_short_snapshot_is_known_by_the_header() {
        let data = ipv4(b"0123456789", None);
        let mut cut = packet(Link::Raw, &data[..44]);
        cut.wire_length = data.len() as u32;
        let got = segment(&cut).unwrap();
        assert_eq!((got.payload, got.wire_length), (&b"0123"[..], 10));
        assert_eq!(segment(&packet(Link::Raw, &data[..30])), Err(Other::Unreadable));
    }

    #[test]
    fn a_length_left_to_the_card_is_that_of_the_packet() {
        let data = ipv4(b"0123456789", Some(0));
        let got = segment(&packet(Link::Raw, &data)).unwrap();
        assert_eq!((got.payload, got.wire_length), (&b"0123456789"[..], 10));
    }

    #[test]
    fn ipv6_extension_headers_are_passed_over() {
        let hop_by_hop = [43, 0, 1, 4, 0, 0, 0, 0];
        let routing = [60, 0, 0, 0, 0, 0, 0, 0];
        let destination = [6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let extensions = [&hop_by_hop[..], &routing, &destination].concat();
        for (data, link) in
            [(ipv6(&extensions, 0, b"six"), Link::Raw), (ipv6(&[], 6, b"six"), Link::Unknown)]
        {
            let got = segment(&packet(link, &data)).unwrap();
            assert_eq!((got.payload, got.wire_length), (&b"six"[..], 3));
            assert_eq!((got.from.address, got.to.address), (1, 0xfe80 << 112 | 2));
        }
    }

    #[test]
    fn fragments_are_told_from_other_packets() {
        let mut data = ipv4(b"x", None);
        data[6] = 0x20;
        assert_eq!(segment(&packet(Link::Raw, &data)), Err(Other::Fragment));
        data[6] = 0;
        data[7] = 9;
        assert_eq!(segment(&packet(Link::Raw, &data)), Err(Other::Fragment));
        let fragment = [6, 0, 0, 1, 0, 0, 0, 0];
        let data = ipv6(&fragment, 44, b"");
        assert_eq!(segment(&packet(Link::Raw, &data)), Err(Other::Fragment));
        let mut udp = ipv4(b"", None);
        udp[9] = 17;
        assert_eq!(segment(&packet(Link::Raw, &udp)), Err(Other::NotTcp));
    }

    #[test]
    fn no_bytes_whatever_make_it_panic() {
        let good = with_prefix(&[0; 12], &with_prefix(&[0x81, 0, 0, 1, 8, 0], &ipv4(b"abc", None)));
        let links =
            [Link::Ethernet, Link::Sll, Link::Sll2, Link::Raw, Link::Loopback, Link::Unknown];
        for length in 0..good.len() {
            for link in links {
                let _ = segment(&packet(link, &good[..length]));
                let mut bad = good.clone();
                bad[length] = bad[length].wrapping_add(0x7f);
                let _ = segment(&packet(link, &bad));
            }
        }
    }
}
