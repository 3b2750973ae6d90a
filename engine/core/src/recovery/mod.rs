//! Recovery: images, then the log.
//!
//! The log is read twice. The first reading takes the trunk edits: they say what is in runs, and which
//! parts of a file are in use. The second takes transactions and counters, in order: entries go into the
//! write buffers of trees that do not have them in runs yet (`flushed_upto`), by several threads
//! (`appliers.rs`), and rows of the system table also update the catalog as they come, so that each record
//! meets the catalog of its own time. The first reading does not unpack transactions (rfc 0018);
//! without it, entries that are in runs would be sorted into buffers again, without a bound.
//!
//! - R1. The log may drop a table further on. The file of such a table may be gone, or exist again because its
//!   removal was not durable, although the log that it needs was trimmed. Such a table is *lost*: its records are
//!   skipped. A table that is lost and still defined at the end is corruption; the error says why it was lost. With
//!   `discard_damaged_tables` it is dropped at the end instead.
//! - R2. All edits of a table are applied before its free space is computed and before anything can be
//!   flushed.
//! - R3. Nothing is written to table files during recovery; a crash in recovery leaves what it found.
//! - R4. Replay is idempotent: entries carry the commit sequence of their record.
//! - R5. Runs that a transaction attached and no edit names yet are in use (P5 of `spill.rs`): they are
//!   added to the file's map when its edits are in, and attached to their tree when their record's turn
//!   comes. A tree whose edits reach beyond the record has them already; later edits may have removed them.
//! - R6. A table's file has the image that the newest trim of the log relied on, or one from which the log
//!   still leads on (`images.rs`). Where the file has another image, the error says this, whatever else is wrong.
//! - R7. Counters are larger than every value that a recovered row uses (`counters.rs`).
//! - R8. A transaction that was prepared and has no end in the log is prepared again (`recovery/prepared.rs`).
//! - R9. A table is opened with the definition of the first record that needs it. Image and edits may have trees
//!   of indexes that only a later definition has: they wait for it, and none is left at the end.
//!
//! `recovery/replay.rs` is the second reading, `progress.rs` reports it to the operator. `damaged.rs` handles lost
//! tables, `files.rs` checks the files at the end. Tested by the simulator, which crashes at every step here too.

pub(crate) mod loading;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind, Lsn, Result, TableId, TreeId, SEQ_MAX};
use frond_tree::{Bounds, TrunkEdit};
use frond_wal::{Record, Recovered};

use crate::catalog::names::Names;
use crate::catalog::{self, TableDef, SYSTEM_TABLE};
use crate::checkpoint::images::Found as FoundImage;
use crate::commit::core::Core;
use crate::record::{
    decode_trim, AttachedRuns, RecordReader, KIND_COUNTERS, KIND_EDIT, KIND_SET_COUNTERS,
    KIND_TRANSACTION, KIND_TRANSACTION_OF_RUNS, KIND_TRIM,
};
use crate::recovery::appliers::Appliers;
use crate::recovery::loading::{add_block, Attached, Loading};
use crate::recovery::progress::Progress;
use crate::recovery::undecided::{PreparedRuns, Undecided, PREPARED_KINDS};
use crate::table::counters;
use crate::table::store::{file_name, TableStore};
use crate::table::Table;

mod appliers;
mod damaged;
mod files;
mod prepared;
mod progress;
mod replay;
mod undecided;

pub(crate) use damaged::Damaged;
pub(crate) use files::{remove_orphans, tell_of_missing_files};

/// Tables that are being recovered.
struct Found {
    appliers: Appliers,
    /// Entries that the appliers were given.
    entries: u64,
    /// Image and edits are in, transactions not yet.
    loading: BTreeMap<TableId, Loading>,
    /// Tables whose file is missing or does not verify, with the error to report if the log does
    /// not drop them (R1).
    lost: HashMap<TableId, Error>,
    /// The file contents of tables that were lost while their edits were read.
    opened: HashMap<TableId, FoundImage>,
    /// Image LSNs of the tables already finished.
    images: HashMap<TableId, FoundImage>,
}

impl Found {
    fn new(core: &Arc<Core>) -> Found {
        Found {
            appliers: Appliers::new(core),
            entries: 0,
            loading: BTreeMap::new(),
            lost: HashMap::new(),
            opened: HashMap::new(),
            images: HashMap::new(),
        }
    }

