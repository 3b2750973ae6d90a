//! The watcher of the runs (oracle O7: every call ends).
//!
//! Each thread that runs seeds counts what it gets done: operations of the driver, and calls of the
//! simulated machine's files. Another thread looks at the counts, and at what the system says of the thread,
//! several times a second. Only what the run itself does counts, not the load of the machine:
//!
//! - WH1. Asleep: at every look for a minute the thread waited for something other than a processor or the
//!   disk, and no file was called meanwhile. Calls are made on one thread, so nobody is going to wake it.
//! - WH2. Busy: one operation took a minute of processor time, whatever it called.
//! - WH3. A look that comes late counts as one in time: when the whole process was stopped, the watched
//!   threads stood still, too.
//!
//! Rejected: a limit on a run's wall-clock time. On a busy machine it ends runs that only wait for a
//! processor.
//!
//! Tested here, and by seeded hangs in `tests/it/hangs.rs`. Not here: `frond-history`, whose threads are
//! many and wait for each other.

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// How long a run may make no progress.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// By the clock of the looks (WH3).
    pub asleep: Duration,
    /// Processor time.
    pub busy: Duration,
}

impl Limits {
    /// An operation takes some milliseconds of processor time; in a debug build and with a sanitizer, a
    /// hundred times that.
    pub const USUAL: Limits =
        Limits { asleep: Duration::from_secs(60), busy: Duration::from_secs(60) };
}

/// Why a run does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// WH1, for this long.
    Asleep(Duration),
    /// WH2, for this long.
    Busy(Duration),
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stuck::Asleep(d) => write!(f, "asleep for {} s, and nobody to wake it", d.as_secs()),
            Stuck::Busy(d) => write!(f, "{} s of processor time in one operation", d.as_secs()),
        }
    }
}

/// What the runs of one thread got done.
#[derive(Default)]
struct Pulse {
    operations: AtomicU64,
    calls: AtomicU64,
    /// Runs begun; the seed of the present one.
    run: Mutex<(u64, Option<u64>)>,
}

thread_local! {
    static PULSE: OnceCell<Arc<Pulse>> = const { OnceCell::new() };
}

/// The driver begins another operation.
pub(crate) fn operation() {
    PULSE.with(|p| p.get_or_init(Arc::default).operations.fetch_add(1, Ordering::Relaxed));
}

/// A file was called.
pub(crate) fn call() {
    PULSE.with(|p| p.get_or_init(Arc::default).calls.fetch_add(1, Ordering::Relaxed));
}

/// A thread that runs seeds, as the watch knows it.
#[derive(Clone)]
pub struct Runner {
    pulse: Arc<Pulse>,
    stat: PathBuf,
}

impl Runner {
    /// The calling thread. Fails where the system tells nothing of threads.
    pub fn this_thread() -> io::Result<Runner> {
        let stat = Path::new("/proc").join(std::fs::read_link("/proc/thread-self")?).join("stat");
        thread_use(&stat)?;
        Ok(Runner { pulse: PULSE.with(|p| p.get_or_init(Arc::default).clone()), stat })
    }

    pub fn begin(&self, seed: u64) {
        let mut run = self.pulse.run.lock();
        *run = (run.0 + 1, Some(seed));
    }

    pub fn end(&self) {
        self.pulse.run.lock().1 = None;
    }
}

/// What the system says of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// It waits, and not for a processor or the disk.
    asleep: bool,
    cpu: Duration,
}

fn thread_use(stat: &Path) -> io::Result<Use> {
    parse_stat(&std::fs::read_to_string(stat)?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a thread's status"))
}

/// The system's unit of processor time, as it shows it to programs.
const TICK: Duration = Duration::from_millis(10);

/// `tid (name) state ppid ... utime stime ...`; the name may hold anything.
fn parse_stat(line: &str) -> Option<Use> {
    let (_, rest) = line.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<u32>().ok();
    let cpu = TICK.checked_mul(ticks(11)?.checked_add(ticks(12)?)?)?;
    Some(Use { asleep: *fields.first()? == "S", cpu })
}

/// One look at a runner.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    run: u64,
    operations: u64,
    calls: u64,
    system: Use,
}

/// What was seen of one runner.
#[derive(Default)]
struct Judge {
    last: Look,
    /// Processor time when the present operation was first seen.
    began_at: Duration,
    asleep: Duration,
}

/// A look counts for this much at most (WH3).
const LOOK_MOST: Duration = Duration::from_secs(1);

impl Judge {
    /// `since`: time from the look before.
    fn saw(&mut self, look: Look, since: Duration, limits: Limits) -> Option<Stuck> {
        let last = std::mem::replace(&mut self.last, look);
        let same_operation = (last.run, last.operations) == (look.run, look.operations);
        if !same_operation {
            self.began_at = look.system.cpu;
        }
        if !same_operation || last.calls != look.calls {
            self.asleep = Duration::ZERO;
        } else if look.system.asleep {
            // Waits that end and begin again are a hang too: being seen awake now and then takes nothing back.
            self.asleep += since.min(LOOK_MOST);
        }
        let busy = look.system.cpu.saturating_sub(self.began_at);
        if busy >= limits.busy {
            return Some(Stuck::Busy(busy));
        }
        (self.asleep >= limits.asleep).then_some(Stuck::Asleep(self.asleep))
    }
}

