//! One connection of a client with a server, from reassembled bytes to events.
//!
//! The connection may have begun before the capture, bytes may be missing on either side, and the
//! client may send requests before the answers to earlier ones (pipelining).
//!
//! Invariants
//!
//! - CS1. A request is measured only if all of these hold: every byte of it and the first byte of
//!   its answer were captured; nothing is missing between the previous answer and this one; the
//!   answer's segment acknowledges the whole request; and the answer's packets continue the
//!   request's sequence numbers. Otherwise it is yielded without a time, or only counted if the
//!   captured part of its text does not tell its class.
//! - CS2. After a loss, the server's packets are found again only at the position that the next
//!   request acknowledges. A client sends its next request when it has the previous answer, so
//!   the answer to this request begins at that position. The client's packets are found again at a
//!   segment that has the form of a command (`recognise`); its header may be in the segment
//!   before. Bytes missing within one packet of a request lose neither side's position: the
//!   packet's header says where it ends.
//! - CS3. A pipelined request's time begins no earlier than the end of the previous answer, so that
//!   it does not include another request's time. After a loss a request has a time only if its
//!   answer can be told from the answers to lost and to earlier requests (`steps` says how).
//! - CS4. Memory is bounded: at most [`state::MOST_PENDING`] requests wait for answers and
//!   [`steps::MOST_HELD`] are held back, with [`state::MOST_PENDING_BYTES`] bytes in all.
//!
//! Tested here only in small; `tests/it` simulates clients and servers and removes packets.

mod client;
mod cut;
mod login;
mod losses;
mod server;
mod state;
mod steps;
mod synchrony;

use super::answer::Dialect;
use super::framing::Framing;
use super::prepared::Statements;
use super::request::{End, Request};
use crate::output::Output;
use crate::sample::Totals;
use crate::stream::{Piece, Receiver, Side};
use frond_event::{Event, Place, Unmeasured};
pub(crate) use state::Session;
use state::{Client, Lost, Phase};
use std::collections::VecDeque;
use synchrony::{Steps, Synchrony};
/// A session with its output, as the receiver of its streams.
pub(crate) struct Attached<'s, 'o> {
    pub session: &'s mut Session,
    pub output: &'s mut Output<'o>,
}

impl Receiver for Attached<'_, '_> {
    #[inline]
    fn data(&mut self, side: Side, bytes: &[u8], piece: Piece) {
        match side {
            Side::Client => self.session.client_data(bytes, piece, self.output),
            Side::Server => self.session.server_data(bytes, piece, self.output),
        }
    }

    fn gap(&mut self, side: Side, at: u64, length: u64) {
        self.session.gap(side, at, length, self.output);
    }

    fn cut(&mut self, side: Side, piece: Piece, length: u64) {
        self.session.packet_cut(side, piece, length, self.output);
    }

    fn another(&mut self) {
        self.session.another(self.output);
    }
}

impl Session {
    /// `opened`: the time of the connection's first packet, if that was captured.
    pub(crate) fn new(ip: String, opened: Option<i64>, output: &mut Output<'_>) -> Self {
        output.counts.numbered += 1;
        let mut session = Session {
            client: Client { ip, number: output.counts.numbered, ..Client::default() },
            phase: if opened.is_some() { Phase::Greeting } else { Phase::Commands },
            offered: None,
            capabilities: None,
            dialect: Dialect::default(),
            statements: Statements::default(),
            compressed: false,
            requests: Framing::default(),
            answers: Framing::default(),
            pending: VecDeque::new(),
            held: VecDeque::new(),
            pending_bytes: 0,
            header_alone: None,
            command: None,
            opened,
            answered: None,
            eof_may_follow: None,
            steps: Steps::new(if opened.is_some() {
                Synchrony::InStep
            } else {
                Synchrony::Unknown
            }),
            server_end: 0,
            server_seen: 0,
            lost: Lost::default(),
            tls_records: 0,
            spoke: false,
            understood: false,
            had_gap: false,
            totals: Totals::default(),
        };
        session.requests.synced = opened.is_some();
        session.answers.synced = opened.is_some();
        session
    }

    /// The first packet that was seen is the server's greeting.
    pub(crate) fn expect_greeting(&mut self) {
        self.phase = Phase::Greeting;
        self.requests.synced = true;
        self.answers.synced = true;
    }

    /// Whether a capability is in use. If the login is unknown, a capability that the server does not offer
    /// is not.
    fn agreed(&self, capability: u32) -> Option<bool> {
        match (self.capabilities, self.offered) {
            (Some(both), _) => Some(both & capability != 0),
            (None, Some(server)) if server & capability == 0 => Some(false),
            (None, _) => None,
        }
    }

    pub(crate) fn had_gap(&self) -> bool {
        self.had_gap
    }

    /// Approximate memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.statements.bytes()
            + self.pending_bytes
            + self.requests.gathered.capacity()
            + self.answers.gathered.capacity()
            + self.command.as_ref().map_or(0, |(_, gathered, _)| gathered.capacity())
    }

    /// Frees memory: forgets data that reports can do without.
    pub(crate) fn forget(&mut self, output: &mut Output<'_>) {
        output.counts.forgotten += self.statements.forget();
    }

    /// No more bytes come.
    pub(crate) fn close(&mut self, why: Unmeasured, output: &mut Output<'_>) {
        if self.phase == Phase::Commands && self.requests.synced {
            self.abandon(why, output);
        }
        self.give_up(why, output);
        self.release(output);
        self.phase = Phase::Silent;
        output.counts.not_understood += u64::from(self.spoke && !self.understood);
        self.spoke = false;
        output.counts.totals.add(std::mem::take(&mut self.totals));
    }

    /// The next bytes belong to another connection, whose beginning was lost: nothing known of this one
    /// applies.
    #[cold]
    fn another(&mut self, output: &mut Output<'_>) {
        self.close(Unmeasured::PacketsLost, output);
        output.counts.gap(0);
        output.counts.connections += 1;
        output.counts.connections_with_gaps += 1;
        *self = Session::new(std::mem::take(&mut self.client.ip), None, output);
        self.had_gap = true;
    }

    /// Removes the first pending request and yields it.
    fn finish(&mut self, end: End, output: &mut Output<'_>) {
        let Some(request) = self.pending.pop_front() else { return };
        self.pending_bytes = self.pending_bytes.saturating_sub(request.bytes());
        self.give_out(request, end, output);
        while self.pending.front().is_some_and(|r| !r.command.is_answered()) {
            let Some(next) = self.pending.pop_front() else { return };
            self.give_out(next, End::Unanswered, output);
        }
    }

    fn emit(&mut self, request: &Request, end: End, output: &mut Output<'_>) {
        if request.partial {
            return output.partial();
        }
        let mut event = Event::default();
        request.describe(end, output.options.to_last_byte, &mut event);
        event.place = Place { file: output.file, offset: request.begun.offset };
        let rows;
        if let Some(count) = request.bulk_rows {
            rows = count.to_string();
            event.extra.push((b"Bulk_rows", rows.as_bytes()));
        }
        if let Some(time) = event.query_time() {
            self.totals.queries += 1;
            self.totals.time += time;
        }
        self.identify(&mut event);
        output.event(&mut event);
    }

    fn identify<'a>(&'a self, event: &mut Event<'a>) {
        event.db = &self.client.db;
        event.user = &self.client.user;
        event.host = self.client.ip.as_bytes();
        event.ip = self.client.ip.as_bytes();
        event.thread_id = self.client.thread_id;
        event.connection = self.client.number;
        event.extra.extend(self.client.attributes.iter().map(|(n, v)| (&n[..], &v[..])));
    }
}
