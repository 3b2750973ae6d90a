//! Foreign keys and the transactions beside them: what a snapshot reads after a cascade, parents that are missing, and those
//! that are not there yet. The tests take milliseconds.

use std::time::Duration;

use frond_engine::rows::{Fetched, Scan};
use frond_engine::{Action, Engine, ErrorKind, Isolation, Transaction, TxnOptions};
use frond_row::NoBlobs;

use crate::foreign::{child, family, foreign, insert, kind, schema, spec, Bound};
use crate::locking_scans::Hooks;
use crate::support::*;

/// The first columns of the rows of `table`, read through each of its indexes without locks.
fn ids_by_index(engine: &Engine, txn: &mut Transaction, table: &str) -> Vec<Vec<i64>> {
    let bound = Bound::new(engine, table);
    let at = bound.layout.columns[0].offset as usize;
    let mut record = vec![0; bound.layout.record_bytes as usize];
    let mut all = Vec::new();
    for index in 0..bound.rows.indexes() {
        let mut scan = Scan::open(txn, &bound.rows, index, None).unwrap();
        let mut found = scan.first(txn, &mut record, &mut Hooks(NoBlobs)).unwrap();
        let mut ids = Vec::new();
        while found == Fetched::Row {
            ids.push(i64::from_le_bytes(record[at..at + 8].try_into().unwrap()));
            found = scan.next(txn, &mut record, &mut Hooks(NoBlobs)).unwrap();
        }
        ids.sort_unstable();
        all.push(ids);
    }
    all
}

/// The cascade changes the newest version of the child, which the snapshot does not see.
#[test]
fn a_snapshot_that_a_cascade_overtook_has_each_row_once() {
    for (action, left) in
        [(Action::Cascade, vec![2]), (Action::SetNull, vec![1, 2]), (Action::Cascade, vec![1, 2])]
    {
        let engine = open(&memory());
        family(&engine, action, action);
        insert(&engine, "p", &[&[Some(1), None], &[Some(2), None]]);
        let second = [Some(2), Some(2), Some(2)];
        insert(&engine, "c", &[&[Some(1), Some(1), Some(1)], &second]);
        let mut txn = begin(&engine);
        assert_eq!(ids_by_index(&engine, &mut txn, "c"), vec![vec![1, 2]; 3]);
        let (was, is) = ([Some(1), Some(1), Some(1)], [Some(1), Some(1), Some(101)]);
        let mut other = begin(&engine);
        Bound::new(&engine, "c").update(&mut other, &was, &is).unwrap();
        other.commit().unwrap();
        let mut p = Bound::new(&engine, "p");
        match left.len() {
            1 => p.delete(&mut txn, &[Some(1), None]).unwrap(),
            _ => drop(p.update(&mut txn, &[Some(1), None], &[Some(3), None]).unwrap()),
        }
        assert_eq!(ids_by_index(&engine, &mut txn, "c"), vec![left; 3], "{action:?}");
    }
}

/// Nothing needs to be looked for when the values of the constraint stay.
#[test]
fn a_child_whose_parent_table_is_missing_may_change_other_columns() {
    let engine = open(&memory());
    family(&engine, Action::Restrict, Action::Restrict);
    insert(&engine, "p", &[&[Some(1), None]]);
    insert(&engine, "c", &[&[Some(10), Some(1), Some(0)]]);
    engine.drop_parent("p", &|_| true).unwrap();
    let mut c = Bound::new(&engine, "c");
    let mut txn = begin(&engine);
    let mut was = [Some(10), Some(1), Some(0)];
    for is in [[Some(10), Some(1), Some(5)], [Some(11), Some(1), Some(5)]] {
        c.update(&mut txn, &was, &is).unwrap();
        was = is;
    }
    let other = c.update(&mut txn, &was, &[Some(11), Some(3), Some(5)]);
    assert_eq!(kind(other), ErrorKind::NoParent);
    assert_eq!(kind(c.insert(&mut txn, &[Some(12), Some(1), None])), ErrorKind::NoParent);
    c.update(&mut txn, &was, &[Some(11), None, Some(5)]).unwrap();
    txn.commit().unwrap();
}

/// Also of parents that share a key, where no key's lock stands for what is not there.
#[test]
fn a_parent_that_a_serializable_transaction_did_not_find_does_not_come() {
    let engine = open(&memory());
    engine.create_table(spec("p", &schema(&["id", "a"], false, false))).unwrap();
    let f = foreign(("c", "p"), ("p", "a"), Action::Restrict, Action::Restrict);
    child(&engine, &schema(&["id", "p"], false, false), vec![f]).unwrap();
    let (mut p, mut c) = (Bound::new(&engine, "p"), Bound::new(&engine, "c"));
    for isolation in [Isolation::Serializable, Isolation::ReadCommitted] {
        let mut txn = engine.begin(TxnOptions { isolation, ..TxnOptions::default() });
        assert_eq!(kind(c.insert(&mut txn, &[Some(1), Some(7)])), ErrorKind::NoParent);
        let none = Duration::ZERO;
        let mut other = engine.begin(TxnOptions { lock_timeout: none, ..TxnOptions::default() });
        p.insert(&mut other, &[Some(1), Some(8)]).unwrap();
        let came = p.insert(&mut other, &[Some(2), Some(7)]);
        assert_eq!(came.is_err(), isolation == Isolation::Serializable, "{isolation:?}");
        other.rollback();
        assert_eq!(kind(c.insert(&mut txn, &[Some(1), Some(7)])), ErrorKind::NoParent);
    }
}
