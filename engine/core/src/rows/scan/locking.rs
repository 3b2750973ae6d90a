//! The rows of a locking scan.
//!
//! Candidates are found without locks. The candidate's primary key is locked, then row and index
//! entry are read again at their newest version, because another transaction may have changed them
//! in between.
//!
//! Invariants:
//!
//! - SL1. Nothing that was read before a lock wait is used after it. The transaction counts its
//!   waits for any lock; a scan remembers the count at which its cursor was positioned. When the
//!   counts differ, the current step begins again from the key that was delivered last (or from the
//!   bound that was sought), not from the candidate: entries may have been inserted before it.
//!   Conditions on index entries are evaluated again. Locks taken by then are kept.
//! - SL2. A step begins again after each wait, and once for a row that changed before its lock was granted: the lock
//!   is kept, so the row does not change again. For rows that are gone it begins again a few times, and then passes
//!   over them; so it ends.
//! - SL3. A scan `at_snapshot` needs none of this: a row that changed after the snapshot is an error.
//!
//! Row ids that the server collected before a wait (for a sort or a multi-range read) are not
//! collected again; the server fetches each of those rows by its key, which locks it and reads its
//! newest version.
//!
//! Below serializable (`ranges.rs`) the scan does not see an entry that is inserted behind its position.
//! So when a transaction commits during a scan without a wait, the scan may see those of its rows
//! that are ahead and not those behind. Rejected: reading candidates at a registered sequence that
//! is renewed after each wait. It costs the registry's latch for every look-up, and the same can
//! happen at each renewal.

use frond_base::{ErrorKind, Result, SEQ_MAX};
use frond_tree::Seek;
use frond_txn::Granted;

use super::lock::{Claim, Origin, ScanLock, Semi, Still};
use super::{Place, Scan, Way};
use crate::commit::transaction::{OnLocked, Transaction};

impl Scan {
    pub(super) fn reads_newest(&self) -> bool {
        self.lock.is_some_and(|lock| !lock.at_snapshot)
    }

    /// Positions the cursor at the beginning of a step.
    pub(super) fn start(&mut self, txn: &Transaction, origin: Origin, key: &[u8]) -> Result<bool> {
        self.waited = false;
        if self.semi == Semi::Did {
            self.semi = Semi::Try;
        }
        if !self.reads_newest() {
            return match origin {
                Origin::First => self.cursor.first(txn),
                Origin::Last => self.cursor.last(txn),
                Origin::Key(how) => self.cursor.seek(txn, key, how),
            };
        }
        self.origin = origin;
        self.origin_key.clear();
        self.origin_key.extend_from_slice(key);
        self.restart(txn)
    }

    /// Begins the current step again and reads what is committed by now.
    pub(super) fn restart(&mut self, txn: &Transaction) -> Result<bool> {
        self.waits = txn.lock_waits();
        self.cursor.look_anew();
        match self.origin {
            Origin::First => self.cursor.first(txn),
            Origin::Last => self.cursor.last(txn),
            Origin::Key(how) => self.cursor.seek(txn, &self.origin_key, how),
        }
    }

    /// Goes on behind the candidate and reads what is committed by now.
    pub(super) fn pass(&mut self, txn: &Transaction, way: Way) -> Result<bool> {
        self.origin = Origin::Key(way.behind());
        self.origin_key.clear();
        self.origin_key.extend_from_slice(self.cursor.key());
        self.restart(txn)
    }

    /// Moves the cursor one entry on, wherever the last row came from.
    pub(super) fn step(&mut self, txn: &Transaction, way: Way) -> Result<bool> {
        if self.semi == Semi::Did {
            return self.step_again(txn, way);
        }
        self.waited = false;
        if self.place == Place::Entry && self.cursor.valid() {
            if self.reads_newest() {
                self.origin = Origin::Key(way.behind());
                self.origin_key.clear();
                self.origin_key.extend_from_slice(self.cursor.key());
                if self.waits != txn.lock_waits() {
                    return self.restart(txn);
                }
            }
            return match way {
                Way::Forward => self.cursor.next(txn),
                Way::Backward => self.cursor.prev(txn),
            };
        }
        // The cursor has no position, or not that of the scan.
        let (key, how) = match (self.place, way) {
            (Place::Nowhere, _)
            | (Place::AfterLast, Way::Forward)
            | (Place::BeforeFirst, Way::Backward) => return Ok(false),
            (Place::AfterLast, Way::Backward) => return self.start(txn, Origin::Last, &[]),
            (Place::BeforeFirst, Way::Forward) => return self.start(txn, Origin::First, &[]),
            (Place::Entry, _) => (self.cursor.last_key(), way.behind()),
            (Place::Row, _) => (self.row_key.as_slice(), way.behind()),
            (Place::Gap, Way::Forward) => (self.gap_key.as_slice(), Seek::Ge),
            (Place::Gap, Way::Backward) => (self.gap_key.as_slice(), Seek::Lt),
        };
        let key = key.to_vec();
        self.start(txn, Origin::Key(how), &key)
    }

    /// The same row once more, now with its lock; or the next one, if it is gone.
    fn step_again(&mut self, txn: &Transaction, way: Way) -> Result<bool> {
        self.semi = Semi::Try;
        self.wanted_again.clone_from(&self.row_key);
        let key = self.row_key.clone();
        self.start(txn, Origin::Key(if way == Way::Forward { Seek::Ge } else { Seek::Le }), &key)
    }

