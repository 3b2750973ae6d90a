//! `tail -F` for a log: digests appended events, with an outcome for each interval.
//!
//! Invariants:
//!
//! - FO1. An event is counted once, in the interval in which its end was read.
//! - FO2. A rotated log is read to its end before the next one is begun. A server writes to its
//!   open file until `FLUSH LOGS`, even when another file has the name by then. So the
//!   reader leaves the old file only when the new one has content and the old one was quiet for `QUIET`.
//!   If a log is missing for a while (between two steps of `logrotate`), the reader waits for it. A log that
//!   became shorter (`copytruncate`) is read from its beginning.
//! - FO3. The event at the end of the log is held back until the next begins or the log is quiet for `QUIET`: a server
//!   writes an event in more than one piece.
//!
//! Not noticed: bytes that a `copytruncate` removes before they were read, and a `copytruncate` after
//! which the log is as long as before by the next poll.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{FileInfo, Outcome, Settings, Worker};
use frond_event::Place;
use frond_querylog::input::{detect, pump, Format};
use frond_querylog::slowlog::{self, Carry};

const POLL: Duration = Duration::from_millis(200);
const QUIET: Duration = Duration::from_millis(1000);

/// How to follow.
#[derive(Clone, Debug)]
pub struct Follow {
    pub path: PathBuf,
    /// The time between two outcomes.
    pub interval: Duration,
    /// Start with the log's present contents; otherwise at its end.
    pub from_begin: bool,
}

struct Log {
    path: PathBuf,
    file: Option<Opened>,
    /// Files that got the name since, in that order.
    next: VecDeque<Opened>,
    /// Offset of the next byte to read.
    offset: u64,
    /// Bytes that were read but not yet parsed; they begin with an event.
    held: Vec<u8>,
    format: Option<Format>,
    carry: Carry,
    general: frond_querylog::genlog::Parser,
    /// When the file last grew, or when its successor was found not to be empty, whichever is later.
    last_growth: Instant,
    succeeded: bool,
    /// The inputs read since the last outcome; the last is `file`.
    files: Vec<FileInfo>,
}

/// A file and its inode's number: as long as the file is open, no other file has that number.
type Opened = (File, u64);

/// A log does not rotate more often than this within `QUIET`.
const MAX_NEXT: usize = 16;

/// A log that was opened but not read yet: from here on changes of its name are noticed.
pub struct Following {
    log: Log,
    interval: Duration,
    settings: Arc<Settings>,
}

impl Following {
    /// Opens the log. `Err` says why it cannot be followed.
    pub fn open(follow: &Follow, settings: &Arc<Settings>) -> Result<Self, String> {
        let mut log = Log {
            path: follow.path.clone(),
            file: None,
            next: VecDeque::new(),
            offset: 0,
            held: Vec::new(),
            format: settings.format,
            carry: Carry { zone: settings.zone, ..Carry::default() },
            general: frond_querylog::genlog::Parser::new(settings.zone.unwrap_or(0)),
            last_growth: Instant::now(),
            succeeded: false,
            files: Vec::new(),
        };
        log.file = log.open()?;
        log.begin_file();
        if log.file.is_none() {
            return Err(format!("{}: no such file or directory", follow.path.display()));
        }
        if !follow.from_begin {
            log.skip_content()?;
        }
        Ok(Self { log, interval: follow.interval, settings: settings.clone() })
    }

    /// Calls `each` with the outcome of every interval, until it returns false. `Err` says why the log can no longer
    /// be followed.
    pub fn run(self, each: &mut dyn FnMut(Outcome) -> bool) -> Result<(), String> {
        let Self { mut log, interval, settings } = self;
        let mut worker = Worker::new(settings.clone());
        let mut due = Instant::now() + interval;
        loop {
            let grown = log.read(&mut worker)?;
            if Instant::now() >= due {
                due += interval;
                let next = Worker::new(settings.clone());
                let mut counts = std::mem::replace(&mut worker, next).finish();
                counts.order.one_log = true;
                let files = std::mem::take(&mut log.files);
                log.begin_file();
                if !each(counts.outcome(files, log.carry.zone)) {
                    return Ok(());
                }
            }
            if grown == 0 {
                std::thread::sleep(POLL.min(due.saturating_duration_since(Instant::now())));
            }
        }
    }
}

