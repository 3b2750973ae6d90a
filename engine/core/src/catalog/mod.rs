//! The catalog: which tables exist, as rows of the system table.
//!
//! The system table is table 0, a tree like any other, so creating, dropping, renaming and truncating
//! a table are ordinary transactions: logged, atomic, recovered with everything else.
//!
//! | key | value |
//! |-----|-------|
//! | `N` | next unused table number (varint): numbers are never reused, so neither are file names |
//! | `T` name | the table's definition |
//! | `F` table NUL name | a foreign key of the table: `foreign.rs` |
//!
//! A definition starts with its own format version; unknown versions are refused, not guessed.

pub(crate) mod ddl;
pub(crate) mod foreign;
pub(crate) mod foreign_ddl;
pub(crate) mod foreign_fit;
pub(crate) mod names;

use frond_base::{
    put_bytes, put_varint, ByteReader, Error, ErrorKind, Result, ShortInput, TableId,
};
use frond_run::Compression;

/// The system table's number.
pub const SYSTEM_TABLE: TableId = TableId(0);
/// The first number given to a user's table.
pub const FIRST_TABLE: u32 = 1;
/// The longest table name, in bytes (MariaDB's path form of `database/table#P#partition`).
pub const NAME_BYTES_MAX: usize = 1024;
/// The most indexes of a table: 64 of its own (MariaDB's limit) and a hidden primary one.
pub const INDEXES_MAX: usize = 65;

const NEXT_KEY: &[u8] = b"N";
const TABLE_PREFIX: u8 = b'T';
const DEFINITION_VERSION: u64 = 1;

/// The storage format of one index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexDef {
    /// Widths of the fixed-width fields of a key, for the run codec; empty when keys vary.
    pub key_shape: Vec<u8>,
    /// Point lookups on random keys: runs of leaves carry a filter.
    pub filter: bool,
    /// Uncompressed bytes of a page: 4096 to 65536, a power of two.
    pub page_bytes: u32,
    pub compression: Compression,
}

impl IndexDef {
    /// Variable keys, 16 KiB pages, lz4, no filter.
    pub fn plain() -> IndexDef {
        IndexDef {
            key_shape: Vec::new(),
            filter: false,
            page_bytes: 16 << 10,
            compression: Compression::Lz4,
        }
    }
}

/// The definition of a table: its indexes and its schema, which the engine's lower layers do not read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDef {
    pub id: TableId,
    pub name: String,
    /// Index 0 is the primary key.
    pub indexes: Vec<IndexDef>,
    /// `frond_row::Schema` bytes; empty for a table of plain keys and values.
    pub schema: Vec<u8>,
    /// Bytes that the table's owner (a server) keeps with it.
    pub meta: Vec<u8>,
}

/// Key of a table's row in the system table.
pub fn table_key(name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + name.len());
    key.push(TABLE_PREFIX);
    key.extend_from_slice(name.as_bytes());
    key
}

/// Key and value of the row that holds the next unused table number.
pub fn next_table_row(next: u32) -> (Vec<u8>, Vec<u8>) {
    let mut value = Vec::new();
    put_varint(&mut value, u64::from(next));
    (NEXT_KEY.to_vec(), value)
}

/// One row of the system table, decoded. `definition` is `None` for a deleted row.
pub enum CatalogRow {
    NextTable(u32),
    Table { name: String, definition: Option<TableDef> },
    Foreign { table: String, name: String, definition: Option<foreign::Foreign> },
}

/// Decodes a row of the system table; `value` is `None` for a tombstone.
pub fn decode_row(key: &[u8], value: Option<&[u8]>) -> Result<CatalogRow> {
    let bad = |what: &str| Error::corruption("catalog (0.frd)", what);
    match key.split_first() {
        Some((&TABLE_PREFIX, name)) => {
            let name = std::str::from_utf8(name).map_err(|_| bad("a table name is not UTF-8"))?;
            let definition = value.map(|v| TableDef::decode(name, v)).transpose()?;
            Ok(CatalogRow::Table { name: name.to_owned(), definition })
        }
        Some((&foreign::FOREIGN_PREFIX, rest)) => {
            let (table, name) = foreign::Foreign::split_key(rest)
                .ok_or_else(|| bad("the key of a foreign key is unreadable"))?;
            let decode = |v| foreign::Foreign::decode(&table, &name, v);
            let definition = value.map(decode).transpose()?;
            Ok(CatalogRow::Foreign { table, name, definition })
        }
        _ if key == NEXT_KEY => {
            let value = value.ok_or_else(|| bad("the next table number was deleted"))?;
            let n = ByteReader::new(value).varint().ok().and_then(|n| u32::try_from(n).ok());
            n.map(CatalogRow::NextTable).ok_or_else(|| bad("the next table number is unreadable"))
        }
        _ => Err(bad("a row of unknown kind")),
    }
}

