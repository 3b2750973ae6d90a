//! Indexes that several threads build: sorted in chunks, written and merged in parts by key.

use std::sync::Arc;

use frond_base::ErrorKind;
use frond_engine::{Engine, Options};
use frond_vfs::MemVfs;

use crate::alter::{checked, same, with};
use crate::support::*;
use crate::typed::Typed;

/// A chunk takes a megabyte, so the rows of these tests need several.
fn engine(vfs: MemVfs, background_threads: usize) -> Engine {
    let options = Options { cache_bytes: 8 << 20, background_threads, ..Options::default() };
    Engine::open(Arc::new(vfs), options).unwrap()
}

fn filled(engine: &Engine) -> Typed {
    let mut t = Typed::create(engine, "t", false);
    let mut rng = Rng(7);
    for _ in 0..10 {
        let mut txn = begin(engine);
        for _ in 0..8_000 {
            t.insert(&mut txn, rng.below(1 << 30) as i32, "some text of it");
        }
        txn.commit().unwrap();
    }
    engine.flush_all().unwrap();
    t
}

#[test]
fn an_index_is_built_by_as_many_threads_as_there_are_and_is_whole() {
    for (vfs, threads, runs) in [
        (MemVfs::stepped(), 0, 1),
        (MemVfs::new(), 1, 1),
        (MemVfs::new(), 2, 2),
        (MemVfs::new(), 3, 3),
    ] {
        let engine = engine(vfs, threads);
        let t = filled(&engine);
        let table = t.table().clone();
        let spec = with(with(same(&table), "x", false, &[1]), "y", false, &[2, 1]);
        let mut alter = engine.alter_table(&table, spec).unwrap();
        assert_eq!(alter.build(&t.rows, &mut |_, _| true).unwrap(), None);
        assert_eq!(alter.commit().unwrap(), None);
        for tree in table.trees().iter().skip(3) {
            // One run would have room for all, but each thread writes one of its own.
            assert_eq!(tree.stats().runs, runs, "{threads} threads");
            assert_eq!(tree.stats().entries, 80_000);
        }
        checked(&engine, &table);
    }
}

#[test]
fn a_kill_at_any_time_ends_all_threads_and_leaves_nothing() {
    let engine = engine(MemVfs::new(), 3);
    let t = filled(&engine);
    let table = t.table().clone();
    let mut polls = u64::MAX;
    let mut killed = 0;
    while polls > 0 {
        let spec = with(same(&table), "x", true, &[1, 0]);
        let mut alter = engine.alter_table(&table, spec).unwrap();
        let (mut done, most) = (0, polls);
        let outcome = alter.build(&t.rows, &mut |_, _| {
            done += 1;
            done < most
        });
        if let Err(e) = outcome {
            assert_eq!(e.kind(), ErrorKind::Interrupted, "{e}");
            killed += 1;
        }
        drop(alter);
        polls = if polls == u64::MAX { done } else { polls - polls.div_ceil(6) };
        assert!(!engine.is_poisoned() && table.def().building.is_empty());
    }
    assert!(killed > 15, "{killed}");
    engine.flush_all().unwrap();
    checked(&engine, &table);
}
