//! Keeping the trunk in shape by metadata alone: splits, joins, removal of empty nodes, root growth
//! and shrinking. Runs after every change, over changed nodes only; never rewrites an entry.
//!
//! Rules
//!
//! - SH1. A leaf of several base runs and more than 3/2 of `leaf_bytes` is split at base run
//!   boundaries.
//! - SH2. A node without any slice below it or on its edge is removed; a neighbour takes over its
//!   range.
//! - SH3. Neighbouring leaves of at most half of `leaf_bytes` together are joined; neighbouring inner
//!   nodes of at most half of `fanout` children together as well.
//! - SH4. An inner node of more than `fanout` children is split into parts of equal size; a root grows
//!   a new root.
//! - SH5. A root with a single child gives way to it.
//!
//! A node that another job has marked busy keeps its identity: the rules skip it until that job's
//! own change.

use std::collections::HashSet;
use std::sync::Arc;

use frond_base::NodeId;

use crate::draft::{add_to, replace_child, Draft};
use crate::node::{Body, Child, Inner, Leaf, Node};
use crate::options::TreeOptions;
use crate::slice::{sum, Key, Range};

impl Draft {
    /// Applies the rules to all changed nodes. `busy`: nodes that other jobs hold.
    pub fn settle(&mut self, busy: &HashSet<NodeId>, options: &TreeOptions) {
        let mut shaper = Shaper { busy, options, next_node: self.next_node };
        shaper.settle(&mut self.root, &Range::all());
        shaper.settle_root(&mut self.root);
        self.next_node = shaper.next_node;
    }
}

struct Shaper<'a> {
    busy: &'a HashSet<NodeId>,
    options: &'a TreeOptions,
    next_node: NodeId,
}

