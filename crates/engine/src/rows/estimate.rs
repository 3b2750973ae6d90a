//! What an optimizer asks: how many entries are in a range, how many distinct values an index has.

use std::collections::HashSet;
use std::ops::Bound;

use frond_base::{Result, SEQ_MAX};
use frond_tree::Bounds;

use super::Rows;

/// Entries read to estimate distinct values.
const SAMPLE: u64 = 20_000;

impl Rows {
    /// Estimated entries of schema index `index` in `[lo, hi)`; `None` is open. Reads metadata in memory
    /// only. At least 1 for a range that is not surely empty.
    pub fn estimate(&self, index: usize, lo: Option<&[u8]>, hi: Option<&[u8]>) -> u64 {
        if let (Some(lo), Some(hi)) = (lo, hi) {
            if lo >= hi {
                return 0;
            }
        }
        let tree = self.table().tree(self.tree_no(index));
        let bound = |b: Option<&[u8]>| b.map(<[u8]>::to_vec);
        tree.estimate(bound(lo).as_deref(), bound(hi).as_deref()).max(1)
    }

    /// Estimated number of distinct values of the first 1, 2, ... `parts` parts. Reads up to 20 000
    /// entries from the front of the index.
    pub fn distinct(&self, index: usize, parts: usize) -> Result<Vec<u64>> {
        let tree = self.table().tree(self.tree_no(index));
        let total = self.table().rows().max(1);
        let lo: Bound<&[u8]> = Bound::Unbounded;
        let mut cursor = tree.cursor(SEQ_MAX, Bounds::new(lo, Bound::Unbounded));
        let mut seen: Vec<HashSet<Vec<u8>>> = vec![HashSet::new(); parts];
        let mut read = 0u64;
        let mut valid = cursor.first()?;
        while valid && read < SAMPLE {
            for (n, set) in seen.iter_mut().enumerate() {
                let len = self.codec().prefix_len(index, cursor.key(), n + 1)?;
                if !set.contains(&cursor.key()[..len]) {
                    set.insert(cursor.key()[..len].to_vec());
                }
            }
            read += 1;
            valid = cursor.next()?;
        }
        let scale = |distinct: usize| -> u64 {
            let distinct = distinct as u64;
            if read == 0 {
                return 0;
            }
            if read < SAMPLE {
                return distinct;
            }
            // A sample from the front: values seen once per `read / distinct` entries.
            (u128::from(distinct) * u128::from(total) / u128::from(read)).min(u128::from(total))
                as u64
        };
        Ok(seen.iter().map(|set| scale(set.len())).collect())
    }
}
