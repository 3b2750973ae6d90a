//! Transactions larger than their share of memory: changes that go to the table files before the commit.
//!
//! When the write set takes more than its share, the largest trees' changes are written out as private
//! runs (`frond_tree::PrivateRuns`), one generation for each stretch between live savepoints. Reads of
//! the transaction look at the write set, then at the private runs, then at the tree. Rolling back drops
//! runs; their blocks are named by nothing. Commit writes out what is left of the trees that have
//! private runs, syncs the files, and appends one record that names all runs.
//!
//! Invariants:
//!
//! - P1. For each key, what is in the write set is newer than the private runs, and they are newer than
//!   the tree.
//! - P2. Private runs are cut at the savepoints that were live when they were written or merged, so that a
//!   rollback to one of them drops whole generations.
//! - P3. Runs are synced before the record that names them is appended. From then on their blocks are not
//!   given back, even if appending failed: recovery may find the record.
//! - P4. In a record a tree has runs or entries, never both. So `flushed_upto` says of each tree whether
//!   recovery must take up its part of the record.
//! - P5. Runs are attached between the record's appending and anything else that could freeze or write: the
//!   gate is held exclusively (C1). The buffer item that holds them keeps the log, from the record on, until
//!   one trunk edit names all of them.
//!
//! Not here: what a private run is, merging them (`frond-tree`).
//! Tested by `tests/it/spill.rs` and the simulator.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{EntryKind, Error, ErrorKind, Lsn, Result, TreeId, SEQ_MAX};
use frond_buffer::{SegmentScan, SortedBuffer};
use frond_run::MergeInput;
use frond_tree::{PrivateRuns, PrivateView, Segment};
use frond_txn::{OwnerHandle, WriteSet};
use frond_wal::{Appended, Claim};

use crate::canary;
use crate::commit::core::{encode_entries, record_bytes, Core, News, Whole};
use crate::commit::memory::LARGE;
use crate::commit::private_runs::Spilled;
use crate::commit::transaction::Transaction;
use crate::options::TRANSACTION_MEMORY_MAX;
use crate::record::{self, AttachedRuns, KIND_TRANSACTION_OF_RUNS};
use crate::table::Table;

/// A share of the cache, unless the options say how much.
const SHARE: usize = 8;
/// When the write memory of all transactions takes this percentage of the cache, each transaction's share is an
/// eighth.
const CROWDED_PERCENT: usize = 60;
/// Runs are cut at this size at least.
pub(crate) const RUN_BYTES_MIN: u64 = 64 << 10;

/// How much of a tree's changes is written out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spill {
    /// All but a few that are newer than the latest savepoint.
    Most,
    Whole,
    /// All of it, for a commit: no savepoint matters any more.
    Last,
}

impl Core {
    /// Memory that one transaction's changes may take now.
    pub(crate) fn transaction_memory(&self) -> usize {
        let given = self.options.transaction_bytes as usize;
        if given > 0 {
            return given;
        }
        let limit = self.shared.budget.limit();
        let share = (limit / SHARE).min(TRANSACTION_MEMORY_MAX as usize);
        let written = self.shared.budget.used_by(frond_cache::Part::WriteBuffers);
        if written > limit / 100 * CROWDED_PERCENT {
            share / 8
        } else {
            share
        }
    }

