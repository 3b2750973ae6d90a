//! Serializable transactions: what a scan has read, or not found, stays so until they end.

use std::time::Duration;

use frond_engine::rows::{Fetched, Scan, ScanLock, TupleSeek, WriteFlags};
use frond_engine::{Engine, ErrorKind, Isolation, Result, RowMode, Transaction, TxnOptions, Xid};
use frond_row::{NoBlobs, RowInput};

use crate::locking_scans::{filled, Hooks, EXCLUSIVE};
use crate::support::*;
use crate::typed::{Typed, A};

const SHARED: ScanLock = ScanLock { mode: RowMode::S, ..EXCLUSIVE };
const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(20);

fn with(engine: &Engine, isolation: Isolation, lock_timeout: Duration) -> Transaction {
    engine.begin(TxnOptions { isolation, lock_timeout, latest_writes: false })
}

fn serializable(engine: &Engine) -> Transaction {
    with(engine, Isolation::Serializable, SHORT)
}

fn impatient(engine: &Engine) -> Transaction {
    with(engine, Isolation::ReadCommitted, SHORT)
}

fn insert(t: &mut Typed, txn: &mut Transaction, a: i32) -> Result<()> {
    let (id, _) = t.table().reserve_auto_increment(1, 1, 1).unwrap();
    let record = t.record(id, a, "");
    let row = RowInput { record: &record, blobs: &NoBlobs, row_id: 0 };
    t.rows.insert(txn, &row, WriteFlags::default()).map(drop)
}

/// Number of rows with that `a`, by the index.
fn count(t: &Typed, txn: &mut Transaction, a: i32, lock: ScanLock) -> Result<usize> {
    let mut scan = Scan::open(txn, &t.rows, 1, Some(lock))?;
    let mut record = t.record(0, 0, "");
    let tuple = a.to_le_bytes();
    let hooks = &mut Hooks(NoBlobs);
    let mut found = scan.seek(txn, TupleSeek::Exact, (&tuple, 1), &mut record, hooks)?;
    let mut n = 0;
    while found == Fetched::Row {
        n += 1;
        found = scan.next_same(txn, (&tuple, 1), &mut record, hooks)?;
    }
    Ok(n)
}

/// The first `most` of `a` from one end of the index on.
fn some(t: &Typed, txn: &mut Transaction, forward: bool, most: usize) -> Result<Vec<i32>> {
    let mut scan = Scan::open(txn, &t.rows, 1, Some(SHARED))?;
    let mut record = t.record(0, 0, "");
    let hooks = &mut Hooks(NoBlobs);
    let mut found = match forward {
        true => scan.first(txn, &mut record, hooks)?,
        false => scan.last(txn, &mut record, hooks)?,
    };
    let mut all = Vec::new();
    while found == Fetched::Row {
        let at = t.offset(A);
        all.push(i32::from_le_bytes(record[at..at + 4].try_into().unwrap()));
        if all.len() == most {
            break;
        }
        found = match forward {
            true => scan.next(txn, &mut record, hooks)?,
            false => scan.prev(txn, &mut record, hooks)?,
        };
    }
    Ok(all)
}

fn kind<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.unwrap_err().kind()
}

#[test]
fn what_was_not_found_is_not_inserted_before_the_reader_ends() {
    let engine = open(&memory());
    let mut t = filled(&engine);
    for lock in [SHARED, EXCLUSIVE] {
        let mut reader = serializable(&engine);
        assert_eq!(count(&t, &mut reader, 105, lock).unwrap(), 0);
        let mut other = impatient(&engine);
        assert_eq!(kind(insert(&mut t, &mut other, 105)), ErrorKind::LockTimeout);
        // Its neighbours are free.
        insert(&mut t, &mut other, 104).unwrap();
        insert(&mut t, &mut other, 106).unwrap();
        other.rollback();
        insert(&mut t, &mut reader, 105).unwrap();
        assert_eq!(count(&t, &mut reader, 105, lock).unwrap(), 1);
        reader.rollback();
    }
    // At other levels nothing but rows is locked.
    let mut reader = with(&engine, Isolation::Snapshot, SHORT);
    assert_eq!(count(&t, &mut reader, 105, SHARED).unwrap(), 0);
    let mut other = impatient(&engine);
    insert(&mut t, &mut other, 105).unwrap();
    other.commit().unwrap();
}

