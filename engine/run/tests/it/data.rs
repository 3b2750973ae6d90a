//! Random entries and formats.

use std::sync::Arc;

use frond_base::{EntryKind, EntryRef, TableId};
use frond_run::testing::{OwnedEntry, TestRng};
use frond_run::{
    Access, Compression, KeyShape, Page, Reader, Run, RunFormat, RunIdentity, RunIndex,
};

pub const SHAPES: [&[u8]; 10] = [
    &[],
    &[8],
    &[1],
    &[4, 4],
    &[1, 4, 1, 4, 8],
    &[1, 4, 1, 4, 1, 4, 8],
    &[1, 4, 1, 5, 1, 4, 8],
    &[3, 7, 5, 8, 8],
    &[8, 8, 8, 8],
    &[6, 6, 6],
];

pub fn id(block: u64) -> RunIdentity {
    RunIdentity { table: TableId(17), block }
}

pub fn random_format(rng: &mut TestRng) -> RunFormat {
    let shape = SHAPES[rng.below(SHAPES.len() as u64) as usize];
    RunFormat {
        page_bytes: [4096, 8192, 16384, 65536][rng.below(4) as usize],
        compression: [Compression::None, Compression::Lz4, Compression::Zstd(1)]
            [rng.below(3) as usize],
        key_shape: KeyShape::fixed(shape),
        filter: rng.below(2) == 0,
    }
}

/// What entries of a run have, so that every layout occurs.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// One in this many keys does not fit the shape (0: none).
    pub misfits: u64,
    /// One in this many entries is a delete (0: none).
    pub deletes: u64,
    /// Largest sequence (0: all 0).
    pub seqs: u64,
    /// Versions per key, at most.
    pub versions: u64,
    /// Longest value; `fixed_values`: all have it.
    pub values: u64,
    pub fixed_values: bool,
    /// How many different numbers a key field takes.
    pub spread: u64,
}

pub fn random_mix(rng: &mut TestRng) -> Mix {
    let seqs = [0, 0, 5, 1000, u64::MAX][rng.below(5) as usize];
    Mix {
        misfits: [0, 0, 0, 3, 300][rng.below(5) as usize],
        deletes: [0, 2, 50][rng.below(3) as usize],
        seqs,
        versions: if seqs == 0 { 1 } else { 1 + rng.below(4) },
        values: [0, 0, 1, 10, 300][rng.below(5) as usize],
        fixed_values: rng.below(2) == 0,
        spread: [2, 50, 10_000, u64::MAX][rng.below(4) as usize],
    }
}

pub fn random_key(rng: &mut TestRng, shape: &KeyShape, mix: &Mix) -> Vec<u8> {
    let misfit = mix.misfits > 0 && rng.below(mix.misfits) == 0;
    if shape.is_variable() || misfit {
        let len = match rng.below(20) {
            0 => 1 + rng.below(60),
            _ => 1 + rng.below(12),
        };
        let mut key = if rng.below(3) == 0 { b"common/prefix/of/keys/".to_vec() } else { vec![] };
        key.extend((0..len).map(|_| b'a' + rng.below(mix.spread.min(26)) as u8));
        return key;
    }
    let mut key = Vec::new();
    for w in shape.widths() {
        let n = if *w == 1 && rng.below(4) > 0 { 1 } else { rng.below(mix.spread) };
        key.extend_from_slice(&n.to_be_bytes()[8 - usize::from(*w)..]);
    }
    key
}

/// Sorted entries with distinct (key, seq).
pub fn random_entries(rng: &mut TestRng, shape: &KeyShape, mix: &Mix, n: usize) -> Vec<OwnedEntry> {
    let mut out = Vec::new();
    while out.len() < n {
        let key = random_key(rng, shape, mix);
        for _ in 0..1 + rng.below(mix.versions) {
            let seq = if mix.seqs == 0 { 0 } else { rng.below(mix.seqs) };
            if mix.deletes > 0 && rng.below(mix.deletes) == 0 {
                out.push(OwnedEntry::delete(key.clone(), seq));
                continue;
            }
            let len = if mix.fixed_values { mix.values } else { rng.below(mix.values + 1) };
            let fill = rng.next_u64() as u8;
            let value: Vec<u8> = (0..len).map(|i| fill.wrapping_add(i as u8 / 7)).collect();
            out.push(OwnedEntry::put(key.clone(), seq, value));
        }
    }
    out.sort();
    out.dedup_by(|a, b| a.key == b.key && a.seq == b.seq);
    out
}

/// Every page of a run, parsed.
pub fn pages(run: &Run, index: &RunIndex, bytes: &[u8]) -> frond_base::Result<Vec<Arc<Page>>> {
    let read = |p| {
        let (offset, len) = index.page_range(p);
        let stored = bytes[offset as usize..offset as usize + len as usize].to_vec();
        Page::parse(stored, &run.meta, p, "test").map(Arc::new)
    };
    (0..index.pages()).map(read).collect()
}

/// Reads every entry of a page through every accessor.
pub fn entries_of(page: &Page) -> Vec<OwnedEntry> {
    let mut key = Vec::new();
    let mut out = Vec::new();
    let mut reader = Reader::new(page);
    for i in 0..page.len() {
        reader.key_into(i, &mut key);
        assert_eq!(page.key_head(i), frond_base::key_head(&key));
        assert!(page.compare_key(i, &key).is_eq());
        let value = reader.value(i);
        let (seq, kind, value) = (reader.stored_seq(i), reader.kind(i), page.value_at(value));
        out.push(EntryRef { key: &key, seq, kind, value }.into());
    }
    out
}

pub const MERGE: Access = Access::Merge;
pub const DELETE: EntryKind = EntryKind::Delete;
