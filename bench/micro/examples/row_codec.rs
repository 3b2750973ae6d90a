//! Cost of the codec on the iiBench row: eight columns, primary key, three secondary indexes.
//!
//! `cargo run --release -p frond-micro --example row_codec`: nanoseconds per row, best of several
//! rounds, and as ratios to copying the record, which depend less on the machine.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use frond_row::{
    Column, ColumnType, Entries, Index, NoBlobs, Part, PlainSortKeys, RecordLayout, RowCodec,
    RowInput, Schema,
};

fn schema() -> Schema {
    let int = ColumnType::Int { unsigned: false };
    let mut columns = vec![
        Column::new("transactionid", int, 8),
        Column::new("dateandtime", ColumnType::DateTime { fsp: 0 }, 5),
        Column::new("cashregisterid", int, 4),
        Column::new("customerid", int, 4),
        Column::new("productid", int, 4),
        Column::new("price", ColumnType::Float, 4),
        Column::new("quantity", int, 4),
        Column::new("data", ColumnType::VarChar { length_bytes: 2 }, 4002),
    ];
    for (n, c) in columns.iter_mut().enumerate() {
        c.id = n as u32;
        c.nullable = matches!(n, 1 | 5 | 7);
    }
    let index = |tree: u16, columns: &[u16]| Index {
        tree,
        name: format!("k{tree}"),
        unique: tree == 0,
        clustering: false,
        parts: columns
            .iter()
            .map(|c| Part { column: *c, prefix: None, descending: false })
            .collect(),
    };
    Schema {
        version: 1,
        columns,
        indexes: vec![
            index(0, &[0]),
            index(1, &[5, 3]),
            index(2, &[2, 5, 3]),
            index(3, &[5, 1, 3]),
        ],
        hidden_primary: false,
        auto_increment: Some(0),
    }
}

/// Best nanoseconds per call over several rounds.
fn best(mut f: impl FnMut(u64)) -> f64 {
    const ROUND: u64 = 4_000;
    (0..500)
        .map(|_| {
            let start = Instant::now();
            (0..ROUND).for_each(&mut f);
            start.elapsed().as_nanos() as f64 / ROUND as f64
        })
        .fold(f64::MAX, f64::min)
}

fn main() {
    let schema = Arc::new(schema());
    let layout = RecordLayout::compact(&schema);
    let place = |n: usize| layout.columns[n].offset as usize;
    let mut record = vec![0u8; layout.record_bytes as usize];
    let data = place(7);
    record[data..data + 2].copy_from_slice(&10u16.to_le_bytes());
    record[data + 2..data + 12].copy_from_slice(b"0123456789");
    let (id, register, customer, price) = (place(0), place(2), place(3), place(5));
    let codec =
        RowCodec::bind("t", schema, layout, Default::default(), Arc::new(PlainSortKeys)).unwrap();
    let change = move |record: &mut [u8], n: u64| {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        record[id..id + 8].copy_from_slice(&n.to_le_bytes());
        record[register..register + 4].copy_from_slice(&(mixed as u32 >> 22).to_le_bytes());
        record[customer..customer + 4].copy_from_slice(&(mixed as u32 >> 15).to_le_bytes());
        record[price..price + 4].copy_from_slice(&((mixed >> 40) as f32).to_le_bytes());
    };

    let mut copy = vec![0u8; 60];
    let copying = best(|n| {
        change(&mut record, n);
        copy.copy_from_slice(black_box(&record[..60]));
        black_box(&copy);
    });
    let mut entries = Entries::new();
    let encoding = best(|n| {
        change(&mut record, n);
        let row = RowInput { record: &record, blobs: &NoBlobs, row_id: 0 };
        codec.encode_row(&row, &mut entries).unwrap();
        black_box(&entries);
    });
    let (key, value) = (entries.key(0).to_vec(), entries.value(0).to_vec());
    let all = codec.project(0, |_| true);
    let mut back = record.clone();
    let decoding = best(|_| {
        codec.decode(&all, black_box(&key), black_box(&value), &mut back, &mut NoBlobs).unwrap();
        black_box(&back);
    });
    assert!(back[..60] == record[..60]);
    let two = codec.project(0, |n| n == 0 || n == 3);
    let decoding_two = best(|_| {
        codec.decode(&two, black_box(&key), black_box(&value), &mut back, &mut NoBlobs).unwrap();
        black_box(&back);
    });
    let covered = codec.project(1, |n| matches!(n, 0 | 3 | 5));
    let key = entries.key(1).to_vec();
    let decoding_index = best(|_| {
        codec.decode(&covered, black_box(&key), black_box(&[]), &mut back, &mut NoBlobs).unwrap();
        black_box(&back);
    });
    for (what, ns) in [
        ("copy 60 bytes of the record", copying),
        ("encode row and 4 index keys", encoding),
        ("decode all 8 columns", decoding),
        ("decode 2 of 8 columns", decoding_two),
        ("decode 3 columns of an index entry", decoding_index),
    ] {
        println!("{what:36} {ns:7.1} ns  {:6.1} x", ns / copying);
    }
    for n in 0..entries.len() {
        let (key, value) = (entries.key(n).len(), entries.value(n).len());
        println!("index {n}: key {key} bytes, value {value}, shape {:?}", codec.key_shape(n));
    }
}
