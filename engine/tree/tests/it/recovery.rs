//! Failure and recovery: edits replay to the same tree, forged metadata is refused, failed jobs
//! change nothing, space is given back exactly once and never under a reader.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{AllReaders, ErrorKind, SEQ_MAX};
use frond_run::testing::TestRng;
use frond_tree::{Bounds, Job, Step, TreeCursor, TreeLoader, TrunkEdit};

use crate::support::{below, tiny, Bench, TREE};

fn random_bench(seed: u64, batches: usize) -> Bench {
    let mut rng = TestRng::new(seed);
    let mut bench = Bench::new(tiny());
    for i in 0..batches {
        let batch = (0..200)
            .map(|_| {
                let key = below(&mut rng, 20_000).to_string().into_bytes();
                (key, Some(vec![b'v'; 10]))
            })
            .collect();
        bench.write(batch);
        if i % 4 == 3 {
            bench.freeze();
            (0..200).for_each(|_| bench.work(&mut rng));
        }
    }
    bench
}

#[test]
fn handles_may_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Job>();
    is_send::<TreeCursor>();
}

#[test]
fn a_crash_within_a_freeze_replays_what_is_in_runs_already() {
    let mut bench = random_bench(3, 60);
    bench.settle();
    let upto = bench.tree.flushed_upto();
    for n in 0..40 {
        let keys = (0..100).map(|i| (i * 200 + n) % 20_000);
        let batch =
            keys.map(|k: u64| (k.to_string().into_bytes(), (!k.is_multiple_of(3)).then(Vec::new)));
        bench.write(batch.collect());
    }
    bench.freeze();
    let plan = bench.tree.plan().unwrap();
    let mut job = bench.tree.begin(&plan, bench.retention()).unwrap();
    let edits = bench.log.edits(TREE).len();
    while bench.log.edits(TREE).len() == edits {
        assert_eq!(job.step().unwrap(), Step::More, "several groups");
    }
    drop(job);
    assert_eq!(bench.tree.flushed_upto(), upto, "only the last group advances it");
    assert_eq!(bench.tree.frozen_count(), 1);
    bench.verify_all(SEQ_MAX);
    bench.reopen(None);
    bench.verify_all(SEQ_MAX);
    bench.freeze();
    bench.settle();
    assert_eq!(bench.tree.flushed_upto(), bench.lsn);
    bench.verify_all(SEQ_MAX);
}

#[test]
fn a_failed_job_changes_nothing_and_gives_its_space_back() {
    let mut bench = random_bench(4, 40);
    bench.settle();
    let before = bench.tree.image().bytes;
    let blocks = bench.store.blocks();
    bench.write((0..2000u64).map(|n| ((n * 7).to_string().into_bytes(), None)).collect());
    bench.freeze();
    for log_fails in [true, false] {
        bench.log.failing.store(log_fails, Ordering::Relaxed);
        let plan = bench.tree.plan().unwrap();
        let mut job = bench.tree.begin(&plan, bench.retention()).unwrap();
        if !log_fails {
            (0..5).for_each(|_| assert_eq!(job.step().unwrap(), Step::More));
            bench.store.failing.store(true, Ordering::Relaxed);
        }
        let failure = loop {
            match job.step() {
                Ok(step) => assert_eq!(step, Step::More),
                Err(e) => break e,
            }
        };
        assert_eq!(failure.kind(), ErrorKind::Io);
        drop(job);
        assert_eq!(bench.tree.image().bytes, before);
        assert_eq!(bench.store.blocks(), blocks);
        bench.verify_all(SEQ_MAX);
    }
    bench.log.failing.store(false, Ordering::Relaxed);
    bench.store.failing.store(false, Ordering::Relaxed);
    bench.settle();
    bench.verify_all(SEQ_MAX);
}

#[test]
fn runs_are_synced_before_an_edit_names_them() {
    let bench = random_bench(6, 60);
    let blocks = bench.tree.run_extents();
    assert!(!blocks.is_empty());
    assert!(blocks.iter().all(|(block, _)| bench.store.is_synced(*block)));
}

