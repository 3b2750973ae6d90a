//! The ledger: the buffered bytes and the offered work of each tree, updated at each change.
//!
//! Sums, the largest buffer and the most urgent job are needed after each job and every few
//! commits. So code that changes a tree notes it here, and a query costs the same whether ten trees
//! have work or a hundred thousand.
//!
//! - LG1. The sums are those of the entries, and the orders have each entry at most once.
//! - LG2. A tree is noted after each change by a commit, a freeze or a job. A growing buffer is not
//!   noted for each byte: up to a [`SLACK`]th of it is missing. Work caused by readers is noted by
//!   the next sweep of its table (`housekeeping.rs`). (Held by `tests` below: the sums are those of a walk over all trees.)
//! - LG3. A dropped table has no entry: it is marked as dropped before its entry is removed, and
//!   the mark is read under the lock.
//!
//! The lock is taken before a tree's own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use frond_base::{IndexNo, TableId, TreeId};
use frond_tree::{JobKind, Plan, Tree};
use parking_lot::Mutex;

use crate::table::Table;

/// A buffer may grow by this part of its bytes before that is noted.
const SLACK: u64 = 16;
/// Weight of jobs that free memory while memory is short.
const FREEING_WEIGHT: u64 = 8;

/// See the module.
#[derive(Default)]
pub struct Ledger {
    state: Mutex<State>,
}

/// Sums over all trees, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub active: u64,
    pub frozen: u64,
    pub debt: u64,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<TreeId, Entry>,
    sums: Sums,
    /// Active buffers, the largest first, by size class.
    by_size: BTreeSet<(Reverse<u32>, TreeId)>,
    /// Offered work: `freeing` has what frees memory, `other` the rest. The most urgent is first;
    /// ties go by tree, so every run takes work in the same order.
    freeing: BTreeSet<(Reverse<u64>, TreeId)>,
    other: BTreeSet<(Reverse<u64>, TreeId)>,
}

struct Entry {
    table: Arc<Table>,
    /// Bytes of the active buffer, which are all that most trees have.
    active: u64,
    work: Option<Box<Work>>,
}

struct Work {
    frozen: u64,
    debt: u64,
    offer: Option<Offer>,
}

impl Entry {
    fn new(table: Arc<Table>, has: Sums, offer: Option<Offer>) -> Entry {
        let Sums { active, frozen, debt } = has;
        let works = frozen > 0 || debt > 0 || offer.is_some();
        let work = works.then(|| Box::new(Work { frozen, debt, offer }));
        Entry { table, active, work }
    }

    fn has(&self) -> Sums {
        let (frozen, debt) = self.work.as_ref().map_or((0, 0), |work| (work.frozen, work.debt));
        Sums { active: self.active, frozen, debt }
    }

