//! Foreign keys: checks, actions, locks, definitions, recovery. Tables have columns of nullable BIGINTs; the
//! first is the primary key, each other one has an index.

use std::sync::Arc;
use std::time::Duration;

use frond_engine::rows::{Rows, WriteFlags, Written};
use frond_engine::{
    Action, Engine, ErrorKind, Foreign, ForeignState, IndexDef, Isolation, NewForeigns,
    RenameForeigns, Result, TableSpec, Transaction, TxnOptions,
};
use frond_row::{
    Column, ColumnType, Index, NoBlobs, Part, PlainSortKeys, RecordLayout, RowInput, Schema,
};

use crate::support::*;

pub type Row<'a> = &'a [Option<i64>];

pub fn schema(columns: &[&str], unique: bool, descending: bool) -> Schema {
    let column = |(n, name): (usize, &&str)| Column {
        id: n as u32,
        nullable: n > 0,
        ..Column::new(name, ColumnType::Int { unsigned: false }, 8)
    };
    let index = |n: usize| Index {
        tree: n as u16,
        name: if n == 0 { "PRIMARY".into() } else { format!("by_{}", columns[n]) },
        unique: n == 0 || unique,
        clustering: false,
        parts: vec![Part { column: n as u16, prefix: None, descending: n > 0 && descending }],
    };
    Schema {
        version: 1,
        columns: columns.iter().enumerate().map(column).collect(),
        indexes: (0..columns.len()).map(index).collect(),
        hidden_primary: false,
        auto_increment: None,
    }
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

pub fn foreign(
    child: (&str, &str),
    parent: (&str, &str),
    on_delete: Action,
    on_update: Action,
) -> Foreign {
    Foreign {
        name: format!("{}_{}", child.0, child.1),
        table: child.0.into(),
        parent: parent.0.into(),
        columns: vec![child.1.into()],
        parent_columns: vec![parent.1.into()],
        on_delete,
        on_update,
        state: ForeignState::Active,
    }
}

pub fn child(engine: &Engine, schema: &Schema, foreigns: Vec<Foreign>) -> Result<()> {
    let name = foreigns[0].table.clone();
    let new = NewForeigns { foreigns, ..NewForeigns::default() };
    engine.create_child(spec(&name, schema), new).map(drop)
}

/// A table `p(id, a)` and its child `c(id, p, x)` whose `p` is `p.id`.
pub fn family(engine: &Engine, on_delete: Action, on_update: Action) {
    engine.create_table(spec("p", &schema(&["id", "a"], false, false))).unwrap();
    let f = foreign(("c", "p"), ("p", "id"), on_delete, on_update);
    child(engine, &schema(&["id", "p", "x"], false, true), vec![f]).unwrap();
}

pub struct Bound {
    pub rows: Rows,
    pub layout: RecordLayout,
}

impl Bound {
    pub fn new(engine: &Engine, table: &str) -> Bound {
        let table = engine.open_table(table).unwrap();
        let schema = Schema::decode(&table.def().schema, "t").unwrap();
        let layout = RecordLayout::compact(&schema);
        let rows = Rows::bind(table, layout.clone(), Arc::new(PlainSortKeys)).unwrap();
        Bound { rows, layout }
    }

    fn record(&self, row: Row<'_>) -> Vec<u8> {
        let mut record = vec![0; self.layout.record_bytes as usize];
        for (place, value) in self.layout.columns.iter().zip(row) {
            let at = place.offset as usize;
            record[at..at + 8].copy_from_slice(&value.unwrap_or(0).to_le_bytes());
            if let (Some((byte, mask)), None) = (place.null, value) {
                record[byte as usize] |= mask;
            }
        }
        record
    }

    pub fn insert(&mut self, txn: &mut Transaction, row: Row<'_>) -> Result<Written> {
        let record = self.record(row);
        self.rows.insert(txn, &input(&record), WriteFlags::default())
    }

    pub fn update(&mut self, txn: &mut Transaction, old: Row<'_>, new: Row<'_>) -> Result<Written> {
        let (old, new) = (self.record(old), self.record(new));
        self.rows.update(txn, &input(&old), &input(&new), WriteFlags::default())
    }

    pub fn delete(&mut self, txn: &mut Transaction, row: Row<'_>) -> Result<()> {
        let record = self.record(row);
        self.rows.delete(txn, &input(&record), WriteFlags::default())
    }
}

fn input(record: &[u8]) -> RowInput<'_> {
    RowInput { record, blobs: &NoBlobs, row_id: 0 }
}

