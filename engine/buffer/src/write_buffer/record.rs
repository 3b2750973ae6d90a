//! Records: the entries of a shared buffer as bytes.
//!
//! A record: u16 = key length (12 bits) | kind << 12 | long << 13 | sequence width << 14; length of
//! the value in 2 bytes; sequence in 2, 4, 6 or 8 bytes; key; value. With `long`, for keys and values that
//! this has no room for, the length of the value has 4 bytes, and 2 bytes more are the key length >> 12. A
//! *place* is segment << 16 | offset. Records never leave memory.
//!
//! An [`Arena`] takes them in the order in which they arrive. [`Records`] are copied from there in
//! the order of their keys, into segments that never change (BU6). So a base can share them with
//! the base that replaces it. When the old base is dropped a segment belongs to one base, so the
//! sum over the bases is the memory held.
//!
//! A large record is *alone*: encoded once, before any latch is taken, into a segment that goes from the
//! arena through all bases and is never copied again.

use std::sync::Arc;

use frond_base::{EntryKind, EntryRef};

use crate::seq_width::seq_width;

const KEY_BITS: u32 = 12;
const KEY_MASK: u16 = (1 << KEY_BITS) - 1;
const KIND_BIT: u16 = 1 << 12;
const LONG_BIT: u16 = 1 << 13;
const WIDTH_SHIFT: u32 = 14;

const OFFSET_BITS: u32 = 16;
/// Bytes of a segment, at most, unless a record is alone in it.
const MOST_BYTES: usize = 1 << OFFSET_BITS;
/// A record of at least this many bytes is alone.
const LARGE: usize = MOST_BYTES / 2;
/// Bytes of a record beyond its key and value, at most.
const HEADER: usize = 16;
const FEWEST_BYTES: usize = 4096;
/// The first segment of an arena starts with this many: with hundreds of thousands of trees, most buffers have a record
/// or two.
const FIRST_BYTES: usize = 32;
/// Records that are prefetched together, and which byte of each is read besides the first.
const AHEAD: usize = 32;
const FETCHED: usize = 32;

/// Whether the lengths of `e` need the long form.
#[inline]
fn is_long(e: &EntryRef<'_>) -> bool {
    e.value.len() > usize::from(u16::MAX) || e.key.len() > usize::from(KEY_MASK)
}

/// Bytes of the record of `e`.
#[inline]
pub(crate) fn record_bytes(e: &EntryRef<'_>) -> usize {
    let long = if is_long(e) { 4 } else { 0 };
    6 + long + 2 * seq_width(e.seq) as usize + e.key.len() + e.value.len()
}

/// Whether the record of `e` is alone in its segment.
#[inline]
pub(crate) fn is_large(e: &EntryRef<'_>) -> bool {
    HEADER + e.key.len() + e.value.len() >= LARGE
}

/// The record of a large entry, for [`Arena::push_alone`].
pub(crate) fn alone(e: &EntryRef<'_>) -> Arc<[u8]> {
    let (header, at) = header(e);
    let mut record: Arc<[u8]> = std::iter::repeat_n(0, record_bytes(e)).collect();
    if let Some(bytes) = Arc::get_mut(&mut record) {
        let (front, rest) = bytes.split_at_mut(at);
        let (key, value) = rest.split_at_mut(e.key.len());
        front.copy_from_slice(&header[..at]);
        key.copy_from_slice(e.key);
        value.copy_from_slice(e.value);
    }
    record
}

