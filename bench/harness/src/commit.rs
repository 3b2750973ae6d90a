//! `frond-demo commit`: durable commits with the binary log, engines side by side in one server.
//!
//! Purpose: the cost of a commit on a primary. Each commit is prepared in the engine and synced, written to the binary
//! log and synced, then committed in the engine; with many connections all three are done for a group at a time. Two
//! loads, single rows inserted with autocommit and sysbench's `oltp_write_only`, run with several numbers of connections
//! on every engine in turn (A B A B ...). The rate counts; the server's processor time and the syncs per commit are
//! shown.
//!
//! Invariants
//!
//! - DCB1. All engines sync their log at each commit, and the server its binary log for each group of commits.
//! - DCB2. The measurements of all engines have the same transactions, seeds, connections and tables.
//!
//! Tested by stage 30, which runs all of it for a moment.

use std::fs;

use crate::engines::{binary_log, Engine};
use crate::interrupt;
use crate::oltp::{self, Options};
use crate::sample::sample;
use crate::server::Server;
use crate::sysbench;
use crate::table;
use crate::units;

/// The loads: sysbench's scripts, and their names here.
const LOADS: [(&str, &str); 2] =
    [("oltp_insert", "insert"), ("oltp_write_only", "oltp_write_only")];
/// Transactions of a measurement at scale 1: a fixed number, and more for each connection. Some seconds: the device's syncs
/// differ from one second to the next.
const EVENTS: (f64, f64) = (5_000.0, 250.0);

/// The figures of one measurement, or the median of several, each figure by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Measured {
    rate: f64,
    cpu_us: f64,
    /// Syncs of the engine per commit.
    syncs: f64,
    /// Commits per sync of the binary log.
    group: f64,
}

/// A load with a number of connections, and the rounds of each engine.
struct Line {
    load: usize,
    clients: u32,
    rounds: Vec<Vec<Measured>>,
}

/// Runs everything and prints a table. `Ok(false)` when an engine that was asked for did not run.
pub fn run(options: &Options, clients: &[u32]) -> Result<bool, String> {
    let (_work, path, site) = oltp::site(options)?;
    let mut besides = binary_log(true);
    besides.extend(options.engines.iter().map(|e| e.synced_at_commit().to_string()));
    let (server, engines) = oltp::start(options, &site, &path, &besides)?;
    println!(
        "\nDurable commits with the binary log: a table of {} rows, {} of cache per engine, {} rounds\n",
        units::grouped(options.rows),
        units::bytes(options.cache),
        options.rounds
    );
    for &engine in &engines {
        oltp::prepare(options, &server, engine)?;
    }
    let mut lines = Vec::new();
    for load in 0..LOADS.len() {
        for &clients in clients {
            let mut line = Line { load, clients, rounds: vec![Vec::new(); engines.len()] };
            for round in 0..options.rounds {
                for (of_engine, &engine) in line.rounds.iter_mut().zip(&engines) {
                    of_engine.push(measure(options, &server, engine, (load, clients), round)?);
                }
            }
            lines.push(line);
        }
    }
    let cells = cells(&engines, &lines);
    println!("\n{}", table::terminal(&cells));
    let file = options.out.join("commit.md");
    fs::write(&file, table::markdown(&cells)).map_err(|e| format!("{}: {e}", file.display()))?;
    println!("  the same as Markdown: {}", file.display());
    Ok(engines.len() == options.engines.len())
}

fn measure(
    options: &Options,
    server: &Server,
    engine: Engine,
    (load, clients): (usize, u32),
    round: u32,
) -> Result<Measured, String> {
    if interrupt::requested() {
        return Err(interrupt::MESSAGE.into());
    }
    let events = (EVENTS.0 + EVENTS.1 * f64::from(clients)) * options.scale;
    let events = (events.ceil() as u32).max(clients);
    let mut command = oltp::command(options, server, engine, LOADS[load].0);
    command
        .arg(format!("--threads={}", clients.max(1)))
        .arg(format!("--events={events}"))
        // The same rows for all engines in a round, other rows in each round.
        .arg(format!("--rand-seed={}", round + 1))
        // When two transactions change a row at the same time, one may have to begin again.
        .args(["--mysql-ignore-errors=1213,1020,1205", "--time=120", "run"]);
    let counts = || -> Result<[u64; 3], String> {
        Ok([
            status(server, engine.syncs())?,
            status(server, "Binlog_commits")?,
            status(server, "Binlog_group_commits")?,
        ])
    };
    let (before, cpu_before) = (counts()?, sample(server.pid())?.cpu_seconds);
    let text = oltp::output(command)?;
    let cpu = sample(server.pid())?.cpu_seconds - cpu_before;
    let after = counts()?;
    let (done, rate) = sysbench::events(&text)
        .ok_or_else(|| format!("sysbench's report is not understood:\n{text}"))?;
    let [syncs, commits, groups] = [0, 1, 2].map(|i| (after[i] - before[i]) as f64);
    Ok(Measured {
        rate,
        cpu_us: cpu * 1e6 / done as f64,
        syncs: syncs / commits.max(1.0),
        group: commits / groups.max(1.0),
    })
}

