//! One version of a tree's metadata, as a checkpoint takes it: in constant time, under the mutexes that order
//! commits and edits. What it holds never changes, so it is encoded and written while the tree goes on.
//!
//! A small version is stored in its image as a whole. Of a larger one the nodes that changed since the image
//! before are written into packs, children before parents, and the image names the root's place.
//!
//! Storing a version visits only what changed: it walks down from the root while nodes have no
//! place, and asks the book (`book.rs`) for the runs that were added and removed, and for the live
//! bytes of packs.
//!
//! Packs of which less than a quarter is live are cleared: their live nodes, and all nodes above
//! these, are written again, as long as that is less than what changed. So packs take about four
//! times the live bytes, and more when little changes from one checkpoint to the next: 5.9 times
//! with one leaf in a hundred, at random. A pack without live bytes is given back when the image
//! that does not name it is durable (NP2).
//!
//! - VN1. At most one version of a tree is being stored: the table file's checkpoint pin sees to that.
//! - VN2. Places change when the image is durable, not before: after a failure nothing has happened.
//!
//! The runs of a version are not given back while it is held.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{BlockId, NodeId, Result};

use crate::book::{Address, Noted, PackNote, RunChange};
use crate::difference;
use crate::format;
use crate::node::{Body, Node};
use crate::place::{checksum, Place};
use crate::slice::{Key, Range};
use crate::stored_format::{self, Below, Pack, RootImage};
use crate::totals::Totals;
use crate::tree::{Image, Tree, TreeInner};
use crate::trunk::Trunk;

/// A pack is cleared when less than one of this many of its bytes is live.
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
    /// What the book said then.
    noted: Arc<Noted>,
}

/// A version whose nodes are written and not yet durable. Dropping it before that gives back what
/// was written.
pub struct StoredVersion {
    tree: Arc<TreeInner>,
    noted: Arc<Noted>,
    image: Vec<u8>,
    /// The places that nodes get when the image is durable (VN2).
    places: Vec<(Arc<Node>, Option<Place>)>,
    /// Packs that were written now.
    fresh: BTreeMap<BlockId, PackNote>,
    /// Packs that the image before named and this one does not.
    dead: Vec<BlockId>,
    bytes_written: u64,
    is_durable: bool,
}

impl Tree {
    /// The current version. Constant time.
    pub fn version(&self) -> Version {
        let (trunk, noted) = self.inner.trunk_and_book();
        Version { tree: self.inner.clone(), trunk, noted }
    }

    /// The packs that the newest durable image names, ascending.
    pub fn packs(&self) -> Vec<BlockId> {
        self.inner.packs.lock().iter().copied().collect()
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
        let storing = self.tree.storing.swap(true, Ordering::AcqRel);
        assert!(!storing, "VN1: two versions of tree {} are stored at once", self.tree.id);
        #[cfg(debug_assertions)]
        crate::audit::assert_book(&self.trunk, &self.noted);
        let mut out = StoredVersion {
            tree: self.tree.clone(),
            noted: self.noted.clone(),
            image: Vec::new(),
            places: Vec::new(),
            fresh: BTreeMap::new(),
            dead: Vec::new(),
            bytes_written: 0,
            is_durable: false,
        };
        let before = &self.noted.packs;
        if rough_bytes(&self.trunk.sums.totals) <= self.tree.options.image_bytes {
            self.trunk.walk(&mut |node, _, _| out.places.push((node.clone(), None)));
            out.image = self.image().bytes;
            out.dead = before.keys().copied().collect();
            return Ok(out);
        }
        let moving = Moving::of(&self.trunk, before);
        let mut packer = Packer {
            tree: &self.tree,
            moving: &moving,
            live: before.iter().map(|(block, pack)| (*block, pack.live)).collect(),
            block: 0,
            open: Vec::new(),
            addresses: Vec::new(),
            out: &mut out,
        };
        let (place, _) = packer.store(&self.trunk.root, &Range::all())?;
        packer.close()?;
        let live = packer.live;
        let mut packs = BTreeMap::new();
        for (block, live) in live {
            let pack = out.fresh.get(&block).or(before.get(&block));
            let Some(bytes) = pack.map(|pack| pack.bytes) else {
                panic!("pack {block} holds nodes and is not known (NP2)")
            };
            match live {
                0 => out.dead.push(block),
                live => drop(packs.insert(block, Pack { bytes, live })),
            }
        }
        let root = RootImage {
            root: self.trunk.root.id,
            below: Below { place, sums: self.trunk.sums },
            next_node: self.trunk.next_node,
            flushed_upto: self.trunk.flushed_upto,
            packs,
        };
        out.image = stored_format::encode_image(self.trunk.applied, &root);
        Ok(out)
    }
}

impl StoredVersion {
    /// The bytes for [`crate::TreeLoader::from_image`].
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// Blocks, runs and packs, that the image names and the durable image before does not.
    pub fn added(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.changed(RunChange::Added).chain(self.fresh.keys().copied())
    }

    /// Blocks that the durable image before names and the image does not.
    pub fn removed(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.changed(RunChange::Removed).chain(self.dead.iter().copied())
    }

    fn changed(&self, change: RunChange) -> impl Iterator<Item = BlockId> + '_ {
        self.noted.runs.iter().filter(move |(_, c)| **c == change).map(|(block, _)| *block)
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
        let fresh = std::mem::take(&mut self.fresh);
        let mut packs = self.tree.packs.lock();
        packs.extend(fresh.keys());
        self.dead.iter().for_each(|block| {
            packs.remove(block);
        });
        drop(packs);
        self.tree.book.lock().imaged(&self.noted, &self.places, fresh, &self.dead);
    }
}

