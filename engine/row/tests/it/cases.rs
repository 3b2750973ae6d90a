//! Single behaviours that the random tests would not name.

use frond_base::ErrorKind;
use frond_row::{ColumnType, Entries, NoBlobs, OwnedBlobs, Part, RowInput, Sort};

use crate::support::{coded, column, nullable, part, prefix, schema, text, weights, Table};

const INT: ColumnType = ColumnType::Int { unsigned: false };
const VAR: ColumnType = ColumnType::VarChar { length_bytes: 1 };

fn one_key(sort: Sort, charset: u32, value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let columns = vec![column(0, INT, 4), text(column(1, VAR, 201), charset, sort)];
    let table = Table::new(schema(columns, vec![vec![part(0)], vec![part(1)]]));
    let e = table.entries(&vec![Some(vec![0; 4]), Some(value.to_vec())], 0).remove(1);
    (e.key, e.value)
}

#[test]
fn trailing_spaces_do_not_count_under_pad_space() {
    for (sort, charset) in [(Sort::BinaryPadSpace, 1), (weights(2, true), 2), (weights(3, true), 3)]
    {
        let key = |s: &[u8]| one_key(sort.clone(), charset, s).0;
        assert_eq!(key(b"a"), key(b"a  "));
        assert_eq!(key(b""), key(b"   "));
        assert!(key(b"a\t") < key(b"a"));
        assert!(key(b"a \t") < key(b"a"));
        assert!(key(b"a") < key(b"a b"));
        assert!(key(b"a ") < key(b"ab"));
    }
    let key = |s: &[u8]| one_key(weights(2, false), 2, s).0;
    assert!(key(b"a") < key(b"a "));
}

#[test]
fn values_of_plain_indexes_are_empty_and_others_keep_what_the_key_lost() {
    assert_eq!(one_key(Sort::Binary, 63, b"ab  ").1, b"");
    assert_eq!(one_key(Sort::BinaryPadSpace, 1, b"ab").1, b"");
    assert_eq!(one_key(Sort::BinaryPadSpace, 1, b"ab   ").1, [3]);
    assert_eq!(one_key(weights(1, true), 1, b"Ab").1, b"\x02Ab");
}

#[test]
fn short_words_have_short_keys() {
    // One letter, the end marker, the integer primary key.
    assert_eq!(one_key(Sort::BinaryPadSpace, 1, b"a").0.len(), 3 + 4);
    assert_eq!(one_key(Sort::Binary, 63, b"a").0.len(), 2 + 4);
}

#[test]
fn negative_zero_has_the_key_of_zero_and_comes_back_negative() {
    let columns = vec![column(0, ColumnType::Double, 8), column(1, ColumnType::Float, 4)];
    let table = Table::new(schema(columns, vec![vec![part(0)], vec![part(1)]]));
    let row = |d: f64, f: f32| vec![Some(d.to_le_bytes().to_vec()), Some(f.to_le_bytes().to_vec())];
    let (minus, plus) = (table.entries(&row(-0.0, -0.0), 0), table.entries(&row(0.0, 0.0), 0));
    for n in 0..2 {
        assert_eq!(minus[n].key, plus[n].key);
        let p = table.codec.project(n, |_| true);
        let mut record = vec![0; table.layout.record_bytes as usize];
        table.codec.decode(&p, &minus[n].key, &minus[n].value, &mut record, &mut NoBlobs).unwrap();
        let back = [table.value(0, &record, &OwnedBlobs::default()).unwrap()];
        assert_eq!(back[0], (-0.0f64).to_le_bytes());
    }
    assert_eq!(plus[1].value, b"");
}

#[test]
fn nulls_come_first_and_last_when_descending() {
    for descending in [false, true] {
        let columns = vec![column(0, INT, 4), nullable(column(1, INT, 4))];
        let parts = vec![vec![part(0)], vec![Part { descending, ..part(1) }]];
        let table = Table::new(schema(columns, parts));
        let key = |v: Option<i32>| {
            let row = vec![Some(vec![0; 4]), v.map(|v| v.to_le_bytes().to_vec())];
            table.entries(&row, 0).remove(1)
        };
        let mut keys =
            [None, Some(i32::MIN), Some(-1), Some(0), Some(i32::MAX)].map(|v| key(v).key);
        if descending {
            keys.reverse();
        }
        assert!(keys.is_sorted());
        assert_eq!(key(None).unique, None);
        assert!(key(Some(1)).unique.is_some());
    }
}

#[test]
fn prefixes_count_characters() {
    let columns = vec![column(0, INT, 4), text(column(1, VAR, 201), 2, weights(2, true))];
    let table = Table::new(schema(columns, vec![vec![part(0)], vec![prefix(1, 2, 4)]]));
    let key = |s: &str| {
        table.entries(&vec![Some(vec![0; 4]), Some(s.as_bytes().to_vec())], 0).remove(1).key
    };
    assert_eq!(key("\u{20ac}\u{20ac}x"), key("\u{20ac}\u{20ac}y"));
    assert_ne!(key("\u{20ac}xx"), key("\u{20ac}yx"));
    assert!(!table.codec.covers(1, 1));
    assert!(table.codec.covers(1, 0));
}

#[test]
fn columns_in_the_primary_key_are_not_stored_again() {
    let columns = vec![column(0, INT, 8), column(1, INT, 4)];
    let table = Table::new(schema(columns, vec![vec![part(0)]]));
    let e = table.entries(&vec![Some(vec![9; 8]), Some(vec![7; 4])], 0).remove(0);
    assert_eq!(e.value, [1, 7, 7, 7, 7]);
}

