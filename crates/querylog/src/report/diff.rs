//! What changed between two reports: classes that are new or gone, slower or faster, called more or less.
//!
//! Which difference is more than chance:
//! - `mean`: Welch's t-test on the logarithms of the durations (from the histogram's buckets, whose own width counts as
//!   variance). Durations are far from normal, their logarithms are close enough; the test is of geometric means.
//! - `p95`: the share of statements slower than the 95 % point of both sides together, by a test of two shares.
//! - `rows_examined`: Welch's test on the means as logged.
//! - `load`, `calls`: Welch's test on the intervals of the time series, intervals without a statement included. What
//!   happens in one interval often goes on in the next: the number of intervals is lowered by the correlation of
//!   neighbours.
//! - `presence`: the chance that a class with so many calls on one side has none on the other at the same rate.
//!
//! All p-values of a comparison are adjusted together (Benjamini and Hochberg); a change is called one if the adjusted
//! value is below `LEVEL` and it is at least `LEAST_CHANGE`. Statements of one burst are not independent, so that p is
//! too small where everything happened at once: the notes say so.
//!
//! Invariants:
//! 1. Fewer than `LEAST_CALLS` calls on a side: no test of durations or rows. Without any test a class is `unsure`.
//! 2. A class that a shortened report may have hidden is never called new or gone.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::model::{Class, Report, SCHEMA};
use super::numbers::{count, duration, percentage, plural, time};
use super::significance::{adjust, two_shares, welch, Moments};
use super::text::{paragraph, WIDTH};

/// Findings that may be false.
pub const LEVEL: f64 = 0.01;
/// Smaller changes are not worth a word, however certain.
pub const LEAST_CHANGE: f64 = 0.10;
/// Calls on both sides below which durations are not compared.
pub const LEAST_CALLS: u64 = 10;
/// Intervals on both sides below which series are not compared, after the correction for correlation.
const LEAST_INTERVALS: f64 = 8.0;
/// A hostile report cannot make a series longer than this.
const MOST_INTERVALS: i64 = 10_000;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    pub schema: u32,
    pub generator: String,
    pub before: Side,
    pub after: Side,
    /// Largest difference of load first; of those that are certain.
    pub changes: Vec<Change>,
    pub notes: Vec<String>,
}

/// One of the two reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    pub inputs: Vec<String>,
    pub first: Option<i64>,
    pub last: Option<i64>,
    pub events: u64,
    pub classes: u64,
    /// Seconds in statements.
    pub time: Option<f64>,
    /// Statements running at the same time, on average.
    pub load: Option<f64>,
}

/// A class on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub id: String,
    pub key: String,
    pub item: String,
    /// `new`, `gone`, `slower`, `faster`, `mixed` (one measure says slower, another faster), `more`, `less` (calls or
    /// load, at the same speed), `same` (nothing shown), `unsure` (too few data).
    pub verdict: String,
    pub before: Option<Values>,
    pub after: Option<Values>,
    pub tests: Vec<Test>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Values {
    pub events: u64,
    /// Calls per second of the report's period.
    pub per_second: Option<f64>,
    /// Seconds in statements per second of the report's period.
    pub load: Option<f64>,
    /// Seconds.
    pub time: Option<f64>,
    pub mean: Option<f64>,
    pub p95: Option<f64>,
    /// Per call.
    pub rows_examined: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// `mean`, `p95`, `rows_examined`, `load`, `calls`, `presence`.
    pub what: String,
    /// After divided by before, of what was tested; `None` if before was zero.
    pub ratio: Option<f64>,
    pub p: f64,
    /// `p` adjusted for the number of tests.
    pub adjusted: f64,
    /// Certain enough and large enough.
    pub significant: bool,
}

