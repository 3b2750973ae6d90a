//! Packets as capture files.

use super::Seen;

fn ethernet(ip: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind, ip].concat()
}

/// The variants of a pcap file.
#[derive(Clone, Copy, Debug)]
pub struct Pcap {
    pub nanoseconds: bool,
    pub big_endian: bool,
    pub link: u32,
    /// Makes the bytes in front of the IP packet, from the link layer's addresses or in full.
    pub before: fn(&[u8]) -> Vec<u8>,
    /// Packets are cut after this many bytes of the IP packet.
    pub snap: usize,
}

impl Default for Pcap {
    fn default() -> Self {
        Pcap {
            nanoseconds: true,
            big_endian: false,
            link: 1,
            before: |ip| ethernet(ip)[..14].to_vec(),
            snap: 1 << 20,
        }
    }
}

impl Pcap {
    fn words(&self, out: &mut Vec<u8>, words: &[u32]) {
        for v in words {
            out.extend(if self.big_endian { v.to_be_bytes() } else { v.to_le_bytes() });
        }
    }

    pub fn header(&self, out: &mut Vec<u8>) {
        let magic = if self.nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let version = if self.big_endian { 0x0002_0004 } else { 0x0004_0002 };
        self.words(out, &[magic, version, 0, 0, 262_144, self.link]);
    }

    pub fn record(&self, out: &mut Vec<u8>, time: i64, ip: &[u8]) {
        let before = (self.before)(ip);
        let kept = ip.len().min(self.snap);
        let fraction = time % 1_000_000_000 / if self.nanoseconds { 1 } else { 1000 };
        let (captured, whole) = (before.len() + kept, before.len() + ip.len());
        let words = [(time / 1_000_000_000) as u32, fraction as u32, captured as u32, whole as u32];
        self.words(out, &words);
        out.extend(before);
        out.extend(&ip[..kept]);
    }

    pub fn file(&self, packets: &[Seen]) -> Vec<u8> {
        let mut out = Vec::new();
        self.header(&mut out);
        for seen in packets {
            self.record(&mut out, seen.time, &seen.ip);
        }
        out
    }
}

/// A pcap file with nanoseconds; packets are cut after `snap` bytes of the IP packet.
pub fn pcap(packets: &[Seen], snap: usize) -> Vec<u8> {
    Pcap { snap, ..Pcap::default() }.file(packets)
}

/// As pcapng, over two interfaces of different clocks.
pub fn pcapng(packets: &[Seen]) -> Vec<u8> {
    fn block(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
        let length = (body.len().next_multiple_of(4) + 12) as u32;
        out.extend(kind.to_le_bytes());
        out.extend(length.to_le_bytes());
        out.extend(body);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(length.to_le_bytes());
    }
    let mut out = Vec::new();
    let section = [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    block(&mut out, 0x0a0d_0d0a, &section);
    block(&mut out, 1, &[1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    block(&mut out, 1, &[101, 0, 0, 0, 0, 0, 0, 0]);
    for (index, seen) in packets.iter().enumerate() {
        // The second interface can only hold whole microseconds.
        let second = index % 2 == 1 && seen.time % 1000 == 0;
        let data = if second { seen.ip.clone() } else { ethernet(&seen.ip) };
        let stamp = if second { seen.time / 1000 } else { seen.time } as u64;
        let mut body = u32::from(second).to_le_bytes().to_vec();
        for v in [(stamp >> 32) as u32, stamp as u32, data.len() as u32, data.len() as u32] {
            body.extend(v.to_le_bytes());
        }
        body.extend(data);
        block(&mut out, 6, &body);
    }
    out
}

/// Text as tcpdump prints it: `link` for `-xx`/`-XX`, `ascii` for `-X`/`-XX`, `epoch` for `-tt`.
pub fn text(packets: &[Seen], link: bool, ascii: bool, epoch: bool) -> Vec<u8> {
    use std::fmt::Write;
    let mut out = String::new();
    for seen in packets {
        let (seconds, micros) = (seen.time / 1_000_000_000, seen.time % 1_000_000_000 / 1000);
        if epoch {
            let _ = write!(out, "{seconds}.{micros:06}");
        } else {
            // The simulation stays within one day: 2023-11-14, 22:13:20 and later.
            let of_day = seconds - 1_699_920_000;
            let (h, m, s) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
            let _ = write!(out, "2023-11-14 {h:02}:{m:02}:{s:02}.{micros:06}");
        }
        out.push_str(&headline(&seen.ip));
        let bytes = if link { ethernet(&seen.ip) } else { seen.ip.clone() };
        for (index, line) in bytes.chunks(16).enumerate() {
            let _ = write!(out, "\t0x{:04x}: ", index * 16);
            for pair in line.chunks(2) {
                out.push(' ');
                for b in pair {
                    let _ = write!(out, "{b:02x}");
                }
            }
            if ascii {
                let width = 42 - (line.len() * 2 + line.len().div_ceil(2));
                out.push_str(&" ".repeat(width));
                let shown = |b: &u8| if (0x20..0x7f).contains(b) { *b as char } else { '.' };
                out.extend(line.iter().map(shown));
            }
            out.push('\n');
        }
    }
    out.into_bytes()
}

/// The description of a packet, with `-n -q`.
fn headline(ip: &[u8]) -> String {
    if ip[0] >> 4 == 6 {
        return " IP6 fd00::7.40000 > fd00::9.3306: tcp 0\n".to_string();
    }
    let end = |address: usize, port: usize| {
        let a = &ip[address..address + 4];
        let port = u16::from_be_bytes([ip[port], ip[port + 1]]);
        format!("{}.{}.{}.{}.{port}", a[0], a[1], a[2], a[3])
    };
    format!(" IP {} > {}: tcp {}\n", end(12, 20), end(16, 22), ip.len() - 52)
}
