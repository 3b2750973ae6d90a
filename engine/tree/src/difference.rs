//! Deriving trunk edits. Jobs change a draft, and the edit is the difference between the draft and
//! the trunk. So replaying edits cannot disagree with the running tree.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use frond_base::{BlockId, NodeId};

use crate::draft::Draft;
use crate::edit::TrunkEdit;
use crate::format;
use crate::node::{Body, Node};
use crate::store::TrunkRun;
use crate::sums;
use crate::trunk::{node_slices, Trunk};

/// The number of places of the trunk that refer to each run.
pub(crate) type Refs = HashMap<BlockId, u32>;

/// An edit, and the other effects of installing it.
pub(crate) struct Change {
    pub edit: TrunkEdit,
    pub added: Vec<Arc<TrunkRun>>,
    pub removed: Vec<Arc<TrunkRun>>,
    /// Nodes that leave the trunk, changed ones included.
    pub replaced: Vec<Arc<Node>>,
    /// New counts of the runs whose number of references changed.
    pub refs: Refs,
}

/// The difference from `old` to `draft`, which was made from it; `old` is still alive.
pub(crate) fn difference(old: &Trunk, draft: &Draft, refs: &Refs) -> Change {
    // Readers own versions, not nodes: if the root has an owner beside the draft, it is the version
    // before.
    let shared = Arc::strong_count(&draft.root) > 1;
    let same = Arc::ptr_eq(&old.root, &draft.root);
    assert_eq!(shared, same, "a root has two owners if both versions share it (DR1)");
    let mut new_nodes = Collected::default();
    let mut kept = HashSet::new();
    collect_changed(&draft.root, &mut new_nodes, &mut kept);
    let mut old_nodes = Collected::default();
    let mut replaced = Vec::new();
    collect_replaced(&old.root, &mut old_nodes, &mut replaced, &kept);

    let mut edit = TrunkEdit {
        root: draft.root.id,
        next_node: draft.next_node,
        flushed_upto: draft.flushed_upto,
        ..TrunkEdit::default()
    };
    for (id, node) in &new_nodes.nodes {
        let bytes = format::encode_node(node);
        let same = old_nodes.nodes.get(id).is_some_and(|o| format::encode_node(o) == bytes);
        if !same {
            edit.nodes_put.push((*id, bytes));
        }
    }
    for id in old_nodes.nodes.keys() {
        if !new_nodes.nodes.contains_key(id) {
            edit.nodes_removed.push(*id);
        }
    }
    let (added, removed) = (Vec::new(), Vec::new());
    let mut change = Change { edit, added, removed, replaced, refs: Refs::new() };
    let mut blocks: BTreeMap<BlockId, (Arc<TrunkRun>, i64)> = BTreeMap::new();
    for (run, n) in new_nodes.runs.into_values() {
        blocks.entry(run.block()).or_insert((run, 0)).1 += n;
    }
    for (run, n) in old_nodes.runs.into_values() {
        blocks.entry(run.block()).or_insert((run, 0)).1 -= n;
    }
    for (block, (run, by)) in blocks {
        let before = i64::from(refs.get(&block).copied().unwrap_or(0));
        let after = before + by;
        assert!(after >= 0, "block {block} has fewer references than places");
        change.refs.insert(block, after as u32);
        if before == 0 && after > 0 {
            change.edit.runs_added.push((run.meta().clone(), run.extent));
            change.added.push(run);
        } else if before > 0 && after == 0 {
            change.edit.runs_removed.push(block);
            change.removed.push(run);
        }
    }
    change
}

/// The edit that makes `trunk` from nothing: the body of an image.
pub(crate) fn whole(trunk: &Trunk) -> TrunkEdit {
    let mut nodes_put = Vec::new();
    let mut runs = BTreeMap::new();
    trunk.walk(&mut |node, edge, _| {
        nodes_put.push((node.id, format::encode_node(node)));
        for s in node_slices(node, edge) {
            runs.entry(s.run.block()).or_insert_with(|| (s.run.meta().clone(), s.run.extent));
        }
    });
    TrunkEdit {
        nodes_put,
        root: trunk.root.id,
        next_node: trunk.next_node,
        runs_added: runs.into_values().collect(),
        flushed_upto: trunk.flushed_upto,
        ..TrunkEdit::default()
    }
}

/// References to runs, from scratch; calls `f` for every run that the trunk holds, once.
pub(crate) fn count_refs<'a>(trunk: &'a Trunk, f: &mut dyn FnMut(&'a TrunkRun)) -> Refs {
    let mut refs = Refs::new();
    trunk.each_slice(&mut |s| {
        let count = refs.entry(s.run.block()).or_insert(0);
        if *count == 0 {
            f(&s.run);
        }
        *count += 1;
    });
    refs
}

#[derive(Default)]
struct Collected<'a> {
    nodes: BTreeMap<NodeId, &'a Node>,
    runs: BTreeMap<BlockId, (Arc<TrunkRun>, i64)>,
}

impl<'a> Collected<'a> {
    /// Notes a node; its pending slices are counted at its parent, which has the edge.
    fn note(&mut self, node: &'a Node) {
        self.nodes.insert(node.id, node);
        let pending = node.edges().iter().flat_map(|c| c.pending.iter());
        for s in node_slices(node, None).chain(pending) {
            self.runs.entry(s.run.block()).or_insert_with(|| (s.run.clone(), 0)).1 += 1;
        }
    }
}

/// Nodes of the draft that are not shared with the old version (DR1), and the
/// addresses of the topmost shared ones.
fn collect_changed<'a>(
    node: &'a Arc<Node>,
    out: &mut Collected<'a>,
    kept: &mut HashSet<*const Node>,
) {
    if Arc::strong_count(node) > 1 {
        kept.insert(Arc::as_ptr(node));
        return;
    }
    out.note(node);
    if let Body::Inner(inner) = &node.body {
        for child in &inner.children {
            debug_assert_eq!(child.below.totals, sums::totals(&child.node), "a wrong edge (ND6)");
            collect_changed(&child.node, out, kept);
        }
    }
}

fn collect_replaced<'a>(
    node: &'a Arc<Node>,
    out: &mut Collected<'a>,
    replaced: &mut Vec<Arc<Node>>,
    kept: &HashSet<*const Node>,
) {
    if kept.contains(&Arc::as_ptr(node)) {
        return;
    }
    out.note(node);
    replaced.push(node.clone());
    if let Body::Inner(inner) = &node.body {
        inner.children.iter().for_each(|c| collect_replaced(&c.node, out, replaced, kept));
    }
}
