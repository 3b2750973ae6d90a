//! Fences: positions between entries (BU2), and the arithmetic of key heads.

use std::cmp::Ordering;

use frond_base::{key_head, Seq, SEQ_MAX};

/// A position in entry order. The leftmost fence has the empty key, which no entry has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    pub key: Box<[u8]>,
    pub seq: Seq,
}

impl Fence {
    pub fn leftmost() -> Fence {
        Fence { key: Box::default(), seq: SEQ_MAX }
    }

    /// The shortest fence that is greater than the entry `left` and not greater than `right`.
    pub fn between(left: (&[u8], Seq), right: (&[u8], Seq)) -> Fence {
        let ascending = order(left.0, left.1, right.0, right.1) == Ordering::Less;
        assert!(ascending, "a fence between entries out of order (BU1)");
        if left.0 == right.0 {
            return Fence { key: right.0.into(), seq: right.1 };
        }
        let keep = common_prefix(left.0, right.0) + 1;
        Fence { key: right.0[..keep].into(), seq: SEQ_MAX }
    }

    /// Whether the entry position (`key`, `seq`) is at or after this fence.
    #[inline]
    pub fn at_or_before(&self, key: &[u8], seq: Seq) -> bool {
        order(&self.key, self.seq, key, seq) != Ordering::Greater
    }

    pub fn memory(&self) -> usize {
        std::mem::size_of::<Fence>() + self.key.len()
    }
}

/// Entry order: key ascending, then sequence descending (BU1).
#[inline]
pub(crate) fn order(key_a: &[u8], seq_a: Seq, key_b: &[u8], seq_b: Seq) -> Ordering {
    key_a.cmp(key_b).then(seq_b.cmp(&seq_a))
}

/// Length of the common prefix of `a` and `b`.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Number of leading bytes that all keys between `lo` and `hi` share (BU5), 65535 at most; 0 when a side
/// is open.
pub(crate) fn shared_bytes(lo: &Fence, hi: Option<&Fence>) -> usize {
    hi.map_or(0, |hi| common_prefix(&lo.key, &hi.key).min(usize::from(u16::MAX)))
}

/// The head of `key` after its first `skip` bytes.
#[inline]
pub(crate) fn head_after(key: &[u8], skip: usize) -> u64 {
    key_head(key.get(skip..).unwrap_or(&[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_between_is_short_and_separates() {
        let f = Fence::between((b"abcd", 5), (b"abxyz", 9));
        assert_eq!((&*f.key, f.seq), (&b"abx"[..], SEQ_MAX));
        assert!(!f.at_or_before(b"abcd", 5) && f.at_or_before(b"abxyz", 9));
        let f = Fence::between((b"k", 9), (b"k", 5));
        assert!(!f.at_or_before(b"k", 9) && !f.at_or_before(b"k", 6));
        assert!(f.at_or_before(b"k", 5) && f.at_or_before(b"k", 1));
        let f = Fence::between((b"a", 1), (b"ab", 1));
        assert!(!f.at_or_before(b"a", 0) && f.at_or_before(b"ab", SEQ_MAX));
    }

    #[test]
    #[should_panic(expected = "BU1")]
    fn entries_out_of_order_have_no_fence_between_them() {
        Fence::between((b"k", 5), (b"k", 9));
    }
}
