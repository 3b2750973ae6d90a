//! `SnapshotRegistry`: the sequences at which somebody still reads.
//!
//! Invariants:
//!
//! - SN1. Whoever drops versions takes [`SnapshotRegistry::retention`], which reads the published
//!   sequence under the same latch as `register` does. A snapshot is therefore either in that list, or
//!   not older than its last element; reading the clock by hand before or after would leave a gap.
//! - SN2. The list is bounded by the snapshots that are held, not by those that ever were: a released
//!   place stays as a zero until zeros are more than half, then all of them go at once. So one old
//!   snapshot does not keep the places of the millions of readers that came and went after it, and
//!   registering and releasing cost O(log n) amortised. (A map would need an allocation for readers in
//!   ascending order, which are nearly all.)
//!
//! Tested here.

use std::collections::VecDeque;
use std::sync::Arc;

use frond_base::Seq;
use parking_lot::Mutex;

use crate::CommitClock;

/// See the module. Registering is O(1): sequences arrive in ascending order.
#[derive(Default)]
pub struct SnapshotRegistry {
    live: Mutex<Live>,
}

/// The sequences that are read at.
#[derive(Default)]
struct Live {
    /// (sequence, how many read at it), ascending; zeros inside, none at either end.
    places: VecDeque<(Seq, u32)>,
    /// How many of them are zero.
    zeros: usize,
}

/// Fewer places than this are not worth tidying.
const TIDY_MIN: usize = 32;

impl Live {
    fn held(&self) -> impl Iterator<Item = Seq> + '_ {
        self.places.iter().filter(|(_, n)| *n > 0).map(|(seq, _)| *seq)
    }

    fn find(&self, at: Seq) -> Option<usize> {
        self.places.binary_search_by_key(&at, |(seq, _)| *seq).ok()
    }

    fn release(&mut self, at: Seq) {
        let Some(i) = self.find(at) else { panic!("a snapshot at {at} has no place (SN1)") };
        self.places[i].1 -= 1;
        if self.places[i].1 > 0 {
            return;
        }
        self.zeros += 1;
        while self.places.front().is_some_and(|(_, n)| *n == 0) {
            self.places.pop_front();
            self.zeros -= 1;
        }
        while self.places.back().is_some_and(|(_, n)| *n == 0) {
            self.places.pop_back();
            self.zeros -= 1;
        }
        if self.zeros > TIDY_MIN && self.zeros > self.places.len() / 2 {
            // As many were released since the last time as are looked at now, or half as many.
            self.places.retain(|(_, n)| *n > 0);
            self.zeros = 0;
            if self.places.capacity() > 4 * self.places.len().max(TIDY_MIN) {
                self.places.shrink_to(2 * self.places.len());
            }
        }
        let bound = TIDY_MIN.max(self.places.len() / 2);
        assert!(self.zeros <= bound, "{} places of nobody (SN2)", self.zeros);
    }
}

/// A reader's place in commit order; dropping it lets go of the versions only it could see.
pub struct Snapshot {
    registry: Arc<SnapshotRegistry>,
    at: Seq,
}

impl SnapshotRegistry {
    pub fn new() -> Arc<SnapshotRegistry> {
        Arc::new(SnapshotRegistry::default())
    }

    /// A snapshot of everything published.
    pub fn register(self: &Arc<Self>, clock: &CommitClock) -> Snapshot {
        let mut live = self.live.lock();
        let at = clock.published();
        match live.places.back_mut() {
            Some((seq, n)) if *seq == at => *n += 1,
            newest => {
                assert!(newest.is_none_or(|p| p.0 < at), "the published sequence went back (SN1)");
                live.places.push_back((at, 1));
            }
        }
        drop(live);
        Snapshot { registry: Arc::clone(self), at }
    }

    /// Sequences that somebody reads at, ascending, each once.
    pub fn live(&self) -> Vec<Seq> {
        self.live.lock().held().collect()
    }

    /// [`SnapshotRegistry::live`] and then the published sequence: what merges and buffers must keep.
    pub fn retention(&self, clock: &CommitClock) -> Vec<Seq> {
        let live = self.live.lock();
        let published = clock.published();
        let mut keep: Vec<Seq> = live.held().collect();
        if keep.last() != Some(&published) {
            keep.push(published);
        }
        keep
    }

