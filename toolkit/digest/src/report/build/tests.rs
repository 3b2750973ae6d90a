//! The document of a log whose contents are known.

use super::*;
use crate::report::rank::{Limit, Outliers};
use crate::run::{run, Settings};
use crate::stats::waiting::Patterns;
use frond_querylog::input::Origin;
use frond_sqltext::Dialect;
use std::sync::Arc;

fn report(log: &str, options: &Options) -> Report {
    report_with(log, options, Settings::default())
}

fn report_with(log: &str, options: &Options, settings: Settings) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow.log");
    std::fs::write(&path, log).unwrap();
    let mut outcome = run(&[Origin::of(&path)], &Arc::new(settings), &mut |_| {}).ok().unwrap();
    build(&mut outcome, options)
}

/// Tells classes apart by users.
fn users(interactive: &[&str], batch: &[&str]) -> Settings {
    let [interactive, batch] =
        [interactive, batch].map(|list| list.iter().map(|user| user.to_string()).collect());
    Settings { users: Patterns { interactive, batch }, ..Settings::default() }
}

fn event(user: &str, time: &str, sql: &str) -> String {
    format!("# User@Host: {user}[x] @ h []\n# Thread_id: 1  Schema: shop  QC_hit: No\n# Query_time: {time}  Lock_time: 0.5  Rows_sent: 2  Rows_examined: 10\n#\n# explain: id\ttable\n# explain: 1\tt\n#\nSET timestamp=1767290971;\n{sql};\n")
}

#[test]
fn the_document_says_what_the_log_says() {
    let log = [
        event("web1", "1.5", "select * from t where id=1"),
        event("nightly", "2.5", "select * from t where id=2"),
        event("nightly", "9.0", "delete from old where a='secret'"),
    ]
    .concat();
    let options = Options { redact: true, ..Options::default() };
    let report = report_with(&log, &options, users(&["web*"], &["night*"]));
    assert_eq!((report.overall.events, report.overall.classes), (3, 2));
    assert_eq!(report.classes.len(), 2);
    // The class of interactive users comes first, although the other one takes more time.
    let [select, delete] = &report.classes[..] else { panic!() };
    assert_eq!((delete.rank, delete.events, delete.user_class.as_str()), (2, 1, "batch"));
    assert_eq!((select.events, select.user_class.as_str()), (2, "interactive"));
    let time = select.time().unwrap();
    assert_eq!((time.sum, time.min, time.max), (4.0, 1.5, 2.5));
    assert!((select.share_of_time - 4.0 / 13.0).abs() < 1e-9);
    assert_eq!(select.rows_examined_per_row, Some(5.0));
    assert_eq!(select.users.iter().map(|u| u.count).sum::<u64>(), 2);
    let sample = select.sample.as_ref().unwrap();
    assert_eq!(sample.time, Some(2.5));
    assert_eq!(sample.plan.as_ref().unwrap().rows, [["1", "t"]]);
    assert_eq!(select.plans.len(), 1);
    assert!(report.loss.is_empty() && report.rest.is_none());
    let json = serde_json::to_string(&report).unwrap();
    let again: Report = serde_json::from_str(&json).unwrap();
    assert!(
        again.classes[0].sample == report.classes[0].sample
            && again.overall.users == report.overall.users
    );
    assert!(!json.contains("secret"), "a literal survived");
}

#[test]
fn what_is_not_shown_is_summed_up() {
    let log: String = (0..30)
        .map(|i| event("u", "1.0", &format!("select a{} from t", "x".repeat(i + 1))))
        .collect();
    let options = Options { limit: Limit { share: 1.0, most: 10 }, ..Options::default() };
    let report = report(&log, &options);
    assert_eq!(report.classes.len(), 10);
    let rest = report.rest.unwrap();
    assert_eq!((rest.classes, rest.events, rest.time), (20, 20, 20.0));
    assert!(report.classes.windows(2).all(|w| w[0].share_of_time >= w[1].share_of_time));
}

