//! The definition of a table, and its bytes.
//!
//! ```text
//! version 1:  1 number:varint n:varint index* schema:bytes meta:bytes
//! version 2:  2 number:varint n:varint (index state:u8)* schema:bytes meta:bytes building:bytes
//!             m:varint (older schema:bytes)*
//! version 3:  3 as 2, but per older schema: schema:bytes blocks below:varint logged below:varint
//! index = key shape:bytes filter:u8 page size:varint compression:u8 level:u8
//! state   0 in use, 1 being built, 2 dropped, 3 discarded (index 0 alone, TDF5)
//! ```
//! `bytes` is a varint length and that many bytes. A definition is written in the earliest version that can express it:
//! a table that was never altered in place can be read by releases that do not know version 2, and one without older
//! schemas by those that do not know version 3.
//!
//! Invariants
//!
//! - TDF1. An index's number is its tree's, for ever: dropped ones keep their place, and new ones come behind.
//! - TDF2. `building` has a schema exactly while indexes are being built: the schema of the table
//!   with these indexes, and with their columns that are added at the same time (ALT5).
//! - TDF3. `history` has each schema that a stored row may name and that is not the current one, oldest first.
//! - TDF4. Of an older schema: runs with its rows have block numbers below `blocks_below`, log records with its rows
//!   begin below `logged_below`. `MAX`: not known.
//! - TDF5. Index 0 is in use, or it is discarded: then the table has no rows and waits for an import.

use std::sync::Arc;

use frond_base::{
    put_bytes, put_varint, BlockId, ByteReader, Error, ErrorKind, Lsn, Result, ShortInput, TableId,
};
use frond_run::Compression;

/// The longest table name, in bytes (MariaDB's path form of `database/table#P#partition`).
pub const NAME_BYTES_MAX: usize = 1024;
/// The most indexes of a table: 64 of its own (MariaDB's limit) and a hidden primary one.
pub const INDEXES_MAX: usize = 65;
/// The most indexes in the life of a table.
pub const SLOTS_MAX: usize = 4096;
/// The most older schemas, and their bytes.
pub const HISTORY_MAX: usize = 4096;
pub const HISTORY_BYTES_MAX: usize = 4 << 20;

const PLAIN: u64 = 1;
const ALTERED: u64 = 2;
const AGED: u64 = 3;

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
    pub state: IndexState,
}

/// The life of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexState {
    Live,
    /// Commits write its entries, nobody reads them. A restart drops it.
    Building,
    /// Its tree is empty, or is going to be.
    Dropped,
    /// The rows of the table are discarded (TDF5).
    Discarded,
}

impl IndexDef {
    /// Variable keys, 16 KiB pages, lz4, no filter.
    pub fn plain() -> IndexDef {
        IndexDef {
            key_shape: Vec::new(),
            filter: false,
            page_bytes: 16 << 10,
            compression: Compression::Lz4,
            state: IndexState::Live,
        }
    }
}

/// The definition of a table: its indexes and its schema, which the engine's lower layers do not read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDef {
    pub id: TableId,
    pub name: String,
    /// Index 0 is the primary key (TDF1).
    pub indexes: Vec<IndexDef>,
    /// `frond_row::Schema` bytes; empty for a table of plain keys and values.
    pub schema: Vec<u8>,
    /// Bytes that the table's owner (a server) keeps with it.
    pub meta: Vec<u8>,
    /// `frond_row::Schema` bytes, or empty (TDF2).
    pub building: Vec<u8>,
    /// TDF3.
    pub history: Vec<OldSchema>,
}

/// An older schema, and where its rows are (TDF4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OldSchema {
    /// `frond_row::Schema` bytes.
    pub schema: Vec<u8>,
    pub blocks_below: BlockId,
    pub logged_below: Lsn,
}

impl OldSchema {
    /// An older schema whose rows may be anywhere.
    pub fn new(schema: Vec<u8>) -> OldSchema {
        OldSchema { schema, blocks_below: BlockId::MAX, logged_below: Lsn::MAX }
    }
}

impl TableDef {
    /// A table that is new.
    pub fn new(id: TableId, name: String, indexes: Vec<IndexDef>) -> TableDef {
        let (schema, meta, building, history) = Default::default();
        TableDef { id, name, indexes, schema, meta, building, history }
    }

    /// The definition for all who keep it, without memory to spare.
    pub fn shared(mut self) -> Arc<TableDef> {
        self.name.shrink_to_fit();
        self.indexes.shrink_to_fit();
        self.indexes.iter_mut().for_each(|index| index.key_shape.shrink_to_fit());
        self.schema.shrink_to_fit();
        self.meta.shrink_to_fit();
        Arc::new(self)
    }

