//! Locks on key ranges of trees. The decisions are in `docs/rfcs/0008-range-locks.md`.
//!
//! A range has a lower end that belongs to it and an upper one that does not. Readers lock what
//! they read S or X. Writers lock the keys that they write IX. IX is compatible with the IX of
//! other writers: row locks keep writers of the same row apart.
//!
//! Invariants:
//!
//! - RL1. Overlapping ranges that different owners hold have compatible modes.
//! - RL2. A request is granted when its mode is compatible with every overlapping range that
//!   another owner holds, and with every overlapping request that has waited longer. A
//!   longer-waiting request does not count when it waits for this owner.
//! - RL3. `park` of a waiting owner leaves `Waiting` under the latch of this table.
//! - RL4. An owner has at most `MOST_RANGES` ranges of a mode in a tree, as long as others leave room for one that
//!   spans them.
//!
//! Why lists and not trees: there are few ranges in a tree (RL4), and each request has to look at those that
//! wait as well.
//!
//! Tested by `tests/it/ranges.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use frond_base::TreeId;

use crate::key_range::KeyRange;
use crate::lock_wait::{Owner, Park};
use crate::{LockMode, TxnId};

/// Ranges of one owner, tree and mode, beyond which one range takes their place.
pub(crate) const MOST_RANGES: usize = 64;

/// A range that is held or waited for.
pub(crate) struct Request {
    pub owner: Arc<Owner>,
    pub range: KeyRange,
    pub mode: LockMode,
    pub granted: bool,
    ticket: u64,
}

impl Request {
    pub fn bytes(&self) -> usize {
        size_of::<Request>() + self.range.bytes()
    }
}

/// All ranges. Under one latch: it is taken only while there are any.
#[derive(Default)]
pub(crate) struct RangeTable {
    trees: HashMap<TreeId, Vec<Request>>,
    tickets: u64,
    /// Requests of readers, granted or not.
    readers: usize,
    /// Memory of all requests.
    bytes: usize,
}

impl RangeTable {
    pub fn is_held(&self, tree: TreeId, owner: TxnId, range: &KeyRange, mode: LockMode) -> bool {
        self.of(tree).iter().any(|r| {
            r.granted && r.owner.id == owner && r.mode.covers(mode) && r.range.covers(range)
        })
    }

    pub fn of(&self, tree: TreeId) -> &[Request] {
        self.trees.get(&tree).map_or(&[], Vec::as_slice)
    }

    /// For whom a new request has to wait (RL2).
    pub fn blockers(
        &self,
        tree: TreeId,
        owner: TxnId,
        range: &KeyRange,
        mode: LockMode,
    ) -> Vec<TxnId> {
        blockers(self.of(tree), owner, range, mode, u64::MAX)
    }

    /// For whom `owner` waits in `tree`; none when it does not.
    pub fn blockers_of(&self, tree: TreeId, owner: TxnId) -> Vec<TxnId> {
        let list = self.of(tree);
        let own = list.iter().find(|r| !r.granted && r.owner.id == owner);
        own.map_or_else(Vec::new, |r| blockers(list, owner, &r.range, r.mode, r.ticket))
    }

    /// The request of `owner` that waits in `tree`.
    pub fn waiting(&self, tree: TreeId, owner: TxnId) -> Option<&Request> {
        self.of(tree).iter().find(|r| !r.granted && r.owner.id == owner)
    }

    /// Adds a request; ranges of the same owner and mode that it touches become one with it when it is granted.
    pub fn add(
        &mut self,
        tree: TreeId,
        owner: &Arc<Owner>,
        range: KeyRange,
        mode: LockMode,
        granted: bool,
    ) {
        self.tickets += 1;
        let mut request =
            Request { owner: owner.clone(), range, mode, granted, ticket: self.tickets };
        if granted {
            owner.note_ranges();
            self.join(tree, &mut request);
        }
        self.count(&request, true);
        self.trees.entry(tree).or_default().push(request);
    }

