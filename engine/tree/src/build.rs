//! The trees of indexes that are being built, and of indexes that were dropped.
//!
//! A tree that is built takes committed entries from its first moment. The entries of the rows that were
//! there before come later, as runs that are put *below* everything ([`Tree::attach_below`]): in each
//! leaf they become the base. So what was written meanwhile is newer, deletions included.
//!
//! - BD1. While a tree is built, its merges keep tombstones: the runs that come below may have their keys.
//! - BD2. Runs are put below only while no job of the tree is under way: a leaf merge takes runs
//!   that arrive meanwhile for newer ones. The tree is held for that, so no job begins.
//! - BD3. An abandoned tree begins no job and takes no entries. [`Tree::clear`] empties it by one edit, which
//!   frees all its blocks.
//!
//! Tested in `tests/it/build.rs`.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Lsn, Result};

use crate::draft::Draft;
use crate::node::{Body, Leaf, Node};
use crate::private::PrivateRuns;
use crate::slice::{Range, Slice};
use crate::tree::{Tree, TreeInner};
use crate::view::{Content, View};

/// Bits of `TreeInner::phase`; 0: an ordinary tree.
const BUILDING: u8 = 1;
const HELD: u8 = 2;
const ABANDONED: u8 = 4;

impl TreeInner {
    /// BD1.
    pub fn keeps_tombstones(&self) -> bool {
        self.phase.load(Ordering::Acquire) & BUILDING != 0
    }

    /// BD2, BD3.
    pub fn begins_no_job(&self) -> bool {
        self.phase.load(Ordering::Acquire) & (HELD | ABANDONED) != 0
    }

    fn set_phase(&self, bit: u8, on: bool) {
        match on {
            true => self.phase.fetch_or(bit, Ordering::AcqRel),
            false => self.phase.fetch_and(!bit, Ordering::AcqRel),
        };
    }

    fn has_no_job(&self) -> bool {
        let state = self.state.lock();
        state.busy.is_empty() && !state.freezing
    }
}

/// While this is held, no job of the tree begins.
pub struct TreeHold(Arc<TreeInner>);

impl TreeHold {
    /// Whether no job is under way that began before.
    pub fn has_no_job(&self) -> bool {
        self.0.has_no_job()
    }
}

impl Drop for TreeHold {
    fn drop(&mut self) {
        self.0.set_phase(HELD, false);
    }
}

impl Tree {
    /// Marks the tree as being built (BD1), or as complete.
    pub fn set_building(&self, on: bool) {
        self.inner.set_phase(BUILDING, on);
    }

    pub fn is_building(&self) -> bool {
        self.inner.keeps_tombstones()
    }

    /// Holds the tree: no new job begins, so its runs change only by jobs that are under way.
    /// `None`: it is held already.
    pub fn hold(&self) -> Option<TreeHold> {
        let inner = &self.inner;
        let mut was_held = false;
        // Under the install lock: a job that takes nodes after it sees the mark.
        inner.holding(|| {
            was_held = inner.phase.fetch_or(HELD, Ordering::AcqRel) & HELD != 0;
        });
        (!was_held).then(|| TreeHold(inner.clone()))
    }

    /// Puts private runs below everything that the tree holds, by one edit; they are in one list and synced.
    /// `wait` is called while a job is under way, and returns whether to go on.
    pub fn attach_below(
        &self,
        private: &mut PrivateRuns,
        wait: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        assert!(
            self.is_building(),
            "runs are put below a tree that may have dropped tombstones (BD1)"
        );
        let inner = &self.inner;
        let Some(hold) = self.hold() else {
            return Err(Error::new(ErrorKind::Busy, "the table is being exported"));
        };
        while !hold.has_no_job() {
            wait()?;
        }
        let Some(runs) = private.only_list() else { return Ok(()) };
        inner.forget_rows();
        inner.install(&[], None, |draft| {
            assert!(inner.has_no_job(), "runs are put below beside a job (BD2)");
            put_below(&mut draft.root, &Range::all(), &runs);
        })?;
        inner.rows_forgotten();
        inner.dead_ranges.clear();
        private.installed();
        Ok(())
    }

    /// The index was dropped: nothing of the tree is read or wanted any more (BD3).
    pub fn abandon(&self) {
        self.inner.holding(|| self.inner.set_phase(ABANDONED, true));
    }

    #[inline]
    pub fn is_abandoned(&self) -> bool {
        self.inner.phase.load(Ordering::Acquire) & ABANDONED != 0
    }

    /// Nothing is stored or buffered.
    pub fn is_clear(&self) -> bool {
        let view = self.inner.view.load();
        let empty = matches!(&view.trunk.root.body, Body::Leaf(leaf) if leaf.is_empty());
        empty && view.frozen.is_empty() && view.active.first_lsn() == Lsn::MAX
    }

    /// Empties an abandoned tree; its blocks are free when the edit is durable. All records that have entries
    /// of the tree start below `boundary`. False: a job is under way, try again later.
    pub fn clear(&self, boundary: Lsn) -> Result<bool> {
        assert!(self.is_abandoned(), "a tree in use is cleared (BD3)");
        let inner = &self.inner;
        if !inner.has_no_job() {
            return Ok(false);
        }
        if self.is_clear() {
            return Ok(true);
        }
        inner.forget_rows();
        inner.install(&[], None, |draft: &mut Draft| {
            let id = draft.new_id();
            draft.root = Arc::new(Node::leaf(id, Leaf::default()));
            draft.flushed_upto = draft.flushed_upto.max(boundary);
        })?;
        let (gone, lsn) = inner.forget_buffers();
        // Runs that were attached and that no edit names.
        let attached = gone.frozen.iter().filter_map(|item| match &item.content {
            Content::Runs(lists) => Some(lists),
            Content::Buffer(_) => None,
        });
        attached.flatten().flat_map(|runs| runs.iter()).for_each(|s| s.run.set_retired(lsn));
        Ok(true)
    }
}

impl TreeInner {
    /// Takes all buffers out of the view; returns the view before, and the position of the newest edit.
    fn forget_buffers(&self) -> (Arc<View>, Lsn) {
        self.swap_view(|view, active| {
            let trunk = view.trunk.clone();
            let lsn = trunk.applied.saturating_sub(1);
            let taken_in = self.rows.told_now();
            (View { active, frozen: Vec::new(), trunk, taken_in }, lsn)
        })
    }
}

/// Makes `runs`, clipped, the base of all leaves below `node`.
fn put_below(node: &mut Arc<Node>, range: &Range, runs: &[Slice]) {
    let from = runs.partition_point(|s| s.ends_before(range.lo_bytes()));
    let upto = runs.partition_point(|s| range.hi.as_ref().is_none_or(|hi| s.first() < &**hi));
    if from >= upto {
        return;
    }
    let inside = &runs[from..upto];
    match &mut Arc::make_mut(node).body {
        Body::Leaf(leaf) => {
            let below = inside.iter().filter_map(|s| s.clip(range)).collect();
            let above = std::mem::replace(&mut leaf.base, below);
            leaf.deltas.extend(above);
        }
        Body::Inner(inner) => {
            for i in 0..inner.children.len() {
                let range = inner.range(i, range);
                put_below(&mut inner.children[i].node, &range, inside);
            }
        }
    }
}