#[test]
fn a_statement_that_is_run_again_elsewhere_locks_ranges_at_every_level() {
    let engine = open(&memory());
    let mut t = filled(&engine);
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        let mut reader = with(&engine, isolation, SHORT);
        reader.lock_ranges();
        assert_eq!(count(&t, &mut reader, 105, SHARED).unwrap(), 0);
        // The next statement is another one.
        reader.end_statement();
        assert_eq!(count(&t, &mut reader, 107, SHARED).unwrap(), 0);
        let mut other = impatient(&engine);
        insert(&mut t, &mut other, 107).unwrap();
        assert_eq!(kind(insert(&mut t, &mut other, 105)), ErrorKind::LockTimeout);
        other.rollback();
        reader.commit().unwrap();
    }
}

#[test]
fn both_ends_of_an_index_are_locked_when_they_were_read() {
    let engine = open(&memory());
    let mut t = filled(&engine);
    for forward in [true, false] {
        let mut reader = serializable(&engine);
        let two = some(&t, &mut reader, forward, 2).unwrap();
        assert_eq!(two, if forward { [10, 20] } else { [200, 190] });
        let (near, far) = if forward { (5, 205) } else { (205, 5) };
        let mut other = impatient(&engine);
        insert(&mut t, &mut other, far).unwrap();
        assert_eq!(kind(insert(&mut t, &mut other, near)), ErrorKind::LockTimeout);
        other.rollback();
        reader.commit().unwrap();
        let mut reader = serializable(&engine);
        assert_eq!(some(&t, &mut reader, forward, 100).unwrap().len(), 20);
        for a in [near, far, 105] {
            let mut other = impatient(&engine);
            assert_eq!(kind(insert(&mut t, &mut other, a)), ErrorKind::LockTimeout, "{a}");
        }
    }
    // An empty index is all gap.
    let mut empty = Typed::create(&engine, "empty", false);
    let mut reader = serializable(&engine);
    assert_eq!(some(&empty, &mut reader, true, 1).unwrap(), [0; 0]);
    let mut other = impatient(&engine);
    assert_eq!(kind(insert(&mut empty, &mut other, 1)), ErrorKind::LockTimeout);
}

#[test]
fn a_change_that_came_before_the_reader_waits_when_it_commits() {
    let engine = open(&memory());
    let mut t = filled(&engine);
    // Nobody locks ranges yet: it takes no lock for the entry.
    let mut writer = impatient(&engine);
    insert(&mut t, &mut writer, 105).unwrap();
    let mut reader = serializable(&engine);
    assert_eq!(count(&t, &mut reader, 105, SHARED).unwrap(), 0);
    assert_eq!(kind(writer.commit()), ErrorKind::LockTimeout);
    assert_eq!(count(&t, &mut reader, 105, SHARED).unwrap(), 0);
    let mut writer = with(&engine, Isolation::ReadCommitted, LONG);
    // Elsewhere it does not have to wait.
    insert(&mut t, &mut writer, 107).unwrap();
    writer.commit().unwrap();
    reader.rollback();

    let mut reader = serializable(&engine);
    let mut writer = with(&engine, Isolation::ReadCommitted, LONG);
    insert(&mut t, &mut writer, 105).unwrap();
    assert_eq!(count(&t, &mut reader, 105, SHARED).unwrap(), 0);
    std::thread::scope(|scope| {
        let commit = scope.spawn(move || writer.commit().map(drop));
        let mut waits = false;
        while !waits {
            std::thread::yield_now();
            engine.each_lock_wait(&mut |_| {
                waits = true;
                true
            });
        }
        assert_eq!(count(&t, &mut reader, 105, SHARED).unwrap(), 0);
        reader.commit().unwrap();
        commit.join().unwrap().unwrap();
    });
    assert_eq!(count(&t, &mut serializable(&engine), 105, SHARED).unwrap(), 1);
}