/// The bytes before the key, and how many of them count.
#[inline]
fn header(e: &EntryRef<'_>) -> ([u8; 16], usize) {
    let width = seq_width(e.seq);
    let mut word = e.key.len() as u16 & KEY_MASK | (width as u16) << WIDTH_SHIFT;
    if e.kind == EntryKind::Delete {
        word |= KIND_BIT;
    }
    let mut header = [0u8; 16];
    let at = if is_long(e) {
        header[..2].copy_from_slice(&(word | LONG_BIT).to_le_bytes());
        header[2..6].copy_from_slice(&(e.value.len() as u32).to_le_bytes());
        header[6..8].copy_from_slice(&((e.key.len() >> KEY_BITS) as u16).to_le_bytes());
        header[8..].copy_from_slice(&e.seq.to_le_bytes());
        8
    } else {
        let words = u64::from(word) | (e.value.len() as u64) << 16;
        header[..8].copy_from_slice(&words.to_le_bytes());
        header[4..12].copy_from_slice(&e.seq.to_le_bytes());
        4
    };
    (header, at + 2 + 2 * width as usize)
}

fn encode(e: &EntryRef<'_>, out: &mut Vec<u8>) {
    let (header, n) = header(e);
    let header_end = out.len() + n;
    // One copy of a fixed length; the excess is cut off.
    out.extend_from_slice(&header);
    out.truncate(header_end);
    out.extend_from_slice(e.key);
    out.extend_from_slice(e.value);
}

/// The record with which `b` begins.
#[inline]
fn decode(b: &[u8]) -> EntryRef<'_> {
    decode_joined(b).0
}

/// The record with which `b` begins, and its key and value in one piece.
#[inline]
fn decode_joined(b: &[u8]) -> (EntryRef<'_>, &[u8]) {
    let word = u16::from_le_bytes([b[0], b[1]]);
    let mut key_len = usize::from(word & KEY_MASK);
    let (value_len, b) = match word & LONG_BIT {
        0 => (u32::from(u16::from_le_bytes([b[2], b[3]])), &b[4..]),
        _ => {
            key_len |= usize::from(u16::from_le_bytes([b[6], b[7]])) << KEY_BITS;
            (u32::from_le_bytes([b[2], b[3], b[4], b[5]]), &b[8..])
        }
    };
    let (seq, b) = match word >> WIDTH_SHIFT {
        0 => (u64::from(u16::from_le_bytes([b[0], b[1]])), &b[2..]),
        1 => (u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]])), &b[4..]),
        2 => (u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], 0, 0]), &b[6..]),
        _ => (u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]), &b[8..]),
    };
    let body = &b[..key_len + value_len as usize];
    let (key, value) = body.split_at(key_len);
    let kind = if word & KIND_BIT != 0 { EntryKind::Delete } else { EntryKind::Put };
    (EntryRef { key, seq, kind, value }, body)
}

/// Length of the record with which `b` begins.
#[inline]
fn length(b: &[u8]) -> usize {
    let word = u16::from_le_bytes([b[0], b[1]]);
    let rest = usize::from(word & KEY_MASK) + 2 + 2 * usize::from(word >> WIDTH_SHIFT);
    match word & LONG_BIT {
        0 => 4 + rest + usize::from(u16::from_le_bytes([b[2], b[3]])),
        _ => {
            let key_high = usize::from(u16::from_le_bytes([b[6], b[7]])) << KEY_BITS;
            8 + rest + key_high + u32::from_le_bytes([b[2], b[3], b[4], b[5]]) as usize
        }
    }
}

/// The bytes that places refer to.
pub(crate) trait Source {
    /// From the record at `place` to the end of its segment.
    fn at(&self, place: u32) -> &[u8];

    /// The whole segment, if the record at `place` is alone in it.
    fn alone(&self, place: u32) -> Option<&Arc<[u8]>>;

    #[inline]
    fn entry(&self, place: u32) -> EntryRef<'_> {
        decode(self.at(place))
    }

    /// The entry, and its key and value in one piece.
    #[inline]
    fn joined(&self, place: u32) -> (EntryRef<'_>, &[u8]) {
        decode_joined(self.at(place))
    }
}

/// Reads a byte of each of the first two cache lines of some records, so that they are fetched
/// together.
#[inline]
fn fetch(records: &[&[u8]]) {
    let sum = records
        .iter()
        .fold(0u8, |sum, b| sum.wrapping_add(b[0]).wrapping_add(b[(b.len() - 1).min(FETCHED)]));
    std::hint::black_box(sum);
}

