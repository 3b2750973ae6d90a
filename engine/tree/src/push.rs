//! Moving entries down: a frozen item from the top of the tree, or the pending slices of edges of a node.
//!
//! Starting from the top (or from one child), the entries for a child go down in one piece when
//! they are at least `min_slice`; all pending slices of the edges that they pass go with them,
//! because those are older and must not end up above them. The rest stays: it becomes one run of
//! the node, sliced over the edges of those children. A freeze works through the root's children in
//! groups of `group_bytes` of input and installs each group with an edit of its own; the frozen
//! item leaves the view, and the recovery position advances, with the last one. A crash in between
//! replays the whole item from the log: versions that are already in runs then exist twice, which
//! readers and merges treat as one.
//!
//! A node that another job holds is not entered: its part waits on the edge. Nor is a node that was set
//! aside (TG2): a push met a damaged page when it wrote into the node. If the page is not of the edge into
//! this node but of one above it, the next push fails there, until the edge with the page is not passed.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{BlockId, NodeId, Result, Seq};
use frond_run::{Retention, RunFormat};

use crate::draft::{add_to, Draft};
use crate::input::Source;
use crate::node::{Body, Child};
use crate::options::Formats;
use crate::plan::{Plan, Step};
use crate::rewrite::Rewrite;
use crate::row_cache::Telling;
use crate::slice::{Key, Range, Slice};
use crate::state::State;
use crate::tree::TreeInner;
use crate::triggers::Needs;
use crate::view::{Content, Frozen, View};

/// Entries that go to one place.
struct Target {
    /// The node that takes them, with its smallest key; `None`: the top of the tree.
    node: Option<(NodeId, Vec<u8>)>,
    leaf: bool,
    ranges: Vec<Range>,
    /// Newest first.
    inputs: Vec<Source>,
}

/// Slices that a group takes off an edge.
struct Consumed {
    child: NodeId,
    key: Vec<u8>,
    blocks: HashSet<BlockId>,
}

struct Written {
    node: Option<(NodeId, Vec<u8>)>,
    ranges: Vec<Range>,
    slices: Vec<Slice>,
}

/// The target that is being written.
struct Current {
    target: Target,
    rewrite: Rewrite,
    /// The target has nothing older than what is written.
    base: bool,
    slices: Vec<Slice>,
}

#[derive(Default)]
struct Group {
    targets: VecDeque<Target>,
    consumed: Vec<Consumed>,
    written: Vec<Written>,
    marks: Vec<NodeId>,
    /// The group ends here; `None`: it is the last one.
    upto: Option<Key>,
}

pub(crate) struct Push {
    /// The item, when this is a freeze.
    item: Option<Arc<Frozen>>,
    /// What a freeze moves; `None`: a flush, or runs by reference.
    from: Option<Source>,
    snapshots: Vec<Seq>,
    group: Option<Group>,
    current: Option<Current>,
    /// The node into which it writes, with its smallest key.
    into: Option<(NodeId, Key)>,
    /// Present before the last group of an item (RWC1).
    telling: Option<Telling>,
    pub bytes_written: u64,
    /// Estimated bytes that it reads.
    pub input_bytes: u64,
}

/// Plans one group.
struct Router<'a> {
    tree: &'a TreeInner,
    busy: &'a mut HashSet<NodeId>,
    flushes: &'a Needs,
    group: Group,
    ratio: u64,
    /// The newest keys are above all others: they go down at the right edge whatever their size.
    append: bool,
    input: u64,
}

