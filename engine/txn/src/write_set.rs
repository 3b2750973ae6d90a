//! `WriteSet`: what a transaction has changed and not yet committed.
//!
//! One [`SortedBuffer`] per tree; the sequence of an entry is the number of the operation that wrote
//! it. A savepoint is a number, a rollback removes what is newer. A key that is written again with no
//! savepoint in between keeps only its last version. The engine takes a savepoint when a statement
//! begins, so a cursor of that statement reads at the savepoint and does not meet its own changes.
//!
//! What takes too much memory is written elsewhere by the owner: it takes a tree's buffer out
//! ([`WriteSet::take`]), cuts it at the savepoints that are live, and puts back what it keeps.
//!
//! Tested here; the buffer in its own crate.

use frond_base::{EntryKind, EntryRef, Seq, TableId, TreeId};
use frond_buffer::{Put, SortedBuffer};

/// The number of an operation within its transaction, from 1. 0 is "before the first".
pub type Op = Seq;

struct TreeWrites {
    tree: TreeId,
    buffer: SortedBuffer,
}

struct RowDelta {
    op: Op,
    table: TableId,
    delta: i64,
}

/// See the module.
#[derive(Default)]
pub struct WriteSet {
    trees: Vec<TreeWrites>,
    rows: Vec<RowDelta>,
    op: Op,
    /// No version at or before it may be overwritten: the latest live savepoint, or later.
    mark: Op,
    /// Savepoints that may be returned to, ascending; some several times.
    live: Vec<Op>,
}

impl WriteSet {
    pub fn new() -> WriteSet {
        WriteSet::default()
    }

    fn tree_mut(&mut self, tree: TreeId) -> &mut SortedBuffer {
        let at = match self.trees.iter().position(|t| t.tree == tree) {
            Some(at) => at,
            None => {
                self.trees.push(TreeWrites { tree, buffer: SortedBuffer::new() });
                self.trees.len() - 1
            }
        };
        &mut self.trees[at].buffer
    }

    /// The changes of one tree, with operation numbers as sequences: for cursors.
    pub fn buffer(&self, tree: TreeId) -> Option<&SortedBuffer> {
        self.trees.iter().find(|t| t.tree == tree).map(|t| &t.buffer)
    }

    /// Sets `key` to `value`; says what this transaction had written there before.
    pub fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Put {
        self.write(tree, key, EntryKind::Put, value)
    }

    /// Deletes `key`, whether or not it exists.
    pub fn delete(&mut self, tree: TreeId, key: &[u8]) -> Put {
        self.write(tree, key, EntryKind::Delete, &[])
    }

    fn write(&mut self, tree: TreeId, key: &[u8], kind: EntryKind, value: &[u8]) -> Put {
        self.op += 1;
        let (op, mark) = (self.op, self.mark);
        self.tree_mut(tree).put_over(key, op, kind, value, mark)
    }

    /// This transaction's own version of `key` as of operation `at`, if any; the value is appended.
    pub fn get(
        &self,
        tree: TreeId,
        key: &[u8],
        at: Op,
        out: &mut Vec<u8>,
    ) -> Option<(Op, EntryKind)> {
        self.buffer(tree)?.get(key, at, out)
    }

    /// The last operation so far.
    pub fn now(&self) -> Op {
        self.op
    }

    /// A point to return to, or to read at, until it is released or rolled back past. O(1).
    pub fn savepoint(&mut self) -> Op {
        self.mark = self.op;
        self.live.push(self.op);
        self.op
    }

    /// The savepoint `mark` will not be returned to any more; others stay, also of the same operation.
    pub fn release(&mut self, mark: Op) {
        let Some(at) = self.live.iter().rposition(|m| *m == mark) else { return };
        self.live.remove(at);
        self.mark = self.live.last().copied().unwrap_or(0);
        self.join_rows();
    }

    /// Savepoints that may be returned to, ascending. The beginning is one, and not listed.
    pub fn live_savepoints(&self) -> &[Op] {
        &self.live
    }

