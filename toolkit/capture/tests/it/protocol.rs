//! Forms of the protocol that a simulated server can speak and a real one rarely speaks.

use super::programs::{bounded, has};
use super::traffic::*;
use frond_capture::{Options, Sampling};
use frond_event::{Kind, Unmeasured};

const MS: i64 = 1_000_000;

fn one(c: Connection) -> Read {
    read(&pcap(&c.packets, 1 << 20))
}

fn logged_in(port: u16) -> (Connection, i64) {
    let mut c = Connection::new(port);
    let time = c.login(BEGIN, 0);
    (c, time + MS)
}

#[test]
fn a_login_tells_who_asks() {
    let (mut c, time) = logged_in(40_001);
    c.ask(time, &query("select 1"), MS, &rows(1, 5));
    let got = one(c);
    let connect = &got.events[0];
    assert_eq!((connect.kind, &connect.sql[..]), (Kind::Connect, "administrator command: Connect"));
    // From the first packet to the server's OK.
    assert_eq!((connect.time, connect.start), (Some(400_000), Some(BEGIN / 1000)));
    let select = got.find("select 1");
    assert_eq!((&select.user[..], &select.db[..], select.thread_id), ("app", "shop", Some(42)));
    assert_eq!(select.time, Some(MS as u64));
    assert_eq!((select.rows, select.error), (Some(1), Some(0)));
    assert!(select.attributes.contains(&("os".into(), "Linux".into())));
}

#[test]
fn a_refused_connection_has_an_error() {
    let mut c = Connection::new(40_002);
    c.open(BEGIN);
    c.send(BEGIN + MS, SERVER, &packet(0, b"\xff\x10\x04Too many connections"));
    c.close(BEGIN + 2 * MS);
    let got = one(c);
    let refused = &got.events[0];
    assert_eq!((refused.kind, refused.error), (Kind::Connect, Some(1040)));
    assert_eq!(refused.error_text, "Too many connections");
    assert_eq!(refused.time, Some(MS as u64));
    assert_eq!(got.events.len(), 1);
}

/// The server hangs up before its greeting, before the login, and before the answer to the login.
#[test]
fn a_server_that_hangs_up_during_the_login_is_counted_with_its_time() {
    for steps in 0..3 {
        let mut c = Connection::new(40_100 + steps);
        c.open(BEGIN);
        let said = [(SERVER, packet(0, &greeting(0))), (CLIENT, packet(1, &login(0)))];
        for (i, (side, bytes)) in said.iter().enumerate().take(usize::from(steps)) {
            c.send(BEGIN + (i as i64 + 1) * MS, *side, bytes);
        }
        c.leave(BEGIN + 9 * MS, SERVER);
        c.leave(BEGIN + 10 * MS, CLIENT);
        let got = one(c);
        assert_eq!(got.events.len(), 1, "{steps}");
        let failed = &got.events[0];
        assert_eq!((failed.kind, failed.error), (Kind::Connect, None));
        assert_eq!(failed.error_text, "the server closed the connection during the login");
        assert_eq!((failed.time, failed.start), (Some(9 * MS as u64), Some(BEGIN / 1000)));
        assert_eq!(failed.user, if steps == 2 { "app" } else { "" });
        assert_eq!((got.summary.hung_up, got.summary.connections), (1, 1), "{steps}");
    }
    // The client leaves first: a health check.
    let mut c = Connection::new(40_110);
    c.open(BEGIN);
    c.send(BEGIN + MS, SERVER, &packet(0, &greeting(0)));
    c.close(BEGIN + 2 * MS);
    let got = one(c);
    assert_eq!((got.events.len(), got.summary.hung_up), (0, 0));
}

