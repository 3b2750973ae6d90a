//! The report as pt-query-digest 3.2 prints it (`header`, `profile` and `query_report`), for scripts and eyes that
//! are used to it.
//!
//! The numbers are this crate's, which equal that tool's where it is right (`tests/ptqd`); the layout is its layout,
//! with its shortened labels and its 1024-based `k`. Not printed: statements rewritten for EXPLAIN, and what it reads
//! from a server.

use std::io::{self, Write};

use super::ptqd_numbers::{bucketed, Bucketed};
use super::rank::{rank, Limit, Order, Outliers, Reason};
use crate::digest::Outcome;
use crate::event::{Flag, Micros};
use crate::fingerprint::{self, SqlMode};
use crate::metric::{Metric, Unit};
use crate::stats::class::key;
use crate::stats::distribution::base_units;
use crate::stats::names::{Names, Top};
use crate::stats::{Class, Summary, Table};

/// Width of the lines that end in underscores.
const LINE: usize = 74;

/// What to print.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub order: Order,
    pub limit: Limit,
    pub outliers: Option<Outliers>,
    /// Literals of samples are masked; nothing else here has some.
    pub redact: bool,
}

/// Writes the report.
pub fn write(outcome: &mut Outcome, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let overall = outcome.table.overall();
    let limited = overall.weight > overall.count;
    for class in &mut outcome.table.classes {
        // It says that there is a limit and scales nothing.
        class.weight = class.count;
    }
    let (ranked, reasons) =
        rank(&outcome.table.classes, options.order, options.limit, options.outliers);
    let classes = &outcome.table.classes;
    if overall.count == 0 {
        return writeln!(out, "\n# No events processed.");
    }
    let span = overall
        .first_stamp
        .zip(overall.last_stamp)
        .map_or(0.0, |(a, b)| b.saturating_sub(a) as f64 / 1e6);
    let time = overall.sum(Metric::QueryTime) as f64 / 1e9;
    let (qps, concurrency) = rates(overall.count, time, span);
    writeln!(out)?;
    if limited {
        writeln!(out, "# Rate limits apply")?;
    }
    let title = format!(
        "# Overall: {} total, {} unique, {qps} QPS, {concurrency}x concurrency ",
        short(overall.count as f64, 1000.0),
        short(classes.len() as f64, 1000.0)
    );
    writeln!(out, "{}", underscored(title))?;
    time_range(&overall, out)?;
    writeln!(out, "# Attribute          total     min     max     avg     95%  stddev  median")?;
    writeln!(out, "# ============     ======= ======= ======= ======= ======= ======= =======")?;
    attributes(&overall, None, out)?;
    booleans(&overall, out)?;
    profile(&outcome.table, &ranked, &reasons, &overall, options.redact, out)?;
    for (i, (class, reason)) in ranked.iter().zip(&reasons).enumerate() {
        let mut class = outcome.table.whole(*class);
        if options.redact {
            // Behind `whole`: what it brings back from the disk is not masked.
            class.to_mut().sample.sql = masked(&class.sample.sql).into();
        }
        page(&class, i + 1, *reason, &overall, &outcome.table.names, out)?;
    }
    Ok(())
}

fn masked(sql: &[u8]) -> Vec<u8> {
    let mut masked = Vec::new();
    fingerprint::mask(sql, &mut masked);
    masked
}

fn underscored(mut line: String) -> String {
    while line.len() < LINE {
        line.push('_');
    }
    line
}

/// Queries per second and concurrency as printed.
fn rates(count: u64, time: f64, span: f64) -> (String, String) {
    if span < 1.0 {
        return ("0".into(), "0".into());
    }
    (short(count as f64 / span, 1000.0), short(time / span, 1000.0))
}

/// `0`, `7`, `0.50`, `61.48k`
fn short(value: f64, step: f64) -> String {
    let mut value = value;
    let mut unit = "";
    for next in ["k", "M", "G", "T", "P", "E"] {
        if value < step {
            break;
        }
        value /= step;
        unit = next;
    }
    if unit.is_empty() && value.fract() == 0.0 {
        format!("{value}")
    } else {
        format!("{value:.2}{unit}")
    }
}

