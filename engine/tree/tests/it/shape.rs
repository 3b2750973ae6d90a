//! What becomes of the trunk under typical loads: written once, kept small, read fast.

use std::sync::atomic::Ordering;

use frond_base::{EntryKind, EntryRef, ErrorKind, SEQ_MAX};
use frond_run::testing::TestRng;
use frond_run::{RunBuilder, RunIdentity};
use frond_tree::testing::drain;
use frond_tree::{Bounds, JobKind, RunStore, Seek, TreeOptions};

use crate::support::{below, tiny, Bench, TREE};

fn row(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn put_all(bench: &mut Bench, keys: impl Iterator<Item = u64>) {
    bench.write(keys.map(|n| (row(n), Some(n.to_string().into_bytes()))).collect());
}

fn delete_all(bench: &mut Bench, keys: impl Iterator<Item = u64>) {
    bench.write(keys.map(|n| (row(n), None)).collect());
}

/// A tree of several levels with `n` rows, all in leaf bases.
fn grown(n: u64) -> Bench {
    let mut bench = Bench::new(tiny());
    let mut rng = TestRng::new(5);
    let mut left: Vec<u64> = (0..n).collect();
    while !left.is_empty() {
        let mut batch = Vec::new();
        for _ in 0..2000.min(left.len()) {
            let i = below(&mut rng, left.len() as u64) as usize;
            batch.push(left.swap_remove(i));
        }
        put_all(&mut bench, batch.into_iter());
        bench.freeze();
        bench.settle();
    }
    bench
}

/// Twenty spread keys of a tree with rows 0 to `n` leave no large gap.
fn spread_evenly(bench: &Bench, n: u64) {
    let keys = bench.tree.spread(20);
    assert_eq!(keys, bench.tree.spread(20), "the same state, the same keys");
    let number = |key: &Vec<u8>| {
        let mut bytes = [0; 8];
        bytes[..key.len()].copy_from_slice(key);
        u64::from_be_bytes(bytes)
    };
    let places: Vec<u64> = keys.iter().map(number).chain([n]).collect();
    assert!(keys.len() >= 15 && places.is_sorted(), "{places:?}");
    let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(places[0] <= n / 7 && gaps.max().unwrap() <= n / 7, "{places:?}");
}

#[test]
fn keys_are_spread_evenly_over_runs_and_buffers() {
    let mut bench = grown(20_000);
    spread_evenly(&bench, 20_000);
    put_all(&mut bench, 20_000..40_000);
    spread_evenly(&bench, 40_000);
    bench.freeze();
    put_all(&mut bench, 40_000..60_000);
    spread_evenly(&bench, 60_000);
    bench.settle();
    spread_evenly(&bench, 60_000);
    assert!(Bench::new(tiny()).tree.spread(20).is_empty());
}

/// Subtrees that a range covers are counted by their totals: the sums must be exact, with pending
/// slices and tombstones among them.
#[test]
fn ranges_are_estimated_from_the_totals_of_the_trunk() {
    let mut bench = grown(40_000);
    put_all(&mut bench, 40_000..60_000);
    delete_all(&mut bench, 20_000..24_000);
    bench.freeze();
    let mut rng = TestRng::new(7);
    // A buffer says how many entries it has, not how many of them delete.
    while bench.tree.frozen_count() > 0 {
        bench.work(&mut rng);
    }
    for _ in 0..40 {
        let (a, b) = (below(&mut rng, 60_000), below(&mut rng, 60_000));
        let (lo, hi) = (a.min(b), a.max(b));
        let deleted = hi.min(24_000).saturating_sub(lo.max(20_000));
        let rows = hi - lo - deleted;
        let found = bench.tree.estimate(Some(&row(lo)), Some(&row(hi)));
        assert!(found.abs_diff(rows) <= 2_500, "{lo}..{hi}: {found}, there are {rows}");
        bench.work(&mut rng);
    }
    bench.settle();
    let stats = bench.tree.stats();
    assert!(stats.height >= 3, "{stats:?}");
    assert_eq!(bench.tree.estimate(None, None), stats.entries - 2 * stats.tombstones);
}

#[test]
fn rows_that_arrive_in_key_order_are_written_once() {
    let options = TreeOptions { leaf_bytes: 256 << 10, min_slice: 16 << 10, ..tiny() };
    let mut bench = Bench::new(options);
    for batch in 0..200u64 {
        put_all(&mut bench, batch * 1000..(batch + 1) * 1000);
        if batch % 20 == 19 {
            bench.freeze();
            bench.settle();
        }
    }
    let stats = bench.tree.stats();
    assert_eq!(stats.entries, 200_000);
    assert_eq!(stats.entries_written, 200_000, "each entry was written once");
    assert_eq!(stats.run_bytes, bench.store.bytes_written.load(Ordering::Relaxed));
    assert!(stats.leaves > 5 && stats.height >= 3, "{stats:?}");
    bench.verify_all(SEQ_MAX);
}

#[test]
fn small_freezes_in_key_order_are_rewritten_few_times() {
    let options = TreeOptions { leaf_bytes: 256 << 10, base_runs: 16, ..tiny() };
    let mut bench = Bench::new(options);
    for batch in 0..400u64 {
        put_all(&mut bench, batch * 50..(batch + 1) * 50);
        bench.freeze();
        bench.settle();
    }
    let stats = bench.tree.stats();
    assert_eq!(stats.entries, 20_000);
    assert!(stats.entries_written <= 20_000 * 4, "{stats:?}");
    assert!(stats.runs < 100, "{stats:?}");
}

#[test]
fn a_queue_table_reads_as_fast_after_many_deletes_as_before() {
    let mut bench = Bench::new(tiny());
    let mut cursor_cost = 0;
    for step in 0..400u64 {
        put_all(&mut bench, step * 100..step * 100 + 100);
        if step >= 10 {
            delete_all(&mut bench, (step - 10) * 100..(step - 9) * 100);
        }
        if step % 3 == 0 {
            bench.freeze();
        }
        if step % 7 == 0 {
            bench.settle();
        }
        let mut cursor = bench.tree.cursor(SEQ_MAX, Bounds::all());
        assert!(cursor.first().unwrap());
        assert_eq!(cursor.key(), row(step.saturating_sub(9) * 100));
        cursor_cost = cursor.examined().max(cursor_cost);
    }
    assert!(cursor_cost < 6000, "the head of the queue costs {cursor_cost} entries");
    bench.freeze();
    bench.settle();
    let stats = bench.tree.stats();
    assert!(stats.entries < 4000 && stats.leaves < 12, "{stats:?}");
}

#[test]
fn a_scan_over_dead_entries_gets_its_leaf_merged() {
    let options = TreeOptions { leaf_bytes: 4 << 20, min_slice: 1 << 20, ..tiny() };
    let mut bench = Bench::new(options);
    put_all(&mut bench, 0..40_000);
    bench.freeze();
    bench.settle();
    // Fewer tombstones than would get the leaf merged for their own sake.
    delete_all(&mut bench, 1000..6000);
    bench.freeze();
    bench.settle();
    let before = bench.tree.stats();
    assert_eq!(before.tombstones, 5000);
    for _ in 0..12 {
        let mut cursor = bench.tree.cursor(SEQ_MAX, Bounds::all());
        assert!(cursor.seek(&row(1000), Seek::Ge).unwrap());
        assert_eq!(cursor.key(), row(6000));
        assert_eq!(cursor.skipped_dead(), 5000);
    }
    let plan = bench.tree.plan().expect("the wasted reads call for a merge");
    assert_eq!(plan.kind, JobKind::Merge);
    bench.settle();
    assert_eq!((bench.tree.stats().tombstones, bench.tree.stats().entries), (0, 35_000));
    assert!(bench.tree.plan().is_none());
}

#[test]
fn leaves_that_are_scanned_often_converge_to_one_run() {
    let options = TreeOptions { leaf_bytes: 4 << 20, min_slice: 1, ..tiny() };
    let mut bench = Bench::new(options);
    put_all(&mut bench, (0..20_000).map(|n| n * 2));
    bench.freeze();
    bench.settle();
    put_all(&mut bench, (0..1000).map(|n| n * 40 + 1));
    bench.freeze();
    bench.settle();
    assert_eq!(bench.tree.stats().runs, 2, "a twentieth is not worth a merge by itself");
    for _ in 0..40 {
        bench.verify_all(SEQ_MAX);
    }
    bench.settle();
    assert_eq!(bench.tree.stats().runs, 1);
    bench.verify_all(SEQ_MAX);
}

#[test]
fn a_tree_that_loses_all_rows_shrinks_to_an_empty_leaf() {
    let mut bench = grown(30_000);
    assert!(bench.tree.stats().height >= 3, "{:?}", bench.tree.stats());
    for from in (0..30_000).step_by(2500) {
        delete_all(&mut bench, from..from + 2500);
        bench.freeze();
        bench.settle();
    }
    for _ in 0..40 {
        // The tombstones that are left are merged away when readers have met enough of them.
        bench.verify_all(SEQ_MAX);
        bench.settle();
    }
    let stats = bench.tree.stats();
    assert!(stats.entries < 600 && stats.height <= 2, "{stats:?}");
    put_all(&mut bench, 0..100);
    bench.verify_all(SEQ_MAX);
}

#[test]
fn old_snapshots_keep_only_the_versions_they_need() {
    let mut bench = Bench::new(tiny());
    put_all(&mut bench, 0..200);
    bench.snapshots.push(bench.seq);
    for _ in 0..30 {
        put_all(&mut bench, 0..200);
    }
    bench.freeze();
    bench.settle();
    assert_eq!(bench.tree.stats().entries, 400, "the snapshot's version and the newest");
    bench.verify_all(1);
    bench.verify_all(SEQ_MAX);
}

#[test]
fn attached_runs_are_taken_over_without_rewriting() {
    for with_rows in [false, true] {
        let mut bench = Bench::new(tiny());
        if with_rows {
            put_all(&mut bench, (0..3000).map(|n| n * 10 + 5));
            bench.freeze();
            bench.settle();
            put_all(&mut bench, (0..300).map(|n| n * 100 + 5));
        }
        let before = bench.tree.stats().entries_written;
        let mut runs = Vec::new();
        for part in 0..12u64 {
            let block = bench.store.next_block();
            let id = RunIdentity { table: TREE.table, block };
            let mut builder = RunBuilder::new(&tiny().formats.leaf, id);
            for n in part * 1000..(part + 1) * 1000 {
                let (key, value) = (row(n * 10), b"loaded".to_vec());
                builder.push(EntryRef { key: &key, seq: 0, kind: EntryKind::Put, value: &value });
                bench.model.keys.entry(key).or_default().push((0, Some(value)));
            }
            let built = builder.finish();
            let extent = bench.store.write_run(&built, &built.index("t").unwrap()).unwrap();
            runs.push((built.meta, extent));
        }
        assert!(bench.tree.attach(vec![runs], bench.lsn, bench.lsn + 1));
        bench.lsn += 1;
        bench.verify_all(SEQ_MAX);
        let mut value = Vec::new();
        assert_eq!(bench.tree.get(&row(70), SEQ_MAX, &mut value).unwrap(), Some(0));
        if !with_rows {
            bench.settle();
            assert_eq!(bench.tree.stats().entries_written, before);
            assert_eq!(bench.tree.stats().entries, 12_000);
        }
        bench.settle();
        bench.verify_all(SEQ_MAX);
        assert_eq!(bench.tree.oldest_needed(), None);
    }
}

#[test]
fn values_larger_than_a_page_are_stored_and_scanned() {
    let mut bench = Bench::new(tiny());
    for n in 0..6u64 {
        let value = vec![n as u8; 300_000 + n as usize];
        bench.write(vec![(row(n), Some(value))]);
        bench.freeze();
    }
    bench.settle();
    bench.verify_all(SEQ_MAX);
    bench.write(vec![(row(3), None)]);
    bench.freeze();
    bench.settle();
    bench.verify_all(SEQ_MAX);
}

#[test]
fn a_short_range_read_opens_few_pages() {
    let bench = grown(30_000);
    let pages = || bench.store.pages_read.load(Ordering::Relaxed);
    let (mut most_entries, mut most_pages) = (0, 0);
    for n in (0..29_900).step_by(500) {
        bench.store.forget_pages();
        let before = pages();
        let mut cursor = bench.tree.cursor(SEQ_MAX, Bounds::all());
        cursor.seek(&row(n), Seek::Ge).unwrap();
        (0..9).for_each(|_| assert!(cursor.next().unwrap()));
        most_entries = most_entries.max(cursor.examined());
        most_pages = most_pages.max(pages() - before);
    }
    // A row of each run on the path, and at most one page boundary and one leaf boundary.
    assert!(most_entries <= 60, "ten rows cost {most_entries} entries");
    assert!(most_pages <= 12, "ten rows cost {most_pages} pages");
}

#[test]
fn an_interrupt_ends_a_long_scan() {
    let mut bench = Bench::new(tiny());
    put_all(&mut bench, 0..20_000);
    delete_all(&mut bench, 0..20_000);
    let mut cursor = bench.tree.cursor(SEQ_MAX, Bounds::all());
    let mut polls = 0;
    cursor.set_interrupt(Box::new(move || {
        polls += 1;
        polls == 3
    }));
    assert_eq!(cursor.first().unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(cursor.examined() <= 5000, "{}", cursor.examined());
    assert!(!cursor.valid());
}

#[test]
fn dead_entries_in_the_write_buffer_ask_for_a_freeze() {
    let mut bench = Bench::new(tiny());
    put_all(&mut bench, 0..30_000);
    delete_all(&mut bench, 0..30_000);
    assert!(!bench.tree.wants_freeze());
    assert!(!bench.tree.cursor(SEQ_MAX, Bounds::all()).first().unwrap());
    assert!(bench.tree.wants_freeze());
    bench.freeze();
    assert!(!bench.tree.wants_freeze());
    drain(&bench.tree, &bench.retention()).unwrap();
    assert_eq!(bench.tree.stats().entries, 0, "puts and deletes annihilate on their way");
}

#[test]
fn the_first_and_the_last_key_are_known_from_memory() {
    let mut bench = Bench::new(tiny());
    let mut key = Vec::new();
    assert!(!bench.tree.last_key(&mut key).unwrap());
    assert!(!bench.tree.first_key(&mut key).unwrap() && bench.tree.is_beyond(b""));
    put_all(&mut bench, 100..3000);
    for frozen in [false, true] {
        if frozen {
            bench.freeze();
            bench.settle();
        }
        let pages = bench.store.pages_read.load(Ordering::Relaxed);
        assert!(bench.tree.last_key(&mut key).unwrap());
        assert_eq!(key, row(2999));
        assert!(bench.tree.is_beyond(&row(3000)) && !bench.tree.is_beyond(&row(2999)));
        assert!(bench.tree.first_key(&mut key).unwrap());
        assert_eq!(key, row(100));
        assert_eq!(bench.store.pages_read.load(Ordering::Relaxed), pages);
    }
    // What is in the buffer now lies on both sides of the runs.
    put_all(&mut bench, 3000..3001);
    put_all(&mut bench, 7..8);
    // And then in a run beside the leaf's base.
    for frozen in [false, true] {
        if frozen {
            bench.freeze();
            bench.settle();
        }
        assert!(bench.tree.last_key(&mut key).unwrap());
        assert_eq!(key, row(3000));
        assert!(bench.tree.is_beyond(&row(3001)) && !bench.tree.is_beyond(&row(3000)));
        assert!(bench.tree.first_key(&mut key).unwrap());
        assert_eq!(key, row(7));
    }
}

#[test]
fn newest_tells_tombstones_from_absence() {
    let mut bench = Bench::new(tiny());
    put_all(&mut bench, 0..10);
    delete_all(&mut bench, 5..6);
    assert_eq!(bench.tree.newest(&row(4)).unwrap(), Some((1, EntryKind::Put)));
    assert_eq!(bench.tree.newest(&row(5)).unwrap(), Some((2, EntryKind::Delete)));
    assert_eq!(bench.tree.newest_seq(&row(77)).unwrap(), None);
    bench.snapshots.push(1);
    bench.freeze();
    bench.settle();
    assert_eq!(bench.tree.newest(&row(5)).unwrap(), Some((2, EntryKind::Delete)));
    assert_eq!(bench.tree.newest(&row(4)).unwrap(), Some((0, EntryKind::Put)));
}
