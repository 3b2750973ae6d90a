//! The private runs of a transaction: what it wrote to table files before its commit. `spill.rs` says when they are
//! written, and has the invariants. `frond-tree` says what a private run is.

use frond_base::TreeId;
use frond_tree::{PrivateRuns, Tree};

/// The private runs of a transaction, by tree.
#[derive(Default)]
pub(crate) struct Spilled {
    trees: Vec<PrivateRuns>,
}

impl Spilled {
    /// The private runs of `tree`, if there ever were some.
    pub fn of(&self, tree: TreeId) -> Option<&PrivateRuns> {
        self.trees.iter().find(|p| p.id() == tree)
    }

    /// The private runs of `tree`, none at first; runs are cut at `run_bytes`.
    pub fn of_mut(&mut self, tree: &Tree, run_bytes: u64) -> &mut PrivateRuns {
        let at = match self.trees.iter().position(|p| p.id() == tree.id()) {
            Some(at) => at,
            None => {
                self.trees.push(PrivateRuns::new(tree, run_bytes));
                self.trees.len() - 1
            }
        };
        &mut self.trees[at]
    }

    pub fn is_empty(&self) -> bool {
        self.trees.iter().all(PrivateRuns::is_empty)
    }

    /// Versions held.
    pub fn entries(&self) -> u64 {
        self.trees.iter().map(PrivateRuns::entries).sum()
    }

    pub fn filled(&self) -> impl Iterator<Item = &PrivateRuns> {
        self.trees.iter().filter(|p| !p.is_empty())
    }

    pub fn filled_mut(&mut self) -> impl Iterator<Item = &mut PrivateRuns> {
        self.trees.iter_mut().filter(|p| !p.is_empty())
    }

    /// Adds the private runs of one tree that recovery found.
    pub fn recovered(&mut self, private: PrivateRuns) {
        self.trees.push(private);
    }

    pub fn rollback_to(&mut self, to: u64) {
        self.trees.iter_mut().for_each(|p| p.rollback_to(to));
    }

    /// The record may have reached the log: their blocks are not given back (P3).
    pub fn abandon(&mut self) {
        self.trees.iter_mut().for_each(PrivateRuns::abandon);
    }
}
