//! Backups of a running database: a pin holds what a copy needs while the database is in use
//! ([rfc 0011](../../../../docs/rfcs/0011-backup.md)).
//!
//! ```text
//! mod.rs      the state of the one backup at a time      format.rs   the file that describes a pin
//! steps.rs    its steps, as the tool that copies takes them
//! ```
//!
//! - BP1. Files are pinned before the log position is taken, and no file gets a new block in between: so each block that a record
//!   below the position names is pinned. No checkpoint and no trim runs meanwhile, so no pinned header is beyond the position.
//!   The log is durable up to the position before the pin is described.
//!   Commits need not stop for this: blocks are numbered and written before the record that names them is appended, so
//!   whoever reads the log's end behind that record sees their numbers when it looks at the files again. A commit that
//!   attaches private runs is below the position with all its blocks, or not in the copy. What was freed before the pin, or
//!   between the two looks, stays in place until a checkpoint.
//! - BP2. A broken pin holds nothing, and no later step of its backup succeeds. The database goes on as without it.
//! - BP3. The file of a dropped table stays while it is pinned.
//! - BP4. From a mark until it is proven, at most [`STILL`], the log thread begins no image and no trim: the next mark would
//!   wait for its syncs, while the server blocks commits.
//!
//! Locks, in this order: `Backups::state`, `Core::ddl`, `Core::trimming`; what others read of a backup
//! (`pinned`, `log_from`) is behind none of them.
//!
//! Tested by `tests/it/backup.rs`.

pub(crate) mod format;
mod steps;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Lsn, TableId};
use parking_lot::{Mutex, RwLock};

use crate::checkpoint::holders::Holder;
use crate::table::Table;

/// Bytes that a pin holds before it is broken, unless told otherwise.
pub const PIN_LIMIT: u64 = 64 << 30;
/// The longest that a mark keeps images waiting (BP4): the tool that took it may be gone.
const STILL: Duration = Duration::from_secs(2);
/// Nothing of the log is held.
const NOTHING: u64 = u64::MAX;

/// The one backup at a time, or none.
pub struct Backups {
    state: Mutex<Option<Backup>>,
    /// Tables whose files are pinned.
    pinned: RwLock<HashSet<TableId>>,
    /// The log is kept from here on.
    log_from: AtomicU64,
    limit: AtomicU64,
    /// Until when images wait (BP4), in milliseconds of the vfs' clock.
    still_until: AtomicU64,
    /// Bytes held beyond what the database needs, as of the last look.
    held: AtomicU64,
    broken: AtomicU64,
}

/// A backup under way.
struct Backup {
    id: u64,
    phase: Phase,
    /// The log is being shortened so that it begins here.
    log_to: Option<Lsn>,
    tables: Vec<Arc<Table>>,
    at: Lsn,
    segments: Vec<(u32, Lsn)>,
    /// Committed rows of each table at the mark.
    rows: Vec<(String, u64)>,
    since: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// Waits for the moment.
    Armed,
    /// Pinned; whether the moment was still is not known yet.
    Pinned,
    /// No transaction committed while the server blocked commits.
    Proven,
    /// BP2, with the reason.
    Broken(String),
}

impl Default for Backups {
    fn default() -> Backups {
        Backups {
            state: Mutex::default(),
            pinned: RwLock::default(),
            log_from: AtomicU64::new(NOTHING),
            limit: AtomicU64::new(PIN_LIMIT),
            still_until: AtomicU64::new(0),
            held: AtomicU64::new(0),
            broken: AtomicU64::new(0),
        }
    }
}

impl Backups {
    /// Whether the file of that table has to stay (BP3).
    pub fn pins(&self, table: TableId) -> bool {
        self.pinned.read().contains(&table)
    }

    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Whether images and trims wait (BP4).
    pub fn is_still(&self, now: Duration) -> bool {
        (now.as_millis() as u64) < self.still_until.load(Ordering::Relaxed)
    }

    /// BP4: from `now` on; `None`: no longer.
    fn keep_still(&self, now: Option<Duration>) {
        let until = now.map_or(0, |now| (now + STILL).as_millis() as u64);
        self.still_until.store(until, Ordering::Relaxed);
    }

    /// Pinned files, bytes held beyond what the database needs, pins that were broken.
    pub fn status(&self) -> (u64, u64, u64) {
        let files = self.pinned.read().len() as u64;
        (files, self.held.load(Ordering::Relaxed), self.broken.load(Ordering::Relaxed))
    }
}

impl Holder for Backups {
    fn holds_log_from(&self) -> Option<Lsn> {
        match self.log_from.load(Ordering::Acquire) {
            NOTHING => None,
            lsn => Some(lsn),
        }
    }
}
