//! Which bytes of a file are in use, kept so that a hole is found in O(log n).
//!
//! The used bytes form maximal stretches (extents that touch are one stretch). Stretches are nodes of
//! an AVL tree ordered by offset; each node knows the hole in front of it and the largest hole in its
//! subtree. First fit at the lowest offset is one descent: go left while the left subtree has a hole
//! that is large enough. A sorted array scanned from the front (what [`crate::LinearFirstFit`] does)
//! needs as many steps as there are holes that are too small, which is what made large fragmented
//! files slow in the field. A tree of single extents would also do, but stretches make allocation
//! from the front of a hole a change of two numbers, without a new node or a rotation.
//!
//! Invariants:
//! - T1. Stretches are disjoint and not adjacent: the hole in front of every node but the first is > 0.
//! - T2. The first stretch starts at 0 and never goes away: it holds the file's fixed front
//!   (`reserved` bytes), so that every hole has a stretch in front of it.
//! - T3. `largest` of a node is the maximum of its own hole and its children's `largest`.
//! - T4. Heights of siblings differ by at most one.
//! - T5. `prev`/`next` thread the nodes in offset order.
//!
//! Space behind the last stretch is unlimited; the file's length is not known here.
//! Not thread-safe; [`crate::TableFile`] holds it behind a short mutex.
//!
//! Tested by the unit tests below (random operations against a bitmap, with T1-T5 checked).

use crate::extent::Extent;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    start: u64,
    end: u64,
    /// Bytes between the previous stretch and this one.
    hole: u64,
    largest: u64,
    parent: u32,
    left: u32,
    right: u32,
    prev: u32,
    next: u32,
    height: u8,
}

/// The allocator. All offsets and lengths are bytes; it does not care for alignment.
pub struct ExtentTree {
    nodes: Vec<Node>,
    /// Slots of `nodes` that hold nothing.
    vacant: Vec<u32>,
    root: u32,
    last: u32,
    reserved: u64,
    used: u64,
    steps: u64,
}

impl ExtentTree {
    /// An empty file whose first `reserved` (> 0) bytes are never handed out.
    pub fn new(reserved: u64) -> ExtentTree {
        assert!(reserved > 0, "the first stretch must not be empty (T2)");
        let first = Node {
            start: 0,
            end: reserved,
            hole: 0,
            largest: 0,
            parent: NIL,
            left: NIL,
            right: NIL,
            prev: NIL,
            next: NIL,
            height: 1,
        };
        ExtentTree {
            nodes: vec![first],
            vacant: Vec::new(),
            root: 0,
            last: 0,
            reserved,
            used: reserved,
            steps: 0,
        }
    }

    /// Takes `len` (> 0) bytes at the lowest offset where they fit.
    pub fn alloc(&mut self, len: u64) -> Extent {
        assert!(len > 0, "an extent has at least one byte");
        let at = match self.first_fit(len) {
            NIL => self.last,
            node => self.nodes[node as usize].prev,
        };
        let offset = self.nodes[at as usize].end;
        assert!(offset.checked_add(len).is_some(), "file offsets fit in 64 bits");
        self.grow(at, len);
        Extent { offset, len }
    }

    /// Takes exactly `extent`; false (and no change) when any byte of it is in use or it is empty or
    /// overflows. Replay and opening use it, with extents that come from bytes on disk.
    #[must_use]
    pub fn alloc_at(&mut self, extent: Extent) -> bool {
        let Some(end) = extent.offset.checked_add(extent.len) else { return false };
        if extent.len == 0 || extent.offset < self.reserved {
            return false;
        }
        let before = self.at_or_before(extent.offset);
        let b = self.nodes[before as usize];
        if b.end > extent.offset {
            return false;
        }
        if b.next != NIL && end > self.nodes[b.next as usize].start {
            return false;
        }
        if b.end == extent.offset {
            self.grow(before, extent.len);
            return true;
        }
        self.used += extent.len;
        if b.next != NIL && self.nodes[b.next as usize].start == end {
            let n = &mut self.nodes[b.next as usize];
            n.start = extent.offset;
            n.hole -= extent.len;
            self.refresh_up(b.next);
            return true;
        }
        if b.next != NIL {
            self.nodes[b.next as usize].hole = self.nodes[b.next as usize].start - end;
            self.refresh_up(b.next);
        }
        self.insert_after(before, extent.offset, end);
        true
    }

