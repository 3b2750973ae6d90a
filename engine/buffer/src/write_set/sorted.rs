//! `SortedBuffer`: the ordered buffer of a single owner.
//!
//! A transaction keeps one per tree; the sequence of an entry is then the number of the operation
//! that wrote it, and [`SortedBuffer::undo_to`] takes back everything after a savepoint. It needs no
//! undo list: leaves know their newest sequence, so only leaves with something to undo are visited.
//! Leaves and chunks that become empty are removed: a search for the next entry would pass them
//! every time.

use std::ops::Bound;
use std::sync::Arc;

use frond_base::{EntryKind, EntryRef, EntrySource, Seq, SEQ_MAX};

use crate::batch::{Batch, Scan, Stop};
use crate::router::Router;
use crate::weight::Weight;
use crate::write_set::chunk::{Chunk, Place};
use crate::write_set::copy::{copy_backward, copy_forward};
use crate::write_set::group::Group;
use crate::write_set::leaf::Few;
use crate::MAX_KEY;

/// What [`SortedBuffer::put`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Put {
    /// The key's newest version before the call, if the buffer had one.
    pub newest_before: Option<(Seq, EntryKind)>,
}

/// See the module. New buffers own no memory.
pub struct SortedBuffer {
    /// All entries while there are no chunks; none later.
    few: Few,
    router: Router,
    #[allow(clippy::vec_box)] // splits move chunks
    chunks: Vec<Box<Chunk>>,
    /// Sums over the chunks, or of `few`.
    memory: usize,
    entries: usize,
}

impl Default for SortedBuffer {
    fn default() -> Self {
        SortedBuffer::new()
    }
}

impl SortedBuffer {
    pub fn new() -> SortedBuffer {
        SortedBuffer {
            few: Few::new(0),
            router: Router::default(),
            chunks: Vec::new(),
            memory: 0,
            entries: 0,
        }
    }

    /// Adds a version. Versions of a key may come in any order of `seq`; the same (key, seq) again
    /// replaces the entry. Keys of 1 to [`crate::MAX_KEY`] bytes (asserted).
    pub fn put(&mut self, key: &[u8], seq: Seq, kind: EntryKind, value: &[u8]) -> Put {
        self.put_over(key, seq, kind, value, SEQ_MAX)
    }

    /// As [`SortedBuffer::put`], and drops the key's versions with `mark < sequence < seq`: the
    /// caller promises that no [`SortedBuffer::undo_to`] and no read will fall between them, so that
    /// a row changed a thousand times in one statement is kept once.
    pub fn put_over(
        &mut self,
        key: &[u8],
        seq: Seq,
        kind: EntryKind,
        value: &[u8],
        mark: Seq,
    ) -> Put {
        let e = EntryRef { key, seq, kind, value };
        if self.chunks.is_empty() {
            if let Some(put) = self.put_among_few(&e, mark) {
                return put;
            }
            self.chunks.push(Box::new(Chunk::of_few(&mut self.few)));
            self.memory = self.chunks[0].memory();
            self.entries = self.chunks[0].entries();
        }
        // Keys that arrive in order: the last leaf, without a search for it.
        let last = self.chunks.len() - 1;
        let (mut at, mut leaf) = match self.chunks[last].last_leaf_takes(key, seq) {
            Some(leaf) => (last, leaf),
            None => {
                let at = self.router.route(key, seq);
                (at, self.chunks[at].leaf_for(key, seq))
            }
        };
        if self.chunks[at].is_full() {
            self.split(at);
            at = self.router.route(key, seq);
            leaf = self.chunks[at].leaf_for(key, seq);
        }
        let mut place = self.change(at, |c| c.insert(leaf, &e));
        let mut newest_before = None;
        while let Some(old) = self.older(at, place) {
            newest_before = newest_before.or(Some((old.2, old.3)));
            if old.2 <= mark {
                break;
            }
            self.change(old.0, |c| c.remove(old.1));
            self.drop_if_empty(old.0);
            place = self.chunks[at].find(key, seq);
        }
        Put { newest_before }
    }

    /// [`SortedBuffer::put_over`] while there are no chunks; `None` when there is no room.
    fn put_among_few(&mut self, e: &EntryRef<'_>, mark: Seq) -> Option<Put> {
        assert!(!e.key.is_empty() && e.key.len() <= MAX_KEY, "key of {} bytes", e.key.len());
        let few = &mut self.few;
        let (slot, exact) = few.find(e.key, e.seq);
        if exact {
            few.remove(slot);
        }
        few.insert(slot, e).ok()?;
        let mut newest_before = None;
        while slot + 1 < few.len() {
            let old = few.entry(slot + 1);
            if old.key != e.key {
                break;
            }
            newest_before = newest_before.or(Some((old.seq, old.kind)));
            if old.seq <= mark {
                break;
            }
            few.remove(slot + 1);
        }
        (self.memory, self.entries) = (few.memory(), few.len());
        Some(Put { newest_before })
    }

