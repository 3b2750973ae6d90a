//! Builds one run from entries in order.
//!
//! A page is closed when its entries reach the format's page size; an entry larger than that shares
//! its page only with the entries before it if the page is still below the size, so a page never
//! holds two oversized entries. Pages of entries that hardly compress are smaller (`page_size.rs`). The tail follows the last
//! page; the whole is padded to 4096 bytes.

use frond_base::{checksum64_seeded, EntryKind, EntryRef, Result, Seq};
use frond_vfs::AlignedBuf;

use crate::encode::{PageEncoder, Pending};
use crate::filter;
use crate::format::{Compression, RunFormat, RunIdentity, MAX_KEY, MAX_PAGE_BYTES, MAX_VALUE};
use crate::index::{self, FenceWriter, RunIndex, TAIL};
use crate::meta::{RunMeta, TailExtent};
use crate::page_size::{Closed, PageSize};

/// A finished run.
pub struct BuiltRun {
    /// What to write: whole units of [`frond_vfs::DIRECT_ALIGN`], as the extents that hold runs are.
    pub bytes: AlignedBuf,
    pub meta: RunMeta,
}

impl BuiltRun {
    /// Its fences; `file` names the run's carrier in errors.
    pub fn index(&self, file: &str) -> Result<RunIndex> {
        let tail = &self.meta.index;
        RunIndex::parse(&self.bytes[tail.offset as usize..][..tail.len as usize], &self.meta, file)
    }
}

/// A run under construction.
pub struct RunBuilder {
    page_size: PageSize,
    compression: Compression,
    id: RunIdentity,
    pending: Pending,
    encoder: PageEncoder,
    bytes: AlignedBuf,
    fences: FenceWriter,
    /// Hashes of the keys so far, if a filter is wanted.
    hashes: Option<Vec<u64>>,
    entries: u64,
    tombstones: u64,
    logical: u64,
    max_seq: Seq,
    min_key: Vec<u8>,
    /// Last key of the last closed page, and last sequence of all.
    closed_key: Vec<u8>,
    last_seq: Seq,
    scratch: Vec<u8>,
}

impl RunBuilder {
    pub fn new(format: &RunFormat, id: RunIdentity) -> RunBuilder {
        RunBuilder::with_buffer(format, id, AlignedBuf::new())
    }

    /// As [`RunBuilder::new`]; the run's bytes go into `bytes`, which is cleared: memory that an earlier run had costs no
    /// growth and no page faults.
    pub fn with_buffer(format: &RunFormat, id: RunIdentity, mut bytes: AlignedBuf) -> RunBuilder {
        bytes.clear();
        let page_bytes = format.page_bytes as usize;
        assert!((4096..=MAX_PAGE_BYTES).contains(&page_bytes), "page size {page_bytes}");
        RunBuilder {
            page_size: PageSize::new(page_bytes),
            compression: format.compression,
            id,
            pending: Pending::new(format.key_shape),
            encoder: PageEncoder::new(format.compression),
            bytes,
            fences: FenceWriter::default(),
            hashes: format.filter.then(Vec::new),
            entries: 0,
            tombstones: 0,
            logical: 0,
            max_seq: 0,
            min_key: Vec::new(),
            closed_key: Vec::new(),
            last_seq: 0,
            scratch: Vec::new(),
        }
    }

    /// Adds an entry. Entries come in source order: key ascending, sequence descending within a
    /// key.
    pub fn push(&mut self, e: EntryRef<'_>) {
        let EntryRef { key, seq, kind, value } = e;
        assert!((1..=MAX_KEY).contains(&key.len()), "key of {} bytes", key.len());
        assert!(value.len() <= MAX_VALUE, "value of {} bytes", value.len());
        if self.entries() > 0 {
            let mut last = std::mem::take(&mut self.scratch);
            self.last_key(&mut last);
            let in_order = &last[..] < key || (last == key && self.last_seq > seq);
            self.scratch = last;
            assert!(in_order, "entries are pushed in order (RN1)");
        }
        self.pending.push_key(key, seq, kind, value);
        self.pushed(seq, kind);
    }

    /// Adds an entry that is known to be in order, by its key of fixed shape: big-endian words, zero-padded.
    #[inline]
    pub fn push_words<const W: usize>(
        &mut self,
        words: &[u64; W],
        seq: Seq,
        kind: EntryKind,
        value: &[u8],
    ) {
        self.pending.push_words(words, seq, kind, value);
        self.pushed(seq, kind);
    }

