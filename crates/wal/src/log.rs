//! The open log: append, group commit, trim.
//!
//! Three locks, taken in this order where more than one is held: `io` (held by the leader
//! throughout its round, never waited for by anyone else), `group` (who leads, who waits), `tail`
//! (the buffer; held for the time of a copy). Trim has its own, so that commits do not wait for it.
//!
//! No wake-up is lost: `written`, `durable` and the failure change before the leader steps down
//! under `group`, and a follower looks at them under `group` before it waits.
//!
//! Rejected: a writer thread of its own. It costs two context switches per commit, and the
//! simulator would have to schedule it; a leader among the callers costs none when there is one
//! caller.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Lsn, Result};
use frond_vfs::{Vfs, VfsFile};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::format::{
    frame_bytes, payload_hash, renew_promise, segment_seed, FrameHeader, SegmentHeader, FIRST,
    FRAME_HEADER, HEADER_BYTES, LAST, MARKER, MAX_CHUNK, MAX_PAYLOAD,
};
use crate::record::{Prepared, PACK_FLOOR};
use crate::segment::{log_name, Segment, Spares};
use crate::status::WalStatus;
use crate::WalOptions;

/// Where a record went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    pub start: Lsn,
    /// What to pass to `write_to` and `sync_to`.
    pub end: Lsn,
}

/// The open log. All methods take `&self` and may be called from any thread.
pub struct Wal {
    vfs: Arc<dyn Vfs>,
    database: u64,
    segment_bytes: u64,
    buffer_bytes: usize,
    chunk_bytes: usize,

    tail: Mutex<Tail>,
    /// A long append gave up its turn.
    turn: Condvar,
    group: Mutex<Group>,
    /// A leader stepped down, or the log was poisoned.
    done: Condvar,
    io: Mutex<Io>,
    segments: Mutex<VecDeque<Segment>>,
    spares: Mutex<Spares>,
    trimming: Mutex<()>,

    /// Copies of what the locks protect, for readers without them.
    end: AtomicU64,
    written: AtomicU64,
    durable: AtomicU64,
    poisoned: AtomicBool,
    /// The newest promise that was written.
    promised: AtomicU64,
    /// End of the newest record that is not a marker.
    records_end: AtomicU64,
    /// Where this opening of the log began.
    opened_at: Lsn,
}

/// The end of the log in memory.
struct Tail {
    buf: Vec<u8>,
    parts: Vec<Part>,
    end: Lsn,
    /// The segment in which `end` lies. Its file need not exist yet.
    segment: u32,
    segment_start: Lsn,
    seed: u64,
    /// An append of several frames is between two of them, without the lock.
    taken: bool,
    records: u64,
    buffer_waits: u64,
}

/// Buffered bytes that belong to one segment: from `from` to the next part.
#[derive(Clone, Copy)]
struct Part {
    segment: u32,
    segment_start: Lsn,
    lsn: Lsn,
    from: usize,
    seed: u64,
}

/// Who writes and who waits.
struct Group {
    leading: bool,
    /// LSNs for which callers of `sync_to` wait.
    waiting: Vec<Lsn>,
    failure: Option<Error>,
    counts: WalStatus,
}

/// What only the leader touches.
struct Io {
    file: Arc<dyn VfsFile>,
    segment: u32,
    buf: Vec<u8>,
    parts: Vec<Part>,
    /// Counted here during a round, moved to the group at its end.
    counts: WalStatus,
}

