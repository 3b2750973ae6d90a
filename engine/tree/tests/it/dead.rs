//! Ranges without rows that readers find: what they save, and that no reader misses a row for them.
#![allow(clippy::disallowed_methods)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{AllReaders, EntryKind, EntryRef, ErrorKind, Seq, SEQ_MAX};
use frond_run::testing::TestRng;
use frond_tree::testing::{MemLog, MemStore};
use frond_tree::{Bounds, Seek, Tree, TreeOptions};

use crate::owner::Owner;
use crate::support::*;

fn row(n: u64) -> Vec<u8> {
    format!("row {n:08}").into_bytes()
}

fn put(n: u64) -> (Vec<u8>, Option<Vec<u8>>) {
    (row(n), Some(vec![7; 20]))
}

/// Rows come in on the right and go on the left; what each look for the outermost row examines.
fn queue(backward: bool) -> (u64, u64) {
    let mut bench = Bench::new(tiny());
    let at = |n: u64| if backward { 100_000 - n } else { n };
    bench.write((0..100).map(|n| put(at(n))).collect());
    let (mut most, mut all) = (0, 0);
    for n in 0..4_000 {
        bench.write(vec![put(at(100 + n))]);
        let mut cursor = bench.tree.cursor(SEQ_MAX, Bounds::all());
        assert!(if backward { cursor.last() } else { cursor.first() }.unwrap());
        assert_eq!(cursor.key(), row(at(n)));
        most = most.max(cursor.examined());
        all += cursor.examined();
        bench.write(vec![(row(at(n)), None)]);
    }
    (most, all / 4_000)
}

#[test]
fn a_look_for_the_first_row_of_a_queue_does_not_walk_all_that_was_deleted() {
    for backward in [false, true] {
        let (most, mean) = queue(backward);
        // The first batches of a buffer, twice, and up to 64 dead keys that no range has yet.
        assert!(most < 400 && mean < 200, "{most} at most, {mean} on average");
    }
}

/// Both ends, and the rows behind some places, as the model has them.
fn compare(bench: &Bench, rng: &mut TestRng, at: Seq, keys: u64) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let mut cursor = bench.tree.cursor(at, Bounds::all());
    let model = bench.model.range(Unbounded, Unbounded, at);
    let mut valid = cursor.first().unwrap();
    for (key, _) in &model {
        assert!(valid && cursor.key() == *key, "forwards at {at}");
        valid = cursor.next().unwrap();
    }
    assert!(!valid);
    valid = cursor.last().unwrap();
    for (key, _) in model.iter().rev() {
        assert!(valid && cursor.key() == *key, "backwards at {at}");
        valid = cursor.prev().unwrap();
    }
    assert!(!valid);
    let from = row(below(rng, keys));
    let found = cursor.seek(&from, Seek::Ge).unwrap().then(|| cursor.key().to_vec());
    let there = bench.model.range(Included(&from), Unbounded, at);
    assert_eq!(found, there.first().map(|(k, _)| k.to_vec()));
    let found = cursor.seek(&from, Seek::Lt).unwrap().then(|| cursor.key().to_vec());
    let there = bench.model.range(Unbounded, Excluded(&from), at);
    assert_eq!(found, there.last().map(|(k, _)| k.to_vec()));
}

#[test]
fn rows_that_come_into_a_range_without_rows_are_read_at_every_snapshot() {
    for seed in 0..5 {
        let mut rng = TestRng::new(seed);
        // Few views and so few seeks anew: whole scans are what this test does.
        let mut bench = Bench::new(TreeOptions { cursor_refills: 50, ..tiny() });
        let keys = 500;
        bench.write((0..keys).map(put).collect());
        for _ in 0..60 {
            match below(&mut rng, 12) {
                0..=4 => {
                    let (from, n) = (below(&mut rng, keys), 50 + below(&mut rng, 200));
                    bench.write((from..keys.min(from + n)).map(|n| (row(n), None)).collect());
                }
                5..=7 => bench.write(vec![put(below(&mut rng, keys))]),
                8 => {
                    let mut owner = Owner::new(&bench);
                    owner.write(vec![put(below(&mut rng, keys)), put(below(&mut rng, keys))]);
                    bench.attach(owner);
                }
                9 if bench.snapshots.len() < 2 => bench.snapshots.push(bench.seq),
                9 => drop(bench.snapshots.remove(0)),
                10 => bench.freeze(),
                _ => (0..30).for_each(|_| bench.work(&mut rng)),
            }
            let mut ats = bench.snapshots.clone();
            ats.extend([bench.seq, SEQ_MAX]);
            for at in ats {
                compare(&bench, &mut rng, at, keys);
            }
        }
    }
}

#[test]
fn an_interrupt_also_ends_the_second_look_at_a_range() {
    let mut bench = Bench::new(TreeOptions { cursor_refills: 1000, ..tiny() });
    bench.write((0..10_000).map(|n| (row(n), None)).collect());
    let mut cursor = bench.tree.cursor(bench.seq, Bounds::all());
    assert!(cursor.first().is_ok_and(|found| !found));
    let first = cursor.examined() / 1000;
    bench.write(vec![put(5)]);
    bench.write(vec![(row(5), None)]);
    // Polled once in 1000 entries: the walk itself is over when this is raised.
    let mut polls = 0;
    let mut cursor = bench.tree.cursor(bench.seq, Bounds::all());
    cursor.set_interrupt(Box::new(move || {
        polls += 1;
        polls > first + 3
    }));
    assert_eq!(cursor.first().unwrap_err().kind(), ErrorKind::Interrupted);
    let mut cursor = bench.tree.cursor(bench.seq, Bounds::all());
    assert!(!cursor.first().unwrap());
    assert!(!cursor.first().unwrap());
    assert!(cursor.examined() < 12_000, "the range is known: {}", cursor.examined());
}

/// KR2: a reader that is about to confirm a range and a writer of a row in it.
#[test]
fn a_row_that_is_committed_while_readers_look_at_its_range_is_read() {
    let (store, log) = (MemStore::new(), MemLog::new());
    let tree = Tree::new(TREE, tiny(), store, log, Arc::new(AllReaders));
    let entry = |key: &[u8], seq, kind| {
        tree.write(seq, [EntryRef { key, seq, kind, value: b"" }]);
    };
    for n in 0..100 {
        entry(&row(n), n + 1, EntryKind::Delete);
    }
    let first: Seq = 102;
    let published = AtomicU64::new(first);
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    let at = published.load(Ordering::Acquire);
                    let mut cursor = tree.cursor(at, Bounds::all());
                    let found = cursor.first().unwrap();
                    assert_eq!(found, at % 2 == 1, "a row at odd sequences; at {at}");
                }
            });
        }
        let mut rng = TestRng::new(1);
        let mut key = row(0);
        for seq in first + 1..first + 40_001 {
            if seq % 2 == 1 {
                key = row(below(&mut rng, 100));
                entry(&key, seq, EntryKind::Put);
            } else {
                entry(&key, seq, EntryKind::Delete);
            }
            published.store(seq, Ordering::Release);
        }
        stop.store(true, Ordering::Release);
    });
}
