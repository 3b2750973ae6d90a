//! Estimates from metadata in memory: fences and counts, no page is read (but for a run whose
//! fences were never loaded).

use std::ops::Bound;

use crate::slice::Range;
use crate::tree::Tree;
use crate::view::Content;

impl Tree {
    /// Estimated number of entries with keys in `[lo, hi)`; `None` is open. Runs contribute the
    /// share of their pages that the range covers, buffers their own estimate.
    pub fn estimate(&self, lo: Option<&[u8]>, hi: Option<&[u8]>) -> u64 {
        let view = self.inner.view.load();
        let range = Range { lo: lo.map(Into::into), hi: hi.map(Into::into) };
        let mut entries = 0u64;
        let mut add = |slice: &crate::slice::Slice| {
            if let Some(part) = slice.clip(&range) {
                // Less than a page counts as something: the range is not empty there for certain.
                let live =
                    part.counts.entries.saturating_sub(part.counts.tombstones.saturating_mul(2));
                entries = entries.saturating_add(live.max(1));
            }
        };
        view.trunk.each_slice(&mut add);
        let bounds = (lo.map_or(Bound::Unbounded, Bound::Included), hi);
        let upper = bounds.1.map_or(Bound::Unbounded, Bound::Excluded);
        let mut buffered = view.active.buffer.weight(bounds.0, upper).entries;
        for item in &view.frozen {
            match &item.content {
                Content::Buffer(buffer) => buffered += buffer.weight(bounds.0, upper).entries,
                Content::Runs(lists) => lists.iter().flat_map(|l| l.iter()).for_each(&mut add),
            }
        }
        entries.saturating_add(buffered)
    }
}
