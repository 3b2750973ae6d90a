//! Changing a table's definition in place: indexes come and go, columns are added, dropped, moved, renamed,
//! lengthened; foreign keys come (`add_foreign.rs`) and go; runs get another page size or compression. Rows stay as they
//! are; they name the schema that wrote them. Runs stay too: each describes its pages. Only another primary key makes a table
//! anew (`rebuild.rs`).
//!
//! An [`Alter`] is begun, builds the new indexes (`build_index.rs`) while others read and write, and
//! commits: one durable record replaces the definition. Dropping it before takes back what it began.
//!
//! Invariants
//!
//! - ALT1. The definition changes in one record of the system table. Before it the old one is in force, after it
//!   the new one, whatever happens in between.
//! - ALT2. While an index is built, every commit of the table writes its entries (`Rows` binds the schema with
//!   it). The caller of `begin` makes sure that no transaction has changes of the table then (a server's
//!   metadata locks do), so there is no commit of which a part is missing.
//! - ALT3. An index that was being built when the process ended is dropped at the next start.
//! - ALT4. The tree of a dropped index is emptied in the background, and its number is not used again (TDF1).
//! - ALT5. While an index is built, rows are written as before, also when columns change with it: a column that is added
//!   has its default in each row. So entries are already what the new schema reads.
//!
//! Tested by `tests/it/alter.rs`.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, IndexNo, Result, Seq};
use frond_row::{ColumnType, RowCodec, Schema};
use frond_tree::Tree;
use frond_txn::Snapshot;
use frond_wal::Claim;

use crate::catalog::alter_spec::{encoded, AlterSpec, Pages, Violation};
use crate::catalog::ddl::Counted;
use crate::catalog::foreign::ForeignState;
use crate::catalog::foreign_ddl::{AddedForeigns, ForeignChange};
use crate::catalog::rebuild::{self, Rebuild};
use crate::catalog::{table_key, versions, CatalogRow, IndexDef, IndexState, OldSchema, TableDef};
use crate::commit::core::Core;
use crate::table::{tree_id, Table};

/// An index that is being built.
#[derive(Clone, Copy)]
pub(super) struct NewIndex {
    pub tree: IndexNo,
    pub unique: bool,
    /// Number of the index in the new schema, and in the schema of writers while it is built.
    pub target: usize,
    pub building: usize,
}

/// A change of a table's definition that is under way.
pub struct Alter {
    pub(super) core: Arc<Core>,
    pub(super) table: Arc<Table>,
    pub(super) new: Vec<NewIndex>,
    /// The schema that writers use while indexes are built.
    pub(super) building: Option<Arc<Schema>>,
    /// Rows are read as of this; older snapshots do not read the new indexes.
    pub(super) snapshot: Option<Snapshot>,
    pub(super) at: Seq,
    pub(super) is_built: bool,
    /// A codec of `building`, when uniqueness has to be checked.
    pub(super) codec: Option<Arc<RowCodec>>,
    schema: Schema,
    /// The new schema changes how rows are written.
    rewritten: bool,
    /// Per index of `schema`.
    pages: Vec<Pages>,
    pub(super) meta: Vec<u8>,
    foreigns_gone: Vec<String>,
    pub(super) foreigns_new: AddedForeigns,
    pub(super) is_checked: bool,
    /// All is made anew (`rebuild.rs`).
    pub(super) rebuild: Option<Rebuild>,
    done: bool,
}

fn refuse<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidArgument, what.into()))
}

