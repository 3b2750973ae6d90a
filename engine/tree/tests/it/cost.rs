//! What storing and reading costs, in entries rather than seconds. `cargo test -- --nocapture`
//! shows the figures, times included.
#![allow(clippy::disallowed_methods)]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Instant;

use frond_base::{AllReaders, EntryKind, EntryRef, SEQ_MAX};
use frond_run::testing::TestRng;
use frond_run::{Compression, KeyShape, RunFormat};
use frond_tree::counted::{CountedTree, EntrySizes};
use frond_tree::testing::{drain, MemLog, MemStore};
use frond_tree::{Bounds, Seek, Tree, TreeOptions, TreeStats};

use crate::support::TREE;

/// A secondary index entry: null byte, price, null byte, customer, row id.
fn index_key(rng: &mut TestRng, id: u64) -> Vec<u8> {
    let mut key = vec![1];
    key.extend((rng.next_u64() as u32 % 500_000).to_be_bytes());
    key.push(1);
    key.extend((rng.next_u64() as u32 % 100_000).to_be_bytes());
    key.extend(id.to_be_bytes());
    key
}

/// A tree of `n` random index entries, written in batches, frozen every `buffer` entries, all work
/// done; keys of it, and its runs per read, the mean over all freezes.
fn loaded(n: u64, buffer: u64, options: TreeOptions) -> (Tree, Vec<Vec<u8>>, f64) {
    let tree = Tree::new(TREE, options, MemStore::new(), MemLog::new(), Arc::new(AllReaders));
    let mut rng = TestRng::new(1);
    let (mut sample, mut runs) = (Vec::new(), Vec::new());
    for batch in 0..n / 1000 {
        let mut keys: Vec<Vec<u8>> =
            (0..1000).map(|i| index_key(&mut rng, batch * 1000 + i)).collect();
        sample.push(keys[0].clone());
        keys.sort();
        let entry = |key| EntryRef { key, seq: batch + 1, kind: EntryKind::Put, value: &[] };
        tree.write(batch, keys.iter().map(|k| entry(k)));
        if (batch + 1) * 1000 % buffer == 0 {
            tree.freeze(batch + 1);
            drain(&tree, &[batch + 1]).unwrap();
            runs.push(tree.runs_per_read());
        }
    }
    (tree, sample, runs.iter().sum::<f64>() / runs.len() as f64)
}

fn index_options() -> TreeOptions {
    let format = RunFormat {
        page_bytes: 16384,
        compression: Compression::None,
        key_shape: KeyShape::fixed(&[1, 4, 1, 4, 8]),
        filter: false,
    };
    TreeOptions {
        leaf_bytes: 128 << 10,
        fanout: 64,
        min_slice: 4 << 10,
        group_bytes: 4 << 20,
        ..TreeOptions::new(format, format)
    }
}

#[test]
fn random_inserts_are_rewritten_few_times() {
    const N: u64 = 1_000_000;
    // A buffer of 1/20 of the data, leaves of 1/75: as 5 GB in 256 MiB of buffers would be.
    let start = Instant::now();
    let (tree, sample, runs) = loaded(N, 50_000, index_options());
    let load = start.elapsed();
    let stats = tree.stats();
    let rewrites = stats.entries_written as f64 / N as f64;
    println!("{N} random index entries in {load:?}: {rewrites:.2} writes per entry, {stats:?}");
    println!("stored bytes per entry: {:.2}", stats.run_bytes as f64 / stats.entries as f64);
    assert_eq!((stats.entries, stats.entries_flushed), (N, N));
    assert!(stats.leaves > 30);
    assert!(rewrites < 6.0, "{rewrites:.2} writes per entry");
    agrees_with_the_model(&tree, 50_000, runs);

    let start = Instant::now();
    let mut cursor = tree.cursor(SEQ_MAX, Bounds::all());
    let (mut rows, mut more) = (0, cursor.first().unwrap());
    while more {
        rows += 1;
        more = cursor.next().unwrap();
    }
    assert_eq!(rows, N);
    println!("full scan: {:?} per row", start.elapsed() / N as u32);

    let start = Instant::now();
    let mut value = Vec::new();
    for key in &sample {
        assert!(tree.get(key, SEQ_MAX, &mut value).unwrap().is_some());
    }
    println!("cached point read: {:?}", start.elapsed() / sample.len() as u32);

    let start = Instant::now();
    for key in &sample {
        cursor.seek(key, Seek::Ge).unwrap();
        (0..9).for_each(|_| {
            if cursor.valid() {
                cursor.next().unwrap();
            }
        });
    }
    println!("cached range read of 10 rows: {:?}", start.elapsed() / sample.len() as u32);
}

