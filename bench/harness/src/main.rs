//! `frond-demo`: benchmarks Frond and its rivals in one run and reports ratios.
//!
//! Purpose: `make demo` (iiBench), `make bench-oltp`, `make bench-commit`, `make bench-hot`, `make bench-cold`, `make bench-scale` and
//! `make bench-tpch`. Absolute numbers depend on the machine; ratios from one run on one machine are harder to
//! misread.
//!
//! Not here: install or build anything (scripts/demo.sh, scripts/oltp.sh).

#![forbid(unsafe_code)]
// The rule that only `vfs` touches files, clocks and threads is for the engine; this is a tool.
#![allow(clippy::disallowed_methods)]

mod chart;
mod client;
mod commit;
mod engines;
mod hot;
mod iibench;
mod interrupt;
mod limits;
mod oltp;
mod png;
mod progress;
mod report;
mod result;
mod run;
mod sample;
mod scale;
mod server;
mod stats;
mod sysbench;
mod table;
mod tpch;
mod units;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use engines::{Engine, PluginDirs};
use server::Programs;

#[derive(Parser)]
#[command(name = "frond-demo", about = "Benchmarks Frond and its rivals in one run")]
struct Cli {
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Subcommand)]
enum Cmd {
    /// Insert benchmark on each engine, one after another
    Iibench(IibenchArgs),
    /// The everyday load with sysbench, engines side by side in one server
    Oltp(OltpArgs),
    /// Durable commits with the binary log, by the number of connections
    Commit(CommitArgs),
    /// Look-ups of hot rows that lie at random in a table larger than the cache
    Hot(OltpArgs),
    /// Look-ups of any row of a table much larger than the cache, by key and through an index
    Cold(ColdArgs),
    /// Many partitions, tables and connections; restarts after a kill
    Scale(ScaleArgs),
    /// The 22 queries of TPC-H, engines side by side in one server
    Tpch(TpchArgs),
}

#[derive(Args)]
struct ServerArgs {
    /// The server to start
    #[arg(long, default_value = "/usr/sbin/mariadbd")]
    mariadbd: PathBuf,
    #[arg(long, default_value = "/usr/bin/mariadb-install-db")]
    install_db: PathBuf,
    /// The command-line client
    #[arg(long, default_value = "/usr/bin/mariadb")]
    mariadb: PathBuf,
    /// Where ha_rocksdb.so is
    #[arg(long, default_value = "/usr/lib/mysql/plugin")]
    server_plugins: PathBuf,
    /// Where ha_frond.so is
    #[arg(long, default_value = "target/mariadb")]
    frond_plugin: PathBuf,
    /// Where results go; the servers' data is kept below it while they run
    #[arg(long, default_value = "target/demo")]
    out: PathBuf,
}

#[derive(Args)]
struct IibenchArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// The client (bench/iibench)
    #[arg(long, default_value = "target/iibench/iibench")]
    iibench: PathBuf,
    /// Comma-separated: innodb, innodb-cb (with change buffer), myrocks, frond
    #[arg(long, default_value = "innodb,myrocks,frond", value_parser = engine_list)]
    engines: EngineList,
    /// Rows to insert: 200k, 5M
    #[arg(long, default_value = "5M", value_parser = units::parse_count)]
    rows: u64,
    /// Bytes of cache for each engine
    #[arg(long, default_value = "256M", value_parser = units::parse_bytes)]
    cache: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rounds of three queries per second while rows are inserted
    #[arg(long, default_value_t = 10)]
    query_rate: u32,
    /// Seconds after which an engine is stopped; 0: never [default: by engine, within the budget]
    #[arg(long)]
    cap: Option<u64>,
    /// Seconds for all engines together, when --cap is not given
    #[arg(long, default_value_t = 350)]
    budget: u64,
    /// Hold the results against what Frond must reach; status 1 when a limit is missed
    #[arg(long)]
    limits: bool,
    /// With the binary log
    #[arg(long)]
    binlog: bool,
}

#[derive(Args)]
struct OltpArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// The workloads that are not sysbench's own
    #[arg(long, default_value = "bench/oltp")]
    scripts: PathBuf,
    #[arg(long, default_value = "innodb,myrocks,frond", value_parser = engine_list)]
    engines: EngineList,
    /// Rows of the table; `oltp` wants them all in the cache
    #[arg(long, default_value = "1M", value_parser = units::parse_count)]
    rows: u64,
    #[arg(long, default_value = "1G", value_parser = units::parse_bytes)]
    cache: u64,
    #[arg(long, default_value_t = 4)]
    threads: u32,
    /// Multiplies the number of transactions of each measurement
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Measurements of each engine and workload, in turn; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: u32,
}

#[derive(Args)]
struct CommitArgs {
    #[command(flatten)]
    oltp: OltpArgs,
    /// Numbers of connections, comma-separated
    #[arg(long, default_value = "1,4,32,64", value_delimiter = ',')]
    clients: Vec<u32>,
}

