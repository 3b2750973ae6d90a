//! Definitions that change in place: indexes that are dropped, and indexes that are built while rows change.

use std::collections::BTreeMap;
use std::sync::Arc;

use frond_base::{ErrorKind, SEQ_MAX};
use frond_engine::rows::{WriteFlags, Written};
use frond_engine::{
    AddedForeigns, Alter, AlterSpec, CheckOutcome, Engine, IndexDef, IndexState, Pages, Table,
    Violation,
};
use frond_row::{Coded, Codes, Index, NoBlobs, Part, RowInput, Schema, Sort, WeightLevel};
use frond_vfs::MemVfs;

use crate::durability::copy;
use crate::support::*;
use crate::typed::Typed;

pub fn schema_of(table: &Table) -> Schema {
    Schema::decode(&table.def().schema, "t").unwrap()
}

/// The table as it is.
pub fn same(table: &Table) -> AlterSpec {
    let schema = schema_of(table);
    AlterSpec {
        index_from: (0..schema.indexes.len()).map(Some).collect(),
        column_from: (0..schema.columns.len()).map(Some).collect(),
        storage: vec![IndexDef { page_bytes: 4096, ..IndexDef::plain() }; schema.indexes.len()],
        pages: vec![Pages::default(); schema.indexes.len()],
        schema,
        meta: b"altered".to_vec(),
        foreigns_gone: Vec::new(),
        foreigns_new: AddedForeigns::default(),
    }
}

pub fn without(table: &Table, name: &str) -> AlterSpec {
    let mut spec = same(table);
    let at = spec.schema.indexes.iter().position(|i| i.name == name).unwrap();
    spec.schema.indexes.remove(at);
    spec.index_from.remove(at);
    spec.storage.remove(at);
    spec.pages.remove(at);
    spec
}

/// Adds an index on `columns`, behind the primary one and before all others, as servers order them.
pub fn with(mut spec: AlterSpec, name: &str, unique: bool, columns: &[u16]) -> AlterSpec {
    let part = |&column| Part { column, prefix: None, descending: false };
    let parts = columns.iter().map(part).collect();
    spec.schema
        .indexes
        .insert(1, Index { tree: 0, name: name.into(), unique, clustering: false, parts });
    spec.index_from.insert(1, None);
    spec.storage.insert(1, IndexDef { page_bytes: 4096, ..IndexDef::plain() });
    spec.pages.insert(1, Pages::default());
    spec
}

fn build(alter: &mut Alter, t: &Typed) -> Option<Violation> {
    alter.build(&t.rows, &mut |_, _| true).unwrap()
}

pub fn checked(engine: &Engine, table: &Arc<Table>) -> Typed {
    let t = Typed::bind(table.clone());
    let mut outcome = CheckOutcome::default();
    t.rows.check(engine, &mut outcome, &mut || false, None).unwrap();
    assert_eq!(outcome.problems, Vec::<String>::new());
    assert!(engine.check_table(&table.def().name).unwrap().is_clean());
    t
}

/// `(id, a, s)` rows of a table with an `id` as its primary key, and random changes of them.
struct Load {
    rows: BTreeMap<u64, (i32, String)>,
    rng: Rng,
    values: u64,
}

impl Load {
    fn new(seed: u64, values: u64) -> Load {
        Load { rows: BTreeMap::new(), rng: Rng(seed), values }
    }

    fn fill(&mut self, engine: &Engine, t: &mut Typed, n: u32) {
        let mut txn = begin(engine);
        for _ in 0..n {
            self.insert(t, &mut txn);
        }
        txn.commit().unwrap();
    }

    fn insert(&mut self, t: &mut Typed, txn: &mut frond_engine::Transaction) {
        let (a, s) = (self.rng.below(self.values) as i32, format!("s{}", self.rng.below(50)));
        let (written, id, _) = t.insert(txn, a, &s);
        assert_eq!(written, Written::Done);
        self.rows.insert(id, (a, s));
    }

    fn some(&mut self) -> Option<u64> {
        let at = self.rng.below(1 + self.rows.keys().next_back().copied().unwrap_or(0));
        self.rows.range(at..).next().map(|(id, _)| *id)
    }

    fn update(&mut self, t: &mut Typed, txn: &mut frond_engine::Transaction, a: i32) {
        let Some(id) = self.some() else { return };
        let (was, s) = self.rows[&id].clone();
        t.update(txn, (id, was, &s), (id, a, &s));
        self.rows.insert(id, (a, s));
    }

