//! `--unused`: the evidence of this server, of others, and of logs.

use std::io::Write;
use std::path::Path;

use frond_event::{Event, Sink, Skip};
use frond_indexes::model::Table;
use frond_indexes::report::Report;
use frond_indexes::usage::{duration, Saved, Usage};
use frond_sqltext::SqlMode;

use super::{counters, server, IndexesArgs};
use crate::digest::live::connect::Server;
use crate::digest::output::Output;
use crate::out::{Failure, Outcome};

/// A shorter window misses what runs once a day.
const DAY: u64 = 86_400;

/// What is known about reads of the indexes of `tables`.
pub fn usage(
    args: &IndexesArgs,
    here: &mut Server,
    tables: &[Table],
    report: &mut Report,
) -> Outcome<Usage> {
    let before = args.since.as_deref().map(read_saved).transpose()?;
    let mut taken = vec![counters::read(here, &mut report.notes)?];
    for name in &args.also {
        let mut other = server::connect_also(args, name)?;
        report.sources.push(other.name.clone());
        taken.push(counters::read(&mut other, &mut report.notes)?);
    }
    let mut usage = Usage::default();
    for counted in &taken {
        if counted.sources.is_empty() {
            return Err(Failure::Request(format!(
                "{} counts no reads of indexes, so nothing can be called unused: {}",
                counted.server,
                report.notes.join("; ")
            )));
        }
        let window = match (&before, &args.since) {
            (Some(saved), Some(file)) => saved
                .until(counted)
                .map_err(|what| Failure::Request(format!("{}: {what}", file.display())))?,
            _ => counted.window(),
        };
        if window.restarted {
            report.notes.push(format!(
                "{} was started since then: it counts only the last {}.",
                counted.server,
                duration(window.seconds)
            ));
        }
        if !window.exact {
            report.notes.push(format!(
                "{} has run for {}; its counters may have been switched on or set back later (--save and --since bound them).",
                counted.server,
                duration(window.seconds)
            ));
        }
        if window.seconds < DAY {
            report.notes.push(format!(
                "{} is less than a day: what runs nightly or monthly is not in it.",
                duration(window.seconds)
            ));
        }
        if !window.unknown.is_empty() {
            report.notes.push(format!(
                "{}: {} made or altered since then: nothing of them is called unused.",
                counted.server,
                match window.unknown.len() {
                    1 => "1 table was".into(),
                    n => format!("{n} tables were"),
                }
            ));
        }
        usage.add(&window);
    }
    for file in &args.log {
        let mut plans = Plans { usage: &mut usage, tables, plans: 0 };
        frond_replay::read::read(file, 0, &mut plans).map_err(Failure::Request)?;
        let plans = plans.plans;
        report.sources.push(file.display().to_string());
        if plans == 0 {
            report.notes.push(format!(
                "{}: no plan is in it (SET GLOBAL log_slow_verbosity = 'explain').",
                file.display()
            ));
        }
    }
    if args.log.is_empty() {
        let note = "Servers count rows that an index found: one that is only asked for what is not there looks unused. \
            Plans in a slow log name it (--log).";
        report.notes.push(note.into());
    }
    if let Some(file) = &args.save {
        save(file, taken)?;
    }
    Ok(usage)
}

/// Collects plans of a log.
struct Plans<'a> {
    usage: &'a mut Usage,
    tables: &'a [Table],
    plans: u64,
}

impl Sink for Plans<'_> {
    fn event(&mut self, event: &Event<'_>) {
        if event.plan.is_empty() {
            return;
        }
        self.plans += 1;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut found = Vec::new();
        frond_sqltext::tables(event.sql, SqlMode::default(), &mut found);
        let names: Vec<(String, String)> = found
            .iter()
            .map(|t| (text(if t.db.is_empty() { event.db } else { t.db }), text(t.table)))
            .collect();
        self.usage.add_plan(event.plan, &names, self.tables);
    }

    fn skip(&mut self, _skip: Skip) {}
}

#[allow(clippy::disallowed_methods)] // It is no file of a database.
fn read_saved(file: &Path) -> Outcome<Saved> {
    let fail = |what: String| Failure::Request(format!("{}: {what}", file.display()));
    let bytes = std::fs::read(file).map_err(|e| fail(e.to_string()))?;
    Saved::read(&bytes).map_err(fail)
}

fn save(file: &Path, taken: Vec<frond_indexes::usage::Counters>) -> Outcome<()> {
    let fail = |e: std::io::Error| Failure::Request(format!("{}: {e}", file.display()));
    let mut output = Output::begin(file, std::iter::empty())?;
    serde_json::to_writer(&mut output, &Saved::new(taken)).map_err(|e| fail(e.into()))?;
    output.flush().map_err(fail)
}
