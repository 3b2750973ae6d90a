//! Index keys: one compiled operation per part.
//!
//! ```text
//! key of the primary index  = part*  |  row id, 8 bytes big-endian (hidden primary key)
//! key of any other index    = part* key-of-the-primary-index
//! part = [0 NULL | 1] value        first byte only for nullable columns; nothing follows a NULL
//! value: integers              big-endian, sign bit inverted when signed
//!        float, double         big-endian; positive: sign bit set, negative: all bits inverted;
//!                              -0.0 as +0.0 (the entry's value tells them apart)
//!        decimal, temporal, BIT, BINARY, UUID, INET: the image
//!        opaque                the bytes from SortKeys::opaque
//!        text, bytes           escaped or padded (order.rs): the bytes, or each level of weights, or codes of
//!                              weights (codes.rs)
//! ```
//! All bytes of a descending part are inverted. Tested by `tests/it` (order, prefixes, tuples).

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};

use crate::codes::Codes;
use crate::field::{read_le, Field, Form, ELSEWHERE};
use crate::order::{invert, read_escaped, read_padded, trim_spaces, BadKey, SortKeys};
use crate::row_input::RowInput;
use crate::schema::{Column, ColumnType, Part, Sort};

mod text;

use text::{TextOrder, TextPart};

#[derive(Clone, Debug)]
pub(crate) struct KeyPart {
    pub field: Field,
    /// From the schema, not the layout: decides the NULL byte.
    pub nullable: bool,
    /// 0xff when descending.
    pub mask: u8,
    /// The whole column, not a prefix.
    pub whole: bool,
    /// Whether the key gives the column's bytes back, exceptions in the value (RK3) aside.
    pub reversible: bool,
    pub kind: PartKind,
    /// Bytes of the value in a key tuple, without NULL byte and length.
    pub tuple_bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum PartKind {
    /// Little-endian image, `flip` inverts the sign bit of signed integers.
    Int {
        bytes: usize,
        flip: u64,
    },
    Float,
    Double,
    /// The first `bytes` of the image.
    Raw {
        bytes: usize,
    },
    Opaque {
        key_bytes: usize,
    },
    Text(Box<TextPart>),
}

impl KeyPart {
    pub fn new(field: Field, c: &Column, part: &Part) -> KeyPart {
        let bytes = c.bytes as usize;
        let kind = match c.ty {
            ColumnType::Int { unsigned } => int(bytes, !unsigned),
            ColumnType::OldTime => int(bytes, true),
            ColumnType::Date
            | ColumnType::Year
            | ColumnType::Enum
            | ColumnType::Set
            | ColumnType::OldDate
            | ColumnType::OldDateTime
            | ColumnType::OldTimestamp => int(bytes, false),
            ColumnType::Float => PartKind::Float,
            ColumnType::Double => PartKind::Double,
            ColumnType::Decimal { .. }
            | ColumnType::Time { .. }
            | ColumnType::DateTime { .. }
            | ColumnType::Timestamp { .. }
            | ColumnType::OldTemporal
            | ColumnType::Bit { .. }
            | ColumnType::Uuid { .. }
            | ColumnType::Inet6
            | ColumnType::Inet4 => PartKind::Raw { bytes },
            ColumnType::Opaque { key_bytes } => PartKind::Opaque { key_bytes: key_bytes.into() },
            ColumnType::Binary => raw_prefix(bytes, part),
            ColumnType::Char if c.sort == Sort::Binary && c.max_char_bytes == 1 => {
                raw_prefix(bytes, part)
            }
            ColumnType::Char | ColumnType::VarChar { .. } | ColumnType::Blob { .. } => {
                PartKind::Text(Box::new(TextPart::new(c, part)))
            }
        };
        let tuple_bytes = match (part.prefix, field.form) {
            (Some(prefix), _) => prefix.bytes.into(),
            (None, Form::VarChar { length }) => bytes - length,
            (None, _) => bytes,
        };
        let whole = part.prefix.is_none();
        let bytes_come_back = match &kind {
            PartKind::Opaque { .. } => false,
            PartKind::Text(t) => {
                let weights = matches!(t.order, TextOrder::Weights(_));
                field.form != Form::Fixed && (!weights || t.codes().is_some())
            }
            _ => true,
        };
        KeyPart {
            field,
            nullable: c.nullable,
            mask: if part.descending { 0xff } else { 0 },
            whole,
            reversible: whole && bytes_come_back,
            kind,
            tuple_bytes,
        }
    }

