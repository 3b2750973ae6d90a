//! Checks that hold for any text as an expression. The tests here and a target in `fuzz/` at the root of the repository
//! call them.

use frond_digest::filter::{Context, Filter, Scratch};
use frond_event::{Event, Metric};
use frond_sqltext::Dialect;

/// A filter expression, and its evaluation on an event made of the same bytes.
pub fn expression(text: &str) {
    let context = Context { now: 0, zone: jiff::tz::TimeZone::UTC, dialect: Dialect::Frond };
    match Filter::parse(text, &context) {
        Ok(filter) => {
            let bytes = text.as_bytes();
            let mut event =
                Event { sql: bytes, db: bytes, user: b"web", start: Some(1), ..Event::default() };
            event.metrics.set(Metric::QueryTime, 1_000_000_000);
            let mut scratch = Scratch::default();
            let first = filter.matches(&event, None, &mut scratch);
            assert_eq!(first, filter.matches(&event, None, &mut scratch), "{text:?}");
        }
        Err(error) => assert!(error.to_string().contains('^'), "{error}"),
    }
}
