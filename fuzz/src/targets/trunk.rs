//! Metadata of trees: trunk edits as the log has them, and table images.

use std::sync::{Arc, OnceLock};

use frond_base::{AllReaders, BlockId, ByteReader, Error, Result, TableId, TreeId};
use frond_engine::TableImage;
use frond_run::{Compression, KeyShape, RunFormat};
use frond_space::{Checkpoint, TableFile, TableFileOptions};
use frond_tree::testing::{MemLog, MemStore};
use frond_tree::{synthetic, BlockSource, Extent, TreeLoader, TreeOptions, TrunkEdit};
use frond_vfs::MemVfs;

use super::{database, join, refused};

const FILE: &str = "1.frd";
const TREE: TreeId = TreeId { table: TableId(1), index: 0 };
/// The kind of log records that hold an edit.
const KIND_EDIT: u8 = 2;

/// The edits of one tree, in the order of the log, without the table and index in front of them.
fn logged() -> Vec<Vec<u8>> {
    let edit = |(kind, payload): &(u8, Vec<u8>)| {
        let mut r = ByteReader::new(payload);
        let tree = (r.varint().ok()?, r.varint().ok()?);
        (*kind == KIND_EDIT && tree == (1, 0)).then(|| payload[r.position()..].to_vec())
    };
    database::standard().records.iter().filter_map(edit).collect()
}

/// Each an image of the tree (perhaps empty), then edits, all behind their lengths.
pub fn edits(seed: u64) -> Vec<Vec<u8>> {
    packs();
    let edits = logged();
    let image = tables(&database::standard().before).into_iter().find(|(table, _)| *table == 1);
    let image = image.and_then(|(_, image)| image.trees.into_iter().next()).unwrap_or_default();
    let mut all: Vec<&[u8]> = vec![&image];
    all.extend(edits.iter().map(Vec::as_slice));
    let some = 1 + seed as usize % all.len();
    let mut out = vec![join(&all), join(&all[..some])];
    out.extend(edits.iter().map(|edit| join(&[&image, edit])));
    out.extend(edits.iter().map(|edit| join(&[b"", edit])));
    out
}

pub fn edit(input: &[u8]) -> bool {
    let mut r = ByteReader::new(input);
    let Ok(image) = r.bytes() else { return false };
    let loader = if image.is_empty() {
        Ok(TreeLoader::empty(TREE))
    } else {
        TreeLoader::from_image(TREE, image, packs(), FILE)
    };
    let Ok(mut loader) = loader.map_err(|e| refused(&e)) else { return false };
    let mut lsn = loader.applied();
    while let Ok(bytes) = r.bytes() {
        let applied = TrunkEdit::decode(bytes, FILE).and_then(|edit| {
            let mut again = Vec::new();
            edit.encode(&mut again);
            assert_eq!(TrunkEdit::decode(&again, FILE)?, edit);
            lsn = lsn.saturating_add(100);
            loader.apply_edit(lsn, &edit, FILE)
        });
        if let Err(e) = applied {
            refused(&e);
            return false;
        }
    }
    finish(loader)
}

/// The blocks of table 1, which images name.
struct Packs(Vec<TableFile>);

fn packs() -> &'static Packs {
    static PACKS: OnceLock<Packs> = OnceLock::new();
    let standard = database::standard();
    let open = |files| open_table(&database::directory(files), 1).map(|(file, _)| file);
    PACKS.get_or_init(|| {
        Packs([&standard.before, &standard.after].into_iter().filter_map(open).collect())
    })
}

impl BlockSource for Packs {
    fn read_block(&self, block: BlockId, offset: u64, len: u64) -> Result<Vec<u8>> {
        let missing = || Error::corruption(FILE, "no such block");
        let within = |file: &&TableFile| file.extent(block).is_some_and(|e| e.len >= len);
        let mut files = self.0.iter().filter(within);
        let read = files.find_map(|file| file.read(block, offset, len as usize).ok());
        read.ok_or_else(missing)
    }

    fn block_extent(&self, block: BlockId) -> Option<Extent> {
        let extent = self.0.iter().find_map(|file| file.extent(block))?;
        Some(Extent { offset: extent.offset, len: extent.len })
    }
}

fn finish(loader: TreeLoader) -> bool {
    let format = RunFormat {
        page_bytes: 4096,
        compression: Compression::None,
        key_shape: KeyShape::variable(),
        filter: false,
    };
    let options = TreeOptions::new(format, format);
    let (store, log) = (MemStore::new(), MemLog::new());
    loader.flushed_upto();
    match loader.finish(options, store, log, Arc::new(AllReaders), FILE) {
        Err(e) => {
            refused(&e);
            false
        }
        Ok(tree) => {
            // Its runs do not exist: only the trunk itself is checked.
            let _ = tree.check(false).map_err(|e| refused(&e));
            tree.stats();
            let _ = tree.image();
            true
        }
    }
}

/// Stored nodes of a tree of metadata alone: leaves, which are sound by themselves, first.
pub fn nodes(_: u64) -> Vec<Vec<u8>> {
    let tree = synthetic::tree(900, 30);
    let stored = synthetic::checkpoint(&tree).and_then(|_| synthetic::stored_nodes(&tree));
    // Parents come first.
    let mut nodes: Vec<Vec<u8>> =
        stored.unwrap_or_default().into_iter().rev().step_by(50).collect();
    nodes.sort_by_key(Vec::len);
    nodes
}

pub fn node(input: &[u8]) -> bool {
    match synthetic::load_root(input) {
        Err(e) => {
            refused(&e);
            false
        }
        Ok(tree) => {
            let _ = tree.check(false).map_err(|e| refused(&e));
            tree.stats();
            let _ = tree.version().store().map(|stored| stored.bytes_written());
            true
        }
    }
}

fn open_table(vfs: &MemVfs, table: u32) -> Option<(TableFile, Option<Checkpoint>)> {
    let options = TableFileOptions {
        database: database::standard().id,
        table: TableId(table),
        direct: false,
        read_only: true,
    };
    TableFile::open(vfs, &format!("{table}.frd"), &options).ok()
}

/// The newest image of each table that has one.
fn tables(files: &database::Files) -> Vec<(u32, TableImage)> {
    let vfs = database::directory(files);
    let number = |name: &str| name.strip_suffix(".frd")?.parse().ok();
    let image = |table: u32| {
        let (_, checkpoint) = open_table(&vfs, table)?;
        Some((table, TableImage::decode(&checkpoint?.image, FILE).ok()?))
    };
    files.iter().filter_map(|(name, _)| number(name)).filter_map(image).collect()
}

pub fn images(_: u64) -> Vec<Vec<u8>> {
    // Here: what a check allocates is counted.
    packs();
    let standard = database::standard();
    let all = [&standard.before, &standard.after].map(tables);
    // The check reads them as those of table 1.
    let ours = all.iter().flatten().filter(|(table, _)| *table == 1);
    ours.map(|(_, image)| image.encode()).collect()
}

pub fn image(input: &[u8]) -> bool {
    match TableImage::decode(input, FILE) {
        Err(e) => {
            refused(&e);
            false
        }
        Ok(image) => {
            assert!(TableImage::decode(&image.encode(), FILE).is_ok());
            let sound = |tree: &Vec<u8>| {
                let loader = TreeLoader::from_image(TREE, tree, packs(), FILE);
                loader.map_err(|e| refused(&e)).is_ok_and(finish)
            };
            image.trees.iter().map(sound).fold(true, |all, one| all & one)
        }
    }
}