    /// Trailing spaces are lost, and the column does not restore them.
    pub fn loses_spaces(&self) -> bool {
        matches!(&self.kind, PartKind::Text(t) if t.order == TextOrder::Padded)
            && matches!(self.field.form, Form::VarChar { .. })
    }

    /// The codes from which the column comes back, except for what the value says; and whether the key lacks trailing spaces.
    pub fn codes(&self) -> Option<(&Arc<Codes>, bool)> {
        match &self.kind {
            PartKind::Text(t) if self.reversible => t.codes(),
            _ => None,
        }
    }

    /// Whether the part has codes of weights, with characters or without.
    pub fn has_codes(&self) -> bool {
        matches!(&self.kind, PartKind::Text(t) if t.has_codes())
    }

    /// The characters of the part's codes, for people; `None` when it has others. `part` is not NULL.
    pub fn listed(&self, part: &[u8]) -> Option<Vec<u8>> {
        let PartKind::Text(text) = &self.kind else { return None };
        let mut chars = vec![0; part.len()];
        let len = text.read_codes(part, &mut usize::from(self.nullable), self.mask, &mut chars);
        chars.truncate(len.ok()??);
        Some(chars)
    }

    pub fn loses_zero_sign(&self) -> bool {
        matches!(self.kind, PartKind::Float | PartKind::Double)
    }

