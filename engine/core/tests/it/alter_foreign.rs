//! Definitions that change in place, of tables that have foreign keys: as children, as parents, as both.

use frond_base::ErrorKind;
use frond_engine::{
    Action, AddedForeigns, AlterSpec, CheckOutcome, Engine, ForeignState, Table, Xid,
};
use frond_row::{Column, ColumnType, Part};

use crate::alter::{same, schema_of, with, without};
use crate::durability::copy;
use crate::foreign::{child, family, foreign, insert, kind, rows, schema, spec, Bound, Row};
use crate::support::*;

/// Rows and indexes of `table` agree.
pub fn check(engine: &Engine, table: &str) {
    rows(engine, table);
    let mut outcome = CheckOutcome::default();
    Bound::new(engine, table).rows.check(engine, &mut outcome, &mut || false, None).unwrap();
    assert_eq!(outcome.problems, Vec::<String>::new());
}

fn alter(engine: &Engine, table: &Table, spec: AlterSpec) -> frond_engine::Result<()> {
    let table = engine.open_table(&table.def().name)?;
    engine.check_alter(&table, &spec)?;
    engine.alter_table(&table, spec)?.commit().map(|violation| assert_eq!(violation, None))
}

/// Without column `at`; the others move up.
fn without_column(mut spec: AlterSpec, at: u16) -> AlterSpec {
    spec.schema.columns.remove(usize::from(at));
    spec.column_from.remove(usize::from(at));
    for part in spec.schema.indexes.iter_mut().flat_map(|i| &mut i.parts) {
        part.column -= u16::from(part.column > at);
    }
    spec
}

/// With a new first column.
pub fn with_column(mut spec: AlterSpec, name: &str) -> AlterSpec {
    let column = Column::new(name, ColumnType::Int { unsigned: false }, 8);
    spec.schema.columns.insert(0, Column { nullable: true, ..column });
    spec.column_from.insert(0, None);
    for part in spec.schema.indexes.iter_mut().flat_map(|i| &mut i.parts) {
        part.column += 1;
    }
    spec
}

#[test]
fn cascades_reach_an_index_that_is_being_built() {
    for seed in 0..3 {
        let vfs = memory();
        let engine = open(&vfs);
        family(&engine, Action::Cascade, Action::Cascade);
        let mut rng = Rng(seed);
        let parents: Vec<[Option<i64>; 2]> = (0..120).map(|id| [Some(id), None]).collect();
        let mut keys: Vec<i64> = (0..120).collect();
        insert(&engine, "p", &parents.iter().map(|p| &p[..]).collect::<Vec<_>>());
        let of = |id: i64| [Some(id), Some(id % 120), Some(id % 7)];
        let children: Vec<_> = (0..1500).map(of).collect();
        insert(&engine, "c", &children.iter().map(|c| &c[..]).collect::<Vec<_>>());
        if seed % 2 == 0 {
            engine.flush_all().unwrap();
        }
        let table = engine.open_table("c").unwrap();
        // Opened, and its binding of the child used, before the index was there.
        let mut p = Bound::new(&engine, "p");
        let mut change = |n: u64, keys: &mut Vec<i64>| {
            for _ in 0..n {
                let mut txn = begin(&engine);
                let at = rng.below(keys.len() as u64) as usize;
                let old = keys[at];
                if rng.below(3) == 0 {
                    keys.remove(at);
                    p.delete(&mut txn, &[Some(old), None]).unwrap();
                } else {
                    keys[at] = old + 1000;
                    p.update(&mut txn, &[Some(old), None], &[Some(old + 1000), None]).unwrap();
                }
                txn.commit().unwrap();
            }
        };
        change(3, &mut keys);
        let unique = seed % 3 == 0;
        let spec = with(with(same(&table), "by_px", false, &[1, 2]), "by_pid", unique, &[1, 0]);
        let mut alter = engine.alter_table(&table, spec).unwrap();
        change(3, &mut keys);
        let reader = Bound::new(&engine, "c");
        let built = alter.build(&reader.rows, &mut |_, _| {
            change(2, &mut keys);
            engine.background_step();
            true
        });
        assert_eq!(built.unwrap(), None);
        change(3, &mut keys);
        assert_eq!(alter.commit().unwrap(), None);
        change(3, &mut keys);
        check(&engine, "c");
        let mut left: Vec<i64> = rows(&engine, "c").iter().map(|row| row[1].unwrap()).collect();
        left.sort_unstable();
        left.dedup();
        keys.sort_unstable();
        assert_eq!(left, keys);
    }
}

