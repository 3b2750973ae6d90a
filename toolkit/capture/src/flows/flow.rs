//! One connection in the table: whether it speaks the MySQL protocol, which side is the client,
//! when it ends.

use super::order::List;
use crate::mysql::{is_greeting, is_statement, Attached, Session};
use crate::output::Output;
use crate::packet::{Endpoint, Segment, ACK, RST, SYN};
use crate::stream::{Piece, Receiver, Side, Streams};
use frond_event::Unmeasured;
use std::net::Ipv6Addr;

/// Segments with payload that are tested before a connection on another port is ignored.
const TRIES: u8 = 8;

/// Nanoseconds after the end of a connection in which its late packets may arrive. A system does
/// not reuse the ports for a minute (RFC 9293, TIME-WAIT).
const LATE: i64 = 60_000_000_000;

/// The smaller endpoint first.
pub(super) type Key = (Endpoint, Endpoint);

enum State {
    /// The protocol is not yet known; this many segments were tested.
    Candidate {
        opened: Option<i64>,
        tries: u8,
    },
    Active(Box<Session>),
    /// Ended or ignored.
    Closed,
    /// Closed to free memory: its next bytes start it again.
    Evicted,
    /// Not among the sampled ones.
    NotChosen,
}

pub(super) struct Flow {
    pub key: Key,
    /// `key.0` is the client; `None`: not yet known.
    first_is_client: Option<bool>,
    state: State,
    streams: Streams,
    /// Time of its last packet before it was closed.
    last: i64,
    /// Bytes of its buffers, as last counted.
    pub memory: usize,
    /// It was counted as a connection.
    counted: bool,
}

struct Discard;

impl Receiver for Discard {
    fn data(&mut self, _: Side, _: &[u8], _: Piece) {}
    fn gap(&mut self, _: Side, _: u64, _: u64) {}
    fn cut(&mut self, _: Side, _: Piece, _: u64) {}
    fn another(&mut self) {}
}

impl Flow {
    pub(super) fn new(key: Key) -> Self {
        Flow {
            key,
            first_is_client: None,
            state: State::Candidate { opened: None, tries: 0 },
            streams: Streams::default(),
            last: 0,
            memory: 0,
            counted: false,
        }
    }

    /// Starts in the middle of a connection that began before the capture; `to_server` gives the
    /// direction of `segment`.
    pub(super) fn join(&mut self, segment: &Segment<'_>, to_server: bool, output: &mut Output<'_>) {
        let client = if to_server { segment.from } else { segment.to };
        self.first_is_client = Some(self.key.0 == client);
        self.activate(None, output);
    }

    /// Handles one segment of the connection, or of an earlier or a later one between the same
    /// ports.
    #[inline]
    pub(super) fn segment(&mut self, segment: &Segment<'_>, output: &mut Output<'_>) {
        if segment.flags & SYN != 0 {
            self.synchronise(segment, output);
        } else if matches!(self.state, State::Closed | State::Evicted) {
            self.reopen(segment, output);
        }
        if let State::Candidate { .. } | State::Active(_) = self.state {
            self.last = segment.time;
        }
        if let State::Candidate { .. } = self.state {
            self.look(segment, output);
        }
        if segment.wire_length > 0 && !self.counted {
            self.count(output);
        }
        let side = self.side(segment);
        let State::Active(session) = &mut self.state else { return };
        if segment.flags & RST != 0 {
            if self.streams.is_near(side, segment.sequence) {
                self.close(output);
            }
            return;
        }
        self.streams.segment(side, segment, &mut Attached { session, output });
        let hung_up = self.streams.server_left_first()
            && session.hung_up(segment.time, segment.offset, output);
        if !self.counted && (session.had_gap() || hung_up) {
            // All that the client sent was lost, or the server closed first.
            self.count(output);
        }
        if self.streams.ended() {
            self.close(output);
        }
    }

    /// True if a packet at `time` may belong to the known connection.
    fn may_be_late(&self, time: i64) -> bool {
        time.saturating_sub(self.last) < LATE
    }

    /// Counts the connection, unless it never had a payload (a flood of SYNs, a health check).
    #[cold]
    fn count(&mut self, output: &mut Output<'_>) {
        match self.state {
            State::Active(_) => {}
            State::NotChosen => output.counts.not_sampled += 1,
            State::Candidate { .. } | State::Closed | State::Evicted => return,
        }
        self.counted = true;
        output.counts.connections += 1;
    }

