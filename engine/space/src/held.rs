//! What a table file keeps for its pin (`pin.rs` has the rules).

use frond_base::{BlockId, Lsn};

use crate::extent::Extent;
use crate::format::Header;

/// What is held for a pin.
pub struct Held {
    /// The newest durable header when the pin was taken.
    header: Header,
    /// Blocks with numbers below this are pinned.
    next_block: BlockId,
    /// Blocks that were freed and are kept for the pin.
    blocks: Vec<(Lsn, BlockId)>,
    /// The extent of the pinned image, once a checkpoint has replaced it.
    old_image: Option<Extent>,
    /// Bytes of `blocks` and `old_image`.
    bytes: u64,
}

impl Held {
    pub fn new(header: Header, next_block: BlockId) -> Held {
        Held { header, next_block, blocks: Vec::new(), old_image: None, bytes: 0 }
    }

    /// The pinned header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Pinned blocks have numbers below this.
    pub fn next_block(&self) -> BlockId {
        self.next_block
    }

    /// Pins the blocks below `next_block`, too, as far as they still exist. Blocks already freed are not pinned; no image or edit
    /// refers to them.
    pub fn raise(&mut self, next_block: BlockId) {
        assert!(next_block >= self.next_block, "a pin lets go of blocks (PN1)");
        self.next_block = next_block;
    }

    /// Bytes that only the pin keeps.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What was kept: freed blocks, and the image if it was replaced.
    pub fn into_parts(self) -> (Vec<(Lsn, BlockId)>, Option<Extent>) {
        (self.blocks, self.old_image)
    }

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
