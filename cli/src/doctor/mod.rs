//! `frond doctor`: options, a server's variables and counters, and files of samples for `frond_doctor`.
//!
//! Nothing is changed, neither on the machine nor in the server.
//!
//! Tested in `tests/cli/doctor.rs`.

mod args;
mod sampler;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use frond_doctor::html::Course;
use frond_doctor::report::Report;
use frond_doctor::ring::{self, Writer};
use frond_doctor::rules::{self, RULES};
use frond_doctor::snapshot::Snapshot;

use crate::digest::live::stop::{now, Stop};
use crate::out::{colour, Failure, Outcome, GENERATOR};
pub use args::DoctorArgs;
use rustix::fs::{flock, FlockOperation};
use sampler::Sampler;

/// True if nothing was found.
pub fn run(args: &DoctorArgs, out: &mut dyn Write) -> Outcome<bool> {
    if let Some(path) = &args.watch {
        return watch(args, path).map(|()| true);
    }
    let mut course = Course::default();
    let report = match &args.replay {
        Some(path) => replay(args, path, &mut course)?,
        None => examine(args)?,
    };
    if args.json {
        report.write_json(out)?;
    } else if args.html {
        report.write_html(course, GENERATOR.into(), out)?;
    } else {
        report.write_text(colour(), out)?;
    }
    Ok(report.findings.is_empty())
}

fn all_rules() -> Outcome<Vec<rules::Rule>> {
    rules::read(RULES).map_err(Failure::Request)
}

fn examine(args: &DoctorArgs) -> Outcome<Report> {
    let rules = all_rules()?;
    let mut sampler = Sampler::new(args)?;
    let stop = Stop::after(None);
    let (first, _) = sampler.sample()?;
    if stop.sleep_until(now() + args.seconds) {
        return Err(Failure::Request("interrupted".into()));
    }
    let (last, unseen) = sampler.sample()?;
    Ok(Report::of(&rules, &first, &last, sampler.name, unseen))
}

fn fail(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |e| {
        let what = frond_querylog::input::open::describe(&e);
        Failure::Request(format!("{}: {what}", path.display()))
    }
}

/// Writes samples until it is stopped.
fn watch(args: &DoctorArgs, path: &Path) -> Outcome<()> {
    let mut sampler = Sampler::new(args)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[allow(clippy::disallowed_methods)] // It is no file of a database.
    let file = options.open(path).map_err(fail(path))?;
    // Two programs that write into one file would spoil it.
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(Failure::Request(format!(
            "{}: another frond doctor writes it",
            path.display()
        )));
    }
    let mut writer = Writer::open(file, args.size).map_err(fail(path))?;
    let stop = Stop::after(args.run_time);
    let mut next = now();
    let mut away = false;
    loop {
        match sampler.sample() {
            Ok((sample, _)) => {
                away = false;
                writer.add(sample).map_err(fail(path))?;
            }
            // The machine is watched while the server is away, too: those minutes matter most.
            Err(e) => {
                if !std::mem::replace(&mut away, true) {
                    eprintln!("frond: {e}; the machine is watched on");
                }
                writer.add(sampler.machine_only()).map_err(fail(path))?;
                sampler.connect_again();
            }
        }
        // What a server that hung made late is not made up for.
        next = now().max(next + Duration::from_secs(1));
        if stop.sleep_until(next) {
            return writer.flush().map_err(fail(path));
        }
    }
}

/// Applies the rules to one moment of a file of samples.
fn replay(args: &DoctorArgs, path: &Path, course: &mut Course) -> Outcome<Report> {
    let rules = all_rules()?;
    let at = match &args.at {
        None => f64::INFINITY,
        Some(text) => match frond_event::text::stamp(text.as_bytes()) {
            Some((stamp, used)) if used == text.len() => stamp.utc(0) as f64 / 1e6,
            _ => {
                return Err(Failure::Request(format!(
                    "'{text}' is no time such as 2026-11-23 03:14:00"
                )))
            }
        },
    };
    #[allow(clippy::disallowed_methods)] // It is no file of a database.
    let file = File::open(path).map_err(fail(path))?;
    // The file is read twice, so that only two samples are in memory, however many there are between them.
    let (mut first, mut last) = (None::<Snapshot>, None::<Snapshot>);
    let (mut oldest, mut newest) = (None, None);
    ring::read(&file, &mut |sample| {
        oldest = oldest.or(Some(sample.at));
        newest = Some(sample.at);
        if args.html {
            course.add(&sample);
        }
        if sample.at <= at {
            last = Some(sample);
        }
        true
    })
    .map_err(fail(path))?;
    let end = last.as_ref().map_or(at, |last| last.at);
    let begin = end - args.seconds.as_secs_f64() - 0.5;
    ring::read(&file, &mut |sample| {
        let within = begin <= sample.at && sample.at <= end;
        first = within.then_some(sample);
        !within
    })
    .map_err(fail(path))?;
    let time = |at: Option<f64>| frond_event::numbers::time((at.unwrap_or(0.0) * 1e6) as i64);
    let (Some(first), Some(last)) = (first, last) else {
        let what = format!(
            "{}: its samples are from {} to {} UTC",
            path.display(),
            time(oldest),
            time(newest)
        );
        return Err(Failure::Request(what));
    };
    let source = format!("{} ({} to {})", path.display(), time(oldest), time(newest));
    Ok(Report::of(&rules, &first, &last, source, Vec::new()))
}
