//! Nodes as they are stored and logged, before they are put together.

use frond_base::{BlockId, NodeId};

use crate::slice::{Counts, Key};

/// A slice as stored: the run by its block.
#[derive(Debug)]
pub(crate) struct RawSlice {
    pub block: BlockId,
    pub lo: Option<Key>,
    pub hi: Option<Key>,
    pub counts: Counts,
}

/// A node as stored: children by their numbers.
#[derive(Debug)]
pub(crate) enum RawNode {
    Leaf { base: Vec<RawSlice>, deltas: Vec<RawSlice> },
    Inner { pivots: Vec<Key>, children: Vec<(NodeId, Vec<RawSlice>)> },
}
