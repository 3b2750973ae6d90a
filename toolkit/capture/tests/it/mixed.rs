//! Clients of every kind at once, with packets lost, repeated and out of order: every measured
//! time is true, and no event is there twice.

use super::compressed::zlib;
use super::traffic::*;
use frond_event::Kind;
use std::collections::{HashMap, HashSet, VecDeque};

struct Mixed {
    packets: Vec<Seen>,
    /// True time of each command in nanoseconds, by the microsecond in which it began.
    truth: HashMap<i64, u64>,
}

struct Client<'m> {
    connection: Connection,
    random: Random,
    time: i64,
    truth: &'m mut HashMap<i64, u64>,
}

impl Client<'_> {
    fn begin(&mut self, least: i64) -> i64 {
        self.begin_within(least, 3_000_000)
    }

    /// Picks a later time, in a microsecond in which no other command begins, nor in the one before or
    /// after.
    fn begin_within(&mut self, least: i64, most: u64) -> i64 {
        self.time += least + self.random.below(most) as i64;
        while (-1..=1).any(|i| self.truth.contains_key(&(self.time / 1000 + i))) {
            self.time += 1000;
        }
        self.truth.insert(self.time / 1000, 0);
        self.time
    }

    fn ask(&mut self, request: &[u8], answer: &[u8]) {
        let begun = self.begin(10_000);
        let after = 20_000 + self.random.below(4_000_000);
        let sent = self.connection.send(begun, CLIENT, request);
        if self.random.below(3) == 0 {
            self.connection.acknowledge(sent + 5_000, SERVER);
        }
        let end = self.connection.send(sent + after as i64, SERVER, answer);
        // A delayed acknowledgement comes with the next request.
        if self.random.below(2) == 0 {
            self.connection.acknowledge(end + 500, CLIENT);
        }
        self.truth.insert(begun / 1000, after);
        self.time = end + 1000;
    }

    /// A statement, now and then a long one.
    fn sql(&mut self) -> String {
        let padding = if self.random.below(12) == 0 { "x".repeat(4000) } else { String::new() };
        format!("select {} from t where a = '{padding}'", self.random.below(1 << 40))
    }

    fn answer(&mut self) -> Vec<u8> {
        match self.random.below(4) {
            0 => packet(1, OK),
            1 => packet(1, b"\xff\x1e\x04#42S22Unknown column"),
            _ => rows(self.random.below(60) as usize, 100),
        }
    }

    fn statement(&mut self) {
        let (request, answer) = (query(&self.sql()), self.answer());
        self.ask(&request, &answer);
    }

    fn compressed(&mut self) {
        let (request, answer) = (zlib(0, &query(&self.sql())), self.answer());
        let (first, second) = answer.split_at(answer.len() / 2);
        self.ask(&request, &[zlib(1, first), zlib(2, second)].concat());
    }

    fn prepared(&mut self) {
        let id = 1 + self.random.below(100) as u8;
        self.ask(&packet(0, b"\x16select a from t where b = ?"), &prepared(id, 1, 1));
        for round in 0..1 + self.random.below(8) {
            if self.random.below(4) == 0 {
                let piece = packet(0, &[0x18, id, 0, 0, 0, 0, 0, b'l']);
                self.time = self.connection.send(self.time + 50_000, CLIENT, &piece);
            }
            let value = self.random.below(1 << 30).to_string();
            let answer = self.answer();
            self.ask(&execute(u32::from(id), 0, &[&value], round == 0), &answer);
        }
        let begun = self.begin(10_000);
        self.time = self.connection.send(begun, CLIENT, &packet(0, &[0x19, id, 0, 0, 0]));
    }

    fn pipelined(&mut self) {
        let requests: Vec<i64> = (0..2 + self.random.below(4))
            .map(|_| {
                let (request, begun) = (query(&self.sql()), self.begin(2_000));
                self.time = self.connection.send(begun, CLIENT, &request);
                begun
            })
            .collect();
        // The server begins with each request when the one before is answered.
        let mut end = self.time;
        for (index, begun) in requests.iter().enumerate() {
            let after = 30_000 + self.random.below(1_000_000);
            let answer = self.answer();
            let first = end + after as i64;
            let sent = self.sent(*begun);
            let truth = if index == 0 { (first - sent) as u64 } else { after };
            self.truth.insert(begun / 1000, truth);
            end = self.connection.send(first, SERVER, &answer);
        }
        self.connection.acknowledge(end + 500, CLIENT);
        self.time = end + 1000;
    }

    /// When the last byte of a request was sent, whose first byte was sent at `begun`.
    fn sent(&self, begun: i64) -> i64 {
        let packets = &self.connection.packets;
        let at = packets.iter().position(|p| p.time == begun).expect("it was sent");
        let (mut last, mut next) = (begun, begun + 10_000);
        for packet in &packets[at + 1..] {
            // Segments of one request are 10 microseconds apart.
            if packet.time == next && packet.ip.len() > 52 && !is_command(&packet.ip[52..]) {
                (last, next) = (next, next + 10_000);
            }
        }
        last
    }

    /// Sends requests while answers arrive, as drivers do for programs that do not wait.
    fn streaming(&mut self) {
        let mut answers = VecDeque::<(i64, Vec<u8>)>::new();
        let mut idle = self.time;
        for _ in 0..3 + self.random.below(20) {
            let pause = 1000 + self.random.below(300_000) as i64;
            while answers.front().is_some_and(|(first, _)| *first < self.time + pause) {
                let (first, answer) = answers.pop_front().expect("there is one");
                self.time = self.time.max(self.connection.send(first, SERVER, &answer));
            }
            let request = query(&self.sql());
            let begun = self.begin_within(pause, 2000);
            self.time = self.connection.send(begun, CLIENT, &request);
            let after = 20_000 + self.random.below(500_000);
            let answer = self.answer();
            let first = idle.max(self.time) + after as i64;
            self.truth.insert(begun / 1000, after);
            idle = first + 10_000 * ((answer.len() as i64 - 1) / 1448);
            answers.push_back((first, answer));
        }
        for (first, answer) in answers {
            self.connection.send(first, SERVER, &answer);
        }
        self.connection.acknowledge(idle + 500, CLIENT);
        self.time = idle + 1000;
    }

    /// Prepares a statement and executes "the one prepared last" without waiting, as clients of
    /// MariaDB do, then waits for each answer.
    fn direct(&mut self) {
        let id = 1 + self.random.below(100) as u8;
        let prepare = self.begin(10_000);
        let request = packet(0, b"\x16select a from t where b = ?");
        self.time = self.connection.send(prepare, CLIENT, &request);
        let prepare_sent = self.time;
        let begun = self.begin_within(1000, 20_000);
        let request = execute(u32::MAX, 0, &["12"], true);
        self.time = self.connection.send(begun, CLIENT, &request);
        let first = self.time + 20_000 + self.random.below(300_000) as i64;
        self.truth.insert(prepare / 1000, (first - prepare_sent) as u64);
        let end = self.connection.send(first, SERVER, &prepared(id, 1, 1));
        let after = 20_000 + self.random.below(2_000_000);
        self.truth.insert(begun / 1000, after);
        let answer = self.answer();
        let end = self.connection.send(end + after as i64, SERVER, &answer);
        self.connection.acknowledge(end + 500, CLIENT);
        self.time = end + 1000;
        for _ in 0..self.random.below(5) {
            let answer = self.answer();
            self.ask(&execute(u32::from(id), 0, &["13"], false), &answer);
        }
    }

    fn local_file(&mut self) {
        let begun = self.begin(10_000);
        let request = query("load data local infile 'f' into table t");
        let sent = self.connection.send(begun, CLIENT, &request);
        let asked = self.connection.send(sent + 100_000, SERVER, &packet(1, b"\xfbf"));
        let file = packet(2, &vec![b'f'; 1 + self.random.below(5000) as usize]);
        let given = self.connection.send(asked + 50_000, CLIENT, &file);
        let given = self.connection.send(given + 20_000, CLIENT, &packet(3, b""));
        let end = given + 500_000;
        self.time = self.connection.send(end, SERVER, &packet(4, OK)) + 1000;
        self.truth.insert(begun / 1000, (end - sent) as u64);
    }

    fn change_user(&mut self) {
        let begun = self.begin(10_000);
        let change = packet(0, b"\x11bob\0\x03xyzother\0\x21\0mysql_native_password\0");
        let sent = self.connection.send(begun, CLIENT, &change);
        let asked = self.connection.send(sent + 90_000, SERVER, &packet(1, b"\xfeplugin\0salt"));
        let given = self.connection.send(asked + 50_000, CLIENT, &packet(2, b"signature"));
        self.time = self.connection.send(given + 200_000, SERVER, &packet(3, OK)) + 1000;
        self.truth.insert(begun / 1000, (given + 200_000 - sent) as u64);
    }
}

