//! Much traffic, for measuring speed.

use super::{merge, packet, query, rows, Connection, Random, Seen, BEGIN, OK};

/// About 100 000 packets of short statements, as web applications send them: a statement, its
/// answer, an acknowledgement; some answers take several packets, some statements are prepared.
///
/// They are of some hundred classes, whose tables have no digits.
pub fn busy() -> Vec<Seen> {
    let mut random = Random(9);
    let connections = (0..200u16).map(|n| {
        let mut c = Connection::new(30_000 + n);
        let mut time = c.login(BEGIN + random.below(1_000_000_000) as i64, 0);
        for i in 0..150 {
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
pub const BUSY_ROUND: i64 = 10_000_000_000;
