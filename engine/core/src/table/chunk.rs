//! Entries that are sorted in memory: those of an index that is being built, or of rows that are loaded.
//!
//! Entries stay in the order in which they came, so that a rollback can remove the newest. Before they are written
//! out they are sorted, as a whole or between savepoints.

use std::cmp::Ordering;
use std::sync::Arc;

use frond_base::{EntryKind, EntryRef, EntrySource, Result};

/// Where an entry is in a chunk's bytes.
#[derive(Clone, Copy)]
struct Place {
    /// The eight bytes of the key behind the prefix that all keys of the chunk share.
    head: u64,
    at: u32,
    key: u32,
    value: u32,
}

/// Entries in the order in which they came. Keys are distinct.
#[derive(Default)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// Bytes that all keys begin with.
    common: usize,
    unsorted: bool,
}

/// A chunk has at most this many bytes of keys and values.
const CHUNK_BYTES_MAX: usize = 1 << 30;

impl Chunk {
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        match self.places.last() {
            None => self.common = key.len(),
            Some(last) => {
                let (first, before) = (self.key(self.places[0]), self.key(*last));
                let unsorted = before > key;
                let known = self.common.min(key.len());
                let same = first.iter().zip(&key[..known]).take_while(|(a, b)| a == b).count();
                (self.common, self.unsorted) = (same, self.unsorted | unsorted);
            }
        }
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        let (key, value) = (key.len() as u32, value.len() as u32);
        self.places.push(Place { head: 0, at, key, value });
    }

    fn key(&self, place: Place) -> &[u8] {
        &self.bytes[place.at as usize..][..place.key as usize]
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<Place>()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether the chunk is near its limit of bytes.
    pub fn is_full(&self) -> bool {
        self.bytes.len() > CHUNK_BYTES_MAX
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The keys, in the order of the places.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|p| self.key(*p))
    }

    /// Keeps the first `len` entries.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            // Parts may have been sorted, so what is left need not be at the beginning of the bytes.
            self.places.truncate(len);
            let end = |p: &Place| p.at as usize + (p.key + p.value) as usize;
            let used = self.places.iter().map(end).max().unwrap_or(0);
            self.bytes.truncate(used);
            self.unsorted &= len > 0;
        }
    }

    /// Sorts the entries `from..to`, in place.
    pub fn sort(&mut self, from: usize, to: usize) {
        if !self.unsorted {
            return;
        }
        let mut places = std::mem::take(&mut self.places);
        let part = &mut places[from..to];
        for place in part.iter_mut() {
            let rest = &self.key(*place)[self.common..];
            let mut head = [0; 8];
            let n = rest.len().min(8);
            head[..n].copy_from_slice(&rest[..n]);
            place.head = u64::from_be_bytes(head);
        }
        let by_key = |a: &Place, b: &Place| match a.head.cmp(&b.head) {
            Ordering::Equal => self.key(*a).cmp(self.key(*b)),
            other => other,
        };
        part.sort_unstable_by(by_key);
        self.places = places;
    }

    /// All entries in key order.
    pub fn sorted(mut self) -> SortedChunk {
        let upto = self.len();
        self.sort(0, upto);
        SortedChunk::of(Arc::new(self), 0, upto)
    }
}

/// Entries of a chunk in key order.
pub(crate) struct SortedChunk {
    chunk: Arc<Chunk>,
    next: usize,
    upto: usize,
}

impl SortedChunk {
    /// The entries `from..upto`, which are sorted.
    pub fn of(chunk: Arc<Chunk>, from: usize, upto: usize) -> SortedChunk {
        SortedChunk { chunk, next: from, upto }
    }
}

impl EntrySource for SortedChunk {
    #[inline]
    fn valid(&self) -> bool {
        self.next < self.upto
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        let place = self.chunk.places[self.next];
        let value = &self.chunk.bytes[(place.at + place.key) as usize..][..place.value as usize];
        EntryRef { key: self.chunk.key(place), seq: 0, kind: EntryKind::Put, value }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_gives_its_entries_in_key_order() {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for n in 0..3_000u64 {
            let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut key = b"common".to_vec();
            key.extend_from_slice(&mixed.to_be_bytes()[..1 + (n % 3) as usize]);
            key.extend_from_slice(&n.to_be_bytes());
            keys.push(key);
        }
        for in_order in [false, true] {
            if in_order {
                keys.sort();
            }
            let mut chunk = Chunk::default();
            keys.iter().for_each(|key| chunk.push(key, &key[..3]));
            assert_eq!((chunk.common, chunk.unsorted), (6, !in_order));
            let mut sorted = chunk.sorted();
            let mut wanted = keys.clone();
            wanted.sort();
            for key in wanted {
                assert!(sorted.valid());
                let entry = sorted.entry();
                assert_eq!((entry.key, entry.value), (&key[..], &key[..3]));
                sorted.advance().unwrap();
            }
            assert!(!sorted.valid());
        }
    }

    #[test]
    fn the_newest_entries_can_be_taken_back_also_when_parts_are_sorted() {
        let mut chunk = Chunk::default();
        let keys = [5u8, 1, 4, 2, 9, 3, 8];
        keys.iter().for_each(|k| chunk.push(&[7, *k], &[*k; 3]));
        chunk.sort(0, 4);
        chunk.truncate(4);
        chunk.push(&[7, 0], b"new");
        let found = |chunk: &Chunk| -> Vec<u8> { chunk.keys().map(|k| k[1]).collect() };
        assert_eq!(found(&chunk), [1, 2, 4, 5, 0]);
        chunk.sort(0, 4);
        let mut part = SortedChunk::of(Arc::new(chunk), 0, 4);
        let mut values = Vec::new();
        while part.valid() {
            values.extend_from_slice(part.entry().value);
            part.advance().unwrap();
        }
        assert_eq!(values, [1, 1, 1, 2, 2, 2, 4, 4, 4, 5, 5, 5]);
    }

    #[test]
    fn keys_shorter_than_the_common_prefix_of_others_come_first() {
        let mut chunk = Chunk::default();
        for key in [&b"abcd"[..], b"abce", b"ab", b"abc\0"] {
            chunk.push(key, b"");
        }
        let mut sorted = chunk.sorted();
        let mut found = Vec::new();
        while sorted.valid() {
            found.push(sorted.entry().key.to_vec());
            sorted.advance().unwrap();
        }
        assert_eq!(found, [&b"ab"[..], b"abc\0", b"abcd", b"abce"]);
    }
}
