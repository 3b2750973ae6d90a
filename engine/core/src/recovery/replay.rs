//! The second reading of the log: entries, attached runs and counters go to the trees and tables that do
//! not have them yet (R4, R5). Entries and runs are checked here and applied by the appliers, but for those of the
//! system table: later records need them.

use std::sync::Arc;

use frond_base::{EntryKind, EntryRef, Error, Lsn, Result, TreeId};
use frond_run::RunMeta;
use frond_tree::Tree;
use frond_wal::Record;

use super::appliers::{impossible_runs, sabotage, Origin};
use super::{loading, Found};
use crate::catalog::names::Names;
use crate::catalog::{self, CatalogRow, SYSTEM_TABLE};
use crate::checkpoint::images::Found as FoundImage;
use crate::commit::core::Core;
use crate::options::KEY_BYTES_MAX;
use crate::record::{AttachedRuns, CounterRecord, RecordReader, KIND_TRANSACTION_OF_RUNS};
use crate::table::Table;

/// Bytes of entries that the appliers get at once.
const PIECE: usize = 1 << 20;

impl Core {
    pub(super) fn recover_transaction(
        self: &Arc<Self>,
        record: &Record<'_>,
        names: &mut Names,
        found: &mut Found,
        log_from: Lsn,
    ) -> Result<()> {
        let mut reader = RecordReader::new(record.payload, record.lsn);
        if record.kind == KIND_TRANSACTION_OF_RUNS {
            for attached in reader.runs()? {
                self.attach_again(record, record.lsn, attached, names, found, log_from)?;
            }
        }
        self.recover_entries(&mut reader, record, record.lsn, names, found, log_from)?;
        for counters in reader.counters()? {
            self.recover_counters(record, &counters, false, names, found, log_from)?;
        }
        reader.finish()
    }

    /// The tree sections that come next in `reader`, committed by `record`; the record that has them starts at
    /// `named_at`.
    pub(super) fn recover_entries(
        self: &Arc<Self>,
        reader: &mut RecordReader<'_>,
        record: &Record<'_>,
        named_at: Lsn,
        names: &mut Names,
        found: &mut Found,
        log_from: Lsn,
    ) -> Result<()> {
        let origin = Origin { named_at, lsn: record.lsn, end: record.end };
        for _ in 0..reader.section_count()? {
            let (id, count) = reader.section()?;
            let table = self.recovered_table(id.table, record, names, found, log_from)?;
            let Some((table, tree)) = tree_behind(&table, id, record)? else {
                for _ in 0..count {
                    reader.entry()?;
                }
                continue;
            };
            found.entries += count as u64;
            if id.table == SYSTEM_TABLE {
                self.recover_definitions(reader, count, (table, tree), origin, names, found)?;
                continue;
            }
            in_pieces(reader, count, record.lsn, |bytes, count| {
                found.appliers.entries(table, tree, origin, (bytes, count))
            })?;
        }
        Ok(())
    }

