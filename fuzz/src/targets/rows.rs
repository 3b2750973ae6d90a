//! Tables, foreign keys, statistics and schemas as the catalog keeps them, and rows as trees keep them.
//!
//! The input of `foreign_key` and `key_statistics` is a key and a value of the system table, each behind its length.
//! The input of `row` is a schema, an index number of one byte, a key and a value, each behind its length.

use std::sync::Arc;

use frond_base::{ByteReader, TableId};
use frond_engine::{
    Action, Foreign, ForeignState, IndexDef, IndexState, KeyStatistics, OldSchema, PartStatistics,
    TableDef,
};
use frond_row::{
    Blobs, Coded, Codes, Column, ColumnType, DefaultValue, Entries, History, Index, OwnedBlobs,
    Part, PartPrefix, RecordLayout, RowCodec, RowInput, RowText, Schema, Sort, SortKeys, TextStyle,
    WeightLevel,
};
use frond_run::testing::TestRng;

use super::{accepted, join, refused};

/// Collations that say nothing surprising: a byte is its weight, a letter that of the capital.
struct ByteWeights;

impl SortKeys for ByteWeights {
    fn weights(&self, _: u32, _: u8, src: &[u8], out: &mut Vec<u8>) {
        out.extend(src.iter().map(u8::to_ascii_uppercase));
    }

    fn char_prefix(&self, _: u32, src: &[u8], chars: usize) -> usize {
        src.len().min(chars)
    }

    fn opaque(&self, _: usize, image: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(image);
    }
}

/// Every blob is empty.
struct Empty;

impl Blobs for Empty {
    fn blob<'a>(&'a self, _: usize, _: &'a [u8]) -> &'a [u8] {
        &[]
    }
}

fn types() -> Vec<(ColumnType, u32)> {
    use ColumnType::*;
    vec![
        (Int { unsigned: false }, 4),
        (Int { unsigned: true }, 8),
        (Float, 4),
        (Double, 8),
        (Decimal { precision: 10, scale: 2 }, 5),
        (Year, 1),
        (Date, 3),
        (Time { fsp: 0 }, 3),
        (DateTime { fsp: 6 }, 8),
        (Timestamp { fsp: 0 }, 4),
        (Bit { bits: 12 }, 2),
        (Enum, 1),
        (Set, 8),
        (Char, 12),
        (Binary, 12),
        (VarChar { length_bytes: 1 }, 31),
        (VarChar { length_bytes: 2 }, 302),
        (Blob { length_bytes: 2 }, 10),
        (Uuid { swapped: true }, 16),
        (Inet6, 16),
    ]
}

/// A space, digits, and letters of both cases.
fn codes() -> Option<Arc<Codes>> {
    let coded = |char: u8| {
        let both_cases = char.is_ascii_lowercase();
        Coded { weight: char.to_ascii_uppercase().into(), char, both_cases }
    };
    let list: Vec<Coded> = (b' '..=b'9').chain(b'a'..=b'z').map(coded).collect();
    Codes::new(1, &list).ok()
}

/// A schema that is valid: asked, until one is.
fn random(rng: &mut TestRng) -> Schema {
    loop {
        let all = types();
        let columns: Vec<Column> = (0..1 + rng.below(8))
            .map(|id| {
                let (ty, bytes) = all[rng.below(all.len() as u64) as usize];
                let mut column = Column::new(&format!("c{id}"), ty, bytes);
                column.id = id as u32;
                column.nullable = id > 0 && rng.below(2) == 0;
                let text = matches!(ty, ColumnType::Char | ColumnType::VarChar { .. });
                if text {
                    column.charset = [63, 8, 46][rng.below(3) as usize];
                    let plain = WeightLevel::plain(0, b" ");
                    column.sort = match rng.below(4) {
                        0 => Sort::Binary,
                        1 => Sort::BinaryPadSpace,
                        2 => Sort::Weights(vec![plain]),
                        _ => Sort::Weights(vec![WeightLevel { codes: codes(), ..plain }]),
                    };
                }
                if rng.below(4) == 0 && bytes < 9 {
                    column.default = DefaultValue::Bytes(vec![0; bytes as usize]);
                }
                column
            })
            .collect();
        let part = |rng: &mut TestRng, column: u16| {
            let long = columns[usize::from(column)].bytes > 20;
            let prefix = (long && rng.below(2) == 0).then_some(PartPrefix { bytes: 8, chars: 8 });
            Part { column, prefix, descending: rng.below(4) == 0 }
        };
        let indexes = (0..1 + rng.below(3) as u16)
            .map(|tree| {
                let column = if tree == 0 { 0 } else { rng.below(columns.len() as u64) as u16 };
                let parts = vec![part(rng, column)];
                let clustering = tree > 0 && rng.below(3) == 0;
                let name = format!("i{tree}");
                Index { tree, name, unique: tree == 0, clustering, parts }
            })
            .collect();
        let schema =
            Schema { version: 1, columns, indexes, hidden_primary: false, auto_increment: None };
        if schema.validate().is_ok() {
            return schema;
        }
    }
}

