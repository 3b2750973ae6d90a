//! The leaf: up to `N` entries in order; `N` is a power of two.
//!
//! `heads[i]` is the head of entry i's key after the bytes that all keys of the leaf share;
//! `offsets[i]` is where its record begins in `arena`. Unused heads are all ones, so a search runs
//! over the whole array with a fixed number of steps and no branch that depends on data.
//!
//! A record: u16 = key length (12 bits) | kind << 12 | big << 13 | sequence width << 14; u16 = value
//! length; sequence in 2, 4, 6 or 8 bytes; key; value. With `big` the value length is an index into
//! `big`, the values too large to be moved about. A key length of 0 means that the key is in `big` as
//! well, before the value: u32 = key length; key; value. Records never leave memory.

use std::cmp::Ordering;

use frond_base::{EntryKind, EntryRef, Seq};

use crate::fence::{head_after, order};
use crate::seq_width::seq_width;

/// Values up to this many bytes lie in the leaf's arena; longer ones get an allocation of their own.
pub const INLINE_VALUE: usize = 1024;

/// Entries of a leaf. Half of this many heads and offsets move at an insert in the middle.
pub(crate) const LEAF_ENTRIES: usize = 128;

const ARENA_LIMIT: usize = u16::MAX as usize;
/// The arena of a small leaf doubles up to here, bytes. A write set passes so much on to the next transaction.
pub const FEW_BYTES: usize = 4 << 10;
/// Keys up to this many bytes lie in the arena.
const INLINE_KEY: usize = 0xfff;
/// Bytes before a key that lies in `big`.
const FAR_KEY: usize = 4;
const KIND_BIT: u16 = 1 << 12;
const BIG_BIT: u16 = 1 << 13;
const WIDTH_SHIFT: u32 = 14;

pub(crate) struct Leaf<const N: usize = LEAF_ENTRIES> {
    heads: [u64; N],
    offsets: [u16; N],
    len: u16,
    /// Bytes that every key of the leaf begins with and heads leave out.
    skip: u16,
    /// Consecutive inserts at the end, by which a split tells ascending keys from random ones.
    appends: u16,
    /// Arena bytes of records that are gone.
    dead: u16,
    max_seq: Seq,
    arena: Vec<u8>,
    big: Vec<Box<[u8]>>,
    big_bytes: usize,
}

/// The entries of a buffer before it has chunks.
pub(crate) type Few = Leaf<8>;

/// The leaf has no room for another record.
pub(crate) struct Full;

impl<const N: usize> Leaf<N> {
    pub fn new(skip: usize) -> Leaf<N> {
        const { assert!(N.is_power_of_two()) };
        Leaf {
            heads: [u64::MAX; N],
            offsets: [0; N],
            len: 0,
            skip: skip as u16,
            appends: 0,
            dead: 0,
            max_seq: 0,
            arena: Vec::new(),
            big: Vec::new(),
            big_bytes: 0,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    pub fn max_seq(&self) -> Seq {
        self.max_seq
    }

    /// Bytes allocated for records.
    #[inline]
    pub fn memory(&self) -> usize {
        self.arena.capacity()
            + self.big.capacity() * std::mem::size_of::<Box<[u8]>>()
            + self.big_bytes
    }

    /// Bytes of live records, large values included.
    #[inline]
    pub fn payload(&self) -> usize {
        self.arena.len() - self.dead as usize + self.big_bytes
    }

    /// Entries and bytes of records from slot `from` to slot `to`, the bytes in proportion.
    pub fn weigh(&self, from: usize, to: usize) -> (u64, u64) {
        match to.saturating_sub(from) {
            0 => (0, 0),
            n => (n as u64, (self.payload() * n / self.len()) as u64),
        }
    }

    /// A new leaf to the right of this one, with an arena as large. This leaf was filled in order
    /// and gets no more entries: it takes heads after `left_skip` bytes from now on.
    pub fn grow_right(&mut self, left_skip: usize, right_skip: usize) -> Leaf<N> {
        let mut right = Leaf::new(right_skip);
        right.appends = self.appends;
        right.arena.reserve_exact(self.arena.len());
        self.settle(left_skip);
        right
    }

    #[inline]
    fn record(&self, slot: usize) -> Record<'_> {
        debug_assert!(slot < self.len());
        let mut record = Record::at(&self.arena, self.offsets[slot] as usize);
        if record.key.is_empty() {
            record.key = self.far(&record).0;
        }
        record
    }

    /// Key and value of a record whose key is in `big`.
    #[cold]
    fn far(&self, r: &Record<'_>) -> (&[u8], &[u8]) {
        let (len, rest) = self.big[r.big_index()].split_at(FAR_KEY);
        rest.split_at(u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize)
    }

    #[inline]
    pub fn entry(&self, slot: usize) -> EntryRef<'_> {
        let r = self.record(slot);
        let value = match r.big {
            false => r.inline,
            true if r.key.len() > INLINE_KEY => self.far(&r).1,
            true => &self.big[r.big_index()][..],
        };
        EntryRef { key: r.key, seq: r.seq, kind: r.kind, value }
    }

