//! `WriteSet`: the uncommitted changes of a transaction.
//!
//! One [`SortedBuffer`] per tree; the sequence of an entry is the number of the operation that wrote
//! it. A savepoint is a number; a rollback removes all newer entries. A key that is written twice
//! without a savepoint in between keeps only the last version. The engine takes a savepoint when a
//! statement begins, so a cursor of that statement reads at the savepoint and does not meet its own
//! changes.
//!
//! When a set takes too much memory, its owner takes a tree's buffer out ([`WriteSet::take`]), cuts
//! it at the live savepoints, writes parts elsewhere and puts the rest back.
//!
//! Tested here; the buffer in its own crate.

use frond_base::{EntryKind, EntryRef, IdMap, Seq, TableId, TreeId};
use frond_buffer::{Put, SortedBuffer, FEW_BYTES};

/// The number of an operation within its transaction, from 1. 0 is "before the first".
pub type Op = Seq;

/// Most memory that one tree's list may pass on to the next. The next tree is charged for all of it.
const KEPT_EACH: usize = FEW_BYTES;

struct RowDelta {
    op: Op,
    table: TableId,
    delta: i64,
}

/// See the module.
#[derive(Default)]
pub struct WriteSet {
    trees: IdMap<TreeId, SortedBuffer>,
    /// Memory for the next trees, and how much that is.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// What the buffers of all trees have allocated, and the versions that they hold.
    buffer_bytes: usize,
    entries: usize,
    rows: Vec<RowDelta>,
    /// The position in `rows` of each table's last count; invalid when a rollback removed it or
    /// another table has it.
    counted: IdMap<TableId, usize>,
    op: Op,
    /// No version at or before it may be overwritten: the latest live savepoint, or later.
    mark: Op,
    /// Live savepoints, ascending; some several times.
    live: Vec<Op>,
}

impl WriteSet {
    pub fn new() -> WriteSet {
        WriteSet::default()
    }

    fn tree_mut(&mut self, tree: TreeId) -> &mut SortedBuffer {
        let at = match self.trees.position(tree) {
            Some(at) => at,
            None => {
                let memory = self.spare.pop().unwrap_or_default();
                self.spare_bytes -= memory.capacity();
                self.buffer_bytes += memory.capacity();
                self.trees.push(tree, SortedBuffer::in_memory(memory))
            }
        };
        self.trees.at_mut(at)
    }

    /// The changes of one tree, with operation numbers as sequences: for cursors.
    #[inline]
    pub fn buffer(&self, tree: TreeId) -> Option<&SortedBuffer> {
        self.trees.get(tree)
    }

    /// Sets `key` to `value`; returns what this transaction had written there before.
    #[inline]
    pub fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Put {
        self.write(tree, key, EntryKind::Put, value)
    }

    /// Deletes `key`, whether or not it exists.
    #[inline]
    pub fn delete(&mut self, tree: TreeId, key: &[u8]) -> Put {
        self.write(tree, key, EntryKind::Delete, &[])
    }

