//! What was sampled of a table's indexes, as a row of the catalog: it outlives a restart.
//!
//! ```text
//! key    'S' table:u32 (big endian)
//! value  varint version (1), rows of the table when it was sampled, number of indexes
//!        per index: varint number of its tree, number of parts
//!        per part, n: varints of the first n parts together: distinct values, those with a NULL, entries with a NULL
//! ```
//!
//! The row is about a table's number, so that it survives RENAME TABLE, and no later table inherits it. A transaction
//! that drops the number deletes the row. Statistics of a tree that no longer exists are ignored.
//!
//! Rejected: keeping it in the table's image. ANALYZE of an unchanged table would have to write one.

use frond_base::{put_varint, ByteReader, Error, ErrorKind, IndexNo, Result, ShortInput, TableId};

const VERSION: u64 = 1;
pub const STATISTICS_PREFIX: u8 = b'S';

/// What is known of the first n parts of an index's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PartStatistics {
    /// Values, NULLs being equal to each other; 0 only for an empty index.
    pub distinct: u64,
    /// Of `distinct`: those with a NULL.
    pub distinct_nulls: u64,
    /// Entries with a NULL.
    pub nulls: u64,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyStatistics {
    pub rows: u64,
    pub indexes: Vec<(IndexNo, Vec<PartStatistics>)>,
}

/// Key of a table's row in the system table.
pub fn statistics_key(table: TableId) -> Vec<u8> {
    let mut key = vec![STATISTICS_PREFIX];
    key.extend_from_slice(&table.0.to_be_bytes());
    key
}

impl KeyStatistics {
    /// The statistics of the index whose tree has this number.
    pub fn of_tree(&self, tree: IndexNo) -> Option<&[PartStatistics]> {
        self.indexes.iter().find(|(t, _)| *t == tree).map(|(_, parts)| parts.as_slice())
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, VERSION);
        put_varint(&mut out, self.rows);
        put_varint(&mut out, self.indexes.len() as u64);
        for (tree, parts) in &self.indexes {
            put_varint(&mut out, u64::from(*tree));
            put_varint(&mut out, parts.len() as u64);
            for p in parts {
                put_varint(&mut out, p.distinct);
                put_varint(&mut out, p.distinct_nulls);
                put_varint(&mut out, p.nulls);
            }
        }
        out
    }

    /// Decodes a row; `key` is its key without the prefix, `value` is `None` for a deleted row.
    ///
    /// # Errors
    /// `Corruption`, or `UnsupportedFormat` for a newer version.
    pub fn decode_row(
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(TableId, Option<KeyStatistics>)> {
        let id = <[u8; 4]>::try_from(key).map_err(|_| {
            Error::corruption("catalog (0.frd)", "the key of an index's statistics is unreadable")
        })?;
        let id = TableId(u32::from_be_bytes(id));
        let Some(value) = value else { return Ok((id, None)) };
        let place = format!("statistics of table {id}");
        match decode(value).map_err(|e| e.in_file("catalog (0.frd)", &place))? {
            Ok(found) => Ok((id, Some(found))),
            Err(version) => Err(Error::new(
                ErrorKind::UnsupportedFormat,
                format!("{place}: version {version} is not known to this release"),
            )),
        }
    }
}

/// The inner `Err` is a version that is not known.
fn decode(
    bytes: &[u8],
) -> std::result::Result<std::result::Result<KeyStatistics, u64>, ShortInput> {
    let mut r = ByteReader::new(bytes);
    let version = r.varint()?;
    if version != VERSION {
        return Ok(Err(version));
    }
    let rows = r.varint()?;
    let mut indexes = Vec::new();
    for _ in 0..r.bounded_len()? {
        let at = r.position();
        let tree = IndexNo::try_from(r.varint()?).map_err(|_| ShortInput { at })?;
        let mut parts = Vec::new();
        for _ in 0..r.bounded_len()? {
            let (distinct, distinct_nulls, nulls) = (r.varint()?, r.varint()?, r.varint()?);
            if distinct_nulls > distinct || distinct_nulls > nulls {
                return Err(ShortInput { at });
            }
            parts.push(PartStatistics { distinct, distinct_nulls, nulls });
        }
        indexes.push((tree, parts));
    }
    match r.remaining() {
        0 => Ok(Ok(KeyStatistics { rows, indexes })),
        _ => Err(ShortInput { at: r.position() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> KeyStatistics {
        let part =
            |distinct, distinct_nulls, nulls| PartStatistics { distinct, distinct_nulls, nulls };
        let indexes =
            vec![(0, vec![part(1 << 40, 0, 0)]), (700, vec![part(3, 1, 9), part(4, 2, 9)])];
        KeyStatistics { rows: 1 << 40, indexes }
    }

    #[test]
    fn statistics_round_trip_and_what_is_cut_or_newer_is_refused() {
        let bytes = sample().encode();
        let key = statistics_key(TableId(77));
        let read = |bytes| KeyStatistics::decode_row(&key[1..], Some(bytes));
        assert_eq!(read(&bytes).unwrap(), (TableId(77), Some(sample())));
        assert_eq!(KeyStatistics::decode_row(&key[1..], None).unwrap(), (TableId(77), None));
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]).unwrap_err().kind(), ErrorKind::Corruption, "{cut}");
        }
        assert_eq!(read(&[2]).unwrap_err().kind(), ErrorKind::UnsupportedFormat);
        // More values with a NULL than values.
        assert_eq!(read(&[1, 9, 1, 0, 1, 3, 4, 5]).unwrap_err().kind(), ErrorKind::Corruption);
        assert!(KeyStatistics::decode_row(&key, None).is_err());
    }
}
