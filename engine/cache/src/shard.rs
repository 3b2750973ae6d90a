//! One shard of the page cache: S3-FIFO (Yang and others, SOSP 2023) over an arena.
//!
//! Three queues: new pages enter a *small* FIFO (a tenth of the bytes); those that are used again
//! before they reach its end move to the *main* FIFO, the others leave and their hash is remembered
//! in the *ghost*. A page that is read again while the ghost knows it enters main at once. Main gives a
//! page one more round per use (at most 3). One-time reads thus pass through the small queue only.
//! LRU was rejected: it moves a page on every hit and a scan empties it.
//!
//! Look-ups in the order of the keys, as of a join, read a page many times in a row and then never again. So uses of a page
//! that has just entered count nothing until a [`FRESH`]th of the shard's bytes came after it (the *correlated reference
//! period* of LRU-K: O'Neil and others, SIGMOD 1993). While nothing is missed nothing enters: of pages that became hot last, so
//! many bytes may then be hot and not count as such. If they are idle while a scan passes, they are read once more, and enter main.
//! Rejected: an end of the period after so many hits of the shard. All may be a join's, of one page with narrow rows, and then
//! the join displaces everything.
//!
//! How an access counts: a point read counts one use, and so does the first page of a range, since a look-up by a prefix
//! is such a range. A scan's first read of another page counts nothing, later ones count up to one use, which is not
//! enough to reach main; scans neither read nor fill the ghost. A merge's read counts nothing and admits nothing. Pages
//! that were just written fill free room, as if a scan had read them; they evict nothing.
//!
//! The *shadow* only measures: it remembers the pages that left either queue, except those that a
//! scan read once. A read of such a page is one that more memory would have saved, about as much as
//! the shadow stands for; the row cache's share is decided by that (`arbiter.rs`).
//!
//! The ghost is a table of hashes with one slot per hash value: an insertion overwrites what was there,
//! so entries age in proportion to evictions without a queue of their own.
//!
//! - H1. `bytes` is the sum of the charges of all entries (their shares of ghost and shadow included), and at most `limit`
//!   (the bare ghost table of an empty shard is part of the constant per shard).
//! - H2. Every arena slot is in exactly one queue or vacant; the map names exactly those in queues.
//!
//! Tested by the unit tests below and by `tests/it`.

use std::mem::size_of;
use std::sync::Arc;

use frond_run::Access;
use hashbrown::HashTable;

use crate::page_key::PageKey;
use crate::stats::CacheStats;
use crate::CacheWeight;

const NIL: u32 = u32::MAX;
/// Uses that send a page from the small queue to main.
const PROMOTE: u8 = 2;
/// Most uses counted.
const MAX_USES: u8 = 3;
const SMALL: usize = 0;
const MAIN: usize = 1;
/// One byte in so many of the shard's is of a fresh page: a quarter of the tenth.
const FRESH: usize = 40;
/// Ghost slots to begin with; grows with the number of entries.
const GHOST_MIN: usize = 64;

/// One line of the processor's cache: a hit reads and changes nothing else here.
#[repr(align(64))]
struct Entry<V> {
    key: PageKey,
    hash: u64,
    value: Option<Arc<V>>,
    charge: usize,
    prev: u32,
    next: u32,
    /// What [`Shard::entered`] was when this page had entered.
    born: u64,
    queue: u8,
    uses: u8,
    /// A scan has read or admitted it.
    scanned: bool,
    /// Admitted by a scan and not read by a point read since: leaves no ghost.
    scan_only: bool,
}

#[derive(Clone, Copy)]
struct Queue {
    /// Enters here.
    head: u32,
    /// Leaves here.
    tail: u32,
    bytes: usize,
}

/// The lowest bits of a hash chose the shard and are equal here, so the map uses the others first.
#[inline]
fn in_shard(hash: u64) -> u64 {
    hash.rotate_right(16)
}

pub enum Outcome<V> {
    /// Another thread was first; this is its page.
    Present(Arc<V>),
    /// Admitted or not.
    Offered,
}

pub struct Shard<V> {
    /// Slots of the arena; keys and hashes are there. So the table is small, and a look-up reads one entry.
    map: HashTable<u32>,
    entries: Vec<Entry<V>>,
    vacant: Vec<u32>,
    queues: [Queue; 2],
    ghost: Vec<u64>,
    /// Tags of pages, 0: none.
    shadow: Vec<u16>,
    limit: usize,
    bytes: usize,
    /// Bytes that have entered.
    entered: u64,
    hits: u64,
    misses: u64,
    inserted: u64,
    evicted: u64,
    rejected: u64,
    ghost_hits: u64,
    missed_again: u64,
}

