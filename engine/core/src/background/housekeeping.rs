//! Tending the log and the disk: one round of it every tenth of a second.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind};
use frond_tree::Tree;

use crate::commit::core::Core;
use crate::options::Durability;
use crate::table::Table;

/// How often the log thread looks at all tables.
const LOOK_AROUND: Duration = Duration::from_secs(1);

impl Core {
    /// Tends the log: sync each second, next segment, trimming, images; and removes dropped files.
    pub(crate) fn log_round(self: &Arc<Self>) {
        let now = self.shared.vfs.now();
        let wal = &self.shared.wal;
        if self.durability() != Durability::Sync {
            let mut last = self.work.last_sync.lock();
            if now.saturating_sub(*last) >= Duration::from_secs(1) {
                *last = now;
                drop(last);
                if let Err(e) = wal.sync_to(wal.end()) {
                    self.shared.poison(e);
                }
            }
        }
        if self.shared.check_poison().is_err() {
            return;
        }
        match wal.prepare_segment() {
            Err(e) if e.kind() == ErrorKind::NoSpace => self.work.set_full(Some(&e)),
            // Closing idle files did not help: the next round tries again.
            Err(e) if e.kind() == ErrorKind::TooManyFiles => {
                if self.work.is_news(None, e.kind(), now) {
                    self.log_message(1, &format!("preparing the log: {e}"));
                }
            }
            Err(e) => {
                self.shared.poison(e);
            }
            Ok(()) if self.work.is_full.load(Ordering::Relaxed) => {
                // Let the next job find out whether there is room again.
                self.work.failures.lock().clear();
                if self.most_urgent().is_none() {
                    self.work.set_full(None);
                }
                self.work.wake();
            }
            Ok(()) => {}
        }
        self.take_back_lent();
        self.look_around(now);
        let (end, kept) = (wal.end(), wal.kept_from());
        let target = end.saturating_sub(self.work.log_capacity() / 2);
        if kept < target {
            if let Err(e) = self.renew_prepared(target) {
                self.image_failed(&e);
            }
            // A few tables per round: each image is a small write and two syncs.
            for _ in 0..16 {
                match self.shorten_log(target) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(e) => {
                        self.image_failed(&e);
                        break;
                    }
                }
            }
        }
        self.remove_doomed_files();
        self.work.return_memory(self);
    }

    /// Once in a while: tables at which only readers have made work; and on a full disk, what can be given
    /// back without a commit or a job.
    fn look_around(&self, now: Duration) {
        {
            let mut last = self.work.last_look.lock();
            if now.saturating_sub(*last) < LOOK_AROUND {
                return;
            }
            *last = now;
        }
        let tables: Vec<Arc<Table>> = self.tables.read().values().cloned().collect();
        for table in tables.iter().filter(|t| !t.is_listed() && !t.is_dropped()) {
            if table.trees().iter().any(Tree::may_have_work) {
                self.work.add(table);
                table.set_listed(true);
            }
        }
        if self.work.is_full.load(Ordering::Relaxed) {
            self.give_space_back(&tables);
        }
    }

    /// What transactions that were rolled back had written goes back to the file system.
    fn take_back_lent(&self) {
        let lent = std::mem::take(&mut *self.work.lent.lock());
        for table in lent.iter().filter(|t| !t.is_dropped()) {
            if let Some(file) = table.store().existing_file() {
                // Space is only lent for longer.
                let _ = file.give_back();
            }
        }
    }

    /// Space that edits have freed may be used again when they are durable (ST2), and while nothing can be
    /// committed nobody syncs the log.
    fn give_space_back(&self, tables: &[Arc<Table>]) {
        let wal = &self.shared.wal;
        if let Err(e) = wal.sync_to(wal.end()) {
            self.shared.poison(e);
            return;
        }
        for table in tables {
            table.store().reclaim();
            if let Some(file) = table.store().existing_file() {
                // Space is only lent for longer.
                let _ = file.give_back();
            }
        }
    }

    fn image_failed(&self, failure: &Error) {
        match failure.kind() {
            ErrorKind::NoSpace => self.work.set_full(Some(failure)),
            ErrorKind::Io | ErrorKind::Poisoned => {
                self.shared.poison(failure.duplicate());
            }
            _ => {}
        }
        if self.work.is_news(None, failure.kind(), self.shared.vfs.now()) {
            self.log_message(0, &format!("checkpoint: {failure}"));
        }
    }

    /// Removes files of dropped tables. A file that cannot be removed now is an orphan that the next
    /// start removes.
    pub(crate) fn remove_doomed_files(&self) {
        let doomed = std::mem::take(&mut *self.work.doomed.lock());
        for name in doomed {
            match self.shared.vfs.remove(&name) {
                Err(e) if frond_vfs::is_out_of_descriptors(&e) => {
                    self.work.doomed.lock().push(name); // Somebody reads it: the next round.
                }
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    self.log_message(1, &format!("cannot remove {name} of a dropped table: {e}"));
                }
                _ => {}
            }
        }
    }
}
