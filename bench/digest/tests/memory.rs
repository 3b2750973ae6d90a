//! The memory of a whole run: 64 MB and 2 kB per class, on one thread and on two.
//!
//! `make bench-digest` asks the same of the program, on logs of a gigabyte.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // A log is no file of a database.

#[path = "../src/generate.rs"]
mod generate;

use std::sync::Arc;

use frond_digest::run::{run, Settings};
use frond_querylog::input::Origin;

/// The peak memory of this process since it was reset through /proc/self/clear_refs.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kb| kb * 1024)
}

/// The other test of this binary uses a log of 8 MB, which stays within the bound.
#[test]
fn a_run_takes_64_megabytes_and_2_kilobytes_per_class() {
    let path = std::env::temp_dir().join(format!("frond-memory-{}.log", std::process::id()));
    // First the most that a class can cost, which a few dozen events of it reach; then a log with most events
    // in few classes. The smaller bound comes first: memory that was given back may still count.
    // Memory per class is above 2 kB in the first log; the 64 MB make up for that up to some 85 000 classes.
    for (extent, classes, found, each) in [
        (generate::Extent::EventsOfEach(40), 5_000, 5_000, 2_500),
        (generate::Extent::Bytes(64 << 20), 40_000, 15_000, 2_000),
    ] {
        generate::write(&path, extent, classes).unwrap();
        bounded(&path, found, each);
    }
    std::fs::remove_file(&path).unwrap();
}

fn bounded(path: &std::path::Path, found: u64, each: u64) {
    for threads in [1, 2] {
        let settings = Arc::new(Settings { threads, ..Settings::default() });
        if std::fs::write("/proc/self/clear_refs", "5").is_err() || peak().is_none() {
            eprintln!("skipped: this system does not tell the most memory a process had");
            break;
        }
        let outcome = run(&[Origin::of(path)], &settings, &mut |_| {}).ok().unwrap();
        let (peak, classes) = (peak().unwrap(), outcome.table.classes.len() as u64);
        println!("{threads} threads: {} kB for {classes} classes", peak / 1024);
        assert!(classes >= found, "{classes}");
        assert!(peak <= 64_000_000 + 2_000 * classes, "{peak} bytes for {classes} classes");
        let table = outcome.table.memory() as u64;
        println!("{} bytes per class", table / classes);
        assert!(table <= each * classes, "{table} bytes for {classes} classes");
    }
}
