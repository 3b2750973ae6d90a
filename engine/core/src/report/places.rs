//! What a lock is on, as text.

use std::collections::HashMap;
use std::sync::Arc;

use frond_base::TreeId;
use frond_row::{RowText, Schema};
use frond_txn::KeyRange;

use crate::commit::core::Core;

/// Trees whose names are kept; beyond, all are forgotten.
const MOST_TREES: usize = 256;

/// What a lock is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// One row, or a value of a unique index.
    Row,
    /// A whole index.
    Index,
    /// A range of keys of an index.
    Range,
}

/// A lock's table, index and key. Empty where it has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockPlace {
    pub kind: LockKind,
    /// As the catalog has it ("shop/sale"); empty for a table that is not there any more.
    pub table: String,
    /// Empty for a table of plain keys.
    pub index: String,
    /// Empty for a whole index. Columns and values ("id=7"), or hexadecimal where there is no
    /// schema. For a range: its two ends ("id=7 to id=9"); the second is not part of the range.
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

    pub fn place(
        &mut self,
        tree: TreeId,
        key: Option<&[u8]>,
        range: Option<&KeyRange>,
    ) -> LockPlace {
        if self.known.len() >= MOST_TREES {
            self.known.clear();
        }
        let core = self.core;
        let known = self.known.entry(tree).or_insert_with(|| Known::of(core, tree));
        let mut text = |key: &[u8]| match &mut known.text {
            Some((at, text)) => text.key_to_text(*at, key),
            None => hexadecimal(key),
        };
        let (kind, key) = match (key, range) {
            (Some(key), _) => (LockKind::Row, text(key)),
            (None, None) => (LockKind::Index, String::new()),
            (None, Some(KeyRange { from, to })) => {
                // The least key above another one.
                let mut end = |key: &[u8]| match key.split_last() {
                    Some((0, key)) if !key.is_empty() => format!("after {}", text(key)),
                    _ => text(key),
                };
                let from = if from.is_empty() { "the first".to_owned() } else { end(from) };
                let to = to.as_ref().map_or("the last".to_owned(), |to| end(to));
                (LockKind::Range, format!("{from} to {to}"))
            }
        };
        LockPlace { kind, table: known.table.clone(), index: known.index.clone(), key }
    }

    /// "shop.sale index PRIMARY key (id=7)"
    pub fn phrase(&mut self, tree: TreeId, key: Option<&[u8]>, range: Option<&KeyRange>) -> String {
        let place = self.place(tree, key, range);
        match (place.table.as_str(), place.index.as_str()) {
            ("", _) => format!("tree {tree}"),
            (table, "") => format!("{} tree {tree}", table.replace('/', ".")),
            (table, index) => {
                let index = format!("{} index {index}", table.replace('/', "."));
                match place.kind {
                    LockKind::Index => index + " as a whole",
                    LockKind::Row => format!("{index} key ({})", place.key),
                    LockKind::Range => format!("{index} range ({})", place.key),
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
