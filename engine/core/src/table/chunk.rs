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
    /// The bytes of the key at the first eight places where the keys that are sorted differ.
    head: u64,
    at: u32,
    key: u32,
}

/// Behind a key is the length of its value, then the value.
const LEN: usize = size_of::<u32>();

/// Entries in the order in which they came. Keys are distinct.
#[derive(Default)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    places: Vec<Place>,
    differing: Differing,
    unsorted: bool,
    /// The first entries, which are in order although they did not come so.
    sorted: usize,
}

/// The bytes, of the first [`WINDOW`] behind those that are known to be the same, that are not the same in all keys.
#[derive(Clone, Copy, Default)]
struct Differing {
    first: Option<[u64; WINDOW / 8]>,
    bits: [u64; WINDOW / 8],
}

impl Differing {
    #[inline]
    fn note(&mut self, rest: &[u8]) {
        let words = words(rest);
        let first = self.first.get_or_insert(words);
        for (bits, (a, b)) in self.bits.iter_mut().zip(first.iter().zip(&words)) {
            *bits |= a ^ b;
        }
    }

    /// The first eight such places; those behind the window count as different.
    fn places(&self) -> [usize; 8] {
        let differs = |at: &usize| *at >= WINDOW || self.bits[at / 8].to_be_bytes()[at % 8] != 0;
        let mut found = (0..).filter(differs);
        std::array::from_fn(|_| found.next().unwrap_or(WINDOW))
    }
}

/// The first bytes of `rest`, and zeros.
#[inline]
fn words(rest: &[u8]) -> [u64; WINDOW / 8] {
    let (whole, end) = rest.as_chunks::<8>();
    let mut words = [0; WINDOW / 8];
    for (word, bytes) in words.iter_mut().zip(whole) {
        *word = u64::from_be_bytes(*bytes);
    }
    if let Some(word) = words.get_mut(whole.len()).filter(|_| !end.is_empty()) {
        *word = match rest.last_chunk::<8>() {
            Some(last) => u64::from_be_bytes(*last) << (8 * (8 - end.len())),
            None => end.iter().rev().fold(0, |word, b| word >> 8 | u64::from(*b) << 56),
        };
    }
    words
}

/// A chunk has at most this many bytes of keys and values.
const CHUNK_BYTES_MAX: usize = 1 << 30;
/// Bytes of keys in which it is looked for differences at once.
const WINDOW: usize = 64;
/// Fewer keys than this are compared with each other.
const FEW: usize = 16;
/// So many heads of a key are looked at; keys that are the same in all of them are compared with each other. It bounds
/// the stack that sorting takes.
const HEADS_MAX: usize = 32;

