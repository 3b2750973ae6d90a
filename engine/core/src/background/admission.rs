//! Admission of commits: delayed in proportion to memory and debt, and stopped at the limit until
//! memory is free.
//!
//! Without threads (`background_threads` = 0) a writer at the limit runs background steps itself,
//! as in the simulator.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind, Result};
use frond_txn::OwnerHandle;

use crate::commit::core::{Core, News};
use crate::shared::Shared;

/// Rounds of 5 ms without a job after which a writer stops waiting for memory.
const STUCK_ROUNDS: u32 = 20;
const ROUND: Duration = Duration::from_millis(5);
/// Writers are slowed when recovery would take nearly as long as its target (pacing begins at 0.6).
const TARGET_WEIGHT: f64 = 0.65;
/// Shorter delays are not slept.
const DELAY_MIN: Duration = Duration::from_micros(50);

impl Core {
    fn pressures(&self) -> (f64, f64) {
        let wal = &self.shared.wal;
        let (memory, debt) = self.pressure.shares(wal.end() - wal.kept_from());
        (memory, debt.max(self.target.used() * TARGET_WEIGHT))
    }

    /// Delays a commit of `bytes` by the time that `pressure` computes, or until `owner` is interrupted.
    pub(crate) fn pace(self: &Arc<Self>, bytes: u64, owner: &OwnerHandle) -> Result<()> {
        let (memory, debt) = self.pressures();
        if memory >= 1.0 {
            self.wait_for_room(owner)?;
        }
        if self.options.background_threads == 0 {
            return Ok(());
        }
        let delay = self.pressure.pacer.delay(bytes, memory, debt);
        if delay > DELAY_MIN {
            // Shutdown ends the sleep early, and so does every measurement, as the pressure has changed then.
            self.held_writers.wait(delay);
        }
        Ok(())
    }

    /// Waits until write buffers are below their limit.
    ///
    /// When no job runs and none can be planned, waiting is useless: the commit then goes on over
    /// the limit (there is nothing to flush) or fails (jobs have failed and wait for their retry).
    fn wait_for_room(self: &Arc<Self>, owner: &OwnerHandle) -> Result<()> {
        let mut idle_rounds = 0;
        loop {
            self.measure();
            let (memory, _) = self.pressures();
            if memory < 1.0 || self.queue.stopping() {
                return Ok(());
            }
            self.may_write()?;
            if self.options.background_threads == 0 {
                if !self.background_step() {
                    // There is nothing to flush (the data of one commit exceed the limit): go on.
                    return self.may_write();
                }
                continue;
            }
            let stuck = !self.queue.has_running_jobs() && self.most_urgent().is_none();
            idle_rounds = if stuck { idle_rounds + 1 } else { 0 };
            if idle_rounds > STUCK_ROUNDS {
                if !self.queue.has_failures() {
                    return Ok(());
                }
                if idle_rounds > 100 * STUCK_ROUNDS {
                    return Err(Error::new(
                        ErrorKind::Busy,
                        "write buffers are full and cannot be drained; the error log says why",
                    ));
                }
            }
            if owner.is_interrupted() {
                return Err(Error::new(
                    ErrorKind::Interrupted,
                    "the statement was interrupted while write buffers were full",
                ));
            }
            self.queue.wake();
            self.held_writers.wait(ROUND);
        }
    }

    /// A commit of `bytes` reached the buffers, and `news` are those of its trees at which that makes a difference. Looks
    /// at no other trees: there may be thousands, and housekeeping freezes buffers whose readers ask for it.
    pub(crate) fn wrote(&self, bytes: u64, news: &News) {
        for (table, index) in news.iter().filter(|(table, _)| !table.is_dropped()) {
            let tree = table.tree(*index);
            self.ledger.note_written(table, tree);
            if tree.wants_freeze() {
                self.freeze(tree);
            }
        }
        if self.pressure.wrote(bytes) {
            self.measure();
        }
    }

    /// Sums up memory and debt, and freezes the largest buffers when memory is short.
    pub(crate) fn measure(&self) {
        self.pressure.measure((&self.ledger, &self.queue), &self.shared, |tree| self.freeze(tree));
    }

    /// Gives pages and rows what the other parts of the budget leave.
    pub(crate) fn fit_cache(&self) {
        self.shared.fit_cache();
    }

    /// Returns free memory to the system when much of it has been free for a while.
    pub(crate) fn return_memory(&self) {
        let Shared { budget, vfs, .. } = &*self.shared;
        if self.pressure.should_return_memory(budget, vfs.now()) {
            vfs.return_free_memory();
            self.counters.memory_returns.fetch_add(1, Ordering::Relaxed);
        }
    }
}
