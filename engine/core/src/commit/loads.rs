//! A transaction's state of the tables that it loads: chunks, what is known of their keys, savepoints. `load.rs` has the
//! invariants and the steps of a load.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use frond_base::{checksum64, IndexNo, Result};
use frond_cache::Budget;
use frond_row::{Entries, RowCodec};
use frond_tree::Segment;

use crate::commit::core::Core;
use crate::table::chunk::Chunk;

/// Marks of savepoints that are not live any more are removed when there are this many, or twice as many as live ones.
const MARKS_MAX: usize = 64;

/// Whether rows of a table are being loaded.
pub(crate) enum Loading {
    /// Not yet; the number of rows inserted so far.
    Counting(u32),
    On(Box<Load>),
    /// No, and no load begins in this transaction any more.
    Off,
}

/// The loads of a transaction.
#[derive(Default)]
pub(crate) struct Loads {
    /// Indexed by the table's position in the transaction.
    of: Vec<Loading>,
    open: usize,
    /// Entries of all chunks. A running sum, because every row lock reads it and a thousand partitions may each have a load.
    entries: u64,
    /// Memory of all chunks.
    bytes: usize,
    /// Memory of all sets of hashes.
    key_bytes: usize,
}

/// One table's load.
pub(crate) struct Load {
    pub trees: Vec<IndexNo>,
    /// One chunk per index of the schema; all have the same number of entries.
    pub chunks: Vec<Chunk>,
    uniques: Vec<Unique>,
    /// Savepoints since `after`, and the rows that the chunks had (LD4).
    marks: Vec<(u64, usize)>,
    /// Operations up to this one are not in the chunks.
    pub after: u64,
    bytes: usize,
    /// Bytes of the sets of hashes when the last row was added.
    key_bytes: usize,
    core: Arc<Core>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.core.loads.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is known of the keys of a unique index (LD2).
pub(crate) struct Unique {
    index: usize,
    /// Every key so far was larger than the one before; `last` is the largest.
    ascends: bool,
    last: Vec<u8>,
    seen: Seen,
    /// Some keys are in runs, and `seen` does not have them.
    forgot: bool,
}

/// A set of hashes, open addressing; 0 is an empty place.
struct Seen {
    places: Vec<u64>,
    held: usize,
    room: Room,
}

/// The outcome of adding a key to the set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Added {
    New,
    /// An earlier key has the same hash.
    Known,
    /// The set has no such hash, and may not grow.
    NoRoom,
}

/// All sets of hashes together take at most a share of the cache; one set takes at most this many bytes.
const SEEN_SHARE: usize = 16;
const SEEN_BYTES_MAX: usize = 64 << 20;

/// One set's part of the memory for all sets.
struct Room {
    /// Bytes of all sets together.
    held: Arc<AtomicUsize>,
    budget: Arc<Budget>,
    bytes: usize,
}

impl Room {
    /// Sets this set's part to `bytes`. False, and nothing changes, when the others leave too little.
    fn take(&mut self, bytes: usize) -> bool {
        let all = self.budget.limit() / SEEN_SHARE;
        let more = bytes - self.bytes;
        let fits = |held: usize| Some(held + more).filter(|held| *held <= all);
        let taken = bytes <= SEEN_BYTES_MAX
            && self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if taken {
            self.bytes = bytes;
        }
        taken
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Seen {
    fn new(held: &Arc<AtomicUsize>, budget: &Arc<Budget>) -> Seen {
        let room = Room { held: held.clone(), budget: budget.clone(), bytes: 0 };
        Seen { places: Vec::new(), held: 0, room }
    }

    fn add(&mut self, key: &[u8]) -> Added {
        let hash = checksum64(key).max(1);
        if self.held * 3 >= self.places.len() * 2 && !self.grow() {
            return Added::NoRoom;
        }
        let at = self.place(hash);
        if self.places[at] == hash {
            return Added::Known;
        }
        self.places[at] = hash;
        self.held += 1;
        Added::New
    }

    fn place(&self, hash: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut at = (hash >> 20) as usize & mask;
        while self.places[at] != 0 && self.places[at] != hash {
            at = (at + 1) & mask;
        }
        at
    }

    fn grow(&mut self) -> bool {
        let wanted = (self.places.len() * 2).max(1024);
        if !self.room.take(wanted * size_of::<u64>()) {
            return false;
        }
        let old = std::mem::replace(&mut self.places, vec![0; wanted]);
        for hash in old.into_iter().filter(|hash| *hash != 0) {
            let at = self.place(hash);
            self.places[at] = hash;
        }
        true
    }
}

impl Unique {
    /// For schema index `index`; `earlier` are the keys that were inserted before the load.
    pub fn new<'a>(index: usize, core: &Core, earlier: impl Iterator<Item = &'a [u8]>) -> Unique {
        let seen = Seen::new(&core.load_keys, &core.shared.budget);
        let mut unique = Unique { index, ascends: true, last: Vec::new(), seen, forgot: false };
        for key in earlier {
            // A key may come several times, in several versions: it is in the set once.
            unique.forgot |= unique.seen.add(key) == Added::NoRoom;
            if key > &unique.last[..] {
                unique.last.clear();
                unique.last.extend_from_slice(key);
            }
        }
        unique
    }

    /// Whether `key` is certainly new. If so, it is noted.
    fn takes(&mut self, key: &[u8], codec: &RowCodec, chunk: &Chunk) -> Result<bool> {
        if self.ascends {
            if key > &self.last[..] {
                self.last.clear();
                self.last.extend_from_slice(key);
                return Ok(true);
            }
            if self.forgot {
                return Ok(false);
            }
            for key in chunk.keys() {
                if let Some(part) = codec.unique_part(self.index, key)? {
                    if self.seen.add(part) == Added::NoRoom {
                        return Ok(false);
                    }
                }
            }
            self.ascends = false;
        }
        Ok(self.seen.add(key) == Added::New)
    }
}

impl Load {
    /// A load of the rows of the operations behind `after`.
    pub fn new(core: &Arc<Core>, trees: Vec<IndexNo>, uniques: Vec<Unique>, after: u64) -> Load {
        core.loads.fetch_add(1, Ordering::Relaxed);
        Load {
            chunks: trees.iter().map(|_| Chunk::default()).collect(),
            trees,
            marks: Vec::new(),
            after,
            key_bytes: uniques.iter().map(|unique| unique.seen.room.bytes).sum(),
            uniques,
            bytes: 0,
            core: core.clone(),
        }
    }

