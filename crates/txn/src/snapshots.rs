//! `SnapshotRegistry`: the sequences at which somebody still reads.
//!
//! Invariant: whoever drops versions takes [`SnapshotRegistry::retention`], which reads the published
//! sequence under the same latch as `register` does. A snapshot is therefore either in that list, or
//! not older than its last element; reading the clock by hand before or after would leave a gap.
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
    /// (sequence, how many read at it), ascending; zeros inside, none at either end.
    live: Mutex<VecDeque<(Seq, u32)>>,
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
        match live.back_mut() {
            Some((seq, n)) if *seq == at => *n += 1,
            _ => live.push_back((at, 1)),
        }
        drop(live);
        Snapshot { registry: Arc::clone(self), at }
    }

    /// Sequences that somebody reads at, ascending, each once.
    pub fn live(&self) -> Vec<Seq> {
        self.live.lock().iter().filter(|(_, n)| *n > 0).map(|(seq, _)| *seq).collect()
    }

    /// [`SnapshotRegistry::live`] and then the published sequence: what merges and buffers must keep.
    pub fn retention(&self, clock: &CommitClock) -> Vec<Seq> {
        let live = self.live.lock();
        let published = clock.published();
        let mut keep: Vec<Seq> = live.iter().filter(|(_, n)| *n > 0).map(|(seq, _)| *seq).collect();
        if keep.last() != Some(&published) {
            keep.push(published);
        }
        keep
    }

    pub fn oldest(&self) -> Option<Seq> {
        self.live.lock().front().map(|(seq, _)| *seq)
    }

    /// How many snapshots are held.
    pub fn count(&self) -> usize {
        self.live.lock().iter().map(|(_, n)| *n as usize).sum()
    }

    fn add_reader(&self, at: Seq) {
        let mut live = self.live.lock();
        if let Ok(i) = live.binary_search_by_key(&at, |(seq, _)| *seq) {
            live[i].1 += 1;
        }
    }

    fn release(&self, at: Seq) {
        let mut live = self.live.lock();
        if let Ok(i) = live.binary_search_by_key(&at, |(seq, _)| *seq) {
            live[i].1 -= 1;
        }
        while live.front().is_some_and(|(_, n)| *n == 0) {
            live.pop_front();
        }
        while live.back().is_some_and(|(_, n)| *n == 0) {
            live.pop_back();
        }
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
}