    /// Appends the part for `row`; true when it is NULL.
    #[inline]
    pub fn put_row(
        &self,
        row: &RowInput<'_>,
        sort: &dyn SortKeys,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<bool> {
        if self.nullable {
            if self.field.is_null(row.record) {
                out.push(self.mask);
                return Ok(true);
            }
            out.push(1 ^ self.mask);
        }
        let at = self.field.offset;
        match &self.kind {
            PartKind::Int { bytes, flip } => {
                self.put_int(&row.record[at..at + bytes], *flip, out);
            }
            PartKind::Text(text) => {
                let src = if text.padded_image {
                    self.field.image(row.record)
                } else {
                    self.field.content(row)?
                };
                text.put(src, self.mask, sort, out, scratch);
            }
            _ => self.put_image(self.field.image(row.record), sort, out),
        }
        Ok(false)
    }

    /// Appends the part for a value of a key tuple: a length-free image of `tuple_bytes`, or
    /// contents.
    fn put_value(
        &self,
        value: &[u8],
        sort: &dyn SortKeys,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) {
        match &self.kind {
            PartKind::Int { flip, .. } => self.put_int(value, *flip, out),
            PartKind::Text(text) => {
                let trim = self.field.form == Form::Char && !text.padded_image;
                let src = if trim { trim_spaces(value) } else { value };
                text.put(src, self.mask, sort, out, scratch);
            }
            _ => self.put_image(value, sort, out),
        }
    }

    #[inline]
    fn put_int(&self, image: &[u8], flip: u64, out: &mut Vec<u8>) {
        let invert = u64::from_ne_bytes([self.mask; 8]);
        let n = read_le(image) ^ flip ^ invert;
        match image.len() {
            1 => out.push(n as u8),
            2 => out.extend_from_slice(&(n as u16).to_be_bytes()),
            4 => out.extend_from_slice(&(n as u32).to_be_bytes()),
            8 => out.extend_from_slice(&n.to_be_bytes()),
            bytes => out.extend_from_slice(&n.to_be_bytes()[8 - bytes..]),
        }
    }

    /// Kinds other than integers and text.
    fn put_image(&self, image: &[u8], sort: &dyn SortKeys, out: &mut Vec<u8>) {
        let start = out.len();
        match self.kind {
            PartKind::Float => {
                let bits = read_le(&image[..4]) as u32;
                let bits = if bits == 1 << 31 { 0 } else { bits };
                let n = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
                out.extend_from_slice(&n.to_be_bytes());
            }
            PartKind::Double => {
                let bits = read_le(&image[..8]);
                let bits = if bits == 1 << 63 { 0 } else { bits };
                let n = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
                out.extend_from_slice(&n.to_be_bytes());
            }
            PartKind::Raw { bytes } => out.extend_from_slice(&image[..bytes]),
            PartKind::Opaque { key_bytes } => {
                sort.opaque(self.field.column, image, out);
                assert_eq!(out.len() - start, key_bytes, "sort key width of an opaque column");
            }
            PartKind::Int { .. } | PartKind::Text(_) => unreachable!("handled by the callers"),
        }
        invert(&mut out[start..], self.mask);
    }

    /// Steps over the part; true when it is NULL.
    #[inline]
    pub fn skip(&self, key: &[u8], at: &mut usize) -> std::result::Result<bool, BadKey> {
        if self.read_null(key, at)? {
            return Ok(true);
        }
        match &self.kind {
            PartKind::Text(text) => text.skip(key, at, self.mask)?,
            _ => {
                let end = *at + self.fixed_bytes();
                if end > key.len() {
                    return Err(BadKey);
                }
                *at = end;
            }
        }
        Ok(false)
    }

    #[inline]
    fn read_null(&self, key: &[u8], at: &mut usize) -> std::result::Result<bool, BadKey> {
        if !self.nullable {
            return Ok(false);
        }
        let b = key.get(*at).ok_or(BadKey)? ^ self.mask;
        *at += 1;
        match b {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(BadKey),
        }
    }

    /// Puts a reversible part back into its column; a part that is not reversible only sets the
    /// NULL bit. True when it is NULL.
    #[inline]
    pub fn read(
        &self,
        key: &[u8],
        at: &mut usize,
        record: &mut [u8],
    ) -> std::result::Result<bool, BadKey> {
        let null_at = *at;
        if self.read_null(key, at)? {
            self.field.put_null(record);
            return Ok(true);
        }
        self.field.set_null(record, false);
        if !self.reversible {
            *at = null_at;
            return self.skip(key, at);
        }
        if let PartKind::Text(text) = &self.kind {
            return self.read_text(text, key, at, record).map(|()| false);
        }
        let end = *at + self.fixed_bytes();
        let bytes = key.get(*at..end).ok_or(BadKey)?;
        *at = end;
        let image = &mut record[self.field.offset..self.field.offset + self.field.bytes];
        match self.kind {
            PartKind::Int { bytes: n, flip } => {
                let number = read_be(bytes) ^ flip ^ u64::from_ne_bytes([self.mask; 8]);
                write_le(image, number, n);
            }
            PartKind::Float => {
                let n = read_be(bytes) as u32 ^ u32::from_ne_bytes([self.mask; 4]);
                let bits = if n >> 31 == 1 { n & !(1 << 31) } else { !n };
                image.copy_from_slice(&bits.to_le_bytes());
            }
            PartKind::Double => {
                let n = read_be(bytes) ^ u64::from_ne_bytes([self.mask; 8]);
                let bits = if n >> 63 == 1 { n & !(1 << 63) } else { !n };
                image.copy_from_slice(&bits.to_le_bytes());
            }
            _ => {
                image.copy_from_slice(bytes);
                invert(image, self.mask);
            }
        }
        Ok(false)
    }

    fn read_text(
        &self,
        text: &TextPart,
        key: &[u8],
        at: &mut usize,
        record: &mut [u8],
    ) -> std::result::Result<(), BadKey> {
        let image = &mut record[self.field.offset..self.field.offset + self.field.bytes];
        let body = match self.field.form {
            Form::VarChar { length } => &mut image[length..],
            _ => image,
        };
        let n = match text.order {
            TextOrder::Padded => read_padded(key, at, self.mask, body)?,
            TextOrder::Escaped => read_escaped(key, at, self.mask, body)?,
            TextOrder::Weights(_) => match text.read_codes(key, at, self.mask, body)? {
                Some(n) => n,
                None => {
                    *body.first_mut().ok_or(BadKey)? = ELSEWHERE;
                    1
                }
            },
        };
        match self.field.form {
            Form::VarChar { .. } => self.field.put_length(record, n),
            _ => body[n..].fill(b' '),
        }
        Ok(())
    }

    /// Width of a part that is no text, without its NULL byte.
    #[inline]
    fn fixed_bytes(&self) -> usize {
        match self.kind {
            PartKind::Int { bytes, .. } | PartKind::Raw { bytes } => bytes,
            PartKind::Float => 4,
            PartKind::Double => 8,
            PartKind::Opaque { key_bytes } => key_bytes,
            PartKind::Text(_) => unreachable!("text has no fixed width"),
        }
    }

    /// Appends the widths of the part's fields for the run codec; false when it has no fixed width.
    pub fn shape(&self, widths: &mut Vec<u8>) -> bool {
        if matches!(self.kind, PartKind::Text(_)) {
            return false;
        }
        if self.nullable {
            widths.push(1);
        }
        let mut left = self.fixed_bytes();
        while left > 0 {
            let width = left.min(8);
            widths.push(width as u8);
            left -= width;
        }
        true
    }

    /// Cuts this part's value off a key tuple. `None` inside: NULL.
    pub fn take_tuple<'t>(&self, tuple: &mut &'t [u8]) -> Result<Option<&'t [u8]>> {
        let var = matches!(self.field.form, Form::VarChar { .. } | Form::Blob { .. });
        let head = usize::from(self.nullable) + if var { 2 } else { 0 };
        let short = || Error::new(ErrorKind::InvalidArgument, "key tuple ends inside a part");
        if tuple.len() < head + self.tuple_bytes {
            return Err(short());
        }
        let (part, rest) = tuple.split_at(head + self.tuple_bytes);
        *tuple = rest;
        if self.nullable && part[0] != 0 {
            return Ok(None);
        }
        let body = &part[head..];
        if !var {
            return Ok(Some(body));
        }
        let n = read_le(&part[head - 2..head]) as usize;
        body.get(..n).map(Some).ok_or_else(short)
    }