/// Watches runners.
pub struct Watch {
    limits: Limits,
    runners: Vec<(Runner, Judge)>,
    last: Duration,
}

impl Watch {
    pub fn new(limits: Limits) -> Watch {
        Watch { limits, runners: Vec::new(), last: Duration::ZERO }
    }

    pub fn add(&mut self, runner: Runner) {
        self.runners.push((runner, Judge::default()));
    }

    /// Looks at all of them; several times a second. Returns the seed of a run that is stuck.
    pub fn look(&mut self, now: Duration) -> Option<(u64, Stuck)> {
        let since = now.saturating_sub(std::mem::replace(&mut self.last, now));
        for (runner, judge) in &mut self.runners {
            let pulse = &runner.pulse;
            let (run, Some(seed)) = *pulse.run.lock() else { continue };
            let operations = pulse.operations.load(Ordering::Relaxed);
            let calls = pulse.calls.load(Ordering::Relaxed);
            // A thread that has ended runs nothing.
            let Ok(system) = thread_use(&runner.stat) else { continue };
            let look = Look { run, operations, calls, system };
            if let Some(stuck) = judge.saw(look, since, self.limits) {
                return Some((seed, stuck));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits::USUAL;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// Looks once a second until `next` gives no more.
    fn judged(mut next: impl FnMut(u64) -> Option<Look>) -> Option<(u64, Stuck)> {
        let mut judge = Judge::default();
        (0..).map_while(|n| next(n).map(|look| (n, look))).find_map(|(n, look)| {
            let stuck = judge.saw(look, secs(1), LIMITS)?;
            Some((n, stuck))
        })
    }

    fn look(operations: u64, calls: u64, asleep: bool, cpu: Duration) -> Look {
        Look { run: 1, operations, calls, system: Use { asleep, cpu } }
    }

    #[test]
    fn a_thread_that_waits_for_a_processor_is_not_stuck() {
        let day = 86_400;
        assert_eq!(judged(|n| (n < day).then(|| look(5, 7, false, secs(1)))), None);
        // Nor one that gets a moment of it now and then, or is asleep between its calls.
        let slow = |n: u64| {
            look(5 + n / 600, n / 50, !n.is_multiple_of(50), Duration::from_millis(90 * n))
        };
        assert_eq!(judged(|n| (n < day).then(|| slow(n))), None);
    }

    #[test]
    fn a_thread_that_sleeps_without_a_call_is_stuck() {
        let stuck = judged(|_| Some(look(5, 7, true, secs(1))));
        assert_eq!(stuck, Some((60, Stuck::Asleep(secs(60)))));
        // Also when it wakes from time to time to look at the clock.
        let wakes = |n: u64| look(5, 7, !n.is_multiple_of(3), Duration::from_millis(n));
        assert!(matches!(judged(|n| Some(wakes(n))), Some((89..=91, Stuck::Asleep(_)))));
    }

    #[test]
    fn an_operation_that_only_works_is_stuck() {
        // With calls and without.
        for calls in [0, 1] {
            let stuck = judged(|n| Some(look(5, n * calls, false, secs(100 + n))));
            assert_eq!(stuck, Some((60, Stuck::Busy(secs(60)))));
        }
        // On a machine so loaded that it gets a twentieth of a processor.
        let stuck = judged(|n| Some(look(5, n, !n.is_multiple_of(20), secs(n) / 20)));
        assert_eq!(stuck, Some((1200, Stuck::Busy(secs(60)))));
    }

    #[test]
    fn a_late_look_counts_as_one_in_time() {
        let mut judge = Judge::default();
        for _ in 0..59 {
            assert_eq!(judge.saw(look(5, 7, true, secs(1)), secs(3600), LIMITS), None);
        }
        // Another run, at the very same counts.
        let next = Look { run: 2, ..look(5, 7, true, secs(1)) };
        assert_eq!(judge.saw(next, secs(1), LIMITS), None);
        assert_eq!(judge.asleep, Duration::ZERO);
    }

    #[test]
    fn a_threads_status_is_read_whatever_its_name() {
        let line = "77 (a) S (b)) R 1 77 77 0 -1 4194368 100 0 0 0 250 50 0 0 20 0 3 0 12345 1 2\n";
        let read = parse_stat(line).unwrap();
        assert!(!read.asleep);
        assert_eq!(read.cpu, secs(3));
        assert!(parse_stat(&line.replace(") R ", ") S ")).unwrap().asleep);
        for broken in ["", "77 (a) ", "77 (a) R 1 2 3", &line.replace("250", "x")] {
            assert!(parse_stat(broken).is_none(), "{broken:?}");
        }
        let runner = Runner::this_thread().unwrap();
        let before = thread_use(&runner.stat).unwrap().cpu;
        while thread_use(&runner.stat).unwrap().cpu < before + 3 * TICK {}
        assert!(!thread_use(&runner.stat).unwrap().asleep);
    }
}
