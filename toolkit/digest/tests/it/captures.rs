//! Reports of captures: statements without an answer, damage, samples.

use super::traffic::*;
use frond_capture::Sampling;
use frond_digest::filter::{Context, Filter};
use frond_digest::report::rank::Limit;
use frond_digest::report::{build, text, Options};
use frond_digest::run::{run, Settings};
use frond_querylog::input::Origin;
use frond_sqltext::Dialect;
use serde_json::Value;
use std::sync::Arc;

const SECOND: i64 = 1_000_000_000;

/// The document, and the report for a terminal.
fn report(file: &[u8], settings: Settings, options: &Options) -> (Value, String) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("capture.pcap");
    std::fs::write(&path, file).unwrap();
    let mut options = options.clone();
    options.sampling = settings.traffic.sampling;
    let origins = [Origin::of(&path)];
    let mut outcome = run(&origins, &Arc::new(settings), &mut |_| {}).ok().unwrap();
    let report = build(&mut outcome, &options);
    let mut page = Vec::new();
    text::write(&report, 100, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    // Undoes the wrapping of paragraphs.
    let page = page.replace("\n#   ", " ");
    (serde_json::to_value(&report).unwrap(), page)
}

fn all() -> Options {
    Options { limit: Limit { share: 1.0, most: 1000 }, ..Options::default() }
}

fn sampled(one_in: &str) -> Settings {
    let mut settings = Settings::default();
    settings.traffic.sampling = Some(Sampling::parse(one_in).unwrap());
    settings
}

/// One client waits until the capture ends, another until its connection ends; the others get
/// answers.
fn hung() -> Vec<Seen> {
    let mut atend = Connection::new(40_000);
    let time = atend.login(BEGIN, 0);
    atend.send(time + SECOND, CLIENT, &query("select sleep(60), 'atend'"));
    let mut victim = Connection::new(40_002);
    let time = victim.login(BEGIN, 0);
    let asked = victim.send(time + SECOND, CLIENT, &query("update t set a = 'victim' where b = 1"));
    victim.close(asked + 500_000_000);
    let mut other = Connection::new(40_004);
    let mut time = other.login(BEGIN, 0);
    for i in 0..10 {
        time = other.ask(time + SECOND, &query(&format!("select {i}")), 1_000_000, &rows(1, 9));
    }
    merge(vec![atend, victim, other])
}

#[test]
fn statements_that_never_return_are_told_with_how_long_they_waited_at_least() {
    let (json, page) = report(&pcap(&hung(), 1 << 20), Settings::default(), &all());
    let unanswered = &json["loss"]["capture"]["unanswered"];
    assert_eq!(unanswered["count"], 2, "{json:#}");
    let first = &unanswered["longest"][0];
    assert_eq!(first["sql"], "select sleep(60), 'atend'");
    let waited = first["at_least"].as_f64().unwrap();
    assert!((9.0..9.1).contains(&waited), "{waited}");
    assert_eq!(
        (&first["user"], &first["db"], &first["thread_id"]),
        (&"app".into(), &"shop".into(), &42.into())
    );
    let second = unanswered["longest"][1]["at_least"].as_f64().unwrap();
    assert!((second - 0.501).abs() < 0.002, "{second}");
    // A lower bound is not shown as a time.
    let classes = json["classes"].as_array().unwrap();
    let class = classes.iter().find(|c| c["id"] == first["id"]).unwrap();
    assert_eq!((&class["unmeasured"], &class["sample"]["time"]), (&1.into(), &Value::Null));
    assert!(page.contains("2 statements had no answer"), "{page}");
    assert!(page.contains("at least 9.") && page.contains("'atend'"), "{page}");
}

#[test]
fn classes_without_time_are_shown_where_the_limit_has_room() {
    let (json, _) = report(&pcap(&hung(), 1 << 20), Settings::default(), &all());
    assert_eq!(
        json["classes"].as_array().unwrap().len() as u64,
        json["overall"]["classes"].as_u64().unwrap()
    );
    assert_eq!(json["rest"], Value::Null);
}

#[test]
fn masked_reports_mask_statements_without_an_answer() {
    let options = Options { redact: true, ..all() };
    let (json, page) = report(&pcap(&hung(), 1 << 20), Settings::default(), &options);
    assert_eq!(json["loss"]["capture"]["unanswered"]["count"], 2);
    for secret in ["atend", "victim"] {
        assert!(!json.to_string().contains(secret) && !page.contains(secret), "{page}");
    }
}

/// In a lossy sample many statements have no time, but they still count.
#[test]
fn a_report_has_one_total_of_a_sample() {
    let load = load(60, 60, 3);
    let file = pcap(&thin(&load.packets, 30, 3), 1 << 20);
    let filter = |text: &str| {
        let context = Context { now: 0, zone: jiff::tz::TimeZone::UTC, dialect: Dialect::Frond };
        Some(Filter::parse(text, &context).unwrap())
    };
    for filter in [None, filter("sql =~ \"a\"")] {
        let chosen = filter.is_some();
        let (json, page) = report(&file, Settings { filter, ..sampled("1/4") }, &all());
        let total = json["overall"]["statements"].as_f64().unwrap();
        assert!(total > 0.0 && json["overall"]["unmeasured"].as_u64().unwrap() > 0);
        assert_eq!(json["overall"]["left_out"].as_u64().unwrap() > 0, chosen);
        assert_eq!(json["loss"]["capture"]["sampling"]["statements"].as_f64(), Some(total));
        assert!(page.contains("those measured"), "{page}");
    }
}

#[test]
fn the_filter_of_a_sample_is_for_the_ports_that_were_read() {
    let connections = (0..40u16).map(|n| {
        let mut c = Connection::new(40_000 + 2 * n).on_port(if n < 20 { 3307 } else { 3310 });
        let time = c.login(BEGIN + i64::from(n) * SECOND, 0);
        c.ask(time + SECOND, &query("select 1"), 1_000_000, &rows(1, 9));
        c
    });
    let file = pcap(&merge(connections.collect()), 1 << 20);
    let (json, _) = report(&file, sampled("1/4"), &all());
    let filter = json["loss"]["capture"]["sampling"]["filter"].as_str().unwrap();
    assert!(filter.contains("dst port 3307") && filter.contains("src port 3310"), "{filter}");
    assert!(!filter.contains("3306"), "{filter}");
}

/// The clock of the capturing machine is set forward in the middle of a statement.
#[test]
fn times_that_contain_a_silence_of_all_connections_are_told() {
    let packets = |moved: i64| {
        let mut c = Connection::new(40_000);
        let mut time = c.login(BEGIN, 0);
        for i in 0..4 {
            let after = 1_000_000 + if i == 2 { moved } else { 0 };
            time = c.ask(time + SECOND, &query(&format!("select {i}")), after, &rows(1, 9));
        }
        pcap(&c.packets, 1 << 20)
    };
    let (json, page) = report(&packets(0), Settings::default(), &all());
    assert!(!page.contains("clock"), "{json:#}");
    let (_, page) = report(&packets(3600 * SECOND), Settings::default(), &all());
    assert!(
        page.contains("clock") && page.contains("3600s") && page.contains("1 statement"),
        "{page}"
    );
}
