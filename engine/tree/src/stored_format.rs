//! Bytes of nodes that are stored in packs, and of images that name the root's place. The only place that
//! encodes and decodes them.
//!
//! A pack is a block of stored nodes, one behind the other; it has no front, as each node is found by its place.
//! Numbers are varints, byte strings have a varint length in front.
//! - stored node: node number; kind byte (0 leaf, 1 inner); number of runs that its slices name, metadata of
//!   each, blocks ascending. Leaf: number of base slices, slices; number of deltas, slices. Inner: number of
//!   children; per child its pivot (not for the first), node number, *below*, number of pending slices, slices.
//! - below, what a parent says of a child: pack, offset, length and checksum (8 bytes) of the child; the sums over
//!   the child and all below it (bytes, entries, tombstones, logical bytes, slices, leaves, inner nodes); the
//!   debt there.
//! - slice: position of its run in the node's list; then as in `format.rs`: flags byte (1: has lo, 2: has hi), lo,
//!   hi, bytes, entries, tombstones.
//! - image: the position below which it contains all edits, format byte 4, root's number, root's *below*, next
//!   node, flushed-up-to position; number of packs, per pack, blocks ascending: block minus that of the pack
//!   before (the first: minus 0), bytes, bytes of the nodes that the image names.
//!
//! Where a run lies is in the block map of the table file alone. Its metadata are in each node that names it.
//!
//! No number is trusted, as in `format.rs`.

use std::collections::BTreeMap;

use frond_base::{put_bytes, put_varint, BlockId, ByteReader, Lsn, NodeId, Result, ShortInput};
use frond_run::RunMeta;

use crate::node::{Body, Node};
use crate::place::Place;
use crate::raw::{RawNode, RawSlice};
use crate::slice::{Counts, Key, Slice};
use crate::totals::{Sums, Totals};

/// The format byte of an image that names a root.
pub(crate) const ROOT_FORMAT: u8 = 4;

type Read<T> = std::result::Result<T, ShortInput>;

/// What a parent, or the image of the root, says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Below {
    pub place: Place,
    pub sums: Sums,
}

/// A stored node, decoded.
#[derive(Debug)]
pub(crate) struct StoredNode {
    pub id: NodeId,
    pub runs: Vec<RunMeta>,
    pub node: RawNode,
    /// What the node says of each child, in order.
    pub below: Vec<Below>,
}

/// Sizes of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pack {
    pub bytes: u64,
    /// Bytes of the nodes that the image names.
    pub live: u64,
}

/// An image that names the root's place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RootImage {
    pub root: NodeId,
    pub below: Below,
    pub next_node: NodeId,
    pub flushed_upto: Lsn,
    pub packs: BTreeMap<BlockId, Pack>,
}

fn put_below(out: &mut Vec<u8>, below: &Below) {
    let place = &below.place;
    put_varint(out, place.pack);
    put_varint(out, place.offset);
    put_varint(out, place.len);
    out.extend_from_slice(&place.checksum.to_le_bytes());
    let Totals { counts, logical_bytes, slices, leaves, inner_nodes } = below.sums.totals;
    put_varint(out, counts.bytes);
    put_varint(out, counts.entries);
    put_varint(out, counts.tombstones);
    for n in [logical_bytes, slices, leaves, inner_nodes, below.sums.debt] {
        put_varint(out, n);
    }
}

fn read_below(r: &mut ByteReader<'_>) -> Read<Below> {
    let place =
        Place { pack: r.varint()?, offset: r.varint()?, len: r.varint()?, checksum: r.u64()? };
    let counts = Counts { bytes: r.varint()?, entries: r.varint()?, tombstones: r.varint()? };
    let totals = Totals {
        counts,
        logical_bytes: r.varint()?,
        slices: r.varint()?,
        leaves: r.varint()?,
        inner_nodes: r.varint()?,
    };
    Ok(Below { place, sums: Sums { totals, debt: r.varint()? } })
}

/// Positions in the node's list of runs, by block.
type Positions<'a> = BTreeMap<BlockId, (u64, &'a RunMeta)>;

fn runs_of(node: &Node) -> Positions<'_> {
    let mut runs = Positions::new();
    let slices = node.edges().iter().flat_map(|c| c.pending.iter()).chain(node.slices());
    for s in slices {
        runs.insert(s.run.block(), (0, s.run.meta()));
    }
    for (at, (position, _)) in runs.values_mut().enumerate() {
        *position = at as u64;
    }
    runs
}

fn put_slices<'a>(
    out: &mut Vec<u8>,
    count: usize,
    slices: impl Iterator<Item = &'a Slice>,
    runs: &Positions<'_>,
) {
    put_varint(out, count as u64);
    for s in slices {
        put_varint(out, runs[&s.run.block()].0);
        out.push(u8::from(s.lo.is_some()) | u8::from(s.hi.is_some()) << 1);
        for bound in [&s.lo, &s.hi].into_iter().flatten() {
            put_bytes(out, bound);
        }
        put_varint(out, s.counts.bytes);
        put_varint(out, s.counts.entries);
        put_varint(out, s.counts.tombstones);
    }
}

