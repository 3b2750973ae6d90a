//! The event, which every input yields: one statement or command as a server logged it or as a client sent it.
//!
//! An `Event` borrows from the input's buffer and is valid only during `Sink::event`. It is meant to be reused: a
//! parser keeps one, calls `clear` and fills it, so that nothing is allocated per event.
//!
//! Invariants:
//!
//! - EV1. Text is bytes as received. Nothing is assumed to be UTF-8; an empty slice means unknown.
//! - EV2. Times are microseconds since the epoch, UTC. `start` and `end` are the statement's begin and end, whichever
//!   of them the server stamped; the parser derives the other from the duration if there is one.
//! - EV3. `QueryTime` is absent if the time is unknown (general log, lost packets); it is never
//!   guessed. If the measurement failed, `unmeasured` says why.
//! - EV4. `sql` of a command that is not a statement is `administrator command: NAME` (as slow logs write it), so that
//!   such commands form classes like any other. NAME is the log's or protocol's word: Quit, Connect, Ping, ...
//! - EV5. `place` is where the event begins in its input: for messages, and for telling apart equal events.

use crate::metric::{Flags, Metric, Metrics};

/// Microseconds since 1970-01-01 00:00:00 UTC; negative before it.
pub type Micros = i64;

/// The kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A statement as text (COM_QUERY, or any statement of a slow log).
    #[default]
    Query,
    /// A prepared statement was executed; `sql` is its text, with values filled in where they are known.
    Execute,
    /// A statement was prepared; `sql` is its text with `?`.
    Prepare,
    /// A connection was made (`user`, `host`, `db` as far as known) or refused (`error`).
    Connect,
    /// A connection ended.
    Quit,
    /// The default database was changed by a command; `db` is the new one.
    InitDb,
    /// Any other command.
    Admin,
}

impl Kind {
    /// True if `sql` holds a statement's text rather than `administrator command: ...`.
    pub fn is_statement(self) -> bool {
        matches!(self, Kind::Query | Kind::Execute | Kind::Prepare)
    }
}

/// Why a statement has no time although the input normally gives one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unmeasured {
    /// Packets of the statement or of its answer are missing in the capture.
    PacketsLost,
    /// The capture or the log ends before the answer does.
    CutAtEnd,
    /// The answer was seen but its statement began before the capture.
    BegunBefore,
    /// The input (a general log, raw statements) has no durations.
    NotLogged,
    /// The logged duration is impossible (the server's clock went backwards).
    ClockJumped,
}

impl Unmeasured {
    pub fn describe(self) -> &'static str {
        match self {
            Unmeasured::PacketsLost => "packets lost",
            Unmeasured::CutAtEnd => "input ends before the answer",
            Unmeasured::BegunBefore => "began before the input",
            Unmeasured::NotLogged => "input has no durations",
            Unmeasured::ClockJumped => "server clock jumped",
        }
    }
}

/// The place of something: the number of the input (in the order of reading) and the offset in its uncompressed bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub file: u32,
    pub offset: u64,
}

/// One statement or command. See the module's invariants.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    pub kind: Kind,
    pub sql: &'a [u8],
    pub db: &'a [u8],
    pub user: &'a [u8],
    /// The client's name or, where only that is known, its address.
    pub host: &'a [u8],
    pub ip: &'a [u8],
    /// The server's connection number; unique within one server run only.
    pub thread_id: Option<u64>,
    /// Identifies a connection of captured traffic, because the server's number may be unknown; 0: not captured.
    pub connection: u64,
    pub start: Option<Micros>,
    pub end: Option<Micros>,
    /// The stamp exactly as in the log's `# Time` line (or the packet), inherited from earlier events if necessary,
    /// and read as if its zone were UTC. Only compatibility reports use it; everything else uses `start` and `end`.
    pub stamp: Option<Micros>,
    /// The stamp has a zone, as MySQL writes it since 5.7: `2026-01-01T19:09:31.659924Z`.
    pub zoned: bool,
    pub metrics: Metrics,
    pub flags: Flags,
    /// The statement's error number; `Some(0)`: it certainly succeeded.
    pub error: Option<u32>,
    /// The error's text where the input has it.
    pub error_text: &'a [u8],
    pub unmeasured: Option<Unmeasured>,
    /// For a statement without an answer: nanoseconds that it had waited, at least, when its connection or
    /// the input ended.
    pub waited: Option<u64>,
    /// Lines of a logged EXPLAIN/ANALYZE, tab separated, each with its `# explain: `; the first is the heading.
    pub plan: &'a [u8],
    /// Lines of logged warnings, each with its `# `.
    pub warnings: &'a [u8],
    /// The stored routine in which the statement ran, as logged.
    pub routine: &'a [u8],
    /// The number of statements for which this one stands (`log_slow_rate_limit`, sampled
    /// connections); 1 if nothing was sampled.
    pub rate: u32,
    /// Attributes that are not well known, and connection attributes; names as logged, in the order of the log.
    pub extra: Vec<(&'a [u8], &'a [u8])>,
    pub place: Place,
}