#[derive(Args)]
struct ColdArgs {
    #[command(flatten)]
    oltp: OltpArgs,
    /// Numbers of connections, comma-separated
    #[arg(long, default_value = "1,16,64", value_delimiter = ',')]
    clients: Vec<u32>,
}

#[derive(Args)]
struct TpchArgs {
    /// `--scale` is that of the tables
    #[command(flatten)]
    oltp: OltpArgs,
    /// Numbers of queries, comma-separated [default: all]
    #[arg(long, value_delimiter = ',')]
    queries: Vec<u32>,
}

#[derive(Args)]
struct ScaleArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[arg(long, default_value = "innodb,myrocks,frond", value_parser = engine_list)]
    engines: EngineList,
    #[arg(long, default_value = "256M", value_parser = units::parse_bytes)]
    cache: u64,
    /// Numbers of hash partitions, comma-separated
    #[arg(long, default_value = "1,100,1000", value_delimiter = ',')]
    partitions: Vec<u32>,
    /// Rows for each number of partitions
    #[arg(long, default_value = "200k", value_parser = units::parse_count)]
    rows: u64,
    /// Tables of one row each
    #[arg(long, default_value_t = 3000)]
    tables: u32,
    /// Seconds of each measurement with 4 and 64 connections; 0: none
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Times that each engine's server is killed under load; 0: none
    #[arg(long, default_value_t = 10)]
    kills: u32,
    /// Seconds of load before each kill
    #[arg(long, default_value_t = 8)]
    load: u32,
    /// Seconds that Frond may take to recover
    #[arg(long, default_value_t = 5)]
    recovery_target: u32,
}

#[derive(Clone)]
struct EngineList(Vec<Engine>);

fn engine_list(text: &str) -> Result<EngineList, String> {
    let mut out: Vec<Engine> = Vec::new();
    for word in text.split(',').filter(|w| !w.trim().is_empty()) {
        let engine = Engine::from_key(word)
            .ok_or_else(|| format!("'{word}' is none of innodb, innodb-cb, myrocks, frond"))?;
        if !out.contains(&engine) {
            out.push(engine);
        }
    }
    if out.is_empty() {
        return Err("no engine".into());
    }
    Ok(EngineList(out))
}

impl ServerArgs {
    fn programs(&self) -> Programs {
        Programs {
            mariadbd: self.mariadbd.clone(),
            install_db: self.install_db.clone(),
            client: self.mariadb.clone(),
        }
    }

    fn plugins(&self) -> Result<PluginDirs, String> {
        // The server wants an absolute path; a directory that does not exist is reported later.
        let frond = std::path::absolute(&self.frond_plugin).map_err(|e| e.to_string())?;
        Ok(PluginDirs { server: self.server_plugins.clone(), frond })
    }
}

impl OltpArgs {
    fn options(self) -> Result<oltp::Options, String> {
        Ok(oltp::Options {
            programs: self.server.programs(),
            plugins: self.server.plugins()?,
            out: self.server.out,
            scripts: std::path::absolute(&self.scripts).map_err(|e| e.to_string())?,
            engines: self.engines.0,
            rows: self.rows.max(1),
            cache: self.cache,
            threads: self.threads.max(1),
            scale: self.scale,
            rounds: self.rounds.max(1),
        })
    }
}

fn run(cli: Cli) -> Result<bool, String> {
    interrupt::install()?;
    match cli.command {
        Cmd::Iibench(a) => iibench::run(&iibench::Options {
            programs: a.server.programs(),
            plugins: a.server.plugins()?,
            iibench: a.iibench,
            out: a.server.out,
            engines: a.engines.0,
            rows: a.rows.max(1),
            cache: a.cache,
            seed: a.seed,
            query_rate: a.query_rate,
            cap: a.cap,
            budget: a.budget,
            limits: a.limits,
            binlog: a.binlog,
        }),
        Cmd::Oltp(a) => oltp::run(&a.options()?),
        Cmd::Commit(a) => commit::run(&a.oltp.options()?, &a.clients),
        Cmd::Hot(a) => hot::run(&a.options()?),
        Cmd::Cold(a) => hot::run_cold(&a.oltp.options()?, &a.clients),
        Cmd::Tpch(a) => tpch::run(&a.oltp.options()?, &a.queries),
        Cmd::Scale(a) => scale::run(&scale::Options {
            programs: a.server.programs(),
            plugins: a.server.plugins()?,
            out: a.server.out,
            engines: a.engines.0,
            cache: a.cache,
            partitions: a.partitions,
            rows: a.rows.max(1),
            tables: a.tables.max(1),
            seconds: a.seconds,
            kills: a.kills,
            load: a.load,
            recovery_target: a.recovery_target.max(1),
        }),
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(if interrupt::requested() { 130 } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_lists_are_read_in_order_without_doubles() {
        let list = engine_list("frond, InnoDB,frond,").unwrap();
        assert_eq!(list.0, [Engine::Frond, Engine::InnoDb]);
        assert!(engine_list("").is_err());
        assert!(engine_list("innodb,csv").is_err());
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
