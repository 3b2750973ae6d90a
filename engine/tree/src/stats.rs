//! Figures about a tree.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use frond_base::BlockId;

use crate::extent::Extent;
use crate::node::{Body, Node};
use crate::plan::Debt;
use crate::totals::Totals;
use crate::tree::Tree;
use crate::view::{Content, View};

/// Contents of a tree, and counters of its work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Versions in runs, attached ones too, tombstones included.
    pub entries: u64,
    pub tombstones: u64,
    /// Versions in write buffers, active and frozen.
    pub buffered_entries: u64,
    pub buffered_bytes: u64,
    pub runs: u64,
    /// Stored bytes of the runs.
    pub run_bytes: u64,
    /// Key and value bytes of the run entries before encoding.
    pub logical_bytes: u64,
    pub leaves: u64,
    pub inner_nodes: u64,
    pub height: usize,
    pub frozen: usize,
    pub debt: Debt,
    /// Since the tree was opened.
    pub bytes_written: u64,
    pub entries_written: u64,
    /// Entries that came from frozen buffers: `entries_written / entries_flushed` is the write
    /// amplification in entries.
    pub entries_flushed: u64,
    /// Frozen buffers that are in the trunk.
    pub freezes: u64,
    /// Delta runs that leaves got from above, and their stored bytes.
    pub deltas: u64,
    pub delta_bytes: u64,
    /// Estimated memory of the trunk and of an empty buffer, without entries and run indexes.
    pub memory_bytes: u64,
}

impl TreeStats {
    /// Estimated rows: exact when no key has several versions.
    pub fn rows(&self) -> u64 {
        self.entries.saturating_sub(self.tombstones.saturating_mul(2)) + self.buffered_entries
    }
}

/// What a table's statistics need of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Versions in runs and write buffers, tombstones included.
    pub entries: u64,
    /// Bytes of keys and values in runs, and of memory in write buffers.
    pub bytes: u64,
    /// Entries that came in since the tree was opened.
    pub changes: u64,
}

impl Tree {
    /// A part of [`Tree::stats`], without a latch, because each statement asks for it.
    pub fn sizes(&self) -> Sizes {
        let view = self.inner.view.load();
        let (buffered, buffered_bytes) = buffered(&view);
        let runs = in_runs(&view);
        Sizes {
            entries: runs.counts.entries + buffered,
            bytes: runs.logical_bytes + buffered_bytes,
            changes: self.inner.counters.entries_flushed.load(Ordering::Relaxed) + buffered,
        }
    }

    /// Costs the same for any size: sums that the trunk's root has (`totals`), and counters.
    pub fn stats(&self) -> TreeStats {
        let inner = &self.inner;
        let view = inner.view.load();
        let mut stats = TreeStats {
            height: view.trunk.root.height() + 1,
            frozen: view.frozen.len(),
            debt: self.debt(),
            bytes_written: inner.counters.bytes_written.load(Ordering::Relaxed),
            entries_written: inner.counters.entries_written.load(Ordering::Relaxed),
            entries_flushed: inner.counters.entries_flushed.load(Ordering::Relaxed),
            freezes: inner.counters.freezes.load(Ordering::Relaxed),
            deltas: inner.counters.deltas.load(Ordering::Relaxed),
            delta_bytes: inner.counters.delta_bytes.load(Ordering::Relaxed),
            ..TreeStats::default()
        };
        let held = in_runs(&view);
        (stats.entries, stats.tombstones) = (held.counts.entries, held.counts.tombstones);
        (stats.leaves, stats.inner_nodes) = (held.leaves, held.inner_nodes);
        stats.logical_bytes = held.logical_bytes;
        stats.runs = inner.counters.runs.load(Ordering::Relaxed);
        stats.run_bytes = inner.counters.run_bytes.load(Ordering::Relaxed);
        stats.memory_bytes = inner.charged.load(Ordering::Relaxed);
        (stats.buffered_entries, stats.buffered_bytes) = buffered(&view);
        stats
    }

    /// The runs that may hold a key, write buffers not counted: the mean over all leaves. Walks the trunk.
    pub fn runs_per_read(&self) -> f64 {
        /// Adds the runs of each leaf below, `above` of which lie on the path to `node`.
        fn add(node: &Node, above: usize, sum: &mut (usize, usize)) {
            match &node.body {
                Body::Leaf(leaf) => {
                    sum.0 += above + leaf.deltas.len() + usize::from(!leaf.base.is_empty());
                    sum.1 += 1;
                }
                Body::Inner(inner) => {
                    for child in &inner.children {
                        add(&child.node, above + child.pending.len(), sum);
                    }
                }
            }
        }
        let mut sum = (0, 0);
        add(&self.inner.view.load().trunk.root, 0, &mut sum);
        sum.0 as f64 / sum.1 as f64
    }

    /// Calls `tell` with the block of each slice of the trunk: several times for a run that has
    /// several slices.
    pub fn each_block(&self, tell: &mut dyn FnMut(BlockId)) {
        let view = self.inner.view.load();
        view.trunk.each_slice(&mut |s| tell(s.run.block()));
    }

    /// The blocks that the trunk holds.
    pub fn run_extents(&self) -> Vec<(BlockId, Extent)> {
        let view = self.inner.view.load();
        let mut runs = BTreeMap::new();
        view.trunk.each_slice(&mut |s| {
            runs.insert(s.run.block(), s.run.extent);
        });
        let mut runs: Vec<_> = runs.into_iter().collect();
        runs.sort_by_key(|(block, _)| *block);
        runs
    }
}

/// Entries and bytes in write buffers, active and frozen.
fn buffered(view: &View) -> (u64, u64) {
    let frozen = view.frozen.iter().filter_map(|f| match &f.content {
        Content::Buffer(buffer) => Some(buffer),
        Content::Runs(_) => None,
    });
    let all = frozen.chain([&view.active]);
    all.fold((0, 0), |(entries, bytes), b| (entries + b.entries(), bytes + b.bytes()))
}

/// Of the trunk, and of attached runs that wait to be pushed into it.
fn in_runs(view: &View) -> Totals {
    let mut totals = view.trunk.sums.totals;
    view.frozen.iter().for_each(|item| totals.add(&item.totals));
    totals
}
