//! Random histories: whatever jobs are under way, every read equals the model.

use frond_run::testing::TestRng;

use frond_tree::{Job, JobKind, StoredVersion, TreeOptions};

use crate::owner::{Changes, Owner};
use crate::support::{below, tiny, Bench};

struct Workload {
    keys: u64,
    deletes: u64,
    rounds: usize,
    reopen: bool,
    tall: bool,
}

/// A transaction in the history that has not ended.
#[derive(Default)]
struct Open {
    owner: Option<Owner>,
    /// Number of commits with private runs while a freeze was between two of its groups.
    amid: u64,
}

impl Open {
    /// Writes a generation of private runs, commits what is there, or rolls back.
    fn step(&mut self, bench: &mut Bench, rng: &mut TestRng, changes: Changes) {
        let owner = self.owner.get_or_insert_with(|| Owner::new(bench));
        let amid = |job: &Job| job.kind() == JobKind::Freeze && job.bytes_written() > 0;
        let amid = bench.jobs.iter().any(amid);
        match below(rng, 6) {
            0 | 1 => self.commit(bench, amid),
            _ if amid && !owner.runs.is_empty() => self.commit(bench, amid),
            2 if below(rng, 4) == 0 => self.owner = None,
            _ => {
                owner.write(changes);
                owner.tidy(&[]);
            }
        }
    }

    fn commit(&mut self, bench: &mut Bench, amid: bool) {
        let owner = self.owner.take().filter(|owner| !owner.runs.is_empty());
        let Some(owner) = owner else { return };
        self.amid += u64::from(amid);
        bench.attach(owner);
    }
}

fn random_value(rng: &mut TestRng) -> Vec<u8> {
    let len = match below(rng, 200) {
        0 => 9000,
        n => n as usize % 40,
    };
    vec![b'a' + (below(rng, 26) as u8); len]
}

fn run(seed: u64, load: &Workload) {
    run_with(tiny(), seed, load);
}

fn run_with(options: TreeOptions, seed: u64, load: &Workload) {
    run_history(options, seed, load, None);
}

/// With `open`, some changes are those of transactions that write private runs.
fn run_history(options: TreeOptions, seed: u64, load: &Workload, mut open: Option<&mut Open>) {
    let mut rng = TestRng::new(seed);
    let mut bench = Bench::new(options);
    let keys = load.keys;
    let mut key = |rng: &mut TestRng| format!("key{:07}", below(rng, keys)).into_bytes();
    let mut image = None;
    // A checkpoint that is not durable yet.
    let mut slow = None;
    let mut highest = 0;
    for round in 0..load.rounds {
        // Few steps: then more happens in the middle of a freeze.
        let steps = if open.is_some() { 8 } else { 60 };
        for _ in 0..1 + below(&mut rng, steps) {
            bench.work(&mut rng);
        }
        match below(&mut rng, 20) {
            0 => {
                let at = bench.seq;
                bench.snapshots.push(at);
                bench.snapshots.sort_unstable();
            }
            1 if !bench.snapshots.is_empty() => {
                let i = below(&mut rng, bench.snapshots.len() as u64) as usize;
                bench.snapshots.remove(i);
            }
            2 | 3 => bench.freeze(),
            4 if !bench.jobs.is_empty() => {
                bench.jobs.pop();
            }
            5 if load.reopen && below(&mut rng, 4) == 0 => {
                let from = if below(&mut rng, 2) == 0 { None } else { image.clone() };
                open.iter_mut().for_each(|open| open.owner = None);
                slow = None;
                image.clone_from(&from); // An image that is not used here loses its packs.
                bench.reopen(from);
            }
            6 => match (slow.take(), below(&mut rng, 4)) {
                (Some((_, stored)), 0) => drop::<StoredVersion>(stored),
                (Some((at, stored)), _) => {
                    image = Some(at);
                    bench.set_durable(stored);
                }
                (None, 0 | 1) => slow = Some(bench.store_version()),
                (None, _) => image = Some(bench.checkpoint()),
            },
            7 if round % 3 == 0 => bench.settle(),
            _ => {
                let n = 1 + below(&mut rng, 120);
                let dense = below(&mut rng, 4) == 0;
                let start = below(&mut rng, keys);
                let batch: Vec<_> = (0..n)
                    .map(|i| {
                        let k = match dense {
                            true => format!("key{:07}", (start + i) % keys).into_bytes(),
                            false => key(&mut rng),
                        };
                        let dead = below(&mut rng, 100) < load.deletes;
                        let value = (!dead).then(|| random_value(&mut rng));
                        (k, value)
                    })
                    .collect();
                match &mut open {
                    Some(open) if below(&mut rng, 2) == 0 => {
                        open.step(&mut bench, &mut rng, batch.into_iter().collect());
                    }
                    _ => bench.write(batch),
                }
            }
        }
        if round % 4 == 0 {
            bench.verify_some(&mut rng, &mut key);
        }
        highest = highest.max(bench.tree.stats().height);
    }
    open.iter_mut().for_each(|open| open.owner = None);
    drop(slow);
    bench.checkpoint();
    bench.verify_all(bench.seq);
    for at in bench.snapshots.clone() {
        bench.verify_all(at);
    }
    bench.freeze();
    bench.settle();
    bench.verify_all(bench.seq);
    let stats = bench.tree.stats();
    let sizes = bench.tree.sizes();
    assert_eq!(sizes.entries, stats.entries + stats.buffered_entries);
    assert_eq!(sizes.bytes, stats.logical_bytes + stats.buffered_bytes);
    assert_eq!(sizes.changes, stats.entries_flushed + stats.buffered_entries);
    assert!(!load.tall || highest >= 3, "the workload grows a tree of several levels");
    assert_eq!(stats.frozen, 0);
    assert_eq!(bench.tree.oldest_needed(), None);
}

