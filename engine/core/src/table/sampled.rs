//! Samples of a table's indexes while the table is open: the statistics in force, and when they are old.
//!
//! - SMP1. Statistics in force are replaced as a whole: a reader never sees some of one sample and some of another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::catalog::key_statistics::KeyStatistics;

/// Statistics are old when a tenth of the rows has changed, and this many.
const CHANGES_MIN: u64 = 100;
/// In the background a table is sampled, or its row in the catalog written, this often at most.
const PERIOD: Duration = Duration::from_secs(10);
/// No definition has this stamp.
const NO_STAMP: u64 = u64::MAX;

/// The state of a table that decides whether its statistics are old.
#[derive(Clone, Copy)]
pub struct State {
    pub rows: u64,
    pub changes: u64,
    /// The stamp of its definition.
    pub stamp: u64,
}

/// See the module.
#[derive(Default)]
pub struct Sampled {
    current: ArcSwapOption<KeyStatistics>,
    /// Grows with every sample; 0: there are no statistics.
    number: AtomicU64,
    /// When the sample was taken: the table's changes so far, and the stamp of its definition.
    changes: AtomicU64,
    stamp: AtomicU64,
    /// The catalog does not have `current` yet.
    unsaved: AtomicBool,
    saved_at: Mutex<Option<Duration>>,
    /// Held while the table is sampled.
    pub(crate) sampling: Mutex<()>,
}

impl Sampled {
    pub fn current(&self) -> Option<Arc<KeyStatistics>> {
        self.current.load_full()
    }

    #[inline]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// The table was opened, and the catalog has these statistics. `whole`: of every index that is in use.
    pub fn recovered(&self, saved: &Arc<KeyStatistics>, whole: bool, now: State) {
        // The changes of the table count from its opening.
        let stamp = if whole { now.stamp } else { NO_STAMP };
        self.put(saved.clone(), State { stamp, ..now });
        self.unsaved.store(false, Ordering::Relaxed);
    }

    /// Puts a sample in force; the table was as in `then` when it was taken.
    pub fn put(&self, found: Arc<KeyStatistics>, then: State) {
        self.changes.store(then.changes, Ordering::Relaxed);
        self.stamp.store(then.stamp, Ordering::Relaxed);
        self.current.store(Some(found));
        self.unsaved.store(true, Ordering::Relaxed);
        self.number.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether enough has changed since the last sample, or an index has none.
    pub fn is_old(&self, now: State) -> bool {
        let State { rows, changes, stamp } = now;
        let Some(current) = &*self.current.load() else { return rows > 0 || changes > 0 };
        let most = current.rows / 10 + CHANGES_MIN;
        rows.abs_diff(current.rows) > most
            || changes.saturating_sub(self.changes.load(Ordering::Relaxed)) > most
            || self.stamp.load(Ordering::Relaxed) != stamp
    }

    pub fn is_unsaved(&self) -> bool {
        self.unsaved.load(Ordering::Relaxed)
    }

    /// Whether the background has something to do for the table.
    pub fn wants_background(&self, state: State, now: Duration) -> bool {
        let rests = |at: Duration| now.saturating_sub(at) < PERIOD;
        (self.is_unsaved() || self.is_old(state)) && !self.saved_at.lock().is_some_and(rests)
    }

    /// The background has just worked on the table, and leaves it alone for a while.
    pub fn rest_from(&self, now: Duration) {
        *self.saved_at.lock() = Some(now);
    }

    /// The catalog has the statistics of that number.
    pub fn saved(&self, number: u64) {
        if self.number() == number {
            self.unsaved.store(false, Ordering::Relaxed);
        }
    }
}
