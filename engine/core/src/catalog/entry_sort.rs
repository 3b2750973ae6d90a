//! Sorting the entries of an index in bounded memory: chunks in memory, each written as a private run. The last one is
//! not written by itself: it is merged from memory with the runs. What is written is cut into parts by key, which
//! several threads may write at once.

use std::sync::Arc;

use frond_base::Result;
use frond_run::MergeInput;
use frond_tree::{Parted, PrivateRuns, RunParts, Segment};

use crate::table::chunk::{Chunk, SortedChunk};

/// A part of a chunk that is written takes at least this many bytes of memory: less is not worth a thread, which begins
/// with cold memory.
const PART_BYTES: usize = 8 << 20;
/// A chunk with fewer entries than this is not cut, and does not tell where parts of what is merged should begin.
const SAMPLE_MIN: usize = 1 << 10;

/// The entries of one tree, in a chunk and in runs that no trunk names yet.
pub(crate) struct EntrySort {
    pub chunk: Chunk,
    pub runs: PrivateRuns,
    written: u64,
    /// There are runs that are written to be merged.
    unmerged: bool,
    /// Where parts of what is merged begin, by the latest large chunk.
    bounds: Vec<Arc<[u8]>>,
}

impl EntrySort {
    pub fn new(runs: PrivateRuns) -> EntrySort {
        let (chunk, bounds) = Default::default();
        EntrySort { chunk, runs, written: 0, unmerged: false, bounds }
    }

    /// Writes the chunk out, in up to `parts` parts.
    pub fn write(&mut self, parts: usize, run: RunParts<'_>) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        // Entries that come in order become a list of runs that is not written again.
        let merge = self.unmerged || self.chunk.is_unsorted();
        let chunk = self.take_sorted(parts);
        let (input, segment) = (parted(&chunk, &by_size(&chunk, parts)), self.segment());
        match merge {
            true => self.runs.write_for_merge(input, segment, run)?,
            false => self.runs.write_parts(input, segment, run)?,
        }
        self.unmerged = merge;
        self.runs.tidy_parts(merge, &self.bounds, run)?;
        // Its memory is used again: new memory costs its clearing.
        if let Some(mut chunk) = Arc::into_inner(chunk) {
            chunk.clear();
            self.chunk = chunk;
        }
        Ok(())
    }

    /// Everything in one list of runs.
    pub fn finish(&mut self, parts: usize, run: RunParts<'_>) -> Result<()> {
        let merge = self.unmerged || self.chunk.is_unsorted();
        let chunk = self.take_sorted(parts);
        let bounds = match self.unmerged {
            true => self.bounds.clone(),
            false => by_size(&chunk, parts),
        };
        let (input, segment) = (parted(&chunk, &bounds), self.segment());
        drop(chunk);
        self.unmerged = false;
        match merge {
            true => self.runs.write_merged(input, segment, run)?,
            false => self.runs.write_parts(input, segment, run)?,
        }
        self.runs.merge_all_parts(&self.bounds, run)
    }

    fn take_sorted(&mut self, parts: usize) -> Arc<Chunk> {
        let mut chunk = std::mem::take(&mut self.chunk);
        let len = chunk.len();
        chunk.sort(0, len);
        if len >= SAMPLE_MIN {
            self.bounds = bounds(&chunk, parts);
        }
        Arc::new(chunk)
    }

    fn segment(&mut self) -> Segment {
        self.written += 1;
        Segment { after: self.written - 1, upto: self.written }
    }
}

/// Where the second of so many equal parts of a sorted chunk begins, the third, and so on.
fn bounds(chunk: &Chunk, parts: usize) -> Vec<Arc<[u8]>> {
    let mut bounds: Vec<Arc<[u8]>> =
        (1..parts).map(|n| chunk.key_at(chunk.len() * n / parts).into()).collect();
    // Keys may be equal (`rebuild.rs`).
    bounds.dedup();
    bounds
}

/// Bounds of up to so many parts of a sorted chunk that is written alone.
fn by_size(chunk: &Chunk, parts: usize) -> Vec<Arc<[u8]>> {
    match chunk.len() < SAMPLE_MIN {
        true => Vec::new(),
        false => bounds(chunk, parts.min(chunk.memory() / PART_BYTES)),
    }
}

/// A sorted chunk in parts.
fn parted(chunk: &Arc<Chunk>, bounds: &[Arc<[u8]>]) -> Parted {
    let starts = || bounds.iter().map(|bound| chunk.place_of(bound));
    let part = |(from, to)| MergeInput::entries(SortedChunk::of(chunk.clone(), from, to));
    let inputs = [0].into_iter().chain(starts()).zip(starts().chain([chunk.len()])).map(part);
    Parted { bounds: bounds.to_vec(), inputs: inputs.collect() }
}
