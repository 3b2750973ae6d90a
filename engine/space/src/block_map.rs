//! Which extent each block is in, and which blocks the newest durable image names.
//!
//! - BMP1. `imaged` is the number of blocks that the newest durable image names. A marked block is one of them;
//!   those that were released since are not in the map any more.
//!
//! Ordered, so that an image is made by one pass in the order of its bytes. Rejected: a hash table. Making an
//! image of a million blocks then sorted them and looked each one up.

use std::collections::{BTreeMap, BTreeSet};

use frond_base::BlockId;

use crate::extent::{Extent, EXTENT_ALIGN};

/// The blocks that a checkpoint's image names and the previous image does not, and the reverse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockChange {
    /// Each once, and in the file.
    pub added: Vec<BlockId>,
    /// Each once. They may have been released by now.
    pub removed: Vec<BlockId>,
}

/// An extent, and a mark in the lowest bit of its length, which is a multiple of [`EXTENT_ALIGN`].
#[derive(Clone, Copy)]
struct Entry {
    offset: u64,
    len_and_mark: u64,
}

impl Entry {
    fn new(extent: Extent, marked: bool) -> Entry {
        assert!(extent.len.is_multiple_of(EXTENT_ALIGN), "an extent is whole units");
        Entry { offset: extent.offset, len_and_mark: extent.len | u64::from(marked) }
    }

    fn extent(self) -> Extent {
        Extent { offset: self.offset, len: self.len_and_mark & !1 }
    }

    fn is_marked(self) -> bool {
        self.len_and_mark & 1 != 0
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct BlockMap {
    blocks: BTreeMap<BlockId, Entry>,
    imaged: u64,
}

impl BlockMap {
    /// The map of the newest image, which names `blocks`.
    pub fn of_image(blocks: &[(BlockId, Extent)]) -> BlockMap {
        let all = blocks.iter().map(|(block, extent)| (*block, Entry::new(*extent, true)));
        BlockMap { blocks: all.collect(), imaged: blocks.len() as u64 }
    }

    pub fn get(&self, block: BlockId) -> Option<Extent> {
        self.blocks.get(&block).map(|entry| entry.extent())
    }

    /// Adds a block that no image names. False: there is a block with that number.
    pub fn insert(&mut self, block: BlockId, extent: Extent) -> bool {
        self.blocks.insert(block, Entry::new(extent, false)).is_none()
    }

    pub fn remove(&mut self, block: BlockId) -> Option<Extent> {
        self.blocks.remove(&block).map(Entry::extent)
    }

    /// All blocks, ascending by number.
    pub fn iter(&self) -> impl Iterator<Item = (BlockId, Extent)> + '_ {
        self.blocks.iter().map(|(block, entry)| (*block, entry.extent()))
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes of memory; the nodes of the ordered map are a bit more than half full.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.len() * (std::mem::size_of::<(BlockId, Entry)>() * 2)
    }

    /// Whether an image names the block that differs by `change` from the newest one.
    fn names(block: BlockId, entry: Entry, change: &Sets) -> bool {
        match entry.is_marked() {
            true => !change.removed.contains(&block),
            false => change.added.contains(&block),
        }
    }

    /// The blocks of an image that differs by `change` from the newest one, by number. Panics when they are not all
    /// there (S6).
    pub fn image(&self, change: &BlockChange) -> Vec<(BlockId, Extent)> {
        let count =
            (self.imaged + change.added.len() as u64).checked_sub(change.removed.len() as u64);
        let Some(count) = count else { panic!("more blocks leave than an image has (S6)") };
        let sets = Sets::of(change);
        let named =
            self.blocks.iter().filter(|(block, entry)| Self::names(**block, **entry, &sets));
        let all: Vec<_> = named.map(|(block, entry)| (*block, entry.extent())).collect();
        assert_eq!(
            all.len() as u64,
            count,
            "blocks that the image names are released, or named twice (S6)"
        );
        all
    }

    /// Notes that the image that differs by `change` from the newest one is durable.
    pub fn imaged(&mut self, change: &BlockChange) {
        for (blocks, marked) in [(&change.added, true), (&change.removed, false)] {
            for block in blocks {
                if let Some(entry) = self.blocks.get_mut(block) {
                    *entry = Entry::new(entry.extent(), marked);
                }
            }
        }
        self.imaged = self.imaged + change.added.len() as u64 - change.removed.len() as u64;
    }

    /// The change from the newest image to one that names exactly `live`. Forgets the blocks that the newest image
    /// names and that were released since. Looks at all blocks.
    pub fn change_to(&mut self, live: &[BlockId]) -> BlockChange {
        let live: BTreeSet<BlockId> = live.iter().copied().collect();
        let marked = self.blocks.iter().filter(|(_, entry)| entry.is_marked());
        let marked: BTreeSet<BlockId> = marked.map(|(block, _)| *block).collect();
        self.imaged = marked.len() as u64;
        let added = live.difference(&marked).copied().collect();
        BlockChange { added, removed: marked.difference(&live).copied().collect() }
    }
}

struct Sets {
    added: BTreeSet<BlockId>,
    removed: BTreeSet<BlockId>,
}

impl Sets {
    fn of(change: &BlockChange) -> Sets {
        let set = |blocks: &[BlockId]| blocks.iter().copied().collect();
        Sets { added: set(&change.added), removed: set(&change.removed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(n: u64) -> Extent {
        Extent { offset: n * EXTENT_ALIGN, len: EXTENT_ALIGN }
    }

    fn change(added: &[BlockId], removed: &[BlockId]) -> BlockChange {
        BlockChange { added: added.to_vec(), removed: removed.to_vec() }
    }

    fn numbers(image: &[(BlockId, Extent)]) -> Vec<BlockId> {
        image.iter().map(|(block, _)| *block).collect()
    }

    #[test]
    fn images_follow_from_differences() {
        let mut map = BlockMap::of_image(&[(1, extent(2)), (4, extent(3))]);
        assert!(map.insert(7, extent(4)) && map.insert(8, extent(5)) && !map.insert(8, extent(5)));
        let first = change(&[7], &[4]);
        assert_eq!(map.image(&first), [(1, extent(2)), (7, extent(4))]);
        // Not durable: the next one begins from the same image.
        assert_eq!(numbers(&map.image(&change(&[], &[]))), [1, 4]);
        map.imaged(&first);
        assert_eq!(numbers(&map.image(&change(&[], &[]))), [1, 7]);
        // Released by now, and the image says so.
        assert_eq!((map.remove(1), map.get(1)), (Some(extent(2)), None));
        assert_eq!(numbers(&map.image(&change(&[8], &[1]))), [7, 8]);
        let all = map.change_to(&[8]);
        assert_eq!(all, change(&[8], &[7]));
        assert_eq!(numbers(&map.image(&all)), [8]);
    }

    #[test]
    #[should_panic(expected = "S6")]
    fn a_block_that_is_released_and_still_named_is_noticed() {
        let mut map = BlockMap::of_image(&[(1, extent(2)), (4, extent(3))]);
        map.remove(4);
        map.image(&change(&[], &[]));
    }
}
