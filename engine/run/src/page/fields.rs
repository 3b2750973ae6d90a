//! Fields of fixed keys: where they lie in a head, and a search key cut into them.
//!
//! A head is the key in words of 64 bits, first byte highest, so heads compare as keys do.

use std::cmp::Ordering;

use crate::bits;
use crate::format::KeyShape;

/// Where a key field lies within the words of a head.
#[derive(Clone, Copy, Default)]
pub(crate) struct FieldPlace {
    pub(crate) word: usize,
    /// Left shift within the word; if `spill` > 0 the field ends in the next word's top `spill`
    /// bits.
    pub(crate) shift: u32,
    pub(crate) spill: u32,
    pub(crate) mask: u64,
}

/// Places the fields of `widths` one after the other.
pub(crate) fn field_places(widths: &[u8]) -> [FieldPlace; KeyShape::MAX_FIELDS] {
    let mut out = [FieldPlace::default(); KeyShape::MAX_FIELDS];
    let mut bit = 0u32;
    for (place, width) in out.iter_mut().zip(widths) {
        let bits = 8 * u32::from(*width);
        let end = bit % 64 + bits;
        place.word = (bit / 64) as usize;
        place.mask = bits::mask(bits);
        if end <= 64 {
            place.shift = 64 - end;
        } else {
            place.spill = end - 64;
        }
        bit += bits;
    }
    out
}

impl FieldPlace {
    /// The field's value in a head.
    #[inline]
    pub(crate) fn take<const W: usize>(&self, head: &[u64; W]) -> u64 {
        if self.spill == 0 {
            return (head[self.word] >> self.shift) & self.mask;
        }
        let high = head[self.word] << self.spill;
        (high | (head[self.word + 1] >> (64 - self.spill))) & self.mask
    }

    /// Writes `value` (already within `mask`) into a head whose bits are 0 there.
    #[inline]
    pub(crate) fn put<const W: usize>(&self, head: &mut [u64; W], value: u64) {
        if self.spill == 0 {
            head[self.word] |= value << self.shift;
        } else {
            head[self.word] |= value >> self.spill;
            head[self.word + 1] |= value << (64 - self.spill);
        }
    }
}

/// A search key against fixed keys, field by field: most comparisons are decided by the first field that
/// is not constant, and no other is unpacked.
pub(super) struct Target {
    columns: usize,
    fields: [u64; KeyShape::MAX_FIELDS],
    masks: [u64; KeyShape::MAX_FIELDS],
    /// The result when all fields are equal: the keys and the target may differ in length.
    pub(super) tie: Ordering,
}

impl Target {
    pub(super) fn new(key: &[u8], widths: &[u8]) -> Target {
        let len: usize = widths.iter().map(|w| usize::from(*w)).sum();
        let mut out = Target {
            columns: widths.len(),
            fields: [0; KeyShape::MAX_FIELDS],
            masks: [0; KeyShape::MAX_FIELDS],
            tie: len.cmp(&key.len()),
        };
        let mut rest = key;
        for (c, width) in widths.iter().enumerate() {
            let width = usize::from(*width);
            let (field, behind) = rest.split_at(width.min(rest.len()));
            // A short target compares as if zeros followed; `tie` puts it before the key they make.
            let given = field.iter().fold(0, |n, b| n << 8 | u64::from(*b));
            out.fields[c] = given.checked_shl(8 * (width - field.len()) as u32).unwrap_or(0);
            out.masks[c] = bits::mask(8 * width as u32);
            rest = behind;
        }
        out
    }

    /// Where `first` is the first field of a key, with other bits above: orders it relative to the target's.
    #[inline]
    pub(super) fn compare_first(&self, first: u64) -> Ordering {
        (first & self.masks[0]).cmp(&self.fields[0])
    }

    /// The fields in order.
    #[inline]
    pub(super) fn fields(&self) -> &[u64] {
        &self.fields[..self.columns]
    }

    /// Orders the key whose fields `field` gives, asked in order, relative to the target.
    #[inline]
    pub(super) fn compare(&self, mut field: impl FnMut(usize) -> u64) -> Ordering {
        for c in 0..self.columns {
            let value = field(c) & self.masks[c];
            if value != self.fields[c] {
                return value.cmp(&self.fields[c]);
            }
        }
        self.tie
    }
}