impl TableDef {
    /// Refuses definitions that the formats cannot store.
    pub fn validate(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what));
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            return refuse(format!("a table name has 1 to {NAME_BYTES_MAX} bytes"));
        }
        if self.indexes.is_empty() || self.indexes.len() > INDEXES_MAX {
            return refuse(format!("a table has 1 to {INDEXES_MAX} indexes"));
        }
        for index in &self.indexes {
            let n = index.page_bytes;
            if !(4096..=65536).contains(&n) || !n.is_power_of_two() {
                return refuse(format!("page size {n} is not 4096, 8192, 16384, 32768 or 65536"));
            }
            if index.key_shape.iter().any(|w| !(1..=8).contains(w)) {
                return refuse("a key field has 1 to 8 bytes".into());
            }
        }
        Ok(())
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, DEFINITION_VERSION);
        put_varint(&mut out, u64::from(self.id.0));
        put_varint(&mut out, self.indexes.len() as u64);
        for index in &self.indexes {
            put_bytes(&mut out, &index.key_shape);
            out.push(u8::from(index.filter));
            put_varint(&mut out, u64::from(index.page_bytes));
            let (method, level) = match index.compression {
                Compression::None => (0, 0),
                Compression::Lz4 => (1, 0),
                Compression::Zstd(level) => (2, level),
            };
            out.push(method);
            out.push(level as u8);
        }
        put_bytes(&mut out, &self.schema);
        put_bytes(&mut out, &self.meta);
        out
    }

    pub fn decode(name: &str, bytes: &[u8]) -> Result<TableDef> {
        let place = format!("definition of table '{name}'");
        let def = decode_definition(name, bytes)
            .map_err(|e| e.in_file("catalog (0.frd)", &place))?
            .map_err(|what| Error::new(ErrorKind::UnsupportedFormat, format!("{place}: {what}")))?;
        def.validate().map_err(|e| Error::corruption("catalog (0.frd)", e))?;
        Ok(def)
    }
}

type Understood<T> = std::result::Result<T, String>;

fn decode_definition(
    name: &str,
    bytes: &[u8],
) -> std::result::Result<Understood<TableDef>, ShortInput> {
    let mut r = ByteReader::new(bytes);
    let version = r.varint()?;
    if version != DEFINITION_VERSION {
        return Ok(Err(format!("version {version} is not known to this release")));
    }
    let id = r.u32_varint()?;
    let n = r.bounded_len()?;
    let mut indexes = Vec::with_capacity(n.min(INDEXES_MAX));
    for _ in 0..n {
        let key_shape = r.bytes()?.to_vec();
        let filter = r.u8()? != 0;
        let page_bytes = r.u32_varint()?;
        let (method, level) = (r.u8()?, r.u8()?);
        let compression = match method {
            0 => Compression::None,
            1 => Compression::Lz4,
            2 => Compression::Zstd(level as i8),
            m => return Ok(Err(format!("compression method {m} is not known to this release"))),
        };
        indexes.push(IndexDef { key_shape, filter, page_bytes, compression });
    }
    let schema = r.bytes()?.to_vec();
    let meta = r.bytes()?.to_vec();
    if r.remaining() != 0 {
        return Err(ShortInput { at: r.position() });
    }
    Ok(Ok(TableDef { id: TableId(id), name: name.to_owned(), indexes, schema, meta }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> TableDef {
        let index = IndexDef { key_shape: vec![1, 4, 8], filter: true, ..IndexDef::plain() };
        TableDef {
            id: TableId(9),
            name: "shop/orders".into(),
            indexes: vec![IndexDef::plain(), index],
            schema: b"columns".to_vec(),
            meta: b"notes".to_vec(),
        }
    }

    #[test]
    fn definition_round_trips() {
        let def = sample();
        assert_eq!(TableDef::decode("shop/orders", &def.encode()).unwrap(), def);
    }

    #[test]
    fn cut_definition_is_corruption() {
        let bytes = sample().encode();
        for cut in 0..bytes.len() {
            let e = TableDef::decode("t", &bytes[..cut]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corruption, "cut at {cut}: {e}");
        }
    }

    #[test]
    fn newer_definition_is_refused_as_unsupported() {
        let mut bytes = sample().encode();
        bytes[0] = 9;
        assert_eq!(TableDef::decode("t", &bytes).unwrap_err().kind(), ErrorKind::UnsupportedFormat);
    }
}
