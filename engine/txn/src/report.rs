//! Reports of the lock table for people.

use std::fmt;
use std::time::Duration;

use frond_base::TreeId;

use crate::key_range::KeyRange;
use crate::{LockMode, TxnId};

/// One owner: a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerInfo {
    pub owner: TxnId,
    /// See [`crate::OwnerHandle::set_label`].
    pub label: u64,
    /// Its weight at its latest request for a lock.
    pub weight: u64,
    /// Number of locks held.
    pub locks: u64,
    /// When it began, on the clock of [`crate::LockTable::set_clock`]; zero without one.
    pub since: Duration,
}

/// One lock held. A tree lock has neither key nor range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockInfo {
    pub owner: TxnId,
    pub tree: TreeId,
    pub key: Option<Vec<u8>>,
    /// The range of a lock on a range of keys.
    pub range: Option<KeyRange>,
    pub mode: LockMode,
}

/// One owner waiting. `blockers` are the owners it waits for: holders, and those queued before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitInfo {
    pub waiter: TxnId,
    pub tree: TreeId,
    pub key: Option<Vec<u8>>,
    /// The range of a lock on a range of keys.
    pub range: Option<KeyRange>,
    pub mode: LockMode,
    pub blockers: Vec<TxnId>,
    /// On the clock of [`crate::LockTable::set_clock`]; zero without one.
    pub since: Duration,
}

/// One transaction of a deadlock: it waited for `mode` on `tree`/`key`, which the next one (after the
/// last, the first) held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockMember {
    pub owner: TxnId,
    pub label: u64,
    pub weight: u64,
    pub tree: TreeId,
    pub key: Option<Vec<u8>>,
    /// The range of a lock on a range of keys.
    pub range: Option<KeyRange>,
    pub mode: LockMode,
}

/// The last deadlock. Its text form is meant for an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockReport {
    pub victim: TxnId,
    pub members: Vec<DeadlockMember>,
}

impl fmt::Display for DeadlockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.members.len();
        for (i, m) in self.members.iter().enumerate() {
            let next = &self.members[(i + 1) % n];
            write!(f, "transaction {} ({} changes) ", m.owner, m.weight)?;
            write!(f, "waits for {:?} on tree {}", m.mode, m.tree)?;
            if let Some(key) = &m.key {
                f.write_str(" key 0x")?;
                key.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
            }
            if let Some(range) = &m.range {
                write!(f, " {range:?}")?;
            }
            writeln!(f, ", blocked by transaction {}", next.owner)?;
        }
        writeln!(f, "transaction {} was rolled back", self.victim)
    }
}
