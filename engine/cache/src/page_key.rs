//! The name of a page.

use frond_base::{BlockId, TableId};

/// Names a page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PageKey {
    pub table: TableId,
    pub block: BlockId,
    pub page: u32,
}

impl PageKey {
    /// The lowest ten bits choose the shard, the others a bucket.
    ///
    /// Of a block, four pages in a row (a *clump*) have one shard and begin at one bucket, which only bits 14 and 15 tell apart:
    /// a scan then finds most of a page's places in the cache of the processor. 64 clumps in a row have shards in a row,
    /// from one chosen at random on: so the shards' shares of a large block are equal.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        let clump = self.page >> 2;
        let first = self.mix(clump >> 6) >> 8;
        let shard = first.wrapping_add(u64::from(clump)) & 0x3ff;
        ((self.mix(clump) ^ (u64::from(self.page & 3) << 14)) & !0x3ff) | shard
    }

    /// Good in all its bits.
    #[inline]
    fn mix(&self, number: u32) -> u64 {
        let place = (u64::from(self.table.0) << 32) | u64::from(number);
        let h = (self.block ^ place.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let h = (h ^ (h >> 32) ^ place).wrapping_mul(0xd6e8_feb8_6659_fd93);
        h ^ (h >> 32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn hash(table: u32, block: BlockId, page: u32) -> u64 {
        PageKey { table: TableId(table), block, page }.hash()
    }

    #[test]
    fn four_pages_in_a_row_differ_in_two_bits_and_others_in_all() {
        let mut all = HashSet::new();
        for block in 0..50 {
            for page in 0..1000 {
                let of = hash(7, block, page);
                assert!(all.insert(of));
                assert_eq!((of ^ hash(7, block, page & !3)) & !0xc000, 0);
            }
        }
        let buckets: HashSet<u64> = all.iter().map(|h| h >> 16).collect();
        assert_eq!(buckets.len(), 50 * 250);
        for bit in 10..64 {
            let ones = all.iter().filter(|h| *h >> bit & 1 == 1).count();
            assert!(ones.abs_diff(all.len() / 2) < all.len() / 50, "bit {bit}: {ones}");
        }
    }

    #[test]
    fn shards_have_equal_shares_of_blocks_of_any_size_and_of_pages_at_any_distance() {
        for shards in [1u64, 2, 16, 64, 1024] {
            for pages in [1u32, 3, 70, 1000, 100_000] {
                for (step, tables) in
                    [(1, 1), (1, 1000), (4, 1), (4, 20), (256, 1), (257, 1), (1024, 1)]
                {
                    let mut held = vec![0u64; shards as usize];
                    let blocks = (20_000 / u64::from(pages) / u64::from(tables)).max(1);
                    let all = (0..tables).flat_map(|t| (0..blocks).map(move |b| (t, b)));
                    for (table, block) in all {
                        for i in 0..pages.min(20_000) {
                            held[(hash(table, block, i * step) & (shards - 1)) as usize] += 1;
                        }
                    }
                    let mean = held.iter().sum::<u64>() / shards;
                    // Five deviations of pages that choose at random, four at a time.
                    let most = mean + 10 * (mean as f64).sqrt() as u64 + 5;
                    let max = held.iter().max().copied().unwrap_or_default();
                    assert!(
                        max <= most,
                        "{max} of {mean}: {shards} shards, {tables} x {blocks} x {pages} by {step}"
                    );
                }
            }
        }
    }
}
