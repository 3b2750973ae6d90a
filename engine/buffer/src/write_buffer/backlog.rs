//! The backlog: entries of a shelf in the order in which they arrived. When readers had to search
//! them often, they are sorted into *parts*, whose sizes grow geometrically.

use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use frond_base::{EntryRef, Seq};

use crate::write_buffer::head_prefix::HeadPrefix;
use crate::write_buffer::part::Part;
use crate::write_buffer::record::{record_bytes, Arena, Source};

/// A reader searches up to this many unsorted entries in any case.
const SHORT: usize = 512;
/// A reader searches up to this many if few readers did before. Sorting an entry costs as much as
/// looking at it 25 times.
const LONG: usize = 8 << 10;
const LOOKS: usize = 16;
/// Entries of a block: before each block the newest sequence so far is noted.
const BLOCK: usize = 16;
/// Entries that a backlog first has room for.
const FEW: usize = 2;
/// A part is at least this many times as large as the next one.
const GROWTH: usize = 8;

#[derive(Default)]
pub(crate) struct Backlog {
    heads: Vec<u64>,
    places: Vec<u32>,
    arena: Arena,
    /// The newest sequence that the shelf was given, and its value before each block of [`BLOCK`] entries.
    newest: Seq,
    newest_before: Vec<Seq>,
    /// The first `indexed` entries are in `parts`.
    indexed: usize,
    parts: Vec<Part>,
    parts_memory: usize,
    /// Entries that readers have looked at since the last sorting.
    looked: AtomicUsize,
}

impl Backlog {
    /// A backlog that follows `earlier`: it begins with the newest sequence that `earlier` knows.
    pub fn after(earlier: &Backlog) -> Backlog {
        Backlog { newest: earlier.newest, ..Backlog::default() }
    }

    pub fn len(&self) -> usize {
        self.heads.len()
    }

    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub fn memory(&self) -> usize {
        self.heads.capacity() * 8
            + self.places.capacity() * 4
            + self.newest_before.capacity() * 8
            + self.arena.memory()
            + self.parts_memory
    }

    /// Bytes of records.
    pub fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Reads the ends of the lists, behind which [`Backlog::push`] writes.
    #[inline]
    pub fn fetch_ends(&self) -> u64 {
        let (head, place) = (self.heads.last(), self.places.last());
        head.map_or(0, |h| *h) ^ u64::from(place.map_or(0, |p| *p)) ^ self.arena.fetch_end()
    }

    #[inline]
    pub fn push(&mut self, head: u64, e: &EntryRef<'_>, about: usize) {
        let place = self.arena.push(e, about);
        self.add(head, e.seq, place);
    }

    /// Adds a large entry with its record.
    pub fn push_alone(&mut self, head: u64, seq: Seq, record: Arc<[u8]>) {
        let place = self.arena.push_alone(record);
        self.add(head, seq, place);
    }

    #[inline]
    fn add(&mut self, head: u64, seq: Seq, place: u32) {
        if self.heads.len().is_multiple_of(BLOCK) {
            self.begin_block();
        }
        self.newest = self.newest.max(seq);
        self.places.push(place);
        self.heads.push(head);
    }

    fn begin_block(&mut self) {
        if self.heads.capacity() == 0 {
            // Most buffers of a large schema have an entry or two, and a list would begin with room for four.
            self.heads.reserve_exact(FEW);
            self.places.reserve_exact(FEW);
            self.newest_before.reserve_exact(1);
        }
        self.newest_before.push(self.newest);
    }

    /// Number of unsorted entries: those that are in no part.
    pub fn unsorted(&self) -> usize {
        self.heads.len() - self.indexed
    }

    /// Whether a reader should search the unsorted entries; otherwise it sorts them first.
    #[inline]
    pub fn may_look(&self) -> bool {
        let unsorted = self.unsorted();
        unsorted <= SHORT
            || (unsorted <= LONG && self.looked.fetch_add(unsorted, Relaxed) < LOOKS * unsorted)
    }

    /// Sorts the unsorted entries into a part.
    pub fn index(&mut self) {
        if self.unsorted() == 0 {
            return;
        }
        let mut part = self.unsorted_part();
        while self.parts.last().is_some_and(|p| p.len() < GROWTH * part.len()) {
            if let Some(earlier) = self.parts.pop() {
                part = earlier.merge(&part, &self.arena);
            }
        }
        self.parts.push(part);
        self.parts_memory = self.parts.iter().map(Part::memory).sum();
        self.indexed = self.heads.len();
        *self.looked.get_mut() = 0;
    }

    fn unsorted_part(&self) -> Part {
        Part::sort(&self.heads[self.indexed..], &self.places[self.indexed..], &self.arena)
    }

    /// All entries in order; uses up the parts.
    pub fn sort(&mut self) -> Part {
        let mut part = self.unsorted_part();
        while let Some(earlier) = self.parts.pop() {
            part = earlier.merge(&part, &self.arena);
        }
        part
    }