/// The new schema with its column ids, trees and version; and whether it changes how rows are written.
fn resolve(
    table: &Table,
    def: &TableDef,
    old: &Schema,
    spec: &AlterSpec,
) -> Result<(Schema, bool)> {
    let mut new = spec.schema.clone();
    if spec.index_from.len() != new.indexes.len()
        || spec.column_from.len() != new.columns.len()
        || spec.storage.len() != new.indexes.len()
        || spec.pages.len() != new.indexes.len()
    {
        return refuse("a source and formats are given for each index, a source for each column");
    }
    let older = table.history()?;
    let ids = older.iter().map(|s| &**s).chain([old]).flat_map(|s| &s.columns).map(|c| c.id);
    let mut next_id = ids.max().map_or(0, |id| id + 1);
    let mut used = vec![false; old.columns.len()];
    for (column, from) in new.columns.iter_mut().zip(&spec.column_from) {
        match from {
            Some(n) => {
                let Some(was) = old.columns.get(*n) else { return refuse("no such column") };
                if std::mem::replace(&mut used[*n], true) {
                    return refuse(format!("column '{}' comes twice", was.name));
                }
                (column.id, column.default) = (was.id, column.default_as(was));
                // Its keys stay as they are, with codes or without.
                if column.charset == was.charset && column.sort.compares_as(&was.sort) {
                    column.sort = was.sort.clone();
                }
            }
            None => {
                column.id = next_id;
                next_id += 1;
            }
        }
    }
    if new.hidden_primary != old.hidden_primary || spec.index_from.first() != Some(&Some(0)) {
        return Err(Error::new(ErrorKind::Unsupported, "the primary key would change"));
    }
    let mut next_tree = def.indexes.len();
    let mut used = vec![false; old.indexes.len()];
    for (index, from) in new.indexes.iter_mut().zip(&spec.index_from) {
        match from {
            Some(n) => {
                let Some(was) = old.indexes.get(*n) else { return refuse("no such index") };
                if std::mem::replace(&mut used[*n], true) || was.unique != index.unique {
                    return refuse(format!("index '{}' comes twice, or is another", was.name));
                }
                index.tree = was.tree;
            }
            None => {
                index.tree =
                    IndexNo::try_from(next_tree).or_else(|_| refuse("too many indexes"))?;
                next_tree += 1;
            }
        }
    }
    let form = |s: &Schema| -> Vec<_> {
        s.columns.iter().map(|c| (c.id, c.ty, c.bytes, c.nullable, c.stored)).collect()
    };
    let rewritten = form(old) != form(&new);
    new.version = old.version;
    if rewritten {
        new.version = old.version.checked_add(1).map_or_else(|| refuse("too many versions"), Ok)?;
    }
    new.validate()?;
    // The new schema must also read the rows of the old one (HIS1).
    new.check_reads(old)?;
    Ok((new, rewritten))
}

impl Core {
    /// Begins a change of the definition; see [`Alter`]. With new indexes, commits write their entries when it
    /// returns (ALT2).
    pub(crate) fn begin_alter(
        self: &Arc<Self>,
        table: &Arc<Table>,
        spec: AlterSpec,
    ) -> Result<Alter> {
        let _one = self.ddl.lock();
        self.may_free_space()?;
        let def = self.definition_of(table)?;
        if table.twin().is_some() {
            return Err(Error::new(ErrorKind::Busy, "the table is being made anew"));
        }
        let old = Schema::decode(&def.schema, &def.name)?;
        if rebuild::is_needed(&spec) {
            let new = self.rebuilt_definition(&def, &old, &spec)?;
            let mut alter = self.alter(table, spec, new.1.clone());
            let (rebuild, snapshot) = self.begin_rebuild(table, new)?;
            (alter.at, alter.snapshot) = (snapshot.at(), Some(snapshot));
            alter.rebuild = Some(rebuild);
            return Ok(alter);
        }
        let (schema, rewritten) = resolve(table, &def, &old, &spec)?;
        let (next, building, new) = begun(&def, &old, &schema, &spec)?;
        self.check_added(&def, (&old, &building, &schema), &spec.foreigns_new)?;
        // Refused now, not when everything is built.
        let mut last = next.clone();
        last.schema = encoded(&schema);
        last.history = self.next_history(table, &def, &old, rewritten);
        finish(&mut last, &schema, &spec.pages);
        last.validate()?;
        let mut alter = self.alter(table, spec, schema);
        (alter.new, alter.rewritten) = (new, rewritten);
        if !alter.new.is_empty() {
            self.may_write()?;
            self.replace_definitions(
                &[(&next, &ForeignChange::default())],
                Default::default(),
                Claim::Ordinary,
            )?;
            for index in next.indexes.iter().skip(table.trees().len()) {
                table.add_tree(self.new_tree(table, index));
            }
            self.put_definition(table, next, ForeignChange::default());
            alter.building = Some(Arc::new(building));
            let snapshot = self.new_snapshot();
            (alter.at, alter.snapshot) = (snapshot.at(), Some(snapshot));
        }
        if alter.foreigns_new.checks() {
            alter.put_foreigns(Some(ForeignState::Checking));
        }
        Ok(alter)
    }

    fn alter(self: &Arc<Self>, table: &Arc<Table>, spec: AlterSpec, schema: Schema) -> Alter {
        Alter {
            core: self.clone(),
            table: table.clone(),
            new: Vec::new(),
            building: None,
            snapshot: None,
            at: 0,
            is_built: false,
            codec: None,
            schema,
            rewritten: false,
            pages: spec.pages,
            meta: spec.meta,
            foreigns_gone: spec.foreigns_gone,
            foreigns_new: spec.foreigns_new,
            is_checked: false,
            rebuild: None,
            done: false,
        }
    }

