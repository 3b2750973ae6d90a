//! Two rows that have the same key of a primary index that is being built, whenever.

use std::sync::Arc;
use std::time::Duration;

use frond_base::{ErrorKind, SEQ_MAX};
use frond_engine::rows::WriteFlags;
use frond_engine::{Engine, Options, TxnOptions};
use frond_row::{NoBlobs, RowInput};

use crate::alter::checked;
use crate::alter_primary::{
    assert_alone, build, delete_twin, primary_of, twin, with_primary, Load,
};
use crate::durability::copy;
use crate::prepared::xid;
use crate::support::*;
use crate::typed::Typed;

#[test]
fn rows_with_equal_keys_are_found_whoever_wrote_them() {
    for seed in 0..84 {
        let vfs = memory();
        let engine = open(&vfs);
        let (load, mut t) = Load::create(&engine, true, seed, 2_500);
        engine.flush_all().unwrap();
        let mut rng = Rng(seed);
        let (when, kind) = (rng.below(22), seed % 7);
        let victim = 1 + rng.below(2_500);
        let meanwhile = |t: &mut Typed| {
            let mut txn = begin(&engine);
            match kind {
                // A new row with the key of an old one.
                0 | 1 => drop(twin(t, &mut txn, victim)),
                // Two new rows.
                2 => (0..2).for_each(|_| drop(twin(t, &mut txn, 1_000_000))),
                // Another transaction's.
                3 => {
                    twin(t, &mut txn, 1_000_000);
                    txn.commit().unwrap();
                    txn = begin(&engine);
                    twin(t, &mut txn, 1_000_000);
                }
                // An old row that gets the key of another.
                4 => {
                    let (a, s, row_id) = load.rows[&victim].clone();
                    let next = victim % 2_500 + 1;
                    let (old, new) = (t.record(victim, a, &s), t.record(next, a, &s));
                    let row = |record| RowInput { record, blobs: &NoBlobs, row_id };
                    t.rows.update(&mut txn, &row(&old), &row(&new), WriteFlags::default()).unwrap();
                }
                // One that is gone soon, with the entry of the other row.
                5 => {
                    let made = twin(t, &mut txn, victim);
                    txn.commit().unwrap();
                    txn = begin(&engine);
                    delete_twin(t, &mut txn, &made);
                }
                // The same within one transaction.
                _ => {
                    let made = twin(t, &mut txn, victim);
                    delete_twin(t, &mut txn, &made);
                }
            }
            txn.commit().unwrap();
        };
        let early = kind == 0;
        if early {
            meanwhile(&mut t);
        }
        let table = t.table().clone();
        let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
        let reader = Typed::bind(table.clone());
        let (mut polls, mut done) = (0, early);
        let found = alter.build(&reader.rows, &mut |_, _| {
            if polls == when && !done {
                meanwhile(&mut t);
                done = true;
            }
            polls += 1;
            engine.background_step();
            true
        });
        let found = match found.unwrap() {
            Some(found) => {
                drop(alter);
                found
            }
            None => {
                if !done {
                    meanwhile(&mut t);
                }
                alter.commit().unwrap().expect("a violation, at the commit at the latest")
            }
        };
        assert_eq!(found.index, 0);
        if kind < 5 {
            let row = table.tree(0).get(&found.primary_key, SEQ_MAX, &mut Vec::new());
            assert!(row.unwrap().is_some(), "kind {kind}");
        }
        assert_eq!(primary_of(&engine), []);
        checked(&engine, &table);
        assert_alone(&engine);
        // Other columns make another key.
        if kind > 4 {
            let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
            assert_eq!(build(&mut alter, &t), None);
            assert_eq!(alter.commit().unwrap(), None);
            load.verify(&engine);
        }
    }
}

/// More equal keys than a chunk has room for, in chunks and across them.
#[test]
fn rows_with_equal_keys_are_found_among_many() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { background_threads: 3, ..small() };
    let engine = on_disk(&dir, options);
    let (_, mut t) = Load::create(&engine, true, 1, 10);
    for _ in 0..6 {
        let mut txn = begin(&engine);
        for _ in 0..10_000 {
            t.insert(&mut txn, 5, "the same in all rows");
        }
        txn.commit().unwrap();
    }
    let table = t.table().clone();
    for columns in [&[1][..], &[2], &[1, 2]] {
        let mut alter = engine.alter_table(&table, with_primary(&table, columns)).unwrap();
        let found = build(&mut alter, &t).expect("a violation");
        let row = table.tree(0).get(&found.primary_key, SEQ_MAX, &mut Vec::new());
        assert!(row.unwrap().is_some());
    }
}

