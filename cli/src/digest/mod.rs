//! `frond digest`: options to the query log library and back. It needs no database and no engine.
//!
//! The steps; no file below depends on this one:
//!
//! ```text
//! args/  the command line -> plan  what to do -> read, follow, live/  calls of the library
//!        -> write  the report, through `output` if it goes to a file
//! ```

pub(crate) mod args;
mod follow;
pub(crate) mod live;
pub(crate) mod output;
mod plan;
mod process;
mod progress;
mod read;
pub(crate) mod when;
mod write;

use std::io::Write;
use std::sync::Arc;

pub use args::DigestArgs;
use plan::{Plan, Work};

use crate::out::Outcome;

/// Reads the logs and writes the report; true if everything could be read.
pub fn run(args: &DigestArgs, out: &mut dyn Write) -> Outcome<bool> {
    match &args.output {
        None => run_to(args, out),
        Some(path) => {
            let inputs = args.files.iter().chain(args.diff.iter().flatten());
            let mut file = output::Output::begin(path, inputs)?;
            let fine = run_to(args, &mut file)?;
            file.flush()?;
            Ok(fine)
        }
    }
}

fn run_to(args: &DigestArgs, out: &mut dyn Write) -> Outcome<bool> {
    let Plan { work, options } = plan::plan(args)?;
    match work {
        Work::TcpdumpFilter(filter) => Ok(writeln!(out, "{filter}").map(|()| true)?),
        Work::Server(source, settings) => {
            let settings = Arc::new(settings);
            let (mut outcome, fine) = live::read(args, source, &settings)?;
            read::check_group(&outcome, &settings)?;
            write::report(args, &mut outcome, &options, out)?;
            Ok(fine)
        }
        Work::Files(files, settings) => {
            let (mut outcome, fine) = read::logs(args, &files, &Arc::new(settings))?;
            write::report(args, &mut outcome, &options, out)?;
            Ok(fine)
        }
        Work::Compare(sides) => {
            let [before, after] = *sides;
            let (before, first) = read::one_side(args, &before.files, before.settings, &options)?;
            let (after, second) = read::one_side(args, &after.files, after.settings, &options)?;
            write::changes(args, &before, &after, out)?;
            Ok(first && second)
        }
        Work::Follow(how, settings) => {
            follow::reports(args, &how, &Arc::new(settings), &options, out)
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // A log is no file of a database.
mod tests;
