//! Insert, update and delete of one row.

use std::ops::Bound;

use frond_base::{EntryKind, Error, ErrorKind, Result, SEQ_MAX};
use frond_row::{Entries, RowInput};
use frond_tree::Bounds;
use frond_txn::{Granted, RowMode};

use super::flags::WriteFlags;
use super::foreign::{Change, Which};
use super::{Rows, Written};
use crate::commit::transaction::{OnLocked, Transaction};

impl Rows {
    /// Inserts the row. The hidden row id, if the table has one, is in `row`.
    pub fn insert(
        &mut self,
        txn: &mut Transaction,
        row: &RowInput<'_>,
        flags: WriteFlags,
    ) -> Result<Written> {
        txn.writes_to(&self.table)?;
        self.keep_up()?;
        let mut new = std::mem::take(&mut txn.rows.new);
        let outcome = self.insert_entries(txn, row, &mut new, flags);
        txn.rows.new = new;
        outcome
    }

    fn insert_entries(
        &mut self,
        txn: &mut Transaction,
        row: &RowInput<'_>,
        new: &mut Entries,
        flags: WriteFlags,
    ) -> Result<Written> {
        self.codec.encode_row(row, new)?;
        if self.load_row(txn, new, flags)? {
            return Ok(Written::Done);
        }
        if !self.claim_primary(txn, new.key(0), flags)? {
            return Ok(Written::Duplicate(0));
        }
        for index in 1..new.len() {
            if let Some(prefix) = self.unique_part(new, index) {
                if !self.claim_unique(txn, index, prefix, flags)? {
                    return Ok(Written::Duplicate(index));
                }
            }
        }
        for index in 0..new.len() {
            self.lock_written(txn, index, new.key(index), flags)?;
        }
        if !flags.skip_foreign {
            self.refresh_foreigns(txn)?;
            self.check_parents(txn, (None, new), Which::Others)?;
        }
        self.meet_twin(txn, (None, Some(row)), new.key(0))?;
        self.undone_together(txn, flags, |rows, txn| {
            rows.put_twin(txn)?;
            for index in 0..new.len() {
                let tree = rows.tree_no(index);
                txn.put_unlocked(&rows.table, tree, new.key(index), new.value(index))?;
            }
            txn.writes.add_rows(rows.table.id(), 1);
            if !flags.skip_foreign {
                rows.check_parents(txn, (None, new), Which::Own)?;
            }
            Ok(())
        })?;
        Ok(Written::Done)
    }

    /// Writes a row and the changes that foreign keys demand; undoes all of it when a part fails
    /// (FK4).
    fn undone_together(
        &mut self,
        txn: &mut Transaction,
        flags: WriteFlags,
        write: impl FnOnce(&mut Rows, &mut Transaction) -> Result<()>,
    ) -> Result<()> {
        if flags.skip_foreign || !self.has_own_foreigns() {
            return write(self, txn);
        }
        let before = txn.savepoint();
        let outcome = write(self, txn);
        if outcome.is_err() {
            txn.rollback_to(before);
        }
        txn.release(before);
        outcome
    }

    /// Replaces the row `old` by `new`; only indexes whose entry differs are written.
    pub fn update(
        &mut self,
        txn: &mut Transaction,
        old: &RowInput<'_>,
        new: &RowInput<'_>,
        flags: WriteFlags,
    ) -> Result<Written> {
        txn.writes_to(&self.table)?;
        txn.settle(self.table.id())?;
        self.keep_up()?;
        let mut was = std::mem::take(&mut txn.rows.old);
        let mut is = std::mem::take(&mut txn.rows.new);
        let outcome = self.update_entries(txn, (old, new), (&mut was, &mut is), flags);
        (txn.rows.old, txn.rows.new) = (was, is);
        outcome
    }

