//! The structure check: whether a trunk holds the invariants of `node.rs`. Used on what recovery
//! assembled (a violation there is corruption) and by `Tree::check`.

use std::collections::HashSet;

use frond_base::NodeId;

use crate::node::{Body, Inner, Leaf};
use crate::slice::{Range, Slice};
use crate::trunk::Trunk;

/// The first violation found, in words.
pub(crate) fn structure(trunk: &Trunk) -> std::result::Result<(), String> {
    let mut problem = None;
    let mut seen: HashSet<NodeId> = HashSet::new();
    let mut leaf_depth = None;
    let depth_of = depths(trunk);
    trunk.walk(&mut |node, edge, range| {
        if problem.is_some() {
            return;
        }
        let id = node.id;
        let mut check = || -> std::result::Result<(), String> {
            if node.totals != node.body.totals() {
                return Err("has wrong totals".into());
            }
            if !seen.insert(id) {
                return Err("occurs twice".into());
            }
            if id >= trunk.next_node {
                return Err(format!("is not below next node {}", trunk.next_node));
            }
            for slice in edge.into_iter().flat_map(|e| e.pending.iter()) {
                slice_within(slice, range)?;
            }
            match &node.body {
                Body::Leaf(leaf) => {
                    let depth = depth_of.get(&id).copied();
                    if *leaf_depth.get_or_insert(depth) != depth {
                        return Err("is a leaf at another depth than others".into());
                    }
                    leaf_sound(leaf, range)
                }
                Body::Inner(inner) => inner_sound(inner, range),
            }
        };
        if let Err(what) = check() {
            problem = Some(format!("trunk node {id} {what}"));
        }
    });
    problem.map_or(Ok(()), Err)
}

fn depths(trunk: &Trunk) -> std::collections::HashMap<NodeId, usize> {
    let mut depth = std::collections::HashMap::new();
    depth.insert(trunk.root.id, 0usize);
    trunk.walk(&mut |node, _, _| {
        let own = depth.get(&node.id).copied().unwrap_or(0);
        if let Body::Inner(inner) = &node.body {
            for child in &inner.children {
                depth.insert(child.node.id, own + 1);
            }
        }
    });
    depth
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
