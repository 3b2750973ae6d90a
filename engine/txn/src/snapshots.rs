//! `SnapshotRegistry`: the sequences at which readers read.
//!
//! Each thread registers in its home shard, so that readers on different cores do not write to the same cache lines.
//!
//! Invariants:
//!
//! - SN1. Code that drops versions uses [`SnapshotRegistry::retention`], which reads the published sequence before it
//!   visits the shards, and leaves out what is newer. `register` reads that sequence under its shard's latch. So a
//!   snapshot that the visit missed is not older than the last element of the list.
//! - SN2. The length of a shard's list is bounded by the snapshots that are held: a released place
//!   becomes a zero, and when zeros are more than half, all of them are removed. So one old
//!   snapshot does not keep the places of millions of later readers, and registering and releasing
//!   cost O(log n) amortised. (A map would need an allocation for readers in ascending order, which
//!   are nearly all.)
//!
//! Tested here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use frond_base::Seq;
use parking_lot::Mutex;

use crate::CommitClock;

/// Threads beyond these share shards.
const SHARDS: usize = 16;

thread_local! {
    static HOME: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

/// See the module. Registering is O(1): in each shard sequences arrive in ascending order.
#[derive(Default)]
pub struct SnapshotRegistry {
    shards: [Shard; SHARDS],
}

/// In two cache lines of its own: processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    live: Mutex<Live>,
}

/// The sequences at which the readers of a shard read.
#[derive(Default)]
struct Live {
    /// (sequence, number of its readers), ascending; zeros inside, none at either end.
    places: VecDeque<(Seq, u32)>,
    /// Number of zeros among them.
    zeros: usize,
}

/// Lists shorter than this are not compacted.
const TIDY_MIN: usize = 32;

