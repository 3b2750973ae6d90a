//! Checkpoints of what changed: which nodes are stored again, which packs go, what a failure leaves, and what
//! is refused of forged bytes. The model's histories (`model.rs`) take checkpoints and reopen from them.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{AllReaders, BlockId, ErrorKind, SEQ_MAX};
use frond_run::testing::TestRng;
use frond_tree::testing::stored_debt;
use frond_tree::{synthetic, BlockSource, Image, Tree, TreeLoader};

use crate::support::{below, tiny, Bench, TREE};

/// Keys all over the place, and flushes here and there.
fn write(bench: &mut Bench, rng: &mut TestRng, batches: usize) {
    for _ in 0..batches {
        let key = |rng: &mut TestRng| below(rng, 30_000).to_string().into_bytes();
        let batch = (0..100).map(|_| (key(rng), Some(vec![b'v'; 20]))).collect();
        bench.write(batch);
    }
    bench.freeze();
    bench.settle();
}

fn pack_bytes(bench: &Bench) -> u64 {
    let packs = bench.tree.packs();
    packs.iter().map(|block| bench.store.len(*block)).sum()
}

#[test]
fn checkpoint_without_a_change_writes_nothing() {
    let (mut bench, mut rng) = (Bench::new(tiny()), TestRng::new(1));
    write(&mut bench, &mut rng, 40);
    bench.checkpoint();
    let packs = bench.tree.packs();
    assert!(!packs.is_empty());
    let again = bench.tree.version().store().unwrap();
    assert_eq!((again.bytes_written(), again.dead_packs().len()), (0, 0));
    drop(again);
    assert_eq!(bench.tree.packs(), packs);
}

#[test]
#[should_panic(expected = "VN1")]
fn two_checkpoints_of_a_tree_at_once_are_a_bug() {
    let bench = Bench::new(tiny());
    let _first = bench.tree.version().store().unwrap();
    let _second = bench.tree.version().store();
}

#[test]
fn checkpoint_writes_what_changed_and_the_path_above_it() {
    let tree = synthetic::tree(5000, 40);
    let whole = tree.version().store().unwrap();
    let all = whole.bytes_written();
    whole.set_durable();
    synthetic::change(&tree, [17, 18, 4000]).unwrap();
    let some = tree.version().store().unwrap();
    // Three leaves, two of one parent; two levels and the root above them.
    let nodes = some.bytes_written() / (all / 5000);
    assert!((3..60).contains(&nodes), "{} of {all} bytes", some.bytes_written());
    assert!(some.image().len() < 1000, "the image has the root's place");
    assert!(some.dead_packs().is_empty());
}

#[test]
fn small_tree_is_in_its_image_and_a_tree_that_shrinks_gives_its_packs_back() {
    let (mut bench, mut rng) = (Bench::new(tiny()), TestRng::new(2));
    write(&mut bench, &mut rng, 40);
    bench.checkpoint();
    assert!(!bench.tree.packs().is_empty());
    bench.write((0..30_000u64).map(|n| (n.to_string().into_bytes(), None)).collect());
    bench.freeze();
    bench.settle();
    let image = bench.checkpoint();
    assert!(bench.tree.packs().is_empty(), "{:?}", bench.tree.packs());
    bench.reopen(Some(image));
    // Its nodes have no places: what grows again is stored anew.
    write(&mut bench, &mut rng, 40);
    let image = bench.checkpoint();
    bench.reopen(Some(image));
    bench.verify_all(SEQ_MAX);
}

#[test]
fn packs_take_at_most_about_four_times_the_live_bytes() {
    let (mut bench, mut rng) = (Bench::new(tiny()), TestRng::new(3));
    write(&mut bench, &mut rng, 60);
    let (mut written, mut most) = (0, 0.0f64);
    let mut image = bench.checkpoint();
    for _ in 0..60 {
        write(&mut bench, &mut rng, 2);
        written += bench.tree.version().store().unwrap().bytes_written();
        image = bench.checkpoint();
        let live = bench.tree.version().image().bytes.len() as f64;
        most = most.max(pack_bytes(&bench) as f64 / live);
    }
    assert!(most < 6.0, "{most} times the live bytes");
    assert!(written > 0);
    bench.reopen(Some(image));
    bench.verify_all(SEQ_MAX);
}

/// Most of a pack is inner nodes, which the next checkpoint writes again; its leaves stay for long.
#[test]
fn packs_with_few_live_nodes_are_cleared() {
    let tree = synthetic::tree(2000, 40);
    synthetic::checkpoint(&tree).unwrap();
    let (_, all) = synthetic::pack_bytes(&tree);
    let mut most = 0;
    let mut rng = TestRng::new(8);
    for _ in 0..400 {
        synthetic::change(&tree, (0..20).map(|_| below(&mut rng, 2000))).unwrap();
        synthetic::checkpoint(&tree).unwrap();
        let (bytes, live) = synthetic::pack_bytes(&tree);
        assert!(live > all / 2, "{live} of {all}");
        most = most.max(bytes * 100 / live);
    }
    // 590 % as it is, as clearing moves no more than what changed; 1650 % without clearing.
    assert!(most < 800, "{most} % of the live bytes");
}

