//! Ctrl-C while a server is watched: the first ends the watching, and the report is written. A
//! second one ends the program, but only if it comes later than [`AGAIN`]: `timeout` and some
//! shells send the signal twice, to the program and to its process group.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Two signals within this time count as one.
const AGAIN: Duration = Duration::from_millis(500);

/// See the module's text.
pub struct Stop {
    asked: Arc<AtomicBool>,
    until: Option<Instant>,
}

impl Stop {
    /// Stops at a signal from now on, and after `time` at the latest.
    #[allow(clippy::disallowed_methods)] // The thread that takes signals is none of the engine's.
    pub fn after(time: Option<Duration>) -> Stop {
        let asked = Arc::new(AtomicBool::new(false));
        // Where signals cannot be caught, they end the program as usual.
        if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) {
            let asked = asked.clone();
            std::thread::spawn(move || {
                let mut first = None;
                for _ in signals.forever() {
                    let first = *first.get_or_insert_with(now);
                    if asked.swap(true, Ordering::Relaxed) && now() - first > AGAIN {
                        std::process::exit(130);
                    }
                }
            });
        }
        Stop { asked, until: time.map(|time| now() + time) }
    }

    pub fn is_due(&self) -> bool {
        self.asked.load(Ordering::Relaxed) || self.until.is_some_and(|until| now() >= until)
    }

    /// Sleeps until `then`, or until it is time to stop; true if it is time to stop.
    #[allow(clippy::disallowed_methods)] // A signal handler can wake no condition.
    pub fn sleep_until(&self, then: Instant) -> bool {
        const SLICE: Duration = Duration::from_millis(50);
        loop {
            if self.is_due() {
                return true;
            }
            let then = self.until.map_or(then, |until| until.min(then));
            let left = then.saturating_duration_since(now());
            if left.is_zero() {
                return self.is_due();
            }
            std::thread::sleep(left.min(SLICE));
        }
    }
}

/// The clock for waiting; it is not the engine's.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_bound_ends_a_longer_sleep() {
        let stop = Stop::after(Some(Duration::from_millis(80)));
        assert!(!stop.sleep_until(now() + Duration::from_millis(10)));
        let began = now();
        assert!(stop.sleep_until(now() + Duration::from_secs(60)));
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