/// Prefetches the records at some places.
#[inline]
pub(crate) fn touch<S: Source + ?Sized>(places: &[u32], source: &S) {
    for some in places.chunks(AHEAD) {
        let mut ahead = [&[][..]; AHEAD];
        for (b, place) in ahead.iter_mut().zip(some) {
            *b = source.at(*place);
        }
        fetch(&ahead[..some.len()]);
    }
}

/// A segment that takes no more records.
enum Closed {
    Full(Vec<u8>),
    Alone(Arc<[u8]>),
}

/// Records in the order in which they arrived.
#[derive(Default)]
pub(crate) struct Arena {
    /// The segment that takes records.
    open: Vec<u8>,
    closed: Vec<Closed>,
    /// Bytes of all records.
    bytes: usize,
    /// Bytes allocated.
    memory: usize,
}

impl Source for Arena {
    #[inline]
    fn at(&self, place: u32) -> &[u8] {
        let segment = match self.closed.get((place >> OFFSET_BITS) as usize) {
            None => &self.open[..],
            Some(Closed::Full(segment)) => &segment[..],
            Some(Closed::Alone(record)) => record,
        };
        &segment[(place & 0xffff) as usize..]
    }

    fn alone(&self, place: u32) -> Option<&Arc<[u8]>> {
        match self.closed.get((place >> OFFSET_BITS) as usize) {
            Some(Closed::Alone(record)) => Some(record),
            _ => None,
        }
    }
}

/// Room that [`encode`] needs beyond a record.
const SLACK: usize = 16;

impl Arena {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Reads the last byte.
    #[inline]
    pub fn fetch_end(&self) -> u64 {
        self.open.last().map_or(0, |b| u64::from(*b))
    }

    /// Appends the record of `e`, which is not large, and returns its place. The size of a new
    /// segment depends on `about` bytes.
    #[inline]
    pub fn push(&mut self, e: &EntryRef<'_>, about: usize) -> u32 {
        debug_assert!(!is_large(e));
        let need = record_bytes(e);
        let len = self.open.len();
        let lacks = self.open.capacity() - len < need + SLACK;
        if lacks || (len > 0 && len + need > MOST_BYTES) {
            self.make_room(need, about);
        }
        let place = (self.closed.len() << OFFSET_BITS) as u32 | self.open.len() as u32;
        encode(e, &mut self.open);
        self.bytes += need;
        place
    }

    #[cold]
    fn make_room(&mut self, need: usize, about: usize) {
        let most = (about / 16).clamp(FEWEST_BYTES, MOST_BYTES);
        let len = self.open.len();
        if len > 0 && len + need > most {
            let full = std::mem::take(&mut self.open);
            self.close(Closed::Full(full));
        }
        let len = self.open.len();
        // The first segment grows step by step, so that a small buffer takes little memory.
        let more = if self.closed.is_empty() { len.max(FIRST_BYTES) } else { most };
        let before = self.open.capacity();
        self.open.reserve_exact(need.max(more.min(most.saturating_sub(len))) + SLACK);
        self.memory += self.open.capacity() - before;
    }

    /// Appends a large record and returns its place.
    pub fn push_alone(&mut self, record: Arc<[u8]>) -> u32 {
        let mut open = std::mem::take(&mut self.open);
        self.memory -= open.capacity();
        if !open.is_empty() {
            // Places number the segments in their order, and the open one has the next number: it
            // is closed first.
            open.shrink_to_fit();
            self.memory += open.capacity();
            self.close(Closed::Full(open));
        }
        self.bytes += record.len();
        self.memory += record.len() + COUNTS;
        self.close(Closed::Alone(record));
        ((self.closed.len() - 1) << OFFSET_BITS) as u32
    }

    fn close(&mut self, segment: Closed) {
        let before = self.closed.capacity();
        self.closed.push(segment);
        self.memory += (self.closed.capacity() - before) * std::mem::size_of::<Closed>();
    }

