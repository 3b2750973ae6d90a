//! Reads a pack: at any place, starting from its end; or as a stream, from its beginning.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use frond_vfs::{OpenHow, VfsFile};

use super::format::{
    piece_bytes, read_end, Contents, Frames, Front, Head, Kind, Place, FRONT, HEAD_FRONT,
};
use crate::backup::copy;
use crate::backup::key::Key;
use crate::backup::manifest::Manifest;
use crate::backup::read_only::{ReadOnly, Readable};
use crate::out::{Failure, Outcome};

/// The most bytes that contents may have: a manifest and the places of its pieces.
const MAX_CONTENTS: usize = 2 << 30;
/// Number of unpacked pieces that are kept, for reads of pages.
const KEPT: usize = 8;

/// A pack that was written to its end.
pub struct Pack {
    shown: PathBuf,
    file: Arc<dyn VfsFile>,
    frames: Frames,
    places: BTreeMap<String, Vec<Place>>,
    kept: Mutex<VecDeque<(u64, Arc<Vec<u8>>)>>,
}

fn corrupt(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The head of the pack in a file, and the file's length in bytes; an error if the pack has no end.
/// Needs no key.
pub fn look(path: &Path) -> Outcome<(Head, u64)> {
    let file = copy::open(path, OpenHow::READ)?;
    let fail = |e: io::Error| Failure::Request(format!("{}: {e}", path.display()));
    let frames = head(&*file).map_err(fail)?;
    end_frame(&*file, &frames).map_err(fail)?;
    Ok((frames.head, file.len().map_err(fail)?))
}

fn head(file: &dyn VfsFile) -> io::Result<Frames> {
    let mut bytes = vec![0; HEAD_FRONT];
    let short = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof => corrupt("it ends within its head: it is not whole".into()),
        _ => e,
    };
    file.read_exact_at(&mut bytes, 0).map_err(short)?;
    let mut front = [0; HEAD_FRONT];
    front.copy_from_slice(&bytes);
    bytes.resize(HEAD_FRONT + Frames::rest(&front).map_err(corrupt)?, 0);
    file.read_exact_at(&mut bytes[HEAD_FRONT..], HEAD_FRONT as u64).map_err(short)?;
    Frames::of(bytes).map_err(corrupt)
}

/// The last frame and its front.
fn end_frame(file: &dyn VfsFile, frames: &Frames) -> io::Result<(Vec<u8>, Front)> {
    let cut = || corrupt("it has no end: it was cut off, or is still being written".into());
    let len = frames.end_frame();
    let at = file.len()?.checked_sub(len as u64).filter(|at| *at >= frames.bytes.len() as u64);
    let mut frame = vec![0; len];
    file.read_exact_at(&mut frame, at.ok_or_else(cut)?)?;
    let front = front(&frame).map_err(|_| cut())?;
    let is_end = front.kind == Kind::End && front.frame() == len;
    match is_end && frames.check(&frame, &front, front.number).is_ok() {
        true => Ok((frame, front)),
        false => Err(cut()),
    }
}

fn front(frame: &[u8]) -> io::Result<Front> {
    let mut front = [0; FRONT];
    front.copy_from_slice(&frame[..FRONT]);
    Front::decode(&front).map_err(corrupt)
}

impl Pack {
    pub fn open(path: &Path, key: Option<&Key>) -> Outcome<(Arc<Pack>, Manifest)> {
        Pack::read(path, copy::open(path, OpenHow::READ)?, key)
    }

    /// The pack in `file`, which messages call `path`.
    pub fn read(
        path: &Path,
        file: Arc<dyn VfsFile>,
        key: Option<&Key>,
    ) -> Outcome<(Arc<Pack>, Manifest)> {
        let fail = |what: String| Failure::Request(format!("{}: {what}", path.display()));
        let read = |e: io::Error| fail(e.to_string());
        let mut frames = head(&*file).map_err(read)?;
        let (frame, end) = end_frame(&*file, &frames).map_err(read)?;
        frames.unlock(key).map_err(fail)?;
        let ended = frames.decode(&frame, &end).map_err(fail)?;
        let broken = || fail("damaged: its end".into());
        let (mut at, first) = read_end(&ended).ok_or_else(broken)?;
        let parts = end.number.checked_sub(first).filter(|n| *n <= (MAX_CONTENTS >> 20) as u64);
        let parts = parts.ok_or_else(broken)?;
        let mut pack = Pack {
            shown: path.to_path_buf(),
            file,
            frames,
            places: BTreeMap::new(),
            kept: Mutex::new(VecDeque::new()),
        };
        let mut text = Vec::new();
        for number in first..first + parts {
            let (front, plain) = pack.frame(at, Some(number)).map_err(read)?;
            if front.kind != Kind::Contents || text.len() + plain.len() > MAX_CONTENTS {
                return Err(broken());
            }
            text.extend_from_slice(&plain);
            at += front.frame() as u64;
        }
        let contents: Contents =
            serde_json::from_slice(&text).map_err(|e| fail(format!("damaged: {e}")))?;
        let text = serde_json::to_vec(&contents.manifest).map_err(|e| fail(e.to_string()))?;
        let manifest = Manifest::parse(&text).map_err(fail)?;
        let head = &pack.frames.head;
        if (&manifest.id, &manifest.chain) != (&head.id, &head.chain) {
            return Err(fail("damaged: its head and its manifest contradict each other".into()));
        }
        pack.places = contents.places;
        pack.places.values_mut().for_each(|places| places.sort_unstable());
        Ok((Arc::new(pack), manifest))
    }

