//! Reading a shared buffer: shelf by shelf, under one latch at a time.

use std::ops::Bound;

use frond_base::{EntryKind, EntryRef, Seq, SEQ_MAX};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::batch::{Batch, Scan, Stop};
use crate::fence::Fence;
use crate::weight::Weight;
use crate::write_buffer::buffer::WriteBuffer;
use crate::write_buffer::merged::copy_merged;
use crate::write_buffer::shelf::Shelf;

/// Up to this many entries of a range on one shelf, bytes are added up one by one.
const WEIGHED: usize = 4096;

/// What a reader does with the unsorted entries of a shelf.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unsorted {
    /// Searches them.
    Any,
    /// Searches them if that costs little; otherwise has them sorted.
    Cheap,
    /// Has them sorted.
    None,
}

impl WriteBuffer {
    /// Takes the latch of a shelf for reading; sorts the unsorted entries first if `unsorted` does
    /// not allow them.
    fn read_indexed<'s>(
        &self,
        latch: &'s RwLock<Shelf>,
        unsorted: Unsorted,
    ) -> RwLockReadGuard<'s, Shelf> {
        let read = latch.read();
        let fine = match unsorted {
            Unsorted::Any => true,
            Unsorted::Cheap => read.log().may_look(),
            Unsorted::None => read.log().unsorted() == 0,
        };
        if fine {
            return read;
        }
        drop(read);
        let mut write = latch.write();
        self.change(&mut write, Shelf::index);
        RwLockWriteGuard::downgrade(write)
    }

    /// Releases a latch, and tidies the shelf if that is due.
    fn leave(&self, latch: &RwLock<Shelf>, shelf: RwLockReadGuard<'_, Shelf>) {
        let due = shelf.is_to_be_tidied();
        drop(shelf);
        if due && !self.is_frozen() {
            self.tidy(latch);
        }
    }

    /// Calls `read` on shelves from the one that holds (`key`, `seq`) to the right, as long as it
    /// returns true.
    fn walk_right(
        &self,
        key: &[u8],
        seq: Seq,
        unsorted: Unsorted,
        mut read: impl FnMut(&Shelf) -> bool,
    ) {
        let mut at: Option<Fence> = None;
        loop {
            let (key, seq) = at.as_ref().map_or((key, seq), |f| (&*f.key, f.seq));
            let directory = self.directory();
            let latch = match directory.get() {
                None => self.leftmost(),
                Some(d) => &d.shelves[d.router.route(key, seq)],
            };
            let shelf = self.read_indexed(latch, unsorted);
            if !shelf.span().reaches(key, seq) {
                continue; // split meanwhile (BU3)
            }
            let goes_on = read(&shelf);
            let hi = shelf.span().hi().filter(|_| goes_on).cloned();
            self.leave(latch, shelf);
            match hi {
                Some(hi) => at = Some(hi),
                None => return,
            }
        }
    }

    /// Calls `read` on shelves from the one that holds (`key`, `seq`), or the last, to the left, as
    /// long as it returns true.
    fn walk_left(
        &self,
        from: Option<(&[u8], Seq)>,
        unsorted: Unsorted,
        mut read: impl FnMut(&Shelf) -> bool,
    ) {
        // Not an Option: optimised, the end of one looks at a length that may not be there, which valgrind reports.
        let (mut below, mut is_first) = (Fence::leftmost(), true);
        loop {
            let directory = self.directory();
            let directory = directory.get();
            let route = |key, seq| directory.map_or(0, |d| d.router.route(key, seq));
            let no = match from {
                // The shelf that ends at the fence: one before the shelf that begins there.
                _ if !is_first => match route(&below.key, below.seq).checked_sub(1) {
                    Some(no) => no,
                    None => return,
                },
                Some((key, seq)) => route(key, seq),
                None => directory.map_or(0, |d| d.shelves.len() - 1),
            };
            let latch = directory.map_or(self.leftmost(), |d| &d.shelves[no]);
            let shelf = self.read_indexed(latch, unsorted);
            let current = match from {
                _ if !is_first => shelf.span().hi() == Some(&below),
                Some((key, seq)) => shelf.span().reaches(key, seq),
                None => shelf.span().hi().is_none(),
            };
            if !current {
                continue; // split meanwhile (BU3)
            }
            let goes_on = read(&shelf);
            below.clone_from(shelf.span().lo());
            is_first = false;
            self.leave(latch, shelf);
            if !goes_on {
                return;
            }
        }
    }

    fn find<T>(&self, key: &[u8], at: Seq, found: impl FnOnce(EntryRef<'_>) -> T) -> Option<T> {
        let mut found = Some(found);
        let mut result = None;
        self.walk_right(key, at, Unsorted::Cheap, |shelf| match shelf.get(key, at) {
            Some(e) => {
                result = found.take().map(|f| f(e));
                false
            }
            // Versions of a key may be divided between shelves (BU2).
            None => shelf.span().ends_within(key),
        });
        result
    }

    /// The newest version of `key` at or before `at`; its value is appended to `out`.
    pub fn get(&self, key: &[u8], at: Seq, out: &mut Vec<u8>) -> Option<(Seq, EntryKind)> {
        self.find(key, at, |e| {
            out.extend_from_slice(e.value);
            (e.seq, e.kind)
        })
    }

    /// Sequence and kind of the newest version of `key`.
    pub fn newest(&self, key: &[u8]) -> Option<(Seq, EntryKind)> {
        self.find(key, SEQ_MAX, |e| (e.seq, e.kind))
    }

    /// Fills `batch` with the entries that `scan` asks for, in key order. Entries inserted meanwhile
    /// may or may not be among them.
    pub fn scan_forward(&self, scan: &Scan<'_>, batch: &mut Batch) {
        batch.clear();
        let (key, seq) = match scan.from {
            Bound::Unbounded => (&[][..], SEQ_MAX),
            Bound::Included(k) => (k, SEQ_MAX),
            Bound::Excluded(k) => (k, 0),
        };
        let mut stop = Stop::Unsorted;
        for unsorted in [Unsorted::Cheap, Unsorted::None] {
            self.walk_right(key, seq, unsorted, |shelf| {
                stop = copy_merged(shelf, scan.from, scan, batch, false);
                stop == Stop::Edge
            });
            if stop != Stop::Unsorted {
                break;
            }
        }
        batch.finish(stop != Stop::Full, false, scan.versions);
    }

    /// Fills `batch` with the entries that `scan` asks for, in reverse key order.
    pub fn scan_backward(&self, scan: &Scan<'_>, batch: &mut Batch) {
        batch.clear();
        let from = match scan.from {
            Bound::Unbounded => None,
            Bound::Included(k) => Some((k, 0)),
            Bound::Excluded(k) => Some((k, SEQ_MAX)),
        };
        let mut stop = Stop::Unsorted;
        for unsorted in [Unsorted::Cheap, Unsorted::None] {
            self.walk_left(from, unsorted, |shelf| {
                stop = copy_merged(shelf, scan.from, scan, batch, true);
                stop == Stop::Edge
            });
            if stop != Stop::Unsorted {
                break;
            }
        }
        batch.finish(stop != Stop::Full, true, scan.versions);
    }

    /// Entries and bytes of a key range; the bytes of many entries, and those of a buffer that still
    /// changes, are estimated.
    pub fn weight(&self, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> Weight {
        let (key, seq) = match lo {
            Bound::Unbounded => (&[][..], SEQ_MAX),
            Bound::Included(k) => (k, SEQ_MAX),
            Bound::Excluded(k) => (k, 0),
        };
        // A flush needs good figures; an estimate for a query only reads the records of unsorted entries.
        let exact = if self.is_frozen() { WEIGHED } else { 0 };
        let mut w = Weight::default();
        self.walk_right(key, seq, Unsorted::Any, |shelf| {
            w.add(shelf.weigh(lo, hi, exact));
            !shelf.span().ends(hi)
        });
        w
    }

    /// Samples how the keys are distributed: calls `f` with the keys of about `most` entries, at
    /// least one of each sorted or unsorted list, and the number of entries for which each key
    /// stands: itself and those behind it in its list. The numbers add up to all entries of a
    /// buffer that does not change.
    pub fn sample(&self, most: usize, f: &mut dyn FnMut(&[u8], u64)) {
        let directory = self.whole_directory();
        let entries: usize = directory.shelves.iter().map(|s| s.read().entries()).sum();
        let step = entries.div_ceil(most.max(1)).max(1);
        directory.shelves.iter().for_each(|shelf| shelf.read().sample(step, f));
    }
}
