//! Merging the runs of a leaf: all of them into new base runs, or some deltas among themselves.
//!
//! A full merge rewrites only where deltas overlap the base: a base run of some size that no delta
//! overlaps is kept by reference. The result is cut into leaves of about `leaf_bytes`. Deltas that
//! arrive meanwhile (possible at a root leaf only) stay on top of the result.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use frond_base::{BlockId, Error, NodeId, Result, Seq};
use frond_run::{Retention, RunFormat};

use crate::draft::Draft;
use crate::input::Input;
use crate::node::{Body, Leaf};
use crate::options::{Formats, TreeOptions};
use crate::plan::{Plan, Step};
use crate::renewal::Renewal;
use crate::rewrite::Rewrite;
use crate::slice::{scale, sum, Key, Range, Slice};
use crate::tree::TreeInner;
use crate::triggers::{self, MergeMode};

pub(crate) struct LeafMerge {
    id: NodeId,
    key: Vec<u8>,
    /// The leaf's range when the merge began; it has not become smaller since.
    range: Range,
    mode: MergeMode,
    snapshots: Vec<Seq>,
    /// Blocks of the leaf when the merge began, and how many deltas it had.
    blocks: HashSet<BlockId>,
    deltas: usize,
    parts: VecDeque<Part>,
    current: Option<Rewrite>,
    /// The result, ascending.
    done: Vec<Slice>,
    /// Stored size at which runs, and leaves, are cut.
    target_bytes: u64,
    pub bytes_written: u64,
    pub input_bytes: u64,
    finished: bool,
}

/// A stretch of the leaf, in key order.
enum Part {
    Keep(Slice),
    /// Inputs newest first; each a list of slices that do not overlap.
    Rewrite(Vec<Vec<Slice>>),
}

impl LeafMerge {
    pub fn begin(tree: &Arc<TreeInner>, plan: &Plan, snapshots: Vec<Seq>) -> Option<LeafMerge> {
        tree.taking(|view, state| {
            state.merges.remove(&plan.node);
            let found = view.trunk.find(plan.lo.as_deref().unwrap_or(&[]), plan.node)?;
            let Body::Leaf(leaf) = &found.node.body else { return None };
            let mode = triggers::merge_mode(leaf, &found.node.heat, &tree.options)?;
            if !state.busy.insert(plan.node) {
                return None;
            }
            let parts = match mode {
                MergeMode::Full => full_parts(leaf, &tree.options, &tree.renewal()),
                MergeMode::Deltas(n) => delta_parts(leaf, n),
            };
            Some(LeafMerge {
                id: plan.node,
                key: found.range.lo_bytes().to_vec(),
                range: found.range.clone(),
                mode,
                snapshots,
                blocks: leaf.slices().map(|s| s.run.block()).collect(),
                deltas: leaf.deltas.len(),
                target_bytes: target_bytes(leaf, mode, &tree.options),
                parts,
                current: None,
                done: Vec::new(),
                bytes_written: 0,
                input_bytes: plan.input_bytes,
                finished: false,
            })
        })
    }

    pub fn step(&mut self, tree: &Arc<TreeInner>) -> Result<Step> {
        if let Some(rewrite) = &mut self.current {
            let known = self.done.len();
            let done = rewrite.step(tree, &mut self.done)?;
            let new = &self.done[known..];
            self.bytes_written += new.iter().map(|s| s.counts.bytes).sum::<u64>();
            if done {
                self.current = None;
            }
            return Ok(Step::More);
        }
        match self.parts.pop_front() {
            Some(Part::Keep(slice)) => self.done.push(slice),
            Some(Part::Rewrite(sources)) => self.current = self.start(tree, sources)?,
            None => {
                self.install(tree)?;
                return Ok(Step::Done);
            }
        }
        Ok(Step::More)
    }

