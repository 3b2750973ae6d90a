//! Tables as files: exports, discarded rows, imports; hostile files, and crashes at every step.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use frond_base::ErrorKind;
use frond_engine::{Engine, ExportDescription, ImportFiles, Result, Table};
use frond_row::{ColumnType, Schema};
use frond_vfs::{MemVfs, OpenHow, Spawned, Vfs, VfsFile};
use parking_lot::Mutex;

use crate::alter::{checked, same};
use crate::support::*;
use crate::typed::{schema, spec, Typed};

type Row = (Vec<u8>, Vec<u8>);
const DATA: &str = "t.frd";
const DESCRIPTION: &str = "t.cfg";

/// The two files of an export, as a DBA copies them.
struct Copied {
    vfs: MemVfs,
    data: Vec<u8>,
    description: Vec<u8>,
}

impl Copied {
    fn new(data: Vec<u8>, description: Vec<u8>) -> Copied {
        let copied = Copied { vfs: memory(), data, description };
        copied.put(&copied.data, &copied.description);
        copied
    }

    fn put(&self, data: &[u8], description: &[u8]) {
        self.vfs.set_contents(DATA, data.to_vec());
        self.vfs.set_contents(DESCRIPTION, description.to_vec());
    }

    fn described(&self) -> ExportDescription {
        ExportDescription::decode(&self.description, DESCRIPTION).unwrap()
    }

    fn import(&self, engine: &Engine, name: &str) -> Result<()> {
        let files = ImportFiles { vfs: &self.vfs, data: DATA, description: DESCRIPTION };
        let import = engine.begin_import(name, &files, &|n| format!("collation {n}"))?;
        import.run(&mut |_, _| true)
    }
}

fn export(engine: &Engine, vfs: &MemVfs, table: &Arc<Table>) -> Copied {
    let export = engine.begin_export(table, &mut || true).unwrap();
    let data = vfs.contents(export.file_name()).unwrap();
    Copied::new(data, export.description().encode())
}

fn fill(engine: &Engine, t: &mut Typed, n: u32) {
    let mut txn = begin(engine);
    for i in 0..n {
        t.insert(&mut txn, (i % 7) as i32, &format!("row {i}"));
    }
    txn.commit().unwrap();
}

/// A database whose log is longer than those of others, with a table `shop/t` of some hundred rows at all levels of
/// the tree.
fn source(hidden_primary: bool) -> (MemVfs, Engine, Typed) {
    source_of(1, hidden_primary)
}

/// Databases of directories in memory get the same number, unless `drawn` random numbers are drawn before.
fn source_of(drawn: u32, hidden_primary: bool) -> (MemVfs, Engine, Typed) {
    let vfs = memory();
    (0..drawn).for_each(|_| {
        vfs.random_u64();
    });
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "shop/t", hidden_primary);
    fill(&engine, &mut t, 500);
    engine.flush_all().unwrap();
    fill(&engine, &mut t, 100);
    (vfs, engine, t)
}

/// A table `shop/t` that waits for an import.
fn discarded(engine: &Engine, hidden_primary: bool) {
    engine.create_table(spec("shop/t", &schema(hidden_primary))).unwrap();
    engine.discard_rows("shop/t").unwrap();
}

fn kind<T>(outcome: Result<T>) -> ErrorKind {
    outcome.map(drop).unwrap_err().kind()
}

#[test]
fn an_exported_table_is_the_same_in_another_database_and_goes_on() {
    for hidden_primary in [false, true] {
        let (vfs, engine, t) = source(hidden_primary);
        let copied = export(&engine, &vfs, t.table());
        let there = memory();
        let target = open(&there);
        // Other numbers of tables and blocks, and a log that is shorter than the other one's.
        Typed::create(&target, "first", false);
        discarded(&target, hidden_primary);
        copied.import(&target, "shop/t").unwrap();
        let wanted = all(&engine, t.table());
        let check = |target: &Engine| {
            let table = target.open_table("shop/t").unwrap();
            assert_eq!(all(target, &table), wanted);
            assert_eq!(table.rows(), 600);
            assert_eq!(table.auto_increment(), t.table().auto_increment());
            checked(target, &table)
        };
        let mut imported = check(&target);
        fill(&target, &mut imported, 50);
        let rows = all(&target, imported.table()).len();
        assert_eq!(rows, 650);
        target.flush_all().unwrap();
        drop((imported, target));
        let target = open(&there);
        let table = target.open_table("shop/t").unwrap();
        assert_eq!(all(&target, &table).len(), 650);
        checked(&target, &table);
    }
}

