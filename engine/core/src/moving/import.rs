//! Discarding the rows of a table, and importing those of an exported one.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{ByteReader, Error, ErrorKind, Readers, Result, TableId, SEQ_MAX};
use frond_cache::Part;
use frond_row::{History, Renewer, Schema};
use frond_tree::{one_by_one, Bounds, PrivateRuns, Tree};
use frond_vfs::{OpenHow, Vfs};
use frond_wal::Claim;

use super::fit::{fit, CollationName};
use super::format::ExportDescription;
use super::source::{self, Exported};
use crate::catalog::build::Progress;
use crate::catalog::entry_sort::EntrySort;
use crate::catalog::foreign_ddl::ForeignChange;
use crate::catalog::versions;
use crate::catalog::{next_table_row, table_key, CatalogRow, IndexState, TableDef};
use crate::commit::core::Core;
use crate::options::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::table::{counters, Table};

/// Entries between two calls of `progress`.
const POLL_EVERY: u64 = 1024;
/// Entries in memory before they are written: a share of the cache, within bounds.
const SHARE: usize = 16;
const CHUNK_MIN: usize = 1 << 20;
const CHUNK_MAX: usize = 16 << 20;
/// A description is shorter than this.
const DESCRIPTION_MAX: u64 = 256 << 20;

/// Where the two files of an exported table are.
pub struct ImportFiles<'a> {
    pub vfs: &'a dyn Vfs,
    pub data: &'a str,
    pub description: &'a str,
}

/// An import whose files are open and fit. Dropping it changes nothing.
pub struct Import {
    core: Arc<Core>,
    /// The definition of the discarded table.
    ours: Arc<TableDef>,
    /// The definition of the imported table, except for its number.
    def: TableDef,
    described: ExportDescription,
    /// Per tree: makes rows of the newest schema out of its values (MV6).
    newest: Vec<Option<Newest>>,
    exported: Exported,
    data: String,
    done: u64,
}

/// For a tree whose values are rows.
struct Newest {
    version: u64,
    renewer: Renewer,
}

impl Newest {
    /// Per tree of a definition.
    fn of_trees(def: &TableDef) -> Result<Vec<Option<Newest>>> {
        let mut all: Vec<Option<Newest>> = def.indexes.iter().map(|_| None).collect();
        if def.schema.is_empty() {
            return Ok(all);
        }
        let schema = Arc::new(Schema::decode(&def.schema, &def.name)?);
        let history = History::new(&def.name, &schema, versions::history(def)?)?;
        for (n, index) in schema.indexes.iter().enumerate().filter(|(n, _)| schema.has_rows(*n)) {
            let renewer = Renewer::new(schema.clone(), history.clone(), n);
            let version = u64::from(schema.version);
            all[usize::from(index.tree)] = Some(Newest { version, renewer });
        }
        Ok(all)
    }

    /// `None`: nobody knows the row's schema. `out` is for the row that is made.
    fn form<'v>(&self, value: &'v [u8], out: &'v mut Vec<u8>) -> Option<&'v [u8]> {
        if self.renewer.renew(value, out) {
            return Some(out);
        }
        let version = ByteReader::new(value).varint();
        (version == Ok(self.version)).then_some(value)
    }
}

impl Core {
    /// Discards the rows of a table, in constant time. The table then waits for an import (MV2). Nobody may use it meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::Discarded`] when they are discarded already, [`ErrorKind::Busy`] while an index is built.
    pub(crate) fn discard_rows(self: &Arc<Self>, name: &str) -> Result<()> {
        self.replace_by_empty(name, &|def| {
            if !def.building.is_empty() {
                let what = format!("table '{}' has an index that is being built", def.name);
                return Err(Error::new(ErrorKind::Busy, what));
            }
            def.indexes[0].state = IndexState::Discarded;
            Ok(())
        })
        .map(drop)
    }

