//! Ranges of keys in which readers found only deleted rows, so that later readers pass them in one step.
//!
//! Queues need this: rows come in on the right and go on the left. Until a flush the tombstones stay in the write
//! buffer, and every search for the first row would walk over all of them. Rejected: dropping a tombstone at commit.
//! At that moment it is unknown whether a run further down has the key.
//!
//! A reader that passed many dead keys of write buffers in a row announces their range. Then it
//! reads the range again, at the newest versions, and confirms it if it has no row. A writer of a
//! put removes the ranges around its key, announced ones too.
//!
//! Invariants
//!
//! - KR1. In a confirmed range every snapshot from its sequence on sees no row: when it was confirmed the newest version of
//!   each key was a tombstone at or before that sequence, and a later put removes the range before its commit is published.
//! - KR2. A writer inserts its puts before it looks for ranges. A reader announces a range before
//!   it reads the range again. So at least one of the two sees the other.
//! - KR3. Confirmed ranges are ascending and do not overlap.
//!
//! `cursor/dead.rs` is the reader's side. Tested here, in `tests/it/dead.rs`, and by the simulator.

use std::sync::atomic::{fence, AtomicBool, Ordering};
use std::sync::OnceLock;

use frond_base::Seq;
use parking_lot::Mutex;

/// More ranges than this are not kept.
const MOST: usize = 64;
/// Nor are ranges whose keys take more bytes than this. So a tree's ranges take 64 KiB and a little more at most.
pub(crate) const KEY_BYTES: usize = 1 << 10;

/// From `lo`, a dead key, up to `hi`, excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadRange {
    pub lo: Box<[u8]>,
    pub hi: Box<[u8]>,
    /// Snapshots at or after this see no row in it.
    pub from: Seq,
}

/// A range that its reader reads again.
struct Announced {
    number: u64,
    lo: Box<[u8]>,
    hi: Box<[u8]>,
}

#[derive(Default)]
struct Ranges {
    confirmed: Vec<DeadRange>,
    announced: Vec<Announced>,
    last: u64,
}

/// The dead ranges of one tree.
#[derive(Default)]
pub(crate) struct DeadRanges {
    /// Whether there is any range: most trees never have one.
    any: AtomicBool,
    /// Made with the first range, and kept: its numbers are not given again.
    ranges: OnceLock<Box<Mutex<Ranges>>>,
}

impl DeadRanges {
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// The confirmed range around `key`, for a reader at `at`.
    pub fn around(&self, key: &[u8], at: Seq) -> Option<DeadRange> {
        let ranges = self.ranges.get()?.lock();
        let after = ranges.confirmed.partition_point(|r| *r.lo <= *key);
        let range = ranges.confirmed[..after].last()?;
        (*key < *range.hi && range.from <= at).then(|| range.clone())
    }

    /// Announces a range; returns its number. The reader then reads the range again, and calls
    /// [`Self::confirm`] or [`Self::withdraw`].
    pub fn announce(&self, lo: &[u8], hi: &[u8]) -> u64 {
        let mut ranges = self.ranges.get_or_init(Box::default).lock();
        ranges.last += 1;
        let number = ranges.last;
        ranges.announced.push(Announced { number, lo: lo.into(), hi: hi.into() });
        self.any.store(true, Ordering::SeqCst);
        drop(ranges);
        fence(Ordering::SeqCst);
        number
    }

    pub fn withdraw(&self, number: u64) {
        let Some(ranges) = self.ranges.get() else { return };
        let mut ranges = ranges.lock();
        ranges.announced.retain(|a| a.number != number);
        self.note_any(&ranges);
    }

    /// The range has no row for snapshots at or after `from`; nothing happens if a put came meanwhile.
    pub fn confirm(&self, number: u64, from: Seq) {
        let Some(ranges) = self.ranges.get() else { return };
        let mut ranges = ranges.lock();
        let Some(at) = ranges.announced.iter().position(|a| a.number == number) else { return };
        let Announced { lo, hi, .. } = ranges.announced.swap_remove(at);
        ranges.confirmed.retain(|r| r.hi <= lo || r.lo >= hi);
        if ranges.confirmed.len() == MOST {
            // The oldest range is the first to be merged away, and then no reader needs it.
            let oldest = ranges.confirmed.iter().enumerate().min_by_key(|(_, r)| r.from);
            let oldest = oldest.map(|(at, _)| at);
            oldest.map(|at| ranges.confirmed.remove(at));
        }
        let at = ranges.confirmed.partition_point(|r| r.lo < lo);
        ranges.confirmed.insert(at, DeadRange { lo, hi, from });
        let sorted = ranges.confirmed.windows(2).all(|w| w[0].hi <= w[1].lo);
        debug_assert!(sorted, "ranges overlap (KR3)");
        self.note_any(&ranges);
    }

