//! More connections than the table can hold: working connections are kept.

use super::traffic::*;
use frond_capture::Options;

const MS: i64 = 1_000_000;

/// `count` connections that have sent a statement whose answer comes only with `answer`.
fn waiting(count: u16) -> (Vec<Connection>, i64) {
    let mut end = 0;
    let connections = (0..count)
        .map(|n| {
            let mut c = Connection::new(20_000 + n);
            let time = c.login(BEGIN + i64::from(n) * 1000, 0);
            end = c.send(time + MS, CLIENT, &query(&format!("select sleep({n})")));
            c
        })
        .collect();
    (connections, end + MS)
}

/// Answers all of them, and checks that all are measured.
fn check(mut waiting: Vec<Connection>, begun: i64, meanwhile: Vec<Seen>, others: u64) -> Read {
    let until = meanwhile.last().map_or(begun, |p| p.time) + MS;
    let count = waiting.len();
    for c in &mut waiting {
        let end = c.send(until, SERVER, &rows(1, 1));
        c.ask(end + MS, &query("select 'and on'"), MS, &rows(1, 1));
    }
    let mut packets = merge(waiting);
    packets.extend(meanwhile);
    packets.sort_by_key(|p| p.time);
    let options = Options { most_connections: 1000, ..Options::default() };
    let got = read_with(&pcap(&packets, 1 << 20), options, 1 << 20);
    for n in 0..count {
        let event = got.find(&format!("select sleep({n})"));
        assert!(event.time.is_some_and(|t| t > 2 * MS as u64), "{event:?}");
    }
    let on = got.events.iter().filter(|e| e.sql == "select 'and on'");
    assert!(on.clone().all(|e| e.time == Some(MS as u64) && e.user == "app"));
    assert_eq!(on.count(), count);
    assert_eq!(got.summary.connections, count as u64 + others);
    got
}

#[test]
fn a_flood_of_syns_pushes_out_no_working_connection() {
    let (waiting, begun) = waiting(300);
    let mut random = Random(1);
    let flood = (0..50_000)
        .map(|i| {
            let mut c = Connection::new(1024 + random.below(60_000) as u16);
            let number = random.next() as u32;
            c.raw(begun + i * 1000, CLIENT, SYN, number, 0, b"");
            let mut seen = c.packets.remove(0);
            seen.ip[12..16].copy_from_slice(&(random.next() as u32 | 1 << 31).to_be_bytes());
            seen
        })
        .collect();
    let got = check(waiting, begun, flood, 0);
    assert_eq!((got.summary.evicted, got.summary.unmeasured, got.summary.gaps), (0, 0, 0));
}

#[test]
fn clients_that_connect_for_each_statement_push_out_no_pool() {
    let (waiting, begun) = waiting(300);
    let short = (0..3000u16).map(|n| {
        let mut c = Connection::new(30_000 + n);
        let time = c.login(begun + i64::from(n) * MS, 0);
        let end = c.ask(time + 10_000, &query("select 'short'"), 100_000, &rows(1, 1));
        c.close(end + 10_000);
        c
    });
    let got = check(waiting, begun, merge(short.collect()), 3000);
    assert_eq!((got.summary.evicted, got.summary.unmeasured), (0, 0));
    assert_eq!(got.events.iter().filter(|e| e.sql == "select 'short'").count(), 3000);
}

#[test]
fn the_longest_idle_give_way_when_all_work() {
    let mut connections = Vec::new();
    for n in 0..1500u16 {
        let mut c = Connection::new(20_000 + n);
        let time = c.login(BEGIN + i64::from(n) * 10 * MS, 0);
        c.send(time + MS, CLIENT, &query(&format!("select sleep({n})")));
        connections.push(c);
    }
    let options = Options { most_connections: 1000, ..Options::default() };
    let got = read_with(&pcap(&merge(connections), 1 << 20), options, 1 << 20);
    assert_eq!((got.summary.evicted, got.summary.connections), (500, 1500));
    // Each statement is reported, once, without a time.
    assert_eq!(got.summary.unmeasured, 1500);
    assert_eq!(got.events.len(), 3000);
    assert!(got.summary.to_string().contains("500 connections were given up"));
}

#[test]
fn what_takes_too_much_memory_forgets_prepared_statements_and_goes_on() {
    let long = "x".repeat(40_000);
    let mut connections = Vec::new();
    for n in 0..100u16 {
        let mut c = Connection::new(20_000 + n);
        let mut time = c.login(BEGIN + i64::from(n) * 10 * MS, 0);
        for id in 0..10 {
            let prepare = packet(0, format!("\x16select '{long}', ?, {n}").as_bytes());
            time = c.ask(time + MS, &prepare, MS, &prepared(id, 1, 1));
        }
        for _ in 0..3 {
            let next = BEGIN + 2_000 * MS + time % MS;
            time = c.ask(next.max(time + MS), &query("select 'and on'"), MS, &rows(1, 1));
        }
        c.ask(time + MS, &execute(3, 0, &["v"], true), MS, &rows(1, 1));
        connections.push(c);
    }
    let options = Options { most_memory: 8 << 20, ..Options::default() };
    let got = read_with(&pcap(&merge(connections), 1 << 20), options, 1 << 20);
    let summary = &got.summary;
    assert_eq!((summary.evicted, summary.unmeasured, summary.connections), (0, 0, 100));
    assert!(summary.forgotten > 500, "{}", summary.forgotten);
    assert_eq!(got.events.iter().filter(|e| e.sql == "select 'and on'").count(), 300);
    assert!(got.events.iter().any(|e| e.sql == "EXECUTE 3"));
    assert!(summary.to_string().contains("prepared statements were forgotten"));
}

#[test]
fn a_connection_that_was_given_up_for_want_of_memory_is_read_on() {
    // Statements whose last part is missing hold back bytes that can only be given up.
    let mut connections = Vec::new();
    for n in 0..40u16 {
        let mut c = Connection::new(20_000 + n);
        let time = c.login(BEGIN + i64::from(n) * 10 * MS, 0);
        let statement = query(&format!("select '{}'", "y".repeat(900_000)));
        let end = c.send(time + MS, CLIENT, &statement[..800_000]);
        let rest = BEGIN + 2_000 * MS + i64::from(n) * MS;
        let sent = c.send(rest.max(end + MS), CLIENT, &statement[800_000..]);
        let mut time = c.send(sent + MS, SERVER, &rows(1, 1));
        for i in 0..5 {
            time = c.ask(time + MS, &query(&format!("select 'on {i}'")), MS, &rows(1, 1));
        }
        connections.push(c);
    }
    let options = Options { most_memory: 8 << 20, ..Options::default() };
    let got = read_with(&pcap(&merge(connections), 1 << 20), options, 1 << 20);
    assert!(got.summary.evicted > 10, "{}", got.summary.evicted);
    // At the latest the last statements of each connection are measured.
    let last = got.events.iter().filter(|e| e.sql == "select 'on 4'" && e.time == Some(MS as u64));
    assert_eq!(last.count(), 40);
}
