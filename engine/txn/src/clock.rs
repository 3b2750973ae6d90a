//! `CommitClock`: assigns commit sequences and publishes them in the same order.
//!
//! Invariants:
//!
//! - CC1. `published()` is the largest sequence such that it and all smaller ones have been applied.
//! - CC2. A committer returns from [`CommitClock::finish`] only after its own sequence is
//!   published, so a client that was told of a commit sees it in its next snapshot.
//!
//! Tested here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use frond_base::Seq;
use parking_lot::{Condvar, Mutex};

/// See the module.
pub struct CommitClock {
    assigned: AtomicU64,
    published: AtomicU64,
    /// Assigned and not yet published, ascending; whether applied.
    pending: Mutex<VecDeque<(Seq, bool)>>,
    advanced: Condvar,
}

impl CommitClock {
    /// `last` is the last sequence used before (0 in a new database); it counts as published.
    pub fn new(last: Seq) -> CommitClock {
        CommitClock {
            assigned: AtomicU64::new(last),
            published: AtomicU64::new(last),
            pending: Mutex::new(VecDeque::new()),
            advanced: Condvar::new(),
        }
    }

    /// The sequence a new snapshot reads at.
    #[inline]
    pub fn published(&self) -> Seq {
        self.published.load(Ordering::Acquire)
    }

    pub fn last_assigned(&self) -> Seq {
        self.assigned.load(Ordering::Acquire)
    }

    /// Assigns the next sequence. Called under the engine's commit mutex together with appending to
    /// the log, so that both orders agree. Every sequence must be given to `mark_applied` or `finish`
    /// later, even if its commit failed, or publishing stops.
    pub fn begin_commit(&self) -> Seq {
        let seq = self.last_assigned() + 1;
        self.begin_commit_at(seq);
        seq
    }

    /// As [`CommitClock::begin_commit`], with a sequence that the caller derives from elsewhere (the end
    /// of the commit's log record); it must be larger than all before.
    pub fn begin_commit_at(&self, seq: Seq) {
        let mut pending = self.pending.lock();
        let last = self.assigned.swap(seq, Ordering::AcqRel);
        assert!(seq > last, "sequence {seq} assigned after {last} (CC1)");
        pending.push_back((seq, false));
    }

    /// The changes of `seq` are in the buffers. Does not wait.
    pub fn mark_applied(&self, seq: Seq) {
        let mut pending = self.pending.lock();
        let at = pending.binary_search_by_key(&seq, |p| p.0);
        let entry = at.ok().and_then(|i| pending.get_mut(i)).filter(|p| !p.1);
        assert!(entry.is_some(), "sequence {seq} applied twice or never assigned (CC1)");
        if let Some(entry) = entry {
            entry.1 = true;
        }
        let mut advanced = false;
        while let Some(&(seq, true)) = pending.front() {
            pending.pop_front();
            self.published.store(seq, Ordering::Release);
            advanced = true;
        }
        let first = pending.front().map_or(Seq::MAX, |p| p.0);
        assert!(self.published() < first, "published up to {first}, which is not applied (CC1)");
        if advanced {
            self.advanced.notify_all();
        }
    }

    /// The newest sequence below all commits that are being applied. Later commits may not be in
    /// the buffers yet. `None`: every commit that has begun is in the buffers.
    pub fn applied_upto(&self) -> Option<Seq> {
        let pending = self.pending.lock();
        (!pending.is_empty()).then(|| self.published())
    }

    /// Waits until `seq` is published.
    pub fn wait_published(&self, seq: Seq) {
        if self.published() >= seq {
            return;
        }
        let mut pending = self.pending.lock();
        while self.published() < seq {
            self.advanced.wait(&mut pending);
        }
    }

    /// [`CommitClock::mark_applied`], then [`CommitClock::wait_published`].
    pub fn finish(&self, seq: Seq) {
        self.mark_applied(seq);
        self.wait_published(seq);
        assert!(self.published() >= seq, "sequence {seq} is finished and not published (CC2)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_published_in_order_only() {
        let c = CommitClock::new(10);
        let (a, b, d) = (c.begin_commit(), c.begin_commit(), c.begin_commit());
        assert_eq!((a, b, d), (11, 12, 13));
        c.mark_applied(d);
        c.mark_applied(b);
        assert_eq!(c.published(), 10);
        c.finish(a);
        assert_eq!(c.published(), 13);
    }

    #[test]
    #[should_panic(expected = "CC1")]
    fn publishing_what_is_not_applied_is_found() {
        let c = CommitClock::new(10);
        let (_, b) = (c.begin_commit(), c.begin_commit());
        c.published.store(b, Ordering::Release);
        c.mark_applied(b);
    }

    #[test]
    fn given_sequences_may_leave_gaps() {
        let c = CommitClock::new(100);
        c.begin_commit_at(150);
        c.begin_commit_at(900);
        c.mark_applied(900);
        assert_eq!(c.published(), 100);
        c.finish(150);
        assert_eq!(c.published(), 900);
    }

    #[test]
    fn finish_returns_when_earlier_commits_are_applied() {
        let c = CommitClock::new(0);
        let (a, b) = (c.begin_commit(), c.begin_commit());
        std::thread::scope(|s| {
            let waiter = s.spawn(|| {
                c.finish(b);
                c.published()
            });
            std::thread::yield_now();
            assert!(c.published() < b);
            c.mark_applied(a);
            assert_eq!(waiter.join().unwrap(), b);
        });
    }
}