#[test]
fn pipelined_requests_do_not_contain_each_others_time() {
    let (mut c, time) = logged_in(40_003);
    let sent = c.send(time, CLIENT, &query("select 1"));
    c.send(sent + 1000, CLIENT, &query("select 2"));
    c.send(sent + 2000, CLIENT, &query("select 3"));
    let first = c.send(sent + 10 * MS, SERVER, &rows(1, 5));
    let second = c.send(first + 3 * MS, SERVER, &rows(2, 5));
    c.send(second + 5 * MS, SERVER, &rows(3, 5));
    let got = one(c);
    let times: Vec<_> = (1..4).map(|i| got.find(&format!("select {i}")).time).collect();
    assert_eq!(times, [10 * MS, 3 * MS, 5 * MS].map(|t| Some(t as u64)));
}

#[test]
fn a_statement_executed_before_its_number_is_known_has_its_text() {
    let (mut c, time) = logged_in(40_004);
    let sent = c.send(time, CLIENT, &packet(0, b"\x16select a from t where b = ?"));
    c.send(sent, CLIENT, &execute(u32::MAX, 0, &["x"], true));
    c.send(sent + MS, SERVER, &prepared(7, 1, 1));
    let end = c.send(sent + 2 * MS, SERVER, &rows(1, 1));
    // Later under its number, without the types.
    let again = execute(7, 0, &["y"], false);
    c.ask(end + MS, &again, MS, &rows(1, 1));
    let got = one(c);
    assert_eq!(got.find("select a from t where b = ?").kind, Kind::Prepare);
    assert_eq!(got.find("select a from t where b = 'x'").kind, Kind::Execute);
    assert_eq!(got.find("select a from t where b = 'y'").time, Some(MS as u64));
}

/// The execution is not of the statement prepared before, and the first answer is not its own.
#[test]
fn an_execution_whose_prepare_was_lost_is_of_no_other_statement() {
    let (mut c, time) = logged_in(40_030);
    let mut time =
        c.ask(time, &packet(0, b"\x16select a from t where b = ?"), MS, &prepared(7, 1, 1));
    for _ in 0..6 {
        time = c.ask(time + MS, &execute(7, 0, &["x"], true), MS, &rows(1, 1));
    }
    let lost = c.packets.len();
    let sent = c.send(time + MS, CLIENT, &packet(0, b"\x16select c from u where d = ?"));
    c.send(sent + 10_000, CLIENT, &execute(u32::MAX, 0, &["y"], true));
    c.send(sent + 2 * MS, SERVER, &prepared(8, 1, 1));
    let time = c.send(sent + 5 * MS, SERVER, &rows(1, 1));
    c.acknowledge(time + 500, CLIENT);
    let time = c.ask(time + MS, &execute(8, 0, &["z"], false), MS, &rows(1, 1));
    c.ask(time + MS, &query("select 1"), MS, &rows(1, 1));
    c.packets.remove(lost);
    let got = one(c);
    let execution = got.find("EXECUTE 4294967295");
    assert_eq!((execution.time, execution.unmeasured.is_some()), (None, true));
    let of_old = |e: &&Got| e.sql == "select a from t where b = 'x'";
    assert_eq!(got.events.iter().filter(of_old).count(), 6);
    assert_eq!(got.find("select 1").time, Some(MS as u64));
}

#[test]
fn an_execution_of_an_unknown_statement_names_its_number() {
    let mut c = Connection::new(40_005);
    c.ask(BEGIN, &execute(9, 0, &["x"], true), MS, &rows(1, 1));
    let got = one(c);
    assert_eq!(got.times(), [("EXECUTE 9", Some(MS as u64))]);
}

#[test]
fn tls_is_counted_and_said() {
    let mut c = Connection::new(40_006);
    c.open(BEGIN);
    c.send(BEGIN + MS, SERVER, &packet(0, &greeting(1 << 11)));
    let mut request = login(1 << 11);
    request.truncate(32);
    c.send(BEGIN + 2 * MS, CLIENT, &packet(1, &request));
    c.send(BEGIN + 3 * MS, CLIENT, &[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5]);
    let got = one(c);
    assert!(got.events.is_empty());
    assert_eq!(got.summary.encrypted, 1);
    assert!(got.summary.to_string().contains("encrypted and cannot be read"));
    // The same from the middle of the connection.
    let mut c = Connection::new(40_007);
    for i in 0..5 {
        c.send(BEGIN + i * MS, CLIENT, &[0x17, 3, 3, 0, 3, 1, 2, 3]);
        c.send(BEGIN + i * MS + 1, SERVER, &[0x17, 3, 3, 0, 3, 1, 2, 3]);
    }
    assert_eq!(one(c).summary.encrypted, 1);
}

