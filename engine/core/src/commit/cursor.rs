//! A transaction's cursor over one index: the tree at a snapshot, with the transaction's own writes on top.
//! Writes that went to private runs are read by the tree's cursor, on top of the committed entries.
//!
//! The write set may change between two steps (an UPDATE writes while it scans), so the own side is sought
//! again from the current key at every step; the tree side keeps its place.

use std::ops::Bound;
use std::sync::Arc;

use frond_base::{EntryKind, Error, ErrorKind, IndexNo, Result, Seq, SEQ_MAX};
use frond_buffer::SortedBuffer;
use frond_tree::{Bounds, Seek, TreeCursor};

use crate::commit::transaction::Transaction;
use crate::table::Table;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Memory for a value, and for a key, that a parked cursor keeps.
const PARKED_BYTES: usize = 4 << 10;

/// A position among the entries of an index that a transaction sees.
pub struct Cursor {
    table: Arc<Table>,
    index: IndexNo,
    /// Made at the first positioning; it holds on to a view of the tree.
    tree: Option<TreeCursor>,
    at: Seq,
    direction: Direction,
    valid: bool,
    /// The current key and value, where they are own writes; without a position, the key to go on from.
    key: Vec<u8>,
    value: Vec<u8>,
    /// Memory for the next key.
    spare: Vec<u8>,
    /// Whether the current entry is in the tree cursor, or in `key` and `value`.
    from_tree: bool,
    /// Which of the transaction's private runs the tree cursor reads.
    private: u64,
}

impl Cursor {
    /// A cursor that reads at `at`, unpositioned.
    pub(crate) fn new(table: Arc<Table>, index: IndexNo, at: Seq) -> Cursor {
        Cursor {
            table,
            index,
            tree: None,
            at,
            direction: Direction::Forward,
            valid: false,
            key: Vec::new(),
            value: Vec::new(),
            spare: Vec::new(),
            from_tree: false,
            private: 0,
        }
    }

    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub fn index(&self) -> IndexNo {
        self.index
    }

    /// The sequence this cursor reads at.
    pub fn at(&self) -> Seq {
        self.at
    }

    /// Reads at another sequence from the next positioning on.
    pub(crate) fn set_at(&mut self, at: Seq) {
        self.at = at;
        self.keep_key();
        self.valid = false;
        if let Some(tree) = &mut self.tree {
            tree.set_at(at);
        }
    }

    /// Gives up the position and what was read ahead: the next positioning reads what is committed by then.
    pub(crate) fn look_anew(&mut self) {
        self.keep_key();
        self.valid = false;
        if let Some(tree) = &mut self.tree {
            tree.look_anew();
        }
    }

    /// Lets go of everything but the current key: an idle cursor must not hold on to runs and pages.
    pub(crate) fn park(&mut self) {
        self.keep_key();
        if let Some(tree) = &mut self.tree {
            tree.rest();
        }
        self.private = 0;
        self.valid = false;
        for memory in [&mut self.value, &mut self.spare] {
            if memory.capacity() > PARKED_BYTES {
                *memory = Vec::new();
            }
        }
    }

    /// Keeps the key of the position, which is about to be lost, to go on from it.
    fn keep_key(&mut self) {
        let Some(tree) = self.tree.as_ref().filter(|tree| tree.valid()) else { return };
        if self.valid && self.from_tree {
            self.key.clear();
            self.key.extend_from_slice(tree.key());
        }
    }

