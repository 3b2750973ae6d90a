//! `frond-demo tpch`: the 22 queries of TPC-H, engines side by side in one server.
//!
//! Purpose: how well the optimizer plans with an engine's statistics and costs, and how long large scans and joins take. The
//! tables are generated, loaded into each engine and analyzed. In each round every query runs on every engine in turn; the
//! medians of the rounds count. The answers must be the same; where plans differ, both are printed.
//!
//! Invariants
//!
//! - TH1. All engines have the same rows, from the same files.
//! - TH2. A first round is not measured. It compares answers and plans, and fills the caches.
//!
//! `generate.rs` has the tables and `words.rs` their words, `session.rs` the connection, `report.rs` the result;
//! `bench/tpch` the SQL. Tested by stage 30, which runs all of it at a small scale.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::engines::Engine;
use crate::hot::until_quiet;
use crate::interrupt;
use crate::oltp::{self, Options};
use crate::server::Server;
use crate::table;
use crate::units;

mod generate;
mod report;
mod session;
mod words;

use generate::{Data, TABLES};
use report::{Line, Measured};
use session::Session;

const SCHEMA: &str = include_str!("../../../tpch/schema.sql");
const QUERIES: &str = include_str!("../../../tpch/queries.sql");
const SEED: u64 = 1;

/// "1: price summary", and the statement without its semicolon.
#[derive(Clone, Debug, PartialEq)]
struct Query {
    label: String,
    sql: String,
}

/// The queries with these numbers; all when there are none.
fn queries(numbers: &[u32], scale: f64) -> Result<Vec<Query>, String> {
    let mut out: Vec<Query> = Vec::new();
    for statement in QUERIES.split(';') {
        let Some((label, sql)) = statement.rsplit_once("-- ").and_then(|(_, s)| s.split_once('\n'))
        else {
            continue;
        };
        let sql = sql.trim().replace("{fraction}", &format!("{:.10}", 0.0001 / scale));
        out.push(Query { label: label.to_string(), sql });
    }
    let number = |q: &Query| q.label.split(':').next().and_then(|n| n.parse::<u32>().ok());
    if let Some(none) = numbers.iter().find(|n| !out.iter().any(|q| number(q) == Some(**n))) {
        return Err(format!("there is no query {none}; they are 1 to {}", out.len()));
    }
    out.retain(|q| numbers.is_empty() || number(q).is_some_and(|n| numbers.contains(&n)));
    Ok(out)
}

/// Runs everything and prints a table. `options.scale` is that of the tables. `Ok(false)` when an engine that was asked for did
/// not run, or answers differ.
pub fn run(options: &Options, numbers: &[u32]) -> Result<bool, String> {
    let queries = queries(numbers, options.scale)?;
    let (_work, path, site) = oltp::site(options)?;
    let (server, engines) = oltp::start(options, &site, &path, &[])?;
    println!(
        "\nTPC-H at scale {}, {} of cache per engine, {} rounds\n",
        options.scale,
        units::bytes(options.cache),
        options.rounds
    );
    load(options, &server, &engines, &path)?;
    let mut bench = Bench { engines: &engines, sessions: Vec::new() };
    for &engine in &engines {
        let database = database(engine);
        bench.sessions.push(Session::start(&options.programs.client, &server, &database)?);
    }
    let none = || vec![Vec::new(); engines.len()];
    let mut lines: Vec<Line> =
        queries.iter().map(|q| Line { label: q.label.clone(), rounds: none() }).collect();
    let (mut plans, mut same) = (Vec::new(), true);
    for query in &queries {
        plans.extend(bench.plans(query)?);
        same &= bench.compare(query)?;
    }
    for round in 1..=options.rounds {
        for (query, line) in queries.iter().zip(&mut lines) {
            bench.measure(query, line)?;
        }
        println!("  round {round} of {} done", options.rounds);
    }
    let (cells, missed) = report::cells(&engines, &lines);
    println!("\n{}", table::terminal(&cells));
    for plan in &plans {
        println!("  {}", plan.trim_end().replace('\n', "\n  "));
    }
    println!("  {} of {} plans differ", plans.len(), queries.len());
    for miss in missed {
        println!("  MISSED: {miss}");
    }
    let file = options.out.join("tpch.md");
    fs::write(&file, report::markdown(&cells, &plans))
        .map_err(|e| format!("{}: {e}", file.display()))?;
    println!("  the same as Markdown: {}", file.display());
    Ok(same && engines.len() == options.engines.len())
}

fn database(engine: Engine) -> String {
    format!("tpch_{}", engine.key().replace('-', "_"))
}