    /// Appends the part for a tuple's value as [`KeyPart::take_tuple`] gave it.
    pub fn put_tuple(
        &self,
        value: Option<&[u8]>,
        sort: &dyn SortKeys,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) {
        if self.nullable {
            out.push(u8::from(value.is_some()) ^ self.mask);
        }
        if let Some(value) = value {
            self.put_value(value, sort, out, scratch);
        }
    }
}

fn int(bytes: usize, signed: bool) -> PartKind {
    PartKind::Int { bytes, flip: if signed { 1 << (8 * bytes - 1) } else { 0 } }
}

fn raw_prefix(bytes: usize, part: &Part) -> PartKind {
    PartKind::Raw { bytes: part.prefix.map_or(bytes, |p| bytes.min(p.bytes.into())) }
}

/// Writes the low `n` bytes of `number`, little-endian: `image` has as many.
#[inline]
fn write_le(image: &mut [u8], number: u64, n: usize) {
    match n {
        4 => image.copy_from_slice(&(number as u32).to_le_bytes()),
        8 => image.copy_from_slice(&number.to_le_bytes()),
        _ => image.copy_from_slice(&number.to_le_bytes()[..n]),
    }
}

#[inline]
fn read_be(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        _ => {
            let mut n = [0u8; 8];
            n[8 - bytes.len()..].copy_from_slice(bytes);
            u64::from_be_bytes(n)
        }
    }
}
