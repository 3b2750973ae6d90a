//! Scans that lock: what they read before a wait is not used after it, and what they look up is the newest.

use frond_engine::rows::{Condition, Fetched, Scan, ScanHooks, ScanLock, TupleSeek, WriteFlags};
use frond_engine::{CheckOutcome, Engine, ErrorKind, OnLocked, RowMode, Transaction};
use frond_row::{BlobSink, Column, ColumnType, NoBlobs, RowInput};

use crate::alter;
use crate::rows::number;
use crate::support::*;
use crate::typed::{self, Typed, A};

pub struct Hooks(pub NoBlobs);

impl BlobSink for Hooks {
    fn put_blob(&mut self, column: usize, field: &mut [u8], bytes: &[u8]) {
        self.0.put_blob(column, field, bytes);
    }
}

impl ScanHooks for Hooks {
    fn condition(&mut self) -> Condition {
        Condition::Accept
    }
    fn killed(&mut self) -> bool {
        false
    }
    fn blobs(&mut self) -> &mut dyn BlobSink {
        &mut self.0
    }
}

pub const EXCLUSIVE: ScanLock =
    ScanLock { mode: RowMode::X, wait: OnLocked::Wait, skip_locked: false, at_snapshot: false };
const BY_A: usize = 1;

/// A scan of the index on `a`, and the `a` of the rows that it delivers.
struct Reader<'t> {
    t: &'t Typed,
    scan: Scan,
    record: Vec<u8>,
}