    fn offer(&self) -> Option<Offer> {
        self.work.as_ref()?.offer
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Offer {
    frees_memory: bool,
    urgency: u64,
}

impl Offer {
    fn of(plan: &Plan) -> Offer {
        let frees_memory = matches!(plan.kind, JobKind::Freeze | JobKind::Attach);
        Offer { frees_memory, urgency: plan.urgency }
    }
}

/// Grows with the size, in steps of a quarter of a power of two; `None` for an empty buffer.
fn size_class(bytes: u64) -> Option<Reverse<u32>> {
    let power = bytes.checked_ilog2()?;
    let quarter = (bytes << (63 - power)) >> 61 & 3;
    Some(Reverse(power * 4 + quarter as u32))
}

impl State {
    /// Replaces a tree's entry.
    fn set(&mut self, table: &Arc<Table>, tree: TreeId, has: Sums, offer: Option<Offer>) {
        self.remove(tree);
        if has == Sums::default() && offer.is_none() {
            return;
        }
        self.sums.active += has.active;
        self.sums.frozen += has.frozen;
        self.sums.debt = self.sums.debt.saturating_add(has.debt);
        self.by_size.extend(size_class(has.active).map(|class| (class, tree)));
        if let Some(offer) = offer {
            self.order_of(offer).insert((Reverse(offer.urgency), tree));
        }
        self.entries.insert(tree, Entry::new(table.clone(), has, offer));
    }

    fn remove(&mut self, tree: TreeId) {
        let Some(entry) = self.entries.remove(&tree) else { return };
        let (has, offer) = (entry.has(), entry.offer());
        let Sums { active, frozen, .. } = self.sums;
        assert!(active >= has.active && frozen >= has.frozen, "less than an entry has (LG1)");
        (self.sums.active, self.sums.frozen) = (active - has.active, frozen - has.frozen);
        self.sums.debt = self.sums.debt.saturating_sub(has.debt);
        let mut all_there = true;
        if let Some(class) = size_class(has.active) {
            all_there &= self.by_size.remove(&(class, tree));
        }
        if let Some(offer) = offer {
            all_there &= self.order_of(offer).remove(&(Reverse(offer.urgency), tree));
        }
        assert!(all_there, "an entry was not in its orders (LG1)");
        let none = self.entries.is_empty();
        let zero = self.sums.active == 0 && self.sums.frozen == 0;
        assert!(!none || zero, "sums of no entry: {:?} (LG1)", self.sums);
    }

    fn order_of(&mut self, offer: Offer) -> &mut BTreeSet<(Reverse<u64>, TreeId)> {
        match offer.frees_memory {
            true => &mut self.freeing,
            false => &mut self.other,
        }
    }

    /// Brings a tree's entry up to date; returns its plan.
    fn look(&mut self, table: &Arc<Table>, tree: &Tree) -> Option<Plan> {
        if table.is_dropped() {
            // LG3.
            self.remove(tree.id());
            return None;
        }
        let debt = tree.debt();
        let has = Sums { active: tree.active_bytes(), frozen: debt.frozen, debt: debt.total() };
        let plan = tree.plan();
        self.set(table, tree.id(), has, plan.as_ref().map(Offer::of));
        table.set_noted(tree.id().index, has.active);
        plan
    }

    /// The tree with the most urgent offer, of those that are not held.
    fn most_urgent(&self, memory_short: bool, held: &dyn Fn(TreeId) -> bool) -> Option<TreeId> {
        let first = |order: &BTreeSet<(Reverse<u64>, TreeId)>| {
            order.iter().find(|(_, tree)| !held(*tree)).copied()
        };
        let weight = if memory_short { FREEING_WEIGHT } else { 1 };
        match (first(&self.freeing), first(&self.other)) {
            (Some((Reverse(a), freeing)), Some((Reverse(b), other))) => {
                let a = a.saturating_mul(weight);
                // Equally urgent: by tree.
                Some(if (Reverse(a), freeing) < (Reverse(b), other) { freeing } else { other })
            }
            (one, other) => one.or(other).map(|(_, tree)| tree),
        }
    }
}

impl Ledger {
    /// Something of the tree changed.
    pub fn note(&self, table: &Arc<Table>, tree: &Tree) {
        self.state.lock().look(table, tree);
    }

    /// As [`Ledger::note`] for all trees of a table.
    pub fn note_all(&self, table: &Arc<Table>) {
        let mut state = self.state.lock();
        for tree in table.trees().iter() {
            state.look(table, tree);
        }
    }

    /// Whether a buffer of `bytes` is to be noted, and `noted` is what was noted last.
    #[inline]
    pub fn is_news(bytes: u64, noted: u64) -> bool {
        bytes > noted + noted / SLACK
    }

    /// A commit has added to the tree's active buffer and changed nothing else.
    pub fn note_written(&self, table: &Arc<Table>, tree: &Tree) {
        let mut state = self.state.lock();
        if table.is_dropped() {
            return;
        }
        let (mut has, offer) =
            state.entries.get(&tree.id()).map_or_else(Default::default, |e| (e.has(), e.offer()));
        has.active = tree.active_bytes();
        state.set(table, tree.id(), has, offer);
        table.set_noted(tree.id().index, has.active);
    }

    pub fn sums(&self) -> Sums {
        self.state.lock().sums
    }

    /// The tree with the largest active buffer, to within a quarter, and its bytes.
    pub fn largest(&self) -> Option<(Tree, u64)> {
        let state = self.state.lock();
        let (_, tree) = state.by_size.first()?;
        let entry = &state.entries[tree];
        Some((entry.table.tree(tree.index).clone(), entry.active))
    }

    /// The most urgent work of all trees that are not held. Work that frees memory comes first
    /// while memory is short.
    pub fn most_urgent(
        &self,
        memory_short: bool,
        held: &dyn Fn(TreeId) -> bool,
    ) -> Option<(Arc<Table>, Tree, Plan)> {
        let mut state = self.state.lock();
        loop {
            let id = state.most_urgent(memory_short, held)?;
            let entry = &state.entries[&id];
            let (table, noted) = (entry.table.clone(), entry.offer());
            let tree = table.tree(id.index).clone();
            match state.look(&table, &tree) {
                Some(plan) if noted.is_none_or(|o| o.urgency <= plan.urgency) => {
                    return Some((table, tree, plan));
                }
                // Less than noted: another tree may have more.
                _ => {}
            }
        }
    }

    /// At most `most` trees that offer work, the most urgent first; what frees memory before the rest.
    pub fn offering(&self, most: usize) -> Vec<(Arc<Table>, IndexNo)> {
        let state = self.state.lock();
        let trees = state.freeing.iter().chain(&state.other).take(most);
        trees.map(|(_, tree)| (state.entries[tree].table.clone(), tree.index)).collect()
    }

    /// The table was dropped.
    pub fn forget(&self, table: TableId) {
        let mut state = self.state.lock();
        let trees: Vec<TreeId> = state.entries.range(trees_of(table)).map(|(t, _)| *t).collect();
        for tree in trees {
            assert!(state.entries[&tree].table.is_dropped(), "forgotten before it is marked (LG3)");
            state.remove(tree);
        }
    }
}

fn trees_of(table: TableId) -> std::ops::RangeInclusive<TreeId> {
    TreeId { table, index: 0 }..=TreeId { table, index: IndexNo::MAX }
}

#[cfg(test)]
mod tests {
    use frond_vfs::MemVfs;

    use crate::catalog::ddl::TableSpec;
    use crate::commit::transaction::TxnOptions;
    use crate::engine::Engine;
    use crate::options::Options;

    use super::*;

    fn create(engine: &Engine, n: u32) -> Arc<Table> {
        let spec = TableSpec::plain(&format!("t{n}"));
        engine.create_table(spec).unwrap()
    }

    #[test]
    #[should_panic(expected = "LG3")]
    fn a_table_is_marked_before_it_is_forgotten() {
        let engine = Engine::open(Arc::new(MemVfs::stepped()), Options::default()).unwrap();
        create(&engine, 0);
        // Creating a table writes to the system table, so that has an entry.
        let table = engine.core().system_table();
        engine.core().ledger.note_all(&table);
        engine.core().ledger.forget(table.id());
    }

    /// The same figures from a walk over all trees.
    fn walk(engine: &Engine) -> (Sums, bool) {
        let (mut sums, mut has_work) = (Sums::default(), false);
        for table in engine.core().tables.read().values() {
            for tree in table.trees().iter() {
                sums.active += tree.active_bytes();
                sums.frozen += tree.frozen_bytes();
                sums.debt += tree.debt().total();
                has_work |= tree.plan().is_some();
            }
        }
        (sums, has_work)
    }

    /// Random commits to random tables, freezes, jobs, drops: the ledger equals a walk over all trees.
    #[test]
    fn sums_and_work_are_those_of_a_walk_over_all_trees() {
        let options = Options { cache_bytes: 8 << 20, background_threads: 0, ..Options::default() };
        let engine = Engine::open(Arc::new(MemVfs::stepped()), options).unwrap();
        let mut tables: Vec<Arc<Table>> = (0..40).map(|n| create(&engine, n)).collect();
        let (mut made, mut noise) = (40, 5u64);
        let mut random = move |n: usize| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 33) as usize % n
        };
        let (mut worked, mut froze) = (0, 0);
        for _ in 0..4_000 {
            let at = random(tables.len());
            match random(100) {
                0 => {
                    let name = tables[at].def().name.clone();
                    engine.drop_table(&name).unwrap();
                    tables[at] = create(&engine, made);
                    made += 1;
                }
                1..=3 => froze += u32::from(engine.core().freeze(tables[at].tree(0))),
                4..=30 => worked += u32::from(engine.core().job_step()),
                _ => {
                    let mut txn = engine.begin(TxnOptions::default());
                    for _ in 0..=random(20) {
                        let key = (random(10_000) as u32).to_be_bytes();
                        txn.put(&tables[at], &key, &[7; 200], false).unwrap();
                    }
                    txn.commit().unwrap();
                }
            }
            let (found, has_work) = walk(&engine);
            let noted = engine.core().ledger.sums();
            assert_eq!((noted.frozen, noted.debt), (found.frozen, found.debt));
            assert!(noted.active <= found.active, "{noted:?} {found:?}");
            assert!(found.active - noted.active <= found.active / SLACK + 1, "{noted:?} {found:?}");
            assert_eq!(engine.core().most_urgent().is_some(), has_work);
        }
        assert!(worked > 100 && froze > 30, "{worked} jobs, {froze} freezes");
        while engine.core().job_step() {}
        let (found, has_work) = walk(&engine);
        assert!(!has_work && engine.core().ledger.sums().debt == found.debt);
    }

    #[test]
    fn size_classes_grow_with_the_size() {
        assert_eq!(size_class(0), None);
        let mut last = size_class(1);
        for bytes in (2..100_000u64).chain((17..63).map(|n| 1 << n)).chain([u64::MAX]) {
            let class = size_class(bytes);
            assert!(class <= last, "{bytes}: a Reverse");
            last = class;
        }
        assert!(size_class(1024) > size_class(1280) && size_class(1280) > size_class(1536));
        assert_eq!(size_class(1025), size_class(1279));
    }
}
