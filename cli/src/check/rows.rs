//! Rows against indexes: every index must have exactly the rows' entries.
//!
//! One pass over the primary index derives the entries of all others and adds up their hashes; one
//! pass over each index adds up its entries' hashes. Equal sums and counts mean equal sets (but for
//! a chance of 2^-64), without sorting or look-ups. Only where they differ, a second, slow pass
//! names entries. Rejected: a lookup per entry, which on a cold cache costs a page read each.
//!
//! Indexes on collated text cannot be derived without the server's collations: their entries are
//! counted, and the primary keys in them are compared with those of the rows.

use std::collections::HashMap;
use std::sync::Arc;

use frond_base::{checksum64, checksum64_seeded, Result, SEQ_MAX};
use frond_engine::{history, IndexState, Table};
use frond_row::{
    ColumnType, Deriver, Entries, History, Index, OwnedBlobs, Part, Projection, RecordLayout,
    RowCodec, Schema, Sort, SortKeys,
};
use frond_tree::{Bounds, Tree};

use crate::check::{Progress, Report};
use crate::out::{grouped, hex};

/// Entries named per index when something differs.
const EXAMPLES: usize = 5;
/// Bytes of a key shown.
const KEY_SHOWN: usize = 48;
/// Entries between two progress messages.
const PROGRESS_EVERY: u64 = 1 << 18;

/// A set of entries, by count and sum of hashes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    entries: u64,
    hashes: u64,
}

impl Sum {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        self.hashes = self.hashes.wrapping_add(checksum64_seeded(value, checksum64(key)));
    }
}

/// Adds findings about `table` to `report`.
pub fn check(table: &Table, report: &mut Report, progress: Progress<'_>) {
    let name = table.def().name.clone();
    // A table that waits for an import is empty, and its first tree is unused.
    let result = if table.def().schema.is_empty() || table.is_discarded() {
        plain(table, &name, report, progress)
    } else {
        typed(table, &name, report, progress)
    };
    if let Err(e) = result {
        // The error names file or table itself; usually the check of the pages has found it already.
        report.problem(e.message());
    }
}

/// Walks the newest committed entries of a tree.
fn walk(tree: &Tree, mut each: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()> {
    let mut cursor = tree.cursor(SEQ_MAX, Bounds::all());
    let mut valid = cursor.first()?;
    while valid && each(cursor.key(), cursor.value())? {
        valid = cursor.next()?;
    }
    Ok(())
}

/// A table of keys and values: only their number can be compared.
fn plain(table: &Table, name: &str, report: &mut Report, progress: Progress<'_>) -> Result<()> {
    let mut rows = 0u64;
    walk(table.tree(0), |_, _| {
        rows += 1;
        said(progress, name, rows);
        Ok(true)
    })?;
    report.rows += rows;
    row_count(table, name, rows, report);
    Ok(())
}

fn said(progress: Progress<'_>, what: &str, n: u64) {
    if n.is_multiple_of(PROGRESS_EVERY) {
        progress(&format!("rows of {what}: {}", grouped(n)));
    }
}

fn row_count(table: &Table, name: &str, rows: u64, report: &mut Report) {
    report.rows_of.insert(name.to_string(), rows);
    if table.rows() != rows {
        report.problem(format!(
            "table '{name}': the counter says {} rows, there are {rows}",
            table.rows()
        ));
    }
}

/// Data for deriving one table's indexes.
struct Subject<'a> {
    table: &'a Table,
    name: &'a str,
    schema: Arc<Schema>,
    codec: Arc<RowCodec>,
    /// Indexes whose entries can be derived from rows; others are counted and their primary keys compared.
    derivable: u128,
}

fn typed(table: &Table, name: &str, report: &mut Report, progress: Progress<'_>) -> Result<()> {
    let def = table.def();
    let schema = Arc::new(Schema::decode(&def.schema, name)?);
    let trees = def.indexes.iter().filter(|i| i.state == IndexState::Live).count();
    let in_use = |i: &Index| {
        let index = def.indexes.get(usize::from(i.tree));
        index.is_some_and(|index| index.state == IndexState::Live)
    };
    if schema.indexes.len() != trees || !schema.indexes.iter().all(in_use) {
        report.problem(format!(
            "table '{name}': the schema has {} indexes, the table {trees} trees",
            schema.indexes.len()
        ));
        return Ok(());
    }
    let layout = RecordLayout::compact(&schema);
    let keys = Arc::new(OfflineKeys::new(&schema));
    let older = History::new(name, &schema, history(&def)?)?;
    let codec = Arc::new(RowCodec::bind(name, schema.clone(), layout, older, keys)?);
    let mut derivable = 0;
    for index in 1..schema.indexes.len() {
        if can_derive(&schema, index) && Deriver::new(codec.clone(), 1 << index).is_ok() {
            derivable |= 1 << index;
        } else {
            report.indexes_counted_only += 1;
        }
    }
    let subject = Subject { table, name, schema, codec, derivable };
    let (rows, wanted) = subject.primary(report, progress)?;
    for index in 1..subject.schema.indexes.len() {
        if let Err(e) = subject.secondary(index, rows, &wanted, report, progress) {
            report.problem(e.message());
        }
    }
    Ok(())
}