impl<'t> Reader<'t> {
    fn new(t: &'t Typed, txn: &mut Transaction, lock: ScanLock) -> Reader<'t> {
        let scan = Scan::open(txn, &t.rows, BY_A, Some(lock)).unwrap();
        Reader { t, scan, record: t.record(0, 0, "") }
    }

    fn value(&self, fetched: Fetched) -> Option<i32> {
        let at = self.t.offset(A);
        let bytes = self.record[at..at + 4].try_into().unwrap();
        (fetched == Fetched::Row).then(|| i32::from_le_bytes(bytes))
    }

    fn first(&mut self, txn: &mut Transaction) -> Option<i32> {
        let fetched = self.scan.first(txn, &mut self.record, &mut Hooks(NoBlobs)).unwrap();
        self.value(fetched)
    }

    fn next(&mut self, txn: &mut Transaction) -> Option<i32> {
        let fetched = self.scan.next(txn, &mut self.record, &mut Hooks(NoBlobs)).unwrap();
        self.value(fetched)
    }

    fn rest(&mut self, txn: &mut Transaction) -> Vec<i32> {
        std::iter::from_fn(|| self.next(txn)).collect()
    }

    /// The row with that `a`.
    fn find(&mut self, txn: &mut Transaction, a: i32) -> Option<i32> {
        // The server's key image: a flag for NULL first, where the column may be NULL.
        let tuple = a.to_le_bytes();
        let (how, tuple) = (TupleSeek::Exact, (&tuple[..], 1));
        let fetched = self.scan.seek(txn, how, tuple, &mut self.record, &mut Hooks(NoBlobs));
        let fetched = fetched.unwrap();
        self.value(fetched)
    }
}

pub fn filled(engine: &Engine) -> Typed {
    let mut t = Typed::create(engine, "t", false);
    let mut txn = begin(engine);
    for n in 1..=20 {
        t.insert(&mut txn, n * 10, "");
    }
    txn.commit().unwrap();
    t
}

fn lock_waits(engine: &Engine) -> u64 {
    engine.status().iter().find(|(n, _)| *n == "lock_waits").unwrap().1
}

/// Locks the plain key `k`; once another transaction waits for it, inserts a row behind each row and commits.
fn while_waited_for(engine: &Engine, t: &Typed, wait: impl FnOnce()) {
    let mut other = begin(engine);
    let mut writer = Typed::bind(t.table().clone());
    other.lock(t.table(), 2, b"k", RowMode::X, OnLocked::Wait).unwrap();
    std::thread::scope(|s| {
        s.spawn(move || {
            while lock_waits(engine) == 0 {
                std::thread::yield_now();
            }
            for n in 1..=20 {
                writer.insert(&mut other, n * 10 + 5, "");
            }
            other.commit().unwrap();
        });
        wait();
    });
}

#[test]
fn a_scan_reads_anew_after_its_transaction_waited_for_any_lock() {
    let engine = open(&memory());
    let t = filled(&engine);
    let mut txn = begin(&engine);
    let mut reader = Reader::new(&t, &mut txn, EXCLUSIVE);
    assert_eq!(reader.first(&mut txn), Some(10));
    while_waited_for(&engine, &t, || {
        txn.lock(t.table(), 2, b"k", RowMode::X, OnLocked::Wait).unwrap();
    });
    assert_eq!(reader.rest(&mut txn), (3..=41).map(|n| n * 5).collect::<Vec<_>>());
}

#[test]
fn a_scan_at_the_snapshot_does_not_see_what_was_committed_while_it_waited() {
    let engine = open(&memory());
    let t = filled(&engine);
    let mut txn = begin(&engine);
    let lock = ScanLock { mode: RowMode::S, at_snapshot: true, ..EXCLUSIVE };
    let mut reader = Reader::new(&t, &mut txn, lock);
    assert_eq!(reader.first(&mut txn), Some(10));
    while_waited_for(&engine, &t, || {
        txn.lock(t.table(), 2, b"k", RowMode::X, OnLocked::Wait).unwrap();
    });
    assert_eq!(reader.rest(&mut txn), (2..=20).map(|n| n * 10).collect::<Vec<_>>());

    txn.rollback();

    // A row that changed is an error.
    let mut writer = Typed::bind(t.table().clone());
    let mut txn = begin(&engine);
    let mut reader = Reader::new(&t, &mut txn, lock);
    assert_eq!(reader.first(&mut txn), Some(10));
    let mut other = begin(&engine);
    writer.update(&mut other, (2, 20, ""), (2, 21, ""));
    other.commit().unwrap();
    assert_eq!(reader.next(&mut txn), Some(15));
    let changed = reader.scan.next(&mut txn, &mut reader.record, &mut Hooks(NoBlobs));
    assert_eq!(changed.unwrap_err().kind(), ErrorKind::Conflict);
}

/// A cursor holds on to the buffers that the tree had when it was positioned first.
#[test]
fn a_locking_look_up_finds_what_went_to_a_newer_buffer() {
    let engine = open(&memory());
    let t = filled(&engine);
    let mut writer = Typed::bind(t.table().clone());
    let mut txn = read_committed(&engine);
    let mut reader = Reader::new(&t, &mut txn, EXCLUSIVE);
    assert_eq!(reader.find(&mut txn, 10), Some(10));
    engine.flush_all().unwrap();
    let mut other = begin(&engine);
    writer.insert(&mut other, 11, "");
    other.commit().unwrap();
    assert_eq!(reader.find(&mut txn, 11), Some(11));
    assert_eq!(reader.find(&mut txn, 12), None);
}

fn row(record: &[u8]) -> RowInput<'_> {
    RowInput { record, blobs: &NoBlobs, row_id: 0 }
}

/// Entries that are missing in the indexes on `a` and on `s`, and those that belong to no row: `[-1, 2]`.
fn off(engine: &Engine, t: &Typed) -> [i64; 2] {
    let mut outcome = CheckOutcome::default();
    t.rows.check(engine, &mut outcome, &mut || false, None).unwrap();
    ["by_a", "by_s"].map(|index| {
        let of = outcome.problems.iter().filter(|p| p.contains(index));
        of.map(|p| i64::from(p.contains("leads to a row")) - i64::from(p.contains("is missing")))
            .sum()
    })
}

