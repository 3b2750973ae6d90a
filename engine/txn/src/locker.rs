//! `Locker`: one transaction's side of the lock table.

use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind, IdMap, Result, TreeId};

use crate::lock_slot::{Holding, Outcome, Shard, Slot, SlotKey};
use crate::lock_table::{LockTable, WaitAt, SLOT_BYTES};
use crate::lock_wait::{interrupted, Owner, OwnerHandle, Park};
use crate::{LockMode, RowMode, TreeMode, TxnId};

/// What to do when a lock is not free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Fail with `LockNoWait`. For SKIP LOCKED the caller then goes on to the next row.
    NoWait,
    /// Wait at most this long, then fail with `LockTimeout`.
    Block(Duration),
}

/// How a lock was obtained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granted {
    New,
    /// A weaker lock became this one.
    Upgraded,
    /// The owner already had it, or a tree lock that covers it.
    AlreadyHeld,
}

/// A row's lock that may be given back before the transaction ends: [`Locker::loosen`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LooseLock {
    serial: u32,
    slot: u32,
    shard: u8,
}

/// At most this many locks are loose, one per scan; the oldest are fastened.
const MOST_LOOSE: usize = 16;

#[derive(Clone, Copy)]
pub(crate) struct Held {
    serial: u32,
    pub slot: u32,
    /// Index in `trees`.
    pub tree: u32,
    pub shard: u8,
    pub is_tree: bool,
}

pub(crate) const HELD_BYTES: usize = 16;

pub(crate) struct TreeHold {
    pub mode: TreeMode,
    pub rows: usize,
    escalate_at: usize,
}

/// Takes and releases locks for one owner. Used by one thread at a time; dropping it releases all.
pub struct Locker {
    pub(crate) table: Arc<LockTable>,
    pub(crate) owner: Arc<Owner>,
    /// In the order of `serial`.
    pub(crate) held: Vec<Held>,
    /// In the order in which their tree locks were taken.
    pub(crate) trees: IdMap<TreeId, TreeHold>,
    /// Row locks that were not requested again.
    loose: Vec<LooseLock>,
    serial: u32,
    pub(crate) waits: u64,
    /// Another locker took the owner over.
    is_left: bool,
}

/// The result of the first attempt at a lock.
enum Look {
    Done(Outcome, u32),
    Full,
}

impl LockTable {
    /// Makes the owner `id` known (asserts that it is new). Dropping the locker releases its locks.
    pub fn locker(self: &Arc<Self>, id: TxnId) -> Locker {
        let owner = Owner::new(id, self.now());
        let before = self.owners_of(id).lock().insert(id, Arc::clone(&owner));
        assert!(before.is_none(), "transaction {id} has a locker already");
        Locker::new(Arc::clone(self), owner)
    }
}

impl Locker {
    pub(crate) fn new(table: Arc<LockTable>, owner: Arc<Owner>) -> Locker {
        Locker {
            table,
            owner,
            held: Vec::new(),
            trees: IdMap::default(),
            loose: Vec::new(),
            serial: 0,
            waits: 0,
            is_left: false,
        }
    }

    /// Moves the owner and all locks to a new locker. This one has no locks then and is to be dropped.
    pub fn take(&mut self) -> Locker {
        let left = Locker::new(Arc::clone(&self.table), Arc::clone(&self.owner));
        let taken = std::mem::replace(self, left);
        self.is_left = true;
        taken
    }

    /// The owner ends, and leaves its number to the next one, if it has no lock: nobody else has met that number in the
    /// table. Until [`Locker::wake`], lists do not have it. False, without effect, if it has a lock.
    pub fn rest(&mut self) -> bool {
        let unused = self.held.is_empty() && self.trees.is_empty() && !self.owner.has_ranges();
        if unused {
            debug_assert!(self.loose.is_empty(), "a loose lock is held");
            self.owner.set_resting(true);
        }
        unused
    }

    /// The next owner with this number begins.
    pub fn wake(&mut self) {
        self.owner.begin_again(self.table.now());
    }

    pub fn id(&self) -> TxnId {
        self.owner.id
    }

    /// A counter that changes with each request, for any kind of lock, that had to wait for another
    /// owner, however the wait ended. What this owner read before may have been changed since.
    #[inline]
    pub fn waits(&self) -> u64 {
        self.waits
    }

    /// For other threads, which may interrupt a wait.
    pub fn handle(&self) -> OwnerHandle {
        OwnerHandle(Arc::clone(&self.owner))
    }

