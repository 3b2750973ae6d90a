//! The queue of background work: trees that wait after a failure, and how workers sleep and end.
//! `ledger.rs` has the work, `jobs.rs` decides what is done.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind, TableId, TreeId};
use parking_lot::{Condvar, Mutex};

use crate::background::held_writers::HeldWriters;

/// A failed job's tree waits this long, doubling up to a minute.
const RETRY_AFTER: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// After a shortage, which may end at any moment, at most this long.
const RETRY_SHORTAGE_MAX: Duration = Duration::from_secs(1);
/// After damaged pages were met: the next job goes around them.
const RETRY_AROUND: Duration = Duration::from_millis(10);

/// See the module.
pub struct Queue {
    stop: AtomicBool,
    /// Jobs under way.
    running: AtomicU64,
    signal: Mutex<u64>,
    wake: Condvar,
    held: Mutex<HashMap<TreeId, Held>>,
    writers: Arc<HeldWriters>,
}

/// A tree that waits.
struct Held {
    until: Duration,
    /// Half of its wait after the next failure.
    wait: Duration,
    /// `None`: not a failure; the plan was overtaken.
    error: Option<Error>,
}

/// A job under way, counted as long as this lives.
pub struct Running<'a>(&'a AtomicU64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Queue {
    pub fn new(writers: Arc<HeldWriters>) -> Queue {
        Queue {
            stop: AtomicBool::new(false),
            running: AtomicU64::new(0),
            signal: Mutex::new(0),
            wake: Condvar::new(),
            held: Mutex::default(),
            writers,
        }
    }

    // ---- workers ----

    /// Ends all work and all waiting.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
        self.writers.wake();
    }

    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// There may be work: wakes the workers.
    pub fn wake(&self) {
        *self.signal.lock() += 1;
        self.wake.notify_all();
    }

    /// Sleeps until woken, at most for `time`. True when the time has passed.
    pub fn rest(&self, time: Duration) -> bool {
        let mut signal = self.signal.lock();
        !self.stopping() && self.wake.wait_for(&mut signal, time).timed_out()
    }

    /// Waits a moment for other threads' jobs.
    pub fn pause(&self) {
        let mut signal = self.signal.lock();
        self.wake.wait_for(&mut signal, Duration::from_millis(1));
    }

    /// A job begins; it ends when the guard is dropped.
    pub fn begin_job(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::AcqRel);
        Running(&self.running)
    }

    pub fn has_running_jobs(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    // ---- trees that wait ----

    /// Ends the waits of the table's trees, whatever failed there; also for a table that was dropped.
    pub fn retry(&self, table: TableId) {
        self.held.lock().retain(|tree, _| tree.table != table);
    }

    /// Ends all waits, whatever failed.
    pub fn retry_all(&self) {
        self.held.lock().clear();
    }

    /// The tree's plan was overtaken by another job: it waits until `until`.
    pub fn overtaken(&self, tree: TreeId, until: Duration) {
        let mut held = self.held.lock();
        let first = Held { until, wait: RETRY_AFTER / 2, error: None };
        let h = held.entry(tree).or_insert(first);
        h.until = h.until.max(until);
    }

    pub fn succeeded(&self, tree: TreeId) {
        self.held.lock().remove(&tree);
    }

    /// A job of the tree failed: it waits, longer with each failure.
    pub fn failed(&self, tree: TreeId, failure: &Error, now: Duration) {
        let mut held = self.held.lock();
        let first = Held { until: now, wait: RETRY_AFTER / 2, error: None };
        let h = held.entry(tree).or_insert(first);
        h.error = Some(failure.duplicate());
        h.wait = (h.wait * 2).min(RETRY_MAX);
        if failure.kind().is_shortage() {
            h.wait = h.wait.min(RETRY_SHORTAGE_MAX);
        } else if failure.kind() == ErrorKind::Corruption {
            h.wait = h.wait.min(RETRY_AROUND);
        }
        h.until = now + h.wait;
    }

    /// Whether the tree waits at `now`.
    pub fn is_held(&self, tree: TreeId, now: Duration) -> bool {
        self.held.lock().get(&tree).is_some_and(|h| h.until > now)
    }

    /// The error of the latest job in the table, if it failed.
    pub fn failure_in(&self, table: TableId) -> Option<Error> {
        let held = self.held.lock();
        let of_table = held.iter().filter(|(tree, _)| tree.table == table);
        of_table.filter_map(|(_, h)| h.error.as_ref()).map(Error::duplicate).next()
    }

    /// The error of the tree's latest job, if it failed.
    pub fn failure_of(&self, tree: TreeId) -> Option<Error> {
        self.held.lock().get(&tree)?.error.as_ref().map(Error::duplicate)
    }

    /// Whether some tree waits because its job failed.
    pub fn has_failures(&self) -> bool {
        self.held.lock().values().any(|h| h.error.is_some())
    }
}
