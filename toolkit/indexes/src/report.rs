//! The findings as one document, which `--json` writes and the text shows. docs/indexes.md documents its
//! fields.

use std::io::{self, Write};

use serde::Serialize;

use crate::dump::Hiding;
use crate::duplicates::{self, Finding, Repeats};
use crate::model::{quoted, Key, KeyKind, Table};

/// Version of the document; it grows when a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub version: u32,
    /// What was read: files, servers.
    pub sources: Vec<String>,
    pub tables: usize,
    pub indexes: usize,
    pub findings: Vec<Item>,
    /// What a reader has to know about the evidence.
    pub notes: Vec<String>,
    /// Inputs that could not be read; then the findings are incomplete.
    pub problems: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Duplicate,
    Prefix,
    Backwards,
    PrimarySuffix,
    Shorten,
    ForeignKey,
    Unused,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Duplicate => "duplicate",
            Kind::Prefix => "prefix",
            Kind::Backwards => "backwards",
            Kind::PrimarySuffix => "primary-suffix",
            Kind::Shorten => "shorten",
            Kind::ForeignKey => "foreign-key",
            Kind::Unused => "unused",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Item {
    pub kind: Kind,
    pub db: String,
    pub table: String,
    /// The key, or the foreign key's name.
    pub key: String,
    /// As declared: `UNIQUE KEY x (a, b(10) DESC)`.
    pub definition: String,
    /// The key that stays, if this one repeats another.
    pub of: Option<String>,
    pub of_definition: Option<String>,
    pub reason: String,
    pub ignored: bool,
    pub bytes: Option<u64>,
    pub cardinality: Option<u64>,
    pub rows: Option<u64>,
    /// The statement to run now, the one that undoes it, and the one to run later if nobody missed the index.
    pub now: Option<String>,
    pub undo: Option<String>,
    pub later: Option<String>,
}

/// `UNIQUE KEY x (a, b(10) DESC) IGNORED`
pub fn definition(key: &Key) -> String {
    let kind = match key.kind {
        KeyKind::Primary => "PRIMARY KEY".into(),
        KeyKind::Unique => format!("UNIQUE KEY {}", key.name),
        KeyKind::Plain => format!("KEY {}", key.name),
        KeyKind::Fulltext => format!("FULLTEXT KEY {}", key.name),
        KeyKind::Spatial => format!("SPATIAL KEY {}", key.name),
        KeyKind::Vector => format!("VECTOR KEY {}", key.name),
    };
    let parts = parts(key, key.parts.len(), false);
    let hash = if key.hash { " USING HASH" } else { "" };
    format!("{kind} ({parts}){hash}{}", if key.ignored { " IGNORED" } else { "" })
}

/// The first `n` parts.
fn parts(key: &Key, n: usize, quote: bool) -> String {
    let parts: Vec<String> = key.parts[..n]
        .iter()
        .map(|part| {
            let expression = part.column.starts_with('(');
            let name =
                if quote && !expression { quoted(&part.column) } else { part.column.clone() };
            let prefix = part.prefix.map_or(String::new(), |n| format!("({n})"));
            format!("{name}{prefix}{}", if part.descending { " DESC" } else { "" })
        })
        .collect();
    parts.join(", ")
}

/// `ALTER TABLE name`
fn alter(table: &Table) -> String {
    let db = if table.db.is_empty() { String::new() } else { format!("{}.", quoted(&table.db)) };
    format!("ALTER TABLE {db}{}", quoted(&table.name))
}

/// An item about `key` with the statements that hide it first and drop it later.
pub(crate) fn item(table: &Table, key: &Key, kind: Kind, reason: String, hiding: Hiding) -> Item {
    let name = quoted(&key.name);
    let begin = alter(table);
    let words = match hiding {
        Hiding::Ignored => Some(("IGNORED", "NOT IGNORED")),
        Hiding::Invisible => Some(("INVISIBLE", "VISIBLE")),
        Hiding::None => None,
    };
    let (hide, show) = match words {
        Some((hide, show)) => (
            (!key.ignored).then(|| format!("{begin} ALTER INDEX {name} {hide};")),
            Some(format!("{begin} ALTER INDEX {name} {show};")),
        ),
        None => (None, None),
    };
    Item {
        kind,
        db: table.db.clone(),
        table: table.name.clone(),
        key: key.name.clone(),
        definition: definition(key),
        of: None,
        of_definition: None,
        reason,
        ignored: key.ignored,
        bytes: key.bytes,
        cardinality: key.cardinality,
        rows: table.rows,
        now: hide,
        undo: show,
        later: Some(format!("{begin} DROP INDEX {name};")),
    }
}

/// The duplicates of `table` as items.
pub fn duplicates(table: &Table, all: &[Table], hiding: Hiding) -> Vec<Item> {
    let found = duplicates::find(table, all);
    found.iter().filter_map(|finding| repeated(table, finding, hiding)).collect()
}

