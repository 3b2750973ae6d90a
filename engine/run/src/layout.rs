//! The payload of a page: sections, and the validation that makes all later access safe.
//!
//! A stored page is a header of 16 bytes (checksum u64 over all that follows and seeded with the
//! page's identity, payload length u32, codec u8: 0 none, 1 LZ4 block, 2 Zstandard frame, three
//! zero bytes), then the payload, compressed or not. The payload (little-endian):
//!
//! ```text
//! head      24 bytes: flags u8 (bit 0 variable-length keys, bit 1 sequence column, bit 2 kind
//!           column, bits 3-4 values: 0 all empty, 1 one width, 2 any), zero u8[3], entries u32,
//!           bytes of column data u32, of keys u32, of values u32, width of a value u32 (0 unless
//!           values = 1)
//! groups    one header per 128 entries (columns.rs); columns in this order: fixed keys: one per
//!           key field; variable keys: end of the entry's key bytes (4 bytes); then, where present,
//!           sequence (8), kind (1), end of the entry's value (4)
//! columns   packed numbers, group by group
//! prefixes  variable keys only: u16 per block of 16 entries: leading key bytes that all share, or
//!           65535 of them
//! keys      variable keys only: first entry of a block: its whole key; others: without the shared
//!           bytes
//! values    concatenated
//! slack     8 zero bytes, so that bits can be read eight bytes at a time
//! ```

use crate::bits::{self, SLACK};
use crate::columns::{Columns, Group, HeaderWalk, GROUP, GROUP_HEAD};
use crate::format::{KeyShape, MAX_KEY, MAX_PAGE_BYTES, MAX_VALUE};

/// Entries that share one key prefix.
pub(crate) const BLOCK: usize = 16;
pub(crate) const PAGE_HEADER: usize = 16;
pub(crate) const PAYLOAD_HEAD: usize = 24;
/// Longest payload: one largest value, or a full page, and bookkeeping.
pub(crate) const MAX_PAYLOAD: usize = MAX_VALUE + 64 * MAX_PAGE_BYTES;

pub(crate) const FLAG_VARIABLE: u8 = 1;
pub(crate) const FLAG_SEQ: u8 = 2;
pub(crate) const FLAG_KIND: u8 = 4;
pub(crate) const VALUES_SHIFT: u8 = 3;

pub(crate) const CODEC_NONE: u8 = 0;
pub(crate) const CODEC_LZ4: u8 = 1;
pub(crate) const CODEC_ZSTD: u8 = 2;

/// How the values of a page are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Values {
    Empty,
    Width(u32),
    Any,
}

/// The positions of all sections in a payload.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) n: usize,
    pub(crate) variable: bool,
    pub(crate) columns: Columns,
    /// Position of the first column behind the key's.
    pub(crate) seq: Option<u8>,
    pub(crate) kind: Option<u8>,
    pub(crate) value_end: Option<u8>,
    pub(crate) values_kind: Values,
    pub(crate) headers: usize,
    pub(crate) stride: usize,
    pub(crate) data: usize,
    pub(crate) prefixes: usize,
    pub(crate) keys: usize,
    pub(crate) values: usize,
    pub(crate) end: usize,
}

/// The columns of a page, and the positions of the optional ones.
pub(crate) struct ColumnPlan {
    pub(crate) columns: Columns,
    pub(crate) seq: Option<u8>,
    pub(crate) kind: Option<u8>,
    pub(crate) value_end: Option<u8>,
}

