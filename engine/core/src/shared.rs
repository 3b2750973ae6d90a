//! Parts that table stores and the engine share: the machine, the log, the page cache and the budget.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result, TableId};
use frond_cache::{Budget, CachePolicy, IndexCache, PageCache, RowCache};
use frond_run::Page;
use frond_space::TableFileOptions;
use frond_tree::RunMemory;
use frond_vfs::{FilePool, Vfs};
use frond_wal::Wal;
use parking_lot::Mutex;

use crate::codecs::Codecs;
use crate::options::Options;
use crate::table::options::SharedOptions;
use crate::table::readahead::Readahead;

/// Handles that live as long as the database is open.
pub struct Shared {
    pub vfs: Arc<dyn Vfs>,
    /// The table files of `vfs`.
    pub files: FilePool,
    pub wal: Wal,
    pub cache: PageCache<Page>,
    pub rows: RowCache,
    pub indexes: IndexCache,
    pub budget: Arc<Budget>,
    pub readahead: Readahead,
    pub run_memory: RunMemory,
    pub codecs: Codecs,
    pub tree_options: SharedOptions,
    /// Random number of this database, repeated in every file.
    pub database: u64,
    pub direct_io: bool,
    pub read_only: bool,
    /// Readers have made work for some tree since the log thread last asked.
    pub reader_news: AtomicBool,
    poisoned: AtomicBool,
    first_failure: Mutex<Option<Error>>,
}

impl Shared {
    pub fn new(
        vfs: Arc<dyn Vfs>,
        files: FilePool,
        wal: Wal,
        database: u64,
        options: &Options,
    ) -> Shared {
        let bytes = usize::try_from(options.cache_bytes).unwrap_or(usize::MAX);
        let budget = Arc::new(Budget::new(bytes));
        let rows = RowCache::new(budget.clone(), options.row_caching);
        // Until the first adjustment, as the page cache's.
        rows.set_limit(bytes / 64);
        let shards = PageCache::<Page>::shards_for(bytes);
        Shared {
            vfs,
            files,
            wal,
            cache: PageCache::with_budget(bytes / 2, shards, budget.clone()),
            rows,
            indexes: IndexCache::new(budget.clone()),
            readahead: Readahead::new(budget.clone()),
            run_memory: RunMemory::new(options.background_threads.max(1)),
            codecs: Codecs::default(),
            tree_options: SharedOptions::default(),
            budget,
            database,
            direct_io: options.direct_io,
            read_only: options.read_only,
            reader_news: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            first_failure: Mutex::new(None),
        }
    }

    /// Gives pages and rows what the other parts of the budget leave.
    pub fn fit_cache(&self) {
        let policy = self.cache_policy();
        self.indexes.set_limit(policy.index_limit(&self.budget));
        policy.fit(&self.budget, &self.cache, &self.rows);
    }

    /// As [`Self::fit_cache`], after many reads of pages for single rows.
    pub fn judge_rows(&self) {
        self.cache_policy().judge(&self.budget, &self.cache, &self.rows);
    }

    fn cache_policy(&self) -> CachePolicy {
        let floor = self.budget.limit() / 100 * CACHE_FLOOR_PERCENT;
        // What writers may add between two measurements.
        let reserve = self.budget.limit() / 64;
        CachePolicy { floor, reserve }
    }

    pub fn file_options(&self, table: TableId) -> TableFileOptions {
        TableFileOptions {
            database: self.database,
            table,
            direct: self.direct_io,
            read_only: self.read_only,
        }
    }

    /// A sync failed: the state of the written bytes is unknown, so nothing more may be
    /// acknowledged. Keeps the first failure and returns `failure`.
    pub fn poison(&self, failure: Error) -> Error {
        let mut first = self.first_failure.lock();
        if first.is_none() {
            *first = Some(failure.duplicate());
            self.wal.poison(&failure);
            self.poisoned.store(true, Ordering::Release);
        }
        if failure.kind().is_shortage() {
            // The kind of a shortage would promise that nothing happened and that the call may be retried.
            return Error::new(ErrorKind::Poisoned, format!("{failure}; restart to recover"));
        }
        failure
    }

    /// The error that every commit gets after a failed write or sync.
    pub fn check_poison(&self) -> Result<()> {
        if !self.poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let first = self.first_failure.lock();
        let why = first.as_ref().map_or_else(String::new, |e| e.message().to_owned());
        Err(Error::new(
            ErrorKind::Poisoned,
            format!("no commit is accepted after a failed write ({why}); restart to recover"),
        ))
    }
}

/// Page cache that is left whatever write buffers and indexes take.
const CACHE_FLOOR_PERCENT: usize = 10;
