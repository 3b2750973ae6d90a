//! Loading: rows that are inserted into an empty table, in large numbers, are sorted instead of kept in the write set.
//!
//! The entries of each index are collected in a chunk, in the order in which they come; full chunks are sorted and
//! written as private runs. From then on everything is as for any transaction larger than memory (`spill.rs`): the
//! commit names the runs in its record and attaches them. `rows/load.rs` decides when a load begins.
//!
//! - LD1. A load begins when the table's trees have no row, and then its transaction has locked whole trees: the
//!   primary one and those of unique indexes. So no other transaction can write a row with the key of a loaded one.
//!   (Hidden primary keys are never equal, so the primary tree is not locked then. A copy that nobody sees locks
//!   nothing.)
//! - LD2. Keys in the chunks and in the runs that were made of them are distinct. A key (of a
//!   unique index: its unique part) is accepted when it is larger than all keys before it, or when
//!   no earlier key has its hash. In doubt the load ends: the ordinary path then finds a duplicate,
//!   or none, exactly.
//! - LD3. While a load goes on, the write set has nothing of the table's trees, and nothing of them
//!   is read: an operation that reads, changes or locks rows of the table ends the load first
//!   ([`Transaction::settle`]). Only an engine's [cursor](crate::commit::cursor::Cursor) that was
//!   opened before cannot, and returns an error.
//! - LD4. A savepoint notes how many rows the chunks have: a rollback cuts them there. Runs are cut at live savepoints,
//!   as all private runs are (P2).
//!
//! Tested by `tests/it/load.rs`, by `tests/it/load.rs` of the simulator (losses of power), and by `tests/sql/load.py`.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, IndexNo, Result, TableId, TreeId};
use frond_row::Entries;
use frond_run::MergeInput;

use crate::commit::loads::{Load, Loading, Unique};
use crate::commit::spill::{unless_short, RUN_BYTES_MIN};
use crate::commit::transaction::Transaction;
use crate::table::chunk::{Chunk, SortedChunk};

/// Loads share a part of the cache. Each gets at least this many bytes, unless the limit of its
/// transaction is lower.
const SHARE: usize = 4;
const LOAD_BYTES_MIN: usize = 256 << 10;