fn status(server: &Server, name: &str) -> Result<u64, String> {
    let answer = server.sql(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
    let value = answer.split_whitespace().nth(1).and_then(|v| v.parse().ok());
    value.ok_or_else(|| format!("the server has no status variable {name}"))
}

fn cells(engines: &[Engine], lines: &[Line]) -> Vec<Vec<String>> {
    let mut header = vec!["connections".to_string()];
    for what in ["/s", "CPU us", "syncs", "group"] {
        header.extend(engines.iter().map(|e| format!("{} {what}", e.label())));
    }
    header.extend(["rate vs InnoDB".into(), "CPU vs InnoDB".into()]);
    let mut cells = vec![header];
    for line in lines {
        let medians: Vec<Measured> = line.rounds.iter().map(|r| median(r)).collect();
        let mut row = vec![format!("{}, {}", LOADS[line.load].1, line.clients)];
        row.extend(medians.iter().map(|m| units::grouped(m.rate.round() as u64)));
        for figure in [|m: &Measured| m.cpu_us, |m: &Measured| m.syncs, |m: &Measured| m.group] {
            row.extend(medians.iter().map(|m| units::significant(figure(m))));
        }
        let of = |e: Engine| engines.iter().position(|x| *x == e).map(|i| medians[i]);
        let ratio = |figure: fn(&Measured) -> f64| match (of(Engine::Frond), of(Engine::InnoDb)) {
            (Some(frond), Some(inno)) if figure(&inno) > 0.0 => {
                format!("{:.2}x", figure(&frond) / figure(&inno))
            }
            _ => String::new(),
        };
        row.extend([ratio(|m| m.rate), ratio(|m| m.cpu_us)]);
        cells.push(row);
    }
    cells
}

/// Of an even number of rounds, the smaller of the middle two.
fn median(rounds: &[Measured]) -> Measured {
    let of = |figure: fn(&Measured) -> f64| {
        let mut sorted: Vec<f64> = rounds.iter().map(figure).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
    };
    Measured {
        rate: of(|m| m.rate),
        cpu_us: of(|m| m.cpu_us),
        syncs: of(|m| m.syncs),
        group: of(|m| m.group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "starts a server with the plugin: scripts/stages/30-plugin.sh"]
    fn durable_commits_run_on_both_engines() {
        let out = tempfile::tempdir().unwrap();
        let engines = vec![Engine::InnoDb, Engine::Frond];
        assert!(run(&oltp::for_a_moment(out.path(), engines), &[1, 4]).unwrap());
        let table = fs::read_to_string(out.path().join("commit.md")).unwrap();
        assert_eq!(table.lines().count(), 2 + 4, "{table}");
    }

    #[test]
    fn the_table_has_medians_and_ratios() {
        let m = |rate| Measured { rate, cpu_us: 1e6 / rate, syncs: 0.5, group: 2.0 };
        let rounds = vec![vec![m(100.0), m(200.0), m(1.0)], vec![m(150.0); 3]];
        let line = Line { load: 0, clients: 4, rounds };
        let cells = cells(&[Engine::InnoDb, Engine::Frond], &[line]);
        assert_eq!(cells[1][..3], ["insert, 4", "100", "150"]);
        assert_eq!(cells[1][5..], ["0.50", "0.50", "2.00", "2.00", "1.50x", "0.67x"]);
        assert!(cells.iter().all(|row| row.len() == cells[0].len()));
    }
}
