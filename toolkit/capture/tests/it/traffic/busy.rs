//! Much traffic, for measuring speed.

use super::{merge, packet, query, rows, Connection, Random, Seen, BEGIN, OK};

/// Of `busy`: connections, and statements of each.
pub const BUSY_CONNECTIONS: u64 = 200;
pub const BUSY_STATEMENTS: u64 = 150;

/// About 100 000 packets of short statements, as web applications send them: a statement, its
/// answer, an acknowledgement; some answers take several packets, some statements are prepared.
///
/// They have some hundred classes, whose tables have no digits in their names.
pub fn busy() -> Vec<Seen> {
    let mut random = Random(9);
    let connections = (0..BUSY_CONNECTIONS as u16).map(|n| {
        let mut c = Connection::new(30_000 + n);
        let mut time = c.login(BEGIN + random.below(1_000_000_000) as i64, 0);
        for i in 0..BUSY_STATEMENTS {
            let sql = format!(
                "select id, name, price from product_{}{} where shop = {} and id in ({}, {}, {i})",
                char::from(b'a' + random.below(26) as u8),
                char::from(b'a' + random.below(16) as u8),
                random.below(100_000),
                random.below(100_000),
                random.below(100_000)
            );
            let answer = match random.below(10) {
                0..=3 => rows(1, 80),
                4..=7 => rows(random.below(12) as usize, 80),
                8 => packet(1, OK),
                _ => rows(40, 80),
            };
            let after = 50_000 + random.below(2_000_000) as i64;
            let pause = 10_000 + random.below(1_000_000) as i64;
            time = c.ask(time + pause, &query(&sql), after, &answer) + 1000;
        }
        c.close(time + 1_000_000);
        c
    });
    merge(connections.collect())
}

/// Nanoseconds from one copy of `busy` to the next behind it.
const BUSY_ROUND: i64 = 10_000_000_000;

/// Copy number `round` of `busy`: later, and with its own clients (packets of the same clients would
/// count as late).
pub fn busy_again(packets: &[Seen], round: u16) -> impl Iterator<Item = Seen> + '_ {
    packets.iter().map(move |seen| {
        let mut ip = seen.ip.clone();
        let from_server = ip[20..22] == 3306_u16.to_be_bytes();
        let client = if from_server { 18 } else { 14 };
        ip[client..client + 2].copy_from_slice(&round.to_be_bytes());
        Seen { time: seen.time + i64::from(round) * BUSY_ROUND, ip }
    })
}
