//! Damaged pages, and stored keys that are not in order. Under a second.

use frond_base::{EntryKind, ErrorKind, SEQ_MAX};
use frond_run::testing::TestRng;
use frond_run::{KeyShape, Page, RunBuilder, RunFormat, RunIdentity};
use frond_tree::{Bounds, Formats, RunStore, Seek, Step, TreeOptions};

use crate::support::{below, tiny, Bench, TREE};

/// Writes `count` random rows of a few thousand and freezes them.
fn change(bench: &mut Bench, rng: &mut TestRng, count: u64) {
    let row = |rng: &mut TestRng| (below(rng, 6_000).to_be_bytes().to_vec(), Some(rng.bytes(40)));
    bench.write((0..count).map(|_| row(rng)).collect());
    bench.freeze();
}

/// Does what the tree offers, whether it fails or not; returns the number of failures.
fn work(bench: &Bench) -> usize {
    let (mut jobs, mut failures) = (0, 0);
    while let Some(plan) = bench.tree.plan() {
        jobs += 1;
        assert!(jobs < 5_000, "failing work is offered again and again");
        let mut job = bench.tree.begin(&plan, bench.retention()).unwrap();
        loop {
            match job.step() {
                Ok(Step::More) => {}
                Ok(Step::Done) => break,
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
                    failures += 1;
                    break;
                }
            }
        }
    }
    bench.tree.check(false).unwrap();
    failures
}

/// All pages rot while slices wait on edges of every level; later the file is restored.
#[test]
fn buffers_drain_around_damaged_pages_and_all_is_there_when_they_are_whole_again() {
    let mut rng = TestRng::new(8);
    let mut bench = Bench::new(tiny());
    for _ in 0..40 {
        change(&mut bench, &mut rng, 300);
        bench.settle();
    }
    // Small ones, which stay on edges.
    for _ in 0..2 {
        change(&mut bench, &mut rng, 150);
        bench.settle();
    }
    let rotten = bench.store.blocks();
    bench.store.flip(&rotten);
    let mut failures = 0;
    for _ in 0..30 {
        change(&mut bench, &mut rng, 300);
        failures += work(&bench);
        assert_eq!(bench.tree.frozen_count(), 0, "after {failures} failures");
    }
    assert!(failures > 10, "{failures} failures: nothing had to go around anything");
    assert!(bench.tree.damage().is_some());
    assert_eq!(bench.tree.debt().total(), 0, "nobody is slowed for what is not done");
    bench.tree.retry_damaged();
    assert!(bench.tree.damage().is_none() && work(&bench) > 0, "it is tried again");
    bench.store.flip(&rotten);
    bench.tree.retry_damaged();
    bench.settle();
    assert!(bench.tree.damage().is_none());
    bench.verify_all(SEQ_MAX);
}

/// Pages with right checksums and fences, whose last keys are the smallest one.
#[test]
fn a_walk_over_keys_that_are_not_in_order_ends() {
    let shape = KeyShape::fixed(&[8]);
    let format = RunFormat { key_shape: shape, ..crate::support::format(false) };
    let options = TreeOptions { formats: Formats { upper: format, ..tiny().formats }, ..tiny() };
    let bench = Bench::new(options);
    let build = |per_page: usize| {
        let block = bench.store.next_block();
        let mut builder = RunBuilder::new(&format, RunIdentity { table: TREE.table, block });
        for n in 0..3_000usize {
            let last = n % per_page == per_page - 1 && n < 2_900;
            let key = if last { 1 } else { n as u64 };
            // Without sequences a cursor glides to a page's end before it may renew its view.
            builder.push_words(&[key], 0, EntryKind::Put, &[7; 40]);
        }
        builder.finish()
    };
    let sound = build(usize::MAX);
    let index = sound.index("test").unwrap();
    let (offset, len) = index.page_range(0);
    let first = sound.bytes[offset as usize..][..len as usize].to_vec();
    let per_page = Page::parse(first, &sound.meta, 0, "test").unwrap().len();
    let forged = build(per_page);
    let index = forged.index("test").unwrap();
    assert!(index.pages() > 20);
    let extent = bench.store.write_run(&forged, &index).unwrap();
    let key_of_page = |page: u32| index.fence(page).to_vec();
    assert!(bench.tree.attach(vec![vec![(forged.meta, extent)]], 5, 6));
    for forward in [true, false] {
        let mut cursor = bench.tree.cursor(SEQ_MAX, Bounds::all());
        let mut found = match forward {
            true => cursor.first(),
            false => cursor.seek(&key_of_page(15), Seek::Le),
        };
        let mut steps = 0;
        let ended = loop {
            match found {
                Ok(true) => {}
                Ok(false) => break None,
                Err(e) => break Some(e),
            }
            steps += 1;
            assert!(steps < 20_000, "it walks for ever, forward: {forward}");
            found = if forward { cursor.next() } else { cursor.prev() };
        };
        if forward {
            let e = ended.expect("an error");
            assert!(e.kind() == ErrorKind::Corruption && e.message().contains("order"), "{e}");
        }
    }
}

/// A page of a run in the place of another one.
#[test]
fn a_scan_notices_a_page_that_does_not_begin_with_its_fence() {
    let mut bench = Bench::new(tiny());
    bench.write((0..2_000u64).map(|n| (n.to_be_bytes().to_vec(), Some(vec![7; 40]))).collect());
    bench.freeze();
    bench.settle();
    bench.verify_all(SEQ_MAX);
    for block in bench.store.blocks() {
        bench.store.misplace(block, 0, 1);
    }
    for forward in [true, false] {
        let mut cursor = bench.tree.cursor(SEQ_MAX, Bounds::all());
        let mut found = if forward { cursor.first() } else { cursor.last() };
        while let Ok(true) = found {
            found = if forward { cursor.next() } else { cursor.prev() };
        }
        let e = found.unwrap_err();
        assert!(e.kind() == ErrorKind::Corruption && e.message().contains("fence"), "{e}");
    }
}
