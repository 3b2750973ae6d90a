//! The processor's time, for tests of how long something takes.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What this thread has had of the processor so far, where the system tells; else a clock on the wall.
/// Other processes make a difference to the latter only.
pub fn clock() -> Duration {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.as_ref().and_then(|text| text.split(' ').next()).and_then(|n| n.parse().ok());
    nanos.map_or_else(|| BEGAN.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}
