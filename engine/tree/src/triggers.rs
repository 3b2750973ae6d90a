//! When a leaf is due for a merge and an edge for a flush, and how urgently. Pure functions of
//! nodes and their heat.
//!
//! A leaf is merged when its deltas reach `alpha` of its base, when it is rich in tombstones, or
//! when readers have wasted as much work on the deltas as the merge costs. So merges for readers at
//! most double the work. An edge is flushed when it holds `node_runs` slices, when its slices are
//! large, or when readers have wasted as much work on them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use frond_base::NodeId;

use crate::node::{Child, Heat, Leaf, Node};
use crate::options::TreeOptions;
use crate::slice::{sum, Counts, Key, Slice};

/// Wasted work below this never starts a job.
const MIN_HEAT: u64 = 4096;
/// Dead entries skipped below this never start a job.
const MIN_DEAD: u64 = 1000;

/// Work waiting at a node.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    /// The node's smallest key, to find it again.
    pub lo: Option<Key>,
    /// Bytes of debt that the work takes away.
    pub debt: u64,
    /// Bytes that the work reads.
    pub input: u64,
}

/// The needs of one kind; the planner gets the most urgent one and their sum. Each change
/// costs the logarithm of their number.
///
/// - TG1. `by_debt` has exactly the needs of `by_node`, and `debt` is their sum.
/// - TG2. A node that was set aside has no need: nothing plans its work, and no writer is slowed for it.
#[derive(Default)]
pub(crate) struct Needs {
    by_node: HashMap<NodeId, Need>,
    /// Nodes whose work met damaged pages, with their smallest keys.
    aside: BTreeMap<NodeId, Key>,
    /// Most debt first; equally urgent work by node, so that it is taken in the same order in every run.
    by_debt: BTreeSet<(Reverse<u64>, NodeId)>,
    debt: u128,
}

impl Needs {
    /// `None`: the node needs nothing any more.
    pub fn set(&mut self, id: NodeId, need: Option<Need>) {
        self.remove(&id);
        if let Some(need) = need.filter(|_| !self.is_aside(id)) {
            self.debt += u128::from(need.debt);
            self.by_debt.insert((Reverse(need.debt), id));
            self.by_node.insert(id, need);
        }
        debug_assert_eq!(self.by_debt.len(), self.by_node.len(), "a need without a rank (TG1)");
    }

    pub fn remove(&mut self, id: &NodeId) {
        if let Some(old) = self.by_node.remove(id) {
            let was_there = self.by_debt.remove(&(Reverse(old.debt), *id));
            let counted = was_there && self.debt >= u128::from(old.debt);
            assert!(counted, "a need that was not counted (TG1)");
            self.debt -= u128::from(old.debt);
        }
    }

    /// The work of the node met damaged pages (TG2).
    pub fn set_aside(&mut self, id: NodeId, key: Key) {
        self.remove(&id);
        self.aside.insert(id, key);
    }

    pub fn has_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    pub fn is_aside(&self, id: NodeId) -> bool {
        self.aside.contains_key(&id)
    }

    /// The nodes that were set aside may have needs again.
    pub fn take_aside(&mut self) -> BTreeMap<NodeId, Key> {
        std::mem::take(&mut self.aside)
    }

    /// The node is gone from the trunk.
    pub fn forget(&mut self, id: &NodeId) {
        self.remove(id);
        self.aside.remove(id);
    }

    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    pub fn has(&self, id: NodeId) -> bool {
        self.by_node.contains_key(&id)
    }

    /// Bytes of debt of all needs.
    pub fn debt(&self) -> u64 {
        u64::try_from(self.debt).unwrap_or(u64::MAX)
    }

    /// The most urgent need of a node that is not in `busy`.
    pub fn most_urgent(&self, busy: &HashSet<NodeId>) -> Option<(NodeId, &Need)> {
        let (_, id) = self.by_debt.iter().find(|(_, id)| !busy.contains(id))?;
        Some((*id, &self.by_node[id]))
    }
}

/// How a leaf is to be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeMode {
    /// Everything into new base runs.
    Full,
    /// The newest `n` deltas into one.
    Deltas(usize),
}

fn wasted(work: u64, cost: u64) -> bool {
    work >= MIN_HEAT && work >= cost
}

