//! The general query log of MariaDB and MySQL: every command, without durations.
//!
//! A line begins an entry if it has a connection's number and a known command. Every other line continues
//! the statement before it. Servers write the time only when the second changed (MySQL from 5.7 on: always).
//!
//! Invariants:
//!
//! - GL1. User, host and database of a connection are those of its `Connect`, `Init DB` and `Change user` entries and of
//!   statements `USE`; the parser must therefore see the log in order.
//! - GL2. MariaDB logs a prepared statement's execution with the values filled in: it is a statement like any other.
//! - GL3. At most `MAX_CONNECTIONS` connections are remembered; the log of a server that never logs `Quit` cannot fill
//!   the memory.

mod connection;

use std::collections::HashMap;

use crate::slowlog::split::server_start;
use connection::{connected, used_database, Connection};
use frond_event::text::{stamp, Stamp};
use frond_event::{Event, Kind, Metric, Micros, Place, Sink, Skip, SkipReason, Unmeasured};

const MAX_CONNECTIONS: usize = 100_000;

/// Every command of the servers' tables, longest first where one begins another.
const COMMANDS: &[(&[u8], Kind)] = &[
    (b"Query", Kind::Query),
    (b"Execute", Kind::Execute),
    (b"Prepare", Kind::Prepare),
    (b"Connect Out", Kind::Admin),
    (b"Connect", Kind::Connect),
    (b"Quit", Kind::Quit),
    (b"Init DB", Kind::InitDb),
    (b"Close stmt", Kind::Admin),
    (b"Reset stmt", Kind::Admin),
    (b"Reset connection", Kind::Admin),
    (b"Reset Connection", Kind::Admin),
    (b"Fetch", Kind::Admin),
    (b"Long Data", Kind::Admin),
    (b"Field List", Kind::Admin),
    (b"Change user", Kind::Connect),
    (b"Statistics", Kind::Admin),
    (b"Ping", Kind::Admin),
    (b"Refresh", Kind::Admin),
    (b"Kill", Kind::Admin),
    (b"Processlist", Kind::Admin),
    (b"Set option", Kind::Admin),
    (b"Bulk Execute", Kind::Admin),
    (b"Bulk_execute", Kind::Admin),
    (b"Binlog Dump GTID", Kind::Admin),
    (b"Binlog Dump", Kind::Admin),
    (b"Table Dump", Kind::Admin),
    (b"Register Slave", Kind::Admin),
    (b"Register Replica", Kind::Admin),
    (b"Create DB", Kind::Admin),
    (b"Drop DB", Kind::Admin),
    (b"Shutdown", Kind::Admin),
    (b"Debug", Kind::Admin),
    (b"Daemon", Kind::Admin),
    (b"Delayed insert", Kind::Admin),
    (b"Sleep", Kind::Admin),
    (b"Time", Kind::Admin),
    (b"Error", Kind::Admin),
    (b"Slave_IO", Kind::Admin),
    (b"Slave_SQL", Kind::Admin),
    (b"Slave_worker", Kind::Admin),
    (b"Com_multi", Kind::Admin),
    (b"Unimpl get tid", Kind::Admin),
    (b"clone", Kind::Admin),
    (b"Group Replication Data Stream subscription", Kind::Admin),
];

/// The beginning of an entry.
struct Head<'a> {
    stamp: Option<Stamp>,
    id: u64,
    command: &'static [u8],
    kind: Kind,
    argument: &'a [u8],
}

/// Reads a line (without its line break) as the beginning of an entry.
fn head(line: &[u8]) -> Option<Head<'_>> {
    let (time, mut rest) = match line.first()? {
        b'0'..=b'9' => {
            let (time, used) = stamp(line)?;
            (Some(time), &line[used..])
        }
        b' ' | b'\t' => (None, line),
        _ => return None,
    };
    rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (id, _) = frond_event::text::decimal(&rest[..digits], 1)?;
    rest = rest[digits..].strip_prefix(b" ")?.trim_ascii_start();
    let (command, kind) = *COMMANDS.iter().find(|(name, _)| rest.starts_with(name))?;
    rest = &rest[command.len()..];
    match rest.first() {
        None | Some(b'\t' | b' ') => {}
        _ => return None,
    }
    let argument = match rest.strip_prefix(b"\t") {
        Some(argument) => argument,
        None => rest.trim_ascii_start(),
    };
    Some(Head { stamp: time, id, command, kind, argument })
}