    /// As [`Core::commit`], of a transaction that has private runs. Trees that have some have nothing in
    /// `writes` (P4).
    pub(crate) fn commit_spilled(
        self: &Arc<Self>,
        writes: &WriteSet,
        spilled: &mut Spilled,
        tables: &[Arc<Table>],
        covered: bool,
        owner: &OwnerHandle,
    ) -> Result<Option<Lsn>> {
        let in_memory = |p: &PrivateRuns| writes.buffer(p.id()).is_some_and(|b| !b.is_empty());
        assert!(!spilled.filled().any(in_memory), "a tree has runs and entries (P4)");
        self.may_write()?;
        let has_runs = |t: &&Arc<Table>| spilled.filled().any(|p| p.id().table == t.id());
        for table in tables.iter().filter(has_runs) {
            if canary::active(canary::COMMIT_BEFORE_SYNC) {
                continue;
            }
            let synced = spilled.filled().find(|p| p.id().table == table.id()).map(|p| p.sync());
            synced.unwrap_or(Ok(()))?;
        }
        let attached: Vec<AttachedRuns> =
            spilled.filled().map(|p| AttachedRuns { tree: p.id(), lists: p.lists() }).collect();
        let large = writes.bytes() > LARGE;
        if large {
            // Before `enter_large`: a commit that is delayed inside would delay the large commits behind it.
            self.pace(writes.bytes() as u64 / 2, owner)?;
        }
        let _memory = large.then(|| self.enter_large(writes.bytes(), owner)).transpose()?;
        let mut payload = Vec::new();
        record::put_runs(&mut payload, &attached);
        encode_entries(writes, &mut payload)?;
        let bytes = payload.len() as u64;
        let room = self.shared.wal.reserve(record_bytes(&payload, tables), Claim::Ordinary);
        let _room = room.map_err(|e| self.disk.note(e))?;
        if !large {
            self.pace(bytes, owner)?;
        }
        let unlogged = spilled.entries();
        let entries = writes.entries() as u64 + unlogged;
        let (end, news) = self.append_and_attach(payload, writes, spilled, tables, covered)?;
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        self.counters.entries_spilled.fetch_add(unlogged, Ordering::Relaxed);
        // After the other counter: `Core::logged` relies on the order.
        self.counters.entries_committed.fetch_add(entries, Ordering::Release);
        self.counters.spilled_commits.fetch_add(1, Ordering::Relaxed);
        for table in tables.iter().filter(|table| !table.is_dropped()) {
            self.ledger.note_all(table);
            // The runs may be of an index that was dropped meanwhile.
            self.clear_dropped_later(table);
        }
        self.wrote(bytes, &news);
        self.queue.wake();
        Ok(Some(end))
    }

    fn append_and_attach(
        &self,
        mut payload: Vec<u8>,
        writes: &WriteSet,
        spilled: &mut Spilled,
        tables: &[Arc<Table>],
        covered: bool,
    ) -> Result<(Lsn, News)> {
        let counters = self.put_counters(&mut payload, writes, tables);
        let prepared = self.shared.wal.prepare(KIND_TRANSACTION_OF_RUNS, &payload)?;
        let _whole = Whole(&self.shared);
        let gate = self.gate.write();
        self.readers_came(covered)?;
        let at = match self.append(tables, &counters, |wal| wal.append_prepared(&prepared)) {
            Ok(at) => at,
            Err(e) => {
                spilled.abandon();
                return Err(e);
            }
        };
        assert!(self.gate.is_locked_exclusive(), "runs are attached without the gate (P5)");
        attach(spilled, tables, at);
        // Buffers take entries from several transactions at once; only attaching needed it alone.
        let gate = parking_lot::RwLockWriteGuard::downgrade(gate);
        let news = self.apply(writes, tables, at.start, at.end);
        self.clock.finish(at.end);
        drop(gate);
        Ok((at.end, news))
    }
}

fn attach(spilled: &mut Spilled, tables: &[Arc<Table>], at: Appended) {
    for private in spilled.filled_mut() {
        let id = private.id();
        let table = tables.iter().find(|t| t.id() == id.table);
        let table = table.expect("every tree written to belongs to a noted table");
        // As in `Core::apply`.
        if table.is_dropped() {
            private.abandon();
            continue;
        }
        let slot = table.slot(id.index);
        slot.tree.attach_private(private, at.end, at.start, at.end);
        slot.note_attached();
    }
}

impl Transaction {
    // ---- what this transaction wrote ----

