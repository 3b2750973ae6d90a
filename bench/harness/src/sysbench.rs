//! `frond-demo sysbench`: cached reads, engines side by side.
//!
//! Purpose: in memory InnoDB is the strongest rival; this compares point reads and the
//! read-only mix with everything cached. Both engines are loaded in one server with a cache that
//! holds all of their tables, and measured in turn (A B A B ...), so that a slow phase of the machine
//! hits both; the median round counts, and the ratio is reported.
//!
//! Invariants
//!
//! - SB1. Every table is read once in full before the first measurement.
//! - SB2. The measurements of all engines have the same seed, threads, tables and seconds.
//!
//! Tested below (parsing); the whole by `make bench-sysbench`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::engines::{Engine, PluginDirs};
use crate::interrupt;
use crate::limits;
use crate::sample::sample;
use crate::server::{Programs, Server, Site};
use crate::units;

const WORKLOADS: [&str; 2] = ["oltp_point_select", "oltp_read_only"];

/// Frond must reach this part of InnoDB's rate.
const LEAST: f64 = 0.8;

pub struct Options {
    pub programs: Programs,
    pub plugins: PluginDirs,
    pub out: PathBuf,
    pub engines: Vec<Engine>,
    pub tables: u32,
    pub rows: u64,
    pub cache: u64,
    pub threads: u32,
    pub seconds: u32,
    pub rounds: u32,
}

/// One measurement: queries per second and the 95th percentile of sysbench's report.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    queries_per_second: f64,
    p95_ms: f64,
}

/// Runs everything and prints a table. `Ok(false)` when fewer than two engines ran, or Frond missed
/// [`LEAST`] or took more memory than its cache and [`limits::MEMORY_BESIDES`].
pub fn run(options: &Options) -> Result<bool, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", options.out.display());
    fs::create_dir_all(&options.out).map_err(failed)?;
    let work = tempfile::tempdir_in(&options.out).map_err(failed)?;
    let path = work.path().canonicalize().map_err(|e| e.to_string())?;
    let site = Site::create(options.programs.clone(), &path)?;
    let (server, engines) = start(options, &site)?;
    println!(
        "\nsysbench: {} tables of {} rows, {} of cache per engine, {} threads, {} rounds of {} s\n",
        options.tables,
        units::grouped(options.rows),
        units::bytes(options.cache),
        options.threads,
        options.rounds,
        options.seconds
    );
    let resident = || sample(server.pid()).map(|sample| sample.rss_bytes);
    let mut before_frond = None;
    for &engine in &engines {
        if engine == Engine::Frond {
            before_frond = Some(resident()?);
        }
        prepare(options, &server, engine)?;
    }
    println!("  {:<20}{:>14}{:>14}{:>12}", "", "queries/s", "p95", "vs InnoDB");
    let mut slow = false;
    for workload in WORKLOADS {
        let mut rounds: Vec<Vec<Measured>> = vec![Vec::new(); engines.len()];
        for _ in 0..options.rounds {
            for (engine, measured) in engines.iter().zip(&mut rounds) {
                if interrupt::requested() {
                    return Err(interrupt::MESSAGE.into());
                }
                measured.push(measure(options, &server, *engine, workload)?);
            }
        }
        print_workload(workload, &engines, &rounds);
        slow |= of_innodb(Engine::Frond, &engines, &rounds).is_some_and(|ratio| ratio < LEAST);
    }
    if slow {
        println!("\n  MISSED: Frond must reach {LEAST}x of InnoDB");
    }
    let mut large = false;
    if let Some(before) = before_frond {
        let grown = resident()?.saturating_sub(before);
        let most = options.cache + limits::MEMORY_BESIDES;
        println!("\n  memory since before Frond's tables: {}", units::bytes(grown));
        large = grown > most;
        if large {
            println!("  MISSED: at most {}", units::bytes(most));
        }
    }
    Ok(engines.len() >= 2 && !slow && !large)
}

/// One server with all engines that can be loaded.
fn start(options: &Options, site: &Site) -> Result<(Server, Vec<Engine>), String> {
    let mut settings = Vec::new();
    let mut engines = Vec::new();
    for &engine in &options.engines {
        // Two plugin directories cannot be used at once; Frond's decides when it is asked for.
        match options.plugins.for_engine(engine) {
            Ok(dir) => {
                if let Some(file) = engine.plugin() {
                    settings.push(format!("plugin_dir={}", dir.display()));
                    settings.push(format!("plugin_load_add={file}"));
                }
                engines.push(engine);
            }
            Err(why) => println!("  {} skipped: {why}", engine.label()),
        }
    }
    let inno = engines.contains(&Engine::InnoDb);
    for engine in &engines {
        let lines = engine.settings(options.cache);
        // Where InnoDB is measured too, it must not be cut to its minimum.
        settings.extend(
            lines
                .into_iter()
                .filter(|l| *engine == Engine::InnoDb || !inno || !l.starts_with("innodb_")),
        );
    }
    let server = Server::start(site, "sysbench", &settings)?;
    engines.retain(|e| {
        let there = server.has_engine(e.sql_name());
        if !there {
            println!("  {} skipped: the server started without it", e.label());
            println!("{}", server.log_errors());
        }
        there
    });
    if engines.is_empty() {
        return Err("no engine could be loaded".into());
    }
    Ok((server, engines))
}

