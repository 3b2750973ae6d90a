//! The document in the form that the page's script reads: the same facts, smaller, within a bound of bytes.
//!
//! Series and histograms get fewer intervals, numbers are rounded to what is shown, and metrics are rows of a
//! table whose names are written once. If that does not fit, classes are shortened step by step (`LEVELS`), the first
//! classes last. If even that does not fit, the last classes are left out. The page says so.

use std::collections::HashMap;
use std::io;

use frond_page::escaped;
use serde_json::{json, Map, Value};

use crate::report::build::OTHERS;
use crate::report::diff::Diff;
use crate::report::model::{Class, Flag, Histogram, Metric, Report, Sample, Series, Share};
use crate::report::text::capture_lines;
use crate::stats::series::covering;

/// How much of a class is kept.
struct Level {
    points: i64,
    sql: usize,
    key: usize,
    shares: usize,
    /// The first ones are the metrics that people ask for.
    metrics: usize,
    /// Rows of a plan, warnings, plans.
    rows: usize,
}

const LEVELS: [Level; 6] = [
    Level { points: 240, sql: 16_384, key: 8_192, shares: 20, metrics: 1000, rows: 100 },
    Level { points: 120, sql: 4_096, key: 2_048, shares: 12, metrics: 100, rows: 40 },
    Level { points: 80, sql: 1_500, key: 800, shares: 8, metrics: 24, rows: 20 },
    Level { points: 48, sql: 500, key: 300, shares: 4, metrics: 10, rows: 8 },
    Level { points: 24, sql: 200, key: 160, shares: 2, metrics: 6, rows: 2 },
    Level { points: 12, sql: 120, key: 100, shares: 1, metrics: 4, rows: 1 },
];
impl Level {
    /// Bytes of a name.
    fn name(&self) -> usize {
        (self.key / 4).min(200)
    }
}

/// Classes that are shortened one level less than the others.
const FIRST: usize = 20;
/// The bin of all values up to a microsecond and a half.
const SHORTEST: i64 = -30;
/// Intervals of the chart over all classes.
const WHOLE_POINTS: i64 = 480;
/// Bytes of names, sentences and the like.
const TEXT: usize = 400;
const LIST: usize = 200;

/// The page's data as JSON that may stand in a `script` element, at most `limit` bytes.
pub fn data(report: &Report, diff: Option<&Diff>, limit: usize) -> io::Result<String> {
    let names = Names::of(report);
    let mut last = Vec::new();
    for (i, level) in LEVELS.iter().enumerate() {
        let mut classes = Vec::new();
        for (at, class) in report.classes.iter().enumerate() {
            let level = if at < FIRST { &LEVELS[i.saturating_sub(1)] } else { level };
            classes.push(escaped(&names.class(report, class, level))?);
        }
        let cut = (i > 0).then_some(
            "Charts, statements and lists of the classes were shortened to keep this file small; --json has everything.".to_owned(),
        );
        let text = assemble(report, diff, &names, &classes, cut)?;
        if text.len() <= limit {
            return Ok(text);
        }
        last = classes;
    }
    let shell = assemble(report, diff, &names, &[], Some("x".repeat(TEXT)))?.len();
    let mut kept = 0;
    let mut sum = shell;
    while let Some(class) = last.get(kept).filter(|c| sum + c.len() < limit) {
        sum += class.len() + 1;
        kept += 1;
    }
    let cut = format!(
        "This page has the first {kept} of {} classes, shortened; --json has everything.",
        report.classes.len()
    );
    assemble(report, diff, &names, &last[..kept], Some(cut))
}

fn assemble(
    report: &Report,
    diff: Option<&Diff>,
    names: &Names,
    classes: &[String],
    cut: Option<String>,
) -> io::Result<String> {
    let shell = escaped(&names.shell(report, diff, cut))?;
    let body = shell.strip_suffix('}').unwrap_or(&shell);
    Ok(format!("{body},\"classes\":[{}]}}", classes.join(",")))
}

