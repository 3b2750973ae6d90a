//! Pending entries of one page, and their encoding into stored bytes (format: layout.rs).
//!
//! While all keys have the run's fixed shape they are kept as words; the first key that does not
//! fit turns the page into one of variable keys.

use frond_base::{checksum64_seeded, EntryKind, Seq};
use frond_vfs::AlignedBuf;

use crate::batch::head_into;
use crate::bits;
use crate::columns::{GroupWriter, GROUP};
use crate::format::{Compression, KeyShape};
use crate::layout::{
    ColumnPlan, BLOCK, CODEC_LZ4, CODEC_NONE, CODEC_ZSTD, FLAG_KIND, FLAG_SEQ, FLAG_VARIABLE,
    PAGE_HEADER, VALUES_SHIFT,
};
use crate::page::{field_places, FieldPlace};

/// Entries that are not encoded yet.
pub(crate) struct Pending {
    shape: KeyShape,
    key_bytes: usize,
    /// Words of a fixed key; 0 when the shape is variable.
    words_per_key: usize,
    places: [FieldPlace; KeyShape::MAX_FIELDS],
    pub(crate) n: usize,
    /// Key and value bytes.
    pub(crate) logical: usize,
    pub(crate) variable: bool,
    words: Vec<u64>,
    keys: Vec<u8>,
    ends: Vec<u32>,
    seqs: Vec<Seq>,
    kinds: Vec<EntryKind>,
    values: Vec<u8>,
    value_ends: Vec<u32>,
}

impl Pending {
    pub(crate) fn new(shape: KeyShape) -> Pending {
        let key_bytes = shape.key_bytes();
        Pending {
            shape,
            key_bytes,
            words_per_key: key_bytes.div_ceil(8),
            places: field_places(shape.widths()),
            n: 0,
            logical: 0,
            variable: shape.is_variable(),
            words: Vec::new(),
            keys: Vec::new(),
            ends: Vec::new(),
            seqs: Vec::new(),
            kinds: Vec::new(),
            values: Vec::new(),
            value_ends: Vec::new(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.n = 0;
        self.logical = 0;
        self.variable = self.shape.is_variable();
        self.words.clear();
        self.keys.clear();
        self.ends.clear();
        self.seqs.clear();
        self.kinds.clear();
        self.values.clear();
        self.value_ends.clear();
    }

    pub(crate) fn shape(&self) -> KeyShape {
        self.shape
    }

    pub(crate) fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Replaces `out` by key `i`.
    pub(crate) fn key_into(&self, i: usize, out: &mut Vec<u8>) {
        out.clear();
        if self.variable {
            out.extend_from_slice(self.long_key(i));
        } else {
            let w = self.words_per_key;
            head_into(&self.words[i * w..(i + 1) * w], self.key_bytes, out);
        }
    }

    fn long_key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.keys[start as usize..self.ends[i] as usize]
    }

    /// Adds an entry whose key is of the fixed shape, given by its words.
    #[inline(always)]
    pub(crate) fn push_words<const W: usize>(
        &mut self,
        words: &[u64; W],
        seq: Seq,
        kind: EntryKind,
        value: &[u8],
    ) {
        debug_assert_eq!(W, self.words_per_key);
        if self.variable {
            head_into(words, self.key_bytes, &mut self.keys);
            self.ends.push(self.keys.len() as u32);
        } else {
            self.words.extend_from_slice(words);
        }
        self.push_rest(self.key_bytes, seq, kind, value);
    }

    /// Adds any entry.
    pub(crate) fn push_key(&mut self, key: &[u8], seq: Seq, kind: EntryKind, value: &[u8]) {
        if !self.variable && key.len() == self.key_bytes {
            let head = crate::batch::head_of::<{ KeyShape::MAX_BYTES / 8 }>(key);
            self.words.extend_from_slice(&head[..self.words_per_key]);
        } else {
            if !self.variable {
                for words in self.words.chunks_exact(self.words_per_key) {
                    head_into(words, self.key_bytes, &mut self.keys);
                    self.ends.push(self.keys.len() as u32);
                }
                self.words.clear();
                self.variable = true;
            }
            self.keys.extend_from_slice(key);
            self.ends.push(self.keys.len() as u32);
        }
        self.push_rest(key.len(), seq, kind, value);
    }

    #[inline(always)]
    fn push_rest(&mut self, key_len: usize, seq: Seq, kind: EntryKind, value: &[u8]) {
        let n = self.n;
        if seq != 0 || !self.seqs.is_empty() {
            self.seqs.resize(n, 0);
            self.seqs.push(seq);
        }
        if kind != EntryKind::Put || !self.kinds.is_empty() {
            self.kinds.resize(n, EntryKind::Put);
            self.kinds.push(kind);
        }
        if !value.is_empty() || !self.value_ends.is_empty() {
            self.value_ends.resize(n, 0);
            self.values.extend_from_slice(value);
            self.value_ends.push(self.values.len() as u32);
        }
        self.n = n + 1;
        self.logical += key_len + value.len();
    }

    /// The common length of all values, if they have one and it is not 0.
    fn value_width(&self) -> Option<u32> {
        let width = *self.value_ends.first()?;
        let equal = |w: &[u32]| w[1] - w[0] == width;
        (width > 0 && self.value_ends.windows(2).all(equal)).then_some(width)
    }
}

/// Turns pending entries into stored pages; keeps its buffers from page to page.
pub(crate) struct PageEncoder {
    headers: Vec<u8>,
    data: Vec<u8>,
    suffixes: Vec<u8>,
    prefixes: Vec<u8>,
    payload: Vec<u8>,
    /// As long as it was ever needed, so that it need not be cleared for each page; the compressed page is at its
    /// beginning.
    packed: Vec<u8>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    /// Pages in a row in which LZ4 saved less than an eighth, and how many it does not try now.
    poor: u32,
    untried: u32,
}

/// After so many poor pages in a row LZ4 does not try the next [`UNTRIED`] ones.
const POOR: u32 = 4;
const UNTRIED: u32 = 7;

impl PageEncoder {
    pub(crate) fn new(compression: Compression) -> PageEncoder {
        let zstd = match compression {
            // Without memory for a context pages stay uncompressed, which is always valid.
            Compression::Zstd(level) => zstd::bulk::Compressor::new(i32::from(level)).ok(),
            _ => None,
        };
        PageEncoder {
            headers: Vec::new(),
            data: Vec::new(),
            suffixes: Vec::new(),
            prefixes: Vec::new(),
            payload: Vec::new(),
            packed: Vec::new(),
            zstd,
            poor: 0,
            untried: 0,
        }
    }

