//! Real threads on a real directory, for a few seconds.

use std::sync::atomic::{AtomicBool, Ordering};

use frond_engine::{Durability, ErrorKind, Options};

use crate::support::*;

/// Transfers between accounts keep the sum, whatever readers, writers and background work do; after a
/// reopen too.
#[test]
fn bank_keeps_its_sum_under_threads_and_background_work() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        cache_bytes: 8 << 20,
        durability: Durability::Write,
        log_segment_bytes: 1 << 20,
        log_capacity_bytes: 4 << 20,
        leaf_bytes: 256 << 10,
        ..Options::default()
    };
    const ACCOUNTS: u64 = 2_000;
    let engine = on_disk(&dir, options.clone());
    let table = engine.create_table(plain("bank")).unwrap();
    for n in 0..ACCOUNTS {
        put(&engine, &table, &key(n), &100u64.to_be_bytes());
    }
    let stop = AtomicBool::new(false);
    let total = |entries: &[(Vec<u8>, Vec<u8>)]| -> u64 {
        let amount = |v: &[u8]| u64::from_be_bytes(v[..8].try_into().unwrap());
        entries.iter().map(|(_, v)| amount(v)).sum()
    };
    std::thread::scope(|s| {
        for thread in 0..3u64 {
            let (engine, table, stop) = (&engine, &table, &stop);
            s.spawn(move || {
                let mut rng = Rng(thread);
                for round in 0..4_000 {
                    let (a, b) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
                    let mut txn = begin(engine);
                    let mut transfer = || -> frond_engine::Result<()> {
                        let mut v = Vec::new();
                        txn.get_locked(table, 0, &key(a), frond_engine::RowMode::X, &mut v)?;
                        let x = u64::from_be_bytes(v[..8].try_into().unwrap());
                        txn.get_locked(table, 0, &key(b), frond_engine::RowMode::X, &mut v)?;
                        let y = u64::from_be_bytes(v[..8].try_into().unwrap());
                        if a != b && x > 0 {
                            let padded = |n: u64| [&n.to_be_bytes()[..], &[7; 100]].concat();
                            txn.put(table, &key(a), &padded(x - 1), false)?;
                            txn.put(table, &key(b), &padded(y + 1), false)?;
                        }
                        Ok(())
                    };
                    match transfer() {
                        Ok(()) if round % 7 == 0 => txn.rollback(),
                        Ok(()) => drop(txn.commit().unwrap()),
                        Err(e) => assert_eq!(e.kind(), ErrorKind::Deadlock, "{e}"),
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(total(&all(&engine, &table)), ACCOUNTS * 100);
            }
        });
    });
    assert_eq!(total(&all(&engine, &table)), ACCOUNTS * 100);
    engine.flush_all().unwrap();
    assert!(engine.check_all(&mut |_| {}).is_clean());
    drop(table);
    drop(engine);
    let engine = on_disk(&dir, options);
    let table = engine.open_table("bank").unwrap();
    assert_eq!(total(&all(&engine, &table)), ACCOUNTS * 100);
    assert_eq!(table.rows(), ACCOUNTS);
}
