//! Columns that come, go, move and grow without a copy: rows of all older schemas are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use frond_base::ErrorKind;
use frond_engine::rows::{Rows, WriteFlags, Written};
use frond_engine::{AlterSpec, Engine, Table};
use frond_row::{
    Column, ColumnType, Entries, NoBlobs, PlainSortKeys, RecordLayout, RowInput, Schema,
};

use crate::alter::{checked, same, schema_of, with};
use crate::support::*;
use crate::typed::{Typed, A};

/// One value of a row, as the record has it: `None` is NULL.
type Value = Option<Vec<u8>>;
/// What a change of columns makes of a row.
type Change = Box<dyn Fn(&mut Vec<Value>)>;

/// A table of any columns.
struct Wide {
    rows: Rows,
    layout: RecordLayout,
    schema: Schema,
}

impl Wide {
    fn bind(table: Arc<Table>) -> Wide {
        let schema = schema_of(&table);
        let layout = RecordLayout::compact(&schema);
        let rows = Rows::bind(table, layout.clone(), Arc::new(PlainSortKeys)).unwrap();
        Wide { rows, layout, schema }
    }

    fn record(&self, values: &[Value]) -> Vec<u8> {
        let mut record = vec![0; self.layout.record_bytes as usize];
        for ((place, column), value) in
            self.layout.columns.iter().zip(&self.schema.columns).zip(values)
        {
            let at = place.offset as usize;
            match (value, column.ty, place.null) {
                (None, _, Some((byte, bit))) => record[byte as usize] |= bit,
                (Some(v), ColumnType::VarChar { length_bytes }, _) => {
                    let n = usize::from(length_bytes);
                    record[at..at + n].copy_from_slice(&v.len().to_le_bytes()[..n]);
                    record[at + n..at + n + v.len()].copy_from_slice(v);
                }
                (Some(v), ..) => record[at..at + v.len()].copy_from_slice(v),
                (None, ..) => panic!("NULL in '{}'", column.name),
            }
        }
        record
    }

    fn values(&self, record: &[u8]) -> Vec<Value> {
        let columns = self.layout.columns.iter().zip(&self.schema.columns);
        let value = |(place, c): (&frond_row::ColumnPlace, &Column)| {
            if place.null.is_some_and(|(byte, bit)| record[byte as usize] & bit != 0) {
                return None;
            }
            let image = &record[place.offset as usize..][..c.bytes as usize];
            Some(match c.ty {
                ColumnType::VarChar { length_bytes: 1 } => {
                    image[1..][..usize::from(image[0])].to_vec()
                }
                ColumnType::VarChar { .. } => {
                    let n = u16::from_le_bytes([image[0], image[1]]);
                    image[2..][..usize::from(n)].to_vec()
                }
                _ => image.to_vec(),
            })
        };
        columns.map(value).collect()
    }

    /// Some random changes of rows, in the table and in the model. `id`: the last one given out.
    fn change(
        &mut self,
        engine: &Engine,
        rng: &mut Rng,
        model: &mut BTreeMap<u64, Vec<Value>>,
        id: &mut u64,
    ) {
        let mut txn = begin(engine);
        for _ in 0..rng.below(30) {
            let change = rng.below(4);
            let known: Vec<u64> = model.keys().copied().collect();
            let old = (change > 0 && !known.is_empty())
                .then(|| known[rng.below(known.len() as u64) as usize]);
            let key = old.unwrap_or(*id + 1);
            let value = |c: &Column, rng: &mut Rng| match (c.id, c.ty) {
                (0, _) => Some(key.to_le_bytes().to_vec()),
                _ if c.nullable && rng.below(3) == 0 => None,
                (_, ColumnType::VarChar { .. }) => {
                    let n = rng.below(u64::from(c.bytes.min(60)) - 1) as usize;
                    Some(vec![b'a' + rng.below(3) as u8; n])
                }
                _ => Some(rng.next().to_le_bytes()[..c.bytes as usize].to_vec()),
            };
            let new: Vec<Value> = self.schema.columns.iter().map(|c| value(c, rng)).collect();
            let record = self.record(&new);
            let row = RowInput { record: &record, blobs: &NoBlobs, row_id: 0 };
            let flags = WriteFlags::default();
            let Some(key) = old else {
                *id += 1;
                assert_eq!(self.rows.insert(&mut txn, &row, flags).unwrap(), Written::Done);
                model.insert(*id, new);
                continue;
            };
            let was = self.record(&model[&key]);
            let was = RowInput { record: &was, blobs: &NoBlobs, row_id: 0 };
            if change == 1 {
                self.rows.delete(&mut txn, &was, flags).unwrap();
                model.remove(&key);
            } else {
                let written = self.rows.update(&mut txn, &was, &row, flags).unwrap();
                assert_eq!(written, Written::Done);
                model.insert(key, new);
            }
        }
        txn.commit().unwrap();
    }

