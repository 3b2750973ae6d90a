//! An open table: its definition, trees, file and counters.
//!
//! Invariants:
//!
//! - TB1. Counters only grow (but for `set_auto_increment`, which logs a record of its own kind), so replay
//!   takes the largest that any record carries, whatever order commits reached the log in.
//! - TB2. A value is logged, by the record of its transaction or by a record of its own when that
//!   rolls back, before a later transaction's record can be durable. (Held by `tests/it/tables.rs`:
//!   `auto_increment_survives_restart_and_rollback`.)

pub(crate) mod chunk;
pub(crate) mod counters;
pub(crate) mod image;
pub(crate) mod numbers;
pub(crate) mod options;
pub mod read_counts;
pub(crate) mod readahead;
pub(crate) mod sampled;
pub(crate) mod store;
pub(crate) mod trees;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use frond_base::{IndexNo, Lsn, Result, Seq, TableId, TreeId};
use frond_row::{History, Schema};
use frond_tree::{Sizes, Tree, TreeLoader, Version};
use parking_lot::Mutex;

use crate::catalog::key_statistics::KeyStatistics;
use crate::catalog::versions::{self, Known};
use crate::catalog::{IndexState, TableDef};
use crate::record::{CounterRecord, NEXT_MAX};
use crate::table::image::TableImage;
use crate::table::sampled::{Sampled, State};
use crate::table::store::{TableStore, CLEAN};
use crate::table::trees::{Slot, Trees};

/// An open table. Shared by every transaction that uses it.
pub struct Table {
    id: TableId,
    def: ArcSwap<TableDef>,
    /// Grows with every change of the definition.
    stamp: AtomicU64,
    trees: Trees,
    /// Trees that recovery found and that the definition so far does not have.
    spare: Mutex<Vec<TreeLoader>>,
    store: Arc<TableStore>,
    counters: Counters,
    dropped: AtomicBool,
    /// While set, `checkpoint/mod.rs` writes no image (MV1): the table is exported, and its file does not
    /// change.
    still: AtomicBool,
    /// As the definition says at opening: discarding and importing make a new table (MV2).
    discarded: bool,
    /// Snapshots older than this may not read the table.
    oldest_snapshot: AtomicU64,
    /// Its trees were noted in the ledger at least once.
    swept: AtomicBool,
    known: Mutex<Known>,
    sampled: Sampled,
    /// The table that is to take the place of this one.
    twin: ArcSwapOption<Twin>,
}

/// A table that gets the rows of another one, with other keys (`catalog/rebuild.rs`).
pub(crate) struct Twin {
    pub table: Arc<Table>,
    pub schema: Arc<Schema>,
    /// The tree of the notes, if rows may have equal keys.
    pub notes: Option<IndexNo>,
}

/// Sizes of a table, in bytes, and its committed rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableStatistics {
    pub rows: u64,
    /// Estimated uncompressed bytes of the rows; primary index.
    pub data_bytes: u64,
    /// Estimated uncompressed bytes of the other indexes.
    pub index_bytes: u64,
    pub file_bytes: u64,
    /// Holes in the file.
    pub free_bytes: u64,
    /// About how many row changes were made since the table was opened; one that a later change
    /// replaced in memory does not count.
    pub changes: u64,
    /// When the last change was committed, in seconds since the Unix epoch; 0: not since the table was opened.
    pub updated: u64,
}

/// A table's counters, current in memory.
pub struct Counters {
    pub rows: AtomicI64,
    /// Next unused AUTO_INCREMENT value.
    pub auto_increment: AtomicU64,
    /// Statements that have the next values to themselves, or wait for that (`numbers.rs`).
    pub numbering: AtomicU32,
    /// Next unused hidden row id.
    pub row_id: AtomicU64,
    /// What the log or the image has of the two: values from there on are in no record yet.
    pub logged_auto_increment: AtomicU64,
    pub logged_row_id: AtomicU64,
    /// See [`TableStatistics::updated`]. Not on disk.
    pub updated: AtomicU64,
}

