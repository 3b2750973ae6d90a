//! Log records of the engine: what a payload means, by record kind. The only place that encodes and
//! decodes them. Framing, checksums and LSNs are `frond-wal`'s.
//!
//! Kind 1, a transaction (one record is one transaction: it is recovered whole or not at all; its
//! commit sequence is the LSN at which the record ends, so it is not stored):
//!
//! ```text
//! varint number of tree sections, each:    varint table, varint index, varint number of entries,
//!   entries in key order, each:            varint key length, key,
//!                                          varint 0 = delete | value length + 1, value
//! varint number of counter sections, each: varint table, varint row-count delta (zigzag),
//!                                          varint auto-increment, varint row id (both: next unused)
//! ```
//!
//! Next values only grow: replay takes the largest seen.
//!
//! Kind 2, a trunk edit: varint table, varint index, then the edit as `frond-tree` encodes it.
//!
//! Kind 3, counters only (a rolled-back transaction keeps the auto-increment values it used): the
//! counter sections of kind 1 (with their number).
//!
//! Kind 4, counters set: as kind 3, but the values replace what was (ALTER TABLE ... AUTO_INCREMENT).
//!
//! Kind 5, trim: what is about to be removed from the log, and what that relies on.
//!
//! ```text
//! varint LSN: log below it is about to be removed
//! varint number of tables that have an image, each, ascending:
//!   varint table number minus that of the table before (the first: minus 0), varint LSN of its newest image
//! varint slowness of recovery, in thousandths (rfc 0018); 0: not measured yet
//! ```
//!
//! Recovery refuses a log that starts behind the newest such LSN: then segments were removed by other means.
//! The images are durable; `images.rs` says what follows from them. In records of earlier builds nothing
//! follows the first LSN, or nothing follows the images.
//!
//! Kind 6, a transaction that wrote some of its changes to table files before it committed:
//!
//! ```text
//! varint number of trees, each:   varint table, varint index, varint number of lists of runs (oldest first), each:
//!   varint number of runs, each:  run metadata as in `frond-run`, varint extent offset, varint extent length
//! then the content of kind 1
//! ```
//!
//! The runs were durable before the record was appended. Their entries get the commit sequence. A tree
//! has runs or entries in a record, never both.
//!
//! Kind 7, a transaction is prepared (`prepared.rs`):
//!
//! ```text
//! varint LSN of the record of kind 7 that it takes the place of, 0: none
//! varint format number (zigzag), varint length, first part of the name, varint length, second part
//! varint number of trees with locks, each: varint table, varint index, varint 1 = the whole tree | 0,
//!   varint number of keys locked, each:    varint key length, key
//! then the content of kind 6; its row-count deltas do not count before it is committed
//! ```
//!
//! Kind 8, it is committed: varint LSN of its newest record of kind 7, then as kind 3. The commit sequence is the
//! LSN at which this record ends. Kind 9, it is rolled back: varint LSN of that record.

use std::collections::BTreeMap;

use frond_base::{put_bytes, put_varint, ByteReader, EntryKind, IndexNo, Lsn, Result, ShortInput};
use frond_base::{Error, TableId, TreeId};
use frond_run::RunMeta;
use frond_tree::Extent;
use frond_txn::TreeLocks;

use crate::commit::xid::Xid;

/// More than any table hands out as a row id or an AUTO_INCREMENT value.
pub const NEXT_MAX: u64 = 1 << 62;

pub const KIND_TRANSACTION: u8 = 1;
pub const KIND_EDIT: u8 = 2;
pub const KIND_COUNTERS: u8 = 3;
pub const KIND_SET_COUNTERS: u8 = 4;
pub const KIND_TRIM: u8 = 5;
pub const KIND_TRANSACTION_OF_RUNS: u8 = 6;
pub const KIND_PREPARE: u8 = 7;
pub const KIND_COMMIT_PREPARED: u8 = 8;
pub const KIND_ROLLBACK_PREPARED: u8 = 9;

/// Runs that a transaction attaches to one tree: lists, oldest first, each ascending.
pub struct AttachedRuns {
    pub tree: TreeId,
    pub lists: Vec<Vec<(RunMeta, Extent)>>,
}

/// Counters of a table as a record carries them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CounterRecord {
    pub table: TableId,
    /// Rows inserted minus rows deleted by this transaction.
    pub rows_delta: i64,
    /// Next unused AUTO_INCREMENT value at the time of logging.
    pub auto_increment: u64,
    /// Next unused hidden row id at the time of logging.
    pub row_id: u64,
}

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn unzigzag(n: u64) -> i64 {
    ((n >> 1) as i64) ^ -((n & 1) as i64)
}

