//! Power losses while rows are loaded into an empty table (`load.rs` of the engine): the simulator's own runs have tables
//! of plain keys, which are never loaded. About 3 CPU seconds.

use std::sync::Arc;

use frond_engine::rows::{Rows, WriteFlags, Written};
use frond_engine::{Engine, IndexDef, Options, TableSpec, Transaction, Xid};
use frond_row::{
    Column, ColumnType, Index, NoBlobs, Part, PlainSortKeys, RecordLayout, RowInput, Schema,
};
use frond_sim::machine::disk::Disk;
use frond_sim::machine::{CapturePolicy, SimVfs};
use frond_sim::rng::Rng;

/// Rows of one transaction: a load begins at the 256th, and a chunk is written out after some hundreds.
const ROWS: u64 = 1_500;

fn options() -> Options {
    Options {
        cache_bytes: 8 << 20,
        log_segment_bytes: 64 << 10,
        log_capacity_bytes: 256 << 10,
        background_threads: 0,
        leaf_bytes: 64 << 10,
        transaction_bytes: 64 << 10,
        ..Options::default()
    }
}

/// `(id BIGINT PRIMARY KEY, a BIGINT, UNIQUE (a), KEY (a, id))`.
fn schema() -> Schema {
    let int = ColumnType::Int { unsigned: false };
    let mut columns = vec![Column::new("id", int, 8), Column::new("a", int, 8)];
    columns[1].id = 1;
    let index = |tree: u16, unique, parts: &[u16]| Index {
        tree,
        name: format!("i{tree}"),
        unique,
        clustering: false,
        parts: parts
            .iter()
            .map(|&column| Part { column, prefix: None, descending: false })
            .collect(),
    };
    let indexes = vec![index(0, true, &[0]), index(1, true, &[1]), index(2, false, &[1, 0])];
    Schema { version: 1, columns, indexes, hidden_primary: false, auto_increment: None }
}

struct Table {
    rows: Rows,
    layout: RecordLayout,
}

impl Table {
    fn create(engine: &Engine) -> Table {
        let (schema, mut bytes) = (schema(), Vec::new());
        schema.encode(&mut bytes);
        engine
            .create_table(TableSpec {
                name: "t".into(),
                indexes: vec![IndexDef { page_bytes: 4096, ..IndexDef::plain() }; 3],
                schema: bytes,
                meta: Vec::new(),
                auto_increment: 1,
            })
            .unwrap();
        Table::open(engine)
    }

    fn open(engine: &Engine) -> Table {
        let layout = RecordLayout::compact(&schema());
        let table = engine.open_table("t").unwrap();
        Table { rows: Rows::bind(table, layout.clone(), Arc::new(PlainSortKeys)).unwrap(), layout }
    }