    /// The kind of the transaction's own newest version of `key`; appends its value to `value`.
    /// `None`: the transaction has not written the key.
    pub(crate) fn own(
        &self,
        tree: TreeId,
        key: &[u8],
        value: Option<&mut Vec<u8>>,
    ) -> Result<Option<EntryKind>> {
        debug_assert!(self.is_settled(tree), "a table is read while it is loaded (LD3)");
        if let Some(entry) = self.writes.buffer(tree).and_then(|own| own.find(key, SEQ_MAX)) {
            if let Some(value) = value {
                value.extend_from_slice(entry.value);
            }
            return Ok(Some(entry.kind));
        }
        match self.spilled.of(tree) {
            Some(private) => private.get(key, value),
            None => Ok(None),
        }
    }

    /// What cursors read of the tree's private runs.
    pub(crate) fn private_view(&self, tree: TreeId) -> Option<PrivateView> {
        debug_assert!(self.is_settled(tree), "a table is read while it is loaded (LD3)");
        self.spilled.of(tree).map(PrivateRuns::view)
    }

    /// Changes whenever [`Self::private_view`] does; 0: there is none.
    pub(crate) fn private_stamp(&self, tree: TreeId) -> u64 {
        debug_assert!(self.is_settled(tree), "a table is read while it is loaded (LD3)");
        self.spilled.of(tree).map_or(0, PrivateRuns::stamp)
    }

    // ---- spilling ----

    /// Writes changes out until a quarter of `share` is left in memory. On `Err` no change is lost.
    pub(crate) fn spill(&mut self, share: usize) -> Result<()> {
        self.core.pace(self.writes.bytes() as u64, &self.handle())?;
        let mut trees: Vec<(usize, TreeId)> = self
            .writes
            .trees()
            .map(|id| (self.writes.buffer(id).map_or(0, SortedBuffer::bytes), id))
            .collect();
        // The largest trees first: small ones would make very small runs.
        trees.sort_by_key(|(bytes, id)| (std::cmp::Reverse(*bytes), *id));
        for (_, id) in trees {
            if self.writes.bytes() <= share / 4 {
                break;
            }
            let owner = self.handle();
            let mut poll = || match owner.is_interrupted() {
                true => Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted")),
                false => Ok(()),
            };
            self.spill_tree(id, share, Spill::Most, &mut poll)?;
        }
        Ok(())
    }

    /// Trees with private runs have nothing in memory afterwards (P4).
    pub(crate) fn spill_rest(&mut self) -> Result<()> {
        let share = self.core.transaction_memory();
        let trees: Vec<TreeId> = self.spilled.filled().map(PrivateRuns::id).collect();
        for id in trees {
            self.spill_tree(id, share, Spill::Last, &mut || Ok(()))?;
        }
        Ok(())
    }