    /// A section of `count` rows of the system table.
    fn recover_definitions(
        &self,
        reader: &mut RecordReader<'_>,
        count: usize,
        (table, tree): (&Arc<Table>, &Tree),
        origin: Origin,
        names: &mut Names,
        found: &mut Found,
    ) -> Result<()> {
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(reader.entry()?);
        }
        check_sorted(&entries, origin.lsn)?;
        sabotage(&mut entries);
        let entry = |&(key, kind, value)| EntryRef { key, seq: origin.end, kind, value };
        tree.write(origin.named_at, entries.iter().map(entry));
        self.ledger.note_written(table, tree);
        for &(key, kind, value) in &entries {
            let value = (kind == EntryKind::Put).then_some(value);
            let row = catalog::decode_row(key, value)?;
            self.adopt_definition(&row, found)?;
            names.apply(row);
        }
        Ok(())
    }

    /// A table that is open already may get indexes (R9).
    fn adopt_definition(&self, row: &CatalogRow, found: &mut Found) -> Result<()> {
        let CatalogRow::Table { definition: Some(def), .. } = row else { return Ok(()) };
        let Some(table) = self.tables.read().get(&def.id).cloned() else { return Ok(()) };
        found.appliers.finish()?; // AP2
        if let Err(e) = loading::adopt(self, &table, def) {
            found.lose(def.id, e)?;
            self.tables.write().remove(&def.id);
            table.mark_dropped();
            self.ledger.forget(def.id);
        }
        Ok(())
    }

    /// Attaches runs that `record` committed; the record that names them starts at `named_at`.
    pub(super) fn attach_again(
        self: &Arc<Self>,
        record: &Record<'_>,
        named_at: Lsn,
        attached: AttachedRuns,
        names: &Names,
        found: &mut Found,
        log_from: Lsn,
    ) -> Result<()> {
        let origin = Origin { named_at, lsn: record.lsn, end: record.end };
        let AttachedRuns { tree: id, lists } = attached;
        let table = self.recovered_table(id.table, record, names, found, log_from)?;
        let Some((table, tree)) = tree_behind(&table, id, record)? else { return Ok(()) };
        let committed = |(meta, extent): (RunMeta, _)| (meta.committed_at(record.end), extent);
        let lists = lists.into_iter().map(|l| l.into_iter().map(committed).collect()).collect();
        if id.table == SYSTEM_TABLE {
            return Err(impossible_runs(record.lsn, id));
        }
        found.appliers.runs(table, tree, origin, lists)
    }

    pub(super) fn recover_counters(
        self: &Arc<Self>,
        record: &Record<'_>,
        counters: &CounterRecord,
        set: bool,
        names: &Names,
        found: &mut Found,
        log_from: Lsn,
    ) -> Result<()> {
        let Some(table) = self.recovered_table(counters.table, record, names, found, log_from)?
        else {
            return Ok(());
        };
        if matches!(found.images.get(&counters.table), Some(FoundImage::Image(lsn)) if record.lsn < *lsn)
        {
            return Ok(());
        }
        table.store().touched(record.lsn);
        table.recover_counters(counters, set);
        Ok(())
    }
}

/// The tree of a record's section when it does not have the record in its runs yet.
fn tree_behind<'t>(
    table: &'t Option<Arc<Table>>,
    id: TreeId,
    record: &Record<'_>,
) -> Result<Option<(&'t Arc<Table>, &'t Tree)>> {
    let Some(table) = table else { return Ok(None) };
    match table.trees().get(usize::from(id.index)) {
        Some(tree) if record.lsn >= tree.flushed_upto() => Ok(Some((table, tree))),
        Some(_) => Ok(None),
        None => Err(Error::corruption(
            "log",
            format_args!("record at {}: tree {id} does not exist", record.lsn),
        )),
    }
}

/// Checks the next `count` entries and passes on their bytes in pieces of about [`PIECE`].
fn in_pieces(
    reader: &mut RecordReader<'_>,
    count: usize,
    lsn: Lsn,
    mut pass_on: impl FnMut(&[u8], usize) -> Result<()>,
) -> Result<()> {
    let (mut from, mut passed, mut before) = (reader.position(), 0, &[][..]);
    for n in 0..count {
        let (key, ..) = reader.entry()?;
        // This also refuses an empty first key.
        if key <= before || key.len() > KEY_BYTES_MAX {
            return Err(bad_keys(lsn));
        }
        before = key;
        if reader.position() - from >= PIECE {
            pass_on(reader.since(from), n + 1 - passed)?;
            (from, passed) = (reader.position(), n + 1);
        }
    }
    pass_on(reader.since(from), count - passed)
}

pub(super) fn check_sorted(entries: &[(&[u8], EntryKind, &[u8])], lsn: Lsn) -> Result<()> {
    if entries.iter().any(|(key, ..)| key.is_empty() || key.len() > KEY_BYTES_MAX)
        || entries.windows(2).any(|w| w[0].0 >= w[1].0)
    {
        return Err(bad_keys(lsn));
    }
    Ok(())
}

fn bad_keys(lsn: Lsn) -> Error {
    let what = format_args!("record at {lsn}: keys are impossible or out of order").to_string();
    Error::corruption("log", what)
}
