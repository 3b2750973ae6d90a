//! Which changes survive, and which directories are refused at open. The simulator tests crashes at
//! every point.

use std::sync::Arc;

use frond_engine::{Engine, ErrorKind, Options};
use frond_vfs::{MemVfs, OpenHow, Vfs};

use crate::support::*;

#[test]
fn committed_work_survives_a_reopen_without_a_clean_close() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    for n in 0..500 {
        put(&engine, &t, &key(n), b"v");
    }
    let mut open_txn = begin(&engine);
    open_txn.put(&t, b"uncommitted", b"v", false).unwrap();
    // The process is gone: nothing is dropped in order.
    let snapshot = copy(&vfs);
    let engine = open(&snapshot);
    let t = engine.open_table("t").unwrap();
    assert_eq!(all(&engine, &t).len(), 500);
    assert_eq!(t.rows(), 500);
}

pub fn copy(vfs: &frond_vfs::MemVfs) -> frond_vfs::MemVfs {
    let to = memory();
    for name in vfs.list().unwrap() {
        let _ = to.open(&name, OpenHow::CREATE).unwrap();
        to.set_contents(&name, vfs.contents(&name).unwrap());
    }
    to
}

#[test]
fn read_only_engine_changes_nothing_and_refuses_writes() {
    let vfs = memory();
    {
        let engine = open(&vfs);
        let t = engine.create_table(plain("t")).unwrap();
        for n in 0..2_000 {
            put(&engine, &t, &key(n), b"v");
        }
    }
    let before: Vec<_> =
        vfs.list().unwrap().into_iter().map(|n| (n.clone(), vfs.contents(&n).unwrap())).collect();
    let options = Options { read_only: true, ..small() };
    let engine = Engine::open(Arc::new(vfs.clone()), options).unwrap();
    let t = engine.open_table("t").unwrap();
    assert_eq!(all(&engine, &t).len(), 2_000);
    assert!(engine.check_all(&mut |_| {}).is_clean());
    let mut txn = begin(&engine);
    assert_eq!(txn.put(&t, b"k", b"", false).unwrap_err().kind(), ErrorKind::Unsupported);
    drop(txn);
    drop(engine);
    let mut after: Vec<_> =
        vfs.list().unwrap().into_iter().map(|n| (n.clone(), vfs.contents(&n).unwrap())).collect();
    after.sort();
    let mut before = before;
    before.sort();
    assert_eq!(before, after);
}

#[test]
fn foreign_directories_and_newer_formats_are_refused() {
    let vfs = memory();
    let _ = vfs.open("somebody.else", OpenHow::CREATE).unwrap();
    let e = Engine::open(Arc::new(vfs.clone()), small()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert!(e.to_string().contains("somebody.else"), "{e}");

    let vfs = memory();
    drop(open(&vfs));
    let sound = vfs.contents("frond.id").unwrap();
    let refused = |at: usize, value: u8, kind: ErrorKind, words: &str| {
        let mut id = sound.clone();
        id[at] = value;
        let sum = frond_base::checksum64(&id[..24]);
        id[24..].copy_from_slice(&sum.to_le_bytes());
        for wrong_sum in [false, true] {
            id[30] ^= u8::from(wrong_sum);
            vfs.set_contents("frond.id", id.clone());
            let e = Engine::open(Arc::new(vfs.clone()), small()).err().expect("it opens");
            let (kind, words) = match wrong_sum {
                false => (kind, words),
                true => (ErrorKind::Corruption, "checksum"),
            };
            assert_eq!(e.kind(), kind, "{at}: {e}");
            assert!(e.to_string().contains("frond.id") && e.to_string().contains(words), "{e}");
        }
    };
    refused(8, 99, ErrorKind::UnsupportedFormat, "format 99");
    refused(8, 0, ErrorKind::UnsupportedFormat, "format 0");
    refused(11, 1, ErrorKind::UnsupportedFormat, "format 16777217");
    for at in 12..16 {
        refused(at, 1, ErrorKind::Corruption, "offset 12: the reserved word");
    }
    // Another database's: the log says so.
    let mut id = sound.clone();
    id[17] ^= 1;
    let sum = frond_base::checksum64(&id[..24]);
    id[24..].copy_from_slice(&sum.to_le_bytes());
    vfs.set_contents("frond.id", id);
    let e = Engine::open(Arc::new(vfs.clone()), small()).err().expect("it opens");
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    vfs.set_contents("frond.id", sound.clone());
    drop(open(&vfs));
}

#[test]
fn nothing_is_left_in_a_directory_that_is_not_ours() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = Arc::new(frond_vfs::OsVfs::new(dir.path()).unwrap());
    let _ = vfs.open("somebody.else", OpenHow::CREATE).unwrap();
    let e = Engine::open(vfs.clone(), Options::default()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert_eq!(vfs.list().unwrap(), ["somebody.else"]);
}

/// The log's files, sorted.
fn log_files(vfs: &MemVfs) -> Vec<String> {
    let mut names = vfs.list().unwrap();
    names.retain(|n| n.starts_with("log."));
    names.sort();
    names
}

#[test]
fn a_database_whose_whole_log_is_gone_is_refused_even_without_a_table_file() {
    let vfs = memory();
    let crashed = {
        let engine = open(&vfs);
        let t = engine.create_table(plain("t")).unwrap();
        put(&engine, &t, b"k", b"v");
        copy(&vfs)
    };
    assert!(!crashed.list().unwrap().iter().any(|n| n.ends_with(".frd")), "only the log has it");
    for vfs in [crashed, vfs] {
        log_files(&vfs).iter().for_each(|n| vfs.remove(n).unwrap());
        let e = Engine::open(Arc::new(vfs), small()).err().unwrap();
        assert!(e.to_string().contains("log.*.frl"), "{e}");
    }
}

#[test]
fn a_creation_that_a_crash_ended_is_begun_again() {
    let vfs = memory();
    drop(open(&vfs));
    vfs.rename("frond.id", "frond.id.new").unwrap();
    let _ = vfs.open("spare.00000099.frl", OpenHow::CREATE).unwrap();
    assert!(!log_files(&vfs).is_empty());
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, b"k", b"v");
    drop(engine);
    let engine = open(&vfs);
    assert_eq!(all(&engine, &engine.open_table("t").unwrap()).len(), 1);
    drop(engine);
    // With tables it was a database: only its identity is gone.
    vfs.rename("frond.id", "frond.id.new").unwrap();
    let _ = vfs.open("9.frd", OpenHow::CREATE).unwrap();
    let e = Engine::open(Arc::new(vfs), small()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
}

#[test]
fn opening_removes_what_unfinished_creations_left_and_nothing_else() {
    let vfs = memory();
    {
        let engine = open(&vfs);
        let t = engine.create_table(plain("t")).unwrap();
        put(&engine, &t, b"k", b"v");
        engine.flush_all().unwrap();
    }
    for name in ["1.frd.new", "77.frd.new", "77.frd", "077.frd", "x.frd.new", "notes.new"] {
        let _ = vfs.open(name, OpenHow::CREATE).unwrap();
    }
    let engine = open(&vfs);
    assert_eq!(all(&engine, &engine.open_table("t").unwrap()).len(), 1);
    let mut left = vfs.list().unwrap();
    left.retain(|n| n.contains(".frd") || n.contains(".new"));
    left.sort();
    assert_eq!(left, ["0.frd", "077.frd", "1.frd", "notes.new", "x.frd.new"]);
}

#[test]
fn second_engine_on_the_same_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = on_disk(&dir, Options::default());
    let vfs = frond_vfs::OsVfs::new(dir.path()).unwrap();
    let e = Engine::open(Arc::new(vfs), Options::default()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Busy, "{e}");
    drop(first);
    on_disk(&dir, Options::default());
}

