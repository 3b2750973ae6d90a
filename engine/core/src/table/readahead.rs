//! Readahead: merges and long scans read runs in order, so they read chunks of pages.
//!
//! A page is about 5 KiB on disk; a direct read of each would cost more latency than transfer time. A
//! merge reads whole chunks from the start. A scan begins with its page alone, because most scans are
//! short, and each time it continues at its last position, forward or backward, its window doubles. Where it begins
//! says nothing of where others are: look-ups at random in a small run are often near each other. But when some in a row each begin
//! at the page behind the one before (a join in the order of this index), the next pages are read with them.
//!
//! Merges read many runs in turn. As many chunks as they read runs have to fit in the share below, or each is dropped when its
//! first page has been used, and read again for the next one. So the chunks of merges get smaller as the runs get more: those of the latest
//! reads that did not come to their run's end. Rejected: a count that merges keep. A merge that waits would take room from those that run.
//!
//! - RA1. The chunks of all tables together take at most 1/32 of the budget (within
//!   `LEAST..=MOST`), are charged to it; the least recently used one is dropped first.
//! - RA2. A chunk is only a copy of immutable bytes: losing one costs only a read. Chunks of a
//!   freed block are dropped before its extent is written again.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use frond_base::{BlockId, TableId};
use frond_cache::{Budget, Part};
use frond_run::{Access, RunMeta};
use parking_lot::Mutex;

/// Bytes of the largest chunk.
const CHUNK: u64 = 256 << 10;
/// The window of a scan that continues for the first time.
const FIRST_WINDOW: u64 = 32 << 10;
/// A request this far from a scan's last position continues it: the pages between were in the page cache.
const NEAR: u64 = 64 << 10;
/// Scans whose position is remembered, and look-ups whose order is.
const STREAMS: usize = 64;
/// After so many look-ups, each at the page behind the one before, pages are read ahead.
const IN_ORDER: u32 = 4;
/// Reads of merges by which it is known how many runs they read in turn.
const LATEST: usize = 128;
const LEAST: usize = 1 << 20;
const MOST: usize = 16 << 20;

/// Chunks of the runs that are being read in order, of all tables.
pub struct Readahead {
    state: Mutex<State>,
    budget: Arc<Budget>,
}

#[derive(Default)]
struct State {
    /// The least recently used first.
    chunks: VecDeque<Chunk>,
    bytes: usize,
    /// The oldest first.
    streams: VecDeque<Stream>,
    /// Look-ups, the oldest first. Apart from the scans: look-ups at random would make those forgotten.
    lookups: VecDeque<Lookups>,
    /// What the latest reads of merges read that did not come to the end, the oldest first.
    merged: VecDeque<Place>,
}

/// One run of one table.
type Place = (TableId, BlockId);

struct Chunk {
    place: Place,
    offset: u64,
    bytes: Arc<Vec<u8>>,
}

/// The last read of a scan.
struct Stream {
    place: Place,
    read: Range<u64>,
    window: u64,
}

/// Look-ups in the order of a run.
struct Lookups {
    place: Place,
    /// Where the last read ended.
    end: u64,
    in_order: u32,
    window: u64,
}

/// See [`Readahead::plan`].
pub enum Plan {
    Found(Vec<u8>),
    Read(Want),
}

/// Bytes to read: those of a page, and perhaps more around it.
pub struct Want {
    place: Place,
    page: Range<u64>,
    read: Range<u64>,
}

impl Want {
    /// Block, offset in it, and length.
    pub fn place(&self) -> (BlockId, u64, usize) {
        (self.place.1, self.read.start, (self.read.end - self.read.start) as usize)
    }
}

impl Readahead {
    pub fn new(budget: Arc<Budget>) -> Readahead {
        Readahead { state: Mutex::default(), budget }
    }

    /// How to get the stored page at `page` of a run, a range of bytes; reads more if that is likely to be
    /// needed next.
    pub fn plan(&self, table: TableId, run: &RunMeta, page: Range<u64>, access: Access) -> Plan {
        let place = (table, run.block());
        if access == Access::Point {
            return Plan::Read(Want { place, read: page.clone(), page });
        }
        let mut state = self.state.lock();
        if let Some((bytes, at)) = state.find(place, &page, &self.budget) {
            drop(state);
            return Plan::Found(bytes[at..at + (page.end - page.start) as usize].to_vec());
        }
        Plan::Read(Want {
            place,
            read: state.plan(place, &page, run.bytes, access, &self.budget),
            page,
        })
    }