    /// Gives `extent` back. It must lie within bytes in use (double frees are a programmer's mistake).
    pub fn free(&mut self, extent: Extent) {
        let end = extent.end();
        assert!(extent.len > 0 && extent.offset >= self.reserved, "freeing {extent}: never used");
        let at = self.at_or_before(extent.offset);
        let n = self.nodes[at as usize];
        assert!(end <= n.end, "freeing {extent}: not all of it is in use (S1)");
        self.used -= extent.len;
        match (n.start == extent.offset, n.end == end) {
            (true, true) => {
                self.widen_hole(n.next, n.hole + extent.len);
                self.remove(at);
            }
            (true, false) => {
                let m = &mut self.nodes[at as usize];
                m.start = end;
                m.hole += extent.len;
                self.refresh_up(at);
            }
            (false, true) => {
                self.nodes[at as usize].end = extent.offset;
                self.widen_hole(n.next, extent.len);
            }
            (false, false) => {
                self.nodes[at as usize].end = extent.offset;
                self.insert_after(at, end, n.end);
            }
        }
    }

    /// The first byte behind everything in use.
    pub fn tail(&self) -> u64 {
        self.nodes[self.last as usize].end
    }

    /// Bytes in use, the reserved front included.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Number of holes in front of the tail.
    pub fn holes(&self) -> usize {
        self.nodes.len() - self.vacant.len() - 1
    }

    /// The largest hole in front of the tail, bytes.
    pub fn largest_hole(&self) -> u64 {
        self.nodes[self.root as usize].largest
    }

    /// Free stretches within `[from, to)`, clipped to it, ascending; the space behind the tail counts.
    pub fn holes_within(&self, from: u64, to: u64) -> Vec<Extent> {
        let mut found = Vec::new();
        let mut at = self.at_or_before(from);
        while at != NIL {
            let n = self.nodes[at as usize];
            let hole_end = if n.next == NIL { to } else { self.nodes[n.next as usize].start };
            let (lo, hi) = (n.end.max(from), hole_end.min(to));
            if lo < hi {
                found.push(Extent { offset: lo, len: hi - lo });
            }
            if hole_end >= to {
                break;
            }
            at = n.next;
        }
        found
    }

    /// Tree nodes visited since the last call, for the benchmark.
    pub fn take_steps(&mut self) -> u64 {
        std::mem::take(&mut self.steps)
    }

