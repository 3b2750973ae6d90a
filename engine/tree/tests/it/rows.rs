//! The row cache under a tree: what it serves, and that it is never out of date.

use std::sync::atomic::Ordering;

use frond_base::{EntryKind, EntryRef, SEQ_MAX};
use frond_run::testing::TestRng;
use frond_tree::TreeOptions;

use crate::owner::Owner;
use crate::support::{below, tiny, Bench};

fn key(n: u64) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn put(n: u64, value: &str) -> (Vec<u8>, Option<Vec<u8>>) {
    (key(n), Some(value.into()))
}

/// A tree with 2000 rows in runs.
fn filled() -> Bench {
    let mut bench = Bench::new(tiny());
    bench.write((0..2000).map(|n| put(n, "first")).collect());
    bench.freeze();
    bench.settle();
    bench
}

/// Reads pages for `read`; the value or what there is instead.
fn read(bench: &Bench, n: u64, at: u64) -> (String, u64) {
    let mut value = Vec::new();
    bench.store.forget_pages();
    let before = bench.store.pages_read.load(Ordering::Relaxed);
    let found = bench.tree.get(&key(n), at, &mut value).unwrap();
    let pages = bench.store.pages_read.load(Ordering::Relaxed) - before;
    (found.map_or("nothing".into(), |_| String::from_utf8(value).unwrap()), pages)
}

#[test]
fn a_row_is_read_once_whether_it_is_there_or_not_and_flushes_keep_it_current() {
    let mut bench = filled();
    let served = |bench: &Bench, n: u64, what: &str| {
        assert_eq!(read(bench, n, SEQ_MAX), (what.into(), 0), "key {n}");
    };
    assert_eq!(read(&bench, 7, SEQ_MAX), ("first".into(), 1));
    served(&bench, 7, "first");
    // Only its sequence is asked for first.
    assert!(bench.tree.newest(&key(8)).unwrap().is_some());
    served(&bench, 8, "first");
    read(&bench, 5000, SEQ_MAX);
    served(&bench, 5000, "nothing");
    // Other keys of the same leaf, then these.
    bench.write((0..500).map(|n| put(n + 1000, "other")).collect());
    bench.freeze();
    bench.settle();
    served(&bench, 7, "first");
    bench.write(vec![put(7, "second"), (key(8), None), put(5000, "new")]);
    for at_rest in [false, true] {
        if at_rest {
            bench.freeze();
            bench.settle();
        }
        served(&bench, 7, "second");
        served(&bench, 8, "nothing");
        served(&bench, 5000, "new");
    }
    assert_eq!(bench.tree.newest(&key(7)).unwrap(), Some((bench.seq, EntryKind::Put)));
}

#[test]
fn a_snapshot_does_not_see_a_row_that_is_newer_and_does_not_hide_it_from_others() {
    let mut bench = filled();
    let old = bench.seq;
    bench.snapshots.push(old);
    read(&bench, 7, SEQ_MAX);
    bench.write(vec![put(7, "second")]);
    bench.freeze();
    bench.settle();
    for _ in 0..2 {
        let (value, pages) = read(&bench, 7, old);
        assert_eq!(value, "first");
        assert!(pages > 0, "what only an old snapshot sees is not cached");
        assert_eq!(read(&bench, 7, bench.seq), ("second".into(), 0));
    }
    // Of a key that is not cached, the old version must not be taken for the newest.
    bench.write(vec![put(9, "second")]);
    bench.freeze();
    bench.settle();
    assert_eq!(read(&bench, 9, old).0, "first");
    assert_eq!(read(&bench, 9, SEQ_MAX).0, "second");
}

#[test]
fn attached_runs_drop_the_rows_that_they_may_hold() {
    let mut bench = filled();
    for n in [7, 300, 1500] {
        read(&bench, n, SEQ_MAX);
    }
    let mut owner = Owner::new(&bench);
    owner.write((250..400).map(|n| put(n, "attached")));
    bench.attach(owner);
    for _ in 0..2 {
        assert_eq!(read(&bench, 300, SEQ_MAX).0, "attached");
        assert_eq!(read(&bench, 7, SEQ_MAX), ("first".into(), 0));
        assert_eq!(read(&bench, 1500, SEQ_MAX), ("first".into(), 0));
        bench.settle();
    }
}

/// RWC2: between a reader's look into a page and its admission a whole item is taken in.
#[test]
fn a_reader_that_was_overtaken_by_a_flush_admits_nothing() {
    let mut bench = filled();
    let (tree, seq, lsn) = (bench.tree.clone(), bench.seq + 1, bench.lsn);
    bench.store.amid_next_read(move || {
        let key = key(7);
        let put = EntryRef { key: &key, seq, kind: EntryKind::Put, value: b"second" };
        tree.write(lsn, [put]);
        tree.freeze(lsn + 1);
        frond_tree::testing::drain(&tree, &[seq]).unwrap();
    });
    (bench.lsn, bench.seq) = (lsn + 1, seq);
    assert_eq!(read(&bench, 7, SEQ_MAX).0, "first");
    for _ in 0..2 {
        assert_eq!(read(&bench, 7, SEQ_MAX).0, "second");
    }
    assert_eq!(bench.tree.check_rows().unwrap(), 1);
}

/// Hot keys are read at every step of every job, at all snapshots, while all of them change.
#[test]
fn hot_rows_equal_the_model_at_every_step_of_a_freeze_in_many_groups() {
    for seed in 1..=6 {
        let mut rng = TestRng::new(seed);
        let options = TreeOptions { group_bytes: 4 << 10, min_slice: 512, ..tiny() };
        let mut bench = Bench::new(options);
        let hot = |rng: &mut TestRng| key(below(rng, 60) * 31);
        for round in 0..120u64 {
            let batch = (0..40).map(|_| {
                let k = if below(&mut rng, 2) == 0 {
                    hot(&mut rng)
                } else {
                    key(below(&mut rng, 2000))
                };
                let value = (below(&mut rng, 5) > 0).then(|| format!("{round}").into_bytes());
                (k, value)
            });
            bench.write(batch.collect());
            match below(&mut rng, 6) {
                0 | 1 => bench.freeze(),
                2 => bench.snapshots.push(bench.seq),
                3 => drop(bench.snapshots.pop()),
                4 if !bench.jobs.is_empty() => drop(bench.jobs.pop()),
                _ => {}
            }
            for _ in 0..25 {
                bench.work(&mut rng);
                let mut value = Vec::new();
                let mut ats = bench.snapshots.clone();
                ats.extend([bench.seq, SEQ_MAX]);
                for _ in 0..4 {
                    let k = hot(&mut rng);
                    let at = ats[below(&mut rng, ats.len() as u64) as usize];
                    let found = bench.tree.get(&k, at, &mut value).unwrap();
                    assert_eq!(found.map(|_| &value[..]), bench.model.get(&k, at), "{k:?} at {at}");
                }
            }
            assert!(bench.tree.check_rows().unwrap() > 0 || round < 5);
        }
        bench.settle();
    }
}
