//! The readers' snapshots, for merges and write buffers, which drop the versions that no reader needs.
//!
//! Every read is at a snapshot that stays registered while it reads, or at `SEQ_MAX`. While
//! recovery runs there are no snapshots and all that the log holds counts as published: only the
//! newest version of a key is brought back.

use std::sync::Arc;

use frond_base::Seq;
use frond_txn::{CommitClock, SnapshotRegistry};

use crate::canary;

/// See the module.
pub(crate) struct Readers {
    pub snapshots: Arc<SnapshotRegistry>,
    pub clock: Arc<CommitClock>,
}

impl frond_base::Readers for Readers {
    fn retention(&self) -> Vec<Seq> {
        let mut snapshots = self.snapshots.retention(&self.clock);
        if canary::active(canary::FORGET_SNAPSHOTS) {
            snapshots.drain(..snapshots.len() - 1);
        }
        snapshots
    }
}
