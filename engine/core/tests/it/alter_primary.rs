//! Another primary key, built while rows change.

use std::collections::BTreeMap;
use std::sync::Arc;

use frond_base::ErrorKind;
use frond_engine::rows::{Fetched, Scan, WriteFlags, Written};
use frond_engine::{
    Alter, AlterSpec, Engine, IndexDef, IndexState, Options, Pages, Table, Transaction, Violation,
};
use frond_row::{Index, NoBlobs, Part, RowInput};

use crate::alter::{checked, same, schema_of};
use crate::durability::copy;
use crate::locking_scans::Hooks;
use crate::rows::number;
use crate::support::*;
use crate::typed::{self, Typed};

/// The table with a primary key on `columns`, in place of the one that it has, whether hidden or not.
pub fn with_primary(table: &Table, columns: &[u16]) -> AlterSpec {
    let mut spec = same(table);
    let part = |&column| Part { column, prefix: None, descending: false };
    let parts = columns.iter().map(part).collect();
    let name = "PRIMARY".into();
    spec.schema.indexes[0] = Index { tree: 0, name, unique: true, clustering: false, parts };
    spec.schema.hidden_primary = false;
    spec.index_from[0] = None;
    spec
}

fn without_index(mut spec: AlterSpec, name: &str) -> AlterSpec {
    let at = spec.schema.indexes.iter().position(|i| i.name == name).unwrap();
    spec.schema.indexes.remove(at);
    spec.index_from.remove(at);
    spec.storage.remove(at);
    spec.pages.remove(at);
    spec
}

pub fn with_index(mut spec: AlterSpec, name: &str, columns: &[u16]) -> AlterSpec {
    let part = |&column| Part { column, prefix: None, descending: false };
    let (parts, name) = (columns.iter().map(part).collect(), name.into());
    spec.schema.indexes.push(Index { tree: 0, name, unique: false, clustering: false, parts });
    spec.index_from.push(None);
    spec.storage.push(IndexDef { page_bytes: 4096, ..IndexDef::plain() });
    spec.pages.push(Pages::default());
    spec
}

/// Rows of a table: `a`, `s`, the row id.
pub struct Load {
    pub rows: BTreeMap<u64, (i32, String, u64)>,
    pub rng: Rng,
}

impl Load {
    fn new(seed: u64) -> Load {
        Load { rows: BTreeMap::new(), rng: Rng(seed) }
    }

    /// A table without a primary key and without unique indexes, or one whose primary key is `id`, with some rows.
    pub fn create(engine: &Engine, hidden: bool, seed: u64, rows: u32) -> (Load, Typed) {
        let mut schema = typed::schema(hidden);
        schema.indexes.truncate(3);
        let mut t = Typed::bind(engine.create_table(typed::spec("t", &schema)).unwrap());
        let mut load = Load::new(seed);
        load.fill(engine, &mut t, rows);
        (load, t)
    }

    pub fn fill(&mut self, engine: &Engine, t: &mut Typed, n: u32) {
        let mut txn = begin(engine);
        (0..n).for_each(|_| self.insert(t, &mut txn));
        txn.commit().unwrap();
    }

    pub fn insert(&mut self, t: &mut Typed, txn: &mut Transaction) {
        let (a, s) = (self.rng.below(1_000) as i32, format!("s{}", self.rng.below(50)));
        let (written, id, row_id) = t.insert(txn, a, &s);
        assert_eq!(written, Written::Done);
        self.rows.insert(id, (a, s, row_id));
    }

    fn some(&mut self) -> Option<u64> {
        let at = self.rng.below(1 + self.rows.keys().next_back().copied().unwrap_or(0));
        self.rows.range(at..).next().map(|(id, _)| *id)
    }

    /// Row `id` becomes `to`.
    pub fn update(&mut self, t: &mut Typed, txn: &mut Transaction, id: u64, to: (u64, i32, &str)) {
        let (a, s, row_id) = self.rows.remove(&id).unwrap();
        let (old, new) = (t.record(id, a, &s), t.record(to.0, to.1, to.2));
        let row = |record| RowInput { record, blobs: &NoBlobs, row_id };
        let written = t.rows.update(txn, &row(&old), &row(&new), WriteFlags::default()).unwrap();
        assert_eq!(written, Written::Done);
        self.rows.insert(to.0, (to.1, to.2.to_owned(), row_id));
    }

