//! Recovery of a tree's metadata: an image, then edits, then the tree.
//!
//! Everything here comes from disk and may be forged with good checksums: each step answers with a
//! corruption error that names the carrier, never with a panic.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use frond_base::{BlockId, Error, Lsn, NodeId, Readers, Result, TreeId};
use frond_run::RunMeta;

use crate::book::{Address, Noted, PackNote};
use crate::check;
use crate::edit::TrunkEdit;
use crate::extent::Extent;
use crate::format::{self, ImageBody};
use crate::load_packs::PackReader;
use crate::node::{Child, Inner, Leaf, Node};
use crate::options::TreeOptions;
use crate::raw::{RawNode, RawSlice};
use crate::slice::{Range, Slice};
use crate::store::{BlockSource, EditLog, RunStore, TrunkRun};
use crate::stored_format::{Below, Pack, RootImage, StoredNode};
use crate::sums;
use crate::totals::Sums;
use crate::tree::Tree;
use crate::trunk::Trunk;

/// A trunk deeper than this is not ours: fan-out is at least two.
const MAX_HEIGHT: usize = 64;

/// Node numbers stay far below this; forged ones must not overflow.
const MAX_NODE: NodeId = 1 << 62;

/// Collects an image and the edits after it.
pub struct TreeLoader {
    id: TreeId,
    nodes: HashMap<NodeId, RawNode>,
    runs: HashMap<BlockId, (RunMeta, Extent)>,
    root: NodeId,
    next_node: NodeId,
    flushed_upto: Lsn,
    applied: Lsn,
    /// The places of the nodes that did not change since the image.
    stored: HashMap<NodeId, Below>,
    /// How the tree differs from the image.
    noted: Noted,
}

impl TreeLoader {
    /// Begins a tree without an image: it was created after the last checkpoint.
    pub fn empty(id: TreeId) -> TreeLoader {
        let leaf = RawNode::Leaf { base: Vec::new(), deltas: Vec::new() };
        TreeLoader {
            id,
            nodes: HashMap::from([(0, leaf)]),
            runs: HashMap::new(),
            root: 0,
            next_node: 1,
            flushed_upto: 0,
            applied: 0,
            stored: HashMap::new(),
            noted: Noted::default(),
        }
    }

    /// Starts from the bytes of an image. `source` has the packs that it names, `file` names their carrier in
    /// errors.
    pub fn from_image(
        id: TreeId,
        image: &[u8],
        source: &dyn BlockSource,
        file: &str,
    ) -> Result<TreeLoader> {
        let (lsn, body) = format::decode_image(image, file)?;
        let mut loader = TreeLoader::empty(id);
        loader.nodes.clear();
        match body {
            ImageBody::Whole(all) => {
                loader.apply(&all, file)?;
                // The image names them.
                loader.noted.runs.clear();
            }
            ImageBody::Root(root) => loader.read_packs(root, source, file)?,
        }
        loader.applied = lsn;
        Ok(loader)
    }

    fn read_packs(&mut self, image: RootImage, source: &dyn BlockSource, file: &str) -> Result<()> {
        let bad = |what: String| Error::corruption(file, format!("tree {}: {what}", self.id));
        if image.next_node > MAX_NODE {
            return Err(bad(format!("node number {} is out of range", image.next_node)));
        }
        let mut reader = PackReader::new(source, self.id, &image.packs, file);
        let mut waiting = vec![(image.root, image.below, 0)];
        while let Some((id, below, depth)) = waiting.pop() {
            let bad = |what: String| Error::corruption(file, format!("tree {}: {what}", self.id));
            let StoredNode { id: own, runs, node, below: children } = reader.node(&below.place)?;
            if own != id || depth > MAX_HEIGHT {
                return Err(bad(format!("node {own} is stored where node {id} is expected")));
            }
            for meta in runs {
                let block = meta.block();
                let Some(extent) = source.block_extent(block) else {
                    return Err(bad(format!("block {block} is not in the block map")));
                };
                if meta.id.table != self.id.table || meta.bytes > extent.len {
                    return Err(bad(format!("block {block} does not fit its extent")));
                }
                let known = self.runs.entry(block).or_insert_with(|| (meta.clone(), extent));
                if known.0 != meta {
                    return Err(bad(format!("block {block} is described in two ways")));
                }
            }
            if let RawNode::Inner { children: ids, .. } = &node {
                // The first one is read next: it was written first.
                let all = ids.iter().zip(children).rev();
                waiting.extend(all.map(|((child, _), below)| (*child, below, depth + 1)));
            }
            self.stored.insert(id, below);
            if self.nodes.insert(id, node).is_some() {
                return Err(bad(format!("node {id} occurs twice")));
            }
        }
        reader.finish()?;
        let pack = |pack: &Pack| PackNote { bytes: pack.bytes, ..PackNote::default() };
        self.noted.packs = image.packs.iter().map(|(block, p)| (*block, pack(p))).collect();
        self.root = image.root;
        self.next_node = image.next_node;
        self.flushed_upto = image.flushed_upto;
        Ok(())
    }