impl Default for Event<'_> {
    fn default() -> Self {
        Event {
            kind: Kind::Query,
            sql: b"",
            db: b"",
            user: b"",
            host: b"",
            ip: b"",
            thread_id: None,
            connection: 0,
            start: None,
            end: None,
            stamp: None,
            zoned: false,
            metrics: Metrics::default(),
            flags: Flags::default(),
            error: None,
            error_text: b"",
            unmeasured: None,
            waited: None,
            plan: b"",
            warnings: b"",
            routine: b"",
            rate: 1,
            extra: Vec::new(),
            place: Place::default(),
        }
    }
}

impl<'a> Event<'a> {
    /// Empties the event, but keeps the memory of `extra`.
    #[inline]
    pub fn clear(&mut self) {
        self.kind = Kind::Query;
        self.sql = b"";
        self.db = b"";
        self.user = b"";
        self.host = b"";
        self.ip = b"";
        self.thread_id = None;
        self.connection = 0;
        self.start = None;
        self.end = None;
        self.stamp = None;
        self.zoned = false;
        self.metrics.clear();
        self.flags = Flags::default();
        self.error = None;
        self.error_text = b"";
        self.unmeasured = None;
        self.waited = None;
        self.plan = b"";
        self.warnings = b"";
        self.routine = b"";
        self.rate = 1;
        self.extra.clear();
        self.place = Place::default();
    }

    /// The statement's duration in nanoseconds, if measured.
    #[inline]
    pub fn query_time(&self) -> Option<u64> {
        self.metrics.get(Metric::QueryTime)
    }

    /// The value of an attribute that is not well known; the case of its name does not matter.
    pub fn attribute(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.extra.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|&(_, value)| value)
    }
}

/// Something in an input that could not be read as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    pub place: Place,
    /// Number of bytes skipped.
    pub bytes: u64,
    pub why: SkipReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SkipReason {
    /// The event's begin or end is missing: the file was cut, or it is still being written.
    Cut,
    /// Bytes between events that are not the header of a server's start.
    NotAnEvent,
    /// A number or a time of the event is not one.
    BadValue,
    /// The event is longer than the limit for one event.
    TooLong,
    /// Captured bytes that are not a readable packet, or not the MySQL protocol.
    BadPacket,
}

impl SkipReason {
    pub fn describe(self) -> &'static str {
        match self {
            SkipReason::Cut => "cut event",
            SkipReason::NotAnEvent => "not an event",
            SkipReason::BadValue => "unreadable number or time",
            SkipReason::TooLong => "event longer than the limit",
            SkipReason::BadPacket => "unreadable packet",
        }
    }
}

/// Receives the events of an input.
pub trait Sink {
    fn event(&mut self, event: &Event<'_>);

    fn skip(&mut self, skip: Skip);

    /// A literal of the next event's statement holds text that looks like events of a slow log.
    fn holds_events(&mut self, _place: Place) {}

    /// At this place a general log has the lines of a starting server.
    fn server_start(&mut self, _place: Place, _lines: &[u8]) {}

    /// In a general log a connection begins although a connection with its number is open.
    fn reconnected(&mut self, _place: Place, _id: u64) {}
}

/// A sink for tests and for small inputs: calls a closure for each event, counts the skips.
pub struct ForEach<F> {
    pub each: F,
    pub skips: Vec<Skip>,
}

impl<F: FnMut(&Event<'_>)> ForEach<F> {
    pub fn new(each: F) -> Self {
        ForEach { each, skips: Vec::new() }
    }
}

impl<F: FnMut(&Event<'_>)> Sink for ForEach<F> {
    fn event(&mut self, event: &Event<'_>) {
        (self.each)(event);
    }

    fn skip(&mut self, skip: Skip) {
        self.skips.push(skip);
    }
}

/// An input that must be read in order from its first byte to its last, because its connections have state:
/// captured traffic. (Logs are cut at event boundaries and parsed in parallel instead; see `input`.)
pub trait Stream {
    /// Feeds the next bytes of the file, cut anywhere. `Err` ends the reading of this file; its message
    /// names the cause and a remedy.
    fn feed(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), String>;

    /// The file ended: statements without an answer are yielded as unmeasured.
    fn finish(&mut self, sink: &mut dyn Sink);

    /// Losses so far.
    fn losses(&self) -> Losses;
}

/// Losses of a capture, for the head of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    pub packets: u64,
    /// Gaps in connections' sequence numbers.
    pub gaps: u64,
    pub bytes_missing: u64,
    pub connections: u64,
    /// Connections with at least one gap.
    pub connections_with_gaps: u64,
    /// Connections not decoded because they are encrypted.
    pub encrypted: u64,
    /// Statements without a time, for whatever reason.
    pub unmeasured: u64,
    /// Connections not chosen by `--sample-connections`.
    pub not_sampled: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Flag;

    #[test]
    fn clearing_leaves_nothing_of_the_event_before() {
        let mut event = Event { sql: b"select 1", rate: 7, ..Event::default() };
        event.metrics.set(Metric::QueryTime, 5);
        event.flags.set(Flag::FullScan, true);
        event.extra.push((b"Profile_x", b"1"));
        assert_eq!(event.query_time(), Some(5));
        assert_eq!(event.attribute(b"profile_X"), Some(&b"1"[..]));
        event.clear();
        assert_eq!(event.query_time(), None);
        assert_eq!(event.flags, Flags::default());
        assert!(event.sql.is_empty() && event.extra.is_empty() && event.rate == 1);
    }
}
