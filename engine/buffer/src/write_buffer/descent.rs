//! The descent of a backlog: joining it with the base, outside the latch, and dividing a base that
//! has become too large.

use std::sync::Arc;

use frond_base::Seq;

use crate::fence::Fence;
use crate::write_buffer::base::Base;

/// Entries after which a shelf is divided, at least and at most.
const NARROWEST: usize = 8 << 10;
const WIDEST: usize = 256 << 10;
/// Bytes after which it is divided: dividing copies them, so they are in memory twice meanwhile.
const MOST_BYTES: usize = 16 << 20;
/// Within these bounds a shelf is divided when it has more than 1/64 of the buffer's entries. So there
/// are about 64 shelves, and these grow.
const SHELVES: usize = 64;

/// A base and its descent, to be joined without the latch.
pub(crate) struct Joining {
    pub base: Arc<Base>,
    pub descent: Arc<Base>,
}

/// The result: a base and, if it was divided, the base of the shelf that follows, from the fence on.
pub(crate) struct Joined {
    pub base: Arc<Base>,
    pub right: Option<(Fence, Arc<Base>)>,
}

/// Entries at which a shelf of a buffer of `entries` is divided.
pub(crate) fn widest(entries: u64) -> usize {
    (entries as usize / SHELVES).clamp(NARROWEST, WIDEST)
}

impl Joining {
    /// Joins them, whatever the size of the result.
    pub fn whole(&self, keep: &[Seq]) -> Base {
        self.base.absorb(&self.descent, keep)
    }

    /// Joins them. A result of more than `widest` entries is divided: in the middle or, when keys
    /// arrive in order, behind the base.
    pub fn run(&self, keep: &[Seq], widest: usize) -> Joined {
        let (base, descent) = (&self.base, &self.descent);
        let is_large = |entries, bytes| entries > widest || bytes > MOST_BYTES;
        let bytes = base.records.bytes() + descent.records.bytes();
        if is_large(base.len() + descent.len(), bytes) {
            if let Some(fence) = base.fence_before(descent) {
                return Joined { base: base.clone(), right: Some((fence, descent.clone())) };
            }
        }
        let joined = self.whole(keep);
        if joined.len() < 2 || !is_large(joined.len(), joined.records.bytes()) {
            return Joined { base: Arc::new(joined), right: None };
        }
        let at = joined.len() / 2;
        let (left, right) = joined.divided(at);
        Joined { base: Arc::new(left), right: Some((joined.fence(at), Arc::new(right))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_buffer::shelf::tests::push;
    use crate::write_buffer::shelf::Shelf;

    #[test]
    fn a_divided_shelf_loses_nothing_on_either_side() {
        for ascending in [false, true] {
            let mut shelf = Shelf::new();
            let key = |i: u64| match ascending {
                true => i.to_be_bytes(),
                false => i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(),
            };
            let mut right = None;
            let mut n = 0;
            while right.is_none() {
                let mut push_some = |shelf: &mut Shelf| {
                    for _ in 0..1000 {
                        push(shelf, &key(n), 1, b"v");
                        n += 1;
                    }
                };
                push_some(&mut shelf);
                shelf.begin();
                let joined = shelf.joining().map(|j| j.run(&[], NARROWEST));
                // These arrive while the others are joined.
                push_some(&mut shelf);
                let held = shelf.memory();
                right = joined.and_then(|joined| shelf.land(joined));
                assert!(right.is_some() || held > shelf.memory() / 2);
            }
            let mut right = right.expect("the loop ends with it");
            assert!(n as usize > NARROWEST && n as usize <= NARROWEST + 3000, "{n} entries");
            assert_eq!(shelf.span().hi(), Some(right.span().lo()));
            assert!(right.base().len() > 0);
            assert_eq!(shelf.is_settled(), ascending, "what is behind the base stays together");
            if ascending {
                assert!(shelf.memory() < shelf.payload() * 2, "it needs no room for more");
            }
            for settled in [false, true] {
                for i in 0..n {
                    let home = if shelf.span().reaches(&key(i), 1) { &shelf } else { &right };
                    assert_eq!(home.get(&key(i), 1).map(|e| e.value), Some(&b"v"[..]));
                }
                assert_eq!(shelf.entries() + right.entries(), n as usize);
                if !settled {
                    shelf.settle(&[]);
                    right.settle(&[]);
                }
            }
            shelf.check();
            right.check();
        }
    }
}
