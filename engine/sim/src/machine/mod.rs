//! The simulated machine: [`SimVfs`], one directory on one disk with every fault of
//! `docs/fault-model.md`, deterministic and on one thread.
//!
//! - M1. A sector that was synced is found after a crash as it was synced, or as a later write left
//!   it; sectors are chosen independently of each other, of the file's length and of its name.
//! - M2. A name that `sync_dir` covered is found as it was then, or as a later change left it.
//! - M3. Nothing depends on anything but the seed and the calls: clock, random numbers and faults
//!   come from here, and every call goes into a trace hash.
//! - M4. After [`SimVfs::kill`] handles of the old machine change nothing any more.
//!
//! A crash image is a new machine made from a [`Disk`]. Captures are copies of the disk taken in the
//! middle of the program's calls, before a change takes effect; the driver recovers each.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use frond_vfs::Vfs;
use parking_lot::{Mutex, MutexGuard};

use crate::rng::{mix, Rng};

pub mod content;
pub mod disk;
pub mod faults;
mod file;
pub mod inode;
pub mod points;
mod vfs;

use disk::Disk;
use faults::{Canary, Faults};
use points::{Action, FileClass, Phase, Point, Points};

/// A copy of the disk in the middle of the program's work.
pub struct Capture {
    pub disk: Disk,
    pub point: Point,
    /// What the driver promised when it was taken: see [`SimVfs::set_bounds`].
    pub bounds: (u64, u64),
    /// The number of calls before it.
    pub call: u64,
}

/// When captures are taken, in millionths per change.
#[derive(Clone, Copy, Debug, Default)]
pub struct CapturePolicy {
    pub at_sync: u32,
    pub at_other: u32,
    /// At points that this machine passes for the first time; far more often at those of
    /// [`Point::begins_a_segment_seldom`].
    pub at_new: u32,
    /// At most this many may wait for the driver.
    pub most: usize,
}

struct Machine {
    disk: Disk,
    dead: bool,
    locked: bool,
    clock: Duration,
    random: Rng,
    chance: Rng,
    faults: Faults,
    canary: Option<Canary>,
    log_writes: u64,
    phase: Phase,
    bounds: (u64, u64),
    policy: CapturePolicy,
    captures: Vec<Capture>,
    points: Points,
    calls: u64,
    trace: u64,
    /// Lines of the trace, when asked for.
    lines: Option<Vec<String>>,
}

/// A handle to a simulated machine; clones are handles to the same one.
#[derive(Clone)]
pub struct SimVfs {
    machine: Arc<Mutex<Machine>>,
}

impl SimVfs {
    /// A machine with `disk`; `seed` decides its random numbers and faults.
    pub fn new(disk: Disk, seed: u64) -> SimVfs {
        let mut random = Rng::new(seed);
        let chance = random.fork(1);
        let machine = Machine {
            disk,
            dead: false,
            locked: false,
            clock: Duration::ZERO,
            random,
            chance,
            faults: Faults::default(),
            canary: None,
            log_writes: 0,
            phase: Phase::Other,
            bounds: (0, 0),
            policy: CapturePolicy::default(),
            captures: Vec::new(),
            points: Points::default(),
            calls: 0,
            trace: seed,
            lines: None,
        };
        SimVfs { machine: Arc::new(Mutex::new(machine)) }
    }

    pub fn handle(&self) -> Arc<dyn Vfs> {
        Arc::new(self.clone())
    }

    pub fn set_faults(&self, faults: Faults) {
        self.machine.lock().faults = faults;
    }

    pub fn faults(&self) -> Faults {
        self.machine.lock().faults
    }

    pub fn set_canary(&self, canary: Option<Canary>) {
        self.machine.lock().canary = canary;
    }

    pub fn set_policy(&self, policy: CapturePolicy) {
        self.machine.lock().policy = policy;
    }

