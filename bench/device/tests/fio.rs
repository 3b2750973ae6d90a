//! The same work by fio, on the same file, in turns: rates within 15 %.
//!
//! `cargo test --release -p frond-device --test fio -- --ignored --nocapture`. It takes six minutes or more, and a
//! device that nobody else uses. `TMPDIR` chooses the device. Without fio it says so and passes.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use frond_device::work::{access, fill, sync, Access, Measured, Syncing};
use frond_device::{Files, Stop};

const BYTES: u64 = 1 << 30;
/// Many short rounds: on a busy machine a sync takes three times as long from one second to the next.
const ROUNDS: usize = 21;
const MILLIS: u64 = 400;
const MOST_OFF: f64 = 0.15;

/// Operations per second that fio reports for `rw`.
fn fio(path: &Path, size: u64, rw: &str, extra: &[&str]) -> f64 {
    let output = Command::new("timeout")
        .args(["60", "fio", "--name=x", "--ioengine=psync", "--thread", "--group_reporting"])
        .args(["--norandommap", "--randrepeat=0", "--random_generator=tausworthe64"])
        .args(["--time_based", "--output-format=json", "--refill_buffers=0"])
        .arg(format!("--filename={}", path.display()))
        .args([format!("--size={size}"), format!("--runtime={MILLIS}ms"), format!("--rw={rw}")])
        .args(extra)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let job = &json["jobs"][0];
    let side = if rw.contains("read") { "read" } else { "write" };
    job[side]["iops"].as_f64().unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures both in turns, so that other load on the machine affects both. Returns the median of the rounds'
/// ratios, ours over fio's: a ratio of two rates from one round is not affected by slow drifts.
fn compare(name: &str, mut ours: impl FnMut() -> f64, mut theirs: impl FnMut() -> f64) -> f64 {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // The order of the two alternates as well.
        if round % 2 == 0 {
            a.push(ours());
            b.push(theirs());
        } else {
            b.push(theirs());
            a.push(ours());
        }
    }
    let ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a / b).collect();
    let all: Vec<String> = ratios.iter().map(|r| format!("{r:.2}")).collect();
    let ratio = median(ratios);
    println!(
        "{name:30} {:8.0} /s, fio {:8.0} /s, ratio {ratio:.3} of {}",
        median(a),
        median(b),
        all.join(" ")
    );
    ratio
}

/// One measurement at a time.
static DEVICE: Mutex<()> = Mutex::new(());

/// Runs `body` with files that are filled; it gives names and ratios.
fn on_a_device(body: impl Fn(&Files) -> Vec<(String, f64)>) {
    if !Command::new("fio").arg("--version").output().is_ok_and(|o| o.status.success()) {
        println!("fio is not installed: nothing compared");
        return;
    }
    let _alone = DEVICE.lock().unwrap_or_else(|e| e.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let mut files = Files::create(dir.path(), BYTES).unwrap();
    assert!(files.direct, "needs a file system with direct I/O: set TMPDIR");
    let (_, written) = fill(&files, BYTES, Duration::ZERO, &Stop::default()).unwrap();
    files.filled(written);
    let ratios = body(&files);
    drop(files);
    let off: Vec<_> = ratios.iter().filter(|(_, ratio)| (ratio - 1.0).abs() > MOST_OFF).collect();
    assert!(off.is_empty(), "more than {MOST_OFF} off: {off:?}");
}

fn rate(m: &Measured) -> f64 {
    m.latency.count() as f64 / m.elapsed.as_secs_f64()
}

fn compare_access(cells: &[(Access, &str, u32, u32)]) {
    on_a_device(|files| {
        let cell = |&(how, rw, block, depth): &(Access, &str, u32, u32)| {
            let name = format!("{rw} {} KiB, depth {depth}", block >> 10);
            let (bs, jobs) = (format!("--bs={block}"), format!("--numjobs={depth}"));
            let time = Duration::from_millis(MILLIS);
            let ours = || rate(&access(files, how, block, depth, time, &Stop::default()).unwrap());
            let extra = ["--direct=1", &bs, &jobs];
            let theirs = || fio(&files.data_path, files.data_bytes, rw, &extra);
            let ratio = compare(&name, ours, theirs);
            (name, ratio)
        };
        cells.iter().map(cell).collect()
    });
}

#[test]
#[ignore = "needs fio, two minutes and an idle device"]
fn random_reads_are_as_many_as_fio_has() {
    compare_access(&[
        (Access::RandomRead, "randread", 4096, 1),
        (Access::RandomRead, "randread", 16384, 4),
        (Access::RandomRead, "randread", 65536, 16),
        (Access::RandomRead, "randread", 4096, 64),
    ]);
}

#[test]
#[ignore = "needs fio, a minute and an idle device"]
fn random_writes_are_as_many_as_fio_has() {
    compare_access(&[
        (Access::RandomWrite, "randwrite", 16384, 1),
        (Access::RandomWrite, "randwrite", 16384, 16),
    ]);
}

#[test]
#[ignore = "needs fio, a minute and an idle device"]
fn bandwidth_in_order_is_that_of_fio() {
    compare_access(&[
        (Access::SequentialRead, "read", 1 << 20, 1),
        (Access::SequentialWrite, "write", 1 << 20, 1),
    ]);
}

#[test]
#[ignore = "needs fio, a minute and an idle device"]
fn syncs_are_as_many_as_fio_has() {
    on_a_device(|files| {
        let cell = |(data_only, call): (bool, &str)| {
            let name = format!("{call} overwrite");
            let time = Duration::from_millis(MILLIS);
            let how = Syncing { data_only, append: false, readers: 0 };
            let ours = || rate(&sync(files, how, time, &Stop::default()).unwrap());
            // The same file: another file's place on the device may be faster or slower.
            let option = format!("--{call}=1");
            let extra = ["--bs=4096", option.as_str(), "--overwrite=1"];
            let theirs = || fio(&files.log_path, files.log_bytes, "write", &extra);
            let ratio = compare(&name, ours, theirs);
            (name, ratio)
        };
        [(true, "fdatasync"), (false, "fsync")].into_iter().map(cell).collect()
    });
}
