//! The lock table: order, upgrades, deadlocks, interrupts, locks given back, limits; `stress` has random ones.

// Helpers outside #[test] functions; no simulated time in tests with real threads.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use frond_base::{ErrorKind, TableId, TreeId};
use frond_txn::{Granted, LockOptions, LockTable, Locker, RowMode, TreeMode, TxnId, Wait};
use RowMode::{S, X};

mod listing;
mod ranges;
mod restore;
mod stress;

const TREE: TreeId = TreeId { table: TableId(1), index: 0 };
const OTHER: TreeId = TreeId { table: TableId(1), index: 1 };
const LONG: Wait = Wait::Block(Duration::from_secs(20));

fn table() -> Arc<LockTable> {
    LockTable::new(LockOptions::default())
}

fn lock(l: &mut Locker, key: &str, mode: RowMode, wait: Wait) -> Result<Granted, ErrorKind> {
    l.lock(TREE, key.as_bytes(), mode, wait).map_err(|e| e.kind())
}

/// Waits until `n` owners queue.
fn until_waiting(t: &LockTable, n: usize) {
    let start = Instant::now();
    while t.waits().len() != n {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", t.waits());
        std::thread::yield_now();
    }
}

#[test]
fn modes_reentry_and_upgrade_without_contention() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    assert_eq!(lock(&mut a, "k", S, LONG), Ok(Granted::New));
    assert_eq!(lock(&mut a, "k", S, LONG), Ok(Granted::AlreadyHeld));
    assert_eq!(lock(&mut b, "k", S, Wait::NoWait), Ok(Granted::New));
    assert_eq!(lock(&mut b, "k", X, Wait::NoWait), Err(ErrorKind::LockNoWait));
    a.release_all();
    assert_eq!(lock(&mut b, "k", X, Wait::NoWait), Ok(Granted::Upgraded));
    assert_eq!(lock(&mut b, "k", S, Wait::NoWait), Ok(Granted::AlreadyHeld));
    assert_eq!(lock(&mut a, "k", S, Wait::NoWait), Err(ErrorKind::LockNoWait));
    assert_eq!(lock(&mut a, "l", X, Wait::NoWait), Ok(Granted::New));
    let other = a.lock(OTHER, b"k", X, Wait::NoWait).map_err(|e| e.kind());
    assert_eq!(other, Ok(Granted::New));
    drop((a, b));
    assert_eq!((t.lock_count(), t.memory_bytes()), (0, 0));
}

#[test]
fn long_keys_and_their_prefixes_are_different_locks() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    for n in [0, 1, 37, 38, 39, 3500] {
        assert_eq!(lock(&mut a, &"k".repeat(n), X, LONG), Ok(Granted::New));
        assert_eq!(lock(&mut b, &"k".repeat(n), X, Wait::NoWait), Err(ErrorKind::LockNoWait));
        assert_eq!(lock(&mut b, &"k".repeat(n + 50), X, Wait::NoWait), Ok(Granted::New));
    }
    drop((a, b));
    assert_eq!(t.memory_bytes(), 0);
}

#[test]
fn release_wakes_waiters_in_order_of_arrival() {
    let t = table();
    let mut holder = t.locker(TxnId(1));
    lock(&mut holder, "k", X, LONG).unwrap();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for i in 0..6 {
            let (t2, order) = (Arc::clone(&t), &order);
            s.spawn(move || {
                let mut l = t2.locker(TxnId(10 + i));
                lock(&mut l, "k", X, LONG).unwrap();
                order.lock().unwrap().push(i);
            });
            until_waiting(&t, i as usize + 1);
        }
        holder.release_all();
    });
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(t.memory_bytes(), 0);
}

#[test]
fn writer_is_not_starved_by_a_stream_of_readers() {
    let t = table();
    let mut first = t.locker(TxnId(1));
    lock(&mut first, "k", S, LONG).unwrap();
    std::thread::scope(|s| {
        let t2 = Arc::clone(&t);
        let writer = s.spawn(move || {
            let mut w = t2.locker(TxnId(2));
            lock(&mut w, "k", X, LONG).unwrap();
            w
        });
        until_waiting(&t, 1);
        // A reader that comes later goes behind the writer, though S goes with S.
        let mut late = t.locker(TxnId(3));
        assert_eq!(lock(&mut late, "k", S, Wait::NoWait), Err(ErrorKind::LockNoWait));
        // An owner that has the lock already does not queue.
        assert_eq!(lock(&mut first, "k", S, Wait::NoWait), Ok(Granted::AlreadyHeld));
        first.release_all();
        drop(writer.join().unwrap());
        assert_eq!(lock(&mut late, "k", S, Wait::NoWait), Ok(Granted::New));
    });
}

