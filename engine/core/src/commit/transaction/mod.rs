//! A transaction: a snapshot to read from, locks, and a private write set until commit.
//!
//! Invariants:
//!
//! - X1. Nothing of a transaction reaches a tree or the log before commit (no steal). Rolling back is
//!   dropping the write set and private runs, at any size. (Held by `tests/it` and by the histories of `tests/sql`.)
//! - X2. A key is written only while its lock is held exclusively; locks are released after the commit is
//!   published. So for one key, versions reach the tree in commit order.
//! - X3. With [`Isolation::Snapshot`] and no `latest_writes`, a row that changed after the snapshot was
//!   taken is never locked for writing: the caller gets [`ErrorKind::Conflict`] (first committer wins). (Held by the
//!   seeded defect `SKIP_CONFLICTS`, which the simulator finds.)
//! - X4. The write set is charged to the memory budget and takes a share of it: what exceeds the share is written to
//!   the table files as private runs (`spill.rs`).
//! - X5. A snapshot older than a table's `oldest_snapshot` does not read it: the rows that it should see were in an
//!   older table of the same name. (Held by `tests/it/isolation.rs`.)
//!
//! Reads that lock take no snapshot: they see the newest committed version. So a transaction that starts with
//! an UPDATE never conflicts with an earlier commit, nor does a single statement.

use std::sync::Arc;
use std::time::Duration;

use frond_base::{EntryKind, Error, ErrorKind, IdMap, IndexNo, Lsn, Result, Seq, TableId, SEQ_MAX};
use frond_cache::{Charge, Part};
use frond_txn::{Locker, OwnerHandle, RowMode, Snapshot, TxnId, WriteSet};

use crate::commit::core::Core;
use crate::commit::loads::Loads;
use crate::commit::prepared_set::Parts;
use crate::commit::private_runs::Spilled;
use crate::commit::write_sets::RowEntries;
use crate::options::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::table::numbers::Numbering;
use crate::table::Table;

mod locks;
mod numbers;

/// What a transaction's reads see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// Each statement sees what was committed when it began.
    ReadCommitted,
    /// The transaction sees what was committed at its first read.
    Snapshot,
    /// As [`Isolation::Snapshot`]; scans that lock also lock what they did not find. Serializable when all reads lock.
    Serializable,
}

/// How a transaction behaves.
#[derive(Clone, Copy, Debug)]
pub struct TxnOptions {
    pub isolation: Isolation,
    /// How long a lock is waited for; zero does not wait.
    pub lock_timeout: Duration,
    /// Writes may overwrite rows changed after the snapshot, as InnoDB's REPEATABLE READ does.
    pub latest_writes: bool,
}

impl Default for TxnOptions {
    fn default() -> Self {
        TxnOptions {
            isolation: Isolation::Snapshot,
            lock_timeout: Duration::from_secs(50),
            latest_writes: false,
        }
    }
}

/// What to do when another transaction holds a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnLocked {
    /// Wait up to the transaction's timeout.
    Wait,
    /// Fail with [`ErrorKind::LockNoWait`].
    Fail,
}

/// A write set is charged to the budget in steps of this many bytes.
const CHARGE_STEP: usize = 256 << 10;

/// A running transaction. Dropping it rolls back.
pub struct Transaction {
    pub(crate) core: Arc<Core>,
    options: TxnOptions,
    locker: Locker,
    snapshot: Option<Snapshot>,
    /// The statement locks the ranges that it reads with locks, at every isolation level.
    locks_ranges: bool,
    /// A cascade has changed rows: their newest versions, whatever the isolation.
    pub(crate) cascaded: bool,
    /// The tables whose AUTO_INCREMENT values the statement has to itself.
    numbering: Vec<Numbering>,
    pub(crate) writes: WriteSet,
    /// For those who write a row; from [`Transaction::writes_to`] on.
    pub(crate) rows: RowEntries,
    /// What no longer fits into memory, older than `writes`.
    pub(crate) spilled: Spilled,
    /// Rows for empty tables, in no order yet; newer than `spilled`.
    pub(crate) loads: Loads,
    /// What the write set takes of the budget (X4).
    charged: Option<Charge>,
    charge_step: usize,
    /// Tables written to, for counters and commit.
    pub(crate) tables: IdMap<TableId, Arc<Table>>,
    /// Position in `tables` of the table written to last.
    last_table: usize,
}