impl<V: CacheWeight> Shard<V> {
    /// Memory of an entry beside its value. Arena, map and ghost double when they grow, so each is
    /// charged twice; `Arc`'s two counters are added.
    pub const OVERHEAD: usize = 2 * (size_of::<Entry<V>>() + size_of::<u32>() + 1 + 4 + 8 + 2) + 16;

    pub fn new(limit: usize) -> Self {
        let empty = Queue { head: NIL, tail: NIL, bytes: 0 };
        Shard {
            map: HashTable::new(),
            entries: Vec::new(),
            vacant: Vec::new(),
            queues: [empty; 2],
            ghost: vec![0; GHOST_MIN],
            shadow: vec![0; GHOST_MIN],
            limit,
            bytes: 0,
            entered: 0,
            hits: 0,
            misses: 0,
            inserted: 0,
            evicted: 0,
            rejected: 0,
            ghost_hits: 0,
            missed_again: 0,
        }
    }

    #[inline]
    fn find(&self, key: &PageKey, hash: u64) -> Option<u32> {
        self.map.find(in_shard(hash), |at| self.entries[*at as usize].key == *key).copied()
    }

    /// Counts a use (see the module).
    #[inline]
    fn touch(&mut self, at: u32, access: Access) {
        let fresh = (self.limit / FRESH) as u64;
        let entry = &mut self.entries[at as usize];
        match access {
            Access::Point | Access::Seek => {
                let counts = self.entered - entry.born > fresh;
                entry.uses = (entry.uses + u8::from(counts)).min(MAX_USES);
                entry.scan_only = false;
            }
            // A second scan counts one use at most.
            Access::Scan if entry.scanned => entry.uses = entry.uses.max(1),
            Access::Scan => entry.scanned = true,
            Access::Merge | Access::Verify => {}
        }
    }

    #[inline]
    pub fn get(&mut self, key: &PageKey, hash: u64, access: Access) -> Option<Arc<V>> {
        let Some(at) = self.find(key, hash) else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        self.touch(at, access);
        self.entries[at as usize].value.clone()
    }

    /// Offers a page; returns what was evicted for it, to be dropped outside the mutex.
    pub fn insert(
        &mut self,
        key: PageKey,
        hash: u64,
        value: &Arc<V>,
        access: Access,
    ) -> (Outcome<V>, Vec<Arc<V>>) {
        if let Some(at) = self.find(&key, hash) {
            self.touch(at, access);
            if let Some(resident) = &self.entries[at as usize].value {
                return (Outcome::Present(Arc::clone(resident)), Vec::new());
            }
        }
        if matches!(access, Access::Merge | Access::Verify) {
            return (Outcome::Offered, Vec::new());
        }
        let charge = value.memory_bytes().saturating_add(Self::OVERHEAD);
        let scan = access == Access::Scan;
        // A page that takes most of a shard would cost more hits than it gives.
        if charge > self.limit / 2 {
            self.rejected += 1;
            return (Outcome::Offered, Vec::new());
        }
        let known = !scan && self.take_ghost(hash);
        self.leave_shadow(hash);
        self.ghost_hits += u64::from(known);
        // Main does not give way for a page of a scan that is larger than the small queue's tenth.
        let of_main = !scan || charge <= self.limit / 10;
        let gone = self.shrink_to(self.limit - charge, of_main);
        if self.bytes > self.limit - charge {
            self.rejected += 1;
            return (Outcome::Offered, gone);
        }
        self.add(key, hash, value, charge, scan, known);
        (Outcome::Offered, gone)
    }

    /// Whether a value of `bytes` fits without eviction.
    pub fn has_room(&self, bytes: usize) -> bool {
        let charge = bytes.saturating_add(Self::OVERHEAD);
        charge <= self.limit / 2 && charge <= self.limit.saturating_sub(self.bytes)
    }

    /// Adds a page that was just written, if there is room and nobody has read it yet.
    pub fn insert_new(&mut self, key: PageKey, hash: u64, value: &Arc<V>) {
        let bytes = value.memory_bytes();
        if self.has_room(bytes) && self.find(&key, hash).is_none() {
            self.add(key, hash, value, bytes + Self::OVERHEAD, true, false);
        }
    }

