//! Pacing: writers are slowed in proportion to the background work that they cause.
//!
//! Two pressures count, each as a fraction of its own limit: bytes in write buffers (memory) and merge debt
//! (read cost and space). Below a soft mark no writer waits. Above it a commit of `n` bytes is delayed by
//! the time in which background work drains `n` bytes, times a factor that grows from 0 at the soft mark to
//! [`FACTOR_MAX`] at the limit. So arrivals approach the drain rate smoothly. Rejected: fixed steps (slow
//! down at 20 files, stop at 36), which give the same mean rate and make the slowest statement a hundred
//! times slower. Only at the memory limit do writers wait for space.
//!
//! The drain rate is measured: bytes that jobs read per time they ran, as a moving average.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Where pacing starts, as a share of the limit.
const SOFT: f64 = 0.6;
/// Delay at the limit, in units of the time that draining the same bytes takes.
const FACTOR_MAX: f64 = 3.0;
/// The longest single delay: a large commit is slowed, not stopped.
const DELAY_MAX: Duration = Duration::from_millis(20);
/// Assumed before anything was measured, bytes per second.
const DRAIN_RATE_START: u64 = 100 << 20;

/// The pacing state of one engine.
pub struct Pacer {
    /// Bytes per second that background work reads, moving average.
    drain_rate: AtomicU64,
    delayed_micros: AtomicU64,
}

impl Default for Pacer {
    fn default() -> Self {
        Pacer { drain_rate: AtomicU64::new(DRAIN_RATE_START), delayed_micros: AtomicU64::new(0) }
    }
}

impl Pacer {
    /// A job read `bytes` and ran for `time`. A job that reads nothing, such as attaching runs,
    /// does not count.
    pub fn drained(&self, bytes: u64, time: Duration) {
        if bytes == 0 {
            return;
        }
        let micros = time.as_micros().max(1) as u64;
        let rate = bytes.saturating_mul(1_000_000) / micros;
        let old = self.drain_rate.load(Relaxed);
        // The new value weighs one eighth: a single slow job must not stall all writers.
        self.drain_rate.store((old - old / 8 + rate / 8).max(1 << 20), Relaxed);
    }

    /// The delay of a commit of `bytes`, given both pressures as shares of their limits (1.0 = at the limit).
    pub fn delay(&self, bytes: u64, memory: f64, debt: f64) -> Duration {
        let pressure = memory.max(debt);
        if pressure <= SOFT {
            return Duration::ZERO;
        }
        let factor = FACTOR_MAX * ((pressure - SOFT) / (1.0 - SOFT)).min(1.0).powi(2);
        let seconds = bytes as f64 / self.drain_rate.load(Relaxed) as f64 * factor;
        let delay = Duration::from_secs_f64(seconds.min(DELAY_MAX.as_secs_f64()));
        self.delayed_micros.fetch_add(delay.as_micros() as u64, Relaxed);
        delay
    }

    pub fn drain_rate(&self) -> u64 {
        self.drain_rate.load(Relaxed)
    }

    /// Sum of all delays, microseconds.
    pub fn delayed_micros(&self) -> u64 {
        self.delayed_micros.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_below_the_soft_mark() {
        let pacer = Pacer::default();
        assert_eq!(pacer.delay(1 << 20, 0.59, 0.1), Duration::ZERO);
    }

    #[test]
    fn delay_grows_with_pressure_and_is_capped() {
        let pacer = Pacer::default();
        let mut last = Duration::ZERO;
        for pressure in [0.7, 0.8, 0.9, 1.0] {
            let d = pacer.delay(100_000, 0.0, pressure);
            assert!(d > last);
            last = d;
        }
        assert_eq!(pacer.delay(1 << 30, 1.0, 0.0), DELAY_MAX);
        assert_eq!(pacer.delay(1 << 30, 5.0, 0.0), DELAY_MAX);
    }

    #[test]
    fn jobs_that_take_nothing_in_do_not_slow_writers_down() {
        let pacer = Pacer::default();
        for _ in 0..100 {
            pacer.drained(0, Duration::from_millis(1));
        }
        assert_eq!(pacer.drain_rate(), DRAIN_RATE_START);
    }

    #[test]
    fn slow_draining_means_longer_delays() {
        let pacer = Pacer::default();
        let before = pacer.delay(10_000, 0.9, 0.0);
        for _ in 0..50 {
            pacer.drained(1 << 20, Duration::from_secs(1));
        }
        assert!(pacer.delay(10_000, 0.9, 0.0) > before * 10);
    }
}
