//! temporary
use frond_engine::rows::*;
use frond_engine::*;
use frond_row::*;
use std::sync::Arc;
fn main() {
    let rows_n: u64 = std::env::args().nth(1).map_or(1_000_000, |s| s.parse().unwrap());
    let cache: u64 = std::env::args().nth(2).map_or(256, |s| s.parse().unwrap());
    let dir = std::env::args().nth(3).unwrap_or("/tmp/frbench".into());
    let _ = std::fs::remove_dir_all(&dir);
    let vfs = Arc::new(frond_vfs::OsVfs::create(&dir).unwrap());
    let engine = Engine::open(vfs, Options { cache_bytes: cache << 20, durability: Durability::Write, ..Options::default() }).unwrap();
    let mut cols = vec![Column::new("transactionid", ColumnType::Int { unsigned: false }, 8)];
    let mut add = |n: &str, t, b| { let mut c = Column::new(n, t, b); c.id = cols.len() as u32; c.nullable = true; cols.push(c); };
    add("dateandtime", ColumnType::DateTime { fsp: 0 }, 5);
    add("cashregisterid", ColumnType::Int { unsigned: false }, 4);
    add("customerid", ColumnType::Int { unsigned: false }, 4);
    add("productid", ColumnType::Int { unsigned: false }, 4);
    add("price", ColumnType::Float, 4);
    add("data", ColumnType::VarChar { length_bytes: 2 }, 4002);
    let p = |c: u16| Part { column: c, prefix: None, descending: false };
    let ix = |t: u16, n: &str, parts: Vec<Part>| Index { tree: t, name: n.into(), unique: t == 0, parts };
    let schema = Schema { version: 1, columns: cols, indexes: vec![ix(0, "PRIMARY", vec![p(0)]), ix(1, "ms", vec![p(5), p(3)]), ix(2, "rs", vec![p(2), p(5), p(3)]), ix(3, "pdc", vec![p(5), p(1), p(3)])], hidden_primary: false, auto_increment: Some(0) };
    let mut enc = vec![]; schema.encode(&mut enc);
    let indexes = (0..4).map(|i| IndexDef { key_shape: schema.index_key_shape(i), ..IndexDefPlain() }).collect();
    let table = engine.create_table(TableSpec { name: "t".into(), indexes, schema: enc, meta: vec![], auto_increment: 1 }).unwrap();
    let layout = RecordLayout::compact(&schema);
    let places = layout.columns.clone();
    let mut rows = Rows::bind(table.clone(), layout.clone(), Arc::new(PlainSortKeys)).unwrap();
    let mut rec = vec![0u8; layout.record_bytes as usize];
    let mut x = 88172645463325252u64;
    let mut rnd = || { x ^= x << 13; x ^= x >> 7; x ^= x << 17; x };
    let start = std::time::Instant::now();
    let (mut last, mut lat) = (start, vec![]);
    let mut lastcpu = cpu();
    for batch in 0..rows_n / 1000 {
        let t0 = std::time::Instant::now();
        let mut txn = engine.begin(TxnOptions::default());
        let (first, _) = table.reserve_auto_increment(1, 1, 1000).unwrap();
        for i in 0..1000 {
            let mut set = |c: usize, b: &[u8]| { let o = places[c].offset as usize; rec[o..o + b.len()].copy_from_slice(b) };
            set(0, &(first + i).to_le_bytes());
            let d = 0x99B0_0000_00u64 + batch; set(1, &d.to_be_bytes()[3..]);
            set(2, &((rnd() % 1000) as u32).to_le_bytes());
            let cust = rnd() % 100_000; set(3, &(cust as u32).to_le_bytes());
            set(4, &((rnd() % 10_000) as u32).to_le_bytes());
            let price = (((rnd() % 1_000_000) as f64 / 1e6) * 500.0 + cust as f64) / 100.0; set(5, &(price as f32).to_le_bytes());
            set(6, &10u16.to_le_bytes()); let mut s = *b"aaaaaaaaaa"; for b in &mut s[5..] { *b = b'a' + (rnd() % 26) as u8 } 
            let o = places[6].offset as usize + 2; rec[o..o + 10].copy_from_slice(&s);
            let w = rows.insert(&mut txn, &RowInput { record: &rec, blobs: &NoBlobs, row_id: 0 }, WriteFlags::default()).unwrap();
            assert_eq!(w, Written::Done);
        }
        txn.commit().unwrap();
        lat.push(t0.elapsed());
        if (batch + 1) % 500 == 0 {
            let now = std::time::Instant::now(); let c = cpu();
            let mut l = lat.split_off(0); l.sort();
            println!("{:>9} rows {:>8.0} rows/s cpu/row {:.2} us p50 {:?} p99 {:?} max {:?} io/row {} rss {} MB", (batch + 1) * 1000, 500_000.0 / (now - last).as_secs_f64(), (c - lastcpu) * 1e6 / 500_000.0, l[l.len() / 2], l[l.len() * 99 / 100], l[l.len() - 1], wb() / ((batch + 1) * 1000), rss());
            last = now; lastcpu = c;
        }
    }
    println!("total {:.0} rows/s", rows_n as f64 / start.elapsed().as_secs_f64());
    print!("{}", engine.status_text());
}
#[allow(non_snake_case)] fn IndexDefPlain() -> IndexDef { IndexDef::plain() }
fn cpu() -> f64 { let s = std::fs::read_to_string("/proc/self/stat").unwrap(); let f: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect(); (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0 }
fn wb() -> u64 { std::fs::read_to_string("/proc/self/io").unwrap().lines().find(|l| l.starts_with("write_bytes")).unwrap()[13..].trim().parse().unwrap() }
fn rss() -> u64 { std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmRSS")).unwrap().split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024 }