    pub fn delete(&mut self, t: &mut Typed, txn: &mut Transaction, id: u64) {
        let (a, s, row_id) = self.rows.remove(&id).unwrap();
        let record = t.record(id, a, &s);
        let row = RowInput { record: &record, blobs: &NoBlobs, row_id };
        t.rows.delete(txn, &row, WriteFlags::default()).unwrap();
    }

    /// Gives a row the id that another one had.
    fn inherit(&mut self, t: &mut Typed, txn: &mut Transaction) {
        let (Some(x), Some(y)) = (self.some(), self.some()) else { return };
        self.delete(t, txn, x);
        if x != y {
            let (a, s, _) = self.rows[&y].clone();
            self.update(t, txn, y, (x, a, &s));
        }
    }

    pub fn change(&mut self, engine: &Engine, t: &mut Typed) {
        let mut txn = begin(engine);
        for _ in 0..self.rng.below(20) {
            match self.rng.below(6) {
                0 | 1 => self.insert(t, &mut txn),
                2 | 3 => {
                    let Some(id) = self.some() else { continue };
                    let (a, s) = (self.rng.below(1_000) as i32, self.rows[&id].1.clone());
                    self.update(t, &mut txn, id, (id, a, &s));
                }
                4 => self.inherit(t, &mut txn),
                _ => {
                    let Some(id) = self.some() else { continue };
                    self.delete(t, &mut txn, id);
                }
            }
        }
        txn.commit().unwrap();
    }

    /// What is done and then undone, to a savepoint or as a whole.
    fn undo(&mut self, engine: &Engine, t: &mut Typed, all: bool) {
        let before = self.clone_rows();
        let mut txn = begin(engine);
        let savepoint = txn.savepoint();
        for _ in 0..5 {
            self.inherit(t, &mut txn);
            self.insert(t, &mut txn);
        }
        if let Some(id) = self.some() {
            twin(t, &mut txn, id);
        }
        self.rows = before;
        if all {
            return txn.rollback();
        }
        txn.rollback_to(savepoint);
        self.insert(t, &mut txn);
        txn.commit().unwrap();
    }

    pub fn clone_rows(&self) -> BTreeMap<u64, (i32, String, u64)> {
        self.rows.clone()
    }

    /// The table and its indexes are consistent, and have these rows.
    pub fn verify(&self, engine: &Engine) -> Typed {
        let table = engine.open_table("t").unwrap();
        let t = checked(engine, &table);
        let mut txn = begin(engine);
        let mut scan = Scan::open(&mut txn, &t.rows, 0, None).unwrap();
        let mut record = t.record(0, 0, "");
        let mut found = BTreeMap::new();
        let hooks = &mut Hooks(NoBlobs);
        let mut at = scan.first(&mut txn, &mut record, hooks).unwrap();
        while at == Fetched::Row {
            let offset = |n: usize| t.offset(n);
            let id = u64::from_le_bytes(record[offset(0)..][..8].try_into().unwrap());
            let a = i32::from_le_bytes(record[offset(1)..][..4].try_into().unwrap());
            let s = &record[offset(2) + 1..][..usize::from(record[offset(2)])];
            found.insert(id, (a, String::from_utf8(s.to_vec()).unwrap()));
            at = scan.next(&mut txn, &mut record, hooks).unwrap();
        }
        let rows = self.rows.iter().map(|(id, (a, s, _))| (*id, (*a, s.clone())));
        assert_eq!(found, rows.collect());
        assert_eq!(table.rows(), self.rows.len() as u64);
        drop(txn);
        t
    }
}

/// Another row with that `id`; of a table without a primary key.
pub fn twin(t: &mut Typed, txn: &mut Transaction, id: u64) -> (Vec<u8>, u64) {
    let (record, row_id) = (t.record(id, 7, "twin"), t.table().next_row_id());
    let row = RowInput { record: &record, blobs: &NoBlobs, row_id };
    let written = t.rows.insert(txn, &row, WriteFlags::default()).unwrap();
    assert_eq!(written, Written::Done);
    (record, row_id)
}

pub fn delete_twin(t: &mut Typed, txn: &mut Transaction, (record, row_id): &(Vec<u8>, u64)) {
    let row = RowInput { record, blobs: &NoBlobs, row_id: *row_id };
    t.rows.delete(txn, &row, WriteFlags::default()).unwrap();
}

