//! Strings that repeat (users, hosts, databases), as small numbers; and how often each occurs within a class.
//!
//! Invariants:
//! 1. At most `MAX_NAMES` different strings are kept; what comes later counts as `OTHERS`.
//! 2. At most `MAX_TOP` strings per class and kind are counted; when there are more, the rarest give way to `OTHERS`,
//!    so counts of frequent ones may miss their first few events.

use std::collections::HashMap;

/// A string's number; 0 is unknown (empty), 1 is everything that found no room.
pub type NameId = u32;

pub const UNKNOWN: NameId = 0;
pub const OTHERS: NameId = 1;

const MAX_NAMES: usize = 1 << 17;
const MAX_LENGTH: usize = 256;
const MAX_TOP: usize = 16;

/// Numbers of strings, of one thread.
#[derive(Debug)]
pub struct Names {
    ids: HashMap<Box<[u8]>, NameId, xxhash_rust::xxh3::Xxh3DefaultBuilder>,
    names: Vec<Box<[u8]>>,
}

impl Default for Names {
    fn default() -> Self {
        Names { ids: HashMap::default(), names: vec![Box::default(), b"(others)"[..].into()] }
    }
}

impl Names {
    /// The number of `name`, which is cut at 256 bytes.
    pub fn id(&mut self, name: &[u8]) -> NameId {
        if name.is_empty() {
            return UNKNOWN;
        }
        let name = &name[..name.len().min(MAX_LENGTH)];
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        if self.names.len() >= MAX_NAMES {
            return OTHERS;
        }
        let id = self.names.len() as NameId;
        self.names.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }

    pub fn name(&self, id: NameId) -> &[u8] {
        self.names.get(id as usize).map_or(b"", |name| name)
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Numbers of the strings a thread saw lately, so that it need not ask for each.
#[derive(Debug)]
pub struct Recent {
    slots: Vec<(Vec<u8>, NameId)>,
}

const RECENT: usize = 512;

impl Default for Recent {
    fn default() -> Self {
        Recent { slots: vec![(Vec::new(), UNKNOWN); RECENT] }
    }
}

impl Recent {
    /// The number of `name`; `ask` gives it if it was not seen lately.
    #[inline]
    pub fn id(&mut self, name: &[u8], ask: impl FnOnce(&[u8]) -> NameId) -> NameId {
        if name.is_empty() {
            return UNKNOWN;
        }
        let slot = &mut self.slots[xxhash_rust::xxh3::xxh3_64(name) as usize % RECENT];
        if slot.0 != name {
            slot.1 = ask(name);
            slot.0.clear();
            slot.0.extend_from_slice(&name[..name.len().min(MAX_LENGTH)]);
        }
        slot.1
    }
}

/// One string's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub id: NameId,
    /// Saturates.
    pub count: u32,
    /// Nanoseconds.
    pub time: u64,
}

/// The frequent strings of one kind within a class.
#[derive(Clone, Debug, Default)]
pub struct Top {
    shares: Vec<Share>,
}

impl Top {
    #[inline]
    pub fn add(&mut self, id: NameId, time: u64) {
        if let Some(share) = self.shares.iter_mut().find(|s| s.id == id) {
            share.count = share.count.saturating_add(1);
            share.time = share.time.saturating_add(time);
            return;
        }
        self.put(Share { id, count: 1, time });
    }

    /// Adds `count` events at once.
    pub fn add_many(&mut self, id: NameId, count: u64, time: u64) {
        self.put(Share { id, count: u32::try_from(count).unwrap_or(u32::MAX), time });
    }

    #[inline(never)]
    fn put(&mut self, new: Share) {
        if let Some(share) = self.shares.iter_mut().find(|s| s.id == new.id) {
            share.count = share.count.saturating_add(new.count);
            share.time = share.time.saturating_add(new.time);
            return;
        }
        if self.shares.len() == self.shares.capacity() {
            // Every class has three of these: no room is wasted.
            let most = MAX_TOP + 1 - self.shares.len().min(MAX_TOP);
            self.shares.reserve_exact(most.min(1 + self.shares.len() / 4));
        }
        self.shares.push(new);
        if self.shares.len() > MAX_TOP {
            let rarest = (0..self.shares.len() - 1)
                .filter(|i| self.shares[*i].id != OTHERS)
                .min_by_key(|i| (self.shares[*i].count, self.shares[*i].time));
            if let Some(rarest) = rarest {
                let gone = self.shares.swap_remove(rarest);
                self.put(Share { id: OTHERS, ..gone });
            }
        }
    }

    /// Adds what another thread counted; `map` gives this thread's number of the other's.
    pub fn merge(&mut self, other: &Top, mut map: impl FnMut(NameId) -> NameId) {
        for share in &other.shares {
            self.put(Share { id: map(share.id), ..*share });
        }
    }

    /// The most frequent first, and `OTHERS` last: a name says more than the rest does.
    pub fn sorted(&self) -> Vec<Share> {
        let mut shares = self.shares.clone();
        shares.sort_by_key(|s| (s.id == OTHERS, std::cmp::Reverse((s.count, s.time)), s.id));
        shares
    }

    /// Reads a number of each line of memory: see `Table::fetch`.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.shares.iter().step_by(4).fold(0, |read, share| read ^ share.time)
    }

    pub fn memory(&self) -> usize {
        self.shares.capacity() * std::mem::size_of::<Share>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_found_again() {
        let mut names = Names::default();
        let shop = names.id(b"shop");
        assert_eq!(names.id(b""), UNKNOWN);
        assert_eq!(names.id(b"shop"), shop);
        assert_eq!(names.name(shop), b"shop");
        assert_eq!(names.id(&[b'x'; 1000]), names.id(&[b'x'; 2000]));
    }

    #[test]
    fn the_frequent_ones_stay() {
        let mut top = Top::default();
        for i in 0..1000 {
            top.add(2, 5);
            top.add(100 + i, 1);
        }
        let shares = top.sorted();
        assert!(shares.len() <= MAX_TOP);
        assert_eq!(shares.iter().map(|s| s.count).sum::<u32>(), 2000);
        assert!(shares[0].id == 2 && shares[0].count == 1000 && shares[0].time == 5000);
        assert_eq!(shares.last().map(|s| s.id), Some(OTHERS));
    }
}
