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

/// Transactions larger than their memory, beside each other, small ones, readers and background work: a
/// snapshot has each of them as a whole or not at all.
#[test]
fn large_transactions_are_atomic_for_concurrent_readers() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        cache_bytes: 8 << 20,
        durability: Durability::Write,
        log_segment_bytes: 256 << 10,
        log_capacity_bytes: 1 << 20,
        leaf_bytes: 128 << 10,
        transaction_bytes: 64 << 10,
        ..Options::default()
    };
    const WRITERS: u64 = 3;
    const ROWS: u64 = 3_000;
    let engine = on_disk(&dir, options.clone());
    let table = engine.create_table(plain("t")).unwrap();
    // Each writer has keys of its own, between those of the others.
    let row = |writer: u64, n: u64| key(n * WRITERS + writer);
    let write = |writer: u64, tag: u8| {
        let mut txn = begin(&engine);
        for n in 0..ROWS {
            let at = row(writer, n * 1_009 % ROWS);
            let value = [&[tag][..], &Rng(n).next().to_le_bytes(), &[n as u8; 60]].concat();
            txn.put(&table, &at, &value, false).unwrap();
        }
        txn
    };
    for w in 0..WRITERS {
        write(w, 0).commit().unwrap();
    }
    let whole = |entries: &[(Vec<u8>, Vec<u8>)]| {
        assert_eq!(entries.len() as u64, WRITERS * ROWS + 1);
        for (w, first) in entries[..WRITERS as usize].iter().enumerate() {
            let tags = entries[w..(WRITERS * ROWS) as usize].iter().step_by(WRITERS as usize);
            assert!(tags.map(|(_, v)| v[0]).all(|tag| tag == first.1[0]), "writer {w}");
        }
    };
    let small = key(u64::MAX);
    put(&engine, &table, &small, b"0");
    let running = std::sync::atomic::AtomicU64::new(WRITERS);
    std::thread::scope(|s| {
        for w in 0..WRITERS {
            let (write, running) = (&write, &running);
            s.spawn(move || {
                for tag in 1..12u8 {
                    let txn = write(w, tag);
                    if tag % 4 == 0 {
                        txn.rollback();
                    } else {
                        txn.commit().unwrap();
                    }
                }
                running.fetch_sub(1, Ordering::Release);
            });
        }
        s.spawn(|| {
            let mut n = 0u64;
            while running.load(Ordering::Acquire) > 0 {
                n += 1;
                put(&engine, &table, &small, &n.to_le_bytes());
            }
        });
        s.spawn(|| {
            while running.load(Ordering::Acquire) > 0 {
                whole(&all(&engine, &table));
            }
        });
    });
    whole(&all(&engine, &table));
    assert_eq!(table.rows(), WRITERS * ROWS + 1);
    engine.flush_all().unwrap();
    assert!(engine.check_all(&mut |_| {}).is_clean());
    drop(table);
    drop(engine);
    let engine = on_disk(&dir, options);
    let table = engine.open_table("t").unwrap();
    whole(&all(&engine, &table));
    assert!(engine.check_all(&mut |_| {}).is_clean());
}

/// The transaction with fewer changes gives way, whichever closed the cycle.
#[test]
fn of_a_deadlock_the_transaction_with_fewer_changes_is_the_victim_and_the_report_has_the_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let engine = on_disk(&dir, Options::default());
    let table = engine.create_table(plain("t")).unwrap();
    let (mut large, mut small) = (begin(&engine), begin(&engine));
    for n in 0..7 {
        large.put(&table, &key(n), b"large", false).unwrap();
    }
    small.put(&table, &key(100), b"small", false).unwrap();
    small.put(&table, &key(101), b"small", false).unwrap();
    std::thread::scope(|s| {
        let waits = s.spawn(|| {
            let mut small = small;
            small.put(&table, &key(0), b"small", false).unwrap_err().kind()
        });
        while engine.status_text().contains("LOCK WAITS\n----------\nnone") {
            std::thread::yield_now();
        }
        large.put(&table, &key(100), b"large", false).unwrap();
        assert_eq!(waits.join().unwrap(), ErrorKind::Deadlock);
    });
    large.commit().unwrap();
    let report = engine.status_text();
    assert!(report.contains("(7 changes)") && report.contains("(2 changes)"), "{report}");
}