#[test]
fn every_read_equals_the_model_under_random_work() {
    let load = Workload { keys: 3000, deletes: 20, rounds: 900, reopen: false, tall: true };
    (1..=4).for_each(|seed| run(seed, &load));
}

#[test]
fn every_read_equals_the_model_after_reopening_at_random() {
    let load = Workload { keys: 2000, deletes: 25, rounds: 700, reopen: true, tall: false };
    (11..=14).for_each(|seed| run(seed, &load));
}

#[test]
fn every_read_equals_the_model_when_most_writes_delete() {
    let load = Workload { keys: 1500, deletes: 70, rounds: 700, reopen: true, tall: false };
    (21..=23).for_each(|seed| run(seed, &load));
}

#[test]
fn few_hot_keys_with_many_versions_read_right() {
    let load = Workload { keys: 25, deletes: 60, rounds: 500, reopen: true, tall: false };
    (31..=33).for_each(|seed| run(seed, &load));
}

#[test]
fn every_read_equals_the_model_when_leaves_merge_deltas_among_themselves() {
    // Leaves put off full merges for long; each freeze adds a delta.
    let lazy = TreeOptions { alpha_percent: 1000, min_slice: 1, leaf_bytes: 64 << 10, ..tiny() };
    let load = Workload { keys: 4000, deletes: 8, rounds: 600, reopen: true, tall: false };
    (41..=43).for_each(|seed| run_with(lazy.clone(), seed, &load));
}

#[test]
fn every_read_equals_the_model_when_freezes_take_many_groups_and_the_root_splits_between_them() {
    let many = |group_bytes, min_slice| TreeOptions { group_bytes, min_slice, ..tiny() };
    let load = |reopen| Workload { keys: 4000, deletes: 15, rounds: 400, reopen, tall: false };
    for (seed, reopen) in [(51, false), (52, false), (56, true)] {
        run_with(many(8 << 10, 512), seed, &load(reopen));
    }
    run_with(many(8 << 10, 6 << 10), 55, &load(false));
    run_with(many(4 << 10, 512), 56, &load(true));
}

/// Runs that are attached while a freeze is between two groups wait above all that it moves, whatever
/// becomes of the root meanwhile.
#[test]
fn every_read_equals_the_model_when_runs_are_attached_between_the_groups_of_a_freeze() {
    let many = |group_bytes, min_slice| TreeOptions { group_bytes, min_slice, ..tiny() };
    let mut amid = 0;
    for seed in 61..=68 {
        let options =
            many([4 << 10, 8 << 10][seed as usize % 2], [512, 3 << 10][seed as usize % 3 / 2]);
        let reopen = seed % 4 > 0;
        let load = Workload { keys: 4000, deletes: 15, rounds: 300, reopen, tall: false };
        let mut open = Open::default();
        run_history(options, seed, &load, Some(&mut open));
        amid += open.amid;
    }
    assert!(amid > 30, "{amid} attached between the groups of a freeze");
}
