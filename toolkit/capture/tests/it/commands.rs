//! Every kind of command and of answer, on connections with known times.

use super::traffic::*;
use frond_event::Kind;

const MS: i64 = 1_000_000;
const MS_U: u64 = 1_000_000;

fn one(c: Connection) -> Read {
    read(&pcap(&c.packets, 1 << 20))
}

fn logged_in(port: u16) -> (Connection, i64) {
    let mut c = Connection::new(port);
    let time = c.login(BEGIN, 0);
    (c, time + MS)
}

fn columns(status: u8) -> Vec<u8> {
    [
        packet(1, &[1]),
        packet(2, b"\x03def\0\0\0\x01c\0\x0c\x21\0\0\0\0\0\xfd\0\0\0\0\0"),
        packet(3, &[0xfe, 0, 0, status, 0]),
    ]
    .concat()
}

/// The client needs time to send its file; the statement takes as long.
#[test]
fn load_data_local_ends_with_the_answer_behind_the_file() {
    let (mut c, time) = logged_in(42_001);
    let sent = c.send(time, CLIENT, &query("load data local infile 'two' into table t"));
    c.send(sent + MS, SERVER, &packet(1, b"\xfb/tmp/two"));
    c.send(sent + 2 * MS, CLIENT, &packet(2, b"one\ntwo\n"));
    c.send(sent + 3 * MS, CLIENT, &packet(3, b""));
    let end = c.send(sent + 9 * MS, SERVER, &packet(4, &[0, 2, 0, 2, 0, 0, 0]));
    c.ask(end + MS, &query("select 1"), MS, &rows(1, 1));
    let got = one(c);
    let load = got.find("load data local infile 'two' into table t");
    assert_eq!((load.time, load.affected), (Some(9 * MS_U), Some(2)));
    assert_eq!(load.end, Some((sent + 9 * MS) / 1000));
    assert_eq!(got.find("select 1").time, Some(MS_U));
    assert_eq!(got.events.len(), 3);
}

#[test]
fn a_change_of_user_changes_who_asks_and_forgets_statements() {
    let (mut c, time) = logged_in(42_002);
    let end = c.ask(time, &packet(0, b"\x16select ?"), MS, &prepared(1, 1, 1));
    let change = packet(0, b"\x11bob\0\x03xyzother\0\x21\0mysql_native_password\0");
    let sent = c.send(end + MS, CLIENT, &change);
    // The server asks for another authentication method, and the client uses it.
    c.send(sent + MS, SERVER, &packet(1, b"\xfeclient_ed25519\0salt"));
    c.send(sent + 2 * MS, CLIENT, &packet(2, b"signature"));
    let end = c.send(sent + 5 * MS, SERVER, &packet(3, OK));
    let end = c.ask(end + MS, &query("select 'bob'"), MS, &rows(1, 1));
    let end =
        c.ask(end + MS, &execute(1, 0, &["a"], true), MS, &packet(1, b"\xff\xdb\x04#HY000Unknown"));
    // A refused change of user changes nothing.
    let refused = packet(1, b"\xff\x15\x04#28000Access denied");
    let end = c.ask(end + MS, &packet(0, b"\x11eve\0\x03xyzother\0"), MS, &refused);
    c.ask(end + MS, &query("select 'still bob'"), MS, &rows(1, 1));
    let got = one(c);
    let changes: Vec<_> =
        got.events.iter().filter(|e| e.sql == "administrator command: Change user").collect();
    let [change, refused] = changes[..] else { panic!("{:?}", got.times()) };
    assert_eq!((change.time, change.kind, change.error), (Some(5 * MS_U), Kind::Admin, Some(0)));
    assert_eq!((refused.time, refused.error), (Some(MS_U), Some(1045)));
    for sql in ["select 'bob'", "select 'still bob'"] {
        let event = got.find(sql);
        assert_eq!((&event.user[..], &event.db[..], event.time), ("bob", "other", Some(MS_U)));
    }
    assert_eq!(got.find("EXECUTE 1").error, Some(1243));
}

#[test]
fn values_sent_ahead_belong_to_the_next_execution() {
    let (mut c, time) = logged_in(42_003);
    let prepare = packet(0, b"\x16insert into t (a, b) values (?, ?)");
    let mut end = c.ask(time, &prepare, MS, &prepared(3, 2, 0));
    for piece in [&b"first "[..], b"second"] {
        end = c.send(end + MS, CLIENT, &packet(0, &[b"\x18\x03\0\0\0\x01\0", piece].concat()));
    }
    // The packet has no value for the parameter whose value was sent ahead.
    let mut execution = execute(3, 0, &["long", ""], true);
    execution.pop();
    execution[0] -= 1;
    let end = c.ask(end + MS, &execution, 2 * MS, &packet(1, OK));
    c.ask(end + MS, &execute(3, 0, &["x", "y"], true), MS, &packet(1, OK));
    let got = one(c);
    let long = got.find("insert into t (a, b) values ('long', 'first second')");
    assert_eq!((long.kind, long.time, long.affected), (Kind::Execute, Some(2 * MS_U), Some(1)));
    assert_eq!(got.find("insert into t (a, b) values ('x', 'y')").time, Some(MS_U));
    // Packets of long data are not answered, and they are no statements.
    assert_eq!(got.events.len(), 4);
}