    /// Makes a granted request one with others of its owner and mode.
    fn join(&mut self, tree: TreeId, request: &mut Request) {
        let Some(mut list) = self.trees.remove(&tree) else { return };
        let owner = request.owner.id;
        let mode = request.mode;
        let own = |r: &Request| r.granted && r.owner.id == owner && r.mode == mode;
        // Joining may make it touch others.
        while let Some(i) = list.iter().position(|r| own(r) && r.range.touches(&request.range)) {
            let joined = list.swap_remove(i);
            request.range = request.range.span(&joined.range);
            self.count(&joined, false);
        }
        if list.iter().filter(|r| own(r)).count() >= MOST_RANGES {
            let ranges = list.iter().filter(|r| own(r)).map(|r| &r.range);
            let span = ranges.fold(request.range.clone(), |all, r| all.span(r));
            if blockers(&list, owner, &span, mode, u64::MAX).is_empty() {
                request.range = span;
                list.retain(|r| {
                    if own(r) {
                        self.count(r, false);
                    }
                    !own(r)
                });
            }
        }
        if !list.is_empty() {
            self.trees.insert(tree, list);
        }
    }

    fn count(&mut self, request: &Request, comes: bool) {
        let reads = usize::from(request.mode != LockMode::IX);
        let bytes = request.bytes();
        if comes {
            self.readers += reads;
            self.bytes += bytes;
        } else {
            self.readers -= reads;
            self.bytes -= bytes;
        }
    }

    pub fn readers(&self) -> usize {
        self.readers
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes the waiting request of `owner`.
    pub fn leave(&mut self, tree: TreeId, owner: TxnId) {
        self.remove(tree, &|r| r.owner.id == owner && !r.granted);
    }

    /// Removes all ranges of `owner`.
    pub fn release(&mut self, owner: TxnId) {
        for tree in self.trees() {
            self.remove(tree, &|r| r.owner.id == owner);
        }
    }

    fn remove(&mut self, tree: TreeId, goes: &dyn Fn(&Request) -> bool) {
        let Some(mut list) = self.trees.remove(&tree) else { return };
        let mut some = false;
        list.retain(|r| {
            if goes(r) {
                self.count(r, false);
                some = true;
            }
            !goes(r)
        });
        if some {
            grant(&mut list);
        }
        if !list.is_empty() {
            self.trees.insert(tree, list);
        }
    }

    /// Tells the owners that wait in `tree` that others came before them.
    pub fn overtake(&self, tree: TreeId) {
        self.of(tree).iter().filter(|r| !r.granted).for_each(|r| r.owner.overtake());
    }

    /// Trees with ranges.
    pub fn trees(&self) -> Vec<TreeId> {
        self.trees.keys().copied().collect()
    }
}

/// For whom a request with this ticket has to wait.
fn blockers(
    list: &[Request],
    owner: TxnId,
    range: &KeyRange,
    mode: LockMode,
    ticket: u64,
) -> Vec<TxnId> {
    let waits_for_owner = |r: &Request| {
        list.iter().any(|own| {
            own.granted
                && own.owner.id == owner
                && own.range.overlaps(&r.range)
                && !own.mode.goes_with(r.mode)
        })
    };
    let mut all: Vec<TxnId> = list
        .iter()
        .filter(|r| r.owner.id != owner && !r.mode.goes_with(mode) && r.range.overlaps(range))
        .filter(|r| r.granted || (r.ticket < ticket && !waits_for_owner(r)))
        .map(|r| r.owner.id)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Grants every waiting request that RL2 allows.
fn grant(list: &mut [Request]) {
    let mut waiting: Vec<usize> = (0..list.len()).filter(|i| !list[*i].granted).collect();
    waiting.sort_unstable_by_key(|i| list[*i].ticket);
    for i in waiting {
        let r = &list[i];
        if blockers(list, r.owner.id, &r.range, r.mode, r.ticket).is_empty() {
            list[i].granted = true;
            list[i].owner.note_ranges();
            list[i].owner.tell(Park::Granted);
        }
    }
}
