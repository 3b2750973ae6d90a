//! Counters of the page cache and the row cache.

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
    /// Pages read from the file that some more memory would have kept: see `shard.rs`, shadow.
    pub missed_again: u64,
    /// Pages that the shadow knows, about.
    pub shadow_slots: u64,
    pub pages: u64,
    /// Bytes held, bookkeeping included.
    pub bytes: u64,
    pub limit: u64,
}

/// What the page cache holds of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub pages: u64,
    /// Bookkeeping included.
    pub bytes: u64,
}

/// Counters of the row cache since creation, and sizes now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowStats {
    pub hits: u64,
    pub misses: u64,
    pub inserted: u64,
    pub evicted: u64,
    /// Pages read for a key for which one was read before, not long ago.
    pub met_again: u64,
    /// Keys that are remembered as met, about.
    pub seen_slots: u64,
    pub rows: u64,
    /// Bytes held, bookkeeping included.
    pub bytes: u64,
    pub limit: u64,
}

impl RowStats {
    pub(crate) fn add(&mut self, other: &RowStats) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.inserted += other.inserted;
        self.evicted += other.evicted;
        self.met_again += other.met_again;
    }
}