#[test]
fn servers_on_other_ports_are_found() {
    let mut whole = Connection::new(40_008).on_port(5555);
    let time = whole.login(BEGIN, 0);
    whole.ask(time + MS, &query("select 1"), MS, &rows(1, 1));
    let mut middle = Connection::new(40_009).on_port(5556);
    middle.ask(BEGIN, &query("select 2"), MS, &rows(1, 1));
    let mut other = Connection::new(40_010).on_port(80);
    other.open(BEGIN);
    for i in 0..20 {
        other.send(BEGIN + i * MS, CLIENT, b"GET / HTTP/1.1\r\nHost: example\r\n\r\n");
        other.send(BEGIN + i * MS + 1000, SERVER, b"HTTP/1.1 200 OK\r\n\r\nselect 1");
    }
    let packets = merge(vec![whole, middle, other]);
    let got = read(&pcap(&packets, 1 << 20));
    let mut found: Vec<&str> = got.events.iter().map(|e| &e.sql[..]).collect();
    found.sort_unstable();
    assert_eq!(found, ["administrator command: Connect", "select 1", "select 2"]);
    assert_eq!(got.summary.connections, 2);
    // If ports are named, only those are read.
    let options = Options { ports: vec![5556], ..Options::default() };
    let got = read_with(&pcap(&packets, 1 << 20), options, 1 << 20);
    assert_eq!(got.times(), [("select 2", Some(MS as u64))]);
}

#[test]
fn ports_used_again_are_other_connections() {
    let mut packets = Vec::new();
    for i in 0..3 {
        let mut c = Connection::new(40_011);
        c.sequence[0] = i * 1000;
        let time = c.login(BEGIN + i64::from(i) * 1000 * MS, 0);
        c.ask(time + MS, &query(&format!("select {i}")), MS, &rows(1, 1));
        // The first is closed, the second reset, the third neither.
        match i {
            0 => c.close(time + 10 * MS),
            1 => c.raw(time + 10 * MS, CLIENT, RST, c.sequence[0], 0, b""),
            _ => {}
        }
        packets.extend(c.packets);
    }
    let got = read(&pcap(&packets, 1 << 20));
    assert_eq!(got.events.len(), 6);
    assert_eq!((got.summary.connections, got.summary.gaps), (3, 0));
    assert!(got.events.iter().all(|e| e.time.is_some()));
}

#[test]
fn a_connection_that_breaks_leaves_its_statement_unmeasured() {
    let (mut c, time) = logged_in(40_012);
    c.send(time, CLIENT, &query("select sleep(1000)"));
    let (sequence, ack) = (c.sequence[CLIENT], c.sequence[SERVER]);
    c.raw(time + MS, CLIENT, RST | ACK, sequence, ack, b"");
    let got = one(c);
    assert_eq!(got.find("select sleep(1000)").unmeasured, Some(Unmeasured::CutAtEnd));
    assert_eq!(got.summary.unmeasured, 1);
}

#[test]
fn keep_alives_are_nothing() {
    let (mut c, time) = logged_in(40_013);
    let end = c.ask(time, &query("select 1"), MS, &rows(1, 1));
    let (sequence, ack) = (c.sequence[CLIENT], c.sequence[SERVER]);
    for i in 1..50 {
        c.raw(end + i * 1000 * MS, CLIENT, ACK, sequence.wrapping_sub(1), ack, &[0]);
        c.raw(end + i * 1000 * MS + 1, SERVER, ACK, ack, sequence, b"");
    }
    c.ask(end + 60_000 * MS, &query("select 2"), MS, &rows(1, 1));
    let got = one(c);
    assert_eq!(got.find("select 2").time, Some(MS as u64));
    assert_eq!((got.summary.gaps, got.summary.retransmitted), (0, 0));
}

