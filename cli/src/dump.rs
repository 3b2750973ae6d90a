//! `frond dump`: the newest committed rows of a table, or of one of its indexes, as text.

use std::io::Write;
use std::sync::Arc;

use frond_base::SEQ_MAX;
use frond_engine::{history, Engine, Table, TableDef};
use frond_row::{RowText, Schema, TextStyle};
use frond_tree::{Bounds, Tree};
use frond_vfs::Vfs;

use crate::args::Format;
use crate::check::no_such_table;
use crate::open;
use crate::out::{hex, Failure, Outcome};

/// What to print.
#[derive(Clone, Debug)]
pub struct Options {
    pub table: String,
    /// Name or number.
    pub index: String,
    pub format: Format,
    pub limit: Option<u64>,
    pub header: bool,
    pub cache_bytes: u64,
}

/// Prints the table; returns the number of rows printed.
pub fn run(vfs: Arc<dyn Vfs>, options: &Options, out: &mut dyn Write) -> Outcome<u64> {
    let engine = open::engine(vfs, options.cache_bytes)?;
    if !engine.table_exists(&options.table) {
        return Err(no_such_table(&engine, &options.table));
    }
    let table = open_table(&engine, &options.table)?;
    let def = table.def();
    if def.schema.is_empty() {
        return plain(&table, &def, options, out);
    }
    typed(&table, &def, options, out)
}

fn open_table(engine: &Engine, name: &str) -> Outcome<Arc<Table>> {
    Ok(engine.open_table(name)?)
}

/// Calls `each` for the entries of a tree, up to the limit.
fn walk(
    tree: &Tree,
    limit: Option<u64>,
    mut each: impl FnMut(&[u8], &[u8]) -> Outcome<()>,
) -> Outcome<u64> {
    let limit = limit.unwrap_or(u64::MAX);
    let mut cursor = tree.cursor(SEQ_MAX, Bounds::all());
    let mut rows = 0;
    let mut valid = limit > 0 && cursor.first()?;
    while valid {
        each(cursor.key(), cursor.value())?;
        rows += 1;
        valid = rows < limit && cursor.next()?;
    }
    Ok(rows)
}

fn typed(table: &Table, def: &TableDef, options: &Options, out: &mut dyn Write) -> Outcome<u64> {
    let schema = Arc::new(Schema::decode(&def.schema, &def.name)?);
    let index = find_index(&schema, &options.index)?;
    let tree = usize::from(schema.indexes[index].tree);
    let Some(tree) = table.trees().get(tree) else {
        return Err(Failure::Request(format!(
            "table '{}': schema and trees disagree; run 'frond check'",
            def.name
        )));
    };
    let mut text = RowText::new(&def.name, schema, history(def)?)?;
    let style = match options.format {
        Format::Tabs => TextStyle::Tabs,
        Format::Json => TextStyle::Json,
    };
    if options.header && options.format == Format::Tabs {
        writeln!(out, "{}", text.header(index, style))?;
    }
    let mut line = String::new();
    walk(tree, options.limit, |key, value| {
        line.clear();
        text.row_to_text(index, key, value, style, &mut line)?;
        line.push('\n');
        out.write_all(line.as_bytes())?;
        Ok(())
    })
}

fn find_index(schema: &Schema, wanted: &str) -> Outcome<usize> {
    let by_name = schema.indexes.iter().position(|i| i.name.eq_ignore_ascii_case(wanted));
    let by_number = wanted.parse::<usize>().ok().filter(|n| *n < schema.indexes.len());
    by_name.or(by_number).ok_or_else(|| {
        let names: Vec<String> =
            schema.indexes.iter().enumerate().map(|(n, i)| format!("{n} '{}'", i.name)).collect();
        Failure::Request(format!("there is no index '{wanted}'; there are {}", names.join(", ")))
    })
}

/// Keys and values that no schema describes: as text where they are, else as hex digits.
fn plain(table: &Table, def: &TableDef, options: &Options, out: &mut dyn Write) -> Outcome<u64> {
    let tree = options.index.parse::<usize>().ok().and_then(|n| table.trees().get(n));
    let Some(tree) = tree else {
        return Err(Failure::Request(format!(
            "table '{}' holds plain keys and values in {} index(es), numbered from 0",
            def.name,
            table.trees().len()
        )));
    };
    if options.header && options.format == Format::Tabs {
        writeln!(out, "key\tvalue")?;
    }
    walk(tree, options.limit, |key, value| {
        match options.format {
            Format::Tabs => writeln!(out, "{}\t{}", shown(key), shown(value))?,
            Format::Json => {
                let object = serde_json::json!({ "key": shown(key), "value": shown(value) });
                writeln!(out, "{object}")?;
            }
        }
        Ok(())
    })
}

/// Printable text as it is; anything else, and what looks like our hex, as hex digits.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) && !text.starts_with("0x") => text.into(),
        _ => hex(bytes, usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_or_hex_and_never_ambiguous() {
        assert_eq!(shown(b"plain"), "plain");
        assert_eq!(shown(b"a\tb"), "0x610962");
        assert_eq!(shown(b"0x61"), "0x30783631");
        assert_eq!(shown(&[0xff]), "0xff");
        assert_eq!(shown(b""), "");
    }
}
