//! JSON, lines of JSON and CSV.

use frond_digest::report::{csv, diff, json, text, Report};

use super::data::{large, log, report_of};

const MODEL: &str = include_str!("../../../src/report/model.rs");
const DIFF: &str = include_str!("../../../src/report/diff/mod.rs");
const SCHEMA_PAGE: &str = include_str!("../../../../../docs/digest-json.md");

/// Names of the public fields in a source file.
fn fields(source: &str) -> Vec<&str> {
    source
        .lines()
        .filter_map(|line| line.strip_prefix("    pub ")?.split_once(':').map(|(name, _)| name))
        .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .collect()
}

#[test]
fn the_page_of_the_schema_has_every_field() {
    let all: Vec<&str> = fields(MODEL).into_iter().chain(fields(DIFF)).collect();
    assert!(all.len() > 120, "the fields were not found: {}", all.len());
    let missing: Vec<&&str> =
        all.iter().filter(|name| !SCHEMA_PAGE.contains(&format!("| `{name}` |"))).collect();
    assert!(missing.is_empty(), "not in docs/digest-json.md: {missing:?}");
}

#[test]
fn the_page_of_the_schema_has_every_column_of_csv() {
    for column in csv::columns() {
        assert!(SCHEMA_PAGE.contains(&format!("`{column}`")), "{column}");
    }
}

#[test]
fn json_is_the_document() {
    let report = report_of(log(1, 1.0, true).as_bytes());
    for pretty in [true, false] {
        let mut out = Vec::new();
        json::write(&report, pretty, &mut out).unwrap();
        assert_eq!(out.iter().filter(|b| **b == b'\n').count() == 1, !pretty);
        let again: Report = serde_json::from_slice(&out).unwrap();
        assert_eq!(again.classes.len(), report.classes.len());
        assert_eq!(again.overall.events, report.overall.events);
    }
}

#[test]
fn what_has_no_time_is_said_in_the_text() {
    let event = |time: &str| {
        format!("# User@Host: a[a] @ h []\n# Query_time: {time}  Lock_time: 0.000010  Rows_sent: 1\nSET timestamp=1767294571;\nselect 1;\n")
    };
    let shown = |log: String| {
        let mut out = Vec::new();
        text::write(&report_of(log.as_bytes()), 80, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let negative = event("18446744073709.550781");
    let all = shown(event("0.5") + &negative + &negative);
    assert!(all.contains("# Without time: 2 events"), "{all}");
    assert!(all.contains("2026-01-01 19:09:31 UTC") && !all.contains("2610"), "{all}");
    assert!(shown(negative).contains("# Without time: 1 event "));
    assert!(!shown(event("0.5")).contains("Without time"));
}

#[test]
fn lines_of_json_are_one_for_each_class() {
    let report = large(7);
    let mut out = Vec::new();
    json::write_lines(&report, &mut out).unwrap();
    let lines: Vec<serde_json::Value> = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 8);
    assert_eq!(lines[0]["type"], "overall");
    assert_eq!(lines[0]["overall"]["events"], 1_000_000);
    assert!(lines[1..].iter().all(|l| l["type"] == "class"));
    assert_eq!(lines[7]["rank"], 7);
}

/// Reads CSV back, strictly by RFC 4180.
fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                cell.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {
                chars.next();
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    assert!(row.is_empty() && cell.is_empty() && !quoted);
    rows
}

#[test]
fn csv_has_a_row_for_each_class_and_no_formula() {
    let report = large(40);
    let mut out = Vec::new();
    csv::write(&report, &mut out).unwrap();
    let rows = parse(&String::from_utf8(out).unwrap());
    assert_eq!(rows.len(), 41);
    assert_eq!(rows[0], csv::columns());
    let at = |name: &str| rows[0].iter().position(|c| c == name).unwrap();
    for (row, class) in rows[1..].iter().zip(&report.classes) {
        assert_eq!(row.len(), rows[0].len());
        assert_eq!(row[at("query_time_sum")], "98765.4321");
        assert_eq!(row[at("first")], "2026-01-01 00:00:00");
        let plain = class.key.replace('\0', "\u{fffd}");
        let key = row[at("key")].strip_prefix('\'').unwrap_or(&row[at("key")]);
        assert_eq!(key, plain);
        assert!(row.iter().all(|c| !c.starts_with(['=', '+', '@', '\t', '\r'])));
    }
    assert!(rows.iter().any(|r| r[at("key")].starts_with("'=cmd")));
}

#[test]
fn a_comparison_is_json_that_reads_back() {
    let report = report_of(log(1, 1.0, true).as_bytes());
    let found = diff::compare(&report, &report).unwrap();
    let text = serde_json::to_string(&found).unwrap();
    let again: diff::Diff = serde_json::from_str(&text).unwrap();
    assert_eq!(again.changes.len(), found.changes.len());
}
