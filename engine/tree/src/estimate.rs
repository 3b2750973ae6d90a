//! Estimates from what is in memory: fences, counts, and pages that are cached; nothing is read, except the
//! fences of a run that were never loaded. Subtrees within the range are counted by their totals, so an estimate
//! costs the fan-out times the height of the trunk.

use std::ops::Bound;

use frond_buffer::WriteBuffer;
use frond_run::Reader;

use crate::node::{Body, Node};
use crate::slice::{scale, Counts, Key, Range, Slice};
use crate::store::TrunkRun;
use crate::totals::Totals;
use crate::tree::Tree;
use crate::trunk::first_key;
use crate::view::Content;

/// 2^16 divided by the golden ratio: multiples of it, modulo 2^16, are spread evenly however many there are.
const GOLDEN: u16 = 40_503;
const HALF: u16 = 1 << 15;
/// Approximate number of marks within one buffer.
const BUFFER_MARKS: usize = 4096;
/// Marks for each part, within slices of more entries than one part.
const MARKS_PER_PART: u64 = 4;
/// Parts of a page that estimates tell apart.
const PAGE: u64 = 1 << 16;

impl Tree {
    /// Estimated number of entries with keys in `[lo, hi)`; `None` is open. Runs contribute the
    /// share of their pages that the range covers, down to parts of a page, buffers their own estimate.
    pub fn estimate(&self, lo: Option<&[u8]>, hi: Option<&[u8]>) -> u64 {
        let view = self.inner.view.load();
        let range = Range { lo: lo.map(Into::into), hi: hi.map(Into::into) };
        let mut held = Held::default();
        held.subtree(&view.trunk.root, &Range::all(), &range);
        let bounds = (lo.map_or(Bound::Unbounded, Bound::Included), hi);
        let upper = bounds.1.map_or(Bound::Unbounded, Bound::Excluded);
        let mut buffered = view.active.weight(bounds.0, upper).entries;
        for item in &view.frozen {
            match &item.content {
                Content::Buffer(buffer) => buffered += buffer.weight(bounds.0, upper).entries,
                Content::Runs(lists) => held.slices(lists.iter().flat_map(|l| l.iter()), &range),
            }
        }
        held.live().saturating_add(buffered)
    }

    /// Up to `n` different keys, ascending, one in each of `n` parts with about equally many entries.
    /// The result depends only on the runs and the buffers, if these are sorted. Entries need not
    /// have these keys. Reads no pages, and the indexes of fewer than 4 `n` runs, which are the
    /// heaviest.
    pub fn spread(&self, n: usize) -> Vec<Vec<u8>> {
        assert!(n > 0, "no keys to spread");
        let view = self.inner.view.load();
        let mut marks = Marks::default();
        let mut attached: Vec<&Slice> = Vec::new();
        marks.buffer(&view.active);
        for item in &view.frozen {
            match &item.content {
                Content::Buffer(buffer) => marks.buffer(buffer),
                Content::Runs(lists) => attached.extend(lists.iter().flat_map(|l| l.iter())),
            }
        }
        let mut stored = view.trunk.sums.totals.counts;
        attached.iter().for_each(|s| stored.add(s.counts));
        let piece = (stored.entries / (MARKS_PER_PART * n as u64)).max(1);
        marks.subtree(&view.trunk.root, piece);
        attached.iter().for_each(|slice| marks.slice(slice, piece));
        marks.spread(n)
    }
}

/// The entries of the trunk in a range.
#[derive(Default)]
struct Held {
    counts: Counts,
    /// There are entries, though less than a page of each run.
    any: bool,
}

impl Held {
    /// Adds the entries of `node` and all below it in `range`; the node covers `own`.
    fn subtree(&mut self, node: &Node, own: &Range, range: &Range) {
        let inner = match &node.body {
            Body::Leaf(leaf) => return self.slices(leaf.slices(), range),
            Body::Inner(inner) => inner,
        };
        let last = range.hi.as_ref().map_or(inner.children.len() - 1, |hi| inner.child_for(hi));
        for i in inner.child_for(range.lo_bytes())..=last {
            let (child, child_range) = (&inner.children[i], inner.range(i, own));
            if range.covers(&child_range) {
                self.all(child.pending.totals());
                self.all(&child.below.totals);
            } else {
                self.slices(child.pending.iter(), range);
                self.subtree(&child.node, &child_range, range);
            }
        }
    }

