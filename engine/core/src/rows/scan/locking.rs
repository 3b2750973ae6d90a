//! The rows of a locking scan.
//!
//! Candidates are found without locks. The candidate's primary key is locked, then row and index entry are
//! read again at their newest: what another transaction changed in between counts.

use frond_base::{ErrorKind, Result, SEQ_MAX};
use frond_tree::Seek;
use frond_txn::{Granted, RowMode};

use super::{Scan, Way};
use crate::commit::transaction::{Isolation, OnLocked, Transaction};

/// How rows are locked as they are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanLock {
    pub mode: RowMode,
    pub wait: OnLocked,
    /// Pass over rows that others hold.
    pub skip_locked: bool,
}

impl Scan {
    /// Locks `row_key`; false when it is held by another and the scan passes over such rows.
    pub(super) fn lock_row(&mut self, txn: &mut Transaction, lock: ScanLock) -> Result<bool> {
        let wait = if lock.skip_locked { OnLocked::Fail } else { lock.wait };
        match txn.lock(&self.table, 0, &self.row_key, lock.mode, wait) {
            Ok(Granted::New) => self.locked = Some(txn.loosen_lock()),
            Ok(_) => {}
            Err(e) if lock.skip_locked && e.kind() == ErrorKind::LockNoWait => return Ok(false),
            Err(e) => return Err(e),
        }
        txn.check_conflict(&self.table, 0, &self.row_key)?;
        Ok(true)
    }

    /// What the cursor read ahead is out of date: a row may have moved to a place further on, so read on
    /// from the newest state.
    pub(super) fn look_again(&mut self, txn: &Transaction, way: Way) -> Result<bool> {
        let key = self.cursor.key().to_vec();
        self.cursor.set_at(SEQ_MAX);
        self.cursor.seek(txn, &key, if way == Way::Forward { Seek::Gt } else { Seek::Lt })
    }

    /// After the lock: the row at its newest is in `row_value`, unless it (or the index entry that led
    /// here) is gone by now.
    pub(super) fn still_there(&mut self, txn: &mut Transaction) -> Result<bool> {
        if self.index != 0
            && !txn.read(&self.table, self.tree, self.cursor.key(), SEQ_MAX, &mut self.row_value)?
        {
            return Ok(false);
        }
        txn.read(&self.table, 0, &self.row_key, SEQ_MAX, &mut self.row_value)
    }

    pub(super) fn unlock(&mut self, txn: &mut Transaction) {
        if let Some(lock) = self.locked.take() {
            txn.give_lock_back(lock);
        }
    }

    /// The scan goes on to another row: the lock of this one stays.
    pub(super) fn keep_lock(&mut self, txn: &mut Transaction) {
        if let Some(lock) = self.locked.take() {
            txn.fasten_lock(lock);
        }
    }

    /// The row under the scan does not match the statement's condition: with READ COMMITTED, a lock that
    /// was taken for it alone is given back. Locks that were taken since stay: the server may give back a
    /// row of one table when it has long gone on to rows of others (`eq_ref` joins do).
    pub fn unlock_current(&mut self, txn: &mut Transaction) {
        if txn.options().isolation == Isolation::ReadCommitted {
            self.unlock(txn);
        }
    }
}
