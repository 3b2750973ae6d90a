//! Comparing two reports.

use frond_digest::report::diff::{compare, write_text, Change, Diff};
use frond_digest::report::model::{Report, Rest};

use super::data::{log, report_of};

fn of<'a>(diff: &'a Diff, text: &str) -> &'a Change {
    diff.changes.iter().find(|c| c.key.contains(text)).unwrap_or_else(|| panic!("no {text}"))
}

#[test]
fn what_is_slower_and_new_is_found_and_nothing_else() {
    let before = report_of(log(1, 1.0, false).as_bytes());
    let after = report_of(log(1, 1.6, true).as_bytes());
    let diff = compare(&before, &after).unwrap();
    let slower = of(&diff, "join stock");
    assert_eq!(slower.verdict, "slower");
    let mean = slower.tests.iter().find(|t| t.what == "mean").unwrap();
    assert!(mean.significant && (mean.ratio.unwrap() - 1.6).abs() < 0.15, "{mean:?}");
    assert_eq!(of(&diff, "recommendations").verdict, "new");
    let loud: Vec<&str> = diff
        .changes
        .iter()
        .filter(|c| !matches!(c.verdict.as_str(), "same" | "unsure"))
        .map(|c| c.item.as_str())
        .collect();
    assert_eq!(loud.len(), 2, "{loud:?}");
    let back = compare(&after, &before).unwrap();
    assert_eq!(of(&back, "join stock").verdict, "faster");
    assert_eq!(of(&back, "recommendations").verdict, "gone");
    let mut text = Vec::new();
    write_text(&diff, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("# New: 1") && text.contains("# Slower: 1"), "{text}");
}

#[test]
fn a_report_does_not_differ_from_itself() {
    let report = report_of(log(1, 1.0, true).as_bytes());
    let diff = compare(&report, &report).unwrap();
    assert!(diff.changes.iter().all(|c| matches!(c.verdict.as_str(), "same" | "unsure")));
    let json = serde_json::to_string(&report).unwrap();
    let read: Report = serde_json::from_str(&json).unwrap();
    let again = compare(&read, &report).unwrap();
    assert!(again.changes.iter().all(|c| matches!(c.verdict.as_str(), "same" | "unsure")));
}

#[test]
fn what_a_short_report_may_hide_is_not_gone() {
    let before = report_of(log(1, 1.0, true).as_bytes());
    let mut after = report_of(log(1, 1.0, false).as_bytes());
    assert_eq!(of(&compare(&before, &after).unwrap(), "recommendations").verdict, "gone");
    after.rest = Some(Rest { classes: 3, ..Rest::default() });
    let diff = compare(&before, &after).unwrap();
    assert_eq!(of(&diff, "recommendations").verdict, "unsure");
    assert!(diff.notes.iter().any(|n| n.contains("leaves out 3 classes")));
}

#[test]
fn few_calls_say_nothing() {
    let before = report_of(log(1, 1.0, false).as_bytes());
    let mut few = log(1, 1.0, false);
    few.push_str("# User@Host: a[a] @ h []\n# Query_time: 100  Lock_time: 0  Rows_sent: 0  Rows_examined: 0\nSET timestamp=1767225900;\nselect once;\n");
    let after = report_of(few.as_bytes());
    assert_eq!(of(&compare(&before, &after).unwrap(), "once").verdict, "unsure");
}

#[test]
fn different_classes_are_not_compared() {
    let report = report_of(log(1, 1.0, false).as_bytes());
    let mut other = report.clone();
    other.selection.group_by = "user".into();
    assert!(compare(&report, &other).unwrap_err().contains("different classes"));
    other = report.clone();
    other.schema = 99;
    assert!(compare(&report, &other).unwrap_err().contains("format 99"));
}

/// In format 1 the sums of a sampled log covered only the logged statements.
#[test]
fn stored_reports_of_format_1_are_compared_unless_they_are_of_samples() {
    let report = report_of(log(1, 1.0, false).as_bytes());
    let stored = |text: &str| -> Report { serde_json::from_str(text).unwrap() };
    let text = serde_json::to_string(&report).unwrap();
    assert!(text.starts_with("{\"schema\":3,"), "{}", &text[..40]);
    let of_format = |n: u32| stored(&text.replacen("\"schema\":3", &format!("\"schema\":{n}"), 1));
    assert!(compare(&of_format(2), &report).is_ok());
    let mut old = of_format(1);
    assert_eq!(old.schema, 1);
    let told =
        |notes: &[String]| notes.iter().any(|n| n.starts_with("The report before has format 1"));
    assert!(told(&compare(&old, &report).unwrap().notes));
    assert!(!told(&compare(&report, &report).unwrap().notes));
    old.overall.statements = 20 * old.overall.events;
    let said = compare(&report, &old).unwrap_err();
    assert!(said.contains("format 1") && said.contains("sampled"), "{said}");
}

