//! Writers that are held back, and what wakes them.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Where writers sleep while memory is short. Woken by a measurement, a disk that is full or is not any
/// more, and the end of background work. Every sleep is bounded: waking early only saves time.
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

    /// Something changed: everyone looks again.
    pub fn wake(&self) {
        self.moved.notify_all();
    }
}
