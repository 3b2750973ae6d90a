//! Trees that move counts in place of entries: a model of what a tree writes at sizes that nobody can measure.
//!
//! Planner, router, drafts, the shape of the trunk and the edits are those of the engine. Only the merge of
//! entries is replaced: a run is an estimate of how many entries lie where. Keys are numbers of 64 bits, and
//! every freeze spreads its entries evenly over them, as random keys are by their rank.
//!
//! Not modelled: keys that arrive in order, deletions, readers' heat, and work that falls behind: each
//! freeze is followed by all work that is due.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{AllReaders, BlockId, Error, ErrorKind, Lsn, Result, TableId, TreeId};
use frond_run::testing::index_of;
use frond_run::{
    Access, BuiltRun, Compression, KeyShape, Page, PageSource, Run, RunFormat, RunIdentity,
    RunIndex, RunMeta, TailExtent,
};
use parking_lot::Mutex;

use crate::edit::TrunkEdit;
use crate::extent::Extent;
use crate::options::TreeOptions;
use crate::plan::{JobKind, Step};
use crate::push::Push;
use crate::slice::Slice;
use crate::store::{BlockSource, CountedPiece, EditLog, RunStore, TrunkRun};
use crate::tree::Tree;

const ID: TreeId = TreeId { table: TableId(1), index: 1 };

/// Sizes of the entries of an index.
#[derive(Clone, Copy, Debug)]
pub struct EntrySizes {
    /// Key bytes before encoding.
    pub logical: f64,
    /// Stored bytes.
    pub stored: f64,
    /// Stored bytes of what is in a write buffer, as the router estimates them.
    pub estimated: f64,
}

/// Figures of a model since it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelCounts {
    pub edits: u64,
    /// Bytes of edits in the log.
    pub edit_bytes: u64,
    pub syncs: u64,
    pub flushes: u64,
    pub merges: u64,
}

/// A tree of counts.
pub struct CountedTree {
    pub tree: Tree,
    store: Arc<Counts>,
    log: Arc<CountingLog>,
    flushes: u64,
    merges: u64,
}

/// Keys from `lo` to below `hi`, with so many entries.
type Piece = (u64, u64, u64);

struct Counts {
    next: AtomicU64,
    pieces: Mutex<HashMap<BlockId, Vec<Piece>>>,
    sizes: EntrySizes,
    page_bytes: f64,
    syncs: AtomicU64,
}

#[derive(Default)]
struct CountingLog {
    edits: AtomicU64,
    bytes: AtomicU64,
}

impl CountedTree {
    /// An empty tree with the format of pages that secondary indexes have by default.
    pub fn new(shape: impl FnOnce(&mut TreeOptions), sizes: EntrySizes) -> CountedTree {
        let page_bytes = 16 << 10;
        let format = RunFormat {
            page_bytes,
            compression: Compression::None,
            key_shape: KeyShape::variable(),
            filter: false,
        };
        let mut options = TreeOptions::new(format, format);
        shape(&mut options);
        let store = Arc::new(Counts {
            next: AtomicU64::new(1),
            pieces: Mutex::default(),
            sizes,
            page_bytes: f64::from(page_bytes),
            syncs: AtomicU64::new(0),
        });
        let log = Arc::new(CountingLog::default());
        let tree = Tree::new(ID, options, store.clone(), log.clone(), Arc::new(AllReaders));
        CountedTree { tree, store, log, flushes: 0, merges: 0 }
    }

    /// A write buffer of `entries` entries is frozen and moved down, and all work that this makes is done.
    pub fn freeze(&mut self, entries: u64) -> Result<()> {
        let meta = self.store.run(&[(0, u64::MAX, entries)], self.store.sizes.estimated);
        let (inner, store) = (&self.tree.inner, self.store.clone());
        let extent = Extent { offset: 0, len: meta.bytes };
        let run = TrunkRun::fresh(Run::new(meta), extent, store);
        let Some(mut push) = Push::counted(inner, Slice::whole(Arc::new(run))) else {
            return Ok(());
        };
        while push.step(inner)? == Step::More {}
        self.work()
    }

    fn work(&mut self) -> Result<()> {
        while let Some(plan) = self.tree.plan() {
            let Some(mut job) = self.tree.begin(&plan, vec![1]) else { continue };
            match job.kind() {
                JobKind::Merge => self.merges += 1,
                _ => self.flushes += 1,
            }
            while job.step()? == Step::More {}
        }
        Ok(())
    }

    pub fn counts(&self) -> ModelCounts {
        ModelCounts {
            edits: self.log.edits.load(Ordering::Relaxed),
            edit_bytes: self.log.bytes.load(Ordering::Relaxed),
            syncs: self.store.syncs.load(Ordering::Relaxed),
            flushes: self.flushes,
            merges: self.merges,
        }
    }
}

fn number(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    // A longer key lies behind the number of its first eight bytes.
    u64::from_be_bytes(bytes).saturating_add(u64::from(key.len() > 8))
}

fn part(total: u64, of: u64, whole: u64) -> u64 {
    (u128::from(total) * u128::from(of) / u128::from(whole.max(1))) as u64
}

