//! Random locks of many threads: no deadlock is missed, none invented.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::*;

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

const ENOUGH: u64 = 100;

/// Threads lock few keys at random, in all modes, with upgrades, tree locks and interrupts. The
/// keys' owners are tracked outside: no conflicting holders (locks are real), no wait reaches the
/// timeout (no deadlock is missed), and with sorted keys there is none at all (none is invented). It
/// goes on until [`ENOUGH`] transactions have come through, on however slow a machine.
fn stress(ordered: bool, seed: u64, run_for: Duration) -> (u64, u64) {
    const KEYS: u64 = 8;
    let t = table();
    let holders: Vec<Mutex<BTreeMap<u64, RowMode>>> = (0..KEYS).map(|_| Mutex::default()).collect();
    let commits = AtomicU64::new(0);
    let until = Instant::now() + run_for;
    std::thread::scope(|s| {
        for thread in 0..8u64 {
            let (t, holders, commits) = (Arc::clone(&t), &holders, &commits);
            s.spawn(move || {
                let mut rng = Rng(seed * 1000 + thread + 1);
                let mut txn = thread;
                while Instant::now() < until || commits.load(Ordering::Relaxed) <= ENOUGH {
                    assert!(Instant::now() < until + Duration::from_secs(60), "{:?}", t.waits());
                    txn += 8;
                    let mut l = t.locker(TxnId(txn));
                    l.set_weight(rng.below(3));
                    let mut mine: BTreeMap<u64, RowMode> = BTreeMap::new();
                    let mut at = 0;
                    for _ in 0..2 + rng.below(4) {
                        let k = if ordered { at + rng.below(3) } else { rng.below(KEYS) };
                        if k >= KEYS {
                            break;
                        }
                        at = k + 1;
                        let mode = if ordered || rng.below(3) > 0 { X } else { S };
                        if !ordered && rng.below(60) == 0 {
                            let m = [TreeMode::S, TreeMode::X][rng.below(2) as usize];
                            match l.lock_tree(TREE, m, LONG).map_err(|e| e.kind()) {
                                Ok(_) => {}
                                Err(ErrorKind::Interrupted) => l.handle().clear_interrupt(),
                                Err(ErrorKind::Deadlock) => break,
                                Err(e) => panic!("{e:?}: {:?}", t.waits()),
                            }
                        }
                        if !ordered && rng.below(50) == 0 {
                            t.interrupt(TxnId(txn ^ 1));
                        }
                        match lock(&mut l, &k.to_string(), mode, LONG) {
                            Ok(_) => {}
                            Err(ErrorKind::Deadlock) => break,
                            Err(ErrorKind::Interrupted) => {
                                l.handle().clear_interrupt();
                                continue;
                            }
                            Err(e) => panic!("{e:?}: {:?}", t.waits()),
                        }
                        let mut h = holders[k as usize].lock().unwrap();
                        for (other, m) in h.iter().filter(|(o, _)| **o != txn) {
                            assert!(
                                *m == S && mode == S,
                                "{txn} got {mode:?} on {k} while {other} has {m:?}"
                            );
                        }
                        if h.get(&txn) != Some(&X) {
                            h.insert(txn, mode);
                            mine.insert(k, mode);
                        }
                        drop(h);
                        if rng.below(4) == 0 {
                            std::thread::yield_now();
                        }
                    }
                    for k in mine.keys() {
                        holders[*k as usize].lock().unwrap().remove(&txn);
                    }
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!((t.lock_count(), t.memory_bytes(), t.waits().len()), (0, 0, 0));
    assert_eq!(t.stats().timeouts, 0);
    (commits.into_inner(), t.stats().deadlocks)
}

#[test]
fn random_waits_resolve_every_deadlock_and_hang_nobody() {
    for seed in 1..=4 {
        let (commits, deadlocks) = stress(false, seed, Duration::from_millis(500));
        assert!(commits > ENOUGH && deadlocks > 0, "{commits} transactions, {deadlocks} deadlocks");
    }
}

#[test]
fn ordered_locking_never_reports_a_deadlock() {
    let (commits, deadlocks) = stress(true, 9, Duration::from_millis(800));
    assert_eq!(deadlocks, 0);
    assert!(commits > ENOUGH);
}
