//! Jobs: background work in bounded steps.
//!
//! A job is planned ([`Tree::plan`]), begun ([`Tree::begin`]: marks its nodes) and stepped until
//! done. Each step takes in a few thousand entries; the trunk changes only when a part of the job
//! is complete. Dropping a job at any point is safe.
//!
//! A job that meets a damaged page fails, and its node is set aside (TG2): the next jobs go around it. They
//! would fail as well, and a frozen item that cannot go down holds memory and log that all tables need.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result, Seq};

use crate::merge::LeafMerge;
use crate::plan::{JobKind, Plan, Step};
use crate::push::Push;
use crate::tree::{Tree, TreeInner};

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
    /// Starts planned work. `snapshots` as in [`Retention`]: live ones ascending, then the
    /// published sequence. `None`: the plan was overtaken; plan again.
    pub fn begin(&self, plan: &Plan, snapshots: Vec<Seq>) -> Option<Job> {
        assert!(!snapshots.is_empty(), "at least the published sequence");
        let tree = self.inner.clone();
        let work = match plan.kind {
            JobKind::Freeze | JobKind::Attach => {
                Work::Push(Box::new(Push::freeze(&tree, plan, snapshots)?))
            }
            JobKind::Flush => Work::Push(Box::new(Push::flush(&tree, plan, snapshots)?)),
            JobKind::Merge => Work::Merge(Box::new(LeafMerge::begin(&tree, plan, snapshots)?)),
        };
        Some(Job { tree, kind: plan.kind, work, done: false })
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
        if let Some(e) = step.as_ref().err().filter(|e| e.kind() == ErrorKind::Corruption) {
            self.set_aside(e);
        }
        if self.done {
            self.let_go();
        }
        step
    }

    /// Estimated bytes that the job reads: what was planned, and what it took along.
    pub fn input_bytes(&self) -> u64 {
        match &self.work {
            Work::Push(push) => push.input_bytes,
            Work::Merge(merge) => merge.input_bytes,
        }
    }

    fn set_aside(&self, met: &Error) {
        let mut state = self.tree.state.lock();
        match &self.work {
            Work::Push(push) => {
                // What goes to the top was read from memory.
                let Some((node, key)) = push.at() else { return };
                state.flushes.set_aside(node, key);
            }
            Work::Merge(merge) => {
                let (node, key) = merge.at();
                state.merges.set_aside(node, key);
            }
        }
        state.damage = Some(met.duplicate());
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
