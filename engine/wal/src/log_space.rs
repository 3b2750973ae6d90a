//! Log space: disk space for records, reserved before they are appended (`reserve.rs`).
//!
//! When writing buffered frames fails, the log is poisoned. So a full disk has to refuse a record before it
//! is appended. A thread takes a [`Reservation`] before it appends and holds it until the record is in the
//! buffer; from then on the buffered frames are counted instead.
//!
//! - RM1. What is buffered and what is reserved fit in the current segment and the spares, and as many
//!   spares as that takes are open: without a descriptor a segment cannot be begun either.
//! - RM2. [`Claim::Ordinary`] leaves one spare alone. That spare is for work that gives space back on a full
//!   disk ([`Claim::Freeing`]: dropping a table, flushing, trimming), for a few small records without a
//!   reservation, and for the next opening of the log.
//! - RM3. A log that was opened on a full disk may have a *bare* current segment, with disk space for its
//!   header alone. Nothing is reserved in it before it has the space.
//!
//! The numbers below are read one after the other, without a lock. The order of writes and reads makes a
//! reader see too little room rather than too much: see [`LogSpace::segments`].
//!
//! Tested by `tests/it/full.rs` and `tests/it/descriptors.rs`.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{Error, Lsn, Result};
use frond_vfs::VfsFile;
use parking_lot::Mutex;

use crate::format::{frame_bytes, HEADER_BYTES};
use crate::segment::{log_name, Segment};

/// Bytes of every claim for records that are appended without a reservation.
const SLACK: u64 = 4096;
/// Spares that ordinary claims leave alone (RM2).
pub(crate) const RESERVE: usize = 1;
/// A bare segment is given space in multiples of this when it cannot have all of it.
const BARE_STEP: u64 = 16 << 10;

/// What the room is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    Ordinary,
    /// For records that make space free: may use the last spare segment.
    Freeing,
}

/// Room for a record. To be held until the record is appended.
#[must_use = "dropping it gives the room back"]
pub struct Reservation<'a> {
    pub(crate) room: &'a LogSpace,
    pub(crate) bytes: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let before = self.room.outstanding.fetch_sub(self.bytes, Ordering::AcqRel);
        assert!(before >= self.bytes, "more room is given back than was reserved (RM1)");
    }
}

impl Reservation<'_> {
    /// The same room, for a record that is appended much later. It stays reserved until [`Wal::give_back`].
    pub fn keep(self) -> KeptRoom {
        let kept = KeptRoom { bytes: self.bytes };
        std::mem::forget(self);
        kept
    }
}

/// A reservation that outlives the call in which it was made.
#[must_use = "it stays reserved until it is given back"]
#[derive(Debug)]
pub struct KeptRoom {
    pub(crate) bytes: u64,
}

/// The current segment, when its file has not all of its space.
struct Bare {
    file: Arc<dyn VfsFile>,
    segment: Segment,
    /// Bytes of the file that have disk space.
    allocated: u64,
}

/// What reservations are computed from.
pub(crate) struct LogSpace {
    segment_bytes: u64,
    chunk_bytes: u64,
    /// Framed bytes that are reserved and not appended yet.
    pub(crate) outstanding: AtomicU64,
    /// The segment in which the log ends, and the one whose file is written to: in between lie the
    /// segments that buffered frames will begin.
    tail_segment: AtomicU32,
    file_segment: AtomicU32,
    /// LSN at which the tail's segment is full.
    full_at: AtomicU64,
    is_bare: AtomicBool,
    bare: Mutex<Option<Bare>>,
}

impl LogSpace {
    /// `bare`: the file of `current`, when it is one without space.
    pub fn new(
        segment_bytes: u64,
        chunk_bytes: usize,
        current: Segment,
        bare: Option<Arc<dyn VfsFile>>,
    ) -> LogSpace {
        let room = LogSpace {
            segment_bytes,
            chunk_bytes: chunk_bytes as u64,
            outstanding: AtomicU64::new(0),
            tail_segment: AtomicU32::new(current.number),
            file_segment: AtomicU32::new(current.number),
            full_at: AtomicU64::new(current.start + segment_bytes - HEADER_BYTES),
            is_bare: AtomicBool::new(bare.is_some()),
            bare: Mutex::new(None),
        };
        let allocated = HEADER_BYTES;
        *room.bare.lock() = bare.map(|file| Bare { file, segment: current, allocated });
        room
    }

    /// The log's end moved into `segment`, which begins at `start`. Under the tail's lock, before the
    /// new end shows.
    pub fn tail_moved(&self, segment: u32, start: Lsn) {
        self.full_at.store(start + self.segment_bytes - HEADER_BYTES, Ordering::Release);
        self.tail_segment.store(segment, Ordering::Release);
    }

    /// Writing goes on in the file of `segment`; after its spare was taken.
    pub fn file_moved(&self, segment: u32) {
        self.file_segment.store(segment, Ordering::Release);
        if self.is_bare.load(Ordering::Acquire) {
            // Frames were written behind the bare segment, so it has all of its space.
            *self.bare.lock() = None;
            self.is_bare.store(false, Ordering::Release);
        }
    }

    /// Bytes that a payload takes in frames, at most.
    pub(crate) fn framed(&self, payload: u64) -> u64 {
        let frames = payload / self.chunk_bytes + 1;
        payload.saturating_add(frames.saturating_mul(frame_bytes(8) as u64))
    }

    /// Spares needed for what is buffered and for `total` more bytes, the log ending at `end`.
    ///
    /// `end` was read first. If the tail has entered a segment since, the room looks larger, but by no
    /// more than the record that is being appended; its reservation is still part of `total`.
    pub(crate) fn segments(&self, end: Lsn, total: u64) -> usize {
        let tail = self.tail_segment.load(Ordering::Acquire);
        let full_at = self.full_at.load(Ordering::Acquire);
        let begun = tail.saturating_sub(self.file_segment.load(Ordering::Acquire));
        let total = total.saturating_add(SLACK);
        // A frame that does not fit in the rest of a segment leaves it empty.
        let waste = total.min(frame_bytes(self.chunk_bytes as usize) as u64);
        let here = full_at.saturating_sub(end).saturating_sub(waste);
        let each = (self.segment_bytes - HEADER_BYTES).saturating_sub(waste).max(1);
        let more = total.saturating_sub(here).div_ceil(each);
        begun as usize + usize::try_from(more).unwrap_or(usize::MAX / 2)
    }

    /// RM3: makes sure that a bare segment has space for `total` bytes behind `end`.
    pub(crate) fn complete(&self, end: Lsn, total: u64, claim: Claim) -> Result<()> {
        if !self.is_bare.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut bare = self.bare.lock();
        let Some(b) = &mut *bare else { return Ok(()) };
        let written = HEADER_BYTES + end.saturating_sub(b.segment.start);
        let needed = written.saturating_add(total).saturating_add(SLACK).min(self.segment_bytes);
        if claim == Claim::Freeing && needed <= b.allocated {
            return Ok(());
        }
        let mut done = b.file.allocate(self.segment_bytes).map(|()| self.segment_bytes);
        if done.is_err() && claim == Claim::Freeing {
            let least = needed.next_multiple_of(BARE_STEP).min(self.segment_bytes);
            done = b.file.allocate(least).map(|()| least);
        }
        b.allocated = done.map_err(|e| Error::io("allocate", &log_name(b.segment.number), e))?;
        if b.allocated == self.segment_bytes {
            *bare = None;
            self.is_bare.store(false, Ordering::Release);
        }
        Ok(())
    }
}
