//! `frond replay`: options and connections for `frond_replay`.
//!
//! Tested in `tests/cli/replay.rs`, with InnoDB against Frond in `tests/sql/replay.py`.

mod args;
mod server;

use std::io::Write;
use std::path::Path;

use frond_replay::report::Report;
use frond_replay::run::{self, Settings};

use crate::digest::live::stop::Stop;
use crate::out::{Failure, Outcome, GENERATOR};
pub use args::ReplayArgs;
use server::Pair;

/// True if no statement had different answers.
pub fn run(args: &ReplayArgs, out: &mut dyn Write) -> Outcome<bool> {
    if args.password_file.as_deref() == Some(Path::new("-")) {
        return Err(Failure::Request(
            "--password-file: many sessions need the password: name a file, not standard input"
                .into(),
        ));
    }
    let pair = Pair::of(args)?;
    let threads = args.threads.map_or(if args.speed.is_some() { 64 } else { 1 }, usize::from);
    let settings = Settings {
        writes: args.writes,
        threads,
        connections: usize::from(args.connections),
        speed: args.speed,
        limit: args.limit,
        databases: args.database.clone(),
        shown: args.shown as usize,
    };
    let stop = Stop::after(args.run_time);
    let mut totals = run::run(&args.files, &settings, &pair, &|| stop.is_due());
    let failures: Vec<String> =
        totals.failure.take().into_iter().chain(totals.problems.drain(..)).collect();
    let inputs = args.files.iter().map(|file| file.display().to_string()).collect();
    let mut report = Report::of(totals, inputs, pair.names.clone(), args.writes);
    report.notes.extend(pair.notes);
    if report.read == 0 && failures.is_empty() {
        let files = report.inputs.join(", ");
        return Err(Failure::Request(format!("{files}: no statement was found in it")));
    }
    if report.read > 0 {
        if args.json {
            report.write_json(out)?;
        } else if args.html {
            report.write_html(GENERATOR.into(), out)?;
        } else {
            report.write_text(out)?;
        }
    }
    if !failures.is_empty() {
        out.flush()?;
        return Err(Failure::Request(failures.join("\nfrond: ")));
    }
    Ok(report.different == 0)
}
