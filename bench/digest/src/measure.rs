//! Runs a command and measures its time and memory with GNU time.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Time and memory of a command.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub seconds: f64,
    /// Seconds of processor time, the kernel's share included.
    pub cpu: f64,
    /// Bytes of memory at most.
    pub peak: u64,
    /// False if it was stopped because it took too long; the other figures are then those up to the stop.
    pub ended: bool,
}

impl Run {
    /// The lesser times and the greater memory.
    pub fn better(&self, other: &Run) -> Run {
        Run {
            seconds: self.seconds.min(other.seconds),
            cpu: self.cpu.min(other.cpu),
            peak: self.peak.max(other.peak),
            ended: self.ended && other.ended,
        }
    }
}

/// Runs `command` with its output in `output`; stops it after `limit` seconds. `Err` if it fails.
pub fn measure(command: &[&OsStr], output: &Path, limit: u32) -> Result<Run, String> {
    start(command, output, limit)?.finish()
}

/// Runs `command` twice at the same time; gives the seconds until both had ended, and the mean of their processor time.
pub fn measure_pair(command: &[&OsStr], output: &Path, limit: u32) -> Result<Run, String> {
    let second = output.with_extension("second");
    let [first, second] = [start(command, output, limit)?, start(command, &second, limit)?];
    let (first, second) = (first.finish()?, second.finish()?);
    let cpu = (first.cpu + second.cpu) / 2.0;
    let seconds = first.seconds.max(second.seconds);
    Ok(Run { seconds, cpu, peak: first.peak.max(second.peak), ended: first.ended && second.ended })
}

/// A command that runs.
struct Started {
    child: Child,
    times: PathBuf,
    what: String,
}

fn start(command: &[&OsStr], output: &Path, limit: u32) -> Result<Started, String> {
    let file = std::fs::File::create(output).map_err(|e| format!("{}: {e}", output.display()))?;
    let mut times = output.to_owned().into_os_string();
    times.push(".time");
    let child = Command::new("/usr/bin/time")
        .args(["-f", "%e %U %S %M", "-o"])
        .arg(&times)
        .args(["timeout", "--kill-after=10", &limit.to_string()])
        .args(command)
        .stdin(Stdio::null())
        .stdout(file)
        .spawn()
        .map_err(|e| format!("/usr/bin/time: {e}; install the package time"))?;
    Ok(Started { child, times: times.into(), what: format!("{command:?}") })
}

impl Started {
    fn finish(mut self) -> Result<Run, String> {
        /// The status of `timeout` when it stopped a command.
        const STOPPED: i32 = 124;
        let status = self.child.wait().map_err(|e| e.to_string())?;
        let ended = status.code() != Some(STOPPED);
        if !status.success() && ended {
            return Err(format!("{}: {status}", self.what));
        }
        let text = std::fs::read_to_string(&self.times).map_err(|e| e.to_string())?;
        std::fs::remove_file(&self.times).map_err(|e| e.to_string())?;
        let run = read(&text).ok_or_else(|| format!("GNU time printed {text:?}"))?;
        Ok(Run { ended, ..run })
    }
}

/// The output of GNU time, after a possible line on the status.
fn read(text: &str) -> Option<Run> {
    let line = text.lines().last()?;
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    let [seconds, user, system, kilobytes] = numbers[..] else { return None };
    Some(Run { seconds, cpu: user + system, peak: kilobytes as u64 * 1024, ended: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_an_error_and_one_that_lasts_is_stopped() {
        let path = std::env::temp_dir().join(format!("frond-measure-{}", std::process::id()));
        let run = measure(&["true".as_ref()], &path, 60).unwrap();
        assert!(run.peak > 100_000 && run.seconds < 5.0 && run.ended);
        assert!(measure(&["false".as_ref()], &path, 60).is_err());
        let run = measure(&["sleep".as_ref(), "60".as_ref()], &path, 1).unwrap();
        assert!(!run.ended && run.seconds >= 1.0 && run.seconds < 50.0);
        std::fs::remove_file(&path).unwrap();
        assert!(read("0.01 0.00").is_none());
    }
}