    /// Opens the files to be imported into the discarded table `name`, and checks that they fit it.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] for a table that is not discarded, [`ErrorKind::NotFound`] without the files,
    /// [`ErrorKind::Mismatch`], [`ErrorKind::Corruption`], [`ErrorKind::UnsupportedFormat`].
    pub(crate) fn begin_import(
        self: &Arc<Self>,
        name: &str,
        files: &ImportFiles<'_>,
        collation: CollationName<'_>,
    ) -> Result<Import> {
        self.may_write()?;
        let ours = self.names.read().require(name)?;
        if !ours.is_discarded() {
            let what = format!("table '{name}' has rows: DISCARD TABLESPACE first");
            return Err(Error::new(ErrorKind::Exists, what));
        }
        let described = read_description(files)?;
        let def = fit(&described.definition, &ours, collation)?;
        let newest = Newest::of_trees(&described.definition)?;
        let readers: Arc<dyn Readers> = self.readers.clone();
        let leaf_bytes = self.options.leaf_bytes;
        let exported = source::open(files.vfs, files.data, &described, leaf_bytes, &readers)?;
        let (core, data) = (self.clone(), files.data.to_owned());
        Ok(Import { core, ours, def, described, newest, exported, data, done: 0 })
    }

    /// MV3.
    fn take_number(self: &Arc<Self>) -> Result<TableId> {
        let _one = self.ddl.lock();
        let id = self.names.read().next();
        let next = id.checked_add(1).ok_or_else(|| {
            Error::new(ErrorKind::TooBig, "all 4 294 967 295 table numbers have been used")
        })?;
        self.commit_definitions(&[next_table_row(next)], &[], &[], Claim::Ordinary)?;
        self.names.write().apply(CatalogRow::NextTable(next));
        Ok(TableId(id))
    }
}

fn read_description(files: &ImportFiles<'_>) -> Result<ExportDescription> {
    let name = files.description;
    let io = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => {
            let what = format!("there is no {name}: copy it with {} during an export", files.data);
            Error::new(ErrorKind::NotFound, what)
        }
        _ => Error::io("read", name, e),
    };
    let file = files.vfs.open(name, OpenHow::READ).map_err(io)?;
    let len = file.len().map_err(io)?;
    if len > DESCRIPTION_MAX {
        let what = format!("{name}: {len} bytes are too many for a description");
        return Err(Error::new(ErrorKind::Corruption, what));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(io)?;
    ExportDescription::decode(&bytes, name)
}

impl Import {
    /// The meta bytes that the other server kept with the definition.
    pub fn meta(&self) -> &[u8] {
        &self.described.definition.meta
    }

    /// Copies the rows and puts the table in the place of the discarded one; durable on return. Nobody may use the
    /// table meanwhile. After an error the table is still discarded.
    pub fn run(mut self, progress: Progress<'_>) -> Result<()> {
        let core = self.core.clone();
        let id = core.take_number()?;
        self.def.id = id;
        self.def.validate()?;
        let table = Arc::new(core.new_table(self.def.clone().shared(), 1));
        // The table enters the map before its first record is logged: trimming must see that it needs the record.
        core.tables.write().insert(id, table.clone());
        let done = self.fill(&table, progress).and_then(|()| self.put(&table));
        // After a failed sync only the next start shows whether the record is in the log.
        if done.is_err() && core.shared.check_poison().is_ok() {
            core.retire_table(id);
        }
        done
    }

    /// Copies everything into the file of `table` (MV4).
    fn fill(&mut self, table: &Arc<Table>, progress: Progress<'_>) -> Result<()> {
        let core = self.core.clone();
        let most = (core.shared.budget.limit() / SHARE).clamp(CHUNK_MIN, CHUNK_MAX);
        let charge = core.shared.budget.charge(Part::WriteBuffers, most);
        core.fit_cache();
        let mut filled = Vec::new();
        let trees = std::mem::take(&mut self.exported.trees);
        for (n, from) in trees.into_iter().enumerate() {
            let Some(tree) = table.trees().get(n).filter(|t| !t.is_abandoned()) else { continue };
            let sort = self.copy(&from, tree, most, progress)?;
            filled.push((tree, sort));
        }
        drop(charge);
        // One file, one sync.
        let any = filled.iter().find(|(_, sort)| !sort.runs.is_empty());
        any.map_or(Ok(()), |(_, sort)| sort.runs.sync()).map_err(|e| self.written(e))?;
        for (tree, mut sort) in filled {
            tree.set_building(true);
            let attached = tree.attach_below(&mut sort.runs, &mut || {
                core.queue.pause();
                Ok(())
            });
            tree.set_building(false);
            attached.map_err(|e| self.written(e))?;
        }
        let own = table.counters();
        own.rows.store(self.described.rows as i64, Ordering::Relaxed);
        own.auto_increment.store(self.described.auto_increment.max(1), Ordering::Relaxed);
        own.row_id.store(self.described.row_id.max(1), Ordering::Relaxed);
        counters::raise(table)?;
        core.checkpoint_table(table)
    }

