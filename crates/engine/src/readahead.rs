//! Readahead: merges and scans read runs front to back, so their pages come in chunks.
//!
//! A page is about 5 KiB on disk; one direct read each would cost more in latency than in transfer. A
//! small set of chunks is kept per table, one per run being read, replaced oldest first.

use std::sync::Arc;

use frond_base::{BlockId, Result};
use frond_run::RunMeta;
use frond_space::TableFile;
use parking_lot::Mutex;

/// Bytes per chunk.
const CHUNK: usize = 256 << 10;
/// Chunks kept per table: as many runs as a merge reads at once, for two merges.
const CHUNKS_MAX: usize = 24;

struct Chunk {
    block: BlockId,
    offset: u64,
    bytes: Arc<Vec<u8>>,
}

/// Chunks of the runs that are being read in order.
#[derive(Default)]
pub struct Readahead {
    /// Oldest first.
    chunks: Mutex<Vec<Chunk>>,
}

impl Readahead {
    /// `len` bytes at `offset` of the run.
    pub fn read(
        &self,
        file: &TableFile,
        run: &RunMeta,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>> {
        if let Some(found) = self.find(run.block(), offset, len) {
            return Ok(found);
        }
        let rest = run.bytes.saturating_sub(offset);
        if rest < len as u64 || len >= CHUNK {
            // Oversized page, or metadata that points past the run: the file decides.
            return file.read(run.block(), offset, len);
        }
        let want = CHUNK.min(usize::try_from(rest).unwrap_or(CHUNK));
        let bytes = Arc::new(file.read(run.block(), offset, want)?);
        let page = bytes[..len].to_vec();
        let mut chunks = self.chunks.lock();
        chunks.retain(|c| c.block != run.block());
        if chunks.len() >= CHUNKS_MAX {
            chunks.remove(0);
        }
        chunks.push(Chunk { block: run.block(), offset, bytes });
        Ok(page)
    }

    fn find(&self, block: BlockId, offset: u64, len: usize) -> Option<Vec<u8>> {
        let chunks = self.chunks.lock();
        let chunk = chunks.iter().find(|c| c.block == block)?;
        let from = usize::try_from(offset.checked_sub(chunk.offset)?).ok()?;
        Some(chunk.bytes.get(from..from.checked_add(len)?)?.to_vec())
    }

    pub fn forget(&self, block: BlockId) {
        self.chunks.lock().retain(|c| c.block != block);
    }
}
