//! Properties over random schemas and rows.

use std::cmp::Ordering;
use std::sync::Arc;

use frond_row::{Column, ColumnType, Deriver, OwnedBlobs, Part, PartPrefix, Schema, Sort};

use crate::support::{char_prefix, coded, column, schema, weights, Random, Row, Table};

fn random_type(r: &mut Random) -> (ColumnType, u32) {
    use ColumnType::*;
    let fsp = r.below(7) as u8;
    let fraction = u32::from(fsp).div_ceil(2);
    let sizes = [1u32, 2, 3, 4, 8];
    let size = sizes[r.below(5)];
    match r.below(26) {
        0..=4 => (Int { unsigned: r.chance(50) }, size),
        5 => (Float, 4),
        6 => (Double, 8),
        7 => (Decimal { precision: 14, scale: 4 }, 7),
        8 => (Year, 1),
        9 => (Date, 3),
        10 => (Time { fsp }, 3 + fraction),
        11 => (DateTime { fsp }, 5 + fraction),
        12 => (Timestamp { fsp }, 4 + fraction),
        13 => ([OldDate, OldTimestamp][r.below(2)], 4),
        14 => (OldTime, 3),
        15 => (OldDateTime, 8),
        16 => (Bit { bits: 13 }, 2),
        17 => ([Enum, Set][r.below(2)], 2),
        18 => (Uuid { swapped: false }, 16),
        19 => (Opaque { key_bytes: 5 }, 5),
        20 => (Binary, 1 + r.below(12) as u32),
        21 | 22 => (Char, 4 * (1 + r.below(5) as u32)),
        23 => (Blob { length_bytes: 1 + r.below(4) as u8 }, 0),
        n => {
            let length_bytes = (n - 23) as u8;
            (VarChar { length_bytes }, 20 + u32::from(length_bytes))
        }
    }
}

pub fn random_column(r: &mut Random, id: u32) -> Column {
    let (ty, bytes) = random_type(r);
    let mut c = column(id, ty, bytes);
    if let ColumnType::Blob { length_bytes } = ty {
        c.bytes = 8 + u32::from(length_bytes);
    }
    c.nullable = r.chance(40);
    if c.is_text() && ty != ColumnType::Binary {
        c.charset = 1 + r.below(4) as u32;
        c.max_char_bytes = if r.chance(50) { 4 } else { 1 };
        c.sort = match r.below(4) {
            0 => Sort::Binary,
            1 => Sort::BinaryPadSpace,
            // Weights of varying length and padding do not mix in the model's comparison of CHAR.
            2 => weights(c.charset, r.chance(60)),
            _ => coded(c.charset, weights(c.charset, r.chance(60))),
        };
    }
    c
}

fn random_parts(r: &mut Random, columns: &[Column], primary: bool) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for _ in 0..1 + r.below(4) {
        let n = r.below(columns.len());
        let c = &columns[n];
        if (primary && c.nullable) || parts.iter().any(|p| usize::from(p.column) == n) {
            continue;
        }
        let blob = matches!(c.ty, ColumnType::Blob { .. });
        let prefix = (c.is_text() && (blob || r.chance(30))).then(|| {
            let wide = u16::from(c.max_char_bytes);
            let most = if blob { 6 } else { (c.bytes as u16).saturating_sub(2).max(wide) / wide };
            let chars = 1 + r.below(usize::from(most)) as u16;
            PartPrefix { bytes: chars * wide, chars }
        });
        parts.push(Part { column: n as u16, prefix, descending: r.chance(30) });
    }
    parts
}

pub fn random_schema(r: &mut Random) -> Schema {
    let count = 1 + r.below(9) as u32;
    let columns: Vec<Column> = (0..count).map(|id| random_column(r, id)).collect();
    let mut indexes = vec![random_parts(r, &columns, true)];
    for _ in 0..r.below(4) {
        let parts = random_parts(r, &columns, false);
        if !parts.is_empty() {
            indexes.push(parts);
        }
    }
    let mut schema = schema(columns, indexes);
    schema.indexes.iter_mut().skip(1).for_each(|index| index.clustering = r.chance(30));
    schema
}

