//! `tail -F` for a log: digests appended events, with an outcome for each interval.
//!
//! Invariants:
//!
//! - FO1. An event is counted once, in the interval in which its end was read.
//! - FO2. The event at the end of the log is held back until the next begins or the log is quiet for `QUIET`: a server
//!   writes an event in more than one piece.
//!
//! `frond_querylog::input::tail` reads a rotated log to its end (TL1).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{FileInfo, Outcome, Settings, Worker};
use frond_event::Place;
use frond_querylog::input::tail::{Found, Tail};
use frond_querylog::input::{detect, pump, Format};
use frond_querylog::slowlog::{self, Carry};

const POLL: Duration = Duration::from_millis(200);

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
    tail: Tail,
    /// Bytes that were read but not yet parsed; they begin with an event.
    held: Vec<u8>,
    /// Offset of the byte behind them.
    offset: u64,
    format: Option<Format>,
    carry: Carry,
    general: frond_querylog::genlog::Parser,
    /// The inputs read since the last outcome; the last is the one that is read.
    files: Vec<FileInfo>,
}

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
            tail: Tail::open(&follow.path)?,
            held: Vec::new(),
            offset: 0,
            format: settings.format,
            carry: Carry { zone: settings.zone, ..Carry::default() },
            general: frond_querylog::genlog::Parser::new(settings.zone.unwrap_or(0)),
            files: Vec::new(),
        };
        log.begin_file();
        if !follow.from_begin {
            // Their format is that of what follows.
            let head = log.tail.skip_content(detect::HEAD as u64)?;
            log.format = log.recognise(&head)?;
            log.offset = log.tail.offset;
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

impl Log {
    /// Starts the entry of another file, or of another outcome.
    fn begin_file(&mut self) {
        let name = self.path.display().to_string();
        self.files.push(FileInfo { name, format: self.format, bytes: 0 });
    }

    /// The format, from the log's first bytes if it is not known yet.
    fn recognise(&self, head: &[u8]) -> Result<Option<Format>, String> {
        match self.format {
            Some(format) => Ok(Some(format)),
            None => detect::detect(head).map_err(|what| format!("{}: {what}", self.path.display())),
        }
    }

    /// Reads the appended bytes and parses whole events; returns the number of bytes read.
    fn read(&mut self, worker: &mut Worker) -> Result<usize, String> {
        match self.tail.read(&mut self.held)? {
            Found::Bytes(grown) => {
                self.offset += grown as u64;
                if let Some(info) = self.files.last_mut() {
                    info.bytes += grown as u64;
                }
                self.parse(worker, false)?;
                return Ok(grown);
            }
            Found::Nothing(quiet) if quiet => self.parse(worker, true)?,
            Found::Nothing(_) => {}
            Found::End => {
                self.parse(worker, true)?;
                self.offset = 0;
                self.carry = Carry { zone: self.carry.zone, ..Carry::default() };
                self.begin_file();
            }
        }
        Ok(0)
    }

    fn parse(&mut self, worker: &mut Worker, last: bool) -> Result<(), String> {
        if self.held.is_empty() {
            return Ok(());
        }
        self.format = self.recognise(&self.held)?;
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
