//! What goes on around prepared transactions: definitions that change, foreign keys, indexes that are given up, and
//! tables that cannot be read. What such a transaction is by itself: `prepared.rs`. The tests take 1 s together.

use std::sync::Arc;
use std::time::Duration;

use frond_engine::{
    Action, Engine, ErrorKind, IndexState, Options, RenameForeigns, Transaction, TxnOptions, Xid,
};
use frond_vfs::{MemVfs, Vfs};

use crate::alter::{same, with};
use crate::durability::copy;
use crate::foreign::{child, family, foreign, insert, kind, rows, schema, spec, Bound, Row};
use crate::prepared::{make_log, xid};
use crate::spill::{number, open_tiny, settle};
use crate::support::*;
use crate::typed::Typed;

fn impatient(engine: &Engine) -> Transaction {
    engine.begin(TxnOptions { lock_timeout: Duration::ZERO, ..TxnOptions::default() })
}

/// Inserts rows in a prepared transaction whose session goes away.
fn prepare<'a>(engine: &Engine, name: Xid, table: &str, rows: impl Iterator<Item = [i64; 3]> + 'a) {
    let mut txn = begin(engine);
    let mut bound = Bound::new(engine, table);
    for row in rows {
        let row = row.map(|v| (v >= 0).then_some(v));
        let columns = bound.layout.columns.len();
        bound.insert(&mut txn, &row[..columns]).unwrap();
    }
    drop(txn.prepare(name).unwrap());
}

/// The error of deleting a row of `table`, with every lock that this takes given back.
fn delete(engine: &Engine, table: &str, row: Row<'_>) -> frond_engine::Result<()> {
    let mut txn = impatient(engine);
    let outcome = Bound::new(engine, table).delete(&mut txn, row);
    txn.rollback();
    outcome
}

#[test]
fn an_index_that_was_given_up_is_emptied_when_its_last_writer_commits() {
    for in_two_steps in [false, true] {
        let vfs = memory();
        let engine = open_tiny(&vfs);
        let mut t = Typed::create(&engine, "t", false);
        let table = t.table().clone();
        let alter = engine.alter_table(&table, with(same(&table), "new", false, &[0])).unwrap();
        let mut txn = begin(&engine);
        for n in 0..2_000 {
            t.insert(&mut txn, n, "s");
        }
        assert!(number(&engine, "spills") > 10);
        drop(alter);
        settle(&engine);
        let given_up = table.trees().iter().last().unwrap();
        assert!(given_up.is_clear() && table.def().indexes[3].state == IndexState::Dropped);
        match in_two_steps {
            false => drop(txn.commit().unwrap()),
            true => drop(txn.prepare(xid(1)).unwrap().commit(true).unwrap()),
        }
        assert!(!given_up.is_clear());
        let crashed = copy(&vfs);
        settle(&engine);
        assert!(given_up.is_clear(), "{in_two_steps}: it holds the log for ever");
        engine.flush_all().unwrap();
        for vfs in [crashed, copy(&vfs)] {
            let engine = open_tiny(&vfs);
            settle(&engine);
            let table = engine.open_table("t").unwrap();
            assert!(table.trees().iter().last().unwrap().is_clear());
            assert_eq!(table.rows(), 2_000);
            assert!(engine.check_all(&mut |_| ()).is_clean());
        }
    }
}

/// A copy has the rows that were committed when it began. What is prepared then may be committed before it ends.
#[test]
fn no_copy_begins_of_a_table_with_prepared_changes() {
    let engine = open(&memory());
    family(&engine, Action::Restrict, Action::Restrict);
    insert(&engine, "p", &[&[Some(1), None]]);
    engine.check_copy("c").unwrap();
    prepare(&engine, xid(1), "c", [[10, 1, -1]].into_iter());
    for table in ["c", "p"] {
        let refused = engine.check_copy(table).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::LockTimeout);
        assert!(refused.message().contains("table 'c'"), "{refused}");
    }
    assert!(engine.commit_prepared(&xid(1)).unwrap());
    engine.check_copy("c").unwrap();
    engine.check_copy("p").unwrap();
}