#[test]
fn an_update_of_a_row_that_changed_while_its_lock_was_waited_for_is_refused() {
    let engine = open(&memory());
    let t = filled(&engine);
    let (mut first, mut second) = (Typed::bind(t.table().clone()), Typed::bind(t.table().clone()));
    let mut other = read_committed(&engine);
    first.update(&mut other, (1, 10, ""), (1, 11, ""));
    std::thread::scope(|s| {
        s.spawn(|| {
            while lock_waits(&engine) == 0 {
                std::thread::yield_now();
            }
            other.commit().unwrap();
        });
        let mut txn = read_committed(&engine);
        let (old, new) = (t.record(1, 10, ""), t.record(1, 12, ""));
        let row = |record| RowInput { record, blobs: &NoBlobs, row_id: 0 };
        let flags = WriteFlags::default();
        let changed = second.rows.update(&mut txn, &row(&old), &row(&new), flags);
        assert_eq!(changed.unwrap_err().kind(), ErrorKind::Conflict);
    });
    let mut outcome = CheckOutcome::default();
    t.rows.check(&engine, &mut outcome, &mut || false, None).unwrap();
    assert_eq!(outcome.problems, Vec::<String>::new());
}

#[test]
fn locking_a_row_unread_waits_and_says_so_whether_it_is_there_or_not() {
    let engine = open(&memory());
    let t = filled(&engine);
    for (waits, id) in [(1, 1), (2, 99)] {
        let (mut first, mut second) =
            (Typed::bind(t.table().clone()), Typed::bind(t.table().clone()));
        let record = t.record(id, 10, "");
        let mut other = read_committed(&engine);
        assert!(!first.rows.lock_row(&mut other, &row(&record)).unwrap());
        std::thread::scope(|s| {
            s.spawn(|| {
                while lock_waits(&engine) < waits {
                    std::thread::yield_now();
                }
                other.commit().unwrap();
            });
            let mut txn = read_committed(&engine);
            assert!(second.rows.lock_row(&mut txn, &row(&record)).unwrap());
            assert!(!second.rows.lock_row(&mut txn, &row(&record)).unwrap());
        });
    }
}

/// The table of RFC 0013: what is left when the row is not the one that a change names.
#[test]
fn a_change_of_an_unread_row_replaces_the_entries_that_its_old_row_had() {
    let engine = open(&memory());
    let mut t = filled(&engine);
    let mut change = |old: (u64, i32, &str), new: Option<(u64, i32, &str)>| {
        let mut txn = read_committed(&engine);
        let was = t.record(old.0, old.1, old.2);
        t.rows.lock_row(&mut txn, &row(&was)).unwrap();
        match new {
            Some(new) => t.update(&mut txn, old, new),
            None => t.rows.delete(&mut txn, &row(&was), WriteFlags::default()).unwrap(),
        }
        txn.commit().unwrap();
        engine.flush_all().unwrap();
        off(&engine, &t)
    };
    assert_eq!(change((1, 10, ""), Some((1, 11, "x"))), [0, 0]);
    assert_eq!(change((2, 20, ""), None), [0, 0]);
    // Not there: nothing to delete. Applied again to the end: as after the first time.
    assert_eq!(change((2, 20, ""), None), [0, 0]);
    change((2, 20, ""), Some((2, 21, "")));
    assert_eq!(change((2, 21, ""), None), [0, 0]);
    // Not there: entries that change are made, one that does not is missing.
    assert_eq!(change((50, 1, "s"), Some((50, 2, "t"))), [0, 0]);
    assert_eq!(change((51, 1, "s"), Some((51, 1, "t"))), [-1, 0]);
    assert_eq!(change((51, 1, "t"), None), [0, 0]);
    // Another row, 30: the entries of what was stored stay.
    assert_eq!(change((3, 31, ""), Some((3, 32, "x"))), [1, 1]);
}

/// As [`typed::schema`], but the index on `a` holds whole rows.
fn clustering(engine: &Engine) -> Typed {
    let mut schema = typed::schema(false);
    schema.indexes[BY_A].clustering = true;
    Typed::bind(engine.create_table(typed::spec("t", &schema)).unwrap())
}

