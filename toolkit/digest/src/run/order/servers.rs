//! Checks whether a general log is of one server.
//!
//! A general log has no durations, so `order`'s sign of mixed slow logs (a connection that runs statements of
//! two users at the same time) does not exist here. The log of one server cannot have:
//! - starts of servers with another port and another socket (one of them may have been configured anew; without
//!   networking the port is 0), or of versions in turn, A, B, A, B (an upgrade that is rolled back is A, B, A);
//! - a connection that begins while a connection with its number is open: a server numbers its connections upwards until
//!   it restarts;
//! - alternating clocks: stamps that go back by seconds and forth again, more than once or twice. A clock that is set
//!   back stays there, and logs put one behind the other do not return.
//!
//! Invariants:
//!
//! - SVR1. The first sign is kept, and at most one sign per file is searched for.
//! - SVR2. Memory is fixed: a sign's text is bounded, and of starts the last two versions and the last address are kept.

use frond_event::{Micros, Place};

/// A step back by more than rounding and a thread that waits for the log explain.
const BACK: Micros = 2_000_000;

/// From this many steps back, each from where the clock had been before, there are two clocks.
const TURNS: u32 = 5;

/// Bytes of a server's name in messages.
const LONGEST: usize = 120;

/// The facts about a starting server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Start {
    version: String,
    address: Option<Address>,
}

/// Where a server with networking listens; both are known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    port: u64,
    socket: String,
    /// The line as the log has it.
    line: String,
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Servers {
    file: Option<u32>,
    address: Option<Address>,
    version: Option<String>,
    /// The version before that.
    before: Option<String>,
    /// `version` also came before `before`.
    back: bool,
    latest: Micros,
    /// The stamps went back and have not reached `latest` since.
    behind: bool,
    turns: u32,
    found: Option<(Place, String)>,
}

impl Servers {
    /// The lines of a starting server (`slowlog::split::server_start`).
    pub fn start(&mut self, place: Place, lines: &[u8]) {
        self.of(place);
        let Some(start) = Start::of(lines) else { return };
        if let Some(address) = start.address {
            let last = self.address.replace(address.clone());
            let another = |a: &Address| a.port != address.port && a.socket != address.socket;
            if let Some(last) = last.filter(another) {
                let (now, before) = (address.line, last.line);
                self.find(place, format!("a server started at {now}, before that one at {before}"));
            }
        }
        if self.version.as_ref() == Some(&start.version) {
            return;
        }
        let back = self.before.as_ref() == Some(&start.version);
        let last = self.version.replace(start.version.clone());
        if let (true, true, Some(last)) = (back, self.back, &last) {
            let (a, b) = (&start.version, last);
            self.find(place, format!("servers of version {a} and {b} started in turn"));
        }
        self.back = back;
        self.before = last;
    }

    /// Connection `id` begins although it is already open.
    pub fn reused(&mut self, place: Place, id: u64) {
        self.find(place, format!("connection {id} begins while it is open"));
    }

    /// Notes the time of an entry.
    #[inline]
    pub fn see(&mut self, place: Place, stamp: Micros) {
        if self.file != Some(place.file) {
            self.of(place);
        }
        if stamp >= self.latest {
            self.latest = stamp;
            self.behind = false;
        } else if !self.behind && stamp <= self.latest.saturating_sub(BACK) {
            self.behind = true;
            self.turns += 1;
            if self.turns == TURNS {
                self.find(place, "their clocks differ, and go back and forth".into());
            }
        }
    }

    /// Starts another file, which may be of another server.
    fn of(&mut self, place: Place) {
        if self.file != Some(place.file) {
            let found = self.found.take();
            *self = Servers {
                file: Some(place.file),
                latest: Micros::MIN,
                found,
                ..Servers::default()
            };
        }
    }

    fn find(&mut self, place: Place, what: String) {
        self.found.get_or_insert((place, what));
    }

    pub fn merge(&mut self, other: Servers) {
        if let Some((place, what)) = other.found {
            self.find(place, what);
        }
    }

    /// The place of the first sign, and its text.
    pub fn found(&self) -> Option<&(Place, String)> {
        self.found.as_ref()
    }
}

impl Start {
    /// Reads the lines of a start; `None` for a line that merely looks like one.
    fn of(lines: &[u8]) -> Option<Start> {
        let mut lines = lines.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
        let first = lines.next()?;
        let version = &first[memchr::memmem::find(first, b", Version: ")? + 11..];
        let mut end = memchr::memmem::find(version, b" started with")?;
        while end > 0 && matches!(version[end - 1], b'.' | b',' | b' ') {
            end -= 1;
        }
        Some(Start { version: text(&version[..end]), address: lines.find_map(Address::of) })
    }
}

