//! `performance_schema.events_statements_summary_by_digest`: the server's own totals for each class.
//!
//! Number of statements, total time, lock time, rows and errors are exact. There is no distribution: no quantiles,
//! no deviation, no histogram, nothing over time, no users or hosts; texts have `?` for literals and are cut at
//! `performance_schema_max_digest_length`. The report leaves those places empty instead of guessing.
//!
//! One snapshot has the counts since the server started (or since the table was emptied). The difference
//! of two snapshots covers a period. Bounds of the times cannot be subtracted: in a difference the minimum is
//! unknown, and the maximum is known only if it rose. (A class that is new in the second snapshot is known as well as
//! in a single one.)
//!
//! Not every statement has a digest. The parser makes it, so there is none for executions of prepared statements over
//! the binary protocol (most of the load of many applications), for other commands and for texts that are not SQL.
//! (Text `EXECUTE name` has one, but not that of the named statement.) They are counted by the kind of command in
//! `events_statements_summary_global_by_event_name`; each kind is a class here, so that shares of the
//! total are true. Its rows for statements inside routines and triggers are left out: their time is part
//! of the calling statement's.
//!
//! Classes are the server's: the key is `DIGEST_TEXT`, which dialect `mariadb-digest` gives to statements of a log, so
//! that the two can be compared with `--diff`. Rows of several databases with one text are one class.

use std::collections::HashMap;

use super::{bytes, moment, number, Row};
use crate::stats::class::{Total, Totals};
use crate::stats::Table;
use frond_event::numbers::plural;
use frond_event::Metric;
use frond_event::{Event, Flag, Kind, Micros, Place};

/// Columns in the order of a row.
const COLUMNS: [&str; 23] = [
    "SCHEMA_NAME",
    "DIGEST",
    "DIGEST_TEXT",
    "COUNT_STAR",
    "SUM_TIMER_WAIT",
    "MIN_TIMER_WAIT",
    "MAX_TIMER_WAIT",
    "SUM_LOCK_TIME",
    "SUM_ERRORS",
    "SUM_WARNINGS",
    "SUM_ROWS_AFFECTED",
    "SUM_ROWS_SENT",
    "SUM_ROWS_EXAMINED",
    "SUM_CREATED_TMP_TABLES",
    "SUM_CREATED_TMP_DISK_TABLES",
    "SUM_SORT_MERGE_PASSES",
    "SUM_SORT_ROWS",
    "SUM_NO_INDEX_USED",
    "SUM_NO_GOOD_INDEX_USED",
    "FIRST_SEEN",
    "LAST_SEEN",
    "QUERY_SAMPLE_TEXT",
    EVENT_NAME,
];
const EVENT_NAME: &str = "EVENT_NAME";
const COUNTED: std::ops::RangeInclusive<usize> = 3..=18;
const NUMBERS: usize = 16;

/// For each attribute with a sum: its column in a row. Lock time is in picoseconds like the other times.
const SUMS: [(usize, Metric); 8] = [
    (9, Metric::WarningCount),
    (10, Metric::RowsAffected),
    (11, Metric::RowsSent),
    (12, Metric::RowsExamined),
    (13, Metric::TmpTables),
    (14, Metric::TmpDiskTables),
    (15, Metric::MergePasses),
    (16, Metric::SortRows),
];

/// The tables of digests and of kinds of events.
pub const TABLE: &str = "events_statements_summary_by_digest";
pub const EVENTS_TABLE: &str = "events_statements_summary_global_by_event_name";

/// The query for digests.
pub fn question(has: &dyn Fn(&str) -> bool) -> String {
    ask(TABLE, &|name| name != EVENT_NAME && has(name))
}

/// The query for kinds of commands; its rows have the columns of the other query.
pub fn events_question(has: &dyn Fn(&str) -> bool) -> String {
    let counted = &COLUMNS[COUNTED];
    ask(EVENTS_TABLE, &|name| (name == EVENT_NAME || counted.contains(&name)) && has(name))
}

fn ask(table: &str, has: &dyn Fn(&str) -> bool) -> String {
    let columns = super::columns(&COLUMNS, has);
    format!("SELECT {columns} FROM performance_schema.{table} WHERE `COUNT_STAR` > 0")
}

/// Commands that last as long as a replica's connection or a thread of the server.
const LASTING: [&str; 10] = [
    "Binlog Dump",
    "Binlog Dump GTID",
    "Table Dump",
    "Connect Out",
    "Daemon",
    "Delayed insert",
    "Slave_IO",
    "Slave_SQL",
    "Slave_worker",
    "Sleep",
];

