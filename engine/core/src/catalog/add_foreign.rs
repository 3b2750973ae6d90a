//! Foreign keys that a table is given in place, while others read and write it and its parents.
//!
//! - AF1. A new constraint is in memory only until the definition changes: a crash leaves nothing of it.
//! - AF2. From the beginning, when no transaction has changes of the child (ALT2), each row of the child that is written is
//!   checked, also one that keeps its parent, and holds the lock on its parent (FK1).
//! - AF3. When the child's index is complete, parents are guarded: a transaction that removes or changes one looks for
//!   children. Then a snapshot is taken, and the parents of its rows are looked for under the lock of FK1. A transaction
//!   that removed a parent before, without looking for children, still holds the lock on it, so the check waits for its end.
//! - AF4. A row without a parent violates the constraint only if its entry is still there: each change of the row since the
//!   snapshot was checked itself (AF2).
//! - AF5. When rows are not checked, a parent may change meanwhile, and another table may take its name: the fit of the
//!   constraint is checked again when the definition changes.
//! - AF6. Columns may change with it if each new constraint has a column that is added and is NULL in all rows: no row needs a parent.
//!
//! Tested by `tests/it/alter_foreign.rs`.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};
use frond_row::{Column, DefaultValue, Schema};

use crate::catalog::alter::Alter;
use crate::catalog::build::Progress;
use crate::catalog::foreign::{Foreign, ForeignState};
use crate::catalog::foreign_ddl::{parent_missing, schema_of, AddedForeigns, ForeignChange};
use crate::catalog::foreign_fit::{fit, fit_child};
use crate::catalog::TableDef;
use crate::commit::core::Core;
use crate::rows::check_parents_of_rows;

/// Of a column that is added.
fn is_null_in_all(column: &Column) -> bool {
    column.nullable && column.default == DefaultValue::Empty
}

impl Core {
    /// Whether the constraints that are added fit the table, which will have `schema` instead of `old`, and `building` for writers
    /// until then.
    pub(super) fn check_added(
        &self,
        def: &TableDef,
        (old, building, schema): (&Schema, &Schema, &Schema),
        added: &AddedForeigns,
    ) -> Result<()> {
        if added.foreigns.is_empty() {
            return Ok(());
        }
        let columns = |s: &Schema| -> Vec<_> {
            s.columns.iter().map(|c| (c.id, c.name.clone(), c.ty, c.bytes, c.nullable)).collect()
        };
        let of_new = |f: &Foreign| {
            let mut columns = f.columns.iter().filter_map(|name| schema.column(name));
            columns.any(|at| {
                let c = &schema.columns[at];
                is_null_in_all(c) && old.columns.iter().all(|was| was.id != c.id)
            })
        };
        // A name means the same column for writers and afterwards.
        let same = |names: &[String], a: &Schema, b: &Schema| {
            let id = |s: &Schema, name: &str| s.column(name).map(|at| s.columns[at].id);
            names.iter().all(|name| id(a, name) == id(b, name))
        };
        let bears = |f: &Foreign| {
            of_new(f)
                && same(&f.columns, building, schema)
                && (f.parent != def.name || same(&f.parent_columns, old, schema))
                && fit_child(f, building).is_ok()
        };
        if columns(old) != columns(schema) && !added.foreigns.iter().all(bears) {
            let what = "foreign keys are added and columns changed at once";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let names = self.names.read();
        for (n, f) in added.foreigns.iter().enumerate() {
            f.validate()?;
            if f.table != def.name || f.state != ForeignState::Active {
                let what = "a foreign key that is added is an active one of the table";
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            }
            let others = names.foreigns.iter().filter(|other| other.state != ForeignState::Waiting);
            let mut others = others.map(|other| &**other).chain(&added.foreigns[..n]);
            if others.any(|other| other.name == f.name) {
                let what = format!("there is a foreign key '{}' already", f.name);
                return Err(Error::of_constraint(
                    ErrorKind::DuplicateKey,
                    (&f.table, &f.name),
                    what,
                ));
            }
            // A table that is its own parent is searched by its current indexes while new ones are built.
            let parent = match f.parent == def.name {
                true => Some(old.clone()),
                false => names.get(&f.parent).map(|def| schema_of(def)).transpose()?,
            };
            match parent {
                Some(parent) => drop(fit(f, schema, &parent)?),
                None if added.unchecked => drop(fit_child(f, schema)?),
                None => return Err(parent_missing(f)),
            }
        }
        Ok(())
    }
}

impl Alter {
    /// Puts the new constraints into `state` in memory; `None` removes them.
    pub(super) fn put_foreigns(&self, state: Option<ForeignState>) {
        let mut names = self.core.names.write();
        for f in &self.foreigns_new.foreigns {
            // A parent may have another name by now, and its columns, too.
            let now = names.foreigns.get(&f.table, &f.name).map_or(f, |now| &**now).clone();
            names.foreigns.apply(&f.table, &f.name, state.map(|state| Foreign { state, ..now }));
        }
        self.core.foreigns_changed();
    }

    /// AF3: looks for the parents of all rows.
    ///
    /// # Errors
    /// [`ErrorKind::NoParent`]; those of waiting for locks, [`ErrorKind::Interrupted`].
    pub(super) fn check_foreigns(&mut self, progress: Progress<'_>) -> Result<()> {
        if !self.foreigns_new.checks() {
            return Ok(());
        }
        self.put_foreigns(Some(ForeignState::Guarding));
        let snapshot = self.core.new_snapshot();
        let schema = match &self.building {
            Some(schema) => schema.clone(),
            None => Arc::new(schema_of(&self.table.def())?),
        };
        let (total, mut done) = (self.table.rows(), 0);
        for f in &self.foreigns_new.foreigns {
            let mut columns = f.columns.iter().filter_map(|name| schema.column(name));
            // AF6
            if columns.any(|at| schema.columns[at].coming && is_null_in_all(&schema.columns[at])) {
                continue;
            }
            check_parents_of_rows(
                (&self.core, &self.table, &schema),
                &f.name,
                snapshot.at(),
                &mut |rows| {
                    done += rows;
                    match progress(done, total.max(done)) {
                        true => Ok(()),
                        false => {
                            Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted"))
                        }
                    }
                },
            )?;
        }
        self.is_checked = true;
        Ok(())
    }

    /// The new constraints as they will be.
    pub(super) fn add_foreigns(&self, change: &mut ForeignChange) -> Result<()> {
        let names = self.core.names.read();
        for f in &self.foreigns_new.foreigns {
            if self.foreigns_new.unchecked {
                change.add(f.clone());
                continue;
            }
            let now = names.foreigns.get(&f.table, &f.name).filter(|f| f.state.is_in_memory());
            let now = now.filter(|now| names.get(&now.parent).is_some());
            let now = now.ok_or_else(|| parent_missing(f))?;
            change.replace(now, Foreign { state: ForeignState::Active, ..(**now).clone() });
        }
        Ok(())
    }
}
