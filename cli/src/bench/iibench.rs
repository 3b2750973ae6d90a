//! `frond bench iibench`: the insert benchmark without a server.
//!
//! One thread inserts, a transaction per batch, through the same typed rows that the SQL plugin
//! uses; a second one may read short ranges. The figures include the engine's background threads:
//! CPU time and bytes are those of the process.
//!
//! Invariants:
//!
//! - IB1. A transaction's latency is from its begin to its acknowledged commit; making the rows
//!   (some 20 ns each) is inside.
//! - IB2. The data directory is removed at the end, also after an error, unless it is to be kept.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use frond_engine::{Durability, Engine, Options, Table};
use frond_tree::Tree;
use frond_vfs::{OsVfs, Vfs};
use serde::Serialize;

use crate::args::IibenchArgs;
use crate::bench::checked::Checked;
use crate::bench::inserters::Inserters;
use crate::bench::process::Usage;
use crate::bench::purchases;
use crate::bench::queries::Queries;
use crate::check;
use crate::out::{bytes, grouped, Failure, Outcome};

const TABLE: &str = "bench/purchases_index";

/// Figures of an interval of the run.
#[derive(Clone, Serialize)]
struct Stretch {
    /// Rows in the table at its end.
    rows: u64,
    seconds: f64,
    rows_per_second: f64,
    cpu_us_per_row: f64,
    written_bytes_per_row: f64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
    rss_bytes: u64,
    /// Background work that is waiting, from the engine's status.
    debt_bytes: u64,
}

/// Rows committed in each whole second of the run.
#[derive(Default)]
struct Seconds {
    rows: Vec<u64>,
    /// The rows of all seconds so far.
    counted: u64,
}

impl Seconds {
    /// `done` rows are committed at `at` since the begin. A transaction that takes longer than a second leaves seconds without rows.
    fn see(&mut self, at: Duration, done: u64) {
        while self.rows.len() < at.as_secs() as usize {
            self.rows.push(done - self.counted);
            self.counted = done;
        }
    }

    fn figures(&self) -> Option<Evenness> {
        let slowest = *self.rows.iter().min()?;
        let mean = self.counted as f64 / self.rows.len() as f64;
        let below = self.rows.iter().filter(|n| (**n as f64) < 0.6 * mean).count();
        Some(Evenness {
            seconds: self.rows.len(),
            slowest_of_mean: slowest as f64 / mean.max(1.0),
            below_60_percent: below,
        })
    }
}

/// How even the rate was. Absent for a run of less than a second.
#[derive(Debug, PartialEq, Serialize)]
struct Evenness {
    seconds: usize,
    /// Rows of the slowest second, as a part of the mean's.
    slowest_of_mean: f64,
    /// Seconds with less than 60 % of the mean's rows.
    below_60_percent: usize,
}

/// The writes of an index, up to the last row.
#[derive(Serialize)]
struct IndexFigures {
    index: u16,
    entries_flushed: u64,
    /// Write buffers that were flushed.
    freezes: u64,
    /// How often an entry was written to a run, on average.
    writes_per_entry: f64,
    stored_bytes_per_entry: f64,
    deltas: u64,
    mean_delta_bytes: u64,
    leaves: u64,
    height: usize,
    runs_per_read: f64,
}

impl IndexFigures {
    fn of(tree: &Tree) -> IndexFigures {
        let s = tree.stats();
        IndexFigures {
            index: tree.id().index,
            entries_flushed: s.entries_flushed,
            freezes: s.freezes,
            writes_per_entry: s.entries_written as f64 / s.entries_flushed.max(1) as f64,
            stored_bytes_per_entry: s.run_bytes as f64 / s.entries.max(1) as f64,
            deltas: s.deltas,
            mean_delta_bytes: s.delta_bytes / s.deltas.max(1),
            leaves: s.leaves,
            height: s.height,
            runs_per_read: tree.runs_per_read(),
        }
    }
}

/// Bytes allocated on disk, holes not counted. The log is allocated ahead, a segment at a time.
#[derive(Clone, Copy, Default, Serialize)]
struct Disk {
    table_bytes: u64,
    log_bytes: u64,
}

