//! The steps of a backup, in order: begin, mark, prove, describe, release the log, end.

use std::fmt::Write;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Lsn, Result};
use frond_vfs::OpenHow;

use super::format::{Description, PIN_FILE};
use super::{Backup, Phase, NOTHING};
use crate::checkpoint::recovery_time::Ages;
use crate::commit::core::Core;
use crate::engine::Engine;
use crate::report::jobs::JobInfo;
use crate::table::Table;

/// Tries to pin while files grow. Each takes microseconds for the files that grew.
const ROUNDS: usize = 100;

/// Less log than this share of a segment is copied as it is: 4 MiB, if the setting is not changed.
const SHORT_LOG: u64 = 16;
/// Writing an image of a table, with its two syncs, takes as long as copying this share of a segment: 256 KiB.
const IMAGE_COST: u64 = 256;

/// A pin, fresh: what [`Backup`] keeps of it.
struct Taken {
    tables: Vec<Arc<Table>>,
    at: Lsn,
    segments: Vec<(u32, Lsn)>,
    rows: Vec<(String, u64)>,
}

impl Core {
    /// A backup begins: all tables are opened, which takes time, and the next [`Core::backup_mark`] takes
    /// the pin. Returns its number.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while there is another one; what opening a table fails with.
    pub fn backup_begin(self: &Arc<Self>) -> Result<u64> {
        self.may_free_space()?;
        let id = self.shared.vfs.random_u64() | 1;
        {
            let mut state = self.backups.state.lock();
            if state.as_ref().is_some_and(|b| !matches!(b.phase, Phase::Broken(_))) {
                let what = "another backup is under way; SHOW ENGINE FROND STATUS says since when";
                return Err(Error::new(ErrorKind::Busy, what));
            }
            *state = Some(Backup {
                id,
                phase: Phase::Armed,
                log_to: None,
                tables: Vec::new(),
                at: 0,
                segments: Vec::new(),
                rows: Vec::new(),
                since: self.shared.vfs.now(),
            });
        }
        let defs: Vec<_> = self.names.read().iter().cloned().collect();
        for def in defs {
            match self.open_table_by_def(&def) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    self.backup_abandon(id);
                    return Err(e);
                }
                _ => {}
            }
        }
        Ok(id)
    }

    /// Before the mark, while transactions go on: shortens the log that has to be copied, if that is less work than copying it. It
    /// begins a segment, writes the changes of older log to the tables' files, and trims the older log, as for a recovery target.
    /// One call is one round. True: another round may trim more, once the workers have progressed.
    ///
    /// # Errors
    /// There is no such backup. It is no error when the log cannot be shortened (a full disk).
    pub fn backup_shorten(self: &Arc<Self>, id: u64) -> Result<bool> {
        let to = {
            let mut state = self.backups.state.lock();
            let Some(backup) = state.as_mut().filter(|b| b.id == id) else {
                return Err(Error::new(ErrorKind::NotFound, "there is no such backup any more"));
            };
            if backup.phase != Phase::Armed {
                return Ok(false);
            }
            let Some(to) = backup.log_to.or_else(|| self.worth_trimming_to()) else {
                return Ok(false);
            };
            backup.log_to = Some(to);
            to
        };
        let done = self.renew_prepared(to).and_then(|_| self.shorten_log(&Ages::all(to)));
        if let Err(e) = done {
            self.image_failed(&e);
            return Ok(false);
        }
        // Otherwise it is trimmed as far as it can be.
        let more = self.oldest_needed().is_some_and(|(lsn, _)| lsn < to);
        let workers = self.options.background_threads > 0;
        Ok(more && !self.queue.stopping() && (workers || self.job_step()))
    }

    /// Where the log could begin if all older changes were written to the tables' files now. `None`: copying it is less work.
    fn worth_trimming_to(&self) -> Option<Lsn> {
        let log = self.shared.wal.end().saturating_sub(self.shared.wal.kept_from());
        let images = self.tables.read().values().filter(|t| t.needed_from().is_some()).count();
        let segment = self.options.log_segment_bytes;
        match log < segment / SHORT_LOG + segment / IMAGE_COST * images as u64 {
            true => None,
            false => self.shared.wal.begin_segment().ok(),
        }
    }

    /// The mark: while nothing commits, pins all files and the log (BP1). False when no backup waits for a mark. Until a mark is
    /// proven, a later one replaces it.
    ///
    /// # Errors
    /// After one the pin is broken.
    pub fn backup_mark(self: &Arc<Self>) -> Result<bool> {
        let mut state = self.backups.state.lock();
        let waits = |b: &&mut Backup| matches!(b.phase, Phase::Armed | Phase::Pinned);
        let Some(backup) = state.as_mut().filter(waits) else { return Ok(false) };
        // The server blocks commits during a second mark, so the log is synced later, when the pin is described.
        let again = backup.phase == Phase::Pinned;
        if again {
            self.let_go(backup);
        }
        match self.take_pin(!again) {
            Ok(taken) => {
                (backup.tables, backup.at) = (taken.tables, taken.at);
                (backup.segments, backup.rows) = (taken.segments, taken.rows);
                self.backups.keep_still(Some(self.shared.vfs.now()));
                backup.phase = Phase::Pinned;
                Ok(true)
            }
            Err(e) => {
                self.break_pin(backup, &format!("it could not be taken: {e}"));
                Err(e)
            }
        }
    }

    fn take_pin(self: &Arc<Self>, sync: bool) -> Result<Taken> {
        let _no_definitions = self.ddl.lock();
        let defs: Vec<_> = self.names.read().iter().cloned().collect();
        let mut tables = vec![self.system_table()];
        for def in defs {
            tables.push(self.open_table_by_def(&def)?);
        }
        let _no_images = self.trimming.lock();
        // Flushes, merges and large transactions may make files and blocks meanwhile, which records may name at once. Then the
        // position is taken again (BP1).
        pin_files(&tables);
        let pinned = (0..ROUNDS).find_map(|_| {
            let at = {
                let _whole_records = self.commit.lock();
                self.shared.wal.end()
            };
            (!pin_files(&tables)).then_some(at)
        });
        let taken = pinned
            .ok_or_else(|| Error::new(ErrorKind::Busy, "too much is written to pin it; try again"))
            .and_then(|at| {
                let wal = &self.shared.wal;
                let done = if sync { wal.sync_to(at) } else { wal.write_to(at) };
                done.map_err(|e| self.shared.poison(e))?;
                Ok(at)
            });
        match taken {
            Ok(at) => {
                let pinned = |t: &&Arc<Table>| t.store().existing_file().is_some();
                self.backups.pinned.write().extend(tables.iter().filter(pinned).map(|t| t.id()));
                self.backups.log_from.store(self.shared.wal.kept_from(), Ordering::Release);
                let mut segments = self.shared.wal.segments();
                segments.retain(|(_, start)| *start <= at);
                let rows =
                    tables.iter().skip(1).map(|t| (t.def().name.clone(), t.rows())).collect();
                Ok(Taken { tables, at, segments, rows })
            }
            Err(e) => {
                unpin(&tables);
                Err(e)
            }
        }
    }

    /// The server lets transactions commit again. `still`: none did since the mark.
    pub fn backup_proven(&self, still: bool) {
        let mut state = self.backups.state.lock();
        let Some(backup) = state.as_mut().filter(|b| b.phase == Phase::Pinned) else { return };
        self.backups.keep_still(None);
        match still {
            true => backup.phase = Phase::Proven,
            false => {
                self.break_pin(backup, "transactions committed while the server blocked commits")
            }
        }
    }

    /// Writes [`PIN_FILE`]: what to copy.
    pub fn backup_describe(&self, id: u64) -> Result<()> {
        let mut state = self.backups.state.lock();
        let backup = proven(&mut state, id)?;
        self.shared.wal.sync_to(backup.at).map_err(|e| self.shared.poison(e))?;
        let (durable, at) = (self.shared.wal.durable(), backup.at);
        assert!(durable >= at, "BP1: the log is durable to {durable}, the copy ends at {at}");
        let described =
            |t: &Arc<Table>| Some((t.store().existing_file()?.pinned()?, t.def().name.clone()));
        let mut files: Vec<_> = backup.tables.iter().filter_map(described).collect();
        files.sort_by_key(|(file, _)| file.table);
        let (files, names) = files.into_iter().unzip();
        let described = Description {
            pin: backup.id,
            database: self.shared.database,
            at: backup.at,
            segments: backup.segments.clone(),
            files,
            names,
            rows: backup.rows.clone(),
        };
        self.remove_description();
        let failed = |e: io::Error| Error::io("write", PIN_FILE, e);
        let how = OpenHow { create_new: true, write: true, direct: false };
        let file = self.shared.vfs.open(PIN_FILE, how).map_err(failed)?;
        file.write_all_at(&described.encode(), 0).map_err(failed)
    }

    /// The log up to the mark is copied: it may be trimmed again.
    pub fn backup_log_copied(&self, id: u64) -> Result<()> {
        let mut state = self.backups.state.lock();
        proven(&mut state, id)?;
        self.backups.log_from.store(NOTHING, Ordering::Release);
        Ok(())
    }

    /// Everything is copied. An error says that the copy is worth nothing.
    pub fn backup_end(&self, id: u64) -> Result<()> {
        let whole = proven(&mut self.backups.state.lock(), id).map(drop);
        self.backup_abandon(id);
        whole
    }

    /// Releases everything, whatever was reached; does nothing when another backup has begun since.
    pub fn backup_abandon(&self, id: u64) {
        let mut state = self.backups.state.lock();
        let Some(mut backup) = state.take_if(|b| b.id == id) else { return };
        self.let_go(&mut backup);
    }

    /// When the engine closes: ends a backup that is under way.
    pub(crate) fn backup_stop(&self) {
        if let Some(mut backup) = self.backups.state.lock().take() {
            self.let_go(&mut backup);
        }
    }

    /// Breaks a pin that holds too much, or for which the disk has no room (BP2). Called by the log thread.
    pub(crate) fn watch_backup(&self) {
        let mut state = self.backups.state.lock();
        let Some(backup) = state.as_mut() else { return };
        let held = self.held_bytes(backup);
        self.backups.held.store(held, Ordering::Relaxed);
        let limit = self.backups.limit.load(Ordering::Relaxed);
        let has_pin = matches!(backup.phase, Phase::Pinned | Phase::Proven);
        if has_pin && held > limit {
            let what = format!("it holds {held} bytes, and the limit for pins is {limit}");
            self.break_pin(backup, &what);
        } else if has_pin && self.disk.is_full() {
            self.break_pin(backup, &format!("the disk is full, and it holds {held} bytes"));
        }
    }

    /// Freed blocks, files of dropped tables, and the log.
    fn held_bytes(&self, backup: &Backup) -> u64 {
        let of = |table: &Arc<Table>| match table.store().existing_file() {
            Some(file) if table.is_dropped() => file.stats().file_bytes,
            Some(file) => file.held_bytes(),
            None => 0,
        };
        let log = match self.backups.log_from.load(Ordering::Relaxed) {
            NOTHING => 0,
            from => self.shared.wal.end().saturating_sub(from),
        };
        backup.tables.iter().map(of).sum::<u64>() + log
    }

    fn break_pin(&self, backup: &mut Backup, why: &str) {
        self.let_go(backup);
        let log_from = self.backups.log_from.load(Ordering::Relaxed);
        let holds = log_from != NOTHING || !backup.tables.is_empty();
        assert!(!holds, "a broken pin holds files or log (BP2)");
        backup.phase = Phase::Broken(why.to_string());
        self.backups.broken.fetch_add(1, Ordering::Relaxed);
        self.messages.say(1, &format!("the backup's pin is broken: {why}"));
    }

    fn let_go(&self, backup: &mut Backup) {
        for table in &backup.tables {
            if table.store().existing_file().is_some_and(|file| file.held_bytes() > 0) {
                self.upkeep.give_back_later(table);
            }
        }
        unpin(&backup.tables);
        backup.tables = Vec::new();
        self.backups.keep_still(None);
        self.remove_description();
        self.backups.log_from.store(NOTHING, Ordering::Release);
        self.backups.held.store(0, Ordering::Relaxed);
        // Last: a thread that sees that nothing is pinned finds nothing else left of the backup.
        self.backups.pinned.write().clear();
        self.queue.wake();
    }

    fn remove_description(&self) {
        match self.shared.vfs.remove(PIN_FILE) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                self.messages.say(1, &format!("cannot remove {PIN_FILE}: {e}"));
            }
            _ => {}
        }
    }

    /// A backup under way, or one whose pin was broken.
    pub(crate) fn backup_as_job(&self) -> Option<JobInfo> {
        let mut info = JobInfo::new("BACKUP", "ARMED");
        {
            let state = self.backups.state.lock();
            let backup = state.as_ref()?;
            info.state = match backup.phase {
                Phase::Armed => info.state,
                Phase::Pinned | Phase::Proven => "PINNED",
                Phase::Broken(_) => "BROKEN",
            };
            info.age = Some(self.shared.vfs.now().saturating_sub(backup.since));
        }
        info.bytes = self.backups.held.load(Ordering::Relaxed);
        // Writing to a string cannot fail.
        let _ = self.write_backup(&mut info.details);
        info.details.truncate(info.details.trim_end().len());
        Some(info)
    }

    /// For people: whether there is a backup and how far it is.
    pub(crate) fn write_backup(&self, out: &mut String) -> std::fmt::Result {
        let state = self.backups.state.lock();
        let Some(backup) = &*state else { return writeln!(out, "none") };
        let seconds = self.shared.vfs.now().saturating_sub(backup.since).as_secs();
        match &backup.phase {
            Phase::Armed => writeln!(out, "begun {seconds} s ago, nothing is pinned yet"),
            Phase::Broken(why) => writeln!(out, "broken: {why}"),
            Phase::Pinned | Phase::Proven => {
                let (files, held, _) = self.backups.status();
                writeln!(
                    out,
                    "begun {seconds} s ago, of commit sequence {}: {files} files are pinned, {held} bytes are held \
                     for it",
                    backup.at
                )
            }
        }
    }
}

