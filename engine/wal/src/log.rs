//! The open log: append, settle, trim. Who writes and syncs is in `group.rs`.
//!
//! Four locks. A thread that takes more than one takes them in this order: `io` (only the leader of a round of writing
//! takes it), `synced` (held for a sync), `group` (the leaders and the waiting threads), `tail` (the buffer; held
//! for the time of a copy). Trim has a lock of its own, so that commits do not wait for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Lsn, Result};
use frond_vfs::{Vfs, VfsFile};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::coordinated::Coordinated;
use crate::format::{
    frame_bytes, payload_hash, segment_seed, FrameHeader, FIRST, FRAME_HEADER, HEADER_BYTES, LAST,
    MARKER, MAX_CHUNK, MAX_PAYLOAD,
};
use crate::log_space::{Claim, LogSpace};
use crate::record::{Prepared, PACK_FLOOR};
use crate::round::{Group, Io, Part, Synced};
use crate::segment::{Segment, Spares};
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
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) database: u64,
    pub(crate) segment_bytes: u64,
    buffer_bytes: usize,
    chunk_bytes: usize,

    pub(crate) tail: Mutex<Tail>,
    /// Signalled when an append of several frames is done (`Tail` says whether one is under way).
    pub(crate) turn: Condvar,
    pub(crate) group: Mutex<Group>,
    pub(crate) coordinated: Coordinated,
    pub(crate) io: Mutex<Io>,
    pub(crate) synced: Mutex<Synced>,
    pub(crate) segments: Mutex<VecDeque<Segment>>,
    pub(crate) spares: Mutex<Spares>,
    pub(crate) room: LogSpace,
    trimming: Mutex<()>,

    /// Copies of what the locks protect, for readers that do not take them.
    pub(crate) end: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) durable: AtomicU64,
    pub(crate) poisoned: AtomicBool,
    /// The newest promise that was written.
    pub(crate) promised: AtomicU64,
    /// End of the newest record that is not a marker.
    records_end: AtomicU64,
    /// Where this opening of the log began.
    opened_at: Lsn,
}

/// The end of the log in memory.
pub(crate) struct Tail {
    pub buf: Vec<u8>,
    pub parts: Vec<Part>,
    pub end: Lsn,
    /// The segment in which `end` lies. Its file need not exist yet.
    segment: u32,
    segment_start: Lsn,
    seed: u64,
    /// A thread is in the middle of appending several frames and has released the lock.
    taken: bool,
    records: u64,
    buffer_waits: u64,
}