    /// A chunk, or, for number 0, the few entries that there are instead of chunks.
    #[inline]
    fn at(&self, c: usize) -> Group<'_> {
        match self.chunks.is_empty() {
            true => Group::Few(&self.few),
            false => Group::Chunk(&self.chunks[c]),
        }
    }

    fn group(&self, c: usize) -> Option<Group<'_>> {
        (c < self.chunks.len().max(1)).then(|| self.at(c))
    }

    fn groups(&self) -> impl DoubleEndedIterator<Item = Group<'_>> + ExactSizeIterator {
        (0..self.chunks.len().max(1)).map(|c| self.at(c))
    }

    /// The version after `place` of the same key: chunk, place, sequence and kind.
    fn older(&self, at: usize, place: Place) -> Option<(usize, Place, Seq, EntryKind)> {
        let here = self.chunks[at].entry(place);
        let (c, p) = self.forward(at, self.chunks[at].next(place))?;
        let e = self.chunks[c].entry(p);
        (e.key == here.key).then_some((c, p, e.seq, e.kind))
    }

    /// Changes chunk `at` and keeps the sums.
    fn change<T>(&mut self, at: usize, change: impl FnOnce(&mut Chunk) -> T) -> T {
        let c = &mut self.chunks[at];
        let before = (c.memory(), c.entries());
        let result = change(c);
        self.memory = self.memory + c.memory() - before.0;
        self.entries = self.entries + c.entries() - before.1;
        result
    }

    fn split(&mut self, at: usize) {
        let right = self.change(at, Chunk::split);
        self.memory += right.memory();
        self.entries += right.entries();
        self.router.insert(at + 1, Arc::new(right.lo().clone()));
        self.chunks.insert(at + 1, Box::new(right));
    }

    /// Removes a chunk without entries, unless it is the only one; as leaves of a chunk.
    fn drop_if_empty(&mut self, at: usize) {
        if self.chunks[at].entries() > 0 || self.chunks.len() == 1 {
            return;
        }
        let gone = self.chunks.remove(at);
        self.memory -= gone.memory();
        self.router.remove(at.max(1));
        match at.checked_sub(1) {
            Some(left) => self.change(left, |c| c.extend_over(&gone)),
            None => self.change(0, |c| c.extend_back_over(&gone)),
        }
    }

    /// Moves (chunk, place) past the ends of chunks; `None` at the end of the buffer.
    fn forward(&self, mut c: usize, mut p: Place) -> Option<(usize, Place)> {
        while !self.group(c)?.is_entry(p) {
            c += 1;
            p = self.group(c)?.first();
        }
        Some((c, p))
    }

    fn backward(&self, mut c: usize, p: Place) -> Option<(usize, Place)> {
        let mut found = self.group(c)?.prev(p);
        while found.is_none() {
            c = c.checked_sub(1)?;
            found = self.chunks[c].prev(self.chunks[c].end());
        }
        found.map(|p| (c, p))
    }

    /// Removes every entry newer than `seq`. Visits each chunk, and the leaves that have such entries.
    pub fn undo_to(&mut self, seq: Seq) {
        if self.chunks.is_empty() {
            self.few.remove_newer(seq);
            (self.memory, self.entries) = (self.few.memory(), self.few.len());
            return;
        }
        for at in (0..self.chunks.len()).rev() {
            if self.chunks[at].max_seq() > seq {
                self.change(at, |c| c.remove_newer(seq));
                self.drop_if_empty(at);
            }
        }
        if self.is_empty() {
            *self = SortedBuffer::new();
        }
    }

    /// The newest version of `key` at or before `at`.
    pub fn find(&self, key: &[u8], at: Seq) -> Option<EntryRef<'_>> {
        let (c, p) = self.position(key, at)?;
        Some(self.entry_at((c, p))).filter(|e| e.key == key)
    }

    /// As [`SortedBuffer::find`]; appends the value to `out`.
    pub fn get(&self, key: &[u8], at: Seq, out: &mut Vec<u8>) -> Option<(Seq, EntryKind)> {
        let e = self.find(key, at)?;
        out.extend_from_slice(e.value);
        Some((e.seq, e.kind))
    }

    /// Sequence and kind of the newest version of `key`.
    pub fn newest(&self, key: &[u8]) -> Option<(Seq, EntryKind)> {
        self.find(key, SEQ_MAX).map(|e| (e.seq, e.kind))
    }

    /// The first entry not before (`key`, `seq`).
    fn position(&self, key: &[u8], seq: Seq) -> Option<(usize, Place)> {
        let c = self.router.route(key, seq);
        self.forward(c, self.group(c)?.find(key, seq))
    }

    /// The place where a range that begins at `from` begins; not yet moved onto an entry.
    fn lower(&self, from: Bound<&[u8]>) -> (usize, Place) {
        let c = match from {
            Bound::Unbounded => 0,
            Bound::Included(k) => self.router.route(k, SEQ_MAX),
            Bound::Excluded(k) => self.router.route(k, 0),
        };
        (c, self.at(c).lower(from).0)
    }

    fn upper(&self, to: Bound<&[u8]>) -> (usize, Place) {
        match to {
            Bound::Unbounded => {
                let last = self.chunks.len().saturating_sub(1);
                (last, self.at(last).end())
            }
            Bound::Included(k) => self.lower(Bound::Excluded(k)),
            Bound::Excluded(k) => self.lower(Bound::Included(k)),
        }
    }

    /// Fills `batch` with the entries that `scan` asks for, in key order.
    pub fn scan_forward(&self, scan: &Scan<'_>, batch: &mut Batch) {
        batch.clear();
        let (first, _) = self.lower(scan.from);
        let mut exhausted = true;
        for group in self.groups().skip(first) {
            match copy_forward(group, scan.from, scan, batch) {
                Stop::Edge => {}
                stop => {
                    exhausted = stop == Stop::Range;
                    break;
                }
            }
        }
        batch.finish(exhausted, false, scan.versions);
    }

    /// Fills `batch` with the entries that `scan` asks for, in reverse key order.
    pub fn scan_backward(&self, scan: &Scan<'_>, batch: &mut Batch) {
        batch.clear();
        let (last, _) = self.upper(scan.from);
        let mut exhausted = true;
        for group in self.groups().take(last + 1).rev() {
            match copy_backward(group, scan.from, scan, batch) {
                Stop::Edge => {}
                stop => {
                    exhausted = stop == Stop::Range;
                    break;
                }
            }
        }
        batch.finish(exhausted, true, scan.versions);
    }

    /// All entries in order.
    #[inline]
    pub fn iter(&self) -> SortedIter<'_> {
        self.iter_range(Bound::Unbounded, Bound::Unbounded)
    }

    /// The entries of a key range in order, all versions.
    pub fn iter_range(&self, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> SortedIter<'_> {
        let (c, p) = self.lower(lo);
        SortedIter { buffer: self, at: self.forward(c, p), end: self.upper(hi) }
    }

    /// The newest version of every key, in order.
    #[inline]
    pub fn iter_newest(&self) -> impl Iterator<Item = EntryRef<'_>> {
        let mut last: Option<&[u8]> = None;
        self.iter().filter(move |e| {
            let new = last != Some(e.key);
            last = Some(e.key);
            new
        })
    }

    /// Entries and bytes of a key range; bytes are estimated inside a leaf.
    pub fn weight(&self, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> Weight {
        let (from, to) = (self.lower(lo), self.upper(hi));
        let mut w = Weight::default();
        for c in from.0..=to.0 {
            let group = self.at(c);
            let a = if c == from.0 { from.1 } else { group.first() };
            let b = if c == to.0 { to.1 } else { group.end() };
            w.add(group.weigh(a, b));
        }
        w
    }

    /// Where the first entry is, if there is one.
    pub(crate) fn first_at(&self) -> Option<(usize, Place)> {
        self.forward(0, self.at(0).first())
    }

    /// Where the entry after that at `(c, p)` is.
    pub(crate) fn after(&self, (c, p): (usize, Place)) -> Option<(usize, Place)> {
        self.forward(c, self.at(c).next(p))
    }

    #[inline]
    pub(crate) fn entry_at(&self, (c, p): (usize, Place)) -> EntryRef<'_> {
        self.at(c).entry(p)
    }

    /// Bytes allocated.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.memory + self.router.memory()
    }

    /// Bytes of keys, values and record headers.
    pub fn payload_bytes(&self) -> usize {
        self.groups().map(Group::payload).sum()
    }

    #[inline]
    pub fn entries(&self) -> usize {
        self.entries
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Asserts the structure of every chunk; for tests.
    #[doc(hidden)]
    pub fn check(&self) {
        for (i, chunk) in self.chunks.iter().enumerate() {
            chunk.check();
            let next = self.chunks.get(i + 1).map(|next| next.lo());
            assert_eq!(chunk.hi(), next, "chunks leave no gap");
            assert!(self.chunks.len() == 1 || chunk.entries() > 0, "an empty chunk");
        }
        let few = self.chunks.is_empty() || self.few.len() == 0;
        assert!(few, "few entries beside chunks");
        let sum = |of: fn(&Chunk) -> usize| self.chunks.iter().map(|c| of(c)).sum::<usize>();
        assert_eq!(self.entries, self.few.len() + sum(Chunk::entries));
        assert_eq!(self.memory, self.few.memory() + sum(Chunk::memory));
    }

    /// An empty buffer that begins with the memory of an earlier one.
    pub fn in_memory(memory: Vec<u8>) -> SortedBuffer {
        let memory_bytes = memory.capacity();
        SortedBuffer { few: Few::in_memory(memory), memory: memory_bytes, ..SortedBuffer::new() }
    }

    /// The memory of few entries, for [`SortedBuffer::in_memory`].
    pub fn into_memory(self) -> Vec<u8> {
        self.few.into_memory()
    }
}