#[test]
fn children_are_not_looked_for_in_an_index_that_is_being_built() {
    let engine = open(&memory());
    let boss = foreign(("t", "boss"), ("t", "id"), Action::Restrict, Action::Restrict);
    child(&engine, &schema(&["id", "boss"], false, false), vec![boss]).unwrap();
    insert(&engine, "t", &[&[Some(1), None], &[Some(2), Some(1)], &[Some(3), None]]);
    let table = engine.open_table("t").unwrap();
    // A unique index would serve the foreign key better.
    let mut alter = engine.alter_table(&table, with(same(&table), "one", true, &[1])).unwrap();
    let mut t = Bound::new(&engine, "t");
    let mut txn = begin(&engine);
    assert_eq!(kind(t.delete(&mut txn, &[Some(1), None])), ErrorKind::Referenced);
    t.delete(&mut txn, &[Some(3), None]).unwrap();
    assert_eq!(kind(t.insert(&mut txn, &[Some(4), Some(9)])), ErrorKind::NoParent);
    txn.commit().unwrap();
    let reader = Bound::new(&engine, "t");
    assert_eq!(alter.build(&reader.rows, &mut |_, _| true).unwrap(), None);
    assert_eq!(alter.commit().unwrap(), None);
    let mut t = Bound::new(&engine, "t");
    let mut txn = begin(&engine);
    assert_eq!(kind(t.delete(&mut txn, &[Some(1), None])), ErrorKind::Referenced);
    // Now the old one can go.
    drop(txn);
    self::alter(&engine, &table, without(&table, "by_boss")).unwrap();
    let refused = self::alter(&engine, &table, without(&table, "one"));
    assert_eq!(kind(refused), ErrorKind::BadForeignKey);
    check(&engine, "t");
}

#[test]
fn columns_of_foreign_keys_move_and_are_renamed_but_do_not_go() {
    let vfs = memory();
    let engine = open(&vfs);
    family(&engine, Action::Restrict, Action::Cascade);
    insert(&engine, "p", &[&[Some(1), None], &[Some(2), None]]);
    insert(&engine, "c", &[&[Some(10), Some(1), None]]);
    let (p, c) = (engine.open_table("p").unwrap(), engine.open_table("c").unwrap());
    // Other sessions have both open.
    let mut old = Bound::new(&engine, "p");
    let refused = alter(&engine, &c, without_column(without(&c, "by_p"), 1));
    assert_eq!(kind(refused), ErrorKind::BadForeignKey);
    // A new column of the same name is another one.
    let mut again = with_column(without_column(without(&c, "by_p"), 1), "p");
    again.schema.indexes.truncate(1);
    again.index_from.truncate(1);
    again.storage.truncate(1);
    again.pages.truncate(1);
    assert_eq!(kind(alter(&engine, &c, again)), ErrorKind::BadForeignKey);

    let mut renamed = with_column(without_column(without(&c, "by_x"), 2), "first");
    renamed.schema.columns[2].name = "parent".into();
    alter(&engine, &c, renamed).unwrap();
    let mut renamed = with_column(same(&p), "first");
    renamed.schema.columns[1].name = "key".into();
    alter(&engine, &p, renamed).unwrap();
    let f = engine.foreigns("c").0[0].clone();
    assert_eq!((&f.columns[0][..], &f.parent_columns[0][..]), ("parent", "key"));
    assert_eq!(schema_of(&c).columns.len(), 3);

    let mut txn = begin(&engine);
    assert_eq!(kind(old.delete(&mut txn, &[Some(1), None])), ErrorKind::TableChanged);
    drop(txn);
    let crashed = copy(&vfs);
    drop((old, p, c, engine));
    for vfs in [vfs, crashed] {
        let engine = open(&vfs);
        let (mut p, mut c) = (Bound::new(&engine, "p"), Bound::new(&engine, "c"));
        let mut txn = begin(&engine);
        let row: Row<'_> = &[None, Some(11), Some(3)];
        let e = c.insert(&mut txn, row).unwrap_err();
        assert_eq!((e.kind(), e.constraint()), (ErrorKind::NoParent, Some(("c", "c_p"))));
        c.insert(&mut txn, &[None, Some(11), Some(2)]).unwrap();
        let e = p.delete(&mut txn, &[None, Some(1), None]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Referenced);
        p.update(&mut txn, &[None, Some(1), None], &[Some(7), Some(5), None]).unwrap();
        txn.commit().unwrap();
        assert_eq!(rows(&engine, "c")[0], [None, Some(10), Some(5)]);
        check(&engine, "c");
        // The constraint goes in the same change as what it needs.
        let table = engine.open_table("c").unwrap();
        let mut spec = without_column(without(&table, "by_p"), 2);
        spec.foreigns_gone = vec!["c_none".into()];
        assert_eq!(kind(alter(&engine, &table, spec)), ErrorKind::NotFound);
        let mut spec = without_column(without(&table, "by_p"), 2);
        spec.foreigns_gone = vec!["c_p".into()];
        alter(&engine, &table, spec).unwrap();
        assert!(engine.foreigns("c").0.is_empty() && engine.foreigns("p").1.is_empty());
    }
}

