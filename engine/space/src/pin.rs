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
use crate::format::front;
use crate::held::Held;

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
    /// Ascending by number. Some may have been written and never be named; their bytes may change.
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
    /// Pins what the file has now (PN1); a further call pins what was added since the last one. False: nothing was
    /// added. The caller lets no checkpoint of the file run meanwhile. It takes its log position after this call,
    /// and calls again: if that adds nothing, no record below the position names a block that is not pinned. One
    /// pin at a time.
    pub fn pin(&self) -> bool {
        let header = *self.header.lock();
        let mut freed = self.freed.lock();
        let next_block = self.next_block.load(Ordering::Acquire);
        match &mut freed.held {
            Some(held) if held.next_block() == next_block => return false,
            Some(held) => held.raise(next_block),
            None => freed.held = Some(Held::new(header, next_block)),
        }
        true
    }

    /// What is pinned; `None` without a pin. Takes as long as the file has blocks.
    pub fn pinned(&self) -> Option<PinnedFile> {
        let freed = self.freed.lock();
        let held = freed.held.as_ref()?;
        let all = self.blocks.read();
        let blocks: Vec<_> = all.iter().filter(|(b, _)| held.keeps(*b)).collect();
        drop(all);
        Some(PinnedFile {
            table: self.id.table,
            seq: held.header().seq,
            lsn: held.header().lsn,
            front: front(held.header(), self.id),
            image: held.header().image.map(|at| at.extent()),
            next_block: held.next_block(),
            blocks,
        })
    }

    /// Bytes that are free and kept for the pin.
    pub fn held_bytes(&self) -> u64 {
        self.freed.lock().held.as_ref().map_or(0, Held::bytes)
    }

    /// Ends the pin, if there is one: what was kept for it is reusable.
    pub fn unpin(&self) {
        let mut freed = self.freed.lock();
        let Some(held) = freed.held.take() else { return };
        let (blocks, old_image) = held.into_parts();
        freed.waiting.extend(blocks);
        if let Some(extent) = old_image {
            // The image was kept because a checkpoint replaced it, so a later header is durable
            // (S3).
            self.space.lock().free(extent);
        }
        self.settle(freed);
    }
}
