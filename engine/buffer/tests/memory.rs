//! The memory that a buffer reports, compared with allocated memory. A binary of its own, since the
//! allocator counts for the whole process.

use std::alloc::System;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{EntryKind, EntryRef, Readers, Seq, SEQ_MAX};
use frond_buffer::{Batch, Scan, Versions, WriteBuffer};
use stats_alloc::{StatsAlloc, INSTRUMENTED_SYSTEM};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The allocator counts for all threads.
static ONE_AT_A_TIME: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

/// Bytes that live.
fn held() -> i64 {
    let s = ALLOCATOR.stats();
    s.bytes_allocated as i64 - s.bytes_deallocated as i64
}

fn mix(n: u64) -> u64 {
    let z = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// Readers read only at the published sequence; 0: it is unknown.
#[derive(Default)]
struct Newest(AtomicU64);

impl Readers for Newest {
    fn retention(&self) -> Vec<Seq> {
        let published = self.0.load(Ordering::Relaxed);
        (published > 0).then_some(published).into_iter().collect()
    }
}

struct History {
    name: &'static str,
    key: fn(u64) -> u64,
    value: fn(u64) -> usize,
    entries: u64,
    drops: bool,
}

const HISTORIES: &[History] = &[
    History { name: "random", key: mix, value: |_| 0, entries: 300_000, drops: false },
    History { name: "ascending", key: |n| n, value: |_| 8, entries: 200_000, drops: false },
    History { name: "descending", key: |n| !n, value: |_| 8, entries: 200_000, drops: false },
    History {
        name: "large values",
        key: mix,
        value: |n| if n % 50 == 0 { 200_000 } else { (mix(n) % 3000) as usize },
        entries: 20_000,
        drops: false,
    },
    History {
        name: "rows changed again and again",
        key: |n| mix(n) % 5000,
        value: |n| (n % 200) as usize,
        entries: 200_000,
        drops: true,
    },
];

fn scan(buffer: &WriteBuffer, from: u64, batch: &mut Batch) {
    let key = from.to_be_bytes();
    let scan = Scan {
        from: Bound::Included(&key),
        to: Bound::Unbounded,
        versions: Versions::VisibleAt(SEQ_MAX),
        max_entries: 100,
        max_bytes: 100_000,
    };
    buffer.scan_forward(&scan, batch);
}

#[test]
fn what_is_reported_is_what_is_held() {
    let _alone = ONE_AT_A_TIME.lock();
    let value = vec![7; 200_000];
    for h in HISTORIES {
        for reads in [false, true] {
            let mut batch = Batch::new();
            let mut keys: Vec<u64> = Vec::with_capacity(100);
            let before = held();
            let published = Arc::new(Newest::default());
            let buffer = WriteBuffer::read_by(published.clone());
            let (mut most, mut seq): (f64, Seq) = (0.0, 0);
            let mut check = |buffer: &WriteBuffer, batch: &Batch, when: &str| {
                let held = (held() - before) as f64 - batch.memory_bytes() as f64;
                let off = (buffer.bytes() as f64 - held).abs();
                most = most.max(off / held);
                assert!(
                    off < held * 0.02 + 20_000.0,
                    "{}, {when}: {} reported, {held} held",
                    h.name,
                    buffer.bytes()
                );
            };
            for n in (0..h.entries).step_by(100) {
                keys.clear();
                keys.extend((n..n + 100).map(h.key));
                keys.sort_unstable();
                keys.dedup();
                seq += 1;
                let bytes: Vec<[u8; 8]> = keys.iter().map(|k| k.to_be_bytes()).collect();
                let entry = |(i, key)| EntryRef {
                    key,
                    seq,
                    kind: EntryKind::Put,
                    value: &value[..(h.value)(n + i as u64)],
                };
                let entries = bytes.iter().map(|k| &k[..]).enumerate().map(entry);
                if h.drops {
                    published.0.store(seq - 1, Ordering::Relaxed);
                }
                buffer.insert_batch(entries);
                drop(bytes);
                if reads {
                    scan(&buffer, mix(!n), &mut batch);
                }
                if n % 1000 == 0 {
                    check(&buffer, &batch, "while it is filled");
                }
            }
            if reads {
                (0..20_000).for_each(|n| scan(&buffer, mix(n), &mut batch));
                check(&buffer, &batch, "read much");
            }
            buffer.freeze();
            drop(buffer.iter_range(Bound::Unbounded, Bound::Unbounded));
            check(&buffer, &batch, "frozen");
            let overhead = buffer.bytes() as f64 / buffer.payload_bytes() as f64;
            assert!(h.drops || overhead < 2.2, "{}: {overhead}", h.name);
            drop(buffer);
            let left = held() - before - batch.memory_bytes() as i64;
            assert!(left < 10_000, "{}: {left} bytes left behind", h.name);
        }
    }
}

/// Bytes that were allocated since, freed or not.
fn allocated() -> u64 {
    ALLOCATOR.stats().bytes_allocated as u64
}

/// Whatever happens to the entries around it: appended, joined, divided, gathered, frozen.
#[test]
fn a_large_value_is_copied_once() {
    let _alone = ONE_AT_A_TIME.lock();
    let value = vec![7; 20 << 20];
    let buffer = WriteBuffer::new();
    let put = |key: &[u8], value: &[u8]| {
        buffer.insert_batch([EntryRef { key, seq: 1, kind: EntryKind::Put, value }]);
    };
    for n in 0..2000u64 {
        put(&mix(n).to_be_bytes(), b"small");
    }
    let before = allocated();
    for n in 0..4 {
        put(&mix(n * 100_000 + 7).to_be_bytes(), &value);
        put(&mix(n * 100_000 + 8).to_be_bytes(), b"small");
    }
    buffer.freeze();
    buffer.settle();
    let copied = allocated() - before;
    assert!(copied < 5 * value.len() as u64, "{copied} bytes for 4 times {}", value.len());
    buffer.check();
    for n in 0..4 {
        let mut out = Vec::new();
        assert!(buffer.get(&mix(n * 100_000 + 7).to_be_bytes(), 1, &mut out).is_some());
        assert!(out == value);
    }
}
