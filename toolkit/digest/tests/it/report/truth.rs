//! Every number of a report compared with the truth, which the generator of the log knows; in all forms of the
//! report.

use std::collections::BTreeMap;
use std::fmt::Write;

use frond_digest::report::model::{Class, Metric, Report};
use frond_digest::report::{csv, html, json, text};

use super::data::report_of;

/// The true events of one class; durations in nanoseconds.
#[derive(Default)]
struct Truth {
    times: Vec<f64>,
    locks: Vec<f64>,
    examined: Vec<f64>,
    sent: f64,
    full_scans: u64,
    users: BTreeMap<&'static str, u64>,
    hosts: BTreeMap<String, u64>,
    ends: Vec<i64>,
    slowest: String,
}

const START: i64 = 1_767_225_600;
const CLASSES: [(&str, &str, f64); 3] = [
    ("select * from orders where id = ", "shop", 0.02),
    ("update stock set n = n - 1 where id = ", "stock", 0.3),
    ("select c.* from customers c join orders o on o.c = c.id where o.id = ", "shop", 1.0),
];

/// A log of 3000 statements in three classes, with the true figures of each. Durations spread over
/// five decades.
fn made() -> (String, Vec<Truth>) {
    let mut seed = 0x1234_5678_9abc_def1_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut truths: Vec<Truth> = CLASSES.iter().map(|_| Truth::default()).collect();
    let mut log = String::new();
    for i in 0..3000_i64 {
        let which = (random() * random() * 3.0) as usize;
        let (sql, db, scale) = CLASSES[which];
        let truth = &mut truths[which];
        let micros = (scale * (-random().max(1e-12).ln()).powi(3) * 1e6).round().max(1.0);
        let lock = (micros * random() * 0.1).round();
        let (sent, examined) = ((random() * 5.0).floor(), (random() * 2000.0).floor());
        let user = ["web", "api", "report"][(random() * random() * 3.0) as usize];
        let host = format!("app{}", (random() * 4.0) as u64);
        let full = random() < 0.3;
        let start = START + i;
        let sql = format!("{sql}{i}");
        if truth.times.iter().all(|t| *t <= micros * 1e3) {
            truth.slowest = sql.clone();
        }
        truth.times.push(micros * 1e3);
        truth.locks.push(lock * 1e3);
        truth.examined.push(examined);
        truth.sent += sent;
        truth.full_scans += u64::from(full);
        *truth.users.entry(user).or_default() += 1;
        *truth.hosts.entry(host.clone()).or_default() += 1;
        truth.ends.push(start * 1_000_000 + micros as i64);
        let (time, lock) = (micros / 1e6, lock / 1e6);
        let full = if full { "Yes" } else { "No" };
        write!(log, "# User@Host: {user}[{user}] @ {host} []\n# Thread_id: {}  Schema: {db}  QC_hit: No\n# Query_time: {time:.6}  Lock_time: {lock:.6}  Rows_sent: {sent}  Rows_examined: {examined}\n# Full_scan: {full}  Full_join: No  Tmp_table: No  Tmp_table_on_disk: No\nSET timestamp={start};\n{sql};\n", i % 9).unwrap();
    }
    (log, truths)
}

fn near(what: &str, said: f64, truth: f64, relative: f64) {
    assert!((said - truth).abs() <= truth.abs() * relative + 1e-9, "{what}: {said}, truly {truth}");
}

