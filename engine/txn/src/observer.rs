//! The interface through which the server hears of waits, which it reports to its replication and
//! shows.

use crate::DeadlockReport;

/// Hears of waits and deadlocks. Owners are named by their labels ([`crate::OwnerHandle::set_label`]); 0: none.
///
/// Latches: `victim` is called under the graph latch, and must not call the lock table. The others are called without any
/// latch of it, and may interrupt owners.
pub trait LockObserver: Send + Sync {
    /// `waiter` goes to sleep until `holders` end; these include owners before it in the queue. Called on the
    /// waiter's thread, and again when others have come before it meanwhile.
    fn waits(&self, waiter: u64, holders: &[u64]);

    /// The sleep that [`LockObserver::waits`] announced is over, however it ended. Called on the
    /// same thread.
    fn waited(&self, waiter: u64);

    /// Which of two owners in a cycle should give way. Below zero: `a`; above zero: `b`; zero: no
    /// preference.
    fn victim(&self, a: u64, b: u64) -> i32;

    /// A deadlock was broken; its members may go on by now.
    fn deadlock(&self, report: &DeadlockReport);
}