impl Wal {
    /// The log continues at the start of the last of `segments`, whose open file is `file`.
    pub(crate) fn start(
        vfs: Arc<dyn Vfs>,
        opts: WalOptions,
        segments: VecDeque<Segment>,
        spares: Mutex<Spares>,
        file: Arc<dyn VfsFile>,
    ) -> Wal {
        let Some(&current) = segments.back() else { unreachable!("a log has a segment") };
        let capacity = (opts.segment_bytes - HEADER_BYTES) as usize;
        // A chunk must fit in an empty segment; half of it keeps the waste at its end small.
        let chunk_bytes = MAX_CHUNK.min((capacity / 2) & !7);
        let buffer_bytes = opts.buffer_bytes.max(frame_bytes(MAX_CHUNK));
        let tail = Tail {
            buf: Vec::with_capacity(buffer_bytes),
            parts: Vec::new(),
            end: current.start,
            segment: current.number,
            segment_start: current.start,
            seed: segment_seed(opts.database, current.number),
            taken: false,
            records: 0,
            buffer_waits: 0,
        };
        let group = Group {
            leading: false,
            waiting: Vec::new(),
            failure: None,
            counts: WalStatus::default(),
        };
        let io = Io {
            file,
            segment: current.number,
            buf: Vec::with_capacity(buffer_bytes),
            parts: Vec::new(),
            counts: WalStatus::default(),
        };
        Wal {
            vfs,
            database: opts.database,
            segment_bytes: opts.segment_bytes,
            buffer_bytes,
            chunk_bytes,
            tail: Mutex::new(tail),
            turn: Condvar::new(),
            group: Mutex::new(group),
            done: Condvar::new(),
            io: Mutex::new(io),
            segments: Mutex::new(segments),
            spares,
            trimming: Mutex::new(()),
            end: AtomicU64::new(current.start),
            written: AtomicU64::new(current.start),
            durable: AtomicU64::new(current.start),
            poisoned: AtomicBool::new(false),
            promised: AtomicU64::new(current.start),
            records_end: AtomicU64::new(current.start),
            opened_at: current.start,
        }
    }

    /// End of the log in memory: every record appended so far ends at or before it.
    pub fn end(&self) -> Lsn {
        self.end.load(Ordering::Acquire)
    }

    /// Everything below is in the hands of the operating system: it outlives the process.
    pub fn written(&self) -> Lsn {
        self.written.load(Ordering::Acquire)
    }

    /// Everything below is durable.
    pub fn durable(&self) -> Lsn {
        self.durable.load(Ordering::Acquire)
    }

    /// LSN of the first byte kept.
    pub fn kept_from(&self) -> Lsn {
        self.segments.lock().front().map_or(0, |s| s.start)
    }

    /// Appends a record of a kind from 1 to 255 to the buffer. No I/O, unless the buffer is full;
    /// then it is written out (by this thread or the one that is at it). Durable after
    /// `sync_to(end)`.
    ///
    /// For payloads over a KiB this packs and hashes first: use [`Wal::prepare`] to do that before
    /// taking a lock around the append.
    pub fn append(&self, kind: u8, payload: &[u8]) -> Result<Appended> {
        assert_ne!(kind, MARKER, "kind 0 is the log's own");
        if payload.len() > PACK_FLOOR.min(self.chunk_bytes) {
            return self.append_prepared(&self.prepare(kind, payload)?);
        }
        let hash = payload_hash(payload, self.database);
        self.append_frames(kind, 1, |_| (FIRST | LAST, payload, hash))
    }

