//! TCP reassembly of one connection: segments go in; both directions' bytes come out in a possible
//! order, with gaps where bytes are missing.
//!
//! Positions are 64-bit offsets that never wrap; the first sequence number seen of a direction is
//! at [`ORIGIN`]. Acknowledgements become positions in the other direction.
//!
//! Invariants
//!
//! - STR1. Each byte of a direction is yielded at most once and in order: retransmitted or
//!   overlapping bytes are dropped, the first copy counts.
//! - STR2. Bytes are yielded only after everything that their segment acknowledges was yielded or
//!   declared missing. So a request comes after the previous answer, and an answer after its
//!   request, even if the capture has them in the wrong order or lost one of them.
//! - STR3. Nothing is declared missing while it may still arrive. Bytes that the receiver has
//!   acknowledged were delivered, so the capture lost them unless it is a few packets out of order
//!   ([`way::PATIENCE_PACKETS`], [`way::PATIENCE`]). Bytes that nobody acknowledged may be
//!   retransmitted ([`way::RETRANSMISSION`]). Bytes that fill a hole long after the bytes behind it
//!   still count as missing: the capture may have lost their first copy.
//! - STR4. Bytes held back are bounded by [`MOST_HELD`] per connection; past that, and at the end, holes
//!   are declared missing at once. (The bound over all connections is the caller's.)
//! - STR5. Sequence numbers that cannot belong to this connection begin another one between the
//!   same ports ([`Receiver::another`]), to which nothing known of this one applies.
//!
//! Not here: which direction is the client's, and when connections begin and end (`flows`).

mod piece;
mod settle;
#[cfg(test)]
mod tests;
mod way;

use super::packet::{Segment, ACK, FIN, SYN};
use way::{Held, Way, OVERHEAD, PATIENCE};

pub(super) use piece::{Piece, Receiver, Side};
pub(super) use way::ORIGIN;

/// Bytes held back per connection, bookkeeping included. A window of this size is the most that may
/// be outstanding behind a lost segment.
const MOST_HELD: usize = 4 << 20;

/// After this many stray segments in a row the connection continues from them.
const STRAYS: u8 = 4;

/// Both directions of one connection, index by [`Side`].
#[derive(Debug, Default)]
pub(super) struct Streams {
    ways: [Way; 2],
    segments: u64,
    held_bytes: usize,
    pub(super) retransmitted: u64,
}

impl Streams {
    /// Memory of the bytes that are held back.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Both sides have ended their streams, and all bytes were yielded.
    pub(super) fn ended(&self) -> bool {
        self.ways.iter().all(Way::ended)
    }

    /// The server closed its side, all its bytes were yielded, and the client had not closed its own.
    pub(super) fn server_left_first(&self) -> bool {
        self.ways[Side::Server as usize].ended() && self.ways[Side::Client as usize].end.is_none()
    }

    /// True if a SYN with this number begins a new connection between the same ports, not the known
    /// one.
    pub(super) fn is_reuse(&self, side: Side, sequence: u32) -> bool {
        self.is_known(side) && !self.began_with(side, sequence)
    }

    /// True if this is the number of the SYN that began this connection.
    fn began_with(&self, side: Side, sequence: u32) -> bool {
        let way = &self.ways[side as usize];
        // The SYN's number is one below that of the first byte.
        way.known && way.position(sequence.wrapping_add(1)) == ORIGIN
    }

    /// True if a SYN with this number began this connection, which has sent bytes since.
    pub(super) fn is_late(&self, side: Side, sequence: u32) -> bool {
        self.began_with(side, sequence) && self.ways[side as usize].next > ORIGIN
    }

    /// True if a reset with this number may belong to this connection; otherwise it is a stray.
    pub(super) fn is_near(&self, side: Side, sequence: u32) -> bool {
        !self.is_known(side) || !self.ways[side as usize].is_strange(sequence)
    }

    /// True if a sequence number of this direction was seen.
    pub(super) fn is_known(&self, side: Side) -> bool {
        self.ways[side as usize].known
    }

    /// True if both numbers of a segment lie between the beginning of this connection and its end, or near
    /// them.
    pub(super) fn holds(&self, side: Side, segment: &Segment<'_>) -> bool {
        let [own, other] = [side, side.other()].map(|side| &self.ways[side as usize]);
        let acknowledges = segment.flags & ACK != 0 && other.known;
        own.holds(segment.sequence) && (!acknowledges || other.holds(segment.acknowledged))
    }

