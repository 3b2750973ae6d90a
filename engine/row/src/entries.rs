//! The entries of one row, in one reusable buffer.

/// Position of one index's entry.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Slot {
    pub start: usize,
    pub user_end: usize,
    pub key_end: usize,
    pub value_end: usize,
    pub has_null: bool,
    pub present: bool,
}

/// The keys and values from [`crate::RowCodec::encode_row`], one slot per index of the schema in
/// schema order. Reuse one value for many rows: no allocation once it has grown.
#[derive(Default, Debug)]
pub struct Entries {
    pub(crate) bytes: Vec<u8>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) scratch: Vec<u8>,
}

impl Entries {
    pub fn new() -> Entries {
        Entries::default()
    }

    /// Number of slots: indexes of the schema, or 0 before the first row.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether this index was encoded (see `encode_indexes`).
    pub fn present(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(|s| s.present)
    }

    #[inline]
    pub fn key(&self, index: usize) -> &[u8] {
        let s = &self.slots[index];
        &self.bytes[s.start..s.key_end]
    }

    #[inline]
    pub fn value(&self, index: usize) -> &[u8] {
        let s = &self.slots[index];
        &self.bytes[s.key_end..s.value_end]
    }

    /// The part of the key that must be unique in a unique index: its own parts without the primary
    /// key. `None` when one of them is NULL: NULLs never conflict.
    pub fn unique_prefix(&self, index: usize) -> Option<&[u8]> {
        let s = &self.slots[index];
        (!s.has_null).then(|| &self.bytes[s.start..s.user_end])
    }

    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.scratch.capacity()
    }
}
