//! The slow query log of MariaDB (10.x, every `log_slow_verbosity`), MySQL (5.x, 8.x with `log_slow_extra`) and
//! Percona Server.
//!
//! Invariants:
//!
//! - SW1. A piece is parsed without looking at other pieces. The values that an event inherits from before its piece (`# Time`,
//!   `use`, the log's zone) come in a `Carry`, so that the result does not depend on the number of threads.
//! - SW2. Nothing is allocated per event.
//! - SW3. Every byte belongs to an event, to a server's start, or to a `Skip`.
//!
//! # Which times
//!
//! MariaDB stamps an event (`# Time`, `SET timestamp`) with the statement's start, MySQL and Percona Server
//! with its end. An event is MariaDB's if it has `QC_hit:`, which MariaDB always writes, and which Percona
//! Server spells `QC_Hit:`; `Options::stamped` takes precedence. `SET timestamp` is UTC and `# Time` (before
//! MySQL 5.7) is the server's local time: the first event with both gives the zone (`Carry::zone`).
//!
//! Tested here, in `toolkit/digest/tests/it/report/truth.rs` on a log with known answers, and against pt-query-digest in `toolkit/digest/tests/it/ptqd`.

mod carry;
mod found;
mod head;
mod heads;
mod preamble;
mod quotes;
pub mod split;
mod unclosed;
mod warnings;

use memchr::memmem;

use frond_event::text::{stamp, Stamp};
use frond_event::{Event, Kind, Metric, Micros, Place, Sink, Skip, SkipReason, Unmeasured};
use preamble::{is_preamble, preamble};
use split::{Between, End, Mark};
use warnings::Listless;

pub use found::Carry;
use found::Found;
pub use head::user_at_host;

/// What a server's stamps mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamped {
    /// Decided for each event by the rules in the module's text.
    #[default]
    Detect,
    Start,
    End,
}

/// Options for reading a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub stamped: Stamped,
    /// Seconds east of UTC of `# Time` lines without a zone; takes precedence over the log.
    pub zone: Option<i32>,
}

/// A piece of a log: whole events.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    pub bytes: &'a [u8],
    pub place: Place,
    pub carry: &'a Carry,
    /// The log ends with this piece.
    pub last: bool,
}

/// Parses pieces of slow logs. One per thread.
pub struct Parser {
    options: Options,
    names: head::Names,
    boundary: memmem::Finder<'static>,
}

/// The inherited values while a piece is parsed.
struct Inherited<'a> {
    expected: head::Expected,
    stamp: Option<Stamp>,
    db: &'a [u8],
    zone: Option<i32>,
    listless: Listless,
}

impl Parser {
    pub fn new(options: Options) -> Parser {
        Parser { options, names: head::Names::new(), boundary: memmem::Finder::new(b"\n# ") }
    }

