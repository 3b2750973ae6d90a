//! One version of a tree's metadata, as a checkpoint takes it: in constant time, under the mutexes that order
//! commits and edits. What it holds never changes, so it is encoded and written while the tree goes on.
//!
//! A small version is stored in its image as a whole. Of a larger one the nodes that changed since the image
//! before are written into packs, children before parents, and the image names the root's place.
//!
//! Packs with less than a quarter of live bytes are cleared: what is live in them is written again, and
//! all above it, as long as that is less than what changed. So packs take at most about four times the live
//! bytes. A pack without live bytes is given back when the image that does not name it is durable (NP2).
//!
//! - VN1. At most one version of a tree is being stored: the table file's checkpoint pin sees to that.
//! - VN2. Places change when the image is durable, not before: after a failure nothing has happened.
//!
//! The runs of a version are not given back while it is held.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use frond_base::{BlockId, Result};

use crate::difference;
use crate::format;
use crate::node::{Body, Node};
use crate::place::{checksum, Place, Stored};
use crate::stored_format::{self, Below, Pack, RootImage};
use crate::tree::{Image, Tree, TreeInner};
use crate::triggers;
use crate::trunk::{node_slices, Trunk};

/// A pack of which less than one of so many bytes is live is cleared.
const SPARSE: u64 = 4;
/// Packs lie in units of this many bytes.
const UNIT: u64 = 4096;
/// Roughly the bytes of a stored slice, the metadata of a run included, and of an edge.
const SLICE_BYTES: u64 = 100;
const EDGE_BYTES: u64 = 64;

/// See the module.
pub struct Version {
    tree: Arc<TreeInner>,
    trunk: Arc<Trunk>,
}

/// A version whose nodes are written and not yet durable. Dropped, it gives back what was written.
pub struct StoredVersion {
    tree: Arc<TreeInner>,
    image: Vec<u8>,
    blocks: Vec<BlockId>,
    /// What the nodes' places will be.
    places: Vec<(Arc<Node>, Option<Stored>)>,
    /// The packs that the image names, with their bytes.
    packs: BTreeMap<BlockId, u64>,
    /// Those that were written now.
    fresh: Vec<BlockId>,
    /// Those that the image before named and this one does not.
    dead: Vec<BlockId>,
    bytes_written: u64,
    is_durable: bool,
}

impl Tree {
    /// The current version. Constant time.
    pub fn version(&self) -> Version {
        let trunk = self.inner.view.load().trunk.clone();
        Version { tree: self.inner.clone(), trunk }
    }

    /// The packs that the newest durable image names, ascending.
    pub fn packs(&self) -> Vec<BlockId> {
        self.inner.packs.lock().keys().copied().collect()
    }
}

impl Version {
    /// All of the version as bytes for [`crate::TreeLoader::from_image`].
    pub fn image(&self) -> Image {
        let lsn = self.trunk.applied;
        Image { lsn, bytes: format::encode_image(lsn, &difference::whole(&self.trunk)) }
    }

    /// Writes what the image needs beside itself. Call [`StoredVersion::set_durable`] when the image is durable.
    pub fn store(&self) -> Result<StoredVersion> {
        let mut survey = Survey::of(&self.trunk);
        let mut out = StoredVersion {
            tree: self.tree.clone(),
            image: Vec::new(),
            blocks: Vec::new(),
            places: Vec::new(),
            packs: BTreeMap::new(),
            fresh: Vec::new(),
            dead: Vec::new(),
            bytes_written: 0,
            is_durable: false,
        };
        out.blocks = std::mem::take(&mut survey.runs);
        let before = self.tree.packs.lock().clone();
        if survey.bytes <= self.tree.options.image_bytes {
            self.trunk.walk(&mut |node, _, _| out.places.push((node.clone(), None)));
            out.image = self.image().bytes;
        } else {
            let moving = survey.sparse(&before);
            let mut packer = Packer {
                tree: &self.tree,
                moving: &moving,
                live: survey.live,
                block: 0,
                open: Vec::new(),
                out: &mut out,
            };
            let (stored, _) = packer.store(&self.trunk.root)?;
            packer.close()?;
            let live = packer.live;
            let mut packs = BTreeMap::new();
            for (block, live) in live.into_iter().filter(|(_, live)| *live > 0) {
                let written = out.packs.get(&block).or(before.get(&block));
                let bytes = written.copied();
                assert!(bytes.is_some(), "pack {block} holds nodes and is not known (NP2)");
                packs.insert(block, Pack { bytes: bytes.unwrap_or(0), live });
            }
            out.packs = packs.iter().map(|(block, pack)| (*block, pack.bytes)).collect();
            let root = RootImage {
                root: self.trunk.root.id,
                below: Below { stored, totals: self.trunk.root.totals },
                next_node: self.trunk.next_node,
                flushed_upto: self.trunk.flushed_upto,
                packs,
            };
            out.image = stored_format::encode_image(self.trunk.applied, &root);
        }
        out.dead = before.into_keys().filter(|block| !out.packs.contains_key(block)).collect();
        out.blocks.extend(out.packs.keys());
        Ok(out)
    }
}

impl StoredVersion {
    /// The bytes for [`crate::TreeLoader::from_image`].
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// The blocks that the image names: runs and packs.
    pub fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// Packs that the image before named and this one does not: free when this one is durable (NP2).
    pub fn dead_packs(&self) -> &[BlockId] {
        &self.dead
    }

