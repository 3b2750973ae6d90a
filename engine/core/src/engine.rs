//! An open database: the public interface of the engine.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};
use frond_txn::{CommitClock, LockOptions, LockTable};
use frond_vfs::{DirLock, FilePool, JoinThread, Vfs};
use frond_wal::{Wal, WalOptions};
use parking_lot::Mutex;

use crate::catalog::alter::Alter;
use crate::catalog::alter_spec::AlterSpec;
use crate::catalog::ddl::TableSpec;
use crate::catalog::foreign::Foreign;
use crate::catalog::foreign_ddl::{NewForeigns, RenameForeigns};
use crate::catalog::names::{is_rebuild, Names};
use crate::catalog::{TableDef, SYSTEM_TABLE};
use crate::commit::core::Core;
use crate::commit::cursor::Cursor;
use crate::commit::transaction::{Transaction, TxnOptions};
use crate::commit::xid::Xid;
use crate::identity::{self, Identity};
use crate::messages::Log;
use crate::moving::{CollationName, Export, Import, ImportFiles};
use crate::options::{Durability, Options, CACHE_BYTES_MIN, RECOVERY_TARGET_MAX};
use crate::recovery::{remove_orphans, tell_of_missing_files};
use crate::report::watch::{WaitHooks, Watch};
use crate::shared::Shared;
use crate::table::store::is_table_file;
use crate::table::Table;

/// An open database. Dropping it closes it: everything committed is synced and the threads end.
pub struct Engine {
    core: Arc<Core>,
    watch: Arc<Watch>,
    threads: Mutex<Vec<Box<dyn JoinThread>>>,
    _lock: Box<dyn DirLock>,
}

impl Engine {
    /// Opens the database in the directory of `vfs`, creating it in an empty one, and recovers it.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when another process has it, [`ErrorKind::InvalidArgument`] for options out of
    /// range or a directory that is not ours, [`ErrorKind::UnsupportedFormat`] for a newer format,
    /// [`ErrorKind::Corruption`] naming file and place.
    pub fn open(vfs: Arc<dyn Vfs>, options: Options) -> Result<Engine> {
        Engine::open_with_log(vfs, options, Arc::new(|_, _| {}))
    }