impl Wal {
    /// The log continues at the start of the last of `segments`, whose open file is `file`; `bare`: it
    /// has no disk space yet (RM3).
    pub(crate) fn start(
        vfs: Arc<dyn Vfs>,
        opts: WalOptions,
        segments: VecDeque<Segment>,
        spares: Mutex<Spares>,
        file: Arc<dyn VfsFile>,
        bare: bool,
    ) -> Wal {
        let Some(&current) = segments.back() else { unreachable!("a log has a segment") };
        let capacity = (opts.segment_bytes - HEADER_BYTES) as usize;
        // A frame must fit in an empty segment; two of them do, so that little is wasted at its end.
        let chunk_bytes = MAX_CHUNK.min((capacity / 2 - FRAME_HEADER) & !7);
        let room = LogSpace::new(
            opts.segment_bytes,
            chunk_bytes,
            current,
            bare.then(|| Arc::clone(&file)),
        );
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
        let synced = Synced { file: file.clone(), segment: current.number, failed: false };
        let io = Io::new(file, current.number, buffer_bytes);
        Wal {
            vfs,
            database: opts.database,
            segment_bytes: opts.segment_bytes,
            buffer_bytes,
            chunk_bytes,
            tail: Mutex::new(tail),
            turn: Condvar::new(),
            group: Mutex::new(Group::new()),
            coordinated: Coordinated::default(),
            io: Mutex::new(io),
            synced: Mutex::new(synced),
            segments: Mutex::new(segments),
            spares,
            room,
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
    #[inline]
    pub fn end(&self) -> Lsn {
        self.end.load(Ordering::Acquire)
    }

    /// End of the newest record, or where the log began at open when there is none since.
    pub fn records_end(&self) -> Lsn {
        self.records_end.load(Ordering::Acquire)
    }

    /// Everything below is in the hands of the operating system: it outlives the process.
    pub fn written(&self) -> Lsn {
        self.written.load(Ordering::Acquire)
    }

    /// Everything below is durable.
    #[inline]
    pub fn durable(&self) -> Lsn {
        self.durable.load(Ordering::Acquire)
    }

    /// LSN of the first byte kept.
    #[inline]
    pub fn kept_from(&self) -> Lsn {
        self.segments.lock().front().map_or(0, |s| s.start)
    }

    /// Number and start of each segment file, ascending.
    pub fn segments(&self) -> Vec<(u32, Lsn)> {
        self.segments.lock().iter().map(|s| (s.number, s.start)).collect()
    }

    /// Appends a record of a kind from 1 to 255 to the buffer. No I/O, unless the buffer is full:
    /// then this thread writes it out, or waits for the one that is writing. Durable after
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
        self.append_frames(kind, 1, self.buffer_bytes, |_| (FIRST | LAST, payload, hash))
    }

    /// As [`Wal::append`] for a small record, but a full buffer grows instead of being written
    /// (W5). For the end of a prepared transaction. Its prepare record was larger and was appended
    /// in the ordinary way, which bounds the growth. Waits only for another thread's append of
    /// several frames.
    pub fn append_unwaited(&self, kind: u8, payload: &[u8]) -> Result<Appended> {
        assert_ne!(kind, MARKER, "kind 0 is the log's own");
        if payload.len() > PACK_FLOOR.min(self.chunk_bytes) {
            return self.append(kind, payload);
        }
        let hash = payload_hash(payload, self.database);
        self.append_frames(kind, 1, usize::MAX, |_| (FIRST | LAST, payload, hash))
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
        self.append_frames(record.kind, record.chunks.len(), self.buffer_bytes, |i| {
            let chunk = &record.chunks[i];
            (chunk.flags, record.stored(chunk), chunk.hash)
        })
    }

    #[inline]
    fn append_frames<'a>(
        &self,
        kind: u8,
        frames: usize,
        buffer_bytes: usize,
        frame: impl Fn(usize) -> (u8, &'a [u8], u64),
    ) -> Result<Appended> {
        let mut tail = self.tail.lock();
        while tail.taken {
            self.turn.wait(&mut tail);
        }
        // After the turn: if that failed, the buffer ends with a part of a record, which nothing may follow. A leader may
        // still write it.
        if self.poisoned.load(Ordering::Acquire) {
            drop(tail);
            return Err(self.poisoned());
        }
        let mut start = None;
        for i in 0..frames {
            let (flags, stored, hash) = frame(i);
            if tail.buf.len() + frame_bytes(stored.len()) > buffer_bytes {
                tail = self.make_room(tail)?;
            }
            let lsn = self.push(&mut tail, kind, flags, stored, hash);
            assert!(tail.buf.len() <= buffer_bytes, "W5: the buffer outgrows its limit");
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

    /// Copies a frame into the buffer. Returns its LSN.
    #[inline]
    fn push(&self, tail: &mut Tail, kind: u8, flags: u8, stored: &[u8], payload_hash: u64) -> Lsn {
        let size = frame_bytes(stored.len()) as u64;
        let lsn = tail.end;
        if HEADER_BYTES + (lsn - tail.segment_start) + size > self.segment_bytes {
            self.enter_segment(tail);
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

    /// The next frame begins a segment.
    fn enter_segment(&self, tail: &mut Tail) {
        tail.segment += 1;
        tail.segment_start = tail.end;
        tail.seed = segment_seed(self.database, tail.segment);
        self.room.tail_moved(tail.segment, tail.end);
    }

    /// The next record begins a segment, even if there is room in the current one: then a trim can remove all that was
    /// appended before. Returns where that is. Does nothing when the current segment is empty.
    ///
    /// # Errors
    /// Of [`Wal::reserve`]: the rest of the current segment is given up, so the room that others have reserved in it
    /// has to be found elsewhere (RM1).
    pub fn begin_segment(&self) -> Result<Lsn> {
        let rest = self.segment_bytes - HEADER_BYTES;
        let _room = self.reserve(rest, Claim::Ordinary)?;
        let mut tail = self.tail.lock();
        while tail.taken {
            self.turn.wait(&mut tail);
        }
        if tail.end > tail.segment_start {
            self.enter_segment(&mut tail);
        }
        Ok(tail.end)
    }

    /// Has the buffer written out. Other appends wait meanwhile, so the frames of one record stay
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
        // No other append may begin between the end of the turn and taking the lock again.
        std::mem::forget(turn);
        let mut tail = self.tail.lock();
        tail.taken = false;
        self.turn.notify_all();
        Ok(tail)
    }

    /// Makes everything durable and writes a marker that promises the last record, so that recovery
    /// can tell later damage to it from a torn end. Does nothing when the newest promise covers all
    /// records. Called on close and when the log is idle.
    pub fn settle(&self) -> Result<()> {
        let records_end = self.records_end.load(Ordering::Acquire);
        self.sync_to(records_end)?;
        if self.promised.load(Ordering::Acquire) >= records_end {
            return Ok(());
        }
        let _room = match self.reserve(0, Claim::Freeing) {
            Ok(room) => room,
            // The records are durable. Without the promise, damage to the last one looks like a torn end.
            Err(e) if e.kind().is_shortage() => return Ok(()),
            Err(e) => {
                self.latch(e.duplicate());
                return Err(e);
            }
        };
        let hash = payload_hash(&[], self.database);
        let marker =
            self.append_frames(MARKER, 1, self.buffer_bytes, |_| (FIRST | LAST, &[], hash))?;
        self.sync_to(marker.end)
    }

    /// Bytes of log that [`Wal::trim`] would remove.
    pub fn trimmable(&self, upto: Lsn) -> u64 {
        let upto = upto.min(self.durable());
        let segments = self.segments.lock();
        let kept =
            segments.iter().skip(1).map(|s| s.start).take_while(|start| *start <= upto).last();
        kept.zip(segments.front()).map_or(0, |(kept, front)| kept - front.start)
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
            let gone = self.segments.lock().pop_front();
            assert!(gone.is_some_and(|s| s.number == oldest), "G3: segments go oldest first");
        }
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
