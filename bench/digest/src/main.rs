//! `make bench-digest`: frond digest beside pt-query-digest on one slow log, in one run.
//!
//! Generates the log (`generate`), digests it with frond on one thread and on several and with pt-query-digest, and
//! prints rates, ratios, peak memory and whether both found the same. The gates it checks, and its exit status:
//!
//! 1. one thread: at least `--gate-ratio` times the rate of pt-query-digest, bytes of log per second of processor time
//!    taken by the whole command (so that other work on the machine does not count for either side);
//! 2. two threads: at least `--gate-threads` times the rate of one, by the clock (left out on one processor);
//! 3. peak memory: at most 64 MB and 2 kB per class, with one thread and with several;
//! 4. classes, calls and times equal those of pt-query-digest, class by class, as far as both read the same bytes.
//!
//! pt-query-digest reads the same file unless `--peer-size` says how much of it it is given; then the table says so,
//! and frond digests that part, too, for the comparison of numbers. It is stopped after `--limit` seconds: then all that
//! is known is that it is slower than that.
//!
//! How much a second thread can help depends on the machine, too: as a measure of that, two runs of one thread each are
//! made at the same time.

// Files and clocks are a driver's work; the engine's determinism is not at stake.
#![allow(clippy::disallowed_methods)]

mod compare;
mod generate;
mod measure;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use measure::{measure, measure_pair, Run};

/// Measures frond digest beside pt-query-digest on one generated slow log.
#[derive(Parser)]
struct Args {
    /// The frond program
    #[arg(long)]
    frond: PathBuf,
    /// Megabytes of the log
    #[arg(long, default_value_t = 1024)]
    size: u64,
    /// Query classes in the log
    #[arg(long, default_value_t = 5000)]
    classes: u64,
    /// Megabytes that pt-query-digest reads; the whole log if it is not given, nothing if 0
    #[arg(long)]
    peer_size: Option<u64>,
    /// Seconds after which a command is stopped
    #[arg(long, default_value_t = 1800)]
    limit: u32,
    /// How often frond is measured; the best counts
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Times the rate of pt-query-digest that one thread must reach
    #[arg(long, default_value_t = 50.0)]
    gate_ratio: f64,
    /// Times the rate of one thread that two must reach
    #[arg(long, default_value_t = 1.8)]
    gate_threads: f64,
    /// Where the log and the reports are put; the log is kept for the next run
    #[arg(long)]
    out: PathBuf,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("error: {what}");
            ExitCode::from(2)
        }
    }
}

/// One line of the table.
struct Row {
    name: String,
    bytes: u64,
    run: Run,
}

impl Row {
    /// Bytes per second by the clock.
    fn rate(&self) -> f64 {
        self.bytes as f64 / self.run.seconds
    }

    /// Bytes per second of processor time.
    fn cpu_rate(&self) -> f64 {
        self.bytes as f64 / self.run.cpu
    }
}

/// True if every gate is passed.
fn run(args: &Args) -> Result<bool, String> {
    let text = |e: std::io::Error| e.to_string();
    std::fs::create_dir_all(&args.out).map_err(text)?;
    let log = args.out.join(format!("slow-{}MB-{}.log", args.size, args.classes));
    if !log.exists() {
        eprintln!("== writing {}", log.display());
        // Under its name only once it is whole.
        let partly = args.out.join("slow.log.partly");
        generate::write(&partly, args.size << 20, args.classes).map_err(text)?;
        std::fs::rename(&partly, &log).map_err(text)?;
    }
    let size = std::fs::metadata(&log).map_err(text)?.len();
    // Read once, so that the first to be measured does not pay for the disk.
    let mut warm = std::fs::File::open(&log).map_err(text)?;
    std::io::copy(&mut warm, &mut std::io::sink()).map_err(text)?;

    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut rows = Vec::new();
    let mut pair = None;
    for threads in if processors > 1 { vec![1, 2] } else { vec![1] } {
        eprintln!("== frond digest, {threads} threads");
        let (threads, path) = (threads.to_string(), args.out.join("frond.txt"));
        let command = [args.frond.as_os_str(), "digest".as_ref(), "--threads".as_ref()];
        let command = [&command[..], &[threads.as_ref(), log.as_os_str()]].concat();
        let mut best: Option<Run> = None;
        for _ in 0..args.rounds.max(1) {
            let run = measure(&command, &path, args.limit)?;
            best = Some(match best {
                None => run,
                Some(best) => best.better(&run),
            });
        }
        let Some(run) = best else { continue };
        if threads == "1" && processors > 1 {
            pair = Some(2.0 * run.seconds / measure_pair(&command, &path, args.limit)?);
        }
        rows.push(Row { name: format!("frond digest, {threads} thread(s)"), bytes: size, run });
    }
    let peer_size = args.peer_size.map_or(size, |mb| (mb << 20).min(size));
    let mut equal = None;
    if peer_size > 0 {
        let peer_log = if peer_size == size { log.clone() } else { prefix(args, &log, peer_size)? };
        let peer_size = std::fs::metadata(&peer_log).map_err(text)?.len();
        eprintln!(
            "== pt-query-digest, {} MB: about {} s (it tells every 30 s)",
            peer_size >> 20,
            peer_size / 5_000_000
        );
        let theirs = args.out.join("pt-query-digest.json");
        let options =
            ["--no-version-check", "--output", "json", "--limit", "100%", "--progress", "time,30"];
        let mut command = vec!["pt-query-digest".as_ref()];
        command.extend(options.iter().map(|o| std::ffi::OsStr::new(*o)));
        command.push(peer_log.as_os_str());
        let run = measure(&command, &theirs, args.limit)?;
        rows.push(Row { name: "pt-query-digest".into(), bytes: peer_size, run });
        if !run.ended {
            eprintln!("== pt-query-digest was stopped after {} s", args.limit);
            return report(args, size, &rows, pair, None).map_err(text);
        }
        eprintln!("== frond digest, the same classes as JSON");
        let ours = args.out.join("frond.json");
        let mut command = vec![args.frond.as_os_str(), "digest".as_ref(), "--json".as_ref()];
        let options = ["--dialect", "ptqd-3.2", "--limit", "100%"];
        command.extend(options.iter().map(|o| std::ffi::OsStr::new(*o)));
        command.push(peer_log.as_os_str());
        measure(&command, &ours, args.limit)?;
        equal = Some(compare::compare(&ours, &theirs)?);
    }
    report(args, size, &rows, pair, equal).map_err(text)
}

