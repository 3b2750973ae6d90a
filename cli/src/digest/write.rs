//! The report in the form that was asked for.

use std::io::{self, IsTerminal, Write};

use frond_digest::report::{self, Report};
use frond_digest::run;
use frond_querylog::input::Format;

use super::args::{Compat, DigestArgs};
use super::process;
use crate::out::{Failure, Outcome};

/// Writes the report of what was read.
pub fn report(
    args: &DigestArgs,
    outcome: &mut run::Outcome,
    options: &report::Options,
    out: &mut dyn Write,
) -> Outcome<()> {
    if args.compat == Some(Compat::Ptqd32) {
        let without_times =
            |f: &run::FileInfo| matches!(f.format, Some(Format::GeneralLog | Format::Raw));
        let by_count = !options.order_given && outcome.files.iter().all(without_times);
        let order = if by_count { "count".parse().unwrap_or_default() } else { options.order };
        let options = report::ptqd::Options {
            order,
            limit: options.limit,
            outliers: options.outliers,
            redact: options.redact,
            head: Some(process::head(&args.files, args.reproducible)),
        };
        if !(args.output.is_none() && io::stdout().is_terminal()) {
            return Ok(report::ptqd::write(outcome, &options, out)?);
        }
        // That tool prints statements as they are; into a terminal they could be commands.
        let mut page = Vec::new();
        report::ptqd::write(outcome, &options, &mut page)?;
        return Ok(out.write_all(report::text::plain(&String::from_utf8_lossy(&page)).as_bytes())?);
    }
    let report = report::build(outcome, options);
    if args.json {
        report::json::write(&report, true, out)?;
    } else if args.ndjson {
        report::json::write_lines(&report, out)?;
    } else if args.csv {
        report::csv::write(&report, out)?;
    } else if args.html {
        report::html::write(&report, None, out)?;
    } else {
        report::text::write(&report, width(), out)?;
    }
    Ok(())
}

/// Writes what changed between two reports.
pub fn changes(
    args: &DigestArgs,
    before: &Report,
    after: &Report,
    out: &mut dyn Write,
) -> Outcome<()> {
    let diff = report::diff::compare(before, after).map_err(Failure::Request)?;
    if args.html {
        report::html::write(after, Some(&diff), out)?;
    } else if args.json {
        serde_json::to_writer_pretty(&mut *out, &diff).map_err(io::Error::from)?;
        writeln!(out)?;
    } else if args.csv || args.ndjson {
        return Err(Failure::Request("a comparison is written as text, --json or --html".into()));
    } else {
        report::diff::write_text(&diff, out)?;
    }
    Ok(())
}

/// Columns of the terminal; a file or a pipe has as many as the narrowest terminal.
fn width() -> usize {
    let terminal = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    terminal.map_or(report::text::WIDTH, |(width, _)| usize::from(width.0))
}