    /// Appends `pending`, which is not empty, as a stored page. False: compressing it was not tried.
    pub(crate) fn encode(
        &mut self,
        pending: &Pending,
        compression: Compression,
        seed: u64,
        out: &mut AlignedBuf,
    ) -> bool {
        let is_tried = self.untried == 0;
        self.build_payload(pending);
        let start = out.len();
        out.resize(start + PAGE_HEADER);
        let (codec, len) = self.compress(compression);
        let stored = if codec == CODEC_NONE { &self.payload } else { &self.packed[..len] };
        out.extend_from_slice(stored);
        let page = &mut out[start..];
        page[8..12].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        page[12] = codec;
        let checksum = checksum64_seeded(&page[8..], seed);
        page[..8].copy_from_slice(&checksum.to_le_bytes());
        is_tried
    }

    /// The last page before it was compressed.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// What `bytes` take when compressed; their length where that saves less than a sixteenth.
    pub(crate) fn packed_bytes(&mut self, bytes: &[u8], compression: Compression) -> usize {
        pack(bytes, compression, &mut self.packed, &mut self.zstd).unwrap_or(bytes.len())
    }

    /// The next page's compression is tried, whatever the last ones were.
    pub(crate) fn try_again(&mut self) {
        self.untried = 0;
    }

    /// Compresses the payload into `packed` where that saves a sixteenth at least; returns how, and the length.
    fn compress(&mut self, compression: Compression) -> (u8, usize) {
        let plain = (CODEC_NONE, self.payload.len());
        if self.untried > 0 {
            self.untried -= 1;
            return plain;
        }
        let packed = pack(&self.payload, compression, &mut self.packed, &mut self.zstd);
        if compression == Compression::Lz4 {
            self.poor = match packed.is_none_or(|n| n > self.payload.len() - self.payload.len() / 8)
            {
                true => self.poor.saturating_add(1),
                false => 0,
            };
            if self.poor >= POOR {
                self.untried = UNTRIED;
            }
        }
        match (packed, compression) {
            (None, _) | (_, Compression::None) => plain,
            (Some(n), Compression::Lz4) => (CODEC_LZ4, n),
            (Some(n), Compression::Zstd(_)) => (CODEC_ZSTD, n),
        }
    }

    fn build_payload(&mut self, p: &Pending) {
        let width = p.value_width();
        let values_kind = match (p.value_ends.is_empty(), width) {
            (true, _) => 0u8,
            (false, Some(_)) => 1,
            (false, None) => 2,
        };
        let flags = if p.variable { FLAG_VARIABLE } else { 0 }
            | if p.seqs.is_empty() { 0 } else { FLAG_SEQ }
            | if p.kinds.is_empty() { 0 } else { FLAG_KIND }
            | values_kind << VALUES_SHIFT;
        self.headers.clear();
        self.data.clear();
        self.prefixes.clear();
        self.suffixes.clear();
        match (p.variable, p.words_per_key) {
            (true, _) => self.groups(p, flags, |e, p, g| e.variable_keys(p, g)),
            (_, 1) => self.groups(p, flags, |e, p, g| e.fixed_keys::<1>(p, g)),
            (_, 2) => self.groups(p, flags, |e, p, g| e.fixed_keys::<2>(p, g)),
            (_, 3) => self.groups(p, flags, |e, p, g| e.fixed_keys::<3>(p, g)),
            _ => self.groups(p, flags, |e, p, g| e.fixed_keys::<4>(p, g)),
        }
        let out = &mut self.payload;
        out.clear();
        out.extend_from_slice(&[flags, 0, 0, 0]);
        let lens = [p.n, self.data.len(), self.suffixes.len(), p.values.len()];
        for len in lens {
            out.extend_from_slice(&(len as u32).to_le_bytes());
        }
        let width = if values_kind == 1 { width.unwrap_or(0) } else { 0 };
        out.extend_from_slice(&width.to_le_bytes());
        for part in [&self.headers, &self.data, &self.prefixes, &self.suffixes, &p.values] {
            out.extend_from_slice(part);
        }
        out.extend_from_slice(&[0; bits::SLACK]);
    }

