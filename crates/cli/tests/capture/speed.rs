//! How fast a capture becomes a report, on one thread: `make bench-capture`.
//!
//! The gate is packets per second of processor time, so that other work on the machine does not count.

use super::traffic::*;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

#[test]
#[ignore = "a benchmark"]
fn speed_of_captures_through_the_program() {
    const ROUNDS: i64 = 40;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("busy.pcap");
    let packets = busy();
    let form = Pcap::default();
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let mut bytes = Vec::new();
    form.header(&mut bytes);
    for round in 0..ROUNDS {
        for seen in &packets {
            form.record(&mut bytes, seen.time + round * BUSY_ROUND, &seen.ip);
        }
        file.write_all(&bytes).unwrap();
        bytes.clear();
    }
    file.flush().unwrap();
    let count = packets.len() as f64 * ROUNDS as f64;
    let (mut seconds, mut spent) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        let (begun, before) = (Instant::now(), processor_time());
        let status = Command::new(env!("CARGO_BIN_EXE_frond"))
            .args(["digest", "--json", "--quiet", "--threads", "1"])
            .arg(&path)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        seconds = seconds.min(begun.elapsed().as_secs_f64());
        spent = spent.min(processor_time() - before);
    }
    let rate = count / spent;
    println!(
        "pcap: {:.2} M packets/s of processor time, {:.2} M by the clock, from file to report ({count:.0} packets)",
        rate / 1e6,
        count / seconds / 1e6
    );
    if !cfg!(debug_assertions) {
        assert!(rate > 500_000.0, "only {rate:.0} packets/s");
    }
}

/// Seconds of processor time that this process's children have had, of those that ended. In hundredths.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let behind_name = stat.rsplit(')').next().unwrap();
    let fields: Vec<f64> = behind_name.split(' ').filter_map(|f| f.parse().ok()).collect();
    // The state is no number: user and system time of children are fields 16 and 17.
    (fields[12] + fields[13]) / 100.0
}
