//! The row cache as a tree uses it: it keeps the result of looking a key up in the trunk, for the
//! next reader.
//!
//! A cached row is the newest version that the trunk has of its key, or that it has none. Merges, flushes and
//! splits do not change that: they drop a version only below a newer one, and a deletion only when
//! nobody sees what is below it. It changes when a frozen item is taken in. So the job that pushes
//! the item goes over the item's keys once, before its last edit, and updates each cached row to
//! its new version (`row_cache.rs`). Writers and commits do nothing.
//!
//! - RWC1. Before a view without the item is published, the rows of all its keys are current.
//!   Readers of older views search the item first and find its versions there. A reader whose
//!   snapshot does not see the item's version of a key does not use the cached row either: the
//!   row's sequence is above its snapshot.
//! - RWC2. `told` counts the items whose keys a job has gone over, or is going over; `View::taken_in` counts the items
//!   that the view's trunk has as a whole. A reader admits a row only when `told` equals the
//!   `taken_in` of its own view; it compares them under the latch that a job needs to change the
//!   row. Then no job has gone over an item since it looked.
//! - RWC3. A reader that skipped a version which its snapshot does not see admits no row: what it
//!   found is not the newest version.
//! - RWC4. A reader sets `used` before it admits a row; a job reads `used` after it has set `told`, both sequentially
//!   consistent. So a job may skip the items of a tree without rows, and no row slips in.
//!
//! The keys of attached runs are in their pages alone, so all rows within the ranges of these runs are dropped.
//! When runs are put below the tree, all rows are dropped.
//!
//! Rejected: rows that carry the newest run on their path and are checked at each look-up (every flush
//! makes each reader of the range look into a run without filter, and a hit walks the trunk); writers
//! that drop rows at commit (they would pay at once, and hold up readers, for what one job does in bulk).
//! See docs/rfcs/0012-row-cache.md.
//!
//! Tested in `tests/it/rows.rs`, and by `Tree::check` wherever it is called.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use frond_base::{EntryKind, Seq};

use crate::store::RunStore;

/// A tree's state for the row cache.
pub(crate) struct Rows {
    /// This tree's number in the cache.
    pub number: u32,
    pub used: AtomicBool,
    pub told: AtomicU64,
}

/// What a look-up has met.
#[derive(Default)]
pub(crate) struct Trace {
    /// A page was read from the file.
    pub read: bool,
    /// A version was passed over, or a run not looked into, because the snapshot does not see it.
    pub passed: bool,
}

/// What is known of a key: sequence and kind of its newest version.
pub(crate) type Found = Option<(Seq, EntryKind)>;

impl Rows {
    pub fn new(store: &dyn RunStore) -> Rows {
        let number = store.rows().map_or(0, |rows| rows.new_tree());
        Rows { number, used: AtomicBool::new(false), told: AtomicU64::new(0) }
    }

    /// Whether jobs have gone over exactly the items up to number `item` (RWC2).
    pub fn told(&self, item: u64) -> bool {
        self.told_now() == item
    }

    pub fn told_now(&self) -> u64 {
        self.told.load(Ordering::SeqCst)
    }

    pub fn may_have(&self) -> bool {
        self.used.load(Ordering::SeqCst)
    }
}
