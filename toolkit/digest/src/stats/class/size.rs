//! Tests the memory of a class: the goal for the whole program is 64 MB and 2 kB per class.

use crate::stats::Table;
use frond_event::Metric;
use frond_event::{Event, Flag};

/// The attributes that MariaDB logs with `log_slow_verbosity=query_plan,engine`, a typical value, and how far it
/// varies (in powers of e).
const LOGGED: [(Metric, f64, f64); 9] = [
    (Metric::QueryTime, 3e5, 3.0),
    (Metric::LockTime, 1e3, 5.0),
    (Metric::RowsSent, 20.0, 0.7),
    (Metric::RowsExamined, 500.0, 0.7),
    (Metric::BytesSent, 1000.0, 2.3),
    (Metric::QuerySize, 250.0, 0.0),
    (Metric::PagesAccessed, 100.0, 2.3),
    (Metric::EngineTime, 1e5, 2.3),
    (Metric::PagesReadTime, 0.0, 0.0),
];

/// A table with so many classes and events in each, over a day, with twelve users on thirty hosts.
fn table(classes: u64, events: u64) -> Table {
    let mut table = Table::new(1 << 20, 64 << 10);
    let mut seed = 5_u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 11) as f64 / (1_u64 << 53) as f64
    };
    for i in 0..events {
        for class in 0..classes {
            let key = format!("{:<130}", format!("select a, b, c from t{class} where id = ?"));
            let sql = format!("{key:<250}{i}");
            let user = format!("app{}", (random() * 12.0) as u32);
            let host = format!("web{}", (random() * 30.0) as u32);
            let mut event = Event { sql: sql.as_bytes(), db: b"shop", ..Event::default() };
            (event.user, event.host) = (user.as_bytes(), host.as_bytes());
            for (metric, least, powers) in LOGGED {
                // One in fifty takes a hundred times as long.
                let slow = metric == Metric::QueryTime && random() < 0.02;
                let value = least * (random() * powers).exp() * if slow { 100.0 } else { 1.0 };
                event.metrics.set(metric, value as u64);
            }
            event.flags.set(Flag::FullScan, random() < 0.5);
            let second = 1_700_000_000 + (i * 86_400 / events) as i64;
            (event.start, event.end) = (Some(second * 1_000_000), Some(second * 1_000_000));
            table.add(key.as_bytes(), &event, 1);
        }
    }
    table
}

#[test]
fn a_class_takes_about_two_kilobytes() {
    // Few events, as most classes of a log have; and more.
    for (events, most) in [(1, 1700), (3, 1900), (30, 2550), (300, 2950), (1000, 3100)] {
        let table = table(40, events);
        let bytes = table.memory() / 40;
        println!("{events} events: {bytes} bytes per class");
        assert!(bytes <= most, "{bytes} bytes for {events} events");
    }
}

/// The bound holds however often a statement runs.
#[test]
fn a_class_takes_no_more_than_seven_kilobytes() {
    let table = table(1, 50_000);
    let bytes = table.memory();
    assert!(bytes <= 7_000, "{bytes} bytes");
}
