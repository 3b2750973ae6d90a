//! Keeping log and disk small: the log thread's round, every tenth of a second.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind, TableId};

use crate::checkpoint::recovery_time::Ages;
use crate::commit::core::Core;
use crate::options::Durability;
use crate::table::Table;

/// How often the log is synced when commits do not sync it.
const SYNC: Duration = Duration::from_secs(1);
/// It is synced earlier when this part of a segment is not durable: commits wait for the rest when the next segment begins.
const SYNC_PART: u64 = 16;
/// How often the log thread looks for space to free on a full disk.
const LOOK_AROUND: Duration = Duration::from_secs(1);
/// How often the log thread sweeps. An owner without threads sweeps in each step.
const SWEEP: Duration = Duration::from_millis(100);
/// The log may grow by so much, or a 32nd of its capacity, before all tables are asked what they need, whatever that takes.
const GROWN: u64 = 4 << 20;
/// Tables that a round checks when readers have made work, and at most.
const SWEPT_MOST: usize = 1024;
/// Otherwise this many rounds check all tables, and a round checks at least so many. A table that is in no cache of the processor
/// takes up to 10 us: a thousand in each round would take a tenth of a processor for ever.
const SWEEP_ROUNDS: usize = 20;
const SWEPT_LEAST: usize = 64;

impl Core {
    /// One round: syncs the log each second, or sooner when it grows fast, prepares the next segment, trims, writes images,
    /// removes dropped files.
    pub(crate) fn log_round(self: &Arc<Self>) {
        let now = self.shared.vfs.now();
        let wal = &self.shared.wal;
        // With `Sync` as well: nobody waits for the commits of prepared transactions.
        let is_behind = wal.durable() < wal.records_end();
        let is_far_behind = wal.written().saturating_sub(wal.durable())
            > self.options.log_segment_bytes / SYNC_PART;
        if is_far_behind
            || (self.durability() != Durability::Sync || is_behind)
                && self.upkeep.sync.is_due(SYNC, now)
        {
            if let Err(e) = wal.sync_to(wal.end()) {
                self.shared.poison(e);
            }
        }
        if self.shared.check_poison().is_err() {
            return;
        }
        match wal.prepare_segment() {
            Err(e) if e.kind() == ErrorKind::NoSpace => self.disk.begin(&e),
            // Closing idle files did not help: the next round tries again.
            Err(e) if e.kind() == ErrorKind::TooManyFiles => {
                if self.messages.is_news(None, e.kind(), now) {
                    self.messages.say(1, &format!("preparing the log: {e}"));
                }
            }
            Err(e) => {
                self.shared.poison(e);
            }
            Ok(()) if self.disk.is_full() => {
                // The next job finds out whether there is space again.
                self.queue.retry_all();
                if self.most_urgent().is_none() {
                    self.disk.end();
                }
                self.queue.wake();
            }
            Ok(()) => {}
        }
        self.watch_backup();
        self.take_back_lent();
        // Commits wake this thread too: they must not make it sweep more often.
        if self.options.background_threads == 0 || self.upkeep.sweep.is_due(SWEEP, now) {
            self.sweep();
        }
        self.look_around(now);
        self.target.mark(self.logged());
        let grown = wal.end().saturating_sub(self.upkeep.asked_at.load(Ordering::Relaxed));
        let has_grown = grown >= GROWN.min(self.pressure.log_capacity() / 32);
        if self.options.background_threads == 0 || has_grown || self.upkeep.needs.is_due(now) {
            self.keep_log_short();
        }
        self.return_memory();
    }

    /// Writes images and trims, when the log is too long. It asks all tables what log they need, so it is done as often as
    /// [`Upkeep::needs`] allows, and when the log has grown.
    fn keep_log_short(&self) {
        let wal = &self.shared.wal;
        let (end, kept) = (wal.end(), wal.kept_from());
        self.upkeep.asked_at.store(end, Ordering::Relaxed);
        // The log may be too long by its size, or by the time that recovery would take.
        let target = end.saturating_sub(self.pressure.log_capacity() / 2);
        let by_size = (kept < target).then(|| Ages::all(target));
        let ages = match (self.too_old(), by_size) {
            (Some(by_time), Some(_)) => Some(by_time.at_least(target)),
            (by_time, by_size) => by_time.or(by_size),
        };
        if let Some(ages) = ages {
            if let Err(e) = self.renew_prepared_at_pace(ages.oldest()) {
                self.image_failed(&e);
            }
            // One round images some tables; the next round goes on.
            if let Err(e) = self.shorten_log(&ages) {
                self.image_failed(&e);
            }
        }
    }

