//! Lists an owner's exclusive locks, so that they can be stored, and takes them again after a
//! restart, before other requests are allowed.
//!
//! Tested by `tests/it/restore.rs`.

use frond_base::TreeId;

use crate::lock_slot::{Holding, Outcome, Slot, SlotKey};
use crate::lock_table::{LockTable, SLOT_BYTES};
use crate::locker::{Locker, HELD_BYTES};
use crate::{LockMode, TxnId};

/// Exclusive locks of one owner on one tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeLocks {
    pub tree: TreeId,
    /// The tree itself; then no keys are listed.
    pub whole: bool,
    /// In the order in which they were locked.
    pub keys: Vec<Vec<u8>>,
}

impl Locker {
    /// The trees that are locked exclusively as a whole, and the exclusive row locks on those of the
    /// other trees for which `wanted` returns true. Trees without either are left out.
    pub fn exclusive(&self, wanted: &dyn Fn(TreeId) -> bool) -> Vec<TreeLocks> {
        // Most transactions have none, and each prepare calls this.
        if !self.trees.iter().any(|(tree, hold)| hold.mode == LockMode::X || wanted(tree)) {
            return Vec::new();
        }
        let of = |tree, whole| TreeLocks { tree, whole, keys: Vec::new() };
        let mut all: Vec<TreeLocks> =
            self.trees.iter().map(|(tree, hold)| of(tree, hold.mode == LockMode::X)).collect();
        let listed: Vec<bool> = all.iter().map(|t| !t.whole && wanted(t.tree)).collect();
        for h in self.held.iter().filter(|h| !h.is_tree && listed[h.tree as usize]) {
            let mut shard = self.table.shards[h.shard as usize].lock();
            let slot = shard.slot_mut(h.slot);
            if slot.held_by(self.owner.id) == Some(LockMode::X) {
                all[h.tree as usize].keys.extend(slot.key.get().map(<[u8]>::to_vec));
            }
        }
        all.retain(|t| t.whole || !t.keys.is_empty());
        all
    }

    /// Takes locks that were held before a restart. They are charged, but the limit does not refuse them.
    /// False when another owner's lock is in the way; locks taken before that stay.
    pub fn restore<'k>(
        &mut self,
        tree: TreeId,
        whole: bool,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> bool {
        let mode = if whole { LockMode::X } else { LockMode::IX };
        let Some(at) = self.restore_one(tree, None, mode) else { return false };
        for key in keys {
            if self.restore_one(tree, Some(key), LockMode::X).is_none() {
                return false;
            }
            self.trees.at_mut(at).rows += 1;
        }
        true
    }

    /// As [`Locker::restore`], for one shared lock on a row, or with no key on the whole tree. False when another
    /// owner's lock is in the way; then nothing was taken but, for a row, the intention.
    pub fn restore_shared(&mut self, tree: TreeId, key: Option<&[u8]>) -> bool {
        let Some(key) = key else { return self.restore_one(tree, None, LockMode::S).is_some() };
        let Some(at) = self.restore_one(tree, None, LockMode::IS) else { return false };
        let held = self.held.len();
        if self.restore_one(tree, Some(key), LockMode::S).is_none() {
            return false;
        }
        if self.held.len() > held {
            self.trees.at_mut(at).rows += 1;
        }
        true
    }

    /// Returns the place of the tree in `trees`.
    fn restore_one(&mut self, tree: TreeId, key: Option<&[u8]>, mode: LockMode) -> Option<usize> {
        let at = self.trees.position(tree);
        let hash = LockTable::hash(tree, key);
        let shard_no = LockTable::shard_of(hash);
        let table = self.table.clone();
        let mut shard = table.shards[shard_no].lock();
        let (outcome, no) = match shard.find(hash, tree, key) {
            Some(no) => (shard.slot_mut(no).request(self.owner.id, mode), no),
            None => {
                let key = SlotKey::of(key);
                table.charge(SLOT_BYTES + key.heap_bytes(), false);
                let holding = Holding::One(self.owner.id, mode);
                (Outcome::Granted, shard.add(Slot { hash, tree, key, holding }))
            }
        };
        drop(shard);
        match outcome {
            Outcome::Conflict { .. } => return None,
            Outcome::Granted => {
                table.charge(HELD_BYTES, false);
                self.remember(shard_no, no, at.unwrap_or(self.trees.len()), key.is_some());
            }
            Outcome::Held | Outcome::Upgraded => {}
        }
        if key.is_none() {
            self.note_tree_mode(tree, at, mode);
        }
        self.trees.position(tree)
    }
}

impl Slot {
    /// The mode in which `owner` holds the lock.
    pub(crate) fn held_by(&self, owner: TxnId) -> Option<LockMode> {
        match &self.holding {
            Holding::One(holder, mode) => (*holder == owner).then_some(*mode),
            Holding::Many(crowd) => crowd.holders.iter().find(|h| h.0 == owner).map(|h| h.1),
        }
    }
}
