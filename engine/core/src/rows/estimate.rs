//! Estimates for an optimizer: entries in a range.

use super::Rows;

impl Rows {
    /// Estimated entries of schema index `index` in `[lo, hi)`; `None` is open. Reads what is in memory
    /// only. At least 1 unless the range is certainly empty.
    pub fn estimate(&self, index: usize, lo: Option<&[u8]>, hi: Option<&[u8]>) -> u64 {
        if let (Some(lo), Some(hi)) = (lo, hi) {
            if lo >= hi {
                return 0;
            }
        }
        let tree = self.table().tree(self.tree_no(index));
        tree.estimate(lo, hi).max(1)
    }
}
