//! Maintenance of one table on request.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};
use frond_tree::Tree;
use frond_wal::Claim;

use crate::engine::Engine;
use crate::record::{put_counters, CounterRecord, KIND_SET_COUNTERS};
use crate::table::Table;

impl Engine {
    /// Sets the next AUTO_INCREMENT value, up or down. Durable with the next sync of the log.
    pub fn set_auto_increment(&self, table: &Arc<Table>, next: u64) -> Result<()> {
        let core = self.core();
        core.may_write()?;
        let _room = core.shared.wal.reserve(64, Claim::Ordinary)?;
        let def = core.names.read().by_id(table.id()).cloned();
        let _ordered = core.commit.lock();
        // At a restart the transaction's record would come in between.
        def.map_or(Ok(()), |def| core.check_has_no_prepared(def.id, &def.name))?;
        let set = CounterRecord { auto_increment: next.max(1), ..table.counter_record(0) };
        let mut payload = Vec::new();
        put_counters(&mut payload, &[set]);
        table.store().touched(core.shared.wal.end());
        core.shared.wal.append(KIND_SET_COUNTERS, &payload)?;
        table.set_next(set.auto_increment);
        Ok(())
    }

    /// Moves everything buffered into runs and works off the table's debt, also what was set aside because
    /// pages are damaged; `killed` is polled.
    pub fn optimize_table(
        &self,
        table: &Arc<Table>,
        killed: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let core = self.core();
        core.may_free_space()?;
        for tree in table.trees().iter() {
            core.freeze(tree);
            tree.retry_damaged();
        }
        core.queue.retry(table.id());
        loop {
            core.shared.check_poison()?;
            core.disk.check()?;
            if let Some(e) = core.queue.failure_in(table.id()) {
                return Err(e);
            }
            if let Some((_, e)) = table.trees().iter().find_map(Tree::damage) {
                return Err(e);
            }
            if table.is_dropped() || table.trees().iter().all(|t| t.is_settled()) {
                return Ok(());
            }
            if killed() {
                return Err(Error::new(ErrorKind::Interrupted, "OPTIMIZE was interrupted"));
            }
            // Including work caused by readers.
            core.ledger.note_all(table);
            if !core.job_step() {
                core.queue.pause();
            }
        }
    }
}
