//! Prepared transactions in recovery: how each one ended, and which are still undecided (R8).
//!
//! The first reading finds out which private runs are in use. The second brings back a
//! transaction's changes when it comes to the commit record, and keeps transactions without an end
//! (PX1 to PX5 of `commit/prepared.rs`).

use std::sync::Arc;

use frond_base::{EntryKind, Error, IdMap, Lsn, Result, TreeId};
use frond_cache::Part;
use frond_tree::PrivateRuns;
use frond_txn::WriteSet;
use frond_wal::{Claim, Record};

use super::replay::check_sorted;
use super::undecided::{PreparedRuns, Undecided};
use super::Found;
use crate::canary;
use crate::catalog::names::Names;
use crate::catalog::SYSTEM_TABLE;
use crate::commit::core::Core;
use crate::commit::prepared_set::Parts;
use crate::commit::private_runs::Spilled;
use crate::commit::write_sets::RowEntries;
use crate::record::{
    AttachedRuns, CounterRecord, PrepareFront, RecordReader, KIND_COMMIT_PREPARED, KIND_PREPARE,
};
use crate::rows::lock_parents_again;
use crate::table::Table;

/// Where the blocks of runs are in use whatever edits say.
const ALWAYS: Lsn = Lsn::MAX;

impl Core {
    /// First reading: one record of [`PREPARED_KINDS`].
    pub(super) fn note_prepared(
        &self,
        record: &Record<'_>,
        log_from: Lsn,
        prepared: &mut PreparedRuns,
        found: &mut Found,
    ) -> Result<()> {
        let mut reader = RecordReader::new(record.payload, record.lsn);
        if record.kind == KIND_PREPARE {
            let PrepareFront { replaced, .. } = reader.prepare()?;
            if let Some(replaced) = replaced {
                prepared.remove(&replaced);
            }
            prepared.insert(record.lsn, reader.runs()?);
            return Ok(());
        }
        let at = reader.prepared_at()?;
        let Some(runs) = prepared.remove(&at) else {
            return match at < log_from {
                true => Ok(()),
                false => Err(Error::corruption(
                    "log",
                    format_args!(
                        "record at {}: none of a prepared transaction is at {at}",
                        record.lsn
                    ),
                )),
            };
        };
        if record.kind == KIND_COMMIT_PREPARED {
            self.note_runs(record.lsn, &runs, found)?;
        }
        Ok(())
    }

    /// At the end of the first reading: which transactions are still prepared.
    pub(super) fn note_undecided(&self, left: PreparedRuns, found: &mut Found) -> Result<()> {
        if canary::active(canary::FREE_PREPARED_BLOCKS) {
            return Ok(());
        }
        left.values().try_for_each(|runs| self.note_runs(ALWAYS, runs, found))
    }

    fn note_runs(&self, lsn: Lsn, runs: &[AttachedRuns], found: &mut Found) -> Result<()> {
        for attached in runs {
            if let Err(e) = self.note_attached(lsn, attached, found) {
                found.lose(attached.tree.table, e)?;
            }
        }
        Ok(())
    }

    /// Second reading: one record of [`PREPARED_KINDS`].
    pub(super) fn recover_prepared(
        self: &Arc<Self>,
        record: &Record<'_>,
        undecided: &mut Undecided,
        names: &mut Names,
        found: &mut Found,
        log_from: Lsn,
    ) -> Result<()> {
        let mut reader = RecordReader::new(record.payload, record.lsn);
        match record.kind {
            KIND_PREPARE => {
                if let Some(replaced) = reader.prepare()?.replaced {
                    undecided.remove(&replaced);
                }
                undecided.insert(record.lsn, record.payload.to_vec());
                skip_changes(&mut reader)?;
                // Counter values that it took stay used, however it ends.
                for c in reader.counters()? {
                    let used = CounterRecord { rows_delta: 0, ..c };
                    self.recover_counters(record, &used, false, names, found, log_from)?;
                }
            }
            KIND_COMMIT_PREPARED => {
                let at = reader.prepared_at()?;
                if let Some(payload) = undecided.remove(&at) {
                    let mut content = RecordReader::new(&payload, at);
                    content.prepare()?;
                    for attached in content.runs()? {
                        self.attach_again(record, at, attached, names, found, log_from)?;
                    }
                    self.recover_entries(&mut content, record, at, names, found, log_from)?;
                }
                for c in reader.counters()? {
                    self.recover_counters(record, &c, false, names, found, log_from)?;
                }
            }
            _ => drop(undecided.remove(&reader.prepared_at()?)),
        }
        reader.finish()
    }

