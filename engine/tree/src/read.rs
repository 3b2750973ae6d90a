//! Point reads: no lock, no allocation beyond the caller's buffers.
//!
//! The view's sources are searched newest first; in the trunk these are, on the path from the root
//! to the key, the pending slices of each edge, then the leaf's deltas, then its base. The first
//! version that the snapshot sees decides. The row cache is searched before the trunk (`rows.rs`).

use std::cmp::Ordering;
use std::sync::Arc;

use frond_base::{EntryKind, Result, Seq, SEQ_MAX};
use frond_run::Reader;

use crate::node::Body;
use crate::rows::{Found, Trace};
use crate::slice::Slice;
use crate::tree::{Tree, TreeInner};
use crate::view::{Content, View};

impl Tree {
    /// The value of `key` at snapshot `at` replaces the content of `value`; the result is the
    /// version's sequence (0: older than all snapshots). `None`: there is no such row.
    pub fn get(&self, key: &[u8], at: Seq, value: &mut Vec<u8>) -> Result<Option<Seq>> {
        value.clear();
        let found = self.inner.lookup(key, at, Some(value))?;
        Ok(found.and_then(|(seq, kind)| (kind == EntryKind::Put).then_some(seq)))
    }

    /// The newest committed version of `key`, a tombstone included. `None`: there is none, or it
    /// was a tombstone older than every snapshot and is gone.
    pub fn newest(&self, key: &[u8]) -> Result<Found> {
        self.inner.lookup(key, SEQ_MAX, None)
    }

