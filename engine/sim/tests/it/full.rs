//! A database on a disk that is full and stays full.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use frond_engine::{Engine, ErrorKind, IndexDef, Options, Table, TableSpec};
use frond_sim::machine::disk::Disk;
use frond_sim::machine::faults::Faults;
use frond_sim::machine::SimVfs;

fn options() -> Options {
    Options {
        cache_bytes: 8 << 20,
        log_segment_bytes: 64 << 10,
        log_capacity_bytes: 256 << 10,
        background_threads: 0,
        leaf_bytes: 64 << 10,
        ..Options::default()
    }
}

/// Leaves `pages` free from now on.
fn leave(vfs: &SimVfs, pages: u64) {
    let space = Some(vfs.pages_used() + pages);
    vfs.set_faults(Faults { space, ..Faults::default() });
}

fn table(engine: &Engine, name: &str) -> Arc<Table> {
    let spec = TableSpec {
        name: name.into(),
        indexes: vec![IndexDef { page_bytes: 4096, ..IndexDef::plain() }],
        schema: Vec::new(),
        meta: Vec::new(),
        auto_increment: 1,
    };
    engine.create_table(spec).unwrap()
}

/// Values that do not pack.
fn value(n: u64) -> Vec<u8> {
    let mut x = n;
    let mut next = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 56) as u8
    };
    (0..200).map(|_| next()).collect()
}

fn put(engine: &Engine, table: &Arc<Table>, n: u64) -> frond_engine::Result<()> {
    let mut txn = engine.begin(Default::default());
    txn.put(table, &n.to_be_bytes(), &value(n), false)?;
    txn.commit().map(drop)
}

fn count(engine: &Engine, table: &Arc<Table>) -> u64 {
    let mut txn = engine.begin(Default::default());
    let mut cursor = engine.cursor(&mut txn, table, 0).unwrap();
    let mut found = 0;
    let mut valid = cursor.first(&txn).unwrap();
    while valid {
        found += 1;
        valid = cursor.next(&txn).unwrap();
    }
    found
}

/// Puts rows, with background work, until the disk refuses; returns how many there are.
fn fill(engine: &Engine, table: &Arc<Table>) -> u64 {
    for n in 0..100_000 {
        match put(engine, table, n) {
            Ok(()) => {
                engine.background_step();
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
                return n;
            }
        }
    }
    panic!("the disk is not full")
}

fn restarted(vfs: &SimVfs, seed: u64) -> SimVfs {
    let next = SimVfs::new(vfs.kill(), seed);
    leave(&next, 0);
    next
}

#[test]
fn a_database_killed_on_a_full_disk_opens_and_drops_a_table_there() {
    let mut opened = 0;
    'seeds: for seed in 0..40 {
        let mut vfs = SimVfs::new(Disk::default(), seed);
        let mut engine = Engine::open(vfs.handle(), options()).unwrap();
        let t = table(&engine, "t");
        leave(&vfs, 200 + seed * 7);
        fill(&engine, &t);
        for n in 0..seed % 5 {
            // More meet the full disk, and background work goes on.
            if let Err(e) = put(&engine, &t, 1_000_000 + n) {
                assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
            }
            engine.background_step();
        }
        let rows = count(&engine, &t);
        assert!(!engine.is_poisoned(), "seed {seed}");
        drop(t);
        // Killed again and again, with not a page to spare.
        for round in 0..4 {
            vfs = restarted(&vfs, seed * 10 + round);
            drop(engine);
            engine = match Engine::open(vfs.handle(), options()) {
                Ok(engine) => engine,
                // Renaming may need a page of the directory: not ours to reserve.
                Err(e) if e.message().contains("rename") => continue 'seeds,
                Err(e) => panic!("seed {seed}, round {round}: {e}"),
            };
            opened += 1;
            let t = engine.open_table("t").unwrap();
            assert_eq!(count(&engine, &t), rows, "seed {seed}, round {round}");
            for _ in 0..round {
                engine.background_step();
            }
        }
        engine.drop_table("t").unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        vfs.advance(Duration::from_secs(2));
        while engine.background_step() {}
        vfs.advance(Duration::from_secs(2));
        while engine.background_step() {}
        let t = table(&engine, "again");
        for n in 0..50 {
            put(&engine, &t, n).unwrap_or_else(|e| panic!("seed {seed}, row {n}: {e}"));
        }
        assert!(!engine.is_poisoned());
    }
    assert!(opened > 100, "{opened}");
}

#[test]
fn a_full_disk_does_not_fill_the_operators_log() {
    let vfs = SimVfs::new(Disk::default(), 5);
    let lines = Arc::new(AtomicUsize::new(0));
    let counted = lines.clone();
    let hear = Arc::new(move |_, _: &str| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let engine = Engine::open_with_log(vfs.handle(), options(), hear).unwrap();
    let t = table(&engine, "t");
    leave(&vfs, 60);
    fill(&engine, &t);
    lines.store(0, Ordering::Relaxed);
    // Half an hour.
    for _ in 0..1_800 {
        vfs.advance(Duration::from_secs(1));
        engine.background_step();
        let _ = put(&engine, &t, 7);
    }
    let lines = lines.load(Ordering::Relaxed);
    assert!(lines <= 4 * 30, "{lines} lines");
}