#[test]
fn changes_of_several_tables_are_made_together() {
    let vfs = memory();
    let engine = open(&vfs);
    for name in ["a", "b"] {
        engine.create_table(spec(name, &schema(&["id", "x"], false, false))).unwrap();
        insert(&engine, name, &[&[Some(1), Some(5)], &[Some(2), Some(6)]]);
    }
    insert(&engine, "b", &[&[Some(3), Some(6)]]);
    let tables = ["a", "b"].map(|name| engine.open_table(name).unwrap());
    let begin_all = |unique| {
        tables.each_ref().map(|table| {
            let spec = with(same(table), "new", unique, &[1]);
            engine.alter_table(table, spec).unwrap()
        })
    };
    let mut alters = begin_all(true);
    for (alter, name) in alters.iter_mut().zip(["a", "b"]) {
        let reader = Bound::new(&engine, name);
        let violation = alter.build(&reader.rows, &mut |_, _| true).unwrap();
        assert_eq!(violation.is_some(), name == "b");
    }
    assert_eq!(
        kind(frond_engine::Alter::commit_all(alters.into_iter().collect())),
        ErrorKind::InvalidArgument
    );
    let mut alters = begin_all(false);
    for (alter, name) in alters.iter_mut().zip(["a", "b"]) {
        let reader = Bound::new(&engine, name);
        assert_eq!(alter.build(&reader.rows, &mut |_, _| true).unwrap(), None);
    }
    let before = copy(&vfs);
    let committed = frond_engine::Alter::commit_all(alters.into_iter().collect());
    assert_eq!(committed.unwrap(), None);
    let after = copy(&vfs);
    for (vfs, indexes) in [(before, 2), (after, 3)] {
        let engine = open(&vfs);
        for name in ["a", "b"] {
            check(&engine, name);
            assert_eq!(schema_of(&engine.open_table(name).unwrap()).indexes.len(), indexes);
        }
    }
}

/// `p(id, a)` and `c(id, p, x)` with rows, `c` with an index on `p` or without, and the change that makes `p` the parent.
fn adding(engine: &Engine, indexed: bool, unchecked: bool) -> AlterSpec {
    engine.create_table(spec("p", &schema(&["id", "a"], false, false))).unwrap();
    engine.create_table(spec("c", &schema(&["id", "p", "x"], false, false))).unwrap();
    let table = engine.open_table("c").unwrap();
    if !indexed {
        alter(engine, &table, without(&table, "by_p")).unwrap();
    }
    let parents: Vec<[Option<i64>; 2]> = (0..50).map(|id| [Some(id), None]).collect();
    insert(engine, "p", &parents.iter().map(|row| &row[..]).collect::<Vec<_>>());
    let of = |id: i64| [Some(id), (id % 9 > 0).then_some(id % 40), Some(id)];
    let children: Vec<_> = (0..600).map(of).collect();
    insert(engine, "c", &children.iter().map(|row| &row[..]).collect::<Vec<_>>());
    let mut spec = same(&table);
    if !indexed {
        spec = with(spec, "by_p", false, &[1]);
    }
    let foreigns = vec![foreign(("c", "p"), ("p", "id"), Action::Cascade, Action::Cascade)];
    spec.foreigns_new = AddedForeigns { foreigns, unchecked };
    spec
}

