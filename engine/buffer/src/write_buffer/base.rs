//! The base: the sorted entries of a shelf. The same type holds the descent, a backlog that is
//! being merged into the base.
//!
//! Neither ever changes (BU6), so a thread joins them without a latch, and a reader of a
//! frozen buffer may keep a base.

use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use frond_base::{EntryRef, Seq};

use crate::fence::{common_prefix, order, Fence};
use crate::write_buffer::head_prefix::HeadPrefix;
use crate::write_buffer::part::Part;
use crate::write_buffer::record::{record_bytes, Arena, Records};

/// With more segments than this the records are gathered.
const MOST_SEGMENTS: usize = 1 << 14;
/// So many bytes may always belong to no entry.
const DEAD_BYTES: usize = 64 << 10;
/// Records are gathered when more than one entry in this many lies apart.
const APART: usize = 8;
/// Records of more bytes are not gathered for readers.
const MOST_GATHERED: usize = 8 << 20;

/// Entries in order. Never changes.
#[derive(Default)]
pub(crate) struct Base {
    pub part: Part,
    pub records: Records,
    pub head_prefix: HeadPrefix,
    /// Bytes of records that belong to no entry.
    dead: usize,
    /// Entries added since all records were gathered in order.
    apart: usize,
}

/// The base of every shelf that has no entry in order yet.
static NONE: LazyLock<Arc<Base>> = LazyLock::new(Arc::default);

impl Base {
    /// A base without entries, which all buffers share.
    pub fn none() -> Arc<Base> {
        NONE.clone()
    }

    /// A backlog in order, its records copied in that order, and seen through `head_prefix`.
    pub fn gather(mut part: Part, arena: &Arena, head_prefix: HeadPrefix) -> Base {
        let records = Records::gather(&mut part.places, arena);
        Base { part, records, head_prefix, dead: 0, apart: 0 }
    }

    /// Bytes allocated; 0 of the shared one.
    pub fn memory(&self) -> usize {
        if std::ptr::eq(self, &**NONE) {
            return 0;
        }
        self.part.memory() + self.records.memory() + std::mem::size_of::<Base>()
    }

    pub fn len(&self) -> usize {
        self.part.len()
    }

    #[inline]
    pub fn entry(&self, i: usize) -> EntryRef<'_> {
        self.part.entry(i, &self.records)
    }

    /// Prefetches the records of some entries, unless they lie together.
    #[inline]
    pub fn fetch(&self, from: usize, to: usize) {
        if !self.is_gathered() {
            self.part.touch(from, to, &self.records);
        }
    }

    /// Whether the records of nearly all neighbours lie together.
    pub fn is_gathered(&self) -> bool {
        self.apart <= self.len() / APART
    }

    /// Whether readers gain if the records are gathered.
    pub fn is_worth_gathering(&self) -> bool {
        !self.is_gathered() && self.records.bytes() <= MOST_GATHERED
    }

    pub fn range(&self, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> (usize, usize) {
        let from = self.part.lower_bound(lo, &self.head_prefix, &self.records);
        let to = self.part.upper_bound(hi, &self.head_prefix, &self.records);
        (from, to.max(from))
    }

    /// This base and a backlog that came later. `keep`: see [`frond_base::Readers`].
    pub fn absorb(&self, later: &Base, keep: &[Seq]) -> Base {
        debug_assert_eq!(self.head_prefix, later.head_prefix);
        let (mut records, shift) = self.records.joined(&later.records);
        let absorbed = self.part.absorb(&later.part, &records, shift, keep);
        records.drop_bytes(absorbed.dropped);
        let mut base = Base {
            part: absorbed.part,
            records,
            head_prefix: self.head_prefix.clone(),
            dead: self.dead + absorbed.dropped,
            apart: if self.len() == 0 { 0 } else { self.apart + later.len() },
        };
        if absorbed.tied > later.len() / 4 && base.len() > 1 {
            let (first, last) = (base.entry(0), base.entry(base.len() - 1));
            let head_prefix = HeadPrefix::new(&first.key[..common_prefix(first.key, last.key)]);
            if head_prefix != base.head_prefix {
                base.part = base.part.seen_through(&head_prefix, &base.records);
                base.head_prefix = head_prefix;
            }
        }
        let much = base.dead > base.records.bytes().max(DEAD_BYTES);
        if much || base.records.segments() > MOST_SEGMENTS {
            return base.gathered();
        }
        base
    }

    /// The same entries, their records copied in order.
    pub fn gathered(&self) -> Base {
        self.gathered_part(self.part.clone())
    }

    fn gathered_part(&self, mut part: Part) -> Base {
        let records = Records::gather(&mut part.places, &self.records);
        Base { part, records, head_prefix: self.head_prefix.clone(), dead: 0, apart: 0 }
    }

    /// Divided before entry `at`, an inner one. Each side gets its own records, so that memory held
    /// is memory accounted.
    pub fn divided(&self, at: usize) -> (Base, Base) {
        let (left, right) = self.part.split(at);
        (self.gathered_part(left), self.gathered_part(right))
    }

    /// The fence before entry `at`, which is not the first.
    pub fn fence(&self, at: usize) -> Fence {
        self.fence_after(at - 1, &self.entry(at))
    }

    fn fence_after(&self, at: usize, right: &EntryRef<'_>) -> Fence {
        let left = self.entry(at);
        Fence::between((left.key, left.seq), (right.key, right.seq))
    }

    /// The fence between this base and `later`, if all entries of `later` come after this base.
    pub fn fence_before(&self, later: &Base) -> Option<Fence> {
        let last = self.len().checked_sub(1)?;
        let (left, right) = (self.entry(last), later.entry(0));
        order(left.key, left.seq, right.key, right.seq)
            .is_lt()
            .then(|| self.fence_after(last, &right))
    }

    /// Asserts order and accounting; for tests.
    pub fn check(&self) {
        let bytes: usize = (0..self.len()).map(|i| record_bytes(&self.entry(i))).sum();
        assert_eq!(bytes, self.records.bytes());
        assert_eq!(bytes + self.dead, self.records.held());
        for i in 1..self.len() {
            let (l, r) = (self.entry(i - 1), self.entry(i));
            assert!(order(l.key, l.seq, r.key, r.seq).is_lt());
        }
    }
}
