//! Indexes, files and what is in the page cache, one after the other. As the lists of `tables.rs` they come from memory
//! and are of no one moment.
//!
//! Tables are opened when they are first used, so indexes and files are listed by the catalog, and have figures when
//! the table is open: nothing is read to make a list.
//!
//! The cache does not know indexes, only blocks. Listing the cache costs a step per cached page and
//! per run of the tables that have cached pages. Walking the trunks blocks nobody. Rejected: an
//! index's number in each cached page, memory for a question that is rarely asked.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use frond_base::{BlockId, TableId};
use frond_cache::Held;
use frond_row::{Index, Schema};
use frond_space::FileStats;
use frond_tree::TreeStats;

use crate::catalog::{IndexDef, IndexState, TableDef, SYSTEM_TABLE};
use crate::commit::core::Core;
use crate::engine::Engine;
use crate::table::store::file_name;
use crate::table::Table;

/// An index that is in use or being built.
#[derive(Clone, Debug)]
pub struct IndexInfo {
    pub table: String,
    pub table_id: u32,
    /// Empty for a table of keys and values.
    pub index: String,
    /// Number of the tree in its table.
    pub tree: u32,
    /// As people write them: "name(10),ts DESC". Empty for a table of keys and values.
    pub columns: String,
    pub unique: bool,
    pub def: IndexDef,
    /// `None`: the table has not been used since the start.
    pub stats: Option<TreeStats>,
}

/// A table's file.
#[derive(Clone, Debug)]
pub struct FileInfo {
    pub table_id: u32,
    /// Empty for the catalog.
    pub table: String,
    /// In the directory of the database.
    pub file: String,
    /// `None`: the table has not been used since the start; then the file need not exist.
    pub stats: Option<FileStats>,
    /// Bytes that only a backup under way needs.
    pub held_bytes: u64,
}

/// What is in the page cache of one index.
#[derive(Clone, Debug)]
pub struct CachedInfo {
    /// Empty for the catalog, and for what belongs to no table any more.
    pub table: String,
    pub index: String,
    /// `None`: pages of a run that only older readers still need, or of a dropped table.
    pub tree: Option<u32>,
    pub held: Held,
}

impl Engine {
    /// Calls `emit` for each index of each table, by the tables' names, until it returns false.
    pub fn each_index(&self, emit: &mut dyn FnMut(&IndexInfo) -> bool) {
        let core = self.core();
        for def in core.definitions() {
            let open = core.table_if_open(def.id);
            // A schema that cannot be read leaves the names out; opening the table says why.
            let schema = if def.building.is_empty() { &def.schema } else { &def.building };
            let schema = Schema::decode(schema, &def.name).ok();
            for (at, index) in def.indexes.iter().enumerate() {
                if index.state == IndexState::Dropped {
                    continue;
                }
                let described = schema.as_ref().and_then(|s| {
                    let described = s.indexes.iter().find(|i| usize::from(i.tree) == at)?;
                    Some((described.name.clone(), columns(s, described), described.unique))
                });
                let (name, columns, unique) =
                    described.unwrap_or((String::new(), String::new(), at == 0));
                let stats = open.as_ref().and_then(|t| t.trees().get(at)).map(|tree| tree.stats());
                let goes_on = emit(&IndexInfo {
                    table: def.name.clone(),
                    table_id: def.id.0,
                    index: name,
                    tree: at as u32,
                    columns,
                    unique,
                    def: index.clone(),
                    stats,
                });
                if !goes_on {
                    return;
                }
            }
        }
    }

    /// Calls `emit` for the file of each table, the catalog's first, until it returns false. Not for a table that
    /// has no file yet.
    pub fn each_file(&self, emit: &mut dyn FnMut(&FileInfo) -> bool) {
        let core = self.core();
        let tables = core.definitions().into_iter().map(|def| (def.id, def.name.clone()));
        for (id, name) in [(SYSTEM_TABLE, String::new())].into_iter().chain(tables) {
            let open = core.table_if_open(id);
            let file = open.as_ref().and_then(|t| t.store().existing_file());
            if open.is_some() && file.is_none() {
                continue;
            }
            let goes_on = emit(&FileInfo {
                table_id: id.0,
                table: name,
                file: file_name(id),
                stats: file.map(|f| f.stats()),
                held_bytes: file.map_or(0, |f| f.held_bytes()),
            });
            if !goes_on {
                return;
            }
        }
    }

    /// Calls `emit` for each index that has pages in the cache, until it returns false.
    pub fn each_cached(&self, emit: &mut dyn FnMut(&CachedInfo) -> bool) {
        let core = self.core();
        let mut tables: BTreeMap<TableId, HashMap<BlockId, Held>> = BTreeMap::new();
        for ((table, block), held) in core.shared.cache.blocks() {
            tables.entry(table).or_default().insert(block, held);
        }
        let mut nobodys = Held::default();
        for (id, mut blocks) in tables {
            if let Some(table) = core.table_if_open(id) {
                if !each_cached_of(&table, &mut blocks, emit) {
                    return;
                }
            }
            blocks.values().for_each(|held| add(&mut nobodys, held));
        }
        if nobodys.pages > 0 {
            let (table, index) = Default::default();
            emit(&CachedInfo { table, index, tree: None, held: nobodys });
        }
    }
}

/// Takes what belongs to the table's trees out of `blocks`.
fn each_cached_of(
    table: &Table,
    blocks: &mut HashMap<BlockId, Held>,
    emit: &mut dyn FnMut(&CachedInfo) -> bool,
) -> bool {
    let def = table.def();
    table.trees().iter().all(|tree| {
        let mut sum = Held::default();
        tree.each_block(&mut |block| {
            if let Some(held) = blocks.remove(&block) {
                add(&mut sum, &held);
            }
        });
        let number = tree.id().index;
        sum.pages == 0
            || emit(&CachedInfo {
                table: def.name.clone(),
                index: index_name(&def, number).unwrap_or_default(),
                tree: Some(u32::from(number)),
                held: sum,
            })
    })
}

fn add(sum: &mut Held, held: &Held) {
    sum.pages += held.pages;
    sum.bytes += held.bytes;
}

/// The name of the index in that tree, if it is in use or being built.
pub(crate) fn index_name(def: &TableDef, number: u16) -> Option<String> {
    let schemas = [&def.schema, &def.building].into_iter().filter(|s| !s.is_empty());
    let mut schemas = schemas.filter_map(|s| Schema::decode(s, &def.name).ok());
    schemas.find_map(|s| s.indexes.into_iter().find(|i| i.tree == number).map(|i| i.name))
}

fn columns(schema: &Schema, index: &Index) -> String {
    let mut text = String::new();
    for part in &index.parts {
        let name = schema.columns.get(usize::from(part.column)).map_or("?", |c| c.name.as_str());
        text.push_str(if text.is_empty() { "" } else { "," });
        text.push_str(name);
        if let Some(prefix) = part.prefix {
            text.push_str(&format!("({})", prefix.chars));
        }
        text.push_str(if part.descending { " DESC" } else { "" });
    }
    text
}

impl Core {
    /// Definitions of all tables, by name.
    pub(super) fn definitions(&self) -> Vec<Arc<TableDef>> {
        self.names.read().iter().cloned().collect()
    }

    pub(super) fn table_if_open(&self, id: TableId) -> Option<Arc<Table>> {
        self.tables.read().get(&id).cloned()
    }
}
