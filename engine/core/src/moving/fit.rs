//! Whether an exported table fits the discarded one that it is imported into, and the definition that results from both.
//!
//! Tested by `tests/it/moving.rs`.

use frond_base::{Error, ErrorKind, Result};
use frond_row::{Column, Index, Schema};

use crate::catalog::{IndexState, TableDef};

type Fits<T> = std::result::Result<T, String>;
/// The server's name of a collation, by its number.
pub type CollationName<'a> = &'a dyn Fn(u32) -> String;

/// The definition of the imported table. From `theirs` it has the trees, the schema's version and the ids of columns; from
/// `ours` names, the order of indexes, storage formats and meta. It has no older schema: the places
/// that TDF4 requires would be those of the other file, so the import renews such rows (MV6).
///
/// # Errors
/// [`ErrorKind::Mismatch`] with the first difference.
pub(super) fn fit(
    theirs: &TableDef,
    ours: &TableDef,
    collation: CollationName<'_>,
) -> Result<TableDef> {
    // Plain keys and values.
    if theirs.schema.is_empty() && ours.schema.is_empty() {
        let shapes = |def: &TableDef| -> Vec<_> {
            def.indexes.iter().map(|i| i.key_shape.clone()).collect()
        };
        let (there, here) = (theirs.indexes.len(), ours.indexes.len());
        return match shapes(theirs) == shapes(ours) {
            true => Ok(renamed(theirs, ours)),
            false => Err(mismatch(format!("{there} indexes in the file, {here} here"))),
        };
    }
    let file = Schema::decode(&theirs.schema, &theirs.name)?;
    let table = Schema::decode(&ours.schema, &ours.name)?;
    columns(&file, &table, collation).map_err(mismatch)?;
    let indexes = indexes(&file, &table).map_err(mismatch)?;
    let mut def = TableDef { meta: ours.meta.clone(), ..renamed(theirs, ours) };
    for (index, wanted) in indexes.iter().zip(&table.indexes) {
        let slot = def.indexes.get_mut(usize::from(index.tree));
        let format = ours.indexes.get(usize::from(wanted.tree));
        let (Some(slot), Some(format)) = (slot, format) else {
            return Err(mismatch(format!("index {} has no tree", index.name)));
        };
        if slot.state == IndexState::Dropped || slot.key_shape != format.key_shape {
            return Err(mismatch(format!("index {} has other keys in the file", index.name)));
        }
        slot.page_bytes = format.page_bytes;
        slot.compression = format.compression;
        slot.filter = format.filter;
    }
    let mut schema = Schema { indexes, ..file };
    for (column, wanted) in schema.columns.iter_mut().zip(&table.columns) {
        column.name.clone_from(&wanted.name);
    }
    def.schema.clear();
    schema.encode(&mut def.schema);
    def.validate()?;
    Ok(def)
}

fn renamed(theirs: &TableDef, ours: &TableDef) -> TableDef {
    TableDef { name: ours.name.clone(), history: Vec::new(), ..theirs.clone() }
}

fn mismatch(what: String) -> Error {
    Error::new(ErrorKind::Mismatch, what)
}

fn columns(file: &Schema, table: &Schema, collation: CollationName<'_>) -> Fits<()> {
    for (n, (there, here)) in file.columns.iter().zip(&table.columns).enumerate() {
        if !there.name.eq_ignore_ascii_case(&here.name) {
            return Err(format!(
                "column {}: {} in the file, {} here",
                n + 1,
                there.name,
                here.name
            ));
        }
        column(there, here, collation).map_err(|what| format!("column {}: {what}", here.name))?;
    }
    let (there, here) = (file.columns.len(), table.columns.len());
    if there != here {
        return Err(format!("{there} columns in the file, {here} here"));
    }
    if file.hidden_primary != table.hidden_primary {
        let has = |hidden| if hidden { "no primary key" } else { "a primary key" };
        let (there, here) = (has(file.hidden_primary), has(table.hidden_primary));
        return Err(format!("{there} in the file, {here} here"));
    }
    if file.auto_increment != table.auto_increment {
        let named = |s: &Schema| match s.auto_increment.and_then(|n| s.columns.get(usize::from(n)))
        {
            Some(column) => format!("column {}", column.name),
            None => "no column".into(),
        };
        return Err(format!(
            "{} has AUTO_INCREMENT in the file, {} here",
            named(file),
            named(table)
        ));
    }
    Ok(())
}

