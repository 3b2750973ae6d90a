//! Reads files with the library: logs, and reports that `--json` stored.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use frond_digest::report::{self, rank, Report};
use frond_digest::run::{self, Settings};
use frond_querylog::input::Origin;

use super::args::DigestArgs;
use super::progress;
use crate::out::{Failure, Outcome};

/// Reads logs; true if everything could be read.
pub fn logs(
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
    // The other forms of a report have a place for it; these do not.
    if args.csv || args.compat.is_some() {
        if let Some(words) = passed_over(&outcome) {
            eprintln!("frond: {words}");
        }
    }
    let fine = is_fine(&outcome);
    Ok((outcome, fine))
}

/// Grouping by an attribute that no statement has is a mistake: the report would be one class.
pub fn check_group(outcome: &run::Outcome, settings: &Settings) -> Outcome<()> {
    match outcome.unknown_group(&settings.group_by) {
        Some(what) => Err(Failure::Request(format!("--group-by: {what}"))),
        None => Ok(()),
    }
}

/// One line on what could not be read.
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

/// True if everything could be read. Packets that a capture lost do not count; encrypted connections do.
pub fn is_fine(outcome: &run::Outcome) -> bool {
    let encrypted = outcome.losses.as_ref().map_or(0, |losses| losses.encrypted);
    outcome.problems.is_empty() && outcome.skips.count() == 0 && encrypted == 0
}

/// One side of a comparison: logs, or a report that `--json` wrote. All classes are kept; otherwise
/// a class below the limit on one side only would look new.
pub fn one_side(
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
    let (mut outcome, fine) = logs(args, files, &Arc::new(settings))?;
    let all = rank::Limit { share: 1.0, most: usize::MAX };
    let options = report::Options { limit: all, ..options.clone() };
    Ok((report::build(&mut outcome, &options), fine))
}

/// False for pipes. Opening reports a missing file.
#[allow(clippy::disallowed_methods)] // A log is no file of a database.
pub fn can_be_read_again(path: &Path) -> bool {
    path != Path::new("-") && std::fs::metadata(path).map_or(true, |found| found.is_file())
}

/// A report in JSON; `None` if the file is something else.
#[allow(clippy::disallowed_methods)] // A report is no file of a database.
fn stored_report(path: &Path) -> Outcome<Option<Report>> {
    if !can_be_read_again(path) {
        // Reading would consume the first byte of a pipe.
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