impl Transaction {
    pub(crate) fn new(core: Arc<Core>, id: TxnId, options: TxnOptions) -> Transaction {
        let locker = core.locks.locker(id);
        let charge_step = CHARGE_STEP.min(core.transaction_memory() / 4);
        Transaction {
            core,
            options,
            locker,
            snapshot: None,
            locks_ranges: false,
            cascaded: false,
            numbering: Vec::new(),
            writes: WriteSet::new(),
            rows: RowEntries::default(),
            spilled: Spilled::default(),
            loads: Loads::default(),
            charged: None,
            charge_step,
            tables: IdMap::default(),
            last_table: 0,
        }
    }

    /// Ends a transaction that has neither written nor locked anything, as a commit does, and keeps it for [`Transaction::wake`]:
    /// a connection that reads saves making and dropping one for each statement. False if it has: then only what its
    /// statement had to itself (AUTO_INCREMENT values) ended, and it goes on. At rest it may only be woken or dropped;
    /// other threads' interrupts have no effect.
    pub fn rest(&mut self) -> bool {
        self.end_numbering();
        if !self.tables.is_empty() || self.cascaded || !self.locker.rest() {
            return false;
        }
        debug_assert!(self.changes() == 0 && self.charged.is_none(), "written without a table");
        self.snapshot = None;
        self.locks_ranges = false;
        self.writes.release_all();
        true
    }

    /// Begins another transaction, of the same number, in place of one at rest.
    pub fn wake(&mut self, options: TxnOptions) {
        self.options = options;
        self.locker.wake();
    }

    pub fn id(&self) -> u64 {
        self.locker.id().0
    }

    pub fn options(&self) -> &TxnOptions {
        &self.options
    }

    pub fn set_lock_timeout(&mut self, timeout: Duration) {
        self.options.lock_timeout = timeout;
    }

    /// Interrupts this transaction's waits from another thread.
    pub fn handle(&self) -> OwnerHandle {
        self.locker.handle()
    }

    /// Number of changes made and not rolled back.
    pub fn changes(&self) -> u64 {
        self.writes.entries() as u64 + self.spilled.entries() + self.loads.entries()
    }

    /// For locks of ranges (`ranges.rs`).
    pub(crate) fn locker(&mut self) -> &mut Locker {
        self.locker.set_weight(self.changes());
        &mut self.locker
    }

    /// The write set and the locks, for the range locks of a commit.
    pub(crate) fn written(&mut self) -> (&mut Locker, &WriteSet, &Spilled) {
        self.locker.set_weight(self.changes());
        (&mut self.locker, &self.writes, &self.spilled)
    }

    // ---- snapshots ----

    /// Takes the snapshot now if there is none; returns its sequence.
    pub fn snapshot(&mut self) -> Seq {
        match &self.snapshot {
            Some(s) => s.at(),
            None => self.snapshot.insert(self.core.new_snapshot()).at(),
        }
    }

    pub fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Until the statement ends, its locking scans lock ranges and keep their locks, as with
    /// [`Isolation::Serializable`]: for a statement that a replica runs again and that must find the same rows there.
    pub fn lock_ranges(&mut self) {
        self.locks_ranges = true;
    }

    /// A statement ended: with READ COMMITTED the next read takes a new snapshot.
    pub fn end_statement(&mut self) {
        self.locks_ranges = false;
        self.end_numbering();
        if self.options.isolation == Isolation::ReadCommitted {
            self.snapshot = None;
        }
    }

