//! A database that ends with its process: for tables of single sessions (TEMPORARY ones).
//!
//! It is an engine like any other, with transactions, runs, merges and a budget, over a directory of which
//! nothing is meant to survive:
//!
//! - SCR1. No file is synced, and of the log only the length is kept. A commit's record is empty.
//! - SCR2. Opening removes what an earlier process left there. Nothing is recovered.
//!
//! Rejected: tables without a log in the database itself. Sequences are positions in the log, so a commit that only
//! changes such tables would have none; edits, images, recovery and backups would each have to know of them.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, Result};
use frond_vfs::{DirLock, OpenHow, ReadAt, Spawned, Vfs, VfsFile};
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::identity;
use crate::messages::Log;
use crate::options::{Durability, Options};

/// Nothing has to be replayed, so no table is written for the log's sake.
const LOG_CAPACITY: u64 = 1 << 50;

impl Engine {
    /// Opens an empty database without durability. The directory of `vfs` is empty, or has only the remains of an
    /// earlier such database.
    pub fn open_scratch(vfs: Arc<dyn Vfs>, options: Options, log: Log) -> Result<Engine> {
        wipe(&*vfs)?;
        let options = Options {
            durability: Durability::EachSecond,
            log_capacity_bytes: LOG_CAPACITY,
            recovery_target: 0,
            scratch: true,
            ..options
        };
        Engine::open_with_log(
            Arc::new(ScratchVfs { inner: vfs, logs: Mutex::default() }),
            options,
            log,
        )
    }
}

/// SCR2: removes the files of a database that is not open.
pub fn wipe(vfs: &dyn Vfs) -> Result<()> {
    let directory = |e| Error::io("clear", "the directory of temporary tables", e);
    for name in vfs.list().map_err(directory)? {
        if identity::is_ours(&name) {
            vfs.remove(&name).map_err(|e| Error::io("remove", &name, e))?;
        }
    }
    Ok(())
}

/// See the module.
struct ScratchVfs {
    inner: Arc<dyn Vfs>,
    logs: Mutex<HashMap<String, Arc<Length>>>,
}

impl Vfs for ScratchVfs {
    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        if !identity::is_log(name) {
            return Ok(Arc::new(Unsynced(self.inner.open(name, how)?)));
        }
        let mut logs = self.logs.lock();
        match (logs.get(name), how.create_new) {
            (Some(file), false) => Ok(file.clone()),
            (None, true) => Ok(logs.entry(name.to_owned()).or_default().clone()),
            (Some(_), true) => Err(io::ErrorKind::AlreadyExists.into()),
            (None, false) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        match identity::is_log(name) {
            true => Ok(self.logs.lock().contains_key(name)),
            false => self.inner.exists(name),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if !identity::is_log(from) {
            return self.inner.rename(from, to);
        }
        let mut logs = self.logs.lock();
        let file = logs.remove(from).ok_or(io::ErrorKind::NotFound)?;
        logs.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if !identity::is_log(name) {
            return self.inner.remove(name);
        }
        self.logs.lock().remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.inner.list()?;
        names.extend(self.logs.lock().keys().cloned());
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock_dir(&self) -> io::Result<Box<dyn DirLock>> {
        self.inner.lock_dir()
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn wall_clock(&self) -> Duration {
        self.inner.wall_clock()
    }

    fn random_u64(&self) -> u64 {
        self.inner.random_u64()
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Spawned {
        self.inner.spawn(name, work)
    }

    fn yield_to_others(&self) {
        self.inner.yield_to_others();
    }

    fn return_free_memory(&self) {
        self.inner.return_free_memory();
    }

    fn descriptors(&self) -> Option<u64> {
        self.inner.descriptors()
    }
}

/// A file of the log, of which only the length is kept.
#[derive(Default)]
struct Length(AtomicU64);

impl VfsFile for Length {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.len()?.saturating_sub(offset);
        let n = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        buf[..n].fill(0);
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.0.fetch_max(offset + buf.len() as u64, Ordering::Relaxed);
        Ok(buf.len())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.load(Ordering::Relaxed))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn punch_hole(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn direct(&self) -> Option<usize> {
        None
    }
}

/// A file that is never synced.
struct Unsynced(Arc<dyn VfsFile>);

impl VfsFile for Unsynced {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.punch_hole(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn direct(&self) -> Option<usize> {
        self.0.direct()
    }

    fn read_together(&self, reads: &mut [ReadAt<'_>]) {
        self.0.read_together(reads);
    }
}
