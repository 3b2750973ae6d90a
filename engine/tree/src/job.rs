//! Background work: what to do next, and doing it in bounded steps.
//!
//! A job is planned ([`Tree::plan`]), begun ([`Tree::begin`]: marks its nodes) and stepped until
//! done. Each step takes in a few thousand entries; the trunk changes only when a part of the job
//! is complete. Dropping a job at any point is safe.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{NodeId, Result, Seq};
use frond_run::{Cut, MergeInput, MergeJob, Retention, Run, RunCutter, RunFormat};

use crate::merge::LeafMerge;
use crate::push::Push;
use crate::slice::{Key, Slice};
use crate::store::TrunkRun;
use crate::tree::{Tree, TreeInner};
use crate::view::Content;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// The oldest frozen buffer moves into the trunk.
    Freeze,
    /// What waits on the edge into a node moves into it.
    Flush,
    /// The runs of a leaf are merged.
    Merge,
    /// Runs built elsewhere join the trunk.
    Attach,
}

/// Work that a tree offers.
#[derive(Clone, Debug)]
pub struct Plan {
    pub kind: JobKind,
    /// Bytes of debt that it takes away; comparable across trees. Frozen memory counts fourfold: it
    /// holds back writers.
    pub urgency: u64,
    /// Bytes that it reads, about.
    pub input_bytes: u64,
    pub(crate) node: NodeId,
    pub(crate) lo: Option<Key>,
}

/// What a step left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    More,
    Done,
}

/// Debt of a tree, in bytes: what background work would take away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    pub frozen: u64,
    pub upper: u64,
    pub leaves: u64,
}

impl Debt {
    pub fn total(&self) -> u64 {
        self.frozen.saturating_add(self.upper).saturating_add(self.leaves)
    }
}

/// Work under way. Holds its nodes until done or dropped.
pub struct Job {
    tree: Arc<TreeInner>,
    kind: JobKind,
    work: Work,
    done: bool,
}

enum Work {
    Push(Box<Push>),
    Merge(Box<LeafMerge>),
}

impl Tree {
    /// The most urgent work that is not under way.
    pub fn plan(&self) -> Option<Plan> {
        let inner = &self.inner;
        let mut state = inner.state.lock();
        inner.consider_hot(&mut state);
        let view = inner.view.load();
        let mut best: Option<Plan> = None;
        let mut offer = |plan: Plan| {
            if best.as_ref().is_none_or(|b| plan.urgency > b.urgency) {
                best = Some(plan);
            }
        };
        if let Some(item) = view.frozen.last().filter(|_| !state.freezing) {
            let all: u64 = view.frozen.iter().map(|f| f.bytes()).sum();
            let kind = match item.content {
                Content::Buffer(_) => JobKind::Freeze,
                Content::Runs(_) => JobKind::Attach,
            };
            // Runs are no debt yet, so nobody is slowed down for their sake, and they hold the log back: they
            // and what is before them go before any merge.
            let runs_wait = view.frozen.iter().any(|f| matches!(f.content, Content::Runs(_)));
            let urgency = match runs_wait {
                true => u64::MAX >> 8,
                false => all.saturating_mul(4).max(1 << 20),
            };
            offer(Plan { kind, urgency, input_bytes: item.bytes(), node: 0, lo: None });
        }
        let works = [(JobKind::Flush, &state.flushes), (JobKind::Merge, &state.merges)];
        for (kind, needs) in works {
            if let Some((node, need)) = needs.most_urgent(&state.busy) {
                let lo = need.lo.clone();
                offer(Plan { kind, urgency: need.debt, input_bytes: need.input, node, lo });
            }
        }
        best
    }

