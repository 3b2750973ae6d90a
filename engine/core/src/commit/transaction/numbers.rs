//! AUTO_INCREMENT values for transactions (AV1 in `table/numbers.rs`).
//!
//! A statement has the values to itself under an exclusive lock, so that its waits for others, and theirs for it, take part in the
//! detection of deadlocks. The lock is on a key that no row has, and is given back when the statement ends. Others ask for the lock
//! only while some statement is counted as holding it.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};
use frond_txn::{Granted, RowMode};

use super::{OnLocked, Transaction};
use crate::table::numbers::{Busy, Numbering};
use crate::table::Table;

/// The key in the first index; keys of rows are longer.
const KEY: &[u8] = &[];

impl Transaction {
    /// Until the statement ends, nobody else takes values of `table`: those of the statement are consecutive.
    pub fn lock_auto_increment(&mut self, table: &Arc<Table>) -> Result<()> {
        if !self.numbers(table) {
            let granted = self.lock(table, 0, KEY, RowMode::X, OnLocked::Wait)?;
            let loose = (granted == Granted::New).then(|| self.loosen_lock());
            self.numbering.push(Numbering::new(table, loose));
        }
        Ok(())
    }

    /// As [`Table::reserve_auto_increment`], after the statement that has the values to itself.
    pub fn reserve_auto_increment(
        &mut self,
        table: &Table,
        (offset, increment): (u64, u64),
        wanted: u64,
    ) -> Result<(u64, u64)> {
        self.in_turn(table, |in_turn| table.take_numbers(offset, increment, wanted, in_turn))?
            .ok_or_else(|| Error::new(ErrorKind::TooBig, "the AUTO_INCREMENT values are used up"))
    }

    /// As [`Table::auto_increment_used`], after the statement that has the values to itself.
    pub fn auto_increment_used(&mut self, table: &Table, used: u64) -> Result<()> {
        self.in_turn(table, |in_turn| table.pass_number(used, in_turn))
    }

    /// The statement ended: others may take values.
    pub(super) fn end_numbering(&mut self) {
        for numbering in std::mem::take(&mut self.numbering) {
            if let Some(lock) = numbering.end() {
                self.give_lock_back(lock);
            }
        }
    }

    fn numbers(&self, table: &Table) -> bool {
        self.numbering.iter().any(|n| n.is_of(table))
    }

    fn in_turn<T>(
        &mut self,
        table: &Table,
        take: impl Fn(bool) -> std::result::Result<T, Busy>,
    ) -> Result<T> {
        if let Ok(taken) = take(self.numbers(table)) {
            return Ok(taken);
        }
        let granted = self.lock(table, 0, KEY, RowMode::S, OnLocked::Wait)?;
        let loose = (granted == Granted::New).then(|| self.loosen_lock());
        let taken = take(true);
        if let Some(lock) = loose {
            self.give_lock_back(lock);
        }
        Ok(taken.expect("it is this transaction's turn (AV1)"))
    }
}
