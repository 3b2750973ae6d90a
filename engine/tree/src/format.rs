//! Bytes of trunk metadata: nodes, edits (log records) and images (checkpoints). The only place
//! that encodes and decodes them.
//!
//! Format 3 (numbers are varints, byte strings have a varint length in front)
//! - node: kind byte (0 leaf, 1 inner). Leaf: number of base slices, slices; number of deltas,
//!   slices. Inner: number of children; per child its pivot (not for the first), node number,
//!   number of pending slices, slices.
//! - slice: block, flags byte (1: has lo, 2: has hi), lo, hi, bytes, entries, tombstones.
//! - edit: format byte; number of nodes put, (number, node bytes) each; number of nodes removed,
//!   numbers; root; next node; number of runs added, (run meta, offset, length) each; number of
//!   runs removed, blocks; flushed-up-to position.
//! - image: the position below which it contains all edits (the last one's position plus 1; 0:
//!   none), then an edit that makes the tree from nothing; or, as format 4, the root's place
//!   (`stored_format.rs`).
//!
//! Log records and images, which hold these bytes, have checksums. Still, no number is trusted: bad
//! bytes end in an error, never in a panic or a large allocation.

use frond_base::{put_bytes, put_varint, ByteReader, Error, Lsn, NodeId, Result, ShortInput};
use frond_run::RunMeta;

use crate::edit::TrunkEdit;
use crate::extent::Extent;
use crate::node::{Body, Node};
use crate::raw::{RawNode, RawSlice};
use crate::slice::{Counts, Key, Slice};
use crate::stored_format::{self, RootImage, ROOT_FORMAT};

/// Edits have never had number 4: an image that names a root has it.
const FORMAT: u8 = 3;
/// The oldest that is read. Format 1 has no runs of one sequence, format 2 no keys beyond 3500 bytes.
const FORMAT_MIN: u8 = 1;

fn put_slices(out: &mut Vec<u8>, slices: &[Slice]) {
    put_varint(out, slices.len() as u64);
    for s in slices {
        put_varint(out, s.run.block());
        out.push(u8::from(s.lo.is_some()) | u8::from(s.hi.is_some()) << 1);
        for bound in [&s.lo, &s.hi].into_iter().flatten() {
            put_bytes(out, bound);
        }
        put_varint(out, s.counts.bytes);
        put_varint(out, s.counts.entries);
        put_varint(out, s.counts.tombstones);
    }
}

pub(crate) fn encode_node(node: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    match &node.body {
        Body::Leaf(leaf) => {
            out.push(0);
            put_slices(&mut out, &leaf.base);
            put_slices(&mut out, &leaf.deltas);
        }
        Body::Inner(inner) => {
            out.push(1);
            put_varint(&mut out, inner.children.len() as u64);
            for (i, child) in inner.children.iter().enumerate() {
                if i > 0 {
                    put_bytes(&mut out, &inner.pivots[i - 1]);
                }
                put_varint(&mut out, child.node.id);
                put_slices(&mut out, &child.pending);
            }
        }
    }
    out
}

fn read_slices(r: &mut ByteReader<'_>) -> std::result::Result<Vec<RawSlice>, ShortInput> {
    let count = r.bounded_len()?;
    let mut slices = Vec::new();
    for _ in 0..count {
        let block = r.varint()?;
        let at = r.position();
        let flags = r.u8()?;
        if flags > 3 {
            return Err(ShortInput { at });
        }
        let lo = if flags & 1 != 0 { Some(Key::from(r.bytes()?)) } else { None };
        let hi = if flags & 2 != 0 { Some(Key::from(r.bytes()?)) } else { None };
        let counts = Counts { bytes: r.varint()?, entries: r.varint()?, tombstones: r.varint()? };
        slices.push(RawSlice { block, lo, hi, counts });
    }
    Ok(slices)
}

fn read_node(r: &mut ByteReader<'_>) -> std::result::Result<RawNode, ShortInput> {
    let at = r.position();
    let node = match r.u8()? {
        0 => RawNode::Leaf { base: read_slices(r)?, deltas: read_slices(r)? },
        1 => {
            let count = r.bounded_len()?;
            let (mut pivots, mut children) = (Vec::new(), Vec::new());
            for i in 0..count {
                if i > 0 {
                    pivots.push(Key::from(r.bytes()?));
                }
                children.push((r.varint()?, read_slices(r)?));
            }
            if children.is_empty() {
                return Err(ShortInput { at });
            }
            RawNode::Inner { pivots, children }
        }
        _ => return Err(ShortInput { at }),
    };
    Ok(node)
}

pub(crate) fn decode_node(bytes: &[u8], id: NodeId, file: &str) -> Result<RawNode> {
    let mut r = ByteReader::new(bytes);
    let node = read_node(&mut r).map_err(|e| e.in_file(file, &format!("trunk node {id}")))?;
    whole(&r, file, "trunk node")?;
    Ok(node)
}

