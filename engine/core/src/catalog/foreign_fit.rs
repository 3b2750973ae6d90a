//! Whether a foreign key fits its two tables: columns, indexes, types.
//!
//! - FF1. Child and parent each have an index that begins with the columns of the foreign key, whole and in
//!   their order, so that rows of either are found from those of the other. Keys of both indexes differ
//!   only in what [`KeyBridge`] translates.
//! - FF2. A child whose rows are changed by a cascade has no column that only a server can compute or
//!   sort: no index on a virtual column, no opaque column.

use frond_base::{Error, ErrorKind, Result};
use frond_row::{Column, ColumnType, KeyBridge, Schema};

use crate::catalog::foreign::{Action, Foreign};

/// The indexes that serve a foreign key, as positions in the schemas, and its columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fit {
    pub child_index: usize,
    pub parent_index: usize,
    /// Positions in the child's schema, and in the parent's.
    pub columns: Vec<usize>,
    pub parent_columns: Vec<usize>,
}

fn refuse<T>(foreign: &Foreign, what: String) -> Result<T> {
    let text = format!("foreign key '{}' of table '{}': {what}", foreign.name, foreign.table);
    let about = (foreign.table.as_str(), foreign.name.as_str());
    Err(Error::of_constraint(ErrorKind::BadForeignKey, about, text))
}

fn is_virtual(column: &Column) -> bool {
    !column.stored && !column.coming
}

fn positions(
    foreign: &Foreign,
    schema: &Schema,
    table: &str,
    names: &[String],
) -> Result<Vec<usize>> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match schema.column(name) {
            Some(at) if is_virtual(&schema.columns[at]) => {
                return refuse(foreign, format!("column '{name}' of '{table}' is virtual"))
            }
            Some(at) if found.contains(&at) => {
                return refuse(foreign, format!("column '{name}' of '{table}' comes twice"))
            }
            Some(at) => found.push(at),
            None => return refuse(foreign, format!("table '{table}' has no column '{name}'")),
        }
    }
    Ok(found)
}

/// The index that begins with `columns`: preferably a unique one that has no other columns.
fn index_on(schema: &Schema, columns: &[usize]) -> Option<usize> {
    let begins = |i: &usize| {
        let parts = &schema.indexes[*i].parts;
        let same = parts.iter().zip(columns).all(|(p, c)| usize::from(p.column) == *c);
        let whole = parts.iter().take(columns.len()).all(|p| p.prefix.is_none());
        parts.len() >= columns.len() && same && whole
    };
    let serving = || (0..schema.indexes.len()).filter(begins);
    let exact = |i: &usize| is_unique(schema, *i, columns.len());
    serving().find(exact).or_else(|| serving().next())
}

/// Whether no two rows have the same first `parts` parts of an index.
pub(crate) fn is_unique(schema: &Schema, index: usize, parts: usize) -> bool {
    let i = &schema.indexes[index];
    (index == 0 || i.unique) && i.parts.len() == parts
}

/// Checks what concerns the child alone. Returns the columns and the index of the child.
pub(crate) fn fit_child(foreign: &Foreign, child: &Schema) -> Result<(Vec<usize>, usize)> {
    let columns = positions(foreign, child, &foreign.table, &foreign.columns)?;
    let Some(index) = index_on(child, &columns) else {
        let what = "the child has no index that begins with these columns in this order";
        return refuse(foreign, what.into());
    };
    let actions = [foreign.on_delete, foreign.on_update];
    if actions.contains(&Action::SetNull) {
        if let Some(at) = columns.iter().find(|at| !child.columns[**at].nullable) {
            let name = &child.columns[*at].name;
            return refuse(foreign, format!("SET NULL, but column '{name}' is NOT NULL"));
        }
    }
    if actions.iter().any(|a| matches!(a, Action::Cascade | Action::SetNull)) {
        if child.columns.iter().any(|c| matches!(c.ty, ColumnType::Opaque { .. })) {
            return refuse(
                foreign,
                "a cascade cannot change rows with columns of old types".into(),
            );
        }
        let mut parts = child.indexes.iter().flat_map(|i| &i.parts);
        if parts.any(|p| is_virtual(&child.columns[usize::from(p.column)])) {
            let what = "a cascade cannot change rows of a table with an index on a virtual column";
            return refuse(foreign, what.into());
        }
    }
    Ok((columns, index))
}

/// Finds the indexes of both tables (FF1).
pub(crate) fn fit(foreign: &Foreign, child: &Schema, parent: &Schema) -> Result<Fit> {
    let (columns, child_index) = fit_child(foreign, child)?;
    let parent_columns = positions(foreign, parent, &foreign.parent, &foreign.parent_columns)?;
    let Some(parent_index) = index_on(parent, &parent_columns) else {
        let what = format!(
            "the parent '{}' has no index that begins with these columns in this order",
            foreign.parent
        );
        return refuse(foreign, what);
    };
    let bridge = KeyBridge::new((child, child_index), (parent, parent_index), columns.len());
    if let Err(bad) = bridge {
        let what = format!(
            "columns '{}' and '{}' of the parent differ in type, length, sign or collation",
            foreign.columns[bad.part], foreign.parent_columns[bad.part]
        );
        return refuse(foreign, what);
    }
    Ok(Fit { child_index, parent_index, columns, parent_columns })
}
