//! Records a history from the embedded engine, with real threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use frond_engine::{
    Engine, ErrorKind, Options, Result, RowCaching, RowMode, Table, TableSpec, Transaction,
    TxnOptions,
};
use frond_vfs::{MemVfs, Vfs};
use parking_lot::Mutex;

use super::{Op, Outcome, Txn};
use crate::machine::faults::{activate, Canary};
use crate::rng::Rng;

/// The parameters of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    pub threads: u64,
    /// Keys in use at a time; old ones are left behind, so that lists stay short.
    pub keys: u64,
    /// Transactions of all threads together, at most.
    pub transactions: u64,
    /// It ends after this, whatever was done.
    pub time: Duration,
    pub seed: u64,
    /// A defect of the engine that is active meanwhile.
    pub canary: Option<Canary>,
}

/// Appends after which other keys are used.
pub(super) const EPOCH: u64 = 400;

struct Shared {
    engine: Engine,
    table: Arc<Table>,
    values: AtomicU64,
}

/// A small engine in memory.
pub(super) fn engine(vfs: Arc<dyn Vfs>) -> Result<Engine> {
    let options = Options {
        cache_bytes: 8 << 20,
        log_segment_bytes: 1 << 20,
        log_capacity_bytes: 4 << 20,
        background_threads: 2,
        direct_io: false,
        leaf_bytes: 16 << 10,
        row_caching: RowCaching::Always,
        ..Options::default()
    };
    Engine::open(vfs, options)
}

/// Runs threads that append and read, and returns the history; the last transaction reads all keys.
pub fn record(recording: Recording) -> Result<Vec<Txn>> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let engine = engine(vfs.clone())?;
    let table = engine.create_table(TableSpec::plain("lists"))?;
    let shared = Arc::new(Shared { engine, table, values: AtomicU64::new(1) });
    let mut history = run(&vfs, recording, shared.clone(), one);
    let mut last = shared.engine.begin(TxnOptions::default());
    let mut ops = Vec::new();
    let epochs = shared.values.load(Ordering::Relaxed) / EPOCH + 1;
    for key in 0..epochs * recording.keys {
        ops.push(Op::Read(key, read(&mut last, &shared.table, key, false)?));
    }
    history.push(Txn { process: recording.threads, outcome: Outcome::Ok, ops });
    Ok(history)
}

/// The transactions of all threads; each is one call of `one`, with the thread's number and the number of keys.
pub(super) fn run<S: Send + Sync + 'static>(
    vfs: &Arc<dyn Vfs>,
    recording: Recording,
    shared: Arc<S>,
    one: fn(&S, u64, u64, &mut Rng) -> Txn,
) -> Vec<Txn> {
    let history: Arc<Mutex<Vec<Txn>>> = Arc::default();
    let begun = Arc::new(AtomicU64::new(0));
    let ends = vfs.now() + recording.time;
    let mut threads = Vec::new();
    for process in 0..recording.threads {
        let (shared, history, begun) = (shared.clone(), history.clone(), begun.clone());
        let clock = vfs.clone();
        let work = move || {
            activate(recording.canary);
            let mut rng = Rng::new(recording.seed ^ process << 32);
            while begun.fetch_add(1, Ordering::Relaxed) < recording.transactions
                && clock.now() < ends
            {
                let txn = one(&shared, process, recording.keys, &mut rng);
                history.lock().push(txn);
            }
        };
        let started = vfs.spawn(&format!("client-{process}"), Box::new(work));
        threads.extend(started.expect("a thread can start"));
    }
    for thread in threads {
        thread.join();
    }
    let mut history = history.lock();
    std::mem::take(&mut *history)
}

/// One transaction of one client.
fn one(shared: &Shared, process: u64, keys: u64, rng: &mut Rng) -> Txn {
    let options = TxnOptions { lock_timeout: Duration::from_millis(200), ..TxnOptions::default() };
    let mut txn = shared.engine.begin(options);
    let mut ops = Vec::new();
    let done = (|| {
        if rng.percent(50) {
            txn.snapshot();
        }
        for _ in 0..rng.range(1, 5) {
            // Few keys are hot: otherwise there are no conflicts.
            let key = if rng.percent(50) { rng.below(4.min(keys)) } else { rng.below(keys) };
            let key = shared.values.load(Ordering::Relaxed) / EPOCH * keys + key;
            if rng.percent(55) {
                ops.push(Op::Read(key, read(&mut txn, &shared.table, key, false)?));
                continue;
            }
            // A writer without a snapshot takes one with its first lock held: what it read is what
            // it replaces.
            let mut list = read(&mut txn, &shared.table, key, true)?;
            let value = shared.values.fetch_add(1, Ordering::Relaxed);
            list.push(value);
            let bytes: Vec<u8> = list.iter().flat_map(|v| v.to_le_bytes()).collect();
            txn.put(&shared.table, &key.to_be_bytes(), &bytes, false)?;
            ops.push(Op::Append(key, value));
        }
        Ok::<(), frond_engine::Error>(())
    })();
    ended(txn, done, process, ops)
}

/// Commits what was `done`, and rolls back what failed.
pub(super) fn ended(txn: Transaction, done: Result<()>, process: u64, ops: Vec<Op>) -> Txn {
    let outcome = match done {
        Ok(()) => match txn.commit() {
            Ok(_) => Outcome::Ok,
            Err(e) if matches!(e.kind(), ErrorKind::Io | ErrorKind::Poisoned) => Outcome::Info,
            Err(_) => Outcome::Fail,
        },
        Err(_) => {
            txn.rollback();
            Outcome::Fail
        }
    };
    Txn { process, outcome, ops }
}

fn read(txn: &mut Transaction, table: &Table, key: u64, lock: bool) -> Result<Vec<u64>> {
    let mut value = Vec::new();
    let key = key.to_be_bytes();
    let found = if lock {
        txn.get_locked(table, 0, &key, RowMode::X, &mut value)?
    } else {
        txn.get(table, 0, &key, &mut value)?
    };
    if !found {
        return Ok(Vec::new());
    }
    let words = value.chunks_exact(8);
    Ok(words.map(|w| w.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))).collect())
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn concurrent_histories_have_no_anomaly_that_snapshots_forbid() {
        for seed in 0..3 {
            let history = record(Recording {
                threads: 4,
                keys: 20,
                transactions: 3_000,
                time: Duration::from_secs(3),
                seed,
                canary: None,
            })
            .unwrap();
            let done = history.iter().filter(|t| t.outcome == Outcome::Ok).count();
            assert!(done > 100, "{done} transactions committed");
            let found = check(&history);
            let bad: Vec<_> = found.iter().filter(|a| a.kind.forbidden_by_snapshot()).collect();
            assert!(bad.is_empty(), "seed {seed}: {:?}", &bad[..bad.len().min(3)]);
        }
    }
}
