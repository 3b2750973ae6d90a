//! One capture in every format gives the same list of events.

use super::traffic::*;
use frond_capture::{first_time, recognise, Format, Options, Sampling};

/// Ten connections with a few statements each; times are whole microseconds, which is all that
/// text has.
fn packets() -> Vec<Seen> {
    let mut random = Random(5);
    let connections = (0..10u16).map(|n| {
        let mut c = Connection::new(40_000 + n);
        if n % 3 == 0 {
            c = c.over_ipv6();
        }
        let mut time = c.login(BEGIN + i64::from(n) * 1_000_000, 0);
        for i in 0..30 {
            let after = 1000 * (50 + random.below(5_000) as i64);
            let answer = rows(random.below(40) as usize, 100);
            let sql = format!("select {i} from t{n} where a = {}", random.below(100));
            time = c.ask(time + 1_000_000, &query(&sql), after, &answer) + 1000;
        }
        c.close(time + 1_000_000);
        c
    });
    let mut all = merge(connections.collect());
    all.iter_mut().for_each(|p| p.time -= p.time % 1000);
    all
}

#[test]
fn every_format_gives_the_same_events() {
    let packets = packets();
    let want = read(&pcap(&packets, usize::MAX - 14));
    assert_eq!(want.events.len(), 310);
    assert_eq!(want.summary.gaps, 0);
    assert!(want.events.iter().all(|e| e.time.is_some() && e.user == "app" && e.db == "shop"));
    assert!(want.events.iter().any(|e| e.host == "10.0.0.7"));
    assert!(want.events.iter().any(|e| e.host == "fd00::7"));
    let files = [
        (pcapng(&packets), Format::Pcapng),
        (text(&packets, false, false, false), Format::Text),
        (text(&packets, false, true, true), Format::Text),
        (text(&packets, true, false, false), Format::Text),
        (text(&packets, true, true, false), Format::Text),
    ];
    for (file, format) in files {
        assert_eq!(recognise(&file), Some(format));
        for piece in [777, 1 << 20] {
            let got = read_with(&file, Options::default(), piece);
            assert_eq!(got.error, None);
            assert_eq!(got.skips, []);
            assert_eq!(got.events, want.events, "{format:?}");
        }
    }
}

#[test]
fn connections_go_on_from_one_file_to_the_next() {
    use frond_event::{Event, ForEach, Stream};
    let packets = packets();
    let mut traffic = frond_capture::Traffic::new(Options::default());
    let mut measured = 0;
    let mut files = Vec::new();
    let mut sink = ForEach::new(|e: &Event<'_>| {
        measured += u32::from(e.query_time().is_some());
        files.push(e.place.file);
    });
    for (number, part) in packets.chunks(packets.len() / 3 + 1).enumerate() {
        if number > 0 {
            traffic.next_file(number as u32, &mut sink).unwrap();
        }
        let file = if number == 1 { pcapng(part) } else { pcap(part, 1 << 20) };
        traffic.feed(&file, &mut sink).unwrap();
    }
    traffic.finish(&mut sink);
    drop(sink);
    assert_eq!(measured, 310);
    assert_eq!((files.first(), files.last()), (Some(&0), Some(&2)));
}

#[test]
fn files_of_a_rotation_have_an_order() {
    let packets = packets();
    for (number, part) in packets.chunks(packets.len() / 5 + 1).enumerate() {
        let forms = [
            pcap(part, 60),
            pcap(part, 1 << 20),
            pcapng(part),
            text(part, false, false, false),
            text(part, true, true, true),
        ];
        for file in forms {
            let head = &file[..file.len().min(64 << 10)];
            assert_eq!(first_time(head, 0), Some(part[0].time / 1000), "part {number}");
        }
    }
    assert_eq!(first_time(&pcap(&[], 60), 0), None);
    assert_eq!(first_time(b"# Time: 260101 10:00:00\n", 0), None);
}

/// One file of a rotation is missing: only its contents are missing in the report.
#[test]
fn a_missing_file_is_a_gap() {
    let load = load(30, 60, 11);
    let third = load.packets.len() / 3;
    let without = [&load.packets[..third], &load.packets[2 * third..]].concat();
    let got = read(&pcap(&without, 1 << 20));
    let mut measured = 0;
    for event in got.events.iter().filter(|e| class(&e.sql).is_some() && e.time.is_some()) {
        assert_eq!(event.time, load.truth.get(&event.sql).copied(), "{event:?}");
        // The user is known from the file before.
        assert_eq!((&event.user[..], event.thread_id), ("app", Some(42)));
        measured += 1;
    }
    let all = load.truth.len() as u64;
    assert!(measured > all / 2, "{measured} of {all}");
    assert_eq!(got.summary.connections_with_gaps, got.summary.connections);
    let known = measured + got.summary.unmeasured;
    assert!(known > all * 6 / 10 && known < all * 7 / 10, "{known} of {all}");
}

