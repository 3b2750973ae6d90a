//! Private runs: written before the commit, read by their owner alone, attached or given back.

use std::sync::Arc;

use frond_base::{EntryKind, SEQ_MAX};
use frond_buffer::{SegmentScan, SortedBuffer};
use frond_run::testing::TestRng;
use frond_run::MergeInput;
use frond_tree::{one_by_one, Parted, Segment};

use crate::owner::{Changes, Owner};
use crate::support::*;

fn row(n: u64) -> Vec<u8> {
    format!("row {n:08}").into_bytes()
}

fn values(rng: &mut TestRng, count: u64, keys: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    for _ in 0..count {
        let deleted = below(rng, 5) == 0;
        let value: Vec<u8> = (0..below(rng, 60)).map(|_| rng.next_u64() as u8).collect();
        all.push((row(below(rng, keys)), (!deleted).then_some(value)));
    }
    all
}

#[test]
fn keys_in_order_make_one_generation_and_are_written_once() {
    let bench = Bench::new(tiny());
    let mut owner = Owner::new(&bench);
    for part in 0..60u64 {
        owner.write((part * 50..part * 50 + 50).map(|n| (row(n), Some(vec![7; 40]))));
        owner.tidy(&[]);
    }
    assert_eq!((owner.runs.generations(), owner.runs.entries()), (1, 3_000));
    assert_eq!(bench.tree.stats().entries_written, 3_000);
    owner.verify(&bench);
}

#[test]
fn generations_stay_few_and_entries_are_rewritten_a_few_times() {
    let mut rng = TestRng::new(3);
    let mut bench = Bench::new(tiny());
    bench.write((0..500).map(|n| (row(n * 20), Some(b"committed".to_vec()))).collect());
    let mut owner = Owner::new(&bench);
    let mut most = 0;
    for round in 0..300 {
        let changes = values(&mut rng, 80, 100_000);
        owner.write(changes);
        owner.tidy(&[]);
        most = most.max(owner.runs.generations());
        if round % 100 == 7 {
            owner.verify(&bench);
        }
    }
    owner.verify(&bench);
    // 300 generations of one size: classes of 1, 8 and 64 of them, at most seven of each.
    assert!(most <= 21, "{most} generations");
    let written = bench.tree.stats().entries_written;
    assert!(written < 4 * 300 * 80, "{written} entries written");
}

/// Generations that are to be merged are not compressed, even if their entries compress well.
#[test]
fn generations_for_a_merge_end_in_one_that_is_compressed() {
    for (rounds, well) in [(0, false), (1, false), (5, false), (5, true), (40, false), (40, true)] {
        let mut rng = TestRng::new(rounds);
        let bench = Bench::new(tiny());
        let mut owner = Owner::new(&bench);
        // Texts of few letters become shorter by a third, equal bytes by nearly all of their length.
        let letters = if well { 1 } else { 4 };
        let mut changes = || -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
            let mut value = || (0..60).map(|_| below(&mut rng, letters) as u8).collect();
            (0..200).map(|n| (row(n * 999 % 1000), Some(value()))).collect()
        };
        let mut stored = Vec::new();
        for _ in 0..rounds {
            let (input, segment) = owner.input(changes());
            let before = owner.runs.bytes();
            let (input, mut poll) = (Parted::whole(input), || Ok(()));
            owner.runs.write_for_merge(input, segment, &mut one_by_one(&mut poll)).unwrap();
            stored.push(owner.runs.bytes() - before);
        }
        // Equally many bytes, whatever they are.
        assert!(stored.windows(2).all(|w| w[0] == w[1]), "{stored:?}");
        owner.verify(&bench);
        let (input, segment) = owner.input(changes());
        let (input, mut poll) = (Parted::whole(input), || Ok(()));
        owner.runs.write_merged(input, segment, &mut one_by_one(&mut poll)).unwrap();
        assert_eq!((owner.runs.generations(), owner.runs.entries()), (1, 200));
        let least = if well { 2 } else { 1 };
        assert!(stored.iter().all(|bytes| least * owner.runs.bytes() <= *bytes));
        owner.verify(&bench);
        // Nothing at all may come last.
        let (input, segment) = owner.input([]);
        let (input, mut poll) = (Parted::whole(input), || Ok(()));
        owner.runs.write_merged(input, segment, &mut one_by_one(&mut poll)).unwrap();
        assert_eq!((owner.runs.generations(), owner.runs.entries()), (1, 200));
        owner.verify(&bench);
    }
}

