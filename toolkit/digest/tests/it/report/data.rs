//! Reports for the tests: one made from a log, one of the largest size, one with hostile texts.

use std::fmt::Write;
use std::sync::Arc;

use frond_digest::report::model::{
    Bucket, Class, Histogram, Input, Metric, Overall, Plan, PlanCount, Point, Report, Sample,
    Series, Share, Table, SCHEMA,
};
use frond_digest::report::rank::Limit;
use frond_digest::report::{build, Options};
use frond_digest::run::{run, Settings};
use frond_querylog::input::Origin;

/// Texts that break out of any context that does not escape them.
pub const HOSTILE: [&str; 9] = [
    "select '</script><script>document.documentElement.dataset.broken=1</script>' from t",
    "select \"<img src=x onerror='document.documentElement.dataset.broken=2'>\" from t where a='<!--'",
    "select '{{data}}', '{{script}}', '\\u003c', '\\' from t",
    "select 'nul \0 bell \u{7} escape \u{1b}[31m' from t",
    "select 'right to left \u{202e} txet \u{2066} isolate \u{200f}' from t",
    "select '\u{2028} line \u{2029} paragraph' from t",
    "select '&lt;b&gt; &amp; &#0;' from `a\"b'c`",
    "=cmd|' /C calc'!A0",
    "]]> --> */ \u{fffd}\u{fffd} \u{1f600} \u{feff}",
];

/// A slow log as MariaDB writes it, with a daily rhythm; `slow` makes one class slower. The same on each
/// call.
pub fn log(days: u64, slow: f64, with_new: bool) -> String {
    let mut log = String::new();
    let mut seed = 88_172_645_463_325_252_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) as f64 / (1_u64 << 53) as f64
    };
    let start = 1_767_225_600_u64;
    for minute in 0..days * 1440 {
        let hour = (minute / 60 % 24) as f64;
        let busy = 1.0 + (2.0 - ((hour - 14.0) / 4.0).abs()).max(0.0) * 2.0;
        for i in 0..(busy * 1.5) as u64 {
            let at = start + minute * 60 + i * 60 / 8;
            let spread = (-random().max(1e-9).ln()).powf(1.3);
            let which = random();
            let id = (random() * 1e6) as u64;
            let (user, db, time, rows, sent, sql) = match () {
                () if which < 0.40 => ("web", "shop", 0.004 * spread * slow, 120, 1,
                    format!("SELECT p.*, s.quantity FROM products p JOIN stock s ON s.product_id = p.id WHERE p.id = {id}")),
                () if which < 0.60 => ("web", "shop", 0.09 * spread, 48_000, 20,
                    format!("SELECT o.id, o.total, c.name FROM orders o LEFT JOIN customers c ON c.id = o.customer_id WHERE o.state = 'open' AND o.created > '2026-01-{:02}' ORDER BY o.created DESC LIMIT 20", id % 28 + 1)),
                () if which < 0.75 => ("web", "shop", 0.002 * spread, 0, 0,
                    format!("INSERT INTO events (customer_id, kind, payload) VALUES ({id}, 'view', '{{\"page\": {}}}')", id % 99)),
                () if which < 0.88 => ("api", "shop", 0.012 * spread, 1, 0,
                    format!("UPDATE carts SET updated = NOW(), total = total + {}.99 WHERE customer_id = {id}", id % 50)),
                () if which < 0.97 || hour > 4.0 => ("api", "auth", 0.001 * spread, 1, 1,
                    format!("SELECT * FROM sessions WHERE token = 'x{id:06x}'")),
                () => ("report", "warehouse", 4.0 * spread, 2_000_000, 300,
                    "SELECT /* nightly */ region, SUM(total) FROM sales WHERE day BETWEEN '2025-12-01' AND '2025-12-31' GROUP BY region -- for the board".to_owned()),
            };
            event(&mut log, at, user, db, time, rows, sent, &sql);
        }
        if with_new && minute % 3 == 0 {
            event(
                &mut log,
                start + minute * 60 + 59,
                "web",
                "shop",
                0.2,
                9_000,
                5,
                &format!("SELECT * FROM recommendations WHERE customer_id = {minute}"),
            );
        }
    }
    log
}

#[allow(clippy::too_many_arguments)]
fn event(
    log: &mut String,
    at: u64,
    user: &str,
    db: &str,
    time: f64,
    rows: u64,
    sent: u64,
    sql: &str,
) {
    let lock = time * 0.02;
    let full = if rows > 10_000 { "Yes" } else { "No" };
    let n = at % 4 + 11;
    writeln!(log, "# User@Host: {user}[{user}] @ app{n} [10.0.0.{n}]\n# Thread_id: {}  Schema: {db}  QC_hit: No\n# Query_time: {time:.6}  Lock_time: {lock:.6}  Rows_sent: {sent}  Rows_examined: {rows}\n# Rows_affected: 0  Bytes_sent: {}\n# Full_scan: {full}  Full_join: No  Tmp_table: {full}  Tmp_table_on_disk: No\n# Filesort: {full}  Filesort_on_disk: No  Merge_passes: 0  Priority_queue: No\n#\n# explain: id\tselect_type\ttable\ttype\tpossible_keys\tkey\tkey_len\tref\trows\tr_rows\tfiltered\tr_filtered\tExtra\n# explain: 1\tSIMPLE\tt\t{}\tNULL\tNULL\tNULL\tNULL\t{rows}\t{rows}.00\t100.00\t5.00\tUsing where; Using filesort\n#\nSET timestamp={at};\n{sql};",
        at % 7 + 40, sent * 90 + 60, if rows > 10_000 { "ALL" } else { "ref" }).unwrap();
}