#[test]
fn the_last_byte_can_be_what_counts() {
    let (mut c, time) = logged_in(40_014);
    let sent = c.send(time, CLIENT, &query("select 1"));
    let answer = rows(2, 50);
    c.send(sent + MS, SERVER, &answer[..30]);
    c.send(sent + 7 * MS, SERVER, &answer[30..]);
    let file = pcap(&c.packets, 1 << 20);
    let first = read(&file);
    assert_eq!(first.find("select 1").time, Some(MS as u64));
    assert_eq!(first.find("select 1").end, Some((sent + 7 * MS) / 1000));
    let options = Options { to_last_byte: true, ..Options::default() };
    assert_eq!(read_with(&file, options, 1 << 20).find("select 1").time, Some(7 * MS as u64));
}

#[test]
fn progress_reports_are_not_an_answer() {
    let (mut c, time) = logged_in(40_015);
    let sent = c.send(time, CLIENT, &query("alter table t add c int"));
    let progress = b"\xff\xff\xff\x01\x01\x02\x10\x27\x00\x05stage";
    c.send(sent + MS, SERVER, &packet(1, progress));
    c.send(sent + 2 * MS, SERVER, &packet(2, progress));
    c.send(sent + 9 * MS, SERVER, &packet(3, OK));
    let got = one(c);
    let alter = got.find("alter table t add c int");
    assert_eq!((alter.time, alter.error), (Some(9 * MS as u64), Some(0)));
}

#[test]
fn attributes_of_mysql_8_come_before_the_statement() {
    let mut c = Connection::new(40_016);
    let time = c.login(BEGIN, 1 << 27 | 1);
    let plain = packet(0, b"\x03\0\x01select 1");
    let end = c.ask(time + MS, &plain, MS, &rows(1, 1));
    let one_attribute = packet(0, b"\x03\x01\x01\0\x01\xfe\0\x02id\x03abcselect 2");
    c.ask(end + MS, &one_attribute, MS, &rows(1, 1));
    let got = one(c);
    assert_eq!(got.times()[1..], [("select 1", Some(MS as u64)), ("select 2", Some(MS as u64))]);
}

#[test]
fn replicas_are_left_alone() {
    let (mut c, time) = logged_in(40_017);
    let dump = packet(0, b"\x12\x04\0\0\0\0\0\x01\0\0\0binlog.000001");
    c.ask(time, &dump, MS, &packet(1, &[0; 40]));
    for i in 0..50u8 {
        c.send(time + i64::from(i) * MS + 2 * MS, SERVER, &packet(i.wrapping_add(2), &[0; 100]));
    }
    let got = one(c);
    assert_eq!(got.events.len(), 2);
    assert_eq!(got.events[1].sql, "administrator command: Binlog Dump");
    assert_eq!(got.summary.unmeasured, 0);
}

#[test]
fn names_can_be_those_of_pt_query_digest() {
    let (mut c, time) = logged_in(40_020);
    let end = c.ask(time, &packet(0, b"\x02shop"), MS, &packet(1, OK));
    c.ask(end + MS, &packet(0, b"\x0e"), MS, &packet(1, OK));
    let file = pcap(&c.packets, 1 << 20);
    let texts = |options: Options| -> Vec<String> {
        read_with(&file, options, 1 << 20).events.into_iter().map(|e| e.sql).collect()
    };
    let ours = texts(Options::default());
    assert_eq!(ours[1..], ["administrator command: Init DB", "administrator command: Ping"]);
    let theirs = texts(Options { compat_names: true, ..Options::default() });
    assert_eq!(theirs[1..], ["administrator command: Init_db", "administrator command: Ping"]);
}

