//! Old values die out: a job rewrites the values that pass through it in the newest form.
//!
//! The tree does not know what values mean; its owner gives it a [`Renew`]. Jobs apply it only where values may be old: to
//! all buffers, and to runs whose block number is below a limit. Block numbers only ascend, so the limit
//! separates runs written before the newest form from those written since.
//!
//! - RNW1. The limit is set when no rewrite that began before the newest form is still under way.
//!   Each rewrite holds its `Renewal`, so such rewrites can be counted. Until then every run may be
//!   old.
//! - RNW2. A run whose block is at the limit or above has no old value. A leaf merge keeps only such runs by reference, so it
//!   leaves no old value in the base.
//!
//! `old_values.rs` has the tree's part. Tested in `tests/it/renewal.rs`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{BlockId, EntryKind, EntryRef, EntrySource, Result};
use parking_lot::Mutex;

/// Brings a tree's values into their newest form.
pub trait Renew: Send + Sync {
    /// Puts the newest form of `value` into `out`. False: it has that form already, or its form is not known, and it stays.
    fn renew(&self, value: &[u8], out: &mut Vec<u8>) -> bool;
}

/// How values are renewed, and which blocks may have old ones.
pub(crate) struct Renewal {
    renew: Option<Arc<dyn Renew>>,
    /// Blocks below this may have old values; `u64::MAX` while it is not known (RNW1).
    below: AtomicU64,
}

/// The renewal in force, and earlier ones that rewrites under way may still use.
#[derive(Default)]
pub(crate) struct Renewals {
    /// Made when the first job asks: many trees have none for a long time.
    used: Mutex<Option<Box<Used>>>,
}

struct Used {
    now: Arc<Renewal>,
    earlier: Vec<Arc<Renewal>>,
}

impl Default for Used {
    fn default() -> Used {
        let none = Renewal { renew: None, below: AtomicU64::new(0) };
        Used { now: Arc::new(none), earlier: Vec::new() }
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

    /// Blocks below this may have old values; `None`: not known yet (RNW1).
    pub fn limit(&self) -> Option<BlockId> {
        Some(self.below.load(Ordering::Acquire)).filter(|below| *below != BlockId::MAX)
    }
}

impl Renewals {
    /// The renewal in force. A job keeps it for as long as it writes. All blocks so far are below
    /// `blocks_end()`.
    pub fn current(&self, blocks_end: impl FnOnce() -> BlockId) -> Arc<Renewal> {
        let mut used = self.used.lock();
        let Used { now, earlier } = &mut **used.get_or_insert_default();
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
        let mut used = self.used.lock();
        let Used { now, earlier } = &mut **used.get_or_insert_default();
        let new = Arc::new(Renewal { renew: Some(renew), below });
        earlier.push(std::mem::replace(now, new));
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
