//! Definitions: create, drop, rename, truncate. Each is one transaction on the system table,
//! durable when the call returns, so that a crash leaves it done or not begun.
//!
//! A dropped or truncated table's file is removed after the transaction is durable, in the background; a
//! crash in between leaves an orphan that the next start removes (it is in no definition).
//!
//! The caller makes sure that nobody uses the table (a server's metadata locks do).

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result, TableId};
use frond_row::Schema;
use frond_tree::Tree;
use frond_txn::WriteSet;
use frond_wal::Claim;

use crate::background::upkeep::DroppedTable;
use crate::catalog::foreign::Foreign;
use crate::catalog::foreign_ddl::{ForeignChange, NewForeigns, RenameForeigns};
use crate::catalog::names::{is_rebuild, Names};
use crate::catalog::{next_table_row, table_key, CatalogRow, IndexDef, TableDef, SYSTEM_TABLE};
use crate::commit::core::Core;
use crate::record::CounterRecord;
use crate::table::store::TableStore;
use crate::table::{tree_id, Table};

/// The definition of a new table; its number is chosen at creation.
#[derive(Clone, Debug)]
pub struct TableSpec {
    pub name: String,
    pub indexes: Vec<IndexDef>,
    pub schema: Vec<u8>,
    pub meta: Vec<u8>,
    /// First AUTO_INCREMENT value; 0 and 1 mean 1.
    pub auto_increment: u64,
}

impl TableSpec {
    /// A table of plain keys and values.
    pub fn plain(name: &str) -> TableSpec {
        TableSpec {
            name: name.into(),
            indexes: vec![IndexDef::plain()],
            schema: Vec::new(),
            meta: Vec::new(),
            auto_increment: 1,
        }
    }
}

/// A table whose counters a record has, and the rows that it gets by that record.
pub(super) type Counted = (Arc<Table>, i64);

/// The number of the next table, once `id` is used.
pub(super) fn number_after(id: TableId) -> Result<u32> {
    let used = || Error::new(ErrorKind::TooBig, "all 4 294 967 295 table numbers have been used");
    id.0.checked_add(1).ok_or_else(used)
}

fn refuse_name<T>(name: &str) -> Result<T> {
    let what = format!("a table cannot have the name '{name}'");
    Err(Error::new(ErrorKind::InvalidArgument, what))
}

impl Core {
    pub(crate) fn system_table(&self) -> Arc<Table> {
        let tables = self.tables.read();
        tables.get(&SYSTEM_TABLE).expect("the system table is opened first").clone()
    }

    /// Commits rows of the system table, with the counters of `counted` and what they have more rows, and waits until they
    /// are durable.
    pub(crate) fn commit_definitions(
        self: &Arc<Self>,
        puts: &[(Vec<u8>, Vec<u8>)],
        deletes: &[Vec<u8>],
        counted: &[Counted],
        claim: Claim,
    ) -> Result<()> {
        let system = self.system_table();
        let tree = system.tree(0).id();
        let mut writes = WriteSet::new();
        for key in deletes {
            writes.delete(tree, key);
        }
        for (key, value) in puts {
            writes.put(tree, key, value);
        }
        let mut tables = vec![system];
        for (table, rows) in counted {
            writes.add_rows(table.id(), *rows);
            tables.push(table.clone());
        }
        if let Some(end) = self.commit_definition(&mut writes, &tables, claim)? {
            self.shared.wal.sync_to(end).map_err(|e| self.shared.poison(e))?;
        }
        Ok(())
    }

    /// The open table of that name.
    pub fn open_table(self: &Arc<Self>, name: &str) -> Result<Arc<Table>> {
        let def = self.names.read().require(name)?;
        self.open_table_by_def(&def)
    }

