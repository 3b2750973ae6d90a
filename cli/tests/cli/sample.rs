//! A small database with one table of each kind, part of it in runs and part in the log only.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use frond_cli::bench::purchases::{self, Purchases};
use frond_engine::rows::{Rows, WriteFlags, Written};
use frond_engine::{Engine, IndexDef, Options, TableSpec, TxnOptions};
use frond_row::{
    Column, ColumnType, Index, NoBlobs, Part, PartPrefix, PlainSortKeys, RecordLayout, RowInput,
    Schema, Sort, SortKeys, WeightLevel,
};
use frond_vfs::{MemVfs, Vfs};

pub const ORDERS: &str = "shop/orders";
pub const CUSTOMERS: &str = "shop/customers";
pub const PLAIN: &str = "settings";

/// The collation of column `nick`: letters without case.
pub struct NoCase;

impl SortKeys for NoCase {
    fn weights(&self, _: u32, _: u8, src: &[u8], out: &mut Vec<u8>) {
        out.extend(src.iter().map(u8::to_ascii_uppercase));
    }

    fn char_prefix(&self, charset: u32, src: &[u8], chars: usize) -> usize {
        PlainSortKeys.char_prefix(charset, src, chars)
    }

    fn opaque(&self, _: usize, _: &[u8], _: &mut Vec<u8>) {}
}

pub fn options() -> Options {
    Options {
        cache_bytes: 8 << 20,
        log_segment_bytes: 64 << 10,
        log_capacity_bytes: 64 << 20,
        background_threads: 0,
        leaf_bytes: 64 << 10,
        direct_io: false,
        ..Options::default()
    }
}

/// No primary key; text that may be NULL; a unique index on a descending prefix; one on collated
/// text.
pub fn customers() -> Schema {
    let text = |name: &str, id: u32| {
        let mut c = Column::new(name, ColumnType::VarChar { length_bytes: 1 }, 41);
        c.id = id;
        c.nullable = true;
        c.charset = 46;
        c.max_char_bytes = 4;
        c.sort = Sort::BinaryPadSpace;
        c
    };
    let mut nick = text("nick", 1);
    nick.charset = 45;
    nick.sort = Sort::Weights(vec![WeightLevel::plain(0, b" ")]);
    let prefix = Some(PartPrefix { bytes: 32, chars: 8 });
    let part = |column, prefix, descending| Part { column, prefix, descending };
    Schema {
        version: 1,
        columns: vec![text("mail", 0), nick],
        indexes: vec![
            Index {
                tree: 0,
                name: "PRIMARY".into(),
                unique: true,
                clustering: false,
                parts: Vec::new(),
            },
            Index {
                tree: 1,
                name: "by_mail".into(),
                unique: true,
                clustering: false,
                parts: vec![part(0, prefix, true)],
            },
            Index {
                tree: 2,
                name: "by_nick".into(),
                unique: false,
                clustering: false,
                parts: vec![part(1, None, false)],
            },
        ],
        hidden_primary: true,
        auto_increment: None,
    }
}

fn customers_spec() -> TableSpec {
    let schema = customers();
    let mut bytes = Vec::new();
    schema.encode(&mut bytes);
    TableSpec {
        name: CUSTOMERS.into(),
        indexes: vec![IndexDef::plain(); 3],
        schema: bytes,
        meta: Vec::new(),
        auto_increment: 1,
    }
}

/// A record of `customers`; `None` is NULL.
pub fn customer(layout: &RecordLayout, mail: Option<&str>, nick: Option<&str>) -> Vec<u8> {
    let mut record = vec![0; layout.record_bytes as usize];
    for (n, value) in [mail, nick].into_iter().enumerate() {
        let place = layout.columns[n];
        match (value, place.null) {
            (Some(text), _) => {
                let at = place.offset as usize;
                record[at] = text.len() as u8;
                record[at + 1..at + 1 + text.len()].copy_from_slice(text.as_bytes());
            }
            (None, Some((byte, mask))) => record[byte as usize] |= mask,
            (None, None) => unreachable!("both columns may be NULL"),
        }
    }
    record
}

pub fn add_orders(engine: &Engine, from: u64, to: u64) {
    let table = engine.open_table(ORDERS).unwrap();
    let mut source = Purchases::new(from, 10);
    let layout = source.layout().clone();
    let mut rows = Rows::bind(table.clone(), layout, Arc::new(PlainSortKeys)).unwrap();
    for batch in (from..to).step_by(200) {
        let (first, n) = table.reserve_auto_increment(1, 1, 200.min(to - batch)).unwrap();
        let mut txn = engine.begin(TxnOptions::default());
        for id in first..first + n {
            let row = RowInput { record: source.next(id), blobs: &NoBlobs, row_id: 0 };
            let written = rows.insert(&mut txn, &row, WriteFlags::default()).unwrap();
            assert_eq!(written, Written::Done);
        }
        txn.commit().unwrap();
    }
}

