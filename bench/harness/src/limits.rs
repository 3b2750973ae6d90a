//! The limits that Frond must reach beside its rivals, and whether a run reached them.
//!
//! Purpose: `make bench-iibench` fails when a limit is missed; printing a ratio alone would not fail.
//! The limits are meant for 10 million rows and 256 MiB of cache, where the table no longer fits in
//! memory; smaller runs are held to the same limits, but they say little.
//!
//! Tested below.

use crate::result::EngineResult;
use crate::units;

/// Bytes that the server may use besides the configured cache, its memory right after the start included.
pub const MEMORY_BESIDES: u64 = 150 << 20;

#[derive(Debug, PartialEq)]
pub struct Verdict {
    pub what: String,
    pub measured: String,
    pub limit: String,
    pub met: bool,
}

/// A quotient that must be at least, or at most, a limit.
fn quotient(what: &str, value: f64, least: bool, limit: f64) -> Verdict {
    Verdict {
        what: what.into(),
        measured: format!("{}x", units::significant(value)),
        limit: format!("{} {limit}x", if least { ">=" } else { "<=" }),
        met: value.is_finite() && if least { value >= limit } else { value <= limit },
    }
}

/// Seconds from the first insert until `rows` were there, interpolated between two points.
fn seconds_until(result: &EngineResult, rows: u64) -> Option<f64> {
    let (mut before_rows, mut before) = (0, 0.0);
    for p in &result.points {
        if p.rows >= rows {
            let share = (rows - before_rows) as f64 / (p.rows - before_rows).max(1) as f64;
            return Some(before + (p.seconds - before) * share);
        }
        (before_rows, before) = (p.rows, p.seconds);
    }
    None
}

/// The rate over the last million rows divided by that over the second million. `None` below three
/// million rows.
fn decline(result: &EngineResult) -> Option<f64> {
    let last = result.points.last()?.rows;
    if last < 3_000_000 {
        return None;
    }
    let between = |from, to| Some(seconds_until(result, to)? - seconds_until(result, from)?);
    Some(between(1_000_000, 2_000_000)? / between(last - 1_000_000, last)?)
}

/// The verdicts for the engines that ran.
pub fn verdicts(cache_bytes: u64, results: &[EngineResult]) -> Vec<Verdict> {
    let find = |key: &str| results.iter().find(|r| r.engine == key);
    let Some(frond) = find("frond") else { return Vec::new() };
    let mut out = Vec::new();
    if let Some(decline) = decline(frond) {
        out.push(quotient("rate of the last million rows, of the second's", decline, true, 0.85));
    }
    let spread = f64::from(frond.statement.p99_us) / f64::from(frond.statement.p50_us.max(1));
    out.push(quotient("p99 of statements, of their median", spread, false, 5.0));
    let memory = cache_bytes + MEMORY_BESIDES + frond.start_rss_bytes;
    out.push(Verdict {
        what: "peak memory of the server".into(),
        measured: units::bytes(frond.peak_rss_bytes),
        limit: format!("<= {}", units::bytes(memory)),
        met: frond.peak_rss_bytes <= memory,
    });
    if let Some(inno) = find("innodb") {
        let rate = frond.rate_at_end() / inno.rate_at_end();
        out.push(quotient("rows/s at the end, of InnoDB's", rate, true, 10.0));
    }
    if let Some(rocks) = find("myrocks") {
        let of = |value: fn(&EngineResult) -> f64| value(frond) / value(rocks);
        let rate = of(EngineResult::rate_at_end);
        let disk = of(|r| r.table_bytes as f64 / r.end.rows as f64);
        out.push(quotient("rows/s at the end, of MyRocks'", rate, true, 2.0));
        let cpu = of(EngineResult::cpu_us_per_row);
        out.push(quotient("server CPU per row, of MyRocks'", cpu, false, 0.5));
        let written = of(EngineResult::written_per_row);
        out.push(quotient("bytes written per row, of MyRocks'", written, false, 0.75));
        out.push(quotient("size on disk per row, of MyRocks'", disk, false, 1.0));
        for (i, name) in ["marketsegment", "registersegment", "pdc"].iter().enumerate() {
            let (ours, theirs) = (frond.queries[i].p99_us, rocks.queries[i].p99_us);
            let slower = f64::from(ours) / f64::from(theirs);
            out.push(quotient(&format!("p99 of {name}, of MyRocks'"), slower, false, 1.5));
        }
    }
    out
}

/// Lines for the terminal.
pub fn text(verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    for v in verdicts {
        let word = if v.met { "met   " } else { "MISSED" };
        out.push_str(&format!("  {word}  {:<46}{:>10}  {}\n", v.what, v.measured, v.limit));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::Engine;
    use crate::result::tests::steady;

    fn missed(results: &[EngineResult]) -> Vec<String> {
        let found = verdicts(256 << 20, results);
        found.into_iter().filter(|v| !v.met).map(|v| v.what).collect()
    }

    #[test]
    fn a_fast_engine_meets_all_and_a_slow_one_misses_what_it_misses() {
        let rocks = steady(Engine::MyRocks, 10_000_000, 20_000.0);
        let mut frond = steady(Engine::Frond, 10_000_000, 90_000.0);
        frond.insert_cost.cpu_seconds = 0.1;
        frond.settle_cost.cpu_seconds = 0.1;
        frond.insert_cost.write_bytes = 1 << 20;
        frond.settle_cost.write_bytes = 1 << 20;
        assert_eq!(verdicts(256 << 20, &[rocks.clone(), frond.clone()]).len(), 10);
        assert_eq!(missed(&[rocks.clone(), frond.clone()]), [""; 0]);
        frond.peak_rss_bytes = 487 << 20;
        frond.queries[2].p99_us = rocks.queries[2].p99_us * 2;
        frond.table_bytes += 1 << 20;
        let names = [
            "peak memory of the server",
            "size on disk per row, of MyRocks'",
            "p99 of pdc, of MyRocks'",
        ];
        assert_eq!(missed(&[frond, rocks]), names);
    }

    #[test]
    fn a_rate_that_falls_is_seen() {
        let mut frond = steady(Engine::Frond, 10_000_000, 100_000.0);
        assert!((decline(&frond).unwrap() - 1.0).abs() < 1e-9);
        // The last million takes twice as long.
        let last = frond.points.len() - 2;
        for p in &mut frond.points[last..] {
            p.seconds += if p.rows == 10_000_000 { 10.0 } else { 5.0 };
        }
        assert!((decline(&frond).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(missed(&[frond]), ["rate of the last million rows, of the second's"]);
        assert!(decline(&steady(Engine::Frond, 2_000_000, 1000.0)).is_none());
    }
}