/// The server takes the session of such a transaction away, with its metadata locks, and the handle stays until the connection is
/// next used. A coordinator's transaction has its session until it ends.
#[test]
fn a_transaction_that_others_may_end_guards_parents_while_it_has_a_handle() {
    let engine = open(&memory());
    family(&engine, Action::Restrict, Action::Restrict);
    insert(&engine, "p", &[&[Some(1), None]]);
    for named in [false, true] {
        let mut txn = begin(&engine);
        Bound::new(&engine, "c").insert(&mut txn, &[Some(10), Some(1), None]).unwrap();
        let prepared = match named {
            false => txn.prepare_coordinated(xid(1)).unwrap(),
            true => txn.prepare_named(xid(1)).unwrap(),
        };
        let parent = engine.open_table("p").unwrap();
        let alter = engine.alter_table(&parent, with(same(&parent), "new", false, &[0]));
        let refused = [alter.map(drop), engine.check_copy("p")];
        assert!(refused.iter().all(|r| r.is_err() == named), "{named}: {refused:?}");
        assert_eq!(engine.prepared(), if named { vec![xid(1)] } else { vec![] });
        assert_eq!(kind(engine.check_copy("c")), ErrorKind::LockTimeout);
        prepared.rollback().unwrap();
    }
}

#[test]
fn a_parent_of_prepared_rows_does_not_make_room_for_its_copy() {
    let engine = open(&memory());
    family(&engine, Action::Restrict, Action::Restrict);
    insert(&engine, "p", &[&[Some(1), None]]);
    prepare(&engine, xid(1), "c", [[10, 1, -1]].into_iter());
    let rename =
        |from: &str, to: &str, how| engine.rename_child(from, to, &how, &|f| f.name.clone());
    assert_eq!(kind(rename("p", "old", RenameForeigns::Aside)), ErrorKind::LockTimeout);
    // It is the same table under another name, with the same locks.
    rename("p", "q", RenameForeigns::Follow).unwrap();
    assert_eq!(kind(delete(&engine, "q", &[Some(1), None])), ErrorKind::LockNoWait);
    assert!(engine.commit_prepared(&xid(1)).unwrap());
    rename("q", "old", RenameForeigns::Aside).unwrap();
}

/// The parents of spilled rows are not known, so the table is locked, beside rows of it that others have locked; also
/// when the prepare records are written again and the next start finds those.
#[test]
fn parents_of_spilled_rows_are_guarded_after_restarts_whoever_writes_beside_them() {
    let unique_and_not = [false, true].map(|unique| schema(&["id", "u"], unique, false));
    for parent in unique_and_not {
        let by_u = parent.indexes[1].unique;
        let vfs = memory();
        let engine = open_tiny(&vfs);
        engine.create_table(spec("p", &parent)).unwrap();
        let f = foreign(("c", "p"), ("p", "u"), Action::Restrict, Action::Restrict);
        child(&engine, &schema(&["id", "p", "x"], false, false), vec![f]).unwrap();
        // Each row's parent is the first one.
        let f = foreign(("own", "parent"), ("own", "id"), Action::Restrict, Action::Restrict);
        child(&engine, &schema(&["id", "parent", "x"], false, false), vec![f]).unwrap();
        let other = engine.create_table(plain("other")).unwrap();
        insert(&engine, "p", &[&[Some(1), Some(5)], &[Some(2), Some(6)]]);
        insert(&engine, "own", &[&[Some(1), None, None]]);
        prepare(&engine, xid(1), "c", (0..1_000).map(|n| [n, 5, -1]));
        prepare(&engine, xid(2), "p", [[3, 7, 0]].into_iter());
        prepare(&engine, xid(3), "own", (100..1_100).map(|n| [n, 1, -1]));
        prepare(&engine, xid(4), "own", (2_000..3_000).map(|n| [n, 1, -1]));
        assert!(number(&engine, "spills") > 10);
        drop((other, engine));
        for restart in 0..3 {
            let engine = open_tiny(&vfs);
            assert_eq!(engine.prepared().len(), 4);
            for (table, row) in [("p", &[Some(1), Some(5)][..]), ("own", &[Some(1), None, None])] {
                let refused = kind(delete(&engine, table, row));
                assert_eq!(refused, ErrorKind::LockNoWait, "{table}, {by_u}, restart {restart}");
            }
            let other = engine.open_table("other").unwrap();
            make_log(&engine, &other, 400 << 10);
            settle(&engine);
        }
        let engine = open_tiny(&vfs);
        for n in [2, 4, 1, 3] {
            assert!(engine.commit_prepared(&xid(n)).unwrap());
        }
        assert_eq!([rows(&engine, "c").len(), rows(&engine, "own").len()], [1_000, 2_001]);
        assert_eq!(kind(delete(&engine, "p", &[Some(1), Some(5)])), ErrorKind::Referenced);
        assert_eq!(kind(delete(&engine, "own", &[Some(1), None, None])), ErrorKind::Referenced);
        delete(&engine, "p", &[Some(2), Some(6)]).unwrap();
        assert_eq!(engine.status().iter().find(|(n, _)| *n == "prepared").unwrap().1, 0);
    }
}