fn time(seconds: f64) -> String {
    if seconds <= 0.0 {
        "0".into()
    } else if seconds <= 0.000_999 {
        format!("{:.0}us", seconds * 1e6)
    } else if seconds <= 0.999_999 {
        format!("{:.0}ms", seconds * 1e3)
    } else {
        format!("{seconds:.0}s")
    }
}

fn stamp(micros: Micros) -> String {
    super::numbers::time(micros)
}

fn time_range(class: &Class, out: &mut dyn Write) -> io::Result<()> {
    match class.first_stamp.zip(class.last_stamp) {
        Some((first, last)) if first / 1_000_000 == last / 1_000_000 => {
            writeln!(out, "# Time range: all events occurred at {}", stamp(first))
        }
        Some((first, last)) => writeln!(out, "# Time range: {} to {}", stamp(first), stamp(last)),
        None => Ok(()),
    }
}

/// The metrics in that tool's order: what it knows, the rest by name, the size; then InnoDB's.
fn ordered(class: &Class) -> (Vec<Summary>, Vec<Summary>) {
    const FIRST: [Metric; 7] = [
        Metric::QueryTime,
        Metric::LockTime,
        Metric::RowsSent,
        Metric::RowsExamined,
        Metric::RowsAffected,
        Metric::RowsRead,
        Metric::BytesSent,
    ];
    let place = |m: Metric| match FIRST.iter().position(|f| *f == m) {
        Some(i) => (i, ""),
        None if m == Metric::QuerySize => (9, ""),
        None => (8, m.name()),
    };
    let mut all: Vec<Summary> = Metric::ALL
        .iter()
        .filter(|m| **m != Metric::Killed)
        .filter_map(|m| class.summary(*m))
        .collect();
    all.sort_by_key(|s| place(s.metric));
    all.into_iter().partition(|s| !s.metric.name().starts_with("InnoDB_"))
}

fn label(name: &str) -> String {
    let name = match name {
        "Query_time" => "Exec time",
        "bytes" => "Query size",
        other => other.strip_prefix("InnoDB_").unwrap_or(other),
    };
    name.replace('_', " ").chars().take(12).collect()
}

fn attributes(class: &Class, overall: Option<&Class>, out: &mut dyn Write) -> io::Result<()> {
    let (plain, innodb) = ordered(class);
    for summary in &plain {
        row(summary, overall, out)?;
    }
    if !innodb.is_empty() {
        writeln!(out, "# InnoDB:")?;
    }
    for summary in &innodb {
        row(summary, overall, out)?;
    }
    Ok(())
}

fn row(summary: &Summary, overall: Option<&Class>, out: &mut dyn Write) -> io::Result<()> {
    let unit = summary.metric.unit();
    let base = base_units(unit);
    let v = |value: f64| if unit == Unit::Time { time(value / base) } else { short(value, 1024.0) };
    let Bucketed { p95, median, stddev } = bucketed(summary);
    let percent = overall.map(|all| {
        let total = all.sum(summary.metric);
        let percent = if total == 0 { 0.0 } else { summary.sum as f64 / total as f64 * 100.0 };
        format!("{:3}", percent as u64)
    });
    write!(
        out,
        "# {:12} {}",
        label(summary.metric.name()),
        percent.unwrap_or_else(|| "   ".into())
    )?;
    let numbers = [
        summary.sum as f64,
        summary.min as f64,
        summary.max as f64,
        summary.mean(),
        p95,
        stddev,
        median,
    ];
    for number in numbers {
        write!(out, " {:>7}", v(number))?;
    }
    writeln!(out)
}

fn booleans(class: &Class, out: &mut dyn Write) -> io::Result<()> {
    let yes: Vec<(&Flag, (u64, u64))> =
        Flag::ALL.iter().map(|f| (f, class.flag(*f))).filter(|(_, (_, yes))| *yes > 0).collect();
    if !yes.is_empty() {
        writeln!(out, "# Boolean:")?;
    }
    for (flag, (logged, yes)) in yes {
        let percent = yes * 100 / logged;
        let no = (logged - yes) * 100 / logged;
        writeln!(out, "# {:12} {percent:3}% yes, {no:3}% no", label(flag.name()))?;
    }
    Ok(())
}