#[test]
fn batch_jobs_do_not_push_what_people_wait_for_out_of_the_report() {
    let mut log = String::new();
    for i in 0..30 {
        log += &event("nightly", "100", &format!("select a{} from big", "x".repeat(i + 1)));
    }
    log += &event("web1", "0.5", "select * from small");
    let options = Options { limit: Limit { share: 0.95, most: 20 }, ..Options::default() };
    let shown = report(&log, &options);
    assert!(shown.classes.iter().all(|c| !c.key.contains("small")), "hidden by the jobs");
    let shown = report_with(&log, &options, users(&[], &["nightly"]));
    assert!(shown.classes[0].key.contains("small") && shown.classes[0].rank == 1);
    assert_eq!(shown.classes[0].user_class, "");
    assert_eq!((shown.classes.len(), shown.classes[1].user_class.as_str()), (21, "batch"));
    assert_eq!(shown.rest.unwrap().classes, 10);
    let shown = report_with(&log, &options, users(&["web*"], &["nightly"]));
    assert_eq!(shown.classes[0].user_class, "interactive");
}

#[test]
fn who_comes_late_is_in_the_breakdowns_and_whoever_sends_a_class_is_matched() {
    let mut log: String =
        (0..2000).map(|i| event(&format!("old{}", i % 100), "1.0", "select 1")).collect();
    log += &event("web", "1.0", "select 1");
    log +=
        &(0..900).map(|i| event(&format!("new{}", i % 3), "1.0", "select 1")).collect::<String>();
    for threads in [1, 2] {
        let patterns = users(&["web", "nobody"], &["old*"]);
        let report = report_with(&log, &Options::default(), Settings { threads, ..patterns });
        for list in [&report.classes[0].users, &report.overall.users] {
            let shown: Vec<_> = list.iter().map(|u| (&*u.name, u.count, u.time)).collect();
            assert_eq!(
                shown[..3],
                [("new0", 300, 300.0), ("new1", 300, 300.0), ("new2", 300, 300.0)]
            );
            // Equal ones are ordered by name.
            assert_eq!(shown[3..5], [("old0", 20, 20.0), ("old1", 20, 20.0)]);
            assert_eq!(shown.len(), MAX_SHARES + 1);
            assert_eq!(shown[MAX_SHARES], (OTHERS, 1661, 1661.0));
        }
        assert_eq!(report.classes[0].user_class, "interactive");
        assert_eq!(report.notes, ["No statement is of a user 'nobody'."]);
    }
}

#[test]
fn tables_are_summed_over_all_classes() {
    let log = [
        event("u", "1.0", "select * from a join b using (id)"),
        event("u", "2.0", "delete from a"),
        event("u", "4.0", "select 1"),
    ]
    .concat();
    let options = Options { limit: Limit { share: 1.0, most: 1 }, ..Options::default() };
    let tables = report(&log, &options).overall.tables;
    let of = |name: &str| tables.iter().find(|t| t.name == name).map(|t| (t.count, t.time));
    assert_eq!((of("shop.a"), of("shop.b")), (Some((2, 3.0)), Some((1, 1.0))));
}

#[test]
fn a_table_belongs_to_the_database_of_each_statement() {
    let ordinary = event("u", "0.5", "select * from users where id = 1");
    let mut log = ordinary.repeat(9);
    // The slowest one, which is the class's sample, ran in another database.
    log += &event("u", "8.0", "select * from users where id = 1").replace("shop", "test");
    let tables = report(&log, &Options::default()).overall.tables;
    let of = |name: &str| tables.iter().find(|t| t.name == name).map(|t| (t.count, t.time));
    assert_eq!((of("shop.users"), of("test.users")), (Some((9, 4.5)), Some((1, 8.0))));
    for (group_by, keys) in [
        ("tables", ["shop.users", "test.users"]),
        ("db, tables", ["shop, shop.users", "test, test.users"]),
    ] {
        let group_by: GroupBy = group_by.parse().unwrap();
        let options = Options { group_by: group_by.clone(), ..Options::default() };
        let report = report_with(&log, &options, Settings { group_by, ..Settings::default() });
        let mut found: Vec<&str> = report.classes.iter().map(|c| c.key.as_str()).collect();
        found.sort();
        assert_eq!(found, keys);
    }
    for wrong in ["db,fingerprint", "db,db", "db,", "db,query_time"] {
        assert!(wrong.parse::<GroupBy>().is_err(), "{wrong}");
    }
}

