//! Jobs: the threads, which job is next, running it, and what happens when it fails.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use frond_base::{Error, ErrorKind, Readers, Result};
use frond_tree::{Plan, Step, Tree};
use frond_vfs::JoinThread;

use crate::background::running_work::{name_of, Work};
use crate::commit::core::Core;
use crate::table::Table;

/// A worker that finds nothing to do looks again after this long.
const IDLE_WAIT: Duration = Duration::from_millis(100);
/// The log thread's round.
const LOG_ROUND: Duration = Duration::from_millis(100);
/// A tree whose plan was overtaken is looked at again after this long.
const OVERTAKEN_WAIT: Duration = Duration::from_millis(5);

impl Core {
    /// Starts the threads, adding them to `threads`. Does nothing where `vfs` starts no threads, and in a read-only database.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: the system has no thread left. Those that started run.
    pub(crate) fn start_background(
        self: &Arc<Self>,
        threads: &mut Vec<Box<dyn JoinThread>>,
    ) -> Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        let mut start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let doing = "start a thread (raise the limit of the process) for";
            let started = self.shared.vfs.spawn(name, run);
            threads.extend(started.map_err(|e| Error::io(doing, name, e))?);
            Ok(())
        };
        for n in 0..self.options.background_threads {
            let core = self.clone();
            let run = move || {
                core.shared.vfs.yield_to_others();
                core.poison_on_panic(|| {
                    while !core.queue.stopping() {
                        if !core.work_step() && core.queue.rest(IDLE_WAIT) {
                            core.shared.run_memory.clear();
                        }
                    }
                    core.shared.run_memory.clear();
                });
            };
            start(&format!("frond-work-{n}"), Box::new(run))?;
        }
        if self.options.background_threads > 0 {
            let core = self.clone();
            let run = move || {
                core.poison_on_panic(|| {
                    while !core.queue.stopping() {
                        core.log_round();
                        core.queue.rest(LOG_ROUND);
                    }
                });
            };
            start("frond-log", Box::new(run))?;
        }
        Ok(())
    }

    /// Runs a background thread's work. A panic there ends the thread. Then the engine is poisoned:
    /// otherwise writers would wait for jobs, or commits for syncs, that no thread does.
    fn poison_on_panic(&self, work: impl FnOnce()) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(work)) else { return };
        let what = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown cause");
        let failure = Error::new(
            ErrorKind::Panic,
            format!("internal error in the background: {what}; restart, and please report it"),
        );
        self.messages.say(0, failure.message());
        self.shared.poison(failure);
        self.queue.wake();
    }

    /// A step of a worker. False when there was nothing to do.
    fn work_step(self: &Arc<Self>) -> bool {
        let cleared = self.clear_dropped() | self.clear_dropped_index();
        self.job_step() || self.sample_step() || cleared
    }

    /// One step of everything, for an owner without threads. False when there was nothing to do.
    pub fn background_step(self: &Arc<Self>) -> bool {
        if self.options.read_only {
            return false;
        }
        self.log_round();
        let worked = self.work_step();
        if !worked {
            self.shared.run_memory.clear();
        }
        worked
    }

    /// Takes the most urgent job and runs it to its end. False when there is none.
    pub(crate) fn job_step(self: &Arc<Self>) -> bool {
        let Some((table, tree, plan)) = self.most_urgent() else { return false };
        let Some(mut job) = tree.begin(&plan, self.readers.retention()) else {
            // Overtaken by another thread's job: the tree is checked again a little later, so that
            // a plan that never begins cannot keep a thread busy.
            if self.options.background_threads > 0 {
                self.queue.overtaken(tree.id(), self.shared.vfs.now() + OVERTAKEN_WAIT);
            }
            self.ledger.note(&table, &tree);
            return true;
        };
        // The tree's work is no longer offered to other threads.
        self.ledger.note(&table, &tree);
        let _running = self.queue.begin_job();
        let started = self.shared.vfs.now();
        let work = Work::new(name_of(plan.kind), table.id(), started);
        let input_bytes = job.input_bytes();
        let under_way = self.works.begin(work.of(Some(tree.id().index), input_bytes));
        let outcome = loop {
            if self.queue.stopping() {
                return false;
            }
            match job.step() {
                // A part of it may be in the trunk and make work for other threads.
                Ok(Step::More) => {
                    self.ledger.note(&table, &tree);
                    under_way.wrote(job.bytes_written());
                }
                Ok(Step::Done) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        drop((job, under_way));
        self.ledger.note(&table, &tree);
        let now = self.shared.vfs.now();
        self.counters.jobs.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Ok(()) => {
                self.pressure.pacer.drained(input_bytes, now.saturating_sub(started));
                self.queue.succeeded(tree.id());
                if self.disk.is_full() {
                    self.disk.end();
                }
            }
            // The table was dropped: there is nothing to report.
            Err(_) if table.is_dropped() => {}
            Err(e) => self.job_failed(&tree, &e, now),
        }
        table.store().reclaim();
        self.measure();
        true
    }

    fn job_failed(&self, tree: &Tree, failure: &Error, now: Duration) {
        self.counters.job_failures.fetch_add(1, Ordering::Relaxed);
        match failure.kind() {
            ErrorKind::NoSpace => self.disk.begin(failure),
            // `Poisoned`: the table's file refuses to be written after an earlier failure.
            ErrorKind::Io | ErrorKind::Poisoned => {
                self.shared.poison(failure.duplicate());
            }
            _ => {}
        }
        if self.messages.is_news(Some(tree.id()), failure.kind(), now) {
            let goes_on = match failure.kind() {
                ErrorKind::Corruption => {
                    "; background work goes around what is damaged, and reads of it fail"
                }
                _ => "",
            };
            let what = format!("background work on tree {}: {failure}{goes_on}", tree.id());
            self.messages.say(0, &what);
        }
        self.queue.failed(tree.id(), failure, now);
    }

    pub(crate) fn most_urgent(&self) -> Option<(Arc<Table>, Tree, Plan)> {
        let now = self.shared.vfs.now();
        let held = |tree| self.queue.is_held(tree, now);
        self.ledger.most_urgent(self.pressure.memory_is_short(), &held)
    }
}
