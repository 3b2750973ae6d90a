//! Which fences and filters of runs stay in memory.
//!
//! They are as large as two of a thousand bytes of their run, with small pages and long keys as sixteen (more for keys above 230 bytes), and a filter adds some
//! twelve. So a table can be so much larger than memory that even these do not fit. They stay with their run's handle, where a read finds them without a search; the
//! queue here has a weak reference to each such handle. When all of them take more than their limit, a hand goes round in the
//! queue (the CLOCK algorithm: Corbato, 1968) and takes away what was not used since its last round. What is loaded while there
//! is little room comes without its filter, which takes most of the memory: then a look-up of a missing key reads a page.
//!
//! - XC1. What the budget has for them is what lives: each index has its charge until its last reader lets go.
//! - XC2. The queue has at most two references for each index in memory, and a constant.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use frond_run::{Run, RunIndex};
use parking_lot::Mutex;

use crate::budget::{Budget, Part};

/// Steps of the hand for one index that comes in, and for each change of the limit; never more than a round.
const STEPS: usize = 32;
/// Handles of runs that are gone leave the queue when it is this long, or twice as long as after the last time.
const PURGE: usize = 256;

/// The fences and filters in memory, against a limit.
pub struct IndexCache {
    budget: Arc<Budget>,
    limit: AtomicUsize,
    /// Handles that the hand has yet to look at for indexes without their filter.
    unseen: AtomicUsize,
    queue: Mutex<Queue>,
}

struct Queue {
    runs: VecDeque<Weak<Run>>,
    purge_at: usize,
}

impl IndexCache {
    /// No limit but the budget's until [`Self::set_limit`].
    pub fn new(budget: Arc<Budget>) -> IndexCache {
        let limit = AtomicUsize::new(budget.limit());
        let queue = Mutex::new(Queue { runs: VecDeque::new(), purge_at: PURGE });
        IndexCache { budget, limit, unseen: AtomicUsize::new(0), queue }
    }

    /// The most that they should take, in bytes. When it is less than they do, the hand starts; when half of it is free,
    /// indexes without their filter go, so that the next use loads them with it.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
        if self.excess() > 0 {
            self.queue.lock().turn(STEPS, || self.excess() > 0);
        } else if self.unseen.load(Ordering::Relaxed) > 0 && self.used() < bytes / 2 {
            let mut queue = self.queue.lock();
            let steps = STEPS.min(self.unseen.load(Ordering::Relaxed));
            self.unseen.fetch_sub(steps, Ordering::Relaxed);
            queue.turn_for_filters(steps);
        }
    }

    /// Whether an index that is loaded may bring its filter.
    pub fn has_room(&self) -> bool {
        self.used() < self.limit.load(Ordering::Relaxed) / 4 * 3
    }

    /// `run` has `index` in memory from now on, or shares it with another handle that has.
    pub fn admit(&self, run: &Arc<Run>, index: &RunIndex) {
        index.charge(|| self.budget.charge(Part::RunIndexes, index.memory_bytes()));
        let mut queue = self.queue.lock();
        queue.runs.push_back(Arc::downgrade(run));
        if queue.runs.len() >= queue.purge_at {
            queue.runs.retain(|run| run.strong_count() > 0);
            queue.purge_at = PURGE.max(2 * queue.runs.len());
        }
        if run.lacks_filter() {
            self.unseen.store(queue.runs.len(), Ordering::Relaxed);
        }
        queue.turn(STEPS, || self.excess() > 0);
    }

    /// References in the queue (XC2).
    pub fn handles(&self) -> usize {
        self.queue.lock().runs.len()
    }

    fn used(&self) -> usize {
        self.budget.used_by(Part::RunIndexes)
    }

    fn excess(&self) -> usize {
        self.used().saturating_sub(self.limit.load(Ordering::Relaxed))
    }
}

impl Queue {
    /// Moves the hand by at most `steps` handles, while `needed`.
    fn turn(&mut self, steps: usize, needed: impl Fn() -> bool) {
        // Not twice to the same handle: its readers have had no time to use it again.
        for _ in 0..steps.min(self.runs.len()) {
            if !needed() {
                return;
            }
            let Some(handle) = self.runs.pop_front() else { return };
            let Some(run) = handle.upgrade() else { continue };
            match run.lends_index() {
                None => {}
                Some(true) => self.runs.push_back(handle),
                Some(false) => run.give_up_index(),
            }
        }
    }

    /// Moves the hand by `steps` handles and takes away indexes without their filter.
    fn turn_for_filters(&mut self, steps: usize) {
        for _ in 0..steps {
            let Some(handle) = self.runs.pop_front() else { return };
            match handle.upgrade() {
                Some(run) if run.lacks_filter() => run.give_up_index(),
                Some(_) => self.runs.push_back(handle),
                None => {}
            }
        }
    }
}