#[test]
fn a_cursors_rows_come_with_later_commands() {
    let (mut c, time) = logged_in(42_004);
    let end = c.ask(time, &packet(0, b"\x16select a from t"), MS, &prepared(5, 0, 1));
    let end = c.ask(end + MS, &execute(5, 1, &[], false), 4 * MS, &columns(0x42));
    let fetch = packet(0, &[0x1c, 5, 0, 0, 0, 2, 0, 0, 0]);
    let row = [0, 0, 1, b'x'];
    let more = [packet(1, &row), packet(2, &row), packet(3, &[0xfe, 0, 0, 0x42, 0])].concat();
    let last = [packet(1, &row), packet(2, &[0xfe, 0, 0, 0x82, 0])].concat();
    let end = c.ask(end + MS, &fetch, MS, &more);
    let end = c.ask(end + MS, &fetch, 2 * MS, &last);
    let end = c.send(end + MS, CLIENT, &packet(0, &[0x19, 5, 0, 0, 0]));
    c.ask(end + MS, &query("select 2"), MS, &rows(1, 1));
    let got = one(c);
    let of = |sql: &str| -> Vec<(Kind, Option<u64>, Option<u64>)> {
        got.events.iter().filter(|e| e.sql == sql).map(|e| (e.kind, e.time, e.rows)).collect()
    };
    assert_eq!(
        of("select a from t"),
        [(Kind::Prepare, Some(MS_U), None), (Kind::Execute, Some(4 * MS_U), Some(0))]
    );
    assert_eq!(
        of("administrator command: Fetch"),
        [(Kind::Admin, Some(MS_U), Some(2)), (Kind::Admin, Some(2 * MS_U), Some(1))]
    );
    assert_eq!(of("select 2"), [(Kind::Query, Some(MS_U), Some(1))]);
}

#[test]
fn several_statements_and_several_results_are_one_answer() {
    let (mut c, time) = logged_in(42_005);
    let mut answer = columns(2);
    answer.extend(packet(4, b"\x011"));
    answer.extend(packet(5, &[0xfe, 0, 0, 8, 0]));
    answer.extend(packet(6, &[0, 3, 0, 8, 0, 0, 0]));
    answer.extend(packet(7, &[0, 4, 0, 2, 0, 1, 0]));
    let sql = "select 1; update t set a = 1; delete from t";
    let sent = c.send(time, CLIENT, &query(sql));
    // The results come as the server has them.
    c.send(sent + MS, SERVER, &answer[..30]);
    let end = c.send(sent + 50 * MS, SERVER, &answer[30..]);
    // The second of three executions fails, which ends the answer.
    let mut answer = packet(1, &[0, 1, 0, 8, 0, 0, 0]);
    answer.extend(packet(2, b"\xff\x7a\x04#42S02Table 's.nosuch' doesn't exist"));
    c.ask(
        end + MS,
        &query("insert into t values (1); select * from nosuch; select 3"),
        MS,
        &answer,
    );
    let got = one(c);
    let several = got.find(sql);
    assert_eq!((several.time, several.rows, several.affected), (Some(MS_U), Some(1), Some(7)));
    assert_eq!((several.end, several.warnings), (Some((sent + 50 * MS) / 1000), Some(1)));
    let failed = got.find("insert into t values (1); select * from nosuch; select 3");
    assert_eq!((failed.error, failed.affected), (Some(1146), Some(1)));
    assert_eq!(failed.error_text, "Table 's.nosuch' doesn't exist");
    assert_eq!(got.events.len(), 3);
}

#[test]
fn a_reset_of_the_connection_forgets_its_statements() {
    let (mut c, time) = logged_in(42_006);
    let end = c.ask(time, &packet(0, b"\x16select ?"), MS, &prepared(1, 1, 1));
    let end = c.ask(end + MS, &packet(0, b"\x1f"), MS, &packet(1, OK));
    c.ask(end + MS, &execute(1, 0, &["a"], true), MS, &packet(1, b"\xff\xdb\x04#HY000Unknown"));
    let got = one(c);
    let texts: Vec<&str> = got.events[1..].iter().map(|e| &e.sql[..]).collect();
    assert_eq!(texts, ["select ?", "administrator command: Reset connection", "EXECUTE 1"]);
    assert!(got.events.iter().all(|e| e.time.is_some()));
}

