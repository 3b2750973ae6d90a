//! What the tests share.

use std::sync::Arc;

use frond_engine::{
    Engine, IndexDef, Isolation, Options, RowCaching, Table, TableSpec, Transaction, TxnOptions,
};
use frond_vfs::{MemVfs, OsVfs, Vfs};

/// Small sizes, so that little data goes through every kind of background work; no threads.
pub fn small() -> Options {
    Options {
        cache_bytes: 8 << 20,
        log_segment_bytes: 64 << 10,
        log_capacity_bytes: 256 << 10,
        background_threads: 0,
        leaf_bytes: 64 << 10,
        // So that all tests read through it.
        row_caching: RowCaching::Always,
        ..Options::default()
    }
}

pub fn memory() -> MemVfs {
    MemVfs::stepped()
}

pub fn open(vfs: &MemVfs) -> Engine {
    Engine::open(Arc::new(vfs.clone()), small()).unwrap()
}

/// A real directory with threads.
pub fn on_disk(dir: &tempfile::TempDir, options: Options) -> Engine {
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new(dir.path()).unwrap());
    Engine::open(vfs, options).unwrap()
}

pub fn plain(name: &str) -> TableSpec {
    TableSpec {
        name: name.into(),
        indexes: vec![IndexDef { page_bytes: 4096, filter: true, ..IndexDef::plain() }],
        schema: Vec::new(),
        meta: Vec::new(),
        auto_increment: 1,
    }
}

pub fn begin(engine: &Engine) -> Transaction {
    engine.begin(TxnOptions::default())
}

pub fn read_committed(engine: &Engine) -> Transaction {
    engine.begin(TxnOptions { isolation: Isolation::ReadCommitted, ..TxnOptions::default() })
}

/// One committed put.
pub fn put(engine: &Engine, table: &Arc<Table>, key: &[u8], value: &[u8]) {
    let mut txn = begin(engine);
    txn.put(table, key, value, false).unwrap();
    txn.commit().unwrap();
}

pub fn get(txn: &mut Transaction, table: &Arc<Table>, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    txn.get(table, 0, key, &mut value).unwrap().then_some(value)
}

/// All entries as a new transaction sees them, read forward.
pub fn all(engine: &Engine, table: &Arc<Table>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut txn = begin(engine);
    scan(engine, &mut txn, table)
}

pub fn scan(engine: &Engine, txn: &mut Transaction, table: &Arc<Table>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = engine.cursor(txn, table, 0).unwrap();
    let mut found = Vec::new();
    let mut valid = cursor.first(txn).unwrap();
    while valid {
        found.push((cursor.key().to_vec(), cursor.value().to_vec()));
        valid = cursor.next(txn).unwrap();
    }
    found
}

pub fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
