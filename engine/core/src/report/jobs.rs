//! Background work, for people: what is under way, what waits, what has failed, and a backup.

use std::sync::Arc;
use std::time::Duration;

use frond_base::{IndexNo, TableId};
use frond_tree::Tree;

use super::storage::index_name;
use crate::background::running_work::name_of;
use crate::commit::core::Core;
use crate::engine::Engine;
use crate::table::Table;

/// The plans of at most this many trees with waiting work are looked at: enough to show the largest kinds of work.
const MOST_WAITING: usize = 1000;

/// A piece of background work.
#[derive(Clone, Debug)]
pub struct JobInfo {
    /// WRITE BUFFER, FLUSH, MERGE, ATTACH: what moves entries down a tree. IMAGE: a checkpoint of a table. BUILD INDEX, DROP INDEX,
    /// DROP TABLE. BACKUP: what one pins.
    pub kind: &'static str,
    /// RUNNING; WAITING for a thread; FAILED: it is tried again; DAMAGED: it met damaged pages and is not done. Of a backup: ARMED, PINNED or BROKEN.
    pub state: &'static str,
    /// Empty where there is none any more, and for a backup.
    pub table: String,
    /// Empty for a whole table.
    pub index: String,
    /// Since it began; `None` while it waits.
    pub age: Option<Duration>,
    /// Estimated bytes to be read, or bytes held by a backup; 0: unknown.
    pub bytes: u64,
    /// So far.
    pub bytes_written: u64,
    pub details: String,
}

impl JobInfo {
    pub(crate) fn new(kind: &'static str, state: &'static str) -> JobInfo {
        let (table, index, details) = Default::default();
        JobInfo { kind, state, table, index, age: None, bytes: 0, bytes_written: 0, details }
    }

    fn of(mut self, table: &Table, index: Option<IndexNo>) -> JobInfo {
        let def = table.def();
        self.index = index.and_then(|i| index_name(&def, i)).unwrap_or_default();
        self.table.clone_from(&def.name);
        self
    }
}

impl Engine {
    /// Calls `emit` for each piece of background work until it returns false: a backup, what is under way, and what waits,
    /// of at most a thousand trees.
    pub fn each_job(&self, emit: &mut dyn FnMut(&JobInfo) -> bool) {
        let core = self.core();
        let mut jobs = Vec::new();
        jobs.extend(core.backup_as_job());
        jobs.extend(core.jobs_under_way());
        jobs.extend(core.jobs_of_dropped());
        jobs.extend(core.jobs_waiting());
        jobs.extend(core.jobs_set_aside());
        jobs.iter().all(emit);
    }
}

impl Core {
    fn jobs_under_way(&self) -> Vec<JobInfo> {
        let now = self.shared.vfs.now();
        let info = |work: &Arc<crate::background::running_work::Work>| {
            let mut info = JobInfo::new(work.kind, "RUNNING");
            if let Some(table) = self.table_if_open(work.table) {
                info = info.of(&table, work.index);
            }
            info.age = Some(now.saturating_sub(work.since));
            (info.bytes, info.bytes_written) = (work.bytes, work.written());
            info
        };
        self.works.all().iter().map(info).collect()
    }

    fn jobs_of_dropped(&self) -> Vec<JobInfo> {
        let (tables, indexes) = self.upkeep.to_clear();
        let table = |id: &TableId| {
            let mut info = JobInfo::new("DROP TABLE", "WAITING");
            info.details = crate::table::store::file_name(*id);
            if self.backups.pins(*id) {
                info.details += " is kept for a backup";
            }
            info
        };
        let index = |(table, index): &(Arc<Table>, IndexNo)| {
            let mut info = JobInfo::new("DROP INDEX", "WAITING").of(table, None);
            info.bytes = table.tree(*index).stats().run_bytes;
            info.details = format!("tree {index}");
            info
        };
        tables.iter().map(table).chain(indexes.iter().map(index)).collect()
    }

    /// Waiting work that trees offer, failed work included.
    fn jobs_waiting(&self) -> Vec<JobInfo> {
        let mut jobs = Vec::new();
        for (table, index) in self.ledger.offering(MOST_WAITING) {
            let tree = table.tree(index);
            let Some(plan) = tree.plan() else { continue };
            let failure = self.queue.failure_of(tree.id());
            let state = if failure.is_some() { "FAILED" } else { "WAITING" };
            let mut info = JobInfo::new(name_of(plan.kind), state).of(&table, Some(index));
            info.bytes = plan.input_bytes;
            info.details = failure.map_or_else(String::new, |e| e.to_string());
            jobs.push(info);
        }
        jobs
    }

    /// Work that is not done because it met damaged pages.
    fn jobs_set_aside(&self) -> Vec<JobInfo> {
        let tables = self.tables.read();
        let trees = tables.values().flat_map(|table| table.trees().iter().map(move |t| (table, t)));
        let info = |(table, tree): (&Arc<Table>, &Tree)| {
            let (kind, e) = tree.damage()?;
            let mut info = JobInfo::new(name_of(kind), "DAMAGED").of(table, Some(tree.id().index));
            info.details = e.to_string();
            Some(info)
        };
        trees.filter_map(info).take(MOST_WAITING).collect()
    }
}
