//! `frond-demo iibench`: all engines in turn, then the comparison.
//!
//! Purpose: the budget of time, the order, the directory of the run, and what is printed.
//!
//! Invariants
//!
//! - HI1. With the default caps the whole takes at most `budget` seconds: an engine's cap shrinks when
//!   what is left, less a reserve for the engines after it, is smaller.
//! - HI2. An engine that cannot be loaded or fails costs a line, not the others' results.
//! - HI3. The working directory (servers' data) is removed at the end, also after an error.
//!
//! Tested below (budget); the rest by the smoke run in the test suite.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::engines::{Engine, PluginDirs};
use crate::interrupt;
use crate::limits;
use crate::report::{self, Setup};
use crate::result::{EngineResult, Verified};
use crate::run::{self, Miss, Plan};
use crate::server::{Programs, Site};
use crate::table;
use crate::units;

/// Seconds kept for what comes with each engine beside its inserts: start, settling, check, stop.
const RESERVE_SECONDS: u64 = 32;
/// Bytes of disk that a row may need while a compaction holds two copies of it.
const DISK_BYTES_PER_ROW: u64 = 600;
const DISK_BYTES_FIXED: u64 = 3 << 30;

pub struct Options {
    pub programs: Programs,
    pub plugins: PluginDirs,
    pub iibench: PathBuf,
    pub out: PathBuf,
    pub engines: Vec<Engine>,
    pub rows: u64,
    pub cache: u64,
    pub seed: u64,
    pub query_rate: u32,
    /// Seconds per engine; `None`: the defaults, within the budget. `Some(0)`: no limit.
    pub cap: Option<u64>,
    /// Seconds for the whole run when `cap` is `None`.
    pub budget: u64,
    /// Print the limits, and fail when one is missed.
    pub limits: bool,
    /// The server has a binary log, synced about once a second as the engines' logs are.
    pub binlog: bool,
}

/// Removes the directory with the servers' data when the run ends, however it ends.
struct WorkDir(PathBuf);

