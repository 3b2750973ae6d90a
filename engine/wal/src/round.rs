//! What a round of group commit works on; the rounds are in `group.rs`.

use std::sync::Arc;

use frond_base::{Error, Lsn};
use frond_vfs::VfsFile;
use parking_lot::{Condvar, Mutex};

use crate::status::WalStatus;

/// Buffered bytes that belong to one segment: from `from` to the next part.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub segment: u32,
    pub segment_start: Lsn,
    pub lsn: Lsn,
    pub from: usize,
    pub seed: u64,
}

/// The leaders and the threads that wait for them.
pub(crate) struct Group {
    /// A thread leads a round of writing.
    writing: bool,
    /// A thread leads a round of syncing.
    syncing: bool,
    /// The longest waiting first.
    pub waiting: Vec<Waiter>,
    pub failure: Option<Error>,
    pub counts: WalStatus,
}

/// A caller that waits until `end` is written, or durable.
pub(crate) struct Waiter {
    pub end: Lsn,
    pub sync: bool,
    pub bell: Arc<Bell>,
}

/// Wakes one thread. Each waiting thread has a bell of its own, so it does not compete for a lock
/// when it wakes up.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    woken: Condvar,
}

impl Bell {
    pub fn ring(&self) {
        *self.rung.lock() = true;
        self.woken.notify_one();
    }

    /// Returns after a ring, at once if it came before.
    pub fn wait(&self) {
        let mut rung = self.rung.lock();
        while !std::mem::take(&mut *rung) {
            self.woken.wait(&mut rung);
        }
    }
}

/// What only the leader of a round of writing touches.
pub(crate) struct Io {
    pub file: Arc<dyn VfsFile>,
    pub segment: u32,
    pub buf: Vec<u8>,
    pub parts: Vec<Part>,
    /// A round failed.
    pub failed: bool,
    /// Counted here during a round, moved to the group at its end.
    pub counts: Counts,
}

/// See [`WalStatus`].
#[derive(Default)]
pub(crate) struct Counts {
    pub writes: u64,
    pub bytes_written: u64,
    pub rotations: u64,
}

/// The file to sync: that of the newest segment. One thread syncs it at a time: of two that do, the system would report a failure to one
/// only.
pub(crate) struct Synced {
    pub file: Arc<dyn VfsFile>,
    pub segment: u32,
    /// A sync failed, or panicked: then the log is poisoned a moment later.
    pub failed: bool,
}

impl Group {
    pub fn new() -> Group {
        let counts = WalStatus::default();
        Group { writing: false, syncing: false, waiting: Vec::new(), failure: None, counts }
    }

    /// Names the longest waiting thread that can lead the next round of syncing, or of writing; its bell is to be rung. Nobody else
    /// is woken for that round.
    pub fn name_next(&self, sync: bool) -> Option<Arc<Bell>> {
        self.waiting.iter().find(|w| w.sync == sync).map(|w| w.bell.clone())
    }

    /// Whether a round of syncing, or of writing, has a leader.
    pub fn is_led(&mut self, sync: bool) -> &mut bool {
        match sync {
            true => &mut self.syncing,
            false => &mut self.writing,
        }
    }
}

impl Io {
    /// Writing goes on in `file`, that of `segment`.
    pub fn new(file: Arc<dyn VfsFile>, segment: u32, buffer_bytes: usize) -> Io {
        let buf = Vec::with_capacity(buffer_bytes);
        Io { file, segment, buf, parts: Vec::new(), failed: false, counts: Counts::default() }
    }
}