fn profile(
    table: &Table,
    ranked: &[usize],
    reasons: &[Reason],
    overall: &Class,
    redact: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let total = overall.sum(Metric::QueryTime) as f64 / 1e9;
    writeln!(out, "\n# Profile")?;
    writeln!(
        out,
        "# Rank Query ID                           Response time Calls R/Call  V/M   Item"
    )?;
    writeln!(
        out,
        "# ==== ================================== ============= ===== ======= ===== ===="
    )?;
    let classes = &table.classes;
    let mut item = Vec::new();
    for (i, at) in ranked[..reasons.len()].iter().enumerate() {
        let class = &classes[*at];
        let sql = table.whole_sql(*at);
        fingerprint::distill(&if redact { masked(&sql).into() } else { sql }, &mut item);
        let time = class.sum(Metric::QueryTime) as f64 / 1e9;
        let vm = class.summary(Metric::QueryTime).map_or(0.0, |s| {
            let stddev = bucketed(&s).stddev / 1e9;
            if time > 0.0 {
                stddev * stddev / (time / s.count as f64)
            } else {
                0.0
            }
        });
        writeln!(
            out,
            "# {:>4} 0x{} {time:8.4} {:4.1}% {:>5} {:7.4} {vm:5.2} {}",
            i + 1,
            key::id(&class.key),
            if total > 0.0 { time / total * 100.0 } else { 0.0 },
            class.count,
            time / class.count as f64,
            String::from_utf8_lossy(&item)
        )?;
    }
    let hidden: Vec<&Class> = ranked[reasons.len()..].iter().map(|i| &classes[*i]).collect();
    if !hidden.is_empty() {
        let time: f64 = hidden.iter().map(|c| c.sum(Metric::QueryTime) as f64 / 1e9).sum();
        let count: u64 = hidden.iter().map(|c| c.count).sum();
        writeln!(
            out,
            "# MISC 0xMISC{:28} {time:8.4} {:4.1}% {count:>5} {:7.4} {:>5} <{} ITEMS>",
            "",
            if total > 0.0 { time / total * 100.0 } else { 0.0 },
            time / count as f64,
            "0.0",
            hidden.len()
        )?;
    }
    Ok(())
}

fn page(
    class: &Class,
    rank: usize,
    reason: Reason,
    overall: &Class,
    names: &Names,
    out: &mut dyn Write,
) -> io::Result<()> {
    let span = class
        .first_stamp
        .zip(class.last_stamp)
        .map_or(0.0, |(a, b)| b.saturating_sub(a) as f64 / 1e6);
    let time_sum = class.sum(Metric::QueryTime) as f64 / 1e9;
    let (qps, concurrency) = rates(class.count, time_sum, span);
    // Its offsets count from behind the `#` that begins an event, except of the first.
    let offset = match class.sample.place.offset {
        0 => 0,
        offset => offset + 1,
    };
    let title = format!(
        "# Query {rank}: {qps} QPS, {concurrency}x concurrency, ID 0x{} at byte {offset} ",
        key::id(&class.key)
    );
    writeln!(out, "\n{}", underscored(title).trim_end())?;
    let why = if reason == Reason::Rank { "--limit" } else { "--outliers" };
    writeln!(out, "# This item is included in the report because it matches {why}.")?;
    let vm = class.summary(Metric::QueryTime).map_or(0.0, |s| {
        let stddev = bucketed(&s).stddev / 1e9;
        if time_sum > 0.0 {
            stddev * stddev / (time_sum / s.count as f64)
        } else {
            0.0
        }
    });
    writeln!(out, "# Scores: V/M = {vm:.2}")?;
    time_range(class, out)?;
    writeln!(out, "# Attribute    pct   total     min     max     avg     95%  stddev  median")?;
    writeln!(out, "# ============ === ======= ======= ======= ======= ======= ======= =======")?;
    writeln!(
        out,
        "# Count        {:3} {:>7}",
        class.count * 100 / overall.count.max(1),
        short(class.count as f64, 1000.0)
    )?;
    attributes(class, Some(overall), out)?;
    booleans(class, out)?;
    writeln!(out, "# String:")?;
    for (what, top) in [("Databases", &class.dbs), ("Hosts", &class.hosts), ("Users", &class.users)]
    {
        strings(what, top, class.count, names, out)?;
    }
    distribution(class, out)?;
    tables(class, out)?;
    let mut sql = Vec::new();
    fingerprint::shorten(&class.sample.sql, 1024, &mut sql);
    if sql.len() >= 6 && sql[..6].eq_ignore_ascii_case(b"select") {
        writeln!(out, "# EXPLAIN /*!50100 PARTITIONS*/")?;
    }
    out.write_all(&sql)?;
    writeln!(out, "\\G")
}

