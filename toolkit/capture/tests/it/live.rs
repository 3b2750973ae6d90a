//! A real server, a real client, a real capture: a private MariaDB on loopback, and tcpdump.
//!
//! Needs mariadbd, tcpdump, cc with the client library, and the right to capture; otherwise it
//! prints what is missing and passes.

use super::private::{only, session, thinned};
use super::traffic::*;
use frond_capture::{first_time, Options};
use frond_event::Kind;

fn check(mode: &str) {
    let Some((file, port, _)) = session(&[mode]) else { return };
    let options = Options { ports: vec![port], ..Options::default() };
    let got = read_with(&file, options.clone(), 1 << 20);
    assert_eq!(got.error, None);
    let unmeasured: Vec<&Got> = got.events.iter().filter(|e| e.time.is_none()).collect();
    assert!(unmeasured.is_empty(), "{unmeasured:?}");
    assert_eq!((got.summary.gaps, got.summary.unmeasured), (0, 0), "{}", got.summary);
    let with = |prefix: &str| -> Vec<&Got> {
        got.events.iter().filter(|e| e.sql.starts_with(prefix)).collect()
    };
    let one = |prefix: &str| -> &Got {
        match with(prefix)[..] {
            [event] => event,
            ref others => panic!("{} events `{prefix}` in {:?}", others.len(), got.times()),
        }
    };
    let connect = one("administrator command: Connect");
    assert_eq!((connect.kind, &connect.user[..], connect.error), (Kind::Connect, "app", Some(0)));
    assert!(connect.attributes.contains(&("role".into(), "load".into())));
    assert!(connect.thread_id.is_some());
    assert_eq!(one("administrator command: Init DB").kind, Kind::InitDb);
    assert_eq!(with("insert into t (a) values ('row ").len(), 50);
    let select = one("select id, a from t");
    assert_eq!((select.rows, &select.db[..], &select.user[..]), (Some(50), "shop", "app"));
    assert_eq!(one("update t set b = a").affected, Some(20));
    let error = one("select nosuch from t");
    assert_eq!(error.error, Some(1054));
    assert!(error.error_text.contains("Unknown column"), "{}", error.error_text);
    for sleep in with("select sleep(0.05)") {
        let time = sleep.time.expect("measured");
        assert!((50_000_000..500_000_000).contains(&time), "{time}");
    }
    assert_eq!(with("select sleep(0.05)").len(), 3);
    let several = one("select 1; insert into t");
    assert_eq!((several.rows, several.affected), (Some(3), Some(2)));
    assert_eq!(with("select id from t where id > ").len(), 3);
    let prepared = one("select id from t where id > ? and a <> ?");
    assert_eq!(prepared.kind, Kind::Prepare);
    let first = one("select id from t where id > 10 and a <> 'it\\'s'");
    assert_eq!((first.kind, first.rows), (Kind::Execute, Some(42)));
    assert_eq!(one("select id from t where id > 40 and a <> 'it\\'s'").rows, Some(12));
    assert_eq!(one("insert into t (a, b) values ('long', 'first second')").affected, Some(1));
    let executed: Vec<&Got> = with("select id from t where id <= 35");
    assert_eq!(executed.iter().map(|e| e.kind).collect::<Vec<_>>(), [Kind::Prepare, Kind::Execute]);
    let fetched: u64 = with("administrator command: Fetch").iter().filter_map(|e| e.rows).sum();
    assert_eq!(fetched, 35);
    let bulk = one("insert into t (a) values ('x')");
    assert_eq!((bulk.kind, bulk.affected), (Kind::Execute, Some(3)));
    assert!(bulk.attributes.contains(&("Bulk_rows".into(), "3".into())));
    assert!(one("select repeat('x', 2000000)").bytes_sent.is_some_and(|b| b > 2_000_000));
    let long = one("select length('xxx");
    assert_eq!((long.sql.len(), long.rows), (1 << 20, Some(1)));
    let long = one("select repeat('y', 17000000)");
    assert_eq!(long.rows, Some(1));
    assert!(long.bytes_sent.is_some_and(|b| b > 17_000_000));
    assert_eq!(one("load data local infile").affected, Some(2));
    one("administrator command: Ping");
    one("administrator command: Statistics");
    one("administrator command: Change user");
    assert_eq!(one("select database()").db, "other");
    one("administrator command: Reset connection");
    one("select 'after reset'");
    one("administrator command: Quit");
    assert_eq!(with("DEALLOCATE PREPARE ").len(), 4);
    for event in &got.events {
        assert!(event.time.is_some(), "{event:?}");
        assert!(event.end.is_some() && event.end >= event.start, "{event:?}");
    }
    check_losses(&file, &options, &got);
    check_begins(&file, &options, &got);
}

/// Wherever within a connection the capture begins, the following statements are measured.
fn check_begins(file: &[u8], options: &Options, whole: &Read) {
    for tenth in 1..10 {
        let later = only(file, |index| index as u64 * 10 >= whole.summary.packets * tenth);
        let begin = first_time(&later, 0);
        let got = read_with(&later, options.clone(), 1 << 20);
        let times = |read: &Read| -> Vec<(Option<i64>, Option<u64>)> {
            let later = read.events.iter().filter(|e| e.start > begin && e.time.is_some());
            later.map(|e| (e.start, e.time)).collect()
        };
        assert_eq!(times(&got), times(whole), "from {tenth}/10 of it on: {}", got.summary);
    }
}

/// Whichever packets are removed from a real capture, measured times stay the same.
fn check_losses(file: &[u8], options: &Options, whole: &Read) {
    for (percent, rounds) in [(1, 4), (5, 4), (30, 4), (60, 4)] {
        let mut measured = 0;
        for seed in 0..rounds {
            let got = read_with(&thinned(file, percent, seed), options.clone(), 1 << 20);
            for event in got.events.iter().filter(|e| e.time.is_some() && e.kind != Kind::Connect) {
                let same = |e: &&Got| e.sql == event.sql && e.start == event.start;
                // If the PREPARE was lost, an execution names only the statement's number.
                let unnamed = event.sql.starts_with("EXECUTE ") || event.sql.contains('?');
                let truth = whole.events.iter().find(same);
                let truth = truth
                    .or_else(|| whole.events.iter().find(|e| unnamed && e.start == event.start));
                let truth = truth.unwrap_or_else(|| panic!("{percent} %, {seed}: {event:?}"));
                assert_eq!(event.time, truth.time, "{percent} % removed, seed {seed}: {event:?}");
                measured += 1;
            }
        }
        assert!(measured > 0, "nothing measured with {percent} % removed");
    }
}

#[test]
fn a_real_session_is_read_whole() {
    check("plain");
}

#[test]
fn a_real_compressed_session_is_read_whole() {
    check("compressed");
}
