//! An owner of locks as seen by others, and the place where it sleeps.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::TxnId;

/// What the owner's thread is told. Changed from `Waiting` under the latch of the shard in which the
/// owner queues.
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
    /// What people know the owner by, a connection's number; 0: nothing.
    label: AtomicU64,
    interrupted: AtomicBool,
    pub park: Mutex<Park>,
    pub wake: Condvar,
}

impl Owner {
    pub fn new(id: TxnId) -> Arc<Owner> {
        Arc::new(Owner {
            id,
            weight: AtomicU64::new(0),
            label: AtomicU64::new(0),
            interrupted: AtomicBool::new(false),
            park: Mutex::new(Park::Idle),
            wake: Condvar::new(),
        })
    }

    pub fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed)
    }

    pub fn set_weight(&self, weight: u64) {
        self.weight.store(weight, Ordering::Relaxed);
    }

    pub fn label(&self) -> u64 {
        self.label.load(Ordering::Relaxed)
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

/// Reaches an owner from other threads. Cheap to clone; outlives the owner harmlessly.
#[derive(Clone)]
pub struct OwnerHandle(pub(crate) Arc<Owner>);

impl OwnerHandle {
    pub fn id(&self) -> TxnId {
        self.0.id
    }

    /// The number that reports name the owner by, beside its own.
    pub fn set_label(&self, label: u64) {
        self.0.label.store(label, Ordering::Relaxed);
    }

    /// Ends the owner's wait with `Interrupted`, now or when it next has to wait, until
    /// [`OwnerHandle::clear_interrupt`]. May be called with any foreign mutex held: it takes one latch
    /// under which nobody waits or calls out.
    pub fn interrupt(&self) {
        self.0.interrupted.store(true, Ordering::SeqCst);
        // Passing through the latch: the owner either has not looked at the flag yet, or sleeps.
        drop(self.0.park.lock());
        self.0.wake.notify_one();
    }

    /// Forgets an interrupt; the engine calls it when a statement begins.
    pub fn clear_interrupt(&self) {
        self.0.interrupted.store(false, Ordering::SeqCst);
    }

    pub fn is_interrupted(&self) -> bool {
        self.0.is_interrupted()
    }
}
