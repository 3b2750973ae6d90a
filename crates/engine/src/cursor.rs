//! A transaction's cursor over one index: the tree at a snapshot, with the transaction's own writes on top.
//!
//! The write set may change between two steps (an UPDATE writes while it scans), so the own side is sought
//! again from the current key at every step; the tree side keeps its place.

use std::ops::Bound;
use std::sync::Arc;

use frond_base::{EntryKind, IndexNo, Result, Seq};
use frond_buffer::SortedBuffer;
use frond_tree::{Bounds, Seek, TreeCursor};

use crate::table::Table;
use crate::transaction::Transaction;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A position among the entries of an index that a transaction sees.
pub struct Cursor {
    table: Arc<Table>,
    index: IndexNo,
    tree: TreeCursor,
    at: Seq,
    direction: Direction,
    valid: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Whether `value` was copied, or is still in the tree cursor.
    from_tree: bool,
}

impl Cursor {
    /// A cursor that reads at `at`, unpositioned.
    pub(crate) fn new(table: Arc<Table>, index: IndexNo, at: Seq) -> Cursor {
        let tree = table.tree(index).cursor(at, Bounds::all());
        Cursor {
            table,
            index,
            tree,
            at,
            direction: Direction::Forward,
            valid: false,
            key: Vec::new(),
            value: Vec::new(),
            from_tree: false,
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
        self.valid = false;
        self.tree.set_at(at);
    }

    /// `stop` is polled in long reads; when it says true they end with `Interrupted`.
    pub fn set_interrupt(&mut self, stop: Box<dyn FnMut() -> bool + Send>) {
        self.tree.set_interrupt(stop);
    }

    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The current key; requires `valid()`.
    pub fn key(&self) -> &[u8] {
        assert!(self.valid, "the cursor has no position");
        &self.key
    }

    /// The current value; requires `valid()`.
    pub fn value(&self) -> &[u8] {
        assert!(self.valid, "the cursor has no position");
        if self.from_tree {
            self.tree.value()
        } else {
            &self.value
        }
    }

    /// Positions at the entry nearest to `key` in the sense of `how`; false when there is none.
    pub fn seek(&mut self, txn: &Transaction, key: &[u8], how: Seek) -> Result<bool> {
        self.tree.seek(key, how)?;
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
        self.tree.first()?;
        self.direction = Direction::Forward;
        self.settle(txn, Bound::Unbounded)
    }

    pub fn last(&mut self, txn: &Transaction) -> Result<bool> {
        self.tree.last()?;
        self.direction = Direction::Backward;
        self.settle(txn, Bound::Unbounded)
    }

    /// Moves to the next larger key; requires `valid()`.
    pub fn next(&mut self, txn: &Transaction) -> Result<bool> {
        assert!(self.valid, "the cursor has no position");
        if self.direction == Direction::Backward {
            self.tree.seek(&self.key, Seek::Gt)?;
            self.direction = Direction::Forward;
        } else if self.tree.valid() && self.tree.key() <= self.key.as_slice() {
            self.tree.next()?;
        }
        self.go_on(txn)
    }

    /// Moves to the next smaller key; requires `valid()`.
    pub fn prev(&mut self, txn: &Transaction) -> Result<bool> {
        assert!(self.valid, "the cursor has no position");
        if self.direction == Direction::Forward {
            self.tree.seek(&self.key, Seek::Lt)?;
            self.direction = Direction::Backward;
        } else if self.tree.valid() && self.tree.key() >= self.key.as_slice() {
            self.tree.prev()?;
        }
        self.go_on(txn)
    }

    fn go_on(&mut self, txn: &Transaction) -> Result<bool> {
        if txn.writes.buffer(self.table.tree(self.index).id()).is_none() {
            return Ok(self.take_tree());
        }
        let key = std::mem::take(&mut self.key);
        let valid = self.settle(txn, Bound::Excluded(&key));
        if self.key.capacity() == 0 {
            self.key = key;
        }
        valid
    }

    fn take_tree(&mut self) -> bool {
        self.valid = self.tree.valid();
        if self.valid {
            self.from_tree = true;
            self.key.clear();
            self.key.extend_from_slice(self.tree.key());
        }
        self.valid
    }

    /// Chooses between the tree's position and the own write nearest to `from`; own writes shadow the tree.
    fn settle(&mut self, txn: &Transaction, from: Bound<&[u8]>) -> Result<bool> {
        let Some(own) = txn.writes.buffer(self.table.tree(self.index).id()) else {
            return Ok(self.take_tree());
        };
        let forward = self.direction == Direction::Forward;
        let mut position = frond_buffer::Cursor::new();
        let mut entry = if forward { position.seek(own, from) } else { position.seek_back(own, from) };
        loop {
            let Some(e) = entry else { return Ok(self.take_tree()) };
            if self.tree.valid() {
                let order = self.tree.key().cmp(e.key);
                let order = if forward { order } else { order.reverse() };
                if order.is_lt() {
                    return Ok(self.take_tree());
                }
                if order.is_eq() {
                    // Shadowed: the own version replaces it, or hides it.
                    if forward {
                        self.tree.next()?;
                    } else {
                        self.tree.prev()?;
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
            entry = beyond(&mut position, own, &hidden, forward);
        }
    }
}

/// The newest own version of the nearest key beyond `key`.
fn beyond<'a>(
    position: &mut frond_buffer::Cursor,
    own: &'a SortedBuffer,
    key: &[u8],
    forward: bool,
) -> Option<frond_base::EntryRef<'a>> {
    if forward {
        position.seek(own, Bound::Excluded(key))
    } else {
        position.seek_back(own, Bound::Excluded(key))
    }
}
