//! Which image each table's file must have at least.
//!
//! Log is removed when the tables' images have its changes. From then on an image is their only copy: a
//! file that is missing, or an older copy of it, is a loss, not an empty or an older table. So each
//! trim record (K3) lists the newest image of every table that has one, and recovery compares each file
//! with the newest list.
//!
//! - I1. A listed image is durable: it is noted here when its header is durable.
//! - I2. A list is durable in the log before the segments that it allows to remove are removed. The
//!   newest list is never removed: a trim reaches at most to the log's end before its own record.
//! - I3. A table may be listed after it was dropped, never left out while it has an image. The log
//!   says that it was dropped, so its file is not needed.
//! - I4. An image older than the one listed suffices while the log still reaches back to it: the
//!   other header of a damaged file names such an image. A file without an image does not suffice:
//!   the first records are older than the file.
//!
//! Images written since the last trim are in no list; the log that they replace still exists.
//!
//! Tested by `tests/it/stale.rs`; the simulator removes files and replaces them by older ones.

use std::collections::BTreeMap;

use frond_base::{Error, Lsn, Result, TableId};
use parking_lot::Mutex;

use crate::catalog::names::Names;
use crate::catalog::SYSTEM_TABLE;

/// The newest durable image of each table, by its LSN. Tables without one are not here.
#[derive(Default)]
pub struct Images {
    newest: Mutex<BTreeMap<TableId, Lsn>>,
}

impl Images {
    /// Recovery has found the newest list.
    pub fn set(&self, listed: BTreeMap<TableId, Lsn>) {
        *self.newest.lock() = listed;
    }

    /// The table's file has an image of `lsn`, durably.
    pub fn note(&self, table: TableId, lsn: Lsn) {
        let mut newest = self.newest.lock();
        let known = newest.entry(table).or_insert(lsn);
        *known = lsn.max(*known);
    }

    /// Whether an image newer than that of `lsn` is listed (I4).
    pub fn wants_newer(&self, table: TableId, lsn: Lsn) -> bool {
        self.newest.lock().get(&table).is_some_and(|newest| lsn < *newest)
    }

    /// The table was dropped, durably.
    pub fn forget(&self, table: TableId) {
        self.newest.lock().remove(&table);
    }

    /// Forgets tables that are no longer defined.
    pub fn retain(&self, names: &Names) {
        self.newest.lock().retain(|id, _| *id == SYSTEM_TABLE || names.by_id(*id).is_some());
    }

    /// The list for a trim record.
    pub fn listed(&self) -> BTreeMap<TableId, Lsn> {
        self.newest.lock().clone()
    }

    /// Fails unless `found`, the newest image of the table's file, and the log from `log_from` on
    /// have all of the table (I4).
    pub fn check(&self, table: TableId, file: &str, found: Found, log_from: Lsn) -> Result<()> {
        let Some(needed) = self.newest.lock().get(&table).copied() else { return Ok(()) };
        let found = match found {
            Found::Image(lsn) if lsn >= needed || lsn >= log_from => return Ok(()),
            Found::Image(lsn) => format!("its newest checkpoint is at LSN {lsn}: an older copy"),
            Found::NoImage => "it has no checkpoint: an older copy".to_string(),
            Found::NoFile => "the file is missing".to_string(),
        };
        let what = format_args!(
            "{found}; the log before LSN {log_from} was removed because the file had a checkpoint at LSN \
             {needed}. Put the newest copy of {file} back, or restore the whole directory from a \
             backup; to do without the table, drop it"
        )
        .to_string();
        Err(Error::corruption(file, what))
    }
}

/// The state of a table's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    NoFile,
    /// The file was created and has no image yet.
    NoImage,
    Image(Lsn),
}
