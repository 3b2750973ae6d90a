//! A list of the document as CSV (RFC 4180), with chosen fields.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Report;

/// The lists of the document, each with its place there.
pub const LISTS: [(&str, &str); 8] = [
    ("tree", "/tree/nodes"),
    ("blockers", "/blockers"),
    ("waits", "/longest_waits"),
    ("records", "/records"),
    ("transactions", "/longest_transactions"),
    ("locks", "/locks"),
    ("deadlocks", "/deadlock_groups"),
    ("series", "/series"),
];

/// The rows of a list, with a field of an object inside a field as `wants.table`. A deadlock has a row for each member.
fn rows(report: &Report, name: &str) -> Vec<Map<String, Value>> {
    let mut document = serde_json::to_value(report).unwrap_or_default();
    let place = LISTS.iter().find(|(known, _)| *known == name).map_or("", |(_, place)| place);
    let list = document.pointer_mut(place).map(Value::take).unwrap_or_default();
    let mut all = Vec::new();
    for (number, mut row) in (1_u64..).zip(objects(list)) {
        let members = row.remove("members").map(objects);
        if members.is_some() {
            row.insert("group".into(), number.into());
        }
        for member in members.unwrap_or_else(|| vec![Map::new()]) {
            all.push(flat(row.clone().into_iter().chain(member).collect()));
        }
    }
    all
}

fn objects(list: Value) -> Vec<Map<String, Value>> {
    serde_json::from_value(list).unwrap_or_default()
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

/// A list with the fields `wanted` (none: all, by name). `Err`: the list has no such field.
pub fn csv(report: &Report, list: &str, wanted: &[String]) -> Result<String, String> {
    let rows = rows(report, list);
    let known: BTreeSet<&str> = rows.iter().flatten().map(|(name, _)| name.as_str()).collect();
    let known: Vec<&str> = known.into_iter().collect();
    // Without a row the names are unknown, so none can be called wrong.
    if let Some(name) = wanted.iter().find(|n| !known.is_empty() && !known.contains(&n.as_str())) {
        return Err(format!("no field '{name}': there are {}", known.join(", ")));
    }
    let names = if wanted.is_empty() { known } else { wanted.iter().map(|n| &n[..]).collect() };
    let mut out = names.join(",") + "\n";
    for row in &rows {
        let cells: Vec<String> = names.iter().map(|name| cell(row.get(*name))).collect();
        out += &(cells.join(",") + "\n");
    }
    Ok(out)
}
