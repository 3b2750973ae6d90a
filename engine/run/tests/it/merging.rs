//! Merge jobs and reduction against models that know nothing of runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{EntryKind, Seq, TableId};
use frond_run::testing::{build_run, drain, MemSource, OwnedEntry, TestRng, VecSource};
use frond_run::{
    reduce, Cut, Merge, MergeInput, MergeJob, Retention, RunCutter, RunFormat, RunScan,
};

use crate::data::{id, random_entries, random_format, random_mix, Mix, DELETE, MERGE};

/// Versions of a key in the order in which readers meet them.
type Versions = Vec<(Seq, EntryKind, Vec<u8>)>;

fn stack(sources: &[Vec<OwnedEntry>]) -> BTreeMap<Vec<u8>, Versions> {
    let mut out: BTreeMap<Vec<u8>, Versions> = BTreeMap::new();
    for e in sources.iter().flatten() {
        out.entry(e.key.clone()).or_default().push((e.seq, e.kind, e.value.clone()));
    }
    out
}

/// RD1 to RD4 by definition: a version stays iff the first visible version at some snapshot
/// is this one, or it is newer than the last snapshot and not hidden at its own sequence.
fn naive(sources: &[Vec<OwnedEntry>], r: &Retention) -> Vec<OwnedEntry> {
    let last = *r.snapshots.last().unwrap();
    let mut out = Vec::new();
    for (key, versions) in stack(sources) {
        for (i, (seq, kind, value)) in versions.iter().enumerate() {
            let first_visible = |at: Seq| versions.iter().position(|v| v.0 <= at) == Some(i);
            let kept = if *seq > last {
                first_visible(*seq)
            } else {
                r.snapshots.iter().any(|at| first_visible(*at))
            };
            if !kept {
                continue;
            }
            let seq = if *seq <= r.snapshots[0] { 0 } else { *seq };
            if !(r.bottom && seq == 0 && *kind == DELETE) {
                out.push(OwnedEntry { key: key.clone(), seq, kind: *kind, value: value.clone() });
            }
        }
    }
    out
}

/// Sources, newest first, such that every version in a source is newer than those in the ones
/// behind it.
fn random_sources(
    rng: &mut TestRng,
    format: &RunFormat,
    mix: &Mix,
    k: usize,
) -> Vec<Vec<OwnedEntry>> {
    let mut sources = Vec::new();
    for rank in 0..k {
        let n = [0, 1, 30, 700, 2500][rng.below(5) as usize];
        let mut entries =
            if n == 0 { Vec::new() } else { random_entries(rng, &format.key_shape, mix, n) };
        for e in &mut entries {
            e.seq = if mix.seqs == 0 { 0 } else { e.seq % 1000 + 1000 * (k - rank) as u64 };
        }
        entries.sort();
        entries.dedup_by(|a, b| a.key == b.key && a.seq == b.seq);
        sources.push(entries);
    }
    sources
}

fn random_retention(rng: &mut TestRng, k: usize) -> Retention {
    let top = 1000 * (k as u64 + 2);
    let mut snapshots: Vec<Seq> = (0..1 + rng.below(5)).map(|_| rng.below(top)).collect();
    snapshots.sort_unstable();
    snapshots.dedup();
    Retention { snapshots, bottom: rng.below(2) == 0 }
}

fn cutter(format: &RunFormat, cut: Cut) -> RunCutter {
    let next = AtomicU64::new(1000);
    RunCutter::new(format, TableId(17), cut, Box::new(move || next.fetch_add(1, Ordering::Relaxed)))
}

