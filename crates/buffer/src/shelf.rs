//! The shelf: a chunk of a shared buffer, and the entries it has taken but not yet put in order.
//!
//! A batch of random keys meets a different leaf with every key, and each costs a dozen cache and
//! translation misses. So entries that come alone are only appended to the *backlog* of their chunk:
//! there are few chunks, and the ends of their backlogs stay in the cache. A full backlog is sorted
//! and put into the leaves at once, several entries to a leaf. Readers scan a short backlog and
//! settle a long one. (Fetching the lines of sixteen leaves at the same time was tried first: it
//! cost several times as much at ten million entries.)
//!
//! A backlog record: u16 key length | kind << 15; u16 value length; u64 sequence; key; value.

use frond_base::{EntryKind, EntryRef, Seq};

use crate::chunk::{is_needless, Chunk};
use crate::fence::{head_after, order};
use crate::leaf::INLINE_VALUE;

/// Entries after which a backlog is settled.
const MAX_ENTRIES: usize = 1024;
/// Bytes after which it is.
const MAX_BYTES: usize = 64 << 10;
/// Entries that a point read looks through rather than settle them.
const SHORT: usize = 16;

const HEADER: usize = 12;
const DELETE: u16 = 1 << 15;

pub(crate) struct Shelf {
    pub chunk: Chunk,
    log: Vec<u8>,
    waiting: usize,
}

impl Shelf {
    pub fn new(chunk: Chunk) -> Shelf {
        Shelf { chunk, log: Vec::new(), waiting: 0 }
    }

    /// Entries, those that will replace others counted too until they are settled.
    pub fn entries(&self) -> usize {
        self.chunk.entries() + self.waiting
    }

    pub fn memory(&self) -> usize {
        self.chunk.memory() + self.log.capacity() + std::mem::size_of::<Shelf>()
            - std::mem::size_of::<Chunk>()
    }

    pub fn payload(&self) -> usize {
        self.chunk.payload() + self.log.len()
    }

    pub fn is_settled(&self) -> bool {
        self.waiting == 0
    }

    /// Whether a point read may look through the backlog.
    pub fn is_short(&self) -> bool {
        self.waiting <= SHORT
    }

    /// Whether [`Shelf::push`] must be preceded by settling.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.waiting >= MAX_ENTRIES || self.log.len() >= MAX_BYTES
    }

    /// Whether `e` may wait: large values are not copied twice.
    #[inline]
    pub fn takes(e: &EntryRef<'_>) -> bool {
        e.value.len() <= INLINE_VALUE && !e.key.is_empty() && e.key.len() <= crate::MAX_KEY
    }

    /// Appends `e`, which the chunk reaches and [`Shelf::takes`].
    #[inline]
    pub fn push(&mut self, e: &EntryRef<'_>) {
        let word = e.key.len() as u16 | if e.kind == EntryKind::Delete { DELETE } else { 0 };
        let mut header = [0u8; HEADER];
        header[..2].copy_from_slice(&word.to_le_bytes());
        header[2..4].copy_from_slice(&(e.value.len() as u16).to_le_bytes());
        header[4..].copy_from_slice(&e.seq.to_le_bytes());
        self.log.extend_from_slice(&header);
        self.log.extend_from_slice(e.key);
        self.log.extend_from_slice(e.value);
        self.waiting += 1;
    }

    /// The newest version of `key` at or before `at` in a backlog; of equal sequences the last.
    pub fn find_waiting(&self, key: &[u8], at: Seq) -> Option<EntryRef<'_>> {
        let mut best: Option<EntryRef<'_>> = None;
        let mut offset = 0;
        while offset < self.log.len() {
            let (e, next) = record(&self.log, offset);
            if e.key == key && e.seq <= at && best.is_none_or(|b| b.seq <= e.seq) {
                best = Some(e);
            }
            offset = next;
        }
        best
    }

    /// Puts the backlog into the leaves. Returns chunks split off, in order: they follow this one.
    #[must_use]
    pub fn settle(&mut self, keep: &[Seq]) -> Vec<Chunk> {
        if self.waiting == 0 {
            return Vec::new();
        }
        let log = std::mem::take(&mut self.log);
        let skip = self.chunk.skip();
        let mut places: Vec<(u64, u32)> = Vec::with_capacity(self.waiting);
        let mut offset = 0;
        while offset < log.len() {
            let (e, next) = record(&log, offset);
            places.push((head_after(e.key, skip), offset as u32));
            offset = next;
        }
        // The same key and sequence twice: the later record replaces the earlier.
        places.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| {
                let (x, y) = (record(&log, a.1 as usize).0, record(&log, b.1 as usize).0);
                order(x.key, x.seq, y.key, y.seq).then(a.1.cmp(&b.1))
            })
        });
        let mut entries: Vec<EntryRef<'_>> = Vec::with_capacity(places.len());
        for p in &places {
            let e = record(&log, p.1 as usize).0;
            match entries.last_mut() {
                Some(newer) if newer.key == e.key && newer.seq == e.seq => *newer = e,
                Some(newer) if newer.key == e.key && is_needless(e.seq, newer.seq, keep) => {}
                _ => entries.push(e),
            }
        }
        let rights = self.insert_all(&entries, keep);
        drop(entries);
        self.waiting = 0;
        self.log = log;
        self.log.clear();
        rights
    }

    /// Inserts entries of this shelf's range; returns chunks split off.
    #[must_use]
    pub fn insert_all(&mut self, entries: &[EntryRef<'_>], keep: &[Seq]) -> Vec<Chunk> {
        let mut rights: Vec<Chunk> = Vec::new();
        let (mut done, mut at) = (0, 0);
        while done < entries.len() {
            let chunk = match at {
                0 => &mut self.chunk,
                _ => &mut rights[at - 1],
            };
            done += chunk.insert_run(&entries[done..], keep);
            let Some(e) = entries.get(done) else { break };
            if !chunk.reaches(e.key, e.seq) {
                at += 1;
            } else {
                let right = chunk.split();
                rights.insert(at, right);
            }
        }
        rights
    }
}

#[inline]
fn record(log: &[u8], at: usize) -> (EntryRef<'_>, usize) {
    let b = &log[at..];
    let word = u16::from_le_bytes([b[0], b[1]]);
    let key_end = HEADER + usize::from(word & !DELETE);
    let end = key_end + usize::from(u16::from_le_bytes([b[2], b[3]]));
    let seq = u64::from_le_bytes([b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11]]);
    let kind = if word & DELETE != 0 { EntryKind::Delete } else { EntryKind::Put };
    (EntryRef { key: &b[HEADER..key_end], seq, kind, value: &b[key_end..end] }, at + end)
}
