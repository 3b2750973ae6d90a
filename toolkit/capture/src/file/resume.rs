//! Finding the next record in a damaged pcap file.
//!
//! Records have no mark to look for. But a record's header gives its length, and the next record follows it.
//! Bytes are taken for records if [`CHAIN`] records in a row have possible lengths, times near those before
//! the damage, and packets whose headers can be read. (Of random places about one in 2^100 looks so; a single
//! header that looks possible is found in any large file.) A capture that was itself sent over the network
//! looks the same, but its times are hardly near.

use super::pcap::Pcap;
use super::step::Step;
use crate::packet::{self, Other};

/// This many records in a row are accepted; fewer only if the last one ends with the file.
const CHAIN: usize = 4;
const CHAIN_AT_END: usize = 2;

/// Longer records are not considered: this is libpcap's own limit.
const LONGEST: usize = 256 << 10;

/// How far the first time of a chain may lie from the last one before the damage, in nanoseconds: an hour
/// back, as clocks jump, and a day on.
const BACK: i64 = 3_600_000_000_000;
const ON: i64 = 24 * BACK;

/// The outcome of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Number of bytes before the next record.
    At(usize),
    /// The first so many bytes hold no record; more bytes are needed to decide about the rest.
    NotBefore(usize),
}

/// Looks for the next record in `bytes`; `last` is the time of the last packet before the damage.
pub(super) fn find(parser: &Pcap, last: Option<i64>, bytes: &[u8], ended: bool) -> Found {
    let mut at = 0;
    while at < bytes.len() {
        match chain(parser, last, &bytes[at..], ended) {
            Some(true) => return Found::At(at),
            Some(false) => at += 1,
            None => return Found::NotBefore(at),
        }
    }
    Found::NotBefore(at)
}

/// Whether records begin here; `None`: more bytes are needed.
fn chain(parser: &Pcap, mut last: Option<i64>, mut bytes: &[u8], ended: bool) -> Option<bool> {
    for number in 0..CHAIN {
        if bytes.is_empty() && ended {
            return Some(number >= CHAIN_AT_END);
        }
        let header = match parser.header(bytes) {
            Some(header) => header,
            None => return ended.then_some(false),
        };
        let near = last.is_none_or(|last| {
            (last.saturating_sub(BACK)..=last.saturating_add(ON)).contains(&header.time)
        });
        let possible = near
            && header.is_possible()
            && header.captured > 0
            && header.captured <= header.wire
            && header.wire as usize <= 2 * LONGEST
            && header.whole <= LONGEST;
        if !possible {
            return Some(false);
        }
        let Step::Packet(packet, whole) = parser.record(&header, bytes, 0) else {
            return ended.then_some(false);
        };
        if matches!(packet::segment(&packet), Err(Other::Unreadable)) {
            return Some(false);
        }
        last = Some(packet.time);
        bytes = &bytes[whole..];
    }
    Some(true)
}
