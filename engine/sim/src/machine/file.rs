//! An open file of the simulated machine: each call may be where it crashes, and may fail.
//!
//! Short transfers end where a sector does (V4 of `frond_vfs`); a full disk cuts a write at the
//! first page for which there is no space.

use std::io;

use frond_vfs::VfsFile;
use parking_lot::{Mutex, MutexGuard};

use super::disk::InodeNo;
use super::faults::Canary;
use super::points::{Action, FileClass};
use super::{content, failed, inode, no_space, Machine, SimVfs};

/// Bytes of a table file that hold its headers.
const TABLE_HEADERS: u64 = 8192;

/// A short write of `n` bytes at `offset`, of `len`, ends where a sector does (V4).
fn whole_sectors(offset: u64, n: usize, len: usize) -> usize {
    let sector = content::SECTOR as u64;
    let end = (offset + n as u64) / sector * sector;
    let end = if end > offset { end } else { (offset / sector + 1) * sector };
    usize::try_from(end - offset).map_or(len, |n| n.min(len))
}

pub(super) struct SimFile {
    pub(super) vfs: SimVfs,
    pub(super) inode: InodeNo,
    /// The class of the name that the file had when it was opened; a log segment is opened as a
    /// spare.
    pub(super) class: Mutex<FileClass>,
    pub(super) write: bool,
}

impl SimFile {
    fn lock(&self) -> io::Result<MutexGuard<'_, Machine>> {
        self.vfs.lock()
    }

    fn writable(&self) -> io::Result<()> {
        if self.write {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file was opened for reading"))
    }

    fn class(&self, m: &Machine) -> FileClass {
        let mut class = self.class.lock();
        if matches!(*class, FileClass::Spare | FileClass::NewTable | FileClass::Other) {
            // It may have been renamed since.
            let name = m.disk.names().into_iter().find(|n| m.disk.find(n) == Some(self.inode));
            if let Some(name) = name {
                *class = FileClass::of(&name);
            }
        }
        *class
    }
}

