//! How a queued owner waits for a lock of any kind.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind, Result};
use parking_lot::MutexGuard;

use crate::lock_table::{Graph, WaitAt, WaitPlace};
use crate::lock_wait::{interrupted, Park};
use crate::{LockMode, Locker};

/// How a wait ended.
enum End {
    /// The owner was told: granted, or chosen as victim.
    Told,
    /// The owner closed a cycle and is the victim.
    GivesWay,
    TimedOut,
    Interrupted,
    /// The wait goes on: others came before the owner in the queue.
    Overtaken,
}

impl Locker {
    /// Queued at `at`, with `Park::Waiting` set: looks for deadlocks, sleeps. `Ok` when the lock was granted; otherwise
    /// it is not queued any more.
    pub(crate) fn wait_queued(
        &self,
        mut graph: MutexGuard<'_, Graph>,
        at: WaitAt,
        mode: LockMode,
        timeout: Duration,
    ) -> Result<()> {
        let table = Arc::clone(&self.table);
        let since = table.now();
        let place = WaitPlace { owner: Arc::clone(&self.owner), at, mode, since };
        let other = graph.waiting.insert(self.owner.id, place);
        assert!(other.is_none(), "{} waits for two locks (LT2)", self.owner.id);
        table.counters.waits.fetch_add(1, Relaxed);

        let mut reports = Vec::new();
        let gives_way = table.break_cycles(&mut graph, &self.owner, &mut reports);
        drop(graph);
        if let Some(observer) = table.observer() {
            reports.iter().for_each(|report| observer.deadlock(report));
        }
        let end = match gives_way {
            true => End::GivesWay,
            false => self.sleep_watched(at, since, timeout).unwrap_or(End::Told),
        };
        self.wake_up(at, end)
    }

    /// As [`Locker::sleep`] for a wait that began at `since`; tells the observer for whom the owner
    /// waits.
    fn sleep_watched(&self, at: WaitAt, since: Duration, timeout: Duration) -> Option<End> {
        let observer = self.table.observer();
        let label = self.owner.label();
        loop {
            if let Some(observer) = observer {
                observer.waits(label, &self.labels_of_blockers(at));
            }
            // An overtaken owner goes on waiting; its time-out does not start again.
            let end = self.sleep(timeout.saturating_sub(self.table.now().saturating_sub(since)));
            if let Some(observer) = observer {
                observer.waited(label);
            }
            if !matches!(end, Some(End::Overtaken)) {
                return end;
            }
        }
    }

    fn labels_of_blockers(&self, at: WaitAt) -> Vec<u64> {
        let blockers = match at {
            WaitAt::Slot(shard, no) => {
                let shard = self.table.shards[shard].lock();
                // While the owner waits it is queued in this slot, so the slot exists.
                match *self.owner.park.lock() {
                    Park::Waiting => shard.slot(no).blockers(self.owner.id),
                    _ => Vec::new(),
                }
            }
            WaitAt::Range(tree) => self.table.ranges.lock().blockers_of(tree, self.owner.id),
        };
        blockers.into_iter().map(|id| self.table.label(id)).collect()
    }

    /// Sleeps until another thread sets the outcome; `Some` when the sleep ends otherwise.
    fn sleep(&self, timeout: Duration) -> Option<End> {
        let mut park = self.owner.park.lock();
        let mut timed_out = false;
        while *park == Park::Waiting {
            if self.owner.is_interrupted() {
                return Some(End::Interrupted);
            }
            if timed_out {
                return Some(End::TimedOut);
            }
            if self.owner.was_overtaken() {
                return Some(End::Overtaken);
            }
            // A spurious wake-up only lengthens the wait.
            timed_out = self.owner.wake.wait_for(&mut park, timeout).timed_out();
        }
        None
    }

    /// Leaves the graph, and the queue unless granted. A grant that came first wins over any other
    /// end of the wait.
    fn wake_up(&self, at: WaitAt, end: End) -> Result<()> {
        let table = &self.table;
        let mut graph = table.graph.lock();
        graph.waiting.remove(&self.owner.id);
        let told = match at {
            WaitAt::Slot(shard, no) => {
                let mut shard = table.shards[shard].lock();
                let told = std::mem::replace(&mut *self.owner.park.lock(), Park::Idle);
                let waits = matches!(told, Park::Waiting | Park::Idle);
                if waits && shard.slot_mut(no).leave_queue(self.owner.id) == Some(true) {
                    table.drop_slot(&mut shard, no);
                }
                told
            }
            WaitAt::Range(tree) => table.change_ranges(|ranges| {
                let told = std::mem::replace(&mut *self.owner.park.lock(), Park::Idle);
                if matches!(told, Park::Waiting | Park::Idle) {
                    ranges.leave(tree, self.owner.id);
                }
                told
            }),
        };
        drop(graph);
        match (told, end) {
            (Park::Granted, _) => Ok(()),
            (Park::Victim, _) | (_, End::GivesWay | End::Told | End::Overtaken) => Err(deadlock()),
            (_, End::TimedOut) => {
                table.counters.timeouts.fetch_add(1, Relaxed);
                Err(Error::new(
                    ErrorKind::LockTimeout,
                    "lock wait timeout exceeded; another transaction holds the lock",
                ))
            }
            (_, End::Interrupted) => {
                table.counters.interrupts.fetch_add(1, Relaxed);
                Err(interrupted())
            }
        }
    }
}

fn deadlock() -> Error {
    Error::new(
        ErrorKind::Deadlock,
        "deadlock found when waiting for a lock; roll back and try the transaction again",
    )
}