#[test]
fn computed_columns_are_in_indexes_only() {
    let mut computed = column(1, INT, 4);
    computed.stored = false;
    let columns = vec![column(0, INT, 4), computed];
    let table = Table::new(schema(columns, vec![vec![part(0)], vec![part(1)]]));
    let entries = table.entries(&vec![Some(vec![1; 4]), Some(vec![2; 4])], 0);
    assert_eq!(entries[0].value, [1]);
    assert!(!table.codec.covers(0, 1));
    assert!(table.codec.covers(1, 1));
}

#[test]
fn keys_above_the_limit_are_refused() {
    let wide = ColumnType::VarChar { length_bytes: 2 };
    let mut columns = vec![column(0, INT, 4)];
    columns.extend((1..=5).map(|n| column(n, wide, 65_537)));
    let key = (1..=5).map(part).collect();
    let table = Table::new(schema(columns, vec![vec![part(0)], key]));
    let encode = |byte| {
        let mut row = vec![Some(vec![1; 4])];
        row.extend((1..=5).map(|_| Some(vec![byte; 65_535])));
        let (record, blobs) = table.record(&row);
        let row = RowInput { record: &record, blobs: &blobs, row_id: 0 };
        table.codec.encode_row(&row, &mut Entries::new())
    };
    encode(b'x').unwrap();
    // Zeros take two bytes each.
    let e = encode(0).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::TooBig);
    assert!(e.message().contains("'k1'"), "{e}");
}

#[test]
fn a_record_claiming_more_than_its_column_holds_is_refused() {
    let table =
        Table::new(schema(vec![column(0, INT, 4), column(1, VAR, 11)], vec![vec![part(0)]]));
    let (mut record, blobs) = table.record(&vec![Some(vec![1; 4]), Some(vec![])]);
    record[4] = 200;
    let row = RowInput { record: &record, blobs: &blobs, row_id: 0 };
    assert!(table.codec.encode_row(&row, &mut Entries::new()).is_err());
}

#[test]
fn blobs_of_many_megabytes_come_back() {
    let blob = ColumnType::Blob { length_bytes: 4 };
    let table =
        Table::new(schema(vec![column(0, INT, 4), column(1, blob, 12)], vec![vec![part(0)]]));
    let row = vec![Some(vec![1; 4]), Some(vec![b'z'; 20 << 20])];
    let e = table.entries(&row, 0).remove(0);
    let mut record = vec![0; table.layout.record_bytes as usize];
    let mut blobs = OwnedBlobs::default();
    let p = table.codec.project(0, |_| true);
    table.codec.decode(&p, &e.key, &e.value, &mut record, &mut blobs).unwrap();
    assert!(table.value(1, &record, &blobs) == row[1]);
}

#[test]
fn a_text_of_common_characters_needs_no_value() {
    let sort = coded(2, weights(2, true));
    let entry = |s: &[u8]| one_key(sort.clone(), 2, s);
    let (key, value) = entry(b"some lines");
    assert!(key.len() == b"some lines".len() + 1 + 2 + 4 && value.is_empty(), "{key:x?}");
    assert_eq!(entry(b"some lines").0, entry(b"Some LINES  ").0);
    assert_eq!(entry(b"Some  ").1, [2, 3, 1]);
    assert_eq!(entry("\u{e9}".as_bytes()).1, [3, 0, 0xc3, 0xa9]);
    // Two spaces take the way of other characters to the same key, but for the second space and its marker.
    let (two, value) = entry(b"some  lines");
    assert!(two.len() == key.len() + 2 && two < key && value.is_empty());
}

#[test]
fn a_changed_weight_of_a_code_is_noticed() {
    let check = |charset| {
        let columns =
            vec![column(0, INT, 4), text(column(1, VAR, 41), charset, coded(2, weights(2, true)))];
        Table::new(schema(columns, vec![vec![part(0)]])).codec.check_collations()
    };
    check(2).unwrap();
    assert_eq!(check(4).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_changed_collation_is_noticed() {
    let columns = |space: &[u8]| {
        let level = frond_row::WeightLevel::plain(0, space);
        vec![column(0, INT, 4), text(column(1, VAR, 41), 2, Sort::Weights(vec![level]))]
    };
    let check = |space: &[u8]| {
        Table::new(schema(columns(space), vec![vec![part(0)]])).codec.check_collations()
    };
    assert!(check(&[0, b' ']).is_ok());
    assert_eq!(check(&[2, 9]).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn computed_columns_cannot_be_derived() {
    let mut computed = column(1, INT, 4);
    computed.stored = false;
    let columns = vec![column(0, INT, 4), computed];
    let table = Table::new(schema(columns, vec![vec![part(0)], vec![part(1)], vec![part(0)]]));
    let codec = std::sync::Arc::new(table.codec);
    assert!(frond_row::Deriver::new(codec.clone(), 1 << 1).is_err());
    assert!(frond_row::Deriver::new(codec, 1 << 2).is_ok());
}

#[test]
fn extended_tuples_stop_where_the_index_has_only_a_prefix() {
    let columns = vec![text(column(0, VAR, 41), 1, Sort::BinaryPadSpace), column(1, INT, 4)];
    let parts = vec![vec![part(0), part(1)], vec![prefix(0, 2, 4)]];
    let table = Table::new(schema(columns, parts));
    let row = vec![Some(b"abcd".to_vec()), Some(vec![1, 0, 0, 0])];
    let mut key = Vec::new();
    // 'ab', then column 1: between them the key has 'abcd', which the tuple does not tell.
    let made = table.codec.tuple_key(1, &table.tuple(1, &row, 2), 2, &mut key).unwrap();
    assert_eq!(made.parts, 1);
    assert!(table.entries(&row, 0)[1].key.starts_with(&key));
}
