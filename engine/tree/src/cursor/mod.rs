//! Cursors: ordered reads in both directions at one snapshot.
//!
//! A cursor goes through the tree leaf by leaf. For the current leaf (its window) it opens the
//! slices on the path that overlap the window, so a short range read opens few pages; buffers are
//! read in batches across windows. Of the sources, ranked newest first, the smallest key wins
//! (backward: the largest), at equal keys the newest source; a tombstone hides the key.
//!
//! Invariants
//!
//! - CU1. Sources are in rank order: private runs newest first, active buffer, frozen items newest first, edges from the root
//!   down, each newest first, deltas newest first, base.
//! - CU2. The cursor reads one view. It takes a new one every `cursor_refills` loads, re-seeking by
//!   key: the snapshot sees the same in any view. So no cursor keeps dead runs or flushed buffers
//!   alive for long. From one of these keys to the next it gets on: otherwise stored keys are not in order,
//!   and it would walk for ever.
//!
//! When it leaves a window the cursor adds the dead entries, and those that it read outside the
//! leaf's base, to the node's heat: so leaves that are read often or rich in tombstones are merged.
//!
//! `cursor/window.rs` has the current leaf, `cursor/same_source.rs` steps within a page, `cursor/dead.rs` and
//! `cursor/dead_keys.rs` ranges without rows, `bounds.rs` the range that callers give. Tested in `tests/`.

use std::cmp::Ordering;
use std::sync::Arc;

use frond_base::{EntryKind, Error, Result, Seq};

use crate::bounds::{successor, Bounds};
use crate::node::Node;
use crate::private::PrivateView;
use crate::slice::{Range, Slice};
use crate::source::{BufferSource, Charge, RunSource, Source, SourceBody, Walk};
use crate::tree::{Tree, TreeInner};
use crate::view::{Active, Content, View};

use self::spares::{Spares, Step};

mod dead;
mod dead_keys;
mod same_source;
mod spares;
mod window;

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

/// An ordered read position. Owns its view; may move between threads.
pub struct TreeCursor {
    tree: Arc<TreeInner>,
    walk: Walk,
    view: Option<Arc<View>>,
    /// The first `buffers` of them are kept across windows.
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
    /// How far the current source's page or batch can be read without comparing it with other
    /// sources (GD1), if that is known.
    limit: Option<usize>,
    /// The key at which it took its view, if this walk has taken a new one (CU2).
    renewed: Option<Vec<u8>>,
    /// Its list of sources is not used: that is `sources`.
    spares: Spares,
    dead: u64,
    buffer_dead: u64,
    /// The dead keys since the last row, while the cursor moves.
    dead_keys: dead_keys::DeadKeys,
    /// Whether this cursor reads a range again to confirm it (KR2).
    verifies: bool,
    /// The largest sequence of a tombstone that it has passed.
    dead_newest: Seq,
}

/// The current leaf.
struct Window {
    node: Arc<Node>,
    range: Range,
    /// The nodes on the path. Their heats and those of their edges are updated when the window is
    /// left.
    path: Vec<Step>,
    dead: u64,
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
            limit: None,
            renewed: None,
            spares: Spares::default(),
            dead: 0,
            buffer_dead: 0,
            dead_keys: dead_keys::DeadKeys::default(),
            verifies: false,
            dead_newest: 0,
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

    /// Reads the uncommitted runs of a transaction above all committed sources. Gives up the
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
    #[inline]
    pub fn set_at(&mut self, at: Seq) {
        self.release();
        self.walk.at = at;
    }

    /// Lets go of position, view, private runs and interrupt, and leaves its memory to other cursors of the thread.
    pub fn rest(&mut self) {
        // One that was not positioned has nothing else.
        if self.view.is_some() || !self.sources.is_empty() {
            self.release();
        }
        if self.sources.capacity() > 0 {
            let sources = std::mem::take(&mut self.sources);
            Spares { sources, ..std::mem::take(&mut self.spares) }.leave();
        }
        self.private = None;
        self.walk.interrupt = None;
    }

    pub fn has_interrupt(&self) -> bool {
        self.walk.interrupt.is_some()
    }

    /// Gives up the position, and the view unless it is still the tree's. A reader of the newest
    /// versions calls this before each positioning; otherwise it misses commits to a buffer that
    /// the view does not have.
    pub fn look_anew(&mut self) {
        self.leave_window();
        self.current = None;
        self.tied.clear();
        let is_newest = |view: &Arc<View>| Arc::ptr_eq(view, &self.tree.view.load());
        if !self.view.as_ref().is_some_and(is_newest) {
            self.release();
        }
    }

    pub fn valid(&self) -> bool {
        self.current.is_some()
    }

    #[inline]
    fn at_entry(&self) -> &Source {
        match self.current {
            Some(i) => &self.sources[i],
            None => panic!("the cursor is not at an entry"),
        }
    }

