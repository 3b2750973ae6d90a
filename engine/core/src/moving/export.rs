//! Exporting: until the export ends, a table's file holds the whole table and does not change.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};
use frond_tree::{Tree, TreeHold};

use super::format::ExportDescription;
use crate::commit::core::Core;
use crate::table::Table;

/// An export under way (MV1). Drop it to end the export. The caller makes sure that nobody changes the table or its
/// definition meanwhile; a server does so by metadata locks.
pub struct Export {
    core: Arc<Core>,
    table: Arc<Table>,
    holds: Vec<TreeHold>,
    described: Option<ExportDescription>,
    /// Whether this export stopped the table's checkpoints (MV1), so that it has to let them go on.
    is_still: bool,
}

impl Core {
    /// Begins an export: flushes what is in memory, and stops background work on the table. `go_on` is called
    /// now and then; when it returns false, the export is given up.
    ///
    /// # Errors
    /// [`ErrorKind::Discarded`]; [`ErrorKind::Busy`] when the table is exported already, or an index of it is being
    /// built; [`ErrorKind::Interrupted`], [`ErrorKind::NoSpace`]; those of writing files.
    pub(crate) fn begin_export(
        self: &Arc<Self>,
        table: &Arc<Table>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Export> {
        self.may_free_space()?;
        let def = table.def();
        let refuse =
            |kind, what: &str| Err(Error::new(kind, format!("table '{}' {what}", def.name)));
        if table.is_discarded() {
            return refuse(ErrorKind::Discarded, "has no rows: they were discarded");
        }
        if table.is_dropped() {
            return refuse(ErrorKind::Closed, "was dropped");
        }
        if !def.building.is_empty() {
            return refuse(ErrorKind::Busy, "has an index that is being built");
        }
        loop {
            self.push_all(table, go_on)?;
            let (core, table) = (self.clone(), table.clone());
            let (holds, described) = (Vec::new(), None);
            let mut export = Export { core, table, holds, described, is_still: false };
            for tree in export.table.trees().iter() {
                match tree.hold() {
                    Some(hold) => export.holds.push(hold),
                    None => return refuse(ErrorKind::Busy, "is being exported already"),
                }
            }
            while !export.holds.iter().all(TreeHold::has_no_job) {
                self.poll(go_on)?;
                self.queue.pause();
            }
            self.checkpoint_table(&export.table)?;
            {
                let _no_checkpoint = self.trimming.lock();
                let was_still = export.table.set_still(true);
                assert!(!was_still, "a table is exported twice (MV1)");
                export.is_still = true;
            }
            export.described = Some(self.describe(&export.table)?);
            // Otherwise a prepared transaction has committed since, or AUTO_INCREMENT values were logged: try
            // again.
            if export.table.needed_from().is_none() {
                return Ok(export);
            }
            self.poll(go_on)?;
        }
    }

    /// The description of the image that was just written.
    fn describe(&self, table: &Table) -> Result<ExportDescription> {
        let (file, counters) = (table.store().file()?, table.counters());
        Ok(ExportDescription {
            database: self.shared.database,
            table: table.id(),
            header: file.header_bytes(),
            len: file.file_bytes(),
            name: table.def().name.clone(),
            release: concat!("frond ", env!("CARGO_PKG_VERSION")).into(),
            rows: table.rows(),
            auto_increment: counters.auto_increment.load(Ordering::Relaxed),
            row_id: counters.row_id.load(Ordering::Relaxed),
            definition: (*table.def()).clone(),
        })
    }

    fn poll(&self, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.shared.check_poison()?;
        match go_on() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted")),
        }
    }

    /// Flushes until write buffers have nothing of the table, and the trees of dropped indexes are empty.
    fn push_all(
        self: &Arc<Self>,
        table: &Arc<Table>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        for tree in table.trees().iter() {
            self.freeze(tree);
        }
        self.clear_dropped_later(table);
        self.queue.retry(table.id());
        loop {
            self.poll(go_on)?;
            self.disk.check()?;
            if let Some(e) = self.queue.failure_in(table.id()) {
                return Err(e);
            }
            // An abandoned tree begins no job. Clearing it drops its buffered entries.
            let done = |t: &Tree| match t.is_abandoned() {
                true => t.is_clear(),
                false => t.frozen_count() == 0,
            };
            if table.trees().iter().all(done) {
                return Ok(());
            }
            if !self.clear_dropped_index() && !self.job_step() {
                self.queue.pause();
            }
        }
    }
}

impl Export {
    /// The name of the table's file in the database's directory.
    pub fn file_name(&self) -> &str {
        self.table.store().file_name()
    }

    /// What an import needs beside a copy of the file.
    pub fn description(&self) -> &ExportDescription {
        self.described.as_ref().expect("an export is described when it has begun")
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        self.holds.clear();
        if self.is_still {
            self.table.set_still(false);
        }
        self.core.ledger.note_all(&self.table);
        self.core.queue.wake();
    }
}