/// The report of a log, all classes.
pub fn report_of(log: &[u8]) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mariadb-slow.log");
    std::fs::write(&path, log).unwrap();
    let settings = Settings { patterns: true, ..Settings::default() };
    let mut outcome = run(&[Origin::of(&path)], &Arc::new(settings), &mut |_| {}).ok().unwrap();
    let options = Options {
        limit: Limit { share: 1.0, most: 10_000 },
        sample_bytes: 4096,
        ..Options::default()
    };
    let mut report = build(&mut outcome, &options);
    for input in &mut report.inputs {
        input.name = "mariadb-slow.log".into();
    }
    for class in &mut report.classes {
        if let Some(sample) = &mut class.sample {
            sample.file = "mariadb-slow.log".into();
        }
    }
    report
}

/// A report of `n` classes with everything a class can have, with full series and long texts.
pub fn large(n: u64) -> Report {
    let points: Vec<Point> = (0..256)
        .map(|i| Point {
            at: 1_767_225_600 + i * 360,
            count: 17 + i as u64 % 13,
            time: 0.123_456 * i as f64 + 0.01,
        })
        .collect();
    let series = Series { width: 360, points };
    let buckets = (0..300)
        .map(|i| Bucket {
            low: 1e-6 * 1.05f64.powi(i),
            high: 1e-6 * 1.05f64.powi(i + 1),
            count: 3 + i as u64,
        })
        .collect();
    let times = Histogram { decades: [3, 4, 5, 6, 7, 8, 9, 1], buckets };
    let metric = |i: usize| Metric {
        name: ["Query_time", "Lock_time", "Rows_examined", "Rows_sent"]
            .get(i)
            .map_or_else(|| format!("Metric_{i}"), |n| (*n).into()),
        label: format!("Attribute {i}"),
        unit: if i < 2 { "seconds" } else { "count" }.into(),
        count: 123_456,
        sum: 98_765.432_1,
        min: 0.000_012_345,
        max: 99.876_543,
        mean: 0.800_012_3,
        p50: 0.5,
        p95: 2.512_345,
        p99: 3.3,
        p999: 9.9,
        quantile_error: 0.025,
        stddev: 1.234_567,
        share: 0.001_234_5,
    };
    let metrics: Vec<Metric> = (0..20).map(metric).collect();
    let shares: Vec<Share> = (0..20)
        .map(|i| Share { name: format!("some_user_name_{i}"), count: 4_000 + i, time: 12.345 })
        .collect();
    let class = |rank: u64| {
        let text = HOSTILE[rank as usize % HOSTILE.len()];
        Class {
            rank,
            id: format!("{rank:032X}"),
            key: format!(
                "{text} /* {} */",
                "select column_name from table_name where x = ? ".repeat(30)
            ),
            item: format!("SELECT t{rank} {text}"),
            kind: "SELECT".into(),
            tables: vec![
                Table { db: "shop".into(), table: format!("t{rank}") },
                Table { db: String::new(), table: text.into() },
            ],
            events: 1_000_000 / rank,
            statements: 1_000_000 / rank,
            share_of_events: 0.001,
            share_of_time: 1.0 / (rank + 1) as f64,
            per_second: Some(1.234),
            concurrency: Some(0.5),
            first: Some(1_767_225_600_000_000),
            last: Some(1_767_317_760_000_000),
            variance_to_mean: Some(0.3),
            rows_examined_per_row: Some(12.5),
            metrics: metrics.clone(),
            times: times.clone(),
            series: series.clone(),
            narrow: None,
            users: shares.clone(),
            hosts: shares.clone(),
            dbs: shares.clone(),
            sample: Some(Sample {
                sql: format!("{text}{}", ", 'value'".repeat(400)),
                length: 100_000,
                time: Some(9.5),
                start: Some(1_767_225_600_000_000),
                db: "shop".into(),
                user: text.into(),
                host: text.into(),
                thread_id: Some(7),
                file: text.into(),
                offset: 12_345,
                plan: Some(Plan {
                    columns: vec!["id".into(), text.into()],
                    rows: vec![vec!["1".into(), text.into()]; 12],
                }),
                warnings: vec![text.into(); 5],
                routine: text.into(),
                error: Some(1205),
                error_text: text.into(),
                ..Sample::default()
            }),
            plans: (0..8)
                .map(|i| PlanCount { id: format!("{i:016x}"), count: 5, of_sample: i == 0 })
                .collect(),
            ..Class::default()
        }
    };
    Report {
        schema: SCHEMA,
        generator: "frond digest".into(),
        inputs: vec![Input {
            name: HOSTILE[0].into(),
            format: "slow log".into(),
            bytes: 5_000_000_000,
        }],
        overall: Overall {
            events: 1_000_000,
            statements: 1_000_000,
            classes: n,
            first: Some(1_767_225_600_000_000),
            last: Some(1_767_317_760_000_000),
            seconds: Some(92_160.0),
            metrics: metrics.clone(),
            times: times.clone(),
            series: series.clone(),
            users: shares.clone(),
            ..Overall::default()
        },
        classes: (1..=n).map(class).collect(),
        notes: HOSTILE.iter().map(|t| (*t).to_owned()).collect(),
        ..Report::default()
    }
}
