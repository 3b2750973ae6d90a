//! The engine's memory, and that it is freed.

use std::sync::Arc;
use std::time::Duration;

use frond_engine::{Engine, Options};

use crate::support::*;

fn counter(engine: &Engine, name: &str) -> u64 {
    let status = engine.status();
    status.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
}

#[test]
fn free_memory_is_returned_after_a_large_transaction_and_then_left_alone() {
    let vfs = memory();
    let options = Options {
        cache_bytes: 64 << 20,
        transaction_bytes: 32 << 20,
        log_segment_bytes: 4 << 20,
        log_capacity_bytes: 64 << 20,
        ..small()
    };
    let engine = Engine::open(Arc::new(vfs.clone()), options).unwrap();
    let table = engine.create_table(plain("t")).unwrap();
    let rounds = |n: u32| {
        for _ in 0..n {
            vfs.advance(Duration::from_millis(100));
            engine.background_step();
        }
    };
    let mut txn = begin(&engine);
    for i in 0..12_000u32 {
        txn.put(&table, &i.to_be_bytes(), &[i as u8; 800], false).unwrap();
    }
    assert!(counter(&engine, "write_memory_bytes") > 8 << 20);
    txn.commit().unwrap();
    engine.flush_all().unwrap();
    assert!(counter(&engine, "write_memory_bytes") < 1 << 20);
    assert_eq!(counter(&engine, "memory_returns"), 0);
    assert!(counter(&engine, "run_memory_bytes") > 0);
    rounds(100);
    assert_eq!(counter(&engine, "memory_returns"), 1);
    assert_eq!(counter(&engine, "run_memory_bytes"), 0);
    for i in 0..100u32 {
        put(&engine, &table, &i.to_be_bytes(), b"small");
        rounds(5);
    }
    assert_eq!(counter(&engine, "memory_returns"), 1);
}

#[test]
fn metadata_are_charged_to_the_budget_until_their_table_goes() {
    let vfs = memory();
    let engine = Engine::open(Arc::new(vfs.clone()), small()).unwrap();
    let charged = |engine: &Engine| counter(engine, "metadata_bytes");
    let rounds = || {
        for _ in 0..100 {
            vfs.advance(Duration::from_millis(100));
            engine.background_step();
        }
    };
    let empty = charged(&engine);
    let names: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
    for name in &names {
        let table = engine.create_table(plain(name)).unwrap();
        put(&engine, &table, b"key", b"value");
    }
    let created = charged(&engine);
    assert!(created > empty + 100 * 100, "each table has a trunk");
    engine.flush_all().unwrap();
    rounds();
    let flushed = charged(&engine);
    assert!(flushed > created + 100 * 100, "each trunk has a run: {created}, {flushed}");
    assert!(counter(&engine, "cache_bytes_used") >= flushed);
    for name in &names {
        engine.drop_table(name).unwrap();
    }
    rounds();
    let dropped = charged(&engine);
    assert!(dropped < empty + (flushed - empty) / 4, "{empty}, {flushed}, {dropped}");
}

/// Nothing is flushed here: what goes, the write buffer drops.
#[test]
fn a_row_that_is_changed_again_and_again_takes_little_memory() {
    for old in [false, true] {
        let vfs = memory();
        let options = || Options {
            cache_bytes: 64 << 20,
            log_segment_bytes: 4 << 20,
            log_capacity_bytes: 64 << 20,
            ..small()
        };
        let open = || Engine::open(Arc::new(vfs.clone()), options()).unwrap();
        let engine = open();
        let table = engine.create_table(plain("t")).unwrap();
        put(&engine, &table, b"row", b"first");
        let mut reader = begin(&engine);
        if old {
            reader.snapshot();
        }
        for i in 0..100_000u32 {
            put(&engine, &table, b"row", &i.to_le_bytes());
        }
        assert!(table.tree(0).active_bytes() < 1 << 20, "{}", table.tree(0).active_bytes());
        let last = 99_999u32.to_le_bytes();
        let seen = if old { &b"first"[..] } else { &last };
        assert_eq!(get(&mut reader, &table, b"row").as_deref(), Some(seen));
        assert_eq!(all(&engine, &table), [(b"row".to_vec(), last.to_vec())]);
        drop((reader, table, engine));
        let engine = open();
        let table = engine.open_table("t").unwrap();
        assert!(table.tree(0).active_bytes() < 1 << 20, "{}", table.tree(0).active_bytes());
        assert_eq!(all(&engine, &table), [(b"row".to_vec(), last.to_vec())]);
    }
}

/// Fences of keys of 1000 bytes take a quarter of the table: more than the whole budget.
#[test]
fn a_table_whose_fences_do_not_fit_stays_within_the_budget() {
    let vfs = memory();
    let engine = open(&vfs);
    let table = engine.create_table(plain("t")).unwrap();
    let key = |i: u32| -> Vec<u8> {
        let digits = (i.wrapping_mul(2_654_435_761)).to_be_bytes();
        digits.iter().copied().chain((0..996).map(|n| digits[n % 4])).collect()
    };
    const ROWS: u32 = 40_000;
    for from in (0..ROWS).step_by(50) {
        let mut txn = begin(&engine);
        for i in from..from + 50 {
            txn.put(&table, &key(i), &i.to_be_bytes(), false).unwrap();
        }
        txn.commit().unwrap();
        engine.background_step();
    }
    engine.flush_all().unwrap();
    let mut txn = begin(&engine);
    let mut most = 0;
    for n in 0..ROWS / 4 {
        let i = n.wrapping_mul(7_919) % ROWS;
        assert_eq!(get(&mut txn, &table, &key(i)), Some(i.to_be_bytes().to_vec()));
        let mut missing = key(i);
        missing.push(0);
        assert_eq!(get(&mut txn, &table, &missing), None);
        most = most.max(counter(&engine, "run_index_bytes"));
    }
    assert!(most > 5 << 20, "{most} bytes: there is too little for this test");
    assert!(most < 8 << 20, "{most} bytes");
    assert_eq!(scan(&engine, &mut txn, &table).len(), ROWS as usize);
}
