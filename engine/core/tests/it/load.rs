//! Rows for an empty table, which are sorted instead of written one by one. That nothing of it is seen after a crash
//! before the commit, and all after it, is as for all private runs (`spill.rs`, the simulator).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use frond_engine::rows::{WriteFlags, Written};
use frond_engine::{Engine, ErrorKind, Isolation, Options, Transaction, TxnOptions, Xid};
use frond_row::{NoBlobs, RowInput};
use frond_vfs::testing::SmallDisk;
use frond_vfs::MemVfs;

use crate::alter::checked;
use crate::durability::copy;
use crate::spill::{number, settle};
use crate::support::*;
use crate::typed::Typed;

type Model = BTreeMap<u64, i32>;

/// Loads begin at 256 rows; a chunk has less than a thousand.
fn options() -> Options {
    Options { transaction_bytes: 128 << 10, ..small() }
}

fn open_it(vfs: &MemVfs) -> Engine {
    Engine::open(Arc::new(vfs.clone()), options()).unwrap()
}

fn text(a: i32) -> String {
    format!("text {}", a.wrapping_mul(7) % 1_000)
}

fn try_insert(
    t: &mut Typed,
    txn: &mut Transaction,
    id: u64,
    a: i32,
) -> frond_base::Result<Written> {
    let hidden = t.rows.codec().schema().hidden_primary;
    let row_id = if hidden { t.table().next_row_id() } else { 0 };
    let record = t.record(id, a, &text(a));
    let row = RowInput { record: &record, blobs: &NoBlobs, row_id };
    t.rows.insert(txn, &row, WriteFlags::default())
}

fn insert(t: &mut Typed, txn: &mut Transaction, id: u64, a: i32) -> Written {
    try_insert(t, txn, id, a).unwrap()
}

fn delete(t: &mut Typed, txn: &mut Transaction, id: u64, a: i32) {
    let record = t.record(id, a, &text(a));
    let row = RowInput { record: &record, blobs: &NoBlobs, row_id: 0 };
    t.rows.delete(txn, &row, WriteFlags::default()).unwrap();
}

/// A permutation of the numbers below `n`, which is no multiple of 7919.
fn shuffled(n: u64) -> impl Iterator<Item = u64> {
    (0..n).map(move |i| i * 7_919 % n)
}

/// What the indexes of a table with `id` as its primary key must have.
fn assert_holds(engine: &Engine, t: &Typed, rows: &Model) {
    let t = checked(engine, t.table());
    assert_eq!(t.table().rows(), rows.len() as u64);
    for tree in 0..t.table().trees().len() {
        let mut txn = begin(engine);
        let mut cursor = engine.cursor(&mut txn, t.table(), tree as u16).unwrap();
        let (mut valid, mut ids) = (cursor.first(&txn).unwrap(), Vec::new());
        while valid {
            let key = cursor.key().last_chunk::<8>().unwrap();
            ids.push(u64::from_be_bytes(*key) ^ 1 << 63);
            valid = cursor.next(&txn).unwrap();
        }
        ids.sort_unstable();
        assert!(ids.iter().eq(rows.keys()), "tree {tree}: {} of {}", ids.len(), rows.len());
    }
}

fn impatient(engine: &Engine) -> Transaction {
    let isolation = Isolation::ReadCommitted;
    engine.begin(TxnOptions { lock_timeout: Duration::ZERO, isolation, latest_writes: true })
}

#[test]
fn rows_in_any_order_are_loaded_and_seen_at_the_commit() {
    let vfs = memory();
    let engine = open_it(&vfs);
    for (name, in_order) in [("sorted", true), ("shuffled", false)] {
        let mut t = Typed::create(&engine, name, false);
        let loads = number(&engine, "loads");
        let mut txn = begin(&engine);
        let mut model = Model::new();
        let ids: Vec<u64> = if in_order { (0..4_000).collect() } else { shuffled(4_000).collect() };
        for id in ids {
            assert_eq!(insert(&mut t, &mut txn, id, (id % 50) as i32), Written::Done);
            model.insert(id, (id % 50) as i32);
        }
        assert_eq!(number(&engine, "loads"), loads + 1);
        assert_eq!(txn.changes(), 3 * 4_000);
        assert_holds(&engine, &t, &Model::new());
        txn.commit().unwrap();
        assert_holds(&engine, &t, &model);
        settle(&engine);
        assert_holds(&engine, &t, &model);
        let again = open_it(&copy(&vfs));
        let after = Typed::bind(again.open_table(name).unwrap());
        assert_holds(&again, &after, &model);
    }
}

