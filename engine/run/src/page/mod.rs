//! A page in memory: its payload as stored, decompressed and validated, read in place.
//!
//! Invariants:
//!
//! - PG1. After [`Page::parse`] every accessor is total for positions below `len()`: no panic, no read
//!   outside the payload, whatever the bytes were.
//! - PG2. Parsing does not check that keys ascend; a search in unordered (forged) keys gives some
//!   position. Scans check order as they go and report corruption.
//!
//! The payload stays packed: a cached page takes about as much memory as its entries do on disk
//! before compression.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use frond_base::{checksum64_seeded, Error, Result};

use crate::columns::{Group, GROUP};
use crate::format::KeyShape;
use crate::layout::{Layout, CODEC_LZ4, CODEC_NONE, CODEC_ZSTD, MAX_PAYLOAD, PAGE_HEADER};
use crate::meta::RunMeta;

mod decode;
mod fields;
pub(crate) mod reader;
mod search;

pub(crate) use fields::{field_places, FieldPlace};

/// Words of the longest fixed key.
const WORDS: usize = KeyShape::MAX_BYTES / 8;

thread_local! {
    /// Zstandard contexts are expensive to make.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// A verified page.
pub struct Page {
    bytes: Box<[u8]>,
    start: usize,
    layout: Layout,
}

impl Page {
    /// Verifies and decodes the stored bytes of page `page_no` of the run that `meta` describes;
    /// `file` names where they came from in errors. Borrowed bytes are copied only if they are not compressed.
    pub fn parse<'a>(
        bytes: impl Into<Cow<'a, [u8]>>,
        meta: &RunMeta,
        page_no: u32,
        file: &str,
    ) -> Result<Page> {
        Self::decode(bytes.into(), meta, page_no).map_err(|what| {
            let block = meta.id.block;
            Error::corruption(file, format_args!("block {block}, page {page_no}: {what}"))
        })
    }

    fn decode(
        bytes: Cow<'_, [u8]>,
        meta: &RunMeta,
        page_no: u32,
    ) -> std::result::Result<Page, &'static str> {
        let Some((header, stored)) = bytes.split_first_chunk::<PAGE_HEADER>() else {
            return Err("page is shorter than its header");
        };
        let [c0, c1, c2, c3, c4, c5, c6, c7, l0, l1, l2, l3, codec, zeros @ ..] = *header;
        let checksum = u64::from_le_bytes([c0, c1, c2, c3, c4, c5, c6, c7]);
        if checksum64_seeded(&bytes[8..], meta.id.seed(page_no)) != checksum {
            return Err("checksum mismatch");
        }
        let raw_len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if zeros != [0; 3] || raw_len > MAX_PAYLOAD {
            return Err("impossible page header");
        }
        let raw = match codec {
            CODEC_NONE if raw_len == stored.len() => None,
            // LZ4 cannot do better than 255 to 1: do not allocate memory for a larger claim.
            CODEC_LZ4 if raw_len / 255 <= stored.len() => {
                let mut raw = vec![0; raw_len];
                match lz4_flex::block::decompress_into(stored, &mut raw) {
                    Ok(n) if n == raw_len => Some(raw),
                    _ => return Err("LZ4 data do not decompress"),
                }
            }
            CODEC_ZSTD => Some(zstd_decompress(stored, raw_len)?),
            _ => return Err("unknown codec or impossible length"),
        };
        let (bytes, start) = match raw {
            Some(raw) => (raw.into_boxed_slice(), 0),
            None => (bytes.into_owned().into_boxed_slice(), PAGE_HEADER),
        };
        let layout = Layout::parse(&bytes[start..], &meta.shape)?;
        Ok(Page { bytes, start, layout })
    }

    /// The payload: what value ranges of batches refer to.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    #[inline]
    fn column_data(&self) -> &[u8] {
        &self.bytes[self.start + self.layout.data..]
    }

    /// Entries; at least 1.
    pub fn len(&self) -> usize {
        self.layout.n
    }

    /// Never: a page holds at least one entry.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether no entry has a sequence of its own, so that each key has one entry, and none is a
    /// tombstone.
    #[inline]
    pub fn is_plain(&self, one_seq: bool) -> bool {
        (one_seq || self.layout.seq.is_none()) && self.layout.kind.is_none()
    }

    /// Bytes of memory that the page takes.
    pub fn memory_bytes(&self) -> usize {
        std::mem::size_of::<Page>() + self.bytes.len()
    }

    fn group_of(&self, i: usize) -> (Group, usize) {
        assert!(i < self.layout.n, "entry {i} of {}", self.layout.n);
        (self.layout.group(self.payload(), i / GROUP), i % GROUP)
    }

    /// The bytes that [`Reader::value`](reader::Reader::value) found.
    #[inline]
    pub fn value_at(&self, range: Range<usize>) -> &[u8] {
        &self.payload()[range]
    }

    fn number(&self, column: u8, i: usize) -> u64 {
        let (group, at) = self.group_of(i);
        group.column(usize::from(column)).get(self.column_data(), at)
    }

    /// Number of columns that hold the key.
    #[inline]
    fn key_columns(&self) -> usize {
        let optional = [self.layout.seq, self.layout.kind, self.layout.value_end];
        self.layout.columns.list().len() - optional.iter().flatten().count()
    }

    /// Bytes of each field of a fixed key.
    #[inline]
    fn key_widths(&self) -> &[u8] {
        &self.layout.columns.list()[..self.key_columns()]
    }

    fn fixed_len(&self) -> usize {
        self.key_widths().iter().map(|w| usize::from(*w)).sum()
    }

    /// The stored bytes of variable keys.
    fn keys(&self) -> &[u8] {
        &self.payload()[self.layout.keys..self.layout.values]
    }

    fn words(
        &self,
        places: &[FieldPlace; KeyShape::MAX_FIELDS],
        group: &Group,
        i: usize,
    ) -> [u64; WORDS] {
        let mut out = [0; WORDS];
        for (c, place) in places.iter().enumerate().take(self.key_columns()) {
            place.put(&mut out, group.column(c).get(self.column_data(), i) & place.mask);
        }
        out
    }
}

fn zstd_decompress(stored: &[u8], raw_len: usize) -> std::result::Result<Vec<u8>, &'static str> {
    ZSTD.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = zstd::bulk::Decompressor::new().ok();
        }
        let context = slot.as_mut().ok_or("no memory for a Zstandard context")?;
        match context.decompress(stored, raw_len) {
            Ok(raw) if raw.len() == raw_len => Ok(raw),
            _ => Err("Zstandard data do not decompress"),
        }
    })
}
