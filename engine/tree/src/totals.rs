//! What a part of the trunk holds: sums that each node keeps of itself and all below it.
//!
//! A change copies the path to the root, and sums anew what is on that path only ([`Draft::sum_up`]).
//! So figures about a tree cost the height of the trunk, not its size.
//!
//! [`Draft::sum_up`]: crate::draft::Draft::sum_up

use std::ops::Deref;
use std::sync::Arc;

use crate::slice::{Counts, Slice};

/// Sums over nodes and slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub counts: Counts,
    /// Key and value bytes before encoding, about.
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

    pub fn add(&mut self, other: &Totals) {
        self.counts.add(other.counts);
        self.logical_bytes = self.logical_bytes.saturating_add(other.logical_bytes);
        self.slices += other.slices;
        self.leaves += other.leaves;
        self.inner_nodes += other.inner_nodes;
    }
}

/// The slices that wait on an edge, newest first, with their sums. Immutable.
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
