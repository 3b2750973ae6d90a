//! Dropped tables: removes their pages from the cache and their files from the disk, in the background. Dropped
//! indexes: empties their trees.
//!
//! DROP and TRUNCATE take the same time for tables of any size: they only remove the table's name, and
//! its number is never used again. The table's pages leave the cache here, because they may be its most
//! used ones. A large file is cut off in pieces: unlinking it at once would block the file
//! system, and with it every sync, for seconds.
//!
//! Workers do this between jobs, a piece at a time. A crash leaves an orphan file that the next
//! start removes.

use std::io;

use frond_vfs::OpenHow;

use crate::background::upkeep::DroppedTable;
use crate::commit::core::Core;
use crate::table::store::file_name;

/// Bytes that are cut off a file at a time: some milliseconds.
const PIECE: u64 = 256 << 20;

impl Core {
    /// Removes a piece of a dropped table. False when there is none, or the rest is in use.
    pub(crate) fn clear_dropped(&self) -> bool {
        let is_due = self.upkeep.forgetting.is_due(self.shared.vfs.now());
        if (is_due || self.options.background_threads == 0) && self.forget_dropped() {
            return true;
        }
        let Some(dropped) = self.take_dropped() else { return false };
        // While the table has readers, its file is unlinked at once: the space is freed when the last reader ends.
        if dropped.table.strong_count() == 0 && self.cut_off(dropped.id).unwrap_or(false) {
            self.upkeep.put_back(dropped);
            return true;
        }
        self.remove_dropped(dropped)
    }

    /// Empties the tree of a dropped index: one trunk edit, after which its blocks are free. False when there
    /// is none, or a job of it is under way.
    pub(crate) fn clear_dropped_index(&self) -> bool {
        let Some((table, index)) = self.upkeep.take_cleared() else { return false };
        if table.is_dropped() || self.shared.check_poison().is_err() {
            return true;
        }
        let tree = table.tree(index);
        // A transaction that wrote to an index while it was built may commit after the index was given up. No commit is
        // between its record and the buffers while the gate is held, so the records of all that the tree has lie before
        // the end of the log.
        let gate = self.gate.write();
        let cleared = tree.clear(self.shared.wal.end());
        drop(gate);
        match cleared {
            Ok(true) => {
                self.ledger.note(&table, tree);
                table.store().reclaim();
                true
            }
            Ok(false) => {
                self.upkeep.clear_later(&table, index);
                false
            }
            Err(e) => {
                if e.kind() == frond_base::ErrorKind::Io {
                    self.shared.poison(e);
                } else {
                    if self.messages.is_news(Some(tree.id()), e.kind(), self.shared.vfs.now()) {
                        self.messages.say(1, &format!("emptying tree {}: {e}", tree.id()));
                    }
                    self.upkeep.clear_later(&table, index);
                }
                false
            }
        }
    }

    /// Removes all files of dropped tables, whatever their sizes: before closing, and on a full disk. Their pages are for the
    /// workers to forget.
    pub(crate) fn clear_all_dropped(&self) {
        while let Some(dropped) = self.take_dropped() {
            if !self.remove_dropped(dropped) {
                return;
            }
        }
    }

    /// Drops the pages and rows of all tables that were dropped since the last call. One pass looks at everything that the
    /// caches have, so tables that are dropped one after the other share it. False when there are none.
    fn forget_dropped(&self) -> bool {
        let (pages, rows) = (&self.shared.cache, &self.shared.rows);
        let began = self.shared.vfs.now();
        let any = self.upkeep.forget_dropped(|tables| {
            pages.forget_tables(tables);
            rows.forget_tables(tables);
        });
        self.upkeep.forgetting.worked(began, self.shared.vfs.now());
        any
    }

    /// Takes a dropped table whose file may go; a file that a backup pins stays (BP3).
    fn take_dropped(&self) -> Option<DroppedTable> {
        self.upkeep.take_dropped(|id| !self.backups.pins(id))
    }

