//! AUTO_INCREMENT values: who takes the next ones.
//!
//! A replica that runs a statement again begins with the statement's first value and counts on from it. So the statement's values must
//! be consecutive, however many there are. While such a statement has the values to itself (`commit/transaction/numbers.rs`), others
//! wait.
//!
//! - AV1. While a statement has the values to itself, the counter moves for it alone, from the first value that it takes until it ends.
//!   It increments `numbering` and then takes values. Others read the counter, then `numbering`, then replace the counter if it is
//!   still what they read. When one of them has read 0 in `numbering`, and the statement has taken its first value since the counter
//!   was read, the counter has changed and is not replaced. (All these accesses have one order: `SeqCst`.)

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
    /// `None`: the transaction keeps the lock until it ends.
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
    /// Reserves up to `wanted` consecutive values of the series `offset + n * increment` and returns the first and how many. `None`
    /// when the 64-bit range is used up. For callers that know that no statement has the values to itself; others ask their
    /// transaction.
    pub fn reserve_auto_increment(
        &self,
        offset: u64,
        increment: u64,
        wanted: u64,
    ) -> Option<(u64, u64)> {
        self.take_numbers(offset, increment, wanted, true).ok().flatten()
    }

    /// The same. `in_turn`: the caller need not wait for a statement that has the values to itself.
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

    /// A writer gave a row the value `used`: later values exceed it. For callers that know that no statement has the values to itself.
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

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use frond_vfs::MemVfs;

    use super::*;
    use crate::catalog::ddl::TableSpec;
    use crate::engine::Engine;
    use crate::options::Options;

    /// A record is made and logged while another thread takes a value: either it has the value, or the value counts as
    /// not logged. Takes 0.2 s.
    #[test]
    fn a_value_that_no_record_has_does_not_count_as_logged() {
        const ROUNDS: u32 = 5000;
        let options = Options { background_threads: 0, ..Options::default() };
        let engine = Engine::open(Arc::new(MemVfs::stepped()), options).unwrap();
        let table = engine.create_table(TableSpec::plain("t")).unwrap();
        let (begin, end) = (Barrier::new(2), Barrier::new(2));
        let mut lost = 0;
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..ROUNDS {
                    begin.wait();
                    table.reserve_auto_increment(1, 1, 1).unwrap();
                    end.wait();
                }
            });
            for round in 0..ROUNDS {
                let record = table.counter_record(0);
                begin.wait();
                (0..round % 256).for_each(|_| std::hint::spin_loop());
                table.note_logged(&record);
                end.wait();
                lost += u32::from(!table.is_unlogged());
            }
        });
        assert_eq!(lost, 0, "values that are in no record");
        let record = table.counter_record(0);
        table.note_logged(&record);
        assert!(!table.is_unlogged());
        // AUTO_INCREMENT is set to less while a record with more is on its way to the log.
        table.set_next(10);
        table.note_logged(&record);
        assert!(!table.is_unlogged());
        table.reserve_auto_increment(1, 1, 1).unwrap();
        assert!(table.is_unlogged());
    }
}