/// Compares. An error if the reports' classes are of different kinds.
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
        "A change is shown as one if it is at least {} and chance explains it in fewer than {} of such findings (Benjamini-Hochberg); statements of one burst depend on each other, so take a change seen in one short period with care.",
        percentage(LEAST_CHANGE), percentage(LEVEL)
    )];
    for (name, report) in [("before", before), ("after", after)] {
        if let Some(rest) = &report.rest {
            notes.push(format!(
                "The report {name} leaves out {}; what is missing there is not called new or gone. Make it with --limit 100% to compare everything.",
                plural(rest.classes, "class")
            ));
        }
        if report.overall.seconds.is_none_or(|s| s < 1.0) {
            notes.push(format!("The report {name} covers no time that rates could be made of."));
        }
        if report.schema != SCHEMA {
            notes.push(format!(
                "The report {name} has format {}: there, arms of a CASE make classes of their own, which may be called gone or new here. Make it again from the log to compare them.",
                report.schema
            ));
        }
    }
    if before.selection.filter != after.selection.filter {
        notes.push("The reports were made with different filters.".into());
    }
    notes
}

fn values(report: &Report, class: &Class) -> Values {
    let span = report.overall.seconds.filter(|s| *s >= 1.0);
    let time = class.time();
    // Of a sampled log it is all that the events stand for, as the sums are.
    let statements = class.statements.max(class.events) as f64;
    Values {
        events: class.events,
        per_second: span.map(|s| statements / s),
        load: span.zip(time).map(|(s, t)| t.sum / s),
        time: time.map(|t| t.sum),
        mean: time.map(|t| t.mean),
        p95: time.map(|t| t.p95),
        rows_examined: class.metric("Rows_examined").map(|m| m.mean),
    }
}