impl ColumnPlan {
    pub(crate) fn new(shape: &KeyShape, flags: u8) -> ColumnPlan {
        let mut columns = Columns::new();
        if flags & FLAG_VARIABLE != 0 {
            columns.add(4);
        } else {
            shape.widths().iter().for_each(|w| {
                columns.add(*w);
            });
        }
        let seq = (flags & FLAG_SEQ != 0).then(|| columns.add(8) as u8);
        let kind = (flags & FLAG_KIND != 0).then(|| columns.add(1) as u8);
        let value_end = (flags >> VALUES_SHIFT == 2).then(|| columns.add(4) as u8);
        ColumnPlan { columns, seq, kind, value_end }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Layout {
    /// Finds the sections of `payload` and checks everything that accessors rely on, except that
    /// keys ascend (scans check that as they go). The error says what is wrong.
    pub(crate) fn parse(payload: &[u8], shape: &KeyShape) -> Result<Layout, &'static str> {
        if payload.len() < PAYLOAD_HEAD + SLACK || payload.len() > MAX_PAYLOAD {
            return Err("impossible payload length");
        }
        let flags = payload[0];
        if flags >= 3 << VALUES_SHIFT || payload[1..4] != [0; 3] {
            return Err("unknown page flags");
        }
        let variable = flags & FLAG_VARIABLE != 0;
        let n = u32_at(payload, 4) as usize;
        if n == 0 || n > MAX_PAGE_BYTES {
            return Err("impossible number of entries");
        }
        if !variable && shape.is_variable() {
            return Err("fixed keys in a run of variable keys");
        }
        let [data_len, key_len, value_len, value_width] =
            [8, 12, 16, 20].map(|at| u32_at(payload, at));
        let values_kind = match (flags >> VALUES_SHIFT, value_width) {
            (0, 0) => Values::Empty,
            (1, w) if w > 0 => Values::Width(w),
            (2, 0) => Values::Any,
            _ => return Err("value width contradicts the flags"),
        };
        let plan = ColumnPlan::new(shape, flags);
        let stride = plan.columns.header_bytes();
        let headers = PAYLOAD_HEAD;
        // All terms are below 2^33, so the sums cannot overflow.
        let data = headers + n.div_ceil(GROUP) * stride;
        let prefixes = data + data_len as usize;
        let keys = prefixes + if variable { 2 * n.div_ceil(BLOCK) } else { 0 };
        let values = keys + key_len as usize;
        let end = values + value_len as usize;
        if end + SLACK != payload.len() {
            return Err("sections do not fill the payload");
        }
        let layout = Layout {
            n,
            variable,
            columns: plan.columns,
            seq: plan.seq,
            kind: plan.kind,
            value_end: plan.value_end,
            values_kind,
            headers,
            stride,
            data,
            prefixes,
            keys,
            values,
            end,
        };
        layout.check(payload)?;
        Ok(layout)
    }

    fn check(&self, payload: &[u8]) -> Result<(), &'static str> {
        let mut at = 0;
        for g in 0..self.groups() {
            let start = self.headers + g * self.stride;
            if u32_at(payload, start) as usize != at {
                return Err("group data is not where it belongs");
            }
            let group = self.group(payload, g);
            for (c, bytes) in self.columns.list().iter().enumerate() {
                if group.column(c).width > 8 * u32::from(*bytes) {
                    return Err("column is wider than its numbers");
                }
            }
            at = group.end;
            if at > self.prefixes - self.data {
                return Err("group data ends behind its section");
            }
            if let Some(kind) = self.kind {
                let k = group.column(usize::from(kind));
                if k.base > 1 || k.width > 1 || k.base + u64::from(k.width) > 1 {
                    return Err("unknown entry kind");
                }
            }
        }
        if at != self.prefixes - self.data {
            return Err("column data is longer than its groups");
        }
        let value_len = self.end - self.values;
        let values_fit = match self.values_kind {
            Values::Empty => value_len == 0,
            Values::Width(w) => value_len as u64 == u64::from(w) * self.n as u64,
            Values::Any => self.check_ends(payload, self.value_end, value_len, |_, _| true),
        };
        if !values_fit {
            return Err("values do not fill their section");
        }
        if !self.variable {
            return match self.keys == self.values {
                true => Ok(()),
                false => Err("key bytes in a page of fixed keys"),
            };
        }
        let mut prefix = 0;
        let keys_fit = self.check_ends(payload, Some(0), self.values - self.keys, |i, len| {
            let whole = if i % BLOCK == 0 {
                prefix = self.prefix(payload, i / BLOCK);
                if prefix > len {
                    return false;
                }
                len
            } else {
                prefix + len
            };
            (1..=MAX_KEY).contains(&whole)
        });
        match keys_fit {
            true => Ok(()),
            false => Err("keys do not fill their section"),
        }
    }

    /// Whether `column` ascends from 0 to `total` and every `ok(i, length)` agrees.
    fn check_ends(
        &self,
        payload: &[u8],
        column: Option<u8>,
        total: usize,
        mut ok: impl FnMut(usize, usize) -> bool,
    ) -> bool {
        let Some(column) = column else { return false };
        let data = &payload[self.data..];
        let mut last = 0u64;
        let mut sound = true;
        for g in 0..self.groups() {
            let ends = self.group(payload, g).column(usize::from(column));
            ends.each(data, self.group_len(g), |i, end| {
                // Ends are four-byte numbers; a sum beyond that would be cut when read again.
                sound = sound && end >= last && end <= total as u64;
                if sound {
                    sound = ok(g * GROUP + i, (end - last) as usize);
                }
                last = end;
            });
        }
        sound && last == total as u64
    }

    pub(crate) fn groups(&self) -> usize {
        self.n.div_ceil(GROUP)
    }

    #[inline]
    pub(crate) fn group_len(&self, g: usize) -> usize {
        (self.n - g * GROUP).min(GROUP)
    }

    #[inline]
    pub(crate) fn group(&self, payload: &[u8], g: usize) -> Group {
        let mut group = Group::default();
        self.group_into(payload, g, &mut group);
        group
    }

    /// Replaces `group`, a group of this page or the default one, by group `g`.
    #[inline]
    pub(crate) fn group_into(&self, payload: &[u8], g: usize, group: &mut Group) {
        let at = self.headers + g * self.stride;
        group.decode(&self.columns, &payload[at..], self.group_len(g));
    }

    /// The header of group `g`, to be read column by column.
    #[inline]
    pub(crate) fn walk<'a>(&'a self, payload: &'a [u8], g: usize) -> HeaderWalk<'a> {
        HeaderWalk::new(&self.columns, &payload[self.headers + g * self.stride..])
    }

    /// The lowest bytes are the base of the first column in group `g`; those above are of what follows.
    #[inline]
    pub(crate) fn first_base(&self, payload: &[u8], g: usize) -> u64 {
        bits::load(payload, self.headers + g * self.stride + GROUP_HEAD)
    }

    #[inline]
    pub(crate) fn prefix(&self, payload: &[u8], block: usize) -> usize {
        let at = self.prefixes + 2 * block;
        usize::from(u16::from_le_bytes([payload[at], payload[at + 1]]))
    }
}
