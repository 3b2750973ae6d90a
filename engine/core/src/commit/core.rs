//! The engine's centre: the commit path, and what every part of it shares.
//!
//! Commit, in order:
//!
//! 1. the write set is encoded, packed and hashed into one log record (no latch held);
//! 2. `gate` shared: no buffer is frozen until 4 is done;
//! 3. `commit` mutex: the record is appended; its end LSN is the commit sequence. Log order is commit order;
//! 4. the entries go into the trees' write buffers (transactions in parallel; their keys are disjoint, X2);
//! 5. the sequence is published, in order: snapshots taken from now on see the transaction;
//! 6. locks are released and, by durability mode, the log is written or synced.
//!
//! A transaction that wrote changes to table files before (`spill.rs`) holds the gate exclusively up to
//! the moment when its runs are attached.
//!
//! Invariants:
//!
//! - C1. A record that starts below a freeze boundary is in the buffer that was frozen, or an older one;
//!   one that starts at or above it is in a newer one. Freezing takes the gate exclusively.
//! - C2. A sequence is published only when all smaller ones are applied (CC1 of the commit clock, which asserts it).
//! - C3. After a failed log write or sync nothing is acknowledged any more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicU8, AtomicUsize, Ordering};
use std::sync::Arc;

use frond_base::{
    EntryKind, EntryRef, Error, ErrorKind, IndexNo, Lsn, Result, Seq, TableId, TreeId,
};
use frond_tree::Tree;
use frond_txn::{CommitClock, LockTable, OwnerHandle, Snapshot, SnapshotRegistry, TxnId, WriteSet};
use frond_wal::{Appended, Claim, Wal};
use parking_lot::{Mutex, RwLock};

use crate::background::disk_full::DiskFull;
use crate::background::held_writers::HeldWriters;
use crate::background::ledger::Ledger;
use crate::background::pressure::Pressure;
use crate::background::queue::Queue;
use crate::background::running_work::Works;
use crate::background::upkeep::Upkeep;
use crate::backup::Backups;
use crate::catalog::names::Names;
use crate::checkpoint::images::Images;
use crate::checkpoint::recovery_time::Target;
use crate::commit::memory::{LargeCommit, LargeCommits, LARGE};
use crate::commit::prepared_set::PreparedSet;
use crate::commit::readers::Readers;
use crate::commit::write_sets::WriteSets;
use crate::messages::{Log, Messages};
use crate::options::{Durability, Options};
use crate::record::{self, CounterRecord, KIND_COUNTERS, KIND_TRANSACTION};
use crate::shared::Shared;
use crate::table::Table;

/// The largest log record, and so the largest transaction, in bytes.
pub const TRANSACTION_BYTES_MAX: usize = 1 << 30;

/// Everything behind an [`crate::Engine`].
pub struct Core {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: Options,
    durability: AtomicU8,
    pub(crate) gate: RwLock<()>,
    pub(crate) commit: Mutex<()>,
    pub(crate) clock: Arc<CommitClock>,
    pub(crate) snapshots: Arc<SnapshotRegistry>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) locks: Arc<LockTable>,
    pub(crate) tables: RwLock<BTreeMap<TableId, Arc<Table>>>,
    pub(crate) names: RwLock<Names>,
    /// Changes with each change of foreign keys, or of tables that they name.
    pub(crate) foreign_version: AtomicU64,
    /// Serialises definitions: one CREATE, DROP, RENAME or TRUNCATE at a time.
    pub(crate) ddl: Mutex<()>,
    /// Held while a table's file is read, so that nobody else reads it to open the same table.
    pub(crate) opening: Mutex<()>,
    /// Held by a checkpoint from the moment its table counts as clean until its header is durable, and by
    /// trimming (K2).
    pub(crate) trimming: Mutex<()>,
    pub(crate) images: Images,
    pub(crate) target: Target,
    pub(crate) backups: Backups,
    pub(crate) prepared: PreparedSet,
    pub(crate) write_sets: WriteSets,
    pub(crate) queue: Queue,
    pub(crate) works: Works,
    pub(crate) ledger: Ledger,
    pub(crate) pressure: Pressure,
    pub(crate) disk: DiskFull,
    pub(crate) held_writers: Arc<HeldWriters>,
    pub(crate) upkeep: Upkeep,
    pub(crate) large_commits: LargeCommits,
    pub(crate) messages: Messages,
    /// Tables that are being loaded now.
    pub(crate) loads: AtomicUsize,
    /// Bytes of the sets of hashes of all loads.
    pub(crate) load_keys: Arc<AtomicUsize>,
    next_txn: AtomicU64,
    pub(crate) counters: CoreCounters,
}