fn bytes_of(schema: &Schema) -> Vec<u8> {
    let mut out = Vec::new();
    schema.encode(&mut out);
    out
}

/// Definitions of tables, half of them with indexes that were dropped or are being built.
pub fn definitions(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = TestRng::new(seed);
    let mut one = |n: u32| {
        let schema = random(&mut rng);
        let index = |state| IndexDef { key_shape: vec![1, 4, 8], state, ..IndexDef::plain() };
        let indexes = schema.indexes.iter().map(|_| index(IndexState::Live)).collect();
        let mut def = TableDef::new(TableId(n + 1), "t".into(), indexes);
        def.schema = bytes_of(&schema);
        def.meta = b"notes".to_vec();
        if n % 2 == 1 {
            def.indexes.extend([index(IndexState::Dropped), index(IndexState::Building)]);
            def.building = bytes_of(&schema);
            let old = |schema| OldSchema { blocks_below: 9, ..OldSchema::new(schema) };
            def.history = vec![old(bytes_of(&random(&mut rng))), OldSchema::new(Vec::new())];
        }
        def.encode()
    };
    (0..12).map(&mut one).collect()
}

pub fn definition(input: &[u8]) -> bool {
    match TableDef::decode("t", input) {
        Err(e) => {
            refused(&e);
            false
        }
        Ok(def) => {
            let again = TableDef::decode("t", &def.encode());
            assert!(again.is_ok_and(|again| again == def));
            true
        }
    }
}

/// Foreign keys of one to many columns.
pub fn foreigns(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = TestRng::new(seed);
    let actions = [Action::Restrict, Action::NoAction, Action::Cascade, Action::SetNull];
    let states = [ForeignState::Active, ForeignState::Adding, ForeignState::Waiting];
    let mut one = |n: usize| {
        let names = |of: &str| (0..1 + n * n / 4).map(|i| format!("{of}{i}")).collect();
        let f = Foreign {
            name: format!("shop/orders_ibfk_{n}"),
            table: "shop/orders".into(),
            parent: "shop/customers".into(),
            columns: names("own"),
            parent_columns: names("of_parent"),
            on_delete: actions[rng.below(4) as usize],
            on_update: actions[rng.below(4) as usize],
            state: states[rng.below(3) as usize],
        };
        join(&[&f.key()[1..], &f.encode()])
    };
    (0..12).map(&mut one).collect()
}

/// A key is unique: what was accepted is found under the same key again.
pub fn foreign(input: &[u8]) -> bool {
    let mut r = ByteReader::new(input);
    let (Ok(key), Ok(value)) = (r.bytes(), r.bytes()) else { return false };
    match Foreign::decode_row(key, Some(value)) {
        Err(e) => {
            refused(&e);
            false
        }
        Ok((table, name, f)) => {
            let f = f.expect("there is a value");
            assert!(f.validate().is_ok());
            assert_eq!((&f.table, &f.name, &f.key()[1..]), (&table, &name, key));
            let again = Foreign::decode(&table, &name, &f.encode());
            assert!(again.is_ok_and(|again| again == f));
            true
        }
    }
}

pub fn statistics(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = TestRng::new(seed);
    let mut part = || {
        let (nulls, all) = (rng.below(1 << 20), rng.next_u64() >> rng.below(64));
        let distinct_nulls = rng.below(1 + nulls.min(all));
        PartStatistics { distinct: all, distinct_nulls, nulls }
    };
    let mut one = |n: u16| {
        let indexes = (0..n).map(|i| (i * 300, (0..1 + i % 3).map(|_| part()).collect())).collect();
        let row = KeyStatistics { rows: u64::from(n) << (n * 4), indexes };
        join(&[&u32::from(n).to_be_bytes(), &row.encode()])
    };
    (0..12).map(&mut one).collect()
}

