//! Memory: the page cache, and the budget that it shares with write buffers and all else that grows.
//!
//! - [`PageCache`]: decompressed pages by (table, block, page); scan-resistant; never above its limit.
//! - [`RowCache`]: single rows by (tree, key), for hot rows that lie at random; [`RowArbiter`] gives it memory
//!   as long as that saves more reads than pages in its place would.
//! - [`IndexCache`]: which fences and filters of runs stay in memory.
//! - [`Budget`]: one number for the whole process, accounted by named parts; [`CachePolicy`] gives the
//!   page cache what the others leave.
//!
//! Pages are immutable and blocks are never rewritten, so there is no dirty state, and only pages
//! of merged runs and dropped tables are invalidated.
//!
//! Tested by the unit tests of each file and by `tests/it`.
#![forbid(unsafe_code)]

mod arbiter;
mod budget;
mod index_cache;
mod page_cache;
mod page_key;
mod policy;
mod row_cache;
mod row_key;
mod row_shard;
mod shard;
mod stats;

pub use arbiter::RowArbiter;
pub use budget::{Budget, Charge, Part};
pub use frond_run::Access;
pub use index_cache::IndexCache;
pub use page_cache::PageCache;
pub use page_key::PageKey;
pub use policy::CachePolicy;
pub use row_cache::RowCache;
pub use row_key::{CachedRow, RowCaching, RowKey};
pub use stats::{CacheStats, Held, RowStats};

/// A value that can be cached: it says how much memory it holds.
pub trait CacheWeight {
    /// Bytes, the value's own size included. Must not change.
    fn memory_bytes(&self) -> usize;
}

impl CacheWeight for frond_run::Page {
    fn memory_bytes(&self) -> usize {
        frond_run::Page::memory_bytes(self)
    }
}
