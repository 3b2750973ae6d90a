//! Background work: its state, the limits it works towards, and how writers are held back by it. Jobs are
//! in `jobs.rs`, the log thread's rounds in `housekeeping.rs`.
//!
//! Worker threads take the most urgent job of all trees, run it step by step, and look again. One more
//! thread tends the log: the sync each second, the next segment, trimming, and images for tables that hold
//! the log back. Without threads (`background_threads` = 0) the owner calls [`Core::background_step`], and
//! writers who meet the memory limit run steps themselves: so the simulator drives everything.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind, Result, TableId, TreeId};
use frond_cache::{CachePolicy, Part};
use frond_tree::Tree;
use frond_txn::OwnerHandle;
use parking_lot::{Condvar, Mutex};

use crate::background::pacing::Pacer;
use crate::commit::core::Core;
use crate::commit::memory::{LargeCommits, Returned};
use crate::options::Options;
use crate::table::Table;

/// Share of the budget for write buffers, active and frozen, in percent.
const WRITE_PERCENT: u64 = 40;
/// Active buffers are frozen above this share of the write memory.
const FREEZE_PERCENT: u64 = 55;
/// Debt at which writers are slowed to the drain rate, in budgets.
const DEBT_BUDGETS: u64 = 4;
/// The same failure at the same place is told once in this time: the operator's log may be on the full
/// disk that it is about.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// Rounds of 5 ms without a job after which a writer stops waiting for memory.
const STUCK_ROUNDS: u32 = 20;
/// Page cache that is left whatever write buffers and indexes take.
const CACHE_FLOOR_PERCENT: u64 = 10;

/// State of background work.
pub struct Work {
    pub(crate) stop: AtomicBool,
    /// Jobs under way.
    pub(crate) running: AtomicU64,
    signal: Mutex<u64>,
    wake: Condvar,
    /// Waited on by writers at the memory limit.
    room: Condvar,
    pub(crate) pacer: Pacer,
    pub(crate) write_limit: AtomicU64,
    debt_limit: AtomicU64,
    log_capacity: AtomicU64,
    /// Tables that may have buffered entries or work to do.
    /// Ordered, so that equally urgent work is taken in the same order in every run.
    pub(crate) dirty: Mutex<BTreeMap<TableId, Arc<Table>>>,
    /// Bytes committed since the last measurement.
    unmeasured: AtomicU64,
    pub(crate) buffered: AtomicU64,
    debt: AtomicU64,
    measuring: Mutex<Measured>,
    pub(crate) failures: Mutex<HashMap<TreeId, Failure>>,
    /// Why nothing can be written just now: the disk is full.
    full: Mutex<Option<Error>>,
    pub(crate) is_full: AtomicBool,
    /// Files of dropped tables, to remove.
    pub(crate) doomed: Mutex<Vec<String>>,
    /// Tables whose files have space that a rolled-back transaction took.
    pub(crate) lent: Mutex<Vec<Arc<Table>>>,
    pub(crate) large: LargeCommits,
    returned: Mutex<Returned>,
    pub(crate) last_sync: Mutex<Duration>,
    pub(crate) last_look: Mutex<Duration>,
    /// When what was last told, by tree (none: a checkpoint).
    said: Mutex<HashMap<(Option<TreeId>, ErrorKind), Duration>>,
}

#[derive(Default)]
struct Measured {
    charged: usize,
}

pub(crate) struct Failure {
    pub until: Duration,
    pub wait: Duration,
    /// `None`: nothing failed, the plan was overtaken.
    pub error: Option<Error>,
}

/// What a report shows of the work state, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkStatus {
    pub buffered: u64,
    pub write_limit: u64,
    pub debt: u64,
    pub debt_limit: u64,
    pub drain_rate: u64,
    pub delayed_micros: u64,
    pub disk_full: bool,
}

impl Work {
    pub(crate) fn new(options: &Options) -> Work {
        let work = Work {
            stop: AtomicBool::new(false),
            running: AtomicU64::new(0),
            signal: Mutex::new(0),
            wake: Condvar::new(),
            room: Condvar::new(),
            pacer: Pacer::default(),
            write_limit: AtomicU64::new(0),
            debt_limit: AtomicU64::new(0),
            log_capacity: AtomicU64::new(options.log_capacity_bytes),
            dirty: Mutex::new(BTreeMap::new()),
            unmeasured: AtomicU64::new(0),
            buffered: AtomicU64::new(0),
            debt: AtomicU64::new(0),
            measuring: Mutex::new(Measured::default()),
            failures: Mutex::new(HashMap::new()),
            full: Mutex::new(None),
            is_full: AtomicBool::new(false),
            doomed: Mutex::new(Vec::new()),
            lent: Mutex::new(Vec::new()),
            large: LargeCommits::default(),
            returned: Mutex::default(),
            last_sync: Mutex::new(Duration::ZERO),
            last_look: Mutex::new(Duration::ZERO),
            said: Mutex::new(HashMap::new()),
        };
        work.set_cache_bytes(options.cache_bytes);
        work
    }