#[test]
fn an_imported_table_survives_without_its_log() {
    let (vfs, engine, t) = source(false);
    let copied = export(&engine, &vfs, t.table());
    let there = memory();
    let target = open(&there);
    let other = target.create_table(plain("other")).unwrap();
    discarded(&target, false);
    copied.import(&target, "shop/t").unwrap();
    drop(other);
    // The log is trimmed beyond the import and its last edit; the list of images has the table.
    let trim = |target: &Engine| {
        let other = target.open_table("other").unwrap();
        for n in 0..400u64 {
            put(target, &other, &key(n), &[n as u8; 2000]);
        }
        target.flush_all().unwrap();
    };
    trim(&target);
    drop(target);
    let target = open(&there);
    let table = target.open_table("shop/t").unwrap();
    assert_eq!(all(&target, &table), all(&engine, t.table()));
    let name = format!("{}.frd", table.id());
    trim(&target);
    drop((table, target));
    there.remove(&name).unwrap();
    let opened = Engine::open(Arc::new(there.clone()), small());
    let missing = opened.and_then(|target| target.open_table("shop/t")).unwrap_err();
    assert!(missing.message().contains("is missing"), "{missing}");
    assert!(!missing.message().contains("the log has"), "trimmed: {missing}");
}

#[test]
fn a_file_does_not_change_while_it_is_exported() {
    let (vfs, engine, mut t) = source(false);
    let other = engine.create_table(plain("other")).unwrap();
    let export = engine.begin_export(t.table(), &mut || true).unwrap();
    assert_eq!(kind(engine.begin_export(t.table(), &mut || true)), ErrorKind::Busy);
    let before = vfs.contents(export.file_name()).unwrap();
    for n in 0..400u64 {
        put(&engine, &other, &key(n), &[n as u8; 2000]);
    }
    while engine.background_step() {}
    // Needs an image, which has to wait. The export that was refused ends nothing (MV1).
    engine.set_auto_increment(t.table(), 5000).unwrap();
    engine.flush_all().unwrap();
    assert_eq!(vfs.contents(export.file_name()).unwrap(), before);
    drop(export);
    // And does again afterwards.
    fill(&engine, &mut t, 100);
    engine.flush_all().unwrap();
    assert_ne!(vfs.contents(&format!("{}.frd", t.table().id())).unwrap(), before);
    checked(&engine, t.table());
}

#[test]
fn a_discarded_table_refuses_everything_until_it_is_dropped() {
    let vfs = memory();
    let mut engine = open(&vfs);
    let table = engine.create_table(plain("t")).unwrap();
    put(&engine, &table, b"k", b"v");
    drop(table);
    engine.discard_rows("t").unwrap();
    for reopen in [false, true] {
        if reopen {
            drop(engine);
            engine = open(&vfs);
        }
        let table = engine.open_table("t").unwrap();
        assert!(table.is_discarded());
        let mut txn = begin(&engine);
        let mut value = Vec::new();
        assert_eq!(kind(txn.get(&table, 0, b"k", &mut value)), ErrorKind::Discarded);
        assert_eq!(kind(txn.put(&table, b"k", b"v", false)), ErrorKind::Discarded);
        assert_eq!(kind(engine.cursor(&mut txn, &table, 0)), ErrorKind::Discarded);
        assert_eq!(kind(engine.begin_export(&table, &mut || true)), ErrorKind::Discarded);
        assert_eq!(kind(engine.truncate_table("t")), ErrorKind::Discarded);
        assert_eq!(kind(engine.discard_rows("t")), ErrorKind::Discarded);
    }
    engine.rename_table("t", "u").unwrap();
    assert!(engine.open_table("u").unwrap().is_discarded());
    engine.drop_table("u").unwrap();
    while engine.background_step() {}
    drop(engine);
    assert!(!vfs.list().unwrap().iter().any(|n| n.ends_with(".frd") && n != "0.frd"));
}