/// What an event's name means for digests.
enum Named {
    /// Its statements have digests.
    Parsed,
    /// Its statements have no digest; this is their class.
    Class(String),
    /// Its time is part of another statement's, or of none.
    Ignored,
}

fn named(event: &str) -> Named {
    let Some(name) = event.strip_prefix("statement/") else { return Named::Ignored };
    match name.split_once('/') {
        Some(("sql", "error")) => Named::Class(SYNTAX_ERRORS.into()),
        Some(("sql", _)) => Named::Parsed,
        Some(("sp", _)) => Named::Ignored,
        Some(("com", command)) if LASTING.contains(&command) => Named::Ignored,
        Some(("com", command)) => Named::Class(format!("administrator command: {command}")),
        _ => Named::Class(event.into()),
    }
}

const SYNTAX_ERRORS: &str = "(syntax errors)";
const EXECUTES: [&str; 2] =
    ["administrator command: Execute", "administrator command: Bulk_execute"];

/// One row: counters in the order of `COUNTED`.
#[derive(Clone, Debug)]
struct Counted {
    numbers: [u64; NUMBERS],
    text: Box<[u8]>,
    sample: Box<[u8]>,
    first: Option<Micros>,
    last: Option<Micros>,
}

impl Counted {
    /// The number in a column.
    fn of(&self, column: usize) -> u64 {
        self.numbers[column - COUNTED.start()]
    }
}

/// Database and digest; both are missing in the row of statements that did not fit.
type Name = (Box<[u8]>, Box<[u8]>);

/// The tables at a moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    rows: HashMap<Name, Counted>,
    events: HashMap<String, Counted>,
}

impl Snapshot {
    /// Adds a row of either query.
    pub fn add(&mut self, row: &Row<'_>) {
        let mut numbers = [0; NUMBERS];
        for (slot, column) in numbers.iter_mut().zip(COUNTED) {
            *slot = number(row, column).unwrap_or(0);
        }
        let counted = Counted {
            numbers,
            text: bytes(row, 2).trim_ascii_end().into(),
            sample: bytes(row, 21).into(),
            first: moment(row, 19),
            last: moment(row, 20),
        };
        match bytes(row, 22) {
            b"" => {
                self.rows.insert((bytes(row, 0).into(), bytes(row, 1).into()), counted);
            }
            event => {
                self.events.insert(String::from_utf8_lossy(event).into_owned(), counted);
            }
        }
    }

    /// Number of digests.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of statements that have digests.
    pub fn statements(&self) -> u64 {
        self.rows.values().map(|c| c.of(3)).sum()
    }
}

/// The result of one snapshot or of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Statements, those without a class included.
    pub statements: u64,
    /// Nanoseconds of all of them.
    pub time: u64,
    /// Statements of digests that did not fit into the server's table.
    pub without_class: u64,
    /// The server's table was emptied between the snapshots: earlier statements are missing.
    pub reset: bool,
    /// Executions over the binary protocol, and their nanoseconds.
    pub executes: u64,
    pub executes_time: u64,
    /// For one snapshot with both tables: number of statements in the digests, and number of statements whose event
    /// names say that they have digests. They are equal if both tables were emptied at the same time, or never.
    pub both: Option<(u64, u64)>,
}

/// The difference from `old` to `now`; `None` if there is none.
fn difference(old: Option<&Counted>, now: &Counted, reset: &mut bool) -> Option<Totals> {
    let emptied = old.is_some_and(|old| old.of(3) > now.of(3));
    *reset |= emptied;
    let old = old.filter(|_| !emptied);
    let since = |column| now.of(column) - old.map_or(0, |old| old.of(column).min(now.of(column)));
    let count = since(3);
    if count == 0 {
        return None;
    }
    // Picoseconds.
    let nanos = |ps: u64| ps / 1000;
    let max = match old {
        None => Some(nanos(now.of(6))),
        Some(old) => (now.of(6) > old.of(6)).then(|| nanos(now.of(6))),
    };
    let mut sums = vec![Total { metric: Metric::LockTime, sum: nanos(since(7)) }];
    sums.extend(SUMS.map(|(column, metric)| Total { metric, sum: since(column) }));
    Some(Totals {
        count,
        errors: since(8).min(count),
        time: nanos(since(4)),
        min: old.is_none().then(|| nanos(now.of(5))),
        max,
        sums,
        flags: vec![(Flag::NoIndexUsed, since(17)), (Flag::NoGoodIndexUsed, since(18))],
    })
}

