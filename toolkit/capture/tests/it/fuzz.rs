//! Hostile captures: mutations of good ones, by seed. None may cause a panic, take long or keep
//! much memory. `fuzzing` has the seeds and rounds.

use super::fuzzing::{first_seed, rounds};
use super::traffic::*;
use frond_capture::Options;
use std::time::{Duration, Instant};

/// A small capture with everything in it.
fn seeds() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for n in 0..6u16 {
        let mut c = Connection::new(41_000 + n);
        let compressed = n == 2;
        let mut time = c.login(BEGIN, if compressed { 1 << 5 } else { 0 });
        if compressed {
            for _ in 0..5 {
                let inner = query("select 1");
                let request = [&[inner.len() as u8, 0, 0, 0, 0, 0, 0], &inner[..]].concat();
                let inner = rows(3, 5);
                let answer = [&[inner.len() as u8, 0, 0, 1, 0, 0, 0], &inner[..]].concat();
                time = c.ask(time + 1_000_000, &request, 50_000, &answer);
            }
        } else {
            for i in 0..4 {
                time = c.ask(time + 1_000_000, &query("select a, b from t"), 50_000, &rows(i, 30));
            }
            let prepare = packet(0, b"\x16select ? + ?");
            let answer = prepared(1, 2, 1);
            time = c.ask(time + 1_000_000, &prepare, 50_000, &answer);
            let execute = b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\xfd\0\x03\0\x02ab\x05\0\0\0";
            time = c.ask(time + 1_000_000, &packet(0, execute), 50_000, &rows(2, 4));
        }
        c.close(time + 1_000_000);
        packets.push(c);
    }
    let packets = merge(packets);
    vec![
        pcap(&packets, 1 << 20),
        pcapng(&packets),
        text(&packets, false, true, false),
        text(&packets, true, false, true),
    ]
}

fn mutate(file: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(20) {
        let at = random.below(file.len() as u64) as usize;
        let length = (1 + random.below(40)) as usize;
        let end = (at + length).min(file.len());
        match random.below(7) {
            0 => file[at] ^= 1 << random.below(8),
            1 => file[at] = random.next() as u8,
            2 => file[at..end].fill([0, 0xff, 0x7f, 0x80][random.below(4) as usize]),
            3 => drop(file.drain(at..end)),
            4 => {
                let copy = file[at..end].to_vec();
                let to = random.below(file.len() as u64) as usize;
                file.splice(to..to, copy);
            }
            5 => {
                let value = random.next() as u32 >> random.below(32);
                let bytes =
                    if random.below(2) == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
                for (target, byte) in file[at..].iter_mut().zip(bytes) {
                    *target = byte;
                }
            }
            _ => file.truncate((at).max(64)),
        }
        if file.is_empty() {
            file.push(0);
        }
    }
}

#[test]
fn mutated_captures_neither_panic_nor_take_long() {
    let first = first_seed();
    let seeds = seeds();
    for round in 0..rounds(400) {
        let mut random = Random(first.wrapping_add(round));
        let mut file = seeds[random.below(seeds.len() as u64) as usize].clone();
        mutate(&mut file, &mut random);
        let begun = Instant::now();
        let piece = [1 << 20, 997, 61][random.below(3) as usize];
        let options = Options { most_connections: 4, most_memory: 1 << 20, ..Options::default() };
        read_with(&file, options, piece);
        let spent = begun.elapsed();
        assert!(
            spent < Duration::from_secs(1),
            "round {round}: {spent:?} for {} bytes",
            file.len()
        );
    }
}

/// Packets whose headers are good and whose numbers and payloads are not.
#[test]
fn hostile_segments_neither_panic_nor_take_long() {
    let first = first_seed();
    for round in 0..rounds(60) {
        let mut random = Random(first.wrapping_add(round));
        let mut connections: Vec<Connection> =
            (0..3).map(|n| Connection::new(42_000 + n)).collect();
        let mut payload = vec![0; 1448];
        let mut sent = 0;
        let mut time = BEGIN;
        while sent < 1_000_000 {
            time += random.below(1_000_000) as i64;
            let c = &mut connections[random.below(3) as usize];
            let side = random.below(2) as usize;
            let length = if random.below(4) == 0 { random.below(1448) } else { random.below(24) };
            for byte in &mut payload[..length as usize] {
                *byte = if random.below(3) == 0 { 0 } else { random.below(256) as u8 };
            }
            if length > 4 && random.below(2) == 0 {
                payload[0] = (length - 4) as u8;
                payload[1] = ((length - 4) >> 8) as u8;
                payload[2] = 0;
                payload[3] = random.below(3) as u8;
                payload[4] = [3, 0x16, 0x17, 0x18, 0, 0xfe, 0xff, 1][random.below(8) as usize];
            }
            let flags = [ACK, ACK, ACK, ACK, SYN, FIN | ACK, RST, 0][random.below(8) as usize];
            let flags = if random.below(30) > 0 { ACK } else { flags };
            let near = |base: u32, random: &mut Random| match random.below(20) {
                0 => random.next() as u32,
                1..=4 => base.wrapping_add(random.below(5000) as u32),
                _ => base,
            };
            let (sequence, ack) =
                (near(c.sequence[side], &mut random), near(c.sequence[1 - side], &mut random));
            c.raw(time, side, flags, sequence, ack, &payload[..length as usize]);
            c.sequence[side] = c.sequence[side].wrapping_add(length as u32);
            sent += length as usize + 72;
        }
        let file = pcap(&merge(connections), 1 << 20);
        let begun = Instant::now();
        read(&file);
        let spent = begun.elapsed();
        assert!(spent < Duration::from_secs(1), "round {round}: {spent:?}");
    }
}

/// More connections than the table holds, each with statements that wait for their answers.
#[test]
fn connections_without_end_keep_no_more_than_the_bound() {
    use frond_capture::Traffic;
    use frond_event::{Event, ForEach, Stream};
    // Other tests of this program take memory meanwhile: so it runs again, with this test alone.
    const ALONE: &str = "FROND_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "fuzz::connections_without_end_keep_no_more_than_the_bound";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let done = alone.args([name, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let options = Options { most_connections: 500, most_memory: 2 << 20, ..Options::default() };
    let mut traffic = Traffic::new(options);
    let mut events = 0u32;
    let mut sink = ForEach::new(|_: &Event<'_>| events += 1);
    let sql = format!("select '{}'", "x".repeat(20_000));
    let request = query(&sql);
    let before = resident();
    for port in 1024..9024u16 {
        let mut c = Connection::new(port);
        c.open(BEGIN + i64::from(port) * 1_000_000);
        c.send(BEGIN + i64::from(port) * 1_000_000 + 5000, CLIENT, &request);
        let file = pcap(&c.packets, 1 << 20);
        let from = if port == 1024 { 0 } else { 24 };
        traffic.feed(&file[from..], &mut sink).unwrap();
    }
    let grown = resident().saturating_sub(before);
    traffic.finish(&mut sink);
    drop(sink);
    assert!(grown < 24 << 20, "{grown} bytes more");
    assert!(traffic.summary().evicted > 7000);
}

/// Bytes of memory of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|p| p.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
