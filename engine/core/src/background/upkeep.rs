//! What the log thread keeps between its rounds (`housekeeping.rs`): when it did what is done once in a
//! while, and what others leave for it to clean up.

use std::sync::atomic::AtomicU32;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::table::Table;

/// See the module.
#[derive(Default)]
pub struct Upkeep {
    pub sync: Every,
    pub look: Every,
    /// The next sweep for readers' work begins with this table.
    pub swept_to: AtomicU32,
    /// Files of dropped tables, to remove.
    doomed: Mutex<Vec<String>>,
    /// Tables whose files have space that a rolled-back transaction took.
    lent: Mutex<Vec<Arc<Table>>>,
}

impl Upkeep {
    /// The file belongs to no table any more: remove it.
    pub fn remove_later(&self, file: String) {
        self.doomed.lock().push(file);
    }

    pub fn take_doomed(&self) -> Vec<String> {
        std::mem::take(&mut *self.doomed.lock())
    }

    /// The table's file has space to give back.
    pub fn give_back_later(&self, table: &Arc<Table>) {
        let mut lent = self.lent.lock();
        if !lent.iter().any(|t| Arc::ptr_eq(t, table)) {
            lent.push(table.clone());
        }
    }

    pub fn take_lent(&self) -> Vec<Arc<Table>> {
        std::mem::take(&mut *self.lent.lock())
    }
}

/// Something that is done once in a while, counted from the clock's zero.
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