    /// The sequence at which a read of `table` happens: the snapshot's, or everything committed for a locking read.
    /// Fails when the table does not hold all that was there at the snapshot (X5).
    pub(crate) fn read_at(&mut self, table: &Table, locking: bool) -> Result<Seq> {
        refuse_discarded(table)?;
        self.settle(table.id())?;
        if locking {
            return Ok(SEQ_MAX);
        }
        let at = self.snapshot();
        if at < table.oldest_snapshot() {
            return Err(Error::new(
                ErrorKind::TableChanged,
                format!(
                    "table '{}' was made anew after this transaction took its snapshot; end the \
                     transaction and run it again",
                    table.def().name
                ),
            ));
        }
        Ok(at)
    }

    /// Whether this transaction may change rows whose newest versions its snapshot does not see: then X3 does not
    /// hold.
    pub(crate) fn may_overtake_snapshot(&self) -> bool {
        self.options.latest_writes || self.options.isolation == Isolation::ReadCommitted
    }

    // ---- reads ----

    /// The value of `key` at `at`, own writes first. `value` is replaced.
    pub(crate) fn read(
        &mut self,
        table: &Table,
        index: IndexNo,
        key: &[u8],
        at: Seq,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.open(table)?;
        self.settle(table.id())?;
        let tree = table.tree(index);
        value.clear();
        if let Some(kind) = self.own(tree.id(), key, Some(value))? {
            return Ok(kind == EntryKind::Put);
        }
        Ok(tree.get(key, at, value)?.is_some())
    }

    /// The value of `key` as this transaction's snapshot (and own writes) have it.
    pub fn get(
        &mut self,
        table: &Table,
        index: IndexNo,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let at = self.read_at(table, false)?;
        self.read(table, index, key, at, value)
    }

    /// Locks `key` and reads its newest version.
    pub fn get_locked(
        &mut self,
        table: &Table,
        index: IndexNo,
        key: &[u8],
        mode: RowMode,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.lock(table, index, key, mode, OnLocked::Wait)?;
        self.read_locked(table, index, key, value)
    }

    /// Whether this transaction has no entries of its own in a tree, so that only committed ones are there.
    #[inline]
    pub(crate) fn owns_nothing(&self, table: &Table, index: IndexNo) -> bool {
        if self.tables.is_empty() {
            return true;
        }
        let tree = table.tree_id(index);
        let in_memory = self.writes.buffer(tree).is_some() || !self.is_settled(tree);
        !in_memory && self.spilled.of(tree).is_none()
    }

    fn open(&self, table: &Table) -> Result<()> {
        if table.is_dropped() {
            return Err(Error::new(
                ErrorKind::Closed,
                format!("table '{}' was dropped", table.def().name),
            ));
        }
        refuse_discarded(table)
    }

    // ---- writes ----

    /// Notes that this transaction writes to `table`; returns an error when it may not.
    pub(crate) fn writes_to(&mut self, table: &Arc<Table>) -> Result<()> {
        if self.memory() > self.charged() + self.charge_step {
            self.charge()?;
        }
        if self.tables.values().get(self.last_table).is_some_and(|t| Arc::ptr_eq(t, table)) {
            return Ok(());
        }
        self.open(table)?;
        self.core.may_write()?;
        if self.tables.is_empty() {
            self.core.write_sets.lend(&mut self.writes, &mut self.rows);
        }
        self.last_table = match self.tables.position(table.id()) {
            Some(at) => at,
            None => self.tables.push(table.id(), table.clone()),
        };
        Ok(())
    }

    /// After [`Transaction::writes_to`] for another table: `table` gets entries of the same row. It may be dropped
    /// meanwhile, and then takes none.
    pub(crate) fn writes_besides_to(&mut self, table: &Arc<Table>) {
        if self.tables.position(table.id()).is_none() {
            self.tables.push(table.id(), table.clone());
        }
    }