    /// Refuses definitions that the formats cannot store.
    pub fn validate(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what));
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            return refuse(format!("a table name has 1 to {NAME_BYTES_MAX} bytes"));
        }
        let dropped = |i: &&IndexDef| i.state == IndexState::Dropped;
        let in_use = self.indexes.len() - self.indexes.iter().filter(dropped).count();
        if in_use == 0 || in_use > INDEXES_MAX {
            return refuse(format!("a table has 1 to {INDEXES_MAX} indexes"));
        }
        if self.indexes.len() > SLOTS_MAX {
            return refuse(format!("a table has up to {SLOTS_MAX} indexes in its life: copy it"));
        }
        let bytes: usize = self.history.iter().map(|old| old.schema.len()).sum();
        if self.history.len() > HISTORY_MAX || bytes > HISTORY_BYTES_MAX {
            return refuse(format!("rows of {} older schemas: copy the table", self.history.len()));
        }
        let discarded = |i: &IndexDef| i.state == IndexState::Discarded;
        let primary = &self.indexes[0];
        if !(primary.state == IndexState::Live || discarded(primary))
            || self.indexes[1..].iter().any(discarded)
        {
            return refuse("index 0 is the primary key (TDF5)".into());
        }
        let builds = self.indexes.iter().any(|i| i.state == IndexState::Building);
        if builds == self.building.is_empty() {
            return refuse(
                "an index is being built without its schema, or a schema without (TDF2)".into(),
            );
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

    /// The table waits for an import (TDF5).
    pub fn is_discarded(&self) -> bool {
        self.indexes[0].state == IndexState::Discarded
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let live = |i: &IndexDef| i.state == IndexState::Live;
        let aged = !self.history.is_empty();
        let plain = !aged && self.indexes.iter().all(live);
        put_varint(
            &mut out,
            if aged {
                AGED
            } else if plain {
                PLAIN
            } else {
                ALTERED
            },
        );
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
            if !plain {
                out.push(match index.state {
                    IndexState::Live => 0,
                    IndexState::Building => 1,
                    IndexState::Dropped => 2,
                    IndexState::Discarded => 3,
                });
            }
        }
        put_bytes(&mut out, &self.schema);
        put_bytes(&mut out, &self.meta);
        if !plain {
            put_bytes(&mut out, &self.building);
            put_varint(&mut out, self.history.len() as u64);
            for old in &self.history {
                put_bytes(&mut out, &old.schema);
                put_varint(&mut out, old.blocks_below);
                put_varint(&mut out, old.logged_below);
            }
        }
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
    if !(PLAIN..=AGED).contains(&version) {
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
        let state = match if version == PLAIN { 0 } else { r.u8()? } {
            0 => IndexState::Live,
            1 => IndexState::Building,
            2 => IndexState::Dropped,
            3 => IndexState::Discarded,
            s => return Ok(Err(format!("index state {s} is not known to this release"))),
        };
        indexes.push(IndexDef { key_shape, filter, page_bytes, compression, state });
    }
    let mut def = TableDef::new(TableId(id), name.to_owned(), indexes);
    def.schema = r.bytes()?.to_vec();
    def.meta = r.bytes()?.to_vec();
    if version >= ALTERED {
        def.building = r.bytes()?.to_vec();
        for _ in 0..r.bounded_len()? {
            let mut old = OldSchema::new(r.bytes()?.to_vec());
            if version == AGED {
                (old.blocks_below, old.logged_below) = (r.varint()?, r.varint()?);
            }
            def.history.push(old);
        }
    }
    if r.remaining() != 0 {
        return Err(ShortInput { at: r.position() });
    }
    Ok(Ok(def))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> TableDef {
        let index = IndexDef { key_shape: vec![1, 4, 8], filter: true, ..IndexDef::plain() };
        let mut def =
            TableDef::new(TableId(9), "shop/orders".into(), vec![IndexDef::plain(), index]);
        (def.schema, def.meta) = (b"columns".to_vec(), b"notes".to_vec());
        def
    }

    fn discarded() -> TableDef {
        let mut def = sample();
        def.indexes[0].state = IndexState::Discarded;
        def
    }

    fn altered() -> TableDef {
        let mut def = sample();
        let of = |state| IndexDef { state, ..IndexDef::plain() };
        def.indexes.extend([of(IndexState::Dropped), of(IndexState::Building)]);
        def.building = b"more indexes".to_vec();
        def
    }

    fn aged() -> TableDef {
        let mut def = altered();
        def.history = vec![OldSchema::new(b"older".to_vec()), OldSchema::new(Vec::new())];
        (def.history[0].blocks_below, def.history[0].logged_below) = (77, 1 << 40);
        def
    }

    #[test]
    fn definition_round_trips() {
        let all = [(sample(), 1), (altered(), 2), (discarded(), 2), (aged(), 3)];
        for (def, version) in all {
            assert_eq!(def.encode()[0], version);
            assert_eq!(TableDef::decode("shop/orders", &def.encode()).unwrap(), def);
        }
    }

    #[test]
    fn version_2_says_nothing_of_where_old_rows_are() {
        let mut bytes = altered().encode();
        assert_eq!(bytes.pop(), Some(0));
        bytes.extend_from_slice(&[1, 5]);
        bytes.extend_from_slice(b"older");
        let history = TableDef::decode("shop/orders", &bytes).unwrap().history;
        assert_eq!(history, [OldSchema::new(b"older".to_vec())]);
    }

    #[test]
    fn cut_definition_is_corruption() {
        for bytes in [sample().encode(), altered().encode(), aged().encode()] {
            for cut in 0..bytes.len() {
                let e = TableDef::decode("t", &bytes[..cut]).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Corruption, "cut at {cut}: {e}");
            }
        }
    }

    #[test]
    fn newer_definition_is_refused_as_unsupported() {
        let mut bytes = sample().encode();
        bytes[0] = 9;
        assert_eq!(TableDef::decode("t", &bytes).unwrap_err().kind(), ErrorKind::UnsupportedFormat);
    }

    #[test]
    fn a_build_without_its_schema_and_a_dropped_primary_key_are_refused() {
        let mut def = altered();
        def.building.clear();
        assert!(def.validate().is_err());
        let mut def = altered();
        def.indexes[3].state = IndexState::Dropped;
        assert!(def.validate().is_err());
        def.building.clear();
        assert!(def.validate().is_ok());
        def.indexes[0].state = IndexState::Dropped;
        assert!(def.validate().is_err());
        let mut def = discarded();
        assert!(def.validate().is_ok() && def.is_discarded());
        def.indexes[1].state = IndexState::Discarded;
        assert!(def.validate().is_err());
    }
}