    /// Notes in the ledger the work that nothing else notes (LG2): work caused by readers, and work
    /// of tables just opened; and finds old statistics. A round checks some tables and the next one continues there, so that
    /// a round of many tables takes no longer.
    fn sweep(&self) {
        let to_sweep = &self.upkeep.to_sweep;
        let news = self.shared.reader_news.swap(false, Ordering::Relaxed);
        let (tables, most) = {
            let tables = self.tables.read();
            if news {
                to_sweep.store(tables.len(), Ordering::Relaxed);
            }
            let hurried = to_sweep.load(Ordering::Relaxed);
            let most = hurried.max(tables.len() / SWEEP_ROUNDS).clamp(SWEPT_LEAST, SWEPT_MOST);
            let from = self.upkeep.swept_to.load(Ordering::Relaxed);
            let next = tables.range(TableId(from)..).take(most).map(|(_, t)| t.clone());
            let next: Vec<Arc<Table>> = next.collect();
            to_sweep.store(hurried.saturating_sub(next.len()), Ordering::Relaxed);
            (next, most)
        };
        let last = tables.last().filter(|_| tables.len() == most);
        self.upkeep.swept_to.store(last.map_or(0, |t| t.id().0 + 1), Ordering::Relaxed);
        for table in &tables {
            let first_time = table.mark_swept();
            self.note_old_statistics(table);
            for tree in table.trees().iter() {
                if tree.wants_freeze() {
                    self.freeze(tree);
                } else if tree.take_reader_news()
                    || first_time && tree.may_have_work()
                    || table.noted(tree.id().index) == 0 && tree.active_bytes() > 0
                {
                    self.ledger.note(table, tree);
                }
            }
        }
    }

    /// On a full disk, from time to time: frees space that needs neither a commit nor a job.
    fn look_around(&self, now: Duration) {
        if self.disk.is_full() && self.upkeep.look.is_due(LOOK_AROUND, now) {
            let tables: Vec<Arc<Table>> = self.tables.read().values().cloned().collect();
            self.give_space_back(&tables);
        }
    }

    /// Returns space of rolled-back transactions to the file system.
    fn take_back_lent(&self) {
        for table in self.upkeep.take_lent().iter().filter(|t| !t.is_dropped()) {
            if let Some(file) = table.store().existing_file() {
                // After an error the file only keeps the space for longer.
                let _ = file.give_back();
            }
        }
    }

    /// Space that edits have freed may be used again when they are durable (ST2); while no commit
    /// is possible, this sync makes them so.
    fn give_space_back(&self, tables: &[Arc<Table>]) {
        let wal = &self.shared.wal;
        if let Err(e) = wal.sync_to(wal.end()) {
            self.shared.poison(e);
            return;
        }
        for table in tables {
            table.store().reclaim();
            if let Some(file) = table.store().existing_file() {
                // After an error the file only keeps the space for longer.
                let _ = file.give_back();
            }
        }
    }

    /// After a failed round of images and trimming.
    pub(crate) fn image_failed(&self, failure: &Error) {
        match failure.kind() {
            ErrorKind::NoSpace => self.disk.begin(failure),
            ErrorKind::Io | ErrorKind::Poisoned => {
                self.shared.poison(failure.duplicate());
            }
            _ => {}
        }
        if self.messages.is_news(None, failure.kind(), self.shared.vfs.now()) {
            self.messages.say(0, &format!("checkpoint: {failure}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use frond_vfs::MemVfs;

    use super::*;
    use crate::catalog::ddl::TableSpec;
    use crate::engine::Engine;
    use crate::options::Options;

    #[test]
    fn a_round_syncs_when_much_of_a_segment_is_not_durable() {
        let options = Options {
            background_threads: 0,
            durability: Durability::Write,
            log_segment_bytes: 1 << 20,
            ..Options::default()
        };
        let engine = Engine::open(Arc::new(MemVfs::stepped()), options).unwrap();
        let core = engine.core();
        let wal = &core.shared.wal;
        core.log_round();
        // The clock stands still: a second is never over.
        for (bytes, is_synced) in [(60 << 10, false), (8 << 10, true), (8 << 10, false)] {
            // Payloads are packed.
            let noise: Vec<u8> = (0..bytes as u64)
                .map(|i| (frond_base::checksum64(&i.to_le_bytes())) as u8)
                .collect();
            let at = wal.append(crate::record::KIND_COUNTERS, &noise).unwrap();
            wal.write_to(at.end).unwrap();
            core.log_round();
            assert_eq!(wal.durable() >= at.end, is_synced, "{bytes} bytes");
        }
    }

    #[test]
    fn a_round_sweeps_some_tables_and_all_of_them_after_readers_made_work() {
        let options = Options { background_threads: 0, ..Options::default() };
        let engine = Engine::open(Arc::new(MemVfs::stepped()), options).unwrap();
        let core = engine.core();
        for n in 0..3 * SWEPT_LEAST {
            let spec = TableSpec::plain(&format!("t{n}"));
            engine.create_table(spec).unwrap();
        }
        let unswept = || {
            let tables: Vec<Arc<Table>> = core.tables.read().values().cloned().collect();
            // Asking marks it.
            tables.iter().filter(|table| table.mark_swept()).count()
        };
        core.log_round();
        // The catalog is a table too.
        assert_eq!(unswept(), 2 * SWEPT_LEAST + 1);
        // Rounds go on where the one before ended.
        let swept_to = || core.upkeep.swept_to.load(Ordering::Relaxed) as usize;
        let before = swept_to();
        core.log_round();
        assert_eq!(swept_to(), before + SWEPT_LEAST);
        core.shared.reader_news.store(true, Ordering::Relaxed);
        // To the last table, and then the first ones.
        core.log_round();
        assert_eq!(swept_to(), 0);
        assert!(core.upkeep.to_sweep.load(Ordering::Relaxed) > 0);
        core.log_round();
        assert!(core.upkeep.to_sweep.load(Ordering::Relaxed) == 0);
    }
}
