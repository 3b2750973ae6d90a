//! Measures the write buffer: batches of random and of ascending keys, point reads, short and long scans,
//! iteration once it is frozen, memory per entry, and a row that is changed again and again.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use frond_base::{EntryKind, EntryRef, EntrySource, Readers, Seq, SEQ_MAX};
use frond_buffer::{Batch, Scan, Versions, WriteBuffer};

use crate::numbers::Numbers;

/// The results; nanoseconds are per entry or per read.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub entries: u64,
    /// Sorted batches of 1000 random 24-byte keys, over the last tenth of the fill.
    pub random_insert_ns: f64,
    /// The same, over the whole fill.
    pub random_insert_mean_ns: f64,
    pub ascending_insert_ns: f64,
    pub get_ns: f64,
    /// Reading the next 16 entries from a random key on.
    pub scan_ns: f64,
    /// Reading the next 10 thousand in batches of 1000 from a random key on; per entry.
    pub long_scan_ns: f64,
    /// Reading all of it once it is frozen, as a flush does; per entry.
    pub flush_ns: f64,
    /// Allocated bytes per entry of the random and of the ascending fill, beyond key, value and an
    /// 8-byte sequence.
    pub overhead_bytes: f64,
    pub overhead_ascending_bytes: f64,
    pub drop_ms: f64,
    /// Changing a row in a batch of its own, and reading it, again and again.
    pub hot_ns: f64,
    /// Bytes left behind by 100 thousand changes of one row.
    pub hot_bytes: u64,
}

const KEY: usize = 24;
const BATCH: usize = 1000;

fn random_key(numbers: &mut Numbers) -> [u8; KEY] {
    let mut k = [0; KEY];
    for part in k.chunks_exact_mut(8) {
        part.copy_from_slice(&numbers.next().to_be_bytes());
    }
    k
}

fn insert(buffer: &WriteBuffer, keys: &[[u8; KEY]], seq: u64) {
    buffer.insert_batch(keys.iter().map(|key| EntryRef {
        key,
        seq,
        kind: EntryKind::Put,
        value: &[],
    }));
}

fn scan(from: &[u8; KEY], max_entries: usize) -> Scan<'_> {
    Scan {
        from: Bound::Included(from),
        to: Bound::Unbounded,
        versions: Versions::VisibleAt(SEQ_MAX),
        max_entries,
        max_bytes: usize::MAX,
    }
}

