//! The current leaf of a cursor: opening the slices on its path, moving to its neighbours, and
//! charging the cost of reading it.
//!
//! - Slices on the path are cut to the leaf's range, so sources of a window have no entries of another one.
//! - Buffers and lists of runs above the trunk are read across windows; an entry of theirs is
//!   current only when its key is in the window.
//! - The first pages of all of the window's runs are read at once.

use std::sync::atomic::Ordering as Atomic;
use std::sync::Arc;

use frond_base::Result;
use frond_run::Access;

use super::{TreeCursor, Window};
use crate::node::{Body, Node};
use crate::slice::{Range, Slice};
use crate::source::{Charge, RunSource, SourceBody};
use crate::triggers;

/// Opening a source counts as this many entries of read work.
const OPEN_COST: u64 = 32;

impl TreeCursor {
    /// Opens the leaf at `from` (backward: the one with the largest keys below it).
    pub(super) fn enter_window(&mut self, from: Option<&[u8]>) -> Result<()> {
        let Some(view) = self.view.clone() else { panic!("a window is a part of a view") };
        let mut node = &view.trunk.root;
        let mut range = Range::all();
        let mut path = std::mem::take(&mut self.spares.path);
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
        // The path's ranges are nested, so the range to cut the slices to is known only now.
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

    /// Reads the first pages of all of the window's runs at once: one after another, each read may
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
        let pages = self.walk.store.pages(&wants, Access::Seek)?;
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

    /// Cuts the slice to the range without new counts, which would need the run's fences.
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

    /// Whether `key` is in the window; buffers are read beyond it.
    pub(super) fn in_window(&self, key: &[u8]) -> bool {
        let Some(window) = &self.window else { return false };
        match self.walk.forward {
            true => window.range.hi.as_ref().is_none_or(|hi| key < &**hi),
            false => window.range.lo.as_ref().is_none_or(|lo| key >= &**lo),
        }
    }

    /// Moves to the neighbouring leaf; false at the bounds.
    pub(super) fn next_window(&mut self) -> Result<bool> {
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

    /// Closes the leaf's sources and charges their cost.
    pub(super) fn leave_window(&mut self) {
        let Some(mut window) = self.window.take() else { return };
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
            self.spares.keys.push(source.key);
        }
        self.tied.clear();
        if self.buffer_dead > 0 {
            self.tree.note_buffer_dead(std::mem::take(&mut self.buffer_dead));
        }
        if charged {
            window.node.heat.dead.fetch_add(window.dead, Atomic::Relaxed);
            for (id, lo, node) in &window.path {
                if triggers::heated(node) {
                    self.tree.note_hot(*id, lo);
                }
            }
        }
        window.path.clear();
        self.spares.path = window.path;
    }
}
