//! A report for each interval of a log that grows.

use std::io::Write;
use std::sync::Arc;

use frond_digest::report;
use frond_digest::run::follow::{Follow, Following};
use frond_digest::run::Settings;

use super::args::DigestArgs;
use super::{read, when, write};
use crate::out::{Failure, Outcome};

/// Writes a report for each interval until it is stopped; true if everything could be read.
pub fn reports(
    args: &DigestArgs,
    how: &Follow,
    settings: &Arc<Settings>,
    options: &report::Options,
    out: &mut dyn Write,
) -> Outcome<bool> {
    let mut left = args.reports;
    let (mut fine, mut grouped, mut unknown) = (true, false, None);
    let mut result = Ok(());
    let following = Following::open(how, settings).map_err(Failure::Request)?;
    let each = &mut |mut outcome: frond_digest::run::Outcome| {
        let options = report::Options {
            generated: options.generated.map(|_| when::now()),
            ..options.clone()
        };
        fine &= read::is_fine(&outcome);
        // An attribute may be rare. One that never occurs is a mistake: it is reported at once and
        // in the exit status.
        let missing = outcome.unknown_group(&settings.group_by);
        grouped |= missing.is_none() && outcome.events > outcome.left_out;
        if let (Some(what), false, None) = (missing, grouped, &unknown) {
            eprintln!("frond: --group-by: {what}");
            unknown = Some(what);
        }
        result = write::report(args, &mut outcome, &options, out).and_then(|()| Ok(out.flush()?));
        left = left.map(|n| n.saturating_sub(1));
        result.is_ok() && left != Some(0)
    };
    following.run(each).map_err(Failure::Request)?;
    if let (Some(what), false) = (unknown, grouped) {
        return Err(Failure::Request(format!("--group-by: {what}")));
    }
    result.map(|()| fine)
}
