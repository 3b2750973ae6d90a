//! The cache as its users see it.

use std::sync::Arc;

use frond_base::TableId;
use frond_cache::{Access, Budget, CachePolicy, CacheWeight, PageCache, PageKey, Part};

mod indexes;
mod rows;

struct Bytes(usize);

impl CacheWeight for Bytes {
    fn memory_bytes(&self) -> usize {
        self.0
    }
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

fn key(table: u32, block: u64, page: u32) -> PageKey {
    PageKey { table: TableId(table), block, page }
}

/// Reads as a page source does: from the cache, or "from disk" and into the cache. True: a hit.
fn read(cache: &PageCache<Bytes>, key: PageKey, access: Access) -> bool {
    read_page(cache, key, 16_000, access)
}

/// The same with a page of so many bytes.
fn read_page(cache: &PageCache<Bytes>, key: PageKey, bytes: usize, access: Access) -> bool {
    if cache.get(&key, access).is_some() {
        return true;
    }
    cache.insert(key, Arc::new(Bytes(bytes)), access);
    false
}

const MIB: usize = 1 << 20;

#[test]
fn the_limit_holds_under_concurrent_load() {
    let budget = Arc::new(Budget::new(64 * MIB));
    let cache = PageCache::with_budget(8 * MIB, 4, Arc::clone(&budget));
    let largest = 8 * MIB;
    std::thread::scope(|threads| {
        for t in 0..3 {
            let (cache, budget) = (&cache, &budget);
            threads.spawn(move || {
                let mut rng = Rng(t);
                for i in 0..30_000 {
                    let k = key(rng.below(3) as u32, rng.below(8), rng.below(200) as u32);
                    let access =
                        [Access::Point, Access::Scan, Access::Merge][rng.below(3) as usize];
                    if cache.get(&k, access).is_none() {
                        let bytes = if rng.below(100) == 0 { 2 * MIB } else { 40_000 };
                        cache.insert(k, Arc::new(Bytes(rng.below(bytes as u64) as usize)), access);
                    }
                    match rng.below(3_000) {
                        0 => cache.forget_tables(&[TableId(rng.below(3) as u32)]),
                        1 => cache.set_limit(MIB * (1 + rng.below(8) as usize)),
                        _ => {}
                    }
                    if i % 16 == 0 {
                        assert!(cache.used() <= largest);
                        assert!(budget.used() <= largest);
                    }
                }
            });
        }
    });
    assert_eq!(budget.used_by(Part::PageCache), cache.used());
    cache.set_limit(MIB);
    assert!(cache.used() <= MIB && cache.limit() <= MIB);
    drop(cache);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_smaller_limit_takes_effect_at_once() {
    let cache = PageCache::new(8 * MIB, 2);
    (0..500).for_each(|p| assert!(!read(&cache, key(1, 1, p), Access::Point)));
    assert!(cache.used() > 6 * MIB);
    cache.set_limit(MIB);
    assert!(cache.used() <= MIB);
    assert!(cache.stats().pages > 30);
    cache.set_limit(0);
    assert_eq!((cache.used(), cache.stats().pages), (0, 0));
    assert!(!read(&cache, key(1, 1, 0), Access::Point));
    assert_eq!(cache.stats().rejected, 1);
}

/// Hot pages are 60 % of the cache; a scan of twenty times the cache runs beside the point reads.
fn hit_rate_of_hot_set(beside: Option<Access>) -> f64 {
    let cache = PageCache::new(16 * MIB, 4);
    let mut rng = Rng(7);
    let hot = 600;
    let mut scanned = 0;
    let (mut hits, mut reads) = (0, 0);
    for i in 0..60_000 {
        let hit = read(&cache, key(1, 1, rng.below(hot) as u32), Access::Point);
        if i >= 20_000 {
            hits += u32::from(hit);
            reads += 1;
            if let Some(access) = beside {
                if i % 2 == 0 {
                    read(&cache, key(2, 9, scanned), access);
                    scanned += 1;
                }
            }
        }
    }
    f64::from(hits) / f64::from(reads)
}

#[test]
fn a_scan_does_not_displace_the_hot_set() {
    let alone = hit_rate_of_hot_set(None);
    let scan = hit_rate_of_hot_set(Some(Access::Scan));
    let merge = hit_rate_of_hot_set(Some(Access::Merge));
    assert!(alone > 0.999, "{alone}");
    assert!(scan > 0.995, "{scan}");
    assert_eq!(merge, alone);
}

/// A join that looks rows up in the order of their table reads each page many times in a row, as often as narrow rows are in it,
/// and then never again. Hot pages and those of the join need not be of one size, and writers may have taken most of the cache.
#[test]
fn look_ups_in_order_do_not_displace_the_hot_set() {
    for (cache_bytes, percent) in [(8 * MIB, 50), (20 * MIB, 90), (16 * MIB, 100), (64 * MIB, 30)] {
        for (hot_bytes, bytes) in [(16_000, 16_000), (4_000, 66_000), (16_000, 4_000)] {
            for (access, times) in [(Access::Point, 1_000), (Access::Seek, 3)] {
                let limit = cache_bytes / 100 * percent;
                let cache = PageCache::new(limit, PageCache::<Bytes>::shards_for(cache_bytes));
                let mut rng = Rng(7);
                let hot = limit / 2 / (hot_bytes + 200);
                for _ in 0..40 * hot {
                    let page = rng.below(hot as u64) as u32;
                    read_page(&cache, key(1, 1, page), hot_bytes, Access::Point);
                }
                for page in 0..3 * limit / bytes {
                    for _ in 0..times {
                        read_page(&cache, key(2, 9, page as u32), bytes, access);
                    }
                }
                let is_left = |page: &u32| cache.get(&key(1, 1, *page), Access::Merge).is_some();
                let left = (0..hot as u32).filter(is_left).count();
                let what = format!("{limit}: {hot_bytes}, {times} times {bytes}");
                assert!(left > hot * 9 / 10, "{left} of {hot}, {what}");
            }
        }
    }
}

/// Pages that are sixteen times as large as the others become hot while as many are read once.
#[test]
fn large_pages_among_small_ones_become_hot_at_first_sight() {
    let cache = PageCache::new(16 * MIB, 1);
    for i in 0..60_000 {
        read_page(&cache, key(1, 1, i % 3_500), 4_000, Access::Point);
    }
    let mut misses = 0;
    for i in 0..1_000 {
        let hit = read_page(&cache, key(1, 2, i % 10), 64_000, Access::Point);
        misses += u32::from(!hit);
        read_page(&cache, key(2, 9, i), 64_000, Access::Point);
    }
    assert_eq!(misses, 10);
}

/// A small hot set is read for a while, all of it cached, and is idle while scans pass: it is read once more, and then stays.
#[test]
fn what_became_hot_without_a_miss_is_read_once_more_behind_a_scan() {
    let cache = PageCache::new(64 * MIB, 4);
    let mut rng = Rng(9);
    for page in 0..8_000 {
        read(&cache, key(1, 1, page), Access::Point);
    }
    let mut misses = [0; 3];
    for (round, misses) in misses.iter_mut().enumerate() {
        for _ in 0..40_000 {
            *misses += u32::from(!read(&cache, key(1, 2, rng.below(40) as u32), Access::Point));
        }
        for page in 0..12_000 {
            read(&cache, key(2, round as u64, page), Access::Scan);
        }
    }
    assert!(misses[0] == 40 && misses[1] <= 40 && misses[2] == 0, "{misses:?}");
}

/// Pages of a scan that are larger than a tenth of a shard evict no hot page, and others they do.
#[test]
fn a_scan_of_large_pages_evicts_pages_that_were_read_once_only() {
    let limit = 32 * MIB;
    for bytes in [300_000, 700_000, 1_900_000] {
        for hot in [limit * 7 / 10 / 16_200, 0] {
            let cache = PageCache::new(limit, PageCache::<Bytes>::shards_for(limit));
            let mut rng = Rng(7);
            for page in 0..3_000 {
                read(&cache, key(3, 3, page), Access::Point);
            }
            for _ in 0..40 * hot {
                read(&cache, key(1, 1, rng.below(hot as u64) as u32), Access::Point);
            }
            let mut misses = [0; 3];
            for misses in &mut misses {
                for page in 0..5 {
                    *misses += u32::from(!read_page(&cache, key(2, 9, page), bytes, Access::Scan));
                }
            }
            for page in 0..1_000 {
                read_page(&cache, key(2, 8, page), bytes, Access::Scan);
            }
            let is_left = |page: &u32| cache.get(&key(1, 1, *page), Access::Merge).is_some();
            let left = (0..hot as u32).filter(is_left).count();
            assert!(left >= hot * 9 / 10, "{left} of {hot} beside {bytes}");
            // Of the largest only two fit in a shard, and four in a row have one.
            assert!(hot > 0 || bytes > MIB || misses[2] == 0, "{bytes}: {misses:?}");
        }
    }
}

#[test]
fn blocks_are_listed_with_all_their_pages_and_bytes() {
    let cache = PageCache::new(64 * MIB, 2);
    (0..2_000).for_each(|p| assert!(!read(&cache, key(1, 1 + u64::from(p % 3), p), Access::Point)));
    read(&cache, key(2, 1, 0), Access::Point);
    cache.forget_block(TableId(1), 2, 10_000);
    let blocks = cache.blocks();
    let pages = |table, block| blocks.get(&(TableId(table), block)).map(|held| held.pages);
    assert_eq!([pages(1, 1), pages(1, 2), pages(1, 3)], [Some(667), None, Some(666)]);
    assert_eq!((pages(2, 1), blocks.len()), (Some(1), 3));
    let all = blocks.values().fold((0, 0), |(pages, bytes), h| (pages + h.pages, bytes + h.bytes));
    assert_eq!(all, (cache.stats().pages, cache.stats().bytes));
}

#[test]
fn merges_read_but_never_admit() {
    let cache = PageCache::new(MIB, 1);
    assert!(!read(&cache, key(1, 1, 1), Access::Merge));
    assert!(!read(&cache, key(1, 1, 1), Access::Merge));
    read(&cache, key(1, 1, 1), Access::Point);
    assert!(read(&cache, key(1, 1, 1), Access::Merge));
}

#[test]
fn new_pages_fill_free_room_and_displace_nothing() {
    let cache = PageCache::new(MIB, 1);
    for page in 0..10 {
        read(&cache, key(1, 1, page), Access::Scan);
    }
    for page in 0..1_000 {
        cache.keep_new(key(2, 2, page), 16_000, || Some(Bytes(16_000)));
    }
    let stats = cache.stats();
    assert!(stats.bytes <= stats.limit && stats.limit - stats.bytes < 32_000);
    assert_eq!(stats.evicted, 0);
    assert!((0..10).all(|page| read(&cache, key(1, 1, page), Access::Merge)));
    // A page that does not fit is not even made.
    cache.keep_new(key(3, 3, 3), 16_000, || panic!("there is no room"));
    // They are the first to go, and leave no trace in the ghost.
    for page in 0..60 {
        read(&cache, key(4, 4, page), Access::Point);
        read(&cache, key(4, 4, page), Access::Point);
    }
    assert!((0..60).all(|page| read(&cache, key(4, 4, page), Access::Merge)));
    assert_eq!(cache.stats().ghost_hits, 0);
}

#[test]
fn skewed_reads_keep_the_popular_pages() {
    // 80 % of the reads go to a tenth of 4000 pages; the cache holds about 1000.
    let cache = PageCache::new(16 * MIB, 4);
    let mut rng = Rng(3);
    let mut hits = 0;
    for i in 0..100_000 {
        let page = if rng.below(10) < 8 { rng.below(400) } else { 400 + rng.below(3_600) };
        let hit = read(&cache, key(1, 1, page as u32), Access::Point);
        hits += u32::from(hit && i >= 50_000);
    }
    // Perfect: 80 % + 20 % * 600 / 3600 = 83 %.
    assert!(hits > 50_000 * 81 / 100, "{hits} of 50000");
}

#[test]
fn the_working_set_can_change() {
    let cache = PageCache::new(16 * MIB, 4);
    let mut rng = Rng(5);
    for block in 0..4 {
        let mut hits = 0;
        // By turns look-ups by a key and by a prefix of one.
        let access = [Access::Point, Access::Seek][block as usize % 2];
        for i in 0..20_000 {
            let hit = read(&cache, key(1, block, rng.below(700) as u32), access);
            hits += u32::from(hit && i >= 10_000);
        }
        assert!(hits > 9_900, "{hits} of 10000 in phase {block}");
    }
}

#[test]
fn forgotten_blocks_and_tables_are_gone_and_others_stay() {
    let cache = PageCache::new(64 * MIB, 8);
    for (table, block) in [(1, 1), (1, 2), (2, 1)] {
        (0..300).for_each(|p| assert!(!read(&cache, key(table, block, p), Access::Point)));
    }
    let count = |table, block| {
        (0..300).filter(|p| cache.get(&key(table, block, *p), Access::Merge).is_some()).count()
    };
    let before = cache.used();
    cache.forget_block(TableId(1), 1, 250);
    assert_eq!((count(1, 1), count(1, 2), count(2, 1)), (50, 300, 300));
    cache.forget_block(TableId(1), 1, u32::MAX);
    assert_eq!((count(1, 1), count(1, 2), count(2, 1)), (0, 300, 300));
    assert_eq!(cache.used(), before / 3 * 2);
    cache.forget_tables(&[TableId(1), TableId(3)]);
    assert_eq!((count(1, 2), count(2, 1)), (0, 300));
    cache.forget_tables(&[TableId(0), TableId(2)]);
    cache.clear();
    assert_eq!(cache.used(), 0);
}

#[test]
fn two_readers_of_one_page_share_it() {
    let cache = PageCache::new(MIB, 1);
    let first = cache.insert(key(1, 1, 1), Arc::new(Bytes(100)), Access::Point);
    let second = cache.insert(key(1, 1, 1), Arc::new(Bytes(100)), Access::Merge);
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(cache.stats().inserted, 1);
}

#[test]
fn the_policy_shrinks_the_cache_when_writers_need_memory() {
    let budget = Arc::new(Budget::new(32 * MIB));
    let policy = CachePolicy { floor: 4 * MIB, reserve: 2 * MIB };
    let cache = PageCache::with_budget(0, 4, Arc::clone(&budget));
    policy.adjust(&budget, &cache);
    assert_eq!(cache.limit(), 30 * MIB);
    (0..3_000).for_each(|p| assert!(!read(&cache, key(1, 1, p), Access::Point)));
    assert!(budget.used() > 29 * MIB);
    let buffers = budget.charge(Part::WriteBuffers, 10 * MIB);
    policy.adjust(&budget, &cache);
    assert_eq!(cache.limit(), 20 * MIB);
    assert_eq!(budget.over(), 0);
    let more = budget.charge(Part::WriteBuffers, 20 * MIB);
    policy.adjust(&budget, &cache);
    assert_eq!(cache.limit(), 4 * MIB);
    drop((buffers, more));
    policy.adjust(&budget, &cache);
    assert_eq!(cache.limit(), 30 * MIB);
}