fn is_command(payload: &[u8]) -> bool {
    payload.get(3) == Some(&0) && payload.get(4) == Some(&3)
}

/// Four clients of each of the first `kinds` kinds; the last two of seven do not wait for answers.
fn mixed(seed: u64, kinds: u16, commands: usize) -> Mixed {
    let mut truth = HashMap::new();
    let mut connections = Vec::new();
    for n in 0..4 * kinds {
        let mut random = Random(seed << 16 | u64::from(n));
        let mut connection = Connection::new(34_000 + n);
        let begun = BEGIN + random.below(20_000_000) as i64;
        let time = connection.login(begun, if n % kinds == 2 { 1 << 5 } else { 0 }) + 1000;
        let mut client = Client { connection, random, time, truth: &mut truth };
        for _ in 0..commands {
            // Programs are idle now and then.
            client.time += i64::from(client.random.below(8) == 0) * 2_000_000_000;
            match (n % kinds, client.random.below(4)) {
                (0, _) => client.statement(),
                (1, _) => client.prepared(),
                (2, _) => client.compressed(),
                (3, 0..=2) => client.pipelined(),
                (4, 0) => client.local_file(),
                (4, 1) => client.change_user(),
                (5, 0..=1) => client.streaming(),
                (6, _) => client.direct(),
                _ => client.statement(),
            }
        }
        let time = client.time;
        let mut connection = client.connection;
        connection.close(time + 1_000_000);
        connections.push(connection);
    }
    Mixed { packets: merge(connections), truth }
}

