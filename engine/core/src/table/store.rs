//! Storage of the runs of one table's trees: the table's file, read through the page cache.
//!
//! The file is created when the first run is written; a table whose rows still fit in write buffers
//! has none.
//!
//! The LSN of an edit is the end of its log record, everywhere.
//!
//! Invariants:
//!
//! - ST1. A trunk edit is appended to the log and published under `edits`, so that the order of edits in
//!   the log is the order in which they took effect, and an image taken under `edits` holds exactly the
//!   edits whose records end at or before its LSN.
//! - ST2. A retired block's extent is reused only after the edit that removed it is durable in the log:
//!   otherwise a crash could bring back a trunk that names overwritten bytes.
//! - ST3. `dirty_from` is at or below the start of the first log record that touched this table since its
//!   newest image, or `CLEAN`. It is lowered before the record is appended, under the mutex that orders
//!   the append (commit mutex or `edits`), and cleared under both; so a reader of the log's end and then
//!   of `dirty_from` misses no record below that end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use frond_base::{BlockId, Error, ErrorKind, Lsn, Result, TableId, TreeId};
use frond_cache::{PageKey, Part, RowCache};
use frond_run::{Access, BuiltRun, Page, PageSource, Run, RunIndex, RunMeta};
use frond_space::TableFile;
use frond_tree::{BlockSource, EditLog, Extent, RunMemory, RunStore, TrunkEdit};
use frond_wal::Claim;
use parking_lot::Mutex;

use crate::canary;
use crate::record::{edit_record, KIND_EDIT};
use crate::shared::Shared;
use crate::table::read_counts;
use crate::table::readahead::Plan;

/// `dirty_from` of a table that no record touched since its newest image.
pub const CLEAN: Lsn = u64::MAX;

/// The name of a table's file.
pub fn file_name(table: TableId) -> String {
    format!("{table}.frd")
}

/// Whether a file of that name is a table's, finished or not.
pub(crate) fn is_table_file(name: &str) -> bool {
    name.ends_with(".frd") || name.ends_with(".frd.new")
}

/// Run storage of one table.
pub struct TableStore {
    shared: Arc<Shared>,
    id: TableId,
    name: String,
    /// A table whose rows fit in write buffers has none.
    file: OnceLock<Box<TableFile>>,
    /// Held while the file is created. The latest failure, for the writer of a run whose block id
    /// cannot be used.
    creating: Mutex<Option<Error>>,
    /// The table was dropped: set under `creating`.
    dropped: AtomicBool,
    edits: Mutex<()>,
    /// Blocks written since the last sync: no edit may name them (TD2).
    unsynced: Mutex<BTreeSet<BlockId>>,
    dirty_from: AtomicU64,
    /// Bytes charged for the file's block map and free space.
    map_charged: Mutex<usize>,
    /// Pages of each run whose index was in memory, by block: of others no page is cached.
    cached: Mutex<BTreeMap<BlockId, u32>>,
}

