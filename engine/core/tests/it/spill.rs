//! Transactions larger than memory. Crashes at every point are the simulator's.

use std::collections::BTreeMap;
use std::sync::Arc;

use frond_engine::{Engine, ErrorKind, Options, Seek, Table, Transaction};
use frond_vfs::testing::SmallDisk;
use frond_vfs::MemVfs;

use crate::support::*;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A few kilobytes of changes are too many.
pub(crate) fn tiny() -> Options {
    Options { transaction_bytes: 16 << 10, ..small() }
}

pub(crate) fn open_tiny(vfs: &MemVfs) -> Engine {
    Engine::open(Arc::new(vfs.clone()), tiny()).unwrap()
}

pub(crate) fn number(engine: &Engine, name: &str) -> u64 {
    engine.status().iter().find(|(n, _)| *n == name).unwrap().1
}

fn value(rng: &mut Rng, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|_| rng.next() as u8).collect()
}

/// Puts `rows` rows of 200 bytes in an order that is not that of the keys.
pub(crate) fn fill(txn: &mut Transaction, table: &Arc<Table>, rows: u64, tag: u8) {
    for n in 0..rows {
        let k = n.wrapping_mul(7_919) % rows;
        txn.put(table, &key(k), &row(k, tag), false).unwrap();
    }
}

pub(crate) fn filled(rows: u64, tag: u8) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..rows).map(|k| (key(k), row(k, tag))).collect()
}

fn row(k: u64, tag: u8) -> Vec<u8> {
    value(&mut Rng(k << 8 | u64::from(tag)), 200)
}

pub(crate) fn settle(engine: &Engine) {
    while engine.background_step() {}
}

#[test]
fn a_transaction_of_twenty_caches_commits_and_survives() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, &key(3), b"before");
    let mut before = begin(&engine);
    before.snapshot();
    let mut txn = begin(&engine);
    let mut rng = Rng(1);
    let rows = 20 * (8 << 20) / 4_000;
    for n in 0..rows {
        let k = n * 7_919 % rows;
        let mut v = value(&mut Rng(k), 64);
        v.resize(4_000, k as u8);
        txn.put(&t, &key(k), &v, false).unwrap();
        if n % 1_000 == 0 {
            let known = rng.below(n + 1) * 7_919 % rows;
            assert_eq!(get(&mut txn, &t, &key(known)).unwrap()[..64], value(&mut Rng(known), 64));
        }
    }
    assert!(number(&engine, "spills") >= 100, "{}", number(&engine, "spills"));
    assert_eq!(txn.changes(), rows);
    // No other transaction sees any of it.
    assert_eq!(all(&engine, &t), [(key(3), b"before".to_vec())]);
    txn.commit().unwrap();
    assert_eq!(scan(&engine, &mut before, &t), [(key(3), b"before".to_vec())]);
    assert_eq!(t.rows(), rows);
    settle(&engine);
    assert_eq!(scan(&engine, &mut before, &t), [(key(3), b"before".to_vec())]);
    drop((before, t));
    drop(engine);
    let engine = open(&vfs);
    let t = engine.open_table("t").unwrap();
    let found = all(&engine, &t);
    assert_eq!((found.len() as u64, t.rows()), (rows, rows));
    for (k, (found, v)) in found.iter().enumerate() {
        assert!(*found == key(k as u64) && v[..64] == value(&mut Rng(k as u64), 64)[..]);
    }
    assert!(engine.check_all(&mut |_| ()).is_clean());
}

#[test]
fn a_large_transaction_rolled_back_leaves_nothing() {
    let vfs = memory();
    let engine = open_tiny(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, &key(0), b"before");
    engine.flush_all().unwrap();
    settle(&engine);
    let before = t.statistics();
    for _ in 0..3 {
        let mut txn = begin(&engine);
        fill(&mut txn, &t, 5_000, 1);
        assert!(t.statistics().file_bytes > before.file_bytes + 500_000);
        txn.rollback();
        engine.background_step();
        let after = t.statistics();
        assert_eq!((after.file_bytes, after.free_bytes), (before.file_bytes, before.free_bytes));
    }
    assert_eq!(all(&engine, &t), [(key(0), b"before".to_vec())]);
    drop(t);
    drop(engine);
    let engine = open_tiny(&vfs);
    let t = engine.open_table("t").unwrap();
    assert_eq!(all(&engine, &t), [(key(0), b"before".to_vec())]);
}