impl Table {
    pub(crate) fn new(
        def: Arc<TableDef>,
        trees: Vec<Tree>,
        store: Arc<TableStore>,
        counters: &CounterRecord,
    ) -> Table {
        assert_eq!(def.indexes.len(), trees.len());
        for (index, tree) in def.indexes.iter().zip(&trees) {
            if index.state == IndexState::Dropped {
                tree.abandon();
            }
        }
        let table = Table {
            id: def.id,
            discarded: def.is_discarded(),
            def: ArcSwap::new(def),
            stamp: AtomicU64::new(0),
            trees: Trees::new(trees),
            spare: Mutex::default(),
            store,
            counters: Counters {
                rows: AtomicI64::new(counters.rows_delta),
                auto_increment: AtomicU64::new(counters.auto_increment),
                numbering: AtomicU32::new(0),
                row_id: AtomicU64::new(counters.row_id),
                logged_auto_increment: AtomicU64::new(counters.auto_increment),
                logged_row_id: AtomicU64::new(counters.row_id),
                updated: AtomicU64::new(0),
            },
            dropped: AtomicBool::new(false),
            still: AtomicBool::new(false),
            oldest_snapshot: AtomicU64::new(0),
            swept: AtomicBool::new(false),
            known: Mutex::default(),
            sampled: Sampled::default(),
            twin: ArcSwapOption::empty(),
        };
        table.renew_rows(None);
        table
    }

    pub fn id(&self) -> TableId {
        self.id
    }

    pub fn def(&self) -> Arc<TableDef> {
        self.def.load_full()
    }

    pub(crate) fn set_def(&self, def: Arc<TableDef>) {
        assert_eq!(def.id, self.id);
        assert!(def.indexes.len() <= self.trees.len(), "an index without its tree (TDF1)");
        for (index, tree) in def.indexes.iter().zip(self.trees.iter()) {
            if index.state == IndexState::Dropped && !tree.is_abandoned() {
                tree.abandon();
            }
            tree.set_pages(index.page_bytes, index.compression);
        }
        let before = self.def();
        let before = Schema::decode(&before.schema, &before.name).map_or(0, |s| s.version);
        self.def.store(def);
        self.stamp.fetch_add(1, Ordering::AcqRel);
        self.renew_rows(Some(before));
    }

    /// Where rows are written besides, unless it was dropped.
    pub(crate) fn twin(&self) -> Option<Arc<Twin>> {
        self.twin.load_full().filter(|twin| !twin.table.is_dropped())
    }

    /// From now on who writes rows writes them to `twin` as well.
    pub(crate) fn set_twin(&self, twin: Option<Arc<Twin>>) {
        self.twin.store(twin);
        // Bindings look for it when they see another stamp.
        self.stamp.fetch_add(1, Ordering::AcqRel);
    }

    fn renew_rows(&self, before: Option<u32>) {
        let def = self.def();
        if def.history.is_empty() {
            return;
        }
        if let Ok(history) = self.history() {
            versions::renew_rows(&self.trees, &def, &history, before);
        }
    }

    /// The older schemas that rows may name; for the schema of the definition, also while indexes are built.
    pub fn history(&self) -> Result<History> {
        let mut known = self.known.lock();
        let stamp = self.stamp();
        known.history(&self.def(), stamp)
    }

    /// A number that grows with every change of the definition.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }

    /// All trees, also those of indexes that are being built and of dropped ones.
    pub fn trees(&self) -> &Trees {
        &self.trees
    }

    pub(crate) fn slot(&self, index: IndexNo) -> &Slot {
        self.trees.slot(index.into()).unwrap_or_else(|| panic!("there is no tree {index}"))
    }

    /// Adds the tree whose number is the next one.
    pub(crate) fn add_tree(&self, tree: Tree) {
        self.trees.add(tree);
    }

    /// Recovery: trees beyond those of the definition.
    pub(crate) fn set_spare(&self, spare: Vec<TreeLoader>) {
        *self.spare.lock() = spare;
    }

    pub(crate) fn take_spare(&self) -> Option<TreeLoader> {
        let mut spare = self.spare.lock();
        match spare.is_empty() {
            true => None,
            false => Some(spare.remove(0)),
        }
    }

    pub(crate) fn spare(&self) -> usize {
        self.spare.lock().len()
    }

    /// What [`Table::tree`] is called, without a look at it: a statement may ask this of thousands of tables.
    #[inline]
    pub(crate) fn tree_id(&self, index: IndexNo) -> TreeId {
        TreeId { table: self.id, index }
    }

