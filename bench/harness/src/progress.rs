//! Live progress of a run, on a terminal and without one.
//!
//! Purpose: on a terminal one line that is rewritten; otherwise (a log, a pipe) a plain line
//! every few seconds.
//!
//! Invariants
//!
//! - PR1. Without a terminal nothing but complete lines of printable characters is written.
//! - PR2. It is called at most ten times a second and never blocks the measuring for long.
//!
//! Tested below.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::result::Point;
use crate::units;

const PLAIN_EVERY: Duration = Duration::from_secs(5);
const BAR_WIDTH: usize = 24;

pub struct Progress {
    label: &'static str,
    rows_wanted: u64,
    start: Instant,
    terminal: bool,
    last_plain: Instant,
    line: String,
    rows: u64,
}

impl Progress {
    pub fn start(label: &'static str, rows_wanted: u64) -> Progress {
        let now = Instant::now();
        Progress {
            label,
            rows_wanted,
            start: now,
            terminal: io::stdout().is_terminal(),
            last_plain: now,
            line: String::new(),
            rows: 0,
        }
    }

    /// A new interval from the client.
    pub fn interval(&mut self, point: &Point) {
        self.rows = point.rows;
        let rate = point.interval_rows as f64 / point.interval_seconds.max(1e-9);
        self.line = format!(
            "{:>9} rows/s  p99 {:>8}  memory {:>8}",
            units::grouped(rate.round() as u64),
            units::micros(point.statement.p99_us as f64),
            units::bytes(point.server_rss_bytes),
        );
        self.draw();
        if !self.terminal && self.last_plain.elapsed() >= PLAIN_EVERY {
            self.last_plain = Instant::now();
            self.print_plain();
        }
    }

    /// No line came: redraws the clock, so that a stalled server is seen to stall.
    pub fn tick(&mut self, _rss_bytes: u64) {
        self.draw();
    }

    /// The insert phase is over; shows the current phase.
    pub fn note(&mut self, what: &str) {
        if !self.terminal {
            self.print_plain();
        }
        self.line = what.to_string();
        self.draw();
    }

    /// Ends the line.
    pub fn finish(&mut self) {
        if self.terminal {
            print!("\r\x1b[2K");
            let _ = io::stdout().flush();
        }
    }

    fn head(&self) -> String {
        head(self.label, self.rows, self.rows_wanted, self.start.elapsed().as_secs())
    }

    fn draw(&self) {
        if self.terminal {
            let bar = bar(self.rows, self.rows_wanted);
            print!("\r\x1b[2K  {} {bar}  {}", self.head(), self.line);
            let _ = io::stdout().flush();
        }
    }

    fn print_plain(&self) {
        println!("  {}  {}", self.head(), self.line);
    }
}

fn head(label: &str, rows: u64, wanted: u64, seconds: u64) -> String {
    let percent = rows * 100 / wanted.max(1);
    format!("{label:<10}{seconds:>4} s {:>12} rows {percent:>3} %", units::grouped(rows))
}

/// A bar of ASCII characters: fonts and log viewers are not to be relied on.
fn bar(done: u64, all: u64) -> String {
    let full = (done.min(all) as usize * BAR_WIDTH) / all.max(1) as usize;
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR_WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_always_as_wide() {
        for done in [0, 1, 50, 99, 100, 250] {
            assert_eq!(bar(done, 100).len(), BAR_WIDTH + 2);
        }
        assert!(bar(100, 100).contains(&"#".repeat(BAR_WIDTH)));
        assert_eq!(bar(0, 0).len(), BAR_WIDTH + 2);
    }

    #[test]
    fn head_says_engine_time_rows_and_share() {
        let h = head("MyRocks", 2_500_000, 5_000_000, 50);
        assert_eq!(h, "MyRocks     50 s    2,500,000 rows  50 %");
    }
}