pub fn insert(engine: &Engine, table: &str, rows: &[Row<'_>]) {
    let mut txn = begin(engine);
    let mut bound = Bound::new(engine, table);
    for row in rows {
        assert_eq!(bound.insert(&mut txn, row).unwrap(), Written::Done);
    }
    txn.commit().unwrap();
}

/// All rows, as `txn` sees them; checks that every index has as many entries.
fn rows_in(engine: &Engine, txn: &mut Transaction, table: &str) -> Vec<Vec<Option<i64>>> {
    let open = engine.open_table(table).unwrap();
    let bound = Bound::new(engine, table);
    let codec = bound.rows.codec();
    let all = codec.project(0, |_| true);
    let mut found = Vec::new();
    for index in 0..codec.schema().indexes.len() {
        let mut cursor = engine.cursor(txn, &open, codec.schema().indexes[index].tree).unwrap();
        let mut entries = 0;
        let mut valid = cursor.first(txn).unwrap();
        while valid {
            entries += 1;
            if index == 0 {
                let mut record = vec![0; bound.layout.record_bytes as usize];
                codec
                    .decode(&all, cursor.key(), cursor.value(), &mut record, &mut NoBlobs)
                    .unwrap();
                let value = |place: &frond_row::ColumnPlace| {
                    let at = place.offset as usize;
                    let null =
                        place.null.is_some_and(|(byte, mask)| record[byte as usize] & mask != 0);
                    (!null).then(|| i64::from_le_bytes(record[at..at + 8].try_into().unwrap()))
                };
                found.push(bound.layout.columns.iter().map(value).collect());
            }
            valid = cursor.next(txn).unwrap();
        }
        assert_eq!(entries, found.len(), "entries of index {index} of {table}");
    }
    found
}

pub fn rows(engine: &Engine, table: &str) -> Vec<Vec<Option<i64>>> {
    rows_in(engine, &mut begin(engine), table)
}

pub fn kind<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.unwrap_err().kind()
}

#[test]
fn a_child_needs_its_parent_unless_a_value_is_null() {
    let engine = open(&memory());
    family(&engine, Action::Restrict, Action::Restrict);
    insert(&engine, "p", &[&[Some(1), None]]);
    let mut c = Bound::new(&engine, "c");
    let mut txn = begin(&engine);
    c.insert(&mut txn, &[Some(10), Some(1), None]).unwrap();
    c.insert(&mut txn, &[Some(11), None, None]).unwrap();
    let e = c.insert(&mut txn, &[Some(12), Some(2), None]).unwrap_err();
    assert_eq!((e.kind(), e.constraint()), (ErrorKind::NoParent, Some(("c", "c_p"))));
    let old: Row<'_> = &[Some(10), Some(1), None];
    assert_eq!(kind(c.update(&mut txn, old, &[Some(10), Some(3), None])), ErrorKind::NoParent);
    c.update(&mut txn, old, &[Some(10), Some(1), Some(5)]).unwrap();
    // A parent of the same transaction will do.
    Bound::new(&engine, "p").insert(&mut txn, &[Some(2), None]).unwrap();
    c.insert(&mut txn, &[Some(12), Some(2), None]).unwrap();
    txn.commit().unwrap();
    assert_eq!(rows(&engine, "c").len(), 3);
}

