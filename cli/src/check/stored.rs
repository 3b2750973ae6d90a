//! Pages of a database that does not open: each table separately, as of its newest checkpoint.
//!
//! A damaged log keeps the whole database from opening. An operator then needs to know which tables
//! are sound up to their last checkpoint; that needs neither log nor catalog.
//!
//! Does not compare rows with indexes: the definitions are in the catalog, which may be damaged.

use std::sync::Arc;

use frond_base::{AllReaders, BlockId, Error, ErrorKind, IndexNo, Lsn, Result, TreeId};
use frond_engine::{IndexDef, TableImage};
use frond_run::{Access, BuiltRun, KeyShape, Page, PageSource, Run, RunFormat, RunIndex};
use frond_space::{Checkpoint, TableFile};
use frond_tree::{BlockSource, EditLog, Extent, RunStore, TreeLoader, TreeOptions, TrunkEdit};

use crate::check::Report;

/// Reads every page that the checkpoint names.
pub fn check(file: TableFile, checkpoint: &Checkpoint, report: &mut Report) {
    let (name, table) = (file.name().to_string(), file.table());
    let image = match TableImage::decode(&checkpoint.image, &name) {
        Ok(image) => image,
        Err(e) => return report.problem(e.message()),
    };
    report.tables += 1;
    let store = Arc::new(StoredRuns { file });
    for (n, bytes) in image.trees.iter().enumerate() {
        let Ok(index) = IndexNo::try_from(n) else { return };
        report.trees += 1;
        match tree(&store, TreeId { table, index }, bytes) {
            Ok((runs, pages, entries)) => {
                report.runs += runs;
                report.pages += pages;
                report.entries += entries;
            }
            Err(e) => report.problem(format!("table {table}, index {n}: {e}")),
        }
    }
}

fn tree(store: &Arc<StoredRuns>, id: TreeId, image: &[u8]) -> Result<(u64, u64, u64)> {
    let loader = TreeLoader::from_image(id, image, &**store, store.file.name())?;
    // Only the format of new runs, and none are made here.
    let plain = IndexDef::plain();
    let format = RunFormat {
        page_bytes: plain.page_bytes,
        compression: plain.compression,
        key_shape: KeyShape::variable(),
        filter: false,
    };
    let options = TreeOptions::new(format, format);
    let name = store.file.name();
    let tree = loader.finish(options, store.clone(), store.clone(), Arc::new(AllReaders), name)?;
    let found = tree.check(true)?;
    Ok((found.runs, found.pages, found.entries))
}

/// The runs of a table file, to read.
struct StoredRuns {
    file: TableFile,
}

impl StoredRuns {
    fn read_only(&self) -> Error {
        Error::new(ErrorKind::Unsupported, format!("{}: opened for reading only", self.file.name()))
    }
}

impl PageSource for StoredRuns {
    fn page(&self, run: &Arc<Run>, page: u32, _: Access) -> Result<Arc<Page>> {
        let (offset, len) = self.index(run)?.page_range(page);
        let bytes = self.file.read(run.meta.block(), offset, len as usize)?;
        Page::parse(bytes, &run.meta, page, self.file.name()).map(Arc::new)
    }

    fn index(&self, run: &Arc<Run>) -> Result<Arc<RunIndex>> {
        let load = || {
            let tail = &run.meta.index;
            let bytes = self.file.read(run.meta.block(), tail.offset, tail.len as usize)?;
            RunIndex::parse(&bytes, &run.meta, self.file.name())
        };
        run.index_or_load(load, |_| ())
    }
}

impl BlockSource for StoredRuns {
    fn read_block(&self, block: BlockId, offset: u64, len: u64) -> Result<Vec<u8>> {
        let within = self.block_extent(block).is_some_and(|e| {
            offset.checked_add(len).is_some_and(|end| end <= e.len)
                && e.offset + e.len <= self.file.file_bytes()
        });
        let len = usize::try_from(len).ok().filter(|_| within);
        let Some(len) = len else {
            let what = format!("block {block} is not in the file");
            return Err(Error::corruption(self.file.name(), what));
        };
        self.file.read(block, offset, len)
    }

    fn block_extent(&self, block: BlockId) -> Option<Extent> {
        self.file.extent(block).map(|e| Extent { offset: e.offset, len: e.len })
    }
}

impl RunStore for StoredRuns {
    fn blocks_end(&self) -> BlockId {
        BlockId::MAX
    }

    fn next_block(&self) -> BlockId {
        BlockId::MAX
    }

    fn write_run(&self, _: &BuiltRun, _: &RunIndex) -> Result<Extent> {
        Err(self.read_only())
    }

    fn write_pack(&self, _: BlockId, _: &[u8]) -> Result<()> {
        Err(self.read_only())
    }

    fn sync(&self) -> Result<()> {
        Err(self.read_only())
    }

    fn discard(&self, _: BlockId) {}

    fn retire(&self, _: BlockId, _: Lsn) {}
}

impl EditLog for StoredRuns {
    fn log_edit(&self, _: TreeId, _: &TrunkEdit, _: &mut dyn FnMut(Lsn)) -> Result<()> {
        Err(self.read_only())
    }
}
