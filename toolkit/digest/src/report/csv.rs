//! One row per class, for spreadsheets and databases.
//!
//! RFC 4180: commas, CRLF, a header; cells with a comma, a quote or a line end are quoted, and quotes doubled. UTF-8
//! without a byte order mark. Clock times are UTC (`2026-01-31 18:00:00`), durations are in seconds, sizes in bytes;
//! an unknown value is an empty cell. Metrics that a log lacks keep their columns, so the header is always the same.
//!
//! Spreadsheets run a cell as a formula if it begins with `=`, `+`, `-`, `@`, a tab or a carriage return, and a statement
//! in a log may have been written by anybody. Such texts get an apostrophe in front, as the programs themselves write
//! it for "this is text". Numbers are ours and never get one. NUL, which some readers take for the end, becomes U+FFFD.

use std::borrow::Cow;
use std::io::{self, Write};

use super::model::{Class, Metric, Report, Share};
use frond_event::numbers::time;
use frond_event::Flag;

type Pick = (&'static str, fn(&Metric) -> f64);

const ALL: [Pick; 9] = [
    ("sum", |m| m.sum),
    ("min", |m| m.min),
    ("mean", |m| m.mean),
    ("p50", |m| m.p50),
    ("p95", |m| m.p95),
    ("p99", |m| m.p99),
    ("p999", |m| m.p999),
    ("max", |m| m.max),
    ("stddev", |m| m.stddev),
];
const SOME: [Pick; 6] = [
    ("sum", |m| m.sum),
    ("mean", |m| m.mean),
    ("p50", |m| m.p50),
    ("p95", |m| m.p95),
    ("p99", |m| m.p99),
    ("max", |m| m.max),
];

/// Histogram columns: statements by the power of ten of their time.
const TIMES: [&str; 8] = ["1us", "10us", "100us", "1ms", "10ms", "100ms", "1s", "10s"];

/// Columns made from a metric: its name, and which of its numbers.
const METRICS: [(&str, &[Pick]); 8] = [
    ("Query_time", &ALL),
    ("Lock_time", &SOME),
    ("Rows_examined", &SOME),
    ("Rows_sent", &SOME),
    ("Rows_affected", &SOME),
    ("Bytes_sent", &SOME),
    ("Engine_time", &SOME),
    ("Pages_read", &SOME),
];

const BEFORE: [&str; 15] = [
    "rank",
    "id",
    "item",
    "kind",
    "tables",
    "events",
    "statements",
    "share_of_events",
    "share_of_time",
    "per_second",
    "concurrency",
    "first",
    "last",
    "errors",
    "unmeasured",
];
const AFTER: [&str; 9] = [
    "variance_to_mean",
    "rows_examined_per_row",
    "user_class",
    "reason",
    "users",
    "hosts",
    "dbs",
    "key",
    "sample",
];

/// The names in the header, in order.
pub fn columns() -> Vec<String> {
    let metrics = METRICS.iter().flat_map(|(metric, picks)| {
        picks.iter().map(move |(name, _)| format!("{}_{name}", metric.to_ascii_lowercase()))
    });
    BEFORE
        .iter()
        .map(|name| (*name).to_owned())
        .chain(metrics)
        .chain(AFTER.iter().map(|name| (*name).to_owned()))
        .chain(TIMES.iter().map(|name| format!("times_{name}")))
        .chain(Flag::ALL.iter().map(|flag| flag.name().to_ascii_lowercase()))
        .chain(["plans".into()])
        .collect()
}

/// Writes the header and a row for each class.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut line = columns().join(",");
    line.push_str("\r\n");
    out.write_all(line.as_bytes())?;
    for class in &report.classes {
        let mut row = Row(String::new());
        row.class(class);
        row.0.push_str("\r\n");
        out.write_all(row.0.as_bytes())?;
    }
    Ok(())
}

/// A row while it is written.
struct Row(String);

impl Row {
    fn class(&mut self, class: &Class) {
        let tables: Vec<String> = class
            .tables
            .iter()
            .map(
                |t| if t.db.is_empty() { t.table.clone() } else { format!("{}.{}", t.db, t.table) },
            )
            .collect();
        self.number(class.rank as f64);
        self.text(&class.id);
        self.text(&class.item);
        self.text(&class.kind);
        self.text(&tables.join(" "));
        self.number(class.events as f64);
        self.number(class.statements as f64);
        self.number(class.share_of_events);
        self.number(class.share_of_time);
        self.option(class.per_second);
        self.option(class.concurrency);
        self.text(&class.first.map(time).unwrap_or_default());
        self.text(&class.last.map(time).unwrap_or_default());
        self.number(class.errors as f64);
        self.number(class.unmeasured as f64);
        for (name, picks) in METRICS {
            let metric = class.metric(name);
            for (_, pick) in picks {
                self.option(metric.map(pick));
            }
        }
        self.option(class.variance_to_mean);
        self.option(class.rows_examined_per_row);
        self.text(&class.user_class);
        self.text(&class.reason);
        self.shares(&class.users);
        self.shares(&class.hosts);
        self.shares(&class.dbs);
        self.text(&class.key);
        self.text(class.sample.as_ref().map_or("", |s| &s.sql));
        let timed = class.time().is_some();
        for decade in class.times.decades {
            self.option(timed.then_some(decade as f64));
        }
        for flag in Flag::ALL {
            let logged = class.flags.iter().find(|f| f.name == flag.name());
            self.option(logged.map(|f| f.yes as f64));
        }
        self.number(class.plans.len() as f64);
    }

    fn next(&mut self) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
    }

    fn number(&mut self, value: f64) {
        self.option(Some(value));
    }

    fn option(&mut self, value: Option<f64>) {
        self.next();
        if let Some(value) = value.filter(|v| v.is_finite()) {
            self.0.push_str(&value.to_string());
        }
    }

    /// Writes the most frequent names.
    fn shares(&mut self, shares: &[Share]) {
        let names: Vec<&str> =
            shares.iter().map(|s| s.name.as_str()).filter(|n| !n.is_empty()).take(5).collect();
        self.text(&names.join(" "));
    }

    fn text(&mut self, text: &str) {
        self.next();
        self.0.push_str(&cell(text));
    }
}

/// Makes a text a cell: defused if it could be a formula, quoted where necessary.
fn cell(text: &str) -> Cow<'_, str> {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let quoted = text.contains([',', '"', '\n', '\r']);
    if !formula && !quoted && !text.contains('\0') {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 4);
    if quoted {
        safe.push('"');
    }
    if formula {
        safe.push('\'');
    }
    for c in text.chars() {
        match c {
            '"' => safe.push_str("\"\""),
            '\0' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    if quoted {
        safe.push('"');
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        for (text, expected) in [
            ("plain text", "plain text"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("@SUM(1,2)", "\"'@SUM(1,2)\""),
            ("-1+1", "'-1+1"),
            ("+1", "'+1"),
            ("\t=1", "'\t=1"),
            ("\r=1", "\"'\r=1\""),
            ("nul\0", "nul\u{fffd}"),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