/// Checks count, sum, bounds, mean, deviation and quantiles of an attribute; `unit` is the size of a value's 1.
fn check_metric(what: &str, metric: &Metric, values: &[f64], unit: f64, whole: f64) {
    let mut sorted: Vec<f64> = values.iter().map(|v| v / unit).collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let sum: f64 = sorted.iter().sum();
    let mean = sum / n;
    let deviation = (sorted.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    assert_eq!(metric.count as usize, sorted.len(), "{what}");
    near(&format!("{what} sum"), metric.sum, sum, 1e-9);
    near(&format!("{what} min"), metric.min, sorted[0], 1e-9);
    near(&format!("{what} max"), metric.max, sorted[sorted.len() - 1], 1e-9);
    near(&format!("{what} mean"), metric.mean, mean, 1e-9);
    near(&format!("{what} stddev"), metric.stddev, deviation, 1e-6);
    near(&format!("{what} share"), metric.share, sum * unit / whole, 1e-9);
    assert!(metric.quantile_error > 0.0 && metric.quantile_error < 0.05, "{what}");
    for (q, said) in
        [(0.5, metric.p50), (0.95, metric.p95), (0.99, metric.p99), (0.999, metric.p999)]
    {
        let at = ((n * q).ceil() as usize).clamp(1, sorted.len()) - 1;
        // It is a convention which of two neighbours is the quantile.
        let low = sorted[at.saturating_sub(1)] * (1.0 - metric.quantile_error);
        let high = sorted[(at + 1).min(sorted.len() - 1)] * (1.0 + metric.quantile_error);
        assert!(
            said >= low - 1e-9 && said <= high + 1e-9,
            "{what} {q}: {said} not in {low}..{high}"
        );
    }
}

fn truth_of(class: &Class) -> usize {
    let begin = |sql: &str| sql.split(' ').take(4).map(str::to_owned).collect::<Vec<_>>();
    CLASSES.iter().position(|(sql, _, _)| begin(sql) == begin(&class.key)).unwrap()
}

#[test]
fn every_number_is_the_truth() {
    let (log, truths) = made();
    let report = report_of(log.as_bytes());
    let all = &report.overall;
    let sum = |of: fn(&Truth) -> &Vec<f64>| truths.iter().flat_map(of).sum::<f64>();
    let whole = sum(|t| &t.times);
    assert_eq!((all.events, all.classes, report.classes.len()), (3000, 3, 3));
    let times: Vec<f64> = truths.iter().flat_map(|t| t.times.clone()).collect();
    check_metric("all times", all.metric("Query_time").unwrap(), &times, 1e9, whole);
    let last = truths.iter().flat_map(|t| t.ends.clone()).max().unwrap();
    assert_eq!((all.first, all.last), (Some(START * 1_000_000), Some(last)));
    near("rate", all.per_second.unwrap(), 3000.0 / ((last - START * 1_000_000) as f64 / 1e6), 1e-9);
    let orders = all.tables.iter().find(|t| t.name == "shop.orders").unwrap();
    assert_eq!(orders.count as usize, truths[0].times.len() + truths[2].times.len());
    let mut order: Vec<(f64, usize)> =
        truths.iter().enumerate().map(|(i, t)| (t.times.iter().sum(), i)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (class, (time, which)) in report.classes.iter().zip(&order) {
        let (truth, what) = (&truths[*which], CLASSES[*which].0);
        assert_eq!(truth_of(class), *which, "ranked by total time");
        assert_eq!(class.events as usize, truth.times.len());
        near("share", class.share_of_time, time / whole, 1e-9);
        check_metric(what, class.time().unwrap(), &truth.times, 1e9, whole);
        check_metric(
            "lock",
            class.metric("Lock_time").unwrap(),
            &truth.locks,
            1e9,
            sum(|t| &t.locks),
        );
        let examined: f64 = truth.examined.iter().sum();
        check_metric(
            "rows",
            class.metric("Rows_examined").unwrap(),
            &truth.examined,
            1.0,
            sum(|t| &t.examined),
        );
        near("examined per row", class.rows_examined_per_row.unwrap(), examined / truth.sent, 1e-9);
        let m = class.time().unwrap();
        near("v/m", class.variance_to_mean.unwrap(), m.stddev * m.stddev / m.mean, 1e-9);
        let flag = class.flags.iter().find(|f| f.name == "Full_scan").unwrap();
        assert_eq!((flag.count, flag.yes), (class.events, truth.full_scans));
        for (names, shares) in [
            (
                truth.users.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect::<BTreeMap<_, _>>(),
                &class.users,
            ),
            (truth.hosts.clone(), &class.hosts),
        ] {
            assert_eq!(
                shares.iter().map(|s| (s.name.clone(), s.count)).collect::<BTreeMap<_, _>>(),
                names
            );
        }
        assert_eq!(class.dbs.len(), 1);
        assert_eq!(
            (class.dbs[0].name.as_str(), class.dbs[0].count),
            (CLASSES[*which].1, class.events)
        );
        // A bucket is twice its error wide and may straddle a power of ten.
        let off = 2.0 * class.time().unwrap().quantile_error;
        let mut below = 0;
        for (i, n) in class.times.decades.iter().enumerate().take(7) {
            below += n;
            let border = 10_f64.powi(i as i32 + 4);
            let truly = |border: f64| truth.times.iter().filter(|t| **t < border).count() as u64;
            assert!(
                truly(border * (1.0 - off)) <= below && below <= truly(border * (1.0 + off)),
                "{what} {i}"
            );
        }
        assert_eq!(class.times.decades.iter().sum::<u64>(), class.events);
        assert_eq!(class.times.buckets.iter().map(|b| b.count).sum::<u64>(), class.events);
        // Statements count where they end, their time where they ran.
        let width = class.series.width * 1_000_000;
        let mut intervals: BTreeMap<i64, (u64, i64)> = BTreeMap::new();
        for (end, nanos) in truth.ends.iter().zip(&truth.times) {
            intervals.entry(end.div_euclid(width)).or_default().0 += 1;
            let mut at = end - (*nanos / 1e3) as i64;
            while at < *end {
                let to = ((at.div_euclid(width) + 1) * width).min(*end);
                intervals.entry(at.div_euclid(width)).or_default().1 += to - at;
                at = to;
            }
        }
        let found = class
            .series
            .points
            .iter()
            .map(|p| (p.at / class.series.width, (p.count, (p.time * 1e6).round() as i64)));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), intervals);
        assert_eq!(class.sample.as_ref().unwrap().sql, truth.slowest);
    }
    every_form_says_it(&report);
}

