//! Snapshots in the form in which servers return them.

use super::*;
use crate::stats::distribution::Known;

/// Values that a test sets, by column; the rest is 0.
fn add(snapshot: &mut Snapshot, db: &str, digest: Option<&str>, values: &[(usize, u64)]) {
    let mut texts = vec![String::from("0"); 19];
    for (column, value) in values {
        texts[*column] = value.to_string();
    }
    let text = digest.map(|d| format!("SELECT `{d}` "));
    let mut row: Vec<Option<&[u8]>> = texts.iter().map(|t| Some(t.as_bytes())).collect();
    row[0] = Some(db.as_bytes());
    row[1] = digest.map(str::as_bytes);
    row[2] = text.as_deref().map(str::as_bytes);
    row.push(Some(b"2026-01-31 18:00:00"));
    row.push(Some(b"2026-01-31 18:10:00.5"));
    row.push(None);
    row.push(None);
    snapshot.add(&row);
}

fn add_event(snapshot: &mut Snapshot, name: &str, count: u64, ms: u64, errors: u64) {
    let values = [(3, count), (4, ms * 1_000_000_000), (8, errors)];
    let mut texts = vec![String::from("0"); 19];
    for (column, value) in values {
        texts[column] = value.to_string();
    }
    let mut row: Vec<Option<&[u8]>> = texts.iter().map(|t| Some(t.as_bytes())).collect();
    row[..3].fill(None);
    row.extend([None, None, None, Some(name.as_bytes())]);
    snapshot.add(&row);
}

#[test]
fn what_has_no_digest_is_a_class_by_its_command() {
    let mut all = Snapshot::default();
    add(&mut all, "a", Some("d1"), &values(10, 100, 1, 40));
    for (name, count, ms, errors) in [
        ("statement/sql/select", 10, 100, 0),
        ("statement/com/Execute", 30, 290, 2),
        ("statement/com/Ping", 4, 1, 0),
        ("statement/sql/error", 3, 9, 3),
        ("statement/sp/stmt", 7, 80, 0),
        ("statement/com/Binlog Dump", 1, 1_000_000, 0),
        ("statement/scheduler/event", 2, 0, 0),
    ] {
        add_event(&mut all, name, count, ms, errors);
    }
    let mut table = Table::new(100, 1000);
    let period = count(None, &all, None, false, &mut table);
    assert_eq!((period.statements, period.time), (49, 400_000_000));
    assert_eq!((period.executes, period.executes_time), (30, 290_000_000));
    assert_eq!(period.both, Some((10, 10)));
    let mut classes: Vec<_> = table
        .classes
        .iter()
        .map(|c| (String::from_utf8_lossy(&c.key).into_owned(), c.count))
        .collect();
    classes.sort();
    let expected = [
        ("(syntax errors)", 3),
        ("SELECT `d1`", 10),
        ("administrator command: Execute", 30),
        ("administrator command: Ping", 4),
        ("statement/scheduler/event", 2),
    ];
    assert_eq!(classes, expected.map(|(key, count)| (key.to_owned(), count)));
    assert_eq!(table.overall().summary(Metric::QueryTime).unwrap().sum, 400_000_000);
    let said = note(period, None).join("\n");
    assert!(said.contains("30 executions") && said.contains("0.290 s (72 % "), "{said}");
    assert!(!said.contains("same moment"), "{said}");
    // With databases as classes, the statements are unknown.
    let mut table = Table::new(100, 1000);
    count(None, &all, None, true, &mut table);
    let keys: Vec<_> = table.classes.iter().map(|c| (&*c.key, c.count)).collect();
    assert_eq!(keys, [(&b"a"[..], 10), (b"(unknown)", 39)]);
}

#[test]
fn executions_of_a_period_are_a_difference_too() {
    let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
    add(&mut after, "a", Some("d1"), &values(10, 100, 1, 40));
    add_event(&mut before, "statement/com/Execute", 30, 290, 2);
    add_event(&mut after, "statement/com/Execute", 37, 300, 2);
    add_event(&mut before, "statement/com/Prepare", 5, 1, 0);
    add_event(&mut after, "statement/com/Prepare", 5, 1, 0);
    add_event(&mut after, "statement/sql/select", 100_000, 1, 0);
    let mut table = Table::new(100, 1000);
    let period = count(Some(&before), &after, Some((1, 2)), false, &mut table);
    assert_eq!((period.executes, period.executes_time, period.both), (7, 10_000_000, None));
    assert_eq!((table.classes.len(), period.reset), (2, false));
}

