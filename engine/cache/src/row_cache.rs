//! The row cache: results of looking up single keys in the runs of trees. It is divided into
//! shards.
//!
//! A page cache keeps a whole page for each hot row when hot rows lie at random. The row cache keeps
//! the row. Readers search it after the write buffers and before the runs. It knows puts, deletions and
//! keys that are not there.
//!
//! - RCA1. A row is the newest version of its key in the tree's runs. It may lack changes of a frozen item, which all
//!   readers search before the cache. The tree ensures this (`frond_tree`, `rows.rs`): it says when a row may be
//!   admitted, and changes the rows before the runs change.
//! - RCA2. `used() <= limit()` at all times, and all of it is charged to [`Part::RowCache`].
//! - RCA3. A row is admitted only if a page was read for its key, and only the second time (`row_shard/mod.rs`). So rows
//!   that the page cache serves take no memory here, and a scan leaves nothing.
//!
//! How much it may hold is up to [`crate::RowArbiter`].
//!
//! Tested by `tests/it`.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use frond_base::{Seq, TableId};
use parking_lot::Mutex;

use crate::arbiter::RowArbiter;
use crate::budget::{Budget, Part};
use crate::row_key::{CachedRow, EachRow, RowCaching, RowKey};
use crate::row_shard::RowShard;
use crate::stats::RowStats;

/// Bytes of the budget per tag; a tag remembers a key for which a page was read, and takes two
/// bytes.
const BUDGET_PER_TAG: usize = 512;
/// Bytes of the budget per shard, and the most shards.
const BUDGET_PER_SHARD: usize = 2 << 20;
const SHARDS_MAX: usize = 64;
/// After this many reads of pages the shares of memory are computed anew.
const WINDOW: u64 = 2048;

/// See the module.
pub struct RowCache {
    shards: Box<[Mutex<RowShard>]>,
    budget: Arc<Budget>,
    takes_all: bool,
    on: AtomicBool,
    trees: AtomicU32,
    reads: AtomicU64,
    /// What the shards' limits add up to.
    limit: AtomicUsize,
    /// Held while the limits are set, so that all shards get those of one caller.
    setting: Mutex<()>,
    pub(crate) arbiter: RowArbiter,
}

impl RowCache {
    /// A cache that charges what it holds to `budget`.
    pub fn new(budget: Arc<Budget>, caching: RowCaching) -> RowCache {
        let bytes = budget.limit();
        let n = (bytes / BUDGET_PER_SHARD).clamp(1, SHARDS_MAX).next_power_of_two();
        let tags = (bytes / BUDGET_PER_TAG / n).max(64).next_power_of_two();
        let shards = (0..n).map(|_| Mutex::new(RowShard::new(0, tags))).collect();
        RowCache {
            shards,
            budget,
            takes_all: caching == RowCaching::Always,
            on: AtomicBool::new(caching != RowCaching::Off),
            trees: AtomicU32::new(0),
            reads: AtomicU64::new(0),
            limit: AtomicUsize::new(0),
            setting: Mutex::new(()),
            arbiter: RowArbiter::default(),
        }
    }

    /// A number for a tree: never used before, so what an earlier tree left is not found.
    pub fn new_tree(&self) -> u32 {
        self.trees.fetch_add(1, Ordering::Relaxed)
    }

    #[inline]
    pub fn is_off(&self) -> bool {
        !self.on.load(Ordering::Relaxed)
    }

    /// Turns the cache on or off. Turning it off drops all rows.
    pub fn turn(&self, on: bool) {
        let _order = self.setting.lock();
        self.on.store(on, Ordering::Relaxed);
        if !on {
            self.apply(0);
        }
    }

