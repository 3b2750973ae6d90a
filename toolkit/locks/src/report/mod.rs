//! What was found, as one document: what `--json` writes and the text shows. Field by field in docs/locks.md.

mod build;
mod csv;
mod html;
mod place;
mod text;
mod tree;

use std::io::{self, Write};

use serde::Serialize;

pub use csv::{fields, write_csv, Section};

/// Of the document; it grows when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub version: u32,
    /// What was read: files, servers.
    pub sources: Vec<String>,
    pub dumps: u64,
    /// Dumps that are cut, or in which the server left something out.
    pub incomplete: u64,
    pub first: Option<String>,
    pub last: Option<String>,
    /// The dump whose waits are longest.
    pub tree: Option<Tree>,
    pub blockers: Vec<Blocker>,
    pub waits: Totals,
    pub longest_waits: Vec<Wait>,
    pub records: Vec<Record>,
    pub transactions: u64,
    pub longest_transactions: Vec<Transaction>,
    pub locks: Vec<Locks>,
    pub deadlocks: u64,
    pub deadlock_groups: Vec<Deadlocks>,
    pub series: Vec<Point>,
    /// What a reader has to know of the evidence.
    pub notes: Vec<String>,
    /// What could not be read; the rest is not all there is then.
    pub problems: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Totals {
    pub count: u64,
    pub seconds: f64,
    /// How many have no blocker that is printed.
    pub without_blocker: u64,
}

#[derive(Debug, Serialize)]
pub struct Tree {
    pub at: Option<String>,
    /// Each waiter and each root once, a waiter behind the one that it waits for, one deeper.
    pub nodes: Vec<Node>,
}

#[derive(Debug, Serialize)]
pub struct Node {
    pub depth: u32,
    pub transaction: String,
    pub connection: Option<u64>,
    pub user: String,
    pub host: String,
    /// Since it began.
    pub open_seconds: Option<u64>,
    /// Since it waits; none: it does not.
    pub waits_seconds: Option<f64>,
    pub idle: bool,
    pub statement: String,
    /// `X record`, and where.
    pub wants: Option<Place>,
    /// Others that it waits for, too.
    pub also_behind: Vec<String>,
    /// Why no blocker is named, a circle, and the like.
    pub note: Option<&'static str>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Place {
    pub lock: String,
    pub table: String,
    /// None: the table itself.
    pub index: Option<String>,
    pub key: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Blocker {
    pub transaction: String,
    pub connection: Option<u64>,
    pub user: String,
    pub host: String,
    /// Waits behind it, directly or not, and their sum.
    pub waits: u64,
    pub blocked_seconds: f64,
    pub open_seconds: u64,
    /// Dumps in which others waited for it; in which its client had to go on.
    pub dumps: u64,
    pub idle_dumps: u64,
    pub statement: String,
}

#[derive(Debug, Serialize)]
pub struct Wait {
    pub transaction: String,
    pub connection: Option<u64>,
    pub user: String,
    pub host: String,
    pub seconds: f64,
    pub first: Option<String>,
    pub last: Option<String>,
    pub wants: Option<Place>,
    pub statement: String,
    /// Transactions that have what it wants.
    pub held_by: Vec<String>,
    /// Transactions that wait for it, too, and are in front.
    pub queued_behind: Vec<String>,
    pub roots: Vec<String>,
    /// `not-printed`, `cut`, `gone`: why `held_by` may be empty.
    pub unknown: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub struct Record {
    pub table: String,
    pub index: Option<String>,
    pub key: Option<String>,
    /// Where: tablespace, page, heap number.
    pub space: u64,
    pub page: u64,
    pub heap: u32,
    pub waits: u64,
    pub seconds: f64,
    pub at_once: u64,
}

#[derive(Debug, Serialize)]
pub struct Transaction {
    pub transaction: String,
    pub connection: Option<u64>,
    pub user: String,
    pub host: String,
    pub open_seconds: u64,
    pub first: Option<String>,
    pub last: Option<String>,
    pub dumps: u64,
    pub idle_dumps: u64,
    pub waiting_dumps: u64,
    pub row_locks: u64,
    pub undo_entries: u64,
    pub lock_structs: u64,
    pub tables_locked: u64,
    pub state: String,
    /// `idle in transaction`, `read view`, `prepared`, `rolling back`
    pub flags: Vec<&'static str>,
    /// Classes of its last statements, the newest first.
    pub statements: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Locks {
    pub table: String,
    pub index: Option<String>,
    pub lock: String,
    pub waiting: bool,
    /// The most at once.
    pub locks: u64,
    pub records: u64,
    pub transactions: u64,
    /// Dumps that have some.
    pub dumps: u64,
}

#[derive(Debug, Serialize)]
pub struct Deadlocks {
    pub count: u64,
    pub first: Option<String>,
    pub last: Option<String>,
    /// Of the latest.
    pub members: Vec<Member>,
    pub hint: &'static str,
}

#[derive(Debug, Serialize)]
pub struct Member {
    pub transaction: String,
    pub connection: Option<u64>,
    pub user: String,
    pub host: String,
    pub wants: Place,
    /// Transactions that have it.
    pub held_by: Vec<String>,
    pub rolled_back: bool,
    pub statement: String,
}

#[derive(Debug, Serialize)]
pub struct Point {
    pub at: Option<String>,
    pub history: Option<u64>,
    pub checkpoint_age: Option<u64>,
    pub lsn: Option<u64>,
    pub active: u64,
    pub waiting: u64,
    pub row_locks: u64,
}

/// What a report shows.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest of each list.
    pub limit: usize,
    /// Values of keys, which are data.
    pub keys: bool,
}

impl Report {
    /// Nobody waits, and nothing was rolled back for a deadlock.
    pub fn is_quiet(&self) -> bool {
        self.waits.count == 0 && self.deadlocks == 0
    }

    /// All of it as one JSON object.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}
