//! The name of a cached row, and what is known of it.

use frond_base::{checksum64, EntryKind, Seq, TableId};

/// What is admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RowCaching {
    /// Nothing.
    Off,
    /// Rows for which pages are read again and again.
    #[default]
    Measured,
    /// Every row that is read from runs: for tests.
    Always,
}

/// The name of a row, with its hash.
#[derive(Clone, Copy)]
pub struct RowKey<'a> {
    pub(crate) hash: u64,
    pub(crate) tree: u32,
    pub(crate) table: u32,
    pub(crate) key: &'a [u8],
}

impl<'a> RowKey<'a> {
    /// `tree` is a number from [`RowCache::new_tree`].
    #[inline]
    pub fn new(table: TableId, tree: u32, key: &'a [u8]) -> RowKey<'a> {
        let h = checksum64(key) ^ u64::from(tree).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        RowKey { hash: h ^ (h >> 29), tree, table: table.0, key }
    }
}

/// What is known of a key, beside its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CachedRow {
    /// 0: every snapshot sees it.
    pub seq: Seq,
    /// `None`: there is no version of the key.
    pub kind: Option<EntryKind>,
}

/// Gets rows: key, what is known, value.
pub type EachRow<'a> = dyn FnMut(&[u8], CachedRow, &[u8]) + 'a;
