//! The HTML page: its size, its escaping, and whether it works in a browser.

use frond_digest::report::diff::{compare, Change, Diff};
use frond_digest::report::html;
use frond_digest::report::model::Report;

use super::data::{large, log, report_of, HOSTILE};
use crate::browser::selftest;

fn page(report: &Report, diff: Option<&Diff>) -> Vec<u8> {
    let mut page = Vec::new();
    html::write(report, diff, &mut page).unwrap();
    page
}

fn assert_works(page: &[u8]) {
    let Some(said) = selftest(page) else { return };
    for part in ["rows", "no markup from text", "sort down", "search filters", "page opens"] {
        assert!(said.contains(&format!("{part}: ok")), "{part} in: {said}");
    }
    assert!(!said.contains("FAILED"), "{said}");
}

#[test]
fn the_page_of_a_log_sorts_searches_and_opens() {
    let report = report_of(log(1, 1.0, true).as_bytes());
    assert!(report.classes.len() >= 6);
    let page = page(&report, None);
    if let Some(file) = std::env::var_os("FROND_REPORT_HTML") {
        std::fs::write(file, &page).unwrap();
    }
    assert_works(&page);
}

#[test]
fn the_page_of_a_comparison_works() {
    let before = report_of(log(1, 1.0, false).as_bytes());
    let after = report_of(log(1, 1.6, true).as_bytes());
    let mut diff = compare(&before, &after).unwrap();
    // Every verdict.
    let verdicts = ["new", "gone", "slower", "faster", "mixed", "more", "less", "same", "unsure"];
    let first = diff.changes[0].clone();
    diff.changes.extend(verdicts.map(|v| Change { verdict: v.into(), ..first.clone() }));
    let page = page(&after, Some(&diff));
    if let Some(file) = std::env::var_os("FROND_DIFF_HTML") {
        std::fs::write(file, &page).unwrap();
    }
    assert_works(&page);
}

#[test]
fn a_thousand_hostile_classes_fit_and_work() {
    let page = page(&large(1000), None);
    assert!(page.len() < html::MAX_BYTES, "{} bytes", page.len());
    // Shortened, not left out.
    let text = String::from_utf8(page).unwrap();
    assert!(text.contains("\"rank\":1000,") && text.contains("were shortened"));
    assert_works(text.as_bytes());
}

#[test]
fn the_size_is_bounded_whatever_there_is() {
    let mut report = large(3000);
    for class in &mut report.classes {
        class.key = "\u{1}".repeat(5_000);
        class.metrics.extend(class.metrics.clone());
    }
    let page = page(&report, None);
    assert!(page.len() < html::MAX_BYTES, "{} bytes", page.len());
    assert!(String::from_utf8(page).unwrap().contains("of 3000 classes, shortened"));
}

#[test]
fn an_empty_report_is_a_page() {
    assert_works(&page(&Report::default(), None));
}

#[test]
fn no_statement_becomes_markup() {
    let mut log = log(1, 1.0, false).into_bytes();
    // The first one is the slowest of its class, so it is the sample that is shown.
    for (i, text) in HOSTILE.iter().enumerate() {
        log.extend_from_slice(b"# User@Host: <b>[x] @ \"h\" []\n");
        let time = format!("# Query_time: {}  Lock_time: 0", 20 - i);
        log.extend_from_slice(time.as_bytes());
        log.extend_from_slice(b"  Rows_sent: 1  Rows_examined: 1\nSET timestamp=1767225900;\n");
        log.extend_from_slice(text.as_bytes());
        log.extend_from_slice(b" \xff\xfe;\n");
    }
    let page = page(&report_of(&log), None);
    let text = String::from_utf8(page.clone()).expect("valid UTF-8 from invalid statements");
    assert_eq!(text.matches("<script").count(), 2);
    assert_eq!(text.matches("</script>").count(), 2);
    let (_, data) = text.split_once("id=\"data\">").unwrap();
    let data = data.split_once("</script>").unwrap().0;
    assert!(!data.contains(['<', '>', '&', '\0']));
    let value: serde_json::Value = serde_json::from_str(data).unwrap();
    let samples: Vec<&str> = value["classes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|c| c["sample"]["sql"].as_str())
        .collect();
    assert!(samples.iter().any(|s| s.contains("</script><script>")), "the text itself is kept");
    assert!(
        !text.contains("http://")
            || text.matches("http://").count()
                == text.matches("http://www.w3.org/2000/svg").count()
    );
    assert_works(&page);
}
