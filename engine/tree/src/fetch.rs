//! Prefetching what a write needs of several trees.
//!
//! From a tree's handle to the end of the list that takes an entry, five pointers follow each other. Why they are read for several
//! trees at once: `engine/buffer/src/write_buffer/fetch.rs`, which does the second half.

use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;

use frond_buffer::WriteBuffer;

use crate::tree::Tree;

impl Tree {
    /// See the module. At most 8 trees, as more views at once are counted.
    pub fn fetch<const N: usize>(trees: [Option<&Tree>; N]) {
        let trees = || trees.iter().flatten();
        black_box(trees().fold(0, |sum, tree| sum ^ tree.fetch_handle()));
        let views: [_; N] = {
            let mut trees = trees();
            std::array::from_fn(|_| trees.next().map(|tree| tree.inner.view.load()))
        };
        let views = || views.iter().flatten();
        black_box(views().fold(0, |sum, view| sum ^ view.taken_in));
        black_box(views().fold(0, |sum, view| sum ^ view.active.fetch()));
        let mut buffers = views().map(|view| &**view.active);
        WriteBuffer::fetch::<N>(std::array::from_fn(|_| buffers.next()));
    }

    fn fetch_handle(&self) -> u64 {
        let inner = &self.inner;
        let flags = inner.phase.load(Relaxed) ^ u8::from(inner.dead_ranges.any());
        u64::from(flags) ^ u64::from(self.wants_freeze()) ^ inner.ratio.load(Relaxed)
    }
}