/// What is merged in the end is not merged before, as long as one merge can take it.
#[test]
fn generations_for_a_merge_wait_for_it() {
    let mut rng = TestRng::new(9);
    let bench = Bench::new(tiny());
    let mut owner = Owner::new(&bench);
    for round in 1..=70 {
        let value = |n: u64| (row(n * 999 % 1000), Some(vec![below(&mut rng, 250) as u8; 60]));
        let changes: Vec<_> = (0..50).map(value).collect();
        let (input, segment) = owner.input(changes);
        let (input, mut poll) = (Parted::whole(input), || Ok(()));
        let mut run = one_by_one(&mut poll);
        owner.runs.write_for_merge(input, segment, &mut run).unwrap();
        owner.runs.tidy_parts(true, &[], &mut run).unwrap();
        let generations = owner.runs.generations();
        assert!(if round < 32 { generations == round } else { generations < 34 });
        owner.verify(&bench);
    }
}

#[test]
fn a_rollback_drops_what_came_after_its_savepoint_and_gives_the_blocks_back() {
    let mut rng = TestRng::new(4);
    let bench = Bench::new(tiny());
    let mut owner = Owner::new(&bench);
    let mut marks: Vec<(u64, Changes, usize)> = Vec::new();
    for round in 0..200 {
        if below(&mut rng, 4) == 0 {
            marks.push((owner.op, owner.model.clone(), 0));
        }
        let changes = values(&mut rng, 40, 300);
        owner.write(changes);
        let live: Vec<u64> = marks.iter().map(|m| m.0).collect();
        owner.tidy(&live);
        if round % 13 == 12 && !marks.is_empty() {
            let to = below(&mut rng, marks.len() as u64) as usize;
            marks.truncate(to + 1);
            owner.runs.rollback_to(marks[to].0);
            owner.model = marks[to].1.clone();
            owner.verify(&bench);
        }
    }
    owner.verify(&bench);
    owner.runs.rollback_to(0);
    assert!(owner.runs.is_empty() && bench.store.blocks().is_empty());
}

#[test]
#[should_panic(expected = "given up")]
fn a_savepoint_that_was_given_up_is_not_returned_to() {
    let bench = Bench::new(tiny());
    let mut owner = Owner::new(&bench);
    owner.write([(row(1), Some(b"a".to_vec())), (row(2), Some(b"b".to_vec()))]);
    owner.runs.rollback_to(1);
}

#[test]
fn a_failed_write_changes_nothing() {
    let bench = Bench::new(tiny());
    let mut owner = Owner::new(&bench);
    owner.write([(row(1), Some(b"a".to_vec()))]);
    let blocks = bench.store.blocks();
    let mut buffer = SortedBuffer::new();
    for n in 0..5_000u64 {
        buffer.put(&row(n), n + 2, EntryKind::Put, &[9; 30]);
    }
    let buffer = Arc::new(buffer);
    let segment = Segment { after: 1, upto: 6_000 };
    let input = || MergeInput::entries(SegmentScan::new(buffer.clone(), 1, 6_000));
    let mut polls = 0;
    let interrupted = owner.runs.write(input(), segment, &mut || {
        polls += 1;
        match polls {
            9 => Err(frond_base::Error::new(frond_base::ErrorKind::Interrupted, "killed")),
            _ => Ok(()),
        }
    });
    assert!(interrupted.is_err());
    assert_eq!((bench.store.blocks(), owner.runs.generations()), (blocks.clone(), 1));
    bench.store.failing.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(owner.runs.write(input(), segment, &mut || Ok(())).is_err());
    assert_eq!((bench.store.blocks(), owner.runs.generations()), (blocks, 1));
    owner.verify(&bench);
}

/// Versions below stay for the snapshots that need them, through every merge.
#[test]
fn attached_runs_are_seen_from_their_sequence_on() {
    for seed in 0..8 {
        let mut rng = TestRng::new(seed);
        let mut bench = Bench::new(tiny());
        for _ in 0..12 {
            for _ in 0..below(&mut rng, 4) {
                let entries = values(&mut rng, 100, 900);
                bench.write(entries);
            }
            bench.snapshots.push(bench.seq);
            if below(&mut rng, 2) == 0 {
                bench.freeze();
            }
            let mut owner = Owner::new(&bench);
            for _ in 0..1 + below(&mut rng, 12) {
                let changes = values(&mut rng, 60, 900);
                owner.write(changes);
                owner.tidy(&[]);
            }
            owner.verify(&bench);
            bench.attach(owner);
            assert!(bench.tree.check(true).is_ok());
            for _ in 0..below(&mut rng, 60) {
                bench.work(&mut rng);
            }
            bench.verify_all(SEQ_MAX);
            bench.snapshots.iter().for_each(|at| bench.verify_all(*at));
            if below(&mut rng, 3) == 0 {
                let gone = below(&mut rng, bench.snapshots.len() as u64) as usize;
                bench.snapshots.remove(gone);
            }
        }
        bench.jobs.clear();
        bench.settle();
        bench.snapshots.iter().for_each(|at| bench.verify_all(*at));
        bench.verify_all(SEQ_MAX);
        bench.tree.check(true).unwrap();
        assert_eq!(bench.tree.oldest_needed(), None);
        bench.reopen(None);
        bench.verify_all(SEQ_MAX);
        bench.tree.check(true).unwrap();
    }
}

