//! The state of whether requests and answers are in step; `steps` decides when it changes.

use crate::mysql::words::Command;

/// A client that waited this many times is assumed to wait.
pub(super) const STEPS: u8 = 4;

/// The same number for a client that once was seen not to wait.
pub(super) const STEPS_AGAIN: u8 = 16;

/// Whether requests and answers are in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synchrony {
    /// Yes, even if the client does not wait for its answers.
    InStep,
    /// Only if the client waits. While that is unknown, nothing is yielded with a time.
    Unknown,
    /// An answer may be another request's: requests from here on have no time.
    Doubtful,
}

/// The state of a client.
pub(super) struct Steps {
    pub(super) sync: Synchrony,
    /// It sends requests before it has the answers to earlier ones.
    pub(super) pipelines: bool,
    /// The previous request, and what it acknowledged, if no request was lost since.
    pub(super) before: Option<(Command, u64)>,
    /// Number of requests that the client sent only after the answer to its previous request.
    /// Counted since it last did not wait, or since the last loss of requests.
    pub(super) waited: u8,
    pub(super) proven: u8,
    /// Time of the previous request, lost or not.
    pub(super) last: i64,
    /// The longest that an answer took, to its last byte: nanoseconds.
    pub(super) slowest: i64,
}

impl Steps {
    pub(super) fn new(sync: Synchrony) -> Self {
        Steps { sync, pipelines: false, before: None, waited: 0, proven: 0, slowest: 0, last: 0 }
    }

    /// Requests are lost. `in_doubt`: it is unknown whose answers follow.
    pub(super) fn lose(&mut self, in_doubt: bool) {
        self.sync = match self.sync {
            Synchrony::InStep | Synchrony::Unknown if !in_doubt => Synchrony::Unknown,
            _ => Synchrony::Doubtful,
        };
        self.proven = 0;
        self.before = None;
    }

    /// The client had the answer to its last request when it sent this one.
    pub(super) fn see_waiting(&mut self) {
        if self.pipelines && self.sync == Synchrony::Doubtful {
            return;
        }
        self.waited = self.waited.saturating_add(1);
        self.proven = self.proven.saturating_add(1);
        self.pipelines &= self.waited < STEPS_AGAIN;
    }

    /// Requests and answers are in step, or the client is known to wait or not to.
    pub(super) fn is_known(&self) -> bool {
        self.sync == Synchrony::InStep || self.pipelines || self.proven >= STEPS
    }
}
