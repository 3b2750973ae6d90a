//! A part: entries in order, as heads and places. The records lie where they were first written.

use std::cmp::Ordering;
use std::ops::Bound;

use frond_base::{EntryRef, Seq, SEQ_MAX};

use crate::fence::order;
use crate::write_buffer::head_prefix::HeadPrefix;
use crate::write_buffer::record::{self, Source};

/// Entries between two heads in `tops`.
const BLOCK: usize = 64;

/// Belongs to one [`Source`] of records and one [`HeadPrefix`], which its functions are given. (key,
/// sequence) is unique.
#[derive(Clone, Default)]
pub(crate) struct Part {
    pub heads: Vec<u64>,
    pub places: Vec<u32>,
    /// Every [`BLOCK`]th head, and every [`BLOCK`]th of those, so that a search touches few cache lines.
    tops: Vec<u64>,
    summits: Vec<u64>,
}

impl Part {
    pub fn with_capacity(n: usize) -> Part {
        Part { heads: Vec::with_capacity(n), places: Vec::with_capacity(n), ..Part::default() }
    }

    /// Call this when heads and places are complete.
    pub fn finish(mut self) -> Part {
        self.tops = self.heads.iter().step_by(BLOCK).copied().collect();
        self.summits = self.tops.iter().step_by(BLOCK).copied().collect();
        self
    }

    /// The same entries with other heads.
    pub fn seen_through<S: Source + ?Sized>(self, head_prefix: &HeadPrefix, source: &S) -> Part {
        let heads = self.places.iter().map(|p| head_prefix.head(source.entry(*p).key)).collect();
        Part { heads, places: self.places, ..Part::default() }.finish()
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn memory(&self) -> usize {
        (self.heads.capacity() + self.tops.capacity() + self.summits.capacity()) * 8
            + self.places.capacity() * 4
    }

    #[inline]
    pub fn entry<'a, S: Source + ?Sized>(&self, i: usize, source: &'a S) -> EntryRef<'a> {
        source.entry(self.places[i])
    }

    /// Prefetches the records of some entries.
    pub fn touch<S: Source + ?Sized>(&self, from: usize, to: usize, source: &S) {
        let to = to.min(self.len());
        record::touch(&self.places[from.min(to)..to], source);
    }

    /// The number of heads below `head`.
    #[inline]
    fn heads_below(&self, head: u64) -> usize {
        let top = self.summits.partition_point(|h| *h < head).saturating_sub(1) * BLOCK;
        let block = below(&self.tops, top, head).saturating_sub(1) * BLOCK;
        below(&self.heads, block, head)
    }

    /// The number of entries before (`key`, `seq`).
    #[inline]
    pub fn lower<S: Source + ?Sized>(
        &self,
        key: &[u8],
        seq: Seq,
        head_prefix: &HeadPrefix,
        source: &S,
    ) -> usize {
        let head = head_prefix.head(key);
        let i = self.heads_below(head);
        match self.heads.get(i) {
            Some(h) if *h == head => self.lower_among_tied(i, head, key, seq, source),
            _ => i,
        }
    }

    fn lower_among_tied<S: Source + ?Sized>(
        &self,
        i: usize,
        head: u64,
        key: &[u8],
        seq: Seq,
        source: &S,
    ) -> usize {
        let tied = self.heads[i..].partition_point(|h| *h == head);
        let before = |place: &u32| {
            let e = source.entry(*place);
            order(e.key, e.seq, key, seq) == Ordering::Less
        };
        i + self.places[i..i + tied].partition_point(before)
    }

    /// The number of entries before the range that begins at `from`.
    pub fn lower_bound<S: Source + ?Sized>(
        &self,
        from: Bound<&[u8]>,
        head_prefix: &HeadPrefix,
        source: &S,
    ) -> usize {
        match from {
            Bound::Unbounded => 0,
            Bound::Included(k) => self.lower(k, SEQ_MAX, head_prefix, source),
            // Sequence 0 sorts last of a key.
            Bound::Excluded(k) => {
                let i = self.lower(k, 0, head_prefix, source);
                let step = i < self.len() && self.entry(i, source).key == k;
                i + usize::from(step)
            }
        }
    }

    /// The number of entries up to the last one of the range that ends at `to`.
    pub fn upper_bound<S: Source + ?Sized>(
        &self,
        to: Bound<&[u8]>,
        head_prefix: &HeadPrefix,
        source: &S,
    ) -> usize {
        match to {
            Bound::Unbounded => self.len(),
            Bound::Included(k) => self.lower_bound(Bound::Excluded(k), head_prefix, source),
            Bound::Excluded(k) => self.lower_bound(Bound::Included(k), head_prefix, source),
        }
    }

    /// The newest version of `key` at or before `at`.
    #[inline]
    pub fn find<'a, S: Source + ?Sized>(
        &self,
        key: &[u8],
        at: Seq,
        head_prefix: &HeadPrefix,
        source: &'a S,
    ) -> Option<EntryRef<'a>> {
        let head = head_prefix.head(key);
        let mut i = self.heads_below(head);
        if *self.heads.get(i)? != head {
            return None;
        }
        let mut e = self.entry(i, source);
        if order(e.key, e.seq, key, at) == Ordering::Less {
            i = self.lower_among_tied(i, head, key, at, source);
            if i == self.len() {
                return None;
            }
            e = self.entry(i, source);
        }
        (e.key == key).then_some(e)
    }

    /// The first `at` entries, and the others.
    pub fn split(&self, at: usize) -> (Part, Part) {
        let part = |heads: &[u64], places: &[u32]| {
            Part { heads: heads.into(), places: places.into(), ..Part::default() }.finish()
        };
        let (left, right) = (self.heads.split_at(at), self.places.split_at(at));
        (part(left.0, right.0), part(left.1, right.1))
    }
}

