//! Lines of a head.

use super::*;

fn read(line: &'static str) -> (Event<'static>, Found) {
    let mut event = Event::default();
    let mut found = Found::default();
    attributes(&Names::new(), &mut Expected::default(), line.as_bytes(), &mut event, &mut found);
    (event, found)
}

#[test]
fn every_known_name_is_found() {
    let names = Names::new();
    for metric in Metric::ALL {
        assert_eq!(names.get(metric.name().as_bytes()), Some(Known::Metric(*metric)));
    }
    assert_eq!(names.get(b"QC_Hit"), Some(Known::Flag(Flag::QcHit)));
    assert_eq!(names.get(b"Nonsense"), None);
}

#[test]
fn an_empty_schema_does_not_take_the_next_name() {
    let (event, found) = read(" Thread_id: 8  Schema:   QC_hit: No");
    assert_eq!((event.thread_id, event.db), (Some(8), &b""[..]));
    assert_eq!(event.flags.get(Flag::QcHit), Some(false));
    assert!(found.mariadb && found.schema);
    assert_eq!(read(" Thread_id: 342 Schema:  Last_errno: 1 Killed: 2").0.error, Some(1));
    assert_eq!(read(" Thread_id: 1 Schema: db").0.db, b"db");
    assert_eq!(read(" Schema: my shop  QC_Hit: Yes").0.db, b"my shop");
    assert!(!read(" Schema: my shop  QC_Hit: Yes").1.mariadb);
}

#[test]
fn units_are_those_of_the_server() {
    let (event, _) = read(" Pages_read_time: 12.3456  Engine_time: 480.1");
    assert_eq!(event.metrics.get(Metric::PagesReadTime), Some(12_345_600));
    assert_eq!(event.metrics.get(Metric::EngineTime), Some(480_100_000));
    let (event, _) = read(" Query_time: 2  Lock_time: 0.000036");
    assert_eq!(event.query_time(), Some(2_000_000_000));
    assert_eq!(event.metrics.get(Metric::LockTime), Some(36_000));
}

#[test]
fn a_negative_time_is_recognised() {
    let (event, found) = read(" Query_time: 18446744073708.796870.000036  Lock_time: 0.000036");
    assert_eq!(event.query_time(), None);
    assert!(found.clock_jumped && !found.bad_value);
    assert_eq!(event.metrics.get(Metric::LockTime), Some(36_000));
}

#[test]
fn a_negative_time_is_recognised_whichever_attribute_has_it_and_in_any_unit() {
    for wrapped in ["18446744073709.550781", "18446744073709551615", "18446744073.709551"] {
        let line = format!(" Query_time: {wrapped}  Lock_time: 0.000036  Rows_sent: 1");
        let (event, found) = read(line.leak());
        assert_eq!(event.query_time(), None, "{wrapped}");
        assert!(found.clock_jumped && !found.bad_value, "{wrapped}");
        assert_eq!(event.metrics.get(Metric::RowsSent), Some(1));
        let (event, found) = read(format!(" Query_time: 0.5  Lock_time: {wrapped}").leak());
        assert_eq!(event.query_time(), Some(500_000_000));
        assert_eq!(event.metrics.get(Metric::LockTime), None, "{wrapped}");
        assert!(!found.clock_jumped && found.bad_value, "{wrapped}");
        assert_eq!(event.attribute(b"Lock_time"), Some(wrapped.as_bytes()));
    }
    // A count may have any value.
    let (event, found) = read(" Rows_examined: 18446744073709551615");
    assert_eq!(event.metrics.get(Metric::RowsExamined), Some(u64::MAX));
    assert!(!found.bad_value);
}

#[test]
fn what_is_not_a_number_is_kept_and_told() {
    let (event, found) = read(" Rows_sent: many  Rows_examined: 3  InnoDB_trx_id: 1A88");
    assert!(found.bad_value);
    assert_eq!(event.metrics.get(Metric::RowsExamined), Some(3));
    assert_eq!(event.attribute(b"InnoDB_trx_id"), Some(&b"1A88"[..]));
}

#[test]
fn users_and_hosts_of_every_shape() {
    let mut event = Event::default();
    for (line, user, host, ip, id) in [
        ("root[root] @ localhost []", "root", "localhost", "", None),
        ("[SQL_SLAVE] @  []", "[SQL_SLAVE]", "", "", None),
        ("meow[meow] @  [1.2.3.8]", "meow", "1.2.3.8", "1.2.3.8", None),
        ("foo[foo] @ [host]", "foo", "host", "host", None),
        ("u[u] @ h [::1]  Id:     1", "u", "h", "::1", Some(1)),
        ("truncated", "", "", "", None),
    ] {
        event.clear();
        user_at_host(line.as_bytes(), &mut event);
        assert_eq!(event.user, user.as_bytes(), "{line}");
        assert_eq!(event.host, host.as_bytes(), "{line}");
        assert_eq!(event.ip, ip.as_bytes(), "{line}");
        assert_eq!(event.thread_id, id, "{line}");
    }
}