    fn delete(&mut self, t: &mut Typed, txn: &mut frond_engine::Transaction) {
        let Some(id) = self.some() else { return };
        let (a, s) = self.rows.remove(&id).unwrap();
        let record = t.record(id, a, &s);
        let row = RowInput { record: &record, blobs: &NoBlobs, row_id: 0 };
        t.rows.delete(txn, &row, WriteFlags::default()).unwrap();
    }

    fn change(&mut self, engine: &Engine, t: &mut Typed) {
        let mut txn = begin(engine);
        for _ in 0..self.rng.below(20) {
            match self.rng.below(4) {
                0 => self.insert(t, &mut txn),
                1 | 2 => {
                    let a = self.rng.below(self.values) as i32;
                    self.update(t, &mut txn, a);
                }
                _ => self.delete(t, &mut txn),
            }
        }
        txn.commit().unwrap();
    }

    fn verify(&self, table: &Table) {
        let mut cursor = table.tree(0).cursor(SEQ_MAX, frond_tree::Bounds::all());
        let (mut n, mut valid) = (0, cursor.first().unwrap());
        while valid {
            n += 1;
            valid = cursor.next().unwrap();
        }
        assert_eq!((n, table.rows()), (self.rows.len(), self.rows.len() as u64));
    }
}

#[test]
fn a_dropped_index_gives_its_space_back_and_stays_dropped() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "t", false);
    let mut load = Load::new(1, 1_000_000);
    for _ in 0..20 {
        load.fill(&engine, &mut t, 200);
    }
    engine.flush_all().unwrap();
    let table = t.table().clone();
    let alter = engine.alter_table(&table, without(&table, "by_a")).unwrap();
    assert!(!alter.builds());
    assert_eq!(alter.commit().unwrap(), None);
    assert_eq!(schema_of(&table).indexes.len(), 2);
    assert_eq!(table.def().meta, b"altered");
    // A crash now finds it dropped; its tree is emptied then.
    let later = copy(&vfs);
    while engine.background_step() {}
    assert!(table.tree(1).is_clear() && !table.tree(2).is_clear());
    let mut t = checked(&engine, &table);
    load.change(&engine, &mut t);
    load.verify(&table);
    drop((t, table, engine));
    for vfs in [vfs, later] {
        let engine = open(&vfs);
        let table = engine.open_table("t").unwrap();
        assert_eq!(table.def().indexes[1].state, IndexState::Dropped);
        while engine.background_step() {}
        engine.flush_all().unwrap();
        assert!(table.tree(1).is_clear());
        assert_eq!(schema_of(&checked(&engine, &table).table().clone()).indexes.len(), 2);
    }
}

#[test]
fn indexes_are_built_while_rows_change() {
    for seed in 0..30 {
        let vfs = memory();
        let engine = open(&vfs);
        let mut t = Typed::create(&engine, "t", false);
        let mut load = Load::new(seed, 300);
        for _ in 0..load.rng.below(8) {
            load.fill(&engine, &mut t, 900);
            if load.rng.below(2) == 0 {
                engine.flush_all().unwrap();
            }
        }
        let table = t.table().clone();
        let spec = with(with(without(&table, "by_s"), "new_a", false, &[1]), "new_id", true, &[0]);
        let mut alter = engine.alter_table(&table, spec).unwrap();
        load.change(&engine, &mut t);
        let reader = Typed::bind(table.clone());
        let violation = alter.build(&reader.rows, &mut |_, _| {
            load.change(&engine, &mut t);
            for _ in 0..load.rng.below(5) {
                engine.background_step();
            }
            true
        });
        assert_eq!(violation.unwrap(), None);
        load.change(&engine, &mut t);
        assert_eq!(alter.commit().unwrap(), None);
        let names: Vec<String> = schema_of(&table).indexes.into_iter().map(|i| i.name).collect();
        assert_eq!(names, ["PRIMARY", "new_id", "new_a", "by_a"]);
        let mut t = checked(&engine, &table);
        load.change(&engine, &mut t);
        load.verify(&table);
        checked(&engine, &table);
        let crashed = copy(&vfs);
        while engine.background_step() {}
        engine.flush_all().unwrap();
        checked(&engine, &table);
        drop((t, reader, table, engine));
        for vfs in [crashed, vfs] {
            let engine = open(&vfs);
            let table = engine.open_table("t").unwrap();
            load.verify(&table);
            checked(&engine, &table);
            assert!(table.def().building.is_empty());
        }
    }
}

