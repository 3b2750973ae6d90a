//! Streams of a few bytes: the output, and its order.

use super::way::{PATIENCE, PATIENCE_PACKETS, RETRANSMISSION};
use super::*;
use crate::packet::Endpoint;
use Side::{Client, Server};

#[derive(Default)]
struct Log {
    bytes: [Vec<u8>; 2],
    order: Vec<String>,
    missing: [u64; 2],
}

impl Receiver for Log {
    fn data(&mut self, side: Side, bytes: &[u8], _: Piece) {
        self.bytes[side as usize].extend_from_slice(bytes);
        self.order.push(format!("{side:?} {}", String::from_utf8_lossy(bytes)));
    }

    fn gap(&mut self, side: Side, _: u64, length: u64) {
        self.missing[side as usize] += length;
        self.order.push(format!("{side:?} -{length}"));
    }

    fn cut(&mut self, side: Side, _: Piece, length: u64) {
        self.order.push(format!("{side:?} cut {length}"));
    }

    fn another(&mut self) {
        self.order.push("another".to_string());
    }
}

struct Run {
    streams: Streams,
    log: Log,
    time: i64,
}

impl Run {
    fn new() -> Self {
        Run { streams: Streams::default(), log: Log::default(), time: 0 }
    }

    fn send(&mut self, side: Side, sequence: u32, acknowledged: u32, data: &[u8]) {
        self.cut(side, sequence, acknowledged, data, data.len());
    }

    fn cut(&mut self, side: Side, sequence: u32, acknowledged: u32, data: &[u8], wire: usize) {
        self.flags(side, ACK, sequence, acknowledged, data, wire);
    }

    fn flags(&mut self, side: Side, flags: u8, seq: u32, ack: u32, data: &[u8], wire: usize) {
        self.time += 1000;
        let end = Endpoint { address: 0, port: 0 };
        let segment = Segment {
            time: self.time,
            from: end,
            to: end,
            sequence: seq,
            acknowledged: ack,
            flags,
            payload: data,
            wire_length: wire as u32,
            offset: 0,
        };
        self.streams.segment(side, &segment, &mut self.log);
    }

    fn order(&self) -> Vec<&str> {
        self.log.order.iter().map(String::as_str).collect()
    }
}

#[test]
fn segments_in_order_pass_straight_through() {
    let mut run = Run::new();
    run.send(Client, 100, 500, b"ask");
    run.send(Server, 500, 103, b"answer");
    run.send(Client, 103, 506, b"");
    run.send(Client, 103, 506, b"again");
    assert_eq!(run.order(), ["Client ask", "Server answer", "Client again"]);
    assert_eq!(run.streams.held_bytes(), 0);
}

#[test]
fn segments_out_of_order_are_put_in_order() {
    let mut run = Run::new();
    run.send(Client, 100, 500, b"a");
    run.send(Client, 103, 500, b"d");
    run.send(Client, 102, 500, b"c");
    assert_eq!(run.log.bytes[0], b"a");
    run.send(Client, 101, 500, b"b");
    assert_eq!(run.log.bytes[0], b"abcd");
    assert_eq!(run.log.missing, [0, 0]);
    assert_eq!(run.streams.held_bytes(), 0);
}

#[test]
fn retransmissions_and_overlaps_give_each_byte_once() {
    let mut run = Run::new();
    run.send(Client, 100, 500, b"abc");
    run.send(Client, 100, 500, b"abc");
    run.send(Client, 99, 500, b"x");
    run.send(Client, 101, 500, b"bcdef");
    run.send(Client, 108, 500, b"ij");
    run.send(Client, 107, 500, b"hij");
    run.send(Client, 104, 500, b"efgh");
    assert_eq!(run.log.bytes[0], b"abcdefghij");
}

/// The second copy's time would be taken for the time of the first byte of an answer.
#[test]
fn what_is_sent_again_long_after_what_follows_it_is_missing() {
    let mut run = Run::new();
    run.send(Client, 100, 500, b"a");
    run.send(Client, 102, 500, b"cd");
    run.time += PATIENCE;
    run.send(Client, 101, 500, b"b");
    run.send(Client, 104, 500, b"e");
    assert_eq!(run.order(), ["Client a", "Client -1", "Client cd", "Client e"]);
}

#[test]
fn sequence_numbers_wrap_around() {
    let mut run = Run::new();
    run.send(Server, u32::MAX - 1, 7, b"abc");
    run.send(Server, 3, 7, b"fg");
    run.send(Server, 1, 7, b"de");
    run.send(Client, 7, 5, b"ok");
    assert_eq!(run.log.bytes[1], b"abcdefg");
    assert_eq!(run.log.bytes[0], b"ok");
}

