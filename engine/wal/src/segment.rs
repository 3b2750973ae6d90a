//! Segment files: their names, how they come to be and how they go.
//!
//! - G1. A file is prepared under a spare name (`spare.<8 digits>.frl`): created or recycled, its
//!   header written and synced. Only then is it renamed to its log name, and the directory synced.
//!   So every file with a log name has a valid header, in every crash state; anything else is
//!   damage.
//! - G2. Frames are written to a segment only after that rename is durable.
//! - G3. Segments go oldest first, each removal durable before the next one, so that no crash
//!   leaves a gap. A removed segment becomes a spare only when its old name is durably gone (a lost
//!   rename would otherwise show a recycled file under the old name).
//!
//! Recycling matters for speed: writing over blocks that the file system has allocated and written
//! before needs no change of its metadata, so a sync waits for the data alone.

use std::io;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Lsn, Result};
use frond_vfs::{OpenHow, Vfs, VfsFile};

use crate::format::{SegmentHeader, HEADER_BYTES};

/// Segment numbers have eight digits in names.
const MAX_NUMBER: u32 = 99_999_999;

pub fn log_name(number: u32) -> String {
    format!("log.{number:08}.frl")
}

fn spare_name(number: u32) -> String {
    format!("spare.{number:08}.frl")
}

