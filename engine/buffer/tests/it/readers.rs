//! The versions that a snapshot sees do not change while it is held; versions that no snapshot sees
//! are dropped.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use frond_base::{EntryKind, EntryRef, EntrySource, Seq, SEQ_MAX};
use frond_buffer::{Versions, WriteBuffer};

use crate::support::{
    expected, key, newest_in, own, random_bound, scan_all, value, write_both, Live, Model, Rng,
};

/// 100 thousand updates of one row among `others` that rest, with and without an old snapshot.
#[test]
fn a_row_that_is_changed_again_and_again_takes_little_memory() {
    for (others, old) in [(0, false), (0, true), (3000, false), (3000, true)] {
        let live = Arc::new(Live::default());
        let buffer = WriteBuffer::read_by(live.clone());
        let put = |key: &[u8], seq: Seq| {
            let value = &[seq as u8; 100];
            buffer.insert_batch([EntryRef { key, seq, kind: EntryKind::Put, value }]);
            live.publish(seq);
        };
        for n in 0..others {
            put(&key(&mut Rng(n + 1), 1, u64::MAX), 1);
        }
        let hot = key(&mut Rng(others / 2 + 1), 1, u64::MAX);
        put(&hot, 2);
        let snapshot = old.then(|| live.open());
        let rest = buffer.bytes();
        let mut most = 0;
        for seq in 3..=100_000 {
            put(&hot, seq);
            most = most.max(buffer.bytes());
        }
        assert!(most - rest < 1 << 20, "{others} others: {} bytes", most - rest);
        let seen = |at| buffer.get(&hot, at, &mut Vec::new()).map(|(seq, _)| seq);
        assert_eq!(seen(SEQ_MAX), Some(100_000));
        assert!(!old || seen(2) == Some(2), "{:?}", seen(2));
        buffer.check();
        assert_eq!(buffer.entries(), others.max(1) + u64::from(old));
        if let Some(at) = snapshot {
            live.close(at);
            put(&hot, 100_001);
            buffer.check();
            assert_eq!(buffer.entries(), others.max(1));
        }
    }
}

/// Snapshots come and go at random while batches of all sizes arrive, backlogs go down, readers tidy, and
/// the published sequence lags behind.
#[test]
fn held_snapshots_see_the_same_while_versions_are_dropped() {
    let mut dropped = 0;
    for round in 0..6u64 {
        let mut rng = Rng(99 + round);
        let shape = round % 6;
        let live = Arc::new(Live::default());
        let buffer = WriteBuffer::read_by(live.clone());
        let mut model = Model::new();
        let mut held: Vec<Seq> = Vec::new();
        let space = [50, 2000][rng.below(2) as usize];
        let last = 800;
        for seq in 1..=last {
            let mut batch = BTreeMap::new();
            let most = [3, 30, 400][rng.below(3) as usize];
            for _ in 0..1 + rng.below(most) {
                let put = match rng.below(6) {
                    0 => (EntryKind::Delete, Vec::new()),
                    _ => (EntryKind::Put, value(&mut rng)),
                };
                batch.insert(key(&mut rng, shape, space), put);
            }
            write_both(&buffer, &mut model, seq, batch);
            // Commits are in the buffer some time before they are published.
            let published = live.0.lock().unwrap().1;
            live.publish(published + rng.below(seq - published + 1));
            match rng.below(40) {
                0 | 1 => held.push(live.open()),
                2 | 3 if !held.is_empty() => {
                    live.close(held.swap_remove(rng.below(held.len() as u64) as usize));
                }
                _ => {}
            }
            let published = live.0.lock().unwrap().1;
            let readers: Vec<Seq> = held.iter().copied().chain([published, SEQ_MAX]).collect();
            for _ in 0..3 {
                let at = readers[rng.below(readers.len() as u64) as usize];
                let k = key(&mut rng, shape, space);
                let mut out = Vec::new();
                let got = buffer.get(&k, at, &mut out).map(|(s, kind)| (s, kind, out));
                assert_eq!(got, newest_in(&model, &k, at), "round {round}, {at} at {seq}");
            }
            if seq % 100 == 0 {
                let (a, b) = (key(&mut rng, shape, space), key(&mut rng, shape, space));
                let (lo, hi) = (random_bound(&mut rng, &a), random_bound(&mut rng, &b));
                let (lo, hi) = (lo.as_ref().map(|k| &k[..]), hi.as_ref().map(|k| &k[..]));
                for at in readers {
                    let (versions, backward) = (Versions::VisibleAt(at), rng.below(2) == 0);
                    let got = scan_all(&buffer, lo, hi, versions, 20, backward);
                    let want = expected(&model, lo, hi, versions, backward);
                    assert!(got == want, "round {round}, snapshot {at} at {seq}");
                }
            }
        }
        let published = live.0.lock().unwrap().1;
        buffer.freeze();
        buffer.settle();
        dropped += model.len() as u64 - buffer.entries();
        for at in held.into_iter().chain([published, last]) {
            let (all, versions) = (Bound::Unbounded, Versions::VisibleAt(at));
            let got = scan_all(&buffer, all, all, versions, 100, false);
            assert!(got == expected(&model, all, all, versions, false), "snapshot {at}, frozen");
        }
        // Every entry is one that was written.
        let mut scan = buffer.iter_range(Bound::Unbounded, Bound::Unbounded);
        while scan.valid() {
            let (k, seq, kind, v) = own(scan.entry());
            assert_eq!(model.get(&(k, Reverse(seq))), Some(&(kind, v)));
            scan.advance().unwrap();
        }
        buffer.check();
    }
    assert!(dropped > 20_000, "{dropped} versions were dropped");
}

