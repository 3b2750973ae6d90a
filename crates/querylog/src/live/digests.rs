//! `performance_schema.events_statements_summary_by_digest`: what the server itself summed up for each class.
//!
//! Exact are the number of statements, total time, lock time, rows and errors. There is no distribution: no quantiles,
//! no deviation, no histogram, nothing over time, no users or hosts; texts have `?` for literals and are cut at
//! `performance_schema_max_digest_length`. The report leaves those places empty instead of guessing.
//!
//! One snapshot is what was counted since the server started (or the table was emptied). Two are a period: their
//! difference. Bounds of the times are not additive: in a difference the minimum is not known, and the maximum only if
//! it rose. (A class that is new in the second snapshot is known as in one.)
//!
//! Classes are the server's: the key is `DIGEST_TEXT`, which dialect `mariadb-digest` gives to statements of a log, so
//! that the two can be compared with `--diff`. Rows of several databases with one text are one class.

use std::collections::HashMap;

use super::{bytes, moment, number, Row};
use crate::event::{Event, Flag, Micros, Place};
use crate::metric::Metric;
use crate::stats::class::{Total, Totals};
use crate::stats::Table;

/// Columns in the order of a row.
const COLUMNS: [&str; 22] = [
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
];
const COUNTED: std::ops::RangeInclusive<usize> = 3..=18;
const NUMBERS: usize = 16;

/// Which number of a row is an attribute's sum. Lock time is in picoseconds like the other times.
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

/// The question.
pub fn question(has: &dyn Fn(&str) -> bool) -> String {
    format!(
        "SELECT {} FROM performance_schema.events_statements_summary_by_digest \
         WHERE `COUNT_STAR` > 0",
        super::columns(&COLUMNS, has)
    )
}

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
    /// A number by its column.
    fn of(&self, column: usize) -> u64 {
        self.numbers[column - COUNTED.start()]
    }
}

/// Database and digest; both are missing in the row of what found no room.
type Name = (Box<[u8]>, Box<[u8]>);

/// The table at a moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    rows: HashMap<Name, Counted>,
}

impl Snapshot {
    /// Adds a row of the question.
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
        self.rows.insert((bytes(row, 0).into(), bytes(row, 1).into()), counted);
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Statements counted.
    pub fn statements(&self) -> u64 {
        self.rows.values().map(|c| c.of(3)).sum()
    }
}

/// What came of a snapshot or of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Statements, those without a class included.
    pub statements: u64,
    /// Statements of digests that found no room in the server's table.
    pub without_class: u64,
    /// The server's table was emptied between the snapshots: what came before that is missing.
    pub reset: bool,
}

/// Adds what `after` has beyond `before` to `table`. Without `before`: all of it. `between`: when the two were taken, by
/// the server's clock. `by_db`: classes are databases.
pub fn count(
    before: Option<&Snapshot>,
    after: &Snapshot,
    between: Option<(Micros, Micros)>,
    by_db: bool,
    table: &mut Table,
) -> Period {
    let mut period = Period::default();
    let mut rows: Vec<_> = after.rows.iter().collect();
    // The order of a hash table is none; names get their numbers in this order.
    rows.sort_by(|a, b| a.0.cmp(b.0));
    for (at, (key, now)) in rows.into_iter().enumerate() {
        let mut old = before.and_then(|b| b.rows.get(key));
        if old.is_some_and(|old| old.of(3) > now.of(3)) {
            period.reset = true;
            old = None;
        }
        let since =
            |column| now.of(column) - old.map_or(0, |old| old.of(column).min(now.of(column)));
        let count = since(3);
        if count == 0 {
            continue;
        }
        period.statements += count;
        // Picoseconds.
        let nanos = |ps: u64| ps / 1000;
        let max = match old {
            None => Some(nanos(now.of(6))),
            Some(old) => (now.of(6) > old.of(6)).then(|| nanos(now.of(6))),
        };
        let mut sums = vec![Total { metric: Metric::LockTime, sum: nanos(since(7)) }];
        sums.extend(SUMS.map(|(column, metric)| Total { metric, sum: since(column) }));
        let totals = Totals {
            count,
            errors: since(8).min(count),
            time: nanos(since(4)),
            min: old.is_none().then(|| nanos(now.of(5))),
            max,
            sums,
            flags: vec![(Flag::NoIndexUsed, since(17)), (Flag::NoGoodIndexUsed, since(18))],
        };
        let sample = if now.sample.is_empty() { &now.text } else { &now.sample };
        let event = Event {
            sql: sample,
            db: &key.0,
            // Of a difference it is not known when in the period.
            start: between.map_or(now.first, |(begin, _)| Some(begin)),
            end: between.map_or(now.last, |(_, end)| Some(end)),
            place: Place { file: 0, offset: at as u64 },
            ..Event::default()
        };
        if key.1.is_empty() {
            period.without_class += count;
            table.add_unknown(&event, &totals);
        } else {
            let unknown: &[u8] = if key.0.is_empty() { b"(unknown)" } else { &key.0 };
            table.add_totals(if by_db { unknown } else { &now.text }, &event, &totals);
        }
    }
    period
}