#[test]
fn readers_behind_a_writer_are_granted_together() {
    let t = table();
    let mut holder = t.locker(TxnId(1));
    lock(&mut holder, "k", X, LONG).unwrap();
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|s| {
        for i in 0..4 {
            let (t, barrier) = (Arc::clone(&t), &barrier);
            s.spawn(move || {
                let mut l = t.locker(TxnId(10 + i));
                lock(&mut l, "k", S, LONG).unwrap();
                barrier.wait(); // passes only when all hold it at once
            });
        }
        until_waiting(&t, 4);
        holder.release_all();
    });
}

#[test]
fn two_upgrades_are_a_deadlock_and_one_survives() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    lock(&mut a, "k", S, LONG).unwrap();
    lock(&mut b, "k", S, LONG).unwrap();
    std::thread::scope(|s| {
        let a = s.spawn(move || lock(&mut a, "k", X, LONG));
        until_waiting(&t, 1);
        assert_eq!(lock(&mut b, "k", X, LONG), Err(ErrorKind::Deadlock));
        // The victim still holds S until it rolls back.
        until_waiting(&t, 1);
        drop(b);
        assert_eq!(a.join().unwrap(), Ok(Granted::Upgraded));
    });
    let report = t.last_deadlock().unwrap();
    assert_eq!((report.victim, report.members.len()), (TxnId(2), 2));
    assert!(report.to_string().contains("transaction 2 was rolled back"), "{report}");
    assert_eq!(t.memory_bytes(), 0);
}

#[test]
fn upgrade_goes_before_waiters() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    lock(&mut a, "k", S, LONG).unwrap();
    lock(&mut b, "k", S, LONG).unwrap();
    std::thread::scope(|s| {
        let t2 = Arc::clone(&t);
        let order = Arc::new(Mutex::new(Vec::new()));
        let (o1, o2) = (Arc::clone(&order), Arc::clone(&order));
        s.spawn(move || {
            let mut c = t2.locker(TxnId(3));
            lock(&mut c, "k", X, LONG).unwrap();
            o1.lock().unwrap().push("waiter");
        });
        until_waiting(&t, 1);
        s.spawn(move || {
            lock(&mut a, "k", X, LONG).unwrap();
            o2.lock().unwrap().push("upgrade");
            drop(a);
        });
        until_waiting(&t, 2);
        b.release_all();
        until_waiting(&t, 0);
        while order.lock().unwrap().len() < 2 {
            std::thread::yield_now();
        }
        assert_eq!(*order.lock().unwrap(), ["upgrade", "waiter"]);
    });
}

/// Three transactions in a cycle; the last to wait closes it. Returns the victim.
fn ring(weights: [u64; 3]) -> usize {
    let t = table();
    let mut lockers: Vec<_> = (0..3)
        .map(|i| {
            let mut l = t.locker(TxnId(i + 1));
            l.set_weight(weights[i as usize]);
            lock(&mut l, &format!("k{i}"), X, LONG).unwrap();
            l
        })
        .collect();
    let mut victims = Vec::new();
    std::thread::scope(|s| {
        let mut threads = Vec::new();
        for (i, mut l) in lockers.drain(..).enumerate() {
            threads.push(s.spawn(move || {
                let got = lock(&mut l, &format!("k{}", (i + 1) % 3), X, LONG);
                drop(l);
                got
            }));
            if i < 2 {
                until_waiting(&t, i + 1);
            }
        }
        for (i, th) in threads.into_iter().enumerate() {
            match th.join().unwrap() {
                Ok(_) => {}
                Err(e) => {
                    assert_eq!(e, ErrorKind::Deadlock);
                    victims.push(i);
                }
            }
        }
    });
    assert_eq!((victims.len(), t.stats().deadlocks), (1, 1));
    assert_eq!(t.last_deadlock().unwrap().members.len(), 3);
    victims[0]
}

#[test]
fn deadlock_victim_has_the_least_weight_and_among_equals_closes_the_ring() {
    assert_eq!(ring([0, 0, 0]), 2);
    assert_eq!(ring([5, 1, 9]), 1);
    assert_eq!(ring([1, 5, 9]), 0);
    assert_eq!(ring([5, 9, 1]), 2);
}

