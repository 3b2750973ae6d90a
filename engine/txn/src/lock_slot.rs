//! One lock: its holders and waiters; and a shard of the lock table.
//!
//! A lock with one holder and nobody waiting is one slot of an array and one entry of the index.
//! Anything more is in a boxed [`Crowd`].
//!
//! Invariants:
//!
//! - LS1. `waiting` is ordered: upgrades first, then by arrival.
//! - LS2. A request is granted when its mode is compatible with every other holder's and with every
//!   request before it in `waiting`. So no request overtakes one that it conflicts with, or waits
//!   for one that it does not conflict with.
//! - LS3. A slot without holders and waiters does not exist.

use std::collections::VecDeque;
use std::sync::Arc;

use frond_base::TreeId;

use crate::lock_wait::{Owner, Park};
use crate::{LockMode, TxnId};

/// Keys up to this length lie in the slot.
pub(crate) const INLINE_KEY: usize = 38;

pub(crate) enum SlotKey {
    /// The tree itself.
    Tree,
    Short(u8, [u8; INLINE_KEY]),
    Long(Box<[u8]>),
}

impl SlotKey {
    pub fn of(key: Option<&[u8]>) -> SlotKey {
        match key {
            None => SlotKey::Tree,
            Some(k) if k.len() <= INLINE_KEY => {
                let mut bytes = [0; INLINE_KEY];
                bytes[..k.len()].copy_from_slice(k);
                SlotKey::Short(k.len() as u8, bytes)
            }
            Some(k) => SlotKey::Long(k.into()),
        }
    }

    pub fn get(&self) -> Option<&[u8]> {
        match self {
            SlotKey::Tree => None,
            SlotKey::Short(n, bytes) => Some(&bytes[..usize::from(*n)]),
            SlotKey::Long(k) => Some(k),
        }
    }

    pub fn heap_bytes(&self) -> usize {
        match self {
            SlotKey::Long(k) => k.len(),
            _ => 0,
        }
    }
}

pub(crate) struct Waiting {
    pub owner: Arc<Owner>,
    /// The mode that it holds when granted.
    pub mode: LockMode,
    pub upgrade: bool,
    ticket: u64,
}

/// Several holders, or waiters.
#[derive(Default)]
pub(crate) struct Crowd {
    pub holders: Vec<(TxnId, LockMode)>,
    pub waiting: VecDeque<Waiting>,
    tickets: u64,
}

pub(crate) enum Holding {
    One(TxnId, LockMode),
    Many(Box<Crowd>),
}

pub(crate) struct Slot {
    pub hash: u64,
    pub tree: TreeId,
    pub key: SlotKey,
    pub holding: Holding,
}

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The owner had a covering lock.
    Held,
    Granted,
    /// Granted in place of a weaker one.
    Upgraded,
    /// The owner must wait for mode `want`. `upgrade`: it holds a weaker one.
    Conflict {
        want: LockMode,
        upgrade: bool,
    },
}

impl Slot {
    /// Grants `mode` to `owner` if LS2 allows it.
    #[inline]
    pub fn request(&mut self, owner: TxnId, mode: LockMode) -> Outcome {
        if let Holding::One(holder, held) = self.holding {
            if holder == owner {
                if held.covers(mode) {
                    return Outcome::Held;
                }
                self.holding = Holding::One(owner, held.join(mode));
                return Outcome::Upgraded;
            }
            if !held.goes_with(mode) {
                return Outcome::Conflict { want: mode, upgrade: false };
            }
        }
        let c = self.crowd();
        assert!(!c.is_empty(), "a lock that nobody holds or waits for exists (LS3)");
        let held = c.held_by(owner);
        if held.is_some_and(|h| h.covers(mode)) {
            return Outcome::Held;
        }
        let want = held.map_or(mode, |h| h.join(mode));
        // An upgrade only has to be compatible with the holders and earlier upgrades.
        let free = c.free_of_holders(owner, want)
            && c.waiting.iter().all(|w| (held.is_some() && !w.upgrade) || w.mode.goes_with(want));
        match (free, held) {
            (false, _) => Outcome::Conflict { want, upgrade: held.is_some() },
            (true, Some(_)) => {
                c.set_held(owner, want);
                c.assert_alone(want);
                c.waiting.iter().for_each(|w| w.owner.overtake());
                Outcome::Upgraded
            }
            (true, None) => {
                c.holders.push((owner, want));
                c.assert_alone(want);
                Outcome::Granted
            }
        }
    }