#[test]
fn a_duplicate_of_any_earlier_row_is_found_when_it_is_inserted() {
    let engine = open_it(&memory());
    // In the write set before the load, in a run, in the chunk.
    for (at, wanted) in [(3, 1), (600, 1), (2_990, 1), (2_999, 1)] {
        for in_order in [true, false] {
            for hidden in [false, true] {
                let name = format!("t{at}{in_order}{hidden}");
                let mut t = Typed::create(&engine, &name, hidden);
                let loads = number(&engine, "loads");
                let mut txn = begin(&engine);
                let ids: Vec<u64> =
                    if in_order { (0..3_000).collect() } else { shuffled(3_000).collect() };
                for id in &ids {
                    assert_eq!(insert(&mut t, &mut txn, *id, 1), Written::Done);
                }
                assert_eq!(number(&engine, "loads"), loads + wanted, "{name}");
                let index = if hidden { 3 } else { 0 };
                for _ in 0..2 {
                    let again = insert(&mut t, &mut txn, ids[at], 2);
                    assert_eq!(again, Written::Duplicate(index), "{name}");
                }
                for id in 5_000..5_400 {
                    assert_eq!(insert(&mut t, &mut txn, id, 1), Written::Done);
                }
                txn.commit().unwrap();
                assert_eq!(checked(&engine, t.table()).table().rows(), 3_400);
            }
        }
    }
}

#[test]
fn savepoints_reads_and_changes_in_the_middle_of_a_load_are_as_ever() {
    for seed in 0..12 {
        let engine = open_it(&memory());
        let mut t = Typed::create(&engine, "t", false);
        let mut rng = Rng(seed);
        let mut txn = begin(&engine);
        let mut model = Model::new();
        let mut saved: Vec<(u64, Model)> = Vec::new();
        let (mut next, disturbs) = (0, seed >= 8);
        for _ in 0..3_000 {
            match rng.below(60) {
                0 => saved.push((txn.savepoint(), model.clone())),
                1 if !saved.is_empty() => {
                    let at = rng.below(saved.len() as u64) as usize;
                    saved.truncate(at + 1);
                    let (savepoint, was) = &saved[at];
                    txn.rollback_to(*savepoint);
                    model = was.clone();
                }
                2 if !saved.is_empty() => {
                    let at = rng.below(saved.len() as u64) as usize;
                    txn.release(saved.remove(at).0);
                }
                3 if disturbs && !model.is_empty() => {
                    let id = *model.keys().nth(rng.below(model.len() as u64) as usize).unwrap();
                    let a = model.remove(&id).unwrap();
                    delete(&mut t, &mut txn, id, a);
                }
                4 if disturbs => {
                    let mut cursor = engine.cursor(&mut txn, t.table(), 0).unwrap();
                    let (mut valid, mut rows) = (cursor.first(&txn).unwrap(), 0);
                    while valid {
                        rows += 1;
                        valid = cursor.next(&txn).unwrap();
                    }
                    assert_eq!(rows, model.len());
                }
                _ => {
                    next += 1;
                    let (id, a) = (next * 7_919 % 10_007, rng.below(9) as i32);
                    assert_eq!(insert(&mut t, &mut txn, id, a), Written::Done);
                    model.insert(id, a);
                }
            }
        }
        assert_eq!(number(&engine, "loads"), 1, "seed {seed}");
        txn.commit().unwrap();
        assert_holds(&engine, &t, &model);
        settle(&engine);
        assert_holds(&engine, &t, &model);
    }
}

#[test]
fn others_wait_for_a_load_and_a_load_does_not_begin_beside_others() {
    let engine = open_it(&memory());
    let mut t = Typed::create(&engine, "t", false);
    let mut mine = Typed::bind(t.table().clone());
    let mut txn = begin(&engine);
    (0..1_000).for_each(|id| assert_eq!(insert(&mut mine, &mut txn, id, 1), Written::Done));
    assert_eq!(number(&engine, "loads"), 1);
    let mut other = impatient(&engine);
    let e = try_insert(&mut t, &mut other, 5_000, 1).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::LockNoWait);
    drop(other);
    txn.rollback();
    assert_holds(&engine, &t, &Model::new());

    let mut other = impatient(&engine);
    insert(&mut t, &mut other, 700, 1);
    let mut txn = impatient(&engine);
    for id in (0..1_000).filter(|id| *id != 700) {
        insert(&mut mine, &mut txn, id, 1);
    }
    assert_eq!(number(&engine, "loads"), 1);
    other.commit().unwrap();
    assert_eq!(insert(&mut mine, &mut txn, 700, 2), Written::Duplicate(0));
    txn.commit().unwrap();
    assert_holds(&engine, &t, &(0..1_000).map(|id| (id, 1)).collect());
    // The table is not empty any more.
    let mut txn = begin(&engine);
    (2_000..3_000).for_each(|id| assert_eq!(insert(&mut mine, &mut txn, id, 1), Written::Done));
    txn.commit().unwrap();
    assert_eq!(number(&engine, "loads"), 1);
}