    /// The open table of that number, opening its file when it is not open yet.
    pub(crate) fn open_table_by_def(self: &Arc<Self>, def: &Arc<TableDef>) -> Result<Arc<Table>> {
        if let Some(table) = self.tables.read().get(&def.id) {
            return Ok(table.clone());
        }
        // One at a time, and without holding the map, which commits and checkpoints of other tables need.
        let _one = self.opening.lock();
        if let Some(table) = self.tables.read().get(&def.id) {
            return Ok(table.clone());
        }
        let table = Arc::new(self.load_clean_table(def)?);
        table.recover_statistics(self.names.read().statistics(def.id));
        let mut tables = self.tables.write();
        // A change of definitions changes the names first, and then the table that it finds in the map.
        let Some(now) = self.names.read().by_id(def.id).cloned() else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("table '{}' was dropped while it was opened", def.name),
            ));
        };
        if *now != *table.def() {
            table.set_def(now);
        }
        tables.insert(def.id, table.clone());
        drop(tables);
        if !self.options.read_only {
            self.clear_dropped_later(&table);
        }
        Ok(table)
    }

    /// An empty table in memory; its file comes with its first run.
    pub(crate) fn new_table(&self, def: Arc<TableDef>, auto_increment: u64) -> Table {
        let store = Arc::new(TableStore::new(self.shared.clone(), def.id));
        let trees = def
            .indexes
            .iter()
            .enumerate()
            .map(|(i, index)| {
                let options = self.shared.tree_options.of(index, self.options.leaf_bytes);
                let readers = self.readers.clone();
                Tree::new(tree_id(def.id, i), options, store.clone(), store.clone(), readers)
            })
            .collect();
        let counters = CounterRecord {
            table: def.id,
            rows_delta: 0,
            auto_increment: auto_increment.max(1),
            row_id: 1,
        };
        Table::new(def, trees, store, &counters)
    }

    pub(crate) fn new_system_table(&self) -> Table {
        let def = TableDef::new(SYSTEM_TABLE, String::new(), vec![IndexDef::plain()]);
        self.new_table(def.shared(), 1)
    }

    pub fn create_table(
        self: &Arc<Self>,
        spec: TableSpec,
        foreigns: NewForeigns,
    ) -> Result<Arc<Table>> {
        let _one = self.ddl.lock();
        self.may_write()?;
        let id = {
            let names = self.names.read();
            if is_rebuild(&spec.name) {
                return refuse_name(&spec.name);
            }
            if names.get(&spec.name).is_some() {
                return Err(Error::new(
                    ErrorKind::Exists,
                    format!("table '{}' exists already", spec.name),
                ));
            }
            TableId(names.next())
        };
        let next = number_after(id)?;
        let mut def = TableDef::new(id, spec.name, spec.indexes);
        (def.schema, def.meta) = (spec.schema, spec.meta);
        def.validate()?;
        let def = def.shared();
        let change = self.foreigns_of_created(&def, foreigns)?;
        let table = Arc::new(self.new_table(def.clone(), spec.auto_increment));
        // In the map before the record is logged: trimming must see that the table needs the record.
        self.tables.write().insert(id, table.clone());
        let mut puts = vec![next_table_row(next), (table_key(&def.name), def.encode())];
        puts.extend(change.puts());
        let counted = (spec.auto_increment > 1).then(|| (table.clone(), 0));
        let done = self.commit_definitions(&puts, &[], counted.as_slice(), Claim::Ordinary);
        if let Err(e) = done {
            self.tables.write().remove(&id);
            return Err(e);
        }
        let mut names = self.names.write();
        names.apply(CatalogRow::NextTable(next));
        names.apply(CatalogRow::Table { name: def.name.clone(), definition: Some(def) });
        self.change_foreigns(&mut names, change, &[&table.def().name]);
        drop(names);
        Ok(table)
    }

    /// Applies in memory a change of foreign keys that was committed with the definitions of `tables`.
    pub(crate) fn change_foreigns(
        &self,
        names: &mut Names,
        change: ForeignChange,
        tables: &[&str],
    ) {
        let changes = !change.is_empty();
        change.apply(names);
        if changes || tables.iter().any(|table| names.foreigns.mention(table)) {
            self.foreigns_changed();
        }
    }

    /// Commits a change of foreign keys alone.
    pub(crate) fn commit_foreigns(self: &Arc<Self>, change: ForeignChange) -> Result<()> {
        self.commit_definitions(&change.puts(), &change.deletes(), &[], Claim::Ordinary)?;
        self.change_foreigns(&mut self.names.write(), change, &[]);
        Ok(())
    }

    /// Drops a table. Constraints of other tables that name it, if `may_miss` allows it, name a missing
    /// table then.
    pub fn drop_table(
        self: &Arc<Self>,
        name: &str,
        may_miss: &dyn Fn(&Foreign) -> bool,
    ) -> Result<()> {
        let _one = self.ddl.lock();
        let def = self.names.read().require(name)?;
        let change = self.foreigns_of_dropped(name, may_miss)?;
        let mut deletes = vec![table_key(name)];
        deletes.extend(change.deletes());
        deletes.extend(self.key_of_statistics(def.id));
        self.commit_definitions(&[], &deletes, &[], Claim::Freeing)?;
        let mut names = self.names.write();
        names.apply(CatalogRow::Table { name: name.to_owned(), definition: None });
        names.apply(CatalogRow::Statistics { table: def.id, statistics: None });
        self.change_foreigns(&mut names, change, &[name]);
        drop(names);
        self.retire_table(def.id);
        Ok(())
    }

    /// The table is in no definition any more: forget it and remove its file in the background.
    pub(crate) fn retire_table(&self, id: TableId) {
        let table = self.tables.write().remove(&id);
        if let Some(table) = &table {
            table.mark_dropped();
        }
        self.queue.retry(id);
        self.ledger.forget(id);
        self.images.forget(id);
        self.shared.readahead.forget_table(id);
        let table = table.as_ref().map(Arc::downgrade).unwrap_or_default();
        self.upkeep.remove_later(DroppedTable { id, table });
        if self.disk.is_full() {
            // On a full disk, writes are allowed again after a drop; if the space is not enough,
            // the next write finds out.
            self.clear_all_dropped();
            self.queue.retry_all();
            self.disk.end();
            self.queue.wake();
        }
    }

    /// Renames; an existing table of the new name is an error. `rename` gives its foreign keys their new names.
    pub fn rename_table(
        self: &Arc<Self>,
        from: &str,
        to: &str,
        how: &RenameForeigns,
        rename: &dyn Fn(&Foreign) -> String,
    ) -> Result<()> {
        let _one = self.ddl.lock();
        let old = self.names.read().require(from)?;
        if is_rebuild(to) {
            return refuse_name(to);
        }
        if self.names.read().get(to).is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("table '{to}' exists already")));
        }
        let new = TableDef { name: to.to_owned(), ..(*old).clone() }.shared();
        new.validate()?;
        let change = self.foreigns_of_renamed(&old, to, how, rename)?;
        let mut puts = change.puts();
        puts.push((table_key(to), new.encode()));
        let mut deletes = change.deletes();
        deletes.push(table_key(from));
        self.commit_definitions(&puts, &deletes, &[], Claim::Ordinary)?;
        let mut names = self.names.write();
        names.apply(CatalogRow::Table { name: from.to_owned(), definition: None });
        names.apply(CatalogRow::Table { name: to.to_owned(), definition: Some(new.clone()) });
        self.change_foreigns(&mut names, change, &[from, to]);
        drop(names);
        if let Some(table) = self.tables.read().get(&new.id) {
            table.set_def(new);
        }
        Ok(())
    }

    /// Replaces the table by an empty one of the same definition, in constant time. Handles to the
    /// old one report it as dropped: open the table again.
    pub fn truncate_table(self: &Arc<Self>, name: &str) -> Result<Arc<Table>> {
        self.replace_by_empty(name, &|_| Ok(()))
    }

    /// Like [`Core::truncate_table`], but `change` may alter the definition of the new table. Not
    /// of a table whose rows are discarded.
    pub(crate) fn replace_by_empty(
        self: &Arc<Self>,
        name: &str,
        change: &dyn Fn(&mut TableDef) -> Result<()>,
    ) -> Result<Arc<Table>> {
        let _one = self.ddl.lock();
        let old = self.names.read().require(name)?;
        if old.is_discarded() {
            let what = format!("the rows of table '{name}' were discarded: import or drop it");
            return Err(Error::new(ErrorKind::Discarded, what));
        }
        let id = TableId(self.names.read().next());
        let next = number_after(id)?;
        // No row names an older schema.
        let mut new = TableDef { id, history: Vec::new(), ..(*old).clone() };
        change(&mut new)?;
        let new = new.shared();
        let table = Arc::new(self.new_table(new.clone(), 1));
        self.tables.write().insert(id, table.clone());
        let puts = [next_table_row(next), (table_key(name), new.encode())];
        let deletes: Vec<_> = self.key_of_statistics(old.id).into_iter().collect();
        if let Err(e) = self.commit_definitions(&puts, &deletes, &[], Claim::Freeing) {
            self.tables.write().remove(&id);
            return Err(e);
        }
        let mut names = self.names.write();
        names.apply(CatalogRow::NextTable(next));
        names.apply(CatalogRow::Table { name: name.to_owned(), definition: Some(new) });
        names.apply(CatalogRow::Statistics { table: old.id, statistics: None });
        self.change_foreigns(&mut names, ForeignChange::default(), &[name]);
        drop(names);
        self.retire_table(old.id);
        Ok(table)
    }

    /// Replaces the stored schema, and what the owner (a server) keeps with it.
    pub fn set_schema(self: &Arc<Self>, name: &str, schema: Vec<u8>, meta: Vec<u8>) -> Result<()> {
        let _one = self.ddl.lock();
        let old = self.names.read().require(name)?;
        let has_foreigns = self.names.read().foreigns.mention(name);
        let change = match has_foreigns {
            true => self.foreigns_of_schema(&old, &Schema::decode(&schema, name)?, &[])?,
            false => ForeignChange::default(),
        };
        let new = TableDef { schema, meta, ..(*old).clone() }.shared();
        let mut puts = change.puts();
        puts.push((table_key(name), new.encode()));
        self.commit_definitions(&puts, &change.deletes(), &[], Claim::Ordinary)?;
        let mut names = self.names.write();
        names.apply(CatalogRow::Table { name: name.to_owned(), definition: Some(new.clone()) });
        self.change_foreigns(&mut names, change, &[name]);
        drop(names);
        if let Some(table) = self.tables.read().get(&new.id) {
            table.set_def(new);
        }
        Ok(())
    }
}