/// Appends the counter sections: the end of kind 1, the whole of kind 3.
pub fn put_counters(out: &mut Vec<u8>, counters: &[CounterRecord]) {
    put_varint(out, counters.len() as u64);
    for c in counters {
        put_varint(out, u64::from(c.table.0));
        put_varint(out, zigzag(c.rows_delta));
        put_varint(out, c.auto_increment);
        put_varint(out, c.row_id);
    }
}

/// Appends the runs that a transaction attaches: the beginning of kind 6.
pub fn put_runs(out: &mut Vec<u8>, attached: &[AttachedRuns]) {
    put_varint(out, attached.len() as u64);
    for a in attached {
        put_varint(out, u64::from(a.tree.table.0));
        put_varint(out, u64::from(a.tree.index));
        put_varint(out, a.lists.len() as u64);
        for runs in &a.lists {
            put_varint(out, runs.len() as u64);
            for (meta, extent) in runs {
                meta.encode(out);
                put_varint(out, extent.offset);
                put_varint(out, extent.len);
            }
        }
    }
}

/// The beginning of kind 7.
pub fn put_prepare(out: &mut Vec<u8>, replaced: Lsn, xid: &Xid, locks: &[TreeLocks]) {
    put_varint(out, replaced);
    put_varint(out, zigzag(xid.format()));
    put_bytes(out, xid.gtrid());
    put_bytes(out, xid.bqual());
    put_varint(out, locks.len() as u64);
    for TreeLocks { tree, whole, keys } in locks {
        put_varint(out, u64::from(tree.table.0));
        put_varint(out, u64::from(tree.index));
        put_varint(out, u64::from(*whole));
        put_varint(out, keys.len() as u64);
        keys.iter().for_each(|key| put_bytes(out, key));
    }
}

/// What [`put_prepare`] wrote.
pub struct PrepareFront {
    /// The record whose place this one takes.
    pub replaced: Option<Lsn>,
    pub xid: Xid,
    pub locks: Vec<TreeLocks>,
}

/// Starts a tree section of `entries` entries.
pub fn put_tree_section(out: &mut Vec<u8>, tree: TreeId, entries: usize) {
    put_varint(out, u64::from(tree.table.0));
    put_varint(out, u64::from(tree.index));
    put_varint(out, entries as u64);
}

/// What a tree's section takes besides its entries, its table's counters included; at most.
pub const SECTION_OVERHEAD: usize = 128;
/// What an entry takes besides its key and its value, at most.
pub const ENTRY_OVERHEAD: usize = 6;

/// Appends one entry of the current tree section.
#[inline]
pub fn put_entry(out: &mut Vec<u8>, key: &[u8], kind: EntryKind, value: &[u8]) {
    put_bytes(out, key);
    match kind {
        EntryKind::Delete => out.push(0),
        EntryKind::Put => {
            put_varint(out, value.len() as u64 + 1);
            out.extend_from_slice(value);
        }
    }
}

/// A trim record.
#[derive(PartialEq, Eq, Debug)]
pub struct Trim {
    /// Log below is about to be removed.
    pub upto: Lsn,
    /// The newest image of each table that has one; `None` in records of earlier builds.
    pub images: Option<BTreeMap<TableId, Lsn>>,
    /// How slow recovery was here (`checkpoint/recovery_time.rs`); `None`: not measured yet.
    pub slowness: Option<u64>,
}

/// A trim record.
pub fn trim_record(upto: Lsn, images: &BTreeMap<TableId, Lsn>, slowness: Option<u64>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + images.len() * 8);
    put_varint(&mut out, upto);
    put_varint(&mut out, images.len() as u64);
    let mut previous = 0;
    for (table, lsn) in images {
        put_varint(&mut out, u64::from(table.0 - previous));
        put_varint(&mut out, *lsn);
        previous = table.0;
    }
    put_varint(&mut out, slowness.unwrap_or(0));
    out
}

/// `lsn` is for messages only.
pub fn decode_trim(payload: &[u8], lsn: Lsn) -> Result<Trim> {
    let place = format!("trim record at {lsn}");
    decode_trim_body(payload)
        .map_err(|e| e.in_file("log", &place))?
        .ok_or_else(|| Error::corruption("log", format_args!("{place}: tables do not ascend")))
}

