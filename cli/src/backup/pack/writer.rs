//! Writes a pack, from many threads.
//!
//! - BW1. Frames are written in the order of their numbers. A thread takes a number before it makes the frame, and then waits for its turn. So
//!   each thread has at most one frame in memory, however slow the reader of a pipe is.
//! - BW2. After a failure nothing more is written, least of all the end, and no thread waits for a turn that does not come.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use frond_vfs::VfsFile;

use super::format::{end, piece, Contents, Frames, Kind, Place};
use crate::backup::manifest::Manifest;

/// The contents are written in parts of this many bytes.
const PART: usize = 4 << 20;

/// Where the pack is written.
pub enum Out {
    File(Arc<dyn VfsFile>),
    Pipe(Box<dyn Write + Send>),
}

pub struct Packer {
    frames: Frames,
    level: Option<i32>,
    turn: Mutex<Turn>,
    moved: Condvar,
}

struct Turn {
    out: Out,
    /// Bytes so far.
    at: u64,
    taken: u64,
    /// The number of the next frame in the file.
    next: u64,
    /// Why nothing more is written.
    failed: Option<(io::ErrorKind, String)>,
    places: BTreeMap<String, Vec<Place>>,
}

/// A number that a thread has taken (BW2).
struct Ticket<'a> {
    packer: &'a Packer,
    number: u64,
    used: bool,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if !self.used {
            let why = "another thread of this backup failed".to_string();
            self.packer.lock().failed.get_or_insert((io::ErrorKind::Other, why));
            self.packer.moved.notify_all();
        }
    }
}

impl Turn {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.out {
            Out::File(file) => file.write_all_at(bytes, self.at)?,
            Out::Pipe(pipe) => pipe.write_all(bytes)?,
        }
        self.at += bytes.len() as u64;
        Ok(())
    }
}

impl Packer {
    /// Writes the head.
    pub fn begin(out: Out, frames: Frames, level: Option<i32>) -> io::Result<Packer> {
        let places = BTreeMap::new();
        let mut turn = Turn { out, at: 0, taken: 0, next: 0, failed: None, places };
        turn.write(&frames.bytes)?;
        Ok(Packer { frames, level, turn: Mutex::new(turn), moved: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ticket(&self) -> Ticket<'_> {
        let mut turn = self.lock();
        turn.taken += 1;
        Ticket { packer: self, number: turn.taken - 1, used: false }
    }

    /// The file that the pack is written to; `None`: it goes to a pipe.
    pub fn file(&self) -> Option<Arc<dyn VfsFile>> {
        match &self.lock().out {
            Out::File(file) => Some(file.clone()),
            Out::Pipe(_) => None,
        }
    }

    /// Records that the backup has a file of this name, which may stay empty.
    pub fn name(&self, path: &str) {
        self.lock().places.entry(path.to_string()).or_default();
    }

    /// Adds bytes of a file.
    pub fn piece(&self, path: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let ticket = self.ticket();
        let plain = piece(path, offset, bytes);
        let frame = self.frames.encode(Kind::Piece, ticket.number, &plain, self.level);
        let at = self.append(ticket, &frame)?;
        let place = (offset, bytes.len() as u64, at);
        self.lock().places.entry(path.to_string()).or_default().push(place);
        Ok(())
    }

    /// Writes a frame when its turn has come (BW1), and returns its position.
    fn append(&self, mut ticket: Ticket<'_>, frame: &[u8]) -> io::Result<u64> {
        let mut turn = self.lock();
        while turn.next != ticket.number && turn.failed.is_none() {
            turn = self.moved.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        ticket.used = true;
        if let Some((kind, why)) = &turn.failed {
            return Err(io::Error::new(*kind, why.clone()));
        }
        let at = turn.at;
        let written = turn.write(frame);
        turn.next += 1;
        turn.failed = written.as_ref().err().map(|e| (e.kind(), e.to_string()));
        self.moved.notify_all();
        written.map(|()| at)
    }

    /// Writes contents and end. The caller has written all pieces, and the server has confirmed the pin. Returns the bytes of the whole pack.
    pub fn finish(&self, manifest: Manifest) -> io::Result<u64> {
        let places = std::mem::take(&mut self.lock().places);
        let text = serde_json::to_vec(&Contents { manifest, places })?;
        let mut begin = None;
        for part in text.chunks(PART) {
            let ticket = self.ticket();
            let number = ticket.number;
            let level = self.level.or(Some(1));
            let frame = self.frames.encode(Kind::Contents, number, part, level);
            let at = self.append(ticket, &frame)?;
            begin.get_or_insert((at, number));
        }
        let (position, number) = begin.unwrap_or_default();
        let ticket = self.ticket();
        let last = self.frames.encode(Kind::End, ticket.number, &end(position, number), None);
        self.append(ticket, &last)?;
        let mut turn = self.lock();
        match &mut turn.out {
            Out::File(file) => file.sync()?,
            Out::Pipe(pipe) => pipe.flush()?,
        }
        Ok(turn.at)
    }
}