    /// Does what needs no lock for a record: cuts it into chunks, packs and hashes them.
    pub fn prepare<'a>(&self, kind: u8, payload: &'a [u8]) -> Result<Prepared<'a>> {
        assert_ne!(kind, MARKER, "kind 0 is the log's own");
        if payload.len() > MAX_PAYLOAD {
            let what =
                format!("a log record of {} bytes; the limit is {MAX_PAYLOAD}", payload.len());
            return Err(Error::new(ErrorKind::TooBig, what));
        }
        Ok(Prepared::new(kind, payload, self.chunk_bytes, self.database))
    }

    /// Appends a record prepared by this log.
    pub fn append_prepared(&self, record: &Prepared<'_>) -> Result<Appended> {
        self.append_frames(record.kind, record.chunks.len(), |i| {
            let chunk = &record.chunks[i];
            (chunk.flags, record.stored(chunk), chunk.hash)
        })
    }

    #[inline]
    fn append_frames<'a>(
        &self,
        kind: u8,
        frames: usize,
        frame: impl Fn(usize) -> (u8, &'a [u8], u64),
    ) -> Result<Appended> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(self.poisoned());
        }
        let mut tail = self.tail.lock();
        while tail.taken {
            self.turn.wait(&mut tail);
        }
        let mut start = None;
        for i in 0..frames {
            let (flags, stored, hash) = frame(i);
            if tail.buf.len() + frame_bytes(stored.len()) > self.buffer_bytes {
                tail = self.make_room(tail)?;
            }
            let lsn = self.push(&mut tail, kind, flags, stored, hash);
            start.get_or_insert(lsn);
        }
        tail.records += 1;
        let end = tail.end;
        if kind != MARKER {
            self.records_end.store(end, Ordering::Release);
        }
        self.end.store(end, Ordering::Release);
        Ok(Appended { start: start.unwrap_or(end), end })
    }

    /// Copies a frame into the buffer, which has room for it. Returns its LSN.
    #[inline]
    fn push(&self, tail: &mut Tail, kind: u8, flags: u8, stored: &[u8], payload_hash: u64) -> Lsn {
        let size = frame_bytes(stored.len()) as u64;
        let lsn = tail.end;
        if HEADER_BYTES + (lsn - tail.segment_start) + size > self.segment_bytes {
            tail.segment += 1;
            tail.segment_start = lsn;
            tail.seed = segment_seed(self.database, tail.segment);
        }
        if tail.parts.last().is_none_or(|p| p.segment != tail.segment) {
            tail.parts.push(Part {
                segment: tail.segment,
                segment_start: tail.segment_start,
                lsn,
                from: tail.buf.len(),
                seed: tail.seed,
            });
        }
        let stored_len = stored.len() as u32;
        let promised = Some(self.durable.load(Ordering::Relaxed));
        let header = FrameHeader { stored: stored_len, kind, flags, promised, payload_hash };
        tail.buf.extend_from_slice(&header.encode(tail.seed, lsn));
        tail.buf.extend_from_slice(stored);
        let padding = size as usize - FRAME_HEADER - stored.len();
        tail.buf.extend_from_slice(&[0; 8][..padding]);
        tail.end = lsn + size;
        lsn
    }

    /// Has the buffer written out while other appends wait, so that frames of one record stay
    /// together.
    #[cold]
    fn make_room<'a>(&'a self, mut tail: MutexGuard<'a, Tail>) -> Result<MutexGuard<'a, Tail>> {
        /// Gives the turn back, also when writing fails or panics.
        struct Turn<'a>(&'a Wal);
        impl Drop for Turn<'_> {
            fn drop(&mut self) {
                self.0.tail.lock().taken = false;
                self.0.turn.notify_all();
            }
        }
        tail.taken = true;
        tail.buffer_waits += 1;
        let end = tail.end;
        drop(tail);
        let turn = Turn(self);
        self.drive(end, false)?;
        // Between giving the turn back and having the lock again nobody may slip in.
        std::mem::forget(turn);
        let mut tail = self.tail.lock();
        tail.taken = false;
        self.turn.notify_all();
        Ok(tail)
    }

    /// Returns when everything below `end` is in the hands of the operating system. `end` must come
    /// from an append of this log.
    pub fn write_to(&self, end: Lsn) -> Result<()> {
        self.drive(end, false)
    }

    /// Returns when everything below `end` is durable. What was durable before the log was poisoned
    /// stays acknowledged; anything else fails with `Poisoned` from then on (the caller whose round
    /// failed gets the failure itself).
    pub fn sync_to(&self, end: Lsn) -> Result<()> {
        self.drive(end, true)
    }

    fn reached(&self, end: Lsn, sync: bool) -> bool {
        end <= if sync { self.durable() } else { self.written() }
    }

    /// Waits for a leader, or leads, until `end` is reached (W3).
    fn drive(&self, end: Lsn, sync: bool) -> Result<()> {
        if self.reached(end, sync) {
            return Ok(());
        }
        let mut group = self.group.lock();
        let mut waits = false;
        loop {
            if self.reached(end, sync) {
                return Ok(());
            }
            if let Some(first) = &group.failure {
                return Err(poisoned_by(first));
            }
            if !group.leading {
                break;
            }
            if sync && !waits {
                group.waiting.push(end);
                waits = true;
            }
            self.done.wait(&mut group);
        }
        if waits {
            // Unserved, so still listed.
            if let Some(at) = group.waiting.iter().position(|&e| e == end) {
                group.waiting.swap_remove(at);
            }
        }
        group.leading = true;
        drop(group);

        let step_down = StepDown(self);
        let result = self.lead(sync);
        if let Err(e) = &result {
            self.latch(e.duplicate());
        }
        std::mem::forget(step_down);
        self.step_down();
        assert!(result.is_err() || self.reached(end, sync), "LSN {end} was never appended");
        result
    }

    /// One round: writes out what is buffered, and syncs when asked.
    fn lead(&self, sync: bool) -> Result<()> {
        let mut io = self.io.lock();
        let io = &mut *io;
        let end = {
            let mut tail = self.tail.lock();
            std::mem::swap(&mut tail.buf, &mut io.buf);
            std::mem::swap(&mut tail.parts, &mut io.parts);
            tail.end
        };
        if !io.parts.is_empty() {
            self.write_parts(io)?;
            io.buf.clear();
            io.parts.clear();
            self.written.store(end, Ordering::Release);
        }
        if sync && self.durable() < end {
            self.sync_file(io, end)?;
        }
        Ok(())
    }

    fn write_parts(&self, io: &mut Io) -> Result<()> {
        io.counts.writes += 1;
        for i in 0..io.parts.len() {
            let part = io.parts[i];
            if part.segment != io.segment {
                self.rotate(io, &part)?;
            }
            let to = io.parts.get(i + 1).map_or(io.buf.len(), |next| next.from);
            let promised = self.durable();
            let bytes = &mut io.buf[part.from..to];
            if let Some(first) = bytes.first_chunk_mut::<FRAME_HEADER>() {
                // The frame carries what was durable when it was appended: more may be by now.
                renew_promise(first, part.seed, part.lsn, promised);
            }
            let offset = HEADER_BYTES + (part.lsn - part.segment_start);
            io.file
                .write_all_at(bytes, offset)
                .map_err(|e| Error::io("write to", &log_name(part.segment), e))?;
            io.counts.bytes_written += bytes.len() as u64;
            self.promised.store(promised, Ordering::Release);
            self.written.store(part.lsn + bytes.len() as u64, Ordering::Release);
        }
        Ok(())
    }

    /// Finishes the current segment and begins the one that starts with `part`. Its header promises
    /// all that lies before, so that must be durable first.
    fn rotate(&self, io: &mut Io, part: &Part) -> Result<()> {
        if self.durable() < part.segment_start {
            self.sync_file(io, part.segment_start)?;
        }
        let header = SegmentHeader {
            database: self.database,
            number: part.segment,
            start: part.segment_start,
            restart: false,
        };
        io.file = self.spares.lock().begin(&*self.vfs, &header)?;
        io.segment = part.segment;
        io.counts.rotations += 1;
        self.segments.lock().push_back(Segment { number: header.number, start: header.start });
        Ok(())
    }

    /// Syncs the current segment: everything below `end` was written and is durable on return.
    fn sync_file(&self, io: &mut Io, end: Lsn) -> Result<()> {
        let began = self.vfs.now();
        io.file.sync().map_err(|e| Error::io("sync", &log_name(io.segment), e))?;
        let took = self.vfs.now().saturating_sub(began);
        io.counts.syncs += 1;
        io.counts.sync_time += took;
        io.counts.longest_sync = io.counts.longest_sync.max(took);
        self.durable.store(end, Ordering::Release);
        Ok(())
    }

    /// Ends a round: counts the served, and wakes everybody.
    fn step_down(&self) {
        let round = std::mem::take(&mut self.io.lock().counts);
        let durable = self.durable();
        let mut group = self.group.lock();
        let counts = &mut group.counts;
        counts.writes += round.writes;
        counts.bytes_written += round.bytes_written;
        counts.syncs += round.syncs;
        counts.sync_time += round.sync_time;
        counts.longest_sync = counts.longest_sync.max(round.longest_sync);
        counts.rotations += round.rotations;
        if round.syncs > 0 {
            let waiting = group.waiting.len();
            group.waiting.retain(|&e| e > durable);
            let served = waiting - group.waiting.len();
            group.counts.count_group(served + 1);
        }
        group.leading = false;
        self.done.notify_all();
    }

    /// Keeps the first failure (W4).
    fn latch(&self, failure: Error) {
        let mut group = self.group.lock();
        group.failure.get_or_insert(failure);
        self.poisoned.store(true, Ordering::Release);
        self.done.notify_all();
    }

    /// Poisons the log for a failure elsewhere (a table file's write): nothing more is
    /// acknowledged.
    pub fn poison(&self, failure: &Error) {
        self.latch(failure.duplicate());
    }

    /// The failure that poisoned the log.
    pub fn failure(&self) -> Option<Error> {
        self.group.lock().failure.as_ref().map(Error::duplicate)
    }

    fn poisoned(&self) -> Error {
        match &self.group.lock().failure {
            Some(first) => poisoned_by(first),
            None => Error::new(ErrorKind::Poisoned, "the log is poisoned; restart the server"),
        }
    }

    /// Makes everything durable, and has the log say so: writes a marker that promises the last
    /// record, so that later damage to it is told from a torn end. For closing, and for quiet
    /// moments (nothing happens when the newest promise covers all records).
    pub fn settle(&self) -> Result<()> {
        let records_end = self.records_end.load(Ordering::Acquire);
        self.sync_to(records_end)?;
        if self.promised.load(Ordering::Acquire) >= records_end {
            return Ok(());
        }
        let hash = payload_hash(&[], self.database);
        let marker = self.append_frames(MARKER, 1, |_| (FIRST | LAST, &[], hash))?;
        self.sync_to(marker.end)
    }

    /// Whether [`Wal::trim`] would remove anything.
    pub fn can_trim(&self, upto: Lsn) -> bool {
        let upto = upto.min(self.durable());
        self.segments.lock().get(1).is_some_and(|next| next.start <= upto)
    }

    /// Removes the oldest segments that hold nothing at or behind `upto` (nor anything not yet
    /// durable). The current segment always stays.
    pub fn trim(&self, upto: Lsn) -> Result<()> {
        let _one_at_a_time = self.trimming.lock();
        let upto = upto.min(self.durable());
        loop {
            if self.poisoned.load(Ordering::Acquire) {
                return Err(self.poisoned());
            }
            let oldest = {
                let segments = self.segments.lock();
                match (segments.front(), segments.get(1)) {
                    (Some(oldest), Some(next)) if next.start <= upto => oldest.number,
                    _ => return Ok(()),
                }
            };
            if let Err(e) = Spares::retire(&self.spares, &*self.vfs, oldest) {
                self.latch(e.duplicate());
                return Err(e);
            }
            self.segments.lock().pop_front();
        }
    }

    /// Allocates the next segment's file ahead of need. For a background thread.
    pub fn prepare_segment(&self) -> Result<()> {
        self.prepare_segments(1)
    }

    fn prepare_segments(&self, wanted: usize) -> Result<()> {
        let next = self.segments.lock().back().map_or(0, |s| s.number) + 1;
        self.spares.lock().prepare(&*self.vfs, next, wanted)
    }

    /// Makes sure that records of `bytes` in all can be appended and written without allocating disk
    /// space: called before an append, so that a full disk refuses a transaction ([`ErrorKind::NoSpace`],
    /// nothing appended, nothing poisoned) instead of failing a write that was promised.
    ///
    /// [`ErrorKind::NoSpace`]: frond_base::ErrorKind::NoSpace
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        // What is buffered may need segments already; frames and packing add less than a sixteenth.
        let buffered = self.end().saturating_sub(self.written());
        let segments = (bytes + bytes / 16 + buffered) / self.segment_bytes + 1;
        let wanted = usize::try_from(segments).unwrap_or(usize::MAX);
        if self.spares.lock().count() >= wanted {
            return Ok(());
        }
        self.prepare_segments(wanted)
    }

    /// Counters since open.
    pub fn status(&self) -> WalStatus {
        let counts = self.group.lock().counts;
        let (kept_from, segments) = {
            let segments = self.segments.lock();
            (segments.front().map_or(0, |s| s.start), segments.len())
        };
        let tail = self.tail.lock();
        WalStatus {
            end: tail.end,
            written: self.written(),
            durable: self.durable(),
            kept_from,
            segments,
            records: tail.records,
            bytes_appended: tail.end - self.opened_at,
            buffer_waits: tail.buffer_waits,
            ..counts
        }
    }
}

/// Ends the leadership of a round that panics: the log is poisoned, nobody waits forever.
struct StepDown<'a>(&'a Wal);

impl Drop for StepDown<'_> {
    fn drop(&mut self) {
        self.0.latch(Error::new(ErrorKind::Panic, "writing the log panicked; restart the server"));
        self.0.step_down();
    }
}

fn poisoned_by(first: &Error) -> Error {
    let what = format!("the log stopped after a failure; restart the server: {}", first.message());
    Error::new(ErrorKind::Poisoned, what)
}
