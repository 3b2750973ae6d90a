//! Writers that wait, and waking them.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Writers sleep here while memory is short. A measurement, a change of the disk-full state and the
/// end of background work wake them. Every sleep is bounded, so a wake-up only saves time.
#[derive(Default)]
pub struct HeldWriters {
    latch: Mutex<()>,
    moved: Condvar,
}

impl HeldWriters {
    /// Sleeps until something changed, at most for `time`.
    pub fn wait(&self, time: Duration) {
        let _ = self.moved.wait_for(&mut self.latch.lock(), time);
    }

    /// Something changed: all writers check again.
    pub fn wake(&self) {
        self.moved.notify_all();
    }
}
