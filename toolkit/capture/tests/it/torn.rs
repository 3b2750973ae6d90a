//! Requests with a part missing: lost, or cut by the snapshot length.

use super::traffic::*;
use frond_event::Unmeasured;

const MS: i64 = 1_000_000;
const MS_U: u64 = 1_000_000;

/// Ten short statements, `sql`, ten more; and the range of the packets of `sql`.
fn around(sql: &str) -> (Vec<Seen>, std::ops::Range<usize>) {
    let mut c = Connection::new(44_000);
    let mut time = c.login(BEGIN, 0);
    let short = |c: &mut Connection, mut time: i64, from: usize| {
        for i in from..from + 10 {
            time = c.ask(time + MS, &query(&format!("select {i}")), MS, &rows(1, 10));
        }
        time
    };
    time = short(&mut c, time, 0);
    let begin = c.packets.len();
    let sent = c.send(time + MS, CLIENT, &query(sql));
    let end = c.packets.len();
    time = c.send(sent + 50 * MS, SERVER, &rows(1, 10));
    time = short(&mut c, time, 10);
    c.close(time + MS);
    (c.packets, begin..end)
}

fn long_literal() -> String {
    format!("select length('{}'), sleep(1)", "w".repeat(3_000_000))
}

fn check_others(got: &Read) {
    for i in 0..20 {
        assert_eq!(got.find(&format!("select {i}")).time, Some(MS_U), "{i}");
    }
    let timed = got.events.iter().filter(|e| e.time.is_some()).count() as u64;
    assert_eq!(got.summary.measured, timed);
    assert_eq!(got.summary.events, got.events.len() as u64);
}

/// Only the beginning of a long statement is kept: if that part was captured, the class is known.
#[test]
fn a_long_statement_with_a_gap_behind_what_is_kept_is_in_its_class_without_a_time() {
    let sql = long_literal();
    let (whole, of_sql) = around(&sql);
    for lost in [1000, of_sql.len() - 1] {
        let mut packets = whole.clone();
        packets.remove(of_sql.start + lost);
        let got = read(&pcap(&packets, 1 << 20));
        check_others(&got);
        let torn: Vec<_> = got.events.iter().filter(|e| e.sql.starts_with("select len")).collect();
        assert_eq!(torn.len(), 1);
        assert_eq!((torn[0].unmeasured, torn[0].time), (Some(Unmeasured::PacketsLost), None));
        assert_eq!(torn[0].query_size, Some(sql.len() as u64));
        let summary = &got.summary;
        assert_eq!((summary.unmeasured, summary.partial), (1, 0));
        assert_eq!((summary.gaps, summary.packets_lost()), (1, 1));
    }
}

/// The beginning alone would give a class that no statement has: "select length(?" here.
#[test]
fn a_statement_with_a_gap_in_what_is_kept_is_only_counted() {
    let (whole, of_sql) = around(&long_literal());
    for lost in [1, 40] {
        let mut packets = whole.clone();
        packets.remove(of_sql.start + lost);
        let got = read(&pcap(&packets, 1 << 20));
        check_others(&got);
        assert_eq!(got.events.len(), 21);
        let summary = &got.summary;
        assert_eq!((summary.measured, summary.unmeasured, summary.partial), (21, 1, 1));
        assert_eq!((summary.gaps, summary.packets_lost()), (1, 1));
        assert!(summary.to_string().contains("seen only in part"), "{summary}");
    }
}

#[test]
fn a_long_request_that_is_lost_in_many_gaps_is_one() {
    let (whole, of_sql) = around(&long_literal());
    // Without every other segment; without all but the first; without all; without the first.
    let lost: [fn(usize, usize) -> bool; 4] =
        [|i, _| i % 2 == 1, |i, _| i > 0, |_, _| true, |i, _| i == 0];
    for (round, lost) in lost.iter().enumerate() {
        let keep = |i: usize| !of_sql.contains(&i) || !lost(i - of_sql.start, of_sql.len());
        let packets: Vec<Seen> =
            (0..whole.len()).filter(|i| keep(*i)).map(|i| whole[i].clone()).collect();
        let got = read(&pcap(&packets, 1 << 20));
        check_others(&got);
        let summary = &got.summary;
        // If a statement is lost whole, nothing is known of it.
        assert_eq!(summary.unmeasured, u64::from(round != 2 && round != 3), "{round}: {summary}");
        let missing = (whole.len() - packets.len()) as u64;
        let told = summary.packets_lost();
        let near = missing * 3 / 4 <= told && told <= missing * 11 / 10;
        assert!(near, "{round}: {told}, not {missing}");
    }
}

