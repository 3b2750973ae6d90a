//! Sources of a cursor: each yields, key by key in the cursor's direction, the newest version that
//! the snapshot sees. The cursor decides which source wins a key.
//!
//! Invariant SO1: a key's versions are resolved inside its source, whichever page or batch they span;
//! the cursor sees each key at most once per source.
//!
//! `source/buffer.rs` reads write buffers, `source/run.rs` slices of runs. Tested with cursors, in `tests/`.

use std::cmp::Ordering;
use std::sync::Arc;

use frond_base::{key_head, EntryKind, Error, ErrorKind, Result, Seq};

use crate::node::Heat;
use crate::store::RunStore;

mod buffer;
mod run;

pub(crate) use buffer::BufferSource;
pub(crate) use run::RunSource;

/// Entries examined between two polls for an interrupt.
const POLL_EVERY: u64 = 1000;
/// Entries of a cursor's very first batch from a buffer, and of the second one after each seek, at least.
const FIRST_BATCH: usize = 16;

/// State that the sources of a cursor share.
pub(crate) struct Walk {
    pub store: Arc<dyn RunStore>,
    pub at: Seq,
    pub forward: bool,
    /// The cursor's bounds, `[lo, hi)`.
    pub lo: Vec<u8>,
    pub hi: Option<Vec<u8>>,
    pub examined: u64,
    next_poll: u64,
    /// Pages and batches loaded.
    pub refills: u32,
    /// Entries that the walk before the last seek took from one write buffer, at most.
    pub taken: usize,
    pub interrupt: Option<Box<dyn FnMut() -> bool + Send>>,
}

impl Walk {
    pub fn new(store: Arc<dyn RunStore>, at: Seq) -> Walk {
        Walk {
            store,
            at,
            forward: true,
            lo: Vec::new(),
            hi: None,
            examined: 0,
            next_poll: POLL_EVERY,
            refills: 0,
            taken: FIRST_BATCH,
            interrupt: None,
        }
    }

    #[inline]
    fn is_poll_due(&self) -> bool {
        self.examined + 1 >= self.next_poll
    }

    #[inline]
    fn examine(&mut self, n: u64) -> Result<()> {
        self.examined += n;
        if self.examined >= self.next_poll {
            return self.poll();
        }
        Ok(())
    }

    #[cold]
    fn poll(&mut self) -> Result<()> {
        self.next_poll = self.examined + POLL_EVERY;
        match self.interrupt.as_mut().is_some_and(|raised| raised()) {
            true => Err(Error::new(ErrorKind::Interrupted, "the scan was interrupted")),
            false => Ok(()),
        }
    }
}

/// The node to which a run source's read work is charged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charge {
    None,
    Edge,
    Deltas,
}

pub(crate) struct Source {
    pub valid: bool,
    /// Head of the current key; meaningful while `valid`.
    pub head: u64,
    pub key: Vec<u8>,
    pub seq: Seq,
    pub kind: EntryKind,
    pub body: SourceBody,
    pub heat: Option<Arc<Heat>>,
    pub charge: Charge,
    pub examined: u64,
}

// A cursor has few sources and keeps them: a box would cost each of them an allocation.
#[allow(clippy::large_enum_variant)]
pub(crate) enum SourceBody {
    Buffer(BufferSource),
    Run(RunSource),
}

impl Source {
    pub fn new(body: SourceBody, heat: Option<Arc<Heat>>, charge: Charge, key: Vec<u8>) -> Source {
        Source {
            valid: false,
            head: 0,
            key,
            seq: 0,
            kind: EntryKind::Put,
            body,
            heat,
            charge,
            examined: 0,
        }
    }

    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.body {
            SourceBody::Buffer(b) => b.batch.entry(b.at).value,
            SourceBody::Run(r) => r.value(),
        }
    }

    /// Goes to the first key that is not before `from` in the direction: forward `key >= from`,
    /// backward `key < from` (`None`: the very end).
    pub fn seek(&mut self, walk: &mut Walk, from: Option<&[u8]>) -> Result<()> {
        let before = walk.examined;
        self.valid = match &mut self.body {
            SourceBody::Buffer(b) => b.seek(walk, from)?,
            SourceBody::Run(r) => r.seek(walk, from, &mut self.key)?,
        };
        self.examined += walk.examined - before;
        self.load();
        Ok(())
    }

    /// Goes to the next key in the direction.
    pub fn advance(&mut self, walk: &mut Walk) -> Result<()> {
        let before = walk.examined;
        self.valid = match &mut self.body {
            SourceBody::Buffer(b) => b.advance(walk)?,
            SourceBody::Run(r) => r.advance(walk, &mut self.key)?,
        };
        self.examined += walk.examined - before;
        self.load();
        Ok(())
    }

    fn load(&mut self) {
        if !self.valid {
            return;
        }
        match &self.body {
            SourceBody::Buffer(b) => {
                let entry = b.batch.entry(b.at);
                (self.seq, self.kind) = (entry.seq, entry.kind);
                self.key.clear();
                self.key.extend_from_slice(entry.key);
            }
            SourceBody::Run(r) => (self.seq, self.kind) = (r.seq, r.kind),
        }
        self.head = key_head(&self.key);
    }

    /// Orders the current keys of two valid sources.
    #[inline]
    pub fn compare(&self, other: &Source) -> Ordering {
        self.head.cmp(&other.head).then_with(|| self.key.cmp(&other.key))
    }
}