/// Event counters, for status reports.
#[derive(Default)]
pub struct CoreCounters {
    pub commits: AtomicU64,
    pub entries_committed: AtomicU64,
    pub freezes: AtomicU64,
    pub jobs: AtomicU64,
    pub job_failures: AtomicU64,
    pub images: AtomicU64,
    /// Trees of transactions that were written out before the commit.
    pub spills: AtomicU64,
    pub spilled_commits: AtomicU64,
    /// Of `entries_committed`, those that went to runs before the commit and are not in the log.
    pub entries_spilled: AtomicU64,
    /// Empty tables whose rows were sorted instead of written one by one.
    pub loads: AtomicU64,
    /// How often free memory was returned to the system.
    pub memory_returns: AtomicU64,
}

impl Core {
    pub(crate) fn new(
        shared: Arc<Shared>,
        options: Options,
        clock: CommitClock,
        locks: Arc<LockTable>,
        names: Names,
        log: Log,
    ) -> Core {
        let durability = AtomicU8::new(options.durability as u8);
        let held_writers = Arc::<HeldWriters>::default();
        let pressure = Pressure::new(&options, held_writers.clone());
        let (clock, snapshots) = (Arc::new(clock), SnapshotRegistry::new());
        let readers = Readers { snapshots: snapshots.clone(), clock: clock.clone() };
        let target = Target::new(options.recovery_target);
        Core {
            shared,
            options,
            durability,
            gate: RwLock::new(()),
            commit: Mutex::new(()),
            clock,
            snapshots,
            readers: Arc::new(readers),
            locks,
            tables: RwLock::new(BTreeMap::new()),
            names: RwLock::new(names),
            foreign_version: AtomicU64::new(1),
            ddl: Mutex::new(()),
            opening: Mutex::new(()),
            trimming: Mutex::new(()),
            images: Images::default(),
            target,
            backups: Backups::default(),
            prepared: PreparedSet::default(),
            write_sets: WriteSets::default(),
            queue: Queue::new(held_writers.clone()),
            works: Works::default(),
            ledger: Ledger::default(),
            pressure,
            disk: DiskFull::new(held_writers.clone()),
            held_writers,
            upkeep: Upkeep::default(),
            large_commits: LargeCommits::default(),
            messages: Messages::new(log),
            loads: AtomicUsize::new(0),
            load_keys: Arc::default(),
            next_txn: AtomicU64::new(1),
            counters: CoreCounters::default(),
        }
    }

    pub fn durability(&self) -> Durability {
        Durability::from_u8(self.durability.load(Ordering::Relaxed)).unwrap_or(Durability::Sync)
    }

    pub fn set_durability(&self, mode: Durability) {
        self.durability.store(mode as u8, Ordering::Relaxed);
    }

