//! How many bytes a sequence takes beside an entry.

use frond_base::Seq;

/// Width of a sequence: two bytes, and this many pairs more.
#[inline]
pub(crate) fn seq_width(seq: Seq) -> u32 {
    match seq {
        0..=0xffff => 0,
        0x1_0000..=0xffff_ffff => 1,
        0x1_0000_0000..=0xffff_ffff_ffff => 2,
        _ => 3,
    }
}
