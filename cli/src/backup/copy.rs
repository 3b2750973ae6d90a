//! Copying bytes between directories: with checksums, a limit on the rate, and progress.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use frond_base::checksum64;
use frond_vfs::{OpenHow, OsVfs, Vfs, VfsFile};
use serde::Serialize;

use super::manifest::PlainFile;
use crate::out::{bytes, Failure, Outcome};

/// Bytes read at a time.
pub const PIECE: usize = 4 << 20;

/// For `map_err`: a failure while `doing` something with `path`.
pub fn failed<'a>(doing: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> Failure + 'a {
    move |e| Failure::Request(format!("{doing} {}: {e}", path.display()))
}

/// Where progress is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    Nobody,
    /// One line that changes, if standard error is a terminal.
    Terminal,
    /// A JSON object a line, on standard error.
    Events,
}

impl Show {
    pub fn of(quiet: bool, json: bool) -> Show {
        match (quiet, json) {
            (true, _) => Show::Nobody,
            (_, true) => Show::Events,
            _ if std::io::IsTerminal::is_terminal(&std::io::stderr()) => Show::Terminal,
            _ => Show::Nobody,
        }
    }
}

/// Limits the rate and shows progress. All threads with a clone share the limit.
#[derive(Clone)]
pub struct Meter(Arc<Inner>);

struct Inner {
    clock: OsVfs,
    began: Duration,
    show: Show,
    /// 0: no limit.
    rate: AtomicU64,
    done: AtomicU64,
    /// 0: not known.
    total: AtomicU64,
    shown: Mutex<Duration>,
}

#[derive(Serialize)]
struct Progress {
    event: &'static str,
    bytes: u64,
    bytes_total: Option<u64>,
    bytes_per_second: u64,
    seconds_left: Option<u64>,
}

impl Meter {
    /// `place`: any existing directory.
    pub fn new(place: &Path, rate: Option<u64>, show: Show) -> Outcome<Meter> {
        let clock = OsVfs::new(place).map_err(failed("open", place))?;
        let began = clock.now();
        let number = |n: u64| AtomicU64::new(n);
        let (rate, done, total) = (number(rate.unwrap_or(0)), number(0), number(0));
        Ok(Meter(Arc::new(Inner {
            clock,
            began,
            show,
            rate,
            done,
            total,
            shown: Mutex::new(began),
        })))
    }

    pub fn done(&self) -> u64 {
        self.0.done.load(Relaxed)
    }

    /// Adds `more` bytes to the total that is expected.
    pub fn expect(&self, more: u64) {
        self.0.total.store(self.done() + more, Relaxed);
    }

    /// Runs `what` without the limit of the rate, because the server's commits wait for it. Its bytes count, so
    /// later copies wait for them.
    pub fn unlimited<T>(&self, what: impl FnOnce(&Meter) -> T) -> T {
        let rate = self.0.rate.swap(0, Relaxed);
        let done = what(self);
        self.0.rate.store(rate, Relaxed);
        done
    }

    /// `n` bytes were copied: waits if that was too fast.
    pub fn add(&self, n: u64) {
        let done = self.0.done.fetch_add(n, Relaxed) + n;
        let rate = self.0.rate.load(Relaxed);
        if rate > 0 {
            let due = Duration::from_secs_f64(done as f64 / rate as f64);
            let early = due.saturating_sub(self.0.clock.now().saturating_sub(self.0.began));
            if early > Duration::from_millis(5) {
                wait(early);
            }
        }
        self.show();
    }

    fn show(&self) {
        let every = match self.0.show {
            Show::Nobody => return,
            Show::Terminal => Duration::from_millis(250),
            Show::Events => Duration::from_secs(1),
        };
        let now = self.0.clock.now();
        // Another thread is showing the progress.
        let Ok(mut last) = self.0.shown.try_lock() else { return };
        if now.saturating_sub(*last) < every {
            return;
        }
        *last = now;
        let done = self.done();
        let rate = done as f64 / now.saturating_sub(self.0.began).as_secs_f64().max(0.001);
        let total = Some(self.0.total.load(Relaxed)).filter(|total| *total >= done);
        let left = total.map(|total| ((total - done) as f64 / rate.max(1.0)).ceil() as u64);
        if self.0.show == Show::Events {
            let (bytes_total, seconds_left) = (total, left);
            let bytes_per_second = rate as u64;
            let event = "progress";
            self.event(&Progress {
                event,
                bytes: done,
                bytes_total,
                bytes_per_second,
                seconds_left,
            });
            return;
        }
        let of = match (total, left) {
            (Some(total), Some(left)) => format!(" of {}, {left} s left", bytes(total)),
            _ => String::new(),
        };
        eprint!("\r\x1b[K{}{of}, {}/s", bytes(done), bytes(rate as u64));
    }