#[test]
fn a_parent_with_children_stays_where_the_constraint_restricts() {
    let engine = open(&memory());
    family(&engine, Action::Restrict, Action::NoAction);
    insert(&engine, "p", &[&[Some(1), None], &[Some(2), None]]);
    insert(&engine, "c", &[&[Some(10), Some(1), None]]);
    let mut p = Bound::new(&engine, "p");
    let mut txn = begin(&engine);
    let e = p.delete(&mut txn, &[Some(1), None]).unwrap_err();
    assert_eq!((e.kind(), e.constraint()), (ErrorKind::Referenced, Some(("c", "c_p"))));
    assert_eq!(kind(p.update(&mut txn, &[Some(1), None], &[Some(3), None])), ErrorKind::Referenced);
    // Other columns may change, and a row without children may go; what was refused left nothing.
    p.update(&mut txn, &[Some(1), None], &[Some(1), Some(7)]).unwrap();
    p.delete(&mut txn, &[Some(2), None]).unwrap();
    Bound::new(&engine, "c").delete(&mut txn, &[Some(10), Some(1), None]).unwrap();
    p.delete(&mut txn, &[Some(1), Some(7)]).unwrap();
    assert!(rows_in(&engine, &mut txn, "p").is_empty());
    txn.commit().unwrap();
}

#[test]
fn cascades_delete_update_and_set_null() {
    let engine = open(&memory());
    family(&engine, Action::Cascade, Action::Cascade);
    // A grandchild that loses its parent's name, and one that follows it.
    let f = foreign(("g", "c"), ("c", "id"), Action::SetNull, Action::Restrict);
    child(&engine, &schema(&["id", "c"], false, false), vec![f]).unwrap();
    let f = foreign(("h", "p"), ("c", "p"), Action::Cascade, Action::Cascade);
    child(&engine, &schema(&["id", "p"], false, false), vec![f]).unwrap();
    insert(&engine, "p", &[&[Some(1), None], &[Some(2), None]]);
    insert(&engine, "c", &[&[Some(10), Some(1), None], &[Some(11), Some(1), None]]);
    insert(&engine, "c", &[&[Some(12), Some(2), None]]);
    insert(&engine, "g", &[&[Some(100), Some(10)], &[Some(101), Some(12)]]);
    insert(&engine, "h", &[&[Some(200), Some(1)], &[Some(201), Some(2)]]);
    let mut p = Bound::new(&engine, "p");
    let mut txn = begin(&engine);
    p.update(&mut txn, &[Some(1), None], &[Some(5), None]).unwrap();
    assert_eq!(rows_in(&engine, &mut txn, "c")[1], [Some(11), Some(5), None]);
    assert_eq!(rows_in(&engine, &mut txn, "h")[0], [Some(200), Some(5)]);
    p.delete(&mut txn, &[Some(5), None]).unwrap();
    assert_eq!(rows_in(&engine, &mut txn, "c"), [[Some(12), Some(2), None]]);
    assert_eq!(rows_in(&engine, &mut txn, "g"), [[Some(100), None], [Some(101), Some(12)]]);
    assert_eq!(rows_in(&engine, &mut txn, "h"), [[Some(201), Some(2)]]);
    txn.commit().unwrap();
    assert_eq!(engine.open_table("c").unwrap().statistics().rows, 1);
}

#[test]
fn a_cascade_that_fails_far_down_takes_everything_back() {
    let engine = open(&memory());
    family(&engine, Action::Cascade, Action::Cascade);
    let f = foreign(("g", "c"), ("c", "id"), Action::Restrict, Action::Restrict);
    child(&engine, &schema(&["id", "c"], false, false), vec![f]).unwrap();
    insert(&engine, "p", &[&[Some(1), None]]);
    let children: Vec<[Option<i64>; 3]> = (0..20).map(|n| [Some(n), Some(1), None]).collect();
    insert(&engine, "c", &children.iter().map(|c| c.as_slice()).collect::<Vec<_>>());
    insert(&engine, "g", &[&[Some(100), Some(15)]]);
    let mut txn = begin(&engine);
    let e = Bound::new(&engine, "p").delete(&mut txn, &[Some(1), None]).unwrap_err();
    assert_eq!(e.constraint(), Some(("g", "g_c")));
    assert_eq!(rows_in(&engine, &mut txn, "c").len(), 20);
    txn.commit().unwrap();
    assert_eq!((rows(&engine, "p").len(), rows(&engine, "c").len()), (1, 20));
}

