//! `WriteBuffer`: the ordered buffer that committing transactions fill and everybody reads.
//!
//! Writers bring sorted batches and append each entry to the backlog of its shelf, see `shelf`.

use std::ops::Bound;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use frond_base::{AllReaders, EntryRef, Readers, Seq, SEQ_MAX};
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};

use crate::fence::Fence;
use crate::router::Router;
use crate::write_buffer::descent::{widest, Joined, Joining};
use crate::write_buffer::directory::{Directory, Loaded};
use crate::write_buffer::ends::Ends;
use crate::write_buffer::frozen::FrozenScan;
use crate::write_buffer::record::{alone, is_large};
use crate::write_buffer::shelf::Shelf;
use crate::write_buffer::totals::{Tally, Totals};

/// See the module. Readers and writers share it through an `Arc`.
pub struct WriteBuffer {
    /// `None` as long as there is one shelf.
    directory: ArcSwapOption<Directory>,
    /// The leftmost shelf of every directory. Most trees of a large partitioned table have no other one, and a commit that changes all
    /// of them finds none of this in the processor's cache: so it does not look for the directory first.
    leftmost: Arc<RwLock<Shelf>>,
    /// There are other shelves. Set under the latch of the shelf that is divided.
    divided: AtomicBool,
    /// Serialises replacing the directory.
    publishing: Mutex<()>,
    /// Asked when a backlog goes down: versions that no reader needs are dropped then.
    readers: Arc<dyn Readers>,
    frozen: AtomicBool,
    /// No backlog is left in a frozen buffer.
    settled: AtomicBool,
    totals: Totals,
    router_bytes: AtomicU64,
    min_seq: AtomicU64,
    max_seq: AtomicU64,
    ends: Ends,
    /// Joins whose result was not used.
    #[cfg(test)]
    wasted: AtomicU64,
}

/// Entries, and bytes, that a writer adds to a shelf before it lets others take the latch.
const RUN: usize = 256;
const RUN_BYTES: usize = 256 << 10;

impl Default for WriteBuffer {
    fn default() -> Self {
        WriteBuffer::new()
    }
}

impl WriteBuffer {
    /// Bytes of a buffer that has never had an entry.
    pub const EMPTY_BYTES: usize =
        std::mem::size_of::<WriteBuffer>() + std::mem::size_of::<Shelf>();

    /// A buffer that keeps every version.
    pub fn new() -> WriteBuffer {
        WriteBuffer::read_by(Arc::new(AllReaders))
    }

    /// A buffer that drops versions which none of `readers` needs. So a row does not fill it by
    /// changing often. Every read must be at one of their snapshots or at `SEQ_MAX`.
    pub fn read_by(readers: Arc<dyn Readers>) -> WriteBuffer {
        WriteBuffer {
            totals: Totals::default(),
            router_bytes: AtomicU64::new(0),
            directory: ArcSwapOption::empty(),
            leftmost: Arc::new(RwLock::new(Shelf::new())),
            divided: AtomicBool::new(false),
            publishing: Mutex::new(()),
            readers,
            frozen: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            min_seq: AtomicU64::new(SEQ_MAX),
            max_seq: AtomicU64::new(0),
            ends: Ends::default(),
            #[cfg(test)]
            wasted: AtomicU64::new(0),
        }
    }