/// Pins the files; whether there was anything to pin.
fn pin_files(tables: &[Arc<Table>]) -> bool {
    tables
        .iter()
        .filter_map(|t| t.store().existing_file())
        .fold(false, |new, file| file.pin() | new)
}

fn unpin(tables: &[Arc<Table>]) {
    for file in tables.iter().filter_map(|t| t.store().existing_file()) {
        file.unpin();
    }
}

/// The backup of that number, if its pin holds and its mark is proven.
fn proven(state: &mut Option<Backup>, id: u64) -> Result<&mut Backup> {
    let fail = |kind, what: String| Err(Error::new(kind, what));
    match state.as_mut().filter(|b| b.id == id) {
        None => fail(ErrorKind::NotFound, "there is no such backup any more".into()),
        Some(Backup { phase: Phase::Broken(why), .. }) => fail(
            ErrorKind::Interrupted,
            format!("the backup is worth nothing, its pin was broken: {why}"),
        ),
        Some(Backup { phase: Phase::Armed, .. }) => {
            let what = "nothing is pinned: FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS did not come between BACKUP \
                        STAGE BLOCK_COMMIT and END";
            fail(ErrorKind::InvalidArgument, what.into())
        }
        Some(Backup { phase: Phase::Pinned, .. }) => {
            fail(ErrorKind::InvalidArgument, "BACKUP STAGE END has not come yet".into())
        }
        Some(backup) => Ok(backup),
    }
}

