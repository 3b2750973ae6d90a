//! A program that keeps its data in a Frond database: open, create a table, change it in a transaction, scan it,
//! die in the middle of the next transaction, and open it again.
//!
//! ```text
//! cargo run --release -p frond-engine --example ledger
//! ```

use std::error::Error;
use std::path::Path;
use std::process::{abort, Command};
use std::sync::Arc;

use frond_engine::{Engine, IndexDef, Options, Seek, Table, TableSpec, TxnOptions};
use frond_vfs::OsVfs;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn open(directory: &Path) -> Result<Engine> {
    let vfs = OsVfs::create(directory)?;
    // A commit is on disk when it returns. `Options` has the other settings: memory, log, threads.
    Ok(Engine::open(Arc::new(vfs), Options::default())?)
}

/// All or nothing: both accounts change, or neither does.
fn transfer(engine: &Engine, accounts: &Arc<Table>, from: u32, to: u32, amount: u64) -> Result<()> {
    let mut txn = engine.begin(TxnOptions::default());
    let mut value = Vec::new();
    for (account, change) in [(from, 0u64.wrapping_sub(amount)), (to, amount)] {
        // Keys are ordered byte by byte, so numbers in them are big-endian.
        let key = account.to_be_bytes();
        if !txn.get(accounts, 0, &key, &mut value)? {
            return Err(format!("there is no account {account}").into()); // dropping it rolls it back
        }
        let balance = u64::from_le_bytes(value.as_slice().try_into()?).wrapping_add(change);
        txn.put(accounts, &key, &balance.to_le_bytes(), false)?;
    }
    txn.commit()?;
    Ok(())
}

/// The balances from account `first` on, as one snapshot has them.
fn balances(engine: &Engine, accounts: &Arc<Table>, first: u32) -> Result<Vec<u64>> {
    let mut txn = engine.begin(TxnOptions::default());
    let mut cursor = engine.cursor(&mut txn, accounts, 0)?;
    let mut found = Vec::new();
    let mut more = cursor.seek(&txn, &first.to_be_bytes(), Seek::Ge)?;
    while more {
        found.push(u64::from_le_bytes(cursor.value().try_into()?));
        more = cursor.next(&txn)?;
    }
    Ok(found)
}

/// Fills a new database, commits a transfer, and dies with another transaction open.
fn run_until_the_crash(directory: &Path) -> Result<()> {
    let engine = open(directory)?;
    let accounts = engine.create_table(TableSpec {
        name: "accounts".to_owned(),
        indexes: vec![IndexDef { filter: true, ..IndexDef::plain() }],
        schema: Vec::new(), // keys and values, no typed columns
        meta: Vec::new(),
        auto_increment: 1,
    })?;
    let mut txn = engine.begin(TxnOptions::default());
    for account in 0..1000u32 {
        txn.put(&accounts, &account.to_be_bytes(), &100u64.to_le_bytes(), true)?;
    }
    txn.commit()?;
    transfer(&engine, &accounts, 7, 8, 30)?;
    assert!(transfer(&engine, &accounts, 7, 5000, 30).is_err(), "half of it was written");
    assert_eq!(balances(&engine, &accounts, 7)?[..3], [70, 130, 100]);

    let mut unfinished = engine.begin(TxnOptions::default());
    unfinished.put(&accounts, &8u32.to_be_bytes(), &0u64.to_le_bytes(), false)?;
    abort() // no destructor runs, nothing is flushed or closed
}

fn main() -> Result<()> {
    if let Some(directory) = std::env::args_os().nth(1) {
        return run_until_the_crash(directory.as_ref());
    }
    let directory = tempfile::tempdir()?;
    let child = Command::new(std::env::current_exe()?).arg(directory.path()).status()?;
    assert_eq!(child.code(), None, "it ends by a signal");

    let engine = open(directory.path())?; // recovers
    let accounts = engine.open_table("accounts")?;
    let found = balances(&engine, &accounts, 0)?;
    assert_eq!((found.len(), found.iter().sum::<u64>()), (1000, 100_000));
    assert_eq!(
        found[7..10],
        [70, 130, 100],
        "the finished transfer is there, the unfinished put is not"
    );
    engine.close()?; // reports what dropping could not
    println!("1000 accounts came back after the crash");
    Ok(())
}