    /// Keeps what is wrong with a table until it is known whether the log drops it (R1). Failures of the
    /// environment are not the file's fault and end the recovery.
    fn lose(&mut self, id: TableId, why: Error) -> Result<()> {
        if why.kind() != ErrorKind::Corruption {
            return Err(why);
        }
        if let Some(loading) = self.loading.remove(&id) {
            self.opened.insert(id, loading.image);
        }
        self.lost.insert(id, why);
        Ok(())
    }

    /// R6: edits that do not fit are a consequence.
    fn blame_old_files(&mut self, core: &Core, log_from: Lsn) {
        for (id, image) in std::mem::take(&mut self.opened) {
            if let Err(e) = core.images.check(id, &file_name(id), image, log_from) {
                self.lost.insert(id, e);
            }
        }
    }

    /// Fails when the catalog is lost: nothing can be opened without it.
    fn check_catalog(&mut self) -> Result<()> {
        self.lost.remove(&SYSTEM_TABLE).map_or(Ok(()), Err)
    }
}

impl Core {
    /// A table that no log record concerns: image only.
    pub(crate) fn load_clean_table(&self, def: &Arc<TableDef>) -> Result<Table> {
        let table = Loading::open(self, def.id)?.finish(self, def, self.shared.wal.kept_from())?;
        loading::check_trees(&table)?;
        counters::raise(&table)?;
        Ok(table)
    }

    /// Brings everything back from images and log. Returns the tables that cannot be used; the
    /// caller discards them before it does anything else. Opening began at `began`.
    pub(crate) fn recover(
        self: &Arc<Self>,
        log: &mut Recovered,
        began: Duration,
    ) -> Result<Vec<Damaged>> {
        let log_from = log.start();
        let mut found = Found::new(self);
        let mut progress = Progress::new(self, log, began);
        self.find_edits(log, &mut found, &mut progress)?;
        log.rewind();
        found.blame_old_files(self, log_from);
        found.check_catalog()?;

        let def = self.new_system_table().def();
        self.finish_table(&def, &mut found, log_from)?;
        found.check_catalog()?;
        let mut names = Names::default();
        read_catalog(&self.system_table(), &mut names)?;
        let mut undecided = Undecided::default();
        progress.begin_replay();
        let read = self.replay(log, &mut names, &mut found, &mut undecided, &mut progress);
        found.appliers.finish()?; // AP3
        read?;
        let damaged = self.finish_tables(&names, &mut found, log_from)?;
        self.images.retain(&names);
        for table in self.tables.read().values() {
            table.recover_statistics(names.statistics(table.id()));
        }
        *self.names.write() = names;
        self.keep_undecided(undecided)?;
        progress.end(found.entries);
        Ok(damaged)
    }

    /// The first reading.
    fn find_edits(
        &self,
        log: &mut Recovered,
        found: &mut Found,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let log_from = log.start();
        found.loading.insert(SYSTEM_TABLE, Loading::open(self, SYSTEM_TABLE)?);
        let mut trimmed = 0;
        let (mut listed, mut slowness) = (None, None);
        let mut prepared = PreparedRuns::default();
        let first = [KIND_EDIT, KIND_TRIM, KIND_TRANSACTION_OF_RUNS];
        let first = [&first[..], &PREPARED_KINDS].concat();
        while let Some(record) = log.next_of(|kind| first.contains(&kind))? {
            progress.searched(record.lsn);
            match record.kind {
                KIND_TRANSACTION_OF_RUNS => {
                    for attached in RecordReader::new(record.payload, record.lsn).runs()? {
                        let id = attached.tree.table;
                        if let Err(e) = self.note_attached(record.lsn, &attached, found) {
                            found.lose(id, e)?;
                        }
                    }
                }
                KIND_EDIT => {
                    let (tree, edit) = RecordReader::new(record.payload, record.lsn).edit()?;
                    let edit = TrunkEdit::decode(edit, "log")?;
                    if let Err(e) = self.recover_edit(&record, tree, &edit, found) {
                        found.lose(tree.table, e)?;
                    }
                }
                KIND_TRIM => {
                    let trim = decode_trim(record.payload, record.lsn)?;
                    trimmed = trim.upto.max(trimmed);
                    listed = trim.images.or(listed);
                    slowness = trim.slowness.or(slowness);
                }
                kind if PREPARED_KINDS.contains(&kind) => {
                    self.note_prepared(&record, log_from, &mut prepared, found)?;
                }
                _ => {}
            }
        }
        self.note_undecided(prepared, found)?;
        if log_from > trimmed {
            return Err(Error::corruption(
                "log",
                format_args!(
                    "starts at {log_from}, but was trimmed to {trimmed} only: its oldest segments \
                     (log.*.frl) are missing"
                ),
            ));
        }
        self.images.set(listed.unwrap_or_default());
        self.target.set_slowness(slowness);
        Ok(())
    }

