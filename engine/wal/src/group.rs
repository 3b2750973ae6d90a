//! Group commit: one thread writes the buffer for all, and one syncs for all; the others wait. Also what happens on a failure.
//!
//! There are two posts, and a round of each. The leader of a round of *writing* writes what is buffered. The leader of a round of *syncing*
//! has all that is appended written first, as any caller does, and then syncs without the other post: so a commit that must
//! only be written does not wait for a sync, that of each second or another connection's. Who needs a sync does not write for
//! itself while another one syncs, but waits for a round of syncing, so that one write and one sync serve all.
//!
//! No wake-up is lost. `written`, `durable` and the failure change before the leader steps down,
//! which it does under `group`; a follower checks them under `group` before it starts to wait. A
//! leader that steps down wakes the followers that its round has served, and one that waits for its post, which
//! becomes the leader unless a new thread was faster. The sync of a new segment is in a round of writing, and may serve the named one
//! before it looks. So whoever leaves looks under `group` whether the post has a leader, and names the next one if not: while a thread
//! waits for a post, it has a leader, or one is waking up. The next leader is woken
//! last: meanwhile more commits join its round. The leader of a round for prepared transactions may wait for more of them first
//! (`coordinated.rs`).
//!
//! Rejected: a follower of a round of writing that looks for some us whether it is over before it sleeps. With 4 and 64 connections
//! no fewer context switches and no less processor time.
//!
//! Rejected: one condition for all who wait. With many connections most of those whom the end of a round
//! wakes wait for the next one, so each would be woken twice.
//!
//! Rejected: a leader that yields the processor before it takes the buffer, so that more commits
//! join its round. With 64 connections and the binary log 0.8 syncs instead of 1.1 for each of its
//! groups; but where other programs keep the processors busy every commit waits for its turn behind
//! them (8 times as long).
//!
//! Rejected: a writer thread of its own. It costs two context switches per commit, and the simulator would
//! have to schedule it; a leader among the callers costs none when there is one caller.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Lsn, Result};

use crate::format::{renew_promise, SegmentHeader, FRAME_HEADER, HEADER_BYTES};
use crate::log::Wal;
use crate::round::{Bell, Counts, Io, Part, Waiter};
use crate::segment::{log_name, Segment};

impl Wal {
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

    /// As [`Wal::sync_to`], for the record of a prepared transaction that a coordinator ends together with others.
    /// The caller must call [`Wal::coordinated_ended`] when that transaction has ended.
    pub fn sync_coordinated_to(&self, end: Lsn) -> Result<()> {
        if !self.reached(end, true) && self.may_lead(end, true)? {
            self.lead_to(end, true, || _ = self.coordinated.begin_round())?;
        }
        self.coordinated.add();
        Ok(())
    }

    /// A transaction that [`Wal::sync_coordinated_to`] made durable has ended. `is_first`: it is the first of those
    /// that its coordinator ends together.
    pub fn coordinated_ended(&self, is_first: bool) {
        self.coordinated.end(is_first);
    }

    fn reached(&self, end: Lsn, sync: bool) -> bool {
        end <= if sync { self.durable() } else { self.written() }
    }

    /// Waits for a leader, or leads, until `end` is reached (W3). `sync`: until it is durable; otherwise until it is written.
    pub(crate) fn drive(&self, end: Lsn, sync: bool) -> Result<()> {
        if self.reached(end, sync) {
            return Ok(());
        }
        if !self.may_lead(end, sync)? {
            return Ok(());
        }
        self.lead_to(end, sync, || ())
    }

    /// Leads one round, which reaches `end`, after `when_due` has returned.
    fn lead_to(&self, end: Lsn, sync: bool, when_due: impl FnOnce()) -> Result<()> {
        let step_down = StepDown { wal: self, sync };
        when_due();
        let result = match sync {
            // `end` may be newer than what the log says of its end: an append changes that last.
            true => self.drive(self.end().max(end), false).and_then(|()| self.sync_file(end)),
            false => self.write().map(|()| false),
        };
        let has_synced = *result.as_ref().unwrap_or(&false);
        let result = result.map(drop);
        if let Err(e) = &result {
            self.latch(e.duplicate());
        }
        std::mem::forget(step_down);
        self.step_down(sync, has_synced);
        assert!(result.is_err() || self.reached(end, sync), "LSN {end} was never appended (W2)");
        result
    }