    pub(crate) fn next_txn_id(&self) -> TxnId {
        TxnId(self.next_txn.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn new_snapshot(&self) -> Snapshot {
        self.snapshots.register(&self.clock)
    }

    /// Refuses new writes when the database is read-only, poisoned or out of disk space.
    pub(crate) fn may_write(&self) -> Result<()> {
        self.may_free_space()?;
        self.disk.check()
    }

    /// As [`Core::may_write`] for what makes room on a full disk: DROP and TRUNCATE.
    pub(crate) fn may_free_space(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the database was opened for reading only",
            ));
        }
        self.shared.check_poison()
    }

    /// Steps 1 to 5 for the whole write set. Returns the record's end, or `None` for an empty set. It waits for memory
    /// before anything is logged; an interrupt of `owner` ends that wait.
    ///
    /// `covered`: the transaction has locked what it wrote. If not, and readers of ranges have come, fails with
    /// `LockNoWait`: it must lock first (RX2).
    pub(crate) fn commit(
        self: &Arc<Self>,
        writes: &mut WriteSet,
        tables: &[Arc<Table>],
        covered: bool,
        owner: &OwnerHandle,
    ) -> Result<Option<Lsn>> {
        if writes.is_empty() {
            return Ok(None);
        }
        self.may_write()?;
        let large = writes.bytes() > LARGE;
        if large {
            // Writers are delayed here, before there is a second copy of the changes.
            self.pace(writes.bytes() as u64 / 2, owner)?;
        }
        let _memory = large.then(|| self.enter_large(writes.bytes(), owner)).transpose()?;
        let mut payload = Vec::with_capacity(SMALL_RECORD);
        let bytes = match self.options.scratch {
            // SCR1.
            true => {
                frond_base::put_varint(&mut payload, 0);
                writes.bytes() as u64
            }
            false => {
                encode_entries(writes, &mut payload)?;
                payload.len() as u64
            }
        };
        let room = self.shared.wal.reserve(record_bytes(&payload, tables), Claim::Ordinary);
        let _room = room.map_err(|e| self.disk.note(e))?;
        if !large {
            self.pace(bytes, owner)?;
        }
        self.commit_payload(payload, bytes, writes, tables, covered)
    }

    /// Waits for memory for the record of a large write set: with its packed form it takes about as much as
    /// the set.
    pub(crate) fn enter_large(
        &self,
        write_set: usize,
        owner: &OwnerHandle,
    ) -> Result<LargeCommit<'_>> {
        let interrupted = || owner.is_interrupted();
        let memory = self.large_commits.enter(&self.shared.budget, write_set, &interrupted)?;
        self.fit_cache();
        self.pressure.note_memory(&self.shared.budget);
        Ok(memory)
    }

    /// As [`Core::commit`] for a few rows of the system table: not held back by memory or a full disk, as
    /// long as the log has room.
    pub(crate) fn commit_definition(
        self: &Arc<Self>,
        writes: &mut WriteSet,
        tables: &[Arc<Table>],
        claim: Claim,
    ) -> Result<Option<Lsn>> {
        self.may_free_space()?;
        let mut payload = Vec::with_capacity(SMALL_RECORD);
        encode_entries(writes, &mut payload)?;
        let room = self.shared.wal.reserve(record_bytes(&payload, tables), claim);
        let _room = match claim {
            Claim::Ordinary => room.map_err(|e| self.disk.note(e))?,
            // This refusal is not noted as a full disk: ordinary claims notice that.
            _ => room?,
        };
        let bytes = payload.len() as u64;
        self.commit_payload(payload, bytes, writes, tables, true)
    }

    fn commit_payload(
        self: &Arc<Self>,
        payload: Vec<u8>,
        bytes: u64,
        writes: &WriteSet,
        tables: &[Arc<Table>],
        covered: bool,
    ) -> Result<Option<Lsn>> {
        let (end, news) = self.append_and_apply(payload, writes, tables, covered)?;
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        self.counters.entries_committed.fetch_add(writes.entries() as u64, Ordering::Relaxed);
        self.wrote(bytes, &news);
        Ok(Some(end))
    }

    fn append_and_apply(
        &self,
        mut payload: Vec<u8>,
        writes: &WriteSet,
        tables: &[Arc<Table>],
        covered: bool,
    ) -> Result<(Lsn, News)> {
        let counters = self.put_counters(&mut payload, writes, tables);
        let prepared = self.shared.wal.prepare(KIND_TRANSACTION, &payload)?;
        // Rejected: one gate per tree. A commit would have to take several locks in order. Freezing
        // is rare, so this one lock costs one shared increment per transaction (not per row).
        let _whole = Whole(&self.shared);
        let gate = self.gate.read();
        self.readers_came(covered)?;
        let at = self.append(tables, &counters, |wal| wal.append_prepared(&prepared))?;
        let news = self.apply(writes, tables, at.start, at.end);
        self.clock.finish(at.end);
        drop(gate);
        Ok((at.end, news))
    }

    /// Ends a record's payload with the counters of `tables`, and returns them.
    pub(crate) fn put_counters(
        &self,
        payload: &mut Vec<u8>,
        writes: &WriteSet,
        tables: &[Arc<Table>],
    ) -> Vec<CounterRecord> {
        let deltas = (tables.len() > 1).then(|| writes.row_deltas());
        let delta = |id| match &deltas {
            Some(deltas) => deltas.get(id).copied().unwrap_or(0),
            None => writes.row_delta(id),
        };
        let counters: Vec<_> = tables.iter().map(|t| t.counter_record(delta(t.id()))).collect();
        record::put_counters(payload, &counters);
        counters
    }

    /// Step 3; `append` appends the record. Nothing is counted if it fails.
    pub(crate) fn append(
        &self,
        tables: &[Arc<Table>],
        counters: &[CounterRecord],
        append: impl FnOnce(&Wal) -> Result<Appended>,
    ) -> Result<Appended> {
        let wal = &self.shared.wal;
        let now = self.shared.vfs.wall_clock().as_secs();
        let _ordered = self.commit.lock();
        let from = wal.end();
        tables.iter().for_each(|table| table.store().touched(from));
        let at = append(wal)?;
        for (table, counters) in tables.iter().zip(counters) {
            table.counters().updated.store(now, Ordering::Relaxed);
            table.counters().rows.fetch_add(counters.rows_delta, Ordering::Relaxed);
            table.note_logged(counters);
        }
        let noted = |t: &Arc<Table>| t.store().dirty_from() <= at.start;
        debug_assert!(tables.iter().all(noted), "a record that a table does not need (ST3)");
        self.clock.begin_commit_at(at.end);
        Ok(at)
    }

    /// Step 4: the entries get the sequence `seq`, and their buffers need the log from `log_from` on. A dropped table,
    /// which a prepared transaction may have, takes none. The caller passes on the result to [`Core::wrote`], behind the gate.
    #[must_use]
    pub(crate) fn apply(
        &self,
        writes: &WriteSet,
        tables: &[Arc<Table>],
        log_from: Lsn,
        seq: Seq,
    ) -> News {
        assert!(self.gate.is_locked(), "entries of {seq} without the gate (C1)");
        // Only in debug builds: `kept_from` takes a latch of the log.
        debug_assert!(
            self.shared.wal.kept_from() <= log_from,
            "a record is gone before it is applied (K4)"
        );
        let mut news = News::new();
        let mut trees = trees_of(writes, tables).fuse();
        loop {
            let some: [_; FETCHED] = std::array::from_fn(|_| trees.next());
            if some[FETCHED - 1].is_some() {
                fetch(&some);
            }
            for (table, tree) in some.iter().flatten() {
                if !table.is_dropped() && write_tree(table, *tree, writes, log_from, seq) {
                    news.push(((*table).clone(), tree.index));
                }
            }
            if some[FETCHED - 1].is_none() {
                return news;
            }
        }
    }

    /// Step 6: the commit whose record ends at `end` is acknowledged when this returns `Ok`.
    pub(crate) fn acknowledge(&self, end: Lsn) -> Result<()> {
        self.acknowledge_by(end, |wal| wal.sync_to(end))
    }

    /// As `acknowledge`, for a transaction that a coordinator ends together with others. True: the caller must report
    /// the end to the log ([`Wal::coordinated_ended`]).
    pub(crate) fn acknowledge_coordinated(&self, end: Lsn) -> Result<bool> {
        let mut synced = false;
        self.acknowledge_by(end, |wal| {
            synced = true;
            wal.sync_coordinated_to(end)
        })?;
        Ok(synced)
    }

    fn acknowledge_by(&self, end: Lsn, sync: impl FnOnce(&Wal) -> Result<()>) -> Result<()> {
        let wal = &self.shared.wal;
        let mode = self.durability();
        let done = match mode {
            Durability::Sync => sync(wal),
            Durability::Write => wal.write_to(end),
            Durability::EachSecond => return Ok(()),
        };
        done.map_err(|e| self.shared.poison(e))?;
        let durable = wal.durable();
        let is_kept = mode != Durability::Sync || durable >= end;
        assert!(is_kept, "a commit up to {end} is acknowledged, durable is {durable} (C3)");
        Ok(())
    }

    /// A transaction ends without a commit record, but handed out counter values: log them, so that a
    /// restart does not hand them out again. Not synced: the next commit's sync covers it.
    pub(crate) fn log_unlogged_counters(&self, tables: &[Arc<Table>]) {
        for table in tables {
            if !table.is_unlogged() || table.is_dropped() {
                continue;
            }
            // On a full disk they stay unlogged until the next commit.
            let Ok(_room) = self.shared.wal.reserve(COUNTER_BYTES, Claim::Ordinary) else { return };
            let _ordered = self.commit.lock();
            table.store().touched(self.shared.wal.end());
            let mut payload = Vec::new();
            let counters = table.counter_record(0);
            record::put_counters(&mut payload, &[counters]);
            // A poisoned log refuses every commit anyway; the counters then matter to nobody.
            if self.shared.wal.append(KIND_COUNTERS, &payload).is_ok() {
                table.note_logged(&counters);
            }
        }
    }
}