/// Fields may be added without a new format.
#[test]
fn a_report_that_was_stored_before_fields_were_added_is_read() {
    let stored = include_str!("../../data/report-format-2.json");
    let report: Report = serde_json::from_str(stored).unwrap();
    assert_eq!(
        (report.schema, report.loss.capture.as_ref().map(|c| c.packets > 0)),
        (2, Some(true))
    );
    assert!(compare(&report, &report).is_ok());
}

#[test]
fn hostile_reports_are_compared_without_a_panic() {
    let mut report = report_of(log(1, 1.0, false).as_bytes());
    report.overall.first = Some(i64::MIN);
    report.overall.last = Some(i64::MAX);
    for class in &mut report.classes {
        class.series.width = i64::MAX;
        for (i, point) in class.series.points.iter_mut().enumerate() {
            point.at = if i % 2 == 0 { i64::MIN } else { i64::MAX };
        }
        for bucket in &mut class.times.buckets {
            (bucket.low, bucket.high) = (f64::MAX, 0.0);
        }
        class.events = u64::MAX;
    }
    let diff = compare(&report, &report).unwrap();
    let mut page = Vec::new();
    frond_digest::report::html::write(&report, Some(&diff), &mut page).unwrap();
}

/// One event in twenty, as `log_slow_rate_limit=20` of Percona Server leaves it.
fn thinned(log: &str) -> String {
    let mut seed = 7_u64;
    let mut thin = String::new();
    for event in log.split("# User@Host: ").skip(1) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if seed >> 40 < (1 << 24) / 20 {
            let limit = "\n# Log_slow_rate_type: query  Log_slow_rate_limit: 20\nSET timestamp";
            thin += &format!("# User@Host: {}", event.replacen("\nSET timestamp", limit, 1));
        }
    }
    thin
}

#[test]
fn another_sampling_rate_is_no_change() {
    let before = report_of(log(3, 1.0, false).as_bytes());
    let after = report_of(thinned(&log(3, 1.0, false)).as_bytes());
    assert!(after.overall.statements > 15 * after.overall.events, "the rate was not read");
    for (a, b) in [(&before, &after), (&after, &before)] {
        let diff = compare(a, b).unwrap();
        let loud: Vec<_> = diff
            .changes
            .iter()
            .filter(|c| !matches!(c.verdict.as_str(), "same" | "unsure"))
            .map(|c| (&c.item, &c.verdict, &c.tests))
            .collect();
        assert!(loud.is_empty(), "{loud:#?}");
    }
    // Changes that the data do show are still found.
    let slower = report_of(thinned(&log(3, 1.6, true)).as_bytes());
    let diff = compare(&before, &slower).unwrap();
    assert_eq!(of(&diff, "join stock").verdict, "slower");
    assert_eq!(of(&diff, "recommendations").verdict, "new");
}

/// An hour of one class, a statement each second: most take about `usual` seconds, one in 33 waits for a lock.
fn waits(usual: f64, waiting: bool) -> Report {
    let mut log = String::new();
    for i in 0..3600_u64 {
        let part = (i * 7919 % 3600) as f64 / 3600.0;
        let time = match i * 31 % 33 {
            0 if waiting => 1.0 + part,
            _ => usual * (1.0 + 0.4 * (part - 0.5)),
        };
        log += &format!("# User@Host: a[a] @ h []\n# Query_time: {time:.6}  Lock_time: 0  Rows_sent: 1  Rows_examined: 1\nSET timestamp={};\nselect a from t where b = {i};\n", 1_767_225_600 + i);
    }
    report_of(log.as_bytes())
}

