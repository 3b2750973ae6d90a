//! Which transactions are prepared, and what they consist of.
//!
//! Latches: an entry's `state`, then the commit mutex, then `entries`.
//!
//! The operations on them and the invariants are in `prepared.rs`.

use std::collections::btree_map::Entry as Place;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use frond_base::{Error, ErrorKind, IdMap, Lsn, Result, TableId};
use frond_cache::Charge;
use frond_txn::{Locker, TxnId, WriteSet};
use frond_wal::KeptRoom;
use parking_lot::Mutex;

use crate::checkpoint::holders::Holder;
use crate::commit::private_runs::Spilled;
use crate::commit::write_sets::RowEntries;
use crate::commit::xid::Xid;
use crate::table::Table;

/// Log position of a transaction that holds no log, as it wrote nothing.
pub(crate) const NOTHING: Lsn = Lsn::MAX;

/// The parts of a transaction that reads and changes nothing any more. Dropping them releases its locks.
pub(crate) struct Parts {
    pub locker: Locker,
    pub writes: WriteSet,
    /// Memory only, for a transaction that begins to write.
    pub rows: RowEntries,
    pub spilled: Spilled,
    /// Tables written to.
    pub tables: IdMap<TableId, Arc<Table>>,
    /// What the write set takes of the budget.
    pub charged: Option<Charge>,
}

impl Parts {
    /// Moves everything out.
    pub fn take(&mut self) -> Parts {
        Parts {
            locker: self.locker.take(),
            writes: std::mem::take(&mut self.writes),
            rows: std::mem::take(&mut self.rows),
            spilled: std::mem::take(&mut self.spilled),
            tables: std::mem::take(&mut self.tables),
            charged: self.charged.take(),
        }
    }
}

/// All prepared transactions.
#[derive(Default)]
pub(crate) struct PreparedSet {
    entries: Mutex<BTreeMap<Xid, Arc<Entry>>>,
    /// No prepare record is written again before the log ends here.
    pub renewed_upto: AtomicU64,
}

pub(crate) struct Entry {
    pub owner: TxnId,
    /// The log is needed from here on (PX1).
    pub needs_log_from: AtomicU64,
    /// A handle of it is alive.
    pub attached: AtomicBool,
    /// Others know its name and may end it, also while a handle is alive (XA START gave it).
    pub named: AtomicBool,
    /// When it was prepared, or found by recovery.
    pub since: Duration,
    /// The log must be told of its end.
    pub coordinated: AtomicBool,
    /// The thread that prepared it. The thread that ends a group has prepared the group's first transaction.
    pub thread: ThreadId,
    pub tables: Vec<TableId>,
    /// `None` while it is being prepared, and when it has ended.
    pub state: Mutex<Option<State>>,
}

/// What its end needs.
pub(crate) struct State {
    pub parts: Parts,
    /// Where its newest prepare record starts.
    pub at: Lsn,
    /// Log space for the record of its end. `None` after a start on a full disk.
    pub room: Option<KeptRoom>,
}

impl State {
    /// For the record of its end, if it has one.
    pub fn assert_room(&self) {
        let has_record = self.at != NOTHING;
        assert!(!has_record || self.room.is_some(), "PX2: no room in the log for its end");
    }
}

impl Entry {
    /// Nobody is bound to end it soon: it is ended by its name, if at all. A handle that is alive does not tell: a session that is
    /// reset loses a transaction of XA, and lets go of the handle when it is next used.
    fn is_left_to_others(&self) -> bool {
        self.named.load(Ordering::Acquire) || !self.attached.load(Ordering::Acquire)
    }
}

impl PreparedSet {
    pub fn add(&self, xid: &Xid, entry: Arc<Entry>) -> Result<()> {
        match self.entries.lock().entry(xid.clone()) {
            Place::Vacant(place) => {
                place.insert(entry);
                Ok(())
            }
            Place::Occupied(_) => Err(Error::new(
                ErrorKind::Exists,
                format!("a transaction of the name {xid:?} is prepared already"),
            )),
        }
    }

    pub fn get(&self, xid: &Xid) -> Option<Arc<Entry>> {
        self.entries.lock().get(xid).cloned()
    }

    pub fn remove(&self, xid: &Xid) {
        self.entries.lock().remove(xid);
    }

    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Names of the prepared transactions that are left to others and that a restart would find again.
    pub fn left_to_others(&self) -> Vec<Xid> {
        let is_one = |e: &Arc<Entry>| {
            let logged = e.needs_log_from.load(Ordering::Acquire) != NOTHING;
            logged && e.is_left_to_others()
        };
        self.entries.lock().iter().filter(|(_, e)| is_one(e)).map(|(x, _)| x.clone()).collect()
    }

    /// Since when the oldest one is prepared.
    pub fn oldest(&self) -> Option<Duration> {
        self.entries.lock().values().map(|e| e.since).min()
    }

    /// All of them by their lock owner, with their name and whether a handle of it is alive.
    pub fn owners(&self) -> HashMap<TxnId, (Xid, bool)> {
        let entries = self.entries.lock();
        let of = |(xid, e): (&Xid, &Arc<Entry>)| {
            (e.owner, (xid.clone(), e.attached.load(Ordering::Acquire)))
        };
        entries.iter().map(of).collect()
    }

    /// A prepared transaction that has changes in `table`; with `left_to_others`, one that is.
    pub fn of_table(&self, table: TableId, left_to_others: bool) -> Option<Xid> {
        let entries = self.entries.lock();
        let is_one = |e: &Arc<Entry>| {
            e.tables.contains(&table) && (!left_to_others || e.is_left_to_others())
        };
        entries.iter().find(|(_, e)| is_one(e)).map(|(xid, _)| xid.clone())
    }

    /// All that have changes in `table`.
    pub fn all_of_table(&self, table: TableId) -> Vec<Arc<Entry>> {
        let entries = self.entries.lock();
        entries.values().filter(|e| e.tables.contains(&table)).cloned().collect()
    }

    /// The prepared transactions that hold log below `lsn`.
    pub fn older_than(&self, lsn: Lsn) -> Vec<(Xid, Arc<Entry>)> {
        let is_old = |e: &Arc<Entry>| e.needs_log_from.load(Ordering::Acquire) < lsn;
        let entries = self.entries.lock();
        entries.iter().filter(|(_, e)| is_old(e)).map(|(x, e)| (x.clone(), e.clone())).collect()
    }

    /// The database is closed. The transactions stay prepared in the log.
    pub fn clear(&self) {
        let entries = std::mem::take(&mut *self.entries.lock());
        entries.values().for_each(|e| drop(e.state.lock().take()));
    }
}

impl Holder for PreparedSet {
    /// Asked before the tables: a transaction that ends after this call holds the log by its buffered changes.
    fn holds_log_from(&self) -> Option<Lsn> {
        let needs = |e: &Arc<Entry>| e.needs_log_from.load(Ordering::Acquire);
        self.entries.lock().values().map(needs).min().filter(|lsn| *lsn != NOTHING)
    }
}