    /// The cost of rolling this owner back: of a deadlock's members the one with the least weight
    /// gives way. Set it before each lock: other owners read it during a wait.
    #[inline]
    pub fn set_weight(&self, weight: u64) {
        self.owner.set_weight(weight);
    }

    /// Locks row `key` of `tree`; the row need not exist. The tree's intention lock comes with the
    /// first row. Errors: `LockNoWait`, `LockTimeout`, `Deadlock` (roll back), `Interrupted`,
    /// `LockTableFull`; after any of them the owner holds the same locks as before, and perhaps the
    /// tree's intention lock.
    pub fn lock(&mut self, tree: TreeId, key: &[u8], mode: RowMode, wait: Wait) -> Result<Granted> {
        let at = match self.trees.position(tree) {
            Some(at) if self.trees.at(at).mode.covers(mode.intention()) => at,
            _ => {
                self.lock_tree(tree, mode.intention(), wait)?;
                self.trees.position(tree).expect("the tree has just been locked")
            }
        };
        if self.trees.at(at).mode.covers(mode.into()) {
            return Ok(Granted::AlreadyHeld);
        }
        let granted = self.acquire(tree, Some(key), mode.into(), wait, at)?;
        if granted == Granted::New {
            self.trees.at_mut(at).rows += 1;
        }
        Ok(granted)
    }

    /// Locks the whole tree. Errors as [`Locker::lock`], without `LockTableFull`.
    pub fn lock_tree(&mut self, tree: TreeId, mode: TreeMode, wait: Wait) -> Result<Granted> {
        let at = self.trees.position(tree);
        let held = at.map(|at| self.trees.at(at).mode);
        if held.is_some_and(|h| h.covers(mode)) {
            return Ok(Granted::AlreadyHeld);
        }
        let granted = self.acquire(tree, None, mode, wait, at.unwrap_or(self.trees.len()))?;
        self.note_tree_mode(tree, at, mode);
        Ok(granted)
    }

    pub(crate) fn note_tree_mode(&mut self, tree: TreeId, at: Option<usize>, mode: TreeMode) {
        match at {
            Some(at) => {
                let hold = self.trees.at_mut(at);
                hold.mode = hold.mode.join(mode);
            }
            None => {
                let limit = self.table.options.escalate_after;
                let escalate_at = if limit == 0 { usize::MAX } else { limit };
                self.trees.push(tree, TreeHold { mode, rows: 0, escalate_at });
            }
        }
    }

    /// Whether this owner holds a lock on row `key` of `tree`, or on the tree, that covers `mode`.
    pub fn covers(&self, tree: TreeId, key: &[u8], mode: RowMode) -> bool {
        let Some(hold) = self.trees.get(tree) else { return false };
        if hold.mode.covers(mode.into()) {
            return true;
        }
        let hash = LockTable::hash(tree, Some(key));
        let shard = self.table.shards[LockTable::shard_of(hash)].lock();
        let slot = shard.find(hash, tree, Some(key)).map(|no| shard.slot(no));
        slot.and_then(|s| s.held_by(self.owner.id)).is_some_and(|held| held.covers(mode.into()))
    }

    /// Row locks held on `tree`.
    pub fn rows_locked(&self, tree: TreeId) -> usize {
        self.trees.get(tree).map_or(0, |hold| hold.rows)
    }

    /// Whether enough rows of `tree` are locked that [`Locker::escalate`] should be tried.
    #[inline]
    pub fn should_escalate(&self, tree: TreeId) -> bool {
        self.trees.get(tree).is_some_and(|hold| hold.rows >= hold.escalate_at)
    }

    /// Replaces this owner's row locks on `tree` by one lock on the tree that covers them and `mode`
    /// (X when rows are locked X). False, and nothing changed, when another owner's locks are in the way;
    /// [`Locker::should_escalate`] then says no until twice as many rows are locked.
    pub fn escalate(&mut self, tree: TreeId, mode: RowMode) -> bool {
        let Some(at) = self.trees.position(tree) else { return false };
        let hold = self.trees.at(at);
        let mode = hold.mode.join(mode.into());
        if mode != hold.mode {
            let hash = LockTable::hash(tree, None);
            let look = self.look(hash, tree, None, mode);
            if !matches!(look, Look::Done(Outcome::Upgraded, _)) {
                let hold = self.trees.at_mut(at);
                hold.escalate_at = hold.rows.saturating_mul(2).max(1);
                return false;
            }
        }
        let hold = self.trees.at_mut(at);
        (hold.mode, hold.rows) = (mode, 0);
        self.loose.clear();
        let mut held = std::mem::take(&mut self.held);
        held.retain(|h| {
            let keep = h.tree as usize != at || h.is_tree;
            if !keep {
                self.let_go(h);
            }
            keep
        });
        held.shrink_to(4096);
        self.held = held;
        self.owner.set_locks(self.held.len());
        true
    }

