//! The client's side of a connection: bytes to commands, commands to pending requests.

use super::state::{kept, HeaderAlone, Phase, Session, MOST_PENDING, MOST_PENDING_BYTES};
use crate::bytes::{le24, le32};
use crate::mysql::answer::LONGEST;
use crate::mysql::cursor::Cursor;
use crate::mysql::framing::Header;
use crate::mysql::request::{End, Request};
use crate::mysql::words::{capability, Command};
use crate::mysql::{handshake, recognise};
use crate::options::Options;
use crate::output::Output;
use crate::stream::{Piece, Side, ORIGIN};
use frond_event::{Kind, Unmeasured};

impl Session {
    pub(super) fn client_data(&mut self, bytes: &[u8], piece: Piece, output: &mut Output<'_>) {
        self.spoke = true;
        let readable = self.phase != Phase::Silent
            && (self.requests.synced || self.find_request(bytes, piece, output));
        if readable {
            self.unpack(Side::Client, bytes, piece, output);
        }
    }

    /// While the client's position is unknown: checks whether a segment begins with a command.
    #[cold]
    fn find_request(&mut self, bytes: &[u8], piece: Piece, output: &mut Output<'_>) -> bool {
        if recognise::is_tls(bytes) {
            self.tls_records += 1;
            if self.tls_records == 3 {
                self.understood = true;
                self.fall_silent(output);
                output.counts.encrypted += 1;
            }
            return false;
        }
        if let Some(header) = self.header_alone.take().filter(|header| header.end() == piece.at) {
            let whole = [header.bytes(), bytes].concat();
            if self.begins_here(&whole, header.piece) {
                self.unpack(Side::Client, header.bytes(), header.piece, output);
                return true;
            }
        }
        let found = self.begins_here(bytes, piece);
        if !found {
            self.header_alone = HeaderAlone::of(bytes, piece);
        }
        found
    }

    /// Checks whether these bytes begin with a command or a login; if so, packets are read from
    /// here on.
    fn begins_here(&mut self, bytes: &[u8], piece: Piece) -> bool {
        let plain = self.requests.unpacker.is_none();
        if plain && recognise::is_command(bytes) {
            // Read as ordinary packets.
        } else if plain && piece.at == ORIGIN && self.is_login(bytes) {
            // The greeting was lost, but not the login.
            self.phase = Phase::Login;
        } else if self.may_be_compressed() || !plain {
            let Some(method) = recognise::compressed_command(bytes) else { return false };
            if plain {
                self.compress(method);
                self.answers.synced = false;
            }
        } else {
            return false;
        }
        self.requests.restart();
        self.requests.synced = true;
        true
    }

    /// Whether the connection may be compressed. That is agreed at its beginning, which may be
    /// unknown.
    fn may_be_compressed(&self) -> bool {
        self.capabilities.is_none()
            && self.agreed(capability::COMPRESS | capability::COMPRESS_ZSTD) != Some(false)
    }

    fn is_login(&self, bytes: &[u8]) -> bool {
        let length = le24(bytes, 0).map_or(0, |l| l as usize);
        bytes.get(3) == Some(&1)
            && bytes.len() == length + 4
            && handshake::login(&bytes[4..])
                .is_some_and(|l| l.capabilities & capability::PROTOCOL_41 != 0)
    }

    /// Handles one packet; `end` describes the position behind it.
    #[inline]
    pub(super) fn client_packet(
        &mut self,
        header: Header,
        payload: &[u8],
        end: Piece,
        output: &mut Output<'_>,
    ) {
        match self.phase {
            Phase::Commands => {}
            Phase::Greeting | Phase::Login => return self.login(header, payload, end, output),
            Phase::Authentication => return self.reply(header, end),
            Phase::Silent => return,
        }
        if let Some((first, mut gathered, size)) = self.command.take() {
            // The rest of a command that is longer than a packet.
            if header.sequence != first.sequence.wrapping_add(1) && !self.compressed {
                self.command = Some((first, gathered, size));
                return self.lose_requests(output);
            }
            let limit = if first.torn { 0 } else { output.options.longest_statement + 1 };
            let room = limit.saturating_sub(gathered.len());
            gathered.extend_from_slice(&payload[..payload.len().min(room)]);
            let size = size + u64::from(header.length) + 4;
            let torn = first.torn || header.torn;
            let next = Header { sequence: header.sequence, torn, ..first };
            if header.length == LONGEST {
                self.command = Some((next, gathered, size));
            } else {
                self.request(next, &gathered, size, end, output);
            }
            return;
        }
        if header.sequence != 0 {
            return self.reply(header, end);
        }
        let size = u64::from(header.length) + 4;
        if header.length == LONGEST {
            self.command = Some((header, payload.to_vec(), size));
            return;
        }
        self.request(header, payload, size, end, output);
    }

