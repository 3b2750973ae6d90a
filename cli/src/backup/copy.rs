//! Copying bytes between directories: with checksums, a limit on the rate, and progress.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use frond_base::checksum64;
use frond_vfs::{OpenHow, OsVfs, Vfs, VfsFile};

use super::manifest::{hex, PlainFile};
use crate::out::{bytes, Failure, Outcome};

/// Bytes read at a time.
const PIECE: usize = 4 << 20;

/// Where a failure happened.
pub fn failed<'a>(doing: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> Failure + 'a {
    move |e| Failure::Request(format!("{doing} {}: {e}", path.display()))
}

/// Limits the rate and shows progress.
pub struct Meter {
    clock: OsVfs,
    rate: Option<u64>,
    began: Duration,
    shown: Option<Duration>,
    pub done: u64,
    /// 0: not known.
    pub total: u64,
}

impl Meter {
    /// `place`: any directory that exists.
    pub fn new(place: &Path, rate: Option<u64>, quiet: bool) -> Outcome<Meter> {
        let clock = OsVfs::new(place).map_err(failed("open", place))?;
        let began = clock.now();
        let shown =
            (!quiet && std::io::IsTerminal::is_terminal(&std::io::stderr())).then_some(began);
        Ok(Meter { clock, rate, began, shown, done: 0, total: 0 })
    }

    /// Runs `what` without the limit of the rate: for what the server's commits wait for. Its bytes count, so
    /// what comes later waits for them.
    pub fn unlimited<T>(&mut self, what: impl FnOnce(&mut Meter) -> T) -> T {
        let rate = self.rate.take();
        let done = what(self);
        self.rate = rate;
        done
    }

    /// `n` bytes were copied: waits if that was too fast.
    pub fn add(&mut self, n: u64) {
        self.done += n;
        let spent = self.clock.now().saturating_sub(self.began);
        if let Some(rate) = self.rate.filter(|rate| *rate > 0) {
            let due = Duration::from_secs_f64(self.done as f64 / rate as f64);
            let early = due.saturating_sub(spent);
            if early > Duration::from_millis(5) {
                wait(early);
            }
        }
        self.show();
    }

    fn show(&mut self) {
        let now = self.clock.now();
        let Some(last) = self.shown.filter(|last| now.saturating_sub(*last).as_millis() >= 250)
        else {
            return;
        };
        let _ = last;
        self.shown = Some(now);
        let spent = now.saturating_sub(self.began).as_secs_f64().max(0.001);
        let rate = self.done as f64 / spent;
        let left = self.total.saturating_sub(self.done) as f64 / rate.max(1.0);
        let of = match self.total {
            0 => String::new(),
            total => format!(" of {}, {left:.0} s left", bytes(total)),
        };
        eprint!("\r\x1b[K{}{of}, {}/s", bytes(self.done), bytes(rate as u64));
    }

    /// Removes the line of progress.
    pub fn finish(&self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }

    pub fn seconds(&self) -> f64 {
        self.clock.now().saturating_sub(self.began).as_secs_f64()
    }
}

/// Copies `len` bytes at `offset` to the same place, and returns their checksum.
pub fn range(
    from: &dyn VfsFile,
    to: Option<&dyn VfsFile>,
    offset: u64,
    len: u64,
    meter: &mut Meter,
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

/// Of bytes that come in pieces of [`PIECE`]: the checksum of one, or that of the checksums of several.
#[derive(Default)]
struct Checksum(Vec<u64>);

impl Checksum {
    fn add(&mut self, piece: &[u8]) {
        self.0.push(checksum64(piece));
    }

    fn end(&self) -> u64 {
        match self.0[..] {
            [one] => one,
            _ => checksum64(&self.0.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>()),
        }
    }
}

/// The file that `path` names.
pub fn open(path: &Path, how: OpenHow) -> Outcome<std::sync::Arc<dyn VfsFile>> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let vfs = OsVfs::new(dir).map_err(failed("open", dir))?;
    vfs.open(&name, how).map_err(failed("open", path))
}

/// Copies the first `len` bytes (`None`: all) of a file to a new one, synced.
pub fn file(from: &Path, to: &Path, len: Option<u64>, meter: &mut Meter) -> Outcome<PlainFile> {
    let copied = unsynced(from, to, len, meter)?;
    sync(to)?;
    Ok(copied)
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

/// Makes a file durable.
pub fn sync(path: &Path) -> Outcome<()> {
    open(path, OpenHow::WRITE)?.sync().map_err(failed("sync", path))
}

/// As [`file`]; not synced, for what is copied while somebody waits.
pub fn unsynced(from: &Path, to: &Path, len: Option<u64>, meter: &mut Meter) -> Outcome<PlainFile> {
    let source = open(from, OpenHow::READ)?;
    let len = match len {
        Some(len) => len,
        None => source.len().map_err(failed("read", from))?,
    };
    let target = open(to, OpenHow::CREATE)?;
    let sum = range(&*source, Some(&*target), 0, len, meter).map_err(|e| {
        Failure::Request(format!("copying {} to {}: {e}", from.display(), to.display()))
    })?;
    Ok(PlainFile { bytes: len, checksum: hex(sum) })
}

/// The checksum of a whole file.
pub fn checksum(path: &Path, meter: &mut Meter) -> Outcome<PlainFile> {
    let source = open(path, OpenHow::READ)?;
    let len = source.len().map_err(failed("read", path))?;
    let sum = range(&*source, None, 0, len, meter).map_err(failed("read", path))?;
    Ok(PlainFile { bytes: len, checksum: hex(sum) })
}

/// Paths of all files below `dir`, relative, sorted; links are not followed.
pub fn walk(dir: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(at) = todo.pop() {
        let place = dir.join(&at);
        for entry in std::fs::read_dir(&place).map_err(failed("list", &place))? {
            let entry = entry.map_err(failed("list", &place))?;
            let path = at.join(entry.file_name());
            let kind = entry.file_type().map_err(failed("look at", &place))?;
            if kind.is_dir() {
                todo.push(path);
            } else if kind.is_file() {
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

/// Makes directories and what is in them durable, `dir` included.
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