/// Few distinct values, so that rows share prefixes and compare as equal.
fn random_text(r: &mut Random, c: &Column, max: usize) -> Vec<u8> {
    let letters: &[&str] = match c.max_char_bytes {
        4 => &[
            "a", "A", "b", " ", " ", "\t", "\0", "\u{1}", "\u{2}", "\u{3}", "q", "w", "\u{e9}",
            "\u{20ac}",
        ],
        _ => &["a", "A", "b", " ", " ", "\t", "\0", "\u{1}", "\u{2}", "\u{3}", "q", "w"],
    };
    let mut s = Vec::new();
    for _ in 0..r.below(7) {
        s.extend_from_slice(letters[r.below(letters.len())].as_bytes());
    }
    while s.len() > max {
        s = s[..char_prefix(&s, s.len().saturating_sub(4))].to_vec();
        s.truncate(char_prefix(&s, max / 4));
    }
    s
}

pub fn random_value(r: &mut Random, c: &Column) -> Option<Vec<u8>> {
    use ColumnType::*;
    if c.nullable && r.chance(25) {
        return None;
    }
    let bytes = c.bytes as usize;
    Some(match c.ty {
        Float => [0.0f32, -0.0, 1.5, -1.5, f32::MAX, f32::MIN, f32::MIN_POSITIVE, -1e-40]
            [r.below(8)]
        .to_le_bytes()
        .to_vec(),
        Double => [0.0f64, -0.0, 1.5, -1.5, f64::MAX, f64::MIN, f64::MIN_POSITIVE, -1e-310]
            [r.below(8)]
        .to_le_bytes()
        .to_vec(),
        Char => {
            let chars = bytes / usize::from(c.max_char_bytes);
            let s = random_text(r, c, bytes);
            s[..char_prefix(&s, chars)].trim_ascii_end().to_vec()
        }
        VarChar { length_bytes } => random_text(r, c, bytes - usize::from(length_bytes)),
        Blob { .. } => random_text(r, c, 100),
        _ => match r.below(4) {
            0 => vec![0; bytes],
            1 => vec![0xff; bytes],
            2 => (0..bytes).map(|_| r.next() as u8 & 0x81).collect(),
            _ => (0..bytes).map(|_| r.next() as u8).collect(),
        },
    })
}

pub fn random_row(r: &mut Random, schema: &Schema) -> Row {
    schema.columns.iter().map(|c| random_value(r, c)).collect()
}

fn tables(seed: u64, count: usize, mut check: impl FnMut(&mut Random, &Table)) {
    let mut r = Random(seed);
    for _ in 0..count {
        let table = Table::new(random_schema(&mut r));
        check(&mut r, &table);
    }
}

#[test]
fn keys_order_as_rows_do() {
    let mut equal = 0;
    tables(0x1234_5678_9abc_def1, 400, |r, table| {
        let rows: Vec<Row> = (0..12).map(|_| random_row(r, &table.schema)).collect();
        let entries: Vec<_> = rows.iter().map(|row| table.entries(row, 7)).collect();
        for (a, ea) in rows.iter().zip(&entries) {
            for (b, eb) in rows.iter().zip(&entries) {
                let primary = table.compare(0, a, b);
                for n in 0..ea.len() {
                    let own = table.compare(n, a, b);
                    equal += usize::from(own.is_eq() && a != b);
                    let context = || format!("{}\n{a:?}\n{b:?} index {n}", table.schema);
                    assert_eq!(own.then(primary), ea[n].key.cmp(&eb[n].key), "{}", context());
                    if let (Some(ua), Some(ub)) = (&ea[n].unique, &eb[n].unique) {
                        assert_eq!(own, ua.cmp(ub), "{}", context());
                        let prefix = ua != ub && (ua.starts_with(ub) || ub.starts_with(ua));
                        assert!(!prefix, "not prefix-free: {}", context());
                    }
                }
            }
        }
    });
    assert!(equal > 1000, "the rows are too different to test ties: {equal}");
}

