//! One direction of a connection: its yielded, held and missing bytes.

use super::piece::Piece;
use std::collections::VecDeque;

/// Where positions begin: far enough from 0 that old retransmissions have positions, too.
pub(crate) const ORIGIN: u64 = 1 << 40;

/// A hole in acknowledged bytes counts as lost after this many more segments of the connection.
pub(super) const PATIENCE_PACKETS: u64 = 16;

/// The same in nanoseconds: whichever comes first.
pub(super) const PATIENCE: i64 = 20_000_000;

/// Nanoseconds after which bytes that nobody acknowledged are no longer expected.
pub(super) const RETRANSMISSION: i64 = 5_000_000_000;

/// Memory for a segment that is held back, besides its bytes.
pub(super) const OVERHEAD: usize = 96;

/// Sequence numbers further ahead of what is expected belong to something else.
const FARTHEST: i32 = 1 << 28;

/// So do sequence numbers further behind: nothing that old is retransmitted.
const OLDEST: i32 = 1 << 24;

/// A closed connection's late packets have sequence numbers this near to its own.
const NEAR: i64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Held {
    pub piece: Piece,
    pub wire_length: u32,
    pub arrived: u64,
    /// `None`: the bytes count as missing.
    pub payload: Option<Box<[u8]>>,
}

/// When something was noticed: count of segments, and time of capture.
pub(super) type Noticed = (u64, i64);

#[derive(Debug, Default)]
pub(super) struct Way {
    pub known: bool,
    /// The sequence number of position `next`.
    pub sequence: u32,
    /// The position of the next byte to yield.
    pub next: u64,
    /// Segments behind a hole, or segments that acknowledge bytes not yet yielded; by position.
    pub held: VecDeque<Held>,
    /// Set while the first of `held` cannot be yielded.
    pub waiting: Option<Noticed>,
    /// The receiver of this direction has acknowledged the bytes up to here.
    pub acknowledged: u64,
    /// Set while `acknowledged` is past `next`.
    pub missing: Option<Noticed>,
    /// Position behind the last byte, once its sender has sent FIN.
    pub end: Option<u64>,
    pub strays: u8,
}

impl Way {
    pub(super) fn begin(&mut self, sequence: u32) {
        self.known = true;
        self.sequence = sequence;
        self.next = ORIGIN;
    }

    pub(super) fn distance(&self, sequence: u32) -> i32 {
        sequence.wrapping_sub(self.sequence) as i32
    }

    pub(super) fn position(&self, sequence: u32) -> u64 {
        self.next.saturating_add_signed(i64::from(self.distance(sequence)))
    }

    pub(super) fn is_strange(&self, sequence: u32) -> bool {
        !(-OLDEST..=FARTHEST).contains(&self.distance(sequence))
    }

    /// True between the first byte and the last, and [`NEAR`] them.
    pub(super) fn holds(&self, sequence: u32) -> bool {
        let distance = i64::from(self.distance(sequence));
        let length = i64::try_from(self.next.saturating_sub(ORIGIN)).unwrap_or(i64::MAX);
        (-length.saturating_add(NEAR)..NEAR).contains(&distance)
    }

    pub(super) fn advance(&mut self, to: u64) {
        self.sequence = self.sequence.wrapping_add((to - self.next) as u32);
        self.next = to;
        if self.acknowledged <= self.next {
            self.missing = None;
        }
    }

    pub(super) fn ended(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }
}
