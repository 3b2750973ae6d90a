//! Logs in the form of each server, and the events that must be found in them.

use super::*;
use frond_event::{Flag, ForEach};

/// The parts of an event that the tests compare, owned.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    sql: String,
    db: String,
    user: String,
    time: Option<u64>,
    start: Option<Micros>,
    end: Option<Micros>,
    offset: u64,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn seen(event: &Event<'_>) -> Seen {
    Seen {
        sql: text(event.sql),
        db: text(event.db),
        user: text(event.user),
        time: event.query_time(),
        start: event.start,
        end: event.end,
        offset: event.place.offset,
    }
}

fn parse_with(
    log: &[u8],
    options: Options,
    mut each: impl FnMut(&Event<'_>),
) -> (Vec<Skip>, Carry) {
    let mut sink = ForEach::new(|event: &Event<'_>| each(event));
    let carry = Carry::default();
    let piece = Piece { bytes: log, place: Place::default(), carry: &carry, last: true };
    let after = Parser::new(options).parse(piece, &mut sink);
    (sink.skips, after)
}

fn parse(log: &str) -> (Vec<Seen>, Vec<Skip>) {
    let mut events = Vec::new();
    let (skips, _) = parse_with(log.as_bytes(), Options::default(), |e| events.push(seen(e)));
    (events, skips)
}

const MARIADB: &str = "\
/usr/sbin/mariadbd, Version: 10.11.6-MariaDB-log (Debian 12). started with:
Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock
Time\t\t    Id Command\tArgument
# Time: 260101 19:09:31
# User@Host: app[app] @ web1 [10.0.0.7]
# Thread_id: 8  Schema: shop  QC_hit: No
# Query_time: 6.000100  Lock_time: 0.000040  Rows_sent: 1  Rows_examined: 10
# Rows_affected: 0  Bytes_sent: 64
# Pages_accessed: 12  Pages_read: 3  Pages_prefetched: 0  Pages_updated: 0  Old_rows_read: 0
# Pages_read_time: 0.1234  Engine_time: 480.1000
# Full_scan: Yes  Full_join: No  Tmp_table: No  Tmp_table_on_disk: No
# Filesort: Yes  Filesort_on_disk: No  Merge_passes: 0  Priority_queue: Yes
#
# explain: id\tselect_type\ttable
# explain: 1\tSIMPLE\tt
#
# Warnings
# Warning 1292 Truncated incorrect DOUBLE value: 'x'
# Note 1003 something
use `shop`;
SET timestamp=1767290971;
select sleep(6), 'x'+0 from t;
# User@Host: app[app] @ web1 [10.0.0.7]
# Thread_id: 8  Schema:   QC_hit: No
# Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 0  Bytes_sent: 11
SET timestamp=1767290972;
# administrator command: Prepare;
";

#[test]
fn mariadb_stamps_the_start() {
    let (events, skips) = parse(MARIADB);
    assert_eq!(skips, []);
    assert_eq!(events.len(), 2);
    assert_eq!(events[0].sql, "select sleep(6), 'x'+0 from t");
    assert_eq!((events[0].db.as_str(), events[0].user.as_str()), ("shop", "app"));
    assert_eq!(events[0].start, Some(1_767_290_971_000_000));
    assert_eq!(events[0].end, Some(1_767_290_977_000_100));
    assert_eq!(events[1].sql, "administrator command: Prepare");
    assert_eq!(events[1].db, "");
    assert_eq!(events[1].end, Some(1_767_290_972_000_100));
}

#[test]
fn mariadb_plan_warnings_and_engine_lines_are_read() {
    let mut first = true;
    let (_, carry) = parse_with(MARIADB.as_bytes(), Options::default(), |event| {
        if !std::mem::take(&mut first) {
            return;
        }
        assert_eq!(event.plan, b"# explain: id\tselect_type\ttable\n# explain: 1\tSIMPLE\tt\n");
        assert!(
            event.warnings.starts_with(b"# Warning 1292 ")
                && event.warnings.ends_with(b"something\n")
        );
        assert_eq!(event.metrics.get(Metric::EngineTime), Some(480_100_000));
        assert_eq!(event.metrics.get(Metric::PagesRead), Some(3));
        assert!(event.flags.is(Flag::PriorityQueue) && !event.flags.is(Flag::FullJoin));
        assert!(event.extra.is_empty(), "{:?}", event.extra);
    });
    // 19:09:31 local time is 18:09:31 UTC: the log shows its zone.
    assert_eq!(carry.zone, Some(3600));
    assert!(!first);
}

#[test]
fn mysql_stamps_the_end() {
    let (events, skips) = parse(
        "# Time: 2026-01-01T18:09:37.000100Z
# User@Host: root[root] @ localhost [127.0.0.1]  Id:     9
# Query_time: 6.000100  Lock_time: 0.000040 Rows_sent: 1  Rows_examined: 10
SET timestamp=1767290971;
select sleep(6);
# Time: 2026-01-01T18:09:38.000000Z
# User@Host: root[root] @ localhost [127.0.0.1]  Id:     9
# Query_time: 0.5  Lock_time: 0.000040 Rows_sent: 1  Rows_examined: 10 Thread_id: 9 Errno: 0 Killed: 0 Bytes_received: 0 Bytes_sent: 57 Read_first: 0 Read_last: 0 Read_key: 0 Read_next: 0 Read_prev: 0 Read_rnd: 0 Read_rnd_next: 0 Sort_merge_passes: 0 Sort_range_count: 0 Sort_rows: 0 Sort_scan_count: 0 Created_tmp_disk_tables: 0 Created_tmp_tables: 0 Start: 2026-01-01T18:09:37.500000Z End: 2026-01-01T18:09:38.000000Z
SET timestamp=1767290977;
select 1;
",
    );
    assert_eq!(skips, []);
    assert_eq!(events[0].start, Some(1_767_290_971_000_000));
    assert_eq!(events[0].end, Some(1_767_290_977_000_100));
    assert_eq!(events[1].start, Some(1_767_290_977_500_000));
    assert_eq!(events[1].end, Some(1_767_290_978_000_000));
}

#[test]
fn the_option_overrules_what_stamps_mean() {
    let options = Options { stamped: Stamped::End, zone: None };
    let mut starts = Vec::new();
    parse_with(MARIADB.as_bytes(), options, |e| starts.push(e.start));
    assert_eq!(starts[0], Some(1_767_290_971_000_000 - 6_000_100));
}

#[test]
fn time_and_database_are_inherited() {
    let (events, _) = parse(
        "# Time: 071015 21:43:52
# User@Host: root[root] @ localhost []
# Query_time: 2  Lock_time: 0  Rows_sent: 1  Rows_examined: 0
use test;
select 1;
# User@Host: root[root] @ localhost []
# Query_time: 2  Lock_time: 0  Rows_sent: 1  Rows_examined: 0
select 2;
",
    );
    assert_eq!(events[1].db, "test");
    assert_eq!(events[1].end, events[0].end);
    assert_eq!(events[1].end, Some(1_192_484_632_000_000));
}

#[test]
fn use_alone_and_set_of_other_things_are_statements() {
    let head = "# User@Host: a[a] @ h []\n# Query_time: 1  Lock_time: 0\n";
    let (events, _) = parse(&format!("{head}SET timestamp=5;\nuse test_db;\n{head}SET autocommit=1;\n{head}SET timestamp=7, x=1;\n{head}SET insert_id=3,timestamp=6;\nselect 1;\n"));
    let sql: Vec<&str> = events.iter().map(|e| e.sql.as_str()).collect();
    assert_eq!(sql, ["use test_db", "SET autocommit=1", "SET timestamp=7, x=1", "select 1"]);
    assert_eq!(events[3].end, Some(6_000_000));
}

#[test]
fn line_ends_nul_and_invalid_utf8_do_no_harm() {
    let head = "# User@Host: a[a] @ h []\r\n# Thread_id: 3  Schema: s  QC_hit: No\r\n# Query_time: 1  Lock_time: 0\r\n";
    let mut log = format!("{head}SET timestamp=5;\r\nselect 'a\0b").into_bytes();
    log.extend_from_slice(b"\xff\xfe';\r\n");
    log.extend_from_slice(format!("{head}select 2;\r\n").as_bytes());
    let mut statements = Vec::new();
    let (skips, _) = parse_with(&log, Options::default(), |e| statements.push(e.sql.to_vec()));
    assert_eq!(skips, []);
    assert_eq!(statements, [&b"select 'a\0b\xff\xfe'"[..], b"select 2"]);
}

#[test]
fn a_log_cut_anywhere_gives_the_whole_events_and_one_skip() {
    for cut in 0..MARIADB.len() {
        let (events, skips) = parse(&MARIADB[..cut]);
        assert!(events.len() <= 2 && skips.len() <= 1, "cut at {cut}: {events:?} {skips:?}");
        for event in &events {
            assert!(
                event.sql == "select sleep(6), 'x'+0 from t"
                    || event.sql.starts_with("administrator"),
                "cut at {cut}: {event:?}"
            );
        }
        let (events, skips) = parse(&MARIADB[cut..]);
        assert!(events.len() <= 2 && skips.len() <= 2, "from {cut}: {skips:?}");
    }
    let (events, skips) = parse(&MARIADB[..MARIADB.len() - 20]);
    assert_eq!(events.len(), 1);
    assert_eq!(skips[0].why, SkipReason::Cut);
    assert_eq!(skips[0].place.offset as usize, MARIADB.rfind("# User@Host").unwrap_or(0));
}

#[test]
fn pieces_parsed_apart_give_the_same_events() {
    let log: String = (0..50)
        .map(|i| {
            let time = if i % 7 == 0 { format!("# Time: 071015 21:43:{i:02}\n") } else { String::new() };
            let db = if i % 11 == 0 { format!("use db{i};\n") } else { String::new() };
            format!("{time}# User@Host: a[a] @ h []\n# Query_time: {i}  Lock_time: 0\n{db}select {i};\n")
        })
        .collect();
    let (whole, _) = parse(&log);
    assert_eq!(whole.len(), 50);
    for size in [150, 400, 1000] {
        let (mut events, mut from, mut carry) = (Vec::new(), 0, Carry::default());
        while from < log.len() {
            let rest = &log.as_bytes()[from..];
            let window = &rest[..rest.len().min(size)];
            let end = if window.len() == rest.len() {
                rest.len()
            } else {
                split::last_boundary(window).unwrap_or(0)
            };
            assert!(end > 0);
            let piece = Piece {
                bytes: &rest[..end],
                place: Place { file: 0, offset: from as u64 },
                carry: &carry,
                last: end == rest.len(),
            };
            let mut sink = ForEach::new(|e: &Event<'_>| events.push(seen(e)));
            carry = Parser::new(Options::default()).parse(piece, &mut sink);
            from += end;
        }
        assert_eq!(events, whole);
    }
}

#[test]
fn a_clock_that_jumped_leaves_no_time() {
    let (events, _) = parse("# User@Host: a[a] @ h []\n# Query_time: 18446744073708.796870.000036  Lock_time: 0.000036\nselect 1;\n");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].time, None);
}

#[test]
fn hostile_repetition_takes_linear_time() {
    let unit =
        ["';\n# Schema: \n", "\";\n# Query_time: 1\n", "`;\n# Time: 1\n", "/*;\n# Schema: \n"];
    for pattern in unit {
        let log = format!("# Query_time: 1\nselect {}", pattern.repeat((1 << 20) / pattern.len()));
        let began = processor_time();
        parse(&log);
        let spent = processor_time().saturating_sub(began);
        assert!(spent.as_millis() < 1000, "{pattern:?}: {spent:?}");
    }
}

/// CPU time of this thread if the system reports it; otherwise the wall clock.
fn processor_time() -> std::time::Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.as_ref().and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or_else(
        || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
        std::time::Duration::from_nanos,
    )
}

