//! Range locks of one owner, and how writers find out whether any range is locked.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result, TreeId};

use crate::key_range::KeyRange;
use crate::lock_table::{LockTable, WaitAt};
use crate::lock_wait::{interrupted, Owner, OwnerHandle, Park};
use crate::locker::full;
use crate::range_table::RangeTable;
use crate::{Granted, LockMode, Locker, RowMode, Wait};

impl LockTable {
    /// Whether any reader has locked a range, or waits for one. One relaxed load.
    #[inline]
    pub fn has_readers(&self) -> bool {
        self.range_readers.load(Relaxed) != 0
    }

    /// Grants a writer's lock on `range` to an owner that is not running, whatever locks others
    /// hold: it wrote there before they came. Readers that hold a part of the range wait for it when they ask again.
    pub fn impose(&self, owner: &OwnerHandle, tree: TreeId, range: KeyRange) {
        self.change_ranges(|ranges| {
            if !ranges.is_held(tree, owner.id(), &range, LockMode::IX) {
                ranges.add(tree, &owner.0, range, LockMode::IX, true);
                ranges.overtake(tree);
            }
        });
    }

    pub(crate) fn change_ranges<R>(&self, change: impl FnOnce(&mut RangeTable) -> R) -> R {
        let mut ranges = self.ranges.lock();
        self.change_locked_ranges(&mut ranges, change)
    }

    /// Changes the ranges, and keeps what others read of them up to date.
    fn change_locked_ranges<R>(
        &self,
        ranges: &mut RangeTable,
        change: impl FnOnce(&mut RangeTable) -> R,
    ) -> R {
        let before = ranges.bytes();
        let result = change(ranges);
        match ranges.bytes().checked_sub(before) {
            Some(more) => _ = self.charge(more, false),
            None => self.refund(before - ranges.bytes()),
        }
        self.range_readers.store(ranges.readers(), SeqCst);
        result
    }

    pub(crate) fn release_ranges(&self, owner: &Owner) {
        self.change_ranges(|ranges| ranges.release(owner.id));
        owner.forget_ranges();
    }
}

impl Locker {
    /// Locks `range` of `tree` as a reader. Errors as [`Locker::lock`].
    ///
    /// [`Granted::New`] also when a lock that the owner has was made larger, and when it waited for others that came to
    /// have a part of the range although this owner holds it ([`LockTable::impose`]).
    pub fn lock_range(
        &mut self,
        tree: TreeId,
        range: KeyRange,
        mode: RowMode,
        wait: Wait,
    ) -> Result<Granted> {
        self.request_range(tree, range, mode.into(), wait)
    }

    /// Locks `range` of `tree` as a writer: no reader has it, or gets it before this owner ends.
    pub fn lock_written(&mut self, tree: TreeId, range: KeyRange, wait: Wait) -> Result<Granted> {
        self.request_range(tree, range, LockMode::IX, wait)
    }

    fn request_range(
        &mut self,
        tree: TreeId,
        range: KeyRange,
        mode: LockMode,
        wait: Wait,
    ) -> Result<Granted> {
        assert!(!range.is_empty(), "a range without keys is locked");
        let table = Arc::clone(&self.table);
        let id = self.owner.id;
        let mut ranges = table.ranges.lock();
        let is_held = ranges.is_held(tree, id, &range, mode);
        // A writer with an imposed lock does not wait for the readers, which wait for it.
        if is_held && mode == LockMode::IX {
            return Ok(Granted::AlreadyHeld);
        }
        if ranges.blockers(tree, id, &range, mode).is_empty() {
            return match is_held {
                true => Ok(Granted::AlreadyHeld),
                false => self.add_range(&mut ranges, tree, range, mode),
            };
        }
        drop(ranges);
        let Wait::Block(timeout) = wait else {
            let what = "the range is locked by another transaction";
            return Err(Error::new(ErrorKind::LockNoWait, what));
        };
        self.waits += 1;
        if self.owner.is_interrupted() {
            return Err(interrupted());
        }
        let graph = table.graph.lock();
        let mut ranges = table.ranges.lock();
        if ranges.blockers(tree, id, &range, mode).is_empty() {
            return self.add_range(&mut ranges, tree, range, mode);
        }
        *self.owner.park.lock() = Park::Waiting;
        table.change_locked_ranges(&mut ranges, |ranges| {
            ranges.add(tree, &self.owner, range, mode, false);
        });
        drop(ranges);
        self.wait_queued(graph, WaitAt::Range(tree), mode, timeout)?;
        Ok(Granted::New)
    }

    fn add_range(
        &self,
        ranges: &mut RangeTable,
        tree: TreeId,
        range: KeyRange,
        mode: LockMode,
    ) -> Result<Granted> {
        if self.table.is_full() {
            return Err(full(&self.table));
        }
        self.table.change_locked_ranges(ranges, |ranges| {
            ranges.add(tree, &self.owner, range, mode, true);
        });
        Ok(Granted::New)
    }
}
