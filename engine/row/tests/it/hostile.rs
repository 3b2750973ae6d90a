//! Bytes that no release wrote: errors, never panics.

use std::sync::Arc;

use frond_base::ErrorKind;
use frond_row::{ColumnType, OwnedBlobs, RecordLayout, RowCodec, RowText, Schema, TextStyle};

use crate::random::{random_row, random_schema};
use crate::support::{column, part, schema, FakeSortKeys, Random, Table};

fn damage(r: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + r.below(3) {
        match r.below(4) {
            0 => bytes.truncate(r.below(bytes.len() + 1)),
            1 => bytes.push(r.next() as u8),
            _ if !bytes.is_empty() => {
                let at = r.below(bytes.len());
                bytes[at] = [0, 1, 2, 0x20, 0xff, r.next() as u8][r.below(6)];
            }
            _ => {}
        }
    }
}

#[test]
fn damaged_entries_give_errors_or_other_rows() {
    let mut r = Random(0x5151_5151_5151_5151);
    let mut refused = 0;
    for _ in 0..300 {
        let table = Table::new(random_schema(&mut r));
        let mut printer = RowText::new("t", table.schema.clone(), vec![]).unwrap();
        let row = random_row(&mut r, &table.schema);
        for (n, e) in table.entries(&row, 5).into_iter().enumerate() {
            let p = table.codec.project(n, |_| true);
            for _ in 0..30 {
                let (mut key, mut value) = (e.key.clone(), e.value.clone());
                let victim = if r.chance(50) { &mut key } else { &mut value };
                damage(&mut r, victim);
                let mut record = vec![0; table.layout.record_bytes as usize];
                let mut blobs = OwnedBlobs::default();
                if let Err(e) = table.codec.decode(&p, &key, &value, &mut record, &mut blobs) {
                    assert_eq!(e.kind(), ErrorKind::Corruption);
                    refused += 1;
                }
                let _ = table.codec.primary_key(n, &key);
                for style in [TextStyle::Tabs, TextStyle::Json] {
                    let _ = printer.row_to_text(n, &key, &value, style, &mut String::new());
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn schemas_round_trip() {
    let mut r = Random(0x8181_8181_8181_8181);
    for _ in 0..500 {
        let schema = random_schema(&mut r);
        let mut bytes = Vec::new();
        schema.encode(&mut bytes);
        assert_eq!(Schema::decode(&bytes, "1.frd").unwrap(), schema);
    }
}

#[test]
fn damaged_schemas_are_refused_or_usable() {
    let mut r = Random(0x9191_9191_9191_9191);
    let (mut refused, mut usable) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = Vec::new();
        random_schema(&mut r).encode(&mut bytes);
        damage(&mut r, &mut bytes);
        match Schema::decode(&bytes, "1.frd") {
            Err(e) => {
                let kind = e.kind();
                assert!(matches!(kind, ErrorKind::Corruption | ErrorKind::UnsupportedFormat));
                refused += 1;
            }
            Ok(schema) => {
                let layout = RecordLayout::compact(&schema);
                let schema = Arc::new(schema);
                let sort = Arc::new(FakeSortKeys);
                let codec =
                    RowCodec::bind("t", schema.clone(), layout, Default::default(), sort).unwrap();
                for n in 0..schema.indexes.len() {
                    let p = codec.project(n, |_| true);
                    let mut record = vec![0; codec.layout().record_bytes as usize];
                    let sink = &mut OwnedBlobs::default();
                    let _ = codec.decode(&p, &[0x80; 40], &[1; 90], &mut record, sink);
                    codec.key_shape(n);
                }
                usable += 1;
            }
        }
    }
    assert!(refused > 1000 && usable > 1000, "{refused} {usable}");
}

#[test]
fn impossible_schemas_are_refused() {
    let int = ColumnType::Int { unsigned: false };
    let good = || schema(vec![column(0, int, 4), column(1, int, 4)], vec![vec![part(0)]]);
    assert!(good().validate().is_ok());
    let refused = |change: &dyn Fn(&mut Schema)| {
        let mut s = good();
        change(&mut s);
        let mut bytes = Vec::new();
        s.encode(&mut bytes);
        s.validate().is_err() && Schema::decode(&bytes, "f").is_err()
    };
    assert!(refused(&|s| s.columns[1].id = 0));
    assert!(refused(&|s| s.columns[0].bytes = 5));
    assert!(refused(&|s| s.columns[0].nullable = true));
    assert!(refused(&|s| s.columns[0].stored = false));
    assert!(refused(&|s| s.indexes[0].parts[0].column = 2));
    assert!(refused(&|s| s.indexes.clear()));
    assert!(refused(&|s| s.hidden_primary = true));
    assert!(refused(&|s| s.indexes.push(s.indexes[0].clone())));
    assert!(refused(&|s| s.auto_increment = Some(2)));
    assert!(refused(&|s| s.columns[1].ty = ColumnType::Decimal { precision: 3, scale: 4 }));
}

#[test]
fn a_newer_schema_format_is_named() {
    let mut bytes = Vec::new();
    random_schema(&mut Random(77)).encode(&mut bytes);
    bytes[0] = 5;
    assert_eq!(Schema::decode(&bytes, "f").unwrap_err().kind(), ErrorKind::UnsupportedFormat);
}
