//! A small database in memory, made by the engine itself, whose files and log records are seeds.

use std::sync::{Arc, OnceLock};

use frond_base::{ErrorKind, Lsn};
use frond_engine::{read_identity, Engine, IndexDef, Options, Table, TableSpec, TxnOptions};
use frond_run::testing::TestRng;
use frond_vfs::{MemVfs, OpenHow, Vfs};
use frond_wal::inspect;

/// Names and contents.
pub type Files = Vec<(String, Vec<u8>)>;

/// A database as it was at one moment, and what happened to it afterwards.
pub struct Database {
    pub id: u64,
    /// The log of the moment beside table files that have the runs of later.
    pub before: Files,
    /// All files at the end, as a crash leaves them.
    pub after: Files,
    /// The log's records between the two: kind and payload.
    pub records: Vec<(u8, Vec<u8>)>,
}

/// Bytes of the two headers of a table file.
const HEADERS: usize = 8192;
/// One segment holds the whole log, so that no record is trimmed.
pub const SEGMENT_BYTES: u64 = 1 << 20;

/// Small sizes; no thread, so that all that is allocated belongs to the caller.
pub fn options() -> Options {
    Options {
        cache_bytes: 8 << 20,
        log_segment_bytes: SEGMENT_BYTES,
        background_threads: 0,
        leaf_bytes: 16 << 10,
        ..Options::default()
    }
}

pub fn files(vfs: &MemVfs) -> Files {
    let mut names = vfs.list().unwrap_or_default();
    names.sort();
    names.into_iter().filter_map(|name| Some((name.clone(), vfs.contents(&name).ok()?))).collect()
}

pub fn directory(files: &Files) -> MemVfs {
    let vfs = MemVfs::stepped();
    for (name, bytes) in files {
        let _ = vfs.open(name, OpenHow::CREATE);
        vfs.set_contents(name, bytes.clone());
    }
    vfs
}

/// The database that all checks start from. Made once; `build` says that it cannot fail.
pub fn standard() -> &'static Database {
    static STANDARD: OnceLock<Database> = OnceLock::new();
    STANDARD.get_or_init(|| build(1))
}

/// Made by ordinary calls on an empty directory: that these succeed is what every other test relies on.
pub fn build(seed: u64) -> Database {
    made(seed).unwrap_or_else(|e| panic!("the seeds cannot be made: {e}"))
}

fn made(seed: u64) -> frond_base::Result<Database> {
    let mut rng = TestRng::new(seed);
    let vfs = MemVfs::stepped();
    let engine = Engine::open(Arc::new(vfs.clone()), options())?;
    let index = IndexDef { page_bytes: 4096, filter: true, ..IndexDef::plain() };
    for name in ["a", "b"] {
        let indexes = vec![index.clone(); if name == "a" { 1 } else { 2 }];
        let (schema, meta) = (Vec::new(), b"meta".to_vec());
        engine.create_table(TableSpec {
            name: name.into(),
            indexes,
            schema,
            meta,
            auto_increment: 1,
        })?;
    }
    let (a, b) = (engine.open_table("a")?, engine.open_table("b")?);
    for _ in 0..20 {
        change(&engine, &mut rng, &a, 20)?;
        change(&engine, &mut rng, &b, 5)?;
    }
    engine.flush_all()?;
    change(&engine, &mut rng, &a, 10)?;
    engine.sync()?;
    let id = read_identity(&vfs)?;
    let before = files(&vfs);
    let end = last_lsn(&vfs, id)?;
    for _ in 0..20 {
        change(&engine, &mut rng, &a, 30)?;
        change(&engine, &mut rng, &b, 10)?;
    }
    engine.flush_all()?;
    large(&engine, &mut rng, &a)?;
    b.auto_increment_used(rng.below(1 << 20));
    engine.begin(TxnOptions::default()).rollback();
    change(&engine, &mut rng, &b, 3)?;
    engine.sync()?;
    let mut records = Vec::new();
    inspect(&vfs, Some(id), &mut |record| {
        if record.lsn >= end {
            records.push((record.kind, record.payload.to_vec()));
        }
    })?;
    let after = files(&vfs);
    Ok(Database { id, before: with_later_runs(before, &after), after, records })
}

