//! Range locks of transactions: readers lock what they read, writers lock what they write while there are such readers.
//! The decisions are in `docs/rfcs/0008-range-locks.md`.
//!
//! - RX1. What a serializable transaction has read in a range, or not found, stays so until it ends: nobody's
//!   change of an index entry in the range becomes visible meanwhile.
//! - RX4. A reader of a range also locks the row of each entry that it reads, even when a condition on the index rejects
//!   the entry. So only new entries are checked against ranges: changing or deleting one takes its row's lock.
//! - RX2. A commit or prepare that found no reader ([`frond_txn::LockTable::has_readers`]) is visible, or in the set of
//!   prepared transactions, before a later reader reads. A one-phase commit holds the gate from that look on, and a reader
//!   takes the gate exclusively once before it reads. A transaction that prepares is in the set before it looks.
//! - RX3. A prepared transaction takes no range locks itself: a reader that comes later gives it the lock, and then waits
//!   for it, as does each other reader of the range, however often.
//!
//! Tested by `tests/it/ranges.rs`.

use std::sync::Arc;

use frond_base::{EntryKind, Error, ErrorKind, IndexNo, Result, TreeId};
use frond_txn::{after, Granted, KeyRange, Locker, RowMode, Wait, WriteSet};

use crate::canary;
use crate::commit::core::Core;
use crate::commit::prepared_set::Parts;
use crate::commit::private_runs::Spilled;
use crate::commit::transaction::{OnLocked, Transaction};
use crate::table::Table;

/// Keys of one tree that are locked one by one at a commit; more become one range.
const MOST_POINTS: usize = 64;

impl Transaction {
    /// Locks a range before it is read. What the caller read of it before is out of date.
    pub(crate) fn lock_range(
        &mut self,
        table: &Table,
        index: IndexNo,
        range: KeyRange,
        mode: RowMode,
        on_locked: OnLocked,
    ) -> Result<Granted> {
        if canary::active(canary::LOCK_NO_RANGES) {
            return Ok(Granted::AlreadyHeld);
        }
        let tree = table.tree_id(index);
        let (core, wait) = (self.core.clone(), self.wait(on_locked));
        let locker = self.locker();
        let granted = locker.lock_range(tree, range.clone(), mode, wait)?;
        if granted == Granted::AlreadyHeld {
            return Ok(granted);
        }
        // Waits for the end of the commits that found no reader (RX2).
        drop(core.gate.write());
        if core.impose_prepared(table, tree) {
            // Waits for them. If that fails, the range is held, and the next request for it waits for them.
            locker.lock_range(tree, range, mode, wait)?;
        }
        Ok(granted)
    }

    /// Before a new entry of `index` is written: no reader has it in a range. Costs one load when nobody locks ranges.
    #[inline]
    pub(crate) fn lock_written(&mut self, table: &Table, index: IndexNo, key: &[u8]) -> Result<()> {
        if !self.core.locks.has_readers() {
            return Ok(());
        }
        let tree = table.tree_id(index);
        let wait = self.wait(OnLocked::Wait);
        self.locker().lock_written(tree, KeyRange::point(key), wait).map(drop)
    }

    /// Locks all that was written, if anybody has locked ranges; says whether that was so.
    pub(crate) fn lock_all_written(&mut self) -> Result<bool> {
        let wait = self.wait(OnLocked::Wait);
        let core = self.core.clone();
        if !core.locks.has_readers() {
            return Ok(false);
        }
        let tables: Vec<Arc<Table>> = self.tables.values().to_vec();
        let (locker, writes, spilled) = self.written();
        core.lock_written(locker, &tables, (writes, spilled), wait)
    }
}

impl Core {
    /// See [`Transaction::lock_all_written`].
    pub(crate) fn lock_written(
        &self,
        locker: &mut Locker,
        tables: &[Arc<Table>],
        (writes, spilled): (&WriteSet, &Spilled),
        wait: Wait,
    ) -> Result<bool> {
        if !self.locks.has_readers() {
            return Ok(false);
        }
        let runs = spilled.filled().map(|p| p.id());
        for tree in writes.trees().chain(runs) {
            let Some(table) = tables.iter().find(|t| t.id() == tree.table && !t.is_dropped())
            else {
                continue;
            };
            for range in written(writes, spilled, table, tree)? {
                locker.lock_written(tree, range, wait)?;
            }
        }
        Ok(true)
    }

    /// Whether a commit that locked nothing it wrote has to do so first.
    #[inline]
    pub(crate) fn readers_came(&self, covered: bool) -> Result<()> {
        if covered || !self.locks.has_readers() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::LockNoWait, "ranges were locked while the transaction committed"))
    }

    /// Gives prepared transactions the locks of what they wrote in `tree` (RX3). It cannot fail, because the range that it is
    /// done for is held by then: where what they wrote cannot be told, they get the whole tree. True when there are any.
    fn impose_prepared(&self, table: &Table, tree: TreeId) -> bool {
        let mut any = false;
        for entry in self.prepared.all_of_table(table.id()) {
            // Waits until the prepare record is in the log, or appending it has failed.
            let state = entry.state.lock();
            let Some(state) = &*state else { continue };
            let Parts { locker, writes, spilled, .. } = &state.parts;
            let all = written(writes, spilled, table, tree);
            for theirs in all.unwrap_or_else(|_| vec![KeyRange::all()]) {
                self.locks.impose(&locker.handle(), tree, theirs);
                any = true;
            }
        }
        any
    }
}

/// The ranges that cover the new entries of `tree`.
fn written(
    writes: &WriteSet,
    spilled: &Spilled,
    table: &Table,
    tree: TreeId,
) -> Result<Vec<KeyRange>> {
    if spilled.of(tree).is_some_and(|runs| !runs.is_empty()) {
        return Ok(vec![KeyRange::all()]);
    }
    let mut points: Vec<KeyRange> = Vec::new();
    let mut last = Vec::new();
    for entry in writes.iter_newest(tree).filter(|e| e.kind == EntryKind::Put) {
        if points.len() < MOST_POINTS {
            let before = table.tree(tree.index).newest(entry.key)?;
            if before.is_some_and(|(_, kind)| kind == EntryKind::Put) {
                continue;
            }
            points.push(KeyRange::point(entry.key));
        }
        last.clear();
        last.extend_from_slice(entry.key);
    }
    Ok(match points.first() {
        Some(first) if points.len() == MOST_POINTS => {
            vec![KeyRange { from: first.from.clone(), to: Some(after(&last)) }]
        }
        _ => points,
    })
}