    /// Memory held, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * std::mem::size_of::<Node>() + self.vacant.capacity() * 4
    }

    /// The node with the lowest hole of at least `len`; NIL when there is none.
    fn first_fit(&mut self, len: u64) -> u32 {
        let mut at = self.root;
        if self.nodes[at as usize].largest < len {
            self.steps += 1;
            return NIL;
        }
        loop {
            self.steps += 1;
            let n = &self.nodes[at as usize];
            if n.left != NIL && self.nodes[n.left as usize].largest >= len {
                at = n.left;
            } else if n.hole >= len {
                return at;
            } else {
                at = n.right; // T3: `largest` promised a hole, and it is nowhere else
            }
        }
    }

    /// The last stretch that starts at or before `offset`; exists because of T2.
    fn at_or_before(&self, offset: u64) -> u32 {
        let (mut at, mut best) = (self.root, NIL);
        while at != NIL {
            let n = &self.nodes[at as usize];
            if n.start <= offset {
                best = at;
                at = n.right;
            } else {
                at = n.left;
            }
        }
        best
    }

    /// Lengthens stretch `at` by `len` into the hole behind it, joining the next when it reaches it.
    fn grow(&mut self, at: u32, len: u64) {
        self.used += len;
        let next = self.nodes[at as usize].next;
        self.nodes[at as usize].end += len;
        if next == NIL {
            return;
        }
        let n = &mut self.nodes[next as usize];
        assert!(n.hole >= len, "the hole is too small for what was put in it (S1)");
        n.hole -= len;
        if n.hole > 0 {
            self.refresh_up(next);
        } else {
            self.nodes[at as usize].end = n.end;
            self.remove(next);
        }
    }

    fn widen_hole(&mut self, at: u32, by: u64) {
        if at != NIL {
            self.nodes[at as usize].hole += by;
            self.refresh_up(at);
        }
    }

    /// Adds the stretch `[start, end)` behind `before`. The next stretch's hole is already right when
    /// the new stretch splits a hole; when it is the rear of a split stretch it does not change.
    fn insert_after(&mut self, before: u32, start: u64, end: u64) {
        let b = self.nodes[before as usize];
        let node = Node {
            start,
            end,
            hole: start - b.end,
            largest: start - b.end,
            parent: NIL,
            left: NIL,
            right: NIL,
            prev: before,
            next: b.next,
            height: 1,
        };
        let new = match self.vacant.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = node;
                slot
            }
            None => {
                let slot = u32::try_from(self.nodes.len()).unwrap_or(NIL);
                assert!(slot != NIL, "fewer than 2^32 stretches");
                self.nodes.push(node);
                slot
            }
        };
        self.nodes[before as usize].next = new;
        match b.next {
            NIL => self.last = new,
            next => self.nodes[next as usize].prev = new,
        }
        // In-order successor of `before`: its right child, or the free left place of the next node.
        let parent = if b.right == NIL { before } else { b.next };
        self.nodes[new as usize].parent = parent;
        match b.right {
            NIL => self.nodes[parent as usize].right = new,
            _ => self.nodes[parent as usize].left = new,
        }
        self.rebalance_up(parent);
    }

    /// Takes node `at` (never the first, T2) out of the tree and the thread.
    fn remove(&mut self, at: u32) {
        let n = self.nodes[at as usize];
        assert!(n.prev != NIL, "the first stretch stays (T2)");
        self.nodes[n.prev as usize].next = n.next;
        match n.next {
            NIL => self.last = n.prev,
            next => self.nodes[next as usize].prev = n.prev,
        }
        let from = if n.left != NIL && n.right != NIL {
            // The next node has no left child: it takes this one's place.
            let next = n.next;
            let s = self.nodes[next as usize];
            let from = if s.parent == at {
                next
            } else {
                self.replace_child(s.parent, next, s.right);
                self.nodes[next as usize].right = n.right;
                self.nodes[n.right as usize].parent = next;
                s.parent
            };
            self.nodes[next as usize].left = n.left;
            self.nodes[n.left as usize].parent = next;
            self.nodes[next as usize].height = n.height;
            self.replace_child(n.parent, at, next);
            from
        } else {
            let child = if n.left != NIL { n.left } else { n.right };
            self.replace_child(n.parent, at, child);
            n.parent
        };
        self.vacant.push(at);
        self.rebalance_up(from);
    }

    fn replace_child(&mut self, parent: u32, old: u32, new: u32) {
        if parent == NIL {
            self.root = new;
        } else {
            let p = &mut self.nodes[parent as usize];
            if p.left == old {
                p.left = new;
            } else {
                p.right = new;
            }
        }
        if new != NIL {
            self.nodes[new as usize].parent = parent;
        }
    }

    fn height(&self, at: u32) -> u8 {
        if at == NIL {
            0
        } else {
            self.nodes[at as usize].height
        }
    }

    fn largest(&self, at: u32) -> u64 {
        if at == NIL {
            0
        } else {
            self.nodes[at as usize].largest
        }
    }

    /// Recomputes height and largest hole of `at`; true when either changed.
    fn refresh(&mut self, at: u32) -> bool {
        let n = &self.nodes[at as usize];
        let largest = n.hole.max(self.largest(n.left)).max(self.largest(n.right));
        let height = 1 + self.height(n.left).max(self.height(n.right));
        let n = &mut self.nodes[at as usize];
        let changed = n.largest != largest || n.height != height;
        n.largest = largest;
        n.height = height;
        changed
    }

    /// Restores T3 from `at` upwards after its hole changed; stops where nothing changes.
    fn refresh_up(&mut self, mut at: u32) {
        while at != NIL && self.refresh(at) {
            at = self.nodes[at as usize].parent;
        }
    }

    /// Restores T3 and T4 from `at` to the root after a node came or went below it.
    fn rebalance_up(&mut self, mut at: u32) {
        while at != NIL {
            self.refresh(at);
            let n = self.nodes[at as usize];
            let (l, r) = (self.height(n.left), self.height(n.right));
            if l > r + 1 {
                let c = self.nodes[n.left as usize];
                if self.height(c.left) < self.height(c.right) {
                    self.rotate(n.left, c.right);
                }
                at = self.rotate(at, self.nodes[at as usize].left);
            } else if r > l + 1 {
                let c = self.nodes[n.right as usize];
                if self.height(c.right) < self.height(c.left) {
                    self.rotate(n.right, c.left);
                }
                at = self.rotate(at, self.nodes[at as usize].right);
            }
            at = self.nodes[at as usize].parent;
        }
    }

    /// Lifts `child` above its parent `top`; returns `child`, now the subtree's root.
    fn rotate(&mut self, top: u32, child: u32) -> u32 {
        self.replace_child(self.nodes[top as usize].parent, top, child);
        let inner = if self.nodes[top as usize].left == child {
            let inner = std::mem::replace(&mut self.nodes[child as usize].right, top);
            self.nodes[top as usize].left = inner;
            inner
        } else {
            let inner = std::mem::replace(&mut self.nodes[child as usize].left, top);
            self.nodes[top as usize].right = inner;
            inner
        };
        if inner != NIL {
            self.nodes[inner as usize].parent = top;
        }
        self.nodes[top as usize].parent = child;
        self.refresh(top);
        self.refresh(child);
        child
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use crate::LinearFirstFit;

    impl ExtentTree {
        /// Checks T1-T5; returns the stretches.
        fn verify(&self) -> Vec<(u64, u64)> {
            let mut all = Vec::new();
            self.verify_node(self.root, NIL, &mut all);
            assert_eq!(all.len(), self.nodes.len() - self.vacant.len());
            let mut at = all[0].2;
            assert_eq!(all[0].0, 0, "T2");
            for (i, &(start, end, id)) in all.iter().enumerate() {
                let n = &self.nodes[id as usize];
                assert_eq!(id, at, "T5");
                at = n.next;
                if i > 0 {
                    assert_eq!(n.prev, all[i - 1].2, "T5");
                    assert!(start > all[i - 1].1, "T1");
                    assert_eq!(n.hole, start - all[i - 1].1, "T1");
                }
                assert!(end > start);
            }
            assert_eq!(at, NIL);
            assert_eq!(self.last, all[all.len() - 1].2);
            let all: Vec<_> = all.into_iter().map(|(s, e, _)| (s, e)).collect();
            assert_eq!(self.used, all.iter().map(|(s, e)| e - s).sum::<u64>());
            all
        }

        fn verify_node(&self, at: u32, parent: u32, all: &mut Vec<(u64, u64, u32)>) -> (u8, u64) {
            if at == NIL {
                return (0, 0);
            }
            let n = self.nodes[at as usize];
            assert_eq!(n.parent, parent);
            let (lh, ll) = self.verify_node(n.left, at, all);
            all.push((n.start, n.end, at));
            let (rh, rl) = self.verify_node(n.right, at, all);
            assert!(lh.abs_diff(rh) <= 1, "T4");
            assert_eq!(n.height, 1 + lh.max(rh), "T4");
            assert_eq!(n.largest, n.hole.max(ll).max(rl), "T3");
            (n.height, n.largest)
        }
    }

    /// One bool per unit; slow and obvious.
    struct Bitmap(Vec<bool>);

    impl Bitmap {
        fn is_free(&self, e: Extent) -> bool {
            (e.offset..e.end()).all(|u| !self.0[u as usize])
        }
        fn set(&mut self, e: Extent, used: bool) {
            (e.offset..e.end()).for_each(|u| self.0[u as usize] = used);
        }
        fn first_fit(&self, len: u64) -> u64 {
            let mut run = 0;
            for (u, used) in self.0.iter().enumerate() {
                run = if *used { 0 } else { run + 1 };
                if run == len {
                    return u as u64 + 1 - len;
                }
            }
            panic!("bitmap too small")
        }
        fn tail(&self) -> u64 {
            self.0.iter().rposition(|u| *u).map_or(0, |p| p as u64 + 1)
        }
    }

    #[test]
    fn agrees_with_a_bitmap_under_random_operations() {
        for seed in 1..=12u64 {
            let mut rng = Rng(seed);
            let mut tree = ExtentTree::new(2);
            let mut model = Bitmap(vec![false; 20_000]);
            model.set(Extent { offset: 0, len: 2 }, true);
            let mut live: Vec<Extent> = Vec::new();
            for step in 0..4_000 {
                let grow = live.len() < 40 || (live.len() < 400 && rng.below(100) < 52);
                if grow && rng.below(4) > 0 {
                    let len = 1 + rng.below(24);
                    let e = tree.alloc(len);
                    assert_eq!(e, Extent { offset: model.first_fit(len), len });
                    model.set(e, true);
                    live.push(e);
                } else if grow {
                    let at = rng.below(model.tail() + 40);
                    let e = Extent { offset: at, len: 1 + rng.below(6) };
                    let free = model.is_free(e);
                    assert_eq!(tree.alloc_at(e), free);
                    if free {
                        model.set(e, true);
                        live.push(e);
                    }
                } else {
                    let e = live.swap_remove(rng.below(live.len() as u64) as usize);
                    // Parts are freed on their own as well.
                    let cut = rng.below(e.len);
                    for part in [
                        Extent { offset: e.offset, len: cut },
                        Extent { offset: e.offset + cut, len: e.len - cut },
                    ] {
                        if part.len > 0 {
                            tree.free(part);
                            model.set(part, false);
                        }
                    }
                }
                assert_eq!(tree.tail(), model.tail());
                if step % 16 == 0 {
                    let stretches = tree.verify();
                    assert_eq!(tree.holes(), stretches.len() - 1);
                    for (s, e) in &stretches {
                        assert!((*s..*e).all(|u| model.0[u as usize]));
                    }
                    let (from, to) = (rng.below(600), 300 + rng.below(900));
                    for hole in tree.holes_within(from, to) {
                        assert!(model.is_free(hole));
                    }
                    let free: u64 = tree.holes_within(from, to).iter().map(|h| h.len).sum();
                    let want = (from..to.max(from)).filter(|u| !model.0[*u as usize]).count();
                    assert_eq!(free, want as u64);
                }
            }
            for e in live {
                tree.free(e);
            }
            assert_eq!(tree.verify(), vec![(0, 2)]);
        }
    }

    #[test]
    fn places_extents_where_the_linear_search_does() {
        let mut rng = Rng(77);
        let (mut tree, mut linear) = (ExtentTree::new(8), LinearFirstFit::new(8));
        let mut live = Vec::new();
        for _ in 0..20_000 {
            if live.len() < 500 || rng.below(2) == 0 {
                let len = 1 + rng.below(300);
                let e = tree.alloc(len);
                assert_eq!(e, linear.alloc(len));
                live.push(e);
            } else {
                let e = live.swap_remove(rng.below(live.len() as u64) as usize);
                tree.free(e);
                linear.free(e);
            }
            assert_eq!(tree.tail(), linear.tail());
        }
    }

    #[test]
    fn a_hole_is_found_in_logarithmic_steps() {
        let mut tree = ExtentTree::new(1);
        let all: Vec<Extent> = (0..40_000).map(|_| tree.alloc(2)).collect();
        for e in all.iter().step_by(2) {
            tree.free(Extent { offset: e.offset, len: 1 });
        }
        tree.take_steps();
        for _ in 0..1_000 {
            tree.alloc(2); // no hole fits
        }
        assert!(tree.take_steps() <= 1_000);
        for _ in 0..1_000 {
            tree.alloc(1);
        }
        let steps = tree.take_steps();
        assert!(steps <= 1_000 * 22, "{steps} steps for 1000 searches in 20 000 holes");
    }

    #[test]
    fn hostile_extents_are_refused() {
        let mut tree = ExtentTree::new(2);
        for (offset, len) in [(0, 1), (1, 4), (5, 0), (u64::MAX, 2), (3, u64::MAX)] {
            assert!(!tree.alloc_at(Extent { offset, len }), "[{offset}, +{len})");
        }
        assert!(tree.alloc_at(Extent { offset: u64::MAX - 9, len: 9 }));
        tree.verify();
    }

    #[test]
    #[should_panic(expected = "S1")]
    fn freeing_twice_is_caught() {
        let mut tree = ExtentTree::new(2);
        let a = tree.alloc(4);
        tree.alloc(4);
        tree.free(a);
        tree.free(a);
    }
}
