//! Pinning a table file for a copy of it, made while the file is in use.
//!
//! - PN1. From [`TableFile::pin`] to [`TableFile::unpin`] the extents of the pinned header's image and of all blocks
//!   with a number below the pin's next block are neither reused, punched nor cut off, whatever frees them.
//! - PN2. Blocks made later are not pinned: what they take goes back as always.
//!
//! Headers are not pinned: checkpoints go on and overwrite both slots. The copy gets [`PinnedFile::front`].
//!
//! Tested by `tests/it/pins.rs`.

use std::sync::atomic::Ordering;

use frond_base::{BlockId, Lsn, TableId};

use crate::extent::Extent;
use crate::file::TableFile;
use crate::format::{front, Header};

/// What is held for a pin.
pub(crate) struct Held {
    /// The newest durable header when the pin was taken.
    header: Header,
    /// Blocks below this are pinned.
    next_block: BlockId,
    /// Freed and kept for the pin.
    blocks: Vec<(Lsn, BlockId)>,
    /// The pinned image was replaced.
    old_image: Option<Extent>,
    /// Bytes of `blocks` and `old_image`.
    bytes: u64,
}

impl Held {
    pub fn keeps(&self, block: BlockId) -> bool {
        block < self.next_block
    }

    /// A pinned block was freed by an edit of `lsn`; it has `bytes`.
    pub fn keep(&mut self, block: BlockId, lsn: Lsn, bytes: u64) {
        assert!(self.keeps(block), "block {block} is not pinned (PN2)");
        self.blocks.push((lsn, block));
        self.bytes += bytes;
    }

    /// Whether `image`, which a checkpoint has replaced, is the pinned one: then it is kept.
    pub fn keep_image(&mut self, image: Extent) -> bool {
        let pinned = self.header.image.is_some_and(|at| at.extent() == image);
        if pinned && self.old_image.is_none() {
            self.old_image = Some(image);
            self.bytes += image.len;
            return true;
        }
        false
    }
}

/// What a copy of a pinned file consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinnedFile {
    pub table: TableId,
    /// Number and log position of the pinned checkpoint.
    pub seq: u64,
    pub lsn: Lsn,
    /// Both header slots as a copy has to have them: the file's first bytes.
    pub front: Vec<u8>,
    /// Where the image is; `None` before the first checkpoint.
    pub image: Option<Extent>,
    /// Blocks have numbers below this.
    pub next_block: BlockId,
    /// By number. Some may be of no use to anybody (written and not named); their bytes may change.
    pub blocks: Vec<(BlockId, Extent)>,
}

impl PinnedFile {
    /// The length that the copy must have at least.
    pub fn len(&self) -> u64 {
        let ends = self.blocks.iter().map(|(_, e)| e.end()).chain(self.image.map(|e| e.end()));
        ends.max().unwrap_or(0).max(self.front.len() as u64)
    }

    /// A file has its headers at least.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl TableFile {
    /// Pins what the file has now (PN1). The caller lets no checkpoint of the file run meanwhile, and
    /// takes its log position after this call. One pin at a time.
    pub fn pin(&self) {
        let header = *self.header.lock();
        let mut freed = self.freed.lock();
        assert!(freed.held.is_none(), "{} is pinned twice", self.name);
        let next_block = self.next_block.load(Ordering::Relaxed);
        let (blocks, old_image, bytes) = (Vec::new(), None, 0);
        freed.held = Some(Held { header, next_block, blocks, old_image, bytes });
    }

    /// What is pinned; `None` without a pin. Takes as long as the file has blocks.
    pub fn pinned(&self) -> Option<PinnedFile> {
        let freed = self.freed.lock();
        let held = freed.held.as_ref()?;
        let all = self.blocks.read();
        let mut blocks: Vec<_> =
            all.iter().filter(|(b, _)| held.keeps(**b)).map(|(b, e)| (*b, *e)).collect();
        drop(all);
        blocks.sort_unstable();
        Some(PinnedFile {
            table: self.id.table,
            seq: held.header.seq,
            lsn: held.header.lsn,
            front: front(&held.header, self.id),
            image: held.header.image.map(|at| at.extent()),
            next_block: held.next_block,
            blocks,
        })
    }

    /// Bytes that are free and kept for the pin.
    pub fn held_bytes(&self) -> u64 {
        self.freed.lock().held.as_ref().map_or(0, |held| held.bytes)
    }

    /// Ends the pin, if there is one: what was kept for it is reusable.
    pub fn unpin(&self) {
        let mut freed = self.freed.lock();
        let Some(held) = freed.held.take() else { return };
        freed.waiting.extend(held.blocks);
        if let Some(extent) = held.old_image {
            // A later header is durable: that was the reason to keep it.
            self.space.lock().free(extent);
        }
        self.settle(freed);
    }
}