/// At each poll of a build the files are copied, as a crash would leave them.
#[test]
fn a_crash_during_a_build_leaves_the_table_without_the_index() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "t", false);
    let mut load = Load::new(7, 300);
    for _ in 0..5 {
        load.fill(&engine, &mut t, 900);
    }
    engine.flush_all().unwrap();
    let table = t.table().clone();
    let mut alter = engine.alter_table(&table, with(same(&table), "new", true, &[0])).unwrap();
    let mut copies = vec![(copy(&vfs), load.rows.len())];
    let reader = Typed::bind(table.clone());
    alter
        .build(&reader.rows, &mut |_, _| {
            load.change(&engine, &mut t);
            engine.background_step();
            copies.push((copy(&vfs), load.rows.len()));
            true
        })
        .unwrap();
    copies.push((copy(&vfs), load.rows.len()));
    assert!(copies.len() > 10);
    for (vfs, rows) in copies {
        let engine = open(&vfs);
        let table = engine.open_table("t").unwrap();
        assert_eq!(table.rows(), rows as u64);
        assert_eq!(table.def().indexes.last().unwrap().state, IndexState::Dropped);
        assert!(table.def().building.is_empty());
        let mut t = checked(&engine, &table);
        while engine.background_step() {}
        assert!(table.trees().iter().last().unwrap().is_clear());
        // And it can be built again.
        let mut alter = engine.alter_table(&table, with(same(&table), "new", true, &[0])).unwrap();
        assert_eq!(build(&mut alter, &t), None);
        alter.commit().unwrap();
        let mut txn = begin(&engine);
        t = checked(&engine, &table);
        t.insert(&mut txn, 1, "x");
        txn.commit().unwrap();
        engine.flush_all().unwrap();
        checked(&engine, &table);
    }
}

#[test]
fn an_interrupted_build_leaves_nothing_behind() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "t", false);
    let mut load = Load::new(3, 300);
    for _ in 0..6 {
        load.fill(&engine, &mut t, 900);
    }
    engine.flush_all().unwrap();
    let table = t.table().clone();
    for most in 0..14 {
        let mut alter = engine.alter_table(&table, with(same(&table), "new", true, &[0])).unwrap();
        let reader = Typed::bind(table.clone());
        let mut polls = 0;
        let outcome = alter.build(&reader.rows, &mut |_, _| {
            load.change(&engine, &mut t);
            polls += 1;
            polls <= most
        });
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Interrupted);
        // A transaction that has entries of the index in its write set when it goes.
        let mut txn = begin(&engine);
        load.insert(&mut t, &mut txn);
        drop(alter);
        txn.commit().unwrap();
        load.change(&engine, &mut t);
        load.verify(&table);
        while engine.background_step() {}
        assert!(table.trees().iter().last().unwrap().is_clear());
        checked(&engine, &table);
    }
    drop((t, table, engine));
    let engine = open(&vfs);
    let table = engine.open_table("t").unwrap();
    load.verify(&table);
    checked(&engine, &table);
}

#[test]
fn equal_values_are_found_whoever_wrote_them() {
    for seed in 0..40 {
        let vfs = memory();
        let engine = open(&vfs);
        let mut t = Typed::create(&engine, "t", false);
        // Distinct values.
        let mut txn = begin(&engine);
        for n in 0..2_500 {
            t.insert(&mut txn, n, "s");
        }
        txn.commit().unwrap();
        engine.flush_all().unwrap();
        let mut rng = Rng(seed);
        let when = rng.below(8);
        let kind = rng.below(4);
        let victim = 1 + rng.below(2_500);
        // In the rows from the beginning.
        let early = kind == 0;
        let twin = |t: &mut Typed, a: i32| {
            let mut txn = begin(&engine);
            t.insert(&mut txn, a, "twin");
            txn.commit().unwrap();
        };
        if early {
            twin(&mut t, victim as i32 - 1);
        }
        let table = t.table().clone();
        let mut alter = engine.alter_table(&table, with(same(&table), "u", true, &[1])).unwrap();
        let reader = Typed::bind(table.clone());
        let (mut polls, mut done) = (0, early);
        let meanwhile = |t: &mut Typed| match kind {
            // A new row with the value of an old one.
            1 => twin(t, victim as i32 - 1),
            // Two new rows.
            2 => (0..2).for_each(|_| twin(t, 1_000_000)),
            // An old row that gets the value of another.
            _ => {
                let mut txn = begin(&engine);
                let a = victim as i32 - 1;
                t.update(&mut txn, (victim, a, "s"), (victim, (a + 1) % 2_500, "s"));
                txn.commit().unwrap();
            }
        };
        let found = alter.build(&reader.rows, &mut |_, _| {
            polls += 1;
            if polls == when && !done {
                meanwhile(&mut t);
                done = true;
            }
            true
        });
        let found = match found.unwrap() {
            Some(found) => {
                drop(alter);
                found
            }
            None => {
                if !done {
                    meanwhile(&mut t);
                }
                alter.commit().unwrap().expect("a violation, at the commit at the latest")
            }
        };
        assert_eq!(found.index, 1);
        let mut row = Vec::new();
        assert!(table.tree(0).get(&found.primary_key, SEQ_MAX, &mut row).unwrap().is_some());
        assert_eq!(schema_of(&table).indexes.len(), 3);
        assert!(table.def().building.is_empty());
        checked(&engine, &table);
    }
}

