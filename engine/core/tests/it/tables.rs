//! Definitions, and tables that go through every level of the tree.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use frond_engine::{Engine, ErrorKind, Options, TableSpec, TxnOptions, KEY_BYTES_MAX};
use frond_vfs::{MemVfs, OpenHow, Vfs, VfsFile};

use crate::support::*;

#[test]
fn tables_are_created_found_renamed_and_dropped_across_restarts() {
    let vfs = memory();
    {
        let engine = open(&vfs);
        engine.create_table(plain("a")).unwrap();
        let b = engine.create_table(plain("b")).unwrap();
        put(&engine, &b, b"k", b"v");
        engine.rename_table("b", "c").unwrap();
        assert_eq!(engine.create_table(plain("a")).unwrap_err().kind(), ErrorKind::Exists);
        engine.drop_table("a").unwrap();
        assert_eq!(engine.open_table("a").unwrap_err().kind(), ErrorKind::NotFound);
    }
    let engine = open(&vfs);
    let names: Vec<String> = engine.tables().iter().map(|t| t.name.clone()).collect();
    assert_eq!(names, ["c"]);
    let c = engine.open_table("c").unwrap();
    assert_eq!(all(&engine, &c), [(b"k".to_vec(), b"v".to_vec())]);
}

#[test]
fn truncate_empties_at_once_and_old_handles_say_so() {
    let vfs = memory();
    let engine = open(&vfs);
    let old = engine.create_table(plain("t")).unwrap();
    put(&engine, &old, b"k", b"v");
    let new = engine.truncate_table("t").unwrap();
    assert!(all(&engine, &new).is_empty());
    let mut txn = begin(&engine);
    let mut value = Vec::new();
    let e = txn.get(&old, 0, b"k", &mut value).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed);
    drop(txn);
    drop(engine);
    let engine = open(&vfs);
    let t = engine.open_table("t").unwrap();
    assert!(all(&engine, &t).is_empty());
}

#[test]
fn random_work_equals_a_map_through_flushes_merges_and_restarts() {
    for seed in 0..6 {
        let vfs = memory();
        let mut rng = Rng(seed);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut engine = open(&vfs);
        let mut table = engine.create_table(plain("t")).unwrap();
        for round in 0..60 {
            let mut txn = begin(&engine);
            for _ in 0..rng.below(400) {
                let k = key(rng.below(5_000));
                if rng.below(4) == 0 {
                    let was = txn.delete(&table, &k).unwrap();
                    assert_eq!(was, model.remove(&k).is_some());
                } else {
                    let v = vec![rng.below(256) as u8; rng.below(120) as usize];
                    txn.put(&table, &k, &v, false).unwrap();
                    model.insert(k, v);
                }
            }
            txn.commit().unwrap();
            for _ in 0..rng.below(6) {
                engine.background_step();
            }
            if round % 20 == 7 {
                engine.flush_all().unwrap();
            }
            if round % 20 == 13 {
                drop(engine);
                engine = open(&vfs);
                table = engine.open_table("t").unwrap();
            }
            if round % 5 == 0 {
                let want: Vec<_> = model.clone().into_iter().collect();
                assert_eq!(all(&engine, &table), want, "seed {seed}, round {round}");
                assert_eq!(table.rows(), model.len() as u64, "seed {seed}, round {round}");
            }
        }
        let outcome = engine.check_all(&mut |_| {});
        assert!(outcome.is_clean(), "{:?}", outcome.problems);
    }
}

#[test]
fn flushed_database_needs_no_log() {
    let vfs = memory();
    let engine = open(&vfs);
    let table = engine.create_table(plain("t")).unwrap();
    for n in 0..3_000 {
        put(&engine, &table, &key(n), b"some value that takes a few bytes");
    }
    engine.flush_all().unwrap();
    let kept = engine.status().iter().find(|(n, _)| *n == "log_bytes_kept").unwrap().1;
    assert!(kept < 200 << 10, "{kept} bytes of log are kept");
    drop(engine);
    let engine = open(&vfs);
    let table = engine.open_table("t").unwrap();
    assert_eq!(all(&engine, &table).len(), 3_000);
    assert_eq!(table.rows(), 3_000);
}

#[test]
fn impossible_keys_and_values_are_refused() {
    let vfs = memory();
    let engine = open(&vfs);
    let table = engine.create_table(plain("t")).unwrap();
    let mut txn = begin(&engine);
    for bad in [Vec::new(), vec![1; KEY_BYTES_MAX + 1]] {
        assert_eq!(txn.put(&table, &bad, b"", false).unwrap_err().kind(), ErrorKind::TooBig);
    }
    txn.put(&table, &vec![255; KEY_BYTES_MAX], &vec![7; 3 << 20], false).unwrap();
    txn.commit().unwrap();
    engine.flush_all().unwrap();
    let mut txn = begin(&engine);
    assert_eq!(get(&mut txn, &table, &vec![255; KEY_BYTES_MAX]).unwrap().len(), 3 << 20);
}

