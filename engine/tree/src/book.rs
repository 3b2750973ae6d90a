//! The book: how the tree's current version differs from its newest durable image. Edits note it as they are
//! published, so a checkpoint looks at nothing that did not change.
//!
//! - TBK1. `live` of a pack is the sum of the bytes of the nodes of the current trunk that are stored in it.
//! - TBK2. `runs` has the blocks of exactly those runs that either the current trunk holds or the newest durable
//!   image names, and not both.
//!
//! Both hold for the trunk of the view whenever the view lock is free. In builds with debug assertions each
//! checkpoint compares the book with a walk over its version.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use frond_base::{BlockId, NodeId};

use crate::difference::Change;
use crate::node::Node;
use crate::place::Place;
use crate::slice::Key;

/// A node of a pack: its number, and the smallest key of its range, by which it is found again.
pub(crate) type Address = (NodeId, Option<Key>);

/// A pack that the newest durable image names.
#[derive(Clone, Default)]
pub(crate) struct PackNote {
    pub bytes: u64,
    /// TBK1.
    pub live: u64,
    /// All nodes that were written into it.
    pub nodes: Arc<[Address]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunChange {
    Added,
    Removed,
}

/// What the book says at one moment.
#[derive(Clone, Default)]
pub(crate) struct Noted {
    pub packs: BTreeMap<BlockId, PackNote>,
    /// TBK2.
    pub runs: BTreeMap<BlockId, RunChange>,
}

impl Noted {
    fn is_empty(&self) -> bool {
        self.packs.is_empty() && self.runs.is_empty()
    }

    /// The trunk has a run that it did not have.
    pub fn run_added(&mut self, block: BlockId) {
        let before = self.runs.insert(block, RunChange::Added);
        assert!(before.is_none(), "block {block} joins the trunk again (TBK2)");
    }

    /// The trunk has lost a run.
    pub fn run_removed(&mut self, block: BlockId) {
        match self.runs.remove(&block) {
            // No image names it.
            Some(RunChange::Added) => {}
            before => {
                assert!(before.is_none(), "block {block} leaves the trunk twice (TBK2)");
                self.runs.insert(block, RunChange::Removed);
            }
        }
    }

    fn live(&mut self, place: &Place) -> &mut u64 {
        let pack = self.packs.get_mut(&place.pack);
        let Some(pack) = pack else {
            panic!("a node is stored in block {}, which no image names (NP2)", place.pack)
        };
        &mut pack.live
    }

    fn died(&mut self, place: &Place) {
        let live = self.live(place);
        assert!(*live >= place.len, "pack {} has fewer bytes than its nodes (TBK1)", place.pack);
        *live -= place.len;
    }
}

/// See the module.
pub(crate) struct Book(Arc<Noted>);

/// What the books of all trees say whose newest image is complete and has no packs.
static NOTHING: LazyLock<Arc<Noted>> = LazyLock::new(Arc::default);

impl Book {
    pub fn new(noted: Noted) -> Book {
        match noted.is_empty() {
            true => Book(NOTHING.clone()),
            false => Book(Arc::new(noted)),
        }
    }

    /// Constant time; later changes are not in it.
    pub fn snapshot(&self) -> Arc<Noted> {
        self.0.clone()
    }

    /// Notes an edit that is being published.
    pub fn edited(&mut self, change: &Change) {
        let noted = Arc::make_mut(&mut self.0);
        for node in &change.replaced {
            if let Some(place) = node.stored.leave() {
                noted.died(&place);
            }
        }
        change.added.iter().for_each(|run| noted.run_added(run.block()));
        change.removed.iter().for_each(|run| noted.run_removed(run.block()));
    }

    /// Called when the image of a version is durable; `then` is the book as of that version. The
    /// version's nodes get their places, and the book gets the image's packs and the version's
    /// runs.
    pub fn imaged(
        &mut self,
        then: &Noted,
        places: &[(Arc<Node>, Option<Place>)],
        fresh: impl IntoIterator<Item = (BlockId, PackNote)>,
        dead: &[BlockId],
    ) {
        let noted = Arc::make_mut(&mut self.0);
        noted.packs.extend(fresh);
        for (node, place) in places {
            let (before, is_gone) = node.stored.set(*place);
            if is_gone {
                continue; // The node was replaced meanwhile, and its bytes were counted then.
            }
            if let Some(before) = before {
                noted.died(&before);
            }
            if let Some(place) = place {
                *noted.live(place) += place.len;
            }
        }
        for block in dead {
            let live = noted.packs.remove(block).map(|pack| pack.live);
            assert_eq!(live, Some(0), "pack {block} goes, with nodes in it (TBK1)");
        }
        for (block, change) in &then.runs {
            match (change, noted.runs.remove(block)) {
                // The image names it, the trunk has lost it since.
                (RunChange::Added, None) => {
                    noted.runs.insert(*block, RunChange::Removed);
                }
                (change, now) => assert_eq!(Some(*change), now, "block {block} came back (TBK2)"),
            }
        }
        if self.0.is_empty() {
            self.0 = NOTHING.clone();
        }
    }
}
