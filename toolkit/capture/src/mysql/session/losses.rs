//! The effects of missing bytes on a connection (CS1 and CS2 of `session`).

use super::state::{Phase, Session};
use crate::mysql::request::{End, Request};
use crate::mysql::words::Command;
use crate::output::Output;
use crate::stream::{Piece, Side};
use frond_event::Unmeasured;

impl Session {
    /// `length` bytes are missing at `at`; 0: the number is unknown.
    pub(super) fn gap(&mut self, side: Side, at: u64, length: u64, output: &mut Output<'_>) {
        output.counts.gap(length);
        if !self.had_gap {
            self.had_gap = true;
            output.counts.connections_with_gaps += 1;
        }
        match (self.phase, side) {
            (Phase::Silent, _) => {}
            (_, Side::Client) => {
                if !self.bridge(at, length, output) {
                    self.lose_requests(output);
                }
            }
            (_, Side::Server) => {
                self.gap_in_answers(at, length, output);
            }
        }
    }

    /// A packet was captured, but not to its end.
    #[cold]
    pub(super) fn packet_cut(
        &mut self,
        side: Side,
        piece: Piece,
        length: u64,
        output: &mut Output<'_>,
    ) {
        output.counts.cut += 1;
        if side == Side::Client {
            self.spoke = true;
        }
        match (self.phase, side) {
            (Phase::Silent, _) => {}
            (_, Side::Client) => {
                if !self.bridge(piece.at, length, output) {
                    // The number of further requests in the packet is unknown.
                    self.lose_requests(output);
                }
            }
            (_, Side::Server) => {
                self.gap_in_answers(piece.at, length, output);
                self.server_seen = self.server_end;
            }
        }
    }

    /// Tries the case that all missing bytes belong to one packet of a request whose header was
    /// seen. Its end is then known, and nothing else is affected.
    fn bridge(&mut self, at: u64, length: u64, output: &mut Output<'_>) -> bool {
        let ready = self.phase == Phase::Commands
            && self.requests.synced
            && self.requests.unpacker.is_none()
            && length > 0;
        let Some(open) = self.requests.open_packet().filter(|_| ready) else { return false };
        if open.sequence != 0 && self.command.is_none() {
            // A client's file.
            return false;
        }
        match self.requests.skip(length) {
            None => false,
            Some(None) => true,
            Some(Some(header)) => {
                let end = Piece { at: at + length, ..header.begun };
                let gathered = std::mem::take(&mut self.requests.gathered);
                self.client_packet(header, &gathered, end, output);
                self.requests.keep(gathered);
                true
            }
        }
    }

    /// The rest of a request is lost: yields the request as far as it was seen.
    pub(super) fn abandon(&mut self, why: Unmeasured, output: &mut Output<'_>) {
        if self.pending.front().is_some_and(|r| r.local_file) {
            return;
        }
        let open = self.requests.open_packet();
        let (header, payload, size) = match (self.command.take(), open) {
            (Some(command), _) => command,
            (None, Some(header)) if header.sequence == 0 && self.phase == Phase::Commands => {
                let gathered = std::mem::take(&mut self.requests.gathered);
                (header, gathered, u64::from(header.length) + 4)
            }
            (None, _) => {
                if !self.requests.at_boundary() {
                    output.partial();
                }
                return;
            }
        };
        let command = payload.first().and_then(|byte| Command::from_byte(*byte));
        let mut request = match command {
            Some(Command::LongData) => return,
            Some(command) => Request::new(command, header.begun, header.begun, size),
            None => return output.partial(),
        };
        self.describe(&mut request, &payload, true, output.options);
        self.give_out(request, End::Lost(why), output);
    }

    /// Bytes of the server are missing or cannot be read.
    fn gap_in_answers(&mut self, at: u64, length: u64, output: &mut Output<'_>) {
        if matches!(self.phase, Phase::Greeting | Phase::Login) {
            self.phase = Phase::Commands;
            self.requests.synced = false;
        }
        // If nothing was seen in between, a gap on either side is a gap on both.
        if self.lost.after == Some(self.server_end) && !self.waits() {
            self.lost.after = Some(at + length);
        }
        self.server_end = at + length;
        let end = if length == 0 { u64::MAX } else { at + length };
        let untouched = |r: &Request| r.first.is_none() && r.begun.acknowledged >= end;
        self.doubt_answers();
        while self.pending.front().is_some_and(|r| !untouched(r)) {
            self.lose_front(output);
        }
        self.answers.synced = false;
        self.answers.restart();
        self.eof_may_follow = None;
        self.leave_login();
    }

    /// The client's bytes from here on cannot be read until a command is found again.
    #[cold]
    pub(super) fn lose_requests(&mut self, output: &mut Output<'_>) {
        self.abandon(Unmeasured::PacketsLost, output);
        self.command = None;
        if let Some(front) = self.pending.front_mut() {
            if front.local_file || self.phase == Phase::Authentication {
                front.expect = None;
            }
        }
        if matches!(self.phase, Phase::Greeting | Phase::Login) {
            self.phase = Phase::Commands;
            self.answers.synced = false;
        }
        let in_doubt = self.steps.pipelines || self.pending.len() > 1;
        self.steps.lose(in_doubt);
        self.lost.after = Some(if self.waits() { self.server_seen } else { self.server_end });
        self.lost.at = self.server_seen;
        self.statements.doubt();
        self.requests.synced = false;
        self.requests.restart();
    }

    /// The server's bytes cannot be read until the next request tells where its answer begins.
    #[cold]
    pub(super) fn lose_answers(&mut self, output: &mut Output<'_>) {
        self.doubt_answers();
        self.give_up(Unmeasured::PacketsLost, output);
        self.answers.synced = false;
        self.answers.restart();
        self.eof_may_follow = None;
        self.leave_login();
    }

    pub(super) fn leave_login(&mut self) {
        if self.phase == Phase::Authentication && self.pending.is_empty() {
            // It is unknown whether the login succeeded (a refused client would send nothing more),
            // and where compression begins.
            self.logged_in();
            self.requests.synced = false;
        }
    }

    /// Yields all pending requests as far as they were seen.
    pub(super) fn give_up(&mut self, why: Unmeasured, output: &mut Output<'_>) {
        while let Some(front) = self.pending.front() {
            let end = match front.first {
                _ if !front.command.is_answered() => End::Unanswered,
                Some(_) => End::Interrupted,
                None => End::Lost(why),
            };
            self.finish(end, output);
        }
    }

    pub(super) fn lose_front(&mut self, output: &mut Output<'_>) {
        let end = match self.pending.front() {
            Some(front) if !front.command.is_answered() => End::Unanswered,
            Some(front) if front.first.is_some() => End::Interrupted,
            _ => End::Lost(Unmeasured::PacketsLost),
        };
        self.finish(end, output);
    }
}