/// Adds the difference from `before` to `after` to `table`. Without `before`: all of it. `between`:
/// when the two were taken, by the server's clock. `by_db`: databases are the classes.
pub fn count(
    before: Option<&Snapshot>,
    after: &Snapshot,
    between: Option<(Micros, Micros)>,
    by_db: bool,
    table: &mut Table,
) -> Period {
    let mut period = Period::default();
    let mut rows: Vec<_> = after.rows.iter().collect();
    // A hash table has no fixed order; names get their numbers in this order.
    rows.sort_by(|a, b| a.0.cmp(b.0));
    // For a difference the times within the period are unknown.
    let begin = between.map(|(begin, _)| begin);
    let end = between.map(|(_, end)| end);
    for (at, (key, now)) in rows.into_iter().enumerate() {
        let old = before.and_then(|b| b.rows.get(key));
        let Some(totals) = difference(old, now, &mut period.reset) else { continue };
        period.statements += totals.count;
        period.time += totals.time;
        let sample = if now.sample.is_empty() { &now.text } else { &now.sample };
        let event = Event {
            sql: sample,
            db: &key.0,
            start: begin.or(now.first),
            end: end.or(now.last),
            place: Place { file: 0, offset: at as u64 },
            ..Event::default()
        };
        if key.1.is_empty() {
            period.without_class += totals.count;
            table.add_unknown(&event, &totals);
        } else {
            let unknown: &[u8] = if key.0.is_empty() { UNKNOWN_DB } else { &key.0 };
            table.add_totals(if by_db { unknown } else { &now.text }, &event, &totals);
        }
    }
    let digested = period.statements;
    let mut parsed = 0;
    let mut events: Vec<_> = after.events.iter().collect();
    events.sort_by(|a, b| a.0.cmp(b.0));
    for (at, (name, now)) in events.into_iter().enumerate() {
        let class = match named(name) {
            Named::Class(class) => class,
            Named::Parsed => {
                parsed += now.of(3);
                continue;
            }
            Named::Ignored => continue,
        };
        let old = before.and_then(|b| b.events.get(name));
        let Some(totals) = difference(old, now, &mut period.reset) else { continue };
        period.statements += totals.count;
        period.time += totals.time;
        if EXECUTES.contains(&class.as_str()) {
            period.executes += totals.count;
            period.executes_time += totals.time;
        }
        let event = Event {
            kind: Kind::Admin,
            sql: class.as_bytes(),
            start: begin,
            end,
            place: Place { file: 0, offset: (after.rows.len() + at) as u64 },
            ..Event::default()
        };
        table.add_totals(if by_db { UNKNOWN_DB } else { class.as_bytes() }, &event, &totals);
    }
    period.both = (before.is_none() && !after.events.is_empty()).then_some((digested, parsed));
    period
}

const UNKNOWN_DB: &[u8] = b"(unknown)";

/// The note for the report. `seconds`: between two snapshots.
pub fn note(period: Period, seconds: Option<f64>) -> Vec<String> {
    let mut notes = vec![match seconds {
        None => "Totals of performance_schema since the server started or the table was emptied: counts, sums, means and bounds are exact; quantiles, deviations and distributions do not exist there and are left out.".to_owned(),
        Some(seconds) => format!("Totals of performance_schema, the difference of two snapshots {seconds:.1} s apart: counts, sums and means are exact; quantiles, deviations and distributions do not exist there, nor does a least time, and a longest only where it rose."),
    }];
    if period.without_class > 0 {
        notes.push(format!(
            "Of {} statements {} found no room in the server's table and so no class: raise performance_schema_digests_size.",
            period.statements, period.without_class
        ));
    }
    if period.executes > 0 {
        notes.push(format!(
            "{} of prepared statements over the binary protocol, {:.3} s ({:.0} % of the time), have no digest on this server: they are one class, {}. Their texts are in a slow log or a capture; performance_schema.prepared_statements_instances has those that are still prepared, while the consumer events_statements_current is on.",
            plural(period.executes, "execution"),
            period.executes_time as f64 / 1e9,
            period.executes_time as f64 * 100.0 / period.time.max(1) as f64,
            EXECUTES[0],
        ));
    }
    // The two tables are not read at the same moment, and a statement is counted in one of them
    // before the other.
    if let Some((digested, parsed)) =
        period.both.filter(|(d, p)| d.abs_diff(*p) > 100 + d.max(p) / 50)
    {
        notes.push(format!(
            "The tables of performance_schema do not count from the same moment: there are {digested} statements by digest, {parsed} by event name. Totals and shares of classes without a text are off: measure a period (--run-time), or empty both ({TABLE}, {EVENTS_TABLE}) first."
        ));
    }
    if period.reset {
        notes.push("The table was emptied between the snapshots: for the classes concerned only what was counted since then is there.".into());
    }
    notes
}

#[cfg(test)]
mod tests;
