//! The trunk: one immutable version of a tree's metadata, from the root down.
//!
//! All of it is in memory (about 1/10 000 of the data). A new version shares all nodes that did not
//! change with the version before; readers hold a version for as long as they use its runs.

use std::sync::Arc;

use frond_base::{Lsn, NodeId};

use crate::node::{Body, Child, Inner, Leaf, Node};
use crate::slice::{Range, Slice};
use crate::sums;
use crate::totals::Sums;

pub(crate) struct Trunk {
    pub root: Arc<Node>,
    /// The sums of the root (ND6).
    pub sums: Sums,
    /// Node numbers from here on are unused.
    pub next_node: NodeId,
    /// Every record of this tree that starts below this position is in runs.
    pub flushed_upto: Lsn,
    /// Edits logged at positions below this are part of this version.
    pub applied: Lsn,
}

/// Called for a node, the edge into it and its range.
type Visit<'a, 'f> = &'f mut dyn FnMut(&'a Arc<Node>, Option<&'a Child>, &Range);

/// A node on the path of a key.
pub(crate) struct Found<'a> {
    pub node: &'a Arc<Node>,
    /// The edge into the node; `None` for the root.
    pub edge: Option<&'a Child>,
    /// The node above, with its range.
    pub above: Option<(&'a Inner, Range)>,
    pub range: Range,
}

impl Trunk {
    pub fn empty() -> Trunk {
        let root = Arc::new(Node::leaf(0, Leaf::default()));
        let sums = Sums { totals: sums::totals(&root), debt: 0 };
        Trunk { root, sums, next_node: 1, flushed_upto: 0, applied: 0 }
    }

    /// The node `id`, if it is on the path of `key`. A node keeps its id and the smallest key of
    /// its range for life (the range only ever widens to the left or gets cut on the right).
    pub fn find(&self, key: &[u8], id: NodeId) -> Option<Found<'_>> {
        let mut at = Found { node: &self.root, edge: None, above: None, range: Range::all() };
        loop {
            if at.node.id == id {
                return Some(at);
            }
            let Body::Inner(inner) = &at.node.body else { return None };
            let i = inner.child_for(key);
            let child = &inner.children[i];
            let range = inner.range(i, &at.range);
            at = Found {
                node: &child.node,
                edge: Some(child),
                above: Some((inner, at.range)),
                range,
            };
        }
    }

    /// A key that no key in the runs exceeds; `None` when there are no runs.
    pub fn last_key(&self) -> Option<&[u8]> {
        fn last_of(node: &Node) -> Option<&[u8]> {
            match &node.body {
                Body::Leaf(leaf) => leaf.slices().map(Slice::last).max(),
                Body::Inner(inner) => {
                    inner.children.iter().rev().find_map(|c| {
                        c.pending.iter().map(Slice::last).chain(last_of(&c.node)).max()
                    })
                }
            }
        }
        last_of(&self.root)
    }

    /// A key that no key in the runs is below; `None` when there are no runs.
    pub fn first_key(&self) -> Option<&[u8]> {
        first_key(&self.root, None)
    }

    /// Calls `f` for every node, parents first, with the edge into it and its range.
    pub fn walk<'a>(&'a self, f: Visit<'a, '_>) {
        fn down<'a>(inner: &'a Inner, range: &Range, f: Visit<'a, '_>) {
            for (i, child) in inner.children.iter().enumerate() {
                let range = inner.range(i, range);
                f(&child.node, Some(child), &range);
                if let Body::Inner(inner) = &child.node.body {
                    down(inner, &range, f);
                }
            }
        }
        f(&self.root, None, &Range::all());
        if let Body::Inner(inner) = &self.root.body {
            down(inner, &Range::all(), f);
        }
    }

    /// Calls `f` for every slice of every place.
    pub fn each_slice<'a>(&'a self, f: &mut dyn FnMut(&'a Slice)) {
        self.walk(&mut |node, edge, _| node_slices(node, edge).for_each(&mut *f));
    }
}

/// A lower bound of all keys at or below `node` and on the edge into it; `None` when there are no
/// keys.
pub(crate) fn first_key<'a>(node: &'a Node, edge: Option<&'a Child>) -> Option<&'a [u8]> {
    let below = match &node.body {
        Body::Leaf(leaf) => leaf.slices().map(Slice::first).min(),
        Body::Inner(inner) => inner.children.iter().find_map(|c| first_key(&c.node, Some(c))),
    };
    let waiting = edge.into_iter().flat_map(|e| e.pending.iter()).map(Slice::first);
    waiting.chain(below).min()
}

/// The slices at a node and on the edge into it.
pub(crate) fn node_slices<'a>(
    node: &'a Node,
    edge: Option<&'a Child>,
) -> impl Iterator<Item = &'a Slice> {
    edge.into_iter().flat_map(|e| e.pending.iter()).chain(node.slices())
}