    /// Whether a row is admitted though no page was read for it.
    pub fn takes_all(&self) -> bool {
        self.takes_all
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<RowShard> {
        &self.shards[hash as usize & (self.shards.len() - 1)]
    }

    /// The row, if it is here and a snapshot at `at` sees it; its value is appended to `value`.
    #[inline]
    pub fn get(&self, key: &RowKey<'_>, at: Seq, value: Option<&mut Vec<u8>>) -> Option<CachedRow> {
        self.shard(key.hash).lock().get(key, at, value)
    }

    /// A page was read to look the key up. The first: whether the row should be offered to
    /// [`Self::insert`]; the second: whether the shares of memory are to be considered anew.
    pub fn meet(&self, key: &RowKey<'_>) -> (bool, bool) {
        if self.takes_all() {
            return (true, false);
        }
        let due = self.reads.fetch_add(1, Ordering::Relaxed) % WINDOW == WINDOW - 1;
        let known = self.accounted(self.shard(key.hash), |shard| shard.meet(key));
        (known, due)
    }

    /// Admits a row if `may` returns true; `may` is called under the shard's latch.
    pub fn insert(
        &self,
        key: &RowKey<'_>,
        row: CachedRow,
        value: &[u8],
        may: impl FnOnce() -> bool,
    ) {
        self.accounted(self.shard(key.hash), |shard| {
            if may() {
                shard.insert(key, row, value);
            }
        });
    }

    /// The newest version of the key has changed: updates the row, if it is here.
    pub fn update(&self, key: &RowKey<'_>, row: CachedRow, value: &[u8]) {
        self.accounted(self.shard(key.hash), |shard| shard.update(key, row, value));
    }

    /// Drops a tree's rows whose key `matches`; looks at every row.
    pub fn forget(&self, tree: u32, matches: impl Fn(&[u8]) -> bool) {
        self.each(|shard| shard.remove_if(|of, _, key| of == tree && matches(key)));
    }

    /// Drops all rows of these tables, which are in ascending order; looks at every row.
    pub fn forget_tables(&self, tables: &[TableId]) {
        self.each(|shard| shard.remove_if(|_, of, _| tables.binary_search(&TableId(of)).is_ok()));
    }

    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Calls `f` with every row that a shard has of a tree: key, what is known, value. For checks.
    pub fn each_of(&self, shard: usize, tree: u32, f: &mut EachRow<'_>) {
        self.shards[shard].lock().each_of(tree, f);
    }

    /// Changes the limit; evicts at once what exceeds it.
    pub fn set_limit(&self, limit: usize) {
        let _order = self.setting.lock();
        if !self.is_off() {
            self.apply(limit);
        }
    }

    fn apply(&self, limit: usize) {
        if self.limit.swap(limit, Ordering::Relaxed) == limit {
            return;
        }
        let share = limit / self.shards.len();
        self.each(|shard| shard.set_limit(share));
    }

    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Drops rows that were not read for a while.
    pub(crate) fn sweep(&self) {
        self.each(RowShard::sweep);
    }

    /// Bytes held, bookkeeping included.
    pub fn used(&self) -> usize {
        self.shards.iter().map(|s| s.lock().bytes()).sum()
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn stats(&self) -> RowStats {
        let mut sum = RowStats::default();
        for shard in &*self.shards {
            shard.lock().add_stats(&mut sum);
        }
        sum
    }

    fn each(&self, change: impl Fn(&mut RowShard)) {
        for shard in &*self.shards {
            self.accounted(shard, &change);
        }
    }

    /// Changes a shard and charges the difference, both under its latch. Otherwise a removal could be charged before the
    /// insertion that it undoes.
    fn accounted<R>(&self, shard: &Mutex<RowShard>, change: impl FnOnce(&mut RowShard) -> R) -> R {
        let mut shard = shard.lock();
        let before = shard.bytes();
        let result = change(&mut shard);
        if shard.bytes() != before {
            self.budget.replace(Part::RowCache, before, shard.bytes());
        }
        assert!(shard.bytes() <= shard.limit(), "the row cache is above its limit (RCA2)");
        result
    }
}

impl Drop for RowCache {
    fn drop(&mut self) {
        let held = self.used();
        self.budget.sub(Part::RowCache, held);
    }
}
