//! Statistics of indexes: when they are taken, and that a restart finds them. Costs a second.

use std::sync::Arc;
use std::time::Duration;

use frond_engine::{Engine, KeyStatistics, Table};
use frond_vfs::MemVfs;

use crate::durability::copy;
use crate::support::{begin, memory, open};
use crate::typed::Typed;

/// Too many for a statement to sample them itself.
const ROWS: i32 = 3000;

/// A table of [`ROWS`] rows with a tenth as many values of `a`.
fn filled(engine: &Engine) -> Typed {
    let mut typed = Typed::create(engine, "t", false);
    insert(engine, &mut typed, ROWS);
    typed
}

fn insert(engine: &Engine, typed: &mut Typed, rows: i32) {
    let mut txn = begin(engine);
    for n in 0..rows {
        typed.insert(&mut txn, n / 10, "s");
    }
    txn.commit().unwrap();
}

/// Lets the background work for a while.
fn idle(vfs: &MemVfs, engine: &Engine) {
    vfs.advance(Duration::from_secs(11));
    while engine.background_step() {}
}

fn distinct(table: &Table, tree: u16) -> u64 {
    table.key_statistics().1.map_or(0, |s| s.of_tree(tree).map_or(0, |parts| parts[0].distinct))
}

fn statistics(engine: &Engine) -> Option<Arc<KeyStatistics>> {
    engine.open_table("t").unwrap().key_statistics().1
}

#[test]
fn the_background_samples_and_a_restart_or_crash_finds_the_same() {
    let vfs = memory();
    let engine = open(&vfs);
    let typed = filled(&engine);
    engine.sample_if_small(typed.table()).unwrap();
    assert_eq!(typed.table().key_statistics_number(), 0, "a statement sampled a large table");
    idle(&vfs, &engine);
    let taken = statistics(&engine).unwrap();
    assert_eq!((taken.rows, distinct(typed.table(), 1)), (3000, 300));
    engine.sync().unwrap();
    let crashed = copy(&vfs);
    drop((typed, engine));
    for vfs in [vfs, crashed] {
        let engine = open(&vfs);
        assert_eq!(statistics(&engine).unwrap(), taken);
        idle(&vfs, &engine);
        assert_eq!(engine.open_table("t").unwrap().key_statistics_number(), 1, "sampled again");
    }
}

#[test]
fn a_tenth_of_the_rows_has_to_change_before_they_are_sampled_again() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut typed = filled(&engine);
    idle(&vfs, &engine);
    insert(&engine, &mut typed, ROWS / 10);
    idle(&vfs, &engine);
    assert_eq!(typed.table().key_statistics_number(), 1);
    // Updates make statistics old as well, although the number of rows stays the same.
    let update = |typed: &mut Typed, from: fn(i32) -> i32, to: fn(i32) -> i32| {
        let mut txn = begin(&engine);
        for n in 0..ROWS {
            typed.update(&mut txn, (n as u64 + 1, from(n), "s"), (n as u64 + 1, to(n), "s"));
        }
        txn.commit().unwrap();
        while engine.background_step() {}
    };
    update(&mut typed, |n| n / 10, |n| n);
    assert_eq!(typed.table().key_statistics_number(), 2);
    assert!(distinct(typed.table(), 1) > 2500);
    update(&mut typed, |n| n, |n| n / 100);
    assert_eq!(typed.table().key_statistics_number(), 2, "sampled twice within seconds");
    idle(&vfs, &engine);
    assert_eq!(typed.table().key_statistics_number(), 3);
    assert!(distinct(typed.table(), 1) < 500);
}

#[test]
fn a_statement_samples_a_small_table_and_an_orderly_close_keeps_it() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut typed = Typed::create(&engine, "t", false);
    insert(&engine, &mut typed, 100);
    engine.sample_if_small(typed.table()).unwrap();
    assert_eq!(distinct(typed.table(), 1), 10);
    engine.sample_if_small(typed.table()).unwrap();
    assert_eq!(typed.table().key_statistics_number(), 1);
    drop((typed, engine));
    assert_eq!(statistics(&open(&vfs)).unwrap().rows, 100);
}

#[test]
fn statistics_follow_a_rename_and_go_with_the_rows() {
    let vfs = memory();
    let engine = open(&vfs);
    let table = filled(&engine).table().clone();
    engine.analyze_table(&table).unwrap();
    engine.rename_table("t", "u").unwrap();
    drop((table, engine));
    let engine = open(&vfs);
    assert_eq!(distinct(&engine.open_table("u").unwrap(), 1), 300);
    engine.rename_table("u", "t").unwrap();
    engine.truncate_table("t").unwrap();
    assert_eq!(statistics(&engine), None);
    insert(&engine, &mut Typed::bind(engine.open_table("t").unwrap()), ROWS);
    engine.analyze_table(&engine.open_table("t").unwrap()).unwrap();
    engine.drop_table("t").unwrap();
    drop(engine);
    let engine = open(&vfs);
    Typed::create(&engine, "t", false);
    assert_eq!(statistics(&engine), None);
}
