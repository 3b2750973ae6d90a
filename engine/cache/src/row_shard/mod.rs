//! One shard of the row cache: rows by (tree, key) in an arena, replaced by CLOCK.
//!
//! A row is admitted when its key was read before and is still in `seen`, a table of 16-bit tags, eight to a
//! hash value. So keys that are read once, by a scan or by uniform access, are not admitted. A new key
//! replaces one of its eight tags, so keys age in proportion to other reads. A count-min sketch
//! (TinyLFU) was rejected: it also ranks the rows in the cache, which CLOCK does already, and takes
//! four memory accesses per read.
//!
//! Each hit counts one use, at most 3; the hand takes one use away as it passes, and a row without
//! uses leaves. Rows lie in the arena in the order of the hand, and a new one takes the place that
//! the hand has just made free.
//!
//! - RSH1. `bytes` is what the arena, the buckets, `seen` and the rows take, allocator's headers included, and at
//!   most `limit`. If `limit` has no room for twice the memory of `seen`, the shard is off and holds nothing.
//! - RSH2. Every slot of the arena is in exactly one list: of its bucket, or of the free slots.
//!
//! Tested by the unit tests below and by `tests/it`.

use frond_base::{EntryKind, Seq};

use crate::row_key::{CachedRow, EachRow, RowKey};
use crate::stats::RowStats;

const NIL: u32 = u32::MAX;
const MAX_USES: u8 = 3;
/// Most bytes of key and value of a row. A larger row fills at least a quarter of a page, so the page cache
/// holds it about as well.
pub(crate) const ROW_BYTES_MAX: usize = 4096;
/// Keys that share a place in `seen`. A new one replaces one of them at random. If it replaced the oldest, keys that are
/// read in turn would replace each other for ever.
const WAYS: usize = 8;
const SLOT: usize = std::mem::size_of::<Slot>();

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Put,
    Delete,
    Absent,
}

struct Slot {
    hash: u64,
    seq: Seq,
    /// The key, then the value.
    data: Box<[u8]>,
    tree: u32,
    table: u32,
    /// The next slot of the list.
    next: u32,
    key_len: u16,
    state: State,
    uses: u8,
}

pub(crate) struct RowShard {
    slots: Vec<Slot>,
    /// Buckets, a power of two; each begins a list.
    heads: Vec<u32>,
    free: u32,
    live: usize,
    hand: usize,
    /// Tags of keys that were met and are not here; 0: none. Empty until the first meeting.
    seen: Vec<u16>,
    seen_slots: usize,
    /// State of the generator that chooses the tag to replace.
    lot: u32,
    bytes: usize,
    limit: usize,
    stats: RowStats,
}

/// Memory of a block of `len` bytes.
fn block(len: usize) -> usize {
    match len {
        0 => 0,
        len => (len + 8).next_multiple_of(16),
    }
}

