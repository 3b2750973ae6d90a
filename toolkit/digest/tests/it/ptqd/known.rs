//! Logs in `data/` that MariaDB 10.11 wrote (with all of `log_slow_verbosity`) for known statements. Among them are a
//! literal that looks like an event of a slow log, warnings that quote it, executions of prepared statements, bytes
//! that are not UTF-8, an error, a transaction.
//!
//! Each test here is a case in which pt-query-digest 3.2 gives another answer.

use std::path::Path;
use std::sync::Arc;

use frond_digest::report::{build, Options, Report};
use frond_digest::run::{run, Outcome, Settings};
use frond_digest::stats::Class;
use frond_event::Metric;
use frond_querylog::input::Origin;
use frond_sqltext::Dialect;

fn digest(file: &str, settings: Settings) -> Outcome {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../querylog/tests/data").join(file);
    run(&[Origin::of(&path)], &Arc::new(settings), &mut |_| {}).unwrap_or_else(|p| panic!("{p:?}"))
}

fn ptqd() -> Settings {
    Settings { dialect: Dialect::Ptqd32, ..Settings::default() }
}

fn class<'a>(outcome: &'a Outcome, key: &str) -> &'a Class {
    let keys = || {
        outcome.table.classes.iter().map(|c| String::from_utf8_lossy(&c.key)).collect::<Vec<_>>()
    };
    let found = outcome.table.classes.iter().find(|c| &*c.key == key.as_bytes());
    found.unwrap_or_else(|| panic!("no class {key}: {:#?}", keys()))
}

#[test]
fn every_statement_of_the_slow_log_is_counted_once() {
    let outcome = digest("mariadb-10.11-slow.log", ptqd());
    assert_eq!((outcome.events, outcome.skips.count()), (21, 0));
    assert_eq!(outcome.zone, Some(0));
    for (key, count) in [
        ("insert into t (a,b) values(?+)", 2),
        ("insert into t (a,b) select a,b from t", 3),
        ("select count(*) from t where b=?", 2),
        // Executions of a prepared statement are in the class of its text.
        ("select * from t where id=? and b > ?", 2),
        ("begin", 1),
        ("commit", 1),
        ("select * from nosuch", 1),
        ("select ?", 2),
    ] {
        assert_eq!(class(&outcome, key).count, count, "{key}");
    }
}

#[test]
fn a_head_inside_a_literal_does_not_split_the_statement() {
    let outcome = digest("mariadb-10.11-slow.log", ptqd());
    assert!(outcome
        .table
        .classes
        .iter()
        .all(|c| c.summary(Metric::QueryTime).is_none_or(|t| t.max < 2_000_000_000)));
    let fake = outcome.table.classes.iter().any(|c| c.sample.user() == b"fake");
    assert!(!fake, "a literal was taken for an event");
    let mut sizes: Vec<u64> = ["insert into t (a,b) values(?+)"]
        .iter()
        .filter_map(|k| class(&outcome, k).summary(Metric::QuerySize))
        .flat_map(|s| [s.min, s.max])
        .collect();
    sizes.sort_unstable();
    // The length of the statement as it was sent.
    assert_eq!(sizes[0], 163);
}

#[test]
fn engine_times_are_milliseconds() {
    let outcome = digest("mariadb-10.11-slow.log", ptqd());
    let counts = class(&outcome, "select count(*) from t where b=?");
    let engine = counts.summary(Metric::EngineTime).unwrap();
    let time = counts.summary(Metric::QueryTime).unwrap();
    assert!(engine.sum > 0 && engine.sum < time.sum, "{} {}", engine.sum, time.sum);
}

#[test]
fn times_are_those_of_the_start() {
    let outcome = digest("mariadb-10.11-slow.log", ptqd());
    let sleep = class(&outcome, "select sleep(?)");
    assert_eq!(sleep.sample.start, Some(1_795_321_310_000_000));
    assert_eq!(sleep.sample.end, Some(1_795_321_311_200_176));
}

#[test]
fn plans_and_warnings_are_kept() {
    let mut outcome = digest("mariadb-10.11-slow.log", Settings::default());
    let report: Report =
        build(&mut outcome, &Options { limit: "100%".parse().unwrap(), ..Options::default() });
    let of = |begin: &str| report.classes.iter().find(|c| c.key.starts_with(begin)).unwrap();
    let plan = of("select a, count(*)").sample.as_ref().unwrap().plan.as_ref().unwrap();
    assert_eq!((plan.columns[0].as_str(), plan.columns.len(), plan.rows.len()), ("id", 13, 1));
    assert_eq!(plan.rows[0][12], "Using temporary; Using filesort");
    let warned = report
        .classes
        .iter()
        .find(|c| c.sample.as_ref().is_some_and(|s| !s.warnings.is_empty()))
        .unwrap();
    assert!(warned.key.contains("limit"), "{}", warned.key);
}

#[test]
fn executes_of_the_general_log_are_statements() {
    let outcome = digest("mariadb-10.11-general.log", ptqd());
    assert_eq!(outcome.skips.count(), 0);
    // Prepared once, executed twice; `execute s using` itself is a statement too.
    let executed = class(&outcome, "select * from t where id=? and b > ?");
    assert_eq!((executed.count, executed.rare().executes), (2, 2));
    assert_eq!(class(&outcome, "select * from t where id=? and b > ?").sample.sql[..].len(), 36);
    assert_eq!(class(&outcome, "insert into t (a,b) values(?+)").count, 2);
    assert_eq!(executed.sample.db(), b"shop");
}

#[test]
fn patterns_are_found_on_a_connection() {
    let outcome =
        digest("mariadb-10.11-slow.log", Settings { patterns: true, ..Settings::default() });
    let patterns = outcome.patterns.unwrap();
    assert_eq!((patterns.transactions, patterns.statements_in_transactions), (1, 1));
}
