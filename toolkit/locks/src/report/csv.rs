//! A list of the document as CSV (RFC 4180), with chosen fields.

use std::io::{self, Write};

use serde_json::{Map, Value};

use super::Report;

/// A list of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Tree,
    Blockers,
    Waits,
    Records,
    Transactions,
    Locks,
    Deadlocks,
    Series,
}

fn rows(list: &Value) -> impl Iterator<Item = Map<String, Value>> + '_ {
    list.as_array().into_iter().flatten().filter_map(|row| Some(flat(row.as_object()?.clone())))
}

/// Renames a field of an object inside a field to `wants.table`.
fn flat(map: Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, value) in map {
        match value {
            Value::Object(inner) => {
                for (part, value) in flat(inner) {
                    out.insert(format!("{name}.{part}"), value);
                }
            }
            other => {
                out.insert(name, other);
            }
        }
    }
    out
}

fn section(report: &Report, section: Section) -> Vec<Map<String, Value>> {
    let document = serde_json::to_value(report).unwrap_or_default();
    let list = match section {
        Section::Tree => return rows(&document["tree"]["nodes"]).collect(),
        Section::Blockers => "blockers",
        Section::Waits => "longest_waits",
        Section::Records => "records",
        Section::Transactions => "longest_transactions",
        Section::Locks => "locks",
        Section::Series => "series",
        Section::Deadlocks => "deadlock_groups",
    };
    if section != Section::Deadlocks {
        return rows(&document[list]).collect();
    }
    // One row for each member, with the fields of its deadlock group.
    let mut all = Vec::new();
    for (number, mut group) in (1_u64..).zip(rows(&document[list])) {
        let members = group.remove("members").unwrap_or_default();
        group.insert("group".into(), number.into());
        all.extend(rows(&members).map(|row| row.into_iter().chain(group.clone()).collect()));
    }
    all
}

/// The names of the fields in a section's rows.
pub fn fields(report: &Report, of: Section) -> Vec<String> {
    let mut names: Vec<String> =
        section(report, of).iter().flat_map(|row| row.keys().cloned()).collect();
    names.sort();
    names.dedup();
    names
}

fn cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => {
            list.iter().map(|value| cell(Some(value))).collect::<Vec<_>>().join("; ")
        }
        Some(other) => other.to_string(),
    };
    // A spreadsheet takes a text that begins so for a formula.
    let text = if text.starts_with(['=', '+', '@']) { format!("'{text}") } else { text };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// Writes `of` with the fields `wanted` (none: all, by name). A field that no row has is empty.
pub fn write_csv(
    report: &Report,
    of: Section,
    wanted: &[String],
    out: &mut dyn Write,
) -> io::Result<()> {
    let names = if wanted.is_empty() { fields(report, of) } else { wanted.to_vec() };
    writeln!(out, "{}", names.join(","))?;
    for row in section(report, of) {
        let cells: Vec<String> = names.iter().map(|name| cell(row.get(name))).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}
