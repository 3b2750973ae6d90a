//! `backup.pin`: what a pin holds, for the tool that copies it.
//!
//! All numbers are varints unless said otherwise.
//!
//! | field | |
//! |-------|--|
//! | magic | `FRONDPIN` |
//! | version | 2 |
//! | pin | `u64`, little-endian: the number of the pin |
//! | database | `u64`, little-endian |
//! | commit sequence | the log of the copy ends here |
//! | n, then n x segment | number, start LSN, ascending |
//! | n, then n x table | number, name (*bytes*; empty: the catalog), checkpoint sequence, checkpoint LSN, front (*bytes*: the first 8192 bytes of the copy), image offset and length in units (0 0: none), next block, n, then n x block: number minus the previous one, offset and length in units |
//! | n, then n x table | name (*bytes*), committed rows; of all tables of the catalog, with a file or without |
//! | checksum | `u64`, little-endian, of all that is in front of it |
//!
//! The file lives as long as the pin; it is not synced.

use frond_base::{
    checksum64, put_bytes, put_varint, ByteReader, Error, ErrorKind, Lsn, Result, ShortInput,
    TableId,
};
use frond_space::{Extent, PinnedFile, EXTENT_ALIGN};

/// The name of the file.
pub const PIN_FILE: &str = "backup.pin";
const MAGIC: &[u8; 8] = b"FRONDPIN";
const VERSION: u64 = 2;
/// Bytes of a table file in front of its extents.
const FRONT: usize = 8192;
/// No extent ends behind this: sums of forged numbers must not overflow.
const MAX_UNITS: u64 = (1 << 50) / EXTENT_ALIGN;
/// Numbers of blocks and checkpoints are below this.
const MAX_NUMBER: u64 = 1 << 62;

/// What a copy consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    pub pin: u64,
    pub database: u64,
    /// Where the copy's log ends: all that committed up to here is in it, and nothing else.
    pub at: Lsn,
    /// Number and start of each segment up to `at`.
    pub segments: Vec<(u32, Lsn)>,
    pub files: Vec<PinnedFile>,
    /// Names of the tables of `files`, in the same order; that of the catalog is empty.
    pub names: Vec<String>,
    /// Each table of the catalog and its committed rows.
    pub rows: Vec<(String, u64)>,
}

impl Description {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_varint(&mut out, VERSION);
        out.extend_from_slice(&self.pin.to_le_bytes());
        out.extend_from_slice(&self.database.to_le_bytes());
        put_varint(&mut out, self.at);
        put_varint(&mut out, self.segments.len() as u64);
        for (number, start) in &self.segments {
            put_varint(&mut out, u64::from(*number));
            put_varint(&mut out, *start);
        }
        put_varint(&mut out, self.files.len() as u64);
        assert_eq!(self.files.len(), self.names.len());
        for (file, name) in self.files.iter().zip(&self.names) {
            put_varint(&mut out, u64::from(file.table.0));
            put_bytes(&mut out, name.as_bytes());
            put_varint(&mut out, file.seq);
            put_varint(&mut out, file.lsn);
            put_bytes(&mut out, &file.front);
            put_extent(&mut out, file.image.unwrap_or(Extent { offset: 0, len: 0 }));
            put_varint(&mut out, file.next_block);
            put_varint(&mut out, file.blocks.len() as u64);
            let mut previous = 0;
            for (block, extent) in &file.blocks {
                put_varint(&mut out, block - previous);
                put_extent(&mut out, *extent);
                previous = *block;
            }
        }
        put_varint(&mut out, self.rows.len() as u64);
        for (name, rows) in &self.rows {
            put_bytes(&mut out, name.as_bytes());
            put_varint(&mut out, *rows);
        }
        let sum = checksum64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// # Errors
    /// [`ErrorKind::Corruption`], and [`ErrorKind::UnsupportedFormat`] for one of a newer release.
    pub fn decode(bytes: &[u8]) -> Result<Description> {
        let corrupt = |what: &str| Error::corruption(PIN_FILE, what);
        let Some(split) = bytes.len().checked_sub(8).filter(|_| bytes.starts_with(MAGIC)) else {
            return Err(corrupt("it does not describe a pin"));
        };
        let (body, sum) = bytes.split_at(split);
        if sum != checksum64(body).to_le_bytes() {
            return Err(corrupt("its checksum does not match"));
        }
        let mut r = ByteReader::new(&body[MAGIC.len()..]);
        match r.varint() {
            Ok(VERSION) => {}
            Ok(version) => {
                let what = format!(
                    "{PIN_FILE} has format version {version}, this program reads {VERSION}: use the one of \
                     the server's release"
                );
                return Err(Error::new(ErrorKind::UnsupportedFormat, what));
            }
            Err(_) => return Err(corrupt("it is too short")),
        }
        let read = read(&mut r).map_err(|_| corrupt("numbers in it contradict each other"))?;
        match r.remaining() {
            0 => Ok(read),
            _ => Err(corrupt("it is too long")),
        }
    }
}

fn put_extent(out: &mut Vec<u8>, extent: Extent) {
    put_varint(out, extent.offset / EXTENT_ALIGN);
    put_varint(out, extent.len / EXTENT_ALIGN);
}

