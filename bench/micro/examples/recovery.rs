//! `cargo run --release -p frond-micro --example recovery [DIRECTORY] [KIND,...]`
//!
//! Measures the speed of log replay for several kinds of content, with one thread and with two. For each kind a database
//! is filled so that all its changes are in the log alone, closed, and opened again for reading only. That writes
//! nothing, so each opening finds the same log. Costs and their sum over all threads are printed per log byte, record and
//! entry.
//!
//! ```text
//! rows      four trees, transactions of 1000 rows (the shape of iiBench)
//! updates   one row of 100 000 in each transaction
//! large     four trees, transactions of 100 000 rows
//! tables    3000 tables with files, one row in each changed in a transaction of its own
//! target    no replay: the cost of a recovery target. The rows of the first kind, 1 GiB of cache, several targets
//! ```

// A stand-alone measuring program: there is no simulated clock to go through.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use frond_base::{Error, Result};
use frond_engine::{Durability, Engine, IndexDef, Options, Table, TableSpec, TxnOptions};
use frond_vfs::OsVfs;

const ROWS: u64 = 1_000_000;
const UPDATES: u64 = 1_500_000;
const TABLES: u64 = 3_000;

/// Processor time of the process, seconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks = |n: usize| fields.split(' ').nth(n).and_then(|f| f.parse::<f64>().ok());
    (ticks(12).unwrap_or(0.0) + ticks(13).unwrap_or(0.0)) / 100.0
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn options(threads: usize) -> Options {
    Options {
        cache_bytes: 8 << 30,
        log_capacity_bytes: 64 << 30,
        durability: Durability::EachSecond,
        background_threads: threads,
        ..Options::default()
    }
}

fn open(dir: &Path, options: Options) -> Result<Engine> {
    let vfs = OsVfs::new(dir).map_err(|e| Error::io("open", "the directory", e))?;
    let read_only = options.read_only;
    let log = move |_, message: &str| {
        if read_only {
            println!("    {message}");
        }
    };
    Engine::open_with_log(Arc::new(vfs), options, Arc::new(log))
}

fn create(engine: &Engine, name: String) -> Result<Arc<Table>> {
    engine.create_table(TableSpec {
        name,
        indexes: vec![IndexDef::plain()],
        schema: Vec::new(),
        meta: Vec::new(),
        auto_increment: 1,
    })
}