    /// The second reading. All changes are with the appliers afterwards.
    fn replay(
        self: &Arc<Self>,
        log: &mut Recovered,
        names: &mut Names,
        found: &mut Found,
        undecided: &mut Undecided,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let log_from = log.start();
        while let Some(record) = log.next()? {
            progress.replayed(record.lsn, found.entries);
            match record.kind {
                kind if PREPARED_KINDS.contains(&kind) => {
                    self.recover_prepared(&record, undecided, names, found, log_from)?;
                }
                KIND_TRANSACTION | KIND_TRANSACTION_OF_RUNS => {
                    self.recover_transaction(&record, names, found, log_from)?;
                }
                KIND_COUNTERS | KIND_SET_COUNTERS => {
                    let mut reader = RecordReader::new(record.payload, record.lsn);
                    let counters = reader.counters()?;
                    reader.finish()?;
                    let set = record.kind == KIND_SET_COUNTERS;
                    for c in &counters {
                        self.recover_counters(&record, c, set, names, found, log_from)?;
                    }
                }
                KIND_EDIT | KIND_TRIM => {}
                kind => {
                    return Err(Error::corruption(
                        "log",
                        format_args!("record at {}: kind {kind} is unknown", record.lsn),
                    ))
                }
            }
        }
        Ok(())
    }

    /// The log has been read to its end: finishes all tables.
    fn finish_tables(
        self: &Arc<Self>,
        names: &Names,
        found: &mut Found,
        log_from: Lsn,
    ) -> Result<Vec<Damaged>> {
        // Tables with edits but no transaction left to replay.
        let rest: Vec<TableId> = found.loading.keys().copied().collect();
        for id in rest {
            match names.by_id(id).cloned() {
                Some(def) => self.finish_table(&def, found, log_from)?,
                None => drop(found.loading.remove(&id)),
            }
        }
        self.check_trees(names, found)?;
        self.tables.write().retain(|id, _| !found.lost.contains_key(id));
        self.tables.write().retain(|id, table| {
            let def = names.by_id(*id);
            let kept = *id == SYSTEM_TABLE || def.is_some();
            if !kept {
                // The log drops it further on, so nothing of it may be flushed.
                table.mark_dropped();
                self.ledger.forget(*id);
            }
            kept
        });
        self.raise_counters(found)?;
        let defined = |(id, why)| names.by_id(id).map(|def| Damaged { def: def.clone(), why });
        let lost = std::mem::take(&mut found.lost);
        let mut damaged: Vec<Damaged> = lost.into_iter().filter_map(defined).collect();
        damaged.sort_by_key(|d| d.def.id);
        if let (Some(first), false) = (damaged.first(), self.options.discards_damaged_tables()) {
            return Err(first.refusal(damaged.len()));
        }
        Ok(damaged)
    }

    /// R9.
    fn check_trees(&self, names: &Names, found: &mut Found) -> Result<()> {
        let tables: Vec<Arc<Table>> = self.tables.read().values().cloned().collect();
        for table in tables {
            let Some(def) = names.by_id(table.id()) else { continue };
            // The one at the first record of the table may have been replaced since.
            let outcome = loading::adopt(self, &table, def);
            if let Err(e) = outcome.and_then(|()| loading::check_trees(&table)) {
                found.lose(table.id(), e)?;
                table.mark_dropped();
                self.ledger.forget(table.id());
            }
        }
        Ok(())
    }

    /// R7; a table whose keys are impossible is lost.
    fn raise_counters(&self, found: &mut Found) -> Result<()> {
        let tables: Vec<Arc<Table>> = self.tables.read().values().cloned().collect();
        for table in tables {
            if let Err(e) = counters::raise(&table) {
                found.lose(table.id(), e)?;
                self.tables.write().remove(&table.id());
                // Nothing of it may be flushed.
                table.mark_dropped();
                self.ledger.forget(table.id());
            }
        }
        Ok(())
    }