    /// The page, when `bytes` were read for `want`; keeps the bytes read beyond it.
    pub fn got(&self, want: Want, bytes: Vec<u8>) -> Vec<u8> {
        if want.read == want.page {
            return bytes;
        }
        let at = (want.page.start - want.read.start) as usize;
        let found = bytes[at..at + (want.page.end - want.page.start) as usize].to_vec();
        self.state.lock().keep(want.place, want.read.start, Arc::new(bytes), &self.budget);
        found
    }

    pub fn forget(&self, table: TableId, block: BlockId) {
        let mut state = self.state.lock();
        state.retain(&self.budget, |place| *place != (table, block));
    }

    pub fn forget_table(&self, table: TableId) {
        self.state.lock().retain(&self.budget, |place| place.0 != table);
    }
}

/// RA1.
fn share(budget: &Budget) -> usize {
    (budget.limit() / 32).clamp(LEAST, MOST)
}

impl State {
    /// The chunk that has all of `page`, and the position of the page in it. A chunk that was read
    /// to its end is dropped.
    fn find(
        &mut self,
        place: Place,
        page: &Range<u64>,
        budget: &Budget,
    ) -> Option<(Arc<Vec<u8>>, usize)> {
        let holds = |c: &Chunk| {
            let end = c.offset + c.bytes.len() as u64;
            c.place == place && c.offset <= page.start && page.end <= end
        };
        let i = self.chunks.iter().position(holds)?;
        let chunk = self.chunks.remove(i)?;
        let found = (chunk.bytes.clone(), (page.start - chunk.offset) as usize);
        let end = chunk.offset + chunk.bytes.len() as u64;
        if page.end == end || page.start == chunk.offset {
            self.bytes -= chunk.bytes.len();
            budget.sub(Part::Readahead, chunk.bytes.len());
        } else {
            self.chunks.push_back(chunk);
        }
        Some(found)
    }

    /// The bytes to read for `page` of a run of `run_bytes` bytes.
    fn plan(
        &mut self,
        place: Place,
        page: &Range<u64>,
        run_bytes: u64,
        access: Access,
        budget: &Budget,
    ) -> Range<u64> {
        // Oversized page, or metadata that points past the run: the file reports that.
        if page.end > run_bytes || page.end - page.start >= CHUNK {
            return page.clone();
        }
        let forward = |window: u64| page.start..run_bytes.min(page.start + window).max(page.end);
        match access {
            Access::Merge | Access::Verify => {
                let window = self.window_of_merges(place, budget);
                // Room for less than another page is of no use.
                let read = match window < 2 * (page.end - page.start) {
                    true => page.clone(),
                    false => forward(window),
                };
                if read.end < run_bytes {
                    self.merged.push_back(place);
                }
                return read;
            }
            Access::Point => return page.clone(),
            Access::Seek => {
                let window = self.window_of_lookups(place, page);
                let read = forward(window);
                if let Some(last) = self.lookups.back_mut() {
                    last.end = read.end;
                }
                return read;
            }
            Access::Scan => {}
        }
        let onward = |s: &Stream| s.read.end < page.end && page.start <= s.read.end + NEAR;
        let back = |s: &Stream| page.start < s.read.start && s.read.start <= page.end + NEAR;
        let known = |s: &Stream| s.place == place && (onward(s) || back(s));
        let before = self.streams.iter().rposition(known).and_then(|i| self.streams.remove(i));
        let (read, window) = match before {
            None => (page.clone(), FIRST_WINDOW / 2),
            Some(s) => {
                let window = (s.window * 2).min(CHUNK);
                let read = match back(&s) {
                    true => page.end.saturating_sub(window).min(page.start)..page.end,
                    false => forward(window),
                };
                (read, window)
            }
        };
        if self.streams.len() >= STREAMS {
            self.streams.pop_front();
        }
        self.streams.push_back(Stream { place, read: read.clone(), window });
        read
    }

