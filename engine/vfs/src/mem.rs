//! A directory in memory, for unit tests of the other crates: no faults, and nothing is ever lost.
//!
//! It obeys the rules an operating system has (a removed file lives on while it is open,
//! `create_new` refuses an existing name), but has no notion of a crash: the simulator is for that.
//!
//! Tested by the unit tests below.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::os;
use crate::{check_name, DirLock, OpenHow, Spawned, Vfs, VfsFile};

#[derive(Default)]
struct Shared {
    files: Mutex<BTreeMap<String, Arc<RwLock<Vec<u8>>>>>,
    locked: AtomicBool,
    /// Nanoseconds of the stepped clock.
    clock: AtomicU64,
    random: AtomicU64,
}

/// See the module. A clone is another handle to the same directory.
#[derive(Clone)]
pub struct MemVfs {
    shared: Arc<Shared>,
    stepped: bool,
}

impl MemVfs {
    /// An empty directory; threads and clocks are the machine's.
    pub fn new() -> MemVfs {
        MemVfs { shared: Arc::default(), stepped: false }
    }

    /// An empty directory for deterministic tests: no threads (`spawn` returns `None`), a clock
    /// that moves only by [`MemVfs::advance`], and a fixed sequence of random numbers.
    pub fn stepped() -> MemVfs {
        MemVfs { shared: Arc::default(), stepped: true }
    }

    /// Moves the clock of a stepped directory.
    pub fn advance(&self, by: Duration) {
        self.shared.clock.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The bytes of a file, for tests that damage them.
    pub fn contents(&self, name: &str) -> io::Result<Vec<u8>> {
        Ok(self.file(name)?.read().clone())
    }

    /// Replaces the bytes of a file (created when missing).
    pub fn set_contents(&self, name: &str, bytes: Vec<u8>) {
        *self.shared.files.lock().entry(name.to_string()).or_default().write() = bytes;
    }

    fn file(&self, name: &str) -> io::Result<Arc<RwLock<Vec<u8>>>> {
        let files = self.shared.files.lock();
        files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Default for MemVfs {
    fn default() -> Self {
        MemVfs::new()
    }
}

struct MemFile {
    bytes: Arc<RwLock<Vec<u8>>>,
    write: bool,
}

impl MemFile {
    fn writable(&self) -> io::Result<()> {
        if self.write {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file was opened for reading"))
        }
    }
}

impl VfsFile for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes.read();
        let start = bytes.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let n = buf.len().min(bytes.len() - start);
        buf[..n].copy_from_slice(&bytes[start..start + n]);
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.writable()?;
        let mut bytes = self.bytes.write();
        let start = offset as usize;
        let end = start + buf.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(buf);
        Ok(buf.len())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.writable()?;
        self.bytes.write().resize(len as usize, 0);
        Ok(())
    }

    /// Nothing: memory is taken when it is written.
    fn allocate(&self, _len: u64) -> io::Result<()> {
        self.writable()
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.writable()?;
        let mut bytes = self.bytes.write();
        let end = bytes.len().min((offset + len) as usize);
        let start = end.min(offset as usize);
        bytes[start..end].fill(0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn direct(&self) -> Option<usize> {
        None
    }
}

struct MemLock(Arc<Shared>);

impl DirLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.0.locked.store(false, Ordering::Release);
    }
}

impl Vfs for MemVfs {
    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        check_name(name)?;
        let mut files = self.shared.files.lock();
        let bytes = match (files.get(name), how.create_new) {
            (Some(_), true) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(bytes), false) => Arc::clone(bytes),
            (None, true) => Arc::clone(files.entry(name.to_string()).or_default()),
            (None, false) => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(MemFile { bytes, write: how.write || how.create_new }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        check_name(name)?;
        Ok(self.shared.files.lock().contains_key(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut files = self.shared.files.lock();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_string(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        let gone = self.shared.files.lock().remove(name);
        gone.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.shared.files.lock().keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock_dir(&self) -> io::Result<Box<dyn DirLock>> {
        if self.shared.locked.swap(true, Ordering::Acquire) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemLock(Arc::clone(&self.shared))))
    }

    fn now(&self) -> Duration {
        if self.stepped {
            Duration::from_nanos(self.shared.clock.load(Ordering::Relaxed))
        } else {
            os::monotonic()
        }
    }

    fn wall_clock(&self) -> Duration {
        if self.stepped {
            // Some day in 2020: a plausible date, the same in every run.
            Duration::from_secs(1_600_000_000) + self.now()
        } else {
            os::wall_clock()
        }
    }

    fn random_u64(&self) -> u64 {
        if !self.stepped {
            return os::random_u64();
        }
        // SplitMix64.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.shared.random.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Spawned {
        match self.stepped {
            true => Ok(None),
            false => os::spawn(name, work),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_read_back_and_names_behave() {
        let vfs = MemVfs::stepped();
        let f = vfs.open("a", OpenHow::CREATE).unwrap();
        f.write_all_at(b"hello", 3).unwrap();
        assert_eq!(vfs.contents("a").unwrap(), b"\0\0\0hello");
        assert!(vfs.open("a", OpenHow::CREATE).is_err());
        vfs.rename("a", "b").unwrap();
        assert_eq!(vfs.list().unwrap(), ["b"]);
        f.punch_hole(4, 100).unwrap();
        assert_eq!(vfs.contents("b").unwrap(), b"\0\0\0h\0\0\0\0");
        vfs.remove("b").unwrap();
        assert_eq!(f.len().unwrap(), 8);
        assert!(!vfs.exists("b").unwrap());
        assert!(vfs.open("../b", OpenHow::CREATE).is_err());
    }

    #[test]
    fn the_directory_is_locked_once() {
        let vfs = MemVfs::new();
        let held = vfs.lock_dir().unwrap();
        assert_eq!(vfs.clone().lock_dir().err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(held);
        vfs.lock_dir().unwrap();
    }

    #[test]
    fn stepped_has_no_threads_and_its_own_clock() {
        let vfs = MemVfs::stepped();
        assert!(vfs.spawn("x", Box::new(|| ())).unwrap().is_none());
        assert_eq!(vfs.now(), Duration::ZERO);
        vfs.advance(Duration::from_secs(3));
        assert_eq!(vfs.now(), Duration::from_secs(3));
        assert_eq!(vfs.random_u64(), MemVfs::stepped().random_u64());
        assert!(MemVfs::new().spawn("x", Box::new(|| ())).unwrap().is_some());
    }
}
