//! The document that every renderer writes: plain data, complete and in its final order.
//!
//! A renderer (terminal, HTML, JSON, CSV, diff) reads a `Report` and nothing else: no statistics, no parser. JSON is
//! this document as `serde` writes it; `--diff` reads it back. The names of the fields are therefore a format:
//! add, do not rename, and raise `SCHEMA` when the meaning of one changes.
//!
//! Invariants:
//!
//! - MO1. Times of the clock are microseconds since the epoch, UTC; durations are seconds; sizes are bytes.
//! - MO2. Shares are between 0 and 1, of all chosen events (not only those of the classes shown).
//! - MO3. `classes` is in the order of `rank`, which begins at 1. Classes that are not shown are
//!   summed up in `rest`.
//! - MO4. Text is UTF-8; bytes of a log that are not were replaced by U+FFFD. With `--redact` no literal of a statement is
//!   anywhere in the document.
//! - MO5. Unknown values are `None` or an empty list, never a zero.

use serde::{Deserialize, Serialize};

/// The version of this document's format.
///
/// 2: for a sampled log (`statements` above `events`) `Metric::sum`, `share_of_*`, the series and the breakdowns cover
/// all statements that the events stand for; in 1 they covered the events. In 1 a `CASE` of two arms was of another class
/// than one of three.
/// 3: `Point::time` is the time that statements ran within the interval; in 2 it was the whole time of statements that
/// ended in it.
pub const SCHEMA: u32 = 3;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: u32,
    /// Name and version of the program.
    pub generator: String,
    /// When the report was made; `None` in reproducible reports.
    pub generated: Option<i64>,
    pub inputs: Vec<Input>,
    pub selection: Selection,
    pub overall: Overall,
    pub classes: Vec<Class>,
    pub rest: Option<Rest>,
    pub loss: Loss,
    /// What a reader must know so as not to misread the numbers; whole sentences.
    pub notes: Vec<String>,
    /// Patterns over the statements of one connection, if they were requested.
    pub patterns: Option<Patterns>,
}

impl Report {
    /// Why this program cannot interpret the numbers correctly; `None` if it can.
    pub fn unreadable(&self) -> Option<String> {
        let sampled = self.overall.statements > self.overall.events;
        match self.schema {
            2 | SCHEMA => None,
            1 if !sampled => None,
            1 => Some(
                "a report has format 1 and is of a sampled log: its sums are of what was logged, those of later formats \
                 of all statements. Make it again from the log"
                    .into(),
            ),
            other => Some(format!(
                "a report has format {other}, this program reads {SCHEMA}: make it again from the log"
            )),
        }
    }
}

/// One file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Input {
    pub name: String,
    /// `slow log`, `general log`, `raw statements`, `pcap`, `pcapng`, `tcpdump text`, `empty`.
    pub format: String,
    /// Unpacked size.
    pub bytes: u64,
}

/// What the report was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    pub filter: Option<String>,
    pub since: Option<i64>,
    pub until: Option<i64>,
    /// `fingerprint`, `db`, `user`, ...
    pub group_by: String,
    /// Dialect of the fingerprints: `frond`, `ptqd-3.2`, ...
    pub dialect: String,
    /// The ranking attribute, in words: `total time`.
    pub order: String,
    /// The unit of the classes' `rank_value`: `seconds`, `bytes`, `count`.
    #[serde(default)]
    pub order_unit: String,
    /// A short title of the order; empty if it is one of the columns that every profile has.
    #[serde(default)]
    pub order_title: String,
    pub redacted: bool,
}

/// Everything together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overall {
    /// Chosen events.
    pub events: u64,
    /// Events that were read, but left out by filters and times.
    pub left_out: u64,
    /// The number of statements that the chosen events stand for (`log_slow_rate_limit`, sampling); equal to `events` if
    /// nothing was sampled.
    pub statements: u64,
    /// Number of different classes.
    pub classes: u64,
    /// Classes that were counted together to bound the memory; accurate to 7 %.
    pub folded: u64,
    /// Begin of the first and end of the last event.
    pub first: Option<i64>,
    pub last: Option<i64>,
    /// Seconds between `first` and `last`.
    pub seconds: Option<f64>,
    pub per_second: Option<f64>,
    /// Statements running at the same time, on average.
    pub concurrency: Option<f64>,
    /// Time zone in which the server wrote its times, in seconds east of UTC, if the log tells it.
    pub zone: Option<i32>,
    pub metrics: Vec<Metric>,
    pub flags: Vec<Flag>,
    pub errors: u64,
    pub unmeasured: u64,
    pub times: Histogram,
    pub series: Series,
    pub users: Vec<Share>,
    pub hosts: Vec<Share>,
    pub dbs: Vec<Share>,
    /// Tables of all classes of fingerprints; a statement counts for each of its tables.
    pub tables: Vec<Share>,
}