pub fn build(alter: &mut Alter, t: &Typed) -> Option<Violation> {
    let reader = Typed::bind(t.table().clone());
    alter.build(&reader.rows, &mut |_, _| true).unwrap()
}

pub fn primary_of(engine: &Engine) -> Vec<u16> {
    let schema = schema_of(&engine.open_table("t").unwrap());
    schema.indexes[0].parts.iter().map(|part| part.column).collect()
}

/// Nothing is left of a hidden table.
pub fn assert_alone(engine: &Engine) {
    assert_eq!(engine.tables().len(), 1);
    let files = |name: &str| engine.status().iter().find(|(n, _)| *n == name).map(|(_, n)| *n);
    assert_eq!(files("tables"), Some(1));
}

#[test]
fn a_primary_key_is_built_while_rows_change() {
    for seed in 0..30 {
        let vfs = memory();
        let engine = open(&vfs);
        let hidden = seed % 2 == 0;
        let (mut load, mut t) = Load::create(&engine, hidden, seed, 900);
        for _ in 0..load.rng.below(8) {
            load.fill(&engine, &mut t, 900);
            if load.rng.below(2) == 0 {
                engine.flush_all().unwrap();
            }
        }
        let table = t.table().clone();
        let columns: &[u16] = if hidden { &[0] } else { &[2, 0] };
        let spec = with_primary(&table, columns);
        let spec = with_index(without_index(spec, "by_a"), "new_a", &[1, 2]);
        let mut alter = engine.alter_table(&table, spec).unwrap();
        assert!(alter.builds());
        load.change(&engine, &mut t);
        let reader = Typed::bind(table.clone());
        let found = alter.build(&reader.rows, &mut |_, _| {
            load.change(&engine, &mut t);
            if hidden {
                let all = load.rng.below(2) == 0;
                load.undo(&engine, &mut t, all);
            }
            for _ in 0..load.rng.below(5) {
                engine.background_step();
            }
            true
        });
        assert_eq!(found.unwrap(), None);
        load.change(&engine, &mut t);
        let next = table.auto_increment();
        assert_eq!(alter.commit().unwrap(), None);
        assert!(table.is_dropped());
        drop((t, reader, table));
        assert_eq!(primary_of(&engine), columns);
        let mut t = load.verify(&engine);
        assert_eq!(
            (t.table().auto_increment(), &t.table().def().meta[..]),
            (next, &b"altered"[..])
        );
        assert_alone(&engine);
        load.change(&engine, &mut t);
        load.verify(&engine);
        let crashed = copy(&vfs);
        while engine.background_step() {}
        engine.flush_all().unwrap();
        load.verify(&engine);
        drop((t, engine));
        for vfs in [crashed, vfs] {
            let engine = open(&vfs);
            let mut t = load.verify(&engine);
            assert_eq!(primary_of(&engine), columns);
            assert!(t.table().auto_increment() >= next);
            let last = t.table().def().indexes.last().unwrap().state;
            assert_eq!(last, IndexState::Dropped, "the notes");
            let before = load.clone_rows();
            load.change(&engine, &mut t);
            load.verify(&engine);
            load.rows = before;
        }
    }
}

#[test]
fn a_snapshot_from_before_the_build_does_not_read_the_table() {
    let engine = open(&memory());
    let (mut load, mut t) = Load::create(&engine, true, 1, 100);
    let mut old = begin(&engine);
    old.snapshot();
    load.fill(&engine, &mut t, 100);
    let table = t.table().clone();
    let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
    load.fill(&engine, &mut t, 50);
    let during = load.clone_rows();
    let mut reader = begin(&engine);
    reader.snapshot();
    load.fill(&engine, &mut t, 100);
    assert_eq!(build(&mut alter, &t), None);
    alter.commit().unwrap();
    let t = load.verify(&engine);
    let error = Scan::open(&mut old, &t.rows, 0, None).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TableChanged);
    assert_eq!(scan(&engine, &mut reader, t.table()).len(), during.len());
    while engine.background_step() {}
    engine.flush_all().unwrap();
    assert_eq!(scan(&engine, &mut reader, t.table()).len(), during.len());
}