/// The merge that the leaf needs most, if any.
pub(crate) fn merge_mode(leaf: &Leaf, heat: &Heat, options: &TreeOptions) -> Option<MergeMode> {
    let (base, deltas) = (sum(&leaf.base), sum(&leaf.deltas));
    let cost = base.entries.saturating_add(deltas.entries);
    let dead_cost = MIN_DEAD.max(cost / 4);
    if leaf.deltas.is_empty() {
        let reclaimable = base.tombstones > 0 || leaf.base.iter().any(has_versions);
        let rotten = reclaimable && heat.dead() >= dead_cost;
        let crowded = leaf.base.len() > options.base_runs;
        return (rotten || crowded).then_some(MergeMode::Full);
    }
    let alpha = u64::from(options.alpha_percent);
    let full = deltas.bytes.saturating_mul(100) >= alpha.saturating_mul(base.bytes)
        || deltas.tombstones.saturating_mul(4) >= base.entries.max(1)
        || wasted(heat.deltas(), cost)
        || heat.dead() >= dead_cost;
    if full {
        return Some(MergeMode::Full);
    }
    if leaf.deltas.len() < options.leaf_runs {
        return None;
    }
    // The newest deltas of similar size: a delta joins when those before it are together as large.
    let mut count = 2;
    let mut bytes = sum(&leaf.deltas[..2]).bytes;
    while count < leaf.deltas.len() && leaf.deltas[count].counts.bytes <= bytes {
        bytes += leaf.deltas[count].counts.bytes;
        count += 1;
    }
    Some(MergeMode::Deltas(count))
}

/// `(bytes, entries)`: a base run below either is rewritten with its neighbours, a larger one is
/// kept. When a leaf is merged because it has too many base runs, its middle-sized runs stay, so
/// that small appends are rewritten a logarithmic number of times. (In entries, because the
/// smallest runs are mostly padding.)
pub(crate) fn keep_limits(leaf: &Leaf, options: &TreeOptions) -> (u64, u64) {
    if !leaf.deltas.is_empty() || leaf.base.len() <= options.base_runs {
        return (options.leaf_bytes / 16, 0);
    }
    let limit = sum(&leaf.base).entries.saturating_mul(2) / leaf.base.len() as u64;
    let small = |s: &Slice| s.counts.entries < limit;
    let joined = leaf.base.windows(2).filter(|w| small(&w[0]) && small(&w[1])).count();
    if joined < options.base_runs / 4 {
        return (u64::MAX, 0);
    }
    (0, limit)
}

/// The run may hold more than one version of a key, or versions that could lose their sequence.
fn has_versions(slice: &Slice) -> bool {
    slice.run.meta().max_seq > 0
}

/// The merge need of a leaf.
pub(crate) fn of_leaf(
    leaf: &Leaf,
    heat: &Heat,
    lo: &Option<Key>,
    options: &TreeOptions,
) -> Option<Need> {
    let mode = merge_mode(leaf, heat, options)?;
    let deltas = sum(&leaf.deltas);
    let input = match mode {
        MergeMode::Full => deltas.bytes.saturating_add(sum(&leaf.base).bytes),
        MergeMode::Deltas(n) => sum(&leaf.deltas[..n]).bytes,
    };
    let debt = match mode {
        MergeMode::Full => deltas.bytes,
        MergeMode::Deltas(_) => input,
    };
    Some(Need { lo: lo.clone(), debt: debt.max(4096), input })
}

/// The flush need of an edge.
pub(crate) fn of_edge(child: &Child, lo: &Option<Key>, options: &TreeOptions) -> Option<Need> {
    edge_need(child, &child.node.heat, lo, options)
}

/// Debt of a leaf that was never read, bytes.
pub(crate) fn cold_leaf_debt(leaf: &Leaf, options: &TreeOptions) -> u64 {
    of_leaf(leaf, &Heat::default(), &None, options).map_or(0, |need| need.debt)
}

/// Debt of an edge that was never read, bytes.
pub(crate) fn cold_edge_debt(child: &Child, options: &TreeOptions) -> u64 {
    edge_need(child, &Heat::default(), &None, options).map_or(0, |need| need.debt)
}

fn edge_need(child: &Child, heat: &Heat, lo: &Option<Key>, options: &TreeOptions) -> Option<Need> {
    if child.pending.is_empty() {
        return None;
    }
    let pending = child.pending.totals().counts;
    let is_leaf = child.below.is_leaf();
    let below = if is_leaf { child.below.totals.counts } else { Counts::default() };
    let large = options.min_slice.max(options.leaf_bytes / 4);
    let rotten =
        is_leaf && heat.dead() >= MIN_DEAD.max(below.entries.saturating_add(pending.entries) / 4);
    let full = child.pending.len() >= options.node_runs
        || pending.bytes >= large
        || is_leaf
            && pending.tombstones > 0
            && pending.tombstones.saturating_mul(4) >= below.entries
        || wasted(heat.edge(), pending.entries)
        || rotten;
    let weight = child.pending.len().div_ceil(options.node_runs) as u64;
    let debt = pending.bytes.saturating_mul(weight).max(4096);
    full.then(|| Need { lo: lo.clone(), debt, input: pending.bytes })
}

/// Whether reading has made work at the node; cheap, as cursors call it whenever they leave a leaf.
pub(crate) fn heated(node: &Node) -> bool {
    let heat = &node.heat;
    heat.deltas() >= MIN_HEAT || heat.edge() >= MIN_HEAT || heat.dead() >= MIN_DEAD
}
