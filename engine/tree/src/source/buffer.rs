//! A write buffer as a source: read in batches, so that no latch is held between calls.
//!
//! The first batch after a seek has as many entries as the walk before it took: many seeks in a row are of one
//! kind, such as the values of an IN list, or ranges of similar length. Copying an entry that nobody takes
//! costs as much as a good part of finding one. Batches grow while a scan goes on in one direction. A batch holds
//! one version per key, as the buffer resolves them.

use std::ops::Bound;
use std::sync::Arc;

use frond_base::{EntryKind, Result, Seq};
use frond_buffer::{Batch, Scan, Versions};

use super::{Walk, FIRST_BATCH};
use crate::view::Active;

/// Most entries of a batch. Those after the second one after a seek grow up to this.
const MAX_BATCH: usize = 512;
/// Entries of the first batch after a seek: the one that is asked for and the one that ends a search, at least; at most
/// what is not too much when this walk is a short one.
const LEARNED: std::ops::RangeInclusive<usize> = 2..=128;
const MAX_BATCH_BYTES: usize = 64 << 10;

/// A write buffer, read in batches, so that no latch is held between calls.
pub(crate) struct BufferSource {
    buffer: Arc<Active>,
    pub(super) batch: Batch,
    pub(super) at: usize,
    size: usize,
    /// Entries of the batches before this one since the last seek.
    passed: usize,
}

impl BufferSource {
    /// A source that uses the memory of `batch` for its batches.
    pub fn new(buffer: Arc<Active>, mut batch: Batch) -> BufferSource {
        batch.clear();
        BufferSource { buffer, batch, at: 0, size: FIRST_BATCH, passed: 0 }
    }

    /// Forward: the position in the batch up to which keys are below `rival`.
    pub fn alone_up_to(&self, rival: Option<&[u8]>) -> usize {
        let Some(rival) = rival else { return self.batch.len() };
        let (mut from, mut to) = (self.at + 1, self.batch.len());
        // It is near in most cases: entries of buffers are between those of runs.
        let mut reach = 0;
        while from < to {
            let at = (from + reach).min(from + (to - from) / 2);
            match self.batch.key(at) < rival {
                true => (from, reach) = (at + 1, 2 * reach + 1),
                false => (to, reach) = (at, to),
            }
        }
        from
    }

    /// Goes to the next entry if that is a row in the batch before position `limit` (of
    /// [`Self::alone_up_to`]); otherwise does nothing and returns false.
    #[inline]
    pub fn glide(&mut self, limit: usize, key: &mut Vec<u8>, seq: &mut Seq) -> bool {
        let at = self.at + 1;
        if at >= limit {
            return false;
        }
        let entry = self.batch.entry(at);
        if entry.kind != EntryKind::Put {
            return false;
        }
        key.clear();
        key.extend_from_slice(entry.key);
        *seq = entry.seq;
        self.at = at;
        true
    }

    pub fn into_batch(self) -> Batch {
        self.batch
    }

    /// Entries that the walk since the last seek has come to.
    pub fn taken(&self) -> usize {
        self.passed + self.batch.len().min(self.at + 1)
    }

    pub(super) fn seek(&mut self, walk: &mut Walk, from: Option<&[u8]>) -> Result<bool> {
        self.size = walk.taken.clamp(*LEARNED.start(), *LEARNED.end());
        self.passed = 0;
        let from = match (walk.forward, from) {
            (true, Some(key)) => Bound::Included(key),
            (false, Some(key)) => Bound::Excluded(key),
            (_, None) => Bound::Unbounded,
        };
        self.fill(walk, from)
    }

    fn fill(&mut self, walk: &mut Walk, from: Bound<&[u8]>) -> Result<bool> {
        let to = match (walk.forward, &walk.hi) {
            (true, Some(hi)) => Bound::Excluded(&hi[..]),
            (true, None) => Bound::Unbounded,
            (false, _) => Bound::Included(&walk.lo[..]),
        };
        let scan = Scan {
            from,
            to,
            versions: Versions::VisibleAt(walk.at),
            max_entries: self.size,
            max_bytes: MAX_BATCH_BYTES,
        };
        if walk.forward {
            self.buffer.scan_forward(&scan, &mut self.batch);
        } else {
            self.buffer.scan_backward(&scan, &mut self.batch);
        }
        self.at = 0;
        walk.refills += 1;
        walk.examine(self.batch.len() as u64)?;
        Ok(!self.batch.is_empty())
    }

    pub(super) fn advance(&mut self, walk: &mut Walk) -> Result<bool> {
        if self.at + 1 < self.batch.len() {
            self.at += 1;
            return Ok(true);
        }
        if self.batch.exhausted() {
            return Ok(false);
        }
        // A walk that is a little longer than the one before needs little more.
        self.size = match self.passed {
            0 => (self.size / 4).max(FIRST_BATCH),
            _ => (self.size * 2).min(MAX_BATCH),
        };
        self.passed += self.batch.len();
        let mut batch = std::mem::take(&mut self.batch);
        let last = batch.last_key().map(<[u8]>::to_vec);
        batch.clear();
        self.batch = batch;
        match last {
            Some(key) => self.fill(walk, Bound::Excluded(&key)),
            None => Ok(false),
        }
    }
}
