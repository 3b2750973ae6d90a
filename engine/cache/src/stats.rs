//! Counters of the page cache.

/// Counters since creation, and sizes now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    pub hits: u64,
    pub misses: u64,
    pub inserted: u64,
    pub evicted: u64,
    /// Pages too large for the cache.
    pub rejected: u64,
    /// Inserted pages that had been evicted only recently.
    pub ghost_hits: u64,
    pub pages: u64,
    /// Bytes held, bookkeeping included.
    pub bytes: u64,
    pub limit: u64,
}

/// What is held of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub pages: u64,
    /// Bookkeeping included.
    pub bytes: u64,
}