impl Live {
    fn held(&self) -> impl Iterator<Item = Seq> + '_ {
        self.places.iter().filter(|(_, n)| *n > 0).map(|(seq, _)| *seq)
    }

    fn find(&self, at: Seq) -> Option<usize> {
        self.places.binary_search_by_key(&at, |(seq, _)| *seq).ok()
    }

    fn release(&mut self, at: Seq) {
        let Some(i) = self.find(at) else { panic!("a snapshot at {at} has no place") };
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
            // Since the last compaction at least half as many were released as are visited now.
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

/// A reader's place in commit order; dropping it releases the versions that only it could see.
pub struct Snapshot {
    registry: Arc<SnapshotRegistry>,
    shard: usize,
    at: Seq,
}

impl SnapshotRegistry {
    pub fn new() -> Arc<SnapshotRegistry> {
        Arc::new(SnapshotRegistry::default())
    }

    /// A snapshot of everything published.
    pub fn register(self: &Arc<Self>, clock: &CommitClock) -> Snapshot {
        let shard = HOME.with(|home| *home);
        let mut live = self.shards[shard].live.lock();
        let at = clock.published();
        match live.places.back_mut() {
            Some((seq, n)) if *seq == at => *n += 1,
            newest => {
                assert!(newest.is_none_or(|p| p.0 < at), "the published sequence went back (SN1)");
                live.places.push_back((at, 1));
            }
        }
        drop(live);
        Snapshot { registry: Arc::clone(self), shard, at }
    }

    /// Sequences at which readers read, ascending, each once, and then the published sequence: the list by which merges and
    /// buffers keep versions.
    pub fn retention(&self, clock: &CommitClock) -> Vec<Seq> {
        let published = clock.published();
        let mut keep: Vec<Seq> = Vec::new();
        for shard in &self.shards {
            keep.extend(shard.live.lock().held().filter(|at| *at < published));
        }
        keep.sort_unstable();
        keep.dedup();
        keep.push(published);
        keep
    }

    /// How many snapshots are held.
    pub fn count(&self) -> usize {
        let held = |live: &Live| live.places.iter().map(|(_, n)| *n as usize).sum::<usize>();
        self.shards.iter().map(|shard| held(&shard.live.lock())).sum()
    }

    /// Places kept: bounded by the snapshots that are held (SN2).
    #[cfg(test)]
    fn places(&self) -> (usize, usize) {
        let of = |shard: &Shard| {
            let live = shard.live.lock();
            (live.places.len(), live.places.capacity())
        };
        self.shards.iter().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

impl Snapshot {
    /// Sees versions with sequences up to this.
    #[inline]
    pub fn at(&self) -> Seq {
        self.at
    }

    fn live(&self) -> &Mutex<Live> {
        &self.registry.shards[self.shard].live
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        let mut live = self.live().lock();
        let Some(i) = live.find(self.at) else { panic!("a snapshot at {} has no place", self.at) };
        live.places[i].1 += 1;
        drop(live);
        Snapshot { registry: Arc::clone(&self.registry), ..*self }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.live().lock().release(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(c: &CommitClock) {
        c.finish(c.begin_commit());
    }

    /// The sequences held in this thread's shard.
    fn live(r: &SnapshotRegistry) -> Vec<Seq> {
        let shard = HOME.with(|home| *home);
        let live = r.shards[shard].live.lock();
        live.held().collect()
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
        assert_eq!((live(&r), r.count()), (vec![0, 1, 2], 4));
        drop(b);
        assert_eq!(live(&r), [0, 1, 2]);
        drop(b2);
        assert_eq!((live(&r), a.at()), (vec![0, 2], 0));
        drop(a);
        assert_eq!(live(&r), [2]);
        drop(d);
        assert_eq!(live(&r), []);
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
    fn readers_of_all_threads_are_in_the_list_or_not_older_than_its_end() {
        use std::sync::atomic::{AtomicBool, AtomicU64};
        const NOBODY: Seq = Seq::MAX;
        let (c, r) = (CommitClock::new(0), SnapshotRegistry::new());
        let (stop, mut wrong, mut looks) = (AtomicBool::new(false), None, 0);
        let seen: Vec<AtomicU64> = (0..2 * SHARDS).map(|_| AtomicU64::new(NOBODY)).collect();
        std::thread::scope(|threads| {
            for reading in &seen {
                let (c, r, stop) = (&c, &r, &stop);
                threads.spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        let one = r.register(c);
                        reading.store(one.at(), Ordering::SeqCst);
                        std::thread::yield_now();
                        reading.store(NOBODY, Ordering::SeqCst);
                    }
                });
            }
            threads.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    commit(&c);
                }
            });
            // No assertion inside: the threads would never stop.
            while looks < 100_000 && wrong.is_none() {
                let keep = r.retention(&c);
                // Whoever reads now was registered before, during or after the visit.
                let now = seen.iter().map(|at| at.load(Ordering::SeqCst));
                let is_kept = |at: &Seq| *at >= keep[keep.len() - 1] || keep.contains(at);
                let lost: Vec<Seq> = now.filter(|at| !is_kept(at)).collect();
                if !lost.is_empty() || !keep.is_sorted_by(|a, b| a < b) {
                    wrong = Some((keep, lost));
                }
                looks += 1;
            }
            stop.store(true, Ordering::SeqCst);
        });
        assert_eq!(wrong, None, "kept, and lost readers (SN1)");
        assert_eq!((r.count(), r.places().0), (0, 0));
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
                assert_eq!((live(&r), r.count()), (vec![0, i + 1], 2));
            }
        }
        assert!(most.0 <= 100 && most.1 <= 512, "{most:?}");
        drop((old, reader));
        assert_eq!((live(&r), r.places().0), (vec![], 0));
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
        assert_eq!(live(&r), expected);
        assert_eq!(r.count(), 2 * held.len());
        assert!(r.places().0 <= 2 * held.len() + 2 * TIDY_MIN);
        held.clear();
        assert_eq!(r.count(), 0);
    }
}