#[test]
fn deadlock_through_a_queued_request_is_found() {
    // 1 holds a (S), 2 waits for a (X), 3 wants a (S): it waits only because 2 is before it.
    // 1 then waits for what 3 holds: 1 -> 3 -> 2 -> 1.
    let t = table();
    let (mut one, mut three) = (t.locker(TxnId(1)), t.locker(TxnId(3)));
    lock(&mut one, "a", S, LONG).unwrap();
    lock(&mut three, "b", X, LONG).unwrap();
    std::thread::scope(|s| {
        let t2 = Arc::clone(&t);
        let two = s.spawn(move || {
            let mut two = t2.locker(TxnId(2));
            lock(&mut two, "a", X, LONG)
        });
        until_waiting(&t, 1);
        let three = s.spawn(move || lock(&mut three, "a", S, LONG));
        until_waiting(&t, 2);
        assert_eq!(lock(&mut one, "b", X, LONG), Err(ErrorKind::Deadlock));
        drop(one);
        assert_eq!(two.join().unwrap(), Ok(Granted::New));
        assert_eq!(three.join().unwrap(), Ok(Granted::New));
    });
}

#[test]
fn deadlock_between_row_and_tree_locks_is_found() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    lock(&mut a, "k", X, LONG).unwrap();
    b.lock(OTHER, b"x", X, LONG).unwrap();
    std::thread::scope(|s| {
        let b = s.spawn(move || b.lock_tree(TREE, TreeMode::S, LONG).map_err(|e| e.kind()));
        until_waiting(&t, 1);
        let got = a.lock(OTHER, b"x", X, LONG).map_err(|e| e.kind());
        assert_eq!(got, Err(ErrorKind::Deadlock));
        drop(a);
        assert_eq!(b.join().unwrap(), Ok(Granted::New));
    });
}

#[test]
fn wait_times_out_and_leaves_no_trace() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    lock(&mut a, "k", X, LONG).unwrap();
    let start = Instant::now();
    let short = Wait::Block(Duration::from_millis(30));
    assert_eq!(lock(&mut b, "k", X, short), Err(ErrorKind::LockTimeout));
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!((t.waits().len(), t.stats().timeouts), (0, 1));
    a.release_all();
    assert_eq!(lock(&mut a, "k", X, Wait::NoWait), Ok(Granted::New));
}

#[test]
fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
    let t = table();
    let mut a = t.locker(TxnId(1));
    lock(&mut a, "k", S, LONG).unwrap();
    std::thread::scope(|s| {
        let (t2, t3) = (Arc::clone(&t), Arc::clone(&t));
        let writer = s.spawn(move || {
            let mut w = t2.locker(TxnId(2));
            lock(&mut w, "k", X, LONG)
        });
        until_waiting(&t, 1);
        let reader = s.spawn(move || {
            let mut r = t3.locker(TxnId(3));
            lock(&mut r, "k", S, LONG)
        });
        until_waiting(&t, 2);
        assert!(t.interrupt(TxnId(2)));
        assert_eq!(writer.join().unwrap(), Err(ErrorKind::Interrupted));
        assert_eq!(reader.join().unwrap(), Ok(Granted::New));
    });
}

#[test]
fn interrupt_before_the_wait_counts_until_cleared() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    lock(&mut a, "k", X, LONG).unwrap();
    let h = b.handle();
    h.interrupt();
    assert_eq!(lock(&mut b, "k", X, LONG), Err(ErrorKind::Interrupted));
    assert_eq!(lock(&mut b, "free", X, LONG), Ok(Granted::New), "nothing to wait for");
    h.clear_interrupt();
    let short = Wait::Block(Duration::from_millis(5));
    assert_eq!(lock(&mut b, "k", X, short), Err(ErrorKind::LockTimeout));
    assert!(!t.interrupt(TxnId(77)));
}