    /// The bytes to read for a look-up that begins at `page`; the last of `lookups` is then its own.
    fn window_of_lookups(&mut self, place: Place, page: &Range<u64>) -> u64 {
        // Until there is an order to see, exactly the next page.
        let goes_on = |l: &Lookups| {
            let gap = if l.in_order < IN_ORDER { 0 } else { NEAR };
            l.place == place && l.end < page.end && page.start <= l.end + gap
        };
        let before = self.lookups.iter().rposition(goes_on).and_then(|i| self.lookups.remove(i));
        let lookups = match before {
            None => Lookups { place, end: 0, in_order: 0, window: FIRST_WINDOW / 2 },
            // The pages between were in the page cache, or nobody wants them.
            // Several of these without a next page end the order.
            Some(l) if page.start > l.end => {
                Lookups { in_order: l.in_order - 1, window: (l.window / 2).max(FIRST_WINDOW), ..l }
            }
            Some(l) if l.in_order + 1 < IN_ORDER => Lookups { in_order: l.in_order + 1, ..l },
            Some(l) => Lookups {
                in_order: (l.in_order + 1).min(2 * IN_ORDER),
                window: (l.window * 2).min(CHUNK),
                ..l
            },
        };
        let window = if lookups.in_order < IN_ORDER { 0 } else { lookups.window };
        if self.lookups.len() >= STREAMS {
            self.lookups.pop_front();
        }
        self.lookups.push_back(lookups);
        window
    }

    /// Bytes of a chunk of which there is one for each run that merges read in turn.
    fn window_of_merges(&mut self, place: Place, budget: &Budget) -> u64 {
        while self.merged.len() >= LATEST {
            self.merged.pop_front();
        }
        let others = self.merged.iter().filter(|p| **p != place);
        let runs = 1 + others.collect::<HashSet<_>>().len();
        // A quarter is for scans.
        ((share(budget) / 4 * 3 / runs) as u64).min(CHUNK)
    }

    fn keep(&mut self, place: Place, offset: u64, bytes: Arc<Vec<u8>>, budget: &Budget) {
        let limit = share(budget);
        // The chunk before has been used: a page may lie across its end.
        let end = offset + bytes.len() as u64;
        let apart = |c: &Chunk| end < c.offset || c.offset + (c.bytes.len() as u64) < offset;
        self.drop_chunks(budget, |c| c.place != place || apart(c));
        budget.add(Part::Readahead, bytes.len());
        self.bytes += bytes.len();
        self.chunks.push_back(Chunk { place, offset, bytes });
        while self.bytes > limit {
            let Some(oldest) = self.chunks.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
            budget.sub(Part::Readahead, oldest.bytes.len());
        }
    }

    fn retain(&mut self, budget: &Budget, keep: impl Fn(&Place) -> bool) {
        self.streams.retain(|s| keep(&s.place));
        self.lookups.retain(|l| keep(&l.place));
        self.merged.retain(|place| keep(place));
        self.drop_chunks(budget, |c| keep(&c.place));
    }

