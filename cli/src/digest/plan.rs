//! The plan: consistent options, checked before anything is read.
//!
//! Every mistake that can be seen without reading an input is refused here.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use frond_capture::Sampling;
use frond_digest::filter::{parse_time, Context, Filter};
use frond_digest::report;
use frond_digest::report::rank::{self, Aggregate, Order};
use frond_digest::run::follow::Follow;
use frond_digest::run::{GroupBy, Settings};
use frond_digest::stats::waiting::Patterns;
use frond_event::numbers;
use frond_sqltext::Dialect;
use jiff::tz::TimeZone;

use super::args::{DigestArgs, Source};
use super::read::can_be_read_again;
use super::when;
use crate::out::{Failure, Outcome};

/// See the module's text.
pub struct Plan {
    pub work: Work,
    pub options: report::Options,
}

/// The inputs, and the kind of report.
pub enum Work {
    /// The filter that captures a sample; nothing is read.
    TcpdumpFilter(String),
    /// A report of a running server.
    Server(Source, Settings),
    /// A report of files.
    Files(Vec<PathBuf>, Settings),
    /// Two reports, and what changed.
    Compare(Box<[Side; 2]>),
    /// A report for each interval of a log.
    Follow(Follow, Settings),
}

/// One side of a comparison.
pub struct Side {
    pub files: Vec<PathBuf>,
    pub settings: Settings,
}

/// From arguments to a plan.
pub fn plan(args: &DigestArgs) -> Outcome<Plan> {
    let (settings, mut options) = understand(args)?;
    let work = if args.tcpdump_filter {
        let sampling = options.sampling.map_or_else(|| Sampling::parse("1/1"), Ok);
        Work::TcpdumpFilter(sampling.map_err(Failure::Request)?.tcpdump_filter(&args.port))
    } else if let Some(source) = args.running.source() {
        let settings = of_server(source, args, options.order, settings)?;
        options.dialect = settings.dialect;
        Work::Server(source, settings)
    } else if let Some(files) = &args.diff {
        Work::Compare(Box::new(two_inputs(files, settings)?))
    } else {
        let files = files(args)?;
        if let Some(at) = &args.diff_at {
            Work::Compare(Box::new(two_periods(at, files, settings)?))
        } else if args.follow {
            Work::Follow(one_log(args, &files)?, settings)
        } else {
            Work::Files(files, settings)
        }
    };
    Ok(Plan { work, options })
}

/// The logs that were named, or standard input.
fn files(args: &DigestArgs) -> Outcome<Vec<PathBuf>> {
    if !args.files.is_empty() {
        return Ok(args.files.clone());
    }
    if io::stdin().is_terminal() {
        return Err(Failure::Request(
            "name a log (frond digest /var/log/mysql/slow.log), or - for standard input".into(),
        ));
    }
    Ok(vec![PathBuf::from("-")])
}

/// `--diff`: two files.
fn two_inputs(files: &[PathBuf], settings: Settings) -> Outcome<[Side; 2]> {
    if files.iter().all(|file| file == Path::new("-")) {
        return Err(Failure::Request(
            "--diff: only one of the two can be standard input; store the other in a file".into(),
        ));
    }
    let side = |files: &[PathBuf], settings| Side { files: files.to_vec(), settings };
    Ok([side(&files[..1], settings.clone()), side(&files[1..], settings)])
}

/// `--diff-at`: the same files before and after a moment.
fn two_periods(at: &str, files: Vec<PathBuf>, settings: Settings) -> Outcome<[Side; 2]> {
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
    Ok([Side { files: files.clone(), settings: early }, Side { files, settings: late }])
}

/// `--follow`: one log, how often, from where.
fn one_log(args: &DigestArgs, files: &[PathBuf]) -> Outcome<Follow> {
    let [path] = files else {
        return Err(Failure::Request("--follow takes one log".into()));
    };
    Ok(Follow {
        path: path.clone(),
        interval: Duration::from_secs(args.interval),
        from_begin: args.from_begin,
    })
}

/// Digests have classes of their own and no single statements: options that need statements are
/// refused, others are set.
fn of_server(
    source: Source,
    args: &DigestArgs,
    order: Order,
    settings: Settings,
) -> Outcome<Settings> {
    if source != Source::Digests {
        return Ok(settings);
    }
    let request = |what: &str| Err(Failure::Request(what.into()));
    if matches!(
        order.aggregate,
        Aggregate::P50 | Aggregate::P95 | Aggregate::P99 | Aggregate::VarianceToMean
    ) {
        return request(
            "--digests: the server has no quantiles: order by time, mean, max, count, rows or lock",
        );
    }
    if args.compat.is_some() {
        return request("--digests: pt-query-digest has no report of totals; leave --compat away");
    }
    if args.dialect.is_some() && settings.dialect != Dialect::MariadbDigest {
        return request(
            "--digests: the classes are the server's: --dialect can only be mariadb-digest",
        );
    }
    if !matches!(settings.group_by, GroupBy::Fingerprint | GroupBy::Db) {
        return request("--digests: the server's totals can only be grouped by fingerprint or db");
    }
    Ok(Settings { dialect: Dialect::MariadbDigest, ..settings })
}

/// Settings for reading, and for the report.
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
            since.map(numbers::time).unwrap_or_default(),
            until.map(numbers::time).unwrap_or_default()
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
        Some(text) => {
            Some(Sampling::parse(text).map_err(|e| request(format!("--sample-connections: {e}")))?)
        }
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
        users: Patterns {
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

/// One thread for each processor this process may use.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