fn fail(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {}", path.display(), frond_querylog::input::open::describe(error))
}

impl Log {
    /// Opens the file that has the name now, if there is one.
    fn open(&self) -> Result<Option<Opened>, String> {
        match File::open(&self.path) {
            Ok(file) => {
                let inode = file.metadata().map_err(|e| fail(&self.path, &e))?.ino();
                Ok(Some((file, inode)))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(fail(&self.path, &e)),
        }
    }

    /// Starts the entry of another file, or of another outcome.
    fn begin_file(&mut self) {
        let name = self.path.display().to_string();
        self.files.push(FileInfo { name, format: self.format, bytes: 0 });
    }

    /// Skips the present contents, after recognising their format.
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

    /// Reads the appended bytes and parses whole events; returns the number of bytes read.
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
        if self.shrunk() {
            self.parse(worker, true)?;
            let Some((file, _)) = &mut self.file else { return Ok(0) };
            file.seek(SeekFrom::Start(0)).map_err(|e| fail(&self.path, &e))?;
            self.begin_anew();
        } else if self.succeeded()? {
            self.parse(worker, true)?;
            self.file = self.next.pop_front();
            self.begin_anew();
        }
        Ok(0)
    }

    fn begin_anew(&mut self) {
        self.offset = 0;
        self.succeeded = false;
        self.carry = Carry { zone: self.carry.zone, ..Carry::default() };
        self.begin_file();
    }

    fn append(&mut self) -> Result<u64, String> {
        let Some((file, _)) = &mut self.file else { return Ok(0) };
        let before = self.held.len();
        let result = file.take(pump::PIECE as u64).read_to_end(&mut self.held);
        let grown = (self.held.len() - before) as u64;
        self.offset += grown;
        if let Some(info) = self.files.last_mut() {
            info.bytes += grown;
        }
        result.map_err(|e| fail(&self.path, &e))?;
        Ok(grown)
    }

    fn shrunk(&self) -> bool {
        let length = self.file.as_ref().and_then(|(file, _)| file.metadata().ok()).map(|m| m.len());
        length.is_some_and(|length| length < self.offset)
    }

    /// True if another file has the name and this one is finished.
    fn succeeded(&mut self) -> Result<bool, String> {
        let newest = self.next.back().or(self.file.as_ref()).map(|(_, inode)| *inode);
        let named = std::fs::metadata(&self.path).ok().map(|m| m.ino());
        if named.is_some() && named != newest && self.next.len() < MAX_NEXT {
            let opened = self.open()?;
            self.next.extend(opened.filter(|(_, inode)| Some(*inode) != newest));
        }
        let Some((next, _)) = self.next.front() else { return Ok(false) };
        if !self.succeeded {
            // A file that lost the name again gets no more bytes.
            let begun = self.next.len() > 1 || next.metadata().is_ok_and(|m| m.len() > 0);
            if begun {
                self.succeeded = true;
                self.last_growth = Instant::now();
            }
        }
        Ok(self.file.is_none() || self.succeeded && self.last_growth.elapsed() >= QUIET)
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
            Some(Format::GeneralLog) => frond_querylog::genlog::last_boundary(&self.held),
            Some(Format::Raw) => frond_querylog::rawlog::last_boundary(&self.held),
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
        if let Some(info) = self.files.last_mut() {
            info.format = self.format;
        }
        let file = self.files.len().saturating_sub(1) as u32;
        let place = Place { file, offset: self.offset - self.held.len() as u64 };
        let bytes = &self.held[..whole];
        match self.format {
            Some(Format::GeneralLog) => self.general.parse(bytes, place, worker),
            Some(Format::Raw) => worker.raw_log(bytes, place),
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
mod tests;
