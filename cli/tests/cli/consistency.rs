//! `check` on databases without a damaged byte: clean ones, and ones whose contents disagree.

use std::sync::Arc;

use frond_base::SEQ_MAX;
use frond_cli::check::{self, Report, Severity};
use frond_engine::{Engine, TxnOptions};
use frond_tree::Bounds;
use frond_vfs::MemVfs;

use crate::sample::{self, CUSTOMERS, ORDERS, PLAIN};

fn checked(vfs: &MemVfs) -> Report {
    let report =
        check::run(Arc::new(vfs.clone()), &check::Options::default(), &mut |_| {}).unwrap();
    assert_eq!(report.internal_errors, 0, "{:#?}", report.findings);
    report
}

/// The sample, changed by `change` behind the engine's typed rows.
fn changed(change: impl FnOnce(&Engine)) -> Report {
    let vfs = sample::directory(&sample::sample());
    let engine = Engine::open(Arc::new(vfs.clone()), sample::options()).unwrap();
    change(&engine);
    engine.close().unwrap();
    drop(engine);
    checked(&vfs)
}

fn text(report: &Report) -> String {
    report.findings.iter().map(|f| f.what.clone() + "\n").collect()
}

#[test]
fn a_sound_database_is_clean_and_everything_in_it_is_looked_at() {
    let files = sample::sample();
    let vfs = sample::directory(&files);
    let report = checked(&vfs);
    assert!(report.findings.is_empty(), "{}", text(&report));
    assert!(report.complete);
    assert_eq!(report.tables, 4, "three and the catalog");
    assert_eq!(report.trees, 9);
    assert_eq!(report.table_files, 4);
    let plain = 1000 - 100;
    assert_eq!(report.rows, 3800 + 500 + plain);
    assert_eq!(report.index_entries, 3 * 3800 + 2 * 500);
    assert_eq!(report.indexes_counted_only, 1, "by_nick");
    assert!(report.pages > 20 && report.log_records > 0, "{report:?}");
}

#[test]
fn a_check_changes_nothing() {
    let files = sample::sample();
    let vfs = sample::directory(&files);
    checked(&vfs);
    let mut after = sample::files(&vfs);
    let mut before = files;
    before.remove("LOCK");
    after.remove("LOCK");
    assert!(before == after, "files differ: {:?}", after.keys());
}

#[test]
fn a_row_without_its_index_entries_is_named() {
    let report = changed(|engine| {
        let table = engine.open_table(ORDERS).unwrap();
        let mut cursor = table.tree(0).cursor(SEQ_MAX, Bounds::all());
        assert!(cursor.last().unwrap());
        let value = cursor.value().to_vec();
        let mut txn = engine.begin(TxnOptions::default());
        let key = (9_000_000u64 | 1 << 63).to_be_bytes();
        txn.put(&table, &key, &value, true).unwrap();
        txn.commit().unwrap();
    });
    assert_eq!(report.findings.len(), 6, "{}", text(&report));
    for index in ["marketsegment", "registersegment", "pdc"] {
        let wanted = format!(
            "table 'shop/orders', index '{index}': the entry of row 0x8000000000895440 is missing"
        );
        assert!(text(&report).contains(&wanted), "{}", text(&report));
    }
}

#[test]
fn index_entries_without_their_row_are_named_also_where_they_cannot_be_derived() {
    let report = changed(|engine| {
        let table = engine.open_table(CUSTOMERS).unwrap();
        let mut txn = engine.begin(TxnOptions::default());
        assert!(txn.delete(&table, &3u64.to_be_bytes()).unwrap());
        txn.commit().unwrap();
    });
    let text = text(&report);
    assert_eq!(report.problems(), 4, "{text}");
    for index in ["by_mail", "by_nick"] {
        let place = format!("index '{index}': entry ");
        assert!(text.contains(&place), "{text}");
    }
    assert!(text.contains("leads to a row that does not exist"), "{text}");
}

#[test]
fn a_row_that_cannot_be_decoded_is_named() {
    let report = changed(|engine| {
        let table = engine.open_table(ORDERS).unwrap();
        let mut txn = engine.begin(TxnOptions::default());
        txn.put(&table, &(5u64 | 1 << 63).to_be_bytes(), b"\x01", false).unwrap();
        txn.commit().unwrap();
    });
    let text = text(&report);
    assert!(text.contains("row 0x8000000000000005: shop/orders: index 'PRIMARY'"), "{text}");
}

#[test]
fn strange_files_are_warnings_and_leave_the_database_clean() {
    let mut files = sample::sample();
    let orphan = files["1.frd"].clone();
    files.insert("77.frd".into(), orphan);
    files.insert("core.1234".into(), vec![1, 2, 3]);
    let report = checked(&sample::directory(&files));
    // The copy is another table's file: damage, and an orphan.
    assert_eq!(report.problems(), 1, "{}", text(&report));
    let warned = |name: &str| {
        report.findings.iter().any(|f| f.severity == Severity::Warning && f.what.starts_with(name))
    };
    assert!(warned("core.1234"), "{}", text(&report));
    assert!(warned("77.frd: belongs to no table"), "{}", text(&report));
}

#[test]
fn one_table_can_be_checked_alone() {
    let vfs = sample::directory(&sample::sample());
    let one = check::Options { table: Some(PLAIN.into()), ..check::Options::default() };
    let report = check::run(Arc::new(vfs.clone()), &one, &mut |_| {}).unwrap();
    assert_eq!((report.tables, report.trees), (1, 1));
    assert!(report.is_clean());
    let none = check::Options { table: Some("orders".into()), ..check::Options::default() };
    let refused = check::run(Arc::new(vfs), &none, &mut |_| {}).err().unwrap();
    assert!(refused.to_string().contains("did you mean 'shop/orders'?"), "{refused}");
}
