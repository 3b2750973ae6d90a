//! The row cache of an engine: what its rows survive, and what makes them go.

use std::sync::Arc;

use frond_engine::{Engine, Options, RowCaching, Table};

use crate::durability::copy;
use crate::support::*;

pub fn number(engine: &Engine, name: &str) -> u64 {
    engine.status().into_iter().find(|(n, _)| *n == name).unwrap().1
}

/// The value, and whether the row cache had it.
fn read(engine: &Engine, table: &Arc<Table>, n: u64) -> (Option<Vec<u8>>, bool) {
    let before = number(engine, "row_cache_hits");
    let value = get(&mut begin(engine), table, &key(n));
    (value, number(engine, "row_cache_hits") > before)
}

fn filled(engine: &Engine, name: &str, value: &[u8]) -> Arc<Table> {
    let table = engine.create_table(plain(name)).unwrap();
    let mut txn = begin(engine);
    (0..500).for_each(|n| txn.put(&table, &key(n), value, true).unwrap());
    txn.commit().unwrap();
    engine.flush_all().unwrap();
    table
}

#[test]
fn own_changes_come_before_cached_rows_and_commits_after_them_are_seen() {
    let engine = open(&memory());
    let table = filled(&engine, "t", b"old");
    read(&engine, &table, 7);
    assert_eq!(read(&engine, &table, 7), (Some(b"old".to_vec()), true));
    let mut before = begin(&engine);
    assert_eq!(get(&mut before, &table, &key(7)).as_deref(), Some(&b"old"[..]));
    let mut txn = begin(&engine);
    txn.put(&table, &key(7), b"new", false).unwrap();
    assert_eq!(get(&mut txn, &table, &key(7)).as_deref(), Some(&b"new"[..]));
    txn.commit().unwrap();
    engine.flush_all().unwrap();
    assert_eq!(read(&engine, &table, 7), (Some(b"new".to_vec()), true));
    assert_eq!(get(&mut before, &table, &key(7)).as_deref(), Some(&b"old"[..]));
}

#[test]
fn truncated_dropped_and_recovered_tables_have_no_rows_of_before() {
    let vfs = memory();
    let engine = open(&vfs);
    let table = filled(&engine, "t", b"first");
    (0..500).for_each(|n| drop(read(&engine, &table, n)));
    assert!(number(&engine, "row_cache_rows") > 50);
    drop(table);
    let table = engine.truncate_table("t").unwrap();
    assert_eq!(read(&engine, &table, 7).0, None);
    while engine.background_step() {}
    // Only what is known of key 7 of the new table.
    assert_eq!(number(&engine, "row_cache_rows"), 1, "memory of a truncated table");
    drop(table);
    engine.drop_table("t").unwrap();
    let table = filled(&engine, "t", b"second");
    read(&engine, &table, 7);
    put(&engine, &table, &key(7), b"third");
    let again = open(&copy(&vfs));
    let table = again.open_table("t").unwrap();
    for _ in 0..2 {
        assert_eq!(read(&again, &table, 7).0.as_deref(), Some(&b"third"[..]));
        again.flush_all().unwrap();
    }
}

#[test]
fn what_the_page_cache_serves_takes_no_memory_for_rows_and_off_gives_all_back() {
    let options = Options { row_caching: RowCaching::Measured, ..small() };
    let engine = Engine::open(Arc::new(memory()), options).unwrap();
    let table = filled(&engine, "t", b"value");
    (0..5_000).for_each(|n| drop(read(&engine, &table, n % 500)));
    assert_eq!(number(&engine, "row_cache_rows"), 0);
    let engine = open(&memory());
    let table = filled(&engine, "t", b"value");
    (0..500).for_each(|n| drop(read(&engine, &table, n)));
    assert!(number(&engine, "row_cache_bytes") > 0);
    engine.set_row_cache(false);
    assert_eq!(number(&engine, "row_cache_bytes"), 0);
    assert_eq!(read(&engine, &table, 7), (Some(b"value".to_vec()), false));
    engine.set_row_cache(true);
    read(&engine, &table, 7);
    assert!(read(&engine, &table, 7).1);
}