    fn write(&mut self, tree: TreeId, key: &[u8], kind: EntryKind, value: &[u8]) -> Put {
        self.op += 1;
        let (op, mark) = (self.op, self.mark);
        let buffer = self.tree_mut(tree);
        let before = (buffer.bytes(), buffer.entries());
        let put = buffer.put_over(key, op, kind, value, mark);
        let after = (buffer.bytes(), buffer.entries());
        self.buffer_bytes = self.buffer_bytes - before.0 + after.0;
        self.entries = self.entries - before.1 + after.1;
        put
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

    /// Counts an operation whose changes are kept elsewhere; returns its number.
    pub fn count_op(&mut self) -> Op {
        self.op += 1;
        self.op
    }

    /// A point to return to, or to read at, until it is released or rolled back past. O(1).
    #[inline]
    pub fn savepoint(&mut self) -> Op {
        self.mark = self.op;
        self.live.push(self.op);
        self.op
    }

    /// Releases the savepoint `mark`; others stay, also of the same operation.
    pub fn release(&mut self, mark: Op) {
        let Some(at) = self.live.iter().rposition(|m| *m == mark) else { return };
        self.live.remove(at);
        self.mark = self.live.last().copied().unwrap_or(0);
        self.join_rows();
    }

    /// Releases all savepoints of a set without changes.
    #[inline]
    pub fn release_all(&mut self) {
        debug_assert!(
            self.is_empty() && self.rows.is_empty(),
            "savepoints of changes are released one by one"
        );
        self.live.clear();
        self.mark = 0;
    }

    /// Live savepoints, ascending. The transaction's beginning always is one and is not listed.
    pub fn live_savepoints(&self) -> &[Op] {
        &self.live
    }

    /// Recomputes the sizes after a change of several buffers, or of all of one.
    fn sum_up(&mut self) {
        self.buffer_bytes = self.trees.values().iter().map(SortedBuffer::bytes).sum();
        self.entries = self.trees.values().iter().map(SortedBuffer::entries).sum();
    }

    /// Takes the changes of one tree out.
    pub fn take(&mut self, tree: TreeId) -> SortedBuffer {
        self.put_back(tree, SortedBuffer::new())
    }

    /// Puts changes back in place of those that [`WriteSet::take`] took; returns what was there.
    pub fn put_back(&mut self, tree: TreeId, buffer: SortedBuffer) -> SortedBuffer {
        let after = (buffer.bytes(), buffer.entries());
        let old = std::mem::replace(self.tree_mut(tree), buffer);
        self.buffer_bytes = self.buffer_bytes - old.bytes() + after.0;
        self.entries = self.entries - old.entries() + after.1;
        old
    }

    /// Takes back everything after the savepoint `to`, which stays. Operation numbers are not used
    /// again, so later savepoints become invalid (asserted only if beyond the end).
    pub fn rollback_to(&mut self, to: Op) {
        assert!(to <= self.op, "savepoint {to} is not of this transaction");
        self.trees.values_mut().iter_mut().for_each(|buffer| buffer.undo_to(to));
        self.sum_up();
        while self.rows.last().is_some_and(|r| r.op > to) {
            self.rows.pop();
        }
        while self.live.last().is_some_and(|m| *m > to) {
            self.live.pop();
        }
        self.mark = self.op;
    }

    /// Joins the counts of a table that have no savepoint between them.
    fn join_rows(&mut self) {
        let from = self.rows.partition_point(|r| r.op <= self.mark);
        let newer = self.rows.split_off(from);
        for r in newer {
            self.count(r);
        }
    }

    /// Notes that `table` has `delta` rows more, as part of the latest operation.
    pub fn add_rows(&mut self, table: TableId, delta: i64) {
        self.count(RowDelta { op: self.op, table, delta });
    }

    /// Adds to the table's count since the mark, or begins one.
    fn count(&mut self, new: RowDelta) {
        let (end, mark) = (self.rows.len(), self.mark);
        let same = |r: &&mut RowDelta| r.table == new.table && r.op > mark;
        match self.counted.get_mut(new.table) {
            Some(at) => match self.rows.get_mut(*at).filter(same) {
                Some(one) => return one.delta += new.delta,
                None => *at = end,
            },
            None => {
                self.counted.push(new.table, end);
            }
        }
        self.rows.push(new);
    }

    /// Changes of row counts, one per table.
    pub fn row_deltas(&self) -> IdMap<TableId, i64> {
        let mut sums = IdMap::default();
        for r in &self.rows {
            match sums.get_mut(r.table) {
                Some(sum) => *sum += r.delta,
                None => {
                    sums.push(r.table, r.delta);
                }
            }
        }
        sums
    }

    /// As [`WriteSet::row_deltas`], of one table, for a transaction that changed no other.
    pub fn row_delta(&self, table: TableId) -> i64 {
        self.rows.iter().filter(|r| r.table == table).map(|r| r.delta).sum()
    }

    /// Trees that have changes.
    #[inline]
    pub fn trees(&self) -> impl Iterator<Item = TreeId> + '_ {
        self.trees.iter().filter(|(_, buffer)| !buffer.is_empty()).map(|(tree, _)| tree)
    }

