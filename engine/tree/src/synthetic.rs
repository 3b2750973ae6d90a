//! Trees of metadata alone, for measuring what metadata cost: their runs do not exist, so they cannot be read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{AllReaders, BlockId, Error, ErrorKind, Lsn, NodeId, Result, TableId, TreeId};
use frond_run::{
    Access, BuiltRun, Compression, KeyShape, Page, PageSource, Run, RunFormat, RunIdentity,
    RunIndex, RunMeta, TailExtent,
};

use crate::extent::Extent;
use crate::node::{Body, Child, Inner, Leaf, Node};
use crate::options::TreeOptions;
use crate::slice::{Key, Slice};
use crate::store::{RunStore, TrunkRun};
use crate::testing::MemLog;
use crate::tree::Tree;
use crate::trunk::Trunk;

/// Bytes of each run: a leaf of six has about the size of a real one.
const RUN_BYTES: u64 = 1 << 20;

/// A store without runs.
#[derive(Default)]
pub struct NoRuns {
    next: AtomicU64,
}

impl NoRuns {
    fn none(&self) -> Error {
        Error::new(ErrorKind::Unsupported, "synthetic runs have no bytes")
    }
}

impl PageSource for NoRuns {
    fn page(&self, _: &Run, _: u32, _: Access) -> Result<Arc<Page>> {
        Err(self.none())
    }

    fn index(&self, _: &Run) -> Result<Arc<RunIndex>> {
        Err(self.none())
    }
}

impl RunStore for NoRuns {
    fn next_block(&self) -> BlockId {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn write_run(&self, _: &BuiltRun, _: &RunIndex) -> Result<Extent> {
        Err(self.none())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, _: BlockId) {}

    fn retire(&self, _: BlockId, _: Lsn) {}
}

/// A tree of `leaves` leaves, each of five base runs and a delta run, with inner nodes of `fanout` children.
pub fn tree(leaves: u64, fanout: usize) -> Tree {
    let id = TreeId { table: TableId(1), index: 0 };
    let store = Arc::new(NoRuns { next: AtomicU64::new(6 * leaves + 1) });
    let mut level: Vec<(Key, Node)> =
        (0..leaves).map(|n| (key(n, 0), Node::leaf(n, leaf(id, n, &store)))).collect();
    let mut next_node = leaves;
    while level.len() > 1 {
        let mut above = Vec::with_capacity(level.len() / fanout + 1);
        let mut rest = level.into_iter().peekable();
        while rest.peek().is_some() {
            let (keys, nodes): (Vec<Key>, Vec<Node>) = rest.by_ref().take(fanout).unzip();
            let children = nodes.into_iter().map(Child::new).collect();
            let inner = Inner { pivots: keys[1..].to_vec(), children };
            above.push((keys[0].clone(), Node::inner(next_node, inner)));
            next_node += 1;
        }
        level = above;
    }
    let root = level.pop().map_or_else(|| Node::leaf(0, Leaf::default()), |(_, root)| root);
    let trunk = Trunk { root: Arc::new(root), next_node, flushed_upto: 0, applied: 0 };
    let format = RunFormat {
        page_bytes: 16 << 10,
        compression: Compression::None,
        key_shape: KeyShape::variable(),
        filter: false,
    };
    let options = TreeOptions { fanout, ..TreeOptions::new(format, format) };
    Tree::with_trunk(id, options, store, MemLog::new(), Arc::new(AllReaders), trunk)
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
