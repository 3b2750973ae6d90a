//! `LockTable`: all locks of a database.
//!
//! Locks are spread over shards by a hash of (tree, key); taking and releasing a lock without
//! conflict takes one shard latch. Only an owner that has to wait takes the *graph* latch as well.
//!
//! Invariants (with those of `lock_slot.rs`):
//!
//! - LT1. Latch order: graph, then one shard or the ranges, then an owner's park latch. None of them is held while
//!   sleeping for a lock.
//! - LT2. An owner waits for at most one lock, and while it waits its locks do not change: a [`crate::Locker`] is
//!   used by one thread at a time.
//! - LT3. `Graph::waiting` has every queued owner. Owners enter it and a queue under the graph
//!   latch; a grant takes them out of the queue without it, and the owner's own thread then removes
//!   its name before it does anything else.
//!
//! Why deadlocks are neither missed nor invented: an owner's wait can only close a cycle at the moment
//! when it is queued, and then the cycle contains that owner. It searches for one then, under the
//! graph latch, so no two waits begin at once. It reads the queues one after another, yet
//! consistently: an owner found waiting has waited since before the latch was taken, so it has not
//! released a lock that an earlier step saw.
//!
//! Tested by `tests/it/main.rs`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use frond_base::{checksum64_seeded, TreeId};
use parking_lot::Mutex;

use crate::lock_slot::{Shard, Slot};
use crate::lock_wait::{Owner, OwnerHandle};
use crate::observer::LockObserver;
use crate::range_table::RangeTable;
use crate::report::DeadlockReport;
use crate::{LockMode, TxnId};

const SHARD_BITS: u32 = 6;
const OWNER_SHARDS: usize = 16;

/// Bytes charged for a lock, including its part of the index.
pub(crate) const SLOT_BYTES: usize = std::mem::size_of::<Option<Slot>>() + 12;

/// Settings of a lock table.
#[derive(Clone, Debug)]
pub struct LockOptions {
    /// Row locks beyond this many bytes are refused with `LockTableFull`.
    pub memory_limit: usize,
    /// Number of row locks of one owner on one tree from which on `Locker::should_escalate` returns
    /// true; 0: never.
    pub escalate_after: usize,
}

impl Default for LockOptions {
    fn default() -> Self {
        LockOptions { memory_limit: 64 << 20, escalate_after: 100_000 }
    }
}

/// Counters since the table was made.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LockStats {
    pub waits: u64,
    pub deadlocks: u64,
    pub timeouts: u64,
    pub interrupts: u64,
    pub refused_full: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub waits: AtomicU64,
    pub deadlocks: AtomicU64,
    pub timeouts: AtomicU64,
    pub interrupts: AtomicU64,
    pub refused_full: AtomicU64,
}

/// What an owner is queued for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitAt {
    /// Shard and slot.
    Slot(usize, u32),
    Range(TreeId),
}

/// The place where an owner is queued.
pub(crate) struct WaitPlace {
    pub owner: Arc<Owner>,
    pub at: WaitAt,
    pub mode: LockMode,
    pub since: Duration,
}

type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

#[derive(Default)]
pub(crate) struct Graph {
    pub waiting: HashMap<TxnId, WaitPlace>,
}

/// See the module.
pub struct LockTable {
    pub(crate) options: LockOptions,
    pub(crate) shards: Vec<Mutex<Shard>>,
    /// Ranges that are held or waited for; latched as a shard is.
    pub(crate) ranges: Mutex<RangeTable>,
    /// Number of readers' requests among `ranges`.
    pub(crate) range_readers: AtomicUsize,
    pub(crate) graph: Mutex<Graph>,
    pub(crate) counters: Counters,
    pub(crate) last_deadlock: Mutex<Option<DeadlockReport>>,
    owners: Vec<Mutex<HashMap<TxnId, Arc<Owner>>>>,
    used: AtomicUsize,
    /// Tells waiters the time, for reports.
    clock: OnceLock<Clock>,
    observer: OnceLock<Box<dyn LockObserver>>,
}