impl Transaction {
    /// Memory of the changes.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.writes.bytes() + self.loads.memory()
    }

    /// Whether the table that was written to last is being loaded.
    #[inline]
    pub(crate) fn loading(&mut self) -> &mut Loading {
        let at = self.last_table();
        self.loads.at(at)
    }

    /// Begins the load of the table that was written to last, whose private runs have all that the write set had
    /// of it (LD1, LD3).
    pub(crate) fn begin_load(&mut self, trees: Vec<IndexNo>, uniques: Vec<Unique>) {
        self.core.counters.loads.fetch_add(1, Ordering::Relaxed);
        let load = Load::new(&self.core, trees, uniques, self.writes.now());
        let at = self.last_table();
        self.loads.begin(at, load);
    }

    /// Adds a row that [`Load::takes`].
    pub(crate) fn load(&mut self, table: TableId, new: &Entries) {
        self.writes.count_op();
        let at = self.last_table();
        self.loads.push(at, new);
        self.writes.add_rows(table, 1);
    }

    /// Ends the load of `table`, if there is one: all rows are where the transaction reads (LD3).
    #[inline]
    pub(crate) fn settle(&mut self, table: TableId) -> Result<()> {
        match self.loads.is_any() {
            false => Ok(()),
            true => self.settle_now(table),
        }
    }

    #[cold]
    fn settle_now(&mut self, table: TableId) -> Result<()> {
        match self.tables.position(table) {
            Some(at) => self.end_load(at),
            None => Ok(()),
        }
    }

    /// Ends all loads.
    pub(crate) fn settle_all(&mut self) -> Result<()> {
        (0..self.loads.positions()).try_for_each(|at| self.end_load(at))
    }

    fn end_load(&mut self, at: usize) -> Result<()> {
        if self.loads.on(at).is_none() {
            return Ok(());
        }
        self.write_load(at)?;
        self.loads.end(at);
        self.recharge();
        Ok(())
    }

    /// Whether all of `tree` is where the transaction reads.
    pub(crate) fn is_settled(&self, tree: TreeId) -> bool {
        let at = self.loads.is_any().then(|| self.tables.position(tree.table)).flatten();
        !at.is_some_and(|at| self.loads.has_rows(at))
    }

    /// Writes chunks out, the largest first, when they take more than a load may have.
    pub(crate) fn write_loads(&mut self, share: usize) -> Result<()> {
        let core = &self.core;
        let others = core.loads.load(Ordering::Relaxed).max(1);
        let all = core.shared.budget.limit() / SHARE;
        let each = (all / others).max(LOAD_BYTES_MIN);
        let most = each.saturating_mul(self.loads.open()).min(share);
        if self.loads.bytes() <= most {
            return Ok(());
        }
        for (_, at) in self.loads.by_size() {
            if self.loads.bytes() <= most / 4 {
                break;
            }
            self.write_load(at)?;
        }
        Ok(())
    }

    /// Writes a load's chunks out as private runs. On `Err` all rows are still in the chunks.
    fn write_load(&mut self, at: usize) -> Result<()> {
        let Some(load) = self.loads.on(at) else { return Ok(()) };
        let (bytes, after) = (load.chunks.iter().map(Chunk::memory).sum::<usize>(), load.after);
        if bytes == 0 {
            return Ok(());
        }
        let owner = self.handle();
        self.core.pace(bytes as u64, &owner)?;
        let run_bytes = (self.core.transaction_memory() as u64 / 2).max(RUN_BYTES_MIN);
        let table = self.tables.values()[at].clone();
        let (now, marks) = (self.writes.now(), self.writes.live_savepoints().to_vec());
        let mut poll = || match owner.is_interrupted() {
            true => Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted")),
            false => Ok(()),
        };
        let load = self.loads.on(at).expect("a load goes on until it is ended");
        let stretches = load.stretches(&marks, now);
        let mut outcome = Ok(());
        let mut done = Vec::with_capacity(load.chunks.len());
        for (tree, chunk) in load.trees.iter().zip(&mut load.chunks) {
            let mut all = std::mem::take(chunk);
            stretches.iter().for_each(|(_, from, to)| all.sort(*from, *to));
            let all = Arc::new(all);
            let private = self.spilled.of_mut(table.tree(*tree), run_bytes);
            for (segment, from, to) in &stretches {
                // A short one is written without a poll.
                outcome = outcome.and_then(|()| poll()).and_then(|()| {
                    let input = MergeInput::entries(SortedChunk::of(all.clone(), *from, *to));
                    private.write(input, *segment, &mut poll)
                });
            }
            let Ok(all) = Arc::try_unwrap(all) else { panic!("the scans of it are gone") };
            done.push(all);
        }
        let outcome = match outcome {
            Ok(()) => {
                let trees = load.trees.clone();
                self.loads.written(at, now);
                drop(done);
                trees.iter().try_for_each(|tree| {
                    let private = self.spilled.of_mut(table.tree(*tree), run_bytes);
                    private.tidy(&marks, &mut poll).or_else(unless_short)
                })
            }
            Err(e) => {
                load.chunks = done;
                for tree in &load.trees {
                    self.spilled.of_mut(table.tree(*tree), run_bytes).rollback_to(after);
                }
                Err(e)
            }
        };
        self.core.counters.spills.fetch_add(1, Ordering::Relaxed);
        outcome.map_err(|e| match e.kind() {
            // A failed write poisons the engine, as for any table file: nobody knows what a retry would find.
            ErrorKind::Io => self.core.shared.poison(e),
            _ => e,
        })
    }
}