    /// Forgets all records and keeps memory for few.
    pub fn clear(&mut self) {
        self.closed = Vec::new();
        self.open.clear();
        self.open.shrink_to(MOST_BYTES);
        self.bytes = 0;
        self.memory = self.open.capacity();
    }
}

/// Records that never change.
#[derive(Default)]
pub(crate) struct Records {
    segments: Vec<Arc<[u8]>>,
    /// Bytes of the records that belong to entries.
    bytes: usize,
    /// Bytes allocated.
    memory: usize,
}

/// Memory of a segment beyond its bytes.
const SEGMENT: usize = std::mem::size_of::<Arc<[u8]>>() + COUNTS;
/// The counters before the bytes of an `Arc`.
const COUNTS: usize = 16;

impl Source for Records {
    #[inline]
    fn at(&self, place: u32) -> &[u8] {
        &self.segments[(place >> OFFSET_BITS) as usize][(place & 0xffff) as usize..]
    }

    fn alone(&self, place: u32) -> Option<&Arc<[u8]>> {
        let segment = &self.segments[(place >> OFFSET_BITS) as usize];
        (segment.len() >= LARGE && length(segment) == segment.len()).then_some(segment)
    }
}

impl Records {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn memory(&self) -> usize {
        self.memory
    }

    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Copies the records at `places`, in this order, and updates `places`. Records that are alone
    /// are shared.
    pub fn gather<S: Source>(places: &mut [u32], from: &S) -> Records {
        let mut records = Records::default();
        let mut open = Vec::with_capacity(if places.len() < 256 { 0 } else { MOST_BYTES });
        let mut ahead = [&[][..]; AHEAD];
        for some in places.chunks_mut(AHEAD) {
            for (b, place) in ahead.iter_mut().zip(&*some) {
                *b = from.at(*place);
            }
            fetch(&ahead[..some.len()]);
            for (b, place) in ahead.iter().zip(some) {
                let record = &b[..length(b)];
                let alone = if record.len() >= LARGE { from.alone(*place) } else { None };
                if let Some(alone) = alone {
                    if !open.is_empty() {
                        records.close(&mut open);
                    }
                    *place = (records.segments.len() << OFFSET_BITS) as u32;
                    records.add(alone.clone());
                    continue;
                }
                if !open.is_empty() && open.len() + record.len() > MOST_BYTES {
                    records.close(&mut open);
                }
                *place = (records.segments.len() << OFFSET_BITS) as u32 | open.len() as u32;
                open.extend_from_slice(record);
            }
        }
        if !open.is_empty() {
            records.close(&mut open);
        }
        records.segments.shrink_to_fit();
        records
    }

    fn close(&mut self, open: &mut Vec<u8>) {
        self.add(open.as_slice().into());
        open.clear();
    }

    fn add(&mut self, segment: Arc<[u8]>) {
        self.memory += segment.len() + SEGMENT;
        self.bytes += segment.len();
        self.segments.push(segment);
    }

    /// These segments and those of `later`; also returns the shift for places of `later`.
    pub fn joined(&self, later: &Records) -> (Records, u32) {
        let records = Records {
            segments: [&self.segments[..], &later.segments].concat(),
            bytes: self.bytes + later.bytes,
            memory: self.memory + later.memory,
        };
        (records, (self.segments.len() << OFFSET_BITS) as u32)
    }

    /// Bytes of all segments; for tests.
    pub fn held(&self) -> usize {
        let held = self.segments.iter().map(|s| s.len()).sum();
        assert_eq!(held + SEGMENT * self.segments.len(), self.memory);
        held
    }

