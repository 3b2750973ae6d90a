//! The threads that parse the pieces of a log: the reading thread, alone or with a team.

use std::sync::mpsc::{Receiver, Sender, TrySendError};
use std::sync::Mutex;

use super::worker::Worker;
use frond_event::Place;
use frond_querylog::input::{pump, Format};
use frond_querylog::slowlog::{self, Carry};

/// A piece on its way to a thread.
pub(super) struct Job {
    pub(super) buffers: Buffers,
    pub(super) length: usize,
    pub(super) place: Place,
    pub(super) carry: Carry,
    pub(super) last: bool,
    pub(super) format: Format,
}

/// The bytes of a piece (and of what is behind it) and, for a slow log, its events. Reused for every piece.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) bytes: Vec<u8>,
    pub(super) marks: Vec<slowlog::split::Mark>,
}

/// Takes pieces: parses them on this thread, or passes them to others.
pub(super) trait Crew {
    /// Takes a job, and returns buffers for the next one, perhaps other buffers.
    fn take(&mut self, job: Job) -> Buffers;

    /// The worker of this thread, for inputs that must be read in order.
    fn own(&mut self) -> &mut Worker;

    /// Whether the own worker is the only one.
    fn alone(&self) -> bool;
}

/// One thread.
pub(super) struct Alone {
    pub(super) worker: Worker,
}

impl Crew for Alone {
    fn take(&mut self, job: Job) -> Buffers {
        work(&mut self.worker, &job);
        job.buffers
    }

    fn own(&mut self) -> &mut Worker {
        &mut self.worker
    }

    fn alone(&self) -> bool {
        true
    }
}

/// Several threads; this one reads. It also parses whenever the other threads have enough
/// to do. So no thread waits while there is work, and there are no more threads than requested.
/// One thread that only reads beside those that parse was rejected: on two processors three threads
/// waited for each other.
pub(super) struct Team {
    pub(super) worker: Worker,
    pub(super) jobs: std::sync::mpsc::SyncSender<Job>,
    pub(super) empty: Receiver<Buffers>,
}

impl Crew for Team {
    fn take(&mut self, job: Job) -> Buffers {
        match self.jobs.try_send(job) {
            Ok(()) => self.empty.try_recv().unwrap_or_default(),
            // `Disconnected` cannot occur, because `run` keeps the other end. Threads that panicked leave the
            // queue full.
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                done(&mut self.worker, job)
            }
        }
    }

    fn own(&mut self) -> &mut Worker {
        &mut self.worker
    }

    fn alone(&self) -> bool {
        false
    }
}

fn work(worker: &mut Worker, job: &Job) {
    let bytes = &job.buffers.bytes[..job.length];
    match job.format {
        Format::SlowLog => {
            let piece =
                slowlog::Piece { bytes, place: job.place, carry: &job.carry, last: job.last };
            worker.slow_log(piece, &job.buffers.marks);
        }
        _ => worker.raw_log(bytes, job.place),
    }
}

/// Does a job; returns its buffers for reuse.
fn done(worker: &mut Worker, mut job: Job) -> Buffers {
    work(worker, &job);
    let bytes = &mut job.buffers.bytes;
    bytes.clear();
    // A buffer is longer than a piece only because of one long event.
    bytes.shrink_to(2 * pump::PIECE);
    job.buffers
}

/// The loop of a team's thread, until there are no more jobs.
pub(super) fn serve(
    mut worker: Worker,
    jobs: &Mutex<Receiver<Job>>,
    empty: &Sender<Buffers>,
) -> Worker {
    loop {
        let job = match jobs.lock() {
            Ok(jobs) => jobs.recv(),
            Err(_) => return worker,
        };
        let Ok(job) = job else { return worker };
        let _ = empty.send(done(&mut worker, job));
    }
}
