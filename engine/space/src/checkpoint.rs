//! Writing a checkpoint of a table file: an image, then the header that names it (S2, S3, S6, S7 of
//! `file.rs`; crash cases 3 to 5).
//!
//! Tested by `tests/it`.

use std::sync::atomic::Ordering;

use frond_base::{BlockId, Error, ErrorKind, Lsn, Result};
use parking_lot::MutexGuard;

use crate::block_map::BlockChange;
use crate::extent::Extent;
use crate::file::TableFile;
use crate::format::{
    encode_header, encode_image, image_checksum, slot_of, Header, ImageRef, HEADER_BYTES, MAX_IMAGE,
};
use crate::io as transfer;

impl TableFile {
    /// Starts a checkpoint; the caller takes its image of the trunk after this call (S6). Waits
    /// until another checkpoint of this file has ended. Dropping the pin abandons the checkpoint.
    pub fn begin_checkpoint(&self) -> CheckpointPin<'_> {
        self.assert_writable();
        let alone = self.checkpointing.lock();
        self.freed.lock().pins += 1;
        CheckpointPin { file: self, _alone: alone }
    }

    /// [`TableFile::begin_checkpoint`] and [`CheckpointPin::write`] in one, for a caller whose trunk
    /// does not change meanwhile (tests, shutdown).
    pub fn checkpoint(&self, image: &[u8], lsn: Lsn, live: &[BlockId]) -> Result<()> {
        self.begin_checkpoint().write(image, lsn, live)
    }

    /// The blocks of the image that differs by `change` from the newest one, by number (S6).
    fn map_of(&self, change: &BlockChange, lsn: Lsn) -> Vec<(BlockId, Extent)> {
        let gone: Vec<BlockId> = {
            let freed = self.freed.lock();
            freed.waiting.iter().filter(|(at, _)| *at <= lsn).map(|(_, b)| *b).collect()
        };
        let map = self.blocks.read().image(change);
        for block in gone {
            let named = map.binary_search_by_key(&block, |(b, _)| *b).is_ok();
            assert!(!named, "block {block} was removed before LSN {lsn} (S6)");
        }
        map
    }

    /// Makes image and header durable; returns the old image's extent, which recovery does not need
    /// any more.
    fn write_checkpoint(
        &self,
        caller: &[u8],
        lsn: Lsn,
        change: &BlockChange,
    ) -> Result<Option<Extent>> {
        let current = *self.header.lock();
        assert!(lsn >= current.lsn, "checkpoints advance");
        self.check_failed()?;
        let seq = current.seq + 1;
        let map = self.map_of(change, lsn);
        let next_block = self.next_block.load(Ordering::Relaxed);
        let image = encode_image(self.id, seq, next_block, &map, caller);
        if image.len() as u64 > MAX_IMAGE {
            let what = format!("{}: a checkpoint image of {} bytes", self.name, image.len());
            return Err(Error::new(ErrorKind::TooBig, what));
        }
        let extent = self.alloc(image.len() as u64)?;
        if let Err(e) = transfer::write_padded(&*self.file, &self.name, &image, extent.offset) {
            self.space.lock().free(extent); // crash case 3: no header names it
            return Err(e);
        }
        let at = ImageRef {
            offset: extent.offset,
            len: image.len() as u64,
            checksum: image_checksum(&image, self.id, seq),
        };
        debug_assert_eq!(at.extent(), extent);
        let header = Header { seq, lsn, image: Some(at) };
        self.sync()?;
        let slot = slot_of(seq);
        assert_ne!(slot, slot_of(current.seq), "the slot in use is not overwritten (S2)");
        let bytes = encode_header(&header, self.id);
        let offset = (slot * HEADER_BYTES) as u64;
        if let Err(e) = transfer::write_padded(&*self.file, &self.name, &bytes, offset) {
            if e.kind() == ErrorKind::TooManyFiles {
                // The file could not be opened again, so nothing was written: crash case 3.
                self.space.lock().free(extent);
                return Err(e);
            }
            return Err(self.fail(e));
        }
        self.sync()?;
        *self.header.lock() = header;
        self.blocks.write().imaged(change);
        Ok(current.image.map(|at| at.extent()))
    }
}

/// A checkpoint under way: while it is held no freed block is released.
pub struct CheckpointPin<'a> {
    file: &'a TableFile,
    _alone: MutexGuard<'a, ()>,
}

impl CheckpointPin<'_> {
    /// As [`Self::write_changed`] of an image that names exactly `live`. Looks at all blocks.
    pub fn write(self, image: &[u8], lsn: Lsn, live: &[BlockId]) -> Result<()> {
        let change = self.file.blocks.write().change_to(live);
        self.write_changed(image, lsn, &change)
    }

    /// Writes the checkpoint; durable when it returns. `image` is the trunk as of `lsn`, taken after the
    /// pin; it names the blocks of the newest image, changed by `change`. After that, space is given
    /// back.
    ///
    /// A full disk leaves the file as it was; a failed sync or header write is final (S7).
    pub fn write_changed(self, image: &[u8], lsn: Lsn, change: &BlockChange) -> Result<()> {
        let old = self.file.write_checkpoint(image, lsn, change)?;
        if let Some(extent) = old {
            let mut freed = self.file.freed.lock();
            // PN1.
            if !freed.held.as_mut().is_some_and(|held| held.keep_image(extent)) {
                self.file.space.lock().free(extent); // S3: a later header is durable
            }
        }
        let file = self.file;
        drop(self);
        // The checkpoint is durable; space that cannot be freed now can be freed later.
        let _ = file.give_back();
        Ok(())
    }
}

impl Drop for CheckpointPin<'_> {
    fn drop(&mut self) {
        let mut freed = self.file.freed.lock();
        freed.pins -= 1;
        self.file.settle(freed);
    }
}