    /// Position in `tables` of the table that [`Transaction::writes_to`] was called for last.
    pub(crate) fn last_table(&self) -> usize {
        self.last_table
    }

    fn charged(&self) -> usize {
        self.charged.as_ref().map_or(0, Charge::bytes)
    }

    /// Charges the write set as it is now, and writes it out when it takes more than its share (X4).
    fn charge(&mut self) -> Result<()> {
        let share = self.core.transaction_memory();
        if self.loads.bytes() > 0 {
            let written = self.write_loads(share);
            self.recharge();
            written?;
        }
        if self.writes.bytes() > share {
            let spilled = self.spill(share);
            self.recharge();
            spilled?;
        }
        // Small transactions never come here, so they do not touch the counters that all threads share.
        let bytes = self.memory();
        let budget = &self.core.shared.budget;
        self.charged.get_or_insert_with(|| budget.charge(Part::WriteBuffers, 0)).resize(bytes);
        assert!(self.charged() >= bytes, "a write set of {bytes} bytes is not charged (X4)");
        self.core.fit_cache();
        Ok(())
    }

    /// The write set, or what is loaded, became smaller.
    pub(crate) fn recharge(&mut self) {
        let bytes = self.memory();
        if let Some(charged) = &mut self.charged {
            charged.resize(charged.bytes().min(bytes));
        }
    }

    /// Records a put. The caller holds the key's lock (X2), or, for a secondary entry, the lock of the row's primary
    /// key.
    pub(crate) fn put_unlocked(
        &mut self,
        table: &Arc<Table>,
        index: IndexNo,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        check_sizes(key, value)?;
        self.writes.put(table.tree_id(index), key, value);
        Ok(())
    }

    pub(crate) fn delete_unlocked(&mut self, table: &Arc<Table>, index: IndexNo, key: &[u8]) {
        self.writes.delete(table.tree_id(index), key);
    }

    /// Sets `key` to `value` in a table of plain keys and values. With `must_be_new`, a present key is
    /// [`ErrorKind::DuplicateKey`].
    pub fn put(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        value: &[u8],
        must_be_new: bool,
    ) -> Result<()> {
        check_sizes(key, value)?;
        self.writes_to(table)?;
        self.lock(table, 0, key, RowMode::X, OnLocked::Wait)?;
        self.check_conflict(table, 0, key)?;
        let mut old = Vec::new();
        let present = self.read(table, 0, key, SEQ_MAX, &mut old)?;
        if present && must_be_new {
            return Err(Error::new(
                ErrorKind::DuplicateKey,
                format!("table '{}' has an entry of that key", table.def().name),
            ));
        }
        if !present {
            self.lock_written(table, 0, key)?;
        }
        self.put_unlocked(table, 0, key, value)?;
        if !present {
            self.writes.add_rows(table.id(), 1);
        }
        Ok(())
    }

    /// Removes `key` from a table of plain keys and values; says whether it was there.
    pub fn delete(&mut self, table: &Arc<Table>, key: &[u8]) -> Result<bool> {
        check_sizes(key, &[])?;
        self.writes_to(table)?;
        self.lock(table, 0, key, RowMode::X, OnLocked::Wait)?;
        self.check_conflict(table, 0, key)?;
        let mut old = Vec::new();
        let present = self.read(table, 0, key, SEQ_MAX, &mut old)?;
        if present {
            self.delete_unlocked(table, 0, key);
            self.writes.add_rows(table.id(), -1);
        }
        Ok(present)
    }

    // ---- end ----

    /// A position to return to; valid until it is released, or a rollback goes past it. Release those that are not
    /// needed any more: a large transaction keeps the changes between two savepoints apart.
    pub fn savepoint(&mut self) -> u64 {
        let op = self.writes.savepoint();
        self.loads.mark(op, self.writes.live_savepoints());
        op
    }

    /// Whether `savepoint` is valid. 0, the beginning of the transaction, always is.
    pub fn is_savepoint(&self, savepoint: u64) -> bool {
        savepoint == 0 || self.writes.live_savepoints().contains(&savepoint)
    }

