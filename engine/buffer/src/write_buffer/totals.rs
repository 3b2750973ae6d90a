//! Entries and bytes of all shelves of a buffer.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use crate::write_buffer::shelf::Shelf;

/// The first shelf itself is not counted: an empty buffer has it, too, so no flush gives it back.
/// A thread counts its entries after it has released the latches, so the totals may be too small
/// for a moment, even negative; readers see 0 then.
#[derive(Default)]
pub(crate) struct Totals {
    entries: AtomicI64,
    bytes: AtomicI64,
}

impl Totals {
    pub fn add(&self, t: Tally) {
        self.entries.fetch_add(t.entries, Relaxed);
        self.bytes.fetch_add(t.bytes, Relaxed);
    }

    #[inline]
    pub fn entries(&self) -> u64 {
        self.entries.load(Relaxed).max(0) as u64
    }

    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed).max(0) as u64
    }
}

/// Changes of the totals while one thread works on some shelves.
#[derive(Default)]
pub(crate) struct Tally {
    entries: i64,
    bytes: i64,
}

impl Tally {
    pub fn minus(&mut self, shelf: &Shelf) {
        self.entries -= shelf.entries() as i64;
        self.bytes -= shelf.memory() as i64;
    }

    pub fn plus(&mut self, shelf: &Shelf) {
        self.entries += shelf.entries() as i64;
        self.bytes += shelf.memory() as i64;
    }

    /// Entries and bytes of a backlog before and after it grew.
    pub fn grew(&mut self, before: (usize, usize), after: (usize, usize)) {
        self.entries += (after.0 - before.0) as i64;
        self.bytes += after.1 as i64 - before.1 as i64;
    }
}
