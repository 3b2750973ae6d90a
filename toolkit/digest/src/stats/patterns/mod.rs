//! Patterns over the statements of one connection: transactions, and the same class again and again (N+1: a loop in
//! the application that asks for one row at a time).
//!
//! Loops of two to four statements in turn (A, B, A, B) are found as well (`loops`); longer ones are not.
//!
//! A loop does not pause: a run ends where its connection was idle for `IDLE`. So statements that a pool's connection
//! gets from one request after the other do not form a run.
//!
//! Events must come in the order of the log. Statements that a slow log left out
//! (`long_query_time`) are not seen, so a run of statements may have others in between.
//!
//! Two servers may use the same number for a connection. In captures connections have numbers of their own; in logs
//! their users and hosts distinguish them as well.
//!
//! Invariant: at most `MAX_CONNECTIONS` connections, and `MAX_CLASSES` classes and loops, are remembered.

mod loops;

use std::collections::HashMap;

use frond_event::{Event, Kind, Micros};
use frond_sqltext::StatementKind;
pub use loops::{Key, Turn};
use loops::{Loop, Loops};

const MAX_CONNECTIONS: usize = 50_000;
const MAX_CLASSES: usize = 20_000;
/// Different statements before a run that are counted per class.
const MAX_BEFORE: usize = 8;

/// The shortest run that counts, and the fewest turns of a loop.
pub const MIN_RUN: u64 = 5;

/// Longest idle time within a run, from a statement's end to the next one. Old logs have whole seconds.
const IDLE: Micros = 2_000_000;

/// The same from begin to begin, where durations are unknown.
const IDLE_UNKNOWN: Micros = 10_000_000;

/// The last statements of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    class: u64,
    run: u64,
    /// Nanoseconds.
    time: u64,
    /// The class before the run.
    before: u64,
    /// Statements since BEGIN, if there was one.
    transaction: Option<u64>,
    loops: Loops,
    /// The next statement belongs to the run only if it begins by this time.
    awaited: Option<Micros>,
}

/// Runs of one class, or of one loop.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    pub runs: u64,
    pub statements: u64,
    pub longest: u64,
    /// Nanoseconds.
    pub time: u64,
    /// (class, how often it came before a run)
    before: Vec<(u64, u64)>,
    /// For a loop: its classes, in the order of the first run.
    pub turn: Turn,
}

impl Runs {
    /// The class that came before most of the runs.
    pub fn before(&self) -> Option<u64> {
        self.before.iter().max_by_key(|b| (b.1, b.0)).map(|b| b.0)
    }

    /// Adds a run, with its number of statements and their time, after a statement of the class
    /// `before` (0: none).
    fn add(&mut self, statements: u64, time: u64, before: u64) {
        self.runs += 1;
        self.statements += statements;
        self.longest = self.longest.max(statements);
        self.time = self.time.saturating_add(time);
        if before == 0 {
            return;
        }
        if let Some(known) = self.before.iter_mut().find(|b| b.0 == before) {
            known.1 += 1;
        } else if self.before.len() < MAX_BEFORE {
            self.before.push((before, 1));
        }
    }
}

/// See the module's text. Classes are named by their `class_hash`.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    connections: HashMap<u64, Connection>,
    pub runs: HashMap<u64, Runs>,
    pub loops: HashMap<Key, Runs>,
    pub transactions: u64,
    pub statements_in_transactions: u64,
}

/// Identifies the connection; `None` if the event does not tell it.
fn connection_of(event: &Event<'_>) -> Option<u64> {
    if event.connection > 0 {
        return Some(event.connection);
    }
    let mut hash = xxhash_rust::xxh3::Xxh3Default::new();
    for name in [event.user, event.host] {
        hash.update(name);
        hash.update(&[0]);
    }
    hash.update(&event.thread_id?.to_le_bytes());
    Some(hash.digest())
}