    /// Adds a page that is not there; the caller has made room.
    fn add(
        &mut self,
        key: PageKey,
        hash: u64,
        value: &Arc<V>,
        charge: usize,
        scan: bool,
        known: bool,
    ) {
        assert!(self.find(&key, hash).is_none(), "a page is entered once (H2)");
        self.entered += charge as u64;
        let entry = Entry {
            key,
            hash,
            value: Some(Arc::clone(value)),
            charge,
            prev: NIL,
            next: NIL,
            born: self.entered,
            queue: 0,
            uses: 0,
            scanned: scan,
            scan_only: scan,
        };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        let entries = &self.entries;
        self.map.insert_unique(in_shard(hash), at, |at| in_shard(entries[*at as usize].hash));
        self.push(at, if known { MAIN } else { SMALL });
        self.bytes += charge;
        assert!(self.bytes <= self.limit, "the caller has seen to the room (H1)");
        self.inserted += 1;
        if self.map.len() > self.ghost.len() {
            // Its hashes are lost; that is rare and costs a few misses.
            self.ghost = vec![0; self.ghost.len() * 2];
            self.shadow = vec![0; self.ghost.len()];
        }
    }

    pub fn remove(&mut self, key: &PageKey, hash: u64) -> Option<Arc<V>> {
        let at = self.forget(key, hash)?;
        self.take_out(at)
    }

    /// Takes a key out of the map.
    fn forget(&mut self, key: &PageKey, hash: u64) -> Option<u32> {
        let entries = &self.entries;
        let named = |at: &u32| entries[*at as usize].key == *key;
        Some(self.map.find_entry(in_shard(hash), named).ok()?.remove().0)
    }

    /// Drops all entries whose key `matches`.
    pub fn remove_if(&mut self, matches: impl Fn(&PageKey) -> bool) -> Vec<Arc<V>> {
        let mut found = Vec::new();
        let entries = &self.entries;
        self.map.retain(|at| {
            let matched = matches(&entries[*at as usize].key);
            if matched {
                found.push(*at);
            }
            !matched
        });
        found.into_iter().filter_map(|at| self.take_out(at)).collect()
    }