#[test]
fn a_table_may_be_its_own_parent() {
    let engine = open(&memory());
    let f = foreign(("t", "up"), ("t", "id"), Action::Cascade, Action::Cascade);
    child(&engine, &schema(&["id", "up"], false, false), vec![f]).unwrap();
    let mut t = Bound::new(&engine, "t");
    let mut txn = begin(&engine);
    t.insert(&mut txn, &[Some(1), Some(1)]).unwrap();
    assert_eq!(kind(t.insert(&mut txn, &[Some(2), Some(3)])), ErrorKind::NoParent);
    for n in 2..=15 {
        t.insert(&mut txn, &[Some(n), Some(n - 1)]).unwrap();
    }
    // It would be its own child's child: an update that might not end.
    let moved = t.update(&mut txn, &[Some(1), Some(1)], &[Some(99), Some(99)]);
    assert_eq!(kind(moved), ErrorKind::Referenced);
    // A row may not give its own key away and keep its name as parent.
    let lost = t.update(&mut txn, &[Some(15), Some(14)], &[Some(77), Some(15)]);
    assert_eq!(kind(lost), ErrorKind::NoParent);
    t.delete(&mut txn, &[Some(1), Some(1)]).unwrap();
    assert!(rows_in(&engine, &mut txn, "t").is_empty());
    for n in 1..=16 {
        t.insert(&mut txn, &[Some(n), Some(1.max(n - 1))]).unwrap();
    }
    assert_eq!(kind(t.delete(&mut txn, &[Some(1), Some(1)])), ErrorKind::CascadeTooDeep);
    assert_eq!(rows_in(&engine, &mut txn, "t").len(), 16);
}

#[test]
fn a_cascade_into_a_unique_index_is_refused_when_it_makes_a_duplicate() {
    let engine = open(&memory());
    engine.create_table(spec("p", &schema(&["id", "a"], false, false))).unwrap();
    let f = foreign(("c", "a"), ("p", "a"), Action::Restrict, Action::Cascade);
    child(&engine, &schema(&["id", "a"], true, false), vec![f]).unwrap();
    // `a` is not unique in the parent: two rows may be the one that is meant.
    insert(&engine, "p", &[&[Some(1), Some(7)], &[Some(2), Some(7)], &[Some(3), Some(8)]]);
    insert(&engine, "c", &[&[Some(10), Some(7)], &[Some(11), Some(8)]]);
    let mut txn = begin(&engine);
    let mut p = Bound::new(&engine, "p");
    let e = p.update(&mut txn, &[Some(1), Some(7)], &[Some(1), Some(8)]).unwrap_err();
    assert_eq!((e.kind(), e.constraint()), (ErrorKind::CascadeDuplicate, Some(("c", "by_a"))));
    p.update(&mut txn, &[Some(1), Some(7)], &[Some(1), Some(9)]).unwrap();
    assert_eq!(rows_in(&engine, &mut txn, "c")[0], [Some(10), Some(9)]);
    assert_eq!(kind(p.delete(&mut txn, &[Some(1), Some(9)])), ErrorKind::Referenced);
}

