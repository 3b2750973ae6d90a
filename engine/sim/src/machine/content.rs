//! The bytes of a simulated file: sparse pages, shared between copies until written.

use std::sync::Arc;

/// Unit of sharing and of space, bytes.
pub const PAGE: usize = 4096;
/// Unit that a crash keeps whole, bytes (assumption V5 of the vfs).
pub const SECTOR: usize = 512;

type Page = Arc<[u8; PAGE]>;

/// A file's bytes. Bytes that were never written read as zeros and take no space.
#[derive(Clone, Default)]
pub struct Content {
    len: u64,
    pages: Vec<Option<Page>>,
}

impl Content {
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of pages that hold bytes.
    pub fn allocated(&self) -> u64 {
        self.pages.iter().flatten().count() as u64
    }

    /// Pages that writing `[offset, offset + len)` would allocate.
    pub fn missing(&self, offset: u64, len: usize) -> u64 {
        let (first, last) = page_range(offset, len);
        (first..last).filter(|&p| self.pages.get(p).is_none_or(Option::is_none)).count() as u64
    }

    /// Copies bytes at `offset` into `buf`; returns how many there are.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let n = (buf.len() as u64).min(self.len.saturating_sub(offset)) as usize;
        let mut done = 0;
        while done < n {
            let at = offset as usize + done;
            let (page, from) = (at / PAGE, at % PAGE);
            let take = (PAGE - from).min(n - done);
            match self.pages.get(page) {
                Some(Some(p)) => {
                    buf[done..done + take].copy_from_slice(&p[from..from + take]);
                }
                _ => buf[done..done + take].fill(0),
            }
            done += take;
        }
        n
    }

    pub fn write(&mut self, bytes: &[u8], offset: u64) {
        self.len = self.len.max(offset + bytes.len() as u64);
        self.write_within(bytes, offset);
    }

    /// Writes without changing the length.
    pub fn write_within(&mut self, bytes: &[u8], offset: u64) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset as usize + done;
            let (page, from) = (at / PAGE, at % PAGE);
            let take = (PAGE - from).min(bytes.len() - done);
            if self.pages.len() <= page {
                self.pages.resize(page + 1, None);
            }
            let p = self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(p)[from..from + take].copy_from_slice(&bytes[done..done + take]);
            done += take;
        }
    }

    /// Makes the bytes of `[offset, end)` zero; whole pages are given back.
    pub fn zero(&mut self, offset: u64, end: u64) {
        let end = end.min((self.pages.len() * PAGE) as u64);
        let mut at = offset;
        while at < end {
            let (page, from) = (at as usize / PAGE, at as usize % PAGE);
            let take = (PAGE - from).min((end - at) as usize);
            if take == PAGE {
                self.pages[page] = None;
            } else if let Some(p) = &mut self.pages[page] {
                Arc::make_mut(p)[from..from + take].fill(0);
            }
            at += take as u64;
        }
    }

    /// Changes the length; bytes behind a shorter end are gone.
    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.zero(len, u64::MAX);
            self.pages.truncate((len as usize).div_ceil(PAGE));
        }
        self.len = len;
    }

    /// Sets the length alone: bytes behind it stay, unseen.
    pub fn set_len_only(&mut self, len: u64) {
        self.len = len;
    }

    /// Takes over from `other` the pages that `[offset, offset + len)` touches.
    pub fn share(&mut self, other: &Content, offset: u64, len: usize) {
        let (first, last) = page_range(offset, len);
        for page in first..last {
            let theirs = other.pages.get(page).cloned().flatten();
            if self.pages.len() <= page {
                if theirs.is_none() {
                    continue;
                }
                self.pages.resize(page + 1, None);
            }
            self.pages[page] = theirs;
        }
    }

    pub fn sector(&self, sector: u64) -> [u8; SECTOR] {
        let mut out = [0; SECTOR];
        let at = sector as usize * SECTOR;
        if let Some(Some(p)) = self.pages.get(at / PAGE) {
            out.copy_from_slice(&p[at % PAGE..at % PAGE + SECTOR]);
        }
        out
    }
}

fn page_range(offset: u64, len: usize) -> (usize, usize) {
    (offset as usize / PAGE, (offset as usize + len).div_ceil(PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_back_across_pages_and_copies_are_independent() {
        let mut a = Content::default();
        a.write(&[7; 5000], 4000);
        let b = a.clone();
        a.zero(4096, 8192);
        let mut buf = [1; 9000];
        assert_eq!(a.read(&mut buf, 0), 9000);
        assert!(buf[4096..8192].iter().all(|&x| x == 0));
        assert!(buf[8192..].iter().all(|&x| x == 7));
        assert_eq!(b.read(&mut buf, 0), 9000);
        assert!(buf[4000..].iter().all(|&x| x == 7));
        assert_eq!((a.allocated(), b.allocated()), (2, 3));
    }

    #[test]
    fn shrinking_forgets_what_was_behind_the_end() {
        let mut a = Content::default();
        a.write(&[7; 100], 0);
        a.set_len(10);
        a.set_len(100);
        let mut buf = [1; 100];
        assert_eq!(a.read(&mut buf, 0), 100);
        assert_eq!((buf[9], buf[10]), (7, 0));
    }
}