fn parse(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(".frl")?;
    (digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

/// The files of a log directory.
pub struct Listing {
    /// Segment numbers, ascending.
    pub segments: Vec<u32>,
    pub spares: Vec<String>,
    /// The largest number in any of the names, or 0. A spare may have been a segment of its number (`Spares::take_over`).
    pub newest: u32,
}

pub fn list(vfs: &dyn Vfs) -> Result<Listing> {
    let names = vfs.list().map_err(|e| Error::io("list", "the database directory", e))?;
    let mut segments: Vec<u32> = names.iter().filter_map(|n| parse(n, "log.")).collect();
    segments.sort_unstable();
    let number = |name: &String| parse(name, "spare.");
    let newest = names.iter().filter_map(number).chain(segments.last().copied()).max().unwrap_or(0);
    let spares = names.into_iter().filter(|name| number(name).is_some()).collect();
    Ok(Listing { segments, spares, newest })
}

/// Reads and verifies the header of segment `number`; `database` must match when given.
pub fn read_header(
    vfs: &dyn Vfs,
    number: u32,
    database: Option<u64>,
    how: OpenHow,
) -> Result<(SegmentHeader, Arc<dyn VfsFile>)> {
    let name = log_name(number);
    let file = vfs.open(&name, how).map_err(|e| Error::io("open", &name, e))?;
    let mut block = vec![0; HEADER_BYTES as usize];
    let got = read_full(&*file, &mut block, 0).map_err(|e| Error::io("read", &name, e))?;
    let header = SegmentHeader::decode(&block[..got], &name)?;
    if header.number != number {
        let what = format!("segment header: it is segment {}, renamed or copied", header.number);
        return Err(Error::corruption(&name, what));
    }
    if database.is_some_and(|d| d != header.database) {
        return Err(Error::corruption(&name, "segment header: it belongs to another database"));
    }
    Ok((header, file))
}

/// Reads until `buf` is full or the file ends; returns the bytes read.
pub fn read_full(file: &dyn VfsFile, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Files ready to become segments, and how to make more.
pub struct Spares {
    names: Vec<String>,
    segment_bytes: u64,
    /// How many files to keep for reuse.
    keep: usize,
    /// Open spares. Beginning a segment with one needs no new descriptor; there may be none left in the
    /// middle of a commit.
    held: Vec<(String, Arc<dyn VfsFile>)>,
}

impl Spares {
    /// Takes over the spares found at open. Deletes surplus ones, and those that cannot get the disk space
    /// of a segment (the setting was raised, or a crash interrupted their preparation).
    pub fn adopt(
        vfs: &dyn Vfs,
        found: Vec<String>,
        segment_bytes: u64,
        keep: usize,
    ) -> Result<Spares> {
        let mut names = Vec::new();
        for name in found {
            let whole = names.len() < keep
                && match open_allocated(vfs, &name, segment_bytes) {
                    Err(e) if e.kind() == ErrorKind::NoSpace => false,
                    done => done.map(|_| true)?,
                };
            match whole {
                true => names.push(name),
                false => vfs.remove(&name).map_err(|e| Error::io("remove", &name, e))?,
            }
        }
        Ok(Spares { names, segment_bytes, keep, held: Vec::new() })
    }

    /// Makes sure that there are `wanted` spares with their space allocated, `open` of them open. Then a
    /// rotation is short and fails neither for space nor for descriptors. `number`: of the next segment.
    /// Spares made before a failure stay; [`Spares::shed`] removes them.
    pub fn prepare(
        &mut self,
        vfs: &dyn Vfs,
        number: u32,
        wanted: usize,
        open: usize,
    ) -> Result<()> {
        let mut number = number;
        while self.names.len() < wanted {
            let name = spare_name(number);
            number += 1;
            if self.names.contains(&name) {
                continue;
            }
            if let Err(e) = open_allocated(vfs, &name, self.segment_bytes) {
                // A partly allocated file is useless. If it cannot be removed, the next open adopts it.
                let _ = vfs.remove(&name);
                return Err(e);
            }
            self.names.push(name);
        }
        self.hold(vfs, open)?;
        self.hold_one(vfs);
        Ok(())
    }

    /// Opens spares until `open` of them are, or all.
    fn hold(&mut self, vfs: &dyn Vfs, open: usize) -> Result<()> {
        for name in self.names.iter().rev() {
            if self.held.len() >= open {
                break;
            }
            if self.held.iter().all(|(held, _)| held != name) {
                let file =
                    vfs.open(name, OpenHow::WRITE).map_err(|e| Error::io("open", name, e))?;
                self.held.push((name.clone(), file));
            }
        }
        Ok(())
    }

    /// Opens a spare unless one is open. A failure is ignored: the spare is opened again when it is needed.
    pub fn hold_one(&mut self, vfs: &dyn Vfs) {
        let _ = self.hold(vfs, 1);
    }

    /// Removes the file of a spare that is not listed any more. Its space is free when its last descriptor is closed.
    fn remove(held: &mut Vec<(String, Arc<dyn VfsFile>)>, vfs: &dyn Vfs, name: &str) -> Result<()> {
        held.retain(|(open, _)| open != name);
        vfs.remove(name).map_err(|e| Error::io("remove", name, e))
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Number of open spares.
    pub fn open(&self) -> usize {
        self.held.len()
    }

    /// Removes all spares.
    pub fn clear(&mut self, vfs: &dyn Vfs) -> Result<()> {
        for name in self.names.drain(..) {
            Spares::remove(&mut self.held, vfs, &name)?;
        }
        Ok(())
    }

    /// Removes spares beyond `needed` (or beyond the number to keep, if that is more) and closes those beyond
    /// `open`. A large transaction made them and used fewer, or was refused.
    pub fn shed(&mut self, vfs: &dyn Vfs, needed: usize, open: usize) -> Result<()> {
        self.held.truncate(open.max(1));
        for name in self.names.drain(needed.max(self.keep).min(self.names.len())..) {
            Spares::remove(&mut self.held, vfs, &name)?;
        }
        Ok(())
    }

    /// Makes the segment that `header` describes (G1). On return it is durable, with the disk space of
    /// a whole segment. When space or descriptors are lacking ([`ErrorKind::is_shortage`]) it can be
    /// tried again.
    pub fn begin(&mut self, vfs: &dyn Vfs, header: &SegmentHeader) -> Result<Arc<dyn VfsFile>> {
        let bytes = self.segment_bytes;
        self.begin_with(vfs, header, bytes)
    }

    /// As [`Spares::begin`], with disk space for nothing but the header.
    pub fn begin_bare(
        &mut self,
        vfs: &dyn Vfs,
        header: &SegmentHeader,
    ) -> Result<Arc<dyn VfsFile>> {
        self.begin_with(vfs, header, HEADER_BYTES)
    }

    fn begin_with(
        &mut self,
        vfs: &dyn Vfs,
        header: &SegmentHeader,
        bytes: u64,
    ) -> Result<Arc<dyn VfsFile>> {
        if header.number > MAX_NUMBER {
            let what = "the log has used up its segment numbers; dump and restore the database";
            return Err(Error::new(ErrorKind::TooBig, what));
        }
        let (spare, made, opened) = match self.held.pop() {
            Some((spare, file)) => {
                self.names.retain(|name| *name != spare);
                let opened = allocated(file, &spare, bytes);
                (spare, true, opened)
            }
            None => {
                let (spare, made) = match self.names.pop() {
                    Some(spare) => (spare, true),
                    None => (spare_name(header.number), false),
                };
                let opened = open_allocated(vfs, &spare, bytes);
                (spare, made, opened)
            }
        };
        let file = match opened {
            Err(e) if e.kind().is_shortage() => {
                match made {
                    true => self.names.insert(0, spare),
                    false => drop(vfs.remove(&spare)),
                }
                return Err(e);
            }
            done => done?,
        };
        file.write_all_at(&header.encode(), 0).map_err(|e| Error::io("write to", &spare, e))?;
        file.sync().map_err(|e| Error::io("sync", &spare, e))?;
        let name = log_name(header.number);
        if let Err(e) = vfs.rename(&spare, &name) {
            let failed = Error::io("rename", &spare, e);
            self.names.push(spare);
            return Err(failed);
        }
        sync_dir(vfs)?;
        Ok(file)
    }

    /// Takes segment `number` out of the log, durably, and keeps its file (G3).
    pub fn take_over(&mut self, vfs: &dyn Vfs, number: u32) -> Result<()> {
        let (name, spare) = (log_name(number), spare_name(number));
        vfs.rename(&name, &spare).map_err(|e| Error::io("rename", &name, e))?;
        self.held.retain(|(open, _)| *open != spare);
        sync_dir(vfs)?;
        self.names.push(spare);
        Ok(())
    }

    /// Retires a segment (G3). On return it is durably gone; its file stays as a spare if one is wanted.
    pub fn retire(this: &parking_lot::Mutex<Spares>, vfs: &dyn Vfs, number: u32) -> Result<()> {
        let (name, spare) = (log_name(number), spare_name(number));
        let wanted = {
            let spares = this.lock();
            spares.names.len() < spares.keep && !spares.names.contains(&spare)
        };
        let kept = match wanted.then(|| vfs.rename(&name, &spare)) {
            Some(Ok(())) => true,
            Some(Err(e)) => {
                let failed = Error::io("rename", &name, e);
                if failed.kind() != ErrorKind::NoSpace {
                    return Err(failed);
                }
                // A new name can need space in the directory. Removing the file does not.
                false
            }
            None => false,
        };
        if !kept {
            vfs.remove(&name).map_err(|e| Error::io("remove", &name, e))?;
        }
        sync_dir(vfs)?;
        if kept {
            this.lock().names.push(spare);
        }
        Ok(())
    }
}

/// Opens or makes the file `name`, of `bytes` and with disk space for them.
fn open_allocated(vfs: &dyn Vfs, name: &str, bytes: u64) -> Result<Arc<dyn VfsFile>> {
    let file = match vfs.open(name, OpenHow::CREATE) {
        // A spare, perhaps one whose preparation failed.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => vfs.open(name, OpenHow::WRITE),
        done => done,
    };
    let file = file.map_err(|e| Error::io("open", name, e))?;
    allocated(file, name, bytes)
}

/// Makes the open file `name` one of `bytes` with disk space for them.
fn allocated(file: Arc<dyn VfsFile>, name: &str, bytes: u64) -> Result<Arc<dyn VfsFile>> {
    let sized = file.allocate(bytes).and_then(|()| {
        if file.len()? > bytes {
            file.set_len(bytes)?;
        }
        Ok(())
    });
    sized.map_err(|e| Error::io("allocate", name, e))?;
    Ok(file)
}

pub fn sync_dir(vfs: &dyn Vfs) -> Result<()> {
    vfs.sync_dir().map_err(|e| Error::io("sync", "the database directory", e))
}

/// A segment of the open log.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub number: u32,
    pub start: Lsn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_are_segments() {
        assert_eq!(parse("log.00000012.frl", "log."), Some(12));
        for name in
            ["log.12.frl", "log.000000012.frl", "log.+0000012.frl", "log.00000012.frl.bak", "x"]
        {
            assert_eq!(parse(name, "log."), None, "{name}");
        }
        assert_eq!(log_name(12), "log.00000012.frl");
    }
}