    pub fn oldest(&self) -> Option<Seq> {
        self.live.lock().places.front().map(|(seq, _)| *seq)
    }

    /// How many snapshots are held.
    pub fn count(&self) -> usize {
        self.live.lock().places.iter().map(|(_, n)| *n as usize).sum()
    }

    fn add_reader(&self, at: Seq) {
        let mut live = self.live.lock();
        let Some(i) = live.find(at) else { panic!("a snapshot at {at} has no place (SN1)") };
        live.places[i].1 += 1;
    }

    fn release(&self, at: Seq) {
        self.live.lock().release(at);
    }

    /// Places kept: bounded by the snapshots that are held (SN2).
    #[cfg(test)]
    fn places(&self) -> (usize, usize) {
        let live = self.live.lock();
        (live.places.len(), live.places.capacity())
    }
}

impl Snapshot {
    /// Sees versions with sequences up to this.
    #[inline]
    pub fn at(&self) -> Seq {
        self.at
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        self.registry.add_reader(self.at);
        Snapshot { registry: Arc::clone(&self.registry), at: self.at }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.registry.release(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(c: &CommitClock) {
        c.finish(c.begin_commit());
    }

    #[test]
    fn live_lists_each_held_sequence_once() {
        let (c, r) = (CommitClock::new(0), SnapshotRegistry::new());
        let a = r.register(&c);
        commit(&c);
        let b = r.register(&c);
        let b2 = b.clone();
        commit(&c);
        let d = r.register(&c);
        assert_eq!((r.live(), r.count(), r.oldest()), (vec![0, 1, 2], 4, Some(0)));
        drop(b);
        assert_eq!(r.live(), [0, 1, 2]);
        drop(b2);
        assert_eq!((r.live(), a.at()), (vec![0, 2], 0));
        drop(a);
        assert_eq!((r.live(), r.oldest()), (vec![2], Some(2)));
        drop(d);
        assert_eq!((r.live(), r.oldest()), (vec![], None));
        assert_eq!(r.retention(&c), [2]);
    }

    #[test]
    fn retention_ends_with_the_published_sequence() {
        let (c, r) = (CommitClock::new(7), SnapshotRegistry::new());
        let _a = r.register(&c);
        assert_eq!(r.retention(&c), [7]);
        commit(&c);
        assert_eq!(r.retention(&c), [7, 8]);
    }

    #[test]
    fn an_old_snapshot_and_overlapping_readers_keep_no_place_of_those_that_are_gone() {
        let (c, r) = (CommitClock::new(0), SnapshotRegistry::new());
        let old = r.register(&c);
        let mut reader = None;
        let mut most = (0, 0);
        for i in 0..200_000 {
            commit(&c);
            // The next one begins before this one ends, as in a server with two connections.
            let next = r.register(&c);
            drop(reader.replace(next));
            let (places, capacity) = r.places();
            most = (most.0.max(places), most.1.max(capacity));
            if i % 50_000 == 0 {
                assert_eq!((r.live(), r.count()), (vec![0, i + 1], 2));
            }
        }
        assert!(most.0 <= 100 && most.1 <= 512, "{most:?}");
        drop((old, reader));
        assert_eq!((r.live(), r.places().0), (vec![], 0));
    }

    #[test]
    fn tidying_keeps_what_is_held_and_in_order() {
        let (c, r) = (CommitClock::new(0), SnapshotRegistry::new());
        let mut held = Vec::new();
        for i in 0..5_000u64 {
            commit(&c);
            let one = r.register(&c);
            if i % 7 == 0 {
                held.push((one.at(), one.clone(), one));
            }
            // Somewhere in the middle.
            if i % 11 == 0 && held.len() > 300 {
                held.remove(held.len() / 2);
            }
        }
        let expected: Vec<Seq> = held.iter().map(|h| h.0).collect();
        assert_eq!((r.live(), r.oldest()), (expected, Some(held[0].0)));
        assert_eq!(r.count(), 2 * held.len());
        assert!(r.places().0 <= 2 * held.len() + 2 * TIDY_MIN);
        held.clear();
        assert_eq!(r.count(), 0);
    }
}
