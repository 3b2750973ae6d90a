//! How many bytes of entries a page gets.
//!
//! A look-up that finds nothing in memory reads one page, and larger pages help only compression. So behind a page that
//! encoding and compression hardly made smaller, pages are small: a quarter of the format's size, at least [`LEAST`].
//!
//! Rows may be alike that do not lie in one small page. So small pages in a row are now and then compressed together, as
//! a sample that is not stored, and pages are large again if that helps. The first sample begins with the first small page;
//! behind each that did not help more pages are left out, up to [`MOST_SKIPPED`].
//!
//! Tested by `tests/it/page_sizes.rs`.

use crate::encode::PageEncoder;
use crate::format::Compression;

/// Bytes of entries of the smallest pages: each page needs a fence, and has its cost when a scan goes on to it.
const LEAST: usize = 4 << 10;
/// A page has so many times the memory that its fence takes: its first key, and [`FENCE_BYTES`].
const FENCES: usize = 64;
const FENCE_BYTES: usize = 25;
/// Small pages between two samples, at most. A sample takes 4 pages.
const MOST_SKIPPED: u32 = 28;

/// What the builder knows of a page that it has closed.
pub(crate) struct Closed {
    /// Bytes of the entries.
    pub logical: usize,
    pub stored: usize,
    /// Whether its compression was tried.
    pub is_tried: bool,
    /// Length of its first key.
    pub key: usize,
}

/// See the module.
pub(crate) struct PageSize {
    /// The format's size, and that of the next page.
    most: usize,
    now: usize,
    /// Payloads of small pages, and the bytes of their entries.
    sample: Vec<u8>,
    sampled: usize,
    /// Small pages to leave out before the sample goes on, and how many were left out before it.
    skip: u32,
    skipped: u32,
}

impl PageSize {
    pub fn new(most: usize) -> PageSize {
        PageSize { most, now: most, sample: Vec::new(), sampled: 0, skip: 0, skipped: 0 }
    }

    /// The next page is closed when it has so many bytes of entries.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.now
    }

    /// Takes note of a page that `encoder` has just made.
    pub fn closed(&mut self, page: &Closed, encoder: &mut PageEncoder, compression: Compression) {
        let is_poor = page.stored * 8 > page.logical * 7;
        match self.now < self.most {
            false if page.is_tried && is_poor => {
                self.now = self.small(page.key);
                self.skip = self.skipped;
            }
            false if page.is_tried => self.skipped = 0,
            true if page.is_tried && !is_poor => self.grow(encoder),
            true => {
                self.now = self.small(page.key);
                if compression != Compression::None {
                    self.look(page, encoder, compression);
                }
            }
            false => {}
        }
    }

    /// The size of small pages, by the length of a first key.
    fn small(&self, key: usize) -> usize {
        let least = LEAST.max(FENCES * (FENCE_BYTES + key));
        (self.most / 4).max(least).min(self.most)
    }

    /// Adds a small page to the sample, and compresses that when it is large enough.
    fn look(&mut self, page: &Closed, encoder: &mut PageEncoder, compression: Compression) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        // A large entry says nothing of its neighbours.
        if page.logical >= self.most {
            return;
        }
        self.sample.extend_from_slice(encoder.payload());
        self.sampled += page.logical;
        if self.sampled < self.most {
            return;
        }
        let packed = encoder.packed_bytes(&self.sample, compression);
        // Counts as one that did not help until a large page shows that it did.
        self.skipped = (2 * self.skipped + 4).min(MOST_SKIPPED);
        self.skip = self.skipped;
        match packed * 8 <= self.sampled * 7 {
            true => self.grow(encoder),
            false => self.forget(),
        }
    }

    fn grow(&mut self, encoder: &mut PageEncoder) {
        self.now = self.most;
        encoder.try_again();
        self.forget();
    }

    fn forget(&mut self) {
        self.sample.clear();
        self.sampled = 0;
    }
}
