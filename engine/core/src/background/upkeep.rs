//! The log thread's state between its rounds (`housekeeping.rs`): when it last did periodic work, and the files
//! and space that it has to clean up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::Duration;

use frond_base::{IndexNo, TableId};
use parking_lot::Mutex;

use crate::table::Table;

/// See the module.
#[derive(Default)]
pub struct Upkeep {
    pub sync: Every,
    pub look: Every,
    /// The next sweep begins with this table.
    pub swept_to: AtomicU32,
    /// So many tables are still to be swept without delay, because readers have made work for one of them.
    pub to_sweep: AtomicUsize,
    /// What is left of dropped tables, the oldest first.
    dropped: Mutex<VecDeque<DroppedTable>>,
    /// Trees of dropped indexes.
    cleared: Mutex<VecDeque<(Arc<Table>, IndexNo)>>,
    /// Tables whose files have space of a rolled-back transaction.
    lent: Mutex<Vec<Arc<Table>>>,
    /// Tables whose index statistics are old.
    sampled: Mutex<VecDeque<Arc<Table>>>,
}

impl Upkeep {
    /// The table is in no definition any more: its pages and its file have to be removed.
    pub fn remove_later(&self, dropped: DroppedTable) {
        self.dropped.lock().push_back(dropped);
    }

    /// The table that was dropped first among those for which `may` is true; the caller removes it or puts it
    /// back.
    pub fn take_dropped(&self, may: impl Fn(TableId) -> bool) -> Option<DroppedTable> {
        let mut dropped = self.dropped.lock();
        let at = dropped.iter().position(|d| may(d.id))?;
        dropped.remove(at)
    }

    /// Puts back a table from [`Upkeep::take_dropped`] that is not finished.
    pub fn put_back(&self, dropped: DroppedTable) {
        self.dropped.lock().push_front(dropped);
    }

    /// The tree's index was dropped: the tree has to be emptied.
    pub fn clear_later(&self, table: &Arc<Table>, index: IndexNo) {
        let mut cleared = self.cleared.lock();
        if !cleared.iter().any(|(t, i)| Arc::ptr_eq(t, table) && *i == index) {
            cleared.push_back((table.clone(), index));
        }
    }

    pub fn take_cleared(&self) -> Option<(Arc<Table>, IndexNo)> {
        self.cleared.lock().pop_front()
    }

    /// Dropped tables and indexes that are still there.
    pub fn to_clear(&self) -> (Vec<TableId>, Vec<(Arc<Table>, IndexNo)>) {
        let tables = self.dropped.lock().iter().map(|d| d.id).collect();
        (tables, self.cleared.lock().iter().cloned().collect())
    }

    /// The table's file has space to free.
    pub fn give_back_later(&self, table: &Arc<Table>) {
        let mut lent = self.lent.lock();
        if !lent.iter().any(|t| Arc::ptr_eq(t, table)) {
            lent.push(table.clone());
        }
    }

    /// The table's indexes have to be sampled.
    pub fn sample_later(&self, table: &Arc<Table>) {
        let mut sampled = self.sampled.lock();
        if !sampled.iter().any(|t| Arc::ptr_eq(t, table)) {
            sampled.push_back(table.clone());
        }
    }

    pub fn take_sampled(&self) -> Option<Arc<Table>> {
        self.sampled.lock().pop_front()
    }

    pub fn take_lent(&self) -> Vec<Arc<Table>> {
        std::mem::take(&mut *self.lent.lock())
    }
}

/// A table whose file is to go.
pub struct DroppedTable {
    pub id: TableId,
    /// The file stays whole while somebody has the table.
    pub table: Weak<Table>,
    /// The cache has no pages of it any more.
    pub forgotten: bool,
}

/// Periodic work, counted from the clock's zero.
#[derive(Default)]
pub struct Every {
    last: Mutex<Duration>,
}

impl Every {
    /// Whether `period` has passed since this was last true.
    pub fn is_due(&self, period: Duration, now: Duration) -> bool {
        let mut last = self.last.lock();
        if now.saturating_sub(*last) < period {
            return false;
        }
        *last = now;
        true
    }
}
