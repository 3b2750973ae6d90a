//! A list of the document as CSV (RFC 4180), with chosen fields.

use std::io::{self, Write};

use serde::Serialize;
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

fn rows<T: Serialize>(list: &[T]) -> Vec<Map<String, Value>> {
    let rows = list.iter().filter_map(|row| serde_json::to_value(row).ok());
    rows.filter_map(|row| match row {
        Value::Object(map) => Some(flat(map)),
        _ => None,
    })
    .collect()
}

/// `wants.table` for a field of an object in a field.
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
    match section {
        Section::Tree => report.tree.as_ref().map_or(Vec::new(), |tree| rows(&tree.nodes)),
        Section::Blockers => rows(&report.blockers),
        Section::Waits => rows(&report.longest_waits),
        Section::Records => rows(&report.records),
        Section::Transactions => rows(&report.longest_transactions),
        Section::Locks => rows(&report.locks),
        Section::Series => rows(&report.series),
        // One row for each member.
        Section::Deadlocks => {
            let mut all = Vec::new();
            for (number, group) in report.deadlock_groups.iter().enumerate() {
                for mut row in rows(&group.members) {
                    row.insert("group".into(), (number + 1).into());
                    row.insert("count".into(), group.count.into());
                    row.insert("first".into(), group.first.clone().into());
                    row.insert("last".into(), group.last.clone().into());
                    row.insert("hint".into(), group.hint.into());
                    all.push(row);
                }
            }
            all
        }
    }
}

/// The names of the fields that the rows of a section have.
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
    // A spreadsheet takes what begins so for a formula.
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
