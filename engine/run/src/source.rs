//! The handle of a run, and the trait through which its pages are read.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
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
    fn page(&self, run: &Arc<Run>, page: u32, access: Access) -> Result<Arc<Page>>;
    /// As [`Self::page`], for a point read; sets `read` when the page was not in memory.
    fn page_for_point(&self, run: &Arc<Run>, page: u32, read: &mut bool) -> Result<Arc<Page>> {
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
    fn index(&self, run: &Arc<Run>) -> Result<Arc<RunIndex>>;
}

/// A run that readers share. Its fences are kept once loaded, until [`Run::give_up_index`].
pub struct Run {
    pub meta: RunMeta,
    index: ArcSwapOption<RunIndex>,
}

/// The fences of a run for one short read: no reference is counted, so that threads which read the same run do not
/// write to the same memory. [`HeldIndex::keep`] is for longer.
pub struct HeldIndex(Guard<Option<Arc<RunIndex>>>);

impl HeldIndex {
    pub fn keep(self) -> Arc<RunIndex> {
        match Guard::into_inner(self.0) {
            Some(index) => index,
            None => unreachable!("made of fences only"),
        }
    }
}

impl From<Arc<RunIndex>> for HeldIndex {
    fn from(index: Arc<RunIndex>) -> HeldIndex {
        HeldIndex(Guard::from_inner(Some(index)))
    }
}

impl Deref for HeldIndex {
    type Target = RunIndex;

    #[inline]
    fn deref(&self) -> &RunIndex {
        match &*self.0 {
            Some(index) => index,
            None => unreachable!("made of fences only"),
        }
    }
}

impl Run {
    pub fn new(meta: RunMeta) -> Run {
        Run { meta, index: ArcSwapOption::empty() }
    }

    /// A run whose fences are in memory already, because it was just built.
    pub fn with_index(meta: RunMeta, index: RunIndex) -> Run {
        Run::with_shared_index(meta, Arc::new(index))
    }

    /// As [`Run::with_index`], of fences that another handle has as well.
    pub fn with_shared_index(meta: RunMeta, index: Arc<RunIndex>) -> Run {
        Run { meta, index: ArcSwapOption::new(Some(index)) }
    }

    /// The fences, if they are in memory. A use of them ([`RunIndex::was_used`]).
    #[inline]
    pub fn cached_index(&self) -> Option<HeldIndex> {
        let held = self.index.load();
        let index = held.as_deref()?;
        index.note_use();
        Some(HeldIndex(held))
    }

    /// The fences, loading them when they are not in memory. Two racing readers may both load; `loaded` is called for
    /// those that are kept.
    pub fn index_or_load(
        &self,
        load: impl FnOnce() -> Result<RunIndex>,
        loaded: impl FnOnce(&Arc<RunIndex>),
    ) -> Result<Arc<RunIndex>> {
        if let Some(index) = self.cached_index() {
            return Ok(index.keep());
        }
        let index = Arc::new(load()?);
        let before = self.index.compare_and_swap(&None::<Arc<RunIndex>>, Some(index.clone()));
        if let Some(other) = &*before {
            return Ok(other.clone());
        }
        loaded(&index);
        Ok(index)
    }

    /// Whether the fences in memory were used since the last call, or a reader keeps them; `None` when there are none.
    pub fn lends_index(&self) -> Option<bool> {
        let held = self.index.load();
        let index = held.as_ref()?;
        Some(index.was_used() || Arc::strong_count(index) > 1)
    }

    /// Whether fences are in memory without the filter that the run has.
    pub fn lacks_filter(&self) -> bool {
        self.index.load().as_deref().is_some_and(|index| index.lacks_filter(&self.meta))
    }

    /// Lets go of the fences: their memory is free when the last reader has let go, too. The next use loads them.
    pub fn give_up_index(&self) {
        self.index.store(None);
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("meta", &self.meta).finish_non_exhaustive()
    }
}
