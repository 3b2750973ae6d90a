//! `WriteBuffer`: the ordered buffer that committing transactions fill and everybody reads.
//!
//! Writers bring sorted batches. Several entries for one chunk go straight into its leaves; entries
//! that come alone wait in the chunk's backlog, see `shelf`.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use arc_swap::ArcSwap;
use frond_base::{EntryKind, EntryRef, Seq, SEQ_MAX};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::batch::{copy_backward, copy_forward, Batch, Scan, Stop};
use crate::chunk::Chunk;
use crate::fence::Fence;
use crate::frozen::FrozenScan;
use crate::router::Router;
use crate::shelf::Shelf;

/// Entries and bytes of a key range; `bytes` counts keys, values and record headers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Weight {
    pub entries: u64,
    pub bytes: u64,
}

impl Weight {
    pub(crate) fn add(&mut self, (entries, bytes): (u64, u64)) {
        self.entries += entries;
        self.bytes += bytes;
    }
}

/// The router and the chunks it leads to; replaced as a whole.
pub(crate) struct Directory {
    pub router: Router,
    pub chunks: Vec<Arc<RwLock<Shelf>>>,
}

/// See the module. Readers and writers share it through an `Arc`.
pub struct WriteBuffer {
    directory: ArcSwap<Directory>,
    /// Serialises replacing the directory.
    publishing: Mutex<()>,
    /// The last list of sequences to keep. An old one is safe to go by: snapshots taken since are not
    /// older than its last element, below which alone versions are dropped.
    keep: Mutex<Vec<Seq>>,
    frozen: AtomicBool,
    /// No backlog is left in a frozen buffer.
    settled: AtomicBool,
    entries: AtomicU64,
    chunk_bytes: AtomicU64,
    router_bytes: AtomicU64,
    min_seq: AtomicU64,
    max_seq: AtomicU64,
}

/// Entries in a row for one chunk that are worth going to its leaves for.
const DIRECT: usize = 16;

/// Entries whose chunks are looked up ahead.
const AHEAD: usize = 16;

/// Entries that one writer puts into a chunk before it gives others a chance at the latch.
const RUN: usize = 256;

impl Default for WriteBuffer {
    fn default() -> Self {
        WriteBuffer::new()
    }
}

/// Changes of the totals while one thread works on some chunks.
#[derive(Default)]
struct Tally {
    entries: i64,
    bytes: i64,
}

impl Tally {
    fn minus(&mut self, c: &Shelf) {
        self.entries -= c.entries() as i64;
        self.bytes -= c.memory() as i64;
    }

    fn plus(&mut self, c: &Shelf) {
        self.entries += c.entries() as i64;
        self.bytes += c.memory() as i64;
    }
}

impl WriteBuffer {
    pub fn new() -> WriteBuffer {
        let shelf = Shelf::new(Chunk::new(Fence::leftmost(), None));
        let (bytes, router) = (shelf.memory() as u64, Router::new());
        WriteBuffer {
            router_bytes: AtomicU64::new(router.memory() as u64),
            directory: ArcSwap::from_pointee(Directory {
                router,
                chunks: vec![Arc::new(RwLock::new(shelf))],
            }),
            publishing: Mutex::new(()),
            keep: Mutex::new(Vec::new()),
            frozen: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            entries: AtomicU64::new(0),
            chunk_bytes: AtomicU64::new(bytes),
            min_seq: AtomicU64::new(SEQ_MAX),
            max_seq: AtomicU64::new(0),
        }
    }