#[test]
fn rows_of_older_schemas_and_dropped_indexes_come_along() {
    let (vfs, engine, t) = source(false);
    let table = t.table().clone();
    drop(t);
    let mut columns = same(&table);
    columns.schema.columns[0].nullable = false;
    let by_s = columns.schema.indexes.iter().position(|i| i.name == "by_s").unwrap();
    columns.schema.indexes.remove(by_s);
    columns.index_from.remove(by_s);
    columns.storage.remove(by_s);
    columns.pages.remove(by_s);
    engine.alter_table(&table, columns).unwrap().commit().unwrap();
    let mut longer = same(&table);
    longer.schema.columns[2].bytes = 41;
    engine.alter_table(&table, longer).unwrap().commit().unwrap();
    let mut t = Typed::bind(table.clone());
    fill(&engine, &mut t, 30);
    let copied = export(&engine, &vfs, &table);

    let there = memory();
    let target = open(&there);
    let mut wanted = schema(false);
    wanted.columns[2].bytes = 41;
    wanted.indexes.pop();
    let mut larger = spec("shop/t", &wanted);
    larger.indexes.iter_mut().for_each(|i| i.page_bytes = 16384);
    target.create_table(larger).unwrap();
    target.discard_rows("shop/t").unwrap();
    copied.import(&target, "shop/t").unwrap();
    let imported = target.open_table("shop/t").unwrap();
    let def = imported.def();
    // Its rows became new (MV6).
    assert!(def.history.is_empty() && !table.def().history.is_empty());
    assert_eq!((def.indexes[0].page_bytes, def.indexes[1].page_bytes), (16384, 16384));
    let (there, here) = (all(&engine, &table), all(&target, &imported));
    let versions = |rows: &[Row]| rows.iter().map(|(_, v)| v[0]).collect::<HashSet<_>>().len();
    assert!(versions(&there) > 1 && versions(&here) == 1);
    // The column s ends a row.
    let end = |v: &[u8]| v[v.len() - 5..].to_vec();
    let same = |(old, new): (&Row, &Row)| old.0 == new.0 && end(&old.1) == end(&new.1);
    assert!(there.len() == 630 && here.len() == 630 && there.iter().zip(&here).all(same));
    let mut t = checked(&target, &imported);
    fill(&target, &mut t, 30);
    checked(&target, &imported);
}

#[test]
fn what_differs_is_named() {
    let (vfs, engine, t) = source(false);
    let copied = export(&engine, &vfs, t.table());
    type Change = fn(&mut Schema);
    let changes: [(Change, &str); 10] = [
        (|s| s.columns[1].name = "b".into(), "column 2: a in the file, b here"),
        (|s| s.columns[1].ty = ColumnType::Float, "column a: its type"),
        (|s| s.columns[2].bytes = 31, "column s: its length in bytes is 21 in the file, 31 here"),
        (|s| s.columns[1].nullable = true, "column a: it is NOT NULL in the file, NULL here"),
        (|s| s.columns[2].charset = 33, "its collation is collation 46 in the file, collation 33"),
        (|s| s.indexes[1].unique = true, "index by_a: unique or not"),
        (|s| s.indexes[2].parts[0].descending = true, "(s, a) in the file, (s DESC, a) here"),
        (|s| s.indexes[1].clustering = true, "index by_a: not clustering in the file"),
        (|s| drop(s.indexes.pop()), "index by_s of the file is not here"),
        (|s| s.auto_increment = None, "column id has AUTO_INCREMENT in the file, no column here"),
    ];
    for (change, said) in changes {
        let target = open(&memory());
        let mut other = schema(false);
        change(&mut other);
        target.create_table(spec("shop/t", &other)).unwrap();
        target.discard_rows("shop/t").unwrap();
        let e = copied.import(&target, "shop/t").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Mismatch, "{e}");
        assert!(e.message().contains(said), "{e}");
        assert!(target.open_table("shop/t").unwrap().is_discarded());
    }
    let target = open(&memory());
    target.create_table(spec("shop/t", &schema(false))).unwrap();
    assert_eq!(kind(copied.import(&target, "shop/t")), ErrorKind::Exists);
    // Indexes in another order are the same.
    let mut other = schema(false);
    other.indexes.swap(1, 2);
    target.create_table(spec("shop/u", &other)).unwrap();
    target.discard_rows("shop/u").unwrap();
    copied.import(&target, "shop/u").unwrap();
    checked(&target, &target.open_table("shop/u").unwrap());
}

