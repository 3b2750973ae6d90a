//! Digests logs as `frond digest --ndjson` does, for profilers, and prints time and memory on
//! standard error.
//!
//!     cargo run --release -p frond-digest --example digest -- THREADS FILE... > report.ndjson
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use frond_digest::report;
use frond_digest::run::{run, Settings};
use frond_querylog::input::Origin;

/// A line of this process's status, in kB.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Seconds of processor time of all threads.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    [12, 13].iter().filter_map(|i| fields.get(*i)?.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn main() {
    let mut args = std::env::args().skip(1);
    let threads = args.next().and_then(|n| n.parse().ok()).expect("a number of threads");
    let origins: Vec<_> = args.map(|path| Origin::of(path.as_ref())).collect();
    let settings = Arc::new(Settings { threads, ..Settings::default() });
    let start = Instant::now();
    let mut outcome =
        run(&origins, &settings, &mut |_| {}).unwrap_or_else(|_| panic!("an input cannot be read"));
    let (seconds, spent) = (start.elapsed().as_secs_f64(), cpu());
    let bytes: u64 = outcome.files.iter().map(|file| file.bytes).sum();
    let classes = outcome.table.classes.len().max(1);
    eprintln!(
        "{:.3} s, {:.2} s of processor time, {:.0} MB/s; {} events, {} classes of {} bytes; peak {} kB, now {} kB",
        seconds,
        spent,
        bytes as f64 / 1e6 / seconds,
        outcome.events,
        classes,
        outcome.table.memory() / classes,
        status("VmHWM:"),
        status("VmRSS:")
    );
    let options =
        report::Options { limit: "100%".parse().unwrap(), sample_bytes: 0, ..Default::default() };
    let report = report::build(&mut outcome, &options);
    report::json::write_lines(&report, &mut std::io::stdout().lock()).unwrap();
    eprintln!("with the report: {:.2} s of processor time, peak {} kB", cpu(), status("VmHWM:"));
}
