//! Trees of metadata alone, for measuring what metadata cost: their runs do not exist, so they cannot be read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{AllReaders, BlockId, Error, ErrorKind, Lsn, NodeId, Result, TableId, TreeId};
use frond_run::{
    Access, BuiltRun, Compression, KeyShape, Page, PageSource, Run, RunFormat, RunIdentity,
    RunIndex, RunMeta, TailExtent,
};
use parking_lot::Mutex;

use crate::book::Noted;
use crate::extent::Extent;
use crate::load::TreeLoader;
use crate::node::{Body, Child, Inner, Leaf, Node};
use crate::options::TreeOptions;
use crate::place::{checksum, Place};
use crate::raw::RawNode;
use crate::slice::{scale, Key, Slice};
use crate::store::{BlockSource, RunStore, TrunkRun};
use crate::stored_format::{self, Below, Pack, RootImage};
use crate::sums;
use crate::testing::MemLog;
use crate::totals::{Sums, Totals};
use crate::tree::Tree;
use crate::trunk::Trunk;

/// Bytes of each run: a leaf of six has about the size of a real one.
const RUN_BYTES: u64 = 1 << 20;

/// Names the carrier of images in errors.
const FILE: &str = "synthetic";

/// A store of packs, without runs.
#[derive(Default)]
pub struct NoRuns {
    next: AtomicU64,
    packs: Mutex<HashMap<BlockId, Vec<u8>>>,
}

impl NoRuns {
    fn none(&self) -> Error {
        Error::new(ErrorKind::Unsupported, "synthetic runs have no bytes")
    }
}

impl PageSource for NoRuns {
    fn page(&self, _: &Arc<Run>, _: u32, _: Access) -> Result<Arc<Page>> {
        Err(self.none())
    }

    fn index(&self, _: &Arc<Run>) -> Result<Arc<RunIndex>> {
        Err(self.none())
    }
}

impl BlockSource for NoRuns {
    fn read_block(&self, block: BlockId, offset: u64, len: u64) -> Result<Vec<u8>> {
        let packs = self.packs.lock();
        let range = offset as usize..offset.saturating_add(len) as usize;
        let bytes = packs.get(&block).and_then(|pack| pack.get(range));
        bytes.map(<[u8]>::to_vec).ok_or_else(|| Error::corruption(FILE, "no such pack"))
    }

    fn block_extent(&self, block: BlockId) -> Option<Extent> {
        Some(Extent { offset: block.saturating_mul(RUN_BYTES), len: RUN_BYTES })
    }
}

impl RunStore for NoRuns {
    fn blocks_end(&self) -> BlockId {
        self.next.load(Ordering::Relaxed)
    }

