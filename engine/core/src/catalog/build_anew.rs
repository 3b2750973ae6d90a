//! An [`Alter`] that makes a table anew (`rebuild.rs`): its work beside writers, and how it takes the old table's name.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, IndexNo, Result};
use frond_row::{Deriver, Entries, History, RowCodec, Schema};
use frond_tree::Tree;

use crate::background::running_work::Work;
use crate::catalog::alter::Alter;
use crate::catalog::alter_spec::Violation;
use crate::catalog::build::{attach_all, collect, write_all, Build, Progress};
use crate::catalog::ddl::Counted;
use crate::catalog::foreign_ddl::ForeignChange;
use crate::catalog::rebuild::Rebuild;
use crate::catalog::{table_key, CatalogRow, IndexState, TableDef};
use crate::rows::Rows;

impl Alter {
    /// As [`Alter::build`], of a table with another primary key.
    pub(super) fn build_anew(
        &mut self,
        rows: &Rows,
        progress: Progress<'_>,
    ) -> Result<Option<Violation>> {
        let Some(rebuild) = &mut self.rebuild else { return Ok(None) };
        let core = self.core.clone();
        let work = Work::new("REBUILD", self.table.id(), core.shared.vfs.now());
        let bytes = self.table.tree(0).stats().logical_bytes;
        let _under_way = core.works.begin(work.of(Some(0), bytes));
        let (def, hidden) = (self.table.def(), rebuild.twin.table.clone());
        let layout = || rows.codec().layout().clone();
        let sort_keys = || rows.codec().sort_keys().clone();
        let old = Arc::new(Schema::decode(&def.schema, &def.name)?);
        let from = RowCodec::bind(&def.name, old, layout(), self.table.history()?, sort_keys())?;
        let schema = rebuild.twin.schema.clone();
        let to = RowCodec::bind(&def.name, schema, layout(), History::default(), sort_keys())?;
        let (from, to) = (Arc::new(from), Arc::new(to));
        let indexes = to.schema().indexes.len();
        let mut build = Build {
            core: core.clone(),
            codec: to.clone(),
            progress,
            done: 0,
            total: self.table.rows() * 2,
        };
        let source = (&*self.table, self.at);
        let trees: Vec<&Tree> = hidden.trees().iter().take(indexes).collect();
        let mut deriver = Deriver::anew(from.clone(), to.clone())?;
        let mut entries = Entries::new();
        let mut met = 0;
        let (mut sorts, charge) = collect(&mut build, source, &trees, &mut |key, value, sorts| {
            deriver.derive(key, value, &mut entries)?;
            met += 1;
            for (index, sort) in sorts.iter_mut().enumerate() {
                sort.chunk.push(entries.key(index), entries.value(index));
            }
            Ok(())
        })?;
        write_all(&mut sorts, &mut build, true)?;
        drop(charge);
        // RB4: equal keys are one entry now.
        if sorts[0].runs.entries() != met {
            drop(sorts);
            return rebuild.equal_rows(&mut build, source, from).map(Some);
        }
        rebuild.rows = met;
        let numbers: Vec<IndexNo> = (0..indexes as IndexNo).collect();
        attach_all(&mut build, &hidden, &numbers, sorts)?;
        if let Some(violation) = rebuild.check_notes(&mut build, self.at)? {
            return Ok(Some(violation));
        }
        self.is_built = true;
        Ok(None)
    }

    /// The definition with which the new table takes the old one's name.
    pub(super) fn rebuilt(&mut self) -> Result<Option<TableDef>> {
        let Some(rebuild) = &self.rebuild else { return Ok(None) };
        // It may have been dropped.
        let name = self.core.definition_of(&self.table)?.name.clone();
        // One that came since the beginning.
        if self.core.names.read().foreigns.mention(&name) {
            let what = "the table got foreign keys while its primary key changed";
            return Err(Error::new(ErrorKind::TableChanged, what));
        }
        let mut def = TableDef { name, ..TableDef::clone(&rebuild.twin.table.def()) };
        def.meta = std::mem::take(&mut self.meta);
        if let Some(notes) = rebuild.twin.notes {
            def.indexes[usize::from(notes)].state = IndexState::Dropped;
        }
        def.validate()?;
        Ok(Some(def))
    }

    /// What the record deletes besides, and the rows that the new table has more (RB5).
    pub(super) fn replaced(&self) -> Option<(Vec<Vec<u8>>, Counted)> {
        let rebuild = self.rebuild.as_ref()?;
        let new = &rebuild.twin.table;
        let (was, is) = (self.table.counters(), new.counters());
        for (was, is) in [(&was.auto_increment, &is.auto_increment), (&was.row_id, &is.row_id)] {
            is.fetch_max(was.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let mut gone = vec![table_key(&new.def().name)];
        gone.extend(self.core.key_of_statistics(self.table.id()));
        Some((gone, (new.clone(), rebuild.rows as i64)))
    }

    /// The record is durable, so this cannot fail.
    pub(super) fn put_rebuilt_in_force(&self, rebuild: &Rebuild, def: TableDef) {
        let (core, new, def) = (&self.core, &rebuild.twin.table, def.shared());
        new.set_oldest_snapshot(self.at);
        new.trees().iter().for_each(|tree| tree.set_building(false));
        let hidden = new.def().name.clone();
        let (name, definition) = (def.name.clone(), Some(def.clone()));
        new.set_def(def);
        let mut names = core.names.write();
        names.apply(CatalogRow::Table { name: hidden, definition: None });
        names.apply(CatalogRow::Table { name: name.clone(), definition });
        names.apply(CatalogRow::Statistics { table: self.table.id(), statistics: None });
        core.change_foreigns(&mut names, ForeignChange::default(), &[&name]);
        drop(names);
        self.table.set_twin(None);
        core.retire_table(self.table.id());
        core.ledger.note_all(new);
        core.clear_dropped_later(new);
    }

    pub(super) fn abort_rebuild(&self, rebuild: &Rebuild) -> Result<()> {
        self.table.set_twin(None);
        let _one = self.core.ddl.lock();
        self.core.drop_rebuild(&rebuild.twin.table.def())
    }
}