    /// Adds an entry that is known to be in order.
    pub(crate) fn push_in_order(&mut self, e: EntryRef<'_>) {
        self.pending.push_key(e.key, e.seq, e.kind, e.value);
        self.pushed(e.seq, e.kind);
    }

    #[inline]
    fn pushed(&mut self, seq: Seq, kind: EntryKind) {
        self.last_seq = seq;
        if seq > self.max_seq {
            self.max_seq = seq;
        }
        self.tombstones += u64::from(kind == EntryKind::Delete);
        if self.pending.logical >= self.page_size.bytes() {
            self.close_page();
        }
    }

    /// Length of keys of the fixed shape; 0 when variable.
    pub(crate) fn fixed_key_bytes(&self) -> usize {
        self.pending.key_bytes()
    }

    /// True while nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    pub fn entries(&self) -> u64 {
        self.entries + self.pending.n as u64
    }

    /// Estimated bytes of the run as it is now: pages and fences, and half of what is pending.
    pub fn encoded_bytes(&self) -> u64 {
        (self.bytes.len() + self.fences.encoded_bytes() + self.pending.logical / 2) as u64
    }

    /// Key and value bytes pushed.
    pub fn logical_bytes(&self) -> u64 {
        self.logical + self.pending.logical as u64
    }

    /// Number of pages closed so far: changes when sizes are worth looking at.
    #[inline]
    pub(crate) fn closed_pages(&self) -> u32 {
        self.fences.pages
    }

    /// Replaces `out` by the last key pushed; requires that there is one.
    pub fn last_key(&self, out: &mut Vec<u8>) {
        match self.pending.n {
            0 => {
                out.clear();
                out.extend_from_slice(&self.closed_key);
            }
            n => self.pending.key_into(n - 1, out),
        }
    }

    fn close_page(&mut self) {
        let n = self.pending.n;
        self.pending.key_into(0, &mut self.scratch);
        let continued = self.fences.pages > 0 && self.scratch == self.closed_key;
        if self.fences.pages == 0 {
            self.min_key.clone_from(&self.scratch);
        }
        let start = self.bytes.len();
        let seed = self.id.seed(self.fences.pages);
        let is_tried = self.encoder.encode(&self.pending, self.compression, seed, &mut self.bytes);
        let fence = match self.fences.pages > 0 && !continued {
            true => index::fence_between(&self.closed_key, &self.scratch),
            false => &self.scratch[..],
        };
        let stored = self.bytes.len() - start;
        self.fences.add(fence, stored, continued);
        let (logical, key) = (self.pending.logical, self.scratch.len());
        let page = Closed { logical, stored, is_tried, key };
        self.page_size.closed(&page, &mut self.encoder, self.compression);
        if let Some(hashes) = &mut self.hashes {
            for i in 0..n {
                self.pending.key_into(i, &mut self.scratch);
                hashes.push(filter::hash(&self.scratch));
            }
            hashes.dedup();
        }
        self.pending.key_into(n - 1, &mut self.closed_key);
        self.entries += n as u64;
        self.logical += self.pending.logical as u64;
        self.pending.clear();
    }

    /// Closes the run, which is not empty.
    pub fn finish(mut self) -> BuiltRun {
        assert!(!self.is_empty(), "a run has at least one entry");
        if self.pending.n > 0 {
            self.close_page();
        }
        let offset = self.bytes.len();
        let mut tail = self.scratch;
        tail.clear();
        self.fences.finish(self.hashes.as_deref(), &mut tail);
        let index = TailExtent {
            offset: offset as u64,
            len: tail.len() as u32,
            checksum: checksum64_seeded(&tail, self.id.seed(TAIL)),
        };
        self.bytes.extend_from_slice(&tail);
        self.bytes.pad_to_align();
        let meta = RunMeta {
            id: self.id,
            shape: self.pending.shape(),
            bytes: self.bytes.len() as u64,
            pages: self.fences.pages,
            entries: self.entries,
            tombstones: self.tombstones,
            logical_bytes: self.logical,
            min_key: self.min_key.into(),
            max_key: self.closed_key.into(),
            max_seq: self.max_seq,
            index,
            has_filter: self.hashes.is_some(),
            one_seq: false,
        };
        BuiltRun { bytes: self.bytes, meta }
    }
}
