//! Large transactions beside others: interrupts, checks, dropped tables, waits for locks.

use frond_engine::ErrorKind;

use crate::spill::{
    fill, fill_above, fill_above_committed, filled, number, open_tiny, settle, tiny,
};
use crate::support::*;

#[test]
fn an_interrupt_ends_a_spill_and_loses_nothing() {
    let engine = open(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    let mut txn = begin(&engine);
    let mut n = 0;
    while number(&engine, "spills") == 0 {
        txn.put(&t, &key(n * 7_919 % 65_536), b"", false).unwrap();
        n += 1;
    }
    txn.handle().interrupt();
    let ended = (0..200_000).find_map(|i| {
        let put = txn.put(&t, &key((n + i) * 7_919 % 65_536 + 65_536), b"", false);
        if put.is_ok() {
            n += 1;
        }
        put.err()
    });
    // Small spills end before they look.
    if let Some(e) = ended {
        assert_eq!(e.kind(), ErrorKind::Interrupted);
    }
    txn.handle().clear_interrupt();
    txn.commit().unwrap();
}

/// Nothing of the transaction is in a trunk, but its runs are in the file.
#[test]
fn a_check_beside_a_large_transaction_finds_nothing_wrong() {
    let vfs = memory();
    let engine = open_tiny(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    fill_above_committed(&engine, &t);
    let mut txn = begin(&engine);
    fill(&mut txn, &t, 2_000, 1);
    assert!(engine.check_all(&mut |_| ()).is_clean());
    // An image, and background work, while it is open: its runs are in neither.
    engine.flush_all().unwrap();
    settle(&engine);
    assert!(engine.check_all(&mut |_| ()).is_clean());
    fill(&mut txn, &t, 2_500, 2);
    let crashed = crate::durability::copy(&vfs);
    let expected = scan(&engine, &mut txn, &t);
    txn.commit().unwrap();
    // Attached, and not taken up by an edit yet.
    assert!(engine.check_all(&mut |_| ()).is_clean());
    assert!(all(&engine, &t) == expected);
    let engine = open_tiny(&crashed);
    let t = engine.open_table("t").unwrap();
    assert_eq!(all(&engine, &t).len(), 500);
    assert!(engine.check_all(&mut |_| ()).is_clean());
}

/// The server does not let it come to this; a program may.
#[test]
fn tables_dropped_under_a_large_transaction_take_nothing_else_with_them() {
    for (truncate, work) in [(false, false), (false, true), (true, false), (true, true)] {
        let vfs = memory();
        let engine = open_tiny(&vfs);
        let (t, u) = (plain("t"), plain("u"));
        let (t, u) = (engine.create_table(t).unwrap(), engine.create_table(u).unwrap());
        fill_above_committed(&engine, &t);
        let mut txn = begin(&engine);
        fill(&mut txn, &t, 1_500, 1);
        fill(&mut txn, &u, 1_500, 2);
        match truncate {
            true => drop(engine.truncate_table("t").unwrap()),
            false => engine.drop_table("t").unwrap(),
        }
        if work {
            settle(&engine);
        }
        assert_eq!(txn.put(&t, &key(9), b"", false).unwrap_err().kind(), ErrorKind::Closed);
        fill(&mut txn, &u, 1_600, 3);
        let committed = txn.commit();
        let expected = if committed.is_ok() { filled(1_600, 3) } else { Vec::new() };
        assert!(all(&engine, &u) == expected, "{truncate} {work} {committed:?}");
        for _ in 0..4 {
            let crashed = open_tiny(&crate::durability::copy(&vfs));
            let u = crashed.open_table("u").unwrap();
            assert!(all(&crashed, &u) == expected, "{truncate} {work} {committed:?}");
            match crashed.open_table("t") {
                Ok(t) => assert!(truncate && all(&crashed, &t).is_empty()),
                Err(e) => assert!(!truncate && e.kind() == ErrorKind::NotFound),
            }
            assert!(crashed.check_all(&mut |_| ()).is_clean());
            engine.background_step();
            engine.flush_all().unwrap();
        }
        assert!(!engine.is_poisoned() && engine.check_all(&mut |_| ()).is_clean());
    }
}

#[test]
fn a_large_transaction_that_waited_for_another_ones_row_writes_on_top_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = on_disk(&dir, tiny());
    let t = engine.create_table(plain("t")).unwrap();
    let mut first = begin(&engine);
    fill(&mut first, &t, 1_500, 1);
    let waits = std::thread::scope(|s| {
        let second = s.spawn(|| {
            let mut txn = read_committed(&engine);
            fill_above(&mut txn, &t, 10_000..11_500);
            // In a run of the other transaction.
            txn.put(&t, &key(7), b"second", false).unwrap();
            assert!(txn.delete(&t, &key(8)).unwrap());
            let refused = txn.put(&t, &key(9), b"", true).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::DuplicateKey);
            fill_above(&mut txn, &t, 11_500..13_000);
            txn.commit().unwrap();
        });
        while number(&engine, "lock_waits") == 0 {
            std::thread::yield_now();
        }
        first.commit().unwrap();
        second.join().is_ok()
    });
    assert!(waits);
    for _ in 0..2 {
        let rows = all(&engine, &t);
        assert_eq!((rows.len() as u64, t.rows()), (1_499 + 3_000, 1_499 + 3_000));
        assert_eq!(rows[7], (key(7), b"second".to_vec()));
        assert_eq!(rows[8].0, key(9));
        settle(&engine);
        engine.flush_all().unwrap();
    }
    assert!(engine.check_all(&mut |_| ()).is_clean());
}
