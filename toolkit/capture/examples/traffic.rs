//! Writes a capture of much traffic, for benchmarks: many clients, short statements of some hundred
//! classes, two packets in three with payload.
//!
//!     cargo run --release -p frond-capture --example traffic -- MILLIONS_OF_PACKETS > capture.pcap
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[path = "../tests/it/traffic/mod.rs"]
mod traffic;

use std::io::Write;

fn main() -> std::io::Result<()> {
    let millions: f64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1.0);
    let packets = traffic::busy();
    let form = traffic::Pcap::default();
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let mut bytes = Vec::new();
    form.header(&mut bytes);
    let (mut left, mut round) = ((millions * 1e6) as usize, 0_u16);
    while left > 0 {
        for seen in traffic::busy_again(&packets, round).take(left) {
            form.record(&mut bytes, seen.time, &seen.ip);
            if bytes.len() > 1 << 20 {
                out.write_all(&bytes)?;
                bytes.clear();
            }
        }
        left = left.saturating_sub(packets.len());
        // With more than six billion packets clients come again, long after they have gone.
        round = round.wrapping_add(1);
    }
    out.write_all(&bytes)?;
    out.flush()
}
