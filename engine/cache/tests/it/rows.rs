//! The row cache beside a page cache: what it is given, and what that is worth.

use std::sync::Arc;

use frond_base::{EntryKind, TableId, SEQ_MAX};
use frond_cache::{
    Access, Budget, CachePolicy, CachedRow, PageCache, Part, RowCache, RowCaching, RowKey,
};

use crate::{key, Bytes, MIB};

const PAGE: usize = 16 << 10;
const ROWS_PER_PAGE: u64 = 70;

/// A table that is read through both caches, as a tree does it.
struct Table {
    rows: u64,
    budget: Arc<Budget>,
    policy: CachePolicy,
    pages: PageCache<Bytes>,
    cache: RowCache,
    random: u64,
}

impl Table {
    fn new(rows: u64, memory: usize, caching: RowCaching) -> Table {
        let budget = Arc::new(Budget::new(memory));
        let policy = CachePolicy { floor: memory / 10, reserve: memory / 64 };
        let pages = PageCache::with_budget(0, 1, budget.clone());
        let cache = RowCache::new(budget.clone(), caching);
        policy.fit(&budget, &pages, &cache);
        Table { rows, budget, policy, pages, cache, random: 1 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % n
    }

    /// Whether the row was in memory.
    fn read(&mut self, row: u64) -> bool {
        let bytes = row.to_be_bytes();
        let name = RowKey::new(TableId(1), 0, &bytes);
        if self.cache.get(&name, SEQ_MAX, None).is_some() {
            return true;
        }
        let page = key(1, 1, (row / ROWS_PER_PAGE) as u32);
        if self.pages.get(&page, Access::Point).is_some() {
            return true;
        }
        self.pages.insert(page, Arc::new(Bytes(PAGE)), Access::Point);
        if self.cache.is_off() {
            return false;
        }
        let (known, judge) = self.cache.meet(&name);
        if known {
            let put = CachedRow { seq: 1, kind: Some(EntryKind::Put) };
            self.cache.insert(&name, put, &[7; 224], || true);
        }
        if judge {
            self.policy.judge(&self.budget, &self.pages, &self.cache);
        }
        assert!(self.budget.over() == 0, "{} bytes too many", self.budget.over());
        false
    }

    /// Reads `hot` rows, which lie far from each other; returns the share of reads that memory serves after a
    /// while.
    fn served(&mut self, hot: u64, warm: u64) -> f64 {
        let step = self.rows / hot;
        for _ in 0..warm {
            let row = self.below(hot) * step;
            self.read(row);
        }
        let hits = (0..50_000).filter(|_| {
            let row = self.below(hot) * step;
            self.read(row)
        });
        hits.count() as f64 / 50_000.0
    }
}

#[test]
fn hot_rows_take_the_memory_of_pages_and_give_it_back() {
    // 1/17 of the table, as 128 MiB of 2.2 GB.
    let memory = 16 * MIB;
    let mut table = Table::new(1_200_000, memory, RowCaching::Measured);
    // 25 rows for each page that the memory could hold.
    let hot = (memory / PAGE * 25) as u64;
    let served = table.served(hot, 400_000);
    assert!(served > 0.99, "{served} {:?}", table.cache.stats());
    // Then another set, and then all rows alike.
    table.random = 99;
    let served = table.served(hot / 3 * 2, 400_000);
    assert!(served > 0.99, "{served} {:?}", table.cache.stats());
    let mut without = Table::new(1_200_000, memory, RowCaching::Off);
    let (all, warm) = (1_200_000, 400_000);
    let (with, without) = (table.served(all, warm), without.served(all, warm));
    // Reads of the file.
    assert!(1.0 - with < (1.0 - without) * 1.005, "{with} {without} {:?}", table.cache.stats());
    assert!(table.budget.used_by(Part::RowCache) < memory / 25, "{:?}", table.cache.stats());
    table.cache.turn(false);
    assert_eq!(table.budget.used_by(Part::RowCache), 0);
}

#[test]
fn rows_whose_pages_all_fit_take_no_memory() {
    let mut table = Table::new(50_000, 16 * MIB, RowCaching::Measured);
    let served = table.served(50_000, 50_000);
    assert!(served == 1.0 && table.cache.is_empty(), "{served} {:?}", table.cache.stats());
}

#[test]
fn threads_that_admit_change_and_forget_rows_leave_the_account_exact() {
    let budget = Arc::new(Budget::new(8 * MIB));
    let cache = RowCache::new(budget.clone(), RowCaching::Always);
    cache.set_limit(MIB);
    std::thread::scope(|threads| {
        for thread in 0..4u32 {
            let cache = &cache;
            threads.spawn(move || {
                let mut n = u64::from(thread) + 1;
                for step in 0..30_000 {
                    n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let bytes = ((n >> 40) % 6_000).to_be_bytes();
                    let name = RowKey::new(TableId(thread), thread, &bytes);
                    let row = CachedRow { seq: n >> 50, kind: Some(EntryKind::Put) };
                    let mut value = Vec::new();
                    match (n >> 33) % 4 {
                        0 => cache.insert(&name, row, &[1; 200][..(n >> 57) as usize], || true),
                        1 => cache.update(&name, row, &[2; 100]),
                        _ => drop(cache.get(&name, SEQ_MAX, Some(&mut value))),
                    }
                    if step % 5_000 == 0 {
                        cache.set_limit(MIB / (1 + (n >> 60) as usize % 3));
                        cache.forget(thread, |key| key[7] & 1 == 0);
                    }
                }
            });
        }
    });
    assert_eq!(budget.used(), cache.used());
    assert!(cache.used() <= cache.limit() && !cache.is_empty());
    cache.forget_tables(&[TableId(2)]);
    for shard in 0..cache.shards() {
        cache.each_of(shard, 2, &mut |_, _, _| panic!("a row of a forgotten table"));
    }
    drop(cache);
    assert_eq!(budget.used(), 0);
}
