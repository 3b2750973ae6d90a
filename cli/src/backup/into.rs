//! Where the files of a new backup go.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use frond_vfs::OpenHow;

use super::copy::{self, failed, Meter};
use super::manifest::PlainFile;
use super::pack::Packer;
use super::parallel::{extents, To};
use crate::out::{Failure, Outcome};

/// Where copies go.
pub enum Into {
    /// The directory `frond` of the backup.
    Directory(PathBuf),
    Pack(Arc<Packer>),
}

impl Into {
    /// Opens a new file of the backup. It is written through the cache: the syncs of the server's log would wait behind direct
    /// writes.
    pub fn open(&self, path: &str) -> Outcome<To> {
        Ok(match self {
            Into::Directory(frond) => {
                let target = frond.join(path.strip_prefix("frond/").unwrap_or(path));
                To::File(copy::open(&target, OpenHow::CREATE)?)
            }
            Into::Pack(packer) => {
                packer.name(path);
                To::Pack(packer.clone(), path.to_string())
            }
        })
    }

    /// Copies a file.
    pub fn file(
        &self,
        from: &Path,
        path: &str,
        threads: usize,
        meter: &Meter,
    ) -> Outcome<PlainFile> {
        let source = copy::open(from, OpenHow::READ)?;
        let len = source.len().map_err(failed("read", from))?;
        let to = self.open(path)?;
        let cannot = |e| Failure::Request(format!("copying {} to the backup: {e}", from.display()));
        let sums = extents(&source, &to, &[(0, len)], threads, meter).map_err(cannot)?;
        Ok(PlainFile::whole(len, sums[0]))
    }
}
