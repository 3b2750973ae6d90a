//! Rows written under older schemas.

use frond_base::ErrorKind;
use frond_row::{
    Column, ColumnType, DefaultValue, History, Index, OwnedBlobs, RecordLayout, Schema,
};

use crate::support::{column, nullable, part, schema, Row, Table};

const INT: ColumnType = ColumnType::Int { unsigned: false };

fn var(id: u32, max: u32) -> Column {
    let length_bytes = if max > 255 { 2 } else { 1 };
    column(id, ColumnType::VarChar { length_bytes }, max + u32::from(length_bytes))
}

fn old() -> Schema {
    let columns =
        vec![column(0, INT, 8), column(1, INT, 4), nullable(var(2, 20)), column(3, INT, 4)];
    schema(columns, vec![vec![part(0)]])
}

/// Adds an index that has whole rows, over the nullable column `text`.
fn clustering(mut schema: Schema, text: u16) -> Schema {
    let (tree, name, parts) = (1, "k".into(), vec![part(text)]);
    schema.indexes.push(Index { tree, name, unique: false, clustering: true, parts });
    schema
}

fn read(table: &Table, index: usize, key: &[u8], value: &[u8]) -> Row {
    let mut record = vec![0x77; table.layout.record_bytes as usize];
    let mut blobs = OwnedBlobs::default();
    let p = table.codec.project(index, |_| true);
    table.codec.decode(&p, key, value, &mut record, &mut blobs).unwrap();
    (0..table.schema.columns.len()).map(|c| table.value(c, &record, &blobs)).collect()
}

#[test]
fn rows_of_an_older_schema_read_as_rows_of_the_current_one() {
    let before = Table::new(clustering(old(), 2));
    // Column 1 dropped, 2 lengthened and moved first, 3 widened, 4 to 6 added.
    let mut four = column(4, INT, 4);
    four.default = DefaultValue::Bytes(vec![5, 0, 0, 0]);
    let mut five = nullable(var(5, 10));
    five.default = DefaultValue::Bytes(b"new".to_vec());
    let columns = vec![
        nullable(var(2, 300)),
        column(0, INT, 8),
        four,
        nullable(column(3, INT, 8)),
        five,
        nullable(column(6, INT, 4)),
    ];
    let mut now = clustering(schema(columns, vec![vec![part(1)]]), 0);
    now.version = 2;
    let layout = RecordLayout::compact(&now);
    let after = Table::with(now, layout, vec![before.schema.clone()]);
    for text in [Some(b"hello".to_vec()), None] {
        let three = Some(vec![0xf3, 3, 3, 0x83]);
        let row: Row = vec![Some(vec![1; 8]), Some(vec![2; 4]), text.clone(), three];
        let entries = before.entries(&row, 0);
        let expected: Row = vec![
            text,
            Some(vec![1; 8]),
            Some(vec![5, 0, 0, 0]),
            Some(vec![0xf3, 3, 3, 0x83, 0xff, 0xff, 0xff, 0xff]),
            Some(b"new".to_vec()),
            None,
        ];
        for (index, again) in after.entries(&expected, 0).into_iter().enumerate() {
            let e = &entries[index];
            assert_eq!(read(&after, index, &e.key, &e.value), expected);
            assert_eq!(again.key, e.key);
            assert_eq!(read(&after, index, &again.key, &again.value), expected);
            // RNV2.
            let (renewer, mut renewed) = (after.codec.renewer(index).unwrap(), Vec::new());
            assert!(renewer.renew(&e.value, &mut renewed));
            assert_eq!(renewed, again.value);
            assert!(!renewer.renew(&again.value, &mut renewed));
        }
    }
}

#[test]
fn a_version_nobody_described_is_corruption() {
    let table = Table::new(old());
    let row: Row = vec![Some(vec![1; 8]), Some(vec![2; 4]), None, Some(vec![3; 4])];
    let mut e = table.entries(&row, 0).remove(0);
    e.value[0] = 9;
    let p = table.codec.project(0, |_| true);
    let mut record = vec![0; table.layout.record_bytes as usize];
    let sink = &mut OwnedBlobs::default();
    let error = table.codec.decode(&p, &e.key, &e.value, &mut record, sink).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains("schema version 9"), "{error}");
}

#[test]
fn changes_that_need_a_rebuild_are_refused() {
    let bind =
        |now: Schema| History::new("t", &now, vec![old().into()]).map(|_| ()).map_err(|e| e.kind());
    let mut narrower = old();
    narrower.columns[1].bytes = 2;
    assert_eq!(bind(narrower), Err(ErrorKind::Unsupported));
    let mut wider = old();
    wider.columns[1].bytes = 8;
    assert_eq!(bind(wider.clone()), Ok(()));
    wider.columns[1].ty = ColumnType::Int { unsigned: true };
    assert_eq!(bind(wider), Err(ErrorKind::Unsupported));

    let mut unsigned = old();
    unsigned.columns[0].ty = ColumnType::Int { unsigned: true };
    assert_eq!(bind(unsigned), Err(ErrorKind::Unsupported));
    let mut other_key = old();
    other_key.indexes[0].parts = vec![part(1)];
    assert_eq!(bind(other_key), Err(ErrorKind::Unsupported));
    let mut indexed = old();
    indexed.indexes[0].parts[0].descending = true;
    assert_eq!(bind(indexed), Err(ErrorKind::Unsupported));
    let mut without_rows = clustering(old(), 2);
    without_rows.indexes[1].clustering = false;
    assert!(without_rows.check_reads(&clustering(old(), 2)).is_err());
    let mut renamed = old();
    renamed.columns[0].name = "id".into();
    assert_eq!(bind(renamed), Ok(()));
}