pub fn add_customers(engine: &Engine, from: u64, to: u64) {
    let table = engine.open_table(CUSTOMERS).unwrap();
    let layout = RecordLayout::compact(&customers());
    let mut rows = Rows::bind(table.clone(), layout.clone(), Arc::new(NoCase)).unwrap();
    let mut txn = engine.begin(TxnOptions::default());
    for n in from..to {
        let mail = format!("{n:06}\u{e9}\u{e9}@example.org");
        let nick = format!("Nick{n} ");
        let record = customer(
            &layout,
            (n % 5 != 0).then_some(mail.as_str()),
            (n % 7 != 0).then_some(nick.as_str()),
        );
        let row = RowInput { record: &record, blobs: &NoBlobs, row_id: table.next_row_id() };
        let written = rows.insert(&mut txn, &row, WriteFlags::default()).unwrap();
        assert_eq!(written, Written::Done);
    }
    txn.commit().unwrap();
}

pub fn add_plain(engine: &Engine, from: u64, to: u64) {
    let table = engine.open_table(PLAIN).unwrap();
    let mut txn = engine.begin(TxnOptions::default());
    for n in from..to {
        let value = "v".repeat((n % 400) as usize);
        txn.put(&table, format!("key{n:06}").as_bytes(), value.as_bytes(), false).unwrap();
        if n % 10 == 3 {
            txn.delete(&table, format!("key{:06}", n - 1).as_bytes()).unwrap();
        }
    }
    txn.commit().unwrap();
}

/// Makes the database: three quarters of it in runs, the rest in the log.
pub fn build(vfs: Arc<dyn Vfs>) {
    let engine = Engine::open(vfs, options()).unwrap();
    fill(&engine);
    engine.close().unwrap();
}

fn fill(engine: &Engine) {
    engine.create_table(purchases::spec(ORDERS)).unwrap();
    engine.create_table(customers_spec()).unwrap();
    let plain = TableSpec {
        name: PLAIN.into(),
        indexes: vec![IndexDef { filter: true, ..IndexDef::plain() }],
        schema: Vec::new(),
        meta: Vec::new(),
        auto_increment: 1,
    };
    engine.create_table(plain).unwrap();
    for part in 0..3 {
        add_orders(engine, part * 1000, part * 1000 + 1000);
        add_customers(engine, part * 150, part * 150 + 150);
        add_plain(engine, part * 300, part * 300 + 300);
        engine.flush_all().unwrap();
    }
    add_orders(engine, 3000, 3800);
    add_customers(engine, 450, 500);
    add_plain(engine, 800, 1000);
}

/// Writes until the log has been trimmed of all earlier records: the tables' images alone hold those rows.
fn turn_over(engine: &Engine, from: u64) {
    for part in from..from + 4 {
        add_orders(engine, 4000 + part * 1000, 5000 + part * 1000);
        engine.flush_all().unwrap();
    }
}

/// Name and bytes of every file.
pub type Files = BTreeMap<String, Vec<u8>>;

pub fn files(vfs: &MemVfs) -> Files {
    let names = vfs.list().unwrap();
    names.into_iter().map(|n| (n.clone(), vfs.contents(&n).unwrap())).collect()
}

/// The sample database's files.
pub fn sample() -> Files {
    let vfs = MemVfs::stepped();
    build(Arc::new(vfs.clone()));
    files(&vfs)
}

/// The sample database at three times: as built; with its log trimmed; and with more of everything since
/// and the log trimmed again. All are one database's files, so the older files are older copies of the
/// newer ones.
fn ages() -> &'static [Files; 3] {
    static AGES: OnceLock<[Files; 3]> = OnceLock::new();
    AGES.get_or_init(|| {
        let vfs = MemVfs::stepped();
        // Every file holds a part of the database's identity, which is random.
        build(Arc::new(vfs.clone()));
        let first = files(&vfs);
        let engine = Engine::open(Arc::new(vfs.clone()), options()).unwrap();
        turn_over(&engine, 0);
        engine.close().unwrap();
        drop(engine);
        let second = files(&vfs);
        let engine = Engine::open(Arc::new(vfs.clone()), options()).unwrap();
        add_customers(&engine, 500, 600);
        add_plain(&engine, 1000, 1200);
        turn_over(&engine, 4);
        engine.close().unwrap();
        drop(engine);
        [first, second, files(&vfs)]
    })
}

/// The sample database before its log was ever trimmed, after, and later still.
pub fn untrimmed() -> Files {
    ages()[0].clone()
}

pub fn trimmed_half() -> Files {
    ages()[1].clone()
}

pub fn trimmed() -> Files {
    ages()[2].clone()
}

pub fn directory(files: &Files) -> MemVfs {
    let vfs = MemVfs::stepped();
    for (name, bytes) in files {
        vfs.set_contents(name, bytes.clone());
    }
    vfs
}
