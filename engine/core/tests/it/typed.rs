//! A table with typed rows: `(id BIGINT AUTO_INCREMENT, a INT, s VARCHAR(20))`, with or without `id` as its
//! primary key, indexes on `a` and `(s, a)`, and one on `id` where it is not the primary key.

use std::sync::Arc;

use frond_engine::rows::{Rows, WriteFlags, Written};
use frond_engine::{Engine, IndexDef, Table, TableSpec, Transaction};
use frond_row::{
    Column, ColumnType, Index, NoBlobs, Part, PlainSortKeys, RecordLayout, RowInput, Schema, Sort,
};

pub const A: usize = 1;
pub const S: usize = 2;

pub fn schema(hidden_primary: bool) -> Schema {
    let int = ColumnType::Int { unsigned: false };
    let mut columns = vec![
        Column::new("id", int, 8),
        Column::new("a", int, 4),
        Column::new("s", ColumnType::VarChar { length_bytes: 1 }, 21),
    ];
    for (n, column) in columns.iter_mut().enumerate() {
        column.id = n as u32;
    }
    columns[2].charset = 46;
    columns[2].sort = Sort::BinaryPadSpace;
    let index = |tree: u16, name: &str, unique, parts: &[u16]| Index {
        tree,
        name: name.into(),
        unique,
        clustering: false,
        parts: parts
            .iter()
            .map(|&column| Part { column, prefix: None, descending: false })
            .collect(),
    };
    let primary: &[u16] = if hidden_primary { &[] } else { &[0] };
    let mut indexes = vec![
        index(0, "PRIMARY", true, primary),
        index(1, "by_a", false, &[1]),
        index(2, "by_s", false, &[2, 1]),
    ];
    if hidden_primary {
        indexes.push(index(3, "by_id", true, &[0]));
    }
    Schema { version: 1, columns, indexes, hidden_primary, auto_increment: Some(0) }
}

pub fn spec(name: &str, schema: &Schema) -> TableSpec {
    let mut bytes = Vec::new();
    schema.encode(&mut bytes);
    TableSpec {
        name: name.into(),
        indexes: vec![IndexDef { page_bytes: 4096, ..IndexDef::plain() }; schema.indexes.len()],
        schema: bytes,
        meta: Vec::new(),
        auto_increment: 1,
    }
}

/// A binding, and how a record looks.
pub struct Typed {
    pub rows: Rows,
    layout: RecordLayout,
}

impl Typed {
    pub fn create(engine: &Engine, name: &str, hidden_primary: bool) -> Typed {
        Typed::bind(engine.create_table(spec(name, &schema(hidden_primary))).unwrap())
    }

    /// The index that begins with `id` is descending.
    pub fn create_descending(engine: &Engine, name: &str, hidden_primary: bool) -> Typed {
        let mut schema = schema(hidden_primary);
        let leads = |i: &&mut Index| i.parts.first().is_some_and(|p| p.column == 0);
        schema.indexes.iter_mut().find(leads).unwrap().parts[0].descending = true;
        Typed::bind(engine.create_table(spec(name, &schema)).unwrap())
    }

    /// With an index `by_v` on a column that the server computes.
    pub fn create_computed(engine: &Engine, name: &str) -> Typed {
        let mut schema = schema(false);
        let mut v = Column::new("v", ColumnType::Int { unsigned: false }, 4);
        (v.id, v.stored) = (3, false);
        schema.columns.push(v);
        let parts = vec![Part { column: 3, prefix: None, descending: false }];
        schema.indexes.push(Index {
            tree: 3,
            name: "by_v".into(),
            unique: false,
            clustering: false,
            parts,
        });
        Typed::bind(engine.create_table(spec(name, &schema)).unwrap())
    }

    pub fn bind(table: Arc<Table>) -> Typed {
        let schema = Schema::decode(&table.def().schema, "t").unwrap();
        let layout = RecordLayout::compact(&schema);
        let rows = Rows::bind(table, layout.clone(), Arc::new(PlainSortKeys)).unwrap();
        Typed { rows, layout }
    }

    pub fn table(&self) -> &Arc<Table> {
        self.rows.table()
    }

    /// Where column `n` is in a record.
    pub fn offset(&self, n: usize) -> usize {
        self.layout.columns[n].offset as usize
    }

    pub fn record(&self, id: u64, a: i32, s: &str) -> Vec<u8> {
        let mut record = vec![0; self.layout.record_bytes as usize];
        let at = |n: usize| self.layout.columns[n].offset as usize;
        record[at(0)..at(0) + 8].copy_from_slice(&id.to_le_bytes());
        record[at(A)..at(A) + 4].copy_from_slice(&a.to_le_bytes());
        record[at(S)] = s.len() as u8;
        record[at(S) + 1..at(S) + 1 + s.len()].copy_from_slice(s.as_bytes());
        record
    }

    /// Inserts a row with the next id, which is also the next row id of a table without a primary key.
    pub fn insert(&mut self, txn: &mut Transaction, a: i32, s: &str) -> (Written, u64, u64) {
        let (id, _) = self.table().reserve_auto_increment(1, 1, 1).unwrap();
        let hidden = self.rows.codec().schema().hidden_primary;
        let row_id = if hidden { self.table().next_row_id() } else { 0 };
        let record = self.record(id, a, s);
        let row = RowInput { record: &record, blobs: &NoBlobs, row_id };
        (self.rows.insert(txn, &row, WriteFlags::default()).unwrap(), id, row_id)
    }

    pub fn update(&mut self, txn: &mut Transaction, old: (u64, i32, &str), new: (u64, i32, &str)) {
        let (old, new) = (self.record(old.0, old.1, old.2), self.record(new.0, new.1, new.2));
        let row = |record| RowInput { record, blobs: &NoBlobs, row_id: 0 };
        let written = self.rows.update(txn, &row(&old), &row(&new), WriteFlags::default()).unwrap();
        assert_eq!(written, Written::Done);
    }
}
