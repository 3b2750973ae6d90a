//! The size at which a shelf's backlog goes down (is merged into the base).

use crate::write_buffer::backlog::Backlog;
use crate::write_buffer::base::Base;

/// The fewest and the most entries of a backlog, before `beside` spreads the limits.
const FEWEST: usize = 512;
const MOST: usize = 32 << 10;
/// A backlog is at most this fraction of its base.
const SHARE: usize = 2;
/// Bytes that any backlog may have.
const BACKLOG_BYTES: usize = 1 << 20;

/// The limit beside one base.
#[derive(Default)]
pub(crate) struct BacklogLimit {
    /// Entries at which the backlog goes down.
    entries: usize,
    /// Bytes at which it goes down.
    bytes: usize,
    /// Bytes of the base's records: a large shelf's backlog has large segments.
    pub about: usize,
}

impl BacklogLimit {
    /// The limit of entries is between half of the share and all of it. With one value for all, the
    /// backlogs of random keys would all be full at the same time.
    pub fn beside(base: &Base) -> BacklogLimit {
        let (entries, about) = (base.len(), base.records.bytes());
        let spread = (entries.wrapping_mul(0x9e37_79b9) >> 16) % 256;
        BacklogLimit {
            entries: (entries / SHARE).clamp(FEWEST, MOST) * (256 + spread) / 512,
            bytes: BACKLOG_BYTES.max(about / SHARE),
            about,
        }
    }

    /// Whether the backlog should go down.
    #[inline]
    pub fn is_used_up(&self, log: &Backlog) -> bool {
        log.len() >= self.entries || log.bytes() > self.bytes
    }

    /// Whether the backlog has grown to twice its limit, because the descent before it is not done.
    pub fn is_overdrawn(&self, log: &Backlog) -> bool {
        log.len() >= 2 * self.entries || log.bytes() > 2 * self.bytes
    }
}