    /// Locks the row of the entry under the cursor, and checks that row and entry are unchanged.
    pub(super) fn claim(&mut self, txn: &mut Transaction, lock: ScanLock) -> Result<Claim> {
        let key = self.codec.primary_key(self.index, self.cursor.key())?;
        // The lock was taken after a wait: it may still be given back.
        let has_it = std::mem::take(&mut self.waited) && self.row_key == key;
        if !has_it {
            self.keep_lock(txn);
            self.take_row_key()?;
            let semi = self.semi == Semi::Try && self.index == 0 && !lock.at_snapshot;
            let semi = semi && self.row_key != self.wanted_again;
            if !self.lock_row(txn, lock, semi)? {
                return match self.semi == Semi::Did {
                    true => Ok(Claim::Newest),
                    false => Ok(Claim::Skip),
                };
            }
            if lock.at_snapshot {
                return Ok(Claim::Unchanged);
            }
            if self.waits != txn.lock_waits() {
                // The step may not come to this row again.
                txn.check_conflict(&self.table, 0, &self.row_key)?;
                self.waited = true;
                return Ok(Claim::Waited);
            }
        }
        match self.still_there(txn)? {
            Still::Same => Ok(Claim::Newest),
            // The row keeps its lock and is looked at again; nobody changes it meanwhile.
            Still::Changed if !has_it => {
                self.waited = true;
                Ok(Claim::Waited)
            }
            Still::Changed | Still::Gone => {
                self.unlock(txn);
                Ok(Claim::Stale)
            }
        }
    }

    /// Locks `row_key`; false when another transaction holds it and the scan skips such rows. With
    /// `semi`, such a row is read as it was committed last, and `self.semi` says so. Unless it is to be read at the
    /// snapshot, conflicts are found when the row is read.
    pub(super) fn lock_row(
        &mut self,
        txn: &mut Transaction,
        lock: ScanLock,
        semi: bool,
    ) -> Result<bool> {
        let wait = if lock.skip_locked || semi { OnLocked::Fail } else { lock.wait };
        match txn.lock(&self.table, 0, &self.row_key, lock.mode, wait) {
            Ok(Granted::New) => self.locked = Some(txn.loosen_lock()),
            Ok(_) => {}
            Err(e) if lock.skip_locked && e.kind() == ErrorKind::LockNoWait => return Ok(false),
            Err(e) if semi && e.kind() == ErrorKind::LockNoWait => {
                if txn.read(&self.table, 0, &self.row_key, SEQ_MAX, &mut self.row_value)? {
                    self.semi = Semi::Did;
                }
                return Ok(false);
            }
            Err(e) => return Err(e),
        }
        if lock.at_snapshot {
            txn.check_unchanged(&self.table, 0, &self.row_key)?;
        }
        Ok(true)
    }

    /// After the lock: reads the row's newest version into `row_value`, and compares the entry with the one that was used
    /// for conditions and columns. A conflict is an error (X3).
    fn still_there(&mut self, txn: &mut Transaction) -> Result<Still> {
        if self.index != 0 {
            txn.check_conflict(&self.table, 0, &self.row_key)?;
            let key = self.cursor.key();
            if !txn.read(&self.table, self.tree, key, SEQ_MAX, &mut self.row_value)? {
                return Ok(Still::Gone);
            }
            if !self.same_value() {
                return Ok(Still::Changed);
            }
        }
        if !txn.read_locked(&self.table, 0, &self.row_key, &mut self.row_value)? {
            return Ok(Still::Gone);
        }
        let by_condition = self.index == 0 && self.for_condition.is_some();
        Ok(if by_condition && !self.same_value() { Still::Changed } else { Still::Same })
    }

    /// Whether `row_value` is the entry's value.
    fn same_value(&self) -> bool {
        self.codec.same_renewed(self.index, &self.row_value, self.cursor.value())
    }

    fn unlock(&mut self, txn: &mut Transaction) {
        self.waited = false;
        if let Some(lock) = self.locked.take() {
            txn.give_lock_back(lock);
        }
    }

    /// The scan goes on to another row and keeps this one's lock.
    pub(super) fn keep_lock(&mut self, txn: &mut Transaction) {
        if let Some(lock) = self.locked.take() {
            txn.fasten_lock(lock);
        }
    }

    /// The row under the scan does not match the statement's condition: with READ COMMITTED, a lock that
    /// was taken for it alone is given back. Locks that were taken since stay: the server may give back
    /// a row of one table after it has read rows of others (`eq_ref` joins do).
    pub fn unlock_current(&mut self, txn: &mut Transaction) {
        if self.semi == Semi::Did {
            self.semi = Semi::Try;
        }
        if txn.gives_back() {
            self.unlock(txn);
        }
    }

    /// With READ COMMITTED, a scan of the primary key does not wait for rows that others have
    /// locked. It delivers their last committed version without a lock. It is for statements that
    /// change matching rows: for such a row they call [`Scan::was_semi_consistent`], and the next
    /// step returns it again, locked.
    pub fn set_semi_consistent(&mut self, txn: &Transaction, on: bool) {
        let on = on && txn.gives_back();
        self.semi = if on { Semi::Try } else { Semi::Off };
        self.wanted_again.clear();
    }

    /// Whether the last row was read without its lock.
    pub fn was_semi_consistent(&self) -> bool {
        self.semi == Semi::Did
    }
}

impl Way {
    fn behind(self) -> Seek {
        match self {
            Way::Forward => Seek::Gt,
            Way::Backward => Seek::Lt,
        }
    }

    /// The place of a scan at its end.
    pub(super) fn end(self) -> Place {
        match self {
            Way::Forward => Place::AfterLast,
            Way::Backward => Place::BeforeFirst,
        }
    }
}
