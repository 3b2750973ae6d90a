//! A model of rows: values outside any record, their order, and records and tuples written from
//! them.

use std::cmp::Ordering;
use std::sync::Arc;

use frond_row::{
    Blobs, Coded, Codes, Column, ColumnType, History, Index, OwnedBlobs, Part, PartPrefix,
    RecordLayout, RowCodec, RowInput, Schema, Sort, SortKeys, WeightLevel,
};

/// A small deterministic generator.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) as usize) % n
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Collations: 1 folds ASCII case into one-byte weights, 2 into two-byte weights, 3 has a second
/// level that tells the case, 4 drops letters 'q' and doubles 'w' (weights of another length).
/// Opaque columns sort by their bytes reversed.
pub struct FakeSortKeys;

impl SortKeys for FakeSortKeys {
    fn weights(&self, charset: u32, level: u8, src: &[u8], out: &mut Vec<u8>) {
        for b in src {
            match (charset, level) {
                (2, _) => out.extend_from_slice(&[0, b.to_ascii_lowercase()]),
                (3, 1) => out.push(if b.is_ascii_uppercase() { 3 } else { 2 }),
                (4, _) if *b == b'q' => {}
                (4, _) if *b == b'w' => out.extend_from_slice(&[1, 9, 0, 9]),
                (4, _) => out.extend_from_slice(&[1, *b]),
                _ => out.push(b.to_ascii_lowercase()),
            }
        }
    }

    fn char_prefix(&self, _: u32, src: &[u8], chars: usize) -> usize {
        char_prefix(src, chars)
    }

    fn opaque(&self, _: usize, image: &[u8], out: &mut Vec<u8>) {
        out.extend(image.iter().rev());
    }
}

pub fn char_prefix(src: &[u8], chars: usize) -> usize {
    let starts: Vec<usize> = (0..src.len()).filter(|n| src[*n] & 0xc0 != 0x80).collect();
    starts.get(chars).copied().unwrap_or(src.len())
}

/// Level description of the fake collations.
pub fn weights(charset: u32, pad: bool) -> Sort {
    let level = |level: u8, space: &[u8]| WeightLevel {
        level,
        space: if pad { space.to_vec() } else { Vec::new() },
        codes: None,
    };
    Sort::Weights(match charset {
        2 => vec![level(0, &[0, b' '])],
        3 => vec![level(0, b" "), level(1, &[2])],
        4 => vec![level(0, &[1, b' '])],
        _ => vec![level(0, b" ")],
    })
}

/// The same with codes on the first level. They have no 'b', and no 'q' and 'w', whose weights are of another length in collation 4.
pub fn coded(charset: u32, sort: Sort) -> Sort {
    let Sort::Weights(mut levels) = sort else { return sort };
    let mut list: Vec<Coded> = Vec::new();
    let mut width = 0;
    for char in (b' '..=b'~').filter(|c| !b"bBqQwW".contains(c)) {
        let mut weight = Vec::new();
        FakeSortKeys.weights(charset, 0, &[char], &mut weight);
        width = weight.len() as u8;
        let weight = weight.iter().fold(0, |all, b| all << 8 | u16::from(*b));
        match list.iter_mut().find(|c| c.weight == weight) {
            Some(capital) => (capital.char, capital.both_cases) = (char, true),
            None => list.push(Coded { weight, char, both_cases: false }),
        }
    }
    list.sort_by_key(|c| c.weight);
    levels[0].codes = Some(Codes::new(width, &list).unwrap());
    Sort::Weights(levels)
}

/// Contents per column; `None` is NULL. CHAR contents have no trailing spaces.
pub type Row = Vec<Option<Vec<u8>>>;

pub struct Table {
    pub schema: Arc<Schema>,
    pub layout: RecordLayout,
    pub codec: RowCodec,
}

impl Table {
    pub fn new(schema: Schema) -> Table {
        let layout = RecordLayout::compact(&schema);
        Table::with(schema, layout, Vec::new())
    }

    pub fn with(schema: Schema, layout: RecordLayout, history: Vec<Arc<Schema>>) -> Table {
        let schema = Arc::new(schema);
        let sort = Arc::new(FakeSortKeys);
        let history = History::new("t", &schema, history).unwrap();
        let codec = RowCodec::bind("t", schema.clone(), layout.clone(), history, sort).unwrap();
        Table { schema, layout, codec }
    }

