//! What a run of one engine found: the raw result and the metrics of the report.
//!
//! What it is for: `EngineResult` is written to the raw JSON; `METRICS` is the one list of what is
//! compared, used by the terminal table, the Markdown file and the HTML page.
//!
//! Invariants
//!
//! - RE1. A metric's ratio is "how many times better": above 1 favours the subject whether more or less
//!   is better.
//! - RE2. Server costs cover the insert phase and the settling after it, so that work which an engine
//!   puts off is counted.
//!
//! Tested below.

use serde::Serialize;

use crate::client::End;
use crate::stats::{self, Latency};
use crate::units;

/// One interval of the insert phase, for the chart and the raw results.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Rows inserted at the end of the interval.
    pub rows: u64,
    /// Seconds since the first insert at the end of the interval.
    pub seconds: f64,
    pub interval_rows: u64,
    pub interval_seconds: f64,
    pub statement: Latency,
    /// The server's totals at that time, from its start.
    pub server_cpu_seconds: f64,
    pub server_write_bytes: u64,
    pub server_rss_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    pub cpu_seconds: f64,
    pub write_bytes: u64,
    pub read_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct EngineResult {
    pub engine: &'static str,
    pub label: &'static str,
    pub settings: Vec<String>,
    /// Frond: what the server says about its settings. Empty for the others.
    pub reported_settings: Vec<String>,
    pub rows_wanted: u64,
    pub points: Vec<Point>,
    pub end: End,
    pub statement: Latency,
    /// The queries of marketsegment, registersegment and pdc.
    pub queries: [Latency; 3],
    pub insert_cost: Cost,
    pub settle_cost: Cost,
    pub settle_seconds: f64,
    /// False when background work still went on when the wait for it was given up.
    pub settled: bool,
    pub table_bytes: u64,
    pub log_bytes: u64,
    pub start_rss_bytes: u64,
    pub peak_rss_bytes: u64,
    /// What the comparison of the table with the rows sent said.
    pub verified: Verified,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verified {
    Ok,
    /// Not finished in the time allowed; nothing is known.
    Timeout,
    Wrong(String),
}

impl EngineResult {
    pub fn rate(&self) -> f64 {
        if self.end.seconds > 0.0 {
            self.end.rows as f64 / self.end.seconds
        } else {
            0.0
        }
    }

    /// Rows per second over the last tenth of the rows, at most the last million.
    pub fn rate_at_end(&self) -> f64 {
        let share = 0.1_f64.min(1e6 / self.end.rows.max(1) as f64);
        let intervals: Vec<(u64, f64)> =
            self.points.iter().map(|p| (p.interval_rows, p.interval_seconds)).collect();
        stats::rate_at_end(&intervals, share).unwrap_or(0.0)
    }

    fn per_row(&self, total: f64) -> f64 {
        total / self.end.rows.max(1) as f64
    }

    pub fn cpu_us_per_row(&self) -> f64 {
        self.per_row((self.insert_cost.cpu_seconds + self.settle_cost.cpu_seconds) * 1e6)
    }

    pub fn written_per_row(&self) -> f64 {
        self.per_row((self.insert_cost.write_bytes + self.settle_cost.write_bytes) as f64)
    }

    pub fn client_cpu_us_per_row(&self) -> f64 {
        self.per_row(self.end.client_cpu_seconds * 1e6)
    }

    pub fn client_text_us_per_row(&self) -> f64 {
        self.per_row(self.end.client_text_cpu_seconds * 1e6)
    }

    pub fn stopped_early(&self) -> bool {
        self.end.rows < self.rows_wanted
    }
}

pub struct Metric {
    pub name: &'static str,
    pub more_is_better: bool,
    /// False for facts that are not compared, such as rows inserted.
    pub compared: bool,
    pub value: fn(&EngineResult) -> f64,
    pub show: fn(f64) -> String,
}

fn rate(v: f64) -> String {
    units::grouped(v.round() as u64)
}

fn cost_us(v: f64) -> String {
    format!("{} us", units::significant(v))
}

fn plain_bytes(v: f64) -> String {
    format!("{} B", units::grouped(v.round() as u64))
}

fn disk(v: f64) -> String {
    units::bytes(v as u64)
}

const fn metric(
    name: &'static str,
    more_is_better: bool,
    value: fn(&EngineResult) -> f64,
    show: fn(f64) -> String,
) -> Metric {
    Metric { name, more_is_better, compared: true, value, show }
}

/// Everything compared, in the order of the table.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "rows inserted",
        more_is_better: true,
        compared: false,
        value: |r| r.end.rows as f64,
        show: rate,
    },
    Metric {
        name: "seconds",
        more_is_better: false,
        compared: false,
        value: |r| r.end.seconds,
        show: |v| format!("{v:.1}"),
    },
    metric("rows/s, whole run", true, |r| r.rate(), rate),
    metric("rows/s, last tenth", true, |r| r.rate_at_end(), rate),
    metric("statement p50", false, |r| r.statement.p50_us as f64, units::micros),
    metric("statement p99", false, |r| r.statement.p99_us as f64, units::micros),
    metric("statement worst", false, |r| r.statement.max_us as f64, units::micros),
    metric(
        "statement p99 / p50",
        false,
        |r| r.statement.p99_us as f64 / f64::from(r.statement.p50_us.max(1)),
        units::significant,
    ),
    metric("server CPU per row", false, |r| r.cpu_us_per_row(), cost_us),
    metric("written per row", false, |r| r.written_per_row(), plain_bytes),
    metric(
        "table on disk per row",
        false,
        |r| r.per_row(r.table_bytes as f64),
        |v| format!("{} B", units::significant(v)),
    ),
    Metric {
        name: "table on disk",
        more_is_better: false,
        compared: false,
        value: |r| r.table_bytes as f64,
        show: disk,
    },
    Metric {
        name: "logs, system files",
        more_is_better: false,
        compared: false,
        value: |r| r.log_bytes as f64,
        show: disk,
    },
    metric("peak memory (RSS)", false, |r| r.peak_rss_bytes as f64, disk),
    metric("marketsegment p50", false, |r| r.queries[0].p50_us as f64, units::micros),
    metric("marketsegment p99", false, |r| r.queries[0].p99_us as f64, units::micros),
    metric("registersegment p50", false, |r| r.queries[1].p50_us as f64, units::micros),
    metric("registersegment p99", false, |r| r.queries[1].p99_us as f64, units::micros),
    metric("pdc p50", false, |r| r.queries[2].p50_us as f64, units::micros),
    metric("pdc p99", false, |r| r.queries[2].p99_us as f64, units::micros),
];