fn strings(
    what: &str,
    top: &Top,
    count: u64,
    names: &Names,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shares = top.sorted();
    let shown: Vec<String> = shares
        .iter()
        .filter(|s| !names.name(s.id).is_empty())
        .map(|s| {
            let name = String::from_utf8_lossy(names.name(s.id)).into_owned();
            if shares.len() == 1 {
                name
            } else {
                format!("{name} ({}/{}%)", s.count, u64::from(s.count) * 100 / count.max(1))
            }
        })
        .collect();
    let more = shown.len().saturating_sub(2);
    let more = if more > 0 { format!("... {more} more") } else { String::new() };
    writeln!(
        out,
        "{}",
        format!("# {what:12} {}{more}", shown[..shown.len().min(2)].join(", ")).trim_end()
    )
}

fn distribution(class: &Class, out: &mut dyn Write) -> io::Result<()> {
    const LABELS: [&str; 8] =
        ["  1us", " 10us", "100us", "  1ms", " 10ms", "100ms", "   1s", " 10s+"];
    let decades = class.summary(Metric::QueryTime).map_or([0; 8], |s| s.decades());
    let most = decades.iter().copied().max().unwrap_or(0).max(1);
    writeln!(out, "# Query_time distribution")?;
    for (label, n) in LABELS.iter().zip(decades) {
        let bar = if n == 0 { 0 } else { ((n as f64 / most as f64 * 64.0) as usize).max(1) };
        writeln!(out, "{}", format!("# {label}  {}", "#".repeat(bar)).trim_end())?;
    }
    Ok(())
}

fn tables(class: &Class, out: &mut dyn Write) -> io::Result<()> {
    let mut found = Vec::new();
    fingerprint::tables(&class.sample.sql, SqlMode::default(), &mut found);
    if found.is_empty() {
        return Ok(());
    }
    writeln!(out, "# Tables")?;
    for table in found {
        let db: &[u8] = if table.db.is_empty() { class.sample.db() } else { table.db };
        let (db, name) = (String::from_utf8_lossy(db), String::from_utf8_lossy(table.table));
        let from = if db.is_empty() { String::new() } else { format!(" FROM `{db}`") };
        let of = if db.is_empty() { String::new() } else { format!("`{db}`.") };
        writeln!(out, "#    SHOW TABLE STATUS{from} LIKE '{name}'\\G")?;
        writeln!(out, "#    SHOW CREATE TABLE {of}`{name}`\\G")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_that_tool_prints_them() {
        for (seconds, text) in
            [(0.0, "0"), (0.000_012, "12us"), (0.002_515, "3ms"), (0.762, "762ms"), (11.013, "11s")]
        {
            assert_eq!(time(seconds), text);
        }
        for (value, text) in [
            (62_951.0, "61.48k"),
            (7868.875, "7.68k"),
            (62.75, "62.75"),
            (230.0, "230"),
            (0.5, "0.50"),
        ] {
            assert_eq!(short(value, 1024.0), text);
        }
        assert_eq!(label("Rows_examined"), "Rows examine");
        assert_eq!(label("InnoDB_rec_lock_wait"), "rec lock wai");
    }
}