    #[inline]
    pub fn key(&self, slot: usize) -> &[u8] {
        self.record(slot).key
    }

    /// Number of heads smaller than `head`.
    #[inline]
    fn heads_below(&self, head: u64) -> usize {
        let mut base = 0;
        let mut half = N / 2;
        while half > 0 {
            base += usize::from(self.heads[(base + half - 1) & (N - 1)] < head) * half;
            half /= 2;
        }
        base + usize::from(self.heads[base & (N - 1)] < head)
    }

    /// The first slot whose entry is not before (`key`, `seq`), and whether it is exactly that.
    #[inline]
    pub fn find(&self, key: &[u8], seq: Seq) -> (usize, bool) {
        let head = head_after(key, self.skip as usize);
        let slot = self.heads_below(head);
        if slot >= self.len() {
            return (self.len(), false);
        }
        if self.heads[slot] != head {
            return (slot, false);
        }
        self.find_among_equal_heads(slot, head, key, seq)
    }

    fn find_among_equal_heads(
        &self,
        from: usize,
        head: u64,
        key: &[u8],
        seq: Seq,
    ) -> (usize, bool) {
        let tied = self.heads[from..self.len()].partition_point(|&h| h == head);
        let (mut lo, mut hi) = (from, from + tied);
        while lo < hi {
            let mid = lo + (hi - lo) / 2;
            let r = self.record(mid);
            match order(r.key, r.seq, key, seq) {
                Ordering::Less => lo = mid + 1,
                Ordering::Equal => return (mid, true),
                Ordering::Greater => hi = mid,
            }
        }
        (lo, false)
    }

