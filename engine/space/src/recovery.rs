//! Opening a table file: the newest header that verifies, its image, and the replay of later log
//! records (S4, S5 of `file.rs`).
//!
//! Tested by `tests/it`.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{BlockId, Error, ErrorKind, Lsn, Result};
use frond_vfs::{OpenHow, Vfs, VfsFile};

use crate::block_map::BlockMap;
use crate::extent::Extent;
use crate::file::{Checkpoint, Fallback, TableFile, TableFileOptions};
use crate::format::{
    check_image_front, checked_extent, decode_header, decode_image, encode_header, slot_of, Header,
    Identity, ImageRef, Slot, FIRST_EXTENT, HEADER_BYTES, IMAGE_FRONT, MAX_NUMBER,
};
use crate::io as transfer;

/// Bounds of the gap in the numbers of blocks (S8). More blocks than the lower one are hardly written between two edits; with the upper
/// one there are numbers for four million openings.
const MIN_GAP: u64 = 1 << 20;
const MAX_GAP: u64 = 1 << 40;

impl TableFile {
    /// Opens the file in recovery: the block map is that of the newest valid checkpoint, returned with
    /// it (`None`: none was ever written; replay from the table's creation). The caller replays the
    /// edits of the log with [`TableFile::replay_add`] and [`TableFile::replay_free`], and then must call
    /// [`TableFile::finish_recovery`] before it writes.
    ///
    /// `NotFound` without a file; `UnsupportedFormat` when a newer release wrote it; `Corruption` when
    /// no header verifies, the image does not, or the file is another table's.
    pub fn open(
        vfs: &dyn Vfs,
        name: &str,
        options: &TableFileOptions,
    ) -> Result<(TableFile, Option<Checkpoint>)> {
        let how = OpenHow { create_new: false, write: !options.read_only, direct: options.direct };
        let file = vfs.open(name, how).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                Error::new(ErrorKind::NotFound, format!("{name} does not exist"))
            }
            _ => Error::io("open", name, e),
        })?;
        let id = Identity { database: options.database, table: options.table };
        let len = file.len().map_err(|e| Error::io("read the length of", name, e))?;
        if len < FIRST_EXTENT {
            let what = format!("{len} bytes long, shorter than its two headers ({FIRST_EXTENT})");
            return Err(Error::corruption(name, what));
        }
        let (header, fallback) = choose_header(&*file, name, id)?;
        let mut opened =
            TableFile::assemble(name, options, Arc::clone(&file), header, len, fallback);
        let checkpoint = match header.image {
            None => None,
            Some(at) => Some(opened.load_image(&header, at, len)?),
        };
        if !options.read_only {
            opened.gap = MIN_GAP + vfs.random_u64() % (MAX_GAP - MIN_GAP);
            let again = encode_header(&header, id);
            let offset = (slot_of(header.seq) * HEADER_BYTES) as u64;
            transfer::write_padded(&*file, name, &again, offset)?;
            file.sync().map_err(|e| Error::io("sync", name, e))?; // S5
            if header.image.is_none() {
                // The name as well: a crash may have ended creation after the rename.
                vfs.sync_dir().map_err(|e| Error::io("sync the directory of", name, e))?;
            }
        }
        Ok((opened, checkpoint))
    }

    /// Reads and verifies the image and fills block map and allocator from it (S4).
    fn load_image(&mut self, header: &Header, at: ImageRef, len: u64) -> Result<Checkpoint> {
        let extent = at.extent();
        let corrupt = |what: String| {
            Error::corruption(&self.name, format_args!("image at offset {}: {what}", at.offset))
        };
        if extent.end() > len {
            return Err(corrupt(format!("{} bytes reach behind the file's end {len}", at.len)));
        }
        let front = transfer::read(&*self.file, &self.name, at.offset, IMAGE_FRONT)?;
        check_image_front(&front, &at, self.id, header.seq, &self.name)?;
        let bytes = transfer::read(&*self.file, &self.name, at.offset, at.len as usize)?;
        let image = decode_image(&bytes, &at, self.id, header.seq, &self.name)?;
        let space = self.space.get_mut();
        if !space.alloc_at(extent) {
            return Err(corrupt("its extent is not free".into()));
        }
        for (block, extent) in &image.blocks {
            if !space.alloc_at(*extent) {
                return Err(corrupt(format!("block {block} at {extent} overlaps another extent")));
            }
        }
        *self.blocks.get_mut() = BlockMap::of_image(&image.blocks);
        *self.next_block.get_mut() = image.next_block;
        Ok(Checkpoint { seq: header.seq, lsn: header.lsn, image: image.caller })
    }

    /// Replays an edit that added `block`. `Corruption` when the block is there already or its bytes
    /// are in use: log and image do not belong together.
    pub fn replay_add(&self, block: BlockId, extent: Extent) -> Result<()> {
        self.assert_recovering();
        let corrupt = |what: &str| {
            let what = format!("replaying the log: block {block} at {extent}: {what}");
            Error::corruption(&self.name, what)
        };
        let extent = checked_extent(extent.offset, extent.len)
            .ok_or_else(|| corrupt("impossible extent"))?;
        if block >= MAX_NUMBER {
            return Err(corrupt("impossible block id"));
        }
        let mut space = self.space.lock();
        let mut blocks = self.blocks.write();
        if blocks.get(block).is_some() {
            return Err(corrupt("the block exists already"));
        }
        if !space.alloc_at(extent) {
            return Err(corrupt("overlaps an extent in use"));
        }
        blocks.insert(block, extent);
        self.next_block.fetch_max(block + 1, Ordering::Relaxed);
        Ok(())
    }

    /// Replays an edit that removed `block`. `Corruption` when there is no such block.
    pub fn replay_free(&self, block: BlockId) -> Result<()> {
        self.assert_recovering();
        let mut space = self.space.lock();
        let Some(extent) = self.blocks.write().remove(block) else {
            let what = format!("replaying the log: block {block} is removed but was never added");
            return Err(Error::corruption(&self.name, what));
        };
        space.unuse(extent);
        Ok(())
    }

    /// Ends recovery; requires that every record replayed is durable in the log (S3: what they freed
    /// is reusable from here on), and that all edits were replayed, as a later one may name bytes that
    /// look free now. `log_from` is the start of the log that was replayed.
    ///
    /// `Corruption` when a block lies behind the file's end, or when a damaged header forced the use of
    /// a checkpoint so old that the log no longer leads on from it.
    pub fn finish_recovery(&self, log_from: Lsn) -> Result<()> {
        self.assert_recovering();
        if let Some(fallback) = self.fallback.as_ref().filter(|f| f.lsn < log_from) {
            let what = format!(
                "{}; the other header's checkpoint is of LSN {}, and the log begins at {log_from}, \
                 so changes in between may be lost",
                fallback.reason, fallback.lsn
            );
            return Err(Error::corruption(&self.name, what));
        }
        let len = self.file.len().map_err(|e| Error::io("read the length of", &self.name, e))?;
        let mut space = self.space.lock();
        if let Some((block, e)) = self.blocks.read().iter().find(|(_, e)| e.end() > len) {
            let what = format!("block {block} at {e} lies behind the file's end {len}");
            return Err(Error::corruption(&self.name, what));
        }
        self.next_block.fetch_add(self.gap, Ordering::Relaxed); // S8
        space.remember_all_holes();
        self.recovering.store(false, Ordering::Release);
        Ok(())
    }

    fn assert_recovering(&self) {
        assert!(self.recovering.load(Ordering::Acquire), "replay after recovery");
    }
}