    fn all(&self, engine: &Engine) -> Vec<Vec<Value>> {
        let mut txn = begin(engine);
        let (mut found, mut entries) = (Vec::new(), Entries::new());
        let codec = self.rows.codec();
        let projection = codec.project(0, |_| true);
        let table = self.rows.table();
        let mut cursor = engine.cursor(&mut txn, table, 0).unwrap();
        let mut valid = cursor.first(&txn).unwrap();
        while valid {
            let mut record = vec![0; self.layout.record_bytes as usize];
            let mut blobs = frond_row::OwnedBlobs::default();
            codec
                .decode(&projection, cursor.key(), cursor.value(), &mut record, &mut blobs)
                .unwrap();
            // Two versions of a row are the same if they are as the newest schema writes them.
            let row = RowInput { record: &record, blobs: &blobs, row_id: 0 };
            codec.encode_indexes(&row, 1, &mut entries).unwrap();
            let mut renewed = cursor.value().to_vec();
            codec.renewer(0).unwrap().renew(cursor.value(), &mut renewed);
            assert_eq!((entries.key(0), entries.value(0)), (cursor.key(), &renewed[..]));
            found.push(self.values(&record));
            valid = cursor.next(&txn).unwrap();
        }
        found
    }
}

/// Columns come, go, move, grow and may be NULL, also together with an index that is built while rows change (ALT5); rows of all ages read the same as if they had been copied. Versions that
/// no row has any more are forgotten meanwhile (RVN1): after a restart nobody knows them.
#[test]
fn rows_of_all_older_schemas_are_read() {
    let (mut forgotten, mut built) = (0, 0);
    for seed in 0..25 {
        let mut rng = Rng(seed);
        let vfs = memory();
        let mut engine = open(&vfs);
        drop(Typed::create(&engine, "t", false));
        let mut table = engine.open_table("t").unwrap();
        // By id, in the order of the columns.
        let mut model: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
        let (mut id, mut named) = (0u64, 0);
        for round in 0..30 {
            Wide::bind(table.clone()).change(&engine, &mut rng, &mut model, &mut id);
            if rng.below(4) == 0 {
                engine.flush_all().unwrap();
            }
            let build = rng.below(2) == 0;
            let during = build.then_some(&mut id);
            built += alter_columns(&engine, &table, &mut rng, &mut model, &mut named, during);
            if round == 3 {
                add_clustering(&engine, &table);
            }
            let w = Wide::bind(table.clone());
            assert_eq!(
                w.all(&engine),
                model.values().cloned().collect::<Vec<_>>(),
                "{seed} {round}"
            );
            checked(&engine, &table);
            forgotten += usize::from(table.def().history.len() + 1 < w.schema.version as usize);
            if round % 10 == 9 {
                drop((w, table, engine));
                engine = open(&vfs);
                table = engine.open_table("t").unwrap();
            }
        }
    }
    assert!(forgotten > 50, "versions were forgotten in {forgotten} rounds");
    assert!(built > 25, "{built} indexes were built with a column that was added");
}

/// An index of the column `id` that has the rows, too: `checked` compares it with them.
fn add_clustering(engine: &Engine, table: &Arc<Table>) {
    let mut spec = with(same(table), "k", false, &[0]);
    spec.schema.indexes[1].clustering = true;
    let mut alter = engine.alter_table(table, spec).unwrap();
    let t = Wide::bind(table.clone());
    assert_eq!(alter.build(&t.rows, &mut |_, _| true).unwrap(), None);
    assert_eq!(alter.commit().unwrap(), None);
}