impl Patterns {
    /// Adds the next event of the log.
    pub fn add(&mut self, class: u64, event: &Event<'_>) {
        let Some(thread) = connection_of(event) else { return };
        if self.connections.len() >= MAX_CONNECTIONS && !self.connections.contains_key(&thread) {
            self.finish();
        }
        let mut connection = self.connections.remove(&thread).unwrap_or_default();
        if matches!(event.kind, Kind::Quit | Kind::Connect) {
            self.end(&mut connection);
            return;
        }
        if !event.kind.is_statement() {
            self.connections.insert(thread, connection);
            return;
        }
        match StatementKind::of(event.sql) {
            StatementKind::Begin => {
                self.end_transaction(&mut connection);
                connection.transaction = Some(0);
            }
            StatementKind::Commit | StatementKind::Rollback => {
                self.end_transaction(&mut connection)
            }
            _ => {
                if let Some(statements) = &mut connection.transaction {
                    *statements += 1;
                }
            }
        }
        if connection.awaited.zip(event.start).is_some_and(|(awaited, start)| start > awaited) {
            self.end_run(&connection);
            connection.run = 0;
            std::mem::take(&mut connection.loops).finish(|ended| self.end_loop(&ended));
        }
        let idle = if event.query_time().is_some() { IDLE } else { IDLE_UNKNOWN };
        connection.awaited = event.end.or(event.start).map(|end| end.saturating_add(idle));
        let time = event.query_time().unwrap_or(0);
        connection.loops.add(class, time, |ended| self.end_loop(&ended));
        if connection.run > 0 && connection.class == class {
            connection.run += 1;
            connection.time = connection.time.saturating_add(time);
        } else {
            self.end_run(&connection);
            connection.before = if connection.run > 0 { connection.class } else { 0 };
            connection.class = class;
            connection.run = 1;
            connection.time = time;
        }
        self.connections.insert(thread, connection);
    }

    /// Ends the log: open runs and transactions end as well.
    pub fn finish(&mut self) {
        let mut connections: Vec<_> = std::mem::take(&mut self.connections).into_iter().collect();
        // The first run of a loop decides the order of its turn; it must not depend on the hash table.
        connections.sort_unstable_by_key(|(number, _)| *number);
        for (_, mut connection) in connections {
            self.end(&mut connection);
        }
    }

    /// Ends a connection.
    fn end(&mut self, connection: &mut Connection) {
        self.end_run(connection);
        self.end_transaction(connection);
        connection.loops.finish(|ended| self.end_loop(&ended));
    }

    fn end_transaction(&mut self, connection: &mut Connection) {
        if let Some(statements) = connection.transaction.take() {
            self.transactions += 1;
            self.statements_in_transactions += statements;
        }
    }

    fn end_run(&mut self, connection: &Connection) {
        if connection.run < MIN_RUN
            || self.runs.len() >= MAX_CLASSES && !self.runs.contains_key(&connection.class)
        {
            return;
        }
        let runs = self.runs.entry(connection.class).or_default();
        runs.add(connection.run, connection.time, connection.before);
    }

