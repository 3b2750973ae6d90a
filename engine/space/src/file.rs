//! One table's file: blocks that are written once, and checkpoints that name them.
//!
//! A block is written to a fresh extent, synced, and named by a log record ("edit") of the caller. It
//! is never changed. When an edit no longer needs it, it is freed. A checkpoint writes an image
//! (block map and the caller's bytes, the trunk) and a header that names it, so that the log can be
//! trimmed. Recovery is the image of the newest valid header, then the edits of the log after it.
//!
//! # Invariants
//!
//! - S1. An extent is handed out at most once: at any time it belongs to one block, one image or one
//!   write or punch under way. `ExtentTree` asserts it.
//! - S2. A header is written to the slot that is not in use (`format::slot_of`), so a failed write
//!   leaves the other one whole.
//! - S3. What recovery may need stays untouched: the image of the newest durable header until a later
//!   header is durable; a block until the edit that freed it is durable in the log ([`TableFile::release`])
//!   -- only then can no recovery reach a state that names it.
//! - S4. Everything read here verifies before it is used: headers, image, block map. Pages are the
//!   caller's, with the caller's checksums.
//! - S5. Opening writes the header it chose again and syncs, before anything can be reused: after the
//!   death of a process the newest header (and the name of a file just created) may be readable and
//!   yet not durable.
//! - S6. An image's block map names exactly the blocks that its trunk names. The caller says what differs from the
//!   newest image, and the number of blocks must come out right. While a [`CheckpointPin`] is held no freed block is
//!   released, so all of them are still there, and no extent can have passed from one of them to another.
//! - S7. After a failed sync or header write it is unknown which header a restart will find: nothing
//!   is written, reused or given back any more.
//! - S8. A block's number is not given out again, not even that of a block that no image and no edit names: each opening for
//!   writing skips a random gap of numbers, so for each such block the chance is one in 2^40. A backup takes blocks of the same
//!   number for the same bytes, also in a server that was restored and goes on by itself.
//!
//! # What a crash leaves behind
//!
//! 1. During [`TableFile::write_block`], or before the edit that names the block is in the log:
//!    no image and no edit names the extent; recovery does not count it as used.
//! 2. After the edit: the block was synced before (caller), recovery adds it.
//! 3. During a checkpoint before the header write: as 1, for the image's extent.
//! 4. During the header write: the sector is old or new (V5). Old: the older image, untouched (S3),
//!    the log not yet trimmed. New but not durable: S5.
//! 5. After the header's sync: the new image is used; the old one's extent is free.
//! 6. After a free, before its edit is durable: recovery may still name the block; not reused (S3).
//! 7. After the edit is durable: recovery replays the free before it replays any use of those bytes
//!    by a later block, as the log has them in that order.
//!
//! # Locks
//!
//! In this order: `checkpointing` (held through a checkpoint's I/O), `freed`, `space`, `blocks`. The
//! last three are held for memory work only, except that cutting off the file's free end holds `space`.
//! Reads take `blocks` shared, and no lock during I/O.
//!
//! Not here: when to checkpoint or release, what a block holds, moving blocks.
//!
//! Opening is in `recovery.rs`, checkpoints are in `checkpoint.rs`, pins for backups in `pin.rs`.
//!
//! Tested by `tests/it`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{BlockId, Error, ErrorKind, Lsn, Result, TableId};
use frond_vfs::{OpenHow, Vfs, VfsFile};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::block_map::BlockMap;
use crate::extent::{aligned, Extent};
use crate::format::{encode_header, Header, Identity, CREATED, FIRST_EXTENT, MAX_FILE};
use crate::held::Held;
use crate::io as transfer;
use crate::space_map::SpaceMap;

/// Stretches punched per turn of the space lock.
const PUNCH_BATCH: usize = 64;
/// Stretches punched per checkpoint at most; the rest waits for the next one.
const PUNCH_MAX: usize = 4096;

/// Which file this is and how to open it.
#[derive(Clone, Copy, Debug)]
pub struct TableFileOptions {
    /// The database's number; a file of another database is refused.
    pub database: u64,
    pub table: TableId,
    /// Bypass the operating system's cache.
    pub direct: bool,
    /// For tools: nothing is ever written, not even on opening (S5).
    pub read_only: bool,
}

