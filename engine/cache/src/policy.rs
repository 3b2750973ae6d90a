//! The page cache's share of the budget.

use crate::budget::{Budget, Part};
use crate::page_cache::PageCache;
use crate::CacheWeight;

/// How much the page cache gets: what the other parts and a reserve leave, but never less than a
/// floor, as a database without page cache makes no progress.
#[derive(Clone, Copy, Debug)]
pub struct CachePolicy {
    /// The page cache's least limit, bytes.
    pub floor: usize,
    /// Kept free for the others' next growth, bytes: what they may take between two adjustments.
    pub reserve: usize,
}

impl CachePolicy {
    /// A floor and a reserve of one sixteenth of the budget each.
    pub fn for_limit(limit: usize) -> CachePolicy {
        CachePolicy { floor: limit / 16, reserve: limit / 16 }
    }

    /// The limit the page cache should have now.
    pub fn cache_limit(&self, budget: &Budget) -> usize {
        let others = budget.used().saturating_sub(budget.used_by(Part::PageCache));
        let left = budget.limit().saturating_sub(others).saturating_sub(self.reserve);
        left.max(self.floor).min(budget.limit())
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