    fn start(&self, tree: &Arc<TreeInner>, sources: Vec<Vec<Slice>>) -> Result<Option<Rewrite>> {
        let inputs = sources.into_iter().map(Input::Slices).collect();
        // Tombstones stay while more is to come below (BD1).
        let bottom = self.mode == MergeMode::Full && !tree.keeps_tombstones();
        let Formats { leaf, upper } = tree.formats();
        let format = match self.mode {
            MergeMode::Full => leaf,
            MergeMode::Deltas(_) => RunFormat { filter: leaf.filter, ..upper },
        };
        let retention = Retention { snapshots: self.snapshots.clone(), bottom };
        Rewrite::open(tree, inputs, &[], retention, format, self.target_bytes)
    }

    fn install(&mut self, tree: &Arc<TreeInner>) -> Result<()> {
        if !fits(&self.done, &self.range, self.mode) {
            let what =
                format!("tree {}, node {}: runs have keys beyond their bounds", tree.id, self.id);
            return Err(Error::corruption(&format!("{}.frd", tree.id.table), what));
        }
        if self.bytes_written > 0 {
            tree.store.sync()?;
        }
        tree.install(&[self.id], None, |draft| match self.mode {
            MergeMode::Full => self.replace(draft),
            MergeMode::Deltas(n) => draft.edit_node(&self.key, self.id, |node, _| {
                if let Body::Leaf(leaf) = &mut node.body {
                    self.replace_deltas(leaf, n);
                }
            }),
        })?;
        self.finished = true;
        Ok(())
    }

    /// Replaces the leaf by leaves of the merged runs, with deltas that arrived meanwhile on top.
    fn replace(&self, draft: &mut Draft) {
        let (newer, range) = draft.edit_node(&self.key, self.id, |node, range| {
            let Body::Leaf(leaf) = &node.body else { panic!("a leaf stays a leaf while marked") };
            let newer = |s: &&Slice| !self.blocks.contains(&s.run.block());
            // A run that arrived meanwhile may have been adopted as base: it overlaps nothing older.
            let came: Vec<Slice> = leaf.slices().filter(newer).cloned().collect();
            (came, range.clone())
        });
        let mut pieces: Vec<(Option<Key>, Leaf)> = vec![(range.lo.clone(), Leaf::default())];
        let mut held = 0;
        for slice in &self.done {
            if held > 0 && held + slice.counts.bytes > self.target_bytes + self.target_bytes / 8 {
                pieces.push((Some(Key::from(slice.first())), Leaf::default()));
                held = 0;
            }
            held += slice.counts.bytes;
            if let Some((_, leaf)) = pieces.last_mut() {
                leaf.base.push(slice.clone());
            }
        }
        let los: Vec<Option<Key>> = pieces.iter().map(|(lo, _)| lo.clone()).collect();
        for (i, (lo, leaf)) in pieces.iter_mut().enumerate() {
            let hi = los.get(i + 1).cloned().flatten().or_else(|| range.hi.clone());
            let own = Range { lo: lo.clone(), hi };
            for slice in newer.iter().rev().filter_map(|s| s.clip(&own)) {
                leaf.place(slice);
            }
            leaf.assert_base();
        }
        draft.replace_leaf(&self.key, self.id, pieces);
    }

    /// The merged delta replaces its inputs. New deltas are added in front only, so positions
    /// counted from the oldest have not changed.
    fn replace_deltas(&self, leaf: &mut Leaf, merged: usize) {
        let came = leaf.deltas.len().checked_sub(self.deltas);
        let Some(came) = came else { panic!("a marked leaf lost deltas (TR2)") };
        leaf.deltas.splice(came..came + merged, self.done.iter().cloned());
    }

    /// The leaf, with its smallest key.
    pub fn at(&self) -> (NodeId, Key) {
        (self.id, Key::from(&self.key[..]))
    }

    /// Gives the mark back.
    pub fn let_go(&mut self, tree: &TreeInner) {
        self.current = None;
        self.done.clear();
        let marked = tree.state.lock().busy.remove(&self.id);
        debug_assert!(marked || std::thread::panicking(), "a mark was lost (TR2)");
        if !self.finished {
            tree.note_given_back(self.id, Some(Key::from(&self.key[..])));
        }
    }
}

