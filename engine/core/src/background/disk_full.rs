//! Whether the disk is full: then commits are refused before anything is logged, so that nothing is lost
//! and nothing needs to be poisoned. Jobs and the log thread find out when there is room again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::background::held_writers::HeldWriters;

/// See the module.
pub struct DiskFull {
    /// What commits are told.
    why: Mutex<Option<Error>>,
    is_full: AtomicBool,
    writers: Arc<HeldWriters>,
}

impl DiskFull {
    pub fn new(writers: Arc<HeldWriters>) -> DiskFull {
        DiskFull { why: Mutex::default(), is_full: AtomicBool::new(false), writers }
    }

    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Fails when the disk is full.
    pub fn check(&self) -> Result<()> {
        if !self.is_full.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.why.lock() {
            Some(e) => Err(e.duplicate()),
            None => Ok(()),
        }
    }

    /// Notes a full disk (other errors pass) and returns the error to report.
    pub fn note(&self, failure: Error) -> Error {
        if failure.kind() != ErrorKind::NoSpace {
            return failure;
        }
        self.begin(&failure);
        self.check().err().unwrap_or(failure)
    }

    /// The disk is full: `failure` says where that was met.
    pub fn begin(&self, failure: &Error) {
        let told = Error::new(
            ErrorKind::NoSpace,
            format!("{}; free some space: writing goes on by itself then", failure.message()),
        );
        self.set(Some(told));
    }

    /// There is room again, or may be.
    pub fn end(&self) {
        self.set(None);
    }

    fn set(&self, told: Option<Error>) {
        let mut why = self.why.lock();
        self.is_full.store(told.is_some(), Ordering::Release);
        *why = told;
        self.writers.wake();
    }
}
