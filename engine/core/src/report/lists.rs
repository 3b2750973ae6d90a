//! Transactions, locks and waits, one after the other: read in pieces, so that no latch is held for long and memory
//! does not grow with their number. None of the lists is a consistent snapshot.

use std::collections::HashMap;
use std::time::Duration;

use frond_txn::{LockListing, LockMode, TxnId};

use super::places::{LockPlace, Places};
use crate::commit::xid::Xid;
use crate::engine::Engine;

/// Slots of the lock table that are read at a time.
const BATCH: usize = 512;

/// At most this many of the transactions for which one waits are named.
const MOST_BLOCKERS: usize = 100;

/// The state of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionState {
    Running,
    /// It waits for a lock.
    Waiting,
    Prepared,
    /// Prepared, and no session has it: it is ended by its name.
    Detached,
}

/// One transaction that has not ended.
#[derive(Clone, Debug)]
pub struct TransactionInfo {
    pub id: u64,
    /// 0: none.
    pub connection: u64,
    pub state: TransactionState,
    /// Since it began; of one from before a restart, since the restart.
    pub age: Duration,
    /// Since it waits.
    pub waits: Option<Duration>,
    /// Changes so far, as of its latest request for a lock.
    pub changes: u64,
    pub locks: u64,
    /// Its name, when it is prepared.
    pub xid: Option<Xid>,
}

/// One lock that a transaction holds.
#[derive(Clone, Debug)]
pub struct HeldLock {
    pub transaction: u64,
    pub connection: u64,
    pub mode: LockMode,
    pub place: LockPlace,
}

/// A transaction that waits for another one.
#[derive(Clone, Debug)]
pub struct LockWait {
    pub waiter: u64,
    pub waiter_connection: u64,
    pub blocker: u64,
    pub blocker_connection: u64,
    /// The name of a blocker that is prepared.
    pub blocker_xid: Option<Xid>,
    pub waits: Duration,
    pub mode: LockMode,
    pub place: LockPlace,
}

impl Engine {
    /// Calls `emit` for each transaction that has not ended, in the order of their numbers, until it returns false.
    pub fn each_transaction(&self, emit: &mut dyn FnMut(&TransactionInfo) -> bool) {
        let core = self.core();
        let now = core.shared.vfs.now();
        let prepared = core.prepared.owners();
        let waits: HashMap<TxnId, Duration> = core.locks.waiters_since().into_iter().collect();
        let mut owners = core.locks.owners();
        owners.sort_unstable_by_key(|o| o.owner);
        for o in owners {
            let waits = waits.get(&o.owner).map(|since| now.saturating_sub(*since));
            let found = prepared.get(&o.owner);
            let state = match (found, waits) {
                (Some((_, true)), _) => TransactionState::Prepared,
                (Some((_, false)), _) => TransactionState::Detached,
                (None, Some(_)) => TransactionState::Waiting,
                (None, None) => TransactionState::Running,
            };
            let goes_on = emit(&TransactionInfo {
                id: o.owner.0,
                connection: o.label,
                state,
                age: now.saturating_sub(o.since),
                waits,
                changes: o.weight,
                locks: o.locks,
                xid: found.map(|(xid, _)| xid.clone()),
            });
            if !goes_on {
                return;
            }
        }
    }

    /// Calls `emit` for each lock that is held, until it returns false. No latch is held meanwhile.
    pub fn each_lock(&self, emit: &mut dyn FnMut(&HeldLock) -> bool) {
        let core = self.core();
        let mut places = Places::new(core);
        let (mut at, mut batch) = (LockListing::default(), Vec::new());
        while core.locks.more_locks(&mut at, BATCH, &mut batch) {
            for lock in &batch {
                let goes_on = emit(&HeldLock {
                    transaction: lock.owner.0,
                    connection: core.locks.label(lock.owner),
                    mode: lock.mode,
                    place: places.place(lock.tree, lock.key.as_deref(), lock.range.as_ref()),
                });
                if !goes_on {
                    return;
                }
            }
        }
    }

    /// Calls `emit` for each pair of a waiting transaction and one that it waits for, until it returns false.
    pub fn each_lock_wait(&self, emit: &mut dyn FnMut(&LockWait) -> bool) {
        let core = self.core();
        let mut places = Places::new(core);
        let now = core.shared.vfs.now();
        let prepared = core.prepared.owners();
        for waiter in core.locks.waiters() {
            let Some(wait) = core.locks.wait_of(waiter) else { continue };
            let place = places.place(wait.tree, wait.key.as_deref(), wait.range.as_ref());
            for blocker in wait.blockers.iter().take(MOST_BLOCKERS) {
                let goes_on = emit(&LockWait {
                    waiter: waiter.0,
                    waiter_connection: core.locks.label(waiter),
                    blocker: blocker.0,
                    blocker_connection: core.locks.label(*blocker),
                    blocker_xid: prepared.get(blocker).map(|(xid, _)| xid.clone()),
                    waits: now.saturating_sub(wait.since),
                    mode: wait.mode,
                    place: place.clone(),
                });
                if !goes_on {
                    return;
                }
            }
        }
    }
}