    /// At the end of the log: what is undecided becomes prepared transactions without a handle.
    pub(super) fn keep_undecided(self: &Arc<Self>, undecided: Undecided) -> Result<()> {
        let mut kept = Vec::new();
        for (at, payload) in undecided {
            let bad = |what: &str| Error::corruption("log", format_args!("record at {at}: {what}"));
            let mut reader = RecordReader::new(&payload, at);
            let front = reader.prepare()?;
            let mut txn = Parts {
                locker: self.locks.locker(self.next_txn_id()),
                writes: WriteSet::new(),
                rows: RowEntries::default(),
                spilled: Spilled::default(),
                tables: IdMap::default(),
                charged: None,
            };
            for attached in reader.runs()? {
                let Some(table) = self.table_of(attached.tree, at)? else { continue };
                let tree = table.tree(attached.tree.index);
                let private = PrivateRuns::recovered(tree, attached.lists);
                txn.spilled.recovered(private.ok_or_else(|| bad("its runs are impossible"))?);
            }
            for locks in &front.locks {
                let keys = locks.keys.iter().map(Vec::as_slice);
                if !txn.locker.restore(locks.tree, locks.whole, keys) {
                    return Err(bad("its locks are those of another prepared transaction"));
                }
            }
            for _ in 0..reader.section_count()? {
                let (id, count) = reader.section()?;
                let entries: Vec<_> = (0..count).map(|_| reader.entry()).collect::<Result<_>>()?;
                if self.table_of(id, at)?.is_none() {
                    continue;
                }
                check_sorted(&entries, at)?;
                let covered = front.locks.iter().any(|l| l.tree == id && l.whole);
                let keys = entries.iter().map(|(key, ..)| *key);
                if id.index == 0 && !covered && !txn.locker.restore(id, false, keys) {
                    return Err(bad("its rows are those of another prepared transaction"));
                }
                for (key, kind, value) in entries {
                    match kind {
                        EntryKind::Put => txn.writes.put(id, key, value),
                        EntryKind::Delete => txn.writes.delete(id, key),
                    };
                }
            }
            for c in reader.counters()? {
                let tree = TreeId { table: c.table, index: 0 };
                if let Some(table) = self.table_of(tree, at)? {
                    if txn.tables.position(c.table).is_some() {
                        return Err(bad("a table's counters come twice"));
                    }
                    txn.tables.push(c.table, table);
                    txn.writes.add_rows(c.table, c.rows_delta);
                }
            }
            reader.finish()?;
            kept.push((at, front.xid, txn));
        }
        // After all exclusive locks. The shared locks are not in the records; they follow from the
        // rows.
        for (at, xid, mut txn) in kept {
            let bad = |what: &str| Error::corruption("log", format_args!("record at {at}: {what}"));
            lock_parents_again(self, &mut txn.locker, txn.tables.values(), &txn.writes, &|tree| {
                txn.spilled.of(tree).is_some()
            })?;
            let budget = &self.shared.budget;
            txn.charged = Some(budget.charge(Part::WriteBuffers, txn.writes.bytes()));
            let room = self.room_for_end(txn.tables.values(), Claim::Freeing).ok();
            self.messages.say(2, &format!("transaction {:?} is prepared", xid));
            let kept = self.keep_prepared(&xid, txn, at, room, false);
            kept.map(drop).map_err(|_| bad("another prepared transaction has its name"))?;
        }
        Ok(())
    }

    /// The table of a tree that a prepared transaction has changes of; `None` when it is lost.
    fn table_of(&self, id: TreeId, at: Lsn) -> Result<Option<Arc<Table>>> {
        let table = self.tables.read().get(&id.table).cloned();
        let is_known = |t: &Arc<Table>| usize::from(id.index) < t.trees().len();
        if id.table == SYSTEM_TABLE || table.as_ref().is_some_and(|t| !is_known(t)) {
            let what = format_args!("record at {at}: tree {id} is impossible");
            return Err(Error::corruption("log", what));
        }
        Ok(table)
    }
}

/// Passes runs and entries by.
fn skip_changes(reader: &mut RecordReader<'_>) -> Result<()> {
    reader.runs()?;
    for _ in 0..reader.section_count()? {
        let (_, count) = reader.section()?;
        for _ in 0..count {
            reader.entry()?;
        }
    }
    Ok(())
}