#[derive(Serialize)]
struct Report {
    rows: u64,
    cache_bytes: u64,
    durability: u8,
    batch: u32,
    threads: u16,
    background_threads: u16,
    intervals: Vec<Stretch>,
    total: Stretch,
    evenness: Option<Evenness>,
    indexes: Vec<IndexFigures>,
    /// Bytes allocated on disk when the last row was in, and after all background work.
    disk: Disk,
    settled_disk: Disk,
    settle_seconds: f64,
    peak_rss_bytes: u64,
    query_rounds: u64,
    query_p50_us: u64,
    query_p99_us: u64,
    /// Absent unless requested.
    check_table: Option<Checked>,
    /// Findings of the check at the end; absent unless requested.
    verified: Option<Vec<String>>,
    status: std::collections::BTreeMap<&'static str, u64>,
}

/// A directory that is removed when the run ends, however it ends (IB2).
struct Work {
    path: PathBuf,
    keep: bool,
}

impl Work {
    fn create(parent: &Path, keep: bool) -> Outcome<Work> {
        if !parent.is_dir() {
            return Err(Failure::Request(format!(
                "{}: there is no such directory; make it, or give another one with --dir",
                parent.display()
            )));
        }
        let path = parent.join(format!("frond-bench.{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| {
            Failure::Request(format!(
                "cannot make {}: {e}; give another place with --dir",
                path.display()
            ))
        })?;
        Ok(Work { path, keep })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.keep {
            // An error here cannot be reported; the directory simply remains.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Runs the benchmark. False when the check at the end found problems.
pub fn run(args: &IibenchArgs, out: &mut dyn Write) -> Outcome<bool> {
    if args.rows == 0 {
        return Err(Failure::Request("--rows 0: give at least one row".into()));
    }
    let work = Work::create(&args.dir, args.keep)?;
    let vfs: Arc<dyn Vfs> = Arc::new(
        OsVfs::new(&work.path)
            .map_err(|e| Failure::Request(format!("cannot open {}: {e}", work.path.display())))?,
    );
    let report = measure(args, &work, &vfs, out)?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report).unwrap_or_default())?;
    } else {
        summary(&report, out)?;
        if args.keep {
            writeln!(out, "the database is in {}", work.path.display())?;
        }
    }
    let sound = |findings: &Vec<String>| findings.is_empty();
    Ok(report.verified.as_ref().is_none_or(sound)
        && report.check_table.as_ref().is_none_or(|c| sound(&c.problems)))
}

fn measure(
    args: &IibenchArgs,
    work: &Work,
    vfs: &Arc<dyn Vfs>,
    out: &mut dyn Write,
) -> Outcome<Report> {
    let options = Options {
        cache_bytes: args.cache,
        durability: Durability::from_u8(args.durability).unwrap_or(Durability::Write),
        background_threads: usize::from(args.background),
        ..Options::default()
    };
    let engine = Arc::new(Engine::open(vfs.clone(), options)?);
    let table = engine.create_table(purchases::spec(TABLE))?;
    let queries = Queries::start(vfs, &engine, &table, args)?;
    let inserted = insert(args, vfs, &engine, &table, out);
    let (query_rounds, mut query_us) = queries.stop();
    let (intervals, total, seconds) = inserted?;
    let indexes = table.trees().iter().map(IndexFigures::of).collect();
    let disk = allocated(&work.path);
    let settle = vfs.now();
    engine.flush_all()?;
    let settle_seconds = (vfs.now() - settle).as_secs_f64();
    let settled_disk = allocated(&work.path);
    let peak_rss_bytes = Usage::now().peak_rss_bytes;
    let check_table = match args.check_table {
        true => Some(Checked::run(vfs, &engine, &table, args.rows)?),
        false => None,
    };
    let status = engine.status().into_iter().collect();
    drop(table);
    engine.close()?;
    drop(engine);
    query_us.sort_unstable();
    Ok(Report {
        rows: args.rows,
        cache_bytes: args.cache,
        durability: args.durability,
        batch: args.batch,
        threads: args.threads,
        background_threads: args.background,
        intervals,
        total,
        evenness: seconds.figures(),
        indexes,
        disk,
        settled_disk,
        settle_seconds,
        peak_rss_bytes,
        query_rounds,
        query_p50_us: percentile(&query_us, 50),
        query_p99_us: percentile(&query_us, 99),
        check_table,
        verified: if args.verify { Some(verify(args, vfs)?) } else { None },
        status,
    })
}

/// The whole database, offline, after the engine was closed.
fn verify(args: &IibenchArgs, vfs: &Arc<dyn Vfs>) -> Outcome<Vec<String>> {
    let options = check::Options { cache_bytes: args.cache, ..check::Options::default() };
    let report = check::run(vfs.clone(), &options, &mut |_| {})?;
    let mut findings: Vec<String> = report.findings.into_iter().map(|f| f.what).collect();
    if report.rows != args.rows {
        findings.push(format!("{} rows inserted, {} found", args.rows, report.rows));
    }
    Ok(findings)
}