#[test]
fn rows_that_a_snapshot_sees_do_not_come_again_by_a_load() {
    let engine = open_it(&memory());
    let mut t = Typed::create(&engine, "t", false);
    let mut txn = begin(&engine);
    insert(&mut t, &mut txn, 400, 1);
    txn.commit().unwrap();
    let mut old = begin(&engine);
    old.snapshot();
    let mut txn = begin(&engine);
    delete(&mut t, &mut txn, 400, 1);
    txn.commit().unwrap();
    let kinds: Vec<_> = (0..1_000)
        .filter_map(|id| try_insert(&mut t, &mut old, id, 1).err())
        .map(|e| e.kind())
        .collect();
    assert_eq!((kinds, number(&engine, "loads")), (vec![ErrorKind::Conflict], 0));
}

#[test]
fn a_full_disk_ends_a_load_and_leaves_the_table_empty() {
    let disk = SmallDisk::new(memory(), 64 << 20);
    let engine = Engine::open(Arc::new(disk.clone()), options()).unwrap();
    let mut t = Typed::create(&engine, "t", false);
    let mut txn = begin(&engine);
    let statement = txn.savepoint();
    let mut model = Model::new();
    for id in shuffled(2_000) {
        assert_eq!(insert(&mut t, &mut txn, id, 5), Written::Done);
    }
    disk.leave(100 << 10);
    let refused = shuffled(50_000).find_map(|id| try_insert(&mut t, &mut txn, id + 2_000, 1).err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::NoSpace);
    assert_eq!(number(&engine, "loads"), 1);
    txn.rollback_to(statement);
    disk.add(32 << 20);
    // The transaction goes on.
    for id in shuffled(1_000) {
        assert_eq!(insert(&mut t, &mut txn, id, 5), Written::Done);
        model.insert(id, 5);
    }
    txn.commit().unwrap();
    assert_holds(&engine, &t, &model);
    assert!(!engine.is_poisoned());
}

#[test]
fn a_full_disk_takes_back_one_statement_and_not_the_rows_before_it() {
    let disk = SmallDisk::new(memory(), 64 << 20);
    let engine = Engine::open(Arc::new(disk.clone()), options()).unwrap();
    let mut t = Typed::create(&engine, "t", false);
    let mut txn = begin(&engine);
    let mut model = Model::new();
    for id in shuffled(400) {
        assert_eq!(insert(&mut t, &mut txn, id, 5), Written::Done);
        model.insert(id, 5);
    }
    assert_eq!(number(&engine, "loads"), 1);
    // Some of the rows are in a chunk, which cannot be written.
    let statement = txn.savepoint();
    disk.leave(0);
    let refused = shuffled(5_000).find_map(|id| try_insert(&mut t, &mut txn, id + 400, 1).err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::NoSpace);
    txn.rollback_to(statement);
    disk.add(32 << 20);
    for id in shuffled(1_000) {
        assert_eq!(insert(&mut t, &mut txn, id + 2_000, 7), Written::Done);
        model.insert(id + 2_000, 7);
    }
    txn.commit().unwrap();
    assert_holds(&engine, &t, &model);
    assert!(!engine.is_poisoned());
}

#[test]
fn an_interrupt_ends_a_load() {
    let engine = open_it(&memory());
    let mut t = Typed::create(&engine, "t", false);
    let mut txn = begin(&engine);
    let refused = (0..5_000).find_map(|id| {
        if id == 2_000 {
            txn.handle().interrupt();
        }
        try_insert(&mut t, &mut txn, id, 1).err()
    });
    assert_eq!(refused.unwrap().kind(), ErrorKind::Interrupted);
    txn.rollback();
    assert_holds(&engine, &t, &Model::new());
}

