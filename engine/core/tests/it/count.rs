//! The number of rows that a transaction sees, beside what a scan of its rows delivers.

use frond_engine::{Engine, Transaction};
use frond_row::{NoBlobs, RowInput};

use crate::support::*;
use crate::typed::Typed;

/// Counts, and compares with the entries that the primary key's cursor meets.
fn count(engine: &Engine, t: &Typed, txn: &mut Transaction) -> u64 {
    let counted = t.rows.count(txn).unwrap();
    assert_eq!(counted, scan(engine, txn, t.table()).len() as u64);
    counted
}

fn delete(t: &mut Typed, txn: &mut Transaction, row: (u64, i32, &str)) {
    let record = t.record(row.0, row.1, row.2);
    let old = RowInput { record: &record, blobs: &NoBlobs, row_id: 0 };
    t.rows.delete(txn, &old, Default::default()).unwrap();
}

#[test]
fn a_transaction_counts_what_it_sees_and_its_own_changes() {
    let engine = open(&memory());
    let mut t = Typed::create(&engine, "t", false);
    let mut before = begin(&engine);
    assert_eq!(count(&engine, &t, &mut before), 0);
    // Half in runs of several pages, half in a buffer.
    for part in 0..2 {
        let mut txn = begin(&engine);
        for n in 0..1000 {
            t.insert(&mut txn, n % 100, "takes some room");
        }
        assert_eq!(count(&engine, &t, &mut txn), 1000 * (part + 1));
        txn.commit().unwrap();
        if part == 0 {
            engine.flush_all().unwrap();
        }
    }
    assert_eq!(count(&engine, &t, &mut before), 0);
    let mut reader = begin(&engine);
    assert_eq!(count(&engine, &t, &mut reader), 2000);

    let mut writer = begin(&engine);
    let row = |id: u64| (id, (id as i32 - 1) % 100, "takes some room");
    for id in [1, 2, 500, 1500] {
        delete(&mut t, &mut writer, row(id));
    }
    t.update(&mut writer, row(700), (700, 5, "moved"));
    t.insert(&mut writer, 1, "new");
    assert_eq!(count(&engine, &t, &mut writer), 1997);
    assert_eq!(count(&engine, &t, &mut reader), 2000);
    writer.commit().unwrap();
    assert_eq!(count(&engine, &t, &mut reader), 2000);
    engine.flush_all().unwrap();
    assert_eq!(count(&engine, &t, &mut reader), 2000);
    assert_eq!(count(&engine, &t, &mut begin(&engine)), 1997);
}

#[test]
fn an_interrupt_ends_counting() {
    let engine = open(&memory());
    let mut t = Typed::create(&engine, "t", false);
    let mut txn = begin(&engine);
    for n in 0..3000 {
        t.insert(&mut txn, n, "x");
    }
    txn.commit().unwrap();
    for flushed in [false, true] {
        let mut txn = begin(&engine);
        txn.handle().interrupt();
        let refused = t.rows.count(&mut txn).unwrap_err();
        assert_eq!(refused.kind(), frond_base::ErrorKind::Interrupted, "flushed: {flushed}");
        engine.flush_all().unwrap();
    }
}
