//! What a server process costs, read from /proc.
//!
//! What it is for: CPU time, bytes written and memory of one process by its id. The kernel's own
//! accounting is used rather than the server's status counters: it counts all threads, including
//! those that an engine forgets to count.
//!
//! Invariants
//!
//! - SA1. Parsing never panics on what a kernel might print; it says which file was not understood.
//!
//! What it does not do: children. A server has none.
//!
//! Tested below, and by every run of the demo.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

/// Ticks per second of the CPU times in /proc/<pid>/stat: USER_HZ, 100 on every Linux that Debian
/// builds for.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// User and system time of all threads so far.
    pub cpu_seconds: f64,
    /// Bytes handed to the storage layer (direct writes, and page-cache pages when dirtied).
    pub write_bytes: u64,
    /// Bytes fetched from the storage layer.
    pub read_bytes: u64,
    /// Resident memory now.
    pub rss_bytes: u64,
    /// Resident memory at its highest since the process started.
    pub peak_rss_bytes: u64,
}

/// Reads all of it for one process. An error means the process has gone, or a kernel that hides it.
pub fn sample(pid: u32) -> Result<Sample, String> {
    let read = |name: &str| {
        let path = format!("/proc/{pid}/{name}");
        fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))
    };
    let status = read("status")?;
    let io = read("io")?;
    Ok(Sample {
        cpu_seconds: cpu_seconds(&read("stat")?).ok_or("/proc/<pid>/stat is not understood")?,
        write_bytes: field(&io, "write_bytes:").ok_or("/proc/<pid>/io has no write_bytes")?,
        read_bytes: field(&io, "read_bytes:").ok_or("/proc/<pid>/io has no read_bytes")?,
        rss_bytes: 1024 * field(&status, "VmRSS:").ok_or("/proc/<pid>/status has no VmRSS")?,
        peak_rss_bytes: 1024 * field(&status, "VmHWM:").ok_or("/proc/<pid>/status has no VmHWM")?,
    })
}

/// utime + stime, the 14th and 15th fields. The 2nd is the command in parentheses, and may itself
/// contain spaces and parentheses, so counting starts after the last closing one.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

/// The number after `name` at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Bytes allocated on disk below `dir` (holes are not counted), split by `is_data` on the path
/// relative to `dir`. Files that vanish while walking are skipped: engines delete in the background.
pub fn allocated_bytes(dir: &Path, is_data: &dyn Fn(&str) -> bool) -> (u64, u64) {
    let (mut data, mut other) = (0, 0);
    let mut pending = vec![dir.to_path_buf()];
    while let Some(next) = pending.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            let path = entry.path();
            if meta.is_dir() {
                pending.push(path);
                continue;
            }
            let relative = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy().into_owned();
            if is_data(&relative) {
                data += meta.blocks() * 512;
            } else {
                other += meta.blocks() * 512;
            }
        }
    }
    (data, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_survives_a_hostile_command_name() {
        let stat = "42 (a) b (c 1 2) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 30 0 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("42 (x) S 1 2"), None);
        assert_eq!(cpu_seconds(""), None);
    }

    #[test]
    fn fields_are_found_at_line_starts_only() {
        let io = "rchar: 1\ncancelled_write_bytes: 9\nwrite_bytes: 4096\n";
        assert_eq!(field(io, "write_bytes:"), Some(4096));
        assert_eq!(field("VmHWM:\t  2048 kB\n", "VmHWM:"), Some(2048));
        assert_eq!(field("VmHWM: lots\n", "VmHWM:"), None);
    }

    #[test]
    fn own_process_can_be_sampled() {
        let s = sample(std::process::id()).unwrap();
        assert!(s.rss_bytes > 0 && s.peak_rss_bytes >= s.rss_bytes / 2);
        assert!(sample(u32::MAX).is_err());
    }

    #[test]
    fn disk_use_counts_blocks_and_not_holes() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("#e")).unwrap();
        fs::write(dir.path().join("#e/1.sst"), vec![1u8; 64 << 10]).unwrap();
        fs::write(dir.path().join("#e/1.log"), vec![1u8; 8 << 10]).unwrap();
        let hole = fs::File::create(dir.path().join("#e/2.sst")).unwrap();
        hole.set_len(1 << 30).unwrap();
        let (data, other) = allocated_bytes(dir.path(), &|p| p.ends_with(".sst"));
        assert!((64 << 10..1 << 20).contains(&data), "{data}");
        assert!((8 << 10..1 << 20).contains(&other), "{other}");
    }
}
