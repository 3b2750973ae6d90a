//! A backup put together with those that it is based on, as one directory for reading.
//!
//! - BH1. Members are found by the ids in the newest manifest, wherever they are; a member that is missing or has another
//!   id is refused by name.
//! - BH2. Nothing is ever written to a member.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use frond_vfs::{DirLock, OpenHow, OsVfs, Spawned, Vfs, VfsFile};

use super::args::KeyOf;
use super::copy::failed;
use super::key::Key;
use super::manifest::{Manifest, PlainFile, TableFile};
use super::read_only::{refused, ReadOnly, Readable};
use super::store::{self, Found, Store};
use crate::out::{Failure, Outcome};

/// A backup and its members.
pub struct Chain {
    /// The manifest of the backup itself, which is the newest.
    pub manifest: Manifest,
    /// In the order of the chain; the last one is the backup itself.
    pub members: Vec<Member>,
}

pub struct Member {
    pub path: PathBuf,
    pub manifest: Manifest,
    pub store: Store,
}

impl Member {
    fn open(path: &Path, key: Option<&Key>) -> Outcome<Member> {
        let (store, manifest) = Store::open(path, key)?;
        Ok(Member { path: path.to_path_buf(), manifest, store })
    }
}

impl Chain {
    /// Finds the members beside `dir` or in `elsewhere` (BH1). One key opens them all.
    pub fn find(dir: &Path, elsewhere: &[PathBuf], key: &KeyOf) -> Outcome<Chain> {
        let key = Key::of(key.key_file.as_deref(), key.allow_unencrypted)?;
        let newest = Member::open(dir, key.as_ref())?;
        let manifest = newest.manifest.clone();
        let mut places: Vec<PathBuf> = elsewhere.to_vec();
        let full = std::fs::canonicalize(dir).map_err(failed("look for", dir))?;
        if let Some(parent) = full.parent().filter(|_| !manifest.chain.is_empty()) {
            for entry in std::fs::read_dir(parent).map_err(failed("list", parent))? {
                places.push(entry.map_err(failed("list", parent))?.path());
            }
        }
        let mut found: HashMap<String, PathBuf> = HashMap::new();
        for place in places {
            match store::look(&place) {
                Some(Found::Whole(is)) if manifest.chain.contains(&is.id) => {
                    found.entry(is.id).or_insert(place);
                }
                Some(Found::Damaged(what)) if elsewhere.contains(&place) => {
                    return Err(Failure::Request(what))
                }
                None | Some(Found::Incomplete) if elsewhere.contains(&place) => {
                    return Err(store::fail(&place, "it is no whole backup"))
                }
                _ => {}
            }
        }
        let mut members = Vec::new();
        for (at, id) in manifest.chain.iter().enumerate() {
            let Some(place) = found.remove(id) else {
                return Err(Failure::Request(format!(
                    "{}: it is based on backup {id}, which is not there, or not whole; say where with --chain",
                    dir.display()
                )));
            };
            let member = Member::open(&place, key.as_ref())?;
            let read = &member.manifest;
            if read.chain != manifest.chain[..at] || read.database != manifest.database {
                let what = format!("not a backup that {} is based on", manifest.id);
                return Err(store::fail(&place, what));
            }
            members.push(member);
        }
        members.push(newest);
        Ok(Chain { manifest, members })
    }

    /// The backup itself.
    pub fn newest(&self) -> &Member {
        &self.members[self.members.len() - 1]
    }

    /// The Frond database of the backup, for reading.
    pub fn vfs(&self) -> Outcome<ChainVfs> {
        let path = &self.newest().path;
        let place = match path.is_file() {
            true => path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            false => path,
        };
        let machine = OsVfs::new(place).map_err(failed("open", place))?;
        let stores = self.members.iter().map(|member| member.store.clone()).collect();
        let tables = self.manifest.tables.iter().map(|t| (t.file_name(), t.clone())).collect();
        let named = |(path, file): (&String, &PlainFile)| {
            Some((path.strip_prefix("frond/")?.to_string(), file.clone()))
        };
        let plain = self.manifest.files.iter().filter_map(named).collect();
        Ok(ChainVfs { machine, stores, tables, plain })
    }

    /// A file that is not a table's, put together from the members.
    pub fn plain(&self, path: &str, file: &PlainFile) -> io::Result<ReadOnly<Assembled>> {
        let stores: Vec<_> = self.members.iter().map(|member| &member.store).collect();
        Assembled::plain(path, file, &stores)
    }
}