impl TableStore {
    pub(crate) fn new(shared: Arc<Shared>, id: TableId) -> TableStore {
        TableStore {
            shared,
            id,
            name: file_name(id),
            file: OnceLock::new(),
            creating: Mutex::new(None),
            dropped: AtomicBool::new(false),
            edits: Mutex::new(()),
            unsynced: Mutex::default(),
            dirty_from: AtomicU64::new(CLEAN),
            map_charged: Mutex::new(0),
            cached: Mutex::default(),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Recovery hands over the file it found.
    pub(crate) fn set_file(&self, file: TableFile) {
        assert!(self.file.set(Box::new(file)).is_ok(), "a table has one file");
    }

    pub fn file_name(&self) -> &str {
        &self.name
    }

    pub fn existing_file(&self) -> Option<&TableFile> {
        self.file.get().map(|file| &**file)
    }

    /// From now on no file is created: it would be an orphan.
    pub(crate) fn mark_dropped(&self) {
        let _creation = self.creating.lock();
        self.dropped.store(true, Ordering::Release);
    }

    /// The table's file, created now when it does not exist yet. [`ErrorKind::Closed`] when there is none
    /// and the table was dropped.
    pub(crate) fn file(&self) -> Result<&TableFile> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let mut failure = self.creating.lock();
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        if let Some(e) = failure.as_ref().filter(|e| !e.kind().is_shortage()) {
            // The name may exist by now; a second attempt would report that instead of the cause.
            return Err(e.duplicate());
        }
        if self.dropped.load(Ordering::Acquire) {
            let what = format!("the table of {} was dropped", self.name);
            let e = Error::new(ErrorKind::Closed, what);
            *failure = Some(e.duplicate());
            return Err(e);
        }
        let s = &self.shared;
        // The durable LSN, not the log's end: a crash must not leave a file that is ahead of the log.
        let lsn = s.wal.durable();
        match TableFile::create(&*s.vfs, &self.name, &s.file_options(self.id), lsn) {
            Ok(file) => Ok(self.file.get_or_init(|| Box::new(file))),
            Err(e) => {
                // Without space or descriptors no file was left, and the next call tries again.
                // After any other failure the name may exist without being durable, and a sync must
                // not be retried (V3).
                let e = if e.kind().is_shortage() { e } else { s.poison(e) };
                *failure = Some(e.duplicate());
                Err(e)
            }
        }
    }

    /// Held while an edit is logged and published, and while an image is taken (ST1).
    pub(crate) fn edits(&self) -> &Mutex<()> {
        &self.edits
    }

    pub(crate) fn dirty_from(&self) -> Lsn {
        self.dirty_from.load(Ordering::Acquire)
    }

    /// A record that will start at or after `lsn` touches this table (ST3).
    pub(crate) fn touched(&self, lsn: Lsn) {
        self.dirty_from.fetch_min(lsn, Ordering::AcqRel);
    }

    /// An image has everything so far; the caller holds both mutexes (ST3).
    /// Returns what `dirty_from` was, for [`Self::touched`] when the image cannot be written.
    pub(crate) fn imaged(&self) -> Lsn {
        assert!(self.edits.is_locked(), "an image without the edits' mutex (ST3)");
        self.dirty_from.swap(CLEAN, Ordering::AcqRel)
    }

    /// A check is about to read the stored bytes: chunks that were read ahead are copies.
    pub(crate) fn forget_read_ahead(&self) {
        self.shared.readahead.forget_table(self.id);
    }

    /// Lets the allocator reuse durably freed blocks (ST2).
    pub(crate) fn reclaim(&self) {
        if let Some(file) = self.file.get() {
            let durable = self.shared.wal.durable();
            let reuse_at_once = canary::active(canary::REUSE_AT_ONCE);
            file.release(if reuse_at_once { Lsn::MAX } else { durable });
        }
    }

    /// The index of a run is in memory now.
    fn has_index(&self, run: &Arc<Run>, index: &RunIndex) {
        self.cached.lock().insert(run.meta.block(), run.meta.pages);
        self.shared.indexes.admit(run, index);
    }

    /// Charges the block map as it is now: after opening, and at each checkpoint, in between it grows little.
    pub(crate) fn charge_map(&self) {
        let Some(file) = self.file.get() else { return };
        let now = usize::try_from(file.memory_bytes()).unwrap_or(usize::MAX);
        let mut charged = self.map_charged.lock();
        self.shared.budget.replace(Part::Metadata, std::mem::replace(&mut *charged, now), now);
    }

    /// Only readers with an older view may still read the block.
    fn let_go(&self, block: BlockId) {
        self.shared.readahead.forget(self.id, block);
        if let Some(pages) = self.cached.lock().remove(&block) {
            self.shared.cache.forget_block(self.id, block, pages);
        }
    }

    fn missing(&self) -> Error {
        Error::corruption(&self.name, "the file is missing but the catalog names runs in it")
    }

    /// Offers the pages of a run just written to the cache: the pages that they replace may have
    /// been there, and free cache memory is useless.
    fn keep_new_pages(&self, run: &BuiltRun, index: &RunIndex) {
        for page in 0..run.meta.pages {
            let (offset, len) = index.page_range(page);
            let stored = &run.bytes[offset as usize..][..len as usize];
            let key = PageKey { table: self.id, block: run.meta.block(), page };
            let make = || Page::parse(stored, &run.meta, page, &self.name).ok();
            self.shared.cache.keep_new(key, stored.len(), make);
        }
    }

    /// The bytes of a page within its block.
    fn page_place(&self, run: &Arc<Run>, page: u32) -> Result<Range<u64>> {
        let (offset, len) = match run.cached_index() {
            Some(index) => index.page_range(page),
            None => self.index(run)?.page_range(page),
        };
        Ok(offset..offset + u64::from(len))
    }

    /// Fills what is missing in `pages`, which are the pages that `wants` names.
    fn load_missing(
        &self,
        wants: &[(Arc<Run>, u32)],
        pages: &mut [Option<Arc<Page>>],
        access: Access,
    ) -> Result<()> {
        let file = self.file.get().ok_or_else(|| self.missing())?;
        let readahead = &self.shared.readahead;
        let (mut wanted, mut places) = (Vec::new(), Vec::new());
        for (i, (run, page)) in wants.iter().enumerate() {
            if pages[i].is_some() {
                continue;
            }
            match readahead.plan(self.id, &run.meta, self.page_place(run, *page)?, access) {
                Plan::Found(bytes) => {
                    read_counts::count(|c| c.read_ahead += 1);
                    pages[i] = Some(self.parsed(run, *page, bytes, access)?);
                }
                Plan::Read(want) => {
                    places.push(want.place());
                    wanted.push((i, want));
                }
            }
        }
        let read = self.timed(places.len(), || file.read_together(&places))?;
        for ((i, want), bytes) in wanted.into_iter().zip(read) {
            let (run, page) = &wants[i];
            pages[i] = Some(self.parsed(run, *page, readahead.got(want, bytes), access)?);
        }
        Ok(())
    }

    /// Reads `pages` pages from the file, counted if this thread counts.
    fn timed<T>(&self, pages: usize, read: impl FnOnce() -> Result<T>) -> Result<T> {
        if !read_counts::is_counting() {
            return read();
        }
        let began = self.shared.vfs.now();
        let read = read();
        let time = self.shared.vfs.now().saturating_sub(began);
        read_counts::count(|c| {
            c.from_file += pages as u64;
            c.time += time;
        });
        read
    }

    /// A page that is not in the cache.
    fn read_page(&self, run: &Arc<Run>, page: u32, access: Access) -> Result<Arc<Page>> {
        let file = self.file.get().ok_or_else(|| self.missing())?;
        let place = self.page_place(run, page)?;
        let readahead = &self.shared.readahead;
        let bytes = match readahead.plan(self.id, &run.meta, place, access) {
            Plan::Found(bytes) => {
                read_counts::count(|c| c.read_ahead += 1);
                bytes
            }
            Plan::Read(want) => {
                let (block, offset, len) = want.place();
                readahead.got(want, self.timed(1, || file.read(block, offset, len))?)
            }
        };
        self.parsed(run, page, bytes, access)
    }

    /// Parses `bytes` as the page and puts it into the cache.
    fn parsed(&self, run: &Run, page: u32, bytes: Vec<u8>, access: Access) -> Result<Arc<Page>> {
        let loaded = Arc::new(Page::parse(bytes, &run.meta, page, &self.name)?);
        if access == Access::Verify {
            return Ok(loaded);
        }
        Ok(self.shared.cache.insert(self.key(run, page), loaded, access))
    }

    fn key(&self, run: &Run, page: u32) -> PageKey {
        PageKey { table: self.id, block: run.meta.block(), page }
    }
}

impl Drop for TableStore {
    fn drop(&mut self) {
        self.shared.budget.sub(Part::Metadata, *self.map_charged.get_mut());
    }
}

impl PageSource for TableStore {
    fn page(&self, run: &Arc<Run>, page: u32, access: Access) -> Result<Arc<Page>> {
        read_counts::count(|c| c.accessed += 1);
        if access != Access::Verify {
            if let Some(hit) = self.shared.cache.get(&self.key(run, page), access) {
                return Ok(hit);
            }
        }
        self.read_page(run, page, access)
    }