/// Fills four trees; the keys of the first one ascend.
fn rows(engine: &Engine, count: u64, each: u64, mut committed: impl FnMut(f64)) -> Result<()> {
    let tables =
        (0..4).map(|n| create(engine, format!("t{n}"))).collect::<Result<Vec<Arc<Table>>>>()?;
    let mut chance = 1;
    for first in (0..count).step_by(each as usize) {
        let begun = Instant::now();
        let mut txn = engine.begin(TxnOptions::default());
        for n in first..first + each {
            let mut value = [b'x'; 45];
            value[..8].copy_from_slice(&random(&mut chance).to_be_bytes());
            txn.put(&tables[0], &n.to_be_bytes(), &value, false)?;
            for table in &tables[1..] {
                let mut key = [0; 20];
                let (a, b) = (random(&mut chance) % 50_000, random(&mut chance) % 100_000);
                key[4..8].copy_from_slice(&(a as u32).to_be_bytes());
                key[8..12].copy_from_slice(&(b as u32).to_be_bytes());
                key[12..].copy_from_slice(&n.to_be_bytes());
                txn.put(table, &key, &[], false)?;
            }
        }
        txn.commit()?;
        committed(begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Bytes that the process has written to disk so far.
fn written() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("write_bytes: "));
    line.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Prints how much is written, and how evenly, with a recovery target.
fn target(dir: &Path, seconds: u64) -> Result<()> {
    let options = Options { cache_bytes: 1 << 30, recovery_target: seconds, ..options(2) };
    let engine = open(dir, options)?;
    let (mut times, mut longest) = (Vec::new(), 0);
    let (before, spent) = (written(), cpu());
    rows(&engine, 3 * ROWS, 1000, |time| {
        times.push(time);
        longest = longest.max(number(&engine, "recovery_estimate_micros"));
    })?;
    engine.flush_all()?;
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[(times.len() as f64 * share) as usize] * 1e3;
    println!(
        "target {seconds:>3} s: {:.1} bytes written a row, {:.2} us of CPU a row, {} freezes, longest estimate {:.1} s, commits p50 \
         {:.1} ms, p99 {:.1} ms, max {:.1} ms",
        (written() - before) as f64 / (3 * ROWS) as f64,
        (cpu() - spent) * 1e6 / (3 * ROWS) as f64,
        number(&engine, "freezes"),
        longest as f64 / 1e6,
        at(0.5),
        at(0.99),
        times[times.len() - 1] * 1e3,
    );
    Ok(())
}

fn updates(engine: &Engine) -> Result<()> {
    let table = create(engine, "t".into())?;
    let mut chance = 1;
    for _ in 0..UPDATES {
        let mut txn = engine.begin(TxnOptions::default());
        let key = random(&mut chance) % 100_000;
        let value = [random(&mut chance) as u8; 100];
        txn.put(&table, &key.to_be_bytes(), &value, false)?;
        txn.commit()?;
    }
    Ok(())
}

fn many_tables(engine: &Engine) -> Result<()> {
    let tables = (0..TABLES)
        .map(|n| create(engine, format!("t{n}")))
        .collect::<Result<Vec<Arc<Table>>>>()?;
    let each = |value: &[u8]| -> Result<()> {
        for table in &tables {
            let mut txn = engine.begin(TxnOptions::default());
            txn.put(table, b"key", value, false)?;
            txn.commit()?;
        }
        Ok(())
    };
    each(b"first")?;
    engine.flush_all()?;
    each(b"second")
}

fn number(engine: &Engine, name: &str) -> u64 {
    engine.status().iter().find(|(n, _)| *n == name).map_or(0, |(_, value)| *value)
}

fn measure(root: &Path, kind: &str) -> Result<()> {
    let dir = root.join(kind);
    std::fs::create_dir_all(&dir).map_err(|e| Error::io("create", kind, e))?;
    if kind == "target" {
        for seconds in [0, 30, 5] {
            target(&dir, seconds)?;
            std::fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", kind, e))?;
            std::fs::create_dir_all(&dir).map_err(|e| Error::io("create", kind, e))?;
        }
        return Ok(());
    }
    let begun = Instant::now();
    let engine = open(&dir, options(2))?;
    match kind {
        "rows" => rows(&engine, ROWS, 1000, |_| {})?,
        "updates" => updates(&engine)?,
        "large" => rows(&engine, ROWS, 100_000, |_| {})?,
        _ => many_tables(&engine)?,
    }
    let (commits, entries) = (number(&engine, "commits"), number(&engine, "entries_committed"));
    drop(engine);
    println!(
        "{kind}: {commits} transactions, {entries} entries in {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    for threads in [0, 0, 2, 2] {
        let (before, begun) = (cpu(), Instant::now());
        let engine = open(&dir, Options { read_only: true, ..options(threads) })?;
        let (spent, cpu) = (begun.elapsed().as_secs_f64(), cpu() - before);
        let log = number(&engine, "log_bytes_kept");
        println!(
            "  {threads} threads: {spent:>6.2} s, cpu {cpu:>6.2} s, {log} log bytes, {:.1} MB/s, {:.0} ns an entry, {:.0} ns a \
             transaction, {} tables open",
            log as f64 / spent / 1e6,
            spent * 1e9 / entries as f64,
            spent * 1e9 / commits as f64,
            number(&engine, "tables_open"),
        );
    }
    std::fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", kind, e))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = arguments.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let kinds = arguments.get(1).map_or("rows,updates,large,tables", String::as_str);
    let dir = root.join(format!("frond-recovery-{}", std::process::id()));
    for kind in kinds.split(',') {
        if let Err(e) = measure(&dir, kind) {
            println!("{kind}: {e}");
        }
    }
    let _ = std::fs::remove_dir_all(&dir);
}