/// A twin in private runs, whose notes are in runs, too.
#[test]
fn a_transaction_larger_than_memory_with_an_equal_key_is_found() {
    let options = Options { transaction_bytes: 64 << 10, ..small() };
    let engine = Engine::open(Arc::new(memory()), options).unwrap();
    let (mut load, mut t) = Load::create(&engine, true, 9, 3_000);
    for late in [false, true] {
        let table = t.table().clone();
        let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
        let large = |load: &mut Load, t: &mut Typed| {
            let mut large = begin(&engine);
            let made = twin(t, &mut large, 5);
            (0..2_000).for_each(|_| load.insert(t, &mut large));
            delete_twin(t, &mut large, &made);
            large.commit().unwrap();
        };
        if !late {
            large(&mut load, &mut t);
            assert!(build(&mut alter, &t).is_some());
            continue;
        }
        assert_eq!(build(&mut alter, &t), None);
        large(&mut load, &mut t);
        assert!(alter.commit().unwrap().is_some());
    }
    load.verify(&engine);
}

/// Whoever has put or given up a key has it until the end.
#[test]
fn a_key_belongs_to_one_transaction_at_a_time() {
    let engine = open(&memory());
    let (load, mut t) = Load::create(&engine, true, 1, 100);
    let table = t.table().clone();
    let mut other = Typed::bind(table.clone());
    let waits = |t: &mut Typed, id: u64| {
        let mut txn =
            engine.begin(TxnOptions { lock_timeout: Duration::ZERO, ..Default::default() });
        let record = t.record(id, 7, "other");
        let row = RowInput { record: &record, blobs: &NoBlobs, row_id: t.table().next_row_id() };
        let written = t.rows.insert(&mut txn, &row, WriteFlags::default());
        written.map(drop).map_err(|e| e.kind())
    };
    assert_eq!(waits(&mut other, 5), Ok(()));
    let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
    let mut txn = begin(&engine);
    // One that is new, one that is gone, one that another row has now, one that it had, one that stays.
    twin(&mut t, &mut txn, 1_000);
    let mut rows = Load { rows: load.clone_rows(), rng: Rng(1) };
    rows.delete(&mut t, &mut txn, 5);
    let (a, s, _) = rows.rows[&6].clone();
    rows.update(&mut t, &mut txn, 6, (1_006, a, &s));
    let (a, s, _) = rows.rows[&7].clone();
    rows.update(&mut t, &mut txn, 7, (7, a + 1, &s));
    for id in [1_000, 5, 6, 1_006, 7] {
        assert_eq!(waits(&mut other, id), Err(ErrorKind::LockNoWait), "{id}");
    }
    for id in [8, 2_000] {
        assert_eq!(waits(&mut other, id), Ok(()), "{id}");
    }
    txn.rollback();
    for id in [1_000, 5, 6, 1_006, 7] {
        assert_eq!(waits(&mut other, id), Ok(()), "{id}");
    }
    // None of this was committed.
    assert_eq!(build(&mut alter, &t), None);
    assert_eq!(alter.commit().unwrap(), None);
    load.verify(&engine);
}

/// Both are prepared when the power is lost. Each must have the key's lock, or the start would find two owners.
#[test]
fn prepared_rows_with_equal_keys_do_not_meet() {
    let vfs = memory();
    let engine = open(&vfs);
    let (mut load, mut t) = Load::create(&engine, true, 1, 100);
    let table = t.table().clone();
    let alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
    let mut txn = begin(&engine);
    let (a, s, _) = load.rows[&7].clone();
    load.update(&mut t, &mut txn, 7, (7, a + 1, &s));
    let _first = txn.prepare(xid(1)).unwrap();
    let mut txn = engine.begin(TxnOptions { lock_timeout: Duration::ZERO, ..Default::default() });
    let record = t.record(7, 7, "twin");
    let row = RowInput { record: &record, blobs: &NoBlobs, row_id: table.next_row_id() };
    if t.rows.insert(&mut txn, &row, WriteFlags::default()).is_ok() {
        txn.prepare(xid(2)).unwrap();
    }
    let crashed = open(&copy(&vfs));
    assert_eq!(crashed.prepared().len(), 1);
    drop(alter);
}
