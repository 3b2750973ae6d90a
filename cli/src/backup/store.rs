//! Where a backup is stored: a directory of files with a manifest, or a pack. A pack is `backup.frb` in a directory, or any
//! file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use frond_vfs::{OpenHow, OsVfs, Vfs, VfsFile};

use super::copy::failed;
use super::key::Key;
use super::manifest::{self, Manifest};
use super::pack::{self, Pack};
use crate::out::{Failure, Outcome};

/// The name of a pack in a directory of its own.
pub const PACK: &str = "backup.frb";
/// The name of a pack while it is written or received.
pub const PART: &str = "backup.frb.part";

/// The files of one backup.
#[derive(Clone)]
pub enum Store {
    Dir(PathBuf),
    Pack(Arc<Pack>),
}

impl Store {
    /// Opens the backup at `path` and verifies its manifest.
    pub fn open(path: &Path, key: Option<&Key>) -> Outcome<(Store, Manifest)> {
        let opened = match pack_of(path) {
            Some(pack) => Pack::open(&pack, key).map(|(pack, read)| (Store::Pack(pack), read)),
            None => Manifest::read(path).map(|read| (Store::Dir(path.to_path_buf()), read)),
        }?;
        let is_sealed = matches!(&opened.0, Store::Pack(pack) if pack.is_sealed());
        if !is_sealed && key.is_some_and(|key| !key.allows_unencrypted) {
            let what = "it is not encrypted, but a key was given (KY2); --allow-unencrypted takes it all the same";
            return Err(fail(path, what));
        }
        Ok(opened)
    }

    /// A file, by its path in the manifest; `direct`: for direct transfers, where it is not in a pack.
    pub fn file(&self, path: &str, direct: bool) -> io::Result<Arc<dyn VfsFile>> {
        match self {
            Store::Dir(dir) => {
                let full = dir.join(path);
                let name = full.file_name().map(|n| n.to_string_lossy().into_owned());
                let vfs = OsVfs::new(full.parent().unwrap_or(dir))?;
                vfs.open(&name.unwrap_or_default(), OpenHow { direct, ..OpenHow::READ })
            }
            Store::Pack(pack) => match pack.file(path) {
                Some(file) => Ok(Arc::new(file)),
                None => Err(io::ErrorKind::NotFound.into()),
            },
        }
    }
}

/// The pack file that a path means.
fn pack_of(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_path_buf());
    }
    Some(path.join(PACK)).filter(|pack| pack.exists())
}

/// What is known of a backup without its key.
pub struct Summary {
    pub id: String,
    pub chain: Vec<String>,
    pub created: u64,
    /// Bytes that the backup has itself.
    pub bytes: u64,
    /// `None`: it is inside a pack, and reading it may need a key.
    pub manifest: Option<Box<Manifest>>,
    /// For a pack: the name of its key, if it is sealed.
    pub pack: Option<Option<String>>,
}

/// What was found at a path.
pub enum Found {
    Whole(Box<Summary>),
    Incomplete,
    Damaged(String),
}

/// Looks at a path; `None`: nothing of a backup is there.
pub fn look(path: &Path) -> Option<Found> {
    let whole = |read: Outcome<Summary>| match read {
        Ok(summary) => Found::Whole(Box::new(summary)),
        Err(e) => Found::Damaged(e.to_string()),
    };
    if path.is_file() {
        // A file with another name may be anything.
        let begun = path.extension().is_some_and(|e| e == "frb");
        return begun.then(|| whole(of_pack(path)));
    }
    if path.join(PACK).exists() {
        return Some(whole(of_pack(&path.join(PACK))));
    }
    if path.join(manifest::NAME).exists() {
        return Some(whole(Manifest::read(path).map(of_manifest)));
    }
    let begun =
        path.join(PART).exists() || (path.join("frond").is_dir() && path.join("server").is_dir());
    begun.then_some(Found::Incomplete)
}

fn of_pack(path: &Path) -> Outcome<Summary> {
    let (head, bytes) = pack::look(path)?;
    Ok(Summary {
        id: head.id,
        chain: head.chain,
        created: head.created,
        bytes,
        manifest: None,
        pack: Some(head.key.map(|(id, _)| id)),
    })
}

fn of_manifest(read: Manifest) -> Summary {
    Summary {
        id: read.id.clone(),
        chain: read.chain.clone(),
        created: read.created,
        bytes: read.bytes(),
        manifest: Some(Box::new(read)),
        pack: None,
    }
}

/// Removes a backup. The manifest or the pack goes first: what an interrupted removal leaves is then no backup.
pub fn remove(path: &Path) -> Outcome<()> {
    let file = path.is_file();
    let dir = if file { path.parent().unwrap_or(path) } else { path };
    let name = match file {
        true => path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default(),
        false if path.join(PACK).exists() => PACK.into(),
        false => manifest::NAME.into(),
    };
    let vfs = OsVfs::new(dir).map_err(failed("open", dir))?;
    vfs.remove(&name).and_then(|()| vfs.sync_dir()).map_err(failed("remove", path))?;
    match file {
        true => Ok(()),
        false => std::fs::remove_dir_all(dir).map_err(failed("remove", dir)),
    }
}

/// Removes what a failed backup left in its directory, which was empty before. What makes it look whole goes first: the last sync may be
/// what failed.
pub fn clear(dir: &Path) {
    if let Ok(vfs) = OsVfs::new(dir) {
        for name in [manifest::NAME, PACK, manifest::TEMPORARY, PART, "mariadb-backup.log"] {
            let _ = vfs.remove(name);
        }
    }
    for name in ["frond", "server"] {
        let _ = std::fs::remove_dir_all(dir.join(name));
    }
}

/// A failure that names the backup.
pub fn fail(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::Request(format!("{}: {what}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_failed_backup_looks_whole_or_is_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("frond")).unwrap();
        let vfs = OsVfs::new(dir.path()).unwrap();
        for name in [PACK, PART] {
            drop(vfs.open(name, OpenHow::CREATE).unwrap());
        }
        Manifest::new(1, "here").write(dir.path()).unwrap();
        drop(vfs.open(manifest::TEMPORARY, OpenHow::CREATE).unwrap());
        clear(dir.path());
        assert!(look(dir.path()).is_none());
        super::super::copy::new_directory(dir.path(), "again").unwrap();
    }
}
