//! One line on the terminal while a long input is read: how much was read, how fast, and how long
//! it will still take.

use std::time::{Duration, Instant};

use frond_digest::run::Progress;

/// The last characters of an input's name that are shown.
const NAME: usize = 20;

/// See the module's text. Nothing is written for work that takes less than a second.
pub struct Shown {
    wanted: bool,
    began: Instant,
    last: Instant,
    written: bool,
}

impl Shown {
    pub fn new(wanted: bool) -> Shown {
        let now = now();
        Shown { wanted, began: now, last: now, written: false }
    }

    pub fn update(&mut self, progress: Progress<'_>) {
        if !self.wanted {
            return;
        }
        let now = now();
        if now - self.last < Duration::from_millis(if self.written { 200 } else { 1000 }) {
            return;
        }
        self.last = now;
        self.written = true;
        eprint!("\r\x1b[K{}", line(&progress, (now - self.began).as_secs_f64()));
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.written) {
            eprint!("\r\x1b[K");
        }
    }
}

/// A terminal's clock, not the engine's.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

fn line(progress: &Progress<'_>, seconds: f64) -> String {
    let done = progress.done as f64;
    let rate = done / seconds.max(1e-3);
    // A line wider than the terminal could not be overwritten.
    let name = match progress.name.char_indices().rev().nth(NAME - 1) {
        Some((from, _)) if from > 0 => format!("...{}", &progress.name[from..]),
        _ => progress.name.to_owned(),
    };
    let mut line = format!("{name}: {:.0} MB at {:.0} MB/s", done / 1e6, rate / 1e6);
    if let Some(total) = progress.total.filter(|t| *t > 0) {
        let left = (total as f64 - done).max(0.0) / rate.max(1.0);
        let percent = (done / total as f64 * 100.0).min(100.0);
        line += &format!(", {percent:.0} % of {:.0} MB, {left:.0} s left", total as f64 / 1e6);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left_are_shown() {
        let progress = Progress { name: "slow.log", done: 250_000_000, total: Some(1_000_000_000) };
        assert_eq!(line(&progress, 0.5), "slow.log: 250 MB at 500 MB/s, 25 % of 1000 MB, 2 s left");
        let name = format!("/var/log/{}/slow.log", "\u{e9}".repeat(100));
        let long = Progress { name: &name, done: 999_000_000_000, total: Some(1_000_000_000_000) };
        let line_of_long = line(&long, 2000.0);
        assert!(line_of_long.chars().count() < 80, "{line_of_long}");
        assert!(line_of_long.starts_with("...") && line_of_long.contains("/slow.log: 999000 MB"));
        let pipe = Progress { name: "-", done: 1_000_000, total: None };
        assert_eq!(line(&pipe, 1.0), "-: 1 MB at 1 MB/s");
    }
}