/// A transaction that a crash ended before its commit, or that was open when the process ended,
/// takes no space.
#[test]
fn runs_of_a_transaction_that_was_never_committed_are_free_at_the_next_start() {
    let vfs = memory();
    let engine = open_tiny(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, &key(0), b"before");
    engine.flush_all().unwrap();
    let mut txn = begin(&engine);
    fill(&mut txn, &t, 5_000, 1);
    let crashed = crate::durability::copy(&vfs);
    let engine = open_tiny(&crashed);
    let t = engine.open_table("t").unwrap();
    assert_eq!(all(&engine, &t), [(key(0), b"before".to_vec())]);
    for n in 0..50 {
        put(&engine, &t, &key(n), b"v");
    }
    engine.flush_all().unwrap();
    let s = t.statistics();
    assert!(s.file_bytes < 300_000, "{s:?}");
    txn.rollback();
}

#[test]
fn deletes_and_updates_of_spilled_rows_are_seen_at_once() {
    let engine = open_tiny(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    for n in 0..500 {
        put(&engine, &t, &key(n), b"committed");
    }
    let mut txn = begin(&engine);
    fill(&mut txn, &t, 2_000, 1);
    let e = txn.put(&t, &key(77), b"", true).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::DuplicateKey);
    assert!(txn.delete(&t, &key(77)).unwrap());
    assert!(!txn.delete(&t, &key(77)).unwrap());
    assert_eq!(get(&mut txn, &t, &key(77)), None);
    // The deletion goes to a run as well.
    fill_above(&mut txn, &t, 2_000..3_000);
    assert_eq!(get(&mut txn, &t, &key(77)), None);
    assert!(!txn.delete(&t, &key(77)).unwrap());
    txn.put(&t, &key(77), b"again", true).unwrap();
    fill_above(&mut txn, &t, 3_000..4_000);
    assert_eq!(get(&mut txn, &t, &key(77)).unwrap(), b"again");
    for n in (0..2_000).step_by(2) {
        assert!(txn.delete(&t, &key(n)).unwrap(), "{n}");
    }
    let left = scan(&engine, &mut txn, &t);
    assert_eq!(left.len(), 3_000);
    assert!(left[..1_000].iter().enumerate().all(|(i, (k, _))| *k == key(2 * i as u64 + 1)));
    txn.commit().unwrap();
    assert_eq!(all(&engine, &t), left);
    assert_eq!(t.rows(), 3_000);
    engine.flush_all().unwrap();
    assert_eq!(all(&engine, &t), left);
}

pub(crate) fn fill_above(txn: &mut Transaction, table: &Arc<Table>, keys: std::ops::Range<u64>) {
    for n in keys {
        txn.put(table, &key(n), &[9; 100], true).unwrap();
    }
}