    fn all(&mut self, totals: &Totals) {
        self.counts.add(totals.counts);
        self.any |= totals.slices > 0;
    }

    fn slices<'a>(&mut self, slices: impl Iterator<Item = &'a Slice>, range: &Range) {
        for counts in slices.filter_map(|s| counts_in(s, range)) {
            self.counts.add(counts);
            self.any = true;
        }
    }

    /// Entries that a reader would see: each tombstone hides one other entry.
    fn live(&self) -> u64 {
        let hidden = self.counts.tombstones.saturating_mul(2);
        self.counts.entries.saturating_sub(hidden).max(u64::from(self.any))
    }
}

/// Estimated counts of a slice in `range`, to parts of a page. [`Slice::counts_in`] counts whole pages, because the
/// counts that slices keep must add up (SI2). For an optimizer a page of 2000 index entries is too coarse.
fn counts_in(slice: &Slice, range: &Range) -> Option<Counts> {
    if !slice.in_range(range) {
        return None;
    }
    let lo = range.lo.as_deref().filter(|lo| *lo > slice.first());
    let hi = range.hi.as_deref().filter(|hi| !slice.ends_before(hi));
    if lo.is_none() && hi.is_none() {
        return Some(slice.counts);
    }
    let (run, meta) = (&slice.run, slice.run.meta());
    let whole = u64::from(meta.pages) * PAGE;
    let (lo, hi) = (lo.or(slice.lo.as_deref()), hi.or(slice.hi.as_deref()));
    let (from, upto) = places_in_one_page(run, lo, hi).unwrap_or_else(|| {
        let place = |key| place(run, key);
        (lo.and_then(place).unwrap_or(0), hi.and_then(place).unwrap_or(whole))
    });
    let cut = |total: u64| scale(total, upto, whole).saturating_sub(scale(total, from, whole));
    Some(Counts {
        bytes: cut(meta.bytes),
        entries: cut(meta.entries),
        tombstones: cut(meta.tombstones),
    })
}

/// As [`place`] of both keys; `None` unless both are in one page that is in memory, as most short ranges are.
fn places_in_one_page(run: &TrunkRun, lo: Option<&[u8]>, hi: Option<&[u8]>) -> Option<(u64, u64)> {
    let (lo, hi, index) = (lo?, hi?, run.index().ok()?);
    let number = index.page_for_seek(lo);
    if number + 1 < index.pages() && *index.fence(number + 1) <= *hi {
        return None;
    }
    let page = run.page_in_memory(number)?;
    let mut reader = Reader::new(&*page);
    let from = reader.lower_bound(lo, 0);
    let upto = reader.lower_bound(hi, from);
    let place = |at: usize| u64::from(number) * PAGE + scale(PAGE, at as u64, page.len() as u64);
    Some((place(from), place(upto)))
}

/// Where a key is in a run, in parts of a page: exactly if the page is in memory. `None`: the fences cannot be read.
fn place(run: &TrunkRun, key: &[u8]) -> Option<u64> {
    let index = run.index().ok()?;
    let page = index.page_for_seek(key);
    let within = match run.page_in_memory(page) {
        Some(held) if !held.is_empty() => {
            scale(PAGE, held.lower_bound(key) as u64, held.len() as u64)
        }
        _ if page + 1 < index.pages() => part(&index.fence(page), key, &index.fence(page + 1)),
        _ => part(&index.fence(page), key, &run.meta().max_key),
    };
    Some(u64::from(page) * PAGE + within)
}

/// Which part of a page from `first` up to `next` is below `key`, as if keys were numbers and spread evenly. Never less for
/// a larger key.
fn part(first: &[u8], key: &[u8], next: &[u8]) -> u64 {
    if key <= first {
        return 0;
    }
    if key >= next {
        return PAGE;
    }
    let shared = first.iter().zip(next).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let digits = key[shared.min(key.len())..].iter().copied().chain(std::iter::repeat(0));
        digits.take(8).fold(0u64, |n, byte| (n << 8) | u64::from(byte))
    };
    let (least, most) = (number(first), number(next));
    scale(PAGE, number(key).saturating_sub(least), most.saturating_sub(least)).min(PAGE)
}

/// Keys with the number of entries that each stands for.
#[derive(Default)]
struct Marks(Vec<(Key, u64)>);

