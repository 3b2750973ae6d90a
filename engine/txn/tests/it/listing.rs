//! What is listed of owners, locks and waits; who hears of waits and deadlocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use frond_txn::{DeadlockReport, LockListing, LockObserver, OwnerHandle};

use super::*;

/// Who waits, for whom.
type HeardWait = (u64, Vec<u64>);

#[derive(Clone, Default)]
struct Heard {
    /// Waiter and holders, by label.
    waits: Arc<Mutex<Vec<HeardWait>>>,
    ended: Arc<Mutex<Vec<u64>>>,
    deadlocks: Arc<Mutex<Vec<DeadlockReport>>>,
    /// Of two in a cycle this one gives way.
    rather: Option<u64>,
    /// Holders are interrupted.
    kills: Arc<Mutex<Vec<OwnerHandle>>>,
}

impl LockObserver for Heard {
    fn waits(&self, waiter: u64, holders: &[u64]) {
        self.waits.lock().unwrap().push((waiter, holders.to_vec()));
        self.kills.lock().unwrap().iter().for_each(OwnerHandle::interrupt);
    }

    fn waited(&self, waiter: u64) {
        self.ended.lock().unwrap().push(waiter);
    }

    fn victim(&self, a: u64, b: u64) -> i32 {
        match self.rather {
            Some(label) if label == a => -1,
            Some(label) if label == b => 1,
            _ => 0,
        }
    }

    fn deadlock(&self, report: &DeadlockReport) {
        self.deadlocks.lock().unwrap().push(report.clone());
    }
}

fn labelled(t: &Arc<LockTable>, id: u64) -> Locker {
    let locker = t.locker(TxnId(id));
    locker.handle().set_label(id * 100);
    locker
}

#[test]
fn observer_hears_of_each_wait_with_all_that_are_before_it() {
    let (t, heard) = (table(), Heard::default());
    t.set_observer(Box::new(heard.clone()));
    let mut a = labelled(&t, 1);
    assert_eq!(lock(&mut a, "k", S, LONG), Ok(Granted::New));
    std::thread::scope(|scope| {
        let mut b = labelled(&t, 2);
        let second = scope.spawn(move || lock(&mut b, "k", X, LONG));
        until_waiting(&t, 1);
        let mut c = labelled(&t, 3);
        let third = scope.spawn(move || lock(&mut c, "k", S, LONG));
        until_waiting(&t, 2);
        let until = Instant::now() + Duration::from_secs(20);
        let told = |n| {
            while heard.waits.lock().unwrap().len() < n {
                assert!(Instant::now() < until, "{:?}", heard.waits.lock().unwrap());
                std::thread::yield_now();
            }
        };
        told(2);
        assert_eq!(*heard.waits.lock().unwrap(), [(200, vec![100]), (300, vec![200])]);
        // The holder of S gets X at once: now the third waits for it as well, and says so.
        assert_eq!(lock(&mut a, "k", X, Wait::NoWait), Ok(Granted::Upgraded));
        told(4);
        assert!(heard.waits.lock().unwrap().contains(&(300, vec![100, 200])));
        a.release_all();
        assert_eq!(second.join().unwrap(), Ok(Granted::New));
        assert_eq!(third.join().unwrap(), Ok(Granted::New));
    });
    let mut ended = heard.ended.lock().unwrap().clone();
    ended.dedup();
    assert!(ended.contains(&200) && ended.contains(&300));
    assert_eq!((t.lock_count(), t.memory_bytes()), (0, 0));
}

#[test]
fn observer_may_interrupt_a_waiting_holder_at_once() {
    let (t, heard) = (table(), Heard::default());
    t.set_observer(Box::new(heard.clone()));
    let (mut a, mut b) = (labelled(&t, 1), labelled(&t, 2));
    assert_eq!(lock(&mut a, "first", X, LONG), Ok(Granted::New));
    assert_eq!(lock(&mut b, "second", X, LONG), Ok(Granted::New));
    let handle = b.handle();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let outcome = lock(&mut b, "first", X, LONG);
            drop(b);
            outcome
        });
        until_waiting(&t, 1);
        let mut c = labelled(&t, 3);
        heard.kills.lock().unwrap().push(handle);
        // It would wait for ever, as a never ends before c does.
        assert_eq!(lock(&mut c, "second", X, LONG), Ok(Granted::New));
        assert_eq!(waiting.join().unwrap(), Err(ErrorKind::Interrupted));
    });
}

