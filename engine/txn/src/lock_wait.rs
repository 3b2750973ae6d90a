//! An owner of locks as other threads see it, and where it sleeps.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind};
use parking_lot::{Condvar, Mutex};

use crate::report::OwnerInfo;
use crate::TxnId;

/// The outcome for the owner's thread. Changed from `Waiting` under the latch of the shard in which
/// the owner is queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Park {
    Idle,
    Waiting,
    Granted,
    /// Chosen to give way in a deadlock.
    Victim,
}

pub(crate) struct Owner {
    pub id: TxnId,
    weight: AtomicU64,
    /// The owner's name for people, a connection's number; 0: none.
    label: AtomicU64,
    /// Number of locks held.
    locks: AtomicU64,
    /// Whether it has been granted a range.
    ranges: AtomicBool,
    /// When it began, in nanoseconds of the table's clock.
    since: AtomicU64,
    /// See [`Locker::rest`](crate::Locker::rest).
    resting: AtomicBool,
    interrupted: AtomicBool,
    /// While it waits: whether others came before it in the queue.
    overtaken: AtomicBool,
    pub park: Mutex<Park>,
    pub wake: Condvar,
}

impl Owner {
    pub fn new(id: TxnId, since: Duration) -> Arc<Owner> {
        Arc::new(Owner {
            id,
            weight: AtomicU64::new(0),
            label: AtomicU64::new(0),
            locks: AtomicU64::new(0),
            ranges: AtomicBool::new(false),
            since: AtomicU64::new(nanos(since)),
            resting: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            overtaken: AtomicBool::new(false),
            park: Mutex::new(Park::Idle),
            wake: Condvar::new(),
        })
    }

    pub fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn set_weight(&self, weight: u64) {
        self.weight.store(weight, Ordering::Relaxed);
    }

    pub fn label(&self) -> u64 {
        self.label.load(Ordering::Relaxed)
    }

    pub fn set_locks(&self, locks: usize) {
        self.locks.store(locks as u64, Ordering::Relaxed);
    }

    pub fn note_ranges(&self) {
        self.ranges.store(true, Ordering::SeqCst);
    }

    pub fn forget_ranges(&self) {
        self.ranges.store(false, Ordering::SeqCst);
    }

    pub fn has_ranges(&self) -> bool {
        self.ranges.load(Ordering::SeqCst)
    }

    pub fn set_resting(&self, resting: bool) {
        self.resting.store(resting, Ordering::Relaxed);
    }

    pub fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// Another transaction begins at `since`.
    pub fn begin_again(&self, since: Duration) {
        self.since.store(nanos(since), Ordering::Relaxed);
        self.interrupted.store(false, Ordering::SeqCst);
        self.set_resting(false);
    }

    pub fn info(&self) -> OwnerInfo {
        OwnerInfo {
            owner: self.id,
            label: self.label(),
            weight: self.weight(),
            locks: self.locks.load(Ordering::Relaxed),
            since: Duration::from_nanos(self.since.load(Ordering::Relaxed)),
        }
    }

    /// Others came before this waiting owner: it wakes up to tell its observer.
    pub fn overtake(&self) {
        self.overtaken.store(true, Ordering::SeqCst);
        drop(self.park.lock());
        self.wake.notify_one();
    }

    pub fn was_overtaken(&self) -> bool {
        self.overtaken.swap(false, Ordering::SeqCst)
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Tells a waiting owner how its wait ended.
    pub fn tell(&self, outcome: Park) {
        *self.park.lock() = outcome;
        self.wake.notify_one();
    }
}

/// Enough for 584 years.
fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

pub(crate) fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "waiting for a lock was interrupted")
}

/// Handle of an owner for other threads. Cheap to clone; may outlive the owner.
#[derive(Clone)]
pub struct OwnerHandle(pub(crate) Arc<Owner>);

impl OwnerHandle {
    pub fn id(&self) -> TxnId {
        self.0.id
    }

    /// The number by which reports name the owner, beside its own.
    #[inline]
    pub fn set_label(&self, label: u64) {
        self.0.label.store(label, Ordering::Relaxed);
    }

    /// Ends the owner's wait with `Interrupted`, now or when it next has to wait, until
    /// [`OwnerHandle::clear_interrupt`]. May be called with any foreign mutex held: it takes one
    /// latch, and holders of that latch neither wait nor call other code.
    pub fn interrupt(&self) {
        self.0.interrupted.store(true, Ordering::SeqCst);
        // After this latch was taken the owner either has not read the flag yet, or sleeps.
        drop(self.0.park.lock());
        self.0.wake.notify_one();
    }

    /// Forgets an interrupt; the engine calls it when a statement begins.
    #[inline]
    pub fn clear_interrupt(&self) {
        self.0.interrupted.store(false, Ordering::SeqCst);
    }

    pub fn is_interrupted(&self) -> bool {
        self.0.is_interrupted()
    }
}
