//! A store and a log in memory, for tests and simulations of this crate and the ones above it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{BlockId, Error, ErrorKind, Lsn, Result, Seq, TreeId};
use frond_cache::{Budget, RowCache, RowCaching};
use frond_run::{Access, BuiltRun, Page, PageSource, Run, RunIndex};
use parking_lot::Mutex;

use crate::edit::TrunkEdit;
use crate::extent::Extent;
use crate::plan::Step;
use crate::store::{BlockSource, EditLog, RunStore};
use crate::tree::Tree;

/// Runs in memory. Pages are parsed once and kept.
#[derive(Default)]
pub struct MemStore {
    next: AtomicU64,
    blocks: Mutex<HashMap<BlockId, Vec<u8>>>,
    extents: Mutex<HashMap<BlockId, Extent>>,
    pages: Mutex<HashMap<(BlockId, u32), Arc<Page>>>,
    synced: Mutex<HashSet<BlockId>>,
    retired: Mutex<Vec<(BlockId, Lsn)>>,
    pub bytes_written: AtomicU64,
    pub pages_read: AtomicU64,
    /// Calls that read pages, one or several together.
    pub page_reads: AtomicU64,
    /// Makes writes and syncs fail.
    pub failing: AtomicBool,
    rows: Option<RowCache>,
    amid_read: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl MemStore {
    pub fn new() -> Arc<MemStore> {
        Arc::new(MemStore { next: AtomicU64::new(1), ..MemStore::default() })
    }

    /// One with a cache of rows that takes every row it is offered, and has room for some.
    pub fn with_rows(bytes: usize) -> Arc<MemStore> {
        let rows = RowCache::new(Arc::new(Budget::new(1 << 20)), RowCaching::Always);
        rows.set_limit(bytes);
        Arc::new(MemStore { next: AtomicU64::new(1), rows: Some(rows), ..MemStore::default() })
    }

    /// Calls `f` during the next point read, when it has its page and has not looked into it.
    pub fn amid_next_read(&self, f: impl FnOnce() + Send + 'static) {
        *self.amid_read.lock() = Some(Box::new(f));
    }

    /// Blocks held now.
    pub fn blocks(&self) -> Vec<BlockId> {
        let mut blocks: Vec<BlockId> = self.blocks.lock().keys().copied().collect();
        blocks.sort_unstable();
        blocks
    }

    /// Bytes of a block.
    pub fn len(&self, block: BlockId) -> u64 {
        self.blocks.lock().get(&block).map_or(0, |bytes| bytes.len() as u64)
    }

    pub fn retired(&self) -> Vec<(BlockId, Lsn)> {
        self.retired.lock().clone()
    }

    pub fn is_synced(&self, block: BlockId) -> bool {
        self.synced.lock().contains(&block)
    }

    /// As if the page cache were empty.
    pub fn forget_pages(&self) {
        self.pages.lock().clear();
    }

    /// Damages every page of `blocks`, or makes them whole again.
    pub fn flip(&self, blocks: &[BlockId]) {
        let mut held = self.blocks.lock();
        for block in blocks {
            let bytes = held.get_mut(block).into_iter().flatten();
            bytes.step_by(32).for_each(|byte| *byte ^= 0x40);
        }
        self.pages.lock().clear();
    }

    /// Page `from` of the block is found in the place of page `to` as well, if it was read.
    pub fn misplace(&self, block: BlockId, from: u32, to: u32) {
        let mut pages = self.pages.lock();
        let page = pages.get(&(block, from)).cloned();
        page.and_then(|page| pages.insert((block, to), page));
    }

    fn forget(&self, block: BlockId) {
        assert!(self.blocks.lock().remove(&block).is_some(), "block {block} is given back once");
        self.pages.lock().retain(|(b, _), _| *b != block);
    }

    fn range(&self, block: BlockId, offset: u64, len: u64) -> Result<Vec<u8>> {
        let blocks = self.blocks.lock();
        let bytes = blocks.get(&block);
        let range = offset as usize..offset.saturating_add(len) as usize;
        match bytes.and_then(|b| b.get(range)) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(Error::corruption("memory", format!("block {block} is not there"))),
        }
    }

    fn read(&self, run: &Arc<Run>, page: u32) -> Result<Arc<Page>> {
        let at = (run.meta.block(), page);
        if let Some(page) = self.pages.lock().get(&at) {
            return Ok(page.clone());
        }
        self.pages_read.fetch_add(1, Ordering::Relaxed);
        let (offset, len) = self.index(run)?.page_range(page);
        let bytes = self.range(at.0, offset, u64::from(len))?;
        let parsed = Arc::new(Page::parse(bytes, &run.meta, page, "memory")?);
        self.pages.lock().insert(at, parsed.clone());
        Ok(parsed)
    }

