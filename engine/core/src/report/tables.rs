//! Tables and trees, one after the other: a batch of tables is taken at a time, so that no latch is held while
//! someone is told of them. Figures come from memory; no file is read. None of the lists is a consistent snapshot.

use std::ops::Bound;
use std::sync::Arc;

use frond_base::TableId;
use frond_row::Schema;
use frond_tree::TreeStats;

use crate::engine::Engine;
use crate::table::{Table, TableStatistics};

/// Tables that are taken at a time.
const BATCH: usize = 64;

/// One table.
#[derive(Clone, Debug)]
pub struct TableInfo {
    pub id: u32,
    /// Empty for the catalog.
    pub name: String,
    /// Its file, in the directory of the database; it need not exist yet.
    pub file: String,
    pub statistics: TableStatistics,
    pub indexes: u32,
    /// The next AUTO_INCREMENT value.
    pub auto_increment: u64,
}

/// One tree: an index of a table.
#[derive(Clone, Debug)]
pub struct TreeInfo {
    /// Empty for the catalog.
    pub table: String,
    /// Empty for a table of keys and values, and for an index that is being built or was dropped.
    pub index: String,
    /// Number of the tree in its table.
    pub number: u32,
    pub stats: TreeStats,
}

impl Engine {
    /// Calls `emit` for each table, in the order of their numbers, until it returns false.
    pub fn each_table(&self, emit: &mut dyn FnMut(&TableInfo) -> bool) {
        self.each(&mut |table| {
            emit(&TableInfo {
                id: table.id().0,
                name: table.def().name.clone(),
                file: table.store().file_name().to_owned(),
                statistics: table.statistics(),
                indexes: table.trees().len() as u32,
                auto_increment: table.auto_increment(),
            })
        });
    }

    /// Calls `emit` for each tree of each table, until it returns false.
    pub fn each_tree(&self, emit: &mut dyn FnMut(&TreeInfo) -> bool) {
        self.each(&mut |table| {
            let def = table.def();
            // A schema that cannot be read leaves the names out; opening the table says why.
            let schema = Schema::decode(&def.schema, &def.name).ok();
            let name = |number: u16| {
                let indexes = schema.as_ref().map(|s| s.indexes.as_slice()).unwrap_or_default();
                indexes.iter().find(|i| i.tree == number).map(|i| i.name.clone())
            };
            table.trees().iter().all(|tree| {
                let number = tree.id().index;
                emit(&TreeInfo {
                    table: def.name.clone(),
                    index: name(number).unwrap_or_default(),
                    number: u32::from(number),
                    stats: tree.stats(),
                })
            })
        });
    }

    fn each(&self, tell: &mut dyn FnMut(&Table) -> bool) {
        let mut from: Bound<TableId> = Bound::Unbounded;
        loop {
            let batch: Vec<Arc<Table>> = {
                let tables = self.core().tables.read();
                tables.range((from, Bound::Unbounded)).take(BATCH).map(|(_, t)| t.clone()).collect()
            };
            let Some(last) = batch.last() else { return };
            from = Bound::Excluded(last.id());
            if !batch.iter().all(|table| tell(table)) {
                return;
            }
        }
    }
}
