//! The changes between two reports: classes that are new or gone, slower or faster, called more or less.
//!
//! `diff/measures` has the measures and their tests; `diff/blocks` accounts for the dependence of statements on each
//! other. For a class on one side only, `presence` is the probability that a class with
//! this many calls has none on the other side at the same rate; it treats calls as independent.
//!
//! All p-values of a comparison are adjusted together (Benjamini and Hochberg). A difference is called a change if the
//! adjusted value is below `LEVEL` and the difference is at least `LEAST_CHANGE`.
//!
//! Invariants:
//!
//! - DF1. Fewer than `LEAST_CALLS` calls on a side: no test of durations or rows. Without any test a class is `unsure`.
//! - DF2. A class that a shortened report may have hidden is never called new or gone.
//! - DF3. A class is not called faster while its mean or, at the same calls, its load is certainly higher; nor vice versa.

use std::collections::HashMap;

use super::model::{Class, Report, SCHEMA};
use super::significance::adjust;
use frond_event::numbers::{percentage, plural};

mod blocks;
mod measures;
mod model;
mod text;

pub use measures::LEAST_CALLS;
pub use model::{Change, Diff, Side, Test, Values};
pub use text::write_text;

/// The accepted share of false findings.
pub const LEVEL: f64 = 0.01;
/// Smaller changes are not reported, however certain.
pub const LEAST_CHANGE: f64 = 0.10;

/// Compares two reports. An error if their classes are of different kinds.
pub fn compare(before: &Report, after: &Report) -> Result<Diff, String> {
    for report in [before, after] {
        if let Some(why) = report.unreadable() {
            return Err(why);
        }
    }
    let (a, b) = (&before.selection, &after.selection);
    if (&a.group_by, &a.dialect) != (&b.group_by, &b.dialect) {
        return Err(format!(
            "the reports have different classes ({}, dialect {}, and {}, dialect {}): make both with the same options",
            a.group_by, a.dialect, b.group_by, b.dialect
        ));
    }
    if a.filter != b.filter {
        let filter = |f: &Option<String>| match f {
            Some(filter) => format!("--filter '{filter}'"),
            None => "no filter".into(),
        };
        return Err(format!(
            "the reports have different filters ({} before, {} after): what one leaves out would be called new or gone. \
             Make both with the same --filter",
            filter(&a.filter),
            filter(&b.filter)
        ));
    }
    let name =
        |class: &Class| if class.id.is_empty() { class.key.clone() } else { class.id.clone() };
    let mut pairs: Vec<(Option<&Class>, Option<&Class>)> = Vec::new();
    let mut place: HashMap<String, usize> = HashMap::new();
    for class in &before.classes {
        place.insert(name(class), pairs.len());
        pairs.push((Some(class), None));
    }
    for class in &after.classes {
        match place.get(&name(class)) {
            Some(at) => pairs[*at].1 = Some(class),
            None => pairs.push((None, Some(class))),
        }
    }
    let mut changes: Vec<Change> =
        pairs.iter().map(|(old, new)| change(before, after, *old, *new)).collect();
    judge(&mut changes);
    let weight = |c: &Change| {
        let load = |v: &Option<Values>| v.and_then(|v| v.load.or(v.time)).unwrap_or(0.0);
        (load(&c.after) - load(&c.before)).abs()
    };
    changes.sort_by(|x, y| {
        weight(y)
            .total_cmp(&weight(x))
            .then_with(|| x.item.cmp(&y.item))
            .then_with(|| x.key.cmp(&y.key))
    });
    Ok(Diff {
        schema: SCHEMA,
        generator: after.generator.clone(),
        before: side(before),
        after: side(after),
        changes,
        notes: notes(before, after),
    })
}

fn side(report: &Report) -> Side {
    let all = &report.overall;
    Side {
        inputs: report.inputs.iter().map(|i| i.name.clone()).collect(),
        first: all.first,
        last: all.last,
        events: all.events,
        classes: all.classes,
        time: all.metric("Query_time").map(|m| m.sum),
        load: all.concurrency,
    }
}

fn notes(before: &Report, after: &Report) -> Vec<String> {
    let mut notes = vec![format!(
        "A change is shown as one if it is at least {} and chance explains it in fewer than {} of such findings (Benjamini-Hochberg). Chance is measured by how much blocks of time of the same report differ; of what lasts longer than a sixth of a report (another hour, another day of the week) it knows nothing: compare like with like.",
        percentage(LEAST_CHANGE), percentage(LEVEL)
    )];
    for (name, report) in [("before", before), ("after", after)] {
        if let Some(rest) = &report.rest {
            let folded = report.overall.folded;
            // All folded classes together are one class of the rest.
            let hidden = rest.classes.saturating_sub(u64::from(folded > 0));
            let mut help = Vec::new();
            if folded > 0 {
                help.push("a larger --max-classes");
            }
            if hidden > 0 {
                help.push("--limit 100%");
            }
            notes.push(format!(
                "The report {name} leaves out {}; what is missing there is not called new or gone. Make it with {} to compare everything.",
                plural(hidden.saturating_add(folded), "class"),
                help.join(" and ")
            ));
        }
        if report.overall.seconds.is_none_or(|s| s < 1.0) {
            notes.push(format!("The report {name} covers no time that rates could be made of."));
        }
        if report.schema < 2 {
            notes.push(format!(
                "The report {name} has format {}: there, arms of a CASE make classes of their own, which may be called gone or new here. Make it again from the log to compare them.",
                report.schema
            ));
        }
    }
    notes
}

