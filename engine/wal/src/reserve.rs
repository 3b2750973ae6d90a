//! Reserving log space, and making segments ahead of need. The rules are in `log_space.rs`.

use std::sync::atomic::Ordering;

use frond_base::{ErrorKind, Result};

use crate::log::Wal;
use crate::log_space::{Claim, KeptRoom, Reservation, RESERVE};

impl Wal {
    /// Makes sure that records of `bytes` in all can be appended and written without allocating disk
    /// space or opening a file. Call it before the append: without space it fails with
    /// [`ErrorKind::NoSpace`], without file descriptors with [`ErrorKind::TooManyFiles`]; nothing is
    /// appended then, and the log is not poisoned. No two reservations count on the same room.
    pub fn reserve(&self, bytes: u64, claim: Claim) -> Result<Reservation<'_>> {
        let room = &self.room;
        let mine = room.framed(bytes);
        let total = room.outstanding.fetch_add(mine, Ordering::AcqRel).saturating_add(mine);
        let held = Reservation { room, bytes: mine };
        let end = self.end();
        room.complete(end, total, claim)?;
        let left_alone = if claim == Claim::Ordinary { RESERVE } else { 0 };
        let begun = room.segments(end, total);
        let wanted = begun + left_alone;
        let is_ready = {
            let spares = self.spares.lock();
            spares.count() >= wanted && spares.open() >= begun
        };
        if !is_ready {
            if let Err(e) = self.prepare_segments(wanted, begun) {
                // Other reservations may count on some of the spares that were made.
                drop(held);
                self.shed_spares()?;
                return Err(e);
            }
        }
        Ok(held)
    }

    /// Ends a reservation that was kept: its record is appended, or will not be.
    pub fn give_back(&self, kept: KeptRoom) {
        let before = self.room.outstanding.fetch_sub(kept.bytes, Ordering::AcqRel);
        assert!(before >= kept.bytes, "RM1: more room is given back than was reserved");
    }

    /// Allocates the next segment's file ahead of need, and removes surplus spares that a large
    /// transaction left. Called by a background thread.
    pub fn prepare_segment(&self) -> Result<()> {
        let room = &self.room;
        let outstanding = room.outstanding.load(Ordering::Acquire);
        let end = self.end();
        room.complete(end, outstanding, Claim::Ordinary)?;
        self.shed_spares()?;
        let needed = room.segments(end, outstanding) + RESERVE;
        self.prepare_segments(needed, 0)?;
        // When the current segment is half full, the next but one is made too, so that no commit has to
        // allocate it. That only saves time, so a full disk is no error here.
        let soon = room.segments(end, outstanding.saturating_add(self.segment_bytes / 2)) + RESERVE;
        match self.prepare_segments(soon, 0) {
            Err(e) if e.kind() == ErrorKind::NoSpace => Ok(()),
            done => done,
        }
    }

    fn prepare_segments(&self, wanted: usize, open: usize) -> Result<()> {
        let next = self.segments.lock().back().map_or(0, |s| s.number) + 1;
        self.spares.lock().prepare(&*self.vfs, next, wanted, open)
    }

    /// Removes spares that nobody has reserved or will soon need, and closes what nobody has reserved.
    fn shed_spares(&self) -> Result<()> {
        let mut spares = self.spares.lock();
        // Under the lock: a reservation made from now on looks at what is left.
        let outstanding = self.room.outstanding.load(Ordering::Acquire);
        let soon = outstanding.saturating_add(self.segment_bytes / 2);
        let needed = self.room.segments(self.end(), soon) + RESERVE;
        let open = self.room.segments(self.end(), outstanding);
        spares.shed(&*self.vfs, needed, open)
    }
}