/// The beginning of an interval.
struct Mark {
    rows: u64,
    at: Duration,
    usage: Usage,
}

impl Mark {
    fn now(vfs: &Arc<dyn Vfs>, rows: u64) -> Mark {
        Mark { rows, at: vfs.now(), usage: Usage::now() }
    }

    fn stretch(&self, end: &Mark, debt_bytes: u64, latencies: &mut [u64]) -> Stretch {
        latencies.sort_unstable();
        let rows = (end.rows - self.rows).max(1) as f64;
        let seconds = (end.at - self.at).as_secs_f64();
        let written = end.usage.write_bytes.saturating_sub(self.usage.write_bytes);
        Stretch {
            rows: end.rows,
            seconds,
            rows_per_second: rows / seconds.max(1e-9),
            cpu_us_per_row: (end.usage.cpu_seconds - self.usage.cpu_seconds) * 1e6 / rows,
            written_bytes_per_row: written as f64 / rows,
            p50_us: percentile(latencies, 50),
            p99_us: percentile(latencies, 99),
            max_us: latencies.last().copied().unwrap_or(0),
            rss_bytes: end.usage.rss_bytes,
            debt_bytes,
        }
    }
}

/// Inserts all rows; returns the figures of each interval, of the whole, and the rows of each second.
fn insert(
    args: &IibenchArgs,
    vfs: &Arc<dyn Vfs>,
    engine: &Arc<Engine>,
    table: &Arc<Table>,
    out: &mut dyn Write,
) -> Outcome<(Vec<Stretch>, Stretch, Seconds)> {
    let interval = args.interval.unwrap_or(args.rows / 20).max(u64::from(args.batch));
    if !args.json {
        heading(args, out)?;
    }
    let (mut intervals, mut all, mut seconds) = (Vec::new(), Vec::new(), Seconds::default());
    let first = Mark::now(vfs, 0);
    let mut last = Mark::now(vfs, 0);
    let mut inserters = Inserters::start(args, vfs, engine, table)?;
    let mut more = true;
    while more {
        more = inserters.step();
        if !more {
            inserters.finish()?;
        }
        let done = inserters.done();
        seconds.see(vfs.now() - first.at, done);
        if done - last.rows >= interval || (!more && done > last.rows) {
            let mark = Mark::now(vfs, done);
            let mut latencies = inserters.take_latencies();
            let stretch = last.stretch(&mark, debt(engine), &mut latencies);
            if !args.json {
                line(&stretch, out)?;
            }
            intervals.push(stretch);
            all.append(&mut latencies);
            last = mark;
        }
    }
    let total = first.stretch(&last, debt(engine), &mut all);
    Ok((intervals, total, seconds))
}

fn debt(engine: &Engine) -> u64 {
    engine.status().iter().find(|(n, _)| *n == "merge_debt_bytes").map_or(0, |(_, v)| *v)
}

/// The value below or at which `percent` of a sorted list are.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    match sorted.len() {
        0 => 0,
        n => sorted[(n * percent).div_ceil(100).clamp(1, n) - 1],
    }
}

/// Bytes that the files of a database take.
fn allocated(dir: &Path) -> Disk {
    use std::os::unix::fs::MetadataExt;
    let mut disk = Disk::default();
    let Ok(entries) = std::fs::read_dir(dir) else { return disk };
    for entry in entries.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        match entry.file_name().to_str() {
            Some(name) if name.ends_with(".frd") => disk.table_bytes += meta.blocks() * 512,
            _ => disk.log_bytes += meta.blocks() * 512,
        }
    }
    disk
}

fn heading(args: &IibenchArgs, out: &mut dyn Write) -> Outcome<()> {
    writeln!(
        out,
        "iibench, embedded: {} rows, {} a transaction, {} thread(s), cache {}, durability {}, \
         seed {}\n",
        grouped(args.rows),
        args.batch,
        args.threads,
        bytes(args.cache),
        args.durability,
        args.seed
    )?;
    writeln!(
        out,
        "{:>13} {:>10} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9} {:>9}",
        "rows", "rows/s", "CPU us", "B/row", "p50 ms", "p99 ms", "max ms", "RSS", "debt"
    )?;
    out.flush()?;
    Ok(())
}