/// Checks that each format has the contents of the document.
fn every_form_says_it(report: &Report) {
    let written = |write: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let terminal = written(&|out| text::write(report, 80, out));
    let table = written(&|out| csv::write(report, out));
    let page = written(&|out| html::write(report, None, out));
    let document = written(&|out| json::write(report, false, out));
    let lines = written(&|out| json::write_lines(report, out));
    assert!(
        terminal.lines().all(|l| l.chars().count() <= 80 || !l.starts_with('#')),
        "80 columns:\n{terminal}"
    );
    let data: serde_json::Value = serde_json::from_str(
        page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0,
    )
    .unwrap();
    for (i, class) in report.classes.iter().enumerate() {
        let time = class.time().unwrap();
        for number in [time.sum, time.p999, class.variance_to_mean.unwrap()] {
            for (form, text) in [("csv", &table), ("json", &document), ("ndjson", &lines)] {
                assert!(text.contains(&number.to_string()), "{form} {number}");
            }
        }
        let row = &data["classes"][i]["metrics"][0];
        near("html sum", row[2].as_f64().unwrap(), time.sum, 1e-3);
        near("html p99.9", row[9].as_f64().unwrap(), time.p999, 1e-3);
        let sample = &class.sample.as_ref().unwrap().sql;
        for (form, text) in [("terminal", &terminal), ("csv", &table), ("ndjson", &lines)] {
            assert!(
                text.contains(sample.as_str()) && text.contains(&class.id),
                "{form} {}",
                class.item
            );
        }
        assert_eq!(data["classes"][i]["sample"]["sql"], sample.as_str());
        assert_eq!(data["classes"][i]["id"], class.id.as_str());
    }
    for part in [
        "# Overall: 3000 total, 3 unique",
        "# Time range: ",
        "# Profile",
        "R/Call",
        "V/M",
        "# Boolean:",
        "# String:",
        "# Query_time distribution",
        "SHOW CREATE TABLE",
        "# Over time",
        "p99.9 = ",
        "Rank Query ID",
    ] {
        assert!(terminal.contains(part), "terminal: no {part}:\n{terminal}");
    }
}