impl Engine {
    /// [`Core::backup_begin`].
    pub fn backup_begin(&self) -> Result<u64> {
        self.core().backup_begin()
    }

    /// Whether a backup has begun whose pin is not proven yet.
    pub fn backup_is_armed(&self) -> bool {
        let state = self.core().backups.state.lock();
        state.as_ref().is_some_and(|b| matches!(b.phase, Phase::Armed | Phase::Pinned))
    }

    /// [`Core::backup_shorten`].
    pub fn backup_shorten(&self, id: u64) -> Result<bool> {
        self.core().backup_shorten(id)
    }

    /// [`Core::backup_mark`].
    pub fn backup_mark(&self) -> Result<bool> {
        self.core().backup_mark()
    }

    /// [`Core::backup_proven`].
    pub fn backup_proven(&self, still: bool) {
        self.core().backup_proven(still);
    }

    /// [`Core::backup_describe`].
    pub fn backup_describe(&self, id: u64) -> Result<()> {
        self.core().backup_describe(id)
    }

    /// [`Core::backup_log_copied`].
    pub fn backup_log_copied(&self, id: u64) -> Result<()> {
        self.core().backup_log_copied(id)
    }

    /// [`Core::backup_end`].
    pub fn backup_end(&self, id: u64) -> Result<()> {
        self.core().backup_end(id)
    }