/// The newest versions count, and the locks stay to the end: at each isolation, whoever comes first.
#[test]
fn child_and_parent_wait_for_each_other_and_no_row_dangles() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        let engine = open(&memory());
        family(&engine, Action::Restrict, Action::Restrict);
        insert(&engine, "p", &[&[Some(1), None], &[Some(2), None]]);
        let lock_timeout = Duration::ZERO;
        let options = TxnOptions { isolation, lock_timeout, latest_writes: false };
        let (mut c, mut p) = (Bound::new(&engine, "c"), Bound::new(&engine, "p"));
        let (mut a, mut b) = (engine.begin(options), engine.begin(options));
        b.snapshot();
        c.insert(&mut a, &[Some(10), Some(1), None]).unwrap();
        assert_eq!(kind(p.delete(&mut b, &[Some(1), None])), ErrorKind::LockNoWait);
        a.commit().unwrap();
        // Not in b's snapshot.
        assert_eq!(kind(p.delete(&mut b, &[Some(1), None])), ErrorKind::Referenced);
        p.delete(&mut b, &[Some(2), None]).unwrap();
        let mut a = engine.begin(options);
        a.snapshot();
        let late: Row<'_> = &[Some(11), Some(2), None];
        assert_eq!(kind(c.insert(&mut a, late)), ErrorKind::LockNoWait);
        b.commit().unwrap();
        // a's snapshot still has the parent.
        assert_eq!(rows_in(&engine, &mut a, "p").len(), 2);
        assert_eq!(kind(c.insert(&mut a, late)), ErrorKind::NoParent);
        a.end_statement();
        // A parent that was committed after the snapshot counts.
        insert(&engine, "p", &[&[Some(3), None]]);
        c.insert(&mut a, &[Some(12), Some(3), None]).unwrap();
        a.commit().unwrap();
    }
}

/// A child of one table and parent of another, by an index in which its row moves back and forth.
#[test]
fn a_row_that_moves_in_its_index_is_found() {
    let engine = open(&memory());
    engine.create_table(spec("p", &schema(&["id", "a"], false, false))).unwrap();
    let of = |child, parent| foreign(child, parent, Action::Restrict, Action::Restrict);
    let mut moving = schema(&["id", "k", "x"], false, false);
    moving.indexes[1].parts.push(Part { column: 2, prefix: None, descending: false });
    child(&engine, &moving, vec![of(("m", "k"), ("p", "id"))]).unwrap();
    let leaf = schema(&["id", "k"], false, false);
    child(&engine, &leaf, vec![of(("l", "k"), ("m", "k"))]).unwrap();
    insert(&engine, "p", &[&[Some(1), None]]);
    insert(&engine, "m", &[&[Some(1), Some(1), Some(0)]]);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut m = Bound::new(&engine, "m");
            let mut x = 0;
            while !is_over.load(order) {
                let mut txn = read_committed(&engine);
                let row = |x| [Some(1), Some(1), Some(x)];
                // It locks the parent, whose deletion may be waiting for this row.
                match m.update(&mut txn, &row(x), &row(9 - x)) {
                    Err(e) if e.kind() == ErrorKind::Deadlock => continue,
                    done => assert_eq!(done.unwrap(), Written::Done),
                }
                txn.commit().unwrap();
                x = 9 - x;
            }
        });
        let (mut p, mut l) = (Bound::new(&engine, "p"), Bound::new(&engine, "l"));
        let mut met = Vec::new();
        for _ in 0..20_000 {
            let mut txn = read_committed(&engine);
            met.push(p.delete(&mut txn, &[Some(1), None]).err().map(|e| e.kind()));
            drop(txn);
            let mut txn = read_committed(&engine);
            met.push(l.insert(&mut txn, &[Some(1), Some(1)]).err().map(|e| e.kind()));
        }
        is_over.store(true, order);
        let wrong = met.chunks(2).filter(|pair| *pair != [Some(ErrorKind::Referenced), None]);
        assert_eq!(wrong.count(), 0);
    });
}

