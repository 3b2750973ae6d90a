//! How a scan locks rows, where a step begins, and the outcome for a candidate. `locking.rs` uses
//! these.

use frond_tree::Seek;
use frond_txn::RowMode;

use crate::commit::transaction::OnLocked;

/// How rows are locked as they are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanLock {
    pub mode: RowMode,
    pub wait: OnLocked,
    /// Skip rows that others hold.
    pub skip_locked: bool,
    /// Read at the snapshot, not the newest: a row that changed since is a conflict.
    pub at_snapshot: bool,
}

/// Where a step of a scan begins.
#[derive(Clone, Copy)]
pub(super) enum Origin {
    First,
    Last,
    Key(Seek),
}

/// The outcome of a request for a candidate's lock.
pub(super) enum Claim {
    /// The newest version is in `row_value`.
    Newest,
    /// Locked, and unchanged since the snapshot.
    Unchanged,
    /// Not to be delivered.
    Skip,
    Waited,
    Stale,
}

/// A candidate after its lock was granted.
pub(super) enum Still {
    Same,
    /// Its entry has another value.
    Changed,
    Gone,
}

/// Reads of the last committed version of rows that others hold, without their locks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Semi {
    Off,
    Try,
    /// The last row was read so.
    Did,
}