/// Names of metrics and flags, which classes refer to by number.
struct Names {
    metrics: Vec<Value>,
    metric_at: HashMap<String, usize>,
    flags: Vec<String>,
    flag_at: HashMap<String, usize>,
}

impl Names {
    fn of(report: &Report) -> Names {
        let mut names = Names {
            metrics: Vec::new(),
            metric_at: HashMap::new(),
            flags: Vec::new(),
            flag_at: HashMap::new(),
        };
        let all = &report.overall;
        for metric in all.metrics.iter().chain(report.classes.iter().flat_map(|c| &c.metrics)) {
            names.metric_at.entry(metric.name.clone()).or_insert_with(|| {
                names.metrics.push(json!({
                    "name": cut(&metric.name, TEXT).0, "label": cut(&metric.label, TEXT).0,
                    "unit": metric.unit, "quantile_error": number(metric.quantile_error),
                }));
                names.metrics.len() - 1
            });
        }
        for flag in all.flags.iter().chain(report.classes.iter().flat_map(|c| &c.flags)) {
            names.flag_at.entry(flag.name.clone()).or_insert_with(|| {
                names.flags.push(cut(&flag.label, TEXT).0);
                names.flags.len() - 1
            });
        }
        names
    }

    /// Everything but the classes.
    fn shell(&self, report: &Report, diff: Option<&Diff>, note: Option<String>) -> Value {
        let (o, l) = (&report.overall, &report.loss);
        let short = |text: &String| cut(text, TEXT).0;
        let mut overall = Object::default();
        overall
            .put("events", json!(o.events))
            .put("left_out", json!(o.left_out))
            .put("statements", json!(o.statements))
            .put("classes", json!(o.classes))
            .put("folded", json!(o.folded))
            .put("first", json!(o.first))
            .put("last", json!(o.last))
            .put("seconds", option(o.seconds))
            .put("per_second", option(o.per_second))
            .put("concurrency", option(o.concurrency))
            .put("errors", json!(o.errors))
            .put("unmeasured", json!(o.unmeasured))
            .put("metrics", self.metrics(&o.metrics))
            .put("flags", self.flags(&o.flags))
            .put("times", times(&o.times))
            .put("series", series(&o.series, &o.series, WHOLE_POINTS))
            .put("users", shares(&o.users, LIST))
            .put("hosts", shares(&o.hosts, LIST))
            .put("dbs", shares(&o.dbs, LIST))
            .put("tables", shares(&o.tables, LIST));
        let mut overall = Value::Object(overall.0);
        // The script reads these without checking that they exist.
        for name in ["events", "classes", "statements"] {
            overall[name] = overall.get(name).cloned().unwrap_or_else(|| json!(0));
        }
        json!({
            "generator": short(&report.generator),
            "generated": report.generated,
            "metric_names": self.metrics,
            "flag_names": self.flags,
            "inputs": report.inputs.iter().take(LIST).map(|i| json!({"name": short(&i.name), "format": i.format, "bytes": i.bytes})).collect::<Vec<_>>(),
            "selection": {
                "filter": report.selection.filter.as_ref().map(short),
                "since": report.selection.since, "until": report.selection.until,
                "group_by": short(&report.selection.group_by), "order": short(&report.selection.order),
                "order_unit": report.selection.order_unit, "order_title": by_itself(report),
                "redacted": report.selection.redacted,
            },
            "overall": overall,
            "rest": report.rest.as_ref().map(|r| json!({"classes": r.classes, "events": r.statements.max(r.events), "time": number(r.time), "share_of_time": number(r.share_of_time)})),
            "loss": {
                "problems": l.problems.iter().take(LIST).map(|p| json!({"input": short(&p.input), "what": short(&p.what)})).collect::<Vec<_>>(),
                "skips": l.skips.iter().take(LIST).collect::<Vec<_>>(),
                "places": l.places.iter().take(50).map(|p| json!({"why": short(&p.why), "input": short(&p.input), "offset": p.offset, "bytes": p.bytes})).collect::<Vec<_>>(),
                "capture": l.capture.as_ref().map(capture_lines),
            },
            "notes": report.notes.iter().take(LIST).map(short).collect::<Vec<_>>(),
            "patterns": report.patterns.as_ref().map(|p| json!({
                "transactions": p.transactions,
                "statements_per_transaction": number(p.statements_per_transaction),
                "repeated": p.repeated.iter().take(50).map(|r| json!({
                    "id": short(&r.id), "item": short(&r.items()),
                    "ids": r.then.iter().map(|s| short(&s.id)).collect::<Vec<_>>(), "runs": r.runs, "statements": r.statements,
                    "longest": r.longest, "time": number(r.time), "after": short(&r.after),
                })).collect::<Vec<_>>(),
            })),
            "diff": diff.map(changes),
            "cut": note,
        })
    }