impl RowShard {
    /// `seen_slots` is a power of two.
    pub fn new(limit: usize, seen_slots: usize) -> RowShard {
        RowShard {
            slots: Vec::new(),
            heads: Vec::new(),
            free: NIL,
            live: 0,
            hand: 0,
            seen: Vec::new(),
            seen_slots,
            lot: 0,
            bytes: 0,
            limit,
            stats: RowStats::default(),
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn len(&self) -> usize {
        self.live
    }

    pub fn add_stats(&self, sum: &mut RowStats) {
        sum.add(&self.stats);
        sum.rows += self.live as u64;
        sum.bytes += self.bytes as u64;
        sum.limit += self.limit as u64;
        sum.seen_slots += self.seen_slots as u64;
    }

    fn is_off(&self) -> bool {
        self.limit < 4 * self.seen_slots
    }

    /// The row, if a snapshot at `at` sees it; its value is appended to `value`.
    #[inline]
    pub fn get(
        &mut self,
        key: &RowKey<'_>,
        at: Seq,
        value: Option<&mut Vec<u8>>,
    ) -> Option<CachedRow> {
        let Some(found) = self.find(key).filter(|i| self.slots[*i].seq <= at) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        let slot = &mut self.slots[found];
        slot.uses = (slot.uses + 1).min(MAX_USES);
        if let Some(value) = value {
            value.extend_from_slice(&slot.data[slot.key_len.into()..]);
        }
        Some(slot.row())
    }

    /// A page was read for the key. Returns whether the key was read before.
    pub fn meet(&mut self, key: &RowKey<'_>) -> bool {
        if self.is_off() {
            return false;
        }
        if self.seen.is_empty() {
            self.shrink_to(self.limit - 2 * self.seen_slots);
            self.seen = vec![0; self.seen_slots];
            self.bytes += 2 * self.seen_slots;
        }
        let first = ((key.hash >> 24) as usize * WAYS) & (self.seen_slots - 1);
        let tags = &mut self.seen[first..first + WAYS];
        // One key in 8192 is mistaken for one that was read before.
        let tag = ((key.hash >> 8) as u16).max(1);
        let known = tags.contains(&tag);
        if !known {
            self.lot = self.lot.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            tags[(self.lot >> 16) as usize & (WAYS - 1)] = tag;
        }
        self.stats.met_again += u64::from(known);
        known
    }

    /// Admits a row, in place of the key's old one. Evicts others if there is no room.
    pub fn insert(&mut self, key: &RowKey<'_>, row: CachedRow, value: &[u8]) {
        let uses = match self.find(key) {
            Some(at) => {
                let uses = self.slots[at].uses;
                self.take_out(at);
                uses
            }
            None => 0,
        };
        let len = key.key.len() + value.len();
        if len > ROW_BYTES_MAX || self.is_off() || !self.make_room(block(len)) {
            return;
        }
        let mut data = Vec::with_capacity(len);
        data.extend_from_slice(key.key);
        data.extend_from_slice(value);
        let state = match row.kind {
            Some(EntryKind::Put) => State::Put,
            Some(EntryKind::Delete) => State::Delete,
            None => State::Absent,
        };
        self.add(Slot {
            hash: key.hash,
            seq: row.seq,
            data: data.into(),
            tree: key.tree,
            table: key.table,
            next: NIL,
            key_len: key.key.len() as u16,
            state,
            uses,
        });
        self.stats.inserted += 1;
    }

    /// The newest version of the key has changed.
    pub fn update(&mut self, key: &RowKey<'_>, row: CachedRow, value: &[u8]) {
        if self.find(key).is_some() {
            self.insert(key, row, value);
        }
    }

    /// Removes the rows that `matches` (tree, table, key).
    pub fn remove_if(&mut self, matches: impl Fn(u32, u32, &[u8]) -> bool) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            if slot.state != State::Free && matches(slot.tree, slot.table, slot.key()) {
                self.take_out(at);
            }
        }
    }

