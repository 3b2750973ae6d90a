//! Are requests and answers in step? (Invariant 3 of `session`.)
//!
//! What is known of a client is of three kinds.
//!  - It waits for its answers: one answer stands between two requests, and what was lost is known
//!    by the places of what was not. It is believed to if it was seen to [`STEPS`] times;
//!    [`STEPS_AGAIN`] times, without a doubt, if it was seen not to before. A PREPARE and the
//!    execution of "the statement prepared last" that follows it are one step.
//!  - It does not wait: whatever is lost leaves a doubt whose answers follow, until both sides were
//!    silent for [`QUIET`], and longer than any answer took.
//!  - Neither yet, behind a loss or where the begin of the connection is not known: requests are
//!    held back, [`MOST_HELD`] at most, until the client was seen to wait since. If it is seen not
//!    to, they have no time.
//!
//! Of any client, a request behind a loss that acknowledges none of the server's bytes since may
//! have been sent before the answer to a lost one. Requests are in doubt from there on until one
//! exchange shows that requests and answers are in step. Where bytes of both sides are missing that
//! cannot be told, and only a client that is believed to wait is trusted.

use super::{Session, MOST_PENDING_BYTES};
use crate::mysql::request::{End, Request};
use crate::mysql::words::Command;
use crate::Output;

/// A client that waited so many times is believed to wait.
pub(super) const STEPS: u8 = 4;

/// ... if it was seen not to.
pub(super) const STEPS_AGAIN: u8 = 16;

/// When both sides were silent for so many nanoseconds, nothing is due.
pub(super) const QUIET: i64 = 1_000_000_000;

/// So many requests are held back.
pub(super) const MOST_HELD: usize = 16;

impl Session {
    /// A request is there: what it shows of the client, and whether it can be told which answer is
    /// its own.
    pub(super) fn step(&mut self, request: &mut Request, output: &mut Output<'_>) {
        // A torn request may be known only when the loss of its answer is, too.
        let passed = |r: &Request, end: u64| r.first.is_none() && r.begun.acknowledged < end;
        while !self.answers.synced
            && self.pending.front().is_some_and(|front| passed(front, self.server_end))
        {
            self.lose_front(output);
        }
        let alone = self.pending.iter().all(|r| !r.command.is_answered());
        let acknowledged = request.begun.acknowledged;
        let before = self.pace.step(request.begun.time);
        self.watch(request, alone);
        if self.is_known() {
            self.release(output);
        }
        // The answer to a lost request, had the client waited for it, would be between.
        let behind_loss = self.lost_after.is_some_and(|at| acknowledged <= at);
        if behind_loss && acknowledged <= self.lost_at {
            // Either what was lost has no answer, or the client did not wait for it.
            self.steps = 0;
        }
        // Behind a loss, an execution of the statement prepared last: so what is lost prepared it.
        let without_prepare = request.of_last_prepared && self.before.is_none();
        if request.command.is_answered() {
            self.before = Some((request.command, acknowledged));
        }
        let out_of_step = behind_loss || without_prepare || !alone;
        self.doubtful |= behind_loss || without_prepare;
        if self.doubtful && !out_of_step && self.in_step(request, before) {
            self.doubtful = false;
            self.certain |= self.pipelines;
        }
        request.ambiguous |= self.doubtful;
    }

    /// The last answer was that to the last request, which was sent at `before`: the client goes on
    /// behind it, and nothing else is due.
    fn in_step(&self, request: &Request, before: i64) -> bool {
        self.answered.is_some_and(|(time, at)| {
            let silence = request.begun.time.saturating_sub(time.max(before));
            let quiet = silence > QUIET.max(self.slowest);
            at == request.begun.acknowledged && (!self.pipelines || quiet)
        })
    }

    /// Does the client wait for its answers? `alone`: none is due when it sends this.
    fn watch(&mut self, request: &Request, alone: bool) {
        let acknowledged = request.begun.acknowledged;
        match self.before {
            // Part of the step before.
            Some((Command::Prepare, _)) if request.of_last_prepared => {}
            Some((_, before)) if acknowledged > before && alone => {
                if !(self.pipelines && self.doubtful) {
                    self.steps = self.steps.saturating_add(1);
                    self.proven = self.proven.saturating_add(1);
                    self.pipelines &= self.steps < STEPS_AGAIN;
                }
            }
            None if alone => {}
            _ => self.see_pipelining(),
        }
    }

    /// The server's place is lost: of a client that does not wait, whose answers follow is not known.
    pub(super) fn doubt_answers(&mut self) {
        self.certain &= self.pending.is_empty();
        if self.pipelines && !self.pending.is_empty() {
            self.doubt();
        }
    }

    /// The client was seen not to wait: what was lost before was taken for what one loses that does.
    fn see_pipelining(&mut self) {
        if !self.certain && !self.pipelines {
            self.doubt();
        }
        self.pipelines = true;
        (self.steps, self.proven) = (0, 0);
    }

    /// An answer shows that there are more requests than were seen.
    pub(super) fn see_out_of_step(&mut self) {
        self.doubt();
        self.see_pipelining();
    }

    /// Whose answers the server gives may be another request's.
    fn doubt(&mut self) {
        self.doubtful = true;
        let held = self.held.iter_mut().map(|(request, _)| request);
        self.pending.iter_mut().chain(held).for_each(|request| request.ambiguous = true);
    }

    /// The client was seen to wait for answers (invariant 3).
    pub(super) fn waits(&self) -> bool {
        self.steps >= STEPS && !self.pipelines
    }

    /// Gives out a request, or holds it back while it is not known whether the answer is its own.
    pub(super) fn give_out(&mut self, request: Request, end: End, output: &mut Output<'_>) {
        if self.held.is_empty() && self.is_known() {
            self.emit(&request, end, output);
            return output.reuse(request.sql);
        }
        self.pending_bytes += request.bytes();
        self.held.push_back((request, end));
        while self.held.len() > MOST_HELD || self.pending_bytes > MOST_PENDING_BYTES {
            if !self.release_first(output) {
                break;
            }
        }
    }

    /// Gives out what was held back.
    pub(super) fn release(&mut self, output: &mut Output<'_>) {
        while self.release_first(output) {}
    }

    /// Gives out the first that was held back, if any was.
    fn release_first(&mut self, output: &mut Output<'_>) -> bool {
        let Some((request, end)) = self.held.pop_front() else { return false };
        self.pending_bytes = self.pending_bytes.saturating_sub(request.bytes());
        self.emit(&request, end, output);
        output.reuse(request.sql);
        true
    }

    /// Invariant 3: requests and answers are in step, or the client is known to wait or not to.
    fn is_known(&self) -> bool {
        self.certain || self.pipelines || self.proven >= STEPS
    }
}