    /// `savepoint` will not be returned to any more.
    pub fn release(&mut self, savepoint: u64) {
        self.writes.release(savepoint);
    }

    /// Undoes every write made after `savepoint`, which stays valid. Locks stay, as in InnoDB.
    pub fn rollback_to(&mut self, savepoint: u64) {
        self.give_back_later();
        self.spilled.rollback_to(savepoint);
        self.loads.rollback_to(savepoint, self.writes.now());
        self.writes.rollback_to(savepoint);
        self.recharge();
    }

    /// Commits: acknowledged according to the durability mode. Returns the LSN at which the commit record
    /// ends, or `None` when nothing was written.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`], [`ErrorKind::TooBig`], [`ErrorKind::Interrupted`] (while it waited for
    /// memory) and errors of locks (a reader has locked a range that it wrote to): nothing is logged, and the
    /// transaction is rolled back. [`ErrorKind::Io`] and [`ErrorKind::Poisoned`]: only the next recovery shows
    /// whether it survived.
    pub fn commit(mut self) -> Result<Option<Lsn>> {
        self.snapshot = None;
        self.settle_all()?;
        let (core, owner) = (self.core.clone(), self.handle());
        let end = loop {
            let covered = self.lock_all_written()?;
            let tables = self.tables.values();
            let done = if self.spilled.is_empty() {
                core.commit(&mut self.writes, tables, covered, &owner)
            } else {
                self.spill_rest()?;
                let tables = self.tables.values();
                core.commit_spilled(&self.writes, &mut self.spilled, tables, covered, &owner)
            };
            match done {
                // Readers of ranges have come since (RX2): lock, and try again.
                Err(e) if !covered && e.kind() == ErrorKind::LockNoWait => {}
                done => break done?,
            }
        };
        let published = self.core.clock.published();
        assert!(end.is_none_or(|end| published >= end), "locks go before publication (X2)");
        self.locker.release_all();
        // Free the memory before waiting for the log.
        core.write_sets.leave(std::mem::take(&mut self.writes), std::mem::take(&mut self.rows));
        self.charged = None;
        if let Some(end) = end {
            self.core.acknowledge(end)?;
        }
        Ok(end)
    }

    /// Takes the transaction apart. It reads and changes nothing any more.
    pub(crate) fn into_parts(mut self) -> Parts {
        // `self` is dropped afterwards, so each part is replaced, not moved out.
        Parts {
            locker: self.locker.take(),
            writes: std::mem::take(&mut self.writes),
            rows: self.rows.take_small(),
            spilled: std::mem::take(&mut self.spilled),
            tables: std::mem::take(&mut self.tables),
            charged: self.charged.take(),
        }
    }

    /// Rolls back: cannot fail.
    pub fn rollback(self) {
        drop(self);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.give_back_later();
        let (writes, rows) = (std::mem::take(&mut self.writes), std::mem::take(&mut self.rows));
        self.core.write_sets.leave(writes, rows);
        // Values that were handed out stay used (TB2). If this record is lost, they are available again after a crash.
        self.core.log_unlogged_counters(self.tables.values());
    }
}

/// Refuses keys and values beyond the documented limits.
pub(crate) fn check_sizes(key: &[u8], value: &[u8]) -> Result<()> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::TooBig,
            format!("a key of {} bytes: keys have 1 to {KEY_BYTES_MAX} bytes", key.len()),
        ));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::TooBig,
            format!("a row of {} bytes: rows have up to {VALUE_BYTES_MAX} bytes", value.len()),
        ));
    }
    Ok(())
}

fn refuse_discarded(table: &Table) -> Result<()> {
    match table.is_discarded() {
        true => Err(Error::new(
            ErrorKind::Discarded,
            format!("the rows of table '{}' were discarded: import or drop it", table.def().name),
        )),
        false => Ok(()),
    }
}