impl Marks {
    fn buffer(&mut self, buffer: &WriteBuffer) {
        buffer.sample(BUFFER_MARKS, &mut |key, entries| self.add(key, entries));
    }

    fn add(&mut self, key: &[u8], entries: u64) {
        if entries > 0 {
            self.0.push((key.into(), entries));
        }
    }

    /// Marks of a node and all below it: one for each part of the trunk with at most `piece`
    /// entries.
    fn subtree(&mut self, node: &Node, piece: u64) {
        let inner = match &node.body {
            Body::Leaf(leaf) => return leaf.slices().for_each(|slice| self.slice(slice, piece)),
            Body::Inner(inner) => inner,
        };
        for child in &inner.children {
            let mut held = child.pending.totals().counts;
            held.add(child.below.totals.counts);
            let first =
                if held.entries <= piece { first_key(&child.node, Some(child)) } else { None };
            match first {
                Some(first) => self.add(first, held.entries),
                None => {
                    child.pending.iter().for_each(|slice| self.slice(slice, piece));
                    self.subtree(&child.node, piece);
                }
            }
        }
    }

    /// Marks of a slice, so that none stands for more than `piece` entries or a page.
    fn slice(&mut self, slice: &Slice, piece: u64) {
        let entries = slice.counts.entries;
        let index = if entries > piece { slice.run.index().ok() } else { None };
        let Some(index) = index else { return self.add(slice.first(), entries) };
        let from = index.page_for_seek(slice.first());
        let upto = slice.hi.as_ref().map_or(index.pages(), |hi| index.page_for_seek(hi) + 1);
        let pages = u64::from(upto.saturating_sub(from)).max(1);
        let marks = pages.min(entries.div_ceil(piece));
        for i in 0..marks {
            let page = from + u32::try_from(pages * i / marks).unwrap_or(0);
            let first = index.fence(page);
            self.add(
                (&*first).max(slice.first()),
                scale(entries, i + 1, marks) - scale(entries, i, marks),
            );
        }
    }

    fn spread(mut self, n: usize) -> Vec<Vec<u8>> {
        self.0.sort_unstable();
        let total: u64 = self.0.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n));
        let mut keys: Vec<Vec<u8>> = Vec::with_capacity(n);
        // One in each of `n` equal parts, at varying places, because data may be periodic.
        let due = |part: usize| {
            let within = (part as u16).wrapping_mul(GOLDEN) ^ HALF;
            let place = ((part as u128) << 16) + u128::from(within);
            (u128::from(total) * place / (n as u128)) >> 16
        };
        let (mut before, mut taken) = (0u128, 0);
        for (key, entries) in &self.0 {
            before += u128::from(*entries);
            let first = taken;
            // A mark with the weight of several parts is one key.
            while taken < n && due(taken) < before {
                taken += 1;
            }
            if taken > first && keys.last().is_none_or(|last| last[..] < **key) {
                keys.push(key.to_vec());
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lie_within_a_page_as_numbers_do() {
        let part = |first: &str, key: &str, next: &str| {
            super::part(first.as_bytes(), key.as_bytes(), next.as_bytes()) as f64 / PAGE as f64
        };
        assert_eq!(part("ab", "ab", "ad"), 0.0);
        assert_eq!(part("ab", "aa", "ad"), 0.0);
        assert_eq!(part("ab", "ac", "ad"), 0.5);
        assert_eq!(part("ab", "ad", "ad"), 1.0);
        assert_eq!(part("ab", "b", "ad"), 1.0);
        assert!((part("ab", "ac\u{7f}", "ad") - 0.75).abs() < 0.01);
        // Fences that begin with each other, and a key that ends before they differ.
        assert_eq!(part("a", "a\0", "a\0\0"), 0.0);
        assert_eq!(part("a", "a\0\u{1}", "a\0\u{2}"), 0.5);
    }

    #[test]
    fn a_larger_key_is_never_estimated_to_lie_before() {
        let (first, next) = (300u32.to_be_bytes(), 70_000u32.to_be_bytes());
        let parts: Vec<u64> =
            (0..80_000u32).map(|k| part(&first, &k.to_be_bytes(), &next)).collect();
        assert!(parts.is_sorted());
        assert_eq!((parts[300], parts[70_000]), (0, PAGE));
        assert!(parts[35_150].abs_diff(PAGE / 2) < 2);
    }
}
