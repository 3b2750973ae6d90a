//! Cursors: ordered reads in both directions at one snapshot.
//!
//! A cursor goes through the tree leaf by leaf. For the current leaf (its window) it opens the
//! slices on the path that overlap the window, so a short range read opens few pages; buffers are
//! read in batches across windows. Of the sources, ranked newest first, the smallest key wins
//! (backward: the largest), at equal keys the newest source; a tombstone hides the key.
//!
//! Invariants
//! 1. Sources are in rank order: private runs newest first, active buffer, frozen items newest first, edges from the root
//!    down, each newest first, deltas newest first, base.
//! 2. The cursor reads one view. It takes a new one every `cursor_refills` loads, re-seeking by
//!    key: the snapshot sees the same in any view. So no cursor pins dead runs or flushed buffers
//!    for long.
//!
//! On leaving a window the cursor charges the entries that it had to look at beyond the leaf's
//! base, and dead ones, to the node's heat: that is how read-hot and tombstone-rich leaves get
//! merged.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::atomic::Ordering as Atomic;
use std::sync::Arc;

use frond_base::{EntryKind, NodeId, Result, Seq};
use frond_run::Access;

use crate::need;
use crate::node::{Body, Node};
use crate::private::PrivateView;
use crate::slice::{Key, Range, Slice};
use crate::source::{BufferSource, Charge, RunSource, Source, SourceBody, Walk};
use crate::tree::{Tree, TreeInner};
use crate::view::{Content, View};

/// Entries that opening a source is worth, when read work is charged.
const OPEN_COST: u64 = 32;

/// Keys from a lower to an upper bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    lo: Vec<u8>,
    hi: Option<Vec<u8>>,
}

/// The smallest key above `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

impl Bounds {
    pub fn all() -> Bounds {
        Bounds::default()
    }

    pub fn new(lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> Bounds {
        let lo = match lo {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => successor(key),
            Bound::Unbounded => Vec::new(),
        };
        let hi = match hi {
            Bound::Included(key) => Some(successor(key)),
            Bound::Excluded(key) => Some(key.to_vec()),
            Bound::Unbounded => None,
        };
        Bounds { lo, hi }
    }

    /// All keys that start with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Bounds {
        let mut hi = prefix.to_vec();
        while hi.last() == Some(&0xff) {
            hi.pop();
        }
        let hi = match hi.last_mut() {
            Some(last) => {
                *last += 1;
                Some(hi)
            }
            None => None,
        };
        Bounds { lo: prefix.to_vec(), hi }
    }
}

/// Where a seek goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The smallest key `>=` the given one.
    Ge,
    /// The smallest key `>`.
    Gt,
    /// The largest key `<=`.
    Le,
    /// The largest key `<`.
    Lt,
}

/// The leaf that the cursor is in.
struct Window {
    node: Arc<Node>,
    range: Range,
    /// Node and edge heats to look at when leaving: of the nodes on the path.
    path: Vec<(NodeId, Option<Key>, Arc<Node>)>,
    dead: u64,
}

/// An ordered read position. Owns its view; may move between threads.
pub struct TreeCursor {
    tree: Arc<TreeInner>,
    walk: Walk,
    view: Option<Arc<View>>,
    /// The first `buffers` of them live across windows.
    sources: Vec<Source>,
    buffers: usize,
    /// The first `privates` of them are the transaction's own.
    privates: usize,
    private: Option<PrivateView>,
    window: Option<Window>,
    /// Position in `sources` of the current entry.
    current: Option<usize>,
    /// Sources other than `current` at the same key.
    tied: Vec<usize>,
    spare_keys: Vec<Vec<u8>>,
    dead: u64,
    buffer_dead: u64,
}

impl Tree {
    /// A cursor at snapshot `at` over `bounds`; not positioned.
    pub fn cursor(&self, at: Seq, bounds: Bounds) -> TreeCursor {
        let mut cursor = TreeCursor {
            tree: self.inner.clone(),
            walk: Walk::new(self.inner.store.clone(), at),
            view: None,
            sources: Vec::new(),
            buffers: 0,
            privates: 0,
            private: None,
            window: None,
            current: None,
            tied: Vec::new(),
            spare_keys: Vec::new(),
            dead: 0,
            buffer_dead: 0,
        };
        cursor.set_bounds(bounds);
        cursor
    }
}

impl TreeCursor {
    /// Polled at least every 1000 entries examined; true ends the call with `Interrupted`.
    pub fn set_interrupt(&mut self, raised: Box<dyn FnMut() -> bool + Send>) {
        self.walk.interrupt = Some(raised);
    }

    /// Reads the runs that a transaction has not committed yet, above all that is committed. Gives up the
    /// position.
    pub fn set_private(&mut self, private: Option<PrivateView>) {
        self.release();
        self.private = private;
    }