impl LockTable {
    pub fn new(options: LockOptions) -> Arc<LockTable> {
        Arc::new(LockTable {
            options,
            shards: (0..1 << SHARD_BITS).map(|_| Mutex::default()).collect(),
            ranges: Mutex::default(),
            range_readers: AtomicUsize::new(0),
            graph: Mutex::default(),
            counters: Counters::default(),
            last_deadlock: Mutex::new(None),
            owners: (0..OWNER_SHARDS).map(|_| Mutex::default()).collect(),
            used: AtomicUsize::new(0),
            clock: OnceLock::new(),
            observer: OnceLock::new(),
        })
    }

    /// The clock for [`crate::WaitInfo::since`] and [`crate::OwnerInfo::since`]; only the first call counts.
    pub fn set_clock(&self, now: impl Fn() -> Duration + Send + Sync + 'static) {
        let _ = self.clock.set(Box::new(now));
    }

    /// Who hears of waits; only the first call counts.
    pub fn set_observer(&self, observer: Box<dyn LockObserver>) {
        let _ = self.observer.set(observer);
    }

    pub(crate) fn observer(&self) -> Option<&dyn LockObserver> {
        self.observer.get().map(|observer| &**observer)
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.get().map_or(Duration::ZERO, |now| now())
    }

    /// See [`OwnerHandle::set_label`]; 0 when there is none, or no such owner.
    pub fn label(&self, id: TxnId) -> u64 {
        self.owners_of(id).lock().get(&id).map_or(0, |owner| owner.label())
    }

    pub(crate) fn owner_shards(&self) -> &[Mutex<HashMap<TxnId, Arc<Owner>>>] {
        &self.owners
    }

    pub(crate) fn owners_of(&self, id: TxnId) -> &Mutex<HashMap<TxnId, Arc<Owner>>> {
        &self.owners[id.0 as usize % OWNER_SHARDS]
    }

    pub(crate) fn forget_owner(&self, id: TxnId) {
        self.owners_of(id).lock().remove(&id);
    }

    /// See [`OwnerHandle::interrupt`]. False when there is no such owner.
    pub fn interrupt(&self, id: TxnId) -> bool {
        let owner = self.owners_of(id).lock().get(&id).cloned();
        owner.map(|o| OwnerHandle(o).interrupt()).is_some()
    }

    /// Bytes accounted for locks.
    pub fn memory_bytes(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Accounts for `bytes`; false, without doing so, when that would pass the limit.
    pub(crate) fn charge(&self, bytes: usize, limited: bool) -> bool {
        let before = self.used.fetch_add(bytes, Relaxed);
        if limited && before + bytes > self.options.memory_limit {
            self.used.fetch_sub(bytes, Relaxed);
            self.counters.refused_full.fetch_add(1, Relaxed);
            return false;
        }
        true
    }

    pub(crate) fn is_full(&self) -> bool {
        let full = self.memory_bytes() >= self.options.memory_limit;
        if full {
            self.counters.refused_full.fetch_add(1, Relaxed);
        }
        full
    }

    pub(crate) fn refund(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        assert!(
            before >= bytes,
            "{bytes} bytes of locks are given back, {before} are accounted for"
        );
    }

    pub(crate) fn hash(tree: TreeId, key: Option<&[u8]>) -> u64 {
        let seed = u64::from(tree.table.0) << 17 | u64::from(tree.index) << 1;
        checksum64_seeded(key.unwrap_or_default(), seed | u64::from(key.is_none()))
    }

    pub(crate) fn shard_of(hash: u64) -> usize {
        (hash >> (64 - SHARD_BITS)) as usize
    }

    /// Removes a slot without owners; the caller holds the shard.
    pub(crate) fn drop_slot(&self, shard: &mut Shard, no: u32) {
        self.refund(SLOT_BYTES + shard.remove(no));
    }

    pub fn stats(&self) -> LockStats {
        let c = &self.counters;
        LockStats {
            waits: c.waits.load(Relaxed),
            deadlocks: c.deadlocks.load(Relaxed),
            timeouts: c.timeouts.load(Relaxed),
            interrupts: c.interrupts.load(Relaxed),
            refused_full: c.refused_full.load(Relaxed),
        }
    }

    pub fn last_deadlock(&self) -> Option<DeadlockReport> {
        self.last_deadlock.lock().clone()
    }

    /// Number of locks that exist (a lock with several holders counts once).
    pub fn lock_count(&self) -> usize {
        self.shards.iter().map(|s| s.lock().live()).sum()
    }
}
