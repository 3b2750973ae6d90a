//! The page cache: shards of [`crate::shard::Shard`], each with its own short mutex and its share of
//! the limit.
//!
//! - PC1. `used() <= limit()` at all times: a shard evicts before it inserts, and rejects a page that is
//!   too large for it. Pages that readers still hold after eviction are the readers' memory.
//! - PC2. Merges evict nothing: pages that they read are not admitted, pages that they write fill
//!   free room only. Scans evict pages that were not read again; of the others only as much as the small queue lacks of its tenth,
//!   and a page of at most a tenth.
//!
//! Values are dropped outside the mutex: freeing a page takes longer than all that is done inside.
//!
//! Tested by `tests/it`.

use std::collections::HashMap;
use std::sync::Arc;

use frond_base::{BlockId, TableId};
use frond_run::Access;
use parking_lot::Mutex;

use crate::budget::{Budget, Part};
use crate::page_key::PageKey;
use crate::shard::{Outcome, Shard};
use crate::stats::{CacheStats, Held};
use crate::CacheWeight;

/// Shards of a large cache: enough that threads on a large machine seldom wait for each other.
const SHARDS_MAX: usize = 64;
/// A shard should have as many bytes: some hundred pages. With twenty, chance gives one shard half as many hot pages again as
/// another, and the small queue holds one or two.
const SHARD_BYTES: usize = 4 << 20;
/// Pages that are looked at in one go by [`PageCache::blocks`].
const PIECE: usize = 512;

/// See the module. `V` is a page; tests use something smaller.
pub struct PageCache<V: CacheWeight = frond_run::Page> {
    shards: Box<[Mutex<Shard<V>>]>,
    budget: Option<Arc<Budget>>,
}

impl<V: CacheWeight> PageCache<V> {
    /// A cache of at most `limit` bytes in `shards` (rounded up to a power of two) shards.
    pub fn new(limit: usize, shards: usize) -> Self {
        Self::build(limit, shards, None)
    }

    /// The same, charging what it holds to [`Part::PageCache`] of `budget`.
    pub fn with_budget(limit: usize, shards: usize, budget: Arc<Budget>) -> Self {
        Self::build(limit, shards, Some(budget))
    }

    /// How many shards a cache of `limit` bytes should have, a power of two. They stay as many when its limit changes.
    pub fn shards_for(limit: usize) -> usize {
        let fit = (limit / SHARD_BYTES).clamp(1, SHARDS_MAX);
        1 << fit.ilog2()
    }

    fn build(limit: usize, shards: usize, budget: Option<Arc<Budget>>) -> Self {
        let n = shards.clamp(1, 1024).next_power_of_two();
        let shards = (0..n).map(|_| Mutex::new(Shard::new(limit / n))).collect();
        PageCache { shards, budget }
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Shard<V>> {
        &self.shards[hash as usize & (self.shards.len() - 1)]
    }

    /// The page, when it is cached.
    #[inline]
    pub fn get(&self, key: &PageKey, access: Access) -> Option<Arc<V>> {
        let hash = key.hash();
        self.shard(hash).lock().get(key, hash, access)
    }

    /// Offers a page that was just read. Returns the cached page when another thread was first, so
    /// that both share it; otherwise `value`, whether it was admitted or not.
    pub fn insert(&self, key: PageKey, value: Arc<V>, access: Access) -> Arc<V> {
        let hash = key.hash();
        let change = |shard: &mut Shard<V>| shard.insert(key, hash, &value, access);
        let (outcome, evicted) = self.accounted(self.shard(hash), change);
        drop(evicted);
        match outcome {
            Outcome::Present(resident) => resident,
            Outcome::Offered => value,
        }
    }

    /// Keeps a page of about `bytes` that was just written, if there is room for it; `make` is called only
    /// then.
    pub fn keep_new(&self, key: PageKey, bytes: usize, make: impl FnOnce() -> Option<V>) {
        let hash = key.hash();
        let shard = self.shard(hash);
        if !shard.lock().has_room(bytes) {
            return;
        }
        let Some(value) = make().map(Arc::new) else { return };
        self.accounted(shard, |shard| shard.insert_new(key, hash, &value));
    }

    /// Changes the limit; evicts at once what exceeds it.
    pub fn set_limit(&self, limit: usize) {
        let share = limit / self.shards.len();
        self.each(|shard| shard.set_limit(share));
    }

    /// Sum of the shards' limits, bytes.
    pub fn limit(&self) -> usize {
        self.shards.iter().map(|s| s.lock().limit()).sum()
    }

    /// Bytes held, bookkeeping included.
    pub fn used(&self) -> usize {
        self.shards.iter().map(|s| s.lock().bytes()).sum()
    }

    /// Drops pages `0..pages` of a block that is gone.
    pub fn forget_block(&self, table: TableId, block: BlockId, pages: u32) {
        let held: usize = self.shards.iter().map(|s| s.lock().len()).sum();
        if pages as usize > held {
            self.each(|shard| shard.remove_if(|k| k.table == table && k.block == block));
            return;
        }
        for page in 0..pages {
            let key = PageKey { table, block, page };
            let hash = key.hash();
            drop(self.accounted(self.shard(hash), |shard| shard.remove(&key, hash)));
        }
    }

    /// Drops all pages of these tables, which are in ascending order; looks at every page.
    pub fn forget_tables(&self, tables: &[TableId]) {
        self.each(|shard| shard.remove_if(|k| tables.binary_search(&k.table).is_ok()));
    }

    /// Drops everything.
    pub fn clear(&self) {
        self.each(|shard| shard.remove_if(|_| true));
    }

    pub fn stats(&self) -> CacheStats {
        let mut sum = CacheStats::default();
        for shard in &*self.shards {
            shard.lock().add_stats(&mut sum);
        }
        sum
    }

    /// Pages and bytes that are held of each block. A shard's mutex is held for some hundred pages at a time, so readers do
    /// not wait for the whole; a page that comes or goes meanwhile may or may not be counted.
    pub fn blocks(&self) -> HashMap<(TableId, BlockId), Held> {
        let mut blocks: HashMap<_, Held> = HashMap::new();
        for shard in &*self.shards {
            let mut from = Some(0);
            while let Some(at) = from {
                let mut pages = Vec::with_capacity(PIECE);
                let tell = &mut |key: &PageKey, bytes| pages.push((key.table, key.block, bytes));
                from = shard.lock().each(at, PIECE, tell);
                for (table, block, bytes) in pages {
                    let held = blocks.entry((table, block)).or_default();
                    held.pages += 1;
                    held.bytes += bytes as u64;
                }
            }
        }
        blocks
    }

    fn each(&self, change: impl Fn(&mut Shard<V>) -> Vec<Arc<V>>) {
        for shard in &*self.shards {
            drop(self.accounted(shard, &change));
        }
    }

    /// Changes a shard and charges the difference, under the shard's mutex: outside, a removal could
    /// be accounted before the insertion it undoes. What `change` returns is dropped by the caller,
    /// outside.
    fn accounted<R>(&self, shard: &Mutex<Shard<V>>, change: impl FnOnce(&mut Shard<V>) -> R) -> R {
        let mut shard = shard.lock();
        let before = shard.bytes();
        let result = change(&mut shard);
        let after = shard.bytes();
        match &self.budget {
            Some(budget) if after > before => budget.add(Part::PageCache, after - before),
            Some(budget) if after < before => budget.sub(Part::PageCache, before - after),
            _ => {}
        }
        result
    }
}

impl<V: CacheWeight> Drop for PageCache<V> {
    fn drop(&mut self) {
        self.clear();
    }
}
