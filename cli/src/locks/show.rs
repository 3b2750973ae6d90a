//! Shows a report: at the end, or for each dump as it arrives.

use std::io::Write;

use frond_locks::analysis::{Analysis, Deadlocks};
use frond_locks::model::{Deadlock, Dump};
use frond_locks::report::{csv, Options, Report};
use frond_locks::text::reader::Sink;

use super::args::LocksArgs;
use crate::out::{colour, Failure, Outcome, GENERATOR};

pub fn options(args: &LocksArgs) -> Options {
    Options { limit: args.limit as usize, keys: !args.no_keys }
}

pub fn write(args: &LocksArgs, report: &Report, out: &mut dyn Write) -> Outcome<()> {
    if args.json {
        report.write_json(out)?;
    } else if args.html {
        report.write_html(GENERATOR.into(), out)?;
    } else if let Some(list) = &args.csv {
        let text = csv(report, list, &args.fields).map_err(Failure::Request)?;
        out.write_all(text.as_bytes())?;
    } else {
        report.write_text(colour(), out)?;
    }
    Ok(())
}

/// Shows, as they arrive, each dump in which somebody waits, and each new deadlock.
pub struct Shown<'a> {
    args: &'a LocksArgs,
    out: &'a mut dyn Write,
    known: Deadlocks,
    name: String,
    pub quiet: bool,
    pub result: Outcome<()>,
}

impl Shown<'_> {
    fn show(&mut self, mut analysis: Analysis) {
        let report = Report::of(&mut analysis, vec![self.name.clone()], &options(self.args));
        if report.is_quiet() || self.result.is_err() {
            return;
        }
        self.quiet = false;
        self.result = write(self.args, &report, self.out)
            .and_then(|()| if self.args.json { Ok(()) } else { Ok(writeln!(self.out)?) })
            .and_then(|()| Ok(self.out.flush()?));
    }
}

impl Sink for Shown<'_> {
    fn dump(&mut self, dump: Dump) {
        let mut analysis = Analysis::default();
        analysis.dump(dump);
        self.show(analysis);
    }

    fn deadlock(&mut self, deadlock: Deadlock) {
        if self.known.add(&deadlock) {
            let mut analysis = Analysis::default();
            analysis.deadlock(deadlock);
            self.show(analysis);
        }
    }
}

pub fn shown<'a>(args: &'a LocksArgs, name: String, out: &'a mut dyn Write) -> Shown<'a> {
    Shown { args, out, known: Default::default(), name, quiet: true, result: Ok(()) }
}