    /// Applies the edit that was logged at `lsn`. False: the image contains it, nothing was done.
    pub fn apply_edit(&mut self, lsn: Lsn, edit: &TrunkEdit, file: &str) -> Result<bool> {
        if lsn < self.applied {
            return Ok(false);
        }
        self.apply(edit, file)?;
        self.applied = lsn + 1;
        Ok(true)
    }

    fn apply(&mut self, edit: &TrunkEdit, file: &str) -> Result<()> {
        let bad = |what: String| Err(Error::corruption(file, format!("tree {}: {what}", self.id)));
        for (meta, extent) in &edit.runs_added {
            if meta.id.table != self.id.table || meta.bytes > extent.len {
                return bad(format!("block {} does not fit its extent", meta.block()));
            }
            if self.runs.insert(meta.block(), (meta.clone(), *extent)).is_some() {
                return bad(format!("block {} is added twice", meta.block()));
            }
            if self.noted.runs.contains_key(&meta.block()) {
                return bad(format!("block {} comes back", meta.block()));
            }
            self.noted.run_added(meta.block());
        }
        for (id, bytes) in &edit.nodes_put {
            self.stored.remove(id);
            self.nodes.insert(*id, format::decode_node(bytes, *id, file)?);
        }
        for id in &edit.nodes_removed {
            self.stored.remove(id);
            if self.nodes.remove(id).is_none() {
                return bad(format!("node {id} is removed but does not exist"));
            }
        }
        for block in &edit.runs_removed {
            if self.runs.remove(block).is_none() {
                return bad(format!("block {block} is removed but does not exist"));
            }
            self.noted.run_removed(*block);
        }
        if edit.next_node > MAX_NODE {
            return bad(format!("node number {} is out of range", edit.next_node));
        }
        self.root = edit.root;
        self.next_node = edit.next_node;
        self.flushed_upto = edit.flushed_upto;
        Ok(())
    }

    /// Records of this tree that start below this position are in its runs.
    pub fn flushed_upto(&self) -> Lsn {
        self.flushed_upto
    }

    /// The position below which all edits are applied: that of the newest one plus 1.
    pub fn applied(&self) -> Lsn {
        self.applied
    }

