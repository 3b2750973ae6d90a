//! `tail -F` for a log: what is appended is digested, and at each interval there is an outcome.
//!
//! Invariants:
//! 1. An event is counted once, in the interval in which its end was read.
//! 2. A rotated log (another file has the name, or the file became shorter) is read to its end before the new one is
//!    begun; a log that is missing for a while (between two steps of `logrotate`) is waited for.
//! 3. The event at the end of the log is held back until the next begins or the log is quiet for `QUIET`: a server
//!    writes an event in more than one piece.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{FileInfo, Outcome, Settings, Worker};
use crate::event::Place;
use crate::input::{detect, pump, Format};
use crate::slowlog::{self, Carry};

const POLL: Duration = Duration::from_millis(200);
const QUIET: Duration = Duration::from_millis(1000);

/// How to follow.
#[derive(Clone, Debug)]
pub struct Follow {
    pub path: PathBuf,
    /// An outcome is due this often.
    pub interval: Duration,
    /// Begin with what the log holds already; otherwise at its end.
    pub from_begin: bool,
}

struct Log {
    path: PathBuf,
    file: Option<(File, u64)>,
    /// Of the next byte to read.
    offset: u64,
    /// Read, but not yet parsed: begins where an event does.
    held: Vec<u8>,
    format: Option<Format>,
    carry: Carry,
    general: crate::genlog::Parser,
    last_growth: Instant,
    number: u32,
}

/// Follows the log and calls `each` with what every interval held, until `each` says false. `Err` says why the log
/// cannot be followed.
pub fn follow(
    follow: &Follow,
    settings: &Arc<Settings>,
    each: &mut dyn FnMut(Outcome) -> bool,
) -> Result<(), String> {
    let mut log = Log {
        path: follow.path.clone(),
        file: None,
        offset: 0,
        held: Vec::new(),
        format: settings.format,
        carry: Carry { zone: settings.zone, ..Carry::default() },
        general: crate::genlog::Parser::new(settings.zone.unwrap_or(0)),
        last_growth: Instant::now(),
        number: 0,
    };
    log.open()?;
    if log.file.is_none() {
        return Err(format!("{}: no such file or directory", follow.path.display()));
    }
    if !follow.from_begin {
        log.skip_content()?;
    }
    let mut worker = Worker::new(settings.clone());
    let mut due = Instant::now() + follow.interval;
    let mut bytes = 0;
    loop {
        let grown = log.read(&mut worker)?;
        bytes += grown;
        if Instant::now() >= due {
            due += follow.interval;
            let counts = std::mem::replace(&mut worker, Worker::new(settings.clone())).finish();
            let file = FileInfo { name: log.path.display().to_string(), format: log.format, bytes };
            bytes = 0;
            if !each(counts.outcome(vec![file], log.carry.zone)) {
                return Ok(());
            }
        }
        if grown == 0 {
            std::thread::sleep(POLL.min(due.saturating_duration_since(Instant::now())));
        }
    }
}

fn fail(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {}", path.display(), crate::input::open::describe(error))
}

