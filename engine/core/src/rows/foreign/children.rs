//! The children of a parent row that goes or gets another key.
//!
//! As in InnoDB, a cascade goes through at most [`LEVELS`] tables below the first. A cascade that
//! would update a table that it is already updating is refused, because it might not end.

use frond_base::{Error, ErrorKind, Result, TableId, SEQ_MAX};
use frond_row::{Entries, OwnedBlobs, RecordLayout, RowInput};
use frond_tree::Seek;
use frond_txn::{Granted, RowMode};

use super::plan::ToChild;
use crate::catalog::foreign::{Action, Foreign};
use crate::commit::cursor::Cursor;
use crate::commit::transaction::{OnLocked, Transaction};
use crate::rows::flags::WriteFlags;
use crate::rows::{Link, Rows, Written};

/// Rows above a row that a cascade changes.
const LEVELS: usize = 15;

/// What happened to the parent row.
#[derive(Clone, Copy)]
pub(in crate::rows) enum Change<'a> {
    Deleted,
    /// Before and after.
    Updated(&'a RowInput<'a>, &'a RowInput<'a>),
}

impl Rows {
    /// Does what the constraints say to the children of a row that has been changed in the write set. `was` are
    /// the entries it had.
    ///
    /// # Errors
    /// [`ErrorKind::Referenced`], [`ErrorKind::CascadeTooDeep`], [`ErrorKind::CascadeDuplicate`], and all errors of
    /// writing a child. The caller undoes the row's change.
    pub(in crate::rows) fn change_children(
        &mut self,
        txn: &mut Transaction,
        was: &Entries,
        change: Change<'_>,
    ) -> Result<()> {
        let Some(plan) = self.plan.take() else { return Ok(()) };
        let mut outcome = Ok(());
        for (no, to) in plan.children.iter().enumerate() {
            outcome = self.change_by(txn, no, to, was, change);
            if outcome.is_err() {
                break;
            }
        }
        self.plan = Some(plan);
        outcome
    }

    fn change_by(
        &mut self,
        txn: &mut Transaction,
        no: usize,
        to: &ToChild,
        was: &Entries,
        change: Change<'_>,
    ) -> Result<()> {
        let action = match change {
            Change::Deleted => to.on_delete,
            Change::Updated(old, new) => {
                let mut same = true;
                for column in &to.fit.parent_columns {
                    same = same && self.codec.same_value(*column, old, new)?;
                }
                if same {
                    return Ok(());
                }
                to.on_update
            }
        };
        txn.settle(to.child.id())?;
        let mut prefix = Vec::new();
        if !to.bridge.cross(was.key(to.fit.parent_index), &mut prefix)? {
            return Ok(());
        }
        let changes = matches!(action, Action::Cascade | Action::SetNull);
        let mode = if changes { RowMode::X } else { RowMode::S };
        let index = to.fit.child_index;
        let tree = to.child_schema.indexes[index].tree;
        let mut cursor = Cursor::new(to.child.clone(), tree, SEQ_MAX);
        let (mut from, mut how) = (prefix.clone(), Seek::Ge);
        // Until a child is locked, others may move it, also to a place that the cursor has passed. So the walk is
        // repeated until it finds no new child. It ends: locked children stay, and nobody adds one.
        let (mut first, mut again) = (true, false);
        loop {
            cursor.look_anew();
            if !cursor.seek(txn, &from, how)? || !cursor.key().starts_with(&prefix) {
                if !again {
                    return Ok(());
                }
                (from, how) = (prefix.clone(), Seek::Ge);
                (first, again) = (false, false);
                continue;
            }
            if txn.handle().is_interrupted() {
                return Err(Error::new(ErrorKind::Interrupted, "the statement was ended"));
            }
            let entry = cursor.key().to_vec();
            let child = self.cascade(no, to)?;
            let row = child.codec.primary_key(index, &entry)?.to_vec();
            let waits = txn.lock_waits();
            let granted = txn.lock(&to.child, 0, &row, mode, OnLocked::Wait)?;
            again |= first || granted != Granted::AlreadyHeld;
            if waits != txn.lock_waits() {
                continue;
            }
            if txn.read(&to.child, tree, &entry, SEQ_MAX, &mut Vec::new())? {
                if !changes {
                    return Err(referenced(&to.foreign));
                }
                self.change_child(txn, no, to, (&row, action), change)?;
            } else {
                again = true;
            }
            (from, how) = (entry, Seek::Gt);
        }
    }