/// Trees that a commit wrote to and that something else has to be done for.
pub(crate) type News = Vec<(Arc<Table>, IndexNo)>;

/// The trees of `writes`, each with its table, which is one of `tables`.
fn trees_of<'a>(
    writes: &'a WriteSet,
    tables: &'a [Arc<Table>],
) -> impl Iterator<Item = (&'a Arc<Table>, TreeId)> {
    let mut at_table = 0;
    writes.trees().map(move |tree| {
        // Trees and tables are in the order of their first change: the next one is near.
        let from_here = (at_table..tables.len()).chain(0..at_table);
        let found = from_here.into_iter().find(|at| tables[*at].id() == tree.table);
        at_table = found.expect("every tree written to belongs to a noted table");
        (&tables[at_table], tree)
    })
}

/// Trees that [`fetch`] looks at together. A thread that holds more views than this at once pays for them with a shared counter.
const FETCHED: usize = 8;

/// Prefetches what [`write_tree`] needs of some trees. A commit may change thousands by a row each, which are in no cache: each would
/// wait ten times in a row for memory.
fn fetch(trees: &[Option<(&Arc<Table>, TreeId)>; FETCHED]) {
    let slots = trees.map(|tree| tree.map(|(table, tree)| table.slot(tree.index)));
    let dropped = trees.iter().flatten().filter(|(table, _)| table.is_dropped()).count();
    let noted = slots.iter().flatten().fold(0, |sum, s| sum ^ s.noted.load(Ordering::Relaxed));
    std::hint::black_box(dropped as u64 ^ noted);
    Tree::fetch(slots.map(|slot| slot.map(|slot| &slot.tree)));
}

