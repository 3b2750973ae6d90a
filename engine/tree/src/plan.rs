//! The next work of a tree, and its urgency. `job.rs` does it.

use frond_base::{Error, NodeId};

use crate::slice::Key;
use crate::state::State;
use crate::tree::Tree;
use crate::view::Content;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// The oldest frozen buffer moves into the trunk.
    Freeze,
    /// The pending slices of the edge into a node move into the node.
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
    /// Estimated bytes that it reads.
    pub input_bytes: u64,
    pub(crate) node: NodeId,
    pub(crate) lo: Option<Key>,
}

/// Whether a step left work to do.
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

impl Tree {
    /// The most urgent work that is not under way.
    pub fn plan(&self) -> Option<Plan> {
        let inner = &self.inner;
        if inner.begins_no_job() {
            return None;
        }
        self.most_urgent(&mut inner.state.lock())
    }

    /// Whether no work is due and no job is under way, which could make more work.
    pub fn is_settled(&self) -> bool {
        let inner = &self.inner;
        let mut state = inner.state.lock();
        let idle = state.busy.is_empty() && !state.freezing;
        idle && (inner.begins_no_job() || self.most_urgent(&mut state).is_none())
    }

    /// What is not done because jobs met damaged pages (TG2), and the error of the latest of them.
    pub fn damage(&self) -> Option<(JobKind, Error)> {
        let state = self.inner.state.lock();
        let kind = match (state.flushes.has_aside(), state.merges.has_aside()) {
            (true, _) => JobKind::Flush,
            (false, true) => JobKind::Merge,
            (false, false) => return None,
        };
        state.damage.as_ref().map(|e| (kind, e.duplicate()))
    }

    /// Work that met damaged pages is offered again, once.
    pub fn retry_damaged(&self) {
        let inner = &self.inner;
        let mut state = inner.state.lock();
        let (merges, flushes) = (state.merges.take_aside(), state.flushes.take_aside());
        for (id, key) in merges.into_iter().chain(flushes) {
            inner.note_given_back(id, Some(key));
        }
    }

    fn most_urgent(&self, state: &mut State) -> Option<Plan> {
        let inner = &self.inner;
        inner.consider_hot(state);
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
            // Attached runs do not count as debt, so they slow no writer, but they keep log from
            // being trimmed. So they, and the items before them, are pushed before any merge.
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

    pub fn debt(&self) -> Debt {
        if self.is_abandoned() {
            return Debt::default();
        }
        let frozen = self.frozen_bytes();
        let state = self.inner.state.lock();
        Debt { frozen, upper: state.flushes.debt(), leaves: state.merges.debt() }
    }
}
