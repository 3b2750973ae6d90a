//! The chunk: up to [`CHUNK_LEAVES`] leaves in order, between two fences. A leaf that loses its
//! last entry is removed and a neighbour takes its range, so only a single leaf may be empty.

use frond_base::{EntryRef, Seq};

use crate::fence::{head_after, order, shared_bytes, Fence};
use crate::write_set::leaf::{Few, Leaf};
use crate::MAX_KEY;

/// Leaves of a chunk.
pub(crate) const CHUNK_LEAVES: usize = 64;

pub(crate) struct Chunk {
    /// Heads of `fences` after `skip` bytes; all ones beyond them.
    heads: [u64; CHUNK_LEAVES],
    skip: usize,
    /// `fences[0]` is the chunk's own low fence.
    fences: Vec<Fence>,
    #[allow(clippy::vec_box)] // splits move leaves, and a leaf is over a kilobyte
    leaves: Vec<Box<Leaf>>,
    hi: Option<Fence>,
    /// Head of the whole high fence: for most keys, comparing heads suffices to see that they are
    /// below the fence.
    hi_head: u64,
    entries: usize,
    memory: usize,
    max_seq: Seq,
    /// The last leaf split made an empty leaf at the right end.
    grew_right: bool,
}

/// An entry of a chunk, or the end (`slot` past the last leaf's last entry).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub leaf: usize,
    pub slot: usize,
}

impl Chunk {
    /// A chunk for all keys, with the entries of `few`, which is empty then.
    pub fn of_few(few: &mut Few) -> Chunk {
        Chunk::of(vec![Fence::leftmost()], vec![Box::new(few.grow())], None)
    }

    #[allow(clippy::vec_box)]
    fn of(fences: Vec<Fence>, leaves: Vec<Box<Leaf>>, hi: Option<Fence>) -> Chunk {
        let mut c = Chunk {
            heads: [u64::MAX; CHUNK_LEAVES],
            skip: 0,
            entries: leaves.iter().map(|l| l.len()).sum(),
            memory: 0,
            max_seq: leaves.iter().map(|l| l.max_seq()).max().unwrap_or(0),
            fences,
            leaves,
            hi,
            hi_head: 0,
            grew_right: false,
        };
        c.refresh();
        c
    }

    /// Recomputes heads and memory after the fences changed.
    fn refresh(&mut self) {
        self.skip = shared_bytes(&self.fences[0], self.hi.as_ref());
        self.hi_head = self.hi.as_ref().map_or(0, |hi| head_after(&hi.key, 0));
        self.heads = [u64::MAX; CHUNK_LEAVES];
        for (h, f) in self.heads.iter_mut().zip(&self.fences) {
            *h = head_after(&f.key, self.skip);
        }
        self.memory = self.count_memory();
    }

    fn count_memory(&self) -> usize {
        std::mem::size_of::<Chunk>()
            + self.leaves.capacity() * std::mem::size_of::<Box<Leaf>>()
            + self.fences.iter().map(Fence::memory).sum::<usize>()
            + self.leaves.iter().map(|l| std::mem::size_of::<Leaf>() + l.memory()).sum::<usize>()
    }

    pub fn lo(&self) -> &Fence {
        &self.fences[0]
    }

    pub fn hi(&self) -> Option<&Fence> {
        self.hi.as_ref()
    }

    pub fn entries(&self) -> usize {
        self.entries
    }

    pub fn memory(&self) -> usize {
        self.memory
    }

    pub fn max_seq(&self) -> Seq {
        self.max_seq
    }

    pub fn payload(&self) -> usize {
        self.leaves.iter().map(|l| l.payload()).sum()
    }

    /// Whether (`key`, `seq`) is before the high fence (BU3).
    #[inline]
    pub fn reaches(&self, key: &[u8], seq: Seq) -> bool {
        head_after(key, 0) < self.hi_head
            || self.hi.as_ref().is_none_or(|hi| !hi.at_or_before(key, seq))
    }

    /// The leaf whose range holds (`key`, `seq`), which lies in this chunk's range.
    #[inline]
    pub fn leaf_for(&self, key: &[u8], seq: Seq) -> usize {
        let head = head_after(key, self.skip);
        let n = self.leaves.len();
        let at = self.heads.partition_point(|&h| h < head).min(n);
        if at == n || self.heads[at] != head {
            return at.saturating_sub(1);
        }
        let tied = self.heads[at..n].partition_point(|&h| h == head);
        let at = at + self.fences[at..at + tied].partition_point(|f| f.at_or_before(key, seq));
        at.saturating_sub(1)
    }

    /// Whether (`key`, `seq`), not before leaf `i`, is still in it.
    #[inline]
    fn leaf_reaches(&self, i: usize, key: &[u8], seq: Seq) -> bool {
        match self.fences.get(i + 1) {
            None => true,
            Some(next) => {
                let (fence, head) = (self.heads[i + 1], head_after(key, self.skip));
                head < fence || (head == fence && !next.at_or_before(key, seq))
            }
        }
    }

