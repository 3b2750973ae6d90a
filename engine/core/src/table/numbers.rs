//! AUTO_INCREMENT values: who takes the next ones.
//!
//! A statement that is run again elsewhere gets its first value from here and counts on from it there. So its values have to be
//! consecutive, however many there are. While such a statement has the values to itself (`commit/transaction/numbers.rs`), others wait.
//!
//! - AV1. From the first value that a statement takes which has the values to itself, until it ends, the counter moves for it
//!   alone. It first counts itself in `numbering`, then takes values. Others first read the counter, then `numbering`, then replace
//!   what they have read. So who has read 0 there, and comes after that statement's first value, replaces nothing. (Both in the one
//!   order of all such accesses.)

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_txn::LooseLock;

use crate::table::Table;

/// Another statement has the values to itself.
#[derive(Debug)]
pub(crate) struct Busy;

/// A statement that has the values of a table to itself.
pub(crate) struct Numbering {
    table: Arc<Table>,
    /// Kept until the transaction ends when there is none.
    lock: Option<LooseLock>,
}

impl Numbering {
    /// The caller holds the lock.
    pub fn new(table: &Arc<Table>, lock: Option<LooseLock>) -> Numbering {
        table.counters().numbering.fetch_add(1, Ordering::SeqCst);
        Numbering { table: table.clone(), lock }
    }

    pub fn is_of(&self, table: &Table) -> bool {
        self.table.id() == table.id()
    }

    /// Ends it; the lock may be given back after that.
    pub fn end(mut self) -> Option<LooseLock> {
        self.lock.take()
    }
}

impl Drop for Numbering {
    fn drop(&mut self) {
        self.table.counters().numbering.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Table {
    /// Reserves up to `wanted` consecutive values of the series `offset + n * increment` and returns the
    /// first and how many. `None` when the 64-bit range is used up. For callers beside whom nobody has the values to
    /// himself; the others ask their transaction.
    pub fn reserve_auto_increment(
        &self,
        offset: u64,
        increment: u64,
        wanted: u64,
    ) -> Option<(u64, u64)> {
        self.take_numbers(offset, increment, wanted, true).ok().flatten()
    }

    /// The same. `in_turn`: the caller is not to wait for a statement that has the values to itself.
    pub(crate) fn take_numbers(
        &self,
        offset: u64,
        increment: u64,
        wanted: u64,
        in_turn: bool,
    ) -> Result<Option<(u64, u64)>, Busy> {
        let mut next = self.counters().auto_increment.load(Ordering::SeqCst);
        loop {
            let Some((first, after)) = series(next, offset, increment, wanted) else {
                return Ok(None);
            };
            assert!(after > next, "AUTO_INCREMENT falls from {next} to {after} (TB1)");
            match self.replace_next(next, after, in_turn)? {
                None => return Ok(Some((first, wanted.max(1)))),
                Some(now) => next = now,
            }
        }
    }

    /// A writer gave a row the value `used`: later values exceed it. For callers beside whom nobody has the values to
    /// himself.
    pub fn auto_increment_used(&self, used: u64) {
        self.pass_number(used, true).unwrap_or_default();
    }

    pub(crate) fn pass_number(&self, used: u64, in_turn: bool) -> Result<(), Busy> {
        let wanted = used.saturating_add(1);
        let mut next = self.counters().auto_increment.load(Ordering::SeqCst);
        while next < wanted {
            match self.replace_next(next, wanted, in_turn)? {
                None => break,
                Some(now) => next = now,
            }
        }
        Ok(())
    }

    /// The counter's value when it is not `next` any more; `None` when it is `after` now.
    fn replace_next(&self, next: u64, after: u64, in_turn: bool) -> Result<Option<u64>, Busy> {
        let counters = self.counters();
        if !in_turn && counters.numbering.load(Ordering::SeqCst) > 0 {
            return Err(Busy);
        }
        let replaced = counters.auto_increment.compare_exchange_weak(
            next,
            after,
            Ordering::SeqCst,
            Ordering::SeqCst,
        );
        if replaced.is_ok() {
            counters.unlogged.store(true, Ordering::Relaxed);
        }
        Ok(replaced.err())
    }
}

/// The first value of the series from `next` on, and what follows the last of `wanted`.
fn series(next: u64, offset: u64, increment: u64, wanted: u64) -> Option<(u64, u64)> {
    let increment = increment.max(1);
    // As MariaDB: an offset larger than the increment is ignored.
    let offset = if offset > increment { 1 } else { offset.max(1) };
    let base = next.max(1);
    let first = if base <= offset {
        offset
    } else {
        let steps = (base - offset).div_ceil(increment);
        offset.checked_add(steps.checked_mul(increment)?)?
    };
    let last = first.checked_add((wanted.max(1) - 1).checked_mul(increment)?)?;
    Some((first, last.checked_add(1)?))
}