    /// Writes an event for the program that reads standard error.
    pub fn event(&self, what: &impl Serialize) {
        if let (Show::Events, Ok(text)) = (self.0.show, serde_json::to_string(what)) {
            eprintln!("{text}");
        }
    }

    /// Removes the line of progress.
    pub fn finish(&self) {
        if self.0.show == Show::Terminal {
            eprint!("\r\x1b[K");
        }
    }

    pub fn seconds(&self) -> f64 {
        self.0.clock.now().saturating_sub(self.0.began).as_secs_f64()
    }

    /// The machine's file system and threads.
    pub fn machine(&self) -> &OsVfs {
        &self.0.clock
    }
}

/// Copies `len` bytes at `offset` to the same place, and returns their checksum.
pub fn range(
    from: &dyn VfsFile,
    to: Option<&dyn VfsFile>,
    offset: u64,
    len: u64,
    meter: &Meter,
) -> std::io::Result<u64> {
    let mut all = Checksum::default();
    let mut buffer = vec![0; PIECE.min(len as usize)];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(PIECE as u64) as usize;
        from.read_exact_at(&mut buffer[..n], offset + done)?;
        all.add(&buffer[..n]);
        if let Some(to) = to {
            to.write_all_at(&buffer[..n], offset + done)?;
        }
        done += n as u64;
        meter.add(n as u64);
    }
    Ok(all.end())
}

/// The checksum of bytes that come in pieces of [`PIECE`]: that of the one piece, or that of the checksums of
/// several.
#[derive(Clone, Default)]
pub struct Checksum(pub Vec<u64>);

impl Checksum {
    fn add(&mut self, piece: &[u8]) {
        self.0.push(checksum64(piece));
    }

    pub fn end(&self) -> u64 {
        match self.0[..] {
            [one] => one,
            _ => checksum64(&self.0.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>()),
        }
    }
}

/// The file that `path` names.
pub fn open(path: &Path, how: OpenHow) -> Outcome<Arc<dyn VfsFile>> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let vfs = OsVfs::new(dir).map_err(failed("open", dir))?;
    vfs.open(&name, how).map_err(failed("open", path))
}

/// Sleeps.
pub fn pause(milliseconds: u64) {
    wait(Duration::from_millis(milliseconds));
}

fn wait(time: Duration) {
    let (never, bell) = (Mutex::new(()), Condvar::new());
    let guard = never.lock().unwrap_or_else(PoisonError::into_inner);
    drop(bell.wait_timeout(guard, time));
}