/// A thousand changes: rows of all ages are right.
#[test]
fn a_table_may_live_through_a_thousand_changes() {
    let mut rng = Rng(4);
    let vfs = memory();
    let mut engine = open(&vfs);
    drop(Typed::create(&engine, "t", false));
    let mut table = engine.open_table("t").unwrap();
    let mut model: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    let (mut named, mut most) = (0, 0);
    for round in 0..1000u64 {
        if round % 3 == 0 {
            let mut w = Wide::bind(table.clone());
            let value = |c: &Column| match (c.id, c.ty) {
                (0, _) => Some(round.to_le_bytes().to_vec()),
                (_, ColumnType::VarChar { .. }) => Some(vec![b'x'; round as usize % 9]),
                _ => Some((round << 8).to_le_bytes()[..c.bytes as usize].to_vec()),
            };
            let new: Vec<Value> = w.schema.columns.iter().map(value).collect();
            let record = w.record(&new);
            let row = RowInput { record: &record, blobs: &NoBlobs, row_id: 0 };
            let mut txn = begin(&engine);
            w.rows.insert(&mut txn, &row, WriteFlags::default()).unwrap();
            txn.commit().unwrap();
            model.insert(round, new);
        }
        alter_columns(&engine, &table, &mut rng, &mut model, &mut named, None);
        if round == 100 {
            add_clustering(&engine, &table);
        }
        if round % 40 == 0 {
            engine.flush_all().unwrap();
        }
        if round % 400 == 399 {
            drop(table);
            drop(engine);
            engine = open(&vfs);
            table = engine.open_table("t").unwrap();
        }
        most = most.max(table.def().history.len());
        if round % 100 == 99 {
            let rows: Vec<Vec<Value>> = model.values().cloned().collect();
            assert_eq!(Wide::bind(table.clone()).all(&engine), rows, "{round}");
            checked(&engine, &table);
        }
    }
    let version = schema_of(&table).version;
    assert!(version > 500 && most > 64, "{most} versions at one time, {version} in all");
    let rows: Vec<Vec<Value>> = model.into_values().collect();
    drop(table);
    drop(engine);
    let engine = open(&vfs);
    let table = engine.open_table("t").unwrap();
    assert_eq!(Wide::bind(table.clone()).all(&engine), rows);
    checked(&engine, &table);
}