impl Metric {
    /// How many times better `subject` is than `rival`; `None` when it is not compared or when one
    /// of the values is missing (zero).
    pub fn times_better(&self, subject: &EngineResult, rival: &EngineResult) -> Option<f64> {
        let (s, r) = ((self.value)(subject), (self.value)(rival));
        if !self.compared || s <= 0.0 || r <= 0.0 {
            return None;
        }
        Some(if self.more_is_better { s / r } else { r / s })
    }
}

/// "34.8x".
pub fn ratio_text(ratio: f64) -> String {
    format!("{}x", units::significant(ratio))
}

/// The engine that the others are compared with: Frond, or the last one when it did not run.
pub fn subject(results: &[EngineResult]) -> Option<&EngineResult> {
    results.iter().find(|r| r.engine == "frond").or_else(|| results.last())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::client::Sums;

    /// A run at a steady rate; used by the tests of the tables and the chart as well.
    pub fn steady(engine: crate::engines::Engine, rows: u64, rate: f64) -> EngineResult {
        let intervals = 20;
        let step = rows / intervals;
        let points = (1..=intervals)
            .map(|i| Point {
                rows: i * step,
                seconds: (i * step) as f64 / rate,
                interval_rows: step,
                interval_seconds: step as f64 / rate,
                statement: Latency::default(),
                server_cpu_seconds: 0.0,
                server_write_bytes: 0,
                server_rss_bytes: 0,
            })
            .collect();
        let p50 = (1e9 / rate) as u32;
        let latency = Latency { count: 100, p50_us: p50, p99_us: 2 * p50, max_us: 5 * p50 };
        EngineResult {
            engine: engine.key(),
            label: engine.label(),
            settings: engine.settings(256 << 20),
            reported_settings: Vec::new(),
            rows_wanted: 1_000_000,
            points,
            end: End {
                rows,
                seconds: rows as f64 / rate,
                stopped: "rows".into(),
                statements: rows / 1000,
                client_cpu_seconds: rows as f64 * 0.1e-6,
                client_text_cpu_seconds: rows as f64 * 0.05e-6,
                text_bytes: rows * 64,
                query_rounds: 100,
                query_rounds_missed: 0,
                query_errors: 0,
                sums: Sums { rows, cashregisterid: 0, customerid: 0, productid: 0 },
            },
            statement: latency,
            queries: [latency; 3],
            insert_cost: Cost { cpu_seconds: 1.0, write_bytes: 1 << 30, read_bytes: 0 },
            settle_cost: Cost { cpu_seconds: 1.0, write_bytes: 1 << 30, read_bytes: 0 },
            settle_seconds: 2.0,
            settled: true,
            table_bytes: 100 * rows,
            log_bytes: 1 << 20,
            start_rss_bytes: 80 << 20,
            peak_rss_bytes: 300 << 20,
            verified: Verified::Ok,
        }
    }

    #[test]
    fn ratios_favour_the_subject_in_both_directions() {
        use crate::engines::Engine;
        let fast = steady(Engine::Frond, 1_000_000, 100_000.0);
        let slow = steady(Engine::InnoDb, 500_000, 10_000.0);
        let find = |name: &str| METRICS.iter().find(|m| m.name == name).unwrap();
        let rate = find("rows/s, whole run").times_better(&fast, &slow).unwrap();
        assert!((rate - 10.0).abs() < 0.01, "{rate}");
        let p50 = find("statement p50").times_better(&fast, &slow).unwrap();
        assert!((p50 - 10.0).abs() < 0.01, "{p50}");
        assert!(find("rows/s, whole run").times_better(&slow, &fast).unwrap() < 1.0);
        assert_eq!(find("rows inserted").times_better(&fast, &slow), None);
    }

    #[test]
    fn costs_per_row_include_the_settling() {
        let r = steady(crate::engines::Engine::Frond, 1_000_000, 100_000.0);
        assert!((r.cpu_us_per_row() - 2.0).abs() < 1e-9);
        assert!((r.written_per_row() - 2147.48).abs() < 0.1);
    }

    #[test]
    fn frond_is_the_subject_wherever_it_ran() {
        use crate::engines::Engine;
        let f = || steady(Engine::Frond, 1000, 1000.0);
        let i = || steady(Engine::InnoDb, 1000, 1000.0);
        let m = || steady(Engine::MyRocks, 1000, 1000.0);
        assert_eq!(subject(&[f(), i()]).unwrap().engine, "frond");
        assert_eq!(subject(&[i(), f(), m()]).unwrap().engine, "frond");
        assert_eq!(subject(&[i(), m()]).unwrap().engine, "myrocks");
        assert!(subject(&[]).is_none());
    }
}