#[test]
fn an_answer_captured_before_its_request_comes_after_it() {
    let mut run = Run::new();
    run.send(Client, 100, 500, b"1");
    run.send(Server, 500, 101, b"one");
    run.send(Server, 503, 102, b"two");
    run.send(Client, 101, 503, b"2");
    assert_eq!(run.order(), ["Client 1", "Server one", "Client 2", "Server two"]);
}

#[test]
fn acknowledged_bytes_that_do_not_come_are_a_gap() {
    let mut run = Run::new();
    run.send(Client, 100, 500, b"1");
    run.send(Server, 500, 101, b"one");
    // The second request is lost; its answer must not be taken for the first request's.
    run.send(Server, 503, 107, b"two");
    assert_eq!(run.order(), ["Client 1", "Server one"]);
    run.time += PATIENCE;
    run.send(Client, 107, 506, b"");
    assert_eq!(run.order(), ["Client 1", "Server one", "Client -6", "Server two"]);
    // The third answer is lost; only its acknowledgement shows it.
    run.send(Client, 107, 506, b"3");
    run.send(Client, 108, 516, b"");
    for _ in 0..PATIENCE_PACKETS {
        run.send(Client, 108, 516, b"");
    }
    assert_eq!(run.order()[4..], ["Client 3", "Server -10"]);
}

#[test]
fn bytes_that_nobody_acknowledged_are_waited_for() {
    let mut run = Run::new();
    run.send(Client, 100, 500, b"a");
    for i in 0..100 {
        run.send(Client, 102 + i, 500, b"c");
    }
    assert_eq!(run.log.bytes[0], b"a");
    run.send(Client, 101, 500, b"b");
    assert_eq!(run.log.bytes[0].len(), 102);
    assert_eq!(run.log.missing, [0, 0]);
    run.send(Client, 300, 500, b"z");
    run.time += RETRANSMISSION;
    run.send(Client, 301, 500, b"z");
    assert_eq!(run.log.missing, [98, 0]);
}

#[test]
fn a_lost_answer_and_the_next_request_leave_two_gaps_in_order() {
    let mut run = Run::new();
    run.send(Client, 100, 500, b"1");
    // Lost: the answer (500..510), request 2 (101..105). Seen: the second answer.
    run.send(Server, 510, 105, b"two");
    run.send(Client, 105, 513, b"3");
    run.send(Server, 513, 106, b"three");
    assert_eq!(run.order(), ["Client 1"]);
    run.streams.finish(&mut run.log);
    let order = run.order();
    let at = |what: &str| order.iter().position(|o| *o == what).unwrap();
    assert!(at("Client -4") < at("Server two"), "{order:?}");
    assert!(at("Server -10") < at("Server two"), "{order:?}");
    assert!(at("Server two") < at("Client 3") && at("Client 3") < at("Server three"));
}

#[test]
fn a_hole_is_cut_where_the_other_side_spoke() {
    let mut run = Run::new();
    run.send(Client, 100, 500, b"1");
    // Lost: answer 1 (500..510). Seen: request 2. Lost: answer 2 (510..520). Seen: request 3.
    run.send(Client, 101, 510, b"2");
    run.send(Client, 102, 520, b"3");
    run.streams.finish(&mut run.log);
    let want = ["Client 1", "Server -10", "Client 2", "Server -10", "Client 3"];
    assert_eq!(run.order(), want);
    // Request 2 is lost as well, request 3 is seen, its answer (530..540) is not. The hole in the
    // answers ends at request 3, although the server's loss is noticed first.
    let mut run = Run::new();
    run.send(Client, 100, 500, b"1");
    run.send(Client, 102, 520, b"3");
    run.send(Client, 103, 530, b"");
    run.time += PATIENCE;
    run.send(Client, 103, 530, b"4");
    let want = ["Client 1", "Server -20", "Client -1", "Client 3", "Server -10", "Client 4"];
    assert_eq!(run.order(), want);
}

#[test]
fn what_a_short_snapshot_left_out_is_cut_and_not_lost() {
    let mut run = Run::new();
    run.cut(Server, 500, 100, b"abc", 10);
    run.send(Server, 510, 100, b"next");
    assert_eq!(run.order(), ["Server abc", "Server cut 7", "Server next"]);
    // A retransmission with more of the bytes comes too late; no byte is yielded twice.
    run.send(Server, 500, 100, b"abcdefghij");
    assert_eq!(run.order().len(), 3);
}