    /// Requires `valid()`, as do `value` and `seq`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.at_entry().key
    }

    #[inline]
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
            Seek::Ge => self.start_forward(Some(key)),
            Seek::Gt => self.start_forward(Some(&successor(key))),
            Seek::Le => self.start_backward(Some(successor(key))),
            Seek::Lt => self.start_backward(Some(key.to_vec())),
        }
    }

    /// To the next entry; requires `valid()`. False at the end.
    // Not an iterator: an entry is borrowed from the cursor.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<bool> {
        if self.glide() {
            return Ok(true);
        }
        self.leap()
    }

    /// As [`Self::next`], after [`Self::glide`] has returned false.
    pub fn leap(&mut self) -> Result<bool> {
        self.go(true)
    }

    /// To the entry before; requires `valid()`. False at the start.
    pub fn prev(&mut self) -> Result<bool> {
        self.go(false)
    }

    fn go(&mut self, forward: bool) -> Result<bool> {
        let Some(current) = self.current else { panic!("the cursor is not at an entry") };
        let turns = forward != self.walk.forward;
        let renews = self.walk.refills >= self.tree.options.cursor_refills;
        if renews || turns {
            let key = self.sources[current].key.clone();
            if renews {
                let before = self.renewed.take().filter(|_| !turns);
                self.release();
                let gets_on = |before: Vec<u8>| if forward { key > before } else { key < before };
                if !before.is_none_or(gets_on) {
                    let what = format!("the stored keys of tree {} are not in order", self.tree.id);
                    let file = format!("{}.frd", self.tree.id.table);
                    return Err(Error::corruption(&file, what));
                }
            }
            let found = self.seek(&key, if forward { Seek::Gt } else { Seek::Lt });
            self.renewed = renews.then_some(key);
            return found;
        }
        let moved = self.pass(current).and_then(|()| self.settle());
        self.or_lost(moved)
    }

    /// After an error there is no position.
    fn or_lost(&mut self, moved: Result<bool>) -> Result<bool> {
        if moved.is_err() {
            self.release();
        }
        moved
    }

    fn start_forward(&mut self, from: Option<&[u8]>) -> Result<bool> {
        self.renewed = None;
        let lo;
        let from = match from {
            Some(key) if *key > self.walk.lo[..] => key,
            _ => {
                lo = self.walk.lo.clone();
                &lo
            }
        };
        if self.walk.hi.as_ref().is_some_and(|hi| *from >= hi[..]) {
            self.leave_window();
            self.current = None;
            return Ok(false);
        }
        let moved = self.start(true, Some(from));
        self.or_lost(moved)
    }

    fn start_backward(&mut self, from: Option<Vec<u8>>) -> Result<bool> {
        self.renewed = None;
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
        self.place(forward, from)?;
        self.settle()
    }

    fn place(&mut self, forward: bool, from: Option<&[u8]>) -> Result<()> {
        self.leave_window();
        self.note_taken();
        self.current = None;
        self.tied.clear();
        self.walk.forward = forward;
        if self.view.is_none() {
            self.open_view();
        }
        for source in &mut self.sources[..self.buffers] {
            source.seek(&mut self.walk, from)?;
        }
        self.enter_window(from)
    }

    /// The next seek's first batches will be as large as what this walk has taken from a buffer.
    fn note_taken(&mut self) {
        let of = |source: &Source| match &source.body {
            SourceBody::Buffer(buffer) => Some(buffer.taken()),
            SourceBody::Run(_) => None,
        };
        if let Some(most) = self.sources[..self.buffers].iter().filter_map(of).max() {
            self.walk.taken = most;
        }
    }

    fn open_view(&mut self) {
        let view = self.tree.view.load_full();
        self.walk.refills = 0;
        if self.sources.capacity() == 0 {
            if let Some(found) = Spares::found() {
                self.spares = found;
                self.sources = std::mem::take(&mut self.spares.sources);
            }
        }
        if let Some(private) = self.private.take() {
            private.lists().iter().for_each(|runs| self.add_runs(runs));
            self.private = Some(private);
        }
        self.privates = self.sources.len();
        self.add_buffer(&view.active);
        for item in &view.frozen {
            match &item.content {
                Content::Buffer(buffer) => self.add_buffer(buffer),
                Content::Runs(lists) => lists.iter().for_each(|runs| self.add_runs(runs)),
            }
        }
        self.buffers = self.sources.len();
        self.view = Some(view);
    }

    /// A list of runs that is read across windows, if a part of it is within the bounds.
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

    fn add_buffer(&mut self, buffer: &Arc<Active>) {
        if !buffer.is_empty() || !buffer.is_frozen() {
            let batch = self.spares.batch.take().unwrap_or_default();
            let body = SourceBody::Buffer(BufferSource::new(buffer.clone(), batch));
            self.add(body, None, Charge::None);
        }
    }

    fn add(&mut self, body: SourceBody, heat: Option<&Arc<Node>>, charge: Charge) {
        let key = self.spares.keys.pop().unwrap_or_default();
        let heat = heat.map(|n| n.heat.clone());
        self.sources.push(Source::new(body, heat, charge, key));
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

    /// Finds the current entry from the sources' positions; skips tombstones and goes on from
    /// window to window.
    fn settle(&mut self) -> Result<bool> {
        let found = self.find_row();
        if found.is_err() {
            self.dead_keys.clear();
        }
        self.end_dead()?;
        found
    }

    fn find_row(&mut self) -> Result<bool> {
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
            if let Some(range) = self.note_dead(best) {
                let forward = self.walk.forward;
                let edge = if forward { &range.hi } else { &range.lo };
                let over = match forward {
                    true => self.walk.hi.as_ref().is_some_and(|hi| **edge >= hi[..]),
                    false => **edge <= self.walk.lo[..],
                };
                if over {
                    self.leave_window();
                    self.tied.clear();
                    return Ok(false);
                }
                self.place(forward, Some(edge))?;
                continue;
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
        debug_assert!(self.privates <= self.buffers && self.buffers <= self.sources.len(), "CU1");
        self.tied.clear();
        self.limit = None;
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

    /// Gives up position and view.
    fn release(&mut self) {
        self.leave_window();
        self.note_taken();
        for source in self.sources.drain(..) {
            self.spares.keys.push(source.key);
            if let SourceBody::Buffer(buffer) = source.body {
                self.spares.keep_batch(buffer.into_batch());
            }
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
