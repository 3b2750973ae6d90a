//! The machine as the engine sees it: files, directory, clock, randomness, threads.
//!
//! [`OsVfs`] is the real one, [`MemVfs`] a plain directory in memory for unit tests. Around another
//! one, [`FilePool`] keeps many files behind few descriptors, and [`OverlayVfs`] keeps writes in
//! memory.
//!
//! Nothing else may touch them (clippy's `disallowed-methods` enforces it), so that a simulator can
//! replace the machine and make it fail in every way that the fault model (docs/fault-model.md)
//! names.
//!
//! What the engine may assume, and nothing more:
//!
//! - V1. Data written is durable only after `sync` of that file returned `Ok`.
//! - V2. A created, renamed or removed name is durable only after `sync_dir` returned `Ok`.
//! - V3. After a failed `sync` nothing is known about what was written since the last good one; the
//!   caller must not retry it.
//! - V4. `read_at` and `write_at` may transfer fewer bytes than asked; the `_exact`/`_all` helpers
//!   loop. A short write ends at a sector's end; otherwise V5 would not hold for the sector that
//!   two calls write. (Linux copies whole pages into its cache; devices take whole sectors.)
//! - V5. Sectors of 512 bytes are written whole: after a crash each sector of an unsynced write
//!   holds its old bytes or its new bytes. (The log relies on it: its last sector is written again
//!   as records are added behind those already durable in it.)
//!
//! Tested by the unit tests of `os` and by every simulator run.

use std::io;
use std::sync::Arc;
use std::time::Duration;

mod aio;
mod aligned;
mod mem;
mod os;
mod overlay;
mod pool;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use aligned::AlignedBuf;
pub use mem::MemVfs;
pub use os::{OsVfs, LOCK_FILE};
pub use overlay::OverlayVfs;
pub use pool::{is_out_of_descriptors, FilePool};

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenHow {
    /// Create it; it must not exist.
    pub create_new: bool,
    pub write: bool,
    /// Bypass the operating system's cache: buffers, offsets and lengths must be multiples of
    /// [`DIRECT_ALIGN`]. An implementation may ignore it (and must, where the file system refuses).
    pub direct: bool,
}

impl OpenHow {
    /// An existing file, to read.
    pub const READ: OpenHow = OpenHow { create_new: false, write: false, direct: false };
    /// An existing file, to read and write.
    pub const WRITE: OpenHow = OpenHow { create_new: false, write: true, direct: false };
    /// A new file, to read and write.
    pub const CREATE: OpenHow = OpenHow { create_new: true, write: true, direct: false };
}

/// Longest file name, bytes.
pub const NAME_MAX: usize = 255;

/// Refuses a name that is not plain: every implementation calls it first.
pub fn check_name(name: &str) -> io::Result<()> {
    let plain = !matches!(name, "" | "." | "..")
        && name.len() <= NAME_MAX
        && !name.bytes().any(|b| b == b'/' || b == 0);
    if plain {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("not a plain file name: {name:?}")))
    }
}

/// Alignment of direct transfers, bytes. Reads may need less ([`VfsFile::direct`]).
pub const DIRECT_ALIGN: usize = 4096;

/// One of several reads of [`VfsFile::read_together`].
pub struct ReadAt<'a> {
    pub buf: &'a mut [u8],
    pub offset: u64,
    /// What [`VfsFile::read_at`] would have returned; `None` before the read.
    pub done: Option<io::Result<usize>>,
}

/// An open file. `close` (drop) never syncs.
#[allow(clippy::len_without_is_empty)] // The length of a file is I/O, not a property.
pub trait VfsFile: Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; 0 only at or after the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at least one byte of `buf` at `offset`, growing the file when needed.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;
    fn len(&self) -> io::Result<u64>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves space for the first `len` bytes, so that writing them later neither runs out of
    /// space nor has to allocate. May extend the file (reading as zeros), never shortens it.
    fn allocate(&self, len: u64) -> io::Result<()> {
        if self.len()? < len {
            self.set_len(len)?;
        }
        Ok(())
    }
    /// Gives the bytes of `[offset, offset + len)` back to the file system; they read as zeros. May
    /// do nothing where the file system cannot.
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Makes data and length durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
    /// Has the system begin to write what its cache holds of this file; `wait`: until that is written. Makes nothing
    /// durable; may do nothing. A failure that this returns is not returned by a later `sync`.
    fn write_back(&self, _wait: bool) -> io::Result<()> {
        Ok(())
    }
    /// Whether transfers bypass the operating system's cache and so must be aligned: then bytes of which memory, offset and
    /// length of a read are multiples; a power of two, at most [`DIRECT_ALIGN`].
    fn direct(&self) -> Option<usize>;

    fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(buf, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                // Only the end of the file ends a direct read within a unit.
                Ok(n)
                    if n < buf.len()
                        && self.direct().is_some_and(|align| !n.is_multiple_of(align)) =>
                {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(n) => {
                    buf = &mut buf[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Does all `reads`, in any order or at once, and sets their `done`.
    fn read_together(&self, reads: &mut [ReadAt<'_>]) {
        for read in reads {
            read.done = Some(self.read_at(read.buf, read.offset));
        }
    }

    fn write_all_at(&self, mut buf: &[u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.write_at(buf, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    buf = &buf[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// A held exclusive lock on the database directory; dropping it releases the lock.
pub trait DirLock: Send + Sync {}

/// A started thread. Dropping detaches; `join` waits.
pub trait JoinThread: Send {
    fn join(self: Box<Self>);
}

/// What [`Vfs::spawn`] returns.
pub type Spawned = io::Result<Option<Box<dyn JoinThread>>>;

/// One database directory on one machine. File names are plain names without separators.
pub trait Vfs: Send + Sync {
    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>>;
    fn exists(&self, name: &str) -> io::Result<bool>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// All file names in the directory, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    fn sync_dir(&self) -> io::Result<()>;
    /// Takes the directory for this process, or fails with `WouldBlock` when another one has it.
    fn lock_dir(&self) -> io::Result<Box<dyn DirLock>>;
    /// Monotonic time since an arbitrary start.
    fn now(&self) -> Duration;
    /// Time since the Unix epoch.
    fn wall_clock(&self) -> Duration;
    fn random_u64(&self) -> u64;
    /// Starts a thread, or returns `None`: then the owner drives the work itself, step by step (the
    /// simulator does). An error: the system has no thread left.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Spawned;
    /// The calling thread does background work: the scheduler should let others go first. A hint;
    /// may do nothing.
    fn yield_to_others(&self) {}
    /// Returns to the system the freed memory that the allocator still holds. A hint; may do nothing.
    fn return_free_memory(&self) {}
    /// How many files this process may have open, for everything it does; `None`: no limit is known.
    fn descriptors(&self) -> Option<u64> {
        None
    }
}
