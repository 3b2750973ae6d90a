//! The statement tables of a running server as events: rows in, events or totals out.
//!
//! | source | what it gives |
//! |---|---|
//! | `slow_table` | `mysql.slow_log` (`log_output=TABLE`): each logged statement, measured by the server |
//! | `processlist` | running statements, polled: statements with times that are lower bounds |
//! | `digests` | `performance_schema.events_statements_summary_by_digest`: totals for each class |
//!
//! This module has no connection. The caller has one (as `frond digest` does), sends this
//! module's queries (`SELECT ...`), and passes the rows as bytes, with the columns in the order of
//! the query. So users of the library may use any client, and the tests need no server.
//!
//! The report says what each source lacks (`note` functions): the table and the processlist lack
//! statements shorter than `long_query_time` or the interval, digests have no distribution.

pub mod digests;
pub mod processlist;
pub mod slow_table;

use frond_event::text::{decimal, stamp};
use frond_event::Micros;

/// A row as a server's text protocol gives it; `None` is NULL.
pub type Row<'a> = [Option<&'a [u8]>];

/// The value at `at`, empty if it is NULL or missing.
fn bytes<'a>(row: &Row<'a>, at: usize) -> &'a [u8] {
    row.get(at).copied().flatten().unwrap_or_default()
}

/// A number that is not negative; `None` for NULL and for other text.
fn number(row: &Row<'_>, at: usize) -> Option<u64> {
    decimal(bytes(row, at), 1).map(|(n, _)| n)
}

/// A moment in UTC: the connection's `time_zone` is `+00:00`.
fn moment(row: &Row<'_>, at: usize) -> Option<Micros> {
    let text = bytes(row, at);
    // The server's notation for "never".
    if text.starts_with(b"0000-") {
        return None;
    }
    stamp(text).map(|(stamp, _)| stamp.utc(0))
}

/// `[h]hh:mm:ss[.ffffff]` in nanoseconds.
fn duration(row: &Row<'_>, at: usize) -> Option<u64> {
    let text = bytes(row, at);
    let mut parts = text.split(|b| *b == b':');
    let (hours, _) = decimal(parts.next()?, 1)?;
    let (minutes, _) = decimal(parts.next()?, 1)?;
    let (nanos, _) = decimal(parts.next()?, 1_000_000_000)?;
    Some(
        hours.saturating_mul(3600).saturating_add(minutes * 60).saturating_mul(1_000_000_000)
            + nanos,
    )
}

/// A list for `SELECT` of the columns in `wanted`: those that the server has, and NULL for the others, so
/// that the order in a row is always the same.
fn columns(wanted: &[&str], has: &dyn Fn(&str) -> bool) -> String {
    let list: Vec<String> = wanted
        .iter()
        .map(|name| if has(name) { format!("`{name}`") } else { "NULL".into() })
        .collect();
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_text_protocol() {
        let row: &Row<'_> = &[
            Some(b"2026-01-31 18:00:00.250000"),
            Some(b"838:59:59.999999"),
            None,
            Some(b"0000-00-00 00:00:00"),
            Some(b"00:00:01.5"),
        ];
        assert_eq!(moment(row, 0), Some(1_769_882_400_250_000));
        assert_eq!(duration(row, 1), Some(3_020_399_999_999_000));
        assert_eq!((number(row, 2), moment(row, 3), number(row, 9)), (None, None, None));
        assert_eq!(duration(row, 4), Some(1_500_000_000));
        assert_eq!(columns(&["a", "b"], &|name| name == "b"), "NULL, `b`");
    }
}
