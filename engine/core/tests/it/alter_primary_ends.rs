//! How building another primary key ends: crashes, KILL, prepared transactions, a full disk; and what is refused.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use frond_base::ErrorKind;
use frond_engine::{AlterSpec, Engine, Options};
use frond_vfs::testing::SmallDisk;
use frond_vfs::{MemVfs, OpenHow, Vfs, VfsFile};

use crate::alter::{checked, same};
use crate::alter_primary::{assert_alone, build, primary_of, with_index, with_primary, Load};
use crate::durability::copy;
use crate::prepared::xid;
use crate::rows::number;
use crate::support::*;
use crate::typed::{self, Typed};

/// At each poll of a build the files are copied, as a crash would leave them.
#[test]
fn a_crash_during_a_build_leaves_the_old_primary_key() {
    let vfs = memory();
    let engine = open(&vfs);
    let (mut load, mut t) = Load::create(&engine, true, 7, 4_500);
    engine.flush_all().unwrap();
    let table = t.table().clone();
    let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
    let mut copies = vec![(copy(&vfs), load.clone_rows())];
    let reader = Typed::bind(table.clone());
    let found = alter.build(&reader.rows, &mut |_, _| {
        load.change(&engine, &mut t);
        engine.background_step();
        copies.push((copy(&vfs), load.clone_rows()));
        true
    });
    assert_eq!(found.unwrap(), None);
    copies.push((copy(&vfs), load.clone_rows()));
    assert!(copies.len() > 10);
    for (vfs, rows) in copies {
        let engine = open(&vfs);
        let mut load = Load { rows, rng: Rng(1) };
        let mut t = load.verify(&engine);
        assert_eq!(primary_of(&engine), []);
        assert_alone(&engine);
        while engine.background_step() {}
        // And it can be built again.
        load.change(&engine, &mut t);
        let table = t.table().clone();
        let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
        load.change(&engine, &mut t);
        assert_eq!(build(&mut alter, &t), None);
        load.change(&engine, &mut t);
        assert_eq!(alter.commit().unwrap(), None);
        let mut t = load.verify(&engine);
        load.change(&engine, &mut t);
        engine.flush_all().unwrap();
        load.verify(&engine);
    }
}

#[test]
fn an_interrupted_build_leaves_nothing_behind() {
    let options = Options { transaction_bytes: 64 << 10, ..small() };
    let vfs = memory();
    let engine = Engine::open(Arc::new(vfs.clone()), options.clone()).unwrap();
    let (mut load, mut t) = Load::create(&engine, true, 3, 5_000);
    engine.flush_all().unwrap();
    let table = t.table().clone();
    for most in 0..16 {
        let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
        let reader = Typed::bind(table.clone());
        let mut polls = 0;
        let outcome = alter.build(&reader.rows, &mut |_, _| {
            load.change(&engine, &mut t);
            polls += 1;
            polls <= most
        });
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Interrupted);
        // Transactions that have entries of the hidden table when it goes: in memory, and in runs.
        let mut small = begin(&engine);
        load.insert(&mut t, &mut small);
        let mut large = begin(&engine);
        // The hidden table may have no file yet.
        let first = if most % 2 == 0 { 100 } else { 2_000 };
        (0..first).for_each(|_| load.insert(&mut t, &mut large));
        drop(alter);
        let changes = small.changes();
        load.insert(&mut t, &mut small);
        assert_eq!(small.changes() - changes, 3, "an entry in each index, and no more");
        (first..4_000).for_each(|_| load.insert(&mut t, &mut large));
        small.commit().unwrap();
        match most % 3 {
            0 => drop(large.commit().unwrap()),
            1 => drop(large.prepare(xid(1)).unwrap().commit(true).unwrap()),
            _ => {
                // The last row of the small one was inserted in between.
                let all = load.rows.keys().rev().take(4_001).copied().enumerate();
                let gone: Vec<u64> =
                    all.filter(|(n, _)| *n != 4_000 - first).map(|(_, id)| id).collect();
                gone.iter().for_each(|id| drop(load.rows.remove(id)));
                large.rollback();
            }
        }
        load.change(&engine, &mut t);
        while engine.background_step() {}
        load.verify(&engine);
        assert_alone(&engine);
        let crashed = Engine::open(Arc::new(copy(&vfs)), options.clone()).unwrap();
        load.verify(&crashed);
        assert_alone(&crashed);
    }
    assert!(number(&engine, "spilled_commits") > 4);
    drop((t, table, engine));
    load.verify(&open(&vfs));
}

