//! `tail -F`: the bytes that are appended to a file, whatever happens to its name.
//!
//! Invariants:
//!
//! - TL1. A rotated file is read to its end before the next one is begun. A server writes to its
//!   open file until `FLUSH LOGS`, even when another file has the name by then. So the
//!   reader leaves the old file only when the new one has content and the old one was quiet for `QUIET`.
//!   If a file is missing for a while (between two steps of `logrotate`), the reader waits for it. A file that
//!   became shorter (`copytruncate`) is read from its beginning.
//!
//! Not noticed: bytes that a `copytruncate` removes before they were read, and a `copytruncate` after
//! which the file is as long as before by the next look.
//!
//! Tested by the followers: `toolkit/digest/src/run/follow/tests.rs`, `cli/tests/cli/locks.rs`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{open::describe, pump};

pub const QUIET: Duration = Duration::from_millis(1000);
/// A file is not rotated more often than this within `QUIET`.
const MAX_NEXT: usize = 16;

/// A file and its inode's number: as long as the file is open, no other file has that number.
type Opened = (File, u64);

pub struct Tail {
    path: PathBuf,
    file: Option<Opened>,
    /// Files that got the name since, in that order.
    next: VecDeque<Opened>,
    /// Offset of the next byte to read.
    pub offset: u64,
    /// When the file last grew, or when its successor was found not to be empty, whichever is later.
    last_growth: Instant,
    succeeded: bool,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// So many further bytes.
    Bytes(usize),
    /// No more bytes; true: since `QUIET`.
    Nothing(bool),
    /// The end of this file: the next bytes are the first of another, or of new content.
    End,
}

impl Tail {
    /// From here on changes of the file's name are noticed. `Err` says why it cannot be followed.
    pub fn open(path: &Path) -> Result<Tail, String> {
        let mut tail = Tail {
            path: path.to_owned(),
            file: None,
            next: VecDeque::new(),
            offset: 0,
            last_growth: Instant::now(),
            succeeded: false,
        };
        tail.file = tail.named()?;
        match tail.file {
            Some(_) => Ok(tail),
            None => Err(format!("{}: no such file or directory", path.display())),
        }
    }

    fn fail(&self, error: &std::io::Error) -> String {
        format!("{}: {}", self.path.display(), describe(error))
    }

    /// The file that has the name now, if there is one.
    fn named(&self) -> Result<Option<Opened>, String> {
        match File::open(&self.path) {
            Ok(file) => {
                let inode = file.metadata().map_err(|e| self.fail(&e))?.ino();
                Ok(Some((file, inode)))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.fail(&e)),
        }
    }

    /// Skips the present contents; returns their first bytes, at most `most`.
    pub fn skip_content(&mut self, most: u64) -> Result<Vec<u8>, String> {
        let mut head = Vec::new();
        if let Some((file, _)) = &mut self.file {
            let read = file.take(most).read_to_end(&mut head);
            let end = read.and_then(|_| file.seek(SeekFrom::End(0)));
            self.offset = end.map_err(|e| self.fail(&e))?;
        }
        Ok(head)
    }

    /// Appends what the file has got meanwhile to `held`.
    pub fn read(&mut self, held: &mut Vec<u8>) -> Result<Found, String> {
        let before = held.len();
        if let Some((file, _)) = &mut self.file {
            let result = file.take(pump::PIECE as u64).read_to_end(held);
            self.offset += (held.len() - before) as u64;
            result.map_err(|e| self.fail(&e))?;
        }
        if held.len() > before {
            self.last_growth = Instant::now();
            return Ok(Found::Bytes(held.len() - before));
        }
        let length = self.file.as_ref().and_then(|(file, _)| file.metadata().ok()).map(|m| m.len());
        if length.is_some_and(|length| length < self.offset) {
            let start = self.file.as_mut().map(|(file, _)| file.seek(SeekFrom::Start(0)));
            start.transpose().map_err(|e| self.fail(&e))?;
        } else if self.has_successor()? {
            self.file = self.next.pop_front();
        } else {
            return Ok(Found::Nothing(self.last_growth.elapsed() >= QUIET));
        }
        (self.offset, self.succeeded) = (0, false);
        Ok(Found::End)
    }

    /// True if another file has the name and this one is finished.
    fn has_successor(&mut self) -> Result<bool, String> {
        let newest = self.next.back().or(self.file.as_ref()).map(|(_, inode)| *inode);
        let named = std::fs::metadata(&self.path).ok().map(|m| m.ino());
        if named.is_some() && named != newest && self.next.len() < MAX_NEXT {
            let opened = self.named()?;
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
}