/// The files of before, whose tables have the runs of later as well: as after a crash, when the log lost its end.
fn with_later_runs(before: Files, after: &Files) -> Files {
    let later = |(name, old): (String, Vec<u8>)| {
        let found = after.iter().find(|(other, _)| *other == name && name.ends_with(".frd"));
        let Some((_, new)) = found else { return (name, old) };
        let mut bytes = new.clone();
        bytes.resize(bytes.len().max(old.len()), 0);
        // Headers and image are those of before.
        bytes[..HEADERS].copy_from_slice(&old[..HEADERS]);
        for slot in [0, HEADERS / 2] {
            let number = |at: usize| {
                let bytes = old[slot + at..slot + at + 8].try_into().expect("eight bytes");
                u64::from_le_bytes(bytes) as usize
            };
            let image = number(48)..number(48) + number(56);
            bytes[image.clone()].copy_from_slice(&old[image]);
        }
        (name, bytes)
    };
    before.into_iter().map(later).collect()
}

fn last_lsn(vfs: &MemVfs, id: u64) -> frond_base::Result<Lsn> {
    let mut last = 0;
    inspect(vfs, Some(id), &mut |record| last = record.lsn + 1)?;
    Ok(last)
}

/// One transaction of `n` changes.
fn change(
    engine: &Engine,
    rng: &mut TestRng,
    table: &Arc<Table>,
    n: u64,
) -> frond_base::Result<()> {
    let mut txn = engine.begin(TxnOptions::default());
    for _ in 0..n {
        let key = format!("key/{:05}", rng.below(3000));
        match rng.below(5) {
            0 => {
                txn.delete(table, key.as_bytes())?;
            }
            _ => {
                let length = rng.below(60) as usize;
                let value = rng.bytes(length);
                txn.put(table, key.as_bytes(), &value, false)?;
            }
        }
    }
    txn.commit().map(drop)
}

/// One transaction larger than what it may have in memory: a record of kind 6.
fn large(engine: &Engine, rng: &mut TestRng, table: &Arc<Table>) -> frond_base::Result<()> {
    let mut txn = engine.begin(TxnOptions::default());
    let value = vec![b'l'; 4000];
    for i in 0..700 {
        let key = format!("large/{i:05}/{}", rng.below(10));
        txn.put(table, key.as_bytes(), &value, false)?;
    }
    txn.commit().map(drop)
}

/// Opens the database, and uses what recovery accepted: reads every table and checks it.
pub fn open_and_read(vfs: &MemVfs) -> frond_base::Result<()> {
    let engine = Engine::open(Arc::new(vfs.clone()), options())?;
    for def in engine.tables() {
        let table = match engine.open_table(&def.name) {
            Ok(table) => table,
            Err(e) => {
                super::refused(&e);
                continue;
            }
        };
        for tree in table.trees().iter() {
            let _ = tree.check(true).map_err(|e| super::refused(&e));
        }
        table.statistics();
        let mut txn = engine.begin(TxnOptions::default());
        let mut value = Vec::new();
        for key in ["key/00001", "large/00001/1", ""] {
            if let Err(e) = txn.get(&table, 0, key.as_bytes(), &mut value) {
                super::refused(&e);
            }
        }
        txn.rollback();
    }
    let closed = engine.close();
    // The last flush, too, may meet what is refused only when it is used.
    let expected = [ErrorKind::Corruption, ErrorKind::UnsupportedFormat, ErrorKind::Poisoned];
    assert!(closed.as_ref().err().is_none_or(|e| expected.contains(&e.kind())), "{closed:?}");
    Ok(())
}
