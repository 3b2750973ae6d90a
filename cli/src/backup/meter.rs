//! What copying may take, and how far it is: a limit on the rate, pauses for a busy server, and progress.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use frond_vfs::{OsVfs, Vfs, VfsFile};
use serde::Serialize;

use super::pace::{Pace, Step};
use crate::out::{bytes, Failure, Outcome};

/// Where progress is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    Nobody,
    /// One line that changes, if standard error is a terminal.
    Terminal,
    /// A JSON object a line, on standard error.
    Events,
}

impl Show {
    pub fn of(quiet: bool, json: bool) -> Show {
        match (quiet, json) {
            (true, _) => Show::Nobody,
            (_, true) => Show::Events,
            _ if std::io::IsTerminal::is_terminal(&std::io::stderr()) => Show::Terminal,
            _ => Show::Nobody,
        }
    }
}

/// Limits what copying takes and shows progress. All threads with a clone share the limits.
#[derive(Clone)]
pub struct Meter(Arc<Inner>);

struct Inner {
    clock: OsVfs,
    began: Duration,
    show: Show,
    /// Bytes per second; 0: no limit.
    rate: u64,
    /// Somebody waits for what is copied now: no limit applies.
    hurry: AtomicBool,
    done: AtomicU64,
    /// 0: not known.
    total: AtomicU64,
    shown: Mutex<Duration>,
    /// When the server's work is looked at next, in nanoseconds; never, if it is not watched.
    look: AtomicU64,
    watch: Mutex<Option<Watch>>,
    /// Of the time, how much is spent copying now, in percent.
    share: AtomicU64,
    /// All pauses, in milliseconds.
    paused: AtomicU64,
}

/// Returns the server's counter of work; `None`: it did not answer.
pub type Ask = Box<dyn FnMut() -> Option<f64> + Send>;

/// The server whose work is kept from harm.
struct Watch {
    permitted: f64,
    ask: Ask,
    /// Before copying.
    before: (Duration, f64),
    /// Since copying began.
    pace: Option<Pace>,
    /// Written since the last pause began, and not synced.
    written: Vec<Arc<dyn VfsFile>>,
}

#[derive(Serialize)]
struct Progress {
    event: &'static str,
    bytes: u64,
    bytes_total: Option<u64>,
    bytes_per_second: u64,
    seconds_left: Option<u64>,
    /// Of the time; 100: the backup does not pause for the server.
    copying_percent: u64,
    seconds_paused: f64,
}

impl Meter {
    /// `place`: any existing directory.
    pub fn new(place: &Path, rate: Option<u64>, show: Show) -> Outcome<Meter> {
        let clock = OsVfs::new(place)
            .map_err(|e| Failure::Request(format!("open {}: {e}", place.display())))?;
        let began = clock.now();
        let number = |n: u64| AtomicU64::new(n);
        Ok(Meter(Arc::new(Inner {
            clock,
            began,
            show,
            rate: rate.unwrap_or(0),
            hurry: AtomicBool::new(false),
            done: number(0),
            total: number(0),
            shown: Mutex::new(began),
            look: number(u64::MAX),
            watch: Mutex::new(None),
            share: number(100),
            paused: number(0),
        })))
    }

    pub fn done(&self) -> u64 {
        self.0.done.load(Relaxed)
    }

    /// Adds `more` bytes to the total that is expected.
    pub fn expect(&self, more: u64) {
        self.0.total.store(self.done() + more, Relaxed);
    }

    /// From here on copying pauses so that the server loses at most the part `permitted` of its work, as `ask` tells it.
    pub fn watch(&self, permitted: f64, mut ask: Ask) {
        let Some(work) = ask() else { return };
        let before = (self.0.clock.now(), work);
        *self.watched() = Some(Watch { permitted, ask, before, pace: None, written: Vec::new() });
        self.0.look.store(0, Relaxed);
    }

    fn watched(&self) -> MutexGuard<'_, Option<Watch>> {
        self.0.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `what` without limits, because the server's commits wait for it. Its bytes count, so later copies wait for
    /// them.
    pub fn unlimited<T>(&self, what: impl FnOnce(&Meter) -> T) -> T {
        self.0.hurry.store(true, Relaxed);
        let done = what(self);
        self.0.hurry.store(false, Relaxed);
        done
    }

    /// `n` bytes were copied: waits if that was too fast. `Err`: bytes that were copied before, maybe of another file or by another
    /// thread, were not written; no later sync of that file need say so.
    pub fn add(&self, n: u64) -> io::Result<()> {
        self.copied(n, None)
    }

    /// As `add`; the bytes were written to `to`.
    pub fn copied(&self, n: u64, to: Option<&Arc<dyn VfsFile>>) -> io::Result<()> {
        let done = self.0.done.fetch_add(n, Relaxed) + n;
        if !self.0.hurry.load(Relaxed) {
            if self.0.rate > 0 {
                let due = Duration::from_secs_f64(done as f64 / self.0.rate as f64);
                let early = due.saturating_sub(self.0.clock.now().saturating_sub(self.0.began));
                if early > Duration::from_millis(5) {
                    wait(early);
                }
            }
            self.give_way(to)?;
        }
        self.show();
        Ok(())
    }