    /// The limits follow the budget.
    pub(crate) fn set_cache_bytes(&self, bytes: u64) {
        self.write_limit.store(bytes / 100 * WRITE_PERCENT, Ordering::Relaxed);
        self.debt_limit.store(bytes.saturating_mul(DEBT_BUDGETS), Ordering::Relaxed);
    }

    pub(crate) fn set_log_capacity(&self, bytes: u64) {
        self.log_capacity.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn log_capacity(&self) -> u64 {
        self.log_capacity.load(Ordering::Relaxed)
    }

    pub fn status(&self) -> WorkStatus {
        WorkStatus {
            buffered: self.buffered.load(Ordering::Relaxed),
            write_limit: self.write_limit.load(Ordering::Relaxed),
            debt: self.debt.load(Ordering::Relaxed),
            debt_limit: self.debt_limit.load(Ordering::Relaxed),
            drain_rate: self.pacer.drain_rate(),
            delayed_micros: self.pacer.delayed_micros(),
            disk_full: self.is_full.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
        self.room.notify_all();
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn wake(&self) {
        *self.signal.lock() += 1;
        self.wake.notify_all();
    }

    /// Sleeps until woken, at most for `time`.
    pub(crate) fn rest(&self, time: Duration) {
        let mut signal = self.signal.lock();
        if !self.stopping() {
            self.wake.wait_for(&mut signal, time);
        }
    }

    /// Waits a moment for other threads' jobs.
    pub(crate) fn pause(&self) {
        let mut signal = self.signal.lock();
        self.wake.wait_for(&mut signal, Duration::from_millis(1));
    }

    /// The table may have work: look at it when planning.
    pub(crate) fn add(&self, table: &Arc<Table>) {
        self.dirty.lock().entry(table.id()).or_insert_with(|| table.clone());
    }

    pub(crate) fn forget(&self, table: TableId) {
        self.dirty.lock().remove(&table);
        self.failures.lock().retain(|tree, _| tree.table != table);
    }

    /// Looks at the table now, whatever failed there before.
    pub(crate) fn retry(&self, table: &Arc<Table>) {
        self.failures.lock().retain(|tree, _| tree.table != table.id());
        self.add(table);
    }

    /// Why the latest job in the table failed, if it did.
    pub(crate) fn failure_in(&self, table: TableId) -> Option<Error> {
        let failures = self.failures.lock();
        let of_table = failures.iter().filter(|(tree, _)| tree.table == table);
        of_table.filter_map(|(_, f)| f.error.as_ref()).map(Error::duplicate).next()
    }

    /// Whether it is time to tell of a failure of this kind at this place.
    pub(crate) fn is_news(&self, tree: Option<TreeId>, kind: ErrorKind, now: Duration) -> bool {
        let mut said = self.said.lock();
        said.retain(|_, at| now.saturating_sub(*at) < SAY_AGAIN);
        if said.contains_key(&(tree, kind)) {
            return false;
        }
        said.insert((tree, kind), now);
        true
    }

    // ---- disk full ----

    /// Fails when the disk is full: before anything is logged, so that nothing is lost and nothing needs
    /// to be poisoned.
    pub(crate) fn check_space(&self) -> Result<()> {
        if !self.is_full.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.full.lock() {
            Some(e) => Err(e.duplicate()),
            None => Ok(()),
        }
    }

    /// Notes a full disk (other errors pass) and returns the error to report.
    pub(crate) fn no_space(&self, failure: Error) -> Error {
        if failure.kind() != ErrorKind::NoSpace {
            return failure;
        }
        self.set_full(Some(&failure));
        self.check_space().err().unwrap_or(failure)
    }

    pub(crate) fn set_full(&self, failure: Option<&Error>) {
        let mut full = self.full.lock();
        self.is_full.store(failure.is_some(), Ordering::Release);
        *full = failure.map(|e| {
            Error::new(
                ErrorKind::NoSpace,
                format!("{}; free some space: writing goes on by itself then", e.message()),
            )
        });
        self.room.notify_all();
    }

    // ---- writers ----

    fn pressures(&self, core: &Core) -> (f64, f64) {
        let unmeasured = self.unmeasured.load(Ordering::Relaxed);
        let buffered = self.buffered.load(Ordering::Relaxed) + unmeasured;
        let memory = buffered as f64 / self.write_limit.load(Ordering::Relaxed).max(1) as f64;
        let debt = self.debt.load(Ordering::Relaxed) as f64
            / self.debt_limit.load(Ordering::Relaxed).max(1) as f64;
        let wal = &core.shared.wal;
        let log = (wal.end() - wal.kept_from()) as f64 / self.log_capacity().max(1) as f64;
        (memory, debt.max(log * 0.9))
    }

    /// Holds a commit of `bytes` back as long as pressure asks for, or until `owner` is interrupted.
    pub(crate) fn pace(&self, core: &Arc<Core>, bytes: u64, owner: &OwnerHandle) -> Result<()> {
        let (memory, debt) = self.pressures(core);
        if memory >= 1.0 {
            self.wait_for_room(core, owner)?;
        }
        if core.options.background_threads == 0 {
            return Ok(());
        }
        let delay = self.pacer.delay(bytes, memory, debt);
        if delay > Duration::from_micros(50) {
            // Shutdown ends the sleep early, and so does every measurement: pressure is new then.
            let mut signal = self.signal.lock();
            let _ = self.room.wait_for(&mut signal, delay);
        }
        Ok(())
    }

    /// Waits until write buffers are below their limit.
    ///
    /// When no job runs and none can be planned, waiting is of no use: then the commit goes on over the
    /// limit (nothing can be drained), or fails (jobs fail, and are being held back).
    fn wait_for_room(&self, core: &Arc<Core>, owner: &OwnerHandle) -> Result<()> {
        let mut idle_rounds = 0;
        loop {
            self.measure(core);
            let (memory, _) = self.pressures(core);
            if memory < 1.0 || self.stopping() {
                return Ok(());
            }
            core.may_write()?;
            if core.options.background_threads == 0 {
                if !core.background_step() {
                    // Nothing can be drained (the data of one commit exceed the limit): go on.
                    return core.may_write();
                }
                continue;
            }
            let stuck = self.running.load(Ordering::Acquire) == 0 && core.most_urgent().is_none();
            idle_rounds = if stuck { idle_rounds + 1 } else { 0 };
            if idle_rounds > STUCK_ROUNDS {
                if self.failures.lock().values().all(|f| f.error.is_none()) {
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
            self.wake();
            let mut signal = self.signal.lock();
            let _ = self.room.wait_for(&mut signal, Duration::from_millis(5));
        }
    }

    /// A commit of `bytes` reached the buffers of `tables`.
    pub(crate) fn wrote(&self, core: &Arc<Core>, bytes: u64, tables: &[Arc<Table>]) {
        for table in tables {
            if !table.is_listed() {
                self.add(table);
                table.set_listed(true);
            }
        }
        // Entries take about twice their log bytes in a buffer.
        let unmeasured = self.unmeasured.fetch_add(2 * bytes, Ordering::Relaxed) + 2 * bytes;
        if unmeasured > self.write_limit.load(Ordering::Relaxed) / 64 {
            self.measure(core);
        }
    }

    /// Sums up buffers and debt, freezes what is largest when memory runs short, and tells the budget.
    pub(crate) fn measure(&self, core: &Arc<Core>) {
        let Some(mut measured) = self.measuring.try_lock() else { return };
        self.unmeasured.store(0, Ordering::Relaxed);
        let tables: Vec<Arc<Table>> = self.dirty.lock().values().cloned().collect();
        let (mut active, mut frozen, mut debt) = (0, 0, 0);
        let mut buffers: Vec<(u64, &Tree)> = Vec::new();
        for table in &tables {
            for tree in table.trees() {
                let bytes = tree.active_bytes();
                active += bytes;
                frozen += tree.frozen_bytes();
                debt += tree.debt().total();
                if bytes > 0 {
                    buffers.push((bytes, tree));
                }
                if tree.wants_freeze() {
                    core.freeze(tree);
                }
            }
        }
        let limit = self.write_limit.load(Ordering::Relaxed);
        let mark = limit / 100 * FREEZE_PERCENT;
        if active > mark {
            // The largest first: it amortises best, and the others grow on.
            buffers.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
            let mut left = active;
            for (bytes, tree) in buffers {
                if left <= mark {
                    break;
                }
                if core.freeze(tree) {
                    left -= bytes.min(left);
                }
            }
            self.wake();
        }
        let total = active + frozen;
        self.buffered.store(total, Ordering::Relaxed);
        self.debt.store(debt, Ordering::Relaxed);
        let now = usize::try_from(total).unwrap_or(usize::MAX);
        let budget = &core.shared.budget;
        if now > measured.charged {
            budget.add(Part::WriteBuffers, now - measured.charged);
        } else {
            budget.sub(Part::WriteBuffers, measured.charged - now);
        }
        measured.charged = now;
        self.fit_cache(core);
        self.room.notify_all();
    }

    /// Write memory may be at a peak.
    pub(crate) fn note_memory(&self, core: &Core) {
        self.returned.lock().note(core.shared.budget.used_by(Part::WriteBuffers));
    }

    /// Has free memory returned to the system when there has been more of it for a while.
    pub(crate) fn return_memory(&self, core: &Core) {
        let budget = &core.shared.budget;
        let in_use = budget.used_by(Part::WriteBuffers);
        let vfs = &core.shared.vfs;
        if self.returned.lock().look(in_use, budget.limit(), vfs.now()) {
            vfs.return_free_memory();
            core.counters.memory_returns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives the page cache what the other parts of the budget leave.
    pub(crate) fn fit_cache(&self, core: &Core) {
        let budget = &core.shared.budget;
        let floor = budget.limit() / 100 * CACHE_FLOOR_PERCENT as usize;
        // What writers may add between two measurements.
        let reserve = budget.limit() / 64;
        CachePolicy { floor, reserve }.adjust(budget, &core.shared.cache);
    }
}
