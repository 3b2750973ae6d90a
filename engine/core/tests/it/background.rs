//! Background work when something fails, and its effects.

use std::sync::Arc;
use std::time::Duration;

use frond_engine::{Engine, ErrorKind, Options, Table};
use frond_tree::Step;
use frond_vfs::{MemVfs, Vfs};

use crate::support::*;

fn status(engine: &Engine, name: &str) -> u64 {
    engine.status().iter().find(|(n, _)| *n == name).unwrap().1
}

/// Entries that do not pack, so that there are many pages.
fn fill(engine: &Engine, table: &Arc<Table>, range: std::ops::Range<u64>) {
    let mut txn = begin(engine);
    for n in range {
        let mut rng = Rng(n);
        let value: Vec<u8> = (0..100).map(|_| rng.next() as u8).collect();
        txn.put(table, &key(n), &value, false).unwrap();
    }
    txn.commit().unwrap();
}

/// Damages pages of a table's file, `apart` bytes from each other.
fn damage(vfs: &MemVfs, name: &str, apart: usize) -> usize {
    let mut bytes = vfs.contents(name).unwrap();
    let mut damaged = 0;
    for at in (20_000..bytes.len() - 20_000).step_by(apart) {
        bytes[at] ^= 0x40;
        damaged += 1;
    }
    vfs.set_contents(name, bytes);
    damaged
}

/// A flushed table of many pages, opened anew, with `apart` bytes between its damaged pages.
fn damaged(apart: usize) -> (Engine, Arc<Table>, usize) {
    let vfs = memory();
    {
        let engine = open(&vfs);
        let t = engine.create_table(plain("t")).unwrap();
        fill(&engine, &t, 0..4_000);
        engine.flush_all().unwrap();
    }
    let pages = damage(&vfs, "1.frd", apart);
    let engine = open(&vfs);
    let t = engine.open_table("t").unwrap();
    (engine, t, pages)
}

#[test]
fn dropped_tables_leave_no_index_memory_in_the_budget() {
    let vfs = memory();
    let engine = open(&vfs);
    let before = status(&engine, "run_index_bytes");
    for round in 0..5 {
        let t = engine.create_table(plain("t")).unwrap();
        fill(&engine, &t, 0..2_000);
        engine.flush_all().unwrap();
        assert_eq!(all(&engine, &t).len(), 2_000);
        let charged = status(&engine, "run_index_bytes");
        assert!(charged > before + 500, "round {round}: indexes of built runs are memory, too");
        engine.drop_table("t").unwrap();
    }
    engine.background_step();
    // The catalog's own run.
    let after = status(&engine, "run_index_bytes");
    assert!(after < before + 500, "{after} bytes, {before} before");
}

#[test]
fn check_names_every_damaged_page() {
    let (engine, _t, pages) = damaged(60_000);
    assert!(pages >= 5);
    let outcome = engine.check_table("t").unwrap();
    let mut places: Vec<_> = outcome.problems.iter().filter(|p| p.contains("1.frd")).collect();
    places.sort();
    places.dedup();
    assert!(places.len() >= pages - 1, "{pages} damaged: {:#?}", outcome.problems);
    assert!(outcome.entries > 2_000, "what is whole was read: {}", outcome.entries);
}

#[test]
fn check_reads_the_file_though_its_pages_are_in_memory() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    fill(&engine, &t, 0..4_000);
    engine.flush_all().unwrap();
    assert_eq!(all(&engine, &t).len(), 4_000);
    assert!(engine.check_table("t").unwrap().is_clean());
    assert!(damage(&vfs, "1.frd", 60_000) >= 5);
    assert!(engine.check_table("t").unwrap().problems.len() >= 4);
}

#[test]
fn what_was_just_flushed_is_read_from_memory() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    fill(&engine, &t, 0..4_000);
    engine.flush_all().unwrap();
    let before = status(&engine, "page_cache_misses");
    assert_eq!(all(&engine, &t).len(), 4_000);
    assert_eq!(status(&engine, "page_cache_misses"), before);
    // Room for them is not taken from others: the budget holds.
    assert!(status(&engine, "page_cache_bytes") <= small().cache_bytes);
}

#[test]
fn a_check_of_a_destroyed_file_lists_a_bounded_number_of_problems() {
    let (engine, _t, pages) = damaged(2_000);
    let outcome = engine.check_table("t").unwrap();
    assert!(pages > 200 && (20..=210).contains(&outcome.problems.len()), "{pages}");
}

#[test]
fn optimizing_a_damaged_table_ends_with_the_damage() {
    let (engine, t, _) = damaged(60_000);
    for n in 0..4_000 {
        let mut txn = begin(&engine);
        // Writing looks for the old row: not everywhere with success.
        if txn.delete(&t, &key(n)).is_ok() {
            txn.commit().unwrap();
        }
    }
    let mut polls = 0;
    let e = engine
        .optimize_table(&t, &mut || {
            polls += 1;
            assert!(polls < 1_000, "it goes on for ever");
            false
        })
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
}

#[test]
fn optimizing_waits_for_jobs_of_other_threads() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    fill(&engine, &t, 0..4_000);
    let tree = t.tree(0);
    let (mut polls, mut job) = (0, None);
    engine
        .optimize_table(&t, &mut || {
            polls += 1;
            if polls == 1 {
                job = tree.begin(&tree.plan().unwrap(), vec![1 << 40]);
                assert!(tree.plan().is_none(), "the other thread has all the work there is");
            }
            if polls == 10 {
                let mut all = job.take().unwrap();
                while all.step().unwrap() == Step::More {}
            }
            false
        })
        .unwrap();
    assert!(job.is_none(), "it ended before the job, after {polls} polls");
    assert!(tree.plan().is_none() && tree.stats().frozen == 0);
}