    /// Adds `mode` to what `owner` holds, whatever others hold (`lock_restore.rs`). Nobody waits.
    pub fn hold_beside_others(&mut self, owner: TxnId, mode: LockMode) {
        let c = self.crowd();
        assert!(c.waiting.is_empty(), "locks are restored before there are requests");
        match c.held_by(owner) {
            Some(held) => c.set_held(owner, held.join(mode)),
            None => c.holders.push((owner, mode)),
        }
    }

    pub fn crowd(&mut self) -> &mut Crowd {
        if let Holding::One(owner, mode) = self.holding {
            let holders = vec![(owner, mode)];
            self.holding = Holding::Many(Box::new(Crowd { holders, ..Crowd::default() }));
        }
        match &mut self.holding {
            Holding::Many(c) => c,
            Holding::One(..) => unreachable!("made a crowd above"),
        }
    }

    /// Queues a request that [`Slot::request`] did not grant.
    pub fn enqueue(&mut self, owner: Arc<Owner>, mode: LockMode, upgrade: bool) {
        let c = self.crowd();
        c.tickets += 1;
        let w = Waiting { owner, mode, upgrade, ticket: c.tickets };
        let at = c.waiting.partition_point(|o| (!o.upgrade, o.ticket) < (!upgrade, w.ticket));
        let sorted = |a: &Waiting, b: &Waiting| (!a.upgrade, a.ticket) < (!b.upgrade, b.ticket);
        let before = at.checked_sub(1).and_then(|i| c.waiting.get(i));
        assert!(before.is_none_or(|b| sorted(b, &w)), "the queue is in order (LS1)");
        assert!(c.waiting.get(at).is_none_or(|n| sorted(&w, n)), "the queue is in order (LS1)");
        c.waiting.insert(at, w);
        c.waiting.iter().skip(at + 1).for_each(|w| w.owner.overtake());
    }

    /// Ends the hold of `owner`, and grants the requests that this allows. True when no holder and
    /// no waiter is left.
    pub fn release(&mut self, owner: TxnId) -> bool {
        match &mut self.holding {
            Holding::One(holder, _) => {
                assert_eq!(*holder, owner, "the owner releases a lock of another one");
                true
            }
            Holding::Many(c) => {
                if let Some(i) = c.holders.iter().position(|h| h.0 == owner) {
                    c.holders.swap_remove(i);
                }
                c.grant();
                c.is_empty()
            }
        }
    }

    /// Takes `owner` out of the queue, and grants the requests that this allows. `None` when it is
    /// not queued; otherwise whether nobody is left.
    pub fn leave_queue(&mut self, owner: TxnId) -> Option<bool> {
        let Holding::Many(c) = &mut self.holding else { return None };
        let i = c.waiting.iter().position(|w| w.owner.id == owner)?;
        c.waiting.remove(i);
        c.grant();
        Some(c.is_empty())
    }

