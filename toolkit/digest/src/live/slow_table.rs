//! `mysql.slow_log`, where `log_output` is (or contains) `TABLE`: the slow log's events as rows.
//!
//! The table lacks, compared with the file: the plan, flags, temporary tables, bytes, engine
//! statistics. A statement's text is cut at 16 MB and was converted to the column's character set
//! by the server.
//!
//! `start_time` is the begin of the statement in MariaDB, and its end in MySQL and in MariaDB 10.5. The table has no index, so it is read
//! once from beginning to end, row by row. `since` and `until` are part of the query, so that the server does
//! not send other rows.

use super::{bytes, duration, moment, number, Row};
use frond_event::{Event, Kind, Metric, Micros, Place, SkipReason};
use frond_querylog::slowlog::Stamped;

/// Columns in the order of a row.
pub const COLUMNS: [&str; 9] = [
    "start_time",
    "user_host",
    "query_time",
    "lock_time",
    "rows_sent",
    "rows_examined",
    "db",
    "sql_text",
    "thread_id",
];
/// A column that only some servers have; the last of a row.
const AFFECTED: &str = "rows_affected";

/// The query. `begin` and `end` bound `start_time` in UTC, which must be the connection's time zone; `own` is the
/// connection that sends it.
pub fn question(
    has: &dyn Fn(&str) -> bool,
    begin: Option<Micros>,
    end: Option<Micros>,
    own: u64,
) -> String {
    let mut wanted = COLUMNS.to_vec();
    wanted.push(AFFECTED);
    let mut sql = format!("SELECT {} FROM mysql.slow_log", super::columns(&wanted, has));
    let mut word = " WHERE ";
    let mut condition = |text: String| {
        sql.push_str(word);
        sql.push_str(&text);
        word = " AND ";
    };
    let at = |micros: Micros| {
        format!("'{}.{:06}'", frond_event::numbers::time(micros), micros.rem_euclid(1_000_000))
    };
    if let Some(begin) = begin {
        condition(format!("start_time >= {}", at(begin)));
    }
    if let Some(end) = end {
        condition(format!("start_time < {}", at(end)));
    }
    if has("thread_id") {
        condition(format!("thread_id <> {own}"));
    }
    sql
}

/// Converts a row to an event. `place` has the row's number.
pub fn event<'a>(row: &Row<'a>, stamped: Stamped, place: Place) -> Result<Event<'a>, SkipReason> {
    let time = duration(row, 2).ok_or(SkipReason::BadValue)?;
    let stamp = moment(row, 0).ok_or(SkipReason::BadValue)?;
    let mut event = Event { place, stamp: Some(stamp), ..Event::default() };
    frond_querylog::slowlog::user_at_host(bytes(row, 1), &mut event);
    event.db = bytes(row, 6);
    event.thread_id = number(row, 8).filter(|id| *id != 0);
    event.metrics.set(Metric::QueryTime, time);
    let micros = i64::try_from(time / 1000).unwrap_or(i64::MAX);
    if stamped == Stamped::End {
        event.end = Some(stamp);
        event.start = Some(stamp.saturating_sub(micros));
    } else {
        event.start = Some(stamp);
        event.end = Some(stamp.saturating_add(micros));
    }
    if let Some(lock) = duration(row, 3) {
        event.metrics.set(Metric::LockTime, lock);
    }
    for (at, metric) in
        [(4, Metric::RowsSent), (5, Metric::RowsExamined), (9, Metric::RowsAffected)]
    {
        if let Some(value) = number(row, at) {
            event.metrics.set(metric, value);
        }
    }
    let text = bytes(row, 7);
    match command(text) {
        Some((name, kind)) => {
            event.sql = name;
            event.kind = kind;
        }
        None => event.sql = text,
    }
    event.metrics.set(Metric::QuerySize, event.sql.len() as u64);
    Ok(event)
}

/// The class of a command: the table has only its name where the file has `administrator command: NAME`. No statement
/// consists of just one of these words.
fn command(text: &[u8]) -> Option<(&'static [u8], Kind)> {
    const COMMANDS: [(&[u8], Kind); 10] = [
        (b"administrator command: Quit", Kind::Quit),
        (b"administrator command: Connect", Kind::Connect),
        (b"administrator command: Init DB", Kind::InitDb),
        (b"administrator command: Ping", Kind::Admin),
        (b"administrator command: Prepare", Kind::Admin),
        (b"administrator command: Statistics", Kind::Admin),
        (b"administrator command: Refresh", Kind::Admin),
        (b"administrator command: Change user", Kind::Admin),
        (b"administrator command: Field List", Kind::Admin),
        (b"administrator command: Close stmt", Kind::Admin),
    ];
    const PREFIX: usize = b"administrator command: ".len();
    COMMANDS.into_iter().find(|(name, _)| name[PREFIX..] == *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sql: &[u8]) -> [Option<&[u8]>; 10] {
        [
            Some(b"2026-01-31 18:00:00.250000"),
            Some(b"app[app] @ web1 [10.0.0.7]"),
            Some(b"00:00:01.500000"),
            Some(b"00:00:00.000100"),
            Some(b"3"),
            Some(b"40"),
            Some(b"shop"),
            Some(sql),
            Some(b"12"),
            None,
        ]
    }

    #[test]
    fn a_row_is_an_event() {
        let row = row(b"select 1");
        let event = event(&row, Stamped::Start, Place::default()).unwrap();
        assert_eq!(
            (event.sql, event.user, event.host),
            (&b"select 1"[..], &b"app"[..], &b"web1"[..])
        );
        assert_eq!((event.db, event.thread_id), (&b"shop"[..], Some(12)));
        assert_eq!(event.query_time(), Some(1_500_000_000));
        assert_eq!(event.metrics.get(Metric::LockTime), Some(100_000));
        assert_eq!(event.metrics.get(Metric::RowsExamined), Some(40));
        assert_eq!(event.metrics.get(Metric::RowsAffected), None);
        assert_eq!(event.start, Some(1_769_882_400_250_000));
        assert_eq!(event.end, Some(1_769_882_401_750_000));
        let event = super::event(&row, Stamped::End, Place::default()).unwrap();
        assert_eq!(event.end, Some(1_769_882_400_250_000));
    }

    #[test]
    fn commands_are_told_from_statements() {
        let quit = row(b"Quit");
        let quit = event(&quit, Stamped::Start, Place::default()).unwrap();
        assert_eq!((quit.kind, quit.sql), (Kind::Quit, &b"administrator command: Quit"[..]));
        let commit = row(b"Commit");
        assert_eq!(event(&commit, Stamped::Start, Place::default()).unwrap().kind, Kind::Query);
    }

    #[test]
    fn a_row_without_times_is_no_event() {
        let mut row = row(b"select 1");
        row[2] = None;
        assert_eq!(
            event(&row, Stamped::Start, Place::default()).unwrap_err(),
            SkipReason::BadValue
        );
    }

    #[test]
    fn the_question_asks_only_for_what_is_wanted() {
        let sql = question(&|name| name != "rows_affected", Some(1_769_882_400_250_000), None, 7);
        assert!(sql.ends_with("`thread_id`, NULL FROM mysql.slow_log WHERE start_time >= '2026-01-31 18:00:00.250000' AND thread_id <> 7"), "{sql}");
        assert!(question(&|name| name == "db", None, None, 7).ends_with("FROM mysql.slow_log"));
    }
}
