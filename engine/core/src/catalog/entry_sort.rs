//! Sorting the entries of an index in bounded memory: chunks in memory, each written as a private run. The last one is
//! not written by itself: it is merged from memory with the runs.

use std::sync::Arc;

use frond_base::Result;
use frond_run::MergeInput;
use frond_tree::{PrivateRuns, Segment};

use crate::table::chunk::{Chunk, SortedChunk};

/// The entries of one tree, in a chunk and in runs that no trunk names yet.
pub(crate) struct EntrySort {
    pub chunk: Chunk,
    pub runs: PrivateRuns,
    written: u64,
    /// There are runs that are written to be merged.
    unmerged: bool,
}

impl EntrySort {
    pub fn new(runs: PrivateRuns) -> EntrySort {
        EntrySort { chunk: Chunk::default(), runs, written: 0, unmerged: false }
    }

    /// Writes the chunk out.
    pub fn write(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        // Entries that come in order become a list of runs that is not written again.
        let merge = self.unmerged || self.chunk.is_unsorted();
        let (chunk, sorted) = self.take_sorted();
        let segment = self.segment();
        match merge {
            true => self.runs.write_for_merge(sorted, segment, poll)?,
            false => self.runs.write(sorted, segment, poll)?,
        }
        self.unmerged = merge;
        self.runs.tidy(&[], poll)?;
        // Its memory is used again: new memory costs its clearing.
        if let Some(mut chunk) = Arc::into_inner(chunk) {
            chunk.clear();
            self.chunk = chunk;
        }
        Ok(())
    }

    /// Everything in one list of runs.
    pub fn finish(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if self.unmerged {
            let (_, sorted) = self.take_sorted();
            let segment = self.segment();
            self.unmerged = false;
            return self.runs.write_merged(sorted, segment, poll);
        }
        if !self.chunk.is_empty() {
            let (_, sorted) = self.take_sorted();
            let segment = self.segment();
            self.runs.write(sorted, segment, poll)?;
            self.runs.tidy(&[], poll)?;
        }
        self.chunk = Chunk::default();
        self.runs.merge_all(poll)
    }

    fn take_sorted(&mut self) -> (Arc<Chunk>, MergeInput) {
        let mut chunk = std::mem::take(&mut self.chunk);
        let upto = chunk.len();
        chunk.sort(0, upto);
        let chunk = Arc::new(chunk);
        let sorted = SortedChunk::of(chunk.clone(), 0, upto);
        (chunk, MergeInput::entries(sorted))
    }

    fn segment(&mut self) -> Segment {
        self.written += 1;
        Segment { after: self.written - 1, upto: self.written }
    }
}