    /// As [`Engine::open`], with a receiver for messages.
    pub fn open_with_log(vfs: Arc<dyn Vfs>, options: Options, log: Log) -> Result<Engine> {
        options.validate()?;
        let began = vfs.now();
        // There may be far more tables than files that a process may open.
        let open_files = options.open_files(vfs.descriptors());
        let files = FilePool::new(vfs, open_files, is_table_file);
        let vfs: Arc<dyn Vfs> = if options.read_only {
            // Recovery writes; in a read-only database it writes to memory.
            Arc::new(frond_vfs::OverlayVfs::new(Arc::new(files.clone())))
        } else {
            Arc::new(files.clone())
        };
        // Nothing is written to a directory that is not ours, not even a lock file.
        identity::refuse_strangers(&*vfs)?;
        let lock = vfs.lock_dir().map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => {
                Error::new(ErrorKind::Busy, "another process has this database open; stop it first")
            }
            _ => Error::io("lock", "the database directory", e),
        })?;
        let (database, wal, recovered) = match identity::open_or_begin(&*vfs, options.read_only)? {
            Identity::New(database) => {
                let wal = Wal::create(vfs.clone(), wal_options(database, &options))?;
                identity::finish(&*vfs)?;
                (database, wal, None)
            }
            Identity::Existing(database) => {
                let (wal, recovered) = Wal::open(vfs.clone(), wal_options(database, &options))?;
                (database, wal, Some(recovered))
            }
        };
        let shared = Arc::new(Shared::new(vfs, files, wal, database, &options));
        let clock = CommitClock::new(shared.wal.end());
        let locks = LockTable::new(LockOptions {
            memory_limit: usize::try_from(options.lock_bytes).unwrap_or(usize::MAX),
            ..LockOptions::default()
        });
        let time = Arc::clone(&shared.vfs);
        locks.set_clock(move || time.now());
        let core = Arc::new(Core::new(shared, options, clock, locks, Names::default(), log));
        let watch = Watch::over(&core);
        let damaged = match recovered {
            Some(mut recovered) => core.recover(&mut recovered, began)?,
            None => {
                let system = Arc::new(core.new_system_table());
                core.tables.write().insert(SYSTEM_TABLE, system);
                Vec::new()
            }
        };
        for table in &damaged {
            core.discard(table)?;
        }
        remove_orphans(&core)?;
        tell_of_missing_files(&core)?;
        if !core.options.read_only {
            core.drop_unfinished_builds()?;
            core.drop_unfinished_rebuilds()?;
        }
        core.measure();
        let engine = Engine { core, watch, threads: Mutex::default(), _lock: lock };
        engine.core.start_background(&mut engine.threads.lock())?;
        Ok(engine)
    }

    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    // ---- definitions ----

    /// Creates a table; durable when it returns.
    pub fn create_table(&self, spec: TableSpec) -> Result<Arc<Table>> {
        self.core.create_table(spec, NewForeigns::default())
    }

    /// As [`Engine::create_table`], with foreign keys.
    ///
    /// # Errors
    /// [`ErrorKind::BadForeignKey`] when one does not fit the two tables, or one of another table does not fit
    /// this one; [`ErrorKind::DuplicateKey`] when its name is taken.
    ///
    /// [`ErrorKind::BadForeignKey`]: frond_base::ErrorKind::BadForeignKey
    /// [`ErrorKind::DuplicateKey`]: frond_base::ErrorKind::DuplicateKey
    pub fn create_child(&self, spec: TableSpec, foreigns: NewForeigns) -> Result<Arc<Table>> {
        self.core.create_table(spec, foreigns)
    }

    /// The foreign keys of a table, and those of any table that name it as their parent.
    pub fn foreigns(&self, table: &str) -> (Vec<Arc<Foreign>>, Vec<Arc<Foreign>>) {
        let names = self.core.names.read();
        (names.foreigns.of(table), names.foreigns.naming(table))
    }

    /// The indexes of child and parent that a foreign key uses, if the parent exists and fits; and per column 1 if the
    /// child's may be NULL, plus 2 if the parent's may.
    #[allow(clippy::type_complexity)]
    pub fn foreign_details(
        &self,
        foreign: &Foreign,
    ) -> Result<(Option<(String, String)>, Vec<u8>)> {
        self.core.foreign_details(foreign)
    }

    /// A number that changes with each change of foreign keys, or of tables that they name.
    #[inline]
    pub fn foreign_version(&self) -> u64 {
        self.core.foreign_version()
    }

    /// Drops a foreign key; durable when it returns.
    pub fn drop_foreign(&self, table: &str, name: &str) -> Result<()> {
        self.core.drop_foreign(table, name)
    }

    /// The open table of that name.
    pub fn open_table(&self, name: &str) -> Result<Arc<Table>> {
        self.core.open_table(name)
    }

    /// Drops a table in milliseconds, whatever its size; its space is freed in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Referenced`] when a foreign key of another table names it.
    ///
    /// [`ErrorKind::Referenced`]: frond_base::ErrorKind::Referenced
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.drop_parent(name, &|_| false)
    }

    /// As [`Engine::drop_table`], also when foreign keys of other tables name it, if `may_miss` allows them to be
    /// without their parent.
    pub fn drop_parent(&self, name: &str, may_miss: &dyn Fn(&Foreign) -> bool) -> Result<()> {
        self.core.check_not_prepared(name)?;
        self.core.drop_table(name, may_miss)
    }

    /// As [`Engine::drop_table`], although a prepared transaction may have changes in the table: it loses them.
    pub fn discard_table(&self, name: &str) -> Result<()> {
        self.core.drop_table(name, &|_| true)
    }

    /// Renames a table; foreign keys that name it follow.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        self.rename_child(from, to, &RenameForeigns::Follow, &|f| f.name.clone())
    }

    /// Whether a copy of the table that is to take its place may begin. A transaction that is prepared now could be
    /// committed before the copy does, which would lack its changes; and what it locks in the table is not locked in the
    /// copy. The caller makes sure that no other transaction changes the table until the copy has its place.
    ///
    /// # Errors
    /// [`ErrorKind::LockTimeout`] naming the prepared transaction.
    pub fn check_copy(&self, table: &str) -> Result<()> {
        self.core.check_family_not_prepared(table)
    }

    /// Renames a table. `how` says what becomes of foreign keys; `rename` gives new names to those that follow.
    pub fn rename_child(
        &self,
        from: &str,
        to: &str,
        how: &RenameForeigns,
        rename: &dyn Fn(&Foreign) -> String,
    ) -> Result<()> {
        match how {
            RenameForeigns::Aside => self.core.check_family_not_prepared(from)?,
            _ => self.core.check_not_prepared(from)?,
        }
        self.core.rename_table(from, to, how, rename)
    }

    /// Empties a table in constant time; returns the handle of the new, empty one.
    pub fn truncate_table(&self, name: &str) -> Result<Arc<Table>> {
        self.core.check_not_prepared(name)?;
        self.core.truncate_table(name)
    }

    /// Discards the rows of a table in constant time: it can be dropped, renamed, and imported into.
    pub fn discard_rows(&self, name: &str) -> Result<()> {
        self.core.check_not_prepared(name)?;
        self.core.discard_rows(name)
    }

    /// Makes the table's file hold everything and stay as it is; see [`Export`]. `go_on` is called now and then; false
    /// interrupts.
    pub fn begin_export(
        &self,
        table: &Arc<Table>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Export> {
        self.core.begin_export(table, go_on)
    }

    /// Opens an exported table that is to be imported into table `name`, whose rows were discarded.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] with what differs; [`ErrorKind::Corruption`] naming the file.
    pub fn begin_import(
        &self,
        name: &str,
        files: &ImportFiles<'_>,
        collation: CollationName<'_>,
    ) -> Result<Import> {
        self.core.begin_import(name, files, collation)
    }

    /// Replaces a table's schema and meta bytes at once; durable when it returns.
    pub fn set_schema(&self, name: &str, schema: Vec<u8>, meta: Vec<u8>) -> Result<()> {
        self.core.check_not_prepared(name)?;
        self.core.set_schema(name, schema, meta)
    }

    /// Begins to change a table's definition in place. New indexes are built by [`Alter::build`], while others read
    /// and write; [`Alter::commit`] puts the definition in force. The caller makes sure that no transaction has
    /// changes in the table during this call and during the commit.
    pub fn alter_table(&self, table: &Arc<Table>, spec: AlterSpec) -> Result<Alter> {
        self.core.check_family_not_prepared(&table.def().name)?;
        self.core.begin_alter(table, spec)
    }

    /// Whether [`Engine::alter_table`] would accept `spec`: `Unsupported` or `InvalidArgument` says why not. Changes
    /// nothing.
    pub fn check_alter(&self, table: &Table, spec: &AlterSpec) -> Result<()> {
        self.core.check_alter(table, spec)
    }

    /// Samples the indexes of `table` for an optimizer; the result is durable when it returns.
    pub fn analyze_table(&self, table: &Arc<Table>) -> Result<()> {
        self.core.analyze(table)
    }

    /// Samples the indexes if the table has few entries and its statistics are old; large tables are sampled in the
    /// background.
    pub fn sample_if_small(&self, table: &Table) -> Result<()> {
        self.core.sample_if_small(table)
    }

    pub fn table_exists(&self, name: &str) -> bool {
        self.core.names.read().get(name).is_some()
    }

    /// From now on transactions with an older snapshot get [`ErrorKind::TableChanged`] when they
    /// read `table` without locking. For a table that replaces another one (TRUNCATE, a copy under
    /// the old name): at their snapshot the other one existed, and this one looks empty. Lasts
    /// until the database is closed, as snapshots do.
    ///
    /// [`ErrorKind::TableChanged`]: frond_base::ErrorKind::TableChanged
    pub fn refuse_older_snapshots(&self, table: &Table) {
        table.set_oldest_snapshot(self.core.new_snapshot().at());
    }

    /// Definitions of all tables, by name; not of those that are to take the place of another one.
    pub fn tables(&self) -> Vec<Arc<TableDef>> {
        self.core.names.read().iter().filter(|def| !is_rebuild(&def.name)).cloned().collect()
    }

    // ---- transactions ----

    pub fn begin(&self, options: TxnOptions) -> Transaction {
        Transaction::new(self.core.clone(), self.core.next_txn_id(), options)
    }

    /// A cursor of `txn` over an index, reading at the transaction's snapshot.
    pub fn cursor(&self, txn: &mut Transaction, table: &Arc<Table>, index: u16) -> Result<Cursor> {
        let at = txn.read_at(table, false)?;
        Ok(Cursor::new(table.clone(), index, at))
    }

    /// Ends lock waits and scans of the transaction with that id, now and until it clears the interrupt.
    pub fn interrupt(&self, txn: u64) -> bool {
        self.core.locks.interrupt(frond_txn::TxnId(txn))
    }

    // ---- prepared transactions ----

    /// Names of the prepared transactions that are ended by their names, ascending: others know the name
    /// ([`Transaction::prepare_named`]), their handles were dropped, or a restart found them. Not those without changes.
    pub fn prepared(&self) -> Vec<Xid> {
        self.core.prepared.left_to_others()
    }

    /// Commits a prepared transaction; as durable as the durability mode says when it returns. False when there is
    /// none of that name. A handle of it then has nothing left to end.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] after a start on a full disk, [`ErrorKind::Unsupported`] in a database that was
    /// opened for reading, [`ErrorKind::Poisoned`] and [`ErrorKind::Io`]: it stays prepared.
    ///
    /// [`ErrorKind::NoSpace`]: frond_base::ErrorKind::NoSpace
    /// [`ErrorKind::Unsupported`]: frond_base::ErrorKind::Unsupported
    /// [`ErrorKind::Poisoned`]: frond_base::ErrorKind::Poisoned
    /// [`ErrorKind::Io`]: frond_base::ErrorKind::Io
    pub fn commit_prepared(&self, xid: &Xid) -> Result<bool> {
        self.core.end_prepared(xid, true)
    }

    /// As [`Engine::commit_prepared`], rolling it back.
    pub fn rollback_prepared(&self, xid: &Xid) -> Result<bool> {
        self.core.end_prepared(xid, false)
    }

    // ---- durability ----

    pub fn durability(&self) -> Durability {
        self.core.durability()
    }

    pub fn set_durability(&self, mode: Durability) {
        self.core.set_durability(mode);
    }

    /// Makes everything committed so far durable, whatever the mode.
    pub fn sync(&self) -> Result<()> {
        let wal = &self.core.shared.wal;
        wal.sync_to(wal.end()).map_err(|e| self.core.shared.poison(e))
    }

    /// Whether the engine is poisoned: a write or sync failed, and nothing is written until a restart.
    pub fn is_poisoned(&self) -> bool {
        self.core.shared.check_poison().is_err()
    }

    /// Changes the budget while running.
    pub fn set_cache_bytes(&self, bytes: u64) -> Result<()> {
        if bytes < CACHE_BYTES_MIN {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("cache size {bytes} is below the minimum of {CACHE_BYTES_MIN} bytes"),
            ));
        }
        self.core.shared.budget.set_limit(usize::try_from(bytes).unwrap_or(usize::MAX));
        self.core.pressure.set_cache_bytes(bytes);
        self.core.measure();
        Ok(())
    }

    pub fn set_log_capacity(&self, bytes: u64) {
        let least = 2 * self.core.options.log_segment_bytes;
        self.core.pressure.set_log_capacity(bytes.max(least));
    }

    /// Seconds that opening may take after a crash; 0: no such aim.
    pub fn set_recovery_target(&self, seconds: u64) {
        self.core.target.set_seconds(seconds.min(RECOVERY_TARGET_MAX));
    }

    /// Bytes that a backup's pin may hold; one that holds more is broken.
    pub fn set_backup_pin_limit(&self, bytes: u64) {
        self.core.backups.set_limit(bytes);
    }

    /// Whether single rows are cached beside pages.
    pub fn set_row_cache(&self, on: bool) {
        self.core.shared.rows.turn(on);
        self.core.fit_cache();
    }

    // ---- lock waits ----

    /// Sets the observer of lock waits; false when there is one already.
    pub fn set_wait_hooks(&self, hooks: Box<dyn WaitHooks>) -> bool {
        self.watch.set_hooks(hooks)
    }

    /// Whether each deadlock is written to the operator's log.
    pub fn print_deadlocks(&self, on: bool) {
        self.watch.print_deadlocks(on);
    }

    // ---- background work, for owners without threads and for tests ----

    /// Runs one round of background work on this thread. False when there was nothing to do.
    pub fn background_step(&self) -> bool {
        self.core.background_step()
    }

    /// Freezes every buffer, does all jobs, and writes an image of every table: afterwards recovery
    /// needs no log. For tests, and before copying a directory.
    pub fn flush_all(&self) -> Result<()> {
        self.core.may_free_space()?;
        while self.core.clear_dropped_index() {}
        let tables: Vec<Arc<Table>> = self.core.tables.read().values().cloned().collect();
        for table in &tables {
            for tree in table.trees().iter() {
                self.core.freeze(tree);
            }
            self.core.queue.retry(table.id());
        }
        loop {
            self.core.shared.check_poison()?;
            self.core.disk.check()?;
            let kept = tables.iter().filter(|t| !t.is_dropped());
            if let Some(e) = kept.clone().find_map(|t| self.core.queue.failure_in(t.id())) {
                return Err(e);
            }
            let busy = kept.flat_map(|t| t.trees().iter()).any(|t| t.frozen_count() > 0);
            if !busy {
                break;
            }
            if !self.core.job_step() {
                self.core.queue.pause();
            }
        }
        for table in &tables {
            if table.needed_from().is_some() {
                self.core.checkpoint_table(table)?;
            }
        }
        self.core.trim_log()
    }

    /// Stops background work and makes the log durable. Called by drop, which cannot report the error.
    pub fn close(&self) -> Result<()> {
        self.core.queue.stop();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            thread.join();
        }
        self.core.prepared.clear();
        self.core.backup_stop();
        self.core.clear_all_dropped();
        self.core.save_all_statistics();
        self.core.close_catalog()?;
        self.core.shared.wal.settle()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Err(e) = self.close() {
            self.core.messages.say(0, &format!("closing: {e}"));
        }
    }
}

fn wal_options(database: u64, options: &Options) -> WalOptions {
    WalOptions { segment_bytes: options.log_segment_bytes, ..WalOptions::new(database) }
}
