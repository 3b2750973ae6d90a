//! `frond digest` on a running server: `mysql.slow_log`, the digests of `performance_schema`, the processlist.
//!
//! The library has the queries and the meaning of rows (`frond_digest::live`); this module has the
//! connection, the waiting and the advice when the server does not answer. Nothing is written to
//! the server.
//!
//! Tested in `tests/cli/live.rs` against a private server.

pub(crate) mod connect;
mod option_file;
pub(crate) mod stop;

use std::io::{self, IsTerminal};
use std::sync::Arc;

use frond_digest::live::digests::Snapshot;
use frond_digest::live::processlist::Tracker;
use frond_digest::live::{digests, processlist, slow_table, Row};
use frond_digest::run::{self, FileInfo, GroupBy, Problem, Progress, Settings, Worker};
use frond_event::numbers::plural;
use frond_event::{Place, Sink, Skip};
use frond_querylog::input::Format;
use frond_querylog::slowlog::Stamped;

use connect::{grant, needs, Server};
use stop::Stop;

use super::args::{DigestArgs, Source};
use super::{progress, when};
use crate::out::{Failure, Outcome};

/// Reads what `source` has; true if nothing was lost. `settings` must be those of the plan.
pub fn read(
    args: &DigestArgs,
    source: Source,
    settings: &Arc<Settings>,
) -> Outcome<(run::Outcome, bool)> {
    let stop = Stop::after(args.running.run_time);
    let mut server =
        Server::connect(&args.running.connection, args.port.first().copied(), needs(source))?;
    let shown = progress::Shown::new(!args.quiet && io::stderr().is_terminal());
    let outcome = match source {
        Source::SlowLogTable => slow_log_table(&mut server, settings, &stop, shown)?,
        Source::Digests => totals(&mut server, args, settings, &stop)?,
        Source::Processlist => watch(&mut server, args, settings, &stop)?,
    };
    for problem in &outcome.problems {
        eprintln!("frond: {}: {}", problem.name, problem.what);
    }
    let fine = outcome.problems.is_empty() && outcome.skips.count() == 0;
    Ok((outcome, fine))
}

/// The report's one input.
fn input(server: &Server, format: Format, bytes: u64) -> Vec<FileInfo> {
    vec![FileInfo { name: server.name.clone(), format: Some(format), bytes }]
}

/// Statements that the server leaves out of its slow log; the table does not show that they are missing.
#[derive(Default)]
struct Sampling {
    rate: Option<u32>,
    notes: Vec<String>,
}

impl Sampling {
    fn ask(server: &mut Server, settings: &Settings) -> Outcome<Sampling> {
        let mut sampling = Sampling::default();
        let limit = server.value("SELECT @@global.log_slow_rate_limit")?.unwrap_or_default();
        if let (None, Some(rate)) = (settings.rate, limit.parse().ok().filter(|rate| *rate > 1)) {
            sampling.rate = Some(rate);
            sampling.notes.push(format!(
                "log_slow_rate_limit is {rate} now: each row is taken for {rate} statements. If it was another one when the rows were written, say --rate."
            ));
        }
        let filter = server.value("SELECT @@global.log_slow_filter")?.unwrap_or_default();
        // With query_cache_miss in the filter: no statement comes from the query cache, so the log has every
        // statement.
        if !filter.is_empty() && !filter.split(',').any(|word| word == "query_cache_miss") {
            sampling.notes.push(format!(
                "log_slow_filter is {filter} now: the server logs no other statements, however slow they are."
            ));
        }
        Ok(sampling)
    }
}

