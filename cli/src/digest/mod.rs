//! `frond digest`: options to the query log library and back. It needs no database and no engine.

mod args;
mod live;
mod output;
mod process;
mod progress;
mod when;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use frond_digest::filter::{parse_time, Context, Filter};
use frond_digest::report::{self, rank, Report};
use frond_digest::run::follow::{follow, Follow};
use frond_digest::run::{self, GroupBy, Settings};
use frond_querylog::input::{Format, Origin};
use frond_sqltext::Dialect;
use jiff::tz::TimeZone;

use args::Compat;
pub use args::DigestArgs;

use crate::out::{Failure, Outcome};

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
    let (settings, mut options) = understand(args)?;
    if args.tcpdump_filter {
        let sampling = options.sampling.map_or_else(|| frond_capture::Sampling::parse("1/1"), Ok);
        let filter = sampling.map_err(Failure::Request)?.tcpdump_filter(&args.port);
        return Ok(writeln!(out, "{filter}").map(|()| true)?);
    }
    if let Some(source) = args.running.source() {
        let settings = Arc::new(live::settings_for(source, args, options.order, settings)?);
        options.dialect = settings.dialect;
        let (mut outcome, fine) = live::read(args, source, &settings)?;
        check_group(&outcome, &settings)?;
        return write(args, &mut outcome, &options, out).map(|()| fine);
    }
    if let Some(files) = &args.diff {
        if files.iter().all(|file| file == Path::new("-")) {
            return Err(Failure::Request(
                "--diff: only one of the two can be standard input; store the other in a file"
                    .into(),
            ));
        }
        let (before, first) = one_side(args, &files[..1], settings.clone(), &options)?;
        let (after, second) = one_side(args, &files[1..], settings, &options)?;
        return write_diff(args, &before, &after, out).map(|()| first && second);
    }
    let mut files = args.files.clone();
    if files.is_empty() {
        if io::stdin().is_terminal() {
            return Err(Failure::Request(
                "name a log (frond digest /var/log/mysql/slow.log), or - for standard input".into(),
            ));
        }
        files.push(PathBuf::from("-"));
    }
    if let Some(at) = &args.diff_at {
        let at = parse_time(at, when::now(), &TimeZone::UTC)
            .map_err(|e| Failure::Request(format!("--diff-at: {e}")))?;
        if let Some(once) = files.iter().find(|file| !can_be_read_again(file)) {
            return Err(Failure::Request(format!(
                "--diff-at reads the logs twice, which {} cannot be: store it in a file first (packed files are read \
                 as they are)",
                if once == Path::new("-") { "standard input".into() } else { once.display().to_string() }
            )));
        }
        let early =
            Settings { until: Some(settings.until.map_or(at, |u| u.min(at))), ..settings.clone() };
        let late = Settings { since: Some(settings.since.map_or(at, |s| s.max(at))), ..settings };
        let (before, first) = one_side(args, &files, early, &options)?;
        let (after, second) = one_side(args, &files, late, &options)?;
        return write_diff(args, &before, &after, out).map(|()| first && second);
    }
    let settings = Arc::new(settings);
    if args.follow {
        return run_follow(args, &files, &settings, &options, out);
    }
    let (mut outcome, fine) = read(args, &files, &settings)?;
    write(args, &mut outcome, &options, out)?;
    Ok(fine)
}

/// Reads logs; true if everything could be read.
fn read(
    args: &DigestArgs,
    files: &[PathBuf],
    settings: &Arc<Settings>,
) -> Outcome<(run::Outcome, bool)> {
    let origins: Vec<Origin> = files.iter().map(|f| Origin::of(f)).collect();
    let mut shown = progress::Shown::new(!args.quiet && io::stderr().is_terminal());
    let outcome = run::run(&origins, settings, &mut |p| shown.update(p));
    shown.clear();
    let outcome = outcome.map_err(|problems| {
        let texts: Vec<String> =
            problems.iter().map(|p| format!("{}: {}", p.name, p.what)).collect();
        Failure::Request(texts.join("\nfrond: "))
    })?;
    check_group(&outcome, settings)?;
    for problem in &outcome.problems {
        eprintln!("frond: {}: {}", problem.name, problem.what);
    }
    // The other forms of a report have a place for it.
    if args.csv || args.compat.is_some() {
        if let Some(words) = passed_over(&outcome) {
            eprintln!("frond: {words}");
        }
    }
    let fine = is_fine(&outcome);
    Ok((outcome, fine))
}

