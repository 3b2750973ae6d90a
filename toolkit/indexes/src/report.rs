//! The findings, which `--json` writes unchanged and `document` shows. docs/indexes.md documents their fields.

use std::io::{self, Write};

use serde::Serialize;

use crate::dump::Hiding;
use crate::duplicates::{self, Finding, Repeats};
use crate::duty::Parents;
use crate::model::{full_name, quoted, ForeignKey, Key, KeyKind, Part, Table};

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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    #[default]
    Duplicate,
    Prefix,
    Backwards,
    PrimarySuffix,
    Shorten,
    ForeignKey,
    Unused,
}

#[derive(Clone, Debug, Default, Serialize)]
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

impl Item {
    fn new(table: &Table, kind: Kind, key: String, definition: String, reason: String) -> Item {
        let (db, name) = (table.db.clone(), table.name.clone());
        let rows = table.rows;
        Item { kind, db, table: name, key, definition, reason, rows, ..Item::default() }
    }

    pub(crate) fn table_name(&self) -> String {
        full_name(&self.db, &self.table)
    }

    /// The statements with the times at which to run them.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let steps = [("now", &self.now), ("undo", &self.undo), ("later", &self.later)];
        steps.into_iter().filter_map(|(when, sql)| Some((when, sql.as_ref()?)))
    }
}

/// `UNIQUE KEY x (a, b(10) DESC) IGNORED`
pub fn definition(key: &Key) -> String {
    let name = if key.kind == KeyKind::Primary { "" } else { &key.name };
    let head = [key.kind.word(), "KEY", name].join(" ");
    let parts = parts(key, key.parts.len(), false);
    let hash = if key.hash { " USING HASH" } else { "" };
    let ignored = if key.ignored { " IGNORED" } else { "" };
    format!("{} ({parts}){hash}{ignored}", head.trim())
}

/// The first `n` parts.
fn parts(key: &Key, n: usize, quote: bool) -> String {
    let part = |part: &Part| {
        let expression = part.column.starts_with('(');
        let name = if quote && !expression { quoted(&part.column) } else { part.column.clone() };
        let prefix = part.prefix.map_or(String::new(), |n| format!("({n})"));
        format!("{name}{prefix}{}", if part.descending { " DESC" } else { "" })
    };
    key.parts[..n].iter().map(part).collect::<Vec<_>>().join(", ")
}

/// `ALTER TABLE name`
fn alter(table: &Table) -> String {
    let db = if table.db.is_empty() { String::new() } else { format!("{}.", quoted(&table.db)) };
    format!("ALTER TABLE {db}{}", quoted(&table.name))
}

/// An item about `key` with the statements that hide it first and drop it later.
pub(crate) fn item(table: &Table, key: &Key, kind: Kind, reason: String, hiding: Hiding) -> Item {
    let (begin, name) = (alter(table), quoted(&key.name));
    let words = match hiding {
        Hiding::Ignored => Some(("IGNORED", "NOT IGNORED")),
        Hiding::Invisible => Some(("INVISIBLE", "VISIBLE")),
        Hiding::None => None,
    };
    let set = |word: &str| format!("{begin} ALTER INDEX {name} {word};");
    Item {
        ignored: key.ignored,
        bytes: key.bytes,
        cardinality: key.cardinality,
        now: words.filter(|_| !key.ignored).map(|(hide, _)| set(hide)),
        undo: words.map(|(_, show)| set(show)),
        later: Some(format!("{begin} DROP INDEX {name};")),
        ..Item::new(table, kind, key.name.clone(), definition(key), reason)
    }
}

/// The duplicates of `table` as items.
pub fn duplicates(table: &Table, parents: &Parents<'_>, hiding: Hiding) -> Vec<Item> {
    let found = duplicates::find(table, parents);
    found.iter().filter_map(|finding| repeated(table, finding, hiding)).collect()
}

fn repeated(table: &Table, finding: &Finding, hiding: Hiding) -> Option<Item> {
    Some(match finding {
        Finding::Key { key, of, how, also } => {
            let (key, of) = (table.key(key)?, table.key(of)?);
            let (kind, why) = match how {
                Repeats::Exact => (Kind::Duplicate, "has the same columns"),
                Repeats::Prefix => (Kind::Prefix, "begins with its columns"),
                Repeats::Backwards => (
                    Kind::Backwards,
                    "begins with its columns, all in the other direction, and can be read backwards",
                ),
                Repeats::PrimarySuffix => (
                    Kind::PrimarySuffix,
                    "ends with the primary key, which the engine adds, and is the same then",
                ),
            };
            let mut reason = format!("{} {why}", of.name);
            if let Some(also) = also {
                reason += &format!("; its uniqueness follows from {also}");
            }
            Item {
                of: Some(of.name.clone()),
                of_definition: Some(definition(of)),
                ..item(table, key, kind, reason, hiding)
            }
        }
        Finding::Suffix { key, parts: n } => {
            let key = table.key(key)?;
            let reason = format!(
                "its last {} of the primary key, which the engine adds to every index: ({}) is the same index",
                if key.parts.len() - n == 1 { "column is one" } else { "columns are those" },
                parts(key, *n, false)
            );
            let (begin, name) = (alter(table), quoted(&key.name));
            let parts = parts(key, *n, true);
            let comment = match key.comment.as_str() {
                "" => String::new(),
                text => format!(" COMMENT {text}"),
            };
            // This is another definition of the same index: nothing is hidden, and nothing becomes smaller.
            Item {
                now: Some(format!(
                    "{begin} DROP INDEX {name}, ADD INDEX {name} ({parts}){comment};"
                )),
                undo: None,
                later: None,
                bytes: None,
                ..item(table, key, Kind::Shorten, reason, hiding)
            }
        }
        Finding::Foreign { at, of, actions_differ } => {
            let (key, of) = (&table.foreign[*at], &table.foreign[*of]);
            let more = if *actions_differ {
                "; they differ in what they do ON DELETE or ON UPDATE: decide which of them is meant"
            } else {
                ""
            };
            let reason =
                format!("{} refers with the same columns to the same ones{more}", foreign_name(of));
            let drop = |name| format!("{} DROP FOREIGN KEY {};", alter(table), quoted(name));
            Item {
                of: Some(foreign_name(of)),
                of_definition: Some(foreign_definition(of)),
                later: key.name.as_deref().map(drop),
                ..Item::new(
                    table,
                    Kind::ForeignKey,
                    foreign_name(key),
                    foreign_definition(key),
                    reason,
                )
            }
        }
    })
}

/// Its columns if it has no name.
fn foreign_name(key: &ForeignKey) -> String {
    key.name.clone().unwrap_or_else(|| format!("({})", key.columns.join(", ")))
}

fn foreign_definition(key: &ForeignKey) -> String {
    let text = format!(
        "FOREIGN KEY {} ({}) REFERENCES {} ({}) {}",
        foreign_name(key),
        key.columns.join(", "),
        full_name(&key.parent_db, &key.parent),
        key.parent_columns.join(", "),
        key.actions
    );
    text.trim_end().to_owned()
}

impl Report {
    /// All of it as one JSON object.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}
