//! The schema versions of a table's rows: which may still be stored, and how rows of older ones become new.
//!
//! Jobs rewrite the rows that pass them (`frond_tree::Renew`), so the rows of a version die out. The catalog describes
//! a version as long as a run, or a write buffer, can have rows of it (TDF3).
//!
//! - RVN1. A version is forgotten by an ALTER, in the record that changes the definition, when all trees with rows have
//!   only runs from `blocks_below` on, and nothing buffered from before `logged_below`. The edits
//!   by which both were reached are in the log before that record, so a recovery that replays the
//!   record has them, too.
//! - RVN2. In memory the descriptions of forgotten versions stay until the table is closed: readers may hold runs, and
//!   caches rows, that no tree has any more.
//!
//! Tested by `tests/it/alter_columns.rs`.

use std::sync::Arc;

use frond_base::{BlockId, Lsn, Result};
use frond_row::{History, Renewer, Schema};
use frond_tree::{Renew, Tree};

use crate::catalog::{OldSchema, TableDef};
use crate::table::trees::Trees;

struct RowRenewer(Renewer);

impl Renew for RowRenewer {
    #[inline]
    fn renew(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        self.0.renew(value, out)
    }
}

/// The older schemas that stored rows of a table may name, oldest first.
pub fn history(def: &TableDef) -> Result<Vec<Arc<Schema>>> {
    def.history.iter().map(|old| Ok(Arc::new(Schema::decode(&old.schema, &def.name)?))).collect()
}

/// The older schemas that this process knows of a table, as of a number of its definition (RVN2).
#[derive(Default)]
pub(crate) struct Known {
    stamp: Option<u64>,
    history: History,
}

impl Known {
    /// The history of `current`, the schema of `def`, whose number is `stamp`.
    pub fn history(&mut self, def: &TableDef, stamp: u64) -> Result<History> {
        if self.stamp == Some(stamp) {
            return Ok(self.history.clone());
        }
        let known = self.history.last().map_or(0, |old| u64::from(old.version) + 1);
        let mut newer = Vec::new();
        for old in def.history.iter().rev() {
            let old = Schema::decode(&old.schema, &def.name)?;
            if u64::from(old.version) < known {
                break;
            }
            newer.push(Arc::new(old));
        }
        newer.reverse();
        let current = Schema::decode(&def.schema, &def.name)?;
        self.history = self.history.followed_by(&def.name, &current, newer)?;
        self.stamp = Some(stamp);
        Ok(self.history.clone())
    }
}

/// The trees whose values are rows: of the primary index and of clustering ones.
fn row_trees<'t>(trees: &'t Trees, schema: &Schema) -> Vec<(usize, &'t Tree)> {
    let tree = |n: usize| trees.get(usize::from(schema.indexes[n].tree)).map(|tree| (n, tree));
    (0..schema.indexes.len()).filter(|n| schema.has_rows(*n)).filter_map(tree).collect()
}

/// Makes `trees` rewrite rows to the schema of `def`, the definition in force, whose older schemas are `history`.
/// `before`: the version of rows until now, or `None` when the table is opened. The reader of a row reports a definition
/// that cannot be decoded.
pub(crate) fn renew_rows(trees: &Trees, def: &TableDef, history: &History, before: Option<u32>) {
    let Ok(schema) = Schema::decode(&def.schema, &def.name).map(Arc::new) else { return };
    let below = match before {
        // The schema changed: rows that are written from now on have the new version.
        Some(version) if version != schema.version => None,
        // An index that was built under this version.
        Some(_) => Some(0),
        None => def.history.iter().map(|old| old.blocks_below).max().filter(|b| *b != BlockId::MAX),
    };
    for (index, tree) in row_trees(trees, &schema) {
        if below == Some(0) && tree.renews_values() {
            continue;
        }
        let renewer = Renewer::new(schema.clone(), history.clone(), index);
        tree.renew_values(Arc::new(RowRenewer(renewer)), below);
    }
}

/// Those of the older schemas of a table with `schema` that rows may still have (RVN1). No commit is under way; the
/// log ends at `end`.
pub(crate) fn living(
    trees: &Trees,
    schema: &Schema,
    old: &[OldSchema],
    end: Lsn,
) -> Vec<OldSchema> {
    let trees = row_trees(trees, schema);
    let limits: Option<Vec<BlockId>> = trees.iter().map(|(_, t)| t.old_values_below()).collect();
    let limit = limits.and_then(|limits| limits.into_iter().max()).unwrap_or(BlockId::MAX);
    let known = |old: &OldSchema| OldSchema {
        schema: old.schema.clone(),
        blocks_below: old.blocks_below.min(limit),
        logged_below: old.logged_below.min(end),
    };
    let lives = |old: &OldSchema| {
        old.blocks_below == BlockId::MAX
            || trees.iter().any(|(_, tree)| {
                tree.oldest_block().is_some_and(|block| block < old.blocks_below)
                    || !tree.is_flushed_to(old.logged_below)
            })
    };
    old.iter().map(known).filter(lives).collect()
}