impl VfsFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut m = self.lock()?;
        let error = m.faults.read_error;
        let n = if buf.is_empty() { 0 } else { m.transfer(buf.len(), error)? };
        let got = m.disk.inode(self.inode).current.read(&mut buf[..n], offset);
        let class = *self.class.lock();
        m.note("read", class, offset, got as u64);
        Ok(got)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.writable()?;
        let mut m = self.lock()?;
        let class = self.class(&m);
        if m.canary == Some(Canary::Livelock) && class == FileClass::Log {
            m.note("interrupted", class, offset, 0);
            return Err(io::ErrorKind::Interrupted.into());
        }
        let headers = class == FileClass::Table && offset < TABLE_HEADERS;
        m.point(if headers { Action::WriteHeader } else { Action::Write }, class);
        let error = m.faults.write_error;
        let mut n = if buf.is_empty() { 0 } else { m.transfer(buf.len(), error)? };
        if n < buf.len() {
            n = whole_sectors(offset, n, buf.len());
        }
        if m.faults.space.is_some() && n > 0 {
            let left = m.space_left();
            while m.disk.pages_for_write(self.inode, offset, n) > left {
                // To the start of the last page touched.
                let end = (offset + n as u64 - 1) / content::PAGE as u64 * content::PAGE as u64;
                if end <= offset {
                    m.note("no space", class, offset, n as u64);
                    return Err(no_space());
                }
                n = (end - offset) as usize;
            }
        }
        let bytes = &buf[..n];
        let sum = frond_base::checksum64(bytes);
        m.note("write", class, offset, sum ^ n as u64);
        match m.canary {
            Some(Canary::HeaderFirst) if headers => {
                m.disk.inode_mut(self.inode).current.write(bytes, offset);
                m.disk.inode_mut(self.inode).durable.write(bytes, offset);
            }
            Some(Canary::LoseLogWrite) if class == FileClass::Log => {
                m.log_writes += 1;
                let inode = m.disk.inode_mut(self.inode);
                if inode.pending.is_empty() || inode.pending.len() % 2 == 0 {
                    inode.write(bytes, offset);
                } else {
                    inode.current.write(bytes, offset);
                }
            }
            Some(Canary::SwapLogWrites) if class == FileClass::Log && n >= 1536 => {
                let mut swapped = bytes.to_vec();
                let middle = n / 2 / 512 * 512;
                swapped[..middle].rotate_left(512.min(middle / 2));
                m.disk.inode_mut(self.inode).write(&swapped, offset);
            }
            Some(Canary::LoseRunTail) if class == FileClass::Table && !headers && n > 4096 => {
                m.disk.inode_mut(self.inode).write(&bytes[..n - 4096], offset);
                m.disk.inode_mut(self.inode).current.write(bytes, offset);
            }
            _ => m.disk.inode_mut(self.inode).write(bytes, offset),
        }
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.lock()?.disk.inode(self.inode).current.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.writable()?;
        let mut m = self.lock()?;
        let class = self.class(&m);
        m.point(Action::SetLen, class);
        m.note("set_len", class, len, 0);
        m.disk.inode_mut(self.inode).set_len(len);
        m.disk.unreserve_behind(self.inode, len);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.writable()?;
        let mut m = self.lock()?;
        let class = self.class(&m);
        m.point(Action::Allocate, class);
        m.note("allocate", class, len, 0);
        if m.disk.pages_for_reserve(self.inode, len) > m.space_left() {
            return Err(no_space());
        }
        m.disk.reserve(self.inode, len);
        let inode = m.disk.inode_mut(self.inode);
        if inode.current.len() < len {
            inode.set_len(len);
        }
        Ok(())
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.writable()?;
        let mut m = self.lock()?;
        let class = self.class(&m);
        m.point(Action::Punch, class);
        m.note("punch", class, offset, len);
        let inode = m.disk.inode_mut(self.inode);
        let end = (offset + len).min(inode.current.len());
        if offset < end {
            inode.punch(offset, end);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut m = self.lock()?;
        let class = self.class(&m);
        m.point(Action::Sync, class);
        m.note("sync", class, 0, 0);
        let error = m.faults.sync_error;
        if m.chance.ppm(error) {
            let mut chance = m.chance.fork(2);
            m.disk.inode_mut(self.inode).fail_sync(&mut chance);
            m.note("sync failed", class, 0, 0);
            return Err(failed());
        }
        let inode = self.inode;
        match (m.canary, class) {
            (Some(Canary::Deadlock), FileClass::Log) => drop(self.vfs.machine.lock()),
            (Some(Canary::SkipLogSync), FileClass::Log)
            | (Some(Canary::HeaderFirst), FileClass::Table)
            | (Some(Canary::SkipTableSync), FileClass::Table | FileClass::NewTable) => {}
            (Some(Canary::ForgetLength), FileClass::Table) => {
                let inode = m.disk.inode_mut(inode);
                let len = inode.durable.len();
                let now = inode.current.len();
                inode.sync();
                inode.durable.set_len(len.min(now).max(TABLE_HEADERS));
                inode.pending.push(inode::Pending::SetLen(now));
                inode.diverged = true;
            }
            _ => m.disk.inode_mut(inode).sync(),
        }
        Ok(())
    }

    fn direct(&self) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_writes_end_where_a_sector_does_and_make_progress() {
        for offset in [0u64, 1, 500, 511, 512, 4096, 5000] {
            for len in [1usize, 2, 400, 512, 513, 4096, 10_000] {
                for n in 1..=len {
                    let done = whole_sectors(offset, n, len);
                    let end = offset + done as u64;
                    assert!(done >= 1 && done <= len, "{offset} {n} {len}: {done}");
                    assert!(end.is_multiple_of(512) || done == len, "{offset} {n} {len}: {done}");
                }
            }
        }
    }
}
