//! Transactions without storage: commit order, snapshots, locks, and write sets.
//!
//! - [`CommitClock`]: assigns commit sequences and publishes them in order.
//! - [`SnapshotRegistry`]: the sequences at which readers read.
//! - [`LockTable`], [`Locker`]: row and tree locks, queues, deadlocks, interrupts.
//! - [`LockObserver`]: hears of waits.
//! - [`WriteSet`]: a transaction's changes until commit.
//!
//! Nothing here knows pages, files or the log. Waiting uses condition variables with timeouts.
//!
//! Tested by the unit tests of each file and by `tests/it/main.rs`.
#![forbid(unsafe_code)]

mod clock;
mod deadlock;
mod key_range;
mod listing;
mod lock_restore;
mod lock_slot;
mod lock_table;
mod lock_wait;
mod locker;
mod locker_ranges;
mod modes;
mod observer;
mod range_table;
mod report;
mod snapshots;
mod waiting;
mod write_set;

pub use clock::CommitClock;
pub use key_range::{after, KeyRange};
pub use listing::LockListing;
pub use lock_restore::TreeLocks;
pub use lock_table::{LockOptions, LockStats, LockTable};
pub use lock_wait::OwnerHandle;
pub use locker::{Granted, Locker, LooseLock, Wait};
pub use modes::{LockMode, RowMode, TreeMode};
pub use observer::LockObserver;
pub use report::{DeadlockMember, DeadlockReport, LockInfo, OwnerInfo, WaitInfo};
pub use snapshots::{Snapshot, SnapshotRegistry};
pub use write_set::{Op, WriteSet};

/// A transaction, for the lock table. The engine makes sure that no two live ones share a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TxnId(pub u64);

impl std::fmt::Display for TxnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