/// True if a line begins an entry of a general log.
pub fn is_head(line: &[u8]) -> bool {
    head(line.strip_suffix(b"\r").unwrap_or(line)).is_some()
}

/// The last offset of `bytes` (not 0) where an entry begins.
pub fn last_boundary(bytes: &[u8]) -> Option<usize> {
    let mut end = bytes.len();
    while let Some(found) = memchr::memrchr(b'\n', &bytes[..end]) {
        let line = &bytes[found + 1..];
        let line = &line[..memchr::memchr(b'\n', line).unwrap_or(line.len())];
        // A truncated line may lack its command.
        if found + 1 + line.len() < bytes.len() && is_head(line) {
            return Some(found + 1);
        }
        end = found;
    }
    None
}

/// Parses general logs, in order.
pub struct Parser {
    connections: HashMap<u64, Connection>,
    stamp: Option<Stamp>,
    zone: i32,
    sql: Vec<u8>,
    /// Number of a server's starts so far. `FLUSH LOGS` writes the same lines, so connections may continue behind them.
    starts: u32,
}

impl Parser {
    /// `zone`: seconds east of UTC of times without a zone.
    pub fn new(zone: i32) -> Parser {
        Parser { connections: HashMap::new(), stamp: None, zone, sql: Vec::new(), starts: 0 }
    }

