//! Nodes of the trunk: pure metadata, immutable once published, changed by copying the path to the
//! root.
//!
//! Invariants
//!
//! - ND1. A node does not know its range; the pivots above it do. Child `i` of an inner node covers
//!   `[pivots[i-1], pivots[i])` of the node's range; pivots ascend strictly and lie inside it.
//! - ND2. Every slice at a place lies within the range of that place: the pending slices of a child
//!   edge and all slices of a leaf are clipped to the child's / leaf's range.
//! - ND3. Recency, for any key: pending of the edge into a node is newer than everything in the node's
//!   subtree; in `pending` and `deltas` earlier slices are newer; `base` is oldest.
//! - ND4. The base slices of a leaf do not overlap and ascend.
//! - ND5. All leaves are at the same depth.
//! - ND6. The sums of a published edge are those of its child: over the child and all below it, the edges below
//!   included. The sums of the root are the trunk's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::NodeId;

use crate::place::StoredCell;
use crate::slice::{Key, Range, Slice};
use crate::totals::{Pending, Sums};

/// Read work wasted at a node since its last merge or flush; cursors add to it without
/// synchronisation, the planner reads it. Copies of the node share it.
#[derive(Default)]
pub(crate) struct Heat {
    /// Entries of pending slices of the edge to this node that readers looked at.
    pub edge: AtomicU64,
    /// Entries of this leaf's delta runs that readers looked at.
    pub deltas: AtomicU64,
    /// Entries that were examined in this leaf's range and yielded nothing.
    pub dead: AtomicU64,
}

impl Heat {
    pub fn edge(&self) -> u64 {
        self.edge.load(Ordering::Relaxed)
    }

    pub fn deltas(&self) -> u64 {
        self.deltas.load(Ordering::Relaxed)
    }

    pub fn dead(&self) -> u64 {
        self.dead.load(Ordering::Relaxed)
    }
}

#[derive(Clone)]
pub(crate) struct Node {
    pub id: NodeId,
    pub body: Body,
    pub heat: Arc<Heat>,
    /// Where it is stored.
    pub stored: StoredCell,
}

#[derive(Clone)]
pub(crate) enum Body {
    Leaf(Leaf),
    Inner(Inner),
}

#[derive(Clone, Default)]
pub(crate) struct Leaf {
    /// Ascending, not overlapping.
    pub base: Vec<Slice>,
    /// Newest first.
    pub deltas: Vec<Slice>,
}

#[derive(Clone)]
pub(crate) struct Inner {
    /// One less than `children`.
    pub pivots: Vec<Key>,
    pub children: Vec<Child>,
}

#[derive(Clone)]
pub(crate) struct Child {
    pub node: Arc<Node>,
    /// Slices that wait to be flushed into the child, newest first.
    pub pending: Pending,
    /// The sums of the child: exact once published (ND6); in a draft, as of the last
    /// `Draft::sum_up`.
    pub below: Sums,
}

impl Node {
    pub fn leaf(id: NodeId, leaf: Leaf) -> Node {
        Node::new(id, Body::Leaf(leaf))
    }

    pub fn inner(id: NodeId, inner: Inner) -> Node {
        Node::new(id, Body::Inner(inner))
    }

    fn new(id: NodeId, body: Body) -> Node {
        Node { id, body, heat: Arc::default(), stored: StoredCell::default() }
    }

    /// Edges to its children; none of a leaf.
    pub fn edges(&self) -> &[Child] {
        match &self.body {
            Body::Leaf(_) => &[],
            Body::Inner(inner) => &inner.children,
        }
    }

    /// The slices of a leaf; none of an inner node, whose edges have them.
    pub fn slices(&self) -> impl Iterator<Item = &Slice> {
        let leaf = match &self.body {
            Body::Leaf(leaf) => Some(leaf),
            Body::Inner(_) => None,
        };
        leaf.into_iter().flat_map(Leaf::slices)
    }

    /// Levels below, 0 for a leaf.
    pub fn height(&self) -> usize {
        match &self.body {
            Body::Leaf(_) => 0,
            Body::Inner(inner) => 1 + inner.children[0].node.height(),
        }
    }
}

