//! Helpers for tests of this crate and of those above it: runs in memory, owned entries, a
//! generator of pseudo-random numbers. Not for production use; nothing in the engine calls it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use frond_base::{
    checksum64_seeded, BlockId, EntryKind, EntryRef, EntrySource, Error, ErrorKind, Result, Seq,
};

use crate::builder::{BuiltRun, RunBuilder};
use crate::format::{RunFormat, RunIdentity};
use crate::index::{FenceWriter, RunIndex, TAIL};
use crate::meta::{RunMeta, TailExtent};
use crate::page::Page;
use crate::source::{Access, PageSource, Run};

/// SplitMix64: small, seeded, good enough for test data.
#[derive(Clone, Debug)]
pub struct TestRng(u64);

impl TestRng {
    pub fn new(seed: u64) -> TestRng {
        TestRng(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next_u64() as u8).collect()
    }
}

/// An entry that owns its bytes. Orders as sources do: key ascending, then newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedEntry {
    pub key: Vec<u8>,
    pub seq: Seq,
    pub kind: EntryKind,
    pub value: Vec<u8>,
}

impl OwnedEntry {
    pub fn put(key: impl Into<Vec<u8>>, seq: Seq, value: impl Into<Vec<u8>>) -> OwnedEntry {
        OwnedEntry { key: key.into(), seq, kind: EntryKind::Put, value: value.into() }
    }

    pub fn delete(key: impl Into<Vec<u8>>, seq: Seq) -> OwnedEntry {
        OwnedEntry { key: key.into(), seq, kind: EntryKind::Delete, value: Vec::new() }
    }

    pub fn as_ref(&self) -> EntryRef<'_> {
        EntryRef { key: &self.key, seq: self.seq, kind: self.kind, value: &self.value }
    }
}

impl From<EntryRef<'_>> for OwnedEntry {
    fn from(e: EntryRef<'_>) -> OwnedEntry {
        OwnedEntry { key: e.key.to_vec(), seq: e.seq, kind: e.kind, value: e.value.to_vec() }
    }
}

impl PartialOrd for OwnedEntry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OwnedEntry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key).then(other.seq.cmp(&self.seq))
    }
}

/// A source over a vector; sorts nothing.
#[derive(Clone, Debug)]
pub struct VecSource {
    entries: Vec<OwnedEntry>,
    at: usize,
}

impl VecSource {
    pub fn new(entries: Vec<OwnedEntry>) -> VecSource {
        VecSource { entries, at: 0 }
    }
}

impl EntrySource for VecSource {
    fn valid(&self) -> bool {
        self.at < self.entries.len()
    }

    fn entry(&self) -> EntryRef<'_> {
        self.entries[self.at].as_ref()
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }
}

/// All that is left of a source.
pub fn drain(source: &mut impl EntrySource) -> Result<Vec<OwnedEntry>> {
    let mut out = Vec::new();
    while source.valid() {
        out.push(source.entry().into());
        source.advance()?;
    }
    Ok(out)
}

/// One run of `entries`, which must be sorted and not empty.
pub fn build_run(format: &RunFormat, id: RunIdentity, entries: &[OwnedEntry]) -> BuiltRun {
    let mut builder = RunBuilder::new(format, id);
    for e in entries {
        builder.push(e.as_ref());
    }
    builder.finish()
}

/// The index of a run that does not exist, with pages of equal length: the first keys of its pages are `firsts`.
pub fn index_of(meta: &RunMeta, firsts: &[[u8; 8]]) -> Result<RunIndex> {
    const PAGE: u64 = 4096;
    let mut fences = FenceWriter::default();
    firsts.iter().for_each(|first| fences.add(first, PAGE as usize, false));
    let mut tail = Vec::new();
    fences.finish(None, &mut tail);
    let checksum = checksum64_seeded(&tail, meta.id.seed(TAIL));
    let (offset, len) = (firsts.len() as u64 * PAGE, tail.len() as u32);
    let index = TailExtent { offset, len, checksum };
    let meta = RunMeta { index, pages: firsts.len() as u32, ..meta.clone() };
    RunIndex::parse(&tail, &meta, "no file")
}

/// Runs in memory. Every page read parses anew, as without a cache.
#[derive(Default)]
pub struct MemSource {
    runs: RwLock<HashMap<BlockId, Arc<Vec<u8>>>>,
}

impl MemSource {
    pub fn new() -> MemSource {
        MemSource::default()
    }

    /// Keeps the bytes of `run`; returns its handle, fences not loaded.
    pub fn add(&self, run: BuiltRun) -> Arc<Run> {
        let mut runs = self.runs.write().unwrap_or_else(PoisonError::into_inner);
        runs.insert(run.meta.block(), Arc::new(run.bytes.to_vec()));
        Arc::new(Run::new(run.meta))
    }

    pub fn remove(&self, block: BlockId) {
        self.runs.write().unwrap_or_else(PoisonError::into_inner).remove(&block);
    }

    /// The bytes at `offset` of a block.
    pub fn read(&self, block: BlockId, offset: u64, len: u32) -> Result<Vec<u8>> {
        let runs = self.runs.read().unwrap_or_else(PoisonError::into_inner);
        let gone = || Error::new(ErrorKind::NotFound, format!("no such block range: {block}"));
        let bytes = runs.get(&block).ok_or_else(gone)?;
        let from = offset as usize;
        bytes.get(from..from + len as usize).map(<[u8]>::to_vec).ok_or_else(gone)
    }
}

impl PageSource for MemSource {
    fn page(&self, run: &Arc<Run>, page: u32, _access: Access) -> Result<Arc<Page>> {
        let (offset, len) = self.index(run)?.page_range(page);
        let bytes = self.read(run.meta.block(), offset, len)?;
        Ok(Arc::new(Page::parse(bytes, &run.meta, page, "memory")?))
    }

    fn index(&self, run: &Arc<Run>) -> Result<Arc<RunIndex>> {
        let load = || {
            let tail = run.meta.index;
            let bytes = self.read(run.meta.block(), tail.offset, tail.len)?;
            RunIndex::parse(&bytes, &run.meta, "memory")
        };
        run.index_or_load(load, |_| ())
    }
}
