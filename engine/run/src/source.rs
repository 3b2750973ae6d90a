//! The handle of a run, and the trait through which its pages are read.

use std::sync::{Arc, OnceLock};

use frond_base::Result;

use crate::index::RunIndex;
use crate::meta::RunMeta;
use crate::page::Page;

/// Why a page is read: a page cache treats point reads and passing scans differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Point,
    /// The first page of a scan or of a look-up by a prefix: the next one read may be anywhere.
    Seek,
    /// A page that a scan goes on with.
    Scan,
    Merge,
    /// A check of the stored bytes: pages in memory must not be used.
    Verify,
}

/// Reads pages and fences of runs (a page cache over a table file; in tests memory).
pub trait PageSource {
    /// Page number `page` of `run`, verified; `page < run.meta.pages`.
    fn page(&self, run: &Run, page: u32, access: Access) -> Result<Arc<Page>>;
    /// As [`Self::page`], for a point read; sets `read` when the page was not in memory.
    fn page_for_point(&self, run: &Run, page: u32, read: &mut bool) -> Result<Arc<Page>> {
        *read = true;
        self.page(run, page, Access::Point)
    }
    /// The page if no read is needed for it. Does not count as a use of the page.
    fn page_in_memory(&self, _run: &Run, _page: u32) -> Option<Arc<Page>> {
        None
    }
    /// As [`Self::page`] for each run and page number, in that order. The source reads all of them
    /// at once where the device can.
    fn pages(&self, wants: &[(Arc<Run>, u32)], access: Access) -> Result<Vec<Arc<Page>>> {
        wants.iter().map(|(run, page)| self.page(run, *page, access)).collect()
    }
    /// The fences of `run`; usually by [`Run::index_or_load`].
    fn index(&self, run: &Run) -> Result<Arc<RunIndex>>;
}

/// A run that readers share. Its fences are kept once loaded, for as long as the handle lives.
pub struct Run {
    pub meta: RunMeta,
    index: OnceLock<Arc<RunIndex>>,
}

impl Run {
    pub fn new(meta: RunMeta) -> Run {
        Run { meta, index: OnceLock::new() }
    }

    /// A run whose fences are in memory already, because it was just built.
    pub fn with_index(meta: RunMeta, index: RunIndex) -> Run {
        Run { meta, index: OnceLock::from(Arc::new(index)) }
    }

    /// As [`Run::with_index`], of fences that another handle has as well.
    pub fn with_shared_index(meta: RunMeta, index: Arc<RunIndex>) -> Run {
        Run { meta, index: OnceLock::from(index) }
    }

    pub fn cached_index(&self) -> Option<Arc<RunIndex>> {
        self.index.get().cloned()
    }

    /// The fences, loading them when this is the first use. Two racing readers may both load.
    pub fn index_or_load(&self, load: impl FnOnce() -> Result<RunIndex>) -> Result<Arc<RunIndex>> {
        if let Some(index) = self.index.get() {
            return Ok(index.clone());
        }
        let loaded = Arc::new(load()?);
        Ok(self.index.get_or_init(|| loaded).clone())
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("meta", &self.meta).finish_non_exhaustive()
    }
}