    /// `a` is a permutation of `id`.
    fn insert(&mut self, txn: &mut Transaction, id: u64) -> frond_engine::Result<()> {
        let mut record = vec![0; self.layout.record_bytes as usize];
        let a = id.wrapping_mul(7_919) % 100_003;
        for (column, value) in [(0, id), (1, a)] {
            let at = self.layout.columns[column].offset as usize;
            record[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let row = RowInput { record: &record, blobs: &NoBlobs, row_id: 0 };
        let written = self.rows.insert(txn, &row, WriteFlags::default())?;
        assert_eq!(written, Written::Done);
        Ok(())
    }

    fn fill(&mut self, txn: &mut Transaction, in_order: bool) {
        for n in 0..ROWS {
            self.insert(txn, if in_order { n } else { n * 7_919 % ROWS }).unwrap();
        }
    }
}

/// Rows in each index, which are the same.
fn count(engine: &Engine) -> u64 {
    let table = engine.open_table("t").unwrap();
    let counts: Vec<u64> = (0..3)
        .map(|index| {
            let mut txn = engine.begin(Default::default());
            let mut cursor = engine.cursor(&mut txn, &table, index).unwrap();
            let (mut valid, mut found) = (cursor.first(&txn).unwrap(), 0);
            while valid {
                found += 1;
                valid = cursor.next(&txn).unwrap();
            }
            found
        })
        .collect();
    assert!(counts.iter().all(|n| *n == counts[0]), "rows in the indexes: {counts:?}");
    assert_eq!(table.rows(), counts[0]);
    counts[0]
}

fn loads(engine: &Engine) -> u64 {
    engine.status().iter().find(|(name, _)| *name == "loads").unwrap().1
}

fn clean(engine: &Engine) {
    let mut said = Vec::new();
    let report = engine.check_all(&mut |line| said.push(format!("{line:?}")));
    assert!(report.is_clean(), "{said:?}");
}

/// The ways in which a load ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Ending {
    Commit,
    Rollback,
    /// After half of the rows were rolled back to a savepoint, and loaded again.
    Savepoint,
    /// The transaction reads its rows before it commits.
    Read,
    PrepareCommit,
    PrepareRollback,
}

const ENDINGS: [Ending; 6] = [
    Ending::Commit,
    Ending::Rollback,
    Ending::Savepoint,
    Ending::Read,
    Ending::PrepareCommit,
    Ending::PrepareRollback,
];

fn xid() -> Xid {
    Xid::new(1, b"load", b"").unwrap()
}

/// Loads and ends; the bounds say whether 0 or all rows must be there: 1 is all.
fn work(vfs: &SimVfs, engine: &Engine, ending: Ending, in_order: bool) {
    let mut t = Table::open(engine);
    vfs.set_bounds(0, 0);
    let mut txn = engine.begin(Default::default());
    if ending == Ending::Savepoint {
        for n in 0..ROWS / 2 {
            t.insert(&mut txn, n).unwrap();
        }
        let savepoint = txn.savepoint();
        for n in ROWS / 2..ROWS {
            t.insert(&mut txn, n + 5_000).unwrap();
        }
        txn.rollback_to(savepoint);
        for n in ROWS / 2..ROWS {
            t.insert(&mut txn, n).unwrap();
        }
    } else {
        t.fill(&mut txn, in_order);
    }
    assert_eq!(loads(engine), 1);
    match ending {
        Ending::Rollback => return txn.rollback(),
        Ending::Read => {
            let mut cursor = engine.cursor(&mut txn, t.rows.table(), 1).unwrap();
            assert!(cursor.first(&txn).unwrap());
        }
        Ending::PrepareCommit | Ending::PrepareRollback => {
            let prepared = txn.prepare(xid()).unwrap();
            if ending == Ending::PrepareRollback {
                return prepared.rollback().unwrap();
            }
            vfs.set_bounds(0, 1);
            prepared.commit(true).unwrap();
            vfs.set_bounds(1, 1);
            return;
        }
        _ => {}
    }
    vfs.set_bounds(0, 1);
    txn.commit().unwrap();
    vfs.set_bounds(1, 1);
}

/// After a loss of power the table is empty or full, a prepared transaction can be ended, and rows can be loaded.
fn recovers(disk: Disk, (lower, upper): (u64, u64), seed: u64) -> (u64, bool) {
    let vfs = SimVfs::new(disk, seed);
    let engine = Engine::open(vfs.handle(), options()).unwrap();
    let found = count(&engine);
    assert!(found == lower * ROWS || found == upper * ROWS, "{found} rows, {lower}..={upper}");
    clean(&engine);
    // Its name is known when it was prepared and not ended.
    let was_prepared = engine.commit_prepared(&xid()).unwrap();
    if was_prepared {
        assert_eq!((found, count(&engine)), (0, ROWS));
    } else if found == 0 {
        let mut t = Table::open(&engine);
        let mut txn = engine.begin(Default::default());
        t.fill(&mut txn, false);
        txn.commit().unwrap();
        assert_eq!(loads(&engine), 1);
    }
    while engine.background_step() {}
    assert_eq!(count(&engine), ROWS);
    clean(&engine);
    (found, was_prepared)
}

#[test]
fn a_load_survives_a_loss_of_power_as_a_whole_or_not_at_all() {
    let (mut empty, mut full, mut prepared) = (0, 0, 0);
    for seed in 0..60u64 {
        let (ending, in_order) = (ENDINGS[seed as usize % 6], seed / 6 % 2 == 0);
        let mut rng = Rng::new(seed);
        let vfs = SimVfs::new(Disk::default(), seed);
        let engine = Engine::open(vfs.handle(), options()).unwrap();
        Table::create(&engine);
        engine.flush_all().unwrap();
        // Every sync, and some of what is between.
        vfs.set_policy(CapturePolicy {
            at_sync: 1_000_000,
            at_other: 250_000,
            at_new: 500_000,
            most: 40,
        });
        work(&vfs, &engine, ending, in_order);
        while engine.background_step() {}
        for capture in vfs.take_captures() {
            let what =
                format!("seed {seed}, {ending:?}, call {} ({})", capture.call, capture.point);
            let disk = capture.disk.after_power_loss(&mut rng);
            let tried = std::panic::catch_unwind(|| recovers(disk, capture.bounds, seed));
            let Ok((rows, was_prepared)) = tried else { panic!("{what}") };
            match (rows, was_prepared) {
                (_, true) => prepared += 1,
                (0, _) => empty += 1,
                _ => full += 1,
            }
        }
        let all = !matches!(ending, Ending::Rollback | Ending::PrepareRollback);
        assert_eq!(count(&engine), if all { ROWS } else { 0 }, "seed {seed}, {ending:?}");
        clean(&engine);
    }
    assert!(empty > 200 && full > 60 && prepared > 8, "{empty}, {full}, {prepared}");
    println!("{empty} images without rows, {full} with all, {prepared} prepared");
}
