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

/// The leader and the threads that wait for it.
pub(crate) struct Group {
    pub leading: bool,
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

    /// Returns after a `ring`, at once if it came before.
    pub fn wait(&self) {
        let mut rung = self.rung.lock();
        while !*rung {
            self.woken.wait(&mut rung);
        }
        *rung = false;
    }
}

/// What only the leader touches.
pub(crate) struct Io {
    pub file: Arc<dyn VfsFile>,
    pub segment: u32,
    pub buf: Vec<u8>,
    pub parts: Vec<Part>,
    /// A round failed.
    pub failed: bool,
    /// Counted here during a round, moved to the group at its end.
    pub counts: WalStatus,
}

impl Group {
    pub fn new() -> Group {
        let counts = WalStatus::default();
        Group { leading: false, waiting: Vec::new(), failure: None, counts }
    }
}

impl Io {
    /// Writing goes on in `file`, that of `segment`.
    pub fn new(file: Arc<dyn VfsFile>, segment: u32, buffer_bytes: usize) -> Io {
        let buf = Vec::with_capacity(buffer_bytes);
        Io { file, segment, buf, parts: Vec::new(), failed: false, counts: WalStatus::default() }
    }
}
