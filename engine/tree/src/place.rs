//! Where a node is stored, if it did not change since the newest image.
//!
//! - NP1. A node that has a place was stored with the places of its children; all nodes below it have theirs.
//!   So a node that changed has no place, nor has any node above it.
//! - NP2. The pack of a place is a block that the newest image names, until a newer image is durable.

use frond_base::{checksum64_seeded, BlockId, TableId};
use parking_lot::Mutex;

/// Bytes of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub pack: BlockId,
    pub offset: u64,
    pub len: u64,
    /// [`checksum`] of the bytes.
    pub checksum: u64,
}

/// The place of a node in memory. A copy of a node has none: it is about to be changed (NP1).
#[derive(Default)]
pub(crate) struct StoredCell(Mutex<Stored>);

#[derive(Default)]
struct Stored {
    /// Nodes of small trees, and nodes that were just written, have none.
    place: Option<Box<Place>>,
    /// The current trunk does not have the node any more.
    is_gone: bool,
}

impl StoredCell {
    pub fn get(&self) -> Option<Place> {
        self.0.lock().place.as_deref().copied()
    }

    /// Returns the place before, and whether the node has left the trunk.
    pub fn set(&self, place: Option<Place>) -> (Option<Place>, bool) {
        let mut stored = self.0.lock();
        let before = std::mem::replace(&mut stored.place, place.map(Box::new));
        (before.map(|place| *place), stored.is_gone)
    }

    /// The node leaves the trunk; returns its place.
    pub fn leave(&self) -> Option<Place> {
        let mut stored = self.0.lock();
        stored.is_gone = true;
        stored.place.as_deref().copied()
    }
}

impl Clone for StoredCell {
    fn clone(&self) -> StoredCell {
        StoredCell::default()
    }
}

/// The checksum of a stored node; bytes of another place do not verify.
pub(crate) fn checksum(bytes: &[u8], table: TableId, pack: BlockId, offset: u64) -> u64 {
    let table = u64::from(table.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let pack = pack.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(23);
    let offset = offset.wrapping_add(1).wrapping_mul(0x1656_67b1_9e37_79f9).rotate_left(47);
    checksum64_seeded(bytes, table ^ pack ^ offset)
}