    /// Copies all entries of one index, in their newest versions (MV5).
    fn copy(
        &mut self,
        from: &Tree,
        tree: &Tree,
        most: usize,
        progress: Progress<'_>,
    ) -> Result<EntrySort> {
        let index = tree.id().index;
        let bad = |what: String| {
            let what = format!("{}: index {index}: {what}", self.data);
            Error::new(ErrorKind::Corruption, what)
        };
        let total = self.described.rows.saturating_mul(self.ours.indexes.len() as u64);
        let (mut entries, mut done) = (0u64, self.done);
        let mut poll = |done: u64| match progress(done, total.max(done)) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted")),
        };
        let mut sort = EntrySort::new(PrivateRuns::new(tree, self.core.options.leaf_bytes));
        let mut cursor = from.cursor(SEQ_MAX, Bounds::all());
        let newest = self.newest.get(usize::from(index)).and_then(Option::as_ref);
        let (mut last, mut made) = (Vec::new(), Vec::new());
        poll(done)?;
        let mut valid = cursor.first().map_err(source::of_the_file)?;
        while valid {
            let (key, value) = (cursor.key(), cursor.value());
            if key.is_empty() || key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
                return Err(bad("an entry of impossible length".into()));
            }
            if entries > 0 && key <= &last[..] {
                return Err(bad("its keys do not ascend".into()));
            }
            last.clear();
            last.extend_from_slice(key);
            let value = match newest.map(|newest| newest.form(value, &mut made)) {
                Some(None) => return Err(bad("a row of a schema that is not described".into())),
                Some(Some(row)) => row,
                None => value,
            };
            sort.chunk.push(key, value);
            (entries, done) = (entries + 1, done + 1);
            if sort.chunk.memory() > most {
                sort.write(1, &mut one_by_one(&mut || poll(done))).map_err(|e| self.written(e))?;
            }
            if entries.is_multiple_of(POLL_EVERY) {
                poll(done)?;
            }
            valid = cursor.next().map_err(source::of_the_file)?;
        }
        sort.finish(1, &mut one_by_one(&mut || poll(done))).map_err(|e| self.written(e))?;
        if entries != self.described.rows {
            let rows = self.described.rows;
            return Err(bad(format!("it has {entries} entries, the table {rows} rows")));
        }
        self.done = done;
        Ok(sort)
    }

    /// A failed write poisons the engine, as for any table file: nobody knows what a retry would find.
    fn written(&self, e: Error) -> Error {
        match e.kind() {
            ErrorKind::Io => self.core.shared.poison(e),
            _ => e,
        }
    }

    /// Puts the imported table in the place of the discarded one, durably.
    fn put(&self, table: &Arc<Table>) -> Result<()> {
        let core = &self.core;
        let imaged = table.store().existing_file().is_some_and(|f| f.image_extent().is_some());
        assert!(imaged, "an imported table without an image (MV4)");
        let _one = core.ddl.lock();
        let name = &self.ours.name;
        let now = core.names.read().require(name)?;
        if now.id != self.ours.id {
            let what = format!("table '{name}' was replaced while it was imported");
            return Err(Error::new(ErrorKind::TableChanged, what));
        }
        let puts = [(table_key(name), self.def.encode())];
        core.commit_definitions(&puts, &[], &[], Claim::Ordinary)?;
        let mut names = core.names.write();
        let definition = Some(table.def());
        names.apply(CatalogRow::Table { name: name.clone(), definition });
        core.change_foreigns(&mut names, ForeignChange::default(), &[name]);
        drop(names);
        core.retire_table(self.ours.id);
        core.ledger.note_all(table);
        core.queue.wake();
        Ok(())
    }
}
