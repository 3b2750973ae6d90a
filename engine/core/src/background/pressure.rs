//! Memory and debt: their figures and their limits.
//!
//! Write buffers have a share of the budget; merge debt and the log have limits of their own.
//! Commits are counted as they arrive, and a measurement is made from time to time: it takes the
//! sums, freezes the largest buffers when active ones take too much, and updates the budget.
//! `admission.rs` makes writers wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use frond_cache::{Budget, Part};
use frond_tree::Tree;
use parking_lot::Mutex;

use crate::background::held_writers::HeldWriters;
use crate::background::ledger::{Ledger, Sums};
use crate::background::pacing::Pacer;
use crate::background::queue::Queue;
use crate::commit::memory::Returned;
use crate::options::Options;
use crate::shared::Shared;

/// Share of the budget for write buffers, active and frozen, in percent.
const WRITE_PERCENT: u64 = 40;
/// Active buffers are frozen above this share of the write memory.
const FREEZE_PERCENT: u64 = 55;
/// Debt at which writers are slowed to the drain rate, in budgets.
const DEBT_BUDGETS: u64 = 4;

/// See the module. All figures are bytes.
pub struct Pressure {
    pub pacer: Pacer,
    write_limit: AtomicU64,
    debt_limit: AtomicU64,
    log_capacity: AtomicU64,
    /// Committed since the last measurement.
    unmeasured: AtomicU64,
    buffered: AtomicU64,
    debt: AtomicU64,
    /// The bytes charged to the budget. The measuring thread holds it.
    charged: Mutex<usize>,
    returned: Mutex<Returned>,
    writers: Arc<HeldWriters>,
}

/// Figures for reports, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct PressureStatus {
    pub buffered: u64,
    pub write_limit: u64,
    pub debt: u64,
    pub debt_limit: u64,
    pub drain_rate: u64,
    pub delayed_micros: u64,
}

impl Pressure {
    pub fn new(options: &Options, writers: Arc<HeldWriters>) -> Pressure {
        let pressure = Pressure {
            pacer: Pacer::default(),
            write_limit: AtomicU64::new(0),
            debt_limit: AtomicU64::new(0),
            log_capacity: AtomicU64::new(options.log_capacity_bytes),
            unmeasured: AtomicU64::new(0),
            buffered: AtomicU64::new(0),
            debt: AtomicU64::new(0),
            charged: Mutex::default(),
            returned: Mutex::default(),
            writers,
        };
        pressure.set_cache_bytes(options.cache_bytes);
        pressure
    }

    // ---- limits ----

    /// The limits follow the budget.
    pub fn set_cache_bytes(&self, bytes: u64) {
        self.write_limit.store(bytes / 100 * WRITE_PERCENT, Ordering::Relaxed);
        self.debt_limit.store(bytes.saturating_mul(DEBT_BUDGETS), Ordering::Relaxed);
    }

    pub fn set_log_capacity(&self, bytes: u64) {
        self.log_capacity.store(bytes, Ordering::Relaxed);
    }

    pub fn log_capacity(&self) -> u64 {
        self.log_capacity.load(Ordering::Relaxed)
    }

    pub fn status(&self) -> PressureStatus {
        PressureStatus {
            buffered: self.buffered.load(Ordering::Relaxed),
            write_limit: self.write_limit.load(Ordering::Relaxed),
            debt: self.debt.load(Ordering::Relaxed),
            debt_limit: self.debt_limit.load(Ordering::Relaxed),
            drain_rate: self.pacer.drain_rate(),
            delayed_micros: self.pacer.delayed_micros(),
        }
    }

    // ---- how much there is ----

    /// Memory and debt as shares of their limits (1.0 = at it), with `log_kept` bytes of log. Debt counts
    /// the log as well.
    pub fn shares(&self, log_kept: u64) -> (f64, f64) {
        let unmeasured = self.unmeasured.load(Ordering::Relaxed);
        let buffered = self.buffered.load(Ordering::Relaxed) + unmeasured;
        let memory = buffered as f64 / self.write_limit.load(Ordering::Relaxed).max(1) as f64;
        let debt = self.debt.load(Ordering::Relaxed) as f64
            / self.debt_limit.load(Ordering::Relaxed).max(1) as f64;
        let log = log_kept as f64 / self.log_capacity().max(1) as f64;
        (memory, debt.max(log * 0.9))
    }

    /// Whether jobs that free memory come first.
    pub fn memory_is_short(&self) -> bool {
        self.buffered.load(Ordering::Relaxed) > self.write_limit.load(Ordering::Relaxed) / 2
    }

    /// A commit whose record has `bytes` reached the buffers. Returns whether it is time to measure.
    pub fn wrote(&self, bytes: u64) -> bool {
        // Entries take about twice their log bytes in a buffer.
        let unmeasured = self.unmeasured.fetch_add(2 * bytes, Ordering::Relaxed) + 2 * bytes;
        unmeasured > self.write_limit.load(Ordering::Relaxed) / 64
    }

    /// Reads the ledger's sums, freezes the largest buffers by `freeze` (which notes it in the
    /// ledger; false: it was empty) when memory is short, and updates the budget. Does nothing
    /// while another thread measures.
    pub fn measure(
        &self,
        (ledger, queue): (&Ledger, &Queue),
        shared: &Shared,
        mut freeze: impl FnMut(&Tree) -> bool,
    ) {
        let Some(mut charged) = self.charged.try_lock() else { return };
        self.unmeasured.store(0, Ordering::Relaxed);
        let limit = self.write_limit.load(Ordering::Relaxed);
        let mark = limit / 100 * FREEZE_PERCENT;
        if ledger.sums().active > mark {
            let mut left = ledger.sums().active;
            // The largest first: it costs least per byte, and the others can grow.
            while left > mark {
                let Some((tree, bytes)) = ledger.largest() else { break };
                freeze(&tree);
                left -= bytes.min(left);
            }
            queue.wake();
        }
        let Sums { active, frozen, debt } = ledger.sums();
        let total = active + frozen;
        self.buffered.store(total, Ordering::Relaxed);
        self.debt.store(debt, Ordering::Relaxed);
        let now = usize::try_from(total).unwrap_or(usize::MAX);
        let budget = &shared.budget;
        if now > *charged {
            budget.add(Part::WriteBuffers, now - *charged);
        } else {
            budget.sub(Part::WriteBuffers, *charged - now);
        }
        *charged = now;
        shared.fit_cache();
        self.writers.wake();
    }

    // ---- memory that is free again ----

    /// Write memory may be at a peak.
    pub fn note_memory(&self, budget: &Budget) {
        self.returned.lock().note(budget.used_by(Part::WriteBuffers));
    }

    /// Whether free memory should be returned to the system: there has been much of it for a while.
    pub fn should_return_memory(&self, budget: &Budget, now: Duration) -> bool {
        let in_use = budget.used_by(Part::WriteBuffers);
        self.returned.lock().look(in_use, budget.limit(), now)
    }
}
