//! Prepared transactions: what they hold, how they end, and what a restart makes of them. Crashes at every
//! point are the simulator's.

use std::sync::Arc;
use std::time::Duration;

use frond_engine::{
    Engine, ErrorKind, OnLocked, Options, RowMode, Table, Transaction, TxnOptions, Xid,
};
use frond_vfs::testing::SmallDisk;
use frond_vfs::{MemVfs, Vfs};

use crate::durability::copy;
use crate::spill::{fill, filled, number, settle, tiny};
use crate::support::*;

pub fn xid(n: u64) -> Xid {
    Xid::new(1, &n.to_be_bytes(), b"here").unwrap()
}

fn open_with(vfs: &MemVfs, options: Options) -> Engine {
    Engine::open(Arc::new(vfs.clone()), options).unwrap()
}

fn impatient(engine: &Engine) -> Transaction {
    engine.begin(TxnOptions { lock_timeout: Duration::ZERO, ..TxnOptions::default() })
}

fn is_locked(engine: &Engine, table: &Arc<Table>, key: &[u8]) -> bool {
    let mut other = impatient(engine);
    match other.lock(table, 0, key, RowMode::X, OnLocked::Fail) {
        Ok(_) => false,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::LockNoWait, "{e}");
            true
        }
    }
}

/// Log that nothing else needs: one table's records and images.
pub fn make_log(engine: &Engine, table: &Arc<Table>, bytes: u64) {
    let from = number(engine, "log_bytes_appended");
    let mut rng = Rng(from);
    while number(engine, "log_bytes_appended") < from + bytes {
        let value: Vec<u8> = (0..2_000).map(|_| rng.next() as u8).collect();
        put(engine, table, &key(rng.below(50)), &value);
        engine.background_step();
    }
    engine.flush_all().unwrap();
}

#[test]
fn a_commit_in_two_steps_is_seen_at_the_second_and_survives() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, &key(1), b"old");
    put(&engine, &t, &key(2), b"old");
    let mut txn = begin(&engine);
    txn.put(&t, &key(1), b"new", false).unwrap();
    assert!(txn.delete(&t, &key(2)).unwrap());
    txn.put(&t, &key(3), b"new", false).unwrap();
    let mut prepared = txn.prepare(xid(1)).unwrap();
    let old = [(key(1), b"old".to_vec()), (key(2), b"old".to_vec())];
    assert_eq!(all(&engine, &t), old);
    assert_eq!((t.rows(), number(&engine, "prepared")), (2, 1));
    assert!(is_locked(&engine, &t, &key(3)));
    assert!(engine.prepared().is_empty(), "its session has it");
    let mut before = begin(&engine);
    before.snapshot();
    prepared.commit_ordered().unwrap();
    let new = [(key(1), b"new".to_vec()), (key(3), b"new".to_vec())];
    assert_eq!(all(&engine, &t), new);
    assert_eq!(scan(&engine, &mut before, &t), old);
    assert!(!is_locked(&engine, &t, &key(3)));
    assert!(prepared.commit(true).unwrap().is_some());
    assert_eq!((t.rows(), number(&engine, "prepared")), (2, 0));
    for flush in [false, true] {
        if flush {
            engine.flush_all().unwrap();
        }
        let engine = open(&copy(&vfs));
        let t = engine.open_table("t").unwrap();
        assert_eq!((all(&engine, &t), t.rows()), (new.to_vec(), 2));
        assert!(engine.prepared().is_empty());
    }
}