    /// Adds entries that come in order (BU1; asserted in debug builds). Several threads may
    /// call this at once. An entry with the key and sequence of an existing one replaces it. Each
    /// entry becomes readable by itself: sequences make a transaction atomic.
    pub fn insert_batch<'a>(&self, entries: impl IntoIterator<Item = EntryRef<'a>>) {
        assert!(!self.is_frozen(), "insert into a frozen buffer");
        let mut source = entries.into_iter();
        // Most transactions write one or two entries: memory for `RUN` of them is not taken in
        // advance.
        let mut pending: Vec<EntryRef<'a>> = Vec::with_capacity(4);
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
            if let (Some(first), Some(last)) = (pending.get(seen), pending.last()) {
                self.ends.note(first.key, last.key);
            }
            let done = self.insert_some(&pending);
            pending.drain(..done);
        }
        self.min_seq.fetch_min(low, Relaxed);
        self.max_seq.fetch_max(high, Relaxed);
    }

    /// Inserts the first entries of `entries`; returns how many: 0 when the directory was replaced.
    fn insert_some(&self, entries: &[EntryRef<'_>]) -> usize {
        let directory = self.directory();
        let directory = directory.get();
        let mut done = 0;
        let mut tally = Tally::default();
        while let Some(e) = entries.get(done) {
            // Copied without a latch: it may be megabytes.
            let large = is_large(e).then(|| alone(e));
            let (latch, next) = match directory {
                None => (&self.leftmost, None),
                Some(directory) => {
                    let no = directory.router.route(e.key, e.seq);
                    (&directory.shelves[no], directory.shelves.get(no + 1))
                }
            };
            let mut shelf = latch.write();
            let before = shelf.backlog();
            if let Some(next) = next {
                // Most batches go on with the next shelf: prefetch its cache line.
                std::hint::black_box(next.is_locked());
            }
            let most = shelf.log().bytes() + RUN_BYTES;
            if let Some(record) = large.filter(|_| shelf.span().reaches(e.key, e.seq)) {
                shelf.push_alone(e, record);
                done += 1;
            }
            while let Some(e) = entries.get(done).filter(|e| shelf.span().reaches(e.key, e.seq)) {
                if is_large(e) || shelf.log().bytes() > most {
                    break;
                }
                shelf.push(e);
                done += 1;
            }
            let after = shelf.backlog();
            if after.0 == before.0 {
                break;
            }
            tally.grew(before, after);
            if shelf.is_due() {
                // Joining may take long: count the entries before.
                self.totals.add(std::mem::take(&mut tally));
                self.send_down(latch, shelf);
            }
        }
        self.totals.add(tally);
        done
    }

    /// Starts the descent of a shelf's backlog and joins it with the base, or waits for the descent
    /// before it.
    fn send_down<'s>(&self, latch: &'s RwLock<Shelf>, mut shelf: RwLockWriteGuard<'s, Shelf>) {
        if !shelf.is_descending() {
            self.change(&mut shelf, Shelf::begin);
        } else if !shelf.is_overdue() {
            return;
        }
        drop(shelf);
        self.join(latch);
    }

    /// Joins a shelf's base with its descent, outside the latch. While another thread does that,
    /// the caller waits: its backlog is overdue, and the work must not be done twice.
    fn join(&self, latch: &RwLock<Shelf>) {
        let Some(joiner) = latch.read().joiner() else { return };
        let _alone = joiner.lock();
        let joining = latch.read().joining();
        if let Some(joining) = joining {
            let joined = joining.run(&self.readers.retention(), widest(self.entries()));
            self.land(latch, &joining, joined);
        }
    }

    /// Installs the joined base, unless the shelf was sorted otherwise meanwhile.
    fn land(&self, latch: &RwLock<Shelf>, joining: &Joining, joined: Joined) {
        let mut shelf = latch.write();
        if !shelf.awaits(joining) {
            #[cfg(test)]
            self.wasted.fetch_add(1, Relaxed);
            return;
        }
        // Both shelves are counted in one step: the part that is cut off is never missing from the
        // totals.
        let mut tally = Tally::default();
        tally.minus(&shelf);
        let right = shelf.land(joined);
        tally.plus(&shelf);
        right.iter().for_each(|right| tally.plus(right));
        self.totals.add(tally);
        if let Some(right) = right {
            self.publish(right);
        }
    }

    /// Merges all entries of a shelf that is read much into its base and, for scans, gathers
    /// records of neighbours.
    pub(crate) fn tidy(&self, latch: &RwLock<Shelf>) {
        let mut shelf = latch.write();
        if !shelf.is_to_be_tidied() {
            return;
        }
        let gathers = shelf.is_scanned_much();
        shelf.forget_reads();
        if !shelf.is_descending() {
            self.change(&mut shelf, Shelf::begin);
        }
        drop(shelf);
        self.join(latch);
        let base = latch.read().base().clone();
        if gathers && base.is_worth_gathering() {
            let gathered = base.gathered();
            self.change(&mut latch.write(), |shelf| shelf.replace(&base, gathered));
        }
    }

    /// Changes a shelf and updates the totals.
    pub(crate) fn change<T>(&self, shelf: &mut Shelf, change: impl FnOnce(&mut Shelf) -> T) -> T {
        let mut tally = Tally::default();
        tally.minus(shelf);
        let result = change(shelf);
        tally.plus(shelf);
        self.totals.add(tally);
        result
    }

    /// Publishes a shelf, already counted, that was cut off one whose latch the caller holds
    /// (BU3).
    fn publish(&self, right: Shelf) {
        let fence = right.span().lo().clone();
        let right = Arc::new(RwLock::new(right));
        let _publishing = self.publishing.lock();
        let old = self.whole_directory();
        let (mut router, mut shelves) = (old.router.clone(), old.shelves.clone());
        let at = router.route(&fence.key, fence.seq) + 1;
        router.insert(at, Arc::new(fence));
        shelves.insert(at, right);
        let memory = router.memory() + shelves.capacity() * 8;
        self.router_bytes.store(memory as u64, Relaxed);
        self.directory.store(Some(Arc::new(Directory { router, shelves })));
        self.divided.store(true, Release);
    }

    /// Whether there is more than the leftmost shelf. If that changes, it no longer reaches all keys.
    #[inline]
    pub(crate) fn is_divided(&self) -> bool {
        self.divided.load(Acquire)
    }

    #[inline]
    pub(crate) fn leftmost(&self) -> &Arc<RwLock<Shelf>> {
        &self.leftmost
    }

    /// Reads from the cache lines that an insert needs of the buffer itself.
    #[inline]
    pub(crate) fn fetch_own(&self) -> u64 {
        let sequences = self.min_seq.load(Relaxed) ^ self.max_seq.load(Relaxed);
        sequences ^ self.totals.entries() ^ self.router_bytes.load(Relaxed) ^ self.ends.fetch()
    }

    #[inline]
    pub(crate) fn directory(&self) -> Loaded {
        Loaded(self.is_divided().then(|| self.directory.load()))
    }

    /// The directory; of a buffer that is not divided, one for the caller.
    pub(crate) fn whole_directory(&self) -> Arc<Directory> {
        self.directory.load_full().unwrap_or_else(|| {
            let (router, shelves) = (Router::default(), vec![self.leftmost.clone()]);
            Arc::new(Directory { router, shelves })
        })
    }

    /// No entry is added after this. The caller makes sure that no writer is at work.
    pub fn freeze(&self) {
        self.frozen.store(true, Release);
    }

    #[inline]
    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Acquire)
    }

    /// Sorts a frozen buffer (asserted), which takes a few hundred milliseconds for millions of
    /// entries. Without this call the first iterator does it.
    pub fn settle(&self) {
        assert!(self.is_frozen(), "putting a buffer in order that still changes");
        self.settle_all();
    }

    /// The entries of a key range of a frozen buffer (asserted), all versions, without copying.
    pub fn iter_range(&self, lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> FrozenScan {
        assert!(self.is_frozen(), "iteration over a buffer that still changes");
        self.settle_all();
        FrozenScan::new(self.whole_directory(), lo, hi)
    }

    fn settle_all(&self) {
        if self.settled.load(Acquire) {
            return;
        }
        let keep = self.readers.retention();
        // A reader that began before the buffer was frozen may still divide a shelf.
        let mut at = Some(Fence::leftmost());
        while let Some(fence) = at {
            let directory = self.directory();
            let latch = match directory.get() {
                None => &self.leftmost,
                Some(d) => &d.shelves[d.router.route(&fence.key, fence.seq)],
            };
            let mut shelf = latch.write();
            if !shelf.span().reaches(&fence.key, fence.seq) {
                at = Some(fence);
                continue;
            }
            self.change(&mut shelf, |shelf| shelf.settle(&keep));
            at = shelf.span().hi().cloned();
        }
        let frozen = self.is_frozen();
        self.settled.store(frozen, Release);
    }

    /// Bytes allocated beyond [`WriteBuffer::EMPTY_BYTES`].
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.totals.bytes() + self.router_bytes.load(Relaxed)
    }

    /// Bytes of keys, values and record headers. Visits every shelf.
    pub fn payload_bytes(&self) -> u64 {
        self.whole_directory().shelves.iter().map(|c| c.read().payload() as u64).sum()
    }

    #[inline]
    pub fn entries(&self) -> u64 {
        self.totals.entries()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// Calls `read` with the first and the last key ever inserted, tombstones included, if there is any.
    #[inline]
    pub fn ends(&self, read: impl FnOnce(&[u8], &[u8])) {
        self.ends.read(read);
    }

    /// The smallest sequence ever inserted.
    pub fn min_seq(&self) -> Option<Seq> {
        (!self.is_empty()).then(|| self.min_seq.load(Relaxed))
    }

    /// The largest sequence ever inserted.
    pub fn max_seq(&self) -> Option<Seq> {
        (!self.is_empty()).then(|| self.max_seq.load(Relaxed))
    }

    /// Asserts the structure of every shelf; for tests.
    #[doc(hidden)]
    pub fn check(&self) {
        self.settle_all();
        let directory = self.whole_directory();
        assert!(Arc::ptr_eq(&directory.shelves[0], &self.leftmost), "another shelf is leftmost");
        assert_eq!(self.is_divided(), directory.shelves.len() > 1);
        let (mut entries, mut bytes) = (0, 0);
        let mut hi: Option<Fence> = Some(Fence::leftmost());
        for c in &directory.shelves {
            let c = c.read();
            assert_eq!(Some(c.span().lo()), hi.as_ref(), "shelves leave no gap");
            c.check();
            if let Some(last) = c.base().len().checked_sub(1) {
                let (first, last) = (c.base().entry(0), c.base().entry(last));
                let mut noted = false;
                self.ends(|a, b| noted = a <= first.key && last.key <= b);
                assert!(noted, "an entry is beyond the ends (EK1)");
            }
            hi = c.span().hi().cloned();
            entries += c.entries() as u64;
            bytes += c.memory() as u64;
        }
        assert!(hi.is_none());
        assert_eq!(entries, self.entries());
        assert_eq!(bytes - std::mem::size_of::<Shelf>() as u64, self.totals.bytes());
    }
}

#[cfg(test)]
mod tests;
