//! One memory budget, accounted by part.
//!
//! Parts react differently to a shortage. The page cache shrinks at once; write buffers shrink when
//! they are flushed, and their owners slow writers down; a write set that grows is written out;
//! readahead limits itself. So the page cache gets what the others leave, but at least a floor
//! ([`crate::CachePolicy`]).
//!
//! - B1. The total is the sum of the parts (each change is applied to both; a reader between the two
//!   sees a difference of one change).
//! - B2. `try_add` never takes the total above the limit; `add` may, and `over` says by how much.
//!
//! Tested by the unit tests below and by `tests/it`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// Who holds memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Active and frozen write buffers, write sets.
    WriteBuffers,
    PageCache,
    /// Single rows.
    RowCache,
    /// Chunks of runs that merges and scans will ask for next.
    Readahead,
    /// Fences and filters of runs.
    RunIndexes,
    /// Trunks, metadata of runs, block maps, empty write buffers.
    Metadata,
}

impl Part {
    pub const ALL: [Part; 6] = [
        Part::WriteBuffers,
        Part::PageCache,
        Part::RowCache,
        Part::Readahead,
        Part::RunIndexes,
        Part::Metadata,
    ];
}

/// Bytes in use by each part, against one limit.
pub struct Budget {
    limit: AtomicUsize,
    total: AtomicUsize,
    parts: [AtomicUsize; Part::ALL.len()],
}

impl Budget {
    /// A budget of `limit` bytes, all free.
    pub fn new(limit: usize) -> Budget {
        Budget {
            limit: AtomicUsize::new(limit),
            total: AtomicUsize::new(0),
            parts: Default::default(),
        }
    }

    #[inline]
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the limit; users above it must notice by [`Budget::over`].
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// `part` holds `bytes` more; may go over the limit (B2).
    pub fn add(&self, part: Part, bytes: usize) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.parts[part as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// `part` holds `bytes` more, if that stays within the limit.
    #[must_use]
    pub fn try_add(&self, part: Part, bytes: usize) -> bool {
        let fits = |total: usize| total.checked_add(bytes).filter(|n| *n <= self.limit());
        let taken = self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if taken {
            self.parts[part as usize].fetch_add(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// `part` holds `bytes` less; it must have added them before.
    pub fn sub(&self, part: Part, bytes: usize) {
        let before = self.parts[part as usize].fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{part:?} gives back {bytes} bytes and holds {before} (B1)");
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// `part` holds `now` bytes where it held `before`; may go over the limit (B2). At no time are both
    /// charged.
    pub fn replace(&self, part: Part, before: usize, now: usize) {
        match now.checked_sub(before) {
            Some(more) => self.add(part, more),
            None => self.sub(part, before - now),
        }
    }

    /// A charge that is taken back when it is dropped; may go over the limit.
    pub fn charge(self: &Arc<Self>, part: Part, bytes: usize) -> Charge {
        self.add(part, bytes);
        Charge { budget: Arc::clone(self), part, bytes }
    }

    /// Bytes in use by all parts.
    pub fn used(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn used_by(&self, part: Part) -> usize {
        self.parts[part as usize].load(Ordering::Relaxed)
    }

    /// Bytes in use above the limit; 0 when within it.
    pub fn over(&self) -> usize {
        self.used().saturating_sub(self.limit())
    }
}

/// Bytes charged to a part until this is dropped.
pub struct Charge {
    budget: Arc<Budget>,
    part: Part,
    bytes: usize,
}

impl Charge {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The holder grew or shrank to `bytes`.
    pub fn resize(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.budget.add(self.part, bytes - self.bytes);
        } else {
            self.budget.sub(self.part, self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.sub(self.part, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_never_passes_the_limit_and_telling_shows_as_over() {
        let budget = Arc::new(Budget::new(100));
        assert!(budget.try_add(Part::RunIndexes, 100));
        assert!(!budget.try_add(Part::RunIndexes, 1));
        assert!(!budget.try_add(Part::WriteBuffers, usize::MAX));
        let mut charge = budget.charge(Part::WriteBuffers, 7);
        assert_eq!((budget.over(), budget.used_by(Part::WriteBuffers)), (7, 7));
        charge.resize(3);
        assert_eq!((budget.over(), budget.used()), (3, 103));
        drop(charge);
        budget.sub(Part::RunIndexes, 60);
        assert_eq!((budget.over(), budget.used()), (0, 40));
    }

    /// A double charge would look like a shortage, and other parts would give up their pages.
    #[test]
    fn what_is_charged_anew_is_never_charged_twice() {
        let budget = Budget::new(1_000);
        budget.add(Part::Metadata, 900);
        std::thread::scope(|threads| {
            let changing = threads.spawn(|| {
                for _ in 0..200_000 {
                    budget.replace(Part::Metadata, 900, 950);
                    budget.replace(Part::Metadata, 950, 900);
                }
            });
            let mut most = 0;
            while !changing.is_finished() {
                most = most.max(budget.used());
            }
            assert!(most <= 950, "{most}");
        });
        assert_eq!((budget.used(), budget.used_by(Part::Metadata)), (900, 900));
    }

    #[test]
    fn concurrent_askers_stay_within_the_limit() {
        let budget = Budget::new(1_000);
        std::thread::scope(|threads| {
            for part in [Part::RunIndexes, Part::Readahead, Part::WriteBuffers] {
                let budget = &budget;
                threads.spawn(move || {
                    for i in 0..20_000usize {
                        if budget.try_add(part, 1 + i % 700) {
                            assert!(budget.used() <= 1_000);
                            budget.sub(part, 1 + i % 700);
                        }
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
    }

    #[test]
    #[should_panic(expected = "B1")]
    fn giving_back_more_than_taken_is_a_mistake() {
        Budget::new(10).sub(Part::WriteBuffers, 1);
    }
}
