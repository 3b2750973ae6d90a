//! Shared buffers under several threads.

use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use frond_base::{EntryKind, EntryRef, EntrySource};
use frond_buffer::{Batch, Scan, Versions, WriteBuffer};

use crate::support::{own, scan_all, within, Rng};

/// Tells readers to stop, also when a writer has failed: a test that fails does not hang.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn concurrent_writers_and_readers_lose_and_invent_nothing() {
    let buffer = Arc::new(WriteBuffer::new());
    let done = Arc::new(AtomicBool::new(false));
    const WRITERS: u64 = 3;
    const BATCHES: u64 = 60;
    std::thread::scope(|s| {
        let stop = Stop(&done);
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| {
                let buffer = Arc::clone(&buffer);
                s.spawn(move || {
                    let mut rng = Rng(5 + w);
                    for b in 0..BATCHES {
                        let mut keys: Vec<[u8; 9]> = (0..1000)
                            .map(|_| {
                                let mut k = [w as u8; 9];
                                k[..8].copy_from_slice(&rng.next().to_be_bytes());
                                k
                            })
                            .collect();
                        keys.sort();
                        buffer.insert_batch(keys.iter().map(|k| EntryRef {
                            key: k,
                            seq: b * WRITERS + w + 1,
                            kind: EntryKind::Put,
                            value: k,
                        }));
                        for k in keys.iter().step_by(97) {
                            assert!(buffer.newest(k).is_some(), "own write is seen");
                        }
                    }
                })
            })
            .collect();
        for backward in [false, true] {
            let (buffer, done) = (Arc::clone(&buffer), Arc::clone(&done));
            s.spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let (lo, hi) = (Bound::Unbounded, Bound::Unbounded);
                    let got = scan_all(&*buffer, lo, hi, Versions::All, 300, backward);
                    assert!(got.windows(2).all(|w| (w[0].0 < w[1].0) != backward), "in order");
                    assert!(got.iter().all(|e| e.0 == e.3), "entries are whole");
                    assert!(got.len() >= last, "nothing vanishes");
                    last = got.len();
                }
            });
        }
        for backward in [false, true] {
            let (buffer, done) = (Arc::clone(&buffer), Arc::clone(&done));
            s.spawn(move || {
                let mut rng = Rng(31 + u64::from(backward));
                while !done.load(Ordering::Relaxed) {
                    let (a, at) = (rng.next().to_be_bytes(), 1 + rng.below(WRITERS * BATCHES));
                    let versions = Versions::VisibleAt(at);
                    let end = Bound::Unbounded;
                    let (lo, hi) = match backward {
                        true => (end, Bound::Excluded(&a[..])),
                        false => (Bound::Included(&a[..]), end),
                    };
                    let (from, to) = if backward { (hi, lo) } else { (lo, hi) };
                    let scan = Scan { from, to, versions, max_entries: 9, max_bytes: 2000 };
                    let mut batch = Batch::new();
                    match backward {
                        true => buffer.scan_backward(&scan, &mut batch),
                        false => buffer.scan_forward(&scan, &mut batch),
                    }
                    let got: Vec<_> = (0..batch.len()).map(|i| own(batch.entry(i))).collect();
                    assert!(got.windows(2).all(|w| (w[0].0 < w[1].0) != backward), "in order");
                    for e in &got {
                        assert!(e.1 <= at && e.0 == e.3 && within(&e.0, lo, hi));
                        let mut out = Vec::new();
                        let found = buffer.get(&e.0, at, &mut out);
                        assert_eq!((found, &out), (Some((e.1, e.2)), &e.3), "seen is found");
                    }
                }
            });
        }
        for w in writers {
            w.join().unwrap();
        }
        drop(stop);
    });
    buffer.check();
    assert_eq!(buffer.entries(), WRITERS * BATCHES * 1000);
}

/// As the engine does it: writers hold a gate shared, a freeze takes it alone. Readers go on meanwhile,
/// and put shelves in order as they like.
#[test]
fn a_freeze_amid_writers_and_readers_keeps_every_entry() {
    for round in 0..4u64 {
        let buffer = WriteBuffer::new();
        let (gate, done) = (RwLock::new(()), AtomicBool::new(false));
        let batches = AtomicU64::new(0);
        let write = |w: u64| {
            let mut rng = Rng(1 + round * 10 + w);
            let mut mine = Vec::new();
            loop {
                let mut keys: Vec<[u8; 8]> = (0..300)
                    .map(|_| match round % 2 {
                        0 => (rng.next() / 2 * 2 + w).to_be_bytes(),
                        // Few keys, so that versions of one key lie everywhere.
                        _ => (rng.below(50) * 2 + w).to_be_bytes(),
                    })
                    .collect();
                keys.sort_unstable();
                keys.dedup();
                let _open = gate.read().unwrap();
                if buffer.is_frozen() {
                    return mine;
                }
                let seq = batches.fetch_add(1, Ordering::Relaxed) + 1;
                let entry = |key| EntryRef { key, seq, kind: EntryKind::Put, value: key };
                buffer.insert_batch(keys.iter().map(|k| entry(&k[..])));
                mine.extend(keys.iter().map(|k| (k.to_vec(), Reverse(seq))));
            }
        };
        let read = |backward: bool| {
            let mut rng = Rng(77 + u64::from(backward));
            let mut batch = Batch::new();
            while !done.load(Ordering::Relaxed) {
                let key = match round % 2 {
                    0 => rng.next().to_be_bytes(),
                    _ => rng.below(100).to_be_bytes(),
                };
                let at = 1 + rng.below(batches.load(Ordering::Relaxed) + 1);
                let scan = Scan {
                    from: Bound::Included(&key),
                    to: Bound::Unbounded,
                    versions: Versions::VisibleAt(at),
                    max_entries: 20,
                    max_bytes: 2000,
                };
                match backward {
                    true => buffer.scan_backward(&scan, &mut batch),
                    false => buffer.scan_forward(&scan, &mut batch),
                }
                let got: Vec<_> = (0..batch.len()).map(|i| own(batch.entry(i))).collect();
                assert!(got.windows(2).all(|w| (w[0].0 < w[1].0) != backward), "in order");
                for e in &got {
                    assert!(e.1 <= at && e.0 == e.3, "whole and visible");
                    // A newer version that is visible, too, may have come meanwhile.
                    let found = buffer.get(&e.0, at, &mut Vec::new());
                    assert!(found.is_some_and(|(seq, _)| e.1 <= seq && seq <= at));
                }
            }
        };
        std::thread::scope(|s| {
            let stop = Stop(&done);
            let writers = [0, 1].map(|w| s.spawn(move || write(w)));
            let readers = [false, true].map(|backward| s.spawn(move || read(backward)));
            while batches.load(Ordering::Relaxed) < 300 && !writers.iter().any(|w| w.is_finished())
            {
                std::thread::yield_now();
            }
            let closed = gate.write().unwrap();
            buffer.freeze();
            drop(closed);
            let mut scan = buffer.iter_range(Bound::Unbounded, Bound::Unbounded);
            let mut want: Vec<_> = writers.into_iter().flat_map(|w| w.join().unwrap()).collect();
            want.sort_unstable();
            for (key, seq) in &want {
                assert!(scan.valid());
                let e = scan.entry();
                assert_eq!((e.key, e.seq, e.value), (&key[..], seq.0, &key[..]));
                scan.advance().unwrap();
            }
            assert!(!scan.valid());
            drop(stop);
            readers.into_iter().for_each(|r| r.join().unwrap());
            assert_eq!(buffer.entries(), want.len() as u64);
            buffer.check();
        });
    }
}
