//! How much of the budget the page cache and the row cache get.

use crate::budget::{Budget, Part};
use crate::page_cache::PageCache;
use crate::row_cache::RowCache;
use crate::CacheWeight;

/// The two caches get what the other parts and a reserve leave, but never less than a floor for pages: without a
/// page cache a database makes no progress. The arbiter decides how much of this memory rows get.
#[derive(Clone, Copy, Debug)]
pub struct CachePolicy {
    /// The page cache's smallest limit, bytes.
    pub floor: usize,
    /// Kept free for the others' next growth, bytes: what they may take between two adjustments.
    pub reserve: usize,
}

impl CachePolicy {
    /// A floor and a reserve of one sixteenth of the budget each.
    pub fn for_limit(limit: usize) -> CachePolicy {
        CachePolicy { floor: limit / 16, reserve: limit / 16 }
    }

    /// The limit that the page cache should have now, beside the rows that are cached now.
    pub fn cache_limit(&self, budget: &Budget) -> usize {
        let left = self.left(budget).saturating_sub(budget.used_by(Part::RowCache));
        left.max(self.floor).min(budget.limit())
    }

    /// The most that fences and filters of runs may take now: what write buffers and the like leave, but for the
    /// page cache's floor. A look-up that has to read them first reads more than a page.
    pub fn index_limit(&self, budget: &Budget) -> usize {
        let shrink = [Part::PageCache, Part::RowCache, Part::RunIndexes];
        let others =
            budget.used().saturating_sub(shrink.map(|part| budget.used_by(part)).iter().sum());
        let left = budget.limit().saturating_sub(others + self.reserve);
        left.min(budget.limit() - budget.limit() / 16)
            .saturating_sub(self.floor)
            .max(budget.limit() / 64)
    }

    /// What all others leave to pages and rows.
    fn left(&self, budget: &Budget) -> usize {
        let caches = budget.used_by(Part::PageCache) + budget.used_by(Part::RowCache);
        let others = budget.used().saturating_sub(caches);
        budget.limit().saturating_sub(others).saturating_sub(self.reserve)
    }

    /// Sets both limits.
    pub fn fit<V: CacheWeight>(&self, budget: &Budget, cache: &PageCache<V>, rows: &RowCache) {
        let left = self.left(budget).saturating_sub(self.floor);
        // The limit is a multiple of this, so that a buffer whose size goes up and down does not
        // move it all the time.
        let part = (budget.limit() / 256).max(1);
        rows.set_limit(rows.arbiter.limit(left) / part * part);
        // What rows may add until the next adjustment; nothing while no rows are admitted.
        let held = budget.used_by(Part::RowCache);
        let more =
            if held > 0 { rows.limit().saturating_sub(held).min(budget.limit() / 32) } else { 0 };
        CachePolicy { reserve: self.reserve + more, ..*self }.adjust(budget, cache);
    }

    /// Many pages were read for single rows: decides anew how much the row cache may have.
    pub fn judge<V: CacheWeight>(&self, budget: &Budget, cache: &PageCache<V>, rows: &RowCache) {
        let left = self.left(budget).saturating_sub(self.floor);
        if rows.arbiter.judge(&rows.stats(), &cache.stats()) {
            rows.sweep();
            rows.arbiter.settle(budget.used_by(Part::RowCache), left);
        }
        self.fit(budget, cache, rows);
    }

    /// Sets the cache's limit. Shrinks at once; grows only by 1/64 of the budget or more, so that a
    /// buffer whose size goes up and down does not move the limit all the time.
    pub fn adjust<V: CacheWeight>(&self, budget: &Budget, cache: &PageCache<V>) {
        let (want, have) = (self.cache_limit(budget), cache.limit());
        if want < have || want - have >= budget.limit() / 64 {
            cache.set_limit(want);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_gets_what_others_leave_but_never_less_than_the_floor() {
        let budget = Budget::new(1_600);
        let policy = CachePolicy { floor: 200, reserve: 100 };
        assert_eq!(policy.cache_limit(&budget), 1_500);
        budget.add(Part::PageCache, 900);
        budget.add(Part::WriteBuffers, 1_000);
        assert_eq!(policy.cache_limit(&budget), 500);
        budget.add(Part::RunIndexes, 450);
        assert_eq!(policy.cache_limit(&budget), 200);
        budget.set_limit(150);
        assert_eq!(policy.cache_limit(&budget), 150);
    }
}