/// Loads all tables into each engine (TH1).
fn load(options: &Options, server: &Server, engines: &[Engine], work: &Path) -> Result<(), String> {
    let data = Data::new(options.scale, SEED);
    for &engine in engines {
        let database = database(engine);
        server.sql(&format!("CREATE DATABASE {database}"))?;
        let schema = SCHEMA.replace("{engine}", engine.sql_name());
        server.script(&format!("USE {database};\n{schema}"))?;
    }
    for table in TABLES {
        let file = work.join(table.name());
        let failed = |e: std::io::Error| format!("{}: {e}", file.display());
        let mut to = BufWriter::with_capacity(1 << 20, File::create(&file).map_err(failed)?);
        let rows = data
            .write(table, &mut to)
            .and_then(|rows| to.flush().map(|()| rows))
            .map_err(failed)?;
        for &engine in engines {
            if interrupt::requested() {
                return Err(interrupt::MESSAGE.into());
            }
            server.sql(&format!(
                "LOAD DATA INFILE '{}' INTO TABLE {}.{}",
                file.display(),
                database(engine),
                table.name()
            ))?;
        }
        fs::remove_file(&file).map_err(failed)?;
        println!("  {} loaded: {} rows", table.name(), units::grouped(rows));
    }
    until_quiet(server)?;
    for &engine in engines {
        let names: Vec<&str> = TABLES.iter().map(|t| t.name()).collect();
        server.sql(&format!("USE {}; ANALYZE TABLE {}", database(engine), names.join(", ")))?;
    }
    until_quiet(server)
}

struct Bench<'a> {
    engines: &'a [Engine],
    /// In the order of the engines.
    sessions: Vec<Session>,
}

impl Bench<'_> {
    /// Each engine's plan of a query; `None` when all plans are the same.
    fn plans(&mut self, query: &Query) -> Result<Option<String>, String> {
        let mut plans = Vec::new();
        for session in &mut self.sessions {
            let rows = session.ask(&format!("EXPLAIN {}", query.sql))?.rows;
            plans.push(rows.iter().map(|row| step(row)).collect::<Vec<String>>());
        }
        let same = plans.windows(2).all(|p| {
            let rows = |p: &[String]| -> Vec<String> {
                p.iter().map(|s| s.split(" rows ").next().unwrap_or_default().to_string()).collect()
            };
            rows(&p[0]) == rows(&p[1])
        });
        if same {
            return Ok(None);
        }
        let mut text = format!("query {}\n", query.label);
        for (engine, plan) in self.engines.iter().zip(plans) {
            text.push_str(&format!("  {}\n", engine.label()));
            plan.iter().for_each(|step| text.push_str(&format!("    {step}\n")));
        }
        Ok(Some(text))
    }

    /// Whether all engines return the same rows. The order of rows may differ where the query leaves it open.
    fn compare(&mut self, query: &Query) -> Result<bool, String> {
        let mut first: Option<Vec<String>> = None;
        for (session, engine) in self.sessions.iter_mut().zip(self.engines) {
            let mut rows = session.ask(&query.sql)?.rows;
            rows.sort();
            match &first {
                Some(expected) if *expected != rows => {
                    println!("  WRONG: query {}: {} gives other rows", query.label, engine.label());
                    return Ok(false);
                }
                _ => first = Some(rows),
            }
        }
        Ok(true)
    }

    fn measure(&mut self, query: &Query, line: &mut Line) -> Result<(), String> {
        for (session, rounds) in self.sessions.iter_mut().zip(&mut line.rounds) {
            if interrupt::requested() {
                return Err(interrupt::MESSAGE.into());
            }
            let answer = session.ask(&query.sql)?;
            rounds.push(Measured { seconds: answer.seconds, cpu_seconds: answer.cpu_seconds });
        }
        Ok(())
    }
}

/// A row of EXPLAIN without the parts that do not describe the plan: the select's kind, keys that were not chosen, lengths.
fn step(row: &str) -> String {
    let cells: Vec<&str> = row.split('\t').collect();
    let &[id, _, table, access, _, key, _, to, rows, extra] = &cells[..] else {
        return row.to_string();
    };
    // References name the database, and its name contains the engine.
    let to: Vec<&str> =
        to.split(',').map(|r| r.split_once('.').map_or(r, |(_, column)| column)).collect();
    format!("{id} {table} {access} {key} {} {extra} rows {rows}", to.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queries_are_22_and_chosen_by_number() {
        let all = queries(&[], 0.1).unwrap();
        assert_eq!(all.len(), 22);
        assert_eq!(all[0].label, "1: price summary");
        assert!(all.iter().all(|q| q.sql.starts_with("SELECT") || q.sql.starts_with("WITH")));
        let two = queries(&[11, 6], 0.1).unwrap();
        assert_eq!(two.len(), 2);
        assert!(two[1].sql.contains("0.0010000000"));
        assert!(queries(&[23], 0.1).unwrap_err().contains("23"));
    }

    #[test]
    fn a_step_of_a_plan_names_no_database() {
        let row = "1\tPRIMARY\torders\teq_ref\tPRIMARY,o_custkey\tPRIMARY\t4\ttpch_frond.lineitem.l_orderkey\t1\tUsing where";
        assert_eq!(step(row), "1 orders eq_ref PRIMARY lineitem.l_orderkey Using where rows 1");
    }

    #[test]
    #[ignore = "starts a server with the plugin: scripts/stages/30-plugin.sh"]
    fn all_queries_of_tpch_answer_alike_on_both_engines() {
        let out = tempfile::tempdir().unwrap();
        let engines = vec![Engine::InnoDb, Engine::Frond];
        let options = Options { scale: 0.002, ..oltp::for_a_moment(out.path(), engines) };
        assert!(run(&options, &[]).unwrap());
        let table = fs::read_to_string(out.path().join("tpch.md")).unwrap();
        assert!(table.contains("| 22: customers without orders |"), "{table}");
    }
}
