//! Iteration over a frozen buffer: owned, so that a flush can be put aside between its steps.

use std::ops::Bound;
use std::sync::Arc;

use frond_base::{EntryRef, EntrySource, Result, SEQ_MAX};

use crate::write_buffer::base::Base;
use crate::write_buffer::directory::Directory;

/// Entries whose records are fetched at the same time.
const AHEAD: usize = 32;

/// The entries of a key range of a frozen [`crate::WriteBuffer`], in order, all versions. It keeps the
/// buffer's memory alive.
pub struct FrozenScan {
    directory: Arc<Directory>,
    no: usize,
    base: Arc<Base>,
    at: usize,
    end: usize,
    /// Records before this one have been prefetched.
    fetched: usize,
    hi: Bound<Box<[u8]>>,
    /// The end of the range lies in this shelf.
    last: bool,
}

impl FrozenScan {
    /// A scan of a key range. All shelves of `directory` are settled.
    pub(crate) fn new(directory: Arc<Directory>, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> FrozenScan {
        let no = match lo {
            Bound::Unbounded => 0,
            Bound::Included(k) => directory.router.route(k, SEQ_MAX),
            Bound::Excluded(k) => directory.router.route(k, 0),
        };
        let shelf = directory.shelves[no].read();
        let base = shelf.base().clone();
        let last = shelf.span().ends(hi);
        drop(shelf);
        let (at, end) = base.range(lo, hi);
        let hi = hi.map(Box::from);
        let mut scan = FrozenScan { directory, no, base, at, end, fetched: at, hi, last };
        scan.settle();
        scan
    }

    /// Moves on to the next shelf while there is nothing left in this one.
    fn settle(&mut self) {
        while self.at >= self.end && !self.last && self.no + 1 < self.directory.shelves.len() {
            self.no += 1;
            let shelf = self.directory.shelves[self.no].read();
            let hi = self.hi.as_ref().map(|k| &**k);
            self.base = shelf.base().clone();
            self.last = shelf.span().ends(hi);
            (self.at, self.end) = self.base.range(Bound::Unbounded, hi);
            self.fetched = 0;
        }
        if self.at >= self.fetched {
            self.fetched = self.at + AHEAD;
            self.base.fetch(self.at, self.fetched);
        }
    }
}

impl EntrySource for FrozenScan {
    #[inline]
    fn valid(&self) -> bool {
        self.at < self.end
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        self.base.entry(self.at)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        if self.at >= self.fetched || self.at >= self.end {
            self.settle();
        }
        Ok(())
    }
}