#[test]
fn sampling_takes_whole_connections_and_says_how_to_capture_them() {
    let file = pcap(&packets(), 1 << 20);
    let sampling = Sampling::parse("1/4").unwrap();
    let options = Options { sampling: Some(sampling), ..Options::default() };
    let got = read_with(&file, options, 4096);
    let taken = got.summary.connections - got.summary.not_sampled;
    assert_eq!((got.summary.connections, got.events.len() as u64), (10, taken * 31));
    assert!((2..=3).contains(&taken), "{taken} of 10");
    let (queries, time) = got.summary.estimate(sampling);
    assert_eq!(queries.total, 4.0 * 31.0 * taken as f64);
    assert!(queries.error > 0.0 && time.total > 0.0);
    let filter = sampling.tcpdump_filter(&[3306, 3307]);
    for part in ["tcp dst port 3306", "tcp src port 3307", "ip6[40:2]"] {
        assert!(filter.contains(part), "{filter}");
    }
}

#[test]
fn a_short_snapshot_measures_what_it_can() {
    // 120 bytes hold the headers, short statements, and the beginning of every answer.
    let packets = packets();
    let whole = read(&pcap(&packets, 1 << 20));
    let got = read(&pcap(&packets, 120));
    assert!(got.summary.cut > 0);
    assert_eq!((got.summary.gaps, got.summary.packets_lost()), (0, 0));
    let mut measured = 0;
    for event in got.events.iter().filter(|e| e.time.is_some()) {
        let truth = whole.find(&event.sql);
        assert_eq!((event.time, event.start), (truth.time, truth.start), "{event:?}");
        measured += 1;
    }
    assert!(measured > 250, "{measured} of 310 measured");
}

/// Damages a file at its middle; `how` is the kind of damage. Also returns the offset of the
/// damage.
fn damaged(file: &[u8], how: u8) -> (Vec<u8>, usize) {
    // The first record that begins behind the middle.
    let mut at = 24;
    while at < file.len() / 2 {
        let captured = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap());
        at += 16 + captured as usize;
    }
    let mut random = Random(9);
    let garbage: Vec<u8> = (0..5000).map(|_| random.next() as u8).collect();
    let mut out = file.to_vec();
    match how {
        // Bytes between two records.
        0 => out.splice(at..at, garbage).for_each(drop),
        // An absurd length.
        1 => out[at + 8..at + 12].copy_from_slice(&0xf000_0000u32.to_le_bytes()),
        // Bytes are missing, from the middle of a record to the middle of another.
        2 => out.drain(at + 10..at + 1211).for_each(drop),
        // A hole, as a file system leaves it when the machine stops.
        3 => out.splice(at..at, [0; 5000]).for_each(drop),
        // Nothing behind this place is a record.
        _ => {
            out.truncate(at);
            out.extend((0..200_000).map(|_| random.next() as u8));
        }
    }
    (out, at)
}

#[test]
fn damage_in_the_middle_loses_what_is_damaged_and_no_more() {
    let file = pcap(&packets(), 1 << 20);
    let whole = read(&file);
    for how in 0..4 {
        let (bad, at) = damaged(&file, how);
        for piece in [777, 64 << 10, 1 << 20] {
            let got = read_with(&bad, Options::default(), piece);
            let error = got.error.clone().unwrap();
            assert!(error.contains(&format!("damaged at byte {at}")), "{error}");
            assert!(error.contains("reading went on"), "{error}");
            let [skip] = &got.skips[..] else { panic!("{:?}", got.skips) };
            assert_eq!(skip.place.offset, at as u64);
            assert!(skip.bytes < 8_000, "{skip:?}");
            let lost = whole.summary.packets - got.summary.packets;
            assert!(lost <= 40, "{how}: {lost} packets lost");
            // All logins have the same text, so only statements are compared.
            let asked = got.events.iter().filter(|e| e.sql.starts_with("select"));
            for event in asked.filter(|e| e.time.is_some()) {
                let truth = whole.find(&event.sql);
                assert_eq!((event.time, event.start), (truth.time, truth.start), "{event:?}");
            }
        }
    }
}

#[test]
fn what_follows_damage_without_an_end_is_counted_to_the_end() {
    let file = pcap(&packets(), 1 << 20);
    let (bad, at) = damaged(&file, 4);
    for piece in [777, 64 << 10, 1 << 20] {
        let got = read_with(&bad, Options::default(), piece);
        let [skip] = &got.skips[..] else { panic!("{:?}", got.skips) };
        assert_eq!((skip.place.offset, skip.bytes), (at as u64, 200_000));
        assert!(got.error.unwrap().contains("could not be read"));
    }
    // The other formats, too.
    let mut bad = pcapng(&packets());
    let at = bad.len();
    bad.extend([6, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f]);
    bad.resize(at + 100_000, 7);
    let got = read_with(&bad, Options::default(), 777);
    assert_eq!(got.skips.iter().map(|s| s.bytes).sum::<u64>(), 100_000, "{:?}", got.skips);
}
