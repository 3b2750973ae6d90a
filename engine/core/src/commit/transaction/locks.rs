//! A transaction's row and table locks; conflicts with commits since its snapshot, which locks do not show (X3).

use frond_base::{EntryKind, Error, ErrorKind, IndexNo, Result, Seq, TreeId, SEQ_MAX};
use frond_txn::{Granted, LooseLock, RowMode, TreeMode, Wait};

use super::{Isolation, OnLocked, Transaction};
use crate::canary;
use crate::table::Table;

impl Transaction {
    /// Whether locking reads lock ranges.
    pub(crate) fn locks_ranges(&self) -> bool {
        self.locks_ranges || self.options.isolation == Isolation::Serializable
    }

    /// Whether locks on rows that do not match are given back.
    pub(crate) fn gives_back(&self) -> bool {
        self.options.isolation == Isolation::ReadCommitted && !self.locks_ranges
    }

    pub(crate) fn wait(&self, on_locked: OnLocked) -> Wait {
        match on_locked {
            OnLocked::Wait if self.options.lock_timeout.is_zero() => Wait::NoWait,
            OnLocked::Wait => Wait::Block(self.options.lock_timeout),
            OnLocked::Fail => Wait::NoWait,
        }
    }

    /// Locks `key` of index `index`, escalating to the whole tree when this transaction holds very many
    /// locks on it.
    pub fn lock(
        &mut self,
        table: &Table,
        index: IndexNo,
        key: &[u8],
        mode: RowMode,
        on_locked: OnLocked,
    ) -> Result<Granted> {
        self.settle(table.id())?;
        let tree = table.tree_id(index);
        let wait = self.wait(on_locked);
        self.locker.set_weight(self.changes());
        if self.locker.should_escalate(tree) {
            self.locker.escalate(tree, mode);
        }
        match self.locker.lock(tree, key, mode, wait) {
            Err(e) if e.kind() == ErrorKind::LockTableFull => {
                // Trade the row locks for one lock on the tree, if nobody else is in the way.
                if !self.locker.escalate(tree, mode) {
                    return Err(e);
                }
                self.locker.lock(tree, key, mode, wait)
            }
            other => other,
        }
    }

    /// Locks a whole tree in place of its rows, if nobody else has locked any: without waiting.
    pub(crate) fn lock_whole(&mut self, tree: TreeId, mode: RowMode) -> bool {
        match self.locker.rows_locked(tree) {
            0 => self.locker.lock_tree(tree, mode.into(), Wait::NoWait).is_ok(),
            _ => self.locker.escalate(tree, mode),
        }
    }

    /// Number of waits for locks so far. When it has changed, what was read before is out of date.
    #[inline]
    pub(crate) fn lock_waits(&self) -> u64 {
        self.locker.waits()
    }

    /// Locks a whole table (its primary tree), as LOCK TABLES inside a transaction does.
    pub fn lock_table(&mut self, table: &Table, mode: TreeMode) -> Result<Granted> {
        let wait = self.wait(OnLocked::Wait);
        self.locker.set_weight(self.changes());
        self.locker.lock_tree(table.tree_id(0), mode, wait)
    }

    /// Whether it holds the exclusive lock on the row `key` of the table's first index.
    pub(crate) fn owns_row(&self, table: &Table, key: &[u8]) -> bool {
        self.locker.covers(table.tree_id(0), key, RowMode::X)
    }

    /// Marks the row lock that was just granted as one that can be given back, until the
    /// transaction asks for it again.
    pub fn loosen_lock(&mut self) -> LooseLock {
        self.locker.loosen()
    }

    /// Keeps a loose lock until the transaction ends.
    pub fn fasten_lock(&mut self, lock: LooseLock) {
        self.locker.fasten(lock);
    }

    /// Gives a lock back whose row did not match. False when it stays, because the transaction has asked for the
    /// same row again since, for example to write it.
    pub fn give_lock_back(&mut self, lock: LooseLock) -> bool {
        self.locker.give_back(lock)
    }

    /// X3: fails when the newest committed version of `key` is younger than the snapshot. The caller holds
    /// the lock.
    pub fn check_conflict(&self, table: &Table, index: IndexNo, key: &[u8]) -> Result<()> {
        if self.may_overtake_snapshot() {
            return Ok(());
        }
        self.check_unchanged(table, index, key)
    }

    /// As [`Transaction::check_conflict`], whether or not this transaction may change newer versions.
    pub(crate) fn check_unchanged(&self, table: &Table, index: IndexNo, key: &[u8]) -> Result<()> {
        match self.snapshot {
            Some(_) => self.check_seq(table, table.tree(index).newest_seq(key)?),
            None => Ok(()),
        }
    }

    /// X3, for the newest committed version's sequence.
    fn check_seq(&self, table: &Table, newest: Option<Seq>) -> Result<()> {
        let Some(snapshot) = &self.snapshot else { return Ok(()) };
        match newest {
            Some(seq) if seq > snapshot.at() && !canary::active(canary::SKIP_CONFLICTS) => Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "a row of table '{}' was changed by another transaction after this one took its \
                     snapshot; roll back and run it again",
                    table.def().name
                ),
            )),
            _ => Ok(()),
        }
    }

    /// The newest version of `key`, whose lock this transaction holds, own writes first; `value` is replaced.
    /// Fails as [`Transaction::check_conflict`] does, with one look-up for both.
    pub(crate) fn read_locked(
        &mut self,
        table: &Table,
        index: IndexNo,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        if self.snapshot.is_none() || self.may_overtake_snapshot() {
            return self.read(table, index, key, SEQ_MAX, value);
        }
        self.open(table)?;
        self.settle(table.id())?;
        let tree = table.tree(index);
        value.clear();
        if let Some(kind) = self.own(tree.id(), key, Some(value))? {
            // A cascade writes without checking this itself.
            self.check_conflict(table, index, key)?;
            return Ok(kind == EntryKind::Put);
        }
        let found = tree.newest_value(key, value)?;
        self.check_seq(table, found.map(|(seq, _)| seq))?;
        Ok(found.is_some_and(|(_, kind)| kind == EntryKind::Put))
    }
}