/// What a checkpoint stored.
#[derive(Debug)]
pub struct Checkpoint {
    pub seq: u64,
    /// Edits from here on are to be replayed.
    pub lsn: Lsn,
    /// The caller's bytes.
    pub image: Vec<u8>,
}

/// One of the two headers did not verify, and the other one was used.
#[derive(Clone, Debug)]
pub struct Fallback {
    /// Checkpoint LSN of the header that was used.
    pub lsn: Lsn,
    /// For the operator's log.
    pub reason: String,
}

/// Figures of one file. Bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileStats {
    pub file_bytes: u64,
    /// Blocks, images and headers.
    pub used_bytes: u64,
    /// Number of holes in front of the last used byte.
    pub holes: u64,
    pub hole_bytes: u64,
    pub largest_hole: u64,
    /// Number of blocks, the freed ones that wait included.
    pub blocks: u64,
    /// Number of freed blocks that wait for [`TableFile::release`].
    pub waiting_blocks: u64,
    pub checkpoint_seq: u64,
    pub checkpoint_lsn: Lsn,
    pub image_bytes: u64,
    /// Given back to the file system since the file was opened: holes punched, and ends cut off.
    pub given_back_bytes: u64,
    /// Number of holes that the file system refused to punch.
    pub punch_failures: u64,
    /// Memory held by block map and allocator.
    pub memory_bytes: u64,
}

/// Freed blocks that wait for [`TableFile::release`].
#[derive(Default)]
pub(crate) struct Freed {
    pub waiting: Vec<(Lsn, BlockId)>,
    durable: Lsn,
    pub pins: u32,
    /// For a copy of the file that is being made (`pin.rs`).
    pub held: Option<Held>,
}

/// An open table file. Shared by all threads.
pub struct TableFile {
    pub(crate) name: String,
    pub(crate) id: Identity,
    pub(crate) file: Arc<dyn VfsFile>,
    read_only: bool,
    pub(crate) recovering: AtomicBool,
    pub(crate) fallback: Option<Fallback>,
    pub(crate) next_block: AtomicU64,
    /// Numbers to skip when recovery ends (S8).
    pub(crate) gap: u64,
    /// Held through a checkpoint's I/O.
    pub(crate) checkpointing: Mutex<()>,
    /// The newest durable header.
    pub(crate) header: Mutex<Header>,
    pub(crate) freed: Mutex<Freed>,
    pub(crate) space: Mutex<SpaceMap>,
    pub(crate) blocks: RwLock<BlockMap>,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
    given_back: AtomicU64,
    punch_failures: AtomicU64,
}

impl TableFile {
    /// Creates the file; durable, name included, when it returns. `lsn` is the log's end now: what
    /// happens to the table is logged behind it. A crash leaves either no file of that name or a whole
    /// one, which opens as a table without a checkpoint. `Exists` when there is one. After a shortage there
    /// is no file of that name, and the call may be repeated; after another error the name may be there.
    pub fn create(
        vfs: &dyn Vfs,
        name: &str,
        options: &TableFileOptions,
        lsn: Lsn,
    ) -> Result<TableFile> {
        assert!(!options.read_only, "creating a file for reading only");
        let io = |doing: &'static str| move |e| Error::io(doing, name, e);
        if vfs.exists(name).map_err(io("look for"))? {
            return Err(Error::new(ErrorKind::Exists, format!("{name} exists already")));
        }
        // Written whole under another name first, so that the final name never shows half a file.
        let temporary = format!("{name}.new");
        if vfs.exists(&temporary).map_err(io("look for"))? {
            vfs.remove(&temporary).map_err(io("remove the leftover of"))?;
        }
        let how = OpenHow { create_new: true, write: true, direct: options.direct };
        let file = vfs.open(&temporary, how).map_err(io("create"))?;
        let id = Identity { database: options.database, table: options.table };
        let header = Header { seq: CREATED, lsn, image: None };
        let mut front = encode_header(&Header { seq: CREATED - 1, ..header }, id);
        front.extend_from_slice(&encode_header(&header, id));
        let written = transfer::write_padded(&*file, name, &front, 0)
            .and_then(|()| file.sync().map_err(io("sync")))
            .and_then(|()| vfs.rename(&temporary, name).map_err(io("rename")));
        if let Err(e) = written {
            if e.kind().is_shortage() {
                // Nobody may use this file again: another attempt makes a new one.
                let _ = vfs.remove(&temporary);
            }
            return Err(e);
        }
        // Never a shortage, also on a full disk: the name is there, perhaps not durable, and after a failed sync no
        // other one tells what became of it (V3). Removing the name would need such a sync.
        let no_shortage = |e| Error::io("sync the directory of", name, std::io::Error::other(e));
        vfs.sync_dir().map_err(no_shortage)?;
        let made = TableFile::assemble(name, options, file, header, FIRST_EXTENT, None);
        made.recovering.store(false, Ordering::Release);
        Ok(made)
    }

