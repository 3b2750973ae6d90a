//! The next version of the trunk, being made from the current one.
//!
//! Invariants
//!
//! - DR1. The current version outlives the draft. So a node that both share has at least two owners,
//!   and a node that the draft changed has exactly one: that is how changed nodes are told from
//!   shared ones.
//! - DR2. After [`Draft::settle`](crate::shape) the shape rules hold except at busy nodes.

use std::sync::Arc;

use frond_base::{Lsn, NodeId};

use crate::node::{Body, Child, Inner, Leaf, Node};
use crate::options::TreeOptions;
use crate::slice::{Key, Range, Slice};
use crate::sums;
use crate::totals::Sums;
use crate::trunk::Trunk;

pub(crate) struct Draft {
    pub root: Arc<Node>,
    /// The sums of the root, as of the last [`Self::sum_up`].
    pub sums: Sums,
    pub next_node: NodeId,
    pub flushed_upto: Lsn,
}

impl Draft {
    pub fn of(trunk: &Trunk) -> Draft {
        Draft {
            root: trunk.root.clone(),
            sums: trunk.sums,
            next_node: trunk.next_node,
            flushed_upto: trunk.flushed_upto,
        }
    }

    pub fn into_trunk(self, applied: Lsn) -> Trunk {
        let totals = sums::totals(&self.root);
        assert_eq!(self.sums.totals, totals, "the sums of a published root (ND6)");
        Trunk {
            root: self.root,
            sums: self.sums,
            next_node: self.next_node,
            flushed_upto: self.flushed_upto,
            applied,
        }
    }

    /// Computes the sums of all changed nodes.
    pub fn sum_up(&mut self, options: &TreeOptions) {
        if let Some(sums) = sums::sum_up(&mut self.root, options) {
            self.sums = sums;
        }
    }

    pub fn new_id(&mut self) -> NodeId {
        self.next_node += 1;
        self.next_node - 1
    }

    /// Changes node `id` on the path of `key`; it must exist.
    pub fn edit_node<R>(
        &mut self,
        key: &[u8],
        id: NodeId,
        f: impl FnOnce(&mut Node, &Range) -> R,
    ) -> R {
        let mut range = Range::all();
        let mut at = &mut self.root;
        while at.id != id {
            let Body::Inner(inner) = &mut Arc::make_mut(at).body else {
                panic!("node {id} is on the path of its key");
            };
            let i = inner.child_for(key);
            range = inner.range(i, &range);
            at = &mut inner.children[i].node;
        }
        f(Arc::make_mut(at), &range)
    }

    /// Changes the child list that holds node `id`, which must exist and not be the root.
    pub fn edit_parent<R>(
        &mut self,
        key: &[u8],
        id: NodeId,
        f: impl FnOnce(&mut Inner, usize, &Range) -> R,
    ) -> R {
        let mut range = Range::all();
        let mut at = &mut self.root;
        loop {
            let Body::Inner(inner) = &mut Arc::make_mut(at).body else {
                panic!("node {id} is on the path of its key");
            };
            let i = inner.child_for(key);
            if inner.children[i].node.id == id {
                return f(inner, i, &range);
            }
            range = inner.range(i, &range);
            at = &mut inner.children[i].node;
        }
    }

    /// Adds the slices that a job wrote for node `id`; they are newer than all in the node's subtree.
    pub fn add(&mut self, key: &[u8], id: NodeId, slice: &Slice, covered: &[Range]) {
        self.edit_node(key, id, |node, range| add_to(node, range, slice, covered));
    }

    /// Adds a slice newer than everything in the trunk.
    pub fn add_top(&mut self, slice: &Slice, covered: &[Range]) {
        add_to(Arc::make_mut(&mut self.root), &Range::all(), slice, covered);
    }

    /// Replaces leaf `id` by leaves: each with its smallest key, the first one with the leaf's own.
    /// The first keeps the id; read counters start anew.
    pub fn replace_leaf(&mut self, key: &[u8], id: NodeId, pieces: Vec<(Option<Key>, Leaf)>) {
        assert!(!pieces.is_empty(), "a leaf is replaced by at least one");
        let mut pivots = Vec::with_capacity(pieces.len() - 1);
        let mut nodes = Vec::with_capacity(pieces.len());
        for (i, (lo, leaf)) in pieces.into_iter().enumerate() {
            let node_id = if i == 0 { id } else { self.new_id() };
            pivots.extend(lo.filter(|_| i > 0));
            nodes.push(Node::leaf(node_id, leaf));
        }
        assert_eq!(pivots.len() + 1, nodes.len(), "each further piece has a pivot (ND1)");
        if self.root.id == id {
            self.root = Arc::new(match nodes.len() {
                1 => nodes.remove(0),
                _ => {
                    let children = nodes.into_iter().map(Child::new).collect();
                    let inner = Inner { pivots, children };
                    inner.assert_pivots(0, inner.children.len());
                    Node::inner(self.new_id(), inner)
                }
            });
            return;
        }
        self.edit_parent(key, id, |parent, at, outer| {
            replace_child(parent, at, outer, pivots, nodes);
        });
    }
}

/// Replaces child `at` by `nodes` separated by `pivots`; each gets its part of the pending slices.
pub(crate) fn replace_child(
    parent: &mut Inner,
    at: usize,
    outer: &Range,
    pivots: Vec<Key>,
    nodes: Vec<Node>,
) {
    let range = parent.range(at, outer);
    let old = parent.children[at].clone();
    let count = nodes.len();
    let children: Vec<Child> = nodes
        .into_iter()
        .enumerate()
        .map(|(i, node)| {
            let lo = if i == 0 { range.lo.clone() } else { Some(pivots[i - 1].clone()) };
            let hi = pivots.get(i).cloned().or_else(|| range.hi.clone());
            let pending = match count {
                1 => old.pending.clone(),
                _ => old.clip_pending(&Range { lo, hi }),
            };
            Child { pending, ..Child::new(node) }
        })
        .collect();
    parent.children.splice(at..=at, children);
    parent.pivots.splice(at..at, pivots);
    parent.assert_pivots(at, at + count);
}

/// Places `slice`, cut to `covered`, at a node: in a leaf, or on the edges of an inner node.
pub(crate) fn add_to(node: &mut Node, range: &Range, slice: &Slice, covered: &[Range]) {
    match &mut node.body {
        Body::Leaf(leaf) => {
            for part in covered {
                if let Some(part) = slice.clip(&part.intersect(range)) {
                    leaf.place(part);
                }
            }
        }
        Body::Inner(inner) => {
            for i in 0..inner.children.len() {
                let child_range = inner.range(i, range);
                if !slice.in_range(&child_range) {
                    continue;
                }
                let parts = covered.iter().filter_map(|c| {
                    let part = c.intersect(&child_range);
                    if part.is_empty() {
                        None
                    } else {
                        slice.clip(&part)
                    }
                });
                let parts: Vec<Slice> = parts.collect();
                inner.children[i].prepend(parts);
            }
        }
    }
}
