//! What a lock is on, as text.

use std::collections::HashMap;
use std::sync::Arc;

use frond_base::TreeId;
use frond_row::{RowText, Schema};

use crate::commit::core::Core;

/// Trees whose names are kept; beyond, all are forgotten.
const MOST_TREES: usize = 256;

/// A lock's table, index and key. Empty where it has none.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LockPlace {
    /// As the catalog has it ("shop/sale"); empty for a table that is not there any more.
    pub table: String,
    /// Empty for a table of plain keys.
    pub index: String,
    /// Empty for a whole index. Columns and values ("id=7"), or hexadecimal where there is no schema.
    pub key: String,
}

/// Finds out what locks are on; schemas are decoded once for each tree.
pub(crate) struct Places<'a> {
    core: &'a Core,
    known: HashMap<TreeId, Known>,
}

struct Known {
    table: String,
    index: String,
    /// Position of the index in the schema.
    text: Option<(usize, RowText)>,
}

impl<'a> Places<'a> {
    pub fn new(core: &'a Core) -> Places<'a> {
        Places { core, known: HashMap::new() }
    }

    pub fn place(&mut self, tree: TreeId, key: Option<&[u8]>) -> LockPlace {
        if self.known.len() >= MOST_TREES {
            self.known.clear();
        }
        let core = self.core;
        let known = self.known.entry(tree).or_insert_with(|| Known::of(core, tree));
        let key = match (key, &mut known.text) {
            (None, _) => String::new(),
            (Some(key), Some((at, text))) => text.key_to_text(*at, key),
            (Some(key), None) => hexadecimal(key),
        };
        LockPlace { table: known.table.clone(), index: known.index.clone(), key }
    }

    /// "shop.sale index PRIMARY key (id=7)"
    pub fn phrase(&mut self, tree: TreeId, key: Option<&[u8]>) -> String {
        let place = self.place(tree, key);
        match (place.table.as_str(), place.index.as_str()) {
            ("", _) => format!("tree {tree}"),
            (table, "") => format!("{} tree {tree}", table.replace('/', ".")),
            (table, index) => {
                let index = format!("{} index {index}", table.replace('/', "."));
                match key {
                    None => index + " as a whole",
                    Some(_) => format!("{index} key ({})", place.key),
                }
            }
        }
    }
}

impl Known {
    fn of(core: &Core, tree: TreeId) -> Known {
        let mut known = Known { table: String::new(), index: String::new(), text: None };
        let Some(table) = core.tables.read().get(&tree.table).cloned() else { return known };
        let def = table.def();
        known.table.clone_from(&def.name);
        let Ok(schema) = Schema::decode(&def.schema, &def.name) else { return known };
        let Some(at) = schema.indexes.iter().position(|i| i.tree == tree.index) else {
            return known;
        };
        known.index.clone_from(&schema.indexes[at].name);
        let text = RowText::new(&def.name, Arc::new(schema), Vec::new());
        known.text = text.ok().map(|text| (at, text));
        known
    }
}

fn hexadecimal(key: &[u8]) -> String {
    let digits: String = key.iter().map(|b| format!("{b:02x}")).collect();
    format!("0x{digits}")
}