/// Reads both header slots and picks the newest that verifies.
fn choose_header(
    file: &dyn VfsFile,
    name: &str,
    id: Identity,
) -> Result<(Header, Option<Fallback>)> {
    let bytes = transfer::read(file, name, 0, 2 * HEADER_BYTES)?;
    let first = decode_header(&bytes[..HEADER_BYTES], 0, id, name)?;
    let second = decode_header(&bytes[HEADER_BYTES..], 1, id, name)?;
    match (first, second) {
        // Sequences differ: their lowest bit is the slot.
        (Slot::Valid(a), Slot::Valid(b)) => Ok((if a.seq > b.seq { a } else { b }, None)),
        (Slot::Valid(h), Slot::Invalid(why)) => Ok((h, Some(fell_back(&h, HEADER_BYTES, &why)))),
        (Slot::Invalid(why), Slot::Valid(h)) => Ok((h, Some(fell_back(&h, 0, &why)))),
        (Slot::Invalid(a), Slot::Invalid(b)) => Err(Error::corruption(
            name,
            format_args!(
                "neither header verifies (at offset 0: {a}; at offset {}: {b})",
                HEADER_BYTES
            ),
        )),
    }
}

fn fell_back(used: &Header, damaged: usize, why: &str) -> Fallback {
    let reason = format!("the header at offset {damaged} does not verify ({why})");
    Fallback { lsn: used.lsn, reason }
}