fn line(s: &Stretch, out: &mut dyn Write) -> Outcome<()> {
    writeln!(
        out,
        "{:>13} {:>10} {:>9.2} {:>9.0} {:>8.2} {:>8.2} {:>9.2} {:>9} {:>9}",
        grouped(s.rows),
        grouped(s.rows_per_second.round() as u64),
        s.cpu_us_per_row,
        s.written_bytes_per_row,
        s.p50_us as f64 / 1000.0,
        s.p99_us as f64 / 1000.0,
        s.max_us as f64 / 1000.0,
        bytes(s.rss_bytes),
        bytes(s.debt_bytes)
    )?;
    // Somebody may be watching; flushing a line costs nothing compared with its rows.
    out.flush()?;
    Ok(())
}

fn summary(r: &Report, out: &mut dyn Write) -> Outcome<()> {
    let t = &r.total;
    writeln!(
        out,
        "\nwhole run      {} rows/s in {:.1} s; {:.2} us CPU and {:.0} bytes written per row",
        grouped(t.rows_per_second.round() as u64),
        t.seconds,
        t.cpu_us_per_row,
        t.written_bytes_per_row
    )?;
    for i in &r.indexes {
        writeln!(
            out,
            "index {}        {:.2} writes per entry, {:.2} bytes stored; deltas of {}, {} leaves, {:.1} runs per read",
            i.index,
            i.writes_per_entry,
            i.stored_bytes_per_entry,
            bytes(i.mean_delta_bytes),
            i.leaves,
            i.runs_per_read
        )?;
    }
    writeln!(
        out,
        "transactions   p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
        t.p50_us as f64 / 1000.0,
        t.p99_us as f64 / 1000.0,
        t.max_us as f64 / 1000.0
    )?;
    if let Some(e) = &r.evenness {
        writeln!(
            out,
            "seconds        the slowest has {:.2} of the mean's rows; {} of {} have less than 0.6",
            e.slowest_of_mean, e.below_60_percent, e.seconds
        )?;
    }
    writeln!(
        out,
        "memory         {} at most, with a cache of {}",
        bytes(r.peak_rss_bytes),
        bytes(r.cache_bytes)
    )?;
    writeln!(
        out,
        "tables         {} on disk ({:.0} bytes per row), {} ({:.0}) when settled, {:.1} s later",
        bytes(r.disk.table_bytes),
        r.disk.table_bytes as f64 / r.rows.max(1) as f64,
        bytes(r.settled_disk.table_bytes),
        r.settled_disk.table_bytes as f64 / r.rows.max(1) as f64,
        r.settle_seconds
    )?;
    writeln!(
        out,
        "log            {} on disk, {} when settled",
        bytes(r.disk.log_bytes),
        bytes(r.settled_disk.log_bytes)
    )?;
    if r.query_rounds > 0 {
        writeln!(
            out,
            "range reads    {} rounds of 3; p50 {} us, p99 {} us",
            grouped(r.query_rounds),
            r.query_p50_us,
            r.query_p99_us
        )?;
    }
    if let Some(c) = &r.check_table {
        writeln!(
            out,
            "CHECK TABLE    {} rows/s, {:.2} us CPU per row; pages {:.2} s, entries {:.2} s",
            grouped(c.rows_per_second.round() as u64),
            c.cpu_us_per_row,
            c.pages.seconds,
            c.entries.seconds
        )?;
        for problem in &c.problems {
            writeln!(out, "PROBLEM        {problem}")?;
        }
    }
    match &r.verified {
        Some(findings) if findings.is_empty() => {
            writeln!(out, "verified       every page, row and index entry")?;
        }
        Some(findings) => {
            for finding in findings {
                writeln!(out, "PROBLEM        {finding}")?;
            }
        }
        None => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_leaves_seconds_without_rows() {
        let (mut seconds, ms) = (Seconds::default(), Duration::from_millis);
        for (at, done) in [(500, 10), (990, 20), (1010, 21), (1900, 40), (4100, 50), (4900, 70)] {
            seconds.see(ms(at), done);
        }
        assert_eq!(seconds.rows, [21, 29, 0, 0]);
        let want = Evenness { seconds: 4, slowest_of_mean: 0.0, below_60_percent: 2 };
        assert_eq!(seconds.figures(), Some(want));
        assert_eq!(Seconds::default().figures(), None);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&sorted, 50), 100);
        assert_eq!(percentile(&sorted, 99), 198);
        assert_eq!(percentile(&sorted, 100), 200);
        assert_eq!(percentile(&[7], 1), 7);
        assert_eq!(percentile(&[], 50), 0);
    }
}