/// Fills buffers with `entries` entries and measures. `now` returns nanoseconds of a steady clock.
pub fn run(entries: u64, now: &dyn Fn() -> u64) -> Figures {
    let batches = (entries / BATCH as u64).max(10);
    let buffer = WriteBuffer::new();
    let mut numbers = Numbers(1);
    let mut keys = vec![[0; KEY]; BATCH];
    let (mut total, mut late) = (0, 0);
    for b in 0..batches {
        keys.iter_mut().for_each(|k| *k = random_key(&mut numbers));
        keys.sort_unstable();
        let start = now();
        insert(&buffer, &keys, b + 1);
        let took = now() - start;
        total += took;
        if b >= batches - batches / 10 {
            late += took;
        }
    }
    let n = (batches * BATCH as u64) as f64;
    let late_n = (batches / 10 * BATCH as u64) as f64;
    let overhead = |b: &WriteBuffer| b.bytes() as f64 / n - (KEY + 8) as f64;
    let overhead_bytes = overhead(&buffer);

    // Restarting the generator repeats the inserted keys.
    let reads = (entries / 10).clamp(1, 500_000);
    let mut numbers = Numbers(1);
    let keys: Vec<_> = (0..reads).map(|_| random_key(&mut numbers)).collect();
    let mut out = Vec::new();
    let start = now();
    let found = keys.iter().filter(|k| buffer.get(&k[..], SEQ_MAX, &mut out).is_some()).count();
    let get_ns = (now() - start) as f64 / reads as f64;
    assert_eq!(found as u64, reads, "a key inserted is found");
    let mut batch = Batch::new();
    let start = now();
    for key in &keys {
        buffer.scan_forward(&scan(key, 16), &mut batch);
        assert_eq!(batch.key(0), key, "a scan begins where it was told to");
    }
    let scan_ns = (now() - start) as f64 / reads as f64;
    let mut read = 0;
    let start = now();
    for key in keys.iter().take(100) {
        let mut from = *key;
        for _ in 0..10 {
            buffer.scan_forward(&scan(&from, 1000), &mut batch);
            read += batch.len();
            from.copy_from_slice(batch.last_key().unwrap_or(key));
        }
    }
    let long_scan_ns = (now() - start) as f64 / read as f64;
    buffer.freeze();
    let start = now();
    let mut all = buffer.iter_range(Bound::Unbounded, Bound::Unbounded);
    let (mut flushed, mut bytes) = (0, 0);
    while all.valid() {
        let e = all.entry();
        bytes += u64::from(e.key[KEY - 1]) + e.value.len() as u64;
        flushed += 1;
        if all.advance().is_err() {
            break;
        }
    }
    std::hint::black_box(bytes);
    let flush_ns = (now() - start) as f64 / flushed as f64;
    assert_eq!(flushed, buffer.entries(), "a flush meets every entry");
    drop(all);
    let start = now();
    drop(buffer);
    let drop_ms = (now() - start) as f64 / 1e6;

    let buffer = WriteBuffer::new();
    let mut keys = vec![[7; KEY]; BATCH];
    let mut ascending = 0;
    for b in 0..batches {
        for (i, k) in keys.iter_mut().enumerate() {
            let id = b * BATCH as u64 + i as u64;
            k[KEY - 8..].copy_from_slice(&id.to_be_bytes());
        }
        let start = now();
        insert(&buffer, &keys, b + 1);
        ascending += now() - start;
    }
    let (hot_ns, hot_bytes) = hot_row(now);
    Figures {
        entries: batches * BATCH as u64,
        random_insert_ns: late as f64 / late_n,
        random_insert_mean_ns: total as f64 / n,
        ascending_insert_ns: ascending as f64 / n,
        get_ns,
        scan_ns,
        long_scan_ns,
        flush_ns,
        overhead_bytes,
        overhead_ascending_bytes: overhead(&buffer),
        drop_ms,
        hot_ns,
        hot_bytes,
    }
}

/// The published sequence, at which all readers read.
#[derive(Default)]
struct Published(AtomicU64);

impl Readers for Published {
    fn retention(&self) -> Vec<Seq> {
        vec![self.0.load(Relaxed)]
    }
}

/// Changes one row of 20 thousand 100 thousand times, and reads it each time. Returns nanoseconds per
/// change and read, and the bytes that the changes left behind.
fn hot_row(now: &dyn Fn() -> u64) -> (f64, u64) {
    const CHANGES: u64 = 100_000;
    let published = Arc::new(Published::default());
    let buffer = WriteBuffer::read_by(published.clone());
    let mut numbers = Numbers(1);
    for seq in 1..=20 {
        let mut keys: Vec<_> = (0..BATCH).map(|_| random_key(&mut numbers)).collect();
        keys.sort_unstable();
        insert(&buffer, &keys, seq);
    }
    let hot = [random_key(&mut Numbers(1))];
    let before = buffer.bytes();
    let mut out = Vec::new();
    let start = now();
    for seq in 21..21 + CHANGES {
        insert(&buffer, &hot, seq);
        published.0.store(seq, Relaxed);
        let found = buffer.get(&hot[0], SEQ_MAX, &mut out);
        assert_eq!(found, Some((seq, EntryKind::Put)), "the last change is read");
    }
    let took = now() - start;
    (took as f64 / CHANGES as f64, buffer.bytes().saturating_sub(before))
}