    fn metrics(&self, metrics: &[Metric]) -> Value {
        let row = |m: &Metric| {
            let numbers =
                [m.sum, m.min, m.max, m.mean, m.p50, m.p95, m.p99, m.p999, m.stddev, m.share];
            let head = [json!(self.metric_at.get(&m.name)), json!(m.count)];
            Value::Array(head.into_iter().chain(numbers.map(number)).collect())
        };
        Value::Array(metrics.iter().map(row).collect())
    }

    fn flags(&self, flags: &[Flag]) -> Value {
        Value::Array(
            flags.iter().map(|f| json!([self.flag_at.get(&f.name), f.count, f.yes])).collect(),
        )
    }

    fn class(&self, report: &Report, class: &Class, level: &Level) -> Value {
        let (key, key_cut) = cut(&class.key, level.key);
        let tables: Vec<String> = class
            .tables
            .iter()
            .take(level.shares)
            .map(
                |t| if t.db.is_empty() { t.table.clone() } else { format!("{}.{}", t.db, t.table) },
            )
            .map(|t| cut(&t, level.name()).0)
            .collect();
        let plans: Vec<Value> = class
            .plans
            .iter()
            .take(level.rows)
            .map(|p| json!([cut(&p.id, 16).0, p.count, p.of_sample]))
            .collect();
        let mut object = Object::default();
        object
            .put("id", json!(cut(&class.id, 64).0))
            .put("item", json!(cut(&class.item, level.name() * 2).0))
            .put("key_cut", json!(key_cut))
            .put("kind", json!(class.kind))
            .put("tables", json!(tables))
            .put("user_class", json!(class.user_class))
            .put("reason", json!(class.reason))
            .put("statements", json!(class.statements))
            .keep("rank_value", option(class.rank_value))
            .put("share_of_events", number(class.share_of_events))
            .put("share_of_time", number(class.share_of_time))
            .put("per_second", option(class.per_second))
            .put("concurrency", option(class.concurrency))
            .put("first", json!(class.first))
            .put("last", json!(class.last))
            .put("variance_to_mean", option(class.variance_to_mean))
            .put("rows_examined_per_row", option(class.rows_examined_per_row))
            .put("metrics", self.metrics(&class.metrics[..class.metrics.len().min(level.metrics)]))
            .put("flags", self.flags(&class.flags))
            .put("errors", json!(class.errors))
            .put("error", json!(class.error))
            .put("unmeasured", json!(class.unmeasured))
            .put("prepares", json!(class.prepares))
            .put("executes", json!(class.executes))
            .put("times", times(&class.times))
            .put("series", series(&class.series, &report.overall.series, level.points))
            .put("users", shares(&class.users, level.shares))
            .put("hosts", shares(&class.hosts, level.shares))
            .put("dbs", shares(&class.dbs, level.shares))
            .put(
                "sample",
                class
                    .sample
                    .as_ref()
                    .map_or(Value::Null, |s| sample(s, level, report.selection.redacted)),
            )
            .put("plans", json!(plans))
            .put(
                "sampled",
                class.sampled.as_ref().map_or(Value::Null, |all| {
                    let numbers = [all.statements, all.statements_error, all.time, all.time_error];
                    Value::Array(numbers.map(number).into())
                }),
            );
        object.0.insert("rank".into(), json!(class.rank));
        object.0.insert("key".into(), json!(key));
        object.0.insert("events".into(), json!(class.events));
        Value::Object(object.0)
    }
}

