//! Comparing two reports.

use frond_querylog::report::diff::{compare, write_text, Change, Diff};
use frond_querylog::report::model::{Report, Rest};

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

/// In format 1 the sums of a sampled log were of what was logged.
#[test]
fn stored_reports_of_format_1_are_compared_unless_they_are_of_samples() {
    let report = report_of(log(1, 1.0, false).as_bytes());
    let stored = |text: &str| -> Report { serde_json::from_str(text).unwrap() };
    let text = serde_json::to_string(&report).unwrap();
    assert!(text.starts_with("{\"schema\":2,"), "{}", &text[..40]);
    let mut old = stored(&text.replacen("\"schema\":2", "\"schema\":1", 1));
    assert_eq!(old.schema, 1);
    let told =
        |notes: &[String]| notes.iter().any(|n| n.starts_with("The report before has format 1"));
    assert!(told(&compare(&old, &report).unwrap().notes));
    assert!(!told(&compare(&report, &report).unwrap().notes));
    old.overall.statements = 20 * old.overall.events;
    let said = compare(&report, &old).unwrap_err();
    assert!(said.contains("format 1") && said.contains("sampled"), "{said}");
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
    frond_querylog::report::html::write(&report, Some(&diff), &mut page).unwrap();
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
    // What is there is still found.
    let slower = report_of(thinned(&log(3, 1.6, true)).as_bytes());
    let diff = compare(&before, &slower).unwrap();
    assert_eq!(of(&diff, "join stock").verdict, "slower");
    assert_eq!(of(&diff, "recommendations").verdict, "new");
}