/// The number of elements below `head`, which are at most [`BLOCK`] more than `from`.
#[inline]
fn below(heads: &[u64], from: usize, head: u64) -> usize {
    let some = &heads[from..heads.len().min(from + BLOCK)];
    // A binary search waits for memory at every step; prefetching all lines waits once.
    std::hint::black_box(some.iter().step_by(8).fold(0u64, |sum, h| sum.wrapping_add(*h)));
    from + some.partition_point(|h| *h < head)
}

#[cfg(test)]
pub(crate) mod tests {
    use frond_base::EntryKind;

    use super::*;
    use crate::write_buffer::record::Arena;

    pub fn push(arena: &mut Arena, key: &[u8], seq: Seq, value: &[u8]) -> u32 {
        arena.push(&EntryRef { key, seq, kind: EntryKind::Put, value }, 0)
    }

    pub fn list(part: &Part, source: &Arena) -> Vec<(Vec<u8>, Seq, Vec<u8>)> {
        let own = |e: EntryRef<'_>| (e.key.to_vec(), e.seq, e.value.to_vec());
        (0..part.len()).map(|i| own(part.entry(i, source))).collect()
    }

    /// A part of `keys` with their sequences, all heads equal if `blunt`.
    pub fn part_of(arena: &mut Arena, keys: &[(u16, Seq)], value: &[u8], blunt: bool) -> Part {
        let (mut heads, mut places) = (Vec::new(), Vec::new());
        for (key, seq) in keys {
            let key = key.to_be_bytes();
            places.push(push(arena, &key, *seq, value));
            heads.push(if blunt { 0 } else { HeadPrefix::default().head(&key) });
        }
        Part::sort(&heads, &places, arena)
    }

    #[test]
    fn a_search_finds_every_place_over_block_borders_and_equal_heads() {
        let keys: Vec<(u16, Seq)> = (0..9000).map(|i| (i / 3 * 2, 10 - u64::from(i % 3))).collect();
        for blunt in [false, true] {
            let mut records = Arena::default();
            let part = part_of(&mut records, &keys, b"", blunt);
            // A blunt head_prefix: a prefix that no key has.
            let head_prefix =
                if blunt { HeadPrefix::new(&[0xff; 4]) } else { HeadPrefix::default() };
            for key in (0..40).chain((40..5960).step_by(7)).chain(5960..6010u16) {
                for seq in 7..12 {
                    let before = keys
                        .iter()
                        .filter(|(k, s)| (*k, u64::MAX - s) < (key, u64::MAX - seq))
                        .count();
                    let key = key.to_be_bytes();
                    assert_eq!(part.lower(&key, seq, &head_prefix, &records), before);
                    let found = part.find(&key, seq, &head_prefix, &records).map(|e| e.seq);
                    let here = keys.get(before).filter(|(k, _)| k.to_be_bytes() == key);
                    assert_eq!(found, here.map(|(_, s)| *s));
                }
            }
        }
    }
}
