//! Copying from a shelf, whose entries are in several sorted lists and one unsorted list.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

use frond_base::EntryRef;

use crate::batch::{Batch, Scan, Stop};
use crate::fence::order;
use crate::write_buffer::part::Part;
use crate::write_buffer::record::Source;
use crate::write_buffer::shelf::Shelf;

/// Most entries whose records are prefetched together.
const AHEAD: usize = 32;
/// The unsorted entries among this many of the base are sorted, at least: if a snapshot sees none of what a small batch
/// reaches, all have to be.
const REACH: usize = 16;

/// Room for so many lists of entries; a shelf seldom has more, the unsorted ones included.
const MOST_RUNS: usize = 7;

/// Copies from `shelf` the entries that the scan asks for, in its direction.
pub(crate) fn copy_merged(
    shelf: &Shelf,
    from: Bound<&[u8]>,
    scan: &Scan<'_>,
    batch: &mut Batch,
    backward: bool,
) -> Stop {
    let (lo, hi) = if backward { (scan.to, from) } else { (from, scan.to) };
    let (first, last) = shelf.heads(lo, hi);
    let mut way = Way {
        mask: if backward { u64::MAX } else { 0 },
        end: if backward { first ^ u64::MAX } else { last },
        to: scan.to,
        backward,
    };
    let (mut unsorted, mut partial) = (Part::default(), false);
    // With room for the unsorted ones, too.
    let mut runs: Vec<Run<'_>> = Vec::with_capacity(MOST_RUNS);
    runs.extend(shelf.parts().map(|(part, source)| match backward {
        false => {
            let from = part.lower_bound(lo, shelf.head_prefix(), source);
            Run::new(part, source, from, part.len())
        }
        true => Run::new(part, source, 0, part.upper_bound(hi, shelf.head_prefix(), source)),
    }));
    if shelf.log().unsorted() > 0 {
        // Only those unsorted entries are sorted that a batch will reach.
        if let Some(head) = runs[0].head_after(scan.max_entries.max(REACH), &way) {
            if head < way.end && !shelf.is_edge(head ^ way.mask, backward) {
                way.end = head;
                partial = true;
            }
        }
        let end = way.end ^ way.mask;
        let (first, last) = if backward { (end, last) } else { (first, end) };
        let near = if backward { last } else { first };
        let log = shelf.log();
        let inside =
            |head: u64, place| head != near || (lo, hi).contains(log.arena().entry(place).key);
        let (heads, places): (Vec<u64>, Vec<u32>) =
            log.unsorted_between(first, last).filter(|(h, p)| inside(*h, *p)).unzip();
        unsorted = Part::sort(&heads, &places, log.arena());
    }
    runs.push(Run::new(&unsorted, shelf.log().arena(), 0, unsorted.len()));
    let ahead = scan.max_entries.clamp(1, AHEAD);
    for (i, run) in runs.iter_mut().enumerate() {
        // The base gives most of the entries that the scan asks for.
        run.ahead = match i {
            0 if shelf.base().is_gathered() => 0,
            0 => ahead,
            _ => 1 + ahead / 8,
        };
        run.settle(&way);
    }
    runs.retain(|run| run.is_live);
    let before = batch.len();
    let all = copy(runs, &way, scan, batch);
    shelf.note_scan(batch.len() - before);
    match all {
        false => Stop::Full,
        true if partial && batch.is_empty() => Stop::Unsorted,
        true if partial => Stop::Full,
        true if backward && shelf.span().begins(scan.to) => Stop::Range,
        true if !backward && shelf.span().ends(scan.to) => Stop::Range,
        true => Stop::Edge,
    }
}

/// The direction and the end of a scan on one shelf.
struct Way<'a> {
    backward: bool,
    /// Heads are XORed with this, so that they ascend in the scan's direction.
    mask: u64,
    /// The XORed head of the scan's end: greater heads are outside; for this head the key decides.
    end: u64,
    to: Bound<&'a [u8]>,
}

impl Way<'_> {
    fn lets_in(&self, key: &[u8]) -> bool {
        match self.backward {
            true => (self.to, Bound::Unbounded).contains(key),
            false => (Bound::Unbounded, self.to).contains(key),
        }
    }

    fn order(&self, a: &EntryRef<'_>, b: &EntryRef<'_>) -> Ordering {
        let ordering = order(a.key, a.seq, b.key, b.seq);
        if self.backward {
            ordering.reverse()
        } else {
            ordering
        }
    }
}

/// The rest of a part, and the XORed head of its next entry.
struct Run<'a> {
    part: &'a Part,
    source: &'a dyn Source,
    from: usize,
    to: usize,
    head: u64,
    is_live: bool,
    /// Records are prefetched this many at a time; 0: none.
    ahead: usize,
    /// Entries until the next prefetch.
    fetched: usize,
}

