//! Creating, dropping, renaming and truncating tables. As the engine's contract asks, nobody uses the
//! table meanwhile.

use std::sync::Arc;

use frond_engine::{ErrorKind, IndexDef, Result, Table, TableSpec};

use super::{fail, note, Check, Sim};
use crate::machine::points::Phase;
use crate::model::TableNo;
use crate::world::KeyStyle;

impl Sim {
    /// The open table, by the model's number.
    pub(super) fn handle(&mut self, table: TableNo) -> Check<Option<Arc<Table>>> {
        if let Some(handle) = self.handles.get(&table) {
            return Ok(Some(handle.clone()));
        }
        let Some(name) = self.model.latest().tables.get(&table).map(|t| t.name.clone()) else {
            return fail(format!("the model has no table {table}"));
        };
        match self.engine().open_table(&name) {
            Ok(handle) => {
                self.handles.insert(table, handle.clone());
                Ok(Some(handle))
            }
            Err(e) if self.excused(&e) => Ok(None),
            Err(e) => fail(format!("open table '{name}': {e:?}")),
        }
    }

    fn free_table(&mut self) -> Option<TableNo> {
        let table = self.some_table()?;
        if self.tables_of_prepared().contains(&table) {
            return None;
        }
        (!self.txns.iter().any(|t| t.used.contains(&table))).then_some(table)
    }

    fn name(&self, table: TableNo) -> String {
        self.model.latest().tables.get(&table).map(|t| t.name.clone()).unwrap_or_default()
    }

    /// What a definition statement gave. The model has done it already; `Some` when it is done.
    fn defined<T>(&mut self, what: &str, got: Result<T>) -> Check<Option<T>> {
        match got {
            Ok(v) => {
                self.all_durable();
                Ok(Some(v))
            }
            Err(e) if !self.excused(&e) => fail(format!("{what}: {e:?}")),
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                self.model.take_back();
                self.tell_bounds();
                self.stats.event("definition refused: disk full");
                self.after_failure(&e)?;
                Ok(None)
            }
            Err(e) => {
                note!(self, "  {what} failed: {e:?}");
                self.stats.failed_calls += 1;
                self.restart_after_failure()?;
                Ok(None)
            }
        }
    }

    fn in_definition<T>(&mut self, f: impl FnOnce(&mut Sim) -> T) -> T {
        self.tell_bounds();
        let before = self.vfs.set_phase(Phase::Definition);
        let out = f(self);
        self.vfs.set_phase(before);
        out
    }

    pub(super) fn create_table(&mut self) -> Check {
        if self.model.latest().tables.len() >= self.world.tables + 2 {
            return Ok(());
        }
        self.names += 1;
        let name = format!("shop/table{}", self.names);
        let index = IndexDef {
            key_shape: match self.world.key_style {
                KeyStyle::Fixed => vec![4, 4],
                KeyStyle::Text => Vec::new(),
            },
            filter: self.world.filter,
            page_bytes: self.world.page_bytes,
            compression: self.world.compression,
            ..IndexDef::plain()
        };
        let spec = TableSpec {
            name: name.clone(),
            indexes: vec![index],
            schema: Vec::new(),
            meta: b"notes".iter().copied().cycle().take(self.world.notes).collect(),
            auto_increment: 1,
        };
        let no = self.model.create(&name);
        note!(self, "  create {name} = {no}");
        let got = self.in_definition(|sim| sim.engine().create_table(spec));
        if let Some(handle) = self.defined("create", got)? {
            self.handles.insert(no, handle);
        }
        Ok(())
    }

    pub(super) fn drop_table(&mut self) -> Check {
        if let Some(table) = self.some_table() {
            let name = self.name(table);
            self.refuse_definition(table, &name)?;
        }
        let Some(table) = self.free_table() else { return Ok(()) };
        let name = self.name(table);
        self.model.drop_table(table);
        self.handles.remove(&table);
        note!(self, "  drop {name} = {table}");
        let got = self.in_definition(|sim| sim.engine().drop_table(&name));
        self.defined("drop", got).map(drop)
    }

    pub(super) fn rename_table(&mut self) -> Check {
        let Some(table) = self.free_table() else { return Ok(()) };
        let from = self.name(table);
        self.names += 1;
        // Before and behind the old name in the catalog's order.
        let to = format!("{}{}", if self.rng.percent(50) { "shop/t" } else { "a/" }, self.names);
        self.model.rename(table, &to);
        note!(self, "  rename {from} to {to}");
        let got = self.in_definition(|sim| sim.engine().rename_table(&from, &to));
        self.defined("rename", got).map(drop)
    }

    pub(super) fn truncate_table(&mut self) -> Check {
        let Some(table) = self.free_table() else { return Ok(()) };
        let name = self.name(table);
        let new = self.model.truncate(table);
        self.handles.remove(&table);
        note!(self, "  truncate {name}: {table} becomes {new}");
        let got = self.in_definition(|sim| sim.engine().truncate_table(&name));
        if let Some(handle) = self.defined("truncate", got)? {
            self.handles.insert(new, handle);
        }
        Ok(())
    }

    pub(super) fn optimize(&mut self) -> Check {
        let Some(table) = self.some_table() else { return Ok(()) };
        let Some(handle) = self.handle(table)? else { return Ok(()) };
        let before = self.vfs.set_phase(Phase::Background);
        let got = self.engine().optimize_table(&handle, &mut || false);
        self.vfs.set_phase(before);
        match got {
            Ok(()) => Ok(()),
            Err(e) if self.excused(&e) => self.after_failure(&e),
            Err(e) => fail(format!("optimize: {e:?}")),
        }
    }
}
