//! Private runs: changes of one tree that a transaction has written to the table's file before it commits.
//!
//! A transaction whose write set takes too much memory writes it out as a *generation*: a list of
//! runs, ascending and not overlapping, with one version per key and without sequences. Newer
//! generations hide older ones. Commit hands all of them to the tree by reference
//! ([`Tree::attach_private`]) and gives them one sequence; dropping them gives their blocks back.
//!
//! Invariants
//!
//! - PV1. No edit, image or log record names a private run, so a crash frees its blocks. The record
//!   of a prepared transaction names its private runs: they are [kept](PrivateRuns::keep).
//! - PV2. A generation holds the changes of one [`Segment`] of the transaction's operations; segments of
//!   later generations are later. No live savepoint is inside a segment: a rollback drops whole
//!   generations.
//! - PV3. [`PrivateRuns::tidy`] leaves at most seven generations of a size class (a factor of
//!   eight) that could be merged, so a point read searches a logarithmic number of them. Keys that
//!   arrive in order make a generation longer and are never written again. Of generations that nobody reads before the
//!   last merge, [`PrivateRuns::tidy_parts`] leaves 31.
//!
//! Not here: when to write a generation out, and the log. Tested in `tests/` and by the engine's tests.

use std::sync::Arc;

use frond_base::{EntryKind, Lsn, Result, Seq, TreeId, SEQ_MAX};
use frond_run::{Compression, MergeInput, Retention, RunFormat, RunMeta};

use crate::extent::Extent;
use crate::input;
use crate::rewrite::Rewrite;
use crate::slice::{Range, Slice};
use crate::store::TrunkRun;
use crate::tree::{Tree, TreeInner};

/// Generations of one size class that are merged.
const FAN_IN: usize = 8;
/// Generations that are merged at once when they are the last ones.
const FAN_IN_LAST: usize = 32;

/// Operations of a transaction: those after `after`, up to and including `upto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub after: u64,
    pub upto: u64,
}

impl Segment {
    /// Whether returning to one of `marks` would cut the segment.
    fn is_cut(self, marks: &[u64]) -> bool {
        marks.iter().any(|m| self.after < *m && *m < self.upto)
    }
}

struct Generation {
    runs: Arc<[Slice]>,
    segment: Segment,
    bytes: u64,
    entries: u64,
}

impl Generation {
    fn new(runs: Vec<Slice>, segment: Segment) -> Generation {
        let counts = crate::slice::sum(&runs);
        let (bytes, entries) = (counts.bytes, counts.entries);
        Generation { runs: runs.into(), segment, bytes, entries }
    }

    /// Size class: each is eight times as large as the one before.
    fn class(&self) -> u32 {
        self.bytes.max(1).ilog2() / FAN_IN.ilog2()
    }
}

/// The private runs as cursors read them: lists of runs, newest first.
#[derive(Clone)]
pub struct PrivateView(Arc<[Arc<[Slice]>]>);

impl PrivateView {
    pub(crate) fn lists(&self) -> &[Arc<[Slice]>] {
        &self.0
    }
}

/// What is to be written, in parts by key that several threads may write at once.
pub struct Parted {
    /// Where the second part begins, the third, and so on.
    pub bounds: Vec<Arc<[u8]>>,
    /// One per part.
    pub inputs: Vec<MergeInput>,
}

impl Parted {
    pub fn whole(input: MergeInput) -> Parted {
        Parted { bounds: Vec::new(), inputs: vec![input] }
    }
}

/// The keys of each part.
fn ranges(bounds: &[Arc<[u8]>]) -> impl Iterator<Item = Range> + '_ {
    assert!(bounds.windows(2).all(|w| w[0] < w[1]), "bounds of parts ascend");
    let bound = |n: usize| bounds.get(n).cloned();
    let lo = move |n: usize| n.checked_sub(1).and_then(bound);
    (0..=bounds.len()).map(move |n| Range { lo: lo(n), hi: bound(n) })
}