#[test]
fn a_lock_given_back_frees_its_row_and_no_other() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    lock(&mut a, "one", X, LONG).unwrap();
    let one = a.loosen();
    lock(&mut a, "two", X, LONG).unwrap();
    a.lock(OTHER, b"z", X, LONG).unwrap();
    let other = a.loosen();
    lock(&mut a, "three", S, LONG).unwrap();
    let (memory, rows) = (t.memory_bytes(), a.rows_locked(TREE));
    assert!(a.give_back(one));
    assert!(t.memory_bytes() < memory);
    assert_eq!((a.rows_locked(TREE), a.rows_locked(OTHER)), (rows - 1, 1));
    assert!(!a.give_back(one), "only once");
    assert_eq!(lock(&mut b, "one", X, Wait::NoWait), Ok(Granted::New));
    for k in ["two", "three"] {
        assert_eq!(lock(&mut b, k, X, Wait::NoWait), Err(ErrorKind::LockNoWait), "{k}");
    }
    let z = b.lock(OTHER, b"z", S, Wait::NoWait);
    assert_eq!(z.unwrap_err().kind(), ErrorKind::LockNoWait);
    assert!(a.give_back(other));
    assert_eq!(b.lock(OTHER, b"z", S, Wait::NoWait).unwrap(), Granted::New);
    drop((a, b));
    assert_eq!((t.lock_count(), t.memory_bytes()), (0, 0));
}

#[test]
fn a_lock_that_was_asked_for_again_stays() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    lock(&mut a, "held", X, LONG).unwrap();
    let held = a.loosen();
    assert_eq!(lock(&mut a, "held", S, LONG), Ok(Granted::AlreadyHeld));
    lock(&mut a, "upgraded", S, LONG).unwrap();
    let upgraded = a.loosen();
    assert_eq!(lock(&mut a, "upgraded", X, LONG), Ok(Granted::Upgraded));
    lock(&mut a, "kept", X, LONG).unwrap();
    let kept = a.loosen();
    a.fasten(kept);
    for (key, loose) in [("held", held), ("upgraded", upgraded), ("kept", kept)] {
        assert!(!a.give_back(loose), "{key}");
        assert_eq!(lock(&mut b, key, S, Wait::NoWait), Err(ErrorKind::LockNoWait), "{key}");
    }
    // An upgrade that had to wait.
    lock(&mut a, "shared", S, LONG).unwrap();
    let shared = a.loosen();
    lock(&mut b, "shared", S, LONG).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| assert_eq!(lock(&mut a, "shared", X, LONG), Ok(Granted::Upgraded)));
        until_waiting(&t, 1);
        b.release_all();
    });
    assert!(!a.give_back(shared));
    drop((a, b));
    assert_eq!((t.lock_count(), t.memory_bytes()), (0, 0));
}

#[test]
fn a_lock_exchanged_for_the_trees_cannot_be_given_back() {
    let t = LockTable::new(LockOptions { escalate_after: 2, ..LockOptions::default() });
    let mut a = t.locker(TxnId(1));
    lock(&mut a, "1", X, LONG).unwrap();
    lock(&mut a, "2", X, LONG).unwrap();
    let loose = a.loosen();
    assert!(a.escalate(TREE, X));
    let mut b = t.locker(TxnId(2));
    b.lock(OTHER, b"in the slot that is free now", X, LONG).unwrap();
    assert!(!a.give_back(loose));
    // More of them than scans have: the oldest stay.
    b.release_all();
    let all: Vec<_> = (0..20)
        .map(|n| {
            b.lock(OTHER, &[n], X, LONG).unwrap();
            b.loosen()
        })
        .collect();
    assert_eq!(all.iter().filter(|l| b.give_back(**l)).count(), 16);
}

#[test]
fn memory_limit_refuses_rows_and_release_makes_room() {
    let t = LockTable::new(LockOptions { memory_limit: 20_000, escalate_after: 10 });
    let mut a = t.locker(TxnId(1));
    let mut n = 0;
    let refused = loop {
        match lock(&mut a, &format!("key {n}"), X, LONG) {
            Ok(_) => n += 1,
            Err(e) => break e,
        }
        assert!(t.memory_bytes() <= 20_000);
    };
    assert_eq!(refused, ErrorKind::LockTableFull);
    assert!(n > 50, "{n} locks in 20000 bytes");
    assert!(a.should_escalate(TREE));
    assert!(a.escalate(TREE, X));
    assert_eq!(lock(&mut a, "one more", X, LONG), Ok(Granted::AlreadyHeld));
    assert_eq!((t.lock_count(), a.held()), (1, 1));
    a.release_all();
    assert_eq!(t.memory_bytes(), 0);
}

