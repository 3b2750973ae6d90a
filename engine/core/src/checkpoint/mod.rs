//! Checkpoints: one table's metadata becomes an image in its file, so that the table does not need
//! older log; and the log is trimmed to the oldest record that a holder needs.
//!
//! A checkpoint writes no pages: runs are immutable and were synced before the edit that named
//! them. So it is small (about 1/10 000 of the data), and it does not slow other work, as there is
//! no burst of writes.
//!
//! - K1. The log is durable up to the image's LSN before the header that names the image is written.
//!   Otherwise a crash could keep this table's part of a transaction that the log lost.
//! - K2. The log is trimmed only below the records that holders need (`holders.rs`), computed after
//!   its end was read (ST3).
//! - K3. Before segments are removed, a durable record says up to where, and which image each table
//!   has (`images.rs`). So recovery can tell a trimmed log from one that lost its first segments,
//!   and a table without rows from one that lost its file.
//! - K4. The log is not trimmed beyond commits that are in the log and not in the buffers yet: an
//!   image taken meanwhile makes their table look clean.
//! - K5. A close writes an image of the catalog at the log's end: a log that ends before it has
//!   lost its newest segments.
//! - K6. The packs that an image names are durable before the header that names the image, by the sync of
//!   both; packs that it does not name are given back when that header is durable.
//!
//! Commits wait for a checkpoint only while it takes the log's end, the counters and a version of each tree:
//! versions do not change, so what changed in them is written beside commits (`frond_tree::Version`).

pub(crate) mod holders;
pub(crate) mod images;
pub(crate) mod outlook;
pub(crate) mod recovery_time;

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{BlockId, ErrorKind, Lsn, Result};
use frond_space::BlockChange;
use frond_tree::{RunStore, StoredVersion, Tree, Version};
use frond_wal::Claim;

use crate::background::running_work::Work;
use crate::canary;
use crate::checkpoint::holders::{oldest, Holder};
use crate::checkpoint::recovery_time::Ages;
use crate::commit::core::Core;
use crate::record::{trim_record, KIND_TRIM};
use crate::table::Table;

/// Images that one round writes to make the log shorter: each is a small write and two syncs.
const IMAGES: usize = 64;