    pub fn record(&self, row: &Row) -> (Vec<u8>, OwnedBlobs) {
        let mut record = vec![0xa5u8; self.layout.record_bytes as usize];
        let mut blobs = OwnedBlobs::default();
        for ((c, place), value) in self.schema.columns.iter().zip(&self.layout.columns).zip(row) {
            if let Some((byte, mask)) = place.null {
                record[byte as usize] &= !mask;
                if value.is_none() {
                    record[byte as usize] |= mask;
                }
            }
            let Some(value) = value else { continue };
            let at = place.offset as usize;
            let image = &mut record[at..at + c.bytes as usize];
            match c.ty {
                ColumnType::VarChar { length_bytes } => {
                    let n = usize::from(length_bytes);
                    image[..n].copy_from_slice(&(value.len() as u64).to_le_bytes()[..n]);
                    image[n..n + value.len()].copy_from_slice(value);
                }
                ColumnType::Blob { length_bytes } => {
                    let n = usize::from(length_bytes);
                    image[..n].copy_from_slice(&(value.len() as u64).to_le_bytes()[..n]);
                    image[n..].copy_from_slice(&blobs.add(value));
                }
                ColumnType::Char => {
                    image.fill(b' ');
                    image[..value.len()].copy_from_slice(value);
                }
                _ => image.copy_from_slice(value),
            }
        }
        (record, blobs)
    }

    pub fn value(&self, column: usize, record: &[u8], blobs: &OwnedBlobs) -> Option<Vec<u8>> {
        let (c, place) = (&self.schema.columns[column], &self.layout.columns[column]);
        if place.null.is_some_and(|(byte, mask)| record[byte as usize] & mask != 0) {
            return None;
        }
        let at = place.offset as usize;
        let image = &record[at..at + c.bytes as usize];
        let length = |n: u8| {
            image[..usize::from(n)].iter().rev().fold(0usize, |all, b| all << 8 | usize::from(*b))
        };
        Some(match c.ty {
            ColumnType::VarChar { length_bytes: n } => {
                image[usize::from(n)..][..length(n)].to_vec()
            }
            ColumnType::Blob { length_bytes: n } => {
                let blob = blobs.blob(column, image).to_vec();
                assert_eq!(blob.len(), length(n));
                blob
            }
            ColumnType::Char => image.trim_ascii_end().to_vec(),
            _ => image.to_vec(),
        })
    }

    /// Encodes `row` and gives (key, value, unique prefix) per index.
    pub fn entries(&self, row: &Row, row_id: u64) -> Vec<Entry> {
        let (record, blobs) = self.record(row);
        let mut out = frond_row::Entries::new();
        let input = RowInput { record: &record, blobs: &blobs, row_id };
        self.codec.encode_row(&input, &mut out).unwrap();
        (0..out.len())
            .map(|n| Entry {
                key: out.key(n).to_vec(),
                value: out.value(n).to_vec(),
                unique: out.unique_prefix(n).map(<[u8]>::to_vec),
            })
            .collect()
    }

