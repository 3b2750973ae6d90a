//! The table and the rows of the insert benchmark: the same as those that `bench/iibench` sends to
//! a server as SQL, so that figures of the two can be compared.
//!
//! - PU1. Rows depend on seed, number and shape only. The generator is the one of
//!   bench/iibench/rows.c: splitmix64, two draws for the numbers of a row, then its text.

use frond_base::Result;
use frond_engine::{IndexDef, TableSpec};
use frond_row::{Column, ColumnType, Index, Part, RecordLayout, Schema};

const CASH_REGISTERS: u32 = 1000;
const CUSTOMERS: u32 = 100_000;
const PRODUCTS: u32 = 10_000;
const PRICE_SPREAD_CENTS: u32 = 500;
const ROWS_PER_SECOND_OF_TABLE_TIME: u64 = 100_000;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

/// Positions of the columns.
const ID: usize = 0;
const AT: usize = 1;
const REGISTER: usize = 2;
const CUSTOMER: usize = 3;
const PRODUCT: usize = 4;
const PRICE: usize = 5;
const DATA: usize = 6;

/// Characters that `data` may hold.
const DATA_MAX: u32 = 4000;

/// transactionid BIGINT AUTO_INCREMENT PRIMARY KEY, dateandtime DATETIME, cashregisterid INT NOT
/// NULL, customerid INT NOT NULL, productid INT NOT NULL, price FLOAT NOT NULL, data VARCHAR(4000),
/// and the keys marketsegment, registersegment and pdc.
pub fn schema() -> Schema {
    let int = ColumnType::Int { unsigned: false };
    let mut columns = vec![
        Column::new("transactionid", int, 8),
        Column::new("dateandtime", ColumnType::DateTime { fsp: 0 }, 5),
        Column::new("cashregisterid", int, 4),
        Column::new("customerid", int, 4),
        Column::new("productid", int, 4),
        Column::new("price", ColumnType::Float, 4),
        Column::new("data", ColumnType::VarChar { length_bytes: 2 }, DATA_MAX + 2),
    ];
    for (n, column) in columns.iter_mut().enumerate() {
        column.id = n as u32;
        column.nullable = n == AT || n == DATA;
    }
    let index = |tree: u16, name: &str, parts: &[usize]| Index {
        tree,
        name: name.into(),
        unique: tree == 0,
        clustering: false,
        parts: parts
            .iter()
            .map(|c| Part { column: *c as u16, prefix: None, descending: false })
            .collect(),
    };
    Schema {
        version: 1,
        columns,
        indexes: vec![
            index(0, "PRIMARY", &[ID]),
            index(1, "marketsegment", &[PRICE, CUSTOMER]),
            index(2, "registersegment", &[REGISTER, PRICE, CUSTOMER]),
            index(3, "pdc", &[PRICE, AT, CUSTOMER]),
        ],
        hidden_primary: false,
        auto_increment: Some(ID as u16),
    }
}

/// The table as the server would create it.
pub fn spec(name: &str) -> TableSpec {
    let schema = schema();
    let indexes = (0..schema.indexes.len())
        .map(|n| IndexDef { key_shape: schema.index_key_shape(n), ..IndexDef::plain() })
        .collect();
    let mut bytes = Vec::new();
    schema.encode(&mut bytes);
    TableSpec { name: name.into(), indexes, schema: bytes, meta: Vec::new(), auto_increment: 1 }
}

/// Makes rows, one after another, as record images of the compact layout.
pub struct Purchases {
    random: u64,
    rows: u64,
    data: u32,
    layout: RecordLayout,
    record: Vec<u8>,
}

fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below `bound` from 32 random bits.
fn scale(bits: u64, bound: u32) -> u32 {
    ((u64::from(bits as u32) * u64::from(bound)) >> 32) as u32
}

impl Purchases {
    /// `data` characters of text in each row, at most 4000, half of them random.
    pub fn new(seed: u64, data: u32) -> Purchases {
        assert!(data <= DATA_MAX, "data of {data} characters");
        let layout = RecordLayout::compact(&schema());
        let record = vec![0; layout.record_bytes as usize];
        Purchases { random: seed, rows: 0, data, layout, record }
    }

    pub fn layout(&self) -> &RecordLayout {
        &self.layout
    }