#[test]
fn merge_jobs_keep_exactly_what_snapshots_need() {
    let mut rng = TestRng::new(11);
    for round in 0..300 {
        let (format, mix) = (random_format(&mut rng), random_mix(&mut rng));
        let k = 1 + rng.below(9) as usize;
        let sources = random_sources(&mut rng, &format, &mix, k);
        let retention = random_retention(&mut rng, k);
        let what = format!("round {round}, {format:?}, {mix:?}, {retention:?}");
        let expect = naive(&sources, &retention);

        let store = Arc::new(MemSource::new());
        let mut inputs = Vec::new();
        for (rank, entries) in sources.iter().enumerate() {
            if entries.is_empty() || rng.below(3) == 0 {
                inputs.push(MergeInput::entries(VecSource::new(entries.clone())));
                continue;
            }
            let run =
                store.add(build_run(&random_like(&mut rng, &format), id(rank as u64), entries));
            let scan = RunScan::new(store.clone(), run, b"", None, MERGE).unwrap();
            inputs.push(MergeInput::run(scan));
        }
        let mut boundaries: Vec<Box<[u8]>> = Vec::new();
        if rng.below(2) == 0 && !expect.is_empty() {
            for _ in 0..rng.below(6) {
                let at = rng.below(expect.len() as u64) as usize;
                boundaries.push(expect[at].key.clone().into());
            }
            boundaries.sort();
        }
        let target_bytes = if rng.below(2) == 0 { 3000 + rng.below(40_000) } else { u64::MAX };
        let cut = Cut { target_bytes, boundaries: boundaries.clone() };
        let mut job = MergeJob::new(inputs, retention, cutter(&format, cut)).unwrap();
        let mut finished = Vec::new();
        loop {
            let done = job.step(1 + rng.below(2000) as usize).unwrap();
            finished.extend(job.take_finished());
            if done {
                break;
            }
        }
        assert_eq!(job.stats().entries_in, sources.iter().map(|s| s.len() as u64).sum::<u64>());
        assert_eq!(job.stats().entries_out, expect.len() as u64, "{what}");

        let mut read = Vec::new();
        let mut last_key: Vec<u8> = Vec::new();
        for cut_run in finished {
            let run = store.add(cut_run.run);
            assert!(*last_key < *run.meta.min_key, "{what}: a key is in two runs");
            last_key = run.meta.max_key.to_vec();
            let slot = |key: &[u8]| boundaries.partition_point(|b| **b <= *key);
            assert_eq!(slot(&run.meta.min_key), cut_run.slot, "{what}");
            assert_eq!(slot(&run.meta.max_key), cut_run.slot, "{what}");
            let mut scan = RunScan::new(store.clone(), run, b"", None, MERGE).unwrap();
            read.extend(drain(&mut scan).unwrap());
        }
        assert!(read == expect, "{what}: {} entries, expected {}", read.len(), expect.len());
    }
}

/// The format with another page size, compression and, now and then, shape.
fn random_like(rng: &mut TestRng, format: &RunFormat) -> RunFormat {
    let other = random_format(rng);
    let key_shape = if rng.below(4) == 0 { other.key_shape } else { format.key_shape };
    RunFormat { key_shape, ..other }
}

#[test]
fn reduction_of_a_merge_equals_the_naive_model() {
    let mut rng = TestRng::new(12);
    for round in 0..200 {
        let mix = Mix { spread: 3, versions: 4, seqs: 1000, ..random_mix(&mut rng) };
        let format = random_format(&mut rng);
        let k = 1 + rng.below(6) as usize;
        let sources = random_sources(&mut rng, &format, &mix, k);
        let retention = random_retention(&mut rng, k);
        let mut merge = Merge::new(sources.iter().cloned().map(VecSource::new).collect());
        let mut got: Vec<OwnedEntry> = Vec::new();
        reduce(&mut merge, &retention, &mut |e| got.push(e.into())).unwrap();
        assert_eq!(got, naive(&sources, &retention), "round {round}, {retention:?}");
    }
}

#[test]
fn readers_see_the_same_before_and_after_a_merge() {
    let mut rng = TestRng::new(13);
    for round in 0..100 {
        let mix = Mix { spread: 3, versions: 3, seqs: 1000, deletes: 3, ..random_mix(&mut rng) };
        let format = random_format(&mut rng);
        let k = 1 + rng.below(4) as usize;
        let sources = random_sources(&mut rng, &format, &mix, k);
        let retention = random_retention(&mut rng, k);
        let mut merge = Merge::new(sources.iter().cloned().map(VecSource::new).collect());
        let mut got: Vec<OwnedEntry> = Vec::new();
        reduce(&mut merge, &retention, &mut |e| got.push(e.into())).unwrap();
        let (before, after) = (stack(&sources), stack(&[got]));
        let last = *retention.snapshots.last().unwrap();
        for at in retention.snapshots.iter().copied().chain([last + 500, u64::MAX]) {
            for (key, versions) in &before {
                let see = |v: Option<&Versions>| {
                    let first = v?.iter().find(|v| v.0 <= at)?;
                    (first.1 == EntryKind::Put).then(|| first.2.clone())
                };
                let (was, is) = (see(Some(versions)), see(after.get(key)));
                assert_eq!(was, is, "round {round}: {key:?} at {at}, {retention:?}");
            }
        }
    }
}

#[test]
fn merges_of_any_sources_yield_every_version_in_order() {
    let mut rng = TestRng::new(14);
    for _ in 0..100 {
        let (format, mix) = (random_format(&mut rng), random_mix(&mut rng));
        let k = rng.below(7) as usize;
        let sources = random_sources(&mut rng, &format, &mix, k);
        let mut merge = Merge::new(sources.iter().cloned().map(VecSource::new).collect());
        let got = drain(&mut merge).unwrap();
        let expect: Vec<OwnedEntry> = stack(&sources)
            .into_iter()
            .flat_map(|(key, versions)| {
                versions.into_iter().map(move |(seq, kind, value)| OwnedEntry {
                    key: key.clone(),
                    seq,
                    kind,
                    value,
                })
            })
            .collect();
        assert!(got == expect);
    }
}
