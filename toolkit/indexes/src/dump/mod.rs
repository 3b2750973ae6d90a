//! Tables from a dump.
//!
//! Reads the output of `mysqldump` and `mariadb-dump`, and statements written by hand: `CREATE TABLE`, `ALTER TABLE`
//! that adds, drops or renames keys, `CREATE INDEX`, `DROP INDEX`, `DROP TABLE`, `USE`. Rows, routines, triggers and
//! views are skipped. Parts that do not matter for indexes are not checked.
//!
//! Tested in `tests/it/dump.rs`.

mod parse;
mod split;
mod tokens;

use crate::model::Table;
use split::{End, Splitter};

pub use parse::create_table;

/// How a dump's server says that a key is kept but not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hiding {
    /// `ALTER INDEX .. IGNORED`: MariaDB since 10.6.
    #[default]
    Ignored,
    /// `ALTER INDEX .. INVISIBLE`: MySQL since 8.0.
    Invisible,
    /// Servers older than both.
    None,
}

impl Hiding {
    /// From a server's version string: `10.11.6-MariaDB-1`, `8.0.36`.
    pub fn of_version(version: &str) -> Hiding {
        let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
        let (major, minor) = (next(), next());
        match version.contains("MariaDB") {
            true if (major, minor) >= (10, 6) => Hiding::Ignored,
            false if major >= 8 => Hiding::Invisible,
            _ => Hiding::None,
        }
    }
}

/// The contents of a dump.
#[derive(Debug, Default)]
pub struct Dump {
    pub tables: Vec<Table>,
    /// From the dump's head, if it has one.
    pub hiding: Hiding,
    /// What could not be read, in words.
    pub problems: Vec<String>,
}

/// Takes a dump in pieces of any size.
#[derive(Default)]
pub struct Reader {
    splitter: Splitter,
    schema: parse::Schema,
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
    problems: Vec<String>,
}

/// Bytes that are examined at the begin and at the end.
const EDGE: usize = 4096;

impl Reader {
    pub fn feed(&mut self, bytes: &[u8]) {
        let missing = EDGE.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(EDGE)..]);
        self.tail.drain(..self.tail.len().saturating_sub(EDGE));
        self.bytes += bytes.len() as u64;
        let (schema, problems) = (&mut self.schema, &mut self.problems);
        self.splitter.feed(bytes, &mut |sql, line| {
            if let Err(what) = schema.statement(sql) {
                problems.push(format!("line {line}: {what}"));
            }
        });
    }

    /// `Err`: why these bytes are not a dump.
    pub fn finish(mut self) -> Result<Dump, String> {
        if self.bytes == 0 {
            return Err("the file is empty".into());
        }
        if self.head.contains(&0) {
            return Err("this is no SQL text: it holds zero bytes".into());
        }
        let (schema, problems) = (&mut self.schema, &mut self.problems);
        let end = self.splitter.finish(&mut |sql, line| {
            if let Err(what) = schema.statement(sql) {
                problems.push(format!("line {line}: {what}"));
            }
        });
        let mut dump = Dump {
            tables: self.schema.tables(),
            hiding: hiding(&self.head),
            problems: self.problems,
        };
        let ours = |text: &[u8], what: &[u8]| memchr::memmem::find(text, what).is_some();
        let dumped = ours(&self.head, b"-- MySQL dump") || ours(&self.head, b"-- MariaDB dump");
        match end {
            End::Cut { line, first } => dump.problems.push(format!(
                "the file ends inside the statement that begins in line {line} ({first}): it was cut"
            )),
            End::Whole if dumped && !ours(&self.tail, b"-- Dump completed") => dump.problems.push(
                "the dump's last line (-- Dump completed) is missing: it was cut".into(),
            ),
            End::Whole => {}
        }
        if dump.tables.is_empty() && dump.problems.is_empty() {
            return Err("no CREATE TABLE is in it: is this a dump with its schema?".into());
        }
        Ok(dump)
    }
}

/// From the line `-- Server version` in a dump's head.
fn hiding(head: &[u8]) -> Hiding {
    let text = String::from_utf8_lossy(head);
    let version = text.lines().find_map(|line| line.strip_prefix("-- Server version"));
    version.map_or(Hiding::default(), |version| Hiding::of_version(version.trim()))
}