    fn put(&mut self, column: usize, bytes: &[u8]) {
        let at = self.layout.columns[column].offset as usize;
        self.record[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The next row, with `id` as its primary key.
    pub fn next(&mut self, id: u64) -> &[u8] {
        let (a, b) = (next_random(&mut self.random), next_random(&mut self.random));
        let register = scale(a, CASH_REGISTERS);
        let customer = scale(a >> 32, CUSTOMERS);
        let product = scale(b, PRODUCTS);
        let cents = scale(b >> 32, PRICE_SPREAD_CENTS) + customer;
        let at = packed_time(self.rows / ROWS_PER_SECOND_OF_TABLE_TIME);
        self.put(ID, &id.to_le_bytes());
        self.put(AT, &at);
        self.put(REGISTER, &register.to_le_bytes());
        self.put(CUSTOMER, &customer.to_le_bytes());
        self.put(PRODUCT, &product.to_le_bytes());
        self.put(PRICE, &((f64::from(cents) / 100.0) as f32).to_le_bytes());
        self.put_data();
        self.rows += 1;
        &self.record
    }

    fn put_data(&mut self) {
        let at = self.layout.columns[DATA].offset as usize;
        let len = self.data as usize;
        self.record[at..at + 2].copy_from_slice(&(len as u16).to_le_bytes());
        let (plain, random) = self.record[at + 2..at + 2 + len].split_at_mut(len - len / 2);
        plain.fill(b'a');
        for chunk in random.chunks_mut(10) {
            let mut bits = next_random(&mut self.random);
            for c in chunk {
                *c = ALPHABET[(bits & 63) as usize];
                bits >>= 6;
            }
        }
    }
}

/// 2026-01-01 00:00:00 and `seconds`, as a DATETIME(0) lies in a record.
fn packed_time(seconds: u64) -> [u8; 5] {
    let (day, second) = (1 + (seconds / 86_400).min(30), seconds % 86_400);
    let date = (2026 * 13 + 1) << 5 | day;
    let time = (second / 3600) << 12 | (second / 60 % 60) << 6 | (second % 60);
    let packed = (date << 17 | time) + 0x80_0000_0000;
    let b = packed.to_be_bytes();
    [b[3], b[4], b[5], b[6], b[7]]
}

/// A random place to start a range read of each secondary index: the bytes of its first parts.
pub fn query_key(codec: &frond_row::RowCodec, index: usize, random: &mut u64) -> Result<Vec<u8>> {
    let bits = next_random(random);
    let price = (f64::from(scale(bits, CUSTOMERS)) / 100.0) as f32;
    let register = scale(bits >> 32, CASH_REGISTERS);
    let mut tuple = Vec::new();
    let parts = if index == 2 {
        tuple.extend_from_slice(&register.to_le_bytes());
        2
    } else {
        1
    };
    tuple.extend_from_slice(&price.to_le_bytes());
    let mut key = Vec::new();
    codec.tuple_key(index, &tuple, parts, &mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use frond_row::{
        Entries, History, NoBlobs, PlainSortKeys, RowCodec, RowInput, RowText, TextStyle,
    };

    use super::*;

    #[test]
    fn rows_read_back_as_they_were_made() {
        let schema = Arc::new(schema());
        schema.validate().unwrap();
        let mut rows = Purchases::new(1, 10);
        let layout = rows.layout().clone();
        let keys = Arc::new(PlainSortKeys);
        let codec = RowCodec::bind("t", schema.clone(), layout, History::default(), keys).unwrap();
        let mut text = RowText::new("t", schema, Vec::new()).unwrap();
        let mut entries = Entries::new();
        for id in 1..=3u64 {
            let row = RowInput { record: rows.next(id), blobs: &NoBlobs, row_id: 0 };
            codec.encode_row(&row, &mut entries).unwrap();
            let mut line = String::new();
            text.row_to_text(0, entries.key(0), entries.value(0), TextStyle::Tabs, &mut line)
                .unwrap();
            let cells: Vec<&str> = line.split('\t').collect();
            assert_eq!(cells[0], id.to_string());
            assert_eq!(cells[1], "2026-01-01 00:00:00");
            assert!(cells[6].starts_with("aaaaa") && cells[6].len() == 10, "{line}");
        }
    }

    #[test]
    fn every_index_has_keys_of_fixed_shape() {
        // The pdc key holds a nullable column: its NULL byte is a field of one byte.
        let widths: Vec<usize> = spec("t")
            .indexes
            .iter()
            .map(|i| i.key_shape.iter().map(|w| usize::from(*w)).sum())
            .collect();
        assert_eq!(widths, [8, 16, 20, 22]);
    }

    #[test]
    fn the_same_seed_gives_the_same_rows() {
        let (mut a, mut b, mut c) =
            (Purchases::new(7, 40), Purchases::new(7, 40), Purchases::new(8, 40));
        let first = a.next(1).to_vec();
        assert_eq!(first, b.next(1));
        assert_ne!(first, c.next(1));
    }
}