    fn page_for_point(&self, run: &Arc<Run>, page: u32, read: &mut bool) -> Result<Arc<Page>> {
        read_counts::count(|c| c.accessed += 1);
        if let Some(hit) = self.shared.cache.get(&self.key(run, page), Access::Point) {
            return Ok(hit);
        }
        *read = true;
        self.read_page(run, page, Access::Point)
    }

    fn page_in_memory(&self, run: &Run, page: u32) -> Option<Arc<Page>> {
        self.shared.cache.get(&self.key(run, page), Access::Merge)
    }

    fn pages(&self, wants: &[(Arc<Run>, u32)], access: Access) -> Result<Vec<Arc<Page>>> {
        read_counts::count(|c| c.accessed += wants.len() as u64);
        let cached =
            |(run, page): &(Arc<Run>, u32)| self.shared.cache.get(&self.key(run, *page), access);
        let mut pages: Vec<_> = wants.iter().map(cached).collect();
        if pages.iter().any(Option::is_none) {
            self.load_missing(wants, &mut pages, access)?;
        }
        Ok(pages.into_iter().flatten().collect())
    }

    fn index(&self, run: &Arc<Run>) -> Result<Arc<RunIndex>> {
        let load = || {
            let file = self.file.get().ok_or_else(|| self.missing())?;
            let tail = &run.meta.index;
            let read = || file.read(run.meta.block(), tail.offset, tail.len as usize);
            read_counts::count(|c| c.accessed += 1);
            let bytes = self.timed(1, read)?;
            let index = RunIndex::parse(&bytes, &run.meta, &self.name)?;
            Ok(if self.shared.indexes.has_room() { index } else { index.without_filter() })
        };
        run.index_or_load(load, |index| self.has_index(run, index))
    }
}

impl BlockSource for TableStore {
    fn read_block(&self, block: BlockId, offset: u64, len: u64) -> Result<Vec<u8>> {
        let file = self.file.get().ok_or_else(|| self.missing())?;
        let within = file.extent(block).filter(|e| e.end() <= file.file_bytes());
        let len = usize::try_from(len).ok().filter(|_| within.is_some());
        let Some(len) = len else {
            let what = format!("block {block} is not in the block map");
            return Err(Error::corruption(&self.name, what));
        };
        file.read(block, offset, len)
    }

