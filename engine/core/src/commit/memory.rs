//! Memory of large commits, and returning free memory to the system.
//!
//! A commit encodes its write set into a record, packs the record, and then copies the entries into write
//! buffers. For a moment its changes are in memory up to four times. For small transactions that is
//! nothing. Large ones share [`LargeCommits`]: an eighth of the budget for their records, which is charged
//! to it. A commit that finds no room waits until another one ends. It holds nothing but its write set
//! meanwhile, and nothing of it is in the log, so it can be interrupted.
//!
//! Freed memory goes to the allocator, which keeps it: the threshold above which it shrinks a heap grows
//! with the largest block that was ever freed, and every thread may have a heap. [`Returned`] watches
//! how much write sets, records and write buffers hold. When that has been much less than before for a
//! while, it has the free memory returned. It does not do so while the amount goes up and down: that memory
//! is needed again soon, and each returned page costs a page fault.
//!
//! Tested here and by `tests/it/memory.rs`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind, Result};
use frond_cache::{Budget, Charge, Part};
use parking_lot::{Condvar, Mutex};

/// Write sets below this are small.
pub(crate) const LARGE: usize = 256 << 10;
/// Share of the budget for the records of large commits.
const SHARE: usize = 8;

/// See the module.
#[derive(Default)]
pub(crate) struct LargeCommits {
    door: Mutex<Door>,
    moved: Condvar,
}

/// First come, first served. Otherwise the largest commits could wait for ever behind small ones.
#[derive(Default)]
struct Door {
    /// Bytes of records that are being made.
    taken: usize,
    /// How many have come, and which of them wait.
    came: u64,
    queue: VecDeque<u64>,
}

impl Door {
    fn has_room(&self, ticket: u64, bytes: usize, all: usize) -> bool {
        let fits = self.taken == 0 || self.taken.saturating_add(bytes) <= all;
        fits && self.queue.front() == Some(&ticket)
    }
}

/// A large commit's part of memory.
pub(crate) struct LargeCommit<'a> {
    of: &'a LargeCommits,
    charge: Charge,
}

/// How often a waiter polls for an interrupt: the interrupter does not know this condition variable.
const LOOK: Duration = Duration::from_millis(20);

impl LargeCommits {
    /// Waits until `bytes` more fit. A commit that is larger than the whole share runs alone.
    /// [`ErrorKind::Interrupted`] when `interrupted` says so during the wait.
    pub fn enter(
        &self,
        budget: &Arc<Budget>,
        bytes: usize,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<LargeCommit<'_>> {
        let mut door = self.door.lock();
        let me = door.came;
        door.came += 1;
        door.queue.push_back(me);
        let mut leaves = false;
        while !leaves && !door.has_room(me, bytes, budget.limit() / SHARE) {
            self.moved.wait_for(&mut door, LOOK);
            leaves = interrupted();
        }
        door.queue.retain(|n| *n != me);
        if !leaves {
            door.taken = door.taken.saturating_add(bytes);
        }
        drop(door);
        // The commit behind this one may enter.
        self.moved.notify_all();
        if leaves {
            return Err(Error::new(
                ErrorKind::Interrupted,
                "the commit was interrupted while it waited for memory; nothing was changed",
            ));
        }
        Ok(LargeCommit { of: self, charge: budget.charge(Part::WriteBuffers, bytes) })
    }

    #[cfg(test)]
    fn taken(&self) -> usize {
        self.door.lock().taken
    }
}

impl Drop for LargeCommit<'_> {
    fn drop(&mut self) {
        let bytes = self.charge.bytes();
        // Before the room is given away: the next commit charges its own bytes at once.
        self.charge.resize(0);
        let mut door = self.of.door.lock();
        door.taken = door.taken.saturating_sub(bytes);
        drop(door);
        self.of.moved.notify_all();
    }
}

/// How long a window is.
const WINDOW: Duration = Duration::from_secs(2);

/// When to return free memory to the system.
#[derive(Default)]
pub(crate) struct Returned {
    /// The most in use since memory was returned.
    high: usize,
    /// The most in this window, and in the one before.
    now: usize,
    before: usize,
    /// When this window began.
    began: Duration,
}

impl Returned {
    /// Notes how much is in use; true when free memory should be returned. Call it several times per
    /// window. How often does not matter: windows are measured by `now`.
    pub fn look(&mut self, in_use: usize, limit: usize, now: Duration) -> bool {
        self.high = self.high.max(in_use);
        self.now = self.now.max(in_use);
        if now.saturating_sub(self.began) < WINDOW {
            return false;
        }
        let recent = self.now.max(self.before);
        (self.before, self.now, self.began) = (self.now, 0, now);
        let least = (limit / 16).max(4 << 20);
        if self.high - recent.min(self.high) < least {
            return false;
        }
        self.high = recent;
        true
    }