#[test]
fn cut_packets_are_not_lost_ones() {
    let (packets, _) = around(&long_literal());
    for snap in [500, 1000, 1450] {
        let got = read(&pcap(&packets, snap));
        check_others(&got);
        let summary = &got.summary;
        assert_eq!((summary.gaps, summary.packets_lost()), (0, 0));
        assert_eq!((summary.connections_with_gaps, summary.bytes_missing), (0, 0));
        let long = packets.iter().filter(|p| p.ip.len() > snap).count() as u64;
        assert_eq!(summary.cut, long);
        assert_eq!((summary.measured, summary.unmeasured, summary.partial), (21, 1, 1));
        assert!(summary.to_string().contains("were cut by the capture"), "{summary}");
    }
    // The same as text.
    let mut cut = packets.clone();
    cut.iter_mut().for_each(|p| p.ip.truncate(1000));
    let [binary, text] = [pcap(&packets, 1000), text(&cut, false, false, false)].map(|f| read(&f));
    assert_eq!(binary.events, text.events);
    assert_eq!(binary.summary.to_string(), text.summary.to_string());
    // Not even a header of the protocol is there, but connections are.
    let got = read(&pcap(&packets, 52));
    let summary = &got.summary;
    assert_eq!((summary.events, summary.connections, summary.gaps), (0, 1, 0));
    assert!(summary.cut > 40);
}

#[test]
fn sizes_are_those_of_whole_statements() {
    let sql = long_literal();
    let (packets, _) = around(&sql);
    let got = read(&pcap(&packets, 1 << 20));
    let long = got.events.iter().find(|e| e.sql.starts_with("select len")).unwrap();
    assert!(long.sql.len() < sql.len() && long.time == Some(50 * MS_U));
    assert_eq!(long.query_size, Some(sql.len() as u64));
    assert_eq!(long.bytes_received, Some(sql.len() as u64 + 5));
}

/// A statement longer than a packet can be.
#[test]
fn a_statement_of_two_packets_has_its_size() {
    let sql = format!("select length('{}')", "w".repeat((1 << 24) + 1000));
    let payload = [b"\x03", sql.as_bytes()].concat();
    let (first, second) = payload.split_at((1 << 24) - 1);
    let mut c = Connection::new(44_001);
    let time = c.login(BEGIN, 0);
    let request = [packet(0, first), packet(1, second)].concat();
    c.ask(time + MS, &request, MS, &packet(2, OK));
    let got = read(&pcap(&c.packets, 1 << 20));
    let long = got.events.iter().find(|e| e.sql.starts_with("select len")).unwrap();
    assert_eq!((long.time, long.query_size), (Some(MS_U), Some(sql.len() as u64)));
    assert_eq!(long.bytes_received, Some(payload.len() as u64 + 8));
}

#[test]
fn values_sent_ahead_are_part_of_the_execution_and_its_size() {
    let mut c = Connection::new(44_002);
    let time = c.login(BEGIN, 0);
    let text = "insert into t values (?)";
    let prepare = packet(0, &[b"\x16", text.as_bytes()].concat());
    let mut end = c.ask(time + MS, &prepare, MS, &prepared(3, 1, 0));
    let mut ahead = 0;
    for _ in 0..5 {
        let piece = packet(0, &[&b"\x18\x03\0\0\0\0\0"[..], &[b'v'; 100_000]].concat());
        ahead += piece.len() as u64;
        end = c.send(end + MS, CLIENT, &piece);
    }
    // The packet has no value for the parameter whose value was sent ahead.
    let mut execution = execute(3, 0, &[""], true);
    execution.pop();
    execution[0] -= 1;
    let end = c.ask(end + MS, &execution, MS, &packet(1, OK));
    c.ask(end + MS, &execute(3, 0, &["x"], true), MS, &packet(1, OK));
    let got = read(&pcap(&c.packets, 1 << 20));
    let sizes: Vec<_> = got.events[2..].iter().map(|e| (e.query_size, e.bytes_received)).collect();
    let of = |value: u64, bytes: usize, ahead: u64| {
        (Some(text.len() as u64 + 1 + value), Some(bytes as u64 + ahead))
    };
    let short = execute(3, 0, &["x"], true).len();
    assert_eq!(sizes, [of(500_000, execution.len(), ahead), of(1, short, 0)]);
}

