//! The two files: one of data, read and written at random and in order, and one that is synced as a
//! log. They are separate as a server's are: in one file the inode's lock would let reads wait for
//! syncs.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, OFlags};

use crate::buffer::{Buffer, Random};
use crate::error::{Error, Result};

/// How the files' names begin.
pub const PREFIX: &str = "frond-bench-device.";

/// The log is a sixteenth of the space, from this to [`LOG_MOST`] bytes.
pub const LOG_LEAST: u64 = 1 << 20;
const LOG_MOST: u64 = 64 << 20;

/// Removes its file at the end (DEV1).
struct Owned(PathBuf);

impl Drop for Owned {
    #[allow(clippy::disallowed_methods)] // No file of a database.
    fn drop(&mut self) {
        // Somebody else may have removed it; nothing can be done about other errors.
        let _ = std::fs::remove_file(&self.0);
    }
}

pub struct Files {
    /// Data, past the system's cache if `direct`.
    pub data: File,
    pub direct: bool,
    /// The smallest power of two that direct reads accept as offset and length; 1 if not `direct`.
    pub offset_alignment: u32,
    /// The log, in the system's cache until it is synced.
    pub log: File,
    /// Bytes of data that have been written; see [`Files::filled`].
    pub data_bytes: u64,
    pub log_bytes: u64,
    pub data_path: PathBuf,
    pub log_path: PathBuf,
    _owned: [Owned; 2],
}

#[allow(clippy::disallowed_methods)] // No file of a database.
fn open(path: &Path, create: bool, flags: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(create)
        .mode(0o600)
        .custom_flags(flags | OFlags::NOFOLLOW.bits() as i32)
        .open(path)
}

impl Files {
    /// Makes both files in `dir`, for `bytes` together; the log is written, the data is empty.
    pub fn create(dir: &Path, bytes: u64) -> Result<Files> {
        let name = |end: &str| dir.join(format!("{PREFIX}{}.{end}", std::process::id()));
        let (data_path, log_path) = (name("data"), name("log"));
        let cached = open(&data_path, true, 0).map_err(Error::at(&data_path, "make"))?;
        let data_owner = Owned(data_path.clone());
        let log = open(&log_path, true, 0).map_err(Error::at(&log_path, "make"))?;
        let owned = [data_owner, Owned(log_path.clone())];

        let log_bytes = (bytes / 16).clamp(LOG_LEAST, LOG_MOST) >> 20 << 20;
        let mut buffer = Buffer::new(1 << 20, &mut Random::new(1));
        for at in (0..log_bytes).step_by(1 << 20) {
            log.write_all_at(buffer.stamped(at), at).map_err(Error::at(&log_path, "write"))?;
        }
        log.sync_all().map_err(Error::at(&log_path, "sync"))?;

        // Some file systems refuse direct I/O at open, others at the first read.
        cached
            .write_all_at(buffer.stamped(0), 0)
            .and_then(|()| cached.sync_all())
            .map_err(Error::at(&data_path, "write"))?;
        let direct = open(&data_path, false, OFlags::DIRECT.bits() as i32).ok();
        let alignment = direct.as_ref().and_then(|file| alignment(file, &mut buffer));
        let (data, direct, offset_alignment) = match (direct, alignment) {
            (Some(file), Some(alignment)) => (file, true, alignment),
            _ => (cached, false, 1),
        };
        let data_bytes = (bytes - log_bytes) >> 20 << 20;
        Ok(Files {
            data,
            direct,
            offset_alignment,
            log,
            data_bytes,
            log_bytes,
            data_path,
            log_path,
            _owned: owned,
        })
    }

    /// The first `bytes` of data have been written: only they are used from now on.
    pub fn filled(&mut self, bytes: u64) {
        assert!(bytes > 0 && bytes <= self.data_bytes);
        self.data_bytes = bytes;
    }

    /// Asks the system to drop the data file from its cache (DEV3: its own file only), if the file
    /// is cached. The system may keep what it likes.
    pub fn forget(&self) -> io::Result<()> {
        if !self.direct {
            self.data.sync_data()?;
            rustix::fs::fadvise(&self.data, 0, None, Advice::DontNeed)?;
            rustix::fs::fadvise(&self.data, 0, None, Advice::Random)?;
        }
        Ok(())
    }
}

/// Finds what `file` accepts, by trying: 512 bytes to 64 KiB.
fn alignment(file: &File, buffer: &mut Buffer) -> Option<u32> {
    (9..=16).map(|power| 1u32 << power).find(|&unit| {
        let part = &mut buffer.bytes()[..unit as usize];
        matches!(file.read_at(part, u64::from(unit)), Ok(n) if n == unit as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_gone_when_the_owner_is() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::create(dir.path(), 32 << 20).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        assert_eq!(files.data_bytes + files.log_bytes, 32 << 20);
        assert_eq!(files.direct, files.offset_alignment >= 512);
        drop(files);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_exists_is_neither_used_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let taken = dir.path().join(format!("{PREFIX}{}.log", std::process::id()));
        std::os::unix::fs::symlink("/dev/null", &taken).unwrap();
        assert!(matches!(Files::create(dir.path(), 32 << 20), Err(Error::System(..))));
        assert!(taken.is_symlink());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the data is gone");
    }
}