/// Writers, readers that take and release snapshots, and what they saw first.
#[test]
fn snapshots_are_stable_under_concurrent_writers() {
    const KEYS: u64 = 40;
    let live = Arc::new(Live::default());
    let buffer = WriteBuffer::read_by(live.clone());
    let commit = Mutex::new(0);
    let done = AtomicBool::new(false);
    // Every commit writes all keys of its writer, so a snapshot sees one sequence per writer.
    let write = |w: u64| {
        for _ in 0..3000 {
            let keys: Vec<[u8; 8]> = (0..KEYS / 2).map(|n| (n * 2 + w).to_be_bytes()).collect();
            let seq = {
                let mut last = commit.lock().unwrap();
                *last += 1;
                *last
            };
            let entry = |key| EntryRef { key, seq, kind: EntryKind::Put, value: &[7; 20] };
            buffer.insert_batch(keys.iter().map(|k| entry(&k[..])));
            for tries in 0.. {
                if live.0.lock().unwrap().1 == seq - 1 {
                    break;
                }
                assert!(tries < 10_000_000, "the commit before never ended");
                std::thread::yield_now();
            }
            live.publish(seq);
        }
    };
    let read = |backward: bool| {
        let mut rounds = 0;
        while !done.load(Ordering::Relaxed) || rounds < 10 {
            let at = live.open();
            let all = Bound::Unbounded;
            let see = || scan_all(&buffer, all, all, Versions::VisibleAt(at), 7, backward);
            let first = see();
            for w in 0..2u8 {
                let of = first.iter().filter(|e| e.0[7] % 2 == w);
                let seqs: Vec<Seq> = of.map(|e| e.1).collect();
                assert!(seqs.iter().all(|s| *s == seqs[0]), "at {at}: {seqs:?}");
                assert!(seqs.is_empty() || seqs.len() as u64 == KEYS / 2, "at {at}: {seqs:?}");
            }
            for n in 0..10u64 {
                std::thread::yield_now();
                let k = (n * 4 % KEYS).to_be_bytes();
                let found = buffer.get(&k, at, &mut Vec::new()).map(|(seq, _)| seq);
                assert_eq!(found, first.iter().find(|e| e.0 == k).map(|e| e.1), "at {at}");
            }
            assert!(see() == first, "at {at}");
            live.close(at);
            rounds += 1;
        }
    };
    std::thread::scope(|s| {
        let writers = [0, 1].map(|w| s.spawn(move || write(w)));
        let readers = [false, true].map(|backward| s.spawn(move || read(backward)));
        let failed: Vec<_> = writers.into_iter().filter_map(|w| w.join().err()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(failed.is_empty());
        readers.into_iter().for_each(|r| r.join().unwrap());
    });
    buffer.check();
    // A version that was not published when it went down stays until its row changes again.
    assert!(buffer.entries() <= 4 * KEYS, "{} versions", buffer.entries());
}