impl Core {
    /// Writes an image of `table`; creates the file if there is none. Does nothing for a dropped table.
    pub(crate) fn checkpoint_table(&self, table: &Table) -> Result<()> {
        let store = table.store();
        if table.is_dropped() {
            return Ok(());
        }
        let file = match store.file() {
            Err(e) if e.kind() == ErrorKind::Closed => return Ok(()),
            file => file?,
        };
        let _no_trim = self.trimming.lock();
        if table.is_still() {
            return Ok(()); // MV1
        }
        let work = Work::new("IMAGE", table.id(), self.shared.vfs.now());
        let _under_way = self.works.begin(work);
        let pin = file.begin_checkpoint();
        let (lsn, (mut image, versions), dirty_from) = {
            let _edits = store.edits().lock();
            let _ordered = self.commit.lock();
            let lsn = self.shared.wal.end();
            (lsn, table.version(lsn), store.imaged())
        };
        let stored: Result<Vec<StoredVersion>> = versions.iter().map(Version::store).collect();
        drop(versions);
        let synced = if canary::active(canary::IMAGE_WITHOUT_LOG) { 0 } else { lsn };
        let written = stored.and_then(|stored| {
            self.shared.wal.sync_to(synced).map_err(|e| self.shared.poison(e))?;
            let durable = self.shared.wal.durable();
            assert!(
                durable >= synced,
                "an image of {synced}, the log is durable to {durable} (K1)"
            );
            image.trees = stored.iter().map(|s| s.image().to_vec()).collect();
            let change = BlockChange {
                added: stored.iter().flat_map(StoredVersion::added).collect(),
                removed: stored.iter().flat_map(StoredVersion::removed).collect(),
            };
            let dead: Vec<BlockId> = stored.iter().flat_map(|s| s.dead_packs()).copied().collect();
            let early = canary::active(canary::FREE_PACKS_EARLY);
            dead.iter().filter(|_| early).for_each(|block| file.discard(*block));
            pin.write_changed(&image.encode(), lsn, &change)?;
            stored.into_iter().for_each(StoredVersion::set_durable);
            dead.iter().filter(|_| !early).for_each(|block| store.retire(*block, lsn)); // K6
            Ok(())
        });
        if written.is_err() {
            // The table needs the log from its previous position on. Not from the old image's LSN:
            // before the first image that LSN is the creation of the file, and the table's first
            // records are older.
            store.touched(dirty_from);
        }
        written.map_err(|e| match e.kind() {
            // Which header a restart finds is unknown (S7 of the table file).
            ErrorKind::Io | ErrorKind::Poisoned => self.shared.poison(e),
            _ => e,
        })?;
        store.charge_map();
        assert!(!table.is_still(), "an exported table got an image (MV1)");
        if !table.is_dropped() {
            let durable = file.checkpoint_lsn();
            assert!(durable >= lsn, "an image of {lsn} is noted, {durable} is durable (I1)");
            self.images.note(table.id(), lsn);
        }
        self.counters.images.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The oldest log position that some table needs, and that table.
    pub(crate) fn oldest_needed(&self) -> Option<(Lsn, Arc<Table>)> {
        oldest(self.tables.read().values()).map(|(lsn, table)| (lsn, table.clone()))
    }

    /// Trims the log to the oldest record that is needed (K2).
    pub(crate) fn trim_log(&self) -> Result<()> {
        let _no_checkpoint = self.trimming.lock();
        let end = self.shared.wal.durable();
        // K4. Read before the tables' needs: a commit that is applied meanwhile is among those.
        let end = self.clock.holds_log_from().map_or(end, |lsn| lsn.min(end));
        // PX1, in this order for the same reason.
        let held = match canary::active(canary::HOLD_NO_PREPARED) {
            true => end,
            false => self.prepared.holds_log_from().map_or(end, |lsn| lsn.min(end)),
        };
        let needed = self.oldest_needed().map_or(held, |(lsn, _)| lsn.min(held));
        let needed = self.backups.holds_log_from().map_or(needed, |lsn| lsn.min(needed));
        let needed = if canary::active(canary::TRIM_TOO_FAR) { end } else { needed };
        assert!(needed <= end, "trimming to {needed}, beyond {end} (K2, K4)");
        let wal = &self.shared.wal;
        let gain = wal.trimmable(needed);
        if gain == 0 {
            return Ok(());
        }
        // K3.
        let listed = match canary::active(canary::LIST_NO_IMAGES) {
            true => Default::default(),
            false => self.images.listed(),
        };
        let record = trim_record(needed, &listed, self.target.slowness());
        if gain <= record.len() as u64 {
            // Many tables and small segments: wait until trimming makes the log shorter.
            return Ok(());
        }
        let room = wal.reserve(record.len() as u64, Claim::Freeing)?;
        let at = wal.append(KIND_TRIM, &record)?;
        drop(room);
        wal.sync_to(at.end).map_err(|e| self.shared.poison(e))?;
        assert!(wal.durable() >= at.end, "segments go before the record that says so (K3)");
        assert!(needed <= at.start, "a trim reaches its own list (I2)");
        let kept_from = wal.kept_from();
        let trimmed = wal.trim(needed).map_err(|e| self.shared.poison(e));
        assert!(wal.kept_from() <= needed.max(kept_from), "log that is needed is gone (K2)");
        trimmed
    }

    /// Works towards a log that begins where `ages` say. Freezes trees whose buffers have older
    /// changes. Writes images, at most [`IMAGES`], of tables that still need older log although
    /// their buffers have nothing so old any more.
    pub(crate) fn shorten_log(&self, ages: &Ages) -> Result<()> {
        let began = self.shared.vfs.now();
        let mut holding: Vec<(Lsn, Arc<Table>)> = {
            let tables = self.tables.read();
            let from = tables.values().filter_map(|t| Some((t.holds_log_from()?, t)));
            let old = from.filter(|(lsn, _)| *lsn < ages.youngest());
            old.map(|(lsn, t)| (lsn, t.clone())).collect()
        };
        self.upkeep.needs.worked(began, self.shared.vfs.now());
        // Ordered, so that the log gets shorter with the first ones.
        holding.sort_by_key(|(lsn, table)| (*lsn, table.id()));
        let (mut any_frozen, mut images) = (false, 0);
        for (lsn, table) in holding {
            if self.backups.is_still(self.shared.vfs.now()) {
                return Ok(()); // BP4
            }
            let mut frozen = false;
            for tree in table.trees().iter() {
                if tree.oldest_needed().is_some_and(|lsn| lsn < ages.of(tree.id())) {
                    frozen |= tree.frozen_count() > 0 || self.freeze(tree);
                }
            }
            if !frozen && lsn < ages.oldest() && images < IMAGES {
                self.checkpoint_table(&table)?;
                images += 1;
            }
            any_frozen |= frozen;
        }
        if any_frozen {
            self.queue.wake();
        }
        let trimmed = self.trim_log();
        if images == IMAGES {
            self.upkeep.needs.hurry();
        }
        trimmed
    }

    /// K5. For closing, before the log is settled: an image beyond the last record would make damage to
    /// the marker behind it look like a loss.
    pub(crate) fn close_catalog(&self) -> Result<()> {
        let system = self.system_table();
        let imaged = || system.store().existing_file().map_or(0, |f| f.checkpoint_lsn());
        let end = self.shared.wal.records_end();
        let is_done = imaged() >= end;
        if self.options.read_only || is_done || self.shared.check_poison().is_err() {
            return Ok(());
        }
        match self.checkpoint_table(&system) {
            // Without the image a later loss of segments may go unnoticed; nothing else needs it.
            Err(e) if e.kind().is_shortage() => Ok(()),
            Err(e) => Err(e),
            Ok(()) => {
                assert!(imaged() >= end, "the catalog's image is of {}, not {end} (K5)", imaged());
                Ok(())
            }
        }
    }

    /// Freezes the tree's active buffer (C1). Returns false when it was empty.
    pub(crate) fn freeze(&self, tree: &Tree) -> bool {
        let gate = self.gate.write();
        let frozen = tree.freeze(self.shared.wal.end());
        drop(gate);
        if let Some(table) = self.tables.read().get(&tree.id().table) {
            self.ledger.note(table, tree);
        }
        if frozen {
            self.counters.freezes.fetch_add(1, Ordering::Relaxed);
        }
        frozen
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use frond_base::{EntryKind, EntryRef};
    use frond_vfs::MemVfs;
    use frond_wal::Claim;

    use crate::catalog::ddl::TableSpec;
    use crate::commit::transaction::TxnOptions;
    use crate::engine::Engine;
    use crate::options::Options;
    use crate::record::{put_counters, put_entry, put_tree_section, KIND_TRANSACTION};

    /// A table is imaged and the log is trimmed while a commit is between its record and the
    /// buffers. A large commit is there for seconds, and one whose thread is not scheduled for any
    /// time.
    #[test]
    fn log_of_a_commit_that_is_not_in_the_buffers_yet_is_kept() {
        let vfs = MemVfs::stepped();
        let options = Options {
            cache_bytes: 8 << 20,
            log_segment_bytes: 64 << 10,
            log_capacity_bytes: 256 << 10,
            background_threads: 0,
            ..Options::default()
        };
        let engine = Engine::open(Arc::new(vfs), options).unwrap();
        let spec = |name: &str| TableSpec::plain(name);
        let table = engine.create_table(spec("t")).unwrap();
        let core = engine.core();
        let wal = &core.shared.wal;
        let tree = table.tree(0).id();
        // Nothing else needs the log.
        engine.flush_all().unwrap();
        assert!(core.oldest_needed().is_none());

        // `append_and_apply`, stopped half-way.
        let mut payload = Vec::new();
        frond_base::put_varint(&mut payload, 1);
        put_tree_section(&mut payload, tree, 1);
        put_entry(&mut payload, b"k", EntryKind::Put, b"v");
        put_counters(&mut payload, &[]);
        let at = {
            let _room = wal.reserve(payload.len() as u64, Claim::Ordinary).unwrap();
            let _ordered = core.commit.lock();
            table.store().touched(wal.end());
            let at = wal.append(KIND_TRANSACTION, &payload).unwrap();
            core.clock.begin_commit_at(at.end);
            at
        };

        // Other records fill segments.
        core.checkpoint_table(&table).unwrap();
        let mut noise = 1u64;
        while wal.end() < at.end + (200 << 10) {
            let mut bytes = vec![0u8; 4000];
            for b in &mut bytes {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *b = (noise >> 56) as u8;
            }
            let filler = wal.append(crate::record::KIND_COUNTERS, &bytes).unwrap();
            wal.sync_to(filler.end).unwrap();
        }
        core.trim_log().unwrap();
        assert!(wal.kept_from() <= at.start, "{} > {}", wal.kept_from(), at.start);

        let entry = EntryRef { key: b"k", seq: at.end, kind: EntryKind::Put, value: b"v" };
        table.tree(0).write(at.start, [entry]);
        core.clock.finish(at.end);
        core.trim_log().unwrap();
        assert!(wal.kept_from() <= at.start);
        let mut value = Vec::new();
        let mut txn = engine.begin(TxnOptions::default());
        assert!(txn.get(&table, 0, b"k", &mut value).unwrap());
    }
}