impl Chunk {
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        if let Some(last) = self.places.last() {
            self.unsorted |= self.key(*last) > key;
        }
        self.differing.note(key);
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(value);
        self.places.push(Place { head: 0, at, key: key.len() as u32 });
    }

    /// Makes room for `entries` of so many bytes in all, so that the memory is not moved when it grows; it is only taken
    /// when it is used.
    pub fn reserve(&mut self, bytes: usize, entries: usize) {
        // Without room the memory grows as it is used.
        let _ = self.bytes.try_reserve_exact(bytes.min(CHUNK_BYTES_MAX));
        let _ = self.places.try_reserve_exact(entries.min(bytes / size_of::<Place>()));
    }

    fn key(&self, place: Place) -> &[u8] {
        &self.bytes[place.at as usize..][..place.key as usize]
    }

    fn value(&self, place: Place) -> &[u8] {
        let rest = &self.bytes[(place.at + place.key) as usize..];
        let len = rest.first_chunk::<LEN>().map_or(0, |len| u32::from_le_bytes(*len));
        &rest[LEN..][..len as usize]
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

    /// The key of entry `n`.
    pub fn key_at(&self, n: usize) -> &[u8] {
        self.key(self.places[n])
    }

    /// The first entry whose key is `key` or larger; of a sorted chunk.
    pub fn place_of(&self, key: &[u8]) -> usize {
        self.places.partition_point(|place| self.key(*place) < key)
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
            self.sorted = 0;
            let end = |p: &Place| (p.at + p.key) as usize + LEN + self.value(*p).len();
            let used = self.places.iter().map(end).max().unwrap_or(0);
            self.bytes.truncate(used);
            self.unsorted &= len > 0;
        }
    }

    /// Sorts the entries `from..to`, in place.
    pub fn sort(&mut self, from: usize, to: usize) {
        if !self.unsorted || (from, to) == (0, self.sorted) {
            return;
        }
        let mut places = std::mem::take(&mut self.places);
        self.sort_from(&mut places[from..to], 0, &self.differing, HEADS_MAX);
        self.places = places;
        if from == 0 {
            self.sorted = to;
        }
    }

    /// Sorts places whose keys have the same first `same` bytes, by the heads of the keys. Places that then have the
    /// same head are sorted by their next heads, `heads` in all: a key is read once for eight bytes that tell it from others, where a
    /// comparison of whole keys would read two of them at random places of the memory.
    fn sort_from(&self, part: &mut [Place], same: usize, differing: &Differing, heads: usize) {
        let differing = differing.places().map(|at| same + at);
        let in_a_row = differing[7] - differing[0] == 7;
        for place in part.iter_mut() {
            // Where the heads of two keys differ first, the keys differ first, or one has ended.
            let key = self.key(*place);
            place.head = match key.get(differing[0]..).and_then(|rest| rest.first_chunk()) {
                Some(head) if in_a_row => u64::from_be_bytes(*head),
                _ => {
                    let byte = |at: usize| key.get(at).copied().unwrap_or(0);
                    u64::from_be_bytes(differing.map(byte))
                }
            };
        }
        part.sort_unstable_by_key(|place| place.head);
        let same = differing[7] + 1;
        for equal in part.chunk_by_mut(|a, b| a.head == b.head) {
            match equal.len() {
                1 => {}
                len if len < FEW || heads == 1 => {
                    equal.sort_unstable_by(|a, b| self.compare_from(same, *a, *b));
                }
                // All have ended, with zeros.
                _ if equal.iter().all(|place| place.key as usize <= same) => {
                    equal.sort_unstable_by_key(|place| place.key);
                }
                _ => self.sort_from(equal, same, &self.differing(equal, same), heads - 1),
            }
        }
    }

    /// Orders two keys that have the same first `same` bytes, where a key that has ended goes on with zeros.
    fn compare_from(&self, same: usize, a: Place, b: Place) -> Ordering {
        let rest = |place: Place| self.key(place).get(same..).unwrap_or_default();
        rest(a).cmp(rest(b)).then(a.key.cmp(&b.key))
    }

    /// Where keys that have the same first `same` bytes differ; a key that has ended goes on with zeros.
    fn differing(&self, part: &[Place], same: usize) -> Differing {
        let mut differing = Differing::default();
        part.iter().for_each(|p| differing.note(self.key(*p).get(same..).unwrap_or_default()));
        differing
    }

    /// Removes all entries; the memory is used again.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.differing = Differing::default();
        self.unsorted = false;
        self.sorted = 0;
    }

    /// Whether the entries came in another order than that of their keys, or may have.
    pub fn is_unsorted(&self) -> bool {
        self.unsorted
    }

    /// All entries in key order.
    #[cfg(test)]
    pub fn sorted(mut self) -> SortedChunk {
        let upto = self.len();
        self.sort(0, upto);
        SortedChunk::of(Arc::new(self), 0, upto)
    }
}