/// One numeric attribute. Times are in seconds. Unknown values are NaN here and `null` in JSON: a
/// server's totals have no quantiles, and not always bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// As in a slow log: `Query_time`.
    pub name: String,
    /// The name for people: `Exec time`.
    pub label: String,
    /// `seconds`, `bytes`, `count`.
    pub unit: String,
    /// Events that had it.
    pub count: u64,
    /// The sum over all statements that the events stand for.
    pub sum: f64,
    #[serde(with = "unknown")]
    pub min: f64,
    #[serde(with = "unknown")]
    pub max: f64,
    pub mean: f64,
    #[serde(with = "unknown")]
    pub p50: f64,
    #[serde(with = "unknown")]
    pub p95: f64,
    #[serde(with = "unknown")]
    pub p99: f64,
    #[serde(with = "unknown")]
    pub p999: f64,
    /// The quantiles' relative error: 0.025 means within 2.5 percent.
    pub quantile_error: f64,
    #[serde(with = "unknown")]
    pub stddev: f64,
    /// Share of the sum over all classes; 1 in `Overall`.
    pub share: f64,
}

/// Reads and writes a NaN as `null`.
mod unknown {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        (!value.is_nan()).then_some(*value).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
    }
}

/// One yes-or-no attribute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flag {
    pub name: String,
    pub label: String,
    /// Events that had it, and those of them with yes.
    pub count: u64,
    pub yes: u64,
}

/// The distribution of the statements' durations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Statements that took 1 us (or less), 10 us, 100 us, 1 ms, 10 ms, 100 ms, 1 s, 10 s and more.
    pub decades: [u64; 8],
    /// The non-empty buckets, ascending.
    pub buckets: Vec<Bucket>,
}

/// Durations from `low` (included) to `high`, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    pub low: f64,
    pub high: f64,
    pub count: u64,
}

/// A series over time: one point for each interval in which something ran. Intervals begin at multiples of their width.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Seconds of an interval; the same in all classes, and not larger in `Overall`.
    pub width: i64,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Begin of the interval, in seconds since the epoch.
    pub at: i64,
    /// Statements that ended in it.
    pub count: u64,
    /// Seconds that statements ran within it. Divided by the width this is the mean number of statements running.
    pub time: f64,
}

/// The share of a user, host, database or table in a class or in everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Empty: unknown.
    pub name: String,
    pub count: u64,
    /// Seconds.
    pub time: f64,
}

/// A class of statements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    pub rank: u64,
    /// The number by which it is ranked.
    #[serde(default)]
    pub rank_value: Option<f64>,
    /// 32 digits, as pt-query-digest prints it; empty if classes are not fingerprints.
    pub id: String,
    /// The fingerprint, or the value grouped by.
    pub key: String,
    /// Short for people: verb and tables.
    pub item: String,
    /// `SELECT`, `INSERT`, ...; `ADMIN` for commands; empty if not known.
    pub kind: String,
    pub tables: Vec<Table>,
    /// The group of users: `interactive`, `batch`, or empty if there are no groups.
    pub user_class: String,
    /// Why it is shown although its rank would not: `outlier`.
    pub reason: String,
    pub events: u64,
    pub statements: u64,
    /// Share of all events, and of their time.
    pub share_of_events: f64,
    pub share_of_time: f64,
    pub per_second: Option<f64>,
    pub concurrency: Option<f64>,
    pub first: Option<i64>,
    pub last: Option<i64>,
    /// Variance of the duration divided by its mean, in seconds.
    pub variance_to_mean: Option<f64>,
    /// Rows examined for each row sent (sent or affected).
    pub rows_examined_per_row: Option<f64>,
    pub metrics: Vec<Metric>,
    pub flags: Vec<Flag>,
    pub errors: u64,
    /// One of the error numbers that occurred; 0 if none did.
    pub error: u32,
    pub unmeasured: u64,
    pub prepares: u64,
    pub executes: u64,
    pub times: Histogram,
    /// With the steps of the report's series, so that classes can be laid side by side.
    pub series: Series,
    /// The same with finer steps, for a class that ran in a small part of the report's time.
    #[serde(default)]
    pub narrow: Option<Series>,
    pub users: Vec<Share>,
    pub hosts: Vec<Share>,
    pub dbs: Vec<Share>,
    pub sample: Option<Sample>,
    /// Different plans the server logged, most frequent first.
    pub plans: Vec<PlanCount>,
    /// With `--sample-connections`: the class over all connections.
    pub sampled: Option<SampledClass>,
}

/// Totals of a class over all connections, estimated from those that were read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampledClass {
    pub statements: f64,
    /// One standard error of connections chosen independently; `toolkit/capture/src/sample.rs` says when that is too small.
    pub statements_error: f64,
    /// Seconds.
    pub time: f64,
    pub time_error: f64,
    /// The statements came from so few connections that the errors themselves are hardly known.
    pub few_connections: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Empty: the connection's database.
    pub db: String,
    pub table: String,
}

/// A plan's shape and how often it was logged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCount {
    /// Hexadecimal.
    pub id: String,
    pub count: u64,
    /// True for the plan of the sample.
    pub of_sample: bool,
}