#[test]
fn a_prepared_load_survives_and_commits() {
    let vfs = memory();
    let engine = open_it(&vfs);
    let mut t = Typed::create(&engine, "t", false);
    let mut txn = begin(&engine);
    let mut model = Model::new();
    for id in shuffled(2_000) {
        insert(&mut t, &mut txn, id, 1);
        model.insert(id, 1);
    }
    let xid = Xid::new(1, b"load", b"here").unwrap();
    let prepared = txn.prepare(xid.clone()).unwrap();
    let again = open_it(&copy(&vfs));
    let after = Typed::bind(again.open_table("t").unwrap());
    assert_holds(&again, &after, &Model::new());
    again.commit_prepared(&xid).unwrap();
    assert_holds(&again, &after, &model);
    prepared.rollback().unwrap();
    assert_holds(&engine, &t, &Model::new());
}

#[test]
fn many_rows_for_a_table_that_has_some_do_not_lock_it() {
    for hidden in [false, true] {
        let engine = open_it(&memory());
        let mut t = Typed::create(&engine, "t", hidden);
        let mut mine = Typed::bind(t.table().clone());
        let mut txn = begin(&engine);
        insert(&mut t, &mut txn, 90_000, 1);
        txn.commit().unwrap();
        let mut txn = begin(&engine);
        (0..1_000).for_each(|id| assert_eq!(insert(&mut mine, &mut txn, id, 1), Written::Done));
        let mut other = impatient(&engine);
        assert_eq!(insert(&mut t, &mut other, 91_000, 1), Written::Done);
        other.commit().unwrap();
        txn.commit().unwrap();
        assert_eq!(number(&engine, "loads"), 0);
        assert_eq!(checked(&engine, t.table()).table().rows(), 1_002);
    }
}

#[test]
fn what_a_load_knows_of_keys_is_counted_as_memory() {
    let engine = open_it(&memory());
    let mut t = Typed::create(&engine, "t", false);
    let mut txn = begin(&engine);
    for id in shuffled(20_000) {
        assert_eq!(insert(&mut t, &mut txn, id, 1), Written::Done);
    }
    // 20 000 hashes are in 32 768 places; a sixteenth of the cache may be taken.
    let held = number(&engine, "write_memory_bytes");
    assert!(held > 256 << 10, "{held}");
    txn.commit().unwrap();
    engine.flush_all().unwrap();
    let held = number(&engine, "write_memory_bytes");
    assert!(held < 128 << 10, "{held}");
}

#[test]
fn many_tables_in_one_transaction_do_not_make_small_runs() {
    let spills = |tables: u64| {
        let options = Options { transaction_bytes: 1 << 20, ..options() };
        let engine = Engine::open(Arc::new(memory()), options).unwrap();
        let mut all: Vec<Typed> =
            (0..tables).map(|n| Typed::create(&engine, &format!("t{n}"), false)).collect();
        let mut txn = begin(&engine);
        let rows = 64_000 / tables;
        for id in shuffled(rows) {
            for t in &mut all {
                assert_eq!(insert(t, &mut txn, id, 1), Written::Done);
            }
        }
        assert_eq!(number(&engine, "loads"), tables);
        txn.commit().unwrap();
        for t in &all {
            assert_eq!(checked(&engine, t.table()).table().rows(), rows);
        }
        number(&engine, "spills")
    };
    let (one, many) = (spills(1), spills(16));
    // Each of the 16 begins with what was written before, three trees of it, and is written out when all together
    // have filled the transaction's memory.
    assert!(many <= 8 * one + 16 * 6, "{many} against {one}");
}

#[test]
fn a_cursor_from_before_a_load_does_not_miss_its_rows() {
    let engine = open_it(&memory());
    let mut t = Typed::create(&engine, "t", false);
    let mut txn = begin(&engine);
    let mut cursor = engine.cursor(&mut txn, t.table(), 0).unwrap();
    assert!(!cursor.first(&txn).unwrap());
    (0..1_000).for_each(|id| assert_eq!(insert(&mut t, &mut txn, id, 1), Written::Done));
    assert_eq!(number(&engine, "loads"), 1);
    assert_eq!(cursor.first(&txn).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // A cursor that is opened now ends the load.
    let mut cursor = engine.cursor(&mut txn, t.table(), 0).unwrap();
    let (mut valid, mut rows) = (cursor.first(&txn).unwrap(), 0);
    while valid {
        rows += 1;
        valid = cursor.next(&txn).unwrap();
    }
    assert_eq!(rows, 1_000);
}