    pub(crate) fn check_alter(&self, table: &Table, spec: &AlterSpec) -> Result<()> {
        let def = self.definition_of(table)?;
        let old = Schema::decode(&def.schema, &def.name)?;
        if rebuild::is_needed(spec) {
            return self.rebuilt_definition(&def, &old, spec).map(drop);
        }
        let (schema, rewritten) = resolve(table, &def, &old, spec)?;
        let (mut last, building, _) = begun(&def, &old, &schema, spec)?;
        last.history = self.next_history(table, &def, &old, rewritten);
        finish(&mut last, &schema, &spec.pages);
        last.validate()?;
        self.foreigns_of_altered(&def, &schema, &spec.foreigns_gone)?;
        self.check_added(&def, (&old, &building, &schema), &spec.foreigns_new)
    }

    pub(super) fn definition_of(&self, table: &Table) -> Result<Arc<TableDef>> {
        if table.is_discarded() {
            return Err(Error::new(ErrorKind::Discarded, "the rows of the table were discarded"));
        }
        let found = self.names.read().by_id(table.id()).cloned();
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "the table was dropped"))
    }

    /// The older schemas of a definition that follows `def`, whose schema is `schema`.
    fn next_history(
        &self,
        table: &Table,
        def: &TableDef,
        schema: &Schema,
        rewritten: bool,
    ) -> Vec<OldSchema> {
        let end = self.shared.wal.end();
        let mut history = versions::living(table.trees(), schema, &def.history, end);
        if rewritten {
            history.push(OldSchema { logged_below: end, ..OldSchema::new(def.schema.clone()) });
        }
        history
    }

    /// ALT1; `gone` and `counted`: what tables that take the place of others add (RB5).
    fn replace_definitions(
        self: &Arc<Self>,
        next: &[(&TableDef, &ForeignChange)],
        (gone, counted): (Vec<Vec<u8>>, &[Counted]),
        claim: Claim,
    ) -> Result<()> {
        let (mut puts, mut deletes) = (Vec::new(), gone);
        for (def, foreigns) in next {
            puts.extend(foreigns.puts());
            puts.push((table_key(&def.name), def.encode()));
            deletes.extend(foreigns.deletes());
        }
        self.commit_definitions(&puts, &deletes, counted, claim)
    }

    /// The record is durable, so this cannot fail.
    fn put_definition(&self, table: &Table, def: TableDef, foreigns: ForeignChange) {
        let def = def.shared();
        let (name, definition) = (def.name.clone(), Some(def.clone()));
        let mut names = self.names.write();
        names.apply(CatalogRow::Table { name, definition });
        table.set_def(def);
        // Plans that were made from the old definition are out of date.
        self.change_foreigns(&mut names, foreigns, &[&table.def().name]);
    }

    /// An empty tree, the next one of the table, whose index is being built.
    fn new_tree(&self, table: &Table, index: &IndexDef) -> Tree {
        let options = self.shared.tree_options.of(index, self.options.leaf_bytes);
        let (store, readers) = (table.store().clone(), self.readers.clone());
        let id = tree_id(table.id(), table.trees().len());
        let tree = Tree::new(id, options, store.clone(), store, readers);
        tree.set_building(index.state == IndexState::Building);
        tree
    }

    /// ALT3. After recovery.
    pub(crate) fn drop_unfinished_builds(self: &Arc<Self>) -> Result<()> {
        let _one = self.ddl.lock();
        let builds = |def: &&Arc<TableDef>| !def.building.is_empty();
        let unfinished: Vec<_> = self.names.read().iter().filter(builds).cloned().collect();
        for def in unfinished {
            let mut next = TableDef::clone(&def);
            drop_building(&mut next);
            self.replace_definitions(
                &[(&next, &ForeignChange::default())],
                Default::default(),
                Claim::Freeing,
            )?;
            let table = self.tables.read().get(&def.id).cloned();
            match table {
                Some(table) => self.put_definition(&table, next, ForeignChange::default()),
                None => {
                    let (name, definition) = (next.name.clone(), Some(next.shared()));
                    self.names.write().apply(CatalogRow::Table { name, definition });
                }
            }
            self.messages.say(2, &format!("table '{}': an unfinished index was dropped", def.name));
        }
        let tables: Vec<Arc<Table>> = self.tables.read().values().cloned().collect();
        tables.iter().for_each(|table| self.clear_dropped_later(table));
        Ok(())
    }

    /// ALT4: all trees of dropped indexes that are not empty.
    pub(crate) fn clear_dropped_later(&self, table: &Arc<Table>) {
        for tree in table.trees().iter() {
            if tree.is_abandoned() && !tree.is_clear() {
                self.upkeep.clear_later(table, tree.id().index);
            }
        }
        self.queue.wake();
    }
}

