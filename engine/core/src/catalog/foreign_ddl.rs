//! What CREATE, RENAME, ALTER and DROP do to foreign keys: changes of constraints' rows, which are committed
//! with the table's own.
//!
//! - FD1. If a constraint is active and its parent exists, both tables fit (FF1): each change of a
//!   table is checked against the constraints that name it. The exception is a table created while
//!   parents may be missing; a parent that does not fit counts as missing.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};
use frond_row::{Column, Schema};

use crate::catalog::foreign::{Foreign, ForeignState};
use crate::catalog::foreign_fit::{fit, fit_child};
use crate::catalog::names::Names;
use crate::catalog::TableDef;
use crate::commit::core::Core;

/// Foreign keys of a new table.
#[derive(Clone, Debug, Default)]
pub struct NewForeigns {
    pub foreigns: Vec<Foreign>,
    /// The new table is a copy that will take the place of this one: a foreign key that names this one as
    /// parent means the copy.
    pub replaces: Option<String>,
    /// A parent need not exist, and the new table need not fit as the parent that others name.
    pub parents_may_miss: bool,
}

/// Foreign keys that a table is given in place.
#[derive(Clone, Debug, Default)]
pub struct AddedForeigns {
    pub foreigns: Vec<Foreign>,
    /// Rows are not checked, and parents need not exist.
    pub unchecked: bool,
}

impl AddedForeigns {
    /// Whether rows are checked.
    pub fn checks(&self) -> bool {
        !self.unchecked && !self.foreigns.is_empty()
    }
}

/// What a rename does to foreign keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RenameForeigns {
    /// The table is the same under another name: constraints that name it follow.
    Follow,
    /// The table makes room for its copy: its constraints wait, those that name it mean the copy.
    Aside,
    /// A copy, or a table that had made room, takes the name: its constraints are active from now on.
    /// If the copy replaces the table `instead_of` under another name, constraints that name that
    /// table follow it.
    InPlace { instead_of: Option<String> },
}

/// Rows of constraints that go and come.
#[derive(Default)]
pub(crate) struct ForeignChange {
    gone: Vec<Arc<Foreign>>,
    come: Vec<Foreign>,
}

impl ForeignChange {
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.come.is_empty()
    }

    pub fn puts(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let stored = self.come.iter().filter(|f| !f.state.is_in_memory());
        stored.map(|f| (f.key(), f.encode())).collect()
    }

    /// Keys that are not put again.
    pub fn deletes(&self) -> Vec<Vec<u8>> {
        let put: Vec<Vec<u8>> = self.come.iter().map(Foreign::key).collect();
        self.gone.iter().map(|f| f.key()).filter(|key| !put.contains(key)).collect()
    }

    pub fn apply(self, names: &mut Names) {
        for f in self.gone {
            names.foreigns.apply(&f.table, &f.name, None);
        }
        for f in self.come {
            let (table, name) = (f.table.clone(), f.name.clone());
            names.foreigns.apply(&table, &name, Some(f));
        }
    }

    pub(super) fn replace(&mut self, old: &Arc<Foreign>, new: Foreign) {
        self.gone.push(old.clone());
        self.come.push(new);
    }

    pub(super) fn add(&mut self, new: Foreign) {
        self.come.push(new);
    }
}

pub(super) fn schema_of(def: &TableDef) -> Result<Schema> {
    if def.schema.is_empty() {
        return Err(Error::new(
            ErrorKind::BadForeignKey,
            format!("table '{}' has no columns that a foreign key could name", def.name),
        ));
    }
    Schema::decode(&def.schema, &def.name)
}

fn no_foreign(table: &str, name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("table '{table}' has no foreign key '{name}'"))
}

fn new_column(schema: &Schema, id: u32) -> Option<&Column> {
    schema.columns.iter().find(|c| c.id == id)
}

pub(super) fn parent_missing(f: &Foreign) -> Error {
    let what = format!(
        "foreign key '{}' of table '{}': there is no table '{}' in this engine",
        f.name, f.table, f.parent
    );
    Error::of_constraint(ErrorKind::BadForeignKey, (&f.table, &f.name), what)
}

