//! The shelf: the entries of a shared buffer between two fences.
//!
//! Every key of a random batch goes to another place; if that were a leaf, each would cost several
//! cache and TLB misses. So an entry is written at the end of its shelf's *backlog*: there are
//! about a hundred shelves however large the buffer is, and the ends of their backlogs stay in the
//! cache. A backlog that has grown to a fraction of its shelf's *base* is sorted and joined with
//! it, which copies 12 bytes an entry sequentially.
//!
//! The base and the *descent*, a backlog that is being joined with it, never change: a thread joins
//! them without the latch and takes it to install the result. Readers search the base, the descent,
//! and the parts of the backlog that follows; entries that no part has are searched one by one
//! while they are few or readers are few, and sorted otherwise. So a reader searches at most seven
//! lists, the more recent ones later in this order.
//!
//! Records are copied twice: in the order of their keys when a backlog goes down, and when a shelf is
//! divided or was read more than it was changed. Neighbours then lie together, which is what a scan and
//! a flush want.

use std::ops::Bound;
use std::sync::Arc;

use frond_base::{EntryRef, Seq};
use parking_lot::Mutex;

use crate::write_buffer::backlog::Backlog;
use crate::write_buffer::backlog_limit::BacklogLimit;
use crate::write_buffer::base::Base;
use crate::write_buffer::descent::{Joined, Joining};
use crate::write_buffer::head_prefix::HeadPrefix;
use crate::write_buffer::part::Part;
use crate::write_buffer::read_count::ReadCount;
use crate::write_buffer::record::{record_bytes, Source};
use crate::write_buffer::span::Span;

/// Memory of the joiner: a mutex and the counters of its `Arc`.
const JOINER: usize = 24;
/// Unsorted entries of a shelf that an estimate looks at.
const LOOKED_AT: usize = 256;

pub(crate) struct Shelf {
    span: Span,
    /// The prefix of base, descent and backlog.
    head_prefix: HeadPrefix,
    base: Arc<Base>,
    descent: Option<Arc<Base>>,
    log: Backlog,
    limit: BacklogLimit,
    reads: ReadCount,
    /// Made with the first descent.
    joiner: Option<Arc<Mutex<()>>>,
}

impl Shelf {
    pub fn new() -> Shelf {
        Shelf::of(Span::whole(), Base::none())
    }

    fn of(span: Span, base: Arc<Base>) -> Shelf {
        Shelf {
            span,
            head_prefix: base.head_prefix.clone(),
            limit: BacklogLimit::beside(&base),
            base,
            descent: None,
            log: Backlog::default(),
            reads: ReadCount::default(),
            joiner: None,
        }
    }

    /// The mutex that the joining thread holds, so that no two threads do the same work. It is taken without
    /// the latch. `None`: nothing was ever on its way to the base.
    pub fn joiner(&self) -> Option<Arc<Mutex<()>>> {
        self.joiner.clone()
    }

    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Entries, including those that will replace others or be dropped.
    pub fn entries(&self) -> usize {
        self.base.len() + self.descent.as_ref().map_or(0, |d| d.len()) + self.log.len()
    }

    /// Bytes allocated.
    pub fn memory(&self) -> usize {
        self.base.memory()
            + self.descent.as_ref().map_or(0, |d| d.memory())
            + self.log.memory()
            + std::mem::size_of::<Shelf>()
            + self.joiner.as_ref().map_or(0, |_| JOINER)
            + self.span.memory()
    }

    /// Entries and bytes of the backlog: all that [`Shelf::push`] changes.
    #[inline]
    pub fn backlog(&self) -> (usize, usize) {
        (self.log.len(), self.log.memory())
    }

    /// Bytes of records.
    pub fn payload(&self) -> usize {
        let descent = self.descent.as_ref().map_or(0, |d| d.records.bytes());
        self.base.records.bytes() + descent + self.log.bytes()
    }

    /// Everything is in the base.
    pub fn is_settled(&self) -> bool {
        self.log.is_empty() && self.descent.is_none()
    }

    pub fn base(&self) -> &Arc<Base> {
        &self.base
    }

    pub fn head_prefix(&self) -> &HeadPrefix {
        &self.head_prefix
    }

    pub fn log(&self) -> &Backlog {
        &self.log
    }

    /// Whether something is on its way to the base.
    pub fn is_descending(&self) -> bool {
        self.descent.is_some()
    }

