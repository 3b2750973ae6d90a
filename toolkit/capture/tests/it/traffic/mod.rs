//! Simulated connections: packets of known statements at known times, as captures of every format.

// Other test programs of the project include this file, too; none uses all of it.
#![allow(dead_code, unused_imports)]

mod busy;
mod captures;
mod load;
mod read;

pub use busy::*;
pub use captures::*;
pub use load::*;
pub use read::*;

/// A generator of random numbers; the same seed gives the same numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PUSH: u8 = 8;
pub const ACK: u8 = 16;

const SEGMENT: usize = 1448;

/// An IP packet and when it was seen: nanoseconds since the epoch.
#[derive(Clone)]
pub struct Seen {
    pub time: i64,
    pub ip: Vec<u8>,
}

/// One connection. Times are given by the caller; the clock of the capture is global.
pub struct Connection {
    pub port: u16,
    pub server_port: u16,
    ipv6: bool,
    /// The next sequence number of the client and of the server.
    pub sequence: [u32; 2],
    pub packets: Vec<Seen>,
}

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

impl Connection {
    pub fn new(port: u16) -> Self {
        Connection {
            port,
            server_port: 3306,
            ipv6: false,
            // Some sequence numbers wrap around soon.
            sequence: [u32::from(port).wrapping_mul(0x1357_9bdf), u32::MAX - 20_000],
            packets: Vec::new(),
        }
    }

    pub fn over_ipv6(mut self) -> Self {
        self.ipv6 = true;
        self
    }

    pub fn on_port(mut self, port: u16) -> Self {
        self.server_port = port;
        self
    }

    /// Sends one segment as it is, without advancing the sequence numbers.
    pub fn raw(&mut self, time: i64, side: usize, flags: u8, sequence: u32, ack: u32, data: &[u8]) {
        let (from, to) = match side {
            CLIENT => (self.port, self.server_port),
            _ => (self.server_port, self.port),
        };
        let mut tcp = Vec::with_capacity(32 + data.len());
        tcp.extend(from.to_be_bytes());
        tcp.extend(to.to_be_bytes());
        tcp.extend(sequence.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        tcp.extend([0x80, flags, 1, 0, 0, 0, 0, 0]);
        tcp.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        tcp.extend(data);
        let mut ip = Vec::with_capacity(tcp.len() + 40);
        let hosts: [u8; 2] = if side == CLIENT { [7, 9] } else { [9, 7] };
        if self.ipv6 {
            ip.extend([0x60, 0, 0, 0]);
            ip.extend((tcp.len() as u16).to_be_bytes());
            ip.extend([6, 64]);
            for host in hosts {
                ip.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
            }
        } else {
            ip.extend([0x45, 0]);
            ip.extend((20 + tcp.len() as u16).to_be_bytes());
            ip.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
            for host in hosts {
                ip.extend([10, 0, 0, host]);
            }
        }
        ip.extend(tcp);
        self.packets.push(Seen { time, ip });
    }

    fn segment(&mut self, time: i64, side: usize, flags: u8, data: &[u8]) {
        let (sequence, ack) = (self.sequence[side], self.sequence[1 - side]);
        self.raw(time, side, flags, sequence, ack, data);
        let more = data.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.sequence[side] = sequence.wrapping_add(more);
    }

    pub fn open(&mut self, time: i64) {
        self.segment(time, CLIENT, SYN, b"");
        self.segment(time + 1_000, SERVER, SYN | ACK, b"");
        self.acknowledge(time + 2_000, CLIENT);
    }

    pub fn acknowledge(&mut self, time: i64, side: usize) {
        self.segment(time, side, ACK, b"");
    }

    /// Sends bytes in segments 10 microseconds apart; returns the time of the last.
    pub fn send(&mut self, mut time: i64, side: usize, bytes: &[u8]) -> i64 {
        for (index, part) in bytes.chunks(SEGMENT).enumerate() {
            time += if index > 0 { 10_000 } else { 0 };
            self.segment(time, side, ACK | PUSH, part);
        }
        time
    }

    /// One side closes its direction.
    pub fn leave(&mut self, time: i64, side: usize) {
        self.segment(time, side, FIN | ACK, b"");
    }

    pub fn close(&mut self, time: i64) {
        self.segment(time, CLIENT, FIN | ACK, b"");
        self.segment(time + 1_000, SERVER, FIN | ACK, b"");
        self.acknowledge(time + 2_000, CLIENT);
    }

    /// A login of user `app` to database `shop`, with the given capabilities besides the usual.
    /// Returns when the server's OK came.
    pub fn login(&mut self, time: i64, capabilities: u32) -> i64 {
        self.open(time);
        self.send(time + 100_000, SERVER, &packet(0, &greeting(capabilities)));
        self.send(time + 200_000, CLIENT, &packet(1, &login(capabilities)));
        self.send(time + 400_000, SERVER, &packet(2, OK));
        time + 400_000
    }

    /// A statement and an answer. The first byte of the answer comes `after` nanoseconds behind the
    /// statement's last byte. Returns when the answer's last byte came.
    pub fn ask(&mut self, time: i64, request: &[u8], after: i64, answer: &[u8]) -> i64 {
        let sent = self.send(time, CLIENT, request);
        let end = self.send(sent + after, SERVER, answer);
        self.acknowledge(end + 500, CLIENT);
        end
    }
}

pub const OK: &[u8] = &[0, 1, 0, 2, 0, 0, 0];
pub const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];

