//! Estimates for an optimizer: entries in a range, distinct values of an index.

use frond_base::Result;

use super::distinct::distinct;
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

    /// Estimated number of distinct values of the first 1, 2, ... `parts` parts, from some dozens
    /// of short reads spread over the index; exact for a small one.
    pub fn distinct(&self, index: usize, parts: usize) -> Result<Vec<u64>> {
        let tree = self.table().tree(self.tree_no(index));
        let prefix = |key: &[u8], n: usize| self.codec().prefix_len(index, key, n + 1);
        distinct(tree, self.table().rows(), parts, &prefix)
    }
}