/// Changes that are not acknowledged yet when the process is killed were handed to the system.
#[test]
fn undecided_transactions_come_back_with_their_locks_and_end_either_way() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, &key(1), b"old");
    let prepare = |n: u64| {
        let mut txn = begin(&engine);
        txn.put(&t, &key(n), b"new", false).unwrap();
        txn.prepare(xid(n)).unwrap()
    };
    let all_prepared: Vec<_> = (1..=4).map(prepare).collect();
    let crashed = copy(&vfs);
    drop(all_prepared);
    assert_eq!(engine.prepared(), [xid(1), xid(2), xid(3), xid(4)]);
    vfs.advance(Duration::from_secs(7));
    assert_eq!(number(&engine, "prepared_oldest_micros"), 7_000_000);
    drop((t, engine));
    for vfs in [crashed, vfs] {
        let engine = open(&vfs);
        let t = engine.open_table("t").unwrap();
        assert_eq!(engine.prepared(), [xid(1), xid(2), xid(3), xid(4)]);
        assert_eq!((all(&engine, &t), t.rows()), (vec![(key(1), b"old".to_vec())], 1));
        assert!((1..=4).all(|n| is_locked(&engine, &t, &key(n))));
        assert!(!engine.commit_prepared(&xid(5)).unwrap());
        assert!(engine.commit_prepared(&xid(1)).unwrap());
        assert!(engine.rollback_prepared(&xid(2)).unwrap());
        assert!(engine.commit_prepared(&xid(3)).unwrap());
        assert!(!engine.commit_prepared(&xid(3)).unwrap());
        assert!(!engine.rollback_prepared(&xid(2)).unwrap());
        assert!(!(1..=3).any(|n| is_locked(&engine, &t, &key(n))));
        assert!(is_locked(&engine, &t, &key(4)));
        let now = vec![(key(1), b"new".to_vec()), (key(3), b"new".to_vec())];
        assert_eq!((all(&engine, &t), t.rows()), (now.clone(), 2));
        let again = open(&copy(&vfs));
        let t = again.open_table("t").unwrap();
        assert_eq!((all(&again, &t), t.rows()), (now, 2));
        assert_eq!(again.prepared(), [xid(4)]);
        assert!(is_locked(&again, &t, &key(4)) && !is_locked(&again, &t, &key(2)));
    }
}

#[test]
fn names_are_unique_and_a_refused_one_changes_nothing() {
    let engine = open_with(&memory(), tiny());
    let t = engine.create_table(plain("t")).unwrap();
    let mut txn = begin(&engine);
    txn.put(&t, b"a", b"1", false).unwrap();
    let first = txn.prepare(xid(1)).unwrap();
    let log = number(&engine, "log_bytes_appended");
    let mut txn = begin(&engine);
    txn.put(&t, b"b", b"2", false).unwrap();
    assert_eq!(txn.prepare(xid(1)).err().unwrap().kind(), ErrorKind::Exists);
    let mut txn = begin(&engine);
    fill(&mut txn, &t, 1_000, 1);
    assert_eq!(txn.prepare(xid(1)).err().unwrap().kind(), ErrorKind::Exists);
    assert_eq!(number(&engine, "log_bytes_appended"), log);
    assert!(!is_locked(&engine, &t, b"b") && is_locked(&engine, &t, b"a"));
    first.rollback().unwrap();
    assert!(all(&engine, &t).is_empty());
    let mut txn = begin(&engine);
    txn.put(&t, b"b", b"2", false).unwrap();
    txn.prepare(xid(1)).unwrap().commit(true).unwrap();
    assert_eq!(all(&engine, &t).len(), 1);
}

/// The record with the value was made and refused.
#[test]
fn a_restart_does_not_give_again_what_a_refused_transaction_took() {
    let vfs = memory();
    let engine = open_with(&vfs, tiny());
    let t = engine.create_table(plain("t")).unwrap();
    let mut txn = begin(&engine);
    txn.put(&t, b"a", b"1", false).unwrap();
    let first = txn.prepare(xid(1)).unwrap();
    let mut txn = begin(&engine);
    txn.put(&t, b"b", b"2", false).unwrap();
    txn.reserve_auto_increment(&t, (1, 1), 41).unwrap();
    assert_eq!(txn.prepare(xid(1)).err().unwrap().kind(), ErrorKind::Exists);
    first.rollback().unwrap();
    engine.sync().unwrap();
    let restarted = open_with(&copy(&vfs), tiny());
    assert_eq!(restarted.open_table("t").unwrap().auto_increment(), 42);
}