fn whole(r: &ByteReader<'_>, file: &str, what: &str) -> Result<()> {
    match r.remaining() {
        0 => Ok(()),
        n => Err(Error::corruption(file, format_args!("{what}: {n} bytes too many"))),
    }
}

impl TrunkEdit {
    /// Appends the edit's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_edit(self, out);
    }

    /// Reads what [`Self::encode`] wrote; `file` names the carrier in errors.
    pub fn decode(bytes: &[u8], file: &str) -> Result<TrunkEdit> {
        decode_edit(bytes, file)
    }
}

fn encode_edit(edit: &TrunkEdit, out: &mut Vec<u8>) {
    out.push(FORMAT);
    put_varint(out, edit.nodes_put.len() as u64);
    for (id, bytes) in &edit.nodes_put {
        put_varint(out, *id);
        put_bytes(out, bytes);
    }
    put_varint(out, edit.nodes_removed.len() as u64);
    edit.nodes_removed.iter().for_each(|id| put_varint(out, *id));
    put_varint(out, edit.root);
    put_varint(out, edit.next_node);
    put_varint(out, edit.runs_added.len() as u64);
    for (meta, extent) in &edit.runs_added {
        meta.encode(out);
        put_varint(out, extent.offset);
        put_varint(out, extent.len);
    }
    put_varint(out, edit.runs_removed.len() as u64);
    edit.runs_removed.iter().for_each(|block| put_varint(out, *block));
    put_varint(out, edit.flushed_upto);
}

fn read_edit(r: &mut ByteReader<'_>) -> std::result::Result<TrunkEdit, ShortInput> {
    let mut nodes_put = Vec::new();
    for _ in 0..r.bounded_len()? {
        nodes_put.push((r.varint()?, r.bytes()?.to_vec()));
    }
    let mut nodes_removed = Vec::new();
    for _ in 0..r.bounded_len()? {
        nodes_removed.push(r.varint()?);
    }
    let (root, next_node) = (r.varint()?, r.varint()?);
    let mut runs_added = Vec::new();
    for _ in 0..r.bounded_len()? {
        let meta = RunMeta::decode(r)?;
        runs_added.push((meta, Extent { offset: r.varint()?, len: r.varint()? }));
    }
    let mut runs_removed = Vec::new();
    for _ in 0..r.bounded_len()? {
        runs_removed.push(r.varint()?);
    }
    let flushed_upto = r.varint()?;
    Ok(TrunkEdit {
        nodes_put,
        nodes_removed,
        root,
        next_node,
        runs_added,
        runs_removed,
        flushed_upto,
    })
}

fn decode_edit_from(r: &mut ByteReader<'_>, file: &str) -> Result<TrunkEdit> {
    let format = r.u8().map_err(|e| e.in_file(file, "trunk edit"))?;
    if !(FORMAT_MIN..=FORMAT).contains(&format) {
        let message = format!("{file}: trunk edit of format {format}, this release knows {FORMAT}");
        return Err(Error::new(frond_base::ErrorKind::UnsupportedFormat, message));
    }
    let edit = read_edit(r).map_err(|e| e.in_file(file, "trunk edit"))?;
    whole(r, file, "trunk edit")?;
    Ok(edit)
}

fn decode_edit(bytes: &[u8], file: &str) -> Result<TrunkEdit> {
    decode_edit_from(&mut ByteReader::new(bytes), file)
}

pub(crate) fn encode_image(lsn: Lsn, all: &TrunkEdit) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, lsn);
    encode_edit(all, &mut out);
    out
}

/// What an image holds.
pub(crate) enum ImageBody {
    /// All nodes.
    Whole(TrunkEdit),
    /// The root's place.
    Root(RootImage),
}

pub(crate) fn decode_image(bytes: &[u8], file: &str) -> Result<(Lsn, ImageBody)> {
    let mut r = ByteReader::new(bytes);
    let lsn = r.varint().map_err(|e| e.in_file(file, "trunk image"))?;
    if bytes.get(r.position()) != Some(&ROOT_FORMAT) {
        return Ok((lsn, ImageBody::Whole(decode_edit_from(&mut r, file)?)));
    }
    r.u8().map_err(|e| e.in_file(file, "trunk image"))?;
    Ok((lsn, ImageBody::Root(stored_format::decode_image(&mut r, file)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_formats_are_read_and_later_ones_refused() {
        let edit = TrunkEdit { root: 3, next_node: 4, flushed_upto: 5, ..TrunkEdit::default() };
        let mut bytes = Vec::new();
        encode_edit(&edit, &mut bytes);
        for format in [FORMAT_MIN, 2, FORMAT] {
            bytes[0] = format;
            let read = decode_edit(&bytes, "file").unwrap();
            assert_eq!((read.root, read.next_node, read.flushed_upto), (3, 4, 5));
        }
        for format in [0, FORMAT + 1] {
            bytes[0] = format;
            let e = decode_edit(&bytes, "file").unwrap_err();
            assert_eq!(e.kind(), frond_base::ErrorKind::UnsupportedFormat);
            assert!(e.message().contains("trunk edit of format"), "{e}");
        }
    }
}