#[test]
fn auto_increment_survives_restart_and_rollback() {
    let vfs = memory();
    let engine = open(&vfs);
    let table = engine.create_table(plain("t")).unwrap();
    assert_eq!(table.reserve_auto_increment(1, 1, 3), Some((1, 3)));
    let mut txn = begin(&engine);
    txn.put(&table, b"k", b"", false).unwrap();
    txn.rollback();
    engine.sync().unwrap();
    drop(table);
    drop(engine);
    let engine = open(&vfs);
    let table = engine.open_table("t").unwrap();
    assert_eq!(table.reserve_auto_increment(1, 1, 1), Some((4, 1)));
    assert_eq!(table.reserve_auto_increment(5, 10, 2), Some((5, 2)));
    assert_eq!(table.reserve_auto_increment(5, 10, 1), Some((25, 1)));
    engine.set_auto_increment(&table, 7).unwrap();
    engine.sync().unwrap();
    drop(table);
    drop(engine);
    let table = open(&vfs).open_table("t").unwrap();
    assert_eq!(table.auto_increment(), 7);
    table.auto_increment_used(u64::MAX - 1);
    assert_eq!(table.reserve_auto_increment(1, 1, 2), None, "the values are used up");
}

#[test]
fn a_statement_that_has_the_values_to_itself_takes_consecutive_ones() {
    let engine = open(&memory());
    let table = engine.create_table(plain("t")).unwrap();
    let impatient = || {
        engine.begin(TxnOptions { lock_timeout: Duration::from_millis(20), ..Default::default() })
    };
    let mut one = impatient();
    one.lock_auto_increment(&table).unwrap();
    assert_eq!(one.reserve_auto_increment(&table, (1, 1), 2).unwrap(), (1, 2));
    let mut two = impatient();
    let refused = two.reserve_auto_increment(&table, (1, 1), 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LockTimeout);
    // A value that moves the counter waits; one that does not move it need not.
    assert_eq!(two.auto_increment_used(&table, 50).unwrap_err().kind(), ErrorKind::LockTimeout);
    two.auto_increment_used(&table, 2).unwrap();
    assert_eq!(one.reserve_auto_increment(&table, (1, 1), 4).unwrap(), (3, 4));
    one.end_statement();
    // The lock ends with the statement, not with the transaction.
    assert_eq!(two.reserve_auto_increment(&table, (1, 1), 1).unwrap(), (7, 1));
    two.lock_auto_increment(&table).unwrap();
    two.auto_increment_used(&table, 50).unwrap();
    let refused = one.reserve_auto_increment(&table, (1, 1), 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LockTimeout);
    one.commit().unwrap();
    two.rollback();
    let mut three = impatient();
    assert_eq!(three.reserve_auto_increment(&table, (1, 1), 1).unwrap(), (51, 1));
}