/// Entries of one tree go into its buffer; the record that has them starts at `from`. True: the ledger has to know, or the buffer is
/// to be frozen.
fn write_tree(table: &Table, tree: TreeId, writes: &WriteSet, from: Lsn, seq: Lsn) -> bool {
    let slot = table.slot(tree.index);
    let bytes = slot.tree.write(from, writes.iter_newest(tree).map(|e| EntryRef { seq, ..e }));
    if slot.is_watched() {
        let puts = writes.iter_newest(tree).filter(|e| e.kind == EntryKind::Put);
        slot.note(puts.map(|e| e.key));
    }
    Ledger::is_news(bytes, slot.noted.load(Ordering::Acquire)) || slot.tree.wants_freeze()
}

/// Held from a commit's record to its publication. A panic in between must stop all later commits
/// from being acknowledged, because none of them could become visible.
pub(crate) struct Whole<'a>(pub(crate) &'a Shared);

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let what = "a panic ended a commit half-way; restart to recover";
            self.0.poison(Error::new(ErrorKind::Panic, what));
        }
    }
}

/// Bytes of one table's counters in a record, at most.
const COUNTER_BYTES: u64 = 64;

/// Bytes of the record that `payload` and the counters of `tables` become, at most.
pub(crate) fn record_bytes(payload: &[u8], tables: &[Arc<Table>]) -> u64 {
    payload.len() as u64 + COUNTER_BYTES * (1 + tables.len() as u64)
}

