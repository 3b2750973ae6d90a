//! One prepared statement: its text, what is known of its parameters, and the text of its
//! executions.

use super::placeholders::placeholders;
use super::value::{quote, value};
use crate::mysql::cursor::Cursor;

/// Long data sent ahead of the next execution.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::mysql) struct Ahead {
    /// Bytes of the packets that carried it.
    pub packets: u64,
    /// Bytes of values that were not kept.
    pub dropped: u64,
}

#[derive(Debug, Default)]
pub(super) struct Statement {
    pub text: Box<[u8]>,
    /// Positions of the placeholders.
    pub marks: Box<[u32]>,
    pub types: Vec<u16>,
    pub long: Vec<(u16, Vec<u8>)>,
    pub ahead: Ahead,
    /// Something may have been sent for the next execution that the capture missed.
    pub doubtful: bool,
}

impl Statement {
    pub(super) fn new(text: &[u8]) -> Self {
        Statement { text: text.into(), marks: placeholders(text), ..Statement::default() }
    }

    pub(super) fn long_length(&self) -> usize {
        self.long.iter().map(|(_, value)| value.len()).sum()
    }

    /// The text up to placeholder `index`, from the one before it.
    fn before(&self, index: usize) -> &[u8] {
        let from = index.checked_sub(1).map_or(0, |i| self.marks[i] as usize + 1);
        let to = self.marks.get(index).map_or(self.text.len(), |m| *m as usize);
        &self.text[from..to]
    }

    /// Appends the text of an execution whose packet goes on at `cursor`, behind the number.
    pub(super) fn fill(
        &mut self,
        mut cursor: Cursor<'_>,
        query_attributes: Option<bool>,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let flags = cursor.u8()?;
        let _iterations = cursor.u32()?;
        let mut count = self.marks.len();
        // With query attributes the packet says how many values follow; those of the attributes
        // come last. A client that can send them sets this bit in the flags.
        let counted = flags & 8 != 0;
        let named = query_attributes.map_or(counted, |agreed| agreed && (count > 0 || counted));
        if named && counted {
            count = usize::try_from(cursor.length()?).ok().filter(|c| *c >= self.marks.len())?;
        }
        if count == 0 {
            out.extend_from_slice(&self.text[..self.text.len().min(limit)]);
            return Some(());
        }
        let nulls = cursor.bytes(count.div_ceil(8))?;
        if cursor.u8()? != 0 {
            // At most as many types as the packet has room for, so a false count cannot allocate
            // much.
            if count > cursor.rest().len() / 2 {
                return None;
            }
            self.types.clear();
            for _ in 0..count {
                self.types.push(cursor.u16()?);
                if named {
                    cursor.string()?;
                }
            }
        }
        if self.types.len() < self.marks.len() {
            return None;
        }
        if self.doubtful {
            return None;
        }
        for index in 0..self.marks.len() {
            out.extend_from_slice(self.before(index));
            // Long data take precedence even if the packet says NULL, as some clients send it.
            let ahead = self.long.iter().find(|(p, _)| usize::from(*p) == index);
            if let Some((_, value)) = ahead {
                quote(value, out);
            } else if nulls[index / 8] >> (index % 8) & 1 == 1 {
                out.extend_from_slice(b"NULL");
            } else {
                value(self.types[index], &mut cursor, out)?;
            }
            if out.len() > limit {
                out.truncate(limit);
                return Some(());
            }
        }
        out.extend_from_slice(self.before(self.marks.len()));
        out.truncate(limit);
        Some(())
    }

    /// Flags (2; 0x80: types follow), types, then rows of an indicator and a value per parameter.
    pub(super) fn fill_bulk(
        &mut self,
        mut cursor: Cursor<'_>,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let count = self.marks.len();
        if cursor.u16()? & 0x80 != 0 {
            if count > cursor.rest().len() / 2 {
                return None;
            }
            self.types.clear();
            for _ in 0..count {
                self.types.push(cursor.u16()?);
            }
        }
        if self.types.len() < count || count == 0 {
            return None;
        }
        let mut rows = 0;
        let mut scratch = Vec::new();
        while !cursor.rest().is_empty() {
            for index in 0..count {
                let first_row = rows == 0;
                let target = if first_row { &mut *out } else { &mut scratch };
                if first_row {
                    target.extend_from_slice(self.before(index));
                } else {
                    target.clear();
                }
                match cursor.u8()? {
                    0 => value(self.types[index], &mut cursor, target)?,
                    1 => target.extend_from_slice(b"NULL"),
                    2 | 3 => target.extend_from_slice(b"DEFAULT"),
                    _ => return None,
                }
            }
            if rows == 0 {
                out.extend_from_slice(self.before(count));
                out.truncate(limit);
            }
            rows += 1;
        }
        Some(rows)
    }
}
