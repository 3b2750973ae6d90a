//! Copying bytes between directories, with checksums.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use frond_base::checksum64;
use frond_vfs::{OpenHow, OsVfs, Vfs, VfsFile};

use super::manifest::PlainFile;
use super::meter::wait;
pub use super::meter::{Meter, Show};
use crate::out::{Failure, Outcome};

/// Bytes read at a time.
pub const PIECE: usize = 4 << 20;

/// For `map_err`: a failure while `doing` something with `path`.
pub fn failed<'a>(doing: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> Failure + 'a {
    move |e| Failure::Request(format!("{doing} {}: {e}", path.display()))
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
        meter.add(n as u64)?;
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
    fn work(job: &Syncing, meter: &Meter) {
        while let Some(path) = job.0.get(job.1.fetch_add(1, Relaxed)) {
            // Syncs take from the server as copying does.
            let paced = meter.add(0).map_err(failed("write", path));
            if let Err(e) = paced.and_then(|()| sync(path)) {
                job.2.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e.to_string());
            }
        }
    }
    let files: Vec<PathBuf> = walk(dir)?.iter().map(|path| dir.join(path)).collect();
    let helpers = SYNCING.min(files.len());
    let job: Arc<Syncing> = Arc::new((files, AtomicUsize::new(0), Mutex::new(None)));
    let helpers: Vec<_> = (1..helpers)
        .filter_map(|_| {
            let (job, shared) = (job.clone(), meter.clone());
            meter.machine().spawn("sync", Box::new(move || work(&job, &shared))).ok().flatten()
        })
        .collect();
    work(&job, meter);
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
            meter.add(bytes.len() as u64).map_err(failed("write", to))?;
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
