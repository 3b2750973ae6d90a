//! The reading thread of `frond bench iibench`: one short range on each secondary index, at a fixed
//! rate.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use frond_base::{Error, Result};
use frond_engine::rows::Rows;
use frond_engine::{Engine, Table, TxnOptions};
use frond_row::PlainSortKeys;
use frond_vfs::Vfs;

use crate::args::IibenchArgs;
use crate::bench::purchases::{self, Purchases};

/// Entries that a range read fetches.
const RANGE: usize = 10;

/// The reading thread and its counters.
pub struct Queries {
    shared: Arc<QueryState>,
    thread: Option<Box<dyn frond_vfs::JoinThread>>,
}

#[derive(Default)]
struct QueryState {
    stop: AtomicBool,
    rounds: AtomicU64,
    latencies: Mutex<Vec<u64>>,
    sleep: (Mutex<()>, Condvar),
}

impl Queries {
    /// Starts the thread if the arguments want one.
    pub fn start(
        vfs: &Arc<dyn Vfs>,
        engine: &Arc<Engine>,
        table: &Arc<Table>,
        args: &IibenchArgs,
    ) -> Result<Queries> {
        let shared = Arc::new(QueryState::default());
        if args.queries == 0 {
            return Ok(Queries { shared, thread: None });
        }
        let layout = Purchases::new(0, 0).layout().clone();
        let rows = Rows::bind(table.clone(), layout, Arc::new(PlainSortKeys))?;
        let codec = rows.codec().clone();
        let (clock, state) = (vfs.clone(), shared.clone());
        let (engine, table) = (engine.clone(), table.clone());
        let period = Duration::from_secs(1) / args.queries;
        let mut random = args.seed ^ 0x5851_f42d_4c95_7f2d;
        let work = move || {
            let mut due = clock.now();
            while !state.stop.load(Ordering::Relaxed) {
                for index in 1..=3 {
                    let begin = clock.now();
                    if range_read(&engine, &table, &codec, index, &mut random).is_err() {
                        // The inserting thread meets the same failure and reports it.
                        return;
                    }
                    let took = (clock.now() - begin).as_micros() as u64;
                    state.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(took);
                }
                state.rounds.fetch_add(1, Ordering::Relaxed);
                due = (due + period).max(clock.now());
                state.wait(due.saturating_sub(clock.now()));
            }
        };
        let thread = vfs.spawn("frond-queries", Box::new(work));
        let thread = thread.map_err(|e| Error::io("start", "the thread of queries", e))?;
        Ok(Queries { shared, thread })
    }

    /// Ends the thread; returns rounds and latencies in microseconds.
    pub fn stop(self) -> (u64, Vec<u64>) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.sleep.1.notify_all();
        if let Some(thread) = self.thread {
            thread.join();
        }
        let mut latencies = self.shared.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        (self.shared.rounds.load(Ordering::Relaxed), std::mem::take(&mut latencies))
    }
}

impl QueryState {
    /// Waits; a missed wake-up at the end costs at most one period.
    fn wait(&self, time: Duration) {
        let guard = self.sleep.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !time.is_zero() && !self.stop.load(Ordering::Relaxed) {
            drop(self.sleep.1.wait_timeout(guard, time));
        }
    }
}

/// SELECT of the index's own columns from a random place on, LIMIT 10.
fn range_read(
    engine: &Engine,
    table: &Arc<Table>,
    codec: &frond_row::RowCodec,
    index: usize,
    random: &mut u64,
) -> Result<()> {
    let key = purchases::query_key(codec, index, random)?;
    let mut txn = engine.begin(TxnOptions::default());
    let mut cursor = engine.cursor(&mut txn, table, index as u16)?;
    let mut valid = cursor.seek(&txn, &key, frond_engine::Seek::Ge)?;
    for _ in 1..RANGE {
        if !valid {
            break;
        }
        valid = cursor.next(&txn)?;
    }
    Ok(())
}