/// See [`Chain::vfs`].
pub struct ChainVfs {
    machine: OsVfs,
    stores: Vec<Store>,
    tables: HashMap<String, TableFile>,
    plain: HashMap<String, PlainFile>,
}

impl ChainVfs {
    /// The file of a table, put together; `direct`: see [`bypasses_cache`](super::parallel::bypasses_cache).
    pub fn table(&self, table: &TableFile, direct: bool) -> io::Result<ReadOnly<Assembled>> {
        let own = self.stores.len() - 1;
        let mut parts: Vec<(u64, u64, usize)> = table.own.iter().map(|p| (p.0, p.1, own)).collect();
        parts.extend(table.blocks.iter().map(|b| (b.1, b.2, b.4)));
        parts.sort_unstable();
        let stores: Vec<_> = self.stores.iter().collect();
        // A read of a pack ends anywhere.
        let direct = direct && stores.iter().all(|store| matches!(store, Store::Dir(_)));
        Assembled::of(&inside(&table.file_name()), table.bytes, parts, &stores, direct)
    }
}

/// The path inside a backup.
fn inside(name: &str) -> String {
    format!("frond/{name}")
}

struct NoLock;

impl DirLock for NoLock {}

impl Vfs for ChainVfs {
    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        if how.create_new || how.write {
            return Err(refused());
        }
        match self.tables.get(name) {
            Some(table) => Ok(Arc::new(self.table(table, false)?)),
            None => {
                let file = self.plain.get(name).ok_or(io::ErrorKind::NotFound)?;
                let stores: Vec<_> = self.stores.iter().collect();
                Ok(Arc::new(Assembled::plain(&inside(name), file, &stores)?))
            }
        }
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.tables.contains_key(name) || self.plain.contains_key(name))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(refused())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(refused())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.tables.keys().chain(self.plain.keys()).cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock_dir(&self) -> io::Result<Box<dyn DirLock>> {
        Ok(Box::new(NoLock))
    }

    fn now(&self) -> Duration {
        self.machine.now()
    }

    fn wall_clock(&self) -> Duration {
        self.machine.wall_clock()
    }

    fn random_u64(&self) -> u64 {
        self.machine.random_u64()
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Spawned {
        self.machine.spawn(name, work)
    }

    fn descriptors(&self) -> Option<u64> {
        self.machine.descriptors()
    }
}

/// A file whose parts are in several backups; gaps between the parts read as zeros.
pub struct Assembled {
    len: u64,
    /// Offset, length, member; ascending.
    parts: Vec<(u64, u64, usize)>,
    files: Vec<Option<Arc<dyn VfsFile>>>,
}

impl Assembled {
    /// `parts` are ascending; opens the file of each member that has one.
    fn of(
        path: &str,
        len: u64,
        parts: Vec<(u64, u64, usize)>,
        stores: &[&Store],
        direct: bool,
    ) -> io::Result<ReadOnly<Assembled>> {
        let mut files: Vec<Option<Arc<dyn VfsFile>>> = vec![None; stores.len()];
        for (_, _, member) in &parts {
            if files[*member].is_none() {
                files[*member] = Some(stores[*member].file(path, direct)?);
            }
        }
        Ok(ReadOnly(Assembled { len, parts, files }))
    }

    fn plain(path: &str, file: &PlainFile, stores: &[&Store]) -> io::Result<ReadOnly<Assembled>> {
        let parts = file.parts(stores.len() - 1).iter().map(|p| (p.0, p.1, p.3)).collect();
        Assembled::of(path, file.bytes, parts, stores, false)
    }
}

impl Readable for Assembled {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.len {
            return Ok(0);
        }
        let mut n = (buf.len() as u64).min(self.len - offset);
        let next = self.parts.partition_point(|(at, len, _)| at + len <= offset);
        match self.parts.get(next) {
            Some((at, len, member)) if *at <= offset => {
                n = n.min(at + len - offset);
                let Some(Some(file)) = self.files.get(*member) else { return Err(refused()) };
                return file.read_at(&mut buf[..n as usize], offset);
            }
            Some((at, _, _)) => n = n.min(at - offset),
            None => {}
        }
        buf[..n as usize].fill(0);
        Ok(n as usize)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn direct(&self) -> Option<usize> {
        self.files.iter().flatten().filter_map(|file| file.direct()).max()
    }
}
