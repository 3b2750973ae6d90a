//! Writing rows to the table that is to take the place of another one (`catalog/rebuild.rs`), which has other keys.
//!
//! - TW1. Entries of the twin are written by the transaction that writes the row, in the same step: a savepoint, a rollback and
//!   a commit have both or none.
//! - TW2. Who writes an entry of the twin's primary index holds its key's lock exclusively (X2), also of a row that keeps its
//!   key: another row may have the same one. So what happens to a key happens in an order. If the primary key stays, the
//!   locks of rows suffice.
//! - TW3. A put of a key that had no row to give it up is noted, with the row's key in the table itself: the key has an entry,
//!   or it has none and rows of the snapshot may have it.
//!
//! Tested by `tests/it/alter_primary.rs`.

use std::sync::Arc;

use frond_base::{EntryKind, Result};
use frond_row::{Entries, History, RowCodec, RowInput};
use frond_txn::RowMode;

use crate::commit::transaction::{check_sizes, OnLocked, Transaction};
use crate::table::{Table, Twin};

/// What the notes have of a key (TW3).
pub(crate) struct Note;

impl Note {
    /// `had`: the key had an entry. `row`: the primary key, in the old table, of the row that got the key.
    pub fn bytes(had: bool, row: &[u8]) -> Vec<u8> {
        let mut bytes = vec![u8::from(had)];
        bytes.extend_from_slice(row);
        bytes
    }

    pub fn parse(bytes: &[u8]) -> (bool, &[u8]) {
        bytes.split_first().map_or((true, bytes), |(had, row)| (*had != 0, row))
    }
}

/// A twin bound to the same record layout, and what is to be written for one row.
pub(super) struct BoundTwin {
    twin: Arc<Twin>,
    codec: RowCodec,
    was: Entries,
    is: Entries,
    /// Which of the two there are.
    has: (bool, bool),
    /// TW3.
    note: Option<Vec<u8>>,
}

impl BoundTwin {
    pub fn of(table: &Table, codec: &RowCodec) -> Result<Option<Box<BoundTwin>>> {
        let Some(twin) = table.twin() else { return Ok(None) };
        let (layout, sort_keys) = (codec.layout().clone(), codec.sort_keys().clone());
        let (name, schema) = (&table.def().name, twin.schema.clone());
        let codec = RowCodec::bind(name, schema, layout, History::default(), sort_keys)?;
        let (was, is, has, note) = Default::default();
        Ok(Some(Box::new(BoundTwin { twin, codec, was, is, has, note })))
    }

    /// The keys of the primary index that the row has and that it gets.
    fn keys(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        (self.has.0.then(|| self.was.key(0)), self.has.1.then(|| self.is.key(0)))
    }

    /// Before anything of a row is written (RW3): what the twin gets, and its locks. `row` is the primary key of the row in
    /// the table itself.
    pub fn meet(
        &mut self,
        txn: &mut Transaction,
        (old, new): (Option<&RowInput<'_>>, Option<&RowInput<'_>>),
        row: &[u8],
    ) -> Result<()> {
        self.has = (old.is_some(), new.is_some());
        self.note = None;
        if let Some(old) = old {
            self.codec.encode_row(old, &mut self.was)?;
        }
        if let Some(new) = new {
            self.codec.encode_row(new, &mut self.is)?;
            for index in 0..self.is.len() {
                check_sizes(self.is.key(index), self.is.value(index))?;
            }
        }
        txn.writes_besides_to(&self.twin.table);
        if self.twin.notes.is_none() {
            return Ok(());
        }
        let table = &self.twin.table;
        let (was, is) = self.keys();
        for key in [was, is.filter(|_| was != is)].into_iter().flatten() {
            txn.lock(table, 0, key, RowMode::X, OnLocked::Wait)?;
        }
        let Some(put) = is.filter(|_| was != is) else { return Ok(()) };
        let tree = table.tree(0);
        let newest = match txn.own(tree.id(), put, None)? {
            Some(kind) => Some(kind),
            None => tree.newest(put)?.map(|(_, kind)| kind),
        };
        self.note = match newest {
            Some(EntryKind::Delete) => None,
            newest => Some(Note::bytes(newest.is_some(), row)),
        };
        Ok(())
    }

    /// Writes what [`BoundTwin::meet`] has prepared.
    pub fn put(&self, txn: &mut Transaction) -> Result<()> {
        let BoundTwin { twin, was, is, .. } = self;
        let trees = self.codec.schema().indexes.iter().map(|index| index.tree).enumerate();
        for (index, tree) in trees {
            let old = self.has.0.then(|| (was.key(index), was.value(index)));
            let new = self.has.1.then(|| (is.key(index), is.value(index)));
            if old == new {
                continue;
            }
            if let Some((key, _)) = old.filter(|(key, _)| new.is_none_or(|(now, _)| now != *key)) {
                txn.delete_unlocked(&twin.table, tree, key);
            }
            if let Some((key, value)) = new {
                txn.put_unlocked(&twin.table, tree, key, value)?;
            }
        }
        if let (Some(notes), Some(note)) = (twin.notes, &self.note) {
            txn.put_unlocked(&twin.table, notes, is.key(0), note)?;
        }
        txn.writes.add_rows(twin.table.id(), i64::from(self.has.1) - i64::from(self.has.0));
        Ok(())
    }
}
