//! The codec benchmark: index entries of the insert benchmark through decode, 4-way merge,
//! reduction and encode.
//!
//! The threshold of the run format: at least 10 million entries per second on one core, and at most 9
//! bytes stored per entry, both for runs spread over the whole key space (as a write buffer becomes)
//! and for dense ones (as they are merged into a leaf). Times come from the caller's clock.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use frond_base::{EntryKind, Result, TableId};
use frond_run::{
    Access, Compression, Cut, KeyShape, MergeInput, MergeJob, PageSource, Retention, Run,
    RunBuilder, RunCutter, RunFormat, RunIdentity, RunScan,
};

use crate::memory::MemoryRuns;
use crate::numbers::Numbers;

const TABLE: TableId = TableId(1);

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub struct CodecBenchOptions {
    /// Rows of the imagined table.
    pub rows: u64,
    /// Entries of each of the four runs.
    pub run_entries: usize,
    pub page_bytes: u32,
    pub compression: Compression,
    /// Merges per index and kind; the fastest counts.
    pub repeat: u32,
}

impl Default for CodecBenchOptions {
    fn default() -> Self {
        CodecBenchOptions {
            rows: 10_000_000,
            run_entries: 500_000,
            page_bytes: 16384,
            compression: Compression::None,
            repeat: 3,
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug)]
pub struct CodecResult {
    pub index: &'static str,
    /// "spread" over the key space, or "dense".
    pub kind: &'static str,
    pub key_bytes: usize,
    /// Stored bytes per entry of an input run, everything included.
    pub input_bytes: f64,
    /// The same of the merged run.
    pub output_bytes: f64,
    /// Million entries per second: decoding alone, encoding alone, and the whole merge.
    pub decode: f64,
    pub encode: f64,
    pub merge: f64,
    /// Million searches of existing keys per second, all pages in memory.
    pub seek: f64,
}

/// All lines.
#[derive(Clone, Debug)]
pub struct CodecReport {
    pub options: CodecBenchOptions,
    pub results: Vec<CodecResult>,
}

impl CodecReport {
    /// Whether every line reaches the threshold.
    pub fn passes(&self) -> bool {
        let good = |r: &CodecResult| r.merge >= 10.0 && r.input_bytes.max(r.output_bytes) <= 9.0;
        self.results.iter().all(good)
    }
}

impl fmt::Display for CodecReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let o = &self.options;
        writeln!(
            f,
            "4 runs of {} entries, {} rows, pages of {} bytes, compression {:?}",
            o.run_entries, o.rows, o.page_bytes, o.compression
        )?;
        writeln!(
            f,
            "{:<16}{:<8}{:>4}{:>9}{:>9}{:>12}{:>12}{:>11}{:>10}",
            "index",
            "kind",
            "key",
            "in B/e",
            "out B/e",
            "decode M/s",
            "encode M/s",
            "merge M/s",
            "seek M/s"
        )?;
        for r in &self.results {
            writeln!(
                f,
                "{:<16}{:<8}{:>4}{:>9.2}{:>9.2}{:>12.1}{:>12.1}{:>11.1}{:>10.2}",
                r.index,
                r.kind,
                r.key_bytes,
                r.input_bytes,
                r.output_bytes,
                r.decode,
                r.encode,
                r.merge,
                r.seek
            )?;
        }
        write!(
            f,
            "threshold (10 M entries/s, 9 bytes): {}",
            if self.passes() { "ok" } else { "MISSED" }
        )
    }
}

/// An index of the benchmark's table.
#[derive(Clone, Copy)]
struct Index {
    name: &'static str,
    shape: &'static [u8],
    build: fn(&Row, &mut Vec<u8>),
    /// Which of `parts` equal parts of the key space a row falls into.
    part: fn(&Row, u64) -> u64,
}

struct Row {
    id: u64,
    cash_register: u32,
    customer: u32,
    price: f32,
    /// A packed date and time, 40 bits.
    moment: u64,
}

impl Row {
    fn random(rng: &mut Numbers, id: u64) -> Row {
        let customer = rng.below(100_000) as u32;
        let price = (rng.unit() * 500.0 + f64::from(customer)) / 100.0;
        // Ten thousand rows a second.
        let second = id / 10_000;
        let (h, m, s) = (9 + second / 3600, second / 60 % 60, second % 60);
        let moment = (1 << 39) | (2024 * 13 + 7) << 22 | 14 << 17 | h << 12 | m << 6 | s;
        let cash_register = rng.below(1000) as u32;
        Row { id, cash_register, customer, price: price as f32, moment }
    }
}

