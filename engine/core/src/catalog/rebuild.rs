//! A table that gets another primary key while others read and write it.
//!
//! All keys change, so the table is made anew: a hidden table has the new definition, and takes the name of the old one
//! when it has the same rows. Who writes a row writes it to both (`rows/twin.rs`). The rows as of a snapshot are
//! put below, as the entries of an index are that is built (`build_index.rs`).
//!
//! Invariants
//!
//! - RB1. The hidden table's name begins with [`REBUILD_PREFIX`]; no other table has such a name. A start drops what has one.
//! - RB2. From before the snapshot on, each commit of the table has the same rows for the hidden one (ALT2, TW1).
//! - RB3. The snapshot lives until the change is over. So a read of the hidden table's primary tree at the
//!   snapshot finds the rows that were put below, and nothing else.
//! - RB4. Two rows never had one key of the new primary index at the same time. Of the rows as of the snapshot, each had an
//!   entry of its own when they were sorted. A put of a key that had an entry, or none, is noted (TW3): it is a
//!   violation if it had an entry, or has one at the snapshot (RB3). Tombstones stay while trees are built (BD1), so
//!   a key without an entry has had no row since the snapshot.
//! - RB5. The hidden table takes the name, its counters, and loses the notes in one record. Before it the old table is
//!   in force.
//! - RB6. A hidden table that is given up is marked as dropped while no commit is half-way (the gate): each commit
//!   has its entries in whole trees, or ignores them.
//!
//! Tested by `tests/it/alter_primary.rs`.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, IndexNo, Result, Seq, TableId};
use frond_row::{Deriver, Entries, Part, RowCodec, Schema};
use frond_tree::{Bounds, Tree};
use frond_txn::Snapshot;
use frond_wal::Claim;

use crate::catalog::alter_spec::{encoded, AlterSpec, Violation};
use crate::catalog::build::{collect, write_all, Build, FEW_BYTES, ROUNDS};
use crate::catalog::ddl::number_after;
use crate::catalog::names::{is_rebuild, REBUILD_PREFIX};
use crate::catalog::{next_table_row, table_key, CatalogRow, IndexDef, IndexState, TableDef};
use crate::commit::core::Core;
use crate::rows::Note;
use crate::table::trees::Changes;
use crate::table::{Table, Twin};

/// The new table of a change that makes it anew.
pub(super) struct Rebuild {
    pub twin: Arc<Twin>,
    /// Entries that were put below.
    pub rows: u64,
}

fn unsupported<T>(what: &str) -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, what))
}

/// Whether the change is a rebuild: the primary index is not the one that there was, or it is to be built again.
pub(super) fn is_needed(spec: &AlterSpec) -> bool {
    spec.index_from.first().is_some_and(|from| *from != Some(0))
}

/// The new schema, and whether rows may have equal keys of its primary index.
fn resolve(old: &Schema, spec: &AlterSpec) -> Result<(Schema, bool)> {
    let mut new = spec.schema.clone();
    let same_columns = spec.column_from.iter().enumerate().all(|(n, from)| *from == Some(n));
    if !same_columns || new.columns.len() != old.columns.len() {
        return unsupported("the primary key and columns change at once");
    }
    for (column, was) in new.columns.iter_mut().zip(&old.columns) {
        (column.id, column.default) = (was.id, column.default_as(was));
        let mut renamed = was.clone();
        renamed.name.clone_from(&column.name);
        renamed.default.clone_from(&column.default);
        // All entries are encoded anew: keys may get codes.
        if column.charset == was.charset && column.sort.compares_as(&was.sort) {
            renamed.sort.clone_from(&column.sort);
        }
        if *column != renamed {
            return unsupported("the primary key and columns change at once");
        }
    }
    if new.hidden_primary && !old.hidden_primary {
        return unsupported("a primary key goes without another");
    }
    if new.auto_increment != old.auto_increment {
        return unsupported("the primary key and the AUTO_INCREMENT column change at once");
    }
    let nullable = |part: &Part| new.columns[usize::from(part.column)].nullable;
    if new.indexes.first().is_none_or(|primary| primary.parts.iter().any(nullable)) {
        return unsupported("a column of the primary key may be NULL");
    }
    let mut used = vec![false; old.indexes.len()];
    for (n, (index, from)) in new.indexes.iter_mut().zip(&spec.index_from).enumerate() {
        index.tree = n as IndexNo;
        match from {
            Some(from) => {
                let is_same = old.indexes.get(*from).is_some_and(|was| {
                    (was.unique, was.clustering, &was.parts)
                        == (index.unique, index.clustering, &index.parts)
                });
                if !is_same || std::mem::replace(&mut used[*from], true) {
                    return unsupported("an index comes twice, or is another");
                }
            }
            None if n > 0 && index.unique => {
                return unsupported("the primary key and another unique index are new");
            }
            None => {}
        }
    }
    let parts = new.indexes.iter().flat_map(|index| &index.parts);
    if parts.into_iter().any(|part| !new.columns[usize::from(part.column)].stored) {
        return unsupported("an index has a column that the server computes");
    }
    new.version = old.version;
    new.validate()?;
    // Also of a unique index that becomes the primary one: writers may have vouched for its keys.
    let may_be_equal =
        (new.hidden_primary, &new.indexes[0].parts) != (old.hidden_primary, &old.indexes[0].parts);
    Ok((new, may_be_equal))
}