/// Logs that contain logs: literals, comments and warnings that hold whole events; and events that are cut.
fn nasty() -> Vec<Vec<u8>> {
    let fake = "# Time: 260101 10:00:00\n# User@Host: f[f] @ h []\n# Thread_id: 1  Schema: fake  QC_hit: No\n# Query_time: 9  Lock_time: 0\nuse fake;\nSET timestamp=5;\nselect 'fake';\n";
    let start = "/usr/sbin/mariadbd, Version: 10.11.6-MariaDB-log. started with:\nTcp port: 3306  Unix socket: /x\nTime\t\t    Id Command\tArgument\n";
    let head = "# User@Host: a[a] @ localhost []\n# Thread_id: 3  Schema: s  QC_hit: No\n# Query_time: 1.5  Lock_time: 0\n";
    let old = "# Time: 071015 21:43:52\n# User@Host: root[root] @ localhost []\n# Query_time: 2  Lock_time: 0\n";
    let logs = [
        // Literals of every kind with several events each.
        format!("{old}use one;\nselect 1;\n{head}insert into t values ('x;\n{fake}{fake}{fake}', \"y\\\";\n{fake}\", `z;\n{fake}`);\n{old}select 2;\n{head}select /* ;\n{fake}{fake}*/ 3;\n{old}select 4;\n"),
        // Cut in the middle of a literal, with literals behind; a head without `;` before it.
        format!("{head}insert into t values ('abc;\n{head}select 'a', \"b\";\n{old}select 'c\n{old}use two;\nselect 5;\n{head}select 'x\\\\', 'it''s';\n{head}select 6;\n"),
        // Starts of the server, alone and in a row, rubbish, blank lines.
        format!("{start}{start}{head}select 1;\n{start}{old}select 2;\nrubbish, Version: of\nsomething\n{head}select 3;\n\n\n{start}{start}{head}select 'a\n{start}{old}select 4;\n{start}"),
        // Warnings and plans; commands.
        format!("{MARIADB}{head}#\n# explain: id\tx\n# explain: 1\t{}\n#\n# Warnings\n# Warning 1292 Truncated: 'x;\n{fake}'\n# Note 1003 y\nSET timestamp=7;\nselect 7;\n{head}# administrator command: Quit;\n{head}# Warnings\n# Error 1 z\nselect 8;\n{old}select 9;\n", "y ;".repeat(30)),
        // No line break at the end of the log.
        format!("{old}select 1;\n{old}use three;\nselect 2;\n{head}select 3"),
    ];
    let crlf = logs[0].replace('\n', "\r\n");
    logs.into_iter().chain([crlf]).map(String::into_bytes).collect()
}