/// The key at which `before` of the pieces' entries lie below.
fn key_at(pieces: &[Piece], mut before: u64) -> u64 {
    for (lo, hi, entries) in pieces {
        if before < *entries {
            return lo + part(hi - lo, before, *entries);
        }
        before -= entries;
    }
    pieces.last().map_or(0, |(_, hi, _)| *hi)
}

/// The pieces' entries from number `from` to before number `upto`.
fn stretch(pieces: &[Piece], from: u64, upto: u64) -> Vec<Piece> {
    let (mut out, mut at) = (Vec::new(), 0);
    for (lo, hi, entries) in pieces {
        let (a, b) = (from.max(at), upto.min(at + entries));
        if a < b {
            let key = |n: u64| lo + part(hi - lo, n - at, *entries);
            let piece_hi = if b == at + entries { *hi } else { key(b) };
            out.push((key(a), piece_hi, b - a));
        }
        at += entries;
    }
    out
}

impl Counts {
    /// The run of `pieces`, which are not empty.
    fn run(&self, pieces: &[Piece], entry_bytes: f64) -> RunMeta {
        let block = self.next.fetch_add(1, Ordering::Relaxed);
        let entries: u64 = pieces.iter().map(|(_, _, n)| n).sum();
        let pages = (entries as f64 * self.sizes.logical / self.page_bytes).ceil().max(1.0);
        let bytes = (entries as f64 * entry_bytes + pages * 16.0 + 64.0) as u64;
        let (first, last) = (pieces[0].0, pieces[pieces.len() - 1].1 - 1);
        self.pieces.lock().insert(block, pieces.to_vec());
        RunMeta {
            id: RunIdentity { table: ID.table, block },
            shape: KeyShape::variable(),
            bytes: bytes.next_multiple_of(4096),
            pages: pages as u32,
            entries,
            tombstones: 0,
            logical_bytes: (entries as f64 * self.sizes.logical) as u64,
            min_key: first.to_be_bytes()[..].into(),
            max_key: last.max(first).to_be_bytes()[..].into(),
            max_seq: 0,
            index: TailExtent { offset: 0, len: 0, checksum: 0 },
            has_filter: false,
            one_seq: false,
        }
    }

    fn none(&self) -> Error {
        Error::new(ErrorKind::Unsupported, "runs of counts have no bytes")
    }
}

impl PageSource for Counts {
    fn page(&self, _: &Arc<Run>, _: u32, _: Access) -> Result<Arc<Page>> {
        Err(self.none())
    }

    fn index(&self, run: &Arc<Run>) -> Result<Arc<RunIndex>> {
        let load = || {
            let pieces = self.pieces.lock();
            let pieces = pieces.get(&run.meta.block()).ok_or_else(|| self.none())?;
            let (entries, pages) = (run.meta.entries, u64::from(run.meta.pages));
            let first = |p| key_at(pieces, part(entries, p, pages)).to_be_bytes();
            index_of(&run.meta, &(0..pages).map(first).collect::<Vec<_>>())
        };
        run.index_or_load(load, |_| ())
    }
}

impl BlockSource for Counts {
    fn read_block(&self, _: BlockId, _: u64, _: u64) -> Result<Vec<u8>> {
        Err(self.none())
    }

    fn block_extent(&self, _: BlockId) -> Option<Extent> {
        None
    }
}

impl RunStore for Counts {
    fn next_block(&self) -> BlockId {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn blocks_end(&self) -> BlockId {
        self.next.load(Ordering::Relaxed)
    }

    fn write_run(&self, _: &BuiltRun, _: &RunIndex) -> Result<Extent> {
        Err(self.none())
    }

    fn write_pack(&self, _: BlockId, _: &[u8]) -> Result<()> {
        Err(self.none())
    }

    fn sync(&self) -> Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn discard(&self, block: BlockId) {
        self.pieces.lock().remove(&block);
    }

    fn retire(&self, block: BlockId, _: Lsn) {
        self.pieces.lock().remove(&block);
    }

    fn count_merge(
        &self,
        pieces: &dyn Fn() -> Vec<CountedPiece>,
        _: &RunFormat,
        target_bytes: u64,
    ) -> Option<Vec<RunMeta>> {
        let upto = |hi: &Option<Vec<u8>>| hi.as_ref().map_or(u64::MAX, |hi| number(hi));
        let pieces: Vec<Piece> = pieces()
            .iter()
            .filter(|p| p.entries > 0)
            .map(|p| (number(&p.lo), upto(&p.hi), p.entries))
            .collect();
        let entries: u64 = pieces.iter().map(|(_, _, n)| n).sum();
        let entry_bytes = self.sizes.stored;
        let most = (target_bytes as f64 / entry_bytes).max(1.0) as u64;
        let mut runs = Vec::new();
        let mut at = 0;
        while at < entries {
            let upto = entries.min(at.saturating_add(most));
            runs.push(self.run(&stretch(&pieces, at, upto), entry_bytes));
            at = upto;
        }
        Some(runs)
    }
}

impl EditLog for CountingLog {
    fn log_edit(&self, _: TreeId, edit: &TrunkEdit, publish: &mut dyn FnMut(Lsn)) -> Result<()> {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        publish(self.edits.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}
