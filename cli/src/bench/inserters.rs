//! The inserting threads of `frond bench iibench`: each has its own transactions, rows and record.
//!
//! The calling thread is the first of them, so that one inserting thread means one thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use frond_base::{Error, ErrorKind, Result};
use frond_engine::rows::{Rows, WriteFlags, Written};
use frond_engine::{Engine, Table, TxnOptions};
use frond_row::{NoBlobs, PlainSortKeys, RowInput};
use frond_vfs::{JoinThread, Vfs};

use crate::args::IibenchArgs;
use crate::bench::purchases::Purchases;

/// Data that all threads share.
struct Shared {
    rows: u64,
    batch: u64,
    /// Rows that the threads have taken to insert.
    claimed: AtomicU64,
    /// Rows that are committed.
    done: AtomicU64,
    /// Microseconds of the transactions since they were last taken.
    latencies: Mutex<Vec<u64>>,
    failure: Mutex<Option<Error>>,
}

/// One thread's part.
struct Inserter {
    shared: Arc<Shared>,
    vfs: Arc<dyn Vfs>,
    engine: Arc<Engine>,
    table: Arc<Table>,
    binding: Rows,
    source: Purchases,
}

/// The threads, with the caller's own part.
pub struct Inserters {
    own: Inserter,
    others: Vec<Box<dyn JoinThread>>,
}

impl Inserters {
    /// Starts the threads beyond the caller's.
    pub fn start(
        args: &IibenchArgs,
        vfs: &Arc<dyn Vfs>,
        engine: &Arc<Engine>,
        table: &Arc<Table>,
    ) -> Result<Inserters> {
        let shared = Arc::new(Shared {
            rows: args.rows,
            batch: u64::from(args.batch),
            claimed: AtomicU64::new(0),
            done: AtomicU64::new(0),
            latencies: Mutex::default(),
            failure: Mutex::default(),
        });
        let member = |n: u64| -> Result<Inserter> {
            let source = Purchases::new(args.seed.wrapping_add(n), args.data);
            let keys = Arc::new(PlainSortKeys);
            Ok(Inserter {
                shared: shared.clone(),
                vfs: vfs.clone(),
                engine: engine.clone(),
                table: table.clone(),
                binding: Rows::bind(table.clone(), source.layout().clone(), keys)?,
                source,
            })
        };
        let mut others = Vec::new();
        for n in 1..u64::from(args.threads) {
            let mut one = member(n)?;
            let work = move || while one.step() {};
            let thread = vfs.spawn(&format!("frond-insert-{n}"), Box::new(work));
            others.extend(thread.map_err(|e| Error::io("start", "a thread that inserts", e))?);
        }
        Ok(Inserters { own: member(0)?, others })
    }

    /// One transaction of the calling thread. False when all rows are taken.
    pub fn step(&mut self) -> bool {
        self.own.step()
    }

    /// Rows committed by all threads.
    pub fn done(&self) -> u64 {
        self.own.shared.done.load(Ordering::Acquire)
    }

    /// Takes the latencies, in microseconds, of the transactions since the last call.
    pub fn take_latencies(&self) -> Vec<u64> {
        let mut all = self.own.shared.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut all)
    }

    /// Waits for the other threads. The first failure of any thread is the result.
    pub fn finish(&mut self) -> Result<()> {
        self.others.drain(..).for_each(|thread| thread.join());
        let mut failure = self.own.shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().map_or(Ok(()), Err)
    }
}

impl Inserter {
    fn step(&mut self) -> bool {
        let shared = self.shared.clone();
        let from = shared.claimed.fetch_add(shared.batch, Ordering::Relaxed);
        if from >= shared.rows {
            return false;
        }
        let batch = shared.batch.min(shared.rows - from);
        let begin = self.vfs.now();
        if let Err(e) = self.insert(batch) {
            // All threads stop; only the first failure is kept.
            shared.claimed.store(shared.rows, Ordering::Relaxed);
            let mut failure = shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(e);
            return false;
        }
        let took = (self.vfs.now() - begin).as_micros() as u64;
        shared.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(took);
        shared.done.fetch_add(batch, Ordering::Release);
        true
    }

    fn insert(&mut self, batch: u64) -> Result<()> {
        let used_up = || Error::new(ErrorKind::TooBig, "all values of the primary key are used");
        let reserved = self.table.reserve_auto_increment(1, 1, batch);
        let (first, _) = reserved.ok_or_else(used_up)?;
        let mut txn = self.engine.begin(TxnOptions::default());
        for id in first..first + batch {
            let row = RowInput { record: self.source.next(id), blobs: &NoBlobs, row_id: 0 };
            match self.binding.insert(&mut txn, &row, WriteFlags::default())? {
                Written::Done => {}
                Written::Duplicate(index) => {
                    return Err(Error::new(
                        ErrorKind::DuplicateKey,
                        format!("row {id} is said to be in index {index} already"),
                    ));
                }
            }
        }
        txn.commit()?;
        Ok(())
    }
}
