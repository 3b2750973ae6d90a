//! One engine's run: start its server, load it, watch it, let it settle, check it, stop it.
//!
//! Purpose: produces an `EngineResult`. The order is the honest one: costs are read before the
//! first insert, after the last one, and again when the engine's background work has gone quiet;
//! memory and disk are read before the verification, which would disturb them.
//!
//! Invariants
//!
//! - RU1. Bounded in time: the client stops at the cap, settling and verification have limits.
//! - RU2. The server is gone when `run` returns, whatever it returns.
//!
//! Not here: decide which engines run and for how long (iibench.rs).
//!
//! Tested by the demo's smoke run.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, End, Interval, Line, Load, Sums};
use crate::engines::{binary_log, Engine, PluginDirs};
use crate::interrupt;
use crate::progress::Progress;
use crate::result::{Cost, EngineResult, Point, Verified};
use crate::sample::{self, Sample};
use crate::server::{Server, Site};
use crate::stats::Latency;

const WATCH: Duration = Duration::from_millis(100);
/// Settling: quiet for this long, or given up after `SETTLE_LIMIT`.
const QUIET: Duration = Duration::from_secs(2);
const SETTLE_LIMIT: Duration = Duration::from_secs(20);
/// Limits below which the server counts as quiet during `QUIET`.
const QUIET_BYTES: u64 = 512 << 10;
const QUIET_CPU_SECONDS: f64 = 0.10;
/// For each of the four scans of the verification.
const SCAN_LIMIT_SECONDS: u64 = 6;
/// Above the demonstration's size the limit grows with the rows.
const SCAN_ROWS_PER_SECOND: u64 = 500_000;

pub struct Plan<'a> {
    pub site: &'a Site,
    pub plugins: &'a PluginDirs,
    pub iibench: &'a Path,
    pub cache: u64,
    pub rows: u64,
    pub seed: u64,
    pub query_rate: u32,
    pub max_seconds: u64,
    pub binlog: bool,
}

/// Why an engine has no result.
pub enum Miss {
    /// It cannot be loaded: say so and go on with the next.
    Skipped(String),
    /// Something broke: say so; the others can still run.
    Failed(String),
}

/// Runs one engine. Prints progress.
pub fn run(engine: Engine, plan: &Plan) -> Result<EngineResult, Miss> {
    let dir = plan.plugins.for_engine(engine).map_err(Miss::Skipped)?;
    let mut settings = vec![format!("plugin_dir={}", dir.display())];
    if let Some(file) = engine.plugin() {
        settings.push(format!("plugin_load_add={file}"));
    }
    settings.extend(engine.settings(plan.cache));
    if plan.binlog {
        // The system syncs it every few seconds.
        settings.extend(binary_log(false));
    }
    let server =
        Server::start(plan.site, engine.key(), &settings).map_err(
            |e| match interrupt::requested() {
                true => Miss::Failed(e),
                false => Miss::Skipped(e),
            },
        )?;
    if !server.has_engine(engine.sql_name()) {
        return Err(Miss::Skipped(format!(
            "the server started without it\n{}",
            server.log_errors()
        )));
    }
    measure(engine, plan, &server, settings).map_err(Miss::Failed)
}

fn measure(
    engine: Engine,
    plan: &Plan,
    server: &Server,
    settings: Vec<String>,
) -> Result<EngineResult, String> {
    let reported_settings = reported(engine, server);
    server.sql("CREATE DATABASE iibench")?;
    let before = sample::sample(server.pid())?;
    let mut progress = Progress::start(engine.label(), plan.rows);
    let mut watched = load(engine, plan, server, &mut progress)?;
    let inserted = sample::sample(server.pid())?;

    progress.note("waiting for background work");
    let settle_start = Instant::now();
    let settled = settle(server.pid())?;
    let settle_seconds = settle_start.elapsed().as_secs_f64();
    let after = sample::sample(server.pid())?;
    let (table_bytes, own_bytes) = disk_use(engine, server.data());

    progress.note("checking the table against the rows sent");
    let verified = verify(server, &watched.end.sums);
    progress.finish();
    Ok(EngineResult {
        engine: engine.key(),
        label: engine.label(),
        settings,
        reported_settings,
        rows_wanted: plan.rows,
        points: watched.points,
        end: watched.end,
        statement: Latency::of(&mut watched.statement_us),
        queries: watched.query_us.each_mut().map(|samples| Latency::of(samples)),
        insert_cost: cost(&before, &inserted),
        settle_cost: cost(&inserted, &after),
        settle_seconds,
        settled,
        table_bytes,
        log_bytes: own_bytes - table_bytes,
        start_rss_bytes: before.rss_bytes,
        peak_rss_bytes: after.peak_rss_bytes,
        verified,
    })
}

struct Watched {
    points: Vec<Point>,
    end: End,
    statement_us: Vec<u32>,
    query_us: [Vec<u32>; 3],
}