#[test]
fn values_are_consecutive_beside_statements_that_take_single_ones() {
    let engine = open(&memory());
    let table = engine.create_table(plain("t")).unwrap();
    thread::scope(|scope| {
        let (engine, table) = (&engine, &table);
        for n in 0..3 {
            scope.spawn(move || {
                for _ in 0..300 {
                    let mut txn = begin(engine);
                    if n == 0 {
                        txn.auto_increment_used(table, table.auto_increment() + 1).unwrap();
                    } else {
                        txn.reserve_auto_increment(table, (1, 1), 1).unwrap();
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(move || {
                for _ in 0..100 {
                    let mut txn = begin(engine);
                    txn.lock_auto_increment(table).unwrap();
                    let (first, _) = txn.reserve_auto_increment(table, (1, 1), 1).unwrap();
                    for n in 1..10 {
                        let next = txn.reserve_auto_increment(table, (1, 1), 1).unwrap();
                        assert_eq!(next, (first + n, 1));
                    }
                }
            });
        }
    });
}

#[test]
fn auto_increment_given_at_creation_is_as_durable_as_the_table() {
    let vfs = memory();
    let engine = open(&vfs);
    let spec = TableSpec { auto_increment: 1_000, ..plain("t") };
    engine.create_table(spec).unwrap();
    // Only written bytes are there: the process has died.
    let killed = memory();
    for name in vfs.list().unwrap() {
        killed.set_contents(&name, vfs.contents(&name).unwrap());
    }
    let table = open(&killed).open_table("t").unwrap();
    assert_eq!(table.auto_increment(), 1_000);
}

#[test]
fn recovery_gives_tables_their_last_name_schema_and_meta() {
    let vfs = memory();
    let engine = open(&vfs);
    let table = engine.create_table(plain("t")).unwrap();
    put(&engine, &table, b"k", b"v");
    engine.rename_table("t", "u").unwrap();
    engine.set_schema("u", b"the last".to_vec(), b"and notes".to_vec()).unwrap();
    drop(table);
    drop(engine);
    let engine = open(&vfs);
    let def = engine.open_table("u").unwrap().def();
    assert_eq!((def.name.as_str(), def.schema.as_slice()), ("u", b"the last".as_slice()));
    assert_eq!(def.meta, b"and notes");
}

#[test]
fn many_dropped_tables_in_the_log_hold_nobody_up() {
    let vfs = memory();
    {
        let engine = open(&vfs);
        for n in 0..300 {
            let name = format!("t{n}");
            let table = engine.create_table(plain(&name)).unwrap();
            put(&engine, &table, b"k", &[7; 3000]);
            engine.drop_table(&name).unwrap();
        }
    }
    let engine = open(&vfs);
    let table = engine.create_table(plain("last")).unwrap();
    put(&engine, &table, b"k", b"v");
    assert_eq!(engine.tables().len(), 1);
    let buffered = engine.status().iter().find(|(n, _)| *n == "write_buffer_bytes").unwrap().1;
    assert!(buffered < 1 << 20, "{buffered} bytes are buffered for dropped tables");
}

/// Flushing such a table would take more memory for its file and its run than the row. Takes 1.4 s.
#[test]
fn tables_of_one_row_stay_in_their_buffers() {
    let vfs = memory();
    let options = Options { log_segment_bytes: 1 << 20, log_capacity_bytes: 64 << 20, ..small() };
    let engine = Engine::open(Arc::new(vfs.clone()), options).unwrap();
    for n in 0..6000 {
        let table = engine.create_table(plain(&format!("t{n}"))).unwrap();
        put(&engine, &table, b"k", &[7; 30]);
        if n % 100 == 0 {
            engine.background_step();
        }
    }
    while engine.background_step() {}
    let number = |name| crate::spill::number(&engine, name);
    // The list of tables itself may be flushed.
    assert!(number("freezes") < 10, "{} freezes", number("freezes"));
    assert!(number("write_buffer_bytes") < 2 << 20, "{}", number("write_buffer_bytes"));
    let files = vfs.list().unwrap().iter().filter(|name| name.ends_with(".frd")).count();
    assert!(files <= 1, "{files} files");
}

type Interjection = (String, Box<dyn FnOnce() + Send>);

/// Files of which one, when it is read for the first time, lets something else happen first.
#[derive(Clone)]
struct Interjecting {
    files: MemVfs,
    first: Arc<Mutex<Option<Interjection>>>,
}

struct ReadOnce {
    file: Arc<dyn VfsFile>,
    name: String,
    first: Interjecting,
}

impl VfsFile for ReadOnce {
    frond_vfs::forward!(file: write_at len set_len allocate punch_hole sync direct);

    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let first = self.first.first.lock().unwrap().take_if(|(name, _)| *name == self.name);
        if let Some((_, first)) = first {
            first();
        }
        self.file.read_at(buf, offset)
    }
}

impl Vfs for Interjecting {
    frond_vfs::forward!(files: exists rename remove list sync_dir lock_dir clocks spawn);

    fn open(&self, name: &str, how: OpenHow) -> std::io::Result<Arc<dyn VfsFile>> {
        let file = self.files.open(name, how)?;
        Ok(Arc::new(ReadOnce { file, name: name.to_owned(), first: self.clone() }))
    }
}

/// A backup opens tables without the lock that keeps their definitions.
#[test]
fn a_table_that_is_renamed_while_it_is_opened_has_its_new_name() {
    let vfs = Interjecting { files: memory(), first: Arc::default() };
    let open = || Engine::open(Arc::new(vfs.clone()), small()).unwrap();
    let engine = open();
    let t = engine.create_table(plain("t")).unwrap();
    put(&engine, &t, b"k", b"v");
    engine.flush_all().unwrap();
    // So that recovery has no reason to open it.
    let other = engine.create_table(plain("other")).unwrap();
    crate::prepared::make_log(&engine, &other, 400 << 10);
    let file = format!("{}.frd", t.id().0);
    drop((t, other, engine));
    let engine = Arc::new(open());
    let renaming = engine.clone();
    let first: Box<dyn FnOnce() + Send> = Box::new(move || {
        renaming.rename_table("t", "u").unwrap();
        renaming.set_schema("u", Vec::new(), b"meta".to_vec()).unwrap();
    });
    *vfs.first.lock().unwrap() = Some((file, first));
    let table = engine.open_table("t").unwrap();
    assert!(vfs.first.lock().unwrap().is_none(), "the file was read before");
    assert_eq!((&*table.def().name, &*table.def().meta), ("u", &b"meta"[..]));
    assert_eq!(all(&engine, &table).len(), 1);
}