/// The slowest statement of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// As logged, perhaps shortened (then `length` is longer), perhaps redacted.
    pub sql: String,
    /// Length of the whole statement.
    pub length: u64,
    /// Seconds.
    pub time: Option<f64>,
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub db: String,
    pub user: String,
    pub host: String,
    pub thread_id: Option<u64>,
    /// Where it begins: the input's name, and the offset in the unpacked bytes.
    pub file: String,
    pub offset: u64,
    pub plan: Option<Plan>,
    pub warnings: Vec<String>,
    pub routine: String,
    pub error: Option<u32>,
    pub error_text: String,
}

/// A logged EXPLAIN or ANALYZE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// Classes that are not shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    pub classes: u64,
    pub events: u64,
    /// Statements they stand for.
    #[serde(default)]
    pub statements: u64,
    /// Seconds.
    pub time: f64,
    pub share_of_time: f64,
}

/// Input that could not be read or measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Inputs that could not be read, or not to the end.
    pub problems: Vec<Problem>,
    /// Bytes that are no event, by reason.
    pub skips: Vec<SkipCount>,
    /// The first places of skipped bytes.
    pub places: Vec<SkipPlace>,
    /// Of captured traffic.
    pub capture: Option<Capture>,
}

impl Loss {
    /// True if everything could be read, apart from encrypted connections (`capture`).
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty() && self.skips.is_empty()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub input: String,
    pub what: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipCount {
    pub why: String,
    pub count: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipPlace {
    pub why: String,
    pub input: String,
    pub offset: u64,
    pub bytes: u64,
}

/// Losses of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capture {
    pub packets: u64,
    pub gaps: u64,
    pub bytes_missing: u64,
    /// About how many packets with payload are missing.
    pub packets_lost: u64,
    /// Packets of which the capture has only the beginning.
    pub packets_cut: u64,
    pub connections: u64,
    pub connections_with_gaps: u64,
    pub encrypted: u64,
    /// Statements that have a time.
    pub measured: u64,
    /// Statements that were seen but have no time.
    pub unmeasured: u64,
    /// Those of the unmeasured that were seen only in part; they are in no class.
    pub partial: u64,
    pub not_sampled: u64,
    pub sampling: Option<SampledConnections>,
    /// Statements that never returned; `None` if all did.
    pub unanswered: Option<Unanswered>,
    /// Further notes for the reader; whole sentences.
    pub notes: Vec<String>,
}

/// Totals over all connections, estimated from those that were read (`--sample-connections`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampledConnections {
    /// One connection of this many was read.
    pub one_in: u64,
    pub statements: f64,
    /// One standard error of connections chosen independently; `toolkit/capture/src/sample.rs` says when that is too small.
    pub statements_error: f64,
    /// Seconds.
    pub time: f64,
    pub time_error: f64,
    /// The expression with which tcpdump captures only these connections.
    pub filter: String,
}

/// Statements without an answer when the capture or their connection ended. They are in their classes, without a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unanswered {
    /// Their number, over the connections that were read.
    pub count: u64,
    /// Those that waited longest, ten at most.
    pub longest: Vec<Waiting>,
}

/// One statement without an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Seconds that it had waited: a lower bound.
    pub at_least: f64,
    /// The id of its class; empty if classes are not fingerprints.
    pub id: String,
    /// Perhaps shortened (then `length` is longer), perhaps redacted.
    pub sql: String,
    pub length: u64,
    pub start: Option<i64>,
    pub db: String,
    pub user: String,
    pub host: String,
    pub thread_id: Option<u64>,
}

/// Patterns over the statements of one connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Patterns {
    pub transactions: u64,
    pub statements_per_transaction: f64,
    /// The same class, or the same few classes in turn, again and again on one connection: a loop in the application.
    pub repeated: Vec<Repeated>,
}

/// One N+1 pattern.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// Id and item of the class.
    pub id: String,
    pub item: String,
    /// The other classes of a loop of several, in the order in which it runs them.
    #[serde(default)]
    pub then: Vec<Step>,
    /// Number of runs of at least five turns, and of the statements in them.
    pub runs: u64,
    pub statements: u64,
    pub longest: u64,
    /// Seconds.
    pub time: f64,
    /// The statement that most often came before the run; empty if unknown.
    pub after: String,
}

/// A class in a loop of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub id: String,
    pub item: String,
}

impl Sample {
    /// True if a part of the statement is missing. For a masked one its remark tells this, not its length.
    pub fn is_shortened(&self, redacted: bool) -> bool {
        match redacted {
            true => ["bytes", "items", "rows"]
                .iter()
                .any(|of| self.sql.contains(&format!(" more {of} */"))),
            false => self.sql.len() as u64 + 16 < self.length,
        }
    }
}

impl Repeated {
    /// All its classes in words.
    pub fn items(&self) -> String {
        let mut text = self.item.clone();
        for step in &self.then {
            text.push_str("; ");
            text.push_str(&step.item);
        }
        text
    }
}

impl Metric {
    pub fn is_time(&self) -> bool {
        self.unit == "seconds"
    }
}

impl Class {
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|m| m.name == name)
    }

    /// The statistics of the duration, if it was measured.
    pub fn time(&self) -> Option<&Metric> {
        self.metric("Query_time")
    }
}

impl Overall {
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|m| m.name == name)
    }
}
