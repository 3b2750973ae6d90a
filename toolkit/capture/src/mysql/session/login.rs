//! The beginning of a connection: greeting, login, agreed capabilities.

use super::state::{kept, Phase, Session};
use crate::mysql::answer::{Answer, Verdict};
use crate::mysql::framing::{Framing, Header};
use crate::mysql::handshake::{self, Login};
use crate::mysql::request::{micros, Request};
use crate::mysql::unpack::{Method, Unpacker};
use crate::mysql::words::{capability, Command};
use crate::output::Output;
use crate::stream::Piece;
use frond_event::{Event, Kind, Metric, Place, Unmeasured};

impl Session {
    pub(super) fn greeting(&mut self, header: Header, payload: &[u8], output: &mut Output<'_>) {
        if self.phase == Phase::Greeting {
            if let Some(greeting) = handshake::greeting(payload) {
                self.client.thread_id = Some(u64::from(greeting.thread_id));
                self.offered = Some(greeting.capabilities);
                self.opened = self.opened.or(Some(header.begun.time));
                self.phase = Phase::Login;
                return;
            }
        }
        // An error in place of the greeting (too many connections, host not allowed) is a failed
        // connection.
        let mut answer = Answer::to_login();
        let verdict = answer.packet(header.length, payload, &mut self.dialect);
        if verdict == Verdict::Done && answer.error.is_some() {
            self.understood = true;
            self.failed(header.begun.time, header.begun.offset, Some(&answer), output);
        }
        self.fall_silent(output);
    }

    /// The server has closed the connection at `time`. True if the login was still under way: then
    /// it is an event, with the time until it failed.
    pub(crate) fn hung_up(&mut self, time: i64, offset: u64, output: &mut Output<'_>) -> bool {
        let waits = matches!(self.phase, Phase::Greeting | Phase::Login | Phase::Authentication);
        if !waits || self.had_gap || self.opened.is_none() {
            return false;
        }
        self.understood = true;
        output.counts.hung_up += 1;
        // In these phases the login is the pending request.
        self.pending.clear();
        self.pending_bytes = 0;
        self.failed(time, offset, None, output);
        self.fall_silent(output);
        true
    }

    /// Yields a connection that was refused: `answer` says why; `None`: the server hung up.
    fn failed(&self, time: i64, offset: u64, answer: Option<&Answer>, output: &mut Output<'_>) {
        let mut event = Event { kind: Kind::Connect, ..Event::default() };
        event.sql = b"administrator command: Connect";
        event.error = answer.and_then(|answer| answer.error).map(u32::from);
        event.error_text = match answer {
            Some(answer) => &answer.error_text,
            None => b"the server closed the connection during the login",
        };
        let begun = self.opened.unwrap_or(time);
        event.start = Some(micros(begun));
        event.end = Some(micros(time));
        event.stamp = event.end;
        match u64::try_from(time.saturating_sub(begun)) {
            Ok(taken) => event.metrics.set(Metric::QueryTime, taken),
            Err(_) => event.unmeasured = Some(Unmeasured::ClockJumped),
        }
        event.place = Place { file: output.file, offset };
        self.identify(&mut event);
        output.event(&mut event);
    }

    pub(super) fn login(
        &mut self,
        header: Header,
        payload: &[u8],
        end: Piece,
        output: &mut Output<'_>,
    ) {
        let login = if header.sequence == 0 { None } else { handshake::login(payload) };
        let Some(login) = login else {
            // This is another protocol, or already commands.
            return self.fall_silent(output);
        };
        self.understood = true;
        if login.tls {
            self.fall_silent(output);
            output.counts.encrypted += 1;
            return;
        }
        let both = match self.offered {
            Some(server) => server & login.capabilities,
            None => login.capabilities,
        };
        self.agree(both, &login);
        let mut begun = header.begun;
        if let Some(opened) = self.opened {
            begun.time = opened;
        }
        let size = u64::from(header.length) + 4;
        let mut request = Request::new(Command::ChangeUser, begun, end, size);
        request.kind = Kind::Connect;
        request.sql = b"administrator command: Connect".to_vec();
        request.sql_size = request.sql.len() as u64;
        request.db = kept(login.db);
        request.user = kept(login.user);
        request.sent = begun.time;
        request.expect = Some(header.sequence.wrapping_add(1));
        self.client.user = request.user.clone();
        self.client.db = request.db.clone();
        self.phase = Phase::Authentication;
        self.pending.push_back(request);
    }

    /// Sets the capabilities that both sides agreed on.
    fn agree(&mut self, both: u32, login: &Login<'_>) {
        self.capabilities = Some(both);
        // Without the greeting only the client's capabilities are known; the server may not have them.
        if self.offered.is_some() {
            self.dialect.deprecate_eof = Some(both & capability::DEPRECATE_EOF != 0);
        }
        self.client.attributes = login.attributes.iter().map(|(n, v)| (kept(n), kept(v))).collect();
    }

    /// The login succeeded: from here on commands, perhaps compressed.
    pub(super) fn logged_in(&mut self) {
        self.phase = Phase::Commands;
        let both = self.capabilities.unwrap_or(0);
        if both & capability::COMPRESS != 0 {
            self.compress(Method::Zlib);
        } else if both & capability::COMPRESS_ZSTD != 0 && both & capability::MYSQL != 0 {
            self.compress(Method::Zstd);
        }
    }

    /// The bytes that follow are compressed packets.
    pub(super) fn compress(&mut self, method: Method) {
        self.compressed = true;
        self.requests.unpacker = Some(Unpacker::new(method));
        self.answers.unpacker = Some(Unpacker::new(method));
    }

    pub(super) fn fall_silent(&mut self, output: &mut Output<'_>) {
        self.give_up(Unmeasured::PacketsLost, output);
        self.release(output);
        self.phase = Phase::Silent;
        self.command = None;
        self.requests = Framing::default();
        self.answers = Framing::default();
        self.statements.clear();
    }
}
