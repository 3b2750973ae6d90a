//! The first lines of pt-query-digest's report, which describe its process, for this process.
//!
//! The figures are in files of Linux; where these are missing the lines are left out, as with
//! `--reproducible`.

use std::path::{Path, PathBuf};

use frond_digest::report::ptqd::{Head, Usage};
use jiff::tz::TimeZone;
use jiff::Timestamp;

use super::when;

/// Ticks per second of a process's times; the same on every Linux.
const TICKS: f64 = 100.0;

/// Lines for a report of these inputs.
pub fn head(files: &[PathBuf], reproducible: bool) -> Head {
    let files = files.iter().filter(|f| *f != Path::new("-"));
    let files = files.map(|f| f.display().to_string()).collect();
    if reproducible {
        return Head { files, ..Head::default() };
    }
    let date = Timestamp::from_microsecond(when::now())
        .map(|now| now.to_zoned(TimeZone::system()).strftime("%a %b %e %H:%M:%S %Y").to_string());
    let host = read("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
    Head { usage: usage(), date: date.ok(), host, files }
}

fn usage() -> Option<Usage> {
    let stat = read("/proc/self/stat")?;
    // The fields start behind the program's name, which may hold any character.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace().skip(11);
    let mut ticks = || Some(fields.next()?.parse::<f64>().ok()? / TICKS);
    let (user, system) = (ticks()?, ticks()?);
    let status = read("/proc/self/status")?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    };
    Some(Usage { user, system, resident: bytes("VmRSS:")?, mapped: bytes("VmSize:")? })
}

#[allow(clippy::disallowed_methods)] // No file of a database.
fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_says_what_this_process_is() {
        let made = head(&[PathBuf::from("a.log")], false);
        assert_eq!(made.files, ["a.log"]);
        let date = made.date.unwrap();
        assert!(date.len() == 24 && date.contains(" 20"), "{date}");
        if cfg!(target_os = "linux") {
            let usage = made.usage.unwrap();
            assert!(usage.resident > 100_000 && usage.mapped >= usage.resident, "{usage:?}");
            assert!(usage.user < 600.0 && made.host.is_some_and(|h| !h.is_empty()));
        }
        assert_eq!(head(&[PathBuf::from("-")], true), Head::default());
    }
}
