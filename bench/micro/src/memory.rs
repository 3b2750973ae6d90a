//! Runs in memory. Every page read parses the page anew, as without a cache.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use frond_base::{BlockId, Error, ErrorKind, Result};
use frond_run::{Access, BuiltRun, Page, PageSource, Run, RunIndex};

#[derive(Default)]
pub struct MemoryRuns {
    runs: RwLock<HashMap<BlockId, Arc<Vec<u8>>>>,
}

impl MemoryRuns {
    /// Keeps the bytes of `run`; returns its handle, fences not loaded.
    pub fn add(&self, run: BuiltRun) -> Arc<Run> {
        let mut runs = self.runs.write().unwrap_or_else(PoisonError::into_inner);
        runs.insert(run.meta.block(), Arc::new(run.bytes.to_vec()));
        Arc::new(Run::new(run.meta))
    }

    fn read(&self, block: BlockId, offset: u64, len: u32) -> Result<Vec<u8>> {
        let runs = self.runs.read().unwrap_or_else(PoisonError::into_inner);
        let from = offset as usize;
        let bytes = runs.get(&block).and_then(|b| b.get(from..from + len as usize));
        let gone = || Error::new(ErrorKind::NotFound, format!("no such block range: {block}"));
        bytes.map(<[u8]>::to_vec).ok_or_else(gone)
    }
}

impl PageSource for MemoryRuns {
    fn page(&self, run: &Arc<Run>, page: u32, _access: Access) -> Result<Arc<Page>> {
        let (offset, len) = self.index(run)?.page_range(page);
        let bytes = self.read(run.meta.block(), offset, len)?;
        Ok(Arc::new(Page::parse(bytes, &run.meta, page, "memory")?))
    }

    fn index(&self, run: &Arc<Run>) -> Result<Arc<RunIndex>> {
        let load = || {
            let tail = run.meta.index;
            let bytes = self.read(run.meta.block(), tail.offset, tail.len)?;
            RunIndex::parse(&bytes, &run.meta, "memory")
        };
        run.index_or_load(load, |_| ())
    }
}
