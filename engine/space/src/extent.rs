//! A stretch of a table file.

use std::fmt;

/// Every extent starts and ends at a multiple of this (bytes): the unit of direct I/O and of holes.
pub const EXTENT_ALIGN: u64 = 4096;

/// Bytes `[offset, offset + len)` of a file. Both are multiples of [`EXTENT_ALIGN`]; `len` > 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    pub offset: u64,
    pub len: u64,
}

impl Extent {
    /// First byte after the extent.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, +{})", self.offset, self.len)
    }
}

/// `bytes` rounded up to whole [`EXTENT_ALIGN`] units; `None` when that overflows.
pub fn aligned(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(EXTENT_ALIGN)
}