/// A part of a generation that is being made.
pub struct MergePart {
    tree: Arc<TreeInner>,
    format: RunFormat,
    target_bytes: u64,
    /// Newest first.
    inputs: Vec<MergeInput>,
}

/// Runs that are in no generation yet: dropping them gives their blocks back.
pub struct WrittenPart(Vec<Slice>);

/// Writes all parts; what [`MergePart::write`] returns of them, in their order.
pub type RunParts<'a> = &'a mut dyn FnMut(Vec<MergePart>) -> Result<Vec<WrittenPart>>;

impl MergePart {
    /// `poll` is called now and then; its error ends the call.
    pub fn write(self, poll: &mut dyn FnMut() -> Result<()>) -> Result<WrittenPart> {
        let MergePart { tree, format, target_bytes, inputs } = self;
        // Entries lose their sequences. Deletions stay: there may be a committed row below.
        let retention = Retention::newest(SEQ_MAX, false);
        let renewal = tree.renewal();
        let mut rewrite = Rewrite::new(&tree, renewal, inputs, retention, format, target_bytes)?;
        let mut runs = Vec::new();
        while !rewrite.step(&tree, &mut runs)? {
            poll()?;
        }
        Ok(WrittenPart(runs))
    }
}

/// For [`RunParts`]: without other threads.
pub fn one_by_one<'p>(
    poll: &'p mut dyn FnMut() -> Result<()>,
) -> impl FnMut(Vec<MergePart>) -> Result<Vec<WrittenPart>> + 'p {
    |parts| parts.into_iter().map(|part| part.write(poll)).collect()
}

/// See the module.
pub struct PrivateRuns {
    tree: Arc<TreeInner>,
    /// Oldest first; none is empty.
    generations: Vec<Generation>,
    view: PrivateView,
    stamp: u64,
    /// Stored size at which runs are cut.
    target_bytes: u64,
}

impl PrivateRuns {
    /// Runs of about `target_bytes` for `tree`, at most its leaves' size.
    pub fn new(tree: &Tree, target_bytes: u64) -> PrivateRuns {
        let tree = tree.inner.clone();
        let target_bytes = target_bytes.min(tree.options.leaf_bytes);
        let view = PrivateView(Arc::from([]));
        PrivateRuns { tree, generations: Vec::new(), view, stamp: 0, target_bytes }
    }

    pub fn id(&self) -> TreeId {
        self.tree.id
    }

    pub fn is_empty(&self) -> bool {
        self.generations.is_empty()
    }

    /// Versions held.
    pub fn entries(&self) -> u64 {
        self.generations.iter().map(|g| g.entries).sum()
    }

    /// Stored bytes.
    pub fn bytes(&self) -> u64 {
        self.generations.iter().map(|g| g.bytes).sum()
    }

    pub fn generations(&self) -> usize {
        self.generations.len()
    }

    /// The last operation that is in a generation.
    pub fn upto(&self) -> u64 {
        self.generations.last().map_or(0, |g| g.segment.upto)
    }

    /// The runs for cursors. They have changed when [`Self::stamp`] has.
    pub fn view(&self) -> PrivateView {
        self.view.clone()
    }

    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    fn changed(&mut self) {
        self.stamp += 1;
        let newest_first = self.generations.iter().rev();
        self.view = PrivateView(newest_first.map(|g| g.runs.clone()).collect());
    }

    /// The newest version of `key`; a put's value is appended to `value`.
    pub fn get(&self, key: &[u8], mut value: Option<&mut Vec<u8>>) -> Result<Option<EntryKind>> {
        let found = self.tree.probe_lists(self.view.lists(), key, SEQ_MAX, &mut value)?;
        Ok(found.map(|(_, kind)| kind))
    }

    /// Writes `input` out as the newest generation, one version per key. The operations in
    /// `segment` are later than all that were written before. `poll` is called now and then; its
    /// error ends the call. On `Err` nothing has changed.
    pub fn write(
        &mut self,
        input: MergeInput,
        segment: Segment,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        self.write_parts(Parted::whole(input), segment, &mut one_by_one(poll))
    }

