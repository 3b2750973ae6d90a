//! Time, and the flag that stops the work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

#[allow(clippy::disallowed_methods)] // Nothing here runs in the simulator.
pub fn now() -> Instant {
    Instant::now()
}

/// A flag that a signal handler sets and that every thread reads before each operation.
#[derive(Default)]
pub struct Stop(AtomicBool);

impl Stop {
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn check(&self) -> Result<()> {
        match self.requested() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }
}

/// Time that is divided among the measurements still to come.
pub struct Budget {
    end: Instant,
    weight_left: u32,
}

impl Budget {
    pub fn new(total: Duration, weight: u32) -> Budget {
        Budget { end: now() + total, weight_left: weight }
    }

    /// The time for a part of `weight`: its share of what is left. So a part that took too long
    /// shortens the others, and the whole does not become longer. At least 10 ms.
    pub fn share(&mut self, weight: u32) -> Duration {
        assert!(weight > 0 && weight <= self.weight_left);
        let left = self.end.saturating_duration_since(now());
        let share = left * weight / self.weight_left;
        self.weight_left -= weight;
        share.max(Duration::from_millis(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_is_left() {
        let mut budget = Budget::new(Duration::from_secs(100), 4);
        let near = |d: Duration, s: f64| (d.as_secs_f64() - s).abs() < 1.0;
        assert!(near(budget.share(1), 25.0));
        // Nothing of the first share was used, so the rest is divided anew.
        assert!(near(budget.share(1), 33.3));
        let mut spent = Budget::new(Duration::ZERO, 1);
        assert_eq!(spent.share(1), Duration::from_millis(10));
    }
}
