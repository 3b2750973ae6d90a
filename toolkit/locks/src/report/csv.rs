//! A list of the document as CSV (RFC 4180), with chosen fields.

use std::collections::BTreeSet;
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

impl Section {
    /// Each with its name, and its place in the document.
    pub const ALL: [(&str, Section, &str); 8] = [
        ("tree", Section::Tree, "/tree/nodes"),
        ("blockers", Section::Blockers, "/blockers"),
        ("waits", Section::Waits, "/longest_waits"),
        ("records", Section::Records, "/records"),
        ("transactions", Section::Transactions, "/longest_transactions"),
        ("locks", Section::Locks, "/locks"),
        ("deadlocks", Section::Deadlocks, "/deadlock_groups"),
        ("series", Section::Series, "/series"),
    ];

    pub fn named(name: &str) -> Option<Section> {
        Section::ALL.iter().find(|(known, _, _)| *known == name).map(|(_, section, _)| *section)
    }

    /// Its rows in `report`, with a field of an object inside a field as `wants.table`.
    fn rows(self, report: &Report) -> Vec<Map<String, Value>> {
        let mut document = serde_json::to_value(report).unwrap_or_default();
        let place = Section::ALL.iter().find(|(_, section, _)| *section == self);
        let list = place.and_then(|(_, _, place)| document.pointer_mut(place));
        let rows = rows(list.map(Value::take).unwrap_or_default());
        if self != Section::Deadlocks {
            return rows;
        }
        // One row for each member, with the fields of its deadlock group.
        let mut all = Vec::new();
        for (number, mut group) in (1_u64..).zip(rows) {
            let members = group.remove("members").unwrap_or_default();
            group.insert("group".into(), number.into());
            all.extend(
                self::rows(members)
                    .into_iter()
                    .map(|row| row.into_iter().chain(group.clone()).collect()),
            );
        }
        all
    }
}

fn rows(list: Value) -> Vec<Map<String, Value>> {
    let Value::Array(list) = list else { return Vec::new() };
    let row = |row| if let Value::Object(row) = row { Some(flat(row)) } else { None };
    list.into_iter().filter_map(row).collect()
}

fn flat(map: Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, value) in map {
        if let Value::Object(inner) = value {
            out.extend(
                flat(inner).into_iter().map(|(part, value)| (format!("{name}.{part}"), value)),
            );
        } else {
            out.insert(name, value);
        }
    }
    out
}

/// The names of the fields in a section's rows.
pub fn fields(report: &Report, of: Section) -> Vec<String> {
    let names: BTreeSet<String> =
        of.rows(report).into_iter().flatten().map(|(name, _)| name).collect();
    names.into_iter().collect()
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
    for row in of.rows(report) {
        let cells: Vec<String> = names.iter().map(|name| cell(row.get(name))).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}