    /// As [`Self::write`], in parts.
    pub fn write_parts(
        &mut self,
        input: Parted,
        segment: Segment,
        run: RunParts<'_>,
    ) -> Result<()> {
        let format = self.tree.formats().leaf;
        self.rewrite(self.generations.len(), input, format, Some(segment), run)
    }

    /// As [`Self::write_parts`], of a generation that [`Self::write_merged`] will merge with others: it is read once and
    /// soon, so it is not compressed.
    pub fn write_for_merge(
        &mut self,
        input: Parted,
        segment: Segment,
        run: RunParts<'_>,
    ) -> Result<()> {
        let format = self.format_for_merge();
        self.rewrite(self.generations.len(), input, format, Some(segment), run)
    }

    fn format_for_merge(&self) -> RunFormat {
        let leaf = self.tree.formats().leaf;
        RunFormat { compression: Compression::None, filter: false, ..leaf }
    }

    /// Writes `input`, which is later than all that were written before, and merges it with all generations into
    /// one. On `Err` nothing is lost but `input`.
    pub fn write_merged(
        &mut self,
        input: Parted,
        segment: Segment,
        run: RunParts<'_>,
    ) -> Result<()> {
        while self.generations.len() >= FAN_IN_LAST {
            let first = self.generations.len() - FAN_IN_LAST;
            self.merge_from(first, self.format_for_merge(), &input.bounds, run)?;
        }
        self.rewrite(0, input, self.tree.formats().leaf, Some(segment), run)
    }

    /// Joins and merges generations that no savepoint of `marks` keeps apart (PV3). On `Err` the
    /// generations still hold the same changes.
    pub fn tidy(&mut self, marks: &[u64], poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.join(marks);
        while let Some(first) = self.mergeable(marks, FAN_IN) {
            self.merge_from(first, self.tree.formats().leaf, &[], &mut one_by_one(poll))?;
        }
        Ok(())
    }

    /// As [`Self::tidy`] without savepoints, in parts, which end before `bounds`. `for_merge`: [`Self::write_merged`]
    /// follows, so what is merged is not compressed either, and as nobody reads before that, as
    /// many generations are left as one merge takes.
    pub fn tidy_parts(
        &mut self,
        for_merge: bool,
        bounds: &[Arc<[u8]>],
        run: RunParts<'_>,
    ) -> Result<()> {
        self.join(&[]);
        let fan_in = if for_merge { FAN_IN_LAST } else { FAN_IN };
        while let Some(first) = self.mergeable(&[], fan_in) {
            let format = match for_merge {
                true => self.format_for_merge(),
                false => self.tree.formats().leaf,
            };
            self.merge_from(first, format, bounds, run)?;
        }
        Ok(())
    }

    /// Merges all generations into one: ascending runs that do not overlap. Takes no savepoints into
    /// account: none may be live.
    pub fn merge_all(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.merge_all_parts(&[], &mut one_by_one(poll))
    }

    /// As [`Self::merge_all`], in parts, which end before `bounds`.
    pub fn merge_all_parts(&mut self, bounds: &[Arc<[u8]>], run: RunParts<'_>) -> Result<()> {
        self.join(&[]);
        while self.generations.len() > 1 {
            let first = self.generations.len().saturating_sub(FAN_IN_LAST);
            self.merge_from(first, self.tree.formats().leaf, bounds, run)?;
        }
        Ok(())
    }

    /// Merges the generation `first` and all newer ones.
    fn merge_from(
        &mut self,
        first: usize,
        format: RunFormat,
        bounds: &[Arc<[u8]>],
        run: RunParts<'_>,
    ) -> Result<()> {
        let nothing = Parted { bounds: bounds.to_vec(), inputs: Vec::new() };
        self.rewrite(first, nothing, format, None, run)
    }