impl Address {
    /// Reads `Tcp port: 3306  Unix socket: /x`.
    fn of(line: &[u8]) -> Option<Address> {
        let line = text(line);
        let (tcp, rest) = line.split_once(':')?;
        let (port, rest) = rest.trim_start().split_once(|c: char| !c.is_ascii_digit())?;
        let (_, socket) = rest.split_once(": ")?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let known = tcp.eq_ignore_ascii_case("tcp port") && !matches!(socket, "" | "(null)");
        known.then(|| Address { port, socket: socket.to_owned(), line: line.clone() })
    }
}

/// Words with one blank between.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(version: &str, port: u32, socket: u32) -> String {
        format!("/usr/sbin/mariadbd, Version: {version} (Debian 12). started with:\nTcp port: {port}  Unix socket: /run/{socket}.sock\nTime\t\t    Id Command\tArgument\n")
    }

    fn found_at(starts: &[(u32, u32)]) -> Option<u64> {
        let mut servers = Servers::default();
        for (i, (port, socket)) in starts.iter().enumerate() {
            let place = Place { file: 0, offset: i as u64 };
            servers.start(place, lines("10.11.6", *port, *socket).as_bytes());
        }
        servers.found().map(|found| found.0.offset)
    }

    fn found(starts: &[(&str, u32)]) -> Option<String> {
        let mut servers = Servers::default();
        for (i, (version, port)) in starts.iter().enumerate() {
            let place = Place { file: 0, offset: i as u64 };
            servers.start(place, lines(version, *port, *port).as_bytes());
        }
        servers.found().map(|(place, what)| format!("{}: {what}", place.offset))
    }

    #[test]
    fn starts_of_two_servers_are_told_from_those_of_one() {
        assert_eq!(found(&[("10.11.6", 3306), ("10.11.6", 3306)]), None);
        assert_eq!(found(&[("10.6.1", 3306), ("10.11.6", 3306), ("10.11.7", 3306)]), None);
        let two = found(&[("10.11.6", 3306), ("10.11.6", 3306), ("10.11.6", 3307)]).unwrap();
        assert!(
            two.starts_with("2: a server started at Tcp port: 3307 Unix socket: /run/3307.sock,")
        );
        let (a, b) = (("10.6.1", 3306), ("10.11.6", 3306));
        let turn = found(&[a, b, a, a, b]).unwrap();
        assert!(turn.starts_with("4: "), "{turn}");
        assert!(turn.contains("version 10.11.6 (Debian 12) and 10.6.1"), "{turn}");
    }

    #[test]
    fn an_upgrade_that_is_rolled_back_is_one_server_s() {
        let (a, b, c) = (("10.6.1", 3306), ("10.11.6", 3306), ("10.11.7", 3306));
        assert_eq!(found(&[a, b, a]), None);
        assert_eq!(found(&[a, b, b, a, a, c]), None);
    }

    #[test]
    fn a_server_that_listens_elsewhere_than_before_is_one() {
        // Images of containers first start the server without networking.
        assert_eq!(found_at(&[(0, 1), (3306, 1), (0, 2), (3306, 1)]), None);
        assert_eq!(found_at(&[(3306, 1), (3307, 1), (3307, 2)]), None, "configured anew");
        assert_eq!(found_at(&[(0, 1), (3306, 1), (0, 2), (3307, 2)]), Some(3));
    }

    #[test]
    fn lines_that_look_like_a_start_s_are_none() {
        let mut servers = Servers::default();
        for version in ["1, Version: 2", "1, Version: 3", "1, Version: 2", "1, Version: 3"] {
            let lines =
                format!("{version}\nTcp port: {}  Unix socket: /{version}\n", version.len());
            servers.start(Place::default(), lines.as_bytes());
        }
        assert_eq!(servers.found(), None);
        let old = b"/usr/sbin/mysqld, Version: 4.0.24-log, started with:\nTcp port: 3306  Unix socket: (null)\n";
        assert_eq!(Start::of(old), Some(Start { version: "4.0.24-log".into(), address: None }));
    }

    #[test]
    fn clocks_in_turn_are_told_from_one_that_was_set() {
        let seen = |stamps: &[i64]| {
            let mut servers = Servers::default();
            for (i, stamp) in stamps.iter().enumerate() {
                servers.see(Place { file: 0, offset: i as u64 }, stamp * 1_000_000);
            }
            servers.found().map(|f| f.0.offset)
        };
        assert_eq!(seen(&[5, 3, 5, 3, 6, 4, 6, 4, 7, 5, 8]), Some(9));
        // Rounding; a clock that was set back, and again; logs one behind the other.
        assert_eq!(seen(&[5, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5]), None);
        assert_eq!(seen(&[9, 5, 6, 7, 8, 9, 10, 4, 5, 6, 7, 8, 9, 10, 11]), None);
        assert_eq!(seen(&[1, 2, 3, 4, 1, 2, 3, 4]), None);
    }
}