fn decode_trim_body(payload: &[u8]) -> std::result::Result<Option<Trim>, ShortInput> {
    let mut reader = ByteReader::new(payload);
    let upto = reader.varint()?;
    if reader.remaining() == 0 {
        return Ok(Some(Trim { upto, images: None, slowness: None }));
    }
    let mut images = BTreeMap::new();
    let mut previous = 0;
    for i in 0..reader.bounded_len()? {
        let (delta, lsn) = (reader.u32_varint()?, reader.varint()?);
        let table = match u32::checked_add(previous, delta) {
            Some(table) if delta > 0 || i == 0 => table,
            _ => return Ok(None),
        };
        images.insert(TableId(table), lsn);
        previous = table;
    }
    let slowness = if reader.remaining() == 0 { 0 } else { reader.varint()? };
    match reader.remaining() {
        0 => {
            let slowness = (slowness > 0).then_some(slowness);
            Ok(Some(Trim { upto, images: Some(images), slowness }))
        }
        _ => Err(ShortInput { at: reader.position() }),
    }
}

/// Reads the sections of a record; every error names the record's place in the log.
pub struct RecordReader<'a> {
    reader: ByteReader<'a>,
    payload: &'a [u8],
    lsn: Lsn,
}

impl<'a> RecordReader<'a> {
    /// `lsn` is for messages only.
    pub fn new(payload: &'a [u8], lsn: u64) -> Self {
        RecordReader { reader: ByteReader::new(payload), payload, lsn }
    }

    /// For messages; made only when there is one, as a log may have millions of small records.
    fn place(&self) -> String {
        format!("log record at {}", self.lsn)
    }

    /// How far it has read, for [`RecordReader::since`].
    pub fn position(&self) -> usize {
        self.reader.position()
    }