    /// Takes the changes of one tree out.
    pub fn take(&mut self, tree: TreeId) -> SortedBuffer {
        match self.trees.iter_mut().find(|t| t.tree == tree) {
            Some(t) => std::mem::take(&mut t.buffer),
            None => SortedBuffer::new(),
        }
    }

    /// Puts changes in the place of those that [`WriteSet::take`] took.
    pub fn put_back(&mut self, tree: TreeId, buffer: SortedBuffer) {
        *self.tree_mut(tree) = buffer;
    }

    /// Takes back everything after the savepoint `to`, which stays. Operation numbers are not used again,
    /// so savepoints taken later must not be returned to any more (asserted only if beyond the end).
    pub fn rollback_to(&mut self, to: Op) {
        assert!(to <= self.op, "savepoint {to} is not of this transaction");
        for t in &mut self.trees {
            t.buffer.undo_to(to);
        }
        while self.rows.last().is_some_and(|r| r.op > to) {
            self.rows.pop();
        }
        while self.live.last().is_some_and(|m| *m > to) {
            self.live.pop();
        }
        self.mark = self.op;
    }

    /// Counts that no savepoint keeps apart become one per table.
    fn join_rows(&mut self) {
        let from = self.rows.partition_point(|r| r.op <= self.mark);
        let newer = self.rows.split_off(from);
        for r in newer {
            match self.rows[from..].iter_mut().find(|o| o.table == r.table) {
                Some(one) => one.delta += r.delta,
                None => self.rows.push(r),
            }
        }
    }

    /// Notes that `table` has `delta` rows more, as part of the latest operation.
    pub fn add_rows(&mut self, table: TableId, delta: i64) {
        let (op, mark) = (self.op, self.mark);
        let since_mark = self.rows.iter_mut().rev().take_while(|r| r.op > mark);
        match since_mark.into_iter().find(|r| r.table == table) {
            Some(r) => r.delta += delta,
            None => self.rows.push(RowDelta { op, table, delta }),
        }
    }

    /// Changes of row counts, one per table.
    pub fn row_deltas(&self) -> Vec<(TableId, i64)> {
        let mut sums: Vec<(TableId, i64)> = Vec::new();
        for r in &self.rows {
            match sums.iter_mut().find(|s| s.0 == r.table) {
                Some(s) => s.1 += r.delta,
                None => sums.push((r.table, r.delta)),
            }
        }
        sums
    }

