//! `frond-demo hot`: look-ups of hot rows that lie at random in a table much larger than the cache.
//!
//! Purpose: how many distinct hot rows an engine serves without reading. Engines that cache pages keep a whole page for
//! each hot row. For every size of the hot set each engine is warmed up and then measured, in one server.
//!
//! Invariants
//!
//! - HOT1. The size of a hot set is given in rows per page of 16 KiB that the cache could hold, so the figures of small
//!   and large runs are comparable.
//! - HOT2. Nothing is measured while an engine still works on the rows that were loaded.
//!
//! `cold.rs` has `frond-demo cold`, where every row is as likely as any other. Not here: the look-ups
//! (`bench/oltp/hot.lua`). Tested below, and by hand.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::engines::Engine;
use crate::interrupt;
use crate::oltp::{self, Options};
use crate::sample::{sample, Sample};
use crate::server::Server;
use crate::sysbench;
use crate::table;
use crate::units;

mod cold;

pub use cold::run as run_cold;

/// Hot rows per hundred pages of 16 KiB that the cache holds; the last is 204 800 rows for a cache of 128 MiB.
const SETS: [u64; 6] = [10, 40, 160, 640, 1250, 2500];
const PAGE: u64 = 16 << 10;
/// Rows of one INSERT while the table is filled.
const CHUNK: u64 = 50_000;
/// Look-ups of a warm-up: at least this many, and so many per hot row: of a million rows that are looked up at random, two have
/// then not come twice, which is when Frond caches a row.
const WARM_LEAST: u64 = 20_000;
const WARM_EACH: u64 = 16;
/// Of a warm-up with all rows: one for so many bytes of the cache, which then holds nothing of the set before.
const WARM_BYTES: u64 = 1 << 10;
/// The longest time of a warm-up, in seconds.
const WARM_SECONDS: u64 = 90;
/// Seconds of a measurement at scale 1.
const SECONDS: f64 = 10.0;

/// What one measurement gave.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    rate: f64,
    cpu_us: f64,
    read: f64,
}

/// Runs everything and prints a table. `Ok(false)` when an engine that was asked for did not run.
pub fn run(options: &Options) -> Result<bool, String> {
    let (_work, path, site) = oltp::site(options)?;
    let (server, engines) = oltp::start(options, &site, &path, &[])?;
    println!(
        "\nHot rows: a table of {} rows, {} of cache per engine, {} threads\n",
        units::grouped(options.rows),
        units::bytes(options.cache),
        options.threads,
    );
    let sets = sets(options.cache, options.rows);
    let mut measured = Vec::new();
    for &engine in &engines {
        fill(options, &server, engine)?;
        until_quiet(&server)?;
        let mut of_engine = Vec::new();
        for (i, &hot) in sets.iter().enumerate() {
            let one = measure(options, &server, engine, &Set::hot(options, hot, i))?;
            tell(engine, &format!("{:>11} hot rows", units::grouped(hot)), &one);
            of_engine.push(one);
        }
        measured.push(of_engine);
        if engine == Engine::Frond {
            without_rows(options, &server)?;
        }
    }
    finish(options, "hot rows", "hot.md", &engines, &names(&sets), &measured)
}

/// Prints one measurement.
fn tell(engine: Engine, what: &str, one: &Measured) {
    println!(
        "  {:<8} {what}: {:>8} look-ups/s, {:>5} us CPU, {:>7} bytes read each",
        engine.label(),
        units::grouped(one.rate as u64),
        units::significant(one.cpu_us),
        units::grouped(one.read as u64)
    );
}

/// Prints the table and writes it to `file`. `Ok(false)` as [`run`].
fn finish(
    options: &Options,
    what: &str,
    file: &str,
    engines: &[Engine],
    names: &[String],
    measured: &[Vec<Measured>],
) -> Result<bool, String> {
    let labels: Vec<&str> = engines.iter().map(|e| e.label()).collect();
    let cells = cells(what, &labels, names, measured);
    println!("\n{}", table::terminal(&cells));
    let file = options.out.join(file);
    fs::write(&file, table::markdown(&cells)).map_err(|e| format!("{}: {e}", file.display()))?;
    println!("  the same as Markdown: {}", file.display());
    Ok(engines.len() == options.engines.len())
}