/// Most statements are faster, and yet the mean and the load are several times higher.
#[test]
fn a_faster_95_percent_point_with_a_higher_load_is_no_improvement() {
    let (before, after) = (waits(0.010, false), waits(0.008, true));
    for (a, b, up) in [(&before, &after, true), (&after, &before, false)] {
        let diff = compare(a, b).unwrap();
        let change = of(&diff, "select a from t");
        assert_eq!(change.verdict, "mixed", "{change:#?}");
        let found = |what: &str| change.tests.iter().find(|t| t.what == what && t.significant);
        for (what, up) in [("mean", up), ("load", up), ("p95", !up)] {
            let test = found(what).unwrap_or_else(|| panic!("no {what}: {change:#?}"));
            assert_eq!(test.ratio.unwrap() > 1.0, up, "{test:?}");
        }
    }
}

#[test]
fn reports_made_with_different_filters_are_not_compared() {
    let report = report_of(log(1, 1.0, false).as_bytes());
    let mut other = report.clone();
    other.selection.filter = Some("db == \"shop\"".into());
    for (a, b) in [(&report, &other), (&other, &report)] {
        let said = compare(a, b).unwrap_err();
        assert!(said.contains("db == \"shop\"") && said.contains("same --filter"), "{said}");
    }
    assert!(compare(&other, &other).is_ok());
}

#[test]
fn folded_classes_are_not_brought_back_by_a_higher_limit() {
    let report = report_of(log(1, 1.0, false).as_bytes());
    let mut folded = report.clone();
    folded.rest = Some(Rest { classes: 1, ..Rest::default() });
    folded.overall.folded = 7;
    let told = |notes: &[String], what: &str| notes.iter().any(|n| n.contains(what));
    let notes = compare(&folded, &report).unwrap().notes;
    assert!(told(&notes, "--max-classes") && !told(&notes, "--limit"), "{notes:?}");
    assert!(told(&notes, "leaves out 7 classes"), "{notes:?}");
    folded.rest = Some(Rest { classes: 3, ..Rest::default() });
    let notes = compare(&report, &folded).unwrap().notes;
    assert!(told(&notes, "--max-classes") && told(&notes, "--limit 100%"), "{notes:?}");
    assert!(told(&notes, "leaves out 9 classes"), "{notes:?}");
}

/// Half an hour in which everything is twelve times slower must not hide that a class is twice as slow all day.
#[test]
fn an_incident_on_both_days_hides_no_change() {
    let day = |slow: f64, seed: u64| {
        let mut log = String::new();
        for i in 0..8640_u64 {
            let part =
                ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1 << 24) as f64;
            let incident = if (4700..4880).contains(&i) { 12.0 } else { 1.0 };
            let time = 0.001 * slow * incident * (2.0 * part - 1.0).exp();
            log += &format!("# User@Host: a[a] @ h []\n# Query_time: {time:.6}  Lock_time: 0  Rows_sent: 1  Rows_examined: 1\nSET timestamp={};\nselect a from t where b = {i};\n", 1_767_225_600 + 10 * i);
        }
        report_of(log.as_bytes())
    };
    let diff = compare(&day(1.0, 1), &day(2.0, 2)).unwrap();
    let change = of(&diff, "select a from t");
    assert_eq!(change.verdict, "slower", "{change:#?}");
    // One of many classes needs a far smaller chance than one alone.
    let typical = change.tests.iter().find(|t| t.what == "typical").unwrap();
    assert!(typical.p < 1e-4, "{typical:?}");
    let same = compare(&day(1.0, 1), &day(1.0, 2)).unwrap();
    assert_eq!(of(&same, "select a from t").verdict, "same");
}

/// A nightly job in reports over weeks has one step of the reports' series.
#[test]
fn a_class_that_runs_in_a_small_part_of_the_time_is_compared() {
    let job = |seconds: f64| {
        let mut log = String::new();
        for i in 0..200_u32 {
            let time = seconds * (1.0 + f64::from(i % 7) / 10.0);
            log += &format!("# User@Host: a[a] @ h []\n# Query_time: {time}  Lock_time: 0  Rows_sent: 0  Rows_examined: 0\nSET timestamp={};\nselect job from t;\n", 1_767_225_600 + i * 3);
        }
        let end = 1_767_225_600 + 20 * 86_400;
        log += &format!("# User@Host: a[a] @ h []\n# Query_time: 1  Lock_time: 0  Rows_sent: 0  Rows_examined: 0\nSET timestamp={end};\nselect other;\n");
        report_of(log.as_bytes())
    };
    let diff = compare(&job(1.0), &job(2.0)).unwrap();
    assert_eq!(of(&diff, "job").verdict, "slower");
    let same = compare(&job(1.0), &job(1.01)).unwrap();
    assert_eq!(of(&same, "job").verdict, "same");
}