    /// For the search for cycles: the owners for which `owner` waits, which are holders and
    /// upgrades queued before it. Plain waiters before it wait only for the same ones, because an owner
    /// waits for one lock at a time. `None` when it is not queued here.
    pub fn leads_to(&self, owner: TxnId) -> Option<Vec<TxnId>> {
        let Holding::Many(c) = &self.holding else { return None };
        // From the back, where a request that has just been queued is.
        let at = c.waiting.iter().rposition(|w| w.owner.id == owner)?;
        // The modes to check for conflicts: that of this request, and those of the requests before
        // it for which it waits.
        let mut modes = vec![c.waiting[at].mode];
        let mut found = Vec::new();
        for w in c.waiting.iter().take(at).rev() {
            // X conflicts with everything: nothing further ahead can add a mode, and the upgrades
            // there are holders, all of which follow.
            if modes.contains(&LockMode::X) {
                break;
            }
            if modes.iter().all(|m| m.goes_with(w.mode)) {
                continue;
            }
            if w.upgrade {
                found.push(w.owner.id);
            }
            if !modes.contains(&w.mode) {
                modes.push(w.mode);
            }
        }
        for &(holder, held) in &c.holders {
            if holder != owner && modes.iter().any(|m| !m.goes_with(held)) {
                found.push(holder);
            }
        }
        Some(found)
    }