#[test]
fn every_index_gives_back_the_columns_it_covers() {
    let mut covered = 0;
    tables(0xfeed_beef_1234_5671, 600, |r, table| {
        for _ in 0..6 {
            let row = random_row(r, &table.schema);
            let entries = table.entries(&row, 0x0102_0304_0506_0708);
            for (n, e) in entries.iter().enumerate() {
                let some: Vec<bool> = row.iter().map(|_| r.chance(60)).collect();
                for all in [true, false] {
                    let wanted = |c: usize| all || some[c];
                    let p = table.codec.project(n, wanted);
                    let mut record = vec![0x5a; table.layout.record_bytes as usize];
                    let mut blobs = OwnedBlobs::default();
                    table.codec.decode(&p, &e.key, &e.value, &mut record, &mut blobs).unwrap();
                    for (c, expected) in row.iter().enumerate() {
                        let missing = p.missing().contains(&(c as u16));
                        assert_eq!(missing, wanted(c) && !table.codec.covers(n, c));
                        if wanted(c) && !missing {
                            let got = table.value(c, &record, &blobs);
                            let schema = &table.schema;
                            assert_eq!(&got, expected, "{schema}\n{row:?} index {n} column {c}");
                            covered += usize::from(n > 0);
                        }
                    }
                }
                assert_eq!(table.codec.primary_key(n, &e.key).unwrap(), entries[0].key);
                if table.schema.hidden_primary {
                    assert_eq!(table.codec.row_id(n, &e.key).unwrap(), 0x0102_0304_0506_0708);
                }
            }
        }
    });
    assert!(covered > 1000, "no index covered anything: {covered}");
}

#[test]
fn decoding_leaves_other_columns_alone() {
    tables(0x0dd0_5eed_0000_0001, 200, |r, table| {
        let row = random_row(r, &table.schema);
        let e = &table.entries(&row, 1)[0];
        let (before, _) = table.record(&random_row(r, &table.schema));
        let mut record = before.clone();
        let only = r.below(row.len());
        let p = table.codec.project(0, |c| c == only);
        table.codec.decode(&p, &e.key, &e.value, &mut record, &mut OwnedBlobs::default()).unwrap();
        for (n, place) in table.layout.columns.iter().enumerate().filter(|(n, _)| *n != only) {
            let at = place.offset as usize;
            let image = at..at + table.schema.columns[n].bytes as usize;
            assert_eq!(record[image.clone()], before[image], "{}", table.schema);
            if let Some((byte, mask)) = place.null {
                assert_eq!(record[byte as usize] & mask, before[byte as usize] & mask);
            }
        }
    });
}

#[test]
fn tuples_give_the_same_keys_as_rows() {
    let mut extended = 0;
    tables(0xabcd_ef01_2345_6781, 500, |r, table| {
        for _ in 0..4 {
            let row = random_row(r, &table.schema);
            let entries = table.entries(&row, 3);
            for (n, e) in entries.iter().enumerate() {
                let own = &table.schema.indexes[n].parts;
                let primary = &table.schema.indexes[0].parts;
                let more =
                    primary.iter().filter(|p| own.iter().all(|o| o.column != p.column)).count();
                for parts in 0..=own.len() + more {
                    let tuple = table.tuple(n, &row, parts);
                    let mut key = Vec::new();
                    let made = table.codec.tuple_key(n, &tuple, parts, &mut key).unwrap();
                    assert!(e.key.starts_with(&key), "{} {row:?} index {n}", table.schema);
                    let null = own.iter().take(parts).any(|p| row[usize::from(p.column)].is_none());
                    assert_eq!(made.has_null, null);
                    if parts <= own.len() {
                        assert_eq!(made.parts, parts);
                        assert_eq!(table.codec.prefix_len(n, &e.key, parts).unwrap(), key.len());
                    } else {
                        extended += usize::from(made.parts == parts);
                    }
                    if parts > 0 && made.parts == parts {
                        let short = &tuple[..tuple.len() - 1];
                        assert!(table.codec.tuple_key(n, short, parts, &mut key).is_err());
                    }
                }
            }
        }
    });
    assert!(extended > 100, "extended key parts are not tested: {extended}");
}

