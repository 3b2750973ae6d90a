//! Recovery of a tree's metadata: an image, then edits, then the tree.
//!
//! Everything here comes from disk and may be forged with good checksums: each step answers with a
//! corruption error that names the carrier, never with a panic.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use frond_base::{BlockId, Error, Lsn, NodeId, Readers, Result, TreeId};
use frond_run::RunMeta;

use crate::check;
use crate::edit::TrunkEdit;
use crate::extent::Extent;
use crate::format::{self, RawNode, RawSlice};
use crate::node::{Child, Inner, Leaf, Node};
use crate::options::TreeOptions;
use crate::slice::Slice;
use crate::store::{EditLog, RunStore, TrunkRun};
use crate::tree::Tree;
use crate::trunk::Trunk;

/// A trunk deeper than this is not ours: fan-out is at least two.
const MAX_HEIGHT: usize = 64;

/// Node numbers stay far below this; forged ones must not overflow.
const MAX_NODE: NodeId = 1 << 62;

/// Collects what an image and the edits after it say.
pub struct TreeLoader {
    id: TreeId,
    nodes: HashMap<NodeId, RawNode>,
    runs: HashMap<BlockId, (RunMeta, Extent)>,
    root: NodeId,
    next_node: NodeId,
    flushed_upto: Lsn,
    applied: Lsn,
}

impl TreeLoader {
    /// A tree without an image: created after the last checkpoint.
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
        }
    }

    /// Starts from the bytes of [`Tree::image`]. `file` names their carrier in errors.
    pub fn from_image(id: TreeId, image: &[u8], file: &str) -> Result<TreeLoader> {
        let (lsn, all) = format::decode_image(image, file)?;
        let mut loader = TreeLoader::empty(id);
        loader.nodes.clear();
        loader.apply(&all, file)?;
        loader.applied = lsn;
        Ok(loader)
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
        }
        for (id, bytes) in &edit.nodes_put {
            self.nodes.insert(*id, format::decode_node(bytes, *id, file)?);
        }
        for id in &edit.nodes_removed {
            if self.nodes.remove(id).is_none() {
                return bad(format!("node {id} is removed but does not exist"));
            }
        }
        for block in &edit.runs_removed {
            if self.runs.remove(block).is_none() {
                return bad(format!("block {block} is removed but does not exist"));
            }
        }
        if edit.next_node > MAX_NODE {
            return bad(format!("node number {} is out of range", edit.next_node));
        }
        self.root = edit.root;
        self.next_node = edit.next_node;
        self.flushed_upto = edit.flushed_upto;
        Ok(())
    }

    /// Records of this tree that start below are in its runs.
    pub fn flushed_upto(&self) -> Lsn {
        self.flushed_upto
    }

    /// Behind the record of the newest edit.
    pub fn applied(&self) -> Lsn {
        self.applied
    }

    /// The blocks that the tree holds.
    pub fn runs(&self) -> impl Iterator<Item = (BlockId, Extent)> + '_ {
        self.runs.iter().map(|(block, (_, extent))| (*block, *extent))
    }

    /// The tree, after everything it says about itself was checked. `readers` as for [`Tree::new`].
    pub fn finish(
        mut self,
        options: TreeOptions,
        store: Arc<dyn RunStore>,
        log: Arc<dyn EditLog>,
        readers: Arc<dyn Readers>,
        file: &str,
    ) -> Result<Tree> {
        let id = self.id;
        let trunk = self.assemble(&store).and_then(|t| check::structure(&t).map(|()| t));
        let trunk = trunk.map_err(|what| Error::corruption(file, format!("tree {id}: {what}")))?;
        Ok(Tree::with_trunk(id, options, store, log, readers, trunk))
    }

    fn assemble(&mut self, store: &Arc<dyn RunStore>) -> std::result::Result<Trunk, String> {
        let runs = std::mem::take(&mut self.runs);
        let runs: HashMap<BlockId, Arc<TrunkRun>> = runs
            .into_iter()
            .map(|(block, (meta, extent))| {
                (block, Arc::new(TrunkRun::live(meta, extent, store.clone())))
            })
            .collect();
        let mut used = HashSet::new();
        let root = self.build(self.root, &runs, &mut used, 0)?;
        if let Some(id) = self.nodes.keys().next() {
            return Err(format!("trunk node {id} has no parent"));
        }
        if let Some(block) = runs.keys().find(|b| !used.contains(*b)) {
            return Err(format!("block {block} is held by no node"));
        }
        Ok(Trunk {
            root: Arc::new(root),
            next_node: self.next_node,
            flushed_upto: self.flushed_upto,
            applied: self.applied,
        })
    }

    /// Takes node `id` out of the collection, so that a node met twice is missing the second time.
    fn build(
        &mut self,
        id: NodeId,
        runs: &HashMap<BlockId, Arc<TrunkRun>>,
        used: &mut HashSet<BlockId>,
        depth: usize,
    ) -> std::result::Result<Node, String> {
        if depth > MAX_HEIGHT {
            return Err("the trunk is deeper than any tree".into());
        }
        let raw = self.nodes.remove(&id).ok_or(format!("trunk node {id} is missing"))?;
        let mut slices = |raw: Vec<RawSlice>| -> std::result::Result<Vec<Slice>, String> {
            raw.into_iter()
                .map(|s| {
                    let run = runs.get(&s.block).ok_or(format!("block {} unknown", s.block))?;
                    used.insert(s.block);
                    Ok(Slice { run: run.clone(), lo: s.lo, hi: s.hi, counts: s.counts })
                })
                .collect()
        };
        match raw {
            RawNode::Leaf { base, deltas } => {
                Ok(Node::leaf(id, Leaf { base: slices(base)?, deltas: slices(deltas)? }))
            }
            RawNode::Inner { pivots, children } => {
                let mut edges = Vec::with_capacity(children.len());
                for (child, pending) in children {
                    edges.push((child, slices(pending)?));
                }
                let mut children = Vec::with_capacity(edges.len());
                for (child, pending) in edges {
                    let node = self.build(child, runs, used, depth + 1)?;
                    children.push(Child {
                        node: Arc::new(node),
                        pending: pending.into_iter().collect(),
                    });
                }
                Ok(Node::inner(id, Inner { pivots, children }))
            }
        }
    }
}