    /// Compares two rows by the parts of an index.
    pub fn compare(&self, index: usize, a: &Row, b: &Row) -> Ordering {
        let parts = self.schema.indexes[index].parts.iter();
        parts.map(|p| self.compare_part(p, a, b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn compare_part(&self, part: &Part, a: &Row, b: &Row) -> Ordering {
        let n = usize::from(part.column);
        let c = &self.schema.columns[n];
        let order = match (&a[n], &b[n]) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => compare_values(c, part, a, b),
        };
        if part.descending {
            order.reverse()
        } else {
            order
        }
    }

    /// The key tuple of the first `parts` parts, extended parts included.
    pub fn tuple(&self, index: usize, row: &Row, parts: usize) -> Vec<u8> {
        let own = &self.schema.indexes[index].parts;
        let primary = self.schema.indexes[0].parts.iter();
        let more = primary.filter(|p| own.iter().all(|o| o.column != p.column));
        let mut tuple = Vec::new();
        for part in own.iter().chain(more).take(parts) {
            let n = usize::from(part.column);
            put_tuple_part(&self.schema.columns[n], part, row[n].as_deref(), &mut tuple);
        }
        tuple
    }
}

pub struct Entry {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub unique: Option<Vec<u8>>,
}

fn put_tuple_part(c: &Column, part: &Part, value: Option<&[u8]>, tuple: &mut Vec<u8>) {
    if c.nullable {
        tuple.push(u8::from(value.is_none()));
    }
    let var = match c.ty {
        ColumnType::VarChar { length_bytes } => Some(c.bytes - u32::from(length_bytes)),
        ColumnType::Blob { .. } => Some(0),
        _ => None,
    };
    let width = part.prefix.map_or(var.unwrap_or(c.bytes) as usize, |p| p.bytes.into());
    let mut body = value.unwrap_or(&[]).to_vec();
    if c.ty == ColumnType::Char {
        body.resize(c.bytes as usize, b' ');
    }
    if let Some(prefix) = part.prefix {
        body.truncate(match c.max_char_bytes {
            1 => usize::from(prefix.bytes).min(body.len()),
            _ => char_prefix(&body, prefix.chars.into()),
        });
    }
    if var.is_some() {
        tuple.extend_from_slice(&(body.len() as u16).to_le_bytes());
    }
    body.resize(width, if c.ty == ColumnType::Char { b' ' } else { 0 });
    tuple.extend_from_slice(&body);
}

fn number(bytes: &[u8], signed: bool) -> i128 {
    let n = bytes.iter().rev().fold(0i128, |n, b| n << 8 | i128::from(*b));
    if signed && bytes[bytes.len() - 1] & 0x80 != 0 {
        n - (1 << (8 * bytes.len()))
    } else {
        n
    }
}

fn compare_values(c: &Column, part: &Part, a: &[u8], b: &[u8]) -> Ordering {
    use ColumnType::*;
    match c.ty {
        Int { unsigned } => number(a, !unsigned).cmp(&number(b, !unsigned)),
        OldTime => number(a, true).cmp(&number(b, true)),
        Year | Date | Enum | Set | OldDate | OldDateTime | OldTimestamp => {
            number(a, false).cmp(&number(b, false))
        }
        Float => {
            let f = |v: &[u8]| f32::from_le_bytes(v.try_into().unwrap());
            f(a).partial_cmp(&f(b)).unwrap()
        }
        Double => {
            let f = |v: &[u8]| f64::from_le_bytes(v.try_into().unwrap());
            f(a).partial_cmp(&f(b)).unwrap()
        }
        Opaque { .. } => a.iter().rev().cmp(b.iter().rev()),
        Char | VarChar { .. } | Blob { .. } | Binary => {
            let cut = |v: &[u8]| {
                let mut v = v.to_vec();
                if c.ty == Char {
                    v.resize(c.bytes as usize, b' ');
                }
                let chars = match part.prefix {
                    Some(prefix) => usize::from(prefix.chars),
                    None if c.ty == Char => c.bytes as usize / usize::from(c.max_char_bytes),
                    None => usize::MAX,
                };
                v.truncate(match c.max_char_bytes {
                    1 => chars.min(v.len()),
                    _ => char_prefix(&v, chars),
                });
                v
            };
            compare_text(c, &cut(a), &cut(b))
        }
        _ => a.cmp(b),
    }
}

pub fn compare_text(c: &Column, a: &[u8], b: &[u8]) -> Ordering {
    match &c.sort {
        Sort::Binary => a.cmp(b),
        Sort::BinaryPadSpace => compare_padded(a, b, b" "),
        Sort::Weights(levels) => {
            let level = |l: &WeightLevel| {
                let (mut wa, mut wb) = (Vec::new(), Vec::new());
                FakeSortKeys.weights(c.charset, l.level, a, &mut wa);
                FakeSortKeys.weights(c.charset, l.level, b, &mut wb);
                match l.space.len() {
                    0 => wa.cmp(&wb),
                    _ => compare_padded(&wa, &wb, &l.space),
                }
            };
            levels.iter().map(level).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
        }
    }
}

fn compare_padded(a: &[u8], b: &[u8], space: &[u8]) -> Ordering {
    let n = a.len().max(b.len());
    let at = |w: &[u8], i: usize| w.get(i).copied().unwrap_or(space[i % space.len()]);
    (0..n).map(|i| at(a, i).cmp(&at(b, i))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

/// A column with an id and a name made of `id`.
pub fn column(id: u32, ty: ColumnType, bytes: u32) -> Column {
    let mut c = Column::new(&format!("c{id}"), ty, bytes);
    c.id = id;
    c
}

pub fn nullable(c: Column) -> Column {
    Column { nullable: true, ..c }
}

/// UTF-8 text in one of the fake collations.
pub fn text(c: Column, charset: u32, sort: Sort) -> Column {
    Column { charset, sort, max_char_bytes: 4, ..c }
}

pub fn part(column: u16) -> Part {
    Part { column, prefix: None, descending: false }
}

pub fn prefix(column: u16, chars: u16, max_char_bytes: u16) -> Part {
    let prefix = PartPrefix { bytes: chars * max_char_bytes, chars };
    Part { column, prefix: Some(prefix), descending: false }
}

/// A schema whose first index is the primary key; none: a hidden one.
pub fn schema(columns: Vec<Column>, indexes: Vec<Vec<Part>>) -> Schema {
    let hidden_primary = indexes[0].is_empty();
    let indexes = indexes
        .into_iter()
        .enumerate()
        .map(|(n, parts)| Index {
            tree: n as u16,
            name: format!("k{n}"),
            unique: n == 0,
            clustering: false,
            parts,
        })
        .collect();
    Schema { version: 1, columns, indexes, hidden_primary, auto_increment: None }
}
