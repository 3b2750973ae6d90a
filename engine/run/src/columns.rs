//! Columns of a page: whole numbers, frame-of-reference coded and bit-packed in groups of 128
//! entries.
//!
//! The headers of all groups have the same size, so a group is found without walking. For every
//! column a header has a base (the smallest number of the group) and the bit width of the
//! differences to it. A column that is constant in a group takes no bits there. Reading one number
//! is O(columns); the groups are small because the fields behind the first one of a sorted key
//! correlate only over short distances.

use crate::bits::{self, packed_bytes};
use crate::format::KeyShape;

/// Entries of a group.
pub(crate) const GROUP: usize = 128;

/// Bytes of a group header before the first column: the data offset.
pub(crate) const GROUP_HEAD: usize = 4;

/// Key fields, or key ends; sequence; value end; kind.
pub(crate) const MAX_COLUMNS: usize = KeyShape::MAX_FIELDS + 3;

/// The columns of a page: how many bytes the base of each takes (the column's numbers fit in that
/// many).
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    n: u8,
    bytes: [u8; MAX_COLUMNS],
}

impl Columns {
    pub(crate) fn new() -> Columns {
        Columns { n: 0, bytes: [0; MAX_COLUMNS] }
    }

    /// Adds a column of numbers that fit in `bytes` (1..=8) bytes; returns its position.
    pub(crate) fn add(&mut self, bytes: u8) -> usize {
        debug_assert!((1..=8).contains(&bytes));
        self.bytes[usize::from(self.n)] = bytes;
        self.n += 1;
        usize::from(self.n) - 1
    }

    #[inline]
    pub(crate) fn list(&self) -> &[u8] {
        &self.bytes[..usize::from(self.n)]
    }

    /// Bytes of a group header: data offset (u32), then base and width (u8) per column.
    pub(crate) fn header_bytes(&self) -> usize {
        GROUP_HEAD + self.list().iter().map(|b| usize::from(*b) + 1).sum::<usize>()
    }
}

/// One column within one group.
#[derive(Clone, Copy, Default)]
pub(crate) struct GroupColumn {
    pub(crate) base: u64,
    pub(crate) width: u32,
    /// Where its packed numbers start, from the start of the page's column data.
    pub(crate) at: u32,
}

/// Reads a group header column by column. Numbers are read eight bytes at a time: the slack of the payload
/// follows the last header.
pub(crate) struct HeaderWalk<'a> {
    bytes: std::slice::Iter<'a, u8>,
    rest: &'a [u8],
    at: u32,
}

impl<'a> HeaderWalk<'a> {
    #[inline]
    pub(crate) fn new(columns: &'a Columns, header: &'a [u8]) -> HeaderWalk<'a> {
        let at = bits::load(header, 0) as u32;
        let rest = &header[GROUP_HEAD..];
        HeaderWalk { bytes: columns.list().iter(), rest, at }
    }

    /// The next column of a group of `n` entries; there must be one.
    #[inline]
    pub(crate) fn next_column(&mut self, n: usize) -> GroupColumn {
        let bytes = usize::from(self.bytes.next().copied().unwrap_or(0));
        let base = bits::load(self.rest, 0) & bits::mask(8 * bytes as u32);
        let width = u32::from(self.rest[bytes]);
        let column = GroupColumn { base, width, at: self.at };
        // Bounded: widths are at most 255 before validation, 64 after.
        self.at = self.at.wrapping_add(packed_bytes(n, width) as u32);
        self.rest = &self.rest[bytes + 1..];
        column
    }
}

/// A group header, decoded.
#[derive(Default)]
pub(crate) struct Group {
    columns: [GroupColumn; MAX_COLUMNS],
    /// Where the group's data ends, from the start of the page's column data.
    pub(crate) end: usize,
}

impl Group {
    /// Decodes the header at the start of `header` of a group of `n` entries, which has the same columns as the group
    /// before if there was one.
    #[inline]
    pub(crate) fn decode(&mut self, columns: &Columns, header: &[u8], n: usize) {
        let mut walk = HeaderWalk::new(columns, header);
        for slot in &mut self.columns[..columns.list().len()] {
            *slot = walk.next_column(n);
        }
        self.end = walk.at as usize;
    }

    #[inline]
    pub(crate) fn column(&self, c: usize) -> GroupColumn {
        self.columns[c]
    }
}

impl GroupColumn {
    /// Number `i` of the group; `data` is the page's column data and what follows it.
    #[inline]
    pub(crate) fn get(&self, data: &[u8], i: usize) -> u64 {
        self.base.wrapping_add(bits::get(&data[self.at as usize..], i, self.width))
    }

    /// Of the ascending numbers `from..to` of the group, those that are `value`, or the empty place where it would be.
    #[inline]
    pub(crate) fn alike(&self, data: &[u8], from: usize, to: usize, value: u64) -> (usize, usize) {
        if value < self.base {
            return (from, from);
        }
        let (value, packed) = (value - self.base, &data[self.at as usize..]);
        if value > bits::mask(self.width) {
            return (to, to);
        }
        if self.width == 0 {
            return (from, to);
        }
        let number = |i: usize| bits::get(packed, i, self.width);
        let first = partition(from, to, |i| number(i) < value);
        if first == to || number(first) != value {
            return (first, first);
        }
        // Most numbers of the last column are there once.
        let next = first + 1;
        if next == to || number(next) != value {
            return (first, next);
        }
        (first, partition(next + 1, to, |i| number(i) == value))
    }

    /// Calls `f(i, number)` for the first `n` numbers.
    #[inline]
    pub(crate) fn each(&self, data: &[u8], n: usize, mut f: impl FnMut(usize, u64)) {
        let base = self.base;
        bits::each(&data[self.at as usize..], n, self.width, |i, v| f(i, base.wrapping_add(v)));
    }
}

/// The first position in `from..to` for which `below` is false.
#[inline]
pub(crate) fn partition(
    mut from: usize,
    mut to: usize,
    mut below: impl FnMut(usize) -> bool,
) -> usize {
    while from < to {
        let mid = from + (to - from) / 2;
        if below(mid) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    from
}

/// Appends the columns of one group: headers to `headers`, packed numbers to `data`.
pub(crate) struct GroupWriter<'a> {
    pub(crate) headers: &'a mut Vec<u8>,
    pub(crate) data: &'a mut Vec<u8>,
}

impl GroupWriter<'_> {
    pub(crate) fn start(&mut self) {
        self.headers.extend_from_slice(&(self.data.len() as u32).to_le_bytes());
    }

    /// A column of equal numbers.
    pub(crate) fn constant(&mut self, bytes: u8, value: u64) {
        self.headers.extend_from_slice(&value.to_le_bytes()[..usize::from(bytes)]);
        self.headers.push(0);
    }

    /// A column of any numbers that fit in `bytes` bytes; `values` is used up.
    pub(crate) fn column(&mut self, bytes: u8, values: &mut [u64]) {
        let (min, max) = values.iter().fold((u64::MAX, 0), |(a, b), v| (a.min(*v), b.max(*v)));
        values.iter_mut().for_each(|v| *v -= min);
        let width = bits::bits_for(max - min);
        self.headers.extend_from_slice(&min.to_le_bytes()[..usize::from(bytes)]);
        self.headers.push(width as u8);
        bits::pack(values, width, self.data);
    }
}