    /// Bytes of the packs that were written.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// The image is durable. The caller retires the dead packs.
    pub fn set_durable(mut self) {
        self.is_durable = true;
        for (node, stored) in &self.places {
            node.stored.set(*stored);
        }
        *self.tree.packs.lock() = std::mem::take(&mut self.packs);
    }
}

impl Drop for StoredVersion {
    fn drop(&mut self) {
        if !self.is_durable {
            self.fresh.iter().for_each(|block| self.tree.store.discard(*block));
            // VN2
        }
    }
}

/// What a walk over a version finds.
struct Survey {
    /// Ascending.
    runs: Vec<BlockId>,
    /// Bytes of the nodes that have places, by pack.
    live: HashMap<BlockId, u64>,
    /// Roughly the bytes of all nodes, and of those without places.
    bytes: u64,
    changed: u64,
}

impl Survey {
    fn of(trunk: &Trunk) -> Survey {
        let mut survey = Survey { runs: Vec::new(), live: HashMap::new(), bytes: 0, changed: 0 };
        trunk.walk(&mut |node, edge, _| {
            let mut bytes = EDGE_BYTES;
            for slice in node_slices(node, edge) {
                survey.runs.push(slice.run.block());
                bytes += SLICE_BYTES;
            }
            survey.bytes += bytes;
            match node.stored.get() {
                Some(stored) => {
                    *survey.live.entry(stored.place.pack).or_insert(0) += stored.place.len;
                }
                None => survey.changed += bytes,
            }
        });
        survey.runs.sort_unstable();
        survey.runs.dedup();
        survey
    }

    /// Packs to clear: those with the least live bytes first, and no more of them than what changed.
    fn sparse(&self, packs: &BTreeMap<BlockId, u64>) -> HashSet<BlockId> {
        let is_sparse = |block: &BlockId, live: u64| {
            let bytes = packs.get(block).map_or(0, |bytes| bytes.next_multiple_of(UNIT));
            live.saturating_mul(SPARSE) < bytes
        };
        let live = self.live.iter().map(|(block, live)| (*live, *block));
        let mut sparse: Vec<_> = live.filter(|(live, block)| is_sparse(block, *live)).collect();
        sparse.sort_unstable();
        let mut left = self.changed;
        let fits = |(live, _): &(u64, BlockId)| {
            let fits = *live <= left;
            left = left.saturating_sub(*live);
            fits
        };
        sparse.into_iter().take_while(fits).map(|(_, block)| block).collect()
    }
}

/// Writes nodes into packs.
struct Packer<'a> {
    tree: &'a Arc<TreeInner>,
    moving: &'a HashSet<BlockId>,
    /// Bytes of the version's nodes, by pack.
    live: HashMap<BlockId, u64>,
    /// The pack that is being filled, and its bytes so far; none when these are empty.
    block: BlockId,
    open: Vec<u8>,
    out: &'a mut StoredVersion,
}

impl Packer<'_> {
    /// Where the node is, and whether it was stored now.
    fn store(&mut self, node: &Arc<Node>) -> Result<(Stored, bool)> {
        let known = node.stored.get();
        if let Some(known) = known.filter(|_| self.moving.is_empty()) {
            return Ok((known, false)); // NP1
        }
        let mut changed = known.is_none_or(|known| self.moving.contains(&known.place.pack));
        let mut below = Vec::with_capacity(node.edges().len());
        for child in node.edges() {
            let (stored, is_new) = self.store(&child.node)?;
            changed |= is_new;
            below.push(stored);
        }
        if let Some(known) = known.filter(|_| !changed) {
            return Ok((known, false));
        }
        let bytes = stored_format::encode_node(node, &below);
        let place = self.put(&bytes)?;
        if let Some(known) = known {
            let live = self.live.entry(known.place.pack).or_insert(0);
            *live = live.saturating_sub(known.place.len);
        }
        let stored = Stored { place, debt: debt(node, &below, &self.tree.options) };
        self.out.places.push((node.clone(), Some(stored)));
        Ok((stored, true))
    }

    /// Appends a node to the open pack.
    fn put(&mut self, bytes: &[u8]) -> Result<Place> {
        let room = self.tree.options.pack_bytes.saturating_sub(self.open.len() as u64);
        if bytes.len() as u64 > room {
            self.close()?;
        }
        if self.open.is_empty() {
            self.block = self.tree.store.next_block();
        }
        let (pack, offset) = (self.block, self.open.len() as u64);
        self.open.extend_from_slice(bytes);
        let len = bytes.len() as u64;
        *self.live.entry(pack).or_insert(0) += len;
        let checksum = checksum(bytes, self.tree.id.table, pack, offset);
        Ok(Place { pack, offset, len, checksum })
    }

    /// Writes the open pack.
    fn close(&mut self) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        self.tree.store.write_pack(self.block, &self.open)?;
        self.out.fresh.push(self.block);
        self.out.packs.insert(self.block, self.open.len() as u64);
        self.out.bytes_written += self.open.len() as u64;
        self.open.clear();
        Ok(())
    }
}

/// Debt at and below a node that was never read.
fn debt(node: &Node, below: &[Stored], options: &crate::options::TreeOptions) -> u64 {
    match &node.body {
        Body::Leaf(leaf) => triggers::cold_leaf_debt(leaf, options),
        Body::Inner(inner) => {
            inner.children.iter().zip(below).fold(0, |sum: u64, (child, stored)| {
                let edge = triggers::cold_edge_debt(child, options);
                sum.saturating_add(edge).saturating_add(stored.debt)
            })
        }
    }
}