/// A nullable four-byte field.
fn put_u32(key: &mut Vec<u8>, n: u32) {
    key.push(1);
    key.extend_from_slice(&n.to_be_bytes());
}

fn put_int(key: &mut Vec<u8>, n: u32) {
    put_u32(key, n ^ 1 << 31);
}

fn put_float(key: &mut Vec<u8>, x: f32) {
    let bits = x.to_bits();
    put_u32(key, if bits >> 31 == 1 { !bits } else { bits ^ 1 << 31 });
}

fn put_id(key: &mut Vec<u8>, id: u64) {
    key.extend_from_slice(&(id ^ 1 << 63).to_be_bytes());
}

fn by_price(row: &Row, parts: u64) -> u64 {
    (f64::from(row.price) / 1005.0 * parts as f64) as u64
}

const INDEXES: [Index; 3] = [
    Index {
        name: "marketsegment",
        shape: &[1, 4, 1, 4, 8],
        build: |row, key| {
            put_float(key, row.price);
            put_int(key, row.customer);
            put_id(key, row.id);
        },
        part: by_price,
    },
    Index {
        name: "registersegment",
        shape: &[1, 4, 1, 4, 1, 4, 8],
        build: |row, key| {
            put_int(key, row.cash_register);
            put_float(key, row.price);
            put_int(key, row.customer);
            put_id(key, row.id);
        },
        part: |row, parts| u64::from(row.cash_register) * parts / 1000,
    },
    Index {
        name: "pdc",
        shape: &[1, 4, 1, 5, 1, 4, 8],
        build: |row, key| {
            put_float(key, row.price);
            key.push(1);
            key.extend_from_slice(&row.moment.to_be_bytes()[3..]);
            put_int(key, row.customer);
            put_id(key, row.id);
        },
        part: by_price,
    },
];

/// A key of at most 24 bytes as big-endian words, zero-padded.
fn words(key: &[u8]) -> [u64; 3] {
    let mut padded = [0; 24];
    padded[..key.len()].copy_from_slice(key);
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(padded.chunks_exact(8)) {
        *word = bytes.iter().fold(0, |w, b| w << 8 | u64::from(*b));
    }
    words
}