/// An open cursor goes on over rows that are written out under it, in both directions.
#[test]
fn a_cursor_keeps_its_place_when_its_transaction_spills() {
    let engine = open_tiny(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    let mut txn = begin(&engine);
    fill(&mut txn, &t, 1_000, 1);
    let mut cursor = engine.cursor(&mut txn, &t, 0).unwrap();
    let mut valid = cursor.first(&txn).unwrap();
    let mut n = 0;
    while valid {
        assert_eq!(cursor.key(), key(n));
        // An update of the row under the cursor, as a statement does.
        txn.put(&t, &key(n), &[2; 300], false).unwrap();
        n += 1;
        valid = cursor.next(&txn).unwrap();
    }
    assert_eq!(n, 1_000);
    let mut valid = cursor.last(&txn).unwrap();
    while valid {
        n -= 1;
        assert_eq!((cursor.key(), cursor.value()), (&key(n)[..], &[2; 300][..]));
        assert!(txn.delete(&t, &key(n)).unwrap());
        valid = cursor.prev(&txn).unwrap();
    }
    assert_eq!(n, 0);
    assert!(!cursor.seek(&txn, &key(0), Seek::Ge).unwrap());
    txn.commit().unwrap();
    assert!(all(&engine, &t).is_empty());
}

#[test]
fn statements_and_savepoints_are_undone_exactly_after_spilling() {
    let engine = open_tiny(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    let mut txn = begin(&engine);
    fill(&mut txn, &t, 300, 1);
    let outer = txn.savepoint();
    let mut done = scan(&engine, &mut txn, &t);
    for round in 0..40u8 {
        let statement = txn.savepoint();
        fill(&mut txn, &t, 20 + 10 * u64::from(round), round);
        for n in 0..5 {
            txn.delete(&t, &key(n)).unwrap();
        }
        if round % 3 == 0 {
            txn.rollback_to(statement);
            assert_eq!(scan(&engine, &mut txn, &t), done, "round {round}");
        }
        txn.release(statement);
        done = scan(&engine, &mut txn, &t);
    }
    assert!(number(&engine, "spills") > 20);
    txn.rollback_to(outer);
    assert_eq!(scan(&engine, &mut txn, &t), filled(300, 1));
    txn.commit().unwrap();
    assert_eq!(all(&engine, &t), filled(300, 1));
    assert_eq!(t.rows(), 300);
}

#[test]
fn a_cursor_goes_on_without_the_spilled_rows_that_were_undone() {
    let engine = open_tiny(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    for k in (0..1_000).step_by(2) {
        put(&engine, &t, &key(k), b"committed");
    }
    let mut txn = begin(&engine);
    let statement = txn.savepoint();
    for k in (1..1_000).step_by(2) {
        txn.put(&t, &key(k), &row(k, 1), false).unwrap();
    }
    assert!(number(&engine, "spills") > 0);
    let mut cursor = engine.cursor(&mut txn, &t, 0).unwrap();
    let mut valid = cursor.first(&txn).unwrap();
    for k in 0..=10 {
        assert_eq!((valid, cursor.key()), (true, &key(k)[..]));
        if k < 10 {
            valid = cursor.next(&txn).unwrap();
        }
    }
    txn.rollback_to(statement);
    for k in (12..1_000).step_by(2) {
        assert!(cursor.next(&txn).unwrap());
        assert_eq!((cursor.key(), cursor.value()), (&key(k)[..], &b"committed"[..]));
    }
    assert!(!cursor.next(&txn).unwrap());
    txn.commit().unwrap();
}

/// Everything at random against a map: the transaction's view at each moment, and the rows after it.
#[test]
fn random_large_transactions_do_as_a_map_does() {
    for seed in 0..12 {
        let mut rng = Rng(seed);
        let vfs = memory();
        let share = [2 << 10, 8 << 10, 64 << 10][rng.below(3) as usize];
        let options = Options { transaction_bytes: share, ..small() };
        let mut engine = Engine::open(Arc::new(vfs.clone()), options.clone()).unwrap();
        engine.create_table(plain("t")).unwrap();
        let mut committed = Rows::new();
        for _ in 0..6 {
            let t = engine.open_table("t").unwrap();
            let mut txn = begin(&engine);
            let mut rows = committed.clone();
            let mut marks: Vec<(u64, Rows)> = Vec::new();
            for _ in 0..rng.below(3_000) {
                step(&engine, &t, &mut txn, &mut rows, &mut marks, &mut rng);
            }
            if rng.below(3) == 0 {
                txn.rollback();
            } else {
                txn.commit().unwrap();
                committed = rows;
            }
            for _ in 0..rng.below(20) {
                engine.background_step();
            }
            assert!(all(&engine, &t) == committed.clone().into_iter().collect::<Vec<_>>());
            assert_eq!(t.rows(), committed.len() as u64, "seed {seed}");
            if rng.below(2) == 0 {
                drop(t);
                let crashed = crate::durability::copy(&vfs);
                let again = Engine::open(Arc::new(crashed.clone()), options.clone()).unwrap();
                let t = again.open_table("t").unwrap();
                assert!(all(&again, &t) == committed.clone().into_iter().collect::<Vec<_>>());
                assert!(again.check_all(&mut |_| ()).is_clean());
                drop((t, again, engine));
                engine = Engine::open(Arc::new(vfs.clone()), options.clone()).unwrap();
            }
        }
        assert!(engine.check_all(&mut |_| ()).is_clean());
    }
}

fn step(
    engine: &Engine,
    t: &Arc<Table>,
    txn: &mut Transaction,
    rows: &mut Rows,
    marks: &mut Vec<(u64, Rows)>,
    rng: &mut Rng,
) {
    let k = key(rng.below(400) * if rng.below(4) == 0 { 1_000 } else { 1 });
    match rng.below(1_000) {
        0..=599 => {
            let bytes = rng.below(120);
            let v = value(rng, bytes);
            let must_be_new = rng.below(5) == 0;
            let put = txn.put(t, &k, &v, must_be_new);
            if must_be_new && rows.contains_key(&k) {
                assert_eq!(put.unwrap_err().kind(), ErrorKind::DuplicateKey);
            } else {
                put.unwrap();
                rows.insert(k, v);
            }
        }
        600..=799 => assert_eq!(txn.delete(t, &k).unwrap(), rows.remove(&k).is_some()),
        800..=979 => assert_eq!(get(txn, t, &k), rows.get(&k).cloned()),
        980..=985 => marks.push((txn.savepoint(), rows.clone())),
        986..=988 if !marks.is_empty() => {
            let to = rng.below(marks.len() as u64) as usize;
            txn.rollback_to(marks[to].0);
            rows.clone_from(&marks[to].1);
            marks.truncate(to + 1);
        }
        989..=991 if !marks.is_empty() => {
            let gone = marks.remove(rng.below(marks.len() as u64) as usize);
            txn.release(gone.0);
        }
        992..=994 => {
            assert!(scan(engine, txn, t) == rows.clone().into_iter().collect::<Vec<_>>());
        }
        995..=999 => {
            let mut cursor = engine.cursor(txn, t, 0).unwrap();
            let mut valid = cursor.seek(txn, &k, Seek::Le).unwrap();
            for (own, v) in rows.range(..=k).rev().take(30) {
                assert!(valid && cursor.key() == &own[..] && cursor.value() == &v[..]);
                valid = cursor.prev(txn).unwrap();
            }
        }
        _ => {}
    }
}

/// Versions that an old snapshot needs are not dropped for the sake of runs that it does not see.
#[test]
fn old_snapshots_see_what_they_saw_through_merges_of_attached_runs() {
    let engine = open_tiny(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    let mut snapshots = Vec::new();
    for tag in 0..6u8 {
        let mut txn = begin(&engine);
        fill(&mut txn, &t, 1_500, tag);
        for n in 0..u64::from(tag) {
            txn.delete(&t, &key(n)).unwrap();
        }
        txn.commit().unwrap();
        let mut reader = begin(&engine);
        reader.snapshot();
        snapshots.push((reader, filled(1_500, tag)[usize::from(tag)..].to_vec()));
        for _ in 0..3 {
            engine.background_step();
        }
    }
    for round in 0..2 {
        for (reader, rows) in &mut snapshots {
            assert!(scan(&engine, reader, &t) == *rows, "round {round}");
            let (k, v) = &rows[700];
            assert_eq!(get(reader, &t, k).as_ref(), Some(v));
        }
        engine.flush_all().unwrap();
        engine.optimize_table(&t, &mut || false).unwrap();
    }
    assert!(engine.check_all(&mut |_| ()).is_clean());
}

#[test]
fn a_full_disk_refuses_a_statement_and_the_transaction_goes_on() {
    let disk = SmallDisk::new(memory(), 64 << 20);
    let engine = Engine::open(Arc::new(disk.clone()), tiny()).unwrap();
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, &key(1_000_000), b"before");
    engine.flush_all().unwrap();
    let mut txn = begin(&engine);
    fill(&mut txn, &t, 300, 1);
    let sure = scan(&engine, &mut txn, &t);
    let statement = txn.savepoint();
    disk.leave(300 << 10);
    let mut rng = Rng(5);
    let refused = (0..5_000).find_map(|n| {
        let v = value(&mut rng, 500);
        txn.put(&t, &key(n), &v, false).err()
    });
    assert_eq!(refused.unwrap().kind(), ErrorKind::NoSpace);
    txn.rollback_to(statement);
    assert_eq!(scan(&engine, &mut txn, &t), sure);
    disk.add(8 << 20);
    txn.put(&t, &key(7), b"after", false).unwrap();
    txn.commit().unwrap();
    assert_eq!(get(&mut begin(&engine), &t, &key(7)).unwrap(), b"after");
    assert!(!engine.is_poisoned() && engine.check_all(&mut |_| ()).is_clean());
}

#[test]
fn a_commit_refused_by_a_full_disk_leaves_nothing() {
    let disk = SmallDisk::new(memory(), 64 << 20);
    let engine = Engine::open(Arc::new(disk.clone()), tiny()).unwrap();
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, &key(1_000_000), b"before");
    engine.flush_all().unwrap();
    let mut txn = begin(&engine);
    let mut rng = Rng(5);
    let mut spills = 0;
    // Just after a spill some rows are in memory.
    for n in 0.. {
        let v = value(&mut rng, 500);
        txn.put(&t, &key(n), &v, false).unwrap();
        spills = number(&engine, "spills");
        if spills == 3 {
            break;
        }
    }
    assert_eq!(spills, 3);
    disk.leave(0);
    assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::NoSpace);
    disk.add(8 << 20);
    settle(&engine);
    assert_eq!(all(&engine, &t), [(key(1_000_000), b"before".to_vec())]);
    put(&engine, &t, &key(2), b"goes on");
    assert!(!engine.is_poisoned() && engine.check_all(&mut |_| ()).is_clean());
}

/// Log and images in every order around a commit that attaches runs.
#[test]
fn attached_runs_survive_with_and_without_edits_and_images() {
    for jobs in 0..12 {
        for image in [false, true] {
            let vfs = memory();
            let engine = open_tiny(&vfs);
            let t = engine.create_table(plain("t")).unwrap();
            fill_above_committed(&engine, &t);
            let mut txn = begin(&engine);
            fill(&mut txn, &t, 2_000, 3);
            let expected = scan(&engine, &mut txn, &t);
            txn.commit().unwrap();
            put(&engine, &t, &key(5_000_000), b"later");
            for _ in 0..jobs {
                engine.background_step();
            }
            if image {
                engine.flush_all().unwrap();
            }
            put(&engine, &t, &key(5_000_001), b"later");
            let crashed = crate::durability::copy(&vfs);
            for _ in 0..3 {
                let engine = open_tiny(&crashed);
                let t = engine.open_table("t").unwrap();
                let found = all(&engine, &t);
                assert!(found[..expected.len()] == expected[..], "{jobs} {image}");
                assert_eq!(found.len(), expected.len() + 2);
                assert_eq!(t.rows(), found.len() as u64);
                assert!(engine.check_all(&mut |_| ()).is_clean());
                engine.background_step();
            }
        }
    }
}

pub(crate) fn fill_above_committed(engine: &Engine, t: &Arc<Table>) {
    let mut txn = begin(engine);
    for n in 1_000..1_500 {
        txn.put(t, &key(2 * n), b"old", false).unwrap();
    }
    txn.commit().unwrap();
}

#[test]
fn the_share_of_memory_is_kept() {
    let engine = open_tiny(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    let mut txn = begin(&engine);
    let charged = || number(&engine, "write_memory_bytes");
    let mut most = 0;
    for n in 0..20_000u64 {
        txn.put(&t, &key(n * 7_919 % 20_000), &[1; 50], false).unwrap();
        most = most.max(charged());
    }
    assert!(most < 64 << 10, "{most}");
    txn.commit().unwrap();
    assert_eq!(all(&engine, &t).len(), 20_000);
}