fn slow_log_table(
    server: &mut Server,
    settings: &Arc<Settings>,
    stop: &Stop,
    mut shown: progress::Shown,
) -> Outcome<run::Outcome> {
    let variable = |server: &mut Server, name: &str| {
        server.value(&format!("SELECT @@global.{name}")).map(Option::unwrap_or_default)
    };
    let output = variable(server, "log_output")?;
    let on = variable(server, "slow_query_log")? == "1";
    let file = variable(server, "slow_query_log_file")?;
    let long = variable(server, "long_query_time")?;
    let columns = server.columns("mysql", "slow_log")?;
    let has = |name: &str| columns.is_empty() || columns.contains(&name.to_ascii_uppercase());
    // Statements that began before `since` are unwanted; MySQL's stamps give their ends.
    let stamped = match settings.stamped {
        // MariaDB 10.5 writes the end of a statement, as MySQL does.
        Stamped::Detect if server.mariadb && !server.name.starts_with("10.5.") => Stamped::Start,
        Stamped::Detect => Stamped::End,
        given => given,
    };
    let until = settings.until.filter(|_| stamped == Stamped::Start);
    let question = slow_table::question(&has, settings.since, until, server.own);
    let sampling =
        if server.mariadb { Sampling::ask(server, settings)? } else { Sampling::default() };
    let settings = Settings { rate: settings.rate.or(sampling.rate), ..Settings::clone(settings) };
    let mut worker = Worker::new(Arc::new(settings.clone()));
    let (mut rows, mut bytes, mut interrupted) = (0, 0, false);
    let name = server.name.clone();
    server.rows(&question, &mut |row| {
        let place = Place { file: 0, offset: rows };
        let size: usize = row.iter().flatten().map(|value| value.len()).sum();
        rows += 1;
        bytes += size as u64;
        match slow_table::event(row, stamped, place) {
            Ok(event) => worker.event(&event),
            Err(why) => worker.skip(Skip { place, bytes: size as u64, why }),
        }
        if rows % 256 == 0 {
            shown.update(Progress { name: &name, done: bytes, total: None });
            interrupted = stop.is_due();
        }
        !interrupted
    })?;
    shown.clear();
    let writes = output.to_ascii_uppercase().split(',').any(|o| o.trim() == "TABLE");
    let todo = match (writes, on) {
        (true, true) => None,
        (true, false) => Some("the slow log is off; SET GLOBAL slow_query_log = 1".to_owned()),
        (false, _) => Some(format!(
            "log_output is {output}, so the server writes {file} and not the table; SET GLOBAL log_output = 'TABLE,FILE', slow_query_log = 1, or read the file"
        )),
    };
    if rows == 0 && settings.since.is_none() && settings.until.is_none() {
        let why = todo.unwrap_or_else(|| {
            format!("no statement took longer than long_query_time, {long} s, so far; SET GLOBAL long_query_time = 0.1 logs more")
        });
        return Err(Failure::Request(format!("{name}: mysql.slow_log is empty: {why}")));
    }
    let mut outcome = worker.finish().outcome(input(server, Format::SlowLogTable, bytes), Some(0));
    outcome.notes.push(format!(
        "Of mysql.slow_log ({}; long_query_time is {long} s now): plans, flags, sizes of answers and engine statistics are only in the log file.",
        plural(rows, "row")
    ));
    outcome.notes.extend(sampling.notes);
    outcome.notes.extend(todo.map(|todo| format!("These rows may be old: {todo}.")));
    if interrupted {
        outcome
            .problems
            .push(Problem { name, what: format!("interrupted after {}", plural(rows, "row")) });
    }
    Ok(outcome)
}

/// Seconds since the epoch of the server's clock, in microseconds.
fn server_now(server: &mut Server) -> Outcome<i64> {
    let text = server.value("SELECT UNIX_TIMESTAMP(NOW(6))")?.unwrap_or_default();
    Ok(text.parse::<f64>().map_or_else(|_| when::now(), |seconds| (seconds * 1e6) as i64))
}