    /// The list for the connection, by the cost of forgetting it.
    #[inline]
    pub(super) fn list(&self) -> List {
        match self.state {
            State::Active(_) if self.counted => List::Working,
            _ => List::Cheap,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        matches!(self.state, State::Active(_))
    }

    #[inline]
    fn side(&self, segment: &Segment<'_>) -> Side {
        if (segment.from == self.key.0) == self.first_is_client.unwrap_or(true) {
            Side::Client
        } else {
            Side::Server
        }
    }

    /// Handles a SYN: the beginning of a connection, perhaps of another one than before.
    fn synchronise(&mut self, segment: &Segment<'_>, output: &mut Output<'_>) {
        let answer = segment.flags & ACK != 0;
        let client = if answer { segment.to } else { segment.from };
        let first_is_client = self.key.0 == client;
        let side = if answer { Side::Server } else { Side::Client };
        let same_client = self.first_is_client == Some(first_is_client);
        let closed = same_client && matches!(self.state, State::Closed);
        if closed && self.may_be_late(segment.time) && self.streams.is_late(side, segment.sequence)
        {
            return;
        }
        let same = same_client
            && match self.state {
                State::Closed | State::Evicted => false,
                State::NotChosen => answer,
                _ => {
                    self.may_be_late(segment.time) && !self.streams.is_reuse(side, segment.sequence)
                }
            };
        if !same {
            self.close(output);
            self.streams = Streams::default();
            self.counted = false;
            self.first_is_client = Some(first_is_client);
            let server = if answer { segment.from } else { segment.to };
            if output.options.is_server(server.port) {
                self.activate(Some(segment.time), output);
            } else {
                self.state = State::Candidate { opened: Some(segment.time), tries: 0 };
            }
        }
        if let State::Candidate { .. } = self.state {
            self.streams.segment(side, segment, &mut Discard);
        }
    }

    /// Handles a packet of a closed connection. It is late, or it belongs to the next connection
    /// between the same ports, whose first packets were lost.
    #[cold]
    fn reopen(&mut self, segment: &Segment<'_>, output: &mut Output<'_>) {
        let side = self.side(segment);
        if matches!(self.state, State::Evicted) && !segment.payload.is_empty() {
            self.streams = Streams::default();
            self.activate(None, output);
            return;
        }
        let ignored = segment.payload.is_empty()
            || !output.options.is_server(self.server().port)
            || !self.streams.is_known(side)
            || self.may_be_late(segment.time) && self.streams.holds(side, segment);
        if !ignored {
            self.streams = Streams::default();
            self.counted = false;
            self.activate(None, output);
        }
    }

    fn server(&self) -> Endpoint {
        if self.first_is_client.unwrap_or(true) {
            self.key.1
        } else {
            self.key.0
        }
    }

    fn client(&self) -> Endpoint {
        if self.first_is_client.unwrap_or(true) {
            self.key.0
        } else {
            self.key.1
        }
    }

    /// Tests whether this connection on some other port speaks the MySQL protocol.
    #[cold]
    fn look(&mut self, segment: &Segment<'_>, output: &mut Output<'_>) {
        let State::Candidate { opened, tries } = &mut self.state else { return };
        if segment.payload.is_empty() {
            return;
        }
        let from_first = segment.from == self.key.0;
        let greeting = is_greeting(segment.payload);
        if greeting || is_statement(segment.payload) {
            let first_is_client = from_first != greeting;
            if self.first_is_client.is_none_or(|known| known == first_is_client) {
                let opened = opened.filter(|_| *tries == 0);
                if opened.is_none() {
                    self.streams = Streams::default();
                }
                self.first_is_client = Some(first_is_client);
                self.activate(opened, output);
                if let (State::Active(session), true) = (&mut self.state, greeting) {
                    session.expect_greeting();
                }
                return;
            }
        }
        *tries += 1;
        if *tries == TRIES {
            self.state = State::Closed;
        }
    }

    /// Starts to read the connection, if it is one of the chosen ones.
    fn activate(&mut self, opened: Option<i64>, output: &mut Output<'_>) {
        let client = self.client();
        output.counts.see_port(self.server().port);
        if output.options.sampling.is_some_and(|s| !s.takes(client.port)) {
            self.state = State::NotChosen;
            return;
        }
        let address = Ipv6Addr::from_bits(client.address);
        let ip = match address.to_ipv4_mapped() {
            Some(v4) => v4.to_string(),
            None => address.to_string(),
        };
        self.state = State::Active(Box::new(Session::new(ip, opened, output)));
    }

    /// Yields the connection's pending events, and ends it.
    pub(super) fn close(&mut self, output: &mut Output<'_>) {
        let State::Active(mut session) = std::mem::replace(&mut self.state, State::Closed) else {
            return;
        };
        self.streams.finish(&mut Attached { session: &mut session, output });
        if !self.counted && session.had_gap() {
            self.counted = true;
            output.counts.connections += 1;
        }
        session.close(Unmeasured::CutAtEnd, output);
        output.counts.retransmitted += self.streams.retransmitted;
    }

    /// Closes it to free memory for others.
    pub(super) fn evict(&mut self, output: &mut Output<'_>) {
        if self.is_active() {
            output.counts.evicted += 1;
            self.close(output);
            self.state = State::Evicted;
        }
    }

    /// Frees memory that the connection can do without.
    pub(super) fn forget(&mut self, output: &mut Output<'_>) {
        if let State::Active(session) = &mut self.state {
            session.forget(output);
        }
    }

    pub(super) fn count_memory(&self) -> usize {
        match &self.state {
            State::Active(session) => self.streams.held_bytes() + session.bytes(),
            _ => 0,
        }
    }
}
