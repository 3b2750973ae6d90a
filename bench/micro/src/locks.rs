//! Measures the lock table and the write set. The caller passes the clock.

use std::time::Duration;

use frond_base::{TableId, TreeId};
use frond_txn::{LockOptions, LockTable, RowMode, TxnId, Wait, WriteSet};

/// Nanoseconds per lock, transaction or row.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// A new X lock on a 12-byte key, without conflict, and its release; in transactions with
    /// 1000 locks.
    pub lock_ns: f64,
    pub release_ns: f64,
    /// A transaction with one lock: locker, intention lock, lock, release.
    pub single_ns: f64,
    /// A put of a 12-byte key and a 100-byte value, ascending, in transactions of 1000.
    pub put_ns: f64,
}

/// Takes `n` locks in all. `now` returns nanoseconds of a steady clock.
pub fn run(n: u64, now: &dyn Fn() -> u64) -> Figures {
    let table = LockTable::new(LockOptions::default());
    let tree = TreeId { table: TableId(1), index: 0 };
    let wait = Wait::Block(Duration::from_secs(1));
    let (mut locking, mut releasing) = (0, 0);
    let key = |i: u64| {
        let mut k = [0u8; 12];
        k[4..].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        k
    };
    for t in 0..n / 1000 {
        let mut locker = table.locker(TxnId(t + 1));
        let start = now();
        for i in 0..1000 {
            let got = locker.lock(tree, &key(t * 1000 + i), RowMode::X, wait);
            assert!(got.is_ok(), "nobody else locks");
        }
        let middle = now();
        locker.release_all();
        releasing += now() - middle;
        locking += middle - start;
    }
    let start = now();
    for t in 0..n {
        let mut locker = table.locker(TxnId(t + 1));
        assert!(locker.lock(tree, &key(t), RowMode::X, wait).is_ok(), "nobody else locks");
    }
    let single = now() - start;
    let start = now();
    let mut set = WriteSet::new();
    for i in 0..n {
        let mut k = [0u8; 12];
        k[4..].copy_from_slice(&i.to_be_bytes());
        set.put(tree, &k, &[1; 100]);
        if i % 1000 == 999 {
            set.clear(16 << 10);
        }
    }
    let put = now() - start;
    let n = n as f64;
    Figures {
        lock_ns: locking as f64 / n,
        release_ns: releasing as f64 / n,
        single_ns: single as f64 / n,
        put_ns: put as f64 / n,
    }
}
