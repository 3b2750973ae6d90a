//! Ctrl-C, SIGTERM and SIGHUP set a flag that every wait checks.
//!
//! Invariant: the handler does nothing but set the flag, so that servers are stopped in order by the
//! code that started them.

use std::sync::atomic::{AtomicBool, Ordering};

pub const MESSAGE: &str = "interrupted";

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler; called once, at the start of the program.
pub fn install() -> Result<(), String> {
    ctrlc::set_handler(|| REQUESTED.store(true, Ordering::SeqCst)).map_err(|e| e.to_string())
}

pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}