#[test]
fn a_reader_waits_for_what_is_prepared() {
    let engine = open(&memory());
    let mut t = filled(&engine);
    let mut writer = impatient(&engine);
    insert(&mut t, &mut writer, 105).unwrap();
    let prepared = writer.prepare(Xid::new(1, b"x", b"").unwrap()).unwrap();
    let mut reader = serializable(&engine);
    assert_eq!(count(&t, &mut reader, 104, SHARED).unwrap(), 0);
    assert_eq!(kind(count(&t, &mut reader, 105, SHARED)), ErrorKind::LockTimeout);
    reader.rollback();
    prepared.commit(true).unwrap();
    assert_eq!(count(&t, &mut serializable(&engine), 105, SHARED).unwrap(), 1);
}

/// A reader whose wait has failed keeps the range, and another one has the same range beside it.
#[test]
fn each_reader_waits_for_what_is_prepared_as_often_as_it_reads() {
    let engine = open(&memory());
    let mut t = filled(&engine);
    let mut writer = impatient(&engine);
    insert(&mut t, &mut writer, 105).unwrap();
    let prepared = writer.prepare(Xid::new(1, b"x", b"").unwrap()).unwrap();
    let mut readers = [serializable(&engine), serializable(&engine)];
    for _ in 0..2 {
        for reader in &mut readers {
            assert_eq!(kind(count(&t, reader, 105, SHARED)), ErrorKind::LockTimeout);
            assert_eq!(kind(some(&t, reader, true, usize::MAX)), ErrorKind::LockTimeout);
        }
    }
    prepared.commit(true).unwrap();
    for reader in &mut readers {
        assert_eq!(count(&t, reader, 105, SHARED).unwrap(), 1);
        assert_eq!(some(&t, reader, true, usize::MAX).unwrap().len(), 21);
    }
}

/// "Insert one if there is none", by several threads that commit at once or prepare first.
#[test]
fn of_those_who_find_none_one_inserts() {
    let engine = open(&memory());
    let t = Typed::create(&engine, "t", false);
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            let (engine, table) = (&engine, t.table().clone());
            scope.spawn(move || {
                let mut t = Typed::bind(table);
                let mut rng = Rng(n + 1);
                for group in 0..150 {
                    loop {
                        let lock = if rng.next().is_multiple_of(2) { SHARED } else { EXCLUSIVE };
                        let mut txn = with(engine, Isolation::Serializable, LONG);
                        let done = count(&t, &mut txn, group, lock).and_then(|found| {
                            if found == 0 {
                                insert(&mut t, &mut txn, group)?;
                            }
                            if rng.next().is_multiple_of(2) {
                                return txn.commit().map(drop);
                            }
                            let name = (group as u64 * 4 + n).to_le_bytes();
                            let prepared = txn.prepare(Xid::new(1, &name, b"")?)?;
                            std::thread::yield_now();
                            prepared.commit(true).map(drop)
                        });
                        match done {
                            Ok(()) => break,
                            Err(e) => assert_eq!(e.kind(), ErrorKind::Deadlock, "{e}"),
                        }
                    }
                    // A writer that looks at nothing.
                    let mut blind = with(engine, Isolation::ReadCommitted, LONG);
                    insert(&mut t, &mut blind, 1000 + group).unwrap();
                    blind.commit().unwrap();
                }
            });
        }
    });
    let mut reader = serializable(&engine);
    let all = some(&t, &mut reader, true, usize::MAX).unwrap();
    let found: Vec<i32> = all.into_iter().filter(|a| *a < 1000).collect();
    assert_eq!(found, (0..150).collect::<Vec<_>>());
}