    pub(crate) fn assemble(
        name: &str,
        options: &TableFileOptions,
        file: Arc<dyn VfsFile>,
        header: Header,
        len: u64,
        fallback: Option<Fallback>,
    ) -> TableFile {
        TableFile {
            name: name.to_string(),
            id: Identity { database: options.database, table: options.table },
            file,
            read_only: options.read_only,
            recovering: AtomicBool::new(true),
            fallback,
            next_block: AtomicU64::new(1),
            gap: 0,
            checkpointing: Mutex::new(()),
            header: Mutex::new(header),
            freed: Mutex::default(),
            space: Mutex::new(SpaceMap::new(len)),
            blocks: RwLock::default(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            given_back: AtomicU64::new(0),
            punch_failures: AtomicU64::new(0),
        }
    }

    /// The LSN of the newest checkpoint; before the first one, that of the creation.
    pub fn checkpoint_lsn(&self) -> Lsn {
        self.header.lock().lsn
    }

    /// The newest durable header as it lies in the file. It includes the checksum of the image that it
    /// names.
    pub fn header_bytes(&self) -> Vec<u8> {
        encode_header(&self.header.lock(), self.id)
    }

    /// Set when opening found one of two headers damaged; worth a line in the operator's log.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.fallback.as_ref()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn table(&self) -> TableId {
        self.id.table
    }

    pub(crate) fn assert_writable(&self) {
        assert!(!self.read_only, "writing to a file opened for reading");
        assert!(!self.recovering.load(Ordering::Acquire), "writing before the end of recovery");
    }

    // ---- blocks

    /// A block id that was never used in this file.
    pub fn next_block(&self) -> BlockId {
        self.next_block.fetch_add(1, Ordering::Relaxed)
    }

    /// No block has this number, or a larger one, yet.
    pub fn blocks_end(&self) -> BlockId {
        self.next_block.load(Ordering::Relaxed)
    }

    /// Writes a new block (id from [`TableFile::next_block`], not empty), padded with zeros to whole
    /// units; not synced. The extent belongs into the edit that names the block. After an error the
    /// block does not exist.
    pub fn write_block(&self, block: BlockId, bytes: &[u8]) -> Result<Extent> {
        self.assert_writable();
        assert!(block < self.next_block.load(Ordering::Relaxed), "an id that was not given out");
        assert!(!bytes.is_empty(), "a block holds something");
        self.check_failed()?;
        let extent = self.alloc(bytes.len() as u64)?;
        if let Err(e) = transfer::write_padded(&*self.file, &self.name, bytes, extent.offset) {
            self.space.lock().free(extent); // crash case 1: nothing names it
            return Err(e);
        }
        let is_new = self.blocks.write().insert(block, extent);
        assert!(is_new, "block {block} is written twice (S1)");
        Ok(extent)
    }

    pub(crate) fn alloc(&self, bytes: u64) -> Result<Extent> {
        aligned(bytes).and_then(|len| self.space.lock().alloc(len)).ok_or_else(|| {
            let limit = format!("{}: a file holds at most {MAX_FILE} bytes", self.name);
            Error::new(ErrorKind::TooBig, limit)
        })
    }

