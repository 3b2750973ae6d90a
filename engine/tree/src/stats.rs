//! Figures about a tree.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use frond_base::BlockId;

use crate::extent::Extent;
use crate::node::Body;
use crate::plan::Debt;
use crate::slice::Counts;
use crate::store::TrunkRun;
use crate::tree::Tree;
use crate::view::Content;

/// What a tree holds and has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Versions in runs, tombstones included.
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
    /// Memory of the trunk, about; buffers not included.
    pub memory_bytes: u64,
}

impl TreeStats {
    /// Rows, about: exact when no key has several versions.
    pub fn rows(&self) -> u64 {
        self.entries.saturating_sub(self.tombstones.saturating_mul(2)) + self.buffered_entries
    }
}

impl Tree {
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
            ..TreeStats::default()
        };
        let mut held = Counts::default();
        let mut runs: BTreeMap<BlockId, &TrunkRun> = BTreeMap::new();
        view.trunk.walk(&mut |node, edge, _| {
            match &node.body {
                Body::Leaf(_) => stats.leaves += 1,
                Body::Inner(_) => stats.inner_nodes += 1,
            }
            stats.memory_bytes += 256;
            for slice in crate::trunk::node_slices(node, edge) {
                held.add(slice.counts);
                stats.logical_bytes = stats.logical_bytes.saturating_add(slice.logical_bytes());
                stats.memory_bytes += 96;
                runs.insert(slice.run.block(), &slice.run);
            }
        });
        (stats.entries, stats.tombstones) = (held.entries, held.tombstones);
        stats.runs = runs.len() as u64;
        for run in runs.values() {
            stats.run_bytes = stats.run_bytes.saturating_add(run.meta().bytes);
            let fences = run.run.cached_index().map_or(0, |index| index.memory_bytes());
            stats.memory_bytes += (run.meta().memory_bytes() + fences) as u64;
        }
        let frozen = view.frozen.iter().filter_map(|f| match &f.content {
            Content::Buffer(buffer) => Some(buffer),
            Content::Runs(_) => None,
        });
        for buffer in frozen.chain([&view.active.buffer]) {
            stats.buffered_entries += buffer.entries();
            stats.buffered_bytes += buffer.bytes();
        }
        stats
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