    fn update_entries(
        &mut self,
        txn: &mut Transaction,
        (old, new): (&RowInput<'_>, &RowInput<'_>),
        (was, is): (&mut Entries, &mut Entries),
        flags: WriteFlags,
    ) -> Result<Written> {
        self.codec.encode_row(old, was)?;
        self.codec.encode_row(new, is)?;
        self.lock_primary(txn, was, flags)?;
        if was.key(0) != is.key(0) && !self.claim_primary(txn, is.key(0), flags)? {
            return Ok(Written::Duplicate(0));
        }
        for index in 1..is.len() {
            if was.key(index) == is.key(index) {
                continue;
            }
            let (before, after) = (self.unique_part(was, index), self.unique_part(is, index));
            if let Some(before) = before {
                self.lock_unique(txn, index, before, flags)?;
            }
            if let Some(after) = after.filter(|_| before != after) {
                if !self.claim_unique(txn, index, after, flags)? {
                    return Ok(Written::Duplicate(index));
                }
            }
        }
        if !flags.skip_foreign {
            self.refresh_foreigns(txn)?;
            self.check_parents(txn, (Some(was), is), Which::Others)?;
        }
        self.check_not_cascaded(txn, was)?;
        let changes = was.key(0) != is.key(0) || was.value(0) != is.value(0);
        let all = changes && is.len() > 1 && self.overtakes_snapshot(txn, was.key(0))?;
        let (was, is) = (&*was, &*is);
        debug_assert!(self.owns(txn, was, flags), "RW1: a row is changed without its lock");
        for index in 0..is.len() {
            if was.key(index) != is.key(index) {
                self.lock_written(txn, index, is.key(index), flags)?;
            }
        }
        self.meet_twin(txn, (Some(old), Some(new)), is.key(0))?;
        self.undone_together(txn, flags, |rows, txn| {
            rows.put_twin(txn)?;
            rows.put_changed(txn, was, is, all)?;
            if flags.skip_foreign {
                return Ok(());
            }
            rows.check_parents(txn, (Some(was), is), Which::Own)?;
            rows.change_children(txn, was, Change::Updated(old, new))
        })?;
        Ok(Written::Done)
    }

    /// Replaces the entries of `was` by those of `is`: those that differ, or all.
    fn put_changed(
        &self,
        txn: &mut Transaction,
        was: &Entries,
        is: &Entries,
        all: bool,
    ) -> Result<()> {
        for index in 0..is.len() {
            let tree = self.tree_no(index);
            let same_key = was.key(index) == is.key(index);
            if same_key && was.value(index) == is.value(index) && !all {
                continue;
            }
            if !same_key {
                txn.delete_unlocked(&self.table, tree, was.key(index));
            }
            txn.put_unlocked(&self.table, tree, is.key(index), is.value(index))?;
        }
        Ok(())
    }

    /// Whether the version that is about to be replaced is newer than the transaction's snapshot (RW4). The
    /// row is locked.
    fn overtakes_snapshot(&self, txn: &mut Transaction, key: &[u8]) -> Result<bool> {
        // A cascade changes the newest version, whatever the isolation.
        let may = txn.may_overtake_snapshot() || !self.chain.is_empty();
        if !may || !txn.has_snapshot() {
            return Ok(false);
        }
        let at = txn.snapshot();
        Ok(self.table.tree(0).newest_seq(key)?.is_some_and(|seq| seq > at))
    }

    /// Deletes the row.
    pub fn delete(
        &mut self,
        txn: &mut Transaction,
        old: &RowInput<'_>,
        flags: WriteFlags,
    ) -> Result<()> {
        txn.writes_to(&self.table)?;
        txn.settle(self.table.id())?;
        self.keep_up()?;
        let mut was = std::mem::take(&mut txn.rows.old);
        let outcome = self.delete_entries(txn, old, &mut was, flags);
        txn.rows.old = was;
        outcome
    }