#[test]
fn definitions_that_do_not_fit_are_refused() {
    let engine = open(&memory());
    engine.create_table(spec("p", &schema(&["id", "a"], false, false))).unwrap();
    let plain = schema(&["id", "p"], false, false);
    let to = |parent: (&str, &str)| foreign(("c", "p"), parent, Action::Restrict, Action::Restrict);
    let refused = |schema: &Schema, f: Foreign| {
        assert_eq!(kind(child(&engine, schema, vec![f])), ErrorKind::BadForeignKey);
        assert!(!engine.table_exists("c") && engine.foreigns("c").0.is_empty());
    };
    refused(&plain, to(("missing", "id")));
    refused(&plain, to(("p", "missing")));
    refused(&plain, foreign(("c", "q"), ("p", "id"), Action::Restrict, Action::Restrict));
    let mut narrow = plain.clone();
    narrow.columns[1].bytes = 4;
    refused(&narrow, to(("p", "id")));
    let mut bare = plain.clone();
    bare.indexes.pop();
    refused(&bare, to(("p", "id")));
    let mut strict = plain.clone();
    strict.columns[1].nullable = false;
    refused(&strict, foreign(("c", "p"), ("p", "id"), Action::SetNull, Action::Restrict));
    child(&engine, &plain, vec![to(("p", "id"))]).unwrap();
    let twice = Foreign { table: "d".into(), ..to(("p", "id")) };
    assert_eq!(kind(child(&engine, &plain, vec![twice])), ErrorKind::DuplicateKey);
}

#[test]
fn constraints_follow_renames_and_outlive_a_missing_parent() {
    let vfs = memory();
    let engine = open(&vfs);
    family(&engine, Action::Cascade, Action::Restrict);
    assert_eq!(kind(engine.drop_table("p")), ErrorKind::Referenced);
    engine.rename_table("p", "q").unwrap();
    engine.rename_table("c", "d").unwrap();
    let mut renamed = schema(&["id", "q", "x"], false, true);
    let mut bytes = Vec::new();
    renamed.indexes[1].name = "by_q".into();
    renamed.encode(&mut bytes);
    engine.set_schema("d", bytes, Vec::new()).unwrap();
    drop(engine);
    let engine = open(&vfs);
    let (of, _) = engine.foreigns("d");
    assert_eq!((of[0].parent.as_str(), of[0].columns[0].as_str()), ("q", "q"));
    insert(&engine, "q", &[&[Some(1), None]]);
    insert(&engine, "d", &[&[Some(10), Some(1), None]]);
    // A copy of the parent takes its place.
    engine.create_table(spec("copy", &schema(&["id", "a"], false, false))).unwrap();
    let keep = |f: &Foreign| f.name.clone();
    engine.rename_child("q", "old", &RenameForeigns::Aside, &keep).unwrap();
    let place = RenameForeigns::InPlace { instead_of: None };
    engine.rename_child("copy", "q", &place, &keep).unwrap();
    engine.drop_parent("old", &|_| true).unwrap();
    let mut txn = begin(&engine);
    let mut d = Bound::new(&engine, "d");
    assert_eq!(kind(d.insert(&mut txn, &[Some(11), Some(1), None])), ErrorKind::NoParent);
    drop(txn);
    engine.drop_parent("q", &|_| true).unwrap();
    let mut txn = begin(&engine);
    assert_eq!(kind(d.insert(&mut txn, &[Some(11), Some(1), None])), ErrorKind::NoParent);
    d.insert(&mut txn, &[Some(11), None, None]).unwrap();
    txn.commit().unwrap();
    // Only a table that fits can become the parent.
    let mut other = schema(&["id", "a"], false, false);
    other.columns[0].bytes = 4;
    assert_eq!(kind(engine.create_table(spec("q", &other))), ErrorKind::BadForeignKey);
    engine.create_table(spec("q", &schema(&["id", "a"], false, false))).unwrap();
    insert(&engine, "q", &[&[Some(2), None]]);
    insert(&engine, "d", &[&[Some(12), Some(2), None]]);
    drop(engine);
    let engine = open(&vfs);
    let mut txn = begin(&engine);
    Bound::new(&engine, "q").delete(&mut txn, &[Some(2), None]).unwrap();
    txn.commit().unwrap();
    assert_eq!(rows(&engine, "d").len(), 2);
    engine.drop_foreign("d", "c_p").unwrap();
    assert_eq!(kind(engine.drop_foreign("d", "c_p")), ErrorKind::NotFound);
    engine.drop_table("q").unwrap();
    insert(&engine, "d", &[&[Some(13), Some(99), None]]);
}