    /// Notes a peak that may be over before the next [`Returned::look`].
    pub fn note(&mut self, in_use: usize) {
        self.high = self.high.max(in_use);
        self.now = self.now.max(in_use);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::Options;

    const MIB: usize = 1 << 20;
    const NEVER: &dyn Fn() -> bool = &|| false;

    #[test]
    fn records_of_large_commits_stay_within_their_share_and_are_charged() {
        let budget = Arc::new(Budget::new(64 * MIB));
        let large = LargeCommits::default();
        let most = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for t in 0..8 {
                let (budget, large, most) = (&budget, &large, &most);
                threads.spawn(move || {
                    for i in 0..50 {
                        let mine = large.enter(budget, (1 + (t + i) % 4) * MIB, &|| false).unwrap();
                        most.fetch_max(budget.used_by(Part::WriteBuffers), Ordering::Relaxed);
                        std::thread::yield_now();
                        drop(mine);
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!((3 * MIB..=8 * MIB).contains(&most), "{most}");
        assert_eq!((large.taken(), budget.used()), (0, 0));
    }

    #[test]
    fn what_is_larger_than_the_share_goes_alone_and_in_its_turn() {
        let budget = Arc::new(Budget::new(8 * MIB));
        let large = LargeCommits::default();
        let one = large.enter(&budget, 100 * MIB, NEVER).unwrap();
        let came = |n| {
            while large.door.lock().came < n {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|threads| {
            let small = threads.spawn(|| drop(large.enter(&budget, MIB, &|| false)));
            came(2);
            let huge = threads.spawn(|| drop(large.enter(&budget, 100 * MIB, &|| false)));
            came(3);
            let late = threads.spawn(|| drop(large.enter(&budget, 1, &|| false)));
            came(4);
            assert!(!small.is_finished() && !huge.is_finished() && !late.is_finished());
            assert_eq!(large.door.lock().queue, [1, 2, 3]);
            drop(one);
        });
        assert_eq!((large.taken(), large.door.lock().queue.len()), (0, 0));
    }

    #[test]
    fn who_is_interrupted_leaves_the_door_to_those_behind() {
        let budget = Arc::new(Budget::new(8 * MIB));
        let large = LargeCommits::default();
        let half = large.enter(&budget, MIB / 2, NEVER).unwrap();
        let killed = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let huge = threads.spawn(|| {
                let killed = || killed.load(Ordering::Relaxed);
                large.enter(&budget, 100 * MIB, &killed).map(drop).unwrap_err().kind()
            });
            while large.door.lock().came < 2 {
                std::thread::yield_now();
            }
            let small = threads.spawn(|| large.enter(&budget, MIB / 4, &|| false).map(drop));
            while large.door.lock().came < 3 {
                std::thread::yield_now();
            }
            assert!(!huge.is_finished() && !small.is_finished());
            killed.store(true, Ordering::Relaxed);
            assert_eq!(huge.join().unwrap(), ErrorKind::Interrupted);
            small.join().unwrap().unwrap();
        });
        drop(half);
        assert_eq!((large.taken(), budget.used()), (0, 0));
    }

    #[test]
    fn a_large_commit_that_waits_can_be_interrupted_and_leaves_nothing() {
        let options = Options { cache_bytes: 64 * MIB as u64, ..Options::default() };
        let engine = crate::Engine::open(Arc::new(frond_vfs::MemVfs::stepped()), options).unwrap();
        let spec = crate::TableSpec {
            name: "t".into(),
            indexes: vec![crate::IndexDef::plain()],
            schema: Vec::new(),
            meta: Vec::new(),
            auto_increment: 1,
        };
        let table = engine.create_table(spec).unwrap();
        let core = engine.core();
        let mut txn = engine.begin(crate::TxnOptions::default());
        for n in 0..1_000u32 {
            txn.put(&table, &n.to_be_bytes(), &[7; 1_000], true).unwrap();
        }
        // All that large commits have together.
        let other = core.large_commits.enter(&core.shared.budget, 8 * MIB, NEVER).unwrap();
        let id = txn.id();
        let came = core.large_commits.door.lock().came;
        std::thread::scope(|threads| {
            let commit = threads.spawn(move || txn.commit().unwrap_err().kind());
            while core.large_commits.door.lock().came == came && !commit.is_finished() {
                std::thread::yield_now();
            }
            assert!(engine.interrupt(id));
            assert_eq!(commit.join().unwrap(), ErrorKind::Interrupted);
        });
        drop(other);
        let mut txn = engine.begin(crate::TxnOptions::default());
        assert!(!txn.get(&table, 0, &0u32.to_be_bytes(), &mut Vec::new()).unwrap());
        // The interrupted transaction's locks are released as well.
        txn.put(&table, &0u32.to_be_bytes(), b"free", true).unwrap();
        txn.commit().unwrap();
    }

    #[test]
    fn memory_is_returned_once_when_it_stays_free_and_not_while_it_breathes() {
        let mut r = Returned::default();
        let mut now = Duration::ZERO;
        let mut look = |r: &mut Returned, in_use: usize, after: u64| {
            now += Duration::from_millis(after);
            r.look(in_use, 64 * MIB, now)
        };
        // It goes up and down, so the memory is needed again soon, however often this is called.
        for i in 0..400 {
            assert!(!look(&mut r, if i % 15 < 5 { 40 * MIB } else { MIB }, 100));
        }
        for i in 0..40_000 {
            assert!(!look(&mut r, if i % 1_500 < 500 { 40 * MIB } else { MIB }, 1));
        }
        let returned = (0..100).filter(|_| look(&mut r, 2 * MIB, 100)).count();
        assert_eq!(returned, 1);
        // A short peak counts as well.
        r.note(30 * MIB);
        let returned = (0..100).filter(|_| look(&mut r, 2 * MIB, 100)).count();
        assert_eq!(returned, 1);
        // A little less is not worth it.
        r.note(5 * MIB);
        assert!(!(0..100).any(|_| look(&mut r, 2 * MIB, 100)));
    }
}
