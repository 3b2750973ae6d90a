//! Checkpoints: one table's metadata becomes an image in its file, so that older log is not needed for it;
//! and the log is trimmed to what some table still needs.
//!
//! A checkpoint writes no pages: runs are immutable and were synced before the edit that named them. So it
//! is small (about 1/10 000 of the data), and there is no periodic dip because there is nothing to write
//! in a burst.
//!
//! - K1. The log is durable up to the image's LSN before the header that names the image is written.
//!   Otherwise a crash could keep this table's part of a transaction that the log lost.
//! - K2. The log is trimmed only below what every table needs, computed after its end was read (ST3).
//! - K3. Before segments are removed, a durable record says up to where: recovery can tell a trimmed log
//!   from one that lost its front.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{BlockId, ErrorKind, Lsn, Result};
use frond_tree::Tree;

use crate::canary;
use crate::core::Core;
use crate::record::{trim_record, KIND_TRIM};
use crate::table::Table;

impl Core {
    /// Writes an image of `table`. Does nothing for a table that has no runs and no file.
    pub(crate) fn checkpoint_table(&self, table: &Table) -> Result<()> {
        let store = table.store();
        if table.is_dropped() {
            return Ok(());
        }
        let file = store.file()?;
        let _no_trim = self.trimming.lock();
        let pin = file.begin_checkpoint();
        let (image, lsn, live, dirty_from) = {
            let _edits = store.edits().lock();
            let _ordered = self.commit.lock();
            let lsn = self.shared.wal.end();
            let live: Vec<BlockId> = table
                .trees()
                .iter()
                .flat_map(|t| t.run_extents().into_iter().map(|(block, _)| block))
                .collect();
            let dirty_from = store.imaged();
            (table.image().encode(), lsn, live, dirty_from)
        };
        let synced = if canary::active(canary::IMAGE_WITHOUT_LOG) { 0 } else { lsn };
        let written = self
            .shared
            .wal
            .sync_to(synced)
            .map_err(|e| self.shared.poison(e))
            .and_then(|()| pin.write(&image, lsn, &live));
        if written.is_err() {
            // The log is needed from where it was. Not from the old image's LSN: before the first image
            // that is the creation of the file, and the table's first records are older.
            store.touched(dirty_from);
        }
        written.map_err(|e| match e.kind() {
            // Which header a restart finds is unknown (S7 of the table file).
            ErrorKind::Io | ErrorKind::Poisoned => self.shared.poison(e),
            _ => e,
        })?;
        self.counters.images.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The oldest log position that some table needs, and that table.
    pub(crate) fn oldest_needed(&self) -> Option<(Lsn, Arc<Table>)> {
        let tables = self.tables.read();
        tables
            .values()
            .filter(|t| !t.is_dropped())
            .filter_map(|t| t.needed_from().map(|lsn| (lsn, t.clone())))
            .min_by_key(|(lsn, _)| *lsn)
    }

    /// Trims the log to what is needed (K2).
    pub(crate) fn trim_log(&self) -> Result<()> {
        let _no_checkpoint = self.trimming.lock();
        let end = self.shared.wal.durable();
        let needed = self.oldest_needed().map_or(end, |(lsn, _)| lsn.min(end));
        let needed = if canary::active(canary::TRIM_TOO_FAR) { end } else { needed };
        let wal = &self.shared.wal;
        if !wal.can_trim(needed) {
            return Ok(());
        }
        // K3.
        let at = wal.append(KIND_TRIM, &trim_record(needed))?;
        wal.sync_to(at.end).map_err(|e| self.shared.poison(e))?;
        wal.trim(needed)
    }

    /// Works towards a shorter log: freezes or images the table that holds it back. Returns whether there
    /// was anything to do at once (a frozen buffer must be flushed by a job first).
    pub(crate) fn shorten_log(&self, target: Lsn) -> Result<bool> {
        let Some((needed, table)) = self.oldest_needed() else {
            self.trim_log()?;
            return Ok(false);
        };
        if needed >= target {
            self.trim_log()?;
            return Ok(false);
        }
        let mut frozen = false;
        for tree in table.trees() {
            if tree.oldest_needed().is_some_and(|lsn| lsn < target) {
                frozen |= tree.frozen_count() > 0 || self.freeze(tree);
            }
        }
        if frozen {
            self.work.wake();
            return Ok(false);
        }
        self.checkpoint_table(&table)?;
        self.trim_log()?;
        Ok(true)
    }

    /// Freezes the tree's active buffer (C1). Returns false when it was empty.
    pub(crate) fn freeze(&self, tree: &Tree) -> bool {
        let _gate = self.gate.write();
        let frozen = tree.freeze(self.shared.wal.end());
        if frozen {
            self.counters.freezes.fetch_add(1, Ordering::Relaxed);
        }
        frozen
    }
}