    /// Reads `len` bytes at `offset` of a block. They are not verified here (S4). The block must not
    /// be released before this returns. `Corruption` for a block that is not in the block map or a
    /// range that is not in the block: both come from stored bytes that name what does not exist.
    pub fn read(&self, block: BlockId, offset: u64, len: usize) -> Result<Vec<u8>> {
        let at = self.place(block, offset, len)?;
        transfer::read(&*self.file, &self.name, at, len)
    }

    /// As [`Self::read`] for each of `wants`, all at once where the system can.
    pub fn read_together(&self, wants: &[(BlockId, u64, usize)]) -> Result<Vec<Vec<u8>>> {
        let place = |&(block, offset, len): &(BlockId, u64, usize)| {
            Ok((self.place(block, offset, len)?, len))
        };
        let places = wants.iter().map(place).collect::<Result<Vec<_>>>()?;
        transfer::read_together(&*self.file, &self.name, &places).into_iter().collect()
    }

    /// Where bytes of a block lie in the file.
    fn place(&self, block: BlockId, offset: u64, len: usize) -> Result<u64> {
        let found = self.blocks.read().get(block);
        let Some(extent) = found else {
            let what = format!("block {block} is not in the block map");
            return Err(Error::corruption(&self.name, what));
        };
        if offset.checked_add(len as u64).is_none_or(|end| end > extent.len) {
            let what = format!("bytes [{offset}, +{len}) are not in block {block} at {extent}");
            return Err(Error::corruption(&self.name, what));
        }
        Ok(extent.offset + offset)
    }

    /// Where a block lies.
    pub fn extent(&self, block: BlockId) -> Option<Extent> {
        self.blocks.read().get(block)
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.space.lock().file_len()
    }

    /// Makes all blocks written so far durable. A failure is final (S7).
    pub fn sync(&self) -> Result<()> {
        self.check_failed()?;
        self.file.sync().map_err(|e| self.fail(Error::io("sync", &self.name, e)))
    }

    /// A block that was written and that no edit ever named is free at once, unless it is pinned
    /// (PN1), or a header that names it may be there (S7).
    pub fn discard(&self, block: BlockId) {
        self.assert_writable();
        if self.failed.load(Ordering::Acquire) {
            return;
        }
        let mut freed = self.freed.lock();
        if let Some(held) = freed.held.as_mut().filter(|held| held.keeps(block)) {
            let bytes = self.blocks.read().get(block).map_or(0, |e| e.len);
            held.keep(block, 0, bytes);
            return;
        }
        drop(freed);
        let mut space = self.space.lock();
        let gone = self.blocks.write().remove(block);
        assert!(gone.is_some(), "block {block} is not there to discard");
        gone.into_iter().for_each(|e| space.free(e));
    }

    /// Frees a block that nobody reads any more. An edit removed it, whose record ends at `lsn`; this
    /// call may come late. Never blocks on I/O. The bytes are reusable after [`TableFile::release`] of
    /// `lsn`.
    pub fn free(&self, block: BlockId, lsn: Lsn) {
        self.freed.lock().waiting.push((lsn, block));
    }

    /// The log is durable up to `durable`: blocks freed by edits that end there or before become
    /// reusable (S3), unless a checkpoint is under way (S6): then when it is done.
    pub fn release(&self, durable: Lsn) {
        let mut freed = self.freed.lock();
        freed.durable = freed.durable.max(durable);
        self.settle(freed);
    }

    pub(crate) fn settle(&self, mut freed: MutexGuard<'_, Freed>) {
        let unsafe_now = freed.pins > 0
            || self.recovering.load(Ordering::Acquire)
            || self.failed.load(Ordering::Acquire);
        if unsafe_now || freed.waiting.is_empty() {
            return;
        }
        let durable = freed.durable;
        let Freed { waiting, held, .. } = &mut *freed;
        let mut space = self.space.lock();
        let mut blocks = self.blocks.write();
        waiting.retain(|(lsn, block)| {
            if *lsn > durable {
                return true;
            }
            if let Some(held) = held.as_mut().filter(|held| held.keeps(*block)) {
                held.keep(*block, *lsn, blocks.get(*block).map_or(0, |e| e.len)); // PN1
                return false;
            }
            let gone = blocks.remove(*block);
            assert!(gone.is_some(), "block {block} is freed twice or was never written (S1)");
            gone.into_iter().for_each(|e| space.free(e));
            false
        });
    }