    /// Whether (`key`, `seq`) comes after every entry. The test that makes ascending keys cheap.
    #[inline]
    pub fn ends_before(&self, key: &[u8], seq: Seq) -> bool {
        let Some(last) = self.len().checked_sub(1) else { return true };
        match self.heads[last].cmp(&head_after(key, self.skip as usize)) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => {
                let r = self.record(last);
                order(r.key, r.seq, key, seq) == Ordering::Less
            }
        }
    }

    /// Puts `e` at `slot`, which [`Leaf::find`] gave (not exact). Fails when there is no room.
    #[inline]
    pub fn insert(&mut self, slot: usize, e: &EntryRef<'_>) -> Result<(), Full> {
        let len = self.len();
        let need = record_bytes(e);
        if len == N {
            return Err(Full);
        }
        if self.arena.len() + need > ARENA_LIMIT {
            if self.arena.len() - self.dead as usize + need > ARENA_LIMIT {
                return Err(Full);
            }
            self.compact(need);
        }
        self.appends = if slot == len { self.appends.saturating_add(1) } else { 0 };
        let offset = self.write_record(e, need);
        self.heads.copy_within(slot..len, slot + 1);
        self.offsets.copy_within(slot..len, slot + 1);
        self.heads[slot] = head_after(e.key, self.skip as usize);
        self.offsets[slot] = offset;
        self.len += 1;
        self.max_seq = self.max_seq.max(e.seq);
        Ok(())
    }

    /// Makes room for `need` bytes in the arena.
    #[inline]
    fn reserve(&mut self, need: usize) {
        let at = self.arena.len();
        if self.arena.capacity() - at < need {
            // A quarter of slack: doubling would waste more than the slots themselves take. But a few entries are all of their
            // tree's, and most transactions have no more.
            let slack = match FEW_BYTES.checked_sub(at + need) {
                Some(left) if N < LEAF_ENTRIES => at.max(64).min(left),
                _ => (at / 4).max(64),
            };
            self.arena.reserve_exact(need + slack.min(ARENA_LIMIT - at - need));
        }
    }

    fn write_record(&mut self, e: &EntryRef<'_>, need: usize) -> u16 {
        let at = self.arena.len();
        self.reserve(need);
        let width = seq_width(e.seq);
        let is_far = e.key.len() > INLINE_KEY;
        let key = if is_far { &[] } else { e.key };
        let mut word = key.len() as u16 | (width as u16) << WIDTH_SHIFT;
        if e.kind == EntryKind::Delete {
            word |= KIND_BIT;
        }
        let big = is_far || e.value.len() > INLINE_VALUE;
        let mut second = e.value.len() as u16;
        if big {
            word |= BIG_BIT;
            second = self.big.len() as u16;
            let bytes: Box<[u8]> = match is_far {
                true => [&(e.key.len() as u32).to_le_bytes(), e.key, e.value].concat().into(),
                false => e.value.into(),
            };
            self.big_bytes += bytes.len();
            self.big.push(bytes);
        }
        let mut header = [0u8; 12];
        header[..2].copy_from_slice(&word.to_le_bytes());
        header[2..4].copy_from_slice(&second.to_le_bytes());
        header[4..].copy_from_slice(&e.seq.to_le_bytes());
        self.arena.extend_from_slice(&header[..4 + seq_bytes(width)]);
        self.arena.extend_from_slice(key);
        if !big {
            self.arena.extend_from_slice(e.value);
        }
        at as u16
    }

    /// Takes the entry at `slot` out.
    pub fn remove(&mut self, slot: usize) {
        let len = self.len();
        let r = self.record(slot);
        let (bytes, big) = (r.bytes, r.big.then(|| r.big_index()));
        if let Some(i) = big {
            self.big_bytes -= self.big[i].len();
            self.big[i] = Box::default();
        }
        self.dead += bytes as u16;
        self.heads.copy_within(slot + 1..len, slot);
        self.offsets.copy_within(slot + 1..len, slot);
        self.heads[len - 1] = u64::MAX;
        self.len -= 1;
        if usize::from(self.dead) > self.arena.len() / 2 {
            self.compact(0);
        }
    }

    /// Removes the entries newer than `seq`; returns how many.
    pub fn remove_newer(&mut self, seq: Seq) -> usize {
        let before = self.len();
        for slot in (0..before).rev() {
            if self.record(slot).seq > seq {
                self.remove(slot);
            }
        }
        self.max_seq = self.max_seq.min(seq);
        before - self.len()
    }

    /// An empty leaf for all keys, whose records go to `memory`.
    pub fn in_memory(mut memory: Vec<u8>) -> Leaf<N> {
        memory.clear();
        Leaf { arena: memory, ..Leaf::new(0) }
    }

    /// The memory of the records, for [`Leaf::in_memory`].
    pub fn into_memory(self) -> Vec<u8> {
        self.arena
    }

    /// Packs the arena anew, leaving room for `more` bytes.
    fn compact(&mut self, more: usize) {
        let skip = self.skip as usize;
        let mut fresh = Leaf::new(skip);
        self.move_records(0, self.len(), &mut fresh, skip, more);
        fresh.appends = self.appends;
        fresh.max_seq = self.max_seq;
        *self = fresh;
    }

    /// Moves all entries to a larger leaf for all keys.
    pub fn grow<const M: usize>(&mut self) -> Leaf<M> {
        let mut larger = Leaf::new(0);
        self.move_records(0, self.len(), &mut larger, 0, 0);
        larger.appends = self.appends;
        *self = Leaf::new(0);
        larger
    }

    /// Appends records `from..to` to the empty leaf `into`; the large values move, not copied.
    fn move_records<const M: usize>(
        &mut self,
        from: usize,
        to: usize,
        into: &mut Leaf<M>,
        skip: usize,
        more: usize,
    ) {
        let bytes: usize = (from..to).map(|i| self.record(i).bytes).sum();
        into.skip = skip as u16;
        into.arena.reserve_exact((bytes + (bytes / 4).max(more)).min(ARENA_LIMIT));
        for slot in from..to {
            let r = self.record(slot);
            let (key_head, seq, n) = (head_after(r.key, skip), r.seq, r.bytes);
            let big = r.big.then(|| r.big_index());
            let at = into.arena.len();
            let old = self.offsets[slot] as usize;
            into.arena.extend_from_slice(&self.arena[old..old + n]);
            if let Some(i) = big {
                let value = std::mem::take(&mut self.big[i]);
                self.big_bytes -= value.len();
                into.big_bytes += value.len();
                let index = into.big.len() as u16;
                into.arena[at + 2..at + 4].copy_from_slice(&index.to_le_bytes());
                into.big.push(value);
            }
            let i = into.len();
            into.heads[i] = key_head;
            into.offsets[i] = at as u16;
            into.len += 1;
            into.max_seq = into.max_seq.max(seq);
        }
    }

    /// Whether keys have lately been arriving in order at this leaf's end.
    pub fn is_appended_to(&self) -> bool {
        usize::from(self.appends) >= N / 4
    }

    /// The slot to split before: the middle by bytes.
    pub fn middle(&self) -> usize {
        debug_assert!(self.len() >= 2);
        let half = (self.arena.len() - self.dead as usize) / 2;
        let mut seen = 0;
        for slot in 0..self.len() {
            seen += self.record(slot).bytes;
            if seen >= half {
                return (slot + 1).clamp(1, self.len() - 1);
            }
        }
        self.len() / 2
    }

    /// Splits before `slot`: the right part is returned, the left part stays. The skips are the new
    /// shared byte counts of both ranges.
    pub fn split(&mut self, slot: usize, left_skip: usize, right_skip: usize) -> Leaf<N> {
        let mut right = Leaf::new(right_skip);
        let mut left = Leaf::new(left_skip);
        let len = self.len();
        self.move_records(slot, len, &mut right, right_skip, 0);
        self.move_records(0, slot, &mut left, left_skip, 0);
        *self = left;
        right
    }

    /// Drops slack and takes heads after `skip` bytes.
    fn settle(&mut self, skip: usize) {
        self.arena.shrink_to_fit();
        self.appends = 0;
        self.see_from(skip);
    }

    /// Takes heads after `skip` bytes: what all keys between the leaf's fences begin with.
    pub fn see_from(&mut self, skip: usize) {
        if self.skip as usize != skip {
            self.skip = skip as u16;
            for slot in 0..self.len() {
                self.heads[slot] = head_after(self.key(slot), skip);
            }
        }
    }
}