impl Subject<'_> {
    fn tree(&self, index: usize) -> &Tree {
        self.table.tree(self.schema.indexes[index].tree)
    }

    fn place(&self, index: usize) -> String {
        format!("table '{}', index '{}'", self.name, self.schema.indexes[index].name)
    }

    fn sums(&self, index: usize) -> bool {
        self.derivable >> index & 1 == 1
    }

    /// Decodes every row. Returns the set of primary keys, and per index the expected entries.
    fn primary(&self, report: &mut Report, progress: Progress<'_>) -> Result<(Sum, Vec<Sum>)> {
        let mut wanted = vec![Sum::default(); self.schema.indexes.len()];
        let mut keys = Sum::default();
        let mut deriver = match self.derivable {
            0 => None,
            mask => Some(Deriver::new(self.codec.clone(), mask)?),
        };
        let mut whole = WholeRow::new(&self.codec);
        let mut entries = Entries::new();
        let mut unreadable = 0;
        walk(self.tree(0), |key, value| {
            keys.add(key, &[]);
            said(progress, self.name, keys.entries);
            let derived = whole.decode(&self.codec, key, value).and_then(|()| match &mut deriver {
                Some(deriver) => deriver.derive(key, value, &mut entries),
                None => Ok(()),
            });
            if let Err(e) = derived {
                unreadable += 1;
                if unreadable <= EXAMPLES {
                    report.problem(format!("{}: row {}: {e}", self.place(0), hex(key, KEY_SHOWN)));
                }
                return Ok(true);
            }
            for (index, sum) in wanted.iter_mut().enumerate() {
                if self.sums(index) {
                    sum.add(entries.key(index), entries.value(index));
                }
            }
            Ok(true)
        })?;
        report.rows += keys.entries;
        row_count(self.table, self.name, keys.entries, report);
        Ok((keys, wanted))
    }

    fn secondary(
        &self,
        index: usize,
        rows: Sum,
        wanted: &[Sum],
        report: &mut Report,
        progress: Progress<'_>,
    ) -> Result<()> {
        let place = self.place(index);
        let mut found = Sum::default();
        let mut twins = Twins::new(&self.schema, index);
        let (renewer, mut renewed) = (self.codec.renewer(index), Vec::new());
        let label = format!("{} {}", self.name, self.schema.indexes[index].name);
        walk(self.tree(index), |key, value| {
            if self.sums(index) {
                // A clustering index's values name the version of the schema that wrote them.
                let older = renewer.as_ref().is_some_and(|r| r.renew(value, &mut renewed));
                found.add(key, if older { &renewed } else { value });
            } else {
                found.add(self.codec.primary_key(index, key)?, &[]);
            }
            said(progress, &label, found.entries);
            if let Some(what) = twins.meet(&self.codec, key)? {
                report.problem(format!("{place}: {what}"));
            }
            Ok(true)
        })?;
        report.index_entries += found.entries;
        let wanted = if self.sums(index) { wanted[index] } else { rows };
        if found == wanted {
            return Ok(());
        }
        let before = report.findings.len();
        if found.entries != wanted.entries {
            report.problem(format!(
                "{place}: {} entries, the rows ask for {}",
                found.entries, wanted.entries
            ));
        }
        self.name_missing(index, &place, report)?;
        self.name_strays(index, &place, report)?;
        if report.findings.len() == before {
            report.problem(format!("{place}: its entries are not those of the rows"));
        }
        Ok(())
    }

    /// Rows without their entry.
    fn name_missing(&self, index: usize, place: &str, report: &mut Report) -> Result<()> {
        if !self.sums(index) {
            return Ok(());
        }
        let mut deriver = Deriver::new(self.codec.clone(), 1 << index)?;
        let (mut entries, mut value) = (Entries::new(), Vec::new());
        let (renewer, mut renewed) = (self.codec.renewer(index), Vec::new());
        let mut named = 0;
        walk(self.tree(0), |key, row| {
            if deriver.derive(key, row, &mut entries).is_err() {
                return Ok(true);
            }
            value.clear();
            let there = self.tree(index).get(entries.key(index), SEQ_MAX, &mut value)?;
            let older = renewer.as_ref().is_some_and(|r| r.renew(&value, &mut renewed));
            let what = match there {
                Some(_) if if older { &renewed } else { &value } == entries.value(index) => {
                    return Ok(true)
                }
                Some(_) => "has another value than its row asks for",
                None => "is missing",
            };
            report.problem(format!("{place}: the entry of row {} {what}", hex(key, KEY_SHOWN)));
            named += 1;
            Ok(named < EXAMPLES)
        })
    }

    /// Entries without their row.
    fn name_strays(&self, index: usize, place: &str, report: &mut Report) -> Result<()> {
        let mut deriver = match self.sums(index) {
            true => Some(Deriver::new(self.codec.clone(), 1 << index)?),
            false => None,
        };
        let (mut entries, mut row) = (Entries::new(), Vec::new());
        let mut named = 0;
        walk(self.tree(index), |key, _| {
            let primary = self.codec.primary_key(index, key)?;
            row.clear();
            let what = match self.tree(0).get(primary, SEQ_MAX, &mut row)? {
                None => "leads to a row that does not exist",
                Some(_) => match &mut deriver {
                    None => return Ok(true),
                    Some(deriver) => {
                        if deriver.derive(primary, &row, &mut entries).is_err()
                            || entries.key(index) == key
                        {
                            return Ok(true);
                        }
                        "leads to a row that asks for another entry"
                    }
                },
            };
            report.problem(format!("{place}: entry {} {what}", hex(key, KEY_SHOWN)));
            named += 1;
            Ok(named < EXAMPLES)
        })
    }
}