/// The definition while new indexes are built, with the schema of writers and these indexes; without what an earlier build left behind.
fn begun(
    def: &TableDef,
    old: &Schema,
    schema: &Schema,
    spec: &AlterSpec,
) -> Result<(TableDef, Schema, Vec<NewIndex>)> {
    let mut next = def.clone();
    drop_building(&mut next);
    let (building, new) = while_built(old, schema, spec)?;
    for index in &new {
        let storage = spec.storage[index.target].clone();
        let key_shape = building.index_key_shape(index.building);
        next.indexes.push(IndexDef { state: IndexState::Building, key_shape, ..storage });
    }
    if !new.is_empty() {
        next.building = encoded(&building);
    }
    next.validate()?;
    Ok((next, building, new))
}

/// The schema of writers while the indexes that `new` has and `old` has not are built, and these indexes. Columns of them that
/// are added come last, as [`Column::coming`](frond_row::Column::coming) (ALT5).
///
/// # Errors
/// [`ErrorKind::Unsupported`] when the new schema would not read the entries.
fn while_built(old: &Schema, new: &Schema, spec: &AlterSpec) -> Result<(Schema, Vec<NewIndex>)> {
    let mut building = old.clone();
    let mut indexes = Vec::new();
    let sources = spec.index_from.iter().zip(&new.indexes).enumerate();
    for (target, (_, index)) in sources.filter(|(_, (from, _))| from.is_none()) {
        let number = building.indexes.len();
        indexes.push(NewIndex { tree: index.tree, unique: index.unique, target, building: number });
        let mut index = index.clone();
        for part in &mut index.parts {
            let column = &new.columns[usize::from(part.column)];
            let known = building.columns.iter().position(|c| c.id == column.id);
            part.column = known.unwrap_or(building.columns.len()) as u16;
            if known.is_none() {
                building.columns.push(column.clone());
            }
        }
        building.indexes.push(index);
    }
    new.check_reads(&building)?;
    let refuse = |what: &str| Err(Error::new(ErrorKind::Unsupported, what));
    let clusters = indexes.iter().any(|index| new.indexes[index.target].clustering);
    if clusters && old.version != new.version {
        // Its rows would name a version that does not have the index.
        return refuse("a clustering index is built and columns are changed at once");
    }
    for column in &mut building.columns[old.columns.len()..] {
        if !column.stored || matches!(column.ty, ColumnType::Opaque { .. }) {
            return refuse(
                "an index is built on a column that is added, which only the server can compute",
            );
        }
        (column.stored, column.coming) = (false, true);
    }
    building.validate()?;
    Ok((building, indexes))
}

/// Ends a build that has no schema any more.
fn drop_building(def: &mut TableDef) {
    def.building.clear();
    for index in &mut def.indexes {
        if index.state == IndexState::Building {
            index.state = IndexState::Dropped;
        }
    }
}

/// Finishes the definition: the indexes that `schema` names are in use, with these pages, all others are dropped.
fn finish(def: &mut TableDef, schema: &Schema, pages: &[Pages]) {
    def.building.clear();
    for (n, index) in def.indexes.iter_mut().enumerate() {
        let named = schema.indexes.iter().any(|i| usize::from(i.tree) == n);
        index.state = if named { IndexState::Live } else { IndexState::Dropped };
    }
    for (index, pages) in schema.indexes.iter().zip(pages) {
        let index = &mut def.indexes[usize::from(index.tree)];
        index.page_bytes = pages.page_bytes.unwrap_or(index.page_bytes);
        index.compression = pages.compression.unwrap_or(index.compression);
    }
}

impl Alter {
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Whether it has indexes to build.
    pub fn builds(&self) -> bool {
        !self.new.is_empty() || self.rebuild.is_some()
    }

    /// Whether all that takes time is done.
    fn is_ready(&self) -> bool {
        (self.is_built || !self.builds()) && (self.is_checked || !self.foreigns_new.checks())
    }

    /// Puts the new definition in force, durably. Nobody else uses the table meanwhile, and no transaction has
    /// changes of it. With a violation, which concurrent writers may have made, and with an error everything is
    /// as before.
    pub fn commit(self) -> Result<Option<Violation>> {
        Ok(Alter::commit_all(vec![self])?.map(|(_, violation)| violation))
    }