#[test]
fn observer_chooses_the_victim_and_hears_of_the_deadlock() {
    for rather in [100, 200] {
        let t = table();
        let heard = Heard { rather: Some(rather), ..Heard::default() };
        t.set_observer(Box::new(heard.clone()));
        let (mut a, mut b) = (labelled(&t, 1), labelled(&t, 2));
        // Without a preference a would give way.
        b.set_weight(9);
        assert_eq!(lock(&mut a, "first", X, LONG), Ok(Granted::New));
        assert_eq!(lock(&mut b, "second", X, LONG), Ok(Granted::New));
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                let outcome = lock(&mut b, "first", X, LONG);
                drop(b);
                outcome
            });
            until_waiting(&t, 1);
            let outcome = lock(&mut a, "second", X, LONG);
            drop(a);
            let outcomes = [outcome, other.join().unwrap()];
            let victim = outcomes.iter().position(|o| *o == Err(ErrorKind::Deadlock));
            assert_eq!(victim, Some(rather as usize / 100 - 1), "{outcomes:?}");
        });
        let reports = heard.deadlocks.lock().unwrap();
        assert_eq!(reports.len(), 1);
        assert_eq!(reports[0].victim, TxnId(rather / 100));
        let mut labels: Vec<u64> = reports[0].members.iter().map(|m| m.label).collect();
        labels.sort_unstable();
        assert_eq!(labels, [100, 200]);
    }
}

#[test]
fn owners_and_locks_are_listed_in_pieces() {
    let t = table();
    t.set_clock(|| Duration::from_secs(7));
    let mut a = labelled(&t, 1);
    let mut b = labelled(&t, 2);
    a.set_weight(5);
    for n in 0..1000 {
        assert_eq!(lock(&mut a, &format!("{n}"), X, LONG), Ok(Granted::New));
    }
    let mut owners = t.owners();
    owners.sort_by_key(|o| o.owner);
    let of = |o: &frond_txn::OwnerInfo| (o.owner.0, o.label, o.weight, o.locks, o.since.as_secs());
    assert_eq!(
        owners.iter().map(of).collect::<Vec<_>>(),
        [(1, 100, 5, 1001, 7), (2, 200, 0, 0, 7)]
    );
    let (mut at, mut batch, mut keys) = (LockListing::default(), Vec::new(), Vec::new());
    let mut pieces = 0;
    while t.more_locks(&mut at, 3, &mut batch) {
        assert!(batch.len() <= 3, "a piece of {}", batch.len());
        keys.extend(batch.iter().map(|l| l.key.clone()));
        pieces += 1;
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 1001);
    assert!(pieces > 300);
    assert_eq!(t.locks(10).len(), 10);
    // One at rest is not listed, and keeps its number and label for the next one.
    assert!(b.rest() && !a.rest());
    assert_eq!(t.owners().len(), 1);
    b.handle().interrupt();
    b.wake();
    assert!(!b.handle().is_interrupted());
    assert!(t.owners().iter().any(|o| (o.owner.0, o.label) == (2, 200)));
    assert_eq!(lock(&mut b, "free", X, LONG), Ok(Granted::New));
    drop((a, b));
    assert!(t.owners().is_empty());
}

#[test]
fn time_of_a_wait_does_not_begin_again_when_an_upgrade_overtakes_it() {
    for observed in [true, false] {
        let t = table();
        if observed {
            t.set_observer(Box::new(Heard::default()));
        }
        let seconds = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&seconds);
        t.set_clock(move || Duration::from_secs(clock.load(Ordering::SeqCst)));
        let (mut a, mut b, mut w) = (t.locker(TxnId(1)), t.locker(TxnId(2)), t.locker(TxnId(3)));
        assert_eq!(lock(&mut a, "k", S, LONG), Ok(Granted::New));
        assert_eq!(lock(&mut b, "k", S, LONG), Ok(Granted::New));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lock(&mut w, "k", X, Wait::Block(Duration::from_secs(15))));
            until_waiting(&t, 1);
            seconds.store(16, Ordering::SeqCst);
            let begin = Instant::now();
            let upgrades = scope.spawn(|| lock(&mut b, "k", X, LONG));
            assert_eq!(waits.join().unwrap(), Err(ErrorKind::LockTimeout));
            assert!(begin.elapsed() < Duration::from_secs(10), "its 15 seconds began again");
            a.release_all();
            assert_eq!(upgrades.join().unwrap(), Ok(Granted::Upgraded));
        });
    }
}