#[test]
fn many_executions_in_one_command_are_one_event_with_their_number() {
    let (mut c, time) = logged_in(42_007);
    let end = c.ask(time, &packet(0, b"\x16insert into t values (?)"), MS, &prepared(9, 1, 0));
    let bulk = packet(0, b"\xfa\x09\0\0\0\x80\0\xfd\0\0\x01x\0\x02yy\x01\x03");
    c.ask(end + MS, &bulk, 3 * MS, &packet(1, &[0, 4, 0, 2, 0, 0, 0]));
    let got = one(c);
    let bulk = got.find("insert into t values ('x')");
    assert_eq!((bulk.kind, bulk.time, bulk.affected), (Kind::Execute, Some(3 * MS_U), Some(4)));
    assert!(bulk.attributes.contains(&("Bulk_rows".into(), "4".into())));
}

#[test]
fn who_is_killed_has_an_error_and_who_kills_an_answer() {
    let (mut killer, time) = logged_in(42_008);
    let (mut victim, _) = logged_in(42_009);
    let sent = victim.send(time, CLIENT, &query("select sleep(100)"));
    let end = killer.ask(time + 10 * MS, &query("kill query 42"), MS, &packet(1, OK));
    let interrupted = b"\xff\x25\x05#70100Query execution was interrupted";
    let end = victim.send(end, SERVER, &packet(1, interrupted)).max(end);
    assert_eq!(end - sent, 11 * MS);
    let sent = victim.send(end + MS, CLIENT, &query("select sleep(200)"));
    killer.ask(end + 20 * MS, &packet(0, b"\x0c\x2a\0\0\0"), MS, &packet(1, OK));
    // The connection is killed: an error, and the end.
    victim.send(end + 21 * MS, SERVER, &packet(1, b"\xff\x87\x07#70100Connection was killed"));
    victim.close(end + 22 * MS);
    // The server tells an idle connection without a request.
    let (mut idle, time) = logged_in(42_010);
    let asked = idle.ask(time, &query("select 3"), MS, &rows(1, 1));
    idle.send(asked + 60 * MS, SERVER, &packet(0, b"\xff\x87\x07#70100Connection was killed"));
    idle.close(asked + 61 * MS);
    let got = read(&pcap(&merge(vec![killer, victim, idle]), 1 << 20));
    assert_eq!(got.find("kill query 42").time, Some(MS_U));
    assert_eq!(got.find("administrator command: Kill").time, Some(MS_U));
    let first = got.find("select sleep(100)");
    assert_eq!((first.time, first.error), (Some(11 * MS_U), Some(1317)));
    let second = got.find("select sleep(200)");
    assert_eq!((second.time, second.error), (Some((end + 21 * MS - sent) as u64), Some(1927)));
    assert_eq!((got.find("select 3").error, got.summary.unmeasured), (Some(0), 0));
    assert_eq!(got.events.len(), 3 + 2 + 2 + 1);
}

#[test]
fn errors_come_first_or_behind_rows() {
    let (mut c, time) = logged_in(42_011);
    let unknown = packet(1, b"\xff\x1e\x04#42S22Unknown column 'nosuch'");
    let end = c.ask(time, &query("select nosuch"), MS, &unknown);
    let mut late = columns(2);
    late.extend(packet(4, b"\x011"));
    late.extend(packet(5, b"\xff\xb9\x04#HY000Out of sort memory"));
    c.ask(end + MS, &query("select 1 order by 1"), MS, &late);
    let got = one(c);
    let first = got.find("select nosuch");
    assert_eq!((first.error, &first.error_text[..]), (Some(1054), "Unknown column 'nosuch'"));
    let second = got.find("select 1 order by 1");
    assert_eq!((second.error, second.rows, second.time), (Some(1209), Some(1), Some(MS_U)));
}

/// Rows, an OK in place of EOF, no EOF behind the columns: the form that current clients agree on.
#[test]
fn connections_without_eof_packets_are_read_alike() {
    let mut c = Connection::new(42_013);
    let mut time = c.login(BEGIN, 1 << 24 | 1);
    for i in 0..3u8 {
        let mut answer = packet(1, &[1]);
        answer.extend(packet(2, b"\x03def\0\0\0\x01c\0\x0c\x21\0\0\0\0\0\xfd\0\0\0\0\0"));
        answer.extend((0..i).flat_map(|n| packet(3 + n, b"\x01x")));
        answer.extend(packet(3 + i, &[0xfe, 0, 0, 2, 0, i, 0]));
        time = c.ask(time + MS, &query(&format!("select {i}")), MS, &answer);
    }
    let got = one(c);
    for i in 0..3 {
        let event = got.find(&format!("select {i}"));
        assert_eq!((event.rows, event.warnings, event.time), (Some(i), Some(i), Some(MS_U)));
    }
}