#[test]
fn a_foreign_key_comes_while_others_write() {
    for indexed in [true, false] {
        let vfs = memory();
        let engine = open(&vfs);
        let spec = adding(&engine, indexed, false);
        let table = engine.open_table("c").unwrap();
        engine.check_alter(&table, &spec).unwrap();
        let (mut p, mut c) = (Bound::new(&engine, "p"), Bound::new(&engine, "c"));
        let mut alter = engine.alter_table(&table, spec).unwrap();
        // From now on a row that is written needs its parent; a parent without children may be deleted.
        let mut txn = begin(&engine);
        assert_eq!(kind(c.insert(&mut txn, &[Some(1000), Some(99), None])), ErrorKind::NoParent);
        c.insert(&mut txn, &[Some(1000), Some(45), None]).unwrap();
        p.delete(&mut txn, &[Some(49), None]).unwrap();
        txn.commit().unwrap();
        let (mut refused, mut moved) = (0, false);
        let reader = Bound::new(&engine, "c");
        let built = alter.build(&reader.rows, &mut |_, _| {
            let guards = engine.foreigns("p").1[0].state == ForeignState::Guarding;
            let mut txn = begin(&engine);
            if guards {
                assert_eq!(kind(p.delete(&mut txn, &[Some(1), None])), ErrorKind::Referenced);
                refused += 1;
            }
            // The last row in the order of parents gets another one, and its old one goes: no violation.
            if guards && !moved {
                let row: Row<'_> = &[Some(1000), Some(45), None];
                c.update(&mut txn, row, &[Some(1000), Some(46), None]).unwrap();
                p.delete(&mut txn, &[Some(45), None]).unwrap();
                moved = true;
            }
            txn.commit().unwrap();
            true
        });
        assert_eq!(built.unwrap(), None);
        assert!(refused > 1 && moved);
        let before = copy(&vfs);
        // A parent that has another name by now.
        engine.rename_table("p", "q").unwrap();
        assert_eq!(alter.commit().unwrap(), None);
        let after = copy(&vfs);
        drop((p, c, reader, table, engine));
        for (vfs, parent) in [(before, None), (after, Some("q"))] {
            let engine = open(&vfs);
            check(&engine, "c");
            let foreigns = engine.foreigns("c").0;
            assert_eq!(foreigns.first().map(|f| &f.parent[..]), parent);
            let Some(parent) = parent else { continue };
            assert_eq!(foreigns[0].state, ForeignState::Active);
            let children = rows(&engine, "c").len();
            let mut txn = begin(&engine);
            Bound::new(&engine, parent).delete(&mut txn, &[Some(46), None]).unwrap();
            txn.commit().unwrap();
            assert_eq!(rows(&engine, "c").len(), children - 1);
        }
    }
}