/// Numbers that are too short, or impossible.
struct Bad;

impl From<ShortInput> for Bad {
    fn from(_: ShortInput) -> Bad {
        Bad
    }
}

fn read(r: &mut ByteReader<'_>) -> std::result::Result<Description, Bad> {
    let (pin, database, at) = (r.u64()?, r.u64()?, r.varint()?);
    let mut segments: Vec<(u32, Lsn)> = Vec::new();
    for _ in 0..r.bounded_len()? {
        let (number, start) = (r.u32_varint()?, r.varint()?);
        // Numbers have gaps where a restart removed an empty segment, or found spares with higher ones.
        let follows = segments.last().is_none_or(|(n, s)| *n < number && *s <= start);
        if !follows || start > at {
            return Err(Bad);
        }
        segments.push((number, start));
    }
    let mut files: Vec<PinnedFile> = Vec::new();
    let mut names = Vec::new();
    for _ in 0..r.bounded_len()? {
        let table = TableId(r.u32_varint()?);
        if files.last().is_some_and(|before| before.table >= table) {
            return Err(Bad);
        }
        names.push(read_name(r)?);
        files.push(read_file(r, table)?);
    }
    let mut rows = Vec::new();
    for _ in 0..r.bounded_len()? {
        rows.push((read_name(r)?, r.varint()?));
    }
    Ok(Description { pin, database, at, segments, files, names, rows })
}

fn read_name(r: &mut ByteReader<'_>) -> std::result::Result<String, Bad> {
    String::from_utf8(r.bytes()?.to_vec()).map_err(|_| Bad)
}

fn read_file(r: &mut ByteReader<'_>, table: TableId) -> std::result::Result<PinnedFile, Bad> {
    let (seq, lsn) = (r.varint()?, r.varint()?);
    let front = r.bytes()?.to_vec();
    let image = read_extent(r)?;
    let next_block = r.varint()?;
    if front.len() != FRONT || seq >= MAX_NUMBER || next_block >= MAX_NUMBER {
        return Err(Bad);
    }
    let mut blocks = Vec::new();
    let mut previous = 0u64;
    for _ in 0..r.bounded_len()? {
        let block = r.varint()?.checked_add(previous).filter(|b| *b < next_block).ok_or(Bad)?;
        if !blocks.is_empty() && block == previous {
            return Err(Bad);
        }
        blocks.push((block, read_extent(r)?.ok_or(Bad)?));
        previous = block;
    }
    Ok(PinnedFile { table, seq, lsn, front, image, next_block, blocks })
}

/// `None` for an empty one.
fn read_extent(r: &mut ByteReader<'_>) -> std::result::Result<Option<Extent>, Bad> {
    let (offset, len) = (r.varint()?, r.varint()?);
    let within = offset.checked_add(len).is_some_and(|end| end <= MAX_UNITS);
    match within {
        true if len == 0 && offset == 0 => Ok(None),
        true if len > 0 && offset >= FRONT as u64 / EXTENT_ALIGN => {
            Ok(Some(Extent { offset: offset * EXTENT_ALIGN, len: len * EXTENT_ALIGN }))
        }
        _ => Err(Bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Description {
        let unit = |offset: u64, len: u64| Extent { offset: offset * 4096, len: len * 4096 };
        let file = PinnedFile {
            table: TableId(3),
            seq: 7,
            lsn: 900,
            front: vec![1; FRONT],
            image: Some(unit(2, 1)),
            next_block: 12,
            blocks: vec![(4, unit(9, 3)), (11, unit(3, 2))],
        };
        let fresh =
            PinnedFile { table: TableId(9), image: None, blocks: Vec::new(), ..file.clone() };
        let segments = vec![(4, 100), (7, 1000)];
        let names = vec!["a/b".into(), String::new()];
        let (files, rows) = (vec![file, fresh], vec![("a/b".into(), 4000), ("a/c".into(), 0)]);
        Description { pin: 77, database: 99, at: 1234, segments, files, names, rows }
    }

    #[test]
    fn a_description_comes_back_whole_or_not_at_all() {
        let bytes = sample().encode();
        assert_eq!(Description::decode(&bytes).unwrap(), sample());
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(Description::decode(&damaged).is_err(), "byte {at}");
            assert!(Description::decode(&bytes[..at]).is_err(), "length {at}");
        }
    }

    #[test]
    fn numbers_that_contradict_each_other_are_refused() {
        let refused = |change: fn(&mut Description)| {
            let mut forged = sample();
            change(&mut forged);
            Description::decode(&forged.encode()).is_err()
        };
        assert!(refused(|d| d.segments[1].0 = 4));
        assert!(refused(|d| d.at = 5));
        assert!(refused(|d| d.files[1].table = TableId(3)));
        assert!(refused(|d| d.files[0].blocks[1].0 = 12));
        assert!(refused(|d| d.files[0].blocks[1].1.offset = 4096));
        assert!(refused(|d| d.files[0].blocks[1].1.len = 1 << 60));
        assert!(refused(|d| d.files[0].front.truncate(12)));
    }
}