fn values(report: &Report, class: &Class) -> Values {
    let span = report.overall.seconds.filter(|s| *s >= 1.0);
    let time = class.time();
    // For a sampled log, the statements for which the events stand, as in the sums.
    let statements = class.statements.max(class.events) as f64;
    Values {
        events: class.events,
        per_second: span.map(|s| statements / s),
        load: span.zip(time).map(|(s, t)| t.sum / s),
        time: time.map(|t| t.sum),
        mean: time.map(|t| t.mean),
        typical: measures::typical(class),
        p95: time.map(|t| t.p95),
        rows_examined: class.metric("Rows_examined").map(|m| m.mean),
    }
}

fn change(before: &Report, after: &Report, old: Option<&Class>, new: Option<&Class>) -> Change {
    let shown = new.or(old);
    let text = |of: fn(&Class) -> &String| shown.map_or_else(String::new, |c| of(c).clone());
    let tests = match (old, new) {
        (Some(old), Some(new)) => measures::tests([before, after], [old, new]),
        (Some(old), None) => presence(before, after, old).into_iter().collect(),
        (None, Some(new)) => presence(after, before, new).into_iter().collect(),
        (None, None) => Vec::new(),
    };
    Change {
        id: text(|c| &c.id),
        key: text(|c| &c.key),
        item: text(|c| &c.item),
        verdict: String::new(),
        before: old.map(|c| values(before, c)),
        after: new.map(|c| values(after, c)),
        tests,
    }
}

/// The test for a class that only `with` has. `None` if `without` may have hidden the class, or does not say how much it
/// covers.
fn presence(with: &Report, without: &Report, class: &Class) -> Option<Test> {
    if without.rest.is_some() {
        return None;
    }
    // A sampled log has only a part of the statements.
    let amount = |r: &Report| {
        let all = &r.overall;
        let rate = all.statements.max(all.events).max(1) as f64 / all.events.max(1) as f64;
        all.seconds.filter(|s| *s >= 1.0).map(|s| s / rate)
    };
    // Without times, the amounts of the two logs are compared.
    let (here, there) = match (amount(with), amount(without)) {
        (Some(here), Some(there)) => (here, there),
        _ => (with.overall.events as f64, without.overall.events as f64),
    };
    if here + there <= 0.0 {
        return None;
    }
    let p = (here / (here + there)).powf(class.events as f64);
    Some(Test { what: "presence".into(), p, ..Test::default() })
}

/// Adjusts the p-values of all tests together and judges each class.
fn judge(changes: &mut [Change]) {
    let p: Vec<f64> = changes.iter().flat_map(|c| &c.tests).map(|t| t.p).collect();
    let mut adjusted = adjust(&p).into_iter();
    for change in changes {
        for test in &mut change.tests {
            test.adjusted = adjusted.next().unwrap_or(1.0);
            let large = test
                .ratio
                .is_none_or(|r| !(1.0 / (1.0 + LEAST_CHANGE)..1.0 + LEAST_CHANGE).contains(&r));
            test.significant = test.adjusted < LEVEL && large;
        }
        change.verdict = verdict(change).into();
    }
}

fn verdict(change: &Change) -> &'static str {
    let found = |names: &[&str], up: bool| {
        change.tests.iter().any(|t| {
            t.significant
                && names.contains(&t.what.as_str())
                && (t.ratio.is_none_or(|r| r > 1.0)) == up
        })
    };
    let certain = change.tests.iter().any(|t| t.significant);
    match (&change.before, &change.after) {
        (None, _) if certain => return "new",
        (_, None) if certain => return "gone",
        (None, _) | (_, None) => return "unsure",
        _ => {}
    }
    const SPEED: [&str; 4] = ["mean", "typical", "p95", "rows_examined"];
    const AMOUNT: [&str; 2] = ["load", "calls"];
    // A load that changes with the calls says nothing about the speed.
    let load = |up| found(&["load"], up) && !found(&["calls"], up);
    match (found(&SPEED, true), found(&SPEED, false), found(&AMOUNT, true), found(&AMOUNT, false)) {
        (true, true, _, _) => "mixed",
        (true, false, _, _) if load(false) => "mixed",
        (false, true, _, _) if load(true) => "mixed",
        (true, false, _, _) => "slower",
        (false, true, _, _) => "faster",
        (false, false, true, false) => "more",
        (false, false, false, true) => "less",
        (false, false, true, true) => "mixed",
        _ if change.tests.is_empty() => "unsure",
        _ => "same",
    }
}