    /// Gives up the position.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.release();
        self.walk.lo = bounds.lo;
        self.walk.hi = bounds.hi;
    }

    /// Gives up the position.
    pub fn set_at(&mut self, at: Seq) {
        self.release();
        self.walk.at = at;
    }

    pub fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn at_entry(&self) -> &Source {
        match self.current {
            Some(i) => &self.sources[i],
            None => panic!("the cursor is not at an entry"),
        }
    }

    /// Requires `valid()`, as do `value` and `seq`.
    pub fn key(&self) -> &[u8] {
        &self.at_entry().key
    }

    pub fn value(&self) -> &[u8] {
        self.at_entry().value()
    }

    /// 0: older than every snapshot.
    pub fn seq(&self) -> Seq {
        self.at_entry().seq
    }

    /// Entries looked at since the cursor was made.
    pub fn examined(&self) -> u64 {
        self.walk.examined
    }

    /// Keys passed over because they were deleted.
    pub fn skipped_dead(&self) -> u64 {
        self.dead
    }

    pub fn first(&mut self) -> Result<bool> {
        self.start_forward(None)
    }

    pub fn last(&mut self) -> Result<bool> {
        self.start_backward(None)
    }

    /// Positions relative to `key`, within the bounds; false when there is no such entry.
    pub fn seek(&mut self, key: &[u8], how: Seek) -> Result<bool> {
        match how {
            Seek::Ge => self.start_forward(Some(key.to_vec())),
            Seek::Gt => self.start_forward(Some(successor(key))),
            Seek::Le => self.start_backward(Some(successor(key))),
            Seek::Lt => self.start_backward(Some(key.to_vec())),
        }
    }

    /// To the next entry; requires `valid()`. False at the end.
    // Not an iterator: an entry is borrowed from the cursor.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<bool> {
        self.go(true)
    }

    /// To the entry before; requires `valid()`. False at the start.
    pub fn prev(&mut self) -> Result<bool> {
        self.go(false)
    }

    fn go(&mut self, forward: bool) -> Result<bool> {
        let Some(current) = self.current else { panic!("the cursor is not at an entry") };
        if self.walk.refills >= self.tree.options.cursor_refills || forward != self.walk.forward {
            let key = self.sources[current].key.clone();
            if self.walk.refills >= self.tree.options.cursor_refills {
                self.release();
            }
            return self.seek(&key, if forward { Seek::Gt } else { Seek::Lt });
        }
        let moved = self.pass(current).and_then(|()| self.settle());
        self.or_lost(moved)
    }

    /// After an error the position is gone.
    fn or_lost(&mut self, moved: Result<bool>) -> Result<bool> {
        if moved.is_err() {
            self.release();
        }
        moved
    }

    fn start_forward(&mut self, from: Option<Vec<u8>>) -> Result<bool> {
        let from = match from {
            Some(key) if key > self.walk.lo => key,
            _ => self.walk.lo.clone(),
        };
        if self.walk.hi.as_ref().is_some_and(|hi| from >= *hi) {
            self.leave_window();
            self.current = None;
            return Ok(false);
        }
        let moved = self.start(true, Some(&from));
        self.or_lost(moved)
    }

    fn start_backward(&mut self, from: Option<Vec<u8>>) -> Result<bool> {
        let from = match (from, &self.walk.hi) {
            (Some(key), Some(hi)) if key > *hi => Some(hi.clone()),
            (None, hi) => hi.clone(),
            (key, _) => key,
        };
        if from.as_ref().is_some_and(|key| *key <= self.walk.lo) {
            self.leave_window();
            self.current = None;
            return Ok(false);
        }
        let moved = self.start(false, from.as_deref());
        self.or_lost(moved)
    }

    /// Seeks all sources; `from` as in [`Source::seek`].
    fn start(&mut self, forward: bool, from: Option<&[u8]>) -> Result<bool> {
        self.leave_window();
        self.current = None;
        self.tied.clear();
        self.walk.forward = forward;
        if self.view.is_none() {
            self.open_view();
        }
        for source in &mut self.sources[..self.buffers] {
            source.seek(&mut self.walk, from)?;
        }
        self.enter_window(from)?;
        self.settle()
    }

    fn open_view(&mut self) {
        let view = self.tree.view.load_full();
        self.walk.refills = 0;
        if let Some(private) = self.private.take() {
            private.lists().iter().for_each(|runs| self.add_runs(runs));
            self.private = Some(private);
        }
        self.privates = self.sources.len();
        self.add_buffer(&view.active.buffer);
        for item in &view.frozen {
            match &item.content {
                Content::Buffer(buffer) => self.add_buffer(buffer),
                Content::Runs(lists) => lists.iter().for_each(|runs| self.add_runs(runs)),
            }
        }
        self.buffers = self.sources.len();
        self.view = Some(view);
    }

    /// A list of runs that is read across windows, if anything of it is within the bounds.
    fn add_runs(&mut self, runs: &Arc<[Slice]>) {
        let first = runs.partition_point(|s| s.ends_before(&self.walk.lo));
        let inside = runs.get(first).is_some_and(|s| !self.begins_beyond(s));
        if inside {
            self.add(SourceBody::Run(RunSource::new(runs.clone())), None, Charge::None);
        }
    }

    fn begins_beyond(&self, slice: &Slice) -> bool {
        self.walk.hi.as_deref().is_some_and(|hi| slice.first() >= hi)
    }

    fn add_buffer(&mut self, buffer: &Arc<frond_buffer::WriteBuffer>) {
        if !buffer.is_empty() || !buffer.is_frozen() {
            let body = SourceBody::Buffer(BufferSource::new(buffer.clone()));
            self.add(body, None, Charge::None);
        }
    }

    fn add(&mut self, body: SourceBody, heat: Option<&Arc<Node>>, charge: Charge) {
        let key = self.spare_keys.pop().unwrap_or_default();
        let heat = heat.map(|n| n.heat.clone());
        self.sources.push(Source::new(body, heat, charge, key));
    }

    /// Opens the leaf at `from` (backward: the one with the largest keys below it).
    fn enter_window(&mut self, from: Option<&[u8]>) -> Result<()> {
        let Some(view) = self.view.clone() else { panic!("a window is a part of a view") };
        let mut node = &view.trunk.root;
        let mut range = Range::all();
        let mut path = Vec::new();
        while let Body::Inner(inner) = &node.body {
            let i = match (self.walk.forward, from) {
                (true, Some(key)) => inner.child_for(key),
                (true, None) => 0,
                (false, Some(key)) => inner.pivots.partition_point(|p| &**p < key),
                (false, None) => inner.children.len() - 1,
            };
            let child = &inner.children[i];
            range = inner.range(i, &range);
            node = &child.node;
            path.push((node.id, range.lo.clone(), node.clone()));
        }
        // The path's ranges are nested, so only now it is known what to cut the slices to.
        let mut at = &view.trunk.root;
        for (_, _, next) in &path {
            if let Body::Inner(inner) = &at.body {
                if let Some(child) = inner.children.iter().find(|c| Arc::ptr_eq(&c.node, next)) {
                    for slice in child.pending.iter() {
                        self.open(slice, &range, next, Charge::Edge);
                    }
                }
            }
            at = next;
        }
        if let Body::Leaf(leaf) = &node.body {
            for slice in &leaf.deltas {
                self.open(slice, &range, node, Charge::Deltas);
            }
            if !leaf.base.is_empty() {
                let body = SourceBody::Run(RunSource::new(leaf.base[..].into()));
                self.add(body, None, Charge::None);
            }
        }
        if path.is_empty() {
            path.push((node.id, None, node.clone()));
        }
        self.window = Some(Window { node: node.clone(), range, path, dead: 0 });
        self.prepare(from)?;
        for source in &mut self.sources[self.buffers..] {
            source.seek(&mut self.walk, from)?;
        }
        Ok(())
    }

    /// Gets the pages at which the window's runs are entered, all at once: one after another each may
    /// wait for the device.
    fn prepare(&mut self, from: Option<&[u8]>) -> Result<()> {
        let runs = &mut self.sources[self.buffers..];
        if runs.len() < 2 {
            return Ok(());
        }
        let (mut spots, mut wants) = (Vec::with_capacity(8), Vec::with_capacity(8));
        for (i, source) in runs.iter().enumerate() {
            let SourceBody::Run(run) = &source.body else { continue };
            if let Some(spot) = run.spot(self.walk.forward, self.walk.at, from)? {
                wants.push(run.page_of(&spot));
                spots.push((i, spot));
            }
        }
        let pages = self.walk.store.pages(&wants, Access::Scan)?;
        for ((i, spot), page) in spots.into_iter().zip(pages) {
            if let SourceBody::Run(run) = &mut runs[i].body {
                run.set_ready(&mut self.walk, spot, page);
            }
        }
        Ok(())
    }

    fn open(&mut self, slice: &Slice, range: &Range, node: &Arc<Node>, charge: Charge) {
        if slice.ends_before(&self.walk.lo) || self.begins_beyond(slice) {
            return;
        }
        let Some(part) = self.clip(slice, range) else { return };
        self.add(SourceBody::Run(RunSource::new([part].into())), Some(node), charge);
    }

    /// Cuts without estimating what is left, which would cost a look at fences.
    fn clip(&self, slice: &Slice, range: &Range) -> Option<Slice> {
        if !slice.in_range(range) {
            return None;
        }
        let mut part = slice.clone();
        if let Some(lo) = range.lo.as_ref().filter(|lo| &***lo > slice.first()) {
            part.lo = Some(lo.clone());
        }
        if let Some(hi) = range.hi.as_ref().filter(|hi| !slice.ends_before(hi)) {
            part.hi = Some(hi.clone());
        }
        Some(part)
    }

    /// Moves all sources at the current key past it.
    fn pass(&mut self, current: usize) -> Result<()> {
        self.current = None;
        self.sources[current].advance(&mut self.walk)?;
        while let Some(i) = self.tied.pop() {
            self.sources[i].advance(&mut self.walk)?;
        }
        Ok(())
    }

    /// Finds the entry that the sources' positions make current, going on past tombstones and from
    /// window to window.
    fn settle(&mut self) -> Result<bool> {
        loop {
            let Some(best) = self.choose() else {
                if !self.next_window()? {
                    self.leave_window();
                    return Ok(false);
                }
                continue;
            };
            let source = &self.sources[best];
            if self.beyond(&source.key) {
                self.leave_window();
                self.tied.clear();
                return Ok(false);
            }
            if source.kind == EntryKind::Put {
                self.current = Some(best);
                return Ok(true);
            }
            self.dead += 1;
            if (self.privates..self.buffers).contains(&best) {
                self.buffer_dead += 1;
            }
            if let Some(window) = &mut self.window {
                window.dead += 1;
            }
            self.pass(best)?;
        }
    }

    fn beyond(&self, key: &[u8]) -> bool {
        match self.walk.forward {
            true => self.walk.hi.as_ref().is_some_and(|hi| key >= &hi[..]),
            false => key < &self.walk.lo[..],
        }
    }

    /// The newest source at the next key within the window; notes the others at that key.
    fn choose(&mut self) -> Option<usize> {
        self.tied.clear();
        let mut best: Option<usize> = None;
        let wanted = if self.walk.forward { Ordering::Less } else { Ordering::Greater };
        for (i, source) in self.sources.iter().enumerate() {
            if !source.valid || i < self.buffers && !self.in_window(&source.key) {
                continue;
            }
            let Some(b) = best else {
                best = Some(i);
                continue;
            };
            match source.compare(&self.sources[b]) {
                Ordering::Equal => self.tied.push(i),
                order if order == wanted => {
                    best = Some(i);
                    self.tied.clear();
                }
                _ => {}
            }
        }
        best
    }

    /// Buffers run ahead of the window.
    fn in_window(&self, key: &[u8]) -> bool {
        let Some(window) = &self.window else { return false };
        match self.walk.forward {
            true => window.range.hi.as_ref().is_none_or(|hi| key < &**hi),
            false => window.range.lo.as_ref().is_none_or(|lo| key >= &**lo),
        }
    }

    /// On to the neighbouring leaf; false at the bounds.
    fn next_window(&mut self) -> Result<bool> {
        let Some(window) = &self.window else { return Ok(false) };
        let edge = match self.walk.forward {
            true => window.range.hi.clone(),
            false => window.range.lo.clone(),
        };
        let Some(edge) = edge else { return Ok(false) };
        let over = match self.walk.forward {
            true => self.walk.hi.as_ref().is_some_and(|hi| &*edge >= hi),
            false => *edge <= self.walk.lo[..],
        };
        if over {
            return Ok(false);
        }
        self.leave_window();
        self.enter_window(Some(&edge))?;
        Ok(true)
    }

    /// Closes the leaf's sources and charges what they cost.
    fn leave_window(&mut self) {
        let Some(window) = self.window.take() else { return };
        let mut charged = window.dead > 0;
        for source in self.sources.drain(self.buffers..) {
            if let Some(heat) = &source.heat {
                let counter = match source.charge {
                    Charge::Edge => &heat.edge,
                    _ => &heat.deltas,
                };
                counter.fetch_add(source.examined + OPEN_COST, Atomic::Relaxed);
                charged = true;
            }
            self.spare_keys.push(source.key);
        }
        self.tied.clear();
        if self.buffer_dead > 0 {
            self.tree.note_buffer_dead(std::mem::take(&mut self.buffer_dead));
        }
        if !charged {
            return;
        }
        window.node.heat.dead.fetch_add(window.dead, Atomic::Relaxed);
        for (id, lo, node) in &window.path {
            if need::heated(node) {
                self.tree.note_hot(*id, lo);
            }
        }
    }

    /// Gives up position and view.
    fn release(&mut self) {
        self.leave_window();
        for source in self.sources.drain(..) {
            self.spare_keys.push(source.key);
        }
        self.buffers = 0;
        self.current = None;
        self.tied.clear();
        self.view = None;
    }
}

impl Drop for TreeCursor {
    fn drop(&mut self) {
        self.leave_window();
    }
}
