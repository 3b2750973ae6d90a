//! Recovery: images, then the log.
//!
//! The log is read twice. The first reading takes the trunk edits: they say what is in runs, and which
//! parts of a file are in use. The second takes transactions and counters, in order: entries go into the
//! write buffers of trees that do not have them in runs yet (`flushed_upto`), and rows of the system table
//! also update the catalog as they come, so that each record meets the catalog of its own time.
//!
//! - R1. The file of a table that the log later drops may be gone, or be back after its removal was not
//!   durable although the log it needs was trimmed. Such a table is *lost*: its records are skipped. A
//!   table that is lost and still defined at the end is corruption, and says why it was lost; with
//!   `discard_damaged_tables` it is dropped then, which makes it one that the log drops.
//! - R2. All edits of a table are applied before its free space is computed and before anything can be
//!   flushed.
//! - R3. Nothing is written to table files during recovery; a crash in recovery leaves what it found.
//! - R4. Replay is idempotent: entries carry the commit sequence of their record.
//! - R5. Runs that a transaction attached and no edit names yet are in use (P5 of `spill.rs`): they are
//!   added to the file's map when its edits are in, and attached to their tree when their record's turn
//!   comes. A tree whose edits reach beyond the record has taken them up; by now they may be gone.
//! - R6. A table's file has the image that the newest trim of the log relied on, or one from which the log
//!   still leads on (`images.rs`). Whatever else is wrong with a table whose file has not, this is said.
//! - R7. Counters are at least what the rows that came back ask for (`counters.rs`).
//!
//! Tested by the simulator, which crashes at every step here too.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use frond_base::{EntryKind, EntryRef, Error, ErrorKind, Lsn, Result, TableId, TreeId, SEQ_MAX};
use frond_run::RunMeta;
use frond_tree::{Bounds, Tree, TrunkEdit};
use frond_wal::{Record, Recovered};

use crate::canary;
use crate::catalog::{self, TableDef, SYSTEM_TABLE};
use crate::core::Core;
use crate::counters;
use crate::images::Found as FoundImage;
use crate::loading::{add_block, Attached, Loading};
use crate::names::Names;
use crate::options::KEY_BYTES_MAX;
use crate::record::{
    decode_trim, AttachedRuns, CounterRecord, RecordReader, KIND_COUNTERS, KIND_EDIT,
    KIND_SET_COUNTERS, KIND_TRANSACTION, KIND_TRANSACTION_OF_RUNS, KIND_TRIM,
};
use crate::store::{file_name, TableStore};
use crate::table::Table;

/// Tables that are being recovered.
#[derive(Default)]
struct Found {
    /// Image and edits are in, transactions not yet.
    loading: BTreeMap<TableId, Loading>,
    /// Tables whose file is missing or does not verify, and what to say if they are not dropped (R1).
    lost: HashMap<TableId, Error>,
    /// What the files of those had that were lost while their edits were read.
    opened: HashMap<TableId, FoundImage>,
    /// Image LSNs of the tables already finished.
    images: HashMap<TableId, FoundImage>,
}

/// A table that is defined and was lost.
pub(crate) struct Damaged {
    def: Arc<TableDef>,
    why: Error,
}

impl Damaged {
    /// Why the database is not opened when `count` tables are damaged.
    fn refusal(&self, count: usize) -> Error {
        let others = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        Error::new(
            ErrorKind::Corruption,
            format!(
                "{}; table '{}'{others} is needed for recovery, so the database was not opened and nothing \
                 was changed. Put a sound copy of the file back, or restore the whole directory from a \
                 backup. To go on without such tables, open once with discard_damaged_tables, which drops \
                 them and keeps their files as *.frd.damaged",
                self.why.message(),
                self.def.name
            ),
        )
    }
}

impl Found {
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

    /// Without the catalog there is nothing.
    fn check_catalog(&mut self) -> Result<()> {
        self.lost.remove(&SYSTEM_TABLE).map_or(Ok(()), Err)
    }
}

impl Core {
    /// A table that no log record concerns: image only.
    pub(crate) fn load_clean_table(&self, def: &TableDef) -> Result<Table> {
        let table = Loading::open(self, def.id)?.finish(self, def, self.shared.wal.kept_from())?;
        counters::raise(&table)?;
        Ok(table)
    }

