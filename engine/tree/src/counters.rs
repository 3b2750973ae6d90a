//! What a tree has written, and how much its trunk holds.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::TrunkRun;

#[derive(Default)]
pub(crate) struct Counters {
    pub bytes_written: AtomicU64,
    pub entries_written: AtomicU64,
    pub entries_flushed: AtomicU64,
    /// Frozen buffers that are in the trunk as a whole.
    pub freezes: AtomicU64,
    /// Delta runs that leaves got from above, and their stored bytes.
    pub deltas: AtomicU64,
    pub delta_bytes: AtomicU64,
    /// Runs that the trunk holds, and their stored bytes.
    pub runs: AtomicU64,
    pub run_bytes: AtomicU64,
}

impl Counters {
    pub fn add_run(&self, run: &TrunkRun) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.run_bytes.fetch_add(run.meta().bytes, Ordering::Relaxed);
    }

    pub fn remove_run(&self, run: &TrunkRun) {
        self.runs.fetch_sub(1, Ordering::Relaxed);
        self.run_bytes.fetch_sub(run.meta().bytes, Ordering::Relaxed);
    }
}