    /// Pauses if it is time to. The other threads that copy meet the lock at their next piece, and so pause, too.
    fn give_way(&self, to: Option<&Arc<dyn VfsFile>>) -> io::Result<()> {
        let now = || self.0.clock.now();
        if self.0.look.load(Relaxed) == u64::MAX {
            return Ok(());
        }
        let mut watched = self.watched();
        let Some(watch) = &mut *watched else { return Ok(()) };
        if let Some(to) = to {
            if !watch.written.iter().any(|known| Arc::ptr_eq(known, to)) {
                watch.written.push(to.clone());
            }
        }
        if (now().as_nanos() as u64) < self.0.look.load(Relaxed) {
            return Ok(());
        }
        loop {
            // What is written after a window would disturb the server in the pause and be taken for its usual work. Without pauses
            // writing is begun now, so that the sync at the end has less to wait for.
            let yields = watch.pace.as_ref().is_some_and(Pace::yields);
            for file in watch.written.drain(..) {
                file.write_back(yields)?;
            }
            let Some(work) = (watch.ask)() else {
                // The next step of the backup says why.
                self.0.look.store(u64::MAX, Relaxed);
                return Ok(());
            };
            let at = (now(), work);
            let pace = watch.pace.get_or_insert_with(|| Pace::new(watch.permitted, watch.before));
            let step = pace.next(at.0, at.1);
            self.0.share.store((pace.share() * 100.0).round() as u64, Relaxed);
            self.0.paused.store(pace.paused().as_millis() as u64, Relaxed);
            match step {
                Step::Copy(time) => {
                    self.0.look.store((now() + time).as_nanos() as u64, Relaxed);
                    return Ok(());
                }
                Step::Pause(time) => {
                    self.show();
                    wait(time);
                }
            }
        }
    }

    fn show(&self) {
        let every = match self.0.show {
            Show::Nobody => return,
            Show::Terminal => Duration::from_millis(250),
            Show::Events => Duration::from_secs(1),
        };
        let now = self.0.clock.now();
        // Another thread is showing the progress.
        let Ok(mut last) = self.0.shown.try_lock() else { return };
        if now.saturating_sub(*last) < every {
            return;
        }
        *last = now;
        let done = self.done();
        let rate = done as f64 / now.saturating_sub(self.0.began).as_secs_f64().max(0.001);
        let total = Some(self.0.total.load(Relaxed)).filter(|total| *total >= done);
        let left = total.map(|total| ((total - done) as f64 / rate.max(1.0)).ceil() as u64);
        let share = self.0.share.load(Relaxed);
        if self.0.show == Show::Events {
            self.event(&Progress {
                event: "progress",
                bytes: done,
                bytes_total: total,
                bytes_per_second: rate as u64,
                seconds_left: left,
                copying_percent: share,
                seconds_paused: self.paused(),
            });
            return;
        }
        let of = match (total, left) {
            (Some(total), Some(left)) => format!(" of {}, {left} s left", bytes(total)),
            _ => String::new(),
        };
        let yields = match share {
            100 => String::new(),
            _ => format!(", copying {share} % of the time: the server is busy"),
        };
        eprint!("\r\x1b[K{}{of}, {}/s{yields}", bytes(done), bytes(rate as u64));
    }

    /// Writes an event for the program that reads standard error.
    pub fn event(&self, what: &impl Serialize) {
        if let (Show::Events, Ok(text)) = (self.0.show, serde_json::to_string(what)) {
            eprintln!("{text}");
        }
    }

    /// Removes the line of progress.
    pub fn finish(&self) {
        if self.0.show == Show::Terminal {
            eprint!("\r\x1b[K");
        }
    }

    pub fn seconds(&self) -> f64 {
        self.0.clock.now().saturating_sub(self.0.began).as_secs_f64()
    }

    /// Seconds of pauses for the server.
    pub fn paused(&self) -> f64 {
        self.0.paused.load(Relaxed) as f64 / 1000.0
    }

    /// The machine's file system and threads.
    pub fn machine(&self) -> &OsVfs {
        &self.0.clock
    }
}

/// Sleeps.
pub fn wait(time: Duration) {
    let (never, bell) = (Mutex::new(()), Condvar::new());
    let guard = never.lock().unwrap_or_else(PoisonError::into_inner);
    drop(bell.wait_timeout(guard, time));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose bytes are lost between the cache and the disk.
    struct Lossy;

    impl VfsFile for Lossy {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Ok(0)
        }
        fn write_at(&self, buf: &[u8], _: u64) -> io::Result<usize> {
            Ok(buf.len())
        }
        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn punch_hole(&self, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn write_back(&self, _: bool) -> io::Result<()> {
            Err(io::Error::from_raw_os_error(5))
        }
        fn direct(&self) -> Option<usize> {
            None
        }
    }

    #[test]
    fn bytes_that_are_not_written_back_fail_the_copy() {
        let dir = tempfile::tempdir().unwrap();
        let meter = Meter::new(dir.path(), None, Show::Nobody).unwrap();
        let file: Arc<dyn VfsFile> = Arc::new(Lossy);
        meter.copied(1, Some(&file)).unwrap();
        meter.watch(0.1, Box::new(|| Some(0.0)));
        let lost = meter.copied(1, Some(&file)).unwrap_err();
        assert_eq!(lost.raw_os_error(), Some(5));
    }
}