/// `tree` was made by freezes of `buffer` random entries each: a tree of counts with its options writes
/// as much, within 15 percent.
fn agrees_with_the_model(tree: &Tree, buffer: u64, runs: f64) {
    let stats = tree.stats();
    let sizes = EntrySizes {
        logical: 18.0,
        stored: stats.run_bytes as f64 / stats.entries as f64,
        estimated: 9.0,
    };
    let mut model = CountedTree::new(|options| *options = tree.options().clone(), sizes);
    let (freezes, mut counted_runs) = (stats.entries / buffer, 0.0);
    for _ in 0..freezes {
        model.freeze(buffer).unwrap();
        counted_runs += model.tree.runs_per_read() / freezes as f64;
    }
    let counted = model.tree.stats();
    assert_eq!((counted.entries, counted.entries_flushed), (stats.entries, stats.entries));
    let near = |what, real: f64, model: f64| {
        println!("{what}: {real:.2}, by the model {model:.2}");
        assert!((real / model - 1.0).abs() < 0.15, "{what}: {real:.2}, by the model {model:.2}");
    };
    near("writes", stats.entries_written as f64, counted.entries_written as f64);
    let mean = |s: &TreeStats| s.delta_bytes as f64 / s.deltas as f64;
    near("mean delta", mean(&stats), mean(&counted));
    near("runs per read", runs, counted_runs);
}

/// Costs a second. With a job for each edge it was 27 jobs per freeze.
#[test]
fn edges_that_are_due_together_are_flushed_by_one_job() {
    let sizes = EntrySizes { logical: 20.0, stored: 6.5, estimated: 10.0 };
    let mut model = CountedTree::new(|_| {}, sizes);
    let jobs = |model: &CountedTree| model.counts().flushes + model.counts().merges;
    // 300 million entries: a secondary index with a budget of 64 MiB.
    (0..1000).for_each(|_| model.freeze(150_000).unwrap());
    let before = jobs(&model);
    (0..1000).for_each(|_| model.freeze(150_000).unwrap());
    let jobs = (jobs(&model) - before) as f64 / 1000.0;
    println!("{jobs:.2} jobs per freeze");
    assert!(jobs < 12.0, "{jobs:.2} jobs per freeze");
}

#[test]
fn entries_that_wait_on_the_way_are_flushed_once() {
    const N: u64 = 100_000;
    let options = TreeOptions { leaf_bytes: 32 << 10, min_slice: 2 << 10, ..index_options() };
    let (tree, _, _) = loaded(N, 2_000, options);
    let stats = tree.stats();
    assert!(stats.height > 1 && stats.entries_written > 2 * N, "entries wait: {stats:?}");
    assert_eq!(stats.entries_flushed, N);
}

#[test]
fn a_merged_tree_answers_from_one_source() {
    const N: u64 = 200_000;
    let format = RunFormat {
        page_bytes: 16384,
        compression: Compression::None,
        key_shape: KeyShape::fixed(&[8]),
        filter: false,
    };
    let options = TreeOptions { leaf_bytes: 512 << 10, ..TreeOptions::new(format, format) };
    let tree = Tree::new(TREE, options, MemStore::new(), MemLog::new(), Arc::new(AllReaders));
    let keys: Vec<[u8; 8]> = (0..N).map(|n| (n * 3).to_be_bytes()).collect();
    let entry =
        |key| EntryRef { key, seq: 1, kind: EntryKind::Put, value: &b"twenty bytes of value"[..] };
    tree.write(0, keys.iter().map(|k| entry(&k[..])));
    tree.freeze(1);
    drain(&tree, &[1]).unwrap();

    let mut value = Vec::new();
    let mut rng = TestRng::new(2);
    for round in 0..2 {
        let start = Instant::now();
        for _ in 0..100_000 {
            let key = &keys[rng.below(N) as usize];
            assert!(tree.get(key, SEQ_MAX, &mut value).unwrap().is_some());
        }
        println!("merged, round {round}: point read {:?}", start.elapsed() / 100_000);
    }
    let mut cursor = tree.cursor(SEQ_MAX, Bounds::all());
    for forward in [true, false] {
        let start = Instant::now();
        let (mut rows, before) = (0, cursor.examined());
        let mut more = if forward { cursor.first() } else { cursor.last() }.unwrap();
        while more {
            rows += 1;
            more = if forward { cursor.next() } else { cursor.prev() }.unwrap();
        }
        let took = start.elapsed() / N as u32;
        println!("merged: scan, forward {forward}: {took:?} per row");
        assert_eq!((rows, cursor.examined() - before), (N, N), "each entry is looked at once");
    }
    let start = Instant::now();
    for _ in 0..20_000 {
        let key = &keys[rng.below(N - 20) as usize];
        cursor.seek(key, Seek::Ge).unwrap();
        (0..9).for_each(|_| assert!(cursor.next().unwrap()));
    }
    println!("merged: range read of 10 rows {:?}", start.elapsed() / 20_000);
}

