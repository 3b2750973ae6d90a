//! Background work: what is done outside statements, when, and how writers are held back by it.
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
use frond_tree::{JobKind, Plan, Step, Tree};
use parking_lot::{Condvar, Mutex};

use crate::canary;
use crate::core::Core;
use crate::options::{Durability, Options};
use crate::pacing::Pacer;
use crate::table::Table;

/// Share of the budget for write buffers, active and frozen, in percent.
const WRITE_PERCENT: u64 = 40;
/// Active buffers are frozen above this share of the write memory.
const FREEZE_PERCENT: u64 = 55;
/// Debt at which writers are slowed to the drain rate, in budgets.
const DEBT_BUDGETS: u64 = 4;
/// A worker that finds nothing to do looks again after this long.
const IDLE_WAIT: Duration = Duration::from_millis(100);
/// The log thread's round.
const LOG_ROUND: Duration = Duration::from_millis(100);
/// A failed job's tree is left alone for this long, doubling up to a minute.
const RETRY_AFTER: Duration = Duration::from_millis(200);
const OVERTAKEN_WAIT: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Rounds of 5 ms without a job after which a writer stops waiting for memory.
const STUCK_ROUNDS: u32 = 20;
/// Page cache that is left whatever write buffers and indexes take.
const CACHE_FLOOR_PERCENT: u64 = 10;

/// State of background work.
pub struct Work {
    stop: AtomicBool,
    /// Jobs under way.
    running: AtomicU64,
    signal: Mutex<u64>,
    wake: Condvar,
    /// Waited on by writers at the memory limit.
    room: Condvar,
    pub(crate) pacer: Pacer,
    write_limit: AtomicU64,
    debt_limit: AtomicU64,
    log_capacity: AtomicU64,
    /// Tables that may have buffered entries or work to do.
    /// Ordered, so that equally urgent work is taken in the same order in every run.
    dirty: Mutex<BTreeMap<TableId, Arc<Table>>>,
    /// Bytes committed since the last measurement.
    unmeasured: AtomicU64,
    buffered: AtomicU64,
    debt: AtomicU64,
    measuring: Mutex<Measured>,
    failures: Mutex<HashMap<TreeId, Failure>>,
    /// Why nothing can be written just now: the disk is full.
    full: Mutex<Option<Error>>,
    is_full: AtomicBool,
    /// Files of dropped tables, to remove.
    pub(crate) doomed: Mutex<Vec<String>>,
    last_sync: Mutex<Duration>,
}

#[derive(Default)]
struct Measured {
    charged: usize,
}

struct Failure {
    until: Duration,
    wait: Duration,
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
            last_sync: Mutex::new(Duration::ZERO),
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

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn wake(&self) {
        *self.signal.lock() += 1;
        self.wake.notify_all();
    }