    /// This many bytes belong to no entry any more.
    pub fn drop_bytes(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use frond_base::Seq;

    use super::*;

    fn put<'a>(key: &'a [u8], seq: Seq, value: &'a [u8]) -> EntryRef<'a> {
        EntryRef { key, seq, kind: EntryKind::Put, value }
    }

    #[test]
    fn records_of_every_width_and_length_come_back_from_arenas_and_segments() {
        let seqs = [0, 0xffff, 0x1_0000, 0xffff_ffff, 1 << 32, (1 << 48) - 1, 1 << 48, u64::MAX];
        let lens = [0, 1, 255, 65_535, 65_536, 200_000];
        let lengths = [1, 4095, 4096, 20_000, 65_535, 65_536, 300_000, crate::MAX_KEY];
        let value = vec![7u8; 200_000];
        let mut arena = Arena::default();
        let mut want = Vec::new();
        for (i, seq) in seqs.iter().enumerate() {
            for n in lens {
                let key = vec![i as u8; lengths[i]];
                let kind = if n == 0 { EntryKind::Delete } else { EntryKind::Put };
                let e = EntryRef { key: &key, seq: *seq, kind, value: &value[..n] };
                let place = match is_large(&e) {
                    true => arena.push_alone(alone(&e)),
                    false => arena.push(&e, 0),
                };
                want.push((place, key.clone(), *seq, kind, n));
            }
        }
        let mut places: Vec<u32> = want.iter().map(|w| w.0).collect();
        // Backwards: gathered records are in the order of `places`.
        places.reverse();
        let records = Records::gather(&mut places, &arena);
        places.reverse();
        for (i, (place, key, seq, kind, n)) in want.iter().enumerate() {
            let e = EntryRef { key, seq: *seq, kind: *kind, value: &value[..*n] };
            assert_eq!(arena.entry(*place), e);
            assert_eq!(records.entry(places[i]), e);
        }
        assert!(places.is_sorted_by(|a, b| a > b), "in the order asked for");
        let bytes: usize = want.iter().map(|w| record_bytes(&arena.entry(w.0))).sum();
        assert_eq!((arena.bytes(), records.bytes()), (bytes, bytes));
        let used: usize = records.segments.iter().map(|s| s.len()).sum();
        assert_eq!(used, bytes, "a record occupies what it is said to");
        assert_eq!(records.memory(), bytes + SEGMENT * records.segments());
    }

    #[test]
    fn an_arena_says_what_it_holds() {
        let mut arena = Arena::default();
        for round in 0..3 {
            for i in 0..5000usize {
                let value = vec![1; if i % 500 == 0 { 90_000 } else { i % 70 }];
                let key = i.to_be_bytes();
                let e = put(&key, 1 << round, &value);
                match is_large(&e) {
                    true => arena.push_alone(alone(&e)),
                    false => arena.push(&e, i * 40),
                };
                let closed = arena.closed.iter().map(|segment| match segment {
                    Closed::Full(segment) => segment.capacity(),
                    Closed::Alone(record) => record.len() + COUNTS,
                });
                let held = arena.open.capacity() + closed.sum::<usize>();
                let list = arena.closed.capacity() * std::mem::size_of::<Closed>();
                assert_eq!(arena.memory(), held + list);
                assert!(held < arena.bytes() * 2 + 2 * MOST_BYTES, "{held} {}", arena.bytes());
            }
            arena.clear();
            assert!(arena.bytes() == 0 && arena.memory() <= MOST_BYTES + 64);
        }
    }

    #[test]
    fn joined_segments_keep_their_records() {
        let (mut a, mut b) = (Arena::default(), Arena::default());
        let mut first = [a.push(&put(b"x", 1, b"1"), 0)];
        let mut second = [b.push(&put(b"y", 2, b"2"), 0)];
        let (a, b) = (Records::gather(&mut first, &a), Records::gather(&mut second, &b));
        let (joined, shift) = a.joined(&b);
        assert_eq!(joined.entry(first[0]), put(b"x", 1, b"1"));
        assert_eq!(joined.entry(second[0] + shift), put(b"y", 2, b"2"));
        assert_eq!(joined.bytes(), a.bytes() + b.bytes());
        assert_eq!(joined.memory(), a.memory() + b.memory());
    }
}
