//! A panic in a background thread: an error for everybody, never a wait without end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use frond_engine::{Engine, ErrorKind, Options};
use frond_vfs::{OpenHow, OsVfs, Vfs, VfsFile};

use crate::support::*;

/// Writing to a table's file, as merges do, breaks an invariant.
struct Broken(OsVfs);

struct BrokenFile {
    file: Arc<dyn VfsFile>,
    panics: bool,
}

impl VfsFile for BrokenFile {
    frond_vfs::forward!(file: read_at len set_len allocate punch_hole sync direct);

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        assert!(!self.panics, "two and two are five");
        self.file.write_at(buf, offset)
    }
}

impl Vfs for Broken {
    frond_vfs::forward!(0: exists rename remove list sync_dir lock_dir clocks spawn);

    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        let panics = name.starts_with("1.frd");
        Ok(Arc::new(BrokenFile { file: self.0.open(name, how)?, panics }))
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