fn column(there: &Column, here: &Column, collation: CollationName<'_>) -> Fits<()> {
    let differ = |what: &str, there: String, here: String| {
        Err(format!("{what} is {there} in the file, {here} here"))
    };
    if there.ty != here.ty {
        let said = |c: &Column| format!("{:?}", c.ty);
        return differ("its type", said(there), said(here));
    }
    if there.charset != here.charset {
        return differ("its collation", collation(there.charset), collation(here.charset));
    }
    if there.bytes != here.bytes {
        return differ("its length in bytes", there.bytes.to_string(), here.bytes.to_string());
    }
    if there.nullable != here.nullable {
        let said = |c: &Column| if c.nullable { "NULL" } else { "NOT NULL" }.to_owned();
        return differ("it", said(there), said(here));
    }
    if there.stored != here.stored {
        let said = |c: &Column| if c.stored { "stored" } else { "virtual" }.to_owned();
        return differ("it", said(there), said(here));
    }
    let chars = |c: &Column| (c.max_char_bytes, c.min_char_bytes);
    if chars(there) != chars(here) || !there.sort.compares_as(&here.sort) {
        return Err("its collation sorts otherwise on this server".into());
    }
    Ok(())
}

/// The file's indexes, in the order of the table's.
fn indexes(file: &Schema, table: &Schema) -> Fits<Vec<Index>> {
    let missing = |from: &Schema, of: &Schema| {
        let has = |i: &Index| from.indexes.iter().any(|f| f.name.eq_ignore_ascii_case(&i.name));
        of.indexes.iter().find(|i| !has(i)).map(|i| i.name.clone())
    };
    if let Some(name) = missing(file, table) {
        return Err(format!("index {name} is not in the file"));
    }
    if let Some(name) = missing(table, file) {
        return Err(format!("index {name} of the file is not here"));
    }
    let mut all = Vec::with_capacity(table.indexes.len());
    for (n, here) in table.indexes.iter().enumerate() {
        let Some(at) = file.indexes.iter().position(|i| i.name.eq_ignore_ascii_case(&here.name))
        else {
            return Err(format!("index {} is not in the file", here.name));
        };
        let there = &file.indexes[at];
        // The primary index is the first in both.
        if (n == 0) != (at == 0) || there.unique != here.unique {
            return Err(format!("index {}: unique or not, it differs", here.name));
        }
        if there.clustering != here.clustering {
            let has = |i: &Index| if i.clustering { "clustering" } else { "not clustering" };
            let (there, own) = (has(there), has(here));
            return Err(format!("index {}: {there} in the file, {own} here", here.name));
        }
        if there.parts != here.parts {
            return Err(format!(
                "index {}: ({}) in the file, ({}) here",
                here.name,
                described(file, there),
                described(table, here)
            ));
        }
        all.push(Index { name: here.name.clone(), ..there.clone() });
    }
    Ok(all)
}

fn described(schema: &Schema, index: &Index) -> String {
    let part = |p: &frond_row::Part| {
        let name = schema.columns.get(usize::from(p.column)).map_or("?", |c| &c.name);
        let prefix = p.prefix.map_or(String::new(), |p| format!("({})", p.chars));
        format!("{name}{prefix}{}", if p.descending { " DESC" } else { "" })
    };
    index.parts.iter().map(part).collect::<Vec<_>>().join(", ")
}
