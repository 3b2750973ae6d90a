//! The same work by fio, on the same file, in turns: rates within 15 %.
//!
//! `cargo test --release -p frond-device --test fio -- --ignored --nocapture`. It takes two minutes, and a
//! device that nobody else uses. `TMPDIR` chooses the device. Without fio it says so and passes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use frond_device::work::{access, fill, sync, Access, Syncing};
use frond_device::{Files, Stop};

const BYTES: u64 = 1 << 30;
const ROUNDS: usize = 7;
const SECONDS: u64 = 2;
const MOST_OFF: f64 = 0.15;

/// Operations per second that fio reports for `rw`.
fn fio(path: &Path, size: u64, rw: &str, extra: &[&str]) -> f64 {
    let output = Command::new("timeout")
        .args(["60", "fio", "--name=x", "--ioengine=psync", "--thread", "--group_reporting"])
        .args(["--norandommap", "--randrepeat=0", "--random_generator=tausworthe64"])
        .args(["--time_based", "--output-format=json", "--refill_buffers=0"])
        .arg(format!("--filename={}", path.display()))
        .args([format!("--size={size}"), format!("--runtime={SECONDS}"), format!("--rw={rw}")])
        .args(extra)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let job = &json["jobs"][0];
    let side = if rw.contains("read") { "read" } else { "write" };
    job[side]["iops"].as_f64().unwrap()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Both in turns, so that what else the machine does meets both; the result is ours over fio's.
fn compare(name: &str, mut ours: impl FnMut() -> f64, mut theirs: impl FnMut() -> f64) -> f64 {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Who is first changes as well.
        if round % 2 == 0 {
            a.push(ours());
            b.push(theirs());
        } else {
            b.push(theirs());
            a.push(ours());
        }
    }
    let (a, b) = (median(a), median(b));
    println!("{name:32} {a:10.0} /s, fio {b:10.0} /s, ratio {:.3}", a / b);
    a / b
}

#[test]
#[ignore = "needs fio, two minutes and an idle device"]
fn rates_are_those_of_fio() {
    if !Command::new("fio").arg("--version").output().is_ok_and(|o| o.status.success()) {
        println!("fio is not installed: nothing compared");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut files = Files::create(dir.path(), BYTES).unwrap();
    assert!(files.direct, "needs a file system with direct I/O: set TMPDIR");
    let stop = Stop::default();
    let (_, written) = fill(&files, BYTES, Duration::from_secs(60), &stop).unwrap();
    files.filled(written);
    let time = Duration::from_secs(SECONDS);
    let mut off = Vec::new();
    let mut check = |name: String, ratio: f64| {
        if (ratio - 1.0).abs() > MOST_OFF {
            off.push(format!("{name}: {ratio:.3}"));
        }
    };
    for (how, rw, block, depth) in [
        (Access::RandomRead, "randread", 4096u32, 1u32),
        (Access::RandomRead, "randread", 16384, 4),
        (Access::RandomRead, "randread", 65536, 16),
        (Access::RandomRead, "randread", 4096, 64),
        (Access::RandomWrite, "randwrite", 16384, 1),
        (Access::RandomWrite, "randwrite", 16384, 16),
        (Access::SequentialRead, "read", 1 << 20, 1),
        (Access::SequentialWrite, "write", 1 << 20, 1),
    ] {
        let name = format!("{rw} {} KiB, depth {depth}", block >> 10);
        let (bs, jobs) = (format!("--bs={block}"), format!("--numjobs={depth}"));
        let ours = || {
            let m = access(&files, how, block, depth, time, &stop).unwrap();
            m.latency.count() as f64 / m.elapsed.as_secs_f64()
        };
        let theirs = || fio(&files.data_path, written, rw, &["--direct=1", &bs, &jobs]);
        let ratio = compare(&name, ours, theirs);
        check(name, ratio);
    }
    let log = dir.path().join("fio.log");
    for (data_only, call) in [(true, "--fdatasync=1"), (false, "--fsync=1")] {
        let name = format!("{} overwrite", &call[2..call.len() - 2]);
        let ours = || {
            let how = Syncing { data_only, append: false, readers: 0 };
            let m = sync(&files, how, time, &stop).unwrap();
            m.latency.count() as f64 / m.elapsed.as_secs_f64()
        };
        let theirs = || {
            // fio lays its file out before it measures.
            fio(&log, files.log_bytes, "write", &["--bs=4096", call, "--overwrite=1"])
        };
        let ratio = compare(&name, ours, theirs);
        check(name, ratio);
    }
    drop(files);
    assert!(off.is_empty(), "more than {MOST_OFF} off: {off:?}");
}