    /// As [`Self::newest`]; its value replaces the content of `value`.
    pub fn newest_value(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Found> {
        value.clear();
        self.inner.lookup(key, SEQ_MAX, Some(value))
    }

    /// The sequence of [`Self::newest`].
    pub fn newest_seq(&self, key: &[u8]) -> Result<Option<Seq>> {
        Ok(self.newest(key)?.map(|(seq, _)| seq))
    }

    /// Replaces `out` by a key that no key of the tree exceeds; false when the tree is empty. From
    /// memory alone, for the cost of a walk to a leaf: a larger key is certainly new. The key itself may have been
    /// deleted.
    pub fn last_key(&self, out: &mut Vec<u8>) -> Result<bool> {
        Ok(self.outermost(out, true))
    }

    /// As [`Tree::last_key`], of a key that no key of the tree is below.
    pub fn first_key(&self, out: &mut Vec<u8>) -> Result<bool> {
        Ok(self.outermost(out, false))
    }

    /// Whether `key` is above [`Tree::last_key`].
    pub fn is_beyond(&self, key: &[u8]) -> bool {
        let mut beyond = true;
        ends(&self.inner.view.load(), true, |last| beyond &= *last < *key);
        beyond
    }

    #[inline]
    fn outermost(&self, out: &mut Vec<u8>, last: bool) -> bool {
        out.clear();
        let mut any = false;
        ends(&self.inner.view.load(), last, |key| {
            if !any || (last && key > &out[..]) || (!last && key < &out[..]) {
                out.clear();
                out.extend_from_slice(key);
            }
            any = true;
        });
        any
    }
}

/// Calls `consider` with the last key, or the first one, of each source that has any.
#[inline]
fn ends(view: &View, last: bool, mut consider: impl FnMut(&[u8])) {
    let trunk = &view.trunk;
    let of_trunk = if last { trunk.last_key() } else { trunk.first_key() };
    of_trunk.into_iter().for_each(&mut consider);
    view.active.ends(|a, b| consider(if last { b } else { a }));
    for item in &view.frozen {
        match &item.content {
            Content::Buffer(buffer) => buffer.ends(|a, b| consider(if last { b } else { a })),
            Content::Runs(lists) => {
                for runs in lists.iter() {
                    let end = match last {
                        true => runs.last().map(Slice::last),
                        false => runs.first().map(Slice::first),
                    };
                    end.into_iter().for_each(&mut consider);
                }
            }
        }
    }
}

impl TreeInner {
    /// The newest version with `seq <= at`; its value is appended to `value`.
    fn lookup(&self, key: &[u8], at: Seq, mut value: Option<&mut Vec<u8>>) -> Result<Found> {
        let view = self.view.load();
        if let Some(found) = buffered(&view.active, key, at, &mut value) {
            return Ok(Some(found));
        }
        for item in &view.frozen {
            let found = match &item.content {
                Content::Buffer(buffer) => buffered(buffer, key, at, &mut value),
                Content::Runs(lists) => self.probe_lists(lists, key, at, &mut value)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        self.lookup_trunk(&view, key, at, value)
    }

    /// As [`Self::lookup_trunk`], without the row cache.
    pub(crate) fn descend(
        &self,
        view: &View,
        key: &[u8],
        at: Seq,
        value: &mut Option<&mut Vec<u8>>,
        trace: &mut Trace,
    ) -> Result<Found> {
        let mut node = &view.trunk.root;
        loop {
            match &node.body {
                Body::Inner(inner) => {
                    let child = &inner.children[inner.child_for(key)];
                    for slice in child.pending.iter() {
                        let found = self.probe(slice, key, at, value, trace)?;
                        if found.is_some() {
                            return Ok(found);
                        }
                    }
                    node = &child.node;
                }
                Body::Leaf(leaf) => {
                    for slice in leaf.deltas.iter().chain(leaf.base_for(key)) {
                        let found = self.probe(slice, key, at, value, trace)?;
                        if found.is_some() {
                            return Ok(found);
                        }
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// The newest version in lists of runs: newest list first, each ascending and not overlapping.
    pub(crate) fn probe_lists(
        &self,
        lists: &[Arc<[Slice]>],
        key: &[u8],
        at: Seq,
        value: &mut Option<&mut Vec<u8>>,
    ) -> Result<Found> {
        for runs in lists {
            let after = runs.partition_point(|s| s.first() <= key);
            let Some(slice) = runs[..after].last() else { continue };
            let found = self.probe(slice, key, at, value, &mut Trace::default())?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    #[inline]
    fn probe(
        &self,
        slice: &Slice,
        key: &[u8],
        at: Seq,
        value: &mut Option<&mut Vec<u8>>,
        trace: &mut Trace,
    ) -> Result<Found> {
        if !slice.contains(key) {
            return Ok(None);
        }
        if slice.run.meta().is_after(at) {
            trace.passed = true;
            return Ok(None);
        }
        let index = slice.run.index()?;
        if !index.may_contain(key) {
            return Ok(None);
        }
        let mut number = index.page_for_seek(key);
        let page = self.store.page_for_point(&slice.run.run, number, &mut trace.read)?;
        let mut reader = Reader::new(page);
        let mut i = reader.lower_bound(key, 0);
        loop {
            if i == reader.page().len() {
                // Versions of the key, or its first one, may start the next page; its fence tells.
                number += 1;
                if number >= index.pages() || *index.fence(number) != *key {
                    return Ok(None);
                }
                let page = self.store.page_for_point(&slice.run.run, number, &mut trace.read)?;
                reader = Reader::new(page);
                i = 0;
            }
            if reader.compare_key(i, key) != Ordering::Equal {
                return Ok(None);
            }
            let seq = slice.run.meta().seq(&mut reader, i);
            if seq <= at {
                if let Some(value) = value {
                    let range = reader.value(i);
                    value.extend_from_slice(reader.page().value_at(range));
                }
                return Ok(Some((seq, reader.kind(i))));
            }
            trace.passed = true;
            i += 1;
        }
    }
}

fn buffered(
    buffer: &frond_buffer::WriteBuffer,
    key: &[u8],
    at: Seq,
    value: &mut Option<&mut Vec<u8>>,
) -> Option<(Seq, EntryKind)> {
    if buffer.is_empty() {
        return None;
    }
    match value {
        Some(value) => buffer.get(key, at, value),
        None => buffer.newest(key),
    }
}