    /// Whether the backlog should go down.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.limit.is_used_up(&self.log)
    }

    /// Whether the backlog is overdue to go down.
    pub fn is_overdue(&self) -> bool {
        self.limit.is_overdrawn(&self.log)
    }

    /// Reads from the cache lines that [`Shelf::push`] needs of the shelf itself.
    #[inline]
    pub fn fetch(&self) -> u64 {
        let span = u64::from(self.span.hi().is_some()) ^ self.head_prefix.head(&[]);
        span ^ self.log.memory() as u64 ^ self.log.bytes() as u64 ^ u64::from(self.is_due())
    }

    /// Appends `e`, which belongs to the shelf and is not large.
    #[inline]
    pub fn push(&mut self, e: &EntryRef<'_>) {
        assert!(!e.key.is_empty() && e.key.len() <= crate::MAX_KEY, "key of {} bytes", e.key.len());
        self.log.push(self.head_prefix.head(e.key), e, self.limit.about);
    }

    /// As [`Shelf::push`] of a large entry with its record.
    pub fn push_alone(&mut self, e: &EntryRef<'_>, record: Arc<[u8]>) {
        assert!(!e.key.is_empty() && e.key.len() <= crate::MAX_KEY, "key of {} bytes", e.key.len());
        self.log.push_alone(self.head_prefix.head(e.key), e.seq, record);
    }

    /// Sorts the unsorted entries into a part.
    pub fn index(&mut self) {
        self.log.index();
    }

    /// Turns the backlog into the descent (there is none yet).
    pub fn begin(&mut self) {
        debug_assert!(self.descent.is_none());
        if self.log.is_empty() {
            return;
        }
        self.joiner.get_or_insert_default();
        let part = self.log.sort();
        let descent = Base::gather(part, self.log.arena(), self.head_prefix.clone());
        self.descent = Some(Arc::new(descent));
        self.log.clear();
    }

    /// The base and the descent, if there is one.
    pub fn joining(&self) -> Option<Joining> {
        let descent = self.descent.clone()?;
        Some(Joining { base: self.base.clone(), descent })
    }

    /// Whether `joining` has not been put in place by another thread.
    pub fn awaits(&self, joining: &Joining) -> bool {
        self.descent.as_ref().is_some_and(|d| Arc::ptr_eq(d, &joining.descent))
    }

    /// Installs the joined base. Returns the shelf that follows this one now, which must be
    /// published under the same latch.
    #[must_use]
    pub fn land(&mut self, joined: Joined) -> Option<Shelf> {
        self.descent = None;
        self.set_base(joined.base);
        let (fence, base) = joined.right?;
        let mut right = Shelf::of(self.span.cut(fence), base);
        // The entries that arrived meanwhile. Where keys arrive in order, this shelf needs no room for more.
        right.log = Backlog::after(&self.log);
        let after = Backlog::after(&self.log);
        let log = std::mem::replace(&mut self.log, after);
        log.for_each(|e, alone| {
            let reached = self.span.reaches(e.key, e.seq);
            let shelf = if reached { &mut *self } else { &mut right };
            match alone {
                Some(record) => shelf.push_alone(&e, record.clone()),
                None => shelf.push(&e),
            }
        });
        Some(right)
    }

    fn set_base(&mut self, base: Arc<Base>) {
        if self.head_prefix != base.head_prefix {
            self.head_prefix = base.head_prefix.clone();
            self.log.see_through(&self.head_prefix);
        }
        self.limit = BacklogLimit::beside(&base);
        self.base = base;
        self.reads = ReadCount::default();
    }

    /// Installs the same base with gathered records.
    pub fn replace(&mut self, old: &Arc<Base>, gathered: Base) {
        if Arc::ptr_eq(&self.base, old) {
            self.set_base(Arc::new(gathered));
        }
    }

    /// Merges everything into the base at once and frees the backlog's memory. The shelf is not
    /// divided.
    pub fn settle(&mut self, keep: &[Seq]) {
        for _ in 0..2 {
            if let Some(joining) = self.joining() {
                self.descent = None;
                self.set_base(Arc::new(joining.whole(keep)));
            }
            self.begin();
        }
        self.log = Backlog::after(&self.log);
    }

    /// A scan has copied `n` entries. For finding the first one it searched every part, as a single read does.
    #[inline]
    pub fn note_scan(&self, n: usize) {
        self.reads.note_scan(n);
        if !self.is_settled() {
            self.reads.note_get();
        }
    }

    /// A reader has begun to tidy the shelf: counting starts again.
    pub fn forget_reads(&mut self) {
        self.reads = ReadCount::default();
    }

    /// Whether scans gain if neighbours lie together.
    #[inline]
    pub fn is_scanned_much(&self) -> bool {
        self.reads.are_many_scans(self.base.len())
    }

    /// Whether readers gain if everything is in the base, or its records are gathered.
    #[inline]
    pub fn is_to_be_tidied(&self) -> bool {
        match self.is_scanned_much() {
            true => !self.is_settled() || self.base.is_worth_gathering(),
            false => !self.is_settled() && self.reads.are_many_gets(self.base.len()),
        }
    }

    /// The newest version of `key` at or before `at` in this shelf.
    #[inline]
    pub fn get<'a>(&'a self, key: &[u8], at: Seq) -> Option<EntryRef<'a>> {
        let (base, log, head_prefix) = (&*self.base, &self.log, &self.head_prefix);
        if self.is_settled() {
            return base.part.find(key, at, head_prefix, &base.records);
        }
        let (mut best, is_newest) = log.find_unsorted(head_prefix.head(key), key, at);
        if is_newest {
            return best;
        }
        self.reads.note_get();
        let mut consider = |e: EntryRef<'a>| {
            // From recent to old sources: of equal sequences the more recent one wins.
            if best.is_none_or(|b| b.seq < e.seq) {
                best = Some(e);
            }
        };
        for part in log.parts().iter().rev() {
            part.find(key, at, head_prefix, log.arena()).map(&mut consider);
        }
        if let Some(d) = &self.descent {
            d.part.find(key, at, head_prefix, &d.records).map(&mut consider);
        }
        base.part.find(key, at, head_prefix, &base.records).map(&mut consider);
        best
    }

    /// All sorted lists with their records: the base, the descent and the parts of the backlog, the
    /// more recent ones later.
    pub fn parts(&self) -> impl Iterator<Item = (&Part, &dyn Source)> {
        fn of(base: &Base) -> (&Part, &dyn Source) {
            (&base.part, &base.records)
        }
        let log = self.log.parts().iter().map(|p| (p, self.log.arena() as &dyn Source));
        std::iter::once(of(&self.base)).chain(self.descent.iter().map(|d| of(d))).chain(log)
    }

    /// The smallest and the largest head of keys between two bounds.
    pub fn heads(&self, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> (u64, u64) {
        let head_of = |b: Bound<&[u8]>, open| match b {
            Bound::Unbounded => open,
            Bound::Included(k) | Bound::Excluded(k) => self.head_prefix.head(k),
        };
        (head_of(lo, 0), head_of(hi, u64::MAX))
    }

    /// Whether a key with this head may have versions in a shelf beside this one.
    pub fn is_edge(&self, head: u64, backward: bool) -> bool {
        match backward {
            true => head <= self.head_prefix.head(&self.span.lo().key),
            false => self.span.hi().is_some_and(|hi| head >= self.head_prefix.head(&hi.key)),
        }
    }

    /// Entries and bytes of records in a range; the bytes of more than `exact` entries in
    /// proportion. With 0, at most [`LOOKED_AT`] unsorted entries are looked at.
    pub fn weigh(&self, lo: Bound<&[u8]>, hi: Bound<&[u8]>, exact: usize) -> (u64, u64) {
        let ranges = || {
            self.parts().map(|(part, source)| {
                let from = part.lower_bound(lo, &self.head_prefix, source);
                (part, source, from, part.upper_bound(hi, &self.head_prefix, source).max(from))
            })
        };
        let in_order: usize = ranges().map(|(_, _, from, to)| to - from).sum();
        let heads = self.heads(lo, hi);
        let most = if exact > 0 { usize::MAX } else { LOOKED_AT };
        let (unsorted, mut bytes) = self.log.weigh_unsorted(lo, hi, heads, most);
        let entries = in_order as u64 + unsorted;
        if in_order <= exact {
            for (part, source, from, to) in ranges() {
                let records = (from..to).map(|i| record_bytes(&part.entry(i, source)) as u64);
                bytes += records.sum::<u64>();
            }
            return (entries, bytes);
        }
        let bytes = self.payload() as u128 * u128::from(entries) / self.entries().max(1) as u128;
        (entries, bytes as u64)
    }

    /// Calls `f` with the key of every `step`th entry of each list, and the number of entries up to
    /// the next such key.
    pub fn sample(&self, step: usize, f: &mut dyn FnMut(&[u8], u64)) {
        for (part, source) in self.parts() {
            for from in (0..part.len()).step_by(step) {
                f(part.entry(from, source).key, step.min(part.len() - from) as u64);
            }
        }
        self.log.sample_unsorted(step, f);
    }

    /// Asserts the structure of a settled shelf; for tests.
    pub fn check(&self) {
        let base = &*self.base;
        for i in 0..base.len() {
            let e = base.entry(i);
            assert!(self.span.lo().at_or_before(e.key, e.seq) && self.span.reaches(e.key, e.seq));
            assert_eq!(base.part.lower(e.key, e.seq, &self.head_prefix, &base.records), i);
        }
        base.check();
    }
}

#[cfg(test)]
pub(crate) mod tests;