    fn block_extent(&self, block: BlockId) -> Option<Extent> {
        let extent = self.file.get()?.extent(block)?;
        Some(Extent { offset: extent.offset, len: extent.len })
    }
}

impl RunStore for TableStore {
    fn blocks_end(&self) -> BlockId {
        // Without a file there is no block.
        self.existing_file().map_or(0, |file| file.blocks_end())
    }

    fn next_block(&self) -> BlockId {
        match self.file() {
            Ok(file) => file.next_block(),
            // The write that follows reports why the file could not be created.
            Err(_) => BlockId::MAX,
        }
    }

    fn write_run(&self, run: &BuiltRun, index: &RunIndex) -> Result<Extent> {
        if run.meta.block() == BlockId::MAX {
            if let Some(e) = &*self.creating.lock() {
                return Err(e.duplicate());
            }
        }
        let extent = self.file()?.write_block(run.meta.block(), &run.bytes)?;
        self.unsynced.lock().insert(run.meta.block());
        // The pages come before the handle of the run.
        self.cached.lock().insert(run.meta.block(), run.meta.pages);
        self.keep_new_pages(run, index);
        Ok(Extent { offset: extent.offset, len: extent.len })
    }

    fn keeps_index(&self, run: &Arc<Run>, index: &RunIndex) {
        self.has_index(run, index);
    }

    fn write_pack(&self, block: BlockId, bytes: &[u8]) -> Result<()> {
        self.file()?.write_block(block, bytes).map(drop)
    }

    fn sync(&self) -> Result<()> {
        let written: Vec<BlockId> = self.unsynced.lock().iter().copied().collect();
        if !canary::active(canary::PUBLISH_BEFORE_SYNC) {
            self.file()?.sync().map_err(|e| self.shared.poison(e))?;
        }
        let mut unsynced = self.unsynced.lock();
        written.iter().for_each(|block| {
            unsynced.remove(block);
        });
        if unsynced.is_empty() {
            // An emptied tree keeps a leaf, and many tables write once in hours.
            *unsynced = BTreeSet::new();
        }
        Ok(())
    }

    fn discard(&self, block: BlockId) {
        self.let_go(block);
        self.unsynced.lock().remove(&block);
        if let Some(file) = self.file.get() {
            file.discard(block);
        }
    }

    fn retire(&self, block: BlockId, lsn: Lsn) {
        self.let_go(block);
        if let Some(file) = self.file.get() {
            file.free(block, lsn);
        }
    }

    fn run_memory(&self) -> Option<&RunMemory> {
        Some(&self.shared.run_memory)
    }

    fn rows(&self) -> Option<&RowCache> {
        Some(&self.shared.rows)
    }

    fn judge_rows(&self) {
        self.shared.judge_rows();
    }

    fn note_reader_news(&self) {
        self.shared.reader_news.store(true, Ordering::Relaxed);
    }

    fn charge_trunk(&self, before: u64, now: u64) {
        let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        self.shared.budget.replace(Part::Metadata, bytes(before), bytes(now));
    }
}

impl EditLog for TableStore {
    fn log_edit(&self, tree: TreeId, edit: &TrunkEdit, publish: &mut dyn FnMut(Lsn)) -> Result<()> {
        // Also when the edit names no run (a buffer of deletions only was flushed): recovery takes
        // a table that has an edit but no file for a dropped one.
        self.file()?;
        if !canary::active(canary::COMMIT_BEFORE_SYNC) {
            let unsynced = self.unsynced.lock();
            let early = |(run, _): &(RunMeta, Extent)| unsynced.contains(&run.block());
            assert!(
                !edit.runs_added.iter().any(early),
                "an edit names a run before its sync (TD2)"
            );
        }
        let mut payload = edit_record(tree);
        edit.encode(&mut payload);
        // Edits free log and extents.
        let _room = self.shared.wal.reserve(payload.len() as u64, Claim::Freeing)?;
        let _order = self.edits.lock();
        self.touched(self.shared.wal.end());
        let at = self.shared.wal.append(KIND_EDIT, &payload)?;
        assert!(self.dirty_from() <= at.start, "an edit that the table does not need (ST3)");
        publish(at.end);
        Ok(())
    }
}
