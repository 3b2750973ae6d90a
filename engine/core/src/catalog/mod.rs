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
//! | `S` table number | what was sampled of the table's indexes: `key_statistics.rs` |
//!
//! A definition starts with its own format version; unknown versions are refused, not guessed
//! (`definition.rs`). `ddl.rs` creates, drops, renames and truncates; `names.rs` is the catalog in memory.

pub(crate) mod add_foreign;
pub(crate) mod alter;
pub(crate) mod alter_spec;
pub(crate) mod build;
pub(crate) mod build_anew;
pub(crate) mod build_index;
pub(crate) mod ddl;
pub(crate) mod definition;
pub(crate) mod entry_sort;
pub(crate) mod foreign;
pub(crate) mod foreign_ddl;
pub(crate) mod foreign_fit;
pub(crate) mod key_statistics;
pub(crate) mod names;
pub(crate) mod rebuild;
pub(crate) mod team;
pub(crate) mod versions;

use std::sync::Arc;

use frond_base::{put_varint, ByteReader, Error, Result, TableId};

use key_statistics::{KeyStatistics, STATISTICS_PREFIX};

pub use definition::{IndexDef, IndexState, OldSchema, TableDef};

/// The system table's number.
pub const SYSTEM_TABLE: TableId = TableId(0);
/// The first number given to a user's table.
pub const FIRST_TABLE: u32 = 1;
const NEXT_KEY: &[u8] = b"N";
const TABLE_PREFIX: u8 = b'T';

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
    Table { name: String, definition: Option<Arc<TableDef>> },
    Foreign { table: String, name: String, definition: Option<foreign::Foreign> },
    Statistics { table: TableId, statistics: Option<Arc<KeyStatistics>> },
}

/// Decodes a row of the system table; `value` is `None` for a tombstone.
pub fn decode_row(key: &[u8], value: Option<&[u8]>) -> Result<CatalogRow> {
    let bad = |what: &str| Error::corruption("catalog (0.frd)", what);
    match key.split_first() {
        Some((&TABLE_PREFIX, name)) => {
            let name = std::str::from_utf8(name).map_err(|_| bad("a table name is not UTF-8"))?;
            let definition = value.map(|v| TableDef::decode(name, v)).transpose()?;
            if definition.as_ref().is_some_and(|def| def.id == SYSTEM_TABLE) {
                return Err(bad("a table with number 0"));
            }
            let definition = definition.map(TableDef::shared);
            Ok(CatalogRow::Table { name: name.to_owned(), definition })
        }
        Some((&foreign::FOREIGN_PREFIX, rest)) => {
            let (table, name, definition) = foreign::Foreign::decode_row(rest, value)?;
            Ok(CatalogRow::Foreign { table, name, definition })
        }
        Some((&STATISTICS_PREFIX, rest)) => {
            let (table, statistics) = KeyStatistics::decode_row(rest, value)?;
            Ok(CatalogRow::Statistics { table, statistics: statistics.map(Arc::new) })
        }
        _ if key == NEXT_KEY => {
            let value = value.ok_or_else(|| bad("the next table number was deleted"))?;
            let n = ByteReader::new(value).varint().ok().and_then(|n| u32::try_from(n).ok());
            n.map(CatalogRow::NextTable).ok_or_else(|| bad("the next table number is unreadable"))
        }
        _ => Err(bad("a row of unknown kind")),
    }
}

#[cfg(test)]
mod tests {
    use frond_base::ErrorKind;

    use super::*;

    #[test]
    fn a_table_with_the_number_of_the_catalog_is_damage() {
        let row = |id| TableDef::new(TableId(id), "t".to_owned(), vec![IndexDef::plain()]).encode();
        let read = |id| decode_row(&table_key("t"), Some(&row(id))).map(drop).map_err(|e| e.kind());
        assert_eq!((read(0), read(1)), (Err(ErrorKind::Corruption), Ok(())));
    }
}