    /// Handles a packet of an exchange under way: the client's file, or a step of a login.
    fn reply(&mut self, header: Header, end: Piece) {
        match self.pending.front_mut() {
            Some(front) => {
                front.expect = (!self.compressed).then(|| header.sequence.wrapping_add(1));
                front.size += u64::from(header.length) + 4;
                front.end = end.at;
            }
            // A lost request led to this packet.
            None => self.requests.synced = false,
        }
    }

    /// Handles one whole command. `header.sequence` is that of its last packet.
    fn request(
        &mut self,
        header: Header,
        payload: &[u8],
        size: u64,
        end: Piece,
        output: &mut Output<'_>,
    ) {
        let command = payload.first().and_then(|b| Command::from_byte(*b));
        let Some(command) = command else {
            // This is not a command: the position is lost.
            if header.torn {
                output.partial();
            }
            return self.lose_requests(output);
        };
        self.understood = true;
        if command == Command::LongData {
            self.statements.long_data(&payload[1..], size);
            if header.torn {
                self.statements.doubt();
            }
            return;
        }
        let mut request = Request::new(command, header.begun, end, size);
        request.sql = output.buffers.pop().unwrap_or_default();
        request.expect = (!self.compressed).then(|| header.sequence.wrapping_add(1));
        request.ambiguous = header.torn;
        self.describe(&mut request, payload, header.torn, output.options);
        // Behind other requests it waits for its turn.
        if !command.is_answered() && self.pending.is_empty() {
            return self.give_out(request, End::Unanswered, output);
        }
        self.queue(request, output);
    }

    /// Sets the request's kind and text. `payload` is the kept part of the request;
    /// `torn`: only a part of the request was captured.
    pub(super) fn describe(
        &mut self,
        request: &mut Request,
        payload: &[u8],
        torn: bool,
        options: &Options,
    ) {
        // Each packet has a header; all but the last have the maximum length.
        let packets = request.size / (u64::from(LONGEST) + 4) + 1;
        let length = request.size.saturating_sub(4 * packets);
        let missing = length.saturating_sub(payload.len() as u64);
        request.cut = missing > 0;
        let body = &payload[1..];
        self.set_text(request, body, torn, options);
        request.sql_size += request.sql.len() as u64;
        match request.command {
            Command::Query | Command::Prepare => {
                request.sql_size += missing;
                // The lost part is no problem where it would not have been kept anyway.
                request.partial = torn && request.sql.len() < options.longest_statement;
            }
            Command::Execute | Command::BulkExecute if missing > 0 => {
                // The values are about as long in the text as they are in the packet.
                request.sql_size = request.sql_size.max(length);
                if torn {
                    // The lost part may have had types of values.
                    self.statements.doubt();
                }
            }
            _ => {}
        }
        let numbered = matches!(
            request.command,
            Command::Execute | Command::BulkExecute | Command::Close | Command::Reset
        );
        // The number of the statement was not captured.
        request.partial |= numbered && torn && body.len() < 4;
    }