/// Room for the record of a few rows, so that its payload is allocated once.
pub(crate) const SMALL_RECORD: usize = 512;
/// From here on a payload grows by what it needs, bytes.
const LARGE_RECORD: usize = 64 << 10;

/// Appends the tree sections of a transaction record: newest version of each key, in key order.
pub(crate) fn encode_entries(writes: &WriteSet, payload: &mut Vec<u8>) -> Result<()> {
    frond_base::put_varint(payload, writes.trees().count() as u64);
    for tree in writes.trees() {
        // The count is known only after the walk: versions of one key are counted once.
        let size = |e: EntryRef<'_>| e.key.len() + e.value.len() + record::ENTRY_OVERHEAD;
        let (entries, bytes) =
            writes.iter_newest(tree).fold((0, 0), |(n, bytes), e| (n + 1, bytes + size(e)));
        let room = bytes + record::SECTION_OVERHEAD;
        // Doubling a large payload would waste memory, and many small trees would each move a small one.
        match payload.len() + room < LARGE_RECORD {
            true => payload.reserve(room),
            false => payload.reserve_exact(room),
        }
        record::put_tree_section(payload, tree, entries);
        for EntryRef { key, kind, value, .. } in writes.iter_newest(tree) {
            debug_assert!(kind == EntryKind::Put || value.is_empty());
            record::put_entry(payload, key, kind, value);
        }
        if payload.len() > TRANSACTION_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooBig,
                format!(
                    "a transaction of more than {TRANSACTION_BYTES_MAX} bytes: commit in smaller parts"
                ),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, AssertUnwindSafe};

    use frond_vfs::MemVfs;

    use super::*;

    /// The asserts of C1 and ST1 are reached and fail when they should.
    #[test]
    fn what_the_commit_path_relies_on_is_asserted() {
        let options = Options { background_threads: 0, ..Options::default() };
        let engine = crate::Engine::open(Arc::new(MemVfs::stepped()), options).unwrap();
        let core = engine.core();
        let table = core.system_table();
        let (from, none) = (core.shared.wal.end(), WriteSet::new());
        let broken = |id: &str, code: &dyn Fn()| {
            let panic = catch_unwind(AssertUnwindSafe(code)).unwrap_err();
            let what = panic.downcast_ref::<String>().cloned();
            let what = what.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_string()));
            assert!(what.as_ref().is_some_and(|what| what.contains(id)), "{id}: {what:?}");
        };
        broken("(C1)", &|| drop(core.apply(&none, &[], from, from + 8)));
        broken("(ST1)", &|| drop(table.version(from)));
        let _gate = core.gate.read();
        assert!(core.apply(&none, &[], from, from + 8).is_empty());
    }

    #[test]
    fn a_panic_within_a_commit_refuses_the_commits_after_it() {
        let options = Options { background_threads: 0, ..Options::default() };
        let engine = crate::Engine::open(Arc::new(MemVfs::stepped()), options).unwrap();
        let core = engine.core();
        drop(Whole(&core.shared));
        core.shared.check_poison().unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _whole = Whole(&core.shared);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        let refused = core.shared.check_poison().unwrap_err();
        assert!(refused.to_string().contains("half-way"), "{refused}");
    }
}