#[test]
fn a_reader_keeps_the_runs_of_its_view_until_it_lets_go() {
    let mut bench = random_bench(7, 40);
    bench.settle();
    let old: Vec<u64> = bench.tree.run_extents().iter().map(|(b, _)| *b).collect();
    let mut cursor = bench.tree.cursor(bench.seq, Bounds::all());
    assert!(cursor.first().unwrap());
    for _ in 0..4 {
        bench.write((0..20_000u64).map(|n| (n.to_string().into_bytes(), None)).collect());
        bench.freeze();
        bench.settle();
    }
    assert!(bench.tree.run_extents().iter().all(|(b, _)| !old.contains(b)), "all was rewritten");
    assert!(old.iter().all(|b| bench.store.blocks().contains(b)), "still being read");
    drop(cursor);
    assert!(old.iter().all(|b| !bench.store.blocks().contains(b)));
    let retired = bench.store.retired();
    assert!(old.iter().all(|b| retired.iter().filter(|(r, _)| r == b).count() == 1));
}

#[test]
fn forged_edits_and_images_are_refused_without_panic() {
    let bench = random_bench(8, 60);
    let image = bench.tree.image();
    let edits = bench.log.edits(TREE);
    let mut rng = TestRng::new(9);
    let mut refused = 0;
    let finish = |loader: TreeLoader| {
        let (store, log) = (bench.store.clone(), bench.log.clone());
        let tree = loader.finish(tiny(), store, log, Arc::new(AllReaders), "forged")?;
        tree.check(false)
    };
    for round in 0..3000 {
        let mut bytes = match round % 2 {
            0 => image.bytes.clone(),
            _ => edits[below(&mut rng, edits.len() as u64) as usize].1.clone(),
        };
        for _ in 0..1 + below(&mut rng, 3) {
            let i = below(&mut rng, bytes.len() as u64) as usize;
            match below(&mut rng, 4) {
                0 => bytes.truncate(i.max(1)),
                1 => bytes[i] = 0xff,
                2 => bytes[i] = bytes[i].wrapping_add(1),
                _ => bytes[i] ^= 1 << below(&mut rng, 8),
            }
        }
        let outcome = match round % 2 {
            0 => TreeLoader::from_image(TREE, &bytes, &*bench.store, "forged").and_then(finish),
            _ => TrunkEdit::decode(&bytes, "forged").and_then(|edit| {
                let mut loader =
                    TreeLoader::from_image(TREE, &image.bytes, &*bench.store, "image")?;
                loader.apply_edit(u64::MAX - 1, &edit, "forged")?;
                finish(loader)
            }),
        };
        if let Err(e) = outcome {
            let known = [ErrorKind::Corruption, ErrorKind::UnsupportedFormat];
            assert!(known.contains(&e.kind()), "{e:?}");
            assert!(e.message().contains("forged"), "{e:?}");
            refused += 1;
        }
    }
    assert!(refused > 2000, "only {refused} refused");
}

#[test]
fn edits_and_images_of_a_newer_format_are_told_from_damage() {
    let bench = random_bench(8, 60);
    let image = bench.tree.image();
    let mut reader = frond_base::ByteReader::new(&image.bytes);
    reader.varint().unwrap();
    let mut of_image = image.bytes.clone();
    of_image[reader.position()] = 77;
    let e = TreeLoader::from_image(TREE, &of_image, &*bench.store, "1.frd").err().unwrap();
    assert_eq!(e.kind(), ErrorKind::UnsupportedFormat, "{e}");
    assert!(e.message().contains("1.frd") && e.message().contains("77"), "{e}");
    let mut of_edit = bench.log.edits(TREE)[0].1.clone();
    of_edit[0] = 77;
    let e = TrunkEdit::decode(&of_edit, "log").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::UnsupportedFormat, "{e}");
}

#[test]
fn a_deep_check_finds_a_run_that_its_meta_does_not_describe() {
    let bench = random_bench(10, 60);
    let mut image = bench.tree.image();
    let mut edit_bytes = Vec::new();
    // The image is a position and an edit; change the entry count of its first run.
    let mut reader = frond_base::ByteReader::new(&image.bytes);
    let lsn = reader.varint().unwrap();
    let mut edit = TrunkEdit::decode(&image.bytes[reader.position()..], "image").unwrap();
    edit.runs_added[0].0.entries += 1;
    frond_base::put_varint(&mut edit_bytes, lsn);
    edit.encode(&mut edit_bytes);
    image.bytes = edit_bytes;
    let loader = TreeLoader::from_image(TREE, &image.bytes, &*bench.store, "image").unwrap();
    let (store, log) = (bench.store.clone(), bench.log.clone());
    let tree = loader.finish(tiny(), store, log, Arc::new(AllReaders), "image").unwrap();
    tree.check(false).unwrap();
    assert_eq!(tree.check(true).unwrap_err().kind(), ErrorKind::Corruption);
}
