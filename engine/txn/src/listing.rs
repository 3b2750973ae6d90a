//! Lists of owners, locks and waits, for people. Each list is read in pieces, so no latch is held
//! for long and memory does not grow with the number of locks. Therefore no list is a consistent
//! snapshot.
//!
//! Tested by `tests/it/listing.rs`.

use std::time::Duration;

use frond_base::TreeId;

use crate::key_range::KeyRange;
use crate::lock_slot::Holding;
use crate::lock_table::{LockTable, WaitAt, WaitPlace};
use crate::report::{LockInfo, OwnerInfo, WaitInfo};
use crate::TxnId;

/// Where a list of locks goes on: [`LockTable::more_locks`].
#[derive(Default)]
pub struct LockListing {
    shard: usize,
    slot: usize,
}

/// What an owner waits for.
pub(crate) struct Wanted {
    pub tree: TreeId,
    pub key: Option<Vec<u8>>,
    pub range: Option<KeyRange>,
    pub blockers: Vec<TxnId>,
}

impl LockTable {
    /// All owners, in no particular order.
    pub fn owners(&self) -> Vec<OwnerInfo> {
        let mut all = Vec::new();
        for shard in self.owner_shards() {
            let shard = shard.lock();
            all.extend(
                shard.values().filter(|owner| !owner.is_resting()).map(|owner| owner.info()),
            );
        }
        all
    }

    /// Replaces the content of `batch` by more locks: those of about `most` slots. False at the end.
    pub fn more_locks(&self, at: &mut LockListing, most: usize, batch: &mut Vec<LockInfo>) -> bool {
        batch.clear();
        while let Some(shard) = self.shards.get(at.shard) {
            let shard = shard.lock();
            let (slots, next) = shard.some_slots(at.slot, most);
            for slot in slots {
                let mut list = |owner, mode| {
                    let key = slot.key.get().map(<[u8]>::to_vec);
                    batch.push(LockInfo { owner, tree: slot.tree, key, range: None, mode });
                };
                match &slot.holding {
                    Holding::One(owner, mode) => list(*owner, *mode),
                    Holding::Many(c) => c.holders.iter().for_each(|h| list(h.0, h.1)),
                }
            }
            match next {
                Some(next) => at.slot = next,
                None => (at.shard, at.slot) = (at.shard + 1, 0),
            }
            if !batch.is_empty() {
                return true;
            }
        }
        if at.shard == self.shards.len() {
            // Ranges are few (RL4), so they are listed in one piece.
            at.shard += 1;
            let ranges = self.ranges.lock();
            for tree in ranges.trees() {
                let held = ranges.of(tree).iter().filter(|r| r.granted);
                batch.extend(held.map(|r| LockInfo {
                    owner: r.owner.id,
                    tree,
                    key: None,
                    range: Some(r.range.clone()),
                    mode: r.mode,
                }));
            }
        }
        !batch.is_empty()
    }

    /// At most `limit` locks that are held, in no particular order.
    pub fn locks(&self, limit: usize) -> Vec<LockInfo> {
        let (mut all, mut batch, mut at) = (Vec::new(), Vec::new(), LockListing::default());
        while all.len() < limit && self.more_locks(&mut at, limit, &mut batch) {
            all.append(&mut batch);
        }
        all.truncate(limit);
        all
    }

    /// The owners that wait, in the order of their numbers.
    pub fn waiters(&self) -> Vec<TxnId> {
        let mut all: Vec<TxnId> = self.graph.lock().waiting.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The owners that wait, and since when, in no particular order.
    pub fn waiters_since(&self) -> Vec<(TxnId, Duration)> {
        self.graph.lock().waiting.iter().map(|(id, place)| (*id, place.since)).collect()
    }

    /// What `waiter` waits for, if it still does.
    pub fn wait_of(&self, waiter: TxnId) -> Option<WaitInfo> {
        let graph = self.graph.lock();
        let place = graph.waiting.get(&waiter)?;
        let Wanted { tree, key, range, blockers } = self.wanted(place, waiter)?;
        if blockers.is_empty() {
            return None;
        }
        let (mode, since) = (place.mode, place.since);
        Some(WaitInfo { waiter, tree, key, range, mode, blockers, since })
    }

    /// What `waiter`, which is queued at `place`, wants.
    pub(crate) fn wanted(&self, place: &WaitPlace, waiter: TxnId) -> Option<Wanted> {
        match place.at {
            WaitAt::Slot(shard, slot) => {
                let shard = self.shards[shard].lock();
                let slot = shard.slot(slot);
                let key = slot.key.get().map(<[u8]>::to_vec);
                let blockers = slot.blockers(waiter);
                Some(Wanted { tree: slot.tree, key, range: None, blockers })
            }
            WaitAt::Range(tree) => {
                let ranges = self.ranges.lock();
                let range = ranges.waiting(tree, waiter)?.range.clone();
                let blockers = ranges.blockers_of(tree, waiter);
                Some(Wanted { tree, key: None, range: Some(range), blockers })
            }
        }
    }

    /// Who waits for whom.
    pub fn waits(&self) -> Vec<WaitInfo> {
        self.waiters().into_iter().filter_map(|waiter| self.wait_of(waiter)).collect()
    }
}
