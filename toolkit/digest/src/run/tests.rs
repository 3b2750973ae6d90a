//! Whole runs over small files.

use super::*;
use frond_event::Metric;
use std::io::Write;

fn log(events: std::ops::Range<u64>) -> Vec<u8> {
    events
        .flat_map(|i| {
            format!(
                "# User@Host: u{}[u] @ h []\n# Thread_id: {}  Schema: shop  QC_hit: No\n# Query_time: 0.{:06}  Lock_time: 0.000040  Rows_sent: {}  Rows_examined: 10\nSET timestamp={};\nselect * from t{} where id={i};\n",
                i % 3, i % 7, i * 37 % 1_000_000, i % 5, 1_700_000_000 + i, i % 50
            )
            .into_bytes()
        })
        .collect()
}

fn origins(files: &[Vec<u8>]) -> (tempfile::TempDir, Vec<Origin>) {
    let dir = tempfile::tempdir().unwrap();
    let origins = files
        .iter()
        .enumerate()
        .map(|(i, bytes)| {
            let path = dir.path().join(format!("slow.log.{i}"));
            std::fs::write(&path, bytes).unwrap();
            Origin::of(&path)
        })
        .collect();
    (dir, origins)
}

fn digest(origins: &[Origin], threads: usize) -> Outcome {
    let settings = Settings { threads, ..Settings::default() };
    run(origins, &Arc::new(settings), &mut |_| {}).unwrap_or_else(|p| panic!("{p:?}"))
}