/// The title of the ranking attribute's column; `None` if the page has that column anyway.
fn by_itself(report: &Report) -> Option<&str> {
    let s = &report.selection;
    let there = ["total rows examined", "total lock time", "largest exec time"];
    (!s.order_title.is_empty() && !there.contains(&s.order.as_str())).then_some(&s.order_title)
}

/// A JSON object that omits empty members.
#[derive(Default)]
struct Object(Map<String, Value>);

impl Object {
    fn put(&mut self, name: &str, value: Value) -> &mut Object {
        let nothing = match &value {
            Value::Null | Value::Bool(false) => true,
            Value::Number(n) => n.as_f64() == Some(0.0),
            Value::String(s) => s.is_empty(),
            Value::Array(a) => a.is_empty(),
            Value::Object(o) => o.is_empty(),
            Value::Bool(true) => false,
        };
        if !nothing {
            self.0.insert(name.into(), value);
        }
        self
    }

    /// Adds the member even if it is 0, which differs from having none.
    fn keep(&mut self, name: &str, value: Value) -> &mut Object {
        if !value.is_null() {
            self.0.insert(name.into(), value);
        }
        self
    }
}

fn sample(sample: &Sample, level: &Level, redacted: bool) -> Value {
    let (sql, short) = cut(&sample.sql, level.sql);
    let most = level.name();
    let name = |text: &String| json!(cut(text, most).0);
    let plan = sample.plan.as_ref().map(|p| {
        let row = |cells: &Vec<String>| {
            cells.iter().take(24).map(|c| cut(c, most).0).collect::<Vec<String>>()
        };
        json!({"columns": row(&p.columns), "rows": p.rows.iter().take(level.rows).map(row).collect::<Vec<_>>()})
    });
    let warnings: Vec<String> =
        sample.warnings.iter().take(level.rows).map(|w| cut(w, 2 * most).0).collect();
    let mut object = Object::default();
    object
        .put("time", option(sample.time))
        .put("start", json!(sample.start))
        .put("db", name(&sample.db))
        .put("user", name(&sample.user))
        .put("host", name(&sample.host))
        .put("plan", json!(plan))
        .put("warnings", json!(warnings))
        .put("routine", name(&sample.routine))
        .put("error", json!(sample.error))
        .put("error_text", json!(cut(&sample.error_text, 2 * most).0))
        .put("cut", json!(short || sample.is_shortened(redacted)));
    let mut object = object.0;
    object.insert("sql".into(), json!(sql));
    object.insert("length".into(), json!(sample.length));
    object.insert("file".into(), name(&sample.file));
    object.insert("offset".into(), json!(sample.offset));
    if let Some(thread) = sample.thread_id {
        object.insert("thread_id".into(), json!(thread));
    }
    Value::Object(object)
}

fn changes(diff: &Diff) -> Value {
    let mut value = json!(diff);
    let side = |value: &mut Value| {
        if let Some(inputs) = value.get_mut("inputs").and_then(Value::as_array_mut) {
            inputs.truncate(20);
        }
    };
    side(&mut value["before"]);
    side(&mut value["after"]);
    let (quiet, found): (Vec<_>, Vec<_>) =
        diff.changes.iter().partition(|c| matches!(c.verdict.as_str(), "same" | "unsure"));
    let shown = found.iter().take(LIST).chain(quiet.iter().take(LIST)).map(|c| {
        let mut change = json!(c);
        change["key"] = json!(cut(&c.key, 200).0);
        change["item"] = json!(cut(&c.item, 200).0);
        change
    });
    value["changes"] = shown.collect();
    value["found"] = json!(found.len());
    value["quiet"] = json!(quiet.len());
    value
}