    /// The blocks that the tree holds.
    pub fn runs(&self) -> impl Iterator<Item = (BlockId, Extent)> + '_ {
        self.runs.iter().map(|(block, (_, extent))| (*block, *extent))
    }

    /// The tree, after all its metadata were checked. `readers` as for [`Tree::new`].
    pub fn finish(
        mut self,
        options: impl Into<Arc<TreeOptions>>,
        store: Arc<dyn RunStore>,
        log: Arc<dyn EditLog>,
        readers: Arc<dyn Readers>,
        file: &str,
    ) -> Result<Tree> {
        let id = self.id;
        let options = options.into();
        let trunk = self.assemble(&store, &options);
        let trunk = trunk.and_then(|t| check::structure(&t).map(|()| t));
        let trunk = trunk.map_err(|what| Error::corruption(file, format!("tree {id}: {what}")))?;
        Ok(Tree::with_trunk(id, options, store, log, readers, trunk, self.noted))
    }

    /// The packs that the image names.
    pub fn packs(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.noted.packs.keys().copied()
    }

    fn assemble(
        &mut self,
        store: &Arc<dyn RunStore>,
        options: &TreeOptions,
    ) -> std::result::Result<Trunk, String> {
        let runs = std::mem::take(&mut self.runs);
        let runs: HashMap<BlockId, Arc<TrunkRun>> = runs
            .into_iter()
            .map(|(block, (meta, extent))| {
                (block, Arc::new(TrunkRun::live(meta, extent, store.clone())))
            })
            .collect();
        let mut build =
            Build { options, runs: &runs, used: HashSet::new(), addresses: HashMap::new() };
        let (root, sums, _) = self.build(self.root, &Range::all(), &mut build, 0)?;
        let Build { used, addresses, .. } = build;
        for (block, nodes) in addresses {
            if let Some(pack) = self.noted.packs.get_mut(&block) {
                pack.nodes = nodes.into();
            }
        }
        if let Some(id) = self.nodes.keys().next() {
            return Err(format!("trunk node {id} has no parent"));
        }
        if let Some(block) = runs.keys().find(|b| !used.contains(*b)) {
            return Err(format!("block {block} is held by no node"));
        }
        Ok(Trunk {
            root: Arc::new(root),
            sums,
            next_node: self.next_node,
            flushed_upto: self.flushed_upto,
            applied: self.applied,
        })
    }

    /// Takes node `id` out of the collection, so that a node that is named twice is missing the
    /// second time. True: it and all below it are as stored.
    fn build(
        &mut self,
        id: NodeId,
        range: &Range,
        build: &mut Build<'_>,
        depth: usize,
    ) -> std::result::Result<(Node, Sums, bool), String> {
        if depth > MAX_HEIGHT {
            return Err("the trunk is deeper than any tree".into());
        }
        let raw = self.nodes.remove(&id).ok_or(format!("trunk node {id} is missing"))?;
        let mut slices = |raw: Vec<RawSlice>| -> std::result::Result<Vec<Slice>, String> {
            raw.into_iter()
                .map(|s| {
                    let run = build.runs.get(&s.block);
                    let run = run.ok_or(format!("block {} unknown", s.block))?;
                    build.used.insert(s.block);
                    Ok(Slice { run: run.clone(), lo: s.lo, hi: s.hi, counts: s.counts })
                })
                .collect()
        };
        let mut as_stored = true;
        let node = match raw {
            RawNode::Leaf { base, deltas } => {
                Node::leaf(id, Leaf { base: slices(base)?, deltas: slices(deltas)? })
            }
            RawNode::Inner { pivots, children } => {
                let mut edges = Vec::with_capacity(children.len());
                for (child, pending) in children {
                    edges.push((child, slices(pending)?));
                }
                let mut inner = Inner { pivots, children: Vec::with_capacity(edges.len()) };
                if inner.pivots.len() + 1 != edges.len() {
                    return Err(format!("trunk node {id} has a wrong number of pivots"));
                }
                for (i, (child, pending)) in edges.into_iter().enumerate() {
                    let range = inner.range(i, range);
                    let (node, below, child_as_stored) =
                        self.build(child, &range, build, depth + 1)?;
                    as_stored &= child_as_stored;
                    let pending = pending.into_iter().collect();
                    inner.children.push(Child { node: Arc::new(node), pending, below });
                }
                Node::inner(id, inner)
            }
        };
        let sums = sums::of(&node, build.options);
        let stored = self.stored.remove(&id).filter(|_| as_stored);
        if let Some(below) = stored {
            if below.sums.totals != sums.totals {
                return Err(format!("trunk node {id} has other totals than its parent says"));
            }
            let Some(pack) = self.noted.packs.get_mut(&below.place.pack) else {
                return Err(format!("trunk node {id} is in no pack of the image"));
            };
            pack.live += below.place.len; // TBK1
            let addresses = build.addresses.entry(below.place.pack).or_default();
            addresses.push((id, range.lo.clone()));
            node.stored.set(Some(below.place)); // NP1
        }
        Ok((node, sums, stored.is_some()))
    }
}

/// The runs from which a trunk is put together, those that nodes named so far, and the addresses of
/// nodes in packs.
struct Build<'a> {
    options: &'a TreeOptions,
    runs: &'a HashMap<BlockId, Arc<TrunkRun>>,
    used: HashSet<BlockId>,
    addresses: HashMap<BlockId, Vec<Address>>,
}