    fn groups(
        &mut self,
        p: &Pending,
        flags: u8,
        mut keys: impl FnMut(&mut Self, &Pending, std::ops::Range<usize>),
    ) {
        let plan = ColumnPlan::new(&p.shape, flags);
        let mut numbers = [0u64; GROUP];
        for start in (0..p.n).step_by(GROUP) {
            let range = start..(start + GROUP).min(p.n);
            self.writer().start();
            keys(self, p, range.clone());
            let mut writer = self.writer();
            let numbers = &mut numbers[..range.len()];
            if plan.seq.is_some() {
                fill(numbers, p.seqs[range.clone()].iter().copied());
                writer.column(8, numbers);
            }
            if plan.kind.is_some() {
                fill(numbers, p.kinds[range.clone()].iter().map(|k| *k as u64));
                writer.column(1, numbers);
            }
            if plan.value_end.is_some() {
                fill(numbers, p.value_ends[range].iter().map(|e| u64::from(*e)));
                writer.column(4, numbers);
            }
        }
    }

    fn writer(&mut self) -> GroupWriter<'_> {
        GroupWriter { headers: &mut self.headers, data: &mut self.data }
    }

    /// The key columns of the entries in `range`, from words.
    fn fixed_keys<const W: usize>(&mut self, p: &Pending, range: std::ops::Range<usize>) {
        let (words, _) = p.words[range.start * W..range.end * W].as_chunks::<W>();
        // Bits in which any key differs from the first: fields without such bits are constant.
        let first = words[0];
        let mut differ = [0u64; W];
        for key in words {
            for w in 0..W {
                differ[w] |= key[w] ^ first[w];
            }
        }
        let mut numbers = [0u64; GROUP];
        let numbers = &mut numbers[..words.len()];
        let mut writer = GroupWriter { headers: &mut self.headers, data: &mut self.data };
        for (bytes, place) in p.shape.widths().iter().zip(&p.places) {
            if place.take(&differ) == 0 {
                writer.constant(*bytes, place.take(&first));
                continue;
            }
            let FieldPlace { word, shift, spill, mask } = *place;
            if spill == 0 {
                fill(numbers, words.iter().map(|key| (key[word] >> shift) & mask));
            } else {
                let take =
                    |k: &[u64; W]| ((k[word] << spill) | (k[word + 1] >> (64 - spill))) & mask;
                fill(numbers, words.iter().map(take));
            }
            writer.column(*bytes, numbers);
        }
    }

    /// The key-end column and the key bytes of the entries in `range`.
    fn variable_keys(&mut self, p: &Pending, range: std::ops::Range<usize>) {
        let mut numbers = [0u64; GROUP];
        for start in range.clone().step_by(BLOCK) {
            let end = (start + BLOCK).min(range.end);
            let first = p.long_key(start);
            // Keys ascend, so what the first and the last share all of them share.
            let same = first.iter().zip(p.long_key(end - 1)).take_while(|(a, b)| a == b).count();
            let shared = same.min(usize::from(u16::MAX));
            self.prefixes.extend_from_slice(&(shared as u16).to_le_bytes());
            for i in start..end {
                let cut = if i == start { 0 } else { shared };
                self.suffixes.extend_from_slice(&p.long_key(i)[cut..]);
                numbers[i - range.start] = self.suffixes.len() as u64;
            }
        }
        self.writer().column(4, &mut numbers[..range.len()]);
    }
}

#[inline]
fn fill(to: &mut [u64], from: impl Iterator<Item = u64>) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = from;
    }
}

/// Compresses `bytes` to the beginning of `packed`; returns the length if that saves a sixteenth at least.
fn pack(
    bytes: &[u8],
    compression: Compression,
    packed: &mut Vec<u8>,
    zstd: &mut Option<zstd::bulk::Compressor<'static>>,
) -> Option<usize> {
    let worth = bytes.len() - bytes.len() / 16;
    let room = match compression {
        Compression::None => return None,
        Compression::Lz4 => lz4_flex::block::get_maximum_output_size(bytes.len()),
        Compression::Zstd(_) => worth,
    };
    if packed.len() < room {
        packed.resize(room, 0);
    }
    let n = match compression {
        Compression::Lz4 => lz4_flex::block::compress_into(bytes, packed).ok(),
        _ => zstd.as_mut()?.compress_to_buffer(bytes, &mut packed[..room]).ok(),
    };
    n.filter(|n| *n < worth)
}
