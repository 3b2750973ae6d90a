//! Iteration over a frozen buffer: owned, so that a flush can be put aside between its steps.

use std::ops::Bound;
use std::sync::Arc;

use frond_base::{EntryRef, EntrySource, Result, SEQ_MAX};
use parking_lot::lock_api::ArcRwLockReadGuard;
use parking_lot::{RawRwLock, RwLock};

use crate::chunk::Place;
use crate::shared::Directory;
use crate::shelf::Shelf;

/// The entries of a key range of a frozen [`crate::WriteBuffer`], in order, all versions. It keeps
/// the buffer's memory alive, and holds the read latch of the chunk it stands in: nobody writes.
pub struct FrozenScan {
    directory: Arc<Directory>,
    no: usize,
    shelf: ArcRwLockReadGuard<RawRwLock, Shelf>,
    place: Place,
    end: Place,
    hi: Bound<Box<[u8]>>,
    /// The end of the range lies in this chunk.
    last: bool,
}

impl FrozenScan {
    pub(crate) fn new(directory: Arc<Directory>, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> FrozenScan {
        let no = match lo {
            Bound::Unbounded => 0,
            Bound::Included(k) => directory.router.route(k, SEQ_MAX),
            Bound::Excluded(k) => directory.router.route(k, 0),
        };
        let shelf = RwLock::read_arc(&directory.chunks[no]);
        let (place, _) = shelf.chunk.lower(lo);
        let (end, last) = shelf.chunk.upper(hi);
        let hi = hi.map(Box::from);
        let mut scan = FrozenScan { directory, no, shelf, place, end, hi, last };
        scan.settle();
        scan
    }

    /// Moves on to the next chunk while there is nothing left in this one.
    fn settle(&mut self) {
        while !self.valid() && !self.last && self.no + 1 < self.directory.chunks.len() {
            self.no += 1;
            self.shelf = RwLock::read_arc(&self.directory.chunks[self.no]);
            self.place = self.shelf.chunk.first();
            (self.end, self.last) = self.shelf.chunk.upper(self.hi.as_ref().map(|k| &**k));
        }
    }
}

impl EntrySource for FrozenScan {
    #[inline]
    fn valid(&self) -> bool {
        self.place < self.end && self.shelf.chunk.is_entry(self.place)
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        self.shelf.chunk.entry(self.place)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.place = self.shelf.chunk.next(self.place);
        if !self.valid() {
            self.settle();
        }
        Ok(())
    }
}