/// The rows that are looked up, and how.
struct Set {
    rows: u64,
    /// The column that is asked for.
    by: &'static str,
    threads: u32,
    /// No two sets of a run ask for the same rows in the same order.
    seed: usize,
}

impl Set {
    fn hot(options: &Options, rows: u64, seed: usize) -> Set {
        Set { rows, by: "id", threads: options.threads, seed }
    }
}

/// Sizes of the hot sets, in rows (HOT1); the last is the whole table.
fn sets(cache: u64, rows: u64) -> Vec<u64> {
    let of = |percent: u64| (cache / PAGE * percent / 100).max(1);
    let mut sets: Vec<u64> = SETS.into_iter().map(of).filter(|hot| *hot < rows / 2).collect();
    sets.push(rows);
    sets
}

fn names(sets: &[u64]) -> Vec<String> {
    let last = sets.len() - 1;
    let name = |(i, hot): (usize, &u64)| {
        format!("{}{}", if i == last { "all " } else { "" }, units::grouped(*hot))
    };
    sets.iter().enumerate().map(name).collect()
}

/// Makes the table. In the order of `n` the rows lie at random.
fn fill(options: &Options, server: &Server, engine: Engine) -> Result<(), String> {
    let database = oltp::database(engine);
    server.sql(&format!(
        "CREATE DATABASE {database}; \
         CREATE TABLE {database}.hot (id INT PRIMARY KEY, k INT NOT NULL, n BIGINT NOT NULL, \
         c VARCHAR(208) CHARACTER SET latin1 NOT NULL) ENGINE={}",
        engine.sql_name()
    ))?;
    let mut from = 1;
    while from <= options.rows {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.into());
        }
        let upto = (from + CHUNK - 1).min(options.rows);
        // Random bytes do not compress: a cached page must not hold more rows than its size says.
        server.sql(&format!(
            "USE {database}; INSERT INTO {database}.hot \
             SELECT seq, seq % 1000, seq * 48271 % 2147483647, CONCAT(UNHEX(SHA2(seq, 512)), UNHEX(SHA2(-seq, 512)), \
             UNHEX(SHA2(seq + 0.5, 512)), UNHEX(MD5(seq))) FROM seq_{from}_to_{upto}"
        ))?;
        from = upto + 1;
    }
    Ok(())
}

/// Waits until the server is quiet (HOT2).
pub fn until_quiet(server: &Server) -> Result<(), String> {
    let began = Instant::now();
    let mut before = sample(server.pid())?.cpu_seconds;
    while began.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_secs(1));
        let now = sample(server.pid())?.cpu_seconds;
        if now - before < 0.05 {
            break;
        }
        before = now;
    }
    Ok(())
}

fn measure(
    options: &Options,
    server: &Server,
    engine: Engine,
    set: &Set,
) -> Result<Measured, String> {
    if interrupt::requested() {
        return Err(interrupt::MESSAGE.into());
    }
    let warm = match set.rows == options.rows {
        true => options.cache / WARM_BYTES,
        false => set.rows * WARM_EACH,
    };
    let warm = warm.max(WARM_LEAST) as f64 * options.scale.min(1.0);
    look_up(options, server, engine, set, Some(warm.ceil() as u64), WARM_SECONDS as f64)?;
    let before = sample(server.pid())?;
    let (done, rate) = look_up(options, server, engine, set, None, SECONDS * options.scale)?;
    Ok(of(before, sample(server.pid())?, done, rate))
}

/// Measures the cost of the row cache where it does not help: uniform access with it and without it, A B A B.
fn without_rows(options: &Options, server: &Server) -> Result<(), String> {
    let mut sums = [[0.0; 3]; 2];
    for round in 0..4 {
        let on = round % 2 == 0;
        server.sql(&format!("SET GLOBAL frond_row_cache = {}", if on { "ON" } else { "OFF" }))?;
        let one = measure(options, server, Engine::Frond, &Set::hot(options, options.rows, round))?;
        let sum = &mut sums[usize::from(on)];
        for (sum, figure) in sum.iter_mut().zip([one.rate, one.cpu_us, one.read]) {
            *sum += figure / 2.0;
        }
    }
    server.sql("SET GLOBAL frond_row_cache = ON")?;
    let [off, on] = sums;
    let ratio = |i: usize| on[i] / off[i].max(1e-9);
    println!(
        "  all rows alike, with the row cache against without: {:.3}x look-ups/s, {:.3}x CPU, {:.3}x bytes read",
        ratio(0),
        ratio(1),
        ratio(2)
    );
    Ok(())
}

