//! A panic in a background thread: an error for everybody, never a wait without end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use frond_engine::{Engine, ErrorKind, Options};
use frond_vfs::{DirLock, JoinThread, OpenHow, OsVfs, Vfs, VfsFile};

use crate::support::*;

/// Writing to a table's file, as merges do, breaks an invariant.
struct Broken(OsVfs);

struct BrokenFile {
    file: Arc<dyn VfsFile>,
    panics: bool,
}

impl VfsFile for BrokenFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        assert!(!self.panics, "two and two are five");
        self.file.write_at(buf, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch_hole(offset, len)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }
}

impl Vfs for Broken {
    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        let panics = name.starts_with("1.frd");
        Ok(Arc::new(BrokenFile { file: self.0.open(name, how)?, panics }))
    }
    fn exists(&self, name: &str) -> io::Result<bool> {
        self.0.exists(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }
    fn lock_dir(&self) -> io::Result<Box<dyn DirLock>> {
        self.0.lock_dir()
    }
    fn now(&self) -> Duration {
        self.0.now()
    }
    fn wall_clock(&self) -> Duration {
        self.0.wall_clock()
    }
    fn random_u64(&self) -> u64 {
        self.0.random_u64()
    }
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Option<Box<dyn JoinThread>> {
        self.0.spawn(name, work)
    }
}

#[test]
fn a_panic_in_the_background_poisons_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = Arc::new(Broken(OsVfs::new(dir.path()).unwrap()));
    let options = Options { background_threads: 2, ..small() };
    let engine = Engine::open(vfs.clone(), options).unwrap();
    let t = engine.create_table(plain("t")).unwrap();
    let begun = vfs.now();
    let refused = 'refused: loop {
        assert!(vfs.now() - begun < Duration::from_secs(60), "writers wait or go on");
        let mut txn = begin(&engine);
        for n in 0..20u64 {
            if let Err(e) = txn.put(&t, &key(n), &[n as u8; 1000], false) {
                break 'refused e;
            }
        }
        if let Err(e) = txn.commit() {
            break e;
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Poisoned, "{refused}");
    assert!(refused.message().contains("internal error in the background"), "{refused}");
    assert!(engine.is_poisoned());
}
