//! Cuts a stream of entries into runs: by size, at given keys, or both.
//!
//! All versions of a key go into one run (RN3 in `lib.rs`), so a run may exceed the target by
//! the versions of its last key.

use frond_base::{key_head, BlockId, EntryKind, EntryRef, Seq, TableId};
use frond_vfs::AlignedBuf;

use crate::batch::Batch;
use crate::builder::{BuiltRun, RunBuilder};
use crate::format::{RunFormat, RunIdentity};

/// Where to cut.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// A run ends at the first new key after it has this many encoded bytes; `u64::MAX`: never.
    pub target_bytes: u64,
    /// A run ends before the first key that is not below one of these; ascending.
    pub boundaries: Vec<Box<[u8]>>,
}

/// A finished run, and between which boundaries it lies.
pub struct CutRun {
    /// Number of boundaries that are not above the run's keys: the child's position in a node.
    pub slot: usize,
    pub run: BuiltRun,
}

/// Builds runs one after the other.
pub struct RunCutter {
    format: RunFormat,
    table: TableId,
    cut: Cut,
    next_block: Box<dyn FnMut() -> BlockId + Send>,
    builder: Option<RunBuilder>,
    slot: usize,
    /// Head of the next boundary: keys with smaller heads need no comparison with boundaries.
    limit: u64,
    /// The run has reached its size; it ends after the versions of its last key.
    full: bool,
    closed_pages: u32,
    finished: Vec<CutRun>,
    scratch: Vec<u8>,
    /// Memory for the next run, of one that is stored.
    spare: AlignedBuf,
}

impl RunCutter {
    /// `next_block` gives the block of each run when its first entry comes.
    pub fn new(
        format: &RunFormat,
        table: TableId,
        cut: Cut,
        next_block: Box<dyn FnMut() -> BlockId + Send>,
    ) -> RunCutter {
        assert!(cut.boundaries.is_sorted(), "boundaries ascend");
        let limit = cut.boundaries.first().map_or(u64::MAX, |b| key_head(b));
        RunCutter {
            format: *format,
            table,
            cut,
            next_block,
            builder: None,
            slot: 0,
            limit,
            full: false,
            closed_pages: 0,
            finished: Vec::new(),
            scratch: Vec::new(),
            spare: AlignedBuf::new(),
        }
    }

    pub(crate) fn format(&self) -> &RunFormat {
        &self.format
    }

    /// Adds an entry; entries come in source order over the whole stream.
    pub fn push(&mut self, e: EntryRef<'_>) {
        let same_key = self.builder.as_ref().is_some_and(|b| {
            self.full && {
                b.last_key(&mut self.scratch);
                self.scratch == e.key
            }
        });
        self.turn(e.key, same_key);
        self.open().push(e);
        self.look_at_size();
    }

    /// Adds entry `i` of a bare batch, which is the first of its key; as [`Self::push_entry`].
    #[inline]
    pub(crate) fn push_bare<const W: usize>(&mut self, batch: &Batch<W>, i: usize) {
        let head = &batch.heads[i];
        match &mut self.builder {
            Some(builder)
                if head[0] < self.limit
                    && !self.full
                    && batch.uniform == builder.fixed_key_bytes() =>
            {
                builder.push_words(head, 0, EntryKind::Put, &[]);
                self.look_at_size();
            }
            _ => self.push_entry(batch, i, 0, false),
        }
    }

    /// Adds entry `i` of `batch` with sequence `seq`. The caller vouches for order; `same_key`: it
    /// is an older version of the key before.
    #[inline]
    pub(crate) fn push_entry<const W: usize>(
        &mut self,
        batch: &Batch<W>,
        i: usize,
        seq: Seq,
        same_key: bool,
    ) {
        let head = &batch.heads[i];
        if head[0] >= self.limit || self.full || self.builder.is_none() {
            let mut key = std::mem::take(&mut self.scratch);
            batch.key_into(i, &mut key);
            self.turn(&key, same_key);
            self.scratch = key;
        }
        let (kind, value) = (batch.kind(i), batch.value(i));
        let builder = self.open();
        if batch.uniform != 0 && batch.uniform == builder.fixed_key_bytes() {
            builder.push_words(head, seq, kind, value);
        } else if batch.uniform == 0 {
            builder.push_in_order(EntryRef { key: batch.long_key(i), seq, kind, value });
        } else {
            let mut key = std::mem::take(&mut self.scratch);
            batch.key_into(i, &mut key);
            self.open().push_in_order(EntryRef { key: &key, seq, kind, value });
            self.scratch = key;
        }
        self.look_at_size();
    }

    #[inline]
    fn open(&mut self) -> &mut RunBuilder {
        self.builder.get_or_insert_with(|| {
            self.closed_pages = 0;
            let id = RunIdentity { table: self.table, block: (self.next_block)() };
            RunBuilder::with_buffer(&self.format, id, std::mem::take(&mut self.spare))
        })
    }

    #[inline]
    fn look_at_size(&mut self) {
        let Some(builder) = &self.builder else { return };
        if builder.closed_pages() != self.closed_pages {
            self.closed_pages = builder.closed_pages();
            self.full = builder.encoded_bytes() >= self.cut.target_bytes;
        }
    }

    /// Ends the current run if `key` does not belong to it.
    fn turn(&mut self, key: &[u8], same_key: bool) {
        let before = self.slot;
        let boundaries = &self.cut.boundaries;
        let beyond = boundaries[before..].partition_point(|b| **b <= *key);
        assert!(beyond == 0 || !same_key, "a boundary between two versions of a key (RN3)");
        if beyond > 0 || (self.full && !same_key) {
            self.close();
            self.slot = before + beyond;
        }
        self.limit = self.cut.boundaries.get(self.slot).map_or(u64::MAX, |b| key_head(b));
    }

    fn close(&mut self) {
        self.full = false;
        if let Some(builder) = self.builder.take() {
            self.finished.push(CutRun { slot: self.slot, run: builder.finish() });
        }
    }

    /// Ends the last run. More entries may still follow, into a new one.
    pub fn finish(&mut self) {
        self.close();
    }

    /// The runs finished since the last call, in key order.
    pub fn take_finished(&mut self) -> Vec<CutRun> {
        std::mem::take(&mut self.finished)
    }

    /// The memory of a run that is stored serves the next one.
    pub fn reuse(&mut self, bytes: AlignedBuf) {
        if bytes.capacity() > self.spare.capacity() {
            self.spare = bytes;
        }
    }

    /// What [`Self::reuse`] was given and no run has taken.
    pub fn take_spare(&mut self) -> AlignedBuf {
        std::mem::take(&mut self.spare)
    }
}