    fn may_write(&self) -> Result<()> {
        match self.failing.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Io, "told to fail")),
            false => Ok(()),
        }
    }
}

impl PageSource for MemStore {
    fn page(&self, run: &Arc<Run>, page: u32, _access: Access) -> Result<Arc<Page>> {
        self.page_reads.fetch_add(1, Ordering::Relaxed);
        self.read(run, page)
    }

    fn page_for_point(&self, run: &Arc<Run>, page: u32, read: &mut bool) -> Result<Arc<Page>> {
        *read = true;
        let page = self.page(run, page, Access::Point)?;
        let amid = self.amid_read.lock().take();
        amid.into_iter().for_each(|f| f());
        Ok(page)
    }

    fn pages(&self, wants: &[(Arc<Run>, u32)], _access: Access) -> Result<Vec<Arc<Page>>> {
        self.page_reads.fetch_add(1, Ordering::Relaxed);
        wants.iter().map(|(run, page)| self.read(run, *page)).collect()
    }

    fn index(&self, run: &Arc<Run>) -> Result<Arc<RunIndex>> {
        let load = || {
            let tail = &run.meta.index;
            let bytes = self.range(run.meta.block(), tail.offset, u64::from(tail.len))?;
            RunIndex::parse(&bytes, &run.meta, "memory")
        };
        run.index_or_load(load, |_| ())
    }
}

impl BlockSource for MemStore {
    fn read_block(&self, block: BlockId, offset: u64, len: u64) -> Result<Vec<u8>> {
        self.range(block, offset, len)
    }

    fn block_extent(&self, block: BlockId) -> Option<Extent> {
        let extents = self.extents.lock();
        extents.get(&block).copied()
    }
}

impl RunStore for MemStore {
    fn blocks_end(&self) -> BlockId {
        self.next.load(Ordering::Relaxed)
    }

    fn next_block(&self) -> BlockId {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn write_run(&self, run: &BuiltRun, _: &RunIndex) -> Result<Extent> {
        self.may_write()?;
        let len = run.bytes.len() as u64;
        let offset = self.bytes_written.fetch_add(len, Ordering::Relaxed);
        self.blocks.lock().insert(run.meta.block(), run.bytes.to_vec());
        self.extents.lock().insert(run.meta.block(), Extent { offset, len });
        Ok(Extent { offset, len })
    }

    fn write_pack(&self, block: BlockId, bytes: &[u8]) -> Result<()> {
        self.may_write()?;
        self.blocks.lock().insert(block, bytes.to_vec());
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.may_write()?;
        self.synced.lock().extend(self.blocks.lock().keys());
        Ok(())
    }

    fn discard(&self, block: BlockId) {
        self.forget(block);
    }

    fn rows(&self) -> Option<&RowCache> {
        self.rows.as_ref()
    }

    fn retire(&self, block: BlockId, lsn: Lsn) {
        self.retired.lock().push((block, lsn));
        self.forget(block);
    }
}

/// Keeps the edits of all trees, encoded.
#[derive(Default)]
pub struct MemLog {
    edits: Mutex<Vec<(TreeId, Vec<u8>)>>,
    /// Makes logging fail.
    pub failing: AtomicBool,
}

impl MemLog {
    pub fn new() -> Arc<MemLog> {
        Arc::default()
    }

    /// The edits of a tree with their positions.
    pub fn edits(&self, tree: TreeId) -> Vec<(Lsn, Vec<u8>)> {
        let edits = self.edits.lock();
        let own = edits.iter().enumerate().filter(|(_, (id, _))| *id == tree);
        own.map(|(i, (_, bytes))| (i as Lsn, bytes.clone())).collect()
    }
}

impl EditLog for MemLog {
    fn log_edit(&self, tree: TreeId, edit: &TrunkEdit, publish: &mut dyn FnMut(Lsn)) -> Result<()> {
        if self.failing.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Io, "told to fail"));
        }
        let mut edits = self.edits.lock();
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        publish(edits.len() as Lsn);
        edits.push((tree, bytes));
        Ok(())
    }
}

/// The debt that the newest image has of the tree; `None` when it has no packs, or the tree changed since.
pub fn stored_debt(tree: &Tree) -> Option<u64> {
    let view = tree.inner.view.load();
    view.trunk.root.stored.get().map(|_| view.trunk.sums.debt)
}

/// Does all work that the tree offers; returns the number of jobs.
pub fn drain(tree: &Tree, snapshots: &[Seq]) -> Result<usize> {
    let mut jobs = 0;
    while let Some(plan) = tree.plan() {
        if let Some(mut job) = tree.begin(&plan, snapshots.to_vec()) {
            while job.step()? == Step::More {}
            jobs += 1;
        }
    }
    Ok(jobs)
}