/// A file that the client sends is not a request.
#[test]
fn what_is_lost_of_a_file_is_no_statement() {
    let mut c = Connection::new(44_004);
    let mut time = c.login(BEGIN, 0);
    for i in 0..5 {
        time = c.ask(time + MS, &query(&format!("select {i}")), MS, &rows(1, 10));
    }
    let load = query("load data local infile 'f' into table t");
    time = c.ask(time + MS, &load, MS, &packet(1, b"\xfbf"));
    let begin = c.packets.len();
    time = c.send(time + MS, CLIENT, &packet(2, &[b'1'; 100_000]));
    let end = c.packets.len();
    time = c.send(time, CLIENT, &packet(3, b""));
    time = c.send(time + 5 * MS, SERVER, &packet(4, OK));
    c.ask(time + MS, &query("select 5"), MS, &rows(1, 10));
    for i in (begin..end).rev().step_by(7) {
        c.packets.remove(i);
    }
    let got = read(&pcap(&c.packets, 1 << 20));
    assert_eq!(got.find("select 5").time, Some(MS_U));
    assert_eq!(got.summary.partial, 0, "{}", got.summary);
}

/// Long requests and long answers are lost one after the other; the short ones are kept.
#[test]
fn long_exchanges_that_are_lost_are_not_as_many_packets_as_short_ones_of_their_bytes() {
    let mut c = Connection::new(44_003);
    let mut time = c.login(BEGIN, 0);
    for i in 0..60 {
        let short = query(&format!("select {i}"));
        let long = query(&format!("insert into t values ('{}')", "v".repeat(200_000)));
        let (request, answer) = match i % 6 {
            3 => (&long, rows(1, 10)),
            4 => (&long, rows(2000, 200)),
            _ => (&short, rows(1, 10)),
        };
        time = c.ask(time + MS, request, MS, &answer);
    }
    let long = |p: &Seen| p.ip.len() > 1000;
    let lost = c.packets.iter().filter(|p| long(p)).count() as u64;
    c.packets.retain(|p| !long(p));
    let got = read(&pcap(&c.packets, 1 << 20));
    let summary = &got.summary;
    let told = summary.packets_lost();
    assert!(lost * 9 / 10 <= told && told <= lost * 11 / 10, "{told} packets, not {lost}");
}

#[test]
fn an_old_segment_behind_the_end_of_a_long_connection_is_late() {
    let (mut packets, of_sql) = around(&long_literal());
    let end = packets[packets.len() - 1].time + MS;
    // Lost: the connection's beginning up to the login, and up to a statement.
    for late in [0, 1, 3, 4, of_sql.start - 3] {
        let ip = packets[late].ip.clone();
        packets.push(Seen { time: end, ip });
    }
    let got = read(&pcap(&packets, 1 << 20));
    assert_eq!((got.summary.connections, got.events.len()), (1, 22));
    assert_eq!(got.summary.unmeasured, 0);
}

#[test]
fn the_same_ports_and_numbers_a_minute_later_are_another_connection() {
    let once = around("select 1, 2").0;
    // With and without its end.
    for missing in [0, 3] {
        for (later, connections) in [(5_000 * MS, 1), (70_000 * MS, 2)] {
            let again =
                once.iter().map(|seen| Seen { time: seen.time + later, ip: seen.ip.clone() });
            let packets: Vec<Seen> =
                once[..once.len() - missing].iter().cloned().chain(again).collect();
            let got = read(&pcap(&packets, 1 << 20));
            assert_eq!(got.summary.connections, connections);
            assert_eq!(got.events.len() as u64, connections * 22);
        }
    }
}

#[test]
fn a_syn_seen_again_while_its_connection_is_open_begins_nothing() {
    let (packets, of_sql) = around("select 1, 2");
    for again in [of_sql.start, of_sql.end] {
        let mut packets = packets.clone();
        let ip = packets[0].ip.clone();
        packets.insert(again, Seen { time: packets[again - 1].time + 1, ip });
        let got = read(&pcap(&packets, 1 << 20));
        assert_eq!((got.summary.connections, got.summary.unmeasured, got.events.len()), (1, 0, 22));
    }
}

#[test]
fn a_connection_of_which_only_gaps_are_known_is_counted() {
    let mut c = Connection::new(44_005);
    c.login(BEGIN, 0);
    let time = c.ask(BEGIN + MS, &query("select 1"), MS, &rows(1, 1));
    c.close(time + MS);
    c.packets.retain(|p| p.ip.len() == 52);
    let got = read(&pcap(&c.packets, 1 << 20));
    assert_eq!((got.summary.connections, got.summary.connections_with_gaps), (1, 1));
}