    /// Trees that have changes.
    pub fn trees(&self) -> impl Iterator<Item = TreeId> + '_ {
        self.trees.iter().filter(|t| !t.buffer.is_empty()).map(|t| t.tree)
    }

    /// The last version of every changed key of `tree`, in order: what commit writes. The sequences
    /// are operation numbers; the caller puts the commit sequence in their place.
    pub fn iter_newest(&self, tree: TreeId) -> impl Iterator<Item = EntryRef<'_>> {
        self.buffer(tree).into_iter().flat_map(SortedBuffer::iter_newest)
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.trees.iter().map(|t| t.buffer.bytes()).sum::<usize>()
            + self.trees.capacity() * std::mem::size_of::<TreeWrites>()
            + self.rows.capacity() * std::mem::size_of::<RowDelta>()
    }

    /// Versions held, superseded ones included.
    pub fn entries(&self) -> usize {
        self.trees.iter().map(|t| t.buffer.entries()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.trees.iter().all(|t| t.buffer.is_empty())
    }

    /// Empties the set for the next transaction; keeps a little memory per tree, of a few trees.
    pub fn clear(&mut self) {
        const KEEP_TREES: usize = 8;
        self.trees.truncate(KEEP_TREES);
        self.trees.iter_mut().for_each(|t| t.buffer.clear());
        self.rows.clear();
        self.op = 0;
        self.mark = 0;
        self.live.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TableId = TableId(5);

    fn tree(index: u16) -> TreeId {
        TreeId { table: T, index }
    }

    fn now(w: &WriteSet, key: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let (_, kind) = w.get(tree(0), key, w.now(), &mut out)?;
        (kind == EntryKind::Put).then_some(out)
    }

    #[test]
    fn rollback_to_a_savepoint_restores_rows_and_counts() {
        let mut w = WriteSet::new();
        w.put(tree(0), b"a", b"1");
        w.add_rows(T, 1);
        let s = w.savepoint();
        w.put(tree(0), b"a", b"2");
        w.delete(tree(0), b"b");
        w.add_rows(T, -1);
        w.put(tree(1), b"x", b"");
        assert_eq!((now(&w, b"a"), w.row_deltas()), (Some(b"2".to_vec()), vec![(T, 0)]));
        w.rollback_to(s);
        assert_eq!((now(&w, b"a"), w.row_deltas()), (Some(b"1".to_vec()), vec![(T, 1)]));
        assert_eq!(w.trees().collect::<Vec<_>>(), [tree(0)]);
        w.rollback_to(0);
        assert!(w.is_empty() && w.row_deltas().is_empty());
    }

    #[test]
    fn inner_savepoints_survive_an_outer_rollback_and_rewrites() {
        let mut w = WriteSet::new();
        let mut marks = Vec::new();
        for i in 0..100u8 {
            marks.push(w.savepoint());
            w.put(tree(0), b"row", &[i, 0]);
            w.put(tree(0), b"row", &[i]);
        }
        assert_eq!(w.entries(), 100);
        w.rollback_to(marks[50]);
        assert_eq!(now(&w, b"row"), Some(vec![49]));
        w.put(tree(0), b"row", b"new");
        w.rollback_to(marks[50]);
        assert_eq!(now(&w, b"row"), Some(vec![49]));
        w.rollback_to(marks[10]);
        assert_eq!(now(&w, b"row"), Some(vec![9]));
    }

    #[test]
    fn a_released_savepoint_keeps_nothing_apart() {
        let mut w = WriteSet::new();
        let outer = w.savepoint();
        for i in 0..100u8 {
            let statement = w.savepoint();
            w.put(tree(0), b"row", &[i]);
            w.add_rows(T, 1);
            w.release(statement);
        }
        assert_eq!((w.rows.len(), w.live_savepoints()), (1, &[outer][..]));
        w.put(tree(0), b"row", &[99]);
        assert_eq!(w.entries(), 1);
        let inner = w.savepoint();
        w.put(tree(0), b"row", b"inner");
        w.release(outer);
        assert_eq!(w.live_savepoints(), [inner]);
        w.rollback_to(inner);
        assert_eq!((now(&w, b"row"), w.row_deltas()), (Some(vec![99]), vec![(T, 100)]));
        w.release(7);
        w.rollback_to(0);
        assert!(w.is_empty() && w.live_savepoints().is_empty());
    }

    #[test]
    fn changes_taken_out_and_put_back_are_the_same() {
        let mut w = WriteSet::new();
        w.put(tree(0), b"a", b"1");
        w.put(tree(1), b"x", b"");
        let taken = w.take(tree(0));
        assert_eq!(w.trees().collect::<Vec<_>>(), [tree(1)]);
        assert!(w.take(tree(7)).is_empty());
        w.put_back(tree(0), taken);
        assert_eq!(now(&w, b"a"), Some(b"1".to_vec()));
    }

    #[test]
    fn a_statement_reading_at_its_savepoint_does_not_meet_its_own_changes() {
        let mut w = WriteSet::new();
        w.put(tree(0), b"a", b"1");
        let at = w.savepoint();
        w.put(tree(0), b"a", b"2");
        w.put(tree(0), b"a", b"3");
        let mut out = Vec::new();
        assert!(w.get(tree(0), b"a", at, &mut out).is_some());
        assert_eq!(out, b"1");
        let newest: Vec<_> = w.iter_newest(tree(0)).map(|e| e.value.to_vec()).collect();
        assert_eq!(newest, [b"3"]);
    }

    #[test]
    fn a_cleared_set_starts_over() {
        let mut w = WriteSet::new();
        for i in 0..20_000u32 {
            w.put(tree(0), &i.to_be_bytes(), &[1; 50]);
        }
        assert!(w.bytes() > 20_000 * 54);
        w.clear();
        assert!(w.is_empty() && w.now() == 0 && w.bytes() < 20_000, "{}", w.bytes());
        assert_eq!(now(&w, &7u32.to_be_bytes()), None);
    }
}