fn load(
    engine: Engine,
    plan: &Plan,
    server: &Server,
    progress: &mut Progress,
) -> Result<Watched, String> {
    // Short runs need a curve too; long ones do not need more than one point a second.
    let interval_ms = (plan.rows / 10_000).clamp(100, 1000);
    let mut client = Client::start(
        plan.iibench,
        &Load {
            socket: server.socket(),
            engine: engine.sql_name(),
            rows: plan.rows,
            seed: plan.seed,
            interval_ms,
            query_rate: plan.query_rate,
            max_seconds: plan.max_seconds,
        },
    )?;
    let mut points = Vec::new();
    let mut statement_us = Vec::new();
    let mut query_us: [Vec<u32>; 3] = Default::default();
    let end = loop {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.into());
        }
        let line = client.next(WATCH)?;
        let now = sample::sample(server.pid())
            .map_err(|e| format!("the server has gone: {e}\n{}", server.log_errors()))?;
        match line {
            None => progress.tick(now.rss_bytes),
            Some(Line::Interval(mut interval)) => {
                let point = point(&mut interval, &now);
                progress.interval(&point);
                points.push(point);
                statement_us.extend(interval.statement_us);
                query_us[0].extend(interval.marketsegment_us);
                query_us[1].extend(interval.registersegment_us);
                query_us[2].extend(interval.pdc_us);
            }
            Some(Line::End(end)) => break end,
        }
    };
    Ok(Watched { points, end, statement_us, query_us })
}

fn point(interval: &mut Interval, now: &Sample) -> Point {
    Point {
        rows: interval.rows,
        seconds: interval.seconds,
        interval_rows: interval.interval_rows,
        interval_seconds: interval.interval_seconds,
        statement: Latency::of(&mut interval.statement_us),
        server_cpu_seconds: now.cpu_seconds,
        server_write_bytes: now.write_bytes,
        server_rss_bytes: now.rss_bytes,
    }
}

/// Waits until the process has written and computed next to nothing for `QUIET`. False when the
/// limit came first.
fn settle(pid: u32) -> Result<bool, String> {
    let start = Instant::now();
    let mut window_start = (start, sample::sample(pid)?);
    loop {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.into());
        }
        thread::sleep(WATCH);
        let now = sample::sample(pid)?;
        let since = cost(&window_start.1, &now);
        if since.write_bytes > QUIET_BYTES || since.cpu_seconds > QUIET_CPU_SECONDS {
            window_start = (Instant::now(), now);
        } else if window_start.0.elapsed() >= QUIET {
            return Ok(true);
        }
        if start.elapsed() >= SETTLE_LIMIT {
            return Ok(false);
        }
    }
}

fn cost(from: &Sample, to: &Sample) -> Cost {
    Cost {
        cpu_seconds: to.cpu_seconds - from.cpu_seconds,
        write_bytes: to.write_bytes.saturating_sub(from.write_bytes),
        read_bytes: to.read_bytes.saturating_sub(from.read_bytes),
    }
}

/// (table data, all files of the engine) in allocated bytes.
fn disk_use(engine: Engine, data: &Path) -> (u64, u64) {
    let (table, _) = sample::allocated_bytes(data, &|p| engine.is_table_data(p));
    let (own, _) = sample::allocated_bytes(data, &|p| engine.is_own_file(p));
    (table, own)
}

/// Compares count and sums through the primary key and through every secondary index with what the
/// client sent: an engine that is fast because it loses rows or index entries must not look good.
fn verify(server: &Server, sent: &Sums) -> Verified {
    let columns = [
        ("PRIMARY", "SUM(productid)", sent.productid),
        ("marketsegment", "SUM(customerid)", sent.customerid),
        ("registersegment", "SUM(cashregisterid)", sent.cashregisterid),
        ("pdc", "SUM(customerid)", sent.customerid),
    ];
    for (index, sum, expected) in columns {
        let limit = SCAN_LIMIT_SECONDS + sent.rows / SCAN_ROWS_PER_SECOND;
        let query = format!(
            "SET STATEMENT max_statement_time={limit} FOR \
             SELECT COUNT(*), {sum} FROM iibench.purchases_index FORCE INDEX ({index})"
        );
        let wanted = format!("{}\t{expected}", sent.rows);
        match server.sql(&query) {
            Ok(answer) if answer.trim() == wanted => {}
            Ok(answer) => {
                let answer = answer.trim();
                return Verified::Wrong(format!(
                    "{index}: COUNT and {sum} are {answer:?}, should be {wanted:?}"
                ));
            }
            Err(e) if e.contains("max_statement_time") => return Verified::Timeout,
            Err(e) => return Verified::Wrong(format!("{index}: {e}")),
        }
    }
    Verified::Ok
}

/// The engine's settings as its server reports them, where they are passed with `loose_`.
fn reported(engine: Engine, server: &Server) -> Vec<String> {
    if engine != Engine::Frond {
        return Vec::new();
    }
    let answer = server.sql("SHOW GLOBAL VARIABLES LIKE 'frond%'").unwrap_or_default();
    answer.lines().map(|l| l.replacen('\t', "=", 1)).collect()
}