    /// Puts one generation in the place of the generation `first`, all newer ones, and `newest`, which is of
    /// the operations in `segment`.
    fn rewrite(
        &mut self,
        first: usize,
        newest: Parted,
        format: RunFormat,
        segment: Option<Segment>,
        run: RunParts<'_>,
    ) -> Result<()> {
        let ascends = |segment: Segment| self.upto() <= segment.after;
        assert!(segment.is_none_or(ascends), "segments of operations ascend (PV2)");
        let segments = self.generations[first..].iter().map(|g| g.segment).chain(segment);
        let Some(segment) = segments.reduce(joined) else { return Ok(()) };
        let (tree, target_bytes) = (self.tree.clone(), self.target_bytes);
        let mut newest_inputs = newest.inputs.into_iter();
        let part = |range: Range| {
            let mut inputs: Vec<MergeInput> = newest_inputs.next().into_iter().collect();
            inputs.extend(self.inputs(first, &range)?);
            Ok(MergePart { tree: tree.clone(), format, target_bytes, inputs })
        };
        let parts = ranges(&newest.bounds).map(part).collect::<Result<Vec<_>>>()?;
        let runs: Vec<Slice> = run(parts)?.into_iter().flat_map(|part| part.0).collect();
        assert!(runs.windows(2).all(|w| w[0].before(&w[1])), "parts that are not in order");
        self.generations.truncate(first);
        if !runs.is_empty() {
            self.generations.push(Generation::new(runs, segment));
        }
        self.changed();
        Ok(())
    }

    /// The generation `first` and all newer ones within `range`, newest first.
    fn inputs(&self, first: usize, range: &Range) -> Result<Vec<MergeInput>> {
        let mut inputs = Vec::new();
        for g in self.generations[first..].iter().rev() {
            let runs = g.runs.iter().filter_map(|slice| slice.clip(range)).collect();
            inputs.extend(input::chain(&self.tree.store, &self.tree.renewal(), runs)?);
        }
        Ok(inputs)
    }

    /// The runs of the one generation; `None` when there is none. Panics when there are several.
    pub(crate) fn only_list(&self) -> Option<Arc<[Slice]>> {
        assert!(self.generations.len() <= 1, "generations that were not merged");
        self.generations.first().map(|g| g.runs.clone())
    }

    /// An edit has named all runs: they are the trunk's.
    pub(crate) fn installed(&mut self) {
        self.generations.clear();
        self.changed();
    }

    /// The newest generation continues the one before when its keys are all larger.
    fn join(&mut self, marks: &[u64]) {
        while let [.., older, newer] = &self.generations[..] {
            let segment = joined(older.segment, newer.segment);
            let ascends = match (older.runs.last(), newer.runs.first()) {
                (Some(a), Some(b)) => a.before(b),
                _ => true,
            };
            if !ascends || segment.is_cut(marks) {
                return;
            }
            let runs = older.runs.iter().chain(newer.runs.iter()).cloned().collect();
            self.generations.truncate(self.generations.len() - 2);
            self.generations.push(Generation::new(runs, segment));
            self.changed();
        }
    }

    /// The first of the newest generations that are to be merged.
    fn mergeable(&self, marks: &[u64], fan_in: usize) -> Option<usize> {
        let all = &self.generations;
        let newest = all.last()?.segment;
        let (mut class, mut in_class) = (0, 0);
        for (i, g) in all.iter().enumerate().rev() {
            if joined(g.segment, newest).is_cut(marks) {
                break;
            }
            if g.class() > class {
                (class, in_class) = (g.class(), 0);
            }
            in_class += usize::from(g.class() == class);
            if in_class == fan_in {
                return Some(i);
            }
        }
        None
    }

