//! Dead keys on a cursor's way: it skips the ranges that other readers found, and reports new ones
//! (KR1, KR2).

use frond_base::{Result, SEQ_MAX};

use super::dead_keys::DeadKeys;
use super::TreeCursor;
use crate::bounds::{successor, Bounds};
use crate::dead_ranges::{DeadRange, KEY_BYTES};
use crate::tree::Tree;

/// This many dead keys in a row, not counting those in known ranges, are worth a range: confirming
/// it costs as much as passing them did.
const WORTH: u64 = 64;

impl TreeCursor {
    /// Notes that the source `best` stands on a dead key. Returns the known range around the key,
    /// if there is one.
    pub(super) fn note_dead(&mut self, best: usize) -> Option<DeadRange> {
        if self.privates > 0 {
            // Ranges are shared with readers that cannot see this transaction's private runs.
            return None;
        }
        let (source, forward) = (&self.sources[best], self.walk.forward);
        // Tombstones in runs heat their nodes until they are merged away; no range may hide them.
        let buffered = best < self.buffers;
        if buffered && self.tree.dead_ranges.any() {
            if let Some(range) = self.tree.dead_ranges.around(&source.key, self.walk.at) {
                // The last key below `hi`, which is its successor or above it.
                let last = &range.hi[..range.hi.len() - 1];
                self.dead_keys.add(&range.lo, last, range.from, forward);
                return Some(range);
            }
        }
        self.dead_keys.passed += u64::from(buffered);
        self.dead_keys.add(&source.key, &source.key, source.seq, forward);
        None
    }

    /// The dead keys have ended, at a row or at the end.
    #[inline]
    pub(super) fn end_dead(&mut self) -> Result<()> {
        if self.dead_keys.last.is_empty() {
            return Ok(());
        }
        let keys = std::mem::take(&mut self.dead_keys);
        let told = match keys.passed >= WORTH && !self.verifies {
            true => self.tell(&keys),
            false => Ok(()),
        };
        self.dead_newest = self.dead_newest.max(keys.newest);
        self.dead_keys = keys;
        self.dead_keys.clear();
        told
    }

    /// KR2: announces the range, reads it again at the newest versions, and confirms it.
    #[cold]
    fn tell(&mut self, keys: &DeadKeys) -> Result<()> {
        if keys.first.len() + keys.last.len() > KEY_BYTES {
            return Ok(());
        }
        let hi = successor(&keys.last);
        let number = self.tree.dead_ranges.announce(&keys.first, &hi);
        let bounds = Bounds { lo: keys.first.clone(), hi: Some(hi) };
        let mut again = Tree { inner: self.tree.clone() }.cursor(SEQ_MAX, bounds);
        again.verifies = true;
        // The second walk may take as long as the first: KILL ends it, too.
        again.walk.interrupt = self.walk.interrupt.take();
        let found = again.first();
        self.walk.interrupt = again.walk.interrupt.take();
        let ranges = &self.tree.dead_ranges;
        match found {
            Ok(false) => ranges.confirm(number, again.dead_newest),
            Ok(true) => ranges.withdraw(number),
            Err(e) => {
                ranges.withdraw(number);
                return Err(e);
            }
        }
        Ok(())
    }
}