    /// Whether it was sealed with the key that opened it.
    pub fn is_sealed(&self) -> bool {
        self.frames.head.key.is_some()
    }

    /// Reads, checks and unpacks a frame. `number`: the expected number, where it is known.
    fn frame(&self, at: u64, number: Option<u64>) -> io::Result<(Front, Vec<u8>)> {
        let mut frame = vec![0; FRONT];
        self.file.read_exact_at(&mut frame, at)?;
        let front = front(&frame)?;
        frame.resize(front.frame(), 0);
        self.file.read_exact_at(&mut frame[FRONT..], at + FRONT as u64)?;
        self.frames.check(&frame, &front, number.unwrap_or(front.number)).map_err(corrupt)?;
        let plain = self.frames.decode(&frame, &front).map_err(corrupt)?;
        Ok((front, plain))
    }

    /// A file of the backup; `None`: it has none of this name.
    pub fn file(self: &Arc<Pack>, path: &str) -> Option<ReadOnly<Packed>> {
        let places = self.places.get(path)?.clone();
        Some(ReadOnly(Packed { pack: self.clone(), path: path.to_string(), places }))
    }

    /// The payload of the piece at `at`.
    fn piece(&self, at: u64) -> io::Result<Arc<Vec<u8>>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plain)) = kept().iter().find(|(place, _)| *place == at) {
            return Ok(plain.clone());
        }
        let (front, plain) = self.frame(at, None)?;
        if front.kind != Kind::Piece {
            return Err(corrupt(format!("{}: damaged at {at}", self.shown.display())));
        }
        let plain = Arc::new(plain);
        let mut kept = kept();
        kept.truncate(KEPT - 1);
        kept.push_front((at, plain.clone()));
        Ok(plain)
    }
}

/// One file of a pack; ranges that are not in the pack read as zeros.
pub struct Packed {
    pack: Arc<Pack>,
    path: String,
    /// Ascending by offset.
    places: Vec<Place>,
}

impl Readable for Packed {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let next = self.places.partition_point(|(at, len, _)| at.saturating_add(*len) <= offset);
        let Some((at, len, place)) = self.places.get(next).copied() else { return Ok(0) };
        if at > offset {
            let n = (buf.len() as u64).min(at - offset) as usize;
            buf[..n].fill(0);
            return Ok(n);
        }
        let plain = self.pack.piece(place)?;
        let begin =
            piece_bytes(&plain, &self.path, at).filter(|begin| plain.len() - begin == len as usize);
        let Some(begin) = begin else {
            let shown = self.pack.shown.display();
            return Err(corrupt(format!("{shown}: damaged: another piece is at {place}")));
        };
        let bytes = &plain[begin + (offset - at) as usize..];
        let n = buf.len().min(bytes.len());
        buf[..n].copy_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn len(&self) -> u64 {
        self.places.last().map_or(0, |(at, len, _)| at.saturating_add(*len))
    }
}

/// A pack as it arrives, verified without a key.
pub struct Stream<R: Read> {
    from: R,
    frames: Frames,
    /// Bytes of whole frames read so far, the head included.
    pub at: u64,
    number: u64,
}

/// The result of reading a frame.
pub enum Next {
    Frame(Vec<u8>),
    /// This is the last frame.
    End(Vec<u8>),
}

impl<R: Read> Stream<R> {
    /// Reads the head.
    pub fn begin(mut from: R) -> io::Result<Stream<R>> {
        let mut front = [0; HEAD_FRONT];
        let cut = |e: io::Error| ended(e, 0);
        from.read_exact(&mut front).map_err(cut)?;
        let mut bytes = front.to_vec();
        bytes.resize(HEAD_FRONT + Frames::rest(&front).map_err(corrupt)?, 0);
        from.read_exact(&mut bytes[HEAD_FRONT..]).map_err(cut)?;
        let frames = Frames::of(bytes).map_err(corrupt)?;
        Ok(Stream { from, at: frames.bytes.len() as u64, frames, number: 0 })
    }

    /// The same pack, whose rest is read from elsewhere.
    pub fn go_on<T: Read>(self, from: T) -> Stream<T> {
        Stream { from, frames: self.frames, at: self.at, number: self.number }
    }

    /// The head's bytes.
    pub fn head(&self) -> &[u8] {
        &self.frames.bytes
    }

    pub fn id(&self) -> &str {
        &self.frames.head.id
    }

    /// # Errors
    /// `UnexpectedEof`: the stream was cut off; `InvalidData`: it is damaged.
    pub fn next_frame(&mut self) -> io::Result<Next> {
        let mut frame = vec![0; FRONT];
        self.from.read_exact(&mut frame).map_err(|e| ended(e, self.at))?;
        let front = front(&frame).map_err(|e| corrupt(format!("at {}: {e}", self.at)))?;
        frame.resize(front.frame(), 0);
        self.from.read_exact(&mut frame[FRONT..]).map_err(|e| ended(e, self.at))?;
        self.frames.check(&frame, &front, self.number).map_err(corrupt)?;
        self.number += 1;
        self.at += frame.len() as u64;
        if front.kind != Kind::End {
            return Ok(Next::Frame(frame));
        }
        let more = self.from.read(&mut [0])?;
        match more == 0 && frame.len() == self.frames.end_frame() {
            true => Ok(Next::End(frame)),
            false => Err(corrupt("something follows its end".into())),
        }
    }
}

fn ended(e: io::Error, at: u64) -> io::Error {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the stream was cut off after {at} bytes of whole frames, before its end"),
        ),
        _ => e,
    }
}