/// What the report must say. `seconds`: between two snapshots.
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
    if period.reset {
        notes.push("The table was emptied between the snapshots: for the classes concerned only what was counted since then is there.".into());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::distribution::Known;

    /// Values that a test sets, by column; the rest is 0.
    fn add(snapshot: &mut Snapshot, db: &str, digest: Option<&str>, values: &[(usize, u64)]) {
        let mut texts = vec![String::from("0"); 19];
        for (column, value) in values {
            texts[*column] = value.to_string();
        }
        let text = digest.map(|d| format!("SELECT `{d}` "));
        let mut row: Vec<Option<&[u8]>> = texts.iter().map(|t| Some(t.as_bytes())).collect();
        row[0] = Some(db.as_bytes());
        row[1] = digest.map(str::as_bytes);
        row[2] = text.as_deref().map(str::as_bytes);
        row.push(Some(b"2026-01-31 18:00:00"));
        row.push(Some(b"2026-01-31 18:10:00.5"));
        row.push(None);
        snapshot.add(&row);
    }

    fn values(count: u64, ms: u64, min: u64, max: u64) -> Vec<(usize, u64)> {
        const MS: u64 = 1_000_000_000;
        vec![
            (3, count),
            (4, ms * MS),
            (5, min * MS),
            (6, max * MS),
            (7, MS),
            (11, count * 2),
            (17, 1),
        ]
    }

    #[test]
    fn one_snapshot_is_everything_since_the_start() {
        let mut all = Snapshot::default();
        add(&mut all, "a", Some("d1"), &values(10, 100, 1, 40));
        add(&mut all, "b", Some("d1"), &values(2, 60, 20, 40));
        add(&mut all, "", None, &values(5, 9, 1, 3));
        let mut table = Table::new(100, 1000);
        let period = count(None, &all, None, false, &mut table);
        assert_eq!(period, Period { statements: 17, without_class: 5, reset: false });
        assert_eq!(table.classes.len(), 1);
        let class = &table.classes[0];
        assert_eq!((&*class.key, class.count), (&b"SELECT `d1`"[..], 12));
        let time = class.summary(Metric::QueryTime).unwrap();
        assert_eq!((time.sum, time.min, time.max), (160_000_000, 1_000_000, 40_000_000));
        assert!(!time.known.shape && time.known.min && time.known.max);
        assert_eq!(class.sum(Metric::LockTime), 2_000_000);
        assert_eq!(class.sum(Metric::RowsSent), 24);
        assert_eq!(class.flag(Flag::NoIndexUsed), (12, 2));
        assert_eq!(class.dbs.sorted().len(), 2);
        assert_eq!(table.overall().count, 17);
    }

    #[test]
    fn two_snapshots_are_a_period() {
        let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
        add(&mut before, "a", Some("same"), &values(10, 100, 1, 40));
        add(&mut after, "a", Some("same"), &values(10, 100, 1, 40));
        add(&mut before, "a", Some("slower"), &values(10, 100, 1, 40));
        add(&mut after, "a", Some("slower"), &values(14, 400, 1, 250));
        add(&mut before, "a", Some("once"), &values(3, 10, 1, 4));
        add(&mut after, "a", Some("once"), &values(4, 17, 1, 7));
        add(&mut after, "a", Some("new"), &values(3, 30, 5, 20));
        add(&mut before, "a", Some("emptied"), &values(100, 100, 1, 40));
        add(&mut after, "a", Some("emptied"), &values(2, 4, 1, 3));
        let mut table = Table::new(100, 1000);
        let period = count(Some(&before), &after, Some((1, 2)), false, &mut table);
        assert_eq!(period, Period { statements: 10, without_class: 0, reset: true });
        let time = |digest: &str| {
            let key = format!("SELECT `{digest}`");
            let class = table.classes.iter().find(|c| *c.key == *key.as_bytes());
            class.map(|c| c.summary(Metric::QueryTime).unwrap())
        };
        assert!(time("same").is_none());
        let slower = time("slower").unwrap();
        assert_eq!((slower.count, slower.sum, slower.max), (4, 300_000_000, 250_000_000));
        assert_eq!(slower.known, Known { shape: false, min: false, max: true });
        let once = time("once").unwrap();
        assert_eq!((once.known, once.min, once.max), (Known::ALL, 7_000_000, 7_000_000));
        let new = time("new").unwrap();
        assert_eq!((new.count, new.min, new.max), (3, 5_000_000, 20_000_000));
        assert_eq!(time("emptied").unwrap().count, 2);
        assert_eq!((table.classes[0].first, table.classes[0].last), (Some(1), Some(2)));
    }
}