impl<'a> Run<'a> {
    fn new(part: &'a Part, source: &'a dyn Source, from: usize, to: usize) -> Run<'a> {
        Run { part, source, from, to, head: 0, is_live: true, ahead: 0, fetched: 0 }
    }

    /// The XORed head of the entry that comes after `n` others.
    fn head_after(&self, n: usize, way: &Way<'_>) -> Option<u64> {
        let i = match way.backward {
            true => self.to.checked_sub(n)?.checked_sub(1)?,
            false => self.from.checked_add(n)?,
        };
        self.part.heads.get(i).map(|head| head ^ way.mask)
    }

    /// The next entry, and its key and value in one piece.
    #[inline]
    fn joined(&self, way: &Way<'_>) -> (EntryRef<'a>, &'a [u8]) {
        let next = if way.backward { self.to - 1 } else { self.from };
        self.source.joined(self.part.places[next])
    }

    #[inline]
    fn entry(&self, way: &Way<'_>) -> EntryRef<'a> {
        self.joined(way).0
    }

    /// Looks at the next entry.
    #[inline]
    fn settle(&mut self, way: &Way<'_>) {
        if self.from >= self.to {
            self.is_live = false;
            return;
        }
        let next = if way.backward { self.to - 1 } else { self.from };
        self.head = self.part.heads[next] ^ way.mask;
        if self.head >= way.end {
            self.is_live = self.head == way.end && way.lets_in(self.entry(way).key);
        }
        if self.ahead > 0 {
            if self.fetched == 0 {
                self.fetch(way);
            }
            self.fetched -= 1;
        }
    }

    fn fetch(&mut self, way: &Way<'_>) {
        let (from, to) = match way.backward {
            true => (self.from.max(self.to.saturating_sub(self.ahead)), self.to),
            false => (self.from, self.to.min(self.from + self.ahead)),
        };
        self.part.touch(from, to, self.source);
        self.fetched = self.ahead;
    }

    #[inline]
    fn pass(&mut self, way: &Way<'_>) {
        match way.backward {
            true => self.to -= 1,
            false => self.from += 1,
        }
        self.settle(way);
    }
}

/// Copies until the batch is full; false when it is. The runs have entries left; the more recent
/// ones are later.
fn copy(mut runs: Vec<Run<'_>>, way: &Way<'_>, scan: &Scan<'_>, batch: &mut Batch) -> bool {
    let take = |batch: &mut Batch, e: &EntryRef<'_>| match way.backward {
        true => batch.take_backward(e, scan),
        false => batch.take_forward(e, scan),
    };
    while !runs.is_empty() {
        // Most entries come from the first run, and are before all others.
        let (first, others) = runs.split_at_mut(1);
        let others = others.iter().map(|run| run.head).min();
        while first[0].is_live && others.is_none_or(|head| first[0].head < head) {
            let run = &mut first[0];
            let (e, body) = run.joined(way);
            let goes_on = match way.backward {
                true => batch.take_backward(&e, scan),
                false => batch.take_joined(&e, Some(body), scan),
            };
            if !goes_on {
                return false;
            }
            run.pass(way);
        }
        if first[0].is_live {
            let (e, chosen) = choose(&runs, way);
            if !take(batch, &e) {
                return false;
            }
            for (i, run) in runs.iter_mut().enumerate() {
                if chosen & 1 << i != 0 {
                    run.pass(way);
                }
            }
        }
        runs.retain(|run| run.is_live);
    }
    true
}

/// The next entry of all runs and, as bits, the runs that have it: of equal key and sequence the
/// most recent run's entry.
fn choose<'a>(runs: &[Run<'a>], way: &Way<'_>) -> (EntryRef<'a>, u32) {
    let mut chosen = 1;
    let (mut head, mut best) = (runs[0].head, None);
    for (i, run) in runs.iter().enumerate().skip(1) {
        let ordering = run.head.cmp(&head).then_with(|| {
            let old = best.unwrap_or_else(|| runs[chosen_last(chosen)].entry(way));
            let new = run.entry(way);
            let ordering = way.order(&new, &old);
            best = Some(if ordering.is_le() { new } else { old });
            ordering
        });
        match ordering {
            Ordering::Less => {
                if run.head < head {
                    best = None;
                }
                (head, chosen) = (run.head, 1 << i);
            }
            Ordering::Equal => chosen |= 1 << i,
            Ordering::Greater => {}
        }
    }
    (best.unwrap_or_else(|| runs[chosen_last(chosen)].entry(way)), chosen)
}

/// The most recent of some runs.
fn chosen_last(chosen: u32) -> usize {
    chosen.ilog2() as usize
}
