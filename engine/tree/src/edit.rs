//! A trunk edit: the difference between two versions of the trunk, as it goes into the log. How it is found is in
//! `difference.rs`, its bytes are in `format.rs`.

use frond_base::{BlockId, Lsn, NodeId};
use frond_run::RunMeta;

use crate::extent::Extent;

/// One change of a tree's metadata; applying it is all or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrunkEdit {
    /// Nodes that are new or changed, encoded.
    pub nodes_put: Vec<(NodeId, Vec<u8>)>,
    pub nodes_removed: Vec<NodeId>,
    pub root: NodeId,
    /// Node numbers from here on are unused.
    pub next_node: NodeId,
    pub runs_added: Vec<(RunMeta, Extent)>,
    pub runs_removed: Vec<BlockId>,
    /// Every record of this tree that starts below this position is in runs.
    pub flushed_upto: Lsn,
}