/// A server may end a transaction by its name while a session is about to release its handle.
#[test]
fn what_is_ended_by_its_name_is_over_for_its_handle() {
    let engine = open(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    let prepare = |n: u64| {
        let mut txn = begin(&engine);
        txn.put(&t, &key(n), b"v", true).unwrap();
        txn.prepare(xid(7)).unwrap()
    };
    let late = prepare(1);
    assert!(engine.commit_prepared(&xid(7)).unwrap());
    let mut later = prepare(2);
    // The name is another one's by now.
    assert_eq!(late.rollback().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(engine.prepared().is_empty());
    assert!(engine.rollback_prepared(&xid(7)).unwrap());
    assert_eq!(later.commit_ordered().unwrap_err().kind(), ErrorKind::NotFound);
    drop(later);
    assert_eq!(all(&engine, &t), [(key(1), b"v".to_vec())]);
    assert_eq!(number(&engine, "prepared"), 0);
}

#[test]
fn without_changes_only_locks_are_kept_and_a_restart_forgets_them() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    let log = number(&engine, "log_bytes_appended");
    let mut txn = begin(&engine);
    txn.lock(&t, 0, b"k", RowMode::X, OnLocked::Wait).unwrap();
    let prepared = txn.prepare(xid(1)).unwrap();
    assert!(is_locked(&engine, &t, b"k"));
    assert_eq!(number(&engine, "log_bytes_appended"), log);
    assert_eq!(prepared.commit(true).unwrap(), None);
    assert!(!is_locked(&engine, &t, b"k"));
    drop(begin(&engine).prepare(xid(2)).unwrap());
    assert!(open(&copy(&vfs)).prepared().is_empty());
}

/// The log goes on for many times its capacity, and everything else is flushed and imaged.
#[test]
fn log_of_prepared_transactions_is_kept_or_written_again() {
    let vfs = memory();
    let engine = open(&vfs);
    let (t, other) =
        (engine.create_table(plain("t")).unwrap(), engine.create_table(plain("o")).unwrap());
    put(&engine, &t, &key(1), b"old");
    let mut txn = begin(&engine);
    txn.put(&t, &key(1), b"new", false).unwrap();
    drop(txn.prepare(xid(1)).unwrap());
    let mut txn = begin(&engine);
    txn.put(&t, &key(2), b"new", false).unwrap();
    let attached = txn.prepare(xid(2)).unwrap();
    for _ in 0..4 {
        make_log(&engine, &other, 400 << 10);
        for _ in 0..20 {
            engine.background_step();
        }
        assert!(number(&engine, "log_bytes_kept") < 1 << 20, "a forgotten one holds the log");
        let crashed = open(&copy(&vfs));
        assert_eq!(crashed.prepared(), [xid(1), xid(2)]);
        let t = crashed.open_table("t").unwrap();
        assert!(crashed.commit_prepared(&xid(1)).unwrap());
        assert!(crashed.commit_prepared(&xid(2)).unwrap());
        assert_eq!(all(&crashed, &t).len(), 2);
    }
    attached.commit(true).unwrap();
    assert!(engine.commit_prepared(&xid(1)).unwrap());
    // Buffered changes hold the log from the prepare records on.
    for flushed in [false, true] {
        make_log(&engine, &other, 300 << 10);
        let crashed = open(&copy(&vfs));
        let t = crashed.open_table("t").unwrap();
        assert_eq!(all(&crashed, &t).len(), 2, "{flushed}");
        assert_eq!(t.rows(), 2);
        if !flushed {
            engine.flush_all().unwrap();
        }
    }
}

/// They take more than the half of the log's capacity behind which records are written again.
#[test]
fn prepared_transactions_that_fill_the_log_are_not_written_again_all_the_time() {
    let vfs = memory();
    let engine = open(&vfs);
    let (t, other) =
        (engine.create_table(plain("t")).unwrap(), engine.create_table(plain("o")).unwrap());
    let mut rng = Rng(1);
    for n in 0..3 {
        let mut txn = begin(&engine);
        for i in 0..30 {
            let value: Vec<u8> = (0..2_000).map(|_| rng.next() as u8).collect();
            txn.put(&t, &key(n * 100 + i), &value, false).unwrap();
        }
        drop(txn.prepare(xid(n)).unwrap());
    }
    let appended = || number(&engine, "log_bytes_appended");
    let prepared = appended();
    for _ in 0..50 {
        engine.background_step();
    }
    let idle = appended() - prepared;
    assert!(idle < prepared * 3 / 2, "{idle} bytes for {prepared} that are prepared");
    make_log(&engine, &other, 1 << 20);
    let busy = appended() - prepared - idle;
    assert!(busy < 3 << 20, "{busy} bytes for a MiB of changes");
    assert!(number(&engine, "log_bytes_kept") < 1 << 20, "nothing was written again");
    assert_eq!(open(&copy(&vfs)).prepared().len(), 3);
}

/// Larger than memory: prepared, found again, committed or rolled back, and the space used again.
#[test]
fn private_runs_survive_a_restart_and_their_space_is_not_used_meanwhile() {
    let vfs = memory();
    let engine = open_with(&vfs, tiny());
    let (t, u) =
        (engine.create_table(plain("t")).unwrap(), engine.create_table(plain("u")).unwrap());
    put(&engine, &t, &key(1), b"old");
    put(&engine, &t, &key(5_000), b"old");
    let mut txn = begin(&engine);
    fill(&mut txn, &t, 3_000, 1);
    txn.put(&u, &key(1), b"few", false).unwrap();
    assert!(number(&engine, "spills") > 10);
    drop(txn.prepare(xid(1)).unwrap());
    let others = |engine: &Engine| {
        let t = engine.open_table("t").unwrap();
        for round in 0..5u8 {
            for n in 4_000..4_400 {
                put(engine, &t, &key(n), &[round; 300]);
            }
            engine.flush_all().unwrap();
            settle(engine);
        }
    };
    let mut wanted = filled(3_000, 1);
    wanted.extend((4_000..4_400).map(|n| (key(n), vec![4; 300])));
    wanted.push((key(5_000), b"old".to_vec()));
    others(&engine);
    let mut vfs = copy(&vfs);
    drop(engine);
    // Several restarts, with work in between that looks for space.
    for _ in 0..2 {
        let engine = open_with(&vfs, tiny());
        assert_eq!(engine.prepared(), [xid(1)]);
        let t = engine.open_table("t").unwrap();
        assert_eq!((all(&engine, &t).len(), t.rows()), (402, 402));
        assert!(is_locked(&engine, &t, &key(2_999)) && !is_locked(&engine, &t, &key(3_000)));
        others(&engine);
        vfs = copy(&vfs);
    }
    for (commit, flush) in [(true, false), (true, true), (false, false), (false, true)] {
        let vfs = copy(&vfs);
        let engine = open_with(&vfs, tiny());
        let t = engine.open_table("t").unwrap();
        let ended = match commit {
            true => engine.commit_prepared(&xid(1)),
            false => engine.rollback_prepared(&xid(1)),
        };
        assert!(ended.unwrap());
        let expect = match commit {
            true => wanted.clone(),
            false => {
                let old = wanted.iter().filter(|(k, _)| *k >= key(4_000)).cloned();
                [(key(1), b"old".to_vec())].into_iter().chain(old).collect()
            }
        };
        assert_eq!(all(&engine, &t), expect);
        if flush {
            others(&engine);
            assert_eq!(all(&engine, &t), expect);
        }
        let crashed = open_with(&copy(&vfs), tiny());
        let t = crashed.open_table("t").unwrap();
        assert_eq!(all(&crashed, &t), expect);
        assert_eq!(t.rows(), expect.len() as u64);
        let u = crashed.open_table("u").unwrap();
        assert_eq!(all(&crashed, &u).len(), usize::from(commit));
        others(&crashed);
        assert_eq!(all(&crashed, &t), expect);
        assert!(crashed.check_all(&mut |_| ()).is_clean());
        if !commit {
            let s = t.statistics();
            assert!(s.file_bytes < 1_200_000, "{s:?}");
        }
    }
}

#[test]
fn definitions_of_tables_with_prepared_changes_stay() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    engine.create_table(plain("free")).unwrap();
    let mut txn = begin(&engine);
    txn.put(&t, &key(1), b"new", false).unwrap();
    drop(txn.prepare(xid(1)).unwrap());
    for restart in [false, true] {
        let again;
        let engine = if restart {
            again = open(&copy(&vfs));
            &again
        } else {
            &engine
        };
        let refused = |r: frond_engine::Result<()>| {
            let e = r.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::LockTimeout);
            assert!(e.message().contains("prepared"), "{e}");
        };
        refused(engine.drop_table("t"));
        refused(engine.rename_table("t", "x"));
        refused(engine.truncate_table("t").map(drop));
        refused(engine.set_schema("t", Vec::new(), Vec::new()));
        refused(engine.set_auto_increment(&engine.open_table("t").unwrap(), 9));
        engine.rename_table("free", "kept").unwrap();
        engine.rename_table("kept", "free").unwrap();
        if restart {
            // A lost table goes with its part of the transaction.
            engine.discard_table("t").unwrap();
            assert!(engine.commit_prepared(&xid(1)).unwrap());
        }
    }
    drop(engine);
    let engine = open(&vfs);
    engine.discard_table("t").unwrap();
    drop(engine);
    let engine = open(&vfs);
    assert_eq!(engine.prepared(), [xid(1)]);
    assert!(engine.rollback_prepared(&xid(1)).unwrap());
    assert!(open(&copy(&vfs)).prepared().is_empty());
}

