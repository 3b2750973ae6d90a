//! How a scan locks rows, where a step of it begins, and what became of a candidate. What is done with these
//! is in `locking.rs`.

use frond_tree::Seek;
use frond_txn::RowMode;

use crate::commit::transaction::OnLocked;

/// How rows are locked as they are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanLock {
    pub mode: RowMode,
    pub wait: OnLocked,
    /// Pass over rows that others hold.
    pub skip_locked: bool,
    /// Read what the snapshot shows, not the newest: a row that changed since is a conflict.
    pub at_snapshot: bool,
}

/// Where a step of a scan begins.
#[derive(Clone, Copy)]
pub(super) enum Origin {
    First,
    Last,
    Key(Seek),
}

/// What a request for a candidate's lock came to.
pub(super) enum Claim {
    /// The newest version is in `row_value`.
    Newest,
    /// Locked, and as the snapshot has it.
    Unchanged,
    /// Not to be delivered.
    Skip,
    Waited,
    Stale,
}

/// Reads of the last committed version of rows that others hold, without their locks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Semi {
    Off,
    Try,
    /// The last row was read so.
    Did,
}
