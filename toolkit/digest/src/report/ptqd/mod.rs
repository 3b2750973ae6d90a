//! The report as pt-query-digest 3.2 prints it (`header`, `profile` and `query_report`), for
//! scripts and people who are used to it.
//!
//! In this module and its files "that tool" is pt-query-digest. The numbers are this crate's; they equal that tool's
//! where it is right (`tests/it/ptqd`). The layout is that tool's, with its shortened labels and its 1024-based `k`.
//! Data that it reads from a server is not printed.
//!
//! The text differs in some places (`tests/it/ptqd/text.rs` compares every line and lists the differences). When there
//! is a row MISC, that tool cuts the ids in the profile, so no search finds them. Its sums have the rounding errors of
//! many additions. It prints attributes of servers that are neither numbers nor flags, and sums and means of error
//! numbers and row numbers (`Errno`, `last_insert_id`), each of which would cost every class of every report a
//! distribution. And it takes the milliseconds of MariaDB's engine for seconds.
//! of every report a distribution; and it takes the milliseconds of MariaDB's engine for seconds.

mod head;
mod notation;
mod profile;
mod statement;

use std::cmp::Reverse;
use std::io::{self, Write};

use super::ptqd_numbers::{bucketed, Bucketed};
use super::rank::{rank, Limit, Order, Outliers, Reason};
use crate::run::{FileInfo, Outcome};
use crate::stats::class::key;
use crate::stats::distribution::base_units;
use crate::stats::names::{Names, OTHERS, UNKNOWN};
use crate::stats::top::{Share, Top};
use crate::stats::{Class, Summary};
use frond_event::{Flag, Place};
use frond_event::{Metric, Unit};
use frond_querylog::input::Format;
use frond_sqltext::SqlMode;

pub use head::{Head, Usage};
use notation::{label, masked, rates, short, stamp, time, underscored, variance_to_mean};

/// Width of names in a line, and of one of several names.
const NAMES: usize = 44;
const NAME: usize = 10;

/// The parts to print.
#[derive(Clone, Debug)]
pub struct Options {
    pub order: Order,
    pub limit: Limit,
    pub outliers: Option<Outliers>,
    /// Literals of samples are masked; the other texts have none.
    pub redact: bool,
    /// The lines that come first.
    pub head: Option<Head>,
}

/// Totals that the pages need.
struct All<'a> {
    overall: &'a Class,
    names: &'a Names,
    /// The inputs have durations.
    timed: bool,
    /// Stamps have a zone, which that tool prints in another form.
    zoned: bool,
    /// Place of the first event.
    first: Option<Place>,
}

/// Writes the report.
pub fn write(outcome: &mut Outcome, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let overall = outcome.table.overall();
    let limited = overall.weight > overall.count;
    for class in &mut outcome.table.classes {
        // That tool notices the limit but does not scale by it.
        class.weight = class.count;
    }
    let first = outcome.table.classes.iter().map(|c| c.begun).min();
    let (ranked, reasons) =
        rank(&outcome.table.classes, options.order, options.limit, options.outliers);
    let classes = &outcome.table.classes;
    // That tool does not print the senders of such logs, and takes unmeasured times for zero.
    let plain = |f: &FileInfo| matches!(f.format, Some(Format::GeneralLog | Format::Raw) | None);
    let timed = !outcome.files.iter().all(plain);
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
    if let Some(head) = &options.head {
        head::write(head, out)?;
    }
    if limited {
        writeln!(out, "# Rate limits apply")?;
    }
    let title = format!(
        "# Overall: {} total, {} unique, {qps} QPS, {concurrency}x concurrency ",
        short(overall.count as f64, 1000.0),
        short(classes.len() as f64, 1000.0)
    );
    writeln!(out, "{}", underscored(title))?;
    time_range(&overall, outcome.zoned, out)?;
    writeln!(out, "# Attribute          total     min     max     avg     95%  stddev  median")?;
    writeln!(out, "# ============     ======= ======= ======= ======= ======= ======= =======")?;
    attributes(&overall, None, timed, out)?;
    booleans(&overall, out)?;
    profile::write(&outcome.table, &ranked, &reasons, &overall, options.redact, out)?;
    for (i, (class, reason)) in ranked.iter().zip(&reasons).enumerate() {
        let mut class = outcome.table.whole(*class);
        if options.redact {
            // Masked here, after `whole`, because texts from the disk are not masked.
            class.to_mut().sample.sql = masked(&class.sample.sql).into();
        }
        let (names, zoned) = (&outcome.table.names, outcome.zoned);
        let all = All { overall: &overall, names, timed, zoned, first };
        page(&class, i + 1, *reason, &all, out)?;
    }
    Ok(())
}