#[test]
fn a_value_that_moved_between_rows_is_no_violation() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "t", false);
    let mut txn = begin(&engine);
    for n in 0..3_000 {
        t.insert(&mut txn, n, "s");
    }
    txn.commit().unwrap();
    let table = t.table().clone();
    let mut alter = engine.alter_table(&table, with(same(&table), "u", true, &[1])).unwrap();
    let reader = Typed::bind(table.clone());
    let mut n = 0;
    let mut swap = |t: &mut Typed| {
        // Each pair of rows once.
        n += 2;
        let (x, y) = (n, n + 1);
        let mut txn = begin(&engine);
        t.update(&mut txn, (x, x as i32 - 1, "s"), (x, y as i32 - 1, "s"));
        t.update(&mut txn, (y, y as i32 - 1, "s"), (y, x as i32 - 1, "s"));
        txn.commit().unwrap();
    };
    let found = alter.build(&reader.rows, &mut |_, _| {
        swap(&mut t);
        true
    });
    assert_eq!(found.unwrap(), None);
    swap(&mut t);
    assert_eq!(alter.commit().unwrap(), None);
    let mut t = checked(&engine, &table);
    // From now on it is refused at once.
    let mut txn = begin(&engine);
    assert_eq!(t.insert(&mut txn, 7, "twin").0, Written::Duplicate(1));
}

#[test]
fn a_snapshot_from_before_the_build_does_not_read_the_index() {
    let engine = open(&memory());
    let mut t = Typed::create(&engine, "t", false);
    let mut load = Load::new(1, 100);
    load.fill(&engine, &mut t, 100);
    let mut old = begin(&engine);
    old.snapshot();
    load.fill(&engine, &mut t, 100);
    let table = t.table().clone();
    let mut alter = engine.alter_table(&table, with(same(&table), "new", false, &[1])).unwrap();
    let mut during = begin(&engine);
    during.snapshot();
    load.fill(&engine, &mut t, 100);
    assert_eq!(build(&mut alter, &t), None);
    alter.commit().unwrap();
    let t = checked(&engine, &table);
    let open = |txn: &mut frond_engine::Transaction, index| {
        frond_engine::rows::Scan::open(txn, &t.rows, index, None).map(drop).map_err(|e| e.kind())
    };
    assert_eq!(open(&mut old, 1), Err(ErrorKind::TableChanged));
    assert_eq!((open(&mut old, 0), open(&mut old, 2)), (Ok(()), Ok(())));
    assert_eq!(open(&mut during, 1), Ok(()));
}

#[test]
fn transactions_larger_than_memory_write_entries_of_the_index_too() {
    let options = frond_engine::Options { transaction_bytes: 64 << 10, ..small() };
    let vfs = memory();
    let engine = Engine::open(Arc::new(vfs.clone()), options.clone()).unwrap();
    let mut t = Typed::create(&engine, "t", false);
    let mut load = Load::new(9, 1 << 30);
    load.fill(&engine, &mut t, 3_000);
    let table = t.table().clone();
    for unique in [false, true] {
        let mut alter =
            engine.alter_table(&table, with(same(&table), "new", unique, &[0, 1])).unwrap();
        let reader = Typed::bind(table.clone());
        let mut polls = 0;
        let found = alter.build(&reader.rows, &mut |_, _| {
            polls += 1;
            if polls % 16 == 0 && polls < 100 {
                load.fill(&engine, &mut t, 3_000);
            }
            engine.background_step();
            true
        });
        assert_eq!(found.unwrap(), None);
        load.fill(&engine, &mut t, 3_000);
        assert_eq!(alter.commit().unwrap(), None);
        t = checked(&engine, &table);
    }
    let spilled = engine.status().iter().find(|(n, _)| *n == "spilled_commits").unwrap().1;
    assert!(spilled > 2, "{spilled}");
    let crashed = copy(&vfs);
    engine.flush_all().unwrap();
    load.verify(checked(&engine, &table).table());
    let engine = Engine::open(Arc::new(crashed), options).unwrap();
    load.verify(checked(&engine, &engine.open_table("t").unwrap()).table());
}