#[test]
fn escalation_needs_that_nobody_else_is_in_the_way() {
    let t = LockTable::new(LockOptions { escalate_after: 3, ..LockOptions::default() });
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    for k in ["1", "2", "3"] {
        lock(&mut a, k, X, LONG).unwrap();
    }
    lock(&mut b, "other row", S, LONG).unwrap();
    assert!(a.should_escalate(TREE) && !a.escalate(TREE, X));
    assert!(!a.should_escalate(TREE), "not again at once");
    assert!(a.covers(TREE, b"1", X) && !a.covers(TREE, b"other row", S));
    assert!(b.covers(TREE, b"other row", S) && !b.covers(TREE, b"other row", X));
    assert_eq!(lock(&mut b, "1", S, Wait::NoWait), Err(ErrorKind::LockNoWait), "rows stay locked");
    let memory = t.memory_bytes();
    b.release_all();
    assert!(a.escalate(TREE, X));
    assert!(a.covers(TREE, b"other row", X) && !b.covers(TREE, b"other row", S));
    assert!(t.memory_bytes() < memory);
    assert_eq!(lock(&mut b, "other row", S, Wait::NoWait), Err(ErrorKind::LockNoWait));
    assert_eq!(lock(&mut b, "1", S, Wait::NoWait), Err(ErrorKind::LockNoWait));
    // Readers and S escalation go together.
    a.release_all();
    lock(&mut a, "1", S, LONG).unwrap();
    lock(&mut b, "1", S, LONG).unwrap();
    assert!(a.escalate(TREE, S) && b.escalate(TREE, S));
    drop((a, b));
    assert_eq!((t.lock_count(), t.memory_bytes()), (0, 0));
}

#[test]
fn asking_for_a_shared_lock_escalates_rows_locked_exclusively_as_such() {
    let t = LockTable::new(LockOptions { escalate_after: 3, ..LockOptions::default() });
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    for k in ["1", "2", "3"] {
        lock(&mut a, k, X, LONG).unwrap();
    }
    assert!(a.escalate(TREE, S));
    assert_eq!(lock(&mut b, "1", S, Wait::NoWait), Err(ErrorKind::LockNoWait));
    assert_eq!(lock(&mut b, "another", S, Wait::NoWait), Err(ErrorKind::LockNoWait));
    assert_eq!(lock(&mut a, "9", S, LONG), Ok(Granted::AlreadyHeld));
    drop((a, b));
    assert_eq!((t.lock_count(), t.memory_bytes()), (0, 0));
}

#[test]
fn status_lists_locks_and_waits() {
    let t = table();
    let mut a = t.locker(TxnId(1));
    lock(&mut a, "k", X, LONG).unwrap();
    assert_eq!(t.locks(100).len(), 2);
    assert_eq!(t.locks(1).len(), 1);
    std::thread::scope(|s| {
        let t2 = Arc::clone(&t);
        s.spawn(move || {
            let mut b = t2.locker(TxnId(2));
            lock(&mut b, "k", S, LONG).unwrap();
        });
        until_waiting(&t, 1);
        let w = &t.waits()[0];
        assert_eq!(
            (w.waiter, &w.blockers[..], w.key.as_deref()),
            (TxnId(2), &[TxnId(1)][..], Some(&b"k"[..]))
        );
        assert_eq!((w.tree, w.mode), (TREE, TreeMode::S));
        a.release_all();
    });
}

#[test]
fn waits_are_counted_for_row_and_tree_locks_and_only_when_another_owner_is_in_the_way() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    assert_eq!(lock(&mut a, "k", X, LONG), Ok(Granted::New));
    assert_eq!(lock(&mut b, "free", X, LONG), Ok(Granted::New));
    assert_eq!(lock(&mut b, "k", X, Wait::NoWait), Err(ErrorKind::LockNoWait));
    assert_eq!((a.waits(), b.waits()), (0, 0));
    let short = Wait::Block(Duration::from_millis(5));
    assert_eq!(lock(&mut b, "k", X, short), Err(ErrorKind::LockTimeout));
    assert_eq!((a.waits(), b.waits()), (0, 1));
    assert_eq!(b.lock_tree(TREE, TreeMode::X, short).unwrap_err().kind(), ErrorKind::LockTimeout);
    assert_eq!(b.waits(), 2);
    std::thread::scope(|s| {
        s.spawn(|| {
            until_waiting(&t, 1);
            a.release_all();
        });
        assert_eq!(lock(&mut b, "k", X, LONG), Ok(Granted::New));
    });
    assert_eq!(b.waits(), 3);
}
