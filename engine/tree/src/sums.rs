//! Computing the sums of edges (ND6 of `node.rs`).

use std::sync::Arc;

use crate::node::{Body, Node};
use crate::options::TreeOptions;
use crate::totals::{Sums, Totals};
use crate::triggers;

/// The sums of a node whose children's edges have theirs.
pub(crate) fn of(node: &Node, options: &TreeOptions) -> Sums {
    let inner = match &node.body {
        Body::Inner(inner) => inner,
        Body::Leaf(leaf) => {
            let debt = triggers::cold_leaf_debt(leaf, options);
            return Sums { totals: totals(node), debt };
        }
    };
    let debt = inner.children.iter().fold(0, |sum: u64, child| {
        let edge = triggers::cold_edge_debt(child, options);
        sum.saturating_add(edge).saturating_add(child.below.debt)
    });
    Sums { totals: totals(node), debt }
}

/// The totals of a node whose children's edges have theirs.
pub(crate) fn totals(node: &Node) -> Totals {
    match &node.body {
        Body::Leaf(leaf) => Totals { leaves: 1, ..Totals::of_slices(leaf.slices()) },
        Body::Inner(inner) => {
            let mut totals = Totals { inner_nodes: 1, ..Totals::default() };
            for child in &inner.children {
                totals.add(child.pending.totals());
                totals.add(&child.below.totals);
            }
            totals
        }
    }
}

/// Sums up `node` and all unshared nodes below it, which are those that a draft has changed; `None`: the node is
/// shared, so what its edge says is right.
pub(crate) fn sum_up(node: &mut Arc<Node>, options: &TreeOptions) -> Option<Sums> {
    let node = Arc::get_mut(node)?;
    if let Body::Inner(inner) = &mut node.body {
        for child in &mut inner.children {
            if let Some(sums) = sum_up(&mut child.node, options) {
                child.below = sums;
            }
        }
    }
    Some(of(node, options))
}
