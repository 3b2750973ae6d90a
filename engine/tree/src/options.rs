//! Options of a tree's shape and of its background work.

use frond_run::{Compression, RunFormat};

/// The formats of runs that are written from now on. A tree mixes runs of any formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Formats {
    /// Runs of inner nodes and delta runs of leaves, which are soon rewritten.
    pub upper: RunFormat,
    /// Base runs of leaves, and runs that are adopted as such. Its `filter` applies to deltas as
    /// well; runs of inner nodes never get one.
    pub leaf: RunFormat,
}

impl Formats {
    /// The same with other pages.
    pub fn with_pages(self, page_bytes: u32, compression: Compression) -> Formats {
        let of = |format: RunFormat| RunFormat { page_bytes, compression, ..format };
        Formats { upper: of(self.upper), leaf: of(self.leaf) }
    }
}

/// Sizes are stored (encoded) bytes unless said otherwise. The defaults suit a server; tests use
/// tiny numbers so that every shape occurs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeOptions {
    /// Those that a tree begins with (`Tree::set_pages`).
    pub formats: Formats,
    /// A merged leaf is cut into pieces of at most about this many bytes.
    pub leaf_bytes: u64,
    /// Most children of an inner node.
    pub fanout: usize,
    /// A child edge with this many pending slices is flushed.
    pub node_runs: usize,
    /// A leaf with this many delta runs merges some of them among themselves.
    pub leaf_runs: usize,
    /// A leaf with more base runs than this merges the small ones.
    pub base_runs: usize,
    /// A leaf is merged when its deltas reach this part of its base, in percent.
    pub alpha_percent: u32,
    /// A piece that goes to a child is at least this large; a smaller one waits at the parent.
    pub min_slice: u64,
    /// Input after which a freeze installs what it has pushed so far.
    pub group_bytes: u64,
    /// Entries that one job step takes in.
    pub step_entries: usize,
    /// A tree whose metadata take at most about this many bytes is stored in its image as a whole.
    pub image_bytes: u64,
    /// A pack of stored nodes is closed before it gets longer than this; one node may be longer.
    pub pack_bytes: u64,
    /// Pages and batches after which a cursor takes a new view, so that it does not keep dead runs
    /// and buffers alive.
    pub cursor_refills: u32,
}

impl TreeOptions {
    pub fn new(upper: RunFormat, leaf: RunFormat) -> TreeOptions {
        TreeOptions {
            formats: Formats { upper, leaf },
            leaf_bytes: 8 << 20,
            fanout: 64,
            node_runs: 8,
            leaf_runs: 8,
            base_runs: 64,
            alpha_percent: 50,
            min_slice: 128 << 10,
            group_bytes: 16 << 20,
            step_entries: 32 << 10,
            image_bytes: 32 << 10,
            pack_bytes: 1 << 20,
            cursor_refills: 256,
        }
    }

    /// Panics on numbers with which the tree could not keep its invariants.
    pub(crate) fn assert_sound(&self) {
        assert!(self.fanout >= 4, "an inner node splits into halves of at least two");
        assert!(self.node_runs >= 1 && self.leaf_runs >= 2 && self.base_runs >= 2);
        assert!(self.leaf_bytes >= 4096 && self.step_entries > 0 && self.cursor_refills > 0);
    }
}
