//! Sorting the entries of an index in bounded memory: chunks in memory, each written as a private run.

use std::cmp::Ordering;

use frond_base::{EntryKind, EntryRef, EntrySource, Result};
use frond_run::MergeInput;
use frond_tree::{PrivateRuns, Segment};

/// Where an entry is in a chunk's bytes.
#[derive(Clone, Copy)]
struct Place {
    /// Eight bytes of the key, behind what all keys of the chunk have in common.
    head: u64,
    at: u32,
    key: u32,
    value: u32,
}

/// Entries in the order in which they came. Keys are distinct.
#[derive(Default)]
pub(super) struct Chunk {
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

    pub fn is_full(&self) -> bool {
        self.bytes.len() > CHUNK_BYTES_MAX
    }

    fn sorted(mut self) -> SortedChunk {
        if self.unsorted {
            let mut places = std::mem::take(&mut self.places);
            for place in &mut places {
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
            places.sort_unstable_by(by_key);
            self.places = places;
        }
        SortedChunk { chunk: self, next: 0 }
    }
}

/// The entries of a chunk in key order.
struct SortedChunk {
    chunk: Chunk,
    next: usize,
}

impl EntrySource for SortedChunk {
    #[inline]
    fn valid(&self) -> bool {
        self.next < self.chunk.places.len()
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

/// The entries of one tree, in a chunk and in runs that no trunk names yet.
pub(super) struct EntrySort {
    pub chunk: Chunk,
    pub runs: PrivateRuns,
    written: u64,
}

impl EntrySort {
    pub fn new(runs: PrivateRuns) -> EntrySort {
        EntrySort { chunk: Chunk::default(), runs, written: 0 }
    }

    /// Writes the chunk out.
    pub fn write(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let sorted = std::mem::take(&mut self.chunk).sorted();
        let segment = Segment { after: self.written, upto: self.written + 1 };
        self.written += 1;
        self.runs.write(MergeInput::entries(sorted), segment, poll)?;
        self.runs.tidy(&[], poll)
    }

    /// Everything in one list of runs.
    pub fn finish(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.write(poll)?;
        self.runs.merge_all(poll)
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
