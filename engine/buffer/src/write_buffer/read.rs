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

/// Entries of a range on one shelf whose bytes are added up one by one.
const WEIGHED: usize = 4096;

/// What a reader does with entries of a shelf that are in no order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// Looks through them.
    Any,
    /// Looks through them if that costs little.
    Cheap,
    /// Has them sorted.
    None,
}

impl WriteBuffer {
    /// The latch of a shelf that has entries in no order only as far as `tail` says.
    fn read_indexed<'s>(&self, latch: &'s RwLock<Shelf>, tail: Tail) -> RwLockReadGuard<'s, Shelf> {
        let read = latch.read();
        let fine = match tail {
            Tail::Any => true,
            Tail::Cheap => read.log().may_look(),
            Tail::None => read.log().tail() == 0,
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

    /// Calls `read` on shelves from the one that holds (`key`, `seq`) on to the right, for as long
    /// as it returns true.
    fn walk_right(&self, key: &[u8], seq: Seq, tail: Tail, mut read: impl FnMut(&Shelf) -> bool) {
        let mut at: Option<Fence> = None;
        loop {
            let (key, seq) = at.as_ref().map_or((key, seq), |f| (&*f.key, f.seq));
            let directory = self.directory();
            let no = directory.router.route(key, seq);
            let shelf = self.read_indexed(&directory.shelves[no], tail);
            if !shelf.span().reaches(key, seq) {
                continue; // split meanwhile (invariant 3)
            }
            let goes_on = read(&shelf);
            let hi = shelf.span().hi().filter(|_| goes_on).cloned();
            self.leave(&directory.shelves[no], shelf);
            match hi {
                Some(hi) => at = Some(hi),
                None => return,
            }
        }
    }

    /// Calls `read` on shelves from the one that holds (`key`, `seq`), or the last, on to the left,
    /// for as long as it returns true.
    fn walk_left(
        &self,
        from: Option<(&[u8], Seq)>,
        tail: Tail,
        mut read: impl FnMut(&Shelf) -> bool,
    ) {
        let mut below: Option<Fence> = None;
        loop {
            let directory = self.directory();
            let no = match (&below, from) {
                // The shelf that ends at the fence: one before the shelf that begins there.
                (Some(f), _) => match directory.router.route(&f.key, f.seq).checked_sub(1) {
                    Some(no) => no,
                    None => return,
                },
                (None, Some((key, seq))) => directory.router.route(key, seq),
                (None, None) => directory.shelves.len() - 1,
            };
            let shelf = self.read_indexed(&directory.shelves[no], tail);
            let current = match (&below, from) {
                (Some(f), _) => shelf.span().hi() == Some(f),
                (None, Some((key, seq))) => shelf.span().reaches(key, seq),
                (None, None) => shelf.span().hi().is_none(),
            };
            if !current {
                continue; // split meanwhile (invariant 3)
            }
            let goes_on = read(&shelf);
            below = Some(shelf.span().lo().clone());
            self.leave(&directory.shelves[no], shelf);
            if !goes_on {
                return;
            }
        }
    }

    fn find<T>(&self, key: &[u8], at: Seq, found: impl FnOnce(EntryRef<'_>) -> T) -> Option<T> {
        let mut found = Some(found);
        let mut result = None;
        self.walk_right(key, at, Tail::Cheap, |shelf| match shelf.get(key, at) {
            Some(e) => {
                result = found.take().map(|f| f(e));
                false
            }
            // Versions of a key may be divided between shelves (invariant 2).
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
        for tail in [Tail::Cheap, Tail::None] {
            self.walk_right(key, seq, tail, |shelf| {
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
        for tail in [Tail::Cheap, Tail::None] {
            self.walk_left(from, tail, |shelf| {
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
        // What is flushed is weighed well; an estimate for a query reads the records that are in no order alone.
        let exact = if self.is_frozen() { WEIGHED } else { 0 };
        let mut w = Weight::default();
        self.walk_right(key, seq, Tail::Any, |shelf| {
            w.add(shelf.weigh(lo, hi, exact));
            !shelf.span().ends(hi)
        });
        w
    }

    /// Calls `f` with the keys of about `most` entries or of one of each array, if those are more, and how many
    /// entries each stands for: it and those behind it in its array. For who wants to know where the
    /// entries lie, about. The numbers add up to all entries of a buffer that does not change.
    pub fn sample(&self, most: usize, f: &mut dyn FnMut(&[u8], u64)) {
        let directory = self.directory();
        let entries: usize = directory.shelves.iter().map(|s| s.read().entries()).sum();
        let step = entries.div_ceil(most.max(1)).max(1);
        directory.shelves.iter().for_each(|shelf| shelf.read().sample(step, f));
    }
}