    /// Calls `f` with every row of a tree.
    pub fn each_of(&self, tree: u32, f: &mut EachRow<'_>) {
        for slot in self.slots.iter().filter(|s| s.state != State::Free && s.tree == tree) {
            f(slot.key(), slot.row(), &slot.data[slot.key_len.into()..]);
        }
    }

    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        if self.is_off() {
            let stats = self.stats;
            *self = RowShard { stats, ..RowShard::new(limit, self.seen_slots) };
            return;
        }
        self.shrink_to(limit);
    }

    /// Moves the hand over an eighth of the arena: rows that were not read since its last visits leave.
    pub fn sweep(&mut self) {
        for _ in 0..self.slots.len().div_ceil(8) {
            self.pass();
        }
        if self.live < self.slots.len() / 2 {
            self.compact();
        }
    }

    fn find(&self, key: &RowKey<'_>) -> Option<usize> {
        let mut at = *self.heads.get(self.bucket(key.hash))?;
        while at != NIL {
            let slot = &self.slots[at as usize];
            if slot.hash == key.hash && slot.tree == key.tree && slot.key() == key.key {
                return Some(at as usize);
            }
            at = slot.next;
        }
        None
    }

    /// The lowest bits chose the shard.
    fn bucket(&self, hash: u64) -> usize {
        (hash >> 16) as usize & self.heads.len().wrapping_sub(1)
    }

    /// Bytes by which arena and buckets grow with the next row.
    fn growth(&self) -> usize {
        let arena = match self.free == NIL && self.slots.len() == self.slots.capacity() {
            true => SLOT * self.step(),
            false => 0,
        };
        let buckets = match self.live < self.heads.len() {
            true => 0,
            false => 4 * self.heads.len().max(16),
        };
        arena + buckets
    }

    /// Slots by which the arena grows: doubling it would take up to twice what is needed.
    fn step(&self) -> usize {
        (self.slots.capacity() / 8).max(16)
    }

    /// Evicts until `data` more bytes fit with the slot that they need; false when they never do.
    fn make_room(&mut self, data: usize) -> bool {
        while self.bytes + data + self.growth() > self.limit {
            if self.live == 0 {
                return false;
            }
            self.evict();
            // Many small rows have made room for few large ones.
            if self.slots.len() > 2 * self.live + 64 {
                self.compact();
            }
        }
        true
    }

    fn shrink_to(&mut self, target: usize) {
        while self.bytes > target && self.live > 0 {
            self.evict();
            // The arena itself must become smaller.
            if self.slots.capacity() > 2 * self.live + 64 {
                self.compact();
            }
        }
        if self.bytes > target {
            self.compact();
        }
    }

    fn evict(&mut self) {
        // This ends: each round of the hand takes one use from every row, and there is at least one row.
        while !self.pass() {}
        self.stats.evicted += 1;
    }

    /// Moves the hand over one slot; whether its row has left.
    fn pass(&mut self) -> bool {
        let at = if self.hand < self.slots.len() { self.hand } else { 0 };
        self.hand = at + 1;
        let Some(slot) = self.slots.get_mut(at) else { return false };
        if slot.state == State::Free {
            return false;
        }
        if slot.uses > 0 {
            slot.uses -= 1;
            return false;
        }
        self.take_out(at);
        true
    }

    fn add(&mut self, slot: Slot) {
        if self.live >= self.heads.len() {
            let buckets = (2 * self.heads.len()).max(16);
            self.bytes += 4 * (buckets - self.heads.len());
            self.link_all(buckets);
        }
        let bucket = self.bucket(slot.hash);
        self.bytes += block(slot.data.len());
        let next = self.heads[bucket];
        let at = match self.free {
            NIL => {
                if self.slots.len() == self.slots.capacity() {
                    let (before, step) = (self.slots.capacity(), self.step());
                    self.slots.reserve_exact(step);
                    self.bytes += SLOT * (self.slots.capacity() - before);
                }
                self.slots.push(Slot { next, ..slot });
                self.slots.len() - 1
            }
            at => {
                let place = &mut self.slots[at as usize];
                assert!(place.state == State::Free, "a slot is in one list (RSH2)");
                self.free = place.next;
                *place = Slot { next, ..slot };
                at as usize
            }
        };
        self.heads[bucket] = at as u32;
        self.live += 1;
        assert!(self.bytes <= self.limit, "the caller has seen to the room (RSH1)");
    }

    fn take_out(&mut self, at: usize) {
        let bucket = self.bucket(self.slots[at].hash);
        let (mut before, mut i) = (NIL, self.heads[bucket]);
        while i as usize != at {
            assert!(i != NIL, "a row is in the list of its bucket (RSH2)");
            (before, i) = (i, self.slots[i as usize].next);
        }
        let next = self.slots[at].next;
        match before {
            NIL => self.heads[bucket] = next,
            before => self.slots[before as usize].next = next,
        }
        let slot = &mut self.slots[at];
        self.bytes -= block(slot.data.len());
        (slot.state, slot.data, slot.next) = (State::Free, Box::default(), self.free);
        self.free = at as u32;
        self.live -= 1;
    }

    /// Gives back the memory of free slots; the rows keep their order.
    fn compact(&mut self) {
        self.bytes -= SLOT * self.slots.capacity() + 4 * self.heads.len();
        let mut old = std::mem::take(&mut self.slots);
        let hand = self.hand.min(old.len());
        self.slots.reserve_exact(self.live);
        old.rotate_left(hand);
        self.slots.extend(old.into_iter().filter(|s| s.state != State::Free));
        (self.hand, self.free) = (0, NIL);
        let buckets = if self.live == 0 { 0 } else { self.live.next_power_of_two().max(16) };
        self.link_all(buckets);
        self.bytes += SLOT * self.slots.capacity() + 4 * self.heads.len();
    }

    /// Makes the lists of `buckets` buckets.
    fn link_all(&mut self, buckets: usize) {
        self.heads = vec![NIL; buckets];
        for at in 0..self.slots.len() {
            if self.slots[at].state != State::Free {
                let bucket = self.bucket(self.slots[at].hash);
                self.slots[at].next = std::mem::replace(&mut self.heads[bucket], at as u32);
            }
        }
    }
}

impl Slot {
    fn key(&self) -> &[u8] {
        &self.data[..self.key_len.into()]
    }

    fn row(&self) -> CachedRow {
        let kind = match self.state {
            State::Put => Some(EntryKind::Put),
            State::Delete => Some(EntryKind::Delete),
            State::Absent | State::Free => None,
        };
        CachedRow { seq: self.seq, kind }
    }
}

#[cfg(test)]
mod tests;
