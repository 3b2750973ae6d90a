//! Columns, indexes and foreign keys that come in one change; see also `alter_columns.rs`, whose random changes have both.

use frond_base::ErrorKind;
use frond_engine::{Action, AddedForeigns};
use frond_row::DefaultValue;

use crate::alter::{same, with};
use crate::alter_foreign::{check, with_column};
use crate::foreign::{child, family, foreign, insert, kind, rows, schema, Bound};
use crate::support::*;

/// A column comes with an index and a foreign key of it; the table's rows and its parents change meanwhile, also by cascades (AF6).
#[test]
fn a_foreign_key_comes_with_its_column() {
    let engine = open(&memory());
    family(&engine, Action::Cascade, Action::Cascade);
    let parents: Vec<[Option<i64>; 2]> = (1..50).map(|id| [Some(id), None]).collect();
    insert(&engine, "p", &parents.iter().map(|p| &p[..]).collect::<Vec<_>>());
    let children: Vec<_> = (0..300).map(|id| [Some(id), Some(1 + id % 49), Some(id % 7)]).collect();
    insert(&engine, "c", &children.iter().map(|c| &c[..]).collect::<Vec<_>>());
    let table = engine.open_table("c").unwrap();
    let with_all = |default: DefaultValue| {
        let mut spec = with(with_column(same(&table), "q"), "by_q", false, &[0]);
        spec.schema.columns[0].default = default;
        spec = with(spec, "by_pq", false, &[2, 0]);
        let key = foreign(("c", "q"), ("p", "id"), Action::Cascade, Action::Cascade);
        spec.foreigns_new = AddedForeigns { foreigns: vec![key], unchecked: false };
        spec
    };
    let one = with_all(DefaultValue::Bytes(1i64.to_le_bytes().to_vec()));
    assert_eq!(kind(engine.check_alter(&table, &one)), ErrorKind::Unsupported);
    let spec = with_all(DefaultValue::Empty);
    engine.check_alter(&table, &spec).unwrap();
    let (mut c, mut p, mut id) = (Bound::new(&engine, "c"), Bound::new(&engine, "p"), 1);
    let mut change = |more: i64| {
        let mut txn = begin(&engine);
        p.delete(&mut txn, &[Some(id), None]).unwrap();
        p.update(&mut txn, &[Some(id + 1), None], &[Some(id + 1000), None]).unwrap();
        c.insert(&mut txn, &[Some(more), Some(id + 1000), Some(3)]).unwrap();
        assert_eq!(kind(c.insert(&mut txn, &[Some(-1), Some(id), Some(3)])), ErrorKind::NoParent);
        txn.commit().unwrap();
        id += 2;
    };
    change(1000);
    let mut alter = engine.alter_table(&table, spec).unwrap();
    change(1001);
    let reader = Bound::new(&engine, "c");
    let mut more = 1001;
    let built = alter.build(&reader.rows, &mut |_, _| {
        more += 1;
        if more < 1010 {
            change(more);
        }
        true
    });
    assert_eq!(built.unwrap(), None);
    change(1020);
    assert_eq!(alter.commit().unwrap(), None);
    check(&engine, "c");
    let (mut c, mut p, mut txn) =
        (Bound::new(&engine, "c"), Bound::new(&engine, "p"), begin(&engine));
    let row = |q: i64| [Some(q), Some(5000), Some(49), Some(0)];
    assert_eq!(kind(c.insert(&mut txn, &row(7777))), ErrorKind::NoParent);
    c.insert(&mut txn, &row(48)).unwrap();
    p.delete(&mut txn, &[Some(48), None]).unwrap();
    txn.commit().unwrap();
    assert!(rows(&engine, "c").iter().all(|row| row[0].is_none()), "the cascade took the row");
    check(&engine, "c");
}

/// The rows that a cascade changes are of the table itself, whose writers have more columns than its rows.
#[test]
fn cascades_of_a_table_to_itself_write_entries_of_added_columns() {
    for action in [Action::Cascade, Action::SetNull] {
        let engine = open(&memory());
        let boss = foreign(("t", "boss"), ("t", "id"), action, Action::Restrict);
        child(&engine, &schema(&["id", "boss"], false, false), vec![boss]).unwrap();
        insert(&engine, "t", &[&[Some(1), None], &[Some(2), Some(1)], &[Some(3), Some(2)]]);
        insert(&engine, "t", &[&[Some(4), None], &[Some(5), Some(4)], &[Some(6), None]]);
        let table = engine.open_table("t").unwrap();
        let mut spec = with(with_column(same(&table), "m"), "by_m", false, &[0]);
        let m = &mut spec.schema.columns[0];
        (m.nullable, m.default) = (false, DefaultValue::Bytes(7i64.to_le_bytes().to_vec()));
        spec = with(spec, "by_mb", false, &[0, 2]);
        let mut t = Bound::new(&engine, "t");
        let mut delete = |id| {
            let mut txn = begin(&engine);
            t.delete(&mut txn, &[Some(id), None]).unwrap();
            txn.commit().unwrap();
        };
        let mut alter = engine.alter_table(&table, spec).unwrap();
        delete(1);
        let reader = Bound::new(&engine, "t");
        assert_eq!(alter.build(&reader.rows, &mut |_, _| true).unwrap(), None);
        delete(4);
        assert_eq!(alter.commit().unwrap(), None);
        check(&engine, "t");
        let left = if action == Action::Cascade { 1 } else { 4 };
        assert_eq!(rows(&engine, "t").len(), left);
    }
}
