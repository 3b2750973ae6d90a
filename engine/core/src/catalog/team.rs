//! Threads that work for one statement, which waits for them: tasks that know nothing of each other.
//!
//! - TM1. No task is under way when a [`Running`] is gone: dropping it stops the tasks and waits for them.
//! - TM2. Only the statement's own thread asks whether the statement was killed. The others look at a flag.
//!
//! Where `vfs` starts no threads (the simulator), or the engine has none, the statement's thread does the tasks itself, in
//! their order, when it waits for them.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};
use frond_vfs::JoinThread;
use parking_lot::Mutex;

use crate::commit::core::Core;

/// A poll: its error ends the work.
pub(crate) type Poll<'a> = &'a mut dyn FnMut() -> Result<()>;

/// What a thread does. It polls now and then.
pub(crate) type Task<T> = Box<dyn FnOnce(Poll<'_>) -> Result<T> + Send>;

struct State<T> {
    waiting: VecDeque<(usize, Task<T>)>,
    /// Tasks under way.
    taken: usize,
    /// By the tasks' order.
    results: Vec<Option<T>>,
    /// The first error.
    failure: Option<Error>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    stop: AtomicBool,
}

/// Tasks that were started.
pub(crate) struct Running<T> {
    core: Arc<Core>,
    shared: Arc<Shared<T>>,
    threads: Vec<Box<dyn JoinThread>>,
}

impl<T: Send + 'static> Running<T> {
    /// Starts the tasks on as many threads as the engine has for work in the background.
    pub fn start(core: &Arc<Core>, tasks: Vec<Task<T>>) -> Running<T> {
        // The statement's thread is one of them.
        let wanted = core.options.background_threads.min(tasks.len()).saturating_sub(1);
        let results = tasks.iter().map(|_| None).collect();
        let waiting = tasks.into_iter().enumerate().collect();
        let state = Mutex::new(State { waiting, taken: 0, results, failure: None });
        let shared = Arc::new(Shared { state, stop: AtomicBool::new(false) });
        let thread = |n: usize| {
            let shared = shared.clone();
            let work = Box::new(move || while shared.take(&mut || shared.go_on()) {});
            core.shared.vfs.spawn(&format!("frond-build-{n}"), work)
        };
        let mut running =
            Running { core: core.clone(), shared: shared.clone(), threads: Vec::new() };
        // If the system has no thread left for one, the others do its work.
        running.threads.extend((0..wanted).map_while(|n| thread(n).ok()).flatten());
        running
    }

    /// Waits for all tasks, and helps; what they returned, in their order.
    pub fn wait(mut self, poll: Poll<'_>) -> Result<Vec<T>> {
        let shared = self.shared.clone();
        // What failed elsewhere ends a task here, too.
        while shared.take(&mut || shared.go_on().and_then(|()| poll())) {}
        while shared.state.lock().taken > 0 {
            if shared.go_on().is_ok() {
                poll()?;
            }
            self.core.queue.pause();
        }
        self.threads.drain(..).for_each(|thread| thread.join());
        let mut state = self.shared.state.lock();
        match state.failure.take() {
            Some(e) => Err(e),
            None => Ok(std::mem::take(&mut state.results).into_iter().flatten().collect()),
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut self.shared.state.lock().waiting);
        drop(waiting);
        self.threads.drain(..).for_each(|thread| thread.join());
    }
}

impl<T> Shared<T> {
    /// The poll of a thread (TM2).
    fn go_on(&self) -> Result<()> {
        match self.stop.load(Ordering::Acquire) {
            true => Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted")),
            false => Ok(()),
        }
    }