    /// Writes out one tree's changes. On `Err` they are all in memory, or all in runs that could not be tidied.
    pub(crate) fn spill_tree(
        &mut self,
        id: TreeId,
        share: usize,
        how: Spill,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let table = self.tables.get(id.table);
        let table = table.expect("every tree written to belongs to a noted table").clone();
        if table.is_dropped() {
            // Nobody wants its entries, and there may be no file.
            drop(self.writes.take(id));
            return Ok(());
        }
        let run_bytes = (share as u64 / 2).max(RUN_BYTES_MIN);
        let private = self.spilled.of_mut(table.tree(id.index), run_bytes);
        // A commit rolls back to no savepoint.
        let marks =
            if how == Spill::Last { Vec::new() } else { self.writes.live_savepoints().to_vec() };
        let from = private.upto();
        let buffer = Arc::new(self.writes.take(id));
        let plan = Stretches::of(&buffer, from, self.writes.now(), &marks);
        let kept_from = plan.kept_from(how != Spill::Most);
        let mut outcome = Ok(());
        for segment in plan.segments.iter().filter(|s| s.upto <= kept_from) {
            let scan = SegmentScan::new(buffer.clone(), segment.after, segment.upto);
            outcome = private.write(MergeInput::entries(scan), *segment, poll);
            if outcome.is_err() {
                private.rollback_to(from);
                break;
            }
        }
        let Ok(buffer) = Arc::try_unwrap(buffer) else { panic!("the scans of it are gone") };
        let left = match (&outcome, kept_from < self.writes.now()) {
            (Err(_), _) => buffer,
            (Ok(()), false) => SortedBuffer::new(),
            (Ok(()), true) => newer_than(&buffer, kept_from),
        };
        self.writes.put_back(id, left);
        let private = self.spilled.of_mut(table.tree(id.index), run_bytes);
        let outcome = outcome.and_then(|()| match how {
            // Background merges reduce the generations that a commit attaches.
            Spill::Last => Ok(()),
            _ => private.tidy(&marks, poll).or_else(unless_short),
        });
        self.core.counters.spills.fetch_add(1, Ordering::Relaxed);
        match outcome {
            // Dropped in between, before it had a file.
            Err(e) if e.kind() == ErrorKind::Closed && table.is_dropped() => {
                drop(self.writes.take(id));
                Ok(())
            }
            // A failed write poisons the engine, as for any table file: nobody knows what a retry would find.
            Err(e) if e.kind() == ErrorKind::Io => Err(self.core.shared.poison(e)),
            outcome => outcome,
        }
    }

    /// The files that private runs took space in: it goes back to the file system in the background.
    pub(crate) fn give_back_later(&self) {
        for private in self.spilled.filled() {
            let table = self.tables.get(private.id().table);
            if let Some(table) = table {
                self.core.upkeep.give_back_later(table);
            }
        }
    }
}

/// Ignores a shortage: too many generations only make reads slower.
pub(crate) fn unless_short(e: Error) -> Result<()> {
    match e.kind().is_shortage() {
        true => Ok(()),
        false => Err(e),
    }
}

/// A buffer's operations, cut at the savepoints that are live.
struct Stretches {
    /// The stretches that have entries.
    segments: Vec<Segment>,
    /// Bytes of the entries in each.
    bytes: Vec<usize>,
}

impl Stretches {
    /// The entries are of operations after `from` up to `now`.
    fn of(buffer: &SortedBuffer, from: u64, now: u64, marks: &[u64]) -> Stretches {
        let mut ends: Vec<u64> = marks.iter().copied().filter(|m| from < *m && *m < now).collect();
        ends.dedup();
        ends.push(now);
        let mut bytes = vec![0; ends.len()];
        if ends.len() == 1 {
            bytes[0] = buffer.bytes();
        } else {
            for e in buffer.iter() {
                bytes[ends.partition_point(|end| *end < e.seq)] += e.key.len() + e.value.len() + 16;
            }
        }
        let starts = std::iter::once(from).chain(ends.iter().copied());
        let all = starts.zip(&ends).map(|(after, upto)| Segment { after, upto: *upto });
        let (segments, bytes) = all.zip(bytes).filter(|(_, bytes)| *bytes > 0).unzip();
        Stretches { segments, bytes }
    }

    /// The operation behind which entries stay in memory. A small last part would become a run of
    /// its own. Such parts come from savepoints of single statements, which are released soon.
    fn kept_from(&self, all: bool) -> u64 {
        let Some(last) = self.segments.last() else { return u64::MAX };
        let total: usize = self.bytes.iter().sum();
        let few = self.bytes.last().is_some_and(|n| n.saturating_mul(4) < total);
        if all || self.segments.len() == 1 || !few {
            u64::MAX
        } else {
            last.after
        }
    }
}

/// The entries after operation `from`.
fn newer_than(buffer: &SortedBuffer, from: u64) -> SortedBuffer {
    let mut newer = SortedBuffer::new();
    for e in buffer.iter().filter(|e| e.seq > from) {
        newer.put(e.key, e.seq, e.kind, e.value);
    }
    newer
}