    /// The owners for which a waiter waits directly: for reports.
    pub fn blockers(&self, owner: TxnId) -> Vec<TxnId> {
        let Holding::Many(c) = &self.holding else { return Vec::new() };
        let Some(at) = c.waiting.iter().position(|w| w.owner.id == owner) else {
            return Vec::new();
        };
        let mode = c.waiting[at].mode;
        let holders = c.holders.iter().filter(|h| h.0 != owner && !h.1.goes_with(mode));
        let before = c.waiting.iter().take(at).filter(|w| !w.mode.goes_with(mode));
        let mut all: Vec<TxnId> = holders.map(|h| h.0).chain(before.map(|w| w.owner.id)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Crowd {
    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiting.is_empty()
    }

    fn held_by(&self, owner: TxnId) -> Option<LockMode> {
        self.holders.iter().find(|h| h.0 == owner).map(|h| h.1)
    }

    fn set_held(&mut self, owner: TxnId, mode: LockMode) {
        if let Some(h) = self.holders.iter_mut().find(|h| h.0 == owner) {
            h.1 = mode;
        }
    }

    fn free_of_holders(&self, owner: TxnId, mode: LockMode) -> bool {
        self.holders.iter().all(|h| h.0 == owner || h.1.goes_with(mode))
    }

    /// Of LS2 what costs nothing to see: X goes with no other holder's mode.
    fn assert_alone(&self, granted: LockMode) {
        let alone = granted != LockMode::X || self.holders.len() == 1;
        assert!(alone, "X is granted beside other holders (LS2)");
    }

    /// Grants every waiting request that LS2 allows.
    fn grant(&mut self) {
        let mut i = 0;
        while i < self.waiting.len() {
            let w = &self.waiting[i];
            let free = self.free_of_holders(w.owner.id, w.mode)
                && self.waiting.iter().take(i).all(|b| b.mode.goes_with(w.mode));
            if !free {
                if w.mode == LockMode::X {
                    return; // nothing behind it goes with it
                }
                i += 1;
                continue;
            }
            let Some(w) = self.waiting.remove(i) else { return };
            if w.upgrade {
                self.set_held(w.owner.id, w.mode);
            } else {
                self.holders.push((w.owner.id, w.mode));
            }
            self.assert_alone(w.mode);
            w.owner.tell(Park::Granted);
        }
    }
}

const EMPTY: u32 = u32::MAX;

/// A part of the lock table: slots, and an open-addressed index of them by hash.
#[derive(Default)]
pub(crate) struct Shard {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Slot numbers; linear probing, at most half full.
    index: Vec<u32>,
    live: usize,
}

impl Shard {
    pub fn live(&self) -> usize {
        self.live
    }

    fn home(&self, hash: u64) -> usize {
        // The top bits choose the shard, the low ones the position.
        hash as usize & (self.index.len() - 1)
    }

    pub fn find(&self, hash: u64, tree: TreeId, key: Option<&[u8]>) -> Option<u32> {
        if self.live == 0 {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let no = self.index[at];
            if no == EMPTY {
                return None;
            }
            let s = self.slot(no);
            if s.hash == hash && s.tree == tree && s.key.get() == key {
                return Some(no);
            }
            at = (at + 1) & (self.index.len() - 1);
        }
    }

    pub fn slot(&self, no: u32) -> &Slot {
        self.slots[no as usize].as_ref().expect("a slot in use")
    }

    pub fn slot_mut(&mut self, no: u32) -> &mut Slot {
        self.slots[no as usize].as_mut().expect("a slot in use")
    }

    /// Slots from place `from` on, of at most `most` places, and the next place if there is one.
    pub fn some_slots(
        &self,
        from: usize,
        most: usize,
    ) -> (impl Iterator<Item = &Slot>, Option<usize>) {
        let from = from.min(self.slots.len());
        let to = from.saturating_add(most.max(1)).min(self.slots.len());
        (self.slots[from..to].iter().flatten(), (to < self.slots.len()).then_some(to))
    }

    /// Adds a slot for a lock that [`Shard::find`] did not find.
    pub fn add(&mut self, slot: Slot) -> u32 {
        if (self.live + 1) * 2 > self.index.len() {
            self.rebuild_index((self.index.len() * 2).max(16));
        }
        let hash = slot.hash;
        let no = match self.free.pop() {
            Some(no) => {
                self.slots[no as usize] = Some(slot);
                no
            }
            None => {
                self.slots.push(Some(slot));
                (self.slots.len() - 1) as u32
            }
        };
        self.live += 1;
        self.index_slot(hash, no);
        no
    }

    fn index_slot(&mut self, hash: u64, no: u32) {
        let mut at = self.home(hash);
        while self.index[at] != EMPTY {
            at = (at + 1) & (self.index.len() - 1);
        }
        self.index[at] = no;
    }

    fn rebuild_index(&mut self, size: usize) {
        self.index = vec![EMPTY; size];
        for no in 0..self.slots.len() {
            if let Some(hash) = self.slots[no].as_ref().map(|s| s.hash) {
                self.index_slot(hash, no as u32);
            }
        }
    }

    /// Removes slot `no`; returns the bytes its key had on the heap.
    pub fn remove(&mut self, no: u32) -> usize {
        let Some(slot) = self.slots[no as usize].take() else { return 0 };
        if let Holding::Many(c) = &slot.holding {
            assert!(c.is_empty(), "a lock goes that somebody holds or waits for (LS3)");
        }
        self.live -= 1;
        if self.live == 0 && self.slots.len() > 1024 {
            // The memory that one large transaction needed is not kept for ever.
            *self = Shard::default();
            return slot.key.heap_bytes();
        }
        self.free.push(no);
        let mask = self.index.len() - 1;
        let mut hole = self.home(slot.hash);
        while self.index[hole] != no {
            hole = (hole + 1) & mask;
        }
        // Close the gap: move back entries that the hole would cut off from their home.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let other = self.index[at];
            if other == EMPTY {
                break;
            }
            let home = self.home(self.slot(other).hash);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.index[hole] = other;
                hole = at;
            }
        }
        self.index[hole] = EMPTY;
        slot.key.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frond_base::TableId;

    #[test]
    fn shard_finds_what_it_has_after_many_removals() {
        let tree = TreeId { table: TableId(1), index: 0 };
        let mut shard = Shard::default();
        let mut there = std::collections::BTreeMap::new();
        let mut x = 9u64;
        for _ in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let n = (x >> 33) % 300;
            let key = n.to_le_bytes();
            let hash = n % 37; // many collisions
            let found = shard.find(hash, tree, Some(&key));
            assert_eq!(found, there.get(&n).copied());
            match found {
                Some(no) => {
                    shard.remove(no);
                    there.remove(&n);
                }
                None => {
                    let holding = Holding::One(TxnId(n), LockMode::X);
                    let slot = Slot { hash, tree, key: SlotKey::of(Some(&key)), holding };
                    there.insert(n, shard.add(slot));
                }
            }
        }
        assert_eq!(shard.live(), there.len());
    }
}
