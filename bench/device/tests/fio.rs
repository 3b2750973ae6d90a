//! The same work by fio, on the same file, in turns: rates within 15 %.
//!
//! `cargo test --release -p frond-device --test fio -- --ignored --nocapture`. It takes two minutes on an idle machine, and up
//! to twenty beside other load. `TMPDIR` chooses the device. Without fio it says so and passes.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use frond_device::work::{access, fill, sync, Access, Measured, Syncing};
use frond_device::{Files, Stop};

const BYTES: u64 = 1 << 30;
/// One run. Many short ones: on a busy machine a sync takes three times as long from one second to the next.
const MILLIS: u64 = 200;
const MOST_OFF: f64 = 0.15;
/// After so many rounds it is looked whether they suffice. Few looks, each with an error below 1 %.
const LOOKS: [usize; 7] = [9, 15, 21, 31, 45, 63, 91];

/// Operations per second that fio reports for `rw`; of syncs, by their median.
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
    match job["sync"]["lat_ns"]["percentile"]["50.000000"].as_f64() {
        Some(nanos) if nanos > 0.0 => 1e9 / nanos,
        _ => job[side]["iops"].as_f64().unwrap(),
    }
}

/// The median, and a range that has the true one in 99 % of all cases, whatever the values' distribution: each of
/// them is below it as often as above.
fn median(values: &[f64]) -> [f64; 3] {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    // The chance that at most `k` of `n` are below the true median.
    let (mut chance, mut sum, mut k) = (0.5_f64.powi(n as i32), 0.0, 0);
    while sum + chance <= 0.005 {
        sum += chance;
        chance *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let least = k.saturating_sub(1);
    [values[least], values[n / 2], values[n - 1 - least]]
}

/// Measures both in turns, so that other load on the machine affects both: each round is ours, fio, fio, ours, or the other way
/// round, and gives one ratio, which no drift affects. There are as many rounds as it takes to know that the typical ratio is
/// within `MOST_OFF`, or that it is not: few on an idle machine, many beside other load. What `LOOKS` do not decide is an error.
fn compare(name: &str, mut ours: impl FnMut() -> f64, mut theirs: impl FnMut() -> f64) -> bool {
    let mut ratios: Vec<f64> = Vec::new();
    let (mut rates, mut fine) = ([0.0; 2], None);
    for look in LOOKS {
        while ratios.len() < look {
            let first = ratios.len().is_multiple_of(2);
            let [a, b, c, d] = [first, !first, !first, first].map(|own| match own {
                true => ours(),
                false => theirs(),
            });
            let (own, other) = if first { (a * d, b * c) } else { (b * c, a * d) };
            rates = [own.sqrt(), other.sqrt()];
            ratios.push((own / other).sqrt());
        }
        let [least, _, most] = median(&ratios);
        let (bottom, top) = (1.0 - MOST_OFF, 1.0 + MOST_OFF);
        if bottom <= least && most <= top {
            fine = Some(true);
        } else if most < bottom || top < least {
            fine = Some(false);
        }
        if fine.is_some() {
            break;
        }
    }
    let [least, ratio, most] = median(&ratios);
    let [own, other] = rates;
    let word = match fine {
        Some(true) => "within",
        Some(false) => "OFF",
        None => "UNDECIDED",
    };
    let rounds = ratios.len();
    println!(
        "{name:30} {own:8.0} /s, fio {other:8.0} /s, ratio {ratio:.3} ({least:.3} to {most:.3}), {rounds} rounds: {word}"
    );
    fine == Some(true)
}

/// One measurement at a time.
static DEVICE: Mutex<()> = Mutex::new(());

/// Runs `body` with files that are filled; it gives what was compared, and whether it is close.
fn on_a_device(body: impl Fn(&Files) -> Vec<(String, bool)>) {
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
    let found = body(&files);
    drop(files);
    let off: Vec<_> = found.iter().filter(|(_, fine)| !fine).map(|(name, _)| name).collect();
    assert!(
        off.is_empty(),
        "more than {MOST_OFF} off, or the device varies too much to tell: {off:?}"
    );
}

fn rate(m: &Measured) -> f64 {
    m.latency.count() as f64 / m.elapsed.as_secs_f64()
}

/// The rate by the median latency: beside others that sync, a few long ones are most of a run's time.
fn typical(m: &Measured) -> f64 {
    m.latency.percentile(0.5).map_or_else(|| rate(m), |nanos| 1e9 / nanos as f64)
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
            let fine = compare(&name, ours, theirs);
            (name, fine)
        };
        cells.iter().map(cell).collect()
    });
}

#[test]
#[ignore = "needs fio and a minute or more"]
fn random_reads_are_as_many_as_fio_has() {
    compare_access(&[
        (Access::RandomRead, "randread", 4096, 1),
        (Access::RandomRead, "randread", 16384, 4),
        (Access::RandomRead, "randread", 65536, 16),
        (Access::RandomRead, "randread", 4096, 64),
    ]);
}

#[test]
#[ignore = "needs fio and half a minute or more"]
fn random_writes_are_as_many_as_fio_has() {
    compare_access(&[
        (Access::RandomWrite, "randwrite", 16384, 1),
        (Access::RandomWrite, "randwrite", 16384, 16),
    ]);
}

#[test]
#[ignore = "needs fio and half a minute or more"]
fn bandwidth_in_order_is_that_of_fio() {
    compare_access(&[
        (Access::SequentialRead, "read", 1 << 20, 1),
        (Access::SequentialWrite, "write", 1 << 20, 1),
    ]);
}

#[test]
#[ignore = "needs fio and half a minute or more"]
fn syncs_are_as_many_as_fio_has() {
    on_a_device(|files| {
        let cell = |(data_only, call): (bool, &str)| {
            let name = format!("{call} overwrite");
            let time = Duration::from_millis(MILLIS);
            let how = Syncing { data_only, append: false, readers: 0 };
            let ours = || typical(&sync(files, how, time, &Stop::default()).unwrap());
            // The same file: another file's place on the device may be faster or slower.
            let option = format!("--{call}=1");
            let extra = ["--bs=4096", option.as_str(), "--overwrite=1"];
            let theirs = || fio(&files.log_path, files.log_bytes, "write", &extra);
            let fine = compare(&name, ours, theirs);
            (name, fine)
        };
        [(true, "fdatasync"), (false, "fsync")].into_iter().map(cell).collect()
    });
}
