//! Memory of large commits, and giving memory back.
//!
//! A commit encodes its write set into a record and packs that, and then copies the entries into write
//! buffers: for a moment its changes are in memory up to four times. For small transactions that is
//! nothing. Large ones share [`LargeCommits`]: an eighth of the budget for their records, which is charged
//! to it; who finds no room waits for another one to end, holding nothing but the write set.
//!
//! What is freed goes back to the allocator, and that keeps it: its threshold for giving the top of a heap
//! back grows with the largest block that was ever freed, and every thread may have a heap. [`Returned`]
//! looks at what write sets, records and write buffers hold, and has the free memory returned when it has
//! been much less than before for a while. Not while it goes up and down: that memory is wanted again at
//! once, and a page given back costs a fault.
//!
//! Tested here and by `tests/it/memory.rs`.

use std::sync::Arc;
use std::time::Duration;

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

/// First come, first served: the largest ones would wait for ever behind small ones otherwise.
#[derive(Default)]
struct Door {
    /// Bytes of records that are being made.
    taken: usize,
    /// How many have come, and how many of them were let in.
    came: u64,
    entered: u64,
}

/// A large commit's part of memory.
pub(crate) struct LargeCommit<'a> {
    of: &'a LargeCommits,
    charge: Charge,
}

impl LargeCommits {
    /// Waits until `bytes` more fit; what is larger than all there is goes alone.
    pub fn enter(&self, budget: &Arc<Budget>, bytes: usize) -> LargeCommit<'_> {
        let mut door = self.door.lock();
        let me = door.came;
        door.came += 1;
        while door.entered != me
            || (door.taken > 0 && door.taken.saturating_add(bytes) > budget.limit() / SHARE)
        {
            self.moved.wait(&mut door);
        }
        door.entered += 1;
        door.taken = door.taken.saturating_add(bytes);
        drop(door);
        self.moved.notify_all();
        LargeCommit { of: self, charge: budget.charge(Part::WriteBuffers, bytes) }
    }

    #[cfg(test)]
    fn taken(&self) -> usize {
        self.door.lock().taken
    }
}

impl Drop for LargeCommit<'_> {
    fn drop(&mut self) {
        let bytes = self.charge.bytes();
        // First: who comes in next is charged at once.
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
    /// Takes in a look at what is in use; true: return what is free. To be called several times a window,
    /// however often: `now` counts.
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

    /// In use for less time than lies between two looks, perhaps.
    pub fn note(&mut self, in_use: usize) {
        self.high = self.high.max(in_use);
        self.now = self.now.max(in_use);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const MIB: usize = 1 << 20;

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
                        let mine = large.enter(budget, (1 + (t + i) % 4) * MIB);
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
        let one = large.enter(&budget, 100 * MIB);
        let came = |n| {
            while large.door.lock().came < n {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|threads| {
            let small = threads.spawn(|| drop(large.enter(&budget, MIB)));
            came(2);
            let huge = threads.spawn(|| drop(large.enter(&budget, 100 * MIB)));
            came(3);
            let late = threads.spawn(|| drop(large.enter(&budget, 1)));
            came(4);
            assert!(!small.is_finished() && !huge.is_finished() && !late.is_finished());
            assert_eq!(large.door.lock().entered, 1);
            drop(one);
        });
        assert_eq!((large.taken(), large.door.lock().entered), (0, 4));
    }

    #[test]
    fn memory_is_returned_once_when_it_stays_free_and_not_while_it_breathes() {
        let mut r = Returned::default();
        let mut now = Duration::ZERO;
        let mut look = |r: &mut Returned, in_use: usize, after: u64| {
            now += Duration::from_millis(after);
            r.look(in_use, 64 * MIB, now)
        };
        // Up and down: wanted again at once. However often somebody looks.
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
