//! Counts the pages that a thread reads, between `begin` and `end`: the cost of a statement's
//! reads.
//!
//! While nobody counts, a page costs one load of a variable that does not change. What background threads read is not
//! counted: only threads that asked are.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Pages that a thread has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// All, wherever they came from.
    pub accessed: u64,
    /// Read from the file, fences of runs among them.
    pub from_file: u64,
    /// Taken from what was read ahead with an earlier page.
    pub read_ahead: u64,
    /// The time that reading from the file took.
    pub time: Duration,
}

/// Threads that count now.
static COUNTING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static COUNTS: Cell<Option<ReadCounts>> = const { Cell::new(None) };
}

/// Begins to count what this thread reads. False: it counts already, and the call has no effect.
pub fn begin() -> bool {
    let begins = COUNTS.get().is_none();
    if begins {
        COUNTS.set(Some(ReadCounts::default()));
        COUNTING.fetch_add(1, Ordering::Relaxed);
    }
    begins
}

/// Ends counting; returns what this thread has read since [`begin`].
pub fn end() -> ReadCounts {
    let Some(counts) = COUNTS.take() else { return ReadCounts::default() };
    COUNTING.fetch_sub(1, Ordering::Relaxed);
    counts
}

/// Whether this thread counts.
#[inline]
pub(crate) fn is_counting() -> bool {
    COUNTING.load(Ordering::Relaxed) > 0 && COUNTS.get().is_some()
}

/// Changes the counts, if this thread counts.
#[inline]
pub(crate) fn count(change: impl FnOnce(&mut ReadCounts)) {
    if COUNTING.load(Ordering::Relaxed) == 0 {
        return;
    }
    if let Some(mut counts) = COUNTS.get() {
        change(&mut counts);
        COUNTS.set(Some(counts));
    }
}
