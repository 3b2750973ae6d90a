//! A dump of transactions and locks, from wherever it was read.

use std::fmt;
use std::sync::Arc;

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    IntentionShared,
    IntentionExclusive,
    Shared,
    Exclusive,
    AutoInc,
}

impl Mode {
    const NAMES: [(&str, Mode); 6] = [
        ("IS", Mode::IntentionShared),
        ("IX", Mode::IntentionExclusive),
        ("S", Mode::Shared),
        ("X", Mode::Exclusive),
        ("AUTO-INC", Mode::AutoInc),
        ("AUTO_INC", Mode::AutoInc),
    ];

    pub fn name(self) -> &'static str {
        Mode::NAMES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }

    /// The mode that `text` names.
    pub fn parse(text: &[u8]) -> Option<Mode> {
        Mode::NAMES.iter().find(|(name, _)| name.as_bytes() == text).map(|(_, mode)| *mode)
    }
}

/// The locked part of a record and the gap before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Span {
    /// Both.
    NextKey,
    Gap,
    Record,
    /// Next-key or record: tables of a running server do not tell which.
    Unsaid,
}

/// Heap number of the pseudo-record at the end of a page: only a gap is before it.
pub const SUPREMUM: u32 = 1;

/// A table, or records of one page of an index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    pub index: Arc<str>,
    pub space: u64,
    pub page: u64,
}

/// A lock as printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// `shop.sale`, with the partition in parentheses.
    pub table: Arc<str>,
    /// `None`: the table's lock.
    pub page: Option<Page>,
    /// The records of the page.
    pub heaps: Vec<u32>,
    pub mode: Mode,
    pub span: Span,
    pub insert_intention: bool,
    pub waiting: bool,
    /// The transaction in the lock's own line; in a deadlock it may differ from that of the paragraph.
    pub owner: String,
    /// The key of the record that is waited for, as far as it can be decoded without the table's definition.
    pub key: Option<String>,
}

impl Lock {
    /// `X next-key`, `X record`, `S gap`, `X insert intention`, `IX table`.
    pub fn kind(&self) -> String {
        let what = match (&self.page, self.insert_intention, self.span) {
            (None, _, _) => "table",
            (_, true, _) => "insert intention",
            (_, _, Span::NextKey) => "next-key",
            (_, _, Span::Gap) => "gap",
            (_, _, Span::Record) => "record",
            (_, _, Span::Unsaid) => "row",
        };
        format!("{} {what}", self.mode.name())
    }
}

/// A transaction in a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trx {
    /// As printed; a transaction that changed nothing may have an address (in parentheses).
    pub id: String,
    /// Seconds since it began; `None`: not started.
    pub active: Option<u64>,
    /// InnoDB's current work for it: `inserting`, `starting index read`.
    pub state: String,
    /// The connection, for KILL.
    pub thread: Option<u64>,
    pub query_id: Option<u64>,
    pub user: String,
    pub host: String,
    /// The running statement; empty if none runs.
    pub statement: Vec<u8>,
    pub lock_structs: u64,
    pub row_locks: u64,
    pub undo: u64,
    /// `LOCK WAIT`
    pub waits: bool,
    /// How long it has been waiting for its lock.
    pub wait_micros: Option<u64>,
    /// Locks that are printed, including the one that is waited for.
    pub locks: Vec<Lock>,
    pub prepared: bool,
    pub rolling_back: bool,
    /// The server works for it without a statement, as a replica's applier does.
    pub works: bool,
    /// It keeps a read view open: purge cannot remove row versions that the view may still read.
    pub read_view: bool,
}

impl Trx {
    pub fn waiting_lock(&self) -> Option<&Lock> {
        self.locks.iter().find(|lock| lock.waiting)
    }

    /// The transaction is open, but its client sends nothing.
    pub fn idle(&self) -> bool {
        self.active.is_some()
            && self.thread.is_some()
            && self.statement.is_empty()
            && !self.waits
            && !self.prepared
            && !self.rolling_back
            && !self.works
    }

    /// Whether `lock` is its lock. The line of a lock has the number that stands for a transaction without one: its address
    /// with a bit that no number has.
    pub fn owns(&self, lock: &Lock) -> bool {
        let address = self.id.strip_prefix("(0x").and_then(|id| id.strip_suffix(')'));
        let address = address.and_then(|id| u64::from_str_radix(id, 16).ok());
        self.id == lock.owner || address.is_some_and(|id| lock.owner.parse() == Ok(id | NUMBERLESS))
    }

    /// Some of its locks are not printed.
    pub fn has_hidden_locks(&self) -> bool {
        self.lock_structs > self.locks.len() as u64
    }
}

/// Numbers of transactions are smaller than this.
pub const NUMBERLESS: u64 = 1 << 48;

/// A waiter and one of its blockers, as a server reports them: indexes into the dump's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    pub waiter: usize,
    /// `None`: the server does not say which of several it is.
    pub blocker: Option<usize>,
}

/// The state of a server at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The server's local time, in seconds since 1970 as if it were UTC.
    pub at: Option<i64>,
    pub trxs: Vec<Trx>,
    pub history: Option<u64>,
    pub lsn: Option<u64>,
    pub checkpoint: Option<u64>,
    /// The end was seen, and nothing was left out.
    pub complete: bool,
    /// Waiters and blockers, if the server reported them; otherwise they are derived from the locks.
    pub given: Option<Vec<Given>>,
}

/// One member of a deadlock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub trx: Trx,
    /// Conflicting locks of others (MariaDB), or locks that it holds itself (MySQL): each has its owner.
    pub others: Vec<Lock>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadlock {
    /// As `Dump::at`.
    pub at: Option<i64>,
    pub members: Vec<Member>,
    /// Index of the member that was rolled back.
    pub victim: Option<usize>,
    /// The search for a circle was given up (MySQL up to 5.7); there may be none.
    pub given_up: bool,
}

/// `2026-11-23 19:37:16`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clock(pub i64);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&frond_event::numbers::time(self.0.saturating_mul(1_000_000)))
    }
}
