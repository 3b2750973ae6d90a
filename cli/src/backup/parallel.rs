//! Copying extents of a file by several threads, to a file or into a pack.
//!
//! - DX1. A file is opened for direct transfers only if [`bypasses_cache`] says so of its extents, and nothing else of it is read
//!   or written through that handle but [`To::write`].
//!
//! A restore transfers directly: nothing else uses the device then. A backup goes through the system's cache, although each byte is then
//! copied twice: direct transfers took less processor time, but left the server's syncs less of the device (docs/benchmarks.md).

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use frond_base::checksum64;
use frond_vfs::{AlignedBuf, Vfs, VfsFile, DIRECT_ALIGN};

use super::copy::{Checksum, Meter, PIECE};
use super::pack::Packer;

/// Where the copied bytes go.
#[derive(Clone)]
pub enum To {
    /// Only read, for their checksums.
    Nowhere,
    /// To the same places in this file.
    File(Arc<dyn VfsFile>),
    /// Into a pack, as pieces of the file of this name.
    Pack(Arc<Packer>, String),
}

impl To {
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self {
            To::Nowhere => Ok(()),
            To::File(file) if file.direct().is_some() && !is_aligned(bytes.as_ptr() as u64) => {
                let mut copy = AlignedBuf::new();
                copy.extend_from_slice(bytes);
                file.write_all_at(&copy, offset)
            }
            To::File(file) => file.write_all_at(bytes, offset),
            To::Pack(pack, path) => pack.piece(path, offset, bytes),
        }
    }

    /// The file that is written.
    fn file(&self) -> Option<Arc<dyn VfsFile>> {
        match self {
            To::Nowhere => None,
            To::File(file) => Some(file.clone()),
            To::Pack(pack, _) => pack.file(),
        }
    }
}

/// Offset and length.
pub type Range = (u64, u64);

/// On average; each smaller one would be a request of its own, where the cache makes a few large ones of them.
const WORTH_A_REQUEST: u64 = 64 << 10;

fn is_aligned(n: u64) -> bool {
    n.is_multiple_of(DIRECT_ALIGN as u64)
}

/// Whether these extents are transferred directly (DX1). Those of a damaged manifest may be anything.
pub fn bypasses_cache(extents: &[Range]) -> bool {
    let all: u64 = extents.iter().map(|(_, len)| *len).fold(0, u64::saturating_add);
    all / WORTH_A_REQUEST >= (extents.len() as u64).max(1)
        && extents.iter().all(|(offset, len)| is_aligned(*offset) && is_aligned(*len))
}

struct Job {
    from: Arc<dyn VfsFile>,
    to: To,
    meter: Meter,
    /// Number of the extent, and the range within it.
    pieces: Vec<(usize, Range)>,
    next: AtomicUsize,
    failed: AtomicBool,
    done: Mutex<Done>,
}

struct Done {
    sums: Vec<u64>,
    error: Option<io::Error>,
}

/// Copies extents of `from` to the same offsets, and returns the checksum of each. Threads take pieces of [`PIECE`] bytes in order.
pub fn extents(
    from: &Arc<dyn VfsFile>,
    to: &To,
    extents: &[Range],
    threads: usize,
    meter: &Meter,
) -> io::Result<Vec<u64>> {
    let mut pieces = Vec::new();
    for (extent, (offset, len)) in extents.iter().copied().enumerate() {
        let mut at = 0;
        while at < len {
            let n = (len - at).min(PIECE as u64);
            pieces.push((extent, (offset + at, n)));
            at += n;
        }
    }
    // One reads while another one writes: nothing else overlaps direct transfers.
    let is_direct = |file: &Arc<dyn VfsFile>| file.direct().is_some();
    let direct = is_direct(from) || matches!(to, To::File(file) if is_direct(file));
    let threads = threads.max(if direct { 2 } else { 1 }).min(pieces.len()).max(1);
    let done = Done { sums: vec![0; pieces.len()], error: None };
    let job = Arc::new(Job {
        from: from.clone(),
        to: to.clone(),
        meter: meter.clone(),
        pieces,
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        done: Mutex::new(done),
    });
    let helpers: Vec<_> = (1..threads)
        .filter_map(|_| {
            let job = job.clone();
            meter.machine().spawn("copy", Box::new(move || job.work())).ok().flatten()
        })
        .collect();
    job.work();
    helpers.into_iter().for_each(|helper| helper.join());
    let mut done = job.done.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = done.error.take() {
        return Err(error);
    }
    let mut sums = vec![Checksum::default(); extents.len()];
    for ((extent, _), sum) in job.pieces.iter().zip(&done.sums) {
        sums[*extent].0.push(*sum);
    }
    Ok(sums.iter().map(Checksum::end).collect())
}

impl Job {
    fn work(&self) {
        let largest = self.pieces.iter().map(|(_, (_, len))| *len).max().unwrap_or(0);
        let mut buffer = AlignedBuf::zeroed(largest as usize);
        while !self.failed.load(Relaxed) {
            let at = self.next.fetch_add(1, Relaxed);
            let Some((_, (offset, len))) = self.pieces.get(at).copied() else { return };
            let buffer = &mut buffer[..len as usize];
            let read = self.from.read_exact_at(buffer, offset);
            let sum = checksum64(buffer);
            let result = read
                .and_then(|()| self.to.write(buffer, offset))
                .and_then(|()| self.meter.copied(len, self.to.file().as_ref()));
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            match result {
                Ok(()) => done.sums[at] = sum,
                Err(error) => {
                    // The first error is the cause: others may follow from it.
                    done.error.get_or_insert(error);
                    self.failed.store(true, Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::copy::{self, Show};
    use frond_vfs::{MemVfs, OpenHow};

    #[test]
    fn threads_copy_the_same_bytes_and_sums_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let meter = Meter::new(dir.path(), None, Show::Nobody).unwrap();
        let vfs = MemVfs::new();
        let open = |name: &str| vfs.open(name, OpenHow::CREATE).unwrap();
        let from = open("from");
        let bytes: Vec<u8> = (0..PIECE as u32 * 3 / 4 + 999).flat_map(u32::to_le_bytes).collect();
        from.write_all_at(&bytes, 0).unwrap();
        let len = bytes.len() as u64;
        let all = [(0, 4096), (8192, PIECE as u64), (5 << 20, len - (5 << 20))];
        let mut want = Vec::new();
        for (offset, len) in all {
            want.push(copy::range(&*from, None, offset, len, &meter).unwrap());
        }
        for threads in [1, 3, 16] {
            let to = open(&format!("to{threads}"));
            let sums = extents(&from, &To::File(to.clone()), &all, threads, &meter).unwrap();
            assert_eq!(sums, want);
            let mut there = vec![0; bytes.len()];
            to.read_exact_at(&mut there, 0).unwrap();
            assert_eq!(there[5 << 20..], bytes[5 << 20..]);
            assert_eq!((&there[..4096], &there[4096..8192]), (&bytes[..4096], &[0; 4096][..]));
        }
        assert!(bypasses_cache(&all[1..2]) && !bypasses_cache(&all), "not aligned");
        assert!(!bypasses_cache(&[(0, 4096), (8192, 8192)]), "small");
        assert!(!bypasses_cache(&[]) && !bypasses_cache(&[(0, u64::MAX), (0, u64::MAX)]));
        let beyond = [(0, 4096), (len - 10, 20)];
        assert!(extents(&from, &To::Nowhere, &beyond, 3, &meter).is_err());
        assert!(extents(&from, &To::Nowhere, &[], 3, &meter).unwrap().is_empty());
    }
}
