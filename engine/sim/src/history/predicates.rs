//! Histories of serializable transactions that read by predicate: all rows with a key, and all rows whose keys lie in a
//! range, there or not.
//!
//! A row is one append: its key is the list's, its number the value. A read of a list is a scan of the index on the
//! key, so what keeps it true is a lock of what was not found, not of a row.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use frond_engine::rows::{
    Condition, Fetched, Rows, Scan, ScanHooks, ScanLock, TupleSeek, WriteFlags, Written,
};
use frond_engine::{
    Engine, Error, ErrorKind, IndexDef, Isolation, OnLocked, Result, RowMode, Table, TableSpec,
    Transaction, TxnOptions,
};
use frond_row::{
    BlobSink, Column, ColumnType, Index, NoBlobs, Part, PlainSortKeys, RecordLayout, RowInput,
    Schema,
};
use frond_vfs::{MemVfs, Vfs};

use super::record::{ended, engine, run, Recording, EPOCH};
use super::{Op, Outcome, Txn};
use crate::rng::Rng;

/// The index on the key.
const BY_KEY: usize = 1;
/// Bytes of a record: number and key.
const RECORD: usize = 16;
/// Lists of a read of a range.
const RANGE: u64 = 3;

struct Lists {
    engine: Engine,
    table: Arc<Table>,
    layout: RecordLayout,
    values: AtomicU64,
}

/// Runs threads that append and read, and returns the history; the last transaction reads all keys.
pub fn record(recording: Recording) -> Result<Vec<Txn>> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let engine = engine(vfs.clone())?;
    let schema = schema();
    let mut bytes = Vec::new();
    schema.encode(&mut bytes);
    let table = engine.create_table(TableSpec {
        name: "lists".into(),
        indexes: vec![IndexDef::plain(); schema.indexes.len()],
        schema: bytes,
        meta: Vec::new(),
        auto_increment: 1,
    })?;
    let layout = RecordLayout::compact(&schema);
    let lists = Arc::new(Lists { engine, table, layout, values: AtomicU64::new(1) });
    let mut history = run(&vfs, recording, lists.clone(), one);
    let mut last = lists.engine.begin(TxnOptions::default());
    let keys = (lists.values.load(Ordering::Relaxed) / EPOCH + 1) * recording.keys;
    let ops = read(&mut last, &lists.bind()?, (0, keys), None)?;
    history.push(Txn { process: recording.threads, outcome: Outcome::Ok, ops });
    Ok(history)
}

fn schema() -> Schema {
    let mut columns =
        ["number", "key"].map(|n| Column::new(n, ColumnType::Int { unsigned: true }, 8));
    columns[1].id = 1;
    let index = |tree, name: &str, column| Index {
        tree,
        name: name.into(),
        unique: tree == 0,
        clustering: false,
        parts: vec![Part { column, prefix: None, descending: false }],
    };
    Schema {
        version: 1,
        columns: columns.into(),
        indexes: vec![index(0, "PRIMARY", 0), index(1, "by_key", 1)],
        hidden_primary: false,
        auto_increment: None,
    }
}

impl Lists {
    fn bind(&self) -> Result<Rows> {
        Rows::bind(self.table.clone(), self.layout.clone(), Arc::new(PlainSortKeys))
    }
}

/// One transaction of one client.
fn one(lists: &Lists, process: u64, keys: u64, rng: &mut Rng) -> Txn {
    let mut txn = lists.engine.begin(TxnOptions {
        isolation: Isolation::Serializable,
        lock_timeout: Duration::from_millis(200),
        ..TxnOptions::default()
    });
    let mut ops = Vec::new();
    let done = (|| {
        let mut rows = lists.bind()?;
        for _ in 0..rng.range(1, 4) {
            let key = lists.values.load(Ordering::Relaxed) / EPOCH * keys + rng.below(keys);
            if rng.percent(55) {
                let upto = key + if rng.percent(50) { RANGE } else { 1 };
                ops.extend(read(&mut txn, &rows, (key, upto), Some(RowMode::S))?);
                continue;
            }
            // Without an exclusive lock, two transactions that have read the same list meet in a deadlock.
            let mode = if rng.percent(80) { RowMode::X } else { RowMode::S };
            read(&mut txn, &rows, (key, key + 1), Some(mode))?;
            // With the list locked: numbers of a list are in the order of its commits.
            let value = lists.values.fetch_add(1, Ordering::Relaxed);
            ops.push(Op::Append(key, value));
            append(&mut txn, &mut rows, key, value)?;
        }
        Ok::<(), Error>(())
    })();
    ended(txn, done, process, ops)
}

fn append(txn: &mut Transaction, rows: &mut Rows, key: u64, value: u64) -> Result<()> {
    let record = [value.to_le_bytes(), key.to_le_bytes()].concat();
    let row = RowInput { record: &record, blobs: &NoBlobs, row_id: 0 };
    match rows.insert(txn, &row, WriteFlags::default())? {
        Written::Done => Ok(()),
        other => Err(Error::new(ErrorKind::DuplicateKey, format!("insert: {other:?}"))),
    }
}

/// The lists of the keys from `from` to below `upto`, also the empty ones; one by its key alone, more by a range.
fn read(
    txn: &mut Transaction,
    rows: &Rows,
    (from, upto): (u64, u64),
    lock: Option<RowMode>,
) -> Result<Vec<Op>> {
    let lock = lock.map(|mode| ScanLock {
        mode,
        wait: OnLocked::Wait,
        skip_locked: false,
        at_snapshot: false,
    });
    let mut scan = Scan::open(txn, rows, BY_KEY, lock)?;
    let mut lists: Vec<Vec<u64>> = vec![Vec::new(); (upto - from) as usize];
    let (mut record, tuple) = ([0; RECORD], from.to_le_bytes());
    let by_key = upto == from + 1;
    let how = if by_key { TupleSeek::Exact } else { TupleSeek::OrNext };
    let mut found = scan.seek(txn, how, (&tuple, 1), &mut record, &mut Plain)?;
    while found == Fetched::Row {
        let [value, key] = [0, 8]
            .map(|at| record[at..at + 8].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)));
        if key >= upto {
            break;
        }
        lists[(key - from) as usize].push(value);
        found = match by_key {
            true => scan.next_same(txn, (&tuple, 1), &mut record, &mut Plain)?,
            false => scan.next(txn, &mut record, &mut Plain)?,
        };
    }
    Ok((from..).zip(lists).map(|(key, list)| Op::Read(key, list)).collect())
}

/// Every entry qualifies.
struct Plain;

impl BlobSink for Plain {
    fn put_blob(&mut self, column: usize, field: &mut [u8], bytes: &[u8]) {
        NoBlobs.put_blob(column, field, bytes);
    }
}

impl ScanHooks for Plain {
    fn condition(&mut self) -> Condition {
        Condition::Accept
    }

    fn killed(&mut self) -> bool {
        false
    }

    fn blobs(&mut self) -> &mut dyn BlobSink {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn serializable_histories_have_no_anomaly() {
        let recording = Recording {
            threads: 4,
            keys: 12,
            transactions: 3_000,
            time: Duration::from_secs(3),
            seed: 1,
            canary: None,
        };
        let history = record(recording).unwrap();
        let done = history.iter().filter(|t| t.outcome == Outcome::Ok).count();
        assert!(done > 100, "{done} transactions committed");
        let found = check(&history);
        assert!(found.is_empty(), "{:?}", &found[..found.len().min(3)]);
    }
}
