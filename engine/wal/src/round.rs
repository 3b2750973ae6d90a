//! What a round of group commit works on; the rounds are in `group.rs`.

use std::sync::Arc;

use frond_base::{Error, Lsn};
use frond_vfs::VfsFile;

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

/// Who writes and who waits.
pub(crate) struct Group {
    pub leading: bool,
    /// LSNs for which callers of `sync_to` wait.
    pub waiting: Vec<Lsn>,
    pub failure: Option<Error>,
    pub counts: WalStatus,
}

/// What only the leader touches.
pub(crate) struct Io {
    pub file: Arc<dyn VfsFile>,
    pub segment: u32,
    pub buf: Vec<u8>,
    pub parts: Vec<Part>,
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
        Io { file, segment, buf, parts: Vec::new(), counts: WalStatus::default() }
    }
}