#[test]
fn rows_without_parents_end_the_change_and_leave_nothing() {
    for indexed in [true, false] {
        let engine = open(&memory());
        let spec = adding(&engine, indexed, false);
        insert(&engine, "c", &[&[Some(1000), Some(70), None]]);
        let table = engine.open_table("c").unwrap();
        let mut c = Bound::new(&engine, "c");
        let mut alter = engine.alter_table(&table, spec).unwrap();
        let reader = Bound::new(&engine, "c");
        let e = alter.build(&reader.rows, &mut |_, _| true).unwrap_err();
        assert_eq!((e.kind(), e.constraint()), (ErrorKind::NoParent, Some(("c", "c_p"))));
        drop(alter);
        assert!(engine.foreigns("c").0.is_empty() && engine.foreigns("p").1.is_empty());
        assert_eq!(schema_of(&table).indexes.len(), if indexed { 3 } else { 2 });
        let mut txn = begin(&engine);
        c.insert(&mut txn, &[Some(1001), Some(71), None]).unwrap();
        txn.commit().unwrap();
        check(&engine, "c");
    }
    // Not with checks turned off.
    let engine = open(&memory());
    let spec = adding(&engine, true, true);
    insert(&engine, "c", &[&[Some(1000), Some(70), None]]);
    let table = engine.open_table("c").unwrap();
    assert_eq!(engine.alter_table(&table, spec).unwrap().commit().unwrap(), None);
    assert_eq!(engine.foreigns("c").0[0].state, ForeignState::Active);
    // A name that is taken; columns that change at the same time.
    let mut again = same(&table);
    again.foreigns_new.foreigns = vec![(*engine.foreigns("c").0[0]).clone()];
    assert_eq!(kind(engine.check_alter(&table, &again)), ErrorKind::DuplicateKey);
    again.foreigns_new.foreigns[0].name = "other".into();
    engine.check_alter(&table, &again).unwrap();
    again.schema.columns[2].name = "renamed".into();
    assert_eq!(kind(engine.check_alter(&table, &again)), ErrorKind::Unsupported);
}

#[test]
fn a_parent_that_is_being_deleted_is_waited_for() {
    for keep in [true, false] {
        let engine = open(&memory());
        let spec = adding(&engine, true, false);
        let table = engine.open_table("c").unwrap();
        let mut p = Bound::new(&engine, "p");
        let mut txn = begin(&engine);
        // It looks at no children: there is no constraint yet.
        p.delete(&mut txn, &[Some(20), None]).unwrap();
        let mut alter = engine.alter_table(&table, spec).unwrap();
        let reader = Bound::new(&engine, "c");
        let outcome = std::thread::scope(|scope| {
            let building = scope.spawn(|| alter.build(&reader.rows, &mut |_, _| true));
            // The outcome is the same if it does not wait yet.
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(std::time::Duration::from_millis(50));
            match keep {
                true => txn.rollback(),
                false => drop(txn.commit().unwrap()),
            }
            building.join().unwrap()
        });
        assert_eq!(outcome.is_ok(), keep);
        assert_eq!(outcome.err().map(|e| e.kind()), (!keep).then_some(ErrorKind::NoParent));
    }
}

#[test]
fn a_row_without_a_parent_does_not_hide_by_moving_in_the_index() {
    for late in [false, true] {
        let engine = open(&memory());
        let mut spec = adding(&engine, false, false);
        spec.schema.indexes[1].parts.push(Part { column: 2, prefix: None, descending: false });
        let orphan: Row<'_> = &[Some(1000), Some(70), Some(1)];
        insert(&engine, "c", &[orphan]);
        let table = engine.open_table("c").unwrap();
        let mut c = Bound::new(&engine, "c");
        let mut alter = engine.alter_table(&table, spec).unwrap();
        let reader = Bound::new(&engine, "c");
        let mut tries = 0;
        let mut hide = || {
            for new in [[Some(2000), Some(70), Some(1)], [Some(1000), Some(70), Some(2)]] {
                let mut txn = begin(&engine);
                assert_eq!(kind(c.update(&mut txn, orphan, &new)), ErrorKind::NoParent);
                txn.commit().unwrap();
            }
            // A row that has a parent can be written.
            let mut txn = begin(&engine);
            let row = |x| [Some(1), Some(1), Some(x)];
            c.update(&mut txn, &row(1 + tries), &row(2 + tries)).unwrap();
            txn.commit().unwrap();
            tries += 1;
        };
        if !late {
            hide();
        }
        let built = alter.build(&reader.rows, &mut |_, _| {
            if late && engine.foreigns("p").1[0].state == ForeignState::Guarding {
                hide();
            }
            true
        });
        assert_eq!(kind(built), ErrorKind::NoParent);
        assert!(tries > 0);
        drop(alter);
        check(&engine, "c");
    }
}

fn xid() -> Xid {
    Xid::new(1, b"one", b"here").unwrap()
}