#[inline]
fn seq_bytes(width: u32) -> usize {
    2 + 2 * width as usize
}

/// Arena bytes of the record of `e`.
#[inline]
fn record_bytes(e: &EntryRef<'_>) -> usize {
    let header = 4 + seq_bytes(seq_width(e.seq));
    match (e.key.len(), e.value.len()) {
        (key, _) if key > INLINE_KEY => header,
        (key, value) if value > INLINE_VALUE => header + key,
        (key, value) => header + key + value,
    }
}

struct Record<'a> {
    key: &'a [u8],
    seq: Seq,
    kind: EntryKind,
    big: bool,
    second: u16,
    inline: &'a [u8],
    bytes: usize,
}

impl<'a> Record<'a> {
    #[inline]
    fn at(arena: &'a [u8], at: usize) -> Record<'a> {
        let b = &arena[at..];
        let word = u16::from_le_bytes([b[0], b[1]]);
        let second = u16::from_le_bytes([b[2], b[3]]);
        let key_len = usize::from(word) & INLINE_KEY;
        let width = u32::from(word >> WIDTH_SHIFT);
        let seq = match width {
            0 => u64::from(u16::from_le_bytes([b[4], b[5]])),
            1 => u64::from(u32::from_le_bytes([b[4], b[5], b[6], b[7]])),
            2 => u64::from_le_bytes([b[4], b[5], b[6], b[7], b[8], b[9], 0, 0]),
            _ => u64::from_le_bytes([b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11]]),
        };
        let key_at = 4 + seq_bytes(width);
        let big = word & BIG_BIT != 0;
        let value_len = if big { 0 } else { usize::from(second) };
        let key_end = key_at + key_len;
        Record {
            key: &b[key_at..key_end],
            seq,
            kind: if word & KIND_BIT != 0 { EntryKind::Delete } else { EntryKind::Put },
            big,
            second,
            inline: &b[key_end..key_end + value_len],
            bytes: key_end + value_len,
        }
    }

    fn big_index(&self) -> usize {
        usize::from(self.second)
    }
}

#[cfg(test)]
mod tests;
