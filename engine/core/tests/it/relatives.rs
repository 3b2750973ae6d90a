//! Foreign keys and the transactions beside them: what a snapshot reads after a cascade. The test takes
//! milliseconds.

use frond_engine::rows::{Fetched, Scan};
use frond_engine::{Action, Engine, Transaction};
use frond_row::NoBlobs;

use crate::foreign::{family, insert, Bound};
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
