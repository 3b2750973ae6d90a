//! The two interfaces of a tree to the layers above: storage of runs, and the log of trunk edits.
//!
//! Invariants
//!
//! - TD1. A block is passed to `discard` (no edit and no commit ever named it), to `retire` (an
//!   edit removed it and the last reader has released it), or to neither (the tree was closed while
//!   it held the block); never to both.
//! - TD2. `sync` is called between the last `write_run` of the runs that an edit adds, or a commit
//!   attaches, and that edit or the commit's record.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{BlockId, Lsn, Result, Seq, TreeId};
use frond_cache::RowCache;
use frond_run::{BuiltRun, HeldIndex, Page, PageSource, Run, RunFormat, RunIndex, RunMeta};

use crate::edit::TrunkEdit;
use crate::extent::Extent;
use crate::run_memory::RunMemory;

/// Blocks of the table file as they are.
pub trait BlockSource {
    /// `len` bytes at `offset` of a block, not verified. `Corruption` when the block does not have them.
    fn read_block(&self, block: BlockId, offset: u64, len: u64) -> Result<Vec<u8>>;
    /// Where the block lies; `None`: the block map does not have it.
    fn block_extent(&self, block: BlockId) -> Option<Extent>;
}

/// The table file, as its trees see it. One store serves all trees of a table.
pub trait RunStore: PageSource + BlockSource + Send + Sync + 'static {
    /// A block number that was never used in this file.
    fn next_block(&self) -> BlockId;
    /// No block has this number, or a larger one, yet.
    fn blocks_end(&self) -> BlockId;
    /// Stores the bytes of a run, whose fences are `index`, under its block number; not yet durable.
    fn write_run(&self, run: &BuiltRun, index: &RunIndex) -> Result<Extent>;
    /// The handle `run` came into being with its fences, which are `index`.
    fn keeps_index(&self, _run: &Arc<Run>, _index: &RunIndex) {}
    /// Stores a pack under a block number of its own; not yet durable.
    fn write_pack(&self, block: BlockId, bytes: &[u8]) -> Result<()>;
    /// Makes all runs written so far durable.
    fn sync(&self) -> Result<()>;
    /// The block was written but no edit names it: its space may be reused at once.
    fn discard(&self, block: BlockId);
    /// The edit logged at `lsn` removed the run, or a durable image of `lsn` does not name the pack any
    /// more, and nobody reads it: its space may be reused once the log is durable up to there. The
    /// thread that releases the run last calls this, and that may be a reader. So an implementation
    /// only notes the block; it never waits and never panics.
    fn retire(&self, block: BlockId, lsn: Lsn);
    /// A trunk takes about `now` bytes of memory and took `before` so far. `before` is 0 for a new
    /// trunk, `now` is 0 for one that is dropped.
    fn charge_trunk(&self, _before: u64, _now: u64) {}
    /// Where runs that are built get their memory, if it is kept.
    fn run_memory(&self) -> Option<&RunMemory> {
        None
    }
    /// The cache of single rows, if there is one.
    fn rows(&self) -> Option<&RowCache> {
        None
    }
    /// Readers have made work for one of the trees: see [`crate::Tree::take_reader_news`] and [`crate::Tree::wants_freeze`].
    fn note_reader_news(&self) {}
    /// Many pages were read for single rows: the caches' shares of memory may have to change.
    fn judge_rows(&self) {}
    /// For a store that has counts in place of entries (`counted.rs`): the runs that a merge of these
    /// pieces writes. `None`: the store has entries, which are merged.
    fn count_merge(
        &self,
        _pieces: &dyn Fn() -> Vec<CountedPiece>,
        _format: &RunFormat,
        _target_bytes: u64,
    ) -> Option<Vec<RunMeta>> {
        None
    }
}

/// Entries that a merge takes in, spread evenly over the keys from `lo` to below `hi`.
#[derive(Clone, Debug)]
pub struct CountedPiece {
    pub lo: Vec<u8>,
    /// `None`: to the end of all keys.
    pub hi: Option<Vec<u8>>,
    pub entries: u64,
}