    /// The bytes read since it was at `position`.
    pub fn since(&self, position: usize) -> &'a [u8] {
        &self.payload[position..self.reader.position()]
    }

    fn bad(&self, e: ShortInput) -> Error {
        e.in_file("log", &self.place())
    }

    fn id(&mut self) -> Result<TreeId> {
        let table = self.reader.varint().map_err(|e| self.bad(e))?;
        let index = self.reader.varint().map_err(|e| self.bad(e))?;
        match (u32::try_from(table), IndexNo::try_from(index)) {
            (Ok(table), Ok(index)) => Ok(TreeId { table: TableId(table), index }),
            _ => Err(Error::corruption(
                "log",
                format_args!("{}: tree {table}.{index} is impossible", self.place()),
            )),
        }
    }

    pub fn counters(&mut self) -> Result<Vec<CounterRecord>> {
        let n = self.reader.bounded_len().map_err(|e| self.bad(e))?;
        let mut counters = Vec::with_capacity(n.min(1024));
        for _ in 0..n {
            let mut four = [0u64; 4];
            for f in &mut four {
                *f = self.reader.varint().map_err(|e| self.bad(e))?;
            }
            let table = u32::try_from(four[0]).map_err(|_| {
                Error::corruption(
                    "log",
                    format_args!("{}: table {} is impossible", self.place(), four[0]),
                )
            })?;
            if four[3] >= NEXT_MAX {
                let what = format_args!("{}: next row id {} is impossible", self.place(), four[3]);
                return Err(Error::corruption("log", what));
            }
            counters.push(CounterRecord {
                table: TableId(table),
                rows_delta: unzigzag(four[1]),
                auto_increment: four[2],
                row_id: four[3],
            });
        }
        Ok(counters)
    }

    /// The runs of a record of kind 6. Each is of its tree's table, fits its extent and has no sequence yet.
    pub fn runs(&mut self) -> Result<Vec<AttachedRuns>> {
        let trees = self.reader.bounded_len().map_err(|e| self.bad(e))?;
        let mut attached: Vec<AttachedRuns> = Vec::new();
        for _ in 0..trees {
            let tree = self.id()?;
            let mut lists = Vec::new();
            for _ in 0..self.reader.bounded_len().map_err(|e| self.bad(e))? {
                let mut runs = Vec::new();
                for _ in 0..self.reader.bounded_len().map_err(|e| self.bad(e))? {
                    runs.push(self.run(tree)?);
                }
                lists.push(runs);
            }
            if attached.iter().any(|a| a.tree == tree) {
                return Err(self.impossible(format_args!("tree {tree} comes twice")));
            }
            attached.push(AttachedRuns { tree, lists });
        }
        Ok(attached)
    }

    fn run(&mut self, tree: TreeId) -> Result<(RunMeta, Extent)> {
        let meta = RunMeta::decode(&mut self.reader).map_err(|e| self.bad(e))?;
        let offset = self.reader.varint().map_err(|e| self.bad(e))?;
        let len = self.reader.varint().map_err(|e| self.bad(e))?;
        if meta.id.table != tree.table || meta.bytes > len || meta.max_seq != 0 {
            let block = meta.block();
            return Err(self.impossible(format_args!("block {block} is not one of tree {tree}")));
        }
        Ok((meta, Extent { offset, len }))
    }

    fn impossible(&self, what: std::fmt::Arguments<'_>) -> Error {
        Error::corruption("log", format_args!("{}: {what}", self.place()))
    }

    /// The beginning of a record of kind 7.
    pub fn prepare(&mut self) -> Result<PrepareFront> {
        let replaced = self.prepared_at()?;
        let format = unzigzag(self.reader.varint().map_err(|e| self.bad(e))?);
        let gtrid = self.reader.bytes().map_err(|e| self.bad(e))?;
        let bqual = self.reader.bytes().map_err(|e| self.bad(e))?;
        let xid = Xid::new(format, gtrid, bqual)
            .map_err(|e| self.impossible(format_args!("{}", e.message())))?;
        let mut locks = Vec::new();
        for _ in 0..self.reader.bounded_len().map_err(|e| self.bad(e))? {
            let tree = self.id()?;
            let whole = match self.reader.varint().map_err(|e| self.bad(e))? {
                0 => false,
                1 => true,
                n => return Err(self.impossible(format_args!("lock {n} of tree {tree}"))),
            };
            let mut keys = Vec::new();
            for _ in 0..self.reader.bounded_len().map_err(|e| self.bad(e))? {
                keys.push(self.reader.bytes().map_err(|e| self.bad(e))?.to_vec());
            }
            locks.push(TreeLocks { tree, whole, keys });
        }
        Ok(PrepareFront { replaced: (replaced > 0).then_some(replaced), xid, locks })
    }

    /// The beginning of records of kinds 8 and 9: which record of kind 7 they end.
    pub fn prepared_at(&mut self) -> Result<Lsn> {
        self.reader.varint().map_err(|e| self.bad(e))
    }

    /// Number of tree sections that follow.
    pub fn section_count(&mut self) -> Result<usize> {
        self.reader.bounded_len().map_err(|e| self.bad(e))
    }

    /// The header of the next tree section: its tree and number of entries.
    pub fn section(&mut self) -> Result<(TreeId, usize)> {
        let tree = self.id()?;
        let entries = self.reader.bounded_len().map_err(|e| self.bad(e))?;
        Ok((tree, entries))
    }

    /// The next entry of the section.
    pub fn entry(&mut self) -> Result<(&'a [u8], EntryKind, &'a [u8])> {
        let key = self.reader.bytes().map_err(|e| self.bad(e))?;
        let tag = self.reader.varint().map_err(|e| self.bad(e))?;
        if tag == 0 {
            return Ok((key, EntryKind::Delete, &[]));
        }
        let len = usize::try_from(tag - 1).unwrap_or(usize::MAX);
        let value = self.reader.take(len).map_err(|e| self.bad(e))?;
        Ok((key, EntryKind::Put, value))
    }

    /// The tree of an edit record and the edit's bytes.
    pub fn edit(mut self) -> Result<(TreeId, &'a [u8])> {
        let tree = self.id()?;
        let rest = self.reader.remaining();
        let bytes = self.reader.take(rest).map_err(|e| self.bad(e))?;
        Ok((tree, bytes))
    }

    /// Nothing may be left when a record was read to its end.
    pub fn finish(self) -> Result<()> {
        match self.reader.remaining() {
            0 => Ok(()),
            n => Err(Error::corruption("log", format_args!("{}: {n} stray bytes", self.place()))),
        }
    }
}