#[test]
fn damaged_cut_and_swapped_files_are_refused_and_leave_the_table_discarded() {
    let (vfs, engine, mut t) = source(false);
    let copied = export(&engine, &vfs, t.table());
    fill(&engine, &mut t, 10);
    let later = export(&engine, &vfs, t.table());
    let (other_vfs, other, u) = source_of(2, false);
    let stranger = export(&other, &other_vfs, u.table());

    let there = memory();
    let target = open(&there);
    discarded(&target, false);
    let refused = |data: &[u8], description: &[u8], what: &str| {
        copied.put(data, description);
        let e = copied.import(&target, "shop/t").expect_err(what);
        assert_eq!(e.kind(), ErrorKind::Corruption, "{what}: {e}");
        assert!(e.message().contains(DATA) || e.message().contains(DESCRIPTION), "{what}: {e}");
        assert!(target.open_table("shop/t").unwrap().is_discarded());
    };
    refused(&later.data, &copied.description, "a later file");
    refused(&copied.data, &later.description, "a later description");
    refused(&stranger.data, &copied.description, "another database's file");
    refused(b"", &copied.description, "an empty file");
    refused(&copied.data, b"", "an empty description");
    let len = copied.described().len as usize;
    for cut in [4096, 8192, len / 2, len - 4096, len - 1] {
        refused(&copied.data[..cut], &copied.description, &format!("cut to {cut} bytes"));
    }
    // A bit anywhere: either it is noticed, or it is in bytes that nothing names and the rows are the same.
    let mut rng = Rng(7);
    let (mut noticed, wanted) = (0, copied.described().rows);
    for _ in 0..150 {
        let mut data = copied.data.clone();
        let at = rng.below(len as u64) as usize;
        data[at] ^= 1 << rng.below(8);
        copied.put(&data, &copied.description);
        match copied.import(&target, "shop/t") {
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Corruption, "byte {at}: {e}");
                noticed += 1;
            }
            Ok(()) => {
                let table = target.open_table("shop/t").unwrap();
                assert_eq!(table.rows(), wanted);
                checked(&target, &table);
                drop(table);
                target.discard_rows("shop/t").unwrap();
            }
        }
        while target.background_step() {}
    }
    assert!(noticed > 30, "{noticed}");
    // What was refused left nothing behind.
    copied.put(&copied.data, &copied.description);
    copied.import(&target, "shop/t").unwrap();
    while target.background_step() {}
    let files = there.list().unwrap().into_iter().filter(|n| n.ends_with(".frd")).count();
    assert!(files <= 2, "{files} files");
}

#[test]
fn a_table_without_rows_moves() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = Typed::create(&engine, "shop/t", false);
    let copied = export(&engine, &vfs, t.table());
    let there = memory();
    let target = open(&there);
    discarded(&target, false);
    copied.import(&target, "shop/t").unwrap();
    drop(target);
    let target = open(&there);
    let mut t = checked(&target, &target.open_table("shop/t").unwrap());
    assert!(all(&target, t.table()).is_empty());
    fill(&target, &mut t, 10);
    assert_eq!(all(&target, t.table()).len(), 10);
}

#[test]
fn an_interrupted_import_leaves_the_table_discarded() {
    let (vfs, engine, t) = source(false);
    let copied = export(&engine, &vfs, t.table());
    let target = open(&memory());
    discarded(&target, false);
    let files = ImportFiles { vfs: &copied.vfs, data: DATA, description: DESCRIPTION };
    let import = target.begin_import("shop/t", &files, &|n| n.to_string()).unwrap();
    assert_eq!(kind(import.run(&mut |_, _| false)), ErrorKind::Interrupted);
    assert!(target.open_table("shop/t").unwrap().is_discarded());
    copied.import(&target, "shop/t").unwrap();
}

// ---- crashes

/// Before each change of the directory, what kill -9 at that moment would leave, and what a power failure that takes
/// everything which was not synced.
#[derive(Clone)]
struct Killed {
    files: MemVfs,
    on: Arc<AtomicBool>,
    disk: Arc<Mutex<Disk>>,
}

/// Files by number, as a file keeps it when it is renamed.
#[derive(Default)]
struct Disk {
    names: BTreeMap<String, u64>,
    synced_names: BTreeMap<String, u64>,
    synced: BTreeMap<u64, Vec<u8>>,
    next: u64,
    killed: Vec<MemVfs>,
    lost: Vec<MemVfs>,
}

struct KilledFile {
    at: Killed,
    number: u64,
    file: Arc<dyn VfsFile>,
}