    /// Does one task; false when none is left.
    fn take(&self, poll: Poll<'_>) -> bool {
        let mut state = self.state.lock();
        if state.failure.is_some() {
            return false;
        }
        let Some((n, task)) = state.waiting.pop_front() else { return false };
        state.taken += 1;
        drop(state);
        let outcome = catch_unwind(AssertUnwindSafe(|| task(poll))).unwrap_or_else(|_| {
            let what = "internal error while an index was built; please report it";
            Err(Error::new(ErrorKind::Panic, what))
        });
        let mut state = self.state.lock();
        state.taken -= 1;
        match outcome {
            Ok(result) => state.results[n] = Some(result),
            Err(e) => {
                state.failure.get_or_insert(e);
                self.stop.store(true, Ordering::Release);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use frond_vfs::{forward, MemVfs, OpenHow, Spawned, Vfs, VfsFile};

    use crate::engine::Engine;
    use crate::options::Options;

    use super::*;

    /// A system that has no thread left for a team's thread of this number and those behind it.
    struct FewThreads(MemVfs, &'static str);

    impl Vfs for FewThreads {
        forward!(0: exists rename remove list sync_dir lock_dir clocks);

        fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
            self.0.open(name, how)
        }

        fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Spawned {
            match name.strip_prefix("frond-build-").is_some_and(|n| n >= self.1) {
                true => Err(io::ErrorKind::WouldBlock.into()),
                false => self.0.spawn(name, work),
            }
        }
    }

    fn engine(vfs: impl Vfs + 'static, background_threads: usize) -> Engine {
        let options = Options { cache_bytes: 8 << 20, background_threads, ..Options::default() };
        Engine::open(Arc::new(vfs), options).unwrap()
    }

    fn task(n: usize) -> Task<usize> {
        Box::new(move |poll| poll().map(|()| n))
    }

    /// Polls until it is told to end.
    fn endless() -> Task<usize> {
        Box::new(|poll| loop {
            poll()?;
            std::thread::yield_now();
        })
    }

    #[test]
    fn results_come_in_the_order_of_the_tasks_with_and_without_threads() {
        for (vfs, threads) in [(MemVfs::stepped(), 0), (MemVfs::stepped(), 3), (MemVfs::new(), 3)] {
            let engine = engine(vfs, threads);
            for count in [0, 1, 2, 40] {
                let running = Running::start(engine.core(), (0..count).map(task).collect());
                let found = running.wait(&mut || Ok(())).unwrap();
                assert_eq!(found, (0..count).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn an_error_and_a_panic_of_one_task_end_the_others() {
        let failing: Task<usize> = Box::new(|_| Err(Error::new(ErrorKind::NoSpace, "full")));
        let panicking: Task<usize> = Box::new(|_| panic!("a task panics, as it should here"));
        for (bad, kind) in [(failing, ErrorKind::NoSpace), (panicking, ErrorKind::Panic)] {
            let engine = engine(MemVfs::new(), 3);
            let running = Running::start(engine.core(), vec![endless(), bad, endless(), task(7)]);
            assert_eq!(running.wait(&mut || Ok(())).unwrap_err().kind(), kind);
        }
    }

    #[test]
    fn a_poll_that_fails_ends_all_tasks_before_the_wait_returns() {
        let engine = engine(MemVfs::new(), 2);
        let running = Running::start(engine.core(), vec![endless(), endless(), endless()]);
        let shared = running.shared.clone();
        let mut polls = 0;
        let mut poll = || {
            polls += 1;
            match polls < 100 {
                true => Ok(()),
                false => Err(Error::new(ErrorKind::Interrupted, "killed")),
            }
        };
        assert_eq!(running.wait(&mut poll).unwrap_err().kind(), ErrorKind::Interrupted);
        assert_eq!(shared.state.lock().taken, 0, "TM1");
    }

    #[test]
    fn threads_that_cannot_start_leave_their_tasks_to_the_others() {
        for first in ["0", "1"] {
            let engine = engine(FewThreads(MemVfs::new(), first), 3);
            let running = Running::start(engine.core(), (0..3).map(task).collect());
            assert_eq!(running.threads.len().to_string(), first);
            assert_eq!(running.wait(&mut || Ok(())).unwrap(), [0, 1, 2]);
        }
    }
}
