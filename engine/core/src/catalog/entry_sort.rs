//! Sorting the entries of an index in bounded memory: chunks in memory, each written as a private run.

use frond_base::Result;
use frond_run::MergeInput;
use frond_tree::{PrivateRuns, Segment};

use crate::table::chunk::Chunk;

/// The entries of one tree, in a chunk and in runs that no trunk names yet.
pub(crate) struct EntrySort {
    pub chunk: Chunk,
    pub runs: PrivateRuns,
    written: u64,
}

impl EntrySort {
    pub fn new(runs: PrivateRuns) -> EntrySort {
        EntrySort { chunk: Chunk::default(), runs, written: 0 }
    }

    /// Writes the chunk out.
    pub fn write(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let sorted = std::mem::take(&mut self.chunk).sorted();
        let segment = Segment { after: self.written, upto: self.written + 1 };
        self.written += 1;
        self.runs.write(MergeInput::entries(sorted), segment, poll)?;
        self.runs.tidy(&[], poll)
    }

    /// Everything in one list of runs.
    pub fn finish(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.write(poll)?;
        self.runs.merge_all(poll)
    }
}