    /// The tree of index `index`; panics when the table has no such index.
    pub fn tree(&self, index: IndexNo) -> &Tree {
        &self.trees[index]
    }

    /// The statistics in force, and a number that grows when others come; 0 when there are none.
    pub fn key_statistics(&self) -> (u64, Option<Arc<KeyStatistics>>) {
        (self.sampled.number(), self.sampled.current())
    }

    /// The number of [`Table::key_statistics`].
    #[inline]
    pub fn key_statistics_number(&self) -> u64 {
        self.sampled.number()
    }

    pub(crate) fn sampled(&self) -> &Sampled {
        &self.sampled
    }

    /// The state that decides whether statistics are old.
    pub(crate) fn state(&self) -> State {
        State { rows: self.rows(), changes: self.changes(), stamp: self.stamp() }
    }

    /// When the table is opened: the catalog has these statistics.
    pub(crate) fn recover_statistics(&self, saved: Option<&Arc<KeyStatistics>>) {
        let Some(saved) = saved else { return };
        let def = self.def();
        let known = |tree| saved.indexes.iter().any(|(t, _)| usize::from(*t) == tree);
        let mut indexes = def.indexes.iter().enumerate();
        let whole = indexes.all(|(tree, i)| i.state != IndexState::Live || known(tree));
        self.sampled.recovered(saved, whole, self.state());
    }

