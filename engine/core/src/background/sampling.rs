//! Sampling the indexes of tables for an optimizer (`rows/distinct.rs`), and keeping the result in the catalog.
//!
//! The log thread's sweep finds tables whose statistics are old or not in the catalog yet; a worker samples them. So no
//! statement waits for the reads. The exception is a table of few entries: a statement samples it itself, in a fraction of
//! a millisecond, because its plans would otherwise depend on when a worker samples it.
//!
//! The catalog's row is not synced: a crash may bring back an older one.

use std::sync::Arc;

use frond_base::{Result, TableId};
use frond_row::{History, PlainSortKeys, RecordLayout, RowCodec, Schema};
use frond_txn::WriteSet;
use frond_wal::Claim;

use crate::background::running_work::Work;
use crate::catalog::key_statistics::{statistics_key, KeyStatistics};
use crate::catalog::CatalogRow;
use crate::commit::core::Core;
use crate::rows::distinct::distinct;
use crate::table::Table;

/// Entries of all indexes of a table that a statement samples itself.
const SMALL: u64 = 4000;

impl Core {
    /// The sweep calls this: queues the table for a worker when its statistics are old.
    pub(crate) fn note_old_statistics(&self, table: &Arc<Table>) {
        if table.sampled().wants_background(table.state(), self.shared.vfs.now()) {
            self.upkeep.sample_later(table);
        }
    }

    /// Samples one table whose statistics are old. False when there is none.
    pub(crate) fn sample_step(self: &Arc<Self>) -> bool {
        let Some(table) = self.upkeep.take_sampled() else { return false };
        let now = self.shared.vfs.now();
        if table.is_dropped() || !table.sampled().wants_background(table.state(), now) {
            return true;
        }
        // Whatever fails is tried again later; statistics are no reason to stop anything.
        let one = table.sampled().sampling.lock();
        // Whoever had the lock may have sampled it.
        if table.sampled().is_old(table.state()) {
            let _listed = self.works.begin(Work::new("STATISTICS", table.id(), now));
            let _ = self.sample_locked(&table);
        }
        drop(one);
        // A DDL statement with this mutex may be waiting for work that only workers do, so a worker must not wait for it.
        if let Some(_one) = self.ddl.try_lock() {
            let _ = self.save_locked(&table);
        }
        table.sampled().rest_from(now);
        true
    }

    /// Before a statement uses the statistics of `table`.
    pub(crate) fn sample_if_small(&self, table: &Table) -> Result<()> {
        let entries = table.rows().saturating_mul(table.trees().len() as u64);
        if entries > SMALL || !table.sampled().is_old(table.state()) {
            return Ok(());
        }
        // While another thread samples, this statement uses the statistics that exist.
        let Some(_one) = table.sampled().sampling.try_lock() else { return Ok(()) };
        match table.sampled().is_old(table.state()) {
            true => self.sample_locked(table),
            false => Ok(()),
        }
    }

    /// Samples all indexes of `table`.
    pub(crate) fn sample(&self, table: &Table) -> Result<()> {
        let _one = table.sampled().sampling.lock();
        self.sample_locked(table)
    }

    fn sample_locked(&self, table: &Table) -> Result<()> {
        let then = table.state();
        let def = table.def();
        if def.schema.is_empty() || table.is_discarded() {
            return Ok(());
        }
        let schema = Arc::new(Schema::decode(&def.schema, &def.name)?);
        let layout = RecordLayout::compact(&schema);
        let sort = Arc::new(PlainSortKeys);
        // Splitting keys into parts needs no collation and reads no row.
        let codec = RowCodec::bind(&def.name, schema.clone(), layout, History::default(), sort)?;
        let indexes = Vec::with_capacity(schema.indexes.len());
        let mut found = KeyStatistics { rows: then.rows, indexes };
        for (n, index) in schema.indexes.iter().enumerate() {
            if self.queue.stopping() {
                return Ok(());
            }
            let prefix = |key: &[u8], part: usize| codec.prefix(n, key, part + 1);
            let parts = distinct(table.tree(index.tree), then.rows, index.parts.len(), &prefix)?;
            found.indexes.push((index.tree, parts));
        }
        table.sampled().put(Arc::new(found), then);
        Ok(())
    }

    /// Writes the statistics to the catalog, if it does not have them; returns the end of the record.
    pub(crate) fn save_statistics(self: &Arc<Self>, table: &Arc<Table>) -> Result<Option<u64>> {
        if self.options.read_only || !table.sampled().is_unsaved() {
            return Ok(None);
        }
        let _one = self.ddl.lock();
        self.save_locked(table)
    }

    /// The caller holds the DDL mutex.
    fn save_locked(self: &Arc<Self>, table: &Arc<Table>) -> Result<Option<u64>> {
        let sampled = table.sampled();
        if self.options.read_only || !sampled.is_unsaved() {
            return Ok(None);
        }
        let number = sampled.number();
        let Some(current) = sampled.current() else { return Ok(None) };
        // A dropped table's row would stay for ever.
        if self.names.read().by_id(table.id()).is_none() {
            return Ok(None);
        }
        let system = self.system_table();
        let mut writes = WriteSet::new();
        writes.put(system.tree(0).id(), &statistics_key(table.id()), &current.encode());
        let end = self.commit_definition(&mut writes, &[system], Claim::Ordinary)?;
        let statistics = Some(current);
        self.names.write().apply(CatalogRow::Statistics { table: table.id(), statistics });
        sampled.saved(number);
        Ok(end)
    }

    /// At an orderly close.
    pub(crate) fn save_all_statistics(self: &Arc<Self>) {
        let tables: Vec<Arc<Table>> = self.tables.read().values().cloned().collect();
        for table in tables.iter().filter(|t| !t.is_dropped()) {
            if self.save_statistics(table).is_err() {
                return;
            }
        }
    }

    /// The row to delete when `table` goes.
    pub(crate) fn key_of_statistics(&self, table: TableId) -> Option<Vec<u8>> {
        self.names.read().statistics(table).map(|_| statistics_key(table))
    }

    /// Samples the table now; durable when it returns.
    pub(crate) fn analyze(self: &Arc<Self>, table: &Arc<Table>) -> Result<()> {
        self.sample(table)?;
        if let Some(end) = self.save_statistics(table)? {
            self.shared.wal.sync_to(end).map_err(|e| self.shared.poison(e))?;
        }
        Ok(())
    }
}