impl WorkDir {
    fn create(out: &Path) -> Result<WorkDir, String> {
        let dir = out.join("work");
        let failed = |e: std::io::Error| format!("{}: {e}", dir.display());
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(failed)?;
        }
        fs::create_dir_all(&dir).map_err(failed)?;
        let dir = dir.canonicalize().map_err(failed)?;
        Ok(WorkDir(dir))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs everything. `Ok(false)` when a table had the wrong content, when Frond was requested and did
/// not run, or when `limits` is set and one was missed. A missing rival is only a gap in the
/// comparison.
pub fn run(options: &Options) -> Result<bool, String> {
    let start = Instant::now();
    fs::create_dir_all(&options.out).map_err(|e| format!("{}: {e}", options.out.display()))?;
    let work = WorkDir::create(&options.out)?;
    check_disk(&work.0, options.rows)?;
    let mut setup = describe(options)?;
    announce(options, &setup);

    let site = Site::create(options.programs.clone(), &work.0)?;
    let mut results: Vec<EngineResult> = Vec::new();
    for (i, &engine) in options.engines.iter().enumerate() {
        let left = (options.engines.len() - i) as u64;
        let cap = cap_seconds(options, engine, start.elapsed().as_secs(), left);
        let plan = Plan {
            site: &site,
            plugins: &options.plugins,
            iibench: &options.iibench,
            cache: options.cache,
            rows: options.rows,
            seed: options.seed,
            query_rate: options.query_rate,
            max_seconds: cap,
            binlog: options.binlog,
        };
        match run::run(engine, &plan) {
            Ok(result) => {
                print_summary(&result);
                results.push(result);
            }
            Err(_) if interrupt::requested() => return Err(interrupt::MESSAGE.into()),
            Err(Miss::Skipped(why)) => {
                println!("  {:<10}skipped: {why}", engine.label());
                setup.missing.push((engine.label().into(), why));
            }
            Err(Miss::Failed(why)) => {
                println!("  {:<10}FAILED: {why}", engine.label());
                setup.missing.push((engine.label().into(), why));
            }
        }
    }
    drop(site);
    drop(work);
    if results.is_empty() {
        return Err("no engine could be run".into());
    }
    setup.total_seconds = start.elapsed().as_secs_f64();
    finish(options, &setup, &results)
}

/// Seconds for the inserts of `engine` (0: no limit), when `left` engines, itself included, are still
/// to run.
fn cap_seconds(options: &Options, engine: Engine, elapsed: u64, left: u64) -> u64 {
    match options.cap {
        Some(cap) => cap,
        None => {
            let available = options.budget.saturating_sub(elapsed + left * RESERVE_SECONDS);
            engine.default_cap_seconds().min(available).max(5)
        }
    }
}

fn describe(options: &Options) -> Result<Setup, String> {
    let output = Command::new(&options.programs.mariadbd)
        .args(["--no-defaults", "--version"])
        .output()
        .map_err(|e| format!("cannot start {}: {e}", options.programs.mariadbd.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().find(|w| w.contains("MariaDB")).unwrap_or("unknown");
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_kib: u64 = memory
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:"))
        .and_then(|l| l.split_whitespace().next()?.parse().ok())
        .unwrap_or(0);
    Ok(Setup {
        server: format!("MariaDB {}", version.split("-MariaDB").next().unwrap_or(version)),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get()),
        memory_bytes: memory_kib * 1024,
        cache_bytes: options.cache,
        rows: options.rows,
        seed: options.seed,
        query_rate: options.query_rate,
        total_seconds: 0.0,
        missing: Vec::new(),
    })
}

fn announce(options: &Options, setup: &Setup) {
    println!(
        "\niiBench: {} rows, {} of cache, {}, {} CPUs",
        units::grouped(options.rows),
        units::bytes(options.cache),
        setup.server,
        setup.cpus
    );
    println!("  table     purchases_index: primary key and three secondary indexes");
    println!("  load      1000 rows per INSERT, autocommit, one connection, seed {}", options.seed);
    println!(
        "  queries   one LIMIT 10 range on each index, {} rounds per second, second connection",
        options.query_rate
    );
    println!("  fairness  same server, cache bytes, log written at commit and synced each second,");
    let log = if options.binlog { "a" } else { "no" };
    println!("            direct I/O, {log} binary log; engines run one after another\n");
    for engine in &options.engines {
        println!("  {}", engine.label());
        for line in engine.settings(options.cache) {
            for (i, part) in wrapped(&line, 92).into_iter().enumerate() {
                println!("    {}{part}", if i == 0 { "" } else { "    " });
            }
        }
    }
    println!();
}

/// Splits a setting at semicolons so that no piece is much longer than `width`.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut out = vec![String::new()];
    for piece in line.split_inclusive(';') {
        let last = out.last_mut().filter(|l| l.is_empty() || l.len() + piece.len() <= width);
        match last {
            Some(l) => l.push_str(piece),
            None => out.push(piece.to_string()),
        }
    }
    out
}

fn print_summary(r: &EngineResult) {
    println!(
        "  {:<10}{:>10} rows/s ({} at the end), {} us server CPU and {} B written per row{}",
        r.label,
        units::grouped(r.rate().round() as u64),
        units::grouped(r.rate_at_end().round() as u64),
        units::significant(r.cpu_us_per_row()),
        units::grouped(r.written_per_row().round() as u64),
        if r.stopped_early() {
            format!("; stopped at {} rows", units::grouped(r.end.rows))
        } else {
            String::new()
        }
    );
    if !r.reported_settings.is_empty() {
        println!("            the server reports {}", r.reported_settings.join(" "));
    }
}

fn finish(options: &Options, setup: &Setup, results: &[EngineResult]) -> Result<bool, String> {
    println!("\n{}", table::terminal(&table::cells(results)));
    for note in report::notes(setup, results) {
        println!("  * {note}");
    }
    for (engine, why) in &setup.missing {
        println!("  * {engine} did not run: {}", why.lines().next().unwrap_or(""));
    }
    let files = report::write(&options.out, setup, results)?;
    println!("\n  took {:.0} s; results:", setup.total_seconds);
    for file in files {
        println!("    {}", file.display());
    }
    let verdicts =
        if options.limits { limits::verdicts(setup.cache_bytes, results) } else { Vec::new() };
    let missed = verdicts.iter().any(|v| !v.met);
    if options.limits {
        println!("\n{}", limits::text(&verdicts));
    }
    let wrong = results.iter().any(|r| matches!(r.verified, Verified::Wrong(_)));
    let frond = Engine::Frond;
    let absent =
        options.engines.contains(&frond) && !results.iter().any(|r| r.engine == frond.key());
    Ok(!wrong && !absent && !missed)
}

/// Refuses to start a run that would fill the disk.
fn check_disk(dir: &Path, rows: u64) -> Result<(), String> {
    let needed = DISK_BYTES_FIXED + rows * DISK_BYTES_PER_ROW;
    let output = Command::new("df").args(["-B1", "--output=avail"]).arg(dir).output();
    let Ok(output) = output else { return Ok(()) };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.lines().nth(1).and_then(|l| l.trim().parse::<u64>().ok()) {
        Some(free) if free < needed => Err(format!(
            "{} has {} free, {} rows may need {}: use fewer ROWS or another OUT",
            dir.display(),
            units::bytes(free),
            units::grouped(rows),
            units::bytes(needed)
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(cap: Option<u64>) -> Options {
        Options {
            programs: Programs { mariadbd: "a".into(), install_db: "b".into(), client: "c".into() },
            plugins: PluginDirs { server: "d".into(), frond: "e".into() },
            iibench: "f".into(),
            out: "g".into(),
            engines: vec![Engine::InnoDb, Engine::MyRocks, Engine::Frond],
            rows: 5_000_000,
            cache: 256 << 20,
            seed: 1,
            query_rate: 10,
            cap,
            budget: 350,
            limits: false,
            binlog: false,
        }
    }

    #[test]
    fn default_caps_keep_the_whole_within_the_budget() {
        let o = options(None);
        let mut elapsed = 10; // making the system tables
        for (i, &engine) in o.engines.iter().enumerate() {
            let left = (o.engines.len() - i) as u64;
            elapsed += cap_seconds(&o, engine, elapsed, left) + RESERVE_SECONDS;
        }
        assert!(elapsed <= o.budget, "{elapsed}");
    }

    #[test]
    fn a_given_cap_is_taken_as_it_is() {
        assert_eq!(cap_seconds(&options(Some(0)), Engine::InnoDb, 1000, 3), 0);
        assert_eq!(cap_seconds(&options(Some(9)), Engine::InnoDb, 1000, 3), 9);
    }

    #[test]
    fn an_overdrawn_budget_still_leaves_a_glimpse() {
        assert_eq!(cap_seconds(&options(None), Engine::Frond, 9999, 1), 5);
    }

    #[test]
    fn long_settings_are_broken_at_semicolons_only() {
        let parts = wrapped("x=aaaa;bbbb;cccc", 10);
        assert_eq!(parts, ["x=aaaa;", "bbbb;cccc"]);
        assert_eq!(wrapped("short", 10), ["short"]);
    }
}