    /// Brings everything back from images and log, but for the tables that are returned: they cannot be
    /// used and are to be discarded before anything else happens.
    pub(crate) fn recover(self: &Arc<Self>, log: &mut Recovered) -> Result<Vec<Damaged>> {
        let log_from = log.start();
        let mut found = Found::default();
        found.loading.insert(SYSTEM_TABLE, Loading::open(self, SYSTEM_TABLE)?);
        let mut trimmed = 0;
        let mut listed = None;
        let first = [KIND_EDIT, KIND_TRIM, KIND_TRANSACTION_OF_RUNS];
        while let Some(record) = log.next_of(|kind| first.contains(&kind))? {
            match record.kind {
                KIND_TRANSACTION_OF_RUNS => {
                    for attached in RecordReader::new(record.payload, record.lsn).runs()? {
                        let id = attached.tree.table;
                        if let Err(e) = self.note_attached(&record, &attached, &mut found) {
                            found.lose(id, e)?;
                        }
                    }
                }
                KIND_EDIT => {
                    let (tree, edit) = RecordReader::new(record.payload, record.lsn).edit()?;
                    let edit = TrunkEdit::decode(edit, "log")?;
                    if let Err(e) = self.recover_edit(&record, tree, &edit, &mut found) {
                        found.lose(tree.table, e)?;
                    }
                }
                KIND_TRIM => {
                    let trim = decode_trim(record.payload, record.lsn)?;
                    trimmed = trim.upto.max(trimmed);
                    listed = trim.images.or(listed);
                }
                _ => {}
            }
        }
        if log_from > trimmed {
            return Err(Error::corruption(
                "log",
                format_args!(
                    "starts at {log_from}, but was trimmed to {trimmed} only: its oldest segments \
                     (log.*.frl) are missing"
                ),
            ));
        }
        log.rewind();
        self.images.set(listed.unwrap_or_default());
        found.blame_old_files(self, log_from);
        found.check_catalog()?;

        let def = self.new_system_table().def();
        self.finish_table(&def, &mut found, log_from)?;
        found.check_catalog()?;
        let mut names = Names::default();
        read_catalog(&self.system_table(), &mut names)?;
        while let Some(record) = log.next()? {
            match record.kind {
                KIND_TRANSACTION | KIND_TRANSACTION_OF_RUNS => {
                    self.recover_transaction(&record, &mut names, &mut found, log_from)?;
                }
                KIND_COUNTERS | KIND_SET_COUNTERS => {
                    let mut reader = RecordReader::new(record.payload, record.lsn);
                    let counters = reader.counters()?;
                    reader.finish()?;
                    let set = record.kind == KIND_SET_COUNTERS;
                    for c in &counters {
                        self.recover_counters(&record, c, set, &names, &mut found, log_from)?;
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
        // Tables with edits but no transaction left to replay.
        let rest: Vec<TableId> = found.loading.keys().copied().collect();
        for id in rest {
            match names.by_id(id).cloned() {
                Some(def) => self.finish_table(&def, &mut found, log_from)?,
                None => drop(found.loading.remove(&id)),
            }
        }
        let defined = |(id, why)| names.by_id(id).map(|def| Damaged { def: def.clone(), why });
        let mut damaged: Vec<Damaged> = found.lost.into_iter().filter_map(defined).collect();
        damaged.sort_by_key(|d| d.def.id);
        if let (Some(first), false) = (damaged.first(), self.options.discards_damaged_tables()) {
            return Err(first.refusal(damaged.len()));
        }
        self.tables.write().retain(|id, table| {
            let def = names.by_id(*id);
            // The one at the first record of the table may have been replaced since.
            if let Some(def) = def {
                table.set_def(TableDef::clone(def));
            }
            let kept = *id == SYSTEM_TABLE || def.is_some();
            if !kept {
                // Dropped further on in the log: nothing of it may be flushed.
                table.mark_dropped();
                self.work.forget(*id);
            }
            kept
        });
        for table in self.tables.read().values() {
            counters::raise(table)?;
        }
        self.images.retain(&names);
        *self.names.write() = names;
        Ok(damaged)
    }

    /// Drops a table that recovery could not bring back, as it was told to. Its file gets another name, from
    /// which somebody may still read what is sound.
    pub(crate) fn discard(self: &Arc<Self>, damaged: &Damaged) -> Result<()> {
        let Damaged { def, why } = damaged;
        let vfs = &self.shared.vfs;
        let (file, aside) = (file_name(def.id), format!("{}.damaged", file_name(def.id)));
        let there = vfs.exists(&file).map_err(|e| Error::io("look for", &file, e))?;
        if there {
            vfs.rename(&file, &aside)
                .and_then(|()| vfs.sync_dir())
                .map_err(|e| Error::io("rename", &file, e))?;
        }
        self.drop_table(&def.name)?;
        let kept = if there { format!(" Its file is now {aside}.") } else { String::new() };
        let told = format!("table '{}' was dropped, as it is damaged: {why}.{kept}", def.name);
        self.log_message(0, &told);
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

    /// Keeps in mind what a transaction attached to one tree (R5).
    fn note_attached(
        &self,
        record: &Record<'_>,
        attached: &AttachedRuns,
        found: &mut Found,
    ) -> Result<()> {
        let AttachedRuns { tree, lists } = attached;
        let Some(loading) = self.loading(tree.table, found)? else { return Ok(()) };
        if loading.store.existing_file().is_none() {
            return Err(no_file(&loading.store, tree.table));
        }
        let blocks = lists.iter().flatten().map(|(meta, extent)| (meta.block(), *extent)).collect();
        let index = usize::from(tree.index);
        loading.attached.push(Attached { lsn: record.lsn, index, blocks });
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
        def: &TableDef,
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

    fn recover_transaction(
        self: &Arc<Self>,
        record: &Record<'_>,
        names: &mut Names,
        found: &mut Found,
        log_from: Lsn,
    ) -> Result<()> {
        let mut reader = RecordReader::new(record.payload, record.lsn);
        if record.kind == KIND_TRANSACTION_OF_RUNS {
            for attached in reader.runs()? {
                self.attach_again(record, attached, names, found, log_from)?;
            }
        }
        let mut entries = Vec::new();
        for _ in 0..reader.section_count()? {
            let (id, count) = reader.section()?;
            let table = self.recovered_table(id.table, record, names, found, log_from)?;
            let Some((table, tree)) = tree_behind(&table, id, record)? else {
                for _ in 0..count {
                    reader.entry()?;
                }
                continue;
            };
            entries.clear();
            for _ in 0..count {
                entries.push(reader.entry()?);
            }
            check_sorted(&entries, record.lsn)?;
            if canary::active(canary::DROP_TOMBSTONES) {
                entries.retain(|(_, kind, _)| *kind == EntryKind::Put);
            }
            if canary::active(canary::LOSE_REPLAYED_ENTRY) && entries.len() > 8 {
                entries.remove(8);
            }
            tree.write(
                record.lsn,
                entries.iter().map(|&(key, kind, value)| EntryRef {
                    key,
                    seq: record.end,
                    kind,
                    value,
                }),
            );
            self.work.add(table);
            table.set_listed(true);
            if id.table == SYSTEM_TABLE {
                for &(key, kind, value) in &entries {
                    let value = (kind == EntryKind::Put).then_some(value);
                    names.apply(catalog::decode_row(key, value)?)?;
                }
            }
        }
        for counters in reader.counters()? {
            self.recover_counters(record, &counters, false, names, found, log_from)?;
        }
        reader.finish()
    }

    fn attach_again(
        self: &Arc<Self>,
        record: &Record<'_>,
        attached: AttachedRuns,
        names: &Names,
        found: &mut Found,
        log_from: Lsn,
    ) -> Result<()> {
        let AttachedRuns { tree: id, lists } = attached;
        let table = self.recovered_table(id.table, record, names, found, log_from)?;
        let Some((table, tree)) = tree_behind(&table, id, record)? else { return Ok(()) };
        let committed = |(meta, extent): (RunMeta, _)| (meta.committed_at(record.end), extent);
        let lists = lists.into_iter().map(|l| l.into_iter().map(committed).collect()).collect();
        if id.table == SYSTEM_TABLE || !tree.attach(lists, record.lsn, record.end) {
            return Err(Error::corruption(
                "log",
                format_args!("record at {}: the runs of tree {id} are impossible", record.lsn),
            ));
        }
        self.work.add(table);
        table.set_listed(true);
        Ok(())
    }

    fn recover_counters(
        self: &Arc<Self>,
        record: &Record<'_>,
        counters: &CounterRecord,
        set: bool,
        names: &Names,
        found: &mut Found,
        log_from: Lsn,
    ) -> Result<()> {
        let Some(table) = self.recovered_table(counters.table, record, names, found, log_from)?
        else {
            return Ok(());
        };
        if matches!(found.images.get(&counters.table), Some(FoundImage::Image(lsn)) if record.lsn < *lsn)
        {
            return Ok(());
        }
        table.store().touched(record.lsn);
        table.recover_counters(counters, set);
        Ok(())
    }
}

/// Every edit, and every run that a record names, follows the creation of the file: so it was removed.
fn no_file(store: &TableStore, id: TableId) -> Error {
    let what =
        format_args!("the file of table {id} is missing, the log has changes of it").to_string();
    Error::corruption(store.file_name(), what)
}

/// The tree of a record's section when it does not have the record in its runs yet.
fn tree_behind<'t>(
    table: &'t Option<Arc<Table>>,
    id: TreeId,
    record: &Record<'_>,
) -> Result<Option<(&'t Arc<Table>, &'t Tree)>> {
    let Some(table) = table else { return Ok(None) };
    match table.trees().get(usize::from(id.index)) {
        Some(tree) if record.lsn >= tree.flushed_upto() => Ok(Some((table, tree))),
        Some(_) => Ok(None),
        None => Err(Error::corruption(
            "log",
            format_args!("record at {}: tree {id} does not exist", record.lsn),
        )),
    }
}

fn check_sorted(entries: &[(&[u8], EntryKind, &[u8])], lsn: Lsn) -> Result<()> {
    if entries.iter().any(|(key, ..)| key.is_empty() || key.len() > KEY_BYTES_MAX)
        || entries.windows(2).any(|w| w[0].0 >= w[1].0)
    {
        return Err(Error::corruption(
            "log",
            format_args!("record at {lsn}: keys are impossible or out of order"),
        ));
    }
    Ok(())
}

/// Reads all rows of the system table.
fn read_catalog(system: &Table, names: &mut Names) -> Result<()> {
    let mut cursor = system.tree(0).cursor(SEQ_MAX, Bounds::all());
    let mut valid = cursor.first()?;
    while valid {
        names.apply(catalog::decode_row(cursor.key(), Some(cursor.value()))?)?;
        valid = cursor.next()?;
    }
    Ok(())
}

/// Removes files that belong to no table: left by a crash after a drop or during a creation.
pub(crate) fn remove_orphans(core: &Core) -> Result<()> {
    let vfs = &core.shared.vfs;
    let all = vfs.list().map_err(|e| Error::io("list", "the database directory", e))?;
    for name in all {
        let made = name.strip_suffix(".new");
        let Some(stem) = made.unwrap_or(&name).strip_suffix(".frd") else { continue };
        let Ok(id) = stem.parse::<u32>().map(TableId) else { continue };
        if file_name(id) != made.unwrap_or(&name) {
            continue;
        }
        let known = id == SYSTEM_TABLE || core.names.read().by_id(id).is_some();
        if made.is_some() || !known {
            let why =
                if made.is_some() { "it was never finished" } else { "its table was dropped" };
            core.log_message(2, &format!("removing {name}: {why}"));
            vfs.remove(&name).map_err(|e| Error::io("remove", &name, e))?;
        }
    }
    Ok(())
}

/// Tells of tables whose file is gone and that no log record concerns: they are refused when they are
/// opened, which may be long after.
pub(crate) fn tell_of_missing_files(core: &Core) -> Result<()> {
    let vfs = &core.shared.vfs;
    let all = vfs.list().map_err(|e| Error::io("list", "the database directory", e))?;
    let there: HashSet<String> = all.into_iter().collect();
    for id in core.images.listed().into_keys() {
        let name = file_name(id);
        if !there.contains(&name) {
            let log_from = core.shared.wal.kept_from();
            if let Err(e) = core.images.check(id, &name, FoundImage::NoFile, log_from) {
                core.log_message(0, e.message());
            }
        }
    }
    Ok(())
}
