//! The dead keys that a cursor has passed since the last row.

use frond_base::Seq;

/// Dead keys with no row between them.
#[derive(Default)]
pub(super) struct DeadKeys {
    /// Passed one by one in write buffers.
    pub passed: u64,
    pub first: Vec<u8>,
    pub last: Vec<u8>,
    /// The largest sequence of their tombstones, and of the ranges among them.
    pub newest: Seq,
}

impl DeadKeys {
    pub fn clear(&mut self) {
        self.passed = 0;
        self.first.clear();
        self.last.clear();
        self.newest = 0;
    }

    /// Adds dead keys from `lo` to `last`, which lie beside the others in the cursor's direction.
    pub fn add(&mut self, lo: &[u8], last: &[u8], newest: Seq, forward: bool) {
        let set = |to: &mut Vec<u8>, key: &[u8]| {
            to.clear();
            to.extend_from_slice(key);
        };
        if self.first.is_empty() || !forward {
            set(&mut self.first, lo);
        }
        if self.last.is_empty() || forward {
            set(&mut self.last, last);
        }
        self.newest = self.newest.max(newest);
    }
}
