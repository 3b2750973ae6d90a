//! Requests of which a part is missing: lost, or cut by the snapshot length.

use super::traffic::*;

const MS: i64 = 1_000_000;

/// Ten short statements, `sql`, ten more; where the packets of `sql` begin and end.
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

#[test]
fn an_old_segment_behind_the_end_of_a_long_connection_is_late() {
    let (mut packets, of_sql) = around(&long_literal());
    let end = packets[packets.len() - 1].time + MS;
    // The connection's begin up to the login, and a statement.
    for late in [0, 1, 3, 4, of_sql.start - 3] {
        let ip = packets[late].ip.clone();
        packets.push(Seen { time: end, ip });
    }
    let got = read(&pcap(&packets, 1 << 20));
    assert_eq!((got.summary.connections, got.events.len()), (1, 22));
    assert_eq!(got.summary.unmeasured, 0);
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