fn repeated(table: &Table, finding: &Finding, hiding: Hiding) -> Option<Item> {
    match finding {
        Finding::Key { key, of, how, also } => {
            let (key, of) = (table.key(key)?, table.key(of)?);
            let (kind, mut reason) = match how {
                Repeats::Exact => {
                    (Kind::Duplicate, format!("{} has the same columns", of.name))
                }
                Repeats::Prefix => (Kind::Prefix, format!("{} begins with its columns", of.name)),
                Repeats::Backwards => (
                    Kind::Backwards,
                    format!("{} begins with its columns, all in the other direction, and can be read backwards", of.name),
                ),
                Repeats::PrimarySuffix => (
                    Kind::PrimarySuffix,
                    format!("{} ends with the primary key, which the engine adds, and is the same then", of.name),
                ),
            };
            if let Some(also) = also {
                reason += &format!("; its uniqueness follows from {also}");
            }
            let mut item = item(table, key, kind, reason, hiding);
            item.of = Some(of.name.clone());
            item.of_definition = Some(definition(of));
            Some(item)
        }
        Finding::Suffix { key, parts: n } => {
            let key = table.key(key)?;
            let reason = format!(
                "its last {} of the primary key, which the engine adds to every index: ({}) is the same index",
                if key.parts.len() - n == 1 { "column is one" } else { "columns are those" },
                parts(key, *n, false)
            );
            let mut item = item(table, key, Kind::Shorten, reason, hiding);
            // This is another definition of the same index: nothing is hidden, and nothing becomes smaller.
            item.now = Some(format!(
                "{} DROP INDEX {}, ADD INDEX {} ({});",
                alter(table),
                quoted(&key.name),
                quoted(&key.name),
                parts(key, *n, true)
            ));
            (item.undo, item.later, item.bytes) = (None, None, None);
            Some(item)
        }
        Finding::Foreign { at, of, actions_differ } => {
            let (key, of) = (&table.foreign[*at], &table.foreign[*of]);
            let name = |key: &crate::model::ForeignKey| {
                key.name.clone().unwrap_or_else(|| format!("({})", key.columns.join(", ")))
            };
            let define = |key: &crate::model::ForeignKey| {
                let text = format!(
                    "FOREIGN KEY {} ({}) REFERENCES {}.{} ({}) {}",
                    name(key),
                    key.columns.join(", "),
                    key.parent_db,
                    key.parent,
                    key.parent_columns.join(", "),
                    key.actions
                );
                text.replace(" .", " ").trim_end().to_owned()
            };
            let more = if *actions_differ {
                "; they differ in what they do ON DELETE or ON UPDATE: decide which of them is meant"
            } else {
                ""
            };
            Some(Item {
                kind: Kind::ForeignKey,
                db: table.db.clone(),
                table: table.name.clone(),
                key: name(key),
                definition: define(key),
                of: Some(name(of)),
                of_definition: Some(define(of)),
                reason: format!("{} refers with the same columns to the same ones{more}", name(of)),
                ignored: false,
                bytes: None,
                cardinality: None,
                rows: table.rows,
                now: None,
                undo: None,
                later: key
                    .name
                    .as_ref()
                    .map(|name| format!("{} DROP FOREIGN KEY {};", alter(table), quoted(name))),
            })
        }
    }
}

impl Report {
    /// All of it as one JSON object.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes the document for people. `colour`: with a terminal's escape sequences; `bytes` formats sizes.
    pub fn write_text(
        &self,
        colour: bool,
        bytes: &dyn Fn(u64) -> String,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (bold, dim, plain) =
            if colour { ("\x1b[1m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
        let mut table = String::new();
        for item in &self.findings {
            let dot = if item.db.is_empty() { "" } else { "." };
            let name = format!("{}{dot}{}", printable(&item.db), printable(&item.table));
            if name != table {
                let rows = item.rows.map_or(String::new(), |n| format!("  about {n} rows"));
                writeln!(out, "{bold}{name}{plain}{dim}{rows}{plain}")?;
                table = name;
            }
            let mut facts = vec![item.kind.name().to_owned()];
            facts.extend(item.bytes.map(bytes));
            facts.extend(item.cardinality.map(|n| format!("cardinality {n}")));
            writeln!(
                out,
                "  {bold}{}{plain}  [{}]",
                printable(&item.definition),
                facts.join(", ")
            )?;
            writeln!(out, "    {}", printable(&item.reason))?;
            if let Some(of) = &item.of_definition {
                writeln!(out, "    stays: {}", printable(of))?;
            }
            let steps = [("now", &item.now), ("undo", &item.undo), ("later", &item.later)];
            for (when, sql) in steps {
                if let Some(sql) = sql {
                    writeln!(out, "    {dim}{when:<6}{plain}{}", printable(sql))?;
                }
            }
        }
        if !self.findings.is_empty() {
            writeln!(out)?;
        }
        let count = self.findings.len();
        let size: u64 = self.findings.iter().filter_map(|item| item.bytes).sum();
        let size = if size > 0 { format!(", {} in them", bytes(size)) } else { String::new() };
        let tables = plural(self.tables, "table");
        let indexes = plural(self.indexes, "index");
        let found = if count == 1 { "1 finding".into() } else { format!("{count} findings") };
        writeln!(out, "{found} in {tables} with {indexes}{size}.")?;
        for note in &self.notes {
            writeln!(out, "{}", printable(note))?;
        }
        Ok(())
    }
}

fn plural(n: usize, word: &str) -> String {
    match (n, word) {
        (1, _) => format!("1 {word}"),
        (_, "index") => format!("{n} indexes"),
        _ => format!("{n} {word}s"),
    }
}

/// Removes control characters: names come from users and must not control the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