/// A name to group by that no statement has is a mistake: the report would be one class.
fn check_group(outcome: &run::Outcome, settings: &Settings) -> Outcome<()> {
    match outcome.unknown_group(&settings.group_by) {
        Some(what) => Err(Failure::Request(format!("--group-by: {what}"))),
        None => Ok(()),
    }
}

/// What could not be read, in a line.
fn passed_over(outcome: &run::Outcome) -> Option<String> {
    let first = outcome.skips.first.first()?;
    let file = outcome.files.get(first.place.file as usize).map_or("input", |f| f.name.as_str());
    Some(format!(
        "not everything could be read (places: {}); the first: {file} byte {}: {}",
        outcome.skips.count(),
        first.place.offset,
        first.why.describe()
    ))
}

/// True if everything could be read. What a capture lost was never there to be read; what is encrypted was.
fn is_fine(outcome: &run::Outcome) -> bool {
    let encrypted = outcome.losses.as_ref().map_or(0, |losses| losses.encrypted);
    outcome.problems.is_empty() && outcome.skips.count() == 0 && encrypted == 0
}

/// One side of a comparison: logs, or a report that `--json` wrote. All classes are kept, or what is below the limit
/// on one side only would look new.
fn one_side(
    args: &DigestArgs,
    files: &[PathBuf],
    settings: Settings,
    options: &report::Options,
) -> Outcome<(Report, bool)> {
    if let [path] = files {
        if let Some(mut report) = stored_report(path)? {
            if args.redact {
                report::redact::apply(&mut report, args.sample_bytes);
            }
            return Ok((report, true));
        }
    }
    let (mut outcome, fine) = read(args, files, &Arc::new(settings))?;
    let all = rank::Limit { share: 1.0, most: usize::MAX };
    let options = report::Options { limit: all, ..options.clone() };
    Ok((report::build(&mut outcome, &options), fine))
}

/// False for pipes. What is missing is told when it is opened.
#[allow(clippy::disallowed_methods)] // A log is no file of a database.
fn can_be_read_again(path: &Path) -> bool {
    path != Path::new("-") && std::fs::metadata(path).map_or(true, |found| found.is_file())
}

/// A report in JSON; `None` if the file is something else.
#[allow(clippy::disallowed_methods)] // A report is no file of a database.
fn stored_report(path: &Path) -> Outcome<Option<Report>> {
    if !can_be_read_again(path) {
        // Of a pipe the first byte would be gone.
        return Ok(None);
    }
    let Ok(mut file) = std::fs::File::open(path) else { return Ok(None) };
    let mut first = [0];
    if !matches!(io::Read::read(&mut file, &mut first), Ok(1)) || first != *b"{" {
        return Ok(None);
    }
    let text =
        std::fs::read(path).map_err(|e| Failure::Request(format!("{}: {e}", path.display())))?;
    serde_json::from_slice(&text).map(Some).map_err(|e| {
        Failure::Request(format!("{}: not a report of frond digest --json: {e}", path.display()))
    })
}

