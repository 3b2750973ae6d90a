//! The same connections behind every link layer and in every form of pcap, cut and in fragments.

use super::traffic::*;

fn packets() -> Vec<Seen> {
    let connections = (0..4u16).map(|n| {
        let mut c = Connection::new(43_000 + n);
        if n == 1 {
            c = c.over_ipv6();
        }
        let mut time = c.login(BEGIN + i64::from(n) * 1_000_000, 0);
        for i in 0..5 {
            let sql = format!("select {n}, {i}");
            time = c.ask(time + 1_000_000, &query(&sql), 3_000_000 + i, &rows(3, 50)) + 1000;
        }
        c.close(time + 1_000_000);
        c
    });
    merge(connections.collect())
}

fn kind(ip: &[u8]) -> [u8; 2] {
    if ip[0] >> 4 == 6 {
        [0x86, 0xdd]
    } else {
        [8, 0]
    }
}

fn family(ip: &[u8]) -> u32 {
    if ip[0] >> 4 == 6 {
        30
    } else {
        2
    }
}

const MAC: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

/// Name, number of the link layer, and the function below for an IP packet.
/// Makes a frame from an IP packet.
type Wrap = fn(&[u8]) -> Vec<u8>;

const LAYERS: &[(&str, u32, Wrap)] = &[
    ("Ethernet", 1, |ip| [&MAC[..], &kind(ip)].concat()),
    ("VLAN", 1, |ip| [&MAC[..], &[0x81, 0, 0, 5], &kind(ip)].concat()),
    ("QinQ", 1, |ip| [&MAC[..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &kind(ip)].concat()),
    ("cooked", 113, |ip| [&[0, 0, 3, 4, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &kind(ip)].concat()),
    ("cooked 2", 276, |ip| {
        [&kind(ip)[..], &[0, 0, 0, 0, 0, 1, 3, 4, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]].concat()
    }),
    ("loopback", 0, |ip| family(ip).to_le_bytes().to_vec()),
    ("loopback, other order", 0, |ip| family(ip).to_be_bytes().to_vec()),
    ("loopback of OpenBSD", 108, |ip| family(ip).to_be_bytes().to_vec()),
    ("raw", 101, |_| Vec::new()),
    ("raw of BSD", 12, |_| Vec::new()),
];

#[test]
fn every_link_layer_and_form_of_pcap_gives_the_same_events() {
    let packets = packets();
    let want = read(&pcap(&packets, 1 << 20));
    assert_eq!((want.events.len(), want.summary.gaps), (24, 0));
    let mut micros = packets.clone();
    micros.iter_mut().for_each(|p| p.time -= p.time % 1000);
    let want_micros = read(&pcap(&micros, 1 << 20));
    for (name, link, before) in LAYERS {
        for big_endian in [false, true] {
            for nanoseconds in [false, true] {
                let form =
                    Pcap { nanoseconds, big_endian, link: *link, before: *before, snap: 1 << 20 };
                let got = read(&form.file(&packets));
                let want = if nanoseconds { &want } else { &want_micros };
                assert_eq!(got.events, want.events, "{name}, {form:?}");
                assert_eq!((got.summary.unreadable, got.summary.other_protocols), (0, 0));
            }
        }
    }
}

/// A statement sent in two fragments is not put together: it is counted, and unmeasured.
#[test]
fn what_fragments_carry_is_missing() {
    let mut c = Connection::new(43_100);
    let time = c.login(BEGIN, 0);
    let first = c.ask(time + 1_000_000, &query("select 1"), 2_000_000, &rows(1, 1));
    let at = c.packets.len();
    let sql = format!("select 2, '{}'", "x".repeat(500));
    let second = c.ask(first + 1_000_000, &query(&sql), 2_000_000, &rows(1, 1));
    let third = c.ask(second + 1_000_000, &query("select 3"), 2_000_000, &rows(1, 1));
    c.close(third + 1_000_000);
    let mut packets = c.packets;
    let whole = packets[at].ip.clone();
    let fragment = |from: usize, to: usize, more: u8| {
        let mut ip = whole[..20].to_vec();
        ip[2..4].copy_from_slice(&((20 + to - from) as u16).to_be_bytes());
        ip[6] = more << 5;
        ip[7] = (from / 8) as u8;
        ip.extend(&whole[20 + from..20 + to]);
        ip
    };
    let parts = [fragment(0, 104, 1), fragment(104, whole.len() - 20, 0)];
    let time = packets[at].time;
    packets.splice(at..at + 1, parts.map(|ip| Seen { time, ip }));
    let got = read(&pcap(&packets, 1 << 20));
    assert_eq!((got.summary.fragments, got.summary.gaps), (2, 1));
    for sql in ["select 1", "select 3"] {
        assert_eq!(got.find(sql).time, Some(2_000_000));
    }
    assert!(got.events.iter().all(|e| !e.sql.starts_with("select 2")));
    assert!(got.summary.to_string().contains("2 packets are fragments"));
}

/// The headers of an answer suffice to measure a statement; the headers of a request do not.
#[test]
fn packets_cut_by_the_snapshot_length_give_no_false_time() {
    let mut c = Connection::new(43_200);
    let mut time = c.login(BEGIN, 0);
    for i in 0..20i64 {
        let padding = "x".repeat(if i % 2 == 0 { 5 } else { 300 });
        let sql = format!("select {i}, '{padding}'");
        time = c.ask(time + 1_000_000, &query(&sql), (i + 1) * 1_000_000, &rows(5, 100));
    }
    let whole = read(&pcap(&c.packets, 1 << 20));
    for snap in [30, 40, 60, 96, 128, 200] {
        let got = read(&pcap(&c.packets, snap));
        let measured: Vec<_> =
            got.events.iter().filter(|e| e.time.is_some() && e.sql.starts_with("select")).collect();
        for event in &measured {
            let truth = whole.events.iter().find(|e| e.start == event.start).unwrap();
            assert_eq!((&event.sql, event.time), (&truth.sql, truth.time), "snap {snap}");
        }
        let short = measured.iter().filter(|e| e.sql.contains("'xxxxx'")).count();
        assert_eq!(
            (short, measured.len() - short),
            (if snap >= 96 { 10 } else { 0 }, 0),
            "snap {snap}"
        );
        assert_eq!(got.summary.unreadable > 0, snap < 40);
    }
}