/// Entries of a [`SortedBuffer`] in order, borrowed.
pub struct SortedIter<'a> {
    buffer: &'a SortedBuffer,
    at: Option<(usize, Place)>,
    end: (usize, Place),
}

impl<'a> SortedIter<'a> {
    fn current(&self) -> Option<EntryRef<'a>> {
        let at = self.at.filter(|at| *at < self.end)?;
        Some(self.buffer.entry_at(at))
    }

    fn step(&mut self) {
        self.at = self.at.and_then(|at| self.buffer.after(at));
    }
}

impl<'a> Iterator for SortedIter<'a> {
    type Item = EntryRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<EntryRef<'a>> {
        let e = self.current();
        self.step();
        e
    }
}

impl EntrySource for SortedIter<'_> {
    fn valid(&self) -> bool {
        self.at.is_some_and(|at| at < self.end)
    }

    fn entry(&self) -> EntryRef<'_> {
        self.current().expect("entry() requires valid()")
    }

    fn advance(&mut self) -> frond_base::Result<()> {
        self.step();
        Ok(())
    }
}

/// A position that outlives changes of the buffer: it remembers an entry's key and sequence, and
/// looks them up again at each step.
#[derive(Default, Clone)]
pub struct Cursor {
    key: Vec<u8>,
    seq: Seq,
}