    /// Forgets all entries and keeps memory.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.places.clear();
        self.newest_before.clear();
        self.arena.clear();
        self.indexed = 0;
        self.parts = Vec::new();
        self.parts_memory = 0;
        *self.looked.get_mut() = 0;
    }

    /// Calls `take` on all entries in the order in which they arrived, with the records of large ones.
    pub fn for_each(&self, mut take: impl FnMut(EntryRef<'_>, Option<&Arc<[u8]>>)) {
        for place in &self.places {
            take(self.arena.entry(*place), self.arena.alone(*place));
        }
    }

    /// Computes all heads again.
    pub fn see_through(&mut self, head_prefix: &HeadPrefix) {
        for (head, place) in self.heads.iter_mut().zip(&self.places) {
            *head = head_prefix.head(self.arena.entry(*place).key);
        }
        for part in &mut self.parts {
            *part = std::mem::take(part).seen_through(head_prefix, &self.arena);
        }
    }

    /// The newest version of `key` at or before `at` among the unsorted entries, and whether
    /// nothing else in the shelf can be newer. Of equal sequences the last to arrive wins. The
    /// search goes from the last entry to the first, because a row that is changed often has many
    /// versions here.
    #[inline]
    pub fn find_unsorted<'a>(
        &'a self,
        head: u64,
        key: &[u8],
        at: Seq,
    ) -> (Option<EntryRef<'a>>, bool) {
        let from = self.indexed;
        let unsorted = self.heads[from..].chunks(BLOCK).zip(self.places[from..].chunks(BLOCK));
        let mut best: Option<EntryRef<'a>> = None;
        for (i, (heads, places)) in unsorted.enumerate().rev() {
            // One branch for all heads of a block instead of one for each.
            if heads.iter().fold(false, |any, h| any | (*h == head)) {
                for (_, place) in heads.iter().zip(places).rev().filter(|(h, _)| **h == head) {
                    let e = self.arena.entry(*place);
                    if e.key == key && e.seq <= at && best.is_none_or(|b| b.seq < e.seq) {
                        best = Some(e);
                    }
                }
            }
            if let Some(best) = best {
                // The newest sequence before a position in this block: the first one for which it
                // is noted.
                let before = self.newest_before.get((from + i * BLOCK).div_ceil(BLOCK));
                if best.seq >= *before.unwrap_or(&self.newest) {
                    return (Some(best), true);
                }
            }
        }
        (best, false)
    }

    /// Heads and places of the unsorted entries that have heads from `first` to `last`.
    pub fn unsorted_between(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, u32)> + '_ {
        let width = last.wrapping_sub(first);
        let near = move |h: &u64| h.wrapping_sub(first) <= width;
        let from = self.indexed;
        let unsorted = self.heads[from..].chunks(16).zip(self.places[from..].chunks(16));
        // One branch for all heads of a block instead of one for each.
        unsorted
            .filter(move |(heads, _)| {
                first <= last && heads.iter().fold(false, |any, h| any | near(h))
            })
            .flat_map(|(heads, places)| heads.iter().copied().zip(places.iter().copied()))
            .filter(move |(h, _)| near(h))
    }

    /// Places of at most `most` unsorted entries with heads from `first` to `last`, and how many
    /// such entries there are. The places are a fair sample, because entries arrive in no order.
    fn some_between(
        &self,
        first: u64,
        last: u64,
        most: usize,
    ) -> (impl Iterator<Item = u32> + '_, usize) {
        let all = match self.unsorted() > most {
            true => self.unsorted_between(first, last).count(),
            false => self.unsorted(),
        };
        let step = all.div_ceil(most).max(1);
        (self.unsorted_between(first, last).step_by(step).map(|(_, place)| place), all)
    }

    /// Number and bytes of the unsorted entries of a range. An estimate if more than `most` have
    /// heads that may be in the range.
    pub fn weigh_unsorted(
        &self,
        lo: Bound<&[u8]>,
        hi: Bound<&[u8]>,
        heads: (u64, u64),
        most: usize,
    ) -> (u64, u64) {
        let (places, all) = self.some_between(heads.0, heads.1, most);
        let (mut looked, mut entries, mut bytes) = (0u64, 0, 0);
        for place in places {
            looked += 1;
            let e = self.arena.entry(place);
            if (lo, hi).contains(e.key) {
                entries += 1;
                bytes += record_bytes(&e) as u64;
            }
        }
        if all <= most {
            return (entries, bytes);
        }
        let scaled = |n: u64| n * all as u64 / looked.max(1);
        (scaled(entries), scaled(bytes))
    }

    /// Calls `f` with the key of every `step`th unsorted entry, and the number of entries for which
    /// it stands.
    pub fn sample_unsorted(&self, step: usize, f: &mut dyn FnMut(&[u8], u64)) {
        for few in self.places[self.indexed..].chunks(step) {
            f(self.arena.entry(few[0]).key, few.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use frond_base::EntryKind;

    use super::*;

    #[test]
    fn an_estimate_looks_at_few_of_many_entries_in_no_order() {
        let mut log = Backlog::default();
        let mut number = 1u64;
        for seq in 1..=20_000u64 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // One head for all keys: only the keys differ.
            let key = [&b"12345678"[..], &number.to_be_bytes()].concat();
            let e = EntryRef { key: &key, seq, kind: EntryKind::Put, value: b"v" };
            log.push(frond_base::key_head(&key), &e, 0);
        }
        let head = frond_base::key_head(b"12345678");
        let (some, all) = log.some_between(head, head, 256);
        let looked = some.count();
        assert!((200..=256).contains(&looked) && all == 20_000, "{looked} of {all}");
        assert_eq!(log.some_between(0, head - 1, 256).0.count(), 0);
        let quarter = (Bound::Unbounded, Bound::Excluded(&b"12345678\x40"[..]));
        let weigh = |most| log.weigh_unsorted(quarter.0, quarter.1, (head, head), most);
        let exact = weigh(usize::MAX);
        assert!((4_500..5_500).contains(&exact.0), "{exact:?}");
        let about = weigh(256);
        assert!((3_000..7_500).contains(&about.0), "{about:?}");
        assert!(about.1 / about.0 == exact.1 / exact.0, "{about:?} {exact:?}");
    }
}
