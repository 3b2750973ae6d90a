//! The stored form of a [`Schema`].
//!
//! ```text
//! schema  = format:u8 version:varint flags:u8 [auto_increment:varint] [n:varint codes*] n:varint column* n:varint index*
//!           flags: 1 hidden primary, 2 auto-increment column given
//!           format: 4 with codes, 3 when a column is coming (only while an index is built), 2 when an index is clustering, otherwise 1
//! codes   = width:u8 n:varint (above:varint char:u8)*
//!           above: how much the weight is above the one before, less 1; char: 0 none, +128 its capital has the weight, too
//! column  = id:varint name:bytes type:u8 a:u8 b:u8 bytes:varint flags:u8 charset:varint
//!           max_char:u8 min_char:u8 [n:varint (level:u8 space:bytes [codes:varint])*] [default:bytes]
//!           flags: 1 nullable, 2 not stored, 4 default given, 8 BinaryPadSpace, 16 Weights, from format 3 on also 32 coming
//!           codes: in format 4, 1 for the first ones of the schema, and so on, 0 for none
//! index   = tree:varint name:bytes flags:u8(1 unique, from format 2 on also 2 clustering) n:varint part*
//! part    = column:varint flags:u8(1 descending, 2 prefix) [bytes:varint chars:varint]
//! ```
//! `bytes` in the text is a varint length and that many bytes. Unknown types, flags and trailing
//! bytes are refused: a newer writer increases the leading format number. A schema that format 1 can say is
//! written as such, so that older releases read it.

use std::sync::Arc;

use frond_base::{put_bytes, put_varint, ByteReader, Error, ErrorKind, Result, ShortInput};

use crate::codes::{Coded, Codes, MAX_CODED};
use crate::schema::{
    Column, ColumnType, DefaultValue, Index, Part, PartPrefix, Schema, Sort, WeightLevel,
    MAX_COLUMNS, MAX_INDEXES, MAX_PARTS,
};

/// The formats of schemas without clustering indexes, with them, with columns that are coming, and with codes.
const PLAIN: u8 = 1;
const CLUSTERING: u8 = 2;
const COMING: u8 = 3;
const CODES: u8 = 4;

impl Schema {
    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let clustering = self.indexes.iter().any(|i| i.clustering);
        let coming = self.columns.iter().any(|c| c.coming);
        let codes = self.codes();
        out.push(match (codes.is_empty(), coming, clustering) {
            (false, _, _) => CODES,
            (_, true, _) => COMING,
            (_, _, true) => CLUSTERING,
            _ => PLAIN,
        });
        put_varint(out, u64::from(self.version));
        out.push(u8::from(self.hidden_primary) | u8::from(self.auto_increment.is_some()) << 1);
        if let Some(n) = self.auto_increment {
            put_varint(out, u64::from(n));
        }
        if !codes.is_empty() {
            put_varint(out, codes.len() as u64);
            codes.iter().for_each(|c| put_codes(out, c));
        }
        put_varint(out, self.columns.len() as u64);
        for c in &self.columns {
            put_column(out, c, &codes);
        }
        put_varint(out, self.indexes.len() as u64);
        for i in &self.indexes {
            put_varint(out, u64::from(i.tree));
            put_bytes(out, i.name.as_bytes());
            out.push(u8::from(i.unique) | u8::from(i.clustering) << 1);
            put_varint(out, i.parts.len() as u64);
            for p in &i.parts {
                put_varint(out, u64::from(p.column));
                out.push(u8::from(p.descending) | u8::from(p.prefix.is_some()) << 1);
                if let Some(prefix) = p.prefix {
                    put_varint(out, u64::from(prefix.bytes));
                    put_varint(out, u64::from(prefix.chars));
                }
            }
        }
    }

    /// The codes that its columns have, each once.
    fn codes(&self) -> Vec<Arc<Codes>> {
        let mut all: Vec<Arc<Codes>> = Vec::new();
        for c in &self.columns {
            let Sort::Weights(levels) = &c.sort else { continue };
            for codes in levels.iter().filter_map(|l| l.codes.as_ref()) {
                if !all.contains(codes) {
                    all.push(Arc::clone(codes));
                }
            }
        }
        all
    }

    /// Reads what [`Schema::encode`] wrote; `file` names where the bytes come from. The whole of
    /// `bytes` must be one valid schema.
    pub fn decode(bytes: &[u8], file: &str) -> Result<Schema> {
        if let Some(&format) = bytes.first() {
            if format > CODES {
                let what =
                    format!("{file}: schema format {format} is newer than this release reads");
                return Err(Error::new(ErrorKind::UnsupportedFormat, what));
            }
        }
        let mut r = ByteReader::new(bytes);
        let schema = read_schema(&mut r).map_err(|e| e.in_file(file, "table schema"))?;
        if r.remaining() > 0 {
            let place = ShortInput { at: r.position() };
            return Err(place.in_file(file, "table schema"));
        }
        schema.check().map_err(|what| {
            Error::corruption(file, format_args!("table schema {}: {what}", schema.version))
        })?;
        Ok(schema)
    }
}

