//! Lists of transactions, locks and waits; who is told of waits and deadlocks.

use std::sync::{Arc, Mutex};

use frond_engine::{
    Engine, ErrorKind, LockKind, OnLocked, RowMode, TransactionState, WaitHooks, Xid,
};

use crate::support::*;

type Told = Arc<Mutex<Vec<(u64, Vec<u64>)>>>;

struct Hooks(Told);

impl WaitHooks for Hooks {
    fn waits(&self, waiter: u64, holders: &[u64]) {
        self.0.lock().unwrap().push((waiter, holders.to_vec()));
    }

    fn waited(&self, _: u64) {}

    // The larger connection gives way.
    fn victim(&self, a: u64, b: u64) -> i32 {
        if a > b {
            -1
        } else {
            1
        }
    }

    fn statement(&self, connection: u64) -> String {
        format!("statement of {connection}")
    }
}

fn states(engine: &Engine) -> Vec<(u64, TransactionState, Option<String>)> {
    let mut all = Vec::new();
    engine.each_transaction(&mut |t| {
        all.push((t.connection, t.state, t.xid.as_ref().map(|xid| format!("{xid:?}"))));
        true
    });
    all
}

#[test]
fn prepared_transactions_are_listed_with_their_names_and_lose_their_connection() {
    let engine = open(&memory());
    let table = engine.create_table(plain("t")).unwrap();
    let mut txn = begin(&engine);
    txn.handle().set_label(7);
    txn.put(&table, b"k", b"v", false).unwrap();
    assert_eq!(states(&engine), [(7, TransactionState::Running, None)]);
    let xid = Xid::new(1, b"g", b"b").unwrap();
    let prepared = txn.prepare(xid.clone()).unwrap();
    let name = Some("'g','b',1".to_owned());
    assert_eq!(states(&engine), [(7, TransactionState::Prepared, name.clone())]);
    drop(prepared);
    assert_eq!(states(&engine), [(0, TransactionState::Detached, name)]);
    let mut locks = Vec::new();
    engine.each_lock(&mut |lock| {
        locks.push((
            lock.place.kind == LockKind::Row,
            lock.place.table.clone(),
            lock.place.key.clone(),
        ));
        true
    });
    locks.sort();
    let of = |is_row, key: &str| (is_row, "t".to_owned(), key.to_owned());
    assert_eq!(locks, [of(false, ""), of(true, "0x6b")]);
    assert!(engine.rollback_prepared(&xid).unwrap());
    assert!(states(&engine).is_empty());
}

#[test]
fn waits_are_told_and_listed_and_deadlocks_printed() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let log = said.clone();
    let engine = Engine::open_with_log(
        Arc::new(memory()),
        small(),
        Arc::new(move |_, message| log.lock().unwrap().push(message.to_owned())),
    )
    .unwrap();
    let told = Told::default();
    assert!(engine.set_wait_hooks(Box::new(Hooks(told.clone()))));
    engine.print_deadlocks(true);
    let table = engine.create_table(plain("t")).unwrap();
    let lock = |label: u64, key: &[u8]| {
        let mut txn = begin(&engine);
        txn.handle().set_label(label);
        txn.lock(&table, 0, key, RowMode::X, OnLocked::Wait).unwrap();
        txn
    };
    let (mut a, mut b) = (lock(1, b"a"), lock(2, b"b"));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| a.lock(&table, 0, b"b", RowMode::X, OnLocked::Wait).map(drop));
        let mut listed = Vec::new();
        while listed.is_empty() {
            std::thread::yield_now();
            engine.each_lock_wait(&mut |w| {
                listed.push((w.waiter_connection, w.blocker_connection, w.place.key.clone()));
                true
            });
        }
        assert_eq!(listed, [(1, 2, "0x62".to_owned())]);
        let refused = b.lock(&table, 0, b"a", RowMode::X, OnLocked::Wait).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Deadlock);
        b.rollback();
        waits.join().unwrap().unwrap();
    });
    assert_eq!(*told.lock().unwrap(), [(1, vec![2])]);
    let said = said.lock().unwrap();
    let text = said.iter().find(|m| m.contains("deadlock")).unwrap();
    let parts =
        ["statement of 1", "behind connection 2", "connection 2 (transaction", "rolled back"];
    for part in parts {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}