#[test]
fn shapes_add_up_to_the_keys_of_rows_without_null() {
    let mut fixed = 0;
    tables(0x7777_1111_2222_3331, 500, |r, table| {
        let row = random_row(r, &table.schema);
        for (n, e) in table.entries(&row, 3).iter().enumerate() {
            let shape = table.codec.key_shape(n);
            assert_eq!(shape, table.schema.index_key_shape(n));
            if shape.is_empty() || row.iter().any(Option::is_none) {
                continue;
            }
            fixed += 1;
            assert!(shape.iter().all(|w| (1..=8).contains(w)));
            assert_eq!(shape.iter().map(|w| usize::from(*w)).sum::<usize>(), e.key.len());
        }
    });
    assert!(fixed > 50, "{fixed}");
}

#[test]
fn one_key_alone_is_the_key_of_the_whole_encoding() {
    tables(0x1357_9bdf_0246_8ac1, 200, |r, table| {
        let row = random_row(r, &table.schema);
        let (record, blobs) = table.record(&row);
        let input = frond_row::RowInput { record: &record, blobs: &blobs, row_id: 9 };
        for (n, e) in table.entries(&row, 9).iter().enumerate() {
            let mut key = b"before".to_vec();
            table.codec.encode_key(n, &input, &mut key).unwrap();
            assert_eq!(key[6..], e.key);
            let mut some = frond_row::Entries::new();
            table.codec.encode_indexes(&input, 1 << n, &mut some).unwrap();
            assert_eq!((some.key(n), some.value(n)), (&e.key[..], &e.value[..]));
            assert!((0..some.len()).all(|m| some.present(m) == (m == n)));
        }
    });
}

#[test]
fn rows_that_differ_elsewhere_leave_an_index_untouched() {
    tables(0x2468_ace0_1357_9bd1, 300, |r, table| {
        let row = random_row(r, &table.schema);
        let mut changed = row.clone();
        let n = r.below(row.len());
        changed[n] = random_value(r, &table.schema.columns[n]);
        let touched = table.codec.touched(|c| c == n);
        let entries = table.entries(&row, 1).into_iter().zip(table.entries(&changed, 1));
        for (index, (a, b)) in entries.enumerate() {
            if touched >> index & 1 == 0 {
                assert_eq!((a.key, a.value), (b.key, b.value));
            }
        }
        assert_eq!(table.compare(0, &row, &row), Ordering::Equal);
    });
}

#[test]
fn index_entries_come_from_stored_rows_as_from_records() {
    let mut r = Random(0x3333_4444_5555_6661);
    for _ in 0..300 {
        let Table { schema, layout, codec } = Table::new(random_schema(&mut r));
        let mut deriver = Deriver::new(Arc::new(codec), u128::MAX).unwrap();
        let table = Table::with((*schema).clone(), layout, Vec::new());
        for _ in 0..3 {
            let row = random_row(&mut r, &schema);
            let entries = table.entries(&row, 77);
            let mut out = frond_row::Entries::new();
            deriver.derive(&entries[0].key, &entries[0].value, &mut out).unwrap();
            for (n, e) in entries.iter().enumerate().skip(1) {
                assert_eq!((out.key(n), out.value(n)), (&e.key[..], &e.value[..]), "{schema}");
            }
        }
    }
}