#[test]
fn transactions_larger_than_memory_write_the_new_table_too() {
    let options = Options { transaction_bytes: 64 << 10, ..small() };
    let vfs = memory();
    let engine = Engine::open(Arc::new(vfs.clone()), options.clone()).unwrap();
    let (mut load, mut t) = Load::create(&engine, true, 9, 3_000);
    for columns in [&[0][..], &[2, 0]] {
        let table = t.table().clone();
        let mut alter = engine.alter_table(&table, with_primary(&table, columns)).unwrap();
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
        let mut large = begin(&engine);
        (0..1_500).for_each(|_| load.insert(&mut t, &mut large));
        let (savepoint, before) = (large.savepoint(), load.clone_rows());
        (0..1_500).for_each(|_| load.insert(&mut t, &mut large));
        large.rollback_to(savepoint);
        load.rows = before;
        (0..1_500).for_each(|_| load.inherit(&mut t, &mut large));
        large.commit().unwrap();
        assert_eq!(alter.commit().unwrap(), None);
        t = load.verify(&engine);
    }
    assert!(number(&engine, "spilled_commits") > 2);
    let crashed = copy(&vfs);
    engine.flush_all().unwrap();
    load.verify(&engine);
    load.verify(&Engine::open(Arc::new(crashed), options).unwrap());
}

/// A unique index that the table has already.
#[test]
fn an_index_becomes_the_primary_key() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "t", true);
    let mut load = Load { rows: BTreeMap::new(), rng: Rng(5) };
    load.fill(&engine, &mut t, 2_000);
    let table = t.table().clone();
    let mut spec = without_index(with_primary(&table, &[0]), "by_id");
    spec.index_from[0] = Some(3);
    let mut alter = engine.alter_table(&table, spec).unwrap();
    let reader = Typed::bind(table.clone());
    let found = alter.build(&reader.rows, &mut |_, _| {
        load.change(&engine, &mut t);
        engine.background_step();
        true
    });
    assert_eq!(found.unwrap(), None);
    load.change(&engine, &mut t);
    assert_eq!(alter.commit().unwrap(), None);
    let mut t = load.verify(&engine);
    load.change(&engine, &mut t);
    load.verify(&engine);
    load.verify(&open(&copy(&vfs)));
}

/// A load of an empty table would write to private runs what the new table would never see.
#[test]
fn a_table_without_rows_is_not_loaded_meanwhile() {
    let options = Options { transaction_bytes: 64 << 10, ..small() };
    let engine = Engine::open(Arc::new(memory()), options).unwrap();
    let (mut load, mut t) = Load::create(&engine, true, 1, 0);
    let table = t.table().clone();
    let mut alter = engine.alter_table(&table, with_primary(&table, &[0])).unwrap();
    load.fill(&engine, &mut t, 3_000);
    assert_eq!(build(&mut alter, &t), None);
    load.fill(&engine, &mut t, 300);
    assert_eq!(alter.commit().unwrap(), None);
    assert_eq!(number(&engine, "loads"), 0);
    let mut t = load.verify(&engine);
    load.change(&engine, &mut t);
    load.verify(&engine);
}

/// FORCE: the same keys, and nothing of what was deleted.
#[test]
fn a_table_is_made_anew_with_the_same_keys() {
    for (seed, hidden) in [(1, true), (2, false)] {
        let vfs = memory();
        let engine = open(&vfs);
        let (mut load, mut t) = Load::create(&engine, hidden, seed, 5_000);
        engine.flush_all().unwrap();
        let table = t.table().clone();
        let mut spec = same(&table);
        spec.index_from[0] = None;
        let mut alter = engine.alter_table(&table, spec).unwrap();
        let reader = Typed::bind(table.clone());
        let found = alter.build(&reader.rows, &mut |_, _| {
            load.change(&engine, &mut t);
            engine.background_step();
            true
        });
        assert_eq!(found.unwrap(), None);
        load.change(&engine, &mut t);
        let next = table.next_row_id();
        assert_eq!(alter.commit().unwrap(), None);
        let mut t = load.verify(&engine);
        assert_eq!(t.table().def().indexes.len(), 3, "no notes");
        assert!(!hidden || t.table().next_row_id() > next);
        load.change(&engine, &mut t);
        load.verify(&engine);
        load.verify(&open(&copy(&vfs)));
    }
}
