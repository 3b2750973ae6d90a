//! `frond.id`: marks a directory as a Frond database; has its format and its id.
//!
//! Written once, at creation: as `frond.id.new` first, renamed when the log exists. So it exists
//! whole or not at all, and a directory that has it has a log, unless somebody removed that.
//!
//! | offset | bytes | field |
//! |-------:|------:|-------|
//! | 0  | 8 | magic `FRONDDB\n` |
//! | 8  | 4 | format version, little-endian |
//! | 12 | 4 | reserved, zero |
//! | 16 | 8 | database id: random, repeated in every file |
//! | 24 | 8 | XXH3 of bytes 0..24 |

use std::io;

use frond_base::{checksum64, ByteReader, Error, ErrorKind, Result};
use frond_vfs::{OpenHow, Vfs};

const NAME: &str = "frond.id";
const TEMPORARY: &str = "frond.id.new";
const MAGIC: &[u8; 8] = b"FRONDDB\n";
/// The format this release writes, and the only one it reads.
pub const FORMAT_VERSION: u32 = 1;
const LEN: usize = 32;

/// The database of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    Existing(u64),
    /// Being created: call [`finish`] when it has a log.
    New(u64),
}

/// Reads the database id, or begins a database when the directory is empty.
pub fn open_or_begin(vfs: &dyn Vfs, read_only: bool) -> Result<Identity> {
    if exists(vfs, NAME)? {
        return read(vfs).map(Identity::Existing);
    }
    refuse_strangers(vfs)?;
    if read_only {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("the directory has no {NAME}: there is no Frond database here"),
        ));
    }
    begin(vfs).map(Identity::New)
}

fn exists(vfs: &dyn Vfs, name: &str) -> Result<bool> {
    vfs.exists(name).map_err(|e| Error::io("look for", name, e))
}

fn list(vfs: &dyn Vfs) -> Result<Vec<String>> {
    vfs.list().map_err(|e| Error::io("list", "the database directory", e))
}

/// Segments and spare segments.
pub fn is_log(name: &str) -> bool {
    name.ends_with(".frl")
}

/// Files that a database makes, but for its lock.
pub fn is_ours(name: &str) -> bool {
    name == NAME || name == TEMPORARY || is_log(name) || name.ends_with(".frd")
}

/// Fails when the directory is not empty and has no database. Changes nothing: call it before
/// anything is written there.
pub fn refuse_strangers(vfs: &dyn Vfs) -> Result<()> {
    if exists(vfs, NAME)? {
        return Ok(());
    }
    // A crash during creation leaves the temporary name, and perhaps a log.
    let unfinished = exists(vfs, TEMPORARY)?;
    let ours = |n: &String| n == "LOCK" || n == TEMPORARY || unfinished && is_log(n);
    match list(vfs)?.iter().find(|n| !ours(n)) {
        None => Ok(()),
        Some(first) => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the directory has no {NAME} but is not empty (it holds '{first}'): it is not a \
                 Frond database; give an empty directory or restore {NAME} from a backup"
            ),
        )),
    }
}

fn begin(vfs: &dyn Vfs) -> Result<u64> {
    let database = vfs.random_u64() | 1;
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&0u32.to_le_bytes());
    bytes.extend_from_slice(&database.to_le_bytes());
    let sum = checksum64(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());

    let wrap = |doing: &'static str| move |e: io::Error| Error::io(doing, NAME, e);
    if exists(vfs, TEMPORARY)? {
        // Left by a crash during creation. The log first: without the temporary name it would be a
        // foreign file.
        for name in list(vfs)?.iter().filter(|n| is_log(n)) {
            vfs.remove(name).map_err(|e| Error::io("remove the unfinished", name, e))?;
        }
        vfs.sync_dir().map_err(wrap("sync the directory of"))?;
        vfs.remove(TEMPORARY).map_err(wrap("remove the unfinished"))?;
    }
    let how = OpenHow { create_new: true, write: true, direct: false };
    let file = vfs.open(TEMPORARY, how).map_err(wrap("create"))?;
    file.write_all_at(&bytes, 0).map_err(wrap("write"))?;
    file.sync().map_err(wrap("sync"))?;
    // Before the log: see above.
    vfs.sync_dir().map_err(wrap("sync the directory of"))?;
    Ok(database)
}

/// Ends the creation of a database, whose log is durable now.
pub fn finish(vfs: &dyn Vfs) -> Result<()> {
    vfs.rename(TEMPORARY, NAME).map_err(|e| Error::io("rename", TEMPORARY, e))?;
    vfs.sync_dir().map_err(|e| Error::io("sync the directory of", NAME, e))
}

/// The database id of a directory that has one.
pub fn read(vfs: &dyn Vfs) -> Result<u64> {
    let how = OpenHow { create_new: false, write: false, direct: false };
    let file = vfs.open(NAME, how).map_err(|e| Error::io("open", NAME, e))?;
    let mut bytes = [0u8; LEN];
    file.read_exact_at(&mut bytes, 0).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => Error::corruption(NAME, "shorter than 32 bytes"),
        _ => Error::io("read", NAME, e),
    })?;
    let mut r = ByteReader::new(&bytes);
    let mut decode = || -> std::result::Result<_, frond_base::ShortInput> {
        let magic = r.take(8)?.to_vec();
        let version = r.u32()?;
        Ok((magic, version, r.u32()?, r.u64()?, r.u64()?))
    };
    let (magic, version, reserved, database, sum) =
        decode().map_err(|e| e.in_file(NAME, "identity"))?;
    if magic != MAGIC {
        return Err(Error::corruption(NAME, "offset 0: not the magic of a Frond database"));
    }
    if sum != checksum64(&bytes[..24]) {
        return Err(Error::corruption(NAME, "offset 24: checksum does not match"));
    }
    if version != FORMAT_VERSION {
        return Err(Error::new(
            ErrorKind::UnsupportedFormat,
            format!(
                "{NAME}: written in format {version}, this release reads {FORMAT_VERSION}; \
                 use the release that wrote it or a newer one"
            ),
        ));
    }
    if reserved != 0 {
        let what = format_args!("offset 12: the reserved word is {reserved}, not zero");
        return Err(Error::corruption(NAME, what));
    }
    Ok(database)
}
