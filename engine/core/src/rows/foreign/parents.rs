//! The parents of a child row that is inserted or gets another key.

use frond_base::{EntryKind, Error, ErrorKind, Result, SEQ_MAX};
use frond_row::{prefix_end, Entries};
use frond_tree::Seek;
use frond_txn::{Granted, KeyRange, RowMode};

use super::plan::{ParentIndex, Plan, ToParent};
use crate::catalog::foreign::{Action, Foreign};
use crate::commit::cursor::Cursor;
use crate::commit::transaction::{OnLocked, Transaction};
use crate::rows::Rows;

/// Which of the constraints are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::rows) enum Which {
    /// Whose parent is another table: before the row is written.
    Others,
    /// Whose parent is the table itself: when its row is written, which may be its own parent.
    Own,
}

impl Rows {
    /// Brings the plan up to date. Locks that FK3 speaks of are held by now.
    pub(in crate::rows) fn refresh_foreigns(&mut self, txn: &Transaction) -> Result<()> {
        let core = &txn.core;
        if self.foreign_version == core.foreign_version() {
            return Ok(());
        }
        (self.foreign_version, self.plan) =
            Plan::compile(core, &self.table, self.codec.schema(), self.visible)?;
        self.cascades.clear();
        Ok(())
    }

    /// Whether a cascade of the same statement may have changed the row `was` since it was read:
    /// then its entries are out of date.
    pub(in crate::rows) fn check_not_cascaded(
        &self,
        txn: &Transaction,
        was: &Entries,
    ) -> Result<()> {
        let Some(plan) = &self.plan else { return Ok(()) };
        let changes = |a| matches!(a, Action::Cascade | Action::SetNull);
        let cascaded = |p: &ToParent| changes(p.foreign.on_delete) || changes(p.foreign.on_update);
        if !plan.parents.iter().any(cascaded) {
            return Ok(());
        }
        let mut now = Vec::new();
        match txn.own(self.table.tree(0).id(), was.key(0), Some(&mut now))? {
            Some(EntryKind::Put) if now == was.value(0) => Ok(()),
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "the row of table '{}' was changed by a foreign key in the same statement",
                    self.table.def().name
                ),
            )),
        }
    }

    /// Whether rows of the table have something to check or change after they are written.
    pub(in crate::rows) fn has_own_foreigns(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| {
            !plan.children.is_empty() || plan.parents.iter().any(|parent| parent.own)
        })
    }

    /// Whether rows of the table may be parents of each other.
    pub(in crate::rows) fn is_own_parent(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.parents.iter().any(|parent| parent.own))
    }

    /// Checks that the row `new` has its parents, in place of `old` if that is given; locks them (FK1).
    ///
    /// # Errors
    /// [`ErrorKind::NoParent`].
    pub(in crate::rows) fn check_parents(
        &mut self,
        txn: &mut Transaction,
        (old, new): (Option<&Entries>, &Entries),
        which: Which,
    ) -> Result<()> {
        let Some(plan) = self.plan.take() else { return Ok(()) };
        let outcome =
            plan.parents.iter().try_for_each(|parent| match parent.own == (which == Which::Own) {
                true => check_parent(txn, parent, (old, new)),
                false => Ok(()),
            });
        self.plan = Some(plan);
        outcome
    }
}

fn check_parent(
    txn: &mut Transaction,
    to: &ToParent,
    (old, new): (Option<&Entries>, &Entries),
) -> Result<()> {
    let bridge = to.parent.as_ref().map_or(&to.present, |parent| &parent.bridge);
    let mut wanted = Vec::new();
    if !bridge.cross(new.key(to.index), &mut wanted)? {
        return Ok(());
    }
    let mut keeps = false;
    if let Some(old) = old {
        let mut before = Vec::new();
        let same = bridge.cross(old.key(to.index), &mut before)? && before == wanted;
        // If the constraint is in force, the row has its parent already. While it is being added, each row that is
        // written is checked (AF2).
        keeps = same && !to.foreign.state.is_in_memory();
        if keeps && [to.index, to.seen].iter().all(|index| old.key(*index) == new.key(*index)) {
            return Ok(());
        }
    }
    // Also of a row that keeps its parent: who looks for children may miss an entry that moves.
    let found = match &to.parent {
        Some(parent) => find(txn, parent, &wanted)?,
        None => false,
    };
    match found || keeps {
        true => Ok(()),
        false => Err(no_parent(&to.foreign)),
    }
}

pub(super) fn no_parent(f: &Foreign) -> Error {
    let what = format!(
        "a row of table '{}' has no parent in table '{}' by the foreign key '{}'",
        f.table, f.parent, f.name
    );
    Error::of_constraint(ErrorKind::NoParent, (&f.table, &f.name), what)
}

/// Whether a row whose key begins with `key` exists in its newest version; locks it.
pub(super) fn find(txn: &mut Transaction, parent: &ParentIndex, key: &[u8]) -> Result<bool> {
    let (table, codec) = (&parent.table, &parent.codec);
    txn.settle(table.id())?;
    let tree = codec.schema().indexes[parent.index].tree;
    if parent.unique {
        // A transaction that inserts, changes or deletes the row holds this lock exclusively. So
        // the lock is taken first, and a plain read suffices after it.
        txn.lock(table, tree, key, RowMode::S, OnLocked::Wait)?;
        if parent.index == 0 {
            return txn.read(table, tree, key, SEQ_MAX, &mut Vec::new());
        }
        let mut cursor = Cursor::new(table.clone(), tree, SEQ_MAX);
        return Ok(cursor.seek(txn, key, Seek::Ge)? && cursor.key().starts_with(key));
    }
    let mut cursor = Cursor::new(table.clone(), tree, SEQ_MAX);
    // Others may move a row before it is locked, also to a place before the cursor. So each look starts at the first
    // entry, and the search ends when it finds none, or one that is still there after its row was locked.
    loop {
        cursor.look_anew();
        if !cursor.seek(txn, key, Seek::Ge)? || !cursor.key().starts_with(key) {
            if !txn.locks_ranges() {
                return Ok(false);
            }
            // No row's lock says that there is none.
            let mut end = key.to_vec();
            let range = KeyRange { from: key.to_vec(), to: prefix_end(&mut end).then_some(end) };
            match txn.lock_range(table, tree, range, RowMode::S, OnLocked::Wait)? {
                Granted::AlreadyHeld => return Ok(false),
                _ => continue,
            }
        }
        if txn.handle().is_interrupted() {
            return Err(Error::new(ErrorKind::Interrupted, "the statement was ended"));
        }
        let entry = cursor.key().to_vec();
        let row = codec.primary_key(parent.index, &entry)?.to_vec();
        txn.lock(table, 0, &row, RowMode::S, OnLocked::Wait)?;
        if txn.read(table, tree, &entry, SEQ_MAX, &mut Vec::new())? {
            return Ok(true);
        }
    }
}