    /// Passes the events of `bytes` to `sink`. `bytes` begins where an entry begins (or where the log does) and holds
    /// whole entries.
    pub fn parse<S: Sink + ?Sized>(&mut self, bytes: &[u8], place: Place, sink: &mut S) {
        let mut at = 0;
        while at < bytes.len() {
            let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |p| at + p);
            let line = bytes[at..end].strip_suffix(b"\r").unwrap_or(&bytes[at..end]);
            let here = Place { file: place.file, offset: place.offset + at as u64 };
            let Some(head) = head(line) else {
                at = self.rubbish(bytes, at, here, sink);
                continue;
            };
            let argument = at + line.len() - head.argument.len();
            let mut next = (end + 1).min(bytes.len());
            while next < bytes.len() {
                let stop = memchr::memchr(b'\n', &bytes[next..]).map_or(bytes.len(), |p| next + p);
                if is_head(&bytes[next..stop]) || server_start(&bytes[next..]) > 0 {
                    break;
                }
                next = (stop + 1).min(bytes.len());
            }
            if next == bytes.len() && !bytes.ends_with(b"\n") {
                // Servers end every entry with a line break, so this one was cut.
                sink.skip(Skip { place: here, bytes: (next - at) as u64, why: SkipReason::Cut });
                return;
            }
            self.entry(head, bytes[argument..next].trim_ascii_end(), here, sink);
            at = next;
        }
    }

    fn rubbish<S: Sink + ?Sized>(
        &mut self,
        bytes: &[u8],
        at: usize,
        place: Place,
        sink: &mut S,
    ) -> usize {
        let start = server_start(&bytes[at..]);
        if start > 0 {
            self.starts = self.starts.wrapping_add(1);
            sink.server_start(place, &bytes[at..at + start]);
            return at + start;
        }
        let mut next = at;
        let mut blank = true;
        while next < bytes.len() {
            let stop = memchr::memchr(b'\n', &bytes[next..]).map_or(bytes.len(), |p| next + p);
            let line = &bytes[next..stop];
            if next > at && (is_head(line) || server_start(&bytes[next..]) > 0) {
                break;
            }
            blank &= line.trim_ascii().is_empty();
            next = (stop + 1).min(bytes.len());
        }
        if !blank {
            sink.skip(Skip { place, bytes: (next - at) as u64, why: SkipReason::NotAnEvent });
        }
        next
    }

    fn entry<S: Sink + ?Sized>(
        &mut self,
        head: Head<'_>,
        argument: &[u8],
        place: Place,
        sink: &mut S,
    ) {
        self.stamp = head.stamp.or(self.stamp);
        if !self.connections.contains_key(&head.id) && self.connections.len() >= MAX_CONNECTIONS {
            self.connections.clear();
        }
        let connection = self.connections.entry(head.id).or_default();
        let again = connection.open && connection.starts == self.starts;
        connection.starts = self.starts;
        match head.kind {
            Kind::Connect => {
                let starts = connection.starts;
                *connection = Connection { starts, ..connected(argument) };
                if again && connection.open && head.command == b"Connect" {
                    sink.reconnected(place, head.id);
                }
            }
            Kind::InitDb => connection.db = argument.into(),
            // Clients may use a command or send the text. Whether it succeeded is unknown: the log has
            // both before they are executed, and no errors.
            Kind::Query | Kind::Execute => {
                if let Some(db) = used_database(argument) {
                    connection.db = db;
                }
            }
            _ => {}
        }
        let mut event = Event {
            kind: head.kind,
            db: &connection.db,
            user: &connection.user,
            host: &connection.host,
            thread_id: Some(head.id),
            place,
            unmeasured: Some(Unmeasured::NotLogged),
            ..Event::default()
        };
        let time: Option<Micros> = self.stamp.map(|s| s.utc(self.zone));
        event.start = time;
        event.stamp = self.stamp.map(|s| s.local);
        if head.kind.is_statement() {
            event.sql = argument;
        } else {
            self.sql.clear();
            self.sql.extend_from_slice(b"administrator command: ");
            self.sql.extend_from_slice(head.command);
            event.sql = &self.sql;
        }
        event.metrics.set(Metric::QuerySize, event.sql.len() as u64);
        sink.event(&event);
        if head.kind == Kind::Quit {
            self.connections.remove(&head.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frond_event::ForEach;

    /// (kind, sql, user, db, start in seconds)
    type Entry = (Kind, String, String, String, Option<i64>);

    fn parse(log: &str) -> (Vec<Entry>, usize) {
        let mut events = Vec::new();
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let mut sink = ForEach::new(|e: &Event<'_>| {
            events.push((
                e.kind,
                text(e.sql),
                text(e.user),
                text(e.db),
                e.start.map(|t| t / 1_000_000),
            ));
        });
        Parser::new(0).parse(log.as_bytes(), Place::default(), &mut sink);
        let skips = sink.skips.len();
        (events, skips)
    }

    #[test]
    fn mysql_8_has_two_commands_more() {
        let at = |s: u32| format!("2026-03-29T03:31:0{s}.000000Z\t    8 ");
        let log = format!(
            "{}Query\tselect 1\n{}clone\t\n{}Group Replication Data Stream subscription\t\n{}Query\tselect 2\n",
            at(0), at(1), at(2), at(3)
        );
        let (events, skips) = parse(&log);
        let sql: Vec<&str> = events.iter().map(|e| e.1.as_str()).collect();
        assert_eq!((sql.len(), skips), (4, 0), "{sql:?}");
        assert_eq!((sql[0], sql[1]), ("select 1", "administrator command: clone"));
    }

    #[test]
    fn mariadb_executes_are_statements() {
        let (events, skips) = parse(
            "/usr/sbin/mariadbd, Version: 10.11.6-MariaDB-log (Debian 12). started with:\nTcp port: 0  Unix socket: /x\nTime\t\t    Id Command\tArgument\n260101 19:09:31\t     8 Connect\troot@localhost on shop using Socket\n\t\t     8 Prepare\tselect * from t\nwhere id=?\n\t\t     8 Execute\tselect * from t\nwhere id='1'\n\t\t     8 Close stmt\t\n\t\t     8 Quit\t\n",
        );
        assert_eq!(skips, 0);
        assert_eq!(events.len(), 5);
        assert_eq!(events[1].0, Kind::Prepare);
        assert_eq!(events[2].1, "select * from t\nwhere id='1'");
        assert_eq!(
            (events[2].2.as_str(), events[2].3.as_str(), events[2].4),
            ("root", "shop", Some(1_767_294_571))
        );
        assert_eq!(events[3].1, "administrator command: Close stmt");
    }

    #[test]
    fn the_database_follows_the_connection() {
        let (events, _) = parse("061226 15:42:36\t     11 Connect     root@localhost on  \n\t\t\t    11 Init DB     my\n\t\t  12 Query\tselect 1\n\t\t  11 Query       SELECT 2\n061226 16:44:48\t     11 Quit       \n");
        assert_eq!(events[2].3, "");
        assert_eq!((events[3].1.as_str(), events[3].3.as_str()), ("SELECT 2", "my"));
        assert_eq!(events[4].0, Kind::Quit);
    }

    /// The databases of statements that follow the statement `use`.
    fn db_after(command: &str, statement: &str) -> String {
        let log = format!("061226 15:42:36\t     11 Connect\tu@h on shop\n\t\t    11 {command}\t{statement}\n\t\t    11 Query\tselect 1\n");
        let (events, skips) = parse(&log);
        assert_eq!((events.len(), skips), (3, 0), "{statement}");
        events[2].3.clone()
    }

    #[test]
    fn a_use_as_text_changes_the_database() {
        for (statement, db) in [
            ("use blog", "blog"),
            ("USE `my ``db` ;", "my `db"),
            ("/* c */ use/*x*/\n-- y\nblog # z", "blog"),
            ("use\t\"blog\"", "blog"),
            ("use`blog`", "blog"),
            ("use b\u{fc}$_1", "b\u{fc}$_1"),
            // None of these is a `use`.
            ("used blog", "shop"),
            ("use blog x", "shop"),
            ("use", "shop"),
            ("use `blog", "shop"),
            ("use ``", "shop"),
            ("/* use blog", "shop"),
            ("select 'use blog'", "shop"),
        ] {
            assert_eq!(db_after("Query", statement), db, "{statement}");
            assert_eq!(db_after("Execute", statement), db, "{statement}");
        }
        assert_eq!(db_after("Prepare", "use blog"), "shop");
    }

    #[test]
    fn rfc3339_times_and_line_ends() {
        let (events, skips) = parse("2016-06-07T19:07:02.558713Z    4 Query\tSET NAMES utf8\r\n2016-06-07T19:07:03.5Z\t    4 Query\tselect\r\n 7\r\n");
        assert_eq!(skips, 0);
        assert_eq!(events[0].1, "SET NAMES utf8");
        assert_eq!((events[1].1.as_str(), events[1].4), ("select\r\n 7", Some(1_465_326_423)));
    }

    /// Numbers of connections that began while they were already open.
    struct Again(Vec<u64>);

    impl Sink for Again {
        fn event(&mut self, _: &Event<'_>) {}
        fn skip(&mut self, _: Skip) {}
        fn reconnected(&mut self, _: Place, id: u64) {
            self.0.push(id);
        }
    }

    fn again(log: &str) -> Vec<u64> {
        let mut sink = Again(Vec::new());
        Parser::new(0).parse(log.as_bytes(), Place::default(), &mut sink);
        sink.0
    }

    #[test]
    fn a_refusal_in_any_language_opens_nothing() {
        for refusal in [
            "Access denied for user 'evil'@'web' (using password: YES)",
            "Benutzer 'evil'@'web' hat keine Zugriffsberechtigung (verwendetes Passwort: JA)",
            "'evil'@'web' (using password: YES)",
            "\u{30e6}\u{30fc}\u{30b6}\u{30fc}'evil'@'web'",
            "Zu viele Verbindungen",
        ] {
            let begin = "260101 19:09:31\t     8 Connect\tevil@web on shop\n";
            let log = format!("{begin}\t\t     8 Connect\t{refusal}\n{begin}");
            assert_eq!(again(&log), Vec::<u64>::new(), "{refusal}");
            assert_eq!(again(&format!("{log}{begin}")), [8]);
        }
    }

    #[test]
    fn a_line_of_a_statement_may_hold_a_version() {
        let log = "260101 19:09:31\t     8 Query\tselect 'a\nb, Version: 2\nTcp port: 1'\n\t\t     8 Quit\t\n";
        let (events, skips) = parse(log);
        assert_eq!((events.len(), skips), (2, 0));
        assert_eq!(events[0].1, "select 'a\nb, Version: 2\nTcp port: 1'");
    }

    #[test]
    fn an_entry_without_its_end_is_told() {
        let log = "061226 15:42:36\t     11 Query\tselect 1\n\t\t    11 Query\tselect\n 2 from t";
        let (events, skips) = parse(log);
        assert_eq!((events.len(), skips), (1, 1));
        assert_eq!(parse(&format!("{log}\n")).0.len(), 2);
    }

    #[test]
    fn a_log_cut_anywhere_does_no_harm() {
        let log =
            "061226 15:42:36\t     11 Connect\troot@localhost on x\n\t\t    11 Query\tselect\n 1\n";
        for cut in 0..log.len() {
            parse(&log[..cut]);
            assert!(parse(&log[cut..]).1 <= 1);
        }
        assert_eq!(last_boundary(log.as_bytes()), log.rfind("\t\t    11"));
    }
}