fn of(before: Sample, after: Sample, done: u64, rate: f64) -> Measured {
    let done = done.max(1) as f64;
    let cpu_us = (after.cpu_seconds - before.cpu_seconds) * 1e6 / done;
    Measured { rate, cpu_us, read: (after.read_bytes - before.read_bytes) as f64 / done }
}

/// Number of look-ups and their rate.
fn look_up(
    options: &Options,
    server: &Server,
    engine: Engine,
    set: &Set,
    events: Option<u64>,
    seconds: f64,
) -> Result<(u64, f64), String> {
    let mut command = Command::new("sysbench");
    command
        .arg(options.scripts.join("hot.lua"))
        .env("LUA_PATH", format!("{}/?.lua;;", options.scripts.display()))
        .arg("--db-driver=mysql")
        .arg(format!("--mysql-socket={}", server.socket().display()))
        .args(["--mysql-user=root"])
        .arg(format!("--mysql-db={}", oltp::database(engine)))
        .arg(format!("--rows={}", options.rows))
        .arg(format!("--hot={}", set.rows))
        .arg(format!("--by={}", set.by))
        .arg(format!("--threads={}", set.threads))
        .arg(format!("--events={}", events.unwrap_or(0)))
        .arg(format!("--time={}", seconds.ceil().max(1.0)))
        .arg(format!("--rand-seed={}", 2 * set.seed + if events.is_some() { 1 } else { 2 }))
        .arg("run")
        .stdin(Stdio::null());
    let text = oltp::output(command)?;
    sysbench::events(&text).ok_or_else(|| format!("sysbench's report is not understood:\n{text}"))
}

/// A line for each name, with three figures of each engine.
fn cells(
    what: &str,
    engines: &[&str],
    names: &[String],
    measured: &[Vec<Measured>],
) -> Vec<Vec<String>> {
    let mut header = vec![what.to_string()];
    for what in ["look-ups/s", "CPU us", "bytes read"] {
        header.extend(engines.iter().map(|e| format!("{e} {what}")));
    }
    let mut cells = vec![header];
    for (i, name) in names.iter().enumerate() {
        let mut row = vec![name.clone()];
        row.extend(measured.iter().map(|m| units::grouped(m[i].rate.round() as u64)));
        row.extend(measured.iter().map(|m| units::significant(m[i].cpu_us)));
        row.extend(measured.iter().map(|m| units::grouped(m[i].read.round() as u64)));
        cells.push(row);
    }
    cells
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    #[ignore = "starts a server with the plugin: scripts/stages/30-plugin.sh"]
    fn look_ups_run_on_both_engines() {
        let out = tempfile::tempdir().unwrap();
        let engines = vec![Engine::InnoDb, Engine::Frond];
        assert!(run(&oltp::for_a_moment(out.path(), engines)).unwrap());
        let table = fs::read_to_string(out.path().join("hot.md")).unwrap();
        assert_eq!(table.lines().count(), 2 + 1, "{table}");
    }

    #[test]
    fn sets_grow_with_the_cache_and_end_with_the_whole_table() {
        let full = sets(128 << 20, 10_000_000);
        assert_eq!(full, [819, 3_276, 13_107, 52_428, 102_400, 204_800, 10_000_000]);
        assert_eq!(sets(128 << 20, 20_000), [819, 3_276, 20_000]);
    }

    #[test]
    fn the_table_has_a_line_for_each_set() {
        let one = Measured { rate: 1_000.4, cpu_us: 31.0, read: 15_900.0 };
        let cells = cells("hot rows", &["Frond"], &names(&[800, 2_000]), &[vec![one, one]]);
        assert_eq!(cells.len(), 3);
        assert!(cells[2][0].starts_with("all "), "{cells:?}");
        assert!(cells.iter().all(|row| row.len() == 4));
    }

    #[test]
    fn the_script_is_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../oltp");
        assert!(folder.join("hot.lua").is_file());
    }
}