fn database(engine: Engine) -> String {
    format!("sb_{}", engine.key().replace('-', "_"))
}

fn sysbench(options: &Options, server: &Server, engine: Engine, workload: &str) -> Command {
    let mut command = Command::new("sysbench");
    command
        .arg(workload)
        .arg("--db-driver=mysql")
        .arg(format!("--mysql-socket={}", server.socket().display()))
        .args(["--mysql-user=root", "--rand-seed=1", "--rand-type=uniform"])
        .arg(format!("--mysql-db={}", database(engine)))
        .arg(format!("--mysql_storage_engine={}", engine.sql_name()))
        .arg(format!("--tables={}", options.tables))
        .arg(format!("--table-size={}", options.rows))
        .stdin(Stdio::null());
    command
}

fn output(mut command: Command) -> Result<String, String> {
    let out = command.output().map_err(|e| format!("cannot start sysbench: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if !out.status.success() {
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        return Err(format!("sysbench failed:\n{text}{errors}"));
    }
    Ok(text)
}

fn prepare(options: &Options, server: &Server, engine: Engine) -> Result<(), String> {
    server.sql(&format!("CREATE DATABASE {}", database(engine)))?;
    let mut command = sysbench(options, server, engine, "oltp_read_only");
    command.arg("prepare");
    output(command)?;
    for table in 1..=options.tables {
        for index in ["PRIMARY", &format!("k_{table}")] {
            server.sql(&format!(
                "SELECT COUNT(*), SUM(LENGTH(c)) FROM {}.sbtest{table} FORCE INDEX ({index}) \
                 WHERE k > 0",
                database(engine)
            ))?;
        }
    }
    println!("  {} prepared and read in full", engine.label());
    Ok(())
}

fn measure(
    options: &Options,
    server: &Server,
    engine: Engine,
    workload: &str,
) -> Result<Measured, String> {
    let mut command = sysbench(options, server, engine, workload);
    command
        .arg(format!("--threads={}", options.threads))
        .arg(format!("--time={}", options.seconds))
        .arg("run");
    let text = output(command)?;
    parse(&text).ok_or_else(|| format!("sysbench's report is not understood:\n{text}"))
}

/// Reads "queries: 123 (45.6 per sec.)" and "95th percentile: 0.12".
fn parse(text: &str) -> Option<Measured> {
    let after = |name: &str| text.lines().find_map(|l| l.trim().strip_prefix(name));
    let queries = after("queries:")?;
    let rate = queries.split_once('(')?.1.split_whitespace().next()?;
    Some(Measured {
        queries_per_second: rate.parse().ok()?,
        p95_ms: after("95th percentile:")?.trim().parse().ok()?,
    })
}

/// Queries per second of sysbench's report.
pub fn rate(text: &str) -> Option<f64> {
    parse(text).map(|m| m.queries_per_second)
}

/// The round with the median rate.
fn median(rounds: &[Measured]) -> Measured {
    assert!(!rounds.is_empty());
    let mut sorted = rounds.to_vec();
    sorted.sort_by(|a, b| a.queries_per_second.total_cmp(&b.queries_per_second));
    sorted[(sorted.len() - 1) / 2]
}

/// The rate of an engine over InnoDB's, if both ran.
fn of_innodb(engine: Engine, engines: &[Engine], rounds: &[Vec<Measured>]) -> Option<f64> {
    let rate = |of: Engine| {
        let i = engines.iter().position(|e| *e == of)?;
        Some(median(&rounds[i]).queries_per_second)
    };
    Some(rate(engine)? / rate(Engine::InnoDb)?.max(1e-9))
}

fn print_workload(workload: &str, engines: &[Engine], rounds: &[Vec<Measured>]) {
    println!("  {workload}");
    for (engine, measured) in engines.iter().zip(rounds) {
        let m = median(measured);
        let ratio = of_innodb(*engine, engines, rounds);
        let ratio = ratio.map(|r| format!("{r:.2}x")).unwrap_or_default();
        println!(
            "    {:<18}{:>14}{:>14}{:>12}",
            engine.label(),
            units::grouped(m.queries_per_second.round() as u64),
            units::micros(m.p95_ms * 1000.0),
            ratio
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "
SQL statistics:
    queries performed:
        read:                            1000
        total:                           1000
    transactions:                        1000   (99.90 per sec.)
    queries:                             1600   (159.80 per sec.)
    ignored errors:                      0      (0.00 per sec.)
Latency (ms):
         min:                                    0.05
         95th percentile:                        0.12
";

    #[test]
    fn rate_of_queries_and_percentile_are_read() {
        assert_eq!(parse(REPORT), Some(Measured { queries_per_second: 159.8, p95_ms: 0.12 }));
        assert_eq!(parse("queries: none"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn median_is_a_round_that_happened() {
        let m = |q| Measured { queries_per_second: q, p95_ms: 1.0 };
        assert_eq!(median(&[m(3.0), m(1.0), m(2.0)]).queries_per_second, 2.0);
        assert_eq!(median(&[m(4.0), m(1.0)]).queries_per_second, 1.0);
    }
}
