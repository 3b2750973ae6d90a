//! The space of one file: which bytes are used, how long the file is, and which freed bytes the file
//! system still holds for us. Memory only; [`crate::TableFile`] does the I/O.
//!
//! Freed bytes are not returned at once: most are written again within seconds, and punching a hole
//! only to fill it costs the file system two rounds of metadata. Bytes that are still free at the
//! end of a checkpoint are punched then.
//!
//! - SM1. Bytes count as used while they are being punched, so that no write goes into the hole.
//!
//! Tested by `tests/it`.

use crate::extent::Extent;
use crate::extent_tree::ExtentTree;
use crate::format::{FIRST_EXTENT, MAX_FILE};

/// A free end shorter than this is kept: the next run would only grow the file again.
const TRUNCATE_MIN: u64 = 1 << 20;

pub struct SpaceMap {
    tree: ExtentTree,
    /// The file is at most this long.
    file_len: u64,
    /// Freed and not punched since; may overlap and may be in use again.
    unpunched: Vec<Extent>,
}

impl SpaceMap {
    pub fn new(file_len: u64) -> SpaceMap {
        SpaceMap { tree: ExtentTree::new(FIRST_EXTENT), file_len, unpunched: Vec::new() }
    }

    /// Takes `len` bytes at the lowest offset; `None` when the file would pass [`MAX_FILE`].
    pub fn alloc(&mut self, len: u64) -> Option<Extent> {
        if self.tree.tail() + len > MAX_FILE && self.tree.largest_hole() < len {
            return None;
        }
        let extent = self.tree.alloc(len);
        self.file_len = self.file_len.max(extent.end());
        Some(extent)
    }

    /// Takes exactly `extent`; false when part of it is in use.
    #[must_use]
    pub fn alloc_at(&mut self, extent: Extent) -> bool {
        self.tree.alloc_at(extent)
    }

    /// Makes `extent` free and remembers to punch it.
    pub fn free(&mut self, extent: Extent) {
        self.tree.free(extent);
        self.unpunched.push(extent);
    }

    /// Makes `extent` free without remembering it (replay, where nothing was written).
    pub fn unuse(&mut self, extent: Extent) {
        self.tree.free(extent);
    }

    /// All free bytes count as never punched: for recovery, which does not know which ones were.
    pub fn remember_all_holes(&mut self) {
        self.unpunched = self.tree.holes_within(FIRST_EXTENT, self.file_len);
    }

    /// The length to cut the file to, when cutting off its free end is worth it.
    pub fn truncate_to(&self) -> Option<u64> {
        let tail = self.tree.tail();
        (self.file_len.saturating_sub(tail) >= TRUNCATE_MIN).then_some(tail)
    }

    pub fn truncated(&mut self, len: u64) {
        self.file_len = len;
    }

    /// Takes up to `max` free stretches to punch; they count as used until [`SpaceMap::punched`] (SM1).
    pub fn take_punchable(&mut self, max: usize) -> Vec<Extent> {
        self.unpunched.sort_unstable();
        let mut taken = Vec::new();
        let mut kept = Vec::new();
        let mut done = 0; // everything below was looked at
        for extent in std::mem::take(&mut self.unpunched) {
            let end = extent.end().min(self.file_len);
            let from = extent.offset.max(done);
            if from >= end {
                continue;
            }
            if taken.len() >= max {
                kept.push(Extent { offset: from, len: end - from });
                continue;
            }
            for hole in self.tree.holes_within(from, end) {
                let free = self.tree.alloc_at(hole);
                assert!(free, "a hole is free");
                taken.push(hole);
            }
            done = end;
        }
        self.unpunched = kept;
        taken
    }

    /// The stretches of [`SpaceMap::take_punchable`] are free again.
    pub fn punched(&mut self, taken: &[Extent]) {
        taken.iter().for_each(|e| self.tree.free(*e));
    }

    pub fn tree(&self) -> &ExtentTree {
        &self.tree
    }

    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.unpunched.capacity() * std::mem::size_of::<Extent>()
    }
}
