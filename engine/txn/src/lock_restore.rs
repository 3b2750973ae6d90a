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

    /// As [`Locker::restore`], for one shared lock on a row. False when another owner's lock on the row is in the way.
    pub fn restore_shared(&mut self, tree: TreeId, key: &[u8]) -> bool {
        let at = self.restore_beside_others(tree, LockMode::IS);
        let held = self.held.len();
        if self.restore_one(tree, Some(key), LockMode::S).is_none() {
            return false;
        }
        if self.held.len() > held {
            self.trees.at_mut(at).rows += 1;
        }
        true
    }

    /// Locks the whole tree shared, in place of row locks that nobody has written down. The owner held those beside all
    /// other locks that are restored, so none of these is in the way, whatever its mode. New requests are.
    pub fn restore_shared_tree(&mut self, tree: TreeId) {
        self.restore_beside_others(tree, LockMode::S);
    }

    /// Returns the place of the tree in `trees`.
    fn restore_beside_others(&mut self, tree: TreeId, mode: LockMode) -> usize {
        let at = self.trees.position(tree);
        if let Some(at) = at.filter(|at| self.trees.at(*at).mode.covers(mode)) {
            return at;
        }
        let hash = LockTable::hash(tree, None);
        let shard_no = LockTable::shard_of(hash);
        let table = self.table.clone();
        let mut shard = table.shards[shard_no].lock();
        let no = match shard.find(hash, tree, None) {
            Some(no) => {
                shard.slot_mut(no).hold_beside_others(self.owner.id, mode);
                no
            }
            None => {
                table.charge(SLOT_BYTES, false);
                let holding = Holding::One(self.owner.id, mode);
                shard.add(Slot { hash, tree, key: SlotKey::Tree, holding })
            }
        };
        drop(shard);
        if let Some(at) = at {
            // `trees` keeps what the owner's own changes need, which is all that `exclusive` lists: S and IX together are
            // X here, and the next restart could not take that beside the locks of others.
            return at;
        }
        table.charge(HELD_BYTES, false);
        let at = self.trees.len();
        self.remember(shard_no, no, at, false);
        self.note_tree_mode(tree, None, mode);
        at
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