    /// Starts planned work. `snapshots` as in [`Retention`]: live ones ascending, then the
    /// published sequence. `None`: the plan was overtaken; plan again.
    pub fn begin(&self, plan: &Plan, snapshots: Vec<Seq>) -> Option<Job> {
        assert!(!snapshots.is_empty(), "at least the published sequence");
        let tree = self.inner.clone();
        let work = match plan.kind {
            JobKind::Freeze | JobKind::Attach => {
                Work::Push(Box::new(Push::freeze(&tree, snapshots)?))
            }
            JobKind::Flush => Work::Push(Box::new(Push::flush(&tree, plan, snapshots)?)),
            JobKind::Merge => Work::Merge(Box::new(LeafMerge::begin(&tree, plan, snapshots)?)),
        };
        Some(Job { tree, kind: plan.kind, work, done: false })
    }

    pub fn debt(&self) -> Debt {
        let frozen = self.frozen_bytes();
        let state = self.inner.state.lock();
        Debt { frozen, upper: state.flushes.debt(), leaves: state.merges.debt() }
    }
}

impl Job {
    pub fn kind(&self) -> JobKind {
        self.kind
    }

    /// Stored bytes that the job has written so far.
    pub fn bytes_written(&self) -> u64 {
        match &self.work {
            Work::Push(push) => push.bytes_written,
            Work::Merge(merge) => merge.bytes_written,
        }
    }

    /// Does a bounded part of the work. After `Done` or an error the job is over.
    pub fn step(&mut self) -> Result<Step> {
        assert!(!self.done, "the job is over");
        let step = match &mut self.work {
            Work::Push(push) => push.step(&self.tree),
            Work::Merge(merge) => merge.step(&self.tree),
        };
        self.done = !matches!(step, Ok(Step::More));
        if self.done {
            self.let_go();
        }
        step
    }

    fn let_go(&mut self) {
        match &mut self.work {
            Work::Push(push) => push.let_go(&self.tree),
            Work::Merge(merge) => merge.let_go(&self.tree),
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.done {
            self.let_go();
        }
    }
}

/// A merge on its way from inputs to stored runs.
pub(crate) struct Rewrite {
    job: MergeJob,
    finished: bool,
    format: RunFormat,
}

impl Rewrite {
    /// `inputs` newest first; runs of about `target_bytes`.
    pub fn new(
        tree: &Arc<TreeInner>,
        inputs: Vec<MergeInput>,
        retention: Retention,
        format: RunFormat,
        target_bytes: u64,
    ) -> Result<Rewrite> {
        let store = tree.store.clone();
        let next_block = Box::new(move || store.next_block());
        let cut = Cut { target_bytes, boundaries: Vec::new() };
        let cutter = RunCutter::new(&format, tree.id.table, cut, next_block);
        let job = MergeJob::new(inputs, retention, cutter)?;
        Ok(Rewrite { job, finished: false, format })
    }

    /// Takes in some entries and stores runs that got complete; true when all is done.
    pub fn step(&mut self, tree: &Arc<TreeInner>, out: &mut Vec<Slice>) -> Result<bool> {
        if !self.finished {
            self.finished = self.job.step(tree.options.step_entries)?;
        }
        for cut in self.job.take_finished() {
            let built = cut.run;
            let index = built.index(&format!("{}.frd", tree.id.table))?;
            let extent = tree.store.write_run(&built, &index)?;
            let meta = built.meta;
            note_written(tree, &meta, self.format == tree.options.format_leaf);
            let run = TrunkRun::fresh(Run::with_index(meta, index), extent, tree.store.clone());
            out.push(Slice::whole(Arc::new(run)));
        }
        Ok(self.finished)
    }

    pub fn entries_in(&self) -> u64 {
        self.job.stats().entries_in
    }
}

fn note_written(tree: &TreeInner, meta: &frond_run::RunMeta, leaf: bool) {
    let counters = &tree.counters;
    counters.bytes_written.fetch_add(meta.bytes, Ordering::Relaxed);
    counters.entries_written.fetch_add(meta.entries, Ordering::Relaxed);
    if !leaf && meta.logical_bytes > 0 && meta.bytes > 16 << 10 {
        let now = crate::slice::scale(meta.bytes, 1024, meta.logical_bytes).clamp(1, 4096);
        let before = tree.ratio.load(Ordering::Relaxed);
        tree.ratio.store((before * 3 + now) / 4, Ordering::Relaxed);
    }
}
