//! Page size and compression of a table change in place: runs that are written afterwards have them.

use std::sync::Arc;

use frond_base::ErrorKind;
use frond_engine::{AlterSpec, Compression, Engine, IndexDef, Pages, Table};

use crate::alter::{checked, same, with, without};
use crate::durability::copy;
use crate::support::*;
use crate::typed::Typed;

/// Rows that lz4 makes much smaller.
fn fill(engine: &Engine, t: &mut Typed, n: i32) {
    let mut txn = begin(engine);
    for a in 0..n {
        t.insert(&mut txn, a * 7919 % 1000, ["twelve bytes", "dozen letter"][a as usize % 2]);
    }
    txn.commit().unwrap();
}

/// Bytes that are written to the primary index for `n` rows.
fn added(engine: &Engine, t: &mut Typed, n: i32) -> u64 {
    engine.flush_all().unwrap();
    let before = t.table().tree(0).stats().bytes_written;
    fill(engine, t, n);
    engine.flush_all().unwrap();
    t.table().tree(0).stats().bytes_written - before
}

fn with_pages(
    table: &Table,
    page_bytes: Option<u32>,
    compression: Option<Compression>,
) -> AlterSpec {
    let mut spec = same(table);
    spec.pages.fill(Pages { page_bytes, compression });
    spec
}

fn formats(table: &Table) -> Vec<(u32, Compression)> {
    table.def().indexes.iter().map(|i| (i.page_bytes, i.compression)).collect()
}

#[test]
fn runs_written_after_the_change_have_the_new_compression_and_older_ones_are_read() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "t", false);
    let table = t.table().clone();
    let packed = added(&engine, &mut t, 4_000);
    fill(&engine, &mut t, 100);
    let spec = with_pages(&table, None, Some(Compression::None));
    assert_eq!(engine.alter_table(&table, spec).unwrap().commit().unwrap(), None);
    assert_eq!(formats(&table), [(4096, Compression::None); 3]);
    let plain = added(&engine, &mut t, 4_000);
    assert!(plain > 2 * packed, "{plain} bytes, {packed} with lz4");
    checked(&engine, &table);

    // Nothing was imaged since: the log has the definition.
    let crashed = open(&copy(&vfs));
    let table = crashed.open_table("t").unwrap();
    assert_eq!(formats(&table), [(4096, Compression::None); 3]);
    let mut t = checked(&crashed, &table);
    assert_eq!(table.rows(), 8_100);
    let after = added(&crashed, &mut t, 4_000);
    assert!(after > 2 * packed, "{after} bytes, {packed} with lz4");
    checked(&crashed, &table);
}

#[test]
fn page_size_changes_alone_and_back() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "t", true);
    let table = t.table().clone();
    let mut added = Vec::new();
    for page_bytes in [4096, 65536, 4096] {
        let spec = with_pages(&table, Some(page_bytes), None);
        engine.alter_table(&table, spec).unwrap().commit().unwrap();
        assert_eq!(formats(&table), [(page_bytes, Compression::Lz4); 4]);
        let before = table.tree(0).check(true).unwrap().pages;
        fill(&engine, &mut t, 4_000);
        engine.flush_all().unwrap();
        added.push(table.tree(0).check(true).unwrap().pages as i64 - before as i64);
        t = checked(&engine, &table);
    }
    assert!(added[1] * 4 < added[0] && added[1] * 4 < added[2], "{added:?} pages");
    drop((t, table, engine));
    let engine = open(&vfs);
    let table = engine.open_table("t").unwrap();
    assert_eq!((formats(&table)[0].0, table.rows()), (4096, 12_000));
    checked(&engine, &table);
}

#[test]
fn one_index_changes_while_others_go_and_come() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "t", false);
    let table = t.table().clone();
    fill(&engine, &mut t, 500);
    let mut spec = with(without(&table, "by_a"), "new", false, &[1, 2]);
    let by_s = spec.schema.indexes.iter().position(|i| i.name == "by_s").unwrap();
    spec.pages[by_s].compression = Some(Compression::Zstd(3));
    let mut alter = engine.alter_table(&table, spec).unwrap();
    alter.build(&t.rows, &mut |_, _| true).unwrap();
    // In force with the definition, not before.
    assert!(formats(&table).iter().all(|f| *f == (4096, Compression::Lz4)));
    alter.commit().unwrap();
    let methods: Vec<_> = formats(&table).iter().map(|f| f.1).collect();
    let (lz4, zstd) = (Compression::Lz4, Compression::Zstd(3));
    assert_eq!(methods, [lz4, lz4, zstd, lz4]);
    checked(&engine, &table);
}

#[test]
fn a_page_size_that_no_run_may_have_is_refused() {
    let engine = Engine::open(Arc::new(memory()), small()).unwrap();
    let t = Typed::create(&engine, "t", false);
    let spec = with_pages(t.table(), Some(5000), None);
    assert_eq!(
        engine.check_alter(t.table(), &spec).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    let refused = engine.alter_table(t.table(), spec).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(t.table().def().indexes[0], IndexDef { page_bytes: 4096, ..IndexDef::plain() });
}
