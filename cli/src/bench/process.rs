//! The resources that this process used, from the kernel's accounting in /proc/self.

use frond_vfs::{MemVfs, Vfs};
use serde::Serialize;

/// Ticks per second of the times in /proc/self/stat: USER_HZ, 100 on every Linux that Debian builds
/// for.
const TICKS_PER_SECOND: f64 = 100.0;

/// Totals since the process started; zeros where the kernel does not have them.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct Usage {
    /// User and system time of all threads.
    pub cpu_seconds: f64,
    /// Bytes handed to the storage layer: direct writes, and pages of the system's cache when
    /// dirtied.
    pub write_bytes: u64,
    pub read_bytes: u64,
    pub rss_bytes: u64,
    pub peak_rss_bytes: u64,
}

impl Usage {
    pub fn now() -> Usage {
        let read = |name| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let (io, status) = (read("io"), read("status"));
        Usage {
            cpu_seconds: cpu_seconds(&read("stat")).unwrap_or(0.0),
            write_bytes: field(&io, "write_bytes:").unwrap_or(0),
            read_bytes: field(&io, "read_bytes:").unwrap_or(0),
            rss_bytes: 1024 * field(&status, "VmRSS:").unwrap_or(0),
            peak_rss_bytes: 1024 * field(&status, "VmHWM:").unwrap_or(0),
        }
    }
}

/// utime + stime, the 14th and 15th fields. The 2nd is the command in parentheses, which may itself
/// hold spaces and parentheses: counting starts behind the last closing one.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The machine's clocks.
pub struct Clock(MemVfs);

impl Clock {
    pub fn new() -> Clock {
        Clock(MemVfs::new())
    }

    /// Time since some start.
    pub fn now(&self) -> std::time::Duration {
        self.0.now()
    }

    /// Processor time of the calling thread, so that other load on the machine does not count; wall
    /// time where the kernel does not have it.
    pub fn thread_time(&self) -> std::time::Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        match text.split(' ').next().and_then(|n| n.parse().ok()) {
            Some(ns) => std::time::Duration::from_nanos(ns),
            None => self.now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 1 1 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("nonsense"), None);
    }

    #[test]
    fn the_kernel_tells_about_this_process() {
        let usage = Usage::now();
        assert!(usage.rss_bytes > 0 && usage.peak_rss_bytes >= usage.rss_bytes / 2);
    }
}