/// Whether merged runs fit into the leaf (ND2, ND4). They do not when input runs had keys beyond their metadata:
/// then the file is forged.
fn fits(done: &[Slice], range: &Range, mode: MergeMode) -> bool {
    let inside = |s: &Slice| {
        s.first() >= range.lo_bytes() && range.hi.as_ref().is_none_or(|hi| s.ends_before(hi))
    };
    let apart = mode != MergeMode::Full || done.windows(2).all(|w| w[0].before(&w[1]));
    apart && done.iter().all(inside)
}

/// Stored size of one output run: the leaf cut into equal parts of at most `leaf_bytes`.
fn target_bytes(leaf: &Leaf, mode: MergeMode, options: &TreeOptions) -> u64 {
    if mode != MergeMode::Full {
        return u64::MAX;
    }
    let base = sum(&leaf.base).bytes;
    let base_logical: u64 = leaf.base.iter().map(Slice::logical_bytes).sum();
    let logical = leaf.deltas.iter().map(Slice::logical_bytes).sum::<u64>() + base_logical;
    // The estimate assumes that the result is encoded like the base; without a base, like the deltas.
    let expected = match base {
        0 => sum(&leaf.deltas).bytes,
        _ => scale(base, logical, base_logical).max(base),
    };
    let pieces = expected.div_ceil(options.leaf_bytes).max(1);
    // A little more, so that the last piece is not tiny.
    let even = expected / pieces;
    (even + even / 8).clamp(options.leaf_bytes / 2, options.leaf_bytes + options.leaf_bytes / 8)
}

fn delta_parts(leaf: &Leaf, n: usize) -> VecDeque<Part> {
    let sources = leaf.deltas[..n].iter().map(|s| vec![s.clone()]).collect();
    VecDeque::from([Part::Rewrite(sources)])
}

/// Whether rewriting the run alone makes it smaller, or its values new (RNW2).
fn is_dirty(slice: &Slice, renewal: &Renewal) -> bool {
    let versions = slice.counts.tombstones > 0 || slice.run.meta().max_seq > 0;
    versions || renewal.is_old(slice.run.block())
}

/// All of the leaf: base runs that are kept, and stretches to rewrite between them.
fn full_parts(leaf: &Leaf, options: &TreeOptions, renewal: &Renewal) -> VecDeque<Part> {
    let mut parts = VecDeque::new();
    let mut lo: Option<Key> = None;
    let mut base: Vec<Slice> = Vec::new();
    let (bytes, entries) = triggers::keep_limits(leaf, options);
    for slice in &leaf.base {
        let dirty = is_dirty(slice, renewal);
        let touched = leaf.deltas.iter().any(|d| d.overlaps(slice));
        if touched || dirty || slice.counts.bytes < bytes || slice.counts.entries < entries {
            base.push(slice.clone());
            continue;
        }
        let before = Range { lo: lo.take(), hi: Some(Key::from(slice.first())) };
        parts.extend(stretch(leaf, &before, std::mem::take(&mut base), renewal));
        parts.push_back(Part::Keep(slice.clone()));
        // No delta overlaps the slice, so a stretch that starts at its last key misses none.
        lo = Some(Key::from(slice.last()));
    }
    parts.extend(stretch(leaf, &Range { lo, hi: None }, base, renewal));
    parts
}

/// The deltas within `range` over `base`; `None` when there is nothing.
fn stretch(leaf: &Leaf, range: &Range, base: Vec<Slice>, renewal: &Renewal) -> Option<Part> {
    let deltas = leaf.deltas.iter().filter_map(|d| d.clip(range));
    let mut sources: Vec<Vec<Slice>> = deltas.map(|d| vec![d]).collect();
    if let ([single], true) = (&base[..], sources.is_empty()) {
        // A run between kept ones has nothing to be merged with.
        if !is_dirty(single, renewal) {
            return Some(Part::Keep(single.clone()));
        }
    }
    if !base.is_empty() {
        sources.push(base);
    }
    (!sources.is_empty()).then_some(Part::Rewrite(sources))
}