#[test]
fn checkpoint_that_fails_changes_nothing() {
    let (mut bench, mut rng) = (Bench::new(tiny()), TestRng::new(4));
    write(&mut bench, &mut rng, 40);
    let image = bench.checkpoint();
    write(&mut bench, &mut rng, 10);
    let (packs, blocks) = (bench.tree.packs(), bench.store.blocks());
    // Before the image is durable; and when a pack cannot be written.
    drop(bench.tree.version().store().unwrap());
    bench.store.failing.store(true, Ordering::Relaxed);
    assert!(bench.tree.version().store().is_err());
    bench.store.failing.store(false, Ordering::Relaxed);
    assert_eq!((bench.tree.packs(), bench.store.blocks()), (packs, blocks));
    bench.reopen(Some(image));
    bench.verify_all(SEQ_MAX);
    let image = bench.checkpoint();
    bench.reopen(Some(image));
    bench.verify_all(SEQ_MAX);
}

#[test]
fn node_that_changes_while_it_is_stored_is_stored_again() {
    let (mut bench, mut rng) = (Bench::new(tiny()), TestRng::new(5));
    write(&mut bench, &mut rng, 40);
    bench.checkpoint();
    write(&mut bench, &mut rng, 4);
    let stored = bench.tree.version().store().unwrap();
    write(&mut bench, &mut rng, 4);
    bench.set_durable(stored);
    let image = bench.checkpoint();
    bench.reopen(Some(image));
    bench.verify_all(SEQ_MAX);
}

#[test]
fn debt_of_a_stored_tree_is_that_of_the_tree() {
    let (mut bench, mut rng) = (Bench::new(tiny()), TestRng::new(6));
    write(&mut bench, &mut rng, 40);
    for n in 0..30 {
        write_some(&mut bench, &mut rng, n);
    }
    let image = bench.checkpoint();
    bench.reopen(Some(image));
    let debt = bench.tree.debt();
    assert!(debt.upper > 0 && debt.leaves > 0, "something is left to do: {debt:?}");
    assert_eq!(stored_debt(&bench.tree), Some(debt.upper + debt.leaves));
}

/// A freeze, and none of the work that comes of it.
fn write_some(bench: &mut Bench, rng: &mut TestRng, n: u64) {
    let key = |rng: &mut TestRng| below(rng, 30_000).to_string().into_bytes();
    bench.write((0..40 + n).map(|_| (key(rng), Some(vec![b'w'; 20]))).collect());
    bench.freeze();
    while bench.tree.frozen_count() > 0 {
        let plan = bench.tree.plan().unwrap();
        let mut job = bench.tree.begin(&plan, bench.retention()).unwrap();
        while job.step().unwrap() == frond_tree::Step::More {}
    }
}

#[test]
fn damage_to_packs_is_found_and_forged_images_are_refused() {
    let (mut bench, mut rng) = (Bench::new(tiny()), TestRng::new(7));
    // Values that do not compress: so there are enough leaves for several packs.
    for _ in 0..80 {
        let value = |rng: &mut TestRng| (0..40).map(|_| below(rng, 256) as u8).collect();
        let key = |rng: &mut TestRng| below(rng, 30_000).to_string().into_bytes();
        let batch = (0..100).map(|_| (key(&mut rng), Some(value(&mut rng)))).collect();
        bench.write(batch);
    }
    bench.freeze();
    bench.settle();
    bench.checkpoint();
    // And nodes that nobody needs any more.
    bench.write(
        (0..200).map(|n| (format!("17{n:03}").into_bytes(), Some(vec![b'w'; 40]))).collect(),
    );
    bench.freeze();
    bench.settle();
    let image = bench.checkpoint();
    let packs = bench.tree.packs();
    assert!(packs.len() > 1, "{packs:?}");
    let load = |image: &Image, source: &dyn BlockSource| -> frond_base::Result<Tree> {
        let (store, log) = (bench.store.clone(), bench.log.clone());
        let loader = TreeLoader::from_image(TREE, &image.bytes, source, "forged")?;
        loader.finish(tiny(), store, log, Arc::new(AllReaders), "forged")
    };
    assert!(load(&image, &*bench.store).is_ok());
    for block in &packs {
        for round in 0..40 {
            let at = below(&mut rng, bench.store.len(*block));
            let source = Damaged { bench: &bench, block: *block, at, cut: round % 4 == 0 };
            // Bytes of dead nodes may be anything.
            if let Err(e) = load(&image, &source) {
                assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
            }
            assert!(bench.tree.check(true).is_ok());
        }
    }
    let mut refused = 0;
    for _ in 0..2000 {
        let mut bytes = image.bytes.clone();
        let at = below(&mut rng, bytes.len() as u64) as usize;
        match below(&mut rng, 3) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << below(&mut rng, 8),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
        if let Err(e) = load(&Image { lsn: image.lsn, bytes }, &*bench.store) {
            let known = [ErrorKind::Corruption, ErrorKind::UnsupportedFormat];
            assert!(known.contains(&e.kind()), "{e:?}");
            refused += 1;
        }
    }
    // The debt, the edit's position and the next node may be other numbers.
    assert!(refused > 1500, "only {refused} refused");
}

/// The store with one damaged block.
struct Damaged<'a> {
    bench: &'a Bench,
    block: BlockId,
    at: u64,
    cut: bool,
}

impl BlockSource for Damaged<'_> {
    fn read_block(&self, block: BlockId, offset: u64, len: u64) -> frond_base::Result<Vec<u8>> {
        let mut bytes = self.bench.store.read_block(block, offset, len)?;
        let at = self.at.wrapping_sub(offset) as usize;
        if block == self.block && at < bytes.len() {
            match self.cut {
                true => bytes.truncate(at),
                false => bytes[at] ^= 0x10,
            }
        }
        Ok(bytes)
    }

    fn block_extent(&self, block: BlockId) -> Option<frond_tree::Extent> {
        self.bench.store.block_extent(block)
    }
}