fn time_range(class: &Class, zoned: bool, out: &mut dyn Write) -> io::Result<()> {
    match class.first_stamp.zip(class.last_stamp) {
        Some((first, last)) if first / 1_000_000 == last / 1_000_000 => {
            writeln!(out, "# Time range: all events occurred at {}", stamp(first, zoned))
        }
        Some((first, last)) => {
            let (first, last) = (stamp(first, zoned), stamp(last, zoned));
            let same_day = !zoned && first.split(' ').next() == last.split(' ').next();
            let last = if same_day { last.split(' ').next_back().unwrap_or(&last) } else { &last };
            writeln!(out, "# Time range: {first} to {last}")
        }
        None => Ok(()),
    }
}

/// The metrics in that tool's order: those it knows, then the rest by name, then InnoDB's.
fn ordered(class: &Class) -> (Vec<Summary>, Vec<Summary>) {
    const FIRST: [Metric; 12] = [
        Metric::QueryTime,
        Metric::LockTime,
        Metric::RowsSent,
        Metric::RowsExamined,
        Metric::RowsAffected,
        Metric::RowsRead,
        Metric::BytesSent,
        Metric::MergePasses,
        Metric::TmpTables,
        Metric::TmpDiskTables,
        Metric::TmpTableSizes,
        Metric::QuerySize,
    ];
    let place = |m: Metric| (FIRST.iter().position(|f| *f == m).unwrap_or(FIRST.len()), m.name());
    let mut all: Vec<Summary> = Metric::ALL
        .iter()
        .filter(|m| **m != Metric::Killed)
        .filter_map(|m| class.summary(*m))
        .collect();
    all.sort_by_key(|s| place(s.metric));
    all.into_iter().partition(|s| !s.metric.name().starts_with("InnoDB_"))
}

