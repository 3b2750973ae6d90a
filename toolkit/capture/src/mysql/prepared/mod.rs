//! Prepared statements of a connection, and the text of their executions with the values filled in.
//!
//! A value's type is sent with the first execution and may be left out later. A value may be sent
//! in pieces before the execution ("long data"). Placeholders are found in the text as the server
//! finds them: not within strings, quoted names and comments.
//!
//! Invariants
//!
//! - PS1. Memory is bounded: per connection [`MOST_STATEMENTS`], [`MOST_TEXT`] of text and
//!   [`MOST_LONG`] of long data. Statements beyond that are forgotten, and their executions have no
//!   text.
//! - PS2. If the number of placeholders or a value does not fit the packet, the text keeps its `?`: a
//!   wrong value is worse than no value.

mod placeholders;
mod statement;
#[cfg(test)]
mod tests;
mod value;

use super::cursor::Cursor;
use statement::{Ahead, Statement};
use std::collections::HashMap;

const MOST_STATEMENTS: usize = 4096;
const MOST_TEXT: usize = 4 << 20;
const MOST_LONG: usize = 256 << 10;

/// Drivers of MariaDB execute "the statement prepared last" before they know its identifier.
const LAST_PREPARED: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Statements {
    by_id: HashMap<u32, Statement>,
    last: Option<u32>,
    text_bytes: usize,
    long_bytes: usize,
}

impl Statements {
    pub(super) fn clear(&mut self) {
        *self = Statements::default();
    }

    /// Approximate memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text_bytes + self.long_bytes + self.by_id.len() * std::mem::size_of::<Statement>()
    }

    /// Forgets all texts to free memory; returns their number. Later executions have no text.
    pub(super) fn forget(&mut self) -> u64 {
        let forgotten = self.by_id.len() as u64;
        *self = Statements { last: self.last, ..Statements::default() };
        forgotten
    }

    /// The server has given `text` the number `id`.
    pub(super) fn prepared(&mut self, id: u32, text: &[u8]) {
        self.close(id);
        self.last = Some(id);
        // An execution that came before the number was known has already set its types.
        if let Some(promised) = self.by_id.remove(&LAST_PREPARED) {
            if promised.text[..] == *text {
                self.by_id.insert(id, promised);
                return;
            }
            self.text_bytes -= promised.text.len();
            self.long_bytes -= promised.long_length();
        }
        if self.by_id.len() >= MOST_STATEMENTS || self.text_bytes + text.len() > MOST_TEXT {
            return;
        }
        self.text_bytes += text.len();
        self.by_id.insert(id, Statement::new(text));
    }

    /// `text` will be the statement prepared last: it was sent, but not yet answered.
    pub(super) fn promise(&mut self, text: &[u8]) {
        let known = self.by_id.get(&LAST_PREPARED).is_some_and(|s| s.text[..] == *text);
        if !known {
            let last = self.last;
            self.prepared(LAST_PREPARED, text);
            self.last = last;
        }
    }

    /// Resolves `id`, which may mean the statement prepared last, to a number.
    pub(super) fn resolve(&self, id: u32) -> u32 {
        if id == LAST_PREPARED && !self.by_id.contains_key(&LAST_PREPARED) {
            self.last.unwrap_or(id)
        } else {
            id
        }
    }

    pub(super) fn close(&mut self, id: u32) {
        if let Some(statement) = self.by_id.remove(&id) {
            self.text_bytes -= statement.text.len();
            self.long_bytes -= statement.long_length();
        }
    }

    /// Some of the client's packets were lost, perhaps types or parts of long data. No values are
    /// shown until the state is certainly whole again. It is also unknown which statement was
    /// prepared last.
    pub(super) fn doubt(&mut self) {
        self.close(LAST_PREPARED);
        self.last = None;
        for statement in self.by_id.values_mut() {
            statement.types.clear();
            statement.long.clear();
            statement.ahead = Ahead::default();
            statement.doubtful = true;
        }
        self.long_bytes = 0;
    }

    /// Forgets the long data of a statement.
    pub(super) fn reset(&mut self, id: u32) {
        if let Some(statement) = self.by_id.get_mut(&id) {
            self.long_bytes -= statement.long_length();
            statement.long.clear();
            statement.ahead = Ahead::default();
        }
    }

    /// Takes the long data that were sent before the current execution.
    pub(super) fn take_ahead(&mut self, id: u32) -> Ahead {
        let id = self.resolve(id);
        self.by_id.get_mut(&id).map_or(Ahead::default(), |s| std::mem::take(&mut s.ahead))
    }

    /// Handles a piece of a value that is sent before the execution, in packets of `size` bytes.
    /// `payload` is the kept part of them behind the command byte.
    pub(super) fn long_data(&mut self, payload: &[u8], size: u64) {
        let mut cursor = Cursor::new(payload);
        let (Some(id), Some(parameter)) = (cursor.u32(), cursor.u16()) else { return };
        let id = self.resolve(id);
        let Some(statement) = self.by_id.get_mut(&id) else { return };
        statement.ahead.packets += size;
        if usize::from(parameter) >= statement.marks.len() {
            return;
        }
        let room = MOST_LONG.saturating_sub(self.long_bytes);
        let data = &cursor.rest()[..cursor.rest().len().min(room)];
        self.long_bytes += data.len();
        // Before the value: header, command, statement and parameter.
        statement.ahead.dropped += size.saturating_sub(11 + data.len() as u64);
        match statement.long.iter_mut().find(|(p, _)| *p == parameter) {
            Some((_, value)) => value.extend_from_slice(data),
            None => statement.long.push((parameter, data.to_vec())),
        }
    }

    /// Appends the text of an execution to `out`, at most `limit` bytes. `payload` is the packet
    /// behind its command byte. `query_attributes`: whether they are in use, if that is known.
    /// Returns `false` if the statement is unknown.
    pub(super) fn execution(
        &mut self,
        payload: &[u8],
        query_attributes: Option<bool>,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut cursor = Cursor::new(payload);
        let Some(id) = cursor.u32() else { return false };
        let id = self.resolve(id);
        let Some(statement) = self.by_id.get_mut(&id) else { return false };
        let begin = out.len();
        if statement.fill(cursor, query_attributes, limit, out).is_none() {
            out.truncate(begin);
            out.extend_from_slice(&statement.text[..statement.text.len().min(limit)]);
        }
        self.long_bytes -= statement.long_length();
        statement.long.clear();
        statement.doubtful = false;
        true
    }

    /// As `execution`, for MariaDB's bulk execution: the text has the values of the first row, and
    /// the second value is the number of rows, 0 if they cannot be read.
    pub(super) fn bulk_execution(
        &mut self,
        payload: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let mut cursor = Cursor::new(payload);
        let id = self.resolve(cursor.u32()?);
        let statement = self.by_id.get_mut(&id)?;
        let begin = out.len();
        let rows = statement.fill_bulk(cursor, limit, out);
        if rows.is_none() {
            out.truncate(begin);
            out.extend_from_slice(&statement.text[..statement.text.len().min(limit)]);
        }
        Some(rows.unwrap_or(0))
    }
}