    /// Waits until a leader has reached `end` (false), or until the caller leads (true).
    fn may_lead(&self, end: Lsn, sync: bool) -> Result<bool> {
        let mut group = self.group.lock();
        let mut bell: Option<Arc<Bell>> = None;
        let outcome = loop {
            if self.reached(end, sync) {
                break Ok(false);
            }
            if let Some(first) = &group.failure {
                break Err(poisoned_by(first));
            }
            let is_led = group.is_led(sync);
            if !*is_led {
                *is_led = true;
                break Ok(true);
            }
            let bell = bell.get_or_insert_with(|| {
                let bell = Arc::<Bell>::default();
                group.waiting.push(Waiter { end, sync, bell: bell.clone() });
                bell
            });
            drop(group);
            bell.wait();
            group = self.group.lock();
        };
        if let Some(bell) = bell {
            group.waiting.retain(|w| !Arc::ptr_eq(&w.bell, &bell));
            if !*group.is_led(sync) {
                let next = group.name_next(sync);
                drop(group);
                next.iter().for_each(|bell| bell.ring());
            }
        }
        outcome
    }

    /// A round of writing.
    fn write(&self) -> Result<()> {
        let Some(mut io) = self.io.try_lock() else { panic!("W3: two threads write") };
        let io = &mut *io;
        assert!(!io.failed, "W4: the log is written again after a failure");
        // Until the round is done.
        io.failed = true;
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
        io.failed = false;
        Ok(())
    }

    fn write_parts(&self, io: &mut Io) -> Result<()> {
        io.counts.writes += 1;
        for i in 0..io.parts.len() {
            let part = io.parts[i];
            if part.segment != io.segment {
                self.rotate(io, &part)?;
            }
            assert_eq!(part.segment, io.segment, "G2: frames of a segment that is not begun");
            let to = io.parts.get(i + 1).map_or(io.buf.len(), |next| next.from);
            let promised = self.durable();
            let bytes = &mut io.buf[part.from..to];
            if let Some(first) = bytes.first_chunk_mut::<FRAME_HEADER>() {
                // The frame says what was durable when it was appended; by now more may be durable.
                renew_promise(first, part.seed, part.lsn, promised);
            }
            assert_eq!(part.lsn, self.written(), "frames are written without a gap (W1)");
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
        self.sync_file(part.segment_start)?;
        let header = SegmentHeader {
            database: self.database,
            number: part.segment,
            start: part.segment_start,
            restart: false,
        };
        io.file = self.spares.lock().begin(&*self.vfs, &header)?;
        let mut synced = self.synced.lock();
        (synced.file, synced.segment) = (io.file.clone(), part.segment);
        drop(synced);
        // Closing the old segment freed a descriptor. A spare takes it at once, because the next rotation may
        // come before `reserve` opens one.
        self.spares.lock().hold_one(&*self.vfs);
        assert_eq!(part.segment, io.segment + 1, "W1: a segment is left out");
        io.segment = part.segment;
        self.room.file_moved(part.segment);
        io.counts.rotations += 1;
        self.segments.lock().push_back(Segment { number: header.number, start: header.start });
        Ok(())
    }

    /// Makes all that is written durable, at least everything below `end`; false if all below `end` was.
    fn sync_file(&self, end: Lsn) -> Result<bool> {
        let mut synced = self.synced.lock();
        // A write may have failed since this round began (W4).
        if synced.failed || self.poisoned.load(Ordering::Acquire) {
            return Err(self.poisoned());
        }
        if self.durable() >= end {
            return Ok(false);
        }
        // In this file: the next one is entered under this mutex, and what lies before it was made durable then.
        let written = self.written();
        assert!(written >= end, "LSN {end} is synced before it is written (W2)");
        // Until the sync is done.
        synced.failed = true;
        let began = self.vfs.now();
        if let Err(e) = synced.file.sync() {
            let failure = Error::io("sync", &log_name(synced.segment), e);
            // Under the mutex: who comes next finds the cause.
            self.latch(failure.duplicate());
            return Err(failure);
        }
        let took = self.vfs.now().saturating_sub(began);
        synced.failed = false;
        self.durable.store(written, Ordering::Release);
        let counts = &mut self.group.lock().counts;
        counts.syncs += 1;
        counts.sync_time += took;
        counts.longest_sync = counts.longest_sync.max(took);
        Ok(true)
    }

    /// Ends a round: wakes the followers that are served, and one that leads the next round; counts.
    fn step_down(&self, sync: bool, has_synced: bool) {
        // The other post's counts may be in use.
        let round =
            if sync { Counts::default() } else { std::mem::take(&mut self.io.lock().counts) };
        let mut group = self.group.lock();
        group.counts.writes += round.writes;
        group.counts.bytes_written += round.bytes_written;
        group.counts.rotations += round.rotations;
        let served: Vec<Waiter> =
            group.waiting.extract_if(.., |w| self.reached(w.end, w.sync)).collect();
        if has_synced {
            group.counts.count_group(served.iter().filter(|w| w.sync).count() + 1);
        }
        *group.is_led(sync) = false;
        let next = group.name_next(sync);
        drop(group);
        served.iter().for_each(|w| w.bell.ring());
        next.iter().for_each(|bell| bell.ring());
    }

    /// Keeps the first failure (W4).
    pub(crate) fn latch(&self, failure: Error) {
        let mut group = self.group.lock();
        group.failure.get_or_insert(failure);
        self.poisoned.store(true, Ordering::Release);
        group.waiting.iter().for_each(|w| w.bell.ring());
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

    pub(crate) fn poisoned(&self) -> Error {
        match &self.group.lock().failure {
            Some(first) => poisoned_by(first),
            None => Error::new(ErrorKind::Poisoned, "the log is poisoned; restart the server"),
        }
    }
}

/// Ends the leadership of a round that panics: poisons the log, so that no follower waits forever.
struct StepDown<'a> {
    wal: &'a Wal,
    sync: bool,
}

impl Drop for StepDown<'_> {
    fn drop(&mut self) {
        let failure = Error::new(ErrorKind::Panic, "writing the log panicked; restart the server");
        self.wal.latch(failure);
        self.wal.step_down(self.sync, false);
    }
}