    /// Sleeps until woken, at most for `time`.
    fn rest(&self, time: Duration) {
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

    fn set_full(&self, failure: Option<&Error>) {
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

    /// Holds a commit of `bytes` back as long as pressure asks for.
    pub(crate) fn pace(&self, core: &Arc<Core>, bytes: u64) -> Result<()> {
        let (memory, debt) = self.pressures(core);
        if memory >= 1.0 {
            self.wait_for_room(core)?;
        }
        if core.options.background_threads == 0 {
            return Ok(());
        }
        let delay = self.pacer.delay(bytes, memory, debt);
        if delay > Duration::from_micros(50) {
            // Nothing signals this condition: it is a sleep that shutdown ends.
            let mut signal = self.signal.lock();
            let _ = self.room.wait_for(&mut signal, delay);
        }
        Ok(())
    }

    /// Waits until write buffers are below their limit.
    ///
    /// When no job runs and none can be planned, waiting is of no use: then the commit goes on over the
    /// limit (nothing can be drained), or fails (jobs fail, and are being held back).
    fn wait_for_room(&self, core: &Arc<Core>) -> Result<()> {
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
                if self.failures.lock().is_empty() {
                    return Ok(());
                }
                if idle_rounds > 100 * STUCK_ROUNDS {
                    return Err(Error::new(
                        ErrorKind::Busy,
                        "write buffers are full and cannot be drained; the error log says why",
                    ));
                }
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
        let floor = budget.limit() / 100 * CACHE_FLOOR_PERCENT as usize;
        CachePolicy { floor, reserve: 0 }.adjust(budget, &core.shared.cache);
        self.room.notify_all();
    }
}

/// A job under way, counted as long as this lives.
struct Running<'a>(&'a AtomicU64);

impl<'a> Running<'a> {
    fn count(jobs: &'a AtomicU64) -> Running<'a> {
        jobs.fetch_add(1, Ordering::AcqRel);
        Running(jobs)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Core {
    /// Starts the threads. Does nothing where the machine does not start threads.
    pub(crate) fn start_background(self: &Arc<Self>) -> Vec<Box<dyn frond_vfs::JoinThread>> {
        let mut threads = Vec::new();
        for n in 0..self.options.background_threads {
            let core = self.clone();
            let run = move || {
                while !core.work.stopping() {
                    if !core.job_step() {
                        core.work.rest(IDLE_WAIT);
                    }
                }
            };
            threads.extend(self.shared.vfs.spawn(&format!("frond-work-{n}"), Box::new(run)));
        }
        if self.options.background_threads > 0 {
            let core = self.clone();
            let run = move || {
                while !core.work.stopping() {
                    core.log_round();
                    core.work.rest(LOG_ROUND);
                }
            };
            threads.extend(self.shared.vfs.spawn("frond-log", Box::new(run)));
        }
        threads
    }

    /// One step of everything, for an owner without threads. False when there was nothing to do.
    pub fn background_step(self: &Arc<Self>) -> bool {
        self.log_round();
        self.job_step()
    }

    /// Takes the most urgent job and runs it to its end. False when there is none.
    pub(crate) fn job_step(self: &Arc<Self>) -> bool {
        let Some((table, tree, plan)) = self.most_urgent() else { return false };
        let mut snapshots = self.snapshots.retention(&self.clock);
        if canary::active(canary::FORGET_SNAPSHOTS) {
            snapshots.drain(..snapshots.len() - 1);
        }
        let Some(mut job) = tree.begin(&plan, snapshots) else {
            // Overtaken by another thread's job: this tree is looked at again in a moment, so that a plan
            // that never begins cannot keep a thread busy.
            if self.options.background_threads > 0 {
                let until = self.shared.vfs.now() + OVERTAKEN_WAIT;
                let mut failures = self.work.failures.lock();
                let held = Failure { until, wait: RETRY_AFTER / 2 };
                let f = failures.entry(tree.id()).or_insert(held);
                f.until = f.until.max(until);
            }
            return true;
        };
        let _running = Running::count(&self.work.running);
        let started = self.shared.vfs.now();
        let outcome = loop {
            if self.work.stopping() {
                return false;
            }
            match job.step() {
                Ok(Step::More) => {}
                Ok(Step::Done) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        drop(job);
        let now = self.shared.vfs.now();
        self.counters.jobs.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Ok(()) => {
                self.work.pacer.drained(plan.input_bytes, now.saturating_sub(started));
                self.work.failures.lock().remove(&tree.id());
                if self.work.is_full.load(Ordering::Relaxed) {
                    self.work.set_full(None);
                }
            }
            Err(e) => self.job_failed(&tree, &e, now),
        }
        table.store().reclaim();
        self.work.measure(self);
        true
    }

    fn job_failed(&self, tree: &Tree, failure: &Error, now: Duration) {
        self.counters.job_failures.fetch_add(1, Ordering::Relaxed);
        match failure.kind() {
            ErrorKind::NoSpace => self.work.set_full(Some(failure)),
            // `Poisoned`: the table's file refuses to be written after an earlier failure.
            ErrorKind::Io | ErrorKind::Poisoned => {
                self.shared.poison(failure.duplicate());
            }
            _ => {}
        }
        self.log_message(0, &format!("background work on tree {}: {failure}", tree.id()));
        let mut failures = self.work.failures.lock();
        let f = failures.entry(tree.id()).or_insert(Failure { until: now, wait: RETRY_AFTER / 2 });
        f.wait = (f.wait * 2).min(RETRY_MAX);
        if failure.kind() == ErrorKind::NoSpace {
            // Space may come back at any moment: keep looking.
            f.wait = f.wait.min(Duration::from_secs(1));
        }
        f.until = now + f.wait;
    }

    fn most_urgent(&self) -> Option<(Arc<Table>, Tree, Plan)> {
        let tables: Vec<Arc<Table>> = self.work.dirty.lock().values().cloned().collect();
        let now = self.shared.vfs.now();
        let memory_short = self.work.buffered.load(Ordering::Relaxed)
            > self.work.write_limit.load(Ordering::Relaxed) / 2;
        let mut best: Option<(u64, Arc<Table>, Tree, Plan)> = None;
        for table in tables {
            let mut idle = true;
            for tree in table.trees() {
                if table.is_dropped() {
                    continue;
                }
                idle &= tree.buffered_bytes() == 0;
                let failed = self.work.failures.lock().get(&tree.id()).map(|f| f.until);
                if failed.is_some_and(|until| until > now) {
                    idle = false;
                    continue;
                }
                let Some(plan) = tree.plan() else { continue };
                idle = false;
                let frees_memory = matches!(plan.kind, JobKind::Freeze | JobKind::Attach);
                let weight = if frees_memory && memory_short { 8 } else { 1 };
                let urgency = plan.urgency.saturating_mul(weight);
                if best.as_ref().is_none_or(|(u, ..)| urgency > *u) {
                    best = Some((urgency, table.clone(), tree.clone(), plan));
                }
            }
            if idle || table.is_dropped() {
                // Unlist first: a commit that comes in between lists it again.
                table.set_listed(false);
                self.work.forget(table.id());
                if !table.is_dropped() && table.trees().iter().any(|t| t.buffered_bytes() > 0) {
                    table.set_listed(true);
                    self.work.add(&table);
                }
            }
        }
        best.map(|(_, table, tree, plan)| (table, tree, plan))
    }

    /// Tends the log: sync each second, next segment, trimming, images; and removes dropped files.
    fn log_round(self: &Arc<Self>) {
        let now = self.shared.vfs.now();
        let wal = &self.shared.wal;
        if self.durability() != Durability::Sync {
            let mut last = self.work.last_sync.lock();
            if now.saturating_sub(*last) >= Duration::from_secs(1) {
                *last = now;
                drop(last);
                if let Err(e) = wal.sync_to(wal.end()) {
                    self.shared.poison(e);
                }
            }
        }
        if self.shared.check_poison().is_err() {
            return;
        }
        match wal.prepare_segment() {
            Err(e) if e.kind() == ErrorKind::NoSpace => self.work.set_full(Some(&e)),
            Err(e) => {
                self.shared.poison(e);
            }
            Ok(()) if self.work.is_full.load(Ordering::Relaxed) => {
                // Let the next job find out whether there is room again.
                self.work.failures.lock().clear();
                if self.most_urgent().is_none() {
                    self.work.set_full(None);
                }
                self.work.wake();
            }
            Ok(()) => {}
        }
        let (end, kept) = (wal.end(), wal.kept_from());
        let target = end.saturating_sub(self.work.log_capacity() / 2);
        if kept < target {
            // A few tables per round: each image is a small write and two syncs.
            for _ in 0..16 {
                match self.shorten_log(target) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(e) => {
                        self.image_failed(&e);
                        break;
                    }
                }
            }
        }
        self.remove_doomed_files();
    }

    fn image_failed(&self, failure: &Error) {
        if failure.kind() == ErrorKind::NoSpace {
            self.work.set_full(Some(failure));
        }
        self.log_message(0, &format!("checkpoint: {failure}"));
    }

    /// Removes files of dropped tables. A file that cannot be removed now is an orphan that the next
    /// start removes.
    pub(crate) fn remove_doomed_files(&self) {
        let doomed = std::mem::take(&mut *self.work.doomed.lock());
        for name in doomed {
            if let Err(e) = self.shared.vfs.remove(&name) {
                if e.kind() != std::io::ErrorKind::NotFound {
                    self.log_message(1, &format!("cannot remove {name} of a dropped table: {e}"));
                }
            }
        }
    }
}