#[test]
fn a_short_range_waits_for_its_pages_once() {
    // Deltas as large as the base stay, so that a leaf has several runs.
    let options = TreeOptions { alpha_percent: 1000, ..index_options() };
    let store = MemStore::new();
    let tree = Tree::new(TREE, options, store.clone(), MemLog::new(), Arc::new(AllReaders));
    let mut rng = TestRng::new(2);
    for round in 0..4u64 {
        let mut keys: Vec<_> =
            (0..20_000).map(|i| index_key(&mut rng, round * 20_000 + i)).collect();
        keys.sort();
        let entry = |key| EntryRef { key, seq: round + 1, kind: EntryKind::Put, value: &[] };
        tree.write(round, keys.iter().map(|k| entry(k)));
        tree.freeze(round + 1);
        drain(&tree, &[round + 1]).unwrap();
    }
    for how in [Seek::Ge, Seek::Lt] {
        store.forget_pages();
        let before = (store.pages_read.load(Relaxed), store.page_reads.load(Relaxed));
        let mut cursor = tree.cursor(SEQ_MAX, Bounds::all());
        assert!(cursor.seek(&index_key(&mut rng, 0), how).unwrap());
        let pages = store.pages_read.load(Relaxed) - before.0;
        let reads = store.page_reads.load(Relaxed) - before.1;
        assert!(pages >= 3 && reads == 1, "{pages} pages in {reads} reads, {how:?}");
    }
}

/// A few milliseconds.
#[test]
fn a_seek_reads_as_much_of_a_buffer_as_the_walk_before_took() {
    let tree =
        Tree::new(TREE, index_options(), MemStore::new(), MemLog::new(), Arc::new(AllReaders));
    let keys: Vec<Vec<u8>> =
        (0..20_000u64).map(|n| [&[0; 10][..], &n.to_be_bytes()].concat()).collect();
    let entry = |key| EntryRef { key, seq: 1, kind: EntryKind::Put, value: &[] };
    tree.write(0, keys.iter().map(|k| entry(&k[..])));

    let mut rng = TestRng::new(3);
    // Entries read per walk of `n`, forwards or backwards, when the walks before were of the same kind.
    let mut cost = |n: usize, how: Seek| {
        let mut cursor = tree.cursor(SEQ_MAX, Bounds::all());
        let mut most = 0;
        for walk in 0..20 {
            let before = cursor.examined();
            let at = 1000 + rng.below(18_000) as usize;
            assert!(cursor.seek(&keys[at], how).unwrap());
            for i in 1..n {
                let (moved, want) = match how {
                    Seek::Ge => (cursor.next().unwrap(), at + i),
                    _ => (cursor.prev().unwrap(), at - i),
                };
                assert!(moved && cursor.key() == &keys[want][..]);
            }
            if walk > 0 {
                most = most.max(cursor.examined() - before);
            }
        }
        most
    };
    for how in [Seek::Ge, Seek::Le] {
        assert_eq!(cost(1, how), 2);
        assert_eq!(cost(100, how), 100);
        // One entry more than the first batch holds: a quarter more.
        assert_eq!(cost(129, how), 128 + 32);
        assert_eq!(cost(900, how), 128 + 32 + 64 + 128 + 256 + 512);
    }
}
