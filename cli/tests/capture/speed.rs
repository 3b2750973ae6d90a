//! Measures how fast `frond digest` and pt-query-digest turn a capture into a report on one thread: `make
//! bench-capture`.
//!
//! The target is packets per second of processor time, so that other work on the machine does not count.

use super::programs::{bounded, has};
use super::traffic::*;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

#[test]
#[ignore = "a benchmark"]
fn speed_of_captures_through_the_program() {
    const ROUNDS: u16 = 40;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("busy.pcap");
    let packets = busy();
    let form = Pcap::default();
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let mut bytes = Vec::new();
    form.header(&mut bytes);
    for round in 0..ROUNDS {
        for seen in busy_again(&packets, round) {
            form.record(&mut bytes, seen.time, &seen.ip);
        }
        file.write_all(&bytes).unwrap();
        bytes.clear();
    }
    file.flush().unwrap();
    let count = packets.len() as f64 * f64::from(ROUNDS);
    let (mut seconds, mut spent) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        let (begun, before) = (Instant::now(), processor_time());
        let said = Command::new(env!("CARGO_BIN_EXE_frond"))
            .args(["digest", "--json", "--quiet", "--threads", "1"])
            .arg(&path)
            .output()
            .unwrap();
        assert!(said.status.success());
        seconds = seconds.min(begun.elapsed().as_secs_f64());
        spent = spent.min(processor_time() - before);
        let report: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        let capture = &report["loss"]["capture"];
        let of = |what: &str| capture[what].as_u64().unwrap_or(0);
        let rounds = u64::from(ROUNDS);
        assert_eq!(of("packets"), packets.len() as u64 * rounds);
        assert_eq!(of("connections"), BUSY_CONNECTIONS * rounds);
        assert!(of("measured") >= BUSY_CONNECTIONS * BUSY_STATEMENTS * rounds, "{capture}");
    }
    let rate = count / spent;
    let line = |what: &str, rate: f64, clock: f64, packets: f64| {
        println!("{what:<34}{packets:>10.0}{:>14.3}{:>12.3}", rate / 1e6, clock / 1e6);
    };
    println!(
        "{:<34}{:>10}{:>14}{:>12}",
        "Capture to report, one thread", "packets", "M/s of CPU", "M/s"
    );
    line("frond digest, pcap", rate, count / seconds, count);
    if let Some((few, spent, seconds)) = peer(home.path(), &packets) {
        line("pt-query-digest, tcpdump text", few / spent, few / seconds, few);
        println!("\nfrond digest has {:.0} times its rate", rate / (few / spent));
    }
    let fine = rate >= 500_000.0;
    let verdict = if fine { "PASS" } else { "FAIL" };
    println!(
        "\n{verdict}: {:.2} M packets/s of processor time, wanted >= 0.5 (goal 1)",
        rate / 1e6
    );
    assert!(fine || cfg!(debug_assertions), "only {rate:.0} packets/s");
}

/// The cost of pt-query-digest for the first packets, as the text that it reads: (packets, processor time,
/// seconds).
fn peer(home: &Path, packets: &[Seen]) -> Option<(f64, f64, f64)> {
    const FEW: usize = 20_000;
    if !has("pt-query-digest") || !has("tcpdump") {
        println!("pt-query-digest or tcpdump is not installed: nothing to compare with");
        return None;
    }
    let (path, text) = (home.join("few.pcap"), home.join("few.txt"));
    let form = Pcap::default();
    let mut bytes = Vec::new();
    form.header(&mut bytes);
    let few = &packets[..packets.len().min(FEW)];
    few.iter().for_each(|seen| form.record(&mut bytes, seen.time, &seen.ip));
    std::fs::write(&path, bytes).unwrap();
    let out = std::fs::File::create(&text).unwrap();
    let options = ["-x", "-n", "-q", "-tttt", "-r"];
    let status =
        bounded("tcpdump").args(options).arg(&path).stdout(out).stderr(Stdio::null()).status();
    assert!(status.unwrap().success());
    let (begun, before) = (Instant::now(), processor_time());
    let status = bounded("pt-query-digest")
        .args(["--no-version-check", "--type", "tcpdump"])
        .arg(&text)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let seconds = begun.elapsed().as_secs_f64();
    Some((few.len() as f64, processor_time() - before, seconds))
}

/// Seconds of processor time of this process's children that have ended, to a hundredth.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let behind_name = stat.rsplit(')').next().unwrap();
    let fields: Vec<f64> = behind_name.split(' ').filter_map(|f| f.parse().ok()).collect();
    // The state is no number: user and system time of children are fields 16 and 17.
    (fields[12] + fields[13]) / 100.0
}