    /// The binding through which children of constraint `no` are changed.
    fn cascade(&mut self, no: usize, to: &ToChild) -> Result<&mut Rows> {
        if self.cascades.len() <= no {
            self.cascades.resize_with(no + 1, || None);
        }
        if self.cascades[no].is_none() {
            let layout = RecordLayout::compact(&to.child_schema);
            let sort = self.codec.sort_keys().clone();
            let bound = Rows::bind(to.child.clone(), layout, sort)?;
            self.cascades[no] = Some(Box::new(bound));
        }
        Ok(self.cascades[no].as_mut().expect("it has just been bound"))
    }

    fn change_child(
        &mut self,
        txn: &mut Transaction,
        no: usize,
        to: &ToChild,
        (key, action): (&[u8], Action),
        change: Change<'_>,
    ) -> Result<()> {
        let deletes = matches!(change, Change::Deleted) && action == Action::Cascade;
        let updates = matches!(change, Change::Updated(..));
        let mut chain = self.chain.clone();
        chain.push(Link { table: self.table.id(), updates });
        if !deletes && is_updated(&chain, to.child.id()) {
            return Err(referenced(&to.foreign));
        }
        if chain.len() >= LEVELS {
            let what = format!("a cascade goes through more than {LEVELS} levels of foreign keys");
            let about = (to.foreign.table.as_str(), to.foreign.name.as_str());
            return Err(Error::of_constraint(ErrorKind::CascadeTooDeep, about, what));
        }
        let codec = self.codec.clone();
        let child = self.cascade(no, to)?;
        child.chain = chain;
        txn.cascaded = true;
        let mut value = Vec::new();
        if !txn.read(&to.child, 0, key, SEQ_MAX, &mut value)? {
            return Err(Error::corruption(
                &to.foreign.table,
                "an index has an entry of a row that is not there",
            ));
        }
        let mut blobs = OwnedBlobs::default();
        let mut record = vec![0; child.codec.layout().record_bytes as usize];
        let all = child.codec.project(0, |_| true);
        child.codec.decode(&all, key, &value, &mut record, &mut blobs)?;
        let row_id = match child.codec.schema().hidden_primary {
            true => child.codec.row_id(0, key)?,
            false => 0,
        };
        let flags = WriteFlags::default();
        if deletes {
            let old = RowInput { record: &record, blobs: &blobs, row_id };
            return child.delete(txn, &old, flags);
        }
        let mut changed = record.clone();
        for (of_parent, own) in to.fit.parent_columns.iter().zip(&to.fit.columns) {
            let fits = match (action, change) {
                (Action::Cascade, Change::Updated(_, new)) => {
                    let place = (*own, changed.as_mut_slice(), &mut blobs as _);
                    codec.copy_value((*of_parent, new), &child.codec, place)?
                }
                _ => child.codec.put_null(*own, &mut changed),
            };
            if !fits {
                return Err(referenced(&to.foreign));
            }
        }
        let old = RowInput { record: &record, blobs: &blobs, row_id };
        let new = RowInput { record: &changed, blobs: &blobs, row_id };
        match child.update(txn, &old, &new, flags)? {
            Written::Done => Ok(()),
            Written::Duplicate(index) => {
                let f = &to.foreign;
                let index = &to.child_schema.indexes[index].name;
                let what = format!(
                    "the foreign key '{}' would make a duplicate in index '{index}' of table '{}'",
                    f.name, f.table
                );
                Err(Error::of_constraint(ErrorKind::CascadeDuplicate, (&f.table, index), what))
            }
        }
    }
}

/// Whether the chain of a cascade updates `table`.
fn is_updated(chain: &[Link], table: TableId) -> bool {
    chain.iter().any(|link| link.table == table && link.updates)
}

fn referenced(f: &Foreign) -> Error {
    let what = format!(
        "a row of table '{}' has children in table '{}' by the foreign key '{}'",
        f.parent, f.table, f.name
    );
    Error::of_constraint(ErrorKind::Referenced, (&f.table, &f.name), what)
}