/// As with `foreign_key_checks=0`: a dump may create a parent first and its index later.
#[test]
fn a_parent_that_comes_later_may_fit_later() {
    let vfs = memory();
    let engine = open(&vfs);
    let lenient = || NewForeigns { parents_may_miss: true, ..NewForeigns::default() };
    let f = foreign(("c", "p"), ("p", "id"), Action::Cascade, Action::Restrict);
    let new = NewForeigns { foreigns: vec![f.clone()], ..lenient() };
    let plain = schema(&["id", "p"], false, false);
    engine.create_child(spec("c", &plain), new).unwrap();
    let mut narrow = schema(&["id", "a"], false, false);
    narrow.columns[0].bytes = 4;
    let refused = engine.create_child(spec("p", &narrow), NewForeigns::default());
    assert_eq!(kind(refused.map(drop)), ErrorKind::BadForeignKey);
    engine.create_child(spec("p", &narrow), lenient()).unwrap();
    drop(engine);
    let engine = open(&vfs);
    let mut txn = begin(&engine);
    let mut c = Bound::new(&engine, "c");
    assert_eq!(kind(c.insert(&mut txn, &[Some(1), Some(1)])), ErrorKind::NoParent);
    c.insert(&mut txn, &[Some(2), None]).unwrap();
    txn.commit().unwrap();
    // A child that comes to such a parent does not fit it, and a copy of one that did not fit may come.
    let twin = Foreign { table: "d".into(), name: "d_p".into(), ..f.clone() };
    let new = NewForeigns { foreigns: vec![twin], ..lenient() };
    let refused = engine.create_child(spec("d", &plain), new);
    assert_eq!(kind(refused.map(drop)), ErrorKind::BadForeignKey);
    let copied = Foreign { table: "copy".into(), state: ForeignState::Waiting, ..f };
    let replaces = Some("c".to_owned());
    let copy = NewForeigns { foreigns: vec![copied], replaces, parents_may_miss: false };
    engine.create_child(spec("copy", &plain), copy).unwrap();
    engine.drop_table("copy").unwrap();
    // Not so a constraint that comes with the copy, though it waits, too.
    let mut new = foreign(("copy", "p"), ("p", "id"), Action::Restrict, Action::Restrict);
    new.state = ForeignState::Waiting;
    let replaces = Some("c".to_owned());
    let copy = NewForeigns { foreigns: vec![new], replaces, parents_may_miss: true };
    let refused = engine.create_child(spec("copy", &plain), copy);
    assert_eq!(kind(refused.map(drop)), ErrorKind::BadForeignKey);
    // The copy of the parent that fits takes its place.
    let to = NewForeigns { replaces: Some("p".into()), ..NewForeigns::default() };
    engine.create_child(spec("fits", &schema(&["id", "a"], false, false)), to).unwrap();
    let keep = |f: &Foreign| f.name.clone();
    engine.rename_child("p", "old", &RenameForeigns::Aside, &keep).unwrap();
    let place = RenameForeigns::InPlace { instead_of: None };
    engine.rename_child("fits", "p", &place, &keep).unwrap();
    insert(&engine, "p", &[&[Some(1), None]]);
    insert(&engine, "c", &[&[Some(1), Some(1)]]);
    let mut txn = begin(&engine);
    Bound::new(&engine, "p").delete(&mut txn, &[Some(1), None]).unwrap();
    txn.commit().unwrap();
    assert_eq!(rows(&engine, "c"), [vec![Some(2), None]]);
}