impl Cursor {
    pub fn new() -> Cursor {
        Cursor::default()
    }

    fn rest_on<'b>(
        &mut self,
        buffer: &'b SortedBuffer,
        at: Option<(usize, Place)>,
    ) -> Option<EntryRef<'b>> {
        let e = buffer.entry_at(at?);
        self.key.clear();
        self.key.extend_from_slice(e.key);
        self.seq = e.seq;
        Some(e)
    }

    /// Goes to the first entry of the range that begins at `from`.
    pub fn seek<'b>(&mut self, b: &'b SortedBuffer, from: Bound<&[u8]>) -> Option<EntryRef<'b>> {
        let (c, p) = b.lower(from);
        self.rest_on(b, b.forward(c, p))
    }

    /// Goes to the last entry of the range that ends at `to`.
    pub fn seek_back<'b>(&mut self, b: &'b SortedBuffer, to: Bound<&[u8]>) -> Option<EntryRef<'b>> {
        let (c, p) = b.upper(to);
        self.rest_on(b, b.backward(c, p))
    }

    /// The entry after the remembered one; `None`, without moving, at the end.
    #[inline]
    pub fn next<'b>(&mut self, b: &'b SortedBuffer) -> Option<EntryRef<'b>> {
        let at = b.position(&self.key, self.seq)?;
        let e = b.entry_at(at);
        let at = match e.key == self.key && e.seq == self.seq {
            true => b.after(at),
            false => Some(at),
        };
        self.rest_on(b, at)
    }

    /// The entry before the remembered one; `None`, without moving, at the start.
    pub fn prev<'b>(&mut self, b: &'b SortedBuffer) -> Option<EntryRef<'b>> {
        let c = b.router.route(&self.key, self.seq);
        let p = b.group(c)?.find(&self.key, self.seq);
        self.rest_on(b, b.backward(c, p))
    }
}