impl Push {
    /// Takes the oldest frozen item.
    pub fn freeze(tree: &Arc<TreeInner>, plan: &Plan, snapshots: Vec<Seq>) -> Option<Push> {
        // Sorts before any lock is taken: committers would wait for the lock when they ask the tree
        // for its debt.
        if let Some(Content::Buffer(buffer)) = tree.view.load().frozen.last().map(|f| &f.content) {
            buffer.settle();
        }
        tree.taking(|view, state| {
            let item = view.frozen.last().cloned()?;
            if state.freezing {
                return None;
            }
            state.freezing = true;
            let from = match &item.content {
                Content::Buffer(buffer) => Some(Source::Buffer(buffer.clone())),
                Content::Runs(_) => None,
            };
            let group = next_group(tree, view, state, from.as_ref());
            Some(Push {
                item: Some(item),
                from,
                snapshots,
                group: Some(group),
                current: None,
                into: None,
                telling: None,
                bytes_written: 0,
                input_bytes: plan.input_bytes,
            })
        })
    }

    /// Of a tree of counts: moves `slice` into the trunk as if it were a frozen buffer.
    #[cfg(any(test, feature = "testing"))]
    pub fn counted(tree: &Arc<TreeInner>, slice: Slice) -> Option<Push> {
        tree.taking(|view, state| {
            state.freezing = true;
            let from = Some(Source::Slice(slice));
            let group = Some(next_group(tree, view, state, from.as_ref()));
            Some(Push {
                item: None,
                from,
                snapshots: Vec::new(),
                group,
                current: None,
                into: None,
                telling: None,
                bytes_written: 0,
                input_bytes: 0,
            })
        })
    }

    /// Takes the pending slices of the edge into the planned node, and those of its neighbours that are due as
    /// well: one run that was cut by child makes all of them due at once. So they share one sync and one
    /// edit of the node above. Each child gets a run of its own: a run for all of them would keep every page
    /// until the last leaf is merged.
    pub fn flush(tree: &Arc<TreeInner>, plan: &Plan, snapshots: Vec<Seq>) -> Option<Push> {
        tree.taking(|view, state| {
            state.flushes.remove(&plan.node);
            let found = view.trunk.find(plan.lo.as_deref().unwrap_or(&[]), plan.node)?;
            let (above, above_range) = found.above?;
            let planned = found.edge?;
            if planned.pending.is_empty() || state.busy.contains(&plan.node) {
                return None;
            }
            let mut input = planned.pending.totals().counts.bytes;
            let mut chosen = vec![false; above.children.len()];
            for (i, child) in above.children.iter().enumerate() {
                let id = child.node.id;
                let bytes = child.pending.totals().counts.bytes;
                let fits = input + bytes <= tree.options.group_bytes;
                let due = fits && state.flushes.has(id) && !state.busy.contains(&id);
                if due && !child.pending.is_empty() {
                    state.flushes.remove(&id);
                    input += bytes;
                    chosen[i] = true;
                }
                chosen[i] |= id == plan.node;
            }
            let mut router = Router::new(tree, state);
            for (i, child) in above.children.iter().enumerate().filter(|(i, _)| chosen[*i]) {
                router.enter(child, &above.range(i, &above_range), &[]);
            }
            let group = Some(router.group);
            Some(Push {
                item: None,
                from: None,
                snapshots,
                group,
                current: None,
                into: None,
                telling: None,
                bytes_written: 0,
                input_bytes: input,
            })
        })
    }

