//! The parents of rows that are there when their table is given a foreign key (AF3, AF4).

use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind, Result, Seq, SEQ_MAX};
use frond_row::Schema;
use frond_tree::Bounds;
use frond_txn::RowMode;

use super::parents::{find, no_parent};
use super::plan::{keys_of, Plan};
use crate::commit::core::Core;
use crate::commit::transaction::{Isolation, OnLocked, Transaction, TxnOptions};
use crate::table::Table;

/// A lock is waited for this often, for [`WAIT`] each time; in between the statement can be ended.
const WAITS: u32 = 50;
const WAIT: Duration = Duration::from_secs(1);
/// Rows between two polls.
const POLL_EVERY: u64 = 128;

/// Checks that each row of `table` at `at` has a parent by the constraint `name`, or is not there any more.
/// The constraint guards its parents by now, and the indexes of `schema` are complete. `poll` is told the number of
/// rows since its last call.
///
/// # Errors
/// [`ErrorKind::NoParent`]; those of waiting for locks.
pub(crate) fn check_parents_of_rows(
    (core, table, schema): (&Arc<Core>, &Arc<Table>, &Arc<Schema>),
    name: &str,
    at: Seq,
    poll: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let (_, plan) = Plan::compile(core, table, schema, schema.indexes.len())?;
    let found = plan.iter().flat_map(|plan| &plan.parents).find(|to| to.foreign.name == name);
    let Some((to, parent)) = found.and_then(|to| Some((to, to.parent.as_ref()?))) else {
        let what = format!("foreign key '{name}': its parent has changed meanwhile");
        return Err(Error::new(ErrorKind::BadForeignKey, what));
    };
    let codec = keys_of(table, schema.clone())?;
    let tree = schema.indexes[to.index].tree;
    let mut cursor = table.tree(tree).cursor(at, Bounds::all());
    // Rows come in the order of their parents, so each of these is looked for once.
    let (mut wanted, mut last, mut met) = (Vec::new(), None, 0u64);
    let mut valid = cursor.first()?;
    while valid {
        let is_new =
            parent.bridge.cross(cursor.key(), &mut wanted)? && last.as_ref() != Some(&wanted);
        if is_new && patiently(core, poll, |txn| find(txn, parent, &wanted))? {
            last = Some(wanted.clone());
        } else if is_new {
            let row = codec.primary_key(to.index, cursor.key())?.to_vec();
            let is_there = patiently(core, poll, |txn| {
                txn.lock(table, 0, &row, RowMode::S, OnLocked::Wait)?;
                txn.read(table, tree, cursor.key(), SEQ_MAX, &mut Vec::new())
            })?;
            if is_there {
                return Err(no_parent(&to.foreign));
            }
        }
        met += 1;
        if met.is_multiple_of(POLL_EVERY) {
            poll(POLL_EVERY)?;
        }
        valid = cursor.next()?;
    }
    Ok(())
}

/// Calls `look` in a transaction of its own: no lock is held from one row to the next. A look at parents that are not
/// unique may hold several, so it is repeated after a deadlock, too.
fn patiently(
    core: &Arc<Core>,
    poll: &mut dyn FnMut(u64) -> Result<()>,
    look: impl Fn(&mut Transaction) -> Result<bool>,
) -> Result<bool> {
    let mut waits = 0;
    loop {
        let isolation = Isolation::ReadCommitted;
        let options = TxnOptions { isolation, lock_timeout: WAIT, ..TxnOptions::default() };
        let mut txn = Transaction::new(core.clone(), core.next_txn_id(), options);
        let passes = |e: &Error| matches!(e.kind(), ErrorKind::LockTimeout | ErrorKind::Deadlock);
        match look(&mut txn) {
            Err(e) if passes(&e) && waits < WAITS => waits += 1,
            outcome => return outcome,
        }
        drop(txn);
        poll(0)?;
    }
}
