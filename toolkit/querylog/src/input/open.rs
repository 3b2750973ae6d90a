//! One input: a file or standard input, unpacked; its first bytes are kept for recognition.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use super::detect::{detect, packing, Format, Packing, HEAD};

/// An error of an input, with a message for an operator.
#[derive(Debug)]
pub struct InputError {
    pub name: String,
    pub what: String,
}

impl std::fmt::Display for InputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.what)
    }
}

impl std::error::Error for InputError {}

/// Where an input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Stdin,
    File(PathBuf),
}

impl Origin {
    /// `-` is standard input.
    pub fn of(path: &Path) -> Origin {
        if path == Path::new("-") {
            Origin::Stdin
        } else {
            Origin::File(path.to_owned())
        }
    }

    pub fn name(&self) -> String {
        match self {
            Origin::Stdin => "-".into(),
            Origin::File(path) => path.display().to_string(),
        }
    }
}

/// Counts the bytes that are read, for the progress: of a packed file, the packed bytes.
struct Counting<R> {
    inner: R,
    count: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.count.fetch_add(n as u64, std::sync::atomic::Ordering::Relaxed);
        Ok(n)
    }
}

/// An opened input.
pub struct Input {
    pub name: String,
    pub format: Option<Format>,
    pub packing: Packing,
    /// Size of the file as it is stored; `None` for a pipe.
    pub size: Option<u64>,
    /// The first bytes, unpacked; `reader` yields them again.
    pub head: Vec<u8>,
    pub reader: Box<dyn Read + Send>,
    read: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl Input {
    /// Opens `origin` and recognises its format, unless `format` is given.
    pub fn open(origin: &Origin, format: Option<Format>) -> Result<Input, InputError> {
        let name = origin.name();
        let fail = |what: String| InputError { name: name.clone(), what };
        let (raw, size): (Box<dyn Read + Send>, Option<u64>) = match origin {
            Origin::Stdin => (Box::new(io::stdin()), None),
            Origin::File(path) => {
                let file = File::open(path).map_err(|e| fail(describe(&e)))?;
                let meta = file.metadata().map_err(|e| fail(describe(&e)))?;
                if meta.is_dir() {
                    return Err(fail("is a directory; name the files in it".into()));
                }
                let size = meta.is_file().then_some(meta.len());
                (Box::new(file), size)
            }
        };
        let read = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let mut counted = Counting { inner: raw, count: read.clone() };
        let mut packed_head = Vec::new();
        read_up_to(&mut counted, 16, &mut packed_head).map_err(|e| fail(describe(&e)))?;
        let packing = packing(&packed_head);
        let again = Cursor::new(packed_head).chain(counted);
        let mut reader: Box<dyn Read + Send> = match packing {
            Packing::Plain => Box::new(again),
            Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(
                io::BufReader::with_capacity(256 << 10, again),
            )),
            Packing::Zstd => {
                Box::new(zstd::stream::read::Decoder::new(again).map_err(|e| fail(describe(&e)))?)
            }
        };
        let mut head = Vec::new();
        if let Err(e) = read_up_to(&mut reader, HEAD, &mut head) {
            // The bytes that could be unpacked are read first; the error follows them.
            if head.is_empty() {
                return Err(fail(describe(&e)));
            }
        }
        let format = match format {
            Some(format) => (!head.is_empty()).then_some(format),
            None => detect(&head).map_err(fail)?,
        };
        let reader = Box::new(Cursor::new(head.clone()).chain(reader));
        Ok(Input { name, format, packing, size, head, reader, read })
    }

    /// Reads to the end and passes on each piece as it comes.
    pub fn pieces(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = vec![0; 256 << 10];
        loop {
            match self.reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => each(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Bytes of the stored file that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// The system's message without its number.
pub fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}

/// Reads until there are `limit` bytes or the input ends.
pub fn read_up_to(
    reader: &mut (impl Read + ?Sized),
    limit: usize,
    into: &mut Vec<u8>,
) -> io::Result<usize> {
    let before = into.len();
    into.resize(before + limit, 0);
    let mut filled = 0;
    let result = loop {
        if filled == limit {
            break Ok(filled);
        }
        match reader.read(&mut into[before + filled..]) {
            Ok(0) => break Ok(filled),
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => break Err(e),
        }
    };
    into.truncate(before + filled);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, Origin) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, bytes).unwrap();
        (dir, Origin::of(&path))
    }

    const LOG: &[u8] = b"# User@Host: a[a] @ h []\n# Query_time: 1\nselect 1;\n";

    #[test]
    fn packed_files_are_unpacked() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(LOG).unwrap();
        let zstd = zstd::encode_all(LOG, 1).unwrap();
        for bytes in [LOG.to_vec(), gzip.finish().unwrap(), zstd] {
            let (_dir, origin) = file(&bytes);
            let mut input = Input::open(&origin, None).unwrap();
            assert_eq!(input.format, Some(Format::SlowLog));
            let mut all = Vec::new();
            input.reader.read_to_end(&mut all).unwrap();
            assert_eq!(all, LOG);
            assert_eq!(input.bytes_read(), bytes.len() as u64);
        }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let missing =
            Input::open(&Origin::of(Path::new("/nonexistent/slow.log")), None).err().unwrap();
        assert_eq!(missing.to_string(), "/nonexistent/slow.log: no such file or directory");
        let (_dir, origin) = file(b"\xfebin\0\0\0");
        assert!(Input::open(&origin, None).err().unwrap().what.contains("binary log"));
        let (_dir, origin) = file(b"");
        assert_eq!(Input::open(&origin, None).unwrap().format, None);
    }
}
