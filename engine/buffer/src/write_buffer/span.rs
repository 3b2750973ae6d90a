//! The span of a shelf: the fences between which its entries are.

use std::ops::Bound;

use frond_base::{Seq, SEQ_MAX};

use crate::fence::{head_after, Fence};

/// From `lo` (inclusive) to `hi` (exclusive; open when there is none).
pub(crate) struct Span {
    lo: Fence,
    hi: Option<Fence>,
    /// Head of the whole high fence: for most keys, comparing heads suffices to see that they are
    /// below the fence.
    hi_head: u64,
}

impl Span {
    pub fn whole() -> Span {
        Span::of(Fence::leftmost(), None)
    }

    fn of(lo: Fence, hi: Option<Fence>) -> Span {
        let hi_head = hi.as_ref().map_or(0, |hi| head_after(&hi.key, 0));
        Span { lo, hi, hi_head }
    }

    /// Ends this span at `fence`, which lies in it, and returns what follows (BU3).
    pub fn cut(&mut self, fence: Fence) -> Span {
        let before = |a: &Fence, b: &Fence| a.at_or_before(&b.key, b.seq);
        let within =
            !before(&fence, &self.lo) && self.hi.as_ref().is_none_or(|hi| !before(hi, &fence));
        assert!(within, "a span is cut at a fence outside of it (BU3)");
        let hi = self.hi.take();
        let lo = std::mem::replace(&mut self.lo, Fence::leftmost());
        *self = Span::of(lo, Some(fence.clone()));
        Span::of(fence, hi)
    }

    pub fn lo(&self) -> &Fence {
        &self.lo
    }

    pub fn hi(&self) -> Option<&Fence> {
        self.hi.as_ref()
    }

    /// Bytes allocated.
    pub fn memory(&self) -> usize {
        self.lo.key.len() + self.hi.as_ref().map_or(0, |hi| hi.key.len())
    }

    /// Whether (`key`, `seq`) is before the high fence (BU3).
    #[inline]
    pub fn reaches(&self, key: &[u8], seq: Seq) -> bool {
        head_after(key, 0) < self.hi_head
            || self.hi.as_ref().is_none_or(|hi| !hi.at_or_before(key, seq))
    }

    /// Whether the next span may have versions of `key` (BU2).
    #[inline]
    pub fn ends_within(&self, key: &[u8]) -> bool {
        head_after(key, 0) == self.hi_head && self.hi.as_ref().is_some_and(|hi| *hi.key == *key)
    }

    /// Whether a range that ends at `to` is before the high fence.
    pub fn ends(&self, to: Bound<&[u8]>) -> bool {
        match to {
            Bound::Unbounded => self.hi.is_none(),
            Bound::Included(k) => self.reaches(k, 0),
            Bound::Excluded(k) => self.reaches(k, SEQ_MAX),
        }
    }

    /// Whether a range that begins at `from` is at or after the low fence.
    pub fn begins(&self, from: Bound<&[u8]>) -> bool {
        match from {
            Bound::Unbounded => self.lo.key.is_empty(),
            Bound::Included(k) => self.lo.at_or_before(k, SEQ_MAX),
            Bound::Excluded(k) => self.lo.at_or_before(k, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "BU3")]
    fn a_span_is_not_cut_outside_of_it() {
        let mut left = Span::whole();
        left.cut(Fence { key: b"m".as_slice().into(), seq: 7 });
        left.cut(Fence { key: b"x".as_slice().into(), seq: 7 });
    }

    #[test]
    fn a_cut_span_leaves_no_gap_and_no_overlap() {
        let mut left = Span::whole();
        let mut right = left.cut(Fence { key: b"m".as_slice().into(), seq: 7 });
        let last = right.cut(Fence { key: b"x".as_slice().into(), seq: SEQ_MAX });
        assert_eq!((left.hi(), right.hi()), (Some(right.lo()), Some(last.lo())));
        assert!(last.hi().is_none());
        // The newer versions of a key are before its older ones.
        assert!(left.reaches(b"m", 8) && !left.reaches(b"m", 7) && !left.reaches(b"n", 9));
        assert!(left.ends_within(b"m") && !left.ends_within(b"l"));
        assert!(right.reaches(b"wzzzzzzzzz", 0) && !right.reaches(b"x", SEQ_MAX));
        assert!(last.reaches(&[0xff; 20], 0));
        let (m, x) = (&b"m"[..], &b"x"[..]);
        assert!(!left.ends(Bound::Included(m)) && !left.ends(Bound::Unbounded));
        assert!(left.ends(Bound::Excluded(m)) && right.ends(Bound::Included(b"w")));
        assert!(!right.ends(Bound::Included(x)) && last.ends(Bound::Unbounded));
        assert!(left.begins(Bound::Unbounded) && !right.begins(Bound::Included(m)));
        assert!(right.begins(Bound::Excluded(m)) && last.begins(Bound::Included(x)));
    }
}