fn attributes(
    class: &Class,
    overall: Option<&Class>,
    timed: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (plain, innodb) = ordered(class);
    if !timed {
        let percent = if overall.is_some() { "  0" } else { "   " };
        writeln!(out, "# {:12} {percent}{}", "Exec time", format!(" {:>7}", 0).repeat(7))?;
    }
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

/// Whole percent of `total`, cut off. Of integers: as floats 232 of 800 would be 28.999.
fn percent(part: u64, total: u64) -> u64 {
    let percent = (u128::from(part) * 100).checked_div(u128::from(total)).unwrap_or(0);
    u64::try_from(percent).unwrap_or(u64::MAX)
}

fn row(summary: &Summary, overall: Option<&Class>, out: &mut dyn Write) -> io::Result<()> {
    let unit = summary.metric.unit();
    let base = base_units(unit);
    let v = |value: f64| if unit == Unit::Time { time(value / base) } else { short(value, 1024.0) };
    let Bucketed { p95, median, stddev } = bucketed(summary);
    let percent = overall.map(|all| format!("{:3}", percent(summary.sum, all.sum(summary.metric))));
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
    let mut yes: Vec<(&Flag, (u64, u64))> =
        Flag::ALL.iter().map(|f| (f, class.flag(*f))).filter(|(_, (_, yes))| *yes > 0).collect();
    yes.sort_by_key(|(flag, _)| flag.name());
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

fn page(
    class: &Class,
    rank: usize,
    reason: Reason,
    &All { overall, names, timed, zoned, first }: &All<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let span = class
        .first_stamp
        .zip(class.last_stamp)
        .map_or(0.0, |(a, b)| b.saturating_sub(a) as f64 / 1e6);
    let time_sum = class.sum(Metric::QueryTime) as f64 / 1e9;
    let (qps, concurrency) = rates(class.count, time_sum, span);
    // Its offsets count from behind the `#` that begins an event of a slow log; the first begins with the file.
    let offset = match class.sample.place.offset {
        _ if Some(class.sample.place) == first => 0,
        0 => 0,
        offset if timed => offset + 1,
        offset => offset,
    };
    let title = format!(
        "# Query {rank}: {qps} QPS, {concurrency}x concurrency, ID 0x{} at byte {offset} ",
        key::id(&class.key)
    );
    writeln!(out, "\n{}", underscored(title).trim_end())?;
    let why = if reason == Reason::Rank { "--limit" } else { "--outliers" };
    writeln!(out, "# This item is included in the report because it matches {why}.")?;
    writeln!(out, "# Scores: V/M = {:.2}", variance_to_mean(class))?;
    if class.first_stamp.is_none() && overall.first_stamp.is_some() {
        writeln!(out, "# Time range: unknown")?;
    }
    time_range(class, zoned, out)?;
    writeln!(out, "# Attribute    pct   total     min     max     avg     95%  stddev  median")?;
    writeln!(out, "# ============ === ======= ======= ======= ======= ======= ======= =======")?;
    writeln!(
        out,
        "# Count        {:3} {:>7}",
        class.count * 100 / overall.count.max(1),
        class.count
    )?;
    attributes(class, Some(overall), timed, out)?;
    booleans(class, out)?;
    let known = |top: &Top| top.sorted().iter().any(|s| s.id != UNKNOWN);
    // A line `User@Host` may leave user or host empty.
    let tells = timed || *class.key == *b"administrator command: Connect";
    let who = tells && (known(&class.hosts) || known(&class.users));
    let lines = [
        ("Databases", &class.dbs, known(&class.dbs)),
        ("Hosts", &class.hosts, who),
        ("Users", &class.users, who),
    ];
    if lines.iter().any(|line| line.2) {
        writeln!(out, "# String:")?;
    }
    for (what, top, _) in lines.into_iter().filter(|line| line.2) {
        strings(what, top, class.count, names, out)?;
    }
    distribution(class, out)?;
    tables(class, out)?;
    statement::write(&class.sample.sql, out)
}

fn strings(
    what: &str,
    top: &Top,
    count: u64,
    names: &Names,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut all = top.sorted();
    all.retain(|s| s.id != UNKNOWN);
    // Names that were not told apart come last.
    all.sort_by_key(|s| (s.id == OTHERS, Reverse(s.count), names.name(s.id)));
    let name = |s: &Share| String::from_utf8_lossy(names.name(s.id)).into_owned();
    let shares: Vec<(String, u64)> = all.iter().map(|s| (name(s), s.count)).collect();
    let cut = |name: &str, most: usize| match name.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    };
    let mut line = format!("# {what:12}");
    if let [(name, _)] = &shares[..] {
        return writeln!(out, "{line} {}", cut(name, NAMES));
    }
    let mut width = 0;
    for (i, (name, n)) in shares.iter().enumerate() {
        let one = format!("{} ({n}/{}%)", cut(name, NAME), n * 100 / count.max(1));
        width += one.chars().count();
        if i > 0 && width > NAMES {
            line += &format!("... {} more", shares.len() - i);
            break;
        }
        line += if i > 0 { ", " } else { " " };
        line += &one;
    }
    writeln!(out, "{}", line.trim_end())
}

fn distribution(class: &Class, out: &mut dyn Write) -> io::Result<()> {
    const LABELS: [&str; 8] =
        ["  1us", " 10us", "100us", "  1ms", " 10ms", "100ms", "   1s", " 10s+"];
    let decades = class.summary(Metric::QueryTime).map_or([0; 8], |s| {
        let mut decades = s.decades();
        // A zero has no bar in that tool.
        let zeros = s.histogram().iter().filter(|b| b.1 <= 0.0).map(|b| b.2).sum::<u64>();
        decades[0] = decades[0].saturating_sub(zeros);
        decades
    });
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
    frond_sqltext::tables(&class.sample.sql, SqlMode::default(), &mut found);
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
    use super::percent;

    #[test]
    fn percents_are_cut_off_and_exact() {
        assert_eq!(percent(232_000, 800_000), 29);
        assert_eq!((percent(231_999, 800_000), percent(0, 7), percent(7, 7)), (28, 0, 100));
        assert_eq!(percent(5, 0), 0, "nothing was logged at all");
        assert_eq!(percent(u64::MAX, u64::MAX), 100);
    }
}