    /// Handles one segment, SYN or not; the caller handles resets.
    #[inline]
    pub(super) fn segment(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        receiver: &mut impl Receiver,
    ) {
        self.segments += 1;
        let syn = segment.flags & SYN != 0;
        let has_ack = segment.flags & ACK != 0;
        // A SYN takes one sequence number; data with it (fast open) begins after it.
        let sequence = segment.sequence.wrapping_add(u32::from(syn));
        let (own, other) = self.pair(side);
        if !own.known {
            own.begin(sequence);
        }
        if has_ack && !other.known {
            other.begin(segment.acknowledged);
        }
        if own.is_strange(sequence)
            || has_ack && other.is_strange(segment.acknowledged)
            || has_ack && are_anothers(own.distance(sequence), other.distance(segment.acknowledged))
        {
            self.stray(side, sequence, segment, receiver);
            return;
        }
        own.strays = 0;
        let at = own.position(sequence);
        let acknowledged = if has_ack { other.position(segment.acknowledged) } else { 0 };
        let seen = (self.segments, segment.time);
        let (own, other) = self.pair(side);
        if acknowledged > other.acknowledged {
            other.acknowledged = acknowledged;
            if acknowledged > other.next && other.missing.is_none() {
                other.missing = Some(seen);
            }
        }
        let end = at + u64::from(segment.wire_length);
        if segment.flags & FIN != 0 {
            own.end = Some(end);
        }
        if segment.wire_length > 0 {
            let piece = Piece { time: segment.time, at, acknowledged, offset: segment.offset };
            if end <= own.next {
                // A keep-alive is a retransmission of one byte at most.
                self.retransmitted += u64::from(segment.wire_length > 1);
            } else if at <= own.next
                && acknowledged <= other.next
                && own.held.is_empty()
                && other.held.is_empty()
            {
                let payload = Some(segment.payload);
                give_out(own, side, piece, segment.wire_length, payload, receiver);
            } else {
                self.hold(side, piece, segment);
            }
        }
        if self.is_stuck() {
            self.settle(seen, false, receiver);
        }
        let own = &mut self.ways[side as usize];
        if own.end == Some(own.next) {
            // The FIN's own sequence number, which the other side acknowledges, too.
            own.advance(own.next + 1);
        }
    }

    /// No more segments come: everything held back is yielded, holes are gaps.
    #[cold]
    pub(super) fn finish(&mut self, receiver: &mut impl Receiver) {
        self.settle((u64::MAX, i64::MAX), true, receiver);
    }

    fn pair(&mut self, side: Side) -> (&mut Way, &mut Way) {
        let [client, server] = &mut self.ways;
        match side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        }
    }

    fn is_stuck(&self) -> bool {
        self.ways.iter().any(|w| w.missing.is_some() || !w.held.is_empty())
    }

    /// Handles a segment far from the expected position. It is ignored until enough of them show that the
    /// capture missed much, or that it missed the connection's end and this is the next one between the same
    /// ports.
    #[cold]
    fn stray(
        &mut self,
        side: Side,
        sequence: u32,
        segment: &Segment<'_>,
        receiver: &mut impl Receiver,
    ) {
        let (own, other) = self.pair(side);
        own.strays += 1;
        let (own_distance, other_distance) =
            (own.distance(sequence), other.distance(segment.acknowledged));
        let both = own.is_strange(sequence) && other.is_strange(segment.acknowledged)
            || are_anothers(own_distance, other_distance);
        // Data with two unexpected numbers need no further proof.
        if own.strays < STRAYS && !(both && segment.wire_length > 0) {
            return;
        }
        self.finish(receiver);
        for (way, number) in [(side, sequence), (side.other(), segment.acknowledged)] {
            let way_state = &mut self.ways[way as usize];
            let at = way_state.next;
            way_state.sequence = number;
            way_state.acknowledged = 0;
            way_state.missing = None;
            way_state.end = None;
            way_state.strays = 0;
            if !both {
                receiver.gap(way, at, 0);
            }
        }
        if both {
            receiver.another();
        }
        self.segment(side, segment, receiver);
    }

    #[cold]
    fn hold(&mut self, side: Side, piece: Piece, segment: &Segment<'_>) {
        let arrived = self.segments;
        let held = &mut self.ways[side as usize].held;
        let index = held.partition_point(|h| h.piece.at <= piece.at);
        let known = index.checked_sub(1).and_then(|i| held.get(i));
        let length = |h: &Held| h.payload.as_ref().map_or(0, |p| p.len());
        if known.is_some_and(|h| h.piece.at == piece.at && length(h) >= segment.payload.len()) {
            self.retransmitted += 1;
            return;
        }
        // These bytes were sent again, long after the bytes behind them. The capture may have lost the
        // first copy; then the time of this copy would be wrong. So the bytes count as missing.
        let again =
            held.get(index).is_some_and(|h| h.piece.time.saturating_add(PATIENCE) < piece.time);
        let payload: Option<Box<[u8]>> = (!again).then(|| segment.payload.into());
        self.held_bytes += payload.as_ref().map_or(0, |p| p.len()) + OVERHEAD;
        held.insert(index, Held { piece, wire_length: segment.wire_length, arrived, payload });
    }
}

/// True if the sequence numbers of both directions have jumped equally far. A kernel derives the
/// first numbers of connections between the same ports from a clock (RFC 6528), so those of the
/// next connection are ahead by the time that has passed. A gap of this many bytes in both
/// directions at once is not accepted.
fn are_anothers(own: i32, other: i32) -> bool {
    const FAR: i32 = 1 << 20;
    let (a, b) = (i64::from(own), i64::from(other));
    (own.min(other) > FAR || own.max(other) < -FAR) && (a - b).abs() <= a.abs().max(b.abs()) / 16
}

/// Yields the new part of a segment; without a payload that part is a gap.
#[inline]
fn give_out(
    way: &mut Way,
    side: Side,
    mut piece: Piece,
    wire_length: u32,
    payload: Option<&[u8]>,
    receiver: &mut impl Receiver,
) {
    let end = piece.at + u64::from(wire_length);
    let begin = way.next;
    let old = (begin - piece.at) as usize;
    way.advance(end);
    piece.at = begin;
    let Some(payload) = payload else { return receiver.gap(side, begin, end - begin) };
    if let Some(new) = payload.get(old..).filter(|new| !new.is_empty()) {
        receiver.data(side, new, piece);
        piece.at += new.len() as u64;
    }
    if piece.at < end {
        receiver.cut(side, piece, end - piece.at);
    }
}
