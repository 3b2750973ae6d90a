//! Expressions, and their values for one event.

use super::{chooses, context, event, parse};
use frond_digest::filter::{Filter, Scratch};
use frond_event::{Event, Metric};
use frond_sqltext::{fingerprint, ClassId, Dialect};

fn all_true(expressions: &[&str]) {
    for text in expressions {
        assert!(chooses(text), "{text}");
        assert!(!chooses(&format!("!({text})")), "!({text})");
    }
}

#[test]
fn comparisons_of_every_type() {
    all_true(&[
        r#"db == "shop""#,
        "db = 'shop'",
        r#"db != "other" && user in ("batch", "web")"#,
        r#"user not in ("batch", "backup")"#,
        r#""shop" == db"#,
        r#"host =~ "^app[0-9]$" and ip !~ ".""#,
        r#"ip == """#,
        "query_time > 0.5",
        "query_time == 1 and query_time == 1000ms and query_time >= 1s",
        "Query_time < 2s and 0.5 < query_time",
        "lock_time == 100us && lock_time <= 0.1ms",
        "lock_time != 0.00009",
        "lock_time <= 1e-4",
        "rows_examined > 4.9e3 && rows_examined == 5k",
        "rows_sent == 10 && rows_sent != 10.5 && rows_sent < 10.5 && rows_sent > 9.5",
        "rows_sent in (5, 10, 15)",
        "bytes_sent == 10MB && bytes_sent > 9MiB and bytes_sent < 10MiB",
        "rows_examined > rows_sent",
        "thread_id == 77 and error == 0",
        "full_scan and not filesort",
        "full_scan == true and filesort == false and filesort != true",
        "start > '2m' and start < 'now' and start > 1710071000",
        r#"start >= "2024-03-10 11:59:00" && end < "2024-03-10T12:00:00Z""#,
        r#"kind == "select" && kind in ("SELECT", "update") && command == "execute""#,
        r#"tables == "orders" and tables == "shop.orders" and tables == "shop2.items""#,
        r#"tables == "items" and tables != "shop.items" and tables =~ "^it""#,
        r#"attribute("Program_Name") == "checkout""#,
        "measured and known(query_time) and known(tables)",
        "true or false",
        "sql =~ '(?i)select .* from'",
    ]);
}

#[test]
#[allow(clippy::nonminimal_bool)] // The test is about these shapes.
fn and_binds_more_than_or_and_parentheses_more_than_both() {
    assert!(chooses("true || true && false"));
    assert!(!chooses("(true || true) && false"));
    assert!(chooses("not false and true"));
    assert!(chooses("!!true"));
    for a in [false, true] {
        for b in [false, true] {
            for c in [false, true] {
                assert_eq!(chooses(&format!("{a} && {b} || {c}")), a && b || c);
                assert_eq!(chooses(&format!("{a} || {b} && {c}")), a || b && c);
                assert_eq!(chooses(&format!("!({a} && !{b}) || !{c}")), !(a && !b) || !c);
                assert_eq!(chooses(&format!("!({a} || {b}) && {c}")), !(a || b) && c);
            }
        }
    }
}

#[test]
fn what_is_not_known_equals_nothing_and_differs_from_nothing() {
    let mut bare = event();
    bare.metrics.unset(Metric::QueryTime);
    bare.thread_id = None;
    for (text, expected) in [
        ("query_time > 0", false),
        ("query_time != 0", false),
        ("query_time >= 0 or query_time < 0", false),
        ("thread_id == 77", false),
        ("known(query_time)", false),
        ("measured", false),
        ("full_join", false),
        ("full_join == false", false),
        ("known(lock_time)", true),
        ("known(full_join)", false),
        ("known(full_scan)", true),
    ] {
        let filter = parse(text).unwrap();
        assert_eq!(filter.matches(&bare, None, &mut Scratch::default()), expected, "{text}");
    }
}

#[test]
fn a_class_is_asked_for_by_either_form_of_its_id() {
    let mut text = Vec::new();
    fingerprint(event().sql, Dialect::Frond, &mut text);
    let id = ClassId::of(&text);
    for shown in [id.to_string(), id.short().to_string(), format!("0x{id}").to_lowercase()] {
        let filter = parse(&format!("class == '{shown}'")).unwrap();
        assert!(filter.needs_class());
        assert!(filter.matches(&event(), None, &mut Scratch::default()));
        assert!(filter.matches(&event(), Some(&text), &mut Scratch::default()));
        assert!(!filter.matches(&event(), Some(b"another"), &mut Scratch::default()));
    }
    // The dialect of the context decides.
    let context = frond_digest::filter::Context { dialect: Dialect::Ptqd32, ..context() };
    let filter = Filter::parse(&format!("class == '{id}'"), &context).unwrap();
    assert!(!filter.matches(&event(), None, &mut Scratch::default()));
}

#[test]
fn bytes_that_are_not_utf_8_are_compared_all_the_same() {
    let odd = Event { db: b"caf\xe9", sql: b"select '\xff'", ..event() };
    for (text, expected) in
        [(r#"db == "cafe""#, false), (r#"db =~ "^caf""#, true), (r#"sql =~ "(?-u)\xff""#, true)]
    {
        let filter = parse(text).unwrap();
        assert_eq!(filter.matches(&odd, None, &mut Scratch::default()), expected, "{text}");
    }
}
