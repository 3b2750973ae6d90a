//! The log thread's state between its rounds (`housekeeping.rs`): when it last did periodic work, and the files
//! and space that it has to clean up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::Duration;

use frond_base::{IndexNo, TableId};
use parking_lot::Mutex;

use crate::table::Table;

/// See the module.
#[derive(Default)]
pub struct Upkeep {
    pub sync: Every,
    pub sweep: Every,
    pub look: Every,
    /// Asking all tables what log they need. Who asks for the status does not make the log thread pause.
    pub needs: Paced,
    /// Where the log ended when the log thread asked last.
    pub asked_at: AtomicU64,
    /// Looking for pages and rows of dropped tables in the caches.
    pub forgetting: Paced,
    /// The next sweep begins with this table.
    pub swept_to: AtomicU32,
    /// So many tables are still to be swept without delay, because readers have made work for one of them.
    pub to_sweep: AtomicUsize,
    /// What is left of dropped tables, the oldest first.
    dropped: Mutex<VecDeque<DroppedTable>>,
    /// Dropped tables of which the caches may have something.
    cached: Mutex<Vec<TableId>>,
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
        self.cached.lock().push(dropped.id);
        self.dropped.lock().push_back(dropped);
    }

    /// Calls `forget` with the tables of which the caches may have something, in ascending order. False when there are
    /// none. While one thread forgets them, another may remove their files: nothing reads them any more.
    pub fn forget_dropped(&self, forget: impl FnOnce(&[TableId])) -> bool {
        let mut tables = std::mem::take(&mut *self.cached.lock());
        tables.sort_unstable();
        if !tables.is_empty() {
            forget(&tables);
        }
        !tables.is_empty()
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

/// Repeated work that takes longer with more tables or a larger cache: it takes at most a [`PAUSE`]-th of a processor.
#[derive(Default)]
pub struct Paced {
    next: Mutex<Duration>,
}

/// A pause is so many times as long as the work before it, and not longer than this: on a busy machine the work may take long
/// because it waits for a processor.
const PAUSE: u32 = 20;
const PAUSE_MOST: Duration = Duration::from_secs(1);

impl Paced {
    pub fn is_due(&self, now: Duration) -> bool {
        now >= *self.next.lock()
    }

    /// The work began and ended at these times. The pauses of several pieces of work add up.
    pub fn worked(&self, began: Duration, ended: Duration) {
        let mut next = self.next.lock();
        let pause = ended.max(*next) + PAUSE * ended.saturating_sub(began);
        *next = pause.min(ended + PAUSE_MOST);
    }

    /// There is more to do: no pause.
    pub fn hurry(&self) {
        *self.next.lock() = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paced_work_takes_its_share_of_the_time_at_most() {
        let paced = Paced::default();
        let ms = Duration::from_millis;
        let (mut now, mut worked) = (ms(0), ms(0));
        while now < ms(100_000) {
            if paced.is_due(now) {
                // Two pieces, one of them much longer from time to time.
                let long = if worked.as_millis() % 7 == 0 { ms(30) } else { ms(3) };
                paced.worked(now, now + ms(1));
                paced.worked(now + ms(1), now + ms(1) + long);
                worked += ms(1) + long;
                now += ms(1) + long;
            } else {
                now += ms(1);
            }
        }
        let share = worked.as_secs_f64() / now.as_secs_f64();
        assert!(share < 1.0 / f64::from(PAUSE) && share > 0.9 / f64::from(PAUSE), "{share}");
        // Whoever adds to the pause, it ends.
        (0..100).for_each(|_| paced.worked(now, now + ms(1000)));
        assert!(!paced.is_due(now + ms(1999)) && paced.is_due(now + ms(2000)));
        paced.hurry();
        assert!(paced.is_due(now + ms(1001)));
    }
}
