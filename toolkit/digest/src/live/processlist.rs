//! The running statements, polled: how long each was seen running.
//!
//! A statement is yielded once, when it is no longer in the list, with its time when it was last seen. That is
//! less than its real time by at most one interval (PL2). A statement shorter than the interval is seen with
//! a probability of its time divided by the interval; unseen ones are not counted. So counts and total times
//! are lower bounds, times of statements longer than the interval are exact to one interval, and the busiest
//! classes are at the top. `Tracker::load` is unbiased: the mean number of statements running at a moment.
//!
//! Invariants:
//!
//! - PL1. Two polls see the same statement if the connection and `query_id` agree (MariaDB). Where
//!   there is no `query_id`: if connection and text agree and the time did not fall.
//! - PL2. Times come from the server's own clock for the statement, never from the times of the polls alone.
//! - PL3. Memory is that of one list: at most `MAX_TEXT` bytes for each running statement.

use std::collections::HashMap;

use super::{bytes, number, Row};
use frond_event::numbers::plural;
use frond_event::{Event, Kind, Metric, Micros, Place, Sink};

/// Bytes of a statement that are asked for.
pub const MAX_TEXT: usize = 1 << 20;

/// Columns in the order of a row.
const COLUMNS: [&str; 9] =
    ["ID", "USER", "HOST", "DB", "COMMAND", "TIME", "TIME_MS", "QUERY_ID", "EXAMINED_ROWS"];
const INFO: [&str; 2] = ["INFO_BINARY", "INFO"];

/// The query; `own` is the connection that sends it.
pub fn question(has: &dyn Fn(&str) -> bool, own: u64) -> String {
    let info = if has(INFO[0]) { INFO[0] } else { INFO[1] };
    format!(
        "SELECT {}, LEFT(`{info}`, {MAX_TEXT}) FROM information_schema.PROCESSLIST \
         WHERE `COMMAND` IN ('Query', 'Execute') AND `{info}` IS NOT NULL AND `ID` <> {own}",
        super::columns(&COLUMNS, has)
    )
}

/// A statement that was running when the list was read last.
struct Running {
    query_id: Option<u64>,
    kind: Kind,
    sql: Vec<u8>,
    user: Vec<u8>,
    host: Vec<u8>,
    db: Vec<u8>,
    examined: Option<u64>,
    /// When it was first seen, and last.
    first: Micros,
    last: Micros,
    /// Nanoseconds that it had run when last seen.
    time: u64,
    /// Number of the poll that last saw it.
    look: u64,
}

/// See the module's text.
#[derive(Default)]
pub struct Tracker {
    running: HashMap<u64, Running>,
    now: Micros,
    look: u64,
    /// Statements seen, summed over all polls.
    seen: u64,
    given: u64,
}

impl Tracker {
    /// Starts a poll at the moment `now`.
    pub fn begin(&mut self, now: Micros) {
        self.now = now;
        self.look += 1;
    }

    /// A row of the list.
    pub fn row(&mut self, row: &Row<'_>, sink: &mut dyn Sink) {
        let Some(id) = number(row, 0) else { return };
        let query_id = number(row, 7).filter(|id| *id != 0);
        let time = time_of(row);
        let sql = bytes(row, 9);
        self.seen += 1;
        if let Some(running) = self.running.get_mut(&id) {
            let same = match (query_id, running.query_id) {
                (Some(now), Some(before)) => now == before,
                _ => running.sql == sql && time >= running.time.saturating_sub(1_000_000_000),
            };
            if same {
                running.last = self.now;
                running.look = self.look;
                running.examined = number(row, 8).or(running.examined);
                // Whole seconds are less exact than the moments of the polls.
                let watched = u64::try_from(self.now - running.first).unwrap_or(0) * 1000;
                running.time = running.time.max(time).max(watched);
                return;
            }
        }
        let new = Running {
            query_id,
            kind: if bytes(row, 4) == b"Execute" { Kind::Execute } else { Kind::Query },
            sql: sql.to_vec(),
            user: bytes(row, 1).to_vec(),
            host: without_port(bytes(row, 2)).to_vec(),
            db: bytes(row, 3).to_vec(),
            examined: number(row, 8),
            first: self.now,
            last: self.now,
            time,
            look: self.look,
        };
        if let Some(ended) = self.running.insert(id, new) {
            give(id, &ended, self.given, sink);
            self.given += 1;
        }
    }

    /// Ends a poll: statements that were not in the list have ended.
    pub fn end(&mut self, sink: &mut dyn Sink) {
        let look = self.look;
        let mut ended: Vec<(u64, Running)> =
            self.running.extract_if(|_, running| running.look != look).collect();
        self.give_all(&mut ended, sink);
    }

    /// After the last poll: yields the statements that are still running, and returns their number.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> usize {
        let mut left: Vec<(u64, Running)> = self.running.drain().collect();
        self.give_all(&mut left, sink);
        left.len()
    }

    fn give_all(&mut self, ended: &mut [(u64, Running)], sink: &mut dyn Sink) {
        ended.sort_by_key(|(id, running)| (running.last, *id));
        for (id, running) in ended {
            give(*id, running, self.given, sink);
            self.given += 1;
        }
    }

    /// The number of polls.
    pub fn looks(&self) -> u64 {
        self.look
    }

    /// Number of statements running at a moment, on average.
    pub fn load(&self) -> f64 {
        self.seen as f64 / self.look.max(1) as f64
    }
}

