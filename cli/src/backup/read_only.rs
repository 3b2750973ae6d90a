//! Files of a backup as the engine reads them; every call that would change one is refused.

use std::io;

use frond_vfs::VfsFile;

/// The source of such a file's bytes.
pub trait Readable: Send + Sync {
    /// As [`VfsFile::read_at`].
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    fn len(&self) -> u64;

    /// As [`VfsFile::direct`].
    fn direct(&self) -> Option<usize> {
        None
    }
}

pub struct ReadOnly<R>(pub R);

pub fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "a backup is not written to")
}

impl<R: Readable> VfsFile for ReadOnly<R> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(refused())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn punch_hole(&self, _: u64, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn direct(&self) -> Option<usize> {
        self.0.direct()
    }
}