fn put_codes(out: &mut Vec<u8>, codes: &Codes) {
    out.push(codes.width());
    put_varint(out, codes.list().len() as u64);
    let mut next = 0;
    for c in codes.list() {
        put_varint(out, u64::from(c.weight) - next);
        next = u64::from(c.weight) + 1;
        out.push(c.char | u8::from(c.both_cases) << 7);
    }
}

fn put_column(out: &mut Vec<u8>, c: &Column, codes: &[Arc<Codes>]) {
    put_varint(out, u64::from(c.id));
    put_bytes(out, c.name.as_bytes());
    let (code, a, b) = type_code(c.ty);
    out.extend_from_slice(&[code, a, b]);
    put_varint(out, u64::from(c.bytes));
    let sort = match c.sort {
        Sort::Binary => 0,
        Sort::BinaryPadSpace => 8,
        Sort::Weights(_) => 16,
    };
    let default = u8::from(c.default != DefaultValue::Empty) << 2;
    let coming = u8::from(c.coming) << 5;
    out.push(u8::from(c.nullable) | u8::from(!c.stored) << 1 | default | sort | coming);
    put_varint(out, u64::from(c.charset));
    out.extend_from_slice(&[c.max_char_bytes, c.min_char_bytes]);
    if let Sort::Weights(levels) = &c.sort {
        put_varint(out, levels.len() as u64);
        for l in levels {
            out.push(l.level);
            put_bytes(out, &l.space);
            if !codes.is_empty() {
                let n = codes.iter().position(|c| l.codes.as_ref() == Some(c));
                put_varint(out, n.map_or(0, |n| n as u64 + 1));
            }
        }
    }
    if let DefaultValue::Bytes(bytes) = &c.default {
        put_bytes(out, bytes);
    }
}

type Read<T> = std::result::Result<T, ShortInput>;

/// A varint that must be below `limit`.
fn number(r: &mut ByteReader<'_>, limit: u64) -> Read<u64> {
    let at = r.position();
    r.varint().and_then(|n| if n < limit { Ok(n) } else { Err(ShortInput { at }) })
}

fn flags(r: &mut ByteReader<'_>, known: u8) -> Read<u8> {
    let at = r.position();
    r.u8().and_then(|f| if f & !known == 0 { Ok(f) } else { Err(ShortInput { at }) })
}

fn name(r: &mut ByteReader<'_>) -> Read<String> {
    let at = r.position();
    String::from_utf8(r.bytes()?.to_vec()).map_err(|_| ShortInput { at })
}

fn read_schema(r: &mut ByteReader<'_>) -> Read<Schema> {
    let at = r.position();
    let format = r.u8()?;
    if !(PLAIN..=CODES).contains(&format) {
        return Err(ShortInput { at });
    }
    let version = number(r, 1 << 32)? as u32;
    let f = flags(r, 3)?;
    let auto_increment = if f & 2 != 0 { Some(number(r, 1 << 16)? as u16) } else { None };
    let mut codes = Vec::new();
    if format >= CODES {
        for _ in 0..number(r, MAX_COLUMNS as u64 + 1)? {
            codes.push(read_codes(r)?);
        }
    }
    let mut columns = Vec::new();
    for _ in 0..number(r, MAX_COLUMNS as u64 + 1)? {
        columns.push(read_column(r, if format < COMING { 31 } else { 63 }, &codes)?);
    }
    let mut indexes = Vec::new();
    for _ in 0..number(r, MAX_INDEXES as u64 + 1)? {
        let tree = number(r, 1 << 16)? as u16;
        let name = name(r)?;
        let marks = flags(r, if format == PLAIN { 1 } else { 3 })?;
        let mut parts = Vec::new();
        for _ in 0..number(r, MAX_PARTS as u64 + 1)? {
            let column = number(r, 1 << 16)? as u16;
            let f = flags(r, 3)?;
            let prefix = if f & 2 != 0 {
                let bytes = number(r, 1 << 16)? as u16;
                Some(PartPrefix { bytes, chars: number(r, 1 << 16)? as u16 })
            } else {
                None
            };
            parts.push(Part { column, prefix, descending: f & 1 != 0 });
        }
        let (unique, clustering) = (marks & 1 != 0, marks & 2 != 0);
        indexes.push(Index { tree, name, unique, clustering, parts });
    }
    Ok(Schema { version, columns, indexes, hidden_primary: f & 1 != 0, auto_increment })
}