fn write_diff(
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

/// A report for each interval, until somebody stops it.
fn run_follow(
    args: &DigestArgs,
    files: &[PathBuf],
    settings: &Arc<Settings>,
    options: &report::Options,
    out: &mut dyn Write,
) -> Outcome<bool> {
    let [path] = files else {
        return Err(Failure::Request("--follow takes one log".into()));
    };
    let how = Follow {
        path: path.clone(),
        interval: Duration::from_secs(args.interval),
        from_begin: args.from_begin,
    };
    let mut left = args.reports;
    let (mut fine, mut grouped, mut unknown) = (true, false, None);
    let mut result = Ok(());
    follow(&how, settings, &mut |mut outcome| {
        let options = report::Options {
            generated: options.generated.map(|_| when::now()),
            ..options.clone()
        };
        fine &= is_fine(&outcome);
        // An attribute may be rare; one that never was is a mistake, told at once and by the status.
        let missing = outcome.unknown_group(&settings.group_by);
        grouped |= missing.is_none() && outcome.events > outcome.left_out;
        if let (Some(what), false, None) = (missing, grouped, &unknown) {
            eprintln!("frond: --group-by: {what}");
            unknown = Some(what);
        }
        result = write(args, &mut outcome, &options, out).and_then(|()| Ok(out.flush()?));
        left = left.map(|n| n.saturating_sub(1));
        result.is_ok() && left != Some(0)
    })
    .map_err(Failure::Request)?;
    if let (Some(what), false) = (unknown, grouped) {
        return Err(Failure::Request(format!("--group-by: {what}")));
    }
    result.map(|()| fine)
}

/// Writes the report in the form that was asked for.
fn write(
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

/// From what was typed to what the library wants.
fn understand(args: &DigestArgs) -> Outcome<(Settings, report::Options)> {
    let request = |what: String| Failure::Request(what);
    let now = when::now();
    let time = |text: &Option<String>, option: &str| -> Outcome<Option<i64>> {
        match text {
            None => Ok(None),
            Some(text) => parse_time(text, now, &TimeZone::UTC)
                .map(Some)
                .map_err(|what| request(format!("--{option}: {what}"))),
        }
    };
    let (since, until) = (time(&args.since, "since")?, time(&args.until, "until")?);
    if since.zip(until).is_some_and(|(since, until)| since >= until) {
        return Err(request(format!(
            "--since ({} UTC) is not before --until ({} UTC): nothing is between them",
            since.map(frond_event::numbers::time).unwrap_or_default(),
            until.map(frond_event::numbers::time).unwrap_or_default()
        )));
    }
    let compat = args.compat.is_some();
    let dialect = match args.dialect {
        Some(dialect) => dialect.into(),
        None if compat => Dialect::Ptqd32,
        None => Dialect::Frond,
    };
    let group_by: GroupBy =
        args.group_by.parse().map_err(|e| request(format!("--group-by: {e}")))?;
    let sampling = match &args.sample_connections {
        None => None,
        Some(text) => Some(
            frond_capture::Sampling::parse(text)
                .map_err(|e| request(format!("--sample-connections: {e}")))?,
        ),
    };
    let traffic = frond_capture::Options {
        ports: args.port.clone(),
        sampling,
        to_last_byte: args.to_last_byte,
        text_zone: args.zone.unwrap_or(0),
        compat_names: compat,
        ..frond_capture::Options::default()
    };
    let filter = match &args.filter {
        None => None,
        Some(text) => {
            let context = Context { now, zone: TimeZone::UTC, dialect };
            Some(Filter::parse(text, &context).map_err(|e| request(format!("--filter: {e}")))?)
        }
    };
    let settings = Settings {
        filter,
        patterns: args.patterns,
        format: args.format.map(Into::into),
        dialect,
        group_by: group_by.clone(),
        since,
        until,
        rate: args.rate,
        threads: args.threads.unwrap_or_else(threads),
        max_classes: args.max_classes,
        users: frond_digest::stats::waiting::Patterns {
            interactive: args.interactive_user.clone(),
            batch: args.batch_user.clone(),
        },
        stamped: args.server.map(Into::into).unwrap_or_default(),
        zone: args.zone,
        traffic,
        compat,
        ..Settings::default()
    };
    let order = match &args.order_by {
        None => rank::Order::default(),
        Some(text) => text.parse().map_err(|e| request(format!("--order-by: {e}")))?,
    };
    let options = report::Options {
        order,
        order_given: args.order_by.is_some(),
        limit: args.limit.parse().map_err(|e| request(format!("--limit: {e}")))?,
        outliers: (!args.no_outliers).then(rank::Outliers::default),
        redact: args.redact,
        sample_bytes: args.sample_bytes,
        dialect,
        group_by,
        filter: args.filter.clone(),
        since,
        until,
        generated: (!args.reproducible).then_some(now),
        sampling,
        ports: args.port.clone(),
    };
    Ok((settings, options))
}

/// Columns of the terminal; a file or a pipe has as many as the narrowest terminal.
fn width() -> usize {
    let terminal = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    terminal.map_or(report::text::WIDTH, |(width, _)| usize::from(width.0))
}

/// One thread for each processor this process may use.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // A log is no file of a database.
mod tests;