    /// Passes the events of a piece to `sink`. Returns the values that the next piece inherits, which equal those that `carry_over`
    /// finds.
    pub fn parse<'a, S: Sink + ?Sized>(&self, piece: Piece<'a>, sink: &mut S) -> Carry {
        self.parse_until(piece, false, &[], sink).1
    }

    /// As `parse`, for a piece whose events `split::cut` has already found.
    pub fn parse_marked<'a, S: Sink + ?Sized>(
        &self,
        piece: Piece<'a>,
        marks: &[Mark],
        sink: &mut S,
    ) -> Carry {
        self.parse_until(piece, false, marks, sink).1
    }

    /// Passes the events at the buffer's beginning to `sink`, as far as they do not depend on the bytes
    /// behind the buffer. Has the effect of cutting the buffer (`split::cut`) and parsing the part
    /// before the cut. Also returns the bytes used.
    pub fn parse_certain<'a, S: Sink + ?Sized>(
        &self,
        piece: Piece<'a>,
        sink: &mut S,
    ) -> (usize, Carry) {
        self.parse_until(piece, true, &[], sink)
    }

    fn parse_until<'a, S: Sink + ?Sized>(
        &self,
        piece: Piece<'a>,
        certain: bool,
        marks: &[Mark],
        sink: &mut S,
    ) -> (usize, Carry) {
        let mut event = Event::default();
        let mut inherited = self.inherited(piece.carry);
        let mut marks = marks.iter().peekable();
        let mut at = 0;
        while at < piece.bytes.len() {
            let mark = marks.next_if(|mark| mark.at as usize == at);
            match self.one(piece, at, certain, mark, &mut event, &mut inherited, sink) {
                Some(next) => at = next,
                None => break,
            }
        }
        let Inherited { stamp, db, zone, .. } = inherited;
        (at, Carry { stamp, db: db.to_vec(), zone })
    }

    fn inherited<'a>(&self, carry: &'a Carry) -> Inherited<'a> {
        Inherited {
            expected: head::Expected::default(),
            stamp: carry.stamp,
            db: &carry.db,
            zone: self.options.zone.or(carry.zone),
            listless: Listless::default(),
        }
    }

    /// Parses the event at `at`; returns where the next one begins. With `certain`, returns `None` and does nothing
    /// if the end of the event is not certain.
    #[allow(clippy::too_many_arguments)]
    fn one<'a, S: Sink + ?Sized>(
        &self,
        piece: Piece<'a>,
        at: usize,
        certain: bool,
        mark: Option<&Mark>,
        event: &mut Event<'a>,
        inherited: &mut Inherited<'a>,
        sink: &mut S,
    ) -> Option<usize> {
        let bytes = piece.bytes;
        let place = Place { file: piece.place.file, offset: piece.place.offset + at as u64 };
        if bytes[at] != b'#' {
            let between = split::between(&self.boundary, bytes, at);
            let Between::Other { next, rubbish, certain: sure } = between else { return Some(at) };
            if certain && !sure {
                return None;
            }
            if rubbish {
                sink.skip(Skip { place, bytes: (next - at) as u64, why: SkipReason::NotAnEvent });
            }
            return Some(next);
        }
        event.clear();
        event.place = place;
        let mut found = Found::default();
        let stamp_before = inherited.stamp;
        let (body, sure) = self.head(bytes, at, event, &mut found, inherited);
        let ending = mark
            .and_then(|mark| mark.ending(body))
            .unwrap_or_else(|| split::end_of_event(&self.boundary, &bytes[body..]));
        if certain && !(sure && ending.certain) {
            inherited.stamp = stamp_before;
            return None;
        }
        let mut next = body + ending.at;
        let preamble = preamble(&bytes[body..next]);
        let text = preamble.rest;
        found.timestamp = preamble.timestamp;
        if let Some(db) = found::database(event.db, preamble.database) {
            (event.db, inherited.db) = (db, db);
        } else if !found.schema {
            event.db = inherited.db;
        }
        // The text ends with `;` and a line break, unless somebody wrote the log by hand.
        let text = text.trim_ascii_end();
        let cut = match ending.how {
            End::Torn => true,
            End::Whole => !ending.certain && is_preamble(text, &found),
            End::Buffer => {
                let ended = text.ends_with(b";") || piece.last && bytes.ends_with(b"\n");
                !ended || is_preamble(text, &found)
            }
        } || text.is_empty();
        let text = text.strip_suffix(b";").unwrap_or(text);
        if cut && !ending.certain && bytes.get(next) == Some(&b'#') {
            // A partial head at the end of the log is not an event, even behind an event that was cut.
            next = bytes.len();
        }
        let skip = |why| Skip { place, bytes: (next - at) as u64, why };
        if cut || event.metrics.present() == 0 && !found.clock_jumped {
            sink.skip(skip(SkipReason::Cut));
            return Some(next);
        }
        if found.bad_value {
            sink.skip(skip(SkipReason::BadValue));
        }
        event.kind = Kind::Query;
        event.sql = text;
        if let Some(rest) = text.strip_prefix(b"# administrator command: ") {
            event.sql = &text[2..];
            event.kind = match rest {
                b"Quit" => Kind::Quit,
                b"Init DB" => Kind::InitDb,
                b"Connect" => Kind::Connect,
                _ => Kind::Admin,
            };
        }
        event.metrics.set(Metric::QuerySize, event.sql.len() as u64);
        self.settle(event, &found, inherited);
        if ending.holds {
            sink.holds_events(place);
        }
        sink.event(event);
        Some(next)
    }

    /// Reads the lines that begin with `#`; returns where the statement begins, and whether that is certain.
    fn head<'a>(
        &self,
        bytes: &'a [u8],
        from: usize,
        event: &mut Event<'a>,
        found: &mut Found,
        inherited: &mut Inherited<'a>,
    ) -> (usize, bool) {
        let mut at = from;
        let mut certain = true;
        while bytes.get(at) == Some(&b'#') {
            if !matches!(bytes.get(at + 2), Some(b'U')) {
                let line = self.names.line(&mut inherited.expected, bytes, at, event, found);
                if let Some(next) = line {
                    at = next;
                    continue;
                }
            }
            let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |p| at + p);
            let next = (end + 1).min(bytes.len());
            let line = &bytes[at + 1..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match line.get(1) {
                Some(b'a') if line.starts_with(b" administrator command: ") => {
                    return (at, certain)
                }
                Some(b'T') if line.starts_with(b" Time: ") => {
                    if let Some((time, used)) = stamp(&line[7..]) {
                        inherited.stamp = Some(time);
                        found.own_stamp = true;
                        // Old servers write the user on the same line.
                        let rest = line[7 + used..].trim_ascii_start();
                        if let Some(user) = rest.strip_prefix(b"# User@Host: ") {
                            head::user_at_host(user, event);
                        }
                    } else {
                        found.bad_value = true;
                    }
                }
                Some(b'U') if line.starts_with(b" User@Host: ") => {
                    head::user_at_host(&line[12..], event)
                }
                Some(b'U') if line.starts_with(b" User: ") => head::user_at_host(&line[7..], event),
                Some(b'e') if line.starts_with(b" explain: ") => {
                    let begin = at;
                    at = run_of(bytes, at, b"# explain: ");
                    event.plan = &bytes[begin..at];
                    continue;
                }
                Some(b'W') if warnings::begins_list(&bytes[at..end]) => {
                    let (behind, sure) = inherited.listless.end_of_list(bytes, next);
                    certain &= sure;
                    at = behind;
                    event.warnings = &bytes[next..at];
                    continue;
                }
                None => {}
                _ => head::attributes(&self.names, &mut inherited.expected, line, event, found),
            }
            at = next;
        }
        (at, certain && at < bytes.len())
    }

    /// Derives the times and the inherited values when all lines have been read.
    fn settle<'a>(&self, event: &mut Event<'a>, found: &Found, inherited: &mut Inherited<'a>) {
        event.stamp = inherited.stamp.map(|s| s.local);
        event.zoned = inherited.stamp.is_some_and(|s| s.zone.is_some());
        if self.options.zone.is_none() && found.own_stamp && inherited.zone.is_none() {
            if let (Some(Stamp { local, zone: None }), Some(utc)) =
                (inherited.stamp, found.timestamp)
            {
                inherited.zone = nearest_zone(local.saturating_sub(utc));
            }
        }
        if found.clock_jumped {
            event.unmeasured = Some(Unmeasured::ClockJumped);
        }
        let zone = inherited.zone.unwrap_or(0);
        if let (Some(start), Some(end)) = (found.start, found.end) {
            event.start = Some(start.utc(zone));
            event.end = Some(end.utc(zone));
            return;
        }
        let duration = event.query_time().map(|ns| i64::try_from(ns / 1000).unwrap_or(i64::MAX));
        let from_stamp = inherited.stamp.map(|s| s.utc(zone));
        let starts = match self.options.stamped {
            Stamped::Detect => found.mariadb,
            Stamped::Start => true,
            Stamped::End => false,
        };
        if starts {
            event.start = found.timestamp.or(from_stamp);
            event.end = event.start.zip(duration).map(|(s, d)| s.saturating_add(d));
        } else {
            // The event's own stamp with a fraction of a second is better than whole seconds.
            let own = inherited.stamp.is_some_and(|s| found.own_stamp && s.zone.is_some());
            event.end = if own { from_stamp } else { found.timestamp.or(from_stamp) };
            event.start = event.end.zip(duration).map(|(e, d)| e.saturating_sub(d));
        }
    }
}

/// The zone that a difference between local time and UTC shows: quarters of an hour, at most 14 hours.
fn nearest_zone(difference: Micros) -> Option<i32> {
    const QUARTER: i64 = 900 * 1_000_000;
    let quarters = difference.saturating_add(QUARTER / 2).div_euclid(QUARTER);
    (-56..=56).contains(&quarters).then(|| quarters as i32 * 900)
}

/// The position behind the lines from `at` on that begin with `prefix`.
fn run_of(bytes: &[u8], at: usize, prefix: &[u8]) -> usize {
    let mut at = at;
    while bytes[at..].starts_with(prefix) {
        at = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |p| at + p + 1);
    }
    at
}

#[cfg(test)]
mod tests;