    /// Takes back all operations after `to`. Panics when `to` lies inside a segment: it was not
    /// among the marks given to [`Self::write`] and [`Self::tidy`].
    pub fn rollback_to(&mut self, to: u64) {
        let kept = self.generations.partition_point(|g| g.segment.upto <= to);
        if kept == self.generations.len() {
            return;
        }
        let next = self.generations[kept].segment;
        assert!(to <= next.after, "a savepoint that was given up: {to} is within {next:?} (PV2)");
        self.generations.truncate(kept);
        self.changed();
    }

    /// Makes all of them durable, by a sync of the table's file.
    pub fn sync(&self) -> Result<()> {
        self.tree.store.sync()
    }

    /// The runs for the commit record: lists, oldest first.
    pub fn lists(&self) -> Vec<Vec<(RunMeta, Extent)>> {
        let named = |s: &Slice| (s.run.meta().clone(), s.run.extent);
        self.generations.iter().map(|g| g.runs.iter().map(named).collect()).collect()
    }

    /// Forgets all runs without freeing their blocks: only recovery can tell whether the record
    /// that names them is in the log.
    pub fn abandon(&mut self) {
        self.keep();
        self.generations.clear();
        self.changed();
    }

    /// The record of a prepared transaction is about to name the runs: dropping them leaves their blocks.
    pub fn keep(&self) {
        self.slices().for_each(|s| s.run.set_live());
    }

    /// A prepared transaction was rolled back by a record that ends at `lsn`: the blocks may be used again
    /// when that is durable.
    pub fn retire(&mut self, lsn: Lsn) {
        self.slices().for_each(|s| s.run.set_retired(lsn));
        self.generations.clear();
        self.changed();
    }

    /// What a record of a prepared transaction names, after a restart; `None` when a list is not in order.
    /// One generation per list. They are not written to or rolled back in part any more.
    pub fn recovered(tree: &Tree, lists: Vec<Vec<(RunMeta, Extent)>>) -> Option<PrivateRuns> {
        let mut private = PrivateRuns::new(tree, 0);
        let store = private.tree.store.clone();
        let live =
            |(meta, extent)| Slice::whole(Arc::new(TrunkRun::live(meta, extent, store.clone())));
        for (n, list) in (0..).zip(lists.into_iter().filter(|l| !l.is_empty())) {
            let runs: Vec<Slice> = list.into_iter().map(live).collect();
            if !runs.windows(2).all(|w| w[0].before(&w[1])) {
                return None;
            }
            let segment = Segment { after: n, upto: n + 1 };
            private.generations.push(Generation::new(runs, segment));
        }
        private.changed();
        Some(private)
    }

    fn slices(&self) -> impl Iterator<Item = &Slice> {
        self.generations.iter().flat_map(|g| g.runs.iter())
    }

    /// Takes the runs out as committed ones, oldest list first.
    fn commit(&mut self, seq: Seq) -> Vec<Arc<[Slice]>> {
        let committed = |s: &Slice| Slice::whole(Arc::new(TrunkRun::committed_at(&s.run, seq)));
        let lists = self.generations.iter().map(|g| g.runs.iter().map(committed).collect());
        let lists = lists.collect();
        self.generations.clear();
        self.changed();
        lists
    }
}

impl Tree {
    /// As [`Self::attach`], of a transaction's private runs; all their entries get the sequence `seq`.
    pub fn attach_private(&self, private: &mut PrivateRuns, seq: Seq, lsn: Lsn, boundary: Lsn) {
        self.attach_prepared(private, lsn, lsn, boundary, seq);
    }

    /// As [`Self::attach_private`], of runs that another record names, which starts at `named_at`.
    pub fn attach_prepared(
        &self,
        private: &mut PrivateRuns,
        named_at: Lsn,
        lsn: Lsn,
        boundary: Lsn,
        seq: Seq,
    ) {
        assert_eq!(private.id(), self.id(), "private runs are of one tree");
        self.inner.attach(private.commit(seq), named_at, lsn, boundary);
    }
}

fn joined(older: Segment, newer: Segment) -> Segment {
    Segment { after: older.after, upto: newer.upto }
}
