//! Lists of owners, locks and waits, for people. Each is read in pieces, so that no latch is held for long and memory
//! does not grow with the number of locks; so none of them is a consistent snapshot.
//!
//! Tested by `tests/it/listing.rs`.

use std::time::Duration;

use crate::lock_slot::Holding;
use crate::lock_table::LockTable;
use crate::report::{LockInfo, OwnerInfo, WaitInfo};
use crate::TxnId;

/// Where a list of locks goes on: [`LockTable::more_locks`].
#[derive(Default)]
pub struct LockListing {
    shard: usize,
    slot: usize,
}

impl LockTable {
    /// All owners, in no order.
    pub fn owners(&self) -> Vec<OwnerInfo> {
        let mut all = Vec::new();
        for shard in self.owner_shards() {
            all.extend(shard.lock().values().map(|owner| owner.info()));
        }
        all
    }

    /// Puts more locks into `batch`, which is cleared first: of about `most` slots. False at the end.
    pub fn more_locks(&self, at: &mut LockListing, most: usize, batch: &mut Vec<LockInfo>) -> bool {
        batch.clear();
        while let Some(shard) = self.shards.get(at.shard) {
            let shard = shard.lock();
            let (slots, next) = shard.some_slots(at.slot, most);
            for slot in slots {
                let mut list = |owner, mode| {
                    let key = slot.key.get().map(<[u8]>::to_vec);
                    batch.push(LockInfo { owner, tree: slot.tree, key, mode });
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
        false
    }

    /// Locks held, in no order, at most `limit`.
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

    /// The same, with the time since when, in no order.
    pub fn waiters_since(&self) -> Vec<(TxnId, Duration)> {
        self.graph.lock().waiting.iter().map(|(id, place)| (*id, place.since)).collect()
    }

    /// What `waiter` waits for, if it still does.
    pub fn wait_of(&self, waiter: TxnId) -> Option<WaitInfo> {
        let graph = self.graph.lock();
        let place = graph.waiting.get(&waiter)?;
        let shard = self.shards[place.shard].lock();
        let slot = shard.slot(place.slot);
        let blockers = slot.blockers(waiter);
        if blockers.is_empty() {
            return None;
        }
        let key = slot.key.get().map(<[u8]>::to_vec);
        let (tree, mode, since) = (slot.tree, place.mode, place.since);
        Some(WaitInfo { waiter, tree, key, mode, blockers, since })
    }

    /// Who waits for whom.
    pub fn waits(&self) -> Vec<WaitInfo> {
        self.waiters().into_iter().filter_map(|waiter| self.wait_of(waiter)).collect()
    }
}