impl Killed {
    fn changes(&self) {
        if !self.on.load(Ordering::Relaxed) {
            return;
        }
        let mut disk = self.disk.lock();
        let lost = memory();
        for (name, number) in &disk.synced_names {
            lost.set_contents(name, disk.synced.get(number).cloned().unwrap_or_default());
        }
        disk.lost.push(lost);
        disk.killed.push(crate::durability::copy(&self.files));
    }
}

impl VfsFile for KilledFile {
    frond_vfs::forward!(file: read_at read_together len punch_hole direct);

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.at.changes();
        self.file.write_at(buf, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.at.changes();
        self.file.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        let mut bytes = vec![0; self.file.len()? as usize];
        self.file.read_exact_at(&mut bytes, 0)?;
        self.at.disk.lock().synced.insert(self.number, bytes);
        Ok(())
    }
}

impl Vfs for Killed {
    frond_vfs::forward!(files: exists list lock_dir clocks);

    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        if how.create_new {
            self.changes();
        }
        let file = self.files.open(name, how)?;
        let mut disk = self.disk.lock();
        if how.create_new {
            disk.next += 1;
            let number = disk.next;
            disk.names.insert(name.into(), number);
        }
        let number = disk.names[name];
        drop(disk);
        Ok(Arc::new(KilledFile { at: self.clone(), number, file }))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.changes();
        self.files.rename(from, to)?;
        let mut disk = self.disk.lock();
        let number = disk.names.remove(from).unwrap();
        disk.names.insert(to.into(), number);
        Ok(())
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.changes();
        self.files.remove(name)?;
        self.disk.lock().names.remove(name);
        Ok(())
    }
    fn sync_dir(&self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.synced_names = disk.names.clone();
        Ok(())
    }
    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> Spawned {
        Ok(None)
    }
}

/// Does `work` to a database and opens what each moment of it leaves; `judge` says whether it is done.
fn end_everywhere(
    before: impl FnOnce(&Engine),
    work: impl FnOnce(&Engine),
    judge: impl Fn(&Engine) -> bool,
) {
    let (on, disk) = Default::default();
    let vfs = Killed { files: memory(), on, disk };
    let engine = Engine::open(Arc::new(vfs.clone()), small()).unwrap();
    before(&engine);
    engine.sync().unwrap();
    vfs.on.store(true, Ordering::Relaxed);
    work(&engine);
    while engine.background_step() {}
    vfs.on.store(false, Ordering::Relaxed);
    let (killed, lost) = {
        let mut disk = vfs.disk.lock();
        (std::mem::take(&mut disk.killed), std::mem::take(&mut disk.lost))
    };
    assert!(killed.len() > 2, "{} moments", killed.len());
    for images in [killed, lost] {
        let mut done = Vec::new();
        for image in images {
            let engine = open(&image);
            done.push(judge(&engine));
            while engine.background_step() {}
            drop(engine);
            // Orphans are gone, and the next opening finds the same.
            let engine = open(&image);
            assert_eq!(judge(&engine), done[done.len() - 1]);
        }
        assert!(done.is_sorted(), "done, and then not: {done:?}");
        assert!(!done[0] && done[done.len() - 1], "before and after: {done:?}");
    }
}

#[test]
fn a_crash_in_an_import_leaves_the_table_discarded_or_whole() {
    let (vfs, engine, t) = source(false);
    let copied = export(&engine, &vfs, t.table());
    let wanted = all(&engine, t.table());
    end_everywhere(
        |engine| discarded(engine, false),
        |engine| copied.import(engine, "shop/t").unwrap(),
        |engine| {
            let table = engine.open_table("shop/t").unwrap();
            if table.is_discarded() {
                return false;
            }
            assert_eq!(all(engine, &table), wanted);
            checked(engine, &table);
            true
        },
    );
}

#[test]
fn a_crash_in_a_discard_leaves_the_table_whole_or_discarded() {
    end_everywhere(
        |engine| {
            let mut t = Typed::create(engine, "shop/t", false);
            fill(engine, &mut t, 300);
            engine.flush_all().unwrap();
            fill(engine, &mut t, 50);
        },
        |engine| engine.discard_rows("shop/t").unwrap(),
        |engine| {
            let table = engine.open_table("shop/t").unwrap();
            if !table.is_discarded() {
                assert_eq!(all(engine, &table).len(), 350);
                checked(engine, &table);
            }
            table.is_discarded()
        },
    );
}