/// Entries that are brought into the processor's cache at once.
const AHEAD: usize = 16;

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

    /// Reads a byte of each of the next entries. They are all over the memory, and these reads wait for it at the
    /// same time, where the entries would one after the other.
    fn touch(&self) {
        let chunk = &*self.chunk;
        let next = &chunk.places[self.next..self.upto.min(self.next + AHEAD).max(self.next)];
        let byte = |at: usize| chunk.bytes.get(at).copied().unwrap_or(0);
        let both = |p: &Place| byte(p.at as usize) ^ byte((p.at + p.key) as usize);
        std::hint::black_box(next.iter().fold(0, |sum, p| sum ^ both(p)));
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
        let (key, value) = (self.chunk.key(place), self.chunk.value(place));
        EntryRef { key, seq: 0, kind: EntryKind::Put, value }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.next += 1;
        if self.next.is_multiple_of(AHEAD) {
            self.touch();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_gives(chunk: Chunk, keys: &[Vec<u8>]) {
        let mut sorted = chunk.sorted();
        for key in keys {
            assert!(sorted.entry().key == key, "{key:?} comes later or never");
            sorted.advance().unwrap();
        }
        assert!(!sorted.valid());
    }

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
            assert_eq!(chunk.unsorted, !in_order);
            assert_eq!(chunk.differing.places(), [6, 7, 8, 13, 14, 15, 16, 64]);
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

    /// Weights of two bytes: every second byte is the same in all keys.
    #[test]
    fn keys_are_told_apart_by_the_bytes_in_which_they_differ() {
        let mut chunk = Chunk::default();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for n in 0..2_000u32 {
            let mixed = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
            let letters = mixed.iter().flat_map(|b| [b >> 4, b & 15]);
            // Of several lengths: behind the sixteenth byte some have ended, others have zeros.
            let ends = 8 + n as usize % 3;
            keys.push(letters.chain([0; 4]).take(ends).flat_map(|l| [0, l]).collect());
        }
        keys.sort();
        keys.dedup();
        keys.iter().rev().for_each(|key| chunk.push(key, b""));
        assert_eq!(chunk.differing.places(), [1, 3, 5, 7, 9, 11, 13, 15]);
        assert_gives(chunk, &keys);
    }

    /// More than [`FEW`] keys have the same head, again and again; some end with zeros where others go on with them.
    #[test]
    fn keys_with_the_same_heads_are_sorted_by_the_next_ones() {
        for letters in [1u64, 2, 3] {
            let (mut chunk, mut keys) = (Chunk::default(), Vec::new());
            let mut number = 7u64;
            for _ in 0..5_000 {
                let mut next = |below: u64| {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (number >> 33) % below
                };
                let long = next(90);
                keys.push((0..long).map(|_| (next(letters) * next(2)) as u8).collect::<Vec<_>>());
            }
            keys.sort();
            keys.dedup();
            keys.iter().rev().for_each(|key| chunk.push(key, b""));
            assert_gives(chunk, &keys);
        }
    }

    /// At every eighth byte some keys end, so each head leaves others that are the same: the stack does not grow with the
    /// length of the keys.
    #[test]
    fn long_keys_are_sorted_in_little_stack() {
        let sort = || {
            let (mut chunk, mut keys) = (Chunk::default(), Vec::new());
            for n in 0..2 * FEW as u8 {
                keys.push([vec![7; 32 << 10], vec![n]].concat());
            }
            for same in 1..4 << 10 {
                keys.push([vec![7; 8 * same], vec![9]].concat());
            }
            keys.iter().rev().for_each(|key| chunk.push(key, b""));
            keys.sort();
            assert_gives(chunk, &keys);
        };
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        thread.spawn(sort).unwrap().join().unwrap();
    }

    #[test]
    fn keys_that_differ_far_from_their_beginning_are_sorted() {
        for same in [0, 7, 8, 55, 63, 64, 65, 200] {
            let mut chunk = Chunk::default();
            for n in (0..=255u8).rev() {
                let mut key = vec![5; same];
                key.extend_from_slice(&[n / 16, 9, n % 16]);
                chunk.push(&key[..key.len() - usize::from(n % 16 == 0)], &[n]);
            }
            let mut sorted = chunk.sorted();
            for n in 0..=255 {
                assert_eq!(sorted.entry().value, [n], "behind {same} bytes");
                sorted.advance().unwrap();
            }
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