    pub fn step(&mut self, tree: &Arc<TreeInner>) -> Result<Step> {
        let Some(group) = &mut self.group else { panic!("a push has a group until it is done") };
        if let Some(Current { target, rewrite, base, slices }) = &mut self.current {
            let known = slices.len();
            let done = rewrite.step(tree, slices)?;
            self.bytes_written += slices[known..].iter().map(|s| s.counts.bytes).sum::<u64>();
            if done {
                let counters = &tree.counters;
                if target.leaf && !*base {
                    let bytes = slices.iter().map(|s| s.counts.bytes).sum();
                    counters.deltas.fetch_add(slices.len() as u64, Ordering::Relaxed);
                    counters.delta_bytes.fetch_add(bytes, Ordering::Relaxed);
                }
                let written = Written {
                    node: target.node.take(),
                    ranges: std::mem::take(&mut target.ranges),
                    slices: std::mem::take(slices),
                };
                group.written.push(written);
                (self.current, self.into) = (None, None);
            }
            return Ok(Step::More);
        }
        if let Some(target) = group.targets.pop_front() {
            self.into = target.node.as_ref().map(|(id, key)| (*id, Key::from(&key[..])));
            self.current = start(tree, target, &self.snapshots)?;
            return Ok(Step::More);
        }
        if let (Some(item), None) = (&self.item, &group.upto) {
            // The last group: after it, readers do not look into the item any more.
            let telling = self.telling.get_or_insert_with(|| Telling::begin(tree, item));
            if !telling.step(tree)? {
                return Ok(Step::More);
            }
        }
        self.install(tree)
    }

    /// Publishes the finished group and takes the next one.
    fn install(&mut self, tree: &Arc<TreeInner>) -> Result<Step> {
        let Some(group) = &self.group else { panic!("a push has a group until it is done") };
        if group.written.iter().any(|w| !w.slices.is_empty()) {
            tree.store.sync()?;
        }
        let last = group.upto.is_none();
        let finished = self.item.as_ref().filter(|_| last);
        tree.install(&group.marks, finished, |draft| {
            if let Some(Content::Runs(lists)) = self.item.as_ref().map(|i| &i.content) {
                // All of them in one edit: then the log record that names them is no longer needed.
                let busy = tree.state.lock().busy.clone();
                let oldest_first = lists.iter().rev().flat_map(|runs| runs.iter());
                oldest_first.for_each(|slice| attach(draft, slice, &busy));
            }
            apply(draft, group);
        })?;
        let upto = group.upto.clone();
        // The item stays this job's until its last group is in.
        self.let_go_of_group(tree);
        if last {
            if self.is_freeze() {
                self.item = None;
                if let Some(source) = self.from.take() {
                    let counters = &tree.counters;
                    counters.freezes.fetch_add(1, Ordering::Relaxed);
                    counters.entries_flushed.fetch_add(source.entries(), Ordering::Relaxed);
                }
                let mut state = tree.state.lock();
                (state.freezing, state.flushed_to) = (false, None);
            }
            return Ok(Step::Done);
        }
        assert!(self.from.is_some(), "a flush has one group");
        self.group = Some(tree.going_on(|view, state| {
            state.flushed_to = upto;
            next_group(tree, view, state, self.from.as_ref())
        }));
        Ok(Step::More)
    }

    /// The job is over, done or not. Another one may take the item and continue where this one
    /// ended.
    pub fn let_go(&mut self, tree: &TreeInner) {
        self.let_go_of_group(tree);
        if self.is_freeze() {
            self.item = None;
            self.from = None;
            tree.state.lock().freezing = false;
        }
    }

    /// The node into which it writes, with its smallest key; `None`: the top.
    pub fn at(&self) -> Option<(NodeId, Key)> {
        self.into.clone()
    }

    fn is_freeze(&self) -> bool {
        self.item.is_some() || self.from.is_some()
    }

    /// Gives the marks back. The runs that no edit named go with the group.
    fn let_go_of_group(&mut self, tree: &TreeInner) {
        self.current = None;
        let group = self.group.take();
        let mut state = tree.state.lock();
        for edge in group.iter().flat_map(|g| &g.consumed) {
            let marked = state.busy.remove(&edge.child);
            debug_assert!(marked || std::thread::panicking(), "a mark was lost (TR2)");
            tree.note_given_back(edge.child, Some(Key::from(&edge.key[..])));
        }
    }
}