    fn delete_entries(
        &mut self,
        txn: &mut Transaction,
        old: &RowInput<'_>,
        was: &mut Entries,
        flags: WriteFlags,
    ) -> Result<()> {
        self.codec.encode_row(old, was)?;
        self.lock_primary(txn, was, flags)?;
        for index in 1..was.len() {
            if let Some(prefix) = self.unique_part(was, index) {
                self.lock_unique(txn, index, prefix, flags)?;
            }
        }
        if !flags.skip_foreign {
            self.refresh_foreigns(txn)?;
        }
        self.check_not_cascaded(txn, was)?;
        let was = &*was;
        debug_assert!(self.owns(txn, was, flags), "RW1: a row is deleted without its lock");
        self.meet_twin(txn, (Some(old), None), was.key(0))?;
        self.undone_together(txn, flags, |rows, txn| {
            rows.put_twin(txn)?;
            for index in 0..was.len() {
                let tree = rows.tree_no(index);
                txn.delete_unlocked(&rows.table, tree, was.key(index));
            }
            txn.writes.add_rows(rows.table.id(), -1);
            match flags.skip_foreign {
                true => Ok(()),
                false => rows.change_children(txn, was, Change::Deleted),
            }
        })
    }

    /// Whether the transaction holds the exclusive lock on the row of these entries, if it needs one.
    fn owns(&self, txn: &Transaction, row: &Entries, flags: WriteFlags) -> bool {
        flags.no_locks || txn.owns_row(&self.table, row.key(0))
    }

    /// Makes sure that no reader has locked a range with the new entry. Whoever has read an existing entry has locked its
    /// row, so changing and removing entries needs the row's lock alone (RX4).
    #[inline]
    fn lock_written(
        &self,
        txn: &mut Transaction,
        index: usize,
        key: &[u8],
        flags: WriteFlags,
    ) -> Result<()> {
        match flags.no_locks {
            true => Ok(()),
            false => txn.lock_written(&self.table, self.tree_no(index), key),
        }
    }

