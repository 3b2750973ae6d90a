//! A slice: the part of a run that one place of the trunk refers to.
//!
//! Invariants
//!
//! - SI1. `lo`/`hi` are set only where they cut the run: `lo > run.min_key`, `hi <= run.max_key`, `lo <
//!   hi`. So a slice without bounds is the whole run, and a slice says its own key range.
//! - SI2. `counts` of the slices that a run was cut into add up to the run's: they are differences of
//!   one cumulative function of the run. So tree totals stay right although single slices are
//!   estimates to within a page.

use std::sync::Arc;

use crate::store::TrunkRun;

/// A key shared between pivots and slice bounds.
pub(crate) type Key = Arc<[u8]>;

/// `[lo, hi)` in the key space; `None` is unbounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub lo: Option<Key>,
    pub hi: Option<Key>,
}

impl Range {
    pub fn all() -> Range {
        Range::default()
    }

    pub fn lo_bytes(&self) -> &[u8] {
        self.lo.as_deref().unwrap_or(&[])
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.lo_bytes() && self.hi.as_ref().is_none_or(|hi| key < &**hi)
    }

    /// All of `other` is within.
    pub fn covers(&self, other: &Range) -> bool {
        let above = match (&self.hi, &other.hi) {
            (None, _) => true,
            (Some(hi), Some(other)) => other <= hi,
            (Some(_), None) => false,
        };
        self.lo_bytes() <= other.lo_bytes() && above
    }

    pub fn is_empty(&self) -> bool {
        match &self.hi {
            Some(hi) => self.lo_bytes() >= &**hi,
            None => false,
        }
    }

    pub fn intersect(&self, other: &Range) -> Range {
        let lo = if self.lo_bytes() >= other.lo_bytes() { &self.lo } else { &other.lo };
        let hi = match (&self.hi, &other.hi) {
            (Some(a), Some(b)) => Some(if a <= b { a.clone() } else { b.clone() }),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        Range { lo: lo.clone(), hi }
    }
}

/// Estimated counts of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub bytes: u64,
    pub entries: u64,
    pub tombstones: u64,
}

impl Counts {
    pub fn add(&mut self, other: Counts) {
        // Saturating: numbers may come from a forged file.
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.entries = self.entries.saturating_add(other.entries);
        self.tombstones = self.tombstones.saturating_add(other.tombstones);
    }
}

pub(crate) fn sum<'a>(slices: impl IntoIterator<Item = &'a Slice>) -> Counts {
    let mut total = Counts::default();
    for slice in slices {
        total.add(slice.counts);
    }
    total
}

#[derive(Clone)]
pub(crate) struct Slice {
    pub run: Arc<TrunkRun>,
    pub lo: Option<Key>,
    pub hi: Option<Key>,
    pub counts: Counts,
}

impl Slice {
    pub fn whole(run: Arc<TrunkRun>) -> Slice {
        let meta = run.meta();
        let counts =
            Counts { bytes: meta.bytes, entries: meta.entries, tombstones: meta.tombstones };
        Slice { run, lo: None, hi: None, counts }
    }

    /// No key of the slice is smaller.
    pub fn first(&self) -> &[u8] {
        match &self.lo {
            Some(lo) => lo,
            None => &self.run.meta().min_key,
        }
    }

    /// No key of the slice is larger (when cut, the bound itself, which is exclusive).
    pub fn last(&self) -> &[u8] {
        match &self.hi {
            Some(hi) => hi,
            None => &self.run.meta().max_key,
        }
    }

    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.first()
            && match &self.hi {
                Some(hi) => key < &**hi,
                None => key <= &*self.run.meta().max_key,
            }
    }

    /// Some key may be in both.
    pub fn overlaps(&self, other: &Slice) -> bool {
        !self.before(other) && !other.before(self)
    }

    /// All keys of `self` are smaller than all keys of `other`.
    pub fn before(&self, other: &Slice) -> bool {
        self.ends_before(other.first())
    }

    /// All keys of the slice are smaller than `key`.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match &self.hi {
            Some(hi) => &**hi <= key,
            None => &*self.run.meta().max_key < key,
        }
    }

    pub fn in_range(&self, range: &Range) -> bool {
        !self.ends_before(range.lo_bytes())
            && range.hi.as_ref().is_none_or(|hi| self.first() < &**hi)
    }

    /// The part of the slice within `range`.
    pub fn clip(&self, range: &Range) -> Option<Slice> {
        if !self.in_range(range) {
            return None;
        }
        let lo = match &range.lo {
            Some(lo) if &**lo > self.first() => Some(lo.clone()),
            _ => self.lo.clone(),
        };
        let hi = match &range.hi {
            Some(hi) if !self.ends_before(hi) => Some(hi.clone()),
            _ => self.hi.clone(),
        };
        if lo == self.lo && hi == self.hi {
            return Some(self.clone());
        }
        if let (Some(lo), Some(hi)) = (&lo, &hi) {
            assert!(lo < hi, "a slice is cut to nothing (SI1)");
        }
        let counts = share(&self.run, lo.as_deref(), hi.as_deref());
        Some(Slice { run: self.run.clone(), lo, hi, counts })
    }

    /// Estimated counts of the slice in `range`.
    pub fn counts_in(&self, range: &Range) -> Counts {
        self.clip(range).map_or(Counts::default(), |s| s.counts)
    }

    /// Estimated key and value bytes before encoding.
    pub fn logical_bytes(&self) -> u64 {
        let meta = self.run.meta();
        scale(meta.logical_bytes, self.counts.bytes, meta.bytes)
    }
}

/// `total * part / whole` without overflow; `whole` 0 gives 0.
pub(crate) fn scale(total: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let n = u128::from(total) * u128::from(part) / u128::from(whole);
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The counts of `[lo, hi)` of a run by its page fences (SI2). If the fences cannot be read, it has
/// the counts of the whole run: counts only schedule work, and correctness does not depend on them.
fn share(run: &TrunkRun, lo: Option<&[u8]>, hi: Option<&[u8]>) -> Counts {
    let meta = run.meta();
    let pages = u64::from(meta.pages);
    let (from, upto) = match run.index() {
        Ok(index) => (
            lo.map_or(0, |k| u64::from(index.page_for_seek(k))),
            hi.map_or(pages, |k| u64::from(index.page_for_seek(k))),
        ),
        Err(_) => (0, pages),
    };
    let cut =
        |total: u64| scale(total, upto.min(pages), pages).saturating_sub(scale(total, from, pages));
    Counts { bytes: cut(meta.bytes), entries: cut(meta.entries), tombstones: cut(meta.tombstones) }
}
