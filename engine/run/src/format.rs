//! How a run is to be built: page size, compression, key shape, identity.
//!
//! None of these change the meaning of a run's entries; a tree may mix runs of different formats.

use frond_base::{BlockId, TableId};

pub use frond_base::MAX_KEY;

/// The longest value, in bytes.
pub const MAX_VALUE: usize = 64 << 20;

/// Entry bytes (key + value) after which a page is full, at most.
pub(crate) const MAX_PAGE_BYTES: usize = 65536;

/// How the pages of a run are compressed, each on its own, where that makes them smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Lz4,
    /// Zstandard at this level.
    Zstd(i8),
}

/// The widths of the fixed-width fields that keys consist of, or "variable". A key that does not
/// fit its shape is no error: the page that holds it is stored with variable-length keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyShape {
    len: u8,
    widths: [u8; KeyShape::MAX_FIELDS],
}

impl KeyShape {
    /// Most fields of a fixed shape.
    pub const MAX_FIELDS: usize = 16;
    /// Longest key of a fixed shape.
    pub const MAX_BYTES: usize = 32;

    /// Keys of any length.
    pub const fn variable() -> KeyShape {
        KeyShape { len: 0, widths: [0; KeyShape::MAX_FIELDS] }
    }

    /// Keys made of big-endian fields of these widths in bytes, each 1 to 8. A shape of more than
    /// [`Self::MAX_FIELDS`] fields or [`Self::MAX_BYTES`] bytes is treated as variable.
    pub fn fixed(widths: &[u8]) -> KeyShape {
        assert!(widths.iter().all(|w| (1..=8).contains(w)), "field widths are 1..=8: {widths:?}");
        let bytes: usize = widths.iter().map(|w| usize::from(*w)).sum();
        if widths.len() > Self::MAX_FIELDS || bytes > Self::MAX_BYTES {
            return KeyShape::variable();
        }
        let mut shape = KeyShape::variable();
        shape.len = widths.len() as u8;
        shape.widths[..widths.len()].copy_from_slice(widths);
        shape
    }

    /// A shape read from disk; `None` when no release writes it.
    pub(crate) fn checked(widths: &[u8]) -> Option<KeyShape> {
        let bytes: usize = widths.iter().map(|w| usize::from(*w)).sum();
        let fits = widths.len() <= Self::MAX_FIELDS && bytes <= Self::MAX_BYTES;
        (fits && widths.iter().all(|w| (1..=8).contains(w))).then(|| KeyShape::fixed(widths))
    }

    pub fn is_variable(&self) -> bool {
        self.len == 0
    }

    pub fn widths(&self) -> &[u8] {
        &self.widths[..usize::from(self.len)]
    }

    /// Length of a key of this shape; 0 when variable.
    pub fn key_bytes(&self) -> usize {
        self.widths().iter().map(|w| usize::from(*w)).sum()
    }
}

/// How to build a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFormat {
    /// Entry bytes (key + value) per page before encoding and compression, 4096 to 65536. An entry
    /// larger than that gets a page of its own. Pages of entries that hardly compress are smaller (`page_size.rs`).
    pub page_bytes: u32,
    pub compression: Compression,
    pub key_shape: KeyShape,
    /// Whether the run carries a bloom filter over its keys.
    pub filter: bool,
}

/// Identifies a run: its table and its block. Every page checksum is seeded with it, so that intact
/// pages found in the wrong place do not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunIdentity {
    pub table: TableId,
    pub block: BlockId,
}

impl RunIdentity {
    /// Checksum seed of a page; `u32::MAX` stands for the tail.
    pub(crate) fn seed(&self, page: u32) -> u64 {
        let table = u64::from(self.table.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let block = self.block.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(23);
        let page = (u64::from(page) + 1).wrapping_mul(0x1656_67b1_9e37_79f9).rotate_left(47);
        table ^ block ^ page
    }
}