    /// True when the next leaf split would not fit: split the chunk first.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.leaves.len() == CHUNK_LEAVES
    }

    /// Inserts `e`, whose leaf is `leaf`; returns its place. The chunk must not be full and must reach `e`.
    #[inline]
    pub fn insert(&mut self, leaf: usize, e: &EntryRef<'_>) -> Place {
        assert!(!e.key.is_empty() && e.key.len() <= MAX_KEY, "key of {} bytes", e.key.len());
        let l = &mut self.leaves[leaf];
        let before = l.memory();
        let slot = if l.ends_before(e.key, e.seq) {
            l.len()
        } else {
            let (slot, exact) = l.find(e.key, e.seq);
            if exact {
                l.remove(slot);
                self.entries -= 1;
            }
            slot
        };
        if l.insert(slot, e).is_ok() {
            self.memory = self.memory + l.memory() - before;
            self.entries += 1;
            self.max_seq = self.max_seq.max(e.seq);
            return Place { leaf, slot };
        }
        self.memory = self.memory + l.memory() - before;
        let leaf = self.split_leaf(leaf, slot, e);
        self.insert(leaf, e)
    }

    /// Splits leaf `i`, into which `e` belongs at `slot`; returns the leaf in which it now belongs.
    fn split_leaf(&mut self, i: usize, slot: usize, e: &EntryRef<'_>) -> usize {
        assert!(!self.is_full(), "leaf split in a full chunk");
        let hi = self.fences.get(i + 1).or(self.hi.as_ref());
        let l = &mut self.leaves[i];
        let before = l.memory();
        let at_end = slot == l.len() && l.is_appended_to();
        let at = if at_end { slot } else { l.middle() };
        let left = l.entry(at - 1);
        let right = if at_end { *e } else { l.entry(at) };
        let fence = Fence::between((left.key, left.seq), (right.key, right.seq));
        let left_skip = shared_bytes(&self.fences[i], Some(&fence));
        let right_skip = shared_bytes(&fence, hi);
        let new = if at_end {
            l.grow_right(left_skip, right_skip)
        } else {
            l.split(at, left_skip, right_skip)
        };
        let belongs = i + usize::from(fence.at_or_before(e.key, e.seq));
        self.memory += std::mem::size_of::<Leaf>() + new.memory() + fence.memory();
        self.memory = self.memory + l.memory() - before;
        self.grew_right = at_end && i + 1 == self.leaves.len();
        let n = self.leaves.len();
        self.heads.copy_within(i + 1..n, i + 2);
        self.heads[i + 1] = head_after(&fence.key, self.skip);
        self.fences.insert(i + 1, fence);
        let pointers = self.leaves.capacity();
        self.leaves.insert(i + 1, Box::new(new));
        self.memory += (self.leaves.capacity() - pointers) * std::mem::size_of::<Box<Leaf>>();
        belongs
    }

    /// Removes the entry at `place`. Places behind it become invalid.
    pub fn remove(&mut self, place: Place) {
        let l = &mut self.leaves[place.leaf];
        let before = l.memory();
        l.remove(place.slot);
        self.entries -= 1;
        self.memory = self.memory + l.memory() - before;
        self.drop_if_empty(place.leaf);
    }

    /// Removes the entries newer than `seq`.
    pub fn remove_newer(&mut self, seq: Seq) {
        for leaf in (0..self.leaves.len()).rev() {
            let l = &mut self.leaves[leaf];
            if l.max_seq() <= seq {
                continue;
            }
            let before = l.memory();
            self.entries -= l.remove_newer(seq);
            self.memory = self.memory + l.memory() - before;
            self.drop_if_empty(leaf);
        }
        self.max_seq = self.max_seq.min(seq);
    }

    /// Removes an empty leaf, unless it is the only one. Its left neighbour takes over its range;
    /// for the first leaf, its right neighbour does.
    fn drop_if_empty(&mut self, leaf: usize) {
        let n = self.leaves.len();
        if self.leaves[leaf].len() > 0 || n == 1 {
            return;
        }
        let gone = self.leaves.remove(leaf);
        let fence = self.fences.remove(leaf.max(1));
        self.memory -= std::mem::size_of::<Leaf>() + gone.memory() + fence.memory();
        self.heads.copy_within(leaf.max(1) + 1..n, leaf.max(1));
        self.heads[n - 1] = u64::MAX;
        self.grew_right = false;
        self.see_from_fences(leaf.saturating_sub(1));
    }

    /// The fences around a leaf have changed.
    fn see_from_fences(&mut self, leaf: usize) {
        let hi = self.fences.get(leaf + 1).or(self.hi.as_ref());
        self.leaves[leaf].see_from(shared_bytes(&self.fences[leaf], hi));
    }

    /// Takes the range of `right`, the chunk behind this one, which is empty.
    pub fn extend_over(&mut self, right: &Chunk) {
        debug_assert!(right.entries == 0 && self.hi.as_ref() == Some(right.lo()));
        self.hi.clone_from(&right.hi);
        self.grew_right = false;
        self.refresh();
        self.see_from_fences(self.leaves.len() - 1);
    }

    /// Takes the range of `left`, the chunk before this one, which is empty.
    pub fn extend_back_over(&mut self, left: &Chunk) {
        debug_assert!(left.entries == 0 && left.hi.as_ref() == Some(self.lo()));
        self.fences[0].clone_from(left.lo());
        self.refresh();
        self.see_from_fences(0);
    }

    /// Moves the right part into a new chunk. Keys that arrive in order leave a full chunk behind.
    pub fn split(&mut self) -> Chunk {
        let n = self.leaves.len();
        debug_assert!(n >= 2);
        let at = if self.grew_right { n - 1 } else { n / 2 };
        let fences = self.fences.split_off(at);
        let leaves = self.leaves.split_off(at);
        let hi = self.hi.replace(fences[0].clone());
        let mut right_fences = Vec::with_capacity(CHUNK_LEAVES);
        right_fences.extend(fences);
        let mut right_leaves = Vec::with_capacity(CHUNK_LEAVES);
        right_leaves.extend(leaves);
        let right = Chunk::of(right_fences, right_leaves, hi);
        self.entries -= right.entries;
        self.grew_right = false;
        self.refresh();
        right
    }

    /// The first entry not before (`key`, `seq`), or the end.
    pub fn find(&self, key: &[u8], seq: Seq) -> Place {
        let leaf = self.leaf_for(key, seq);
        let (slot, _) = self.leaves[leaf].find(key, seq);
        self.settle(Place { leaf, slot })
    }

    pub fn first(&self) -> Place {
        self.settle(Place { leaf: 0, slot: 0 })
    }

    /// Moves a place past the end of its leaf to the next leaf that has entries, if any.
    fn settle(&self, mut p: Place) -> Place {
        while p.slot >= self.leaves[p.leaf].len() && p.leaf + 1 < self.leaves.len() {
            p = Place { leaf: p.leaf + 1, slot: 0 };
        }
        p
    }

    pub fn is_entry(&self, p: Place) -> bool {
        p.slot < self.leaves[p.leaf].len()
    }

    #[inline]
    pub fn entry(&self, p: Place) -> EntryRef<'_> {
        self.leaves[p.leaf].entry(p.slot)
    }

    #[inline]
    pub fn next(&self, p: Place) -> Place {
        self.settle(Place { leaf: p.leaf, slot: p.slot + 1 })
    }

    /// The entry before `p` (which may be the end), if there is one in this chunk.
    #[inline]
    pub fn prev(&self, p: Place) -> Option<Place> {
        if p.slot > 0 {
            return Some(Place { leaf: p.leaf, slot: p.slot - 1 });
        }
        let leaf = (0..p.leaf).rev().find(|&l| self.leaves[l].len() > 0)?;
        Some(Place { leaf, slot: self.leaves[leaf].len() - 1 })
    }

    pub fn end(&self) -> Place {
        let leaf = self.leaves.len() - 1;
        Place { leaf, slot: self.leaves[leaf].len() }
    }

    /// Entries and payload bytes from `from` to `to` (places of this chunk), leaves cut in
    /// proportion.
    pub fn weigh(&self, from: Place, to: Place) -> (u64, u64) {
        let (mut entries, mut bytes) = (0u64, 0u64);
        for leaf in from.leaf..=to.leaf {
            let l = &self.leaves[leaf];
            let a = if leaf == from.leaf { from.slot } else { 0 };
            let b = if leaf == to.leaf { to.slot } else { l.len() };
            let weight = l.weigh(a, b);
            entries += weight.0;
            bytes += weight.1;
        }
        (entries, bytes)
    }

    /// The last leaf, if (`key`, `seq`) belongs at its end; for the last chunk of a buffer.
    #[inline]
    pub fn last_leaf_takes(&self, key: &[u8], seq: Seq) -> Option<usize> {
        let last = self.leaves.len() - 1;
        let l = &self.leaves[last];
        (l.len() > 0 && l.ends_before(key, seq)).then_some(last)
    }

    /// Asserts the structure; for tests.
    pub fn check(&self) {
        let mut last: Option<(Vec<u8>, Seq)> = None;
        let mut p = self.first();
        let mut n = 0;
        while self.is_entry(p) {
            let e = self.entry(p);
            assert!(self.fences[p.leaf].at_or_before(e.key, e.seq));
            assert!(self.leaf_reaches(p.leaf, e.key, e.seq) && self.reaches(e.key, e.seq));
            assert_eq!(self.leaf_for(e.key, e.seq), p.leaf);
            if let Some((k, s)) = &last {
                assert_eq!(order(k, *s, e.key, e.seq), std::cmp::Ordering::Less);
            }
            last = Some((e.key.to_vec(), e.seq));
            n += 1;
            p = self.next(p);
        }
        assert_eq!(n, self.entries);
        assert_eq!(self.memory, self.count_memory());
        assert!(self.leaves.len() == 1 || self.leaves.iter().all(|l| l.len() > 0), "an empty leaf");
    }
}