#[test]
fn rows_that_the_row_cache_has_in_an_older_form_are_found() {
    let engine = open(&memory());
    let mut t = clustering(&engine);
    let mut txn = begin(&engine);
    (0..300).for_each(|a| {
        t.insert(&mut txn, a, "x");
    });
    txn.commit().unwrap();
    engine.flush_all().unwrap();
    let all: Vec<i32> = (0..300).collect();
    let read = |t: &Typed| {
        let mut txn = begin(&engine);
        let mut r = Reader::new(t, &mut txn, EXCLUSIVE);
        r.first(&mut txn).into_iter().chain(r.rest(&mut txn)).collect::<Vec<_>>()
    };
    // What is read under the lock goes to the row cache.
    (0..2).for_each(|_| assert_eq!(read(&t), all));
    let table = t.table().clone();
    drop(t);
    let mut spec = alter::same(&table);
    let mut added = Column::new("c", ColumnType::Int { unsigned: false }, 4);
    added.nullable = true;
    spec.schema.columns.push(added);
    spec.column_from.push(None);
    assert_eq!(engine.alter_table(&table, spec).unwrap().commit().unwrap(), None);
    let mut t = Typed::bind(table);
    // Merges rewrite what lies beside new rows in the form of today.
    for _ in 0..40 {
        let mut txn = begin(&engine);
        (0..300).for_each(|a| {
            t.insert(&mut txn, a, "y");
        });
        txn.commit().unwrap();
        engine.flush_all().unwrap();
        while engine.background_step() {}
    }
    let mut txn = begin(&engine);
    let mut cursor = engine.cursor(&mut txn, t.table(), BY_A as u16).unwrap();
    let mut valid = cursor.first(&txn).unwrap();
    while valid {
        assert_eq!(cursor.value()[0], 2, "a row that no merge has renewed");
        valid = cursor.next(&txn).unwrap();
    }
    let hits = |engine: &Engine| number(engine, "row_cache_hits");
    let before = hits(&engine);
    let found = read(&t);
    assert_eq!(found.len(), 300 * 41, "rows that no scan delivers");
    assert!(hits(&engine) > before, "the row cache has none of the rows");
}

/// Changes candidates after the scan has read them and before it has their locks.
struct Changing<'t> {
    engine: &'t Engine,
    t: &'t mut Typed,
    met: u64,
    blobs: NoBlobs,
}

impl BlobSink for Changing<'_> {
    fn put_blob(&mut self, column: usize, field: &mut [u8], bytes: &[u8]) {
        self.blobs.put_blob(column, field, bytes);
    }
}

impl ScanHooks for Changing<'_> {
    fn condition(&mut self) -> Condition {
        self.met += 1;
        let n = self.met;
        let mut txn = begin(self.engine);
        match n {
            1..=3 => {
                let record = self.t.record(n, n as i32, "x");
                let row = RowInput { record: &record, blobs: &NoBlobs, row_id: 0 };
                self.t.rows.delete(&mut txn, &row, WriteFlags::default()).unwrap();
            }
            4 => self.t.update(&mut txn, (4, 4, "x"), (4, 4, "y")),
            _ => {}
        }
        txn.commit().unwrap();
        Condition::Accept
    }
    fn killed(&mut self) -> bool {
        false
    }
    fn blobs(&mut self) -> &mut dyn BlobSink {
        &mut self.blobs
    }
}

#[test]
fn a_row_that_changed_before_its_lock_is_delivered_however_many_went_before_it() {
    let engine = open(&memory());
    let mut t = clustering(&engine);
    let mut txn = begin(&engine);
    (1..=4).for_each(|a| {
        t.insert(&mut txn, a, "x");
    });
    txn.commit().unwrap();
    let mut txn = read_committed(&engine);
    let mut scan = Scan::open(&mut txn, &t.rows, BY_A, Some(EXCLUSIVE)).unwrap();
    scan.set_condition(true);
    let mut record = t.record(0, 0, "");
    let mut hooks = Changing { engine: &engine, t: &mut t, met: 0, blobs: NoBlobs };
    assert_eq!(scan.first(&mut txn, &mut record, &mut hooks).unwrap(), Fetched::Row);
    assert_eq!(record, t.record(4, 4, "y"));
}