/// Returns the number of commands that were measured; their times may be `off` by this many
/// nanoseconds.
fn check(truth: &HashMap<i64, u64>, packets: &[Seen], off: u64, what: &str) -> usize {
    let got = read(&pcap(packets, 1 << 20));
    let mut seen = HashSet::new();
    let mut measured = 0;
    for event in got.events.iter().filter(|e| e.kind != Kind::Connect) {
        let mut start = event.start.expect("its first byte was seen");
        if off > 0 && !truth.contains_key(&start) {
            start -= 1;
        }
        assert!(seen.insert(start), "{what}: twice: {event:?}");
        let truth = truth.get(&start).unwrap_or_else(|| panic!("{what}: invented: {event:?}"));
        if let Some(time) = event.time {
            assert!(time.abs_diff(*truth) <= off, "{what}: not {truth}: {event:?}");
            measured += 1;
        }
    }
    let unmeasured = got.events.iter().filter(|e| e.time.is_none()).count() as u64;
    assert!(got.summary.unmeasured >= unmeasured, "{what}: {}", got.summary);
    measured
}

#[test]
fn no_time_is_false_whatever_clients_do_and_captures_lose() {
    for seed in 0..3 {
        for (kinds, least) in [(5, [85, 65, 25, 2]), (7, [65, 48, 28, 2])] {
            let load = mixed(seed, kinds, 40);
            let all = load.truth.len();
            assert_eq!(check(&load.truth, &load.packets, 0, "whole"), all);
            for (percent, least) in [1, 5, 20, 60].into_iter().zip(least) {
                let what = format!("{percent} % of {seed}, {kinds} kinds");
                let packets = thin(&load.packets, percent, seed);
                let measured = check(&load.truth, &packets, 0, &what);
                assert!(measured * 100 >= all * least, "{what}: {measured} of {all} measured");
                check(&load.truth, &disorder(packets, seed), 300, &what);
            }
        }
    }
}

/// Out of order, and some of them twice, 300 nanoseconds later.
fn disorder(packets: Vec<Seen>, seed: u64) -> Vec<Seen> {
    let mut random = Random(seed);
    let mut mess = Vec::new();
    for packet in packets {
        let again = random.below(10) == 0;
        let later = Seen { time: packet.time + 300, ip: packet.ip.clone() };
        mess.push(packet);
        mess.extend(again.then_some(later));
        let length = mess.len();
        if length > 1 && random.below(5) == 0 {
            mess.swap(length - 2, length - 1);
        }
    }
    mess
}