fn totals(
    server: &mut Server,
    args: &DigestArgs,
    settings: &Arc<Settings>,
    stop: &Stop,
) -> Outcome<run::Outcome> {
    let name = server.name.clone();
    let fail = |what: &str| Err(Failure::Request(format!("{name}: {what}")));
    if server.value("SELECT @@global.performance_schema")?.as_deref() != Some("1") {
        return fail("performance_schema is off, and can only be switched on when the server starts: performance_schema=ON in its option file");
    }
    let columns_of = |server: &mut Server, table| server.columns("performance_schema", table);
    let columns = columns_of(server, digests::TABLE)?;
    let has = |column: &str| columns.is_empty() || columns.iter().any(|c| c == column);
    let question = digests::question(&has);
    let columns = columns_of(server, digests::EVENTS_TABLE)?;
    let has = |column: &str| columns.is_empty() || columns.iter().any(|c| c == column);
    let events_question = digests::events_question(&has);
    let mut unread = None;
    let mut snapshot = |server: &mut Server| {
        let mut snapshot = Snapshot::default();
        let mut add = |row: &Row<'_>| {
            snapshot.add(row);
            true
        };
        server.rows(&question, &mut add)?;
        // A report of the digests is worth making without the rest.
        if unread.is_none() {
            unread = server.rows(&events_question, &mut add).err();
        }
        Ok::<_, Failure>(snapshot)
    };
    let mut before = None;
    if args.running.run_time.is_some() {
        before = Some((snapshot(server)?, server_now(server)?));
        while !stop.is_due() {
            stop.sleep_until(stop::now() + std::time::Duration::from_secs(1));
        }
    }
    let after = snapshot(server)?;
    let ended = server_now(server)?;
    if after.is_empty() {
        return fail(
            "performance_schema has no digest: UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'statements_digest'",
        );
    }
    let between = before.as_ref().map(|(_, began)| (*began, ended));
    let mut outcome =
        Worker::new(settings.clone()).finish().outcome(input(server, Format::Digests, 0), Some(0));
    let by_db = settings.group_by == GroupBy::Db;
    let earlier = before.as_ref().map(|(snapshot, _)| snapshot);
    let period = digests::count(earlier, &after, between, by_db, &mut outcome.table);
    outcome.events = period.statements;
    let seconds = between.map(|(began, ended)| (ended - began) as f64 / 1e6);
    outcome.notes.extend(digests::note(period, seconds));
    outcome.notes.extend(unread.map(|failure| {
        format!("Prepared statements over the binary protocol are left out, which have no digest: {failure}")
    }));
    Ok(outcome)
}

fn watch(
    server: &mut Server,
    args: &DigestArgs,
    settings: &Arc<Settings>,
    stop: &Stop,
) -> Outcome<run::Outcome> {
    let columns = server.columns("information_schema", "PROCESSLIST")?;
    let has = |column: &str| columns.iter().any(|c| c == column);
    let question = processlist::question(&has, server.own);
    let sees_all = server.value(
        "SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'PROCESS'",
    )?;
    let every = args.running.every;
    let mut worker = Worker::new(settings.clone());
    let mut tracker = Tracker::default();
    let mut problems = Vec::new();
    let mut next = stop::now();
    loop {
        tracker.begin(when::now());
        let result = server.rows(&question, &mut |row| {
            tracker.row(row, &mut worker);
            true
        });
        if let Err(failure) = result {
            // Once the list was read at least once, a report is worth making.
            if tracker.looks() == 1 {
                return Err(failure);
            }
            problems.push(Problem { name: server.name.clone(), what: failure.to_string() });
            break;
        }
        tracker.end(&mut worker);
        next = (next + every).max(stop::now());
        if stop.sleep_until(next) {
            break;
        }
    }
    let still = tracker.finish(&mut worker);
    let mut outcome = worker.finish().outcome(input(server, Format::Processlist, 0), Some(0));
    outcome.problems = problems;
    outcome.notes.extend(processlist::note(&tracker, every.as_secs_f64(), still));
    if sees_all.as_deref() == Some("0") {
        outcome.notes.push(format!(
            "The server shows only statements of this user: as an administrator, {}.",
            grant(
                needs(Source::Processlist),
                args.running.connection.user.as_deref().unwrap_or("...")
            )
        ));
    }
    Ok(outcome)
}
