//! A scan over one index of typed rows: positions by search tuples, locks, decodes into record images.
//!
//! `scan/columns.rs` chooses the columns that it takes, `scan/seek.rs` positions it, `scan/locking.rs` locks its rows, `scan/ranges.rs` the ranges between
//! them. Tested by the plugin's tests.

use std::sync::Arc;

use frond_base::{EntryKind, Error, ErrorKind, IndexNo, Result, Seq};
use frond_row::{BlobSink, Projection, RowCodec};
use frond_txn::{KeyRange, LooseLock};

use super::Rows;
use crate::commit::cursor::Cursor;
use crate::commit::transaction::Transaction;
use crate::table::Table;

mod columns;
mod lock;
mod locking;
mod ranges;
mod seek;

use columns::ColumnSets;
pub use lock::ScanLock;
use lock::{Claim, Origin, Semi};
pub use seek::TupleSeek;

/// Verdict of the caller's condition on an index entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    Skip,
    Accept,
    /// Past the end of the caller's range.
    End,
    Aborted,
}

/// The callbacks of a scan.
pub trait ScanHooks: BlobSink {
    /// The columns of the current index entry are in the record: does it qualify?
    fn condition(&mut self) -> Condition;
    /// Polled in long reads.
    fn killed(&mut self) -> bool;
    /// The scan as a blob sink (a supertrait cast).
    fn blobs(&mut self) -> &mut dyn BlobSink;
}

/// The result of positioning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetched {
    Row,
    End,
    NotFound,
}

/// A scan. It belongs to one transaction, which is an argument of every call.
pub struct Scan {
    table: Arc<Table>,
    codec: Arc<RowCodec>,
    cursor: Cursor,
    /// Position in the schema, and number of the tree.
    index: usize,
    tree: IndexNo,
    lock: Option<ScanLock>,
    /// Columns that are wanted, and those of the entry for the condition.
    columns: ColumnSets,
    for_condition: Option<Projection>,
    needs_row: bool,
    row_key: Vec<u8>,
    row_value: Vec<u8>,
    prefix: Vec<u8>,
    /// The lock of the current row, if the scan took it for this row.
    locked: Option<LooseLock>,
    place: Place,
    /// The key of [`Place::Gap`].
    gap_key: Vec<u8>,
    /// Where the current step began, and the key from which it began.
    origin: Origin,
    origin_key: Vec<u8>,
    /// The transaction's number of lock waits when the cursor was positioned (SL1).
    waits: u64,
    /// The row in `row_key` was locked after a wait and not read since.
    waited: bool,
    semi: Semi,
    /// The row that a semi-consistent read delivered and that the next step delivers again, locked.
    wanted_again: Vec<u8>,
    polls: u32,
    /// What this scan has locked of its index, around its position (SR1).
    covered: Option<KeyRange>,
    /// Entries that the next lock looks ahead.
    ahead: u32,
}

/// Memory that a parked scan keeps for its next row.
const PARKED_BYTES: usize = 16 << 10;

/// After this many changed rows a step goes on behind the last of them instead of from its beginning.
const MOST_RESTARTS: u32 = 3;

/// The place from which the next step begins. It outlives the statement (HANDLER goes on in a new one).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not positioned: steps find nothing.
    Nowhere,
    /// At the entry under the cursor; of a cursor that was parked or renewed, at its last key.
    Entry,
    /// At the row in `row_key`, which was read by its primary key; the cursor has no position.
    Row,
    /// Between entries: the search found no match. The next entry is the first at or after `gap_key`.
    Gap,
    /// Before the first or behind the last entry.
    BeforeFirst,
    AfterLast,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

/// The outcome for a candidate.
enum Verdict {
    Accept,
    Skip,
    End,
    Aborted,
    /// There was a wait for its lock: all that was read before is out of date.
    Waited,
    /// Its row or entry had changed by the time it was locked.
    Stale,
}