impl Shaper<'_> {
    fn new_id(&mut self) -> NodeId {
        self.next_node += 1;
        self.next_node - 1
    }

    fn free(&self, node: &Node) -> bool {
        !self.busy.contains(&node.id)
    }

    fn settle(&mut self, node: &mut Arc<Node>, range: &Range) {
        // Shared with the published version, hence unchanged (DR1).
        let Some(node) = Arc::get_mut(node) else { return };
        let Body::Inner(inner) = &mut node.body else { return };
        for i in 0..inner.children.len() {
            let range = inner.range(i, range);
            self.settle(&mut inner.children[i].node, &range);
        }
        self.split_children(inner, range);
        self.drop_void(inner);
        self.join_children(inner);
        let in_shape = inner.children.iter().all(|c| self.fits(&c.node) || !self.free(&c.node));
        assert!(in_shape, "a child has more than fanout children (DR2, SH4)");
        inner.assert_level();
    }

    fn fits(&self, node: &Node) -> bool {
        match &node.body {
            Body::Leaf(_) => true,
            Body::Inner(inner) => inner.children.len() <= self.options.fanout,
        }
    }

    fn split_children(&mut self, inner: &mut Inner, range: &Range) {
        let mut i = 0;
        while i < inner.children.len() {
            let child = &inner.children[i].node;
            if !self.free(child) {
                i += 1;
                continue;
            }
            let child_range = inner.range(i, range);
            let (pivots, nodes) = match &child.body {
                Body::Leaf(leaf) => self.split_leaf(child.id, leaf, &child_range),
                Body::Inner(wide) => self.split_inner(child.id, wide, &child_range),
            };
            let grown = nodes.len().max(1);
            if !nodes.is_empty() {
                replace_child(inner, i, range, pivots, nodes);
            }
            i += grown;
        }
    }

    /// SH1. Empty when the leaf stays as it is.
    fn split_leaf(&mut self, id: NodeId, leaf: &Leaf, range: &Range) -> (Vec<Key>, Vec<Node>) {
        let cuts = leaf_cuts(leaf, self.options.leaf_bytes);
        if cuts.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut nodes = Vec::with_capacity(cuts.len() + 1);
        for i in 0..=cuts.len() {
            let lo = if i == 0 { range.lo.clone() } else { Some(cuts[i - 1].clone()) };
            let hi = cuts.get(i).cloned().or_else(|| range.hi.clone());
            let node_id = if i == 0 { id } else { self.new_id() };
            nodes.push(Node::leaf(node_id, leaf.clip(&Range { lo, hi })));
        }
        (cuts, nodes)
    }

    /// SH4. Empty when the node stays as it is.
    fn split_inner(&mut self, id: NodeId, wide: &Inner, _range: &Range) -> (Vec<Key>, Vec<Node>) {
        let count = wide.children.len();
        if count <= self.options.fanout {
            return (Vec::new(), Vec::new());
        }
        let parts = count.div_ceil(self.options.fanout).max(2);
        let mut pivots = Vec::new();
        let mut nodes = Vec::new();
        for part in 0..parts {
            let (from, upto) = (count * part / parts, count * (part + 1) / parts);
            if part > 0 {
                pivots.push(wide.pivots[from - 1].clone());
            }
            let piece = Inner {
                pivots: wide.pivots[from..upto - 1].to_vec(),
                children: wide.children[from..upto].to_vec(),
            };
            assert!(piece.children.len() <= self.options.fanout, "a part that is too wide (SH4)");
            piece.assert_pivots(0, piece.children.len());
            let node_id = if part == 0 { id } else { self.new_id() };
            nodes.push(Node::inner(node_id, piece));
        }
        (pivots, nodes)
    }

    /// SH2.
    fn drop_void(&mut self, inner: &mut Inner) {
        let mut i = 0;
        while i < inner.children.len() && inner.children.len() > 1 {
            if self.is_void(&inner.children[i]) {
                inner.children.remove(i);
                inner.pivots.remove(i.saturating_sub(1));
                inner.assert_pivots(i, i + 1);
            } else {
                i += 1;
            }
        }
    }

    fn is_void(&self, child: &Child) -> bool {
        child.pending.is_empty()
            && self.free(&child.node)
            && match &child.node.body {
                Body::Leaf(leaf) => leaf.is_empty(),
                Body::Inner(inner) => inner.children.iter().all(|c| self.is_void(c)),
            }
    }

    /// SH3.
    fn join_children(&mut self, inner: &mut Inner) {
        let mut i = 0;
        while i + 1 < inner.children.len() {
            let (left, right) = (&inner.children[i], &inner.children[i + 1]);
            let free = self.free(&left.node) && self.free(&right.node);
            let pending = left.pending.len() + right.pending.len();
            if !free || pending > self.options.node_runs {
                i += 1;
                continue;
            }
            let body = match (&left.node.body, &right.node.body) {
                (Body::Leaf(a), Body::Leaf(b)) => self.join_leaves(left, a, right, b),
                (Body::Inner(a), Body::Inner(b))
                    if a.children.len() + b.children.len() <= self.options.fanout / 2 =>
                {
                    let mut joined = a.clone();
                    joined.pivots.push(inner.pivots[i].clone());
                    joined.pivots.extend(b.pivots.iter().cloned());
                    joined.children.extend(b.children.iter().cloned());
                    joined.assert_pivots(a.children.len() - 1, a.children.len() + 1);
                    Some(Body::Inner(joined))
                }
                _ => None,
            };
            let Some(body) = body else {
                i += 1;
                continue;
            };
            let node = match body {
                Body::Leaf(leaf) => Node::leaf(left.node.id, leaf),
                Body::Inner(inner) => Node::inner(left.node.id, inner),
            };
            // Keys of the two edges are disjoint, so either order keeps recency.
            let pending = left.pending.iter().chain(right.pending.iter()).cloned().collect();
            inner.children[i] = Child { pending, ..Child::new(node) };
            inner.children.remove(i + 1);
            inner.pivots.remove(i);
            inner.assert_pivots(i, i + 1);
        }
    }

    fn join_leaves(&self, left: &Child, a: &Leaf, right: &Child, b: &Leaf) -> Option<Body> {
        let bytes = sum(left.pending.iter().chain(right.pending.iter())).bytes
            + sum(a.slices()).bytes
            + sum(b.slices()).bytes;
        let fits = bytes <= self.options.leaf_bytes / 2
            && a.base.len() + b.base.len() <= self.options.base_runs
            && a.deltas.len() + b.deltas.len() < self.options.leaf_runs;
        fits.then(|| {
            let chain = |x: &[_], y: &[_]| x.iter().chain(y).cloned().collect();
            Body::Leaf(Leaf { base: chain(&a.base, &b.base), deltas: chain(&a.deltas, &b.deltas) })
        })
    }

    /// SH1, SH4 and SH5 at the root.
    fn settle_root(&mut self, root: &mut Arc<Node>) {
        loop {
            let parts = match &root.body {
                _ if !self.free(root) => (Vec::new(), Vec::new()),
                Body::Leaf(leaf) => self.split_leaf(root.id, leaf, &Range::all()),
                Body::Inner(inner) => self.split_inner(root.id, inner, &Range::all()),
            };
            let (pivots, nodes) = parts;
            if !nodes.is_empty() {
                let children = nodes.into_iter().map(Child::new).collect();
                let id = self.new_id();
                let inner = Inner { pivots, children };
                inner.assert_pivots(0, inner.children.len());
                *root = Arc::new(Node::inner(id, inner));
                continue;
            }
            assert!(self.fits(root) || !self.free(root), "a root that is too wide (SH4)");
            let Body::Inner(inner) = &root.body else { return };
            let [only] = &inner.children[..] else { return };
            if !self.free(&only.node) {
                return;
            }
            let only = only.clone();
            let mut node = only.node.as_ref().clone();
            for slice in only.pending.iter().rev() {
                add_to(&mut node, &Range::all(), slice, &[Range::all()]);
            }
            *root = Arc::new(node);
        }
    }
}

/// Keys at which SH1 splits a leaf.
fn leaf_cuts(leaf: &Leaf, leaf_bytes: u64) -> Vec<Key> {
    let total: u64 = leaf.base.iter().map(|s| s.counts.bytes).sum();
    let mut cuts = Vec::new();
    if total <= leaf_bytes + leaf_bytes / 2 {
        return cuts;
    }
    let mut held = 0u64;
    for slice in &leaf.base {
        if held > 0 && held + slice.counts.bytes > leaf_bytes {
            cuts.push(Key::from(slice.first()));
            held = 0;
        }
        held += slice.counts.bytes;
    }
    cuts
}