/// Sorted keys of random rows, as words. Spread: any rows; dense: a quarter of all rows of one part
/// of the key space.
fn keys(index: &Index, o: &CodecBenchOptions, dense: bool, seed: u64) -> Vec<[u64; 3]> {
    let mut rng = Numbers(seed);
    let parts = (o.rows / (4 * o.run_entries as u64)).max(1);
    let mut keys = Vec::with_capacity(o.run_entries);
    let mut key = Vec::new();
    while keys.len() < o.run_entries {
        let id = rng.below(o.rows);
        let row = Row::random(&mut rng, id);
        if !dense || (index.part)(&row, parts) == parts / 2 {
            key.clear();
            (index.build)(&row, &mut key);
            keys.push(words(&key));
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn rate(entries: u64, time: Duration) -> f64 {
    entries as f64 / time.as_secs_f64().max(1e-9) / 1e6
}

fn format(index: &Index, o: &CodecBenchOptions) -> RunFormat {
    RunFormat {
        page_bytes: o.page_bytes,
        compression: o.compression,
        key_shape: KeyShape::fixed(index.shape),
        filter: false,
    }
}

/// Decodes all of a run; returns its number of entries.
fn decode_all(store: &Arc<MemoryRuns>, run: &Arc<Run>) -> Result<u64> {
    let scan = RunScan::new(store.clone(), run.clone(), b"", None, Access::Merge)?;
    MergeInput::run(scan).drain()
}

/// Searches for keys of the run in random order; the rate.
fn seek_all(
    store: &Arc<MemoryRuns>,
    run: &Arc<Run>,
    keys: &[[u64; 3]],
    key_bytes: usize,
    clock: &dyn Fn() -> Duration,
) -> Result<f64> {
    const SEEKS: u64 = 300_000;
    let index = store.index(run)?;
    let read = |p| store.page(run, p, Access::Point);
    let pages = (0..index.pages()).map(read).collect::<Result<Vec<_>>>()?;
    let mut rng = Numbers(5);
    let mut key = Vec::new();
    let start = clock();
    for _ in 0..SEEKS {
        key.clear();
        let chosen = &keys[rng.below(keys.len() as u64) as usize];
        key.extend(chosen.iter().flat_map(|word| word.to_be_bytes()).take(key_bytes));
        let page = &pages[index.page_for_seek(&key) as usize];
        let at = page.lower_bound(&key);
        assert!(at < page.len() && page.compare_key(at, &key).is_eq(), "a key is not found");
    }
    Ok(rate(SEEKS, clock() - start))
}

fn merge_all(
    store: &Arc<MemoryRuns>,
    runs: &[Arc<Run>],
    format: &RunFormat,
) -> Result<(u64, u64, u64)> {
    let mut inputs = Vec::new();
    for run in runs {
        let scan = RunScan::new(store.clone(), run.clone(), b"", None, Access::Merge)?;
        inputs.push(MergeInput::run(scan));
    }
    let next = AtomicU64::new(1000);
    let next_block = Box::new(move || next.fetch_add(1, Ordering::Relaxed));
    let cut = Cut { target_bytes: 8 << 20, boundaries: Vec::new() };
    let cutter = RunCutter::new(format, TABLE, cut, next_block);
    let mut job = MergeJob::new(inputs, Retention::newest(100, true), cutter)?;
    let mut bytes = 0;
    loop {
        let done = job.step(100_000)?;
        bytes += job.take_finished().iter().map(|f| f.run.meta.bytes).sum::<u64>();
        if done {
            let stats = job.stats();
            return Ok((stats.entries_in, stats.entries_out, bytes));
        }
    }
}

fn bench_index(
    index: &Index,
    dense: bool,
    o: &CodecBenchOptions,
    clock: &dyn Fn() -> Duration,
) -> Result<CodecResult> {
    let format = format(index, o);
    let store = Arc::new(MemoryRuns::default());
    let mut runs = Vec::new();
    let (mut entries, mut bytes, mut best_encode) = (0, 0, Duration::MAX);
    let mut seek = 0.0;
    for block in 0..4 {
        let keys = keys(index, o, dense, 1 + block);
        let start = clock();
        let mut builder = RunBuilder::new(&format, RunIdentity { table: TABLE, block });
        for key in &keys {
            builder.push_words(key, 0, EntryKind::Put, b"");
        }
        let built = builder.finish();
        best_encode = best_encode.min(clock() - start);
        entries += built.meta.entries;
        bytes += built.meta.bytes;
        runs.push(store.add(built));
        if block == 0 {
            seek = seek_all(&store, &runs[0], &keys, format.key_shape.key_bytes(), clock)?;
        }
    }
    let (mut best_decode, mut best_merge) = (Duration::MAX, Duration::MAX);
    let mut merged = (0, 0, 0);
    for _ in 0..o.repeat.max(1) {
        let start = clock();
        for run in &runs {
            decode_all(&store, run)?;
        }
        best_decode = best_decode.min(clock() - start);
        let start = clock();
        merged = merge_all(&store, &runs, &format)?;
        best_merge = best_merge.min(clock() - start);
    }
    Ok(CodecResult {
        index: index.name,
        kind: if dense { "dense" } else { "spread" },
        key_bytes: format.key_shape.key_bytes(),
        input_bytes: bytes as f64 / entries as f64,
        output_bytes: merged.2 as f64 / merged.1 as f64,
        decode: rate(entries, best_decode),
        encode: rate(entries / 4, best_encode),
        merge: rate(merged.0, best_merge),
        seek,
    })
}

/// Runs the benchmark; `clock` is any monotonic time.
pub fn codec(o: &CodecBenchOptions, clock: &dyn Fn() -> Duration) -> Result<CodecReport> {
    let mut results = Vec::new();
    for index in &INDEXES {
        for dense in [false, true] {
            results.push(bench_index(index, dense, o, clock)?);
        }
    }
    Ok(CodecReport { options: *o, results })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_entries_take_at_most_nine_bytes() {
        let o = CodecBenchOptions {
            rows: 1_000_000,
            run_entries: 50_000,
            repeat: 1,
            ..CodecBenchOptions::default()
        };
        let report = codec(&o, &|| Duration::ZERO).unwrap();
        assert_eq!(report.results.len(), 6);
        for r in &report.results {
            assert!(r.input_bytes <= 9.0 && r.output_bytes <= 9.0, "{report}");
        }
    }
}
