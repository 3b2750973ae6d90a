//! What a hit costs: `cargo run --release -p frond-micro --example page_cache`.

use std::sync::Arc;

use frond_base::TableId;
use frond_cache::{Access, CacheWeight, PageCache, PageKey};
use frond_vfs::{MemVfs, Vfs};

struct Bytes(usize);

impl CacheWeight for Bytes {
    fn memory_bytes(&self) -> usize {
        self.0
    }
}

fn main() {
    let clock = MemVfs::new();
    for pages in [1_000u32, 60_000] {
        let cache = PageCache::new(2 << 30, 16);
        let key = |page| PageKey { table: TableId(1), block: u64::from(page % 97), page };
        let start = clock.now();
        for page in 0..pages {
            cache.insert(key(page), Arc::new(Bytes(16 << 10)), Access::Point);
        }
        let insert = (clock.now() - start).as_nanos() as f64 / f64::from(pages);
        let (n, mut page, mut found) = (3_000_000u32, 1u32, 0u32);
        let start = clock.now();
        for _ in 0..n {
            page = page.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            found += u32::from(cache.get(&key((page >> 8) % pages), Access::Point).is_some());
        }
        let get = (clock.now() - start).as_nanos() as f64 / f64::from(n);
        assert_eq!(found, n);
        println!("{pages} pages: hit {get:.0} ns, insert {insert:.0} ns");
    }
}
