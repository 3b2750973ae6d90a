//! Compressed connections: zlib and zstd, whole, with losses, from their middle, hostile.

use super::traffic::*;
use frond_event::Unmeasured;
use std::time::{Duration, Instant};

const MS: i64 = 1_000_000;
const MS_U: u64 = 1_000_000;

/// A compressed packet: zlib, or plain if that is shorter, as clients and servers do it.
pub fn zlib(sequence: u8, inner: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(inner).unwrap();
    let packed = encoder.finish().unwrap();
    let (body, before) =
        if packed.len() < inner.len() { (&packed[..], inner.len()) } else { (inner, 0) };
    let (length, before) = ((body.len() as u32).to_le_bytes(), (before as u32).to_le_bytes());
    [&length[..3], &[sequence], &before[..3], body].concat()
}

#[test]
fn a_compressed_connection_is_unpacked_and_found_again_behind_a_loss() {
    let mut c = Connection::new(42_012);
    let mut time = c.login(BEGIN, 1 << 5);
    let mut middle = 0;
    let text = |i: usize| format!("select {i} from t where a = '{}'", "text ".repeat(100));
    for i in 0..6 {
        let answer = rows(400, 200);
        // As large answers are sent: several compressed packets, cut at any byte.
        let (first, second) = answer.split_at(30_001);
        let packed = [zlib(1, first), zlib(2, second)].concat();
        if i == 3 {
            middle = c.packets.len();
        }
        time = c.ask(time + MS, &zlib(0, &query(&text(i))), (i as i64 + 1) * MS, &packed);
    }
    let whole = read(&pcap(&c.packets, 1 << 20));
    for i in 0..6 {
        let event = whole.find(&text(i));
        assert_eq!((event.time, event.rows), (Some((i as u64 + 1) * MS_U), Some(400)));
        assert_eq!(event.bytes_sent, Some(rows(400, 200).len() as u64));
    }
    // Without the first packet of an answer; without one of its later ones.
    c.packets.remove(middle + 1);
    let lossy = read(&pcap(&c.packets, 1 << 20));
    assert_eq!(lossy.find(&text(3)).unmeasured, Some(Unmeasured::PacketsLost));
    for i in [0, 1, 2, 4, 5] {
        assert_eq!(lossy.find(&text(i)).time, Some((i as u64 + 1) * MS_U), "{i}");
    }
    assert_eq!((lossy.summary.gaps, lossy.summary.unmeasured), (1, 1));
}

#[test]
fn compressed_connections_are_found_in_their_middle() {
    let mut c = Connection::new(40_018);
    let mut time = BEGIN;
    for i in 0..3 {
        let request = zlib(0, &query(&format!("select {i}")));
        time = c.ask(time + MS, &request, MS, &zlib(1, &rows(2, 10))) + MS;
    }
    let got = read(&pcap(&c.packets, 1 << 20));
    let times: Vec<_> = got.times();
    assert_eq!(times.len(), 3);
    assert!(times.iter().all(|(_, t)| *t == Some(MS as u64)), "{times:?}");
}

/// MariaDB's Connector/J and node's mysql2 send a compressed packet's header by itself.
#[test]
fn requests_are_found_whose_header_comes_in_a_segment_of_its_own() {
    for (header, compressed) in [(4, false), (7, true)] {
        let pack = |sequence: u8, inner: Vec<u8>| match compressed {
            true => zlib(sequence, &inner),
            false => inner,
        };
        let texts = ["select 1".to_string(), format!("select '{}'", "abc ".repeat(50))];
        let mut c = Connection::new(40_021);
        let mut time = BEGIN;
        for sql in texts.iter().cycle().take(6) {
            let request = pack(0, query(sql));
            let (first, rest) = request.split_at(header);
            time = c.send(time + MS, CLIENT, first);
            time = c.ask(time + 10_000, rest, MS, &pack(1, rows(2, 10)));
        }
        c.close(time + MS);
        let got = read(&pcap(&c.packets, 1 << 20));
        for sql in &texts {
            let events: Vec<_> = got.events.iter().filter(|e| e.sql == *sql).collect();
            assert_eq!(events.len(), 3, "{:?}", got.times());
            assert!(events.iter().all(|e| e.time == Some(MS_U) && e.rows == Some(2)), "{events:?}");
        }
    }
}

/// The server's offer alone is not yet an agreement.
#[test]
fn compressed_connections_are_found_without_their_login() {
    let texts: Vec<String> =
        (0..5).map(|i| format!("select {i} from t where a = '{}'", "text ".repeat(100))).collect();
    let mut c = Connection::new(40_020);
    let mut time = c.login(BEGIN, 1 << 5);
    for sql in &texts {
        time = c.ask(time + MS, &zlib(0, &query(sql)), MS, &zlib(1, &rows(2, 10)));
    }
    c.close(time + MS);
    // Three packets open the connection; the greeting and the login follow.
    for lost in [3, 4] {
        let mut packets = c.packets.clone();
        packets.remove(lost);
        let got = read(&pcap(&packets, 1 << 20));
        for sql in &texts {
            assert_eq!(got.find(sql).time, Some(MS_U), "without packet {lost}");
        }
        assert_eq!(got.summary.not_understood, 0);
    }
}

#[test]
fn zstd_is_unpacked_where_it_was_agreed() {
    let mut c = Connection::new(40_019);
    let time = c.login(BEGIN, 1 << 26 | 1);
    let pack = |sequence: u8, inner: &[u8]| {
        let packed = zstd::bulk::compress(inner, 3).unwrap();
        let (length, before) =
            ((packed.len() as u32).to_le_bytes(), (inner.len() as u32).to_le_bytes());
        [&length[..3], &[sequence], &before[..3], &packed].concat()
    };
    let sql = format!("select '{}'", "abc".repeat(100));
    c.ask(time + MS, &pack(0, &query(&sql)), MS, &pack(1, &rows(30, 100)));
    let got = read(&pcap(&c.packets, 1 << 20));
    let select = got.find(&sql);
    assert_eq!((select.time, select.rows), (Some(MS as u64), Some(30)));
}

/// A packet that unpacks to much more than its own length.
#[test]
fn compressed_bombs_take_no_longer_than_they_may() {
    let bomb = zlib(1, &vec![0; (16 << 20) - 1]);
    let mut c = Connection::new(43_000);
    let time = c.login(BEGIN, 1 << 5);
    c.send(time + 1_000_000, CLIENT, &zlib(0, &query("select 1")));
    let mut time = time + 2_000_000;
    let mut sent = 0;
    while sent < 1_000_000 {
        time = c.send(time + 1000, SERVER, &bomb) + 1000;
        sent += bomb.len();
    }
    let file = pcap(&merge(vec![c]), 1 << 20);
    let begun = Instant::now();
    read(&file);
    let spent = begun.elapsed();
    assert!(spent < Duration::from_secs(1), "{spent:?}");
}
