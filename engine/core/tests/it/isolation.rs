//! Snapshots, conflicts, locks, savepoints.

use std::time::Duration;

use frond_engine::{ErrorKind, Isolation, RowMode, TxnOptions};

use crate::support::*;

#[test]
fn snapshot_does_not_see_later_commits_but_read_committed_does() {
    let engine = open(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, b"k", b"1");
    let (mut si, mut rc) = (begin(&engine), read_committed(&engine));
    assert_eq!(get(&mut si, &t, b"k").unwrap(), b"1");
    assert_eq!(get(&mut rc, &t, b"k").unwrap(), b"1");
    put(&engine, &t, b"k", b"2");
    put(&engine, &t, b"new", b"2");
    rc.end_statement();
    assert_eq!(get(&mut si, &t, b"k").unwrap(), b"1");
    assert_eq!(get(&mut rc, &t, b"k").unwrap(), b"2");
    assert_eq!(scan(&engine, &mut si, &t).len(), 1);
    engine.flush_all().unwrap();
    assert_eq!(get(&mut si, &t, b"k").unwrap(), b"1", "kept through a merge");
    assert_eq!(scan(&engine, &mut si, &t).len(), 1);
}

#[test]
fn a_transaction_that_only_read_rests_and_the_next_one_sees_what_was_committed_since() {
    let engine = open(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, b"k", b"1");
    let mut txn = begin(&engine);
    let number = txn.id();
    let mark = txn.savepoint();
    assert_eq!(get(&mut txn, &t, b"k").unwrap(), b"1");
    put(&engine, &t, b"k", b"2");
    assert!(txn.rest());
    assert!(!txn.has_snapshot());
    txn.wake(TxnOptions { isolation: Isolation::ReadCommitted, ..TxnOptions::default() });
    assert!(txn.id() == number && !txn.is_savepoint(mark.max(1)));
    assert_eq!(get(&mut txn, &t, b"k").unwrap(), b"2");
    put(&engine, &t, b"k", b"3");
    txn.end_statement();
    assert_eq!(get(&mut txn, &t, b"k").unwrap(), b"3");
    // What has locked or written does not rest: it goes on.
    assert!(txn.rest());
    txn.wake(TxnOptions::default());
    let mut value = Vec::new();
    assert!(txn.get_locked(&t, 0, b"k", RowMode::S, &mut value).unwrap());
    assert!(!txn.rest());
    txn.put(&t, b"k", b"4", false).unwrap();
    assert!(!txn.rest());
    txn.commit().unwrap();
    assert_eq!(get(&mut begin(&engine), &t, b"k").unwrap(), b"4");
}

#[test]
fn first_committer_wins_unless_latest_writes_are_asked_for() {
    let engine = open(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, b"k", b"1");
    for latest_writes in [false, true] {
        let mut txn = engine.begin(TxnOptions { latest_writes, ..TxnOptions::default() });
        assert!(get(&mut txn, &t, b"k").is_some());
        put(&engine, &t, b"k", b"other");
        let outcome = txn.put(&t, b"k", b"mine", false);
        match latest_writes {
            true => outcome.unwrap(),
            false => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Conflict),
        }
    }
    // Without a snapshot there is nothing to conflict with.
    let mut txn = begin(&engine);
    put(&engine, &t, b"k", b"other");
    txn.put(&t, b"k", b"mine", false).unwrap();
    txn.commit().unwrap();
}

