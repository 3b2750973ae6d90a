//! After a restart: the shared locks of prepared transactions on the parents of their rows (FK1). The prepare
//! record has only exclusive locks; these follow from the rows.

use std::sync::Arc;

use frond_base::{EntryKind, ErrorKind, Result, TreeId};
use frond_row::Schema;
use frond_txn::{Locker, WriteSet};

use super::plan::to_parent;
use crate::catalog::foreign::ForeignState;
use crate::commit::core::Core;
use crate::table::{tree_id, Table};

/// Locks the parents of all rows that `writes` puts into `tables`. Where the parents' keys are not known
/// (rows in private runs, which `has_runs` tells; parents that share a key; parents that cannot be read), it locks the
/// parent's tree. The lock on a row that another prepared transaction holds exclusively is left out: the row was written
/// without a check.
pub(crate) fn lock_parents_again(
    core: &Arc<Core>,
    locker: &mut Locker,
    tables: &[Arc<Table>],
    writes: &WriteSet,
    has_runs: &dyn Fn(TreeId) -> bool,
) -> Result<()> {
    for table in tables.iter().filter(|t| !t.def().schema.is_empty()) {
        let foreigns = core.names.read().foreigns.of(&table.def().name);
        if foreigns.is_empty() {
            continue;
        }
        let schema = Arc::new(Schema::decode(&table.def().schema, &table.def().name)?);
        for foreign in foreigns.into_iter().filter(|f| f.state != ForeignState::Waiting) {
            let Some(parent) = core.names.read().get(&foreign.parent).cloned() else { continue };
            match core.open_table_by_def(&parent) {
                // A start need not read the parent. It may be discarded, or repaired: each change of it locks its row.
                Err(e) if e.kind() == ErrorKind::Corruption => {
                    locker.restore_shared_tree(tree_id(parent.id, 0));
                    continue;
                }
                opened => drop(opened?),
            }
            let to = to_parent(core, table, &schema, foreign)?;
            let Some(parent) = &to.parent else { continue };
            let tree = table.tree(schema.indexes[to.index].tree).id();
            let keys = parent.table.tree(parent.codec.schema().indexes[parent.index].tree).id();
            // Rows that share a key are locked by their primary keys.
            let whole = if parent.unique { keys } else { parent.table.tree(0).id() };
            if has_runs(tree) {
                locker.restore_shared_tree(whole);
            }
            let mut wanted = Vec::new();
            for entry in writes.buffer(tree).into_iter().flat_map(|b| b.iter()) {
                if entry.kind != EntryKind::Put || !parent.bridge.cross(entry.key, &mut wanted)? {
                    continue;
                }
                match parent.unique {
                    true => drop(locker.restore_shared(keys, &wanted)),
                    false => locker.restore_shared_tree(whole),
                };
            }
        }
    }
    Ok(())
}