/// The note for the report.
pub fn note(tracker: &Tracker, interval: f64, still: usize) -> Vec<String> {
    let mut notes = vec![
        format!(
            "From the processlist, read {}, every {interval} s or slower: a statement's time is a lower bound (it ended up to an interval after it was last seen), and statements shorter than the interval are mostly missing. Counts and totals are lower bounds too.",
            plural(tracker.looks(), "time")
        ),
        format!("At a moment {:.2} statements were running on average.", tracker.load()),
    ];
    if still > 0 {
        notes.push(format!(
            "{} still ran at the end, of which the time so far is counted.",
            plural(still as u64, "statement")
        ));
    }
    notes
}

fn give(id: u64, running: &Running, number: u64, sink: &mut dyn Sink) {
    let micros = i64::try_from(running.time / 1000).unwrap_or(i64::MAX);
    let mut event = Event {
        kind: running.kind,
        sql: &running.sql,
        db: &running.db,
        user: &running.user,
        host: &running.host,
        thread_id: Some(id),
        start: Some(running.last.saturating_sub(micros)),
        end: Some(running.last),
        stamp: Some(running.last.saturating_sub(micros)),
        place: Place { file: 0, offset: number },
        ..Event::default()
    };
    event.metrics.set(Metric::QueryTime, running.time);
    event.metrics.set(Metric::QuerySize, running.sql.len() as u64);
    if let Some(rows) = running.examined {
        event.metrics.set(Metric::RowsExamined, rows);
    }
    sink.event(&event);
}

/// Nanoseconds: `TIME_MS` (MariaDB: milliseconds with a fraction), else whole seconds.
fn time_of(row: &Row<'_>) -> u64 {
    let text = |at| bytes(row, at);
    match frond_event::text::decimal(text(6), 1_000_000) {
        Some((nanos, _)) => nanos,
        // Negative if the clock was set back.
        None => frond_event::text::decimal(text(5), 1_000_000_000).map_or(0, |(nanos, _)| nanos),
    }
}

/// `host:port` of a client; IPv6 addresses are without brackets, so only what follows a name or four numbers is a port.
fn without_port(host: &[u8]) -> &[u8] {
    match memchr::memrchr(b':', host) {
        Some(at) if host[at + 1..].iter().all(u8::is_ascii_digit) => &host[..at],
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frond_event::ForEach;

    type Seen = (u64, String, u64, Micros);

    /// Feeds rows of (connection, query id, ms, text), a list for each poll, 100 ms apart.
    fn watch(looks: &[&[(u64, u64, &str, &str)]], with_ids: bool) -> (Vec<Seen>, usize, f64) {
        let mut seen = Vec::new();
        let mut sink = ForEach::new(|e: &Event<'_>| {
            let sql = String::from_utf8_lossy(e.sql).into_owned();
            seen.push((e.thread_id.unwrap(), sql, e.query_time().unwrap(), e.start.unwrap()));
        });
        let mut tracker = Tracker::default();
        for (i, rows) in looks.iter().enumerate() {
            tracker.begin(1_000_000_000 + i as i64 * 100_000);
            for (id, query, ms, sql) in *rows {
                let (id, query) = (id.to_string(), query.to_string());
                let ids = with_ids.then_some(query.as_bytes());
                tracker.row(
                    &[
                        Some(id.as_bytes()),
                        Some(b"app"),
                        Some(b"10.0.0.7:41234"),
                        Some(b"shop"),
                        Some(b"Query"),
                        Some(b"0"),
                        with_ids.then_some(ms.as_bytes()),
                        ids,
                        None,
                        Some(sql.as_bytes()),
                    ],
                    &mut sink,
                );
            }
            tracker.end(&mut sink);
        }
        let still = tracker.finish(&mut sink);
        let load = tracker.load();
        (seen, still, load)
    }

    #[test]
    fn a_statement_is_given_once_with_the_time_it_had() {
        let (seen, still, load) = watch(
            &[
                &[(7, 1, "30.500", "select 1")],
                &[(7, 1, "130.500", "select 1"), (8, 2, "1", "select 2")],
                &[(8, 2, "101", "select 2")],
            ],
            true,
        );
        assert_eq!(
            seen,
            [
                (7, "select 1".into(), 130_500_000, 1_000_100_000 - 130_500),
                (8, "select 2".into(), 101_000_000, 1_000_200_000 - 101_000)
            ]
        );
        assert_eq!(still, 1);
        assert!((load - 4.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_same_text_again_is_another_statement() {
        let looks: &[&[(u64, u64, &str, &str)]] =
            &[&[(7, 1, "90", "select 1")], &[(7, 2, "40", "select 1")]];
        assert_eq!(watch(looks, true).0.len(), 2);
        // Without query ids the two cannot be told apart: they count as one, for as long as it was seen.
        let (seen, _, _) = watch(looks, false);
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].2, 100_000_000);
    }

    #[test]
    fn ports_are_no_part_of_a_host() {
        assert_eq!(without_port(b"web1:40000"), b"web1");
        assert_eq!(without_port(b"localhost"), b"localhost");
    }

    #[test]
    fn columns_that_a_server_lacks_are_null() {
        let sql = question(&|name| !matches!(name, "TIME_MS" | "QUERY_ID" | "INFO_BINARY"), 5);
        assert!(sql.contains("`TIME`, NULL, NULL, `EXAMINED_ROWS`, LEFT(`INFO`"), "{sql}");
    }
}