/// Inserts a row in a prepared transaction whose session goes away.
fn prepare(engine: &Engine, table: &str, row: Row<'_>) {
    let mut txn = begin(engine);
    Bound::new(engine, table).insert(&mut txn, row).unwrap();
    drop(txn.prepare(xid()).unwrap());
}

#[test]
fn parents_of_prepared_rows_keep_their_indexes() {
    for during in [false, true] {
        let engine = open(&memory());
        engine.create_table(spec("p", &schema(&["id", "u"], true, false))).unwrap();
        let f = foreign(("c", "p"), ("p", "u"), Action::Restrict, Action::Restrict);
        child(&engine, &schema(&["id", "p"], false, false), vec![f]).unwrap();
        insert(&engine, "p", &[&[Some(1), Some(5)]]);
        let table = engine.open_table("p").unwrap();
        let other = || with(without(&table, "by_u"), "other", true, &[1]);
        let reader = Bound::new(&engine, "p");
        if during {
            let mut alter = engine.alter_table(&table, other()).unwrap();
            assert_eq!(alter.build(&reader.rows, &mut |_, _| true).unwrap(), None);
            prepare(&engine, "c", &[Some(10), Some(5)]);
            assert_eq!(kind(alter.commit()), ErrorKind::LockTimeout);
        } else {
            prepare(&engine, "c", &[Some(10), Some(5)]);
            let refused = engine.alter_table(&table, other());
            assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::LockTimeout));
        }
        assert!(engine.commit_prepared(&xid()).unwrap());
        let mut alter = engine.alter_table(&table, other()).unwrap();
        assert_eq!(alter.build(&reader.rows, &mut |_, _| true).unwrap(), None);
        assert_eq!(alter.commit().unwrap(), None);
        let mut txn = begin(&engine);
        let deleted = Bound::new(&engine, "p").delete(&mut txn, &[Some(1), Some(5)]);
        assert_eq!(kind(deleted), ErrorKind::Referenced);
        check(&engine, "p");
        check(&engine, "c");
    }
}

#[test]
fn rows_that_are_prepared_while_an_index_is_built_are_waited_for() {
    let engine = open(&memory());
    engine.create_table(spec("t", &schema(&["id", "x"], false, false))).unwrap();
    insert(&engine, "t", &[&[Some(1), Some(5)]]);
    let table = engine.open_table("t").unwrap();
    let spec = with(same(&table), "one", true, &[1]);
    let mut alter = engine.alter_table(&table, spec).unwrap();
    let reader = Bound::new(&engine, "t");
    assert_eq!(alter.build(&reader.rows, &mut |_, _| true).unwrap(), None);
    prepare(&engine, "t", &[Some(2), Some(5)]);
    assert_eq!(kind(alter.commit()), ErrorKind::LockTimeout);
    assert!(engine.commit_prepared(&xid()).unwrap());
    assert_eq!(schema_of(&table).indexes.len(), 2);
    check(&engine, "t");
}

#[test]
fn an_unchecked_foreign_key_fits_when_it_comes() {
    for (taken, error) in [(false, ErrorKind::BadForeignKey), (true, ErrorKind::DuplicateKey)] {
        let engine = open(&memory());
        let mut change = adding(&engine, false, true);
        let table = engine.open_table("c").unwrap();
        if taken {
            change.foreigns_new.foreigns[0].name = "d_p".into();
        }
        let mut alter = engine.alter_table(&table, change).unwrap();
        let reader = Bound::new(&engine, "c");
        assert_eq!(alter.build(&reader.rows, &mut |_, _| true).unwrap(), None);
        if taken {
            let f = foreign(("d", "p"), ("p", "id"), Action::Restrict, Action::Restrict);
            child(&engine, &schema(&["id", "p"], false, false), vec![f]).unwrap();
        } else {
            engine.drop_table("p").unwrap();
            engine.create_table(spec("p", &schema(&["key", "a"], false, false))).unwrap();
        }
        assert_eq!(kind(alter.commit()), error);
        assert!(engine.foreigns("c").0.is_empty());
        assert_eq!(schema_of(&table).indexes.len(), 2);
        check(&engine, "c");
    }
}