    /// Removes the ranges that have keys from `first` to `last`: puts there were inserted, and are
    /// not published yet (KR1, KR2).
    #[inline]
    pub fn note_puts(&self, first: &[u8], last: &[u8]) {
        fence(Ordering::SeqCst);
        if self.any.load(Ordering::SeqCst) {
            self.retain(|lo, hi| *hi <= *first || *lo > *last);
        }
    }

    /// Removes all ranges: rows came in without [`Self::note_puts`].
    pub fn clear(&self) {
        fence(Ordering::SeqCst);
        if self.any.load(Ordering::SeqCst) {
            self.retain(|_, _| false);
        }
    }

    fn retain(&self, keep: impl Fn(&[u8], &[u8]) -> bool) {
        let Some(ranges) = self.ranges.get() else { return };
        let mut ranges = ranges.lock();
        ranges.confirmed.retain(|r| keep(&r.lo, &r.hi));
        ranges.announced.retain(|a| keep(&a.lo, &a.hi));
        self.note_any(&ranges);
    }

    fn note_any(&self, ranges: &Ranges) {
        let any = !ranges.confirmed.is_empty() || !ranges.announced.is_empty();
        self.any.store(any, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use frond_base::SEQ_MAX;

    use super::*;

    fn add(ranges: &DeadRanges, lo: &[u8], hi: &[u8], from: Seq) {
        let number = ranges.announce(lo, hi);
        ranges.confirm(number, from);
    }

    #[test]
    fn a_range_holds_from_its_sequence_on_and_until_a_put() {
        let ranges = DeadRanges::default();
        assert!(!ranges.any());
        add(&ranges, b"c", b"f", 7);
        let found = |key: &[u8], at| ranges.around(key, at).map(|r| r.hi.to_vec());
        assert_eq!(found(b"c", 7), Some(b"f".to_vec()));
        assert_eq!((found(b"d", 6), found(b"b", 9), found(b"f", 9)), (None, None, None));
        ranges.note_puts(b"f", b"z");
        ranges.note_puts(b"a", b"b");
        assert!(found(b"e", 9).is_some());
        ranges.note_puts(b"a", b"c");
        assert!(found(b"e", 9).is_none() && !ranges.any());
    }

    #[test]
    fn a_put_ends_an_announced_range() {
        let ranges = DeadRanges::default();
        let number = ranges.announce(b"c", b"f");
        ranges.note_puts(b"e", b"e");
        ranges.confirm(number, 1);
        assert!(ranges.around(b"d", 9).is_none() && !ranges.any());
        let number = ranges.announce(b"c", b"f");
        assert!(ranges.around(b"d", 9).is_none());
        ranges.withdraw(number);
        assert!(!ranges.any());
        let number = ranges.announce(b"c", b"f");
        ranges.clear();
        ranges.confirm(number, 1);
        assert!(!ranges.any());
    }

    #[test]
    fn a_range_takes_the_place_of_those_that_it_overlaps() {
        let ranges = DeadRanges::default();
        add(&ranges, b"c", b"f", 1);
        add(&ranges, b"m", b"p", 2);
        add(&ranges, b"e", b"m", 3);
        let list = |r: &DeadRanges| r.ranges.get().unwrap().lock().confirmed.clone();
        let seqs = |r: &DeadRanges| list(r).iter().map(|r| r.from).collect::<Vec<_>>();
        assert_eq!(seqs(&ranges), [3, 2]);
        add(&ranges, b"a", b"z", 4);
        assert_eq!(seqs(&ranges), [4]);
        for n in 0..200u8 {
            add(&ranges, &[b'z', n], &[b'z', n, 0], 5);
        }
        assert_eq!(list(&ranges).len(), MOST);
    }

    #[test]
    fn a_new_range_takes_the_place_of_the_oldest_when_there_are_many() {
        let ranges = DeadRanges::default();
        for n in 0..=MOST as u8 {
            add(&ranges, &[b'z', n], &[b'z', n, 0], 100 + Seq::from(n));
        }
        assert!(ranges.around(&[b'z', MOST as u8], SEQ_MAX).is_some());
        assert!(ranges.around(b"z\0", SEQ_MAX).is_none());
        assert_eq!(ranges.ranges.get().unwrap().lock().confirmed.len(), MOST);
    }
}