/// As `Vec::insert`, which takes memory for four at first; most leaves of small trees have one.
fn insert(slices: &mut Vec<Slice>, at: usize, slice: Slice) {
    if slices.capacity() == 0 {
        slices.reserve_exact(1);
    }
    slices.insert(at, slice);
}

impl Leaf {
    pub fn is_empty(&self) -> bool {
        self.base.is_empty() && self.deltas.is_empty()
    }

    pub fn slices(&self) -> impl Iterator<Item = &Slice> {
        self.deltas.iter().chain(&self.base)
    }

    /// The base slice that may hold `key`.
    #[inline]
    pub fn base_for(&self, key: &[u8]) -> Option<&Slice> {
        let after = self.base.partition_point(|s| s.first() <= key);
        self.base[..after].last().filter(|s| s.contains(key))
    }

    /// Puts a slice newer than all others in place: it joins the base when it overlaps nothing
    /// (rows that arrive in key order are written once), else it becomes the newest delta.
    pub fn place(&mut self, slice: Slice) {
        let at = self.base.partition_point(|s| s.first() <= slice.first());
        let free = self.base[..at].last().is_none_or(|s| s.before(&slice))
            && self.base.get(at).is_none_or(|s| slice.before(s))
            && !self.deltas.iter().any(|d| d.overlaps(&slice));
        if free {
            insert(&mut self.base, at, slice);
        } else {
            insert(&mut self.deltas, 0, slice);
        }
    }

    /// ND4, in debug builds.
    pub fn assert_base(&self) {
        let ascends = || self.base.windows(2).all(|w| w[0].before(&w[1]));
        debug_assert!(ascends(), "ND4: base slices that overlap or do not ascend");
    }

    /// The part of the leaf within `range`.
    pub fn clip(&self, range: &Range) -> Leaf {
        let clip = |slices: &[Slice]| slices.iter().filter_map(|s| s.clip(range)).collect();
        Leaf { base: clip(&self.base), deltas: clip(&self.deltas) }
    }
}

impl Inner {
    /// Asserts ND1 around the children from `from` up to before `upto`, which a change has put there.
    pub fn assert_pivots(&self, from: usize, upto: usize) {
        let count = (self.pivots.len() + 1, self.children.len());
        assert_eq!(count.0, count.1, "there is a pivot between each two children (ND1)");
        let around = &self.pivots[from.saturating_sub(1)..upto.min(self.pivots.len())];
        assert!(around.windows(2).all(|w| w[0] < w[1]), "pivots ascend (ND1)");
    }

    /// ND5, in debug builds: all children have the same height.
    pub fn assert_level(&self) {
        if cfg!(debug_assertions) {
            let height = self.children[0].node.height();
            let level = self.children.iter().all(|c| c.node.height() == height);
            assert!(level, "ND5: leaves at different depths");
        }
    }

    /// Position of the child whose range holds `key`.
    #[inline]
    pub fn child_for(&self, key: &[u8]) -> usize {
        self.pivots.partition_point(|p| &**p <= key)
    }

    /// Range of child `i` of a node with range `outer`.
    pub fn range(&self, i: usize, outer: &Range) -> Range {
        let lo = if i == 0 { outer.lo.clone() } else { Some(self.pivots[i - 1].clone()) };
        let hi = self.pivots.get(i).cloned().or_else(|| outer.hi.clone());
        Range { lo, hi }
    }
}

impl Child {
    /// An edge without pending slices. Its sums are computed later.
    pub fn new(node: Node) -> Child {
        let (pending, below) = (Pending::default(), Sums::default());
        Child { node: Arc::new(node), pending, below }
    }

    /// Adds slices newer than all pending ones.
    pub fn prepend(&mut self, newer: Vec<Slice>) {
        if !newer.is_empty() {
            self.pending = newer.into_iter().chain(self.pending.iter().cloned()).collect();
        }
    }

    /// The edge's slices within `range`.
    pub fn clip_pending(&self, range: &Range) -> Pending {
        self.pending.iter().filter_map(|s| s.clip(range)).collect()
    }
}
