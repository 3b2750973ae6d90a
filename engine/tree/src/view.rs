//! The view: all sources of a tree at one moment, newest first. Readers load it once per operation.
//!
//! Invariant VW1: sources are ranked active buffer, frozen items newest first, trunk. A key's versions
//! in a higher source are newer than, or the same as, its versions in a lower one. They are the
//! same while a frozen item is being flushed. The item stays in the view until its last part is in
//! the trunk, so every view has its entries in the item, in the trunk, or in both.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{Lsn, Readers};
use frond_buffer::WriteBuffer;

use crate::slice::Slice;
use crate::totals::Totals;
use crate::trunk::Trunk;

#[derive(Clone)]
pub(crate) struct View {
    pub active: Arc<Active>,
    /// Newest first.
    pub frozen: Vec<Arc<Frozen>>,
    pub trunk: Arc<Trunk>,
    /// Items that the trunk has taken in as a whole: RWC2.
    pub taken_in: u64,
}

/// The buffer that takes writes, or that took them before it was frozen.
pub(crate) struct Active {
    buffer: WriteBuffer,
    first_lsn: AtomicU64,
}

impl Active {
    pub fn new(readers: &Arc<dyn Readers>) -> Active {
        let buffer = WriteBuffer::read_by(readers.clone());
        Active { buffer, first_lsn: AtomicU64::new(Lsn::MAX) }
    }

    pub fn note_lsn(&self, lsn: Lsn) {
        self.first_lsn.fetch_min(lsn, Ordering::AcqRel);
    }

    /// A read of the cache line that [`Active::note_lsn`] writes.
    #[inline]
    pub fn fetch(&self) -> u64 {
        self.first_lsn.load(Ordering::Relaxed)
    }

    /// Position of the oldest record in the buffer; `Lsn::MAX` when it is empty.
    pub fn first_lsn(&self) -> Lsn {
        self.first_lsn.load(Ordering::Acquire)
    }
}

impl Deref for Active {
    type Target = WriteBuffer;

    #[inline]
    fn deref(&self) -> &WriteBuffer {
        &self.buffer
    }
}

/// A frozen item, which waits to be flushed.
pub(crate) struct Frozen {
    pub content: Content,
    /// All records of the tree that start below this position are in this item, older items or the
    /// trunk.
    pub boundary: Lsn,
    pub first_lsn: Lsn,
    /// Of runs; a buffer counts its own entries.
    pub totals: Totals,
}

pub(crate) enum Content {
    Buffer(Arc<Active>),
    /// Runs built elsewhere: lists, newest first, each ascending and not overlapping.
    Runs(Vec<Arc<[Slice]>>),
}

impl Frozen {
    /// Bytes of memory that flushing it gives back.
    pub fn bytes(&self) -> u64 {
        match &self.content {
            Content::Buffer(buffer) => buffer.bytes() + WriteBuffer::EMPTY_BYTES as u64,
            Content::Runs(_) => 0,
        }
    }
}