    // ---- space

    /// Cuts off the file's free end and punches what was freed and not reused; checkpoints do it, too.
    /// Returns how many bytes the file system got back.
    pub fn give_back(&self) -> Result<u64> {
        self.assert_writable();
        let mut given = 0;
        if self.failed.load(Ordering::Acquire) {
            return Ok(given); // S7
        }
        {
            // Under the lock: a block allocated behind the cut meanwhile would lose its bytes.
            let mut space = self.space.lock();
            if let Some(len) = space.truncate_to() {
                let shorten = self.file.set_len(len);
                shorten.map_err(|e| Error::io("shorten", &self.name, e))?;
                given += space.file_len() - len;
                space.truncated(len);
            }
        }
        let mut punched = 0;
        while punched < PUNCH_MAX {
            let taken = self.space.lock().take_punchable(PUNCH_BATCH);
            if taken.is_empty() {
                break;
            }
            for hole in &taken {
                match self.file.punch_hole(hole.offset, hole.len) {
                    Ok(()) => given += hole.len,
                    // The file only keeps the space for longer: no error.
                    Err(_) => drop(self.punch_failures.fetch_add(1, Ordering::Relaxed)),
                }
            }
            punched += taken.len();
            self.space.lock().punched(&taken);
        }
        self.given_back.fetch_add(given, Ordering::Relaxed);
        Ok(given)
    }

    /// Memory held by block map and allocator, bytes.
    pub fn memory_bytes(&self) -> u64 {
        let space = self.space.lock();
        (space.memory_bytes() + self.blocks.read().memory_bytes()) as u64
    }

    pub fn stats(&self) -> FileStats {
        let header = *self.header.lock();
        let waiting = self.freed.lock().waiting.len();
        let space = self.space.lock();
        let tree = space.tree();
        let blocks = self.blocks.read();
        FileStats {
            file_bytes: space.file_len(),
            used_bytes: tree.used(),
            holes: tree.holes() as u64,
            hole_bytes: tree.tail() - tree.used(),
            largest_hole: tree.largest_hole(),
            blocks: blocks.len() as u64,
            waiting_blocks: waiting as u64,
            checkpoint_seq: header.seq,
            checkpoint_lsn: header.lsn,
            image_bytes: header.image.map_or(0, |i| i.len),
            given_back_bytes: self.given_back.load(Ordering::Relaxed),
            punch_failures: self.punch_failures.load(Ordering::Relaxed),
            memory_bytes: (space.memory_bytes() + blocks.memory_bytes()) as u64,
        }
    }

    /// Bytes of the file and of its holes, as in [`TableFile::stats`], but with one latch instead of
    /// four.
    pub fn lengths(&self) -> (u64, u64) {
        let space = self.space.lock();
        let tree = space.tree();
        (space.file_len(), tree.tail() - tree.used())
    }

    /// All blocks by offset, freed ones that wait included; for `frond check`.
    pub fn used_extents(&self) -> Vec<(BlockId, Extent)> {
        let mut all: Vec<_> = self.blocks.read().iter().collect();
        all.sort_unstable_by_key(|(_, e)| e.offset);
        all
    }

    /// Where the checkpoint image lies.
    pub fn image_extent(&self) -> Option<Extent> {
        self.header.lock().image.map(|i| i.extent())
    }

    // ---- failure

    /// Latches `error` as the first failure, unless there was one before (S7); returns `error`.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let mut failure = self.failure.lock();
        failure.get_or_insert_with(|| error.duplicate());
        self.failed.store(true, Ordering::Release);
        error
    }

    pub(crate) fn check_failed(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let failure = self.failure.lock();
        let first = failure.as_ref().map_or("", |e| e.message());
        let what = format!("{}: an earlier write failed; restart the server: {first}", self.name);
        Err(Error::new(ErrorKind::Poisoned, what))
    }
}
