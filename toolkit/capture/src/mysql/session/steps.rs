//! Decides whether requests and answers are in step. (CS3 of `session`.)
//!
//! A client is in one of three states.
//!  - It waits for its answers: exactly one answer lies between two requests, so the positions of
//!    the captured packets tell what was lost. This is assumed after it waited [`STEPS`] times; if
//!    it once failed to wait, only after [`super::synchrony::STEPS_AGAIN`] times without a doubt. A
//!    PREPARE and the execution of "the statement prepared last" that follows it are one step.
//!  - It does not wait (it pipelines): after any loss it is uncertain to which requests the next
//!    answers belong. This ends when both sides were silent for [`QUIET`], and for longer than any
//!    answer took.
//!  - It is not known yet, because there was a loss or the connection's beginning was not captured.
//!    Requests are then held back, at most [`MOST_HELD`], until the client is seen to wait. If it is
//!    seen not to wait, they have no time. Rejected: holding nothing back, and giving requests of
//!    this state no time. That is as honest but loses much. Of the load in `tests/it/losses.rs` 95
//!    of 100 statements would be measured instead of 98 when 1 % of the packets is missing, 73
//!    instead of 90 when 5 % is, and 25 instead of 63 when 20 % is; and a capture that begins within
//!    a connection would lack its first times.
//!
//! If the first request after a loss acknowledges no new bytes of the server, then, with any client,
//! it may have been sent before the answer to a lost request. Requests are in doubt from there on
//! until one exchange shows that requests and answers are in step. Where bytes of both sides are
//! missing this cannot be checked, and only a client that is assumed to wait is trusted.

use super::state::{Session, MOST_PENDING_BYTES};
use super::synchrony::{Synchrony, STEPS};
use crate::mysql::request::{End, Request};
use crate::mysql::words::Command;
use crate::output::Output;

/// When both sides were silent for this many nanoseconds, no answer is outstanding.
pub(super) const QUIET: i64 = 1_000_000_000;

/// At most this many requests are held back.
pub(super) const MOST_HELD: usize = 16;

impl Session {
    /// Called for each request: decides what the request shows about the client, and whether its
    /// answer can be identified.
    pub(super) fn step(&mut self, request: &mut Request, output: &mut Output<'_>) {
        // A torn request may become known only together with the loss of its answer.
        let passed = |r: &Request, end: u64| r.first.is_none() && r.begun.acknowledged < end;
        while !self.answers.synced
            && self.pending.front().is_some_and(|front| passed(front, self.server_end))
        {
            self.lose_front(output);
        }
        let alone = self.pending.iter().all(|r| !r.command.is_answered());
        let acknowledged = request.begun.acknowledged;
        let before = std::mem::replace(&mut self.steps.last, request.begun.time);
        self.watch(request, alone);
        if self.steps.is_known() {
            self.release(output);
        }
        // If the client had waited for the answer to a lost request, that answer would lie in
        // between.
        let behind_loss = self.lost.after.is_some_and(|at| acknowledged <= at);
        if behind_loss && acknowledged <= self.lost.at {
            // Either the lost bytes have no answer, or the client did not wait for it.
            self.steps.waited = 0;
        }
        // Behind a loss, an execution of the statement prepared last: the lost bytes held the
        // PREPARE.
        let without_prepare = request.of_last_prepared && self.steps.before.is_none();
        if request.command.is_answered() {
            self.steps.before = Some((request.command, acknowledged));
        }
        let out_of_step = behind_loss || without_prepare || !alone;
        if behind_loss || without_prepare {
            self.steps.sync = Synchrony::Doubtful;
        }
        if self.steps.sync == Synchrony::Doubtful && !out_of_step && self.in_step(request, before) {
            self.steps.sync =
                if self.steps.pipelines { Synchrony::InStep } else { Synchrony::Unknown };
        }
        request.ambiguous |= self.steps.sync == Synchrony::Doubtful;
    }

    /// The last answer belonged to the last request, which was sent at `before`: no other answer is
    /// outstanding, and the client continues from there.
    fn in_step(&self, request: &Request, before: i64) -> bool {
        self.answered.is_some_and(|(time, at)| {
            let silence = request.begun.time.saturating_sub(time.max(before));
            let quiet = silence > QUIET.max(self.steps.slowest);
            at == request.begun.acknowledged && (!self.steps.pipelines || quiet)
        })
    }

    /// Notes whether the client waits for its answers. `alone`: no answer is outstanding when it
    /// sends this.
    fn watch(&mut self, request: &Request, alone: bool) {
        let acknowledged = request.begun.acknowledged;
        match self.steps.before {
            // Part of the step before.
            Some((Command::Prepare, _)) if request.of_last_prepared => {}
            Some((_, before)) if acknowledged > before && alone => {
                self.steps.see_waiting();
            }
            None if alone => {}
            _ => self.see_pipelining(),
        }
    }

    /// The position in the server's stream is lost. If the client does not wait, it is unknown to
    /// which requests the next answers belong.
    pub(super) fn doubt_answers(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        if self.steps.sync == Synchrony::InStep {
            self.steps.sync = Synchrony::Unknown;
        }
        if self.steps.pipelines {
            self.doubt();
        }
    }

    /// The client was seen not to wait, but earlier losses were judged as if it did.
    fn see_pipelining(&mut self) {
        if self.steps.sync != Synchrony::InStep && !self.steps.pipelines {
            self.doubt();
        }
        self.steps.pipelines = true;
        (self.steps.waited, self.steps.proven) = (0, 0);
    }

    /// An answer shows that there are more requests than were seen.
    pub(super) fn see_out_of_step(&mut self) {
        self.doubt();
        self.see_pipelining();
    }

    /// From now on the next answer may belong to any of several requests.
    fn doubt(&mut self) {
        self.steps.sync = Synchrony::Doubtful;
        let held = self.held.iter_mut().map(|(request, _)| request);
        self.pending.iter_mut().chain(held).for_each(|request| request.ambiguous = true);
    }

    /// Whether the client was seen to wait for answers (CS3).
    pub(super) fn waits(&self) -> bool {
        self.steps.waited >= STEPS && !self.steps.pipelines
    }

    /// Yields a request, or holds it back while it is unknown whether the answer is its own.
    pub(super) fn give_out(&mut self, request: Request, end: End, output: &mut Output<'_>) {
        if self.held.is_empty() && self.steps.is_known() {
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

    /// Yields the requests that were held back.
    pub(super) fn release(&mut self, output: &mut Output<'_>) {
        while self.release_first(output) {}
    }

    /// Yields the first request that was held back; false if there is none.
    fn release_first(&mut self, output: &mut Output<'_>) -> bool {
        let Some((request, end)) = self.held.pop_front() else { return false };
        self.pending_bytes = self.pending_bytes.saturating_sub(request.bytes());
        self.emit(&request, end, output);
        output.reuse(request.sql);
        true
    }
}