impl Core {
    /// The definition of the new table, without number and name, and whether it has notes: then they are the last index.
    pub(super) fn rebuilt_definition(
        &self,
        def: &TableDef,
        old: &Schema,
        spec: &AlterSpec,
    ) -> Result<(TableDef, Schema, bool)> {
        if !spec.foreigns_new.foreigns.is_empty() || self.names.read().foreigns.mention(&def.name) {
            return unsupported("a table with foreign keys gets another primary key");
        }
        if self.options.scratch {
            return unsupported("a temporary table gets another primary key");
        }
        if !def.building.is_empty() {
            return Err(Error::new(ErrorKind::Busy, "indexes of the table are being built"));
        }
        let (schema, notes) = resolve(old, spec)?;
        let index = |n: usize| {
            let same = n == 0 && schema.indexes[0].parts == old.indexes[0].parts;
            let mut index = match spec.index_from[n].or(same.then_some(0)) {
                Some(from) => def.indexes[usize::from(old.indexes[from].tree)].clone(),
                None => spec.storage[n].clone(),
            };
            let pages = spec.pages[n];
            index.page_bytes = pages.page_bytes.unwrap_or(index.page_bytes);
            index.compression = pages.compression.unwrap_or(index.compression);
            IndexDef { state: IndexState::Live, key_shape: schema.index_key_shape(n), ..index }
        };
        let mut indexes: Vec<IndexDef> = (0..schema.indexes.len()).map(index).collect();
        // Rows are found by their primary key now.
        indexes[0].filter |= spec.storage[0].filter;
        if notes {
            indexes.push(IndexDef::plain());
        }
        let mut new = TableDef::new(def.id, def.name.clone(), indexes);
        new.schema = encoded(&schema);
        new.validate()?;
        Ok((new, schema, notes))
    }

    /// Creates the hidden table; commits write to it when this returns (RB2). The caller has the mutex of definitions.
    pub(super) fn begin_rebuild(
        self: &Arc<Self>,
        table: &Arc<Table>,
        (new, schema, notes): (TableDef, Schema, bool),
    ) -> Result<(Rebuild, Snapshot)> {
        self.may_write()?;
        let id = TableId(self.names.read().next());
        let next = number_after(id)?;
        let def = TableDef { id, name: format!("{REBUILD_PREFIX}{id}"), ..new }.shared();
        let hidden = Arc::new(self.new_table(def.clone(), 1));
        hidden.trees().iter().for_each(|tree| tree.set_building(true));
        self.tables.write().insert(id, hidden.clone());
        let puts = [next_table_row(next), (table_key(&def.name), def.encode())];
        if let Err(e) = self.commit_definitions(&puts, &[], &[], Claim::Ordinary) {
            self.tables.write().remove(&id);
            return Err(e);
        }
        let mut names = self.names.write();
        names.apply(CatalogRow::NextTable(next));
        names.apply(CatalogRow::Table { name: def.name.clone(), definition: Some(def) });
        drop(names);
        let notes = notes.then_some(schema.indexes.len() as IndexNo);
        let twin = Arc::new(Twin { table: hidden, schema: Arc::new(schema), notes });
        table.set_twin(Some(twin.clone()));
        Ok((Rebuild { twin, rows: 0 }, self.new_snapshot()))
    }

    /// Gives the hidden table up (RB6). If this fails, the next start drops it.
    pub(super) fn drop_rebuild(self: &Arc<Self>, hidden: &TableDef) -> Result<()> {
        let mut deletes = vec![table_key(&hidden.name)];
        deletes.extend(self.key_of_statistics(hidden.id));
        self.commit_definitions(&[], &deletes, &[], Claim::Freeing)?;
        let table = self.tables.read().get(&hidden.id).cloned();
        if let Some(table) = table {
            let _whole_commits = self.gate.write();
            table.mark_dropped();
        }
        let mut names = self.names.write();
        names.apply(CatalogRow::Table { name: hidden.name.clone(), definition: None });
        names.apply(CatalogRow::Statistics { table: hidden.id, statistics: None });
        drop(names);
        self.retire_table(hidden.id);
        Ok(())
    }

    /// RB1. After recovery.
    pub(crate) fn drop_unfinished_rebuilds(self: &Arc<Self>) -> Result<()> {
        let _one = self.ddl.lock();
        let unfinished: Vec<Arc<TableDef>> =
            self.names.read().iter().filter(|def| is_rebuild(&def.name)).cloned().collect();
        for def in unfinished {
            self.drop_rebuild(&def)?;
            self.messages.say(2, "an unfinished change of a primary key was taken back");
        }
        Ok(())
    }
}