/// The log, as a tree sees it.
pub trait EditLog: Send + Sync + 'static {
    /// Appends `edit` and then calls `publish` exactly once with the edit's position, which is
    /// where its record ends, before another edit of the same tree can be appended. On `Err` it
    /// must not have called it.
    fn log_edit(&self, tree: TreeId, edit: &TrunkEdit, publish: &mut dyn FnMut(Lsn)) -> Result<()>;
}

/// `TrunkRun::fate` of a run that no edit names yet.
const FRESH: u64 = u64::MAX;
/// `TrunkRun::fate` of a run that the trunk holds. Any smaller number is the position of the edit
/// that removed it.
const LIVE: u64 = u64::MAX - 1;

/// A stored run with the duty to tell the store when it is no longer needed (TD1).
pub(crate) struct TrunkRun {
    pub run: Arc<Run>,
    pub extent: Extent,
    store: Arc<dyn RunStore>,
    fate: AtomicU64,
}

impl TrunkRun {
    /// A run just written: dropped before [`Self::set_live`], it is discarded.
    pub fn fresh(run: Run, extent: Extent, store: Arc<dyn RunStore>) -> TrunkRun {
        TrunkRun::held(run, extent, store, FRESH)
    }

    fn held(run: Run, extent: Extent, store: Arc<dyn RunStore>, fate: u64) -> TrunkRun {
        let run = Arc::new(run);
        if let Some(index) = run.cached_index() {
            store.keeps_index(&run, &index);
        }
        TrunkRun { run, extent, store, fate: AtomicU64::new(fate) }
    }

    /// A run that an edit or image names already.
    pub fn live(meta: RunMeta, extent: Extent, store: Arc<dyn RunStore>) -> TrunkRun {
        TrunkRun { run: Arc::new(Run::new(meta)), extent, store, fate: AtomicU64::new(LIVE) }
    }

    /// The run with the sequence that its transaction got. The old handle must not free the block
    /// any more.
    pub fn committed_at(&self, seq: Seq) -> TrunkRun {
        let was = self.fate.swap(LIVE, Ordering::AcqRel);
        // Live already: the record of a prepared transaction names it.
        assert!(was >= LIVE, "block {} is retired before its commit (PV1)", self.block());
        let meta = self.meta().clone().committed_at(seq);
        let run = match self.run.cached_index() {
            Some(index) => Run::with_shared_index(meta, index.keep()),
            None => Run::new(meta),
        };
        let (extent, store) = (self.extent, self.store.clone());
        TrunkRun::held(run, extent, store, LIVE)
    }

    pub fn set_live(&self) {
        let was = self.fate.swap(LIVE, Ordering::AcqRel);
        assert!(was >= LIVE, "block {} is retired and comes back (TD1)", self.block());
    }

    pub fn set_retired(&self, lsn: Lsn) {
        assert!(lsn < LIVE, "a log position");
        let was = self.fate.swap(lsn, Ordering::AcqRel);
        assert_eq!(was, LIVE, "block {} leaves the trunk twice (TD1)", self.block());
    }

    pub fn meta(&self) -> &RunMeta {
        &self.run.meta
    }

    pub fn block(&self) -> BlockId {
        self.run.meta.block()
    }

    #[inline]
    pub fn index(&self) -> Result<HeldIndex> {
        match self.run.cached_index() {
            Some(index) => Ok(index),
            None => Ok(self.store.index(&self.run)?.into()),
        }
    }

    pub fn page_in_memory(&self, page: u32) -> Option<Arc<Page>> {
        self.store.page_in_memory(&self.run, page)
    }
}

impl Drop for TrunkRun {
    fn drop(&mut self) {
        match self.fate.load(Ordering::Acquire) {
            FRESH => self.store.discard(self.block()),
            LIVE => {}
            lsn => self.store.retire(self.block(), lsn),
        }
    }
}
