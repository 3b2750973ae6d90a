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
    /// A hash good in all its bits: the lowest choose the shard, the others a bucket.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        let place = (u64::from(self.table.0) << 32) | u64::from(self.page);
        let h = (self.block ^ place.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let h = (h ^ (h >> 32) ^ place).wrapping_mul(0xd6e8_feb8_6659_fd93);
        h ^ (h >> 32)
    }
}
