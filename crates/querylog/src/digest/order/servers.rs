//! Whether a general log is of one server.
//!
//! It has no durations, so that `order`'s sign for mixed slow logs (a connection that runs statements of two users at
//! the same time) is not there. What cannot be in the log of one server:
//! - starts of servers at different ports or sockets, or of different versions in turn (an upgrade changes it once);
//! - a connection that begins while one of its number is open: a server counts its connections up until it starts again;
//! - clocks in turn: stamps that go back by seconds and forth again, more than once or twice. A clock that is set back
//!   stays there, and logs put one behind the other do not come back.
//!
//! Invariants:
//! 1. The first sign is kept, and one for each file at most is looked for.
//! 2. Fixed memory: a sign's text is bounded, of starts the last two are kept.

use crate::event::{Micros, Place};

/// A step back that no rounding and no thread that waits for the log explains.
const BACK: Micros = 2_000_000;

/// Steps back of a clock that then was where it had been, from which on there are two.
const TURNS: u32 = 5;

/// Of a server's name as it is told.
const LONGEST: usize = 120;

/// What a starting server said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Start {
    version: String,
    /// Port and socket.
    address: String,
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Servers {
    file: Option<u32>,
    last: Option<Start>,
    /// The version before that of `last`.
    before: Option<String>,
    latest: Micros,
    /// The stamps went back and have not been at `latest` since.
    behind: bool,
    turns: u32,
    found: Option<(Place, String)>,
}

impl Servers {
    /// The lines of a starting server (`slowlog::split::server_start`).
    pub fn start(&mut self, place: Place, lines: &[u8]) {
        self.of(place);
        let start = Start::of(lines);
        let Some(last) = &self.last else {
            self.last = Some(start);
            return;
        };
        let both = !last.address.is_empty() && !start.address.is_empty();
        if both && last.address != start.address {
            let what = format!(
                "a server started at {}, before that one at {}",
                start.address, last.address
            );
            return self.find(place, what);
        }
        if last.version == start.version {
            return;
        }
        if self.before.as_ref() == Some(&start.version) {
            let what = format!(
                "servers of version {} and {} started in turn",
                start.version, last.version
            );
            return self.find(place, what);
        }
        self.before = Some(last.version.clone());
        self.last = Some(start);
    }

    /// Connection `id` begins although it is open.
    pub fn reused(&mut self, place: Place, id: u64) {
        self.find(place, format!("connection {id} begins while it is open"));
    }

    /// An entry's time.
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

    /// Another file may be another server's.
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

    /// Where it shows, and what.
    pub fn found(&self) -> Option<&(Place, String)> {
        self.found.as_ref()
    }
}

impl Start {
    fn of(lines: &[u8]) -> Start {
        let mut lines = lines.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
        let first = lines.next().unwrap_or_default();
        let version =
            memchr::memmem::find(first, b", Version: ").map_or(first, |at| &first[at + 11..]);
        let end = memchr::memmem::find(version, b". started with").unwrap_or(version.len());
        let is_address =
            |line: &&[u8]| line.len() > 9 && line[..9].eq_ignore_ascii_case(b"tcp port:");
        Start {
            version: text(&version[..end]),
            address: lines.find(is_address).map(text).unwrap_or_default(),
        }
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

    fn lines(version: &str, port: u32) -> String {
        format!("/usr/sbin/mariadbd, Version: {version} (Debian 12). started with:\nTcp port: {port}  Unix socket: /run/{port}.sock\nTime\t\t    Id Command\tArgument\n")
    }

    fn found(starts: &[(&str, u32)]) -> Option<String> {
        let mut servers = Servers::default();
        for (i, (version, port)) in starts.iter().enumerate() {
            servers.start(Place { file: 0, offset: i as u64 }, lines(version, *port).as_bytes());
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
        let turn = found(&[("10.6.1", 3306), ("10.11.6", 3306), ("10.6.1", 3306)]).unwrap();
        assert!(turn.contains("version 10.6.1 (Debian 12) and 10.11.6"), "{turn}");
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
