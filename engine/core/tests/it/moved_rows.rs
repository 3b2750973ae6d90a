//! Rows that get another primary key: their entries in other indexes move, and others who look for those wait. The tests
//! take milliseconds.

use std::time::Duration;

use frond_engine::rows::Written;
use frond_engine::{Action, Engine, ErrorKind, OnLocked, RowMode, Transaction, TxnOptions};

use crate::alter::{same, with};
use crate::foreign::{child, foreign, insert, kind, rows, schema, spec, Bound};
use crate::support::*;

fn impatient(engine: &Engine) -> Transaction {
    engine.begin(TxnOptions { lock_timeout: Duration::ZERO, ..TxnOptions::default() })
}

/// A commit is read in parts: without the lock, the new row would be looked for where it is no more, or not yet.
#[test]
fn a_unique_value_that_moves_to_another_row_is_locked() {
    let engine = open(&memory());
    engine.create_table(spec("t", &schema(&["id", "u"], true, false))).unwrap();
    insert(&engine, "t", &[&[Some(1), Some(5)], &[Some(2), None]]);
    let (mut t, mut other) = (Bound::new(&engine, "t"), Bound::new(&engine, "t"));
    let mut txn = begin(&engine);
    assert_eq!(
        t.update(&mut txn, &[Some(1), Some(5)], &[Some(11), Some(5)]).unwrap(),
        Written::Done
    );
    let moved = t.update(&mut txn, &[Some(2), None], &[Some(12), None]).unwrap();
    assert_eq!(moved, Written::Done);
    let mut late = impatient(&engine);
    assert_eq!(kind(other.insert(&mut late, &[Some(3), Some(5)])), ErrorKind::LockNoWait);
    assert_eq!(other.insert(&mut late, &[Some(4), None]).unwrap(), Written::Done);
    txn.commit().unwrap();
    let again = other.insert(&mut late, &[Some(3), Some(5)]).unwrap();
    assert_eq!(again, Written::Duplicate(1));
    late.commit().unwrap();
    assert_eq!(rows(&engine, "t").len(), 3);
}

/// Also when the entry moves because of another column of the index.
#[test]
fn a_child_whose_entry_moves_locks_its_parent() {
    let engine = open(&memory());
    engine.create_table(spec("p", &schema(&["id", "a"], false, false))).unwrap();
    let mut two = schema(&["id", "p", "x"], false, false);
    let x = two.indexes[2].parts[0];
    two.indexes[1].parts.push(x);
    let f = foreign(("c", "p"), ("p", "id"), Action::Restrict, Action::Restrict);
    child(&engine, &two, vec![f]).unwrap();
    insert(&engine, "p", &[&[Some(1), None]]);
    insert(&engine, "c", &[&[Some(10), Some(1), Some(0)]]);
    let p = engine.open_table("p").unwrap();
    let mut c = Bound::new(&engine, "c");
    let mut was = [Some(10), Some(1), Some(0)];
    for (is, locks) in [
        ([Some(11), Some(1), Some(0)], true),
        ([Some(11), Some(1), Some(7)], true),
        ([Some(11), Some(1), Some(7)], false),
    ] {
        let mut txn = begin(&engine);
        c.update(&mut txn, &was, &is).unwrap();
        let key = all(&engine, &p).remove(0).0;
        let outcome = impatient(&engine).lock(&p, 0, &key, RowMode::X, OnLocked::Fail);
        assert_eq!(outcome.is_err(), locks, "{was:?} to {is:?}");
        txn.commit().unwrap();
        was = is;
    }
    let mut txn = begin(&engine);
    let deleted = Bound::new(&engine, "p").delete(&mut txn, &[Some(1), None]);
    assert_eq!(kind(deleted), ErrorKind::Referenced);
}

/// The row is written with an index that serves the constraint better; parents look in the other one until that is complete.
#[test]
fn a_child_whose_entry_moves_beside_an_index_that_is_being_built_locks_its_parent() {
    let engine = open(&memory());
    engine.create_table(spec("p", &schema(&["id", "a"], false, false))).unwrap();
    let mut two = schema(&["id", "p", "x"], false, false);
    let x = two.indexes[2].parts[0];
    two.indexes[1].parts.push(x);
    let f = foreign(("c", "p"), ("p", "id"), Action::Restrict, Action::Restrict);
    child(&engine, &two, vec![f]).unwrap();
    insert(&engine, "p", &[&[Some(1), None]]);
    insert(&engine, "c", &[&[Some(10), Some(1), Some(0)]]);
    let (p, table) = (engine.open_table("p").unwrap(), engine.open_table("c").unwrap());
    let alter = engine.alter_table(&table, with(same(&table), "u", true, &[1])).unwrap();
    let mut txn = begin(&engine);
    let (was, is) = ([Some(10), Some(1), Some(0)], [Some(10), Some(1), Some(7)]);
    Bound::new(&engine, "c").update(&mut txn, &was, &is).unwrap();
    let key = all(&engine, &p).remove(0).0;
    assert!(impatient(&engine).lock(&p, 0, &key, RowMode::X, OnLocked::Fail).is_err());
    drop((txn, alter));
}