    /// [`Core::backup_abandon`].
    pub fn backup_abandon(&self, id: u64) {
        self.core().backup_abandon(id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use frond_vfs::MemVfs;

    use crate::catalog::ddl::TableSpec;
    use crate::engine::Engine;
    use crate::options::Options;
    use crate::table::Table;
    use crate::TxnOptions;

    fn engine_with_table() -> (Engine, Arc<Table>) {
        let options =
            Options { background_threads: 0, transaction_bytes: 16 << 10, ..Options::default() };
        let engine = Engine::open(Arc::new(MemVfs::stepped()), options).unwrap();
        let spec = TableSpec::plain("t");
        let table = engine.create_table(spec).unwrap();
        (engine, table)
    }

    /// A record below the log position may name what is written between the pin of a file and that
    /// position.
    #[test]
    fn blocks_that_are_made_while_the_position_is_taken_are_pinned() {
        let (engine, table) = engine_with_table();
        let file = table.store().file().unwrap();
        file.write_block(file.next_block(), b"before").unwrap();
        engine.backup_begin().unwrap();
        thread::scope(|threads| {
            let within_a_commit = engine.core().commit.lock();
            let mark = threads.spawn(|| engine.backup_mark().unwrap());
            while file.pinned().is_none() && !mark.is_finished() {
                thread::yield_now();
            }
            file.write_block(file.next_block(), b"after").unwrap();
            drop(within_a_commit);
            assert!(mark.join().unwrap());
        });
        assert_eq!(file.pinned().unwrap().blocks.len(), 2);
    }

    /// A commit names the blocks of its private runs, which were written after the file was pinned: they are pinned if its record
    /// is below the position. Which of the two comes first differs from round to round.
    #[test]
    fn runs_that_a_commit_attaches_while_the_position_is_taken_are_pinned() {
        let (engine, table) = engine_with_table();
        let file = table.store().file().unwrap();
        let wal = &engine.core().shared.wal;
        let mut below = 0;
        for _ in 0..50 {
            let id = engine.backup_begin().unwrap();
            thread::scope(|threads| {
                let within_a_commit = engine.core().commit.lock();
                let mark = threads.spawn(|| engine.backup_mark().unwrap());
                while file.pinned().is_none() && !mark.is_finished() {
                    thread::yield_now();
                }
                let mut txn = engine.begin(TxnOptions::default());
                let blocks = file.blocks_end();
                for n in 0..200u64 {
                    txn.put(&table, &n.to_be_bytes(), &[n as u8; 200], false).unwrap();
                }
                assert!(file.blocks_end() > blocks, "nothing was spilled");
                let before = wal.end();
                drop(within_a_commit);
                txn.commit().unwrap();
                assert!(mark.join().unwrap());
                let at = engine.core().backups.state.lock().as_ref().unwrap().at;
                if at > before {
                    below += 1;
                    assert_eq!(file.pinned().unwrap().next_block, file.blocks_end());
                }
            });
            engine.backup_abandon(id);
        }
        assert!(below > 0, "the position was never behind the commit");
    }
}
