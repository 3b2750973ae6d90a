//! Estimates from metadata in memory: fences and counts, no page is read (but for a run whose
//! fences were never loaded). Subtrees within the range are counted by their totals, so an estimate
//! costs the fan-out times the height of the trunk.

use std::ops::Bound;

use frond_buffer::WriteBuffer;

use crate::node::{Body, Node};
use crate::slice::{scale, Counts, Key, Range, Slice};
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

impl Tree {
    /// Estimated number of entries with keys in `[lo, hi)`; `None` is open. Runs contribute the
    /// share of their pages that the range covers, buffers their own estimate.
    pub fn estimate(&self, lo: Option<&[u8]>, hi: Option<&[u8]>) -> u64 {
        let view = self.inner.view.load();
        let range = Range { lo: lo.map(Into::into), hi: hi.map(Into::into) };
        let mut held = Held::default();
        held.subtree(&view.trunk.root, &Range::all(), &range);
        let bounds = (lo.map_or(Bound::Unbounded, Bound::Included), hi);
        let upper = bounds.1.map_or(Bound::Unbounded, Bound::Excluded);
        let mut buffered = view.active.buffer.weight(bounds.0, upper).entries;
        for item in &view.frozen {
            match &item.content {
                Content::Buffer(buffer) => buffered += buffer.weight(bounds.0, upper).entries,
                Content::Runs(lists) => held.slices(lists.iter().flat_map(|l| l.iter()), &range),
            }
        }
        held.live().saturating_add(buffered)
    }

    /// Up to `n` different keys, ascending, one in each of `n` parts with about equally many entries.
    /// The same for the same runs and buffers in order. Entries need not have these keys. Reads
    /// no pages, and the indexes of fewer than 4 `n` runs: the heaviest.
    pub fn spread(&self, n: usize) -> Vec<Vec<u8>> {
        assert!(n > 0, "no keys to spread");
        let view = self.inner.view.load();
        let mut marks = Marks::default();
        let mut attached: Vec<&Slice> = Vec::new();
        marks.buffer(&view.active.buffer);
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
        for part in slices.filter_map(|s| s.clip(range)) {
            self.counts.add(part.counts);
            self.any = true;
        }
    }

    /// Entries that a reader would see: each tombstone hides one other entry.
    fn live(&self) -> u64 {
        let hidden = self.counts.tombstones.saturating_mul(2);
        self.counts.entries.saturating_sub(hidden).max(u64::from(self.any))
    }
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