impl Drop for StoredVersion {
    fn drop(&mut self) {
        if !self.is_durable {
            self.fresh.keys().for_each(|block| self.tree.store.discard(*block));
            // VN2: no place has changed.
        }
        self.tree.storing.store(false, Ordering::Release);
    }
}

/// Roughly the bytes of all nodes.
fn rough_bytes(totals: &Totals) -> u64 {
    let nodes = totals.leaves.saturating_add(totals.inner_nodes);
    let slices = totals.slices.saturating_mul(SLICE_BYTES);
    slices.saturating_add(nodes.saturating_mul(EDGE_BYTES))
}

/// Roughly the bytes of the nodes without places at and below `node`.
fn changed_bytes(node: &Node) -> u64 {
    if node.stored.get().is_some() {
        return 0; // NP1
    }
    let slices =
        node.edges().iter().map(|c| c.pending.len()).sum::<usize>() + node.slices().count();
    let below: u64 = node.edges().iter().map(|c| changed_bytes(&c.node)).sum();
    below + EDGE_BYTES + slices as u64 * SLICE_BYTES
}

/// Packs to clear, and where their nodes are.
#[derive(Default)]
struct Moving {
    packs: HashSet<BlockId>,
    /// The nodes that are stored in the packs, and all above them.
    paths: HashSet<NodeId>,
}

impl Moving {
    /// Chooses sparse packs with the least live bytes first, as long as these bytes are no more
    /// than what changed.
    fn of(trunk: &Trunk, packs: &BTreeMap<BlockId, PackNote>) -> Moving {
        let is_sparse = |pack: &PackNote| {
            let bytes = pack.bytes.next_multiple_of(UNIT);
            pack.live > 0 && pack.live.saturating_mul(SPARSE) < bytes
        };
        let sparse = packs.iter().filter(|(_, pack)| is_sparse(pack));
        let sparse: BTreeSet<(u64, BlockId)> =
            sparse.map(|(block, pack)| (pack.live, *block)).collect();
        let mut moving = Moving::default();
        if sparse.is_empty() {
            return moving;
        }
        let mut left = changed_bytes(&trunk.root);
        for (live, block) in sparse {
            if live > left {
                break;
            }
            left -= live;
            moving.packs.insert(block);
            packs[&block].nodes.iter().for_each(|address| moving.add(trunk, block, address));
        }
        moving
    }

    /// Adds a node that was written into the pack, if it is still there.
    fn add(&mut self, trunk: &Trunk, pack: BlockId, (id, lo): &Address) {
        let mut path = Vec::new();
        let mut node = &trunk.root;
        loop {
            path.push(node.id);
            if node.id == *id {
                break;
            }
            let Body::Inner(inner) = &node.body else { return };
            node = &inner.children[inner.child_for(lo.as_deref().unwrap_or(&[]))].node;
        }
        if node.stored.get().is_some_and(|place| place.pack == pack) {
            self.paths.extend(path);
        }
    }
}

/// Writes nodes into packs.
struct Packer<'a> {
    tree: &'a Arc<TreeInner>,
    moving: &'a Moving,
    /// Bytes of the version's nodes, by pack.
    live: HashMap<BlockId, u64>,
    /// The pack that is being filled, its bytes so far and its nodes; none when these are empty.
    block: BlockId,
    open: Vec<u8>,
    addresses: Vec<Address>,
    out: &'a mut StoredVersion,
}

impl Packer<'_> {
    /// Where the node is, and whether it was stored now.
    fn store(&mut self, node: &Arc<Node>, range: &Range) -> Result<(Place, bool)> {
        let known = node.stored.get();
        if let Some(known) = known.filter(|_| !self.moving.paths.contains(&node.id)) {
            return Ok((known, false)); // NP1
        }
        let mut changed = known.is_none_or(|known| self.moving.packs.contains(&known.pack));
        let mut below = Vec::with_capacity(node.edges().len());
        if let Body::Inner(inner) = &node.body {
            for (i, child) in inner.children.iter().enumerate() {
                let (place, is_new) = self.store(&child.node, &inner.range(i, range))?;
                changed |= is_new;
                below.push(place);
            }
        }
        if let Some(known) = known.filter(|_| !changed) {
            return Ok((known, false));
        }
        let bytes = stored_format::encode_node(node, &below);
        let place = self.put(&bytes, (node.id, range.lo.clone()))?;
        if let Some(known) = known {
            let live = self.live.entry(known.pack).or_insert(0);
            assert!(
                *live >= known.len,
                "pack {} has fewer bytes than its nodes (TBK1)",
                known.pack
            );
            *live -= known.len;
        }
        self.out.places.push((node.clone(), Some(place)));
        Ok((place, true))
    }

    /// Appends a node to the open pack.
    fn put(&mut self, bytes: &[u8], address: (NodeId, Option<Key>)) -> Result<Place> {
        let room = self.tree.options.pack_bytes.saturating_sub(self.open.len() as u64);
        if bytes.len() as u64 > room {
            self.close()?;
        }
        if self.open.is_empty() {
            self.block = self.tree.store.next_block();
        }
        let (pack, offset) = (self.block, self.open.len() as u64);
        self.open.extend_from_slice(bytes);
        self.addresses.push(address);
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
        let bytes = self.open.len() as u64;
        let nodes = std::mem::take(&mut self.addresses).into();
        self.out.fresh.insert(self.block, PackNote { bytes, live: 0, nodes });
        self.out.bytes_written += bytes;
        self.open.clear();
        Ok(())
    }
}