fn poisoned_by(first: &Error) -> Error {
    let what = format!("the log stopped after a failure; restart the server: {}", first.message());
    Error::new(ErrorKind::Poisoned, what)
}

#[cfg(test)]
mod tests {
    use std::thread::{Scope, ScopedJoinHandle};
    use std::time::Duration;

    use frond_vfs::{MemVfs, Vfs};

    use super::*;
    use crate::format::MAX_CHUNK;
    use crate::WalOptions;

    /// A thread that has appended `payload` and waits for its sync, and the record's end. Somebody leads syncing.
    fn waits<'scope>(
        wal: &'scope Wal,
        scope: &'scope Scope<'scope, '_>,
        payload: &[u8],
    ) -> (Lsn, ScopedJoinHandle<'scope, Result<()>>) {
        let end = wal.append(1, payload).unwrap().end;
        let waiting = wal.group.lock().waiting.len();
        let thread = scope.spawn(move || wal.sync_to(end));
        while wal.group.lock().waiting.len() == waiting {
            std::thread::yield_now();
        }
        (end, thread)
    }

    /// Whether the thread ends in time.
    fn ends_in<T>(time: Duration, thread: &ScopedJoinHandle<'_, T>) -> bool {
        let clock = MemVfs::new();
        let until = clock.now() + time;
        while !thread.is_finished() && clock.now() < until {
            std::thread::yield_now();
        }
        thread.is_finished()
    }

    /// X is named to lead a round of syncing, and the sync of a new segment serves it: before it looks, or so early that X is gone
    /// when its bell is rung for the lead. Y has to lead.
    #[test]
    fn who_is_named_and_need_not_lead_any_more_names_the_next_one() {
        for is_gone in [false, true] {
            let wal = Wal::create(Arc::new(MemVfs::stepped()), WalOptions::new(7)).unwrap();
            *wal.group.lock().is_led(true) = true;
            std::thread::scope(|scope| {
                let [x, y] = [b"x", b"y"].map(|payload| waits(&wal, scope, payload));
                wal.write_to(y.0).unwrap();
                // The leader of syncing steps down.
                let mut group = wal.group.lock();
                *group.is_led(true) = false;
                let bell = group.name_next(true).unwrap();
                drop(group);
                wal.durable.store(x.0, Ordering::Release);
                if is_gone {
                    wal.step_down(false, false);
                    x.1.join().unwrap().unwrap();
                    bell.ring();
                } else {
                    bell.ring();
                    x.1.join().unwrap().unwrap();
                }
                let in_time = ends_in(Duration::from_secs(10), &y.1);
                wal.sync_to(y.0).unwrap();
                assert!(in_time, "nobody leads");
                assert_eq!(wal.durable(), y.0);
            });
        }
    }

    /// X wakes by a ring that is left over, and is durable meanwhile by the sync of a new segment. So it may leave, but it is on the
    /// list, and somebody who hands over the lead names it. Y has to lead.
    #[test]
    fn who_is_on_the_list_looks_under_the_mutex() {
        let wal = Wal::create(Arc::new(MemVfs::stepped()), WalOptions::new(7)).unwrap();
        *wal.group.lock().is_led(true) = true;
        std::thread::scope(|scope| {
            let [x, y] = [b"x", b"y"].map(|payload| waits(&wal, scope, payload));
            wal.write_to(y.0).unwrap();
            let mut group = wal.group.lock();
            wal.durable.store(x.0, Ordering::Release);
            group.waiting[0].bell.ring();
            ends_in(Duration::from_millis(50), &x.1);
            *group.is_led(true) = false;
            let bell = group.name_next(true).unwrap();
            drop(group);
            bell.ring();
            let in_time = ends_in(Duration::from_secs(10), &y.1);
            wal.sync_to(y.0).unwrap();
            assert!(in_time, "nobody leads");
        });
    }

    /// An append has told where its record ends, and not yet that the log ends there.
    #[test]
    fn a_sync_may_ask_for_more_than_the_log_says_it_has() {
        let wal = Wal::create(Arc::new(MemVfs::stepped()), WalOptions::new(7)).unwrap();
        let at = wal.append(1, b"x").unwrap();
        wal.write_to(at.end).unwrap();
        let next = wal.append(1, b"y").unwrap();
        wal.end.store(next.start, Ordering::Release);
        wal.sync_to(next.end).unwrap();
        assert_eq!(wal.durable(), next.end);
    }

    #[test]
    fn nothing_is_synced_behind_a_failure() {
        let wal = Wal::create(Arc::new(MemVfs::stepped()), WalOptions::new(7)).unwrap();
        let at = wal.append(1, b"x").unwrap();
        wal.write_to(at.end).unwrap();
        wal.poison(&Error::new(ErrorKind::Io, "a table file"));
        assert_eq!(wal.sync_file(at.end).unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(wal.durable(), at.start);
    }

    /// A leader that has not taken the buffer yet writes what it holds, also after a failure elsewhere.
    #[test]
    fn nothing_is_appended_behind_a_record_that_a_failure_cut_short() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::stepped());
        let opts = WalOptions { buffer_bytes: MAX_CHUNK + MAX_CHUNK / 2, ..WalOptions::new(7) };
        let wal = Wal::create(vfs.clone(), opts.clone()).unwrap();
        let mut random = 1u64;
        let long: Vec<u8> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        })
        .take(3 * MAX_CHUNK)
        .collect();
        *wal.group.lock().is_led(false) = true;
        std::thread::scope(|scope| {
            let first = scope.spawn(|| wal.append(1, &long));
            while wal.group.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            let second = scope.spawn(|| wal.append(2, b"short"));
            // Woken too early, it waits again.
            while !wal.turn.notify_one() {
                std::thread::yield_now();
            }
            wal.poison(&Error::new(ErrorKind::Io, "a table file"));
            assert!(first.join().unwrap().is_err());
            assert_eq!(second.join().unwrap().unwrap_err().kind(), ErrorKind::Poisoned);
        });
        wal.write().unwrap();
        wal.step_down(false, false);
        drop(wal);
        let (_, mut recovered) = Wal::open(vfs, opts).unwrap();
        assert!(recovered.next().unwrap().is_none());
    }
}
