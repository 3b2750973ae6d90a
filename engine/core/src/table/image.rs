//! A table's checkpoint image, which the newest header of its file names.
//!
//! ```text
//! varint version (2; in version 1 the LSN is missing)
//! varint LSN of the checkpoint
//! varint rows (zigzag), varint next auto-increment, varint next row id
//! varint number of trees, each: varint length, the tree's own image
//! ```
//!
//! The LSN repeats the header's, so that damage to the header's alone is noticed: recovery applies
//! counters from that record on. Next values are below 2^62.
//!
//! The block map that locates the runs is added, and the whole checksummed, by `frond-space`.

use frond_base::{put_bytes, put_varint, ByteReader, Error, ErrorKind, Lsn, Result, ShortInput};

const VERSION: u64 = 2;
const WITHOUT_LSN: u64 = 1;

/// The decoded image; tree images are still encoded.
pub struct TableImage {
    /// `None` in an image of an earlier release.
    pub lsn: Option<Lsn>,
    pub rows: i64,
    pub auto_increment: u64,
    pub row_id: u64,
    pub trees: Vec<Vec<u8>>,
}

impl TableImage {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, if self.lsn.is_some() { VERSION } else { WITHOUT_LSN });
        if let Some(lsn) = self.lsn {
            put_varint(&mut out, lsn);
        }
        put_varint(&mut out, ((self.rows << 1) ^ (self.rows >> 63)) as u64);
        put_varint(&mut out, self.auto_increment);
        put_varint(&mut out, self.row_id);
        put_varint(&mut out, self.trees.len() as u64);
        for tree in &self.trees {
            put_bytes(&mut out, tree);
        }
        out
    }

    pub fn decode(bytes: &[u8], file: &str) -> Result<TableImage> {
        let mut r = ByteReader::new(bytes);
        let version = r.varint().map_err(|e| e.in_file(file, "image version"))?;
        if !(WITHOUT_LSN..=VERSION).contains(&version) {
            return Err(Error::new(
                ErrorKind::UnsupportedFormat,
                format!(
                    "{file}: image version {version}, this release reads up to {VERSION}; use a \
                     newer one"
                ),
            ));
        }
        Self::decode_body(&mut r, version).map_err(|e| e.in_file(file, "checkpoint image"))
    }

    fn decode_body(
        r: &mut ByteReader<'_>,
        version: u64,
    ) -> std::result::Result<TableImage, ShortInput> {
        let lsn = if version == VERSION { Some(r.varint()?) } else { None };
        let rows = r.varint()?;
        let rows = ((rows >> 1) as i64) ^ -((rows & 1) as i64);
        let (auto_increment, row_id) = (r.varint()?, r.varint()?);
        let n = r.bounded_len()?;
        let mut trees = Vec::with_capacity(n.min(64));
        for _ in 0..n {
            trees.push(r.bytes()?.to_vec());
        }
        if r.remaining() != 0 {
            return Err(ShortInput { at: r.position() });
        }
        Ok(TableImage { lsn, rows, auto_increment, row_id, trees })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_round_trips_and_cut_images_are_refused() {
        for lsn in [Some(1 << 40), None] {
            let image = TableImage {
                lsn,
                rows: -5,
                auto_increment: 77,
                row_id: 1,
                trees: vec![b"trunk".to_vec(), Vec::new()],
            };
            let bytes = image.encode();
            let back = TableImage::decode(&bytes, "1.frd").unwrap();
            assert_eq!((back.lsn, back.rows), (lsn, -5));
            assert_eq!((back.auto_increment, back.row_id), (77, 1));
            assert_eq!(back.trees, image.trees);
            for cut in 0..bytes.len() {
                assert!(TableImage::decode(&bytes[..cut], "1.frd").is_err(), "cut at {cut}");
            }
        }
        for version in [0, 3, 100] {
            let e = TableImage::decode(&[version, 0, 0, 0, 0], "1.frd").err().unwrap();
            assert_eq!(e.kind(), ErrorKind::UnsupportedFormat);
        }
    }
}
