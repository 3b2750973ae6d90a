//! An exported file: the trees of another database's table, to be read once.
//!
//! It does not use this database's page cache, which would mistake the other database's table and block numbers for its
//! own, nor the log. It writes nothing.

use std::sync::Arc;

use frond_base::{BlockId, Error, ErrorKind, Lsn, Readers, Result, TreeId};
use frond_run::{Access, BuiltRun, Page, PageSource, Run, RunIndex};
use frond_space::{TableFile, TableFileOptions};
use frond_tree::{BlockSource, EditLog, Extent, RunStore, Tree, TreeLoader, TrunkEdit};
use frond_vfs::Vfs;

use super::format::ExportDescription;
use crate::recovery::loading::{check_image, check_places};
use crate::table::image::TableImage;
use crate::table::options::tree_options;
use crate::table::tree_id;

/// See the module.
pub(super) struct ExportedFile {
    file: TableFile,
    name: String,
}

/// What [`open`] finds besides the trees.
pub(super) struct Exported {
    /// As many as the definition has indexes, dropped ones included.
    pub trees: Vec<Tree>,
}

/// Opens the file and verifies that it is the one of the description, header, image and trunks included.
pub(super) fn open(
    vfs: &dyn Vfs,
    name: &str,
    described: &ExportDescription,
    leaf_bytes: u64,
    readers: &Arc<dyn Readers>,
) -> Result<Exported> {
    let (database, table) = (described.database, described.table);
    let options = TableFileOptions { database, table, direct: false, read_only: true };
    let (file, checkpoint) = TableFile::open(vfs, name, &options).map_err(of_the_file)?;
    let bad = |what: &str| Err(Error::new(ErrorKind::Corruption, format!("{name}: {what}")));
    if let Some(fallback) = file.fallback() {
        return bad(&format!("it is damaged: {}", fallback.reason));
    }
    if file.header_bytes() != described.header {
        return bad("it is of another moment than its description: copy both during one export");
    }
    if file.file_bytes() < described.len {
        let (is, was) = (file.file_bytes(), described.len);
        return bad(&format!("it is cut short: {is} of {was} bytes"));
    }
    let Some(checkpoint) = checkpoint else { return bad("it has no image") };
    let read = || -> Result<Exported> {
        let image = TableImage::decode(&checkpoint.image, name)?;
        check_image(&image, checkpoint.lsn, name)?;
        let counted = (image.rows, image.auto_increment, image.row_id);
        let (rows, def) = (described.rows as i64, &described.definition);
        if counted != (rows, described.auto_increment, described.row_id)
            || image.trees.len() > def.indexes.len()
        {
            return Err(Error::corruption(name, "its image is not the one that is described"));
        }
        let store = Arc::new(ExportedFile { file, name: name.to_owned() });
        let mut loaders = Vec::new();
        for n in 0..def.indexes.len() {
            loaders.push(match image.trees.get(n) {
                Some(tree) => TreeLoader::from_image(tree_id(table, n), tree, &*store, name)?,
                None => TreeLoader::empty(tree_id(table, n)),
            });
        }
        check_places(&loaders, Some(&store.file), checkpoint.lsn, name)?;
        store.file.finish_recovery(0)?;
        let mut trees = Vec::new();
        for (loader, index) in loaders.into_iter().zip(&def.indexes) {
            let options = tree_options(index, leaf_bytes);
            let (runs, log) = (store.clone(), store.clone());
            trees.push(loader.finish(options, runs, log, readers.clone(), name)?);
        }
        Ok(Exported { trees })
    };
    read().map_err(of_the_file)
}

/// Errors about our own files give advice that does not fit an imported file.
pub(super) fn of_the_file(e: Error) -> Error {
    let kind = e.kind();
    let Some((what, _)) = e.message().split_once("; restore this file") else { return e };
    Error::new(kind, format!("{what}; copy the table's files again, during an export"))
}

impl ExportedFile {
    fn nothing_is_written<T>(&self) -> Result<T> {
        let what = format!("{}: an exported file is not written to", self.name);
        Err(Error::new(ErrorKind::Unsupported, what))
    }
}

impl PageSource for ExportedFile {
    fn page(&self, run: &Arc<Run>, page: u32, _: Access) -> Result<Arc<Page>> {
        let (offset, len) = self.index(run)?.page_range(page);
        let bytes = self.file.read(run.meta.block(), offset, len as usize)?;
        Ok(Arc::new(Page::parse(bytes, &run.meta, page, &self.name)?))
    }

    fn index(&self, run: &Arc<Run>) -> Result<Arc<RunIndex>> {
        let load = || {
            let tail = &run.meta.index;
            let bytes = self.file.read(run.meta.block(), tail.offset, tail.len as usize)?;
            RunIndex::parse(&bytes, &run.meta, &self.name)
        };
        run.index_or_load(load, |_| ())
    }
}

impl BlockSource for ExportedFile {
    fn read_block(&self, block: BlockId, offset: u64, len: u64) -> Result<Vec<u8>> {
        let within = self.file.extent(block).filter(|e| e.end() <= self.file.file_bytes());
        match usize::try_from(len).ok().filter(|_| within.is_some()) {
            Some(len) => self.file.read(block, offset, len),
            None => {
                let what = format!("block {block} is not in the block map");
                Err(Error::corruption(&self.name, what))
            }
        }
    }

    fn block_extent(&self, block: BlockId) -> Option<Extent> {
        let extent = self.file.extent(block)?;
        Some(Extent { offset: extent.offset, len: extent.len })
    }
}

impl RunStore for ExportedFile {
    fn next_block(&self) -> BlockId {
        BlockId::MAX
    }

    fn blocks_end(&self) -> BlockId {
        BlockId::MAX
    }

    fn write_run(&self, _: &BuiltRun, _: &RunIndex) -> Result<Extent> {
        self.nothing_is_written()
    }

    fn write_pack(&self, _: BlockId, _: &[u8]) -> Result<()> {
        self.nothing_is_written()
    }

    fn sync(&self) -> Result<()> {
        self.nothing_is_written()
    }

    fn discard(&self, _: BlockId) {}

    fn retire(&self, _: BlockId, _: Lsn) {}
}

impl EditLog for ExportedFile {
    fn log_edit(&self, _: TreeId, _: &TrunkEdit, _: &mut dyn FnMut(Lsn)) -> Result<()> {
        self.nothing_is_written()
    }
}
