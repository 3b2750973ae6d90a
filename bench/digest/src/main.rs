//! `make bench-digest`: compares frond digest with pt-query-digest on one slow log, in one run.
//!
//! Generates the logs (`generate`), digests them with frond on one thread and on two and one of them with
//! pt-query-digest, and prints rates, ratios, peak memory and whether both found the same (`report`). The targets it
//! checks, and its exit status:
//!
//! 1. one thread: at least `--min-ratio` times the rate of pt-query-digest, bytes of log per second of processor time
//!    taken by the whole command (so that other work on the machine does not count for either side);
//! 2. two threads: at least `--min-threads` times the rate of one, by the clock; and no more than `--max-work`
//!    times the processor time of one (both left out on one processor). The processor itself limits two
//!    threads, too: so two runs of one thread at the same time are reported beside them;
//! 3. peak memory: at most 64 MB and 2 kB per class, with one thread and with two, on a log in which a few classes
//!    have most of the statements and on one of very many equally frequent classes;
//! 4. classes, calls and times equal those of pt-query-digest, class by class, for the bytes that both read.
//!
//! pt-query-digest reads the same log or only its first part (`--peer-size`), since its rate does not
//! depend on the size; the report says so.

#![allow(clippy::disallowed_methods)] // A log is no file of a database.

mod args;
mod compare;
mod generate;
mod measure;
mod report;

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use args::Args;
use generate::Extent;
use measure::{measure, measure_pair, Run};
use report::{Measured, Row};

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

fn text(e: std::io::Error) -> String {
    e.to_string()
}

/// True if every target is met.
fn run(args: &Args) -> Result<bool, String> {
    std::fs::create_dir_all(&args.out).map_err(text)?;
    let name = format!("slow-{}MB-{}.log", args.size, args.classes);
    let log = made(args, &name, Extent::Bytes(args.size << 20), args.classes)?;
    let size = std::fs::metadata(&log).map_err(text)?.len();
    let mut measured = Measured { size, classes: args.classes, ..Measured::default() };
    frond(args, "frond digest", &log, &mut measured)?;
    peer(args, &log, &mut measured)?;
    if args.many > 0 {
        // Made in this size even with a small SIZE: this is about memory, which needs so many classes and statements.
        let name = format!("slow-{}x{}.log", args.many, args.many_events);
        let log = made(args, &name, Extent::EventsOfEach(args.many_events), args.many)?;
        let rounds = Args { rounds: 1, ..args_of(args) };
        frond(&rounds, "many classes", &log, &mut measured)?;
    }
    report::write(args, &measured, &mut std::io::stdout().lock()).map_err(text)
}

/// The command-line arguments of the digest to measure.
fn args_of(args: &Args) -> Args {
    Args { frond: args.frond.clone(), out: args.out.clone(), ..*args }
}

/// The path of a log, which is made if it is not there yet.
fn made(args: &Args, name: &str, extent: Extent, classes: u64) -> Result<PathBuf, String> {
    let log = args.out.join(name);
    if !log.exists() {
        eprintln!("== writing {}", log.display());
        // It gets its name only once it is whole.
        let partly = args.out.join("slow.log.partly");
        generate::write(&partly, extent, classes).map_err(text)?;
        std::fs::rename(&partly, &log).map_err(text)?;
    }
    // Read once, so that the first command measured does not pay for the disk.
    let mut warm = std::fs::File::open(&log).map_err(text)?;
    std::io::copy(&mut warm, &mut std::io::sink()).map_err(text)?;
    Ok(log)
}

/// Measures frond on one thread and on two, in turns, so that both meet the machine's good and bad moments.
fn frond(args: &Args, what: &str, log: &Path, measured: &mut Measured) -> Result<(), String> {
    let size = std::fs::metadata(log).map_err(text)?.len();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads: &[&'static str] = if processors > 1 { &["1", "2"] } else { &["1"] };
    let output = args.out.join("frond.txt");
    let options = ["--quiet", "--threads"].map(OsStr::new);
    let command = |threads: &'static str| -> Vec<&OsStr> {
        let digest = [args.frond.as_os_str(), OsStr::new("digest")];
        [&digest[..], &options, &[OsStr::new(threads), log.as_os_str()]].concat()
    };
    let mut best: Vec<Option<Run>> = vec![None; threads.len()];
    let mut classes = 0;
    for round in 1..=args.rounds.max(1) {
        eprintln!("== {what}, round {round} of {}", args.rounds.max(1));
        for (threads, best) in threads.iter().zip(&mut best) {
            let run = measure(&command(threads), &output, args.limit)?;
            *best = Some(best.map_or(run, |best| best.better(&run)));
            classes = report::classes(&std::fs::read(&output).map_err(text)?)
                .ok_or_else(|| format!("{}: no `# Overall:` with classes", output.display()))?;
        }
        if processors > 1 && measured.rows.is_empty() {
            let pair = measure_pair(&command("1"), &output, args.limit)?;
            measured.pair = Some(measured.pair.map_or(pair, |best| best.better(&pair)));
        }
    }
    for (threads, run) in threads.iter().zip(best.into_iter().flatten()) {
        let name = format!("{what}, {threads} thread{}", if *threads == "1" { "" } else { "s" });
        measured.rows.push(Row { name, bytes: size, classes: Some(classes), run });
    }
    Ok(())
}

/// Measures pt-query-digest, and compares both results for the same bytes.
fn peer(args: &Args, log: &Path, measured: &mut Measured) -> Result<(), String> {
    let size = args.peer_size.map_or(measured.size, |mb| (mb << 20).min(measured.size));
    if size == 0 {
        return Ok(());
    }
    let log = if size == measured.size { log.to_owned() } else { prefix(args, log, size)? };
    let bytes = std::fs::metadata(&log).map_err(text)?.len();
    eprintln!(
        "== pt-query-digest, {} MB: about {} s (it tells every 30 s)",
        bytes >> 20,
        bytes / 5_000_000
    );
    let theirs = args.out.join("pt-query-digest.json");
    let options =
        ["--no-version-check", "--output", "json", "--limit", "100%", "--progress", "time,30"];
    let mut command = vec![OsStr::new("pt-query-digest")];
    command.extend(options.iter().map(OsStr::new));
    command.push(log.as_os_str());
    let run = measure(&command, &theirs, args.limit)?;
    measured.peer = Some(Row { name: "pt-query-digest".into(), bytes, classes: None, run });
    if !run.ended {
        eprintln!("== pt-query-digest was stopped after {} s", args.limit);
        return Ok(());
    }
    eprintln!("== frond digest, the same classes as JSON");
    let ours = args.out.join("frond.json");
    let options = ["--json", "--quiet", "--dialect", "ptqd-3.2", "--limit", "100%"];
    let mut command = vec![args.frond.as_os_str(), OsStr::new("digest")];
    command.extend(options.iter().map(OsStr::new));
    command.push(log.as_os_str());
    measure(&command, &ours, args.limit)?;
    measured.equal = Some(compare::compare(&ours, &theirs)?);
    Ok(())
}

/// Whole events from the beginning of the log, up to `size` bytes.
fn prefix(args: &Args, log: &Path, size: u64) -> Result<PathBuf, String> {
    let mut bytes = Vec::new();
    std::fs::File::open(log).and_then(|f| f.take(size).read_to_end(&mut bytes)).map_err(text)?;
    let end = frond_querylog::slowlog::split::last_boundary(&bytes).unwrap_or(bytes.len());
    let path = args.out.join("slow-prefix.log");
    std::fs::write(&path, &bytes[..end]).map_err(text)?;
    Ok(path)
}
