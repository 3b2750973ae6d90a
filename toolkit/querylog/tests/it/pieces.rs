//! Pieces of logs that meet in unusual ways, and a check of the time that a megabyte of them takes.

use super::clock::clock;
use std::time::Duration;

const MEGABYTE: usize = 1 << 20;

/// `unit` repeated up to a megabyte, between `head` and `tail`.
pub fn repeated(head: &str, unit: &str, tail: &str) -> Vec<u8> {
    [head, &unit.repeat(MEGABYTE / unit.len()), tail].concat().into_bytes()
}

/// Asserts that `check` takes less than a second of the processor.
pub fn fast(what: &str, input: &[u8], check: &dyn Fn(&[u8])) {
    let start = clock();
    check(input);
    let spent = clock().saturating_sub(start);
    // Shows the head, and the repeated part from the middle.
    let part = |from: usize| input[from..].iter().take(100).copied().collect::<Vec<u8>>();
    let shown = [0, input.len() * 3 / 4].map(|from| part(from).escape_ascii().to_string());
    assert!(spent < Duration::from_secs(1), "{what} took {spent:?} for a megabyte of {shown:?}");
}

/// A small generator of random numbers; the same seed gives the same inputs.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 ^ self.0 >> 29) >> 24) as usize % n
    }
}

/// Pieces of logs that meet in unusual ways.
pub const PIECES: &[&[u8]] = &[
    b"# Time: 240310 12:00:01\n",
    b"# Time: 2024-03-10T12:00:01.123456Z\n",
    b"# Time: 999999 99:99:99\n",
    b"# Time:",
    b"# User@Host: web[web] @ app1 [10.0.0.1]\n",
    b"# User@Host: web[web] @ app1 [10.0.0.1]  Id:   18\n",
    b"# User@Host: [",
    b"# Thread_id: 5  Schema: shop  QC_hit: No\n",
    b"# Query_time: 0.5  Lock_time: 0.1  Rows_sent: 1  Rows_examined: 2\n",
    b"# Query_time: 99999999999999999999.9999999999999\n",
    b"# Query_time: -1e5 Lock_time: nan\n",
    b"# Query_time:",
    b"# Rows_affected: 18446744073709551616  Bytes_sent: 11\n",
    b"# Full_scan: Yes  Full_join: No  Tmp_table: Yes  Tmp_table_on_disk: No\n",
    b"# explain: id\tselect_type\ttable\n",
    b"# Warnings\n#   Level Code Message\n",
    b"# administrator command: Ping;\n",
    b"#",
    b"# ",
    b"#\n",
    b"SET timestamp=1710072000;\n",
    b"SET timestamp=99999999999999999999999.5,insert_id=1;\n",
    b"SET timestamp=",
    b"SET timestamp=9223372036854;\n",
    b"SET timestamp=1;\n",
    b"# Time: 0000-01-01T00:00:00.000000Z\n",
    b"# Time: 9999-12-31T23:59:59.999999Z\n",
    b"# Time: 9999-12-31T23:59:59\n",
    b"0000-01-01T00:00:00.000000Z\t    5 Query\tselect 1\n",
    b"9999-12-31T23:59:59.999999Z\t    5 Query\tselect 1\n",
    b"9999-12-31 23:59:59.999999 IP 127.0.0.1.42167 > 127.0.0.1.3306: tcp 37\n\t0x0000:  4508 0059\n",
    b"0000-01-01 00:00:00.000000 IP 127.0.0.1.3306 > 127.0.0.1.42167: tcp 37\n\t0x0000:  4508 0059\n",
    b"# Log_slow_rate_type: query  Log_slow_rate_limit: 4294967295\n",
    b"use shop;\n",
    b"use `a",
    b"select 1;\n",
    b"select ';\n# Time: 240310 12:00:01\n';\n",
    b"select 'it''s \\' # Query_time: 5\n",
    b"/* # User@Host: */ select\n",
    b"/usr/sbin/mariadbd, Version: 10.11.6-MariaDB. started with:\n",
    b"Tcp port: 3306  Unix socket: /run/mysqld.sock\n",
    b"Time                 Id Command    Argument\n",
    b"Time\t\t    Id Command\tArgument\n",
    b"240310 12:00:01\t     5 Connect\tweb@localhost on shop using Socket\n",
    b"2024-03-10T12:00:01.123456Z\t    5 Query\tselect 1\n",
    b"\t\t     5 Query\tselect a\n",
    b"\t\t     5 Init DB\tshop\n",
    b"\t\t     5 Execute\tselect 'x'\n",
    b"\t\t     5 Quit\t\n",
    b"\t\t     99999999999999999999 Query\tx\n",
    b"     5 Query       select 1\n",
    b"\t",
    b" ",
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"\xff\xfe",
    b"\xc3",
    b";",
    b"'",
    b"\"",
    b"`",
    b"\\",
    b"/*",
    b"*/",
    b"-- ",
    b"=",
    b"[",
    b"]",
    b"@",
    b":",
    b"99999999999999999999",
    b"insert into t values (1,'a')",
];

pub fn made(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..random.below(30) {
        text.extend_from_slice(PIECES[random.below(PIECES.len())]);
    }
    text
}

pub fn mutated(text: &[u8], random: &mut Random) -> Vec<u8> {
    let from = random.below(text.len());
    let mut text = text[from..text.len().min(from + 4000)].to_vec();
    for _ in 0..1 + random.below(8) {
        let at = random.below(text.len() + 1);
        let end = (at + 1 + random.below(60)).min(text.len());
        match random.below(6) {
            0 if at < text.len() => text[at] = random.below(256) as u8,
            1 if at < text.len() => drop(text.drain(at..end)),
            2 => text.truncate(at),
            3 if at < text.len() => {
                let copy = text[at..end].to_vec();
                let to = random.below(text.len());
                text.splice(to..to, copy);
            }
            _ => {
                let piece = PIECES[random.below(PIECES.len())];
                text.splice(at..at, piece.iter().copied());
            }
        }
    }
    text
}

/// Runs `check`; if it fails, names the input.
pub fn on_each(input: &[u8], check: fn(&[u8])) {
    if std::panic::catch_unwind(|| check(input)).is_err() {
        panic!("the input was {}", input.escape_ascii());
    }
}
