//! The weight of a key range.

/// Entries and bytes of a key range; `bytes` counts keys, values and record headers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Weight {
    pub entries: u64,
    pub bytes: u64,
}

impl Weight {
    pub(crate) fn add(&mut self, (entries, bytes): (u64, u64)) {
        self.entries += entries;
        self.bytes += bytes;
    }
}
