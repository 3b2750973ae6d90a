//! Old values die out: what passes through a job is rewritten as the newest form of values has it.
//!
//! The tree does not know what values mean; whoever does gives it a [`Renew`]. Jobs apply it to what may be old, so
//! others cost nothing: all buffers, and the runs whose block number is below a limit. Block numbers ascend for ever,
//! so the limit divides what was written before the newest form from what was written since.
//!
//! - RNW1. The limit is set when no rewrite that began before the newest form is under way: each holds its `Renewal`.
//!   Until then every run may be old.
//! - RNW2. A run whose block is at the limit or above has no old value. A leaf merge keeps only such runs by reference, so one
//!   that has ended leaves no old value in its base.
//!
//! `old_values.rs` has the tree's part. Tested in `tests/it/renewal.rs`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{BlockId, EntryKind, EntryRef, EntrySource, Result};
use parking_lot::Mutex;

/// Knows the newest form of a tree's values.
pub trait Renew: Send + Sync {
    /// Puts the newest form of `value` into `out`; false: it has it already, or nobody knows it, and stays.
    fn renew(&self, value: &[u8], out: &mut Vec<u8>) -> bool;
}

/// What is to be done with values, and where old ones are.
pub(crate) struct Renewal {
    renew: Option<Arc<dyn Renew>>,
    /// Blocks below may have old values; `u64::MAX` as long as it is not known (RNW1).
    below: AtomicU64,
}

/// The renewal in force, and those that rewrites under way may still have.
pub(crate) struct Renewals {
    now: Mutex<(Arc<Renewal>, Vec<Arc<Renewal>>)>,
}

impl Default for Renewals {
    fn default() -> Renewals {
        let none = Renewal { renew: None, below: AtomicU64::new(0) };
        Renewals { now: Mutex::new((Arc::new(none), Vec::new())) }
    }
}

impl Renewal {
    /// Whether the run with that block may have old values.
    pub fn is_old(&self, block: BlockId) -> bool {
        self.renew.is_some() && block < self.below.load(Ordering::Acquire)
    }

    pub fn is_none(&self) -> bool {
        self.renew.is_none()
    }

    /// The newest form of a value.
    pub fn newest(&self, value: Vec<u8>) -> Vec<u8> {
        let mut newest = Vec::new();
        match &self.renew {
            Some(renew) if renew.renew(&value, &mut newest) => newest,
            _ => value,
        }
    }

    /// Blocks below may have old values; `None`: not known yet (RNW1).
    pub fn limit(&self) -> Option<BlockId> {
        Some(self.below.load(Ordering::Acquire)).filter(|below| *below != BlockId::MAX)
    }
}

impl Renewals {
    /// For a job, which keeps it as long as it writes. No block has the number `blocks_end()`, or a larger one, yet.
    pub fn current(&self, blocks_end: impl FnOnce() -> BlockId) -> Arc<Renewal> {
        let mut all = self.now.lock();
        let (now, earlier) = &mut *all;
        if now.limit().is_none() {
            earlier.retain(|old| Arc::strong_count(old) > 1);
            if earlier.is_empty() {
                now.below.store(blocks_end(), Ordering::Release);
            }
        }
        now.clone()
    }

    /// Values in blocks below `below` may be old; `None`: all that are there.
    pub fn replace(&self, renew: Arc<dyn Renew>, below: Option<BlockId>) {
        let below = AtomicU64::new(below.unwrap_or(BlockId::MAX));
        let mut all = self.now.lock();
        let before = std::mem::replace(&mut all.0, Arc::new(Renewal { renew: Some(renew), below }));
        all.1.push(before);
    }
}

/// Entries whose values are renewed as they pass.
pub(crate) struct Renewing<S> {
    source: S,
    renewal: Arc<Renewal>,
    /// The current entry's value, when it was renewed.
    value: Vec<u8>,
    renewed: bool,
}

impl<S: EntrySource> Renewing<S> {
    pub fn new(source: S, renewal: Arc<Renewal>) -> Renewing<S> {
        let mut it = Renewing { source, renewal, value: Vec::new(), renewed: false };
        it.look();
        it
    }

    #[inline]
    fn look(&mut self) {
        self.renewed = false;
        if let (true, Some(renew)) = (self.source.valid(), &self.renewal.renew) {
            let entry = self.source.entry();
            self.renewed =
                entry.kind == EntryKind::Put && renew.renew(entry.value, &mut self.value);
        }
    }
}

impl<S: EntrySource> EntrySource for Renewing<S> {
    #[inline]
    fn valid(&self) -> bool {
        self.source.valid()
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        let entry = self.source.entry();
        match self.renewed {
            true => EntryRef { value: &self.value, ..entry },
            false => entry,
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.source.advance()?;
        self.look();
        Ok(())
    }
}
