//! The memory of ended transactions' write sets, reused by transactions that begin to write.
//!
//! A transaction that changes one row takes some ten allocations for each index, and the largest is one that the
//! allocator does not keep at hand. With 64 connections these were a tenth of the processor time of an insert.
//!
//! Rejected: a write set in each thread. Servers have thousands of idle threads, and a commit may end in another
//! thread than it began in.

use frond_txn::WriteSet;
use parking_lot::Mutex;

/// About as many as transactions that write at the same time.
const KEPT: usize = 64;
/// A set keeps what the others leave of these bytes, half of them for its lists, but at least `EACH` of both: a statement
/// may have changed thousands of trees, and so may the next one. All sets together are not charged to the budget.
const ALL: usize = 4 << 20;
const EACH: usize = 16 << 10;

/// See the module.
#[derive(Default)]
pub(crate) struct WriteSets {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    sets: Vec<WriteSet>,
    bytes: usize,
}

impl Kept {
    fn pop(&mut self) -> Option<WriteSet> {
        let set = self.sets.pop()?;
        self.bytes -= set.kept_bytes();
        Some(set)
    }
}

impl WriteSets {
    /// Gives `writes`, which has no changes yet, the memory of an earlier one.
    pub fn lend(&self, writes: &mut WriteSet) {
        // The latest one: the processor may still have it in its caches.
        let kept = self.kept.lock().pop();
        if let Some(kept) = kept {
            writes.reuse(kept);
        }
    }

    /// Keeps a set that its transaction no longer needs, or frees it when there are enough.
    pub fn leave(&self, mut writes: WriteSet) {
        if !writes.is_reusable() {
            return;
        }
        let others = self.kept.lock().bytes;
        writes.clear((ALL.saturating_sub(others) / 2).max(EACH));
        let mut kept = self.kept.lock();
        if kept.sets.len() < KEPT {
            kept.bytes += writes.kept_bytes();
            kept.sets.push(writes);
        }
    }
}

#[cfg(test)]
mod tests {
    use frond_base::{TableId, TreeId};

    use super::*;

    const TREE: TreeId = TreeId { table: TableId(1), index: 0 };

    #[test]
    fn what_a_transaction_leaves_is_lent_empty_and_not_without_bound() {
        let sets = WriteSets::default();
        sets.leave(WriteSet::new());
        assert!(sets.kept.lock().sets.is_empty(), "nothing to reuse");
        for _ in 0..2 * KEPT {
            let mut writes = WriteSet::new();
            writes.put(TREE, b"key", b"value");
            sets.leave(writes);
        }
        assert_eq!(sets.kept.lock().sets.len(), KEPT);
        let mut writes = WriteSet::new();
        sets.lend(&mut writes);
        assert!(writes.is_reusable() && writes.is_empty() && writes.buffer(TREE).is_none());
    }
}
