//! How often a shelf was read since its base was made: sorting pays for a shelf that is only read.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A shelf is tidied when scans have copied one in this many of its entries, and at least this
/// number. Gathering an entry costs a third of what a scan pays for an entry that lies apart.
const SCANNED: usize = 8;
const LEAST_SCANNED: usize = 512;
/// Single reads, and searches of scans, make its backlog go down after one for this many entries, and at least this number.
const GETS: usize = 32;
const LEAST_GETS: usize = 128;

#[derive(Default)]
pub(crate) struct ReadCount {
    /// Entries that scans have copied.
    scanned: AtomicUsize,
    /// Single reads, and searches of scans, that looked into more than the base.
    gets: AtomicUsize,
}

impl ReadCount {
    #[inline]
    pub fn note_scan(&self, n: usize) {
        self.scanned.fetch_add(n, Relaxed);
    }

    #[inline]
    pub fn note_get(&self) {
        self.gets.fetch_add(1, Relaxed);
    }

    /// Whether scans have copied many of `entries`.
    #[inline]
    pub fn are_many_scans(&self, entries: usize) -> bool {
        let scanned = self.scanned.load(Relaxed);
        scanned > LEAST_SCANNED && scanned > entries / SCANNED
    }

    /// Whether there were many single reads for a base of `entries`.
    #[inline]
    pub fn are_many_gets(&self, entries: usize) -> bool {
        let gets = self.gets.load(Relaxed);
        gets > LEAST_GETS && gets > entries / GETS
    }
}