/// Capabilities: protocol 4.1, secure connection, database, plugin, attributes.
pub const USUAL: u32 = 1 << 9 | 1 << 15 | 1 << 3 | 1 << 19 | 1 << 20;

pub fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&length[..3], &[sequence], payload].concat()
}

pub fn greeting(capabilities: u32) -> Vec<u8> {
    let all = (capabilities | USUAL).to_le_bytes();
    let mut out = b"\x0a5.5.5-10.11.6-MariaDB\0\x2a\0\0\0abcdefgh\0".to_vec();
    out.extend([all[0], all[1], 33, 2, 0, all[2], all[3], 21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend(b"123456789012\0mysql_native_password\0");
    out
}

pub fn login(capabilities: u32) -> Vec<u8> {
    let mut out = (capabilities | USUAL).to_le_bytes().to_vec();
    out.extend([0, 0, 0, 1, 33]);
    out.extend([0; 23]);
    out.extend(b"app\0\x03abcshop\0mysql_native_password\0");
    out.extend(b"\x12\x04_pid\x03123\x02os\x05Linux");
    out
}

pub fn query(sql: &str) -> Vec<u8> {
    packet(0, &[b"\x03", sql.as_bytes()].concat())
}

/// A result set of one column.
pub fn rows(count: usize, width: usize) -> Vec<u8> {
    let mut out = packet(1, &[1]);
    out.extend(packet(2, b"\x03def\0\0\0\x01c\0\x0c\x21\0\0\0\0\0\xfd\0\0\0\0\0"));
    out.extend(packet(3, EOF));
    let mut sequence = 4u8;
    for _ in 0..count {
        let row = [&[width as u8][..], &vec![b'r'; width]].concat();
        out.extend(packet(sequence, &row));
        sequence = sequence.wrapping_add(1);
    }
    out.extend(packet(sequence, EOF));
    out
}

/// All packets of the connections in the order of their times.
pub fn merge(connections: Vec<Connection>) -> Vec<Seen> {
    let mut all: Vec<Seen> = connections.into_iter().flat_map(|c| c.packets).collect();
    all.sort_by_key(|p| p.time);
    all
}

/// Where the simulation begins: nanoseconds since the epoch.
pub const BEGIN: i64 = 1_700_000_000_000_000_000;

const DEFINITION: &[u8] = b"\x03def\0\0\0\x01c\0\x0c\x21\0\0\0\0\0\xfd\0\0\0\0\0";

/// The answer to a PREPARE with these numbers of parameters and columns.
pub fn prepared(id: u8, parameters: u8, columns: u8) -> Vec<u8> {
    let mut parts = vec![vec![0, id, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0]];
    for count in [parameters, columns] {
        parts.extend((0..count).map(|_| DEFINITION.to_vec()));
        parts.extend((count > 0).then(|| EOF.to_vec()));
    }
    parts.iter().enumerate().flat_map(|(i, part)| packet(i as u8 + 1, part)).collect()
}

/// An execution; the values are strings. `types`: the packet says that they are strings.
pub fn execute(id: u32, flags: u8, values: &[&str], types: bool) -> Vec<u8> {
    let mut out = vec![0x17];
    out.extend(id.to_le_bytes());
    out.extend([flags, 1, 0, 0, 0]);
    if !values.is_empty() {
        out.extend(vec![0; values.len().div_ceil(8)]);
        out.push(u8::from(types));
        if types {
            out.extend(values.iter().flat_map(|_| [0xfd, 0]));
        }
        for value in values {
            out.push(value.len() as u8);
            out.extend(value.as_bytes());
        }
    }
    packet(0, &out)
}
