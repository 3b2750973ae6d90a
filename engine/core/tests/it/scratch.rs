//! A database that ends with its process. Costs less than a second.

use std::sync::Arc;

use frond_engine::{Engine, ErrorKind, Options};
use frond_vfs::testing::SmallDisk;
use frond_vfs::{MemVfs, Vfs};

use crate::support::{all, begin, get, memory, plain, put, small};

fn open_scratch(vfs: &MemVfs) -> Engine {
    let options = Options { log_segment_bytes: 64 << 10, ..small() };
    Engine::open_scratch(Arc::new(vfs.clone()), options, Arc::new(|_, _| ())).unwrap()
}

#[test]
fn a_scratch_database_has_transactions_but_no_log() {
    let vfs = memory();
    let engine = open_scratch(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, b"a", b"1");
    let mut txn = begin(&engine);
    txn.put(&t, b"a", b"2", false).unwrap();
    let place = txn.savepoint();
    txn.put(&t, b"b", b"2", false).unwrap();
    txn.rollback_to(place);
    assert_eq!(get(&mut begin(&engine), &t, b"a"), Some(b"1".to_vec()));
    txn.commit().unwrap();
    assert_eq!(all(&engine, &t), [(b"a".to_vec(), b"2".to_vec())]);
    assert!(!vfs.list().unwrap().iter().any(|name| name.ends_with(".frl")));
}

#[test]
fn rows_that_do_not_fit_in_memory_go_to_a_file_whose_space_is_used_again() {
    let vfs = memory();
    let engine = open_scratch(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    let mut sizes = Vec::new();
    for round in 0..6u8 {
        for part in 0..8u32 {
            let mut txn = begin(&engine);
            for key in (part..20_000).step_by(8) {
                txn.put(&t, &key.to_be_bytes(), &[round; 100], false).unwrap();
            }
            txn.commit().unwrap();
            while engine.background_step() {}
        }
        // Space that edits have freed can be used when the log is "durable", after a second at the
        // latest.
        engine.sync().unwrap();
        engine.optimize_table(&t, &mut || false).unwrap();
        sizes.push(vfs.contents("1.frd").unwrap().len());
    }
    assert_eq!(all(&engine, &t).len(), 20_000);
    assert!(sizes[5] <= 2 * sizes[1], "the file grows: {sizes:?}");
}

#[test]
fn a_full_disk_refuses_rows_and_undoes_their_transaction() {
    let disk = SmallDisk::new(memory(), 64 << 20);
    let engine =
        Engine::open_scratch(Arc::new(disk.clone()), small(), Arc::new(|_, _| ())).unwrap();
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, b"a", b"1");
    disk.leave(256 << 10);
    let row = |n: u32| (n.to_be_bytes(), n.to_le_bytes().repeat(500));
    let fill = |engine: &Engine| {
        let mut txn = begin(engine);
        for (key, value) in (0..10_000).map(row) {
            txn.put(&t, &key, &value, false)?;
        }
        txn.commit()
    };
    assert_eq!(fill(&engine).unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(all(&engine, &t), [(b"a".to_vec(), b"1".to_vec())]);
    disk.add(64 << 20);
    fill(&engine).unwrap();
    assert_eq!(all(&engine, &t).len(), 10_001);
}

#[test]
fn nothing_of_an_earlier_process_is_left() {
    let vfs = memory();
    let engine = open_scratch(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, b"a", b"1");
    engine.flush_all().unwrap();
    assert!(vfs.exists("1.frd").unwrap());
    let crashed = crate::durability::copy(&vfs);
    drop((t, engine));
    for vfs in [vfs, crashed] {
        let engine = open_scratch(&vfs);
        assert!(!engine.table_exists("t") && !vfs.exists("1.frd").unwrap());
        drop(engine);
        frond_engine::wipe(&vfs).unwrap();
        assert!(vfs.list().unwrap().iter().all(|name| name == "LOCK"));
    }
}
