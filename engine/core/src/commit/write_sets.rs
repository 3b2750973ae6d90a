//! The memory of ended transactions' write sets, and of the entries of their rows, reused by transactions that begin to write.
//!
//! A transaction that changes one row takes some ten allocations for each index, and the largest is one that the
//! allocator does not keep at hand. With 64 connections these were a tenth of the processor time of an insert.
//!
//! Rejected: a write set in each thread. Servers have thousands of idle threads, and a commit may end in another
//! thread than it began in. And the entries of rows in each binding of a table: a statement may change a thousand partitions by a row
//! each, and what it wrote for the partition before is in the processor's cache.

use frond_row::Entries;
use frond_txn::WriteSet;
use parking_lot::Mutex;

/// About as many as transactions that write at the same time.
const KEPT: usize = 64;
/// A set keeps what the others leave of these bytes, half of them for its lists, but at least `EACH` of both: a statement
/// may have changed thousands of trees, and so may the next one. All sets together are not charged to the budget.
const ALL: usize = 4 << 20;
const EACH: usize = 16 << 10;

/// Entries of the row being written, and of the row it replaces; the key of a row that is only locked.
#[derive(Default)]
pub(crate) struct RowEntries {
    pub new: Entries,
    pub old: Entries,
    pub key: Vec<u8>,
}

impl RowEntries {
    fn bytes(&self) -> usize {
        self.new.memory_bytes() + self.old.memory_bytes() + self.key.capacity()
    }

    /// Moves the memory out; frees it if it is too much to keep.
    pub fn take_small(&mut self) -> RowEntries {
        let rows = std::mem::take(self);
        if rows.bytes() > EACH {
            return RowEntries::default();
        }
        rows
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct WriteSets {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    sets: Vec<(WriteSet, RowEntries)>,
    bytes: usize,
}

impl Kept {
    fn pop(&mut self) -> Option<(WriteSet, RowEntries)> {
        let set = self.sets.pop()?;
        self.bytes -= set.0.kept_bytes();
        Some(set)
    }
}

impl WriteSets {
    /// Gives `writes`, which has no changes yet, the memory of an earlier one, and replaces `rows`.
    pub fn lend(&self, writes: &mut WriteSet, rows: &mut RowEntries) {
        // The latest one: the processor may still have it in its caches.
        let kept = self.kept.lock().pop();
        if let Some((set, entries)) = kept {
            writes.reuse(set);
            *rows = entries;
        }
    }

    /// Keeps what a transaction no longer needs, or frees it when there is enough.
    pub fn leave(&self, mut writes: WriteSet, mut rows: RowEntries) {
        if !writes.is_reusable() {
            return;
        }
        let rows = rows.take_small();
        let others = self.kept.lock().bytes;
        writes.clear((ALL.saturating_sub(others) / 2).max(EACH));
        let mut kept = self.kept.lock();
        if kept.sets.len() < KEPT {
            kept.bytes += writes.kept_bytes();
            kept.sets.push((writes, rows));
        }
    }
}

#[cfg(test)]
mod tests {
    use frond_base::{TableId, TreeId};

    use super::*;

    const TREE: TreeId = TreeId { table: TableId(1), index: 0 };

    #[test]
    fn a_prepared_transaction_does_not_hold_the_memory_of_large_rows() {
        let of = |bytes| RowEntries { key: Vec::with_capacity(bytes), ..RowEntries::default() };
        assert_eq!(of(EACH).take_small().bytes(), EACH);
        assert_eq!(of(EACH + 1).take_small().bytes(), 0);
    }

    #[test]
    fn what_a_transaction_leaves_is_lent_empty_and_not_without_bound() {
        let sets = WriteSets::default();
        sets.leave(WriteSet::new(), RowEntries::default());
        assert!(sets.kept.lock().sets.is_empty(), "nothing to reuse");
        for _ in 0..2 * KEPT {
            let mut writes = WriteSet::new();
            writes.put(TREE, b"key", b"value");
            sets.leave(writes, RowEntries::default());
        }
        assert_eq!(sets.kept.lock().sets.len(), KEPT);
        let mut writes = WriteSet::new();
        sets.lend(&mut writes, &mut RowEntries::default());
        assert!(writes.is_reusable() && writes.is_empty() && writes.buffer(TREE).is_none());
    }
}