    fn drop_chunks(&mut self, budget: &Budget, keep: impl Fn(&Chunk) -> bool) {
        let before = self.bytes;
        self.chunks.retain(keep);
        self.bytes = self.chunks.iter().map(|c| c.bytes.len()).sum();
        budget.sub(Part::Readahead, before - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 4 << 20;
    const PAGE: u64 = 5_000;
    const PLACE: Place = (TableId(1), 7);

    /// Reads pages in the order of `starts`; returns the number of reads and the bytes of them.
    fn walk(starts: impl Iterator<Item = u64>, access: Access) -> (usize, u64) {
        let budget = Budget::new(256 << 20);
        let mut state = State::default();
        let (mut reads, mut bytes) = (0, 0);
        for start in starts {
            let page = start..(start + PAGE).min(RUN);
            if state.find(PLACE, &page, &budget).is_some() {
                continue;
            }
            let want = state.plan(PLACE, &page, RUN, access, &budget);
            assert!(want.start <= page.start && page.end <= want.end && want.end <= RUN);
            assert!(want.end - want.start <= CHUNK);
            reads += 1;
            bytes += want.end - want.start;
            if want != page {
                let chunk = vec![0; (want.end - want.start) as usize];
                state.keep(PLACE, want.start, Arc::new(chunk), &budget);
            }
        }
        (reads, bytes)
    }

    #[test]
    fn short_scans_read_their_pages_alone() {
        assert_eq!(walk(std::iter::once(100_000), Access::Scan), (1, PAGE));
        // Look-ups at random, of which many are near an earlier one: no reason to read ahead.
        let pages = RUN / PAGE;
        let (reads, bytes) = walk((0..500).map(|i| i * 7_919 % pages * PAGE), Access::Seek);
        assert_eq!((reads, bytes), (500, 500 * PAGE));
    }

    #[test]
    fn long_scans_read_few_large_chunks_in_both_directions() {
        let pages = RUN.div_ceil(PAGE);
        for backward in [false, true] {
            let order = (0..pages).map(|i| if backward { pages - 1 - i } else { i } * PAGE);
            let (reads, bytes) = walk(order, Access::Scan);
            assert!(reads < 30, "{reads} reads, backward {backward}");
            assert!(bytes < RUN + RUN / 8, "{bytes} bytes, backward {backward}");
        }
    }

    #[test]
    fn lookups_in_order_read_ahead_and_those_that_only_come_near_do_not() {
        let pages = RUN / PAGE;
        let (reads, bytes) = walk((0..pages).map(|i| i * PAGE), Access::Seek);
        assert!(reads < 40 && bytes < RUN + RUN / 8, "{reads} reads, {bytes} bytes");
        // Every second page; runs of three.
        for order in [|i| i * 2 * PAGE, |i| (i / 3 * 5 + i % 3) * PAGE] {
            let (reads, bytes) = walk((0..pages / 2).map(order), Access::Seek);
            assert_eq!((reads as u64, bytes), (pages / 2, pages / 2 * PAGE));
        }
        // An order that ends: each 17th page.
        let order = (0..20).chain((1..48).map(|i| 20 + i * 17));
        let (reads, bytes) = walk(order.map(|i| i * PAGE), Access::Seek);
        assert!(reads < 62 && bytes < 140 * PAGE, "{reads} reads, {} pages", bytes / PAGE);
        // From one end to the other, but not each page.
        let some = |i: &u64| *i < 20 || !i.is_multiple_of(3);
        let (reads, _) = walk((0..pages).filter(some).map(|i| i * PAGE), Access::Seek);
        assert!(reads < 100, "{reads} reads");
    }

    #[test]
    fn merges_read_whole_chunks_from_the_start() {
        let pages = RUN.div_ceil(PAGE);
        let (reads, bytes) = walk((0..pages).map(|i| i * PAGE), Access::Merge);
        assert!(reads <= 18 && bytes < RUN + 18 * PAGE, "{reads} reads, {bytes} bytes");
    }

    /// However little memory there is, few bytes are read twice (the beginning of the page in which a chunk ends); with more
    /// of it the reads are larger.
    #[test]
    fn many_runs_that_are_read_in_turn_are_read_once() {
        for (runs, cache, most_reads) in
            [(2, 64, 36), (30, 64, 3_000), (60, 64, 12_000), (60, 8, 60_000)]
        {
            let budget = Budget::new(cache << 20);
            let mut state = State::default();
            let (mut reads, mut bytes) = (0, 0);
            for start in (0..RUN).step_by(PAGE as usize) {
                for block in 0..runs {
                    let (place, page) = ((TableId(1), block), start..(start + PAGE).min(RUN));
                    if state.find(place, &page, &budget).is_some() {
                        continue;
                    }
                    let want = state.plan(place, &page, RUN, Access::Merge, &budget);
                    reads += 1;
                    bytes += want.end - want.start;
                    if want != page {
                        let chunk = vec![0; (want.end - want.start) as usize];
                        state.keep(place, want.start, Arc::new(chunk), &budget);
                    }
                }
            }
            let all = runs * RUN;
            assert!(bytes < all + all / 3, "{bytes} of {all} bytes, {runs} runs");
            assert!(reads < most_reads, "{reads} reads, {runs} runs, {cache} MiB");
        }
    }

    #[test]
    fn chunks_stay_within_their_share_and_leave_the_budget_when_forgotten() {
        let budget = Budget::new(64 << 20);
        let mut state = State::default();
        for block in 0..100 {
            state.keep((TableId(1), block), 0, Arc::new(vec![0; CHUNK as usize]), &budget);
            assert!(state.bytes <= 2 << 20);
            assert_eq!(budget.used_by(Part::Readahead), state.bytes);
        }
        state.retain(&budget, |place| *place != (TableId(1), 99));
        assert_eq!(budget.used_by(Part::Readahead), (2 << 20) - CHUNK as usize);
        state.retain(&budget, |_| false);
        assert_eq!((budget.used_by(Part::Readahead), state.chunks.len()), (0, 0));
    }
}