impl Rebuild {
    /// One of two rows with the same key, of those as of the snapshot: they are sorted by both of their keys.
    pub fn equal_rows(
        &self,
        build: &mut Build<'_>,
        source: (&Table, Seq),
        from: Arc<RowCodec>,
    ) -> Result<Violation> {
        let to = build.codec.clone();
        let Some(notes) = self.twin.notes else {
            let what = "rows that an index says are different have equal keys: CHECK TABLE";
            return Err(Error::corruption(&source.0.def().name, what));
        };
        let notes = self.twin.table.tree(notes);
        let mut deriver = Deriver::anew(from, to.clone())?;
        let (mut entries, mut both) = (Entries::new(), Vec::new());
        let (mut sorts, _charge) = collect(build, source, &[notes], &mut |key, value, sorts| {
            deriver.derive(key, value, &mut entries)?;
            both.clear();
            both.extend_from_slice(entries.key(0));
            both.extend_from_slice(key);
            sorts[0].chunk.push(&both, &[]);
            Ok(())
        })?;
        write_all(&mut sorts, build, true)?;
        let parts = to.schema().indexes[0].parts.len();
        // Notes that were committed are newer.
        let mut cursor = notes.cursor(source.1, Bounds::all());
        cursor.set_private(Some(sorts[0].runs.view()));
        let (mut valid, mut last) = (cursor.first()?, Vec::new());
        while valid {
            let (key, row) = cursor.key().split_at(to.prefix_len(0, cursor.key(), parts)?);
            if key == &last[..] {
                return Ok(Violation { index: 0, primary_key: row.to_vec() });
            }
            last.clear();
            last.extend_from_slice(key);
            build.count()?;
            valid = cursor.next()?;
        }
        Err(Error::corruption(&source.0.def().name, "entries were lost while they were sorted"))
    }

    // ---- notes (RB4) ----

    fn notes(&self) -> Option<(IndexNo, &Tree)> {
        self.twin.notes.map(|notes| (notes, self.twin.table.tree(notes)))
    }

    pub fn check_notes(&self, build: &mut Build<'_>, at: Seq) -> Result<Option<Violation>> {
        let Some((number, _)) = self.notes() else { return Ok(None) };
        let core = build.core.clone();
        let snapshot = {
            let _gate = core.gate.write();
            self.twin.table.slot(number).watch(true);
            core.new_snapshot()
        };
        let found = self.check_all(&snapshot, at, &mut || build.count())?;
        if found.is_some() {
            return Ok(found);
        }
        drop(snapshot);
        for _ in 0..ROUNDS {
            let (few, found) = self.round(&core, at)?;
            if few || found.is_some() {
                return Ok(found);
            }
            build.poll()?;
        }
        Ok(None)
    }

    /// Looks up what was noted since the last round; whether it was little.
    pub fn round(&self, core: &Core, at: Seq) -> Result<(bool, Option<Violation>)> {
        let Some((number, _)) = self.notes() else { return Ok((true, None)) };
        let (changes, snapshot) = {
            let _gate = core.gate.write();
            (self.twin.table.slot(number).take_changes(), core.new_snapshot())
        };
        if changes.overflow {
            return Ok((false, self.check_all(&snapshot, at, &mut || Ok(()))?));
        }
        let few = changes.keys.len() <= FEW_BYTES;
        Ok((few, self.check_keys(&changes, &snapshot, at)?))
    }

    fn check_all(
        &self,
        snapshot: &Snapshot,
        at: Seq,
        count: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Violation>> {
        let Some((_, notes)) = self.notes() else { return Ok(None) };
        let mut cursor = notes.cursor(snapshot.at(), Bounds::all());
        let mut valid = cursor.first()?;
        while valid {
            let found = self.check(cursor.key(), cursor.value(), at)?;
            if found.is_some() {
                return Ok(found);
            }
            count()?;
            valid = cursor.next()?;
        }
        Ok(None)
    }

    fn check_keys(
        &self,
        changes: &Changes,
        snapshot: &Snapshot,
        at: Seq,
    ) -> Result<Option<Violation>> {
        let Some((_, notes)) = self.notes() else { return Ok(None) };
        let mut note = Vec::new();
        for key in changes.iter() {
            if notes.get(key, snapshot.at(), &mut note)?.is_none() {
                continue;
            }
            let found = self.check(key, &note, at)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn check(&self, key: &[u8], note: &[u8], at: Seq) -> Result<Option<Violation>> {
        let (had, row) = Note::parse(note);
        let twice = had || self.twin.table.tree(0).get(key, at, &mut Vec::new())?.is_some();
        Ok(twice.then(|| Violation { index: 0, primary_key: row.to_vec() }))
    }
}
