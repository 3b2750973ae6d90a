//! The clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since the epoch.
#[allow(clippy::disallowed_methods)] // A calendar's clock, not the engine's.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
}