    fn next_block(&self) -> BlockId {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn write_run(&self, _: &BuiltRun, _: &RunIndex) -> Result<Extent> {
        Err(self.none())
    }

    fn write_pack(&self, block: BlockId, bytes: &[u8]) -> Result<()> {
        self.packs.lock().insert(block, bytes.to_vec());
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, block: BlockId) {
        self.packs.lock().remove(&block);
    }

    fn retire(&self, block: BlockId, _: Lsn) {
        self.packs.lock().remove(&block);
    }
}

/// A tree of `leaves` leaves, each of five base runs and a delta run, with inner nodes of `fanout` children.
pub fn tree(leaves: u64, fanout: usize) -> Tree {
    let id = TreeId { table: TableId(1), index: 0 };
    let store = Arc::new(NoRuns { next: AtomicU64::new(6 * leaves + 1), ..NoRuns::default() });
    let mut level: Vec<(Key, Node)> =
        (0..leaves).map(|n| (key(n, 0), Node::leaf(n, leaf(id, n, &store)))).collect();
    let mut next_node = leaves;
    while level.len() > 1 {
        let mut above = Vec::with_capacity(level.len() / fanout + 1);
        let mut rest = level.into_iter().peekable();
        while rest.peek().is_some() {
            let (keys, nodes): (Vec<Key>, Vec<Node>) = rest.by_ref().take(fanout).unzip();
            let children = nodes.into_iter().map(|node| {
                let below = sums::of(&node, &options(fanout));
                Child { below, ..Child::new(node) }
            });
            let children = children.collect();
            let inner = Inner { pivots: keys[1..].to_vec(), children };
            above.push((keys[0].clone(), Node::inner(next_node, inner)));
            next_node += 1;
        }
        level = above;
    }
    let root = level.pop().map_or_else(|| Node::leaf(0, Leaf::default()), |(_, root)| root);
    let sums = sums::of(&root, &options(fanout));
    let trunk = Trunk { root: Arc::new(root), sums, next_node, flushed_upto: 0, applied: 0 };
    let mut noted = Noted::default();
    trunk.each_slice(&mut |s| noted.run_added(s.run.block()));
    let (log, readers) = (MemLog::new(), Arc::new(AllReaders));
    Tree::with_trunk(id, options(fanout).into(), store, log, readers, trunk, noted)
}

fn options(fanout: usize) -> TreeOptions {
    let format = RunFormat {
        page_bytes: 16 << 10,
        compression: Compression::None,
        key_shape: KeyShape::variable(),
        filter: false,
    };
    TreeOptions { fanout, ..TreeOptions::new(format, format) }
}

/// A checkpoint: the image's bytes, and those of the packs that were written.
pub fn checkpoint(tree: &Tree) -> Result<(Vec<u8>, u64)> {
    let stored = tree.version().store()?;
    let (image, written) = (stored.image().to_vec(), stored.bytes_written());
    let dead = stored.dead_packs().to_vec();
    stored.set_durable();
    dead.into_iter().for_each(|block| tree.inner.store.retire(block, 0));
    Ok((image, written))
}

/// Bytes of the packs that the newest image names, and of the nodes of the tree that are in them.
pub fn pack_bytes(tree: &Tree) -> (u64, u64) {
    let (_, noted) = tree.inner.trunk_and_book();
    noted.packs.values().fold((0, 0), |(bytes, live), p| (bytes + p.bytes, live + p.live))
}

/// The tree again, from an image and the packs of `tree`.
pub fn load(tree: &Tree, image: &[u8]) -> Result<Tree> {
    let (inner, log) = (&tree.inner, MemLog::new());
    let loader = TreeLoader::from_image(inner.id, image, &*inner.store, FILE)?;
    loader.finish(inner.options.clone(), inner.store.clone(), log, Arc::new(AllReaders), FILE)
}

/// The bytes of the stored nodes.
pub fn stored_nodes(tree: &Tree) -> Result<Vec<Vec<u8>>> {
    let view = tree.inner.view.load();
    let mut places = Vec::new();
    view.trunk.walk(&mut |node, _, _| places.extend(node.stored.get()));
    let read = |p: Place| tree.inner.store.read_block(p.pack, p.offset, p.len);
    places.into_iter().map(read).collect()
}

/// Loads a tree whose root has these stored bytes, which may be any.
pub fn load_root(bytes: &[u8]) -> Result<Tree> {
    let id = TreeId { table: TableId(1), index: 0 };
    let store = Arc::new(NoRuns::default());
    store.write_pack(0, bytes)?;
    let len = bytes.len() as u64;
    let place = Place { pack: 0, offset: 0, len, checksum: checksum(bytes, id.table, 0, 0) };
    let root = stored_format::decode_node(bytes, FILE)?;
    let totals = match &root.node {
        RawNode::Leaf { base, deltas } => {
            let mut totals = Totals { leaves: 1, ..Totals::default() };
            for slice in base.iter().chain(deltas) {
                let meta = root.runs.iter().find(|meta| meta.block() == slice.block);
                let logical =
                    meta.map_or(0, |m| scale(m.logical_bytes, slice.counts.bytes, m.bytes));
                totals.logical_bytes = totals.logical_bytes.saturating_add(logical);
                totals.counts.add(slice.counts);
                totals.slices += 1;
            }
            totals
        }
        RawNode::Inner { .. } => Totals::default(),
    };
    let image = RootImage {
        root: root.id,
        below: Below { place, sums: Sums { totals, debt: 0 } },
        next_node: root.id.saturating_add(1),
        flushed_upto: 0,
        packs: [(0, Pack { bytes: len, live: len })].into(),
    };
    let image = stored_format::encode_image(0, &image);
    let loader = TreeLoader::from_image(id, &image, &*store, FILE)?;
    loader.finish(options(64), store, MemLog::new(), Arc::new(AllReaders), FILE)
}

/// Changes each of `leaves`, by number: its delta run goes, if it still has one.
pub fn change(tree: &Tree, leaves: impl IntoIterator<Item = NodeId>) -> Result<()> {
    for n in leaves {
        tree.inner.install(&[], None, |draft| {
            draft.edit_node(&key(n, 0), n, |node, _| {
                if let Body::Leaf(leaf) = &mut node.body {
                    leaf.deltas.clear();
                }
            });
        })?;
    }
    Ok(())
}

/// 16 bytes, as an index entry of two numbers; keys of neighbours share half of them.
fn key(leaf: u64, part: u64) -> Key {
    let mut key = leaf.to_be_bytes().to_vec();
    key.extend_from_slice(&(part << 32).to_be_bytes());
    Key::from(key)
}

fn leaf(id: TreeId, n: u64, store: &Arc<NoRuns>) -> Leaf {
    let run = |part: u64, from: u64, upto: u64| {
        let meta = RunMeta {
            id: RunIdentity { table: id.table, block: 6 * n + part + 1 },
            shape: KeyShape::fixed(&[8, 8]),
            bytes: RUN_BYTES,
            pages: 200,
            entries: 150_000,
            tombstones: 0,
            logical_bytes: 4_000_000,
            min_key: key(n, from)[..].into(),
            max_key: key(n, upto)[..].into(),
            max_seq: 0,
            index: TailExtent { offset: RUN_BYTES - 8192, len: 8000, checksum: n },
            has_filter: false,
            one_seq: false,
        };
        let extent = Extent { offset: (6 * n + part + 1) * RUN_BYTES, len: RUN_BYTES };
        Slice::whole(Arc::new(TrunkRun::live(meta, extent, store.clone())))
    };
    let base = (0..5).map(|part| run(part, 10 * part + 1, 10 * part + 9)).collect();
    Leaf { base, deltas: vec![run(5, 1, 40)] }
}