fn change(before: &Report, after: &Report, old: Option<&Class>, new: Option<&Class>) -> Change {
    let shown = new.or(old);
    let text = |of: fn(&Class) -> &String| shown.map_or_else(String::new, |c| of(c).clone());
    let tests = match (old, new) {
        (Some(old), Some(new)) => tests(before, after, old, new),
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

fn test(what: &str, ratio: Option<f64>, p: f64) -> Test {
    Test { what: what.into(), ratio, p, ..Test::default() }
}

/// For a class that only `with` has. `None` if `without` may have hidden it, or says nothing about itself.
fn presence(with: &Report, without: &Report, class: &Class) -> Option<Test> {
    if without.rest.is_some() {
        return None;
    }
    // Of a sampled log only a part was seen of what happened.
    let amount = |r: &Report| {
        let all = &r.overall;
        let rate = all.statements.max(all.events).max(1) as f64 / all.events.max(1) as f64;
        all.seconds.filter(|s| *s >= 1.0).map(|s| s / rate)
    };
    // Without times, what counts is how much of the other log there is.
    let (here, there) = match (amount(with), amount(without)) {
        (Some(here), Some(there)) => (here, there),
        _ => (with.overall.events as f64, without.overall.events as f64),
    };
    if here + there <= 0.0 {
        return None;
    }
    Some(test("presence", None, (here / (here + there)).powf(class.events as f64)))
}

fn tests(before: &Report, after: &Report, old: &Class, new: &Class) -> Vec<Test> {
    let mut tests = Vec::new();
    let ratio = |a: f64, b: f64| (a > 0.0).then(|| b / a);
    if let (Some(x), Some(y)) = (old.time(), new.time()) {
        if x.count.min(y.count) >= LEAST_CALLS {
            let (a, b) = (log_moments(old), log_moments(new));
            if let Some(p) = welch(a, b) {
                tests.push(test("mean", Some((b.mean - a.mean).exp()), p));
            }
            if let Some(p) = tails(old, new) {
                tests.push(test("p95", ratio(x.p95, y.p95), p));
            }
        }
    }
    if let (Some(x), Some(y)) = (old.metric("Rows_examined"), new.metric("Rows_examined")) {
        if x.count.min(y.count) >= LEAST_CALLS {
            let of = |m: &super::model::Metric| Moments {
                n: m.count as f64,
                mean: m.mean,
                variance: m.stddev * m.stddev,
            };
            if let Some(p) = welch(of(x), of(y)) {
                tests.push(test("rows_examined", ratio(x.mean, y.mean), p));
            }
        }
    }
    let timed = old.time().is_some() && new.time().is_some();
    for (what, pick) in
        [("load", (|p| p.time) as fn(&super::model::Point) -> f64), ("calls", |p| p.count as f64)]
    {
        if what == "load" && !timed {
            continue;
        }
        let (a, b) = (interval_moments(before, old, pick), interval_moments(after, new, pick));
        if let Some((a, b)) = a.zip(b).filter(|(a, b)| a.n.min(b.n) >= LEAST_INTERVALS) {
            if let Some(p) = welch(a, b) {
                tests.push(test(what, ratio(a.mean, b.mean), p));
            }
        }
    }
    tests
}

/// The middle of a bucket on a logarithmic scale and the logarithm of its width.
fn log_bucket(bucket: &super::model::Bucket) -> (f64, f64) {
    // Nothing is faster than a nanosecond; the bucket of zero has to be somewhere.
    let (low, high) = (bucket.low.max(1e-9), bucket.high.max(1.000_001e-9));
    ((low.ln() + high.ln()) / 2.0, (high / low).ln().abs())
}

fn log_moments(class: &Class) -> Moments {
    let weighted = class.times.buckets.iter().map(|b| (log_bucket(b).0, b.count as f64));
    let mut moments = Moments::of(weighted);
    let n = moments.n.max(1.0);
    // Where in its bucket a value lies is not known: a twelfth of the width's square.
    moments.variance += class
        .times
        .buckets
        .iter()
        .map(|b| log_bucket(b).1.powi(2) / 12.0 * b.count as f64)
        .sum::<f64>()
        / n;
    moments
}

/// Tests the shares above the 95 % point of both classes together.
fn tails(old: &Class, new: &Class) -> Option<f64> {
    let mut all: Vec<_> = old.times.buckets.iter().chain(&new.times.buckets).collect();
    all.sort_by(|a, b| a.low.total_cmp(&b.low));
    let total: f64 = all.iter().map(|b| b.count as f64).sum();
    let mut below = 0.0;
    let limit = all.iter().find_map(|b| {
        below += b.count as f64;
        (below >= total * 0.95).then_some(b.low)
    })?;
    let above = |c: &Class| -> f64 {
        c.times.buckets.iter().filter(|b| b.low > limit).map(|b| b.count as f64).sum()
    };
    let all_of = |c: &Class| -> f64 { c.times.buckets.iter().map(|b| b.count as f64).sum() };
    two_shares(above(old), all_of(old), above(new), all_of(new))
}

/// Per second, over the intervals of the report. `n` is lowered by the correlation of neighbouring intervals.
fn interval_moments(
    report: &Report,
    class: &Class,
    pick: fn(&super::model::Point) -> f64,
) -> Option<Moments> {
    let width = class.series.width.max(1);
    let (first, last) = (report.overall.first?, report.overall.last?);
    let begin = first.div_euclid(1_000_000).div_euclid(width);
    let steps = last.div_euclid(1_000_000).div_euclid(width).checked_sub(begin)?.checked_add(1)?;
    if !(2..=MOST_INTERVALS).contains(&steps) {
        return None;
    }
    let mut values = vec![0.0; steps as usize];
    for point in &class.series.points {
        let at = point.at.div_euclid(width).saturating_sub(begin);
        if let Some(value) = usize::try_from(at).ok().and_then(|at| values.get_mut(at)) {
            *value += pick(point) / width as f64;
        }
    }
    let mut moments = Moments::of(values.iter().map(|v| (*v, 1.0)));
    let squares: f64 = values.iter().map(|v| (v - moments.mean).powi(2)).sum();
    if squares > 0.0 {
        let products: f64 =
            values.windows(2).map(|w| (w[0] - moments.mean) * (w[1] - moments.mean)).sum();
        let correlation = (products / squares).clamp(0.0, 0.99);
        moments.n *= (1.0 - correlation) / (1.0 + correlation);
    }
    Some(moments)
}

/// Adjusts the p-values of all tests together and says what became of each class.
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
    const SPEED: [&str; 3] = ["mean", "p95", "rows_examined"];
    const AMOUNT: [&str; 2] = ["load", "calls"];
    match (found(&SPEED, true), found(&SPEED, false), found(&AMOUNT, true), found(&AMOUNT, false)) {
        (true, true, _, _) => "mixed",
        (true, false, _, _) => "slower",
        (false, true, _, _) => "faster",
        (false, false, true, false) => "more",
        (false, false, false, true) => "less",
        (false, false, true, true) => "mixed",
        _ if change.tests.is_empty() => "unsure",
        _ => "same",
    }
}

/// Classes of one verdict that the terminal shows.
const SHOWN: usize = 20;

/// Writes the comparison for a terminal.
pub fn write_text(diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
    paragraph("Before: ", &describe(&diff.before), WIDTH, out)?;
    paragraph("After: ", &describe(&diff.after), WIDTH, out)?;
    for note in &diff.notes {
        paragraph("Note: ", note, WIDTH, out)?;
    }
    let mut shown = 0;
    for (verdict, title) in [
        ("new", "New"),
        ("slower", "Slower"),
        ("mixed", "Changed both ways"),
        ("more", "Called more or more load"),
        ("faster", "Faster"),
        ("less", "Called less or less load"),
        ("gone", "Gone"),
    ] {
        let of: Vec<&Change> = diff.changes.iter().filter(|c| c.verdict == verdict).collect();
        if of.is_empty() {
            continue;
        }
        shown += of.len();
        writeln!(out, "\n# {title}: {}", of.len())?;
        for change in of.iter().take(SHOWN) {
            write_change(change, out)?;
        }
        if of.len() > SHOWN {
            writeln!(out, "#   {} more; --json has all", of.len() - SHOWN)?;
        }
    }
    if shown > 0 {
        writeln!(out, "\n# *: chance does not explain it")?;
    } else {
        writeln!(out, "\n# Nothing changed in a way that chance does not explain.")?;
    }
    let quiet = |verdict: &str| diff.changes.iter().filter(|c| c.verdict == verdict).count();
    writeln!(
        out,
        "\n# No change shown: {}; too few data to say: {}",
        plural(quiet("same") as u64, "class"),
        quiet("unsure")
    )
}

fn describe(side: &Side) -> String {
    let mut text = side.inputs.join(", ");
    if let (Some(first), Some(last)) = (side.first, side.last) {
        text += &format!(", {} to {} UTC", time(first), time(last));
    }
    text += &format!(", {}", plural(side.events, "statement"));
    if let Some(load) = side.load {
        text += &format!(", load {}", count(load));
    }
    text
}

fn write_change(change: &Change, out: &mut dyn Write) -> io::Result<()> {
    let id = if change.id.is_empty() { String::new() } else { format!("0x{} ", change.id) };
    writeln!(out, "#   {id}{}", change.item.replace(|c: char| c.is_control(), " "))?;
    let mut lines = Vec::new();
    let mut cell =
        |name: &str, tested: &str, of: fn(&Values) -> Option<f64>, show: fn(f64) -> String| {
            let (a, b) = (change.before.as_ref().and_then(of), change.after.as_ref().and_then(of));
            let found = change.tests.iter().any(|t| t.what == tested && t.significant);
            let mark = if found { " *" } else { "" };
            let cells = match (a, b) {
                (Some(a), Some(b)) => {
                    let by = if a > 0.0 { format!("{:.2}x", b / a) } else { String::new() };
                    [show(a), show(b), by]
                }
                (Some(a), None) => [show(a), "-".into(), String::new()],
                (None, Some(b)) => ["-".into(), show(b), String::new()],
                (None, None) => return,
            };
            let [before, after, by] = cells;
            let line = format!("#       {name:<20} {before:>8} -> {after:>8} {by:>8}{mark}");
            lines.push(line.trim_end().to_owned());
        };
    cell("load", "load", |v| v.load, count);
    cell("calls/s", "calls", |v| v.per_second, count);
    cell("mean", "mean", |v| v.mean, duration);
    cell("95%", "p95", |v| v.p95, duration);
    cell("rows read per call", "rows_examined", |v| v.rows_examined, count);
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}