#[test]
fn work_that_readers_made_is_done_without_a_writer() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    fill(&engine, &t, 0..4_000);
    engine.optimize_table(&t, &mut || false).unwrap();
    fill(&engine, &t, 1_000..1_400);
    engine.flush_all().unwrap();
    while engine.background_step() {}
    assert!(t.tree(0).plan().is_none(), "nothing left that is due");
    // Scans over the same delta again and again make merging it worth while.
    let mut scans = 0;
    while t.tree(0).plan().is_none() {
        all(&engine, &t);
        scans += 1;
        assert!(scans < 1_000);
    }
    vfs.advance(Duration::from_secs(2));
    while engine.background_step() {}
    assert!(t.tree(0).plan().is_none(), "after {scans} scans");
}

#[test]
fn a_reader_does_no_background_work() {
    let vfs = memory();
    {
        let engine = open(&vfs);
        let t = engine.create_table(plain("t")).unwrap();
        for part in 0..30 {
            fill(&engine, &t, part * 1_000..part * 1_000 + 1_000);
        }
    }
    // More in the log than a reader's write buffers should hold.
    let options = Options { read_only: true, log_capacity_bytes: 128 << 10, ..small() };
    let engine = Engine::open(Arc::new(vfs.clone()), options).unwrap();
    let t = engine.open_table("t").unwrap();
    engine.set_cache_bytes(8 << 20).unwrap();
    t.tree(0).freeze(u64::MAX >> 2);
    for _ in 0..10 {
        vfs.advance(Duration::from_secs(1));
        assert!(!engine.background_step());
    }
    assert_eq!(engine.flush_all().unwrap_err().kind(), ErrorKind::Unsupported);
    let optimized = engine.optimize_table(&t, &mut || false);
    assert_eq!(optimized.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(all(&engine, &t).len(), 30_000);
}

#[test]
fn a_job_that_outlives_its_table_makes_no_file() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = engine.create_table(plain("t")).unwrap();
    fill(&engine, &t, 0..1_000);
    let tree = t.tree(0);
    assert!(tree.freeze(u64::MAX >> 2));
    let plan = tree.plan().unwrap();
    let mut job = tree.begin(&plan, vec![1 << 40]).unwrap();
    engine.drop_table("t").unwrap();
    engine.background_step();
    let e = loop {
        match job.step() {
            Ok(Step::More) => {}
            Ok(Step::Done) => panic!("entries of a dropped table were written"),
            Err(e) => break e,
        }
    };
    assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
    assert!(!vfs.exists("1.frd").unwrap());
    assert!(!engine.is_poisoned());
}

/// Rows all over the table.
fn spread(engine: &Engine, table: &Arc<Table>, rng: &mut Rng) {
    let mut txn = begin(engine);
    for _ in 0..100 {
        let value: Vec<u8> = (0..100).map(|_| rng.next() as u8).collect();
        txn.put(table, &key(rng.below(4_000)), &value, false).unwrap();
    }
    txn.commit().unwrap();
}

/// Many pages of a table rot, some of slices that wait on edges as well.
#[test]
fn a_damaged_table_holds_back_no_other_table_and_no_log() {
    let vfs = memory();
    let mut rng = Rng(5);
    {
        let engine = open(&vfs);
        let t = engine.create_table(plain("t")).unwrap();
        fill(&engine, &t, 0..4_000);
        engine.optimize_table(&t, &mut || false).unwrap();
        for _ in 0..6 {
            spread(&engine, &t, &mut rng);
            engine.flush_all().unwrap();
        }
    }
    let engine = open(&vfs);
    let t = engine.open_table("t").unwrap();
    let other = engine.create_table(plain("other")).unwrap();
    damage(&vfs, "1.frd", 10_000);
    let (mut held, mut written) = (Vec::new(), 0);
    for round in 0..300 {
        let mut txn = begin(&engine);
        for n in 0..30 {
            let at = key(rng.below(4_000));
            // The look for the old row may meet the damage.
            written += u32::from(txn.put(&t, &at, &[n; 100], false).is_ok());
            txn.put(&other, &at, &[n; 100], false).unwrap();
        }
        txn.commit().unwrap();
        vfs.advance(Duration::from_millis(20));
        for _ in 0..100 {
            engine.background_step();
        }
        if round % 50 == 49 {
            held.push((t.tree(0).frozen_bytes(), status(&engine, "log_bytes_kept")));
        }
    }
    assert!(written > 2_000, "{written} rows");
    assert!(status(&engine, "job_failures") > 0 && !engine.is_poisoned());
    assert!(held.iter().all(|(frozen, log)| *frozen == 0 && *log < 256 << 10), "{held:?}");
    let mut jobs = Vec::new();
    engine.each_job(&mut |job| {
        jobs.push((job.state, job.table.clone(), job.details.clone()));
        true
    });
    let listed = |(state, table, details): &(&str, String, String)| {
        *state == "DAMAGED" && table == "t" && details.contains("1.frd")
    };
    assert!(jobs.iter().any(listed), "{jobs:?}");
    let e = engine.optimize_table(&t, &mut || false).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    drop(t);
    engine.drop_table("t").unwrap();
    engine.flush_all().unwrap();
    while engine.background_step() {}
    assert!(!vfs.exists("1.frd").unwrap() && status(&engine, "write_buffer_bytes") == 0);
    assert!(engine.check_all(&mut |_| ()).is_clean());
}
