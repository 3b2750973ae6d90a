//! Replaying the log with several threads gives what one gives.

use std::sync::Arc;

use frond_engine::{Engine, Options, Xid};
use frond_vfs::{MemVfs, OpenHow, Vfs};

use crate::spill::number;
use crate::support::*;
use crate::typed::Typed;

/// A copy with the threads and the clock of the machine.
fn with_threads(vfs: &MemVfs) -> MemVfs {
    let to = MemVfs::new();
    for name in vfs.list().unwrap() {
        let _ = to.open(&name, OpenHow::CREATE).unwrap();
        to.set_contents(&name, vfs.contents(&name).unwrap());
    }
    to
}

fn options(threads: usize) -> Options {
    // Private runs as well: transactions of more than some hundred rows attach them.
    Options {
        background_threads: threads,
        transaction_bytes: 64 << 10,
        log_segment_bytes: 1 << 20,
        log_capacity_bytes: 64 << 20,
        cache_bytes: 32 << 20,
        ..small()
    }
}

/// Every entry of every tree, rows and counters.
fn content(engine: &Engine) -> Vec<String> {
    let mut out = Vec::new();
    for def in engine.tables() {
        let table = engine.open_table(&def.name).unwrap();
        out.push(format!("{}: {} rows, next {}", def.name, table.rows(), table.auto_increment()));
        out.push(format!("{:?}", def.meta));
        for index in 0..def.indexes.len() as u16 {
            let mut txn = begin(engine);
            let mut cursor = engine.cursor(&mut txn, &table, index).unwrap();
            let mut valid = cursor.first(&txn).unwrap();
            while valid {
                out.push(format!("{index} {:?} {:?}", cursor.key(), cursor.value()));
                valid = cursor.next(&txn).unwrap();
            }
        }
    }
    out
}

/// Rows in tables with one index and with four, definitions in between, prepared transactions, large ones, flushes.
fn history(engine: &Engine, seed: u64) {
    let mut rng = Rng(seed);
    let mut typed = Typed::create(engine, "typed", true);
    let mut names: Vec<String> = (0..4).map(|n| format!("t{n}")).collect();
    names.iter().for_each(|name| drop(engine.create_table(plain(name)).unwrap()));
    for step in 0..1200u64 {
        let name = names[rng.below(4) as usize].clone();
        let table = engine.open_table(&name).unwrap();
        match rng.below(400) {
            0 => drop(engine.truncate_table(&name).unwrap()),
            1 => {
                engine.drop_table(&name).unwrap();
                engine.create_table(plain(&name)).unwrap();
            }
            2 => {
                let to = format!("{name}x");
                engine.rename_table(&name, &to).unwrap();
                *names.iter_mut().find(|n| **n == name).unwrap() = to;
            }
            3..=6 => {
                engine.set_schema(&name, Vec::new(), step.to_be_bytes().to_vec()).unwrap();
            }
            7 | 8 => {
                let mut txn = begin(engine);
                let from = rng.below(5000);
                for n in from..from + 1000 {
                    txn.put(&table, &key(n), &[step as u8; 100], false).unwrap();
                }
                txn.commit().unwrap();
            }
            9..=30 => {
                let mut txn = begin(engine);
                txn.put(&table, &key(step), b"prepared", false).unwrap();
                let xid = Xid::new(1, &step.to_be_bytes(), b"").unwrap();
                drop(txn.prepare(xid.clone()).unwrap());
                let ended = match step % 3 {
                    0 => engine.rollback_prepared(&xid),
                    _ => engine.commit_prepared(&xid),
                };
                assert!(ended.unwrap());
            }
            31 => while engine.background_step() {},
            32..=150 => {
                let mut txn = begin(engine);
                for _ in 0..rng.below(20) {
                    let text = format!("{:0>16}", rng.next() % 997);
                    typed.insert(&mut txn, rng.below(100) as i32, &text);
                }
                txn.commit().unwrap();
            }
            _ => {
                let mut txn = begin(engine);
                for _ in 0..1 + rng.below(12) {
                    let key = key(rng.below(5000));
                    match rng.below(4) {
                        0 => drop(txn.delete(&table, &key).unwrap()),
                        _ => {
                            let value: Vec<u8> = (0..200).map(|_| rng.next() as u8).collect();
                            txn.put(&table, &key, &value, false).unwrap();
                        }
                    }
                }
                txn.commit().unwrap();
            }
        }
    }
}

#[test]
fn several_threads_bring_back_what_one_does() {
    for seed in 1..=3 {
        let vfs = memory();
        let engine = Engine::open(Arc::new(vfs.clone()), options(0)).unwrap();
        history(&engine, seed);
        let before = content(&engine);
        engine.sync().unwrap();
        let (one, several) = (with_threads(&vfs), with_threads(&vfs));
        let reopened = |vfs: &MemVfs, threads| {
            let options = Options { read_only: true, ..options(threads) };
            let engine = Engine::open(Arc::new(vfs.clone()), options).unwrap();
            assert!(engine.check_all(&mut |_| {}).is_clean());
            content(&engine)
        };
        assert!(reopened(&one, 0) == before, "seed {seed}: one thread");
        for _ in 0..3 {
            assert!(reopened(&several, 3) == before, "seed {seed}: several threads");
        }
    }
}

/// More than a window: the second one is read while the first one is applied.
#[test]
fn a_log_of_many_windows_comes_back_in_order() {
    let vfs = memory();
    let large = Options { cache_bytes: 256 << 20, ..options(0) };
    let engine = Engine::open(Arc::new(vfs.clone()), large).unwrap();
    let tables: Vec<_> =
        (0..3).map(|n| engine.create_table(plain(&format!("t{n}"))).unwrap()).collect();
    let mut rng = Rng(7);
    for step in 0..2600u64 {
        let mut txn = begin(&engine);
        for n in 0..8 {
            let mut value: Vec<u8> = (0..800).map(|_| rng.next() as u8).collect();
            value[..8].copy_from_slice(&step.to_be_bytes());
            let table = &tables[rng.below(3) as usize];
            txn.put(table, &key(rng.below(40) * 8 + n), &value, false).unwrap();
        }
        txn.commit().unwrap();
    }
    assert!(number(&engine, "log_bytes_to_replay") > 12 << 20);
    let before = content(&engine);
    engine.sync().unwrap();
    let options = Options { read_only: true, ..options(2) };
    let engine = Engine::open(Arc::new(with_threads(&vfs)), options).unwrap();
    assert!(content(&engine) == before);
    assert!(number(&engine, "last_recovery_micros") > 0);
    assert!(number(&engine, "recovery_estimate_micros") > 0);
}

#[test]
fn a_recovery_target_out_of_range_is_refused() {
    let wrong = Options { recovery_target: 3601, ..small() };
    let e = Engine::open(Arc::new(memory()), wrong).err().unwrap();
    assert!(e.to_string().contains("3600"), "{e}");
}