    /// Number of locks held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The row lock that was just granted as [`Granted::New`] may be given back, alone, until this owner
    /// asks for the row again: then another part of the transaction relies on it.
    pub fn loosen(&mut self) -> LooseLock {
        let h = self.held.last().expect("a lock was just granted");
        assert!(!h.is_tree, "a row's lock was just granted");
        let lock = LooseLock { serial: h.serial, slot: h.slot, shard: h.shard };
        if self.loose.len() == MOST_LOOSE {
            self.loose.remove(0);
        }
        self.loose.push(lock);
        lock
    }

    /// The lock stays until the transaction ends.
    pub fn fasten(&mut self, lock: LooseLock) {
        self.loose.retain(|l| *l != lock);
    }

    /// Releases `lock` and no other; false when it stays because it is not loose any more.
    pub fn give_back(&mut self, lock: LooseLock) -> bool {
        let Some(at) = self.loose.iter().position(|l| *l == lock) else { return false };
        self.loose.swap_remove(at);
        let at = self.held.binary_search_by_key(&lock.serial, |h| h.serial);
        let h = self.held.remove(at.expect("a loose lock is held"));
        self.let_go(&h);
        self.owner.set_locks(self.held.len());
        self.trees.at_mut(h.tree as usize).rows -= 1;
        true
    }

    pub fn release_all(&mut self) {
        if self.owner.has_ranges() {
            self.table.release_ranges(&self.owner);
        }
        while let Some(h) = self.held.pop() {
            self.let_go(&h);
        }
        self.owner.set_locks(0);
        self.trees.clear();
        self.loose.clear();
        self.serial = 0;
        self.held.shrink_to(4096);
    }

    fn let_go(&self, h: &Held) {
        let mut shard = self.table.shards[h.shard as usize].lock();
        if shard.slot_mut(h.slot).release(self.owner.id) {
            self.table.drop_slot(&mut shard, h.slot);
        }
        drop(shard);
        self.table.refund(HELD_BYTES);
    }

    /// A lock that is new, in slot `slot`.
    pub(crate) fn remember(&mut self, shard: usize, slot: u32, at: usize, row: bool) {
        self.next_serial();
        self.held.push(Held {
            serial: self.serial,
            slot,
            tree: at as u32,
            shard: shard as u8,
            is_tree: !row,
        });
        self.owner.set_locks(self.held.len());
    }

    /// Numbers are used up by locks that are given back, too: a scan may take and give back more than there are. Then the locks
    /// that are held are numbered anew, and stay.
    fn next_serial(&mut self) {
        if self.serial == u32::MAX {
            self.loose.clear();
            (1..).zip(&mut self.held).for_each(|(n, h)| h.serial = n);
            self.serial = u32::try_from(self.held.len()).expect("slots of locks have 32 bits");
        }
        self.serial += 1;
    }

    /// Slot `slot`, which this owner holds, was requested again: its lock is not loose any more.
    fn asked_again(&mut self, shard: usize, slot: u32) {
        self.loose.retain(|l| (l.shard as usize, l.slot) != (shard, slot));
    }

    /// Requests the lock once, under its shard's latch. A granted lock is accounted for.
    fn look(&self, hash: u64, tree: TreeId, key: Option<&[u8]>, mode: LockMode) -> Look {
        let mut shard = self.table.shards[LockTable::shard_of(hash)].lock();
        self.look_in(&mut shard, hash, tree, key, mode)
    }

    fn look_in(
        &self,
        shard: &mut Shard,
        hash: u64,
        tree: TreeId,
        key: Option<&[u8]>,
        mode: LockMode,
    ) -> Look {
        if let Some(no) = shard.find(hash, tree, key) {
            let outcome = shard.slot_mut(no).request(self.owner.id, mode);
            if outcome == Outcome::Granted {
                self.table.charge(HELD_BYTES, false);
            }
            return Look::Done(outcome, no);
        }
        let key_of_slot = SlotKey::of(key);
        let bytes = SLOT_BYTES + HELD_BYTES + key_of_slot.heap_bytes();
        if !self.table.charge(bytes, key.is_some()) {
            return Look::Full;
        }
        let holding = Holding::One(self.owner.id, mode);
        Look::Done(Outcome::Granted, shard.add(Slot { hash, tree, key: key_of_slot, holding }))
    }