    pub fn set_limit(&mut self, limit: usize) -> Vec<Arc<V>> {
        self.limit = limit;
        self.shrink_to(limit, true)
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn add_stats(&self, sum: &mut CacheStats) {
        sum.hits += self.hits;
        sum.misses += self.misses;
        sum.inserted += self.inserted;
        sum.evicted += self.evicted;
        sum.rejected += self.rejected;
        sum.ghost_hits += self.ghost_hits;
        sum.missed_again += self.missed_again;
        sum.shadow_slots += self.shadow.len() as u64;
        sum.pages += self.map.len() as u64;
        sum.bytes += self.bytes as u64;
        sum.limit += self.limit as u64;
    }

    /// Calls `tell` with key and charge of each page in the `n` slots from slot `from` on. Returns the
    /// slot at which to go on, if there is one.
    pub fn each(
        &self,
        from: usize,
        n: usize,
        tell: &mut dyn FnMut(&PageKey, usize),
    ) -> Option<usize> {
        let slots = self.entries.get(from..).unwrap_or_default();
        let there = slots.iter().take(n).filter(|e| e.value.is_some());
        there.for_each(|e| tell(&e.key, e.charge));
        (slots.len() > n).then_some(from + n)
    }

    /// Evicts until at most `target` bytes are held; without `of_main` only what the small queue has beyond its tenth.
    fn shrink_to(&mut self, target: usize, of_main: bool) -> Vec<Arc<V>> {
        let mut gone = Vec::new();
        while self.bytes > target {
            // Ends: every turn removes an entry, takes one from small to main, or lowers a use count.
            let small = self.queues[SMALL].bytes > self.limit / 10;
            let queue = if small || self.queues[MAIN].tail == NIL { SMALL } else { MAIN };
            if queue == MAIN && !of_main {
                break;
            }
            let at = self.queues[queue].tail;
            assert!(at != NIL, "bytes are held by entries (H1)");
            let entry = &mut self.entries[at as usize];
            if queue == SMALL && entry.uses >= PROMOTE {
                entry.uses = 0;
                self.unlink(at);
                self.push(at, MAIN);
            } else if queue == MAIN && entry.uses > 0 {
                entry.uses -= 1;
                self.unlink(at);
                self.push(at, MAIN);
            } else {
                if queue == SMALL && !entry.scan_only {
                    let slot = Self::ghost_slot(entry.hash, self.ghost.len());
                    self.ghost[slot] = entry.hash;
                }
                if queue == MAIN || !entry.scan_only || entry.uses > 0 {
                    let slot = Self::ghost_slot(entry.hash, self.shadow.len());
                    self.shadow[slot] = Self::shadow_tag(entry.hash);
                }
                let (key, hash) = (entry.key, entry.hash);
                let named = self.forget(&key, hash);
                assert_eq!(named, Some(at), "the map names every entry (H2)");
                gone.extend(self.take_out(at));
                self.evicted += 1;
            }
        }
        gone
    }

    fn ghost_slot(hash: u64, slots: usize) -> usize {
        (hash >> 20).wrapping_add(hash >> 14) as usize & (slots - 1)
    }

    fn take_ghost(&mut self, hash: u64) -> bool {
        let slot = Self::ghost_slot(hash, self.ghost.len());
        let known = self.ghost[slot] == hash;
        if known {
            self.ghost[slot] = 0;
        }
        known
    }

    fn shadow_tag(hash: u64) -> u16 {
        (hash >> 6) as u16 | 1
    }

    /// A page is read from the file: counts the read if the shadow remembers the page, and forgets
    /// the page.
    fn leave_shadow(&mut self, hash: u64) {
        let slot = Self::ghost_slot(hash, self.shadow.len());
        if self.shadow[slot] == Self::shadow_tag(hash) {
            self.shadow[slot] = 0;
            self.missed_again += 1;
        }
    }

    /// Empties a slot that the map no longer names.
    fn take_out(&mut self, at: u32) -> Option<Arc<V>> {
        self.unlink(at);
        self.vacant.push(at);
        let entry = &mut self.entries[at as usize];
        assert!(self.bytes >= entry.charge, "more bytes go than are held (H1)");
        self.bytes -= entry.charge;
        entry.value.take()
    }

    fn push(&mut self, at: u32, queue: usize) {
        let head = self.queues[queue].head;
        let entry = &mut self.entries[at as usize];
        entry.queue = queue as u8;
        entry.prev = NIL;
        entry.next = head;
        let charge = entry.charge;
        match head {
            NIL => self.queues[queue].tail = at,
            head => self.entries[head as usize].prev = at,
        }
        self.queues[queue].head = at;
        self.queues[queue].bytes += charge;
    }

    fn unlink(&mut self, at: u32) {
        let entry = &self.entries[at as usize];
        let (queue, prev, next) = (entry.queue as usize, entry.prev, entry.next);
        self.queues[queue].bytes -= entry.charge;
        match prev {
            NIL => self.queues[queue].head = next,
            prev => self.entries[prev as usize].next = next,
        }
        match next {
            NIL => self.queues[queue].tail = prev,
            next => self.entries[next as usize].prev = prev,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frond_base::TableId;

    struct Bytes(usize);

    impl CacheWeight for Bytes {
        fn memory_bytes(&self) -> usize {
            self.0
        }
    }

    impl<V: CacheWeight> Shard<V> {
        /// Checks H1 and H2.
        fn verify(&self) {
            let mut seen = 0;
            let mut bytes = 0;
            for (q, queue) in self.queues.iter().enumerate() {
                let (mut at, mut prev, mut queue_bytes) = (queue.head, NIL, 0);
                while at != NIL {
                    let e = &self.entries[at as usize];
                    assert_eq!((e.prev, e.queue as usize), (prev, q));
                    assert_eq!(self.find(&e.key, e.hash), Some(at));
                    let value = e.value.as_ref().unwrap();
                    assert_eq!(e.charge, value.memory_bytes() + Self::OVERHEAD);
                    queue_bytes += e.charge;
                    seen += 1;
                    (prev, at) = (at, e.next);
                }
                assert_eq!((queue.tail, queue.bytes), (prev, queue_bytes));
                bytes += queue_bytes;
            }
            assert_eq!(seen, self.map.len());
            assert_eq!(seen + self.vacant.len(), self.entries.len());
            assert_eq!(bytes, self.bytes);
            assert!(self.bytes <= self.limit);
        }
    }

    #[test]
    fn queues_map_and_bytes_agree_under_random_operations() {
        let mut n = 1u64;
        let mut below = |k: u64| {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (n >> 33) % k
        };
        let mut shard = Shard::new(60_000);
        for step in 0..40_000 {
            let key = PageKey {
                table: TableId(below(3) as u32),
                block: below(5),
                page: below(40) as u32,
            };
            let access = [Access::Point, Access::Scan, Access::Merge][below(3) as usize];
            match below(20) {
                0..=8 => {
                    let value = Arc::new(Bytes(1 + below(3_000) as usize));
                    match below(4) {
                        0 => shard.insert_new(key, key.hash(), &value),
                        _ => drop(shard.insert(key, key.hash(), &value, access)),
                    }
                }
                9..=16 => drop(shard.get(&key, key.hash(), access)),
                17 | 18 => drop(shard.remove(&key, key.hash())),
                _ if below(50) == 0 => drop(shard.remove_if(|k| k.table == key.table)),
                _ if below(50) == 0 => drop(shard.set_limit(5_000 + below(80_000) as usize)),
                _ => {}
            }
            if step % 8 == 0 {
                shard.verify();
            }
        }
        assert!(shard.evicted > 1_000 && shard.ghost_hits > 100);
        shard.set_limit(0);
        shard.verify();
        assert_eq!(shard.len(), 0);
    }
}