impl Log {
    /// Opens the file that has the name now, if there is one.
    fn open(&mut self) -> Result<(), String> {
        match File::open(&self.path) {
            Ok(file) => {
                let inode = file.metadata().map_err(|e| fail(&self.path, &e))?.ino();
                self.file = Some((file, inode));
                self.offset = 0;
                Ok(())
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(fail(&self.path, &e)),
        }
    }

    /// Skips what is there already, after a look at what it is.
    fn skip_content(&mut self) -> Result<(), String> {
        let Some((file, _)) = &mut self.file else { return Ok(()) };
        let mut head = vec![0; detect::HEAD];
        let mut used = 0;
        while let Ok(n @ 1..) = file.read(&mut head[used..]) {
            used += n;
        }
        if self.format.is_none() {
            self.format = detect::detect(&head[..used])
                .map_err(|what| format!("{}: {what}", self.path.display()))?;
        }
        self.offset = file.seek(SeekFrom::End(0)).map_err(|e| fail(&self.path, &e))?;
        Ok(())
    }

    /// Reads what was appended and parses it as far as events are whole; gives the bytes read.
    fn read(&mut self, worker: &mut Worker) -> Result<u64, String> {
        let grown = self.append()?;
        if grown > 0 {
            self.last_growth = Instant::now();
            self.parse(worker, false)?;
            return Ok(grown);
        }
        if !self.held.is_empty() && self.last_growth.elapsed() >= QUIET {
            self.parse(worker, true)?;
        }
        if self.rotated() {
            self.parse(worker, true)?;
            self.file = None;
            self.number += 1;
            self.carry = Carry { zone: self.carry.zone, ..Carry::default() };
            self.open()?;
        }
        Ok(0)
    }

    fn append(&mut self) -> Result<u64, String> {
        let Some((file, _)) = &mut self.file else { return Ok(0) };
        let before = self.held.len();
        let result = file.take(pump::PIECE as u64).read_to_end(&mut self.held);
        let grown = (self.held.len() - before) as u64;
        self.offset += grown;
        result.map_err(|e| fail(&self.path, &e))?;
        Ok(grown)
    }

    /// True if another file has the name, or this one became shorter, or there is none.
    fn rotated(&self) -> bool {
        let Some((file, inode)) = &self.file else { return true };
        if file.metadata().is_ok_and(|m| m.len() < self.offset) {
            return true;
        }
        std::fs::metadata(&self.path).is_ok_and(|m| m.ino() != *inode)
    }

    fn parse(&mut self, worker: &mut Worker, last: bool) -> Result<(), String> {
        if self.held.is_empty() {
            return Ok(());
        }
        if self.format.is_none() {
            self.format = detect::detect(&self.held)
                .map_err(|what| format!("{}: {what}", self.path.display()))?;
        }
        let boundary = match self.format {
            Some(Format::SlowLog) => slowlog::split::last_boundary(&self.held),
            Some(Format::GeneralLog) => crate::genlog::last_boundary(&self.held),
            Some(Format::Raw) => crate::rawlog::last_boundary(&self.held),
            Some(other) => {
                return Err(format!("{}: cannot follow {}", self.path.display(), other.name()))
            }
            None => return Ok(()),
        };
        let whole = match (last, boundary) {
            (true, _) => self.held.len(),
            (false, Some(boundary)) => boundary,
            (false, None) if self.held.len() >= pump::MAX_EVENT => self.held.len(),
            (false, None) => return Ok(()),
        };
        let place = Place { file: self.number, offset: self.offset - self.held.len() as u64 };
        let bytes = &self.held[..whole];
        match self.format {
            Some(Format::GeneralLog) => self.general.parse(bytes, place, worker),
            Some(Format::Raw) => crate::rawlog::parse(bytes, place, worker),
            _ => {
                let after =
                    worker.slow_log(slowlog::Piece { bytes, place, carry: &self.carry, last }, &[]);
                self.carry = after;
            }
        }
        self.held.drain(..whole);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn event(i: u32) -> String {
        format!("# User@Host: a[a] @ h []\n# Query_time: 0.{i:03}  Lock_time: 0\nselect {i};\n")
    }

    #[test]
    fn a_rotated_log_is_read_to_its_end_and_then_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slow.log");
        std::fs::write(&path, event(1)).unwrap();
        let options =
            Follow { path: path.clone(), interval: Duration::from_millis(3500), from_begin: true };
        let writer = std::thread::spawn({
            let path = path.clone();
            let moved = dir.path().join("slow.log.1");
            move || {
                let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
                // An event in two pieces, and one behind it after the rotation, as servers do until FLUSH LOGS.
                let whole = event(2);
                file.write_all(&whole.as_bytes()[..30]).unwrap();
                std::thread::sleep(Duration::from_millis(300));
                file.write_all(&whole.as_bytes()[30..]).unwrap();
                std::fs::rename(&path, moved).unwrap();
                std::thread::sleep(Duration::from_millis(300));
                file.write_all(event(3).as_bytes()).unwrap();
                std::fs::write(&path, event(4)).unwrap();
            }
        });
        let mut events = 0;
        let mut skips = 0;
        follow(&options, &Arc::new(Settings::default()), &mut |outcome| {
            events += outcome.events;
            skips += outcome.skips.count();
            false
        })
        .unwrap();
        writer.join().unwrap();
        assert_eq!((events, skips), (4, 0));
    }

    #[test]
    fn a_missing_log_is_said() {
        let options = Follow {
            path: PathBuf::from("/nonexistent/slow.log"),
            interval: Duration::from_secs(1),
            from_begin: false,
        };
        let error = follow(&options, &Arc::new(Settings::default()), &mut |_| false).unwrap_err();
        assert!(error.contains("no such file"), "{error}");
    }
}