#[test]
fn a_prepared_transaction_is_waited_for_and_survives_a_crash() {
    let options = Options { transaction_bytes: 64 << 10, ..small() };
    for rows in [10, 3_000] {
        let vfs = memory();
        let engine = Engine::open(Arc::new(vfs.clone()), options.clone()).unwrap();
        let (mut load, mut t) = Load::create(&engine, true, 4, 3_000);
        let table = t.table().clone();
        let mut txn = begin(&engine);
        load.insert(&mut t, &mut txn);
        let prepared = txn.prepare(xid(1)).unwrap();
        let refused = engine.alter_table(&table, with_primary(&table, &[0])).map(drop);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::LockTimeout);
        prepared.commit(true).unwrap();
        let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
        let mut txn = begin(&engine);
        let before = load.clone_rows();
        (0..rows).for_each(|_| load.insert(&mut t, &mut txn));
        let prepared = txn.prepare(xid(2)).unwrap();
        assert_eq!(build(&mut alter, &t), None);
        let crashed = copy(&vfs);
        assert_eq!(alter.commit().unwrap_err().kind(), ErrorKind::LockTimeout);
        // The hidden table is gone.
        assert_alone(&engine);
        prepared.commit(true).unwrap();
        load.verify(&engine);
        let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
        let mut txn = begin(&engine);
        (0..rows).for_each(|_| load.insert(&mut t, &mut txn));
        let prepared = txn.prepare(xid(3)).unwrap();
        assert_eq!(build(&mut alter, &t), None);
        prepared.commit(true).unwrap();
        assert_eq!(alter.commit().unwrap(), None);
        load.verify(&engine);
        for commits in [false, true] {
            let vfs = copy(&crashed);
            let engine = Engine::open(Arc::new(vfs.clone()), options.clone()).unwrap();
            assert_alone(&engine);
            let t = Load { rows: before.clone(), rng: Rng(1) }.verify(&engine);
            let table = t.table().clone();
            assert!(engine.alter_table(&table, with_primary(&table, &[0])).is_err());
            let now = match commits {
                true => {
                    assert!(engine.commit_prepared(&xid(2)).unwrap());
                    table.rows()
                }
                false => {
                    assert!(engine.rollback_prepared(&xid(2)).unwrap());
                    before.len() as u64
                }
            };
            assert_eq!(now, before.len() as u64 + if commits { rows } else { 0 });
            let t = checked(&engine, &table);
            let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
            assert_eq!(build(&mut alter, &t), None);
            assert_eq!(alter.commit().unwrap(), None);
            drop((t, table));
            drop(engine);
            let engine = Engine::open(Arc::new(vfs), options.clone()).unwrap();
            assert_eq!(checked(&engine, &engine.open_table("t").unwrap()).table().rows(), now);
        }
    }
}

#[test]
fn a_full_disk_ends_a_build_and_nothing_else() {
    let files = MemVfs::stepped();
    let disk = SmallDisk::new(files.clone(), u64::MAX);
    let engine = Engine::open(Arc::new(disk.clone()), small()).unwrap();
    let (mut load, mut t) = Load::create(&engine, true, 5, 6_000);
    engine.flush_all().unwrap();
    let table = t.table().clone();
    let mut failed = 0;
    for left in [0, 4 << 10, 16 << 10, 40 << 10, 80 << 10] {
        let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
        disk.leave(left);
        let outcome = alter.build(&Typed::bind(table.clone()).rows, &mut |_, _| true);
        if let Err(e) = outcome {
            assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
            failed += 1;
        }
        drop(alter);
        disk.leave(u64::MAX);
        while engine.background_step() {}
        assert!(!engine.is_poisoned());
        load.change(&engine, &mut t);
        load.verify(&engine);
        assert_alone(&engine);
    }
    assert!(failed > 1, "{failed}");
}

