//! The filter language: what it selects, what it refuses, what it never does.

mod checks;
mod choosing;
mod errors;
mod hostile;
mod times;

use frond_digest::filter::{Context, Filter, FilterError, Scratch};
use frond_event::{Event, Flag, Kind, Metric};
use frond_sqltext::Dialect;
use jiff::tz::TimeZone;

/// 2024-03-10 12:00:00 UTC, a Sunday.
pub const NOON: i64 = 1_710_072_000_000_000;

pub fn context() -> Context {
    Context { now: NOON, zone: TimeZone::UTC, dialect: Dialect::Frond }
}

pub fn parse(text: &str) -> Result<Filter, FilterError> {
    Filter::parse(text, &context())
}

/// A statement of a shop.
pub fn event() -> Event<'static> {
    let mut event = Event {
        kind: Kind::Execute,
        sql: b"SELECT * FROM orders o JOIN shop2.items i USING (id) WHERE o.id = 5",
        db: b"shop",
        user: b"web",
        host: b"app1",
        thread_id: Some(77),
        start: Some(NOON - 60_000_000),
        end: Some(NOON - 59_000_000),
        error: Some(0),
        extra: vec![(b"program_name", b"checkout")],
        ..Event::default()
    };
    event.metrics.set(Metric::QueryTime, 1_000_000_000);
    event.metrics.set(Metric::LockTime, 100_000);
    event.metrics.set(Metric::RowsSent, 10);
    event.metrics.set(Metric::RowsExamined, 5000);
    event.metrics.set(Metric::BytesSent, 10_000_000);
    event.flags.set(Flag::FullScan, true);
    event.flags.set(Flag::Filesort, false);
    event
}

pub fn chooses(text: &str) -> bool {
    let filter = parse(text).unwrap_or_else(|e| panic!("{e}"));
    filter.matches(&event(), None, &mut Scratch::default())
}