    /// As [`Alter::commit`], of several tables of one database: all or none, also after a crash. A violation comes
    /// with the position of its table.
    pub fn commit_all(mut alters: Vec<Alter>) -> Result<Option<(usize, Violation)>> {
        let Some(core) = alters.first().map(|alter| alter.core.clone()) else { return Ok(None) };
        for (n, alter) in alters.iter_mut().enumerate() {
            if !alter.is_ready() {
                return refuse("the new indexes are not built, or rows not checked");
            }
            // Before the last look at rows, which sees what has ended since.
            core.check_family_not_prepared(&alter.table.def().name)?;
            if let Some(violation) = alter.check_rest()? {
                return Ok(Some((n, violation)));
            }
        }
        let _one = core.ddl.lock();
        let next = alters.iter_mut().map(Alter::definition).collect::<Result<Vec<_>>>()?;
        let builds = alters.iter().any(Alter::builds);
        let claim = if builds { Claim::Ordinary } else { Claim::Freeing };
        let both: Vec<_> = next.iter().map(|(def, foreigns)| (def, foreigns)).collect();
        let (gone, counted): (Vec<_>, Vec<_>) = alters.iter().filter_map(Alter::replaced).unzip();
        core.replace_definitions(&both, (gone.concat(), &counted), claim)?;
        alters.iter_mut().for_each(|alter| alter.done = true);
        for (alter, (def, foreigns)) in alters.iter().zip(next) {
            alter.put_in_force(def, foreigns);
        }
        Ok(None)
    }

    /// The definition as it will be, and what becomes of foreign keys.
    fn definition(&mut self) -> Result<(TableDef, ForeignChange)> {
        if let Some(def) = self.rebuilt()? {
            return Ok((def, ForeignChange::default()));
        }
        let core = &self.core;
        let old = core.definition_of(&self.table)?;
        let mut next = TableDef::clone(&old);
        let was = Schema::decode(&old.schema, &old.name)?;
        next.history = core.next_history(&self.table, &old, &was, self.rewritten);
        next.schema = encoded(&self.schema);
        next.meta = std::mem::take(&mut self.meta);
        finish(&mut next, &self.schema, &self.pages);
        next.validate()?;
        let mut foreigns = core.foreigns_of_altered(&old, &self.schema, &self.foreigns_gone)?;
        if self.foreigns_new.unchecked {
            let building = self.building.as_deref().unwrap_or(&was);
            core.check_added(&old, (&was, building, &self.schema), &self.foreigns_new)?;
        }
        self.add_foreigns(&mut foreigns)?;
        Ok((next, foreigns))
    }

    /// The record is durable, so this cannot fail.
    fn put_in_force(&self, def: TableDef, foreigns: ForeignChange) {
        if let Some(rebuild) = &self.rebuild {
            return self.put_rebuilt_in_force(rebuild, def);
        }
        for new in &self.new {
            let slot = self.table.slot(new.tree);
            slot.watch(false);
            slot.tree.set_building(false);
            slot.oldest_snapshot.fetch_max(self.at, Ordering::AcqRel);
        }
        self.core.put_definition(&self.table, def, foreigns);
        self.core.ledger.note_all(&self.table);
        self.core.clear_dropped_later(&self.table);
    }

    /// Takes back what was begun.
    fn abort(&mut self) -> Result<()> {
        if let Some(rebuild) = &self.rebuild {
            return self.abort_rebuild(rebuild);
        }
        self.new.iter().for_each(|new| self.table.slot(new.tree).watch(false));
        let core = self.core.clone();
        let _one = core.ddl.lock();
        let mut next = TableDef::clone(&*core.definition_of(&self.table)?);
        drop_building(&mut next);
        // If this fails, the entries go on being written until the next start, or the next change.
        core.replace_definitions(
            &[(&next, &ForeignChange::default())],
            Default::default(),
            Claim::Freeing,
        )?;
        core.put_definition(&self.table, next, ForeignChange::default());
        core.ledger.note_all(&self.table);
        core.clear_dropped_later(&self.table);
        Ok(())
    }
}

impl Drop for Alter {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        if self.foreigns_new.checks() {
            self.put_foreigns(None);
        }
        if self.building.is_none() && self.rebuild.is_none() {
            return;
        }
        if let Err(e) = self.abort() {
            let name = self.table.def().name.clone();
            let what = format!("table '{name}': an index that was not finished stays for now: {e}");
            self.core.messages.say(1, &what);
        }
    }
}
