//! `IdMap`: a transaction's data for each tree or table that it touches, in the order of first use.
//!
//! Most transactions touch a handful: a linear search finds those, the latest first. A transaction
//! that inserts into a partitioned table touches thousands: beyond [`SCANNED`] a hash table finds
//! them.
//!
//! - IM1. `index`, when there are more than `SCANNED` items, has the position of each; otherwise it is empty.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Up to this many items are searched linearly.
const SCANNED: usize = 8;

/// See the module. `K` is a number that the engine assigns, such as a table's or a tree's.
#[derive(Clone, Debug)]
pub struct IdMap<K, T> {
    keys: Vec<K>,
    values: Vec<T>,
    index: HashMap<K, u32, BuildHasherDefault<IdHasher>>,
}

impl<K, T> Default for IdMap<K, T> {
    fn default() -> IdMap<K, T> {
        IdMap { keys: Vec::new(), values: Vec::new(), index: HashMap::default() }
    }
}

impl<K: Copy + Eq + Hash, T> IdMap<K, T> {
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Where `key` is; positions stay until [`IdMap::truncate`] or [`IdMap::clear`].
    #[inline]
    pub fn position(&self, key: K) -> Option<usize> {
        if self.keys.len() <= SCANNED {
            return self.keys.iter().rposition(|k| *k == key);
        }
        self.index.get(&key).map(|at| *at as usize)
    }

    pub fn get(&self, key: K) -> Option<&T> {
        self.position(key).map(|at| &self.values[at])
    }

    pub fn get_mut(&mut self, key: K) -> Option<&mut T> {
        self.position(key).map(|at| &mut self.values[at])
    }

    /// The item at a position, which must exist.
    pub fn at(&self, position: usize) -> &T {
        &self.values[position]
    }

    /// As [`IdMap::at`].
    pub fn at_mut(&mut self, position: usize) -> &mut T {
        &mut self.values[position]
    }

    /// Adds a key, which must not be there yet; returns its position.
    pub fn push(&mut self, key: K, value: T) -> usize {
        let at = self.keys.len();
        self.keys.push(key);
        self.values.push(value);
        match at {
            ..SCANNED => debug_assert!(!self.keys[..at].contains(&key), "IM1: a key is added once"),
            SCANNED => (0..=at).for_each(|at| self.add_to_index(at)),
            _ => self.add_to_index(at),
        }
        at
    }

    fn add_to_index(&mut self, at: usize) {
        let position = u32::try_from(at).expect("fewer than 2^32 items");
        let other = self.index.insert(self.keys[at], position);
        assert!(other.is_none(), "IM1: a key is added once");
    }

    /// In order of first use, as in all methods below.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.keys.iter().copied().zip(&self.values)
    }

    pub fn values(&self) -> &[T] {
        &self.values
    }

    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// Keeps the first `len` items, at most [`SCANNED`].
    pub fn truncate(&mut self, len: usize) {
        self.keys.truncate(len.min(SCANNED));
        self.values.truncate(len.min(SCANNED));
        self.index.clear();
    }

    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Takes all values out; the map is empty afterwards and keeps its allocation.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.keys.clear();
        self.index.clear();
        self.values.drain(..)
    }

    /// Bytes that the items take, without their own heap memory. Room that earlier items left is not counted, but for what
    /// growing leaves anyway.
    pub fn bytes(&self) -> usize {
        self.room(2 * self.len())
    }

    /// Bytes allocated, without the items' own heap memory.
    pub fn allocated(&self) -> usize {
        self.room(usize::MAX)
    }

    /// Bytes of the room for up to `items`, as far as it is allocated.
    fn room(&self, items: usize) -> usize {
        self.keys.capacity().min(items) * size_of::<K>()
            + self.values.capacity().min(items) * size_of::<T>()
            + self.index.capacity().min(items) * (size_of::<(K, u32)>() + 1)
    }
}

/// Mixes numbers that the engine assigns: nobody can choose them to collide.
#[derive(Default)]
struct IdHasher(u64);

impl IdHasher {
    fn mix(&mut self, n: u64) {
        // 2^64 divided by the golden ratio; the shift then moves high bits, which depend on all of
        // `n`, to the low ones.
        let product = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.mix(u64::from(*b)));
    }

    fn write_u16(&mut self, n: u16) {
        self.mix(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.mix(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }
}

#[cfg(test)]
mod tests {
    use crate::{TableId, TreeId};

    use super::*;

    fn tree(n: u32) -> TreeId {
        TreeId { table: TableId(n / 4), index: (n % 4) as u16 }
    }

    #[test]
    fn items_are_found_whether_few_or_many() {
        let mut map = IdMap::default();
        for n in 0..3000 {
            assert_eq!((map.position(tree(n)), map.push(tree(n), n)), (None, n as usize));
            assert_eq!(map.get(tree(n / 2)), Some(&(n / 2)));
        }
        assert!((0..3000).all(|n| map.position(tree(n)) == Some(n as usize)));
        *map.get_mut(tree(77)).unwrap() = 1;
        assert_eq!((*map.at(77), map.position(tree(4000))), (1, None));
        assert!(map.iter().map(|(t, _)| t).eq((0..3000).map(tree)));

        map.truncate(5);
        assert_eq!((map.len(), map.position(tree(4)), map.position(tree(5))), (5, Some(4), None));
        for n in 5..20 {
            map.push(tree(n), n);
        }
        assert!((0..20).all(|n| map.get(tree(n)) == Some(&n)));
        map.clear();
        assert_eq!((map.len(), map.position(tree(4))), (0, None));
    }
}