/// One random change of the columns, in the table and in the model; with `id` (see `change`) maybe an index that is built at the same
/// time. Returns how many were, on a column that is added.
fn alter_columns(
    engine: &Engine,
    table: &Arc<Table>,
    rng: &mut Rng,
    model: &mut BTreeMap<u64, Vec<Value>>,
    named: &mut u32,
    id: Option<&mut u64>,
) -> usize {
    let mut spec = same(table);
    let indexed = |at: usize, s: &Schema| {
        s.indexes.iter().flat_map(|i| &i.parts).any(|p| usize::from(p.column) == at)
    };
    let columns = &spec.schema.columns;
    let n = columns.len();
    // Behind the column `id`; `a` and `s` have indexes.
    let at = 1 + rng.below(n as u64) as usize;
    let is_free = |i: &usize| columns[*i].id > 2 && !indexed(*i, &spec.schema);
    let free = (0..n).filter(is_free).collect::<Vec<_>>();
    let columns = &mut spec.schema.columns;
    let one = (!free.is_empty()).then(|| free[rng.below(free.len() as u64) as usize]);
    let moved = |spec: &mut AlterSpec, map: &dyn Fn(u16) -> u16| {
        for part in spec.schema.indexes.iter_mut().flat_map(|i| &mut i.parts) {
            part.column = map(part.column);
        }
        spec.schema.auto_increment = spec.schema.auto_increment.map(map);
    };
    let change: Change = match (rng.below(5), one) {
        (0 | 1, _) if n < 12 => {
            *named += 1;
            let name = format!("c{named}");
            let mut new = match rng.below(2) {
                0 => Column::new(&name, ColumnType::Int { unsigned: true }, 2),
                _ => Column::new(&name, ColumnType::VarChar { length_bytes: 1 }, 21),
            };
            new.nullable = rng.below(2) == 0;
            let value = match (new.nullable && rng.below(2) == 0, new.ty) {
                (true, _) => None,
                (_, ColumnType::Int { .. }) => Some(vec![7, *named as u8]),
                _ => Some(name.as_bytes().to_vec()),
            };
            if let Some(value) = &value {
                new.default = frond_row::DefaultValue::Bytes(value.clone());
            }
            columns.insert(at, new);
            spec.column_from.insert(at, None);
            moved(&mut spec, &|c| c + u16::from(usize::from(c) >= at));
            Box::new(move |row| row.insert(at, value.clone()))
        }
        (2, Some(gone)) => {
            columns.remove(gone);
            spec.column_from.remove(gone);
            moved(&mut spec, &|c| c - u16::from(usize::from(c) > gone));
            Box::new(move |row| drop(row.remove(gone)))
        }
        (3, Some(from)) => {
            let to = 1 + rng.below(n as u64 - 1) as usize;
            let column = columns.remove(from);
            columns.insert(to, column);
            let source = spec.column_from.remove(from);
            spec.column_from.insert(to, source);
            let order: Vec<usize> = spec.column_from.iter().map(|c| c.unwrap()).collect();
            moved(&mut spec, &|c| order.iter().position(|o| *o == usize::from(c)).unwrap() as u16);
            Box::new(move |row| {
                let value = row.remove(from);
                row.insert(to, value);
            })
        }
        (_, Some(n)) => {
            let column = &mut columns[n];
            column.nullable = true;
            match column.ty {
                ColumnType::VarChar { .. } => {
                    (column.ty, column.bytes) = (ColumnType::VarChar { length_bytes: 2 }, 400);
                    Box::new(|_| ())
                }
                // Unsigned, and then signed, so that values stay as they are.
                _ if column.bytes < 8 => {
                    (column.ty, column.bytes) = (ColumnType::Int { unsigned: false }, 8);
                    Box::new(move |row| row[n].iter_mut().for_each(|v| v.resize(8, 0)))
                }
                _ => Box::new(|_| ()),
            }
        }
        _ => Box::new(|_| ()),
    };
    let added = spec.column_from.iter().position(Option::is_none);
    let mut old = Wide::bind(table.clone());
    if id.is_some() && spec.schema.indexes.len() < 7 {
        let a = spec.schema.columns.iter().position(|c| c.id == 1).unwrap();
        let mut parts: Vec<u16> = added.into_iter().chain([a]).map(|at| at as u16).collect();
        let at = rng.below(parts.len() as u64) as usize;
        parts.rotate_left(at);
        spec = with(spec, &format!("x{}", table.def().indexes.len()), false, &parts);
    }
    let mut alter = engine.alter_table(table, spec).unwrap();
    let builds = alter.builds();
    if let Some(id) = id.filter(|_| builds) {
        old.change(engine, rng, model, id);
        let new = Wide::bind(table.clone());
        assert_eq!(alter.build(&new.rows, &mut |_, _| true).unwrap(), None);
        old.change(engine, rng, model, id);
        Wide::bind(table.clone()).change(engine, rng, model, id);
    }
    assert_eq!(alter.commit().unwrap(), None);
    model.values_mut().for_each(change);
    usize::from(builds && added.is_some())
}

#[test]
fn changes_that_rows_or_keys_do_not_bear_are_refused() {
    let engine = open(&memory());
    let t = Typed::create(&engine, "t", false);
    let table = t.table().clone();
    let refused = |spec| engine.alter_table(&table, spec).map(drop).unwrap_err().kind();
    // Another type; an indexed column that may be NULL now; no primary key any more.
    let mut spec = same(&table);
    spec.schema.columns[A].bytes = 8;
    assert_eq!(refused(spec), ErrorKind::Unsupported);
    let mut spec = same(&table);
    spec.schema.columns[A].nullable = true;
    assert_eq!(refused(spec), ErrorKind::Unsupported);
    let mut spec = same(&table);
    spec.index_from[0] = None;
    spec.schema.indexes[0].parts.clear();
    spec.schema.hidden_primary = true;
    assert_eq!(refused(spec), ErrorKind::Unsupported);
    // An index that is built has rows, or a column whose keys change with it.
    let mut spec = with(same(&table), "k", false, &[0]);
    spec.schema.indexes[1].clustering = true;
    spec.schema.columns.swap(A, 2);
    spec.column_from.swap(A, 2);
    for part in spec.schema.indexes.iter_mut().flat_map(|i| &mut i.parts) {
        part.column = [0, 2, 1][usize::from(part.column)];
    }
    assert_eq!(refused(spec), ErrorKind::Unsupported);
    // Parts of an index that change.
    let mut spec = same(&table);
    spec.schema.indexes[1].parts[0].descending = true;
    assert_eq!(refused(spec), ErrorKind::Unsupported);
    assert_eq!(table.def().encode()[0], 1, "nothing was written");
}
