//! Reading the nodes that an image names from their packs.
//!
//! - LP1. A pack is read once, or again when [`PACKS_IN_MEMORY`] others were read since; a node once.
//! - LP2. All nodes that are read lie in packs that the image lists, and take as many bytes there
//!   as the image says.

use std::collections::{BTreeMap, HashMap};

use frond_base::{BlockId, Error, Result, TreeId};

use crate::place::{checksum, Place};
use crate::store::BlockSource;
use crate::stored_format::{decode_node, Pack, StoredNode};

/// Packs that are kept while others are read.
const PACKS_IN_MEMORY: usize = 32;

/// See the module.
pub(crate) struct PackReader<'a> {
    source: &'a dyn BlockSource,
    tree: TreeId,
    file: &'a str,
    packs: &'a BTreeMap<BlockId, Pack>,
    in_memory: HashMap<BlockId, Vec<u8>>,
    /// Bytes of the nodes read so far, by pack.
    used: HashMap<BlockId, u64>,
}

impl<'a> PackReader<'a> {
    pub fn new(
        source: &'a dyn BlockSource,
        tree: TreeId,
        packs: &'a BTreeMap<BlockId, Pack>,
        file: &'a str,
    ) -> PackReader<'a> {
        let (in_memory, used) = (HashMap::new(), HashMap::new());
        PackReader { source, tree, file, packs, in_memory, used }
    }

    fn bad(&self, place: &Place, what: &str) -> Error {
        let Place { pack, offset, len, .. } = place;
        let tree = self.tree;
        let what = format!("tree {tree}: trunk node at [{offset}, +{len}) of block {pack}: {what}");
        Error::corruption(self.file, what)
    }

    /// The node at `place`.
    pub fn node(&mut self, place: &Place) -> Result<StoredNode> {
        let pack = self.packs.get(&place.pack).copied();
        let Some(pack) = pack else { return Err(self.bad(place, "no pack of the image")) };
        let end = place.offset.checked_add(place.len).filter(|end| *end <= pack.bytes);
        let Some(end) = end else { return Err(self.bad(place, "it reaches behind the pack")) };
        if !self.in_memory.contains_key(&place.pack) {
            if self.in_memory.len() >= PACKS_IN_MEMORY {
                self.in_memory.clear();
            }
            let bytes = self.source.read_block(place.pack, 0, pack.bytes)?;
            self.in_memory.insert(place.pack, bytes);
        }
        let stored = self.in_memory.get(&place.pack).and_then(|bytes| {
            bytes.get(usize::try_from(place.offset).ok()?..usize::try_from(end).ok()?)
        });
        let Some(bytes) = stored else { return Err(self.bad(place, "the pack is shorter")) };
        if checksum(bytes, self.tree.table, place.pack, place.offset) != place.checksum {
            return Err(self.bad(place, "its checksum does not match"));
        }
        let node = decode_node(bytes, self.file)?;
        *self.used.entry(place.pack).or_insert(0) += place.len;
        Ok(node)
    }

    /// All nodes were read: the packs hold as much of them as the image says (LP2).
    pub fn finish(self) -> Result<()> {
        for (block, pack) in self.packs {
            let used = self.used.get(block).copied().unwrap_or(0);
            if used != pack.live {
                let (tree, live) = (self.tree, pack.live);
                let what =
                    format!("tree {tree}: block {block} holds {used} bytes of nodes, not {live}");
                return Err(Error::corruption(self.file, what));
            }
        }
        Ok(())
    }
}