    fn set_text(&mut self, request: &mut Request, body: &[u8], torn: bool, options: &Options) {
        let limit = options.longest_statement;
        let sql = &mut request.sql;
        let attributes = self.agreed(capability::QUERY_ATTRIBUTES);
        match request.command {
            Command::Query => {
                request.kind = Kind::Query;
                sql.extend_from_slice(without_attributes(body, attributes));
            }
            Command::Prepare => {
                request.kind = Kind::Prepare;
                sql.extend_from_slice(body);
            }
            Command::Execute | Command::BulkExecute => {
                request.of_last_prepared = le32(body, 0) == Some(u32::MAX);
                if request.of_last_prepared && self.steps.before.is_some() {
                    self.promise_last();
                }
                let ahead = self.statements.take_ahead(le32(body, 0).unwrap_or(0));
                request.size += ahead.packets;
                request.sql_size = ahead.dropped;
                let known = if request.command == Command::Execute {
                    self.statements.execution(body, attributes, limit, sql)
                } else {
                    request.bulk_rows = self.statements.bulk_execution(body, limit, sql);
                    request.bulk_rows.is_some()
                };
                request.kind = Kind::Execute;
                if !known {
                    request.kind = Kind::Query;
                    let id = self.statements.resolve(le32(body, 0).unwrap_or(0));
                    sql.extend_from_slice(format!("EXECUTE {id}").as_bytes());
                }
            }
            Command::Close => {
                let id = le32(body, 0).unwrap_or(0);
                request.kind = Kind::Query;
                sql.extend_from_slice(format!("DEALLOCATE PREPARE {id}").as_bytes());
                self.statements.close(id);
            }
            Command::Reset if options.compat_names => {
                let id = le32(body, 0).unwrap_or(0);
                request.kind = Kind::Query;
                sql.extend_from_slice(format!("RESET {id}").as_bytes());
                self.statements.reset(id);
            }
            command => {
                request.kind = match command {
                    Command::Quit => Kind::Quit,
                    Command::InitDb => Kind::InitDb,
                    _ => Kind::Admin,
                };
                sql.extend_from_slice(b"administrator command: ");
                let name =
                    if options.compat_names { command.compat_name() } else { command.name() };
                sql.extend_from_slice(name.as_bytes());
                match command {
                    Command::InitDb if !torn => request.db = kept(body),
                    Command::Reset => self.statements.reset(le32(body, 0).unwrap_or(0)),
                    Command::ChangeUser if !torn => {
                        if let Some(login) = handshake::change_user(body, self.capabilities) {
                            request.user = kept(login.user);
                            request.db = kept(login.db);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// An execution of "the statement prepared last" may come before the answer that gives its
    /// number.
    fn promise_last(&mut self) {
        let last = self.pending.iter().rev().find(|r| r.command == Command::Prepare);
        if let Some(prepare) = last {
            self.statements.promise(&prepare.sql);
        }
    }

    fn queue(&mut self, mut request: Request, output: &mut Output<'_>) {
        self.step(&mut request, output);
        self.pending_bytes += request.bytes();
        self.pending.push_back(request);
        if self.pending.len() > MOST_PENDING || self.pending_bytes > MOST_PENDING_BYTES {
            self.give_up(Unmeasured::PacketsLost, output);
            self.answers.synced = false;
        }
    }
}

/// The statement of a query packet, behind the attributes that MySQL 8 clients may send with it.
fn without_attributes(body: &[u8], agreed: Option<bool>) -> &[u8] {
    let possible = agreed != Some(false) && body.first().is_some_and(|b| *b < 0x20);
    if !possible {
        return body;
    }
    // No attributes: their number (0) and the number of sets of them (1).
    match body {
        [0, 1, text @ ..] => text,
        [count @ 1..=32, 1, ..] => after_attributes(body, usize::from(*count)).unwrap_or(body),
        _ => body,
    }
}

/// The bytes behind `count` attributes that are all strings, as drivers send them.
fn after_attributes(body: &[u8], count: usize) -> Option<&[u8]> {
    let mut cursor = Cursor::new(body.get(2..)?);
    let nulls = cursor.bytes(count.div_ceil(8))?;
    let _bound = cursor.u8()?;
    for _ in 0..count {
        cursor.u16()?;
        cursor.string()?;
    }
    for index in 0..count {
        if nulls[index / 8] >> (index % 8) & 1 == 0 {
            cursor.string()?;
        }
    }
    Some(cursor.rest())
}
