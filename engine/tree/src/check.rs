//! The structure check: whether a trunk obeys the invariants of `node.rs`. Used by recovery (where
//! a violation is corruption) and by `Tree::check`.

use std::collections::HashSet;

use frond_base::NodeId;

use crate::node::{Body, Child, Inner, Leaf, Node};
use crate::slice::{Range, Slice};
use crate::sums;
use crate::trunk::Trunk;

/// The first violation found, in words.
pub(crate) fn structure(trunk: &Trunk) -> std::result::Result<(), String> {
    let mut check = Check { trunk, seen: HashSet::new(), leaf_depth: None };
    check.below(&trunk.root, None, &Range::all(), 0)
}

struct Check<'a> {
    trunk: &'a Trunk,
    seen: HashSet<NodeId>,
    leaf_depth: Option<usize>,
}

impl Check<'_> {
    /// Checks a node, the edge into it, and all below.
    fn below(
        &mut self,
        node: &Node,
        edge: Option<&Child>,
        range: &Range,
        depth: usize,
    ) -> std::result::Result<(), String> {
        let own = self.node(node, edge, range, depth);
        own.map_err(|what| format!("trunk node {} {what}", node.id))?;
        let Body::Inner(inner) = &node.body else { return Ok(()) };
        for (i, child) in inner.children.iter().enumerate() {
            self.below(&child.node, Some(child), &inner.range(i, range), depth + 1)?;
        }
        Ok(())
    }

    fn node(
        &mut self,
        node: &Node,
        edge: Option<&Child>,
        range: &Range,
        depth: usize,
    ) -> std::result::Result<(), String> {
        let sums = edge.map_or(&self.trunk.sums, |edge| &edge.below);
        if sums.totals != sums::totals(node) {
            return Err("has wrong totals at its edge".into());
        }
        if !self.seen.insert(node.id) {
            return Err("occurs twice".into());
        }
        if node.id >= self.trunk.next_node {
            return Err(format!("is not below next node {}", self.trunk.next_node));
        }
        for slice in edge.into_iter().flat_map(|e| e.pending.iter()) {
            slice_within(slice, range)?;
        }
        match &node.body {
            Body::Leaf(leaf) => {
                if *self.leaf_depth.get_or_insert(depth) != depth {
                    return Err("is a leaf at another depth than others".into());
                }
                leaf_sound(leaf, range)
            }
            Body::Inner(inner) => inner_sound(inner, range),
        }
    }
}

fn inner_sound(inner: &Inner, range: &Range) -> std::result::Result<(), String> {
    if inner.children.is_empty() || inner.pivots.len() + 1 != inner.children.len() {
        return Err("has a wrong number of pivots".into());
    }
    if !inner.pivots.windows(2).all(|w| w[0] < w[1]) {
        return Err("has pivots out of order".into());
    }
    let inside = |p: &[u8]| p > range.lo_bytes() && range.contains(p);
    if !inner.pivots.iter().all(|p| inside(p)) {
        return Err("has a pivot outside its range".into());
    }
    Ok(())
}

fn leaf_sound(leaf: &Leaf, range: &Range) -> std::result::Result<(), String> {
    for slice in leaf.slices() {
        slice_within(slice, range)?;
    }
    if !leaf.base.windows(2).all(|w| w[0].before(&w[1])) {
        return Err("has overlapping base runs".into());
    }
    Ok(())
}

fn slice_within(slice: &Slice, range: &Range) -> std::result::Result<(), String> {
    let meta = slice.run.meta();
    let lo_cuts = slice.lo.as_ref().is_none_or(|lo| **lo > *meta.min_key);
    let hi_cuts = slice.hi.as_ref().is_none_or(|hi| **hi <= *meta.max_key);
    let inside = slice.first() >= range.lo_bytes()
        && range.hi.as_ref().is_none_or(|hi| slice.ends_before(hi));
    let ordered =
        slice.hi.as_ref().is_none_or(|hi| slice.first() < &**hi) && slice.first() <= &*meta.max_key;
    let counts = slice.counts.bytes <= meta.bytes
        && slice.counts.entries <= meta.entries
        && slice.counts.tombstones <= meta.tombstones;
    if lo_cuts && hi_cuts && inside && ordered && counts {
        Ok(())
    } else {
        Err(format!("has a slice of block {} that does not fit its place", slice.run.block()))
    }
}