    /// The key to go on from after [`Cursor::park`] or [`Cursor::set_at`]; empty: none.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.key
    }

    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The current key; requires `valid()`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        assert!(self.valid, "the cursor has no position");
        match &self.tree {
            Some(tree) if self.from_tree => tree.key(),
            _ => &self.key,
        }
    }

    /// The current value; requires `valid()`.
    #[inline]
    pub fn value(&self) -> &[u8] {
        assert!(self.valid, "the cursor has no position");
        match &self.tree {
            Some(tree) if self.from_tree => tree.value(),
            _ => &self.value,
        }
    }

    /// The tree's cursor; an interrupt of `txn` ends its moves over many entries.
    fn tree(&mut self, txn: &Transaction) -> &mut TreeCursor {
        let (table, index, at) = (&self.table, self.index, self.at);
        let tree = self.tree.get_or_insert_with(|| table.tree(index).cursor(at, Bounds::all()));
        if !tree.has_interrupt() {
            let owner = txn.handle();
            tree.set_interrupt(Box::new(move || owner.is_interrupted()));
        }
        tree
    }

    /// Reads the private runs that the transaction has written since; the tree's cursor loses its position
    /// then. Their entries were in the write set before, so no entry is seen twice.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the transaction loads the table (LD3): a cursor cannot end a load.
    fn refresh(&mut self, txn: &Transaction) -> Result<bool> {
        let id = self.table.tree_id(self.index);
        if !txn.is_settled(id) {
            self.valid = false;
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "the transaction has inserted many rows into table '{}' since this cursor was opened: \
                     open it again",
                    self.table.def().name
                ),
            ));
        }
        let now = txn.private_stamp(id);
        if now == self.private {
            return Ok(false);
        }
        self.tree(txn).set_private(txn.private_view(id));
        self.private = now;
        Ok(true)
    }

    /// Positions at the entry nearest to `key` in the sense of `how`; false when there is none.
    pub fn seek(&mut self, txn: &Transaction, key: &[u8], how: Seek) -> Result<bool> {
        self.keep_key();
        self.refresh(txn)?;
        self.tree(txn).seek(key, how)?;
        let (direction, from) = match how {
            Seek::Ge => (Direction::Forward, Bound::Included(key)),
            Seek::Gt => (Direction::Forward, Bound::Excluded(key)),
            Seek::Le => (Direction::Backward, Bound::Included(key)),
            Seek::Lt => (Direction::Backward, Bound::Excluded(key)),
        };
        self.direction = direction;
        self.settle(txn, from)
    }

    pub fn first(&mut self, txn: &Transaction) -> Result<bool> {
        self.keep_key();
        self.refresh(txn)?;
        self.tree(txn).first()?;
        self.direction = Direction::Forward;
        self.settle(txn, Bound::Unbounded)
    }

    pub fn last(&mut self, txn: &Transaction) -> Result<bool> {
        self.keep_key();
        self.refresh(txn)?;
        self.tree(txn).last()?;
        self.direction = Direction::Backward;
        self.settle(txn, Bound::Unbounded)
    }

    /// Moves to the next larger key; requires `valid()`.
    pub fn next(&mut self, txn: &Transaction) -> Result<bool> {
        let forward = self.direction == Direction::Forward;
        // The transaction has no entries here, and none are in the tree's cursor: there is nothing to merge.
        let alone = self.valid && self.from_tree && forward && self.private == 0;
        if !(alone && txn.owns_nothing(&self.table, self.index)) {
            return self.step(txn, Direction::Forward);
        }
        if self.tree.as_mut().is_some_and(TreeCursor::glide) {
            return Ok(true);
        }
        self.keep_key();
        let moved = self.tree(txn).leap();
        self.valid = matches!(moved, Ok(true));
        moved
    }

    /// Moves to the next smaller key; requires `valid()`.
    pub fn prev(&mut self, txn: &Transaction) -> Result<bool> {
        self.step(txn, Direction::Backward)
    }

    fn step(&mut self, txn: &Transaction, direction: Direction) -> Result<bool> {
        assert!(self.valid, "the cursor has no position");
        self.keep_key();
        let key = std::mem::replace(&mut self.key, std::mem::take(&mut self.spare));
        let moved = self.move_from(txn, &key, direction);
        self.spare = key;
        if !matches!(moved, Ok(true)) {
            // The key to go on from.
            std::mem::swap(&mut self.key, &mut self.spare);
            self.valid = false;
        }
        moved
    }

    fn move_from(&mut self, txn: &Transaction, key: &[u8], direction: Direction) -> Result<bool> {
        let lost = self.refresh(txn)?;
        let turned = lost || self.direction != direction;
        self.direction = direction;
        let forward = direction == Direction::Forward;
        let tree = self.tree(txn);
        if turned {
            tree.seek(key, if forward { Seek::Gt } else { Seek::Lt })?;
        } else if tree.valid() {
            // When the current entry is an own write, the tree's cursor may stand behind it already.
            if forward && tree.key() <= key {
                tree.next()?;
            } else if !forward && tree.key() >= key {
                tree.prev()?;
            }
        }
        self.settle(txn, Bound::Excluded(key))
    }

    fn take_tree(&mut self) -> bool {
        self.valid = self.tree.as_ref().is_some_and(TreeCursor::valid);
        self.from_tree = self.valid;
        self.valid
    }

    /// Chooses between the tree's position and the own write nearest to `from`; own writes shadow the tree.
    fn settle(&mut self, txn: &Transaction, from: Bound<&[u8]>) -> Result<bool> {
        let Some(own) = txn.writes.buffer(self.table.tree_id(self.index)) else {
            return Ok(self.take_tree());
        };
        let forward = self.direction == Direction::Forward;
        let mut position = frond_buffer::Cursor::new();
        let mut entry = nearest(&mut position, own, from, forward);
        loop {
            let Some(e) = entry else { return Ok(self.take_tree()) };
            let tree = self.tree(txn);
            if tree.valid() {
                let order = tree.key().cmp(e.key);
                let order = if forward { order } else { order.reverse() };
                if order.is_lt() {
                    return Ok(self.take_tree());
                }
                if order.is_eq() {
                    // Shadowed: the own version replaces it, or hides it.
                    if forward {
                        tree.next()?;
                    } else {
                        tree.prev()?;
                    }
                }
            }
            if e.kind == EntryKind::Put {
                self.key.clear();
                self.key.extend_from_slice(e.key);
                self.value.clear();
                self.value.extend_from_slice(e.value);
                self.from_tree = false;
                self.valid = true;
                return Ok(true);
            }
            let hidden = e.key.to_vec();
            entry = nearest(&mut position, own, Bound::Excluded(&hidden), forward);
        }
    }
}

/// The newest own version of the nearest key within `from`.
fn nearest<'a>(
    position: &mut frond_buffer::Cursor,
    own: &'a SortedBuffer,
    from: Bound<&[u8]>,
    forward: bool,
) -> Option<frond_base::EntryRef<'a>> {
    if forward {
        return position.seek(own, from);
    }
    // Backward the oldest version of a key comes first.
    let oldest = position.seek_back(own, from)?;
    own.find(oldest.key, SEQ_MAX)
}