    fn acquire(
        &mut self,
        tree: TreeId,
        key: Option<&[u8]>,
        mode: LockMode,
        wait: Wait,
        at: usize,
    ) -> Result<Granted> {
        let hash = LockTable::hash(tree, key);
        let look = self.look(hash, tree, key, mode);
        let shard = LockTable::shard_of(hash);
        match (look, wait) {
            (Look::Full, _) => Err(full(&self.table)),
            (Look::Done(Outcome::Held, no), _) => {
                self.asked_again(shard, no);
                Ok(Granted::AlreadyHeld)
            }
            (Look::Done(Outcome::Granted, no), _) => {
                self.remember(shard, no, at, key.is_some());
                Ok(Granted::New)
            }
            (Look::Done(Outcome::Upgraded, no), _) => {
                self.asked_again(shard, no);
                Ok(Granted::Upgraded)
            }
            (Look::Done(Outcome::Conflict { .. }, _), Wait::NoWait) => {
                Err(Error::new(ErrorKind::LockNoWait, "the lock is held by another transaction"))
            }
            (Look::Done(Outcome::Conflict { .. }, _), Wait::Block(timeout)) => {
                self.acquire_slowly(hash, tree, key, mode, timeout, at)
            }
        }
    }

    /// Queues, looks for deadlocks, sleeps.
    fn acquire_slowly(
        &mut self,
        hash: u64,
        tree: TreeId,
        key: Option<&[u8]>,
        mode: LockMode,
        timeout: Duration,
        at: usize,
    ) -> Result<Granted> {
        // Also when it is free by now: its holder has made changes.
        self.waits += 1;
        if self.owner.is_interrupted() {
            return Err(interrupted());
        }
        let table = Arc::clone(&self.table);
        let shard_no = LockTable::shard_of(hash);
        let graph = table.graph.lock();
        let mut shard = table.shards[shard_no].lock();
        let (want, upgrade, no) = match self.look_in(&mut shard, hash, tree, key, mode) {
            Look::Full => return Err(full(&table)),
            Look::Done(Outcome::Held, no) => {
                self.asked_again(shard_no, no);
                return Ok(Granted::AlreadyHeld);
            }
            Look::Done(Outcome::Granted, no) => {
                self.remember(shard_no, no, at, key.is_some());
                return Ok(Granted::New);
            }
            Look::Done(Outcome::Upgraded, no) => {
                self.asked_again(shard_no, no);
                return Ok(Granted::Upgraded);
            }
            Look::Done(Outcome::Conflict { want, upgrade }, no) => (want, upgrade, no),
        };
        *self.owner.park.lock() = Park::Waiting;
        shard.slot_mut(no).enqueue(Arc::clone(&self.owner), want, upgrade);
        drop(shard);
        self.wait_queued(graph, WaitAt::Slot(shard_no, no), want, timeout)?;
        if upgrade {
            self.asked_again(shard_no, no);
            return Ok(Granted::Upgraded);
        }
        table.charge(HELD_BYTES, false);
        self.remember(shard_no, no, at, key.is_some());
        Ok(Granted::New)
    }
}

pub(crate) fn full(table: &LockTable) -> Error {
    Error::new(
        ErrorKind::LockTableFull,
        format!(
            "row locks use all {} bytes set aside for them; commit more often or raise the limit",
            table.options.memory_limit
        ),
    )
}

impl Drop for Locker {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        self.release_all();
        self.table.forget_owner(self.owner.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockOptions;

    #[test]
    fn more_locks_may_be_given_back_than_there_are_numbers() {
        let table = LockTable::new(LockOptions::default());
        let mut locker = table.locker(TxnId(1));
        let tree = TreeId { table: frond_base::TableId(7), index: 0 };
        let lock = |locker: &mut Locker, key: &[u8]| {
            locker.lock(tree, key, RowMode::X, Wait::NoWait).unwrap();
            locker.loosen()
        };
        let kept = lock(&mut locker, b"kept");
        locker.serial = u32::MAX - 1;
        let last = lock(&mut locker, b"last");
        let next = lock(&mut locker, b"next");
        // Those from before stay until the end.
        assert!(!locker.give_back(last) && !locker.give_back(kept));
        assert!(locker.give_back(next) && !locker.give_back(next));
        let again = lock(&mut locker, b"next");
        assert!(locker.give_back(again));
        assert_eq!(locker.held(), 3, "the tree and two rows");
        drop(locker);
        assert_eq!((table.lock_count(), table.memory_bytes()), (0, 0));
    }
}