    /// Adds entries that come in order (invariant 1; asserted in debug builds). Several threads may
    /// call this at once. An entry with the key and sequence of an existing one replaces it. Each
    /// entry becomes readable by itself: atomicity of a transaction is a matter of sequences.
    pub fn insert_batch<'a>(&self, entries: impl IntoIterator<Item = EntryRef<'a>>) {
        self.insert_batch_retaining(entries, &[]);
    }

    /// As [`WriteBuffer::insert_batch`], and drops versions of the same keys that nobody needs, so
    /// that a row changed often does not pile up. `keep` lists ascending the live snapshots and, last,
    /// the published sequence: every later snapshot is at least that. Empty keeps everything.
    pub fn insert_batch_retaining<'a>(
        &self,
        entries: impl IntoIterator<Item = EntryRef<'a>>,
        keep: &[Seq],
    ) {
        assert!(!self.is_frozen(), "insert into a frozen buffer");
        debug_assert!(keep.is_sorted());
        if !keep.is_empty() {
            let mut last = self.keep.lock();
            last.clear();
            last.extend_from_slice(keep);
        }
        let mut source = entries.into_iter();
        let mut pending: Vec<EntryRef<'a>> = Vec::with_capacity(RUN);
        let (mut low, mut high) = (SEQ_MAX, 0);
        loop {
            let seen = pending.len();
            pending.extend(source.by_ref().take(RUN - seen));
            for e in &pending[seen..] {
                (low, high) = (low.min(e.seq), high.max(e.seq));
            }
            if pending.is_empty() {
                break;
            }
            debug_assert!(pending
                .is_sorted_by(|a, b| crate::fence::order(a.key, a.seq, b.key, b.seq).is_lt()));
            let done = self.insert_some(&pending);
            pending.drain(..done);
        }
        self.min_seq.fetch_min(low, Relaxed);
        self.max_seq.fetch_max(high, Relaxed);
    }

    /// Inserts a beginning of `entries`; returns how many, 0 when the directory was replaced.
    fn insert_some(&self, entries: &[EntryRef<'_>]) -> usize {
        let directory = self.directory.load();
        let mut routes = [0usize; AHEAD];
        // `routes` is for the entries from `base`.
        let (mut base, mut routed, mut done) = (0, 0, 0);
        while let Some(e) = entries.get(done) {
            if done >= routed {
                base = done;
                routed = entries.len().min(base + AHEAD);
                let mut busy = false;
                for (e, no) in entries[base..routed].iter().zip(&mut routes) {
                    *no = directory.router.route(e.key, e.seq);
                    // Has the lines of all these latches fetched at once; the answer is of no use.
                    busy |= directory.chunks[*no].is_locked();
                }
                std::hint::black_box(busy);
            }
            let shelf = directory.chunks[routes[done - base]].write();
            let rest = &entries[done..];
            let direct = rest.get(DIRECT - 1).is_some_and(|e| shelf.chunk.reaches(e.key, e.seq));
            let step = match direct || !Shelf::takes(e) {
                true => self.insert_run(shelf, rest),
                false => self.push_run(shelf, rest),
            };
            done += step;
            if step == 0 {
                break;
            }
        }
        done
    }

    /// Puts the entries that belong to `shelf` into its leaves; returns how many.
    fn insert_run(
        &self,
        mut shelf: RwLockWriteGuard<'_, Shelf>,
        entries: &[EntryRef<'_>],
    ) -> usize {
        self.settle(&mut shelf);
        let n = entries.partition_point(|e| shelf.chunk.reaches(e.key, e.seq));
        let mut tally = Tally::default();
        tally.minus(&shelf);
        let rights = match n {
            0 => Vec::new(),
            _ => shelf.insert_all(&entries[..n], &self.keep_list()),
        };
        tally.plus(&shelf);
        self.publish(rights);
        drop(shelf);
        self.account(tally);
        n
    }

    /// Leaves the entries that belong to `shelf` in its backlog; returns how many.
    fn push_run(&self, mut shelf: RwLockWriteGuard<'_, Shelf>, entries: &[EntryRef<'_>]) -> usize {
        if shelf.is_due() {
            self.settle(&mut shelf);
        }
        let mut tally = Tally::default();
        tally.minus(&shelf);
        let mut n = 0;
        while let Some(e) = entries.get(n) {
            if shelf.is_due() || !Shelf::takes(e) || !shelf.chunk.reaches(e.key, e.seq) {
                break;
            }
            shelf.push(e);
            n += 1;
        }
        tally.plus(&shelf);
        drop(shelf);
        self.account(tally);
        n
    }

    /// Puts a shelf's backlog in order.
    fn settle(&self, shelf: &mut Shelf) {
        if shelf.is_settled() {
            return;
        }
        let mut tally = Tally::default();
        tally.minus(shelf);
        let rights = shelf.settle(&self.keep_list());
        tally.plus(shelf);
        self.publish(rights);
        self.account(tally);
    }

    fn keep_list(&self) -> Vec<Seq> {
        self.keep.lock().clone()
    }

    /// The latch of a shelf without a backlog.
    fn read_settled<'s>(&self, shelf: &'s RwLock<Shelf>) -> RwLockReadGuard<'s, Shelf> {
        let read = shelf.read();
        if read.is_settled() {
            return read;
        }
        drop(read);
        let mut write = shelf.write();
        self.settle(&mut write);
        RwLockWriteGuard::downgrade(write)
    }

    /// Makes chunks known that were split off one whose latch the caller holds (invariant 3).
    fn publish(&self, rights: Vec<Chunk>) {
        if rights.is_empty() {
            return;
        }
        let mut tally = Tally::default();
        let _publishing = self.publishing.lock();
        let old = self.directory.load();
        let mut router = old.router.clone();
        let mut chunks = old.chunks.clone();
        for right in rights {
            let fence = right.lo().clone();
            let shelf = Shelf::new(right);
            tally.plus(&shelf);
            let at = router.route(&fence.key, fence.seq) + 1;
            router.insert(at, Arc::new(fence));
            chunks.insert(at, Arc::new(RwLock::new(shelf)));
        }
        let memory = router.memory() + chunks.capacity() * 8;
        self.router_bytes.store(memory as u64, Relaxed);
        self.directory.store(Arc::new(Directory { router, chunks }));
        self.account(tally);
    }

    fn account(&self, t: Tally) {
        // Two's complement: adding a negative difference wraps to the right sum.
        self.entries.fetch_add(t.entries as u64, Relaxed);
        self.chunk_bytes.fetch_add(t.bytes as u64, Relaxed);
    }

    pub(crate) fn directory(&self) -> arc_swap::Guard<Arc<Directory>> {
        self.directory.load()
    }

    /// Calls `read` on chunks from the one that holds (`key`, `seq`) on to the right, for as long
    /// as it returns true.
    fn walk_right(&self, key: &[u8], seq: Seq, mut read: impl FnMut(&Chunk) -> bool) {
        let mut at: Option<Fence> = None;
        loop {
            let (key, seq) = at.as_ref().map_or((key, seq), |f| (&*f.key, f.seq));
            let directory = self.directory.load();
            let no = directory.router.route(key, seq);
            let shelf = self.read_settled(&directory.chunks[no]);
            let chunk = &shelf.chunk;
            if !chunk.reaches(key, seq) {
                continue; // split meanwhile (invariant 3)
            }
            if !read(chunk) {
                return;
            }
            match chunk.hi().cloned() {
                Some(hi) => at = Some(hi),
                None => return,
            }
        }
    }

    /// Calls `read` on chunks from the one that holds (`key`, `seq`), or the last, on to the left,
    /// for as long as it returns true.
    fn walk_left(&self, from: Option<(&[u8], Seq)>, mut read: impl FnMut(&Chunk) -> bool) {
        let mut below: Option<Fence> = None;
        loop {
            let directory = self.directory.load();
            let no = match (&below, from) {
                // The chunk that ends at the fence: one before the chunk that begins there.
                (Some(f), _) => match directory.router.route(&f.key, f.seq).checked_sub(1) {
                    Some(no) => no,
                    None => return,
                },
                (None, Some((key, seq))) => directory.router.route(key, seq),
                (None, None) => directory.chunks.len() - 1,
            };
            let shelf = self.read_settled(&directory.chunks[no]);
            let chunk = &shelf.chunk;
            let current = match (&below, from) {
                (Some(f), _) => chunk.hi() == Some(f),
                (None, Some((key, seq))) => chunk.reaches(key, seq),
                (None, None) => chunk.hi().is_none(),
            };
            if !current {
                continue; // split meanwhile (invariant 3)
            }
            if !read(chunk) {
                return;
            }
            below = Some(chunk.lo().clone());
        }
    }

    fn find<T>(&self, key: &[u8], at: Seq, found: impl FnOnce(EntryRef<'_>) -> T) -> Option<T> {
        let mut found = Some(found);
        let mut result = None;
        {
            let directory = self.directory.load();
            let shelf = directory.chunks[directory.router.route(key, at)].read();
            let chunk = &shelf.chunk;
            // Versions of a key divided between chunks (invariant 2) are left to the general way.
            let whole = chunk.reaches(key, at) && !chunk.ends_within(key);
            if shelf.is_short() && whole {
                let (new, old) = (shelf.find_waiting(key, at), chunk.get(key, at));
                let newest = match (new, old) {
                    (Some(n), Some(o)) if o.seq > n.seq => old,
                    (None, _) => old,
                    _ => new,
                };
                return newest.and_then(|e| found.take().map(|f| f(e)));
            }
        }
        self.walk_right(key, at, |chunk| match chunk.get(key, at) {
            Some(e) => {
                result = found.take().map(|f| f(e));
                false
            }
            None => chunk.ends_within(key),
        });
        result
    }

    /// The newest version of `key` at or before `at`; its value is appended to `out`.
    pub fn get(&self, key: &[u8], at: Seq, out: &mut Vec<u8>) -> Option<(Seq, EntryKind)> {
        self.find(key, at, |e| {
            out.extend_from_slice(e.value);
            (e.seq, e.kind)
        })
    }

    /// Sequence and kind of the newest version of `key`.
    pub fn newest(&self, key: &[u8]) -> Option<(Seq, EntryKind)> {
        self.find(key, SEQ_MAX, |e| (e.seq, e.kind))
    }

    /// Fills `batch` with the entries that `scan` asks for, in key order. Entries inserted meanwhile
    /// may or may not be among them.
    pub fn scan_forward(&self, scan: &Scan<'_>, batch: &mut Batch) {
        batch.clear();
        let (key, seq) = match scan.from {
            Bound::Unbounded => (&[][..], SEQ_MAX),
            Bound::Included(k) => (k, SEQ_MAX),
            Bound::Excluded(k) => (k, 0),
        };
        let mut exhausted = true;
        self.walk_right(key, seq, |chunk| {
            let stop = copy_forward(chunk, scan.from, scan, batch);
            exhausted = stop != Stop::Full;
            stop == Stop::Chunk
        });
        batch.finish(exhausted, false, scan.versions);
    }

    /// Fills `batch` with the entries that `scan` asks for, in reverse key order.
    pub fn scan_backward(&self, scan: &Scan<'_>, batch: &mut Batch) {
        batch.clear();
        let from = match scan.from {
            Bound::Unbounded => None,
            Bound::Included(k) => Some((k, 0)),
            Bound::Excluded(k) => Some((k, SEQ_MAX)),
        };
        let mut exhausted = true;
        self.walk_left(from, |chunk| {
            let stop = copy_backward(chunk, scan.from, scan, batch);
            exhausted = stop != Stop::Full;
            stop == Stop::Chunk
        });
        batch.finish(exhausted, true, scan.versions);
    }

    /// No entry will be added any more. The caller sees to it that no writer is at work.
    pub fn freeze(&self) {
        self.frozen.store(true, std::sync::atomic::Ordering::Release);
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.load(std::sync::atomic::Ordering::Acquire)
    }

    /// The entries of a key range of a frozen buffer (asserted), all versions, without copying.
    pub fn iter_range(&self, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> FrozenScan {
        assert!(self.is_frozen(), "iteration over a buffer that still changes");
        self.settle_all();
        FrozenScan::new(self.directory.load_full(), lo, hi)
    }

    fn settle_all(&self) {
        if self.settled.load(std::sync::atomic::Ordering::Acquire) {
            return;
        }
        let directory = self.directory.load_full();
        for shelf in &directory.chunks {
            drop(self.read_settled(shelf));
        }
        // Chunks split off meanwhile have no backlog, and a frozen buffer gets none any more.
        let frozen = self.is_frozen();
        self.settled.store(frozen, std::sync::atomic::Ordering::Release);
    }

    /// Entries and bytes of a key range; bytes are estimated inside a leaf.
    pub fn weight(&self, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> Weight {
        let (key, seq) = match lo {
            Bound::Unbounded => (&[][..], SEQ_MAX),
            Bound::Included(k) => (k, SEQ_MAX),
            Bound::Excluded(k) => (k, 0),
        };
        let mut w = Weight::default();
        self.walk_right(key, seq, |chunk| {
            let (to, last) = chunk.upper(hi);
            w.add(chunk.weigh(chunk.lower(lo).0, to));
            !last && to == chunk.end()
        });
        w
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> u64 {
        self.chunk_bytes.load(Relaxed) + self.router_bytes.load(Relaxed)
    }

    /// Bytes of keys, values and record headers. Visits every leaf.
    pub fn payload_bytes(&self) -> u64 {
        self.directory().chunks.iter().map(|c| c.read().payload() as u64).sum()
    }

    pub fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The smallest sequence ever inserted.
    pub fn min_seq(&self) -> Option<Seq> {
        (!self.is_empty()).then(|| self.min_seq.load(Relaxed))
    }

    /// The largest sequence ever inserted.
    pub fn max_seq(&self) -> Option<Seq> {
        (!self.is_empty()).then(|| self.max_seq.load(Relaxed))
    }

    /// Asserts the structure of every chunk; for tests.
    #[doc(hidden)]
    pub fn check(&self) {
        self.settle_all();
        let directory = self.directory();
        let (mut entries, mut bytes) = (0, 0);
        let mut hi: Option<Fence> = Some(Fence::leftmost());
        for c in &directory.chunks {
            let c = c.read();
            assert_eq!(Some(c.chunk.lo()), hi.as_ref(), "chunks leave no gap");
            c.chunk.check();
            hi = c.chunk.hi().cloned();
            entries += c.entries() as u64;
            bytes += c.memory() as u64;
        }
        assert!(hi.is_none());
        assert_eq!(entries, self.entries());
        assert_eq!(bytes, self.chunk_bytes.load(Relaxed));
    }
}