/// The first MiB of a file, as text.
pub fn text(path: &Path) -> Outcome<String> {
    let file = open(path, OpenHow::READ)?;
    let len = file.len().map_err(failed("read", path))?.min(1 << 20);
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(failed("read", path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Removes a file.
pub fn remove(path: &Path) -> Outcome<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let vfs = OsVfs::new(dir).map_err(failed("open", dir))?;
    vfs.remove(&name).map_err(failed("remove", path))
}

/// Threads that sync at the same time: file systems make several files durable with one write of their journal.
const SYNCING: usize = 16;

/// The files, the index of the next one, and the first failure.
type Syncing = (Vec<PathBuf>, AtomicUsize, Mutex<Option<String>>);

/// Makes all files below `dir` durable.
pub fn sync_files(dir: &Path, meter: &Meter) -> Outcome<()> {
    fn work(job: &Syncing) {
        while let Some(path) = job.0.get(job.1.fetch_add(1, Relaxed)) {
            if let Err(e) = sync(path) {
                job.2.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e.to_string());
            }
        }
    }
    let files: Vec<PathBuf> = walk(dir)?.iter().map(|path| dir.join(path)).collect();
    let helpers = SYNCING.min(files.len());
    let job: Arc<Syncing> = Arc::new((files, AtomicUsize::new(0), Mutex::new(None)));
    let helpers: Vec<_> = (1..helpers)
        .filter_map(|_| {
            let job = job.clone();
            meter.machine().spawn("sync", Box::new(move || work(&job)))
        })
        .collect();
    work(&job);
    helpers.into_iter().for_each(|helper| helper.join());
    let failed = job.2.lock().unwrap_or_else(PoisonError::into_inner).take();
    failed.map_or(Ok(()), |what| Err(Failure::Request(what)))
}

/// Makes a file durable.
pub fn sync(path: &Path) -> Outcome<()> {
    open(path, OpenHow::WRITE)?.sync().map_err(failed("sync", path))
}

/// Copies a file to a new one without a sync, for copies that somebody waits for.
pub fn unsynced(from: &Path, to: &Path, meter: &Meter) -> Outcome<PlainFile> {
    let source = open(from, OpenHow::READ)?;
    let len = source.len().map_err(failed("read", from))?;
    let target = open(to, OpenHow::CREATE)?;
    let sum = range(&*source, Some(&*target), 0, len, meter).map_err(|e| {
        Failure::Request(format!("copying {} to {}: {e}", from.display(), to.display()))
    })?;
    Ok(PlainFile::whole(len, sum))
}

/// Copies a file to a new, open one, without its holes and zeros; `to` is for messages.
pub fn sparse(from: &Path, target: &File, to: &Path, meter: &Meter) -> Outcome<()> {
    const STEP: u64 = 64 << 10;
    let source = open(from, OpenHow::READ)?;
    let len = source.len().map_err(failed("read", from))?;
    let mut buffer = vec![0; STEP as usize];
    for at in (0..len).step_by(STEP as usize) {
        let bytes = &mut buffer[..(len - at).min(STEP) as usize];
        source.read_exact_at(bytes, at).map_err(failed("read", from))?;
        if bytes.iter().any(|b| *b != 0) {
            target.write_all_at(bytes, at).map_err(failed("write", to))?;
            meter.add(bytes.len() as u64);
        }
    }
    target.set_len(len).map_err(failed("write", to))
}

/// The checksum of a whole file.
pub fn checksum(path: &Path, meter: &Meter) -> Outcome<PlainFile> {
    let source = open(path, OpenHow::READ)?;
    let len = source.len().map_err(failed("read", path))?;
    let sum = range(&*source, None, 0, len, meter).map_err(failed("read", path))?;
    Ok(PlainFile::whole(len, sum))
}

/// Paths of all files below `dir`, relative, sorted; links are not followed.
pub fn walk(dir: &Path) -> Outcome<Vec<PathBuf>> {
    below(dir, false)
}

/// The same of a data directory: links to databases and to tables' files are followed, as the server does.
pub fn walk_data(dir: &Path) -> Outcome<Vec<PathBuf>> {
    below(dir, true)
}

fn below(dir: &Path, links: bool) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(at) = todo.pop() {
        let place = dir.join(&at);
        for entry in std::fs::read_dir(&place).map_err(failed("list", &place))? {
            let entry = entry.map_err(failed("list", &place))?;
            let path = at.join(entry.file_name());
            let kind = entry.file_type().map_err(failed("look at", &place))?;
            let is_link = links && kind.is_symlink();
            // Databases are not nested, and a link further down may lead back here.
            let is_database = || {
                at.as_os_str().is_empty()
                    && std::fs::metadata(entry.path()).is_ok_and(|m| m.is_dir())
            };
            if kind.is_dir() || (is_link && is_database()) {
                todo.push(path);
            } else if kind.is_file() || is_link {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Makes `dir`, which must not exist or be empty.
pub fn new_directory(dir: &Path, what: &str) -> Outcome<()> {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            Some(_) => Err(Failure::Request(format!("{} is not empty: {what}", dir.display()))),
            None => Ok(()),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            std::fs::create_dir_all(dir).map_err(failed("make", dir))
        }
        Err(e) => Err(failed("look into", dir)(e)),
    }
}

/// Makes directories and their entries durable, `dir` included.
pub fn sync_directories(dir: &Path) -> Outcome<()> {
    let mut todo = vec![dir.to_path_buf()];
    while let Some(place) = todo.pop() {
        let vfs = OsVfs::new(&place).map_err(failed("open", &place))?;
        vfs.sync_dir().map_err(failed("sync", &place))?;
        for entry in std::fs::read_dir(&place).map_err(failed("list", &place))? {
            let entry = entry.map_err(failed("list", &place))?;
            if entry.file_type().map_err(failed("look at", &place))?.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    Ok(())
}