/// The part of the frozen item that is installed next.
fn next_group(tree: &TreeInner, view: &View, state: &mut State, item: Option<&Source>) -> Group {
    let Some(item) = item else { return Group::default() };
    let from = Range { lo: state.flushed_to.clone(), hi: None };
    let source = [item.clone()];
    let mut router = Router::new(tree, state);
    let rest = match &view.trunk.root.body {
        Body::Leaf(_) => vec![from],
        Body::Inner(root) => {
            let first = source[0].first_key(&Range::all());
            router.append = match (first, view.trunk.last_key()) {
                (Some(first), Some(last)) => *first > *last,
                _ => false,
            };
            let mut rest = Vec::new();
            for (i, child) in root.children.iter().enumerate() {
                // Children are taken whole, even when the previous group ended within this one (the
                // root split, or children were joined): either all pending slices of an edge go
                // down or none. Entries that were installed already are then installed twice.
                let range = root.range(i, &Range::all());
                if range.intersect(&from).is_empty() {
                    continue;
                }
                if router.input >= tree.options.group_bytes {
                    router.group.upto = range.lo.clone();
                    break;
                }
                if !router.route(child, &range, &source) {
                    add_range(&mut rest, range);
                }
            }
            rest
        }
    };
    let mut group = router.group;
    if !rest.is_empty() {
        let leaf = matches!(view.trunk.root.body, Body::Leaf(_));
        let inputs = source.to_vec();
        group.targets.push_back(Target { node: None, leaf, ranges: rest, inputs });
    }
    group
}

/// Appends a range, joining it to the one before when they touch.
fn add_range(ranges: &mut Vec<Range>, range: Range) {
    match ranges.last_mut() {
        Some(last) if last.hi.is_some() && last.hi == range.lo => last.hi = range.hi,
        _ => ranges.push(range),
    }
}

impl<'a> Router<'a> {
    fn new(tree: &'a TreeInner, state: &'a mut State) -> Router<'a> {
        let ratio = tree.ratio.load(Ordering::Relaxed);
        let State { busy, flushes, .. } = state;
        Router { tree, busy, flushes, group: Group::default(), ratio, append: false, input: 0 }
    }

    /// Sends the entries of `upper` in `range` into `child` if they are large enough and the child
    /// is free. False: they have to wait.
    fn route(&mut self, child: &Child, range: &Range, upper: &[Source]) -> bool {
        let from_above: u64 = upper.iter().map(|s| s.weight(range, self.ratio)).sum();
        let waiting = child.pending.totals().counts.bytes;
        self.input += from_above;
        let at_edge = self.append && range.hi.is_none();
        let enough = from_above + waiting >= self.tree.options.min_slice && from_above > 0;
        let id = child.node.id;
        if !(enough || at_edge) || self.busy.contains(&id) || self.flushes.is_aside(id) {
            return false;
        }
        self.input += waiting;
        self.enter(child, range, upper);
        true
    }

    /// Marks the child and goes on below it.
    fn enter(&mut self, child: &Child, range: &Range, upper: &[Source]) {
        let id = child.node.id;
        assert!(self.busy.insert(id), "node {id} is marked by two jobs (TR4)");
        self.group.marks.push(id);
        let key = range.lo_bytes().to_vec();
        let blocks = child.pending.iter().map(|s| s.run.block()).collect();
        self.group.consumed.push(Consumed { child: id, key: key.clone(), blocks });
        let mut inputs = upper.to_vec();
        inputs.extend(child.pending.iter().cloned().map(Source::Slice));
        let (leaf, ranges) = match &child.node.body {
            Body::Leaf(_) => (true, vec![range.clone()]),
            Body::Inner(inner) => {
                let mut rest = Vec::new();
                for (i, below) in inner.children.iter().enumerate() {
                    let range = inner.range(i, range);
                    if !self.route(below, &range, &inputs) {
                        add_range(&mut rest, range);
                    }
                }
                (false, rest)
            }
        };
        if !ranges.is_empty() {
            let node = Some((id, key));
            self.group.targets.push_back(Target { node, leaf, ranges, inputs });
        }
    }
}

