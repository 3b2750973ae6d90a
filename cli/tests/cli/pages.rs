//! `--html` of locks, indexes, doctor and replay: one offline file that works in a browser, with hostile names and texts in it.

use frond_replay::report::{Class, Count, Difference, Report};

use crate::browser::selftest;
use crate::locks::STATUS;
use crate::tool::frond;

const HOSTILE: &str = "</script><script>document.documentElement.dataset.broken=1</script>";

/// `parts`: what the page's self-test must have visited.
fn assert_works(page: &str, parts: &[&str]) {
    // Without the data, these are the scripts of the frame.
    assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (2, 2));
    assert!(page.matches("http").count() <= 2, "only names of standards");
    let Some(said) = selftest(page.as_bytes()) else { return };
    for part in parts {
        assert!(said.contains(&format!("{part}: ok")), "{part} in: {said}");
    }
    assert!(!said.contains("FAILED"), "{said}");
}

#[test]
fn the_page_of_locks_has_tree_series_and_lists() {
    let later = STATUS.replace("19:37:16", "19:37:31").replace("ACTIVE 60", "ACTIVE 75");
    let hostile = later.replace("shop Updating", &format!("{HOSTILE} Updating"));
    let log = [STATUS, &hostile].concat();
    let (status, page, error) = frond("locks", &["-", "--html"], log.as_bytes());
    assert_eq!((status, error.as_str()), (1, ""));
    assert_works(&page, &["sections", "no markup from text", "nodes", "charts", "sort down"]);
    // An empty report is written as a page as well, and the complaint goes to standard error.
    let (status, page, error) = frond("locks", &["-", "--html"], b"nothing of it");
    assert!(status == 2 && error.contains("no monitor output"), "{error}");
    assert_works(&page, &["sections"]);
}

#[test]
fn the_page_of_indexes_has_findings_and_sizes() {
    let sql = format!(
        "USE shop; CREATE TABLE `{HOSTILE}` (a INT PRIMARY KEY, b INT, c INT, KEY x (b), KEY y (b, c), KEY z (c, a)) ENGINE=InnoDB;"
    );
    let (status, page, error) = frond("indexes", &["-", "--html"], sql.as_bytes());
    assert_eq!((status, error.as_str()), (1, ""));
    assert_works(&page, &["sections", "no markup from text", "rows", "findings"]);
    // Rows that do not fit are left out, and the page says so.
    let many: String = (0..9_000)
        .map(|i| format!("CREATE TABLE t{i} (a INT PRIMARY KEY, b INT, KEY x (b), KEY y (b));\n"))
        .collect();
    let (_, page, _) = frond("indexes", &["-", "--html"], many.as_bytes());
    assert!(page.len() < frond_page::MAX_BYTES, "{}", page.len());
    assert!(page.contains("This page was shortened"), "nothing was left out");
}

#[test]
fn the_page_of_the_doctor_draws_a_file_of_samples() {
    let dir = tempfile::tempdir().unwrap();
    let ring = dir.path().join("ring");
    let ring = ring.to_str().unwrap();
    let watch = ["--no-server", "--watch", ring, "--run-time", "2.5", "--size", "1M"];
    assert_eq!(frond("doctor", &watch, b"").0, 0);
    let (status, page, error) = frond("doctor", &["--replay", ring, "--html"], b"");
    assert!((0..=1).contains(&status) && error.is_empty(), "{error}");
    assert!(page.contains("Load of the machine"));
    assert_works(&page, &["sections", "findings", "charts"]);
}

/// A report with something in every list.
pub fn replay() -> Report {
    let class = |class: &str, ratio: Option<f64>, finding| Class {
        class: class.into(),
        pairs: 90,
        differences: 1,
        undetermined: 0,
        sum: [0.5, 0.7],
        median: [Some(0.001), None],
        p95: [Some(0.002), Some(0.003)],
        ratio,
        finding,
    };
    Report {
        schema: 1,
        inputs: vec!["slow.log".into()],
        servers: ["10.11 at a".into(), HOSTILE.into()],
        writes: false,
        seconds: 3.0,
        sessions: 2,
        read: 500,
        compared: 400,
        same: 399,
        different: 1,
        session_statements: 9,
        skipped: vec![Count { what: "it writes".into(), statements: 91 }],
        differences_by_kind: vec![Count { what: "rows".into(), statements: 1 }],
        undetermined: vec![Count { what: "ties".into(), statements: 3 }],
        errors: [0, 0],
        time: [0.0, 0.7],
        latest_seconds: 0.0,
        differences: vec![Difference {
            what: "rows".into(),
            class: HOSTILE.into(),
            statement: HOSTILE.into(),
            db: "shop".into(),
            session: 7,
            offset: 12,
            on: "1".into(),
            against: "2".into(),
        }],
        classes: vec![
            class(HOSTILE, Some(1.5), "slower"),
            class("select ?", Some(0.001), "faster"),
            class("select ?, ?", Some(f64::INFINITY), "unsure"),
            class("select ?, ?, ?", None, "unsure"),
        ],
        notes: vec![HOSTILE.into()],
    }
}

#[test]
fn the_page_of_a_replay_has_ratios_and_differences() {
    let mut page = Vec::new();
    replay().write_html("frond".into(), &mut page).unwrap();
    let parts = ["sections", "no markup from text", "dots", "findings", "sort up"];
    assert_works(std::str::from_utf8(&page).unwrap(), &parts);
}
