//! The group: the few entries with which a buffer begins, or a chunk.
//!
//! A statement may change thousands of trees by an entry or two each, as an INSERT into a table of a thousand partitions does. A
//! chunk is two kilobytes in six allocations; the first leaf is part of the buffer and allocates its records alone.

use std::ops::Bound;

use frond_base::{EntryRef, Seq, SEQ_MAX};

use crate::write_set::chunk::{Chunk, Place};
use crate::write_set::leaf::Few;

/// See the module.
#[derive(Clone, Copy)]
pub(crate) enum Group<'a> {
    Few(&'a Few),
    Chunk(&'a Chunk),
}

fn slot(slot: usize) -> Place {
    Place { leaf: 0, slot }
}

impl<'a> Group<'a> {
    #[inline]
    pub fn entry(self, p: Place) -> EntryRef<'a> {
        match self {
            Group::Few(few) => few.entry(p.slot),
            Group::Chunk(chunk) => chunk.entry(p),
        }
    }

    #[inline]
    pub fn is_entry(self, p: Place) -> bool {
        match self {
            Group::Few(few) => p.slot < few.len(),
            Group::Chunk(chunk) => chunk.is_entry(p),
        }
    }

    /// The first entry not before (`key`, `seq`), or the end.
    #[inline]
    pub fn find(self, key: &[u8], seq: Seq) -> Place {
        match self {
            Group::Few(few) => slot(few.find(key, seq).0),
            Group::Chunk(chunk) => chunk.find(key, seq),
        }
    }

    #[inline]
    pub fn first(self) -> Place {
        match self {
            Group::Few(_) => slot(0),
            Group::Chunk(chunk) => chunk.first(),
        }
    }

    #[inline]
    pub fn end(self) -> Place {
        match self {
            Group::Few(few) => slot(few.len()),
            Group::Chunk(chunk) => chunk.end(),
        }
    }

    #[inline]
    pub fn next(self, p: Place) -> Place {
        match self {
            Group::Few(_) => slot(p.slot + 1),
            Group::Chunk(chunk) => chunk.next(p),
        }
    }

    /// The entry before `p` (which may be the end), if there is one in this group.
    #[inline]
    pub fn prev(self, p: Place) -> Option<Place> {
        match self {
            Group::Few(_) => p.slot.checked_sub(1).map(slot),
            Group::Chunk(chunk) => chunk.prev(p),
        }
    }

    /// The first entry of a range that begins at `from`, and whether that place is decided in this
    /// group (otherwise it is the group's first entry or its end).
    pub fn lower(self, from: Bound<&[u8]>) -> (Place, bool) {
        let (key, seq) = match from {
            Bound::Unbounded => return (self.first(), false),
            Bound::Included(k) => (k, SEQ_MAX),
            // Sequence 0 sorts last of a key.
            Bound::Excluded(k) => (k, 0),
        };
        if let Group::Chunk(chunk) = self {
            if !chunk.reaches(key, seq) {
                return (self.end(), false);
            }
            if !chunk.lo().at_or_before(key, seq) {
                return (self.first(), false);
            }
        }
        let p = self.find(key, seq);
        let is_key = || self.is_entry(p) && self.entry(p).key == key;
        let step = matches!(from, Bound::Excluded(_)) && is_key();
        (if step { self.next(p) } else { p }, true)
    }

    /// The place after the last entry of a range that ends at `to`, and whether it is decided in this group.
    pub fn upper(self, to: Bound<&[u8]>) -> (Place, bool) {
        match to {
            Bound::Unbounded => (self.end(), false),
            Bound::Included(k) => self.lower(Bound::Excluded(k)),
            Bound::Excluded(k) => self.lower(Bound::Included(k)),
        }
    }

    /// Entries and payload bytes from `from` to `to` (places of this group), leaves cut in
    /// proportion.
    pub fn weigh(self, from: Place, to: Place) -> (u64, u64) {
        match self {
            Group::Few(few) => few.weigh(from.slot, to.slot),
            Group::Chunk(chunk) => chunk.weigh(from, to),
        }
    }

    pub fn payload(self) -> usize {
        match self {
            Group::Few(few) => few.payload(),
            Group::Chunk(chunk) => chunk.payload(),
        }
    }
}