/// The first whole events of the log.
fn prefix(args: &Args, log: &Path, size: u64) -> Result<PathBuf, String> {
    let text = |e: std::io::Error| e.to_string();
    let mut bytes = Vec::new();
    std::fs::File::open(log).and_then(|f| f.take(size).read_to_end(&mut bytes)).map_err(text)?;
    let end = frond_querylog::slowlog::split::last_boundary(&bytes).unwrap_or(bytes.len());
    let path = args.out.join("slow-prefix.log");
    std::fs::write(&path, &bytes[..end]).map_err(text)?;
    Ok(path)
}

/// Prints the table and the gates; true if all are passed.
fn report(
    args: &Args,
    size: u64,
    rows: &[Row],
    pair: Option<f64>,
    equal: Option<compare::Answer>,
) -> std::io::Result<bool> {
    let out = &mut std::io::stdout().lock();
    let peer = rows.iter().find(|r| r.name == "pt-query-digest");
    writeln!(out, "Slow log of {:.0} MB, {} classes\n", size as f64 / 1e6, args.classes)?;
    writeln!(
        out,
        "{:<26}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "", "MB", "s", "CPU s", "MB/s", "ratio", "peak MB"
    )?;
    for row in rows {
        let ratio = peer.map_or(f64::NAN, |p| row.rate() / p.rate());
        writeln!(
            out,
            "{:<26}{:>9.0}{:>9.2}{:>9.2}{:>9.1}{:>9.1}{:>9.1}",
            row.name,
            row.bytes as f64 / 1e6,
            row.run.seconds,
            row.run.cpu,
            row.rate() / 1e6,
            ratio,
            row.run.peak as f64 / 1e6
        )?;
    }
    if let Some(pair) = pair {
        writeln!(
            out,
            "\nTwo runs of one thread at the same time: {pair:.2} times the rate of one"
        )?;
    }
    writeln!(out)?;
    let mut fine = true;
    let mut gate = |passed: bool, what: String| -> std::io::Result<()> {
        fine &= passed;
        writeln!(out, "{} {what}", if passed { "pass" } else { "FAIL" })
    };
    let memory = 64_000_000 + 2000 * args.classes;
    for row in rows.iter().filter(|r| r.name != "pt-query-digest") {
        let peak = row.run.peak;
        gate(
            peak <= memory,
            format!(
                "{}: peak memory {:.1} of {:.1} MB",
                row.name,
                peak as f64 / 1e6,
                memory as f64 / 1e6
            ),
        )?;
    }
    if let [one, two, ..] = rows {
        if two.name != "pt-query-digest" {
            let ratio = two.rate() / one.rate();
            gate(
                ratio >= args.gate_threads,
                format!("two threads: {ratio:.2} times one, wanted {}", args.gate_threads),
            )?;
        }
    }
    if let Some(peer) = peer {
        let ratio = rows[0].cpu_rate() / peer.cpu_rate();
        let more = if peer.run.ended { "" } else { "more than " };
        let what = format!(
            "one thread: {more}{ratio:.0} times pt-query-digest per second of processor time, wanted {}",
            args.gate_ratio
        );
        let part = match peer.bytes < size {
            true => format!(" (which read the first {} MB only)", peer.bytes >> 20),
            false => String::new(),
        };
        gate(ratio >= args.gate_ratio, what + &part)?;
    }
    if let Some(answer) = equal {
        gate(answer.differences.is_empty() && answer.classes > 0, answer.to_string())?;
    }
    Ok(fine)
}