impl Scan {
    /// A scan of schema index `index`, with all columns wanted.
    pub fn open(
        txn: &mut Transaction,
        rows: &Rows,
        index: usize,
        lock: Option<ScanLock>,
    ) -> Result<Scan> {
        let codec = rows.codec().clone();
        if index >= rows.indexes() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("table '{}' has no index {index}", rows.table().def().name),
            ));
        }
        let tree = rows.tree_no(index);
        let at = read_at(txn, rows.table(), tree, lock)?;
        let cursor = Cursor::new(rows.table().clone(), tree, at);
        let columns = ColumnSets::all(&codec, index);
        let needs_row = index != 0 && !columns.now().from_entry.missing().is_empty();
        Ok(Scan {
            table: rows.table().clone(),
            cursor,
            index,
            tree,
            lock,
            columns,
            for_condition: None,
            needs_row,
            codec,
            row_key: Vec::new(),
            row_value: Vec::new(),
            prefix: Vec::new(),
            locked: None,
            place: Place::Nowhere,
            gap_key: Vec::new(),
            origin: Origin::First,
            origin_key: Vec::new(),
            waits: 0,
            waited: false,
            semi: Semi::Off,
            wanted_again: Vec::new(),
            polls: 0,
            covered: None,
            ahead: 0,
        })
    }

    pub fn index(&self) -> usize {
        self.index
    }

    /// A new statement uses the scan again: reads at the transaction's current snapshot.
    pub fn renew(&mut self, txn: &mut Transaction, lock: Option<ScanLock>) -> Result<()> {
        self.lock = lock;
        let at = read_at(txn, &self.table, self.tree, lock)?;
        self.locked = None;
        self.waited = false;
        self.semi = Semi::Off;
        (self.covered, self.ahead) = (None, 0);
        self.cursor.set_at(at);
        Ok(())
    }

    /// Between statements: releases runs and pages, keeps projections and the last key.
    pub fn park(&mut self) {
        self.cursor.park();
        self.locked = None;
        if self.row_value.capacity() > PARKED_BYTES {
            self.row_value = Vec::new();
        }
    }

    /// Chooses the columns that later reads put into the record. With `index_only`, rows are not read.
    pub fn want(&mut self, wanted: impl Fn(usize) -> bool, index_only: bool) {
        self.columns.choose(&self.codec, self.index, wanted);
        let missing = self.columns.now().from_entry.missing();
        self.needs_row = self.index != 0 && !index_only && !missing.is_empty();
    }

    /// Evaluates the caller's condition on index entries from now on, or not.
    pub fn set_condition(&mut self, on: bool) {
        let (codec, index) = (&self.codec, self.index);
        self.for_condition = on.then(|| codec.project(index, |column| codec.covers(index, column)));
    }

    pub fn first(
        &mut self,
        txn: &mut Transaction,
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Fetched> {
        txn.settle(self.table.id())?;
        self.keep_lock(txn);
        let valid = self.start(txn, Origin::First, &[])?;
        self.deliver(txn, valid, Way::Forward, None, record, hooks)
    }

    pub fn last(
        &mut self,
        txn: &mut Transaction,
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Fetched> {
        txn.settle(self.table.id())?;
        self.keep_lock(txn);
        let valid = self.start(txn, Origin::Last, &[])?;
        self.deliver(txn, valid, Way::Backward, None, record, hooks)
    }

    pub fn next(
        &mut self,
        txn: &mut Transaction,
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Fetched> {
        txn.settle(self.table.id())?;
        let valid = self.step(txn, Way::Forward)?;
        self.deliver(txn, valid, Way::Forward, None, record, hooks)
    }

    pub fn prev(
        &mut self,
        txn: &mut Transaction,
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Fetched> {
        txn.settle(self.table.id())?;
        let valid = self.step(txn, Way::Backward)?;
        self.deliver(txn, valid, Way::Backward, None, record, hooks)
    }

    /// The next entry, if it still matches the tuple.
    pub fn next_same(
        &mut self,
        txn: &mut Transaction,
        (tuple, parts): (&[u8], usize),
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Fetched> {
        txn.settle(self.table.id())?;
        let mut prefix = std::mem::take(&mut self.prefix);
        prefix.clear();
        let outcome = self.codec.tuple_key(self.index, tuple, parts, &mut prefix).and_then(|_| {
            let valid = self.step(txn, Way::Forward)?;
            self.deliver(txn, valid, Way::Forward, Some(&prefix), record, hooks)
        });
        self.prefix = prefix;
        outcome
    }

    /// Reads the row with that primary key. The scan must be over index 0.
    pub fn fetch(
        &mut self,
        txn: &mut Transaction,
        key: &[u8],
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Fetched> {
        txn.settle(self.table.id())?;
        self.row_key.clear();
        self.row_key.extend_from_slice(key);
        self.place = Place::Nowhere;
        self.keep_lock(txn);
        if let Some(lock) = self.lock {
            if !self.lock_row(txn, lock, false)? {
                self.stand_before(key);
                return Ok(Fetched::NotFound);
            }
        }
        // With a lock the newest version, read after the lock was taken.
        let there = match self.reads_newest() {
            true => txn.read_locked(&self.table, 0, key, &mut self.row_value)?,
            false => txn.read(&self.table, 0, key, self.cursor.at(), &mut self.row_value)?,
        };
        if !there {
            self.stand_before(key);
            return Ok(Fetched::NotFound);
        }
        self.decode_row(record, hooks)?;
        self.place = Place::Row;
        Ok(Fetched::Row)
    }

    /// As [`Self::fetch`], by a key tuple with all parts of the primary key.
    pub fn fetch_tuple(
        &mut self,
        txn: &mut Transaction,
        (tuple, parts): (&[u8], usize),
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Fetched> {
        let mut key = Vec::new();
        self.codec.tuple_key(0, tuple, parts, &mut key)?;
        self.fetch(txn, &key, record, hooks)
    }

    /// Sets a place between entries, just before an entry with `key`.
    fn stand_before(&mut self, key: &[u8]) {
        self.gap_key.clear();
        self.gap_key.extend_from_slice(key);
        self.place = Place::Gap;
    }

    /// Walks `way` from the cursor's position to the first entry that qualifies, and decodes its row.
    fn deliver(
        &mut self,
        txn: &mut Transaction,
        mut valid: bool,
        way: Way,
        stop: Option<&[u8]>,
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Fetched> {
        let mut restarts = 0;
        loop {
            if self.lock_way(txn, valid, way, stop)? {
                valid = self.restart(txn)?;
                continue;
            }
            if !valid {
                self.place = way.end();
                return Ok(Fetched::End);
            }
            if stop.is_some_and(|prefix| !self.cursor.key().starts_with(prefix)) {
                // A step forwards; a search that finds nothing leaves the scan at the place of the search.
                self.gap_key.clear();
                self.gap_key.extend_from_slice(self.cursor.key());
                self.place = Place::Gap;
                return Ok(Fetched::End);
            }
            self.place = Place::Entry;
            match self.qualify(txn, record, hooks)? {
                Verdict::Accept => return Ok(Fetched::Row),
                Verdict::End => return Ok(Fetched::End),
                Verdict::Aborted => return Err(interrupted()),
                Verdict::Waited => {
                    valid = self.restart(txn)?;
                    continue;
                }
                Verdict::Stale => {
                    restarts += 1;
                    valid = if restarts <= MOST_RESTARTS {
                        self.restart(txn)?
                    } else {
                        self.pass(txn, way)?
                    };
                    continue;
                }
                Verdict::Skip => {}
            }
            self.polls += 1;
            if self.polls.is_multiple_of(256) && hooks.killed() {
                return Err(interrupted());
            }
            valid = match way {
                Way::Forward => self.cursor.next(txn)?,
                Way::Backward => self.cursor.prev(txn)?,
            };
        }
    }

    fn qualify(
        &mut self,
        txn: &mut Transaction,
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Verdict> {
        let mut passes_over = false;
        if let Some(projection) = &self.for_condition {
            let (key, value) = (self.cursor.key(), self.cursor.value());
            self.codec.decode(projection, key, value, record, hooks.blobs())?;
            match hooks.condition() {
                Condition::Accept => {}
                // The scan has read the entry, so it locks its row (RX4).
                Condition::Skip if self.locks_ranges(txn) => passes_over = true,
                Condition::Skip => return Ok(Verdict::Skip),
                Condition::End => return Ok(Verdict::End),
                Condition::Aborted => return Ok(Verdict::Aborted),
            }
        }
        if let Some(lock) = self.lock {
            match self.claim(txn, lock)? {
                Claim::Newest if passes_over => return Ok(Verdict::Skip),
                Claim::Newest => {
                    self.decode_row(record, hooks)?;
                    return Ok(Verdict::Accept);
                }
                Claim::Unchanged => {}
                Claim::Skip => return Ok(Verdict::Skip),
                Claim::Waited => return Ok(Verdict::Waited),
                Claim::Stale => return Ok(Verdict::Stale),
            }
        } else if self.is_overtaken(txn)? {
            return Ok(Verdict::Skip);
        }
        if self.needs_row {
            self.take_row_key()?;
            let at = self.cursor.at();
            if !txn.read(&self.table, 0, &self.row_key, at, &mut self.row_value)? {
                return Err(Error::corruption(
                    self.table.store().file_name(),
                    format_args!(
                        "index '{}' of table '{}' has an entry without a row",
                        self.codec.schema().indexes[self.index].name,
                        self.table.def().name
                    ),
                ));
            }
            self.decode_row(record, hooks)?;
        } else {
            let (key, value) = (self.cursor.key(), self.cursor.value());
            self.codec.decode(&self.columns.now().from_entry, key, value, record, hooks.blobs())?;
        }
        Ok(Verdict::Accept)
    }

    /// Decodes the row in `row_key` and `row_value`: that of the entry under the cursor, or one of the primary key's scan.
    fn decode_row(&self, record: &mut [u8], hooks: &mut dyn ScanHooks) -> Result<()> {
        if let Some(projection) = &self.columns.now().not_in_rows {
            let (key, value) = (self.cursor.key(), self.cursor.value());
            self.codec.decode(projection, key, value, record, hooks.blobs())?;
        }
        let blobs = hooks.blobs();
        self.codec.decode(
            self.columns.now().of_row(),
            &self.row_key,
            &self.row_value,
            record,
            blobs,
        )
    }

    /// Whether the entry under the cursor is the snapshot's while this transaction has changed a
    /// newer version of its row. Then all entries of the row are in the write set (RW4), and this
    /// one is not.
    fn is_overtaken(&mut self, txn: &Transaction) -> Result<bool> {
        if self.index == 0 || !(txn.may_overtake_snapshot() || txn.cascaded) {
            return Ok(false);
        }
        let key = self.cursor.key();
        let row_key = self.codec.primary_key(self.index, key)?;
        let own = |index| self.table.tree_id(index);
        // The row first: its runs have filters.
        let Some(row) = txn.own(own(0), row_key, None)? else { return Ok(false) };
        if txn.own(own(self.tree), key, None)?.is_some() {
            return Ok(false);
        }
        match row {
            // The write set deletes every entry of the version that was deleted.
            EntryKind::Delete => Ok(true),
            EntryKind::Put => {
                let newest = self.table.tree(0).newest_seq(row_key)?;
                Ok(newest.is_some_and(|seq| seq > self.cursor.at()))
            }
        }
    }

    fn take_row_key(&mut self) -> Result<()> {
        let key = self.codec.primary_key(self.index, self.cursor.key())?;
        self.row_key.clear();
        self.row_key.extend_from_slice(key);
        Ok(())
    }

    /// The primary key of the row that the last call delivered.
    pub fn row_key(&self) -> Result<&[u8]> {
        if self.place == Place::Row {
            return Ok(&self.row_key);
        }
        if !self.cursor.valid() {
            return Err(Error::new(ErrorKind::InvalidArgument, "the scan is on no row"));
        }
        self.codec.primary_key(self.index, self.cursor.key())
    }
}

/// The sequence at which a scan with `lock` reads.
fn read_at(
    txn: &mut Transaction,
    table: &Table,
    tree: IndexNo,
    lock: Option<ScanLock>,
) -> Result<Seq> {
    let at = txn.read_at(table, lock.is_some_and(|lock| !lock.at_snapshot))?;
    if at < table.slot(tree).oldest_snapshot() {
        return Err(Error::new(
            ErrorKind::TableChanged,
            format!(
                "an index of table '{}' was built after this transaction took its snapshot; end the \
                 transaction and run it again",
                table.def().name
            ),
        ));
    }
    Ok(at)
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "the statement was interrupted")
}