#[test]
fn a_full_disk_refuses_to_prepare_and_never_to_commit() {
    let disk = SmallDisk::new(MemVfs::stepped(), u64::MAX);
    let engine = Engine::open(Arc::new(disk.clone()), small()).unwrap();
    let t = engine.create_table(plain("t")).unwrap();
    disk.leave(0);
    let mut kept = Vec::new();
    for n in 0.. {
        let mut txn = begin(&engine);
        if txn.put(&t, &key(n), &[7; 500], false).is_err() {
            break;
        }
        match txn.prepare(xid(n)) {
            Ok(prepared) => kept.push(prepared),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
                break;
            }
        }
    }
    assert!(kept.len() > 20, "{}", kept.len());
    let commits = kept.len() / 2;
    let rest = kept.split_off(commits);
    for (n, prepared) in kept.into_iter().enumerate() {
        match n % 3 {
            0 => prepared.rollback().unwrap(),
            _ => drop(prepared.commit(true).unwrap()),
        }
    }
    assert!(!engine.is_poisoned());
    drop(rest);
    let rows = all(&engine, &t).len();
    drop(engine);
    let again: Arc<dyn Vfs> = Arc::new(disk.clone());
    let engine = Engine::open(again, small()).unwrap();
    let t = engine.open_table("t").unwrap();
    assert_eq!(all(&engine, &t).len(), rows);
    let left = engine.prepared();
    assert!(left.len() >= commits);
    for xid in &left {
        assert!(engine.commit_prepared(xid).unwrap());
    }
    assert_eq!(all(&engine, &t).len(), rows + left.len());
}

#[test]
fn thousands_of_prepared_transactions_are_found_again() {
    let vfs = memory();
    let options = Options { cache_bytes: 32 << 20, ..small() };
    let engine = open_with(&vfs, options.clone());
    let t = engine.create_table(plain("t")).unwrap();
    let mut handles = Vec::new();
    for n in 0..5_000 {
        let mut txn = begin(&engine);
        txn.put(&t, &key(n), b"v", false).unwrap();
        handles.push(txn.prepare(xid(n)).unwrap());
    }
    let engine = open_with(&copy(&vfs), options);
    let t = engine.open_table("t").unwrap();
    let found = engine.prepared();
    assert_eq!(found.len(), 5_000);
    for (n, xid) in found.iter().enumerate() {
        match n % 2 {
            0 => assert!(engine.commit_prepared(xid).unwrap()),
            _ => assert!(engine.rollback_prepared(xid).unwrap()),
        }
    }
    assert_eq!((all(&engine, &t).len(), t.rows()), (2_500, 2_500));
}
