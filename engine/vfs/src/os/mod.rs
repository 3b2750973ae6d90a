//! The real machine: one directory of a Linux file system.
//!
//! - OS1. The directory is opened once; every name is resolved relative to that handle, never
//!   follows a symbolic link and must be plain (no separator, not `.` or `..`), so that no bytes of
//!   a log can name a file outside the directory.
//! - OS2. Only regular files are opened: no device, no pipe.
//! - OS3. `sync` is one `fdatasync`. It is never repeated, not even after `EINTR` (V3 in `lib.rs`).
//!
//! It does not retry or hide failures, and closes without syncing.
//!
//! Tested by the unit tests below.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::{
    check_name, DirLock, JoinThread, OpenHow, ReadAt, Spawned, Vfs, VfsFile, DIRECT_ALIGN,
};

/// Name of the file whose lock guards the directory.
pub const LOCK_FILE: &str = "LOCK";

/// Files are created for the owner and readable by the group.
const FILE_MODE: libc::c_uint = 0o640;
const DIR_MODE: u32 = 0o750;

/// See the module.
pub struct OsVfs {
    dir: OwnedFd,
}

/// The result of a call that returns -1 and sets `errno`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn c_name(name: &str) -> io::Result<CString> {
    check_name(name)?;
    CString::new(name).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn open_at(dir: RawFd, name: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_CLOEXEC;
    loop {
        // SAFETY: `name` is NUL-terminated and outlives the call; a mode is passed for O_CREAT.
        match check(unsafe { libc::openat(dir, name.as_ptr(), flags, FILE_MODE) }) {
            // SAFETY: a descriptor just returned by openat is open and owned by nobody else.
            Ok(fd) => return Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn stat(fd: RawFd) -> io::Result<libc::stat> {
    let mut st = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `st` is large enough for the structure that fstat fills.
    check(unsafe { libc::fstat(fd, st.as_mut_ptr()) })?;
    // SAFETY: fstat succeeded and so filled it.
    Ok(unsafe { st.assume_init() })
}

impl OsVfs {
    /// The directory `path`, which must exist.
    pub fn new(path: impl AsRef<Path>) -> io::Result<OsVfs> {
        let path = CString::new(path.as_ref().as_os_str().as_bytes())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let dir = open_at(libc::AT_FDCWD, &path, libc::O_RDONLY | libc::O_DIRECTORY)?;
        Ok(OsVfs { dir })
    }

    /// The directory `path`, created durably when missing (its parent must exist).
    pub fn create(path: impl AsRef<Path>) -> io::Result<OsVfs> {
        use std::os::unix::fs::DirBuilderExt;
        let path = path.as_ref();
        match std::fs::DirBuilder::new().mode(DIR_MODE).create(path) {
            Ok(()) => {
                let parent = match path.parent() {
                    Some(p) if !p.as_os_str().is_empty() => p,
                    _ => Path::new("."),
                };
                OsVfs::new(parent)?.sync_dir()?;
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
        OsVfs::new(path)
    }
}

struct OsFile {
    fd: OwnedFd,
    direct: Option<usize>,
}

/// What direct reads are a multiple of on every device. The pool of files keeps the answer of one opening for the next.
const SECTOR: usize = 512;

/// [`VfsFile::direct`] of a file: what the kernel says (`statx`, since Linux 6.1). A page of a run starts anywhere in the
/// file: on average one more sector is read than it takes, instead of one more unit of 4096 bytes.
fn read_align(fd: RawFd) -> usize {
    let mut st = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is NUL-terminated, and `st` large enough for the structure that statx fills.
    let done = check(unsafe {
        libc::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, st.as_mut_ptr())
    });
    // SAFETY: zeros are a valid structure, and so is what statx has filled.
    let st = unsafe { st.assume_init() };
    let align = SECTOR.max(st.stx_dio_offset_align.max(st.stx_dio_mem_align) as usize);
    let is_known =
        done.is_ok() && st.stx_mask & libc::STATX_DIOALIGN != 0 && st.stx_dio_offset_align > 0;
    if is_known && align.is_power_of_two() && align < DIRECT_ALIGN {
        align
    } else {
        DIRECT_ALIGN
    }
}

impl OsFile {
    fn assert_aligned(&self, buf: &[u8], offset: u64, align: usize) {
        let bits = buf.as_ptr() as usize | buf.len() | offset as usize;
        assert!(
            self.direct.is_none() || bits.is_multiple_of(align),
            "direct transfer is not aligned: {} bytes at {offset}",
            buf.len()
        );
    }

    fn fallocate(&self, mode: libc::c_int, offset: u64, len: u64) -> io::Result<()> {
        let (offset, len) = (off(offset)?, off(len)?);
        loop {
            // SAFETY: no memory is passed.
            match check(unsafe { libc::fallocate(self.fd.as_raw_fd(), mode, offset, len) }) {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// A file offset as the system calls take it.
fn off(n: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(n).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn unsupported(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS))
}

impl VfsFile for OsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.assert_aligned(buf, offset, SECTOR);
        let offset = off(offset)?;
        // SAFETY: the pointer and length are those of `buf`, which is exclusively borrowed.
        let n =
            unsafe { libc::pread(self.fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), offset) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    fn read_together(&self, reads: &mut [ReadAt<'_>]) {
        reads.iter().for_each(|r| self.assert_aligned(r.buf, r.offset, SECTOR));
        // For files in the system's cache, submitting would do each read before it starts the next.
        if self.direct.is_some() && reads.len() > 1 {
            crate::aio::read(self.fd.as_raw_fd(), reads);
        }
        for read in reads.iter_mut().filter(|r| r.done.is_none()) {
            read.done = Some(self.read_at(read.buf, read.offset));
        }
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.assert_aligned(buf, offset, DIRECT_ALIGN);
        let offset = off(offset)?;
        // SAFETY: the pointer and length are those of `buf`, which is borrowed.
        let n =
            unsafe { libc::pwrite(self.fd.as_raw_fd(), buf.as_ptr().cast(), buf.len(), offset) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(stat(self.fd.as_raw_fd())?.st_size as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = off(len)?;
        loop {
            // SAFETY: no memory is passed.
            match check(unsafe { libc::ftruncate(self.fd.as_raw_fd(), len) }) {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match self.fallocate(0, 0, len) {
            Err(e) if unsupported(&e) => {
                if self.len()? < len {
                    self.set_len(len)?;
                }
                Ok(())
            }
            done => done,
        }
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        match self.fallocate(mode, offset, len) {
            Err(e) if unsupported(&e) => Ok(()),
            done => done,
        }
    }

    fn sync(&self) -> io::Result<()> {
        // SAFETY: no memory is passed.
        check(unsafe { libc::fdatasync(self.fd.as_raw_fd()) }).map(drop)
    }

    fn write_back(&self, wait: bool) -> io::Result<()> {
        let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        let how = libc::SYNC_FILE_RANGE_WRITE | if wait { all } else { 0 };
        // SAFETY: no memory is passed.
        check(unsafe { libc::sync_file_range(self.fd.as_raw_fd(), 0, 0, how) }).map(drop)
    }

    fn direct(&self) -> Option<usize> {
        self.direct
    }
}

struct OsLock {
    /// Closing it releases the lock.
    _file: OwnedFd,
}

impl DirLock for OsLock {}

struct OsThread(std::thread::JoinHandle<()>);

impl JoinThread for OsThread {
    fn join(self: Box<Self>) {
        // The panic of a thread was reported when it happened; those who depend on its work notice
        // by other means (poisoning).
        let _ = self.0.join();
    }
}

/// Starts a named thread.
pub(crate) fn spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> Spawned {
    Ok(Some(Box::new(OsThread(thread::Builder::new().name(name.to_string()).spawn(work)?))))
}

/// Nice value of background threads. On two cores iiBench's inserts were a tenth faster with 10 than with
/// 0 (means of four runs each; single runs differ as much). Even beside many busy readers merges get more
/// than a hundredth of the time, and writers that wait for merges use none.
const BACKGROUND_NICE: libc::c_int = 10;

/// On Linux each thread has its own nice value.
pub(crate) fn yield_to_others() {
    // SAFETY: no pointers. Raising one's own nice value is always permitted; if not, nothing changes.
    unsafe {
        let thread = libc::gettid() as libc::id_t;
        libc::setpriority(libc::PRIO_PROCESS, thread, BACKGROUND_NICE);
    }
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid timespec to fill.
    let done = unsafe { libc::clock_gettime(id, &mut ts) };
    assert_eq!(done, 0, "the clocks asked for exist on every Linux");
    Duration::new(u64::try_from(ts.tv_sec).unwrap_or(0), ts.tv_nsec as u32)
}

pub(crate) fn monotonic() -> Duration {
    clock(libc::CLOCK_MONOTONIC)
}

pub(crate) fn wall_clock() -> Duration {
    clock(libc::CLOCK_REALTIME)
}

pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0u8; 8];
    loop {
        // SAFETY: the pointer and length are those of `bytes`. Up to 256 bytes come whole or not.
        let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if n == bytes.len() as isize {
            return u64::from_ne_bytes(bytes);
        }
        let e = io::Error::last_os_error();
        assert_eq!(e.kind(), io::ErrorKind::Interrupted, "getrandom: {e}");
    }
}

impl Vfs for OsVfs {
    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        // O_NONBLOCK changes nothing for regular files and keeps a pipe from blocking us before OS2.
        let mut flags = libc::O_NOFOLLOW | libc::O_NOCTTY | libc::O_NONBLOCK;
        flags |= if how.write || how.create_new { libc::O_RDWR } else { libc::O_RDONLY };
        if how.create_new {
            flags |= libc::O_CREAT | libc::O_EXCL;
        }
        let fd = open_at(self.dir.as_raw_fd(), &c_name(name)?, flags)?;
        if stat(fd.as_raw_fd())?.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        // Not O_DIRECT at open: where the file system refuses, the file may be created all the
        // same.
        let mut direct = None;
        if how.direct {
            // SAFETY: no memory is passed.
            match check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_DIRECT) }) {
                Ok(_) => direct = Some(read_align(fd.as_raw_fd())),
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Arc::new(OsFile { fd, direct }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        let name = c_name(name)?;
        let mut st = MaybeUninit::<libc::stat>::uninit();
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: `name` is NUL-terminated and `st` large enough; it is not read afterwards.
        let done = check(unsafe {
            libc::fstatat(self.dir.as_raw_fd(), name.as_ptr(), st.as_mut_ptr(), flags)
        });
        match done {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to, dir) = (c_name(from)?, c_name(to)?, self.dir.as_raw_fd());
        // SAFETY: both names are NUL-terminated and outlive the call.
        check(unsafe { libc::renameat(dir, from.as_ptr(), dir, to.as_ptr()) }).map(drop)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let name = c_name(name)?;
        // SAFETY: the name is NUL-terminated and outlives the call.
        check(unsafe { libc::unlinkat(self.dir.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
    }

    /// Directories and names that are not UTF-8 are left out: they are not ours.
    fn list(&self) -> io::Result<Vec<String>> {
        // A separate open file description: reading moves its position.
        let fd = open_at(self.dir.as_raw_fd(), c".", libc::O_RDONLY | libc::O_DIRECTORY)?;
        let stream = DirStream::new(fd)?;
        let mut names = Vec::new();
        while let Some(name) = stream.next()? {
            names.extend(name);
        }
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        // SAFETY: no memory is passed.
        check(unsafe { libc::fsync(self.dir.as_raw_fd()) }).map(drop)
    }

    fn lock_dir(&self) -> io::Result<Box<dyn DirLock>> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = open_at(self.dir.as_raw_fd(), &c_name(LOCK_FILE)?, flags)?;
        // flock, not fcntl: it belongs to the open file, so that a second opening by the same
        // process is refused as well, and closing another handle does not release it.
        // SAFETY: no memory is passed.
        check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })?;
        Ok(Box::new(OsLock { _file: file }))
    }

    fn now(&self) -> Duration {
        monotonic()
    }

    fn wall_clock(&self) -> Duration {
        wall_clock()
    }

    fn random_u64(&self) -> u64 {
        random_u64()
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Spawned {
        spawn(name, work)
    }

    fn yield_to_others(&self) {
        yield_to_others();
    }

    fn return_free_memory(&self) {
        #[cfg(target_env = "gnu")]
        // SAFETY: no memory is passed; it may be called at any time, from any thread.
        unsafe {
            libc::malloc_trim(0);
        }
    }

    fn descriptors(&self) -> Option<u64> {
        let mut limit = MaybeUninit::<libc::rlimit>::uninit();
        // SAFETY: `limit` is large enough for the structure that getrlimit fills.
        check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, limit.as_mut_ptr()) }).ok()?;
        // SAFETY: getrlimit succeeded and so filled it.
        let limit = unsafe { limit.assume_init() };
        (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
    }
}

/// An open directory stream.
struct DirStream(std::ptr::NonNull<libc::DIR>);

impl DirStream {
    fn new(fd: OwnedFd) -> io::Result<DirStream> {
        // SAFETY: the descriptor is open; on success the stream owns it, hence the forget.
        let stream = unsafe { libc::fdopendir(fd.as_raw_fd()) };
        let stream = std::ptr::NonNull::new(stream).ok_or_else(io::Error::last_os_error)?;
        std::mem::forget(fd);
        Ok(DirStream(stream))
    }

    /// The next entry: `Some(None)` is one to leave out.
    fn next(&self) -> io::Result<Option<Option<String>>> {
        // SAFETY: errno belongs to this thread. It tells the end (unchanged) from an error.
        unsafe { *libc::__errno_location() = 0 };
        // SAFETY: the stream is open, and no other thread uses it.
        let entry = unsafe { libc::readdir(self.0.as_ptr()) };
        if entry.is_null() {
            return match io::Error::last_os_error() {
                e if e.raw_os_error() == Some(0) => Ok(None),
                e => Err(e),
            };
        }
        // SAFETY: readdir returned an entry, valid until the next call; its name ends with NUL.
        let (kind, name) =
            unsafe { ((*entry).d_type, CStr::from_ptr((*entry).d_name.as_ptr()).to_str()) };
        match name {
            Ok(name) if kind != libc::DT_DIR && name != "." && name != ".." => {
                Ok(Some(Some(name.to_string())))
            }
            _ => Ok(Some(None)),
        }
    }
}

impl Drop for DirStream {
    fn drop(&mut self) {
        // SAFETY: opened in `new`, closed once.
        unsafe { libc::closedir(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests;