#[test]
fn databases_change_with_statements_and_commands() {
    let (mut c, mut time) = logged_in(40_021);
    for sql in
        ["select 1", "use `a``b`;", "select 2", "USE x", "select 3", "use nosuch", "select 4"]
    {
        let answer = match sql {
            "use nosuch" => packet(1, b"\xff\x19\x04#42000Unknown database 'nosuch'"),
            _ => packet(1, OK),
        };
        time = c.ask(time + MS, &query(sql), MS, &answer);
    }
    let got = one(c);
    let db = |sql| got.find(sql).db.as_str();
    assert_eq!(
        [db("select 1"), db("select 2"), db("select 3"), db("select 4")],
        ["shop", "a`b", "x", "x"]
    );
}

/// tcpdump's filter and this crate choose the same connections.
#[test]
fn tcpdump_filters_as_sampling_does() {
    if !has("tcpdump") {
        return eprintln!("skipped: no tcpdump here");
    }
    let connections = (0..400u16).map(|n| {
        // Even ports, as Linux assigns them.
        let mut c = Connection::new(45_000 + n * 4);
        if n % 2 == 0 {
            c = c.over_ipv6();
        }
        let time = c.login(BEGIN + i64::from(n), 0);
        c.ask(time + MS, &query(&format!("select {n}")), MS, &rows(1, 1));
        c
    });
    let packets = merge(connections.collect());
    let shares = ["1/8", "1/10", "1/2", "1/1"];
    let home = tempfile::tempdir().unwrap();
    let (whole, part) = (home.path().join("whole"), home.path().join("part"));
    std::fs::write(&whole, pcap(&packets, 1 << 20)).unwrap();
    for share in shares {
        let sampling = Sampling::parse(share).unwrap();
        let output = bounded("tcpdump")
            .args(["-n", "-Z", "root", "-r"])
            .arg(&whole)
            .arg("-w")
            .arg(&part)
            .arg(sampling.tcpdump_filter(&[]))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let filtered = read(&std::fs::read(&part).unwrap());
        let options = Options { sampling: Some(sampling), ..Options::default() };
        let chosen = read_with(&pcap(&packets, 1 << 20), options, 1 << 20);
        assert_eq!(filtered.times(), chosen.times(), "{share}");
        let taken = 400 - chosen.summary.not_sampled;
        let want = 400.0 / f64::from(sampling.one_in());
        assert!((taken as f64 - want).abs() <= 4.0, "{share}: {taken} of 400");
        assert_eq!(filtered.summary.connections, taken);
        assert_eq!((chosen.summary.connections, filtered.summary.gaps), (400, 0));
    }
}

#[test]
fn connections_of_another_protocol_are_counted() {
    let mut http = Connection::new(41_100);
    http.open(BEGIN);
    http.ask(BEGIN + 1_000_000, b"GET / HTTP/1.1\r\n\r\n", 1_000_000, b"HTTP/1.1 200 OK\r\n\r\n");
    http.close(BEGIN + 3_000_000);
    let mut joined = Connection::new(41_101);
    joined.ask(BEGIN + 1_000_000, b"GET / HTTP/1.1\r\n\r\n", 1_000_000, b"HTTP/1.1 200 OK\r\n\r\n");
    // Another case: a health check reads only the greeting.
    let mut check = Connection::new(41_102);
    check.open(BEGIN);
    check.send(BEGIN + 1_000_000, SERVER, &packet(0, &greeting(0)));
    check.close(BEGIN + 3_000_000);
    let mut ours = Connection::new(41_103);
    let time = ours.login(BEGIN, 0);
    ours.ask(time + 1_000_000, &query("select 1"), 1_000_000, &rows(1, 1));
    let got = read(&pcap(&merge(vec![http, joined, check, ours]), 1 << 20));
    assert_eq!((got.summary.connections, got.summary.not_understood), (4, 2));
    let told = got.summary.to_string();
    assert!(told.contains("2 connections were not understood"), "{told}");
}