#[test]
fn option_values_out_of_range_are_named() {
    for (options, word) in [
        (Options { cache_bytes: 1, ..small() }, "cache"),
        (Options { log_segment_bytes: 1, ..small() }, "segment"),
        (Options { log_capacity_bytes: 1, ..small() }, "capacity"),
        (Options { background_threads: 1000, ..small() }, "threads"),
        (Options { lock_bytes: 1, ..small() }, "lock"),
    ] {
        let e = Engine::open(Arc::new(memory()), options).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        assert!(e.to_string().contains(word), "{e}");
    }
}

#[test]
fn log_that_lost_its_oldest_segment_is_refused() {
    let vfs = memory();
    {
        let engine = open(&vfs);
        let t = engine.create_table(plain("t")).unwrap();
        for n in 0..1_500 {
            // Values that do not pack: several segments, none of them trimmed.
            let mut rng = Rng(n);
            let value: Vec<u8> = (0..100).map(|_| rng.next() as u8).collect();
            put(&engine, &t, &key(n), &value);
        }
    }
    let mut segments: Vec<_> =
        vfs.list().unwrap().into_iter().filter(|n| n.starts_with("log.")).collect();
    segments.sort();
    assert!(segments.len() > 2, "{segments:?}");
    vfs.remove(&segments[0]).unwrap();
    let e = Engine::open(Arc::new(vfs), small()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    assert!(e.to_string().contains("missing"), "{e}");
}

/// Entries that take log and do not pack.
fn fill(engine: &Engine, table: &Arc<frond_engine::Table>, range: std::ops::Range<u64>) {
    for n in range {
        let mut rng = Rng(n);
        let value: Vec<u8> = (0..100).map(|_| rng.next() as u8).collect();
        put(engine, table, &key(n), &value);
        if n % 100 == 0 {
            while engine.background_step() {}
        }
    }
}

/// The removal of a file was not durable, and what comes back is older than the log: this matters only if
/// the table still exists.
#[test]
fn old_file_of_a_table_is_ignored_if_the_log_drops_the_table_and_corruption_otherwise() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    fill(&engine, &t, 0..3_000);
    let name =
        vfs.list().unwrap().into_iter().find(|n| n.ends_with(".frd") && n != "0.frd").unwrap();
    let old = vfs.contents(&name).unwrap();
    fill(&engine, &t, 3_000..8_000);

    let kept = copy(&vfs);
    kept.set_contents(&name, old.clone());
    let e = Engine::open(Arc::new(kept), small()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    assert!(e.to_string().contains(&name), "{e}");

    engine.drop_table("t").unwrap();
    let dropped = copy(&vfs);
    if !dropped.exists(&name).unwrap() {
        let _ = dropped.open(&name, OpenHow::CREATE).unwrap();
    }
    dropped.set_contents(&name, old);
    let engine = open(&dropped);
    assert!(engine.open_table("t").is_err());
    assert!(!dropped.exists(&name).unwrap(), "removed as an orphan");
}
