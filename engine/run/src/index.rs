//! The tail of a run: fences, and the filter if there is one.
//!
//! Format (varints unless said otherwise): number of pages; bytes of fences; the fences. Per page:
//! number of leading bytes that its fence shares with the fence before; the rest of the fence
//! (length-prefixed); stored length of the page, shifted left by one, with the lowest bit set when
//! the page starts with older versions of the last key of the page before. Then the filter, to the
//! end.
//!
//! The fence of a page is its first key, or as much of it as tells it from the last key of the page
//! before: fences of runs in use are in memory, and long keys would fill it. The first page's is whole.
//! Pages lie one behind the other from offset 0; the tail follows them. The tail's checksum is in
//! the run's metadata and is seeded like a page's, with page number 2^32-1.

use std::any::Any;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use frond_base::{
    checksum64_seeded, key_head, put_bytes, put_varint, ByteReader, Error, Result, ShortInput,
};

use crate::filter::{self, Filter};
use crate::format::MAX_KEY;
use crate::interpolation::count_below;
use crate::meta::RunMeta;

/// In memory a fence is kept whole unless that takes much more than it does in the tail: its length
/// must be at most this many times the bytes that it and the fences before it, back to the last whole
/// one, take in the tail. So fences of usual lengths are all whole; where they share thousands of
/// bytes, one in some dozens is whole, and of the others only the bytes that differ are kept.
const WHOLE: usize = 4;

/// Seeds the tail's checksum in place of a page number.
pub(crate) const TAIL: u32 = u32::MAX;

/// First keys of up to this many bytes are fences as they are.
pub(crate) const WHOLE_FENCE: usize = 1024;

/// The fence of a page that begins with `first`; `last` is the last key of the page before, which
/// differs.
pub(crate) fn fence_between<'k>(last: &[u8], first: &'k [u8]) -> &'k [u8] {
    if first.len() <= WHOLE_FENCE {
        return first;
    }
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    &first[..shared + 1]
}

/// Fences and positions of all pages, in memory.
pub struct RunIndex {
    heads: Vec<u64>,
    keys: Vec<u8>,
    /// End of what is kept of each page's fence in `keys`.
    key_ends: Vec<u32>,
    /// Number of leading bytes shared with the previous fence, which are not kept; 0 for a whole
    /// fence.
    shared: Vec<u32>,
    /// End of each page in the run.
    page_ends: Vec<u64>,
    /// Whether the page starts within the versions of a key.
    continued: Vec<bool>,
    filter: Option<Filter>,
    used: AtomicBool,
    /// Who accounts for the memory: see [`RunIndex::charge`].
    charge: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// Collects fences while a run is built.
#[derive(Default)]
pub(crate) struct FenceWriter {
    bytes: Vec<u8>,
    last: Vec<u8>,
    pub(crate) pages: u32,
}

impl FenceWriter {
    pub(crate) fn add(&mut self, fence: &[u8], stored_len: usize, continued: bool) {
        let shared = fence.iter().zip(&self.last).take_while(|(a, b)| a == b).count();
        put_varint(&mut self.bytes, shared as u64);
        put_bytes(&mut self.bytes, &fence[shared..]);
        put_varint(&mut self.bytes, (stored_len as u64) << 1 | u64::from(continued));
        self.last.clear();
        self.last.extend_from_slice(fence);
        self.pages += 1;
    }

    pub(crate) fn encoded_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the tail to `out`.
    pub(crate) fn finish(&self, hashes: Option<&[u64]>, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.pages));
        put_bytes(out, &self.bytes);
        if let Some(hashes) = hashes {
            filter::encode(hashes, out);
        }
    }
}

impl RunIndex {
    /// Verifies and decodes the bytes of `meta.index`.
    pub fn parse(bytes: &[u8], meta: &RunMeta, file: &str) -> Result<RunIndex> {
        Self::decode(bytes, meta).map_err(|what| {
            let block = meta.id.block;
            Error::corruption(file, format_args!("block {block}, fences: {what}"))
        })
    }