impl Core {
    /// Plans that rows were checked by are out of date.
    pub(crate) fn foreigns_changed(&self) {
        self.foreign_version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn foreign_version(&self) -> u64 {
        self.foreign_version.load(Ordering::Acquire)
    }

    /// Checks the constraints of the table `def` that is being created, and those that name it already.
    pub(crate) fn foreigns_of_created(
        &self,
        def: &TableDef,
        new: NewForeigns,
    ) -> Result<ForeignChange> {
        let names = self.names.read();
        let stands_for = new.replaces.as_deref().unwrap_or(&def.name);
        let naming = names.foreigns.naming(stands_for);
        if new.foreigns.is_empty() && naming.is_empty() {
            return Ok(ForeignChange::default());
        }
        let schema = schema_of(def)?;
        for f in &new.foreigns {
            f.validate()?;
            if f.table != def.name {
                let what = "a foreign key is of the table that is created";
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            }
            let taken = |other: &&Arc<Foreign>| {
                other.name == f.name
                    && other.table != stands_for
                    && other.state != ForeignState::Waiting
            };
            let twice = new.foreigns.iter().filter(|other| other.name == f.name).count() > 1;
            if twice || names.foreigns.iter().any(|other| taken(&other)) {
                let what = format!("there is a foreign key '{}' already", f.name);
                let about = (f.table.as_str(), f.name.as_str());
                return Err(Error::of_constraint(ErrorKind::DuplicateKey, about, what));
            }
            let parent = match f.parent == stands_for {
                true => Some(schema.clone()),
                false => names.get(&f.parent).map(|def| schema_of(def)).transpose()?,
            };
            // A constraint whose parent was missing or did not fit the original may stay so in the copy.
            let missed = || -> Result<bool> {
                let had = names.foreigns.get(stands_for, &f.name).filter(|had| {
                    f.state == ForeignState::Waiting
                        && (&had.parent, &had.parent_columns) == (&f.parent, &f.parent_columns)
                });
                let old = had.and_then(|_| names.get(stands_for));
                let (Some(old), Some(parent)) = (old, &parent) else { return Ok(old.is_some()) };
                Ok(f.parent != stands_for && fit(f, &schema_of(old)?, parent).is_err())
            };
            match parent.as_ref().map(|parent| fit(f, &schema, parent)) {
                Some(Ok(_)) => {}
                None if new.parents_may_miss => drop(fit_child(f, &schema)?),
                _ if missed()? => drop(fit_child(f, &schema)?),
                Some(Err(e)) => return Err(e),
                None => return Err(parent_missing(f)),
            }
        }
        if !new.parents_may_miss || new.replaces.is_some() {
            check_naming(&names, &naming, stands_for, &schema)?;
        }
        Ok(ForeignChange { gone: Vec::new(), come: new.foreigns })
    }

    /// The constraints of a table that is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Referenced`] when another table's constraint names it, unless `may_miss` allows that one.
    pub(crate) fn foreigns_of_dropped(
        &self,
        name: &str,
        may_miss: &dyn Fn(&Foreign) -> bool,
    ) -> Result<ForeignChange> {
        let names = self.names.read();
        for f in names.foreigns.naming(name) {
            if f.table != name && f.state != ForeignState::Waiting && !may_miss(&f) {
                let what = format!(
                    "table '{name}' is the parent of table '{}' by its foreign key '{}'",
                    f.table, f.name
                );
                return Err(Error::of_constraint(ErrorKind::Referenced, (&f.table, &f.name), what));
            }
        }
        Ok(ForeignChange { gone: names.foreigns.of(name), come: Vec::new() })
    }

    /// The constraints that a rename changes. `rename` gives them their new names.
    pub(crate) fn foreigns_of_renamed(
        &self,
        def: &TableDef,
        to: &str,
        how: &RenameForeigns,
        rename: &dyn Fn(&Foreign) -> String,
    ) -> Result<ForeignChange> {
        let names = self.names.read();
        let mut change = ForeignChange::default();
        let state = match how {
            RenameForeigns::Aside => ForeignState::Waiting,
            _ => ForeignState::Active,
        };
        let followed = match how {
            RenameForeigns::InPlace { instead_of: Some(name) } if name != to => Some(name.as_str()),
            _ => None,
        };
        for f in names.foreigns.of(&def.name) {
            let mut moved = f.moved(to, state);
            if *how == RenameForeigns::Follow {
                moved.name = rename(&f);
                moved.state = f.state;
                if moved.parent == def.name {
                    moved.parent = to.to_owned();
                }
            }
            if followed == Some(moved.parent.as_str()) {
                moved.parent = to.to_owned();
            }
            change.replace(&f, moved);
        }
        // The replaced table is still there, and dropped next.
        for f in followed.map(|name| names.foreigns.of(name)).unwrap_or_default() {
            change.replace(&f, f.moved(&f.table, ForeignState::Waiting));
        }
        let others = followed.map(|name| names.foreigns.naming(name)).unwrap_or_default();
        let others = others.iter().filter(|f| Some(f.table.as_str()) != followed);
        for f in others.filter(|f| f.table != def.name && f.state == ForeignState::Active) {
            change.replace(f, Foreign { parent: to.to_owned(), ..(**f).clone() });
        }
        if *how == RenameForeigns::Follow {
            for f in names.foreigns.naming(&def.name).iter().filter(|f| f.table != def.name) {
                change.replace(f, Foreign { parent: to.to_owned(), ..(**f).clone() });
            }
        }
        for f in &change.come {
            let taken = names.foreigns.iter().any(|other| {
                let same = other.name == f.name && other.state == ForeignState::Active;
                same && !change.gone.iter().any(|g| g.table == other.table && g.name == other.name)
            });
            if taken && f.state == ForeignState::Active {
                let what = format!("there is a foreign key '{}' already", f.name);
                let about = (f.table.as_str(), f.name.as_str());
                return Err(Error::of_constraint(ErrorKind::DuplicateKey, about, what));
            }
        }
        if *how != RenameForeigns::Aside {
            let naming = names.foreigns.naming(to);
            if !naming.is_empty() {
                check_naming(&names, &naming, to, &schema_of(def)?)?;
            }
        }
        Ok(change)
    }

    /// The constraints that a new schema of the table `def` changes: columns may have other names. Those that are
    /// called `gone` are dropped with it.
    ///
    /// # Errors
    /// [`ErrorKind::BadForeignKey`] when another one has a column that is not there any more;
    /// [`ErrorKind::NotFound`] when there is none to drop.
    pub(crate) fn foreigns_of_schema(
        &self,
        def: &TableDef,
        schema: &Schema,
        gone: &[String],
    ) -> Result<ForeignChange> {
        let names = self.names.read();
        let mut change = ForeignChange::default();
        for name in gone {
            let foreign = names.foreigns.get(&def.name, name).cloned();
            change.gone.push(foreign.ok_or_else(|| no_foreign(&def.name, name))?);
        }
        if !names.foreigns.mention(&def.name) {
            return Ok(change);
        }
        let old = schema_of(def)?;
        // A new column may have the name of a dropped one; it is a different column.
        let renamed = |f: &Foreign, columns: &[String]| -> Result<Vec<String>> {
            let new_name = |name: &String| {
                let Some(at) = old.column(name) else { return Ok(name.clone()) };
                let column = new_column(schema, old.columns[at].id);
                column.map(|c| c.name.clone()).ok_or_else(|| {
                    let what = format!(
                        "foreign key '{}' of table '{}' needs column '{name}' of '{}'",
                        f.name, f.table, def.name
                    );
                    Error::of_constraint(ErrorKind::BadForeignKey, (&f.table, &f.name), what)
                })
            };
            columns.iter().map(new_name).collect()
        };
        let of = names.foreigns.of(&def.name);
        let naming = names.foreigns.naming(&def.name);
        let others = naming.iter().filter(|f| f.table != def.name);
        let stays = |f: &&Arc<Foreign>| f.table != def.name || !gone.contains(&f.name);
        for f in of.iter().chain(others).filter(stays) {
            let mut changed = (**f).clone();
            if f.table == def.name {
                changed.columns = renamed(f, &f.columns)?;
            }
            if f.parent == def.name {
                changed.parent_columns = renamed(f, &f.parent_columns)?;
            }
            if changed != **f {
                change.replace(f, changed);
            }
        }
        Ok(change)
    }

    /// What [`Core::foreigns_of_schema`] finds, when all constraints of and to the table `def` fit it with `schema`.
    ///
    /// # Errors
    /// Those, and [`ErrorKind::BadForeignKey`].
    pub(crate) fn foreigns_of_altered(
        &self,
        def: &TableDef,
        schema: &Schema,
        gone: &[String],
    ) -> Result<ForeignChange> {
        let change = self.foreigns_of_schema(def, schema, gone)?;
        let names = self.names.read();
        if !names.foreigns.mention(&def.name) {
            return Ok(change);
        }
        let mut all = names.foreigns.of(&def.name);
        all.retain(|f| !gone.contains(&f.name));
        all.extend(names.foreigns.naming(&def.name).into_iter().filter(|f| f.table != def.name));
        for f in all.iter().filter(|f| f.state != ForeignState::Waiting) {
            let same = |new: &&Foreign| new.table == f.table && new.name == f.name;
            let f = change.come.iter().find(same).unwrap_or(f);
            let of = |table: &str| match (table == def.name, names.get(table)) {
                (true, _) => Ok(Some(schema.clone())),
                (false, Some(other)) => schema_of(other).map(Some),
                (false, None) => Ok(None),
            };
            match (of(&f.table)?, of(&f.parent)?) {
                (Some(child), Some(parent)) => drop(fit(f, &child, &parent)?),
                (Some(child), None) => drop(fit_child(f, &child)?),
                _ => {}
            }
        }
        Ok(change)
    }

    /// As [`crate::Engine::foreign_details`].
    #[allow(clippy::type_complexity)]
    pub(crate) fn foreign_details(
        &self,
        f: &Foreign,
    ) -> Result<(Option<(String, String)>, Vec<u8>)> {
        let names = self.names.read();
        let mut nullable = vec![0; f.columns.len()];
        let schema = |table: &str| names.get(table).map(|def| schema_of(def)).transpose();
        let (mut child, parent) = (schema(&f.table)?, schema(&f.parent)?);
        // The index may come with the constraint.
        if let Some(def) =
            names.get(&f.table).filter(|d| f.state.is_in_memory() && !d.building.is_empty())
        {
            child = Some(Schema::decode(&def.building, &def.name)?);
        }
        for (s, columns, bit) in [(&child, &f.columns, 1), (&parent, &f.parent_columns, 2)] {
            let Some(s) = s else { continue };
            for (name, flags) in columns.iter().zip(&mut nullable) {
                if s.column(name).is_some_and(|at| s.columns[at].nullable) {
                    *flags |= bit;
                }
            }
        }
        let (Some(child), Some(parent)) = (child, parent) else { return Ok((None, nullable)) };
        let name = |s: &Schema, index: usize| s.indexes[index].name.clone();
        let indexes = fit(f, &child, &parent)
            .map(|fit| (name(&child, fit.child_index), name(&parent, fit.parent_index)));
        Ok((indexes.ok(), nullable))
    }

    /// Drops one constraint of a table; durable when it returns.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub(crate) fn drop_foreign(self: &Arc<Self>, table: &str, name: &str) -> Result<()> {
        let _one = self.ddl.lock();
        let foreign = self.names.read().foreigns.get(table, name).cloned();
        let foreign = foreign.ok_or_else(|| no_foreign(table, name))?;
        self.commit_foreigns(ForeignChange { gone: vec![foreign], come: Vec::new() })
    }
}

/// Whether a table with `schema` fits as the parent `name` of the constraints `naming`.
fn check_naming(names: &Names, naming: &[Arc<Foreign>], name: &str, schema: &Schema) -> Result<()> {
    for f in naming.iter().filter(|f| f.table != name && f.state != ForeignState::Waiting) {
        if let Some(child) = names.get(&f.table) {
            fit(f, &schema_of(child)?, schema)?;
        }
    }
    Ok(())
}