    /// Makes the file a piece shorter; false when it is short enough to be unlinked.
    fn cut_off(&self, id: frond_base::TableId) -> io::Result<bool> {
        let file = self.shared.vfs.open(&file_name(id), OpenHow::WRITE)?;
        let len = file.len()?;
        if len <= PIECE {
            return Ok(false);
        }
        file.set_len(len - PIECE)?;
        Ok(true)
    }

    /// False when it cannot be removed now.
    fn remove_dropped(&self, dropped: DroppedTable) -> bool {
        let name = file_name(dropped.id);
        match self.shared.vfs.remove(&name) {
            Err(e) if frond_vfs::is_out_of_descriptors(&e) => {
                self.upkeep.put_back(dropped);
                return false;
            }
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                self.messages.say(1, &format!("cannot remove {name} of a dropped table: {e}"));
            }
            _ => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use frond_vfs::{OpenHow, OsVfs, Vfs};

    use crate::catalog::ddl::TableSpec;
    use crate::catalog::IndexDef;
    use crate::commit::transaction::TxnOptions;
    use crate::engine::Engine;
    use crate::options::Options;
    use crate::table::store::file_name;

    use super::PIECE;

    fn spec() -> TableSpec {
        TableSpec::plain("t")
    }

    /// A sparse file stands in for a large one.
    #[test]
    fn a_large_file_goes_in_pieces_unless_somebody_has_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { background_threads: 0, ..Options::default() };
        let vfs = Arc::new(OsVfs::new(dir.path()).unwrap());
        let engine = Engine::open(vfs.clone(), options).unwrap();
        for in_use in [false, true] {
            let table = engine.create_table(spec()).unwrap();
            let mut txn = engine.begin(TxnOptions::default());
            txn.put(&table, b"key", b"value", true).unwrap();
            txn.commit().unwrap();
            engine.flush_all().unwrap();
            let name = file_name(table.id());
            let file = vfs.open(&name, OpenHow::WRITE).unwrap();
            file.set_len(3 * PIECE + 5).unwrap();
            let held = in_use.then(|| table.clone());
            drop(table);
            engine.drop_table("t").unwrap();
            let mut lengths = Vec::new();
            while vfs.exists(&name).unwrap() {
                lengths.push(file.len().unwrap());
                assert!(engine.core().clear_dropped() || !vfs.exists(&name).unwrap());
            }
            let cut: &[u64] = match in_use {
                false => &[3 * PIECE + 5, 3 * PIECE + 5, 2 * PIECE + 5, PIECE + 5, 5],
                true => &[3 * PIECE + 5, 3 * PIECE + 5],
            };
            assert_eq!(lengths, cut);
            assert!(!engine.core().clear_dropped());
            drop(held);
        }
        drop(engine);
        assert!(!vfs.list().unwrap().iter().any(|name| name.ends_with("2.frd")));
    }

    /// A commit that began its record may attach runs to a tree that was given up, and the tree must not be marked as
    /// empty up to a position behind that record with the runs taken in later. Takes 0.1 s.
    #[test]
    fn a_tree_is_not_emptied_while_a_commit_is_half_way() {
        let options = Options { background_threads: 0, ..Options::default() };
        let engine = Engine::open(Arc::new(frond_vfs::MemVfs::stepped()), options).unwrap();
        let two = TableSpec { indexes: vec![IndexDef::plain(); 2], ..spec() };
        let table = engine.create_table(two).unwrap();
        let mut txn = engine.begin(TxnOptions::default());
        txn.writes_to(&table).unwrap();
        txn.put_unlocked(&table, 1, b"key", b"value").unwrap();
        txn.commit().unwrap();
        let (core, tree) = (engine.core(), table.tree(1));
        tree.abandon();
        core.clear_dropped_later(&table);
        let commit = core.gate.read();
        std::thread::scope(|threads| {
            let worker = threads.spawn(|| core.clear_dropped_index());
            for _ in 0..100 {
                if worker.is_finished() {
                    break;
                }
                std::thread::park_timeout(std::time::Duration::from_millis(1));
            }
            let empty = tree.is_clear();
            drop(commit);
            assert!(worker.join().unwrap());
            assert!(!empty, "it did not wait for the commit");
        });
        assert!(tree.is_clear());
    }
}