/// (key, count, sum, min, max, p95, series) of every class, sorted.
fn shown(outcome: &Outcome) -> Vec<String> {
    let mut all: Vec<String> = outcome
        .table
        .classes
        .iter()
        .map(|c| {
            let time = c.summary(Metric::QueryTime).unwrap();
            format!(
                "{} {} {} {} {} {} {} {:?} {}",
                String::from_utf8_lossy(&c.key),
                c.count,
                time.sum,
                time.min,
                time.max,
                time.quantile(0.95),
                time.stddev.to_bits(),
                c.series.at_width(1),
                c.sample.place.offset
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn threads_and_packing_change_nothing() {
    let bytes = log(0..20_000);
    assert!(bytes.len() > 3 * pump::PIECE);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let zstd = zstd::encode_all(&bytes[..], 1).unwrap();
    let (_dir, origins) = origins(&[bytes, gzip.finish().unwrap(), zstd]);
    let one = digest(&origins[..1], 1);
    assert_eq!(one.events, 20_000);
    assert_eq!(one.table.classes.iter().map(|c| c.count).sum::<u64>(), 20_000);
    assert_eq!(one.skips.count(), 0);
    for (origin, threads) in [(0, 2), (0, 5), (1, 2), (2, 1)] {
        assert_eq!(shown(&digest(&origins[origin..=origin], threads)), shown(&one));
    }
}

#[test]
fn an_unreadable_input_does_not_stop_the_others() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&log(0..20_000)).unwrap();
    let mut torn = gzip.finish().unwrap();
    torn.truncate(torn.len() / 2);
    let (dir, mut origins) = origins(&[log(0..10), b"\xfebin".to_vec(), torn]);
    origins.push(Origin::of(&dir.path().join("missing")));
    let outcome = digest(&origins, 2);
    assert!(outcome.events > 5_000 && outcome.events < 20_010, "{}", outcome.events);
    let problems: Vec<&str> = outcome.problems.iter().map(|p| p.what.as_str()).collect();
    assert_eq!(problems.len(), 3);
    assert!(problems.iter().any(|p| p.contains("binary log")));
    assert!(problems.iter().any(|p| p.contains("no such file")));
    assert!(problems.iter().any(|p| p.starts_with("stopped at byte")), "{problems:?}");
    assert!(run(&origins[3..], &Arc::new(Settings::default()), &mut |_| {}).is_err());
}

#[test]
fn since_and_until_choose_by_start() {
    let (_dir, origins) = origins(&[log(0..100)]);
    let settings = Settings {
        since: Some(1_700_000_010_000_000),
        until: Some(1_700_000_030_000_000),
        ..Settings::default()
    };
    let outcome =
        run(&origins, &Arc::new(settings), &mut |_| {}).unwrap_or_else(|p| panic!("{p:?}"));
    assert_eq!((outcome.events, outcome.left_out), (100, 80));
}

#[test]
fn empty_inputs_give_an_empty_result() {
    let (_dir, origins) = origins(&[Vec::new()]);
    let outcome = digest(&origins, 2);
    assert_eq!((outcome.events, outcome.problems.len()), (0, 0));
}

#[test]
fn general_and_raw_logs_do_not_depend_on_threads() {
    let mut general = String::from("/usr/sbin/mariadbd, Version: 10.11.6-MariaDB-log. started with:\nTcp port: 3306  Unix socket: /x\nTime\t\t    Id Command\tArgument\n");
    let mut raw = String::new();
    for i in 0..40_000 {
        let id = i % 11;
        general += &match i / 11 {
            0 => format!("260101 10:00:00\t{id:>5} Connect\tu{id}@h{id} on db{}\n", id % 3),
            _ if i % 1000 == 7 => format!("\t\t{id:>5} Init DB\tdb{}\n", i % 4),
            _ => format!("\t\t{id:>5} Query\tselect {i},\n   'Query' from t{}\n", i % 30),
        };
        raw += &format!("select {i} from t{}\n", i % 30);
    }
    assert!(general.len() > pump::PIECE && raw.len() > pump::PIECE / 2);
    let (_dir, origins) = origins(&[general.into_bytes(), raw.into_bytes()]);
    let settings = |threads, format| Settings { threads, format, ..Settings::default() };
    for (origin, format) in [(0, None), (1, Some(Format::Raw))] {
        let counted = |threads| {
            let settings = Arc::new(settings(threads, format));
            let outcome = run(&origins[origin..=origin], &settings, &mut |_| {})
                .unwrap_or_else(|p| panic!("{p:?}"));
            let dbs = |c: &crate::stats::Class| -> Vec<(String, u64)> {
                let name = |id| String::from_utf8_lossy(outcome.table.names.name(id)).into_owned();
                let mut dbs: Vec<_> =
                    c.dbs.sorted().iter().map(|s| (name(s.id), s.count)).collect();
                dbs.sort();
                dbs
            };
            let mut classes: Vec<String> = outcome
                .table
                .classes
                .iter()
                .map(|c| {
                    format!("{:?} {} {:?} {:?}", c.key, c.count, c.sample.place.offset, dbs(c))
                })
                .collect();
            classes.sort();
            (outcome.events, outcome.skips.count(), classes)
        };
        let one = counted(1);
        assert_eq!((one.0, one.1), (40_000, 0));
        assert!(one.2.len() >= 30);
        assert_eq!(counted(3), one);
    }
}

#[test]
fn threads_that_all_panic_end_the_run() {
    let (_dir, origins) = origins(&[log(0..60_000)]);
    let settings = Settings { threads: 2, panics: true, ..Settings::default() };
    let (done, ended) = std::sync::mpsc::channel();
    // Not joined: if the bug this tests for were there, the run would never end.
    std::thread::spawn(move || {
        let run = || drop(run(&origins, &Arc::new(settings), &mut |_| {}));
        let _ = done.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    });
    assert_eq!(ended.recv_timeout(std::time::Duration::from_secs(60)), Ok(true));
}

#[test]
fn a_general_log_whose_clock_goes_back_and_two_of_the_same_time_are_told() {
    let general = |seconds: std::ops::Range<u32>| -> String {
        seconds
            .map(|s| format!("260101 10:{:02}:{:02}\t    7 Query\tselect {s}\n", s / 60, s % 60))
            .collect()
    };
    let notes = |logs: &[String]| {
        let logs: Vec<Vec<u8>> = logs.iter().map(|log| log.clone().into_bytes()).collect();
        let (_dir, origins) = origins(&logs);
        digest(&origins, 2).notes.concat()
    };
    assert_eq!(notes(&[general(0..300), general(300..900)]), "");
    let said = notes(&[general(300..900) + &general(0..300)]);
    assert!(said.contains("The clock goes back by 899 s in "), "{said}");
    let said = notes(&[general(0..600), general(100..900)]);
    assert!(said.contains("cover the same time"), "{said}");
}

#[test]
fn rotated_logs_in_any_order_give_what_the_log_before_its_rotation_gives() {
    let parts = [log(0..900), log(900..1500), log(1500..1501), log(1501..2600), log(2600..3000)];
    let (_one, whole) = origins(&[parts.concat()]);
    let key = |shown: Vec<String>| -> Vec<String> {
        // Places name files, which differ, so they are removed.
        shown.iter().map(|s| s.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    let whole = digest(&whole, 1);
    let mut order = [0, 1, 2, 3, 4];
    for i in 0..40 {
        order.swap(i % 5, (i * 7 + 3) % 4);
        let (_dir, mut files) = origins(&order.map(|n| parts[n].clone()));
        let outcome = digest(&files, 1 + i % 3);
        assert_eq!(key(shown(&outcome)), key(shown(&whole)), "{order:?}");
        assert_eq!(outcome.notes, Vec::<String>::new(), "{order:?}");
        let bytes: Vec<u64> = outcome.files.iter().map(|f| f.bytes).collect();
        assert_eq!(bytes, [0, 1, 2, 3, 4].map(|n: usize| parts[n].len() as u64), "{order:?}");
        // The same file twice is reported, unless all its events are of one moment.
        let long = order.iter().position(|n| *n == 3).unwrap();
        files.push(files[long].clone());
        assert!(!digest(&files, 1).notes.is_empty());
    }
}

#[test]
fn classes_of_long_fingerprints_are_bounded_and_have_their_ids() {
    let columns = |n: u32| -> String { (0..1500).map(|i| format!("column{i}_{n}, ")).collect() };
    let mut bytes = Vec::new();
    for n in [1, 2, 1] {
        let event = String::from_utf8(log(0..1)).unwrap();
        let long = format!("select {} from t0 where", columns(0) + &columns(n) + "last");
        bytes.extend(event.replace("select * from t0 where", &long).into_bytes());
    }
    let (_dir, origins) = origins(&[bytes]);
    let mut outcome = digest(&origins, 2);
    let classes = &outcome.table.classes;
    assert_eq!(classes.len(), 2);
    assert!(classes.iter().all(|c| c.key.len() < 5000));
    let report = crate::report::build(&mut outcome, &crate::report::Options::default());
    for class in &report.classes {
        let mut whole = Vec::new();
        let sql = class.sample.as_ref().unwrap().sql.as_bytes();
        frond_sqltext::fingerprint(sql, frond_sqltext::Dialect::Frond, &mut whole);
        assert_eq!(class.id, frond_sqltext::ClassId::of(&whole).to_string());
        assert!(class.key.ends_with(&format!("... ({} bytes)", whole.len())), "{}", class.key);
    }
}

#[test]
fn general_logs_of_two_servers_in_one_file_are_told() {
    const HEAD: &str = "/usr/sbin/mariadbd, Version: 10.11.6-MariaDB-log (Debian 12). started with:\nTcp port: 3306  Unix socket: /run/a.sock\nTime\t\t    Id Command\tArgument\n";
    let notes = |log: &str| {
        let (_dir, origins) = origins(&[log.as_bytes().to_vec()]);
        let outcome = digest(&origins, 2);
        assert_eq!(outcome.skips.count(), 0);
        outcome.notes.concat()
    };
    // One server: connections begin and end, one is refused, one continues over a flush, the server restarts.
    let quiet = [
        HEAD,
        "260101 10:00:00\t    7 Connect\tapp@web on shop using TCP/IP\n\t\t    7 Query\tselect 1\n\t\t    7 Quit\t\n",
        "260101 10:00:01\t    8 Connect\tapp@web on shop using TCP/IP\n\t\t    8 Query\tselect 1\n",
        "\t\t    9 Connect\tevil@web on shop using TCP/IP\n\t\t    9 Connect\tAccess denied for user 'evil'@'web'\n",
        HEAD,
        "260101 10:00:02\t    8 Query\tselect 1\n\t\t    8 Change user\tapp2@web on shop\n",
        HEAD,
        "260101 10:00:03\t    8 Connect\tapp@web on shop using TCP/IP\n\t\t    8 Query\tselect 1\n",
    ];
    assert_eq!(notes(&quiet.concat()), "");
    let other = HEAD.replace("3306", "3307").replace("a.sock", "b.sock");
    let said = notes(&[quiet[0], quiet[1], &other, quiet[2]].concat());
    assert!(said.contains("two servers are mixed: a server started at Tcp port: 3307"), "{said}");
    let said = notes(&[quiet[0], quiet[2], quiet[2], quiet[1]].concat());
    assert!(said.contains("connection 8 begins while it is open, first in "), "{said}");
    let turn: String = (0..20)
        .map(|i| format!("260101 10:00:{:02}\t    7 Query\tselect 1\n", 10 + i / 2 + 5 * (i % 2)))
        .collect();
    let said = notes(&turn);
    assert!(said.contains("their clocks differ"), "{said}");
}

#[test]
fn statements_that_hold_events_are_told() {
    let events: Vec<String> =
        (0..4).map(|i| String::from_utf8(log(i..i + 1)).unwrap_or_default()).collect();
    let notes = |middle: &str| {
        let bytes = [&events[0], middle, &events[3]].concat().into_bytes();
        let (_dir, origins) = origins(&[bytes]);
        let outcome = digest(&origins, 2);
        assert_eq!((outcome.events, outcome.skips.count()), (3, 0));
        outcome.notes.concat()
    };
    assert_eq!(notes(&events[1]), "");
    // A literal that holds a log; the note cannot tell it from a log.
    let table = events[1].replace("where", &format!("where a = 'x;\n{}' and", events[2]));
    let said = notes(&table);
    assert!(said.starts_with(
        "A literal holds what looks like events of a slow log in 1 statement, first in "
    ));
    assert!(said.contains(&format!(" at byte {}. ", events[0].len())), "{said}");
}
