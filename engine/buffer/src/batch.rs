//! Batches: entries copied out of a buffer, so that a reader holds no latch between calls.

use std::ops::Bound;

use frond_base::{EntryKind, EntryRef, Seq};

/// Which versions of a key a scan returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Versions {
    /// All of them.
    All,
    /// The newest one at or before this sequence, tombstones included.
    VisibleAt(Seq),
}

/// A request for a scan. `from` is where it starts in its own direction (the upper end of a
/// backward scan), `to` where it ends. The limits are approximate: a batch ends between keys, and
/// has at least one entry if there is any.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    pub from: Bound<&'a [u8]>,
    pub to: Bound<&'a [u8]>,
    pub versions: Versions,
    pub max_entries: usize,
    pub max_bytes: usize,
}

#[derive(Clone, Copy)]
struct Item {
    at: usize,
    seq: Seq,
    value_len: u32,
    key_len: u32,
    kind: EntryKind,
}

/// A reusable container of entries, in the direction of the scan that filled it; the versions of
/// one key are newest first in both directions and always in one batch.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    items: Vec<Item>,
    /// First item of the last key, while a backward scan runs.
    group: usize,
    exhausted: bool,
}

/// Memory that a batch keeps at most for its next use.
const KEEP_BYTES: usize = 1 << 20;

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Entry `i`; `i < len()`.
    #[inline]
    pub fn entry(&self, i: usize) -> EntryRef<'_> {
        let it = self.items[i];
        let key_end = it.at + it.key_len as usize;
        EntryRef {
            key: &self.bytes[it.at..key_end],
            seq: it.seq,
            kind: it.kind,
            value: &self.bytes[key_end..key_end + it.value_len as usize],
        }
    }

    /// Key of entry `i`; `i < len()`.
    #[inline]
    pub fn key(&self, i: usize) -> &[u8] {
        let it = self.items[i];
        &self.bytes[it.at..it.at + it.key_len as usize]
    }

    /// Where the next scan goes on: `Bound::Excluded` of this key.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.items.len().checked_sub(1).map(|i| self.key(i))
    }

    /// True when the scan that filled this batch met the end of its range.
    pub fn exhausted(&self) -> bool {
        self.exhausted
    }

    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.items.capacity() * std::mem::size_of::<Item>()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEEP_BYTES);
        self.items.clear();
        self.items.shrink_to(KEEP_BYTES / std::mem::size_of::<Item>());
        self.group = 0;
        self.exhausted = false;
    }

    #[inline]
    fn push(&mut self, e: &EntryRef<'_>) {
        self.note(e);
        self.bytes.extend_from_slice(e.key);
        self.bytes.extend_from_slice(e.value);
    }

    /// Adds the item of `e`, whose bytes come next.
    #[inline]
    fn note(&mut self, e: &EntryRef<'_>) {
        let at = self.bytes.len();
        self.items.push(Item {
            at,
            seq: e.seq,
            value_len: e.value.len() as u32,
            key_len: e.key.len() as u32,
            kind: e.kind,
        });
    }

    /// Keys that follow each other mostly differ in the last byte, which is cheaper to look at than a comparison is to call.
    #[inline]
    fn is_last_key(&self, key: &[u8]) -> bool {
        self.last_key().is_some_and(|last| last.last() == key.last() && last == key)
    }

    fn is_full(&self, scan: &Scan<'_>) -> bool {
        !self.items.is_empty()
            && (self.items.len() >= scan.max_entries || self.bytes.len() >= scan.max_bytes)
    }

    /// Takes the next entry of a forward scan; false when it begins a key that no longer fits.
    #[inline]
    pub(crate) fn take_forward(&mut self, e: &EntryRef<'_>, scan: &Scan<'_>) -> bool {
        self.take_joined(e, None, scan)
    }

    /// As [`Batch::take_forward`]; `body` is the key and the value of `e` in one piece, if they lie so.
    #[inline]
    pub(crate) fn take_joined(
        &mut self,
        e: &EntryRef<'_>,
        body: Option<&[u8]>,
        scan: &Scan<'_>,
    ) -> bool {
        if let Versions::VisibleAt(at) = scan.versions {
            if e.seq > at || self.is_last_key(e.key) {
                return true;
            }
            if self.is_full(scan) {
                return false;
            }
        } else if self.is_full(scan) && !self.is_last_key(e.key) {
            return false;
        }
        match body {
            Some(body) => {
                self.note(e);
                self.bytes.extend_from_slice(body);
            }
            None => self.push(e),
        }
        true
    }

    /// As [`Batch::take_forward`]; entries arrive in reverse, so oldest first within a key.
    pub(crate) fn take_backward(&mut self, e: &EntryRef<'_>, scan: &Scan<'_>) -> bool {
        if let Versions::VisibleAt(at) = scan.versions {
            if e.seq > at {
                return true;
            }
            if self.is_last_key(e.key) {
                if let Some(old) = self.items.pop() {
                    self.bytes.truncate(old.at);
                }
            } else if self.is_full(scan) {
                return false;
            }
        } else if !self.is_last_key(e.key) {
            if self.is_full(scan) {
                return false;
            }
            self.turn_group();
        }
        self.push(e);
        true
    }

    /// Puts the versions of the last key newest first.
    fn turn_group(&mut self) {
        let group = self.group;
        self.items[group..].reverse();
        self.group = self.items.len();
    }

    /// Ends a scan. `exhausted`: the end of the range was met.
    pub(crate) fn finish(&mut self, exhausted: bool, backward: bool, versions: Versions) {
        if backward && versions == Versions::All {
            self.turn_group();
        }
        self.exhausted = exhausted;
    }
}

/// Why copying from one chunk or shelf ended.
#[derive(PartialEq, Eq)]
pub(crate) enum Stop {
    /// The batch is full.
    Full,
    /// The end of the range.
    Range,
    /// The end of the chunk or shelf.
    Edge,
    /// The sorted part of the shelf has no more, but entries that are not sorted may follow.
    Unsorted,
}