/// Opens the inputs of a target; `None` when there is nothing in its ranges.
fn start(tree: &Arc<TreeInner>, target: Target, snapshots: &[Seq]) -> Result<Option<Current>> {
    let below = target.leaf && nothing_below(tree, &target);
    // Tombstones stay while more is to come below (BD1), even in the leaf's own format.
    let bottom = below && !tree.keeps_tombstones();
    let (options, Formats { leaf, upper }) = (&tree.options, tree.formats());
    let (format, bytes) = match target.leaf {
        true if below => (leaf, options.leaf_bytes),
        true => (RunFormat { filter: leaf.filter, ..upper }, options.leaf_bytes),
        false => (RunFormat { filter: false, ..upper }, options.group_bytes),
    };
    let retention = Retention { snapshots: snapshots.to_vec(), bottom };
    let inputs = target.inputs.iter().map(|source| source.within(&target.ranges)).collect();
    let rewrite = Rewrite::open(tree, inputs, &target.ranges, retention, format, bytes)?;
    Ok(rewrite.map(|rewrite| Current { target, rewrite, base: below, slices: Vec::new() }))
}

/// Whether the target leaf has no key as large as the smallest new one. This stays true until the
/// job installs, because only this job adds to the leaf: the leaf is marked busy, or it is the
/// root, to which only freezes add, and this is one.
fn nothing_below(tree: &TreeInner, target: &Target) -> bool {
    let first = target
        .ranges
        .iter()
        .find_map(|range| target.inputs.iter().filter_map(|s| s.first_key(range)).min());
    let Some(first) = first else { return false };
    let view = tree.view.load();
    let node = match &target.node {
        Some((id, key)) => view.trunk.find(key, *id).map(|f| f.node),
        None => Some(&view.trunk.root),
    };
    match node.map(|n| &n.body) {
        Some(Body::Leaf(leaf)) => leaf.slices().all(|s| s.ends_before(&first)),
        _ => false,
    }
}

fn apply(draft: &mut Draft, group: &Group) {
    for edge in &group.consumed {
        if edge.blocks.is_empty() {
            continue;
        }
        draft.edit_parent(&edge.key, edge.child, |parent, i, _| {
            let child = &mut parent.children[i];
            let keep = child.pending.iter().filter(|s| !edge.blocks.contains(&s.run.block()));
            child.pending = keep.cloned().collect();
            child.node.heat.edge.store(0, Ordering::Relaxed);
        });
    }
    for written in &group.written {
        if let Some((id, _)) = &written.node {
            assert!(group.marks.contains(id), "node {id} gets entries and is not marked (TR4)");
        }
        for slice in &written.slices {
            match &written.node {
                Some((id, key)) => draft.add(key, *id, slice, &written.ranges),
                None => draft.add_top(slice, &written.ranges),
            }
        }
    }
}

/// Takes over a run by reference: as deep as it fits into one child with nothing newer above it.
fn attach(draft: &mut Draft, slice: &Slice, busy: &HashSet<NodeId>) {
    let mut range = Range::all();
    let mut at = &mut draft.root;
    loop {
        let node = Arc::make_mut(at);
        let inside = match &node.body {
            Body::Leaf(_) => None,
            Body::Inner(inner) => {
                let i = inner.child_for(slice.first());
                let child = &inner.children[i];
                let child_range = inner.range(i, &range);
                let fits = child_range.hi.as_ref().is_none_or(|hi| slice.ends_before(hi));
                let free = !busy.contains(&child.node.id)
                    && !child.pending.iter().any(|p| p.overlaps(slice));
                (fits && free).then_some((i, child_range))
            }
        };
        let Some((i, child_range)) = inside else {
            add_to(node, &range, slice, &[Range::all()]);
            return;
        };
        let Body::Inner(inner) = &mut node.body else { panic!("only inner nodes have children") };
        range = child_range;
        at = &mut inner.children[i].node;
    }
}
