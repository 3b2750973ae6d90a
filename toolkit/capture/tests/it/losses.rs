//! Packets are removed at random; no shown time may be wrong.

use super::traffic::*;
use frond_event::Kind;

/// Removes `percent` of the packets. Returns the share of statements that are measured.
fn check(load: &Load, percent: u64, seed: u64) -> f64 {
    let got = read(&pcap(&thin(&load.packets, percent, seed), 1 << 20));
    let mut by_class = vec![Vec::new(); CLASSES.len()];
    let mut measured = 0;
    for event in &got.events {
        let (Some(class), Kind::Query) = (class(&event.sql), event.kind) else { continue };
        let truth = load.truth.get(&event.sql).unwrap_or_else(|| panic!("invented: {event:?}"));
        if let Some(time) = event.time {
            assert_eq!(time, *truth, "{percent} % removed, seed {seed}: {event:?}");
            by_class[class].push(time);
            measured += 1;
        } else {
            assert!(event.unmeasured.is_some(), "{event:?}");
        }
    }
    for (class, times) in by_class.into_iter().enumerate() {
        let truth = load.p95(class);
        let shown = p95(times);
        let off = (shown - truth).abs() / truth;
        assert!(off <= 0.1, "{percent} % removed: p95 of class {class} is {shown}, not {truth}");
    }
    let total = load.truth.len() as f64;
    if percent > 0 {
        assert!(got.summary.gaps > 0 && got.summary.packets_lost() > 0);
        // A lost request is not counted, and no request is counted twice. `total` does not include logins.
        let seen = got.summary.measured + got.summary.unmeasured;
        let (least, most) = (0.95 * total * (100 - percent) as f64 / 100.0, total + 40.0);
        assert!((least..=most).contains(&(seen as f64)), "{seen} of {total} counted");
    } else {
        assert_eq!(got.summary.gaps, 0);
    }
    measured as f64 / total
}

#[test]
fn lost_packets_never_give_a_wrong_time() {
    let load = load(40, 250, 1);
    assert_eq!(check(&load, 0, 1), 1.0);
    // Where bytes of both sides are missing, a client's first requests are not assumed to wait for
    // answers; so with the largest loss fewer statements are measured than could be.
    for (percent, least) in [(1, 0.97), (5, 0.87), (20, 0.58), (60, 0.1)] {
        let share = check(&load, percent, percent);
        assert!(share >= least, "{percent} % removed: only {share} measured");
    }
}

/// Captures from several queues have neighbouring packets swapped.
#[test]
fn packets_out_of_order_are_all_measured() {
    let load = load(10, 100, 2);
    let mut packets = load.packets.clone();
    let mut random = Random(3);
    for i in 1..packets.len() {
        if random.below(5) == 0 {
            packets.swap(i - 1, i);
        }
    }
    let got = read(&pcap(&packets, 1 << 20));
    assert_eq!(got.summary.gaps, 0);
    let measured = got.events.iter().filter(|e| class(&e.sql).is_some());
    assert_eq!(measured.clone().count(), load.truth.len());
    for event in measured {
        assert_eq!(event.time, load.truth.get(&event.sql).copied());
    }
}

#[test]
fn packets_seen_twice_count_once() {
    let load = load(5, 50, 4);
    let twice: Vec<Seen> = load
        .packets
        .iter()
        .flat_map(|p| [p.clone(), Seen { time: p.time + 300, ip: p.ip.clone() }])
        .collect();
    let got = read(&pcap(&twice, 1 << 20));
    assert_eq!((got.summary.gaps, got.summary.unmeasured), (0, 0));
    assert!(got.summary.retransmitted > 0);
    for event in got.events.iter().filter(|e| class(&e.sql).is_some()) {
        assert_eq!(event.time, load.truth.get(&event.sql).copied());
    }
    assert_eq!(got.events.len(), load.truth.len() + 5);
}

#[test]
fn a_capture_that_begins_in_the_middle_finds_its_place() {
    let load = load(10, 60, 6);
    let got = read(&pcap(&load.packets[load.packets.len() / 3..], 1 << 20));
    assert_eq!(got.events.iter().filter(|e| e.thread_id.is_some()).count(), 0);
    let mut measured = 0;
    for event in got.events.iter().filter(|e| e.time.is_some() && class(&e.sql).is_some()) {
        assert_eq!(event.time, load.truth.get(&event.sql).copied());
        measured += 1;
    }
    assert!(measured > 350, "{measured}");
}

/// A lost answer together with the next request: the classic error is one time for two queries.
#[test]
fn an_answer_is_never_given_to_the_request_before() {
    let mut c = Connection::new(50_000);
    let time = c.login(BEGIN, 0);
    let first = c.ask(time + 1_000_000, &query("select 1"), 5_000_000, &rows(2, 10));
    let lost = c.packets.len();
    let second = c.ask(first + 1_000_000, &query("select 2"), 5_000_000, &rows(2, 10));
    let third = c.ask(second + 1_000_000, &query("select 3"), 5_000_000, &rows(2, 10));
    c.close(third + 1_000_000);
    let mut packets = c.packets;
    // The packets of "select 1" are request, answer and acknowledgement; likewise for "select 2".
    packets.drain(lost - 2..lost + 1);
    let got = read(&pcap(&packets, 1 << 20));
    let first = got.find("select 1");
    assert_eq!((first.time, first.unmeasured.is_some()), (None, true));
    assert!(got.events.iter().all(|e| e.sql != "select 2"));
    assert_eq!(got.find("select 3").time, Some(5_000_000));
    assert_eq!(got.summary.gaps, 2);
}

/// Its text may be another's, so it is in no class; but all statements with a time are counted.
#[test]
fn a_torn_request_does_not_take_from_the_number_of_measured_ones() {
    let mut c = Connection::new(50_001);
    let time = c.login(BEGIN, 0);
    let first = c.ask(time + 1_000_000, &query("select 1"), 5_000_000, &rows(2, 10));
    let long = c.packets.len();
    let text = format!("insert into t values ('{}')", "x".repeat(10_000));
    let second = c.ask(first + 1_000_000, &query(&text), 5_000_000, &packet(1, OK));
    c.ask(second + 1_000_000, &query("select 3"), 5_000_000, &rows(2, 10));
    c.packets.remove(long + 3);
    let got = read(&pcap(&c.packets, 1 << 20));
    let timed = got.events.iter().filter(|e| e.time.is_some()).count() as u64;
    assert_eq!((got.summary.measured, got.summary.unmeasured), (timed, 1));
    let told = got.summary.to_string();
    assert!(told.contains(" 3 queries measured"), "{told}");
}
