//! The number of rows that a transaction sees.

use frond_base::Result;

use super::Rows;
use crate::commit::cursor::Cursor;
use crate::commit::transaction::Transaction;

impl Rows {
    /// Counts the entries of the smallest index, as many at a time as a page has where all of them are seen. No row is
    /// decoded or locked. An interrupt of the transaction ends it.
    pub fn count(&self, txn: &mut Transaction) -> Result<u64> {
        let table = self.table();
        let at = txn.read_at(table, false)?;
        // Where the transaction has changed rows, the snapshot may have other entries of them in other indexes (RW4).
        let others = if txn.owns_nothing(table, self.tree_no(0)) { self.indexes() } else { 1 };
        // An index that is younger than the snapshot lacks entries.
        let complete = |index: &usize| table.slot(self.tree_no(*index)).oldest_snapshot() <= at;
        let bytes = |index: &usize| {
            let stats = table.tree(self.tree_no(*index)).stats();
            stats.logical_bytes + stats.buffered_bytes
        };
        let index = (0..others).filter(complete).min_by_key(bytes).unwrap_or(0);
        let mut cursor = Cursor::new(table.clone(), self.tree_no(index), at);
        cursor.first(txn)?;
        cursor.count(txn)
    }
}