/// The record that attaches runs is needed until one edit names all of them, also when what was
/// buffered before is flushed first.
#[test]
fn the_record_is_needed_until_its_runs_are_in_the_trunk() {
    let mut bench = Bench::new(tiny());
    bench.write((0..300).map(|n| (row(n), Some(b"old".to_vec()))).collect());
    let mut owner = Owner::new(&bench);
    for start in 0..3u64 {
        owner.write((0..300).map(|n| (row(3 * n + start), Some(vec![1; 50]))));
    }
    let record = bench.lsn;
    bench.attach(owner);
    let held = bench.tree.sizes();
    assert!(held.entries == 1_200 && held.bytes > 900 * 50, "{held:?}");
    let mut steps = 0;
    while bench.tree.flushed_upto() <= record {
        assert!(bench.tree.oldest_needed().is_some_and(|lsn| lsn <= record));
        let plan = bench.tree.plan().unwrap();
        let mut job = bench.tree.begin(&plan, bench.retention()).unwrap();
        while bench.tree.flushed_upto() <= record && job.step().unwrap() == frond_tree::Step::More {
        }
        steps += 1;
    }
    assert!(steps >= 2, "the buffer, then the runs");
    assert_eq!(bench.tree.flushed_upto(), record + 1);
    assert_eq!(bench.tree.stats().entries, 1_200);
}

/// Attached runs do not count as debt: merges must not delay them, nor the buffer in front of them.
#[test]
fn attached_runs_and_what_was_frozen_before_them_go_before_any_merge() {
    let mut bench = Bench::new(tiny());
    bench.write((0..300).map(|n| (row(n), Some(b"old".to_vec()))).collect());
    bench.freeze();
    let usual = bench.tree.plan().unwrap();
    bench.write(vec![(row(7), Some(b"new".to_vec()))]);
    let mut owner = Owner::new(&bench);
    owner.write([(row(8), Some(b"own".to_vec()))]);
    bench.attach(owner);
    let mut kinds = Vec::new();
    while bench.tree.frozen_count() > 0 {
        let plan = bench.tree.plan().unwrap();
        assert!(plan.urgency > usual.urgency << 20, "{plan:?}");
        kinds.push(plan.kind);
        let mut job = bench.tree.begin(&plan, bench.retention()).unwrap();
        while job.step().unwrap() == frond_tree::Step::More {}
    }
    use frond_tree::JobKind::{Attach, Freeze};
    assert_eq!(kinds, [Freeze, Freeze, Attach]);
}

#[test]
fn runs_of_an_uncertain_commit_keep_their_blocks() {
    let bench = Bench::new(tiny());
    let mut owner = Owner::new(&bench);
    owner.write([(row(1), Some(b"a".to_vec()))]);
    let blocks = bench.store.blocks();
    owner.runs.abandon();
    drop(owner);
    assert_eq!(bench.store.blocks(), blocks);
}

/// Where the leaf's own rows are used up, the list goes on beyond the leaf, whose neighbour has rows of its own.
#[test]
fn a_scan_of_an_attached_list_passes_no_rows_of_the_next_leaf() {
    let mut rng = TestRng::new(8);
    let mut bench = Bench::new(tiny());
    // Values that do not shrink, so that the rows fill several leaves.
    bench.write((0..3_000).map(|n| (row(n), Some(rng.bytes(40)))).collect());
    bench.freeze();
    bench.settle();
    assert!(bench.tree.stats().leaves > 3);
    let mut owner = Owner::new(&bench);
    let behind =
        |n: u64| [b'x', b'y', b'z'].map(|end| ([row(n), vec![end]].concat(), Some(vec![8])));
    owner.write((0..3_000).flat_map(behind));
    bench.attach(owner);
    bench.verify_all(bench.seq);
}
