//! Real threads on a disk that is full most of the time: nothing is lost, nothing is poisoned.
// The test takes real time.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use frond_engine::{Engine, ErrorKind, Options};
use frond_vfs::testing::SmallDisk;
use frond_vfs::MemVfs;
use parking_lot::Mutex;

use crate::support::*;

const WRITERS: u64 = 4;

fn value(rng: &mut Rng, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|_| rng.next() as u8).collect()
}

/// Writes rows of its own in small and large transactions until it is stopped; returns the acknowledged rows.
fn write(engine: &Engine, writer: u64, stop: &AtomicBool) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rng = Rng(writer);
    let mut kept = BTreeMap::new();
    let table = engine.open_table("kept").unwrap();
    let may_fail = |e: &frond_engine::Error| {
        assert!(matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::Busy), "{e:?}");
    };
    while !stop.load(Ordering::Relaxed) {
        let (rows, bytes) = [(1, 50), (20, 200), (3, 100_000)][rng.below(3) as usize];
        let mut txn = begin(engine);
        let mut changes = Vec::new();
        for _ in 0..rows {
            let k = [key(rng.below(300)), vec![writer as u8]].concat();
            let v = value(&mut rng, bytes);
            match txn.put(&table, &k, &v, false) {
                Ok(()) => changes.push((k, v)),
                Err(e) => may_fail(&e),
            }
        }
        match txn.commit() {
            Ok(_) => kept.extend(changes),
            Err(e) => {
                may_fail(&e);
                std::thread::yield_now();
            }
        }
    }
    kept
}

struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn threads_on_a_full_disk_lose_nothing_and_poison_nothing() {
    let disk = SmallDisk::new(MemVfs::new(), 64 << 20);
    let options = Options {
        cache_bytes: 8 << 20,
        log_segment_bytes: 256 << 10,
        log_capacity_bytes: 2 << 20,
        leaf_bytes: 128 << 10,
        background_threads: 2,
        ..Options::default()
    };
    let said = Arc::new(Mutex::new(Vec::new()));
    let hear = said.clone();
    let log: frond_engine::Log = Arc::new(move |_, line: &str| hear.lock().push(line.to_owned()));
    let engine =
        Engine::open_with_log(Arc::new(disk.clone()), options.clone(), log.clone()).unwrap();
    engine.create_table(plain("kept")).unwrap();
    // Little is left.
    disk.leave(3 << 20);
    let stop = AtomicBool::new(false);
    let mut kept = BTreeMap::new();
    std::thread::scope(|s| {
        // The writers end as well when this thread fails.
        let ending = Ending(&stop);
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| {
                let (engine, stop) = (&engine, &stop);
                s.spawn(move || write(engine, w, stop))
            })
            .collect();
        let until = Instant::now() + Duration::from_secs(6);
        let mut rng = Rng(99);
        let mut dropped = 0;
        let at_most = until + Duration::from_secs(30);
        // Whether there is space to create the table is a matter of luck: repeat until it succeeded once.
        while Instant::now() < until || (dropped == 0 && Instant::now() < at_most) {
            // Another program fills the disk, and frees space.
            let taken = disk.leave(0);
            std::thread::sleep(Duration::from_millis(rng.below(60)));
            disk.add(taken + rng.below(1 << 20));
            std::thread::sleep(Duration::from_millis(rng.below(200)));
            if let Ok(t) = engine.create_table(plain("passing")) {
                let mut txn = begin(&engine);
                let filled = txn.put(&t, b"k", &value(&mut rng, 200_000), false).is_ok();
                if filled {
                    let _ = txn.commit();
                }
            }
            let full = disk.leave(0);
            match engine.drop_table("passing") {
                Ok(()) => dropped += 1,
                Err(e) => {
                    assert!(matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::NotFound), "{e:?}")
                }
            }
            disk.add(full);
            assert!(!engine.is_poisoned(), "{:?}", said.lock());
        }
        assert!(dropped > 0, "no table was ever dropped");
        drop(ending);
        for w in writers {
            kept.extend(w.join().unwrap());
        }
    });
    assert!(!engine.is_poisoned(), "{:?}", said.lock());
    assert!(kept.len() > 100, "{} rows", kept.len());
    let table = engine.open_table("kept").unwrap();
    assert!(all(&engine, &table) == kept.clone().into_iter().collect::<Vec<_>>());
    drop(table);
    drop(engine);
    disk.leave(0);
    let engine = Engine::open_with_log(Arc::new(disk.clone()), options, log).unwrap();
    disk.add(32 << 20);
    let table = engine.open_table("kept").unwrap();
    assert!(all(&engine, &table) == kept.into_iter().collect::<Vec<_>>());
    // Writing goes on by itself.
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let mut txn = begin(&engine);
        let done = txn.put(&table, b"after", b"v", false).and_then(|()| txn.commit());
        match done {
            Ok(_) => break,
            Err(e) => assert!(e.kind() == ErrorKind::NoSpace && Instant::now() < until, "{e:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    engine.flush_all().unwrap();
    let outcome = engine.check_all(&mut |_| ());
    assert!(outcome.is_clean(), "{:?}", outcome.problems);
}