/// Everything that a log gives when it is read through buffers of `size` bytes, which grow only if
/// necessary.
fn through_buffers(log: &[u8], size: usize, as_team: bool) -> (Vec<Seen>, Vec<Skip>) {
    let options = Options { zone: Some(0), ..Options::default() };
    let parser = Parser::new(options);
    let (mut events, mut marks) = (Vec::new(), Vec::new());
    let mut sink = ForEach::new(|e: &Event<'_>| events.push(seen(e)));
    let (mut from, mut want, mut carry) = (0, size, Carry::default());
    while from < log.len() {
        let rest = &log[from..];
        let last = want >= rest.len();
        let bytes = &rest[..want.min(rest.len())];
        let place = Place { file: 0, offset: from as u64 };
        let piece = Piece { bytes, place, carry: &carry, last };
        let (used, after) = if last {
            (rest.len(), parser.parse(piece, &mut sink))
        } else if as_team {
            let cut = split::cut(bytes, &mut marks).unwrap_or(0);
            let piece = Piece { bytes: &bytes[..cut], ..piece };
            let after = parser.parse(piece, &mut sink);
            let mut cheap = parser.carry_over(&bytes[..cut], &marks, &carry);
            cheap.zone = after.zone;
            assert_eq!(cheap, after, "cut at {} of {size}", from + cut);
            (cut, after)
        } else {
            let (used, after) = parser.parse_certain(piece, &mut sink);
            assert_eq!(split::cut(bytes, &mut marks).unwrap_or(0), used, "{from} {size}");
            (used, after)
        };
        want = if used == 0 { want * 2 } else { size };
        from += used;
        carry = after;
    }
    let skips = sink.skips;
    (events, skips)
}

#[test]
fn it_does_not_matter_where_a_log_is_cut() {
    for log in nasty() {
        let whole = through_buffers(&log, log.len(), false);
        assert!(whole.0.len() >= 2, "{:?}", whole.0);
        assert!(whole.0.iter().all(|e| e.sql != "select 'fake'"), "{:?}", whole.0);
        for size in 1..log.len() {
            for as_team in [false, true] {
                assert_eq!(through_buffers(&log, size, as_team), whole, "{size} {as_team}");
            }
        }
    }
}

#[test]
fn mysql_8_s_counters_of_log_slow_extra_are_read() {
    let log = "# Time: 2024-03-10T12:00:01.500000Z\n# User@Host: web[web] @ app1 [10.0.0.1]  Id:    18\n# Query_time: 1.500000  Lock_time: 0.000002 Rows_sent: 3  Rows_examined: 4000 Thread_id: 18 Errno: 0 Killed: 0 Bytes_received: 57 Bytes_sent: 161 Read_first: 1 Read_last: 2 Read_key: 3 Read_next: 4 Read_prev: 5 Read_rnd: 6 Read_rnd_next: 4001 Sort_merge_passes: 7 Sort_range_count: 8 Sort_rows: 9 Sort_scan_count: 10 Created_tmp_disk_tables: 11 Created_tmp_tables: 12 Start: 2024-03-10T12:00:00.000000Z End: 2024-03-10T12:00:01.500000Z\nuse shop;\nSET timestamp=1710072000;\nselect a from t order by b;\n";
    let mut found = Vec::new();
    let mut times = (None, None, None, None);
    let mut sink = frond_event::ForEach::new(|e: &Event<'_>| {
        found = e.metrics.iter().map(|(i, v)| (Metric::from_index(i).name(), v)).collect();
        times = (e.start, e.end, e.thread_id, e.error);
        assert!(e.extra.iter().all(|(name, _)| *name == b"Bytes_received"), "{:?}", e.extra);
    });
    let carry = Carry::default();
    let piece = Piece { bytes: log.as_bytes(), place: Place::default(), carry: &carry, last: true };
    Parser::new(Options::default()).parse(piece, &mut sink);
    assert!(sink.skips.is_empty());
    drop(sink);
    for expected in [
        ("Query_time", 1_500_000_000),
        ("Lock_time", 2_000),
        ("Rows_sent", 3),
        ("Rows_examined", 4000),
        ("Bytes_sent", 161),
        ("Read_first", 1),
        ("Read_last", 2),
        ("Read_key", 3),
        ("Read_next", 4),
        ("Read_prev", 5),
        ("Read_rnd", 6),
        ("Read_rnd_next", 4001),
        ("Sort_merge_passes", 7),
        ("Sort_range_count", 8),
        ("Sort_rows", 9),
        ("Sort_scan_count", 10),
        ("Created_tmp_disk_tables", 11),
        ("Created_tmp_tables", 12),
    ] {
        assert!(found.contains(&expected), "{expected:?} {found:?}");
    }
    let start = 1_710_072_000_000_000;
    assert_eq!(times, (Some(start), Some(start + 1_500_000), Some(18), Some(0)));
}