/// The bytes of a node whose children are stored as `below` says.
pub(crate) fn encode_node(node: &Node, below: &[Place]) -> Vec<u8> {
    let runs = runs_of(node);
    let mut out = Vec::new();
    put_varint(&mut out, node.id);
    out.push(u8::from(matches!(node.body, Body::Inner(_))));
    put_varint(&mut out, runs.len() as u64);
    runs.values().for_each(|(_, meta)| meta.encode(&mut out));
    match &node.body {
        Body::Leaf(leaf) => {
            put_slices(&mut out, leaf.base.len(), leaf.base.iter(), &runs);
            put_slices(&mut out, leaf.deltas.len(), leaf.deltas.iter(), &runs);
        }
        Body::Inner(inner) => {
            assert_eq!(below.len(), inner.children.len(), "all children are stored (NP1)");
            put_varint(&mut out, inner.children.len() as u64);
            for (i, (child, place)) in inner.children.iter().zip(below).enumerate() {
                if i > 0 {
                    put_bytes(&mut out, &inner.pivots[i - 1]);
                }
                put_varint(&mut out, child.node.id);
                put_below(&mut out, &Below { place: *place, sums: child.below });
                put_slices(&mut out, child.pending.len(), child.pending.iter(), &runs);
            }
        }
    }
    out
}

fn read_slices(r: &mut ByteReader<'_>, runs: &[RunMeta]) -> Read<Vec<RawSlice>> {
    let count = r.bounded_len()?;
    let mut slices = Vec::new();
    for _ in 0..count {
        let at = ShortInput { at: r.position() };
        let position = usize::try_from(r.varint()?).map_err(|_| at)?;
        let block = runs.get(position).ok_or(at)?.block();
        let flags = r.u8()?;
        if flags > 3 {
            return Err(at);
        }
        let lo = if flags & 1 != 0 { Some(Key::from(r.bytes()?)) } else { None };
        let hi = if flags & 2 != 0 { Some(Key::from(r.bytes()?)) } else { None };
        let counts = Counts { bytes: r.varint()?, entries: r.varint()?, tombstones: r.varint()? };
        slices.push(RawSlice { block, lo, hi, counts });
    }
    Ok(slices)
}

fn read_node(r: &mut ByteReader<'_>) -> Read<StoredNode> {
    let id = r.varint()?;
    let at = ShortInput { at: r.position() };
    let kind = r.u8()?;
    let mut runs: Vec<RunMeta> = Vec::new();
    for _ in 0..r.bounded_len()? {
        let meta = RunMeta::decode(r)?;
        if runs.last().is_some_and(|last| last.block() >= meta.block()) {
            return Err(at);
        }
        runs.push(meta);
    }
    let mut below = Vec::new();
    let node = match kind {
        0 => RawNode::Leaf { base: read_slices(r, &runs)?, deltas: read_slices(r, &runs)? },
        1 => {
            let count = r.bounded_len()?;
            let (mut pivots, mut children) = (Vec::new(), Vec::new());
            for i in 0..count {
                if i > 0 {
                    pivots.push(Key::from(r.bytes()?));
                }
                let child = r.varint()?;
                below.push(read_below(r)?);
                children.push((child, read_slices(r, &runs)?));
            }
            if children.is_empty() {
                return Err(at);
            }
            RawNode::Inner { pivots, children }
        }
        _ => return Err(at),
    };
    if r.remaining() != 0 {
        return Err(ShortInput { at: r.position() });
    }
    Ok(StoredNode { id, runs, node, below })
}

/// Reads what [`encode_node`] wrote.
pub(crate) fn decode_node(bytes: &[u8], file: &str) -> Result<StoredNode> {
    read_node(&mut ByteReader::new(bytes)).map_err(|e| e.in_file(file, "stored trunk node"))
}

/// The bytes of an image that contains all edits logged below `lsn`.
pub(crate) fn encode_image(lsn: Lsn, image: &RootImage) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, lsn);
    out.push(ROOT_FORMAT);
    put_varint(&mut out, image.root);
    put_below(&mut out, &image.below);
    put_varint(&mut out, image.next_node);
    put_varint(&mut out, image.flushed_upto);
    put_varint(&mut out, image.packs.len() as u64);
    let mut previous = 0;
    for (block, pack) in &image.packs {
        put_varint(&mut out, block - previous);
        put_varint(&mut out, pack.bytes);
        put_varint(&mut out, pack.live);
        previous = *block;
    }
    out
}

/// Reads the rest of an image behind its format byte.
pub(crate) fn decode_image(r: &mut ByteReader<'_>, file: &str) -> Result<RootImage> {
    read_image(r).map_err(|e| e.in_file(file, "trunk image"))
}

fn read_image(r: &mut ByteReader<'_>) -> Read<RootImage> {
    let (root, below) = (r.varint()?, read_below(r)?);
    let (next_node, flushed_upto) = (r.varint()?, r.varint()?);
    let mut packs = BTreeMap::new();
    let mut previous: BlockId = 0;
    for i in 0..r.bounded_len()? {
        let at = ShortInput { at: r.position() };
        let step = r.varint()?;
        let block = previous.checked_add(step).ok_or(at)?;
        let pack = Pack { bytes: r.varint()?, live: r.varint()? };
        if i > 0 && step == 0 || pack.live == 0 || pack.live > pack.bytes {
            return Err(at);
        }
        packs.insert(block, pack);
        previous = block;
    }
    if r.remaining() != 0 {
        return Err(ShortInput { at: r.position() });
    }
    Ok(RootImage { root, below, next_node, flushed_upto, packs })
}