    fn decode(bytes: &[u8], meta: &RunMeta) -> std::result::Result<RunIndex, String> {
        if bytes.len() != meta.index.len as usize
            || checksum64_seeded(bytes, meta.id.seed(TAIL)) != meta.index.checksum
        {
            return Err("checksum mismatch".into());
        }
        let short = |e: ShortInput| e.to_string();
        let mut r = ByteReader::new(bytes);
        let pages = r.varint().map_err(short)?;
        let fences = r.bytes().map_err(short)?;
        // A fence takes at least three bytes.
        if pages != u64::from(meta.pages) || pages > fences.len() as u64 / 3 {
            return Err("number of pages contradicts the run's metadata".into());
        }
        let filter = match meta.has_filter {
            true => Some(
                Filter::parse(r.take(r.remaining()).map_err(short)?).ok_or("impossible filter")?,
            ),
            false if r.remaining() == 0 => None,
            false => return Err("bytes behind the fences".into()),
        };
        let n = pages as usize;
        let mut index = RunIndex {
            heads: Vec::with_capacity(n),
            keys: Vec::new(),
            key_ends: Vec::with_capacity(n),
            shared: Vec::with_capacity(n),
            page_ends: Vec::with_capacity(n),
            continued: Vec::with_capacity(n),
            filter,
            used: AtomicBool::new(true),
            charge: OnceLock::new(),
        };
        let mut r = ByteReader::new(fences);
        let mut page_end = 0u64;
        let mut last: Vec<u8> = Vec::new();
        let mut whole_at = 0;
        for page in 0..n {
            let shared = r.varint().map_err(short)?;
            let rest = r.bytes().map_err(short)?;
            let place = r.varint().map_err(short)?;
            if shared > last.len() as u64 {
                return Err(format!("fence {page} shares more than there is"));
            }
            let shared = shared as usize;
            let len = shared + rest.len();
            let ascends = page == 0 || last[shared..] <= *rest;
            if !ascends || len == 0 || len > MAX_KEY {
                return Err(format!("fence {page} is out of order or of impossible length"));
            }
            let continued = place & 1 == 1;
            if continued && page == 0 {
                return Err(format!("fence {page} continues no key"));
            }
            page_end = page_end.saturating_add(place >> 1);
            if place >> 1 > u64::from(u32::MAX) || page_end > meta.index.offset {
                return Err(format!("page {page} ends behind the pages"));
            }
            last.truncate(shared);
            last.extend_from_slice(rest);
            index.heads.push(key_head(&last));
            let whole = len <= WHOLE * (r.position() - whole_at);
            let kept = if whole { 0 } else { shared };
            if whole {
                whole_at = r.position();
            }
            index.keys.extend_from_slice(&last[kept..]);
            index.shared.push(kept as u32);
            if u32::try_from(index.keys.len()).is_err() {
                return Err("fences are too long".into());
            }
            index.key_ends.push(index.keys.len() as u32);
            index.page_ends.push(page_end);
            index.continued.push(continued);
        }
        index.keys.shrink_to_fit();
        let first = *index.fence(0) == *meta.min_key && last[..] <= *meta.max_key;
        if r.remaining() != 0 || page_end != meta.index.offset || !first {
            return Err("fences contradict the run's metadata".into());
        }
        Ok(index)
    }

    pub fn pages(&self) -> u32 {
        self.page_ends.len() as u32
    }

    /// Offset and length of the stored bytes of `page` within the run.
    pub fn page_range(&self, page: u32) -> (u64, u32) {
        let p = page as usize;
        let start = if p == 0 { 0 } else { self.page_ends[p - 1] };
        (start, (self.page_ends[p] - start) as u32)
    }

    /// What is kept of the fence of page `p`.
    #[inline]
    fn kept(&self, p: usize) -> &[u8] {
        let start = if p == 0 { 0 } else { self.key_ends[p - 1] };
        &self.keys[start as usize..self.key_ends[p] as usize]
    }

    /// The fence of `page`: its first key, or the beginning of a long one. It is above all keys of the page
    /// before, unless versions of the page's first key are there, too. Borrowed unless it shares very much
    /// with the fence before.
    #[inline]
    pub fn fence(&self, page: u32) -> Cow<'_, [u8]> {
        let p = page as usize;
        if self.shared[p] == 0 {
            return Cow::Borrowed(self.kept(p));
        }
        Cow::Owned(self.joined_key(p))
    }

    #[cold]
    fn joined_key(&self, p: usize) -> Vec<u8> {
        let whole = (0..p).rev().find(|q| self.shared[*q] == 0).unwrap_or(0);
        let mut key = self.kept(whole).to_vec();
        for q in whole + 1..=p {
            key.truncate(self.shared[q] as usize);
            key.extend_from_slice(self.kept(q));
        }
        key
    }

    /// The page to search for the first entry not below `key`. When a search in that page gives
    /// `len()`, the entry is the first of the next page, or there is none.
    pub fn page_for_seek(&self, key: &[u8]) -> u32 {
        let head = key_head(key);
        // Fences that are not above `key`; where heads are equal, keys are compared.
        let mut from = count_below(&self.heads, head);
        let mut to = from;
        if self.heads.get(from) == Some(&head) {
            to += self.heads[from..].partition_point(|h| *h == head);
        }
        while from < to {
            let mid = from + (to - from) / 2;
            if &*self.fence(mid as u32) <= key {
                from = mid + 1;
            } else {
                to = mid;
            }
        }
        let mut page = from.saturating_sub(1);
        while page > 0 && self.continued[page] && *self.fence(page as u32) == *key {
            page -= 1;
        }
        page as u32
    }

    /// False when the run certainly has no version of `key`; always true without a filter.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|f| f.may_contain(filter::hash(key)))
    }

    /// Without the filter: [`Self::may_contain`] says yes to all keys.
    #[must_use]
    pub fn without_filter(self) -> RunIndex {
        RunIndex { filter: None, ..self }
    }

    /// Whether its run has a filter that is not here.
    pub(crate) fn lacks_filter(&self, meta: &RunMeta) -> bool {
        meta.has_filter && self.filter.is_none()
    }

    #[inline]
    pub(crate) fn note_use(&self) {
        // Read first: a store would take the line from all other threads that read the run.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was used since it was made, or since the last call.
    pub fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Keeps what `charge` makes until the memory is free; the first call counts.
    pub fn charge<C: Any + Send + Sync>(&self, charge: impl FnOnce() -> C) {
        self.charge.get_or_init(|| Box::new(charge()));
    }

    /// Bytes of memory that this takes.
    pub fn memory_bytes(&self) -> usize {
        std::mem::size_of::<RunIndex>()
            + self.keys.len()
            + self.page_ends.len() * (8 + 8 + 4 + 4 + 1)
            + self.filter.as_ref().map_or(0, Filter::memory_bytes)
    }
}