    fn end_loop(&mut self, ended: &Loop) {
        let key = loops::key(ended.turn);
        if ended.turns < MIN_RUN
            || self.loops.len() >= MAX_CLASSES && !self.loops.contains_key(&key)
        {
            return;
        }
        let runs =
            self.loops.entry(key).or_insert_with(|| Runs { turn: ended.turn, ..Runs::default() });
        runs.add(ended.statements, ended.time, ended.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frond_event::Metric;

    fn feed(patterns: &mut Patterns, thread: u64, class: u64, sql: &str) {
        let mut event = Event { sql: sql.as_bytes(), thread_id: Some(thread), ..Event::default() };
        event.metrics.set(Metric::QueryTime, 10);
        patterns.add(class, &event);
    }

    #[test]
    fn runs_are_found_per_connection() {
        let mut patterns = Patterns::default();
        for i in 0..20 {
            feed(&mut patterns, 1, if i % 10 == 0 { 1 } else { 2 }, "select 1");
            // Statements of another connection in between change nothing.
            feed(&mut patterns, 2, 3 + i % 2, "select 2");
        }
        patterns.finish();
        assert_eq!(patterns.runs.len(), 1);
        let runs = &patterns.runs[&2];
        assert_eq!(
            (runs.runs, runs.statements, runs.longest, runs.time, runs.before()),
            (2, 18, 9, 180, Some(1))
        );
    }

    #[test]
    fn statements_of_a_connection_that_waits_between_them_are_no_loop() {
        let found = |times: &[i64]| {
            let mut patterns = Patterns::default();
            for (i, second) in times.iter().enumerate() {
                let start = Some(*second * 1_000_000);
                let end = start.map(|start| start + 500_000);
                for (thread, class) in [(1, 7), (2, 1 + i as u64 % 2)] {
                    let thread_id = Some(thread);
                    let mut event = Event { thread_id, start, end, ..Event::default() };
                    event.metrics.set(Metric::QueryTime, 500_000_000);
                    patterns.add(class, &event);
                }
            }
            patterns.finish();
            let all = patterns.runs.values().chain(patterns.loops.values());
            all.map(|runs| (runs.runs, runs.longest)).collect::<Vec<_>>()
        };
        assert_eq!(found(&(0..12).map(|i| i * 600).collect::<Vec<_>>()), []);
        assert_eq!(found(&(0..12).collect::<Vec<_>>()), [(1, 12), (1, 12)]);
        // Two requests, of six statements and of ten.
        let two: Vec<i64> = (0..6).chain(100..110).collect();
        assert_eq!(found(&two), [(2, 10), (1, 10)]);
    }

    #[test]
    fn loops_of_several_statements_are_found_per_connection() {
        let mut turns = std::collections::HashSet::new();
        for _ in 0..20 {
            let mut patterns = Patterns::default();
            feed(&mut patterns, 1, 9, "select 9");
            for i in 0..12 {
                feed(&mut patterns, 1, 1 + i % 2, "select 1");
                feed(&mut patterns, 2, 20 + i, "select 2");
                feed(&mut patterns, 3, 2 - i % 2, "select 3");
            }
            patterns.finish();
            assert!(patterns.runs.is_empty());
            let (key, runs) = patterns.loops.iter().next().unwrap();
            assert_eq!((patterns.loops.len(), *key), (1, [1, 2, 0, 0]));
            assert_eq!((runs.runs, runs.statements, runs.longest, runs.time), (2, 24, 12, 240));
            assert_eq!(runs.before(), Some(9));
            turns.insert(runs.turn);
        }
        assert_eq!(turns.len(), 1, "the same in every run");
    }

    #[test]
    fn loops_are_bounded() {
        let mut patterns = Patterns::default();
        for class in 1..(MAX_CLASSES as u64 + 100) {
            for i in 0..10 {
                feed(&mut patterns, 1, 2 * class + i % 2, "select 1");
            }
        }
        patterns.finish();
        assert_eq!(patterns.loops.len(), MAX_CLASSES);
        assert!(std::mem::size_of::<Connection>() <= 256);
    }

    #[test]
    fn connections_are_told_apart_and_found_without_the_server_s_number() {
        // As in a capture of an old connection; then two servers, in a capture and in mixed logs.
        let ours = Event { sql: b"select 1", ..Event::default() };
        let [first, second] = [1, 2].map(|c| Event { connection: c, ..ours.clone() });
        let [one, other] = [&first, &second].map(|e| Event { thread_id: Some(7), ..e.clone() });
        let [web, etl] = [b"web", b"etl"].map(|user| Event { user, connection: 0, ..one.clone() });
        for (event, meanwhile) in [(&first, &second), (&one, &other), (&web, &etl)] {
            let mut patterns = Patterns::default();
            for i in 0..6 {
                patterns.add(1, event);
                patterns.add(10 + i, meanwhile);
            }
            patterns.finish();
            assert_eq!(patterns.runs.len(), 1);
            assert_eq!(patterns.runs[&1].longest, 6);
        }
    }

    #[test]
    fn transactions_are_counted() {
        let mut patterns = Patterns::default();
        for sql in [
            "BEGIN",
            "select 1",
            "update t set a=1",
            "COMMIT",
            "select 2",
            "start transaction",
            "select 3",
        ] {
            feed(&mut patterns, 1, 1, sql);
        }
        patterns.finish();
        assert_eq!((patterns.transactions, patterns.statements_in_transactions), (2, 3));
    }

    #[test]
    fn connections_are_bounded() {
        let mut patterns = Patterns::default();
        for thread in 0..(MAX_CONNECTIONS as u64 * 2 + 10) {
            feed(&mut patterns, thread, 1, "select 1");
        }
        assert!(patterns.connections.len() <= MAX_CONNECTIONS);
    }
}
