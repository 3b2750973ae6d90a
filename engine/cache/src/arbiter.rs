//! How much of the memory for pages and rows the row cache may have.
//!
//! Each cache remembers some of what it no longer holds: the page cache's shadow has pages that were evicted, the row
//! cache's tags have keys for which a page was read. If one of them remembers what is read, more memory for that
//! cache would have saved the read: about as much as the remembered pages or rows would take. Saved reads per byte of
//! that memory can be compared between the caches. So every 2048 reads:
//!
//! - if rows save clearly more and have filled their limit, the limit grows by a step;
//! - if pages save more, rows that were not read in the last rounds of the hand are dropped, and the limit becomes what
//!   the remaining rows need. Rows that are read stay even if pages would save as much. Otherwise a hot set that just
//!   fits would be dropped and admitted again and again.
//!
//! With uniform access a page of rows saves more per byte than single rows, so the row cache
//! stays at its smallest share, 1/64. Rejected: a fixed share (it takes memory where rows do not help);
//! hits per byte of each cache (the average does not tell what the next byte would save).

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::stats::{CacheStats, RowStats};

/// Shares are in parts of this many.
const PARTS: usize = 64;
/// Parts by which the share grows.
const STEP: usize = 2;
/// The largest share: pages that are read for a row need some memory, too.
const MOST: usize = 52;
/// Fewer saved reads than this may be chance and decide nothing.
const EVIDENCE: u64 = 8;

/// See the module.
pub struct RowArbiter {
    share: AtomicUsize,
    last: Mutex<Reading>,
}

impl Default for RowArbiter {
    fn default() -> RowArbiter {
        RowArbiter { share: AtomicUsize::new(1), last: Mutex::default() }
    }
}

/// The counters at the last judgement.
#[derive(Clone, Copy, Default)]
struct Reading {
    rows: u64,
    pages: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Grow,
    Stay,
    Shrink,
}

impl RowArbiter {
    /// The bytes for rows; `both` are the bytes for pages and rows together.
    pub fn limit(&self, both: usize) -> usize {
        both / PARTS * self.share.load(Ordering::Relaxed)
    }

    /// Judges the reads since the last call. True: the caller should drop rows that nobody reads,
    /// and then tell [`Self::settle`] how much is left.
    pub(crate) fn judge(&self, rows: &RowStats, pages: &CacheStats) -> bool {
        let Some(mut last) = self.last.try_lock() else { return false };
        let read = Reading { rows: rows.met_again, pages: pages.missed_again };
        let (row_hits, page_hits) = (read.rows - last.rows, read.pages - last.pages);
        *last = read;
        match verdict(row_hits, rows, page_hits, pages) {
            Verdict::Grow => {
                self.share.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).ok();
                false
            }
            Verdict::Shrink => true,
            Verdict::Stay => false,
        }
    }

    /// Lowers the share of rows to the `used` bytes of `both` that they take now.
    pub(crate) fn settle(&self, used: usize, both: usize) {
        let needed = used.div_ceil((both / PARTS).max(1)).max(1);
        self.share.fetch_min(needed, Ordering::Relaxed);
    }
}

fn grown(share: usize) -> Option<usize> {
    Some((share + STEP).min(MOST))
}

fn verdict(row_hits: u64, rows: &RowStats, page_hits: u64, pages: &CacheStats) -> Verdict {
    // Bytes that the remembered keys and pages would take. A nearly empty cache has no mean size:
    // the usual one is taken.
    let each = |bytes: u64, n: u64, usual: u64| if n < 16 { usual } else { bytes / n };
    let row_bytes = rows.seen_slots * each(rows.bytes, rows.rows, 400);
    let page_bytes = pages.shadow_slots * each(pages.bytes, pages.pages, 17_000);
    let of_rows = row_hits as f64 / row_bytes.max(1) as f64;
    let of_pages = page_hits as f64 / page_bytes.max(1) as f64;
    // A shard that is 7/8 full may have no room for another row of several kilobytes.
    let full = rows.bytes >= rows.limit / 8 * 7;
    if row_hits >= EVIDENCE && of_rows > 1.25 * of_pages {
        return if full { Verdict::Grow } else { Verdict::Stay };
    }
    match page_hits >= EVIDENCE && of_pages > of_rows {
        true => Verdict::Shrink,
        false => Verdict::Stay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(bytes: u64, limit: u64) -> RowStats {
        RowStats { seen_slots: 1 << 18, rows: bytes / 330, bytes, limit, ..RowStats::default() }
    }

    fn pages() -> CacheStats {
        let bytes = 100 << 20;
        CacheStats { shadow_slots: 8192, pages: bytes / 16_500, bytes, ..CacheStats::default() }
    }

    #[test]
    fn reads_saved_per_byte_decide() {
        let full = rows(2 << 20, 2 << 20);
        // 204 800 hot rows: nearly every row is known, and one page in thirty.
        assert_eq!(verdict(1_000, &full, 70, &pages()), Verdict::Grow);
        // Room is left: more would not be used.
        assert_eq!(verdict(1_000, &rows(1 << 20, 2 << 20), 70, &pages()), Verdict::Stay);
        // Uniform over 10 million rows of 224 bytes, 73 to a page.
        let uniform = |slots: u64| 2048 * slots / 10_000_000;
        let (of_rows, of_pages) = (uniform(1 << 18), uniform(8192 * 73));
        assert_eq!(verdict(of_rows, &full, of_pages, &pages()), Verdict::Shrink);
        // Too little to say.
        assert_eq!(verdict(7, &full, 0, &pages()), Verdict::Stay);
        assert_eq!(verdict(0, &full, 7, &pages()), Verdict::Stay);
        assert_eq!(verdict(0, &rows(0, 0), 0, &CacheStats::default()), Verdict::Stay);
    }
}
