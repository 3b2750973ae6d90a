//! Which values of a tree may have an old form: the tree's part of `renewal.rs`.

use std::sync::Arc;

use frond_base::{BlockId, Lsn};

use crate::renewal::{Renew, Renewal};
use crate::tree::{Tree, TreeInner};
use crate::view::Content;

impl TreeInner {
    /// The renewal in force. A job keeps it as long as it writes.
    pub fn renewal(&self) -> Arc<Renewal> {
        self.renewals.current(|| self.store.blocks_end())
    }
}

impl Tree {
    /// From now on jobs renew values with `renew`. Values in blocks below `below` may be old; `None`: all existing
    /// values may be.
    pub fn renew_values(&self, renew: Arc<dyn Renew>, below: Option<BlockId>) {
        self.inner.renewals.replace(renew, below);
        drop(self.inner.renewal());
    }

    /// Whether values are renewed.
    pub fn renews_values(&self) -> bool {
        !self.inner.renewal().is_none()
    }

    /// Blocks below this may have values of another form than the newest; `None`: not known yet.
    pub fn old_values_below(&self) -> Option<BlockId> {
        self.inner.renewal().limit()
    }

    /// The smallest block number of the tree's runs.
    pub fn oldest_block(&self) -> Option<BlockId> {
        let view = self.inner.view.load();
        let attached = view.frozen.iter().filter_map(|item| match &item.content {
            Content::Runs(lists) => Some(lists),
            Content::Buffer(_) => None,
        });
        let attached = attached.flatten().flat_map(|runs| runs.iter()).map(|s| s.run.block()).min();
        let trunk = self.inner.install.lock().keys().copied().min();
        trunk.into_iter().chain(attached).min()
    }

    /// Whether no write buffer has entries of records below `lsn`.
    pub fn is_flushed_to(&self, lsn: Lsn) -> bool {
        self.oldest_needed().is_none_or(|oldest| oldest >= lsn)
    }
}
