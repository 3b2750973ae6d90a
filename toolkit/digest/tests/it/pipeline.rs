//! Hostile bytes through the whole pipeline: from a file through threads and statistics into every
//! form of a report.

use frond_digest::report::{self, csv, diff, html, json, ptqd, rank, text};
use frond_digest::run::{run, GroupBy, Outcome, Settings};
use frond_event::Metric;
use frond_querylog::input::{Format, Origin};
use std::path::Path;
use std::sync::Arc;

use frond_digest::stats::waiting::Patterns;

use super::fuzzing::{first_seed, rounds};
use super::pieces::{made, mutated, Random};

fn options(redact: bool) -> report::Options {
    report::Options {
        limit: rank::Limit { share: 1.0, most: usize::MAX },
        outliers: Some(rank::Outliers::default()),
        redact,
        sample_bytes: 100,
        ..report::Options::default()
    }
}

/// Counts and sums, which must not depend on threads.
fn facts(outcome: &Outcome) -> Vec<String> {
    let mut facts: Vec<String> = outcome
        .table
        .classes
        .iter()
        .map(|c| {
            let time = c.summary(Metric::QueryTime);
            let time = time.map(|t| (t.count, t.sum, t.min, t.max, t.quantile(0.95), t.stddev));
            format!("{:?} {} {} {time:?} {:?} {:?}", c.key, c.count, c.weight, c.first, c.last)
        })
        .collect();
    facts.sort();
    facts.push(format!("{} {:?} {:?}", outcome.events, outcome.skips, outcome.notes));
    facts
}

/// Writes every form of report from `outcome`.
fn write_all(outcome: &mut Outcome, compat: bool) {
    let mut page = Vec::new();
    if compat {
        let options = ptqd::Options {
            order: rank::Order::default(),
            limit: rank::Limit::default(),
            outliers: None,
            redact: true,
            head: None,
        };
        return ptqd::write(outcome, &options, &mut page).unwrap();
    }
    let document = report::build(outcome, &options(outcome.events.is_multiple_of(2)));
    text::write(&document, 80, &mut page).unwrap();
    csv::write(&document, &mut page).unwrap();
    json::write_lines(&document, &mut page).unwrap();
    let changes = diff::compare(&document, &document).unwrap();
    diff::write_text(&changes, &mut page).unwrap();
    html::write(&document, Some(&changes), &mut page).unwrap();
    let mut stored = Vec::new();
    json::write(&document, true, &mut stored).unwrap();
    let again: report::Report = serde_json::from_slice(&stored).unwrap();
    assert_eq!(again.classes.len(), document.classes.len());
}

/// Reads a file of these bytes on one thread and on several, and writes every form of report.
fn through(path: &Path, bytes: &[u8], format: Option<Format>, compat: bool, patterns: bool) {
    std::fs::write(path, bytes).unwrap();
    let origins = [Origin::of(path), Origin::of(path)];
    let settings = |threads| {
        let group_by =
            if bytes.len().is_multiple_of(5) { GroupBy::Tables } else { GroupBy::Fingerprint };
        Arc::new(Settings {
            format,
            threads,
            compat,
            patterns,
            group_by,
            users: Patterns { batch: vec!["w*".into()], ..Patterns::default() },
            ..Settings::default()
        })
    };
    let Ok(mut one) = run(&origins, &settings(1), &mut |_| {}) else { return };
    let Ok(several) = run(&origins, &settings(3), &mut |_| {}) else {
        panic!("only on one thread")
    };
    assert_eq!(facts(&one), facts(&several));
    write_all(&mut one, compat);
}

#[test]
fn hostile_bytes_become_reports_or_errors() {
    const FORMATS: [Option<Format>; 6] = [
        None,
        Some(Format::SlowLog),
        Some(Format::GeneralLog),
        Some(Format::Raw),
        Some(Format::TcpdumpText),
        Some(Format::Pcap),
    ];
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("log");
    let slow = include_bytes!("../../../querylog/tests/data/mariadb-10.11-slow.log");
    let general = include_bytes!("../../../querylog/tests/data/mariadb-10.11-general.log");
    let mut random = Random(first_seed() ^ 14);
    for round in 0..rounds(1000) / 5 {
        let bytes = match round % 4 {
            0 => mutated(slow, &mut random),
            1 => mutated(general, &mut random),
            2 => made(&mut random),
            _ => (0..random.below(300)).map(|_| random.below(256) as u8).collect(),
        };
        let format = FORMATS[random.below(FORMATS.len())];
        let (compat, patterns) = (round % 3 == 0, round % 7 == 0);
        let all = || through(&path, &bytes, format, compat, patterns);
        if std::panic::catch_unwind(all).is_err() {
            panic!("the input was {} as {format:?}", bytes.escape_ascii());
        }
    }
}

/// A case that random pieces rarely produce: a log of whole events whose times are far apart.
#[test]
fn events_of_any_year_become_reports() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("log");
    let stamps = ["-62167219200", "0", "1", "1710072000", "253402300799", "9223372036854"];
    let times = ["0000-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"];
    for (i, first) in stamps.iter().enumerate() {
        for second in stamps {
            for time in times {
                let event = |stamp: &str, qc: &str| {
                    format!("# Time: {time}\n# User@Host: web[web] @ app1 [10.0.0.1]\n# Thread_id: 5  Schema: shop{qc}\n# Query_time: 99999999999.5  Lock_time: 0.1  Rows_sent: 1  Rows_examined: 2\nSET timestamp={stamp};\nselect {i};\n")
                };
                for qc in ["", "  QC_hit: No"] {
                    let log = event(first, qc) + &event(second, qc);
                    for compat in [false, true] {
                        through(&path, log.as_bytes(), None, compat, false);
                    }
                }
            }
        }
    }
    let entry = |time: &str| format!("{time}\t    5 Query\tselect 1\n");
    let general = times.map(entry).concat();
    for compat in [false, true] {
        through(&path, general.as_bytes(), None, compat, true);
    }
    for first in ["0000-01-01", "2009-04-12", "9999-12-31"] {
        for second in ["0000-01-01", "2009-04-12", "9999-12-31"] {
            let packet = |day: &str, ends: &str| {
                format!("{day} 09:50:16.804849 IP {ends}: tcp 37\n\t0x0000:  4508 0026 6ecd 4000 4006 cdcd 7f00 0001\n\t0x0010:  7f00 0001 a4b7 0cea 2190 e2c2 2184 9e7a\n\t0x0020:  8018 0105 0000 0000\n")
            };
            let text = packet(first, "127.0.0.1.42167 > 127.0.0.1.3306")
                + &packet(second, "127.0.0.1.42167 > 127.0.0.1.3306");
            through(&path, text.as_bytes(), None, false, false);
        }
    }
}