    /// The part of a secondary key that must be unique; `None` when it need not be (NULLs never conflict).
    fn unique_part<'e>(&self, entries: &'e Entries, index: usize) -> Option<&'e [u8]> {
        // An index that is being built is checked when it is complete.
        if index < self.visible && self.codec.schema().indexes[index].unique {
            entries.unique_prefix(index)
        } else {
            None
        }
    }

    /// Locks the key of a row that was read; usually it is locked already. If not, and another
    /// transaction has changed the row before the lock was granted, the entries of `was` are out of
    /// date and cannot be replaced.
    fn lock_primary(&self, txn: &mut Transaction, was: &Entries, flags: WriteFlags) -> Result<()> {
        if flags.no_locks {
            return Ok(());
        }
        let (key, waits) = (was.key(0), txn.lock_waits());
        let granted = txn.lock(&self.table, 0, key, RowMode::X, OnLocked::Wait)?;
        if granted == Granted::AlreadyHeld {
            return Ok(());
        }
        txn.check_conflict(&self.table, 0, key)?;
        if waits != txn.lock_waits() {
            let mut now = Vec::new();
            let there = txn.read(&self.table, 0, key, SEQ_MAX, &mut now)?;
            if !there || !self.codec.same_renewed(0, was.value(0), &now) {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!(
                        "a row of table '{}' was changed by another transaction after it had been \
                         read without a lock; roll back and run it again",
                        self.table.def().name
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Locks the row with the primary key of `row` exclusively, whether it is there or not, and does not look at it. True
    /// when the transaction waited for it: what the caller believes of the row may be out of date.
    pub fn lock_row(&mut self, txn: &mut Transaction, row: &RowInput<'_>) -> Result<bool> {
        txn.writes_to(&self.table)?;
        txn.settle(self.table.id())?;
        self.keep_up()?;
        let mut key = std::mem::take(&mut txn.rows.key);
        key.clear();
        let locked = self.codec.encode_key(0, row, &mut key).and_then(|()| {
            let waits = txn.lock_waits();
            txn.lock(&self.table, 0, &key, RowMode::X, OnLocked::Wait)?;
            txn.check_conflict(&self.table, 0, &key)?;
            Ok(waits != txn.lock_waits())
        });
        txn.rows.key = key;
        locked
    }

    /// Locks `key` for a new row; false when a row has it.
    fn claim_primary(
        &mut self,
        txn: &mut Transaction,
        key: &[u8],
        flags: WriteFlags,
    ) -> Result<bool> {
        if self.codec.schema().hidden_primary {
            // A fresh row id: nobody else can have it.
            return Ok(true);
        }
        let mut fresh = false;
        if !flags.no_locks {
            let granted = txn.lock(&self.table, 0, key, RowMode::X, OnLocked::Wait)?;
            fresh = granted == Granted::New;
        }
        let tree = self.table.tree(0);
        // Beyond the largest key ever written, and not one of our own (its lock is new): no read needed.
        if fresh && tree.is_beyond(key) {
            return Ok(true);
        }
        if let Some(kind) = txn.own(tree.id(), key, None)? {
            return Ok(kind == EntryKind::Delete);
        }
        let Some((_, kind)) = tree.newest(key)? else { return Ok(true) };
        if !flags.no_locks {
            // The row was inserted or deleted after the snapshot (X3). So this transaction could
            // not see the duplicate, or its new row would hide a row that its snapshot sees.
            txn.check_conflict(&self.table, 0, key)?;
        }
        Ok(kind == EntryKind::Delete)
    }

    /// Locks a value of `index` exclusively, whether a row has it or not. For a caller that checks
    /// uniqueness itself, by reading an index that is not unique for the engine: under the lock no
    /// other transaction adds the value before this one ends. A value with a NULL in it equals no
    /// other: nothing is locked.
    pub fn lock_value(
        &self,
        txn: &mut Transaction,
        index: usize,
        (tuple, parts): (&[u8], usize),
    ) -> Result<()> {
        let mut key = Vec::new();
        if !self.codec.tuple_key(index, tuple, parts, &mut key)?.has_null {
            txn.lock(&self.table, self.tree_no(index), &key, RowMode::X, OnLocked::Wait)?;
        }
        Ok(())
    }

    fn lock_unique(
        &self,
        txn: &mut Transaction,
        index: usize,
        prefix: &[u8],
        flags: WriteFlags,
    ) -> Result<()> {
        if !flags.no_locks {
            let tree = self.tree_no(index);
            txn.lock(&self.table, tree, prefix, RowMode::X, OnLocked::Wait)?;
        }
        Ok(())
    }

    /// Locks the unique part of a secondary key; false when a row has it (RW2).
    fn claim_unique(
        &mut self,
        txn: &mut Transaction,
        index: usize,
        prefix: &[u8],
        flags: WriteFlags,
    ) -> Result<bool> {
        self.lock_unique(txn, index, prefix, flags)?;
        if flags.skip_unique {
            return Ok(true);
        }
        let tree = self.table.tree(self.tree_no(index));
        let private = txn.private_view(tree.id());
        // No committed key is that large; own writes still count.
        if !tree.is_beyond(prefix) || private.is_some() {
            // Entries with this prefix, committed or in private runs, that we did not delete ourselves.
            let mut cursor = tree.cursor(SEQ_MAX, Bounds::prefix(prefix));
            cursor.set_private(private);
            let mut valid = cursor.first()?;
            while valid {
                let own = txn.writes.buffer(tree.id());
                match own.and_then(|own| own.find(cursor.key(), SEQ_MAX)) {
                    Some(e) if e.kind == EntryKind::Delete => valid = cursor.next()?,
                    _ => return Ok(false),
                }
            }
        }
        // Own entries in memory.
        let Some(own) = txn.writes.buffer(tree.id()) else { return Ok(true) };
        let mut position = frond_buffer::Cursor::new();
        let mut entry = position.seek(own, Bound::Included(prefix));
        while let Some(e) = entry.filter(|e| e.key.starts_with(prefix)) {
            if e.kind == EntryKind::Put {
                return Ok(false);
            }
            let key = e.key.to_vec();
            entry = position.seek(own, Bound::Excluded(&key));
        }
        Ok(true)
    }
}