/// `[name, count, time]` for the first shares, and one for all others together.
fn shares(shares: &[Share], most: usize) -> Value {
    let row = |s: &Share| json!([cut(&s.name, 120).0, s.count, number(s.time)]);
    let (shown, rest) = shares.split_at(shares.len().min(most));
    if rest.is_empty() {
        return shown.iter().map(row).collect();
    }
    let others = Share {
        name: OTHERS.into(),
        count: rest.iter().fold(0, |sum, s| sum.saturating_add(s.count)),
        time: rest.iter().map(|s| s.time).sum(),
    };
    shown.iter().chain([&others]).map(row).collect()
}

/// Five bins per decade: `[bin, count, ...]`, bin 0 beginning at a second.
fn times(times: &Histogram) -> Value {
    let mut bins: Vec<(i64, u64)> = Vec::new();
    for bucket in times.buckets.iter().filter(|b| b.count > 0) {
        let middle = (bucket.low.max(1e-9) * bucket.high.clamp(1e-9, 1e12)).sqrt();
        let bin = if middle.is_finite() {
            ((middle.log10() * 5.0).floor() as i64).max(SHORTEST)
        } else {
            0
        };
        match bins.iter_mut().find(|(b, _)| *b == bin) {
            Some((_, count)) => *count = count.saturating_add(bucket.count),
            None => bins.push((bin, bucket.count)),
        }
    }
    bins.sort_unstable();
    bins.iter().flat_map(|(bin, count)| [json!(bin), json!(count)]).collect()
}

/// At most `most` intervals over the range of `whole`: start, width and `[steps from the one before, count, time, ...]`.
fn series(series: &Series, whole: &Series, most: i64) -> Value {
    let ends = |s: &Series| Some((s.points.first()?.at, s.points.last()?.at));
    let Some((begin, end)) = ends(whole).or_else(|| ends(series)) else { return Value::Null };
    let width = covering(begin, end, series.width.max(1), most);
    let mut bins: Vec<(i64, u64, f64)> = Vec::new();
    for point in &series.points {
        let at = point.at.div_euclid(width);
        match bins.last_mut() {
            Some(bin) if bin.0 >= at => {
                bin.1 = bin.1.saturating_add(point.count);
                bin.2 += point.time;
            }
            _ => bins.push((at, point.count, point.time)),
        }
    }
    let Some((first, ..)) = bins.first() else { return Value::Null };
    let (start, mut before) = (first.saturating_mul(width), *first);
    bins.truncate(most as usize + 1);
    let points: Vec<Value> = bins
        .iter()
        .flat_map(|(at, count, time)| {
            let step = at.saturating_sub(before);
            before = *at;
            [json!(step), json!(count), rounded(*time, 3)]
        })
        .collect();
    json!({"start": start, "width": width, "points": points})
}

/// Cut at a character; true if something was cut.
fn cut(text: &str, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (text.to_owned(), false);
    }
    let end = (0..=most).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    (format!("{} ...", &text[..end]), true)
}

fn number(value: f64) -> Value {
    rounded(value, 5)
}

fn option(value: Option<f64>) -> Value {
    value.map_or(Value::Null, number)
}

/// Rounded to this many significant digits; integers are unchanged. NaN is null.
fn rounded(value: f64, digits: usize) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    let short: f64 = format!("{value:.*e}", digits - 1).parse().unwrap_or(value);
    if short.fract() == 0.0 && short.abs() < 9e15 {
        return json!(short as i64);
    }
    json!(short)
}
