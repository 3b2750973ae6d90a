//! The description of an exported table, which lies beside its file.
//!
//! All numbers are varints unless said otherwise.
//!
//! | field | |
//! |-------|--|
//! | magic | `FRONDEXP` |
//! | version | 1 |
//! | database | `u64`, little-endian |
//! | table | its number there |
//! | header | *bytes*: the newest header slot of the file, 4096 bytes |
//! | length | no extent of the file ends behind it |
//! | name, release | *bytes*: what the table was called there, and which release wrote this; for messages |
//! | rows, next AUTO_INCREMENT value, next row id | |
//! | definition | *bytes*: as in the catalog |
//! | checksum | `u64`, little-endian, of all that is in front of it |
//!
//! The header has the checksum of the image, the image has the metadata of the runs, and that has the checksums of their
//! tails; each page has its own. So the description is bound to the contents of the whole file.

use frond_base::{
    checksum64, put_bytes, put_varint, ByteReader, Error, ErrorKind, Result, ShortInput, TableId,
};

use crate::catalog::TableDef;
use crate::record::NEXT_MAX;

const MAGIC: &[u8; 8] = b"FRONDEXP";
/// The version that this release writes and reads.
pub const EXPORT_VERSION: u64 = 1;
const HEADER: usize = 4096;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportDescription {
    pub database: u64,
    pub table: TableId,
    pub header: Vec<u8>,
    pub len: u64,
    pub name: String,
    pub release: String,
    pub rows: u64,
    pub auto_increment: u64,
    pub row_id: u64,
    /// Its name is `name`, its number `table`.
    pub definition: TableDef,
}

impl ExportDescription {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_varint(&mut out, EXPORT_VERSION);
        out.extend_from_slice(&self.database.to_le_bytes());
        put_varint(&mut out, u64::from(self.table.0));
        put_bytes(&mut out, &self.header);
        put_varint(&mut out, self.len);
        put_bytes(&mut out, self.name.as_bytes());
        put_bytes(&mut out, self.release.as_bytes());
        for n in [self.rows, self.auto_increment, self.row_id] {
            put_varint(&mut out, n);
        }
        put_bytes(&mut out, &self.definition.encode());
        let sum = checksum64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// `file` names the bytes in errors.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`], and [`ErrorKind::UnsupportedFormat`] for one of a newer release.
    pub fn decode(bytes: &[u8], file: &str) -> Result<ExportDescription> {
        let bad = |what: &str| Error::new(ErrorKind::Corruption, format!("{file}: {what}"));
        if !bytes.starts_with(MAGIC) {
            return Err(bad("it does not describe an exported table of Frond"));
        }
        // The version is read first: a newer format may end differently.
        match ByteReader::new(&bytes[MAGIC.len()..]).varint() {
            Ok(EXPORT_VERSION) => {}
            Ok(version) if version > EXPORT_VERSION => {
                let what = format!(
                    "{file}: format version {version} of a newer release; this one reads up to \
                     {EXPORT_VERSION}"
                );
                return Err(Error::new(ErrorKind::UnsupportedFormat, what));
            }
            _ => return Err(bad("it is damaged")),
        }
        let (body, sum) = bytes.split_at(bytes.len().saturating_sub(8).max(MAGIC.len()));
        if sum != checksum64(body).to_le_bytes() {
            return Err(bad("it is damaged or cut short: its checksum does not match"));
        }
        let read = read(&mut ByteReader::new(&body[MAGIC.len()..]), file);
        read.map_err(|_| bad("it is damaged: numbers in it contradict each other"))?
    }
}

fn read(
    r: &mut ByteReader<'_>,
    file: &str,
) -> std::result::Result<Result<ExportDescription>, ShortInput> {
    let _version = r.varint()?;
    let database = r.u64()?;
    let table = TableId(r.u32_varint()?);
    let header = r.bytes()?.to_vec();
    let len = r.varint()?;
    let name = String::from_utf8_lossy(r.bytes()?).into_owned();
    let release = String::from_utf8_lossy(r.bytes()?).into_owned();
    let (rows, auto_increment, row_id) = (r.varint()?, r.varint()?, r.varint()?);
    let definition = r.bytes()?;
    let impossible = r.remaining() != 0
        || header.len() != HEADER
        || table.0 == 0
        || row_id >= NEXT_MAX
        || rows > i64::MAX as u64;
    if impossible {
        return Err(ShortInput { at: r.position() });
    }
    let decoded = TableDef::decode(&name, definition).and_then(|definition| {
        let usable = definition.id == table && definition.building.is_empty();
        if !usable || definition.is_discarded() {
            let what = format!("{file}: it is damaged: it defines another table");
            return Err(Error::new(ErrorKind::Corruption, what));
        }
        Ok(definition)
    });
    Ok(decoded.map(|definition| ExportDescription {
        database,
        table,
        header,
        len,
        name,
        release,
        rows,
        auto_increment,
        row_id,
        definition,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::IndexDef;

    fn sample() -> ExportDescription {
        let table = TableId(7);
        let mut definition = TableDef::new(table, "shop/t".into(), vec![IndexDef::plain()]);
        definition.schema = b"columns".to_vec();
        ExportDescription {
            database: 11,
            table,
            header: vec![3; HEADER],
            len: 16384,
            name: "shop/t".into(),
            release: "frond 1".into(),
            rows: 5,
            auto_increment: 9,
            row_id: 1,
            definition,
        }
    }

    #[test]
    fn description_round_trips() {
        let bytes = sample().encode();
        assert_eq!(ExportDescription::decode(&bytes, "t.cfg").unwrap(), sample());
    }

    #[test]
    fn cut_and_changed_descriptions_are_refused_by_name() {
        let bytes = sample().encode();
        for cut in 0..bytes.len() {
            let e = ExportDescription::decode(&bytes[..cut], "t.cfg").unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corruption, "cut at {cut}: {e}");
            assert!(e.message().contains("t.cfg"), "{e}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(ExportDescription::decode(&changed, "t.cfg").is_err(), "bit {bit} of {at}");
            }
        }
    }

    #[test]
    fn a_newer_description_is_unsupported_whatever_follows() {
        let mut bytes = sample().encode();
        bytes[MAGIC.len()] = 2;
        let e = ExportDescription::decode(&bytes[..12], "t.cfg").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::UnsupportedFormat);
    }

    #[test]
    fn impossible_numbers_with_a_good_checksum_are_refused() {
        let discarded = |d: &mut ExportDescription| {
            d.definition.indexes[0].state = crate::catalog::IndexState::Discarded;
        };
        let changes: [&dyn Fn(&mut ExportDescription); 5] = [
            &|d| d.header.truncate(8),
            &|d| d.row_id = NEXT_MAX,
            &|d| d.rows = u64::MAX,
            &|d| d.table = TableId(8),
            &discarded,
        ];
        for change in changes {
            let mut forged = sample();
            change(&mut forged);
            let e = ExportDescription::decode(&forged.encode(), "t.cfg").unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
        }
    }
}