#[test]
fn what_is_not_built_beside_writers_is_refused() {
    let engine = open(&memory());
    let (_, t) = Load::create(&engine, true, 1, 10);
    let table = t.table().clone();
    let refused = |spec: AlterSpec| {
        let error = engine.check_alter(&table, &spec).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(engine.alter_table(&table, spec).is_err());
    };
    // Columns change.
    let mut spec = with_primary(&table, &[0]);
    spec.schema.columns.swap(1, 2);
    spec.column_from.swap(1, 2);
    refused(spec);
    let mut spec = with_primary(&table, &[0]);
    spec.schema.columns[2].bytes = 31;
    refused(spec);
    // A unique index is new, or became unique.
    let mut spec = with_index(with_primary(&table, &[0]), "u", &[1]);
    spec.schema.indexes[3].unique = true;
    refused(spec);
    let mut spec = with_primary(&table, &[0]);
    spec.schema.indexes[1].unique = true;
    refused(spec);
    // Columns that may be NULL.
    let mut spec = with_primary(&table, &[0]);
    spec.schema.columns[0].nullable = true;
    refused(spec);
    engine.check_alter(&table, &with_primary(&table, &[0])).unwrap();
    let mut spec = typed::spec("#rebuild#7", &typed::schema(true));
    assert_eq!(engine.create_table(spec.clone()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    spec.name = "u".into();
    engine.create_table(spec).unwrap();
    assert!(engine.rename_table("u", "#rebuild#7").is_err());
}

/// What a loss of power leaves at a moment: a directory in which all is that was written, or only what was synced.
struct Moment {
    all: MemVfs,
    synced: MemVfs,
}

/// Notes each moment before something is written, while that is asked for.
#[derive(Clone)]
struct Moments {
    files: MemVfs,
    /// The contents of files, by numbers that stay when names change.
    synced: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
    names: Arc<Mutex<BTreeMap<String, usize>>>,
    moments: Arc<Mutex<Option<Vec<Moment>>>>,
}

impl Moments {
    fn new() -> Moments {
        let (synced, names, moments) = Default::default();
        Moments { files: memory(), synced, names, moments }
    }

    fn note(&self) {
        if let Some(moments) = &mut *self.moments.lock().unwrap() {
            let synced = memory();
            for (name, number) in self.names.lock().unwrap().iter() {
                let Some(bytes) = &self.synced.lock().unwrap()[*number] else { continue };
                let _ = synced.open(name, OpenHow::CREATE).unwrap();
                synced.set_contents(name, bytes.clone());
            }
            moments.push(Moment { all: copy(&self.files), synced });
        }
    }

    /// The moments of what `work` does.
    fn of(&self, work: impl FnOnce()) -> Vec<Moment> {
        *self.moments.lock().unwrap() = Some(Vec::new());
        work();
        self.moments.lock().unwrap().take().unwrap()
    }
}

struct Noted {
    vfs: Moments,
    number: usize,
    file: Arc<dyn VfsFile>,
}

impl VfsFile for Noted {
    frond_vfs::forward!(file: read_at len punch_hole direct);

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.vfs.note();
        self.file.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.vfs.note();
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.vfs.note();
        let mut contents = vec![0; self.file.len()? as usize];
        self.file.read_exact_at(&mut contents, 0)?;
        self.vfs.synced.lock().unwrap()[self.number] = Some(contents);
        self.file.sync()
    }
}

impl Vfs for Moments {
    frond_vfs::forward!(files: exists list sync_dir lock_dir clocks spawn);

    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        let file = self.files.open(name, how)?;
        let mut synced = self.synced.lock().unwrap();
        let number = *self.names.lock().unwrap().entry(name.to_owned()).or_insert(synced.len());
        if number == synced.len() {
            synced.push(None);
        }
        drop(synced);
        Ok(Arc::new(Noted { vfs: self.clone(), number, file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut names = self.names.lock().unwrap();
        if let Some(number) = names.remove(from) {
            names.insert(to.to_owned(), number);
        }
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.note();
        self.names.lock().unwrap().remove(name);
        self.files.remove(name)
    }
}

/// Each step of begin, build, commit and abort is the last one before a loss of power: afterwards the table has the old
/// primary key or the new one, and all of its rows.
#[test]
fn power_may_be_lost_at_each_step() {
    let vfs = Moments::new();
    let engine = Engine::open(Arc::new(vfs.clone()), small()).unwrap();
    let (mut load, mut t) = Load::create(&engine, true, 11, 300);
    engine.flush_all().unwrap();
    load.fill(&engine, &mut t, 100);
    let mut alter = None;
    let mut moments = Vec::new();
    for commits in [false, true] {
        let table = t.table().clone();
        let before = load.clone_rows();
        let mut of = |load: &mut Load, after: &[u16], work: &mut dyn FnMut(&mut Load)| {
            let rows = load.clone_rows();
            let found = vfs.of(|| work(load));
            moments.extend(found.into_iter().map(|m| (m, rows.clone(), after.to_vec())));
        };
        of(&mut load, &[], &mut |_| {
            alter = Some(engine.alter_table(&table, with_primary(&table, &[0])).unwrap());
        });
        (0..5).for_each(|_| load.change(&engine, &mut t));
        of(&mut load, &[], &mut |_| {
            assert_eq!(build(alter.as_mut().unwrap(), &t), None);
        });
        (0..5).for_each(|_| load.change(&engine, &mut t));
        assert_ne!(before.len(), 0);
        match commits {
            false => of(&mut load, &[], &mut |_| {
                drop(alter.take());
                while engine.background_step() {}
            }),
            true => of(&mut load, &[0], &mut |_| {
                assert_eq!(alter.take().unwrap().commit().unwrap(), None);
                while engine.background_step() {}
                engine.flush_all().unwrap();
            }),
        }
        load.verify(&engine);
    }
    assert!(moments.len() > 40, "{}", moments.len());
    let mut changed = 0;
    for (moment, rows, after) in moments {
        for vfs in [moment.all, moment.synced] {
            let engine = open(&vfs);
            let mut t = Load { rows: rows.clone(), rng: Rng(1) }.verify(&engine);
            assert_alone(&engine);
            let now = primary_of(&engine);
            assert!(now.is_empty() || now == after);
            changed += u32::from(!now.is_empty());
            let mut load = Load { rows: rows.clone(), rng: Rng(1) };
            load.fill(&engine, &mut t, 3);
            engine.flush_all().unwrap();
            load.verify(&engine);
        }
    }
    assert!(changed > 10, "{changed}");
}

#[test]
fn one_change_of_a_table_is_made_at_a_time() {
    let engine = open(&memory());
    let (_, t) = Load::create(&engine, true, 3, 20);
    let table = t.table().clone();
    let busy = |spec| engine.alter_table(&table, spec).err().map(|e| e.kind());
    let index = engine.alter_table(&table, with_index(same(&table), "new", &[1])).unwrap();
    assert_eq!(busy(with_primary(&table, &[0])), Some(ErrorKind::Busy));
    drop(index);
    let rebuild = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
    assert_eq!(busy(with_primary(&table, &[0])), Some(ErrorKind::Busy));
    assert_eq!(busy(same(&table)), Some(ErrorKind::Busy));
    drop(rebuild);
    assert_eq!(busy(same(&table)), None);
}