    /// Says what the program is doing from now on; returns what it did before.
    pub fn set_phase(&self, phase: Phase) -> Phase {
        std::mem::replace(&mut self.machine.lock().phase, phase)
    }

    /// Captures from now on must recover to a state from `lower` to `upper`.
    pub fn set_bounds(&self, lower: u64, upper: u64) {
        self.machine.lock().bounds = (lower, upper);
    }

    pub fn take_captures(&self) -> Vec<Capture> {
        std::mem::take(&mut self.machine.lock().captures)
    }

    pub fn take_points(&self) -> Points {
        std::mem::take(&mut self.machine.lock().points)
    }

    pub fn advance(&self, by: Duration) {
        self.machine.lock().clock += by;
    }

    /// A hash of every call so far (O8).
    pub fn trace_hash(&self) -> u64 {
        self.machine.lock().trace
    }

    pub fn calls(&self) -> u64 {
        self.machine.lock().calls
    }

    /// Keeps a readable trace from now on.
    pub fn keep_trace(&self) {
        self.machine.lock().lines = Some(Vec::new());
    }

    pub fn take_trace(&self) -> Vec<String> {
        self.machine.lock().lines.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Pages in use, for choosing a limit.
    pub fn pages_used(&self) -> u64 {
        self.machine.lock().disk.pages_used()
    }

    /// The process dies: its handles go dead, and what it had handed to the machine stays there,
    /// durable or not. Returns the disk as the next process finds it.
    pub fn kill(&self) -> Disk {
        let mut m = self.machine.lock();
        m.dead = true;
        m.disk.snapshot()
    }

    fn lock(&self) -> io::Result<MutexGuard<'_, Machine>> {
        let m = self.machine.lock();
        if m.dead {
            return Err(io::Error::other("the process was killed"));
        }
        Ok(m)
    }
}

fn no_space() -> io::Error {
    io::Error::from_raw_os_error(28)
}

fn failed() -> io::Error {
    io::Error::from_raw_os_error(5)
}

impl Machine {
    fn note(&mut self, action: &str, class: FileClass, a: u64, b: u64) {
        self.calls += 1;
        crate::watch::call();
        self.trace = mix(self.trace, action.len() as u64 ^ (class as u64) << 8);
        self.trace = mix(self.trace, a);
        self.trace = mix(self.trace, b);
        if let Some(lines) = &mut self.lines {
            lines
                .push(format!("    {:>6} {:?} {action} {class:?} {a} {b}", self.calls, self.phase));
        }
    }

    /// Something is about to change: the place for a crash.
    fn point(&mut self, action: Action, class: FileClass) {
        let point = Point { phase: self.phase, action, class };
        let new = self.points.passed(point);
        let policy = self.policy;
        let chance = match action {
            _ if point.begins_a_segment_seldom() => policy.at_new.saturating_mul(6).min(600_000),
            _ if new => policy.at_new,
            Action::Sync | Action::SyncDir => policy.at_sync,
            _ => policy.at_other,
        };
        if self.captures.len() < policy.most && self.chance.ppm(chance) {
            self.points.crashed(point);
            self.captures.push(Capture {
                disk: self.disk.snapshot(),
                point,
                bounds: self.bounds,
                call: self.calls,
            });
        }
    }

    /// Pages that may still be taken.
    fn space_left(&self) -> u64 {
        let used = || self.disk.pages_used();
        self.faults.space.map_or(u64::MAX, |limit| limit.saturating_sub(used()))
    }

    /// How much of a transfer of `len` bytes happens, or why none does.
    fn transfer(&mut self, len: usize, error: u32) -> io::Result<usize> {
        if self.chance.ppm(self.faults.interrupted) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.chance.ppm(error) {
            return Err(failed());
        }
        if len > 1 && self.chance.ppm(self.faults.short) {
            return Ok(1 + self.chance.index(len - 1));
        }
        Ok(len)
    }
}