/// The parent's file is missing or damaged; the log may need it or not.
#[test]
fn a_parent_that_cannot_be_read_does_not_keep_prepared_rows_from_their_end() {
    let vfs = memory();
    let engine = open(&vfs);
    family(&engine, Action::Restrict, Action::Restrict);
    let other = engine.create_table(plain("other")).unwrap();
    insert(&engine, "p", &[&[Some(1), None]]);
    let file = format!("{}.frd", engine.open_table("p").unwrap().id().0);
    engine.flush_all().unwrap();
    let needed = copy(&vfs);
    make_log(&engine, &other, 400 << 10);
    drop(engine);
    for (vfs, log_needs_it) in [(needed, true), (vfs, false)] {
        let engine = open(&vfs);
        if log_needs_it {
            insert(&engine, "p", &[&[Some(2), None]]);
        }
        prepare(&engine, xid(1), "c", [[10, 1, -1]].into_iter());
        drop(engine);
        for missing in [false, true] {
            let vfs = copy(&vfs);
            let sound = vfs.contents(&file).unwrap();
            let mut damaged = sound.clone();
            damaged[..8192.min(sound.len())].fill(0xee);
            match missing {
                true => vfs.remove(&file).unwrap(),
                false => vfs.set_contents(&file, damaged),
            }
            if log_needs_it {
                let refused = Engine::open(Arc::new(vfs.clone()), small()).err().unwrap();
                assert!(refused.message().contains("discard_damaged_tables"), "{refused}");
            }
            ends_without_parent(&vfs, log_needs_it, &file, &sound);
        }
    }
}

fn ends_without_parent(vfs: &MemVfs, discard_damaged_tables: bool, file: &str, sound: &[u8]) {
    let options = Options { discard_damaged_tables, ..small() };
    let engine = Engine::open(Arc::new(vfs.clone()), options).unwrap();
    assert_eq!(engine.prepared(), [xid(1)]);
    let unread = engine.open_table("p").err().unwrap().kind();
    if discard_damaged_tables {
        assert_eq!(unread, ErrorKind::NotFound);
    } else {
        assert_eq!(unread, ErrorKind::Corruption);
        // Somebody puts the file back: the prepared row still has its parent.
        let _ = vfs.open(file, frond_vfs::OpenHow::CREATE);
        vfs.set_contents(file, sound.to_vec());
        assert_eq!(kind(delete(&engine, "p", &[Some(1), None])), ErrorKind::LockNoWait);
    }
    assert!(engine.commit_prepared(&xid(1)).unwrap());
    assert_eq!(rows(&engine, "c").len(), 1);
}