#[test]
fn a_full_disk_ends_a_build_and_nothing_else() {
    let files = MemVfs::stepped();
    let disk = frond_vfs::testing::SmallDisk::new(files.clone(), u64::MAX);
    let engine = Engine::open(Arc::new(disk.clone()), small()).unwrap();
    let mut t = Typed::create(&engine, "t", false);
    let mut load = Load::new(5, 1 << 30);
    for _ in 0..6 {
        load.fill(&engine, &mut t, 1_000);
    }
    engine.flush_all().unwrap();
    let table = t.table().clone();
    let mut failed = 0;
    for left in [0, 4 << 10, 16 << 10, 40 << 10, 80 << 10] {
        let spec = with(same(&table), "new", true, &[1]);
        let Ok(mut alter) = engine.alter_table(&table, spec) else { panic!("there is room") };
        disk.leave(left);
        let reader = Typed::bind(table.clone());
        let outcome = alter.build(&reader.rows, &mut |_, _| true);
        if let Err(e) = outcome {
            assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
            failed += 1;
        }
        drop(alter);
        disk.leave(u64::MAX);
        while engine.background_step() {}
        assert!(!engine.is_poisoned());
        load.change(&engine, &mut t);
        load.verify(checked(&engine, &table).table());
        assert!(table.def().building.is_empty());
    }
    assert!(failed > 1, "{failed}");
}

#[test]
fn a_column_keeps_its_weights_without_codes() {
    let engine = open(&memory());
    let mut old = crate::typed::schema(false);
    // No index has the column, so nothing asks for weights.
    old.indexes.retain(|i| i.name != "by_s");
    old.columns[2].sort = Sort::Weights(vec![WeightLevel::plain(0, b" ")]);
    let table = engine.create_table(crate::typed::spec("t", &old)).unwrap();
    let mut spec = same(&table);
    let space = Coded { weight: 32, char: b' ', both_cases: false };
    let codes = Some(Codes::new(1, &[space]).unwrap());
    let coded = Sort::Weights(vec![WeightLevel { codes, ..WeightLevel::plain(0, b" ") }]);
    spec.schema.columns[2].sort = coded.clone();
    spec.schema.columns[2].name = "renamed".into();
    engine.check_alter(&table, &spec).unwrap();
    engine.alter_table(&table, spec).unwrap().commit().unwrap();
    let column = &schema_of(&table).columns[2];
    assert_eq!((column.name.as_str(), &column.sort), ("renamed", &old.columns[2].sort));
    // Another collation has its own, however alike they look.
    let mut spec = same(&table);
    (spec.schema.columns[2].charset, spec.schema.columns[2].sort) = (45, coded.clone());
    engine.alter_table(&table, spec).unwrap().commit().unwrap();
    assert_eq!(schema_of(&table).columns[2].sort, coded);
}

#[test]
fn a_table_may_live_through_many_indexes() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "t", false);
    let mut load = Load::new(5, 1 << 30);
    load.fill(&engine, &mut t, 50);
    let table = t.table().clone();
    for n in 0..100 {
        let spec =
            with(without(&table, if n == 0 { "by_a" } else { "new" }), "new", n % 2 == 0, &[1]);
        let mut alter = engine.alter_table(&table, spec).unwrap();
        assert_eq!(build(&mut alter, &t), None);
        alter.commit().unwrap();
        t = Typed::bind(table.clone());
        load.change(&engine, &mut t);
        if n % 10 == 0 {
            engine.background_step();
            let engine = open(&copy(&vfs));
            load.verify(checked(&engine, &engine.open_table("t").unwrap()).table());
        }
    }
    assert_eq!(table.trees().len(), 103);
    engine.flush_all().unwrap();
    drop((t, table, engine));
    let engine = open(&vfs);
    let table = engine.open_table("t").unwrap();
    load.verify(checked(&engine, &table).table());
    let table = engine.truncate_table("t").unwrap();
    let mut t = Typed::bind(table.clone());
    let mut load = Load::new(6, 1 << 30);
    load.fill(&engine, &mut t, 50);
    load.verify(checked(&engine, &table).table());
}