    /// The last version of every changed key of `tree`, in order, for the commit. The sequences are
    /// operation numbers; the caller replaces them by the commit sequence.
    #[inline]
    pub fn iter_newest(&self, tree: TreeId) -> impl Iterator<Item = EntryRef<'_>> {
        self.buffer(tree).into_iter().flat_map(SortedBuffer::iter_newest)
    }

    /// Bytes allocated for changes; what is kept for later ones is not counted. (A transaction of a few rows would be written out for
    /// what one before it left.)
    #[inline]
    pub fn bytes(&self) -> usize {
        self.buffer_bytes
            + self.trees.bytes()
            + self.rows.capacity().min(2 * self.rows.len()) * size_of::<RowDelta>()
            + self.counted.bytes()
    }

    /// Bytes allocated for lists, used or not.
    fn lists(&self) -> usize {
        self.trees.allocated()
            + self.rows.capacity() * size_of::<RowDelta>()
            + self.counted.allocated()
    }

    /// Number of versions, including superseded ones.
    #[inline]
    pub fn entries(&self) -> usize {
        self.entries
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Empties the set for another transaction; keeps up to `most` bytes for its next trees, and the same again for
    /// its lists.
    pub fn clear(&mut self, most: usize) {
        for buffer in self.trees.drain() {
            let memory = buffer.into_memory();
            let bytes = self.spare_bytes + memory.capacity();
            if (1..=KEPT_EACH).contains(&memory.capacity()) && bytes <= most {
                self.spare_bytes = bytes;
                self.spare.push(memory);
            }
        }
        self.sum_up();
        self.rows.clear();
        self.counted.clear();
        self.op = 0;
        self.mark = 0;
        self.live.clear();
        if self.spare_bytes > most {
            (self.spare, self.spare_bytes) = (Vec::new(), 0);
        }
        if self.lists() > most {
            let (spare, spare_bytes) = (std::mem::take(&mut self.spare), self.spare_bytes);
            *self = WriteSet { spare, spare_bytes, ..WriteSet::default() };
        }
    }

    /// Takes over the memory of `cleared`; this set has no changes yet, but may have savepoints.
    pub fn reuse(&mut self, mut cleared: WriteSet) {
        assert!(self.trees.is_empty() && cleared.is_empty(), "only empty sets are exchanged");
        (cleared.op, cleared.mark) = (self.op, self.mark);
        std::mem::swap(&mut cleared.live, &mut self.live);
        *self = cleared;
    }

    /// Whether there is memory to [`WriteSet::reuse`].
    pub fn is_reusable(&self) -> bool {
        !self.trees.is_empty() || !self.spare.is_empty()
    }

    /// Bytes allocated, those kept for later changes included.
    pub fn kept_bytes(&self) -> usize {
        self.buffer_bytes
            + self.lists()
            + self.spare_bytes
            + self.spare.capacity() * size_of::<Vec<u8>>()
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

    fn deltas(w: &WriteSet) -> Vec<(TableId, i64)> {
        w.row_deltas().iter().map(|(table, delta)| (table, *delta)).collect()
    }

    /// Counts, places and sizes of many trees, against sums made the slow way.
    #[test]
    fn thousands_of_trees_are_counted_as_a_few() {
        let mut w = WriteSet::new();
        let table = |n: u32| TableId(n % 700);
        let mut expected = std::collections::BTreeMap::new();
        for n in 0..5_000u32 {
            w.put(TreeId { table: table(n), index: 1 }, &n.to_be_bytes(), b"v");
            w.add_rows(table(n), 1);
            *expected.entry(table(n)).or_insert(0) += 1;
            match n % 50 {
                7 => {
                    let statement = w.savepoint();
                    w.put(TreeId { table: table(n + 1), index: 0 }, b"x", b"gone");
                    w.add_rows(table(n + 1), 9);
                    w.rollback_to(statement);
                    w.release(statement);
                }
                9 => drop(w.savepoint()),
                _ => {}
            }
        }
        let mut found = deltas(&w);
        found.sort_unstable();
        assert!(found.iter().copied().eq(expected.into_iter()));
        let tracked = (w.buffer_bytes, w.entries);
        w.sum_up();
        assert_eq!(tracked, (w.buffer_bytes, w.entries));
        assert_eq!(w.trees().count(), 700);
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
        assert_eq!((now(&w, b"a"), deltas(&w)), (Some(b"2".to_vec()), vec![(T, 0)]));
        assert_eq!((w.row_delta(T), w.row_delta(TableId(6))), (0, 0));
        w.rollback_to(s);
        assert_eq!((now(&w, b"a"), deltas(&w)), (Some(b"1".to_vec()), vec![(T, 1)]));
        assert_eq!(w.row_delta(T), 1);
        assert_eq!(w.trees().collect::<Vec<_>>(), [tree(0)]);
        w.rollback_to(0);
        assert!(w.is_empty() && deltas(&w).is_empty());
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
        assert_eq!((now(&w, b"row"), deltas(&w)), (Some(vec![99]), vec![(T, 100)]));
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
        w.clear(20_000);
        assert!(w.is_empty() && w.now() == 0, "not empty");
        assert!(w.kept_bytes() < 20_000, "{}", w.kept_bytes());
        assert_eq!(now(&w, &7u32.to_be_bytes()), None);
    }

    /// Else each of them would be written out.
    #[test]
    fn what_a_transaction_of_many_trees_left_is_not_counted_for_one_of_a_few() {
        let of = |n: u32| TreeId { table: TableId(n), index: 1 };
        let mut old = WriteSet::new();
        for n in 0..3_000 {
            old.put(of(n), b"a", &[7; 100]);
            old.add_rows(TableId(n), 1);
        }
        old.clear(2 << 20);
        assert!(old.kept_bytes() > 500_000 && old.bytes() == 0, "{}", old.bytes());
        let mut new = WriteSet::new();
        new.reuse(old);
        for n in 0..3 {
            new.put(of(n), b"a", &[7; 100]);
            new.add_rows(TableId(n), 1);
        }
        assert!((300..3 * KEPT_EACH).contains(&new.bytes()), "{}", new.bytes());
    }

    #[test]
    fn what_a_few_wide_rows_took_is_kept_for_the_next_transaction() {
        for (value, kept) in [(50, true), (260, true), (400, true), (450, true), (600, false)] {
            let mut writes = WriteSet::new();
            for n in 0..8u64 {
                writes.put(tree(0), &n.to_be_bytes(), &vec![7; value]);
            }
            writes.clear(1 << 20);
            assert_eq!(
                !writes.spare.is_empty(),
                kept,
                "rows of {value} bytes: {}",
                writes.spare_bytes
            );
        }
    }

    #[test]
    fn another_transaction_uses_the_memory_of_a_cleared_set_and_sees_nothing_of_it() {
        let mut old = WriteSet::new();
        for n in 0..100u16 {
            old.put(tree(n), b"a", &[7; 1500]);
            old.add_rows(T, 1);
        }
        old.savepoint();
        old.clear(10_000);
        let kept: usize = old.spare.iter().map(Vec::capacity).sum();
        assert!((5_000..=10_000).contains(&kept) && old.is_reusable(), "{kept}");
        assert!(old.spare_bytes == kept && old.bytes() <= 10_000);

        let mut new = WriteSet::new();
        assert!(!new.is_reusable());
        new.count_op();
        let statement = new.savepoint();
        new.reuse(old);
        assert_eq!((new.now(), new.live_savepoints()), (1, &[statement][..]));
        assert!(new.is_empty() && new.buffer(tree(3)).is_none() && deltas(&new).is_empty());
        assert_eq!(now(&new, b"a"), None);
        let spares = new.spare.len();
        new.put(tree(0), b"b", b"1");
        new.add_rows(T, 1);
        assert_eq!((new.spare.len(), new.entries()), (spares - 1, 1));
        let tracked = new.buffer_bytes;
        new.sum_up();
        assert_eq!(tracked, new.buffer_bytes);
        new.rollback_to(statement);
        assert!(new.is_empty() && new.trees().count() == 0 && deltas(&new).is_empty());
    }
}
