//! `frond locks`: options, files and servers for `frond_locks`.
//!
//! Nothing is written to a server.
//!
//! Tested in `tests/cli/locks.rs`.

mod args;
mod follow;
pub mod server;
mod show;

use std::io::Write;
use std::path::Path;

use frond_locks::analysis::Analysis;
use frond_locks::report::Report;
use frond_locks::text::reader::{Reader, Sink};
use frond_querylog::input::{Format, Input, Origin};

use crate::digest::live::stop::{now, Stop};
use crate::out::{Failure, Outcome};
pub use args::LocksArgs;
use show::{options, shown, write};

/// True if nobody waited and there was no deadlock.
pub fn run(args: &LocksArgs, out: &mut dyn Write) -> Outcome<bool> {
    if args.follow && !args.live {
        return follow::files(args, out);
    }
    if args.live {
        return live(args, out);
    }
    let mut analysis = Analysis::default();
    let (mut sources, mut problems) = (Vec::new(), Vec::new());
    for file in &args.files {
        sources.push(file.display().to_string());
        let before = (analysis.dumps, analysis.deadlocks.count);
        let problem = read(file, &mut analysis).err().or_else(|| {
            let nothing = before == (analysis.dumps, analysis.deadlocks.count);
            nothing.then(|| NOTHING.into())
        });
        problems.extend(problem.map(|what: String| format!("{}: {what}", file.display())));
        analysis.end_of_server();
    }
    let mut report = Report::of(&mut analysis, sources, &options(args));
    report.problems = problems;
    if report.dumps > 0 || report.deadlocks > 0 || args.json || args.html {
        write(args, &report, out)?;
    }
    if !report.problems.is_empty() {
        out.flush()?;
        return Err(Failure::Request(report.problems.join("\nfrond: ")));
    }
    Ok(report.is_quiet())
}

const NOTHING: &str = "no monitor output of InnoDB and no deadlock is in it: the server writes them to its error log with \
    innodb_status_output=ON, innodb_status_output_locks=ON and innodb_print_all_deadlocks=ON; or save SHOW ENGINE INNODB STATUS";

/// Reads one file, packed or not, to its end.
fn read(file: &Path, analysis: &mut Analysis) -> Result<(), String> {
    // The format is given, so that opening does not guess one: `Reader` tells the kind of text from
    // the content.
    let mut input = Input::open(&Origin::of(file), Some(Format::Raw)).map_err(|e| e.what)?;
    let mut reader = Reader::default();
    let result = input.pieces(&mut |piece| reader.feed(piece, analysis));
    // What was read before an error counts.
    reader.finish(analysis);
    result.map_err(|e| frond_querylog::input::open::describe(&e))
}

/// Asks a server once, or again and again for `--run-time` or with `--follow`.
fn live(args: &LocksArgs, out: &mut dyn Write) -> Outcome<bool> {
    let mut server = server::Asked::connect(&args.server)?;
    let again = args.follow || args.run_time.is_some();
    let stop = Stop::after(args.run_time);
    let (mut analysis, mut next) = (Analysis::default(), now());
    let mut shown = args.follow.then(|| shown(args, server.name(), out));
    loop {
        let dump = server.dump()?;
        match &mut shown {
            Some(shown) => shown.dump(dump),
            None => analysis.dump(dump),
        }
        next += args.every;
        let failed = shown.as_ref().is_some_and(|shown| shown.result.is_err());
        if !again || failed || stop.sleep_until(next) {
            break;
        }
    }
    if let Some(shown) = shown {
        return shown.result.map(|()| shown.quiet);
    }
    let report = Report::of(&mut analysis, vec![server.name()], &options(args));
    write(args, &report, out)?;
    Ok(report.is_quiet())
}