/// An edit record's front; the caller appends the edit.
pub fn edit_record(tree: TreeId) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    put_varint(&mut out, u64::from(tree.table.0));
    put_varint(&mut out, u64::from(tree.index));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_record_round_trips() {
        let counters = [CounterRecord {
            table: TableId(7),
            rows_delta: -3,
            auto_increment: 900,
            row_id: NEXT_MAX - 1,
        }];
        let tree = TreeId { table: TableId(7), index: 2 };
        let mut out = Vec::new();
        put_varint(&mut out, 1);
        put_tree_section(&mut out, tree, 2);
        put_entry(&mut out, b"a", EntryKind::Put, b"");
        put_entry(&mut out, b"b", EntryKind::Delete, b"");
        put_counters(&mut out, &counters);

        let mut r = RecordReader::new(&out, 0);
        assert_eq!(r.section_count().unwrap(), 1);
        assert_eq!(r.section().unwrap(), (tree, 2));
        assert_eq!(r.entry().unwrap(), (&b"a"[..], EntryKind::Put, &b""[..]));
        assert_eq!(r.entry().unwrap(), (&b"b"[..], EntryKind::Delete, &b""[..]));
        assert_eq!(r.counters().unwrap(), counters);
        r.finish().unwrap();

        let mut out = Vec::new();
        put_counters(&mut out, &[CounterRecord { row_id: NEXT_MAX, ..counters[0] }]);
        let refused = RecordReader::new(&out, 0).counters().unwrap_err();
        assert!(refused.to_string().contains("next row id"), "{refused}");
    }

    #[test]
    fn trim_record_round_trips_and_cut_ones_are_refused() {
        let images =
            BTreeMap::from([(TableId(0), 7), (TableId(1), 1 << 40), (TableId(u32::MAX), 8)]);
        let bytes = trim_record(1 << 41, &images, Some(3000));
        let whole = Trim { upto: 1 << 41, images: Some(images), slowness: Some(3000) };
        assert_eq!(decode_trim(&bytes, 0).unwrap(), whole);
        let older = decode_trim(&bytes[..bytes.len() - 2], 0).unwrap();
        assert_eq!(older, Trim { slowness: None, ..whole });
        // As earlier builds wrote it.
        let bare = decode_trim(&bytes[..6], 0).unwrap();
        assert_eq!(bare, Trim { upto: 1 << 41, images: None, slowness: None });
        for cut in (7..bytes.len()).filter(|cut| cut + 2 != bytes.len()) {
            assert!(decode_trim(&bytes[..cut], 0).is_err(), "cut at {cut}");
        }
        let mut twice = trim_record(5, &BTreeMap::from([(TableId(3), 7)]), None);
        twice[1] = 2;
        twice.extend_from_slice(&[9, 0]);
        assert!(decode_trim(&twice, 0).unwrap_err().to_string().contains("ascend"));
    }

    /// The figure of rfc 0004: LSNs of a database that has logged a TiB.
    #[test]
    fn list_of_ten_thousand_images_takes_70_kb() {
        let images = (0..10_000).map(|n| (TableId(n), (1 << 40) + u64::from(n) * 4096)).collect();
        let bytes = trim_record(1 << 41, &images, Some(1000)).len();
        assert!((70_000..70_020).contains(&bytes), "{bytes}");
    }

    #[test]
    fn prepare_record_round_trips_and_cut_ones_are_refused() {
        let xid = Xid::new(-7, b"whole", b"part").unwrap();
        let tree = TreeId { table: TableId(3), index: 1 };
        let keys = vec![b"a".to_vec(), b"bc".to_vec()];
        let locks = [
            TreeLocks { tree, whole: false, keys },
            TreeLocks { tree: TreeId { index: 0, ..tree }, whole: true, keys: Vec::new() },
        ];
        let mut out = Vec::new();
        put_prepare(&mut out, 77, &xid, &locks);
        let mut r = RecordReader::new(&out, 9);
        let front = r.prepare().unwrap();
        assert_eq!((front.replaced, front.xid, &front.locks[..]), (Some(77), xid, &locks[..]));
        r.finish().unwrap();
        for cut in 0..out.len() {
            assert!(RecordReader::new(&out[..cut], 9).prepare().is_err(), "cut at {cut}");
        }
        out[2] = 65; // the first part's length
        assert!(RecordReader::new(&out, 9).prepare().is_err());
    }

    #[test]
    fn cut_or_padded_records_are_refused() {
        let mut out = Vec::new();
        put_varint(&mut out, 1);
        put_tree_section(&mut out, TreeId { table: TableId(1), index: 0 }, 1);
        put_entry(&mut out, b"key", EntryKind::Put, b"value");
        put_counters(&mut out, &[]);
        fn walk(bytes: &[u8]) -> Result<()> {
            let mut r = RecordReader::new(bytes, 9);
            for _ in 0..r.section_count()? {
                let (_, n) = r.section()?;
                for _ in 0..n {
                    r.entry()?;
                }
            }
            r.counters()?;
            r.finish()
        }
        walk(&out).unwrap();
        for cut in 0..out.len() {
            assert!(walk(&out[..cut]).is_err(), "cut at {cut}");
        }
        out.push(0);
        assert!(walk(&out).unwrap_err().to_string().contains("stray"));
    }
}