/// Decodes all columns of a row, to check that they can be decoded.
struct WholeRow {
    projection: Projection,
    record: Vec<u8>,
    blobs: OwnedBlobs,
}

impl WholeRow {
    fn new(codec: &RowCodec) -> WholeRow {
        WholeRow {
            projection: codec.project(0, |column| codec.covers(0, column)),
            record: vec![0; codec.layout().record_bytes as usize],
            blobs: OwnedBlobs::default(),
        }
    }

    fn decode(&mut self, codec: &RowCodec, key: &[u8], value: &[u8]) -> Result<()> {
        self.blobs.clear();
        codec.decode(&self.projection, key, value, &mut self.record, &mut self.blobs)
    }
}

/// Finds neighbours in a unique index that have the same values.
struct Twins {
    index: usize,
    /// For each part of a unique index, the first byte of a NULL; `None` for a part that cannot be NULL.
    parts: Option<Vec<Option<u8>>>,
    last: Vec<u8>,
    named: usize,
}

impl Twins {
    fn new(schema: &Schema, index: usize) -> Twins {
        let described = &schema.indexes[index];
        let null_of = |p: &Part| {
            let nullable = schema.columns[usize::from(p.column)].nullable;
            nullable.then_some(if p.descending { 0xff } else { 0 })
        };
        let parts = described.unique.then(|| described.parts.iter().map(null_of).collect());
        Twins { index, parts, last: Vec::new(), named: 0 }
    }

    /// The next key of the index; returns what is wrong with it, if anything.
    fn meet(&mut self, codec: &RowCodec, key: &[u8]) -> Result<Option<String>> {
        let Some(parts) = &self.parts else { return Ok(None) };
        let end = codec.prefix_len(self.index, key, parts.len())?;
        if self.last != key[..end] {
            self.last.clear();
            self.last.extend_from_slice(&key[..end]);
            return Ok(None);
        }
        for (n, null) in parts.iter().enumerate() {
            let start = codec.prefix_len(self.index, key, n)?;
            if null.is_some() && key.get(start) == null.as_ref() {
                // Rows with a NULL never conflict.
                return Ok(None);
            }
        }
        self.named += 1;
        let shown = hex(&key[..end], KEY_SHOWN);
        Ok((self.named <= EXAMPLES).then(|| format!("two rows have the unique value {shown}")))
    }
}

/// The primary key's parts follow those of every other index.
fn parts_of(schema: &Schema, index: usize) -> impl Iterator<Item = &Part> {
    let own: &Index = &schema.indexes[index];
    own.parts.iter().chain(schema.indexes[0].parts.iter())
}

/// Whether keys of `index` can be made without a server.
fn can_derive(schema: &Schema, index: usize) -> bool {
    parts_of(schema, index).all(|part| {
        let c = &schema.columns[usize::from(part.column)];
        let weighted = c.is_text() && matches!(c.sort, Sort::Weights(_));
        let ordered = !weighted && !matches!(c.ty, ColumnType::Opaque { .. });
        // A prefix is a number of characters: their lengths are known for fixed widths and for UTF-8,
        // whose longest character has 3 or 4 bytes.
        let (min, max) = (c.min_char_bytes, c.max_char_bytes);
        ordered && c.stored && (part.prefix.is_none() || min == max || max >= 3)
    })
}

/// Character lengths from the schema; never asked for weights ([`can_derive`]).
struct OfflineKeys {
    /// Bytes of a character by collation: `Some` for a fixed width, `None` for UTF-8.
    widths: HashMap<u32, Option<usize>>,
}

impl OfflineKeys {
    fn new(schema: &Schema) -> OfflineKeys {
        let width = |min: u8, max: u8| (min == max).then_some(usize::from(max));
        let columns = schema.columns.iter();
        let widths = columns.map(|c| (c.charset, width(c.min_char_bytes, c.max_char_bytes)));
        OfflineKeys { widths: widths.collect() }
    }
}

impl SortKeys for OfflineKeys {
    fn weights(&self, _: u32, _: u8, _: &[u8], _: &mut Vec<u8>) {}

    fn char_prefix(&self, charset: u32, src: &[u8], chars: usize) -> usize {
        match self.widths.get(&charset) {
            Some(Some(width)) => chars.saturating_mul(*width).min(src.len()),
            _ => frond_row::PlainSortKeys.char_prefix(charset, src, chars),
        }
    }

    fn opaque(&self, _: usize, _: &[u8], _: &mut Vec<u8>) {}
}
