//! A serializable scan locks what it has read, including the keys that it did not find.
//!
//! Invariants:
//!
//! - SR1. A candidate, and the end of a scan, is used only when everything between the beginning of the step and it is
//!   locked, and the cursor was positioned after that. So a lock is followed by a restart of the step.
//! - SR2. A scan with a known end (entries that match a tuple) locks up to it at once. Any other looks ahead, twice as
//!   many entries each time, so that locks and restarts are few: it locks at most as many entries ahead as it has read.
//!
//! A row that is read by its whole primary key needs no range: its row lock keeps others from inserting it.

use frond_base::Result;
use frond_row::prefix_end;
use frond_tree::Seek;
use frond_txn::{after, KeyRange};

use super::lock::Origin;
use super::{Scan, Way};
use crate::commit::transaction::Transaction;

/// Entries that a scan looks ahead, at most.
const MOST_AHEAD: u32 = 1024;

impl Scan {
    /// Whether the scan locks ranges. Not with SKIP LOCKED, which promises no particular rows.
    pub(super) fn locks_ranges(&self, txn: &Transaction) -> bool {
        let locks = self.lock.is_some_and(|lock| !lock.at_snapshot && !lock.skip_locked);
        locks && txn.locks_ranges()
    }

    /// Locks what lies between the beginning of the step and the candidate, or the end if the cursor is not valid. True
    /// when the step has to begin again (SR1). `stop`: entries that do not begin with it are not wanted.
    pub(super) fn lock_way(
        &mut self,
        txn: &mut Transaction,
        valid: bool,
        way: Way,
        stop: Option<&[u8]>,
    ) -> Result<bool> {
        let Some(lock) = self.lock.filter(|_| self.locks_ranges(txn)) else { return Ok(false) };
        let candidate = valid.then(|| self.cursor.key().to_vec());
        let needed = self.read_so_far(candidate.as_deref(), way, stop);
        if needed.is_empty() || self.covered.as_ref().is_some_and(|c| c.covers(&needed)) {
            return Ok(false);
        }
        let ahead = match stop {
            Some(_) => candidate,
            None => self.look_ahead(txn, valid, way)?,
        };
        let wanted = self.read_so_far(ahead.as_deref(), way, stop);
        let wanted = needed.span(&wanted);
        txn.lock_range(&self.table, self.tree, wanted.clone(), lock.mode, lock.wait)?;
        self.covered = Some(match self.covered.take() {
            Some(before) if before.touches(&wanted) => before.span(&wanted),
            _ => wanted,
        });
        Ok(true)
    }

    /// The key some entries further on; `None` at the end. More of them each time.
    fn look_ahead(
        &mut self,
        txn: &Transaction,
        mut valid: bool,
        way: Way,
    ) -> Result<Option<Vec<u8>>> {
        for _ in 0..self.ahead {
            if !valid {
                break;
            }
            valid = match way {
                Way::Forward => self.cursor.next(txn)?,
                Way::Backward => self.cursor.prev(txn)?,
            };
        }
        self.ahead = (self.ahead * 2).clamp(1, MOST_AHEAD);
        Ok(valid.then(|| self.cursor.key().to_vec()))
    }

    /// From the beginning of the step to `key`, which belongs to it; without a key, to the end.
    fn read_so_far(&self, key: Option<&[u8]>, way: Way, stop: Option<&[u8]>) -> KeyRange {
        let begin = self.origin_key.as_slice();
        match way {
            Way::Forward => {
                let from = match self.origin {
                    Origin::Key(Seek::Gt) => after(begin),
                    Origin::Key(_) => begin.to_vec(),
                    Origin::First | Origin::Last => Vec::new(),
                };
                let mut to = key.map(after);
                if let Some(stop) = stop {
                    // All that matches, at once (SR2).
                    let mut end = stop.to_vec();
                    to = prefix_end(&mut end).then_some(end);
                }
                KeyRange { from, to }
            }
            Way::Backward => {
                let to = match self.origin {
                    Origin::Key(Seek::Le) => Some(after(begin)),
                    Origin::Key(_) => Some(begin.to_vec()),
                    Origin::First | Origin::Last => None,
                };
                let from = match stop {
                    Some(stop) => stop.to_vec(),
                    None => key.map_or_else(Vec::new, <[u8]>::to_vec),
                };
                KeyRange { from, to }
            }
        }
    }
}