/// More samples than fit into memory, so most are on disk when the report is made.
#[test]
fn long_statements_have_their_tables_and_masks_whether_on_disk_or_not() {
    let mut log = String::new();
    for i in 0..400_u32 {
        let name: String = i.to_string().bytes().map(|b| (b + 49) as char).collect();
        let long = "x".repeat(50_000);
        let sql = format!(
            "select {name} from a where p = 'secret' and q = '{long}' union select {name} from b"
        );
        log += &event("u", "1.0", &sql);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow.log");
    std::fs::write(&path, log).unwrap();
    let mut outcome =
        run(&[Origin::of(&path)], &Arc::new(Settings::default()), &mut |_| {}).ok().unwrap();
    assert_eq!(outcome.table.classes.len(), 400);
    let report = build(&mut outcome, &Options::default());
    let of = |name: &str| report.overall.tables.iter().find(|t| t.name == name).map(|t| t.count);
    assert_eq!((of("shop.a"), of("shop.b")), (Some(400), Some(400)));
    let options = crate::report::ptqd::Options {
        order: Order::default(),
        limit: Limit { share: 1.0, most: usize::MAX },
        outliers: None,
        redact: true,
        head: None,
    };
    let mut page = Vec::new();
    crate::report::ptqd::write(&mut outcome, &options, &mut page).unwrap();
    assert!(memchr::memmem::find(&page, b"secret").is_none(), "a literal survived");
    assert_eq!(memchr::memmem::find_iter(&page, b"SELECT UNION a b").count(), 400);
}

/// A log that keeps one in ten statements of `t`, and all of `u`.
fn sampled() -> String {
    let mut log = String::new();
    for time in ["0.5", "1.0", "1.5"] {
        let logged = event("web", time, "select a from t where id = 1");
        let limit = "\n# Log_slow_rate_type: query  Log_slow_rate_limit: 10\n#\n# explain: id";
        log += &logged.replace("\n#\n# explain: id", limit);
    }
    log + &event("web", "20.0", "select b from u")
}

#[test]
fn a_sampled_log_is_scaled_to_all_statements() {
    let report = report(&sampled(), &Options::default());
    let [t, u] = &report.classes[..] else { panic!("{:?}", report.classes) };
    assert!(t.key.contains("from t") && u.key.contains("from u"));
    assert_eq!((t.events, t.statements, u.statements), (3, 30, 1));
    let time = t.time().unwrap();
    assert_eq!((time.count, time.sum, time.mean, time.max), (3, 30.0, 1.0, 1.5));
    assert!((t.share_of_time - 0.6).abs() < 1e-9 && (t.share_of_events - 30.0 / 31.0).abs() < 1e-9);
    assert_eq!(t.metric("Rows_sent").unwrap().sum, 60.0);
    assert_eq!((t.users[0].count, t.users[0].time), (30, 30.0));
    assert_eq!(t.series.points.iter().map(|p| p.count).sum::<u64>(), 30);
    assert_eq!((report.overall.events, report.overall.statements), (4, 31));
    assert_eq!(report.overall.metric("Query_time").unwrap().sum, 50.0);
    let of_t = report.overall.tables.iter().find(|s| s.name == "shop.t").unwrap();
    assert_eq!((of_t.count, of_t.time), (30, 30.0));
    assert!(report.notes.iter().any(|n| n.contains("4 events logged, standing for 31 statements")));
    let mut text = Vec::new();
    crate::report::text::write(&report, 80, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = text.lines().find(|l| l.contains("SELECT t")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[3..7], ["30s", "60.0%", "30", "1s"], "{text}");
}

#[test]
fn what_is_not_shown_of_a_sampled_log_is_scaled_too() {
    let options = Options { limit: Limit { share: 1.0, most: 1 }, ..Options::default() };
    let mut log = sampled();
    log = log.replace("20.0", "70.0");
    let rest = report(&log, &options).rest.unwrap();
    assert_eq!((rest.events, rest.statements, rest.time, rest.share_of_time), (3, 30, 30.0, 0.3));
}

#[test]
fn pt_query_digest_says_that_there_is_a_limit_and_scales_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow.log");
    let options = crate::report::ptqd::Options {
        order: Order::default(),
        limit: Limit::default(),
        outliers: None,
        redact: false,
        head: None,
    };
    let page = |log: &str| {
        std::fs::write(&path, log).unwrap();
        let settings = Settings { compat: true, ..Settings::default() };
        let mut outcome = run(&[Origin::of(&path)], &Arc::new(settings), &mut |_| {}).ok().unwrap();
        let mut page = Vec::new();
        crate::report::ptqd::write(&mut outcome, &options, &mut page).unwrap();
        String::from_utf8(page).unwrap()
    };
    let said = page(&sampled());
    assert!(said.contains("\n# Rate limits apply\n# Overall: 4 total, 2 unique"), "{said}");
    let line = said.lines().find(|l| l.contains("#    1 0x")).unwrap();
    assert!(line.contains(" 20.0000 87.0%     1 "), "{line}");
    assert!(!page(&event("web", "1.0", "select 1")).contains("Rate limits"));
}

#[test]
fn names_that_find_no_room_are_one_at_the_end_with_their_sum() {
    // Three users that send much, thirty that send one each; forty tables.
    let mut log = String::new();
    for i in 0..120_u32 {
        let user = if i % 4 == 0 { format!("once{i}") } else { format!("often{}", i % 4) };
        log += &event(&user, "1.0", &format!("select 1 from t{}", i % 40));
    }
    let report = report(&log, &Options { limit: "100%".parse().unwrap(), ..Options::default() });
    for (list, left) in [(&report.overall.users, 13), (&report.overall.tables, 60)] {
        let (rest, named) = list.split_last().unwrap();
        assert_eq!(rest.name, "(others)");
        assert!(named.iter().all(|s| s.name != "(others)") && named.len() <= MAX_SHARES);
        assert_eq!(list.iter().map(|s| s.count).sum::<u64>(), 120);
        assert!((list.iter().map(|s| s.time).sum::<f64>() - 120.0).abs() < 1e-6);
        assert_eq!(rest.count, left, "{rest:?}");
    }
    let mut text = Vec::new();
    crate::report::text::write(&report, 80, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for what in ["Users", "Tables"] {
        let line = text.lines().find(|l| l.starts_with(&format!("# {what} "))).unwrap();
        let (shown, others) = line.split_once("... others (").unwrap_or_else(|| panic!("{line}"));
        let number = |text: &str| text[..text.find('/').unwrap()].parse::<u64>().unwrap();
        let sum: u64 = shown.split(" (").skip(1).map(number).sum();
        assert_eq!(sum + number(others), 120, "{line}");
        assert!(line.len() <= 80);
    }
    let mut page = Vec::new();
    crate::report::html::write(&report, None, &mut page).unwrap();
    assert!(String::from_utf8_lossy(&page).contains("[\"(others)\","));
}

/// Checks that the profile's rows have the number that orders them.
#[test]
fn the_profile_shows_the_number_it_is_ranked_by() {
    let log = [
        event("u", "2", "select 1 from a"),
        event("u", "1", "select 1 from a"),
        event("u", "2.25", "select 1 from b").replace("Rows_examined: 10", "Rows_examined: 54321"),
    ]
    .concat();
    for (order, title, value) in [
        ("rows", " Rows exam ", " 54.3k "),
        ("lock", " Lock time ", " 1s "),
        ("p50", " p50 ", " 2.25s "),
        ("p99", " p99 ", " 2.25s "),
        ("max", " max ", " 2.25s "),
        ("Rows_sent:max", " Ranked by ", " 2 "),
        ("Lock_time:p95", " Ranked by ", " 500ms "),
        // Every profile has a column for these.
        ("time", " Response time ", " 3s "),
        ("p95", " p95 ", " 2.25s "),
        ("mean", " R/Call ", " 2.25s "),
        ("count", " Calls ", " 2 "),
        ("variance", " V/M ", " 0.33 "),
    ] {
        let options =
            Options { order: order.parse().unwrap(), order_given: true, ..Options::default() };
        let report = report(&log, &options);
        for width in [80, 130] {
            let mut text = Vec::new();
            crate::report::text::write(&report, width, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            let lines: Vec<&str> =
                text.lines().skip_while(|l| !l.starts_with("# Profile")).take(4).collect();
            let at =
                lines[1].find(title.trim_end()).unwrap_or_else(|| panic!("{order}: {lines:#?}"));
            // Below the title's end; the one of two columns belongs to the first.
            let edge = at + if order == "time" { 7 } else { title.trim_end().len() };
            let cell = lines[3][..edge].rsplit(' ').next();
            assert_eq!(cell, Some(value.trim()), "{order}: {lines:#?}");
            assert!(lines.iter().all(|l| l.len() <= width), "{lines:#?}");
        }
        assert_eq!(report.classes[0].rank_value.map(|v| v > 0.0), Some(true));
    }
}

/// Classes in the order of `order`, by their tables' names.
fn ordered(log: &str, order: &str) -> String {
    let options = Options {
        order: order.parse().unwrap(),
        order_given: true,
        limit: Limit { share: 1.0, most: usize::MAX },
        ..Options::default()
    };
    report(log, &options).classes.iter().map(|c| c.tables[0].table.as_str()).collect()
}

#[test]
fn every_order_ranks_by_what_it_says() {
    let mut log = String::new();
    let mut add = |table: &str, lock: &str, rows: u32, times: &[f64]| {
        for time in times {
            let event = event("u", &format!("{time}"), &format!("select 1 from {table}"));
            let event = event.replace("Lock_time: 0.5", &format!("Lock_time: {lock}"));
            log += &event.replace("Rows_examined: 10", &format!("Rows_examined: {rows}"));
        }
    };
    // Calls 4, 20, 2, 1; sums 4, 10, 8, 6; means 1, 0.5, 4, 6; the second is slow now and then.
    add("a", "0.001", 1000, &[1.0; 4]);
    let mut sometimes = vec![0.1; 19];
    sometimes.push(8.1);
    add("b", "0.002", 10, &sometimes);
    add("c", "0.5", 100, &[3.9, 4.1]);
    add("d", "0.1", 1500, &[6.0]);
    for (order, expected) in [
        ("time", "bcda"),
        ("mean", "dcab"),
        ("p50", "dcab"),
        ("p95", "dcab"),
        ("p99", "bdca"),
        ("max", "bdca"),
        ("count", "bacd"),
        ("rows", "adbc"),
        ("lock", "cdba"),
        ("variance", "bcad"),
        ("Query_time:min", "dcab"),
        ("Rows_examined:max", "dacb"),
        ("Lock_time:mean", "cdba"),
        ("Rows_sent:sum", "bacd"),
    ] {
        assert_eq!(ordered(&log, order), expected, "{order}");
    }
}

#[test]
fn classes_that_differ_in_the_digits_of_a_name_show_them() {
    let log = event("a", "2", "select * from `hist_2024` where a = 1")
        + &event("a", "1", "select * from hist_2025 where a = 1");
    let items = |dialect, redact| -> Vec<String> {
        let settings = Settings { dialect, ..Settings::default() };
        let options = Options { dialect, redact, ..Options::default() };
        report_with(&log, &options, settings).classes.into_iter().map(|c| c.item).collect()
    };
    for redact in [false, true] {
        assert_eq!(items(Dialect::Frond, redact), ["SELECT hist_2024", "SELECT hist_2025"]);
        assert!(items(Dialect::Ptqd32, redact).iter().all(|item| item == "SELECT hist_?"));
    }
}

#[test]
fn a_log_of_slow_statements_does_not_show_every_class() {
    let mut log = String::new();
    for i in 0..130 {
        log += &event("a", "2", &format!("select * from t_{i}")).repeat(10);
    }
    let options = Options {
        limit: "5".parse().unwrap(),
        outliers: Some(Outliers::default()),
        ..Options::default()
    };
    let report = report_with(&log, &options, Settings::default());
    assert_eq!(report.classes.len(), 105);
    assert_eq!(report.rest.as_ref().map(|rest| rest.classes), Some(25));
    let told = report.notes.iter().any(|n| n.starts_with("25 classes that are not shown have"));
    assert!(told, "{:?}", report.notes);
}

#[test]
fn each_event_of_a_log_with_several_rates_stands_for_its_own() {
    let one = |user: &str, rate: u32, second: u32| {
        let rate = format!("# Log_slow_rate_type: query  Log_slow_rate_limit: {rate}");
        let stamp = 1_767_225_600 + second;
        event(user, "0.5", "select 1")
            .replace("SET timestamp=1767290971;", &format!("{rate}\nSET timestamp={stamp};"))
    };
    let mut log = String::new();
    for i in 0..100 {
        log += &one("a", 1, i * 10);
        log += &one("b", 100, 3000 + i * 10);
    }
    let report = report(&log, &Options::default());
    let users: Vec<_> =
        report.overall.users.iter().map(|u| (u.name.as_str(), u.count, u.time)).collect();
    assert_eq!(users, [("b", 10_000, 5000.0), ("a", 100, 50.0)]);
    let points = &report.overall.series.points;
    let early = points.iter().filter(|p| p.at < 1_767_225_600 + 2000);
    assert_eq!(early.map(|p| p.count).sum::<u64>(), 100);
    assert_eq!(points.iter().map(|p| p.count).sum::<u64>(), 10_100);
    assert!((points.iter().map(|p| p.time).sum::<f64>() - 5050.0).abs() < 1e-6);
}