#[test]
fn an_end_of_both_directions_is_seen_even_without_the_last_acknowledgement() {
    let mut run = Run::new();
    run.flags(Client, SYN, 99, 0, b"", 0);
    run.flags(Server, SYN | ACK, 499, 100, b"", 0);
    run.send(Client, 100, 500, b"bye");
    run.flags(Client, FIN | ACK, 103, 500, b"", 0);
    assert!(!run.streams.ended());
    run.flags(Server, FIN | ACK, 500, 104, b"", 0);
    assert!(run.streams.ended());
    run.send(Client, 104, 501, b"");
    assert_eq!(run.order(), ["Client bye"]);
}

#[test]
fn a_syn_with_another_number_is_another_connection() {
    let mut run = Run::new();
    run.flags(Client, SYN, 99, 0, b"", 0);
    assert!(!run.streams.is_reuse(Client, 99));
    assert!(run.streams.is_reuse(Client, 7000));
    run.flags(Client, SYN, 99, 0, b"", 0);
    run.send(Client, 100, 500, b"x");
    assert_eq!(run.log.bytes[0], b"x");
    // A late copy: no host begins two connections with one number.
    assert!(!run.streams.is_reuse(Client, 99));
    assert!(run.streams.is_reuse(Client, 100));
}

#[test]
fn numbers_far_away_are_ignored_until_they_persist() {
    let mut run = Run::new();
    run.send(Client, 100, 500, b"a");
    run.send(Client, 100 + (1 << 30), 500, b"stray");
    run.send(Client, 101, 500, b"b");
    assert_eq!(run.log.bytes[0], b"ab");
    for i in 0..u32::from(STRAYS) + 1 {
        run.send(Client, 0x8000_0000 + i, 500, b"z");
    }
    assert_eq!(run.log.bytes[0], b"abzz");
    assert!(!run.order().contains(&"another"));
    // Both numbers belong to another connection.
    run.send(Client, 5, 0x9000_0000, b"new");
    assert_eq!(run.log.bytes[0], b"abzznew");
    assert_eq!(run.order().last_chunk(), Some(&["another", "Client new"]));
}

#[test]
fn held_bytes_stay_below_their_bound_whatever_comes() {
    let mut run = Run::new();
    run.send(Client, 100, 500, b"a");
    let data = vec![b'x'; 1000];
    for i in 0..20_000u32 {
        run.send(Client, 1000 + i * 1001, 500, &data);
        assert!(run.streams.held_bytes() <= MOST_HELD + data.len() + OVERHEAD);
    }
    // Acknowledgements that contradict each other do not stop the stream either.
    let mut run = Run::new();
    run.send(Client, 100, 500, b"a");
    for i in 0..100 {
        run.send(Client, 101 + i, 600 + i, b"c");
        run.send(Server, 500 + i, 300 + i, b"s");
    }
    run.streams.finish(&mut run.log);
    assert_eq!(run.streams.held_bytes(), 0);
}

#[test]
fn random_segments_give_out_each_position_once() {
    let mut seed = 1u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    for _ in 0..300 {
        let mut run = Run::new();
        for _ in 0..200 {
            let side = if random(2) == 0 { Client } else { Server };
            let data = vec![b'd'; random(30) as usize];
            let wire = data.len() + if random(10) == 0 { 5 } else { 0 };
            let flags = ACK | if random(50) == 0 { FIN } else { 0 };
            run.flags(side, flags, random(300) as u32, random(300) as u32, &data, wire);
        }
        run.streams.finish(&mut run.log);
        assert_eq!(run.streams.held_bytes(), 0);
        for side in 0..2 {
            // The sequence numbers span 300 values and a segment.
            let total = run.log.bytes[side].len() as u64 + run.log.missing[side];
            assert!(total <= 670, "{total}");
        }
    }
}

#[test]
fn numbers_that_jump_equally_far_are_another_connections() {
    // A minute later, as Linux counts: the numbers are in the window, 15 to 900 million further.
    for jump in [2_000_000u32, 15_000_000, 200_000_000, 900_000_000, 2_000_000u32.wrapping_neg()] {
        let mut run = Run::new();
        run.send(Client, 100, 500, b"old");
        run.send(Server, 500, 103, b"answer");
        run.send(Client, 100u32.wrapping_add(jump), 9_000u32.wrapping_add(jump), b"new");
        assert_eq!(run.order(), ["Client old", "Server answer", "another", "Client new"], "{jump}");
        assert_eq!(run.log.missing, [0, 0]);
    }
    // Much is missing from answers, little from requests: this is the same connection.
    let mut run = Run::new();
    run.send(Client, 100, 500, b"old");
    run.send(Client, 5_000_100, 90_000_500, b"same");
    run.streams.finish(&mut run.log);
    assert_eq!(run.log.missing, [4_999_997, 90_000_000]);
    assert!(!run.order().contains(&"another"));
}
