//! The used bytes of a file, in a structure that finds a hole in O(log n).
//!
//! The used bytes form maximal stretches (extents that touch are one stretch). Stretches are nodes of
//! an AVL tree ordered by offset; each node knows the hole in front of it and the largest hole in its
//! subtree. First fit at the lowest offset is one descent: go left while the left subtree has a hole
//! that is large enough. A sorted array scanned from the front (what `bench/micro/src/linear.rs` does)
//! needs a step for each hole that is too small, which made large fragmented files slow in the field.
//! A tree of single extents would also do, but with stretches an allocation from the front of a hole
//! changes two numbers and needs neither a new node nor a rotation.
//!
//! Invariants:
//! - ET1. Stretches are disjoint and not adjacent: the hole in front of every node but the first is > 0.
//! - ET2. The first stretch starts at 0 and never goes away: it holds the file's fixed front
//!   (`reserved` bytes), so that every hole has a stretch in front of it.
//! - ET3. `largest` of a node is the maximum of its own hole and its children's `largest`.
//! - ET4. Heights of siblings differ by at most one.
//! - ET5. `prev`/`next` thread the nodes in offset order.
//!
//! Space behind the last stretch is unlimited; the file's length is not known here.
//! Not thread-safe; [`crate::TableFile`] holds it behind a short mutex.
//!
//! Tested by the unit tests below (random operations against a bitmap, with ET1-ET5 checked).

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
        assert!(reserved > 0, "the first stretch must not be empty (ET2)");
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

    /// Takes exactly `extent`; false (and no change) when any byte of it is in use or it is empty
    /// or overflows. Replay and opening call it with extents read from disk.
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

    /// Number of holes in front of the file's free end.
    pub fn holes(&self) -> usize {
        self.nodes.len() - self.vacant.len() - 1
    }

    /// The largest hole in front of the file's free end, bytes.
    pub fn largest_hole(&self) -> u64 {
        self.nodes[self.root as usize].largest
    }

    /// Free stretches within `[from, to)`, clipped to it, ascending; so is the space behind the last stretch.
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
                at = n.right; // ET3: `largest` promised a hole, and it is nowhere else
            }
        }
    }

    /// The last stretch that starts at or before `offset`; exists because of ET2.
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

    /// Takes node `at` (never the first, ET2) out of the tree and the thread.
    fn remove(&mut self, at: u32) {
        let n = self.nodes[at as usize];
        assert!(n.prev != NIL, "the first stretch stays (ET2)");
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

    /// Restores ET3 from `at` upwards after its hole changed; stops where nothing changes.
    fn refresh_up(&mut self, mut at: u32) {
        while at != NIL && self.refresh(at) {
            at = self.nodes[at as usize].parent;
        }
    }

    /// Restores ET3 and ET4 from `at` to the root after a node came or went below it.
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
mod tests;
