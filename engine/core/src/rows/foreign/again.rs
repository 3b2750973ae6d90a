//! After a restart: the shared locks of prepared transactions on the parents of their rows (FK1). The prepare
//! record has only exclusive locks; these follow from the rows.

use std::sync::Arc;

use frond_base::{EntryKind, Result, TreeId};
use frond_row::Schema;
use frond_txn::{Locker, WriteSet};

use super::plan::Plan;
use crate::commit::core::Core;
use crate::table::Table;

/// Locks the parents of all rows that `writes` puts into `tables`. Where the parents' keys are not known
/// (rows in private runs, which `has_runs` tells; parents that share a key), it locks the parent's tree. A
/// lock that another prepared transaction holds exclusively is left out: the row was written without a check.
pub(crate) fn lock_parents_again(
    core: &Arc<Core>,
    locker: &mut Locker,
    tables: &[Arc<Table>],
    writes: &WriteSet,
    has_runs: &dyn Fn(TreeId) -> bool,
) -> Result<()> {
    for table in tables.iter().filter(|t| !t.def().schema.is_empty()) {
        if core.names.read().foreigns.of(&table.def().name).is_empty() {
            continue;
        }
        let schema = Arc::new(Schema::decode(&table.def().schema, &table.def().name)?);
        let (_, Some(plan)) = Plan::compile(core, table, &schema, schema.indexes.len())? else {
            continue;
        };
        for to in &plan.parents {
            let Some(parent) = &to.parent else { continue };
            let tree = table.tree(schema.indexes[to.index].tree).id();
            let keys = parent.table.tree(parent.codec.schema().indexes[parent.index].tree).id();
            if has_runs(tree) {
                locker.restore_shared(keys, None);
            }
            let mut wanted = Vec::new();
            for entry in writes.buffer(tree).into_iter().flat_map(|b| b.iter()) {
                if entry.kind != EntryKind::Put || !parent.bridge.cross(entry.key, &mut wanted)? {
                    continue;
                }
                match parent.unique {
                    true => locker.restore_shared(keys, Some(&wanted)),
                    false => locker.restore_shared(parent.table.tree(0).id(), None),
                };
            }
        }
    }
    Ok(())
}