#[test]
fn a_copy_that_adds_a_constraint_is_checked_and_guards_its_parents() {
    let engine = open(&memory());
    engine.create_table(spec("p", &schema(&["id", "a"], false, false))).unwrap();
    engine.create_table(spec("c", &schema(&["id", "p"], false, false))).unwrap();
    insert(&engine, "p", &[&[Some(1), None], &[Some(2), None]]);
    let mut f = foreign(("copy", "p"), ("p", "id"), Action::Cascade, Action::Cascade);
    f.state = ForeignState::Adding;
    let new = NewForeigns { foreigns: vec![f], replaces: Some("c".into()), ..Default::default() };
    engine.create_child(spec("copy", &schema(&["id", "p"], false, false)), new).unwrap();
    let mut copy = Bound::new(&engine, "copy");
    let mut txn = read_committed(&engine);
    let (good, bad) = (copy.record(&[Some(10), Some(1)]), copy.record(&[Some(11), Some(3)]));
    let flags = WriteFlags { no_locks: true, ..WriteFlags::default() };
    copy.rows.insert(&mut txn, &input(&good), flags).unwrap();
    let outcome = copy.rows.insert(&mut txn, &input(&bad), flags);
    assert_eq!(kind(outcome), ErrorKind::NoParent);
    txn.commit().unwrap();
    let mut txn = begin(&engine);
    let mut p = Bound::new(&engine, "p");
    assert_eq!(kind(p.delete(&mut txn, &[Some(1), None])), ErrorKind::Referenced);
    p.delete(&mut txn, &[Some(2), None]).unwrap();
    txn.commit().unwrap();
    let keep = |f: &Foreign| f.name.clone();
    engine.rename_child("c", "old", &RenameForeigns::Aside, &keep).unwrap();
    let place = RenameForeigns::InPlace { instead_of: None };
    engine.rename_child("copy", "c", &place, &keep).unwrap();
    assert_eq!(engine.foreigns("c").0[0].state, ForeignState::Active);
    let mut txn = begin(&engine);
    p.delete(&mut txn, &[Some(1), None]).unwrap();
    txn.commit().unwrap();
    assert!(rows(&engine, "c").is_empty());
}

#[test]
fn a_prepared_child_guards_its_parent_after_a_restart() {
    let vfs = memory();
    let engine = open(&vfs);
    family(&engine, Action::Cascade, Action::Restrict);
    insert(&engine, "p", &[&[Some(1), None], &[Some(2), None]]);
    let xid = frond_engine::Xid::new(1, b"child", b"").unwrap();
    let mut txn = begin(&engine);
    Bound::new(&engine, "c").insert(&mut txn, &[Some(10), Some(1), None]).unwrap();
    drop(txn.prepare(xid.clone()).unwrap());
    drop(engine);
    let engine = open(&vfs);
    let options = TxnOptions { lock_timeout: Duration::ZERO, ..TxnOptions::default() };
    let mut txn = engine.begin(options);
    let mut p = Bound::new(&engine, "p");
    assert_eq!(kind(p.delete(&mut txn, &[Some(1), None])), ErrorKind::LockNoWait);
    p.delete(&mut txn, &[Some(2), None]).unwrap();
    // Another child of that parent may come.
    Bound::new(&engine, "c").insert(&mut txn, &[Some(11), Some(1), None]).unwrap();
    txn.commit().unwrap();
    assert!(engine.commit_prepared(&xid).unwrap());
    assert_eq!(rows(&engine, "c").len(), 2);
}

#[test]
fn checks_can_be_turned_off_for_a_write() {
    let engine = open(&memory());
    family(&engine, Action::Cascade, Action::Cascade);
    insert(&engine, "p", &[&[Some(1), None]]);
    insert(&engine, "c", &[&[Some(10), Some(1), None]]);
    let off = WriteFlags { skip_foreign: true, ..WriteFlags::default() };
    let mut txn = begin(&engine);
    let (mut c, mut p) = (Bound::new(&engine, "c"), Bound::new(&engine, "p"));
    let orphan = c.record(&[Some(11), Some(9), None]);
    c.rows.insert(&mut txn, &input(&orphan), off).unwrap();
    let parent = p.record(&[Some(1), None]);
    p.rows.delete(&mut txn, &input(&parent), off).unwrap();
    txn.commit().unwrap();
    assert_eq!(rows(&engine, "c").len(), 2);
}
