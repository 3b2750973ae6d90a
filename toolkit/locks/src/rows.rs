//! The rows of a report: the data of a transaction, a wait, a record. Analyses fill them in, and `--json` writes them unchanged.
//! docs/locks.md documents their fields.

use serde::{Serialize, Serializer};

use crate::graph::Unknown;
use crate::model::{Clock, Lock, Trx};

impl Serialize for Clock {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Microseconds, written as seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "f64")]
pub struct Micros(pub u64);

impl From<Micros> for f64 {
    fn from(time: Micros) -> f64 {
        time.0 as f64 / 1e6
    }
}

impl Micros {
    pub fn add(&mut self, other: Micros) {
        self.0 = self.0.saturating_add(other.0);
    }
}

/// A transaction, its user and its host.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Who {
    pub transaction: String,
    pub connection: Option<u64>,
    pub user: String,
    pub host: String,
}

impl From<&Trx> for Who {
    fn from(trx: &Trx) -> Who {
        Who {
            transaction: trx.id.clone(),
            connection: trx.thread,
            user: trx.user.clone(),
            host: trx.host.clone(),
        }
    }
}

/// A lock's kind, as `X record`, and its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    pub lock: String,
    pub table: String,
    /// `None`: the table itself.
    pub index: Option<String>,
    pub key: Option<String>,
}

impl From<&Lock> for Place {
    fn from(lock: &Lock) -> Place {
        Place {
            lock: lock.kind(),
            table: lock.table.to_string(),
            index: lock.page.as_ref().map(|page| page.index.to_string()),
            key: lock.key.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Totals {
    pub count: u64,
    pub seconds: Micros,
    /// Number of waits without a printed blocker.
    pub without_blocker: u64,
}

#[derive(Debug, Serialize)]
pub struct Tree {
    pub at: Option<Clock>,
    /// Each waiter and each root once; a waiter follows the transaction that it waits for, one level deeper.
    pub nodes: Vec<Node>,
}

#[derive(Debug, Serialize)]
pub struct Node {
    pub depth: u32,
    #[serde(flatten)]
    pub who: Who,
    /// Seconds since it began.
    pub open_seconds: Option<u64>,
    /// Time since it waits; `None`: it does not wait.
    pub waits_seconds: Option<Micros>,
    pub idle: bool,
    pub statement: String,
    pub wants: Option<Place>,
    /// Further transactions that it waits for.
    pub also_behind: Vec<String>,
    /// Why no blocker is named, or that it is in a circle, and the like.
    pub note: Option<&'static str>,
}

/// A transaction at the root of waits.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Blocker {
    #[serde(flatten)]
    pub who: Who,
    /// Number of waits behind it, direct or not, and their sum.
    pub waits: u64,
    pub blocked_seconds: Micros,
    pub open_seconds: u64,
    /// Dumps in which others waited for it; and those of them in which its client was idle.
    pub dumps: u64,
    pub idle_dumps: u64,
    /// Its last statement while others waited.
    pub statement: String,
}

/// One transaction's wait for one lock.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Wait {
    #[serde(flatten)]
    pub who: Who,
    pub seconds: Micros,
    pub first: Option<Clock>,
    pub last: Option<Clock>,
    pub wants: Option<Place>,
    pub statement: String,
    /// In the last dump: transactions that have the lock.
    pub held_by: Vec<String>,
    /// Transactions that wait for it as well, and were earlier.
    pub queued_behind: Vec<String>,
    pub roots: Vec<String>,
    /// Why `held_by` may be empty.
    pub unknown: Option<Unknown>,
}

/// A record (or a table) that is waited for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    pub table: String,
    pub index: Option<String>,
    pub key: Option<String>,
    /// Place: tablespace, page, heap number.
    pub space: u64,
    pub page: u64,
    pub heap: u32,
    pub waits: u64,
    pub seconds: Micros,
    /// The most that waited at once.
    pub at_once: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Transaction {
    #[serde(flatten)]
    pub who: Who,
    pub open_seconds: u64,
    pub first: Option<Clock>,
    pub last: Option<Clock>,
    pub dumps: u64,
    /// Dumps in which it ran no statement and its client was idle.
    pub idle_dumps: u64,
    /// The most row locks at once.
    pub row_locks: u64,
    pub undo_entries: u64,
    pub lock_structs: u64,
    /// Its last state.
    pub state: String,
    /// `idle in transaction`, `waits for a lock`, `read view`, `prepared`, `rolling back`
    pub flags: Vec<&'static str>,
    /// Classes of its last statements, each once, the newest first.
    pub statements: Vec<String>,
}

/// Locks of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Locks {
    pub table: String,
    pub index: Option<String>,
    pub lock: String,
    pub waiting: bool,
    /// The most in one dump: locks, their records, transactions.
    pub locks: u64,
    pub records: u64,
    pub transactions: u64,
    /// Dumps with such locks.
    pub dumps: u64,
}

/// Deadlocks with the same statements and locks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Deadlocks {
    pub count: u64,
    pub first: Option<Clock>,
    pub last: Option<Clock>,
    /// Members of the latest one.
    pub members: Vec<Member>,
    pub hint: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub struct Member {
    #[serde(flatten)]
    pub who: Who,
    pub wants: Place,
    /// Transactions that have the lock.
    pub held_by: Vec<String>,
    pub rolled_back: bool,
    pub statement: String,
}

/// The state of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Point {
    pub at: Option<Clock>,
    pub history: Option<u64>,
    /// Bytes of log that are not in the tables yet.
    pub checkpoint_age: Option<u64>,
    pub lsn: Option<u64>,
    pub active: u64,
    pub waiting: u64,
    pub row_locks: u64,
}