#[test]
fn own_writes_are_seen_in_order_in_both_directions() {
    let engine = open(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    for n in [10, 20, 30, 40] {
        put(&engine, &t, &key(n), b"old");
    }
    engine.flush_all().unwrap();
    let mut txn = begin(&engine);
    txn.put(&t, &key(25), b"own", false).unwrap();
    txn.put(&t, &key(30), b"own", false).unwrap();
    txn.delete(&t, &key(10)).unwrap();
    txn.delete(&t, &key(40)).unwrap();
    txn.put(&t, &key(50), b"own", false).unwrap();
    let want: Vec<_> = [(20, "old"), (25, "own"), (30, "own"), (50, "own")]
        .map(|(n, v)| (key(n), v.as_bytes().to_vec()))
        .into();
    assert_eq!(scan(&engine, &mut txn, &t), want);
    let mut cursor = engine.cursor(&mut txn, &t, 0).unwrap();
    let mut back = Vec::new();
    let mut valid = cursor.last(&txn).unwrap();
    while valid {
        back.insert(0, (cursor.key().to_vec(), cursor.value().to_vec()));
        valid = cursor.prev(&txn).unwrap();
    }
    assert_eq!(back, want);
    // Turning round in the middle.
    assert!(cursor.seek(&txn, &key(25), frond_engine::Seek::Ge).unwrap());
    assert!(cursor.next(&txn).unwrap());
    assert_eq!(cursor.key(), key(30));
    assert!(cursor.prev(&txn).unwrap());
    assert_eq!(cursor.key(), key(25));
    assert!(cursor.prev(&txn).unwrap());
    assert_eq!(cursor.key(), key(20));
    assert!(!cursor.prev(&txn).unwrap());
}

#[test]
fn savepoints_undo_what_came_after_them() {
    let engine = open(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    let mut txn = begin(&engine);
    txn.put(&t, b"a", b"1", false).unwrap();
    let mark = txn.savepoint();
    txn.put(&t, b"a", b"2", false).unwrap();
    txn.put(&t, b"b", b"2", false).unwrap();
    txn.rollback_to(mark);
    assert_eq!(get(&mut txn, &t, b"a").unwrap(), b"1");
    assert_eq!(get(&mut txn, &t, b"b"), None);
    txn.put(&t, b"c", b"3", false).unwrap();
    txn.commit().unwrap();
    assert_eq!(all(&engine, &t).len(), 2);
    assert_eq!(t.rows(), 2);
}

#[test]
fn held_locks_time_out_for_others_and_end_with_their_owner() {
    let engine = open(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    let mut a = begin(&engine);
    a.put(&t, b"k", b"a", false).unwrap();
    let mut b = engine.begin(TxnOptions {
        lock_timeout: Duration::from_millis(20),
        isolation: Isolation::ReadCommitted,
        ..TxnOptions::default()
    });
    assert_eq!(b.put(&t, b"k", b"b", false).unwrap_err().kind(), ErrorKind::LockTimeout);
    b.set_lock_timeout(Duration::ZERO);
    assert_eq!(b.put(&t, b"k", b"b", false).unwrap_err().kind(), ErrorKind::LockNoWait);
    a.commit().unwrap();
    b.put(&t, b"k", b"b", false).unwrap();
    b.commit().unwrap();
    assert_eq!(all(&engine, &t)[0].1, b"b");
}

#[test]
fn duplicate_insert_waits_for_the_first_and_then_fails() {
    let engine = open(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    let mut a = begin(&engine);
    a.put(&t, b"k", b"a", true).unwrap();
    assert_eq!(a.put(&t, b"k", b"again", true).unwrap_err().kind(), ErrorKind::DuplicateKey);
    std::thread::scope(|s| {
        let waiter = s.spawn(|| {
            let mut b = begin(&engine);
            b.put(&t, b"k", b"b", true).unwrap_err().kind()
        });
        while engine.status().iter().find(|(n, _)| *n == "lock_waits").unwrap().1 == 0 {
            std::thread::yield_now();
        }
        a.commit().unwrap();
        assert_eq!(waiter.join().unwrap(), ErrorKind::DuplicateKey);
    });
}

/// A scan that finds only deleted rows returns no row after which its caller could poll for KILL.
#[test]
fn an_interrupt_ends_a_scan_over_deleted_rows() {
    let engine = open(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    for batch in 0..10 {
        let mut txn = begin(&engine);
        for n in 0..1_000 {
            txn.put(&t, &key(batch * 1_000 + n), b"v", false).unwrap();
        }
        txn.commit().unwrap();
    }
    let _keeps_versions = {
        let mut txn = begin(&engine);
        txn.snapshot();
        txn
    };
    let mut txn = begin(&engine);
    for n in 0..10_000 {
        txn.delete(&t, &key(n)).unwrap();
    }
    txn.commit().unwrap();
    let mut txn = begin(&engine);
    let mut cursor = engine.cursor(&mut txn, &t, 0).unwrap();
    // Before the first walk: later ones know that there is nothing.
    txn.handle().interrupt();
    assert_eq!(cursor.first(&txn).unwrap_err().kind(), ErrorKind::Interrupted);
    txn.handle().clear_interrupt();
    assert!(!cursor.first(&txn).unwrap());
}

#[test]
fn a_snapshot_does_not_read_a_table_that_took_the_place_of_another() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, b"k", b"old");
    let mut before = begin(&engine);
    before.snapshot();
    let t = engine.truncate_table("t").unwrap();
    put(&engine, &t, b"k", b"new");
    engine.refuse_older_snapshots(&t);
    let mut value = Vec::new();
    let error = before.get(&t, 0, b"k", &mut value).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TableChanged, "{error}");
    assert!(engine.cursor(&mut before, &t, 0).is_err());
    // Reads of the newest versions miss nothing, nor does a snapshot taken since.
    assert!(begin(&engine).get(&t, 0, b"k", &mut value).unwrap());
    assert!(read_committed(&engine).get_locked(&t, 0, b"k", RowMode::S, &mut value).unwrap());
}
