//! When rows are loaded (`commit/load.rs`) instead of written one by one.

use frond_base::{Result, TreeId, SEQ_MAX};
use frond_row::Entries;
use frond_tree::Bounds;
use frond_txn::RowMode;

use super::foreign::Which;
use super::{Rows, WriteFlags};
use crate::commit::loads::{Loading, Unique};
use crate::commit::spill::Spill;
use crate::commit::transaction::{check_sizes, Transaction};

/// A load begins when a transaction has inserted this many rows into an empty table, or fewer large
/// ones. A small transaction would gain nothing from a load, and must not lock a whole table.
const FROM_ROWS: u32 = 10_000;
const FROM_ROWS_LARGE: u32 = 256;
const FROM_BYTES: usize = 4 << 20;

impl Rows {
    /// Loads the row whose entries are `new`, if the table is being loaded, or from now on. False: it is to be written
    /// in the ordinary way.
    #[inline]
    pub(super) fn load_row(
        &mut self,
        txn: &mut Transaction,
        new: &mut Entries,
        flags: WriteFlags,
    ) -> Result<bool> {
        match txn.loading() {
            Loading::Off => Ok(false),
            Loading::Counting(rows) => {
                *rows = rows.saturating_add(1);
                let rows = *rows;
                let large = rows.is_multiple_of(FROM_ROWS_LARGE) && {
                    let share = txn.core.transaction_memory();
                    txn.writes.bytes() > FROM_BYTES.min(share / 4)
                };
                match rows >= FROM_ROWS || large {
                    true => Ok(self.begin_load(txn, flags)? && self.load_now(txn, new, flags)?),
                    false => Ok(false),
                }
            }
            Loading::On(_) => self.load_now(txn, new, flags),
        }
    }

    fn load_now(
        &mut self,
        txn: &mut Transaction,
        new: &mut Entries,
        flags: WriteFlags,
    ) -> Result<bool> {
        if !flags.skip_foreign {
            self.refresh_foreigns(txn)?;
        }
        let own_parent = !flags.skip_foreign && self.is_own_parent();
        let Loading::On(load) = txn.loading() else { return Ok(false) };
        if own_parent || !load.takes(&self.codec, new)? {
            txn.settle(self.table.id())?;
            return Ok(false);
        }
        for index in 0..new.len() {
            check_sizes(new.key(index), new.value(index))?;
            if !flags.no_locks {
                txn.lock_written(&self.table, self.tree_no(index), new.key(index))?;
            }
        }
        if !flags.skip_foreign {
            self.check_parents(txn, (None, new), Which::Others)?;
        }
        txn.load(self.table.id(), new);
        Ok(true)
    }

    /// Begins a load if that is possible (LD1).
    #[cold]
    fn begin_load(&mut self, txn: &mut Transaction, flags: WriteFlags) -> Result<bool> {
        // Tried once, whatever the outcome.
        *txn.loading() = Loading::Off;
        if !flags.skip_foreign {
            self.refresh_foreigns(txn)?;
        }
        let codec = self.codec.clone();
        let indexes = &codec.schema().indexes;
        let id = |index: usize| TreeId { table: self.table.id(), index: indexes[index].tree };
        let has_runs =
            |index: usize| txn.spilled.of(id(index)).is_some_and(|runs| !runs.is_empty());
        let plain = self.visible == indexes.len() && self.twin.is_none();
        if !plain || self.is_own_parent() || (0..indexes.len()).any(has_runs) {
            return Ok(false);
        }
        let hidden = codec.schema().hidden_primary;
        let unique: Vec<usize> = (0..indexes.len())
            .filter(|index| match index {
                0 => !hidden,
                _ => indexes[*index].unique,
            })
            .collect();
        // Looked at before it is locked: most tables have rows, and are not locked.
        if !self.is_empty_for(txn, &[0], flags)? {
            return Ok(false);
        }
        if !flags.no_locks && !unique.iter().all(|index| txn.lock_whole(id(*index), RowMode::X)) {
            return Ok(false);
        }
        // Others may have committed rows before the lock was there.
        let looked_at: Vec<usize> = unique.iter().copied().chain([0]).collect();
        if !self.is_empty_for(txn, &looked_at, flags)? {
            return Ok(false);
        }
        let mut uniques = Vec::with_capacity(unique.len());
        for index in unique {
            let mut parts = Vec::new();
            for entry in txn.writes.buffer(id(index)).iter().flat_map(|own| own.iter()) {
                parts.extend(codec.unique_part(index, entry.key)?);
            }
            uniques.push(Unique::new(index, &txn.core, parts.into_iter()));
        }
        let share = txn.core.transaction_memory();
        for index in 0..indexes.len() {
            txn.spill_tree(id(index), share, Spill::Whole, &mut || Ok(()))?;
        }
        txn.begin_load(indexes.iter().map(|index| index.tree).collect(), uniques);
        Ok(true)
    }

    /// Whether the trees of `indexes` have no committed row, and none that was deleted after the
    /// transaction's snapshot: a load must not bring such a row back (X3).
    fn is_empty_for(
        &self,
        txn: &Transaction,
        indexes: &[usize],
        flags: WriteFlags,
    ) -> Result<bool> {
        let overtakes = txn.may_overtake_snapshot() || !txn.has_snapshot() || flags.no_locks;
        let mut last_key = Vec::new();
        for index in indexes {
            let tree = self.table.tree(self.codec.schema().indexes[*index].tree);
            if !tree.last_key(&mut last_key)? {
                continue;
            }
            if !overtakes {
                return Ok(false);
            }
            // There may be any number of deleted rows.
            let mut cursor = tree.cursor(SEQ_MAX, Bounds::all());
            let owner = txn.handle();
            cursor.set_interrupt(Box::new(move || owner.is_interrupted()));
            if cursor.first()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