    /// The table while its edits are read; `None` when it is lost.
    fn loading<'f>(&self, id: TableId, found: &'f mut Found) -> Result<Option<&'f mut Loading>> {
        if found.lost.contains_key(&id) {
            return Ok(None);
        }
        Ok(Some(match found.loading.entry(id) {
            Entry::Occupied(e) => e.into_mut(),
            Entry::Vacant(e) => e.insert(Loading::open(self, id)?),
        }))
    }

    /// Remembers what a transaction attached to one tree (R5).
    fn note_attached(&self, lsn: Lsn, attached: &AttachedRuns, found: &mut Found) -> Result<()> {
        let AttachedRuns { tree, lists } = attached;
        let Some(loading) = self.loading(tree.table, found)? else { return Ok(()) };
        if loading.store.existing_file().is_none() {
            return Err(no_file(&loading.store, tree.table));
        }
        let blocks = lists.iter().flatten().map(|(meta, extent)| (meta.block(), *extent)).collect();
        let index = usize::from(tree.index);
        loading.attached.push(Attached { lsn, index, blocks });
        Ok(())
    }

    fn recover_edit(
        &self,
        record: &Record<'_>,
        tree: TreeId,
        edit: &TrunkEdit,
        found: &mut Found,
    ) -> Result<()> {
        let id = tree.table;
        let Some(loading) = self.loading(id, found)? else { return Ok(()) };
        let store = loading.store.clone();
        let Some(file) = store.existing_file() else {
            return Err(no_file(&store, id));
        };
        let loader = loading.loader(usize::from(tree.index));
        if !loader.apply_edit(record.end, edit, store.file_name())? {
            return Ok(());
        }
        store.touched(record.lsn);
        for (meta, extent) in &edit.runs_added {
            add_block(Some(file), meta.block(), *extent)?;
        }
        for &block in &edit.runs_removed {
            file.replay_free(block)?;
        }
        Ok(())
    }

    fn finish_table(
        self: &Arc<Self>,
        def: &Arc<TableDef>,
        found: &mut Found,
        log_from: Lsn,
    ) -> Result<()> {
        if found.lost.contains_key(&def.id) {
            return Ok(());
        }
        let finished = match found.loading.remove(&def.id) {
            Some(loading) => Ok(loading),
            None => Loading::open(self, def.id),
        }
        .and_then(|loading| {
            let image = loading.image;
            Ok((image, loading.finish(self, def, log_from)?))
        });
        match finished {
            Ok((image, table)) => {
                found.images.insert(def.id, image);
                self.tables.write().insert(def.id, Arc::new(table));
                Ok(())
            }
            Err(e) => found.lose(def.id, e),
        }
    }

    /// The table that a record names; `None` when it was dropped or truncated later.
    fn recovered_table(
        self: &Arc<Self>,
        id: TableId,
        record: &Record<'_>,
        names: &Names,
        found: &mut Found,
        log_from: Lsn,
    ) -> Result<Option<Arc<Table>>> {
        if let Some(table) = self.tables.read().get(&id) {
            return Ok(Some(table.clone()));
        }
        if found.lost.contains_key(&id) {
            return Ok(None);
        }
        let Some(def) = names.by_id(id).cloned() else {
            if names.was_given(id) {
                return Ok(None);
            }
            return Err(Error::corruption(
                "log",
                format_args!("record at {}: table {id} was never created", record.lsn),
            ));
        };
        self.finish_table(&def, found, log_from)?;
        Ok(self.tables.read().get(&id).cloned())
    }
}

/// The error for a missing file. Each edit, and each record that names runs, comes after the creation of the file: so
/// it was removed.
fn no_file(store: &TableStore, id: TableId) -> Error {
    let what =
        format_args!("the file of table {id} is missing, the log has changes of it").to_string();
    Error::corruption(store.file_name(), what)
}

/// Reads all rows of the system table.
fn read_catalog(system: &Table, names: &mut Names) -> Result<()> {
    let mut cursor = system.tree(0).cursor(SEQ_MAX, Bounds::all());
    let mut valid = cursor.first()?;
    while valid {
        names.apply(catalog::decode_row(cursor.key(), Some(cursor.value()))?);
        valid = cursor.next()?;
    }
    Ok(())
}