#[test]
fn tables_that_were_emptied_at_different_times_are_told() {
    let mut all = Snapshot::default();
    add(&mut all, "a", Some("d1"), &values(10, 100, 1, 40));
    add_event(&mut all, "statement/sql/select", 5000, 100, 0);
    let period = count(None, &all, None, false, &mut Table::new(100, 1000));
    let said = note(period, None).join("\n");
    assert!(said.contains("10 statements by digest, 5000 by event name"), "{said}");
}

#[test]
fn each_table_is_asked_for_the_columns_it_has() {
    let digests = question(&|_| true);
    assert!(digests.contains("`DIGEST_TEXT`, `COUNT_STAR`") && !digests.contains("EVENT_NAME"));
    let events = events_question(&|name| name != "SUM_WARNINGS");
    let begin = "SELECT NULL, NULL, NULL, `COUNT_STAR`, `SUM_TIMER_WAIT`, ";
    assert!(events.starts_with(begin) && events.contains("`SUM_ERRORS`, NULL, "), "{events}");
    assert!(events.contains(", NULL, NULL, NULL, `EVENT_NAME` FROM"), "{events}");
}

fn values(count: u64, ms: u64, min: u64, max: u64) -> Vec<(usize, u64)> {
    const MS: u64 = 1_000_000_000;
    vec![(3, count), (4, ms * MS), (5, min * MS), (6, max * MS), (7, MS), (11, count * 2), (17, 1)]
}

#[test]
fn one_snapshot_is_everything_since_the_start() {
    let mut all = Snapshot::default();
    add(&mut all, "a", Some("d1"), &values(10, 100, 1, 40));
    add(&mut all, "b", Some("d1"), &values(2, 60, 20, 40));
    add(&mut all, "", None, &values(5, 9, 1, 3));
    let mut table = Table::new(100, 1000);
    let period = count(None, &all, None, false, &mut table);
    let time = 169_000_000;
    let all = Period { statements: 17, time, without_class: 5, ..Period::default() };
    assert_eq!(period, all);
    assert_eq!(table.classes.len(), 1);
    let class = &table.classes[0];
    assert_eq!((&*class.key, class.count), (&b"SELECT `d1`"[..], 12));
    let time = class.summary(Metric::QueryTime).unwrap();
    assert_eq!((time.sum, time.min, time.max), (160_000_000, 1_000_000, 40_000_000));
    assert!(!time.known.shape && time.known.min && time.known.max);
    assert_eq!(class.sum(Metric::LockTime), 2_000_000);
    assert_eq!(class.sum(Metric::RowsSent), 24);
    assert_eq!(class.flag(Flag::NoIndexUsed), (12, 2));
    assert_eq!(class.dbs.sorted().len(), 2);
    assert_eq!(table.overall().count, 17);
}

#[test]
fn two_snapshots_are_a_period() {
    let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
    add(&mut before, "a", Some("same"), &values(10, 100, 1, 40));
    add(&mut after, "a", Some("same"), &values(10, 100, 1, 40));
    add(&mut before, "a", Some("slower"), &values(10, 100, 1, 40));
    add(&mut after, "a", Some("slower"), &values(14, 400, 1, 250));
    add(&mut before, "a", Some("once"), &values(3, 10, 1, 4));
    add(&mut after, "a", Some("once"), &values(4, 17, 1, 7));
    add(&mut after, "a", Some("new"), &values(3, 30, 5, 20));
    add(&mut before, "a", Some("emptied"), &values(100, 100, 1, 40));
    add(&mut after, "a", Some("emptied"), &values(2, 4, 1, 3));
    let mut table = Table::new(100, 1000);
    let period = count(Some(&before), &after, Some((1, 2)), false, &mut table);
    assert_eq!((period.statements, period.without_class, period.reset), (10, 0, true));
    let time = |digest: &str| {
        let key = format!("SELECT `{digest}`");
        let class = table.classes.iter().find(|c| *c.key == *key.as_bytes());
        class.map(|c| c.summary(Metric::QueryTime).unwrap())
    };
    assert!(time("same").is_none());
    let slower = time("slower").unwrap();
    assert_eq!((slower.count, slower.sum, slower.max), (4, 300_000_000, 250_000_000));
    assert_eq!(slower.known, Known { shape: false, min: false, max: true });
    let once = time("once").unwrap();
    assert_eq!((once.known, once.min, once.max), (Known::ALL, 7_000_000, 7_000_000));
    let new = time("new").unwrap();
    assert_eq!((new.count, new.min, new.max), (3, 5_000_000, 20_000_000));
    assert_eq!(time("emptied").unwrap().count, 2);
    assert_eq!((table.classes[0].first, table.classes[0].last), (Some(1), Some(2)));
}
