//! Runs that are put below what was written meanwhile, and trees that are emptied.

use frond_base::{Error, ErrorKind, SEQ_MAX};
use frond_run::testing::TestRng;
use frond_tree::{Job, Step};

use crate::owner::Owner;
use crate::support::*;

fn row(n: u64) -> Vec<u8> {
    format!("row {n:08}").into_bytes()
}

fn changes(rng: &mut TestRng, count: u64, keys: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let one = |rng: &mut TestRng| {
        let value: Vec<u8> = (0..below(rng, 60)).map(|_| rng.next_u64() as u8).collect();
        (row(below(rng, keys)), (below(rng, 3) > 0).then_some(value))
    };
    (0..count).map(|_| one(rng)).collect()
}

/// Steps the jobs that are under way to their ends.
fn finish(jobs: &mut Vec<Job>) -> frond_base::Result<()> {
    if let Some(job) = jobs.last_mut() {
        if job.step()? == Step::Done {
            jobs.pop();
        }
    }
    Ok(())
}

fn attach_below(bench: &mut Bench, owner: &mut Owner) {
    let tree = bench.tree.clone();
    tree.attach_below(&mut owner.runs, &mut || finish(&mut bench.jobs)).unwrap();
    for (key, value) in std::mem::take(&mut owner.model) {
        bench.model.keys.entry(key).or_default().insert(0, (0, value));
    }
}

#[test]
fn what_was_written_meanwhile_wins_over_the_runs_put_below() {
    for seed in 0..40 {
        let mut rng = TestRng::new(seed);
        let mut bench = Bench::new(tiny());
        bench.tree.set_building(true);
        let keys = 200 + below(&mut rng, 3_000);
        let mut owner = Owner::new(&bench);
        for _ in 0..1 + below(&mut rng, 5) {
            let count = below(&mut rng, keys / 2);
            owner.write(
                (0..count)
                    .map(|_| (row(below(&mut rng, keys)), Some(vec![7; 30])))
                    .collect::<Vec<_>>(),
            );
        }
        owner.runs.merge_all(&mut || Ok(())).unwrap();
        let at = below(&mut rng, 60);
        for round in 0..80 {
            if round == at {
                attach_below(&mut bench, &mut owner);
            }
            if round == 70 {
                bench.tree.set_building(false);
            }
            let batch = changes(&mut rng, 60, keys);
            bench.write(batch);
            if below(&mut rng, 3) == 0 {
                bench.freeze();
            }
            if round >= at && below(&mut rng, 6) == 0 {
                bench.snapshots.push(bench.seq);
            }
            for _ in 0..below(&mut rng, 40) {
                bench.work(&mut rng);
            }
            if round > at {
                bench.verify_some(&mut rng, &mut |rng| row(below(rng, keys)));
            }
        }
        bench.verify_all(bench.seq);
        bench.settle();
        bench.verify_all(SEQ_MAX);
        for at in bench.snapshots.clone() {
            bench.verify_all(at);
        }
        let image = bench.tree.image();
        bench.reopen((seed % 2 == 0).then_some(image));
        bench.verify_all(bench.seq);
    }
}

#[test]
fn a_wait_that_gives_up_leaves_the_tree_as_it_was() {
    let mut rng = TestRng::new(1);
    let mut bench = Bench::new(tiny());
    bench.tree.set_building(true);
    let batch = changes(&mut rng, 500, 1_000);
    bench.write(batch);
    bench.freeze();
    bench.work(&mut rng);
    assert!(!bench.jobs.is_empty());
    let mut owner = Owner::new(&bench);
    owner.write([(row(1), Some(b"x".to_vec()))]);
    let killed = || Err(Error::new(ErrorKind::Interrupted, "killed"));
    let e = bench.tree.attach_below(&mut owner.runs, &mut { killed }).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Interrupted);
    assert!(!owner.runs.is_empty(), "the runs are still the builder's");
    drop(owner);
    bench.settle();
    bench.verify_all(bench.seq);
}

#[test]
fn clearing_frees_all_blocks_and_what_comes_later_is_dropped() {
    for seed in 0..10 {
        let mut rng = TestRng::new(seed);
        let mut bench = Bench::new(tiny());
        for _ in 0..40 {
            let batch = changes(&mut rng, 100, 2_000);
            bench.write(batch);
            if below(&mut rng, 3) == 0 {
                bench.freeze();
            }
            for _ in 0..30 {
                bench.work(&mut rng);
            }
        }
        bench.tree.abandon();
        assert!(bench.tree.plan().is_none());
        while !bench.tree.clear(bench.lsn).unwrap() {
            finish(&mut bench.jobs).unwrap();
        }
        assert!(bench.tree.is_clear() && bench.store.blocks().is_empty());
        assert_eq!((bench.tree.oldest_needed(), bench.tree.flushed_upto()), (None, bench.lsn));
        bench.model = Model::default();
        let batch = changes(&mut rng, 10, 100);
        bench.write(batch);
        assert!(bench.tree.is_clear());
        bench.records.clear();
        bench.reopen(None);
        assert!(bench.tree.is_clear());
    }
}