    fn rows(&self) -> usize {
        self.chunks.first().map_or(0, Chunk::len)
    }

    fn entries(&self) -> u64 {
        (self.rows() * self.chunks.len()) as u64
    }

    /// Whether the row with the entries `new` can be loaded (LD2).
    pub fn takes(&mut self, codec: &RowCodec, new: &Entries) -> Result<bool> {
        if new.len() != self.chunks.len() || self.chunks.iter().any(Chunk::is_full) {
            return Ok(false);
        }
        for unique in &mut self.uniques {
            let index = unique.index;
            if let Some(part) = new.unique_prefix(index) {
                if !unique.takes(part, codec, &self.chunks[index])? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The parts of the chunks between savepoints that are live: operations, and first and last row.
    pub fn stretches(&self, marks: &[u64], now: u64) -> Vec<(Segment, usize, usize)> {
        let live = self.marks.iter().filter(|(op, _)| marks.binary_search(op).is_ok() && *op < now);
        let mut parts = Vec::new();
        let (mut after, mut from) = (self.after, 0);
        for (upto, to) in live.copied().chain(std::iter::once((now, self.rows()))) {
            assert!(to >= from && upto >= after, "LD4: a mark lies behind the rows");
            if to > from {
                parts.push((Segment { after, upto }, from, to));
            }
            (after, from) = (upto, to);
        }
        parts
    }
}

impl Loads {
    /// Memory of the chunks, which goes when they are written out.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of the chunks and of what is known of their keys.
    pub fn memory(&self) -> usize {
        self.bytes + self.key_bytes
    }

    /// The number of loads.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Versions held.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Load> {
        self.of.iter_mut().filter_map(|of| match of {
            Loading::On(load) => Some(&mut **load),
            _ => None,
        })
    }

    /// Whether the transaction loads a table.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.open > 0
    }

    /// All known positions are below this.
    pub fn positions(&self) -> usize {
        self.of.len()
    }

    /// Whether the chunks of the table at a position have rows.
    pub fn has_rows(&self, position: usize) -> bool {
        matches!(self.of.get(position), Some(Loading::On(load)) if load.rows() > 0)
    }

    /// Memory and position of each load with rows, the largest first.
    pub fn by_size(&self) -> Vec<(usize, usize)> {
        let bytes = |of: &Loading| match of {
            Loading::On(load) => load.bytes,
            _ => 0,
        };
        let all = self.of.iter().map(bytes).zip(0..);
        let mut sizes: Vec<(usize, usize)> = all.filter(|(bytes, _)| *bytes > 0).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    }

    pub fn begin(&mut self, position: usize, load: Load) {
        self.key_bytes += load.key_bytes;
        *self.at(position) = Loading::On(Box::new(load));
        self.open += 1;
    }

    /// Ends a load that has no rows.
    pub fn end(&mut self, position: usize) {
        assert!(!self.has_rows(position), "rows are lost with their load");
        self.key_bytes -= self.on(position).map_or(0, |load| load.key_bytes);
        *self.at(position) = Loading::Off;
        self.open -= 1;
    }

    /// Adds a row that the load [takes](Load::takes).
    pub fn push(&mut self, position: usize, new: &Entries) {
        let load = self.on(position).expect("a load that has just taken the row");
        let mut bytes = 0;
        for (index, chunk) in load.chunks.iter_mut().enumerate() {
            chunk.push(new.key(index), new.value(index));
            bytes += chunk.memory();
        }
        let key_bytes = load.uniques.iter().map(|unique| unique.seen.room.bytes).sum();
        let (grown, keys_grown) = (bytes - load.bytes, key_bytes - load.key_bytes);
        (load.bytes, load.key_bytes) = (bytes, key_bytes);
        self.entries += load.chunks.len() as u64;
        self.bytes += grown;
        self.key_bytes += keys_grown;
    }

    /// The chunks of a load were written out: all up to the operation `now`.
    pub fn written(&mut self, position: usize, now: u64) {
        let load = self.on(position).expect("a load goes on until it is ended");
        load.uniques.iter_mut().for_each(|unique| unique.forgot = true);
        load.chunks.iter_mut().for_each(|chunk| *chunk = Chunk::default());
        load.marks.clear();
        let bytes = std::mem::take(&mut load.bytes);
        load.after = now;
        self.bytes -= bytes;
        // The caller has taken the chunks' entries out.
        self.entries = self.all_mut().map(|load| load.entries()).sum();
    }

    /// The state of the table at a position.
    pub fn at(&mut self, position: usize) -> &mut Loading {
        while self.of.len() <= position {
            self.of.push(Loading::Counting(0));
        }
        &mut self.of[position]
    }

    pub fn on(&mut self, position: usize) -> Option<&mut Load> {
        match self.of.get_mut(position) {
            Some(Loading::On(load)) => Some(load),
            _ => None,
        }
    }

    /// A savepoint was taken (LD4).
    pub fn mark(&mut self, op: u64, live: &[u64]) {
        if self.open == 0 {
            return;
        }
        for load in self.all_mut() {
            if load.marks.len() >= MARKS_MAX.max(2 * live.len()) {
                load.marks.retain(|(op, _)| live.binary_search(op).is_ok());
            }
            let rows = load.rows();
            load.marks.push((op, rows));
        }
    }

    /// Rolls back to savepoint `to`; the last operation was `now`.
    pub fn rollback_to(&mut self, to: u64, now: u64) {
        if self.open == 0 {
            return;
        }
        let (mut gone, mut entries) = (0, 0);
        for load in self.all_mut() {
            let kept =
                load.marks.iter().rev().find(|(op, _)| *op <= to).map_or(0, |(_, rows)| *rows);
            load.marks.retain(|(op, _)| *op <= to);
            load.chunks.iter_mut().for_each(|chunk| chunk.truncate(kept));
            if kept == 0 {
                load.after = now;
                load.marks.clear();
            }
            let left = load.chunks.iter().map(Chunk::memory).sum();
            gone += load.bytes - left;
            load.bytes = left;
            entries += load.entries();
        }
        self.bytes -= gone;
        self.entries = entries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_found_again_however_the_set_grew() {
        let (held, budget) = (Arc::default(), Arc::new(Budget::new(32 << 20)));
        let mut seen = Seen::new(&held, &budget);
        assert!((0..50_000u32).all(|n| seen.add(&n.to_be_bytes()) == Added::New));
        assert!((0..50_000u32).all(|n| seen.add(&n.to_be_bytes()) == Added::Known));
        assert!(seen.places.len() < 150_000);
        // 2 MiB are 262 144 places.
        let new = |n: &u32| seen.add(&n.to_be_bytes()) == Added::New;
        let added = (50_000..1_000_000u32).take_while(new).count();
        assert!((120_000..130_000).contains(&added), "{added}");
        assert_eq!(seen.add(b"one more"), Added::NoRoom);
        assert_eq!(held.load(Ordering::Relaxed), 2 << 20);
    }

    #[test]
    fn sets_of_hashes_share_their_memory_and_give_it_back() {
        let (held, budget) = (Arc::default(), Arc::new(Budget::new(16 << 20)));
        let mut sets: Vec<Seen> = (0..100).map(|_| Seen::new(&held, &budget)).collect();
        let mut refused = 0;
        for n in 0..10_000u32 {
            for set in &mut sets {
                refused += u32::from(set.add(&n.to_be_bytes()) == Added::NoRoom);
            }
        }
        let bytes: usize = sets.iter().map(|set| set.places.len() * size_of::<u64>()).sum();
        assert_eq!(held.load(Ordering::Relaxed), bytes);
        assert!(refused > 0 && bytes <= 1 << 20, "{refused} {bytes}");
        drop(sets);
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }
}
