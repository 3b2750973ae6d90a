//! `frond.id`: says that a directory is a Frond database, of which format and which one.
//!
//! Written once, at creation, by rename after sync: it is there whole or not at all.
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
/// The format this release writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;
const LEN: usize = 32;

/// Reads the database id, or creates one when the directory is empty.
pub fn open_or_create(vfs: &dyn Vfs, read_only: bool) -> Result<u64> {
    if vfs.exists(NAME).map_err(|e| Error::io("look for", NAME, e))? {
        return read(vfs);
    }
    let strangers: Vec<String> = vfs
        .list()
        .map_err(|e| Error::io("list", "the database directory", e))?
        .into_iter()
        .filter(|n| n != "LOCK" && n != TEMPORARY)
        .collect();
    if let Some(first) = strangers.first() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the directory has no {NAME} but is not empty (it holds '{first}'): it is not a \
                 Frond database; give an empty directory or restore {NAME} from a backup"
            ),
        ));
    }
    if read_only {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("the directory has no {NAME}: there is no Frond database here"),
        ));
    }
    create(vfs)
}

fn create(vfs: &dyn Vfs) -> Result<u64> {
    let database = vfs.random_u64() | 1;
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&0u32.to_le_bytes());
    bytes.extend_from_slice(&database.to_le_bytes());
    let sum = checksum64(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());

    let wrap = |doing: &'static str| move |e: io::Error| Error::io(doing, NAME, e);
    if vfs.exists(TEMPORARY).map_err(wrap("look for"))? {
        // Left by a crash during creation.
        vfs.remove(TEMPORARY).map_err(wrap("remove the unfinished"))?;
    }
    let how = OpenHow { create_new: true, write: true, direct: false };
    let file = vfs.open(TEMPORARY, how).map_err(wrap("create"))?;
    file.write_all_at(&bytes, 0).map_err(wrap("write"))?;
    file.sync().map_err(wrap("sync"))?;
    vfs.rename(TEMPORARY, NAME).map_err(wrap("rename"))?;
    vfs.sync_dir().map_err(wrap("sync the directory of"))?;
    Ok(database)
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
        let _reserved = r.u32()?;
        Ok((magic, version, r.u64()?, r.u64()?))
    };
    let (magic, version, database, sum) = decode().map_err(|e| e.in_file(NAME, "identity"))?;
    if magic != MAGIC {
        return Err(Error::corruption(NAME, "offset 0: not the magic of a Frond database"));
    }
    if sum != checksum64(&bytes[..24]) {
        return Err(Error::corruption(NAME, "offset 24: checksum does not match"));
    }
    if version > FORMAT_VERSION {
        return Err(Error::new(
            ErrorKind::UnsupportedFormat,
            format!(
                "{NAME}: written in format {version}, this release reads up to {FORMAT_VERSION}; \
                 use the release that wrote it or a newer one"
            ),
        ));
    }
    Ok(database)
}