pub fn statistic(input: &[u8]) -> bool {
    let mut r = ByteReader::new(input);
    let (Ok(key), Ok(value)) = (r.bytes(), r.bytes()) else { return false };
    match KeyStatistics::decode_row(key, Some(value)) {
        Err(e) => {
            refused(&e);
            false
        }
        Ok((table, row)) => {
            let row = row.expect("there is a value");
            let again = KeyStatistics::decode_row(&table.0.to_be_bytes(), Some(&row.encode()));
            assert!(again.is_ok_and(|again| again == (table, Some(row))));
            true
        }
    }
}

pub fn schemas(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = TestRng::new(seed);
    (0..20).map(|_| bytes_of(&random(&mut rng))).collect()
}

pub fn schema(input: &[u8]) -> bool {
    match Schema::decode(input, "1.frd") {
        Err(e) => {
            refused(&e);
            false
        }
        Ok(schema) => {
            // Not always the input: a number may have been written with more bytes than it needs.
            let again = Schema::decode(&bytes_of(&schema), "1.frd");
            assert!(again.is_ok_and(|again| again == schema));
            use_schema(schema, &[0x80; 40], &[1; 90]);
            true
        }
    }
}

fn bind(schema: &Arc<Schema>) -> Option<RowCodec> {
    let layout = RecordLayout::compact(schema);
    RowCodec::bind("t", schema.clone(), layout, History::default(), Arc::new(ByteWeights)).ok()
}

/// Whether the key and the value are those of a row, in some index.
fn use_schema(schema: Schema, key: &[u8], value: &[u8]) -> bool {
    let schema = Arc::new(schema);
    let Some(codec) = bind(&schema) else { return false };
    let mut any = false;
    let mut printer = RowText::new("t", schema.clone(), vec![]).ok();
    for n in 0..schema.indexes.len() {
        codec.key_shape(n);
        let projection = codec.project(n, |_| true);
        let mut record = vec![0; codec.layout().record_bytes as usize];
        let mut blobs = OwnedBlobs::default();
        any |= accepted(codec.decode(&projection, key, value, &mut record, &mut blobs));
        let _ = codec.primary_key(n, key).map_err(|e| refused(&e));
        if schema.hidden_primary {
            let _ = codec.row_id(n, key).map_err(|e| refused(&e));
        }
        let _ = codec.prefix_len(n, key, 1).map_err(|e| refused(&e));
        if let Some(printer) = &mut printer {
            for style in [TextStyle::Tabs, TextStyle::Json] {
                printer.header(n, style);
                let mut text = String::new();
                let _ =
                    printer.row_to_text(n, key, value, style, &mut text).map_err(|e| refused(&e));
            }
            printer.key_to_text(n, key);
        }
    }
    any
}

pub fn rows(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = TestRng::new(seed);
    let mut out = Vec::new();
    for _ in 0..20 {
        let schema = Arc::new(random(&mut rng));
        let Some(codec) = bind(&schema) else { continue };
        let mut record = vec![0; codec.layout().record_bytes as usize];
        // Numbers may be anything; lengths in a record stay 0, as that of a blob must.
        for (column, place) in schema.columns.iter().zip(&codec.layout().columns) {
            let number = !matches!(column.ty, ColumnType::VarChar { .. } | ColumnType::Blob { .. });
            let at = place.offset as usize;
            if number && rng.below(2) == 0 {
                let random = rng.bytes(column.bytes as usize);
                record[at..at + random.len()].copy_from_slice(&random);
            }
        }
        let mut entries = Entries::default();
        let row = RowInput { record: &record, blobs: &Empty, row_id: 1 };
        if codec.encode_row(&row, &mut entries).is_err() {
            continue;
        }
        for n in 0..entries.len() {
            out.push(join(&[&bytes_of(&schema), &[n as u8], entries.key(n), entries.value(n)]));
        }
    }
    out
}

pub fn row(input: &[u8]) -> bool {
    let mut r = ByteReader::new(input);
    let parts = [r.bytes(), r.bytes(), r.bytes(), r.bytes()];
    let [Ok(schema), Ok(_), Ok(key), Ok(value)] = parts else { return false };
    Schema::decode(schema, "1.frd").is_ok_and(|schema| use_schema(schema, key, value))
}
