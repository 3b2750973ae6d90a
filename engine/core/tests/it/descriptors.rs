//! More tables than files that the process may open.

use std::sync::Arc;

use frond_engine::{Engine, ErrorKind, Options};
use frond_vfs::testing::FewFiles;

use crate::support::*;

const TABLES: usize = 120;

fn options(open_files: usize) -> Options {
    Options { open_files, log_segment_bytes: 1 << 20, log_capacity_bytes: 8 << 20, ..small() }
}

fn open(few: &FewFiles, open_files: usize) -> frond_engine::Result<Engine> {
    Engine::open(Arc::new(few.clone()), options(open_files))
}

fn name(i: usize) -> String {
    format!("t{i}")
}

/// Each with rows in runs and rows in memory.
fn filled(engine: &Engine) {
    for i in 0..TABLES {
        let table = engine.create_table(plain(&name(i))).unwrap();
        put(engine, &table, b"stored", name(i).as_bytes());
    }
    engine.flush_all().unwrap();
    for i in 0..TABLES {
        let table = engine.open_table(&name(i)).unwrap();
        put(engine, &table, b"buffered", name(i).as_bytes());
    }
}

fn verify(engine: &Engine) {
    for i in 0..TABLES {
        let table = engine.open_table(&name(i)).unwrap();
        let value = name(i).into_bytes();
        let expected = [(b"buffered".to_vec(), value.clone()), (b"stored".to_vec(), value)];
        assert_eq!(all(engine, &table), expected);
    }
}

#[test]
fn tables_outnumber_descriptors_in_work_and_in_recovery() {
    let few = FewFiles::new(memory(), 20);
    let engine = open(&few, 10).unwrap();
    filled(&engine);
    verify(&engine);
    drop(engine);
    // The log names every table.
    let engine = open(&few, 10).unwrap();
    verify(&engine);
    engine.flush_all().unwrap();
    verify(&engine);
    for i in (0..TABLES).step_by(2) {
        engine.drop_table(&name(i)).unwrap();
        engine.create_table(plain(&name(i))).unwrap();
    }
    engine.background_step();
    engine.flush_all().unwrap();
    drop(engine);
    let engine = open(&few, 1).unwrap();
    assert_eq!(all(&engine, &engine.open_table("t1").unwrap()).len(), 2);
    assert_eq!(all(&engine, &engine.open_table("t2").unwrap()).len(), 0);
    assert!(few.most_open() <= 20);
    drop(engine);
    assert_eq!(few.open_files(), 0);
}

#[test]
fn readers_of_a_closed_directory_need_few_descriptors_too() {
    let few = FewFiles::new(memory(), 20);
    filled(&open(&few, 10).unwrap());
    let reading = Options { read_only: true, ..options(10) };
    let engine = Engine::open(Arc::new(few.clone()), reading).unwrap();
    verify(&engine);
}

#[test]
fn without_descriptors_statements_fail_and_the_engine_goes_on_when_there_are_some() {
    let few = FewFiles::new(memory(), 30);
    let engine = open(&few, 8).unwrap();
    filled(&engine);
    // Only the log is open, and files that are closed when another one needs a descriptor.
    few.leave(0);
    let mut refused = 0;
    for i in 0..TABLES {
        let table = engine.open_table(&name(i)).unwrap();
        let mut txn = begin(&engine);
        let mut value = Vec::new();
        match txn.get(&table, 0, b"stored", &mut value) {
            Ok(found) => assert!(found && value == name(i).as_bytes()),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::TooManyFiles, "{e}");
                refused += 1;
            }
        }
    }
    // Pages may be in the cache; a file that was never read is not.
    let flushed = engine.flush_all();
    assert!(flushed.is_err() || refused > 0, "nothing needed a descriptor");
    if let Err(e) = flushed {
        assert_eq!(e.kind(), ErrorKind::TooManyFiles, "{e}");
    }
    for _ in 0..50 {
        few.files.advance(std::time::Duration::from_millis(300));
        engine.background_step();
    }
    assert!(!engine.is_poisoned());
    // Statements that need no file go on.
    let table = engine.open_table("t3").unwrap();
    put(&engine, &table, b"more", b"");
    few.leave(30);
    engine.flush_all().unwrap();
    let mut txn = begin(&engine);
    assert!(get(&mut txn, &table, b"more").is_some());
    txn.rollback();
    engine.drop_table("t3").unwrap();
    drop(engine);
    let engine = open(&few, 8).unwrap();
    assert_eq!(all(&engine, &engine.open_table("t5").unwrap()).len(), 2);
}

#[test]
fn a_table_file_that_cannot_be_created_is_created_later() {
    let few = FewFiles::new(memory(), 30);
    let engine = open(&few, 8).unwrap();
    let table = engine.create_table(plain("t")).unwrap();
    put(&engine, &table, b"k", b"v");
    few.leave(0);
    assert_eq!(engine.flush_all().unwrap_err().kind(), ErrorKind::TooManyFiles);
    assert!(!engine.is_poisoned());
    few.leave(30);
    engine.flush_all().unwrap();
    drop(engine);
    let engine = open(&few, 8).unwrap();
    let table = engine.open_table("t").unwrap();
    assert_eq!(all(&engine, &table).len(), 1);
}

#[test]
fn tables_that_have_given_space_back_and_are_idle_need_no_descriptor() {
    let few = FewFiles::new(memory(), 200);
    let engine = open(&few, 5).unwrap();
    for i in 0..40 {
        let table = engine.create_table(plain(&name(i))).unwrap();
        for round in 0..4u8 {
            let mut txn = begin(&engine);
            for k in 0..200u32 {
                txn.put(&table, &k.to_be_bytes(), &[round; 300], false).unwrap();
            }
            txn.commit().unwrap();
            engine.flush_all().unwrap();
        }
    }
    for _ in 0..50 {
        few.files.advance(std::time::Duration::from_millis(300));
        engine.background_step();
    }
    // The log has its own.
    assert!(few.open_files() <= 5 + 6, "{}", few.open_files());
    for i in 0..40 {
        let table = engine.open_table(&name(i)).unwrap();
        assert_eq!(all(&engine, &table).len(), 200);
    }
    assert!(few.most_open() <= 2 * 5 + 6, "{}", few.most_open());
}