    pub(crate) fn store(&self) -> &Arc<TableStore> {
        &self.store
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Committed rows; never below zero for a reader that races with a commit.
    pub fn rows(&self) -> u64 {
        self.counters.rows.load(Ordering::Relaxed).max(0) as u64
    }

    pub(crate) fn noted(&self, index: IndexNo) -> u64 {
        self.slot(index).noted.load(Ordering::Acquire)
    }

    /// Whether this is the first call.
    pub(crate) fn mark_swept(&self) -> bool {
        !self.swept.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn set_noted(&self, index: IndexNo, bytes: u64) {
        self.slot(index).noted.store(bytes, Ordering::Release);
    }

    /// The oldest snapshot that may read the table: see `Engine::refuse_older_snapshots`.
    pub(crate) fn oldest_snapshot(&self) -> Seq {
        self.oldest_snapshot.load(Ordering::Acquire)
    }

    pub(crate) fn set_oldest_snapshot(&self, at: Seq) {
        self.oldest_snapshot.fetch_max(at, Ordering::AcqRel);
    }

    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Its rows were discarded: nothing reads or writes it.
    #[inline]
    pub fn is_discarded(&self) -> bool {
        self.discarded
    }

    /// The table is exported: no checkpoint until `set_still(false)`. Returns the old value.
    pub(crate) fn set_still(&self, on: bool) -> bool {
        self.still.swap(on, Ordering::AcqRel)
    }

    pub(crate) fn is_still(&self) -> bool {
        self.still.load(Ordering::Acquire)
    }

    /// Waits until a file that is being created exists; no file is created afterwards.
    pub(crate) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
        self.store.mark_dropped();
    }

    /// The oldest log position that recovery of this table needs, or `None`.
    pub fn needed_from(&self) -> Option<Lsn> {
        let dirty = self.store.dirty_from();
        let trees = self.trees.iter().filter_map(Tree::oldest_needed).min().unwrap_or(CLEAN);
        match dirty.min(trees) {
            CLEAN => None,
            lsn => Some(lsn),
        }
    }

    /// A value was taken that is in no record.
    pub(crate) fn is_unlogged(&self) -> bool {
        let c = &self.counters;
        c.auto_increment.load(Ordering::SeqCst) > c.logged_auto_increment.load(Ordering::SeqCst)
            || c.row_id.load(Ordering::SeqCst) > c.logged_row_id.load(Ordering::SeqCst)
    }

    /// A record with these counters is in the log. The caller holds the commit mutex, or recovers.
    pub(crate) fn note_logged(&self, logged: &CounterRecord) {
        let c = &self.counters;
        // The record may have been made before AUTO_INCREMENT was set to less.
        let now = c.auto_increment.load(Ordering::SeqCst);
        c.logged_auto_increment.fetch_max(logged.auto_increment.min(now), Ordering::SeqCst);
        c.logged_row_id.fetch_max(logged.row_id, Ordering::SeqCst);
    }

    /// A record in the log sets AUTO_INCREMENT, up or down.
    pub(crate) fn set_next(&self, auto_increment: u64) {
        let c = &self.counters;
        // In this order a value that is taken in between does not count as logged if it is in no record.
        c.logged_auto_increment.store(auto_increment, Ordering::SeqCst);
        c.auto_increment.store(auto_increment, Ordering::SeqCst);
    }

    /// The counters as a record logs them; [`Table::note_logged`] when it has.
    pub(crate) fn counter_record(&self, rows_delta: i64) -> CounterRecord {
        CounterRecord {
            table: self.id,
            rows_delta,
            auto_increment: self.counters.auto_increment.load(Ordering::Relaxed),
            row_id: self.counters.row_id.load(Ordering::Relaxed),
        }
    }

    /// The table's part of a checkpoint at `lsn`, in constant time; the caller holds the commit mutex and the
    /// edit mutex. The trees' images are made of the versions later, without the mutexes.
    pub(crate) fn version(&self, lsn: Lsn) -> (TableImage, Vec<Version>) {
        assert!(self.store.edits().is_locked(), "a version between an edit and its record (ST1)");
        let image = TableImage {
            lsn: Some(lsn),
            rows: self.counters.rows.load(Ordering::Relaxed),
            auto_increment: self.counters.auto_increment.load(Ordering::Relaxed),
            row_id: self.counters.row_id.load(Ordering::Relaxed),
            trees: Vec::new(),
        };
        (image, self.trees.iter().map(Tree::version).collect())
    }

    /// The next AUTO_INCREMENT value.
    #[inline]
    pub fn auto_increment(&self) -> u64 {
        self.counters.auto_increment.load(Ordering::Relaxed)
    }

    /// Sizes and counts, from metadata in memory.
    pub fn statistics(&self) -> TableStatistics {
        let (file_bytes, free_bytes) = self.store.existing_file().map_or((0, 0), |f| f.lengths());
        TableStatistics { file_bytes, free_bytes, ..self.sizes() }
    }

    /// The same without the file's bytes, which are behind a latch: each statement asks for this.
    pub fn sizes(&self) -> TableStatistics {
        let rows = self.rows();
        // A row has one entry in each index. The rest are tombstones and hidden versions, until a
        // merge drops them: without this correction a DELETE would make a table longer.
        let logical = |held: Sizes| match held.entries {
            0 => 0,
            entries if entries > rows => {
                (u128::from(held.bytes) * u128::from(rows) / u128::from(entries)) as u64
            }
            _ => held.bytes,
        };
        let mut trees = self.trees.iter().map(Tree::sizes);
        let first = trees.next().unwrap_or_default();
        TableStatistics {
            rows,
            changes: first.changes,
            data_bytes: logical(first),
            index_bytes: trees.map(logical).sum(),
            file_bytes: 0,
            free_bytes: 0,
            updated: self.counters.updated.load(Ordering::Relaxed),
        }
    }

    /// See [`TableStatistics::changes`].
    pub(crate) fn changes(&self) -> u64 {
        self.trees.first().map_or(0, |tree| tree.sizes().changes)
    }

    /// Replay: applies the counters of a record; with `set` values may decrease.
    pub(crate) fn recover_counters(&self, c: &CounterRecord, set: bool) {
        let mine = &self.counters;
        mine.rows.fetch_add(c.rows_delta, Ordering::Relaxed);
        if set {
            self.set_next(c.auto_increment);
            mine.row_id.store(c.row_id, Ordering::Relaxed);
        } else {
            mine.auto_increment.fetch_max(c.auto_increment, Ordering::Relaxed);
            mine.row_id.fetch_max(c.row_id, Ordering::Relaxed);
        }
        self.note_logged(c);
    }

    /// A fresh hidden row id.
    pub fn next_row_id(&self) -> u64 {
        let id = self.counters.row_id.fetch_add(1, Ordering::SeqCst);
        debug_assert!(id < NEXT_MAX, "N2: row ids are used up");
        id
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "table {} '{}'", self.id, self.def().name)
    }
}

pub(crate) fn tree_id(table: TableId, index: usize) -> TreeId {
    TreeId { table, index: IndexNo::try_from(index).expect("at most 64 indexes") }
}
