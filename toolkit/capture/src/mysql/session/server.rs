//! The server's side of a connection: bytes to the answers of pending requests.

use super::state::{Phase, Session};
use crate::mysql::answer::Verdict;
use crate::mysql::framing::Header;
use crate::mysql::request::End;
use crate::mysql::words::Command;
use crate::output::Output;
use crate::stream::{Piece, Side};
use frond_event::Unmeasured;

impl Session {
    pub(super) fn server_data(
        &mut self,
        mut bytes: &[u8],
        mut piece: Piece,
        output: &mut Output<'_>,
    ) {
        self.server_end = piece.at + bytes.len() as u64;
        self.server_seen = self.server_end;
        if self.phase == Phase::Silent {
            return;
        }
        if !self.answers.synced {
            let Some(skip) = self.find_answer(bytes.len(), piece, output) else { return };
            bytes = &bytes[skip..];
            piece.at += skip as u64;
        }
        self.unpack(Side::Server, bytes, piece, output);
    }

    /// Where in a segment the answer to the first pending request begins (CS2).
    #[cold]
    fn find_answer(
        &mut self,
        length: usize,
        piece: Piece,
        output: &mut Output<'_>,
    ) -> Option<usize> {
        loop {
            let front = self.pending.front()?;
            if !front.command.is_answered() {
                self.finish(End::Unanswered, output);
                continue;
            }
            match front.begun.acknowledged.checked_sub(piece.at) {
                Some(skip) if skip < length as u64 => {
                    self.answers.restart();
                    self.answers.synced = true;
                    return Some(skip as usize);
                }
                Some(_) => return None,
                None => self.finish(End::Lost(Unmeasured::PacketsLost), output),
            }
        }
    }

    /// The first bytes of a packet: checks whether it continues or begins the answer to the first
    /// pending request.
    #[inline]
    pub(super) fn server_header(&mut self, header: Header, output: &mut Output<'_>) {
        if matches!(self.phase, Phase::Greeting | Phase::Login) {
            return;
        }
        while self.pending.front().is_some_and(|r| !r.command.is_answered()) {
            self.finish(End::Unanswered, output);
        }
        if let Some(sequence) = self.eof_may_follow.take() {
            if header.length == 5 && header.sequence == sequence {
                self.eof_may_follow = Some(sequence);
                return;
            }
        }
        let Some(front) = self.pending.front_mut() else {
            // An answer to a lost request, or the server's final message.
            output.counts.orphans += 1;
            self.answers.synced = false;
            if self.steps.before.is_some() && header.sequence == 1 && !self.compressed {
                // No request was lost since the last one, so the answer that the last one got was
                // another's.
                self.see_out_of_step();
            }
            return;
        };
        if front.expect.is_some_and(|e| e != header.sequence) {
            return self.lose_answers(output);
        }
        if front.first.is_none() {
            if header.begun.acknowledged < front.end && !front.local_file {
                // The server had not even received the request.
                return self.lose_answers(output);
            }
            front.first = Some(header.begun.time);
            let alone = !front.local_file
                && !matches!(front.command, Command::Prepare | Command::ChangeUser);
            let more = header.begun.acknowledged > front.end;
            if more && alone && self.pending.len() == 1 {
                // Requests that the client sent without waiting for this answer were lost.
                self.see_out_of_step();
            }
        }
        let Some(front) = self.pending.front_mut() else { return };
        front.expect = (!self.compressed).then(|| header.sequence.wrapping_add(1));
        front.answer_bytes += u64::from(header.length) + 4;
    }

    #[inline]
    pub(super) fn server_packet(
        &mut self,
        header: Header,
        payload: &[u8],
        piece: Piece,
        output: &mut Output<'_>,
    ) {
        if matches!(self.phase, Phase::Greeting | Phase::Login) {
            return self.greeting(header, payload, output);
        }
        if self.eof_may_follow.take().is_some() {
            self.dialect.deprecate_eof = Some(false);
            self.answered = Some((piece.time, piece.at));
            return;
        }
        let Some(front) = self.pending.front_mut() else { return };
        match front.answer.packet(header.length, payload, &mut self.dialect) {
            Verdict::More => {}
            verdict @ (Verdict::Done | Verdict::DoneUnlessEof) => {
                if verdict == Verdict::DoneUnlessEof {
                    self.eof_may_follow = Some(header.sequence.wrapping_add(1));
                }
                self.answered = Some((piece.time, piece.at));
                self.steps.slowest =
                    self.steps.slowest.max(piece.time.saturating_sub(front.begun.time));
                self.settle(output);
                self.finish(End::Complete(piece.time), output);
                if let Some(next) = self.pending.front_mut() {
                    next.floor = next.floor.max(piece.time);
                }
            }
            Verdict::Progress => {
                if front.answer.results == 0 && front.answer.rows == 0 {
                    front.first = None;
                }
            }
            Verdict::LocalFile => {
                front.first = None;
                front.local_file = true;
            }
            Verdict::Nonsense => self.lose_answers(output),
        }
        if self.phase == Phase::Commands
            && self.pending.front().is_some_and(|r| r.command == Command::BinlogDump)
        {
            // A replica: the following packets are a stream, not answers.
            self.finish(End::Interrupted, output);
            self.fall_silent(output);
        }
    }

    /// The answer to the first pending request is complete: applies its effects on later requests.
    fn settle(&mut self, output: &mut Output<'_>) {
        let Some(front) = self.pending.front_mut() else { return };
        let succeeded = front.answer.error.is_none();
        match front.command {
            Command::ChangeUser if self.phase == Phase::Authentication => {
                if succeeded {
                    self.logged_in();
                } else {
                    self.phase = Phase::Commands;
                }
            }
            Command::ChangeUser if succeeded => {
                let (user, db) = (std::mem::take(&mut front.user), std::mem::take(&mut front.db));
                self.enter(db, output);
                self.client.user = user;
                self.statements.clear();
            }
            Command::InitDb if succeeded => {
                let db = std::mem::take(&mut front.db);
                self.enter(db, output);
            }
            Command::ResetConnection if succeeded => self.statements.clear(),
            Command::Prepare if !front.cut => {
                if let Some(prepared) = front.answer.prepared {
                    self.statements.prepared(prepared.id, &front.sql);
                }
            }
            Command::Query if succeeded && !front.cut => {
                if let Some(db) = used_database(&front.sql) {
                    self.enter(db, output);
                }
            }
            _ => {}
        }
    }

    /// Makes another database the default from here on, but not for earlier requests.
    fn enter(&mut self, db: Vec<u8>, output: &mut Output<'_>) {
        self.release(output);
        self.client.db = db;
    }
}

/// The database that a `USE` statement names.
fn used_database(sql: &[u8]) -> Option<Vec<u8>> {
    let sql = sql.trim_ascii();
    let (verb, rest) = sql.split_at_checked(4)?;
    if !verb[..3].eq_ignore_ascii_case(b"use") || !verb[3].is_ascii_whitespace() {
        return None;
    }
    let mut name = rest.trim_ascii();
    while let [before @ .., b';'] = name {
        name = before.trim_ascii_end();
    }
    match name {
        [b'`', inner @ .., b'`'] => {
            let mut out = Vec::with_capacity(inner.len());
            let mut quote = false;
            for b in inner {
                quote = *b == b'`' && !quote;
                if !quote {
                    out.push(*b);
                }
            }
            Some(super::state::kept(&out))
        }
        [] => None,
        _ if name.iter().any(u8::is_ascii_whitespace) => None,
        _ => Some(super::state::kept(name)),
    }
}
