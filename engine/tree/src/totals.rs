//! Totals of a part of the trunk: each edge keeps the sums of its child and all below it. So
//! nothing walks a subtree only to learn how much is in it, or that it has no work.
//!
//! A change copies the path to the root and recomputes the sums on that path only (`sums.rs`).
//! So figures about a tree cost the height of the trunk, not its size.

use std::ops::Deref;
use std::sync::Arc;

use crate::slice::{Counts, Slice};

/// Memory of a node with the edge into it, of a slice, and of a run with its smallest and largest key.
const NODE_BYTES: u64 = 512;
const SLICE_BYTES: u64 = 80;
const RUN_BYTES: u64 = 448;

/// Sums over nodes and slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub counts: Counts,
    /// Estimated key and value bytes before encoding.
    pub logical_bytes: u64,
    pub slices: u64,
    pub leaves: u64,
    pub inner_nodes: u64,
}

impl Totals {
    pub fn of_slices<'a>(slices: impl IntoIterator<Item = &'a Slice>) -> Totals {
        let mut totals = Totals::default();
        for slice in slices {
            totals.counts.add(slice.counts);
            // Saturating: numbers may come from a forged file.
            totals.logical_bytes = totals.logical_bytes.saturating_add(slice.logical_bytes());
            totals.slices += 1;
        }
        totals
    }

    /// Estimated memory of the nodes, with `runs` runs: a little more than the example `checkpoint` of `bench/micro` measures.
    pub fn memory_bytes(&self, runs: u64) -> u64 {
        let nodes = self.leaves.saturating_add(self.inner_nodes).saturating_mul(NODE_BYTES);
        let slices = self.slices.saturating_mul(SLICE_BYTES);
        nodes.saturating_add(slices).saturating_add(runs.saturating_mul(RUN_BYTES))
    }

    pub fn add(&mut self, other: &Totals) {
        self.counts.add(other.counts);
        self.logical_bytes = self.logical_bytes.saturating_add(other.logical_bytes);
        self.slices += other.slices;
        self.leaves += other.leaves;
        self.inner_nodes += other.inner_nodes;
    }
}

/// What an edge says of its child and all below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub totals: Totals,
    /// Bytes of debt, as if nothing there had ever been read; the edge itself is not counted.
    pub debt: u64,
}

impl Sums {
    /// The child is a leaf.
    pub fn is_leaf(&self) -> bool {
        self.totals.inner_nodes == 0
    }
}

/// The pending slices of an edge, newest first, with their sums. Immutable.
#[derive(Clone)]
pub(crate) struct Pending {
    slices: Arc<[Slice]>,
    totals: Totals,
}

impl Pending {
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}

impl Default for Pending {
    fn default() -> Pending {
        Pending { slices: Arc::from([]), totals: Totals::default() }
    }
}

impl FromIterator<Slice> for Pending {
    fn from_iter<I: IntoIterator<Item = Slice>>(slices: I) -> Pending {
        let slices: Arc<[Slice]> = slices.into_iter().collect();
        let totals = Totals::of_slices(slices.iter());
        Pending { slices, totals }
    }
}

impl Deref for Pending {
    type Target = [Slice];

    fn deref(&self) -> &[Slice] {
        &self.slices
    }
}
