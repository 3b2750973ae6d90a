//! A machine for tests: a directory in memory on a disk of limited size.

use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{MemVfs, OpenHow, Vfs, VfsFile};

/// Methods of a [`Vfs`] or [`VfsFile`] around another one that only call the other one's: `forward!(field: method ...);` in the
/// `impl`. `clocks` are `now`, `wall_clock` and `random_u64`.
#[macro_export]
macro_rules! forward {
    ($to:tt: $($method:ident)*) => { $($crate::forward!(@$method $to);)* };
    (@exists $to:tt) => {
        fn exists(&self, name: &str) -> std::io::Result<bool> { self.$to.exists(name) }
    };
    (@rename $to:tt) => {
        fn rename(&self, from: &str, to: &str) -> std::io::Result<()> { self.$to.rename(from, to) }
    };
    (@remove $to:tt) => {
        fn remove(&self, name: &str) -> std::io::Result<()> { self.$to.remove(name) }
    };
    (@list $to:tt) => {
        fn list(&self) -> std::io::Result<Vec<String>> { self.$to.list() }
    };
    (@sync_dir $to:tt) => {
        fn sync_dir(&self) -> std::io::Result<()> { self.$to.sync_dir() }
    };
    (@lock_dir $to:tt) => {
        fn lock_dir(&self) -> std::io::Result<Box<dyn $crate::DirLock>> { self.$to.lock_dir() }
    };
    (@clocks $to:tt) => {
        fn now(&self) -> std::time::Duration { self.$to.now() }
        fn wall_clock(&self) -> std::time::Duration { self.$to.wall_clock() }
        fn random_u64(&self) -> u64 { self.$to.random_u64() }
    };
    (@spawn $to:tt) => {
        fn spawn(
            &self,
            name: &str,
            work: Box<dyn FnOnce() + Send>,
        ) -> $crate::Spawned {
            self.$to.spawn(name, work)
        }
    };
    (@read_at $to:tt) => {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
            self.$to.read_at(buf, offset)
        }
    };
    (@read_together $to:tt) => {
        fn read_together(&self, reads: &mut [$crate::ReadAt<'_>]) { self.$to.read_together(reads) }
    };
    (@write_at $to:tt) => {
        fn write_at(&self, buf: &[u8], offset: u64) -> std::io::Result<usize> {
            self.$to.write_at(buf, offset)
        }
    };
    (@len $to:tt) => {
        fn len(&self) -> std::io::Result<u64> { self.$to.len() }
    };
    (@set_len $to:tt) => {
        fn set_len(&self, len: u64) -> std::io::Result<()> { self.$to.set_len(len) }
    };
    (@allocate $to:tt) => {
        fn allocate(&self, len: u64) -> std::io::Result<()> { self.$to.allocate(len) }
    };
    (@punch_hole $to:tt) => {
        fn punch_hole(&self, offset: u64, len: u64) -> std::io::Result<()> {
            self.$to.punch_hole(offset, len)
        }
    };
    (@sync $to:tt) => {
        fn sync(&self) -> std::io::Result<()> { self.$to.sync() }
    };
    (@direct $to:tt) => {
        fn direct(&self) -> Option<usize> { self.$to.direct() }
    };
}

/// Space is taken in units of this many bytes.
const PAGE: u64 = 4096;

/// A [`MemVfs`] with a limited number of bytes left. Growing a file takes them (holes count),
/// shortening and removing gives them back. Without room a call fails with the system's error 28
/// and changes nothing.
#[derive(Clone)]
pub struct SmallDisk {
    pub files: MemVfs,
    left: Arc<AtomicI64>,
    /// Changes of lengths and names, one at a time.
    changing: Arc<Mutex<()>>,
}

impl SmallDisk {
    /// `files` on a disk with `left` bytes free.
    pub fn new(files: MemVfs, left: u64) -> SmallDisk {
        let disk = SmallDisk { files, left: Arc::default(), changing: Arc::default() };
        disk.leave(left);
        disk
    }

    /// Leaves `bytes` free; returns what was free before.
    pub fn leave(&self, bytes: u64) -> u64 {
        let left = i64::try_from(bytes).unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
        u64::try_from(self.left.swap(left, Ordering::Relaxed)).unwrap_or(0)
    }

    /// Another program frees `bytes`.
    pub fn add(&self, bytes: u64) {
        self.left.fetch_add(bytes as i64, Ordering::Relaxed);
    }

    fn resized(&self, from: u64, to: u64) -> io::Result<()> {
        let more = to.next_multiple_of(PAGE) as i64 - from.next_multiple_of(PAGE) as i64;
        if more > 0 && self.left.load(Ordering::Relaxed) < more {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.left.fetch_sub(more, Ordering::Relaxed);
        Ok(())
    }
}

struct SmallDiskFile {
    disk: SmallDisk,
    file: Arc<dyn VfsFile>,
}

impl VfsFile for SmallDiskFile {
    crate::forward!(file: read_at len punch_hole sync direct);

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let _one = self.disk.changing.lock();
        let now = self.file.len()?;
        self.disk.resized(now, now.max(offset + buf.len() as u64))?;
        self.file.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let _one = self.disk.changing.lock();
        self.disk.resized(self.file.len()?, len)?;
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match self.file.len()? < len {
            true => self.set_len(len),
            false => Ok(()),
        }
    }
}

impl Vfs for SmallDisk {
    crate::forward!(files: exists rename list sync_dir lock_dir clocks spawn);

    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        let file = self.files.open(name, how)?;
        Ok(Arc::new(SmallDiskFile { disk: self.clone(), file }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let _one = self.changing.lock();
        let bytes = self.files.contents(name)?.len() as u64;
        self.files.remove(name)?;
        self.resized(bytes, 0)
    }
}

/// A [`MemVfs`] whose process may have a limited number of files open. Opening one more fails with
/// the system's error 24. Syncs can be made to fail.
#[derive(Clone)]
pub struct FewFiles {
    pub files: MemVfs,
    inner: Arc<Mutex<FewInner>>,
}

#[derive(Default)]
struct FewInner {
    limit: usize,
    most: usize,
    open: Vec<String>,
    fail_syncs: bool,
    before_sync: Option<Box<dyn FnOnce() + Send>>,
}

impl FewFiles {
    /// `files` of a process that may have `limit` open at a time.
    pub fn new(files: MemVfs, limit: usize) -> FewFiles {
        let inner = FewInner { limit, ..FewInner::default() };
        FewFiles { files, inner: Arc::new(Mutex::new(inner)) }
    }

    /// From now on no file is opened while `limit` are open.
    pub fn leave(&self, limit: usize) {
        self.inner.lock().limit = limit;
    }

    pub fn open_files(&self) -> usize {
        self.inner.lock().open.len()
    }

    /// The most that were open at a time.
    pub fn most_open(&self) -> usize {
        self.inner.lock().most
    }

    /// Whether a file is open that had this name when it was opened.
    pub fn is_open(&self, name: &str) -> bool {
        self.inner.lock().open.iter().any(|n| n == name)
    }

    pub fn fail_syncs(&self, fail: bool) {
        self.inner.lock().fail_syncs = fail;
    }

    /// Runs `then` in the middle of the next sync.
    pub fn before_next_sync(&self, then: Box<dyn FnOnce() + Send>) {
        self.inner.lock().before_sync = Some(then);
    }
}

struct FewFile {
    machine: FewFiles,
    name: String,
    file: Arc<dyn VfsFile>,
}

impl Drop for FewFile {
    fn drop(&mut self) {
        let open = &mut self.machine.inner.lock().open;
        if let Some(at) = open.iter().position(|n| *n == self.name) {
            open.swap_remove(at);
        }
    }
}

impl VfsFile for FewFile {
    crate::forward!(file: read_at write_at len set_len allocate punch_hole direct);

    fn sync(&self) -> io::Result<()> {
        let (fail, first) = {
            let mut inner = self.machine.inner.lock();
            (inner.fail_syncs, inner.before_sync.take())
        };
        if let Some(first) = first {
            first();
        }
        match fail {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => self.file.sync(),
        }
    }
}

impl Vfs for FewFiles {
    crate::forward!(files: exists rename remove list sync_dir lock_dir clocks spawn);

    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        let mut inner = self.inner.lock();
        if inner.open.len() >= inner.limit {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let file = self.files.open(name, how)?;
        inner.open.push(name.to_owned());
        inner.most = inner.most.max(inner.open.len());
        Ok(Arc::new(FewFile { machine: self.clone(), name: name.to_owned(), file }))
    }
}