fn read_codes(r: &mut ByteReader<'_>) -> Read<Arc<Codes>> {
    let at = r.position();
    let width = r.u8()?;
    let mut list = Vec::new();
    let mut next = 0;
    for _ in 0..number(r, MAX_CODED as u64 + 1)? {
        let at = r.position();
        let weight = next + number(r, 1 << 16)?;
        next = weight + 1;
        let char = r.u8()?;
        list.push(Coded {
            weight: u16::try_from(weight).map_err(|_| ShortInput { at })?,
            char: char & 0x7f,
            both_cases: char & 0x80 != 0,
        });
    }
    Codes::new(width, &list).map_err(|_| ShortInput { at })
}

fn read_column(r: &mut ByteReader<'_>, known: u8, codes: &[Arc<Codes>]) -> Read<Column> {
    let id = number(r, 1 << 32)? as u32;
    let name = name(r)?;
    let at = r.position();
    let ty = code_type(r.u8()?, r.u8()?, r.u8()?).ok_or(ShortInput { at })?;
    let bytes = number(r, 1 << 32)? as u32;
    let at = r.position();
    let f = flags(r, known)?;
    let charset = number(r, 1 << 32)? as u32;
    let (max_char_bytes, min_char_bytes) = (r.u8()?, r.u8()?);
    let sort = match f & 24 {
        0 => Sort::Binary,
        8 => Sort::BinaryPadSpace,
        16 => {
            let mut levels = Vec::new();
            for _ in 0..number(r, 16)? {
                let mut level = WeightLevel::plain(r.u8()?, r.bytes()?);
                if !codes.is_empty() {
                    let n = number(r, codes.len() as u64 + 1)?;
                    level.codes = codes.get((n as usize).wrapping_sub(1)).cloned();
                }
                levels.push(level);
            }
            Sort::Weights(levels)
        }
        _ => return Err(ShortInput { at }),
    };
    let default = match f & 4 {
        0 => DefaultValue::Empty,
        _ => DefaultValue::Bytes(r.bytes()?.to_vec()),
    };
    Ok(Column {
        id,
        name,
        ty,
        bytes,
        nullable: f & 1 != 0,
        charset,
        max_char_bytes,
        min_char_bytes,
        sort,
        stored: f & 2 == 0,
        coming: f & 32 != 0,
        default,
    })
}

/// The stored numbers of types. Never renumbered.
fn type_code(ty: ColumnType) -> (u8, u8, u8) {
    use ColumnType::*;
    match ty {
        Int { unsigned } => (1, u8::from(unsigned), 0),
        Float => (2, 0, 0),
        Double => (3, 0, 0),
        Decimal { precision, scale } => (4, precision, scale),
        Year => (5, 0, 0),
        Date => (6, 0, 0),
        Time { fsp } => (7, fsp, 0),
        DateTime { fsp } => (8, fsp, 0),
        Timestamp { fsp } => (9, fsp, 0),
        OldDate => (10, 0, 0),
        OldTime => (11, 0, 0),
        OldDateTime => (12, 0, 0),
        OldTimestamp => (13, 0, 0),
        OldTemporal => (14, 0, 0),
        Bit { bits } => (15, bits, 0),
        Enum => (16, 0, 0),
        Set => (17, 0, 0),
        Char => (18, 0, 0),
        Binary => (19, 0, 0),
        VarChar { length_bytes } => (20, length_bytes, 0),
        Blob { length_bytes } => (21, length_bytes, 0),
        Uuid { swapped } => (22, u8::from(swapped), 0),
        Inet6 => (23, 0, 0),
        Inet4 => (24, 0, 0),
        Opaque { key_bytes } => (25, key_bytes as u8, (key_bytes >> 8) as u8),
    }
}

fn code_type(code: u8, a: u8, b: u8) -> Option<ColumnType> {
    use ColumnType::*;
    let ty = match code {
        1 => Int { unsigned: a == 1 },
        2 => Float,
        3 => Double,
        4 => Decimal { precision: a, scale: b },
        5 => Year,
        6 => Date,
        7 => Time { fsp: a },
        8 => DateTime { fsp: a },
        9 => Timestamp { fsp: a },
        10 => OldDate,
        11 => OldTime,
        12 => OldDateTime,
        13 => OldTimestamp,
        14 => OldTemporal,
        15 => Bit { bits: a },
        16 => Enum,
        17 => Set,
        18 => Char,
        19 => Binary,
        20 => VarChar { length_bytes: a },
        21 => Blob { length_bytes: a },
        22 => Uuid { swapped: a == 1 },
        23 => Inet6,
        24 => Inet4,
        25 => Opaque { key_bytes: u16::from(a) | u16::from(b) << 8 },
        _ => return None,
    };
    // Encoding gives the same bytes, or they were not written by us.
    (type_code(ty) == (code, a, b)).then_some(ty)
}
